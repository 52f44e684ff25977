//! Which thread belongs to which process, how far each has come, and where its numbering has gaps.

use super::fields::Header;
use super::hash::FastMap;
use super::states::Track;

/// Sequence numbers that are this far back are reordered records, not a gap.
const REORDERED: u32 = 1 << 31;

/// One thread.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    /// Number in the kernel.
    pub(super) tid: u32,
    /// Index of its process.
    pub(super) process: u32,
    /// The sequence number that its next record should have.
    next_seq: Option<u32>,
    /// End of its latest record, ns.
    pub(super) last_end: u64,
    /// End of its latest operator, ns; `None` where it had none.
    pub(super) last_operator: Option<u64>,
    /// What it does.
    pub(super) track: Track,
    /// When it was made, ns; `None` where it was there before the recording.
    pub(super) born: Option<u64>,
    /// When it ended, ns.
    pub(super) exited: Option<u64>,
    /// Cpus that it may run on, as far as was said.
    pub(super) cpus_allowed: Option<u32>,
    /// The thread whose graphs its operators were last seen in without doubt.
    pub(super) home: Option<u32>,
}

/// Records of a thread that are not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    /// ns: the end of the last record before.
    pub(super) from: u64,
    /// ns: the end of the first record after.
    pub(super) to: u64,
    /// How many.
    pub(super) records: u32,
    /// The thread; `None` where gaps of several were taken together.
    pub(super) thread: Option<u32>,
}

/// Every thread of a trace. A number that is used again after its thread ended is another thread.
#[derive(Debug, Default)]
pub(super) struct Threads {
    list: Vec<Thread>,
    by_tid: FastMap<u32, u32>,
    process_by_pid: FastMap<u32, u32>,
    /// Process numbers, and the processes they were forked from.
    processes: Vec<(u32, Option<u32>)>,
    latest: Option<(u32, u32)>,
}

impl Threads {
    /// The index of a process.
    pub(super) fn process(&mut self, pid: u32) -> u32 {
        let next = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let index = *self.process_by_pid.entry(pid).or_insert(next);
        if index == next {
            self.processes.push((pid, None));
        }
        index
    }

    /// The process's number in the kernel.
    pub(super) fn pid(&self, process: u32) -> u32 {
        self.processes.get(process as usize).map_or(0, |p| p.0)
    }

    /// The process that it was forked from.
    pub(super) fn parent(&self, process: u32) -> Option<u32> {
        self.processes.get(process as usize)?.1
    }

    /// How many processes there are.
    pub(super) fn process_count(&self) -> usize {
        self.processes.len()
    }

    /// A process was made by another.
    pub(super) fn forked(&mut self, parent: u32, child_pid: u32, child_tid: u32) {
        let child = self.process(child_pid);
        if child != parent {
            self.processes[child as usize].1 = Some(parent);
        }
        let thread = self.of(child_tid, |_| child);
        self.list[thread as usize].process = child;
    }

    /// The thread ended: its number may be used again.
    pub(super) fn release(&mut self, index: u32, time: u64) {
        let thread = &mut self.list[index as usize];
        thread.exited = Some(time);
        if self.by_tid.get(&thread.tid) == Some(&index) {
            self.by_tid.remove(&thread.tid);
        }
        self.latest = None;
    }

    /// The thread of a record; one that was never introduced is of the process given.
    pub(super) fn of(&mut self, tid: u32, process: impl FnOnce(&mut Self) -> u32) -> u32 {
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

    /// The thread of that number, if it is known.
    pub(super) fn index(&self, tid: u32) -> Option<u32> {
        self.by_tid.get(&tid).copied()
    }

    /// Whether there is a process of that number.
    pub(super) fn has_process(&self, pid: u32) -> bool {
        self.process_by_pid.contains_key(&pid)
    }

    pub(super) fn get(&self, index: u32) -> &Thread {
        &self.list[index as usize]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut Thread {
        &mut self.list[index as usize]
    }

    /// Takes a record's number; gives the gap before it.
    pub(super) fn count(&mut self, index: u32, header: &Header) -> Option<Gap> {
        let thread = &mut self.list[index as usize];
        if header.seq == 0 {
            return None; // Not a record of the thread's own.
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
        let index = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let next_seq = None;
        self.list.push(Thread {
            tid,
            process,
            next_seq,
            last_end: 0,
            last_operator: None,
            track: Track::default(),
            born: None,
            exited: None,
            cpus_allowed: None,
            home: None,
        });
        self.by_tid.insert(tid, index);
        self.latest = None;
        index
    }
}
