//! What the documents show is true: their probesets load, their wrong ones are told what they say, and every code is
//! explained.

// The functions around the tests are tests too.
#![allow(clippy::expect_used)]

mod fragment;

use profinfer::diag::{Code, Diagnostics, render};
use profinfer::plan::{self, Selection};
use profinfer::spec::{self, Library};
use profinfer::target::Arch;
use std::collections::BTreeSet;
use std::fs;

fn document(name: &str) -> String {
    fs::read_to_string(format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"))).expect("the document is there")
}

/// The blocks of a language, in order.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while lines.any(|line| line == opening) {
        blocks.push(lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect());
    }
    blocks
}

/// What is said of a probeset, of which only a part is written.
fn problems(fragment: &str) -> Diagnostics {
    let text = fragment::complete(fragment);
    match spec::load_text("example.yaml", &text, &Library::SHIPPED) {
        Ok((probeset, mut warnings)) => {
            let planned = plan::plan(&probeset, &Selection::default(), Arch::X86_64);
            warnings.0.extend(planned.map_or_else(|problems| problems.0, |(_plan, warnings)| warnings.0));
            warnings
        }
        Err(problems) => problems,
    }
}

#[test]
fn every_probeset_of_the_language_s_page_loads() {
    let examples = blocks(&document("probesets.md"), "yaml");
    assert!(examples.len() > 10);
    for example in examples {
        let problems = problems(&example);
        assert!(!problems.has_errors(), "{example}\n{}", render(&problems, false));
    }
}

/// The sections of the diagnostics' page: the heading's first word, and the text.
fn sections() -> Vec<(String, String)> {
    let page = document("diagnostics.md");
    let sections = page.split("\n### ").skip(1);
    sections
        .map(|section| {
            let section = section.split("\n## ").next().unwrap_or(section);
            let code = section.split_whitespace().next().unwrap_or_default().to_owned();
            (code, section.to_owned())
        })
        .collect()
}

#[test]
fn each_code_has_a_section_and_each_section_a_code() {
    let codes: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    let unique: BTreeSet<&str> = codes.iter().copied().collect();
    assert_eq!(unique.len(), codes.len(), "two codes have one text");
    let explained: Vec<String> = sections().into_iter().map(|(code, _)| code).collect();
    assert_eq!(explained, codes, "docs/diagnostics.md explains the codes of src/diag/codes.rs in their order");
}

#[test]
fn examples_have_their_section_s_problem_and_are_mended_by_what_follows() {
    for (code, section) in sections() {
        let examples = blocks(&section, "yaml");
        let is_of_a_text = code.starts_with(['S', 'P']) && code != Code::SpecUnreadable.as_str()
            || code == Code::CounterSyntax.as_str();
        assert_eq!(!examples.is_empty(), is_of_a_text, "{code}: examples are for what a probeset's text can have");
        for (index, example) in examples.iter().enumerate() {
            let problems = problems(example);
            let has = problems.0.iter().any(|problem| problem.code.as_str() == code);
            let shown = render(&problems, false);
            if index == 0 {
                assert!(has, "{code}: the first example has no such problem\n{example}\n{shown}");
            } else {
                assert!(!problems.has_errors() && !has, "{code}: example {index} is not mended\n{example}\n{shown}");
            }
        }
    }
}

#[test]
fn every_shipped_probeset_loads() {
    for name in Library::SHIPPED.names() {
        let (file, text) = Library::SHIPPED.get(name).expect("names are of files");
        match spec::load_text(&format!("builtin:{file}"), text, &Library::SHIPPED) {
            Ok((probeset, problems)) => {
                // An engine may have no tokens, or say nothing of shapes; the probeset's page says so.
                let wrong = problems.0.iter().any(|problem| problem.code != Code::RoleField);
                assert!(!wrong, "{name}\n{}", render(&problems, false));
                let planned = plan::plan(&probeset, &Selection::default(), Arch::X86_64);
                assert!(planned.is_ok(), "{name}\n{}", render(&planned.err().unwrap_or_default(), false));
            }
            // A file of types that others include.
            Err(problems) => {
                let codes: Vec<Code> = problems.0.iter().map(|problem| problem.code).collect();
                assert_eq!(codes, [Code::MissingKey], "{name}\n{}", render(&problems, false));
                assert!(!text.contains("\nprobes:"), "{name}");
            }
        }
    }
}

/// What `docs/reliability.md` names is a test there is.
#[test]
fn promises_are_kept_by_tests() {
    let page = document("reliability.md");
    let named: Vec<(&str, &str)> = page.split('`').filter_map(|text| text.split_once("::")).collect();
    assert!(named.len() > 25);
    for (module, test) in named {
        let file = format!("{}/tests/chaos/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&file).expect("a file of tests/chaos");
        assert!(text.contains(&format!("fn {test}()")), "{module}::{test}");
    }
}
