//! The phases of steps, as arguments name them.

use profinfer_analysis::Phase;

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum PhaseName {
    /// Steps that process a prompt
    Prefill,
    /// Steps that generate the next token
    Decode,
    /// Steps of a model without tokens
    Run,
}

impl From<PhaseName> for Phase {
    fn from(name: PhaseName) -> Self {
        match name {
            PhaseName::Prefill => Self::Prefill,
            PhaseName::Decode => Self::Decode,
            PhaseName::Run => Self::Run,
        }
    }
}
