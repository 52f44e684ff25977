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
/// Functions of a family that is called for each operator, or for each layer.
const FEWEST_FUNCTIONS: usize = 3;
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
    /// A number of the function, of several that a candidate is.
    pub function: u16,
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
    /// Different functions, where the candidate is of several.
    pub functions: usize,
    /// Its calls in no other candidate's.
    pub outermost: Within,
    /// Its calls by the candidate that they lie in, the nearest one.
    pub within: BTreeMap<usize, Within>,
}

/// Measures candidates; `lost` calls of some were not recorded.
pub fn measure(candidates: usize, mut calls: Vec<Call>, lost: &BTreeMap<usize, u64>) -> Vec<Measured> {
    let mut all = vec![Measured::default(); candidates];
    let mut objects = vec![BTreeSet::new(); candidates];
    let mut functions = vec![BTreeSet::new(); candidates];
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
        functions[call.candidate].insert(call.function);
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
        of.functions = functions[number].len();
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
    let in_steps = tree.in_steps(&roles);
    let is_aside = |number: usize| {
        let is_one = candidates[number].overrides.is_none() && candidates[number].family.is_empty();
        !is_one && !in_steps.is_empty() && !in_steps.contains(&number)
    };
    order.retain(|number| roles.contains_key(number) || !tree.only_asks(*number, &roles) && !is_aside(*number));
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
        let children = self.parts(innermost, 0);
        let of_all: u64 = children.iter().map(|(_, within)| within.time).fold(0, u64::saturating_add);
        // Where most of it is in a method of many, what has another name than an operator only goes beside that.
        let is_shared = children.iter().any(|(child, within)| {
            let is_method = self.candidates[*child].overrides.is_some() || !self.candidates[*child].family.is_empty();
            is_method && self.is_of_operators(*child) && within.time >= of_all / 2
        });
        for (child, within) in &children {
            let of_thousand = within.time.saturating_mul(1000) / whole.max(1);
            let least = if self.kind(*child) == Some(CallKind::Operator) { 2 } else { 20 };
            let is_one = of_thousand >= least
                && !words::waits(&self.candidates[*child].place)
                && (!is_shared || self.is_of_operators(*child));
            let mut slots = children.iter().map(|(other, within)| (*other, within.time));
            if is_one && self.is_first_of_its_base(*child, &mut slots) {
                roles.entry(*child).or_insert(Role::Operator);
            }
        }
        roles
    }

    /// What a candidate's time is in: what lies directly in it, and in place of a layer what that consists of.
    fn parts(&self, number: usize, level: usize) -> Vec<(usize, Within)> {
        let mut parts: BTreeMap<usize, Within> = BTreeMap::new();
        for (child, within) in self.children(number) {
            let is_layer = level < MOST_LEVELS && self.is_of_layers(child);
            let found = if is_layer { self.parts(child, level + 1) } else { vec![(child, within)] };
            for (part, within) in found.into_iter().filter(|(part, _)| *part != number) {
                let of = parts.entry(part).or_default();
                of.calls = of.calls.saturating_add(within.calls);
                of.time = of.time.saturating_add(within.time);
            }
        }
        parts.into_iter().collect()
    }

    /// Whether it is of what consists of operators: most of its time is that of several calls of another family, each of
    /// which has functions of several kinds. An operator calls one function several times for its parts.
    fn is_of_layers(&self, number: usize) -> bool {
        let of = &self.all[number];
        let is_family = |number: usize| !self.candidates[number].family.is_empty();
        let consists_of = |(child, within): &(usize, Within)| {
            is_family(*child)
                && self.all[*child].functions >= FEWEST_FUNCTIONS
                && within.calls >= of.calls.saturating_mul(FAN_OUT)
                && within.time.saturating_mul(100) >= of.time.saturating_mul(MOSTLY)
        };
        is_family(number) && self.children(number).iter().any(consists_of)
    }

    /// What contains the operators and is called again and again.
    fn step(&self, percent: u64, fewest: u64) -> Option<usize> {
        let outermost = |number: usize| self.all[number].outermost.time;
        let steps = (0..self.all.len()).filter(|number| outermost(*number) > 0);
        let steps = steps.filter_map(|number| Some((number, self.innermost_step(number, percent)?)));
        let steps: Vec<(usize, usize)> = steps.filter(|(_, step)| self.all[*step].calls >= fewest).collect();
        // What is done once, such as loading, is no measure, however long it takes.
        let others = (0..self.all.len()).filter(|number| fewest == 1 || self.recurs(*number));
        let longest = others.chain(steps.iter().map(|(number, _)| *number)).map(outermost).max()?;
        let is_large = |(number, step): &(usize, usize)| outermost(*number) >= longest / 3 || self.owns_parts(*step);
        let steps: Vec<(usize, usize)> = steps.into_iter().filter(is_large).collect();
        let most = steps.iter().map(|(number, _)| outermost(*number)).max()?;
        let alike = steps.into_iter().filter(|(number, _)| outermost(*number) >= most / 10);
        let is_named = |step: usize| self.kind(step) == Some(CallKind::Step);
        alike.max_by_key(|(number, step)| (is_named(*step), outermost(*number))).map(|(_, step)| step)
    }

    /// Whether what lies in it lies mostly there: other work may take longer, such as that of loading.
    fn owns_parts(&self, number: usize) -> bool {
        let children = self.children(number);
        let here: u64 = children.iter().map(|(_, within)| within.time).fold(0, u64::saturating_add);
        let all = children.iter().map(|(child, _)| self.all[*child].time).fold(0, u64::saturating_add);
        here >= all / 2
    }

    /// The step that a candidate is, or contains: what is called once is rather the run than a step of it.
    fn innermost_step(&self, number: usize, percent: u64) -> Option<usize> {
        let contains = |number: &usize| !self.is_of_operators(*number) && self.contains_operators(*number, percent, 0);
        let mut step = Some(number).filter(contains)?;
        for _ in 0..MOST_LEVELS {
            let inner: Vec<usize> = self.children(step).into_iter().map(|(child, _)| child).filter(contains).collect();
            let repeated = inner.iter().find(|child| self.all[**child].calls >= 2);
            let Some(inner) = repeated.or(inner.first()).filter(|_| self.all[step].calls == 1) else { break };
            step = *inner;
        }
        Some(step)
    }

    /// Whether it is called again, and a method on the same objects.
    fn recurs(&self, number: usize) -> bool {
        let of = &self.all[number];
        match self.candidates[number].overrides {
            Some(_) => of.calls >= FAN_OUT.saturating_mul(of.objects as u64),
            None => of.calls >= 2,
        }
    }

    /// Whether it is called for one operator after the other, by its objects or its name.
    fn is_of_operators(&self, number: usize) -> bool {
        let candidate = &self.candidates[number];
        match candidate.overrides {
            Some(_) => self.all[number].objects >= FEWEST_OBJECTS,
            None if !candidate.family.is_empty() => self.all[number].functions >= FEWEST_FUNCTIONS,
            None => self.kind(number) == Some(CallKind::Operator),
        }
    }

    fn kind(&self, number: usize) -> Option<CallKind> {
        let candidate = &self.candidates[number];
        let is_one_of_few = !candidate.family.is_empty() && self.all[number].functions < FEWEST_FUNCTIONS;
        if is_one_of_few { None } else { candidate.kind() }
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
                Some(_) => of.objects >= FEWEST_OBJECTS && of.calls >= FAN_OUT * of.objects as u64,
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

    /// The step and what is called in it; nothing, where there is none.
    fn in_steps(&self, roles: &BTreeMap<usize, Role>) -> BTreeSet<usize> {
        let is_step = |(number, role): (&usize, &Role)| (*role == Role::Step).then_some(*number);
        let mut found: BTreeSet<usize> = roles.iter().filter_map(is_step).collect();
        let mut open: Vec<usize> = found.iter().copied().collect();
        while let Some(number) = open.pop() {
            open.extend(self.children(number).into_iter().map(|(child, _)| child).filter(|child| found.insert(*child)));
        }
        found
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
    use super::super::families::Method;
    use super::*;

    /// A candidate: a function, or a slot of a class if its name has one.
    fn candidate(place: &str) -> Candidate {
        let slot = place.contains('[');
        let method = Method { place: place.to_owned(), symbol: place.to_owned() };
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
            family: if place.contains("::*::") { vec![method.clone()] } else { Vec::new() },
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
            function: u16::try_from(*object % 1000).unwrap(),
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
    fn layers_consist_of_operators_and_are_none() {
        let mut calls = Vec::new();
        for step in 0..4 {
            let at = step * 10_000;
            calls.push((0, at, at + 5000, 1));
            for layer in 0..4 {
                let at = at + 100 + layer * 1200;
                // A layer within a layer, the operators of both, and the parts of one of these.
                calls.extend([(1, at, at + 1000, layer), (1, at + 300, at + 900, 9)]);
                calls.extend((0..6).map(|n| (2, at + 10 + n * 150, at + 130 + n * 150, 20 + n)));
                calls.extend((0..5).map(|n| (3, at + 20 + n * 20, at + 35 + n * 20, 7)));
            }
            calls.push((2, at + 4900, at + 4990, 30));
        }
        let found = chosen(&["ns::decode", "ns::layers::*::call", "ns::ops::*::call", "ns::dot::*::part"], &calls);
        let role = |place: &str| found.iter().find(|(of, _)| of == place).map(|(_, role)| *role);
        assert_eq!(role("ns::decode"), Some(Some(Role::Step)), "{found:?}");
        assert_eq!(role("ns::ops::*::call"), Some(Some(Role::Operator)), "{found:?}");
        assert_eq!(role("ns::layers::*::call"), Some(None), "{found:?}");
        assert_ne!(role("ns::dot::*::part"), Some(Some(Role::Operator)), "{found:?}");
    }

    #[test]
    fn what_is_never_called_in_a_step_is_left_out_if_it_is_a_class_method() {
        let mut calls = Vec::new();
        for step in 0..4 {
            let at = 50_000 + step * 2000;
            calls.push((0, at, at + 1500, 1));
            calls.extend((0..8).map(|n| (1, at + 10 + n * 150, at + 120 + n * 150, n)));
        }
        // While a model is loaded; its parts are asked again and again.
        calls.extend((0..400).map(|n| (2, n * 100, n * 100 + 90, n)));
        calls.extend((0..400).map(|n| (4, n * 100 + 1, n * 100 + 89, n % 20)));
        calls.push((3, 0, 45_000, 1));
        let found = chosen(&["ns::infer", "a::L[7]", "a::Pass[3]", "ns::load", "a::Type[2]"], &calls);
        let places: Vec<&str> = found.iter().map(|(of, _)| of.as_str()).collect();
        assert_eq!(places, ["ns::infer", "a::L[7]", "ns::load"]);
    }

    #[test]
    fn time_is_inclusive_and_its_own() {
        let call = |candidate, start, end| Call { candidate, thread: 1, start, end, object: None, function: 0 };
        let calls = vec![call(1, 10, 40), call(0, 0, 100), call(1, 50, 60), call(0, 55, 58)];
        let measured = measure(2, calls, &BTreeMap::from([(1, 3)]));
        assert_eq!((measured[0].calls, measured[0].time, measured[0].own), (2, 100, 63));
        assert_eq!((measured[1].calls, measured[1].time, measured[1].own), (5, 40, 37));
        assert_eq!(measured[1].within[&0], Within { calls: 2, time: 40 });
    }
}
