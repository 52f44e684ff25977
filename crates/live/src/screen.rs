//! The terminal screen: snapshots as lines, no longer and no more than the terminal has. Plain text: whoever draws it
//! needs no colours.

use super::snapshot::{LossRow, OperatorShare, PhaseFigures, RequestFigures, Snapshot, State};
use profinfer_diagnostics::printable;
use profinfer_report::{rate, share, time_f64};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Lines of the verdict.
const VERDICT: usize = 3;
/// Requests that are listed, where there are operators too.
const REQUESTS: usize = 4;
/// Columns that a screen has at least.
const NARROWEST: usize = 40;

/// What operators are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Work.
    #[default]
    Work,
    /// Waiting.
    Waiting,
    /// How many.
    Count,
    /// Mean time.
    Mean,
}

impl Sort {
    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Work => Self::Waiting,
            Self::Waiting => Self::Count,
            Self::Count => Self::Mean,
            Self::Mean => Self::Work,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Waiting => "waiting",
            Self::Count => "count",
            Self::Mean => "mean",
        }
    }

    fn key(self, row: &OperatorShare) -> f64 {
        match self {
            Self::Work => row.work_ns as f64,
            Self::Waiting => row.waiting_ns as f64,
            Self::Count => row.count as f64,
            Self::Mean => row.mean_ns,
        }
    }
}

/// How the screen is shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Screen {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Which recording.
    pub selected: usize,
    /// What operators are sorted by.
    pub sort: Sort,
    /// The figures stand still.
    pub is_frozen: bool,
    /// Targets are looked for.
    pub searches: bool,
}

impl Screen {
    /// The lines, for these recordings: as many as the screen has, each no wider than it.
    pub fn lines(&self, recordings: &[Snapshot], message: Option<&str>) -> Vec<String> {
        let width = self.width.max(NARROWEST);
        let mut lines = match recordings.get(self.selected.min(recordings.len().saturating_sub(1))) {
            Some(snapshot) => self.one(snapshot, recordings.len(), width),
            None if self.searches => wrap("No process has an engine yet; looking for one every second.", width),
            None => vec!["Waiting for the first record.".to_owned()],
        };
        lines.truncate(self.height.saturating_sub(2));
        lines.resize(self.height.saturating_sub(2), String::new());
        lines.push(message.unwrap_or_default().to_owned());
        let next = if recordings.len() > 1 { "  n next" } else { "" };
        let freeze = if self.is_frozen { "f FROZEN" } else { "f freeze" };
        lines.push(format!("q quit  {freeze}  s sort by {}{next}", self.sort.next().name()));
        lines.iter().map(|line| cut(&printable(line), self.width)).collect()
    }

    fn one(&self, of: &Snapshot, all: usize, width: usize) -> Vec<String> {
        let mut lines = vec![heading(of, self.selected, all), String::new()];
        lines.extend(speeds(of));
        lines.push(String::new());
        for sentence in &of.window.verdict {
            let wrapped = wrap(sentence, width);
            if lines.len() + wrapped.len() <= 6 + VERDICT + 2 {
                lines.extend(wrapped);
            }
        }
        lines.extend(waits(of));
        lines.push(missing(of));
        let requests = of.requests.as_ref().map(|requests| requests.open.as_slice()).unwrap_or_default();
        if !requests.is_empty() {
            lines.push(String::new());
            let most = if of.window.operators.is_empty() { usize::MAX } else { REQUESTS };
            lines.extend(request_lines(requests, most));
        }
        if !of.window.operators.is_empty() {
            lines.push(String::new());
            lines.extend(self.operators(of));
        }
        lines
    }

    fn operators(&self, of: &Snapshot) -> Vec<String> {
        let steps = match of.window.verdict_steps {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        let mut rows: Vec<&OperatorShare> = of.window.operators.iter().collect();
        rows.sort_by(|a, b| self.sort.key(b).total_cmp(&self.sort.key(a)).then_with(|| a.op.cmp(&b.op)));
        let mark = |sort: Sort, text: &str| if self.sort == sort { format!("{text}▾") } else { text.to_owned() };
        let (work, waiting) = (mark(Sort::Work, "work"), mark(Sort::Waiting, "waiting"));
        let (count, mean) = (mark(Sort::Count, "count"), mark(Sort::Mean, "mean"));
        let mut lines = vec![format!("  share {work:>9} {waiting:>9} {count:>8} {mean:>9}  operator (of {steps})")];
        lines.extend(rows.iter().map(|row| {
            let OperatorShare { op, count, .. } = row;
            let (work, waiting) = (time_f64(row.work_ns as f64), time_f64(row.waiting_ns as f64));
            let (share, mean) = (share(row.share), time_f64(row.mean_ns));
            format!("{share:>7} {work:>9} {waiting:>9} {count:>8} {mean:>9}  {op}")
        }));
        lines
    }
}

fn heading(of: &Snapshot, selected: usize, all: usize) -> String {
    let engine = if of.engine.is_empty() { "?" } else { of.engine.as_str() };
    let state = match &of.state {
        State::Waiting => "waiting for the engine".to_owned(),
        State::Recording => "recording".to_owned(),
        State::Ended { reason } => format!("ended: {reason}"),
    };
    let seconds = of.elapsed_ns / 1_000_000_000;
    let elapsed = format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let place = if all > 1 { format!(" · {} of {all}", selected.min(all - 1) + 1) } else { String::new() };
    let container = of.container.as_ref().map(|of| format!(" in {}", of.shown())).unwrap_or_default();
    format!("{engine} · process {}{container} · {elapsed} · {state}{place}", of.pid)
}

fn speeds(of: &Snapshot) -> Vec<String> {
    let window = &of.window;
    let time = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), time_f64);
    let requests = of.requests.as_ref().map_or_else(
        || "Requests  not recorded".to_owned(),
        |requests| {
            let ended = requests.duration.count;
            let queued = requests.queued.map_or_else(String::new, |queued| format!("{queued} queued, "));
            let running = requests.running.map_or_else(|| "–".to_owned(), |running| running.to_string());
            format!("Requests  {running} running, {queued}{ended} ended")
        },
    );
    let per_second = |value: Option<f64>, is_estimated: bool| {
        let about = if is_estimated { "≈" } else { "" };
        value.map_or_else(|| "–".to_owned(), |value| about.to_owned() + &rate(value))
    };
    let tokens = format!(
        "Tokens    output {}/s, prompt {}/s, steps {}/s (last {} s)",
        per_second(window.output_tokens_per_s, window.output_is_estimated),
        per_second(window.input_tokens_per_s, window.rates_are_estimated),
        per_second(window.steps_per_s, window.rates_are_estimated),
        window.seconds
    );
    let latency = format!(
        "Latency   first token {} (all: {}), per token {} (all: {})",
        time(window.ttft_ns),
        time(of.ttft.mean_ns()),
        time(window.tpot_ns),
        time(of.tpot.mean_ns()),
    );
    vec![requests, tokens, latency]
}

fn waits(of: &Snapshot) -> Vec<String> {
    let sum = |value: fn(&PhaseFigures) -> u64| of.phases.iter().map(value).fold(0, u64::saturating_add) as f64;
    let lanes = sum(|phase| phase.lane_ns);
    let mut parts = Vec::new();
    if lanes > 0.0 {
        parts.push(format!("waiting {} of lane time", share(sum(|phase| phase.waiting_ns) / lanes)));
        if of.phases.iter().any(|phase| phase.off_cpu_ns.is_some()) {
            let off = |pick: fn((u64, u64)) -> u64| -> f64 {
                of.phases.iter().filter_map(|phase| phase.off_cpu_ns).map(pick).fold(0, u64::saturating_add) as f64
            };
            parts.push(format!("run-queue delay {}", share(off(|(_, runnable)| runnable) / lanes)));
            parts.push(format!("blocked {}", share(off(|(blocked, _)| blocked) / lanes)));
        }
    }
    let mut faults = Vec::new();
    // First: a narrow screen cuts the line.
    if let Some(left_out) = of.pressure.map(|pressure| pressure.left_out).filter(|left_out| *left_out > 0) {
        faults.push(format!("without {left_out} processes, too many to be asked"));
    }
    if let (Some(major), Some(cpus)) = (of.window.major_faults_per_s, of.window.cpus) {
        faults.push(format!("{} CPUs used", rate(cpus)));
        faults.push(format!("{} major faults/s", rate(major)));
    }
    if let Some(throttled) = of.pressure.and_then(|pressure| pressure.throttled_ns) {
        faults.push(format!("throttled {}", time_f64(throttled as f64)));
    }
    let line = |name: &str, parts: Vec<String>| (!parts.is_empty()).then(|| format!("{name:<9} {}", parts.join(", ")));
    [line("Waits", parts), line("Machine", faults)].into_iter().flatten().collect()
}

/// Losses, gaps and the overhead.
fn missing(of: &Snapshot) -> String {
    let records: u64 = of.losses.iter().filter(|row| row.loses_records).map(|row| row.count).sum();
    let others: Vec<&LossRow> =
        of.losses.iter().filter(|row| !row.loses_records && row.reason != "still_open").collect();
    let incomplete: u64 = of.phases.iter().map(|phase| phase.incomplete).sum();
    let mut parts = vec![format!("{records} records lost, {incomplete} steps incomplete")];
    if !others.is_empty() {
        parts.push(format!("{} fields or sites missing", others.iter().map(|row| row.count).sum::<u64>()));
    }
    if of.unseen_ns > 0 {
        parts.push(format!("{} not recorded for the budget", time_f64(of.unseen_ns as f64)));
    }
    let mut line = format!("Missing   {}", parts.join(", "));
    if let Some(overhead) = of.overhead
        && let Some(part) = overhead.part()
    {
        let budget = overhead.budget.map_or_else(String::new, |budget| format!(" of {:.2} %", budget * 100.0));
        line.push_str(&format!("; overhead ≈ {:.2} %{budget}", part * 100.0));
    }
    line
}

fn request_lines(requests: &[RequestFigures], most: usize) -> Vec<String> {
    let mut lines = vec!["  sequence  phase      since   prompt   output  first token  per token".to_owned()];
    lines.extend(requests.iter().take(most).map(|row| {
        let phase = if row.is_in_decode { "decode" } else { "prefill" };
        let ttft = row.ttft_ns.map_or_else(|| "–".to_owned(), |ns| time_f64(ns as f64));
        let tpot = row.tpot_ns.map_or_else(|| "–".to_owned(), time_f64);
        let since = time_f64(row.since_ns as f64);
        let count = |tokens: Option<u64>| tokens.map_or_else(|| "–".to_owned(), |tokens| tokens.to_string());
        let (sequence, input, output) = (row.sequence, count(row.input_tokens), count(row.output_tokens));
        format!("{sequence:>10}  {phase:<7} {since:>8} {input:>8} {output:>8} {ttft:>12} {tpot:>10}")
    }));
    if requests.len() > most {
        lines.push(format!("{:>10}  {} more", "", requests.len() - most));
    }
    lines
}

/// No wider than a line.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |c: &char| {
        taken += c.width().unwrap_or(0);
        taken < width
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
