//! Each file of `tests/diagnostics/` is a probeset with something wrong in it, and says so itself: under a line stand
//! the problems that it is expected to have, as comments:
//!
//! ```yaml
//! probes:
//!   step:
//!     rol: step
//! #   ^^^ error S004: a probe has no key `rol`
//! #   = help: did you mean `role`?
//! ```
//!
//! An underline that starts in the first column starts with the `#`. Problems without a place stand at the end. All
//! problems must be there, no others, word by word. `BLESS=1 cargo test --test quick diagnostics::` writes what is found into
//! the files; read the difference before you keep it. Sections that a file leaves out are added (see `fragment`),
//! unless its first line is `# whole`.

use crate::fragment;
use profinfer_binary::Arch;
use profinfer_compiler::{self as plan, Selection};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity};
use profinfer_probeset as spec;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// What a probeset's text alone can be told: all but what depends on a target.
fn check(text: &str) -> Diagnostics {
    match spec::load_text("probeset.yaml", text, &spec::Library::SHIPPED) {
        Ok((probeset, mut warnings)) => {
            let planned = plan::plan(&probeset, &Selection::default(), Arch::X86_64);
            warnings.0.extend(planned.map_or_else(|problems| problems.0, |(_plan, warnings)| warnings.0));
            warnings
        }
        Err(problems) => problems,
    }
}

/// Codes that no text has: their faults lie outside it.
const NOT_OF_A_TEXT: &[Code] = &[Code::SpecUnreadable];

#[test]
fn each_file_has_the_problems_it_says() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let expected = fs::read_to_string(&path).expect("readable");
        let bare = without_annotations(&expected);
        let found = annotated(&bare, &problems_of(&bare));
        if found == expected {
            continue;
        }
        if bless {
            fs::write(&path, found).expect("writable");
        } else {
            wrong.push(format!("{}: expected\n{expected}\nfound\n{found}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\n(BLESS=1 writes what is found)", wrong.join("\n\n"));
}

/// x86-64 gives the address of a returned class back. On arm64 it is an argument after the others, saved until then.
#[test]
fn a_returned_class_is_read_where_its_address_came_in() {
    let text = fragment::complete(
        "probes:\n  named:\n    at: toy:toy_name(void* of) -> std::string(32)\n    role: region\n    fields: { name: return }\n",
    );
    let (probeset, _) = spec::load_text("probeset.yaml", &text, &spec::Library::SHIPPED).expect("a probeset");
    for (arch, expected) in [(Arch::X86_64, None), (Arch::Aarch64, Some(1))] {
        let (plan, problems) = plan::plan(&probeset, &Selection::default(), arch).expect("a plan");
        assert!(!problems.has_errors(), "{problems:?}");
        let arguments = plan.relocations.iter().filter_map(|relocation| match relocation.what {
            plan::RelocationKind::Argument { argument, .. } => Some(argument),
            _ => None,
        });
        assert_eq!(arguments.collect::<Vec<_>>(), Vec::from_iter(expected), "{arch}");
    }
}

#[test]
fn each_code_that_a_text_can_have_has_a_file() {
    let seen: BTreeSet<Code> = files()
        .iter()
        .flat_map(|path| problems_of(&without_annotations(&fs::read_to_string(path).expect("readable"))).0)
        .map(|problem| problem.code)
        .collect();
    let of_a_text = |code: &&Code| code.as_str().starts_with(['S', 'P']) || **code == Code::CounterSyntax;
    let missing: Vec<&Code> = Code::ALL
        .iter()
        .filter(of_a_text)
        .filter(|code| !NOT_OF_A_TEXT.contains(code) && !seen.contains(code))
        .collect();
    assert!(missing.is_empty(), "no file in tests/diagnostics shows {missing:?}");
}

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

fn problems_of(bare: &str) -> Diagnostics {
    if bare.starts_with("# whole") { check(bare) } else { check(&fragment::complete(bare)) }
}

/// Whether a line was written by [`annotated`].
fn is_annotation(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('#') else { return false };
    let rest = rest.trim_start();
    if rest.starts_with("= help: ") || rest.starts_with("= note: ") {
        return true;
    }
    let rest = rest.trim_start_matches('^').trim_start();
    ["error", "warning", "note"]
        .iter()
        .filter_map(|severity| rest.strip_prefix(severity)?.strip_prefix(' '))
        .any(|rest| Code::ALL.iter().any(|code| rest.starts_with(code.as_str())))
}

fn without_annotations(text: &str) -> String {
    text.lines().filter(|line| !is_annotation(line)).map(|line| format!("{line}\n")).collect()
}

/// A text with its problems under the lines they are about.
fn annotated(bare: &str, problems: &Diagnostics) -> String {
    let lines: Vec<&str> = bare.lines().collect();
    let mut annotated = String::new();
    for (index, line) in lines.iter().enumerate() {
        annotated.push_str(line);
        annotated.push('\n');
        for problem in problems.0.iter().filter(|problem| line_of(problem) == Some(index + 1)) {
            annotated.push_str(&annotation(problem, line));
        }
    }
    let elsewhere = |problem: &&Diagnostic| line_of(problem).is_none_or(|line| line > lines.len());
    for problem in problems.0.iter().filter(elsewhere) {
        annotated.push_str(&annotation(problem, ""));
    }
    annotated
}

fn line_of(problem: &Diagnostic) -> Option<usize> {
    Some(problem.span.as_ref()?.line_column().0)
}

fn annotation(problem: &Diagnostic, line: &str) -> String {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let reported = format!("{severity} {}: {}", problem.code.as_str(), problem.message);
    let (underline, indent) = match &problem.span {
        Some(span) if !line.is_empty() => {
            let column = span.line_column().1;
            let length = span.text().lines().next().map_or(0, |first| first.chars().count()).max(1);
            let blanks = " ".repeat(column.saturating_sub(2));
            let marks = if column == 1 { length.saturating_sub(1).max(1) } else { length };
            (format!("{blanks}{} ", "^".repeat(marks)), if blanks.is_empty() { " ".to_owned() } else { blanks })
        }
        _ => (" ".to_owned(), " ".to_owned()),
    };
    let mut text = format!("#{underline}{reported}\n");
    for note in &problem.notes {
        text.push_str(&format!("#{indent}= note: {note}\n"));
    }
    if let Some(hint) = &problem.hint {
        text.push_str(&format!("#{indent}= help: {hint}\n"));
    }
    text
}
