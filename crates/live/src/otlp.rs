//! Metrics and requests in OTLP, the protocol of OpenTelemetry, as the JSON of its HTTP transport.

use super::metrics::{Metric, MetricKind, Point, Value, metrics, seconds};
use super::snapshot::Snapshot;
use profinfer_analysis::Request;
use serde_json::{Value as Json, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Sums and histograms count since the start of the recording (`AGGREGATION_TEMPORALITY_CUMULATIVE`).
const CUMULATIVE: u32 = 2;
/// `SPAN_KIND_INTERNAL`, `SPAN_KIND_SERVER`.
const INTERNAL: u32 = 1;
const SERVER: u32 = 2;

/// What times are in UNIX time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixClock {
    /// UNIX time less CLOCK_MONOTONIC, ns.
    pub offset_ns: u64,
    /// Now, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
}

impl UnixClock {
    /// As OTLP has it: a number of 64 bits is a text.
    fn unix(self, monotonic_ns: u64) -> String {
        self.offset_ns.saturating_add(monotonic_ns).to_string()
    }
}

/// An `ExportMetricsServiceRequest`: each recording is a resource.
pub fn otlp_metrics(recordings: &[Snapshot], clock: UnixClock) -> Json {
    let metrics = metrics(recordings);
    let resource = |of: &Snapshot| {
        let list: Vec<Json> = metrics.iter().filter_map(|metric| of_recording(metric, of, clock)).collect();
        json!({ "resource": resource(of), "scopeMetrics": [{ "scope": scope(), "metrics": list }] })
    };
    json!({ "resourceMetrics": recordings.iter().map(resource).collect::<Vec<Json>>() })
}

/// An `ExportTraceServiceRequest` of requests that ended: a span for each, with its queueing, prefill and decode within.
pub fn otlp_spans<'a>(requests: impl IntoIterator<Item = (&'a Snapshot, &'a [Request])>, clock: UnixClock) -> Json {
    let resource = |(of, requests): (&Snapshot, &[Request])| {
        let spans: Vec<Json> = requests.iter().flat_map(|request| spans(of, request, clock)).collect();
        json!({ "resource": resource(of), "scopeSpans": [{ "scope": scope(), "spans": spans }] })
    };
    json!({ "resourceSpans": requests.into_iter().map(resource).collect::<Vec<Json>>() })
}

fn scope() -> Json {
    json!({ "name": "profinfer", "version": env!("CARGO_PKG_VERSION") })
}

fn resource(of: &Snapshot) -> Json {
    let mut attributes = vec![int("process.pid", u64::from(of.pid))];
    if !of.instance.is_empty() {
        attributes.push(text("service.instance.id", &of.instance));
    }
    attributes.extend(of.container.iter().flat_map(|of| of.attributes()).map(|(key, value)| text(key, value)));
    if !of.engine.is_empty() {
        attributes.push(text("service.name", &of.engine));
        attributes.push(text("gen_ai.provider.name", &of.engine));
    }
    json!({ "attributes": attributes })
}

fn text(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn int(key: &str, value: u64) -> Json {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn of_recording(metric: &Metric<'_>, of: &Snapshot, clock: UnixClock) -> Option<Json> {
    let points = metric.points.iter().filter(|point| std::ptr::eq(point.of, of));
    let points: Vec<Json> = points.map(|point| data_point(point, clock)).collect();
    if points.is_empty() {
        return None;
    }
    let data = match metric.kind {
        MetricKind::Gauge => json!({ "gauge": { "dataPoints": points } }),
        MetricKind::Counter => json!({
            "sum": { "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true }
        }),
        MetricKind::Histogram => json!({
            "histogram": { "dataPoints": points, "aggregationTemporality": CUMULATIVE }
        }),
    };
    let mut metric = json!({ "name": metric.name, "description": metric.help, "unit": metric.unit });
    if let (Json::Object(metric), Json::Object(data)) = (&mut metric, data) {
        metric.extend(data);
    }
    Some(metric)
}

fn data_point(point: &Point<'_>, clock: UnixClock) -> Json {
    let attributes: Vec<Json> = point.attributes.iter().map(|(key, value)| text(key, value)).collect();
    let value = match point.value {
        Value::Number(value) => json!({ "asDouble": value }),
        Value::Durations(histogram) => json!({
            "count": histogram.count.to_string(),
            "sum": seconds(histogram.sum_ns),
            "bucketCounts": histogram.counts.iter().map(ToString::to_string).collect::<Vec<String>>(),
            "explicitBounds": histogram.bounds,
        }),
    };
    let mut point = json!({
        "attributes": attributes,
        "startTimeUnixNano": clock.unix(point.of.started_ns),
        "timeUnixNano": clock.unix(clock.now_ns),
    });
    if let (Json::Object(point), Json::Object(value)) = (&mut point, value) {
        point.extend(value);
    }
    point
}

/// The request, then what it consists of.
fn spans(of: &Snapshot, request: &Request, clock: UnixClock) -> Vec<Json> {
    // The same each time that they are sent: a receiver that got them twice can tell.
    let id = |part: &str| {
        let mut hasher = DefaultHasher::new();
        (of.pid, of.started_ns, clock.offset_ns / 1_000_000_000, request.begin, request.sequence, request.end, part)
            .hash(&mut hasher);
        hasher.finish().max(1)
    };
    let trace = format!("{:016x}{:016x}", id("trace"), id("trace, second half"));
    let root = format!("{:016x}", id("request"));
    let span = |name: &str, from: u64, to: u64| {
        json!({
            "traceId": trace,
            "spanId": format!("{:016x}", id(name)),
            "parentSpanId": root,
            "name": name,
            "kind": INTERNAL,
            "startTimeUnixNano": clock.unix(from),
            "endTimeUnixNano": clock.unix(to.max(from)),
        })
    };
    let start = request.arrived.unwrap_or(request.begin);
    let mut attributes = vec![int("profinfer.steps", request.steps)];
    if request.is_counted() {
        attributes.push(int("gen_ai.usage.input_tokens", request.prompt_tokens));
        attributes.push(int("gen_ai.usage.output_tokens", request.generated_tokens));
    }
    attributes.extend(request.request.map(|number| int("profinfer.request", number)));
    attributes.extend(request.cached_tokens.map(|tokens| int("profinfer.cached_tokens", tokens)));
    let share = request.batch_share();
    attributes.extend(share.map(|share| json!({ "key": "profinfer.batch_share", "value": { "doubleValue": share } })));
    let mut whole = span("request", start, request.end);
    if let Json::Object(whole) = &mut whole {
        whole.remove("parentSpanId");
        whole.insert("kind".to_owned(), json!(SERVER));
        whole.insert("attributes".to_owned(), Json::Array(attributes));
    }
    let queued = request.arrived.map(|arrived| span("queued", arrived, request.begin));
    let prefill = request.first_token.map(|first| span("prefill", request.begin, first));
    let decode = request.first_token.map(|first| span("decode", first, request.end));
    [Some(whole), queued, prefill, decode].into_iter().flatten().collect()
}
