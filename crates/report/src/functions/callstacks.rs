//! Samples one by one, with their times, threads and call stacks, as Perfetto has those of perf: `PerfSample` packets. The
//! outermost frames are what a sample is in, as in folded stacks. Field numbers are those of `protos/perfetto/trace/` in
//! the Perfetto project; the tests decode with its own definitions.

use super::frames::{Frame, around, places};
use super::names::{Names, Symbolizer};
use crate::timeline::perfetto::{BLOCK, MONOTONIC, NEEDS_STATE, PACKET, SEQUENCE, STATE_CLEARED, compressed, packet};
use crate::timeline::protobuf::Message;
use indexmap::IndexSet;
use profinfer_analysis::{Assigned, Catalogue, Phase, Profile, StackId, Within};
use profinfer_schema::{CodePlace, Sampling};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

/// Fields of `InternedData`.
mod interned {
    pub(super) const FUNCTION_NAMES: u64 = 5;
    pub(super) const FRAMES: u64 = 6;
    pub(super) const CALLSTACKS: u64 = 7;
    pub(super) const BUILD_IDS: u64 = 16;
    pub(super) const MAPPING_PATHS: u64 = 17;
    pub(super) const MAPPINGS: u64 = 19;
}

/// Fields of `PerfSample`.
mod perf_sample {
    pub(super) const CPU: u64 = 1;
    pub(super) const PID: u64 = 2;
    pub(super) const TID: u64 = 3;
    pub(super) const CALLSTACK: u64 = 4;
    pub(super) const CPU_MODE: u64 = 5;
    pub(super) const LOST: u64 = 17;
}

/// `TracePacketDefaults.perf_sample_defaults`.
const SAMPLE_DEFAULTS: u64 = 12;
/// `PerfEvents.Counter`.
const SW_CPU_CLOCK: u64 = 1;
const HW_CPU_CYCLES: u64 = 10;
/// `Profiling.CpuMode`.
const MODE_KERNEL: u64 = 1;
const MODE_USER: u64 = 2;

/// What is numbered as it comes; new entries go out with the next packet.
#[derive(Default)]
struct Tables {
    texts: IndexSet<(u64, String)>,
    mappings: HashMap<(String, String), u64>,
    /// By its file, too: files of one name are several.
    frames: HashMap<(Frame, u64, u64), u64>,
    stacks: HashMap<(Phase, Within, bool, StackId), u64>,
    news: Message,
}

impl Tables {
    /// The number of a text of a kind.
    fn text(&mut self, kind: u64, text: &str) -> u64 {
        let (index, is_new) = self.texts.insert_full((kind, text.to_owned()));
        let id = index as u64 + 1;
        if is_new {
            self.news.message(kind, |entry| {
                entry.uint(1, id).bytes(2, text.as_bytes());
            });
        }
        id
    }

    /// The number of a file, or of what stands for one: each frame has one.
    fn mapping(&mut self, path: &str, build_id: &str) -> u64 {
        let key = (path.to_owned(), build_id.to_owned());
        if let Some(id) = self.mappings.get(&key) {
            return *id;
        }
        let path_id = self.text(interned::MAPPING_PATHS, path);
        let build = (!build_id.is_empty()).then(|| self.text(interned::BUILD_IDS, build_id));
        let id = self.mappings.len() as u64 + 1;
        self.mappings.insert(key, id);
        self.news.message(interned::MAPPINGS, |mapping| {
            mapping.uint(1, id).uint(7, path_id);
            if let Some(build) = build {
                mapping.uint(2, build);
            }
        });
        id
    }

    fn frame(&mut self, frame: Frame, mapping: u64, offset: u64) -> u64 {
        let key = (frame, mapping, offset);
        if let Some(id) = self.frames.get(&key) {
            return *id;
        }
        let name = self.text(interned::FUNCTION_NAMES, &key.0.name);
        let id = self.frames.len() as u64 + 1;
        self.news.message(interned::FRAMES, |entry| {
            entry.uint(1, id).uint(2, name).uint(3, mapping).uint(4, offset);
        });
        self.frames.insert(key, id);
        id
    }

    /// The number of a sample's stack.
    fn stack(
        &mut self,
        sample: &Assigned,
        (profile, catalogue): (&Profile, &Catalogue),
        sampling: &Sampling,
        names: &mut Names<'_>,
    ) -> u64 {
        let key = (sample.phase, sample.within, sample.waiting, sample.stack);
        if let Some(id) = self.stacks.get(&key) {
            return *id;
        }
        let mut frames = Vec::new();
        let of_trace = self.mapping("profinfer", "");
        for frame in around(sample.phase, sample.within, sample.waiting, (profile, catalogue)) {
            frames.push(self.frame(frame, of_trace, 0));
        }
        for place in places(profile, sample.stack) {
            let mapping = match (place.module, sampling.modules.get(usize::from(place.module))) {
                (_, Some(module)) => self.mapping(&module.path, module.build_id.as_deref().unwrap_or_default()),
                (CodePlace::KERNEL, None) => self.mapping("[kernel]", ""),
                (CodePlace::ANONYMOUS, None) => self.mapping("[anonymous]", ""),
                _ => self.mapping("[unknown]", ""),
            };
            frames.push(self.frame(names.of(place).into(), mapping, place.offset));
        }
        let id = self.stacks.len() as u64 + 1;
        self.stacks.insert(key, id);
        self.news.message(interned::CALLSTACKS, |stack| {
            stack.uint(1, id);
            for frame in &frames {
                stack.uint(2, *frame);
            }
        });
        id
    }
}

/// Writes packets in compressed blocks.
struct Blocks<W> {
    out: W,
    block: Message,
}

impl<W: Write> Blocks<W> {
    fn packet(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.block.message(PACKET, |packet| {
            fill(packet);
            packet.uint(packet::SEQUENCE, SEQUENCE);
        });
        if self.block.as_bytes().len() >= BLOCK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.as_bytes().is_empty() {
            return Ok(());
        }
        self.out.write_all(compressed(&self.block)?.as_bytes())?;
        self.block.clear();
        Ok(())
    }
}

/// Writes the samples of a profile that has each of them.
///
/// # Errors
/// The first one that writing met.
pub fn callstacks(
    name: &str,
    sampling: &Sampling,
    (profile, catalogue): (&Profile, &Catalogue),
    symbols: &mut dyn Symbolizer,
    out: impl Write,
) -> io::Result<()> {
    let mut names = Names::new(sampling, symbols);
    let mut samples: Vec<Assigned> = profile.each().0.collect();
    samples.sort_unstable_by_key(|sample| (sample.time, sample.tid));
    let (mut tables, mut blocks) = (Tables::default(), Blocks { out, block: Message::default() });
    let first = samples.first().map_or(0, |sample| sample.time);
    blocks.packet(|packet| {
        packet.uint(packet::SEQUENCE_FLAGS, STATE_CLEARED);
        packet.message(packet::CLOCK_SNAPSHOT, |snapshot| {
            snapshot.message(1, |clock| {
                clock.uint(1, MONOTONIC).uint(2, first);
            });
            snapshot.uint(2, MONOTONIC);
        });
        packet.message(packet::DEFAULTS, |defaults| {
            defaults.uint(packet::TIMESTAMP_CLOCK, MONOTONIC);
            defaults.message(SAMPLE_DEFAULTS, |defaults| {
                defaults.message(1, |timebase| {
                    let counter = if sampling.event == "cycles" { HW_CPU_CYCLES } else { SW_CPU_CLOCK };
                    timebase.uint(2, u64::from(sampling.hz)).uint(4, counter).bytes(10, sampling.event.as_bytes());
                });
            });
        });
    })?;
    let threads: BTreeSet<(u32, u32)> = samples.iter().map(|sample| (sample.pid, sample.tid)).collect();
    let processes: BTreeSet<u32> = threads.iter().map(|(pid, _)| *pid).collect();
    blocks.packet(|packet| {
        packet.uint(packet::TIMESTAMP, first);
        packet.message(packet::PROCESS_TREE, |tree| {
            for pid in &processes {
                tree.message(1, |process| {
                    process.uint(1, u64::from(*pid)).bytes(3, name.as_bytes());
                });
            }
            for (pid, tid) in &threads {
                tree.message(2, |thread| {
                    thread.uint(1, u64::from(*tid)).uint(3, u64::from(*pid));
                });
            }
        });
    })?;
    for sample in &samples {
        let stack = tables.stack(sample, (profile, catalogue), sampling, &mut names);
        let news = std::mem::take(&mut tables.news);
        blocks.packet(|packet| {
            packet.uint(packet::TIMESTAMP, sample.time).uint(packet::SEQUENCE_FLAGS, NEEDS_STATE);
            if !news.as_bytes().is_empty() {
                packet.bytes(packet::INTERNED_DATA, news.as_bytes());
            }
            packet.message(packet::PERF_SAMPLE, |of| {
                of.uint(perf_sample::CPU, u64::from(sample.cpu))
                    .uint(perf_sample::PID, u64::from(sample.pid))
                    .uint(perf_sample::TID, u64::from(sample.tid))
                    .uint(perf_sample::CALLSTACK, stack)
                    .uint(perf_sample::CPU_MODE, if sample.in_kernel { MODE_KERNEL } else { MODE_USER });
            });
        })?;
    }
    if sampling.lost > 0 {
        let last = samples.last().map_or(first, |sample| sample.time);
        blocks.packet(|packet| {
            packet.uint(packet::TIMESTAMP, last).message(packet::PERF_SAMPLE, |of| {
                of.uint(perf_sample::LOST, sampling.lost);
            });
        })?;
    }
    blocks.flush()?;
    blocks.out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::names::Function;
    use super::*;

    #[test]
    fn files_of_one_name_have_frames_of_their_own() {
        let unknown = || Frame::from(Function { name: "[lib.so]".into(), module: "lib.so".into(), known: false });
        let mut tables = Tables::default();
        let [one, other] = ["/a/lib.so", "/b/lib.so"].map(|path| {
            let mapping = tables.mapping(path, "");
            tables.frame(unknown(), mapping, 70)
        });
        assert_ne!(one, other);
        let mapping = tables.mapping("/a/lib.so", "");
        assert_eq!(tables.frame(unknown(), mapping, 70), one);
    }
}
