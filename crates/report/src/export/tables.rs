//! Which tables there are, and their columns: name, type, unit, whether it may be null, what it is.

/// A column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// 64 bits, signed.
    Int,
    /// 64 bits.
    Float,
    /// True or false.
    Bool,
    /// UTF-8.
    Text,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name, for ever.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnKind,
    /// It may be null: not recorded, or there is none.
    pub nullable: bool,
}

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name, for ever.
    pub name: &'static str,
    /// Its columns, in this order.
    pub columns: &'static [Column],
}

const fn column(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: false }
}

const fn maybe(name: &'static str, kind: ColumnKind) -> Column {
    Column { name, kind, nullable: true }
}

use ColumnKind::{Bool, Float, Int, Text};

/// Numbers of the tables in [`TABLES`].
pub(super) const RUNS: usize = 0;
pub(super) const STEPS: usize = 1;
pub(super) const GRAPHS: usize = 2;
pub(super) const OPERATORS: usize = 3;
pub(super) const LANES: usize = 4;
pub(super) const COUNTS: usize = 5;
pub(super) const REGIONS: usize = 6;
pub(super) const EXPERTS: usize = 7;
pub(super) const DISPATCHES: usize = 8;
pub(super) const QUEUE: usize = 9;

/// Every table.
pub static TABLES: [Table; 10] = [
    Table {
        name: "runs",
        columns: &[
            column("engine", Text),
            column("probeset", Text),
            column("command", Text),
            column("pid", Int),
            column("machine", Text),
            column("cpu_model", Text),
            column("cpus", Int),
            column("memory_bytes", Int),
            column("kernel", Text),
            column("arch", Text),
            column("recorder", Text),
            column("wall_clock_ns", Int),
            maybe("duration_ns", Int),
            column("steps", Int),
            column("records", Int),
            column("complete", Bool),
            column("verdict", Text),
            maybe("ended", Text),
            column("build", Text),
        ],
    },
    Table {
        name: "steps",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("pid", Int),
            column("tid", Int),
            column("start_ns", Int),
            column("duration_ns", Int),
            maybe("tokens", Int),
            column("complete", Bool),
            column("recorded", Text),
            maybe("sampling_window", Int),
            column("lanes", Int),
            column("graphs", Int),
            column("operators", Int),
            column("in_graphs_ns", Int),
            column("work_ns", Int),
            maybe("waiting_ns", Int),
            maybe("context", Int),
            maybe("reclaim_ns", Int),
        ],
    },
    Table {
        name: "graphs",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("graph", Int),
            maybe("parent", Int),
            column("backend", Text),
            column("tid", Int),
            column("start_ns", Int),
            column("duration_ns", Int),
            maybe("tokens", Int),
        ],
    },
    Table {
        name: "operators",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("operator", Int),
            maybe("graph", Int),
            maybe("backend", Text),
            column("op", Text),
            column("name", Text),
            column("pattern", Text),
            maybe("covers", Text),
            maybe("covers_pattern", Text),
            maybe("layer", Text),
            maybe("dtype", Text),
            maybe("shape", Text),
            column("start_ns", Int),
            column("elapsed_ns", Int),
            column("work_ns", Int),
            maybe("waiting_ns", Int),
            column("lanes", Int),
            maybe("flops", Float),
            maybe("bytes", Float),
            column("flops_bound", Bool),
            column("bytes_bound", Bool),
            column("layer_inferred", Bool),
        ],
    },
    Table {
        name: "lanes",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("operator", Int),
            column("lane", Int),
            column("tid", Int),
            column("start_ns", Int),
            column("duration_ns", Int),
            column("work_ns", Int),
            maybe("waiting_ns", Int),
            maybe("compute_ns", Int),
            maybe("wait_for_lanes_ns", Int),
            maybe("runnable_ns", Int),
            maybe("sleeping_ns", Int),
            maybe("blocked_ns", Int),
            maybe("unknown_ns", Int),
            maybe("reclaim_ns", Int),
        ],
    },
    Table {
        name: "counts",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("operator", Int),
            column("lane", Int),
            column("counter", Text),
            column("value", Int),
            column("estimate", Bool),
        ],
    },
    Table {
        name: "regions",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("region", Text),
            column("tid", Int),
            column("start_ns", Int),
            column("duration_ns", Int),
            maybe("operator", Int),
        ],
    },
    Table {
        name: "experts",
        columns: &[
            column("step", Int),
            column("phase", Text),
            maybe("operator", Int),
            maybe("layer", Text),
            column("first_of_layer", Bool),
            column("choice", Int),
            column("expert", Int),
            maybe("per_token", Int),
        ],
    },
    Table {
        name: "dispatches",
        columns: &[
            column("step", Int),
            column("phase", Text),
            maybe("graph", Int),
            maybe("backend", Text),
            column("op", Text),
            column("name", Text),
            maybe("layer", Text),
            maybe("dtype", Text),
            maybe("shape", Text),
            maybe("index", Int),
            column("operators", Int),
            maybe("fused", Text),
            column("empty", Bool),
            column("tid", Int),
            column("start_ns", Int),
            column("encoding_ns", Int),
            maybe("device_ns", Int),
            maybe("device_estimate_ns", Int),
            maybe("launches", Text),
        ],
    },
    Table {
        name: "queue",
        columns: &[
            column("step", Int),
            column("phase", Text),
            column("event", Text),
            column("probe", Text),
            column("tid", Int),
            column("start_ns", Int),
            column("duration_ns", Int),
            maybe("queue", Text),
            maybe("graph", Int),
            maybe("done_by_ns", Int),
            maybe("bytes", Int),
            maybe("direction", Text),
            column("failed", Bool),
            maybe("ran_from_ns", Int),
            maybe("ran_ns", Int),
        ],
    },
];
