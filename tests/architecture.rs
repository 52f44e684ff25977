//! The rules of ARCHITECTURE.md, kept. A rule that must change is changed there and here, with the reason in
//! `docs/decisions/`.

// The functions around the tests are tests too.
#![allow(clippy::unwrap_used)]

mod source;

use regex::Regex;
use source::{SourceFile, files, shipped_code};

/// Crates that only some files may name; a folder ends in `/`.
const CRATES: &[(&str, &[&str])] = &[
    ("pest", &["path/"]),
    ("pest_derive", &["path/"]),
    ("handlebars", &["codegen/", "report/html/"]),
    ("hdrhistogram", &["analysis/durations.rs"]),
    ("libbpf_rs", &["bpf/", "record/"]),
    ("iced_x86", &["plan/site/x86.rs", "plan/inlined/flow.rs"]),
    ("yaxpeax_arch", &["plan/site/arm64.rs"]),
    ("yaxpeax_arm", &["plan/site/arm64.rs"]),
    ("granit_parser", &["spec/yaml.rs"]),
    ("gimli", &["target/dwarf/"]),
    ("object", &["target/", "bpf/"]),
    ("memmap2", &["target/elf.rs"]),
    ("cpp_demangle", &["target/names.rs"]),
    ("zstd", &["trace/", "target/stripped_tests.rs"]),
    ("crc32fast", &["trace/", "target/debug_file.rs"]),
    ("csv", &["report/export/"]),
    ("arrow_array", &["report/export/columnar.rs", "report/export/tests.rs"]),
    ("arrow_ipc", &["report/export/columnar.rs", "report/export/tests.rs"]),
    ("arrow_schema", &["report/export/columnar.rs"]),
    ("parquet", &["report/export/columnar.rs", "report/export/tests.rs"]),
    ("flate2", &["report/timeline/", "report/html/"]),
    ("base64", &["report/html/"]),
    ("lzma_rust2", &["target/files.rs"]),
    ("annotate_snippets", &["diag/render.rs"]),
    (
        "nix",
        &[
            "bpf/",
            "record/",
            "roofline/",
            "cli/",
            "cache/",
            "output/",
            "target/process.rs",
            "target/content.rs",
            "target/inspected.rs",
        ],
    ),
    ("signal_hook", &["record/", "cli/"]),
    ("anstream", &["cli/"]),
    ("comfy_table", &["cli/", "report/"]),
    ("clap_complete", &["cli/"]),
    ("clap_mangen", &["cli/"]),
];

/// What each module may use of the others: arrows point to the left only. `trace` and `spec` know each other by one
/// name each (`Role`, and the width of a record's mask), for which see `NARROW`.
const MODULES: &[(&str, &[&str])] = &[
    ("diag", &[]),
    ("cache", &["diag"]),
    ("output", &["diag"]),
    ("counters", &["diag"]),
    ("path", &["diag"]),
    ("trace", &["diag", "spec"]),
    ("spec", &["diag", "counters", "path", "trace"]),
    ("target", &["diag", "cache", "path"]),
    ("plan", &["diag", "counters", "path", "spec", "target", "trace"]),
    ("scaffold", &["diag", "path", "target"]),
    ("codegen", &["diag", "path", "spec", "target", "trace", "plan"]),
    ("analysis", &["diag", "path", "spec", "trace"]),
    ("report", &["diag", "trace", "analysis"]),
    ("bpf", &["diag", "cache", "path", "target", "plan", "codegen"]),
    ("roofline", &["diag", "cache", "target", "trace"]),
    (
        "record",
        &[
            "diag", "cache", "output", "counters", "path", "spec", "target", "trace", "plan", "codegen", "bpf",
            "roofline",
        ],
    ),
];

/// Where a module may use another, but only these names of it.
const NARROW: &[(&str, &str, &[&str])] = &[("trace", "spec", &["Role"]), ("spec", "trace", &["MAX_FIELDS"])];

/// Modules that compute only: what they know of the world is handed to them.
const PURE: &[&str] =
    &["diag", "counters", "path", "trace", "spec", "plan", "codegen", "scaffold", "analysis", "report"];

/// The exceptions: probesets are read from files, within bounds; a thread reads a trace ahead.
const IMPURE_FILES: &[&str] = &["spec/load.rs", "trace/ahead.rs"];

/// Where `unsafe` may stand: system calls, the one mapping of a binary, and loops in assembly.
const UNSAFE: &[&str] = &["bpf/", "record/", "roofline/kernels/", "target/elf.rs"];

/// Lines of code that a file may have: tests, comments and blank lines aside.
const MOST_LINES: usize = 600;

/// Engines that the program must not know beside those of `probesets/`, as beginnings of words: other names of these, what
/// they are parts of and packed into, and some that have no probeset.
const ENGINES: [&str; 11] = [
    "gguf",
    "onnx",
    "openvino",
    "tflite",
    "xnnpack",
    "sherpa",
    "tensorflow",
    "torch",
    "ctranslate",
    "vllm",
    "executorch",
];

/// The names that must not stand in the program, in one pattern.
fn engines() -> Regex {
    let shipped = files(&["probesets"]);
    let shipped: Vec<&str> =
        shipped.iter().filter_map(|file| file.path.strip_prefix("probesets/")?.strip_suffix(".yaml")).collect();
    assert!(shipped.len() >= 7, "{shipped:?}");
    let names = shipped.into_iter().chain(ENGINES).map(regex::escape).collect::<Vec<_>>().join("|");
    Regex::new(&format!("(?i)(?:^|[^a-z])({names})")).unwrap()
}

struct Rule {
    broken: Vec<String>,
}

impl Rule {
    fn new() -> Self {
        Self { broken: Vec::new() }
    }

    fn breaks(&mut self, file: &SourceFile, line: usize, what: &str) {
        self.broken.push(format!("{}:{line}: {what}", file.path));
    }

    /// Every line of the code that the pattern matches.
    fn must_not_match(&mut self, file: &SourceFile, code: &str, pattern: &Regex) {
        for (number, line) in code.lines().enumerate() {
            if pattern.is_match(line) {
                self.breaks(file, number + 1, line.trim());
            }
        }
    }

    #[track_caller]
    fn holds(self, rule: &str) {
        assert!(self.broken.is_empty(), "{rule}\n  {}\n", self.broken.join("\n  "));
    }
}

fn sources() -> Vec<SourceFile> {
    files(&["src"])
}

/// Path within `src/`.
fn place(file: &SourceFile) -> &str {
    file.path.strip_prefix("src/").unwrap_or(&file.path)
}

fn is_in(file: &SourceFile, places: &[&str]) -> bool {
    places.iter().any(|p| if p.ends_with('/') { place(file).starts_with(p) } else { place(file) == *p })
}

/// The module a file belongs to: its folder, or its name.
fn module(file: &SourceFile) -> &str {
    place(file).split('/').next().unwrap_or_default().trim_end_matches(".rs")
}

#[test]
fn crates_are_named_only_where_they_belong() {
    let mut rule = Rule::new();
    for (name, places) in CRATES {
        let pattern = Regex::new(&format!(r"(^|[^:\w])(::)?{name}::|\b(use|extern crate) (::)?{name}\b")).unwrap();
        let elsewhere = |file: &&SourceFile| !is_in(file, places);
        for file in sources().iter().filter(elsewhere) {
            rule.must_not_match(file, &shipped_code(file), &pattern);
        }
    }
    rule.holds("a crate is named outside the files that may (`CRATES` in tests/architecture.rs)");
}

#[test]
fn modules_depend_in_one_direction() {
    let mut rule = Rule::new();
    let used = Regex::new(r"\bcrate::(\w+)").unwrap();
    for file in &sources() {
        let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module(file)) else { continue };
        for (number, line) in shipped_code(file).lines().enumerate() {
            for used in used.captures_iter(line).map(|found| found.get(1).unwrap().as_str()) {
                let is_module = MODULES.iter().any(|(name, _)| *name == used) || used == "cli";
                if is_module && used != module(file) && !allowed.contains(&used) {
                    rule.breaks(file, number + 1, line.trim());
                }
            }
        }
    }
    rule.holds("a module uses one that it must not know (`MODULES` in tests/architecture.rs)");
}

#[test]
fn every_module_has_its_rule() {
    let mut rule = Rule::new();
    for file in &sources() {
        let known =
            MODULES.iter().any(|(name, _)| *name == module(file)) || ["cli", "lib", "main"].contains(&module(file));
        if !known {
            rule.breaks(file, 1, module(file));
        }
    }
    rule.holds("a module without a line in `MODULES` of tests/architecture.rs");
}

#[test]
fn some_dependencies_are_one_name_wide() {
    let mut rule = Rule::new();
    for (from, to, names) in NARROW {
        let used = Regex::new(&format!(r"\bcrate::{to}::(\{{[^}}]*\}}|\w+)")).unwrap();
        for file in sources().iter().filter(|file| module(file) == *from) {
            for (number, line) in shipped_code(file).lines().enumerate() {
                for found in used.captures_iter(line) {
                    let mut found = found[1].split([',', '{', '}']).map(str::trim).filter(|name| !name.is_empty());
                    if found.any(|name| !names.contains(&name)) {
                        rule.breaks(file, number + 1, line.trim());
                    }
                }
            }
        }
    }
    rule.holds("a module uses more of another than the names it may (`NARROW` in tests/architecture.rs)");
}

#[test]
fn pure_modules_do_not_touch_the_world() {
    let mut rule = Rule::new();
    let world = r"fs|net|process|env|thread|os";
    let pattern = Regex::new(&format!(
        r"\bstd::(?:({world})\b|\{{[^}}]*\b({world})\b)|\bstd::io::(stdin|stdout|stderr)|\bSystemTime::now|\bInstant::now"
    ))
    .unwrap();
    for file in sources().iter().filter(|file| PURE.contains(&module(file)) && !is_in(file, IMPURE_FILES)) {
        rule.must_not_match(file, &shipped_code(file), &pattern);
    }
    rule.holds("a pure module reaches for files, processes, the environment, threads or the clock");
}

#[test]
fn only_the_command_line_prints_or_exits() {
    let mut rule = Rule::new();
    let pattern = Regex::new(r"\be?print(ln)?!|\bdbg!|\bio::(stdout|stderr)\b|\bprocess::(exit|abort)\b").unwrap();
    // These hand the descriptors on: an output may be standard output, and a target's may be standard error.
    let hands_on = ["output/place.rs", "record/launch.rs"];
    for file in sources().iter().filter(|file| module(file) != "cli" && !is_in(file, &hands_on)) {
        rule.must_not_match(file, &shipped_code(file), &pattern);
    }
    rule.holds("printing or exiting outside src/cli/");
}

#[test]
fn unsafe_code_stays_where_system_calls_are_made_and_says_why() {
    let mut rule = Rule::new();
    let pattern = Regex::new(r"\bunsafe\b").unwrap();
    for file in &sources() {
        let code = shipped_code(file);
        if !is_in(file, UNSAFE) {
            rule.must_not_match(file, &code, &pattern);
            continue;
        }
        let original: Vec<&str> = file.text.lines().collect();
        for (number, line) in code.lines().enumerate().filter(|(_, line)| pattern.is_match(line)) {
            // The reason stands right above, over the statement's earlier lines if there are any.
            let above = original[number.saturating_sub(8)..=number].iter();
            if !above.clone().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                rule.breaks(file, number + 1, line.trim());
            }
        }
    }
    rule.holds(
        "`unsafe` outside of bpf/, record/, roofline/kernels/ and target/elf.rs, or without its SAFETY sentence",
    );
}

#[test]
fn no_engine_is_known_to_the_program() {
    let mut rule = Rule::new();
    let pattern = engines();
    for name in ["litert", "LiteRt_node", "a whisper", "XNNPACK's", "_torch"] {
        assert!(pattern.is_match(name), "{name}");
    }
    for file in &files(&["src", "bpf-runtime", "templates", "grammar"]) {
        for (number, line) in file.text.lines().enumerate() {
            if pattern.is_match(line) {
                rule.breaks(file, number + 1, line.trim());
            }
        }
    }
    rule.holds("an engine's name in src/, bpf-runtime/, templates/ or grammar/: it belongs into a probeset");
}

#[test]
fn a_file_does_one_thing() {
    let mut rule = Rule::new();
    for file in &sources() {
        let lines = shipped_code(file).lines().filter(|line| !line.trim().is_empty()).count();
        if lines > MOST_LINES {
            rule.breaks(file, lines, "lines of code");
        }
    }
    rule.holds(&format!("a file of more than {MOST_LINES} lines of code, tests and comments aside, is two things"));
}

#[test]
fn no_module_is_a_drawer_for_everything() {
    let mut rule = Rule::new();
    let pattern = Regex::new(r"(^|/)(utils?|commons?|helpers?|managers?|misc|stuff)(\.|/|_|$)").unwrap();
    for file in
        files(&["src", "tests", "bpf-runtime", "templates", "scripts"]).iter().filter(|f| pattern.is_match(&f.path))
    {
        rule.breaks(file, 1, "name it for what it does");
    }
    rule.holds("a file named for nothing");
}

#[test]
fn the_rules_see_code_and_not_comments_texts_or_tests() {
    let text = "use a; // use b;\n/* use c; /* use d; */ */ let e = \"use f;\"; let g = r#\"use \"h\";\"#;\nlet i = '\"'; j::k();\n#[cfg(test)]\nmod tests {\n    use l;\n}\nuse m;";
    let file = SourceFile { path: "src/x.rs".into(), text: text.into() };
    let shipped = shipped_code(&file);
    for seen in ["use a", "let e", "let g", "j::k()", "use m"] {
        assert!(shipped.contains(seen), "{seen} in {shipped}");
    }
    for hidden in ["use b", "use c", "use d", "use f", "h", "use l"] {
        assert!(!shipped.contains(hidden), "{hidden} in {shipped}");
    }
    assert_eq!(shipped.lines().count(), text.lines().count(), "lines keep their numbers");
}
