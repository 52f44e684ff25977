//! The figures as Markdown: a section of `docs/benchmarks.md`.

use crate::arguments::Arguments;
use crate::conditions::{Script, Tool};
use crate::engines::Build;
use crate::limit::Level;
use crate::machine;
use crate::on_device::OnDevice;
use crate::own_profiler::OwnProfiler;
use crate::recorder::Recorder;
use crate::served::Served;
use crate::statistics::Estimate;
use crate::turns::{Clocks, Measured, Row};
use std::fmt::Write;
use std::path::Path;

/// The marks around the section of an engine with so many threads.
fn marks(threads: usize) -> (String, String) {
    let of = if threads == 1 { String::new() } else { format!(" of {threads} threads") };
    (format!("<!-- overhead{of}: written by benches/overhead -->"), format!("<!-- /overhead{of} -->"))
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Page {
    preface: String,
    /// Of the engine.
    threads: usize,
    load: f64,
    absent: Vec<String>,
    models: Vec<Measured>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) served: Vec<Served>,
    pub(crate) own_profiler: Vec<OwnProfiler>,
    pub(crate) on_device: Option<OnDevice>,
    text: String,
}

impl Page {
    pub(crate) fn new(arguments: &Arguments, build: &Build, load: f64, absent: Vec<String>) -> Self {
        let mut preface = format!("{}; {}.", machine::machine(), machine::versions(&build.name));
        if cfg!(debug_assertions) {
            preface.push_str(" **A build without optimisation.**");
        }
        let _ = write!(preface, " {} pairs of turns of {} ms.", arguments.pairs, arguments.turn_ms);
        let (models, own_profiler) = (Vec::new(), Vec::new());
        Self {
            preface,
            threads: arguments.threads,
            load,
            absent,
            models,
            recorder: None,
            served: Vec::new(),
            own_profiler,
            on_device: None,
            text: String::new(),
        }
    }

    pub(crate) fn add(&mut self, model: Measured) {
        self.models.push(model);
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Writes it all down.
    pub(crate) fn finish(&mut self) {
        let mut text = format!("{}\n\n", wrapped(&format!("{} {}", self.preface, self.load_line())));
        for model in &self.models {
            self.table(&mut text, model);
        }
        for own in &self.own_profiler {
            own_table(&mut text, own);
        }
        if let Some(on_device) = &self.on_device {
            device_table(&mut text, on_device);
        }
        self.limits(&mut text);
        if let Some(recorder) = &self.recorder {
            recorder_table(&mut text, recorder);
        }
        if !self.served.is_empty() {
            served_table(&mut text, &self.served);
        }
        for why in &self.absent {
            let _ = writeln!(text, "Not measured: {why}.\n");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        self.text = text;
    }

    /// Replaces what stands between the marks in a file.
    pub(crate) fn write(&self, file: &Path) {
        let (before, after) = around(file, self.threads);
        let (first, last) = marks(self.threads);
        let page = format!("{before}{first}\n\n{}\n{last}{after}", self.text);
        std::fs::write(file, page).expect("the page can be written");
    }

    fn load_line(&self) -> String {
        format!("Processes that wanted to run besides: {:.1} when it began.", self.load)
    }

    fn table(&self, text: &mut String, model: &Measured) {
        let ms = model.token_ns.wall / 1e6;
        let what = if self.threads == 1 { "operators a token" } else { "calls of operators a token, by all threads" };
        let _ = writeln!(text, "**{}**: {ms:.2} ms and {:.0} {what}\n", model.model, model.operators);
        let _ = writeln!(
            text,
            "| | time it takes, by that without | the same, CPU time | added, µs a token | µs an operator \
             | the same, CPU time | seen |\n|---|---:|---:|---:|---:|---:|---:|"
        );
        for row in &model.rows {
            let Clocks { wall, cpu } = added(row, model);
            let operator = |estimate: Estimate| match row.condition.name {
                "none" | "graph" | "samples" => String::new(),
                // Calls of several threads are at the same time.
                _ if self.threads > 1 => String::new(),
                _ => shown(estimate.map(|us| us / model.operators), 2),
            };
            let seen = match (row.seen, row.lost) {
                (None, 0) => String::new(),
                (Some(seen), 0) => format!("{:.1} %", 100.0 * seen),
                (seen, lost) => format!("{:.1} %, {lost} lost", 100.0 * seen.unwrap_or(f64::NAN)),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {seen} |",
                row.condition.title,
                shown(row.ratio.wall, 3),
                shown(row.ratio.cpu, 3),
                shown(wall, 1),
                operator(wall),
                operator(cpu),
            );
        }
        text.push('\n');
    }

    /// What the traps alone would cost, beside what was measured.
    fn limits(&self, text: &mut String) {
        let (cost, source) = self.trap_ns();
        if self.models.iter().all(|model| model.limits.is_empty()) {
            return;
        }
        let _ = writeln!(
            text,
            "{}\n",
            wrapped(&format!(
                "**The physical limit**: the stops of a token, a return being one, times the cost of a trap, {source}. \
                 The measured time is CPU time."
            ))
        );
        let _ = writeln!(
            text,
            "| model | | stops a token | at least, µs a token | measured, µs a token | µs an operator, at least | \
             measured |\n|---|---|---:|---:|---:|---:|---:|"
        );
        for model in &self.models {
            for level in &model.limits {
                limit_row(text, model, level, cost);
            }
        }
        text.push('\n');
    }

    /// What a trap costs, and how that is known.
    fn trap_ns(&self) -> (Option<f64>, String) {
        let trap = self.models.iter().find_map(|model| {
            let row = model.rows.iter().find(|row| row.condition.tool == Tool::Bpftrace(Script::Empty))?;
            Some(added(row, model).cpu.map(|us| us * 1e3 / model.operators))
        });
        match trap {
            Some(trap) => (Some(trap.value), format!("{} ns as measured above", shown(trap, 0))),
            None => (None, "as profinfer's own table expects it".to_owned()),
        }
    }
}

/// What stands before and after the marks in a file.
pub(crate) fn around(file: &Path, threads: usize) -> (String, String) {
    let page = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let (first, last) = marks(threads);
    let between = || {
        let (before, rest) = page.split_once(&first)?;
        Some((before.to_owned(), rest.split_once(&last)?.1.to_owned()))
    };
    between().unwrap_or_else(|| panic!("{}: no `{first}` and `{last}` after it", file.display()))
}

fn limit_row(text: &mut String, model: &Measured, level: &Level, cost_ns: Option<f64>) {
    let least = cost_ns.map_or(level.expected_ns, |cost| level.hits * cost) / 1e3;
    let row = model.rows.iter().find(|row| row.condition.name == level.name);
    let measured = row.map(|row| added(row, model).cpu);
    let per = |estimate: Estimate| estimate.map(|us| us / model.operators);
    let (an_operator, measured_operator) = match level.name {
        "graph" => (String::new(), String::new()),
        _ => (format!("{:.2}", least / model.operators), measured.map_or(String::new(), |us| shown(per(us), 2))),
    };
    let _ = writeln!(
        text,
        "| {} | {} | {:.1} | {least:.1} | {} | {an_operator} | {measured_operator} |",
        model.model,
        crate::conditions::title(level.name),
        level.hits,
        measured.map_or(String::new(), |us| shown(us, 1)),
    );
}

fn own_table(text: &mut String, own: &OwnProfiler) {
    let operators = own.operators;
    let ms = own.run_ns.wall / 1e6;
    let us = |clock: Estimate, run: f64| shown(clock.map(|ratio| (ratio - 1.0) * run / 1e3 / operators), 2);
    let _ = writeln!(
        text,
        "**ONNX Runtime {}** and its own profiler: {ms:.2} ms and {operators:.0} operators a run\n\n\
         | | time it takes, by that without | the same, CPU time | µs an operator | the same, CPU time | seen |\n\
         |---|---:|---:|---:|---:|---:|",
        own.version,
    );
    for row in &own.rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            row.title,
            shown(row.ratio.wall, 3),
            shown(row.ratio.cpu, 3),
            us(row.ratio.wall, own.run_ns.wall),
            us(row.ratio.cpu, own.run_ns.cpu),
            row.seen.map_or_else(String::new, |seen| format!("{:.1} %", 100.0 * seen)),
        );
    }
    text.push('\n');
}

fn recorder_table(text: &mut String, recorder: &Recorder) {
    let _ = writeln!(
        text,
        "**The recorder itself**, operators of a copy that is told to work at this rate\n\n\
         | records a second | its CPU, of one core | its memory at most | trace, bytes an operator span | lost |\n\
         |---:|---:|---:|---:|---:|\n| {:.0} | {:.2} % | {:.1} MB | {:.1} | {} |\n",
        recorder.records_a_second,
        100.0 * recorder.share,
        recorder.memory_bytes as f64 / 1e6,
        recorder.bytes_an_operator,
        recorder.lost,
    );
}

fn served_table(text: &mut String, served: &[Served]) {
    let _ = writeln!(
        text,
        "**`serve` itself**, with its recorders, at its defaults, scraped every 5 s; engines decode all the time\n\n\
         | engines | model | ms a token | its CPU, of one core | its memory (PSS) |\n|---:|---|---:|---:|---:|"
    );
    for Served { engines, model, token_ns, share, memory_bytes } in served {
        let (ms, percent, megabytes) = (token_ns / 1e6, 100.0 * share, *memory_bytes as f64 / 1e6);
        let _ = writeln!(text, "| {engines} | {model} | {ms:.2} | {percent:.2} % | {megabytes:.1} MB |");
    }
    text.push('\n');
}

/// Time added to a token, µs: the ratio's excess of a bare token's time. A ratio stays what it is while the machine
/// gets slower and faster; differences do not.
fn added(row: &Row, model: &Measured) -> Clocks<Estimate> {
    let us = |ratio: Estimate, token_ns: f64| ratio.map(|ratio| (ratio - 1.0) * token_ns / 1e3);
    Clocks { wall: us(row.ratio.wall, model.token_ns.wall), cpu: us(row.ratio.cpu, model.token_ns.cpu) }
}

fn shown(estimate: Estimate, digits: usize) -> String {
    let Estimate { value, low, high } = estimate;
    // Never `-0.0`.
    let number = |value: f64| {
        let text = format!("{value:.digits$}");
        if text.trim_start_matches(['-', '0', '.']).is_empty() { text.trim_start_matches('-').to_owned() } else { text }
    };
    format!("{} [{}, {}]", number(value), number(low), number(high))
}

/// Lines of at most 118 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let full = lines.last().is_some_and(|line| line.chars().count() + 1 + word.chars().count() > 118);
        if full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn device_table(text: &mut String, of: &OnDevice) {
    let (ms, operators) = (of.token_ns.wall / 1e6, of.dispatches);
    let _ = writeln!(
        text,
        "**llama.cpp on Vulkan** (lavapipe): {ms:.2} ms a token until its result is there, {operators:.0} operators \
         encoded, those without work included\n\n\
         | | time it takes, by that without | the same, CPU time of the host | µs an operator of that |\n\
         |---|---:|---:|---:|",
    );
    for (title, ratio) in &of.rows {
        let us = ratio.cpu.map(|ratio| (ratio - 1.0) * of.token_ns.cpu / 1e3 / operators);
        let _ = writeln!(text, "| {title} | {} | {} | {} |", shown(ratio.wall, 3), shown(ratio.cpu, 3), shown(us, 2));
    }
    text.push('\n');
}
