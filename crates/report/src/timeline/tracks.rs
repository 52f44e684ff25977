//! Which tracks there are: a process, under it a group for each engine where there are several, and in that what belongs to
//! the steps of each thread that runs some.

use super::sink::{Sink, Track, TrackId};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// What a track is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Process,
    /// All of one engine's, where a timeline has several.
    Engine,
    /// Steps, and marks of what they miss.
    Steps,
    /// Graphs of a backend.
    Graphs(String),
    /// Operators, and waiting.
    Lane(u32),
    /// What a lane's thread does on the processor, or off it.
    State(u32),
    /// What a lane counted in each of its operators.
    Count(u32, Arc<str>),
    /// Regions of a thread that are in no operator.
    Regions(u32),
    /// What a thread encodes for devices.
    Encoding(u32),
    /// A thread's calls of queues.
    Calls(u32),
    /// Work of a queue that was submitted and not known to be done.
    Queue(u64),
    /// Jobs that the kernel's driver ran: its name, and that of the ring.
    Ring(Option<Arc<str>>, Option<Arc<str>>),
    /// A request: its place by arrival, and the engine's number.
    Request {
        index: u64,
        number: Option<u64>,
    },
    /// Tokens by the step's time.
    Speed,
    /// How fast a processor ran.
    Frequency(u16),
}

/// Whose track it is: a process, and the thread that runs the steps. Two of them may run steps at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Owner {
    pub(super) pid: u32,
    /// 0 for what no step contains.
    pub(super) tid: u32,
    /// The engine's number from 1; 0 for the process's tracks, and if there is one engine.
    pub(super) engine: u16,
}

/// Tracks, made when they are first used.
#[derive(Debug)]
pub(super) struct Tracks {
    ids: HashMap<(Owner, Line), TrackId>,
    /// What the processes are called.
    process_name: String,
    /// The names of the engines, where a timeline has several.
    engines: Vec<Arc<str>>,
    /// The first thread of each process that runs an engine's steps: its tracks do not name it.
    first: HashMap<(u32, u16), u32>,
}

impl Tracks {
    pub(super) fn new(process_name: String) -> Self {
        Self { ids: HashMap::new(), process_name, engines: Vec::new(), first: HashMap::new() }
    }

    /// Another engine: gives its number.
    pub(super) fn engine(&mut self, name: &str) -> u16 {
        self.engines.push(name.into());
        u16::try_from(self.engines.len()).unwrap_or(u16::MAX)
    }

    fn engine_of(&self, owner: Owner) -> Option<&Arc<str>> {
        self.engines.get(usize::from(owner.engine.checked_sub(1)?))
    }

    /// The track's number.
    pub(super) fn id(&mut self, owner: Owner, line: Line, sink: &mut dyn Sink) -> io::Result<TrackId> {
        let key = (owner, line);
        if let Some(id) = self.ids.get(&key) {
            return Ok(*id);
        }
        let (owner, line) = key;
        let parent = match &line {
            Line::Process => None,
            Line::State(lane) | Line::Count(lane, _) => Some(self.id(owner, Line::Lane(*lane), sink)?),
            Line::Engine => Some(self.id(Owner { tid: 0, engine: 0, ..owner }, Line::Process, sink)?),
            _ if owner.engine > 0 => Some(self.id(Owner { tid: 0, ..owner }, Line::Engine, sink)?),
            _ => Some(self.id(Owner { tid: 0, ..owner }, Line::Process, sink)?),
        };
        let id = self.ids.len() as TrackId + 1;
        let track = Track {
            id,
            name: self.name(owner, &line),
            parent,
            pid: owner.pid,
            rank: rank(&line, owner),
            engine: self.engine_of(owner).filter(|_| line != Line::Engine).cloned(),
            counter: match line {
                Line::Speed => Some("tokens/s"),
                Line::Frequency(_) => Some("MHz"),
                Line::Count(..) => Some("an operator"),
                _ => None,
            },
        };
        sink.track(&track)?;
        self.ids.insert((owner, line), id);
        Ok(id)
    }

    fn name(&mut self, owner: Owner, line: &Line) -> String {
        let name = match line {
            Line::Process => return self.process_name.clone(),
            Line::Engine => return self.engine_of(owner).map(ToString::to_string).unwrap_or_default(),
            Line::Steps => "steps".to_owned(),
            Line::Graphs(backend) => format!("graphs on {backend}"),
            Line::Lane(lane) => format!("lane {lane}"),
            Line::State(lane) => format!("lane {lane}: thread"),
            Line::Count(lane, counter) => format!("lane {lane}: {counter}"),
            Line::Regions(tid) => format!("thread {tid}"),
            Line::Encoding(tid) => format!("encoding for devices (thread {tid})"),
            Line::Calls(tid) => format!("calls of queues (thread {tid})"),
            Line::Queue(queue) => format!("queue {queue:#x}"),
            Line::Ring(driver, ring) => {
                let (ring, driver) = (ring.as_deref().unwrap_or("jobs"), driver.as_deref().unwrap_or("the kernel"));
                format!("{ring} (jobs of {driver})")
            }
            Line::Request { number: Some(number), .. } => return format!("request {number}"),
            Line::Request { index, number: None } => return format!("request #{index}"),
            Line::Speed => "speed".to_owned(),
            Line::Frequency(cpu) => return format!("CPU {cpu}: frequency"),
        };
        if owner.tid == 0 {
            return format!("{name}, outside steps");
        }
        let names_another =
            matches!(line, Line::Regions(_) | Line::Encoding(_) | Line::Calls(_) | Line::Queue(_) | Line::Ring(..));
        let first = *self.first.entry((owner.pid, owner.engine)).or_insert(owner.tid);
        if names_another || first == owner.tid { name } else { format!("{name} (thread {})", owner.tid) }
    }
}

fn rank(line: &Line, owner: Owner) -> u32 {
    match line {
        Line::Process | Line::Speed => 0,
        Line::Engine => u32::from(owner.engine),
        Line::Steps => 1,
        Line::Graphs(_) => 2,
        Line::Lane(lane) => 10 + (*lane).min(100_000),
        Line::State(_) => 1,
        Line::Count(..) => 2,
        Line::Regions(_) => 200_000,
        Line::Encoding(_) => 3,
        Line::Calls(_) => 4,
        Line::Queue(_) => 5,
        Line::Ring(..) => 6,
        Line::Request { index, .. } => 250_000 + u32::try_from(*index).unwrap_or(0).min(40_000),
        Line::Frequency(cpu) => 300_000 + u32::from(*cpu),
    }
}
