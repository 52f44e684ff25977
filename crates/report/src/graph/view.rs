//! What a picture of a graph shows: cards for operators, folded or not, with the data that they read, and lines
//! between them.

use super::model::{FoldView, GraphReport, NodeView};
use std::collections::{BTreeMap, BTreeSet};

/// An operator, or the same one of several layers.
#[derive(Debug, Clone)]
pub(super) struct Card {
    /// Indices of the nodes.
    pub(super) members: Vec<usize>,
    /// Index of the section.
    pub(super) section: usize,
    /// Data that it reads.
    pub(super) reads: Vec<Datum>,
    /// One of the nodes is on the critical path.
    pub(super) critical: bool,
}

/// Data that an operator reads, and no operator made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Datum {
    /// As which input.
    pub(super) position: u16,
    /// `weight`, `cache`, `input`, `unknown`.
    pub(super) kind: &'static str,
    /// Its name; without the layer's number where it is of several.
    pub(super) name: String,
    /// Its types.
    pub(super) dtypes: BTreeSet<String>,
    /// Its shape, if all have the same.
    pub(super) shape: Option<Vec<i64>>,
    /// The operator writes into it.
    pub(super) written: bool,
}

/// A line between cards.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Through memory that another object names.
    pub(super) memory: bool,
    pub(super) critical: bool,
}

/// The cards and lines of a picture.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    pub(super) report: &'a GraphReport,
    pub(super) fold: &'a FoldView,
    pub(super) cards: Vec<Card>,
    /// They lead from earlier cards to later ones.
    pub(super) lines: Vec<Line>,
    /// By section: which cards of a layer are read by which of the next layer.
    pub(super) to_next_layer: Vec<BTreeSet<(usize, usize)>>,
}

impl<'a> View<'a> {
    pub(super) fn new(report: &'a GraphReport, fold: &'a FoldView) -> Self {
        let mut cards: Vec<Card> = Vec::new();
        let mut place: Vec<Option<usize>> = vec![None; report.nodes.len()];
        for (section, of) in fold.sections.iter().enumerate() {
            for ids in &of.nodes {
                let members: Vec<usize> = ids.iter().filter_map(|id| report.index(id)).collect();
                members.iter().for_each(|member| place[*member] = Some(cards.len()));
                let critical = members.iter().any(|member| report.nodes[*member].critical);
                cards.push(Card { members, section, reads: Vec::new(), critical });
            }
        }
        let mut view = Self { report, fold, cards, lines: Vec::new(), to_next_layer: Vec::new() };
        view.to_next_layer = vec![BTreeSet::new(); fold.sections.len()];
        view.connect(&place);
        view
    }

    fn connect(&mut self, place: &[Option<usize>]) {
        let mut lines: BTreeMap<(usize, usize), Line> = BTreeMap::new();
        let mut data: BTreeMap<(usize, u16, &'static str), Vec<usize>> = BTreeMap::new();
        for edge in &self.report.edges {
            let (Some(from), Some(to)) = (self.report.index(&edge.from), self.report.index(&edge.to)) else { continue };
            let Some(reader) = place[to] else { continue };
            let Some(maker) = place[from] else {
                let position = edge.inputs.first().copied().unwrap_or(0);
                let found = data.entry((reader, position, self.report.nodes[from].kind)).or_default();
                if !found.contains(&from) {
                    found.push(from);
                }
                continue;
            };
            let layers = (&self.report.nodes[from].layer, &self.report.nodes[to].layer);
            let section = self.cards[reader].section;
            if self.cards[maker].section == section && layers.0 != layers.1 {
                self.to_next_layer[section].insert((maker, reader));
                continue;
            }
            if maker == reader {
                continue;
            }
            let new = Line { from: maker, to: reader, memory: true, critical: false };
            let line = lines.entry((maker, reader)).or_insert(new);
            line.memory &= edge.via == "memory";
            line.critical |= edge.critical;
        }
        self.lines = lines.into_values().filter(|line| line.from < line.to).collect();
        for ((card, position, kind), nodes) in data {
            let datum = self.datum(position, kind, &nodes, card);
            self.cards[card].reads.push(datum);
        }
        for card in &mut self.cards {
            card.reads.sort();
        }
    }

    fn datum(&self, position: u16, kind: &'static str, nodes: &[usize], card: usize) -> Datum {
        let of = |i: &usize| &self.report.nodes[*i];
        let first = of(&nodes[0]);
        let name = if nodes.len() > 1 { pattern(nodes.iter().map(of)) } else { first.name.clone() };
        let same = nodes.iter().all(|i| of(i).shape == first.shape);
        Datum {
            position,
            kind,
            name,
            dtypes: nodes.iter().filter_map(|i| of(i).dtype.clone()).collect(),
            shape: same.then(|| first.shape.clone()),
            written: kind == "cache" && self.cards[card].members.iter().any(|i| of(i).in_place),
        }
    }

    /// The mean over a card's operators.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn mean(&self, card: &Card, of: impl Fn(&NodeView) -> f64) -> f64 {
        let sum: f64 = card.members.iter().map(|i| of(&self.report.nodes[*i])).sum();
        sum / card.members.len().max(1) as f64
    }

    /// The sum over a card's operators.
    pub(super) fn sum(&self, card: &Card, of: impl Fn(&NodeView) -> f64) -> f64 {
        card.members.iter().map(|i| of(&self.report.nodes[*i])).sum()
    }

    /// The first of a card's operators, which stands for all.
    pub(super) fn first(&self, card: &Card) -> Option<&NodeView> {
        card.members.first().map(|i| &self.report.nodes[*i])
    }

    /// A card's name.
    pub(super) fn name(&self, card: &Card) -> String {
        match card.members.as_slice() {
            [one] => self.report.nodes[*one].name.clone(),
            _ => pattern(card.members.iter().map(|i| &self.report.nodes[*i])),
        }
    }

    /// A metric, as the mean over a card's operators that have it.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn metric(&self, card: &Card, name: &str) -> Option<f64> {
        let value = |i: &usize| {
            let cost = self.report.nodes[*i].cost.as_ref()?;
            cost.metrics.iter().find(|cell| cell.metric == name).map(|cell| cell.value)
        };
        let values: Vec<f64> = card.members.iter().filter_map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// What a card is of.
    pub(super) fn backends(&self, card: &Card) -> Vec<&str> {
        let all: BTreeSet<&str> =
            card.members.iter().filter_map(|i| self.report.nodes[*i].backend.as_deref()).collect();
        all.into_iter().collect()
    }
}

/// What the names have in common.
pub(super) fn pattern<'n>(mut nodes: impl Iterator<Item = &'n NodeView>) -> String {
    let Some(first) = nodes.next() else { return String::new() };
    let (mut pattern, mut same) = (first.pattern.clone(), true);
    for node in nodes {
        same &= node.name == first.name;
        if node.pattern != pattern {
            pattern = common(&pattern, &node.pattern);
        }
    }
    if same { first.name.clone() } else { pattern }
}

/// The same beginning and end, with `*` between them.
fn common(a: &str, b: &str) -> String {
    let start: String = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let rest = a.chars().count().min(b.chars().count()) - start.chars().count();
    let end = a.chars().rev().zip(b.chars().rev()).take(rest).take_while(|(a, b)| a == b).map(|(a, _)| a);
    let end: String = end.collect::<Vec<char>>().into_iter().rev().collect();
    format!("{}*{}", start.trim_end_matches('*'), end.trim_start_matches('*'))
}

/// A name as the same operator of every layer has it.
pub(super) fn without_layer(name: &str, node: &NodeView) -> String {
    profinfer_analysis::collapse_digits(name, node.layer.as_deref())
}
