//! Numbers of a step that its own record may lack: they are those of the records in it.

use super::model::Experts;
use super::pending::ClosedStep;
use crate::raw::{Decoder, Header};
use profinfer_schema::FieldMeaning;

/// A number of the step's record, or, where it has none, those of its graphs and of the regions in it.
pub(super) fn numbers<'s>(
    step: &'s ClosedStep,
    decoder: &'s Decoder,
    meaning: FieldMeaning,
) -> Box<dyn Iterator<Item = u64> + 's> {
    let of = move |record: &[u8]| {
        let header = Header::read(record)?;
        decoder.records.get(usize::from(header.record_type))?.count(meaning, record, header.missing)
    };
    if let Some(number) = of(&step.record) {
        return Box::new(std::iter::once(number));
    }
    let graphs = step.bucket.graphs.iter().map(|graph| &graph.record);
    let regions = step.bucket.regions.iter().filter_map(|region| region.record.as_ref());
    Box::new(graphs.chain(regions).filter_map(move |record| of(record)))
}

/// The tokens of a step: by its field, else the sum over the outermost graphs, regions and steps in it with tokens.
pub(super) fn tokens(step: &ClosedStep, decoder: &Decoder) -> Option<u64> {
    let fields = decoder.records.get(usize::from(step.header.record_type));
    let own = fields.and_then(|fields| fields.count(FieldMeaning::Tokens, &step.record, step.header.missing));
    if own.is_some() {
        return own;
    }
    let graphs = step.bucket.graphs.iter().filter_map(|g| Some((g.thread, g.start, g.end, g.tokens?)));
    let regions = step.bucket.regions.iter().filter_map(|r| Some((r.thread, r.start, r.end, r.tokens?)));
    let inner = step.inner_tokens.iter().map(|(start, end, tokens)| (step.thread, *start, *end, *tokens));
    let mut spans: Vec<(u32, u64, u64, u64)> = graphs.chain(regions).chain(inner).collect();
    spans.sort_by_key(|(thread, start, end, _)| (*thread, *start, std::cmp::Reverse(*end)));
    let mut total: Option<u64> = None;
    let mut around: Option<(u32, u64)> = None;
    for (thread, _, end, tokens) in spans {
        if around.is_some_and(|(t, until)| t == thread && end <= until) {
            continue;
        }
        around = Some((thread, end));
        total = Some(total.unwrap_or(0).saturating_add(tokens));
    }
    total
}

/// How many distinct experts each operator used, by operator.
pub(super) fn experts_used(experts: &[Experts]) -> Vec<(u32, u32)> {
    let ids = experts.iter().filter_map(|e| Some((e.operator?, &e.ids)));
    let mut pairs: Vec<(u32, u32)> =
        ids.flat_map(|(operator, ids)| ids.iter().map(move |id| (operator, *id))).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut used: Vec<(u32, u32)> = Vec::new();
    for (operator, _) in pairs {
        match used.last_mut() {
            Some((last, count)) if *last == operator => *count += 1,
            _ => used.push((operator, 1)),
        }
    }
    used
}
