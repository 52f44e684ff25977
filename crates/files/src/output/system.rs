//! What Linux has and the standard library has not: files without a name, links to them, locks, openings that wait for
//! nobody. Elsewhere there is less of it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[cfg(target_os = "linux")]
use nix::{
    errno::Errno,
    fcntl::{AT_FDCWD, AtFlags, FcntlArg, Flock, FlockArg, OFlag, fcntl},
    unistd::linkat,
};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;

/// A lock on an open file, until it is dropped.
#[cfg(target_os = "linux")]
pub type Lock = Flock<File>;
/// A lock on an open file, until it is dropped.
#[cfg(not(target_os = "linux"))]
pub type Lock = ();

/// Options that follow no link at the path's end and wait for nobody at the other end of a pipe.
pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(target_os = "linux")]
    options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    options
}

/// Opens a pipe or device for writing, through links, without waiting for a reader.
pub(super) fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(target_os = "linux")]
    options.custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits());
    let file = options.open(path)?;
    #[cfg(target_os = "linux")]
    {
        let flags = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    }
    Ok(file)
}

/// Whether it is the error of a pipe that nobody reads, or of a socket.
pub(super) fn is_without_reader(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let is = error.raw_os_error() == Some(Errno::ENXIO as i32);
    #[cfg(not(target_os = "linux"))]
    let is = error.kind() == io::ErrorKind::NotFound;
    is
}

/// A file without a name in this folder: whatever ends this process, nothing of it stays. `None` where the file system or
/// the kernel cannot do that.
#[cfg(target_os = "linux")]
pub(super) fn unnamed(folder: &Path, mode: u32) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true).mode(mode).custom_flags(OFlag::O_TMPFILE.bits());
    // Its way to a name.
    Path::new("/proc/self/fd").is_dir().then(|| options.open(folder).ok()).flatten()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn unnamed(_: &Path, _: u32) -> Option<File> {
    None
}

/// Opens an unnamed file for reading.
#[cfg(target_os = "linux")]
pub(super) fn reopen(file: &File) -> io::Result<File> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn reopen(_: &File) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives an unnamed file a name that nothing has.
#[cfg(target_os = "linux")]
pub(super) fn link(file: &File, path: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(AT_FDCWD, from.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Locks a file against other writers; `None` where it is locked already.
///
/// # Errors
/// The file system has no locks.
#[cfg(target_os = "linux")]
pub fn lock(file: &File) -> io::Result<Option<Lock>> {
    match Flock::lock(file.try_clone()?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// Here there are none.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn lock(_: &File) -> io::Result<Option<Lock>> {
    Ok(Some(()))
}
