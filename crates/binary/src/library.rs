//! Finds the libraries that a program needs, in the places and the order in which the dynamic linker searches for them:
//! run path, `LD_LIBRARY_PATH`, `/etc/ld.so.cache`, the default folders. What a program opens by itself later is not
//! defined here.

use super::Arch;
use super::elf::{Dynamic, Image};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of `/etc/ld.so.cache`.
const MAX_CACHE: u64 = 32 << 20;
/// The cache's only format since glibc 2.32, which older ones write behind the older format.
const CACHE_MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const CACHE_HEADER: usize = 48;
const CACHE_ENTRY: usize = 24;

/// Folders that are searched for libraries.
#[derive(Debug, Default)]
pub(crate) struct LibrarySearch {
    environment: Vec<PathBuf>,
    /// Paths by library name, in the cache's order.
    cache: HashMap<String, Vec<PathBuf>>,
}

impl LibrarySearch {
    /// As this machine and our environment have it.
    pub(crate) fn of_this_machine() -> Self {
        let environment = std::env::var_os("LD_LIBRARY_PATH");
        let environment =
            environment.iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute()).collect();
        let cache = read_cache(Path::new("/etc/ld.so.cache")).map(|bytes| parse_cache(&bytes)).unwrap_or_default();
        Self { environment, cache }
    }

    /// The file that `name` leads to for an image at `path`, and the image.
    pub(crate) fn find(&self, name: &str, path: &Path, arch: Arch, dynamic: &Dynamic) -> Option<(PathBuf, Image)> {
        let fits = |path: PathBuf| {
            let image = Image::open(&path).ok().filter(|image| image.arch() == arch)?;
            Some((path, image))
        };
        if name.contains('/') {
            return fits(PathBuf::from(name));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let rpath: &[String] = if dynamic.runpath.is_empty() { &dynamic.rpath } else { &[] };
        let expanded = |entry: &String| expand(entry, folder, arch);
        let in_folders = rpath
            .iter()
            .map(expanded)
            .chain(self.environment.iter().cloned())
            .chain(dynamic.runpath.iter().map(expanded))
            .map(|folder| folder.join(name));
        let cached = self.cache.get(name).into_iter().flatten().cloned();
        let default = default_folders(arch).into_iter().map(|folder| Path::new(folder).join(name));
        in_folders.chain(cached).chain(default).find_map(fits)
    }
}

/// A run path's entry with `$ORIGIN` and `$LIB` filled in.
fn expand(entry: &str, folder: &Path, arch: Arch) -> PathBuf {
    let mut text = entry.to_owned();
    let lib = match arch {
        Arch::X86_64 => "lib/x86_64-linux-gnu",
        Arch::Aarch64 => "lib/aarch64-linux-gnu",
    };
    for (name, value) in [("ORIGIN", folder.to_string_lossy().as_ref()), ("LIB", lib)] {
        text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
    }
    PathBuf::from(text)
}

fn default_folders(arch: Arch) -> [&'static str; 7] {
    let (lib, usr_lib) = match arch {
        Arch::X86_64 => ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"),
        Arch::Aarch64 => ("/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu"),
    };
    [lib, usr_lib, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"]
}

fn read_cache(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_CACHE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The paths in a cache of the current format; none, where it is of another.
fn parse_cache(bytes: &[u8]) -> HashMap<String, Vec<PathBuf>> {
    let mut libraries: HashMap<String, Vec<PathBuf>> = HashMap::new();
    let Some(bytes) = bytes.windows(CACHE_MAGIC.len()).position(|window| window == CACHE_MAGIC).map(|at| &bytes[at..])
    else {
        return libraries;
    };
    let word = |at: usize| {
        let word = bytes.get(at..at + 4)?;
        usize::try_from(u32::from_le_bytes(word.try_into().ok()?)).ok()
    };
    let text = |at: usize| {
        let text = bytes.get(at..)?;
        std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()
    };
    let count = word(CACHE_MAGIC.len()).unwrap_or(0).min(bytes.len() / CACHE_ENTRY);
    for entry in (0..count).map(|number| CACHE_HEADER + number * CACHE_ENTRY) {
        if let (Some(name), Some(path)) = (word(entry + 4).and_then(text), word(entry + 8).and_then(text)) {
            libraries.entry(name.to_owned()).or_default().push(PathBuf::from(path));
        }
    }
    libraries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origin_is_the_folder_of_the_file_that_asks() {
        let folder = Path::new("/opt/engine/bin");
        assert_eq!(expand("$ORIGIN/../lib", folder, Arch::X86_64), Path::new("/opt/engine/bin/../lib"));
        assert_eq!(expand("${ORIGIN}", folder, Arch::X86_64), folder);
        assert_eq!(expand("/usr/$LIB", folder, Arch::Aarch64), Path::new("/usr/lib/aarch64-linux-gnu"));
    }

    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = CACHE_MAGIC.to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
        bytes.resize(CACHE_HEADER, 0);
        let mut strings = Vec::new();
        let start = CACHE_HEADER + entries.len() * CACHE_ENTRY;
        for (name, path) in entries {
            bytes.extend(3u32.to_le_bytes());
            for text in [name, path] {
                bytes.extend(u32::try_from(start + strings.len()).unwrap().to_le_bytes());
                strings.extend(text.as_bytes());
                strings.push(0);
            }
            bytes.resize(bytes.len() + 12, 0);
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn the_cache_gives_each_library_its_paths_in_order() {
        let libraries = parse_cache(&cache(&[("a.so.1", "/x/a.so.1"), ("b.so", "/x/b.so"), ("a.so.1", "/y/a.so.1")]));
        assert_eq!(libraries["a.so.1"], [PathBuf::from("/x/a.so.1"), PathBuf::from("/y/a.so.1")]);
        assert_eq!(libraries["b.so"], [PathBuf::from("/x/b.so")]);
    }

    proptest::proptest! {
        #[test]
        fn any_cache_is_read(at in 0usize..120, byte in proptest::num::u8::ANY, length in 0usize..130) {
            let mut bytes = cache(&[("a.so", "/x/a.so"), ("b.so", "/x/b.so")]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(length);
            let _ = parse_cache(&bytes);
        }
    }
}
