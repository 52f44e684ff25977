//! Threads: their processes, their latest records, and gaps in their sequence numbers.

use super::thread_state::Track;
use crate::raw::Header;
use rustc_hash::{FxHashMap, FxHashSet};

/// Sequence numbers that are this far back are reordered records, not a gap.
const REORDERED: u32 = 1 << 31;

/// Exited threads at which unreferenced entries are freed.
const MAX_EXITED: usize = if cfg!(test) { 4 } else { 4096 };

/// Stands for several threads.
pub(super) const SEVERAL: u32 = u32::MAX;

/// One thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    /// Number in the kernel.
    pub(crate) tid: u32,
    /// Index of its process.
    pub(crate) process: u32,
    /// The sequence number that its next record should have.
    next_seq: Option<u32>,
    /// End of its latest record, ns.
    pub(crate) last_end: u64,
    /// End of its latest operator, ns; `None` where it had none.
    pub(crate) last_operator: Option<u64>,
    /// What it does.
    pub(crate) track: Track,
    /// When it was made, ns; `None` where it was there before the recording.
    pub(crate) born: Option<u64>,
    /// When it ended, ns.
    pub(crate) exited: Option<u64>,
    /// Number of processors that it may run on, if recorded.
    pub(crate) cpus_allowed: Option<u32>,
    /// The thread whose graphs its operators were seen in without doubt, or [`SEVERAL`].
    pub(crate) home: Option<u32>,
    /// When its last operator began that was given as one of another thread's step, ns.
    pub(crate) given_until: Option<u64>,
}

/// Records of a thread that are not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// ns: the end of the last record before.
    pub(crate) from: u64,
    /// ns: the end of the first record after.
    pub(crate) to: u64,
    /// How many.
    pub(crate) records: u32,
    /// The thread; `None` where gaps of several were taken together.
    pub(crate) thread: Option<u32>,
}

/// Every thread of a trace. A number that is used again after its thread ended is another thread.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    list: Vec<Thread>,
    by_tid: FxHashMap<u32, u32>,
    process_by_pid: FxHashMap<u32, u32>,
    /// Process numbers, and the processes they were forked from.
    processes: Vec<(u32, Option<u32>)>,
    latest: Option<(u32, u32)>,
    /// Exited threads, which pending events may refer to.
    exited: Vec<u32>,
    /// Entries to reuse.
    free: Vec<u32>,
    /// Exited threads that were still referenced when entries were freed last.
    referenced: usize,
}

impl Threads {
    /// The index of a process.
    pub(crate) fn process(&mut self, pid: u32) -> u32 {
        let next = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let index = *self.process_by_pid.entry(pid).or_insert(next);
        if index == next {
            self.processes.push((pid, None));
        }
        index
    }

    /// The process's number in the kernel.
    pub(crate) fn pid(&self, process: u32) -> u32 {
        self.processes.get(process as usize).map_or(0, |p| p.0)
    }

    /// The process that it was forked from.
    pub(crate) fn parent(&self, process: u32) -> Option<u32> {
        self.processes.get(process as usize)?.1
    }

    /// How many processes there are.
    pub(crate) fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// A process was made by another.
    pub(crate) fn forked(&mut self, parent: u32, child_pid: u32, child_tid: u32) {
        let child = self.process(child_pid);
        if child != parent {
            self.processes[child as usize].1 = Some(parent);
        }
        let thread = self.of(child_tid, |_| child);
        self.list[thread as usize].process = child;
    }

    /// The thread ended: its number may be used again.
    pub(crate) fn release(&mut self, index: u32, time: u64) {
        let thread = &mut self.list[index as usize];
        if thread.exited.replace(time).is_none() {
            self.exited.push(index);
        }
        if self.by_tid.get(&thread.tid) == Some(&index) {
            self.by_tid.remove(&thread.tid);
        }
        self.latest = None;
    }

    /// Enough threads exited to search for entries to free.
    pub(crate) fn has_many_exited(&self) -> bool {
        self.exited.len() >= MAX_EXITED.max(2 * self.referenced)
    }

    /// Frees the entries of exited threads that neither `referenced` nor a running thread's `home` names.
    pub(crate) fn free(&mut self, mut referenced: FxHashSet<u32>) {
        let running = self.list.iter().filter(|thread| thread.exited.is_none());
        referenced.extend(running.filter_map(|thread| thread.home));
        self.free.extend(self.exited.extract_if(.., |index| !referenced.contains(index)));
        self.referenced = self.exited.len();
    }

    /// The thread of a record; one that was never introduced is of the process given.
    pub(crate) fn of(&mut self, tid: u32, process: impl FnOnce(&mut Self) -> u32) -> u32 {
        if let Some((latest, index)) = self.latest
            && latest == tid
        {
            return index;
        }
        let index = match self.by_tid.get(&tid) {
            Some(index) => *index,
            None => {
                let process = process(self);
                self.insert(tid, process)
            }
        };
        self.latest = Some((tid, index));
        index
    }

    /// The thread of that number, if it was seen.
    pub(crate) fn index(&self, tid: u32) -> Option<u32> {
        self.by_tid.get(&tid).copied()
    }

    /// Whether there is a process of that number.
    pub(crate) fn has_process(&self, pid: u32) -> bool {
        self.process_by_pid.contains_key(&pid)
    }

    /// The only thread that it was seen to compute for.
    pub(crate) fn home(&self, index: u32) -> Option<u32> {
        self.get(index).home.filter(|home| *home != SEVERAL)
    }

    pub(crate) fn get(&self, index: u32) -> &Thread {
        &self.list[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Thread {
        &mut self.list[index as usize]
    }

    /// Takes a record's number; gives the gap before it.
    pub(crate) fn count(&mut self, index: u32, header: &Header) -> Option<Gap> {
        let thread = &mut self.list[index as usize];
        if header.seq == 0 {
            return None; // Not in the thread's sequence.
        }
        let expected = thread.next_seq.unwrap_or(1);
        let records = header.seq.wrapping_sub(expected);
        let reordered = records >= REORDERED;
        let gap = Gap { from: thread.last_end, to: header.end, records, thread: Some(index) };
        if !reordered {
            thread.next_seq = Some(header.seq.wrapping_add(1));
        }
        thread.last_end = thread.last_end.max(header.end);
        (records > 0 && !reordered).then_some(gap)
    }

    fn insert(&mut self, tid: u32, process: u32) -> u32 {
        let thread = Thread {
            tid,
            process,
            next_seq: None,
            last_end: 0,
            last_operator: None,
            track: Track::default(),
            born: None,
            exited: None,
            cpus_allowed: None,
            home: None,
            given_until: None,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.list[index as usize] = thread;
                index
            }
            None => {
                self.list.push(thread);
                u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.by_tid.insert(tid, index);
        self.latest = None;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_exited_threads_are_reused_unless_something_refers_to_them() {
        let mut threads = Threads::default();
        let process = threads.process(1);
        let (pending, worker) = (threads.of(1, |_| process), threads.of(2, |_| process));
        let step_thread = threads.of(3, |_| process);
        threads.get_mut(worker).home = Some(step_thread);
        threads.release(pending, 10);
        threads.release(step_thread, 10);
        for tid in 100..1000 {
            let thread = threads.of(tid, |_| process);
            assert!(![pending, worker, step_thread].contains(&thread), "{tid}");
            assert_eq!((threads.get(thread).tid, threads.get(thread).exited), (tid, None));
            threads.release(thread, u64::from(tid));
            if threads.has_many_exited() {
                threads.free(FxHashSet::from_iter([pending]));
            }
        }
        assert!(threads.list.len() < 12, "{}", threads.list.len());
        assert_eq!((threads.get(pending).tid, threads.get(step_thread).tid), (1, 3));
    }
}
