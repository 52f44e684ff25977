//! Finds the file that a program's debug information and symbols were moved to when it was stripped: in the folders of
//! build-ids, and by the name that the program's `.gnu_debuglink` gives. A file of another build is refused and reported.

use super::elf::Image;
use object::Object;
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

/// Where systems put debug files, below the root.
const SYSTEM_FOLDER: &str = "usr/lib/debug";
/// Folders that may be asked for.
const MAX_FOLDERS: usize = 256;

/// Folders that are searched for debug files before those of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DebugFolders(Vec<PathBuf>);

/// A debug file that belongs to an image.
#[derive(Debug)]
pub(super) struct DebugFile {
    pub(super) path: PathBuf,
    pub(super) image: Image,
}

/// Why a debug file belongs to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// Its path is that of the build-id.
    BuildId,
    /// The image names it, with the checksum of its bytes.
    Link(u32),
    /// Only its name, in a folder that was asked for.
    Name,
}

impl DebugFolders {
    /// These, in this order.
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(folders.into_iter().take(MAX_FOLDERS).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// The debug file of an image that lies at `path` and is called `name`. Files of other builds are passed over, and
    /// named in `refused`.
    pub(super) fn find(
        &self,
        image: &Image,
        path: &Path,
        name: &str,
        refused: &mut Vec<Diagnostic>,
    ) -> Option<DebugFile> {
        let own = std::fs::canonicalize(path).ok();
        let mut seen: HashSet<PathBuf> = own.into_iter().collect();
        for (candidate, sign) in self.candidates(image, path, name) {
            // Most places have nothing; a link that leads to the image itself, or to a file already tried, does not count.
            let Ok(identity) = std::fs::canonicalize(&candidate) else { continue };
            if !seen.insert(identity) {
                continue;
            }
            let Ok(found) = Image::open(&candidate) else { continue };
            if !found.has_debug_information() && !found.has_symbols() {
                continue;
            }
            match belongs(image, &found, sign) {
                Ok(true) => return Some(DebugFile { path: candidate, image: found }),
                Ok(false) => {}
                Err(why) => refused.push(not_of_this_build(path, &candidate, &why)),
            }
        }
        None
    }

    fn candidates(&self, image: &Image, path: &Path, name: &str) -> Vec<(PathBuf, Sign)> {
        let roots = roots(path);
        let system: Vec<PathBuf> = roots.iter().map(|root| root.join(SYSTEM_FOLDER)).collect();
        let folders: Vec<&PathBuf> = self.0.iter().chain(&system).collect();
        let mut candidates = Vec::new();
        if let Some((first, rest)) = image.build_id().and_then(|id| id.split_at_checked(2)) {
            let file = format!(".build-id/{first}/{rest}.debug");
            candidates.extend(folders.iter().map(|folder| (folder.join(&file), Sign::BuildId)));
        }
        let beside = path.parent().unwrap_or(Path::new("."));
        if let Some((link, checksum)) = link(image) {
            let within = inside_its_root(beside);
            let named = [beside.join(&link), beside.join(".debug").join(&link)];
            let below = folders.iter().flat_map(|folder| {
                let mirrored = within.as_ref().map(|within| folder.join(within).join(&link));
                mirrored.into_iter().chain([folder.join(&link)])
            });
            candidates.extend(named.into_iter().chain(below).map(|path| (path, Sign::Link(checksum))));
        }
        if is_plain(name) {
            let named = self.0.iter().flat_map(|folder| [folder.join(format!("{name}.debug")), folder.join(name)]);
            candidates.extend(named.map(|path| (path, Sign::Name)));
        }
        candidates
    }
}

/// Whether a file belongs to the image; an error describes what it is instead.
fn belongs(image: &Image, found: &Image, sign: Sign) -> Result<bool, String> {
    if image.arch() != found.arch() {
        return Err(format!("its instruction set is {}, that of the file {}", found.arch(), image.arch()));
    }
    match (image.build_id(), found.build_id()) {
        (Some(wanted), Some(has)) if wanted != has => {
            return Err(format!("its build-id is {has}, that of the file {wanted}"));
        }
        (Some(_), Some(_)) => {}
        // Without both build-ids, only a checksum can tell.
        _ if !matches!(sign, Sign::Link(_)) => return Ok(false),
        _ => {}
    }
    let Sign::Link(wanted) = sign else { return Ok(true) };
    let has = crc32fast::hash(found.bytes());
    if has == wanted {
        return Ok(true);
    }
    Err(format!("its checksum is {has:08x}, that in `.gnu_debuglink` {wanted:08x}"))
}

fn not_of_this_build(path: &Path, candidate: &Path, why: &str) -> Diagnostic {
    let message = format!("{} is not the debug information of {}", candidate.display(), path.display());
    Diagnostic::warning(Code::DebugInformationDiffers, message)
        .with_note(why.to_owned())
        .hint("it is ignored; install the debug information of this build, or give its folder with --debug-dir")
}

/// The name and checksum in the image's link.
fn link(image: &Image) -> Option<(String, u32)> {
    let headers = image.headers()?;
    let (name, checksum) = headers.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok().filter(|name| is_plain(name))?;
    Some((name.to_owned(), checksum))
}

/// A file's name that leads nowhere else.
pub(super) fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}

/// The roots that a file's system may have: that of the process it was opened through, and ours.
pub(super) fn roots(path: &Path) -> Vec<PathBuf> {
    let ours = PathBuf::from("/");
    let mut parts = path.components();
    let start = (parts.next(), parts.next(), parts.next());
    match start {
        (Some(Component::RootDir), Some(Component::Normal(proc)), Some(Component::Normal(pid)))
            if proc == "proc" && pid.to_str().is_some_and(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())) =>
        {
            vec![Path::new("/proc").join(pid).join("root"), ours]
        }
        _ => vec![ours],
    }
}

/// A folder's path in the file's root, without the slash in front; `None` if it cannot be determined.
fn inside_its_root(folder: &Path) -> Option<PathBuf> {
    let folder = if folder.is_absolute() { folder.to_owned() } else { std::fs::canonicalize(folder).ok()? };
    let root = roots(&folder).swap_remove(0);
    folder.strip_prefix(root).ok().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_root_of_its_own() {
        let through_root = Path::new("/proc/17/root/opt/engine/libengine.so");
        assert_eq!(roots(through_root), [Path::new("/proc/17/root"), Path::new("/")]);
        assert_eq!(inside_its_root(through_root.parent().unwrap()), Some("opt/engine".into()));
        assert_eq!(roots(Path::new("/proc/17/map_files/1-2"))[0], Path::new("/proc/17/root"));
        assert_eq!(inside_its_root(Path::new("/proc/17/map_files")), None);
        assert_eq!(roots(Path::new("/proc/self/x")), [Path::new("/")]);
        assert_eq!(roots(Path::new("/usr/lib/libc.so")), [Path::new("/")]);
        assert_eq!(inside_its_root(Path::new("/usr/lib")), Some("usr/lib".into()));
    }

    #[test]
    fn a_link_names_a_file_and_no_other_folder() {
        assert!(is_plain("libengine.so.debug"));
        for bad in ["", ".", "..", "/", "/etc/passwd", "../x", "a/b", "a/", "./a"] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
