//! A trace of several engines, seen as one of them: its names are those of its own probeset, its records have their
//! roles, and those of the others have none, so that nothing is made of them.

use super::meta::Meta;
use super::schema::{FieldType, ModuleInfo, OriginPart, Site};

/// Between a part's key and a name of it in the trace.
const BETWEEN: &str = "__";

impl OriginPart {
    /// The name by itself, where it is one of this part's.
    pub fn own<'n>(&self, name: &'n str) -> Option<&'n str> {
        name.strip_prefix(&self.key)?.strip_prefix(BETWEEN)
    }
}

/// One part of a trace's origin, and the others.
#[derive(Debug, Clone)]
pub(super) struct PartView {
    part: OriginPart,
    others: Vec<OriginPart>,
}

impl PartView {
    pub(super) fn new(part: &OriginPart, all: &[OriginPart]) -> Self {
        Self { part: part.clone(), others: all.iter().filter(|other| other.key != part.key).cloned().collect() }
    }

    fn is_of_another(&self, name: &str) -> bool {
        self.others.iter().any(|other| other.own(name).is_some())
    }

    fn name(&self, name: &mut String) {
        if let Some(own) = self.part.own(name) {
            *name = own.to_owned();
        }
    }

    fn ty(&self, ty: &mut FieldType) {
        match ty {
            FieldType::Enum(name) | FieldType::Object(name) => self.name(name),
            FieldType::Array(of, _) | FieldType::List(of, _) => self.ty(of),
            _ => {}
        }
    }

    /// What was read before the first record.
    pub(super) fn see_schema(&self, meta: &mut Meta) {
        let origin = &mut meta.origin;
        origin.probeset.clone_from(&self.part.probeset);
        origin.engine.clone_from(&self.part.engine);
        if let Some(first) = origin.sources.iter().position(|(name, _)| *name == self.part.file) {
            origin.sources.swap(0, first);
        }
        for (number, record) in (0..).zip(&mut meta.schema.records) {
            if self.is_of_another(&record.name) {
                record.role = None;
                meta.schema.others.insert(number);
                continue;
            }
            self.name(&mut record.name);
            for field in &mut record.fields {
                self.name(&mut field.name);
                self.ty(&mut field.ty);
            }
        }
        meta.schema.counters = self.own(std::mem::take(&mut meta.schema.counters)).collect();
        meta.schema.describes = self.own(std::mem::take(&mut meta.schema.describes)).collect();
        for said in meta.schema.describes.values_mut() {
            self.name(&mut said.object);
            self.name(&mut said.field);
        }
        self.see_enums(meta);
    }

    /// What is of this part, or of all of them, by its own name.
    fn own<T>(&self, all: impl IntoIterator<Item = (String, T)>) -> impl Iterator<Item = (String, T)> {
        let own = all.into_iter().filter(|(name, _)| !self.is_of_another(name));
        own.map(|(mut name, of)| {
            self.name(&mut name);
            (name, of)
        })
    }

    /// Enumerations, also those that became known later.
    pub(super) fn see_enums(&self, meta: &mut Meta) {
        meta.schema.enums = self.own(std::mem::take(&mut meta.schema.enums)).collect();
    }

    /// Sites that became known.
    pub(super) fn see_sites(&self, sites: &mut [Site]) {
        for probes in sites.iter_mut().map(|site| &mut site.probes) {
            probes.retain(|probe| !self.is_of_another(probe));
            probes.iter_mut().for_each(|probe| self.name(probe));
        }
    }

    /// Modules that became known: what each is to this engine.
    pub(super) fn see_modules(&self, modules: &mut [ModuleInfo]) {
        for module in modules {
            let names = module.name.split(", ").filter(|name| !self.is_of_another(name));
            let own: Vec<&str> = names.map(|name| self.part.own(name).unwrap_or(name)).collect();
            module.name = own.join(", ");
        }
    }

    /// What the recording cost, by probe, and what it left out.
    pub(super) fn see_end(&self, meta: &mut Meta) {
        let Some(end) = &mut meta.end else { return };
        end.left_out.retain(|entry| !entry.probe.as_ref().is_some_and(|probe| self.is_of_another(probe)));
        end.left_out.iter_mut().filter_map(|entry| entry.probe.as_mut()).for_each(|probe| self.name(probe));
        let Some(price) = &mut end.price else { return };
        price.record_ns = self.own(std::mem::take(&mut price.record_ns)).collect();
    }

    /// Losses as they stand: another's are another's.
    pub(super) fn see_losses(&self, meta: &mut Meta) {
        meta.losses.retain(|loss| !self.is_of_another(&loss.record));
        meta.losses.iter_mut().for_each(|loss| self.name(&mut loss.record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Role;
    use crate::trace::{DescribesObject, FieldLayout, HEADER_SIZE, Loss, LossKind, RecordKind, RecordType};

    fn part(key: &str) -> OriginPart {
        let file = format!("{key}.yaml");
        OriginPart { key: key.to_owned(), probeset: key.to_owned(), engine: key.to_uppercase(), file }
    }

    fn record(name: &str, ty: FieldType) -> RecordType {
        let field = FieldLayout { name: "node".to_owned(), offset: HEADER_SIZE, ty };
        let (kind, role) = (RecordKind::Span, Some(Role::Operator));
        RecordType { name: name.to_owned(), kind, role, size: HEADER_SIZE + 8, fields: vec![field] }
    }

    #[test]
    fn a_trace_of_two_engines_is_seen_as_one() {
        let mut meta = Meta::of_version(1);
        meta.origin.parts = vec![part("a"), part("b")];
        meta.origin.sources = ["a.yaml", "b.yaml"].map(|name| (name.to_owned(), String::new())).to_vec();
        let object = |of: &str| FieldType::Array(Box::new(FieldType::Object(of.to_owned())), 2);
        meta.schema.records =
            vec![record("a__run", object("a__x")), record("b__run", object("b__x")), record("switch", FieldType::Bool)];
        meta.schema.enums.insert("a__kind".to_owned(), std::iter::once((2, "ADD".to_owned())).collect());
        meta.schema.enums.insert("b__kind".to_owned(), std::iter::once((1, "ADD".to_owned())).collect());
        for part in ["a", "b"] {
            let said = DescribesObject { object: format!("{part}__x"), field: "described".to_owned(), at_end: true };
            meta.schema.describes.insert(format!("{part}__make"), said);
        }
        let loss = |name: &str| Loss { record: name.to_owned(), kind: LossKind::RingFull, count: 1 };
        meta.losses = vec![loss("a__run"), loss("b__run"), loss("switch")];
        let view = PartView::new(&part("b"), &meta.origin.parts);
        view.see_schema(&mut meta);
        view.see_losses(&mut meta);
        assert_eq!((meta.origin.engine.as_str(), meta.origin.sources[0].0.as_str()), ("B", "b.yaml"));
        let records: Vec<(&str, Option<Role>)> =
            meta.schema.records.iter().map(|record| (record.name.as_str(), record.role)).collect();
        // The other's records stay where they are, and are nothing.
        assert_eq!(records, [("a__run", None), ("run", Some(Role::Operator)), ("switch", Some(Role::Operator))]);
        assert_eq!(meta.schema.others, std::iter::once(0).collect());
        assert_eq!(meta.schema.records[1].fields[0].ty, object("x"));
        assert_eq!((meta.schema.enums.len(), meta.schema.enums["kind"][&1].as_str()), (1, "ADD"));
        let describes: Vec<(&str, &str)> =
            meta.schema.describes.iter().map(|(record, said)| (record.as_str(), said.object.as_str())).collect();
        assert_eq!(describes, [("make", "x")]);
        let losses: Vec<&str> = meta.losses.iter().map(|loss| loss.record.as_str()).collect();
        assert_eq!(losses, ["run", "switch"]);
    }
}
