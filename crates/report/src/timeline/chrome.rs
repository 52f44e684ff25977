//! The JSON that Chrome's and other viewers read: a list of events. It works on tracks, not operators.

use super::sink::{Argument, Batch, Sink, Slice, Track, TrackId};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes a list of events, one a line. Times are µs from the recording's start.
#[derive(Debug)]
pub(super) struct Chrome<W> {
    out: W,
    /// ns, CLOCK_MONOTONIC.
    origin: u64,
    tracks: HashMap<TrackId, Track>,
    started: bool,
}

impl<W: Write> Chrome<W> {
    pub(super) fn new(out: W, origin: u64) -> Self {
        Self { out, origin, tracks: HashMap::new(), started: false }
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        self.out.write_all(if self.started { b",\n" } else { b"[\n" })?;
        self.started = true;
        serde_json::to_writer(&mut self.out, event)?;
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "a time since the start, to the ns for months")]
    fn micros(&self, time: u64) -> f64 {
        time.saturating_sub(self.origin) as f64 / 1e3
    }

    /// A track's name: these viewers know of no groups in a process.
    fn name(track: &Track) -> String {
        track.engine.as_ref().map_or_else(|| track.name.clone(), |engine| format!("{engine}: {}", track.name))
    }

    /// A track's process and its number as a thread.
    fn place(&self, track: TrackId) -> (u32, TrackId) {
        (self.tracks.get(&track).map_or(0, |track| track.pid), track)
    }

    fn slice(&mut self, slice: &Slice) -> io::Result<()> {
        let (pid, tid) = self.place(slice.track);
        let arguments: serde_json::Map<String, Value> =
            slice.arguments.iter().map(|(name, value)| (name.to_string(), argument(value))).collect();
        let start = self.micros(slice.start);
        let mut event = json!({ "name": &*slice.name, "cat": slice.category, "pid": pid, "tid": tid, "ts": start });
        if slice.end > slice.start {
            event["ph"] = "X".into();
            event["dur"] = (self.micros(slice.end) - start).into();
        } else {
            event["ph"] = "i".into();
            event["s"] = "t".into();
        }
        if !arguments.is_empty() {
            event["args"] = arguments.into();
        }
        self.event(&event)?;
        let arrow = |id: &u64, phase: &str| json!({ "name": "uses", "cat": "flow", "ph": phase, "id": id, "pid": pid, "tid": tid, "ts": start, "bp": "e" });
        for id in &slice.flows_out {
            self.event(&arrow(id, "s"))?;
        }
        for id in &slice.flows_in {
            self.event(&arrow(id, "f"))?;
        }
        Ok(())
    }
}

fn argument(value: &Argument) -> Value {
    match value {
        Argument::Text(text) => (&**text).into(),
        Argument::Int(n) => (*n).into(),
    }
}

impl<W: Write> Sink for Chrome<W> {
    fn track(&mut self, track: &Track) -> io::Result<()> {
        self.tracks.insert(track.id, track.clone());
        let (pid, tid) = self.place(track.id);
        let named = |what: &str| json!({ "name": what, "ph": "M", "pid": pid, "tid": tid, "args": { "name": Self::name(track) } });
        match track.parent {
            None => self.event(&named("process_name")),
            Some(_) if track.counter.is_some() => Ok(()),
            Some(_) => {
                self.event(&named("thread_name"))?;
                let order = json!({ "sort_index": track.id });
                self.event(&json!({ "name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": order }))
            }
        }
    }

    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        let mut order: Vec<&Slice> = batch.slices.iter().collect();
        order.sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
        for slice in order {
            self.slice(slice)?;
        }
        for sample in &batch.samples {
            let Some(track) = self.tracks.get(&sample.track) else { continue };
            let (name, unit) = (Self::name(track), track.counter.unwrap_or_default());
            let event = json!({
                "name": name, "ph": "C", "pid": track.pid, "ts": self.micros(sample.time), "args": { unit: sample.value }
            });
            self.event(&event)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.write_all(if self.started { b"\n]\n" } else { b"[]\n" })?;
        self.out.flush()
    }
}
