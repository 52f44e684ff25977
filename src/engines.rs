//! `profinfer engines`: the probesets that the program carries, and the builds that each was tested on.

use super::table::columns;
use super::{DONE, Outcome, terminal};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_probeset::{self as spec, Library, Probeset};
use profinfer_schema::Role;
use std::path::Path;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON: an array of `probeset`, `engine`, `summary`, `steps` (whether it has steps) and `tested`
    #[arg(long, conflicts_with = "print")]
    json: bool,

    /// Print the text of the shipped probeset NAME, to copy and change
    #[arg(long, requires = "name")]
    print: bool,

    /// A shipped probeset
    #[arg(value_name = "NAME", requires = "print")]
    name: Option<String>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(name) = &arguments.name {
        terminal::write_out(source(name)?)?;
        return Ok(DONE);
    }
    let probesets = shipped();
    if arguments.json {
        terminal::write_json(&json(&probesets)?)?
    } else {
        terminal::write_out(&text(&probesets))?
    }
    Ok(DONE)
}

/// The text of a shipped probeset.
fn source(name: &str) -> Result<&'static str, Diagnostics> {
    let text = Library::SHIPPED.get(name.strip_suffix(".yaml").unwrap_or(name)).map(|(_, text)| text);
    text.ok_or_else(|| {
        let names: Vec<&str> = Library::SHIPPED.names().collect();
        let message = format!("no shipped probeset has the name `{}`", profinfer_diagnostics::printable(name));
        let hint = format!("the names are {}", names.join(", "));
        Diagnostic::error(Code::UnknownName, message).hint(hint).into()
    })
}

/// Every shipped probeset, by name. Files without probes, which can only be included, are none.
pub(crate) fn shipped() -> Vec<Probeset> {
    let load = |name: &str| spec::load(Path::new(name), &Library::SHIPPED).ok().map(|(probeset, _)| probeset);
    Library::SHIPPED.names().filter_map(load).collect()
}

/// The shipped probesets that a recording without one searches for: those with steps that include no other of them, which
/// would be of the same engine.
#[cfg(feature = "record")]
pub(crate) fn offered() -> Vec<Probeset> {
    let all: Vec<Probeset> = shipped().into_iter().filter(has_steps).collect();
    let file = |probeset: &Probeset| format!("builtin:{}.yaml", probeset.name);
    let files: Vec<String> = all.iter().map(file).collect();
    let extends = |probeset: &Probeset| {
        probeset.sources.iter().any(|source| source.name != file(probeset) && files.contains(&source.name))
    };
    let extending: Vec<bool> = all.iter().map(extends).collect();
    all.into_iter().zip(extending).filter(|(_, extends)| !extends).map(|(probeset, _)| probeset).collect()
}

/// The shipped probesets that are used only if they are named: of programs that mark no steps, and of interfaces to devices.
#[cfg(feature = "record")]
pub(crate) fn only_by_name() -> Vec<String> {
    let all = shipped().into_iter().filter(|probeset| !has_steps(probeset) && !is_part(probeset));
    all.map(|probeset| probeset.name).collect()
}

/// Whether it marks steps itself.
pub(crate) fn has_steps(probeset: &Probeset) -> bool {
    probeset.probes.values().any(|probe| probe.role.value == Role::Step)
}

/// Whether it only serves to be included: such a probeset names no tested builds.
fn is_part(probeset: &Probeset) -> bool {
    probeset.tested.is_empty()
}

fn text(probesets: &[Probeset]) -> String {
    let table = |title, select: &dyn Fn(&Probeset) -> bool| {
        let rows = probesets.iter().filter(|probeset| select(probeset)).flat_map(|probeset| {
            let tested = probeset.tested.iter().map(|build| vec![String::new(), build.clone()]);
            let first = vec![probeset.name.clone(), probeset.summary.clone()];
            std::iter::once(first).chain(tested)
        });
        columns(&[title, "description and tested builds"], rows)
    };
    let engines = table("probeset", &|probeset| has_steps(probeset) && !is_part(probeset));
    let others = table("without steps", &|probeset| !has_steps(probeset) && !is_part(probeset));
    let parts: Vec<&str> =
        probesets.iter().filter(|probeset| is_part(probeset)).map(|probeset| probeset.name.as_str()).collect();
    format!("{engines}\n{others}\nincluded by other probesets: {}\n", parts.join(", "))
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
