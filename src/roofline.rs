//! `profinfer roofline`: what this machine can do at most.

use super::{DONE, Outcome, terminal};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_machine as roofline;
use profinfer_recorder::{host, saved_limits};
use profinfer_report::{date_time, limits_table};
use profinfer_schema::{Host, Roofline};
use std::io::IsTerminal;
use std::path::PathBuf;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The figures are cached for this machine and shown by later runs; `record` copies them into every \
    trace. Measure on an idle machine."
)]
pub(crate) struct Arguments {
    /// Print JSON; `docs/roofline.md` documents its keys
    #[arg(long)]
    json: bool,
    /// Measure for one or two seconds instead of twenty; show a cached full measurement if there is one
    #[arg(long)]
    quick: bool,
    /// Measure again, even if figures are cached
    #[arg(long)]
    remeasure: bool,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (host, store) = (host::describe(), saved_limits());
    // A quick measurement gives way to a whole one.
    let good = |found: &(Roofline, PathBuf)| !arguments.remeasure && (arguments.quick || !found.0.quick);
    let (limits, file) = match store.load(&host).filter(good) {
        Some((limits, file)) => (limits, Some(file)),
        None => {
            if std::io::stderr().is_terminal() {
                terminal::status(&format!(
                    "measuring for {}",
                    if arguments.quick { "about 2 seconds" } else { "about 20 seconds" }
                ));
            }
            let limits = roofline::measure(&host, arguments.quick)?;
            let saved = store.save(&host, &limits).map_err(|error| not_saved(&error));
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

fn not_saved(error: &std::io::Error) -> Diagnostics {
    let message = format!("cannot save the machine's limits: {error}");
    Diagnostic::warning(Code::CannotWrite, message).hint("set `PROFINFER_CACHE` to a writable folder").into()
}

fn json(limits: &Roofline, host: &Host, file: Option<PathBuf>) -> String {
    let value = serde_json::json!({
        "format": "profinfer-roofline", "version": 1, "host": host, "roofline": limits, "file": file,
    });
    format!("{value:#}\n")
}

fn text(limits: &Roofline, host: &Host, file: Option<PathBuf>) -> String {
    let Host { cpu_model, cpus, kernel, .. } = host;
    let when = date_time(limits.measured_at.saturating_mul(1_000_000_000));
    let how = if limits.quick { ", quickly" } else { "" };
    let width = terminal::width();
    let mut text = format!("{cpu_model} · {cpus} CPUs · Linux {kernel} · measured {when}{how}\n\n");
    text += &limits_table(limits, width);
    if let Some(file) = file {
        text += &format!("Saved in {}\n", file.display());
    }
    text
}
