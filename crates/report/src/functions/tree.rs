//! Stacks as a tree of frames, bounded: the largest frames one by one, the others of each frame together.

use super::frames::{Frame, FrameKind};
use crate::numbers::ratios::natural_order;
use indexmap::IndexSet;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Frames of a tree while it grows; what comes deeper is counted with the frame that it is in.
const MOST_NODES: usize = 1 << 20;
/// Of everything.
const ROOT: usize = 0;

#[derive(Debug, Clone, Default)]
struct Node {
    /// Index of its frame.
    frame: u32,
    parent: u32,
    /// With what is in it.
    weight: u64,
    /// Of that, in frames for which there was no space.
    cut: u64,
}

/// Weights by frame.
#[derive(Debug)]
pub(super) struct Tree {
    frames: IndexSet<Frame>,
    nodes: Vec<Node>,
    /// By parent and frame.
    children: HashMap<(u32, u32), u32>,
}

/// A frame of a tree that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row<'t> {
    pub(super) what: Shown<'t>,
    /// Index of the row that it is in; the first row is in itself.
    pub(super) parent: usize,
    pub(super) weight: u64,
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown<'t> {
    Frame(&'t Frame),
    /// So many frames together.
    Merged(u64),
}

impl Tree {
    pub(super) fn new() -> Self {
        let all = Frame::new(FrameKind::All, "all");
        Self { frames: IndexSet::from([all]), nodes: vec![Node::default()], children: HashMap::new() }
    }

    /// The number of a frame.
    pub(super) fn number(&mut self, frame: Frame) -> u32 {
        u32::try_from(self.frames.insert_full(frame).0).unwrap_or(u32::MAX)
    }

    /// Adds a weight to a stack, the root first.
    pub(super) fn add(&mut self, stack: impl IntoIterator<Item = u32>, weight: u64) {
        let mut at = ROOT;
        self.nodes[ROOT].weight += weight;
        for frame in stack {
            let key = (at as u32, frame);
            at = match self.children.get(&key) {
                Some(child) => *child as usize,
                None if self.nodes.len() >= MOST_NODES => {
                    self.nodes[at].cut += weight;
                    return;
                }
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node { frame, parent: at as u32, ..Node::default() });
                    self.children.insert(key, child as u32);
                    child
                }
            };
            self.nodes[at].weight += weight;
        }
    }

    /// The weight of everything.
    pub(super) fn weight(&self) -> u64 {
        self.nodes[ROOT].weight
    }

    /// The largest frames, so many at most, and one for all others in a frame: each after the one that it is in, and the
    /// largest first, layers in their order.
    pub(super) fn rows(&self, most: usize) -> Vec<Row<'_>> {
        let shown = self.largest(most);
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut merged: Vec<(u64, u64)> = self.nodes.iter().map(|node| (node.cut, u64::from(node.cut > 0))).collect();
        // A frame is behind the one that it is in: that of the nearest shown one is decided before.
        let mut nearest: Vec<usize> = (0..self.nodes.len()).collect();
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            let parent = node.parent as usize;
            if shown[index] {
                children[parent].push(index);
                continue;
            }
            nearest[index] = nearest[parent];
            let of = &mut merged[nearest[parent]];
            of.1 += 1;
            of.0 += if shown[parent] { node.weight } else { 0 };
        }
        let mut rows = Vec::new();
        let mut left = vec![(ROOT, ROOT)];
        while let Some((index, parent)) = left.pop() {
            let row = rows.len();
            rows.push(Row { what: Shown::Frame(self.frame(index)), parent, weight: self.nodes[index].weight });
            let mut inside = std::mem::take(&mut children[index]);
            inside.sort_by(|a, b| self.order(*a, *b));
            // It has no frames in it: its place among the rows is the same wherever it is pushed.
            let (weight, frames) = merged[index];
            if frames > 0 {
                rows.push(Row { what: Shown::Merged(frames), parent: row, weight });
            }
            left.extend(inside.into_iter().rev().map(|child| (child, row)));
        }
        rows
    }

    fn frame(&self, index: usize) -> &Frame {
        &self.frames[self.nodes[index].frame as usize]
    }

    fn order(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let key = |index: usize| {
            let frame = self.frame(index);
            let layer = (frame.kind == FrameKind::Layer).then(|| frame.name.trim_start_matches("layer "));
            (layer, Reverse(self.nodes[index].weight), frame)
        };
        let ((layer_a, weight_a, frame_a), (layer_b, weight_b, frame_b)) = (key(a), key(b));
        let by_layer = if layer_a.is_some() || layer_b.is_some() {
            natural_order(layer_a, layer_b)
        } else {
            std::cmp::Ordering::Equal
        };
        by_layer.then_with(|| (weight_a, frame_a).cmp(&(weight_b, frame_b)))
    }

    /// Which frames are shown. A frame has at least the weight of those in it, and is before them: with one, all around
    /// it are shown.
    fn largest(&self, most: usize) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        order.sort_by_key(|index| (Reverse(self.nodes[*index].weight), *index));
        let mut shown = vec![false; self.nodes.len()];
        order.into_iter().take(most.max(1)).for_each(|index| shown[index] = true);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn tree(stacks: &[(Vec<u8>, u64)]) -> Tree {
        let mut tree = Tree::new();
        for (stack, weight) in stacks {
            let stack: Vec<u32> = stack
                .iter()
                .map(|frame| tree.number(Frame::new(FrameKind::Function, char::from(b'a' + frame).to_string())))
                .collect();
            tree.add(stack, *weight);
        }
        tree
    }

    fn shown<'t>(rows: &[Row<'t>]) -> Vec<(usize, String, u64)> {
        let name = |row: &Row<'_>| match row.what {
            Shown::Frame(frame) => frame.name.clone(),
            Shown::Merged(frames) => format!("+{frames}"),
        };
        rows.iter().map(|row| (row.parent, name(row), row.weight)).collect()
    }

    #[test]
    fn small_frames_are_merged_in_the_frame_that_they_are_in() {
        let tree = tree(&[(vec![0, 1], 50), (vec![0, 2, 3], 3), (vec![0, 4], 2), (vec![5], 40)]);
        let of = |parent, name: &str, weight| (parent, name.to_owned(), weight);
        assert_eq!(
            shown(&tree.rows(100)),
            [
                of(0, "all", 95),
                of(0, "a", 55),
                of(1, "b", 50),
                of(1, "c", 3),
                of(3, "d", 3),
                of(1, "e", 2),
                of(0, "f", 40)
            ]
        );
        assert_eq!(
            shown(&tree.rows(4)),
            [of(0, "all", 95), of(0, "a", 55), of(1, "+3", 5), of(1, "b", 50), of(0, "f", 40)]
        );
        assert_eq!(shown(&tree.rows(1)), [of(0, "all", 95), of(0, "+6", 95)]);
    }

    #[test]
    fn layers_are_in_their_order() {
        let mut tree = Tree::new();
        for (layer, weight) in [("10", 5), ("9", 1), ("11", 9)] {
            let layer = tree.number(Frame::new(FrameKind::Layer, format!("layer {layer}")));
            tree.add([layer], weight);
        }
        let names: Vec<String> = shown(&tree.rows(9)).into_iter().map(|(_, name, _)| name).collect();
        assert_eq!(names, ["all", "layer 9", "layer 10", "layer 11"]);
    }

    proptest! {
        /// However many frames are shown, the weight of each is that of the stacks through it, and nothing is lost.
        #[test]
        fn weights_are_those_of_the_stacks(
            stacks in prop::collection::vec((prop::collection::vec(0..4_u8, 0..5), 1..9_u64), 1..40),
            most in 1..60_usize,
        ) {
            let tree = tree(&stacks);
            let rows = tree.rows(most);
            prop_assert!(rows.len() <= 2 * most);
            let mut paths: Vec<Vec<String>> = Vec::new();
            let mut inside: BTreeMap<usize, u64> = BTreeMap::new();
            for (index, (parent, name, weight)) in shown(&rows).into_iter().enumerate() {
                prop_assert!(index == 0 || parent < index);
                let path =
                    if index == 0 { Vec::new() } else { [paths[parent].clone(), vec![name.clone()]].concat() };
                paths.push(path.clone());
                if index > 0 {
                    *inside.entry(parent).or_default() += weight;
                }
                if name.starts_with('+') {
                    continue;
                }
                let through = stacks.iter().filter(|(stack, _)| {
                    let stack: Vec<String> = stack.iter().map(|frame| char::from(b'a' + frame).to_string()).collect();
                    stack.starts_with(&path)
                });
                prop_assert_eq!(weight, through.map(|(_, weight)| weight).sum::<u64>());
            }
            for (parent, sum) in inside {
                prop_assert!(sum <= rows[parent].weight);
            }
        }
    }
}
