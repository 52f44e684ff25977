//! How large the ring is, where no option sets it: space for what may come while the reader does not run. The rate is not
//! available before a run; what the probeset records and how many processors there are bound it.

use super::sampling::SampleOptions;
use profinfer_compiler::ProbePlan;
use profinfer_machine::available_memory;
use profinfer_schema::Role;
use profinfer_schema::bpf::{STACK_COPY_BYTES, SampleStacks};
use profinfer_schema::{RecordKind, RecordType, Schema};

/// How long the reader may not run on a busy machine.
const SECONDS: f64 = 0.5;
/// Bytes that the ring adds to each record.
const RECORD_HEADER: u64 = 8;
/// Bytes of a ring that nobody gave a size.
const SMALLEST: u64 = 1 << 20;
const LARGEST: u64 = 64 << 20;
/// The ring takes at most this part of the memory that is free.
const SHARE_OF_MEMORY: u64 = 16;

/// Bytes of the ring buffer for a plan and its samples on this machine; a power of two.
pub(super) fn size(plan: &ProbePlan, samples: Option<SampleOptions>) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let stacks = samples.filter(|samples| samples.stacks == SampleStacks::Copy).map_or(0, |samples| samples.hz);
    bounded(wanted(&plan.schema, cpus) + wanted_for_stacks(stacks, cpus), available_memory())
}

/// The same for copies of stacks, which get half of a ring at most.
fn wanted_for_stacks(hz: u32, cpus: u64) -> u64 {
    u64::from(hz).saturating_mul(STACK_COPY_BYTES as u64).saturating_mul(cpus)
}

/// The largest number of bytes in that time, by the recorded probes.
#[allow(clippy::cast_precision_loss, clippy::cast_sign_loss)]
fn wanted(schema: &Schema, cpus: u64) -> u64 {
    let bytes = schema.records.iter().map(|record| per_second(record) * (record.size as u64 + RECORD_HEADER));
    (bytes.fold(0, u64::saturating_add).saturating_mul(cpus) as f64 * SECONDS) as u64
}

/// Records a second and processor, where all of them compute operators of 10 µs each. The smallest models seen have
/// shorter ones, on one processor.
fn per_second(record: &RecordType) -> u64 {
    match (record.kind, record.role) {
        (RecordKind::Switch | RecordKind::Wakeup, Some(_)) => 10_000,
        (RecordKind::Span | RecordKind::Mark, Some(Role::Operator | Role::Share | Role::Dispatch | Role::Region)) => {
            100_000
        }
        (RecordKind::Span | RecordKind::Mark, _) => 5000,
        _ => 100,
    }
}

fn bounded(wanted: u64, free: Option<u64>) -> u32 {
    let most = free.map_or(LARGEST, |free| (free / SHARE_OF_MEMORY).clamp(SMALLEST, LARGEST));
    // Down to a power of two where memory bounds it, up where it is wanted.
    let most = 1 << most.ilog2();
    u32::try_from(wanted.next_power_of_two().clamp(SMALLEST, most)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(roles: &[Role]) -> Schema {
        let record = |role: &Role| RecordType {
            name: "any".into(),
            kind: RecordKind::Span,
            role: Some(*role),
            size: 48,
            fields: vec![],
        };
        Schema { records: roles.iter().map(record).collect(), ..Schema::default() }
    }

    #[test]
    fn what_is_recorded_and_how_many_processors_decide() {
        let size = |roles: &[Role], cpus| bounded(wanted(&schema(roles), cpus), None) >> 20;
        assert_eq!(size(&[Role::Step, Role::Graph], 2), 1);
        assert_eq!(size(&[Role::Step, Role::Graph, Role::Operator], 2), 8);
        assert_eq!(size(&[Role::Step, Role::Graph, Role::Operator, Role::Region], 2), 16);
        assert_eq!(size(&[Role::Step, Role::Graph, Role::Operator, Role::Region], 64), 64);
    }

    #[test]
    fn little_memory_makes_it_smaller() {
        let operators = wanted(&schema(&[Role::Operator]), 8);
        assert_eq!(bounded(operators, Some(100 << 20)), 4 << 20);
        assert_eq!(bounded(operators, Some(0)), 1 << 20);
        assert!(available_memory().is_some_and(|free| free > 0));
    }
}
