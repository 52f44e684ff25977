//! Whatever the bytes of a probeset are, reading it ends, quickly and without a panic, and what is reported of it can be
//! shown.

use profinfer_diagnostics::{Diagnostics, Severity, render};
use profinfer_probeset::{self as spec, Library, Probeset};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::Config;

/// A probeset that uses every key and every kind of text.
const EVERYTHING: &str = include_str!("../spec/everything.yaml");

/// What it includes.
const LIBRARY: Library = Library::new(&[(
    "base.yaml",
    "profinfer: 1\nengine: base\nmodules:\n  base: libbase.so*\ntypes:\n  node:\n    flags: u32\n",
)]);

/// Reads a text and checks what holds of every answer.
fn read(text: &str) -> Result<Probeset, Diagnostics> {
    let (answer, problems) = match spec::load_text("probeset.yaml", text, &LIBRARY) {
        Ok((probeset, warnings)) => (Ok(probeset), warnings),
        Err(problems) => (Err(problems.clone()), problems),
    };
    assert_eq!(answer.is_err(), problems.0.iter().any(|p| p.severity == Severity::Error), "{problems:?}");
    assert!(problems.0.len() <= 101, "{}", problems.0.len());
    for problem in &problems.0 {
        assert!(!problem.message.is_empty() && problem.message.len() < 4096, "{problem:?}");
        assert!(!problem.message.contains(char::is_control), "{problem:?}");
        if let Some(span) = &problem.span {
            assert!(span.source.text.get(span.range.clone()).is_some(), "{problem:?} is not within the text");
        }
    }
    let shown = Diagnostics(problems.0.into_iter().take(5).collect());
    assert_eq!(render(&shown, false).is_empty(), shown.0.is_empty());
    answer
}

/// Pieces that the language is made of, so that random texts get beyond the first character.
fn piece() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "profinfer: 1\n",
        "engine: e\n",
        "include: ",
        "modules:\n",
        "types:\n",
        "probes:\n",
        "  p:\n",
        "    at: ",
        "    role: ",
        "m:f(i32 n)",
        "operator",
        "step",
        "probe p",
        " until ",
        " waiting from ",
        "tracepoint sched:sched_switch",
        "virtual m:B[0]",
        "fields:\n",
        "i32[4]",
        "object o",
        " as ",
        "->",
        "[..n] max 4",
        "\"",
        "'",
        "|\n",
        ">-\n",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ",",
        "#",
        "&a ",
        "*a",
        "!t ",
        "%",
        "@",
        "\t",
        "\n",
        "\n  ",
        "---\n",
        "...",
        "..",
        "é",
        "🦀",
        "\u{feff}",
        "\u{0}",
        "\u{1b}[31m",
        "0x",
        "99999999999999999999",
        "-1",
        "~ \"(a*)*\"",
        "*",
        "?",
        "(",
        ")",
    ]);
    prop_oneof![8 => word.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)]
}

/// A change of a text: where (in a thousandth of it), how much goes, and what comes.
fn change() -> impl Strategy<Value = (u16, usize, String)> {
    (
        0..1000_u16,
        prop_oneof![Just(0_usize), 1..4_usize, 4..80_usize],
        prop::collection::vec(piece(), 0..3).prop_map(|p| p.concat()),
    )
}

fn changed(text: &str, changes: &[(u16, usize, String)]) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    for (at, length, insert) in changes {
        let start = chars.len() * usize::from(*at) / 1000;
        let end = (start + length).min(chars.len());
        chars.splice(start..end, insert.chars());
    }
    chars.into_iter().collect()
}

/// Each property is tried with so many, or with as many as `PROPTEST_CASES` has.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(400)
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let _ = read(&text);
    }

    #[test]
    fn any_pieces_are_answered(pieces in prop::collection::vec(piece(), 0..60)) {
        let _ = read(&pieces.concat());
    }

    #[test]
    fn any_change_of_a_probeset_is_answered(changes in prop::collection::vec(change(), 1..6)) {
        let _ = read(&changed(EVERYTHING, &changes));
    }

    #[test]
    fn what_was_read_is_read_again_from_its_copies(changes in prop::collection::vec(change(), 0..2)) {
        if let Ok(probeset) = read(&changed(EVERYTHING, &changes)) {
            let copies: Vec<(String, String)> =
                probeset.sources.iter().map(|source| (source.name.clone(), source.text.clone())).collect();
            let (again, _) = spec::from_sources(&copies).expect("a trace's copy of a probeset that could be read");
            prop_assert_eq!(format!("{:?}", &probeset), format!("{:?}", &again));
            prop_assert!(!probeset.probes.is_empty());
        }
    }
}

#[test]
fn a_probeset_of_everything_can_be_read() {
    let probeset = read(EVERYTHING).unwrap_or_else(|problems| panic!("{}", render(&problems, false)));
    assert_eq!(probeset.probes.len(), 12);
}

#[test]
fn hostile_texts_end_quickly() {
    let started = std::time::Instant::now();
    let many_unknown: String = (0..50_000).map(|i| format!("k{i}: 1\n")).collect();
    let many_near: String =
        (0..1000).map(|i| format!("  {}{i}: missing_{}{i}*\n", "m".repeat(100), "m".repeat(100))).collect();
    for text in [
        "[".repeat(1 << 20),
        "{a: ".repeat(1 << 18),
        "a:\n ".repeat(1 << 17),
        "\"".to_owned() + &"\\u0041".repeat(1 << 17) + "\"",
        format!("profinfer: 1\n{many_unknown}"),
        format!("profinfer: 1\ntypes:\n view:\n{many_near}"),
        format!("profinfer: 1\nanalysis:\n  layer: name ~ \"{}\"\n", "(".repeat(1000)),
        format!("profinfer: 1\nanalysis:\n  layer: name ~ \"{}\"\n", "a{999}".repeat(100)),
        format!("profinfer: 1\nanalysis:\n  layer: {}1\n", "-".repeat(2000)),
        format!("profinfer: 1\nanalysis:\n  layer: {}1{}\n", "(".repeat(900), ")".repeat(900)),
        format!("profinfer: 1\ntypes: {{ v: {{ a: i32{} }} }}\n", "*".repeat(2000)),
        format!("profinfer: 1\nprobes: {{ p: {{ at: \"m:{}()\" }} }}\n", "{a,b}".repeat(400)),
    ] {
        assert!(read(&text).is_err());
    }
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}
