//! Closures of compiled libraries: those of a stripped file are those that the same file has symbols for.

use super::stores::{Addresses, Stores};
use super::{arm64, x86};
use crate::files::Files;
use crate::references;
use crate::tests::compile;
use crate::{Function, TargetSymbols};
use profinfer_probeset::path::NamePattern;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

/// Closures with little and with much of their own, with arguments, in a class of any type, and of one function twice.
const SOURCE: &str = r#"
    #include <functional>
    #include <string>
    #include <vector>
    using Task = std::function<void()>;
    std::vector<Task> tasks;
    std::vector<std::function<long(int, std::string const &)>> others;
    struct Section { int done; };
    template <class T> struct Pool {
        T of;
        __attribute__((noinline)) void schedule(Section &section, std::function<void(unsigned)> work, unsigned from, unsigned to) {
            for (unsigned at = from; at < to; at++) {
                Task task = [work, at, &section, this]() { work(at); section.done += (int)of; };
                tasks.push_back(std::move(task));
            }
        }
        __attribute__((noinline)) void dispatch(Section &section, std::function<void(unsigned)> work, unsigned to) {
            tasks.push_back([work, to, &section, this]() { schedule(section, work, 1, to); work(0); });
        }
    };
    static volatile long sink;
    __attribute__((noinline)) void run_small(long of) {
        std::function<void(unsigned)> small = [&of](unsigned at) { sink += of * at; };
        Section section{};
        static Pool<int> ints;
        static Pool<double> doubles;
        ints.schedule(section, small, 0, 4);
        ints.dispatch(section, small, 8);
        doubles.schedule(section, [](unsigned at) { sink -= at; }, 0, 2);
    }
    __attribute__((noinline)) void run_other(std::string text, bool first) {
        if (first)
            others.push_back([text](int at, std::string const &name) -> long { return text.size() + name.size() + at; });
        else
            others.push_back([](int at, std::string const &name) -> long { return name.size() * at; });
    }
    int counted() {
        Task one = [] { sink++; };
        Task two = one;
        two();
        return bool(one);
    }
"#;

/// By place in the file, what its names have behind the type of the function.
fn found(path: &Path) -> BTreeMap<u64, String> {
    let mut files = Files::new(None);
    files.add(path, "libpool.so").unwrap();
    let functions = files.functions(0, &NamePattern("std::_Function_handler<*>::_M_invoke".to_owned()));
    // The function's type, of which the stripped file does not have all, is before.
    let name = |of: &Function| of.name.split_once("), ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    functions.iter().map(|function| (function.file_offset, name(function))).collect()
}

/// The names that are found without symbols, each where the symbol is.
fn compare(compiler: &str, options: &[&str]) -> Vec<String> {
    let all: Vec<&str> = ["-shared", "-fPIC", "-fvisibility=hidden"].iter().chain(options).copied().collect();
    let (folder, path) = compile(compiler, "libpool.so", SOURCE, &all);
    let whole = found(&path);
    let stripped = folder.path().join("stripped.so");
    assert!(Command::new("strip").arg("-o").arg(&stripped).arg(&path).status().unwrap().success());
    let stripped = found(&stripped);
    for (offset, name) in &stripped {
        assert_eq!(whole.get(offset), Some(name), "{compiler} {options:?}: {whole:#?}");
    }
    assert!(whole.len() > 5, "{compiler} {options:?}: {whole:#?}");
    stripped.into_values().collect()
}

/// With the C++ library inside, of which nothing is exported, and constants and code in one segment.
const STATIC: [&str; 4] = ["-O2", "-static-libstdc++", "-Wl,--exclude-libs,ALL", "-Wl,-z,noseparate-code"];

#[test]
#[cfg(target_arch = "x86_64")]
fn functions_that_call_closures_are_found_without_symbols() {
    for compiler in ["g++", "clang++"] {
        for options in [&["-O2"][..], &["-O3"], &["-O2", "-march=haswell"], &["-Os"], &STATIC] {
            let found = compare(compiler, options);
            // One object of which nothing but the call is left has none to find.
            assert!(found.len() >= 7, "{compiler} {options:?}: {found:?}");
            let tasks = found.iter().filter(|name| name.starts_with("Pool<")).count();
            assert_eq!(tasks, 3, "{compiler} {options:?}: {found:?}");
        }
        assert!(compare(compiler, &["-O1"]).len() >= 6, "{compiler}");
        // Not optimised, g++ stores through pointers that it loads anew each time.
        compare(compiler, &["-O0"]);
        assert_eq!(compare(compiler, &["-O2", "-fno-rtti"]), Vec::<String>::new());
    }
}

proptest::proptest! {
    #[test]
    fn any_code_is_followed(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400), at in proptest::num::u64::ANY) {
        struct Some64;
        impl Addresses for Some64 {
            fn at(&self, place: u64) -> Option<u64> {
                place.is_multiple_of(3).then_some(place)
            }
        }
        let managers: HashMap<u64, usize> = (0..64).map(|manager| (at.wrapping_add(manager), 0)).collect();
        let targets: HashMap<u64, u64> = managers.keys().map(|manager| (*manager, *manager)).collect();
        let mut stores = Stores::new(&managers);
        x86::follow(&bytes, at, &Some64, &mut stores);
        arm64::follow(&bytes, at, &Some64, &mut stores);
        references::x86::branches(&bytes, at, &mut |_, _, _| ());
        references::arm64::branches(&bytes, at, &mut |_, _, _| ());
        let _ = (references::x86::references(&bytes, at, &targets, true), references::arm64::references(&bytes, at, &targets));
    }
}
