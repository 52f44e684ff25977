//! Dispatchers of compiled libraries: what is called before the switch of a stripped file is where the same file has a symbol
//! for it.

use super::{AFTER_CALL, arm64, cases, distance, x86};
use crate::tests::{compile, offsets, stripped};
use std::collections::BTreeSet;

/// `compute` has a text, and calls `thread`, a loop over nodes. A compiler may put `forward` into it: it asks `handled`
/// first. Another switch, of fewer cases, asks `other`.
fn source(cases: usize) -> String {
    let each = |form: &dyn Fn(usize) -> String, count: usize| (0..count).map(form).collect::<String>();
    let operators = each(
        &|case| {
            format!(
                "static __attribute__((noinline)) void op_{case}(struct params *params, struct node *node) {{
                    for (int at = params->ith; at < node->size; at += {case} + 1) node->data[at] += {case} * node->size;
                }}
                "
            )
        },
        cases,
    );
    let switch = |count| each(&|case| format!("case {case}: op_{case}(params, node); break;\n"), count);
    format!(
        r#"
        extern void fail(const char *text) __attribute__((noreturn, cold));
        extern void wait(int);
        struct params {{ int ith; int nth; }};
        struct node {{ int op; int size; float *data; struct node *next; }};
        struct extra {{ int (*compute)(struct params *, struct node *); struct extra *next; }};
        struct plan {{ int threads; struct node *nodes; struct extra *extras; }};
        {operators}
        static __attribute__((noinline)) int handled(struct plan *plan, struct params *params, struct node *node) {{
            for (struct extra *extra = plan->extras; extra; extra = extra->next)
                if (extra->compute(params, node)) return 1;
            return 0;
        }}
        static __attribute__((noinline)) int other(struct params *params, struct node *node) {{
            return params->nth > node->size && node->data[0] > 7;
        }}
        static __attribute__((noinline)) void few(struct params *params, struct node *node) {{
            if (other(params, node)) return;
            switch (node->size) {{ {few} }}
        }}
        static void forward(struct plan *plan, struct params *params, struct node *node) {{
            if (node->size == 0) return;
            if (handled(plan, params, node)) return;
            switch (node->op) {{ {many} default: fail("no such operator"); }}
        }}
        static __attribute__((noinline)) int thread(struct plan *plan, int ith) {{
            struct params params = {{ ith, plan->threads }};
            int count = 0;
            for (struct node *node = plan->nodes; node; node = node->next) {{
                forward(plan, &params, node);
                if (node->next) wait(plan->threads);
                few(&params, node);
                count++;
            }}
            return count;
        }}
        int compute(struct plan *plan) {{
            if (!(plan->threads > 0)) fail("plan->threads > 0");
            int sum = 0;
            for (int at = 0; at < plan->threads; at++) sum += thread(plan, at);
            return sum;
        }}
        "#,
        few = switch(cases / 2),
        many = switch(cases),
    )
}

fn compare(compiler: &str, options: &[&str]) {
    let all: Vec<&str> = ["-nostdlib", "-shared", "-fPIC"].iter().chain(options).copied().collect();
    let pattern = r#"before_switch("plan->threads > 0")"#;
    let (_folder, path) = compile(compiler, "libengine.so", &source(64), &all);
    let stripped = stripped(&path);
    let by_name = offsets(&path, "handled");
    assert_eq!(by_name.len(), 1, "{compiler} {options:?}");
    assert_eq!(offsets(&stripped, pattern), by_name, "{compiler} {options:?}");
    assert_eq!(offsets(&path, pattern), by_name, "with symbols, {compiler} {options:?}");
    for none in [r#"before_switch("no such text")"#, r#"before_switch("plan->threads > 0", "no such operator")"#] {
        assert_eq!(offsets(&stripped, none), Vec::<u64>::new(), "{compiler} {options:?}: {none}");
    }
    // So few cases are compared one after the other.
    let (_folder, path) = compile(compiler, "libengine.so", &source(3), &all);
    assert_eq!(offsets(&path, pattern), Vec::<u64>::new(), "{compiler} {options:?}: no table");
}

#[test]
fn a_function_is_found_by_the_switch_that_it_is_called_before() {
    for compiler in ["gcc", "clang"] {
        for options in ["-O0", "-O1", "-O2", "-O3", "-Os"] {
            compare(compiler, &[options]);
        }
    }
    for options in ["-O0", "-O2", "-Os"] {
        compare("clang", &["--target=aarch64-linux-gnu", "-fuse-ld=lld", "-fasynchronous-unwind-tables", options]);
    }
}

proptest::proptest! {
    #[test]
    fn any_code_is_read(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..400), at in proptest::num::u64::ANY) {
        for code in [x86::code(&bytes, at), arm64::code(&bytes, at)] {
            let jumps: BTreeSet<usize> = (0..code.len()).filter(|jump| cases(&code, *jump).is_some() || jump % 7 == 0).collect();
            let found: Vec<Option<usize>> = (0..code.len()).map(|call| distance(&code, call, &jumps)).collect();
            assert!(found.iter().flatten().all(|steps| *steps < AFTER_CALL));
        }
    }
}
