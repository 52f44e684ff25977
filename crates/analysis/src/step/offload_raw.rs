//! Records of dispatches and queues, read by their meaning. Nothing is assigned to steps here.

use super::offload_model::{CopyDirection, DeviceInfo, DriverJob, JobSince, Queued, WaitsOn};
use crate::ids::{InlineId, ObjectId};
use crate::raw::{Decoder, Header};
use profinfer_probeset::path::Value;
use profinfer_schema::{FieldMeaning, Role};
use std::sync::Arc;

/// Timestamps of one record.
const MAX_TIMESTAMPS: usize = 1 << 14;
/// Devices that are listed.
const MAX_DEVICES: usize = 16;

/// A dispatch or an event of a queue.
#[derive(Debug)]
pub(crate) struct RawOffload {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread: u32,
    pub(crate) record_type: u16,
    pub(crate) what: RawWhat,
}

/// Which.
#[derive(Debug)]
pub(crate) enum RawWhat {
    /// An operator was encoded.
    Dispatch(RawDispatch),
    /// An event of a queue.
    Queued(Queued),
}

/// A dispatch, while operators are counted; of what is captured, `graph` is unknown.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) raw: RawDispatch,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) thread: u32,
    pub(super) record_type: u16,
    pub(super) graph: Option<u32>,
}

/// What a dispatch's record has.
#[derive(Debug, Clone)]
pub(crate) struct RawDispatch {
    pub(crate) object: Option<ObjectId>,
    pub(crate) previous: Option<ObjectId>,
    pub(crate) graph_last: Option<ObjectId>,
    /// It and those after it in the graph; empty if the record has no such list.
    pub(crate) members: Box<[ObjectId]>,
    pub(crate) inline: InlineId,
    pub(crate) index: Option<u32>,
    pub(crate) graph_nodes: Option<u32>,
    pub(crate) is_empty: bool,
}

/// What a record tells of a capture.
#[derive(Debug, Clone, Copy)]
pub(super) enum CaptureEvent {
    /// A queue begins to capture.
    Begins { queue: u64 },
    /// It ends.
    Ends { queue: u64, captured: u64 },
    /// Captured work was made ready to be launched, or copied.
    Made { from: u64, captured: u64 },
}

/// The event that a record of a queue is; `None` if it is of a device itself.
pub(crate) fn queued(decoder: &Decoder, header: &Header, record: &[u8]) -> Option<Queued> {
    let fields = decoder.records.get(usize::from(header.record_type))?;
    let number = |meaning| fields.number(meaning, record, header.missing);
    let failed = number(FieldMeaning::Status).is_some_and(|status| status != 0);
    match fields.role? {
        Role::Submit => {
            let queue = number(FieldMeaning::Queue).unwrap_or(0);
            let fence = number(FieldMeaning::Fence).filter(|fence| *fence != 0);
            let after = number(FieldMeaning::After).filter(|fence| *fence != 0);
            Some(Queued::Submit { queue, fence, after, replays: None, failed })
        }
        Role::Wait => {
            if let Some(queue) = number(FieldMeaning::Queue)
                && number(FieldMeaning::Destroyed).is_some_and(|is| is != 0)
            {
                return Some(Queued::Destroyed { queue });
            }
            let has = |meaning| fields.index(meaning).is_some();
            let on = match (has(FieldMeaning::Fence), has(FieldMeaning::Queue)) {
                (true, _) => number(FieldMeaning::Fence).filter(|fence| *fence != 0).map(WaitsOn::Fence),
                (false, true) => number(FieldMeaning::Queue).map(WaitsOn::Queue),
                (false, false) => Some(WaitsOn::Everything),
            };
            Some(Queued::Wait { on: on.unwrap_or(WaitsOn::Unknown), failed })
        }
        Role::Copy => {
            let bytes = fields.count(FieldMeaning::Bytes, record, header.missing);
            let direction = number(FieldMeaning::Direction).and_then(CopyDirection::of);
            Some(Queued::Copy { bytes, direction, objects: None })
        }
        Role::Device => {
            let Value::List(items) = decoder.value_of(header, record, FieldMeaning::Timestamps)? else { return None };
            let ticks = items.iter().take(MAX_TIMESTAMPS).map(|item| item.as_int().map_or(0, i64::cast_unsigned));
            (!failed && !items.is_empty()).then(|| Queued::Timestamps(ticks.collect()))
        }
        Role::Job => {
            let text = |meaning| {
                let text = decoder.value_of(header, record, meaning)?.to_string();
                (!text.is_empty()).then(|| Arc::from(text))
            };
            Some(Queued::Job(Box::new(DriverJob {
                queued: number(FieldMeaning::Queued)?.min(header.start),
                start: header.start,
                since: JobSince::of(number(FieldMeaning::JobSince)?)?,
                ring: text(FieldMeaning::Name),
                driver: text(FieldMeaning::Driver),
            })))
        }
        _ => None,
    }
}

/// What a record tells of a capture.
pub(super) fn capture(decoder: &Decoder, header: &Header, record: &[u8]) -> Option<CaptureEvent> {
    let fields = decoder.records.get(usize::from(header.record_type))?;
    let number = |meaning| fields.number(meaning, record, header.missing);
    if number(FieldMeaning::Status).is_some_and(|status| status != 0) {
        return None;
    }
    let (queue, captured) = (number(FieldMeaning::Queue), number(FieldMeaning::Captured));
    match (queue, captured, number(FieldMeaning::MadeFrom)) {
        (_, Some(captured), Some(from)) => Some(CaptureEvent::Made { from, captured }),
        (Some(queue), Some(captured), None) => Some(CaptureEvent::Ends { queue, captured }),
        // The end's record has a field for it.
        (Some(queue), None, None) if fields.index(FieldMeaning::Captured).is_none() => {
            Some(CaptureEvent::Begins { queue })
        }
        _ => None,
    }
}

/// Adds what a record tells of a device.
pub(crate) fn describe_device(decoder: &Decoder, header: &Header, record: &[u8], devices: &mut Vec<DeviceInfo>) {
    let text = |meaning| decoder.value_of(header, record, meaning).map(|value| value.to_string());
    let period = match decoder.value_of(header, record, FieldMeaning::Period) {
        Some(Value::Float(period)) if period.is_finite() && period > 0.0 => Some(period),
        Some(Value::Int(period)) if period > 0 => Some(period as f64),
        _ => None,
    };
    let name = text(FieldMeaning::Name).filter(|name| !name.is_empty());
    let device = DeviceInfo { name, device_type: text(FieldMeaning::DeviceType), period };
    if device != DeviceInfo::default() && devices.len() < MAX_DEVICES && !devices.contains(&device) {
        devices.push(device);
    }
}
