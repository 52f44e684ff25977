//! Where figures come from: the machine and the versions of what took part.

use std::process::Command;

/// Processes that wanted to run, over the last minute.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// The machine in a line.
pub(crate) fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpus = info.lines().filter(|line| line.starts_with("processor")).count();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |(_, m)| m);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gigabytes = kilobytes.unwrap_or(0.0) / f64::from(1 << 20);
    let virtual_one = if info.contains(" hypervisor") { ", virtual" } else { "" };
    format!("{cpus} processors ({model}{virtual_one}), {gigabytes:.0} GiB of memory")
}

/// The versions of all that takes part.
pub(crate) fn versions(engine: &str) -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("").trim_matches('"');
    let mut parts = vec![
        first_line_of("uname", &["-sr"]).unwrap_or_default(),
        system.to_owned(),
        format!("profinfer {}", env!("CARGO_PKG_VERSION")),
        engine.to_owned(),
    ];
    parts.extend(["bpftrace", "perf"].iter().filter_map(|tool| first_line_of(tool, &["--version"])));
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

fn first_line_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
}
