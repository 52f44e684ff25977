//! Functions of compiled libraries by their texts: those of a stripped file are where the same file has symbols for them.

use crate::tests::{compile, offsets, stripped};

/// A function with messages of its own, one whose message stands in a seldom executed part, one without a message of its
/// own, and texts that several refer to.
const SOURCE: &str = r#"
    extern void print(const char *format, ...);
    extern void fail(const char *text, int line) __attribute__((noreturn, cold));
    struct plan { int threads; int size; long done; };
    #define CHECK(condition) do { if (__builtin_expect(!(condition), 0)) fail(#condition, __LINE__); } while (0)
    static __attribute__((noinline)) int compute(struct plan *plan, int from) {
        CHECK(plan);
        CHECK(plan->threads > 0);
        long sum = 0;
        for (int at = from; at < plan->size; at++) {
            CHECK(at != plan->threads);
            sum += at * plan->threads;
        }
        plan->done += sum;
        return sum > 100;
    }
    static __attribute__((noinline)) int other(struct plan *plan, int from) {
        CHECK(plan);
        plan->size += from;
        return plan->size;
    }
    static __attribute__((noinline)) int decode(struct plan *plan) {
        int status = compute(plan, 1) + other(plan, 2);
        if (status != 0)
            print("%s: failed to decode, status = %d", __func__, status);
        return status;
    }
    static __attribute__((noinline)) int encode(struct plan *plan) {
        int status = compute(plan, 2);
        if (status != 0)
            print("%s: failed to encode, status = %d", __func__, status);
        return status;
    }
    int run(struct plan *plan) {
        return decode(plan) + encode(plan) + compute(plan, 7) + other(plan, 3) + decode(plan);
    }
    int run_again(struct plan *plan) {
        return decode(plan) - encode(plan) + compute(plan, 8) - other(plan, 9) + encode(plan);
    }
"#;
const DECODE: &str = r#"refers_to("decode", "%s: failed to decode, status*")"#;
const ENCODE: &str = r#"refers_to("encode", "%s: failed to encode, status = %d")"#;
const COMPUTE: &str = r#"refers_to("plan->threads > 0")"#;

const SHARED: [&str; 2] = ["-shared", "-fPIC"];
/// A program that is at one place in memory, and has addresses in its code.
const FIXED: [&str; 5] = ["-static", "-fno-pie", "-no-pie", "-Wl,-e,run", "-Wl,--unresolved-symbols=ignore-all"];

fn compare(compiler: &str, kind: &[&str], options: &[&str]) {
    let all: Vec<&str> = ["-nostdlib"].iter().chain(kind).chain(options).copied().collect();
    let (_folder, path) = compile(compiler, "libengine.so", SOURCE, &all);
    let stripped = stripped(&path);
    for (name, texts) in [("decode", DECODE), ("encode", ENCODE), ("compute", COMPUTE)] {
        let by_name = offsets(&path, name);
        assert_eq!(by_name.len(), 1, "{compiler} {options:?}: {name}");
        assert_eq!(offsets(&stripped, name), Vec::<u64>::new());
        assert_eq!(offsets(&stripped, texts), by_name, "{compiler} {options:?}: {name}");
        assert_eq!(offsets(&path, texts), by_name, "with symbols, {compiler} {options:?}: {name}");
    }
    for none in [
        r#"refers_to("plan")"#,
        r#"refers_to("decode", "plan->threads > 0")"#,
        r#"refers_to("nothing of it")"#,
        r#"refers_to("%s: failed to decode")"#,
        r#"refers_to("*")"#,
    ] {
        assert_eq!(offsets(&stripped, none), Vec::<u64>::new(), "{compiler} {options:?}: {none}");
    }
}

#[test]
fn functions_are_found_by_the_texts_they_refer_to() {
    for compiler in ["gcc", "clang"] {
        for options in [&["-O0"][..], &["-O1"], &["-O2"], &["-O3"], &["-Os"], &["-O2", "-Wl,-z,noseparate-code"]] {
            compare(compiler, &SHARED, options);
        }
        for options in ["-O0", "-O2"] {
            compare(compiler, &FIXED, &[options]);
        }
    }
    for options in ["-O0", "-O2", "-Os"] {
        let arm64 = ["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-fasynchronous-unwind-tables", options];
        compare("clang", &SHARED, &arm64);
    }
}
