//! Address map of a process: the data of its objects, and mapped files. It names the tensor at an address or at an
//! offset in a file.

use super::threads::Threads;
use crate::catalogue::Rules;
use crate::raw::{Decoder, Header, address_of};
use profinfer_probeset::path::{Environment, Value};
use profinfer_schema::{FieldMeaning, MappedFile, Notice};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Objects of one process in the map; further ones are left out.
const MAX_RANGES: usize = 1 << 16;
/// Files mapped at a time.
const MAX_FILES: usize = 4096;
/// Objects that one part of a file is split among.
const MAX_PIECES: usize = 1024;
/// Ancestors that are searched.
const MAX_FORKS: usize = 8;

/// An object that owns memory, by its description.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its name.
    pub name: Arc<str>,
    /// The layer of the model, by the probeset's `layer` expression.
    pub layer: Option<Arc<str>>,
}

/// An object's memory, or that of one expert of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// The object.
    pub owner: Arc<Owner>,
    /// The expert whose part of it is meant, where it holds several.
    pub expert: Option<u32>,
}

/// Where an object's data lies, up to `end`.
#[derive(Debug)]
struct Data {
    end: u64,
    owner: Arc<Owner>,
    experts: u32,
}

/// The memory of every process, as it was described last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    processes: Vec<BTreeMap<u64, Data>>,
    owners: HashMap<Owner, Arc<Owner>>,
    files: Vec<MappedFile>,
}

impl Memory {
    /// Adds an object's description. A view of another's data owns no memory.
    pub(crate) fn describe(&mut self, process: u32, header: &Header, record: &[u8], decoder: &Decoder, rules: &Rules) {
        let address = |meaning| decoder.value_of(header, record, meaning).and_then(|value| address_of(&value));
        let Some(start) = address(FieldMeaning::Data).filter(|start| *start != 0) else { return };
        if address(FieldMeaning::View).is_some_and(|view| view != 0) {
            return;
        }
        let fields = RecordFields { header, record, decoder };
        let Some(end) = rules.bytes(&fields).filter(|bytes| *bytes > 0).and_then(|bytes| start.checked_add(bytes))
        else {
            return;
        };
        let Some(name) = decoder.value_of(header, record, FieldMeaning::Name).map(|name| name.to_string()) else {
            return;
        };
        let owner = Owner { name: name.into(), layer: rules.layer(&fields) };
        let owner = Arc::clone(self.owners.entry(owner).or_insert_with_key(|owner| Arc::new(owner.clone())));
        let experts = rules.experts(&fields);
        let index = process as usize;
        if self.processes.len() <= index {
            self.processes.resize_with(index + 1, BTreeMap::new);
        }
        let ranges = &mut self.processes[index];
        // It replaces what was there before.
        while let Some((old, _)) = ranges.range(..end).next_back().filter(|(_, data)| data.end > start) {
            let old = *old;
            ranges.remove(&old);
        }
        if ranges.len() < MAX_RANGES {
            ranges.insert(start, Data { end, owner, experts });
        }
    }

    /// Replaces the mapped files by those of a notice.
    pub(crate) fn notice(&mut self, notice: &Notice) {
        if let Some(mapped) = &notice.mapped {
            self.files = mapped.iter().take(MAX_FILES).cloned().collect();
        }
    }

    /// What owns an address.
    pub(crate) fn at(&self, process: u32, address: u64, threads: &Threads) -> Option<Part> {
        let (start, data) = self
            .ranges(process, threads)
            .find_map(|ranges| ranges.range(..=address).next_back().filter(|(_, data)| address < data.end))?;
        Some(data.part(*start, address))
    }

    /// The owners of the bytes of a part of a file, with their numbers of bytes; the rest has no recorded owner.
    pub(crate) fn in_file(
        &self,
        process: u32,
        device: u32,
        inode: u64,
        part: Range<u64>,
        threads: &Threads,
    ) -> Vec<(Part, u64)> {
        let mut pieces: Vec<(Part, u64)> = Vec::new();
        for file in self.files.iter().filter(|file| (file.device, file.inode) == (device, inode)) {
            let length = file.end.saturating_sub(file.start);
            let from = part.start.max(file.offset);
            let to = part.end.min(file.offset.saturating_add(length));
            if from >= to {
                continue;
            }
            let address = |offset: u64| file.start.saturating_add(offset - file.offset);
            for ranges in self.ranges(process, threads) {
                pieces_of(ranges, address(from)..address(to), &mut pieces);
                if !pieces.is_empty() {
                    return pieces;
                }
            }
        }
        pieces
    }

    /// The ranges of a process, then of those it was forked from.
    fn ranges<'a>(&'a self, process: u32, threads: &'a Threads) -> impl Iterator<Item = &'a BTreeMap<u64, Data>> {
        let family = std::iter::successors(Some(process), |process| threads.parent(*process)).take(MAX_FORKS);
        family.filter_map(|process| self.processes.get(process as usize))
    }
}

impl Data {
    fn part(&self, start: u64, address: u64) -> Part {
        let each = (self.end - start) / u64::from(self.experts.max(1));
        let expert = (self.experts > 0 && each > 0)
            .then(|| u32::try_from((address - start) / each).unwrap_or(u32::MAX).min(self.experts - 1));
        Part { owner: Arc::clone(&self.owner), expert }
    }

    /// One past the last address of the expert that an address is in.
    fn part_end(&self, start: u64, address: u64) -> u64 {
        let each = (self.end - start) / u64::from(self.experts.max(1));
        if self.experts == 0 || each == 0 {
            return self.end;
        }
        let number = ((address - start) / each).min(u64::from(self.experts) - 1);
        if number + 1 == u64::from(self.experts) { self.end } else { start + (number + 1) * each }
    }
}

fn pieces_of(ranges: &BTreeMap<u64, Data>, span: Range<u64>, pieces: &mut Vec<(Part, u64)>) {
    let first = ranges.range(..=span.start).next_back().map_or(span.start, |(start, _)| *start);
    for (start, data) in ranges.range(first..span.end) {
        let mut at = (*start).max(span.start);
        while at < data.end.min(span.end) && pieces.len() < MAX_PIECES {
            let end = data.part_end(*start, at).min(span.end);
            pieces.push((data.part(*start, at), end - at));
            at = end;
        }
    }
}

/// A record's fields as an expression sees them.
struct RecordFields<'a> {
    header: &'a Header,
    record: &'a [u8],
    decoder: &'a Decoder,
}

impl Environment for RecordFields<'_> {
    fn field(&self, name: &str) -> Option<Value> {
        self.decoder.field(self.header, self.record, name).or_else(|| self.decoder.constant(name))
    }
}
