//! Metrics in Prometheus's text format, their names made of OpenTelemetry's as its collector does:
//! `gen_ai.server.time_to_first_token` in `s` is `gen_ai_server_time_to_first_token_seconds`, a counter ends in `_total`.

use super::metrics::{Metric, MetricKind, PushLosses, Value, metrics, seconds};
use super::snapshot::Snapshot;
use std::fmt::Write;

/// The metrics of all recordings, and what pushes of them could not deliver, if there are pushes.
pub fn prometheus(recordings: &[Snapshot], pushes: Option<PushLosses>) -> String {
    let mut text = String::new();
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

fn write_metric(out: &mut String, metric: &Metric<'_>) {
    let name = name(metric);
    let kind = match metric.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    heading(out, &name, kind, metric.help);
    for point in &metric.points {
        let mut labels =
            format!("gen_ai_provider_name=\"{}\",process_pid=\"{}\"", escaped(&point.of.engine), point.of.pid);
        if let Some(number) = &point.of.container {
            let _ = write!(labels, ",container_id=\"{}\"", escaped(number));
        }
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
