//! Which counters the programs read: what the probes and the command line ask for, as far as the machine has
//! it. Without a machine, everything is taken to be there.

use super::model::{Counter, CounterSource, Selection};
use profinfer_diagnostics::{Code, Diagnostic, Diagnostics, did_you_mean};
use profinfer_probeset::counters::{Event, Offer, Offered, TaskCount};
use profinfer_probeset::{Probe, Probeset};

use indexmap::IndexMap;
use profinfer_schema::CounterInfo;
use profinfer_schema::Role;

/// Counters that are read on each cpu: the space that a thread's state has for them.
const MOST_EVENTS: usize = 16;

/// A counter by the name it is asked for by: its text in perf's syntax, and what that means.
pub type Asked = IndexMap<String, (String, Event)>;

/// The counters that the selected probes and the command line ask for.
///
/// # Errors
/// C001, for what the command line asks for and is no event.
pub fn counters_asked(probeset: &Probeset, selection: &Selection) -> Result<Asked, Diagnostics> {
    let selected = super::programs::selected(probeset, selection);
    let mut problems = Diagnostics::new();
    let mut asked = Asked::new();
    let by_probes = selected.iter().flat_map(|probe| probe.counters.iter().map(|counter| counter.value.as_str()));
    for name in by_probes.chain(selection.counters.iter().map(String::as_str)) {
        let text = probeset.counters.get(name).map_or(name, |event| event.value.as_str());
        match Event::parse(text) {
            Ok(event) => {
                asked.entry(name.to_owned()).or_insert_with(|| (text.to_owned(), event));
            }
            Err(problem) => {
                let message = format!("`{text}` is no event: {}", problem.message);
                let near = did_you_mean(name, probeset.counters.keys().map(String::as_str));
                problems.push(Diagnostic::error(Code::CounterSyntax, message).hint(near.unwrap_or(problem.hint)));
            }
        }
    }
    if problems.has_errors() { Err(problems) } else { Ok(asked) }
}

/// What the programs count.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Each counter once.
    pub(super) all: Vec<Counter>,
    /// For the trace.
    pub(super) info: IndexMap<String, CounterInfo>,
    /// Indices into `all` by the name that was asked for.
    by_name: IndexMap<String, Vec<usize>>,
    /// What the command line asks for.
    of_all: Vec<String>,
}

impl Counters {
    /// All that is asked for and that the machine has.
    ///
    /// # Errors
    /// C001, and S011 for more counters than a thread has space for.
    pub(super) fn new(probeset: &Probeset, selection: &Selection) -> Result<Self, Diagnostics> {
        let asked = counters_asked(probeset, selection)?;
        let mut counters = Self { of_all: selection.counters.clone(), ..Self::default() };
        for (name, (text, event)) in asked {
            counters.add(&name, &text, event.task(), selection.offer.as_ref());
        }
        let events = counters.all.iter().filter(|counter| counter.event().is_some()).count();
        if events > MOST_EVENTS {
            let message = format!("{events} counters are asked for; {MOST_EVENTS} are the most");
            return Err(Diagnostic::error(Code::OutOfRange, message).hint("ask for fewer at a time").into());
        }
        Ok(counters)
    }

    fn add(&mut self, name: &str, text: &str, task: Option<TaskCount>, offer: Option<&Offer>) {
        let offered = offer.and_then(|offer| offer.get(name)).cloned().unwrap_or_else(|| vec![Offered::plain(name)]);
        let mut indices = Vec::new();
        for counter in offered {
            let is_absent = counter.absent.is_some();
            let info = CounterInfo { event: text.to_owned(), pmu: counter.pmu, absent: counter.absent };
            self.info.insert(counter.name.clone(), info);
            if is_absent {
                continue;
            }
            let events = self.all.iter().filter(|counter| counter.event().is_some()).count();
            let source = task.map_or(CounterSource::Event(events), CounterSource::Task);
            indices.push(self.all.len());
            self.all.push(Counter { name: counter.name, source, partial: counter.partial });
        }
        self.by_name.insert(name.to_owned(), indices);
    }

    /// What a probe that records spans counts.
    pub(super) fn of(&self, probe: &Probe) -> Vec<usize> {
        let own = probe.counters.iter().map(|counter| counter.value.as_str());
        let takes_all = matches!(probe.role.value, Role::Step | Role::Operator | Role::Share);
        let of_all = self.of_all.iter().filter(|_| takes_all).map(String::as_str);
        let mut indices = Vec::new();
        for index in own.chain(of_all).filter_map(|name| self.by_name.get(name)).flatten() {
            if !indices.contains(index) {
                indices.push(*index);
            }
        }
        indices
    }
}

/// That a probe without a span cannot count.
pub(super) fn at_an_instant(probe: &Probe) -> Option<Diagnostic> {
    let counter = probe.counters.first()?;
    let message = format!("`{}` is an instant: counters are counted over a span", probe.name.value);
    Some(Diagnostic::error(Code::RoleField, message).at(&counter.span).hint("give them to the probe of the span"))
}
