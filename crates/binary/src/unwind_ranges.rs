//! Where the functions of a file begin and end by its unwind tables (`.eh_frame`), which stripping leaves. Parts that a
//! compiler splits off (`.cold`) are functions of their own there.

use super::elf::Image;
use gimli::{BaseAddresses, CieOrFde, CommonInformationEntry, EhFrame, LittleEndian, UnwindSection};
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::ops::Range;

/// Entries of a table; the largest real libraries have some hundred thousand.
const MAX_ENTRIES: usize = 1 << 22;

/// The functions' places in the file, by their first bytes; up to the first malformed entry.
pub(crate) fn read(image: &Image) -> Vec<Range<u64>> {
    let Some(headers) = image.headers() else { return Vec::new() };
    let Some(section) = headers.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(bytes) = section.data() else { return Vec::new() };
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let table = EhFrame::new(bytes, LittleEndian);
    let (mut entries, mut common) = (table.entries(&bases), HashMap::<_, CommonInformationEntry<_>>::new());
    let mut ranges = Vec::new();
    for _ in 0..MAX_ENTRIES {
        let Ok(Some(entry)) = entries.next() else { break };
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|table, bases, offset| {
            if let Some(cie) = common.get(&offset) {
                return Ok(Clone::clone(cie));
            }
            let cie = table.cie_from_offset(bases, offset)?;
            common.insert(offset, cie.clone());
            Ok(cie)
        });
        let Ok(entry) = parsed else { break };
        let start = image.code_offset(entry.initial_address());
        ranges.extend(start.and_then(|start| Some(start..start.checked_add(entry.len())?)));
    }
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

/// The range that a place in the file is in.
pub(crate) fn with(ranges: &[Range<u64>], offset: u64) -> Option<&Range<u64>> {
    last_before(ranges, offset).filter(|range| range.contains(&offset))
}

/// The last of ranges in order that begins at a place or before.
pub(crate) fn last_before(ranges: &[Range<u64>], offset: u64) -> Option<&Range<u64>> {
    ranges.partition_point(|range| range.start <= offset).checked_sub(1).and_then(|last| ranges.get(last))
}
