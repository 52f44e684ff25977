//! Counters in records: by how much a thread's counts rose during a span. Their columns are the same for every record
//! type; a type without a counter has it absent. An absent count makes every sum absent that it is a part of: a part
//! is never shown as the whole.

use super::header::{Header, NumberAt};
use profinfer_schema::{FieldType, RecordType, Schema};
use std::sync::Arc;

/// Columns of counters; further counters are left out.
pub(crate) const MAX_COUNTERS: usize = 48;

/// A count, exact, estimated or absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// Not counted.
    #[default]
    Absent,
    /// Counted from the start to the end.
    Exact(u64),
    /// Counted for a part of the time and scaled up, or for a little more than the time.
    Estimate(u64),
}

impl Count {
    /// Nothing, counted exactly: what sums begin with.
    pub const ZERO: Self = Self::Exact(0);

    /// The number.
    pub fn value(self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Exact(n) | Self::Estimate(n) => Some(n),
        }
    }

    /// It is not what was counted.
    pub fn is_estimate(self) -> bool {
        matches!(self, Self::Estimate(_))
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// This one without a part of it.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        match (self, other) {
            (Self::Absent, _) | (_, Self::Absent) => Self::Absent,
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(of(a, b)),
            (Self::Exact(a) | Self::Estimate(a), Self::Exact(b) | Self::Estimate(b)) => Self::Estimate(of(a, b)),
        }
    }

    /// The count of a span of `whole` ns whose first `part` ns are the operator's: an estimate if the rest is short, else
    /// absent.
    #[must_use]
    pub(crate) fn clipped(self, part: u64, whole: u64) -> Self {
        let beyond = whole.saturating_sub(part);
        match self.value() {
            Some(n) if beyond > 0 && beyond <= part / MAX_BEYOND => Self::Estimate(n),
            Some(_) if beyond > 0 => Self::Absent,
            _ => self,
        }
    }
}

/// A count over a span that goes on after the operator is taken for the operator's where it goes on for a tenth at
/// most.
const MAX_BEYOND: u64 = 10;

/// The columns of counts: every counter that a record type of the trace has.
pub(crate) fn columns(schema: &Schema) -> Vec<Arc<str>> {
    let is_counter = |ty: &FieldType| *ty == FieldType::Counter;
    let fields = || schema.records.iter().flat_map(|r| &r.fields).filter(|f| is_counter(&f.ty));
    let recorded = schema.counters.keys().filter(|name| fields().any(|f| f.name == **name));
    let mut columns: Vec<Arc<str>> = recorded.map(|name| Arc::from(name.as_str())).collect();
    for field in fields() {
        if !columns.iter().any(|name| **name == *field.name) {
            columns.push(field.name.as_str().into());
        }
    }
    columns.truncate(MAX_COUNTERS);
    columns
}

/// Where the counters of one record type stand.
#[derive(Debug, Default)]
pub(crate) struct CountersAt {
    /// Column, index of the field, place.
    counters: Vec<(usize, usize, NumberAt)>,
    scaled: Option<NumberAt>,
}

impl CountersAt {
    pub(crate) fn of(record: &RecordType, columns: &[Arc<str>]) -> Self {
        let fields = record.fields.iter().enumerate();
        let counter = |(index, field): (usize, &profinfer_schema::FieldLayout)| {
            let column = columns.iter().position(|name| **name == *field.name)?;
            (field.ty == FieldType::Counter).then_some((column, index, NumberAt::of(field, index)?))
        };
        let scaled = record.fields.iter().position(|f| f.ty == FieldType::Scaled);
        Self {
            counters: fields.filter_map(counter).collect(),
            scaled: scaled.and_then(|index| NumberAt::of(&record.fields[index], index)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// A record's counts, a column each.
    pub(crate) fn read(&self, header: &Header, record: &[u8], columns: usize) -> Box<[Count]> {
        let mut counts = vec![Count::Absent; columns].into_boxed_slice();
        // Where it cannot be read which were scaled, any may have been.
        let scaled = self.scaled.map_or(0, |at| at.read(record, header.missing).unwrap_or(u64::MAX));
        for (column, index, at) in &self.counters {
            let (Some(value), Some(count)) = (at.read(record, header.missing), counts.get_mut(*column)) else {
                continue;
            };
            let is_scaled = u32::try_from(*index).ok().and_then(|i| scaled.checked_shr(i)).is_some_and(|m| m & 1 != 0);
            *count = if is_scaled { Count::Estimate(value) } else { Count::Exact(value) };
        }
        counts
    }
}
