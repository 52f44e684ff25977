//! For what the kernel takes memory back, or moves it together, before a thread gets what it asks for.

/// What began it. The numbers are those of the records' field `reclaim_kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum ReclaimKind {
    /// The machine had too little free memory.
    Machine = 1,
    /// A control group reached its limit.
    Group = 2,
    /// No free memory was large enough in one piece.
    Compaction = 3,
}

impl ReclaimKind {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Machine, Self::Group, Self::Compaction];

    /// The one with this number.
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u64 == number)
    }

    /// Category and name of the tracepoint at its beginning.
    pub fn tracepoint(self) -> (&'static str, &'static str) {
        match self {
            Self::Machine => ("vmscan", "mm_vmscan_direct_reclaim_begin"),
            Self::Group => ("vmscan", "mm_vmscan_memcg_reclaim_begin"),
            Self::Compaction => ("compaction", "mm_compaction_begin"),
        }
    }

    /// What the names of the tracepoints at its beginning and its end have in common: `_begin` and `_end` follow.
    pub fn event(self) -> &'static str {
        self.tracepoint().1.trim_end_matches("_begin")
    }

    /// The one whose beginning a tracepoint is, by its name.
    pub fn at_tracepoint(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.tracepoint().1 == name)
    }
}
