//! The documents are right: their probesets load, their wrong ones have the problems shown, every code is explained, and
//! the help uses the terms of the glossary.

use crate::fragment;
use profinfer_binary::Arch;
use profinfer_compiler::{self as plan, Selection};
use profinfer_diagnostics::{Code, Diagnostics, render};
use profinfer_probeset::{self as spec, Library};
use regex::{Regex, RegexBuilder};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

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

/// Diagnostics of a probeset of which only a part is written.
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
    assert_eq!(
        explained, codes,
        "docs/diagnostics.md explains the codes of crates/diagnostics/src/codes.rs in their order"
    );
}

#[test]
fn first_examples_have_their_section_s_problem_and_the_next_ones_do_not() {
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
                assert!(
                    !problems.has_errors() && !has,
                    "{code}: example {index} still has a problem\n{example}\n{shown}"
                );
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
        let file = |folder: &str| format!("{}/tests/{folder}/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = ["chaos", "kernels", "engines"].iter().find_map(|folder| fs::read_to_string(file(folder)).ok());
        let text = text.unwrap_or_else(|| panic!("{module} is no file of tests/chaos, tests/kernels or tests/engines"));
        assert!(text.contains(&format!("fn {test}()")), "{module}::{test}");
    }
}

/// The rows of the glossary's tables below the headings that `wanted` takes, first cell and second cell.
fn glossary_rows(wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let mut heading = String::new();
    let mut rows = Vec::new();
    for line in document("glossary.md").lines() {
        let section = line.strip_prefix("## ").or_else(|| line.strip_prefix("In the help"));
        if let Some(section) = section {
            heading = if line.starts_with("## ") { section.to_owned() } else { line.to_owned() };
        }
        let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")) else { continue };
        let Some((first, second)) = cells.split_once(" | ") else { continue };
        if wanted(&heading) {
            rows.push((first.to_owned(), second.to_owned()));
        }
    }
    rows
}

/// The terms that the glossary defines. A row may define several: those in bold.
fn terms() -> Vec<String> {
    let bold = Regex::new(r"\*\*([^*]+)\*\*").expect("a regular expression");
    let rows = glossary_rows(|heading| !heading.starts_with("Words not used") && !heading.starts_with("In the help"));
    rows.iter()
        .flat_map(|(first, second)| [first, second])
        .flat_map(|cell| bold.captures_iter(cell).map(|found| found[1].to_owned()))
        .collect()
}

/// The words that are not used below the line that `heading` takes: those in backticks.
fn words_not_used(heading: impl Fn(&str) -> bool) -> Vec<String> {
    let rows = glossary_rows(heading);
    rows.iter().flat_map(|(words, _)| words.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

/// A text without what is in backticks, its white space as single spaces.
fn prose(text: &str) -> String {
    let outside: String = text.split('`').step_by(2).collect();
    outside.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn output(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().expect("profinfer");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

/// The program's help and that of each subcommand. The long help has all that the short one has.
fn helps() -> Vec<(String, String)> {
    let main = output(&["--help"]);
    let commands = main.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description may go on in the next line, further to the right.
    let names = commands.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut helps = vec![("profinfer --help".to_owned(), main.clone())];
    for name in names {
        helps.push((format!("profinfer {name} --help"), output(&[name, "--help"])));
    }
    helps
}

/// A term with any of the usual variants: hyphens, spaces, capitals, a plural.
fn variants(term: &str) -> Regex {
    let parts: Vec<String> = term.split([' ', '-']).map(regex::escape).collect();
    let pattern = format!(r"\b{}s?\b", parts.join("[ -]?"));
    RegexBuilder::new(&pattern).case_insensitive(true).build().expect("a term is a pattern")
}

/// Whether a word of the help is the term: with the glossary's hyphens, spaces and capitals, but for the first letter of
/// a sentence, and maybe in the plural.
fn is_spelled_as(found: &str, term: &str) -> bool {
    let lower_first = |text: &str| {
        let mut letters = text.chars();
        letters.next().map(|first| first.to_lowercase().chain(letters).collect::<String>())
    };
    let singular = found.strip_suffix('s').unwrap_or(found);
    [found, singular].iter().any(|found| *found == term || lower_first(found).as_deref() == Some(term))
}

/// Where words that are not used stand in a text.
fn broken_words(name: &str, text: &str, words: &[String]) -> Vec<String> {
    let text = prose(text);
    words
        .iter()
        .filter_map(|word| {
            let pattern = format!(r"\b{}\b", regex::escape(word));
            let found = RegexBuilder::new(&pattern).case_insensitive(word != "cpu" && word != "cpus").build();
            let at = found.expect("a word is a pattern").find(&text)?.start();
            let before: String = text[..at].chars().rev().take(40).collect();
            let after: String = text[at..].chars().take(60).collect();
            let before: String = before.chars().rev().collect();
            Some(format!("{name}: `{word}` in \"{before}{after}\""))
        })
        .collect()
}

#[test]
fn the_help_uses_the_words_of_the_glossary() {
    let terms = terms();
    assert!(terms.len() > 60, "{} terms", terms.len());
    let distinct: BTreeSet<&String> = terms.iter().collect();
    assert_eq!(distinct.len(), terms.len(), "each term is defined once");
    let banned = words_not_used(|heading| heading.starts_with("In the help"));
    assert!(banned.len() > 20, "{banned:?}");
    let helps = helps();
    assert!(helps.len() > 20, "{} texts", helps.len());
    let mut broken = Vec::new();
    // Metavariables, options and values stand as they are typed.
    let typed = Regex::new(
        r"(^|\s)--?[a-zV][a-z-]*|<[^>]*>|\[possible values:[^\]]*\]|\[default: [A-Z][^\]]*\]|(?m)^ +- [a-z0-9_]+:",
    )
    .expect("a pattern");
    for (name, help) in &helps {
        let text = typed.replace_all(help, " ");
        broken.extend(broken_words(name, &text, &banned));
        let text = prose(&text);
        for term in &terms {
            for found in variants(term).find_iter(&text) {
                if !is_spelled_as(found.as_str(), term) {
                    broken.push(format!("{name}: `{}` is `{term}` in the glossary", found.as_str()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_documents_use_no_word_that_the_glossary_excludes() {
    let banned = words_not_used(|heading| heading.starts_with("In the help and in the documents"));
    assert!(banned.len() > 10, "{banned:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")];
    for folder in ["docs", "docs/engines", "docs/decisions"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder").map(|entry| entry.expect("a file").path());
        pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut broken = Vec::new();
    for page in pages.iter().filter(|page| !page.ends_with("glossary.md")) {
        let text = fs::read_to_string(page).expect("a document");
        // Code is not prose: blocks between fences are left out.
        let mut in_code = false;
        let lines = text.lines().filter(|line| {
            let fence = line.starts_with("```");
            in_code ^= fence;
            !in_code && !fence
        });
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        broken.extend(broken_words(&page.display().to_string(), &text, &banned));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
