//! What the fuzzer does, for 2 s each (`FUZZ_SECONDS` sets another time) in every run of the tests: the seeds, and changes of them that are the same each time,
//! go through the bodies of `fuzz/fuzz_targets`. None may panic or hang.

#[path = "../../fuzz/bodies/elf.rs"]
mod elf;
#[path = "../../fuzz/bodies/lock.rs"]
mod lock;
#[path = "../../fuzz/bodies/probeset.rs"]
mod probeset;
#[path = "../../fuzz/bodies/trace_reader.rs"]
mod trace_reader;

use profinfer_binary::{Files, TargetSymbols, TargetTypes, open_path};
use profinfer_probeset::path::NamePattern;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long one input may take, on a machine that stands still now and then.
const LONGEST: Duration = Duration::from_secs(100);

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of a folder that end so, of at most so many bytes, by name.
fn seeds(folder: &str, ends: &str, most: usize) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(in_repository(folder)).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.to_string_lossy().ends_with(ends)).collect();
    files.sort();
    let read = |path: &PathBuf| (path.display().to_string(), std::fs::read(path).unwrap());
    let seeds: Vec<(String, Vec<u8>)> = files.iter().map(read).filter(|(_, bytes)| bytes.len() <= most).collect();
    assert!(!seeds.is_empty(), "{folder} has seeds");
    seeds
}

/// Numbers that look random and are the same in each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One below a bound; 0 where there is none below it.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A few changes of some bytes, as broken and forged files have them: flipped bits, sizes and offsets that are absurd, parts
/// that are elsewhere, twice or missing.
fn changed(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const WORDS: [u64; 10] = [0, 1, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 40, 1 << 63, u64::MAX];
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(6) {
        let (at, kind) = (numbers.below(bytes.len()), numbers.below(16));
        let length = 1 + numbers.below(64).min(bytes.len().saturating_sub(at + 1));
        match kind {
            0..=4 => bytes[at] ^= 1 << numbers.below(8),
            5..=6 => bytes[at] = numbers.next() as u8,
            7..=11 => {
                let word = match numbers.below(3) {
                    0 => numbers.below(2 * bytes.len()) as u64,
                    _ => WORDS[numbers.below(WORDS.len())],
                };
                let size = [1, 2, 4, 8][numbers.below(4)].min(bytes.len() - at);
                bytes[at..at + size].copy_from_slice(&word.to_le_bytes()[..size]);
            }
            12 => {
                let to = numbers.below(bytes.len() - length + 1);
                bytes.copy_within(at..at + length, to);
            }
            13 => {
                let part = bytes[at..at + length].to_vec();
                bytes.splice(at..at, part);
            }
            14 => drop(bytes.drain(at..at + length)),
            _ => bytes.truncate(bytes.len() - numbers.below(bytes.len() / 2)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Feeds a body with seeds, then with changes of them, each in turn, for so many seconds, or those that `FUZZ_SECONDS` has; says
/// which input it was that it panicked at or hung on.
fn feed(seconds: u64, seeds: Vec<(String, Vec<u8>)>, body: fn(&[u8])) {
    let longer = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let seconds = longer.unwrap_or(seconds);
    let (sender, receiver) = channel();
    let worker = std::thread::spawn(move || {
        let start = Instant::now();
        for round in 0u64.. {
            for (number, (name, bytes)) in seeds.iter().enumerate() {
                if round > 0 && start.elapsed().as_secs() >= seconds {
                    return;
                }
                sender.send(format!("change {round} of {name}")).unwrap();
                match round {
                    0 => body(bytes),
                    _ => body(&changed(bytes, &mut Numbers(round << 16 | number as u64))),
                }
            }
        }
    });
    let (mut last, mut inputs) = (String::new(), 0);
    loop {
        match receiver.recv_timeout(LONGEST) {
            Ok(input) => (last, inputs) = (input, inputs + 1),
            Err(RecvTimeoutError::Timeout) => panic!("{last} takes more than {LONGEST:?}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    assert!(worker.join().is_ok(), "{last}: the message is above");
    println!("{inputs} inputs");
}

#[test]
fn binaries_of_any_bytes_are_answered() {
    feed(2, seeds("fuzz/seeds/elf", ".so", 1 << 16), elf::feed);
}

#[test]
fn traces_of_any_bytes_are_answered() {
    feed(2, seeds("tests/traces/v1", ".pfi", 1 << 17), trace_reader::feed);
}

#[test]
fn probesets_of_any_text_are_answered() {
    feed(2, seeds("tests/targets", ".yaml", 1 << 11), |bytes| probeset::feed(&String::from_utf8_lossy(bytes)));
}

#[test]
fn locks_of_any_bytes_are_answered() {
    feed(2, seeds("fuzz/seeds/lock", ".lock", 1 << 20), lock::feed);
}

#[test]
fn each_binary_has_what_it_is_a_seed_for() {
    let open = |name: &str| open_path(&in_repository("fuzz/seeds/elf").join(name), Files::new(None)).unwrap();
    for name in ["classes.so", "arm64_classes.so"] {
        let target = open(name);
        assert_eq!(target.overrides(0, "Base", 3).functions.len(), 5, "{name}");
        assert_eq!(target.functions(0, &NamePattern("*run*".to_owned())).len(), 0, "{name} has no symbols");
    }
    for name in ["dwarf5.so", "dwarf4_compressed.so", "arm64_dwarf5.so"] {
        let target = open(name);
        assert_eq!(target.layout(0, "tensor").expect(name).members.len(), 6, "{name}");
        assert!(target.enumeration(0, "op").is_some(), "{name}");
        assert!(!target.inlined(0, &NamePattern("run*".to_owned())).is_empty(), "{name}");
    }
    assert_eq!(open("static_probes.so").static_sites(0, "toy", "step").len(), 1);
}
