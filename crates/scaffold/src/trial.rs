//! What a trial run shows of candidates: how long their calls take, which calls lie in which, how often and with how many
//! objects. The roles follow from that: a step contains the rest, operators are what share out its time, and what takes no
//! time only asks. Names decide only between what is alike.

use super::words::{self, CallKind};
use super::{Candidate, Role};
use std::collections::{BTreeMap, BTreeSet};

/// Distinct objects that are counted.
const MOST_OBJECTS: usize = 4096;
/// Calls that lie in each other.
const MOST_DEPTH: usize = 64;
/// Calls of what is in a step or graph, for each of its calls: fewer only pass it on.
const FAN_OUT: u64 = 3;
/// Objects of a virtual method that is called for each operator.
const FEWEST_OBJECTS: usize = 3;
/// Calls of a part of operators, for each call of an operator.
const MOST_PARTS: u64 = 20;
/// Percent of a step that is in its operators, at least: first where they are candidates, then where few of them are.
const MOSTLY: u64 = 40;
const PARTLY: u64 = 1;
/// Levels from a step to its operators.
const MOST_LEVELS: usize = 8;

/// One call in a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The candidate's index.
    pub candidate: usize,
    /// The thread's number.
    pub thread: u32,
    /// ns.
    pub start: u64,
    /// ns.
    pub end: u64,
    /// What a virtual method was called on.
    pub object: Option<u64>,
}

/// Some calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Within {
    /// How many.
    pub calls: u64,
    /// Their nanoseconds.
    pub time: u64,
}

impl Within {
    fn add(&mut self, time: u64) {
        self.calls += 1;
        self.time = self.time.saturating_add(time);
    }
}

/// What was measured of a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// How often it was called.
    pub calls: u64,
    /// Nanoseconds in it, with what it calls.
    pub time: u64,
    /// Without other candidates that it calls.
    pub own: u64,
    /// Distinct objects that it was called on, up to some thousands.
    pub objects: usize,
    /// Its calls in no other candidate's.
    pub outermost: Within,
    /// Its calls by the candidate that they lie in, the nearest one.
    pub within: BTreeMap<usize, Within>,
}

/// Measures candidates; `lost` calls of some were not recorded.
pub fn measure(candidates: usize, mut calls: Vec<Call>, lost: &BTreeMap<usize, u64>) -> Vec<Measured> {
    let mut all = vec![Measured::default(); candidates];
    let mut objects = vec![BTreeSet::new(); candidates];
    calls.retain(|call| call.candidate < candidates);
    calls.sort_by_key(|call| (call.thread, call.start, std::cmp::Reverse(call.end)));
    let mut open: Vec<Call> = Vec::new();
    for call in calls {
        let is_over = |open: &Call| open.thread != call.thread || open.end <= call.start;
        while open.last().is_some_and(is_over) {
            open.pop();
        }
        let time = call.end.saturating_sub(call.start);
        let around = open.iter().rev().find(|around| around.candidate != call.candidate);
        let is_inner = open.iter().any(|around| around.candidate == call.candidate);
        if let Some(parent) = open.last() {
            let parent = &mut all[parent.candidate];
            parent.own = parent.own.saturating_sub(time);
        }
        let of = &mut all[call.candidate];
        of.calls += 1;
        of.own = of.own.saturating_add(time);
        if !is_inner {
            of.time = of.time.saturating_add(time);
            match around {
                Some(around) => of.within.entry(around.candidate).or_default().add(time),
                None => of.outermost.add(time),
            }
        }
        if let Some(object) = call.object
            && objects[call.candidate].len() < MOST_OBJECTS
        {
            objects[call.candidate].insert(object);
        }
        if open.len() < MOST_DEPTH {
            open.push(call);
        }
    }
    for (number, of) in all.iter_mut().enumerate() {
        of.objects = objects[number].len();
        of.calls += lost.get(&number).copied().unwrap_or(0);
    }
    all
}

/// The candidates that were called, with their roles, those that matter most first; at most so many.
pub fn choose(candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    let all: Vec<Measured> = candidates.iter().map(|of| of.trial.clone().unwrap_or_default()).collect();
    let tree = Tree { candidates: &candidates, all: &all };
    let roles = tree.roles();
    let rank = |number: &usize| {
        let role = match roles.get(number) {
            Some(Role::Step) => 0,
            Some(Role::Graph) => 1,
            Some(Role::Operator) => 2,
            None => 3,
        };
        (role, std::cmp::Reverse(all[*number].time))
    };
    let mut order: Vec<usize> = (0..candidates.len()).filter(|number| all[*number].calls > 0).collect();
    order.retain(|number| roles.contains_key(number) || !tree.only_asks(*number, &roles));
    order.sort_by_key(rank);
    order.truncate(most);
    let mut candidates: Vec<Option<Candidate>> = candidates.into_iter().map(Some).collect();
    let chosen = order.into_iter().filter_map(|number| {
        let mut candidate = candidates.get_mut(number)?.take()?;
        candidate.role = roles.get(&number).copied();
        Some(candidate)
    });
    chosen.collect()
}

struct Tree<'a> {
    candidates: &'a [Candidate],
    all: &'a [Measured],
}

impl Tree<'_> {
    fn roles(&self) -> BTreeMap<usize, Role> {
        let mut roles = BTreeMap::new();
        // Of a large library not every operator is a candidate; a short trial may be one step.
        let found = [(MOSTLY, 2), (PARTLY, 2), (MOSTLY, 1)]
            .into_iter()
            .find_map(|(percent, fewest)| Some((self.step(percent, fewest)?, percent)));
        let Some((step, percent)) = found else {
            roles.extend(self.loose_operators().into_iter().map(|number| (number, Role::Operator)));
            return roles;
        };
        roles.insert(step, Role::Step);
        let mut innermost = step;
        for level in 0..MOST_LEVELS {
            let Some(next) = self.passes_on_to(innermost, percent) else { break };
            if level == 0 {
                roles.insert(next, Role::Graph);
            }
            innermost = next;
        }
        let whole = self.all[innermost].time;
        let children = self.children(innermost);
        for (child, within) in &children {
            let of_thousand = within.time.saturating_mul(1000) / whole.max(1);
            let least = if self.kind(*child) == Some(CallKind::Operator) { 2 } else { 20 };
            let is_one = of_thousand >= least && !words::waits(&self.candidates[*child].place);
            let mut slots = children.iter().map(|(other, within)| (*other, within.time));
            if is_one && self.is_first_of_its_base(*child, &mut slots) {
                roles.entry(*child).or_insert(Role::Operator);
            }
        }
        roles
    }

    /// What contains the operators and is called again and again.
    fn step(&self, percent: u64, fewest: u64) -> Option<usize> {
        let outermost = |number: &usize| self.all[*number].outermost.time;
        let longest = (0..self.all.len()).map(|number| outermost(&number)).max()?;
        let fits = |number: &usize| {
            let is_large = outermost(number) > 0 && outermost(number) >= longest / 3;
            is_large && !self.is_of_operators(*number) && self.contains_operators(*number, percent, 0)
        };
        let mut step = (0..self.all.len()).filter(fits).max_by_key(outermost)?;
        // What is called once is rather the run than a step of it.
        for _ in 0..MOST_LEVELS {
            let contains = |child: &usize| !self.is_of_operators(*child) && self.contains_operators(*child, percent, 0);
            let inner: Vec<usize> = self.children(step).into_iter().map(|(child, _)| child).filter(contains).collect();
            let repeated = inner.iter().find(|child| self.all[**child].calls >= 2);
            let Some(inner) = repeated.or(inner.first()).filter(|_| self.all[step].calls == 1) else { break };
            step = *inner;
        }
        (self.all[step].calls >= fewest).then_some(step)
    }

    /// Whether it is called for one operator after the other, by its objects or its name.
    fn is_of_operators(&self, number: usize) -> bool {
        let candidate = &self.candidates[number];
        match candidate.overrides {
            Some(_) => self.all[number].objects >= FEWEST_OBJECTS,
            None => self.kind(number) == Some(CallKind::Operator),
        }
    }

    fn kind(&self, number: usize) -> Option<CallKind> {
        self.candidates[number].kind()
    }

    /// What lies in a candidate, with nothing between, the longest first.
    fn children(&self, number: usize) -> Vec<(usize, Within)> {
        let within = |(child, of): (usize, &Measured)| Some((child, *of.within.get(&number)?));
        let mut children: Vec<(usize, Within)> = self.all.iter().enumerate().filter_map(within).collect();
        children.sort_by_key(|(child, within)| (std::cmp::Reverse(within.time), *child));
        children
    }

    /// What takes more than half of its time.
    fn largest_child(&self, number: usize) -> Option<usize> {
        let (child, within) = *self.children(number).first()?;
        (within.time >= self.all[number].time / 2).then_some(child)
    }

    /// Whether so much of its time is that of several calls, or of something of which that is true.
    fn contains_operators(&self, number: usize, percent: u64, level: usize) -> bool {
        let children = self.children(number);
        let time: u64 = children.iter().map(|(_, within)| within.time).sum();
        let calls: u64 = children.iter().map(|(_, within)| within.calls).sum();
        if level >= MOST_LEVELS || time.saturating_mul(100) < self.all[number].time.saturating_mul(percent) {
            return false;
        }
        calls >= self.all[number].calls.saturating_mul(FAN_OUT)
            || self.largest_child(number).is_some_and(|child| self.contains_operators(child, percent, level + 1))
    }

    /// What a candidate only calls, and that contains the operators: a graph of a step.
    fn passes_on_to(&self, number: usize, percent: u64) -> Option<usize> {
        let child = self.largest_child(number)?;
        let within = self.all[child].within.get(&number)?;
        let is_passed_on = within.calls < self.all[number].calls.saturating_mul(FAN_OUT);
        (is_passed_on && !self.is_of_operators(child) && self.contains_operators(child, percent, 0)).then_some(child)
    }

    /// Operators that no candidate contains: methods called again on the same objects, or what is called so.
    fn loose_operators(&self) -> Vec<usize> {
        let recurs = |number: &usize| {
            let of = &self.all[*number];
            match self.candidates[*number].overrides {
                Some(_) => of.objects >= FEWEST_OBJECTS && of.calls >= 2 * of.objects as u64,
                None => self.kind(*number) == Some(CallKind::Operator) && of.calls >= FAN_OUT,
            }
        };
        let outermost = |number: &usize| self.all[*number].outermost.time;
        let mut found: Vec<usize> = (0..self.all.len()).filter(|number| outermost(number) > 0).filter(recurs).collect();
        let Some(first) = found.iter().copied().max_by_key(outermost) else { return found };
        let (most, of_first) = (outermost(&first), &self.all[first]);
        // As often called on each object: once in each run. What fuses or loads is not.
        let is_alike = |number: &usize| {
            let of = &self.all[*number];
            let (one, other) = (of.calls * of_first.objects as u64, of_first.calls * of.objects as u64);
            one.abs_diff(other) <= one.max(other) / 10
        };
        // A slot that is called once on each object prepares it, however long that takes.
        let slots: Vec<(usize, u64)> = found.iter().map(|number| (*number, outermost(number))).collect();
        let is_first = |number: &usize| self.is_first_of_its_base(*number, &mut slots.iter().copied());
        found.retain(|number| outermost(number) >= most / 20 && is_alike(number) && is_first(number));
        found
    }

    /// Of the slots of one class, an operator is the one with the most time, of these candidates and their times.
    fn is_first_of_its_base(&self, number: usize, slots: &mut dyn Iterator<Item = (usize, u64)>) -> bool {
        let Some(base) = self.candidates[number].base() else { return true };
        let same = slots.filter(|(other, _)| self.candidates[*other].base() == Some(base));
        same.max_by_key(|(_, time)| *time).is_none_or(|(first, _)| first == number)
    }

    /// What takes no time beside the operators; a slot of their class also where it takes little, and is called for each of
    /// them again.
    fn only_asks(&self, number: usize, roles: &BTreeMap<usize, Role>) -> bool {
        let operators = roles.iter().filter(|(_, role)| **role == Role::Operator);
        let all: u64 = operators.clone().map(|(other, _)| self.all[*other].time).fold(0, u64::saturating_add);
        let calls = operators.map(|(other, _)| self.all[*other].calls).fold(0, u64::saturating_add);
        let of = &self.all[number];
        // Parts of operators that are called very often would cost more than they show.
        let is_part = of.outermost.calls == 0 && of.calls > calls.saturating_mul(MOST_PARTS) && calls > 0;
        if of.time.saturating_mul(100) < all || is_part {
            return true;
        }
        let Some(base) = self.candidates[number].base() else { return false };
        let of = &self.all[number];
        let operators = roles.iter().filter(|(other, role)| {
            **role == Role::Operator && self.candidates[**other].base() == Some(base) && **other != number
        });
        let most = operators.map(|(other, _)| self.all[*other].time).max().unwrap_or(0);
        of.time.saturating_mul(50) < most && of.calls >= 2 * (of.objects as u64).max(1)
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// A candidate: a function, or a slot of a class if its name has one.
    fn candidate(place: &str) -> Candidate {
        let slot = place.contains('[');
        Candidate {
            file: 0,
            place: place.to_owned(),
            symbol: place.to_owned(),
            signature: None,
            guess: None,
            size: 100,
            trial: None,
            role: None,
            overrides: slot.then_some((9, 9)),
            score: 0,
        }
    }

    /// The chosen ones and their roles; calls are a candidate, start, end and object.
    fn chosen(places: &[&str], calls: &[(usize, u64, u64, u64)]) -> Vec<(String, Option<Role>)> {
        let calls = calls.iter().map(|(candidate, start, end, object)| Call {
            candidate: *candidate,
            thread: 1,
            start: *start,
            end: *end,
            object: Some(*object),
        });
        let measured = measure(places.len(), calls.collect(), &BTreeMap::new());
        let mut candidates: Vec<Candidate> = places.iter().map(|place| candidate(place)).collect();
        for (candidate, measured) in candidates.iter_mut().zip(measured) {
            candidate.trial = Some(measured);
        }
        choose(candidates, 12).into_iter().map(|of| (of.place, of.role)).collect()
    }

    #[test]
    fn a_step_contains_the_rest_whatever_it_is_called() {
        let mut calls = vec![(0, 0, 10_000, 1)];
        for step in 0..4 {
            let at = step * 2000 + 100;
            calls.extend([(1, at, at + 1500, 2), (2, at + 10, at + 1400, 3)]);
            for operator in 0..8 {
                let at = at + 20 + operator * 150;
                // Each is asked something, computes, and calls something else often.
                calls.push((3, at, at + 1, operator));
                calls.push((4, at + 2, at + 120, operator));
                calls.extend((0..5).map(|inner| (5, at + 10 + inner * 20, at + 25 + inner * 20, inner)));
            }
        }
        let places = ["all", "process_one", "evaluate_it", "a::L[3]", "a::L[7]", "dot"];
        let found = chosen(&places, &calls);
        let role = |place: &str| found.iter().find(|(of, _)| of == place).map(|(_, role)| *role);
        assert_eq!(role("process_one"), Some(Some(Role::Step)), "{found:?}");
        assert_eq!(role("evaluate_it"), Some(Some(Role::Graph)), "{found:?}");
        assert_eq!(role("a::L[7]"), Some(Some(Role::Operator)), "{found:?}");
        assert_eq!((role("a::L[3]"), role("all"), role("dot")), (None, Some(None), Some(None)), "{found:?}");
    }

    #[test]
    fn operators_that_nothing_contains_are_methods_called_again_on_the_same_objects() {
        let mut calls = Vec::new();
        for step in 0..5 {
            for operator in 0..16 {
                let at = step * 10_000 + operator * 500;
                calls.extend([(0, at, at + 2, operator), (1, at + 5, at + 300, operator)]);
                // What it computes in parts lies in it.
                calls.extend([(2, at + 10, at + 100, 77), (2, at + 110, at + 290, 77)]);
            }
        }
        // Each is prepared once, which takes longer than all steps.
        calls.extend((0..16).map(|operator| (4, 600_000 + operator * 2000, 601_900 + operator * 2000, operator)));
        // Loading a model: other objects each time.
        calls.extend((0..400).map(|message| (3, 100_000 + message * 900, 100_800 + message * 900, message)));
        let found = chosen(&["a::L[27]", "a::L[12]", "a::Loop[2]", "a::Message[4]", "a::L[5]"], &calls);
        let operators: Vec<&String> =
            found.iter().filter(|(_, role)| *role == Some(Role::Operator)).map(|(of, _)| of).collect();
        assert_eq!(operators, ["a::L[12]"], "{found:?}");
        assert!(found.iter().all(|(_, role)| *role != Some(Role::Step)), "{found:?}");
        assert!(found.iter().all(|(of, _)| of != "a::L[27]"), "it only asks: {found:?}");
    }

    #[test]
    fn a_step_may_contain_few_of_its_operators() {
        let mut calls = Vec::new();
        for step in 0..4 {
            let at = step * 2000;
            calls.extend([(0, at, at + 1000, 1), (1, at + 1, at + 999, 2)]);
            calls.extend((0..3).map(|n| (2 + n, at + 100 + n as u64 * 100, at + 130 + n as u64 * 100, 3)));
        }
        let found =
            chosen(&["ns::Wrapper::go", "ns::all", "ns::a::Eval<*>", "ns::b::Eval<*>", "ns::c::Eval<*>"], &calls);
        let roles: Vec<Option<Role>> = found.iter().map(|(_, role)| *role).collect();
        let operator = Some(Role::Operator);
        assert_eq!(roles, [Some(Role::Step), Some(Role::Graph), operator, operator, operator], "{found:?}");
    }

    #[test]
    fn a_run_is_no_step_where_little_of_a_step_is_in_operators() {
        let mut calls = vec![(0, 0, 10_000, 1)];
        for step in 0..4 {
            let at = step * 2000 + 100;
            calls.extend([(1, at, at + 1000, 1), (2, at + 1, at + 999, 2)]);
            calls.extend((0..8).map(|n| (3, at + 100 + n * 20, at + 103 + n * 20, 3)));
            calls.extend((0..8).map(|n| (4, at + 110 + n * 20, at + 118 + n * 20, 3)));
        }
        let found = chosen(&["run", "toy_step", "toy_graph", "toy_operator", "toy_barrier"], &calls);
        let role = |place: &str| found.iter().find(|(of, _)| of == place).and_then(|(_, role)| *role);
        assert_eq!((role("run"), role("toy_barrier")), (None, None), "{found:?}");
        let roles = (role("toy_step"), role("toy_graph"), role("toy_operator"));
        assert_eq!(roles, (Some(Role::Step), Some(Role::Graph), Some(Role::Operator)), "{found:?}");
    }

    #[test]
    fn time_is_inclusive_and_its_own() {
        let call = |candidate, start, end| Call { candidate, thread: 1, start, end, object: None };
        let calls = vec![call(1, 10, 40), call(0, 0, 100), call(1, 50, 60), call(0, 55, 58)];
        let measured = measure(2, calls, &BTreeMap::from([(1, 3)]));
        assert_eq!((measured[0].calls, measured[0].time, measured[0].own), (2, 100, 63));
        assert_eq!((measured[1].calls, measured[1].time, measured[1].own), (5, 40, 37));
        assert_eq!(measured[1].within[&0], Within { calls: 2, time: 40 });
    }
}
