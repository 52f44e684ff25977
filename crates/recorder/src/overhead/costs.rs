//! What the probes cost the target: hits × the cost of one, by program.

use crate::calibrate::COMMON;
use profinfer_compiler::{CostTable, Tier};

/// A trap whose cost no table has.
const UNKNOWN_TRAP_NS: f64 = 1000.0;
/// The trap of a return, where the table does not have it.
const RETURN_NS: f64 = 480.0;
/// The run of a program, with the record that every second one writes, where the kernel does not tell.
const RUN_NS: f64 = 300.0;
/// What the kernel's telling takes at each run.
const TELLING_NS: f64 = 40.0;
/// Attaching or detaching one site: the instruction is written, and the target's processors told. No more was seen.
const SWITCH_SITE_NS: f64 = 2_000.0;

/// How often a program ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ProgramRuns {
    /// Entries and returns together.
    pub(crate) hits: u64,
    /// The time that the program itself took, where the kernel tells; without the trap.
    pub(crate) run_ns: Option<u64>,
}

/// What programs cost.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Costs {
    programs: Vec<ProgramCost>,
    traps: Traps,
    /// Sites that were attached or detached.
    switched: u64,
}

/// What the table has that is no site's, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Traps {
    /// Where the first instruction is emulated.
    entry_ns: f64,
    return_ns: f64,
    /// What a span contains of these two.
    span_ns: f64,
}

impl Traps {
    fn of(table: &CostTable) -> Self {
        let entry = table.ns.get(&COMMON).map_or(UNKNOWN_TRAP_NS, |ns| f64::from(*ns));
        let returns = table.return_ns.map_or(RETURN_NS, f64::from);
        // Half of each, where it was not measured.
        let span_ns = table.span_ns.map_or(f64::midpoint(entry, returns), f64::from);
        Self { entry_ns: entry, return_ns: returns, span_ns }
    }
}

/// A sum, and of how many.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Mean {
    sum: f64,
    of: u64,
}

impl Mean {
    fn add(&mut self, value: f64, times: u64) {
        self.sum += value * times as f64;
        self.of += times;
    }

    fn value(self) -> Option<f64> {
        (self.of > 0).then(|| self.sum / self.of as f64)
    }
}

#[derive(Debug, Clone, PartialEq)]
struct ProgramCost {
    tier: Tier,
    with_return: bool,
    /// Entries' traps at its sites, ns: of as many as there are sites, and of as many as there are records.
    site_traps: Mean,
    record_traps: Mean,
    runs: ProgramRuns,
}

impl Costs {
    /// For programs, of which one may or may not be hit at the return too.
    pub(crate) fn new(programs: impl Iterator<Item = (Tier, bool)>, table: &CostTable) -> Self {
        let new = |(tier, with_return)| ProgramCost {
            tier,
            with_return,
            site_traps: Mean::default(),
            record_traps: Mean::default(),
            runs: ProgramRuns::default(),
        };
        Self { programs: programs.map(new).collect(), traps: Traps::of(table), switched: 0 }
    }

    /// All sites: each one's program, what its entry costs by the table, and how many records it has so far.
    pub(crate) fn at_sites(&mut self, sites: impl Iterator<Item = (usize, Option<u32>, u64)>) {
        for program in &mut self.programs {
            (program.site_traps, program.record_traps) = Default::default();
        }
        for (program, trap_ns, records) in sites {
            let Some(program) = self.programs.get_mut(program) else { continue };
            let trap_ns = trap_ns.map_or(UNKNOWN_TRAP_NS, f64::from);
            program.site_traps.add(trap_ns, 1);
            program.record_traps.add(trap_ns, records);
        }
    }

    /// So many sites were attached, or detached, while the target ran.
    pub(crate) fn switched(&mut self, sites: usize) {
        self.switched += sites as u64;
    }

    /// How many sites were so far.
    pub(crate) fn switches(&self) -> u64 {
        self.switched
    }

    /// Those beyond a number cost nothing.
    pub(crate) fn forget_switches(&mut self, beyond: u64) {
        self.switched = self.switched.min(beyond);
    }

    /// How often a program ran so far.
    pub(crate) fn ran(&mut self, program: usize, runs: ProgramRuns) {
        if let Some(program) = self.programs.get_mut(program) {
            program.runs = runs;
        }
    }

    /// What a run of a program costs; `None` where it has no site.
    pub(crate) fn of_run(&self, program: usize) -> Option<f64> {
        let program = self.programs.get(program).filter(|program| program.site_traps.of > 0)?;
        let hits = program.runs.hits.max(1) as f64;
        let none = ProgramCost { runs: ProgramRuns { hits: 1, run_ns: None }, ..program.clone() };
        let returns = self.traps.return_ns;
        Some(if program.runs.hits == 0 { none.ns(returns) } else { program.ns(returns) / hits })
    }

    /// What a span of a program is longer by: what comes after the entry's program and before that of its end. `None` where
    /// it has no site.
    pub(crate) fn of_span(&self, program: usize) -> Option<f64> {
        let of = self.programs.get(program).filter(|program| program.site_traps.of > 0)?;
        let entry = of.entry();
        // It ends at another entry.
        if !of.with_return {
            return Some(entry);
        }
        let more = entry - self.traps.entry_ns;
        // An instruction is stepped after the program; a trap that is cheaper is so on both sides of it.
        Some((self.traps.span_ns + if more > 0.0 { more } else { more / 2.0 }).max(0.0))
    }

    /// What the programs of a tier cost so far, ns of all threads.
    pub(crate) fn of(&self, tier: Tier) -> f64 {
        let switching = if tier == Tier::Detail { self.switched as f64 * SWITCH_SITE_NS } else { 0.0 };
        self.programs
            .iter()
            .filter(|program| program.tier == tier)
            .map(|program| program.ns(self.traps.return_ns))
            .sum::<f64>()
            + switching
    }
}

impl ProgramCost {
    /// The trap of an entry: the mean of the records, whose sites may be few of all. Of the sites where there is no record.
    fn entry(&self) -> f64 {
        self.record_traps.value().or_else(|| self.site_traps.value()).unwrap_or(UNKNOWN_TRAP_NS)
    }

    fn ns(&self, return_ns: f64) -> f64 {
        // A call is two runs.
        let trap = if self.with_return { f64::midpoint(self.entry(), return_ns) } else { self.entry() };
        let hits = self.runs.hits as f64;
        let run = self.runs.run_ns.map_or(hits * RUN_NS, |ns| ns as f64 + hits * TELLING_NS);
        hits * trap + run
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_compiler::InstructionKind;

    fn table(span_ns: Option<u32>) -> CostTable {
        let ns = [(COMMON, 620), (InstructionKind::Stepped, 9000)].into();
        let (return_ns, record_ns) = (Some(480), None);
        CostTable {
            source: String::new(),
            ns,
            return_ns,
            span_ns,
            record_ns,
            nop5_writes_stack: false,
            built_in: false,
        }
    }

    #[test]
    fn a_hit_costs_its_trap_and_its_run() {
        let mut costs = Costs::new([(Tier::Step, true), (Tier::Detail, false)].into_iter(), &table(None));
        costs.at_sites([(0, Some(620), 10), (1, Some(600), 0), (1, Some(800), 0)].into_iter());
        costs.ran(0, ProgramRuns { hits: 20, run_ns: None });
        costs.ran(1, ProgramRuns { hits: 100, run_ns: Some(50_000) });
        assert!((costs.of(Tier::Step) - 20.0 * (550.0 + RUN_NS)).abs() < 1e-6);
        assert!((costs.of(Tier::Detail) - (100.0 * (700.0 + TELLING_NS) + 50_000.0)).abs() < 1e-6);
        assert!(costs.of(Tier::Graph).abs() < 1e-9);
        costs.switched(3);
        assert!(
            (costs.of(Tier::Detail) - (100.0 * (700.0 + TELLING_NS) + 50_000.0 + 3.0 * SWITCH_SITE_NS)).abs() < 1e-6
        );
    }

    #[test]
    fn a_trap_is_that_of_the_sites_that_are_hit() {
        let mut costs = Costs::new([(Tier::Detail, false)].into_iter(), &table(None));
        let hit = |records: [u64; 2]| [(0, Some(600), records[0]), (0, Some(9000), records[1])].into_iter();
        let mut of_run = |records: [u64; 2]| {
            costs.at_sites(hit(records));
            costs.of_run(0).unwrap() - RUN_NS
        };
        assert!((of_run([0, 0]) - 4800.0).abs() < 1e-6, "nothing was hit yet: {}", of_run([0, 0]));
        assert!((of_run([0, 50]) - 9000.0).abs() < 1e-6, "{}", of_run([0, 50]));
        assert!((of_run([90, 10]) - 1440.0).abs() < 1e-6, "{}", of_run([90, 10]));
    }

    #[test]
    fn a_span_contains_what_is_between_its_programs() {
        let span = |span_ns: Option<u32>, entry: u32| {
            let mut costs = Costs::new([(Tier::Detail, true)].into_iter(), &table(span_ns));
            costs.at_sites([(0, Some(entry), 0)].into_iter());
            costs.of_span(0).unwrap()
        };
        assert!((span(None, 620) - 550.0).abs() < 1e-6, "half a trap at each end");
        assert!((span(Some(640), 620) - 640.0).abs() < 1e-6);
        assert!((span(Some(640), 9000) - 9020.0).abs() < 1e-6, "stepping comes after the program");
        assert!((span(Some(640), 480) - 570.0).abs() < 1e-6);
    }
}
