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

fn table(findings: &[Finding]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["", "", "found", "without it", "what mends it"]);
    for finding in findings {
        let mark = match finding.state {
            State::Present => "ok",
            State::Lacking => "-",
            State::Missing => "NO",
            State::Unknown => "?",
        };
        let mend = finding.mend.as_deref().unwrap_or_default();
        table.add_row([mark, finding.name, &finding.found, finding.cost.unwrap_or_default(), mend]);
    }
    table
}
