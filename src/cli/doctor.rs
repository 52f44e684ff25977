//! `profinfer doctor`: what this machine can do.

use super::{DONE, Outcome};
use crate::record::machine::{self, Finding, State};
use comfy_table::{ContentArrangement, Table, presets};

/// Exit code: this machine cannot record.
const CANNOT_RECORD: u8 = 3;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let findings = machine::examine();
    let able = machine::can_record(&findings);
    if arguments.json {
        let value = serde_json::json!({ "can_record": able, "findings": findings });
        anstream::println!("{value:#}");
    } else {
        anstream::println!("{}", table(&findings));
        let verdict = if able { "This machine can record." } else { "This machine cannot record yet." };
        anstream::println!("\n{verdict}");
    }
    Ok(if able { DONE } else { CANNOT_RECORD })
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
