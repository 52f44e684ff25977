//! Jobs of the kernel's drivers, on kernels with drivers of GPUs: a module that uses the kernel's scheduler (Linux 6.1; it
//! is built for that one) and says itself when its mock of a device ran what; vgem, whose fences the program itself
//! signals; and virtio-gpu, whose work the emulator does.

use super::layout::{self, profinfer};
use super::machine::{self, Arch, Extra, Machine, MachineOutput, Step, run, script};
use super::{ROOT, is_wanted, lines};
use profinfer_schema::{Loss, LossKind};
use profinfer_trace::TraceReader;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const PROBESET: &str = "tests/targets/gpu_jobs.yaml";
const SERIES: [&str; 2] = ["6.1", "6.18"];
/// For which the module is built.
const WITH_MOCK: &str = "6.1";
const RINGS: [&str; 2] = ["mock.compute", "mock.copy"];
/// The host can take an emulated processor away between an event of the kernel and when the module reads its clock: a
/// single job may differ by so much, ns. Which of both comes first is exact, and the median is within one percent.
const LATE: u64 = 20_000_000;
/// What is no accident, ns.
const LONG: u64 = 10_000_000;

/// Since when a job is known to have run, as the schema numbers it.
const RUN: i64 = 1;
const EMITTED: i64 = 2;
const CREATED: i64 = 3;

fn lay_out(root: &Path) {
    let sources = Path::new(ROOT).join("tests/targets");
    fs::copy(Path::new(ROOT).join(PROBESET), root.join(PROBESET)).unwrap();
    let mut build = profinfer("build");
    run(build.args([PROBESET, "--arch", "x86_64", "-o"]).arg(root.join("objects/gpu_jobs.bpf.o")));
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-g", "-Wl,--build-id=sha1", "-o"]).arg(root.join("bin/gpu_jobs"));
    run(compile.arg(sources.join("gpu_jobs.c")).arg("-lpthread"));
    for series in kernels() {
        let brought = PathBuf::from(script("get.sh", &["drivers", series]));
        let folder = root.join("drivers").join(series);
        fs::create_dir_all(&folder).unwrap();
        for file in fs::read_dir(brought.join("modules")).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), folder.join(file.file_name())).unwrap();
        }
        if series == WITH_MOCK {
            let built = tempfile::tempdir().unwrap();
            fs::copy(sources.join("mock_scheduler.c"), built.path().join("mock_scheduler.c")).unwrap();
            fs::write(built.path().join("Makefile"), "obj-m := mock_scheduler.o\n").unwrap();
            let mut make = Command::new("make");
            make.arg("-s").arg("-C").arg(brought.join("build")).arg("modules");
            run(make.arg(format!("M={}", built.path().display())));
            fs::copy(built.path().join("mock_scheduler.ko"), folder.join("mock_scheduler.ko")).unwrap();
        }
        fs::write(root.join("steps").join(series), lines(&steps(series))).unwrap();
    }
    run(Command::new("chmod").arg("-R").arg("go-w").arg(root));
}

fn steps(series: &str) -> Vec<Step> {
    let record = |name: &str, words: &str| {
        let command = format!("profinfer record {PROBESET} --object /objects/gpu_jobs.bpf.o -o /run/{name}.pfi");
        format!("{command} -- /bin/gpu_jobs {words}")
    };
    let recorded = |name: &str, words: &str| (name.to_owned(), record(name, words));
    let mock = if series == WITH_MOCK { " mock_scheduler" } else { "" };
    let load = format!(
        "for module in $(cat /drivers/{series}/order){mock}; do busybox insmod /drivers/{series}/$module.ko || exit 1; done"
    );
    let format = "/sys/kernel/tracing/events/dma_fence/dma_fence_init/format";
    let mut steps = vec![
        ("modules".to_owned(), load),
        recorded("vgem", "vgem steps=4"),
        recorded("together", "vgem threads=2 steps=3"),
        recorded("virtio", "virtio threads=2 steps=5"),
        recorded("left", "leave steps=1"),
    ];
    if series == WITH_MOCK {
        let others = "/bin/gpu_jobs sched steps=1000 ms=70 >/dev/null & others=$!; ";
        let shared =
            format!("{others}{}; status=$?; kill $others; exit $status", record("shared", "sched steps=5 ms=60"));
        // A machine with two devices of the module's.
        let nodes = "d=/run/drm/renderD128/device && busybox mkdir -p $d /run/mock && \
            busybox ln -s /sys/module/mock_scheduler /run/mock/module && busybox ln -s /run/mock $d/driver && \
            busybox ln -s renderD128 /run/drm/renderD129 && mount -o bind /run/drm /sys/class/drm";
        let two =
            format!("{nodes} && {}; status=$?; busybox umount /sys/class/drm; exit $status", record("two", "sched"));
        steps.extend([
            recorded("sched", "sched threads=4 steps=3 jobs=2 ms=40"),
            ("shared".to_owned(), shared),
            recorded("stuck", "stuck steps=1 jobs=2"),
            ("two".to_owned(), two),
        ]);
    } else {
        // The kernel says of each file of a process what is attached by it.
        let command = record("attached", "").replace("/bin/gpu_jobs ", "/bin/sh");
        let target = "/bin/gpu_jobs vgem steps=1; cat /proc/[0-9]*/fdinfo/* 2>/dev/null | busybox grep ^tp_name";
        steps.push(("attached".to_owned(), format!("{command} -c '{target}'")));
    }
    let tracefs = "/sys/kernel/tracing";
    let unmounted = format!(
        "busybox umount {tracefs}; {}; status=$?; mount -t tracefs tracefs {tracefs}; exit $status",
        record("unmounted", "vgem steps=2")
    );
    // What stands for the file cannot be read.
    let unreadable = format!("mount -o bind /proc/1/mem {format}; {}", record("unreadable", "vgem steps=2"));
    steps.extend([("unmounted".to_owned(), unmounted), ("unreadable".to_owned(), unreadable)]);
    steps
}

fn kernels() -> impl Iterator<Item = &'static str> {
    SERIES.into_iter().filter(|series| is_wanted(series))
}

/// What the machines reported, each of which must have loaded its modules.
fn machines() -> &'static [MachineOutput] {
    static OUTPUTS: OnceLock<Vec<MachineOutput>> = OnceLock::new();
    OUTPUTS.get_or_init(|| {
        let folder = layout::lay_out(Arch::Amd64);
        lay_out(folder.path());
        let machine = |series| Machine { arch: Arch::Amd64, series, steps: series, extra: Extra::Drivers };
        let reported = machine::boot_all(&kernels().map(machine).collect::<Vec<_>>(), folder.path());
        reported.iter().for_each(|reported| reported.ended("modules", 0));
        reported
    })
}

/// A job as it was recorded; times are on CLOCK_MONOTONIC.
#[derive(Debug, Clone)]
struct Job {
    tid: u32,
    queued: u64,
    began: u64,
    done: u64,
    ring: String,
    driver: String,
    since: i64,
}

/// A job as the module has it.
#[derive(Debug, Clone, Copy)]
struct Known {
    ring: usize,
    number: u64,
    pushed: u64,
    run: u64,
    began: u64,
    done: u64,
}

/// A submission as the program has it.
#[derive(Debug, Clone, Copy)]
struct Submission {
    tid: u32,
    submitted: [u64; 2],
    waited: u64,
}

/// A recording, and what the program reported meanwhile.
#[derive(Debug)]
struct Recorded {
    jobs: Vec<Job>,
    /// When submissions began, by their fences.
    starts: BTreeMap<u64, (u32, u64)>,
    submissions: BTreeMap<u64, Submission>,
    known: Vec<Known>,
    /// When fences were signalled: before and after the call.
    signalled: BTreeMap<u64, [u64; 2]>,
    /// Submissions as they are exported, by thread.
    rows: BTreeMap<u64, serde_json::Value>,
    report: serde_json::Value,
    /// Jobs that are not done at its end.
    open: u64,
}

impl Recorded {
    /// Of a step of which nothing may be lost, whose jobs are all done, and that is warned of if it `lacks` something.
    fn of(reported: &MachineOutput, step: &str, lacks: bool) -> Self {
        let found = Self::with_open(reported, step, lacks);
        assert_eq!(found.open, 0, "Linux {}, {step}: jobs that are not done", reported.series);
        found
    }

    /// The same of a step that may leave jobs that are not done.
    fn with_open(reported: &MachineOutput, step: &str, lacks: bool) -> Self {
        let trace = reported.trace(step, 0);
        let stderr = reported.text(&format!("{step}.stderr"));
        assert_eq!(
            stderr.matches("warning").count(),
            usize::from(lacks),
            "Linux {}, {step}: {stderr}",
            reported.series
        );
        let folder = tempfile::tempdir().unwrap();
        let [file, table] = ["run.pfi", "queue.ndjson"].map(|name| folder.path().join(name));
        fs::write(&file, trace).unwrap();
        run(profinfer("export").arg(&file).args(["--format", "ndjson", "--table", "queue", "-o"]).arg(&table));
        let table = fs::read_to_string(&table).unwrap();
        let rows = table.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let rows = rows.filter(|row| row["event"] == "submit").map(|row| (row["tid"].as_u64().unwrap(), row));
        let report = serde_json::from_str(&run(profinfer("report").arg(&file).arg("--json"))).unwrap();
        let (mut jobs, mut starts) = (Vec::new(), BTreeMap::new());
        let mut reader = TraceReader::new(trace).unwrap();
        reader.for_each_record(|record| {
            let header = record.header();
            let number = |name: &str| record.field_named(name).as_i64().unwrap();
            let text = |name: &str| record.field_named(name).as_str().unwrap_or_default().to_owned();
            match &*record.kind().name {
                "job" => jobs.push(Job {
                    tid: header.tid,
                    queued: number("queued") as u64,
                    began: header.start,
                    done: header.start + header.duration,
                    ring: text("name"),
                    driver: text("driver"),
                    since: number("job_since"),
                }),
                "submit" => drop(starts.insert(number("fence") as u64, (header.tid, header.start))),
                _ => {}
            }
            true
        });
        let meta = reader.into_meta();
        let open = match &*meta.losses {
            [Loss { record, kind: LossKind::StillOpen, count }] if record == "job" => *count,
            losses => {
                assert_eq!(losses, [], "Linux {}, {step}: nothing is lost", reported.series);
                0
            }
        };
        assert_eq!(meta.problems.0, [], "Linux {}, {step}", reported.series);
        jobs.sort_by_key(|job| job.done);
        let mut found = Self {
            jobs,
            starts,
            submissions: BTreeMap::new(),
            known: Vec::new(),
            signalled: BTreeMap::new(),
            rows: rows.collect(),
            report,
            open,
        };
        found.read(&reported.text(&format!("{step}.stdout")));
        found
    }

    /// What the program reported.
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            match (line.split(' ').next(), &*numbers) {
                (Some("job"), &[ring, number, pushed, run, began, done]) => {
                    self.known.push(Known { ring: ring as usize, number, pushed, run, began, done });
                }
                (Some("fence"), &[number, before, after]) => drop(self.signalled.insert(number, [before, after])),
                (Some("submission"), &[number, tid, before, after, waited]) => {
                    let submission = Submission { tid: tid as u32, submitted: [before, after], waited };
                    self.submissions.insert(number, submission);
                }
                _ => panic!("what is {line}"),
            }
        }
        self.known.sort_by_key(|known| known.done);
    }

    /// The jobs that a submission gave to the driver, by its thread, which has no other.
    fn of_submission(&self, number: u64) -> Vec<&Job> {
        let tid = self.submissions[&number].tid;
        self.jobs.iter().filter(|job| job.tid == tid).collect()
    }

    /// Each submission is joined to its own jobs, and they are the ones that its thread gave to the driver in the call.
    fn assert_joined(&self, at: &str, jobs: usize) {
        for (number, submission) in &self.submissions {
            let (tid, start) = self.starts[number];
            assert_eq!(tid, submission.tid, "{at}");
            let of = self.of_submission(*number);
            assert_eq!(of.len(), jobs, "{at}: jobs of {number}");
            for job in &of {
                let [from, to] = submission.submitted;
                assert!((from..=to).contains(&job.queued), "{at}: {job:?} is not within {submission:?}");
            }
            let row = &self.rows[&u64::from(tid)];
            let time = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{at}: no {name} in {row}"));
            let first = of.iter().map(|job| job.began).min().unwrap();
            let ran: u64 = of.iter().map(|job| job.done - job.began).sum();
            assert_eq!((time("ran_from_ns") - time("start_ns"), time("ran_ns")), (first - start, ran), "{at}: {row}");
        }
    }

    /// The report's row of a ring: jobs, and how many of them are bounds.
    fn ring(&self, driver: Option<&str>, ring: &str) -> [u64; 2] {
        let rings = self.report["offload"]["rings"].as_array().unwrap();
        let mut found = rings.iter().filter(|row| row["driver"].as_str() == driver && row["ring"] == ring);
        let row = found.next().unwrap_or_else(|| panic!("no {ring}: {rings:?}"));
        ["jobs", "bounds"].map(|name| row[name].as_u64().unwrap())
    }
}

#[track_caller]
fn assert_jobs_are_known(found: &Recorded, ring: usize, at: &str) {
    let jobs: Vec<&Job> = found.jobs.iter().filter(|job| job.ring == RINGS[ring]).collect();
    let known: Vec<&Known> = found.known.iter().filter(|known| known.ring == ring).collect();
    assert_eq!(jobs.len(), known.len(), "{at}: jobs");
    for (job, known) in jobs.iter().zip(&known) {
        let both = format!("{at}: {job:?}, {known:?}");
        assert_eq!((job.since, job.tid), (RUN, found.submissions[&known.number].tid), "{both}");
        assert!(known.pushed <= job.queued && job.queued <= known.run && job.queued <= job.began, "{both}");
        assert!(job.began.abs_diff(known.began) < LATE, "{both}");
        assert!(known.done <= job.done && job.done - known.done < LATE, "{both}");
    }
    for pair in jobs.windows(2) {
        assert!(pair[0].done <= pair[1].began, "{at}: a ring runs one after the other: {pair:?}");
    }
    let sums = [
        jobs.iter().map(|job| job.done - job.began).sum::<u64>(),
        known.iter().map(|known| known.done - known.began).sum(),
    ];
    let off = |(job, known): (&&Job, &&Known)| {
        let [ran, expected] = [job.done - job.began, known.done - known.began];
        ran.abs_diff(expected) as f64 / expected as f64
    };
    let mut off: Vec<f64> = jobs.iter().zip(&known).map(off).collect();
    off.sort_by(f64::total_cmp);
    println!("{at}, {}: ran {sums:?} ns in all, off by {off:.5?}", RINGS[ring]);
    assert!(off[off.len() / 2] < 0.01, "{at}: {off:?}");
}

/// The machine with the module, unless only others are wanted.
fn with_mock() -> Option<&'static MachineOutput> {
    machines().iter().find(|reported| reported.series == WITH_MOCK)
}

#[test]
#[ignore = "needs root"]
fn jobs_of_a_scheduler_have_the_devices_own_times() {
    let Some(reported) = with_mock() else { return };
    let found = Recorded::of(reported, "sched", false);
    assert_eq!((found.submissions.len(), found.known.len()), (12, 24));
    for (ring, name) in RINGS.into_iter().enumerate() {
        assert_jobs_are_known(&found, ring, "sched");
        assert_eq!(found.ring(None, name), [12, 0]);
    }
    found.assert_joined("sched", 2);
    // What this is about happened: jobs waited in the scheduler, and for the device.
    assert!(found.known.iter().any(|known| known.run - known.pushed > LONG), "{:?}", found.known);
    assert!(found.known.iter().any(|known| known.began - known.run > LONG), "{:?}", found.known);
}

#[test]
#[ignore = "needs root"]
fn jobs_of_other_processes_are_not_in_a_jobs_time() {
    let Some(reported) = with_mock() else { return };
    let found = Recorded::of(reported, "shared", false);
    assert_eq!(found.known.len(), 5);
    assert_jobs_are_known(&found, 1, "shared");
    found.assert_joined("shared", 1);
    assert!(found.known.iter().any(|known| known.began - known.run > LONG), "{:?}", found.known);
}

#[test]
#[ignore = "needs root"]
fn a_job_that_is_never_done_is_counted() {
    let Some(reported) = with_mock() else { return };
    let found = Recorded::with_open(reported, "stuck", false);
    assert_eq!((found.submissions.len(), found.jobs.len(), found.open), (1, 0, 2));
    assert!(found.rows.values().all(|row| row["ran_ns"].is_null()), "{:?}", found.rows);
}

/// This kernel's events have a ring's name alone.
#[test]
#[ignore = "needs root"]
fn devices_whose_jobs_cannot_be_told_apart_are_warned_of() {
    let Some(reported) = with_mock() else { return };
    let found = Recorded::of(reported, "two", true);
    let stderr = reported.text("two.stderr");
    assert!(stderr.contains("jobs of 2 GPUs of one driver cannot be told apart"), "{stderr}");
    assert_eq!((found.submissions.len(), found.jobs.len()), (3, 3));
}

#[test]
#[ignore = "needs root"]
fn a_fence_is_a_bound_from_when_it_was_made() {
    for reported in machines() {
        for (step, fences) in [("vgem", 4), ("together", 6)] {
            let at = format!("Linux {}, {step}", reported.series);
            let found = Recorded::of(reported, step, false);
            assert_eq!((found.submissions.len(), found.jobs.len()), (fences, fences), "{at}");
            for (number, submission) in &found.submissions {
                let [job] = found.of_submission(*number)[..] else { panic!("{at}: {:?}", found.jobs) };
                assert_eq!((&*job.driver, &*job.ring, job.since), ("vgem", "unbound", CREATED), "{at}");
                let ([from, to], [before, after]) = (submission.submitted, found.signalled[number]);
                assert!(from <= job.began && job.began <= to, "{at}: {job:?}, {submission:?}");
                assert!(before <= job.done && job.done <= after, "{at}: {job:?}, {before} to {after}");
            }
            assert_eq!(found.ring(Some("vgem"), "unbound"), [fences as u64; 2], "{at}");
            if step == "vgem" {
                found.assert_joined(&at, 1);
            }
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_fence_that_is_emitted_is_a_bound_from_then() {
    for reported in machines() {
        let at = format!("Linux {}", reported.series);
        let found = Recorded::of(reported, "virtio", false);
        assert_eq!((found.submissions.len(), found.jobs.len()), (10, 10), "{at}: {:?}", found.jobs);
        for (number, submission) in &found.submissions {
            let [job] = found.of_submission(*number)[..] else { panic!("{at}: {:?}", found.jobs) };
            assert_eq!((&*job.driver, &*job.ring, job.since), ("virtio_gpu", "controlq", EMITTED), "{at}");
            let [from, to] = submission.submitted;
            assert!(from <= job.began && job.began <= to, "{at}: {job:?}, {submission:?}");
            assert!(job.done <= submission.waited, "{at}: {job:?}, {submission:?}");
            assert!(found.rows[&u64::from(job.tid)]["ran_ns"].as_u64().unwrap() <= job.done - job.began, "{at}");
        }
        assert_eq!(found.ring(Some("virtio_gpu"), "controlq"), [10, 10], "{at}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_fence_that_the_program_leaves_ends_with_it_or_not_at_all() {
    for reported in machines() {
        let found = Recorded::with_open(reported, "left", false);
        let waited = found.submissions[&1001].waited;
        assert_eq!(found.jobs.len() as u64 + found.open, 1, "{:?}", found.jobs);
        assert!(found.jobs.iter().all(|job| job.done >= waited), "{:?}", found.jobs);
    }
}

/// Linux renamed those of the scheduler in 6.16.
#[test]
#[ignore = "needs root"]
fn tracepoints_are_attached_by_their_new_names() {
    for reported in machines().iter().filter(|reported| reported.series != WITH_MOCK) {
        reported.ended("attached", 0);
        let (stdout, stderr) = (reported.text("attached.stdout"), reported.text("attached.stderr"));
        assert!(!stderr.contains("warning") && !stderr.contains("left out"), "{stderr}");
        let mut attached: Vec<&str> = stdout.lines().filter_map(|line| line.strip_prefix("tp_name:\t")).collect();
        attached.retain(|name| name.starts_with("drm_") || name.starts_with("dma_"));
        let expected = ["drm_sched_job_queue", "drm_sched_job_run", "drm_sched_job_done"];
        let fences = ["dma_fence_init", "dma_fence_emit", "dma_fence_signaled"];
        assert_eq!(attached, [expected, fences].concat(), "{stdout}");
    }
}

/// One warning says it; all else is recorded.
#[test]
#[ignore = "needs root"]
fn without_the_kernels_formats_all_else_is_recorded() {
    for reported in machines() {
        for step in ["unmounted", "unreadable"] {
            let at = format!("Linux {}, {step}", reported.series);
            let found = Recorded::of(reported, step, true);
            let stderr = reported.text(&format!("{step}.stderr"));
            assert!(stderr.contains("jobs of devices are not recorded"), "{at}: {stderr}");
            assert_eq!((found.jobs.len(), found.starts.len(), found.rows.len()), (0, 2, 2), "{at}");
        }
    }
}
