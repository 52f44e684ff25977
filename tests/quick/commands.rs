//! Commands that the documents show are run as they stand there (see [`crate::pages`]): here those that need no root.

use crate::pages::{Needs, Place, contains, pages, run_all, sessions};
use regex::Regex;

#[test]
fn what_the_pages_show_works() {
    run_all(Needs::Nothing, |_| Place::new(None));
}

#[test]
fn commands_are_shown_in_blocks_that_are_run() {
    let stray = Regex::new(r"^\s*\$ ").unwrap();
    for (page, text) in pages() {
        let mut in_session = false;
        for (number, line) in text.lines().enumerate() {
            if let Some(marks) = line.strip_prefix("```") {
                in_session = marks.starts_with("console");
            }
            assert!(in_session || !stray.is_match(line), "{page}:{}: a command outside of ```console", number + 1);
        }
    }
}

#[test]
fn printed_lines_are_compared_without_their_numbers() {
    let printed = "Complete: 65 steps, 24,063 records, nothing lost.\n\n  decode  63   361  2.64 ms  <0.1 %\nend\n";
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(contains(printed, &lines(&["Complete: 2 steps, 7 records, nothing lost.", "…", "end"])), Ok(()));
    assert_eq!(contains(printed, &lines(&["decode 1 1,000 3 s 1.5 %", "end"])), Ok(()));
    assert!(contains(printed, &lines(&["Incomplete: 2 steps"])).is_err());
    assert!(
        contains(printed, &lines(&["Complete: 2 steps, 7 records, nothing lost.", "end"])).is_err(),
        "not adjacent"
    );
}

#[test]
fn blocks_are_read_with_what_they_need() {
    let text = "```console\n$ a \\\n  b\nout\n$ c\n```\n```yaml\n$ no\n```\n```yaml x.yaml\na: 1\n```\n```console root\n$ d\n```\n```console no-run: why\n$ e\n```";
    let found = sessions("page.md", text);
    let needs: Vec<Needs> = found.iter().map(|session| session.needs).collect();
    assert_eq!(needs, [Needs::Nothing, Needs::Root, Needs::NotToRun]);
    assert_eq!(found[0].shown.len(), 2);
    assert_eq!(
        (found[0].shown[0].command.as_str(), found[0].shown[0].output.as_slice()),
        ("a \\\n  b", &["out".to_owned()][..])
    );
    assert!(found[0].files.is_empty(), "only what stands before");
    assert_eq!(found[1].files, [("x.yaml".to_owned(), "a: 1\n".to_owned())]);
}
