//! Traces of a made-up engine whose times are known: four layers of two matrix products and a small operator after each,
//! on two lanes or more, that are made to be limited by one thing.

// Not every test that makes such a trace asks for everything.
#![allow(dead_code, reason = "each test program uses what it needs")]

use profinfer_analysis::testing::{Put, Records};
use profinfer_schema::Role;
use profinfer_schema::{
    CacheSize, CounterInfo, End, FieldLayout, FieldType, Figure, Host, Level, Origin, Quantity, RecordKind, RecordType,
    Roofline,
};

use profinfer_trace::TraceWriter;
use std::path::PathBuf;

/// A process that is not the engine's.
pub(crate) const NEIGHBOUR: u32 = 77;
/// Where the data of the first weight lies.
const DATA: u64 = 0x10_0000_0000;

const PROBESET: &str = r#"profinfer: 1
engine: toy
summary: Matrix products
types:
  tensor_t: { name: "char[32]" }
objects:
  tensor: { of: tensor_t, fields: { name: name } }
modules: { engine: engine }
probes:
  step: { at: engine:step(i32 tokens), role: step, fields: { tokens: tokens } }
analysis:
  layer: name ~ "(?:-|^blk\.)(\d+)"
  experts: 'name ~ "exps" ? shape[2] : 0'
  dtypes: { f32: 4, f16: 2, q8: 1.0625, i64: 8 }
  weights: { of: name ~ "weight$", types: [f32, f16, q8] }
  costs:
    MUL_MAT:
      flops: 2 * shape[0] * shape[1] * inputs[0].shape[0]
      bytes: inputs[0].bytes + inputs[1].bytes + bytes
    ADD: { flops: "shape[0] * shape[1]", bytes: "inputs[*].bytes + bytes" }
  metrics:
    traffic: bytes / duration
  advice:
    library:
      when: phase == "prefill" && bound == "compute" && of_peak < 0.4
      say: Use the faster products
"#;

fn figure(quantity: Quantity, level: Option<Level>, cpus: u32, best: u64) -> Figure {
    let kind = "loop".to_owned();
    Figure {
        quantity,
        level,
        cpus,
        core_type: None,
        instructions: kind,
        working_set: 0,
        repetitions: 9,
        best,
        median: best,
        low: best,
        high: best,
        off_cpu_percent: 0,
    }
}

/// Of one, two and four processors 10, 20 and 40 GB/s out of memory, and 100, 200 and 400 GFLOP/s. The cache has 8 MiB and
/// gives 40 GB/s.
fn machine() -> Roofline {
    let figures = vec![
        figure(Quantity::Read, Some(Level::Memory), 1, 10_000_000_000),
        figure(Quantity::Read, Some(Level::Memory), 2, 20_000_000_000),
        figure(Quantity::Read, Some(Level::L3), 2, 40_000_000_000),
        figure(Quantity::Fp32, None, 1, 100_000_000_000),
        figure(Quantity::Fp32, None, 2, 200_000_000_000),
        figure(Quantity::Read, Some(Level::Memory), 4, 40_000_000_000),
        figure(Quantity::Fp32, None, 4, 400_000_000_000),
    ];
    let caches = vec![CacheSize { level: 3, bytes: 8 << 20, shared_by: 2, usable_bytes: None }];
    Roofline { cpus: 2, caches, figures, ..Roofline::default() }
}

/// What keeps lanes from their work while they compute a product.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kept {
    /// The scheduler's events were not recorded.
    NotRecorded,
    /// For so long another process runs on the last lane's cpu.
    Neighbour(u64),
    /// For so long the last lane waits for a disk; each time a page of the weight is read.
    Disk(u64),
    /// Two lanes run one after the other on a single cpu.
    EachOther,
}

/// What the engine does.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// Rows and columns of a weight.
    pub(crate) size: i64,
    pub(crate) tokens: i64,
    /// Of a product on each lane, and how long the other lanes wait for lane 0 on top.
    pub(crate) product_ns: u64,
    pub(crate) waiting_ns: u64,
    /// Of the small operator after a product.
    pub(crate) small_ns: u64,
    /// Of each step, before its graphs and behind them together.
    pub(crate) outside_ns: u64,
    pub(crate) steps: u64,
    pub(crate) lanes: u64,
    pub(crate) kept: Kept,
    /// Weights are of four experts each.
    pub(crate) experts: bool,
    /// The second product of this layer takes so much longer.
    pub(crate) odd: Option<(u64, u64)>,
    /// Of so many tokens are further steps that follow, each with half as long products.
    pub(crate) more_steps: &'static [i64],
    /// The last two layers are computed by another backend.
    pub(crate) two_backends: bool,
    /// Cycles are counted: 3 a nanosecond.
    pub(crate) counted: bool,
    pub(crate) roofline: bool,
    pub(crate) costs: bool,
}

/// Eight weights of 4 MiB, read at 19 GB/s.
pub(crate) const MEMORY: Run = Run {
    size: 1024,
    tokens: 1,
    product_ns: 221_000,
    waiting_ns: 0,
    small_ns: 2000,
    outside_ns: 1000,
    steps: 20,
    lanes: 2,
    kept: Kept::NotRecorded,
    experts: false,
    odd: None,
    more_steps: &[],
    two_backends: false,
    counted: false,
    roofline: true,
    costs: true,
};

pub(crate) struct Trace {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Trace {
    pub(crate) fn new(run: Run) -> Self {
        let records = Engine::new(run).run();
        let mut source = PROBESET.to_owned();
        if !run.costs {
            source.truncate(source.find("  costs:").unwrap());
        }
        let cpus = u32::try_from(run.lanes).unwrap().max(2);
        let origin = Origin {
            engine: "toy".into(),
            sources: vec![("toy.yaml".to_owned(), source)],
            pid: 100,
            host: Host { cpus, ..Host::default() },
            roofline: run.roofline.then(machine),
            ..Origin::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pfi");
        let mut writer = TraceWriter::new(std::fs::File::create(&path).unwrap(), &origin, &records.schema).unwrap();
        for record in &records.records {
            writer.push(record).unwrap();
        }
        writer.finish(&End { time: 1 << 40, reason: "the target ended".into(), ..End::default() }).unwrap();
        Self { _folder: folder, path }
    }

    pub(crate) fn file(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// Makes the records.
struct Engine {
    run: Run,
    r: Records,
    at: u64,
}

impl Engine {
    fn new(run: Run) -> Self {
        Self { run, r: Records { schema: schema(run), ..Records::default() }, at: 1000 }
    }

    fn run(mut self) -> Records {
        let Run { tokens, product_ns, steps, .. } = self.run;
        for tid in self.tids() {
            self.r.push("thread", tid, (0, 0), &[("pid", Put::Int(100)), ("comm", Put::Text("engine"))]);
        }
        if self.run.kept != Kept::NotRecorded {
            for lane in 0..self.run.lanes {
                if lane == 0 || self.run.kept != Kept::EachOther {
                    self.switch(cpu(lane), 500, (NEIGHBOUR, 1), tid(lane));
                }
            }
            if self.run.kept == Kept::EachOther {
                self.r.push("wakeup", tid(1), (400, 400), &[("target_cpu", Put::Int(0))]);
            }
        }
        self.describe_all(tokens);
        for _ in 0..steps {
            self.step(tokens, product_ns);
        }
        for tokens in self.run.more_steps {
            self.describe_all(*tokens);
            self.step(*tokens, product_ns / 2);
        }
        self.r
    }

    fn tids(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.run.lanes).map(tid)
    }

    fn describe_all(&mut self, tokens: i64) {
        let size = self.run.size;
        self.describe(0x10, ("NONE", "input"), &[size, tokens, 1, 1], &[], 0);
        for layer in 0..4_u64 {
            for (i, name) in ["up", "down"].into_iter().enumerate() {
                let at = 0x100 + layer * 0x20 + i as u64 * 0x10;
                let weight = 0x1000 + at;
                let (kind, experts) = if self.run.experts { ("_exps", 4) } else { ("", 1) };
                let name_of_weight = format!("blk.{layer}.{name}{kind}.weight");
                let data = DATA + at * 0x100_0000;
                self.describe(weight, ("NONE", &name_of_weight), &[size, size, experts, 1], &[], data);
                let inputs = [weight.cast_signed(), 0x10];
                self.describe(at, ("MUL_MAT", &format!("{name}-{layer}")), &[size, tokens, 1, 1], &inputs, 0);
                let product = [at.cast_signed()];
                self.describe(at + 8, ("ADD", &format!("{name}_add-{layer}")), &[64, 1, 1, 1], &product, 0);
            }
        }
    }

    fn describe(&mut self, address: u64, (op, name): (&str, &str), shape: &[i64], inputs: &[i64], data: u64) {
        let mut fields = vec![
            ("address", Put::Int(address)),
            ("op", Put::Text(op)),
            ("name", Put::Text(name)),
            ("dtype", Put::Text("f32")),
            ("shape", Put::List(shape)),
            ("inputs", Put::List(inputs)),
        ];
        if let Kept::Disk(_) = self.run.kept {
            fields.push(("data", Put::Int(data)));
        }
        let at = self.at - 999;
        self.r.push("tensor", 1, (at, at), &fields);
    }

    fn step(&mut self, tokens: i64, product_ns: u64) {
        let start = self.at;
        self.at += self.run.outside_ns / 2;
        for backend in [&["CPU"][..], &["CPU", "Other"]][usize::from(self.run.two_backends)] {
            let graph = self.at;
            let layers = match (self.run.two_backends, *backend) {
                (false, _) => 0..4,
                (true, "CPU") => 0..2,
                (true, _) => 2..4,
            };
            for layer in layers {
                for half in 0..2 {
                    let node = 0x100 + layer * 0x20 + half * 0x10;
                    let more = self.run.odd.filter(|(odd, _)| *odd == layer && half == 1).map_or(0, |(_, ns)| ns);
                    self.product(node, product_ns + more);
                    self.small(node + 8);
                }
            }
            self.r.push("graph", 1, (graph, self.at), &[("backend", Put::Text(backend))]);
        }
        self.at += self.run.outside_ns / 2;
        let mut fields = vec![("tokens", Put::Int(tokens.cast_unsigned()))];
        if self.run.counted {
            fields.push(("cycles", Put::Int(3 * (self.at - start))));
        }
        self.r.push("step", 1, (start, self.at), &fields);
    }

    fn product(&mut self, node: u64, ns: u64) {
        let last = self.run.lanes - 1;
        match self.run.kept {
            Kept::NotRecorded => self.operators(node, ns, self.run.waiting_ns, 0),
            Kept::Neighbour(kept) => {
                let (from, to) = (self.at + ns / 2, self.at + ns / 2 + kept);
                self.switch(cpu(last), from, (tid(last), 0), NEIGHBOUR);
                self.switch(cpu(last), to, (NEIGHBOUR, 1), tid(last));
                self.operators(node, ns, 0, kept);
            }
            Kept::Disk(kept) => {
                let (from, to) = (self.at + ns / 2, self.at + ns / 2 + kept);
                self.switch(cpu(last), from, (tid(last), 2), 0);
                self.r.push("wakeup", tid(last), (to, to), &[("target_cpu", Put::Int(u64::from(cpu(last))))]);
                self.switch(cpu(last), to, (0, 0), tid(last));
                // A fault is recorded when it is over.
                let address = DATA + node * 0x100_0000 + 0x1000;
                self.r.push("fault", tid(last), (to, to), &[("address", Put::Int(address))]);
                self.operators(node, ns, 0, kept);
            }
            Kept::EachOther => {
                let (start, middle, end) = (self.at, self.at + ns, self.at + 2 * ns);
                self.switch(0, middle, (tid(0), 0), tid(1));
                self.switch(0, end, (tid(1), 0), tid(0));
                self.operator(0, node, (start, end), ns);
                self.operator(1, node, (start, end), 0);
                self.at = end;
            }
        }
    }

    fn small(&mut self, node: u64) {
        if self.run.kept == Kept::EachOther {
            let end = self.at + self.run.small_ns;
            self.operator(0, node, (self.at, end), 0);
            self.at = end;
        } else {
            self.operators(node, self.run.small_ns, 0, 0);
        }
    }

    /// A node on all lanes: each works for `ns`, lane 0 for `first_ns` more and the last for `last_ns` more, for which the
    /// others wait.
    fn operators(&mut self, node: u64, ns: u64, first_ns: u64, last_ns: u64) {
        let (start, end) = (self.at, self.at + ns + first_ns + last_ns);
        for lane in 0..self.run.lanes {
            let first = if lane == 0 { 0 } else { first_ns };
            let last = if lane + 1 == self.run.lanes { 0 } else { last_ns };
            self.operator(lane, node, (start, end), first + last);
        }
        self.at = end;
    }

    fn operator(&mut self, lane: u64, node: u64, (start, end): (u64, u64), waiting: u64) {
        let mut fields = vec![("lane", Put::Int(lane)), ("node", Put::Int(node)), ("waiting", Put::Int(waiting))];
        if self.run.counted {
            fields.push(("cycles", Put::Int(3 * (end - start))));
        }
        self.r.push("operator", tid(lane), (start, end), &fields);
        self.set_cpu(if self.run.kept == Kept::EachOther { 0 } else { cpu(lane) });
    }

    fn switch(&mut self, cpu: u16, time: u64, (prev, state): (u32, u64), next: u32) {
        let mut fields = vec![("prev_state", Put::Int(state)), ("next_tid", Put::Int(next.into()))];
        for (tid, keys) in [(prev, ("prev_pid", "prev_comm")), (next, ("next_pid", "next_comm"))] {
            let (pid, name) = match tid {
                0 => (0, "swapper"),
                NEIGHBOUR => (NEIGHBOUR.into(), "neighbour"),
                _ => (100, "engine"),
            };
            fields.extend([(keys.0, Put::Int(pid)), (keys.1, Put::Text(name))]);
        }
        self.r.push("switch", prev, (time, time), &fields);
        self.set_cpu(cpu);
    }

    fn set_cpu(&mut self, cpu: u16) {
        self.r.records.last_mut().unwrap()[4..6].copy_from_slice(&cpu.to_le_bytes());
    }
}

fn tid(lane: u64) -> u32 {
    u32::try_from(lane + 1).unwrap()
}

fn cpu(lane: u64) -> u16 {
    u16::try_from(lane).unwrap()
}

fn schema(run: Run) -> profinfer_schema::Schema {
    let mut schema = profinfer_analysis::testing::schema();
    let switch = schema.records.iter_mut().find(|record| record.name == "switch").unwrap();
    for name in ["prev_pid", "next_pid"] {
        add(switch, name, FieldType::Uint(4));
    }
    for name in ["prev_comm", "next_comm"] {
        add(switch, name, FieldType::Text(16));
    }
    if let Kept::Disk(_) = run.kept {
        let tensor = schema.records.iter_mut().find(|record| record.name == "tensor").unwrap();
        add(tensor, "data", FieldType::Pointer);
        let mut fault = RecordType {
            name: "fault".into(),
            kind: RecordKind::Mark,
            role: Some(Role::Fault),
            size: profinfer_schema::HEADER_SIZE,
            fields: Vec::new(),
        };
        add(&mut fault, "address", FieldType::Uint(8));
        schema.records.push(fault);
    }
    if run.counted {
        let counting = |record: &&mut RecordType| matches!(record.role, Some(Role::Operator | Role::Step));
        schema.records.iter_mut().filter(counting).for_each(|record| add(record, "cycles", FieldType::Counter));
        let info = CounterInfo { event: "cycles".to_owned(), ..CounterInfo::default() };
        schema.counters.insert("cycles".to_owned(), info);
    }
    schema
}

fn add(record: &mut RecordType, name: &str, ty: FieldType) {
    record.fields.push(FieldLayout { name: name.to_owned(), offset: record.size, ty });
    record.size += record.fields.last().unwrap().ty.size().next_multiple_of(8);
}

/// The second product of layer 2 takes 100 µs more on each of two lanes.
pub(crate) const ODD: Run = Run { odd: Some((2, 100_000)), steps: 40, ..MEMORY };
