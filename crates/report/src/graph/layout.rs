//! Where cards and lines stand in a picture, layer by layer: each card below all that it reads, few crossings, lines as
//! straight as can be. It works on sizes, without operators.

/// Between two cards side by side.
const GAP_X: f64 = 28.0;
/// Between two lines, or a line and a card.
const GAP_LINE: f64 = 14.0;
/// Between two rows of cards.
const GAP_Y: f64 = 30.0;
/// Above a section's first row (its heading), and below its last.
const HEADING: f64 = 44.0;
const FOOT: f64 = 18.0;
/// Between a section's frame and its cards.
const PADDING: f64 = 18.0;
/// Between two sections.
const BETWEEN: f64 = 26.0;
/// Cards that are connected with nothing in their section, side by side.
const ABREAST: usize = 4;
/// How much more a narrow row holds its place than others do.
const PIN: f64 = 1e6;
/// Passes over all rows, down and up, that order them.
const SWEEPS: usize = 12;
/// Passes that move nodes: to the middle of those above or below, of both, and then straight.
const EARLY: usize = 12;
const LATE: usize = 60;
const MOVES: usize = 120;
/// Bends of lines that are placed; with more, long lines have none.
const MAX_BENDS: usize = 60_000;

/// A card to be placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) section: usize,
}

/// A rectangle.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A line's points, from top to bottom.
pub(super) type Bends = Vec<(f64, f64)>;

/// Everything placed.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) cards: Vec<Place>,
    pub(super) sections: Vec<Place>,
    /// One for each line, in their order.
    pub(super) lines: Vec<Bends>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A card or a bend of a line, in a row.
#[derive(Debug, Clone, Copy)]
struct Item {
    row: usize,
    width: f64,
    x: f64,
    is_bend: bool,
}

struct Rows {
    items: Vec<Item>,
    rows: Vec<Vec<usize>>,
    above: Vec<Vec<usize>>,
    below: Vec<Vec<usize>>,
    /// The items that a line goes through.
    ways: Vec<Vec<usize>>,
}

/// Places cards, which are by section and in an order in which lines lead forwards. `notes`: height of what stands at a
/// section's foot.
pub(super) fn layout(cards: &[Size], lines: &[(usize, usize)], notes: &[f64]) -> Layout {
    if cards.is_empty() {
        return Layout::default();
    }
    let mut rows = Rows::new(cards, lines);
    rows.order();
    rows.straighten();
    rows.place(cards, notes)
}

impl Rows {
    fn new(cards: &[Size], lines: &[(usize, usize)]) -> Self {
        let row_of = rows_of(cards, lines);
        let mut items: Vec<Item> = (cards.iter().zip(&row_of))
            .map(|(card, row)| Item { row: *row, width: card.width, x: 0.0, is_bend: false })
            .collect();
        let count = row_of.iter().max().map_or(0, |last| last + 1);
        let (mut above, mut below) = (vec![Vec::new(); items.len()], vec![Vec::new(); items.len()]);
        let mut ways: Vec<Vec<usize>> = Vec::with_capacity(lines.len());
        let mut bends = 0;
        for (from, to) in lines {
            let between = items[*from].row + 1..items[*to].row;
            let mut way = vec![*from];
            if bends + between.len() <= MAX_BENDS {
                for row in between {
                    bends += 1;
                    way.push(items.len());
                    items.push(Item { row, width: 0.0, x: 0.0, is_bend: true });
                    above.push(Vec::new());
                    below.push(Vec::new());
                }
            }
            way.push(*to);
            for pair in way.windows(2) {
                below[pair[0]].push(pair[1]);
                above[pair[1]].push(pair[0]);
            }
            ways.push(way);
        }
        let mut rows = vec![Vec::new(); count];
        for (index, item) in items.iter().enumerate() {
            rows[item.row].push(index);
        }
        Self { items, rows, above, below, ways }
    }

    /// Orders each row with few crossings: by the mean place of the connected nodes, from above and from below in turn.
    #[allow(clippy::cast_precision_loss)]
    fn order(&mut self) {
        let mut at: Vec<f64> = vec![0.0; self.items.len()];
        let number = |row: &[usize], at: &mut [f64]| {
            row.iter().enumerate().for_each(|(position, item)| at[*item] = position as f64);
        };
        self.rows.iter().for_each(|row| number(row, &mut at));
        let mut best = (self.crossings(&at), self.rows.clone());
        for sweep in 0..SWEEPS {
            let down = sweep % 2 == 0;
            let count = self.rows.len();
            for step in 0..count {
                let index = if down { step } else { count - 1 - step };
                let neighbours = if down { &self.above } else { &self.below };
                let wish = |item: &usize| {
                    let of = &neighbours[*item];
                    if of.is_empty() { at[*item] } else { of.iter().map(|i| at[*i]).sum::<f64>() / of.len() as f64 }
                };
                let mut row: Vec<(f64, usize)> = self.rows[index].iter().map(|item| (wish(item), *item)).collect();
                row.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[index] = row.into_iter().map(|(_, item)| item).collect();
                number(&self.rows[index], &mut at);
            }
            let crossings = self.crossings(&at);
            if crossings < best.0 {
                best = (crossings, self.rows.clone());
            }
        }
        self.rows = best.1;
    }

    fn crossings(&self, at: &[f64]) -> usize {
        let mut crossings = 0;
        for row in &self.rows {
            let mut pairs: Vec<(f64, f64)> = Vec::new();
            for item in row {
                pairs.extend(self.below[*item].iter().map(|below| (at[*item], at[*below])));
            }
            // Rows are short; a row with very many lines is not worth the time.
            if pairs.len() > 512 {
                continue;
            }
            for (i, a) in pairs.iter().enumerate() {
                crossings += pairs[i + 1..].iter().filter(|b| (a.0 - b.0) * (a.1 - b.1) < 0.0).count();
            }
        }
        crossings
    }

    /// Moves each row's items to where their neighbours are, in their order.
    fn straighten(&mut self) {
        for row in &self.rows {
            let mut x = 0.0;
            for (position, item) in row.iter().enumerate() {
                if position > 0 {
                    x += self.apart(row[position - 1], *item);
                }
                self.items[*item].x = x;
            }
            let middle = x / 2.0;
            row.iter().for_each(|item| self.items[*item].x -= middle);
        }
        for sweep in 0..MOVES {
            let down = sweep % 2 == 0;
            let count = self.rows.len();
            for step in 0..count {
                let index = if down { step } else { count - 1 - step };
                let row = std::mem::take(&mut self.rows[index]);
                let wish = |item: &usize| match sweep {
                    0..EARLY => self.mean_wish(*item, down, !down),
                    EARLY..LATE => self.mean_wish(*item, true, true),
                    _ => self.median_wish(*item),
                };
                let narrow = self.is_narrow(&row);
                let pinned = |item: &usize| if narrow && !self.items[*item].is_bend { (0.0, PIN) } else { wish(item) };
                let wishes: Vec<(f64, f64)> = row.iter().map(pinned).collect();
                self.move_row(&row, &wishes);
                self.rows[index] = row;
            }
        }
    }

    /// All that is computed goes through one card, past which one line leads at most. Such cards stand below each other:
    /// they are what holds a picture of many layers together.
    fn is_narrow(&self, row: &[usize]) -> bool {
        let bends = row.iter().filter(|item| self.items[**item].is_bend).count();
        bends <= 1 && row.len() - bends == 1
    }

    /// Lines are to be straight where they are long; cards stand below cards rather than below passing lines.
    fn pull(&self, item: usize, other: usize) -> f64 {
        match (self.items[item].is_bend, self.items[other].is_bend) {
            (true, true) => 8.0,
            (false, false) => 1.0,
            _ => 0.5,
        }
    }

    /// Where an item would like to stand, and how much: in the middle of what it is connected with.
    fn mean_wish(&self, item: usize, by_above: bool, by_below: bool) -> (f64, f64) {
        let (mut sum, mut weight) = (0.0, 0.0);
        let sides = [(&self.above[item], by_above), (&self.below[item], by_below)];
        for other in sides.into_iter().filter(|(_, used)| *used).flat_map(|(others, _)| others) {
            let pull = self.pull(item, *other);
            sum += self.items[*other].x * pull;
            weight += pull;
        }
        if weight > 0.0 { (sum / weight, weight) } else { (self.items[item].x, 0.1) }
    }

    /// The same, right below or above one of them: chains become straight. Where two pull alike, the upper one wins.
    fn median_wish(&self, item: usize) -> (f64, f64) {
        let below = self.below[item].iter().map(|other| (*other, 0.45));
        let sides = self.above[item].iter().map(|other| (*other, 1.0)).chain(below);
        let mut pulls: Vec<(f64, f64)> =
            sides.map(|(other, side)| (self.items[other].x, side * self.pull(item, other))).collect();
        pulls.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = pulls.iter().map(|(_, pull)| pull).sum();
        let mut sum = 0.0;
        for (x, pull) in pulls {
            sum += pull;
            if sum >= all / 2.0 {
                return (x, all);
            }
        }
        (self.items[item].x, 0.1)
    }

    fn apart(&self, left: usize, right: usize) -> f64 {
        let (left, right) = (&self.items[left], &self.items[right]);
        let gap = if left.is_bend || right.is_bend { GAP_LINE } else { GAP_X };
        f64::midpoint(left.width, right.width) + gap
    }

    /// The places nearest to the wanted ones that preserve order and distances: nodes that are wanted too near to each
    /// other are moved as one block to the mean of their wanted places.
    fn move_row(&mut self, row: &[usize], wishes: &[(f64, f64)]) {
        let mut offset = 0.0;
        let mut offsets = Vec::with_capacity(row.len());
        let mut blocks: Vec<(f64, f64, usize)> = Vec::new(); // mean, weight, items
        for (position, item) in row.iter().enumerate() {
            if position > 0 {
                offset += self.apart(row[position - 1], *item);
            }
            offsets.push(offset);
            let (wish, weight) = wishes[position];
            blocks.push((wish - offset, weight, 1));
            while let [.., before, last] = blocks.as_slice()
                && before.0 > last.0
            {
                let weight = before.1 + last.1;
                let merged = ((before.0 * before.1 + last.0 * last.1) / weight, weight, before.2 + last.2);
                blocks.truncate(blocks.len() - 2);
                blocks.push(merged);
            }
        }
        let mut position = 0;
        for (mean, _, items) in blocks {
            for _ in 0..items {
                self.items[row[position]].x = mean + offsets[position];
                position += 1;
            }
        }
    }

    fn place(&self, cards: &[Size], notes: &[f64]) -> Layout {
        let left = |item: &Item| item.x - item.width / 2.0;
        let min = self.items.iter().map(left).fold(f64::INFINITY, f64::min) - PADDING;
        let max = self.items.iter().map(|item| item.x + item.width / 2.0).fold(f64::NEG_INFINITY, f64::max) + PADDING;
        let mut out = Layout { cards: vec![Place::default(); cards.len()], width: max - min, ..Layout::default() };
        out.sections = vec![Place::default(); notes.len()];
        let mut tops = Vec::with_capacity(self.rows.len());
        let (mut y, mut section) = (0.0, None);
        for row in &self.rows {
            let of_row = row.iter().filter(|item| **item < cards.len());
            let height = of_row.clone().map(|item| cards[*item].height).fold(0.0, f64::max);
            let current = of_row.clone().map(|item| cards[*item].section).next();
            if current.is_some() && current != section {
                if let Some(done) = section {
                    y = self.close(&mut out, done, y, notes);
                }
                section = current;
                if let Some(opened) = current.and_then(|current| out.sections.get_mut(current)) {
                    *opened = Place { x: 0.0, y, width: max - min, height: 0.0 };
                }
                y += HEADING;
            }
            tops.push((y, height));
            for item in of_row {
                let (card, size) = (&self.items[*item], cards[*item]);
                out.cards[*item] = Place { x: left(card) - min, y, width: size.width, height: size.height };
            }
            y += height + GAP_Y;
        }
        if let Some(done) = section {
            y = self.close(&mut out, done, y, notes);
        }
        out.height = y - BETWEEN;
        out.lines = self.ways.iter().map(|way| self.bends(way, &out, &tops, min)).collect();
        out
    }

    fn close(&self, out: &mut Layout, section: usize, y: f64, notes: &[f64]) -> f64 {
        let bottom = y - GAP_Y + FOOT + notes.get(section).copied().unwrap_or(0.0);
        if let Some(place) = out.sections.get_mut(section) {
            place.height = bottom - place.y;
        }
        bottom + BETWEEN
    }

    fn bends(&self, way: &[usize], out: &Layout, tops: &[(f64, f64)], min: f64) -> Bends {
        let mut points = Vec::with_capacity(way.len() + 2);
        for (position, item) in way.iter().enumerate() {
            match out.cards.get(*item) {
                Some(card) => {
                    let first = position == 0;
                    let others = if first { &self.below[*item] } else { &self.above[*item] };
                    let other = if first { way[1] } else { way[position - 1] };
                    let x = card.x + card.width / 2.0 + self.port(others, other, card.width);
                    points.push((x, if first { card.y + card.height } else { card.y }));
                }
                None => {
                    let (top, height) = tops[self.items[*item].row];
                    let x = self.items[*item].x - min;
                    points.push((x, top));
                    points.push((x, top + height));
                }
            }
        }
        points
    }

    /// Lines of one card leave and enter it side by side, in the order of where they lead.
    #[allow(clippy::cast_precision_loss)]
    fn port(&self, others: &[usize], other: usize, width: f64) -> f64 {
        let mut order: Vec<usize> = others.to_vec();
        order.sort_by(|a, b| self.items[*a].x.total_cmp(&self.items[*b].x));
        let count = order.len();
        let position = order.iter().position(|item| *item == other).unwrap_or(0);
        let each = (width * 0.6 / count.max(1) as f64).min(26.0);
        (position as f64 - (count as f64 - 1.0) / 2.0) * each
    }
}

/// Each card's row: below what it reads, and below the sections before.
fn rows_of(cards: &[Size], lines: &[(usize, usize)]) -> Vec<usize> {
    let mut above: Vec<Vec<usize>> = vec![Vec::new(); cards.len()];
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); cards.len()];
    for (from, to) in lines {
        above[*to].push(*from);
        below[*from].push(*to);
    }
    let mut rows = vec![0; cards.len()];
    let (mut first, mut next, mut section, mut alone) = (0, 0, usize::MAX, 0);
    for (index, card) in cards.iter().enumerate() {
        if card.section != section {
            (first, section, alone) = (next, card.section, 0);
        }
        let after = above[index].iter().map(|from| rows[*from] + 1).max().unwrap_or(0);
        rows[index] = after.max(first);
        let mut others = above[index].iter().chain(&below[index]);
        if !others.any(|other| cards[*other].section == section) {
            rows[index] = after.max(first + alone / ABREAST);
            alone += 1;
        }
        next = next.max(rows[index] + 1);
    }
    // What reads nothing of its section stands right above what reads it.
    for index in (0..cards.len()).rev() {
        let of_section = |other: &&usize| cards[**other].section == cards[index].section;
        if above[index].iter().filter(of_section).count() == 0 {
            let lowest = below[index].iter().filter(of_section).map(|to| rows[*to] - 1).min();
            rows[index] = lowest.map_or(rows[index], |lowest| lowest.max(rows[index]));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(section: usize) -> Size {
        Size { width: 100.0, height: 40.0, section }
    }

    #[test]
    fn cards_stand_below_what_they_read_and_apart() {
        let cards = [card(0), card(1), card(1), card(1), card(2)];
        let lines = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (0, 4)];
        let layout = layout(&cards, &lines, &[0.0; 3]);
        for (line, (from, to)) in layout.lines.iter().zip(lines) {
            assert!(layout.cards[from].y + 40.0 < layout.cards[to].y);
            assert!(line.windows(2).all(|pair| pair[0].1 <= pair[1].1), "lines lead down: {line:?}");
        }
        let (a, b) = (layout.cards[1], layout.cards[2]);
        assert!(a.y == b.y && (a.x - b.x).abs() >= 100.0 + GAP_X - 0.01, "{a:?} {b:?}");
        for (card, size) in layout.cards.iter().zip(cards) {
            let frame = layout.sections[size.section];
            assert!(frame.y <= card.y && card.y + card.height <= frame.y + frame.height);
            assert!(0.0 <= card.x && card.x + card.width <= layout.width);
        }
        assert!(layout.sections.windows(2).all(|pair| pair[0].y + pair[0].height < pair[1].y), "sections are apart");
    }

    #[test]
    fn lines_do_not_cross_where_they_need_not() {
        let cards = [card(0), card(0), card(0), card(0), card(0), card(0)];
        let lines = [(0, 1), (0, 2), (1, 4), (2, 3), (3, 5), (4, 5)];
        let layout = layout(&cards, &lines, &[0.0]);
        assert_eq!(layout.cards[1].x < layout.cards[2].x, layout.cards[4].x < layout.cards[3].x);
    }

    #[test]
    fn what_is_connected_with_nothing_does_not_widen_the_picture() {
        let layout = layout(&[card(0); 41], &[], &[0.0]);
        assert!(layout.width < 6.0 * 130.0, "{}", layout.width);
        assert!(layout.cards[40].y > layout.cards[0].y);
    }

    #[test]
    fn nothing_has_no_size() {
        assert_eq!(layout(&[], &[], &[]).cards, []);
    }
}
