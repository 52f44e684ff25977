//! The functions of a file by the places of their instructions: what profilers call symbolisation.

use super::debug_file::DebugFolders;
use super::elf::Image;
use super::names::{MAX_SYMBOL, readable_name};
use super::symbols::Symbols;
use object::{Object, ObjectSection};
use profinfer_diagnostics::printable;
use std::path::Path;

/// Functions of one file.
#[derive(Debug, Default)]
pub struct FunctionTable {
    build_id: Option<String>,
    /// By first byte; those that begin at one place are one.
    functions: Vec<Placed>,
    /// Sections of code by place, with their names.
    sections: Vec<(std::ops::Range<u64>, String)>,
}

#[derive(Debug)]
struct Placed {
    start: u64,
    end: u64,
    symbol: String,
}

/// The build-id of a file, in lower-case hexadecimal.
pub fn build_id(path: &Path) -> Option<String> {
    Image::open(path).ok()?.build_id().map(str::to_owned)
}

impl FunctionTable {
    /// Reads a file's symbols, and those of its debug file.
    pub fn open(path: &Path, folders: &DebugFolders) -> Option<Self> {
        let image = Image::open(path).ok()?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let debug = if image.has_symbols() { None } else { folders.find(&image, path, &name, &mut Vec::new()) };
        let images: Vec<&Image> = std::iter::once(&image).chain(debug.as_ref().map(|debug| &debug.image)).collect();
        let mut functions: Vec<Placed> = Symbols::read(&images)
            .all(&images)
            .into_iter()
            .map(|(start, (symbol, size))| Placed { start, end: start.saturating_add(size), symbol })
            .collect();
        functions.sort_by_key(|function| function.start);
        let sections = sections(&image);
        // Hand-written functions have no size: they end where the next one begins, or the section.
        let starts: Vec<u64> = functions.iter().map(|function| function.start).collect();
        for (function, next) in functions.iter_mut().zip(starts.into_iter().skip(1).map(Some).chain([None])) {
            if function.end == function.start {
                let section = sections.iter().find(|(range, _)| range.contains(&function.start));
                let end = section.map_or(function.start, |(range, _)| range.end);
                function.end = next.map_or(end, |next| next.min(end));
            }
        }
        Some(Self { build_id: image.build_id().map(str::to_owned), functions, sections })
    }

    /// Lower-case hexadecimal.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// The function that the instruction at a file offset is in. A stub of the linker is in none: it gives the name of its
    /// section, as `.plt`.
    pub fn at(&self, offset: u64) -> Option<String> {
        let after = self.functions.partition_point(|function| function.start <= offset);
        let function = after.checked_sub(1).and_then(|before| self.functions.get(before));
        if let Some(function) = function.filter(|function| offset < function.end) {
            return Some(name_of(&function.symbol));
        }
        let stub = self.sections.iter().find(|(range, name)| range.contains(&offset) && name.starts_with(".plt"));
        stub.map(|(_, name)| name.clone())
    }
}

/// A symbol as a person reads it: those of C++ and Rust demangled, without parameters and hashes.
fn name_of(symbol: &str) -> String {
    match rustc_demangle::try_demangle(symbol) {
        Ok(name) if symbol.len() <= MAX_SYMBOL => printable(&format!("{name:#}")),
        _ => readable_name(symbol),
    }
}

fn sections(image: &Image) -> Vec<(std::ops::Range<u64>, String)> {
    let Some(headers) = image.headers() else { return Vec::new() };
    let code = headers.sections().filter(|section| section.kind() == object::SectionKind::Text);
    code.filter_map(|section| {
        let (start, size) = section.file_range()?;
        Some((start..start.checked_add(size)?, section.name().ok()?.to_owned()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_a_person_wrote() {
        let names = [
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("run.cold", "run"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvCskwGfYPst2Cb_3foo3bar", "foo::bar"),
            ("_ZN3foo3barEi", "foo::bar"),
        ];
        for (symbol, expected) in names {
            assert_eq!(name_of(symbol), expected);
        }
    }

    #[test]
    fn a_function_is_found_by_any_of_its_instructions() {
        let exe = std::env::current_exe().unwrap();
        let table = FunctionTable::open(&exe, &DebugFolders::default()).unwrap();
        let name = "a_function_is_found_by_any_of_its_instructions";
        let function = table.functions.iter().find(|function| name_of(&function.symbol).ends_with(name)).unwrap();
        assert!(function.end > function.start + 8, "{function:?}");
        for offset in [function.start, function.start + 5, function.end - 1] {
            assert_eq!(table.at(offset), Some(name_of(&function.symbol)));
        }
        assert_ne!(table.at(function.end), Some(name_of(&function.symbol)));
        assert_eq!(table.at(0), None, "a header is no function");
    }
}
