//! A profile as pprof reads it (`profile.proto`, not compressed). What a sample is in stands in its labels: `phase`,
//! `layer`, `op`, `operator`, `waiting`; pprof's `-tagroot` makes frames of them.

use super::names::{Names, Symbolizer};
use super::selection::{Selection, place_name};
use crate::timeline::protobuf::Message;
use indexmap::IndexSet;
use profinfer_analysis::{Catalogue, Phase, Profile, StackId, Within};
use profinfer_schema::{CodePlace, Sampling};

/// The fields of `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRINGS: u64 = 6;
    pub(super) const TIME: u64 = 9;
    pub(super) const DURATION: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
}

/// Texts, functions and places, numbered as they come.
struct Tables {
    strings: IndexSet<String>,
    functions: IndexSet<(u64, u64)>,
    places: IndexSet<CodePlace>,
    /// The function of each place.
    of_places: Vec<u64>,
}

impl Tables {
    fn new() -> Self {
        let strings = std::iter::once(String::new()).collect();
        Self { strings, functions: IndexSet::new(), places: IndexSet::new(), of_places: Vec::new() }
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(index) = self.strings.get_index_of(text) {
            return index as u64;
        }
        self.strings.insert_full(text.to_owned()).0 as u64
    }

    /// The location of a place: numbers begin at 1.
    fn place(&mut self, place: CodePlace, names: &mut Names<'_>) -> u64 {
        let (index, new) = self.places.insert_full(place);
        if new {
            let function = names.of(place);
            let key = (self.text(&function.name), self.text(&function.module));
            let number = self.functions.insert_full(key).0 as u64 + 1;
            self.of_places.push(number);
        }
        index as u64 + 1
    }

    fn value_type(&mut self, message: &mut Message, field: u64, kind: &str, unit: &str) {
        let (kind, unit) = (self.text(kind), self.text(unit));
        message.message(field, |value| {
            value.uint(1, kind).uint(2, unit);
        });
    }
}

/// The profile. Times are UNIX times and lengths, in ns.
pub fn pprof(
    (time_ns, duration_ns): (u64, u64),
    sampling: &Sampling,
    (profile, catalogue): (&Profile, &Catalogue),
    selection: &Selection,
    symbols: &mut dyn Symbolizer,
) -> Vec<u8> {
    let period = 1_000_000_000 / u64::from(sampling.hz.max(1));
    let (mut tables, mut names) = (Tables::new(), Names::new(sampling, symbols));
    let mut out = Message::default();
    tables.value_type(&mut out, field::SAMPLE_TYPE, "samples", "count");
    tables.value_type(&mut out, field::SAMPLE_TYPE, "cpu", "nanoseconds");
    for (phase, within, waiting, stack, count) in profile.counts() {
        if selection.wants(phase, within, catalogue) {
            let labels = labels(phase, within, waiting, (profile, catalogue));
            sample(&mut out, &mut tables, &mut names, (profile, stack), (count, count * period), &labels);
        }
    }
    mappings(&mut out, &mut tables, sampling);
    for (index, place) in tables.places.iter().enumerate() {
        let mapping = if place.module < CodePlace::MODULES { u64::from(place.module) + 1 } else { 0 };
        let function = tables.of_places.get(index).copied().unwrap_or(0);
        out.message(field::LOCATION, |location| {
            location.uint(1, index as u64 + 1).uint(2, mapping).uint(3, place.offset);
            location.message(4, |line| {
                line.uint(1, function);
            });
        });
    }
    for (index, (name, module)) in tables.functions.iter().enumerate() {
        out.message(field::FUNCTION, |function| {
            function.uint(1, index as u64 + 1).uint(2, *name).uint(3, *name).uint(4, *module);
        });
    }
    tables.value_type(&mut out, field::PERIOD_TYPE, "cpu", "nanoseconds");
    let comment = tables.text(&format!("{} samples lost; {} Hz of {}", sampling.lost, sampling.hz, sampling.event));
    out.uint(field::COMMENT, comment);
    out.uint(field::TIME, time_ns).uint(field::DURATION, duration_ns).uint(field::PERIOD, period);
    for text in &tables.strings {
        out.bytes(field::STRINGS, text.as_bytes());
    }
    out.as_bytes().to_vec()
}

fn labels(
    phase: Phase,
    within: Within,
    waiting: bool,
    (profile, catalogue): (&Profile, &Catalogue),
) -> Vec<(&'static str, String)> {
    let mut labels = vec![("phase", phase.as_str().to_owned())];
    labels.push(("op", place_name(within, catalogue, profile.has_operators())));
    if let Within::Operator(kind) = within {
        let kind = catalogue.kind(kind);
        labels.extend(kind.layer.as_ref().map(|layer| ("layer", layer.to_string())));
        labels.push(("operator", kind.name.to_string()));
    }
    if waiting {
        labels.push(("waiting", "yes".to_owned()));
    }
    labels
}

fn sample(
    out: &mut Message,
    tables: &mut Tables,
    names: &mut Names<'_>,
    (profile, stack): (&Profile, StackId),
    (count, ns): (u64, u64),
    labels: &[(&'static str, String)],
) {
    let places: Vec<u64> = profile.stack(stack).iter().map(|place| tables.place(*place, names)).collect();
    let labels: Vec<(u64, u64)> = labels.iter().map(|(key, value)| (tables.text(key), tables.text(value))).collect();
    out.message(field::SAMPLE, |sample| {
        for place in places {
            sample.uint(1, place);
        }
        sample.uint(2, count).uint(2, ns);
        for (key, value) in labels {
            sample.message(3, |label| {
                label.uint(1, key).uint(2, value);
            });
        }
    });
}

/// The files, as if each were mapped at 0: addresses of locations are places in files.
fn mappings(out: &mut Message, tables: &mut Tables, sampling: &Sampling) {
    for (index, module) in sampling.modules.iter().enumerate() {
        let path = tables.text(&module.path);
        let build_id = tables.text(module.build_id.as_deref().unwrap_or_default());
        out.message(field::MAPPING, |mapping| {
            mapping.uint(1, index as u64 + 1).uint(2, 0).uint(3, module.size.max(1)).uint(5, path).uint(6, build_id);
            // It has functions: nobody need search for its symbols again.
            mapping.uint(7, 1);
        });
    }
}
