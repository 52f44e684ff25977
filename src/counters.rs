//! `profinfer counters`: what this machine can count.

use super::table::columns;
use super::{DONE, Outcome, terminal};
use profinfer_recorder::counters::{Listed, Listing, list};

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Use these events under `counters:` in a probeset or with `profinfer record --counter`, as well as \
    `UNIT/TERM=VALUE,…/` and `rNNN`. The suffixes `:u` and `:k` count in user space or in the kernel only."
)]
pub(crate) struct Arguments {
    /// Include events that cannot be counted here, with the reason
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the groups are called; others are units of this machine.
const GROUPS: &[(&str, &str)] = &[
    ("hardware", "of the processor"),
    ("cache", "of its caches"),
    ("software", "of the kernel, on each processor"),
    ("thread", "of the kernel, for each thread"),
];

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let listing = list();
    if arguments.json {
        terminal::write_json(&format!("{:#}\n", serde_json::json!(listing)))?;
    } else {
        terminal::write_out(&table(&listing, arguments.all))?;
    }
    Ok(DONE)
}

fn table(listing: &Listing, all: bool) -> String {
    let mut text = columns(&["EVENT", "COUNTED", "GROUP"], rows(listing, all));
    for (unit, many) in &listing.at_once {
        text.push_str(&format!("\n{unit} counts {many} events at once; more are multiplexed"));
    }
    if let Some(reason) = &listing.without_pmu {
        text.push_str(&format!("\n{reason}"));
    }
    let hidden = listing.events.iter().filter(|event| !event.opens).count();
    if hidden > 0 && !all {
        text.push_str(&format!("\n{hidden} events cannot be counted here; `--all` lists them with the reasons"));
    }
    text.trim_end().to_owned() + "\n"
}

fn rows(listing: &Listing, all: bool) -> Vec<Vec<String>> {
    let group = |event: &Listed| {
        let group = GROUPS.iter().find(|(name, _)| *name == event.group);
        group.map_or_else(|| format!("of {}", event.group), |(_, text)| (*text).to_owned())
    };
    let counted =
        |event: &Listed| event.reason.clone().map_or_else(|| "yes".to_owned(), |reason| format!("no: {reason}"));
    let shown = listing.events.iter().filter(|event| event.opens || all);
    shown.map(|event| vec![event.event.clone(), counted(event), group(event)]).collect()
}
