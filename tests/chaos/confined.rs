//! What is refused in containers, and that the messages name who refuses and what helps: `sudo` and `setcap` do not there.

use super::toy::{PROBESET, Run, TARGETS, stderr, wait_until};
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a command under a seccomp filter.
fn confined(folder: &Path) -> PathBuf {
    let program = folder.join("confined");
    let mut compile = Command::new("cc");
    compile.arg("-o").arg(&program).arg(Path::new(TARGETS).join("confined.c"));
    assert!(compile.status().expect("a C compiler").success());
    program
}

#[test]
#[ignore = "needs root"]
fn a_container_without_the_rights_is_told_which_one_is_missing() {
    let run = Run::new();
    let confined = confined(run.folder.path()).display().to_string();
    // Root, as container engines start it: a few capabilities, and no way to get more. 21 is CAP_SYS_ADMIN.
    let few = ["setpriv", "--bounding-set", "-cap_19,-cap_21,-cap_38,-cap_39"];
    let without_perfmon = ["setpriv", "--bounding-set", "-cap_21,-cap_38"];
    let user = ["unshare", "--user", "--map-root-user"];
    let cases: [(&[&str], &[&str]); 4] = [
        (&few, &["CAP_BPF, CAP_PERFMON", "--cap-add BPF --cap-add PERFMON --cap-add SYS_PTRACE", "-p PID"]),
        (&without_perfmon, &["missing: CAP_PERFMON", "start the container with `--cap-add PERFMON`"]),
        (&[&confined], &["seccomp filter forbids the system call `bpf`", "--security-opt seccomp=unconfined"]),
        (&user, &["user namespace", "record from outside it", "sudo profinfer record -p PID"]),
    ];
    for (wrapper, words) in cases {
        let recorder = run.recorder(&[], &run.toy("counts", &["rounds=2"]));
        let recorder = std::iter::once(recorder.get_program()).chain(recorder.get_args());
        let recorder: Vec<&OsStr> = recorder.collect();
        let refused = inside(wrapper).args(recorder).output().unwrap();
        assert_eq!(refused.status.code(), Some(3), "{wrapper:?}: {}", stderr(&refused));
        let message = stderr(&refused).split_whitespace().collect::<Vec<_>>().join(" ");
        for words in words {
            assert!(message.contains(words), "{wrapper:?}, {words}: {message}");
        }
        let useless = message.contains("setcap") || wrapper != user && message.contains("sudo");
        assert!(message.contains("error[B005]") && !useless, "{wrapper:?}: {message}");
        assert!(!run.trace().exists() && run.counts("counts").steps == 0, "{wrapper:?}");
        // `doctor` finds the same.
        let doctor = inside(wrapper).arg(env!("CARGO_BIN_EXE_profinfer")).args(["doctor", "--json"]).output().unwrap();
        assert_eq!(doctor.status.code(), Some(3), "{wrapper:?}");
        let found: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let findings = found["findings"].as_array().unwrap();
        let missing: Vec<_> = findings.iter().filter(|finding| finding["state"] == "missing").collect();
        let fixes = |finding: &&serde_json::Value| finding["fix"].as_str().is_some_and(|fix| !fix.contains("setcap"));
        assert!(
            found["can_record"] == false && !missing.is_empty() && missing.iter().all(fixes),
            "{wrapper:?}: {found:#}"
        );
    }
    // As container engines start it with what the hint names.
    let all = ["setpriv", "--bounding-set", "-all,+cap_5,+cap_19,+cap_38,+cap_39"];
    let recorder = run.recorder(&[], &run.toy("counts", &["rounds=2"]));
    let recorder = std::iter::once(recorder.get_program()).chain(recorder.get_args());
    let recorded = inside(&all).args(recorder).output().unwrap();
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    assert_eq!(run.read().count("step"), run.counts("counts").steps);
}

#[test]
#[ignore = "needs root"]
fn processes_that_may_not_be_searched_are_counted() {
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let hidden = |how: &str| format!("mount -t proc -o hidepid={how} proc /proc && exec {nobody} \"$@\"");
    let cases = [
        (format!("exec {nobody} \"$@\""), "processes cannot be read"),
        (hidden("1"), "processes cannot be read"),
        (hidden("2"), "processes of other users are hidden"),
    ];
    for (script, words) in cases {
        let line = found_first(&["unshare", "--mount", "sh", "-c", &script, "sh"]);
        assert!(line.contains(words) && line.contains("missing CAP_SYS_PTRACE"), "{script}: {line}");
    }
    // A security module may hide some from root, too: no capability is missing then.
    let of_root = found_first(&["env"]);
    assert!(!of_root.contains("missing"), "{of_root}");
}

#[test]
#[ignore = "needs root"]
fn a_mapped_file_that_may_not_be_read_is_named_where_its_module_is_missed() {
    let run = Run::new();
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let toy = run.toy_of_others("counts", &["ms=60000"]);
    let mut toy = inside(&nobody).args(&toy).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the toy runs", || run.counts("counts").steps > 0);
    let check = || {
        let mut check = inside(&nobody);
        check.arg(env!("CARGO_BIN_EXE_profinfer")).args(["check", PROBESET, "-p", &toy.id().to_string()]);
        stderr(&check.output().unwrap())
    };
    let readable = check();
    std::fs::set_permissions(run.engine(), Permissions::from_mode(0o000)).unwrap();
    let unreadable = check();
    toy.kill().unwrap();
    toy.wait().unwrap();
    let note = format!("could not read {}, which the process has mapped", run.engine().display());
    assert!(!readable.contains("could not read"), "{readable}");
    assert!(unreadable.contains(&note) && unreadable.contains("CAP_DAC_READ_SEARCH"), "{unreadable}");
}

/// The first line of `serve` on engines.
fn found_first(wrapper: &[&str]) -> String {
    let mut serve = inside(wrapper);
    serve.arg(env!("CARGO_BIN_EXE_profinfer")).args(["serve", "--listen", "127.0.0.1:0"]);
    let mut serve = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines
        .find(|line| ["searched for an engine", "engine yet", "has the engine"].iter().any(|of| line.contains(of)));
    serve.kill().unwrap();
    serve.wait().unwrap();
    line.expect("a line on engines")
}

fn inside(wrapper: &[&str]) -> Command {
    let mut command = Command::new(wrapper[0]);
    command.args(&wrapper[1..]).stdin(Stdio::null());
    command
}
