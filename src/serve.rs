//! `profinfer serve`: live figures of running engines over HTTP.

use super::discovery::Discovered;
use super::flight::FlightArguments;
use super::http::{Answer, Server};
use super::live::{Followed, LiveArguments, Recorder, Wanted, snapshots};
use super::otlp::{Endpoint, Protocol, Pusher};
use super::recorders::Messages;
use super::tables::TableArguments;
use super::targets::{Shared, Targets};
use super::terminal::status;
use super::tls::TlsArguments;
use super::token::Token;
use super::values;
use super::{DONE, Outcome};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_live::{PAGE, PushLosses, prometheus};
use profinfer_recorder::{ending_signals, is_meant, memory};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two polls of recorders, in ms: where their end ends the program, and else.
const TICK: u16 = 100;
const SLOW_TICK: u16 = 500;
/// How often free memory goes back to the system.
const GIVE_BACK: Duration = Duration::from_secs(30);

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
    /// Answer only requests with the token in this file's first line: as a bearer, or as the password of the user
    /// `profinfer`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    tls: TlsArguments,
    /// Push metrics, and a span for each request, to an OpenTelemetry receiver: `http://127.0.0.1:4318`, or `https://…`.
    /// Headers are taken from OTEL_EXPORTER_OTLP_HEADERS, the certificate to trust from OTEL_EXPORTER_OTLP_CERTIFICATE
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
    /// How to push. If not given, it is taken from OTEL_EXPORTER_OTLP_PROTOCOL, or else `http/json`
    #[arg(long, value_name = "PROTOCOL", requires = "otlp")]
    otlp_protocol: Option<Protocol>,
    /// Time between two pushes
    #[arg(long, value_name = "DURATION", value_parser = values::duration, default_value = "10s", requires = "otlp")]
    otlp_interval: Duration,
    #[command(flatten)]
    flight: FlightArguments,
    #[command(flatten)]
    tables: TableArguments,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    memory::share_heap();
    let starter = arguments.live.recorders(Messages::Through);
    let server = Server::bind(arguments.listen).map_err(|error| cannot_listen(arguments.listen, &error))?;
    let address = server.address();
    let token = arguments.token_file.as_deref().map(Token::read).transpose()?;
    let tls = arguments.tls.tls()?;
    let endpoint = arguments.otlp.as_deref().map(|url| Endpoint::parse(url, arguments.otlp_protocol)).transpose()?;
    let keeper = arguments.flight.keeper()?;
    let with_samples = keeper.is_some();
    let discovery = arguments.live.discovery()?;
    let recorders = arguments.live.start(&starter, with_samples)?;
    let signals = signals()?;
    let wanted = Wanted { ended: endpoint.is_some(), keeper, tables: arguments.tables.folder()?, ..Wanted::default() };
    let follow = move |recorder: Recorder| recorder.follow(wanted.clone());
    let targets = Targets::new(recorders.into_iter().map(&follow).collect::<Result<Vec<_>, _>>()?);
    let pusher =
        endpoint.map(|endpoint| Pusher::start(endpoint, targets.clone(), arguments.otlp_interval)).transpose()?;
    let (shown, losses) = (targets.clone(), pusher.as_ref().map(Pusher::losses));
    let scheme = if tls.is_some() { "https" } else { "http" };
    server
        .start(tls, token, move |path| answer(path, &shown.shown(), losses.as_deref()))
        .map_err(|error| cannot_listen(address, &error))?;
    status(&format!("listening on {scheme}://{address}/; metrics for Prometheus: {scheme}://{address}/metrics"));
    let searches = discovery.is_some();
    if let Some(discovery) = discovery {
        let live = arguments.live.clone();
        let follow = move |found: &Discovered| live.recorder_of(found, &starter, with_samples).and_then(&follow);
        targets.search(discovery, follow, status)?;
    }
    let until = if searches { Until::Signal } else { Until::Targets };
    let code = until_the_end(&targets, until, arguments.live.launches(), &signals);
    if let Some(pusher) = pusher {
        pusher.finish();
    }
    Ok(code)
}

/// What ends the program besides a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Nothing: other targets may come.
    Signal,
    /// The end of a launched command, or that nothing can be recorded.
    Targets,
}

/// Waits for the recordings' end, or a signal; returns the exit code.
fn until_the_end(targets: &Targets, until: Until, launches: bool, signals: &SignalFd) -> u8 {
    let (mut is_ending, mut gave_back) = (false, Instant::now());
    loop {
        if gave_back.elapsed() >= GIVE_BACK {
            gave_back = Instant::now();
            memory::give_back();
        }
        while let Ok(Some(info)) = signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if signal.is_some_and(|signal| !is_meant(signal, info.ssi_code)) {
                continue;
            }
            is_ending = true;
            targets.close();
            let signal = signal.unwrap_or(Signal::SIGTERM);
            targets.all().iter().for_each(|followed| with(followed, |followed| followed.end(signal)));
        }
        let all = targets.all();
        let ended: Vec<bool> = all.iter().map(|followed| with(followed, Followed::has_ended)).collect();
        let is_over = ended.iter().all(|ended| *ended) && (is_ending || until == Until::Targets);
        let codes = || all.iter().filter_map(|followed| with(followed, |followed| followed.code()));
        let recorded = || all.iter().any(|followed| with(followed, |followed| followed.figures().is_some()));
        if is_over && is_ending && !launches {
            return DONE;
        }
        if is_over && (launches || !recorded()) {
            return codes().max().unwrap_or(DONE);
        }
        let tick = if is_ending || until == Until::Targets { TICK } else { SLOW_TICK };
        let _ = poll(&mut [PollFd::new(signals.as_fd(), PollFlags::POLLIN)], PollTimeout::from(tick));
    }
}

fn with<T>(followed: &Mutex<Followed>, act: impl FnOnce(&mut Followed) -> T) -> T {
    act(&mut followed.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What a path leads to.
fn answer(path: &str, all: &[Shared], pushes: Option<&Mutex<PushLosses>>) -> Option<Answer> {
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
    let blocked = ending_signals();
    let taken = blocked
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&blocked, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC));
    taken.map_err(|error| Diagnostic::error(Code::Bug, format!("cannot block signals: {error}")).into())
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error) -> Diagnostics {
    let problem = Diagnostic::error(Code::BadArgument, format!("cannot listen on {address}: {error}"));
    problem.hint("give another port with `--listen 127.0.0.1:PORT`; port 0 takes any that is free").into()
}
