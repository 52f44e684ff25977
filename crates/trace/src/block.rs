//! The payload of an events frame: records as they came, turned into columns. The records of one type and thread are
//! put side by side, because what repeats in a trace repeats there: the operators of one token after those of another.
//!
//! ```text
//! block = varint n                              records
//!         varint g                              groups: pairs of record type and thread that occur
//!         g × (varint type, varint tid)         in the order of their first record
//!         column u32[n]                         each record's group, in the order of arrival
//!         for each type with a list:            column u32: its records' element counts
//!         for each type:                        its columns, then the column of its lists' elements, if it has a list
//!         column u32[n]                         seq, in the order of arrival, as zigzag(seq - (thread's last seq + 1))
//!         column u64[n]                         start, likewise, as zigzag(start - end of the thread's last record)
//! ```
//!
//! Types come in ascending order, only those that occur. A type's records come group by group, each group's in the
//! order of arrival. A type's columns are those of `layout`: the header's site, cpu, missing and duration, then the
//! fields and the bytes between them by offset, without a list's count. A thread's first record in a block takes
//! 0 - 1 for the last seq, and for the last end that of the record that arrived just before, or 0.

use super::column::{ColumnEncoder, Cursor, Malformed, little_endian, put_varint, undo_delta, zigzag_delta};
use super::format::MAX_BLOCK;
use super::intern::Interner;
use super::layout::{Column, Layout};
use profinfer_schema::HEADER_SIZE;
use std::ops::Range;

/// A block has at most this many records.
const MAX_RECORDS: usize = MAX_BLOCK / HEADER_SIZE as usize;

/// Where the records of each type and group are among all, sorted by type, then group, then arrival.
#[derive(Debug, Default)]
struct Order {
    /// The types that occur, ascending, and their records' places.
    types: Vec<(usize, Range<usize>)>,
    /// The next free place of each group.
    next: Vec<usize>,
}

impl Order {
    /// From each group's type and number of records.
    fn of(group_types: &[usize], group_sizes: &[usize]) -> Self {
        let mut by_type: Vec<usize> = (0..group_types.len()).collect();
        by_type.sort_by_key(|group| (group_types[*group], *group));
        let mut order = Self { types: Vec::new(), next: vec![0; group_types.len()] };
        let mut place = 0;
        for group in by_type {
            order.next[group] = place;
            let end = place + group_sizes[group];
            match order.types.last_mut() {
                Some((last, range)) if *last == group_types[group] => range.end = end,
                _ => order.types.push((group_types[group], place..end)),
            }
            place = end;
        }
        order
    }

    /// The place of the group's next record.
    fn place(&mut self, group: usize) -> usize {
        let place = self.next[group];
        self.next[group] += 1;
        place
    }
}

/// The state from which the next record of each thread is decoded.
#[derive(Debug, Clone, Copy)]
struct ThreadState {
    seq: u32,
    end: u64,
}

/// Gathers records and encodes them.
#[derive(Debug)]
pub(super) struct BlockEncoder {
    records: Vec<u8>,
    /// Where each record starts in `records`.
    starts: Vec<usize>,
    groups: Interner,
    columns: ColumnEncoder,
    values: Vec<u64>,
}

impl BlockEncoder {
    pub(super) fn new() -> Self {
        let (records, starts, values) = (Vec::new(), Vec::new(), Vec::new());
        Self { records, starts, groups: Interner::new(), columns: ColumnEncoder::new(), values }
    }

    /// Bytes of the records gathered.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Adds a record, which must have the length of its layout.
    pub(super) fn push(&mut self, record: &[u8]) {
        self.starts.push(self.records.len());
        self.records.extend_from_slice(record);
    }

    /// Appends the block of the records gathered, and forgets them.
    pub(super) fn encode(&mut self, layouts: &[Layout], out: &mut Vec<u8>) {
        let arrival = self.group();
        let types: Vec<usize> = self.groups.values().iter().map(|key| (key >> 32) as usize).collect();
        let mut sizes = vec![0; types.len()];
        arrival.iter().for_each(|group| sizes[*group as usize] += 1);
        let mut order = Order::of(&types, &sizes);
        let mut sorted = vec![0; self.starts.len()];
        for (start, group) in self.starts.iter().zip(&arrival) {
            sorted[order.place(*group as usize)] = *start;
        }

        put_varint(out, self.starts.len() as u64);
        put_varint(out, types.len() as u64);
        for key in self.groups.values() {
            put_varint(out, key >> 32);
            put_varint(out, key & 0xffff_ffff);
        }
        self.columns.encode(out, &arrival, 4);
        for (ty, range) in &order.types {
            if let Some(tail) = layouts[*ty].tail {
                self.put_column(out, Column { offset: tail.count_at, width: 4, count: 1 }, &sorted[range.clone()]);
            }
        }
        for (ty, range) in &order.types {
            let layout = &layouts[*ty];
            for column in &layout.columns {
                self.put_column(out, *column, &sorted[range.clone()]);
            }
            self.put_tails(out, layout, &sorted[range.clone()]);
        }
        self.put_thread_columns(out, &arrival);
        self.records.clear();
        self.starts.clear();
    }

    /// Each record's group, in the order of arrival.
    fn group(&mut self) -> Vec<u64> {
        self.groups.clear();
        let key = |start: usize| {
            let header = &self.records[start..];
            little_endian(&header[..2]) << 32 | little_endian(&header[8..12])
        };
        self.starts.iter().map(|start| u64::from(self.groups.number(key(*start)))).collect()
    }

    fn put_column(&mut self, out: &mut Vec<u8>, column: Column, starts: &[usize]) {
        self.values.clear();
        let Column { offset, width, count } = column;
        if count == 1 {
            let value = |start: &usize| read(&self.records, start + offset, width);
            self.values.extend(starts.iter().map(value));
        } else {
            for start in starts {
                let bytes = &self.records[start + offset..start + offset + width * count];
                self.values.extend(bytes.chunks_exact(width).map(little_endian));
            }
        }
        self.columns.encode(out, &self.values, width);
    }

    fn put_tails(&mut self, out: &mut Vec<u8>, layout: &Layout, starts: &[usize]) {
        let Some(tail) = layout.tail else { return };
        self.values.clear();
        for start in starts {
            let record = &self.records[*start..];
            let count = little_endian(&record[tail.count_at..tail.count_at + 4]) as usize;
            let elements = &record[layout.size..layout.size + count * tail.element_size()];
            self.values.extend(elements.chunks_exact(tail.width).map(little_endian));
        }
        self.columns.encode(out, &self.values, tail.width);
    }

    fn put_thread_columns(&mut self, out: &mut Vec<u8>, arrival: &[u64]) {
        let mut threads = Threads::of(self.groups.values().iter().map(|key| *key as u32));
        let mut seqs = Vec::with_capacity(arrival.len());
        self.values.clear();
        for (start, group) in self.starts.iter().zip(arrival) {
            let header = &self.records[*start..start + HEADER_SIZE as usize];
            let (seq, start) = (read(header, 12, 4), read(header, 16, 8));
            let last = threads.state(*group as usize);
            seqs.push(zigzag_delta(seq, u64::from(last.seq.wrapping_add(1)), 4));
            self.values.push(zigzag_delta(start, last.end, 8));
            threads.set(*group as usize, seq as u32, start.wrapping_add(read(header, 24, 8)));
        }
        self.columns.encode(out, &seqs, 4);
        self.columns.encode(out, &self.values, 8);
    }
}

/// The states of a block's threads, by group.
#[derive(Debug)]
struct Threads {
    /// Each group's thread.
    of_group: Vec<u32>,
    states: Vec<Option<ThreadState>>,
    /// End of the record that arrived last.
    latest: u64,
}

impl Threads {
    fn of(tids: impl Iterator<Item = u32>) -> Self {
        let mut numbers = Interner::new();
        let of_group = tids.map(|tid| numbers.number(u64::from(tid))).collect();
        Self { of_group, states: vec![None; numbers.values().len()], latest: 0 }
    }

    fn state(&self, group: usize) -> ThreadState {
        self.states[self.of_group[group] as usize].unwrap_or(ThreadState { seq: u32::MAX, end: self.latest })
    }

    fn set(&mut self, group: usize, seq: u32, end: u64) {
        self.states[self.of_group[group] as usize] = Some(ThreadState { seq, end });
        self.latest = end;
    }
}

/// The number of `width` (1, 2, 4, 8) bytes at a place.
fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    match (width, &bytes[at..at + width]) {
        (8, &[a, b, c, d, e, f, g, h]) => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (4, &[a, b, c, d]) => u64::from(u32::from_le_bytes([a, b, c, d])),
        (_, bytes) => little_endian(bytes),
    }
}

/// A block's records, one after the other as they arrived.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The records.
    pub(super) bytes: Vec<u8>,
    /// Where each ends.
    pub(super) ends: Vec<usize>,
    /// Bytes of the file up to the end of the block's frame.
    pub(super) file_end: u64,
}

/// Decodes blocks, with buffers that are reused.
#[derive(Debug, Default)]
pub(super) struct BlockDecoder {
    /// Each record's group, in the order of arrival.
    arrival: Vec<u64>,
    /// Element counts of the records with lists, by place in the order of types; 0 for the others.
    counts: Vec<u64>,
    /// Where each record starts, by place in the order of types.
    starts: Vec<usize>,
    values: Vec<u64>,
}

impl BlockDecoder {
    /// Decodes a payload into `block`, replacing what was there.
    ///
    /// # Errors
    /// What is wrong with the payload; the block is then empty.
    pub(super) fn decode(&mut self, payload: &[u8], layouts: &[Layout], block: &mut Block) -> Result<(), Malformed> {
        let decoded = self.decode_into(payload, layouts, block);
        if decoded.is_err() {
            block.bytes.clear();
            block.ends.clear();
        }
        decoded
    }

    fn decode_into(&mut self, payload: &[u8], layouts: &[Layout], block: &mut Block) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(payload);
        let n = cursor.varint(MAX_RECORDS)?;
        let g = cursor.varint(n)?;
        let mut groups = Vec::with_capacity(g);
        for _ in 0..g {
            groups.push((cursor.varint(usize::from(u16::MAX))?, cursor.varint(u32::MAX as usize)? as u32));
        }
        if groups.iter().any(|(ty, _)| *ty >= layouts.len()) {
            return Err("a record's type is not in the schema");
        }
        cursor.column(&mut self.arrival, n, 4)?;
        let mut sizes = vec![0; g];
        for group in &self.arrival {
            *sizes.get_mut(*group as usize).ok_or("a record has no group")? += 1;
        }
        let types: Vec<usize> = groups.iter().map(|(ty, _)| *ty).collect();
        let mut order = Order::of(&types, &sizes);

        self.read_counts(&mut cursor, layouts, &order, n)?;
        self.place_records(layouts, &types, &mut order, block)?;
        for (ty, range) in &order.types {
            self.read_type(&mut cursor, &layouts[*ty], range.clone(), &mut block.bytes)?;
        }
        self.read_thread_columns(&mut cursor, &groups, block)?;
        if cursor.is_at_end() { Ok(()) } else { Err("data follows its end") }
    }

    fn read_counts(
        &mut self,
        cursor: &mut Cursor<'_>,
        layouts: &[Layout],
        order: &Order,
        n: usize,
    ) -> Result<(), Malformed> {
        self.counts.clear();
        self.counts.resize(n, 0);
        for (ty, range) in &order.types {
            let Some(tail) = layouts[*ty].tail else { continue };
            cursor.column(&mut self.values, range.len(), 4)?;
            if self.values.iter().any(|count| *count as usize > tail.max) {
                return Err("a list is longer than its bound");
            }
            self.counts[range.clone()].copy_from_slice(&self.values);
        }
        Ok(())
    }

    /// Finds where each record goes, and allocates space for all.
    fn place_records(
        &mut self,
        layouts: &[Layout],
        types: &[usize],
        order: &mut Order,
        block: &mut Block,
    ) -> Result<(), Malformed> {
        self.starts.clear();
        self.starts.resize(self.arrival.len(), 0);
        block.ends.clear();
        let mut end = 0;
        for group in &self.arrival {
            let group = *group as usize;
            let place = order.place(group);
            let layout = &layouts[types[group]];
            self.starts[place] = end;
            end += layout.size;
            if let Some(tail) = layout.tail {
                end += self.counts[place] as usize * tail.element_size();
            }
            if end > MAX_BLOCK {
                return Err("it has too many records");
            }
            block.ends.push(end);
        }
        block.bytes.clear();
        block.bytes.resize(end, 0);
        Ok(())
    }

    fn read_type(
        &mut self,
        cursor: &mut Cursor<'_>,
        layout: &Layout,
        places: Range<usize>,
        bytes: &mut [u8],
    ) -> Result<(), Malformed> {
        let starts = &self.starts[places.clone()];
        for column in &layout.columns {
            cursor.column(&mut self.values, starts.len() * column.count, column.width)?;
            scatter(bytes, starts, &self.values, column);
        }
        let Some(tail) = layout.tail else { return Ok(()) };
        let counts = &self.counts[places];
        let elements: usize = counts.iter().map(|count| *count as usize).sum();
        cursor.column(&mut self.values, elements * tail.per_element, tail.width)?;
        let mut values = self.values.iter();
        for (start, count) in starts.iter().zip(counts) {
            let count_at = start + tail.count_at;
            bytes[count_at..count_at + 4].copy_from_slice(&(*count as u32).to_le_bytes());
            let from = start + layout.size;
            let to = from + *count as usize * tail.element_size();
            for (element, value) in bytes[from..to].chunks_exact_mut(tail.width).zip(&mut values) {
                element.copy_from_slice(&value.to_le_bytes()[..tail.width]);
            }
        }
        Ok(())
    }

    /// The types, threads, seqs and starts: they need the durations.
    fn read_thread_columns(
        &mut self,
        cursor: &mut Cursor<'_>,
        groups: &[(usize, u32)],
        block: &mut Block,
    ) -> Result<(), Malformed> {
        let n = self.arrival.len();
        cursor.column(&mut self.counts, n, 4)?;
        cursor.column(&mut self.values, n, 8)?;
        let mut threads = Threads::of(groups.iter().map(|(_, tid)| *tid));
        let mut at = 0;
        for (index, group) in self.arrival.iter().enumerate() {
            let group = *group as usize;
            let (ty, tid) = groups[group];
            let header = &mut block.bytes[at..at + HEADER_SIZE as usize];
            let last = threads.state(group);
            let seq = undo_delta(self.counts[index], u64::from(last.seq.wrapping_add(1)), 4) as u32;
            let start = undo_delta(self.values[index], last.end, 8);
            header[..2].copy_from_slice(&(ty as u16).to_le_bytes());
            header[8..12].copy_from_slice(&tid.to_le_bytes());
            header[12..16].copy_from_slice(&seq.to_le_bytes());
            header[16..24].copy_from_slice(&start.to_le_bytes());
            threads.set(group, seq, start.wrapping_add(read(header, 24, 8)));
            at = block.ends[index];
        }
        Ok(())
    }
}

/// Writes a column's values to its place in each record.
fn scatter(bytes: &mut [u8], starts: &[usize], values: &[u64], column: &Column) {
    let Column { offset, width, count } = *column;
    match (width, count) {
        (8, 1) => {
            for (start, value) in starts.iter().zip(values) {
                bytes[start + offset..start + offset + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        (4, 1) => {
            for (start, value) in starts.iter().zip(values) {
                bytes[start + offset..start + offset + 4].copy_from_slice(&(*value as u32).to_le_bytes());
            }
        }
        (2, 1) => {
            for (start, value) in starts.iter().zip(values) {
                bytes[start + offset..start + offset + 2].copy_from_slice(&(*value as u16).to_le_bytes());
            }
        }
        _ => {
            for (start, values) in starts.iter().zip(values.chunks_exact(count)) {
                let place = &mut bytes[start + offset..start + offset + width * count];
                for (place, value) in place.chunks_exact_mut(width).zip(values) {
                    place.copy_from_slice(&value.to_le_bytes()[..width]);
                }
            }
        }
    }
}
