//! The words that a probeset may write where the language has a fixed set of them, each with its meaning: roles, ways to
//! nest, conditions.

use super::model::Nested;
use profinfer_schema::Role;

/// The roles: as the language writes them, and what an event of each is.
const ROLES: [(&str, Role, &str); 22] = [
    ("step", Role::Step, "One decode or prefill call."),
    ("graph", Role::Graph, "One computation of a graph."),
    ("operator", Role::Operator, "One operator, or one thread's share of it."),
    ("share", Role::Share, "A part of an operator that another thread gave to this one."),
    ("experts", Role::Experts, "A mark: the experts that an operator used."),
    ("batch", Role::Batch, "A mark: the tokens of a step, and the sequences that they belong to."),
    ("request", Role::Request, "A mark: a request arrived, was given a sequence, or left it."),
    ("region", Role::Region, "Any other span: a barrier, a copy, a load."),
    ("dispatch", Role::Dispatch, "The host encodes or launches an operator for a device."),
    ("submit", Role::Submit, "Work is given to a device's queue."),
    ("wait", Role::Wait, "The host waits for a device."),
    ("copy", Role::Copy, "Data is copied to a device or from it."),
    ("device", Role::Device, "What a device is, or the times that it measured."),
    ("capture", Role::Capture, "Work is captured for later instead of given to a queue, or made ready to be launched."),
    ("job", Role::Job, "A job ran on a device, as the kernel's driver reports it; at its tracepoints."),
    ("boundary", Role::Boundary, "Ends spans of other probes or starts their waiting; leaves no record."),
    ("sched_switch", Role::SchedSwitch, "A thread stopped running; at `tracepoint sched:sched_switch`."),
    ("sched_wakeup", Role::SchedWakeup, "A thread became runnable; at `tracepoint sched:sched_wakeup`."),
    ("fault", Role::Fault, "A major fault ended; at `software major-faults`."),
    ("page_cache", Role::PageCache, "A part of a file is read into the page cache."),
    ("reclaim", Role::Reclaim, "Memory is taken back or compacted for a thread; at the kernel's tracepoints."),
    ("mark", Role::Mark, "An event without a duration."),
];

/// The roles' names, with what an event of each is.
pub(super) fn role_words() -> Vec<(&'static str, &'static str)> {
    ROLES.iter().map(|(name, _, about)| (*name, *about)).collect()
}

/// The roles' names.
pub(super) fn role_names() -> [&'static str; ROLES.len()] {
    ROLES.map(|(name, ..)| name)
}

/// The kernel's software events that a probe can be at, as perf calls them.
pub(super) const SOFTWARE_EVENTS: [&str; 1] = ["major-faults"];

/// The role of a name.
pub(super) fn role(name: &str) -> Option<Role> {
    ROLES.iter().find(|(entry, ..)| *entry == name).map(|(_, role, _)| *role)
}

/// A role's name.
pub(super) fn name_of(role: Role) -> &'static str {
    ROLES.iter().find(|(_, entry, _)| *entry == role).map(|(name, ..)| *name).unwrap_or_default()
}

/// How calls inside a call are taken: the word, and what it means.
pub(super) const NESTED: [(&str, Nested, &str); 2] = [
    ("outermost", Nested::Outermost, "Calls inside a call of the same probe are not recorded (default)."),
    ("all", Nested::All, "They are recorded."),
];

/// The words of `nested`, with what each means.
pub(super) fn nested_words() -> Vec<(&'static str, &'static str)> {
    NESTED.iter().map(|(word, _, about)| (*word, *about)).collect()
}

/// The keys of conditions on a file.
pub(super) const CONDITIONS: [&str; 2] = ["when", "unless"];

/// The keys of an enumeration that are not numbers.
pub(super) const OF_ENUMERATIONS: [&str; 3] = ["when", "unless", "table"];
