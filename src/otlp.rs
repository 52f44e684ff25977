//! Pushes live figures to an OpenTelemetry receiver: OTLP over HTTP, as JSON. A receiver that is slow or gone delays
//! nothing else, and what could not be delivered is counted.

use super::live::{cannot_start, now, snapshots};
use super::targets::{Shared, Targets};
use super::terminal::status;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, printable};
use profinfer_live::{Ended, PushLosses, Snapshot, UnixClock, otlp_metrics, otlp_spans};
use serde_json::Value;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use ureq::http::Uri;

/// Time that one request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests of an engine that wait for a receiver that does not answer.
const MOST_REQUESTS: usize = 4096;

/// Where to push to.
#[derive(Debug)]
pub(crate) struct Endpoint {
    url: String,
    headers: Vec<(String, String)>,
}

impl Endpoint {
    /// Of a base URL, with the headers that OpenTelemetry's variable names.
    pub(crate) fn parse(url: &str) -> Result<Self, Diagnostics> {
        let problem =
            |message: String, hint: &str| Diagnostics::from(Diagnostic::error(Code::BadArgument, message).hint(hint));
        let example = "give the receiver's base URL: `--otlp http://127.0.0.1:4318`";
        let uri: Uri = url.parse().map_err(|_| problem(format!("`{}` is not a URL", printable(url)), example))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http"), Some(_)) => {}
            (Some("https"), Some(_)) => {
                let message = "OTLP is pushed without TLS".to_owned();
                return Err(problem(message, "push to a collector on this machine, which forwards with TLS"));
            }
            _ => return Err(problem(format!("`{}` is not a URL of HTTP", printable(url)), example)),
        }
        let text = std::env::var("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let headers = headers(&text).ok_or_else(|| {
            let message = "OTEL_EXPORTER_OTLP_HEADERS has no list of headers".to_owned();
            problem(message, "write it as `name=value,name=value`")
        })?;
        Ok(Self { url: url.trim_end_matches('/').to_owned(), headers })
    }
}

/// `name=value,name=value`; `None` of anything else.
fn headers(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let (name, value) = (name.trim(), value.trim());
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            let is_value = value.bytes().all(|byte| byte == b'\t' || (b' '..0x7f).contains(&byte));
            (is_name && is_value).then(|| (name.to_owned(), value.to_owned()))
        })
        .collect()
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
            agent: ureq::Agent::config_builder()
                .timeout_global(Some(PATIENCE))
                .max_redirects(0)
                .proxy(None)
                .build()
                .into(),
            endpoint,
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
    agent: ureq::Agent,
    endpoint: Endpoint,
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
        let delivered = self.send("metrics", &otlp_metrics(&figures, clock));
        let has_spans = self.waiting.iter().any(|(_, waiting)| !waiting.requests.is_empty());
        let delivered = match (delivered, has_spans) {
            (Delivered::Yes, true) => self.send_spans(&figures, clock),
            (delivered, _) => delivered,
        };
        self.tell(&delivered);
    }

    fn send_spans(&mut self, figures: &[Snapshot], clock: UnixClock) -> Delivered {
        let spans = figures.iter().zip(self.waiting.iter().map(|(_, waiting)| &waiting.requests[..]));
        let delivered = self.send("traces", &otlp_spans(spans.filter(|(_, requests)| !requests.is_empty()), clock));
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

    fn send(&self, what: &str, body: &Value) -> Delivered {
        let mut request = self.agent.post(format!("{}/v1/{what}", self.endpoint.url));
        for (name, value) in &self.endpoint.headers {
            request = request.header(name, value);
        }
        match request.header("Content-Type", "application/json").send(body.to_string()) {
            Ok(_) => Delivered::Yes,
            Err(error) => {
                lock(&self.losses).failed += 1;
                let message = format!(
                    "cannot push {what} to {}: {}",
                    printable(&self.endpoint.url),
                    printable(&error.to_string())
                );
                match error {
                    // Those that OTLP lets a client repeat are 429, 502, 503 and 504.
                    ureq::Error::StatusCode(code) if !matches!(code, 429 | 502..=504) => Delivered::Never(message),
                    _ => Delivered::Later(message),
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_names_and_values() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(headers(""), Some(Vec::new()));
        assert_eq!(headers("a=b, X-Key = c d=,"), Some(vec![pair("a", "b"), pair("X-Key", "c d=")]));
        for wrong in ["a", "=b", "a b=c", "a=b\r\nEvil: 1"] {
            assert_eq!(headers(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_urls_of_http_are_taken() {
        assert!(
            Endpoint::parse("http://127.0.0.1:4318/").is_ok_and(|endpoint| endpoint.url == "http://127.0.0.1:4318")
        );
        for wrong in ["127.0.0.1:4318", "https://collector:4318", "http://", "unix:/run/x", ""] {
            assert!(Endpoint::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
