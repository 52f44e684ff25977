//! The tables of work on other processors.

use super::Cell;
use super::tables::{DISPATCHES, QUEUE};
use crate::export::rows::Exporter;
use crate::model::offload::direction_name;
use profinfer_analysis::{Catalogue, Decoder, Queued, Step};
use std::io;

impl Exporter {
    pub(super) fn offload(
        &mut self,
        step: &Step,
        at: [Cell<'_>; 2],
        catalogue: &Catalogue,
        decoder: &Decoder,
    ) -> io::Result<()> {
        for dispatch in &step.dispatches {
            let kind = catalogue.kind(dispatch.kind);
            let backend = dispatch.graph.and_then(|at| step.graphs.get(at as usize)).map(|graph| graph.backend);
            let extents: Vec<String> = kind.shape.iter().map(i64::to_string).collect();
            let fused: Vec<&str> = dispatch.fused.iter().map(|part| &*catalogue.kind(part.kind).name).collect();
            let launches: Vec<&str> = dispatch.launches.iter().map(|kind| &*catalogue.kind(*kind).name).collect();
            let (extents, fused, launches) = (extents.join("x"), fused.join(" + "), launches.join(" + "));
            self.row(
                DISPATCHES,
                &[
                    at[0],
                    at[1],
                    dispatch.graph.into(),
                    backend.map(|backend| &**catalogue.text(backend)).into(),
                    Cell::Text(&kind.op),
                    Cell::Text(&kind.name),
                    kind.layer.as_deref().into(),
                    kind.dtype.as_deref().into(),
                    Some(extents.as_str()).filter(|text| !text.is_empty()).into(),
                    dispatch.index.into(),
                    dispatch.operators.into(),
                    Some(fused.as_str()).filter(|text| !text.is_empty()).into(),
                    dispatch.is_empty.into(),
                    dispatch.tid.into(),
                    self.since_start(dispatch.start),
                    dispatch.end.saturating_sub(dispatch.start).into(),
                    dispatch.device_ns.into(),
                    dispatch.device_estimate_ns.into(),
                    Some(launches.as_str()).filter(|text| !text.is_empty()).into(),
                ],
            )?;
        }
        self.queue(step, at, decoder)
    }

    fn queue(&mut self, step: &Step, at: [Cell<'_>; 2], decoder: &Decoder) -> io::Result<()> {
        // Submissions that succeeded are in the same order in both lists.
        let mut submissions = step.submissions.iter();
        for event in &step.queue {
            let mut name = None;
            let (mut graph, mut done) = (None, None);
            let (mut size, mut direction, mut failure) = (None, None, false);
            let mut ran: Option<(u64, u64)> = None;
            let what = match &event.what {
                Queued::Submit { queue, failed, .. } => {
                    name = Some(format!("{queue:#x}"));
                    failure = *failed;
                    if let Some(of) = if *failed { None } else { submissions.next() } {
                        (graph, done) = (of.graph, of.done);
                        ran = of.ran.map(|ran| (ran.start, ran.busy));
                    }
                    "submit"
                }
                Queued::Wait { failed, .. } => {
                    failure = *failed;
                    "wait"
                }
                Queued::Copy { bytes, direction: to, .. } => {
                    (size, direction) = (*bytes, to.map(direction_name));
                    "copy"
                }
                Queued::Captured => "captured",
                Queued::Destroyed { queue } => {
                    name = Some(format!("{queue:#x}"));
                    "destroyed"
                }
                Queued::Timestamps(_) => "timestamps",
                Queued::Job(job) => {
                    name = job.ring.as_deref().map(str::to_owned);
                    ran = Some((job.start, event.end.saturating_sub(job.start)));
                    "job"
                }
            };
            self.row(
                QUEUE,
                &[
                    at[0],
                    at[1],
                    Cell::Text(what),
                    Cell::Text(decoder.name(event.record_type)),
                    event.tid.into(),
                    self.since_start(event.start),
                    event.end.saturating_sub(event.start).into(),
                    name.as_deref().into(),
                    graph.into(),
                    done.map_or(Cell::Null, |done| self.since_start(done)),
                    size.into(),
                    direction.into(),
                    failure.into(),
                    ran.map_or(Cell::Null, |(start, _)| self.since_start(start)),
                    ran.map(|(_, ns)| ns).into(),
                ],
            )?;
        }
        Ok(())
    }
}
