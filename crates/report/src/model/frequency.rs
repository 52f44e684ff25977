//! How fast processors ran, from the notices of a trace.

use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;

/// A processor's frequency over a recording, asked once a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Frequency {
    /// By time.
    pub mean_khz: u32,
    /// The least.
    pub min_khz: u32,
    /// The most.
    pub max_khz: u32,
}

/// Of each processor with a recorded frequency: from when on it ran how fast (kHz), up to the trace's end.
pub(crate) fn changes(meta: &Meta) -> (BTreeMap<u16, Vec<(u64, u32)>>, u64) {
    let last = meta.notices.iter().map(|notice| notice.time).max().unwrap_or(0);
    let end = meta.end.as_ref().map_or(last, |end| end.time.max(last));
    let mut told: BTreeMap<u16, Vec<(u64, u32)>> = BTreeMap::new();
    for notice in &meta.notices {
        for now in notice.frequencies.iter().flatten() {
            told.entry(now.cpu).or_default().push((notice.time, now.khz));
        }
    }
    told.values_mut().for_each(|told| told.sort_by_key(|(time, _)| *time));
    (told, end)
}

/// Of each processor with a recorded frequency, from its first record to the trace's end, by time.
pub(crate) fn frequencies(meta: &Meta) -> BTreeMap<u16, Frequency> {
    let (told, end) = changes(meta);
    told.into_iter().filter_map(|(cpu, told)| Some((cpu, over_time(&told, end)?))).collect()
}

fn over_time(told: &[(u64, u32)], end: u64) -> Option<Frequency> {
    let ends = told.iter().skip(1).map(|(time, _)| *time).chain([end]);
    let (mut time, mut cycles) = (0u128, 0u128);
    for ((start, khz), end) in told.iter().zip(ends) {
        // What was told in the last instant counts for something, too.
        let span = u128::from(end.saturating_sub(*start).max(1));
        time += span;
        cycles += span * u128::from(*khz);
    }
    let khz = || told.iter().map(|(_, khz)| *khz);
    let mean_khz = u32::try_from(cycles.checked_div(time)?).ok()?;
    Some(Frequency { mean_khz, min_khz: khz().min()?, max_khz: khz().max()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_schema::{CpuFrequency, End, Notice};

    #[test]
    fn each_frequency_counts_for_as_long_as_it_lasted() {
        let notice = |time: u64, told: &[(u16, u32)]| Notice {
            time,
            frequencies: Some(told.iter().map(|(cpu, khz)| CpuFrequency { cpu: *cpu, khz: *khz }).collect()),
            ..Notice::default()
        };
        let notices = vec![notice(100, &[(0, 1000), (1, 3000)]), notice(400, &[(0, 2000)])];
        let mut meta = Meta::default();
        (meta.notices, meta.end) = (notices, Some(End { time: 500, ..End::default() }));
        let found = frequencies(&meta);
        assert_eq!(found[&0], Frequency { mean_khz: 1250, min_khz: 1000, max_khz: 2000 });
        assert_eq!(found[&1], Frequency { mean_khz: 3000, min_khz: 3000, max_khz: 3000 });
        assert_eq!(frequencies(&Meta::default()), BTreeMap::new());
    }
}
