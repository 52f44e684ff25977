//! Threads that are bound to a processor each, and that do one thing at a time all together.

use super::kernels::{GRAIN, Page, Peak, Sweep};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// What a thread is to do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job {
    /// Go over a range of its memory, from the one page to the other, this many times.
    Sweep(Sweep, usize, usize, u64),
    /// So many rounds of arithmetic.
    Peak(Peak, u64),
}

/// How it went, over all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    /// From the first thread's start to the last one's end.
    pub(super) elapsed: Duration,
    /// The most processor time that a thread took.
    pub(super) busiest: Duration,
    /// Of the threads' time, the part that they did not run.
    pub(super) off_cpu: f64,
}

/// One thread's share of it.
struct Timed {
    start: Instant,
    end: Instant,
    cpu: Duration,
}

/// The threads.
pub(super) struct Workers {
    jobs: Vec<Sender<Job>>,
    done: Receiver<io::Result<Timed>>,
}

impl Workers {
    /// Starts one thread on each processor; each allocates its pages, so that they are in the memory next to it.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        cpus: &[u32],
        pages: usize,
        arrived: &'scope AtomicU64,
    ) -> io::Result<Self> {
        arrived.store(0, Ordering::SeqCst);
        let (report, done) = channel();
        let mut jobs = Vec::new();
        for cpu in cpus {
            let (sender, receiver) = channel();
            let (report, cpu, all) = (report.clone(), *cpu, cpus.len() as u64);
            let thread = std::thread::Builder::new().name(format!("roofline-{cpu}"));
            thread.spawn_scoped(scope, move || {
                let prepared = prepare(cpu, pages);
                let told = report.send(prepared.as_ref().map(|_| Timed::nothing()).map_err(copied));
                if let (Ok(mut pages), Ok(())) = (prepared, told) {
                    work(&receiver, &report, &mut pages, arrived, all);
                }
            })?;
            jobs.push(sender);
        }
        let workers = Self { jobs, done };
        // All of them have their memory before anything is measured.
        workers.gather()?;
        Ok(workers)
    }

    /// Has all threads do a thing at the same time.
    pub(super) fn run(&self, job: Job) -> io::Result<Run> {
        for sender in &self.jobs {
            sender.send(job).map_err(|_| io::Error::other("a thread ended"))?;
        }
        let timed = self.gather()?;
        let (start, end) = (timed.iter().map(|t| t.start).min(), timed.iter().map(|t| t.end).max());
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end.saturating_duration_since(start));
        let sum = |of: fn(&Timed) -> Duration| timed.iter().map(of).sum::<Duration>().as_secs_f64();
        let (wall, cpu) = (sum(|t| t.end.saturating_duration_since(t.start)), sum(|t| t.cpu));
        let busiest = timed.iter().map(|t| t.cpu).max().unwrap_or_default();
        Ok(Run { elapsed, busiest, off_cpu: if wall > 0.0 { (1.0 - cpu / wall).clamp(0.0, 1.0) } else { 0.0 } })
    }

    fn gather(&self) -> io::Result<Vec<Timed>> {
        let one = |_| self.done.recv().map_err(|_| io::Error::other("a thread ended"))?;
        (0..self.jobs.len()).map(one).collect()
    }
}

impl Timed {
    fn nothing() -> Self {
        let now = Instant::now();
        Self { start: now, end: now, cpu: Duration::ZERO }
    }
}

/// The same error once more.
fn copied(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Binds this thread to a processor, and takes memory, which is touched by being filled.
fn prepare(cpu: u32, count: usize) -> io::Result<Vec<Page>> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    let mut pages = Vec::new();
    pages.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
    pages.resize(count, Page::EMPTY);
    Ok(pages)
}

fn work(
    jobs: &Receiver<Job>,
    report: &Sender<io::Result<Timed>>,
    pages: &mut [Page],
    arrived: &AtomicU64,
    threads: u64,
) {
    for (number, job) in (1..).zip(jobs) {
        wait_for_all(arrived, number * threads);
        let (cpu, start) = (cpu_time(), Instant::now());
        match job {
            Job::Sweep(sweep, from, to, passes) => {
                let stretch = pages.get_mut(from..to).unwrap_or_default();
                std::hint::black_box(sweep.run(stretch, passes));
            }
            Job::Peak(peak, rounds) => {
                std::hint::black_box(peak.run(rounds));
            }
        }
        let end = Instant::now();
        if report.send(Ok(Timed { start, end, cpu: cpu_time().saturating_sub(cpu) })).is_err() {
            return;
        }
    }
}

/// Returns in all threads within a moment, once all of them are here: a thread that sleeps would start late. Where one
/// cannot come because others run, the rest yield now and then.
fn wait_for_all(arrived: &AtomicU64, until: u64) {
    arrived.fetch_add(1, Ordering::SeqCst);
    let mut turns = 0u32;
    while arrived.load(Ordering::SeqCst) < until {
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(4096) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// This thread's processor time.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// The number of pages of that many bytes, at least one.
pub(super) fn pages(bytes: u64) -> usize {
    usize::try_from(bytes / GRAIN as u64).unwrap_or(usize::MAX).max(1)
}
