//! Estimates the overhead of a placement's probes per step: hits per step in a trace, times the cost of a hit in
//! the cost table.

use super::trace_file;
use profinfer_analysis::{Catalogue, Decoder, Phase, Rules, Step, Timeline, Visitor};
use profinfer_compiler::{CostTable, PlacedSite, Placement, ProbePlan, ProgramKind};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_trace::Item;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A site of another placement is the same by its probes, function and captures: builds differ in addresses.
type SiteKey = (Vec<String>, String, Vec<String>);

/// The hits in a trace.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Durations of steps, ns, sorted.
    steps: Vec<u64>,
    /// By site, then thread. Sites of the trace that had none are there too.
    hits: HashMap<SiteKey, BTreeMap<u32, u64>>,
}

/// What the probes are expected to cost.
#[derive(Debug)]
pub(crate) struct Expected {
    /// For each site: hits and microseconds per step; `None` if the trace has no hits of it.
    pub(crate) sites: Vec<Option<(f64, Option<f64>)>>,
    /// Microseconds a step, all threads together.
    total_us: f64,
    /// The same of the thread that has the most.
    busiest_us: f64,
    steps: usize,
    median_step_us: f64,
    /// Sites without hits in the trace or costs in the table.
    unknown: usize,
}

struct Steps<'a>(&'a mut Vec<u64>);

impl Visitor for Steps<'_> {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        if step.phase != Some(Phase::Outside) && step.complete {
            self.0.push(step.end.saturating_sub(step.start));
        }
    }
}

impl Seen {
    /// Reads a trace.
    pub(crate) fn read(path: &Path) -> Result<Self, Diagnostics> {
        let mut reader = trace_file::open_whole(path)?;
        let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), reader.meta().origin.pid);
        let mut seen = Self::default();
        // Probes that share a site make a record each of one hit: the most of one type is what is counted.
        let mut records: HashMap<(u16, u32, usize), u64> = HashMap::new();
        while let Some(item) = reader.next() {
            match item {
                Item::Record(record) => {
                    if record.site().is_some() {
                        let header = record.header();
                        *records.entry((header.site, header.tid, record.type_index())).or_default() += 1;
                    }
                    timeline.record(record.bytes(), &mut Steps(&mut seen.steps));
                }
                Item::Sites { sites, .. } => timeline.add_sites(sites),
                _ => {}
            }
        }
        timeline.finish(&mut Steps(&mut seen.steps));
        let meta = reader.into_meta();
        if seen.steps.is_empty() {
            let message = format!("{} has no complete step", path.display());
            return Err(Diagnostic::error(Code::TraceLacks, message).hint("record some steps").into());
        }
        seen.steps.sort_unstable();
        let mut most: HashMap<(u16, u32), u64> = HashMap::new();
        for ((site, thread, _), count) in records {
            let entry = most.entry((site, thread)).or_default();
            *entry = count.max(*entry);
        }
        for site in &meta.sites {
            let hits =
                seen.hits.entry((site.probes.clone(), site.function.clone(), site.captures.clone())).or_default();
            for ((_, thread), count) in most.iter().filter(|((id, _), _)| *id == site.id) {
                *hits.entry(*thread).or_default() += count;
            }
        }
        Ok(seen)
    }

    /// What a placement's sites would have cost then.
    pub(crate) fn expect(&self, plan: &ProbePlan, placement: &Placement) -> Expected {
        let steps = self.steps.len();
        let per_step = |count: f64| count / steps as f64;
        let mut threads: BTreeMap<u32, f64> = BTreeMap::new();
        let mut sites = Vec::new();
        for site in &placement.sites {
            let key = (site.site.probes.clone(), site.site.function.clone(), site.site.captures.clone());
            let cost = hit_ns(plan, site).map(f64::from);
            sites.push(self.hits.get(&key).map(|hits| {
                let count = per_step(hits.values().sum::<u64>() as f64);
                for (thread, hits) in hits {
                    *threads.entry(*thread).or_default() += per_step(*hits as f64) * cost.unwrap_or(0.0) / 1000.0;
                }
                (count, cost.map(|cost| count * cost / 1000.0))
            }));
        }
        let unknown = sites.iter().filter(|site| !matches!(site, Some((_, Some(_))))).count();
        Expected {
            sites,
            total_us: threads.values().sum(),
            busiest_us: threads.values().copied().fold(0.0, f64::max),
            steps,
            median_step_us: self.steps.get(steps / 2).map_or(0.0, |ns| *ns as f64 / 1000.0),
            unknown,
        }
    }
}

/// Expected cost of one hit: the trap, that of the return, and the writing of the record, as far as the table has them.
fn hit_ns(plan: &ProbePlan, site: &PlacedSite) -> Option<u32> {
    let CostTable { return_ns, record_ns, .. } = &plan.costs;
    let is_span = plan.programs.get(site.program).is_some_and(|program| program.kind == ProgramKind::Span);
    let at_return = if is_span { return_ns.unwrap_or(0) } else { 0 };
    Some(site.cost_ns?.saturating_add(at_return).saturating_add(record_ns.unwrap_or(0)))
}

impl Expected {
    /// Of the thread that has the most: a step waits for it.
    fn percent(&self) -> Option<f64> {
        (self.median_step_us > 0.0).then(|| 100.0 * self.busiest_us / self.median_step_us)
    }

    /// Under the table of sites.
    pub(crate) fn as_text(&self, costs: &CostTable) -> String {
        let mut text = format!(
            "\nESTIMATED OVERHEAD PER STEP, from {} steps of the trace: {:.1} µs on all threads",
            self.steps, self.total_us
        );
        if let Some(percent) = self.percent() {
            text.push_str(&format!(
                ", {:.1} µs on the busiest thread: {percent:.2} % of the median step of {:.2} ms",
                self.busiest_us,
                self.median_step_us / 1000.0
            ));
        }
        let what = match (costs.return_ns, costs.record_ns) {
            (Some(_), Some(_)) => "traps and writing records, not the reads of the fields",
            (Some(_), None) => "traps only",
            _ => "traps at entry only",
        };
        text.push_str(&format!("\nThe estimate covers {what}.\n"));
        if self.unknown > 0 {
            text.push_str(&format!(
                "It omits {} sites: the trace has no hits of them, or their cost is unknown.\n",
                self.unknown
            ));
        }
        text
    }

    pub(crate) fn as_json(&self) -> serde_json::Value {
        json!({
            "steps": self.steps,
            "median_step_us": self.median_step_us,
            "us_a_step": self.total_us,
            "busiest_thread_us_a_step": self.busiest_us,
            "percent_of_median_step": self.percent(),
            "sites_not_counted": self.unknown,
        })
    }
}
