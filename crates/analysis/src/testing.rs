//! Traces for tests and benchmarks: records in memory, by a schema of the usual roles.

use profinfer_schema::Role;
use profinfer_schema::{FieldLayout, FieldType, HEADER_SIZE, RecordKind, RecordType, Schema, Site};
use std::collections::HashMap;

/// A field's value.
#[derive(Debug, Clone)]
pub enum Put<'a> {
    /// An integer or address.
    Int(u64),
    /// A text.
    Text(&'a str),
    /// A list of 32-bit numbers, or a shape.
    List(&'a [i64]),
    /// It could not be read.
    Missing,
}

/// Makes records.
#[derive(Debug)]
pub struct Records {
    /// Their schema.
    pub schema: Schema,
    /// In the order of their arrival.
    pub records: Vec<Vec<u8>>,
    /// The latest number of each thread.
    pub seq: HashMap<u32, u32>,
}

fn record(name: &str, kind: RecordKind, role: Option<Role>, fields: &[(&str, FieldType)]) -> RecordType {
    let mut offset = HEADER_SIZE;
    let mut layouts = Vec::new();
    for (name, ty) in fields {
        offset = offset.next_multiple_of(ty.align());
        layouts.push(FieldLayout { name: (*name).to_owned(), offset, ty: ty.clone() });
        offset += ty.size();
    }
    RecordType { name: name.to_owned(), kind, role, size: offset.next_multiple_of(8), fields: layouts }
}

/// Built-in records, an object `tensor`, and probes of every role.
pub fn schema() -> Schema {
    use FieldType::{Array, Duration, Int, List, Match, Object, Text, Uint};
    let tensor = || Object("tensor".to_owned());
    let span =
        |name: &str, role: Role, fields: &[(&str, FieldType)]| record(name, RecordKind::Span, Some(role), fields);
    let pid_fields = [
        ("pid", Uint(4)),
        ("ns_tid", Uint(4)),
        ("ns_pid", Uint(4)),
        ("cpus_allowed", Uint(2)),
        ("created", Uint(2)),
        ("comm", Text(16)),
    ];
    let records = vec![
        record("thread", RecordKind::Thread, None, &pid_fields),
        record("thread_exit", RecordKind::ThreadExit, None, &[]),
        record(
            "switch",
            RecordKind::Switch,
            Some(Role::SchedSwitch),
            &[("prev_state", Uint(4)), ("next_tid", Uint(4))],
        ),
        record(
            "wakeup",
            RecordKind::Wakeup,
            Some(Role::SchedWakeup),
            &[("waker_tid", Uint(4)), ("target_cpu", Uint(4))],
        ),
        record("fork", RecordKind::Fork, None, &[("child_tid", Uint(4)), ("child_pid", Uint(4))]),
        record("exec", RecordKind::Exec, None, &[]),
        record(
            "tensor",
            RecordKind::Object,
            None,
            &[
                ("address", tensor()),
                ("op", Text(16)),
                ("name", Text(32)),
                ("dtype", Text(8)),
                ("shape", Array(Box::new(Int(8)), 4)),
                ("inputs", Array(Box::new(tensor()), 4)),
            ],
        ),
        span("step", Role::Step, &[("tokens", Int(4))]),
        span("process", Role::Step, &[]),
        span("graph", Role::Graph, &[("backend", Text(16))]),
        span("operator", Role::Operator, &[("lane", Int(4)), ("node", tensor()), ("waiting", Duration)]),
        span("kernel", Role::Operator, &[("op", Match(1))]),
        span("fused", Role::Operator, &[("op", Match(1)), ("lane", Int(4)), ("node", tensor()), ("covers", tensor())]),
        span("barrier", Role::Region, &[]),
        span("batch", Role::Region, &[("tokens", Int(4))]),
        span(
            "call",
            Role::Operator,
            &[
                ("op", Text(16)),
                ("dtype", Text(8)),
                ("shape", Array(Box::new(Int(8)), 4)),
                ("inputs", Array(Box::new(tensor()), 4)),
            ],
        ),
        span(
            "dispatch",
            Role::Dispatch,
            &[
                ("node", tensor()),
                ("previous", tensor()),
                ("graph_index", Int(4)),
                ("graph_nodes", Int(4)),
                ("encoded", FieldType::Bool),
            ],
        ),
        span("submit", Role::Submit, &[("queue", FieldType::Pointer), ("fence", Uint(8)), ("status", Int(4))]),
        span("follow", Role::Submit, &[("queue", FieldType::Pointer), ("after_fence", Uint(8))]),
        span(
            "listed",
            Role::Dispatch,
            &[
                ("node", tensor()),
                ("graph_index", Int(4)),
                ("graph_nodes", Int(4)),
                ("graph_members", Array(Box::new(Uint(8)), 6)),
            ],
        ),
        span("launch", Role::Dispatch, &[("name", Text(16))]),
        span("kernel_launch", Role::Submit, &[("queue", FieldType::Pointer), ("name", Text(16))]),
        span("launch_captured", Role::Submit, &[("queue", FieldType::Pointer), ("captured", Uint(8))]),
        span("capture", Role::Capture, &[("queue", FieldType::Pointer)]),
        span("virtual", Role::Operator, &[("node", tensor()), ("class", Match(1))]),
        span("captured", Role::Capture, &[("queue", FieldType::Pointer), ("captured", Uint(8))]),
        span("instantiate", Role::Capture, &[("captured", Uint(8)), ("made_from", Uint(8))]),
        span(
            "job",
            Role::Job,
            &[("queued", Uint(8)), ("name", Text(16)), ("driver", Text(16)), ("job_since", Uint(4))],
        ),
        span("wait_fence", Role::Wait, &[("fence", Uint(8)), ("status", Int(4))]),
        span("destroy", Role::Wait, &[("queue", FieldType::Pointer), ("destroyed", Uint(4))]),
        span("wait_queue", Role::Wait, &[("queue", FieldType::Pointer)]),
        span("wait_all", Role::Wait, &[]),
        span("copy", Role::Copy, &[("bytes", Uint(8)), ("direction", Int(4))]),
        span("ticks", Role::Device, &[("timestamps", List(Box::new(Uint(8)), 64))]),
        span("properties", Role::Device, &[("name", Text(16)), ("period", FieldType::Float(4))]),
        span("experts", Role::Experts, &[("node", tensor()), ("ids", List(Box::new(Int(4)), 64))]),
        span("share", Role::Share, &[]),
    ];
    Schema { records, ..Schema::default() }
}

/// A site with captures.
pub fn site(id: u16, captures: &[&str]) -> Site {
    Site {
        id,
        probes: Vec::new(),
        alternative: 0,
        module: 0,
        function: String::new(),
        file_offset: 0,
        function_offset: 0,
        instruction: String::new(),
        captures: captures.iter().map(|c| (*c).to_owned()).collect(),
        inlined_into: None,
    }
}

impl Default for Records {
    fn default() -> Self {
        Self { schema: schema(), records: Vec::new(), seq: HashMap::new() }
    }
}

impl Records {
    /// A record of a thread, with the next number of that thread; fields that are not given are 0.
    pub fn push(&mut self, name: &str, tid: u32, (start, end): (u64, u64), fields: &[(&str, Put<'_>)]) -> &mut Self {
        self.push_at_site(name, 0xffff, tid, (start, end), fields)
    }

    /// The same, of a site.
    pub fn push_at_site(
        &mut self,
        name: &str,
        site: u16,
        tid: u32,
        (start, end): (u64, u64),
        fields: &[(&str, Put<'_>)],
    ) -> &mut Self {
        let counted = !matches!(name, "switch" | "wakeup" | "job");
        let seq = self.seq.entry(tid).or_default();
        *seq += u32::from(counted);
        let number = if counted { *seq } else { 0 };
        let index = self.schema.records.iter().position(|r| r.name == name).unwrap_or(usize::MAX);
        let Some(ty) = self.schema.records.get(index) else { return self };
        let mut bytes = vec![0; ty.size as usize];
        bytes[0..2].copy_from_slice(&u16::try_from(index).unwrap_or(0).to_le_bytes());
        bytes[2..4].copy_from_slice(&site.to_le_bytes());
        bytes[8..12].copy_from_slice(&tid.to_le_bytes());
        bytes[12..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..24].copy_from_slice(&start.to_le_bytes());
        bytes[24..32].copy_from_slice(&end.saturating_sub(start).to_le_bytes());
        for (name, value) in fields {
            let Some(number) = ty.fields.iter().position(|f| f.name == *name) else { continue };
            if matches!(value, Put::Missing) {
                bytes[6 + number / 8] |= 1 << (number % 8);
            }
            put(&mut bytes, &ty.fields[number], value);
        }
        self.records.push(bytes);
        self
    }

    /// The thread's next records are lost.
    pub fn lose(&mut self, tid: u32, records: u32) -> &mut Self {
        *self.seq.entry(tid).or_default() += records;
        self
    }
}

fn put(bytes: &mut Vec<u8>, layout: &FieldLayout, value: &Put<'_>) {
    let at = layout.offset as usize;
    match (value, &layout.ty) {
        (Put::Int(n), ty) => {
            let size = ty.size() as usize;
            bytes[at..at + size].copy_from_slice(&n.to_le_bytes()[..size]);
        }
        (Put::Text(text), ty) => {
            let length = text.len().min(ty.size() as usize);
            bytes[at..at + length].copy_from_slice(&text.as_bytes()[..length]);
        }
        (Put::Missing, _) => {}
        (Put::List(items), FieldType::List(of, _)) => {
            let count = u32::try_from(items.len()).unwrap_or(0);
            bytes[at..at + 4].copy_from_slice(&count.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&count.to_le_bytes());
            for item in *items {
                bytes.extend_from_slice(&item.to_le_bytes()[..of.size() as usize]);
            }
        }
        (Put::List(items), ty) => {
            let element = 8.min(ty.size() as usize);
            for (i, item) in items.iter().enumerate() {
                bytes[at + i * element..at + (i + 1) * element].copy_from_slice(&item.to_le_bytes()[..element]);
            }
        }
    }
}
