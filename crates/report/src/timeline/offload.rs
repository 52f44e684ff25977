//! Work on other processors: what the host encodes, its calls of queues, and a track for each queue with the time in
//! which work was pending. Arrows lead from what the host does to the time in which the device may do it.

use super::flows::Flows;
use super::sink::{Batch, Slice, TrackId};
use super::tracks::{Line, Owner};
use super::{TimelineWriter, count, operator_arguments, slice};
use crate::pending::{Pending, pending};
use profinfer_analysis::{Catalogue, CopyDirection, Decoder, Dispatch, QueueEvent, Queued, Step};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

impl TimelineWriter<'_> {
    pub(super) fn offload(
        &mut self,
        step: &Step,
        owner: Owner,
        (catalogue, decoder): (&Catalogue, &Decoder),
        batch: &mut Batch,
    ) -> io::Result<()> {
        let queues = pending(step);
        let mut arrivals = Arrivals::new(step, &queues);
        for dispatch in &step.dispatches {
            let track = self.tracks.id(owner, Line::Encoding(dispatch.tid), self.sink.as_mut())?;
            let kind = catalogue.kind(dispatch.kind);
            let mut arguments = operator_arguments(kind);
            if dispatch.operators > 1 {
                arguments.push(("operators".into(), count(dispatch.operators.into())));
            }
            if dispatch.is_empty {
                arguments.push(("empty".into(), "nothing given to the device".into()));
            }
            if let Some(device) = dispatch.device_ns {
                arguments.push(("device ns".into(), count(device)));
            }
            if let Some(part) = dispatch.device_estimate_ns {
                arguments.push(("estimated device ns".into(), count(part)));
            }
            if !dispatch.launches.is_empty() {
                let names: Vec<&str> = dispatch.launches.iter().map(|kind| &*catalogue.kind(*kind).name).collect();
                arguments.push(("launches".into(), names.join(" + ").as_str().into()));
            }
            let name = Arc::clone(&kind.name);
            let mut shown = slice(track, (dispatch.start, dispatch.end), name, "encoding", arguments);
            shown.flows_out.extend(arrivals.of_dispatch(dispatch, &mut self.flows));
            batch.slices.push(shown);
        }
        let mut jobs = Vec::new();
        for event in &step.queue {
            if let Some((job, end)) = event.job() {
                let line = Line::Ring(job.driver.clone(), job.ring.clone());
                let track = self.tracks.id(owner, line, self.sink.as_mut())?;
                let arguments = vec![("queued ns".into(), count(job.start.saturating_sub(job.queued)))];
                jobs.push(slice(track, (job.start, end), "job", "job", arguments));
                continue;
            }
            let track = self.tracks.id(owner, Line::Calls(event.tid), self.sink.as_mut())?;
            let name = Arc::clone(decoder.name(event.record_type));
            let (category, bytes) = match event.what {
                Queued::Submit { .. } => ("submit", None),
                Queued::Wait { .. } => ("wait", None),
                Queued::Copy { bytes, direction, .. } => (copy_category(direction), bytes),
                Queued::Captured => ("captured", None),
                Queued::Destroyed { .. } => ("destroyed", None),
                Queued::Timestamps(_) | Queued::Job(_) => continue,
            };
            let arguments = bytes.map(|bytes| ("bytes".into(), count(bytes))).into_iter().collect();
            let mut shown = slice(track, (event.start, event.end), name, category, arguments);
            shown.flows_out.extend(arrivals.of_call(event, &mut self.flows));
            batch.slices.push(shown);
        }
        jobs.sort_by_key(|job| (job.start, std::cmp::Reverse(job.end)));
        jobs.iter_mut().for_each(|job| self.device_times.shorten(job));
        batch.slices.append(&mut jobs);
        self.pending(step, (&queues, &arrivals), owner, batch)
    }

    /// Submissions that were seen done together are one slice: the device's time is within it.
    fn pending(
        &mut self,
        step: &Step,
        (queues, arrivals): (&BTreeMap<u64, Vec<Pending>>, &Arrivals),
        owner: Owner,
        batch: &mut Batch,
    ) -> io::Result<()> {
        for (queue, times) in queues {
            let track = self.tracks.id(owner, Line::Queue(*queue), self.sink.as_mut())?;
            for of in times {
                let mut arguments = vec![("submissions".into(), count(of.submissions.len() as u64))];
                arguments.extend(of.measured.map(|ns| ("measured by the device, ns".into(), count(ns))));
                let mut shown = slice(track, (of.start, of.end), "work pending", "queue", arguments);
                self.device_times.shorten(&mut shown);
                let (start, end) = (shown.start, shown.end);
                let mut submissions = of.submissions.iter();
                shown.flows_in.extend(submissions.by_ref().take(1).flat_map(|index| &arrivals.ins[*index]));
                batch.slices.push(shown);
                // An arrow cannot end before it begins: later submissions are instants within this time.
                for index in submissions {
                    let at = step.submissions[*index].start.clamp(start, end);
                    let mut shown = slice(track, (at, at), "submission", "queue", Vec::new());
                    shown.flows_in.clone_from(&arrivals.ins[*index]);
                    batch.slices.push(shown);
                }
            }
        }
        Ok(())
    }
}

/// Of each track of a device the last slice with its length, and before it those that it is within. A device is given work
/// while it has other work, and a step's may be pending when the next one submits; viewers show no slices that overlap.
#[derive(Debug, Default)]
pub(super) struct DeviceTimes(FxHashMap<TrackId, Vec<(u64, u64)>>);

impl DeviceTimes {
    /// Of a slice that overlaps those before it, the part after them is shown.
    fn shorten(&mut self, slice: &mut Slice) {
        let open = self.0.entry(slice.track).or_default();
        let (began, mut around) = (slice.start, open.len());
        while let Some((start, end)) = around.checked_sub(1).and_then(|last| open.get(last)) {
            if *start < slice.end && slice.end <= *end {
                slice.start = slice.start.max(*start);
                break;
            }
            slice.start = slice.start.max(*end).min(slice.end);
            around -= 1;
        }
        if slice.end > slice.start {
            open.truncate(around);
            open.push((slice.start, slice.end));
        }
        if slice.start > began {
            slice.arguments.push(("overlaps the one before, ns".into(), count(slice.start - began)));
        }
    }
}

/// Arrows that end in the times in which work was pending, by submission.
struct Arrivals {
    /// Submissions that are in such a time, by graph and start.
    by_graph: BTreeMap<(Option<u32>, u64), usize>,
    /// The same by queue, start and end of the call.
    by_call: FxHashMap<(u64, u64, u64), usize>,
    ins: Vec<Vec<u64>>,
}

impl Arrivals {
    fn new(step: &Step, queues: &BTreeMap<u64, Vec<Pending>>) -> Self {
        let mut found = Self {
            by_graph: BTreeMap::new(),
            by_call: FxHashMap::default(),
            ins: vec![Vec::new(); step.submissions.len()],
        };
        for index in queues.values().flatten().flat_map(|of| of.submissions.iter().copied()) {
            let of = &step.submissions[index];
            found.by_graph.insert((of.graph, of.start), index);
            found.by_call.insert((of.queue, of.start, of.end), index);
        }
        found
    }

    /// From what is encoded: it is in the graph's first submission since then.
    fn of_dispatch(&mut self, dispatch: &Dispatch, flows: &mut Flows) -> Option<u64> {
        let mut later = self.by_graph.range((dispatch.graph, dispatch.start)..);
        let (_, index) = later.next().filter(|((graph, _), _)| *graph == dispatch.graph && !dispatch.is_empty)?;
        let index = *index;
        Some(self.arrow(index, flows))
    }

    /// From the call that submits.
    fn of_call(&mut self, event: &QueueEvent, flows: &mut Flows) -> Option<u64> {
        let Queued::Submit { queue, .. } = event.what else { return None };
        let index = *self.by_call.get(&(queue, event.start, event.end))?;
        Some(self.arrow(index, flows))
    }

    fn arrow(&mut self, submission: usize, flows: &mut Flows) -> u64 {
        let number = flows.another();
        self.ins[submission].push(number);
        number
    }
}

fn copy_category(direction: Option<CopyDirection>) -> &'static str {
    match direction {
        Some(CopyDirection::ToDevice) => "copy to device",
        Some(CopyDirection::FromDevice) => "copy from device",
        Some(CopyDirection::OnDevice) => "copy on device",
        None => "copy",
    }
}
