//! Which server of a process an event of a request is of. Several servers in a process number their requests and
//! sequences each from 0. Each runs its steps on a thread of its own, and what happens to its requests between them.

use rustc_hash::{FxHashMap, FxHashSet};

/// Requests that have arrived and not begun, and threads that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// A request that has arrived and has no sequence yet.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    time: u64,
    tid: u32,
}

/// A process's number, the queue that a request arrived in, and its number there.
type ArrivalKey = (u32, Option<i64>, u64);

/// The threads of servers, and what arrived for them.
#[derive(Debug, Default)]
pub(super) struct Servers {
    /// Threads that ran steps, and whether a request that was given a sequence arrived on one of them.
    step_threads: FxHashSet<u32>,
    arrive_in_steps: bool,
    arrivals: FxHashMap<ArrivalKey, Arrival>,
    /// The queue of the server that runs on a thread.
    queues: FxHashMap<u32, i64>,
    /// The latest arrival of a request that has a sequence.
    latest_given: u64,
}

impl Servers {
    /// A thread ran a step.
    pub(super) fn runs_step(&mut self, tid: u32) {
        if self.step_threads.len() < MAX_REMEMBERED {
            self.step_threads.insert(tid);
        }
    }

    /// Whether what happens on two threads may be of one server: of two that both run steps, each has its own.
    pub(super) fn is_same(&self, one: u32, other: u32) -> bool {
        one == other || !self.step_threads.contains(&one) || !self.step_threads.contains(&other)
    }

    /// A request arrived.
    pub(super) fn arrives(&mut self, pid: u32, queue: Option<i64>, request: u64, tid: u32, time: u64) {
        if self.arrivals.len() >= MAX_REMEMBERED {
            self.forget_older();
        }
        // An engine may number tasks of its own between steps: their queue is that of the thread's server.
        if let Some(queue) = queue.filter(|_| self.step_threads.contains(&tid)) {
            self.note_queue(tid, queue);
        }
        self.arrivals.insert((pid, queue, request), Arrival { time, tid });
    }

    /// A request was given a sequence on this thread. When it arrived: `None` where requests of several servers have its
    /// number and wait, and its server's queue is not known yet.
    pub(super) fn gives(&mut self, pid: u32, request: u64, tid: u32) -> Option<u64> {
        let key = self.arrival_of(pid, request, tid)?;
        let arrival = self.arrivals.remove(&key)?;
        if let Some(queue) = key.1 {
            self.note_queue(tid, queue);
        }
        self.arrive_in_steps |= self.step_threads.contains(&arrival.tid);
        self.latest_given = self.latest_given.max(arrival.time);
        Some(arrival.time)
    }

    fn arrival_of(&self, pid: u32, request: u64, tid: u32) -> Option<ArrivalKey> {
        if let Some(queue) = self.queues.get(&tid) {
            return Some((pid, Some(*queue), request));
        }
        let is_others = |queue: Option<i64>| queue.is_some_and(|queue| self.queues.values().any(|of| *of == queue));
        let mut found = self.arrivals.iter().filter(|((of, queue, number), arrival)| {
            (*of, *number) == (pid, request) && !is_others(*queue) && self.is_same(arrival.tid, tid)
        });
        let (key, _) = found.next()?;
        found.next().is_none().then_some(*key)
    }

    fn note_queue(&mut self, tid: u32, queue: i64) {
        if self.queues.len() < MAX_REMEMBERED || self.queues.contains_key(&tid) {
            self.queues.insert(tid, queue);
        }
    }

    /// How many wait. What arrived before one that has its sequence was something else, and so is what arrives on a thread
    /// that runs steps, unless requests do.
    pub(super) fn waiting(&self) -> usize {
        let is_request = |arrival: &&Arrival| {
            arrival.time > self.latest_given && (self.arrive_in_steps || !self.step_threads.contains(&arrival.tid))
        };
        self.arrivals.values().filter(is_request).count()
    }

    /// Forgets the older half of those that wait: an engine may number other tasks as well, and give them no sequence.
    fn forget_older(&mut self) {
        let mut times: Vec<u64> = self.arrivals.values().map(|of| of.time).collect();
        times.sort_unstable();
        let middle = times.get(times.len() / 2).copied().unwrap_or(0);
        self.arrivals.retain(|_, of| of.time > middle);
    }

    /// Nothing was recorded for a time: those that waited may have begun, and a queue's address may be another one's.
    pub(super) fn forget(&mut self) {
        self.arrivals.clear();
        self.queues.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrived_in_the_queue_of_the_server_that_gives_it_a_sequence() {
        let mut servers = Servers::default();
        // Both servers' first ones wait at once: nothing tells which is whose.
        servers.arrives(7, Some(100), 0, 1, 10);
        servers.arrives(7, Some(200), 0, 1, 20);
        assert_eq!((servers.gives(7, 0, 11), servers.gives(7, 0, 12)), (None, None));
        // Tasks that they number between steps tell their queues.
        servers.runs_step(11);
        servers.runs_step(12);
        servers.arrives(7, Some(100), 1, 11, 30);
        servers.arrives(7, Some(200), 1, 12, 31);
        servers.arrives(7, Some(100), 2, 1, 40);
        servers.arrives(7, Some(200), 2, 1, 50);
        assert_eq!((servers.gives(7, 2, 12), servers.gives(7, 2, 11)), (Some(50), Some(40)));
        assert_eq!(servers.gives(7, 3, 11), None, "it has not arrived");
    }

    #[test]
    fn one_server_s_requests_need_no_queue() {
        let mut servers = Servers::default();
        servers.arrives(7, None, 0, 1, 10);
        servers.arrives(8, None, 0, 1, 20);
        assert_eq!((servers.gives(7, 0, 11), servers.waiting()), (Some(10), 1));
    }
}
