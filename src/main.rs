//! The `profinfer` program: the command line, and the only place that prints or decides an exit code. One file a
//! subcommand.

mod analyse;
#[cfg(feature = "record")]
mod bounded;
mod build;
mod check;
#[cfg(feature = "record")]
mod connection;
#[cfg(feature = "record")]
mod container;
#[cfg(feature = "record")]
mod counters;
mod diff;
#[cfg(feature = "record")]
mod discovery;
#[cfg(feature = "record")]
mod doctor;
mod dump;
mod engines;
mod expected;
mod explain;
#[cfg(feature = "record")]
mod explain_live;
mod export;
#[cfg(feature = "record")]
mod flight;
mod functions;
mod r#gen;
mod graph;
mod html;
#[cfg(feature = "record")]
mod http;
#[cfg(feature = "record")]
mod identity;
mod info;
#[cfg(feature = "record")]
mod learn;
#[cfg(feature = "record")]
mod live;
mod lock;
#[cfg(feature = "record")]
mod otlp;
mod output;
mod partition;
mod phase;
mod probeset;
#[cfg(feature = "record")]
mod record;
#[cfg(feature = "record")]
mod recorders;
mod report;
mod resolved;
#[cfg(feature = "record")]
mod roofline;
mod scaffold;
#[cfg(feature = "record")]
mod scaffold_trial;
mod schema;
#[cfg(feature = "record")]
mod secret;
#[cfg(feature = "record")]
mod serve;
#[cfg(feature = "record")]
mod short_run;
#[cfg(feature = "record")]
mod shortfalls;
mod statistics;
mod steps;
mod table;
mod table_files;
#[cfg(feature = "record")]
mod tables;
#[cfg(feature = "record")]
mod targets;
mod terminal;
#[cfg(feature = "record")]
mod terminal_screen;
mod timeline;
#[cfg(feature = "record")]
mod tls;
#[cfg(feature = "record")]
mod together;
#[cfg(feature = "record")]
mod token;
#[cfg(feature = "record")]
mod top;
mod trace_file;
#[cfg(feature = "record")]
mod try_;
mod values;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use std::ffi::OsString;
use std::process::ExitCode;

/// Exit code: done.
pub(crate) const DONE: u8 = 0;
/// Exit code: recorded, but incomplete.
pub(crate) const INCOMPLETE: u8 = 4;
/// Exit code: slower than was asked for.
pub(crate) const SLOWER: u8 = 5;

/// A profiler for inference engines: uprobes, no rebuild, one YAML file per engine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    /// Select one engine of a trace with several, by its probeset's name
    #[arg(long, global = true, value_name = "NAME")]
    engine: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a trace of a command or of a running process
    #[cfg(feature = "record")]
    Record(record::Arguments),
    /// Record a few steps, print each record, and mark suspicious values
    #[cfg(feature = "record")]
    Try(try_::Arguments),
    /// Show live figures of running engines in the terminal
    #[cfg(feature = "record")]
    Top(top::Arguments),
    /// Serve live figures of running engines: metrics for Prometheus, and a page
    #[cfg(feature = "record")]
    Serve(serve::Arguments),
    /// Show where the time of a trace went
    Report(report::Arguments),
    /// Show statistics over the steps of a trace
    Statistics(statistics::Arguments),
    /// Compare two traces and test whether the differences are significant
    Diff(diff::Arguments),
    /// Show the graph of a step's operators
    Graph(graph::Arguments),
    /// Write a trace's report and timeline as one HTML page
    Html(html::Arguments),
    /// Write a trace's steps for Perfetto or another timeline viewer
    Timeline(timeline::Arguments),
    /// Write a trace's steps, operators and lanes as tables for other tools
    Export(export::Arguments),
    /// Print a trace as JSON, one record per line
    Dump(dump::Arguments),
    /// Describe a trace: schema, probeset, machine, modules, losses
    Info(info::Arguments),
    /// Resolve a probeset against a target: every probe, site and path
    Check(check::Arguments),
    /// Explain how one path of a probeset is read
    Explain(explain::Arguments),
    /// Print the C that a probeset is compiled to
    Gen(r#gen::Arguments),
    /// Compile a probeset to a BPF object
    Build(build::Arguments),
    /// List the shipped probesets and the builds they were tested on
    Engines(engines::Arguments),
    /// Write a lock file: what a probeset needs from a target's debug information
    Lock(lock::Arguments),
    /// Find members of structs in the memory of a running engine, and write a lock file
    #[cfg(feature = "record")]
    Learn(learn::Arguments),
    /// Write a draft of a probeset for a binary
    Scaffold(scaffold::Arguments),
    /// Print the probeset language as a JSON Schema for editors
    Schema(schema::Arguments),
    /// List the events that this machine can count
    #[cfg(feature = "record")]
    Counters(counters::Arguments),
    /// Check whether this machine can record, and how to fix what is missing
    #[cfg(feature = "record")]
    Doctor(doctor::Arguments),
    /// Measure this machine's limits: memory bandwidth and peak arithmetic
    #[cfg(feature = "record")]
    Roofline(roofline::Arguments),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder
        folder: std::path::PathBuf,
    },
}

/// The subcommands that read a trace, in which there may be several engines.
const READ_A_TRACE: [&str; 9] = ["report", "statistics", "diff", "graph", "html", "timeline", "export", "dump", "info"];

/// The subcommands that look for processes, where `--engine` names the engine that they are to have.
const FIND_PROCESSES: [&str; 2] = ["top", "serve"];

/// The command line, in which `--engine` is shown with subcommands that have a use for it only. With others it is hidden,
/// and the error for it is a sentence.
fn command_line() -> clap::Command {
    let mut line = Arguments::command();
    let Some(engine) = line.get_arguments().find(|argument| argument.get_id() == ENGINE).cloned() else { return line };
    line = line.mut_arg(ENGINE, |argument| argument.hide(true));
    line.mut_subcommands(|subcommand| {
        if FIND_PROCESSES.contains(&subcommand.get_name()) {
            return subcommand
                .arg(engine.clone().help("Follow the processes that have this engine: a probeset's name"));
        }
        let reads = READ_A_TRACE.contains(&subcommand.get_name());
        subcommand.arg(engine.clone().hide(!reads))
    })
}

/// The option's name.
const ENGINE: &str = "engine";

fn nothing_to_choose(engine: &str) -> Diagnostic {
    let message = format!("`--engine {engine}` selects an engine of a trace, and this command does not read a trace");
    Diagnostic::error(Code::BadArgument, message).hint("remove it; here the probeset selects the engine")
}

/// Runs the program.
fn main() -> ExitCode {
    #[cfg(feature = "record")]
    profinfer_recorder::heed_children();
    ExitCode::from(run(std::env::args_os()))
}

/// Runs a command line, the program's name first; returns the exit code.
fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    let matches = command_line().get_matches_from(words);
    let has_use =
        matches.subcommand_name().is_some_and(|name| READ_A_TRACE.contains(&name) || FIND_PROCESSES.contains(&name));
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Some(name) = &arguments.engine
        && !has_use
    {
        return terminal::report_problems(&nothing_to_choose(name).into());
    }
    trace_file::want(arguments.engine);
    let outcome = match arguments.command {
        #[cfg(feature = "record")]
        Command::Record(arguments) => record::run(&arguments),
        #[cfg(feature = "record")]
        Command::Try(arguments) => try_::run(&arguments),
        #[cfg(feature = "record")]
        Command::Top(arguments) => top::run(&arguments),
        #[cfg(feature = "record")]
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Report(arguments) => each_engine(arguments.file(), || report::run(&arguments)),
        Command::Statistics(arguments) => each_engine(arguments.file(), || statistics::run(&arguments)),
        Command::Diff(arguments) => diff::run(&arguments),
        Command::Graph(arguments) => graph::run(&arguments),
        Command::Html(arguments) => html::run(&arguments),
        Command::Timeline(arguments) => timeline::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Dump(arguments) => dump::run(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Gen(arguments) => r#gen::run(&arguments),
        Command::Build(arguments) => build::run(&arguments),
        Command::Engines(arguments) => engines::run(&arguments),
        Command::Lock(arguments) => lock::run(&arguments),
        #[cfg(feature = "record")]
        Command::Learn(arguments) => learn::run(&arguments),
        Command::Scaffold(arguments) => scaffold::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        #[cfg(feature = "record")]
        Command::Counters(arguments) => counters::run(&arguments),
        #[cfg(feature = "record")]
        Command::Doctor(arguments) => doctor::run(&arguments),
        #[cfg(feature = "record")]
        Command::Roofline(arguments) => roofline::run(&arguments),
        Command::Completions { shell } => terminal::write_completions(command_line(), shell),
        Command::Man { folder } => terminal::write_manual(command_line(), &folder),
    };
    #[cfg(target_os = "linux")]
    terminal::report_problems(&profinfer_files::cache::take_notes());
    match outcome {
        Ok(code) => code,
        Err(problems) => terminal::report_problems(&problems),
    }
}

/// Runs a subcommand once for each engine of a trace, unless one is asked for. `file`: the trace, where what is written
/// can be there several times: text, one after the other.
fn each_engine(file: Option<&std::path::Path>, run: impl Fn() -> Outcome) -> Outcome {
    let engines = match file {
        Some(file) if trace_file::wanted().is_none() => trace_file::engines(file).unwrap_or_default(),
        _ => Vec::new(),
    };
    if engines.len() < 2 {
        return run();
    }
    let mut code = DONE;
    for (number, (_, part)) in engines.into_iter().enumerate() {
        let before = if number == 0 { "" } else { "\n" };
        terminal::write_out(&format!("{before}=== {} ===\n\n", part.engine))?;
        trace_file::want(Some(part.key));
        // What one of them lacks, such as a step, the next may have.
        code = code.max(run().unwrap_or_else(|problems| terminal::report_problems(&problems)));
    }
    Ok(code)
}

/// What a subcommand comes to: an exit code, or problems to print.
pub(crate) type Outcome = Result<u8, Diagnostics>;
