//! A machine's limits, as stored in a trace's origin: bandwidths and peaks, each measured several times.
//! Nothing here measures.

use serde::{Deserialize, Serialize};

/// The limits of one machine. `docs/roofline.md` describes how each figure is measured.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Roofline {
    /// When it was measured, in seconds since 1970.
    pub measured_at: u64,
    /// In a second or two, where a whole measurement takes some twenty: fewer repetitions.
    pub quick: bool,
    /// Processors that the measuring process might use; fewer than the machine has, where it was bound to some.
    pub cpus: u32,
    /// Kinds of cores; none, where all are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_types: Vec<CoreType>,
    /// The data caches, the smallest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheSize>,
    /// Everything that was measured.
    pub figures: Vec<Figure>,
    /// What a reader has to know of these figures, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Cores of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreType {
    /// The name of their PMU, or their capacity where there is none.
    pub name: String,
    /// Their processors.
    pub cpus: Vec<u32>,
}

/// A level of cache that holds data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSize {
    /// 1 is the one next to the core.
    pub level: u32,
    /// Bytes of one of them, as the first processor has it.
    pub bytes: u64,
    /// How many processors share one.
    pub shared_by: u32,
    /// Bytes in which data stays, as measured, where these are less than half of `bytes`: a virtual machine reports its
    /// host's cache, and may have a part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_bytes: Option<u64>,
}

impl CacheSize {
    /// The bytes in which data stays, as far as is known.
    pub fn usable(&self) -> u64 {
        self.usable_bytes.unwrap_or(self.bytes)
    }
}

/// One limit, measured several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub quantity: Quantity,
    /// Where the data was; `None` for operations, which need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// How many processors, each with one thread.
    pub cpus: u32,
    /// Their kind, where the machine has several and they are of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_type: Option<String>,
    /// The instructions that did it.
    pub instructions: String,
    /// Bytes that all threads together went over; 0 for operations.
    pub working_set: u64,
    /// How many times it was measured.
    pub repetitions: u32,
    /// The highest, in bytes or operations a second: what a limit is. Disturbances only ever lower it.
    pub best: u64,
    /// The middle one.
    pub median: u64,
    /// A quarter of the repetitions came to less than this.
    pub low: u64,
    /// A quarter came to more than this.
    pub high: u64,
    /// Of the threads' time, how much they did not run, in percent: others ran.
    pub off_cpu_percent: u32,
}

impl Figure {
    /// How far the middle half of the repetitions lies apart, as a part of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0 { 0.0 } else { self.high.saturating_sub(self.low) as f64 / self.median as f64 }
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Bytes loaded.
    Read,
    /// Bytes stored. The processor mostly loads what it stores to first, which is not counted.
    Write,
    /// Bytes stored past the caches, where nothing need be loaded first.
    WriteStreaming,
    /// Bytes loaded and bytes stored to another place, both counted.
    Copy,
    /// The same, stored past the caches.
    CopyStreaming,
    /// Multiplications and additions of 64-bit floats.
    Fp64,
    /// Of 32-bit floats.
    Fp32,
    /// Of 16-bit floats.
    Fp16,
    /// Of bfloat16, added up as 32-bit floats.
    Bf16,
    /// Of 8-bit integers, added up as wider ones.
    Int8,
    /// Of 16-bit integers, added up as wider ones: where 8-bit ones cannot be multiplied.
    Int16,
}

impl Quantity {
    /// Bytes, not operations.
    pub fn is_bandwidth(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::WriteStreaming | Self::Copy | Self::CopyStreaming)
    }

    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteStreaming => "write, streaming",
            Self::Copy => "copy",
            Self::CopyStreaming => "copy, streaming",
            Self::Fp64 => "fp64",
            Self::Fp32 => "fp32",
            Self::Fp16 => "fp16",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
        }
    }
}

/// Where data was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// In the first cache.
    L1,
    /// In the second.
    L2,
    /// In the third.
    L3,
    /// In memory: the working set is several times the last cache.
    Memory,
}

impl Level {
    /// As tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Memory => "memory",
        }
    }
}

impl Roofline {
    /// The most that so many processors did of a quantity, whatever their kind, per second: no less than fewer of them did,
    /// which those that share cores, or wait for slower ones, may have. Between two numbers that were measured, on the
    /// line between these; `None` for fewer than were measured.
    pub fn limit(&self, quantity: Quantity, level: Option<Level>, cpus: u32) -> Option<f64> {
        let of = self.figures.iter().filter(|figure| figure.quantity == quantity && figure.level == level);
        let (fewer, more): (Vec<&Figure>, Vec<&Figure>) = of.partition(|figure| figure.cpus <= cpus);
        let measured = fewer.iter().map(|figure| figure.cpus).max()?;
        let best = fewer.iter().map(|figure| figure.best).max()? as f64;
        let next = more.iter().min_by_key(|figure| (figure.cpus, std::cmp::Reverse(figure.best)));
        let Some(next) = next.filter(|next| measured < cpus && next.best as f64 > best) else { return Some(best) };
        let part = f64::from(cpus - measured) / f64::from(next.cpus - measured);
        Some(best + part * (next.best as f64 - best))
    }

    /// The figure of a quantity with as many processors as were measured.
    pub fn of_all_cpus(&self, quantity: Quantity, level: Option<Level>) -> Option<&Figure> {
        let of = self.figures.iter().filter(|figure| figure.quantity == quantity && figure.level == level);
        of.max_by_key(|figure| (figure.cpus, figure.best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn figure(quantity: Quantity, level: Option<Level>, cpus: u32, best: u64) -> Figure {
        Figure {
            quantity,
            level,
            cpus,
            core_type: None,
            instructions: "none".into(),
            working_set: 0,
            repetitions: 4,
            best,
            median: best / 2,
            low: best / 4,
            high: best / 2,
            off_cpu_percent: 0,
        }
    }

    /// Six cores of two threads: eight threads wait for the two cores that four of them share.
    #[test]
    fn more_processors_do_no_less() {
        let figures = [(1, 10), (4, 40), (6, 60), (8, 40), (12, 61)];
        let figures = figures.map(|(cpus, best)| figure(Quantity::Fp32, None, cpus, best)).to_vec();
        let roofline = Roofline { figures, ..Roofline::default() };
        let limit = |cpus| roofline.limit(Quantity::Fp32, None, cpus);
        assert_eq!([5, 6, 8, 10, 12].map(limit), [50.0, 60.0, 60.0, 60.5, 61.0].map(Some));
        assert_eq!(roofline.of_all_cpus(Quantity::Fp32, None).map(|figure| figure.cpus), Some(12));
    }

    #[test]
    fn a_limit_is_that_of_the_processors_at_hand() {
        let memory = Some(Level::Memory);
        let figures = [1, 2, 8].map(|cpus| figure(Quantity::Read, memory, cpus, u64::from(cpus) * 10)).to_vec();
        let roofline = Roofline { figures, ..Roofline::default() };
        let best = |cpus| roofline.limit(Quantity::Read, memory, cpus);
        let expected = [None, Some(10.0), Some(20.0), Some(40.0), Some(80.0), Some(80.0)];
        assert_eq!([best(0), best(1), best(2), best(4), best(8), best(64)], expected);
        assert_eq!(roofline.of_all_cpus(Quantity::Read, memory).map(|figure| figure.cpus), Some(8));
        assert_eq!(roofline.of_all_cpus(Quantity::Copy, memory), None);
    }

    #[test]
    fn the_spread_is_a_part_of_the_median() {
        assert!((figure(Quantity::Fp32, None, 1, 100).spread() - 0.5).abs() < 1e-9);
        assert!(figure(Quantity::Fp32, None, 1, 0).spread().abs() < 1e-9);
    }

    #[test]
    fn what_is_written_down_keeps_its_words() {
        let roofline =
            Roofline { figures: vec![figure(Quantity::WriteStreaming, Some(Level::L3), 2, 8)], ..Roofline::default() };
        let text = serde_json::to_string(&roofline).unwrap();
        let expected = "{\"measured_at\":0,\"quick\":false,\"cpus\":0,\"figures\":[{\"quantity\":\"write_streaming\",\
            \"level\":\"l3\",\"cpus\":2,\"instructions\":\"none\",\"working_set\":0,\"repetitions\":4,\"best\":8,\
            \"median\":4,\"low\":2,\"high\":4,\"off_cpu_percent\":0}]}";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Roofline>(&text).unwrap(), roofline);
    }
}
