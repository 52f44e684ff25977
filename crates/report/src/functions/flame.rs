//! Flame graphs as data: samples by phase, layer, operator and function; and lane time by phase, layer and operator.

use super::frames::{Frame, FrameKind, around, of_operator, places};
use super::model::callers;
use super::names::{Names, Symbolizer};
use super::tree::{Shown, Tree};
use indexmap::IndexSet;
use profinfer_analysis::{Catalogue, Divided, Phase, Profile, Statistics, group_digits};
use profinfer_schema::{CodePlace, Sampling};
use serde::Serialize;
use std::collections::HashMap;

/// Frames of a flame graph that are shown one by one.
const MOST_FRAMES: usize = 20_000;

/// A flame graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Flame {
    /// What weights are: `samples`, or `ns` of lane time.
    pub unit: &'static str,
    /// What it shows, in sentences.
    pub sentence: String,
    /// Frames: name, kind, and the file of a function.
    pub names: Vec<(String, &'static str, String)>,
    /// Of each row, the index of its name. The first row is everything; others are behind the row that they are in.
    pub name: Vec<usize>,
    /// Of each row, the index of the row that it is in.
    pub parent: Vec<usize>,
    /// Of each row, its weight with what is in it.
    pub weight: Vec<u64>,
}

impl Flame {
    fn new(unit: &'static str, sentence: String, tree: &Tree, most: usize) -> Self {
        let mut names: IndexSet<(String, &'static str, String)> = IndexSet::new();
        let (mut name, mut parent, mut weight) = (Vec::new(), Vec::new(), Vec::new());
        for row in tree.rows(most) {
            let entry = match row.what {
                Shown::Frame(frame) => (frame.name.clone(), frame.kind.as_str(), frame.module.clone()),
                Shown::Merged(1) => ("1 smaller frame".to_owned(), FrameKind::Other.as_str(), String::new()),
                Shown::Merged(frames) => {
                    let name = format!("{} smaller frames", group_digits(frames));
                    (name, FrameKind::Other.as_str(), String::new())
                }
            };
            name.push(names.insert_full(entry).0);
            parent.push(row.parent);
            weight.push(row.weight);
        }
        Self { unit, sentence, names: names.into_iter().collect(), name, parent, weight }
    }
}

/// The flame graph of samples; `None` without samples.
pub fn flame_of_samples(
    sampling: &Sampling,
    (profile, catalogue): (&Profile, &Catalogue),
    symbols: &mut dyn Symbolizer,
) -> Option<Flame> {
    let mut names = Names::new(sampling, symbols);
    let mut tree = Tree::new();
    let mut numbers: HashMap<CodePlace, u32> = HashMap::new();
    for (phase, within, waiting, stack, count) in profile.counts() {
        let around = around(phase, within, waiting, (profile, catalogue));
        let mut frames: Vec<u32> = around.into_iter().map(|frame| tree.number(frame)).collect();
        for place in places(profile, stack) {
            frames.push(*numbers.entry(place).or_insert_with(|| tree.number(names.of(place).into())));
        }
        tree.add(frames, count);
    }
    let lost = match sampling.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost", group_digits(lost)),
    };
    let callers = callers(sampling.stacks, sampling.unwind_tables, sampling.cut);
    let callers = callers.map_or("Functions are without their callers.".to_owned(), |by| format!("Callers are {by}."));
    let sentence = format!(
        "{} samples of {}, {} in a second of each thread's CPU time; {lost}. A frame's width is its share of them. {callers}",
        group_digits(tree.weight()),
        sampling.event,
        sampling.hz
    );
    (tree.weight() > 0).then(|| Flame::new("samples", sentence, &tree, MOST_FRAMES))
}

/// The flame graph of lane time; `None` without operators. `sampled`: there is one of samples, too.
pub fn flame_of_spans(statistics: &Statistics, catalogue: &Catalogue, sampled: bool) -> Option<Flame> {
    let mut tree = Tree::new();
    let mut has_operators = false;
    for (kind, _, phase, totals) in statistics.operators() {
        has_operators = true;
        let frames: Vec<u32> =
            of_operator(phase, kind, catalogue).into_iter().map(|frame| tree.number(frame)).collect();
        let Divided { work, waiting, .. } = totals.divided();
        if let Some(ns) = waiting.filter(|ns| *ns > 0) {
            let waiting = tree.number(Frame::waiting());
            tree.add(frames.iter().copied().chain([waiting]), ns);
        }
        tree.add(frames, work);
    }
    for phase in Phase::ALL {
        let Some(totals) = statistics.phase(phase) else { continue };
        let outside = [
            ("outside operators", totals.outside_operators),
            ("outside graphs", if statistics.saw_graphs() { totals.outside_graphs } else { 0 }),
        ];
        for (name, time) in outside.into_iter().filter(|(_, time)| *time > 0) {
            let frames = [Frame::new(FrameKind::Phase, phase.as_str()), Frame::new(FrameKind::Outside, name)]
                .map(|f| tree.number(f));
            tree.add(frames, time);
        }
    }
    let mut sentence =
        "A frame's width is lane time by spans: operators' work and waiting, and time outside operators. \
                        It includes time in which a lane did not run."
            .to_owned();
    if !sampled {
        sentence.push_str(" The trace has no timer samples: `record --sample 999` shows functions, too.");
    }
    has_operators.then(|| Flame::new("ns", sentence, &tree, MOST_FRAMES))
}
