//! Fills the tables from the steps, one after the other: nothing of a step is stored.

use super::tables::{COUNTS, EXPERTS, GRAPHS, LANES, OPERATORS, REGIONS, RUNS, STEPS, TABLES};
use super::{Cell, ExportFormat, RowWriter, Table};
use profinfer_analysis::{
    Catalogue, Completeness, Decoder, Kind, KindId, Operator, Phase, Reclaim, Step, TextId, TimeSplit, Visitor,
    collapse_digits,
};
use profinfer_trace::Meta;

use profinfer_schema::{ModuleInfo, Origin};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

/// Writes the tables of the steps that it is shown. The first error stops it.
pub struct Exporter {
    writers: [Option<Box<dyn RowWriter>>; TABLES.len()],
    /// CLOCK_MONOTONIC at the start of the recording.
    start: u64,
    texts: HashMap<KindId, Texts>,
    error: Option<io::Error>,
}

/// What of a kind is worked out once.
#[derive(Debug, Clone)]
struct Texts {
    covers: Option<Arc<str>>,
    shape: Option<Arc<str>>,
}

impl Texts {
    fn new(kind: &Kind) -> Self {
        let covers = kind.covers.as_ref().map(|covers| collapse_digits(covers, kind.layer.as_deref()).into());
        let extents: Vec<String> = kind.shape.iter().map(i64::to_string).collect();
        Self { covers, shape: (!extents.is_empty()).then(|| extents.join("x").into()) }
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("start", &self.start).finish_non_exhaustive()
    }
}

/// Which builds of which files were recorded: the same on every machine.
fn build(meta: &Meta) -> String {
    let of = |module: &ModuleInfo| {
        let file = module.path.rsplit('/').next().unwrap_or_default();
        let id = module.build_id.as_deref().map_or_else(|| format!("{} bytes", module.size), shortened);
        format!("{file} {id}")
    };
    let files: BTreeSet<String> = meta.modules.iter().map(of).collect();
    files.into_iter().collect::<Vec<String>>().join(", ")
}

/// As much of a build-id as tells builds apart.
fn shortened(id: &str) -> String {
    id.chars().take(12).collect()
}

impl Exporter {
    /// Of a trace, into the files that `open` gives for the tables that are wanted.
    ///
    /// # Errors
    /// A file cannot be opened or written.
    pub fn new(
        format: ExportFormat,
        origin: &Origin,
        mut open: impl FnMut(&'static Table) -> io::Result<Option<Box<dyn Write + Send>>>,
    ) -> io::Result<Self> {
        let mut writers: [Option<Box<dyn RowWriter>>; TABLES.len()] = Default::default();
        for (writer, table) in writers.iter_mut().zip(&TABLES) {
            if let Some(out) = open(table)? {
                *writer = Some(format.begin(table, out)?);
            }
        }
        Ok(Self { writers, start: origin.monotonic_ns, texts: HashMap::new(), error: None })
    }

    /// Writes the remaining rows of a trace that was read to its end.
    ///
    /// # Errors
    /// The first that came up.
    pub fn finish(mut self, meta: &Meta, completeness: &Completeness) -> io::Result<()> {
        let written = self.run(meta, completeness);
        self.take(written);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writers.into_iter().flatten().try_for_each(RowWriter::finish)
    }

    fn run(&mut self, meta: &Meta, completeness: &Completeness) -> io::Result<()> {
        let (origin, command) = (&meta.origin, meta.origin.command.join(" "));
        let end = meta.end.as_ref();
        self.row(
            RUNS,
            &[
                origin.engine.as_str().into(),
                origin.probeset.as_str().into(),
                command.as_str().into(),
                origin.pid.into(),
                origin.host.name.as_str().into(),
                origin.host.cpu_model.as_str().into(),
                origin.host.cpus.into(),
                origin.host.memory.into(),
                origin.host.kernel.as_str().into(),
                origin.host.arch.as_str().into(),
                origin.recorder.as_str().into(),
                origin.wall_clock_ns.into(),
                end.map(|end| end.time.saturating_sub(origin.monotonic_ns)).into(),
                completeness.steps.into(),
                completeness.records.into(),
                completeness.complete.into(),
                completeness.verdict.as_str().into(),
                end.map(|end| end.reason.as_str()).into(),
                build(meta).as_str().into(),
            ],
        )
    }

    pub(super) fn row(&mut self, table: usize, cells: &[Cell<'_>]) -> io::Result<()> {
        self.writers[table].as_mut().map_or(Ok(()), |writer| writer.row(cells))
    }

    fn wants(&self, table: usize) -> bool {
        self.writers[table].is_some()
    }

    fn take(&mut self, written: io::Result<()>) {
        if let (Err(error), None) = (written, &self.error) {
            self.error = Some(error);
        }
    }

    /// ns since the start of the recording; before it, negative.
    pub(super) fn since_start(&self, time: u64) -> Cell<'static> {
        Cell::Int(time.wrapping_sub(self.start).cast_signed())
    }

    fn write(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) -> io::Result<()> {
        let phase = step.phase.unwrap_or(Phase::Outside).as_str();
        let at = [Cell::from(step.number), Cell::from(phase)];
        self.step(step, at)?;
        self.graphs(step, at, catalogue)?;
        for (index, operator) in (0_u64..).zip(&step.operators) {
            if self.wants(OPERATORS) {
                self.operator(step, at, (index, operator), catalogue)?;
            }
            self.shares(step, at, (index, operator), decoder)?;
        }
        for region in &step.regions {
            self.row(
                REGIONS,
                &[
                    at[0],
                    at[1],
                    Cell::Text(decoder.name(region.record_type)),
                    region.tid.into(),
                    self.since_start(region.start),
                    region.end.saturating_sub(region.start).into(),
                    region.operator.into(),
                ],
            )?;
        }
        self.experts(step, at, catalogue)?;
        self.offload(step, at, catalogue, decoder)
    }

    fn step(&mut self, step: &Step, at: [Cell<'_>; 2]) -> io::Result<()> {
        let sum = |of: fn(&Operator) -> u64| step.operators.iter().map(of).fold(0, u64::saturating_add);
        let is_divided = step.operators.iter().all(Operator::is_divided);
        self.row(
            STEPS,
            &[
                at[0],
                at[1],
                step.pid.into(),
                step.tid.into(),
                self.since_start(step.start),
                step.duration().into(),
                step.tokens.into(),
                step.complete.into(),
                step.recorded.as_str().into(),
                step.window.into(),
                Cell::int(step.lane_numbers.len()),
                Cell::int(step.graphs.len()),
                Cell::int(step.operators.len()),
                step.in_graphs.into(),
                if is_divided { sum(|o| o.work) } else { sum(Operator::lane_time) }.into(),
                is_divided.then(|| sum(|o| o.waiting)).into(),
                step.context_by_position().or_else(|| step.context_by_operators()).into(),
                step.knows_reclaims.then(|| step.reclaims.iter().map(Reclaim::duration).sum::<u64>()).into(),
            ],
        )
    }

    fn graphs(&mut self, step: &Step, at: [Cell<'_>; 2], catalogue: &Catalogue) -> io::Result<()> {
        for (index, graph) in (0_u64..).zip(&step.graphs) {
            self.row(
                GRAPHS,
                &[
                    at[0],
                    at[1],
                    index.into(),
                    graph.parent.into(),
                    Cell::Text(catalogue.text(graph.backend)),
                    graph.tid.into(),
                    self.since_start(graph.start),
                    graph.end.saturating_sub(graph.start).into(),
                    graph.tokens.into(),
                ],
            )?;
        }
        Ok(())
    }

    fn operator(
        &mut self,
        step: &Step,
        at: [Cell<'_>; 2],
        (index, operator): (u64, &Operator),
        catalogue: &Catalogue,
    ) -> io::Result<()> {
        let kind = catalogue.kind(operator.kind);
        let texts = self.texts.entry(operator.kind).or_insert_with(|| Texts::new(kind)).clone();
        let backend: Option<TextId> = operator.graph.and_then(|at| step.graphs.get(at as usize)).map(|g| g.backend);
        self.row(
            OPERATORS,
            &[
                at[0],
                at[1],
                index.into(),
                operator.graph.into(),
                backend.map(|backend| &**catalogue.text(backend)).into(),
                Cell::Text(&kind.op),
                Cell::Text(&kind.name),
                Cell::Text(&kind.pattern),
                kind.covers.as_deref().into(),
                texts.covers.as_deref().into(),
                kind.layer.as_deref().into(),
                kind.dtype.as_deref().into(),
                texts.shape.as_deref().into(),
                self.since_start(operator.start),
                operator.end.saturating_sub(operator.start).into(),
                if operator.is_divided() { operator.work } else { operator.lane_time() }.into(),
                operator.is_divided().then_some(operator.waiting).into(),
                Cell::int(step.lane_count_of(operator)),
                operator.cost.flops.into(),
                operator.cost.bytes.into(),
                operator.cost.flops_bound.into(),
                operator.cost.bytes_bound.into(),
                kind.layer_inferred.into(),
            ],
        )
    }

    fn shares(
        &mut self,
        step: &Step,
        at: [Cell<'_>; 2],
        (index, operator): (u64, &Operator),
        decoder: &Decoder,
    ) -> io::Result<()> {
        if !self.wants(LANES) && (!self.wants(COUNTS) || step.counter_columns == 0) {
            return Ok(());
        }
        for (number, share) in (operator.lanes.start as usize..).zip(step.lanes_of(operator)) {
            let split = step.splits.get(number);
            let part = |of: fn(&TimeSplit) -> u64| Cell::from(split.map(of));
            self.row(
                LANES,
                &[
                    at[0],
                    at[1],
                    index.into(),
                    share.lane.into(),
                    share.tid.into(),
                    self.since_start(share.start),
                    share.end.saturating_sub(share.start).into(),
                    share.work().into(),
                    (!share.undivided).then_some(share.waiting).into(),
                    part(|split| split.compute),
                    Cell::from(split.filter(|_| !share.undivided).map(|split| split.waiting)),
                    part(|split| split.runnable),
                    part(|split| split.sleeping.saturating_add(split.stopped).saturating_add(split.attaching)),
                    part(|split| split.blocked),
                    part(|split| split.unknown),
                    Cell::from(split.filter(|_| step.knows_reclaims).map(TimeSplit::reclaim)),
                ],
            )?;
            for (column, counter) in decoder.counters().iter().enumerate().take(step.counter_columns) {
                let count = step.count_of(share, column);
                let Some(value) = count.value() else { continue };
                self.row(
                    COUNTS,
                    &[
                        at[0],
                        at[1],
                        index.into(),
                        share.lane.into(),
                        Cell::Text(counter),
                        value.into(),
                        count.is_estimate().into(),
                    ],
                )?;
            }
        }
        Ok(())
    }

    /// An expert is several matrices, chosen together: the first operator of a layer speaks for all of them.
    fn experts(&mut self, step: &Step, at: [Cell<'_>; 2], catalogue: &Catalogue) -> io::Result<()> {
        let mut speakers: HashMap<&Arc<str>, KindId> = HashMap::new();
        for experts in &step.experts {
            let layer = catalogue.kind(experts.kind).layer.as_ref();
            let speaks = layer.is_none_or(|layer| *speakers.entry(layer).or_insert(experts.kind) == experts.kind);
            for (choice, expert) in (0_u64..).zip(&experts.ids) {
                self.row(
                    EXPERTS,
                    &[
                        at[0],
                        at[1],
                        experts.operator.into(),
                        layer.map(|layer| &**layer).into(),
                        speaks.into(),
                        choice.into(),
                        (*expert).into(),
                        experts.per_token.into(),
                    ],
                )?;
            }
        }
        Ok(())
    }
}

impl Visitor for Exporter {
    fn step(&mut self, step: &Step, catalogue: &Catalogue, decoder: &Decoder) {
        if self.error.is_none() {
            let written = self.write(step, catalogue, decoder);
            self.take(written);
        }
    }
}
