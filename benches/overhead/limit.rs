//! What no tool that stops at the same places can stay under: the traps alone.

use crate::copies::Copy;
use crate::engines::Build;
use crate::tracer::run_script;
use object::{Object, ObjectSegment};
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A place where profinfer stops the engine.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) file: String,
    /// As the file's own tables count.
    pub(crate) address: u64,
    /// Its function's return stops, too.
    returns: bool,
    /// What profinfer's own table expects, ns.
    expected_ns: f64,
}

/// One level: how often a token stops, and what that is expected to cost.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) name: &'static str,
    pub(crate) hits: f64,
    pub(crate) expected_ns: f64,
}

/// The levels whose stops are counted, by the condition that measures them.
const LEVELS: &[(&str, &[&str])] =
    &[("graph", &["--level", "graph"]), ("operator", &[]), ("no-barrier", &["--no-probe", "barrier"])];

/// Where `profinfer check` says that it would stop.
pub(crate) fn sites(options: &[&str], copy: &Copy) -> Vec<Site> {
    let output = Command::new(env!("CARGO_BIN_EXE_profinfer"))
        .args(["check", "llama", "--json", "-p", &copy.pid().to_string()])
        .args(options)
        .output()
        .expect("profinfer runs");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let sites = said["sites"].as_array().expect("a list of sites");
    // A tracepoint is no place in a file.
    sites.iter().filter(|site| site["file"].is_string()).map(site).collect()
}

fn site(said: &serde_json::Value) -> Site {
    let link = said["file"].as_str().expect("a path");
    let file = std::fs::canonicalize(link).expect("the file is there").display().to_string();
    let address = address(&file, said["file_offset"].as_u64().expect("an offset"));
    let returns = said["return"].as_bool().unwrap_or(false);
    Site { file, address, returns, expected_ns: said["expected_ns"].as_f64().unwrap_or(0.0) }
}

/// Where the byte at an offset in the file is loaded.
fn address(file: &str, offset: u64) -> u64 {
    let bytes = std::fs::read(file).expect("the file is there");
    let parsed = object::File::parse(bytes.as_slice()).expect("it is a library");
    let at = |segment: object::Segment<'_, '_>| {
        let (start, size) = segment.file_range();
        (start..start + size).contains(&offset).then(|| segment.address() + (offset - start))
    };
    parsed.segments().find_map(at).expect("a loaded byte")
}

/// How often a token stops at each level, as bpftrace counts at the same sites. Nothing where that is not here.
pub(crate) fn levels(copy: &mut Copy, build: &Build) -> Vec<Level> {
    let Some(hits) = hits(&sites(&[], copy), copy, build) else { return Vec::new() };
    let level = |&(name, options): &(&'static str, &[&str])| {
        let mut level = Level { name, hits: 0.0, expected_ns: 0.0 };
        for site in sites(options, copy) {
            let entries = hits.get(&(site.file, site.address)).copied().unwrap_or(0.0);
            let stops = if site.returns { 2.0 * entries } else { entries };
            level.hits += stops;
            level.expected_ns += stops * site.expected_ns;
        }
        level
    };
    LEVELS.iter().map(level).collect()
}

/// Entries a token, by site.
fn hits(sites: &[Site], copy: &mut Copy, build: &Build) -> Option<HashMap<(String, u64), f64>> {
    const TOKENS: u64 = 20;
    let output = build.scratch().join("hits");
    let counter = |(number, site): (usize, &Site)| {
        format!("uprobe:{}:{:#x} {{ @hits[{number}] = count(); }}\n", site.file, site.address)
    };
    let script: String = sites.iter().enumerate().map(counter).collect();
    let mut counting = run_script(&script, copy, build.scratch(), &output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    for _ in 0..200 {
        if copy.probes() >= sites.len() {
            break;
        }
        sleep(Duration::from_millis(50));
    }
    copy.turn(TOKENS);
    let pid = nix::unistd::Pid::from_raw(i32::try_from(counting.id()).ok()?);
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT);
    counting.wait().ok()?;
    let text = std::fs::read_to_string(&output).ok()?;
    let counted = text.lines().filter_map(|line| {
        let (number, count) = line.strip_prefix("@hits[")?.split_once("]: ")?;
        let site = sites.get(number.parse::<usize>().ok()?)?;
        Some(((site.file.clone(), site.address), count.parse::<f64>().ok()? / TOKENS as f64))
    });
    Some(counted.collect()).filter(|hits: &HashMap<_, _>| !hits.is_empty())
}
