//! Small files of `/proc` and of control groups that are read again and again. They stay open: to open one costs several
//! times as much as to read it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files that stay open; others are opened for each reading.
const MOST_OPEN: usize = 32;
/// Bytes of a file that are read.
const MOST_BYTES: usize = 16 << 20;
/// Most are smaller.
const USUAL_BYTES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct KernelFiles {
    open: BTreeMap<PathBuf, File>,
    bytes: Vec<u8>,
}

impl KernelFiles {
    /// What a file contains now; `None` where there is none, or what it told of has ended. The kernel makes the whole text
    /// when its beginning is read.
    pub(super) fn read(&mut self, path: &Path) -> Option<&[u8]> {
        if let Some(file) = self.open.get(path) {
            let read = read_whole(file, &mut self.bytes);
            if read.is_none() {
                // Another process or group may have the name by now.
                self.open.remove(path);
            } else {
                return Some(&self.bytes);
            }
        }
        let file = File::open(path).ok()?;
        read_whole(&file, &mut self.bytes)?;
        if self.open.len() < MOST_OPEN {
            self.open.insert(path.to_owned(), file);
        }
        Some(&self.bytes)
    }

    /// The same as text, which all but names are.
    pub(super) fn text(&mut self, path: &Path) -> Option<&str> {
        std::str::from_utf8(self.read(path)?).ok()
    }

    /// Closes all.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }
}

fn read_whole(file: &File, bytes: &mut Vec<u8>) -> Option<()> {
    let mut length = 0;
    loop {
        if bytes.len() == length {
            bytes.resize((length * 2).clamp(USUAL_BYTES, MOST_BYTES), 0);
        }
        let more = file.read_at(bytes.get_mut(length..)?, length as u64).ok()?;
        length += more;
        if length < bytes.len() || length == MOST_BYTES {
            bytes.truncate(length);
            return (length > 0).then_some(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_file_is_read_anew_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut files = KernelFiles::default();
        assert_eq!(files.read(&path), None);
        for length in [1, USUAL_BYTES - 1, USUAL_BYTES, USUAL_BYTES + 1, 3 * USUAL_BYTES, 2] {
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(files.text(&path).map(str::len), Some(length));
        }
    }

    /// A process's file tells nothing once it has ended, and another's is opened.
    #[test]
    fn a_process_that_ends_is_not_read_any_more() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let path = PathBuf::from(format!("/proc/{}/stat", child.id()));
        let mut files = KernelFiles::default();
        let name = format!("{} (", child.id());
        assert!((0..3).all(|_| files.text(&path).unwrap().starts_with(&name)));
        assert_eq!(files.open.len(), 1);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(files.read(&path), None);
        assert!(files.open.is_empty());
    }

    #[test]
    fn few_files_stay_open() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = KernelFiles::default();
        for number in 0..2 * MOST_OPEN {
            let path = folder.path().join(number.to_string());
            std::fs::write(&path, number.to_string()).unwrap();
            assert_eq!(files.text(&path), Some(number.to_string().as_str()));
        }
        assert_eq!(files.open.len(), MOST_OPEN);
        files.close();
        assert!(files.open.is_empty());
    }
}
