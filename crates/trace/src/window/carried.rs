//! What later records and samples of a recording refer to, and what was sent once, before them: threads, descriptions
//! of objects, the state of probes. A trace that begins in the middle of a recording begins with it.

use crate::record::RecordView;
use crate::writer::TraceWriter;
use profinfer_schema::{CpuFrequency, Notice, RecordKind, Schema};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// Threads.
const MOST_THREADS: usize = 1 << 16;
/// Bytes of descriptions; the oldest ones are given up.
const MOST_BYTES: usize = 8 << 20;

/// An object: its record type, the thread that described it, its address.
type Key = (u16, u32, u64);

/// What has been sent so far, and still holds.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// By record type: where the address is of the object that a record describes.
    addresses: Vec<Option<usize>>,
    threads: BTreeMap<u32, Vec<u8>>,
    ages: HashMap<Key, u64>,
    descriptions: BTreeMap<u64, (Key, Vec<u8>)>,
    bytes: usize,
    age: u64,
    detail: Option<Notice>,
    waiting: Option<Notice>,
    mapped: Option<Notice>,
    frequencies: BTreeMap<u16, u32>,
}

impl Carried {
    pub(super) fn new(schema: &Schema) -> Self {
        let address = |record: &profinfer_schema::RecordType| {
            let field = match record.kind {
                RecordKind::Object => record.fields.first(),
                // With a role it is also something that happened at its time.
                _ if record.role.is_some() => None,
                _ => {
                    let describes = schema.describes.get(&record.name)?;
                    record.fields.iter().find(|field| field.name == describes.field)
                }
            };
            field.map(|field| field.offset as usize)
        };
        Self { addresses: schema.records.iter().map(address).collect(), ..Self::default() }
    }

    /// Takes a record; whether it is one that later ones refer to.
    pub(super) fn record(&mut self, record: &RecordView<'_>) -> bool {
        let header = record.header();
        match record.kind().kind {
            RecordKind::Thread => {
                if self.threads.len() < MOST_THREADS {
                    self.threads.insert(header.tid, uncounted(record.bytes()));
                }
                return true;
            }
            RecordKind::ThreadExit => {
                self.threads.remove(&header.tid);
                return false;
            }
            _ => {}
        }
        let address = self.addresses.get(usize::from(header.ty)).copied().flatten();
        let address = address.and_then(|at| record.bytes().get(at..)?.first_chunk());
        let Some(address) = address else { return false };
        self.describe((header.ty, header.tid, u64::from_le_bytes(*address)), uncounted(record.bytes()));
        true
    }

    fn describe(&mut self, key: Key, record: Vec<u8>) {
        self.age += 1;
        self.bytes += record.len();
        if let Some(old) = self.ages.insert(key, self.age) {
            self.bytes -= self.descriptions.remove(&old).map_or(0, |(_, record)| record.len());
        }
        self.descriptions.insert(self.age, (key, record));
        while self.bytes > MOST_BYTES {
            let Some((_, (key, record))) = self.descriptions.pop_first() else { return };
            self.ages.remove(&key);
            self.bytes -= record.len();
        }
    }

    /// Takes a notice.
    pub(super) fn notice(&mut self, notice: &Notice) {
        let only = |notice: Notice| Some(Notice { text: String::new(), ..notice });
        if notice.detail.is_some() {
            self.detail = only(Notice { detail: notice.detail, ..Notice::default() });
        }
        if notice.waiting.is_some() {
            self.waiting = only(Notice { waiting: notice.waiting, ..Notice::default() });
        }
        if notice.mapped.is_some() {
            self.mapped = only(Notice { mapped: notice.mapped.clone(), ..Notice::default() });
        }
        for frequency in notice.frequencies.iter().flatten() {
            self.frequencies.insert(frequency.cpu, frequency.khz);
        }
    }

    /// Writes all of it, as it holds at a time.
    pub(super) fn write<W: Write>(&self, writer: &mut TraceWriter<W>, time: u64) -> io::Result<()> {
        for notice in [&self.mapped, &self.detail, &self.waiting].into_iter().flatten() {
            writer.notice(&Notice { time, ..notice.clone() })?;
        }
        if !self.frequencies.is_empty() {
            let frequencies = self.frequencies.iter().map(|(cpu, khz)| CpuFrequency { cpu: *cpu, khz: *khz });
            writer.notice(&Notice { time, frequencies: Some(frequencies.collect()), ..Notice::default() })?;
        }
        let described = self.descriptions.values().map(|(_, record)| record);
        for record in self.threads.values().chain(described) {
            super::push(writer, record)?;
        }
        Ok(())
    }
}

/// The record without its number: it stands outside of its thread's sequence.
pub(super) fn uncounted(record: &[u8]) -> Vec<u8> {
    let mut record = record.to_vec();
    super::number(&mut record, 0);
    record
}
