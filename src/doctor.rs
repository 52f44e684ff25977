//! `profinfer doctor`: what this machine can do.

use super::table::{columns, rendered};
use super::{DONE, Outcome, terminal};
use profinfer_compiler::InstructionKind;
use profinfer_files::output::cannot_write;
use profinfer_recorder::calibrate::{self, Calibration};
use profinfer_recorder::machine::{self, Finding, State};
use profinfer_report::TextTable;
use std::path::Path;

/// Exit code: this machine cannot record.
const CANNOT_RECORD: u8 = 3;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Measure the cost of a probe on this machine (some seconds) and cache it for `check` and `record`
    #[arg(long)]
    calibrate: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.calibrate {
        return calibrate(arguments.json);
    }
    let findings = machine::examine();
    let able = machine::can_record(&findings);
    if arguments.json {
        let value = serde_json::json!({ "can_record": able, "findings": findings });
        terminal::write_json(&format!("{value:#}\n"))?;
    } else {
        terminal::write_out(&table(&findings))?;
        let verdict = if able { "This machine can record." } else { "This machine cannot record yet." };
        terminal::write_out(&format!("\n{verdict}\n"))?;
    }
    Ok(if able { DONE } else { CANNOT_RECORD })
}

/// Measures, saves and shows.
fn calibrate(json: bool) -> Outcome {
    let calibration = calibrate::measure()?;
    let path = calibration.save().map_err(|error| cannot_write(Path::new("the calibration"), &error))?;
    if json {
        let value = serde_json::json!({ "file": path, "calibration": calibration });
        terminal::write_json(&format!("{value:#}\n"))?;
    } else {
        terminal::write_out(&figures(&calibration))?;
        terminal::write_out(&format!("\nSaved in {}\n", path.display()))?;
    }
    Ok(DONE)
}

fn figures(calibration: &Calibration) -> String {
    let costs = &calibration.costs;
    let kinds = InstructionKind::ALL.iter().filter_map(|kind| Some((kind.describe(), *costs.ns.get(kind)?)));
    let returns = costs.return_ns.map(|ns| ("return (additional)", ns));
    let span = costs.span_ns.map(|ns| ("in the time of a span", ns));
    let rows = kinds.chain(returns).chain(span).map(|(what, ns)| vec![what.to_owned(), ns.to_string()]);
    columns(&["INSTRUCTION AT THE SITE", ">NS PER HIT"], rows)
}

/// A row per finding; below a missing feature its consequence and the fix.
fn table(findings: &[Finding]) -> String {
    let mut table = TextTable::listing(&["", "", ""], 1);
    for finding in findings {
        let mark = match finding.state {
            State::Present => "ok",
            State::Lacking => "-",
            State::Missing => "NO",
            State::Unknown => "?",
        };
        table.row(vec![mark.to_owned(), finding.name.to_owned(), finding.found.clone()]);
        for (label, text) in [("effect: ", finding.cost), ("fix:    ", finding.fix.as_deref())] {
            if let Some(text) = text {
                table.row(vec![String::new(), String::new(), format!("{label}{text}")]);
            }
        }
    }
    rendered(&table)
}
