//! Kind and cost of operators, cached by the object that they compute. Most operators compute an object that was
//! computed before, and no description changed since.

use super::costs::Cost;
use super::objects::DescriptionsVersion;
use crate::ids::{InlineId, KindId, ObjectId};

/// Objects with an entry; operators of others are resolved each time.
const MAX_OBJECTS: usize = 1 << 20;

/// What determines an operator's kind, beside descriptions of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) inline: InlineId,
    pub(crate) covers: Option<ObjectId>,
    pub(crate) record_type: u16,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    generation: u64,
    origin: Origin,
    kind: KindId,
    cost: Option<Cost>,
}

/// Kind and cost by object.
#[derive(Debug, Default)]
pub(crate) struct KindCache {
    by_object: Vec<Option<Entry>>,
}

impl KindCache {
    /// The kind of an operator that ended at `end`: the cached one, else the result of `find`.
    pub(crate) fn kind(
        &mut self,
        object: Option<ObjectId>,
        origin: Origin,
        end: u64,
        descriptions: DescriptionsVersion,
        find: impl FnOnce() -> KindId,
    ) -> KindId {
        let Some(at) = object.map(|object| object.0 as usize).filter(|_| end >= descriptions.latest) else {
            return find();
        };
        let generation = descriptions.generation;
        let entry = self.by_object.get(at).copied().flatten();
        if let Some(entry) = entry.filter(|entry| entry.generation == generation && entry.origin == origin) {
            return entry.kind;
        }
        let kind = find();
        if at < MAX_OBJECTS {
            if self.by_object.len() <= at {
                self.by_object.resize(at + 1, None);
            }
            self.by_object[at] = Some(Entry { generation, origin, kind, cost: None });
        }
        kind
    }

    /// The cost of an operator of a kind that ended at `end`: the cached one, else the result of `find`.
    pub(crate) fn cost(
        &mut self,
        object: Option<ObjectId>,
        kind: KindId,
        end: u64,
        descriptions: DescriptionsVersion,
        find: impl FnOnce() -> Cost,
    ) -> Cost {
        let entry = object.and_then(|object| self.by_object.get_mut(object.0 as usize)?.as_mut());
        let holds = |entry: &&mut Entry| {
            end >= descriptions.latest && entry.generation == descriptions.generation && entry.kind == kind
        };
        match entry.filter(holds) {
            Some(entry) => *entry.cost.get_or_insert_with(find),
            None => find(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin { inline: 0, covers: None, record_type: 1 };

    fn kind(cache: &mut KindCache, end: u64, generation: u64, found: u32) -> u32 {
        let descriptions = DescriptionsVersion { generation, latest: 100 };
        cache.kind(Some(ObjectId(3)), ORIGIN, end, descriptions, || KindId(found)).0
    }

    #[test]
    fn an_operator_is_what_it_was_until_something_is_described() {
        let mut cache = KindCache::default();
        assert_eq!(kind(&mut cache, 100, 1, 5), 5);
        assert_eq!(kind(&mut cache, 200, 1, 6), 5, "nothing was described");
        assert_eq!(kind(&mut cache, 99, 1, 6), 6, "it ended before the latest description: an older one may hold");
        assert_eq!(kind(&mut cache, 300, 2, 7), 7, "something was described");
        assert_eq!(kind(&mut cache, 300, 2, 8), 7);
        let other = Origin { record_type: 2, ..ORIGIN };
        let descriptions = DescriptionsVersion { generation: 2, latest: 100 };
        assert_eq!(cache.kind(Some(ObjectId(3)), other, 300, descriptions, || KindId(9)), KindId(9));
    }

    #[test]
    fn its_cost_is_what_it_was_as_long_as_its_kind_is() {
        let mut cache = KindCache::default();
        let cost = |flops: f64| Cost { flops: Some(flops), ..Cost::default() };
        kind(&mut cache, 100, 1, 5);
        let mut of = |kind: u32, end: u64, generation: u64, found: f64| {
            let descriptions = DescriptionsVersion { generation, latest: 100 };
            cache.cost(Some(ObjectId(3)), KindId(kind), end, descriptions, || cost(found)).flops
        };
        assert_eq!(of(5, 100, 1, 1.0), Some(1.0));
        assert_eq!(of(5, 200, 1, 2.0), Some(1.0));
        assert_eq!(of(6, 200, 1, 3.0), Some(3.0), "another kind");
        assert_eq!(of(5, 50, 1, 4.0), Some(4.0), "before the latest description");
        assert_eq!(of(5, 200, 2, 5.0), Some(5.0), "something was described");
    }
}
