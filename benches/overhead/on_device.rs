//! An engine that gives its operators to a device: rounds of turns of five live copies of llama.cpp on Vulkan. Three are
//! recorded, and two are bare: the one that the others are compared with, and one more, which must be like it.

use crate::arguments::Arguments;
use crate::conditions::ON_DEVICE;
use crate::copies::{Copy, Turn};
use crate::engines::{here, run};
use crate::own_profiler::take_rounds;
use crate::statistics::{Estimate, Random, median};
use crate::tracer::Tracer;
use crate::turns::{Clocks, Pair, ratios, tokens_a_turn};
use std::path::PathBuf;
use std::process::Command;

/// Sessions of the five, each of which is the first to start in one.
const SESSIONS: usize = 4;
const MODEL: &str = "tiny-dense";
/// The copies' places: those of the conditions, and the bare one.
const BARE: usize = ON_DEVICE.len();

/// What it gave.
#[derive(Debug)]
pub(crate) struct OnDevice {
    /// Of the bare copy; median.
    pub(crate) token_ns: Clocks<f64>,
    /// Operators that a token has encoded, those without work included.
    pub(crate) dispatches: f64,
    /// By condition.
    pub(crate) rows: Vec<(&'static str, Clocks<Estimate>)>,
}

pub(crate) fn measure(arguments: &Arguments, random: &mut Random) -> OnDevice {
    let (python, model) = engine();
    let environment = python.parent().and_then(std::path::Path::parent).expect("`bin` is in a folder").to_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folders: Vec<PathBuf> = (0..BARE).map(|of| folder.path().join(of.to_string())).collect();
    folders.iter().for_each(|folder| std::fs::create_dir(folder).expect("a temporary folder"));
    let (mut rounds, mut dispatches) = ([Vec::new(), Vec::new()], Vec::new());
    for session in 0..SESSIONS {
        eprintln!("overhead: llama.cpp on Vulkan: session {} of {SESSIONS}", session + 1);
        let start = |of: usize| {
            let mut command = Command::new(&python);
            command.arg(here().join("vulkan_turns.py")).arg(&model);
            (of, Copy::start(&mut command, &environment, &[0, 1]))
        };
        let mut copies: Vec<(usize, Copy)> = (0..=BARE).map(|of| (of + session) % (BARE + 1)).map(start).collect();
        copies.sort_by_key(|(of, _)| *of);
        let mut copies: Vec<Copy> = copies.into_iter().map(|(_, copy)| copy).collect();
        let tokens = tokens_a_turn(&mut copies[BARE], arguments.turn_ms).max(1);
        let tracers: Vec<Option<Tracer>> =
            (0..BARE).map(|of| Tracer::attach(&ON_DEVICE[of], &copies[of], &folders[of])).collect();
        let before: Vec<u64> = copies.iter().map(|copy| copy.tokens).collect();
        let here = arguments.pairs.div_ceil(SESSIONS);
        rounds[session % 2].extend(take_rounds::<{ BARE + 1 }>(&mut copies, (tokens, here), random));
        for (of, tracer) in tracers.into_iter().enumerate() {
            let Some(tracer) = tracer else {
                assert_eq!(copies[of].probes(), 0, "probes in a copy that must have none");
                continue;
            };
            let seen = tracer.detach(&folders[of]).dispatches;
            dispatches.push(seen as f64 / (copies[of].tokens - before[of]) as f64);
        }
    }
    let bare = rounds.iter().flatten().map(|round: &[Turn; BARE + 1]| round[BARE]);
    let token_ns = Clocks {
        wall: median(bare.clone().map(|turn| turn.wall_ns).collect()),
        cpu: median(bare.map(|turn| turn.cpu_ns).collect()),
    };
    let mut row = |of: usize| {
        let pair = |round: &[Turn; BARE + 1]| Pair { traced: round[of], bare: round[BARE] };
        let pairs: Vec<Vec<Pair>> = rounds.iter().map(|group| group.iter().map(pair).collect()).collect();
        (ON_DEVICE[of].title, ratios(&pairs, random))
    };
    // The first of the recorded copies has one record for each operator; the other has its launches, too.
    let dispatches = dispatches.into_iter().step_by(ON_DEVICE.len() - 1).collect();
    OnDevice { token_ns, dispatches: median(dispatches), rows: (0..BARE).map(&mut row).collect() }
}

/// A Python that has the engine, and a model, by the scripts of the tests.
fn engine() -> (PathBuf, PathBuf) {
    let scripts = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/engines"));
    let installed = Command::new(scripts.join("install_cyllama_vulkan.sh")).output().expect("a script of the tests");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let python = PathBuf::from(String::from_utf8(installed.stdout).expect("a path").trim());
    let models = python.ancestors().nth(3).expect("the cache").join("models");
    run(Command::new(&python).arg(scripts.join("make_models.py")).arg(&models).arg(MODEL));
    (python, models.join(format!("{MODEL}.gguf")))
}
