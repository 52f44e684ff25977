//! Lists the shipped probesets for the program to carry: a new engine is a new file in `probesets/`, and nothing else.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Resolved, as the folder is a link in the repository and cargo watches what it leads to.
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("probesets").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files: Vec<_> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let entry = |file: &Path| format!("({:?}, include_str!({file:?})),\n", file.file_name().unwrap_or_default());
    let table: String = files.iter().map(|file| entry(file)).collect();
    let out = Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("probesets.rs");
    fs::write(out, format!("&[\n{table}]\n"))
}
