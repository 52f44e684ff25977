//! Snapshots in Prometheus's text format. Names and units follow OpenTelemetry's GenAI conventions where they have one
//! (`gen_ai.server.time_to_first_token` is `gen_ai_server_time_to_first_token_seconds`); the others begin with
//! `profinfer_`. What was not recorded has no series. No label has a value out of a request.

use super::histogram::Histogram;
use super::snapshot::{Requests, Snapshot, State};
use std::fmt::Write;

/// One metric: its lines of all recordings stand together, as the format wants them.
struct Metric<'a> {
    out: &'a mut String,
    name: &'static str,
    /// Its `HELP` and `TYPE`, until they are written.
    heading: Option<(&'static str, &'static str)>,
}

impl<'a> Metric<'a> {
    fn new(out: &'a mut String, name: &'static str, kind: &'static str, help: &'static str) -> Self {
        Self { out, name, heading: Some((kind, help)) }
    }

    /// A value; `more` are further labels.
    fn value(&mut self, suffix: &str, labels: &str, more: &[(&str, &str)], value: f64) {
        if let Some((kind, help)) = self.heading.take() {
            let _ = writeln!(self.out, "# HELP {0} {help}\n# TYPE {0} {kind}", self.name);
        }
        let _ = write!(self.out, "{}{suffix}{{{labels}", self.name);
        for (name, value) in more {
            let _ = write!(self.out, ",{name}=\"{}\"", escaped(value));
        }
        let _ = writeln!(self.out, "}} {value}");
    }

    fn histogram(&mut self, labels: &str, more: &[(&str, &str)], histogram: &Histogram) {
        for (bound, count) in histogram.cumulative() {
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
            let labels_of_bucket: Vec<(&str, &str)> = more.iter().copied().chain([("le", bound.as_str())]).collect();
            self.value("_bucket", labels, &labels_of_bucket, count as f64);
        }
        self.value("_sum", labels, more, seconds(histogram.sum_ns));
        self.value("_count", labels, more, histogram.count as f64);
    }
}

/// The metrics of all recordings, each under a name that no two of them share.
pub fn metrics(recordings: &[Snapshot]) -> String {
    let mut text = String::new();
    let every: Vec<(String, &Snapshot)> = recordings.iter().map(|of| (labels(of), of)).collect();
    recording(&mut text, &every);
    let all: Vec<(String, &Snapshot)> = every.into_iter().filter(|(_, of)| of.has_records()).collect();
    generative(&mut text, &all);
    steps(&mut text, &all);
    operators(&mut text, &all);
    target(&mut text, &all);
    recorder(&mut text, &all);
    text
}

type All<'a> = [(String, &'a Snapshot)];

fn labels(snapshot: &Snapshot) -> String {
    format!("gen_ai_provider_name=\"{}\",process_pid=\"{}\"", escaped(&snapshot.engine), snapshot.pid)
}

/// As OpenTelemetry has them.
fn generative(out: &mut String, all: &All<'_>) {
    let mut metric = Metric::new(
        out,
        "gen_ai_server_time_to_first_token_seconds",
        "histogram",
        "From a request's arrival, or else its first step, to its first token.",
    );
    all.iter().for_each(|(labels, of)| metric.histogram(labels, &[], &of.ttft));
    let mut metric = Metric::new(
        out,
        "gen_ai_server_time_per_output_token_seconds",
        "histogram",
        "From one token of a request to its next one.",
    );
    all.iter().for_each(|(labels, of)| metric.histogram(labels, &[], &of.tpot));
    let requests = || all.iter().filter_map(|(labels, of)| Some((labels, of.requests.as_ref()?)));
    let mut metric = Metric::new(
        out,
        "gen_ai_server_request_duration_seconds",
        "histogram",
        "From a request's arrival, or else its first step, to its last token.",
    );
    requests().for_each(|(labels, of)| metric.histogram(labels, &[], &of.duration));
    let mut metric =
        Metric::new(out, "profinfer_requests", "gauge", "Requests that wait for a sequence, and that are computed.");
    requests().for_each(|(labels, of)| {
        metric.value("", labels, &[("state", "queued")], of.queued as f64);
        metric.value("", labels, &[("state", "running")], of.running as f64);
    });
    let mut metric = Metric::new(
        out,
        "profinfer_request_tokens_total",
        "counter",
        "Tokens of requests that have ended: computed of their prompts, and given to them.",
    );
    let tokens = |of: &Requests| [("input", of.input_tokens), ("output", of.output_tokens)];
    requests().for_each(|(labels, of)| {
        tokens(of).iter().for_each(|(kind, n)| metric.value("", labels, &[("gen_ai_token_type", kind)], *n as f64));
    });
}

fn steps(out: &mut String, all: &All<'_>) {
    let phases = || all.iter().flat_map(|(labels, of)| of.phases.iter().map(move |phase| (labels, phase)));
    let mut metric = Metric::new(out, "profinfer_step_seconds", "histogram", "Durations of steps.");
    phases().for_each(|(labels, of)| metric.histogram(labels, &[("phase", of.phase)], &of.steps));
    let mut counter = |name, help, value: &dyn Fn(&super::PhaseFigures) -> Option<f64>| {
        let mut metric = Metric::new(out, name, "counter", help);
        for (labels, of) in phases() {
            if let Some(value) = value(of) {
                metric.value("", labels, &[("phase", of.phase)], value);
            }
        }
    };
    counter("profinfer_tokens_total", "Tokens of steps.", &|of| Some(of.tokens as f64));
    counter(
        "profinfer_incomplete_steps_total",
        "Steps of which records were lost; they are in no other figure.",
        &|of| Some(of.incomplete as f64),
    );
    counter("profinfer_whole_steps_total", "Steps whose operators were recorded.", &|of| Some(of.whole_steps as f64));
    counter("profinfer_lane_seconds_total", "Time of these steps, on all of their lanes.", &|of| {
        Some(seconds(of.lane_ns))
    });
    counter("profinfer_work_seconds_total", "Work of operators in these steps, all lanes together.", &|of| {
        Some(seconds(of.work_ns))
    });
    counter("profinfer_waiting_seconds_total", "Waiting of lanes for each other in these steps.", &|of| {
        Some(seconds(of.waiting_ns))
    });
    counter(
        "profinfer_run_queue_delay_seconds_total",
        "Time in these steps that threads were runnable and did not run.",
        &|of| of.off_cpu_ns.map(|(_, runnable)| seconds(runnable)),
    );
    counter("profinfer_blocked_seconds_total", "Time in these steps that threads waited off the CPU.", &|of| {
        of.off_cpu_ns.map(|(blocked, _)| seconds(blocked))
    });
}

fn operators(out: &mut String, all: &All<'_>) {
    let rows = || all.iter().flat_map(|(labels, of)| of.operators.iter().map(move |row| (labels, row)));
    let mut counter = |name, help, value: &dyn Fn(&super::OperatorFigures) -> f64| {
        let mut metric = Metric::new(out, name, "counter", help);
        rows().for_each(|(labels, row)| metric.value("", labels, &[("operator", &row.op)], value(row)));
    };
    counter("profinfer_operators_total", "Operators computed in steps whose operators were recorded.", &|row| {
        row.count as f64
    });
    counter("profinfer_operator_seconds_total", "Their work, all lanes together.", &|row| seconds(row.work_ns));
    counter("profinfer_operator_waiting_seconds_total", "Waiting of their lanes for each other.", &|row| {
        seconds(row.waiting_ns)
    });
}

/// What the kernel lets the target have.
fn target(out: &mut String, all: &All<'_>) {
    let pressures = || all.iter().filter_map(|(labels, of)| Some((labels, of.pressure?)));
    let mut metric = Metric::new(out, "profinfer_cpu_seconds_total", "counter", "CPU time of the target.");
    pressures().for_each(|(labels, of)| {
        metric.value("", labels, &[("mode", "user")], seconds(of.user_ns));
        metric.value("", labels, &[("mode", "system")], seconds(of.system_ns));
    });
    let mut metric = Metric::new(out, "profinfer_page_faults_total", "counter", "Page faults of the target.");
    pressures().for_each(|(labels, of)| {
        metric.value("", labels, &[("type", "minor")], of.minor_faults as f64);
        metric.value("", labels, &[("type", "major")], of.major_faults as f64);
    });
    let mut metric = Metric::new(
        out,
        "profinfer_throttled_seconds_total",
        "counter",
        "Time in which a CPU quota did not let the target run.",
    );
    let throttled = pressures().filter_map(|(labels, of)| Some((labels, of.throttled_ns?)));
    throttled.for_each(|(labels, ns)| metric.value("", labels, &[], seconds(ns)));
    let fetches = || all.iter().filter_map(|(labels, of)| Some((labels, of.fetches?)));
    let mut metric =
        Metric::new(out, "profinfer_step_major_faults_total", "counter", "Major faults in recorded steps.");
    fetches().for_each(|(labels, of)| metric.value("", labels, &[], of.faults as f64));
    let mut metric = Metric::new(
        out,
        "profinfer_step_fault_seconds_total",
        "counter",
        "Wait for these faults, all threads together; only of those whose wait was recorded.",
    );
    fetches().for_each(|(labels, of)| metric.value("", labels, &[], seconds(of.waited_ns)));
}

/// Whether records come. Before the first one nobody can tell which engine it is.
fn recording(out: &mut String, all: &All<'_>) {
    let mut metric = Metric::new(
        out,
        "profinfer_recording",
        "gauge",
        "1 while records come; 0 before the first one, and once the recording has ended.",
    );
    for (labels, of) in all {
        metric.value("", labels, &[], f64::from(u8::from(of.state == State::Recording)));
    }
}

/// What the recording costs, and what it misses.
fn recorder(out: &mut String, all: &All<'_>) {
    let mut metric = Metric::new(
        out,
        "profinfer_losses_total",
        "counter",
        "Records, or fields of records, that were lost, by reason.",
    );
    for (labels, of) in all {
        of.losses.iter().for_each(|row| metric.value("", labels, &[("reason", &row.reason)], row.count as f64));
    }
    let mut metric = Metric::new(
        out,
        "profinfer_unrecorded_seconds_total",
        "counter",
        "Time in which nothing was recorded, since steps alone exceed the budget.",
    );
    all.iter().for_each(|(labels, of)| metric.value("", labels, &[], seconds(of.unseen_ns)));
    let overheads = || all.iter().filter_map(|(labels, of)| Some((labels, of.overhead?)));
    let mut metric = Metric::new(
        out,
        "profinfer_overhead_seconds_total",
        "counter",
        "Time that probes have added to the target's steps (estimated).",
    );
    overheads().for_each(|(labels, of)| metric.value("", labels, &[], seconds(of.spent_ns)));
    let mut metric = Metric::new(
        out,
        "profinfer_overhead_ratio",
        "gauge",
        "The same, as a part of the target's time in steps (estimated).",
    );
    overheads().filter_map(|(labels, of)| Some((labels, of.part()?))).for_each(|(labels, part)| {
        metric.value("", labels, &[], part);
    });
    let mut metric =
        Metric::new(out, "profinfer_overhead_budget_ratio", "gauge", "The largest overhead that is allowed.");
    overheads().filter_map(|(labels, of)| Some((labels, of.budget?))).for_each(|(labels, part)| {
        metric.value("", labels, &[], part);
    });
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A label's value, in quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
