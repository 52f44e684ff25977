//! The frames of a sample's stack, the root first: what it is in (phase, layer, operator), then its functions.

use super::names::{Function, Names};
use super::selection::place_name;
use profinfer_analysis::{Catalogue, KindId, Phase, Profile, StackId, Within};
use profinfer_schema::CodePlace;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FrameKind {
    /// Everything.
    All,
    /// A phase.
    Phase,
    /// A layer of the model.
    Layer,
    /// An operator type.
    Op,
    /// An operator by its name.
    Operator,
    /// What is not in an operator.
    Outside,
    /// Waiting for other lanes.
    Waiting,
    /// A function of a file, named by a symbol.
    Function,
    /// A function of the kernel, or the kernel.
    Kernel,
    /// Code without a symbol.
    Unknown,
    /// Frames that are too small to be shown one by one.
    Other,
}

impl FrameKind {
    /// Its name in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Phase => "phase",
            Self::Layer => "layer",
            Self::Op => "op",
            Self::Operator => "operator",
            Self::Outside => "outside",
            Self::Waiting => "waiting",
            Self::Function => "function",
            Self::Kernel => "kernel",
            Self::Unknown => "unknown",
            Self::Other => "other",
        }
    }
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) name: String,
    /// The file of a function; otherwise empty.
    pub(super) module: String,
}

impl Frame {
    pub(super) fn new(kind: FrameKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), module: String::new() }
    }

    pub(super) fn waiting() -> Self {
        Self::new(FrameKind::Waiting, "waiting")
    }
}

impl From<Function> for Frame {
    fn from(function: Function) -> Self {
        let kind = match (function.module.as_str(), function.known) {
            ("kernel", _) => FrameKind::Kernel,
            (_, true) => FrameKind::Function,
            (_, false) => FrameKind::Unknown,
        };
        Self { kind, name: function.full_name().into_owned(), module: function.module }
    }
}

/// The frames of an operator, the phase first.
pub(super) fn of_operator(phase: Phase, kind: KindId, catalogue: &Catalogue) -> Vec<Frame> {
    let kind = catalogue.kind(kind);
    let mut frames = vec![Frame::new(FrameKind::Phase, phase.as_str())];
    frames.extend(kind.layer.as_ref().map(|layer| Frame::new(FrameKind::Layer, format!("layer {layer}"))));
    frames.push(Frame::new(FrameKind::Op, &*kind.op));
    frames.extend((kind.name != kind.op).then(|| Frame::new(FrameKind::Operator, &*kind.name)));
    frames
}

/// What a stack's functions are in, the outermost first.
pub(super) fn around(
    phase: Phase,
    within: Within,
    waiting: bool,
    (profile, catalogue): (&Profile, &Catalogue),
) -> Vec<Frame> {
    let mut frames = match within {
        Within::Operator(kind) => of_operator(phase, kind, catalogue),
        other => {
            let place = place_name(other, catalogue, profile.has_operators());
            vec![Frame::new(FrameKind::Phase, phase.as_str()), Frame::new(FrameKind::Outside, place)]
        }
    };
    frames.extend(waiting.then(Frame::waiting));
    frames
}

/// The places of a stack, the outermost first; one that is unknown where it has none.
pub(super) fn places(profile: &Profile, stack: StackId) -> impl Iterator<Item = CodePlace> {
    let places = profile.stack(stack);
    let unknown = CodePlace { module: CodePlace::UNKNOWN, offset: 0 };
    places.iter().rev().copied().chain(places.is_empty().then_some(unknown))
}

/// The functions of a stack, the outermost first.
pub(super) fn functions(names: &mut Names<'_>, profile: &Profile, stack: StackId) -> Vec<Frame> {
    places(profile, stack).map(|place| names.of(place).into()).collect()
}
