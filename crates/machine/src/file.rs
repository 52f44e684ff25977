//! The file with a machine's limits: one for each machine, identified by its name, processors, memory and
//! kernel. What was measured on another one is not used.

use super::machine::Machine;
use profinfer_files::cache::{Store, hexadecimal};
use profinfer_schema::{Host, Roofline};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Raise this with every change of the measurement or of its format.
const FORMAT: u32 = 3;
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

/// Where limits are stored: the user's files, which are written, then others that are only read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedLimits {
    stores: Vec<Store>,
    /// Processors that this process may use. What was measured on fewer of them is not the machine's.
    cpus: usize,
}

impl SavedLimits {
    /// In the user's cache. That of one who calls through `sudo`, by home and number, is searched as well: limits are
    /// figures that this user sees, and anyone may measure.
    pub fn new(caller: Option<(&Path, u32)>) -> Self {
        let of_caller = caller.map(|(home, user)| Store::of_caller(home, user, "roofline", LARGEST));
        let stores = Store::of_user("roofline", LARGEST).into_iter().chain(of_caller).collect();
        Self { stores, cpus: Machine::allowed(Path::new("/")).len() }
    }

    /// This machine's limits, if they were measured, and the file they are in.
    pub fn load(&self, host: &Host) -> Option<(Roofline, PathBuf)> {
        let key = key(host);
        let of_all = |limits: &Roofline| limits.cpus as usize >= self.cpus;
        let mut found = self.stores.iter().filter_map(|store| Some((read(store, &key, host)?, store.path(&key))));
        found.find(|(limits, _)| of_all(limits))
    }

    /// Keeps them where [`Self::load`] finds them.
    ///
    /// # Errors
    /// There is no folder for it, or it cannot be written to.
    pub fn save(&self, host: &Host, roofline: &Roofline) -> std::io::Result<PathBuf> {
        let store = self.stores.first().ok_or(std::io::ErrorKind::NotFound)?;
        store.put_json(&key(host), &Stored { format: FORMAT, host: host.clone(), roofline: roofline.clone() })
    }
}

fn key(host: &Host) -> String {
    let Host { name, kernel, arch, cpu_model, cpus, .. } = host;
    let digest = Sha256::digest(format!("{name}\n{kernel}\n{arch}\n{cpu_model}\n{cpus}"));
    hexadecimal(digest.get(..8).unwrap_or_default())
}

fn read(store: &Store, key: &str, host: &Host) -> Option<Roofline> {
    let found: Stored = store.get_json(key)?;
    let same_memory = found.host.memory.abs_diff(host.memory) <= host.memory / SAME_MEMORY;
    let same = Host { memory: host.memory, ..found.host } == *host;
    (found.format == FORMAT && same && same_memory && !found.roofline.figures.is_empty()).then_some(found.roofline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{Figure, Quantity};

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
        let store = Store::at(&folder.path().join("new"), "roofline", LARGEST);
        let saved = SavedLimits { stores: vec![store.clone()], cpus: 8 };
        assert_eq!(saved.load(&host()), None);
        let path = saved.save(&host(), &roofline()).unwrap();
        assert_eq!(saved.load(&host()), Some((roofline(), path.clone())));
        assert_eq!(SavedLimits { cpus: 9, ..saved.clone() }.load(&host()), None, "it was measured on fewer");
        let more = Host { memory: (16 << 30) + 4096, ..host() };
        assert!(saved.load(&more).is_some(), "a kernel may keep a little more or less for itself");
        for other in [
            Host { name: "two".into(), ..host() },
            Host { kernel: "6.19".into(), ..host() },
            Host { cpu_model: "other".into(), ..host() },
            Host { cpus: 4, ..host() },
            Host { memory: 32 << 30, ..host() },
        ] {
            assert_eq!(saved.load(&other), None);
            // Nor by a file that was put there by hand.
            let own = store.get(&key(&host())).unwrap();
            if key(&other) != key(&host()) {
                store.put(&key(&other), &own).unwrap();
                assert_eq!(saved.load(&other), None);
            }
        }
        for damage in ["", "{}", "[1, 2", "null"] {
            store.put(&key(&host()), damage.as_bytes()).unwrap();
            assert_eq!(saved.load(&host()), None, "{damage}");
        }
        let newer = Stored { format: FORMAT + 1, host: host(), roofline: roofline() };
        store.put_json(&key(&host()), &newer).unwrap();
        assert_eq!(saved.load(&host()), None);
    }

    #[test]
    fn what_nothing_was_measured_for_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let saved = SavedLimits { stores: vec![Store::at(folder.path(), "roofline", LARGEST)], cpus: 8 };
        saved.save(&host(), &Roofline::default()).unwrap();
        assert_eq!(saved.load(&host()), None);
        assert!(SavedLimits { stores: Vec::new(), cpus: 8 }.save(&host(), &roofline()).is_err());
    }

    #[test]
    fn the_caller_s_home_is_looked_through_too() {
        let folder = tempfile::tempdir().unwrap();
        let (home, user) = (folder.path().join("home"), nix::unistd::geteuid().as_raw());
        let theirs = Store::at(&home.join(".cache/profinfer"), "roofline", LARGEST);
        SavedLimits { stores: vec![theirs], cpus: 8 }.save(&host(), &roofline()).unwrap();
        let own = Store::at(&folder.path().join("root"), "roofline", LARGEST);
        let of = |user| Store::of_caller(&home, user, "roofline", LARGEST);
        assert!(SavedLimits { stores: vec![own.clone(), of(user)], cpus: 8 }.load(&host()).is_some());
        assert!(
            SavedLimits { stores: vec![own, of(user + 1)], cpus: 8 }.load(&host()).is_none(),
            "it is not that user's"
        );
        assert!(SavedLimits::new(Some((&home, user))).stores.contains(&of(user)));
    }
}
