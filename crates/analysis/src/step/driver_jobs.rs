//! Jobs that the kernel's driver ran, and the submissions that they belong to.

use super::offload_model::{DriverJob, JobSince, QueueEvent, Queued, Ran, Submission};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Calls that are searched for one that is open.
const MAX_OPEN: usize = 64;

/// Leaves out what is not the device's: fences of drivers with a scheduler are made and signalled beside its jobs. A job
/// that is only told from when it was made or emitted begins no earlier than the one before it in its ring ended.
pub(super) fn settle(queue: &mut Vec<QueueEvent>) {
    let is_of_scheduler = |event: &QueueEvent| event.job().is_some_and(|(job, _)| job.since == JobSince::Run);
    if queue.iter().any(is_of_scheduler) {
        queue.retain(|event| event.job().is_none() || is_of_scheduler(event));
        return;
    }
    let mut jobs: Vec<(u64, &mut DriverJob)> = Vec::new();
    for event in queue {
        if let Queued::Job(job) = &mut event.what {
            jobs.push((event.end, job));
        }
    }
    jobs.sort_by_key(|(end, _)| *end);
    let mut last: FxHashMap<[Option<Arc<str>>; 2], u64> = FxHashMap::default();
    for (end, job) in jobs {
        let before = last.entry([job.driver.clone(), job.ring.clone()]).or_default();
        job.start = job.start.max(*before).min(end);
        *before = end;
    }
}

/// Gives each submission the jobs that were given to the driver while it was called: on its thread, or, where no such
/// call is open, since the process's last one.
pub(super) fn assign(queue: &[QueueEvent], submissions: &mut [Submission], threads: &[u32]) {
    let mut jobs: Vec<(&DriverJob, &QueueEvent)> =
        queue.iter().filter_map(|event| Some((event.job()?.0, event))).collect();
    jobs.sort_by_key(|(job, _)| job.start);
    for (job, QueueEvent { tid, end, .. }) in jobs {
        // In the order of their starts.
        let begun = submissions.partition_point(|of| of.start <= job.queued);
        let mut called = (begun.saturating_sub(MAX_OPEN)..begun).rev().filter(|at| job.queued <= submissions[*at].end);
        let found = called.clone().find(|at| threads.get(*at) == Some(tid)).or_else(|| called.next());
        // A driver can have a thread of its own for what is submitted.
        let before = || begun.checked_sub(1).filter(|_| !threads.contains(tid));
        let Some(at) = found.or_else(before) else { continue };
        let ran = &mut submissions[at].ran;
        *ran = Some(match *ran {
            None => Ran { start: job.start, end: *end, busy: end - job.start, jobs: 1, since: job.since },
            Some(ran) => Ran {
                start: ran.start,
                end: ran.end.max(*end),
                // In the order of their starts.
                busy: ran.busy + end.saturating_sub(job.start.max(ran.end)),
                jobs: ran.jobs.saturating_add(1),
                since: ran.since.max(job.since),
            },
        });
    }
}
