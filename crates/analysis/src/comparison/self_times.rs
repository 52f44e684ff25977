//! Which operator each moment of a step belongs to.

use crate::step::Step;

/// Deals a step's time out to its operators, so that their parts never add up to more than the step: each instant
/// belongs to the operator that began last of those going on. Gives what belongs to any.
pub(super) fn self_times(step: &Step, open: &mut Vec<(usize, u64)>, times: &mut Vec<u64>) -> u64 {
    times.clear();
    times.resize(step.operators.len(), 0);
    open.clear();
    let mut now = step.start;
    let mut spend = |open: &mut Vec<(usize, u64)>, until: u64| {
        while let Some((operator, end)) = open.last().copied() {
            let part = end.min(until);
            if part > now {
                times[operator] += part - now;
                now = part;
            }
            if end > until {
                break;
            }
            open.pop();
        }
        now = now.max(until);
    };
    for (index, operator) in step.operators.iter().enumerate() {
        spend(open, operator.start.clamp(step.start, step.end));
        open.push((index, operator.end.min(step.end)));
    }
    spend(open, step.end);
    times.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Catalogue;
    use crate::ids::KindId;
    use crate::step::Operator;

    fn kind() -> KindId {
        let mut catalogue = Catalogue::default();
        catalogue.combine(0, 0, 0, 0, &"probe".into())
    }

    #[test]
    fn each_instant_of_a_step_belongs_to_one_operator() {
        let operator = |(start, end): (u64, u64)| Operator {
            kind: kind(),
            object: None,
            graph: None,
            start,
            end,
            work: 0,
            waiting: 0,
            undivided: 0,
            lanes: 0..0,
            cost: Default::default(),
            gives_work: false,
            operands: None,
        };
        // One after another; one within another; two that overlap; one that outlasts the step.
        let spans = [(10, 20), (20, 50), (30, 40), (60, 80), (70, 75), (72, 90), (95, 200)];
        let step = Step { start: 0, end: 100, operators: spans.map(operator).to_vec(), ..Step::default() };
        let (mut open, mut times) = (Vec::new(), Vec::new());
        let covered = self_times(&step, &mut open, &mut times);
        assert_eq!(times, [10, 20, 10, 10, 2, 18, 5]);
        assert_eq!(covered, 75);
    }
}
