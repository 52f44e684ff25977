//! What was read of debug information is kept by build-id, so that the next run need not read it again: "no such
//! type" too. A cache that cannot be read or written costs time, never the answer.

use super::dwarf::Answers;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Raise this with every change of what [`Answers`] holds, or of how it is read from debug information.
const FORMAT: u32 = 2;
/// Bytes of a cache file; larger ones were not written by us.
const MAX_FILE: u64 = 16 << 20;

/// What a cache file holds.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Stored<A> {
    format: u32,
    /// Bytes of debug information in the file it was read from: a stripped copy has the same build-id.
    debug_bytes: u64,
    answers: A,
}

/// The cached answers of one build.
#[derive(Debug, Clone)]
pub(crate) struct LayoutCache {
    path: PathBuf,
    debug_bytes: u64,
}

/// The folder for everything that profinfer caches: `$PROFINFER_CACHE`, else `profinfer` in `$XDG_CACHE_HOME` or
/// `~/.cache`; `None` where there is none of them.
pub fn cache_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("PROFINFER_CACHE").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(caches.join("profinfer"))
    })
}

impl LayoutCache {
    /// The cache of a build below a folder.
    pub(crate) fn new(folder: &Path, build_id: &str, debug_bytes: u64) -> Self {
        Self { path: folder.join("layouts").join(format!("{build_id}.json")), debug_bytes }
    }

    /// What is known; nothing, where the file is missing, malformed, or of another format or debug information.
    pub(crate) fn load(&self) -> Answers {
        self.read().unwrap_or_default()
    }

    fn read(&self) -> Option<Answers> {
        let stored: Stored<Answers> = read_json(&self.path, MAX_FILE)?;
        (stored.format == FORMAT && stored.debug_bytes == self.debug_bytes).then_some(stored.answers)
    }

    pub(crate) fn store(&self, answers: &Answers) -> std::io::Result<()> {
        write_json(&self.path, &Stored { format: FORMAT, debug_bytes: self.debug_bytes, answers })
    }
}

/// What a file that is kept in the cache says; `None` where it is missing, malformed, or larger than any that is written.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(path: &Path, most: u64) -> Option<T> {
    let mut text = Vec::new();
    File::open(path).ok()?.take(most + 1).read_to_end(&mut text).ok()?;
    if text.len() as u64 > most { None } else { serde_json::from_slice(&text).ok() }
}

/// Writes such a file, making its folder, and replaces what was there at once, so that no reader sees half of it.
pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> std::io::Result<()> {
    let folder = path.parent().ok_or(std::io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(std::io::BufWriter::new(&mut file), value)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Layout, TargetType};

    fn answers() -> Answers {
        let pointer = TargetType::Pointer(Some(Box::new(TargetType::Struct("tensor".into(), 336))));
        let members = [("src".to_owned(), (152, TargetType::Array(Box::new(pointer), Some(10))))].into();
        Answers {
            types: [("tensor".to_owned(), Some(Layout { size: 336, members })), ("batch".to_owned(), None)].into(),
            enums: [("op".to_owned(), Some([(-1, "NONE".to_owned()), (29, "MUL".to_owned())].into()))].into(),
            inlined: [("run".to_owned(), Vec::new())].into(),
        }
    }

    #[test]
    fn what_is_stored_is_loaded_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LayoutCache::new(folder.path(), "0123abcd", 77);
        assert_eq!(cache.load(), Answers::default());
        cache.store(&answers()).unwrap();
        assert_eq!(cache.load(), answers());
        assert_eq!(std::fs::read_dir(folder.path().join("layouts")).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn other_debug_information_or_format_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        LayoutCache::new(folder.path(), "aa", 77).store(&answers()).unwrap();
        assert_eq!(LayoutCache::new(folder.path(), "aa", 78).load(), Answers::default());
        let path = folder.path().join("layouts/aa.json");
        let text = std::fs::read_to_string(&path).unwrap().replace("\"format\":2", "\"format\":999");
        std::fs::write(&path, text).unwrap();
        assert_eq!(LayoutCache::new(folder.path(), "aa", 77).load(), Answers::default());
    }

    #[test]
    fn a_corrupt_file_is_ignored_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let cache = LayoutCache::new(folder.path(), "aa", 77);
        cache.store(&answers()).unwrap();
        let path = folder.path().join("layouts/aa.json");
        for bad in [&b"{"[..], b"", b"[]", b"\xff\xfe", &b"[".repeat(100_000)] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(cache.load(), Answers::default());
        }
        cache.store(&answers()).unwrap();
        assert_eq!(cache.load(), answers());
    }
}
