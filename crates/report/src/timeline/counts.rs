//! What lanes counted, as values over time: of nested operators the innermost one's.

use super::sink::{Sample, TrackId};

/// What an operator counted on a lane, and from when to when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) track: TrackId,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) value: u64,
}

/// A value is as high as an operator counted while it lasts. After it comes that of the operator around it, or 0 unless
/// the next one begins there.
pub(super) fn samples(mut counted: Vec<Counted>, samples: &mut Vec<Sample>) {
    counted.sort_by_key(|of| (of.track, of.start, std::cmp::Reverse(of.end)));
    for of_track in counted.chunk_by(|a, b| a.track == b.track) {
        let mut open: Vec<Counted> = Vec::new();
        for of in of_track {
            end_before(of.start, of.end, &mut open, samples);
            samples.push(sample(of, of.start, of.value));
            open.push(*of);
        }
        end_before(u64::MAX, u64::MAX, &mut open, samples);
    }
}

/// Ends those that do not last until `end`. One that is over at `time` has a value after it; another one overlaps the next.
fn end_before(time: u64, end: u64, open: &mut Vec<Counted>, samples: &mut Vec<Sample>) {
    while let Some(last) = open.pop_if(|last| last.end <= time || last.end < end) {
        if last.end <= time {
            samples.push(sample(&last, last.end, open.last().map_or(0, |around| around.value)));
        }
    }
}

#[allow(clippy::cast_precision_loss)]
fn sample(of: &Counted, time: u64, value: u64) -> Sample {
    Sample { track: of.track, time, value: value as f64 }
}
