//! An event as perf writes it: `cycles`, `LLC-load-misses:u`, `r01c2`, `armv8_pmuv3/l3d_cache_refill,config1=0x2/k`. What
//! a name means on a machine is found out elsewhere; here only its form is checked.

use super::TaskCount;
use super::names::{Generic, generic, generic_events};
use std::ops::Range;

/// Bytes of an event.
const MOST_BYTES: usize = 256;
/// Terms between the slashes.
const MOST_TERMS: usize = 16;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What is counted.
    pub what: What,
    /// In user space.
    pub user: bool,
    /// In the kernel.
    pub kernel: bool,
}

/// What an event counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// What perf has one name for on all machines.
    Generic(Generic),
    /// `rNNN`: the number of an event of the processor's unit.
    Raw(u64),
    /// An event that the processor's unit may have by name.
    Named(String),
    /// `pmu/term,…/`.
    OfPmu {
        /// The unit.
        pmu: String,
        /// The text between the slashes.
        terms: Vec<Term>,
    },
}

/// A term between the slashes: `event=0x3c`, or the name of an event, or of a bit to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Before the `=`.
    pub name: String,
    /// After it.
    pub value: Option<u64>,
}

/// What is wrong with a text that should be an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxProblem {
    /// The bytes of the text at fault.
    pub range: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// What is wrong, and where in the text.
    pub fn parse(text: &str) -> Result<Self, SyntaxProblem> {
        if text.is_empty() || text.len() > MOST_BYTES {
            let message = format!("an event has 1 to {MOST_BYTES} characters");
            return Err(problem(0..text.len(), message, EXAMPLE));
        }
        let strange = |c: char| !(c.is_ascii_alphanumeric() || "_-/=,:.@+".contains(c));
        if let Some(at) = text.find(strange) {
            let end = at + text[at..].chars().next().map_or(1, char::len_utf8);
            return Err(problem(at..end, "an event's name cannot contain this character", EXAMPLE));
        }
        let (what, modifiers, at) = match text.find('/') {
            Some(slash) => of_pmu(text, slash)?,
            None => named(text)?,
        };
        let (user, kernel) = modes(modifiers, at)?;
        let event = Self { what, user, kernel };
        if event.task().is_some() && !(user && kernel) {
            let message = "the kernel does not count this event separately for user space and kernel";
            return Err(problem(at..at + modifiers.len(), message, "remove the modifier"));
        }
        Ok(event)
    }

    /// What the kernel counts for each thread by itself, if it is that.
    pub fn task(&self) -> Option<TaskCount> {
        match self.what {
            What::Generic(Generic::Task(count)) => Some(count),
            _ => None,
        }
    }

    /// For an event that perf has no general name for: the nearest that it has one for, if it may be a slip.
    pub fn likely_slip(&self) -> Option<String> {
        let What::Named(name) = &self.what else { return None };
        let plain = |name: &str| name.to_lowercase().replace('_', "-");
        let name = plain(name);
        let distance = |event: &str| strsim::osa_distance(&name, &plain(event));
        let (distance, nearest) = generic_events().map(|(event, _)| (distance(&event), event)).min()?;
        (distance > 0 && distance <= (name.len() / 4).min(2)).then_some(nearest)
    }
}

const EXAMPLE: &str = "use the names of `perf list`, such as `cycles` or `armv8_pmuv3/l3d_cache_refill/`";

fn problem(range: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> SyntaxProblem {
    SyntaxProblem { range, message: message.into(), hint: hint.into() }
}

/// `NAME[:MODIFIERS]`; with the modifiers and where they begin.
fn named(text: &str) -> Result<(What, &str, usize), SyntaxProblem> {
    let (name, modifiers) = text.split_once(':').unwrap_or((text, ""));
    let at = text.len() - modifiers.len();
    if let Some(event) = generic(name) {
        return Ok((What::Generic(event), modifiers, at));
    }
    if modifiers.contains('_') || modifiers.len() > 4 {
        let message = "tracepoints cannot be counters";
        return Err(problem(0..text.len(), message, "use a probe with `at: tracepoint …`"));
    }
    if let Some(config) = raw(name) {
        return Ok((What::Raw(config), modifiers, at));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(fits) {
        return Err(problem(0..name.len(), format!("`{name}` is not the name of an event"), EXAMPLE));
    }
    Ok((What::Named(name.to_owned()), modifiers, at))
}

/// `rNNN`, in hexadecimal; a name such as `retired` is none.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit())).then_some(())?;
    u64::from_str_radix(digits, 16).ok()
}

/// `PMU/TERM,…/[MODIFIERS]`; with the modifiers and where they begin.
fn of_pmu(text: &str, slash: usize) -> Result<(What, &str, usize), SyntaxProblem> {
    let (pmu, rest) = (&text[..slash], &text[slash + 1..]);
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if !is_name(pmu) {
        return Err(problem(0..slash.max(1), "the name of a unit is missing before the first `/`", EXAMPLE));
    }
    let Some(end) = rest.find('/') else {
        return Err(problem(slash..text.len(), "the closing `/` is missing", format!("write `{text}/`")));
    };
    let (inside, after) = (&rest[..end], &rest[end + 1..]);
    let mut at = slash + 1;
    let mut terms = Vec::new();
    for part in inside.split(',') {
        let range = at..at + part.len();
        at = range.end + 1;
        let (name, value) = match part.split_once('=') {
            None => (part, None),
            Some((name, value)) => (name, Some((value, range.end - value.len()..range.end))),
        };
        if !is_name(name) {
            let range = if range.is_empty() { slash..(range.end + 1).min(text.len()) } else { range };
            return Err(problem(range, "a term is missing here", "write `NAME` or `NAME=NUMBER` between the slashes"));
        }
        let value = value.map(|(text, range)| number(text, range)).transpose()?;
        terms.push(Term { name: name.to_owned(), value });
    }
    if terms.len() > MOST_TERMS {
        return Err(problem(slash..text.len(), format!("the maximum is {MOST_TERMS} terms"), "remove some"));
    }
    let modifiers = after.strip_prefix(':').unwrap_or(after);
    Ok((What::OfPmu { pmu: pmu.to_owned(), terms }, modifiers, text.len() - modifiers.len()))
}

fn number(text: &str, range: Range<usize>) -> Result<u64, SyntaxProblem> {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let parsed = match hexadecimal {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| problem(range, format!("`{text}` is not a number"), "write it as `3` or `0x1f`"))
}

/// `u`, `k`, both, or nothing, which is both.
fn modes(modifiers: &str, at: usize) -> Result<(bool, bool), SyntaxProblem> {
    for (index, letter) in modifiers.char_indices() {
        if !"uk".contains(letter) {
            let message = format!("the modifier `{letter}` is not supported here");
            let hint = "`:u` counts user space only, `:k` the kernel only; both are counted without";
            return Err(problem(at + index..at + index + letter.len_utf8(), message, hint));
        }
    }
    let has = |letter| modifiers.is_empty() || modifiers.contains(letter);
    Ok((has('u'), has('k')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        Event::parse(text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"))
    }

    #[test]
    fn events_are_read_as_perf_reads_them() {
        assert_eq!(event("cycles").what, What::Generic(Generic::Hardware(0)));
        assert_eq!(
            event("LLC-load-misses:u"),
            Event { what: What::Generic(Generic::Cache(0x1_0002)), user: true, kernel: false }
        );
        assert_eq!((event("instructions:uk").user, event("instructions:uk").kernel), (true, true));
        assert_eq!((event("instructions:k").user, event("instructions:k").kernel), (false, true));
        assert_eq!(event("r01C2:u").what, What::Raw(0x1c2));
        assert_eq!(event("retired_ops").what, What::Named("retired_ops".into()));
        assert_eq!(event("major-faults").task(), Some(TaskCount::MajorFaults));
        let What::OfPmu { pmu, terms } = event("armv8_pmuv3_0/event=0x11,l3d_cache_refill,config1=7/u").what else {
            panic!("of a unit")
        };
        assert_eq!(pmu, "armv8_pmuv3_0");
        let terms: Vec<_> = terms.iter().map(|term| (term.name.as_str(), term.value)).collect();
        assert_eq!(terms, [("event", Some(0x11)), ("l3d_cache_refill", None), ("config1", Some(7))]);
        assert_eq!(event("cpu/cycles/:k"), event("cpu/cycles/k"));
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, at, expected) in [
            ("", "", "1 to 256"),
            ("cycles instructions", " ", "this character"),
            ("cyclés", "é", "this character"),
            ("cycles:x", "x", "the modifier `x`"),
            ("cycles:up", "p", "the modifier `p`"),
            ("cpu/cycles", "/cycles", "the closing `/`"),
            ("/cycles/", "/", "the name of a unit"),
            ("cpu//", "//", "a term is missing"),
            ("cpu/a,,b/", "/a,,", "a term is missing"),
            ("cpu/event=zz/", "zz", "`zz` is not a number"),
            ("cpu/event=/", "", "`` is not a number"),
            ("sched:sched_switch", "sched:sched_switch", "tracepoints"),
            ("major-faults:u", "u", "not count this event separately"),
            ("3cycles", "3cycles", "not the name"),
        ] {
            let problem = Event::parse(text).expect_err(text);
            assert!(problem.message.contains(expected), "{text}: {problem:?}");
            assert_eq!(&text[problem.range.clone()], at, "{text}: {problem:?}");
        }
        assert!(Event::parse(&"a".repeat(257)).is_err());
    }

    #[test]
    fn slips_are_noticed_but_a_units_own_names_are_not() {
        assert_eq!(event("cylces").likely_slip().as_deref(), Some("cycles"));
        assert_eq!(event("stalled-cycles-backnd").likely_slip().as_deref(), Some("stalled-cycles-backend"));
        for name in ["cpu_cycles", "l3d_cache_refill", "inst_retired", "mem_access"] {
            assert_eq!(event(name).likely_slip(), None, "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_event_or_a_problem_within_it(text in "[a-z/=,:0x-]{0,40}|.{0,40}") {
            if let Err(problem) = Event::parse(&text) {
                proptest::prop_assert!(text.get(problem.range).is_some());
            }
        }
    }
}
