//! Perfetto's format: a protobuf message `Trace` of packets. It works on packets and tracks, not operators.
//!
//! Names and arguments are interned, times are differences, and packets are deflated in blocks (`compressed_packets`).
//! Field numbers are those of `protos/perfetto/trace/` in the Perfetto project; the tests decode with its own
//! definitions.

use super::protobuf::Message;
use super::sink::{Argument, Batch, Sample, Sink, Slice, Track};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::collections::HashMap;
use std::io::{self, Write};

/// Fields of `TracePacket`.
pub(crate) mod packet {
    pub(crate) const CLOCK_SNAPSHOT: u64 = 6;
    pub(crate) const TIMESTAMP: u64 = 8;
    pub(crate) const SEQUENCE: u64 = 10;
    pub(crate) const TRACK_EVENT: u64 = 11;
    pub(crate) const INTERNED_DATA: u64 = 12;
    pub(crate) const SEQUENCE_FLAGS: u64 = 13;
    pub(crate) const COMPRESSED_PACKETS: u64 = 50;
    pub(crate) const TIMESTAMP_CLOCK: u64 = 58;
    pub(crate) const DEFAULTS: u64 = 59;
    pub(crate) const TRACK_DESCRIPTOR: u64 = 60;
    pub(crate) const PROCESS_TREE: u64 = 2;
    pub(crate) const PERF_SAMPLE: u64 = 66;
}

/// `Trace.packet`.
pub(crate) const PACKET: u64 = 1;
/// The one writer of packets.
pub(crate) const SEQUENCE: u64 = 1;
pub(crate) const STATE_CLEARED: u64 = 1;
pub(crate) const NEEDS_STATE: u64 = 2;
/// `BUILTIN_CLOCK_MONOTONIC`.
pub(crate) const MONOTONIC: u64 = 3;
/// The sequence's clock, whose times are differences from the one before.
const DIFFERENCES: u64 = 64;
/// Fields of `InternedData`, by what is interned; each text is field 2 of its message.
const CATEGORIES: u64 = 1;
const EVENT_NAMES: u64 = 2;
const ARGUMENT_NAMES: u64 = 3;
const ARGUMENT_TEXTS: u64 = 29;

/// Packets are compressed in pieces of this many bytes.
pub(crate) const BLOCK: usize = 1 << 19;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// Texts by number, from 1.
#[derive(Debug)]
struct Interner {
    field: u64,
    ids: HashMap<Box<str>, u64>,
}

impl Interner {
    fn new(field: u64) -> Self {
        Self { field, ids: HashMap::new() }
    }

    /// The number of a text; a new one is put down in `news`.
    fn id(&mut self, text: &str, news: &mut Message) -> u64 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.ids.len() as u64 + 1;
        self.ids.insert(text.into(), id);
        news.message(self.field, |entry| {
            entry.uint(1, id).bytes(2, text.as_bytes());
        });
        id
    }
}

/// Writes a Perfetto trace.
#[derive(Debug)]
pub(super) struct Perfetto<W> {
    out: W,
    block: Message,
    packet: Message,
    news: Message,
    event: Message,
    categories: Interner,
    names: Interner,
    argument_names: Interner,
    texts: Interner,
    /// The time of the packet before.
    last: Option<u64>,
}

impl<W: Write> Perfetto<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            block: Message::default(),
            packet: Message::default(),
            news: Message::default(),
            event: Message::default(),
            categories: Interner::new(CATEGORIES),
            names: Interner::new(EVENT_NAMES),
            argument_names: Interner::new(ARGUMENT_NAMES),
            texts: Interner::new(ARGUMENT_TEXTS),
            last: None,
        }
    }

    fn begin(&mut self, time: u64, slice: &Slice, kind: u64) -> io::Result<()> {
        let Self { event, news, categories, names, argument_names, texts, .. } = self;
        event.clear();
        event.uint(9, kind).uint(11, slice.track);
        event.uint(10, names.id(&slice.name, news));
        event.uint(3, categories.id(slice.category, news));
        for (name, value) in &slice.arguments {
            let name = argument_names.id(name, news);
            let text = if let Argument::Text(text) = value { texts.id(text, news) } else { 0 };
            event.message(4, |annotation| {
                annotation.uint(1, name);
                match value {
                    Argument::Text(_) => annotation.uint(17, text),
                    Argument::Int(n) => annotation.int(4, *n),
                };
            });
        }
        for flow in &slice.flows_out {
            event.fixed64(47, *flow);
        }
        for flow in &slice.flows_in {
            event.fixed64(48, *flow);
        }
        self.event(time)
    }

    fn end(&mut self, time: u64, slice: &Slice) -> io::Result<()> {
        self.event.clear();
        self.event.uint(9, SLICE_END).uint(11, slice.track);
        self.event(time)
    }

    fn sample(&mut self, sample: &Sample) -> io::Result<()> {
        self.event.clear();
        self.event.uint(9, COUNTER).uint(11, sample.track).double(44, sample.value);
        self.event(sample.time)
    }

    /// Writes the event that was made ready.
    fn event(&mut self, time: u64) -> io::Result<()> {
        let before = match self.last {
            Some(last) => last,
            None => self.start(time)?,
        };
        self.packet.clear();
        match time.checked_sub(before) {
            Some(since) => {
                self.packet.uint(packet::TIMESTAMP, since);
                self.last = Some(time);
            }
            // Differences go forward only: this one has its time in full, and the next one counts from the last.
            None => {
                self.packet.uint(packet::TIMESTAMP, time).uint(packet::TIMESTAMP_CLOCK, MONOTONIC);
            }
        }
        self.packet.uint(packet::SEQUENCE_FLAGS, NEEDS_STATE);
        if !self.news.as_bytes().is_empty() {
            self.packet.bytes(packet::INTERNED_DATA, self.news.as_bytes());
            self.news.clear();
        }
        self.packet.bytes(packet::TRACK_EVENT, self.event.as_bytes());
        self.write_packet()
    }

    /// The first packet: clocks, and the defaults of packets.
    fn start(&mut self, time: u64) -> io::Result<u64> {
        self.packet.clear();
        self.packet.uint(packet::SEQUENCE_FLAGS, STATE_CLEARED);
        self.packet.message(packet::CLOCK_SNAPSHOT, |snapshot| {
            snapshot.message(1, |clock| {
                clock.uint(1, MONOTONIC).uint(2, time);
            });
            snapshot.message(1, |clock| {
                clock.uint(1, DIFFERENCES).uint(2, time).uint(3, 1);
            });
            snapshot.uint(2, MONOTONIC);
        });
        self.packet.message(packet::DEFAULTS, |defaults| {
            defaults.uint(packet::TIMESTAMP_CLOCK, DIFFERENCES);
        });
        self.write_packet()?;
        Ok(time)
    }

    fn write_packet(&mut self) -> io::Result<()> {
        self.packet.uint(packet::SEQUENCE, SEQUENCE);
        self.block.bytes(PACKET, self.packet.as_bytes());
        if self.block.as_bytes().len() >= BLOCK { self.write_block() } else { Ok(()) }
    }

    fn write_block(&mut self) -> io::Result<()> {
        let whole = compressed(&self.block)?;
        self.block.clear();
        self.out.write_all(whole.as_bytes())
    }
}

/// Packets, deflated together: a part of a trace.
pub(crate) fn compressed(packets: &Message) -> io::Result<Message> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(packets.as_bytes())?;
    let deflated = encoder.finish()?;
    let mut whole = Message::default();
    whole.message(PACKET, |packet| {
        packet.bytes(packet::COMPRESSED_PACKETS, &deflated);
    });
    Ok(whole)
}

/// In the order of time; at one time ends come first, then the longest slices.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    End,
    Sample,
    Begin(std::cmp::Reverse<u64>),
}

impl<W: Write> Sink for Perfetto<W> {
    fn track(&mut self, track: &Track) -> io::Result<()> {
        self.packet.clear();
        self.packet.message(packet::TRACK_DESCRIPTOR, |descriptor| {
            descriptor.uint(1, track.id);
            match track.parent {
                Some(parent) => {
                    descriptor.bytes(2, track.name.as_bytes()).uint(5, parent).uint(12, u64::from(track.rank));
                }
                None => {
                    descriptor.message(3, |process| {
                        process.uint(1, u64::from(track.pid)).bytes(6, track.name.as_bytes());
                    });
                }
            }
            if let Some(unit) = track.counter {
                descriptor.message(8, |counter| {
                    counter.bytes(6, unit.as_bytes());
                });
            }
            // Children in the order of their ranks.
            descriptor.uint(11, 3);
        });
        self.write_packet()
    }

    fn batch(&mut self, batch: &Batch) -> io::Result<()> {
        let mut moments: Vec<(u64, Moment, usize)> = Vec::with_capacity(2 * batch.slices.len() + batch.samples.len());
        for (index, slice) in batch.slices.iter().enumerate() {
            moments.push((slice.start, Moment::Begin(std::cmp::Reverse(slice.end)), index));
            if slice.end > slice.start {
                moments.push((slice.end, Moment::End, index));
            }
        }
        moments.extend(batch.samples.iter().enumerate().map(|(index, sample)| (sample.time, Moment::Sample, index)));
        moments.sort_unstable();
        for (time, moment, index) in moments {
            match (moment, batch.slices.get(index), batch.samples.get(index)) {
                (Moment::Begin(_), Some(slice), _) => {
                    self.begin(time, slice, if slice.end > slice.start { SLICE_BEGIN } else { INSTANT })?;
                }
                (Moment::End, Some(slice), _) => self.end(time, slice)?,
                (Moment::Sample, _, Some(sample)) => self.sample(sample)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.block.as_bytes().is_empty() {
            self.write_block()?;
        }
        self.out.flush()
    }
}
