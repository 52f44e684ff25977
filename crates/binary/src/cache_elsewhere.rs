//! Systems on which nothing is recorded: there, nothing is cached.

use super::dwarf::Answers;
use super::elf::Image;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Never there.
#[derive(Debug, Clone)]
pub(crate) enum LayoutCache {}

/// Of no use here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileState {}

impl FileState {
    pub(crate) fn of(_file: &File) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) fn folder() -> Option<PathBuf> {
    None
}

impl LayoutCache {
    pub(crate) fn new(_folder: &Path, _images: &[(&Image, &Path)]) -> Option<Self> {
        None
    }

    pub(crate) fn load(&self) -> Answers {
        match *self {}
    }

    pub(crate) fn store(&self, _answers: &Answers) {
        match *self {}
    }
}
