//! Estimates the overhead of a placement's probes per step: hits per step in a trace, times the cost of a hit in
//! the cost table.

use super::trace_file;
use profinfer_analysis::{Catalogue, Decoder, Phase, Recorded, Rules, Step, Timeline, Visitor};
use profinfer_compiler::{CostTable, PlacedSite, Placement, ProbePlan, ProgramKind};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics};
use profinfer_trace::Item;
use serde_json::json;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A site of another placement is the same by its probes, function and captures: builds differ in addresses.
type SiteKey = (Vec<String>, String, Vec<String>);

/// The hits in a trace, of complete steps that were recorded whole: sampling leaves out most hits of the others.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Durations of these steps, ns, sorted.
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

/// When the steps were whose hits count, ns.
#[derive(Debug, Default)]
struct Steps {
    times: Vec<(u64, u64)>,
    /// Others, of which not everything was recorded.
    others: u64,
}

impl Visitor for Steps {
    fn step(&mut self, step: &Step, _: &Catalogue, _: &Decoder) {
        match step.complete && step.recorded == Recorded::Whole {
            _ if step.phase == Some(Phase::Outside) => {}
            true => self.times.push((step.start, step.end)),
            false => self.others += 1,
        }
    }
}

impl Steps {
    fn read(path: &Path) -> Result<Self, Diagnostics> {
        let mut reader = trace_file::open_whole(path)?;
        let mut timeline = Timeline::new(&reader.meta().schema, Rules::default(), reader.meta().origin.pid);
        let mut steps = Self::default();
        while let Some(item) = reader.next() {
            match item {
                Item::Record(record) => timeline.record(record.bytes(), &mut steps),
                Item::Sites { sites, .. } => timeline.add_sites(sites),
                Item::Notice(notice) => timeline.notice(notice),
                _ => {}
            }
        }
        timeline.finish(&mut steps);
        Ok(steps)
    }

    /// Where steps of several threads overlap, they are one time.
    fn merged(mut self) -> Vec<(u64, u64)> {
        self.times.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in self.times {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

impl Seen {
    /// Reads a trace, twice: its steps decide which hits count.
    pub(crate) fn read(path: &Path) -> Result<Self, Diagnostics> {
        if path.as_os_str() == "-" {
            let problem = Diagnostic::error(Code::BadArgument, "standard input cannot be read twice");
            return Err(problem.hint("give the trace's name").into());
        }
        let steps = Steps::read(path)?;
        if steps.times.is_empty() {
            let (lacks, hint) = match steps.others {
                0 => ("no step", "record some steps"),
                _ => ("no complete step that was recorded whole", "record more steps, or without `--budget`"),
            };
            return Err(Diagnostic::error(Code::TraceLacks, format!("{} has {lacks}", path.display()))
                .hint(hint)
                .into());
        }
        let durations = steps.times.iter().map(|(start, end)| end.saturating_sub(*start)).collect();
        let mut seen = Self { steps: durations, hits: HashMap::new() };
        let times = steps.merged();
        let is_within = |time: u64| {
            let begun = times.partition_point(|(start, _)| *start <= time);
            begun.checked_sub(1).and_then(|last| times.get(last)).is_some_and(|(_, end)| time <= *end)
        };
        let mut reader = trace_file::open_whole(path)?;
        // Probes that share a site make a record each of one hit: the most of one type is what is counted.
        let mut records: HashMap<(u16, u32, usize), u64> = HashMap::new();
        while let Some(item) = reader.next() {
            if let Item::Record(record) = item
                && record.site().is_some()
                && is_within(record.header().start)
            {
                let header = record.header();
                *records.entry((header.site, header.tid, record.type_index())).or_default() += 1;
            }
        }
        let meta = reader.into_meta();
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

#[cfg(test)]
mod tests {
    use super::*;
    use profinfer_analysis::testing::{Put, Records, site};
    use profinfer_schema::{Detail, DetailReason, DetailState, End, Notice, Origin, Site};
    use profinfer_trace::TraceWriter;

    const STEP: u16 = 0;
    const OPERATOR: u16 = 1;

    /// Five steps of three operators each, of which a budget had those of the first recorded, and an operator between two.
    /// Records of another step in that window are lost.
    fn sampled(path: &Path) {
        let mut r = Records::default();
        r.push("thread", 7, (1, 1), &[("pid", Put::Int(70))]);
        let mut bounds = Vec::new();
        for number in 0..5 {
            let at = 1000 + number * 1000;
            let operators = match number {
                0 => 3,
                1 => 1,
                _ => 0,
            };
            for operator in 0..operators {
                let start = at + 100 + operator * 200;
                r.push_at_site("operator", OPERATOR, 7, (start, start + 100), &[("node", Put::Int(0xa))]);
            }
            if number == 1 {
                r.lose(7, 2);
            }
            r.push_at_site("step", STEP, 7, (at, at + 800), &[("tokens", Put::Int(1))]);
            if number == 0 {
                r.push_at_site("operator", OPERATOR, 7, (at + 850, at + 870), &[("node", Put::Int(0xa))]);
            }
            bounds.push(r.records.len());
        }
        let named = |id: u16, probe: &str| Site { probes: vec![probe.to_owned()], ..site(id, &[]) };
        let sites = [named(STEP, "step"), named(OPERATOR, "operator")];
        let origin = Origin { pid: 70, ..Origin::default() };
        let mut writer = TraceWriter::new(std::fs::File::create(path).unwrap(), &origin, &r.schema).unwrap();
        writer.add_sites(&[], &sites).unwrap();
        let notice = |writer: &mut TraceWriter<_>, time: u64, state: DetailState| {
            let detail = Some(Detail { state, reason: DetailReason::Budget, steps_too: false, planned_end: None });
            writer.notice(&Notice { time, detail, ..Notice::default() }).unwrap();
        };
        notice(&mut writer, 500, DetailState::Attaching);
        notice(&mut writer, 600, DetailState::On);
        r.records[..bounds[1]].iter().for_each(|record| writer.push(record).unwrap());
        notice(&mut writer, 2900, DetailState::Off);
        notice(&mut writer, 2950, DetailState::Detached);
        r.records[bounds[1]..].iter().for_each(|record| writer.push(record).unwrap());
        writer.finish(&End { time: 9000, reason: "the target ended".into(), ..End::default() }).unwrap();
    }

    #[test]
    fn hits_are_those_of_complete_steps_that_were_recorded_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        sampled(&path);
        let seen = Seen::read(&path).unwrap();
        assert_eq!(seen.steps, [800]);
        let of = |probe: &str| seen.hits[&(vec![probe.to_owned()], String::new(), Vec::new())].clone();
        assert_eq!((of("step"), of("operator")), (BTreeMap::from([(7, 1)]), BTreeMap::from([(7, 3)])));
    }
}
