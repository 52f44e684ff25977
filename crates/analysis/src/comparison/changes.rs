//! What a comparison finds, as data: changes, each judged among all others of the comparison.

use super::align::Fit;
use super::causes::Cause;
use super::resample::{Change, among_many};
use super::size::Compared;
use crate::ids::Phase;
use std::sync::Arc;

/// A difference that chance makes as often as this is not significant.
pub const SIGNIFICANT: f64 = 0.05;

/// What a difference amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// The second takes longer (or counts more), and that is more than noise.
    More,
    /// It takes less, and that is more than noise.
    Less,
    /// What there is may be noise.
    NotSignificant,
    /// Too few steps.
    Unknown,
}

impl Judgement {
    /// `more`, `less`, `not_significant`, `unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::NotSignificant => "not_significant",
            Self::Unknown => "unknown",
        }
    }
}

/// A change, judged among all others of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The change.
    pub change: Change,
    /// How likely chance makes one as large among so many.
    pub chance: Option<f64>,
    /// What it amounts to.
    pub judgement: Judgement,
}

/// What operators of one trace are described as.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct ComparedOperator {
    /// Type.
    pub op: String,
    /// Name, its layer's number as `*`.
    pub name: String,
    /// What was computed along with it.
    pub covers: Option<String>,
    /// Shapes, the first few.
    pub shapes: Vec<Vec<i64>>,
    /// Element types.
    pub dtypes: Vec<String>,
    /// Backends.
    pub backends: Vec<String>,
    /// Types of the model's weights among its inputs, if the probeset defines weights.
    pub weights: Vec<String>,
}

/// A counter of operators.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterChange {
    /// Its name.
    pub counter: Arc<str>,
    /// A step.
    pub count: Judged,
}

/// Operators that go together in both traces.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorChange {
    /// How they were matched.
    pub fit: Fit,
    /// In the first trace.
    pub a: Vec<ComparedOperator>,
    /// In the second.
    pub b: Vec<ComparedOperator>,
    /// Time on the clock, ns a step.
    pub time: Judged,
    /// How many are computed a step: first, second.
    pub calls: [f64; 2],
    /// Work of all lanes together, ns a step.
    pub work: [f64; 2],
    /// Waiting of all lanes together, ns a step.
    pub waiting: [f64; 2],
    /// Counters that both traces have, or one where the operators are in one only.
    pub counters: Vec<CounterChange>,
    /// The same time by layer, in the order of the layers.
    pub layers: Vec<LayerChange>,
}

/// A layer of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerChange {
    /// Its name; `None` for operators of no layer.
    pub layer: Option<Arc<str>>,
    /// Time on the clock, ns a step.
    pub time: Judged,
}

/// One trace's side of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseSide {
    /// Complete steps.
    pub steps: u64,
    /// Of them, those that were recorded whole, which all else is of.
    pub whole_steps: u64,
    /// Their tokens, if each has a count.
    pub tokens: Option<u64>,
    /// The most lanes that a step had.
    pub lanes: u64,
    /// Operators beyond the bound.
    pub left_out: u64,
}

/// A phase in both traces.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseChange {
    /// Which.
    pub phase: Phase,
    /// First and second.
    pub sides: [PhaseSide; 2],
    /// The steps of both are the same one by one, and were compared so.
    pub paired: bool,
    /// Which steps were compared.
    pub compared: Compared,
    /// There are too few steps to compare these: their operators were compared one by one.
    pub few: bool,
    /// Duration of a step, ns.
    pub time: Judged,
    /// Where the step's time went, lanes on average; together the step. Empty where one of the traces does not tell.
    pub causes: Vec<CauseChange>,
    /// Of it: in graphs, but in no operator.
    pub between: Judged,
    /// Of it: in no graph.
    pub outside: Judged,
    /// By operator, the largest difference first.
    pub operators: Vec<OperatorChange>,
    /// By layer, in the order of the model.
    pub layers: Vec<LayerChange>,
    /// The layers that changed unlike the others.
    pub odd: Vec<OddLayer>,
}

/// Time of a step that was spent on one thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CauseChange {
    /// What.
    pub cause: Cause,
    /// Wall time, lanes on average, ns a step.
    pub time: Judged,
    /// It depends on what the kernel counted for the whole process.
    pub estimate: bool,
}

/// A layer that changed unlike the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OddLayer {
    /// Its place among the layers.
    pub layer: usize,
    /// The median of the relative changes of all layers.
    pub others: f64,
}

pub(super) fn judged(change: Change) -> Judged {
    let mut judged = Judged { change, chance: change.chance, judgement: Judgement::Unknown };
    judged.judge();
    judged
}

impl Judged {
    fn judge(&mut self) {
        self.judgement = match self.chance {
            None => Judgement::Unknown,
            Some(chance) if chance > SIGNIFICANT => Judgement::NotSignificant,
            Some(_) if self.change.difference() > 0.0 => Judgement::More,
            Some(_) => Judgement::Less,
        };
    }
}

/// Judges each among all of them.
pub(super) fn judge_all(mut all: Vec<&mut Judged>) {
    let chances: Vec<Option<f64>> = all.iter().map(|judged| judged.change.chance).collect();
    for (judged, chance) in all.iter_mut().zip(among_many(&chances)) {
        judged.chance = chance;
        judged.judge();
    }
}
