//! Metrics and requests in OTLP, the protocol of OpenTelemetry: its messages, for all of its encodings.

mod messages;

use super::metrics::{Metric, MetricKind, Point, Value, metrics, seconds};
use super::snapshot::Snapshot;
use messages::{
    Any, AnyValue, CUMULATIVE, Data, ExportMetricsServiceRequest, ExportTraceServiceRequest, Gauge, Histogram,
    HistogramDataPoint, INTERNAL, KeyValue, NumberDataPoint, Resource, ResourceMetrics, ResourceSpans, SERVER, Scope,
    ScopeMetrics, ScopeSpans, Span, Sum,
};
use profinfer_analysis::Request;
use prost::Message;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What times are in UNIX time, by the clock as it is now. When a recording began is not among them: a receiver takes
/// points with another start for those of another target, so that time is the recording's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixClock {
    /// UNIX time less CLOCK_MONOTONIC, ns.
    pub offset_ns: u64,
    /// Now, ns of CLOCK_MONOTONIC.
    pub now_ns: u64,
}

impl UnixClock {
    fn unix(self, monotonic_ns: u64) -> u64 {
        self.offset_ns.saturating_add(monotonic_ns)
    }

    /// Now, for a point of a recording: not before its start, whatever became of the clock.
    fn now_of(self, recording: &Snapshot) -> u64 {
        self.unix(self.now_ns).max(recording.started_unix_ns)
    }
}

/// What a request tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// `/v1/metrics`.
    Metrics,
    /// `/v1/traces`.
    Traces,
}

/// A request to a receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpRequest(Body);

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Metrics(ExportMetricsServiceRequest),
    Traces(ExportTraceServiceRequest),
}

impl OtlpRequest {
    /// What it tells of.
    pub fn signal(&self) -> Signal {
        match self.0 {
            Body::Metrics(_) => Signal::Metrics,
            Body::Traces(_) => Signal::Traces,
        }
    }

    /// As JSON.
    pub fn json(&self) -> Vec<u8> {
        let written = match &self.0 {
            Body::Metrics(request) => serde_json::to_vec(request),
            Body::Traces(request) => serde_json::to_vec(request),
        };
        // Keys are texts, and memory takes all bytes: it cannot fail.
        written.unwrap_or_default()
    }

    /// In protocol buffers.
    pub fn protobuf(&self) -> Vec<u8> {
        match &self.0 {
            Body::Metrics(request) => request.encode_to_vec(),
            Body::Traces(request) => request.encode_to_vec(),
        }
    }
}

/// An `ExportMetricsServiceRequest`: each recording is a resource.
pub fn otlp_metrics(recordings: &[Snapshot], clock: UnixClock) -> OtlpRequest {
    let metrics = metrics(recordings);
    let resource = |of: &Snapshot| {
        let metrics = metrics.iter().filter_map(|metric| of_recording(metric, of, clock)).collect();
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
        ResourceMetrics { resource: Some(resource(of)), scope_metrics }
    };
    let resource_metrics = recordings.iter().map(resource).collect();
    OtlpRequest(Body::Metrics(ExportMetricsServiceRequest { resource_metrics }))
}

/// An `ExportTraceServiceRequest` of requests that ended: a span for each, with its queueing, prefill and decode within.
pub fn otlp_spans<'a>(
    requests: impl IntoIterator<Item = (&'a Snapshot, &'a [Request])>,
    clock: UnixClock,
) -> OtlpRequest {
    let resource = |(of, requests): (&Snapshot, &[Request])| {
        let spans = requests.iter().flat_map(|request| spans(of, request, clock)).collect();
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans }];
        ResourceSpans { resource: Some(resource(of)), scope_spans }
    };
    let resource_spans = requests.into_iter().map(resource).collect();
    OtlpRequest(Body::Traces(ExportTraceServiceRequest { resource_spans }))
}

fn scope() -> Scope {
    Scope { name: "profinfer".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn resource(of: &Snapshot) -> Resource {
    let mut attributes = vec![int("process.pid", u64::from(of.pid))];
    if !of.instance.is_empty() {
        attributes.push(text("service.instance.id", &of.instance));
    }
    attributes.extend(of.container.iter().flat_map(|of| of.attributes()).map(|(key, value)| text(key, value)));
    if !of.engine.is_empty() {
        attributes.push(text("service.name", &of.engine));
        attributes.push(text("gen_ai.provider.name", &of.engine));
    }
    Resource { attributes }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Any::Text(value.to_owned()))
}

fn int(key: &str, value: u64) -> KeyValue {
    attribute(key, Any::Int(i64::try_from(value).unwrap_or(i64::MAX)))
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

fn of_recording(metric: &Metric<'_>, of: &Snapshot, clock: UnixClock) -> Option<messages::Metric> {
    let points: Vec<&Point<'_>> = metric.points.iter().filter(|point| std::ptr::eq(point.of, of)).collect();
    if points.is_empty() {
        return None;
    }
    let numbers = || points.iter().filter_map(|point| number(point, clock)).collect();
    let data = match metric.kind {
        MetricKind::Gauge => Data::Gauge(Gauge { data_points: numbers() }),
        MetricKind::Counter => {
            Data::Sum(Sum { data_points: numbers(), aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        MetricKind::Histogram => Data::Histogram(Histogram {
            data_points: points.iter().filter_map(|point| durations(point, clock)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    let (name, description, unit) = (metric.name.to_owned(), metric.help.to_owned(), metric.unit.to_owned());
    Some(messages::Metric { name, description, unit, data: Some(data) })
}

fn number(point: &Point<'_>, clock: UnixClock) -> Option<NumberDataPoint> {
    let Value::Number(value) = point.value else { return None };
    Some(NumberDataPoint {
        attributes: attributes(point),
        start_time_unix_nano: point.of.started_unix_ns,
        time_unix_nano: clock.now_of(point.of),
        as_double: Some(value),
    })
}

fn durations(point: &Point<'_>, clock: UnixClock) -> Option<HistogramDataPoint> {
    let Value::Durations(histogram) = point.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(point),
        start_time_unix_nano: point.of.started_unix_ns,
        time_unix_nano: clock.now_of(point.of),
        count: histogram.count,
        sum: Some(seconds(histogram.sum_ns)),
        bucket_counts: histogram.counts.to_vec(),
        explicit_bounds: histogram.bounds.to_vec(),
    })
}

fn attributes(point: &Point<'_>) -> Vec<KeyValue> {
    point.attributes.iter().map(|(key, value)| text(key, value)).collect()
}

/// The request, then what it consists of.
fn spans(of: &Snapshot, request: &Request, clock: UnixClock) -> Vec<Span> {
    // The same each time that they are sent: a receiver that got them twice can tell.
    let id = |part: &str| {
        let mut hasher = DefaultHasher::new();
        (of.pid, of.started_ns, of.started_unix_ns, request.begin, request.sequence, request.end, part)
            .hash(&mut hasher);
        hasher.finish().max(1).to_be_bytes().to_vec()
    };
    let trace = [id("trace"), id("trace, second half")].concat();
    let root = id("request");
    let span = |name: &str, from: u64, to: u64| Span {
        trace_id: trace.clone(),
        span_id: id(name),
        parent_span_id: root.clone(),
        name: name.to_owned(),
        kind: INTERNAL,
        start_time_unix_nano: clock.unix(from),
        end_time_unix_nano: clock.unix(to.max(from)),
        attributes: Vec::new(),
    };
    let start = request.arrived.unwrap_or(request.begin);
    let mut attributes = vec![int("profinfer.steps", request.steps)];
    attributes.extend(request.input_tokens().map(|tokens| int("gen_ai.usage.input_tokens", tokens)));
    attributes.extend(request.output_tokens().map(|tokens| int("gen_ai.usage.output_tokens", tokens)));
    attributes.extend(request.request.map(|number| int("profinfer.request", number)));
    attributes.extend(request.cached_tokens.map(|tokens| int("profinfer.cached_tokens", tokens)));
    let share = request.batch_share();
    attributes.extend(share.map(|share| attribute("profinfer.batch_share", Any::Double(share))));
    if request.whole_duration().is_none() {
        attributes.push(text("profinfer.recorded", "in part"));
    }
    let whole = span("request", start, request.end);
    let whole = Span { parent_span_id: Vec::new(), kind: SERVER, attributes, ..whole };
    let queued = request.arrived.map(|arrived| span("queued", arrived, request.begin));
    let prefill = request.first_token.map(|first| span("prefill", request.begin, first));
    let decode = request.first_token.map(|first| span("decode", first, request.end));
    [Some(whole), queued, prefill, decode].into_iter().flatten().collect()
}
