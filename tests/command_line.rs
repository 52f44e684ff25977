//! What a shell and a manual reader get of the program.

// The functions around the tests are tests too.
#![allow(clippy::unwrap_used)]

use std::process::Command;

fn profinfer(arguments: &[&str]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_profinfer")).args(arguments).output().unwrap()
}

#[test]
fn completions_name_the_subcommands_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = profinfer(&["completions", shell]);
        assert!(output.status.success(), "{shell}");
        let script = String::from_utf8(output.stdout).unwrap();
        for word in ["report", "check", "dump", "--target"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "`{word}` in completions for {shell}");
        }
    }
}

#[test]
fn bash_takes_its_completions() {
    let script = String::from_utf8(profinfer(&["completions", "bash"]).stdout).unwrap();
    let asked = format!(
        "{script}\nCOMP_WORDS=(profinfer rep) COMP_CWORD=1\n_profinfer profinfer rep profinfer\necho \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &asked]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), "report");
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    // A folder that is not there yet is made.
    let pages = folder.path().join("man/man1");
    assert!(profinfer(&["man", pages.to_str().unwrap()]).status.success());
    let help = String::from_utf8(profinfer(&["--help"]).stdout).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut count = 0;
    for command in commands.filter_map(|line| line.split_whitespace().next()).filter(|command| *command != "help") {
        let page = std::fs::read_to_string(pages.join(format!("profinfer-{command}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("NAME"), "{command}");
        count += 1;
    }
    assert!(count >= 6, "{help}");
    assert!(std::fs::read_to_string(pages.join("profinfer.1")).unwrap().contains("profinfer\\-report(1)"));
}

#[test]
fn a_manual_that_cannot_be_written_is_said_so() {
    let output = profinfer(&["man", "/dev/null/man"]);
    assert_eq!(output.status.code(), Some(3), "the machine is at fault");
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write manual pages to /dev/null/man"));
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for arguments in [&["nonsense"][..], &["report"], &["report", "--no-such-option"], &[]] {
        assert_eq!(profinfer(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn an_engine_is_chosen_only_where_a_trace_is_read() {
    for command in [&["engines"][..], &["check", "llama"], &["gen", "llama"], &["schema"], &["completions", "bash"]] {
        let output = profinfer(&[command, &["--engine", "llama"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{command:?}: {said}");
        assert!(said.contains("`--engine llama` chooses among the engines of a trace"), "{command:?}: {said}");
    }
    let said = String::from_utf8(profinfer(&["info", "no-such-trace", "--engine", "llama"]).stderr).unwrap();
    assert!(!said.contains("chooses among"), "{said}");
}
