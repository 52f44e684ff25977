//! What the probes cost the target: hits × the cost of one, by program.

use profinfer_compiler::Tier;

/// A trap whose cost no table has.
const UNKNOWN_TRAP_NS: f64 = 1000.0;
/// The trap of a return: `entry + return` less `entry` of the table that the costs are from.
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
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Costs {
    programs: Vec<ProgramCost>,
    /// Sites that were attached or detached.
    switched: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct ProgramCost {
    tier: Tier,
    with_return: bool,
    sites: u64,
    /// Of all sites, the entry.
    trap_ns: f64,
    runs: ProgramRuns,
}

impl Costs {
    /// For programs, of which one may or may not be hit at the return too.
    pub(crate) fn new(programs: impl Iterator<Item = (Tier, bool)>) -> Self {
        let new = |(tier, with_return)| ProgramCost {
            tier,
            with_return,
            sites: 0,
            trap_ns: 0.0,
            runs: ProgramRuns::default(),
        };
        Self { programs: programs.map(new).collect(), switched: 0 }
    }

    /// A program is at a place, whose entry costs so much by the table.
    pub(crate) fn add_site(&mut self, program: usize, trap_ns: Option<u32>) {
        if let Some(program) = self.programs.get_mut(program) {
            program.sites += 1;
            program.trap_ns += trap_ns.map_or(UNKNOWN_TRAP_NS, f64::from);
        }
    }

    /// So many sites were attached, or detached, while the target ran.
    pub(crate) fn switched(&mut self, sites: usize) {
        self.switched += sites as u64;
    }

    /// How often a program ran so far.
    pub(crate) fn ran(&mut self, program: usize, runs: ProgramRuns) {
        if let Some(program) = self.programs.get_mut(program) {
            program.runs = runs;
        }
    }

    /// What a run of a program costs; `None` where it has no site.
    pub(crate) fn of_run(&self, program: usize) -> Option<f64> {
        let program = self.programs.get(program).filter(|program| program.sites > 0)?;
        let hits = program.runs.hits.max(1) as f64;
        let none = ProgramCost { runs: ProgramRuns { hits: 1, run_ns: None }, ..program.clone() };
        Some(if program.runs.hits == 0 { none.ns() } else { program.ns() / hits })
    }

    /// What a span of a program is longer by: half a trap at its start, half at its end, and the program where the span's
    /// end is another's start. The one at a return runs after the end is taken. `None` where it has no site.
    pub(crate) fn of_span(&self, program: usize) -> Option<f64> {
        let of = self.programs.get(program).filter(|program| program.sites > 0)?;
        if of.with_return { Some(of.trap()) } else { self.of_run(program) }
    }

    /// What the programs of a tier cost so far, ns of all threads.
    pub(crate) fn of(&self, tier: Tier) -> f64 {
        let switching = if tier == Tier::Detail { self.switched as f64 * SWITCH_SITE_NS } else { 0.0 };
        self.programs.iter().filter(|program| program.tier == tier).map(ProgramCost::ns).sum::<f64>() + switching
    }
}

impl ProgramCost {
    /// The mean of its traps.
    fn trap(&self) -> f64 {
        let entry = if self.sites == 0 { UNKNOWN_TRAP_NS } else { self.trap_ns / self.sites as f64 };
        // A call is two runs.
        if self.with_return { f64::midpoint(entry, RETURN_NS) } else { entry }
    }

    fn ns(&self) -> f64 {
        let (hits, trap) = (self.runs.hits as f64, self.trap());
        let run = self.runs.run_ns.map_or(hits * RUN_NS, |ns| ns as f64 + hits * TELLING_NS);
        hits * trap + run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_costs_its_trap_and_its_run() {
        let mut costs = Costs::new([(Tier::Step, true), (Tier::Detail, false)].into_iter());
        costs.add_site(0, Some(620));
        costs.add_site(1, Some(600));
        costs.add_site(1, Some(800));
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
}
