//! `profinfer top`: live figures of running engines on a terminal.

use super::discovery::Discovered;
use super::live::{Followed, LiveArguments, Wanted, snapshots};
use super::recorders::Messages;
use super::serve::signals;
use super::targets::{Shared, Targets};
use super::terminal::status;
use super::terminal_screen::{Key, TerminalScreen};
use super::{DONE, Outcome};
use nix::sys::signal::Signal;
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_files::output::open_reader;
use profinfer_live::{Screen, Snapshot};
use profinfer_recorder::memory;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Time between two pictures.
const REFRESH: Duration = Duration::from_millis(500);
/// How long recorders have to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The subcommand's arguments.
#[derive(Debug, clap::Args)]
#[command(after_help = "Keys: q quits, f freezes the figures, s sorts operators by another column, n shows the next \
    target. Processes that it attached to go on; a launched command is interrupted. The last line that the recorder or the command writes is shown above the keys.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    live: LiveArguments,
    /// Read this trace instead, also while it is written to a pipe: `--trace <(ssh HOST profinfer record -o - …)`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pids", "command", "specs", "all", "cgroup", "container"])]
    trace: Option<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    memory::share_heap();
    let trace = arguments.trace.as_deref().map(open).transpose()?;
    // Where there is no terminal, nothing is started.
    TerminalScreen::require()?;
    let (mut discovery, mut recorders) = (None, Vec::new());
    let starter = trace.is_none().then(|| arguments.live.recorders(Messages::Saved));
    if let Some(starter) = &starter {
        discovery = arguments.live.discovery()?;
        recorders = arguments.live.start(starter, false)?;
    }
    let signals = signals()?;
    let wanted = Wanted::default();
    let followed = recorders.into_iter().map(|recorder| recorder.follow(wanted.clone()));
    let targets = Targets::new(followed.chain(trace.map(Ok)).collect::<Result<Vec<_>, _>>()?);
    let searches = discovery.is_some();
    if let (Some(discovery), Some(starter)) = (discovery, starter) {
        let live = arguments.live.clone();
        let follow = move |found: &Discovered| {
            live.recorder_of(found, &starter, false).and_then(|recorder| recorder.follow(wanted.clone()))
        };
        targets.search(discovery, follow, |_| {})?;
    }
    let mut screen = TerminalScreen::enter()?;
    let is_wanted = || !matches!(signals.read_signal(), Ok(Some(_)) | Err(_));
    show(&mut screen, &targets, searches, is_wanted);
    drop(screen);
    targets.close();
    let all = targets.all();
    end(&all);
    for followed in &all {
        let followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
        if followed.figures().is_none() {
            if let Some(problems) = followed.problems() {
                return Err(problems);
            }
            followed.messages().iter().for_each(|message| status(message));
            if let Some(code) = followed.code().filter(|code| *code != DONE) {
                return Ok(code);
            }
        }
    }
    Ok(DONE)
}

fn open(path: &Path) -> Result<Followed, Diagnostics> {
    let file = open_reader(path).map_err(|error| {
        Diagnostic::error(Code::TraceUnreadable, format!("cannot read {}: {error}", path.display()))
            .hint("record a trace: `profinfer record -o FILE …`")
    })?;
    Followed::trace(Box::new(file))
}

/// Until the user or a signal ends it.
fn show(screen: &mut TerminalScreen, targets: &Targets, searches: bool, is_wanted: impl Fn() -> bool) {
    let mut style = Screen { searches, ..Screen::default() };
    let (mut all, mut figures): (Vec<Shared>, Vec<Snapshot>) = Default::default();
    let mut drawn: Option<Instant> = None;
    let mut was_chosen = false;
    while is_wanted() {
        (style.width, style.height) = TerminalScreen::size();
        if drawn.is_none_or(|drawn| drawn.elapsed() >= REFRESH) {
            drawn = Some(Instant::now());
            if !style.is_frozen {
                all = targets.shown();
                figures = snapshots(&all, true);
            }
            if !was_chosen {
                style.selected = figures.iter().position(Snapshot::has_steps).unwrap_or(0);
            }
        }
        let message = all.get(style.selected).and_then(|followed| {
            let followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
            followed.message()
        });
        let message = message.or_else(|| targets.problem());
        if screen.draw(&style.lines(&figures, message.as_deref())).is_err() {
            return;
        }
        for key in screen.keys(REFRESH / 4) {
            match key {
                Key::Quit | Key::Character('q' | 'Q') => return,
                Key::Character('f' | ' ') => {
                    style.is_frozen = !style.is_frozen;
                    drawn = None;
                }
                Key::Character('s') => style.sort = style.sort.next(),
                Key::Character('n' | '\t') => {
                    style.selected = (style.selected + 1) % all.len().max(1);
                    was_chosen = true;
                }
                Key::Character(_) => {}
            }
        }
    }
}

/// Ends the recorders, and waits for them: what they attached to is then as it was before.
fn end(all: &[Shared]) {
    let since = Instant::now();
    let each = |act: &mut dyn FnMut(&mut Followed)| {
        all.iter().for_each(|followed| act(&mut followed.lock().unwrap_or_else(PoisonError::into_inner)));
    };
    each(&mut |followed| followed.end(Signal::SIGINT));
    while since.elapsed() < PATIENCE {
        let mut running = false;
        each(&mut |followed| running |= !followed.has_ended());
        if !running {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    each(&mut |followed| followed.end(Signal::SIGTERM));
}
