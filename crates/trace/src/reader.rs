//! Reads a trace as a stream, in constant memory. Whatever the bytes are, it gives what is readable and reports what
//! could not; it never panics, and needs no more memory than the bounds of `format` allow.

use super::ahead::Ahead;
use super::block::Block;
use super::format::FrameKind;
use super::frames::{Frame, Frames};
use super::layout::layouts;
use super::meta::{Meta, SitesFrame};
use super::part::PartView;
use super::pieces::{Piece, Pieces};
use super::record::RecordView;
use super::samples;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_schema::{End, EngineId, Loss, ModuleInfo, Notice, Sample, Site};
use serde::de::DeserializeOwned;
use std::io::Read;

/// What comes next in a trace.
#[derive(Debug, Clone, Copy)]
pub enum Item<'a> {
    /// A record.
    Record(RecordView<'a>),
    /// Modules and sites, or enumerations, were added here; [`Meta`] has all so far.
    Sites {
        /// The modules that are new.
        modules: &'a [ModuleInfo],
        /// The sites that are new.
        sites: &'a [Site],
    },
    /// The losses since the start, as they stand here.
    Losses(&'a [Loss]),
    /// A state of the recording changed.
    Notice(&'a Notice),
    /// Timer samples: taken before the records that come after them.
    Samples(&'a [Sample]),
    /// The recording ended.
    End(&'a End),
}

/// What a metadata frame brought, for the item that shows it.
enum News {
    Sites(usize, usize),
    Losses,
    Notice,
    Samples,
    End,
}

/// Where pieces come from.
enum Source<R> {
    Here(Box<Pieces<R>>),
    Ahead(Ahead),
}

impl<R: Read> Source<R> {
    fn next(&mut self, block: Block) -> Piece {
        match self {
            Self::Here(pieces) => pieces.next(block),
            Self::Ahead(ahead) => ahead.next(block),
        }
    }
}

/// Reads a trace from `R`, which need not be buffered.
///
/// ```
/// use profinfer_trace::{End, Item, Origin, Schema, TraceReader, TraceWriter};
///
/// let writer = TraceWriter::new(Vec::new(), &Origin::default(), &Schema::default())?;
/// let file = writer.finish(&End { reason: "interrupted".into(), ..End::default() })?;
///
/// let mut reader = TraceReader::new(&file[..]).map_err(|problems| format!("{problems:?}"))?;
/// while let Some(item) = reader.next() {
///     match item {
///         Item::Record(record) => println!("{} {}", record.kind().name, record.field(0)),
///         Item::End(end) => assert_eq!(end.reason, "interrupted"),
///         _ => {}
///     }
/// }
/// assert!(reader.meta().problems.0.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceReader<R> {
    source: Source<R>,
    block: Block,
    /// The next record of the block, and where it starts.
    next: usize,
    at: usize,
    /// Bytes of the input up to the block's end.
    offset: u64,
    meta: Meta,
    /// Of the last frame of samples.
    samples: Vec<Sample>,
    /// The last one.
    notice: Notice,
    has_schema: bool,
    /// All was read, and problems of the end were reported.
    is_at_end: bool,
    /// The only one of several engines that is wanted.
    part: Option<PartView>,
    /// Notices that stay in the metadata; all, where left out.
    remembered: Option<usize>,
}

impl<R> std::fmt::Debug for TraceReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceReader").field("records", &self.meta.records).finish_non_exhaustive()
    }
}

impl<R: Read> TraceReader<R> {
    /// Reads up to the schema.
    ///
    /// # Errors
    /// The input is not a trace, too new, or has no readable schema: nothing of it can be read.
    pub fn new(input: R) -> Result<Self, Diagnostics> {
        let (frames, version) = Frames::new(input)?;
        let source = Source::Here(Box::new(Pieces::new(frames)));
        let meta = Meta::of_version(version);
        let (block, has_schema, is_at_end) = (Block::default(), false, false);
        let mut reader = Self {
            source,
            block,
            next: 0,
            at: 0,
            offset: 0,
            meta,
            samples: Vec::new(),
            notice: Notice::default(),
            has_schema,
            is_at_end,
            part: None,
            remembered: None,
        };
        while !reader.has_schema {
            match reader.source.next(Block::default()) {
                Piece::Metadata(frame, payload) => {
                    reader.take_metadata(frame, &payload);
                }
                Piece::Damaged(problem) => reader.meta.problem(problem),
                Piece::Events(_) => return Err(reader.without_schema(None)),
                Piece::End(why) => return Err(reader.without_schema(why)),
            }
        }
        Ok(reader)
    }

    /// The next item; `None` at the end of the trace, or where no more of it can be read. The item borrows from the
    /// reader: take what you need of it before you ask for the next.
    #[allow(clippy::should_implement_trait)] // An `Iterator`'s items cannot borrow from it.
    pub fn next(&mut self) -> Option<Item<'_>> {
        while self.next >= self.block.ends.len() {
            (self.next, self.at) = (0, 0);
            match self.source.next(std::mem::take(&mut self.block)) {
                Piece::Events(block) => {
                    self.offset = block.file_end;
                    self.block = block;
                }
                Piece::Metadata(frame, payload) => {
                    if let Some(news) = self.take_metadata(frame, &payload) {
                        return Some(self.item(&news));
                    }
                }
                Piece::Damaged(problem) => self.meta.problem(problem),
                Piece::End(why) => {
                    self.finish(why);
                    return None;
                }
            }
        }
        let (start, end) = (self.at, self.block.ends[self.next]);
        self.next += 1;
        self.at = end;
        let bytes = &self.block.bytes[start..end];
        let number = u16::from_le_bytes([bytes[0], bytes[1]]);
        // Of several engines' records those of the one that is wanted, and the kernel's.
        self.meta.records += u64::from(!self.meta.schema.others.contains(&number));
        let kind = &self.meta.schema.records[usize::from(number)];
        Some(Item::Record(RecordView::new(bytes, kind, &self.meta)))
    }

    /// Reads to the end, giving each record to `visit`; stops early if it returns `false`.
    pub fn for_each_record(&mut self, mut visit: impl FnMut(RecordView<'_>) -> bool) {
        while let Some(item) = self.next() {
            if let Item::Record(record) = item
                && !visit(record)
            {
                return;
            }
        }
    }

    /// Has the trace seen as one of the engines that were recorded together: call it before the first item is asked
    /// for. Without it names are identifiers that no two engines share.
    pub fn only(&mut self, engine: EngineId) {
        let view = PartView::new(engine, &self.meta.origin, &mut self.meta.schema);
        view.see_schema(&mut self.meta);
        self.part = Some(view);
    }

    /// Has only the last so many notices remembered in [`Meta::notices`], for a recording that goes on for days: each is
    /// still given as an item.
    pub fn remember_notices(&mut self, last: usize) {
        self.remembered = Some(last.max(1));
    }

    /// Bytes of the input up to the end of the last block of records that an item was taken from: how far the reading is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The trace's metadata, as far as it has been read.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The same, for keeping.
    pub fn into_meta(self) -> Meta {
        self.meta
    }

    /// Stores a metadata frame; `None` where that is nothing new, or wrong.
    fn take_metadata(&mut self, frame: Frame, payload: &[u8]) -> Option<News> {
        match self.read_metadata(frame.kind, payload) {
            Ok(news) => news,
            Err(what) => {
                self.meta.problem(frame.problem(&what));
                None
            }
        }
    }

    fn read_metadata(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Option<News>, String> {
        Ok(Some(match kind {
            FrameKind::Origin => {
                self.meta.origin = json(payload)?;
                return Ok(None);
            }
            FrameKind::Schema if self.has_schema => return Err("the trace has a second schema".into()),
            FrameKind::Schema => {
                let schema = json(payload)?;
                let layouts = layouts(&schema)?;
                if let Source::Here(pieces) = &mut self.source {
                    pieces.lay_out(layouts);
                }
                self.meta.schema = schema;
                self.has_schema = true;
                return Ok(None);
            }
            FrameKind::Sites => {
                self.meta.count_sites(payload.len())?;
                let (modules, sites) = self.meta.add_sites(json::<SitesFrame>(payload)?)?;
                if let Some(part) = &self.part {
                    part.see_enums(&mut self.meta);
                    part.see_modules(self.meta.modules.get_mut(modules..).unwrap_or_default());
                    part.see_sites(self.meta.sites.get_mut(sites..).unwrap_or_default());
                }
                News::Sites(modules, sites)
            }
            FrameKind::Losses => {
                self.meta.losses = json(payload)?;
                if let Some(part) = &self.part {
                    part.see_losses(&mut self.meta);
                }
                News::Losses
            }
            FrameKind::Notice => {
                self.notice = json(payload)?;
                self.meta.remember(&self.notice, self.remembered);
                News::Notice
            }
            FrameKind::Samples => {
                self.samples = samples::decode(payload)?;
                self.meta.samples += self.samples.len() as u64;
                News::Samples
            }
            FrameKind::Sampling => {
                self.meta.add_sampling(json(payload)?)?;
                return Ok(None);
            }
            FrameKind::End => {
                let end: End = json(payload)?;
                if self.meta.origin.roofline.is_none() && end.roofline.is_some() {
                    self.meta.origin.roofline.clone_from(&end.roofline);
                }
                self.meta.end = Some(end);
                if let Some(part) = &self.part {
                    part.see_end(&mut self.meta);
                }
                News::End
            }
            FrameKind::Events => return Err("it is not metadata".into()),
        }))
    }

    fn item(&self, news: &News) -> Item<'_> {
        const NO_END: &End = &End {
            time: 0,
            reason: String::new(),
            exit_code: None,
            signal: None,
            records: 0,
            overhead: None,
            stolen: None,
            roofline: None,
            left_out: Vec::new(),
            sources: Vec::new(),
        };
        match news {
            News::Sites(modules, sites) => Item::Sites {
                modules: self.meta.modules.get(*modules..).unwrap_or_default(),
                sites: self.meta.sites.get(*sites..).unwrap_or_default(),
            },
            News::Losses => Item::Losses(&self.meta.losses),
            News::Notice => Item::Notice(&self.notice),
            News::Samples => Item::Samples(&self.samples),
            News::End => Item::End(self.meta.end.as_ref().unwrap_or(NO_END)),
        }
    }

    /// Says that the trace is cut, where it is.
    fn finish(&mut self, why: Option<Diagnostic>) {
        if std::mem::replace(&mut self.is_at_end, true) {
            return;
        }
        let message = "the trace is truncated: the end of the recording is missing";
        let cut = || self.meta.end.is_none().then(|| Diagnostic::warning(Code::TraceCut, message));
        if let Some(problem) = why.or_else(cut) {
            self.meta.problem(problem);
        }
    }

    fn without_schema(mut self, why: Option<Diagnostic>) -> Diagnostics {
        why.into_iter().for_each(|problem| self.meta.problem(problem));
        let message = "the trace's schema is unreadable, so no record can be read";
        let code = if self.meta.problems.0.is_empty() { Code::TraceCut } else { Code::TraceCorrupt };
        self.meta.problem(Diagnostic::error(code, message).hint("record again"));
        self.meta.problems
    }
}

impl<R: Read + Send + 'static> TraceReader<R> {
    /// Starts a thread to read and decode what follows, some blocks ahead; as before where there can be none.
    #[must_use]
    pub fn ahead(mut self) -> Self {
        self.source = match self.source {
            Source::Here(pieces) => match Ahead::start(pieces) {
                Ok(ahead) => Source::Ahead(ahead),
                Err(pieces) => Source::Here(pieces),
            },
            ahead @ Source::Ahead(_) => ahead,
        };
        self
    }
}

fn json<T: DeserializeOwned>(payload: &[u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| error.to_string())
}
