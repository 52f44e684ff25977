//! `profinfer roofline`: what this machine can do at most.

use super::info::date;
use super::{DONE, Outcome, terminal};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::record::{host, kept_limits};
use crate::report::limits_table;
use crate::roofline;
use crate::trace::{Host, Roofline};
use std::io::IsTerminal;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What was measured is kept for this machine and shown from then on; `record` puts it into every \
    trace. Measure while nothing else runs."
)]
pub(crate) struct Arguments {
    /// Print JSON; `docs/roofline.md` documents its keys
    #[arg(long)]
    json: bool,
    /// Measure for a second or two, not for some twenty; where a whole measurement is kept already, that is shown
    #[arg(long)]
    quick: bool,
    /// Measure again, though there are figures of this machine
    #[arg(long)]
    remeasure: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (host, kept) = (host::describe(), kept_limits());
    // A quick measurement gives way to a whole one.
    let good = |found: &(Roofline, PathBuf)| !arguments.remeasure && (arguments.quick || !found.0.quick);
    let (limits, file) = match kept.load(&host).filter(good) {
        Some((limits, file)) => (limits, Some(file)),
        None => {
            if std::io::stderr().is_terminal() {
                terminal::say(&format!(
                    "measuring, for {}",
                    if arguments.quick { "some seconds" } else { "some 20 seconds" }
                ));
            }
            let limits = roofline::measure(&host, arguments.quick)?;
            let saved = kept.save(&host, &limits).map_err(|error| not_kept(&error));
            let file = saved.map_err(|problem| terminal::report_problems(&problem)).ok();
            (limits, file)
        }
    };
    if arguments.json {
        terminal::write_json(&json(&limits, &host, file))?;
    } else {
        terminal::write_out(&text(&limits, &host, file))?;
    }
    Ok(DONE)
}

fn not_kept(error: &std::io::Error) -> Diagnostics {
    let message = format!("the machine's limits cannot be kept: {error}");
    Diagnostic::warning(Code::CannotWrite, message)
        .hint("`PROFINFER_CACHE` names the folder that they are kept in")
        .into()
}

fn json(limits: &Roofline, host: &Host, file: Option<PathBuf>) -> String {
    let value = serde_json::json!({
        "format": "profinfer-roofline", "version": 1, "host": host, "roofline": limits, "file": file,
    });
    format!("{value:#}\n")
}

fn text(limits: &Roofline, host: &Host, file: Option<PathBuf>) -> String {
    let Host { cpu_model, cpus, kernel, .. } = host;
    let when = date(limits.measured_at.saturating_mul(1_000_000_000));
    let how = if limits.quick { ", quickly" } else { "" };
    let width = if std::io::stdout().is_terminal() { comfy_table::Table::new().width().map(usize::from) } else { None };
    let mut text = format!("{cpu_model} · {cpus} cpus · Linux {kernel} · measured {when}{how}\n\n");
    text += &limits_table(limits, width);
    if let Some(file) = file {
        text += &format!("Kept in {}\n", file.display());
    }
    text
}
