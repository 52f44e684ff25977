//! The flight recorder of `serve`: the last minutes of a recording are on disk, and are kept as a trace when a
//! condition held. What fails here is told and counted, and ends nothing.

mod keeper;
mod ring;

pub(crate) use keeper::Keeper;

use super::live::thread;
use super::terminal::status;
use super::values;
use keeper::Job;
use profinfer_diagnostics::{Diagnostics, printable};
use profinfer_live::{Condition, FlightFigures, Model};
use profinfer_trace::{Item, Meta};
use ring::Ring;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What is kept, and when.
#[derive(Debug, clap::Args)]
pub(crate) struct FlightArguments {
    /// Save what happened as a trace when this was true: `time_per_output_token > 100ms for 5s`. Figures:
    /// time_to_first_token, time_per_output_token, request_duration, tokens_per_second, running_requests,
    /// queued_requests, and a verdict's parts, such as `starved > 20%`; with `&&`, `||` and parentheses
    #[arg(long, value_name = "CONDITION")]
    when: Option<String>,
    /// How much of the past is on disk: with what happened, a trace of the time before it is saved
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "5m", requires = "when")]
    keep: Duration,
    /// The condition does not count for so long after it was true
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "10m", requires = "when")]
    cool_down: Duration,
    /// Saved traces, and their bytes together; the oldest ones are removed
    #[arg(long, value_name = "FILES,BYTES", value_parser = at_most, default_value = "20,1G", requires = "when")]
    at_most: AtMost,
    /// The folder of saved traces; it is made if it is not there
    #[arg(long, value_name = "FOLDER", default_value = "profinfer-traces", requires = "when")]
    into: PathBuf,
}

/// Bounds of a folder of kept traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AtMost {
    files: usize,
    bytes: u64,
}

/// `20,1G`.
fn at_most(text: &str) -> Result<AtMost, String> {
    let wrong = || format!("`{text}` is not a number of files and their bytes, for example 20,1G");
    let (files, bytes) = text.split_once(',').ok_or_else(wrong)?;
    let files = files.trim().parse().map_err(|_| wrong())?;
    if !(2..=100_000).contains(&files) {
        return Err("the range is 2 to 100000 files: what happened, and the time before it".into());
    }
    Ok(AtMost { files, bytes: values::disk_size(bytes.trim())? })
}

impl FlightArguments {
    /// Whoever keeps traces; `None` where none are wanted.
    pub(crate) fn keeper(&self) -> Result<Option<Arc<Keeper>>, Diagnostics> {
        let Some(when) = &self.when else { return Ok(None) };
        let condition = Condition::parse("--when", when)?;
        let keeper = Keeper::open(&self.into, self.at_most, condition, (self.keep, self.cool_down))?;
        Ok(Some(Arc::new(keeper)))
    }
}

/// The flight recorder of one recording.
pub(crate) struct Flight {
    keeper: Arc<Keeper>,
    ring: Ring,
    account: Arc<Mutex<FlightFigures>>,
    /// Traces that are being written.
    writing: Vec<JoinHandle<()>>,
}

/// What the ring reports of a failure, once until it works again.
fn tell_failure(error: &std::io::Error) {
    let error = printable(&error.to_string());
    status(&format!("the flight recorder cannot write the last minutes: {error}; it begins anew"));
}

impl Flight {
    /// Of a recording whose header was read, and of which the model is told what to watch for.
    pub(crate) fn start(
        keeper: &Arc<Keeper>,
        meta: &Meta,
        model: &mut Model,
        account: &Arc<Mutex<FlightFigures>>,
    ) -> Self {
        model.watch(keeper.condition().clone(), keeper.cool_down().as_secs().max(1));
        let ring = Ring::new(keeper.folder(), keeper.keep(), meta);
        Self { keeper: Arc::clone(keeper), ring, account: Arc::clone(account), writing: Vec::new() }
    }

    /// Takes an item of the recording.
    pub(crate) fn take(&mut self, item: &Item<'_>) {
        self.ring.take(item);
    }

    /// After an item that brought sites.
    pub(crate) fn refer(&mut self, meta: &Meta) {
        self.ring.refer(meta);
    }

    /// After all that the recorder had gathered was read, at this time (ns of CLOCK_MONOTONIC).
    pub(crate) fn flush(&mut self, meta: &Meta, now: u64) {
        self.ring.flush(meta, now);
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.failed += std::mem::take(&mut self.ring.failures);
        (account.ring_bytes, account.ring_ns) = (self.ring.bytes(), now.saturating_sub(self.ring.from()));
    }

    /// Keeps what happened, on a thread of its own: the recording must be read meanwhile.
    pub(crate) fn happened(&mut self, meta: &Meta, from: u64, to: u64) {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).happened += 1;
        let job = Job {
            segments: self.ring.segments(),
            ring_from: self.ring.from(),
            window: (from, to),
            engine: meta.origin.engine.clone(),
            pid: meta.origin.pid,
        };
        let (keeper, account) = (Arc::clone(&self.keeper), Arc::clone(&self.account));
        self.writing.retain(|thread| !thread.is_finished());
        let work = move || {
            let is_kept = keeper.write(&job);
            let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
            account.kept += u64::from(is_kept);
            account.failed += u64::from(!is_kept);
        };
        match thread("kept trace", work) {
            Ok(thread) => self.writing.push(thread),
            Err(problems) => {
                self.account.lock().unwrap_or_else(PoisonError::into_inner).failed += 1;
                problems.0.iter().for_each(|problem| status(&format!("no trace is kept: {}", problem.message)));
            }
        }
    }

    /// Waits for what is being written.
    pub(crate) fn finish(self) {
        self.writing.into_iter().for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_may_have_more_than_a_ring() {
        assert_eq!(at_most("20,50G"), Ok(AtMost { files: 20, bytes: 50 << 30 }));
        assert!(at_most("1,1G").is_err() && at_most("20,1").is_err() && at_most("20").is_err());
    }

    #[test]
    fn bounds_are_files_and_bytes() {
        assert_eq!(at_most("20,1G"), Ok(AtMost { files: 20, bytes: 1 << 30 }));
        assert_eq!(at_most("2, 64K"), Ok(AtMost { files: 2, bytes: 64 << 10 }));
        for wrong in ["", "20", "1,1G", "20,", "20,1", ",1G", "x,1G", "20,1G,3"] {
            assert!(at_most(wrong).is_err(), "{wrong}");
        }
    }
}
