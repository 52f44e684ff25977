//! What another user has prepared: files in the cache, folders that are open to others. And the two ways to get
//! privileges, `setcap` and `sudo`, as an ordinary user has them.

use crate::toy::{Counts, PROBESET, Run, Trace, builds, report, stderr, wait_until};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// An ordinary user, of whom the system has no home.
const NOBODY: u32 = 65534;
/// The one who calls `sudo`.
const CALLER: u32 = 54242;

/// The output of a command that must end by itself.
fn finish(mut child: Child) -> Output {
    wait_until("the program ends", || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn finish_command(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

fn check(cache: &Path, target: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    command.args(["check", PROBESET, "--target"]).arg(target).env("PROFINFER_CACHE", cache).env("NO_COLOR", "1");
    command
}

fn only_file(folder: &Path) -> PathBuf {
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = files.try_into().unwrap();
    file
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
#[ignore = "needs root"]
fn what_others_left_in_the_cache_is_not_believed_nor_waited_for_nor_written_through() {
    let run = Run::new();
    let cache = run.path("cache");
    let baseline = finish_command(&mut check(&cache, &run.engine()));
    assert!(baseline.status.success(), "{}", stderr(&baseline));
    let layouts = only_file(&cache.join("layouts"));
    assert_eq!([mode(&cache), mode(&cache.join("layouts")), mode(&layouts)], [0o700, 0o700, 0o600]);
    let good = std::fs::read(&layouts).unwrap();
    let forged = String::from_utf8(good.clone()).unwrap().replace("\"length\"", "\"lemgth\"");
    let (victim, nowhere) = (run.path("victim"), run.path("nowhere"));
    std::fs::write(&victim, &good).unwrap();
    type Put<'a> = &'a dyn Fn(&Path);
    let cases: [(&str, Put<'_>); 11] = [
        ("of another user", &|path| {
            std::fs::write(path, &good).unwrap();
            chown(path, Some(NOBODY), None).unwrap();
        }),
        ("changed", &|path| std::fs::write(path, &forged).unwrap()),
        ("truncated", &|path| std::fs::write(path, &good[..good.len() / 2]).unwrap()),
        ("empty", &|path| std::fs::write(path, "").unwrap()),
        ("writable by others", &|path| {
            std::fs::write(path, &good).unwrap();
            set_mode(path, 0o666);
        }),
        ("4 GB", &|path| std::fs::File::create(path).unwrap().set_len(4 << 30).unwrap()),
        ("a symbolic link", &|path| symlink(&victim, path).unwrap()),
        ("a dangling link", &|path| symlink(&nowhere, path).unwrap()),
        ("a pipe", &|path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("a socket", &|path| drop(UnixListener::bind(path).unwrap())),
        ("a folder", &|path| std::fs::create_dir(path).unwrap()),
    ];
    for (name, put) in cases {
        std::fs::remove_file(&layouts).unwrap();
        put(&layouts);
        let output = finish_command(&mut check(&cache, &run.engine()));
        assert_eq!(stdout(&output), stdout(&baseline), "{name}");
        let reported = stderr(&output);
        assert_eq!(reported.matches("note[B012]").count(), 1, "{name}: {reported}");
        assert!(reported.contains(layouts.file_name().unwrap().to_str().unwrap()), "{name}: {reported}");
        assert_eq!((std::fs::read(&victim).unwrap(), nowhere.exists()), (good.clone(), false), "{name}");
        if layouts.is_dir() {
            continue;
        }
        // It was replaced by one of ours, which serves.
        assert_eq!((mode(&layouts), std::fs::metadata(&layouts).unwrap().uid()), (0o600, 0), "{name}");
        let again = finish_command(&mut check(&cache, &run.engine()));
        assert_eq!((stdout(&again), stderr(&again)), (stdout(&baseline), stderr(&baseline)), "{name}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_folder_that_others_can_change_is_not_used() {
    let run = Run::new();
    let target = run.engine();
    let baseline = stdout(&finish_command(&mut check(&run.path("cache"), &target)));
    let reported = |cache: &Path| {
        let output = finish_command(&mut check(cache, &target));
        assert_eq!(stdout(&output), baseline);
        stderr(&output)
    };
    // The folder itself, one above it, one of ours in it, and a link in its place.
    let (theirs, open) = (run.path("theirs"), run.path("open"));
    std::fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), None).unwrap();
    assert!(reported(&theirs).contains("belongs to another user"));
    assert!(reported(&theirs.join("deeper/still")).contains("belongs to another user"));
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0, "nothing was written there");
    std::fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    assert!(reported(&open.join("cache")).contains("other users can write to this folder"));
    assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    set_mode(&open, 0o1777);
    assert!(!reported(&open.join("cache")).contains("B012"), "as in /tmp");
    let layouts = open.join("cache/layouts");
    std::fs::rename(&layouts, run.path("moved")).unwrap();
    symlink(run.path("moved"), &layouts).unwrap();
    assert!(reported(&open.join("cache")).contains("symbolic link"));
    std::fs::remove_file(&layouts).unwrap();
    std::fs::create_dir(&layouts).unwrap();
    chown(&layouts, Some(NOBODY), None).unwrap();
    assert!(reported(&open.join("cache")).contains("belongs to another user"));
    assert_eq!(std::fs::read_dir(&layouts).unwrap().count(), 0);
    // Ours that was opened to others is closed again.
    set_mode(&run.path("cache/layouts"), 0o777);
    assert!(!reported(&run.path("cache")).contains("B012"));
    assert_eq!(mode(&run.path("cache/layouts")), 0o700);
}

#[test]
#[ignore = "needs root"]
fn libraries_with_one_build_id_are_told_apart() {
    let run = Run::new();
    let cache = run.path("cache");
    let source = |members: &str| {
        format!(
            "enum chaos_op {{ CHAOS_ADD, CHAOS_MUL, CHAOS_NORM }};
            struct chaos_tensor {{ enum chaos_op op; {members} }} tensor;
            long chaos_operator(struct chaos_tensor *t) {{ return t->op; }}
            long chaos_graph(struct chaos_tensor *t, int n) {{ return chaos_operator(t + n); }}
            long chaos_step(int tokens, int n) {{ return chaos_graph(&tensor, n) * tokens; }}"
        )
    };
    let library = |name: &str, members: &str| {
        let path = run.path(name);
        std::fs::write(path.with_extension("c"), source(members)).unwrap();
        let mut command = Command::new("cc");
        command.args(["-O1", "-g", "-shared", "-fPIC", "-Wl,--build-id=0x00112233445566778899aabbccddeeff"]);
        assert!(command.arg("-o").arg(&path).arg(path.with_extension("c")).status().unwrap().success());
        path
    };
    let one = library("libchaos_one.so", "char name[32]; long length;");
    let other = library("libchaos_two.so", "long length; char name[32];");
    let info_of = |library: &Path| {
        let output = Command::new("objdump").arg("-h").arg(library).output().unwrap();
        let text = stdout(&output);
        text.lines().find(|line| line.contains(".debug_info")).unwrap().split_whitespace().nth(2).unwrap().to_owned()
    };
    assert_eq!(info_of(&one), info_of(&other), "nothing but the content differs");
    let says = |library: &Path, cache: &Path| {
        let output = finish_command(&mut check(cache, library));
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).replace("libchaos_one", "LIB").replace("libchaos_two", "LIB")
    };
    let (first, second) = (says(&one, &cache), says(&other, &cache));
    assert_ne!(first, second);
    assert_eq!(second, says(&other, &run.path("empty")));
    assert_eq!(first, says(&one, &cache));
}

#[test]
#[ignore = "needs root"]
fn folders_are_private_whatever_the_umask() {
    let run = Run::new();
    let (cache, temporary, modes) = (run.path("deep/cache"), run.path("tmp"), run.path("modes"));
    std::fs::create_dir(&temporary).unwrap();
    let compiler = run.path("clang");
    let script = format!("#!/bin/sh\nstat -c %a . >>'{}'\nexec clang \"$@\"\n", modes.display());
    std::fs::write(&compiler, script).unwrap();
    set_mode(&compiler, 0o755);
    let toy = run.toy("counts", &["ms=100"]).join(" ");
    let program = env!("CARGO_BIN_EXE_profinfer");
    let look = format!("stat -c %a '{}'/profinfer-* >>'{}'", temporary.display(), modes.display());
    let script = format!("umask 000; exec {program} try {PROBESET} -- sh -c \"{look}; exec {toy}\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("CLANG", &compiler);
    command.env("PROFINFER_CACHE", &cache).env("TMPDIR", &temporary).current_dir(run.folder.path());
    let output = finish_command(&mut command);
    let modes = std::fs::read_to_string(&modes).unwrap_or_default();
    // `clang --version` runs where the program was started; then compiling, and the folder of the trace.
    let folders: Vec<&str> = modes.lines().skip(1).collect();
    assert!(folders.len() >= 2 && folders.iter().all(|mode| *mode == "700"), "{modes}\n{}", stderr(&output));
    for folder in ["", "layouts", "objects"] {
        assert_eq!(mode(&cache.join(folder)), 0o700, "{folder}");
    }
    assert_eq!(mode(cache.parent().unwrap()), 0o700);
    assert_eq!(mode(&only_file(&cache.join("objects"))), 0o600);
}

#[test]
#[ignore = "needs root"]
fn several_at_once_share_a_cache() {
    let run = Run::new();
    let cache = run.path("cache");
    let start = || {
        let mut command = check(&cache, &run.engine());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(|_| start()).collect();
    let mut outputs: Vec<(String, String)> =
        children.into_iter().map(finish).map(|output| (stdout(&output), stderr(&output))).collect();
    outputs.dedup();
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    assert!(!outputs[0].1.contains("B012"));
    only_file(&cache.join("layouts"));
}

/// A place where an ordinary user can run the program and the toy.
struct Place {
    run: Run,
}

impl Place {
    fn new(user: u32) -> Self {
        let run = Run::new();
        set_mode(run.folder.path(), 0o755);
        std::fs::copy(builds().join("chaos"), run.path("chaos")).unwrap();
        std::fs::copy(PROBESET, run.path("chaos.yaml")).unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_profinfer"), run.path("profinfer")).unwrap();
        for program in ["chaos", "profinfer", "libchaos.so"] {
            set_mode(&run.path(program), 0o755);
        }
        set_mode(&run.path("chaos.yaml"), 0o644);
        std::fs::create_dir(run.path("home")).unwrap();
        chown(run.path("home"), Some(user), Some(user)).unwrap();
        Self { run }
    }

    fn program(&self) -> String {
        self.run.path("profinfer").display().to_string()
    }

    fn set_capabilities(&self, capabilities: &str) {
        let program = self.run.path("profinfer");
        assert!(Command::new("setcap").arg(capabilities).arg(program).status().expect("setcap").success());
    }

    fn toy(&self, name: &str, words: &[&str]) -> Vec<String> {
        let mut toy = self.run.toy(name, words);
        toy[0] = self.run.path("chaos").display().to_string();
        toy[1] = self.run.path("home").join(name).display().to_string();
        toy
    }

    fn counts(&self, name: &str) -> Counts {
        Counts::read(&self.run.path("home").join(name))
    }

    /// A command as an ordinary user, in the home.
    fn as_user(&self, user: u32, words: &[String]) -> Command {
        let id = user.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).args(words);
        command.current_dir(self.run.path("home")).env("HOME", self.run.path("home")).env("NO_COLOR", "1");
        command.env_remove("PROFINFER_CACHE").env_remove("XDG_CACHE_HOME");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let own = [self.program()].into_iter();
        own.chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// A running toy of a user's is recorded into `running.pfi`.
    fn records_a_running_one(&self, user: u32, recorder: &dyn Fn(&str) -> Command) {
        let mut toy = self.as_user(user, &self.toy("running", &["ms=60000", "pause=1000"])).spawn().unwrap();
        wait_until("the toy runs", || self.counts("running").steps > 0);
        let output = finish_command(&mut recorder(&toy.id().to_string()));
        toy.kill().unwrap();
        toy.wait().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let (counts, path) = (self.counts("running"), self.run.path("home/running.pfi"));
        let steps = Trace::read(&path).count("step");
        assert!(counts.wrong == 0 && steps > 0 && steps <= counts.steps, "{steps} of {counts:?}");
        let (complete, text) = report(&path);
        assert!(complete, "{text}");
    }

    /// The trace in the home has all that the toy did.
    fn has_all(&self, trace: &str, counts: &str) {
        let (counts, path) = (self.counts(counts), self.run.path("home").join(trace));
        let trace = Trace::read(&path);
        assert_eq!((counts.wrong, trace.count("step")), (0, counts.steps));
        assert!(counts.steps > 0 && trace.count("operator") == counts.operators, "{counts:?}");
        let (complete, text) = report(&path);
        assert!(complete, "{text}");
    }
}

const RECORD: [&str; 3] = ["record", "../chaos.yaml", "-o"];

#[test]
#[ignore = "needs root"]
fn two_file_capabilities_are_enough_for_one_s_own_programs() {
    let place = Place::new(NOBODY);
    place.set_capabilities("cap_bpf,cap_perfmon+ep");
    let user = |words: &[&str]| place.as_user(NOBODY, &place.words(words));
    let doctor = finish_command(&mut user(&["doctor"]));
    assert!(stdout(&doctor).contains("This machine can record."), "{}", stdout(&doctor));

    let launched = place.toy("launched", &["rounds=20", "reload"]);
    let launched: Vec<&str> = launched.iter().map(String::as_str).collect();
    let output = finish_command(&mut user(&[&RECORD[..], &["launched.pfi", "--"], &launched].concat()));
    assert!(output.status.success(), "{}", stderr(&output));
    place.has_all("launched.pfi", "launched");
    assert!(!stderr(&output).contains("B012"), "{}", stderr(&output));

    let words = |pid: &str| place.words(&[&RECORD[..], &["running.pfi", "--duration", "1s", "-p", pid]].concat());
    place.records_a_running_one(NOBODY, &|pid| place.as_user(NOBODY, &words(pid)));

    // What they are not enough for names what is.
    let own = std::process::id().to_string();
    let output = finish_command(&mut user(&[&RECORD[..], &["other.pfi", "-p", &own]].concat()));
    let reported = stderr(&output);
    let command = format!("sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill+ep {}", place.program());
    assert!(
        reported.contains("error[B005]") && reported.contains("CAP_SYS_PTRACE") && reported.contains(&command),
        "{reported}"
    );
    let output =
        finish_command(&mut user(&[&RECORD[..], &["single.pfi", "--attach", "single", "--"], &launched].concat()));
    let reported = stderr(&output);
    let names = reported.contains("missing: CAP_SYS_ADMIN") && reported.contains("cap_sys_admin+ep");
    assert!(output.status.success() || reported.contains("error[B005]") && names, "{reported}");
}

#[test]
#[ignore = "needs root"]
fn a_capability_that_is_missing_is_named_with_the_command() {
    let place = Place::new(NOBODY);
    let command = format!("sudo setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_kill+ep {}", place.program());
    for (has, lacks) in [("cap_bpf+ep", "CAP_PERFMON"), ("cap_perfmon+ep", "CAP_BPF"), ("cap_kill+ep", "CAP_BPF")] {
        place.set_capabilities(has);
        let doctor = finish_command(&mut place.as_user(NOBODY, &place.words(&["doctor", "--json"])));
        let found: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let missing = found["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == lacks).unwrap();
        assert!(found["can_record"] == false && missing["state"] == "missing", "{has}: {found}");
        assert!(missing["fix"].as_str().unwrap().contains(&command), "{missing}");
        let toy = place.toy("counts", &["rounds=1"]);
        let toy: Vec<&str> = toy.iter().map(String::as_str).collect();
        let words = place.words(&[&RECORD[..], &["t.pfi", "--"], &toy].concat());
        let reported = stderr(&finish_command(&mut place.as_user(NOBODY, &words)));
        assert!(
            reported.contains("error[B005]") && reported.contains(lacks) && reported.contains(&command),
            "{has}: {reported}"
        );
        assert_eq!(place.counts("counts"), Counts::default(), "nothing was run");
    }
}

#[test]
#[ignore = "needs root"]
fn a_user_without_a_home_or_with_one_that_is_read_only_needs_none() {
    let place = Place::new(NOBODY);
    let target = place.run.engine().display().to_string();
    let words = place.words(&["check", "../chaos.yaml", "--target", &target]);
    let baseline = finish_command(&mut place.as_user(NOBODY, &words));
    assert!(place.run.path("home/.cache/profinfer/layouts").exists());
    std::fs::create_dir(place.run.path("read_only")).unwrap();
    chown(place.run.path("read_only"), Some(NOBODY), None).unwrap();
    set_mode(&place.run.path("read_only"), 0o555);
    for home in [None, Some(place.run.path("read_only")), Some("/nonexistent".into()), Some("/root".into())] {
        let mut command = place.as_user(NOBODY, &words);
        match &home {
            Some(home) => command.env("HOME", home),
            None => command.env_remove("HOME"),
        };
        let output = finish_command(&mut command);
        assert_eq!((stdout(&output), stderr(&output)), (stdout(&baseline), stderr(&baseline)), "{home:?}");
    }
}

/// `sudo` itself, in a mount namespace where a caller exists who may use it, and root's home is one of the test's.
fn through_sudo(place: &Place, options: &[&str], words: &[String]) -> Command {
    let folder = place.run.folder.path();
    let home = place.run.path("home").display().to_string();
    let passwd = format!(
        "root:*:0:0::{}:/bin/sh\nnobody:*:65534:65534::/nonexistent:/bin/sh\ncaller:*:{CALLER}:{CALLER}::{home}:/bin/sh\n",
        place.run.path("root").display()
    );
    let files = [
        ("passwd", passwd, 0o644),
        ("group", format!("root:x:0:\nnogroup:x:65534:\ncaller:x:{CALLER}:\n"), 0o644),
        ("sudoers", "Defaults env_reset\ncaller ALL=(ALL:ALL) NOPASSWD: ALL\n".to_owned(), 0o440),
    ];
    let mut script = String::from("set -e\n");
    for (name, text, mode) in files {
        let path = folder.join(name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, text).unwrap();
        set_mode(&path, mode);
        script += &format!("mount --bind '{}' /etc/{name}\n", path.display());
    }
    script +=
        &format!("cd '{home}'\nexec setpriv --reuid {CALLER} --regid {CALLER} --clear-groups -- sudo -n \"$@\"\n");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(options).args(words);
    command.env("HOME", &home).env("NO_COLOR", "1").env_remove("PROFINFER_CACHE").env_remove("XDG_CACHE_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
#[ignore = "needs root"]
fn through_sudo_the_target_and_the_trace_are_the_caller_s_and_the_cache_is_root_s() {
    let place = Place::new(CALLER);
    std::fs::create_dir(place.run.path("root")).unwrap();
    let doctor = finish_command(&mut through_sudo(&place, &[], &place.words(&["doctor"])));
    assert!(stdout(&doctor).contains("This machine can record."), "{}{}", stdout(&doctor), stderr(&doctor));
    let owner = |name: &str| std::fs::symlink_metadata(place.run.path(name)).unwrap().uid();
    // With the caller's environment, too, which names the caller's home.
    for (number, options) in [&[][..], &["-E"], &["-E", "HOME=/nonexistent"]].into_iter().enumerate() {
        let (counts, trace) = (format!("counts{number}"), format!("t{number}.pfi"));
        let toy = place.toy(&counts, &["rounds=20", "reload"]);
        let toy: Vec<&str> = toy.iter().map(String::as_str).collect();
        let words = place.words(&[&RECORD[..], &[&trace, "--"], &toy].concat());
        let output = finish_command(&mut through_sudo(&place, options, &words));
        assert!(output.status.success(), "{options:?}: {}", stderr(&output));
        place.has_all(&trace, &counts);
        assert_eq!([owner(&format!("home/{counts}")), owner(&format!("home/{trace}"))], [CALLER; 2], "{options:?}");
        assert!(!place.run.path("home/.cache").exists(), "{options:?}");
        assert!(!stderr(&output).contains("B012"), "{options:?}: {}", stderr(&output));
    }
    for folder in ["root/.cache/profinfer", "root/.cache/profinfer/layouts", "root/.cache/profinfer/objects"] {
        assert_eq!((owner(folder), mode(&place.run.path(folder))), (0, 0o700), "{folder}");
    }
    // A running process of the caller's.
    let words = |pid: &str| place.words(&[&RECORD[..], &["running.pfi", "--duration", "1s", "-p", pid]].concat());
    place.records_a_running_one(CALLER, &|pid| through_sudo(&place, &[], &words(pid)));
    assert_eq!(owner("home/running.pfi"), CALLER);
    // What the caller put into a cache of theirs is not root's to believe.
    let cache = place.run.path("home/theirs");
    let own = place.words(&["check", "../chaos.yaml", "--target", &place.run.engine().display().to_string()]);
    let mut filled = place.as_user(CALLER, &own);
    assert!(finish_command(filled.env("PROFINFER_CACHE", &cache)).status.success());
    let named = format!("PROFINFER_CACHE={}", cache.display());
    let reported = stderr(&finish_command(&mut through_sudo(&place, &[&named], &own)));
    assert!(reported.contains("note[B012]") && reported.contains("belongs to another user"), "{reported}");
}
