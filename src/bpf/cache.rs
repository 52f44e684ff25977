//! Compiled objects by what they depend on. A cache entry is only a saving of time: whatever is wrong with one, it is
//! as if it were not there. The folder may belong to nobody else, because what is in it will be loaded into the kernel.

use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Entries of more bytes than this together are made fewer, the least recently used first.
const SIZE_LIMIT: u64 = 64 << 20;
/// A larger entry is not read.
const ENTRY_LIMIT: u64 = 16 << 20;
/// An entry begins with this, then the SHA-256 of the object, then the object.
const MAGIC: &[u8; 8] = b"PFOBJ\x01\r\n";
const HEADER: usize = MAGIC.len() + 32;

/// A folder of compiled objects.
#[derive(Debug, Clone)]
pub struct ObjectCache {
    folder: PathBuf,
    size_limit: u64,
}

impl ObjectCache {
    /// `$PROFINFER_CACHE`, else `profinfer` in `$XDG_CACHE_HOME`, else `$HOME/.cache/profinfer`; in it, `objects`.
    /// `None` where there is no such folder, it cannot be made, or somebody else can write to it.
    pub fn default_folder() -> Option<Self> {
        Self::at(&cache_root(|name| std::env::var_os(name))?.join("objects"))
    }

    /// A cache in a folder, which is made if it is not there.
    pub fn at(folder: &Path) -> Option<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).ok()?;
        is_ours_alone(folder).then(|| Self { folder: folder.to_owned(), size_limit: SIZE_LIMIT })
    }

    /// The object of a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        if !is_ours_alone(&path) || std::fs::metadata(&path).ok()?.len() > ENTRY_LIMIT {
            return None;
        }
        let entry = std::fs::read(&path).ok()?;
        let (header, object) = entry.split_at_checked(HEADER)?;
        if header != Self::header(object) {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        // Its age is the time since it was of use.
        let _ = std::fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(object.to_vec())
    }

    /// Keeps an object, if that is possible.
    pub fn put(&self, key: &str, object: &[u8]) {
        let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(&Self::header(object))?;
            file.write_all(object)?;
            file.persist(self.path(key)).map_err(|error| error.error)
        });
        if written.is_ok() {
            self.evict();
        }
    }

    fn header(object: &[u8]) -> Vec<u8> {
        [MAGIC.as_slice(), Sha256::digest(object).as_slice()].concat()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.o"))
    }

    fn evict(&self) {
        let Ok(folder) = std::fs::read_dir(&self.folder) else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = folder
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = entries.iter().map(|(_, size, _)| size).sum();
        entries.sort();
        for (_, size, path) in entries {
            if total <= self.size_limit {
                return;
            }
            if std::fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
    }
}

fn cache_root(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("PROFINFER_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("profinfer")))
        .or_else(|| Some(folder("HOME")?.join(".cache/profinfer")))
}

/// Whether the caller owns it and nobody else may write to it.
fn is_ours_alone(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|metadata| {
        let ours = metadata.uid() == nix::unistd::geteuid().as_raw();
        ours && metadata.mode() & 0o022 == 0 && !metadata.is_symlink()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn cache() -> (tempfile::TempDir, ObjectCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = ObjectCache::at(&folder.path().join("objects")).unwrap();
        (folder, cache)
    }

    #[test]
    fn gives_back_what_it_was_given() {
        let (_folder, cache) = cache();
        assert_eq!(cache.get("key"), None);
        cache.put("key", b"object");
        assert_eq!(cache.get("key").as_deref(), Some(&b"object"[..]));
    }

    #[test]
    fn a_damaged_entry_is_no_entry() {
        let (_folder, cache) = cache();
        for damage in [&b""[..], b"PF", b"\x7fELF and so on, long enough to have a whole header, but not one of ours"] {
            std::fs::write(cache.path("key"), damage).unwrap();
            assert_eq!(cache.get("key"), None);
        }
        cache.put("key", b"object");
        let mut entry = std::fs::read(cache.path("key")).unwrap();
        *entry.last_mut().unwrap() ^= 1;
        std::fs::write(cache.path("key"), entry).unwrap();
        assert_eq!(cache.get("key"), None, "one bit is enough");
    }

    #[test]
    fn a_folder_that_others_can_write_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(ObjectCache::at(folder.path()).is_none());
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let (_folder, mut cache) = cache();
        cache.size_limit = 3 * (HEADER as u64 + 10);
        for (age, key) in [(30, "a"), (20, "b"), (10, "c")] {
            cache.put(key, &[0; 10]);
            let file = std::fs::File::open(cache.path(key)).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        assert!(cache.get("a").is_some(), "used just now");
        cache.put("d", &[0; 10]);
        assert_eq!(["a", "b", "c", "d"].map(|key| cache.get(key).is_some()), [true, false, true, true]);
    }

    #[test]
    fn the_folder_is_where_the_environment_says() {
        let root = |pairs: &[(&str, &str)]| {
            cache_root(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(root(&[("HOME", "/h"), ("PROFINFER_CACHE", "/p")]), Some("/p".into()));
        assert_eq!(root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")]), Some("/x/profinfer".into()));
        assert_eq!(root(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]), Some("/h/.cache/profinfer".into()));
        assert_eq!(root(&[]), None);
    }
}
