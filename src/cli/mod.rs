//! The command line: the only place that prints or decides an exit code. One file a subcommand.

mod analyse;
mod build;
mod check;
#[cfg(feature = "record")]
mod counters;
mod diff;
#[cfg(feature = "record")]
mod doctor;
mod dump;
mod engines;
mod expected;
mod explain;
#[cfg(feature = "record")]
mod explain_live;
mod export;
mod r#gen;
mod graph;
mod html;
mod info;
mod lock;
mod output;
mod probeset;
#[cfg(feature = "record")]
mod record;
mod report;
mod resolved;
#[cfg(feature = "record")]
mod roofline;
mod scaffold;
#[cfg(feature = "record")]
mod scaffold_trial;
mod schema;
#[cfg(feature = "record")]
mod short_run;
mod statistics;
mod steps;
mod table;
mod terminal;
mod timeline;
#[cfg(feature = "record")]
mod together;
mod trace_file;
#[cfg(feature = "record")]
mod try_;

use crate::diag::{Code, Diagnostic, Diagnostics};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Exit code: done.
pub(crate) const DONE: u8 = 0;
/// Exit code: recorded, but incomplete.
pub(crate) const INCOMPLETE: u8 = 4;
/// Exit code: slower than was asked for.
pub(crate) const SLOWER: u8 = 5;

/// Profiles inference engines from outside: no rebuild, no link, one YAML file an engine.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Arguments {
    /// Of a trace of several engines, this one: its probeset's name
    #[arg(long, global = true, value_name = "NAME")]
    engine: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Record a trace of a command, or of a running process
    #[cfg(feature = "record")]
    Record(record::Arguments),
    /// Record a few steps and print each record, with what looks wrong
    #[cfg(feature = "record")]
    Try(try_::Arguments),
    /// Say where the time of a trace went
    Report(report::Arguments),
    /// Say what many steps of a trace show together
    Statistics(statistics::Arguments),
    /// Say where two traces differ, and whether that is more than noise
    Diff(diff::Arguments),
    /// Rebuild the graph of a step's operators
    Graph(graph::Arguments),
    /// Write a trace's report, timeline and all, as one page for a browser
    Html(html::Arguments),
    /// Write a trace's steps for Perfetto or another timeline viewer
    Timeline(timeline::Arguments),
    /// Write a trace's steps, operators and lanes as tables, for other tools
    Export(export::Arguments),
    /// Print a trace, one record a line, as JSON
    Dump(dump::Arguments),
    /// Say what a trace is: its schema, probeset, machine, modules, losses
    Info(info::Arguments),
    /// Resolve a probeset against a target: every probe, site and path
    Check(check::Arguments),
    /// Say how one path of a probeset is read, step by step
    Explain(explain::Arguments),
    /// Print the C that a probeset is compiled to
    Gen(r#gen::Arguments),
    /// Compile a probeset to a BPF object
    Build(build::Arguments),
    /// List the engines that profinfer knows, and the builds that it was tested on
    Engines(engines::Arguments),
    /// Write down what a target's debug information says, for where it is stripped
    Lock(lock::Arguments),
    /// Write a first draft of a probeset for a binary
    Scaffold(scaffold::Arguments),
    /// Print the probeset language as a JSON Schema, for editors
    Schema(schema::Arguments),
    /// List what this machine can count
    #[cfg(feature = "record")]
    Counters(counters::Arguments),
    /// Say what this machine can do, and the command that mends what it cannot
    #[cfg(feature = "record")]
    Doctor(doctor::Arguments),
    /// Measure what this machine can do at most: memory and arithmetic
    #[cfg(feature = "record")]
    Roofline(roofline::Arguments),
    /// Print completions for a shell
    #[command(hide = true)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man {
        /// The folder
        folder: std::path::PathBuf,
    },
}

impl Command {
    /// Whether it is about a trace, in which there may be several engines.
    fn reads_a_trace(&self) -> bool {
        matches!(
            self,
            Self::Report(_)
                | Self::Statistics(_)
                | Self::Diff(_)
                | Self::Graph(_)
                | Self::Html(_)
                | Self::Timeline(_)
                | Self::Export(_)
                | Self::Dump(_)
                | Self::Info(_)
        )
    }
}

fn nothing_to_choose(engine: &str) -> Diagnostic {
    let message = format!("`--engine {engine}` chooses among the engines of a trace, and this command reads none");
    Diagnostic::error(Code::BadArgument, message).hint("leave it out; what names an engine here is its probeset")
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.engine
        && !arguments.command.reads_a_trace()
    {
        return ExitCode::from(terminal::report_problems(&nothing_to_choose(name).into()));
    }
    trace_file::want(arguments.engine);
    let outcome = match arguments.command {
        #[cfg(feature = "record")]
        Command::Record(arguments) => record::run(&arguments),
        #[cfg(feature = "record")]
        Command::Try(arguments) => try_::run(&arguments),
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
        Command::Scaffold(arguments) => scaffold::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        #[cfg(feature = "record")]
        Command::Counters(arguments) => counters::run(&arguments),
        #[cfg(feature = "record")]
        Command::Doctor(arguments) => doctor::run(&arguments),
        #[cfg(feature = "record")]
        Command::Roofline(arguments) => roofline::run(&arguments),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "profinfer", &mut std::io::stdout());
            Ok(DONE)
        }
        Command::Man { folder } => terminal::write_manual(Arguments::command(), &folder),
    };
    #[cfg(target_os = "linux")]
    terminal::report_problems(&crate::cache::take_notes());
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(problems) => ExitCode::from(terminal::report_problems(&problems)),
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
    for (number, part) in engines.into_iter().enumerate() {
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
