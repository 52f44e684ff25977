//! The payload of a samples frame: columns of the samples, then of their frames.
//!
//! ```text
//! varint n, varint f       samples, and frames of all of them
//! n values each            time (8), tid (4), pid (4), cpu (2), flags (1), type of the open span (2; ffff: none),
//!                          time since that span began (8; 0: none), frames (1)
//! f values each            module (2), offset (8)
//! ```

use super::column::{ColumnEncoder, Cursor, Malformed, put_varint};
use profinfer_schema::{CodePlace, NO_SITE, Sample};

/// Samples of one frame.
pub(super) const MAX_SAMPLES: usize = 1 << 16;

const IN_KERNEL: u64 = 1;
const WITHOUT_DETAIL: u64 = 2;

/// Appends samples as a payload.
pub(super) fn encode(samples: &[Sample], columns: &mut ColumnEncoder, out: &mut Vec<u8>) {
    let frames: usize = samples.iter().map(|sample| sample.frames.len()).sum();
    put_varint(out, samples.len() as u64);
    put_varint(out, frames as u64);
    let mut column = |width: usize, value: &dyn Fn(&Sample) -> u64| {
        let values: Vec<u64> = samples.iter().map(value).collect();
        columns.encode(out, &values, width);
    };
    column(8, &|sample| sample.time);
    column(4, &|sample| u64::from(sample.tid));
    column(4, &|sample| u64::from(sample.pid));
    column(2, &|sample| u64::from(sample.cpu));
    column(1, &|sample| u64::from(sample.in_kernel) * IN_KERNEL + u64::from(sample.without_detail) * WITHOUT_DETAIL);
    column(2, &|sample| sample.within.map_or(u64::from(NO_SITE), |(record, _)| u64::from(record)));
    column(8, &|sample| sample.within.map_or(0, |(_, start)| sample.time.wrapping_sub(start)));
    column(1, &|sample| sample.frames.len() as u64);
    let places = || samples.iter().flat_map(|sample| &sample.frames);
    let modules: Vec<u64> = places().map(|place| u64::from(place.module)).collect();
    columns.encode(out, &modules, 2);
    let offsets: Vec<u64> = places().map(|place| place.offset).collect();
    columns.encode(out, &offsets, 8);
}

/// Reads a payload.
pub(super) fn decode(payload: &[u8]) -> Result<Vec<Sample>, Malformed> {
    let mut cursor = Cursor::new(payload);
    let n = cursor.varint(MAX_SAMPLES)?;
    let f = cursor.varint(n * Sample::MOST_FRAMES)?;
    let mut values = Vec::new();
    let mut samples = vec![Sample::default(); n];
    let mut column = |width: usize, set: &dyn Fn(&mut Sample, u64)| {
        cursor.column(&mut values, n, width)?;
        samples.iter_mut().zip(&values).for_each(|(sample, value)| set(sample, *value));
        Ok::<(), Malformed>(())
    };
    // A column's values are below 2^(8 · width).
    column(8, &|sample, value| sample.time = value)?;
    column(4, &|sample, value| sample.tid = value as u32)?;
    column(4, &|sample, value| sample.pid = value as u32)?;
    column(2, &|sample, value| sample.cpu = value as u16)?;
    column(1, &|sample, value| {
        sample.in_kernel = value & IN_KERNEL != 0;
        sample.without_detail = value & WITHOUT_DETAIL != 0;
    })?;
    column(2, &|sample, value| sample.within = (value != u64::from(NO_SITE)).then_some((value as u16, 0)))?;
    column(8, &|sample, value| {
        let start = sample.time.wrapping_sub(value);
        sample.within.iter_mut().for_each(|within| within.1 = start);
    })?;
    let mut counts = Vec::new();
    cursor.column(&mut counts, n, 1)?;
    if counts.iter().sum::<u64>() != f as u64 {
        return Err("the samples' frames do not add up");
    }
    let (mut modules, mut offsets) = (Vec::new(), Vec::new());
    cursor.column(&mut modules, f, 2)?;
    cursor.column(&mut offsets, f, 8)?;
    if !cursor.is_at_end() {
        return Err("it is too long");
    }
    let mut places =
        modules.iter().zip(&offsets).map(|(module, offset)| CodePlace { module: *module as u16, offset: *offset });
    for (sample, count) in samples.iter_mut().zip(&counts) {
        sample.frames.extend(places.by_ref().take(*count as usize));
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> impl Strategy<Value = Sample> {
        let place = (any::<u16>(), any::<u64>()).prop_map(|(module, offset)| CodePlace { module, offset });
        let within = prop::option::of((0_u16..NO_SITE, any::<u64>()));
        let frames = prop::collection::vec(place, 0..Sample::MOST_FRAMES);
        ((any::<u64>(), any::<u32>(), any::<u32>(), any::<u16>()), any::<(bool, bool)>(), within, frames).prop_map(
            |((time, tid, pid, cpu), (in_kernel, without_detail), within, frames)| Sample {
                time,
                tid,
                pid,
                cpu,
                in_kernel,
                without_detail,
                within,
                frames,
            },
        )
    }

    proptest! {
        #[test]
        fn samples_come_back(samples in prop::collection::vec(sample(), 0..30)) {
            let mut payload = Vec::new();
            encode(&samples, &mut ColumnEncoder::new(), &mut payload);
            prop_assert_eq!(decode(&payload).unwrap(), samples);
        }

        #[test]
        fn any_bytes_are_samples_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
