//! The flight recorder of `serve` with a disk that is full, and with a target that ends: nothing else ends for it.

use super::live::{Serve, end, toy};
use super::toy::{Run, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of this size.
struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(disk.folder.path());
        assert!(mount.status().unwrap().success());
        disk
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

fn kept(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_is_told_and_ends_nothing() {
    let (run, disk) = (Run::new(), Disk::new("192k"));
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "work=20"]);
    let into = disk.folder.path().to_str().unwrap().to_owned();
    let pid = toy_at_work.id().to_string();
    let serve = Serve::start(&["-p", &pid, "--when", "tokens_per_second >= 0 for 2s", "--into", &into]);
    wait_until("it is recorded", || serve.steps(&toy_at_work) > 0.0);
    wait_until("a write fails", || serve.metric("profinfer_flight_failed_total", &[]) > Some(0.0));
    let message = "the flight recorder cannot write the last minutes: No space left on device";
    wait_until("it is told", || serve.messages().contains(message));
    let (steps, own) = (serve.steps(&toy_at_work), run.counts("counts").steps);
    wait_until("figures go on", || serve.steps(&toy_at_work) > steps + 100.0);
    wait_until("the target goes on", || run.counts("counts").steps > own + 100);
    assert_eq!(run.counts("counts").wrong, 0);
    drop(serve);
    // Nothing is left of what had no name.
    wait_until("the disk is empty", || nix::sys::statvfs::statvfs(disk.folder.path()).unwrap().blocks_free() > 40);
    assert_eq!(kept(disk.folder.path()), Vec::<PathBuf>::new());
    end(toy_at_work, input);
}

/// What happens at a target's end is kept: nobody can look at it later.
#[test]
#[ignore = "needs root"]
fn the_last_seconds_of_a_target_that_ends_are_kept() {
    let run = Run::new();
    let (toy_at_work, input) = toy(&run, "counts", &["ms=600000", "pause=2000", "work=50"]);
    let into = run.path("kept");
    let pid = toy_at_work.id().to_string();
    let folder = into.to_str().unwrap();
    let serve =
        Serve::start(&["-p", &pid, "--when", "tokens_per_second > 1 for 2s", "--keep", "10s", "--into", folder]);
    wait_until("it is recorded", || serve.steps(&toy_at_work) > 0.0);
    std::thread::sleep(std::time::Duration::from_secs(5));
    end(toy_at_work, input);
    wait_until("a trace is kept", || serve.metric("profinfer_flight_kept_total", &[]) == Some(1.0));
    wait_until("it is told", || {
        serve.messages().contains("kept ") && serve.messages().contains("tokens_per_second > 1")
    });
    let traces = kept(&into);
    let trace = traces.iter().find(|path| !path.to_str().unwrap().ends_with("-before.pfi")).unwrap();
    let mut report = Command::new(env!("CARGO_BIN_EXE_profinfer"));
    let report = report.args(["report", "--json"]).arg(trace).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let complete = &report["completeness"];
    assert!(complete["steps"].as_u64().unwrap() > 50, "{complete:#}");
    // But for the calls that it was in when it ended, each record is there.
    let lost = complete["lost"].as_array().unwrap();
    assert!(lost.iter().all(|row| row["kind"] == "missing_return" && row["count"] == 1), "{complete:#}");
    assert!(complete["missing_records"].as_u64().unwrap() <= lost.len() as u64, "{complete:#}");
    assert_eq!(complete["steps_left_out"], 0, "{complete:#}");
    assert_eq!(report["kept"]["condition"], "tokens_per_second > 1 for 2s");
}
