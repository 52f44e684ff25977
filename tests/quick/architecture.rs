//! The rules of ARCHITECTURE.md, kept. A rule that must change is changed there and here, with the reason in
//! `docs/decisions/`.

use crate::source::{SourceFile, files, root, shipped_code};
use profinfer_schema::LossKind;
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Crates that compute only: what they learn of the world is handed to them.
const PURE: &[&str] =
    &["analysis", "compiler", "diagnostics", "live", "probeset", "report", "scaffold", "schema", "trace"];

/// The exceptions: probesets are read from files, within bounds; a thread reads a trace ahead.
const IMPURE_FILES: &[&str] = &["crates/probeset/src/load.rs", "crates/trace/src/ahead.rs"];

/// Where `unsafe` may stand: system calls, the one mapping of a binary, and loops in assembly.
const UNSAFE: &[&str] = &["crates/recorder/src/", "crates/machine/src/kernels/", "crates/binary/src/bytes.rs"];

/// Files of one folder that may use each other in a circle: no more than two.
const MOST_IN_A_CYCLE: usize = 2;

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
    let names = shipped.iter().filter_map(|file| file.path.strip_prefix("probesets/")?.strip_suffix(".yaml"));
    // What the kernel has is of no engine.
    let shipped: Vec<&str> = names.filter(|name| !["kernel", "drm"].contains(name)).collect();
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

/// The code of the program and its crates, without build scripts and examples.
fn sources() -> Vec<SourceFile> {
    let is_code = |file: &SourceFile| {
        file.path.ends_with(".rs") && (file.path.starts_with("src/") || file.path.contains("/src/"))
    };
    files(&["src", "crates"]).into_iter().filter(is_code).collect()
}

fn is_in(file: &SourceFile, places: &[&str]) -> bool {
    places.iter().any(|place| if place.ends_with('/') { file.path.starts_with(place) } else { file.path == *place })
}

/// The crate that a file belongs to: its folder in `crates/`, or `src` for the program.
fn crate_of(file: &SourceFile) -> &str {
    file.path.strip_prefix("crates/").unwrap_or(&file.path).split('/').next().unwrap_or_default()
}

/// The crates of this repository by name, each with those that it needs, tests aside.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let arguments = ["metadata", "--offline", "--locked", "--format-version", "1", "--no-deps"];
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let short = |name: &Value| name.as_str().unwrap().strip_prefix("profinfer-").map(str::to_owned);
    let needs = |package: &Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|dependency| dependency["kind"].is_null())
            .filter_map(|dependency| short(&dependency["name"]))
            .collect()
    };
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages.filter_map(|package| Some((short(&package["name"])?, needs(package)))).collect()
}

/// The crates in the order of dependence, a line each; those that need the same depth by name.
fn drawing(crates: &BTreeMap<String, BTreeSet<String>>) -> String {
    let (mut drawn, mut text) = (BTreeSet::new(), String::new());
    while drawn.len() < crates.len() {
        let ready: Vec<_> =
            crates.iter().filter(|(name, needs)| !drawn.contains(*name) && needs.is_subset(&drawn)).collect();
        assert!(!ready.is_empty(), "a cycle among the crates: {crates:?}");
        for (name, needs) in &ready {
            let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
            text.push_str(format!("{name:12} {}", needs.join(", ")).trim_end());
            text.push('\n');
        }
        drawn.extend(ready.into_iter().map(|(name, _)| name.clone()));
    }
    text
}

#[test]
fn the_picture_of_the_crates_is_what_cargo_builds() {
    let drawing = drawing(&crates());
    let page = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(
        page.contains(&format!("```text\n{drawing}```\n")),
        "ARCHITECTURE.md has another picture than\n\n{drawing}"
    );
}

/// What one file of a folder uses of its neighbours: `super::name` in a file, `self::name` and `name::` in the folder's own
/// are left out, as a folder's own file is made of the others.
fn neighbours(file: &SourceFile, names: &BTreeSet<&str>, within: &Regex) -> BTreeSet<String> {
    let code = shipped_code(file);
    within
        .captures_iter(&code)
        .flat_map(|found| {
            let first = |text: &str| text.trim().split("::").next().unwrap_or_default().to_owned();
            match found.name("group") {
                Some(group) => group.as_str().split(',').map(first).collect::<Vec<_>>(),
                None => vec![first(&found["name"])],
            }
        })
        .filter(|name| names.contains(name.as_str()))
        .collect()
}

/// Groups of files, each of which uses all the others, directly or through them: of more than one file.
fn cycles(uses: &BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reach = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = open.pop() {
            for next in uses.get(at.as_str()).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<String>> = uses.keys().map(|name| (*name, reach(name))).collect();
    let round = |name: &str| {
        let back = |other: &&String| reached.get(other.as_str()).is_some_and(|of| of.contains(name));
        reached[name].iter().filter(back).cloned().collect::<BTreeSet<String>>()
    };
    uses.keys().map(|name| round(name)).filter(|cycle| cycle.len() > 1).collect()
}

#[test]
fn files_of_a_folder_use_each_other_in_one_direction() {
    let mut rule = Rule::new();
    let sources = sources();
    let mut folders: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in &sources {
        folders.entry(file.path.rsplit_once('/').unwrap().0).or_default().push(file);
    }
    for (folder, files) in folders {
        let stem = |file: &SourceFile| file.path.rsplit('/').next().unwrap().trim_end_matches(".rs").to_owned();
        let stems: Vec<(String, &SourceFile)> = files.iter().map(|file| (stem(file), *file)).collect();
        let made_of = |name: &str| ["lib", "main", "mod"].contains(&name);
        let names: BTreeSet<&str> = stems.iter().map(|(name, _)| name.as_str()).filter(|name| !made_of(name)).collect();
        let from_root = folder.ends_with("/src") || folder == "src";
        let path = if from_root { "(?:super|crate)" } else { "super" };
        let within = Regex::new(&format!(r"\b{path}::(?:\{{(?<group>[^}}]*)\}}|(?<name>\w+))")).unwrap();
        let own = stems.iter().filter(|(name, _)| !made_of(name));
        let uses: BTreeMap<&str, BTreeSet<String>> = own
            .map(|(name, file)| {
                let mut used = neighbours(file, &names, &within);
                used.remove(name);
                (name.as_str(), used)
            })
            .collect();
        for cycle in cycles(&uses).into_iter().filter(|cycle| cycle.len() > MOST_IN_A_CYCLE) {
            let names: Vec<&str> = cycle.iter().map(String::as_str).collect();
            rule.broken.push(format!("{folder}: {}", names.join(", ")));
        }
    }
    rule.holds(&format!("more than {MOST_IN_A_CYCLE} files of a folder use each other in a circle"));
}

/// Folders of the analysis, the lowest layer first.
const ANALYSIS_LAYERS: [&str; 11] =
    ["ids", "numbers", "sampling", "raw", "catalogue", "step", "profile", "totals", "graph", "study", "comparison"];

#[test]
fn a_layer_of_the_analysis_uses_only_lower_ones() {
    let mut rule = Rule::new();
    let used = Regex::new(r"\bcrate::(\w+)").unwrap();
    let mut seen = BTreeSet::new();
    for file in &sources() {
        let Some((layer, _)) = file.path.strip_prefix("crates/analysis/src/").and_then(|path| path.split_once('/'))
        else {
            continue;
        };
        let place = |name: &str| ANALYSIS_LAYERS.iter().position(|layer| *layer == name);
        let Some(own) = place(layer) else { continue };
        seen.insert(own);
        for found in used.captures_iter(&shipped_code(file)) {
            if place(&found[1]).is_none_or(|other| other >= own) {
                rule.broken.push(format!("{}: {}", file.path, &found[0]));
            }
        }
    }
    assert_eq!(seen.len(), ANALYSIS_LAYERS.len(), "a layer has no files");
    rule.holds("a layer of the analysis uses a higher one");
}

#[test]
fn pure_crates_do_not_touch_the_world() {
    let mut rule = Rule::new();
    let world = r"fs|net|process|env|thread|os";
    let pattern = Regex::new(&format!(
        r"\bstd::(?:({world})\b|\{{[^}}]*\b({world})\b)|\bstd::io::(stdin|stdout|stderr)|\bSystemTime::now|\bInstant::now"
    ))
    .unwrap();
    for file in sources().iter().filter(|file| PURE.contains(&crate_of(file)) && !is_in(file, IMPURE_FILES)) {
        rule.must_not_match(file, &shipped_code(file), &pattern);
    }
    rule.holds("a pure crate reaches for files, processes, the environment, threads or the clock");
}

#[test]
fn only_the_command_line_prints_or_exits() {
    let mut rule = Rule::new();
    let pattern = Regex::new(r"\be?print(ln)?!|\bdbg!|\bio::(stdout|stderr)\b|\bprocess::(exit|abort)\b").unwrap();
    // These hand the descriptors on: an output may be standard output, and a target's may be standard error.
    let hands_on = ["crates/files/src/output/place.rs", "crates/recorder/src/launch.rs"];
    for file in sources().iter().filter(|file| crate_of(file) != "src" && !is_in(file, &hands_on)) {
        rule.must_not_match(file, &shipped_code(file), &pattern);
    }
    rule.holds("printing or exiting outside src/");
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
    rule.holds("`unsafe` outside of `UNSAFE` (tests/quick/architecture.rs), or without its SAFETY sentence");
}

#[test]
fn no_engine_is_known_to_the_program() {
    let mut rule = Rule::new();
    let pattern = engines();
    for name in ["litert", "LiteRt_node", "a whisper", "XNNPACK's", "_torch"] {
        assert!(pattern.is_match(name), "{name}");
    }
    for file in &files(&["src", "crates", "bpf-runtime", "templates", "grammar"]) {
        for (number, line) in file.text.lines().enumerate() {
            if pattern.is_match(line) {
                rule.breaks(file, number + 1, line.trim());
            }
        }
    }
    rule.holds("an engine's name in src/, crates/, bpf-runtime/, templates/ or grammar/: it belongs into a probeset");
}

/// A kind of loss that nothing counts is marked so, for readers of traces; the others are counted.
#[test]
fn every_kind_of_loss_is_counted_or_marked() {
    let all = files(&["bpf-runtime", "templates", "crates/recorder/src"]);
    let counting: Vec<&SourceFile> = all.iter().filter(|file| file.path != "bpf-runtime/contract.h").collect();
    for kind in LossKind::ALL {
        let name = serde_json::to_value(kind).unwrap().as_str().unwrap().to_uppercase();
        let names = Regex::new(&format!(r"\b(PF_{name}|LossKind::{kind:?})\b")).unwrap();
        let is_counted = counting.iter().any(|file| names.is_match(&file.text));
        assert_eq!(is_counted, !LossKind::LEGACY.contains(&kind), "{kind:?}");
    }
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
    for file in files(&["src", "crates", "tests", "bpf-runtime", "templates", "scripts"])
        .iter()
        .filter(|f| pattern.is_match(&f.path))
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
