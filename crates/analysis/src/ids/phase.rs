//! Phases of a generation.

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It took in a prompt.
    Prefill,
    /// It made the next token.
    Decode,
    /// No step: graphs and operators that no step contains, some at a time.
    Outside,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 3] = [Self::Prefill, Self::Decode, Self::Outside];

    /// `prefill`, `decode`, `outside`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Outside => "outside",
        }
    }
}
