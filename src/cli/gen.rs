//! Not written yet.

use super::Outcome;
use crate::diag::{Code, Diagnostic};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

/// Runs the subcommand.
pub(crate) fn run(_arguments: &Arguments) -> Outcome {
    Err(Diagnostic::error(Code::NotSupportedYet, "this command does not work yet").into())
}
