//! Snapshots as metrics: names, units and values, for whatever they are written as. Names are those of OpenTelemetry's
//! GenAI conventions where these have one; the others begin with `profinfer.`. What was not recorded has no point. No
//! attribute has a value out of a request.

use super::histogram::Histogram;
use super::snapshot::{FlightFigures, LossRow, OperatorFigures, PhaseFigures, Requests, Snapshot, State};
use profinfer_schema::LossKind;

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// Goes up only, since the start of the recording.
    Counter,
    /// As it is now.
    Gauge,
    /// Durations, since the start of the recording.
    Histogram,
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Number(f64),
    Durations(&'a Histogram),
}

/// A value of one recording.
#[derive(Debug, Clone)]
pub(crate) struct Point<'a> {
    pub(crate) of: &'a Snapshot,
    /// What distinguishes it from others of the recording.
    pub(crate) attributes: Vec<(&'static str, &'a str)>,
    pub(crate) value: Value<'a>,
}

/// A metric of all recordings.
#[derive(Debug, Clone)]
pub(crate) struct Metric<'a> {
    pub(crate) name: &'static str,
    /// As UCUM has it: `s`, `1`, `{token}`.
    pub(crate) unit: &'static str,
    pub(crate) kind: MetricKind,
    pub(crate) help: &'static str,
    pub(crate) points: Vec<Point<'a>>,
}

/// What a push of metrics could not deliver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PushLosses {
    /// Pushes that failed.
    pub failed: u64,
    /// Spans of requests that were given up.
    pub spans: u64,
}

/// The metrics of all recordings, those without a value left out.
pub(crate) fn metrics(recordings: &[Snapshot]) -> Vec<Metric<'_>> {
    let mut all = vec![recording(recordings)];
    let recorded: Vec<&Snapshot> = recordings.iter().filter(|of| of.has_records()).collect();
    all.extend(generative(&recorded));
    all.extend(steps(&recorded));
    all.extend(operators(&recorded));
    all.extend(target(&recorded));
    all.extend(recorder(&recorded));
    all.extend(flight(recordings));
    all.retain(|metric| !metric.points.is_empty());
    all
}

fn metric<'a>(
    (name, unit, kind): (&'static str, &'static str, MetricKind),
    help: &'static str,
    points: impl IntoIterator<Item = Point<'a>>,
) -> Metric<'a> {
    Metric { name, unit, kind, help, points: points.into_iter().collect() }
}

fn number(of: &Snapshot, value: f64) -> Point<'_> {
    Point { of, attributes: Vec::new(), value: Value::Number(value) }
}

impl<'a> Point<'a> {
    fn with(mut self, name: &'static str, value: &'a str) -> Self {
        self.attributes.push((name, value));
        self
    }
}

fn durations<'a>(of: &'a Snapshot, histogram: &'a Histogram) -> Point<'a> {
    Point { of, attributes: Vec::new(), value: Value::Durations(histogram) }
}

/// Whether records come. Before the first one nobody can tell which engine it is.
fn recording(all: &[Snapshot]) -> Metric<'_> {
    metric(
        ("profinfer.recording", "", MetricKind::Gauge),
        "1 while records come; 0 before the first one, and once the recording has ended.",
        all.iter().map(|of| number(of, f64::from(u8::from(of.state == State::Recording)))),
    )
}

/// As OpenTelemetry has them.
fn generative<'a>(all: &[&'a Snapshot]) -> Vec<Metric<'a>> {
    let requests = || all.iter().filter_map(|of| Some((*of, of.requests.as_ref()?)));
    let state = |(of, requests): (&'a Snapshot, &'a Requests)| {
        [("queued", requests.queued), ("running", requests.running)]
            .map(|(state, count)| Some(number(of, count? as f64).with("state", state)))
            .into_iter()
            .flatten()
    };
    let tokens = |(of, requests): (&'a Snapshot, &'a Requests)| {
        [("input", requests.input_tokens), ("output", requests.output_tokens)]
            .map(|(kind, count)| number(of, count as f64).with("gen_ai.token.type", kind))
    };
    vec![
        metric(
            ("gen_ai.server.time_to_first_token", "s", MetricKind::Histogram),
            "From a request's arrival, or else its first step, to its first token.",
            all.iter().map(|of| durations(of, &of.ttft)),
        ),
        metric(
            ("gen_ai.server.time_per_output_token", "s", MetricKind::Histogram),
            "From one token of a request to its next one.",
            all.iter().map(|of| durations(of, &of.tpot)),
        ),
        metric(
            ("gen_ai.server.request.duration", "s", MetricKind::Histogram),
            "From a request's arrival, or else its first step, to its last token.",
            requests().map(|(of, requests)| durations(of, &requests.duration)),
        ),
        metric(
            ("profinfer.requests", "{request}", MetricKind::Gauge),
            "Requests that wait for a sequence, and that are computed.",
            requests().flat_map(state),
        ),
        metric(
            ("profinfer.request_tokens", "{token}", MetricKind::Counter),
            "Tokens of requests that have ended: computed of their prompts, and given to them.",
            requests().flat_map(tokens),
        ),
    ]
}

fn steps<'a>(all: &[&'a Snapshot]) -> Vec<Metric<'a>> {
    let phases = || all.iter().flat_map(|of| of.phases.iter().map(move |phase| (*of, phase)));
    let counter = |name, unit, help, value: &dyn Fn(&PhaseFigures) -> Option<f64>| {
        let points = phases().filter_map(|(of, phase)| Some(number(of, value(phase)?).with("phase", phase.phase)));
        metric((name, unit, MetricKind::Counter), help, points)
    };
    vec![
        metric(
            ("profinfer.step", "s", MetricKind::Histogram),
            "Durations of steps.",
            phases().map(|(of, phase)| durations(of, &phase.steps).with("phase", phase.phase)),
        ),
        counter("profinfer.tokens", "{token}", "Tokens of steps, of those that have a number of tokens.", &|of| {
            Some(of.tokens as f64)
        }),
        counter(
            "profinfer.incomplete_steps",
            "{step}",
            "Steps of which records were lost; they are in no other figure.",
            &|of| Some(of.incomplete as f64),
        ),
        counter("profinfer.whole_steps", "{step}", "Steps whose operators were recorded.", &|of| {
            Some(of.whole_steps as f64)
        }),
        counter("profinfer.lane", "s", "Time of these steps, on all of their lanes.", &|of| Some(seconds(of.lane_ns))),
        counter("profinfer.work", "s", "Work of operators in these steps, all lanes together.", &|of| {
            Some(seconds(of.work_ns))
        }),
        counter("profinfer.waiting", "s", "Waiting of lanes for each other in these steps.", &|of| {
            Some(seconds(of.waiting_ns))
        }),
        counter(
            "profinfer.run_queue_delay",
            "s",
            "Time in these steps that threads were runnable and did not run.",
            &|of| of.off_cpu_ns.map(|(_, runnable)| seconds(runnable)),
        ),
        counter("profinfer.blocked", "s", "Time in these steps that threads waited off the CPU.", &|of| {
            of.off_cpu_ns.map(|(blocked, _)| seconds(blocked))
        }),
    ]
}

fn operators<'a>(all: &[&'a Snapshot]) -> Vec<Metric<'a>> {
    let counter = |name, unit, help, value: &dyn Fn(&OperatorFigures) -> f64| {
        let rows = all.iter().flat_map(|of| of.operators.iter().map(move |row| (*of, row)));
        let points = rows.map(|(of, row)| number(of, value(row)).with("operator", &row.op));
        metric((name, unit, MetricKind::Counter), help, points)
    };
    vec![
        counter(
            "profinfer.operators",
            "{operator}",
            "Operators computed in steps whose operators were recorded.",
            &|row| row.count as f64,
        ),
        counter("profinfer.operator", "s", "Their work, all lanes together.", &|row| seconds(row.work_ns)),
        counter("profinfer.operator_waiting", "s", "Waiting of their lanes for each other.", &|row| {
            seconds(row.waiting_ns)
        }),
    ]
}

/// What the kernel lets the target have.
fn target<'a>(all: &[&'a Snapshot]) -> Vec<Metric<'a>> {
    let pressures = || all.iter().filter_map(|of| Some((*of, of.pressure?)));
    let fetches = || all.iter().filter_map(|of| Some((*of, of.fetches?)));
    let counter = |name, unit, help, points| metric((name, unit, MetricKind::Counter), help, points);
    let cpu = pressures().flat_map(|(of, pressure)| {
        [("user", pressure.user_ns), ("system", pressure.system_ns)]
            .map(|(mode, ns)| number(of, seconds(ns)).with("mode", mode))
    });
    let faults = pressures().flat_map(|(of, pressure)| {
        [("minor", pressure.minor_faults), ("major", pressure.major_faults)]
            .map(|(kind, count)| number(of, count as f64).with("type", kind))
    });
    let throttled = pressures().filter_map(|(of, pressure)| Some(number(of, seconds(pressure.throttled_ns?))));
    let step_faults = fetches().map(|(of, fetches)| number(of, fetches.faults as f64));
    let waits = fetches().map(|(of, fetches)| number(of, seconds(fetches.waited_ns)));
    vec![
        counter("profinfer.cpu", "s", "CPU time of the target.", cpu.collect::<Vec<Point<'a>>>()),
        counter("profinfer.page_faults", "{fault}", "Page faults of the target.", faults.collect()),
        counter(
            "profinfer.throttled",
            "s",
            "Time in which a CPU quota did not let the target run.",
            throttled.collect(),
        ),
        counter("profinfer.step_major_faults", "{fault}", "Major faults in recorded steps.", step_faults.collect()),
        counter(
            "profinfer.step_fault",
            "s",
            "Wait for these faults, all threads together; only of those whose wait was recorded.",
            waits.collect(),
        ),
    ]
}

/// What the recording costs, and what it misses.
fn recorder<'a>(all: &[&'a Snapshot]) -> Vec<Metric<'a>> {
    // A series that begins with what was lost has no increase: those of lost records are there before.
    let is_counted = |kind: &LossKind| kind.loses_records() && !LossKind::LEGACY.contains(kind);
    let losses = all.iter().flat_map(|of| {
        let row = |row: &'a LossRow| number(of, row.count as f64).with("reason", &row.reason);
        let none_of = |kind: &LossKind| !of.losses.iter().any(|row| row.reason == kind.name());
        let none = LossKind::ALL.into_iter().filter(is_counted).filter(none_of);
        of.losses
            .iter()
            .map(row)
            .chain(none.map(|kind| number(of, 0.0).with("reason", kind.name())))
            .collect::<Vec<_>>()
    });
    let overheads = || all.iter().filter_map(|of| Some((*of, of.overhead?)));
    vec![
        metric(
            ("profinfer.losses", "{record}", MetricKind::Counter),
            "Records, or fields of records, that were lost, by reason.",
            losses,
        ),
        metric(
            ("profinfer.unrecorded", "s", MetricKind::Counter),
            "Time in which nothing was recorded, since steps alone exceed the budget.",
            all.iter().map(|of| number(of, seconds(of.unseen_ns))),
        ),
        metric(
            ("profinfer.overhead", "s", MetricKind::Counter),
            "Time that probes have added to the target's steps (estimated).",
            overheads().map(|(of, overhead)| number(of, seconds(overhead.spent_ns))),
        ),
        metric(
            ("profinfer.overhead_ratio", "1", MetricKind::Gauge),
            "The same, as a part of the target's time in steps (estimated).",
            overheads().filter_map(|(of, overhead)| Some(number(of, overhead.part()?))),
        ),
        metric(
            ("profinfer.overhead_budget_ratio", "1", MetricKind::Gauge),
            "The largest overhead that is allowed.",
            overheads().filter_map(|(of, overhead)| Some(number(of, overhead.budget?))),
        ),
    ]
}

/// What the flight recorder does.
fn flight(all: &[Snapshot]) -> Vec<Metric<'_>> {
    let each = |(name, unit, kind), help, value: &dyn Fn(&FlightFigures) -> f64| {
        let points = all.iter().filter_map(|of| Some(number(of, value(of.flight.as_ref()?))));
        metric((name, unit, kind), help, points)
    };
    vec![
        each(
            ("profinfer.flight.conditions", "{condition}", MetricKind::Counter),
            "How often the flight recorder's condition held.",
            &|of| of.happened as f64,
        ),
        each(("profinfer.flight.kept", "{trace}", MetricKind::Counter), "Traces that were kept for that.", &|of| {
            of.kept as f64
        }),
        each(
            ("profinfer.flight.failed", "{write}", MetricKind::Counter),
            "Writes of the flight recorder that failed.",
            &|of| of.failed as f64,
        ),
        each(
            ("profinfer.flight.ring", "By", MetricKind::Gauge),
            "Bytes of the last minutes that the flight recorder has on disk.",
            &|of| of.ring_bytes as f64,
        ),
        each(("profinfer.flight.ring_time", "s", MetricKind::Gauge), "How much of the past these are.", &|of| {
            seconds(of.ring_ns)
        }),
    ]
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
