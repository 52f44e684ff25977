//! What operators were found to be, by the objects that they compute. Most of a trace's operators compute an object that
//! was computed before, and nothing was described anew since: then they are what they were.

use super::catalogue::{InlineId, KindId, ObjectId};
use super::costs::Cost;

/// Objects that are remembered; operators of further ones are looked up each time.
const MAX_OBJECTS: usize = 1 << 20;

/// All that an operator's kind comes of, beside descriptions of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) inline: InlineId,
    pub(super) covers: Option<ObjectId>,
    pub(super) record: u16,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    generation: u64,
    origin: Origin,
    kind: KindId,
    cost: Option<Cost>,
}

/// Descriptions as they stand: how often any was changed, and the latest time from which one holds. What was found by
/// descriptions holds for operators that ended after that time, until a description changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Descriptions {
    pub(super) generation: u64,
    pub(super) latest: u64,
}

impl Descriptions {
    /// One changes: another holds from a time on.
    pub(super) fn change(&mut self, from: u64) {
        self.generation += 1;
        self.latest = self.latest.max(from);
    }
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct KnownOperators {
    by_object: Vec<Option<Known>>,
}

impl KnownOperators {
    /// The kind of an operator that ended at a time: the one it was, else what `find` finds.
    pub(super) fn kind(
        &mut self,
        object: Option<ObjectId>,
        (origin, end): (Origin, u64),
        descriptions: Descriptions,
        find: impl FnOnce() -> KindId,
    ) -> KindId {
        let Some(at) = object.map(|object| object.0 as usize).filter(|_| end >= descriptions.latest) else {
            return find();
        };
        let generation = descriptions.generation;
        let known = self.by_object.get(at).copied().flatten();
        if let Some(known) = known.filter(|known| known.generation == generation && known.origin == origin) {
            return known.kind;
        }
        let kind = find();
        if at < MAX_OBJECTS {
            if self.by_object.len() <= at {
                self.by_object.resize(at + 1, None);
            }
            self.by_object[at] = Some(Known { generation, origin, kind, cost: None });
        }
        kind
    }

    /// What an operator of a kind costs that ended at a time: what it did, else what `find` finds.
    pub(super) fn cost(
        &mut self,
        object: Option<ObjectId>,
        (kind, end): (KindId, u64),
        descriptions: Descriptions,
        find: impl FnOnce() -> Cost,
    ) -> Cost {
        let known = object.and_then(|object| self.by_object.get_mut(object.0 as usize)?.as_mut());
        let holds = |known: &&mut Known| {
            end >= descriptions.latest && known.generation == descriptions.generation && known.kind == kind
        };
        match known.filter(holds) {
            Some(known) => *known.cost.get_or_insert_with(find),
            None => find(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { inline: 0, covers: None, record: 1 };

    fn kind(known: &mut KnownOperators, end: u64, generation: u64, found: u32) -> u32 {
        let descriptions = Descriptions { generation, latest: 100 };
        known.kind(Some(ObjectId(3)), (ORIGIN, end), descriptions, || KindId(found)).0
    }

    #[test]
    fn an_operator_is_what_it_was_until_something_is_described() {
        let mut known = KnownOperators::default();
        assert_eq!(kind(&mut known, 100, 1, 5), 5);
        assert_eq!(kind(&mut known, 200, 1, 6), 5, "nothing was described");
        assert_eq!(kind(&mut known, 99, 1, 6), 6, "it ended before the latest description: an older one may hold");
        assert_eq!(kind(&mut known, 300, 2, 7), 7, "something was described");
        assert_eq!(kind(&mut known, 300, 2, 8), 7);
        let other = Origin { record: 2, ..ORIGIN };
        let descriptions = Descriptions { generation: 2, latest: 100 };
        assert_eq!(known.kind(Some(ObjectId(3)), (other, 300), descriptions, || KindId(9)), KindId(9));
    }

    #[test]
    fn its_cost_is_what_it_was_as_long_as_its_kind_is() {
        let mut known = KnownOperators::default();
        let cost = |flops: f64| Cost { flops: Some(flops), ..Cost::default() };
        kind(&mut known, 100, 1, 5);
        let mut of = |kind: u32, end: u64, generation: u64, found: f64| {
            let descriptions = Descriptions { generation, latest: 100 };
            known.cost(Some(ObjectId(3)), (KindId(kind), end), descriptions, || cost(found)).flops
        };
        assert_eq!(of(5, 100, 1, 1.0), Some(1.0));
        assert_eq!(of(5, 200, 1, 2.0), Some(1.0));
        assert_eq!(of(6, 200, 1, 3.0), Some(3.0), "another kind");
        assert_eq!(of(5, 50, 1, 4.0), Some(4.0), "before the latest description");
        assert_eq!(of(5, 200, 2, 5.0), Some(5.0), "something was described");
    }
}
