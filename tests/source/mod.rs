//! The repository's own source as text, for tests that keep rules of it.

// What fails here fails the test that asked.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A source file.
pub(crate) struct SourceFile {
    /// Its path in the repository, such as `src/report.rs`.
    pub(crate) path: String,
    /// What stands in it.
    pub(crate) text: String,
}

/// The package's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file below these folders of the package, sorted by path. A folder need not be there.
pub(crate) fn files(folders: &[&str]) -> Vec<SourceFile> {
    let mut paths = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut paths);
    }
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    let file = |path: &PathBuf| {
        let text = String::from_utf8(std::fs::read(path).unwrap()).ok()?;
        Some(SourceFile { path: name(path), text })
    };
    paths.iter().filter_map(file).collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        // A crate's link to a folder of the repository would show its files twice.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() { walk(&path, paths) } else { paths.push(path) }
    }
}

/// Rust without its comments and without what stands in texts, so that a rule about code sees code only. Lines stay
/// lines.
fn code(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = match rest {
            ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
            ['/', '*', ..] => block_comment(rest),
            ['"', ..] => text_literal(rest),
            ['r', '"' | '#', ..] if at == 0 || !is_word(bytes[at - 1]) => raw_literal(rest).unwrap_or(0),
            ['\'', '\\', _, ..] => 3 + rest[3..].iter().position(|c| *c == '\'').map_or(0, |end| end + 1),
            ['\'', _, '\'', ..] => 3,
            _ => 0,
        };
        if length == 0 {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.push(' ');
            out.extend(rest[..length].iter().filter(|c| **c == '\n'));
            at += length;
        }
    }
    out
}

/// The same without modules of tests: a file `tests.rs` has nothing else, and `#[cfg(test)]` hides an item. Each file is
/// taken apart once, for all rules.
pub(crate) fn shipped_code(file: &SourceFile) -> Arc<str> {
    static DONE: Mutex<BTreeMap<String, Arc<str>>> = Mutex::new(BTreeMap::new());
    let key = format!("{}\n{}", file.path, file.text);
    let done = DONE.lock().unwrap().get(&key).cloned();
    done.unwrap_or_else(|| {
        let code = Arc::from(without_tests(file));
        DONE.lock().unwrap().insert(key, Arc::clone(&code));
        code
    })
}

fn without_tests(file: &SourceFile) -> String {
    if file.path.ends_with("tests.rs") || file.path.contains("/tests/") {
        return String::new();
    }
    let mut code = code(&file.text);
    while let Some(start) = code.find("#[cfg(test)]") {
        let end = item_end(&code[start..]) + start;
        let lines = "\n".repeat(code[start..end].matches('\n').count());
        code.replace_range(start..end, &lines);
    }
    code
}

/// Where the item that starts here ends: after its block, or at its semicolon.
fn item_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, character) in code.char_indices() {
        match character {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < rest.len() {
        match (rest[at], rest[at + 1]) {
            ('/', '*') => (depth, at) = (depth + 1, at + 2),
            ('*', '/') if depth == 1 => return at + 2,
            ('*', '/') => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn text_literal(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_literal(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let body = 2 + hashes;
    let closes = |at: usize| rest[at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    (body..rest.len()).find(|at| closes(*at)).map(|at| at + 1 + hashes)
}
