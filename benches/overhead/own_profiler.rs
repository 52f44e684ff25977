//! An engine with a profiler of its own, ONNX Runtime: rounds of turns of four live copies. One has that profiler on, one
//! is recorded, and two are bare: the one that the others are compared with, and one more, which must be like it.

use crate::arguments::Arguments;
use crate::conditions::BESIDE_OWN_PROFILER;
use crate::copies::{Copy, Turn};
use crate::engines::{cache, here, run};
use crate::statistics::{Estimate, Random, median};
use crate::tracer::Tracer;
use crate::turns::{Clocks, PAUSE, Pair, ratios, tokens_a_turn};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Sessions of the four, each of which is the first to start in one; a session is short enough that the profiler's events stay under the million after which it is
/// silent.
const SESSIONS: usize = 4;
/// The most events a session may make.
const EVENTS: u64 = 800_000;
/// What the profiler writes of a run besides its operators, at most.
const EVENTS_BESIDES: f64 = 10.0;
const PACKAGES: [&str; 3] = ["onnxruntime==1.31.1", "onnx", "numpy"];
/// Rows and width of the matrices: an operator is a microsecond's work, or a millisecond's.
const SIZES: [(&str, &str); 2] = [("1", "128"), ("16", "1024")];

/// What becomes of the copies of a session, but the last, which they are compared with.
const COMPARED: [&str; 3] = ["no tool: must be 1", "its own profiler", BESIDE_OWN_PROFILER.title];
/// The copies' places among each other.
const OWN: usize = 1;
const RECORDED: usize = 2;
const BARE: usize = 3;

/// What one model gave.
#[derive(Debug)]
pub(crate) struct OwnProfiler {
    pub(crate) version: String,
    /// Of the copy that they are compared with; median.
    pub(crate) run_ns: Clocks<f64>,
    pub(crate) operators: f64,
    pub(crate) rows: Vec<Row>,
}

/// One of the copies, by the bare one.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) title: &'static str,
    pub(crate) ratio: Clocks<Estimate>,
    /// Of the operators that there were.
    pub(crate) seen: Option<f64>,
}

/// What a session's copies gave account of, by the operators that there were.
#[derive(Debug, Default)]
struct Seen {
    own: Vec<f64>,
    recorded: Vec<f64>,
}

pub(crate) fn measure(arguments: &Arguments, random: &mut Random) -> Vec<OwnProfiler> {
    let python = install();
    let folder = tempfile::tempdir().expect("a temporary folder");
    SIZES.iter().map(|size| one(&python, folder.path(), size, arguments, random)).collect()
}

fn one(
    python: &Path,
    folder: &Path,
    (rows, width): &(&str, &str),
    arguments: &Arguments,
    random: &mut Random,
) -> OwnProfiler {
    // The library is among the environment's files.
    let environment = python.parent().and_then(Path::parent).expect("`bin` is in a folder");
    let start = |profile: bool| {
        let mut command = Command::new(python);
        command.arg(here().join("ort_turns.py")).args([rows, width]).current_dir(folder);
        command.args(profile.then_some("profile"));
        Copy::start(&mut command, environment, &arguments.cpus())
    };
    let (mut rounds, mut seen, mut reported) = ([Vec::new(), Vec::new()], Seen::default(), None);
    for session in 0..SESSIONS {
        eprintln!("overhead: ONNX Runtime, matrices of {rows} by {width}: session {} of {SESSIONS}", session + 1);
        // Which of them is started first changes, as the copies do elsewhere.
        let mut copies: Vec<(usize, Copy)> =
            (0..=BARE).map(|of| (of + session) % (BARE + 1)).map(|of| (of, start(of == OWN))).collect();
        copies.sort_by_key(|(of, _)| *of);
        let mut copies: Vec<Copy> = copies.into_iter().map(|(_, copy)| copy).collect();
        let rounds_here = arguments.pairs.div_ceil(SESSIONS);
        // Fewer runs a turn, rather than events that are dropped in silence.
        let most = reported
            .as_ref()
            .map_or(200.0, |(_, operators)| EVENTS as f64 / (operators + EVENTS_BESIDES) / (rounds_here + 2) as f64);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let runs = tokens_a_turn(&mut copies[BARE], arguments.turn_ms).min(most as u64).max(1);
        let tracer = Tracer::attach(&BESIDE_OWN_PROFILER, &copies[RECORDED], folder).expect("it is a tool");
        let before = copies[RECORDED].tokens;
        rounds[session % 2].extend(take_rounds(&mut copies, (runs, rounds_here), random));
        for bare in [0, OWN, BARE] {
            assert_eq!(copies[bare].probes(), 0, "probes in a copy that must have none");
        }
        // The recorder's last look comes before its end.
        sleep(Duration::from_millis(100));
        let evidence = tracer.detach(folder);
        let recorded = (copies[RECORDED].tokens - before) as f64;
        let own = copies.swap_remove(OWN);
        let told = own.tokens as f64;
        let answer: serde_json::Value = serde_json::from_str(&own.end()).expect("it says what it profiled, as JSON");
        let operators = answer["operators_a_run"].as_f64().expect("a number");
        seen.own.push(answer["events"].as_f64().expect("a number") / (told * operators));
        seen.recorded.push(evidence.operators as f64 / (recorded * operators));
        reported = Some((answer["version"].as_str().unwrap_or("").to_owned(), operators));
    }
    let (version, operators) = reported.expect("there was a session");
    let bare = rounds.iter().flatten().map(|round| round[BARE]);
    let run_ns = Clocks {
        wall: median(bare.clone().map(|turn| turn.wall_ns).collect()),
        cpu: median(bare.map(|turn| turn.cpu_ns).collect()),
    };
    let mut row = |of: usize| {
        let pair = |round: &[Turn; BARE + 1]| Pair { traced: round[of], bare: round[BARE] };
        let pairs: Vec<Vec<Pair>> = rounds.iter().map(|group| group.iter().map(pair).collect()).collect();
        let seen = match of {
            OWN => Some(median(seen.own.clone())),
            RECORDED => Some(median(seen.recorded.clone())),
            _ => None,
        };
        Row { title: COMPARED[of], ratio: ratios(&pairs, random), seen }
    };
    OwnProfiler { version, run_ns, operators, rows: (0..BARE).map(&mut row).collect() }
}

/// Rounds of a turn each, in random order, per run; one more round before them is not counted.
pub(crate) fn take_rounds<const COPIES: usize>(
    copies: &mut [Copy],
    (runs, rounds): (u64, usize),
    random: &mut Random,
) -> Vec<[Turn; COPIES]> {
    let taken = (0..=rounds).map(|_| {
        let mut round = [Turn { wall_ns: 0.0, cpu_ns: 0.0 }; COPIES];
        let mut order: Vec<usize> = (0..copies.len()).collect();
        random.shuffle(&mut order);
        for of in order {
            sleep(PAUSE);
            let turn = copies[of].turn(runs);
            round[of] = Turn { wall_ns: turn.wall_ns / runs as f64, cpu_ns: turn.cpu_ns / runs as f64 };
        }
        round
    });
    taken.skip(1).collect()
}

/// A Python environment with the engine, in the cache.
fn install() -> PathBuf {
    let folder = cache().join("engines").join(PACKAGES[0].replace("==", "-"));
    let python = folder.join("bin/python");
    if !folder.join(".finished").exists() {
        eprintln!("overhead: installing {} into {}", PACKAGES.join(", "), folder.display());
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"])
            .args(PACKAGES));
        std::fs::write(folder.join(".finished"), "").expect("a mark that it is whole");
    }
    python
}
