//! `profinfer schema`: the probeset language as a JSON Schema, for editors.

use super::output::{Force, write_whole};
use super::terminal::write_json;
use super::{DONE, Outcome};
use profinfer_files::output::OutputKind;
use profinfer_probeset as spec;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let schema = format!("{:#}\n", spec::json_schema());
    match &arguments.output {
        Some(path) => write_whole(arguments.force.request(path, OutputKind::Schema, &[]), schema.as_bytes())?,
        None => write_json(&schema)?,
    }
    Ok(DONE)
}
