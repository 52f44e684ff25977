//! The functions of a file by the places of their instructions: what profilers call symbolisation.

use super::debug_file::DebugFolders;
use super::elf::Image;
use super::names::{MAX_SYMBOL, readable_name};
use super::rtti::Classes;
use super::symbols::Symbols;
use super::{call_targets, methods, unwind_ranges};
use object::{Object, ObjectSection};
use profinfer_diagnostics::printable;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

/// What a function is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionName {
    /// By a symbol, or by its class and slot in a virtual table: `Class[slot]`.
    Named(String),
    /// By the address of its first instruction, as the file's tables have it: of a function without a symbol.
    Address(u64),
}

/// Functions of one file.
#[derive(Debug)]
pub struct FunctionTable {
    image: Image,
    /// By first byte; those that begin at one place are one.
    functions: Vec<Placed>,
    /// Sections of code by place, with their names.
    sections: Vec<(Range<u64>, String)>,
    /// Read when an instruction is in none of the others.
    without_symbols: OnceCell<WithoutSymbols>,
}

/// Functions of which nothing but code and tables is in the file.
#[derive(Debug)]
struct WithoutSymbols {
    /// By first byte.
    ranges: Vec<Range<u64>>,
    methods: HashMap<u64, String>,
    /// These and those with symbols, where they overlap as one.
    all: Vec<Range<u64>>,
    /// First bytes of functions between those.
    between: Vec<u64>,
}

impl WithoutSymbols {
    fn read(image: &Image, sections: &[(Range<u64>, String)], functions: &[Placed]) -> Self {
        let (ranges, classes) = (unwind_ranges::read(image), Classes::read(image));
        let with_symbols = functions.iter().map(|function| function.start..function.end);
        let all = joined(ranges.iter().cloned().chain(with_symbols).collect());
        let code: Vec<Range<u64>> = sections.iter().map(|(range, _)| range.clone()).collect();
        let between = call_targets::between(image, &classes.pointers, &all, &code);
        Self { methods: methods::names(image, &classes), ranges, all, between }
    }

    /// The first byte of the function that a place in a section is in.
    fn start(&self, section: &Range<u64>, offset: u64) -> Option<u64> {
        if let Some(range) = unwind_ranges::with(&self.ranges, offset) {
            return Some(range.start);
        }
        let from =
            unwind_ranges::last_before(&self.all, offset).map_or(section.start, |range| range.end.max(section.start));
        let start = self.between.partition_point(|start| *start <= offset).checked_sub(1);
        start.and_then(|start| self.between.get(start)).copied().filter(|start| *start >= from)
    }
}

/// Ranges in order, those that overlap as one.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let overlaps = next.start < last.end;
        last.end = if overlaps { last.end.max(next.end) } else { last.end };
        overlaps
    });
    ranges
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
        Some(Self { image, functions, sections, without_symbols: OnceCell::new() })
    }

    /// The function that the instruction at a file offset is in. A stub of the linker is in none: it gives the name of its
    /// section, as `.plt`. Without a symbol, unwind tables tell the function, and virtual tables its name.
    pub fn at(&self, offset: u64) -> Option<FunctionName> {
        let after = self.functions.partition_point(|function| function.start <= offset);
        let function = after.checked_sub(1).and_then(|before| self.functions.get(before));
        if let Some(function) = function.filter(|function| offset < function.end) {
            return Some(FunctionName::Named(name_of(&function.symbol)));
        }
        let (section, name) = self.sections.iter().find(|(range, _)| range.contains(&offset))?;
        if name.starts_with(".plt") {
            return Some(FunctionName::Named(name.clone()));
        }
        let others =
            self.without_symbols.get_or_init(|| WithoutSymbols::read(&self.image, &self.sections, &self.functions));
        let start = others.start(section, offset)?;
        match others.methods.get(&start) {
            Some(name) => Some(FunctionName::Named(name.clone())),
            None => self.image.address_of(start).map(FunctionName::Address),
        }
    }
}

/// A symbol as a person reads it: those of C++ and Rust demangled, without parameters and hashes.
fn name_of(symbol: &str) -> String {
    match rustc_demangle::try_demangle(symbol) {
        Ok(name) if symbol.len() <= MAX_SYMBOL => printable(&format!("{name:#}")),
        _ => readable_name(symbol),
    }
}

fn sections(image: &Image) -> Vec<(Range<u64>, String)> {
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
    use crate::tests::compile;
    use std::process::Command;

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

    /// Classes, an exported function, a static one, and one in assembly that unwind tables do not have.
    const STRIPPED: &str = r#"
        struct Base { virtual ~Base(); virtual int work(int); virtual int more(int); };
        struct Derived : Base { int work(int) override; };
        Base::~Base() {}
        int Base::work(int a) { return a * 3; }
        int Base::more(int a) { return a * 5 + 1; }
        int Derived::work(int a) { return a * 7 - 2; }
        asm(".text\n.p2align 4\n.type assembled, @function\nassembled: movl %edi, %eax\naddl $3, %eax\nret\n"
            ".size assembled, .-assembled\n.p2align 4\n.type beside, @function\nbeside: movl %edi, %eax\nret\n"
            ".size beside, .-beside\n");
        extern "C" __attribute__((visibility("hidden"))) int assembled(int), beside(int);
        static __attribute__((noinline)) int inner(int a) { return assembled(a) + beside(a) + 1; }
        extern "C" __attribute__((visibility("default"))) int outer(Base *base, int a) { return inner(base->work(a)) * 2; }
        Derived derived;
    "#;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn functions_of_a_stripped_file_are_those_that_it_had_symbols_for() {
        let (folder, path) = compile("g++", "whole.so", STRIPPED, &["-shared", "-fPIC", "-O1", "-fvisibility=hidden"]);
        let stripped = folder.path().join("stripped.so");
        assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&path).status().unwrap().success());
        let [whole, stripped] =
            [&path, &stripped].map(|path| FunctionTable::open(path, &DebugFolders::default()).unwrap());
        let named = |name: &str| Some(FunctionName::Named(name.to_owned()));
        let mut seen = 0;
        for Placed { start, end, symbol } in &whole.functions {
            let expected = match &*name_of(symbol) {
                "inner" | "assembled" | "beside" => whole.image.address_of(*start).map(FunctionName::Address),
                "outer" => named("outer"),
                "Base::work" => named("Base[2]"),
                "Base::more" => named("Base[3]"),
                "Derived::work" => named("Derived[2]"),
                _ => continue,
            };
            for offset in [*start, end - 1] {
                assert_eq!(stripped.at(offset), expected, "{symbol}");
            }
            seen += 1;
        }
        assert_eq!(seen, 7, "{:?}", whole.functions);
        assert_eq!(stripped.at(0), None);
    }

    /// Without unwind tables; one is called, and one is jumped to, by a function with a symbol that lies after them.
    const BARE: &str = "
        volatile long sink;
        static __attribute__((noinline, noclone)) void jumped(long a) { for (long i = 0; i < a; i++) sink += i * a; }
        static __attribute__((noinline, noclone)) void called(long a) { for (long i = 0; i < a; i++) sink -= i * a; }
        void outer(long a) { called(a); jumped(a + 1); }
    ";

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn functions_without_unwind_tables_begin_where_calls_and_jumps_of_others_lead() {
        let flags = ["-shared", "-fPIC", "-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
        let (folder, path) = compile("gcc", "whole.so", BARE, &flags);
        let stripped = folder.path().join("stripped.so");
        assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&path).status().unwrap().success());
        let [whole, stripped] =
            [&path, &stripped].map(|path| FunctionTable::open(path, &DebugFolders::default()).unwrap());
        for name in ["jumped", "called"] {
            let function = whole.functions.iter().find(|function| function.symbol == name).unwrap();
            let expected = whole.image.address_of(function.start).map(FunctionName::Address);
            for offset in [function.start, function.end - 1] {
                assert_eq!(stripped.at(offset), expected, "{name}");
            }
        }
    }

    #[test]
    fn ranges_that_overlap_are_one() {
        let ranges = vec![10..20, 0..5, 12..15, 19..30, 30..40, 5..6];
        assert_eq!(joined(ranges), [0..5, 5..6, 10..30, 30..40]);
    }

    /// Has a symbol of its own however this crate is optimised; a test of the harness's may be inlined.
    #[inline(never)]
    fn looked_up(items: &[u64]) -> u64 {
        items.iter().fold(1, |sum, item| sum ^ item.wrapping_mul(sum))
    }

    #[test]
    fn a_function_is_found_by_any_of_its_instructions() {
        assert_ne!(looked_up(std::hint::black_box(&[2, 3, 4])), 0);
        let exe = std::env::current_exe().unwrap();
        let table = FunctionTable::open(&exe, &DebugFolders::default()).unwrap();
        let name = "functions::tests::looked_up";
        let function = table.functions.iter().find(|function| name_of(&function.symbol).ends_with(name)).unwrap();
        assert!(function.end > function.start + 8, "{function:?}");
        for offset in [function.start, function.start + 5, function.end - 1] {
            assert_eq!(table.at(offset), Some(FunctionName::Named(name_of(&function.symbol))));
        }
        assert_ne!(table.at(function.end), Some(FunctionName::Named(name_of(&function.symbol))));
        assert_eq!(table.at(0), None, "a header is no function");
    }
}
