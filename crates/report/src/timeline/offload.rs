//! Work on other processors: what the host encodes, its calls of queues, and a track for each queue with the time in
//! which work was pending.

use super::sink::Batch;
use super::tracks::{Line, Owner};
use super::{TimelineWriter, count, operator_arguments, slice};
use crate::pending::pending;
use profinfer_analysis::{Catalogue, CopyDirection, Decoder, Queued, Step};
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
            let name = Arc::clone(&kind.name);
            batch.slices.push(slice(track, (dispatch.start, dispatch.end), name, "encoding", arguments));
        }
        for event in &step.queue {
            let track = self.tracks.id(owner, Line::Calls(event.tid), self.sink.as_mut())?;
            let name = Arc::clone(decoder.name(event.record_type));
            let (category, bytes) = match event.what {
                Queued::Submit { .. } => ("submit", None),
                Queued::Wait { .. } => ("wait", None),
                Queued::Copy { bytes, direction } => (copy_category(direction), bytes),
                Queued::Timestamps(_) => continue,
            };
            let arguments = bytes.map(|bytes| ("bytes".into(), count(bytes))).into_iter().collect();
            batch.slices.push(slice(track, (event.start, event.end), name, category, arguments));
        }
        self.pending(step, owner, batch)
    }

    /// Submissions that were seen done together are one slice: the device's time is within it.
    fn pending(&mut self, step: &Step, owner: Owner, batch: &mut Batch) -> io::Result<()> {
        for (queue, times) in pending(step) {
            let track = self.tracks.id(owner, Line::Queue(queue), self.sink.as_mut())?;
            for of in times {
                let mut arguments = vec![("submissions".into(), count(of.submissions))];
                arguments.extend(of.measured.map(|ns| ("measured by the device, ns".into(), count(ns))));
                batch.slices.push(slice(track, (of.start, of.end), "work pending", "queue", arguments));
            }
        }
        Ok(())
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
