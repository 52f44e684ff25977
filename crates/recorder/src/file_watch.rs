//! Tells at once when a file that has probes is written to. It deals with files only.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use profinfer_binary::InspectedFile;
use std::os::fd::{AsFd, BorrowedFd};

/// A watch over files. Without it (a system out of watches) writes are noticed a second later, or before the next
/// attachment.
#[derive(Debug)]
pub(super) struct FileWatch(Option<Inotify>);

impl FileWatch {
    pub(super) fn new() -> Self {
        Self(Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok())
    }

    /// Watches a file, too.
    pub(super) fn add(&self, file: &InspectedFile) {
        if let Some(inotify) = &self.0 {
            let _ = inotify.add_watch(&file.path(), AddWatchFlags::IN_MODIFY);
        }
    }

    /// Readable once a file was written to.
    pub(super) fn written(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Whether any file was written to since this was last asked.
    pub(super) fn take(&self) -> bool {
        self.0.as_ref().is_some_and(|inotify| inotify.read_events().is_ok_and(|events| !events.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_write_is_told_and_a_new_name_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "first").unwrap();
        let file = InspectedFile::open(&path).unwrap();
        let watch = FileWatch::new();
        watch.add(&file);
        std::fs::rename(&path, folder.path().join("b")).unwrap();
        assert!(!watch.take());
        std::fs::OpenOptions::new().append(true).open(folder.path().join("b")).unwrap().write_all(b"more").unwrap();
        assert!(watch.take());
        assert!(!watch.take());
    }
}
