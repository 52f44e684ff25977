//! An inspected file, open. Probes are attached to this file, not to its name; whether it is
//! unchanged is asked of the kernel. It is independent of ELF.

use super::content::FileState;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Device and inode: what the kernel attaches to. It names one file as long as somebody holds the file open.
pub type FileId = (u64, u64);

/// A regular file, open for reading.
#[derive(Debug)]
pub struct InspectedFile {
    file: File,
    /// When it was opened.
    state: FileState,
}

impl InspectedFile {
    /// Opens a regular file; others (a FIFO, a device) are refused without waiting for them.
    ///
    /// # Errors
    /// That of opening it; `InvalidInput` where it is not a regular file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self { file, state: FileState::from(&metadata) })
    }

    /// Its device and inode.
    pub fn id(&self) -> FileId {
        self.state.id()
    }

    /// The open file alone.
    pub fn into_file(self) -> File {
        self.file
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Bytes, when it was opened.
    pub fn size(&self) -> u64 {
        self.state.size()
    }

    /// Its state when it was opened.
    pub(crate) fn state(&self) -> FileState {
        self.state
    }

    /// A path that leads this process to this very file, whatever has become of its name.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Whether nothing was written to it since it was opened: its size and its time of modification are what they were.
    /// A change of its name, owner or rights is none of its contents.
    pub fn is_unchanged(&self) -> bool {
        FileState::of(&self.file).is_ok_and(|now| now.is_unwritten_since(&self.state))
    }

    /// Whether no name is left that anybody could open it by.
    pub fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Whether these bytes are in it now, from an offset on.
    pub fn has(&self, offset: u64, bytes: &[u8]) -> bool {
        let mut there = vec![0; bytes.len()];
        self.file.read_exact_at(&mut there, offset).is_ok() && there == bytes
    }
}

impl AsFd for InspectedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn it_stays_the_file_that_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "first").unwrap();
        let file = InspectedFile::open(&path).unwrap();
        assert!(file.is_unchanged() && file.has(1, b"irs") && !file.is_deleted() && file.size() == 5);
        std::fs::write(folder.path().join("b"), "other").unwrap();
        std::fs::rename(folder.path().join("b"), &path).unwrap();
        assert!(file.is_unchanged() && file.is_deleted());
        assert_eq!(std::fs::read(file.path()).unwrap(), b"first");
        assert_ne!(InspectedFile::open(&path).unwrap().id(), file.id());
    }

    #[test]
    fn what_is_written_to_it_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "first").unwrap();
        let file = InspectedFile::open(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        assert!(file.is_unchanged());
        // Some file systems keep times in steps of a few milliseconds.
        std::thread::sleep(std::time::Duration::from_millis(20));
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"F").unwrap();
        assert!(!file.is_unchanged());
        assert!(!file.has(0, b"first") && !file.has(3, b"sts"));
    }

    #[test]
    fn what_is_no_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/null")] {
            assert_eq!(InspectedFile::open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
