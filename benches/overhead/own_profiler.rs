//! An engine with a profiler of its own, ONNX Runtime: the same pairs of turns, one copy with that profiler on.

use crate::arguments::Arguments;
use crate::copies::Copy;
use crate::engines::{cache, here, run};
use crate::statistics::{Estimate, Random, median};
use crate::turns::{Clocks, Pair, ratios, take_turns, tokens_a_turn};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Profiled sessions; each is short enough that its events stay under the million after which the profiler is silent.
const SESSIONS: usize = 8;
/// The most events a session may make.
const EVENTS: u64 = 800_000;
/// What the profiler writes of a run besides its operators, at most.
const EVENTS_BESIDES: f64 = 10.0;
const PACKAGES: [&str; 3] = ["onnxruntime==1.31.1", "onnx", "numpy"];
/// Rows and width of the matrices: an operator is a microsecond's work, or a millisecond's.
const SIZES: [(&str, &str); 2] = [("1", "128"), ("16", "1024")];

/// What one model gave.
#[derive(Debug)]
pub(crate) struct OwnProfiler {
    pub(crate) version: String,
    pub(crate) run_ns: Clocks<f64>,
    pub(crate) operators: f64,
    pub(crate) ratio: Clocks<Estimate>,
    pub(crate) seen: f64,
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
    eprintln!("overhead: ONNX Runtime, matrices of {rows} by {width}");
    let start = |profile: &[&str]| {
        let mut command = Command::new(python);
        command.arg(here().join("ort_turns.py")).args([rows, width]).args(profile).current_dir(folder);
        Copy::start(&mut command, folder, arguments.cpu)
    };
    let (mut pairs, mut seen, mut said) = ([Vec::new(), Vec::new()], Vec::new(), None);
    let mut runs = 1;
    for session in 0..SESSIONS {
        // Which of the two is started first alternates, as the copies do elsewhere.
        let (mut on, mut off) = if session % 2 == 0 {
            let on = start(&["profile"]);
            (on, start(&[]))
        } else {
            let off = start(&[]);
            (start(&["profile"]), off)
        };
        runs = tokens_a_turn(&mut off, arguments.turn_ms);
        let pairs_here = arguments.pairs.div_ceil(SESSIONS);
        if let Some((_, operators)) = &said {
            // Fewer runs a turn, rather than events that are dropped in silence.
            let most = EVENTS as f64 / (operators + EVENTS_BESIDES) / (pairs_here + 2) as f64;
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
            let most = most as u64;
            runs = runs.min(most);
        } else {
            runs = runs.min(200);
        }
        pairs[session % 2].extend(per_run(take_turns(&mut on, &mut off, (runs, pairs_here), random), runs));
        let told = on.tokens as f64;
        let answer: serde_json::Value = serde_json::from_str(&on.end()).expect("it says what it profiled, as JSON");
        let operators = answer["operators_a_run"].as_f64().expect("a number");
        seen.push(answer["events"].as_f64().expect("a number") / (told * operators));
        said = Some((answer["version"].as_str().unwrap_or("").to_owned(), operators));
        drop(off);
    }
    let bare = pairs.iter().flatten().map(|pair| pair.bare);
    let run_ns = Clocks {
        wall: median(bare.clone().map(|turn| turn.wall_ns).collect()),
        cpu: median(bare.map(|turn| turn.cpu_ns).collect()),
    };
    assert!(runs > 0, "turns of some work");
    let (version, operators) = said.expect("there was a session");
    OwnProfiler { version, run_ns, operators, ratio: ratios(&pairs, random), seen: median(seen) }
}

/// Sessions differ in their runs a turn.
fn per_run(mut pairs: Vec<Pair>, runs: u64) -> Vec<Pair> {
    for turn in pairs.iter_mut().flat_map(|pair| [&mut pair.traced, &mut pair.bare]) {
        turn.wall_ns /= runs as f64;
        turn.cpu_ns /= runs as f64;
    }
    pairs
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
