//! The file that keeps a machine's limits: one for each machine, which is known by its name, processors, memory and
//! kernel. What was measured on another one is not used.

use crate::target::cache_folder;
use crate::trace::{Host, Roofline};
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Raise this with every change of what is measured, or of how it is kept.
const FORMAT: u32 = 1;
/// A larger file was not written by us.
const LARGEST: u64 = 4 << 20;
/// Bytes of memory may differ by this part between two starts of one machine.
const SAME_MEMORY: u64 = 64;

/// What a file holds.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Stored {
    format: u32,
    /// The machine.
    host: Host,
    /// Its limits.
    roofline: Roofline,
}

/// Where limits are kept: folders that are looked through, the first one being written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    folders: Vec<PathBuf>,
}

impl Kept {
    /// In the user's cache; another user's home may be looked through as well, for one who calls through `sudo`.
    pub fn new(home: Option<&Path>) -> Self {
        let of_caller = home.map(|home| home.join(".cache/profinfer"));
        let folders = cache_folder().into_iter().chain(of_caller).map(|folder| folder.join("roofline"));
        Self { folders: folders.collect() }
    }

    /// This machine's limits, if they were measured, and the file they are in.
    pub fn load(&self, host: &Host) -> Option<(Roofline, PathBuf)> {
        self.folders.iter().find_map(|folder| {
            let path = folder.join(file_name(host));
            read(&path, host).map(|roofline| (roofline, path))
        })
    }

    /// Keeps them where [`Self::load`] finds them.
    ///
    /// # Errors
    /// There is no folder for it, or it cannot be written to.
    pub fn save(&self, host: &Host, roofline: &Roofline) -> std::io::Result<PathBuf> {
        let folder = self.folders.first().ok_or(std::io::ErrorKind::NotFound)?;
        std::fs::create_dir_all(folder)?;
        let stored = Stored { format: FORMAT, host: host.clone(), roofline: roofline.clone() };
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string_pretty(&stored)?.as_bytes())?;
        let path = folder.join(file_name(host));
        file.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    }
}

fn file_name(host: &Host) -> String {
    let Host { name, kernel, arch, cpu_model, cpus, .. } = host;
    let digest = Sha256::digest(format!("{name}\n{kernel}\n{arch}\n{cpu_model}\n{cpus}"));
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}.json")
}

fn read(path: &Path, host: &Host) -> Option<Roofline> {
    let mut text = Vec::new();
    std::fs::File::open(path).ok()?.take(LARGEST + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > LARGEST {
        return None;
    }
    let found: Stored = serde_json::from_slice(&text).ok()?;
    let same_memory = found.host.memory.abs_diff(host.memory) <= host.memory / SAME_MEMORY;
    let same = Host { memory: host.memory, ..found.host } == *host;
    (found.format == FORMAT && same && same_memory && !found.roofline.figures.is_empty()).then_some(found.roofline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Figure, Quantity};

    fn host() -> Host {
        Host {
            name: "one".into(),
            kernel: "6.18".into(),
            arch: "x86_64".into(),
            cpu_model: "some".into(),
            cpus: 8,
            memory: 16 << 30,
            ..Host::default()
        }
    }

    fn roofline() -> Roofline {
        let figure = Figure {
            quantity: Quantity::Int8,
            level: None,
            cpus: 8,
            core_type: None,
            instructions: "none".into(),
            working_set: 0,
            repetitions: 3,
            best: 4,
            median: 3,
            low: 2,
            high: 3,
            off_cpu_percent: 0,
        };
        Roofline { measured_at: 1_700_000_000, cpus: 8, figures: vec![figure], ..Roofline::default() }
    }

    #[test]
    fn limits_are_of_one_machine() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { folders: vec![folder.path().join("new")] };
        assert_eq!(kept.load(&host()), None);
        let path = kept.save(&host(), &roofline()).unwrap();
        assert_eq!(kept.load(&host()), Some((roofline(), path.clone())));
        let more = Host { memory: (16 << 30) + 4096, ..host() };
        assert!(kept.load(&more).is_some(), "a kernel may keep a little more or less for itself");
        for other in [
            Host { name: "two".into(), ..host() },
            Host { kernel: "6.19".into(), ..host() },
            Host { cpu_model: "other".into(), ..host() },
            Host { cpus: 4, ..host() },
            Host { memory: 32 << 30, ..host() },
        ] {
            assert_eq!(kept.load(&other), None);
            // Nor by a file that was put there by hand.
            let there = kept.folders[0].join(file_name(&other));
            if there != path {
                std::fs::copy(&path, there).unwrap();
                assert_eq!(kept.load(&other), None);
            }
        }
        for damage in ["", "{}", "[1, 2", "null"] {
            std::fs::write(&path, damage).unwrap();
            assert_eq!(kept.load(&host()), None, "{damage}");
        }
        let newer = Stored { format: FORMAT + 1, host: host(), roofline: roofline() };
        std::fs::write(&path, serde_json::to_string(&newer).unwrap()).unwrap();
        assert_eq!(kept.load(&host()), None);
    }

    #[test]
    fn what_nothing_was_measured_for_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept { folders: vec![folder.path().to_owned()] };
        kept.save(&host(), &Roofline::default()).unwrap();
        assert_eq!(kept.load(&host()), None);
        assert!(Kept { folders: Vec::new() }.save(&host(), &roofline()).is_err());
    }

    #[test]
    fn the_caller_s_home_is_looked_through_too() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = folder.path().join("home/.cache/profinfer/roofline");
        Kept { folders: vec![theirs.clone()] }.save(&host(), &roofline()).unwrap();
        let kept = Kept { folders: vec![folder.path().join("root"), theirs] };
        assert!(kept.load(&host()).is_some());
        assert!(Kept::new(Some(Path::new("/home/a"))).folders.iter().any(|f| f.starts_with("/home/a/.cache")));
    }
}
