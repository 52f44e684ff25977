//! What the program is made of besides its own code: each crate is used, has its reason in
//! `docs/decisions/0001-dependencies.md`, and comes under a licence that permits this use.

use crate::source;
use regex::Regex;
use serde_json::Value;
use std::process::Command;

/// Licences that ask for nothing but their mention.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that are there in two versions, because others ask for different ones: `framehop` is one version of `gimli`
/// behind ours, `ring` two versions of `getrandom`.
const TWO_VERSIONS: &[&str] = &["getrandom", "gimli", "object", "syn"];

/// A crate of others that a package of this repository names.
struct Dependency {
    name: String,
    is_for_tests: bool,
    /// The folder of the package, in the repository; empty for the program's.
    package: String,
}

/// What cargo knows of the packages that are compiled here, without asking the network.
fn metadata() -> Value {
    let cargo = env!("CARGO");
    let version = Command::new(cargo).arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(source::root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Name, version and licence of every package.
fn packages(metadata: &Value) -> Vec<[String; 3]> {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or("").to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.map(|package| ["name", "version", "license"].map(|key| text(package, key))).collect()
}

fn direct(metadata: &Value) -> Vec<Dependency> {
    let is_ours = |name: &str| name == "profinfer" || name.starts_with("profinfer-");
    let ours =
        metadata["packages"].as_array().unwrap().iter().filter(|package| is_ours(package["name"].as_str().unwrap()));
    let all = ours.flat_map(|package| {
        let manifest = std::path::Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(source::root()).unwrap().to_str().unwrap().to_owned();
        let dependency = move |value: &Value| Dependency {
            name: value["name"].as_str().unwrap().to_owned(),
            is_for_tests: value["kind"] == "dev",
            package: folder.clone(),
        };
        package["dependencies"].as_array().unwrap().iter().map(dependency)
    });
    all.filter(|dependency| !is_ours(&dependency.name)).collect()
}

/// Whether an SPDX expression leaves a choice that is allowed. `/` is how older crates write `OR`.
fn permits(expression: &str) -> bool {
    let expression = expression.replace(" / ", " OR ").replace('/', " OR ").replace(['(', ')'], " ");
    // AND binds the tighter, and no crate here nests the one in the other but as `(A OR B) AND C`; taking every part
    // of an AND to be needed is then the stricter reading of all others.
    expression.split(" AND ").all(|part| part.split(" OR ").any(|licence| ALLOWED.contains(&licence.trim())))
}

#[test]
fn every_licence_is_allowed() {
    let packages = packages(&metadata());
    let refused: Vec<_> = packages.iter().filter(|[_, _, licence]| !permits(licence)).collect();
    assert!(refused.is_empty(), "not on the list of allowed licences: {refused:?}");
}

#[test]
fn licence_expressions_are_understood() {
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "LGPL-2.1-only OR BSD-2-Clause",
    ] {
        assert!(permits(good), "{good}");
    }
    for bad in ["", "GPL-3.0-only", "MIT AND GPL-2.0-only", "(MIT OR Apache-2.0) AND MPL-2.0"] {
        assert!(!permits(bad), "{bad}");
    }
}

#[test]
fn no_further_crate_comes_in_two_versions() {
    let packages = packages(&metadata());
    let mut names: Vec<&str> = packages.iter().map(|[name, ..]| name.as_str()).collect();
    names.sort_unstable();
    let mut twice: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    twice.dedup();
    twice.retain(|name| !TWO_VERSIONS.contains(name));
    assert!(twice.is_empty(), "in several versions: {twice:?}; see `cargo tree --duplicates`");
}

#[test]
fn every_dependency_has_its_reason() {
    let page = std::fs::read_to_string(source::root().join("docs/decisions/0001-dependencies.md")).unwrap();
    let row = Regex::new(r"(?m)^\| `([\w-]+)` \|").unwrap();
    let mut given: Vec<&str> = row.captures_iter(&page).map(|found| found.get(1).unwrap().as_str()).collect();
    let dependencies = direct(&metadata());
    let mut wanted: Vec<&str> = dependencies.iter().map(|d| d.name.as_str()).collect();
    for names in [&mut given, &mut wanted] {
        names.sort_unstable();
        names.dedup();
    }
    assert_eq!(given, wanted, "rows of docs/decisions/0001-dependencies.md, and Cargo.toml's dependencies");
}

#[test]
fn every_dependency_is_used() {
    let unused = |dependency: &&Dependency| {
        let name = dependency.name.replace('-', "_");
        let used = Regex::new(&format!(r"\b{name}(::|;)")).unwrap();
        let folders: &[&str] =
            if dependency.package.is_empty() { &["src", "tests", "benches", "fuzz"] } else { &[&dependency.package] };
        let mut files = source::files(folders).into_iter().filter(|file| file.path.ends_with(".rs"));
        !files.any(|file| match dependency.is_for_tests {
            true => used.is_match(&file.text),
            false => used.is_match(&source::shipped_code(&file)),
        })
    };
    let dependencies = direct(&metadata());
    let unused: Vec<_> = dependencies.iter().filter(unused).map(|d| (d.package.as_str(), d.name.as_str())).collect();
    assert!(unused.is_empty(), "in a Cargo.toml, and named nowhere in its package: {unused:?}");
}
