//! The probesets that the program carries, so that a probeset's name is enough and any folder will do.

/// Prefix of a shipped file's name in diagnostics and traces.
pub(super) const PREFIX: &str = "builtin:";

/// Extension of a probeset.
const EXTENSION: &str = ".yaml";

/// Probesets found by name: file name and text of each.
#[derive(Debug, Clone, Copy)]
pub struct Library(&'static [(&'static str, &'static str)]);

impl Library {
    /// Whether the file of this name (in a diagnostic or a trace) is a shipped one.
    pub fn is_shipped(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// What the program was built with: every file of `probesets/`, as `build.rs` lists them.
    pub const SHIPPED: Self = Self(include!(concat!(env!("OUT_DIR"), "/probesets.rs")));

    /// A library for tests and tools: pairs of file name (`engine.yaml`) and text.
    pub const fn new(files: &'static [(&'static str, &'static str)]) -> Self {
        Self(files)
    }

    /// The file of a probeset's name, with or without `.yaml`: the file's name and text.
    pub fn get(&self, name: &str) -> Option<(&'static str, &'static str)> {
        self.0.iter().copied().find(|(file, _)| *file == name || file.strip_suffix(EXTENSION) == Some(name))
    }

    /// The probesets' names, without `.yaml`.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(file, _)| file.strip_suffix(EXTENSION).unwrap_or(file))
    }
}
