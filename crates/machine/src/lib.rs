//! What this machine can do at most: bandwidth of its caches and its memory, and its peaks of arithmetic, each measured
//! several times with one thread a processor. See `docs/roofline.md`. It is independent of probes and
//! no traces beyond the type of its result.

mod capacity;
mod file;
mod kernels;
mod machine;
mod memory;
mod schedule;
mod workers;

pub use file::SavedLimits;

use kernels::{GRAIN, Peak, Sweep, peaks, sweeps};
use machine::Machine;
use profinfer_diagnostics::{Code, Diagnostic};
use profinfer_schema::{CacheSize, Figure, Host, Level, Quantity, Roofline};
use schedule::{Thoroughness, groups, least_memory_bytes, memory_bytes, resident_bytes};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use workers::{Job, Run, Workers, pages};

/// Time that others may take from the threads, in percent, before the figures are marked as doubtful.
const QUIET_PERCENT: u32 = 2;
/// Stretches that memory is gone over in, each timed by itself: a short one is more likely to be undisturbed. All others
/// are gone over before one is again.
const STRETCHES: usize = 8;

/// Bytes of memory that this process may still have: the machine's, or its control groups' where that is less.
pub fn available_memory() -> Option<u64> {
    memory::available_memory(Path::new("/"))
}

/// Bytes of memory that this process's control groups allow it; `None` where there is no limit.
pub fn memory_limit() -> Option<u64> {
    memory::memory_limit(Path::new("/"))
}

/// Measures, with no privilege: in a second or two where it must be `quick`, else in some twenty.
///
/// # Errors
/// R029: threads cannot be started or bound to processors, or there is no memory for them.
pub fn measure(host: &Host, quick: bool) -> Result<Roofline, Diagnostic> {
    measure_so(host, if quick { Thoroughness::QUICK } else { Thoroughness::WHOLE }, groups)
}

/// Measures in about a second: fewer groups of processors, less memory, fewer repetitions.
///
/// # Errors
/// As [`measure`].
pub fn measure_briefly(host: &Host) -> Result<Roofline, Diagnostic> {
    measure_so(host, Thoroughness::BRIEF, schedule::few)
}

/// Others took so much of the processors meanwhile that the figures may be too low.
pub fn is_noisy(limits: &Roofline) -> bool {
    limits.figures.iter().any(|figure| figure.off_cpu_percent > QUIET_PERCENT)
}

fn measure_so(
    host: &Host,
    thoroughness: Thoroughness,
    groups: fn(&Machine) -> Vec<Vec<u32>>,
) -> Result<Roofline, Diagnostic> {
    let mut machine = Machine::of_this(Path::new("/"));
    let has = |feature: &str| machine.has(feature);
    let loops = Loops { sweeps: sweeps(&has), peaks: peaks(&has) };
    if let (Some(cpu), Some(read)) = (machine.cpus.first().copied(), loops.read())
        && let Some(bytes) = capacity::usable(&machine, cpu, read).map_err(|error| cannot(1, &error))?
    {
        machine.restrict_last_cache(cpu, bytes);
    }
    let groups = groups(&machine);
    let time = thoroughness.total / u32::try_from(groups.len()).unwrap_or(u32::MAX).max(1);
    let mut figures = Vec::new();
    for cpus in &groups {
        let of_group = measure_group(&machine, cpus, &loops, &thoroughness, time);
        figures.extend(of_group.map_err(|error| cannot(cpus.len(), &error))?);
    }
    figures.sort_by_key(|figure| (figure.quantity, figure.level, figure.cpus));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Roofline {
        measured_at: now.as_secs(),
        quick: thoroughness.total < Thoroughness::WHOLE.total,
        cpus: u32::try_from(machine.cpus.len()).unwrap_or(u32::MAX),
        notes: notes(&machine, host, &figures),
        core_types: machine.core_types,
        caches: machine.caches,
        figures,
    })
}

fn cannot(cpus: usize, error: &std::io::Error) -> Diagnostic {
    let message = format!("cannot measure the machine's limits on {cpus} CPUs: {error}");
    Diagnostic::error(Code::CannotMeasure, message).hint("free memory, or use fewer CPUs with taskset")
}

/// All loops that the machine's processors can run and that are worth it.
struct Loops {
    sweeps: Vec<Sweep>,
    peaks: Vec<Peak>,
}

impl Loops {
    fn read(&self) -> Option<&Sweep> {
        self.sweeps.iter().find(|sweep| sweep.quantity == Quantity::Read)
    }
}

/// One figure in the making.
struct Task {
    figure: Figure,
    what: Workload,
    /// Passes or rounds that take long enough to be timed.
    times: u64,
    rates: Vec<u64>,
    off_cpu: f64,
}

/// The repeated work, with the number of pages that each thread passes over at a time.
#[derive(Clone, Copy)]
enum Workload {
    /// Data that stays in a cache.
    Resident(Sweep, usize),
    /// Data that does not: `STRETCHES` parts of that many pages, one after the other.
    Memory(Sweep, usize),
    Peak(Peak),
}

impl Task {
    fn new(quantity: Quantity, level: Option<Level>, instructions: &str, what: Workload) -> Self {
        let figure = Figure {
            quantity,
            level,
            cpus: 0,
            core_type: None,
            instructions: instructions.to_owned(),
            working_set: 0,
            repetitions: 0,
            best: 0,
            median: 0,
            low: 0,
            high: 0,
            off_cpu_percent: 0,
        };
        Self { figure, what, times: 1, rates: Vec::new(), off_cpu: 0.0 }
    }

    /// The n-th repetition in a row: each passes over another part of the memory.
    fn job(&self, number: usize) -> Job {
        match self.what {
            Workload::Resident(sweep, pages) => Job::Sweep(sweep, 0, pages, self.times),
            Workload::Memory(sweep, pages) => {
                let stretch = number % STRETCHES * pages;
                Job::Sweep(sweep, stretch, stretch + pages, 1)
            }
            Workload::Peak(peak) => Job::Peak(peak, self.times),
        }
    }

    /// What one thread does in one pass or round: bytes, or operations.
    fn amount(&self) -> u64 {
        match self.what {
            Workload::Resident(_, pages) | Workload::Memory(_, pages) => pages as u64 * GRAIN as u64,
            Workload::Peak(peak) => peak.operations,
        }
    }

    /// Finds how often it must be done to take so long. It also fills the caches and wakes the processors up. Time
    /// that others take does not count.
    fn calibrate(&mut self, workers: &Workers, long: Duration) -> std::io::Result<()> {
        if matches!(self.what, Workload::Memory(..)) {
            return Ok(());
        }
        while self.times < u64::MAX / 32 {
            let mut took = Duration::MAX;
            for _ in 0..3 {
                took = took.min(workers.run(self.job(0))?.busiest);
            }
            if took >= long / 2 {
                break;
            }
            let factor = (long.as_secs_f64() / took.as_secs_f64().max(1e-9)).clamp(2.0, 16.0);
            self.times = (self.times as f64 * factor) as u64;
        }
        Ok(())
    }

    /// Some repetitions in a row. The first one does not count: it finds in the caches what another loop left there.
    fn repeat(&mut self, workers: &Workers, threads: u64) -> std::io::Result<()> {
        for number in 0..STRETCHES {
            let run = workers.run(self.job(number))?;
            if number > 0 {
                self.note(run, threads);
            }
        }
        Ok(())
    }

    fn note(&mut self, run: Run, threads: u64) {
        let seconds = run.elapsed.as_secs_f64();
        if seconds > 0.0 {
            let amount = self.amount() as f64 * self.times as f64 * threads as f64;
            self.rates.push((amount / seconds) as u64);
            self.off_cpu += run.off_cpu;
        }
    }

    fn finish(mut self, cpus: usize, core_type: Option<&str>) -> Option<Figure> {
        self.rates.sort_unstable();
        let rates = &self.rates;
        let at = |quarters: usize| rates.get((rates.len().saturating_sub(1) * quarters + 2) / 4).copied();
        let working_set = match self.what {
            Workload::Resident(..) => self.amount().saturating_mul(cpus as u64),
            Workload::Memory(..) => self.amount().saturating_mul(cpus as u64).saturating_mul(STRETCHES as u64),
            Workload::Peak(_) => 0,
        };
        Some(Figure {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            core_type: core_type.map(str::to_owned),
            working_set,
            repetitions: u32::try_from(rates.len()).unwrap_or(u32::MAX),
            best: *rates.last()?,
            median: at(2)?,
            low: at(1)?,
            high: at(3)?,
            off_cpu_percent: (100.0 * self.off_cpu / rates.len() as f64).round() as u32,
            ..self.figure
        })
    }
}

/// Everything with one thread on each of these processors. Some repetitions of each figure after those of the other,
/// over and over: what disturbs for a while then disturbs a few repetitions of all, and not all of one.
fn measure_group(
    machine: &Machine,
    cpus: &[u32],
    loops: &Loops,
    thoroughness: &Thoroughness,
    time: Duration,
) -> std::io::Result<Vec<Figure>> {
    let started = Instant::now();
    let arrived = AtomicU64::new(0);
    let least = least_memory_bytes(machine, cpus);
    let bytes = memory_bytes(machine, cpus).min(thoroughness.memory.max(least));
    let each = pages(bytes / cpus.len().max(1) as u64).next_multiple_of(STRETCHES);
    let mut tasks = tasks(machine, cpus, loops, (each, bytes >= least));
    std::thread::scope(|scope| {
        let workers = Workers::start(scope, cpus, each, &arrived)?;
        for task in &mut tasks {
            task.calibrate(&workers, thoroughness.repetition)?;
        }
        let mut round = 0;
        while round < thoroughness.least || (round < thoroughness.most && started.elapsed() < time) {
            for task in &mut tasks {
                task.repeat(&workers, cpus.len() as u64)?;
            }
            round += 1;
        }
        let core_type = machine.core_type(cpus);
        Ok(tasks.into_iter().filter_map(|task| task.finish(cpus.len(), core_type)).collect())
    })
}

/// `has_memory`: these pages are enough to tell memory from caches. Where they are not, there is no figure of memory.
fn tasks(machine: &Machine, cpus: &[u32], loops: &Loops, (memory_pages, has_memory): (usize, bool)) -> Vec<Task> {
    let sweep = |sweep: &Sweep, level, what| Task::new(sweep.quantity, Some(level), sweep.instructions, what);
    let stretch = (memory_pages / STRETCHES).max(1);
    let of_memory = loops.sweeps.iter().filter(|_| has_memory);
    let memory = of_memory.map(|of| sweep(of, Level::Memory, Workload::Memory(*of, stretch)));
    let read = loops.read();
    let resident = resident_bytes(machine, cpus);
    let resident = resident.iter().filter_map(|(level, bytes)| {
        let pages = pages(*bytes);
        (pages <= memory_pages).then(|| read.map(|read| sweep(read, *level, Workload::Resident(*read, pages))))?
    });
    let peaks = loops.peaks.iter().map(|peak| Task::new(peak.quantity, None, peak.instructions, Workload::Peak(*peak)));
    memory.chain(resident).chain(peaks).collect()
}

/// What a reader has to know of the figures.
fn notes(machine: &Machine, host: &Host, figures: &[Figure]) -> Vec<String> {
    let mut notes = Vec::new();
    if machine.cpus.len() < host.cpus as usize {
        notes.push(format!(
            "Measured on {} of {} CPUs: this process may not use the others.",
            machine.cpus.len(),
            host.cpus
        ));
    }
    if machine.has("hypervisor") {
        notes.push(
            "This is a virtual machine: others may use the same memory, and reported cache sizes may be wrong.".into(),
        );
    }
    if let Some(CacheSize { level, bytes, usable_bytes: Some(usable), .. }) = machine.caches.last() {
        let [usable, bytes] = [usable, bytes].map(|bytes| bytes >> 20);
        notes.push(format!("Data of {usable} MiB stays in the L{level} cache, which is reported as {bytes} MiB."));
    }
    let last = machine.caches.last().map_or(0, CacheSize::usable);
    let small = figures.iter().filter(|figure| figure.level == Some(Level::Memory)).map(|figure| figure.working_set);
    if small.min().is_some_and(|bytes| bytes < last.saturating_mul(4)) {
        notes.push("Too little memory was free to exceed the caches: memory figures partly measure the caches.".into());
    }
    let taken = figures.iter().map(|figure| figure.off_cpu_percent).max().unwrap_or(0);
    if taken > QUIET_PERCENT {
        notes.push(format!(
            "Other processes used up to {taken} % of CPU time during the measurement: the real limits are higher."
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(rates: &[u64]) -> Task {
        let peak = peaks(&|_| false)[0];
        Task { rates: rates.to_vec(), off_cpu: 0.5, ..Task::new(Quantity::Fp32, None, "x", Workload::Peak(peak)) }
    }

    #[test]
    fn a_figure_is_its_repetitions_quarters() {
        let figure = task(&[5, 1, 3, 2, 4]).finish(2, None).unwrap();
        assert_eq!((figure.best, figure.median, figure.low, figure.high), (5, 3, 2, 4));
        assert_eq!((figure.cpus, figure.repetitions, figure.off_cpu_percent), (2, 5, 10));
        let one = task(&[7]).finish(1, None).unwrap();
        assert_eq!([one.best, one.median, one.low, one.high], [7; 4]);
        assert!(task(&[]).finish(1, None).is_none(), "what was not measured is no figure");
    }

    #[test]
    fn what_makes_figures_doubtful_is_said() {
        let machine = Machine::of_this(Path::new("/nonexistent"));
        let host = Host { cpus: 4, ..Host::default() };
        let mut figure = task(&[1]).finish(1, None).unwrap();
        figure.off_cpu_percent = 30;
        let text = notes(&machine, &host, &[figure]).join("\n");
        assert!(text.contains("on 1 of 4 CPUs") && text.contains("up to 30 %"), "{text}");
        assert_eq!(notes(&machine, &Host { cpus: 1, ..host }, &[]), Vec::<String>::new());
    }

    /// The one measurement of the unit tests: it takes some seconds.
    #[test]
    fn this_machine_has_limits() {
        let host = Host { cpus: 1, ..Host::default() };
        let measured = measure(&host, true).unwrap();
        let best = |quantity, level| measured.of_all_cpus(quantity, level).map_or(0, |figure| figure.best);
        for quantity in [Quantity::Read, Quantity::Write, Quantity::WriteStreaming, Quantity::Copy] {
            let rate = best(quantity, Some(Level::Memory));
            assert!((100_000_000..100_000_000_000_000).contains(&rate), "{quantity:?}: {rate}");
        }
        for quantity in [Quantity::Fp64, Quantity::Fp32] {
            assert!(best(quantity, None) > 100_000_000, "{measured:?}");
        }
        for figure in &measured.figures {
            assert!(figure.low <= figure.median && figure.median <= figure.high && figure.high <= figure.best);
            assert!(figure.repetitions >= 3 && figure.cpus <= measured.cpus);
        }
        // Half as many of twice the width; a machine that stands still now and then shows more, or less.
        let whole = best(Quantity::Fp64, None) as f64 / best(Quantity::Fp32, None) as f64;
        assert!((0.1..2.0).contains(&whole), "half as many of twice the width: {whole}");
    }
}
