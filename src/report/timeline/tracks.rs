//! Which tracks there are: a process, under it a group for each thread that runs steps, and in that what belongs to
//! its steps.

use super::sink::{Sink, Track, TrackId};
use std::collections::HashMap;
use std::io;

/// What a track is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Line {
    Process,
    /// Steps, and marks of what they miss.
    Steps,
    /// Graphs of a backend.
    Graphs(String),
    /// Operators, and waiting.
    Lane(u32),
    /// What a lane's thread does on the processor, or off it.
    State(u32),
    /// Regions of a thread that are in no operator.
    Regions(u32),
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
}

/// Tracks, made when they are first used.
#[derive(Debug)]
pub(super) struct Tracks {
    ids: HashMap<(Owner, Line), TrackId>,
    /// What the processes are called.
    process_name: String,
    /// The first thread of each process that runs steps: its tracks need not say whose they are.
    first: HashMap<u32, u32>,
}

impl Tracks {
    pub(super) fn new(process_name: String) -> Self {
        Self { ids: HashMap::new(), process_name, first: HashMap::new() }
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
            Line::State(lane) => Some(self.id(owner, Line::Lane(*lane), sink)?),
            _ => Some(self.id(Owner { tid: 0, ..owner }, Line::Process, sink)?),
        };
        let id = self.ids.len() as TrackId + 1;
        let track = Track {
            id,
            name: self.name(owner, &line),
            parent,
            pid: owner.pid,
            rank: rank(&line),
            counter: match line {
                Line::Speed => Some("tokens/s"),
                Line::Frequency(_) => Some("MHz"),
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
            Line::Steps if owner.tid == 0 => "outside steps".to_owned(),
            Line::Steps => "steps".to_owned(),
            Line::Graphs(backend) => format!("graphs on {backend}"),
            Line::Lane(lane) => format!("lane {lane}"),
            Line::State(lane) => format!("lane {lane}: thread"),
            Line::Regions(tid) => return format!("thread {tid}"),
            Line::Speed => "speed".to_owned(),
            Line::Frequency(cpu) => format!("cpu {cpu}: frequency"),
        };
        let first = *self.first.entry(owner.pid).or_insert(owner.tid);
        if first == owner.tid || owner.tid == 0 { name } else { format!("{name} (thread {})", owner.tid) }
    }
}

fn rank(line: &Line) -> u32 {
    match line {
        Line::Process | Line::Speed => 0,
        Line::Steps => 1,
        Line::Graphs(_) => 2,
        Line::Lane(lane) => 10 + (*lane).min(100_000),
        Line::State(_) => 1,
        Line::Regions(_) => 200_000,
        Line::Frequency(cpu) => 300_000 + u32::from(*cpu),
    }
}
