//! Pushes live figures to an OpenTelemetry receiver: OTLP by HTTP or gRPC. A receiver that is slow or gone delays nothing
//! else, and what could not be delivered is counted.

mod endpoint;
mod failure;
mod grpc;
mod http;
mod roots;

use super::live::{MOST_TARGETS, snapshots, thread};
use super::targets::{Shared, Targets};
use super::terminal::status;
pub(crate) use endpoint::{Endpoint, Protocol};
use failure::Failure;
use grpc::Grpc;
use http::{Encoding, Http};
use profinfer_analysis::Request;
use profinfer_diagnostics::{Diagnostics, printable};
use profinfer_live::{OtlpRequest, PushLosses, Signal, UnixClock, otlp_metrics, otlp_spans};
use profinfer_recorder::monotonic_ns;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time that one request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks for requests that have ended, where pushes are further apart: a target may come and go between
/// two of these.
const COLLECT: Duration = Duration::from_secs(1);
/// Requests of an engine that wait for a receiver that does not answer.
const MOST_REQUESTS: usize = 4096;

/// What takes requests to a receiver.
enum Transport {
    Http(Http),
    Grpc(Grpc),
}

impl Transport {
    fn new(endpoint: Endpoint) -> Result<Self, Diagnostics> {
        Ok(match endpoint.protocol {
            Protocol::HttpJson => Self::Http(Http::new(endpoint, Encoding::Json, PATIENCE)),
            Protocol::HttpProtobuf => Self::Http(Http::new(endpoint, Encoding::Protobuf, PATIENCE)),
            Protocol::Grpc => Self::Grpc(Grpc::new(endpoint, PATIENCE)?),
        })
    }

    fn send(&self, request: &OtlpRequest) -> Result<(), Failure> {
        match self {
            Self::Http(http) => http.send(request),
            Self::Grpc(grpc) => grpc.send(request),
        }
    }
}

/// A thread that pushes.
#[derive(Debug)]
pub(crate) struct Pusher {
    losses: Arc<Mutex<PushLosses>>,
    /// Dropped to end it.
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Pusher {
    /// Pushes the figures of these recordings each interval.
    pub(crate) fn start(endpoint: Endpoint, targets: Targets, interval: Duration) -> Result<Self, Diagnostics> {
        let losses = Arc::new(Mutex::new(PushLosses::default()));
        let (stop, stopped) = channel();
        let mut pushes = Pushes {
            url: printable(&endpoint.url).to_string(),
            transport: Transport::new(endpoint)?,
            targets,
            waiting: Vec::new(),
            losses: Arc::clone(&losses),
            metrics_fail: false,
            spans_fail: false,
        };
        let interval = interval.max(Duration::from_millis(100));
        let work = move || {
            let mut pushed = Instant::now();
            let until_next = |pushed: Instant| interval.saturating_sub(pushed.elapsed()).min(COLLECT);
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(until_next(pushed)) {
                if pushed.elapsed() < interval {
                    pushes.collect();
                    continue;
                }
                pushes.push();
                pushed = Instant::now();
            }
            pushes.push();
            pushes.give_up();
        };
        Ok(Self { losses, stop, thread: thread("otlp", work)? })
    }

    /// What could not be delivered so far.
    pub(crate) fn losses(&self) -> Arc<Mutex<PushLosses>> {
        Arc::clone(&self.losses)
    }

    /// Pushes the last figures, and ends.
    pub(crate) fn finish(self) {
        drop(self.stop);
        let _ = self.thread.join();
        let PushLosses { spans, .. } = *lock(&self.losses);
        if spans > 0 {
            status(&format!("spans of {spans} requests were not delivered to the OTLP receiver"));
        }
    }
}

/// What the thread has.
struct Pushes {
    url: String,
    transport: Transport,
    targets: Targets,
    /// Of each recording that is followed, and of those that were and are still waited for.
    waiting: Vec<Waiting>,
    losses: Arc<Mutex<PushLosses>>,
    /// What the receiver did not take the last time.
    metrics_fail: bool,
    spans_fail: bool,
}

/// Requests of a recording that have ended and are not delivered.
struct Waiting {
    of: Shared,
    requests: Vec<Request>,
}

impl Pushes {
    /// Takes the requests that have ended. A recording that is no longer followed is waited with until its requests are
    /// delivered.
    fn collect(&mut self) {
        let all = self.targets.all();
        for followed in &all {
            if !self.waiting.iter().any(|waiting| Arc::ptr_eq(&waiting.of, followed)) {
                self.waiting.push(Waiting { of: Arc::clone(followed), requests: Vec::new() });
            }
        }
        let mut lost = 0;
        for Waiting { of, requests } in &mut self.waiting {
            let ended = of.lock().unwrap_or_else(PoisonError::into_inner).take_ended();
            requests.extend(ended.requests);
            let too_many = requests.len().saturating_sub(MOST_REQUESTS);
            requests.drain(..too_many);
            lost += ended.left_out + too_many as u64;
        }
        let is_followed = |waiting: &Waiting| all.iter().any(|followed| Arc::ptr_eq(&waiting.of, followed));
        self.waiting.retain(|waiting| is_followed(waiting) || !waiting.requests.is_empty());
        let gone = self.waiting.iter().filter(|waiting| !is_followed(waiting)).count();
        let mut too_many = gone.saturating_sub(MOST_TARGETS);
        self.waiting.retain(|waiting| {
            let is_lost = too_many > 0 && !is_followed(waiting);
            if is_lost {
                too_many -= 1;
                lost += waiting.requests.len() as u64;
            }
            !is_lost
        });
        lock(&self.losses).spans += lost;
    }

    fn push(&mut self) {
        self.collect();
        let clock = clock();
        // Each name once: one that was started again has the name of the one before.
        let delivered = self.send(&otlp_metrics(&snapshots(&self.targets.shown(), false), clock));
        self.tell(Signal::Metrics, &delivered);
        // There are receivers of spans alone; one that does not answer is not waited for twice.
        if !matches!(delivered, Delivered::Later(_)) {
            self.send_spans(clock);
        }
    }

    fn send_spans(&mut self, clock: UnixClock) {
        let waiting = || self.waiting.iter().filter(|waiting| !waiting.requests.is_empty());
        let of: Vec<Shared> = waiting().map(|waiting| Arc::clone(&waiting.of)).collect();
        if of.is_empty() {
            return;
        }
        let figures = snapshots(&of, false);
        let spans = figures.iter().zip(waiting().map(|waiting| &waiting.requests[..]));
        let delivered = self.send(&otlp_spans(spans, clock));
        match &delivered {
            Delivered::Later(_) => {}
            // They would be refused again.
            Delivered::Never(_) => self.give_up(),
            Delivered::Yes => self.waiting.iter_mut().for_each(|waiting| waiting.requests.clear()),
        }
        self.tell(Signal::Traces, &delivered);
    }

    /// What waits is lost.
    fn give_up(&mut self) {
        let requests = self.waiting.iter_mut().map(|waiting| std::mem::take(&mut waiting.requests).len() as u64);
        lock(&self.losses).spans += requests.sum::<u64>();
    }

    fn send(&self, request: &OtlpRequest) -> Delivered {
        let Err(Failure { message, is_final }) = self.transport.send(request) else { return Delivered::Yes };
        lock(&self.losses).failed += 1;
        let message = format!("cannot push {} to {}: {}", name(request.signal()), self.url, printable(&message));
        if is_final { Delivered::Never(message) } else { Delivered::Later(message) }
    }

    /// One line when it begins to fail, and one when it works again.
    fn tell(&mut self, signal: Signal, delivered: &Delivered) {
        let fails = match signal {
            Signal::Metrics => &mut self.metrics_fail,
            Signal::Traces => &mut self.spans_fail,
        };
        let failed = std::mem::replace(fails, !matches!(delivered, Delivered::Yes));
        match delivered {
            Delivered::Yes if failed => status(&format!("the OTLP receiver takes {} again", name(signal))),
            Delivered::Later(message) | Delivered::Never(message) if !failed => {
                status(&format!("{message}; trying again"));
            }
            _ => {}
        }
    }
}

/// What a signal consists of.
fn name(signal: Signal) -> &'static str {
    match signal {
        Signal::Metrics => "metrics",
        Signal::Traces => "spans",
    }
}

/// What became of a push.
enum Delivered {
    Yes,
    Later(String),
    Never(String),
}

fn lock(losses: &Mutex<PushLosses>) -> MutexGuard<'_, PushLosses> {
    losses.lock().unwrap_or_else(PoisonError::into_inner)
}

fn clock() -> UnixClock {
    let now_ns = monotonic_ns();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
    UnixClock { offset_ns: unix.saturating_sub(now_ns), now_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Followed;
    use std::io::{BufRead, BufReader, Cursor, Read, Write};
    use std::net::TcpListener;

    /// A receiver that answers metrics and spans with these statuses of HTTP.
    struct Receiver {
        pushes: Pushes,
        taken: Arc<Mutex<Vec<(String, serde_json::Value)>>>,
    }

    impl Receiver {
        fn new(metrics: u16, spans: u16, targets: Targets) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let taken = Arc::new(Mutex::new(Vec::new()));
            let theirs = Arc::clone(&taken);
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = BufReader::new(stream.unwrap());
                    let (mut head, mut length) = (Vec::new(), 0);
                    loop {
                        let mut line = String::new();
                        stream.read_line(&mut line).unwrap();
                        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap();
                        }
                        if line.trim().is_empty() {
                            break;
                        }
                        head.push(line);
                    }
                    let mut body = vec![0; length];
                    stream.read_exact(&mut body).unwrap();
                    let path = head[0].split(' ').nth(1).unwrap().to_owned();
                    let status = if path == "/v1/metrics" { metrics } else { spans };
                    theirs.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap()));
                    let answer = "Location: /elsewhere\r\nContent-Length: 0\r\nConnection: close";
                    write!(stream.get_mut(), "HTTP/1.1 {status} .\r\n{answer}\r\n\r\n").unwrap();
                }
            });
            let endpoint = Endpoint { url, protocol: Protocol::HttpJson, headers: Vec::new(), roots: None };
            let pushes = Pushes {
                url: String::new(),
                transport: Transport::new(endpoint).unwrap(),
                targets,
                waiting: Vec::new(),
                losses: Arc::default(),
                metrics_fail: false,
                spans_fail: false,
            };
            Self { pushes, taken }
        }

        /// A recording that is followed no more, and so many of its requests.
        fn wait_for(&mut self, requests: usize) {
            let of = Arc::new(Mutex::new(followed()));
            self.pushes.waiting.push(Waiting { of, requests: vec![Request::default(); requests] });
        }

        /// Pushes; the paths of the requests that came.
        fn push(&mut self) -> Vec<String> {
            self.pushes.push();
            self.taken.lock().unwrap().drain(..).map(|(path, _)| path).collect()
        }

        fn waits(&self) -> usize {
            self.pushes.waiting.iter().map(|waiting| waiting.requests.len()).sum()
        }

        /// Pushes that failed, and requests that are lost.
        fn losses(&self) -> (u64, u64) {
            let losses = *lock(&self.pushes.losses);
            (losses.failed, losses.spans)
        }
    }

    /// A recording without a record.
    fn followed() -> Followed {
        Followed::trace(Box::new(Cursor::new(Vec::new()))).unwrap()
    }

    #[test]
    fn spans_are_pushed_where_metrics_are_not_taken() {
        let mut receiver = Receiver::new(404, 200, Targets::default());
        receiver.wait_for(3);
        assert_eq!(receiver.push(), ["/v1/metrics", "/v1/traces"]);
        assert_eq!((receiver.waits(), receiver.losses()), (0, (1, 0)));
        assert!(receiver.pushes.metrics_fail && !receiver.pushes.spans_fail);
        // Nothing of a recording remains that is followed no more.
        assert_eq!(receiver.push(), ["/v1/metrics"]);
        assert!(receiver.pushes.waiting.is_empty());
    }

    #[test]
    fn spans_wait_for_a_receiver_and_are_counted_where_it_does_not_come() {
        let mut receiver = Receiver::new(503, 200, Targets::default());
        receiver.wait_for(3);
        assert_eq!(receiver.push(), ["/v1/metrics"]);
        assert_eq!((receiver.waits(), receiver.losses()), (3, (1, 0)));
        // There is a bound, and the first ones go first.
        (0..MOST_TARGETS).for_each(|_| receiver.wait_for(1));
        receiver.push();
        assert_eq!((receiver.waits(), receiver.losses()), (MOST_TARGETS, (2, 3)));
        receiver.pushes.give_up();
        assert_eq!((receiver.waits(), receiver.losses()), (0, (2, 3 + MOST_TARGETS as u64)));
    }

    #[test]
    fn a_receiver_that_sends_elsewhere_has_taken_nothing() {
        let mut receiver = Receiver::new(307, 302, Targets::default());
        receiver.wait_for(2);
        assert_eq!(receiver.push(), ["/v1/metrics", "/v1/traces"]);
        assert_eq!(receiver.losses(), (2, 2));
    }

    #[test]
    fn a_target_that_was_started_again_is_pushed_once() {
        let mut receiver = Receiver::new(200, 200, Targets::restarted("a", [followed(), followed()]));
        receiver.pushes.push();
        let taken = receiver.taken.lock().unwrap();
        let resources = taken[0].1["resourceMetrics"].as_array().unwrap();
        assert_eq!(resources.len(), 1, "{resources:?}");
        // Spans of the one before are collected.
        assert_eq!(receiver.pushes.waiting.len(), 2);
    }
}
