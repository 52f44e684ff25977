//! `profinfer engines`: the probesets that the program carries, and the builds that each was tested on.

use super::table::columns;
use super::{DONE, Outcome, terminal};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::spec::{self, Library, Probeset, Role};
use std::path::Path;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON: an array with `probeset`, `engine`, `summary`, `steps` (it is of an engine) and `tested` of each
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let probesets = shipped();
    if arguments.json {
        terminal::write_json(&json(&probesets)?)?
    } else {
        terminal::write_out(&text(&probesets))?
    }
    Ok(DONE)
}

/// Every shipped probeset, by name. Files without probes, which can only be included, are none.
pub(crate) fn shipped() -> Vec<Probeset> {
    let load = |name: &str| spec::load(Path::new(name), &Library::SHIPPED).ok().map(|(probeset, _)| probeset);
    Library::SHIPPED.names().filter_map(load).collect()
}

/// Whether it is of an engine: others are what engines' probesets include.
pub(crate) fn has_steps(probeset: &Probeset) -> bool {
    probeset.probes.values().any(|probe| probe.role.value == Role::Step)
}

fn text(probesets: &[Probeset]) -> String {
    let rows = probesets.iter().filter(|probeset| has_steps(probeset)).flat_map(|probeset| {
        let tested = probeset.tested.iter().map(|build| vec![String::new(), build.clone()]);
        let first = vec![probeset.name.clone(), probeset.summary.clone()];
        std::iter::once(first).chain(tested)
    });
    let mut text = columns(&["probeset", "what it shows, and the builds it was tested on"], rows);
    let parts: Vec<&str> =
        probesets.iter().filter(|probeset| !has_steps(probeset)).map(|probeset| probeset.name.as_str()).collect();
    if !parts.is_empty() {
        text += &format!("\nfor other probesets to include: {}\n", parts.join(", "));
    }
    text
}

fn json(probesets: &[Probeset]) -> Result<String, Diagnostics> {
    let one = |probeset: &Probeset| {
        serde_json::json!({
            "probeset": probeset.name,
            "engine": probeset.engine.value,
            "summary": probeset.summary,
            "steps": has_steps(probeset),
            "tested": probeset.tested,
        })
    };
    let all: Vec<serde_json::Value> = probesets.iter().map(one).collect();
    let written = serde_json::to_string_pretty(&all).map(|text| text + "\n");
    written.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot write JSON: {error}")).into())
}
