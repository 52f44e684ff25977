//! What a trace's frames come to, one after the other: metadata as stored, records decoded. Nothing here depends on what
//! is made of the records, so that a separate thread can do it (`ahead`).

use super::block::{Block, BlockDecoder};
use super::format::FrameKind;
use super::frames::{Frame, Frames};
use super::layout::Layout;
use profinfer_diagnostics::Diagnostic;
use std::io::Read;

/// What comes next in a trace.
pub(super) enum Piece {
    /// A payload of metadata.
    Metadata(Frame, Vec<u8>),
    /// Records.
    Events(Block),
    /// Something that is left out.
    Damaged(Diagnostic),
    /// Nothing more, with the reason if there is one.
    End(Option<Diagnostic>),
}

/// Reads pieces where they are asked for.
pub(super) struct Pieces<R> {
    frames: Frames<R>,
    layouts: Vec<Layout>,
    decoder: BlockDecoder,
}

impl<R: Read> Pieces<R> {
    pub(super) fn new(frames: Frames<R>) -> Self {
        Self { frames, layouts: Vec::new(), decoder: BlockDecoder::default() }
    }

    /// Says how records are laid out, before the first of them.
    pub(super) fn lay_out(&mut self, layouts: Vec<Layout>) {
        self.layouts = layouts;
    }

    /// The next piece; a block of records reuses the buffers of another.
    pub(super) fn next(&mut self, mut block: Block) -> Piece {
        match self.frames.next() {
            None => Piece::End(self.frames.why_it_ends()),
            Some(Err(problem)) => Piece::Damaged(problem),
            Some(Ok(frame)) if frame.kind == FrameKind::Events => {
                block.file_end = self.frames.offset();
                match self.decoder.decode(self.frames.payload(), &self.layouts, &mut block) {
                    Ok(()) => Piece::Events(block),
                    Err(what) => Piece::Damaged(frame.problem(what)),
                }
            }
            Some(Ok(frame)) => Piece::Metadata(frame, self.frames.payload().to_vec()),
        }
    }
}
