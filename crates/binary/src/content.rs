//! What a file has in it, as a hash of all its bytes: a build-id can be reused or forged. A hash is valid
//! as long as the file's inode is unchanged.

use super::inspected::{FileId, InspectedFile};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, XFS_SUPER_MAGIC, fstatfs};
use profinfer_files::cache::{Store, hexadecimal};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bytes that are read at once, on one processor.
const PIECE: u64 = 1 << 20;
/// Seconds after which pages written through a mapping are on the disk, so that the next write is detected.
const SETTLED_S: i64 = 60;

/// The hash of a file's bytes.
pub(crate) type Content = [u8; 32];

/// A file and its state, which changes if it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    /// In seconds and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

/// Hashes that were computed before, by the state of the file.
#[derive(Debug, Clone)]
pub(crate) struct Hashes(Store);

impl Hashes {
    /// Below a folder.
    pub(crate) fn new(root: &Path) -> Self {
        Self(Store::at(root, "contents", 32))
    }

    fn get(&self, state: &FileState) -> Option<Content> {
        self.0.get(&state.key())?.try_into().ok()
    }

    fn put(&self, state: &FileState, content: &Content) {
        // What cannot be cached is computed again.
        let _ = self.0.put(&state.key(), content);
    }
}

impl FileState {
    /// The state of an open file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::from(&metadata))
    }

    /// Device and inode.
    pub(crate) fn id(&self) -> FileId {
        (self.device, self.inode)
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether nothing was written between the two states of one file: size and time of modification are the same. Its
    /// name, owner and rights may have changed.
    pub(crate) fn is_unwritten_since(&self, before: &Self) -> bool {
        (self.size, self.modified) == (before.size, before.modified)
    }

    fn key(&self) -> String {
        let Self { device, inode, size, modified, changed } = self;
        hexadecimal(&Sha256::digest(format!("{device} {inode} {size} {modified:?} {changed:?}")))
    }

    /// Whether a write from now on changes the state. Not in the minute after the last one, and not where others tell the
    /// kernel (network, FUSE) or pages are never written back (tmpfs).
    fn is_settled(&self, file: &File) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let old = i64::try_from(now).is_ok_and(|now| now - self.changed.0 > SETTLED_S);
        let local = [BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, XFS_SUPER_MAGIC];
        old && fstatfs(file).is_ok_and(|system| local.contains(&system.filesystem_type()))
    }
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The hash of a file that was mapped in a state; `None` where the file at the path is not it, or is written to meanwhile.
pub(crate) fn of(path: &Path, state: &FileState, hashes: &Hashes) -> Option<Content> {
    let opened = InspectedFile::open(path).ok()?;
    let file = opened.file();
    let is_same = || FileState::of(file).is_ok_and(|now| now == *state);
    if !is_same() {
        return None;
    }
    let settled = state.is_settled(file);
    if let Some(cached) = settled.then(|| hashes.get(state)).flatten() {
        return Some(cached);
    }
    let content = hash(file, state.size).ok().filter(|_| is_same())?;
    if settled {
        hashes.put(state, &content);
    }
    Some(content)
}

/// The hash of the hashes of all pieces, which are read on all processors.
fn hash(file: &File, size: u64) -> io::Result<Content> {
    let pieces = (0..size.div_ceil(PIECE)).into_par_iter().map_init(
        || vec![0; PIECE as usize],
        |buffer, number| {
            let start = number * PIECE;
            let length = (size - start).min(PIECE) as usize;
            let bytes = buffer.get_mut(..length).unwrap_or_default();
            file.read_exact_at(bytes, start)?;
            Ok::<_, io::Error>(Sha256::digest(&*bytes))
        },
    );
    let pieces = pieces.collect::<io::Result<Vec<_>>>()?;
    let mut whole = Sha256::new();
    whole.update(size.to_le_bytes());
    pieces.iter().for_each(|piece| whole.update(piece));
    Ok(whole.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(path: &Path) -> FileState {
        FileState::of(&File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn other_bytes_are_another_content() {
        let folder = tempfile::tempdir().unwrap();
        let (path, hashes) = (folder.path().join("file"), Hashes::new(&folder.path().join("cache")));
        let mut bytes = vec![7; 3 * PIECE as usize + 5];
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            of(&path, &state(&path), &hashes).unwrap()
        };
        let first = of(&bytes);
        assert_eq!(of(&bytes), first);
        let last = bytes.len() - 1;
        bytes[last] = 8;
        let second = of(&bytes);
        assert_ne!(second, first);
        bytes.pop();
        assert_ne!(of(&bytes), second);
        assert_ne!(of(b""), first);
        assert!(!folder.path().join("cache/contents").exists(), "a file that has just changed is hashed each time");
    }

    #[test]
    fn a_file_in_another_state_has_no_hash() {
        let folder = tempfile::tempdir().unwrap();
        let (path, hashes) = (folder.path().join("file"), Hashes::new(folder.path()));
        std::fs::write(&path, "one").unwrap();
        let before = state(&path);
        std::fs::write(folder.path().join("other"), "two").unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(of(&path, &before, &hashes), None);
        assert_eq!(of(folder.path(), &state(folder.path()), &hashes), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(of(&path, &before, &hashes), None);
    }
}
