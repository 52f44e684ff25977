//! The recordings that `serve` and `top` follow: a list that grows while processes with engines are found.

use super::discovery::{Discovered, Discovery, FoundIn};
use super::live::{Followed, MOST_TARGETS, thread};
use nix::sys::signal::Signal;
use profinfer_diagnostics::{Diagnostics, printable};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks for processes.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long the last figures of a target that has ended remain, where others may come.
const REMAINS: Duration = Duration::from_secs(300);

/// A recording, and what shares it.
pub(crate) type Shared = Arc<Mutex<Followed>>;

/// The list, shared by whoever shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    followed: Vec<Entry>,
    /// Engines that were found, and whose recorders have ended; how.
    lost: Vec<(FoundIn, Option<ExitStatus>)>,
    /// Why processes could not be searched, as the search told last.
    problem: Option<String>,
    /// Nothing is added any more.
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    followed: Shared,
    /// What the search has found.
    found_in: Option<FoundIn>,
    /// Since when it is known to have ended.
    ended: Option<Instant>,
    /// Its name is another one's now.
    is_replaced: bool,
}

impl Targets {
    /// A list that does not grow by itself.
    pub(crate) fn new(followed: impl IntoIterator<Item = Followed>) -> Self {
        let mut list = List::default();
        followed.into_iter().for_each(|followed| list.push(followed, None));
        Self(Arc::new(Mutex::new(list)))
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of a target that has ended and one that was started in its place.
    #[cfg(test)]
    pub(crate) fn restarted(name: &str, followed: [Followed; 2]) -> Self {
        let targets = Self::default();
        for mut followed in followed {
            followed.rename(name.to_owned());
            targets.list().push(followed, None);
            while targets.list().followed.iter().any(|entry| entry.ended.is_none()) {
                targets.list().note_ended();
            }
        }
        targets
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Shared> {
        self.list().followed.iter().map(|entry| Arc::clone(&entry.followed)).collect()
    }

    /// Those of which figures are shown: each has a name of its own.
    pub(crate) fn shown(&self) -> Vec<Shared> {
        let list = self.list();
        let shown = list.followed.iter().filter(|entry| !entry.is_replaced);
        shown.map(|entry| Arc::clone(&entry.followed)).collect()
    }

    /// Why processes could not be searched for an engine.
    pub(crate) fn problem(&self) -> Option<String> {
        self.list().problem.clone()
    }

    /// Ends the search.
    pub(crate) fn close(&self) {
        self.list().is_closed = true;
    }

    /// Looks for processes on a thread, until the list is closed, and adds the recording of each that `follow` makes.
    /// `tell` takes a line for the user.
    pub(crate) fn search(
        &self,
        mut discovery: Discovery,
        follow: impl Fn(&Discovered) -> Result<Followed, Diagnostics> + Send + 'static,
        tell: impl Fn(&str) + Send + 'static,
    ) -> Result<(), Diagnostics> {
        let targets = self.clone();
        let work = move || {
            let look = |discovery: &mut Discovery| {
                let found = discovery.look();
                for problem in discovery.take_problems() {
                    tell(&problem);
                    targets.list().problem = Some(problem);
                }
                found
            };
            let mut found = look(&mut discovery);
            if found.is_empty() {
                tell("no process has an engine yet; looking for one every second");
            }
            loop {
                for one in &found {
                    match targets.list().add(one, &follow, &tell) {
                        Added::Yes => {}
                        Added::NotYet => discovery.refuse(one.found_in),
                        Added::Never => return,
                    }
                }
                targets.list().forget_old(|of| discovery.is_expected(of));
                std::thread::sleep(INTERVAL);
                let Some(lost) = targets.list().take_lost() else { return };
                for (of, status) in lost {
                    if let Some(wait) = discovery.lost(of) {
                        tell(&recorder_ended(of.pid, discovery.name(of), status, wait));
                    }
                }
                found = look(&mut discovery);
            }
        };
        thread("discovery", work).map(drop)
    }
}

fn recorder_ended(pid: i32, spec: &Path, status: Option<ExitStatus>, wait: Duration) -> String {
    let (spec, seconds) = (printable(&spec.display().to_string()), wait.as_secs());
    let how = match status.and_then(|status| status.signal()).map(Signal::try_from) {
        Some(Ok(Signal::SIGKILL)) => "was killed, as by the kernel when memory is short,".to_owned(),
        Some(Ok(signal)) => format!("was ended by {signal}"),
        _ => "has ended".to_owned(),
    };
    format!("the recorder of {spec} in process {pid} {how} before the process; the next one starts in {seconds} s")
}

/// What became of a process that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    Yes,
    /// There is no room for it now, or its recorder could not be started.
    NotYet,
    /// Nothing is added any more.
    Never,
}

impl Entry {
    /// Whether it has this name, and whether its target still runs. Several engines of one process have one name.
    fn named(&self, name: &str, other: &Followed) -> Option<Named> {
        let followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_replaced || followed.name() != name {
            return None;
        }
        let is_other_engine = followed.engine() != other.engine();
        // The recorder of a process that has ended may have something to write yet.
        let is_there = followed.pid().is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists());
        Some(Named {
            runs: self.ended.is_none() && is_there && !(is_other_engine && followed.pid() == other.pid()),
            is_other_engine,
        })
    }
}

/// An entry that has a name.
struct Named {
    /// Its target runs, so that the name is taken.
    runs: bool,
    is_other_engine: bool,
}

impl List {
    /// Adds a recording. It takes the place of one of the same name and engine whose target has ended: figures of a target
    /// that is started again go on under that name. Several that run at once are numbered.
    fn push(&mut self, mut followed: Followed, found_in: Option<FoundIn>) {
        let name = followed.name().to_owned();
        if !name.is_empty() {
            let numbered = (2..).map(|number| format!("{name}#{number}"));
            let runs = |name: &String| {
                self.followed.iter().any(|entry| entry.named(name, &followed).is_some_and(|named| named.runs))
            };
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !runs(name)).unwrap_or(name);
            for entry in &mut self.followed {
                entry.is_replaced |= entry.named(&free, &followed).is_some_and(|named| !named.is_other_engine);
            }
            followed.rename(free);
        }
        let followed = Arc::new(Mutex::new(followed));
        self.followed.push(Entry { followed, found_in, ended: None, is_replaced: false });
    }

    /// Adds the recording of a process, if there is room. Of a process that is refused again nothing is told.
    fn add(
        &mut self,
        found: &Discovered,
        follow: &impl Fn(&Discovered) -> Result<Followed, Diagnostics>,
        tell: &impl Fn(&str),
    ) -> Added {
        if self.is_closed {
            return Added::Never;
        }
        let refuse = |why: &str| {
            if !found.was_refused {
                tell(why);
            }
        };
        let spec = printable(&found.spec.display().to_string());
        let what = format!("process {} ({}) has the engine of {spec}", found.found_in.pid, printable(&found.process));
        self.make_room();
        if self.followed.len() >= MOST_TARGETS {
            refuse(&format!("{what}, and is not followed: {MOST_TARGETS} targets are"));
            return Added::NotYet;
        }
        match follow(found) {
            Ok(followed) => {
                tell(&what);
                self.push(followed, Some(found.found_in));
                Added::Yes
            }
            Err(problems) => {
                problems.0.iter().for_each(|problem| refuse(&problem.message));
                Added::NotYet
            }
        }
    }

    fn note_ended(&mut self) {
        let now = Instant::now();
        for entry in self.followed.iter_mut().filter(|entry| entry.ended.is_none()) {
            let mut followed = entry.followed.lock().unwrap_or_else(PoisonError::into_inner);
            if followed.has_ended() {
                entry.ended = Some(now);
                self.lost.extend(entry.found_in.map(|found| (found, followed.status())));
            }
        }
    }

    /// The engines whose recorders have ended since that was asked last; `None` once nothing is added any more.
    fn take_lost(&mut self) -> Option<Vec<(FoundIn, Option<ExitStatus>)>> {
        self.note_ended();
        (!self.is_closed).then(|| std::mem::take(&mut self.lost))
    }

    /// Takes off the list what ended long ago, except the last figures of a process that is to be recorded again: no
    /// series ends while its target runs.
    fn forget_old(&mut self, is_expected: impl Fn(FoundIn) -> bool) {
        let now = Instant::now();
        self.followed.retain(|entry| {
            entry.ended.is_none_or(|ended| now - ended < REMAINS)
                || !entry.is_replaced && entry.found_in.is_some_and(&is_expected)
        });
    }

    /// What ended first goes first.
    fn make_room(&mut self) {
        self.note_ended();
        while self.followed.len() >= MOST_TARGETS {
            let ended = self.followed.iter().enumerate().filter_map(|(number, entry)| Some((entry.ended?, number)));
            let Some((_, first)) = ended.min() else { return };
            self.followed.remove(first);
        }
    }
}
