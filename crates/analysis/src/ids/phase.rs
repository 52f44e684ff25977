//! Phases of a generation.

/// What a step was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// It took in a prompt.
    Prefill,
    /// It made the next token.
    Decode,
    /// It ran a model that has no tokens, by what the probeset can tell.
    Run,
    /// No step: graphs and operators that no step contains, some at a time.
    Outside,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Self; 4] = [Self::Prefill, Self::Decode, Self::Run, Self::Outside];
    /// The phases of steps.
    pub const STEPS: [Self; 3] = [Self::Prefill, Self::Decode, Self::Run];
    /// The same, those first that most time is spent in.
    pub const RECURRING_FIRST: [Self; 3] = [Self::Decode, Self::Run, Self::Prefill];

    /// `prefill`, `decode`, `run`, `outside`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Run => "run",
            Self::Outside => "outside",
        }
    }

    /// Its steps recur, and most time is spent in them: decode, or runs of a model without tokens.
    pub fn recurs(self) -> bool {
        matches!(self, Self::Decode | Self::Run)
    }
}
