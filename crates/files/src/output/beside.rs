//! A file that is written in its destination's folder and takes the destination's name when it is whole.

use super::{cannot_write, system};
use profinfer_diagnostics::Diagnostic;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// How the names of unfinished files begin, where files must have names.
const PREFIX: &str = ".profinfer-";
/// What a new file may be, before the umask.
const ANYBODY: u32 = 0o666;

/// A file without a name yet, or with a temporary one. Dropping it leaves nothing.
#[derive(Debug)]
pub struct Beside {
    file: File,
    name: Option<TempPath>,
    folder: PathBuf,
}

impl Beside {
    /// For this destination. `mode`: the permissions, where the umask is not to say.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, mode: Option<u32>) -> io::Result<Self> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Less at first, so that nobody opens it who may not.
        let created = mode.map_or(ANYBODY, |mode| mode & 0o600 | 0o200);
        let (file, name) = match system::unnamed(folder, created) {
            Some(file) => (file, None),
            None => {
                let permissions = Permissions::from_mode(created);
                let named = Builder::new().prefix(PREFIX).permissions(permissions).tempfile_in(folder)?;
                let (file, name) = named.into_parts();
                (file, Some(name))
            }
        };
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(Self { file, name, folder: folder.to_owned() })
    }

    /// What is written to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Opens it for reading, from its beginning.
    ///
    /// # Errors
    /// The system's.
    pub fn reader(&self) -> io::Result<File> {
        match &self.name {
            Some(name) => File::open(name),
            None => system::reopen(&self.file),
        }
    }

    /// Removes what a killed program left in a folder that only this one uses, where files must have names.
    pub fn clean(folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Takes the owner of the file that it replaces, where that may be.
    pub(super) fn like(&self, older: &std::fs::Metadata) {
        let own = self.file.metadata().map(|own| (own.uid(), own.gid()));
        if own.is_ok_and(|own| own != (older.uid(), older.gid())) {
            let _ = fchown(&self.file, Some(older.uid()), Some(older.gid()));
        }
    }

    /// Takes a name that nothing has.
    ///
    /// # Errors
    /// `AlreadyExists`; the system's.
    pub fn appear(self, path: &Path) -> io::Result<()> {
        match self.name {
            Some(name) => name.persist_noclobber(path).map_err(|error| error.error),
            None => system::link(&self.file, path),
        }
    }

    /// Takes a name from whatever has it.
    ///
    /// # Errors
    /// The system's.
    pub fn replace(self, path: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name,
            None => {
                let link = |path: &Path| system::link(&self.file, path);
                Builder::new().prefix(PREFIX).make_in(&self.folder, link)?.into_temp_path()
            }
        };
        name.persist(path).map_err(|error| error.error)
    }

    /// As [`Beside::replace`], as a diagnostic.
    pub(super) fn commit(self, path: &Path) -> Result<(), Diagnostic> {
        self.replace(path).map_err(|error| cannot_write(path, &error))
    }
}
