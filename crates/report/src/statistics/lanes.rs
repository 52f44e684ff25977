//! Lanes: how unevenly they work, what they wait at, where they are moved to, and who is in their way. All of it is in
//! the report already; here it stands side by side.

use super::Given;
use crate::model::rows::RegionRow;
use crate::model::threads::InterferenceRow;
use crate::numbers::ratios::ratio;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time, time_f64};
use crate::text::{TextStyle, estimate, few, waiting};
use Align::{Flexible, Right};
use profinfer_analysis::Phase;
use serde::Serialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LanesSection {
    /// By lane.
    pub lanes: Vec<LaneStatistics>,
    /// How unevenly they work; `None` where there is one lane only.
    pub imbalance: Option<Imbalance>,
    /// Barriers and other regions.
    pub regions: Vec<RegionRow>,
    /// Who ran while lanes could have, the most first; `None` where the scheduler's events were not recorded.
    pub interference: Option<Vec<InterferenceRow>>,
    /// The same in words.
    pub sentences: Vec<String>,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// One lane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaneStatistics {
    /// Its number.
    pub lane: u32,
    /// Operators that it computed a share of.
    pub shares: u64,
    /// Work, ns.
    pub work_ns: u64,
    /// Waiting for the slowest lane, ns; `None` where it was not recorded: then it is part of the work.
    pub waiting_ns: Option<u64>,
    /// Work and waiting are estimates: waiting was recorded in some windows of time.
    pub waiting_estimated: bool,
    /// Time of the steps that it took part in, ns.
    pub step_time_ns: u64,
    /// Of the operators with several lanes: share of those in which it worked longest.
    pub slowest: f64,
    /// Able to run while it did not, ns; `None` where the scheduler's events were not recorded, as below.
    pub runnable_ns: Option<u64>,
    /// Times that it lost its cpu to another.
    pub involuntary_switches: Option<u64>,
    /// Times that it went on on another cpu.
    pub migrations: Option<u64>,
}

/// How unevenly lanes work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Imbalance {
    /// Lanes.
    pub lanes: u64,
    /// The busiest lane's work by the mean: 1 is even.
    pub max_over_mean: f64,
    /// All lanes' waiting by their work and waiting; `None` where it was not recorded.
    pub waiting_share: Option<f64>,
    /// Waiting for each operator with several lanes, all lanes together, ns; `None` where no operator has any, or it was not
    /// recorded.
    pub waiting_per_operator_ns: Option<f64>,
}

impl LanesSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let report = given.report;
        let threads = report.threads.as_ref();
        let lanes: Vec<LaneStatistics> = report
            .lane_rows
            .iter()
            .map(|row| {
                let of_lane = threads.and_then(|threads| threads.lanes.iter().find(|lane| lane.lane == Some(row.lane)));
                LaneStatistics {
                    lane: row.lane,
                    shares: row.shares,
                    work_ns: row.work_ns,
                    waiting_ns: row.waiting_ns,
                    waiting_estimated: row.waiting_estimated,
                    step_time_ns: row.step_time_ns,
                    slowest: row.slowest,
                    runnable_ns: of_lane.map(|lane| lane.runnable_ns),
                    involuntary_switches: of_lane.map(|lane| lane.involuntary_switches),
                    migrations: of_lane.map(|lane| lane.migrations),
                }
            })
            .collect();
        let phases = Phase::ALL.into_iter().filter(|phase| report.table_phases.contains(&phase.as_str()));
        let shared = phases.filter_map(|phase| given.statistics.phase(phase)).map(|totals| totals.shared_operators);
        let absent = lanes.is_empty().then(|| "No operators were recorded.".to_owned());
        Self {
            imbalance: imbalance(&lanes, shared.fold(0, u64::saturating_add)),
            regions: report.regions.clone(),
            interference: threads.map(|threads| threads.interference.clone()),
            sentences: threads.map_or_else(Vec::new, |threads| threads.sentences.clone()),
            lanes,
            absent,
        }
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        if let Some(why) = &self.absent {
            return super::absent(out, style, "Lanes", why);
        }
        let headings =
            ["lane", "busy", "waiting", "work", "slowest in", "run-queue delay", "preemptions", "migrations"];
        let mut table = Table::new(&headings.map(|name| (name, Right)));
        for row in &self.lanes {
            let count = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
            let several = self.lanes.len() > 1;
            table.row(vec![
                row.lane.to_string(),
                estimate(row.waiting_estimated, share(ratio(row.work_ns, row.step_time_ns))),
                waiting(row.waiting_ns, row.waiting_estimated, |ns| share(ratio(ns, row.step_time_ns))),
                estimate(row.waiting_estimated, time(row.work_ns)),
                if several { share(row.slowest) } else { String::new() },
                row.runnable_ns.map(time).unwrap_or_default(),
                count(row.involuntary_switches),
                count(row.migrations),
            ]);
        }
        style.table(out, "Lanes", &table, None);
        let mut sentences = Vec::new();
        match &self.imbalance {
            Some(imbalance) => {
                let each = imbalance
                    .waiting_per_operator_ns
                    .map_or_else(String::new, |ns| format!(", {} per operator that several lanes share", time_f64(ns)));
                sentences.push(match imbalance.waiting_share {
                    Some(waiting) => format!(
                        "The busiest lane works {:.2} times the mean. {} of lane time in operators is waiting{each}.",
                        imbalance.max_over_mean,
                        share(waiting)
                    ),
                    None => "Waiting was not recorded: it is part of the lanes' work.".to_owned(),
                });
            }
            None => sentences.push("Only one lane computed: it does not wait.".to_owned()),
        }
        sentences.extend(self.sentences.iter().cloned());
        if self.interference.is_none() {
            sentences.push("Scheduler events were not recorded: CPUs and other processes are unknown.".into());
        }
        super::sentences(out, &sentences);
        let mut table = Table::new(&[("share", Right), ("took", Right), ("pid", Right), ("process", Flexible)]);
        let rows = self.interference.as_deref().unwrap_or(&[]);
        let (rows, more) = few(rows, "`--json` lists all");
        for row in rows {
            let process = row.title();
            table.row(vec![share(row.share), time(row.taken_ns), row.pid.to_string(), process]);
        }
        style.table(out, "Processes that ran instead of runnable lanes", &table, more);
    }
}

/// Of lanes that have so many operators of which several compute a share.
fn imbalance(lanes: &[LaneStatistics], shared: u64) -> Option<Imbalance> {
    if lanes.len() < 2 {
        return None;
    }
    let sum = |of: fn(&LaneStatistics) -> u64| lanes.iter().map(of).fold(0, u64::saturating_add);
    let work = sum(|lane| lane.work_ns);
    let waiting: Option<u64> = lanes.iter().map(|lane| lane.waiting_ns).sum();
    let most = lanes.iter().map(|lane| lane.work_ns).max().unwrap_or(0);
    Some(Imbalance {
        lanes: lanes.len() as u64,
        max_over_mean: ratio(most, work) * lanes.len() as f64,
        waiting_share: waiting.map(|waiting| ratio(waiting, work.saturating_add(waiting))),
        waiting_per_operator_ns: waiting.filter(|_| shared > 0).map(|waiting| waiting as f64 / shared as f64),
    })
}
