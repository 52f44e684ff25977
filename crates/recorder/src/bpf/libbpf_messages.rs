//! libbpf's messages, collected instead of printed.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of libbpf's messages that are stored, the last ones: a verifier's log can have many megabytes.
const MAX_BYTES: usize = 256 << 10;
static MESSAGES: Mutex<String> = Mutex::new(String::new());
static CAPTURING: Mutex<()> = Mutex::new(());

/// libbpf's messages, collected instead of printed while this lives. One at a time in a process; others wait.
pub(super) struct LibbpfMessages {
    _only: MutexGuard<'static, ()>,
}

impl LibbpfMessages {
    pub(super) fn capture() -> Self {
        let only = CAPTURING.lock().unwrap_or_else(PoisonError::into_inner);
        MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).clear();
        libbpf_rs::set_print(Some((PrintLevel::Warn, store)));
        Self { _only: only }
    }

    pub(super) fn text(&self) -> String {
        MESSAGES.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for LibbpfMessages {
    fn drop(&mut self) {
        libbpf_rs::set_print(None);
    }
}

fn store(_level: PrintLevel, message: String) {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    messages.push_str(&message);
    if messages.len() > 2 * MAX_BYTES {
        let mut cut = messages.len() - MAX_BYTES;
        while !messages.is_char_boundary(cut) {
            cut += 1;
        }
        messages.drain(..cut);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_endless_messages_is_stored() {
        let messages = LibbpfMessages::capture();
        for _ in 0..10_000 {
            store(PrintLevel::Warn, "ä".repeat(100));
        }
        store(PrintLevel::Warn, "the end".into());
        assert!(messages.text().len() <= 2 * MAX_BYTES + 200 && messages.text().ends_with("the end"));
    }
}
