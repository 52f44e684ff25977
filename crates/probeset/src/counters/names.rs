//! The events that perf supports on every machine, by name.

/// What the kernel counts for each thread: read from the thread's structure, whole and exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskCount {
    /// Page faults that waited for a disk.
    MajorFaults,
    /// Page faults that did not.
    MinorFaults,
    /// Both.
    Faults,
    /// The thread left a processor.
    Switches,
    /// The same because it waited for something.
    VoluntarySwitches,
    /// The same because another thread was to run.
    InvoluntarySwitches,
    /// It went on on another processor.
    Migrations,
}

impl TaskCount {
    /// The function of `bpf-runtime/counter.h` that reads it.
    pub fn function(self) -> &'static str {
        match self {
            Self::MajorFaults => "pf_major_faults",
            Self::MinorFaults => "pf_minor_faults",
            Self::Faults => "pf_faults",
            Self::Switches => "pf_switches",
            Self::VoluntarySwitches => "pf_voluntary_switches",
            Self::InvoluntarySwitches => "pf_involuntary_switches",
            Self::Migrations => "pf_migrations",
        }
    }
}

/// How an event that perf has a name for is counted. The numbers are the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generic {
    /// By the kernel, for each thread.
    Task(TaskCount),
    /// By the kernel, on each processor (`PERF_TYPE_SOFTWARE`).
    Software(u64),
    /// By the processor (`PERF_TYPE_HARDWARE`).
    Hardware(u64),
    /// By its caches (`PERF_TYPE_HW_CACHE`).
    Cache(u64),
}

/// Where an event stands in a list of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Of the processor.
    Hardware,
    /// Of its caches.
    Cache,
    /// Of the kernel, on each processor.
    Software,
    /// Of the kernel, for each thread.
    Thread,
}

impl Generic {
    /// Its group.
    pub fn group(self) -> Group {
        match self {
            Self::Task(_) => Group::Thread,
            Self::Software(_) => Group::Software,
            Self::Hardware(_) => Group::Hardware,
            Self::Cache(_) => Group::Cache,
        }
    }
}

/// Names, the usual one of each event first.
const EVENTS: &[(&str, Generic)] = &[
    ("cycles", Generic::Hardware(0)),
    ("cpu-cycles", Generic::Hardware(0)),
    ("instructions", Generic::Hardware(1)),
    ("cache-references", Generic::Hardware(2)),
    ("cache-misses", Generic::Hardware(3)),
    ("branches", Generic::Hardware(4)),
    ("branch-instructions", Generic::Hardware(4)),
    ("branch-misses", Generic::Hardware(5)),
    ("bus-cycles", Generic::Hardware(6)),
    ("stalled-cycles-frontend", Generic::Hardware(7)),
    ("idle-cycles-frontend", Generic::Hardware(7)),
    ("stalled-cycles-backend", Generic::Hardware(8)),
    ("idle-cycles-backend", Generic::Hardware(8)),
    ("ref-cycles", Generic::Hardware(9)),
    ("cpu-clock", Generic::Software(0)),
    ("task-clock", Generic::Software(1)),
    ("alignment-faults", Generic::Software(7)),
    ("emulation-faults", Generic::Software(8)),
    ("major-faults", Generic::Task(TaskCount::MajorFaults)),
    ("minor-faults", Generic::Task(TaskCount::MinorFaults)),
    ("page-faults", Generic::Task(TaskCount::Faults)),
    ("faults", Generic::Task(TaskCount::Faults)),
    ("context-switches", Generic::Task(TaskCount::Switches)),
    ("cs", Generic::Task(TaskCount::Switches)),
    ("voluntary-context-switches", Generic::Task(TaskCount::VoluntarySwitches)),
    ("involuntary-context-switches", Generic::Task(TaskCount::InvoluntarySwitches)),
    ("cpu-migrations", Generic::Task(TaskCount::Migrations)),
    ("migrations", Generic::Task(TaskCount::Migrations)),
];

/// Caches, by the kernel's number.
const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// Accesses; hits and misses.
const OPERATIONS: [(&str, &str); 3] =
    [("loads", "load-misses"), ("stores", "store-misses"), ("prefetches", "prefetch-misses")];

/// Every name and what it means; those of one event follow one another.
pub fn generic_events() -> impl Iterator<Item = (String, Generic)> {
    let caches = CACHES.iter().zip(0_u64..).flat_map(|(cache, number)| {
        OPERATIONS.iter().zip(0_u64..).flat_map(move |((all, misses), operation)| {
            let event = move |name: &str, result: u64| {
                (format!("{cache}-{name}"), Generic::Cache(number | operation << 8 | result << 16))
            };
            [event(all, 0), event(misses, 1)]
        })
    });
    // `branch-loads` is a cache's event, `branch-misses` the processor's: no name is given twice.
    EVENTS.iter().map(|(name, event)| ((*name).to_owned(), *event)).chain(caches)
}

/// The event of a name, written in any case.
pub(super) fn generic(name: &str) -> Option<Generic> {
    generic_events().find(|(event, _)| event.eq_ignore_ascii_case(name)).map(|(_, event)| event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_perfs_and_given_once() {
        assert_eq!(generic("stalled-cycles-backend"), Some(Generic::Hardware(8)));
        assert_eq!(generic("LLC-load-misses"), Some(Generic::Cache(0x1_0002)));
        assert_eq!(generic("L1-dcache-loads"), Some(Generic::Cache(0)));
        assert_eq!(generic("dTLB-store-misses"), Some(Generic::Cache(0x1_0103)));
        assert_eq!(generic("Major-Faults"), Some(Generic::Task(TaskCount::MajorFaults)));
        let mut names: Vec<String> = generic_events().map(|(name, _)| name.to_lowercase()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
