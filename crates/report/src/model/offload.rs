//! What was given to other processors, as rows. The host's time for encoding and the device's time stand in different
//! columns; a device's time is measured, or a bound, and called so.

use super::device_use::DeviceUseReport;
use crate::numbers::ratios::mean;
use profinfer_analysis::{
    Catalogue, CopyDirection, DeviceInfo, DeviceTotals, DeviceUse, DispatchTotals, KindId, Phase, QueueTotals, Ring,
    Statistics, TextId,
};
use profinfer_trace::Meta;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Work on other processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OffloadReport {
    /// How the GPU was timed, by `record --gpu-timing`; the run is then not the usual one.
    pub timing: Option<String>,
    /// The devices that the program asked about.
    pub devices: Vec<DeviceRow>,
    /// Backends whose operators the host encodes for a device.
    pub backends: Vec<DeviceBackendRow>,
    /// Their operators, by name with digits left out; the longest encoding first.
    pub operators: Vec<DispatchRow>,
    /// Queues, by their number in the trace.
    pub queues: Vec<QueueRow>,
    /// Rings of devices, as the kernel's drivers report them.
    pub rings: Vec<RingRow>,
    /// The host's waits.
    pub waits: WaitRow,
    /// Copies, by direction.
    pub copies: Vec<CopyRow>,
    /// Steps that submitted work.
    pub steps: u64,
    /// Of them, those whose results were waited for.
    pub steps_with_results: u64,
    /// Mean time from a step's start to the end of that wait.
    pub mean_until_results_ns: Option<f64>,
    /// When a device had work; `None` if no submission was recorded.
    pub device_use: Option<DeviceUseReport>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceRow {
    /// Its name.
    pub name: Option<String>,
    /// Its kind, by the probeset's names.
    pub device_type: Option<String>,
    /// Nanoseconds of a tick of its clock.
    pub period_ns: Option<f64>,
}

/// A backend.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceBackendRow {
    /// Its name; `None` for operators outside graphs.
    pub backend: Option<String>,
    /// Calls that encode an operator or several that are fused.
    pub dispatches: u64,
    /// Operators that were computed with others, not counted in `dispatches`.
    pub fused: u64,
    /// Of `dispatches`, those that gave nothing to the device.
    pub empty: u64,
    /// The host's time for encoding.
    pub encoding_ns: u64,
    /// Submissions in its graphs.
    pub submissions: u64,
    /// Graphs that were submitted.
    pub graphs: u64,
    /// Of them, those of which the end was seen.
    pub bounded_graphs: u64,
    /// From the first submission of these to the end of the wait for the last: the device's time is at most that.
    pub device_bound_ns: Option<u64>,
    /// Operators with a time that the device measured.
    pub measured: u64,
    /// That time.
    pub device_ns: Option<u64>,
    /// Graphs of which the kernel's driver reports every submission.
    pub reported_graphs: u64,
    /// Time in which it ran them.
    pub driver_ns: Option<u64>,
    /// Of them, those whose beginning on the device it does not report: their time is at most that.
    pub driver_bounds: u64,
    /// Operators with an estimate.
    pub estimated: u64,
}

/// Operators of one name.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DispatchRow {
    /// The backend; `None` outside graphs.
    pub backend: Option<String>,
    /// Type; of several that are fused, the last's.
    pub op: String,
    /// Name, with digits left out.
    pub name: String,
    /// The first of those that are fused, likewise.
    pub covers: Option<String>,
    /// Type of the result's elements.
    pub dtype: Option<String>,
    /// How often.
    pub count: u64,
    /// Operators that were computed with them.
    pub fused: u64,
    /// Of `count`, those that gave nothing to the device.
    pub empty: u64,
    /// The host's time for encoding.
    pub encoding_ns: u64,
    /// Those with a time that the device measured.
    pub measured: u64,
    /// That time.
    pub device_ns: Option<u64>,
    /// Those with an estimate instead.
    pub estimated: u64,
    /// That: their parts of their graphs' or submissions' time, by costs.
    pub device_estimate_ns: Option<u64>,
    /// How often they were computed again as parts of captured work, not counted in `count`.
    pub replayed: u64,
    /// What was launched for them: programs of the device, the most frequent first.
    pub launches: Vec<String>,
}

/// A ring of a device, of which the kernel's driver reports the jobs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RingRow {
    /// The driver or the device.
    pub driver: Option<String>,
    /// The ring, as the driver calls it.
    pub ring: Option<String>,
    /// Jobs.
    pub jobs: u64,
    /// Of them, those whose beginning on the device is not reported.
    pub bounds: u64,
    /// From when they were given to the driver to when they began.
    pub queued_ns: u64,
    /// Time in which they ran.
    pub ran_ns: u64,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueRow {
    /// Its address or number in the program.
    pub queue: u64,
    /// Submissions.
    pub submissions: u64,
    /// The host's time in them.
    pub submitting_ns: u64,
    /// Of the submissions, those whose end was seen.
    pub bounded: u64,
    /// Time with work that had been submitted and was not known to be done.
    pub busy_bound_ns: Option<u64>,
}

/// Waits.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WaitRow {
    /// How many.
    pub count: u64,
    /// Those that failed or ran into their timeout.
    pub failed: u64,
    /// The host's time in them.
    pub total_ns: u64,
}

/// Copies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyRow {
    /// `to device`, `from device`, `on device`; `None` if not recorded.
    pub direction: Option<&'static str>,
    /// How many.
    pub count: u64,
    /// Bytes, of those whose size was recorded.
    pub bytes: u64,
    /// Copies without a size.
    pub without_size: u64,
    /// The host's time in them.
    pub total_ns: u64,
}

type RowKey = (Option<TextId>, Arc<str>, Arc<str>, Option<Arc<str>>, Option<Arc<str>>);

impl OffloadReport {
    /// Of some phases; `None` if nothing of the sort was recorded.
    pub(crate) fn new(
        statistics: &Statistics,
        catalogue: &Catalogue,
        devices: &[DeviceInfo],
        meta: &Meta,
        phases: &[Phase],
    ) -> Option<Self> {
        let all = statistics.offloads();
        if all.is_empty() {
            return None;
        }
        let wanted = |phase: &Phase| phases.contains(phase);
        let mut waits = WaitRow::default();
        let (mut steps, mut with_results, mut until_results) = (0, 0, 0_u64);
        for phase in phases {
            if let Some(of) = all.waits(*phase) {
                waits.count += of.count;
                waits.failed += of.failed;
                waits.total_ns = waits.total_ns.saturating_add(of.time);
            }
            if let Some(of) = all.results(*phase) {
                steps += of.steps;
                with_results += of.with_results;
                until_results = until_results.saturating_add(of.until_results);
            }
        }
        let mut copies: BTreeMap<Option<CopyDirection>, CopyRow> = BTreeMap::new();
        for (direction, _, of) in all.copies().filter(|(_, phase, _)| wanted(phase)) {
            let empty =
                CopyRow { direction: direction.map(direction_name), count: 0, bytes: 0, without_size: 0, total_ns: 0 };
            let row = copies.entry(direction).or_insert(empty);
            row.count += of.count;
            row.bytes = row.bytes.saturating_add(of.bytes);
            row.without_size += of.without_size;
            row.total_ns = row.total_ns.saturating_add(of.time);
        }
        let mut queues: BTreeMap<u64, QueueTotals> = BTreeMap::new();
        for (queue, _, of) in all.queues().filter(|(_, phase, _)| wanted(phase)) {
            let sum = queues.entry(queue).or_default();
            sum.submissions += of.submissions;
            sum.submitting = sum.submitting.saturating_add(of.submitting);
            sum.bounded += of.bounded;
            sum.busy_bound = sum.busy_bound.saturating_add(of.busy_bound);
        }
        let queue_row = |(queue, of): (u64, QueueTotals)| QueueRow {
            queue,
            submissions: of.submissions,
            submitting_ns: of.submitting,
            bounded: of.bounded,
            busy_bound_ns: (of.bounded > 0).then_some(of.busy_bound),
        };
        let device_row = |of: &DeviceInfo| DeviceRow {
            name: of.name.clone(),
            device_type: of.device_type.clone(),
            period_ns: of.period,
        };
        let uses = phases.iter().filter_map(|phase| all.device_use(*phase));
        let device_use = uses.reduce(|mut sum: DeviceUse, of| {
            sum.merge(&of);
            sum
        });
        let timing = meta.origin.options.iter().find_map(|option| option.strip_prefix("--gpu-timing "));
        Some(Self {
            timing: timing.map(str::to_owned),
            devices: devices.iter().map(device_row).collect(),
            backends: backends(statistics, catalogue, phases),
            operators: operators(statistics, catalogue, phases),
            queues: queues.into_iter().map(queue_row).collect(),
            rings: rings(statistics, phases),
            waits,
            copies: copies.into_values().collect(),
            steps,
            steps_with_results: with_results,
            mean_until_results_ns: (with_results > 0).then(|| mean(until_results, with_results)),
            device_use: device_use.map(|of| DeviceUseReport::new(&of, meta.origin.monotonic_ns)),
        })
    }
}

/// As rows name it.
pub(crate) fn direction_name(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::ToDevice => "to device",
        CopyDirection::FromDevice => "from device",
        CopyDirection::OnDevice => "on device",
    }
}

fn rings(statistics: &Statistics, phases: &[Phase]) -> Vec<RingRow> {
    let mut rows: BTreeMap<&Ring, RingRow> = BTreeMap::new();
    for (of, _, totals) in statistics.offloads().rings().filter(|(_, phase, _)| phases.contains(phase)) {
        let text = |text: &Option<Arc<str>>| text.as_ref().map(ToString::to_string);
        let empty = RingRow { driver: text(&of.0), ring: text(&of.1), jobs: 0, bounds: 0, queued_ns: 0, ran_ns: 0 };
        let row = rows.entry(of).or_insert(empty);
        row.jobs += totals.jobs;
        row.bounds += totals.bounds;
        row.queued_ns = row.queued_ns.saturating_add(totals.queued);
        row.ran_ns = row.ran_ns.saturating_add(totals.ran);
    }
    rows.into_values().collect()
}

fn dispatched<'s>(
    statistics: &'s Statistics,
    phases: &'s [Phase],
) -> impl Iterator<Item = (KindId, Option<TextId>, Phase, &'s DispatchTotals)> {
    statistics.offloads().dispatches().filter(|(_, _, phase, _)| phases.contains(phase))
}

fn backends(statistics: &Statistics, catalogue: &Catalogue, phases: &[Phase]) -> Vec<DeviceBackendRow> {
    let mut sums: BTreeMap<Option<TextId>, (DispatchTotals, DeviceTotals)> = BTreeMap::new();
    for (_, backend, _, of) in dispatched(statistics, phases) {
        sums.entry(backend).or_default().0.merge(of);
    }
    let graphs = statistics.offloads().graphs().filter(|(_, phase, _)| phases.contains(phase));
    for (backend, _, of) in graphs {
        let sum = &mut sums.entry(backend).or_default().1;
        sum.graphs += of.graphs;
        sum.submissions += of.submissions;
        sum.bounded += of.bounded;
        sum.bound = sum.bound.saturating_add(of.bound);
        sum.reported += of.reported;
        sum.ran = sum.ran.saturating_add(of.ran);
        sum.ran_bounds += of.ran_bounds;
    }
    let row = |(backend, (dispatches, device)): (Option<TextId>, (DispatchTotals, DeviceTotals))| DeviceBackendRow {
        backend: backend.map(|backend| catalogue.text(backend).to_string()),
        dispatches: dispatches.count,
        fused: dispatches.fused,
        empty: dispatches.empty,
        encoding_ns: dispatches.encoding,
        submissions: device.submissions,
        graphs: device.graphs,
        bounded_graphs: device.bounded,
        device_bound_ns: (device.bounded > 0).then_some(device.bound),
        measured: dispatches.measured,
        device_ns: (dispatches.measured > 0).then_some(dispatches.device),
        reported_graphs: device.reported,
        driver_ns: (device.reported > 0).then_some(device.ran),
        driver_bounds: device.ran_bounds,
        estimated: dispatches.estimated,
    };
    sums.into_iter().map(row).collect()
}

fn operators(statistics: &Statistics, catalogue: &Catalogue, phases: &[Phase]) -> Vec<DispatchRow> {
    let mut sums: BTreeMap<RowKey, DispatchTotals> = BTreeMap::new();
    let mut launches: BTreeMap<RowKey, BTreeMap<Arc<str>, u64>> = BTreeMap::new();
    for (id, backend, _, of) in dispatched(statistics, phases) {
        let kind = catalogue.kind(id);
        let collapsed = |name: &Arc<str>| profinfer_analysis::collapse_digits(name, kind.layer.as_deref()).into();
        let covers = kind.covers.as_ref().map(collapsed);
        let key = (backend, kind.op.clone(), kind.pattern.clone(), covers, kind.dtype.clone());
        for (launch, count) in statistics.offloads().launches(id) {
            let of_row = launches.entry(key.clone()).or_default();
            *of_row.entry(Arc::clone(&catalogue.kind(launch).name)).or_default() += count;
        }
        sums.entry(key).or_default().merge(of);
    }
    let mut sums: Vec<(RowKey, DispatchTotals)> = sums.into_iter().collect();
    // Device time, where it was measured, is what matters.
    sums.sort_by_key(|(_, of)| std::cmp::Reverse((of.device, of.estimate, of.encoding)));
    let row = |(key, of): (RowKey, DispatchTotals)| {
        let mut launches: Vec<(Arc<str>, u64)> = launches.remove(&key).unwrap_or_default().into_iter().collect();
        launches.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (backend, op, name, covers, dtype) = key;
        DispatchRow {
            backend: backend.map(|backend| catalogue.text(backend).to_string()),
            op: op.to_string(),
            name: name.to_string(),
            covers: covers.map(|covers| covers.to_string()),
            dtype: dtype.map(|dtype| dtype.to_string()),
            count: of.count,
            fused: of.fused,
            empty: of.empty,
            encoding_ns: of.encoding,
            measured: of.measured,
            device_ns: (of.measured > 0).then_some(of.device),
            estimated: of.estimated,
            device_estimate_ns: (of.estimated > 0).then_some(of.estimate),
            replayed: of.replayed,
            launches: launches.into_iter().map(|(name, _)| name.to_string()).collect(),
        }
    };
    sums.into_iter().map(row).collect()
}
