//! What no tool that stops at the same places can stay under: the traps alone.

use crate::copies::Copy;
use crate::engines::{Build, here, run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A place where profinfer stops the engine.
#[derive(Debug)]
struct Site {
    /// `FILE:OFFSET`.
    place: String,
    /// Its function's return stops, too.
    returns: bool,
    /// What profinfer's own table expects, ns.
    expected_ns: f64,
}

/// One level: how often a token stops, and what that is expected to cost.
#[derive(Debug)]
pub(crate) struct Level {
    /// The condition that measures it.
    pub(crate) name: &'static str,
    pub(crate) hits: f64,
    pub(crate) expected_ns: f64,
}

const LEVELS: &[(&str, &[&str])] =
    &[("graph", &["--level", "graph"]), ("operator", &[]), ("no-barrier", &["--no-probe", "barrier"])];

/// How often a token stops at each level. Nothing where perf cannot count that.
pub(crate) fn levels(copy: &mut Copy, build: &Build) -> Vec<Level> {
    let Some(hits) = hits(&sites(&[], copy), copy, build) else { return Vec::new() };
    let level = |&(name, options): &(&'static str, &[&str])| {
        let mut level = Level { name, hits: 0.0, expected_ns: 0.0 };
        for site in sites(options, copy) {
            let entries = hits.get(&site.place).copied().unwrap_or(0.0);
            let stops = if site.returns { 2.0 * entries } else { entries };
            level.hits += stops;
            level.expected_ns += stops * site.expected_ns;
        }
        level
    };
    LEVELS.iter().map(level).collect()
}

/// Where `profinfer check` says that it would stop.
fn sites(options: &[&str], copy: &Copy) -> Vec<Site> {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["check", "llama", "--json", "-p", &copy.pid().to_string()])
        .args(options)
        .output()
        .expect("profinfer runs");
    let reported: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let site = |site: &serde_json::Value| {
        // A tracepoint is no place in a file.
        let file = std::fs::canonicalize(site["file"].as_str()?).expect("the file is there");
        Some(Site {
            place: format!("{}:{:#x}", file.display(), site["file_offset"].as_u64()?),
            returns: site["return"].as_bool().unwrap_or(false),
            expected_ns: site["expected_ns"].as_f64().unwrap_or(0.0),
        })
    };
    reported["sites"].as_array().expect("a list of sites").iter().filter_map(site).collect()
}

/// Entries a token, by site, as perf counts them.
fn hits(sites: &[Site], copy: &mut Copy, build: &Build) -> Option<HashMap<String, f64>> {
    const TOKENS: u64 = 20;
    let (list, output) = (build.scratch().join("sites"), build.scratch().join("hits"));
    let places: String = sites.iter().map(|site| format!("{}\n", site.place)).collect();
    std::fs::write(&list, places).expect("a list of sites");
    let mut counting = Command::new("sh")
        .arg(here().join("perf_stat.sh"))
        .arg(&list)
        .arg(copy.pid().to_string())
        .arg(&output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .ok()?;
    let started = Instant::now();
    while copy.probes() < sites.len() && started.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(50));
    }
    copy.turn(TOKENS);
    kill(Pid::from_raw(i32::try_from(counting.id()).ok()?), Signal::SIGINT).ok()?;
    counting.wait().ok()?;
    run(Command::new("sh").arg(here().join("perf_probe.sh")));
    let text = std::fs::read_to_string(&output).ok()?;
    let counted = text.lines().filter_map(|line| {
        let mut words = line.split(',');
        let count: f64 = words.next()?.parse().ok()?;
        let number: usize = words.nth(1)?.strip_prefix("profinfer_overhead:site")?.parse().ok()?;
        Some((sites.get(number)?.place.clone(), count / TOKENS as f64))
    });
    Some(counted.collect()).filter(|hits: &HashMap<_, _>| !hits.is_empty())
}
