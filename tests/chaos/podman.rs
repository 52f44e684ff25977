//! Targets in a real container of podman: they are found by its name, their figures have its names, and go on under them
//! when it is started again.

use super::live::Serve;
use super::toy::{Run, builds, wait_until};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the image is called.
const IMAGE: &str = "localhost/profinfer-toy:1";
const NAME: &str = "profinfer-toy";

fn podman(words: &[&str]) -> String {
    let output = Command::new("podman").args(["--runtime", "runc"]).args(words).stdin(Stdio::null()).output();
    let output = output.expect("podman");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// An image of the toy and its engine; the C library is this machine's.
fn make_image(run: &Run) {
    let root = run.path("root");
    std::fs::create_dir_all(root.join("opt")).unwrap();
    for folder in ["usr", "run", "proc", "sys", "dev", "etc"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for link in ["lib", "lib64", "bin"] {
        std::os::unix::fs::symlink(Path::new("usr").join(link), root.join(link)).unwrap();
    }
    std::fs::copy(builds().join("chaos"), root.join("opt/chaos")).unwrap();
    std::fs::copy(builds().join("first.so"), root.join("opt/libchaos.so")).unwrap();
    let archive = run.path("image.tar").display().to_string();
    let made = Command::new("tar").args(["-c", "-f", &archive, "-C"]).arg(&root).arg(".").status().unwrap();
    assert!(made.success());
    podman(&["import", "--quiet", &archive, IMAGE]);
}

/// A container, removed with the test.
struct Container;

impl Container {
    /// The words after `podman` that run the toy, counting in this folder.
    fn words(option: &str, folder: &str, words: &[&str]) -> Vec<String> {
        let (counts, volume) = (format!("{folder}/counts"), format!("{folder}:{folder}"));
        // This machine lets nobody raise the limits.
        let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"];
        let options = ["run", option, "--name", NAME, "--network", "none", "--volume", "/usr:/usr:ro"];
        let program = ["--volume", &volume, IMAGE, "/opt/chaos", &counts, "/opt/libchaos.so"];
        [&options[..], &limits, &program, words].concat().into_iter().map(str::to_owned).collect()
    }

    /// Runs the toy; returns its process here, and its number.
    fn start(folder: &str) -> (u32, String) {
        let words = Self::words("--detach", folder, &["ms=600000", "pause=2000", "work=50"]);
        podman(&words.iter().map(String::as_str).collect::<Vec<_>>());
        Self::running()
    }

    fn running() -> (u32, String) {
        let text = podman(&["inspect", "--format", "{{.State.Pid}} {{.Id}}", NAME]);
        let (pid, number) = text.split_once(' ').unwrap();
        (pid.parse().unwrap(), number.to_owned())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        for words in [["rm", "--force", "--time=0", NAME], ["rmi", "--force", "--ignore", IMAGE]] {
            let _ = Command::new("podman").args(["--runtime", "runc"]).args(words).output();
        }
    }
}

/// The image, and a folder for what its toy counts. One test at a time: they have one image.
struct Prepared {
    _removed: Container,
    run: Run,
    _alone: MutexGuard<'static, ()>,
}

impl Prepared {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = Self { _removed: Container, run: Run::new(), _alone: alone };
        make_image(&prepared.run);
        prepared
    }
}

#[test]
#[ignore = "needs root"]
fn a_container_has_its_names_and_goes_on_under_them() {
    let prepared = Prepared::new();
    let (run, folder) = (&prepared.run, prepared.run.folder.path().display().to_string());
    let serve = Serve::start(&["--container", NAME]);
    let mut started = Container::start(&folder);
    for again in ["restart", "replace", ""] {
        let (pid, number) = started.clone();
        wait_until("it is recorded", || serve.of(pid, "profinfer_step_seconds_count").unwrap_or(0.0) > 0.0);
        let text = serve.get("/metrics");
        let infos: Vec<&str> = text.lines().filter(|line| line.starts_with("profinfer_target_info{")).collect();
        let [info] = infos[..] else { panic!("{infos:#?}\n{}", serve.messages()) };
        for label in [
            format!("service_instance_id=\"{NAME}\""),
            format!("process_pid=\"{pid}\""),
            format!("container_id=\"{number}\""),
            format!("container_name=\"{NAME}\""),
            format!("container_image_name=\"{IMAGE}\""),
        ] {
            assert!(info.contains(&label), "{label}: {info}");
        }
        // Nothing but this series goes away and comes again.
        let recorded: Vec<&str> = text.lines().filter(|line| line.starts_with("profinfer_recording{")).collect();
        assert_eq!(recorded.len(), 1, "{recorded:#?}");
        assert!(!recorded[0].contains(number.as_str()) && !recorded[0].contains("process_pid"), "{recorded:?}");
        started = match again {
            "restart" => {
                podman(&["restart", "--time=0", NAME]);
                Container::running()
            }
            "replace" => {
                podman(&["rm", "--force", "--time=0", NAME]);
                Container::start(&folder)
            }
            _ => break,
        };
        assert_ne!(started.0, pid);
        assert_eq!(started.1 == number, again == "restart");
    }
    assert_eq!(run.counts("counts").wrong, 0);
}

#[test]
#[ignore = "needs root"]
fn a_command_is_followed_and_one_that_does_not_wait_says_how_to_attach() {
    let prepared = Prepared::new();
    let (run, folder) = (&prepared.run, prepared.run.folder.path().display().to_string());
    let record = |option: &str, words: &[&str]| {
        let mut command = vec!["podman".to_owned(), "--runtime".into(), "runc".into()];
        command.extend(Container::words(option, &folder, words));
        run.recorder(&["--force"], &command).output().unwrap()
    };
    let output = record("--rm", &["rounds=40", "pause=2000", "work=50"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (counts, trace) = (run.counts("counts"), run.read());
    assert_eq!((trace.count("step"), counts.wrong), (counts.steps, 0));
    assert!(counts.steps >= 200);

    let output = record("--detach", &["ms=600000", "pause=2000", "work=50"]);
    let (pid, _) = Container::running();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains(&format!("record … -p {pid}`")), "{text}");
}
