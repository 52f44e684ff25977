//! Emulated machines: which there are, how they are started, and what they reported.

use super::ROOT;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Condvar, Mutex};

/// What a kernel is expected to have: `uprobe.multi`, `uprobe.session`, and programs as for recent kernels.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) series: &'static str,
    pub(crate) multi: bool,
    pub(crate) session: bool,
    pub(crate) recent: bool,
    /// The architecture on which it boots unless all are asked for.
    pub(crate) arch: Arch,
}

pub(crate) static KERNELS: [Kernel; 4] = [
    Kernel { series: "5.10", multi: false, session: false, recent: false, arch: Arch::Arm64 },
    Kernel { series: "6.1", multi: false, session: false, recent: true, arch: Arch::Amd64 },
    Kernel { series: "6.12", multi: true, session: false, recent: true, arch: Arch::Amd64 },
    Kernel { series: "6.18", multi: true, session: true, recent: true, arch: Arch::Arm64 },
];

impl Kernel {
    /// Which of the objects that are made on the host it takes.
    pub(crate) fn objects(&self) -> &'static str {
        if self.recent { "/objects/recent" } else { "/objects/old" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// As Debian calls it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// As `profinfer build` calls it.
    pub(crate) fn profinfer(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }
}

/// What a machine has beyond the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extra {
    None,
    /// Processors that count cycles and instructions.
    Counting,
    /// A GPU of virtio and a kernel with drivers.
    Drivers,
    /// Memory for real engines.
    Memory,
    /// Processors with pointer authentication and guarded branch targets.
    Guards,
}

/// A machine: a kernel, and which of the folder's steps it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) arch: Arch,
    pub(crate) series: &'static str,
    pub(crate) steps: &'static str,
    pub(crate) extra: Extra,
}

/// A step of a machine: a name and a command.
pub(crate) type Step = (String, String);

/// Runs a program to its successful end; gives what it reported.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs one of this folder's scripts.
pub(crate) fn script(name: &str, arguments: &[&str]) -> String {
    run(Command::new(Path::new(ROOT).join("tests/kernels").join(name)).args(arguments).current_dir(ROOT))
}

/// What a machine reported, by the names of its steps.
pub(crate) struct MachineOutput {
    pub(crate) series: &'static str,
    pub(crate) parts: BTreeMap<String, Vec<u8>>,
}

impl MachineOutput {
    fn boot(machine: Machine, root: &Path) -> Self {
        let Machine { arch, series, steps, extra } = machine;
        // The word that `boot.sh` takes last.
        let word = match extra {
            Extra::None => None,
            Extra::Counting => Some("counting"),
            Extra::Drivers => Some("drivers"),
            Extra::Memory => Some("engines"),
            Extra::Guards => Some("guarded"),
        };
        let mut boot = Command::new(Path::new(ROOT).join("tests/kernels/boot.sh"));
        boot.args([arch.debian(), series]).arg(root).arg(steps).args(word);
        let output = boot.stdin(Stdio::null()).output().unwrap();
        let console = String::from_utf8_lossy(&output.stdout).replace('\r', "");
        let problem = String::from_utf8_lossy(&output.stderr);
        let whole = output.status.success() && console.contains("\n@done\n");
        assert!(whole, "the machine with Linux {series} did not run to its end\n{problem}\n{console}");
        Self { series, parts: parts(&console) }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let bytes = self.parts.get(name).unwrap_or_else(|| panic!("Linux {}: no {name}", self.series));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// The trace of a step, whose command must have ended with this status.
    #[track_caller]
    pub(crate) fn trace(&self, step: &str, status: i32) -> &[u8] {
        self.ended(step, status);
        self.parts.get(&format!("{step}.pfi")).unwrap_or_else(|| panic!("Linux {}, {step}: no trace", self.series))
    }

    #[track_caller]
    pub(crate) fn ended(&self, step: &str, status: i32) {
        let reported = self.text(&format!("{step}.stderr"));
        let ended = self.text(&format!("{step}.status"));
        assert_eq!(ended.trim(), status.to_string(), "Linux {}, {step}: {reported}", self.series);
    }
}

/// Machines that may still start: of all tests, as many run at once as this machine has processors for.
static FREE: Mutex<usize> = Mutex::new(2);
static FREED: Condvar = Condvar::new();

/// Boots them, in no order, as soon as there is space.
pub(crate) fn boot_all(machines: &[Machine], root: &Path) -> Vec<MachineOutput> {
    // What is brought once is brought before two ask for it.
    script("get.sh", &["emulator"]);
    let boot = |machine: &Machine| {
        let mut free = FREED.wait_while(FREE.lock().unwrap(), |free| *free == 0).unwrap();
        *free -= 1;
        drop(free);
        let booted = catch_unwind(|| MachineOutput::boot(*machine, root));
        *FREE.lock().unwrap() += 1;
        FREED.notify_one();
        booted.unwrap_or_else(|panicked| resume_unwind(panicked))
    };
    std::thread::scope(|threads| {
        let started: Vec<_> = machines.iter().map(|machine| threads.spawn(|| boot(machine))).collect();
        started.into_iter().map(|booted| booted.join().unwrap_or_else(|panicked| resume_unwind(panicked))).collect()
    })
}

/// The parts that `init` wrote between `@begin NAME` and `@end NAME`.
fn parts(console: &str) -> BTreeMap<String, Vec<u8>> {
    let mut parts = BTreeMap::new();
    for rest in console.split("@begin ").skip(1) {
        let (name, rest) = rest.split_once('\n').unwrap();
        let body = rest.split_once("@end ").unwrap_or_else(|| panic!("{name} has no end")).0;
        parts.insert(name.to_owned(), decode(body));
    }
    parts
}

/// Base64 with newlines.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u32> = text.bytes().filter_map(digit).collect();
    let group = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
