//! Records without a part in the time of steps: experts, batches, requests, fetches, and what is given to other
//! processors. They are read here and put where they belong by their time.

use super::batch::RequestEvent;
use super::bucket::{RawBatch, RawExperts};
use super::captures::Work;
use super::faults::{RawFetch, What};
use super::offload::{DispatchContext, kinds};
use super::offload_model::Queued;
use super::offload_raw::{Placed, RawDispatch, RawOffload, RawWhat, capture, describe_device, queued};
use super::timeline::Timeline;
use crate::catalogue::ObjectKey;
use crate::ids::ObjectId;
use crate::raw::{Header, ObjectAt};
use profinfer_probeset::path::Value;
use profinfer_schema::{FieldMeaning, ReclaimKind, Role};

/// Experts' ids of one record.
const MAX_EXPERTS: usize = 1 << 16;
/// Operators of a graph that one dispatch lists.
const MAX_MEMBERS: usize = 64;

impl Timeline {
    pub(super) fn experts(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let node = fields.node;
        let per_token = fields.number_u32(FieldMeaning::PerToken, record, header.missing).filter(|n| *n > 0);
        let ids = fields.index(FieldMeaning::Ids).and_then(|i| self.decoder.value_at(header, record, i));
        let ids: Vec<u32> = match &ids {
            Some(Value::List(items)) => {
                let id = |v: &Value| v.as_int().and_then(|n| u32::try_from(n).ok());
                items.iter().take(MAX_EXPERTS).filter_map(id).collect()
            }
            _ => Vec::new(),
        };
        let process = self.threads.get(thread).process;
        let inline = self.catalogue.inline(process, header, record, &self.decoder, &self.rules);
        let object = self.object_id(process, node, record, header.missing);
        let bucket = self.bucket(header.start, thread);
        let (start, end, record_type) = (header.start, header.end, header.record_type);
        bucket.experts.push(RawExperts { start, end, thread, object, inline, record_type, per_token, ids });
    }

    pub(super) fn batch(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let list = |meaning| {
            let value = fields.index(meaning).and_then(|i| self.decoder.value_at(header, record, i));
            let Some(Value::List(items)) = value else { return None };
            let values = items.iter().take(MAX_EXPERTS).map(|item| item.as_int().unwrap_or(-1)).collect();
            Some(RawBatch { start: header.start, thread, meaning, values })
        };
        let meanings = [FieldMeaning::Sequences, FieldMeaning::Positions, FieldMeaning::Outputs];
        let lists: Vec<RawBatch> = meanings.into_iter().filter_map(list).collect();
        self.bucket(header.start, thread).batches.extend(lists);
    }

    pub(super) fn request(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let number = |meaning| fields.number(meaning, record, header.missing);
        let request = number(FieldMeaning::Request);
        let sequence = number(FieldMeaning::Sequence).map(u64::cast_signed);
        let pid = self.threads.pid(self.threads.get(thread).process);
        let tokens =
            self.decoder.records[usize::from(header.record_type)].count(FieldMeaning::Tokens, record, header.missing);
        let instance = self.decoder.instance(header, record);
        self.requests.push(RequestEvent {
            time: header.end,
            stretch: self.unseen.stretch(header.start),
            pid,
            tid: header.tid,
            request,
            sequence,
            tokens,
            instance,
        });
    }

    pub(super) fn fetch(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let number = |meaning| fields.number(meaning, record, header.missing);
        let what = match fields.role {
            Some(Role::Fault) => {
                let took = self.waits.take(header.tid, header.start);
                number(FieldMeaning::Address).map(|address| What::Fault { address, took })
            }
            Some(Role::Reclaim) => {
                self.waits.reclaimed(header.tid, header.start, header.end);
                let kind = number(FieldMeaning::ReclaimKind).and_then(ReclaimKind::of);
                Some(What::Reclaim { kind, end: header.end })
            }
            _ => {
                let device = fields.number_u32(FieldMeaning::Device, record, header.missing);
                self.waits.reads(header.tid, header.start);
                let file = device
                    .zip(number(FieldMeaning::Inode))
                    .zip(number(FieldMeaning::Offset).zip(number(FieldMeaning::Bytes)));
                file.map(|((device, inode), (offset, bytes))| What::Cached { device, inode, offset, bytes })
            }
        };
        let Some(what) = what else { return };
        let bucket = self.bucket(header.start, thread);
        bucket.fetches.push(RawFetch { start: header.start, thread, what });
    }

    /// A dispatch, or an event of a device or its queue.
    pub(super) fn offload(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let process = self.threads.get(thread).process as usize;
        let what = match self.decoder.records[usize::from(header.record_type)].role {
            Some(Role::Dispatch) => return self.dispatched(thread, header, record),
            Some(Role::Capture) => {
                if let Some(event) = capture(&self.decoder, header, record) {
                    let Self { catalogue, threads, decoder, rules, processes, .. } = self;
                    let mut context = DispatchContext { catalogue, threads, decoder, costs: rules.costs() };
                    processes[process].captures.add(event, |encoded| kinds(encoded, &mut context));
                }
                return;
            }
            role => {
                if role == Some(Role::Device) {
                    describe_device(&self.decoder, header, record, &mut self.devices);
                }
                let Some(event) = queued(&self.decoder, header, record) else { return };
                let event = self.refined(process, thread, header, record, event);
                let fields = &self.decoder.records[usize::from(header.record_type)];
                let is_described = fields.node.is_some() || !fields.describing.is_empty();
                // A submission of one operator or kernel is its dispatch, too. Whether it is captured is settled by now.
                if role == Some(Role::Submit) && is_described {
                    self.dispatched(thread, header, record);
                }
                RawWhat::Queued(event)
            }
        };
        let (mut start, end, record_type) = (header.start, header.end, header.record_type);
        // A job is of the step that gave it to the driver.
        if let RawWhat::Queued(Queued::Job(job)) = &what {
            start = job.queued;
        }
        let bucket = self.bucket(start, thread);
        bucket.offloads.push(RawOffload { start, end, thread, record_type, what });
    }

    /// Adds a dispatch to its step, and to what its queue captures.
    fn dispatched(&mut self, thread: u32, header: &Header, record: &[u8]) {
        let raw = self.dispatch(thread, header, record);
        let (start, end, record_type) = (header.start, header.end, header.record_type);
        let process = &mut self.processes[self.threads.get(thread).process as usize];
        let placed = || Placed { raw: raw.clone(), start, end, thread, record_type, graph: None };
        process.captures.encoded(thread, start, placed);
        let what = RawWhat::Dispatch(raw);
        self.bucket(start, thread).offloads.push(RawOffload { start, end, thread, record_type, what });
    }

    /// A submission whose queue captures, or that launches what was captured; a copy with its objects.
    fn refined(&mut self, process: usize, thread: u32, header: &Header, record: &[u8], event: Queued) -> Queued {
        let (queue, fence, after, failed) = match event {
            Queued::Submit { queue, fence, after, failed, .. } => (queue, fence, after, failed),
            Queued::Copy { bytes, direction, .. } => {
                let fields = &self.decoder.records[usize::from(header.record_type)];
                let (source, node) = (fields.source, fields.node);
                let process = self.threads.get(thread).process;
                let from = self.object_id(process, source, record, header.missing);
                let objects = from.zip(self.object_id(process, node, record, header.missing));
                return Queued::Copy { bytes, direction, objects };
            }
            _ => return event,
        };
        let captures = &mut self.processes[process].captures;
        if captures.takes(Work { queue, fence, after }, thread, header.start) {
            return Queued::Captured;
        }
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let captured = fields.number(FieldMeaning::Captured, record, header.missing);
        let replays = captured.and_then(|captured| captures.of(captured));
        Queued::Submit { queue, fence, after, replays, failed }
    }

    fn dispatch(&mut self, thread: u32, header: &Header, record: &[u8]) -> RawDispatch {
        let process = self.threads.get(thread).process;
        let inline = self.catalogue.inline(process, header, record, &self.decoder, &self.rules);
        let fields = &self.decoder.records[usize::from(header.record_type)];
        let number = |meaning| fields.number_u32(meaning, record, header.missing);
        let (index, graph_nodes) = (number(FieldMeaning::Index), number(FieldMeaning::GraphNodes));
        let is_empty = fields.number(FieldMeaning::Encoded, record, header.missing) == Some(0);
        let (node, previous, last) = (fields.node, fields.previous, fields.graph_last);
        let object = self.object_id(process, node, record, header.missing);
        let previous = self.object_id(process, previous, record, header.missing);
        let graph_last = self.object_id(process, last, record, header.missing);
        // What follows the last operator in memory is no part of the graph.
        let left = index.zip(graph_nodes).map_or(0, |(index, nodes)| nodes.saturating_sub(index));
        let members = self.members(process, (node, left), header, record);
        RawDispatch { object, previous, graph_last, members, inline, index, graph_nodes, is_empty }
    }

    /// The objects that a dispatch's list of addresses refers to.
    fn members(
        &mut self,
        process: u32,
        (node, most): (Option<ObjectAt>, u32),
        header: &Header,
        record: &[u8],
    ) -> Box<[ObjectId]> {
        let Some(ObjectAt { object, .. }) = node else { return Box::default() };
        let most = MAX_MEMBERS.min(most as usize);
        let list = self.decoder.value_of(header, record, FieldMeaning::GraphMembers);
        let Some(Value::List(items)) = list else { return Box::default() };
        let addresses = items.iter().take(most).map(|item| item.as_int().map_or(0, i64::cast_unsigned));
        addresses.map(|address| self.catalogue.object(ObjectKey { process, object, address })).collect()
    }

    /// Nanoseconds of a device's tick; `None` if none is known, or devices differ.
    pub(super) fn tick(&self) -> Option<f64> {
        let mut periods = self.devices.iter().filter_map(|device| device.period);
        let first = periods.next()?;
        periods.all(|period| period.to_bits() == first.to_bits()).then_some(first)
    }
}
