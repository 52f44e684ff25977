//! Operators on threads that run no steps: of which of several steps that overlap they are, and shares, of which nothing
//! but their times was recorded: of which operator.

use super::bucket::{RawGraph, RawOperator};
use super::findings::Findings;
use super::nesting::open_at;
use super::pending::{ClosedStep, Process};
use super::threads::{SEVERAL, Threads};
use rustc_hash::{FxHashMap, FxHashSet};

/// No operator.
pub(super) const NONE: u32 = u32::MAX;
/// Graphs of a step that are searched for an operator of another.
const MAX_OPEN_GRAPHS: usize = 64;
/// Operators that are searched for one that is open at a time.
const MAX_OPEN: usize = 256;

/// When a thread computed something, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Spanned {
    thread: u32,
    start: u64,
    end: u64,
}

impl Spanned {
    fn of(operator: &RawOperator) -> Self {
        Self { thread: operator.thread, start: operator.start, end: operator.end }
    }
}

/// Spans of operators that may have shares on other threads.
#[derive(Debug, Default)]
struct Open {
    /// By start, longer ones first.
    spans: Vec<Spanned>,
    /// The latest end of each and all before it.
    latest_end: Vec<u64>,
    /// Those of which their own thread computes shares, too.
    shared: FxHashSet<Spanned>,
}

impl Open {
    fn of(operators: &[RawOperator]) -> Self {
        let whole = operators.iter().filter(|operator| !operator.is_share);
        let mut spans: Vec<Spanned> = whole.map(Spanned::of).collect();
        spans.sort_unstable_by_key(|span| (span.start, std::cmp::Reverse(span.end), span.thread));
        let mut latest = 0;
        let latest_end = spans.iter().map(|span| {
            latest = latest.max(span.end);
            latest
        });
        let mut open = Self { latest_end: latest_end.collect(), spans, shared: FxHashSet::default() };
        let shares = operators.iter().filter(|operator| operator.is_share);
        let of_own_thread = |share: &RawOperator| open.at(share.start).into_iter().find(|of| of.thread == share.thread);
        open.shared = shares.filter_map(of_own_thread).collect();
        open
    }

    /// Each thread's innermost span that is open at a time.
    fn at(&self, time: u64) -> Vec<Spanned> {
        let mut found: Vec<Spanned> = Vec::new();
        for i in open_at(&self.spans, &self.latest_end, (time, MAX_OPEN), |span| (span.start, span.end)) {
            let span = self.spans[i];
            if found.iter().all(|of| of.thread != span.thread) {
                found.push(span);
            }
        }
        found
    }
}

/// The operator that a share is of, among those that are open: that on its own thread, else the only one, or that of the
/// thread whose operators' shares its thread computed before. `Err`: there are several.
fn operator_of(share: &RawOperator, open: &[Spanned], home: Option<u32>) -> Result<Option<Spanned>, ()> {
    let of = |thread: u32| open.iter().find(|open| open.thread == thread).copied();
    match open {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => of(share.thread).or_else(|| of(home?)).map(Some).ok_or(()),
    }
}

/// A share, and the operator that it is of.
#[derive(Debug, Clone, Copy)]
struct Placed {
    share: Spanned,
    of: Spanned,
}

/// For operators sorted by thread and start, the index of the operator that each share is of; empty where there are no
/// shares. Removed are shares of what was not recorded, and, counted, those that may be of several. Those on the operator's
/// own thread are removed, too: from their end on that thread waits for the others.
pub(super) fn assign(operators: &mut Vec<RawOperator>, threads: &mut Threads) -> (Vec<u32>, u64) {
    if !operators.iter().any(|operator| operator.is_share) {
        return (Vec::new(), 0);
    }
    let open = Open::of(operators);
    let (mut placed, mut own, mut ambiguous) = (Vec::new(), Vec::new(), 0);
    operators.retain_mut(|operator| {
        if !operator.is_share {
            return true;
        }
        let home = threads.home(operator.thread);
        let open = open.at(operator.start);
        let Ok(of) = operator_of(operator, &open, home) else {
            ambiguous += 1;
            return false;
        };
        let Some(of) = of else { return false };
        // The operator's thread waits for its shares; their threads may be delayed on their way out.
        operator.end = operator.end.min(of.end);
        let found = Placed { share: Spanned::of(operator), of };
        if of.thread == operator.thread {
            own.push(found);
            return false;
        }
        if open.len() == 1 {
            learn_home(&mut threads.get_mut(operator.thread).home, Some(of.thread));
        }
        placed.push(found);
        true
    });
    let waits = waits(&placed, &own);
    for operator in operators.iter_mut() {
        if let Some(waiting) = waits.get(&Spanned::of(operator)) {
            operator.waiting = *waiting;
            operator.end += if operator.is_share { *waiting } else { 0 };
        }
    }
    let mut of_shares = placed.into_iter();
    let index = |of: Spanned| {
        let first = operators.partition_point(|other| (other.thread, other.start) < (of.thread, of.start));
        let mut here = (first..operators.len()).take(MAX_OPEN).take_while(|at| operators[*at].start == of.start);
        here.find(|at| Spanned::of(&operators[*at]) == of && !operators[*at].is_share)
    };
    let of = operators.iter().map(|operator| {
        let placed = if operator.is_share { of_shares.next() } else { None };
        placed.and_then(|placed| index(placed.of)).and_then(|at| u32::try_from(at).ok()).unwrap_or(NONE)
    });
    (of.collect(), ambiguous)
}

/// How long each operator and share waits, where the operator's own thread has shares: each is a parallel section with the
/// others' shares beside it, which ends for all of them when the last one ends.
fn waits(placed: &[Placed], own: &[Placed]) -> FxHashMap<Spanned, u64> {
    let mut sections: FxHashMap<Spanned, Vec<Section>> = FxHashMap::default();
    for Placed { share, of } in own {
        sections.entry(*of).or_default().push(Section { own: *share, end: share.end, others: Vec::new() });
    }
    sections.values_mut().for_each(|sections| sections.sort_unstable_by_key(|section| section.own.start));
    for Placed { share, of } in placed {
        let Some(sections) = sections.get_mut(of) else { continue };
        // Threads may begin a little before the operator's own, or, called late, after it is done.
        let next = sections.partition_point(|section| section.own.start <= share.start);
        let beside = sections.iter_mut().skip(next.saturating_sub(1)).take(2);
        if let Some(section) = beside.min_by_key(|section| section.distance(share)) {
            section.end = section.end.max(share.end);
            section.others.push(*share);
        }
    }
    let mut waits = FxHashMap::default();
    for (operator, sections) in sections {
        let of_operator = sections.iter().map(|section| section.end.saturating_sub(section.own.end));
        waits.insert(operator, of_operator.fold(0, u64::saturating_add));
        for Section { end, mut others, .. } in sections {
            others.sort_unstable_by_key(|share| (share.thread, share.start));
            for (at, share) in others.iter().enumerate() {
                let next = others.get(at + 1).filter(|next| next.thread == share.thread);
                let until = next.map_or(end, |next| next.start.min(end));
                waits.insert(*share, until.saturating_sub(share.end));
            }
        }
    }
    waits
}

/// A time in which several threads compute parts of an operator.
struct Section {
    own: Spanned,
    end: u64,
    others: Vec<Spanned>,
}

impl Section {
    /// ns between a share and that of the operator's own thread.
    fn distance(&self, share: &Spanned) -> u64 {
        share.start.saturating_sub(self.own.end).max(self.own.start.saturating_sub(share.end))
    }
}

/// Operators on threads that run no steps were given to the first step around them. Where another step was going on then,
/// their graph decides, or the operator that a share is of: they are moved, or counted as ambiguous.
pub(super) fn rehome(step: &mut ClosedStep, process: &mut Process, threads: &Threads, findings: &mut Findings) {
    let (recent, waiting, header) = (&mut process.recent, &mut process.waiting, step.header);
    let mut others = recent.iter_mut().chain(waiting).filter(|other| other.overlaps(&header)).peekable();
    // Steps mostly come one after the other, and most engines have no shares.
    let has_shares = others.peek().is_some() && step.bucket.operators.iter().any(|operator| operator.is_share);
    let whole = |operators: &[RawOperator]| if has_shares { Open::of(operators) } else { Open::default() };
    let my_operators = whole(&step.bucket.operators);
    for other in others {
        // The thread, and whether what is open there has shares without doubt.
        let open = |graphs: &[RawGraph], operators: &Open, of: &RawOperator| {
            let here = |graph: &&RawGraph| graph.start <= of.start && of.start < graph.end;
            match of.is_share {
                true => operators.at(of.start).first().map(|open| (open.thread, operators.shared.contains(open))),
                false => graphs.iter().rev().take(MAX_OPEN_GRAPHS).find(here).map(|graph| (graph.thread, false)),
            }
        };
        let (mine, theirs, step_thread) = (&step.bucket.graphs, &other.bucket.graphs, step.thread);
        let their_operators = whole(&other.bucket.operators);
        let whose = |o: &RawOperator| match (open(mine, &my_operators, o), open(theirs, &their_operators, o)) {
            _ if o.thread == step_thread => Whose::Mine,
            (_, None) | (Some((_, true)), Some((_, false))) => Whose::Mine,
            (None, Some(_)) | (Some((_, false)), Some((_, true))) => Whose::Theirs,
            (Some((mine, _)), Some((theirs, _))) => match threads.get(o.thread).home {
                Some(home) if home == mine => Whose::Mine,
                Some(home) if home == theirs => Whose::Theirs,
                _ => Whose::Unclear,
            },
        };
        let leaves = |o: &mut RawOperator| match whose(o) {
            Whose::Mine => false,
            Whose::Theirs => true,
            Whose::Unclear => {
                // The time of a share would be wrong in either.
                *(if o.is_share { &mut findings.ambiguous_shares } else { &mut findings.ambiguous }) += 1;
                o.is_share
            }
        };
        let leaving: Vec<RawOperator> = step.bucket.operators.extract_if(.., leaves).collect();
        other.bucket.operators.extend(leaving.into_iter().filter(|o| whose(o) == Whose::Theirs));
    }
}

/// Of which of two steps an operator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Mine,
    Theirs,
    Unclear,
}

/// A thread that was seen with the graphs or operators of one other thread only is at home there.
pub(super) fn learn_home(home: &mut Option<u32>, thread: Option<u32>) {
    *home = match *home {
        None => thread,
        Some(of) if Some(of) == thread => thread,
        Some(_) => Some(SEVERAL),
    };
}
