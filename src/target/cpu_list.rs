//! Lists of processors, as the kernel writes them in `/proc` and `/sys`.

use std::ops::RangeInclusive;

/// The ranges that a list such as `0-3,8` names; what is no number is left out. Their ends may be anything: whoever goes
/// through one bounds it.
pub(crate) fn cpu_ranges(list: &str) -> impl Iterator<Item = RangeInclusive<u32>> {
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.split(',').filter_map(range)
}
