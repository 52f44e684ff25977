//! Graphs of operators, for people and for other programs: as a picture, as text, and in the formats that programs for
//! graphs read. The pictures need nothing else: no font, no script, no network.
//!
//! For a page: [`profinfer_analysis::GraphFinder`] is a visitor of the timeline (`Wanted::Mean` needs no earlier reading),
//! [`GraphReport::new`] makes the JSON model of what it finds, [`svg()`] a picture of that, folded or unfolded.

mod difference;
mod dot;
mod graphml;
mod layout;
mod model;
mod paint;
mod svg;
mod text;
mod view;

pub use difference::{GraphDifference, Side, difference_text};
pub use dot::dot;
pub use graphml::graphml;
pub use model::{
    BandwidthView, CriticalView, EdgeView, FoldView, GraphReport, LeftOut, NodeCost, NodeView, SectionView, StepView,
};
pub use svg::{Picture, svg};
pub use text::graph_text;

/// What the nodes of a picture are coloured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Colour {
    /// Share of the step's time
    #[default]
    Time,
    /// Memory bandwidth
    Bandwidth,
    /// Backend
    Backend,
}
