//! `profinfer schema`: the probeset language as a JSON Schema, for editors.

use super::probeset::cannot_write;
use super::terminal::write_out;
use super::{DONE, Outcome};
use crate::spec;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let schema = format!("{:#}\n", spec::json_schema());
    match &arguments.output {
        Some(path) => std::fs::write(path, schema).map_err(|error| cannot_write(path, &error))?,
        None => write_out(&schema)?,
    }
    Ok(DONE)
}
