//! Pushes live figures to an OpenTelemetry receiver: OTLP by HTTP or gRPC. A receiver that is slow or gone delays nothing
//! else, and what could not be delivered is counted.

mod endpoint;
mod failure;
mod grpc;
mod http;
mod roots;

use super::live::{cannot_start, now, snapshots};
use super::targets::{Shared, Targets};
use super::terminal::status;
pub(crate) use endpoint::{Endpoint, Protocol};
use failure::Failure;
use grpc::Grpc;
use http::{Encoding, Http};
use profinfer_diagnostics::{Diagnostics, printable};
use profinfer_live::{Ended, OtlpRequest, PushLosses, Signal, Snapshot, UnixClock, otlp_metrics, otlp_spans};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time that one request may take.
const PATIENCE: Duration = Duration::from_secs(5);
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
            has_failed: false,
        };
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(interval.max(Duration::from_millis(100))) {
                pushes.push();
            }
            pushes.push();
        };
        let spawned = std::thread::Builder::new().name("otlp".into()).spawn(work);
        let thread = spawned.map_err(|error| cannot_start("a thread", &error))?;
        Ok(Self { losses, stop, thread })
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
    /// Requests that have ended and are not delivered, of each recording.
    waiting: Vec<(Shared, Ended)>,
    losses: Arc<Mutex<PushLosses>>,
    has_failed: bool,
}

impl Pushes {
    fn push(&mut self) {
        let all = self.targets.all();
        self.waiting.retain(|(of, _)| all.iter().any(|followed| Arc::ptr_eq(of, followed)));
        for followed in &all {
            if !self.waiting.iter().any(|(of, _)| Arc::ptr_eq(of, followed)) {
                self.waiting.push((Arc::clone(followed), Ended::default()));
            }
        }
        for (followed, waiting) in &mut self.waiting {
            let ended = followed.lock().unwrap_or_else(PoisonError::into_inner).take_ended();
            waiting.requests.extend(ended.requests);
            let too_many = waiting.requests.len().saturating_sub(MOST_REQUESTS);
            waiting.requests.drain(..too_many);
            lock(&self.losses).spans += ended.left_out + too_many as u64;
        }
        let followed: Vec<Shared> = self.waiting.iter().map(|(of, _)| Arc::clone(of)).collect();
        let figures = snapshots(&followed, false);
        let clock = clock();
        let delivered = self.send(&otlp_metrics(&figures, clock));
        let has_spans = self.waiting.iter().any(|(_, waiting)| !waiting.requests.is_empty());
        let delivered = match (delivered, has_spans) {
            (Delivered::Yes, true) => self.send_spans(&figures, clock),
            (delivered, _) => delivered,
        };
        self.tell(&delivered);
    }

    fn send_spans(&mut self, figures: &[Snapshot], clock: UnixClock) -> Delivered {
        let spans = figures.iter().zip(self.waiting.iter().map(|(_, waiting)| &waiting.requests[..]));
        let delivered = self.send(&otlp_spans(spans.filter(|(_, requests)| !requests.is_empty()), clock));
        match &delivered {
            Delivered::Later(_) => return delivered,
            // They would be refused again.
            Delivered::Never(_) => {
                let refused = self.waiting.iter().map(|(_, waiting)| waiting.requests.len() as u64);
                lock(&self.losses).spans += refused.sum::<u64>();
            }
            Delivered::Yes => {}
        }
        self.waiting.iter_mut().for_each(|(_, waiting)| waiting.requests.clear());
        delivered
    }

    fn send(&self, request: &OtlpRequest) -> Delivered {
        let Err(Failure { message, is_final }) = self.transport.send(request) else { return Delivered::Yes };
        lock(&self.losses).failed += 1;
        let what = match request.signal() {
            Signal::Metrics => "metrics",
            Signal::Traces => "traces",
        };
        let message = format!("cannot push {what} to {}: {}", self.url, printable(&message));
        if is_final { Delivered::Never(message) } else { Delivered::Later(message) }
    }

    /// One line when it begins to fail, and one when it works again.
    fn tell(&mut self, delivered: &Delivered) {
        let has_failed = match delivered {
            Delivered::Yes => false,
            Delivered::Later(message) | Delivered::Never(message) => {
                if !self.has_failed {
                    status(&format!("{message}; trying again"));
                }
                true
            }
        };
        if self.has_failed && !has_failed {
            status("the OTLP receiver takes figures again");
        }
        self.has_failed = has_failed;
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
    let now_ns = now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
    UnixClock { offset_ns: unix.saturating_sub(now_ns), now_ns }
}
