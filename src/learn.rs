//! `profinfer learn`: searches a running engine's memory for the members that a probeset gives no place, finds which of
//! several slots a virtual method is in, and writes what it finds as a lock file.

use super::output::{Force, write_whole};
use super::probeset::{ProbesetArguments, sources};
use super::short_run::ShortRun;
use super::table::columns;
use super::terminal::{report_problems, status, write_out};
use super::{DONE, INCOMPLETE, Outcome};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, Severity, printable_json};
use profinfer_files::output::OutputKind;
use profinfer_recorder::{self as record, LearnedSlot, Subject, learned_lock};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Members of views with `within` and `expect` are searched for in at least 20 distinct objects of the \
    running engine. A place is written only if it is the only one. Of the slots that a virtual method may be in \
    (`Base[3|4]`), it is the one that takes most of a step's time. A launched command is ended afterwards. Use the file \
    with `record --lock FILE`."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    probeset: ProbesetArguments,
    /// Attach to a running process
    #[arg(short, long, value_name = "PID", conflicts_with = "command", required_unless_present = "command")]
    pid: Option<i32>,
    /// Seconds after which the search ends
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    seconds: u64,
    /// Write to this file [default: PROBESET.lock]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The command to launch
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (probeset, warnings) = arguments.probeset.load()?;
    report_problems(&warnings);
    let subject = arguments.pid.map_or_else(|| Subject::Command(arguments.command.clone()), Subject::Process);
    let lock = arguments.probeset.lock()?;
    let mut run = ShortRun::new(subject, Duration::from_secs(arguments.seconds.max(1)))?;
    run.options.lock = lock;
    run.options.selection = arguments.probeset.selection();
    run.options.debug_folders = arguments.probeset.debug_folders();
    run.options.until_learned = true;
    let prepared = run.prepare(&probeset)?;
    if !prepared.can_learn() {
        let message = format!("the probeset `{}` has nothing to learn", probeset.name);
        let hint = "views need `within: N` and `expect` for members without `@ N`, virtual methods need slots to choose \
            from: `Base[3|4]`";
        return Err(Diagnostic::error(Code::LayoutUnknown, message).hint(hint).into());
    }
    let summary = ShortRun::record_prepared(prepared)?;
    let (members, slots) = (&summary.learned, &summary.slots);
    let has_learned = !members.is_empty() || !slots.is_empty();
    let is_of_learning = |problem: &Diagnostic| {
        // That a slot is still to be found is a note.
        let is_of_slot = problem.code == Code::SlotUnknown && problem.severity != Severity::Note;
        is_of_slot || summary.not_learned.contains(problem)
    };
    let is_partial = summary.problems.0.iter().any(is_of_learning);
    // Of what was learned a part may have been taken back; other problems are of a recording that nobody wants. One in which
    // nothing was left to be learned has ended before a step.
    let is_told = |problem: &&Diagnostic| {
        problem.code == Code::ExpectationBroken
            || is_of_learning(problem)
            || !has_learned
                && problem.severity != Severity::Note
                && (is_partial || problem.code != Code::NothingRecorded)
    };
    let told = Diagnostics(summary.problems.0.iter().filter(is_told).cloned().collect());
    if !has_learned && told.0.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(told);
    }
    report_problems(&told);
    if !has_learned {
        let message = "nothing was learned";
        let hint = "members are learned that no debug information, function, layout or lock file has";
        let nothing = Diagnostic::warning(Code::LayoutUnknown, message);
        report_problems(&if is_partial { nothing } else { nothing.hint(hint) }.into());
        return Ok(INCOMPLETE);
    }
    let rows = members.iter().map(|learned| {
        let evidence = format!("{} distinct objects, such as `{}`", learned.objects, learned.example);
        vec![learned.member.clone(), learned.offset.to_string(), evidence]
    });
    if !members.is_empty() {
        write_out(&columns(&["MEMBER", ">OFFSET", "EVIDENCE"], rows))?;
    }
    let rows = slots.iter().map(|learned| {
        let LearnedSlot { calls, steps, percent, .. } = learned;
        let evidence = format!("{calls} calls in {steps} steps, {percent} % of their time");
        vec![learned.slots.clone(), learned.slot.to_string(), evidence]
    });
    if !slots.is_empty() {
        write_out(&columns(&["METHOD", ">SLOT", "EVIDENCE"], rows))?;
    }
    let lock = record::host_arch().ok().and_then(|arch| learned_lock(&probeset.name, (members, slots), arch));
    let Some(lock) = lock else {
        let problem = Diagnostic::error(Code::CannotLock, "the engine's file has no build-id to recognise it by");
        return Err(problem.hint("link it with `-Wl,--build-id`; or write the offsets into the probeset").into());
    };
    let output = arguments.output.clone().unwrap_or_else(|| format!("{}.lock", probeset.name).into());
    let request = arguments.force.request(&output, OutputKind::Lock, &sources(&probeset));
    write_whole(request, printable_json(&lock.to_text()).as_bytes())?;
    let counts = [(members.len(), "member"), (slots.len(), "slot")].into_iter().filter(|(count, _)| *count > 0);
    let counts = counts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    let counts = counts.collect::<Vec<_>>().join(" and ");
    status(&format!("{}: {counts}; use it with `record --lock {0}`", output.display()));
    Ok(if is_partial { INCOMPLETE } else { DONE })
}
