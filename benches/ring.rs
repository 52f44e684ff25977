//! What the way from a probe to the trace can carry: what sending a record costs with one ring for all cpus and with one
//! for each, at 1 to 8 threads; and what the recorder takes at a rate, and at which it begins to lose. Needs root.
//!
//! `cargo bench --bench ring`; with `-- contention` or `-- rates` one half of it; with `-- rates 50000 20` one rate, for so
//! many seconds.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use libbpf_rs::{MapCore, MapHandle, MapImpl, Object, ObjectBuilder, ProgramInput, UprobeMultiOpts};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use profinfer_recorder::consuming::consume;
use profinfer_schema::Role;
use profinfer_schema::{FieldLayout, FieldType, RecordKind, RecordType, Schema};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl profinfer_bench_hit",
    ".type profinfer_bench_hit, @function",
    "profinfer_bench_hit:",
    ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00",
    "ret",
    ".size profinfer_bench_hit, .-profinfer_bench_hit"
);
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".globl profinfer_bench_hit",
    ".type profinfer_bench_hit, %function",
    "profinfer_bench_hit:",
    "nop",
    "ret",
    ".size profinfer_bench_hit, .-profinfer_bench_hit"
);
unsafe extern "C" {
    fn profinfer_bench_hit();
}

const CALLS: u64 = 100_000;
const ROUNDS: usize = 15;

fn main() {
    if !nix::unistd::geteuid().is_root() {
        println!("ring: it needs root; nothing measured");
        return;
    }
    let object = load();
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if wanted != "rates" {
        contention(&object);
    }
    if wanted != "contention" {
        let number = |n| std::env::args().nth(n).and_then(|text| text.parse().ok());
        rates(&object, number(2), number(3).unwrap_or(4));
    }
}

fn load() -> Object {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("ring.o");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/ring.bpf.c");
    let mut clang = std::process::Command::new(std::env::var("CLANG").unwrap_or_else(|_| "clang".into()));
    let status = clang.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", source, "-o"]).arg(&output).status();
    assert!(status.expect("clang").success());
    ObjectBuilder::default().open_file(&output).unwrap().load().unwrap()
}

/// Thread CPU time a call, of threads that do nothing but hit the probe; the records are thrown away meanwhile.
fn contention(object: &Object) {
    println!("ns a hit (thread CPU time), median of {ROUNDS} rounds, in turn");
    println!("threads        empty       filled     one ring    one a cpu   difference, and its quartiles");
    let programs = ["hit_nothing", "hit_filled", "hit_shared", "hit_percpu"];
    for threads in [1, 2, 4, 8] {
        let mut times = vec![Vec::new(); programs.len()];
        for round in 0..ROUNDS {
            // In turn from either end, so that what changes with time hits all alike.
            let turn = |i: usize| if round % 2 == 0 { i } else { programs.len() - 1 - i };
            for i in (0..programs.len()).map(turn) {
                times[i].push(hits(object, programs[i], threads));
            }
        }
        let mut differences: Vec<f64> = times[2].iter().zip(&times[3]).map(|(one, each)| one - each).collect();
        let [nothing, filled, shared, percpu] = [0, 1, 2, 3].map(|i| median(&mut times[i]));
        let difference = median(&mut differences);
        let (low, high) = (differences[ROUNDS / 4], differences[ROUNDS - 1 - ROUNDS / 4]);
        println!(
            "{threads:>7} {nothing:>12.0} {filled:>12.0} {shared:>12.0} {percpu:>12.0} {difference:>12.0} [{low:.0}, {high:.0}]"
        );
    }
}

fn hits(object: &Object, program: &str, threads: u64) -> f64 {
    let program = object.progs_mut().find(|p| p.name() == program).expect("the program");
    let options = UprobeMultiOpts { syms: vec!["profinfer_bench_hit".into()], ..Default::default() };
    let link = program.attach_uprobe_multi_with_opts(-1, "/proc/self/exe", "", options).unwrap();
    let rings: Vec<MapHandle> = object
        .maps()
        .filter(|map| map.map_type() == libbpf_rs::MapType::RingBuf)
        .map(|map| MapHandle::try_from(&map).unwrap())
        .collect();
    let mut builder = libbpf_rs::RingBufferBuilder::new();
    for ring in &rings {
        builder.add(ring, |_| 0).unwrap();
    }
    let rings = builder.build().unwrap();
    let stop = AtomicBool::new(false);
    let time = Mutex::new(0_i64);
    std::thread::scope(|scope| {
        let stop = &stop;
        let drain = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                rings.consume_raw();
                std::thread::sleep(Duration::from_millis(5));
            }
            rings.consume_raw();
        });
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let cpu = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap().num_nanoseconds();
                    let start = cpu();
                    for _ in 0..CALLS {
                        // SAFETY: it returns at once.
                        unsafe { profinfer_bench_hit() };
                    }
                    *time.lock().unwrap() += cpu() - start;
                });
            }
        });
        stop.store(true, Ordering::Relaxed);
        drain.join().unwrap();
    });
    drop(link);
    let variables = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss")).expect("variables");
    let lost = get(&variables)[0];
    set(&variables, [0; 3]);
    if lost > 0 {
        println!("        ({lost} of {} records found a full ring)", CALLS * threads);
    }
    *time.lock().unwrap() as f64 / (CALLS * threads) as f64
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Records through ring, consuming thread and trace file for some seconds at each rate.
fn rates(object: &Object, only: Option<u64>, seconds: u64) {
    println!(
        "\n{:>12} {:>12} {:>10} {:>14} {:>14} {:>10} {:>12}",
        "asked /s", "sent /s", "lost", "reader, % cpu", "ns a record", "ring, %", "peak RSS, MB"
    );
    let all = [50_000, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000];
    for rate in only.map_or(all.to_vec(), |rate| vec![rate]) {
        through(object, rate, Duration::from_secs(seconds));
    }
}

fn through(object: &Object, rate: u64, time: Duration) {
    let variables = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss")).expect("variables");
    let ring = object.maps().find(|map| map.name() == "pf_ring").map(|map| MapHandle::try_from(&map).unwrap());
    let produce = object.progs_mut().find(|program| program.name() == "produce").expect("the program");
    set(&variables, [0, 0, rate / 1000]);
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let mut sent = 0;
    let (mut until, mut reader) = (Instant::now(), 0.0);
    let start = Instant::now();
    let file = tempfile::tempfile().unwrap();
    let (events, peak) = consume(&ring.expect("the ring"), file, &schema(), &mut || {
        // A second's worth, a thousandth at a time, as far as the processor gives it.
        let second = Instant::now();
        // What the processor did not give is not made up for: it would come all at once.
        until = until.max(second);
        while second.elapsed() < Duration::from_secs(1) {
            produce.test_run(ProgramInput::default()).unwrap();
            until += Duration::from_millis(1);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
        reader = reader_seconds().unwrap_or(reader);
        sent = get(&variables)[1];
        start.elapsed() >= time
    })
    .unwrap();
    let lost = get(&variables)[0];
    assert_eq!(events + lost, sent, "what is sent is written or counted as lost");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{rate:>12} {:>12.0} {lost:>10} {:>14.1} {:>14.0} {:>10.1} {:>12.1}",
        sent as f64 / seconds,
        reader / seconds * 100.0,
        reader * 1e9 / events as f64,
        peak as f64 / f64::from(16 << 20) * 100.0,
        peak_rss() as f64 / 1e6
    );
}

/// The variables lost, sent and `produce_count`, in the order of the program's `.bss`.
fn get(variables: &MapImpl<'_>) -> Vec<u64> {
    let bytes = variables.lookup(&0_u32.to_ne_bytes(), libbpf_rs::MapFlags::ANY).unwrap().unwrap();
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(*word.first_chunk().unwrap())).collect()
}

fn set(variables: &MapImpl<'_>, values: [u64; 3]) {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    variables.update(&0_u32.to_ne_bytes(), &bytes, libbpf_rs::MapFlags::ANY).unwrap();
}

/// CPU time of the consuming thread so far.
fn reader_seconds() -> Option<f64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let of_ring =
        |path: &std::path::Path| std::fs::read_to_string(path.join("comm")).is_ok_and(|n| n.contains("profinfer-ring"));
    let reader = tasks.map(|task| task.path()).find(|path| of_ring(path))?;
    let text = std::fs::read_to_string(reader.join("schedstat")).ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

fn peak_rss() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// As the program fills it.
fn schema() -> Schema {
    let field = |name: &str, offset, ty| FieldLayout { name: name.into(), offset, ty };
    let fields = vec![field("node", 32, FieldType::Pointer), field("lane", 40, FieldType::Int(4))];
    let kind = RecordKind::Span;
    let operator = RecordType { name: "operator".into(), kind, role: Some(Role::Operator), size: 48, fields };
    Schema { records: vec![operator], ..Schema::default() }
}
