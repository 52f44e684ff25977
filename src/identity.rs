//! What a target is called: the same if it is started again, so that its figures go on where they were.

use super::bounded;
use super::container::{container, paths};
use profinfer_live::Container;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Bytes of a file in `/proc` that are read.
const MAX_FILE: u64 = 1 << 20;
/// Hexadecimal digits that tell commands of one program apart.
const DIGITS: usize = 8;

/// A target's name, and the container that it is in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) container: Option<Container>,
}

impl Identity {
    /// Of a running process: by its container, the unit of the service manager, or its command.
    pub(crate) fn of_process(pid: u32) -> Self {
        let read = |name: &str| bounded::read(format!("/proc/{pid}/{name}"), MAX_FILE).unwrap_or_default();
        let groups = String::from_utf8_lossy(&read("cgroup")).into_owned();
        let container = container(&groups);
        let name = container.as_ref().map(of_container).or_else(|| unit(&groups)).unwrap_or_else(|| {
            let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let line = read("cmdline");
            of_command(&program, line.split(|byte| *byte == 0).filter(|word| !word.is_empty()))
        });
        Self { name, container }
    }

    /// Of a command that is launched.
    pub(crate) fn of_command<'a>(words: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let program = words.clone().next().unwrap_or_default();
        let name = of_command(Path::new(&*String::from_utf8_lossy(program)), words);
        Self { name, container: None }
    }
}

/// `namespace/pod/container`, a container's name, or the beginning of its number.
fn of_container(of: &Container) -> String {
    let parts = [of.namespace.as_deref(), of.pod.as_deref(), Some(of.shown())];
    parts.into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// The innermost service of the service manager that a process belongs to.
fn unit(groups: &str) -> Option<String> {
    let service = paths(groups).find_map(|path| {
        let mut parts = path.rsplit('/').filter_map(|part| part.strip_suffix(".service"));
        // A user's manager is no service of theirs.
        parts.next().filter(|name| !name.starts_with("user@"))
    });
    service.map(str::to_owned)
}

/// The program's file, and a part of a hash of the command: its words may be secret.
fn of_command<'a>(program: &Path, words: impl Iterator<Item = &'a [u8]>) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut hash = Sha256::new();
    for word in words {
        hash.update(word);
        hash.update([0]);
    }
    let digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}", name.trim_end_matches(" (deleted)"), digits.get(..DIGITS).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_name_what_they_run() {
        for (groups, expected) in [
            ("0::/system.slice/llm.service\n", Some("llm")),
            ("1:name=systemd:/system.slice/llm.service/worker\n0::/", Some("llm")),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/chat@2.service", Some("chat@2")),
            ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope", None),
            ("0::/user.slice/user-1000.slice/session-4.scope", None),
            ("0::/\nbroken", None),
        ] {
            assert_eq!(unit(groups).as_deref(), expected, "{groups}");
        }
    }

    #[test]
    fn commands_are_told_apart_and_not_shown() {
        let of = |line: &str| Identity::of_command(line.split(' ').map(str::as_bytes)).name;
        let name = of("/usr/bin/chat-server --api-key secret");
        assert!(name.starts_with("chat-server-") && name.len() == "chat-server-".len() + DIGITS, "{name}");
        assert_eq!(name, of("/usr/bin/chat-server --api-key secret"));
        assert_ne!(name, of("/usr/bin/chat-server --api-key others"));
        // The words are whole: two are not one.
        assert_ne!(of("a b c"), of("a bc"));
        assert!(!Identity::of_process(std::process::id()).name.is_empty());
        assert!(Identity::of_command(std::iter::empty()).name.starts_with('-'));
    }

    #[test]
    fn containers_have_their_pod_s_name() {
        let mut of = Container { id: "0123456789abcdef".repeat(4), ..Container::default() };
        assert_eq!(of_container(&of), "0123456789ab");
        of.name = Some("server".into());
        assert_eq!(of_container(&of), "server");
        of.pod = Some("llm-0".into());
        of.namespace = Some("prod".into());
        assert_eq!(of_container(&of), "prod/llm-0/server");
    }
}
