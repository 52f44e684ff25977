//! Samples one by one, for formats that have their times.

use super::assign::{Key, Within};
use super::stacks::StackId;
use crate::ids::Phase;
use rustc_hash::FxHashMap;

/// Samples that are stored; others are counted only.
const MOST: usize = 1 << 23;

/// A sample, assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assigned {
    /// ns, CLOCK_MONOTONIC.
    pub time: u64,
    /// The thread.
    pub tid: u32,
    /// The process, as records number it; 0: unknown.
    pub pid: u32,
    /// The processor.
    pub cpu: u16,
    /// It interrupted the kernel.
    pub in_kernel: bool,
    /// The phase that it was in.
    pub phase: Phase,
    /// What it interrupted.
    pub within: Within,
    /// It was waiting for other lanes.
    pub waiting: bool,
    /// Where it was.
    pub stack: StackId,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    time: u64,
    tid: u32,
    pid: u32,
    key: u32,
    cpu: u16,
    in_kernel: bool,
}

/// Samples by what they have in common.
#[derive(Debug, Default)]
pub(super) struct Log {
    rows: Vec<Row>,
    keys: Vec<Key>,
    numbers: FxHashMap<Key, u32>,
    left_out: u64,
}

impl Log {
    pub(super) fn add(&mut self, key: Key, (time, tid): (u64, u32), (pid, cpu, in_kernel): (u32, u16, bool)) {
        if self.rows.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let key = *self.numbers.entry(key).or_insert_with(|| {
            self.keys.push(key);
            u32::try_from(self.keys.len() - 1).unwrap_or(u32::MAX)
        });
        self.rows.push(Row { time, tid, pid, key, cpu, in_kernel });
    }

    pub(super) fn each(&self) -> impl Iterator<Item = Assigned> {
        self.rows.iter().filter_map(|row| {
            let Key { phase, within, waiting, stack } = *self.keys.get(row.key as usize)?;
            let Row { time, tid, pid, cpu, in_kernel, .. } = *row;
            Some(Assigned { time, tid, pid, cpu, in_kernel, phase, within, waiting, stack })
        })
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
