//! Engines as their users install them, in environments of their own.

// Not every test that runs one asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the scripts are that install engines and run models on them.
pub(crate) fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines")
}

/// A Python that has packages from PyPI: the environment's name, then each package with its version.
pub(crate) fn python_with(packages: &[&str]) -> PathBuf {
    installed_by("python_environment.sh", packages)
}

/// Runs one that installs an engine; the path that it prints: a Python that has it, or the folder of what was built.
pub(crate) fn installed(script: &str) -> PathBuf {
    installed_by(script, &[])
}

/// The same of one of the builds that the script lists.
pub(crate) fn installed_version(script: &str, build: &str) -> PathBuf {
    installed_by(script, &[build])
}

fn installed_by(script: &str, arguments: &[&str]) -> PathBuf {
    let output = Command::new(scripts().join(script)).args(arguments).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{script} failed: {}", output.status);
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// The file of a package that an environment's Python has, by how its name begins and ends.
pub(crate) fn packaged(python: &Path, folder: &str, begins: &str, ends: &str) -> PathBuf {
    let versions = python.parent().and_then(Path::parent).unwrap().join("lib");
    let version = std::fs::read_dir(versions).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(version.join("site-packages").join(folder)).unwrap().map(|file| file.unwrap().path());
    let is_it = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(begins) && name.ends_with(ends)
    };
    files.into_iter().find(is_it).expect("the package has its library")
}

/// A copy of a library that calls itself another version, of as many bytes.
pub(crate) fn renamed_version(library: &Path, version: &str, other: &str, copy: &Path) {
    replaced_bytes(library, version.as_bytes(), other.as_bytes(), copy);
}

/// A copy of a library with other bytes wherever these are, of which there are as many.
pub(crate) fn replaced_bytes(library: &Path, from: &[u8], to: &[u8], copy: &Path) {
    assert_eq!(from.len(), to.len());
    let mut bytes = std::fs::read(library).unwrap();
    let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty(), "{} does not have {from:x?}", library.display());
    for at in places {
        bytes[at..at + from.len()].copy_from_slice(to);
    }
    std::fs::write(copy, bytes).unwrap();
}
