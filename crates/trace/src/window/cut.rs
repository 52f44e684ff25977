//! One trace of a time within the segments of a recording: its records are those that lie within, and counts of the
//! whole recording (losses, overhead, samples) become those of that time.

use super::carried::{Carried, uncounted};
use super::references::References;
use crate::meta::Meta;
use crate::reader::{Item, TraceReader};
use crate::record::RecordView;
use crate::writer::TraceWriter;
use profinfer_diagnostics::Diagnostics;
use profinfer_schema::{End, Kept, Loss, Notice, Origin, Overhead};
use std::collections::HashMap;
use std::io::{self, Read, Write};

/// What is cut out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Part {
    /// From this time on, ns of CLOCK_MONOTONIC.
    pub from: u64,
    /// Up to this one.
    pub to: u64,
    /// Why, where it is more than what another part is compared with.
    pub kept: Option<Kept>,
}

/// What has been cut out.
#[derive(Debug)]
pub struct Cut<W> {
    /// The output.
    pub output: W,
    /// Records within the time; those that they only refer to are not counted.
    pub records: u64,
}

/// Cuts a part out of consecutive segments; `None` where there is none. A segment that ends in the middle is read up to
/// there.
///
/// # Errors
/// The output's; `InvalidData` where a segment is no trace.
pub fn cut<R: Read, W: Write>(
    segments: impl IntoIterator<Item = R>,
    part: &Part,
    output: W,
) -> io::Result<Option<Cut<W>>> {
    let mut segments = segments.into_iter();
    let Some(first) = segments.next() else { return Ok(None) };
    let mut reader = open(first)?;
    let mut cutter = Cutter::new(part, reader.meta(), output)?;
    cutter.segment(&mut reader, false)?;
    let mut last = reader.into_meta();
    for segment in segments {
        let mut reader = open(segment)?;
        cutter.segment(&mut reader, true)?;
        last = reader.into_meta();
    }
    cutter.finish(&last).map(Some)
}

fn open<R: Read>(segment: R) -> io::Result<TraceReader<R>> {
    let message = |problems: &Diagnostics| problems.0.first().map_or_else(String::new, |first| first.message.clone());
    let mut reader =
        TraceReader::new(segment).map_err(|problems| io::Error::new(io::ErrorKind::InvalidData, message(&problems)))?;
    reader.remember_notices(1);
    Ok(reader)
}

/// A count since the start of the recording, as it was before the part and as it is at the part's end.
#[derive(Debug, Default)]
struct Since<T> {
    before: T,
    last: T,
}

/// The numbers of a thread's records.
#[derive(Debug)]
struct Numbers {
    lowered_by: u32,
    /// It has a record within.
    is_within: bool,
}

struct Cutter<'p, W> {
    part: &'p Part,
    writer: TraceWriter<W>,
    references: References,
    carried: Carried,
    /// What was there before the part was written.
    has_begun: bool,
    /// The latest end of a record so far.
    seen: u64,
    numbers: HashMap<u32, Numbers>,
    records: u64,
    losses: Since<Vec<Loss>>,
    /// Losses were counted after the part.
    is_after: bool,
    overhead: Since<Option<Overhead>>,
    samples: u64,
    lost_samples: Since<u64>,
}

impl<'p, W: Write> Cutter<'p, W> {
    fn new(part: &'p Part, meta: &Meta, output: W) -> io::Result<Self> {
        let origin = Origin {
            wall_clock_ns: (meta.origin.wall_clock_ns + part.from).saturating_sub(meta.origin.monotonic_ns),
            monotonic_ns: part.from,
            kept: part.kept.clone(),
            ..meta.origin.clone()
        };
        Ok(Self {
            part,
            writer: TraceWriter::new(output, &origin, &meta.schema)?,
            references: References::new(meta),
            carried: Carried::new(&meta.schema),
            has_begun: false,
            seen: 0,
            numbers: HashMap::new(),
            records: 0,
            losses: Since::default(),
            is_after: false,
            overhead: Since::default(),
            samples: 0,
            lost_samples: Since::default(),
        })
    }

    /// Takes all of a segment; of a later one not what it begins with, which is known by then.
    fn segment<R: Read>(&mut self, reader: &mut TraceReader<R>, is_later: bool) -> io::Result<()> {
        let mut is_known = is_later;
        while let Some(item) = reader.next() {
            let (brought_sites, is_losses) = (matches!(item, Item::Sites { .. }), matches!(item, Item::Losses(_)));
            if !is_known {
                self.take(&item)?;
            }
            is_known &= !is_losses;
            if brought_sites {
                self.references.sites(&mut self.writer, reader.meta())?;
            }
            if is_losses {
                self.samples_lost(reader.meta().sampling.as_ref().map_or(0, |sampling| sampling.lost));
            }
        }
        Ok(())
    }

    /// So many samples are lost by now.
    fn samples_lost(&mut self, lost: u64) {
        if self.seen < self.part.from {
            self.lost_samples.before = lost;
        }
        if !self.is_after {
            self.lost_samples.last = lost;
        }
    }

    fn take(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Record(record) => self.record(record),
            Item::Notice(notice) => self.notice(notice),
            Item::Losses(losses) => {
                if self.seen < self.part.from {
                    self.losses.before = losses.to_vec();
                }
                // Those between two times that they were counted are of the part.
                if !self.is_after {
                    self.losses.last = losses.to_vec();
                    self.is_after = self.seen > self.part.to;
                }
                Ok(())
            }
            Item::Samples(samples) => {
                let within = samples.iter().filter(|of| (self.part.from..self.part.to).contains(&of.time));
                let within: Vec<_> = within.cloned().collect();
                if within.is_empty() {
                    return Ok(());
                }
                self.begin()?;
                self.samples += within.len() as u64;
                within.into_iter().try_for_each(|sample| self.writer.sample(sample))
            }
            Item::Sites { .. } | Item::End(_) => Ok(()),
        }
    }

    fn record(&mut self, record: &RecordView<'_>) -> io::Result<()> {
        let header = record.header();
        let end = header.start.saturating_add(header.duration);
        let is_counted = header.seq != 0;
        if is_counted {
            self.seen = self.seen.max(end);
        }
        let is_within = header.start >= self.part.from && end <= self.part.to;
        let lowered_by = if is_counted { self.lowered_by(header.tid, header.seq, is_within) } else { 0 };
        if is_within {
            self.begin()?;
            self.records += u64::from(is_counted);
            let mut bytes = record.bytes().to_vec();
            super::number(&mut bytes, header.seq.wrapping_sub(lowered_by));
            return super::push(&mut self.writer, &bytes);
        }
        // Something older that later records refer to.
        let is_carried = end <= self.part.to && self.carried.record(record);
        if is_carried && self.has_begun { super::push(&mut self.writer, &uncounted(record.bytes())) } else { Ok(()) }
    }

    /// Threads number their records anew: what is left out makes no gap, and what was lost still does.
    fn lowered_by(&mut self, thread: u32, seq: u32, is_within: bool) -> u32 {
        let first = || Numbers { lowered_by: seq.wrapping_sub(1), is_within: false };
        let numbers = self.numbers.entry(thread).or_insert_with(first);
        match (is_within, numbers.is_within) {
            (true, _) => numbers.is_within = true,
            (false, true) => numbers.lowered_by = numbers.lowered_by.wrapping_add(1),
            (false, false) => numbers.lowered_by = seq,
        }
        numbers.lowered_by
    }

    fn notice(&mut self, notice: &Notice) -> io::Result<()> {
        if notice.time <= self.part.from {
            self.overhead.before = notice.overhead.clone().or(self.overhead.before.take());
            if !self.has_begun {
                self.carried.notice(notice);
            }
            Ok(())
        } else if notice.time <= self.part.to {
            self.overhead.last = notice.overhead.clone().or(self.overhead.last.take());
            self.begin()?;
            self.writer.notice(notice)
        } else {
            Ok(())
        }
    }

    /// Before the first item within: what it may refer to.
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        self.carried.write(&mut self.writer, self.part.from)
    }

    fn finish(mut self, meta: &Meta) -> io::Result<Cut<W>> {
        self.begin()?;
        let lost = self.lost_samples.last.saturating_sub(self.lost_samples.before);
        self.references.sampling(&mut self.writer, meta, Some((self.samples + lost, lost)))?;
        let before = |of: &Loss| {
            let same = self.losses.before.iter().find(|one| (&one.record, one.kind) == (&of.record, of.kind));
            same.map_or(0, |one| one.count)
        };
        let losses =
            self.losses.last.iter().map(|of| Loss { count: of.count.saturating_sub(before(of)), ..of.clone() });
        let losses: Vec<Loss> = losses.filter(|of| of.count > 0).collect();
        self.writer.losses(&losses)?;
        let Since { before, last } = self.overhead;
        let end = End {
            time: self.part.to,
            reason: "kept by the flight recorder".to_owned(),
            overhead: last.map(|last| before.map_or(last.clone(), |before| between(&before, last))),
            ..End::default()
        };
        Ok(Cut { output: self.writer.finish(&end)?, records: self.records })
    }
}

/// The account of the time between two.
fn between(before: &Overhead, last: Overhead) -> Overhead {
    Overhead {
        steps: last.steps.saturating_sub(before.steps),
        step_ns: last.step_ns.saturating_sub(before.step_ns),
        unseen_step_ns: last.unseen_step_ns.map(|ns| ns.saturating_sub(before.unseen_step_ns.unwrap_or(0))),
        detailed_step_ns: last.detailed_step_ns.saturating_sub(before.detailed_step_ns),
        base_ns: last.base_ns.saturating_sub(before.base_ns),
        detail_ns: last.detail_ns.saturating_sub(before.detail_ns),
        ..last
    }
}
