//! Studies over many steps: growth with the context, outlier layers, reuse of experts, models and sequences. A visitor of the timeline beside [`super::Statistics`]; its memory
//! depends on the number of distinct operators, layers and experts, not on the number of steps.

mod blocks;
mod experts;
mod growth;
mod layers;
mod streams;

pub use blocks::{Blocks, Line, Moments, Trend};
pub use experts::{ExpertUse, LayerUse, ReuseBucket, ReuseOfExperts};
pub use growth::{ContextSource, Drift, Growth, GrowthFound, GrowthOf, JudgedGrowth, judge};
pub use layers::{JudgedLayer, LayerSeries, Layers, judge_layers};
pub use streams::{InstanceSource, ModelTotals, Rounds, SequenceTotals, Streams};

use crate::catalogue::Catalogue;
use crate::ids::Phase;
use crate::raw::Decoder;
use crate::sampling::Recorded;
use crate::step::Step;
use crate::step::Visitor;

/// What many steps together show.
#[derive(Debug, Default)]
pub struct Study {
    /// What grows with the context.
    pub growth: Growth,
    /// Layers beside one another.
    pub layers: Layers,
    /// How experts are used again.
    pub experts: ReuseOfExperts,
    /// Models and sequences.
    pub streams: Streams,
}

impl Visitor for Study {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        let phase = step.phase.unwrap_or(Phase::Outside);
        let stream = self.streams.add(step, phase, catalogue, decoder);
        let counted = self.growth.count_tokens(step, phase, &stream);
        if !step.complete || step.recorded != Recorded::Whole {
            return;
        }
        if phase.recurs() {
            self.growth.add(step, &stream, counted, catalogue);
        }
        self.layers.add(step, phase, stream.model, catalogue);
        self.experts.add(step, stream.model, catalogue);
    }
}
