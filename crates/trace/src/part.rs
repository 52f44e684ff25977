//! A trace of several engines, seen as one of them: its names are those of its probeset, its records have their
//! roles, and those of the others have none, so that nothing is made of them.

use super::meta::Meta;
use profinfer_schema::{EngineId, FieldType, ModuleInfo, Names, Origin, OriginPart, Schema, Site};

/// Between an engine's key and its names in traces whose schema has no names of engines.
const BETWEEN: &str = "__";

/// The engine that an identifier of a trace belongs to, and its name there; `None` for what is everybody's.
pub(super) fn resolve<'n>(names: &'n Names, parts: &[OriginPart], identifier: &'n str) -> Option<(EngineId, &'n str)> {
    if !names.is_empty() {
        return names.get(identifier);
    }
    let split = |part: &OriginPart| identifier.strip_prefix(part.key.as_str())?.strip_prefix(BETWEEN);
    (0..=u16::MAX).zip(parts).find_map(|(number, part)| Some((EngineId(number), split(part)?)))
}

/// One engine of a trace of several.
#[derive(Debug, Clone)]
pub(super) struct PartView {
    engine: EngineId,
    parts: Vec<OriginPart>,
    names: Names,
}

impl PartView {
    pub(super) fn new(engine: EngineId, origin: &Origin, schema: &mut Schema) -> Self {
        // What is left of the schema has the engine's own names.
        Self { engine, parts: origin.parts.clone(), names: std::mem::take(&mut schema.names) }
    }

    fn resolve<'n>(&'n self, identifier: &'n str) -> Option<(EngineId, &'n str)> {
        resolve(&self.names, &self.parts, identifier)
    }

    fn is_of_another(&self, identifier: &str) -> bool {
        self.resolve(identifier).is_some_and(|(engine, _)| engine != self.engine)
    }

    fn plain<'n>(&'n self, identifier: &'n str) -> &'n str {
        self.resolve(identifier).filter(|(engine, _)| *engine == self.engine).map_or(identifier, |(_, name)| name)
    }

    fn name(&self, name: &mut String) {
        *name = self.plain(name).to_owned();
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
        if let Some(part) = self.parts.get(usize::from(self.engine.0)) {
            origin.probeset.clone_from(&part.probeset);
            origin.engine.clone_from(&part.engine);
            if let Some(first) = origin.sources.iter().position(|(name, _)| *name == part.file) {
                origin.sources.swap(0, first);
            }
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
        for describes in meta.schema.describes.values_mut() {
            self.name(&mut describes.object);
            self.name(&mut describes.field);
        }
        self.see_enums(meta);
    }

    /// The items of this part and those of all parts, by name without the prefix.
    fn own<T>(&self, all: impl IntoIterator<Item = (String, T)>) -> impl Iterator<Item = (String, T)> {
        let own = all.into_iter().filter(|(name, _)| !self.is_of_another(name));
        own.map(|(mut name, of)| {
            self.name(&mut name);
            (name, of)
        })
    }

    /// Enumerations, also those added later.
    pub(super) fn see_enums(&self, meta: &mut Meta) {
        meta.schema.enums = self.own(std::mem::take(&mut meta.schema.enums)).collect();
    }

    /// Sites that were added.
    pub(super) fn see_sites(&self, sites: &mut [Site]) {
        for probes in sites.iter_mut().map(|site| &mut site.probes) {
            probes.retain(|probe| !self.is_of_another(probe));
            probes.iter_mut().for_each(|probe| self.name(probe));
        }
    }

    /// Modules that were added: the role of each for this engine.
    pub(super) fn see_modules(&self, modules: &mut [ModuleInfo]) {
        for module in modules {
            let names = module.name.split(", ").filter(|name| !self.is_of_another(name));
            let own: Vec<&str> = names.map(|name| self.plain(name)).collect();
            module.name = own.join(", ");
        }
    }

    /// What the recording cost, by probe, and what it left out.
    pub(super) fn see_end(&self, meta: &mut Meta) {
        let Some(end) = &mut meta.end else { return };
        end.left_out.retain(|entry| !entry.probe.as_ref().is_some_and(|probe| self.is_of_another(probe)));
        end.left_out.iter_mut().filter_map(|entry| entry.probe.as_mut()).for_each(|probe| self.name(probe));
        let Some(overhead) = &mut end.overhead else { return };
        overhead.record_ns = self.own(std::mem::take(&mut overhead.record_ns)).collect();
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
    use profinfer_schema::{DescribesObject, FieldLayout, HEADER_SIZE, Loss, LossKind, RecordKind, RecordType};
    use profinfer_schema::{EngineName, Role};

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
            let describes =
                DescribesObject { object: format!("{part}__x"), field: "described".to_owned(), at_end: true };
            meta.schema.describes.insert(format!("{part}__make"), describes);
        }
        let loss = |name: &str| Loss { record: name.to_owned(), kind: LossKind::RingFull, count: 1 };
        meta.losses = vec![loss("a__run"), loss("b__run"), loss("switch")];
        let view = PartView::new(EngineId(1), &meta.origin.clone(), &mut meta.schema);
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
        let describes: Vec<(&str, &str)> = meta
            .schema
            .describes
            .iter()
            .map(|(record, describes)| (record.as_str(), describes.object.as_str()))
            .collect();
        assert_eq!(describes, [("make", "x")]);
        let losses: Vec<&str> = meta.losses.iter().map(|loss| loss.record.as_str()).collect();
        assert_eq!(losses, ["run", "switch"]);
    }

    #[test]
    fn a_table_of_names_decides_and_not_what_an_identifier_looks_like() {
        let parts = [part("a"), part("b")];
        let of = |engine, name: &str| EngineName { engine: EngineId(engine), name: name.to_owned() };
        let names =
            [("b__run".to_owned(), of(0, "b__run")), ("x".to_owned(), of(1, "run")), ("y".to_owned(), of(9, "run"))];
        let names: Names = names.into_iter().collect();
        assert_eq!(resolve(&names, &parts, "b__run"), Some((EngineId(0), "b__run")));
        assert_eq!(resolve(&names, &parts, "a__run"), None, "everybody's");
        let mut schema = Schema { names, ..Schema::default() };
        let view = PartView::new(EngineId(1), &Origin { parts: parts.to_vec(), ..Origin::default() }, &mut schema);
        assert_eq!(["b__run", "x", "y", "switch"].map(|name| view.is_of_another(name)), [true, false, true, false]);
        assert_eq!(["x", "y"].map(|name| view.plain(name)), ["run", "y"]);
        // A trace without the table is one of the first version.
        assert_eq!(resolve(&Names::default(), &parts, "b__run"), Some((EngineId(1), "run")));
        assert_eq!(resolve(&Names::default(), &parts, "x"), None);
    }
}
