//! Cached files: compiled objects, layouts, calibration, limits of the machine. This is
//! the only reader and writer of them. A file is believed only where nobody but its user can have written it: it is a
//! regular file of bounded size that belongs to the user, opened without following links or waiting, in a folder that no
//! other user can change, and its checksum is right. Anything else is ignored, with one note. What the bytes mean is not
//! defined here.

use crate::output::{Beside, options};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// What a file begins with; then the checksum in hexadecimal digits, an end of line, and the content.
const MAGIC: &str = "profinfer-cache 1 ";
const DIGITS: usize = 64;
const HEADER: usize = MAGIC.len() + DIGITS + 1;
/// Files of one kind that are larger than this together are made fewer, the least recently used first.
const SIZE_LIMIT: u64 = 64 << 20;
/// Others than the user may not write.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Notes that are given in one run.
const MAX_NOTES: usize = 8;

/// Files that were ignored in this run.
static NOTES: Mutex<Vec<Diagnostic>> = Mutex::new(Vec::new());

/// The user's files of one kind, by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    root: PathBuf,
    /// The folder in `root`.
    kind: &'static str,
    /// Bytes of a file, at most.
    largest: u64,
    /// Whom the files belong to.
    owner: u32,
    /// The root was named by nobody: it is made private, too.
    is_default: bool,
    size_limit: u64,
}

/// Why a file or folder is not used, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    path: PathBuf,
    why: String,
    hint: String,
}

/// The cache folder: `$PROFINFER_CACHE`, else `profinfer` in `$XDG_CACHE_HOME` or `~/.cache`. The home
/// is that of the effective user: root through `sudo` has root's, independent of `HOME`.
pub fn root() -> Option<PathBuf> {
    named_root().or_else(|| default_root(variable))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn named_root() -> Option<PathBuf> {
    std::path::absolute(variable("PROFINFER_CACHE")?).ok()
}

fn default_root(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(caches) = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Some(caches.join("profinfer"));
    }
    let user = user();
    let is_theirs = |home: &PathBuf| std::fs::metadata(home).is_ok_and(|metadata| metadata.uid() == user);
    let home = variable("HOME").filter(|home| home.is_absolute() && is_theirs(home)).or_else(|| home_of(user))?;
    Some(home.join(".cache/profinfer"))
}

/// What was ignored since the last call, and why.
pub fn take_notes() -> Diagnostics {
    Diagnostics(std::mem::take(&mut *NOTES.lock().unwrap_or_else(PoisonError::into_inner)))
}

/// A folder for files that are needed during this run only; nobody else can enter it, or put another one in its place.
///
/// # Errors
/// It cannot be made.
pub fn private_folder() -> io::Result<tempfile::TempDir> {
    let in_folder = |folder: &Path| {
        tempfile::Builder::new().prefix("profinfer-").permissions(Permissions::from_mode(0o700)).tempdir_in(folder)
    };
    let usual = std::env::temp_dir();
    let refusal = match unchangeable(&usual, user()) {
        Ok(folder) => return in_folder(&folder),
        Err(refusal) => refusal,
    };
    let own = Store::of_user("run", 0).and_then(|store| store.folder_to_write().ok());
    in_folder(&own.ok_or_else(|| refusal.to_error())?)
}

/// A folder that a person names for files of this user: its real path. It is made, for this user alone, if it is not there.
///
/// # Errors
/// It cannot be made, or other users could put another folder in its place.
pub fn own_folder(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    make_folders(&path, user()).map_err(|refusal| refusal.to_error())??;
    unchangeable(&path, user()).map_err(|refusal| refusal.to_error())
}

impl Store {
    /// Files of a kind in the user's folder; `None` where there is none.
    pub fn of_user(kind: &'static str, largest: u64) -> Option<Self> {
        Some(Self::at(&root()?, kind, largest))
    }

    /// The same in another folder.
    pub fn at(root: &Path, kind: &'static str, largest: u64) -> Self {
        let is_default = named_root().is_none() && default_root(variable).as_deref() == Some(root);
        Self { root: root.to_owned(), kind, largest, owner: user(), is_default, size_limit: SIZE_LIMIT }
    }

    /// What another user has, who calls through `sudo`. It is read only, and only for what may be wrong without harm to
    /// anyone else.
    pub fn of_caller(home: &Path, caller: u32, kind: &'static str, largest: u64) -> Self {
        Self { owner: caller, ..Self::at(&home.join(".cache/profinfer"), kind, largest) }
    }

    /// Where the content of a key is.
    pub fn path(&self, key: &str) -> PathBuf {
        self.root.join(self.kind).join(file_name(key))
    }

    /// The content of a key, if there is one that can be believed.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.read(key).unwrap_or_else(|refusal| {
            refusal.note();
            None
        })
    }

    /// The same, as JSON. What does not parse, or `fits` refuses, is of another version.
    pub fn get_json<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        serde_json::from_slice(&self.get(key)?).ok()
    }

    /// Keeps content by a key; gives the file.
    ///
    /// # Errors
    /// It cannot be written, or others could change it.
    pub fn put(&self, key: &str, content: &[u8]) -> io::Result<PathBuf> {
        if self.owner != user() || content.len() as u64 > self.largest {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let folder = self.folder_to_write()?;
        let path = folder.join(file_name(key));
        let beside = Beside::create(&path, Some(0o600))?;
        let mut file = beside.file();
        file.write_all(&self.header(key, content))?;
        file.write_all(content)?;
        beside.replace(&path)?;
        self.evict(&folder);
        Ok(path)
    }

    /// The same, as JSON.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub fn put_json(&self, key: &str, content: &impl serde::Serialize) -> io::Result<PathBuf> {
        self.put(key, &serde_json::to_vec(content)?)
    }

    /// The checksum is of the name, too: a file under another name is not believed.
    fn header(&self, key: &str, content: &[u8]) -> Vec<u8> {
        let mut hash = Sha256::new();
        for part in [self.kind.as_bytes(), key.as_bytes(), content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        format!("{MAGIC}{}\n", hexadecimal(&hash.finalize())).into_bytes()
    }

    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(folder) = self.folder_to_read()? else { return Ok(None) };
        let path = folder.join(file_name(key));
        let Some((file, size)) = self.open(&path)? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let read = (&file).take(self.most_bytes() + 1).read_to_end(&mut bytes);
        read.map_err(|error| Refusal::error(&path, &error))?;
        match bytes.split_at_checked(HEADER) {
            Some((header, content)) if header == self.header(key, content) => {
                // Its age is the time since it was of use.
                if self.owner == user() {
                    let _ = file.set_modified(SystemTime::now());
                }
                Ok(Some(bytes.split_off(HEADER)))
            }
            _ => Err(Refusal::file(&path, "its checksum is wrong")),
        }
    }

    fn most_bytes(&self) -> u64 {
        self.largest.saturating_add(HEADER as u64)
    }

    /// A file of ours, and its size; `None` where there is nothing.
    fn open(&self, path: &Path) -> Result<Option<(File, u64)>, Refusal> {
        let file = match options().read(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Refusal::unopened(path, &error)),
        };
        let metadata = file.metadata().map_err(|error| Refusal::error(path, &error))?;
        if !metadata.is_file() {
            return Err(Refusal::file(path, "it is not a regular file"));
        }
        if metadata.uid() != self.owner {
            return Err(Refusal::file(path, &of_another(&metadata)));
        }
        if metadata.mode() & OTHERS_WRITE != 0 {
            return Err(Refusal::file(path, "other users can write to it"));
        }
        if metadata.len() > self.most_bytes() {
            return Err(Refusal::file(path, &format!("it is larger than {} KiB", self.largest >> 10)));
        }
        Ok(Some((file, metadata.len())))
    }

    /// The folder's real path; `None` where there is none. It is made private if it is ours.
    fn folder_to_read(&self) -> Result<Option<PathBuf>, Refusal> {
        match std::fs::symlink_metadata(self.root.join(self.kind)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Without permission to read the folder, there is nothing.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
            _ => {}
        }
        let root = self.private_root()?;
        let folder = root.join(self.kind);
        make_private(&folder, self.owner)?;
        Ok(Some(folder))
    }

    /// The same, where it is made if it is not there.
    fn folder_to_write(&self) -> io::Result<PathBuf> {
        let refused = |refusal: Refusal| {
            refusal.note();
            refusal.to_error()
        };
        make_folders(&self.root, self.owner).map_err(refused)??;
        let root = self.private_root().map_err(refused)?;
        let folder = root.join(self.kind);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => make_private(&folder, self.owner).map_err(refused)?,
        }
        Ok(folder)
    }

    /// The real path of the root, in which only its user can change anything.
    fn private_root(&self) -> Result<PathBuf, Refusal> {
        let root = std::fs::canonicalize(&self.root).map_err(|error| Refusal::error(&self.root, &error))?;
        // A folder that a person names is theirs to open to others or not.
        if self.is_default {
            make_private(&root, self.owner)?;
        }
        unchangeable(&root, self.owner)
    }

    fn evict(&self, folder: &Path) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        let mut entries: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(Metadata::is_file)?;
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

impl Refusal {
    fn file(path: &Path, why: &str) -> Self {
        let hint = format!("profinfer replaces it if it can; otherwise remove it: `rm -r {}`", path.display());
        Self { path: path.to_owned(), why: why.to_owned(), hint }
    }

    fn folder(path: &Path, why: &str, hint: String) -> Self {
        Self { path: path.to_owned(), why: why.to_owned(), hint }
    }

    fn error(path: &Path, error: &io::Error) -> Self {
        Self::file(path, &format!("it cannot be read: {error}"))
    }

    fn unopened(path: &Path, error: &io::Error) -> Self {
        match std::fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => Self::file(path, "it is a symbolic link"),
            Ok(metadata) if !metadata.is_file() => Self::file(path, "it is not a regular file"),
            _ => Self::error(path, error),
        }
    }

    fn to_error(&self) -> io::Error {
        io::Error::other(format!("{}: {}", self.path.display(), self.why))
    }

    fn note(&self) {
        let message = format!("{} is ignored: {}", self.path.display(), self.why);
        let note = Diagnostic::note(Code::CacheIgnored, message).hint(self.hint.clone());
        let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }
}

/// A folder's real path, if nobody but `owner` and root can put another folder in its place, or in that of one above it.
fn unchangeable(folder: &Path, owner: u32) -> Result<PathBuf, Refusal> {
    let real = std::fs::canonicalize(folder).map_err(|error| Refusal::error(folder, &error))?;
    for part in real.ancestors() {
        let metadata = std::fs::symlink_metadata(part).map_err(|error| Refusal::error(part, &error))?;
        let hint = "set PROFINFER_CACHE to a folder that belongs to you".to_owned();
        if !metadata.is_dir() {
            return Err(Refusal::folder(part, "it is not a folder", hint));
        }
        if metadata.uid() != owner && metadata.uid() != 0 {
            return Err(Refusal::folder(part, &of_another(&metadata), hint));
        }
        // In a sticky folder, such as /tmp, what is one user's cannot be replaced by another.
        if metadata.mode() & OTHERS_WRITE != 0 && metadata.mode() & STICKY == 0 {
            let hint = format!("`chmod go-w {}`, or {hint}", part.display());
            return Err(Refusal::folder(part, "other users can write to this folder", hint));
        }
    }
    Ok(real)
}

/// Makes the folders that are missing on a path, for this user alone, below what no other user can change.
fn make_folders(path: &Path, owner: u32) -> Result<io::Result<()>, Refusal> {
    let missing: Vec<&Path> = path.ancestors().take_while(|part| std::fs::symlink_metadata(part).is_err()).collect();
    let Some(there) = path.ancestors().nth(missing.len()) else { return Ok(Err(io::ErrorKind::NotFound.into())) };
    let mut folder = unchangeable(there, owner)?;
    for part in missing.into_iter().rev() {
        folder.push(part.file_name().unwrap_or_default());
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Ok(Err(error)),
            _ => {}
        }
    }
    Ok(Ok(()))
}

/// Takes from others what they may do in a folder of ours.
fn make_private(folder: &Path, owner: u32) -> Result<(), Refusal> {
    let file = options().read(true).open(folder).map_err(|error| Refusal::unopened(folder, &error))?;
    let metadata = file.metadata().map_err(|error| Refusal::error(folder, &error))?;
    let hint = || format!("remove it: `rm -r {}`", folder.display());
    if !metadata.is_dir() {
        return Err(Refusal::folder(folder, "it is not a folder", hint()));
    }
    if metadata.uid() != owner {
        return Err(Refusal::folder(folder, &of_another(&metadata), hint()));
    }
    if owner == user() && metadata.mode() & 0o077 != 0 {
        let private = Permissions::from_mode(metadata.mode() & 0o700);
        file.set_permissions(private).map_err(|error| Refusal::error(folder, &error))?;
    }
    Ok(())
}

fn of_another(metadata: &Metadata) -> String {
    format!("it belongs to another user ({})", metadata.uid())
}

fn file_name(key: &str) -> String {
    format!("{key}.cache")
}

/// The digits of a hash.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The effective user.
fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn home_of(user: u32) -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(user.into()).ok().flatten()?;
    Some(user.dir).filter(|home| home.is_absolute())
}

#[cfg(test)]
mod tests;
