use crate::tests::library;
use crate::{Files, InlinedCopy, Location, TargetBytes, TargetSymbols};
use profinfer_probeset::path::NamePattern;
use std::collections::HashSet;

const SOURCE: &str = r"
    struct pair { int left, right; };
    extern void use(struct pair *, int), more(int);
    static inline __attribute__((always_inline)) void work(struct pair *pair, int dropped, int number)
    {
        use(pair, number);
        if (pair->left > number)
            more(pair->right);
    }
    void on_frame(int n) { struct pair pair = { n, 2 }; use(&pair, 0); work(&pair, 1, 42); more(pair.left); }
    void in_register(struct pair *pair, int n) { more(1); work(pair, 1, n); more(2); }
";

fn copies(files: &Files) -> Vec<InlinedCopy> {
    files.inlined(0, &NamePattern("work".into()))
}

fn some(copy: &InlinedCopy, parameter: usize, is_it: impl Fn(Location) -> bool) -> bool {
    copy.parameters[parameter].locations.iter().any(|(_, location)| is_it(*location))
}

#[test]
fn copies_are_found_with_their_parameters() {
    let mut sums = 0;
    for (compiler, options) in [
        ("gcc", ["-O2", "-gdwarf-5"]),
        ("gcc", ["-O3", "-gdwarf-4"]),
        ("clang", ["-O2", "-gdwarf-5"]),
        ("clang", ["-O1", "-gdwarf-4"]),
    ] {
        println!("{compiler} {options:?}");
        let (_folder, files) = library(compiler, SOURCE, &options);
        let copies = copies(&files);
        let within: Vec<&str> = copies.iter().map(|copy| copy.within.as_str()).collect();
        assert_eq!(within, ["on_frame", "in_register"]);
        for copy in &copies {
            let names: Vec<&str> = copy.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
            assert_eq!(names, ["pair", "dropped", "number"]);
            assert!(copy.ranges.iter().any(|range| range.contains(&copy.entry)), "{copy:?}");
            assert!(copy.ranges.iter().all(|range| copy.within_ranges.iter().any(|w| w.contains(&range.start))));
            assert!(!copy.statements.is_empty());
        }
        let on_frame = |at| matches!(at, Location::Sum { register: 7, .. });
        sums += usize::from(some(&copies[0], 0, on_frame));
        assert!(some(&copies[0], 0, |at| on_frame(at) || matches!(at, Location::Register(_))), "{copies:?}");
        assert!(some(&copies[0], 2, |at| at == Location::Constant(42)), "{copies:?}");
        assert!(some(&copies[1], 0, |at| matches!(at, Location::Register(_))), "{copies:?}");
        assert_eq!(files.inlined(0, &NamePattern("no_such".into())), []);
        assert_eq!(
            super::copies(files.image(0).unwrap(), files.image(0).unwrap(), &[], &matcher("work"), &HashSet::new()),
            []
        );
    }
    assert!(sums > 0, "some compiler has it as a sum with the stack pointer");
}

fn matcher(pattern: &str) -> crate::names::Matcher {
    crate::names::Matcher::new(&NamePattern(pattern.into())).unwrap()
}

#[test]
fn damaged_debug_information_is_answered() {
    for compiler in ["gcc", "clang"] {
        let (folder, _) = library(compiler, SOURCE, &["-O2", "-g"]);
        let whole = std::fs::read(folder.path().join("libengine.so")).unwrap();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for round in 0..200 {
            let mut bytes = whole.clone();
            // The headers stay: what is damaged is what they lead to.
            for _ in 0..=round % 40 {
                let at = 4096 + random(bytes.len() - 4096 - 64 * 40);
                bytes[at] = u8::try_from(random(256)).unwrap();
            }
            let path = folder.path().join("damaged.so");
            std::fs::write(&path, &bytes).unwrap();
            let mut files = Files::new(None);
            if files.add(&path, "damaged.so").is_ok() {
                assert!(files.inlined(0, &NamePattern("*".into())).len() <= super::MAX_COPIES);
            }
        }
    }
}

#[test]
fn changed_copies_of_whole_functions_have_the_places_of_their_parameters() {
    const SOURCE: &str = r"
        struct t { int op; long ne; };
        static __attribute__((noinline)) long run(void *ctx, int mode, int unused, struct t *t, long n)
        {
            volatile long sum = 0;
            for (long i = 0; i < n; i++)
                sum += t->ne + (long)ctx + mode;
            return sum;
        }
        long first(void *c, struct t *t, long n) { return run(c, 3, 7, t, n) + run(c, 3, 8, t, n + 1); }
        long second(void *c, struct t *t, long n) { return run(c, 3, 9, t, n + 2); }
    ";
    let (_folder, files) = library("gcc", SOURCE, &["-O2", "-gdwarf-5"]);
    let function = files.functions(0, &NamePattern("run".into())).remove(0);
    assert!(crate::may_lack_parameters(&function.symbol), "{}", function.symbol);
    let copies = files.inlined(0, &NamePattern("run".into()));
    let [whole] = copies.as_slice() else { panic!("{copies:?}") };
    assert!(whole.is_whole && whole.entry == function.file_offset);
    let at_entry = |number: usize| {
        let mut locations = whole.parameters[number].locations.iter();
        locations.find(|(range, _)| range.contains(&whole.entry)).map(|(_, location)| *location)
    };
    // rdi, rsi, rdx: the declaration would have the last two in rcx and r8.
    let registers = [5, 4, 1].map(|number| Some(Location::Register(number)));
    assert_eq!([at_entry(0), at_entry(3), at_entry(4)], registers);
    let range = files.unwind_range(0, function.file_offset + 1).unwrap();
    assert_eq!((range.start, range.end - range.start), (function.file_offset, function.size));
    assert_eq!(files.unwind_range(0, 0), None);
    // Others are no such copies.
    assert_eq!(files.inlined(0, &NamePattern("first".into())), []);
}
