//! `profinfer serve`: live figures of running engines over HTTP.

use super::flight::FlightArguments;
use super::http::{Answer, Server};
use super::live::{Followed, LiveArguments, Messages, Recorder, snapshots};
use super::otlp::{Endpoint, Pusher};
use super::terminal::status;
use super::values;
use super::{DONE, Outcome};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_live::{PAGE, PushLosses, prometheus};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two polls of signals and recorders.
const TICK: Duration = Duration::from_millis(100);

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "GET /metrics is for Prometheus, with OpenTelemetry's GenAI names; GET / is a page, and \
    GET /snapshots.json its data. Neither contains anything of a request but its times and numbers of tokens. SIGINT and \
    SIGTERM end it: processes that it attached to go on, a launched command gets the signal. With a command, it ends with \
    the command and has its status.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    live: LiveArguments,
    /// Address and port to listen on; others than this machine's can be reached by everybody who can reach it. Port 0: any
    /// free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9464")]
    listen: SocketAddr,
    /// Push metrics, and a span for each request, to an OpenTelemetry receiver (OTLP over HTTP, as JSON):
    /// `http://127.0.0.1:4318`. Headers are taken from OTEL_EXPORTER_OTLP_HEADERS
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// Time between two pushes
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "10s", requires = "otlp")]
    otlp_interval: Duration,
    #[command(flatten)]
    flight: FlightArguments,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let server = Server::bind(arguments.listen).map_err(|error| cannot_listen(arguments.listen, &error))?;
    let address = server.address();
    let endpoint = arguments.otlp.as_deref().map(Endpoint::parse).transpose()?;
    let keeper = arguments.flight.keeper()?;
    let recorders = arguments.live.start(Messages::Through, keeper.is_some())?;
    let signals = signals()?;
    let follow = |recorder: Recorder| Arc::new(Mutex::new(recorder.follow(endpoint.is_some(), keeper.clone())));
    let all: Vec<Arc<Mutex<Followed>>> = recorders.into_iter().map(follow).collect();
    let pusher = endpoint.map(|endpoint| Pusher::start(endpoint, all.clone(), arguments.otlp_interval)).transpose()?;
    let (shown, losses) = (all.clone(), pusher.as_ref().map(Pusher::losses));
    server
        .start(move |path| answer(path, &shown, losses.as_deref()))
        .map_err(|error| cannot_listen(address, &error))?;
    status(&format!("listening on http://{address}/; metrics for Prometheus: http://{address}/metrics"));
    let code = until_the_end(&arguments.live, &all, &signals);
    if let Some(pusher) = pusher {
        pusher.finish();
    }
    Ok(code)
}

/// Waits for the recordings' end, or a signal; returns the exit code.
fn until_the_end(live: &LiveArguments, all: &[Arc<Mutex<Followed>>], signals: &SignalFd) -> u8 {
    let mut is_ending = false;
    loop {
        while let Ok(Some(info)) = signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            is_ending = true;
            all.iter().for_each(|followed| with(followed, |followed| followed.end(signal.unwrap_or(Signal::SIGTERM))));
        }
        let ended: Vec<bool> = all.iter().map(|followed| with(followed, Followed::has_ended)).collect();
        let is_over = ended.iter().all(|ended| *ended);
        let codes = || all.iter().filter_map(|followed| with(followed, |followed| followed.code()));
        let recorded = all.iter().any(|followed| with(followed, |followed| followed.figures().is_some()));
        if is_over && is_ending && !live.launches() {
            return DONE;
        }
        if is_over && (live.launches() || !recorded) {
            return codes().max().unwrap_or(DONE);
        }
        std::thread::sleep(TICK);
    }
}

fn with<T>(followed: &Mutex<Followed>, act: impl FnOnce(&mut Followed) -> T) -> T {
    act(&mut followed.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a path leads to.
fn answer(path: &str, all: &[Arc<Mutex<Followed>>], pushes: Option<&Mutex<PushLosses>>) -> Option<Answer> {
    match path {
        "/metrics" => {
            let pushes = pushes.map(|losses| *losses.lock().unwrap_or_else(PoisonError::into_inner));
            let body = prometheus(&snapshots(all, false), pushes);
            Some(Answer { kind: "text/plain; version=0.0.4; charset=utf-8", body })
        }
        "/snapshots.json" => {
            let body = serde_json::to_string(&snapshots(all, true)).ok()?;
            Some(Answer { kind: "application/json", body })
        }
        "/" | "/index.html" => Some(Answer { kind: "text/html; charset=utf-8", body: PAGE.to_owned() }),
        _ => None,
    }
}

/// The signals that end the program, taken one by one. Threads that are made from here on block them as well.
pub(crate) fn signals() -> Result<SignalFd, Diagnostics> {
    let blocked: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
    let taken = blocked
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&blocked, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC));
    taken.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot block signals: {error}")).into())
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Diagnostics {
    let problem = Diagnostic::error(Code::BadArgument, format!("cannot listen on {address}: {error}"));
    problem.hint("give another port with `--listen 127.0.0.1:PORT`; port 0 takes any that is free").into()
}
