//! What a person writes for a target (a file, a folder, a process's number) to a [`Target`].

use super::elf::{Image, Unusable};
use super::files::Files;
use super::library::LibrarySearch;
use super::{Target, TargetFiles};
use profinfer_diagnostics::{Code, Diagnostic};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Libraries of one program.
const MAX_LIBRARIES: usize = 1024;
/// ELF files of one folder.
const MAX_FILES: usize = 4096;
/// Entries of one folder and those below it.
const MAX_ENTRIES: usize = 500_000;
/// Folders inside one another.
const MAX_DEPTH: usize = 32;

/// Opens a target: a number is a process; a path is a program or library, with the libraries it needs, or a folder
/// with every program and library in it. `./7` is a file named `7`.
///
/// # Errors
/// `T001` where there is nothing of that name, `T002` and `T012` where it is no ELF file that can be read, `R002` and
/// `B005` for a process.
pub fn open(spec: &str) -> Result<Box<dyn Target>, Diagnostic> {
    open_with(spec, Files::with_user_cache())
}

/// As [`open`], with a list of files that has none yet: it configures the layout cache and the folders of debug files.
///
/// # Errors
/// As [`open`].
pub fn open_with(spec: &str, files: Files) -> Result<Box<dyn Target>, Diagnostic> {
    if !spec.is_empty() && spec.bytes().all(|byte| byte.is_ascii_digit()) {
        return open_process(spec, files);
    }
    open_path(Path::new(spec), files).map(|files| -> Box<dyn Target> { Box::new(files) })
}

#[cfg(target_os = "linux")]
fn open_process(spec: &str, files: Files) -> Result<Box<dyn Target>, Diagnostic> {
    let pid = spec.parse().map_err(|_| {
        Diagnostic::error(Code::NoSuchProcess, format!("process {spec} not found"))
            .hint(format!("write `./{spec}` for a file of that name"))
    })?;
    Ok(Box::new(super::ProcessTarget::open_with(pid, files)?.into_files()))
}

#[cfg(not(target_os = "linux"))]
fn open_process(spec: &str, _: Files) -> Result<Box<dyn Target>, Diagnostic> {
    Err(Diagnostic::error(Code::NoSuchProcess, format!("cannot inspect process {spec}: this is not Linux"))
        .hint("give the program's or library's file instead"))
}

/// Opens a file or folder as a target.
///
/// # Errors
/// As [`open`].
pub fn open_path(path: &Path, mut files: Files) -> Result<Files, Diagnostic> {
    let metadata = std::fs::metadata(path).map_err(|e| not_found(path, &e))?;
    if metadata.is_dir() {
        add_folder(&mut files, path)?;
    } else {
        add_program(&mut files, path)?;
    }
    Ok(files)
}

/// Adds a program or library, and all that the dynamic linker would load with it.
fn add_program(files: &mut Files, path: &Path) -> Result<(), Diagnostic> {
    let image = Image::open(path).map_err(|fault| refused(path, &fault))?;
    let arch = image.arch();
    let search = LibrarySearch::of_this_machine();
    let mut seen = HashSet::from([identity(path)]);
    let mut next = add(files, image, path);
    while let Some(image) = files.image(next) {
        let (dynamic, from) = (image.dynamic(), files.files()[next].path.clone());
        let origin = identity(&from);
        for name in &dynamic.needed {
            if seen.len() > MAX_LIBRARIES {
                break;
            }
            if let Some((path, image)) = search.find(name, &origin, arch, &dynamic)
                && seen.insert(identity(&path))
            {
                add(files, image, &path);
            }
        }
        next += 1;
    }
    Ok(())
}

/// Adds every program and library in a folder, in the order of their paths.
fn add_folder(files: &mut Files, folder: &Path) -> Result<(), Diagnostic> {
    let mut seen = HashSet::new();
    for path in paths_below(folder)? {
        if files.files().len() >= MAX_FILES {
            break;
        }
        // Most files of a folder are no ELF files, and links lead to files that are there anyway.
        if let Ok(image) = Image::open(&path)
            && seen.insert(identity(&path))
        {
            add(files, image, &path);
        }
    }
    if files.files().is_empty() {
        let message = format!("the folder `{}` has no ELF program or library", path_text(folder));
        return Err(Diagnostic::error(Code::TargetNotFound, message)
            .hint("give the folder with the engine's libraries, or one of its files"));
    }
    Ok(())
}

/// The files below a folder. Links to folders are not followed: they may go round in circles.
fn paths_below(folder: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    let mut paths = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut entries = 0;
    while let Some((folder, depth)) = folders.pop() {
        let listing = match std::fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(e) if depth == 0 => return Err(not_found(&folder, &e)),
            Err(_) => continue,
        };
        for entry in listing.flatten() {
            entries += 1;
            if entries > MAX_ENTRIES {
                let message = format!("the folder `{}` has too many files", path_text(&folder));
                return Err(Diagnostic::error(Code::TargetNotFound, message)
                    .hint("give the folder with the engine's libraries"));
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_DEPTH => folders.push((entry.path(), depth + 1)),
                Ok(kind) if !kind.is_dir() => paths.push(entry.path()),
                _ => {}
            }
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn add(files: &mut Files, image: Image, path: &Path) -> usize {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    files.add_image(image, path, &name)
}

/// What two paths to one file have in common; also what `$ORIGIN` is taken from, which links do not change.
fn identity(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn not_found(path: &Path, error: &std::io::Error) -> Diagnostic {
    let text = path_text(path);
    if error.kind() != std::io::ErrorKind::NotFound {
        return Diagnostic::error(Code::TargetNotFound, format!("cannot open the target `{text}`: {error}"))
            .hint("give a program, a library, a folder of libraries, or a process's number");
    }
    let hint = match in_search_path(path) {
        Some(found) => format!("did you mean `{}`?", path_text(&found)),
        None => "give a program, a library, a folder of libraries, or a process's number".to_owned(),
    };
    Diagnostic::error(Code::TargetNotFound, format!("file or folder `{text}` not found")).hint(hint)
}

/// A command of that name.
fn in_search_path(name: &Path) -> Option<PathBuf> {
    let bare = name.components().count() == 1 && name.file_name().is_some();
    let folders = std::env::var_os("PATH").filter(|_| bare)?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn refused(path: &Path, fault: &Unusable) -> Diagnostic {
    let text = path_text(path);
    match fault {
        Unusable::Unreadable(error) => Diagnostic::error(Code::BadBinary, format!("cannot read `{text}`: {error}"))
            .hint("check the file's permissions"),
        Unusable::OtherArch(machine) => Diagnostic::error(
            Code::WrongArchitecture,
            format!("the instruction set of `{text}` is not supported (ELF machine {machine})"),
        )
        .hint("use a binary for x86_64 or aarch64"),
        Unusable::NotElf(why) => Diagnostic::error(Code::BadBinary, format!("`{text}` {why}")).hint(script_hint(path)),
    }
}

/// A script's interpreter is the program that maps the engine, but only when it runs.
fn script_hint(path: &Path) -> String {
    use std::io::Read;
    let mut start = Vec::new();
    // Opening a pipe would wait for its other end.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    let opened = if is_file { std::fs::File::open(path) } else { Err(std::io::ErrorKind::InvalidInput.into()) };
    let read = opened.and_then(|file| file.take(2).read_to_end(&mut start));
    if read.is_ok() && start == b"#!" {
        return "it is a script; give the engine's library, the folder it is installed in, or the number of a running \
                process"
            .to_owned();
    }
    "give a program, a library, a folder of libraries, or a process's number".to_owned()
}
