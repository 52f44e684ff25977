//! Several engines in one recording: which engine a name belongs to, and what it is called there.

use super::{RecordType, Role};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One of the engines that are recorded together: its number among [`Origin::parts`](crate::Origin::parts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EngineId(pub u16);

/// A name as the probeset of an engine has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineName {
    /// The engine.
    pub engine: EngineId,
    /// The name.
    pub name: String,
}

/// The names of engines that are recorded together, by the identifier that each has in the recording and in C. What is
/// not here has one name for all engines, as everything has where one engine is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(IndexMap<String, EngineName>);

impl Names {
    /// Adds a name; gives its identifier.
    pub fn define(&mut self, engine: EngineId, key: &str, name: &str) -> String {
        let identifier = identifier(key, name);
        self.0.insert(identifier.clone(), EngineName { engine, name: name.to_owned() });
        identifier
    }

    /// The engine that an identifier belongs to, and its name there.
    pub fn get(&self, identifier: &str) -> Option<(EngineId, &str)> {
        self.0.get(identifier).map(|of| (of.engine, of.name.as_str()))
    }

    /// The engine that an identifier belongs to.
    pub fn engine(&self, identifier: &str) -> Option<EngineId> {
        self.get(identifier).map(|(engine, _)| engine)
    }

    /// What an identifier stands for, without its engine.
    pub fn plain<'n>(&'n self, identifier: &'n str) -> &'n str {
        self.get(identifier).map_or(identifier, |(_, name)| name)
    }

    /// Whether there is one engine.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, EngineName)> for Names {
    fn from_iter<I: IntoIterator<Item = (String, EngineName)>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}

/// The identifier, in the recording and in C, of a name of the engine with this key. Nothing takes it apart: [`Names`]
/// has what it stands for.
pub fn identifier(key: &str, name: &str) -> String {
    format!("{key}__{name}")
}

/// The engines that a target had: those with a placed probe, except one that ran no step and whose operators are those of
/// another one that did, in a library that both are built on. `has_records` is asked for record types by index, `engine`
/// for probes; `placed` are probes with the place of each: a file and an offset.
pub fn engines_present<'p, P: Ord>(
    records: &[RecordType],
    has_records: impl Fn(usize) -> bool,
    engine: impl Fn(&str) -> Option<EngineId>,
    placed: impl IntoIterator<Item = (P, &'p String)>,
) -> BTreeSet<EngineId> {
    let of_role = |role: Role| records.iter().enumerate().filter(move |(_, record)| record.role == Some(role));
    let ran = of_role(Role::Step).filter(|(index, _)| has_records(*index));
    let ran: BTreeSet<EngineId> = ran.filter_map(|(_, record)| engine(&record.name)).collect();
    let operators: BTreeSet<&String> = of_role(Role::Operator).map(|(_, record)| &record.name).collect();
    let mut places: BTreeMap<P, Vec<(&String, EngineId)>> = BTreeMap::new();
    for (place, probe) in placed {
        places.entry(place).or_default().extend(engine(probe).map(|engine| (probe, engine)));
    }
    let (mut shared, mut own) = (BTreeSet::new(), BTreeSet::new());
    for probes in places.values() {
        let is_of_a_step = probes.iter().any(|(_, engine)| ran.contains(engine));
        let of_operators = probes.iter().filter(|(probe, _)| operators.contains(probe)).map(|(_, engine)| *engine);
        if is_of_a_step { &mut shared } else { &mut own }.extend(of_operators);
    }
    let is_present = |engine: &EngineId| ran.contains(engine) || own.contains(engine) || !shared.contains(engine);
    places.into_values().flatten().map(|(_, engine)| engine).filter(is_present).collect()
}
