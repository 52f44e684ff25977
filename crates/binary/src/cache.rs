//! Caches what was read from debug information, by the content of the files, so that the next run need
//! not read it again: "no such type" too. A cache that cannot be read or written costs time, never the answer.

use super::content::{self, FileState, Hashes};
use super::dwarf::Answers;
use super::elf::Image;
use profinfer_files::cache::{self, Store, hexadecimal};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Raise this with every change of what [`Answers`] holds, or of how it is read from debug information.
const FORMAT: u32 = 6;
/// Bytes of a cache file; larger ones were not written by us.
const MAX_FILE: u64 = 16 << 20;

/// The cached answers of one build.
#[derive(Debug, Clone)]
pub(crate) struct LayoutCache {
    store: Store,
    key: String,
    /// The files, as they were when they were mapped.
    files: Vec<(PathBuf, FileState)>,
}

/// The cache folder; `None` where there is none.
pub(crate) fn folder() -> Option<PathBuf> {
    cache::root()
}

impl LayoutCache {
    /// The cache of what images say together, which were mapped from these paths; `None` where one of them is not what the
    /// path leads to any more.
    pub(crate) fn new(folder: &Path, images: &[(&Image, &Path)]) -> Option<Self> {
        let hashes = Hashes::new(folder);
        let mut key = Sha256::new();
        let mut files = Vec::new();
        key.update(FORMAT.to_le_bytes());
        for (image, path) in images {
            let state = image.file()?;
            key.update(content::of(path, state, &hashes)?);
            files.push(((*path).to_owned(), *state));
        }
        Some(Self { store: Store::at(folder, "layouts", MAX_FILE), key: hexadecimal(&key.finalize()), files })
    }

    /// The cached facts.
    pub(crate) fn load(&self) -> Answers {
        self.store.get_json(&self.key).unwrap_or_default()
    }

    /// Keeps answers, unless a file was written to while they were read. A cache that cannot be written (a full disk, a
    /// read-only home) only costs time.
    pub(crate) fn store(&self, answers: &Answers) {
        let is_unchanged =
            |(path, state): &(PathBuf, FileState)| path.metadata().is_ok_and(|now| FileState::from(&now) == *state);
        if self.files.iter().all(is_unchanged) {
            let _ = self.store.put_json(&self.key, answers);
        }
    }
}
