//! The site in a function, by all of its code: compilers put what is seldom executed elsewhere, whence it may jump back.

use super::Placer;
use crate::site::{self, Code, Needs, Piece};
use profinfer_binary::Function;
use profinfer_probeset::path::NamePattern;
use std::collections::BTreeMap;

/// Pieces of one function, those of others that it leads to among them.
const MOST_PIECES: usize = 32;

impl Placer<'_> {
    /// The site in a function, or the place that the spec gives by itself, as it is.
    pub(super) fn choose(&self, file: usize, function: &Function, extra: u64, needs: &Needs) -> Option<site::Chosen> {
        let size = match function.size {
            0 => self.size_by_unwinding(file, function.file_offset),
            size => Some(size),
        };
        // Enough to see the jumps of most functions.
        let length = size.map_or(site::CODE_OF_UNKNOWN_SIZE, |size| usize::try_from(size).unwrap_or(usize::MAX));
        let bytes = self.target.code(file, function.file_offset, length.min(site::MAX_CODE));
        let (arch, file_offset) = (self.plan.arch, function.file_offset);
        let data: site::Data<'_> = &|distance, len| self.target.near(file, file_offset, distance, len);
        let code = Code { is_cut: length > site::MAX_CODE, ..Code::new(arch, &bytes, file_offset, data) };
        let costs = &self.plan.costs;
        if extra > 0 {
            return Some(site::at(code, extra, costs));
        }
        let chosen = site::choose(code, needs, costs)?;
        if chosen.is_settled {
            return Some(chosen);
        }
        let mut apart = self.named_pieces(file, function);
        let mut has_unread = false;
        if size.is_some() {
            let targets = site::leads_out(Code { apart: &apart, ..code });
            let others = self.pieces_at(file, function, &targets);
            has_unread = others.is_none();
            apart.extend(others.into_iter().flatten());
        }
        if apart.is_empty() && !has_unread {
            return Some(chosen);
        }
        site::choose(Code { apart: &apart, has_unread, ..code }, needs, costs)
    }

    fn size_by_unwinding(&self, file: usize, file_offset: u64) -> Option<u64> {
        let range = self.target.unwind_range(file, file_offset)?;
        (range.start == file_offset).then(|| range.end - range.start)
    }

    /// The piece that gcc and clang name.
    fn named_pieces(&self, file: usize, function: &Function) -> Vec<Piece> {
        let pieces = self.target.functions(file, &NamePattern(format!("{}.cold", function.symbol)));
        let read =
            |piece: &Function| Piece { is_own: true, ..self.piece(file, function, piece.file_offset, piece.size) };
        pieces.first().map(read).into_iter().collect()
    }

    fn piece(&self, file: usize, function: &Function, start: u64, size: u64) -> Piece {
        let length = usize::try_from(size).unwrap_or(usize::MAX).min(site::MAX_CODE);
        let at = start.wrapping_sub(function.file_offset).cast_signed();
        Piece { bytes: self.target.code(file, start, length), at, is_own: false }
    }

    /// What a function's jumps lead to, by the unwind tables, which stripping leaves: pieces of it, and functions that it
    /// ends with calls of. `None` where a piece may be unread.
    fn pieces_at(&self, file: usize, function: &Function, targets: &[i64]) -> Option<Vec<Piece>> {
        let targets: Vec<u64> = targets.iter().filter_map(|at| function.file_offset.checked_add_signed(*at)).collect();
        if targets.is_empty() {
            return Some(Vec::new());
        }
        // A compiler writes tables for all of a function or for none of it.
        if self.target.unwind_range(file, function.file_offset).is_none() {
            let functions = self.target.functions(file, &NamePattern("*".to_owned()));
            let is_start = |target: &u64| functions.iter().any(|function| function.file_offset == *target);
            return targets.iter().all(is_start).then(Vec::new);
        }
        let ranges = targets.iter().filter_map(|target| self.target.unwind_range(file, *target));
        let ranges: BTreeMap<u64, u64> = ranges.map(|range| (range.start, range.end)).collect();
        let is_readable = ranges.len() <= MOST_PIECES;
        let read = |(start, end): (&u64, &u64)| self.piece(file, function, *start, end.saturating_sub(*start));
        is_readable.then(|| ranges.iter().map(read).collect())
    }
}
