//! Metrics in Prometheus's text format, their names made of OpenTelemetry's as its collector does:
//! `gen_ai.server.time_to_first_token` in `s` is `gen_ai_server_time_to_first_token_seconds`, a counter ends in `_total`.

use super::metrics::{Metric, MetricKind, PushLosses, Value, metrics, seconds};
use super::snapshot::Snapshot;
use std::fmt::Write;

/// The metrics of all recordings, and what pushes of them could not deliver, if there are pushes.
pub fn prometheus(recordings: &[Snapshot], pushes: Option<PushLosses>) -> String {
    let mut text = String::new();
    write_targets(&mut text, recordings);
    for metric in metrics(recordings) {
        write_metric(&mut text, &metric);
    }
    if let Some(PushLosses { failed, spans }) = pushes {
        for (name, help, value) in [
            ("profinfer_otlp_failed_pushes_total", "Pushes to the OTLP receiver that failed.", failed),
            ("profinfer_otlp_lost_spans_total", "Spans of requests that no push could deliver.", spans),
        ] {
            heading(&mut text, name, "counter", help);
            let _ = writeln!(text, "{name} {value}");
        }
    }
    text
}

/// What every series of a recording has: it is the same for a target that is started again.
fn labels(of: &Snapshot) -> String {
    format!("gen_ai_provider_name=\"{}\",service_instance_id=\"{}\"", escaped(&of.engine), escaped(&of.instance))
}

/// What changes when a target is started again, in a series of its own.
fn write_targets(out: &mut String, recordings: &[Snapshot]) {
    if recordings.is_empty() {
        return;
    }
    let name = "profinfer_target_info";
    heading(out, name, "gauge", "The process and the container of a target.");
    for of in recordings {
        let mut labels = labels(of);
        let _ = write!(labels, ",process_pid=\"{}\"", of.pid);
        for (key, value) in of.container.iter().flat_map(|container| container.attributes()) {
            let _ = write!(labels, ",{}=\"{}\"", key.replace('.', "_"), escaped(value));
        }
        let _ = writeln!(out, "{name}{{{labels}}} 1");
    }
}

fn write_metric(out: &mut String, metric: &Metric<'_>) {
    let name = name(metric);
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    heading(out, &name, kind, metric.help);
    for point in &metric.points {
        let mut labels = labels(point.of);
        for (name, value) in &point.attributes {
            let _ = write!(labels, ",{}=\"{}\"", name.replace('.', "_"), escaped(value));
        }
        match point.value {
            Value::Number(value) => {
                let _ = writeln!(out, "{name}{{{labels}}} {value}");
            }
            Value::Durations(histogram) => {
                for (bound, count) in histogram.cumulative() {
                    let bound = bound.map_or_else(|| "+Inf".to_owned(), |bound| bound.to_string());
                    let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
                }
                let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(histogram.sum_ns));
                let _ = writeln!(out, "{name}_count{{{labels}}} {}", histogram.count);
            }
        }
    }
}

fn heading(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn name(metric: &Metric<'_>) -> String {
    let mut name = metric.name.replace('.', "_");
    match metric.unit {
        "s" => name.push_str("_seconds"),
        "By" => name.push_str("_bytes"),
        _ => {}
    }
    if metric.kind == MetricKind::Counter {
        name.push_str("_total");
    }
    name
}

/// A label's value, in quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
