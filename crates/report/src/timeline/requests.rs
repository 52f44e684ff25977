//! A track for each request: from its arrival to its end, and within that queued, prefill and decode, as the report has
//! them.

use super::sink::{Argument, Batch};
use super::tracks::{Line, Owner};
use super::{TimelineWriter, count, slice};
use crate::model::requests::{RequestRow, rows};
use std::io;
use std::sync::Arc;

/// Tracks of requests; viewers take no more.
const MOST: usize = 1000;

/// How many requests a timeline has tracks of, and how many there are in its steps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestsShown {
    /// With a track.
    pub shown: u64,
    /// All that take part in the steps that are shown.
    pub all: u64,
}

impl TimelineWriter<'_> {
    /// Writes the requests of the engine whose steps are all there; afterwards there are none.
    pub(super) fn write_requests(&mut self) -> io::Result<()> {
        let requests = std::mem::take(&mut self.requests);
        let (from, until) = self.extent_of_engine;
        self.extent_of_engine = (u64::MAX, 0);
        let rows = rows(&requests);
        let within = |row: &&RequestRow| row.start_ns < until && row.end_ns > from;
        let mut batch = Batch::default();
        for (index, row) in rows.iter().filter(within).enumerate() {
            self.shown.all += 1;
            if index < MOST {
                self.shown.shown += 1;
                self.request(row, &mut batch)?;
            }
        }
        self.sink.batch(&batch)
    }

    fn request(&mut self, row: &RequestRow, batch: &mut Batch) -> io::Result<()> {
        let owner = Owner { pid: row.pid, tid: 0, engine: self.engine };
        let line = Line::Request { index: row.number, number: row.request };
        let track = self.tracks.id(owner, line, self.sink.as_mut())?;
        let optional = |name: &'static str, value: Option<u64>| value.map(|value| (Arc::from(name), count(value)));
        let mut arguments: Vec<(Arc<str>, Argument)> = vec![("steps".into(), count(row.steps))];
        arguments.extend(optional("input tokens", row.input_tokens));
        arguments.extend(optional("output tokens", row.output_tokens));
        arguments.extend(u64::try_from(row.sequence).ok().map(|sequence| ("sequence".into(), count(sequence))));
        arguments.extend(optional("cached tokens", row.cached_tokens));
        arguments.extend(optional("time to first token ns", row.time_to_first_token_ns));
        let per_token = row.time_per_output_token_ns.map(|ns| ns.round() as u64);
        arguments.extend(optional("time per output token ns", per_token));
        let shares = row.batch_share.map(|share| (share * 100.0).round() as u64);
        arguments.extend(optional("batch share %", shares));
        let name = match row.request {
            Some(number) => format!("request {number}"),
            None => format!("request #{}", row.number),
        };
        batch.slices.push(slice(track, (row.start_ns, row.end_ns), name, "request", arguments));
        let mut at = row.start_ns;
        let parts = [("queued", row.queued_ns), ("prefill", row.prefill_ns), ("decode", row.decode_ns)];
        for (part, ns) in parts {
            let end = at.saturating_add(ns.unwrap_or(0));
            if end > at {
                batch.slices.push(slice(track, (at, end), part, "request", Vec::new()));
            }
            at = end;
        }
        Ok(())
    }
}
