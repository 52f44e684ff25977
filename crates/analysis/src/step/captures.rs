//! Work that is captured once and launched as a whole many times: what it consists of is known from its capture.

use super::offload_raw::{CaptureEvent, Placed};
use crate::ids::KindId;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Captures that are open at one time, queues and fences of these, and captured works that are remembered.
const MAX_CAPTURES: usize = 1 << 12;
/// Operators or launches of one.
const MAX_NODES: usize = 1 << 16;

/// The captures of a process.
#[derive(Debug, Default)]
pub(super) struct Captures {
    /// Launches, and operators that were encoded, while a queue is capturing.
    open: FxHashMap<u64, Vec<Placed>>,
    /// Queues that work for another one's capture since they came after work of it: by whose.
    joined: FxHashMap<u64, u64>,
    /// By which queue's capture work was captured that these fences are of.
    fences: FxHashMap<u64, u64>,
    captured: FxHashMap<u64, Arc<[KindId]>>,
    /// The queue, thread and start of the latest call that was captured: the record of what it launched follows.
    latest: Option<(u64, u32, u64)>,
}

/// Work that is given to a queue, by what its end is recognised, and what it comes after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) queue: u64,
    pub(super) fence: Option<u64>,
    pub(super) after: Option<u64>,
}

impl Captures {
    pub(super) fn add(&mut self, event: CaptureEvent, kinds: impl FnOnce(Vec<Placed>) -> Vec<KindId>) {
        match event {
            CaptureEvent::Begins { queue } => {
                if self.open.len() < MAX_CAPTURES {
                    self.open.insert(queue, Vec::new());
                }
            }
            CaptureEvent::Ends { queue, captured } => {
                let Some(nodes) = self.open.remove(&queue) else { return };
                self.joined.retain(|_, of| *of != queue);
                self.fences.retain(|_, of| *of != queue);
                self.remember(captured, kinds(nodes).into());
            }
            CaptureEvent::Made { from, captured } => {
                // It is no longer what it was before, whatever it is made from.
                match self.captured.get(&from).cloned() {
                    Some(nodes) => self.remember(captured, nodes),
                    None => drop(self.captured.remove(&captured)),
                }
            }
        }
    }

    fn remember(&mut self, captured: u64, nodes: Arc<[KindId]>) {
        if self.captured.len() < MAX_CAPTURES || self.captured.contains_key(&captured) {
            self.captured.insert(captured, nodes);
        }
    }

    /// Whether a call that gives work to a queue is captured instead.
    pub(super) fn takes(&mut self, work: Work, thread: u32, start: u64) -> bool {
        let Work { queue, fence, after } = work;
        let capturing = Some(queue).filter(|queue| self.open.contains_key(queue));
        let of = capturing.or_else(|| self.joined.get(&queue).copied());
        let of = of.or_else(|| after.and_then(|fence| self.fences.get(&fence).copied()));
        if let Some(fence) = fence {
            match of {
                Some(of) if self.fences.len() < MAX_CAPTURES => self.fences.insert(fence, of),
                _ => self.fences.remove(&fence),
            };
        }
        let Some(of) = of else { return false };
        if of != queue && self.joined.len() < MAX_CAPTURES {
            self.joined.insert(queue, of);
        }
        self.latest = Some((of, thread, start));
        true
    }

    /// An operator that was encoded, or a launch. One that contains others stands for them.
    pub(super) fn encoded(&mut self, thread: u32, start: u64, encoded: impl FnOnce() -> Placed) {
        let Some((queue, of, at)) = self.latest else { return };
        let is_it = of == thread && start <= at;
        let Some(nodes) = self.open.get_mut(&queue).filter(|_| is_it) else { return };
        let within = nodes.iter().rev().take_while(|node| node.thread == thread && node.start >= start).count();
        nodes.truncate(nodes.len() - within);
        if nodes.len() < MAX_NODES {
            nodes.push(encoded());
        }
    }

    /// What was captured as this.
    pub(super) fn of(&self, captured: u64) -> Option<Arc<[KindId]>> {
        self.captured.get(&captured).cloned()
    }
}
