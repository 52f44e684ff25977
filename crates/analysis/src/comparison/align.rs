//! Which operators of one trace are which of the other: by name and type; where an operator was computed along with
//! another, by both names; else by their place in the order of execution. Times do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Cells of a table of two orders of execution; larger ones are not compared by place.
const MAX_CELLS: usize = 1 << 22;

/// Distinct shapes.
pub(super) type Shapes = BTreeSet<Arc<[i64]>>;

/// What an operator is, whatever its layer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pattern {
    pub(super) op: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) covers: Option<Arc<str>>,
}

/// One of the distinct operators of a phase, in the order of execution.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) pattern: Pattern,
    pub(super) shapes: Shapes,
}

/// How operators of one trace go with those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// The same name and type.
    Name,
    /// Another name, the same type at the same place in the order of execution.
    Place,
    /// Several of the first trace are computed as one in the second.
    Fused,
    /// One of the first trace is computed as several in the second.
    Split,
    /// At the same place in the order of execution there are others.
    Replaced,
    /// In the first trace only.
    Gone,
    /// In the second trace only.
    New,
}

impl Fit {
    /// `name`, `place`, `fused`, `split`, `replaced`, `gone`, `new`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Place => "place",
            Self::Fused => "fused",
            Self::Split => "split",
            Self::Replaced => "replaced",
            Self::Gone => "gone",
            Self::New => "new",
        }
    }
}

/// Operators that go together: their places in the two orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) fit: Fit,
    pub(super) a: Vec<usize>,
    pub(super) b: Vec<usize>,
}

/// Matches the operators of two traces; each is in one match.
pub(super) fn align(a: &[Item], b: &[Item]) -> Vec<Match> {
    let mut found =
        Alignment { a, b, a_taken: vec![false; a.len()], b_taken: vec![false; b.len()], matches: Vec::new() };
    let pairs = found.by_name();
    found.by_parts(Fit::Fused);
    found.by_parts(Fit::Split);
    found.by_place(&anchors(pairs));
    found.matches
}

struct Alignment<'a> {
    a: &'a [Item],
    b: &'a [Item],
    a_taken: Vec<bool>,
    b_taken: Vec<bool>,
    matches: Vec<Match>,
}

impl Alignment<'_> {
    fn take(&mut self, fit: Fit, a: Vec<usize>, b: Vec<usize>) {
        a.iter().for_each(|at| self.a_taken[*at] = true);
        b.iter().for_each(|at| self.b_taken[*at] = true);
        self.matches.push(Match { fit, a, b });
    }

    fn by_name(&mut self) -> Vec<(usize, usize)> {
        let places: HashMap<&Pattern, usize> =
            self.b.iter().enumerate().map(|(at, item)| (&item.pattern, at)).collect();
        let pair = |(at, item): (usize, &Item)| Some((at, *places.get(&item.pattern)?));
        let pairs: Vec<(usize, usize)> = self.a.iter().enumerate().filter_map(pair).collect();
        for (a, b) in &pairs {
            self.take(Fit::Name, vec![*a], vec![*b]);
        }
        pairs
    }

    /// An operator that covers another is what its two parts are elsewhere. One part may be a part of several.
    fn by_parts(&mut self, fit: Fit) {
        let (wholes, parts) = if fit == Fit::Fused { (self.b, self.a) } else { (self.a, self.b) };
        let (wholes_taken, parts_taken) =
            if fit == Fit::Fused { (&self.b_taken, &self.a_taken) } else { (&self.a_taken, &self.b_taken) };
        let named = |name: &str| {
            let free = parts.iter().enumerate().filter(|(at, _)| !parts_taken[*at]);
            free.filter(|(_, part)| part.pattern.covers.is_none() && *part.pattern.name == *name)
                .map(|(at, _)| at)
                .next()
        };
        let mut groups: Vec<(BTreeSet<usize>, BTreeSet<usize>)> = Vec::new();
        for (at, whole) in wholes.iter().enumerate().filter(|(at, _)| !wholes_taken[*at]) {
            let Some(covers) = whole.pattern.covers.as_deref() else { continue };
            let (Some(name), Some(covered)) = (named(&whole.pattern.name), named(covers)) else { continue };
            let mut group = (BTreeSet::from([at]), BTreeSet::from([name, covered]));
            // Groups that share a part are one.
            groups.retain(|(others, of)| {
                let apart = of.is_disjoint(&group.1);
                if !apart {
                    group.0.extend(others);
                    group.1.extend(of);
                }
                apart
            });
            groups.push(group);
        }
        for (wholes, parts) in groups {
            let (wholes, parts) = (wholes.into_iter().collect(), parts.into_iter().collect());
            let (a, b) = if fit == Fit::Fused { (parts, wholes) } else { (wholes, parts) };
            self.take(fit, a, b);
        }
    }

    /// Between operators that were aligned, those of a type that come in the same order are the same; what
    /// is left at one place replaces what is left there of the other.
    fn by_place(&mut self, anchors: &[(usize, usize)]) {
        let mut from = (0, 0);
        for to in anchors.iter().copied().chain([(self.a.len(), self.b.len())]) {
            let free = |taken: &[bool], from: usize, to: usize| (from..to).filter(|at| !taken[*at]).collect::<Vec<_>>();
            let gap = (free(&self.a_taken, from.0, to.0), free(&self.b_taken, from.1, to.1));
            self.fill(&gap.0, &gap.1);
            from = (to.0 + 1, to.1 + 1);
        }
        // What stands across an anchor is in no gap.
        for at in 0..self.a.len() {
            if !self.a_taken[at] {
                self.take(Fit::Gone, vec![at], Vec::new());
            }
        }
        for at in 0..self.b.len() {
            if !self.b_taken[at] {
                self.take(Fit::New, Vec::new(), vec![at]);
            }
        }
    }

    fn fill(&mut self, a: &[usize], b: &[usize]) {
        let pairs = self.common(a, b);
        let mut from = (0, 0);
        for (i, j) in pairs.iter().copied().chain([(a.len(), b.len())]) {
            let (gone, new) = (&a[from.0..i], &b[from.1..j]);
            match (gone.is_empty(), new.is_empty()) {
                (false, false) => self.take(Fit::Replaced, gone.to_vec(), new.to_vec()),
                (false, true) => gone.iter().for_each(|at| self.take(Fit::Gone, vec![*at], Vec::new())),
                (true, false) => new.iter().for_each(|at| self.take(Fit::New, Vec::new(), vec![*at])),
                (true, true) => {}
            }
            if let (Some(a), Some(b)) = (a.get(i), b.get(j)) {
                self.take(Fit::Place, vec![*a], vec![*b]);
            }
            from = (i + 1, j + 1);
        }
    }

    /// The longest common order of types, equal shapes preferred: pairs of places in the two lists.
    fn common(&self, a: &[usize], b: &[usize]) -> Vec<(usize, usize)> {
        let width = b.len() + 1;
        if a.is_empty() || b.is_empty() || (a.len() + 1).saturating_mul(width) > MAX_CELLS {
            return Vec::new();
        }
        let alike = |i: usize, j: usize| {
            let (a, b) = (&self.a[a[i]], &self.b[b[j]]);
            if a.pattern.op != b.pattern.op {
                return 0;
            }
            // Equal shapes decide among as many pairs.
            1024 + u32::from(!a.shapes.is_disjoint(&b.shapes))
        };
        // Of the rest of both lists, from (i, j) on.
        let mut best = vec![0_u32; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                let pair = alike(i, j);
                let with = if pair > 0 { best[(i + 1) * width + j + 1] + pair } else { 0 };
                best[i * width + j] = with.max(best[(i + 1) * width + j]).max(best[i * width + j + 1]);
            }
        }
        let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
        while i < a.len() && j < b.len() {
            let here = best[i * width + j];
            let pair = alike(i, j);
            if pair > 0 && here == best[(i + 1) * width + j + 1] + pair {
                pairs.push((i, j));
                (i, j) = (i + 1, j + 1);
            } else if here == best[(i + 1) * width + j] {
                i += 1;
            } else {
                j += 1;
            }
        }
        pairs
    }
}

/// The longest run of pairs that rises in both traces: operators that are the same and come in the same order.
fn anchors(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // The pair that ends the best run of each length, and what comes before each pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: BTreeMap<usize, usize> = BTreeMap::new();
    for (at, (_, b)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *b);
        if let Some(last) = length.checked_sub(1).and_then(|last| ends.get(last)) {
            before.insert(at, *last);
        }
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut run: Vec<(usize, usize)> =
        std::iter::successors(ends.last().copied(), |at| before.get(at).copied()).map(|at| pairs[at]).collect();
    run.reverse();
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TYPE name`, and ` name` of what is covered; or ` *N` for a shape.
    fn items(lines: &[&str]) -> Vec<Item> {
        let item = |line: &&str| {
            let mut words = line.split(' ');
            let mut next = || words.next();
            let (op, name, more) = (next().unwrap(), next().unwrap(), next());
            let extent = more.and_then(|more| more.strip_prefix('*')).map(|n| n.parse::<i64>().unwrap());
            Item {
                pattern: Pattern {
                    op: op.into(),
                    name: name.into(),
                    covers: more.filter(|more| !more.starts_with('*')).map(Into::into),
                },
                shapes: extent.map(|n| Arc::from([n].as_slice())).into_iter().collect(),
            }
        };
        lines.iter().map(item).collect()
    }

    /// `FIT a+b=c+d` of each match.
    fn aligned(a: &[&str], b: &[&str]) -> Vec<String> {
        let (a, b) = (items(a), items(b));
        let names = |of: &[Item], at: &[usize]| {
            at.iter().map(|at| of[*at].pattern.name.to_string()).collect::<Vec<_>>().join("+")
        };
        let mut found: Vec<String> = align(&a, &b)
            .iter()
            .map(|m| format!("{} {}={}", m.fit.as_str(), names(&a, &m.a), names(&b, &m.b)))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn names_go_first_and_places_second() {
        let a = ["MUL q", "ADD x", "MUL k", "SOFT s", "MUL v", "MUL out"];
        let b = ["MUL q", "ADD other", "MUL kk", "SOFT ss", "MUL out", "NORM n"];
        assert_eq!(
            aligned(&a, &b),
            ["gone v=", "name out=out", "name q=q", "new =n", "place k=kk", "place s=ss", "place x=other"]
        );
    }

    #[test]
    fn shapes_decide_between_equal_types() {
        let (a, b) = (["ADD s", "MUL up *8", "MUL down *4"], ["ADD s", "MUL z *4"]);
        assert_eq!(aligned(&a, &b), ["gone up=", "name s=s", "place down=z"]);
    }

    #[test]
    fn what_is_computed_together_is_its_parts() {
        let a = ["NORM norm", "MUL attn_norm", "MUL q", "MUL ffn_norm", "NORM last", "MUL result"];
        let b = ["norm_mul attn_norm norm", "MUL q", "norm_mul ffn_norm norm", "norm_mul result last"];
        let fused = ["fused last+result=result", "fused norm+attn_norm+ffn_norm=attn_norm+ffn_norm", "name q=q"];
        assert_eq!(aligned(&a, &b), fused);
        let split = ["name q=q", "split attn_norm+ffn_norm=norm+attn_norm+ffn_norm", "split result=last+result"];
        assert_eq!(aligned(&b, &a), split);
    }

    #[test]
    fn others_at_the_same_place_replace() {
        let a = ["ROPE q", "MUL kq", "SOFT soft", "MUL kqv", "CONT c", "MUL out"];
        let b = ["ROPE q", "FLASH node_*", "MUL out"];
        assert_eq!(aligned(&a, &b), ["name out=out", "name q=q", "replaced kq+soft+kqv+c=node_*"]);
    }

    #[test]
    fn another_order_is_no_difference() {
        assert_eq!(aligned(&["A a", "B b", "C c"], &["C c", "A a", "B b"]), ["name a=a", "name b=b", "name c=c"]);
        assert_eq!(aligned(&[], &["A a"]), ["new =a"]);
        assert!(aligned(&[], &[]).is_empty());
    }

    #[test]
    fn each_operator_is_in_one_match_whatever_there_is() {
        let mut random = fastrand::Rng::with_seed(11);
        for _ in 0..500 {
            let mut list = || {
                let mut patterns = BTreeSet::new();
                for _ in 0..random.usize(0..12) {
                    let covers = random.bool().then(|| ["a", "b", "c"][random.usize(0..3)].into());
                    let (op, name) = (["M", "A", "N"][random.usize(0..3)], ["a", "b", "c", "d"][random.usize(0..4)]);
                    patterns.insert(Pattern { op: op.into(), name: name.into(), covers });
                }
                let mut items: Vec<Item> =
                    patterns.into_iter().map(|pattern| Item { pattern, shapes: BTreeSet::new() }).collect();
                random.shuffle(&mut items);
                items
            };
            let (a, b) = (list(), list());
            let matches = align(&a, &b);
            let mut seen: Vec<usize> = matches.iter().flat_map(|m| m.a.clone()).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..a.len()).collect::<Vec<_>>(), "{matches:?}");
            let mut seen: Vec<usize> = matches.iter().flat_map(|m| m.b.clone()).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..b.len()).collect::<Vec<_>>(), "{matches:?}");
        }
    }
}
