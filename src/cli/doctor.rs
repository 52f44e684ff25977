//! `profinfer doctor`: what this machine can do.

use super::table::columns;
use super::{DONE, Outcome, terminal};
use crate::output::cannot_write;
use crate::plan::InstructionKind;
use crate::record::calibrate::{self, Calibration};
use crate::record::machine::{self, Finding, State};
use comfy_table::{ContentArrangement, Table, presets};
use std::path::Path;

/// Exit code: this machine cannot record.
const CANNOT_RECORD: u8 = 3;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Measure what a probe costs here, some seconds long, and keep the figures for `check` and `record`
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
        terminal::write_out(&format!("{}\n", table(&findings)))?;
        let verdict = if able { "This machine can record." } else { "This machine cannot record yet." };
        terminal::write_out(&format!("\n{verdict}\n"))?;
    }
    Ok(if able { DONE } else { CANNOT_RECORD })
}

/// Measures, keeps and shows.
fn calibrate(json: bool) -> Outcome {
    let calibration = calibrate::measure()?;
    let path = calibration.save().map_err(|error| cannot_write(Path::new("the calibration"), &error))?;
    if json {
        let value = serde_json::json!({ "file": path, "calibration": calibration });
        terminal::write_json(&format!("{value:#}\n"))?;
    } else {
        terminal::write_out(&figures(&calibration))?;
        terminal::write_out(&format!("\nKept in {}\n", path.display()))?;
    }
    Ok(DONE)
}

fn figures(calibration: &Calibration) -> String {
    let costs = &calibration.costs;
    let kinds = InstructionKind::ALL.iter().filter_map(|kind| Some((kind.describe(), *costs.ns.get(kind)?)));
    let adds = costs.return_ns.map(|ns| ("the return, in addition", ns));
    let rows = kinds.chain(adds).map(|(what, ns)| vec![what.to_owned(), ns.to_string()]);
    columns(&["INSTRUCTION UNDER THE PROBE", ">NS A HIT"], rows)
}

/// A row a finding; under what is not there, what that costs and what mends it.
fn table(findings: &[Finding]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    for finding in findings {
        let mark = match finding.state {
            State::Present => "ok",
            State::Lacking => "-",
            State::Missing => "NO",
            State::Unknown => "?",
        };
        let mut found = finding.found.clone();
        for (label, text) in [("costs: ", finding.cost), ("mend:  ", finding.mend.as_deref())] {
            found.extend(text.map(|text| format!("\n{label}{text}")));
        }
        table.add_row([mark, finding.name, &found]);
    }
    table.trim_fmt()
}
