//! From an event and a machine's units to what the kernel is told to open. Whether it opens is the kernel's to say.

use super::machine::{Machine, Pmu};
use super::names::{Generic, generic, generic_events};
use super::syntax::{Event, Term, What};
use profinfer_diagnostics::did_you_mean;

/// The kernel's numbers of generic event types.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;

/// Terms of perf that say how to sample, not what to count.
const SAMPLING: &[&str] = &["period", "freq", "name", "call-graph", "time", "stack-size", "max-stack", "percore"];

/// What the kernel is told to open on each processor of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The unit; `None` for the kernel's counts.
    pub pmu: Option<String>,
    /// The kernel's number for the kind of event.
    pub kind: u32,
    /// `config`, `config1` and `config2`.
    pub words: [u64; 3],
    /// The processors to open it on.
    pub cpus: Vec<u32>,
    /// Some processors that are online are not among them.
    pub partial: bool,
    /// What to open where the kernel does not know how to name a unit beside a general event.
    pub otherwise: Option<u64>,
}

/// Why a machine has not got an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// In one sentence, without a stop.
    pub reason: String,
    /// What may help.
    pub hint: Option<String>,
}

/// What to open for an event: one thing for each unit that counts it. Nothing for what the kernel counts for each
/// thread by itself.
///
/// # Errors
/// Why the machine has not got it.
pub fn resolve(event: &Event, machine: &Machine) -> Result<Vec<Opening>, Refusal> {
    match &event.what {
        What::Generic(Generic::Task(_)) => Ok(Vec::new()),
        What::Generic(Generic::Software(config)) => {
            let (words, cpus) = ([*config, 0, 0], machine.cpus.clone());
            Ok(vec![Opening { pmu: None, kind: SOFTWARE, words, cpus, partial: false, otherwise: None }])
        }
        What::Generic(Generic::Hardware(config)) => general(HARDWARE, *config, machine),
        What::Generic(Generic::Cache(config)) => general(CACHE, *config, machine),
        What::Raw(config) => {
            let cores = cores(machine)?.into_iter();
            Ok(cores.map(|(name, pmu)| opening(name, pmu, [*config, 0, 0], machine)).collect())
        }
        What::Named(name) => by_name(name, machine),
        What::OfPmu { pmu, terms } => of_pmu(pmu, terms, machine),
    }
}

fn refusal(reason: impl Into<String>, hint: Option<String>) -> Refusal {
    Refusal { reason: reason.into(), hint }
}

/// The processors' units; there is at least one.
fn cores(machine: &Machine) -> Result<Vec<(&str, &Pmu)>, Refusal> {
    let cores = machine.core_pmus();
    let hint = || Some("use a machine, or an instance type, with a PMU".to_owned());
    if cores.is_empty() { Err(refusal("this machine's processors have no PMU", hint())) } else { Ok(cores) }
}

fn opening(name: &str, pmu: &Pmu, words: [u64; 3], machine: &Machine) -> Opening {
    let cpus = machine.cpus_of(pmu);
    let partial = cpus != machine.cpus;
    Opening { pmu: Some(name.to_owned()), kind: pmu.number, words, cpus, partial, otherwise: None }
}

/// An event that the kernel has one number for on all machines. Where there are several units, it is told which.
fn general(kind: u32, config: u64, machine: &Machine) -> Result<Vec<Opening>, Refusal> {
    let cores = cores(machine)?;
    let several = cores.len() > 1;
    let opening = |(name, pmu): (&str, &Pmu)| {
        let unit = if several { u64::from(pmu.number) << 32 } else { 0 };
        let otherwise = several.then_some(config);
        Opening { kind, otherwise, ..opening(name, pmu, [config | unit, 0, 0], machine) }
    };
    Ok(cores.into_iter().map(opening).collect())
}

/// An event of the processors' units, by its name there.
fn by_name(name: &str, machine: &Machine) -> Result<Vec<Opening>, Refusal> {
    let Ok(cores) = cores(machine) else {
        let all: Vec<String> = generic_events().map(|(name, _)| name).collect();
        let reason = format!("unknown event `{name}`: no generic event has this name, and this machine has no PMU");
        let list = || Some("run `profinfer counters` to list the events".to_owned());
        return Err(refusal(reason, did_you_mean(name, all.iter().map(String::as_str)).or_else(list)));
    };
    let having: Vec<_> = cores.iter().filter(|(_, pmu)| pmu.events.contains_key(name)).collect();
    if having.is_empty() {
        let candidates: Vec<String> = cores.iter().flat_map(|(_, pmu)| pmu.events.keys().cloned()).collect();
        let all: Vec<String> = candidates.into_iter().chain(generic_events().map(|(name, _)| name)).collect();
        let near = did_you_mean(name, all.iter().map(String::as_str));
        let list = || "run `profinfer counters` to list the events".to_owned();
        return Err(refusal(
            format!("this machine's processors have no event `{name}`"),
            near.or_else(|| Some(list())),
        ));
    }
    let term = Term { name: name.to_owned(), value: None };
    having.into_iter().map(|(unit, pmu)| described(unit, pmu, std::slice::from_ref(&term), machine)).collect()
}

fn of_pmu(name: &str, terms: &[Term], machine: &Machine) -> Result<Vec<Opening>, Refusal> {
    let units = machine.named(name);
    if units.is_empty() {
        let near = did_you_mean(name, machine.pmus.keys().map(String::as_str));
        let units: Vec<&str> = machine.pmus.keys().map(String::as_str).collect();
        let all = || Some(format!("it has {}", units.join(", "))).filter(|_| !units.is_empty());
        return Err(refusal(format!("this machine has no unit `{name}`"), near.or_else(all)));
    }
    if units.iter().any(|(_, pmu)| pmu.is_shared) {
        return Err(refusal(format!("`{name}` counts on all processors together, not for each thread"), None));
    }
    let openings: Vec<_> = units.into_iter().map(|(unit, pmu)| described(unit, pmu, terms, machine)).collect();
    // Of several units, some may lack the event.
    if openings.iter().any(Result::is_ok) {
        return Ok(openings.into_iter().filter_map(Result::ok).collect());
    }
    openings.into_iter().collect()
}

/// An event that terms describe.
fn described(unit: &str, pmu: &Pmu, terms: &[Term], machine: &Machine) -> Result<Opening, Refusal> {
    if let [Term { name, value: None }] = terms
        && !pmu.events.contains_key(name)
        && !pmu.formats.contains_key(name)
        && let Some((kind, config)) = numbered(name)
    {
        let unit_bits = u64::from(pmu.number) << 32;
        let words = [config | unit_bits, 0, 0];
        return Ok(Opening { kind, otherwise: Some(config), ..opening(unit, pmu, words, machine) });
    }
    let mut words = [0; 3];
    for term in terms {
        add(unit, pmu, term, &mut words)?;
    }
    Ok(opening(unit, pmu, words, machine))
}

/// The kind and number of a general event of a processor.
fn numbered(name: &str) -> Option<(u32, u64)> {
    match generic(name)? {
        Generic::Hardware(config) => Some((HARDWARE, config)),
        Generic::Cache(config) => Some((CACHE, config)),
        Generic::Task(_) | Generic::Software(_) => None,
    }
}

fn add(unit: &str, pmu: &Pmu, term: &Term, words: &mut [u64; 3]) -> Result<(), Refusal> {
    let Term { name, value } = term;
    if let (Some(text), None) = (pmu.events.get(name), value) {
        return text.trim().split(',').try_for_each(|part| {
            let odd = || refusal(format!("the event `{name}` of `{unit}` needs a value for `{part}`"), None);
            let (field, value) = part.split_once('=').map_or((part, Some(1)), |(field, value)| {
                let digits = value.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16).ok());
                (field, digits.unwrap_or_else(|| value.parse().ok()))
            });
            set(unit, pmu, field, value.ok_or_else(odd)?, words)
        });
    }
    if SAMPLING.contains(&name.as_str()) && !pmu.formats.contains_key(name) {
        return Err(refusal(format!("`{name}` is for sampling; here events are counted"), None));
    }
    set(unit, pmu, name, value.unwrap_or(1), words)
}

fn set(unit: &str, pmu: &Pmu, field: &str, value: u64, words: &mut [u64; 3]) -> Result<(), Refusal> {
    if let Some(format) = pmu.formats.get(field) {
        let width = format.width();
        let large = || refusal(format!("`{field}` of `{unit}` has {width} bits: {value:#x} is too large"), None);
        return format.put(value, words).ok_or_else(large);
    }
    if let Some(word) = ["config", "config1", "config2"].iter().position(|word| *word == field) {
        words[word] |= value;
        return Ok(());
    }
    let candidates: Vec<&str> = pmu.events.keys().chain(pmu.formats.keys()).map(String::as_str).collect();
    let list = || Some("run `profinfer counters` to list the events".to_owned());
    let near = did_you_mean(field, candidates.iter().copied()).or_else(list);
    Err(refusal(format!("`{unit}` has no event or term `{field}`"), near))
}

#[cfg(test)]
mod tests {
    use super::super::machine::Format;
    use super::*;
    use std::collections::BTreeMap;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn pmu(number: u32, cpus: Option<&[u32]>, events: &[(&str, &str)]) -> Pmu {
        let formats =
            [("event", "config:0-7"), ("umask", "config:8-15"), ("ldlat", "config1:0-15"), ("inv", "config:23")];
        Pmu {
            number,
            cpus: cpus.map(<[u32]>::to_vec),
            is_shared: false,
            formats: formats.map(|(name, text)| (name.to_owned(), Format::parse(text).unwrap())).into(),
            events: map(events),
        }
    }

    fn machine(pmus: Vec<(&str, Pmu)>) -> Machine {
        Machine { pmus: pmus.into_iter().map(|(name, pmu)| (name.to_owned(), pmu)).collect(), cpus: (0..4).collect() }
    }

    fn x86() -> Machine {
        let shared = Pmu { is_shared: true, ..pmu(12, Some(&[0]), &[("data_reads", "event=0x20")]) };
        let cpu = pmu(4, None, &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3"), ("odd", "event=?")]);
        machine(vec![("cpu", cpu), ("uncore_imc", shared)])
    }

    fn hybrid() -> Machine {
        machine(vec![("cpu_core", pmu(4, Some(&[0, 1]), &[])), ("cpu_atom", pmu(10, Some(&[2, 3]), &[]))])
    }

    fn arm() -> Machine {
        let little = pmu(8, Some(&[0, 1]), &[("l3d_cache_refill", "event=0x2a"), ("cpu_cycles", "event=0x11")]);
        let big = pmu(9, Some(&[2, 3]), &[("cpu_cycles", "event=0x11")]);
        machine(vec![("armv8_cortex_a55", little), ("armv8_cortex_a76", big)])
    }

    /// Unit, type, `config`, `config1`, processors.
    type Opened = (Option<String>, u32, u64, u64, Vec<u32>);

    fn opened(text: &str, machine: &Machine) -> Vec<Opened> {
        let openings = resolve(&Event::parse(text).unwrap(), machine).unwrap_or_else(|refusal| panic!("{refusal:?}"));
        openings.into_iter().map(|o| (o.pmu, o.kind, o.words[0], o.words[1], o.cpus)).collect()
    }

    fn refused(text: &str, machine: &Machine) -> (String, String) {
        let refusal = resolve(&Event::parse(text).unwrap(), machine).expect_err(text);
        (refusal.reason, refusal.hint.unwrap_or_default())
    }

    #[test]
    fn one_unit_counts_on_all_processors() {
        let (cpu, all) = (|| Some("cpu".to_owned()), vec![0, 1, 2, 3]);
        assert_eq!(opened("cycles", &x86()), [(cpu(), 0, 0, 0, all.clone())]);
        assert_eq!(opened("LLC-load-misses", &x86()), [(cpu(), 3, 0x1_0002, 0, all.clone())]);
        assert_eq!(opened("r1c2", &x86()), [(cpu(), 4, 0x1c2, 0, all.clone())]);
        assert_eq!(
            opened("cpu/event=0xcd,umask=2,inv,ldlat=0x1f/", &x86()),
            [(cpu(), 4, 0x80_02cd, 0x1f, all.clone())]
        );
        assert_eq!(opened("mem-loads", &x86()), [(cpu(), 4, 0x1cd, 3, all.clone())]);
        assert_eq!(opened("cpu/config=0x3c/", &x86()), [(cpu(), 4, 0x3c, 0, all.clone())]);
        assert_eq!(opened("task-clock", &x86()), [(None, 1, 1, 0, all)]);
        assert_eq!(opened("major-faults", &x86()), []);
    }

    #[test]
    fn types_of_processors_count_apart() {
        let core = |words| (Some("cpu_core".to_owned()), 0, 4_u64 << 32 | words, 0, vec![0, 1]);
        let atom = |words| (Some("cpu_atom".to_owned()), 0, 10_u64 << 32 | words, 0, vec![2, 3]);
        assert_eq!(opened("instructions", &hybrid()), [atom(1), core(1)]);
        assert_eq!(opened("cpu_core/cycles/", &hybrid()), [core(0)]);
        let both = resolve(&Event::parse("cycles").unwrap(), &hybrid()).unwrap();
        assert!(both.iter().all(|opening| opening.partial && opening.otherwise == Some(0)));
        let little = (Some("armv8_cortex_a55".to_owned()), 8, 0x2a, 0, vec![0, 1]);
        assert_eq!(
            opened("l3d_cache_refill", &arm()),
            std::slice::from_ref(&little),
            "the other type has no such event"
        );
        assert_eq!(opened("armv8_cortex_a55/l3d_cache_refill/", &arm()), [little]);
        assert_eq!(opened("cpu_cycles", &arm()).len(), 2);
    }

    #[test]
    fn a_unit_may_be_named_without_its_number() {
        let numbered = machine(vec![
            ("armv8_pmuv3_0", pmu(8, Some(&[0, 1]), &[("ll_cache", "event=0x32")])),
            ("armv8_pmuv3_1", pmu(9, Some(&[2, 3]), &[("ll_cache", "event=0x32")])),
        ]);
        assert_eq!(opened("armv8_pmuv3/ll_cache/", &numbered).len(), 2);
        assert_eq!(opened("armv8_pmuv3_1/ll_cache/", &numbered).len(), 1);
    }

    #[test]
    fn what_is_not_there_is_refused_in_a_sentence() {
        let (reason, hint) = refused("cycles", &machine(vec![]));
        assert!(reason.contains("no PMU") && hint.contains("instance type"), "{reason}; {hint}");
        let (reason, hint) = refused("cpu_cores/cycles/", &hybrid());
        assert!(reason.contains("no unit `cpu_cores`") && hint.contains("`cpu_core`"), "{reason}; {hint}");
        let (reason, hint) = refused("mem_loads", &x86());
        assert!(reason.contains("no event `mem_loads`") && hint.contains("`mem-loads`"), "{reason}; {hint}");
        assert!(refused("cpu/evnt=3/", &x86()).1.contains("`event`"));
        assert!(refused("cpu/event=0x1ff/", &x86()).0.contains("8 bits"));
        assert!(refused("cpu/odd/", &x86()).0.contains("needs a value"));
        assert!(refused("cpu/event=1,period=1000/", &x86()).0.contains("sampling"));
        assert!(refused("uncore_imc/data_reads/", &x86()).0.contains("all processors together"));
    }
}
