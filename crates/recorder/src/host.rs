//! The machine that a trace is recorded on.

use profinfer_binary::cpu_list;
use profinfer_schema::Host;
use std::path::Path;

/// Major and minor version of the running kernel; zeroes where it does not tell.
pub fn kernel_version() -> (u32, u32) {
    let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    parse_version(&release.unwrap_or_default())
}

/// Whether this kernel makes a call of a probed nop of five bytes, which writes below the stack pointer. The repaired
/// form takes nops of ten bytes, and reserves space first.
pub fn nop5_writes_stack() -> bool {
    if !cfg!(target_arch = "x86_64") || kernel_version() < (6, 17) {
        return false;
    }
    // The names are there for everybody, if the file is.
    let Ok(symbols) = std::fs::read("/proc/kallsyms") else { return true };
    let has = |name: &[u8]| memchr::memmem::find(&symbols, name).is_some();
    has(b" arch_uprobe_optimize\n") && !has(b" int3_update_optimize\n")
}

fn parse_version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// How a trace describes this machine.
pub fn describe() -> Host {
    let text = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap_or_default();
    let name = nix::sys::utsname::uname().ok();
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    Host {
        name: part(name.as_ref().map(|name| name.nodename())),
        kernel: part(name.as_ref().map(|name| name.release())),
        arch: part(name.as_ref().map(|name| name.machine())),
        cpu_model: cpu_model(&text("/proc/cpuinfo"), &text("/proc/device-tree/model")),
        cpus: u32::try_from(cpu_list(&text("/sys/devices/system/cpu/online")).len()).unwrap_or(u32::MAX),
        memory: total_memory(&text("/proc/meminfo")),
        cpu_types: super::cpus::types(Path::new("/sys")),
    }
}

/// The model's name in `/proc/cpuinfo`; on arm64, which has none there, the board's, or the implementer and part.
fn cpu_model(cpuinfo: &str, board: &str) -> String {
    let value = |key: &str| {
        let found = cpuinfo.lines().find_map(|line| line.split_once(':').filter(|(name, _)| name.trim() == key));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let board = board.trim_end_matches('\0').trim();
    value("model name")
        .or_else(|| (!board.is_empty()).then(|| board.to_owned()))
        .or_else(|| Some(format!("implementer {} part {}", value("CPU implementer")?, value("CPU part")?)))
        .unwrap_or_default()
}

/// Bytes.
fn total_memory(meminfo: &str) -> u64 {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}

/// Bytes of a page of memory.
pub(super) fn page_bytes() -> u64 {
    let asked = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    asked.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_versions_as_distributions_write_them() {
        assert_eq!(parse_version("6.18.44-fc-v657"), (6, 18));
        assert_eq!(parse_version("5.15.0-91-generic"), (5, 15));
        assert_eq!(parse_version("6.8"), (6, 8));
        assert_eq!(parse_version(""), (0, 0));
    }

    #[test]
    fn names_the_processor() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 7R13\n", ""), "AMD EPYC 7R13");
        assert_eq!(cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "Board 5\0"), "Board 5");
        assert_eq!(cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", ""), "implementer 0x41 part 0xd0c");
    }

    #[test]
    fn counts_processors_and_memory() {
        assert_eq!(total_memory("MemTotal:       24000000 kB\nMemFree: 1 kB\n"), 24_576_000_000);
    }
}
