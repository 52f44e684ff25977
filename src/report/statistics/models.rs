//! Models and sequences: drafting and verifying where a process runs two models, and how many requests a step advances.

use super::Given;
use crate::analysis::{Rounds, ToldBy, counted, group_digits};
use crate::report::build::{mean, ratio};
use crate::report::table::{Align, Table};
use crate::report::text::Look;
use crate::report::units::{rate, share, time_f64};
use Align::{Left, Right};
use serde::Serialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelsSection {
    /// By what models are told apart; `None` where there is one only.
    pub told_by: Option<ToldBy>,
    /// In the order of their first steps.
    pub models: Vec<ModelRow>,
    /// Drafting and verifying.
    pub rounds: Vec<RoundsRow>,
    /// Steps by the number of sequences that they advance; empty where that is not recorded.
    pub sequences: Vec<SequenceRow>,
    /// What cannot be told, and why.
    pub sentences: Vec<String>,
    /// Why there is nothing.
    pub absent: Option<String>,
}

/// A model, or a context of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelRow {
    /// Its index: `model` elsewhere.
    pub model: u64,
    /// The process.
    pub pid: u32,
    /// Its layers, as far as they were seen.
    pub layers: u64,
    /// The most common first extent of operators in its layers.
    pub width: Option<i64>,
    /// Steps.
    pub steps: u64,
    /// Their tokens, where they say them.
    pub tokens: u64,
    /// Their time, ns.
    pub total_ns: u64,
    /// Mean duration of steps of one token, ns; `None` where there are none.
    pub single_ns: Option<f64>,
}

/// Rounds of two models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoundsRow {
    /// The model that drafts.
    pub draft: u32,
    /// The model that verifies.
    pub verify: u32,
    /// Rounds.
    pub rounds: u64,
    /// Steps of the drafting model in them.
    pub draft_steps: u64,
    /// Tokens that were drafted and verified.
    pub drafted: u64,
    /// Mean time of drafting in a round, ns.
    pub draft_ns: f64,
    /// Mean time of verifying, ns.
    pub verify_ns: f64,
    /// Tokens that were accepted, of the rounds of which it is known; `None` where it is known of none.
    pub accepted: Option<u64>,
    /// The same by the tokens that were drafted in these.
    pub accepted_share: Option<f64>,
    /// Rounds of which it is known.
    pub known_rounds: u64,
}

/// Steps that advance the same number of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SequenceRow {
    /// Sequences.
    pub sequences: u64,
    /// Steps.
    pub steps: u64,
    /// Their tokens, where they say them.
    pub tokens: u64,
    /// Their time, ns.
    pub total_ns: u64,
    /// Of the steps, those with one token for each sequence.
    pub one_each: u64,
    /// Their mean duration, ns; `None` where there are none.
    pub one_each_ns: Option<f64>,
    /// Tokens by the time of these; `None` where there are none.
    pub one_each_tokens_per_s: Option<f64>,
}

impl ModelsSection {
    pub(super) fn new(given: &Given<'_>) -> Self {
        let streams = &given.study.streams;
        let models: Vec<ModelRow> = (0..)
            .zip(streams.models())
            .map(|(model, totals)| ModelRow {
                model,
                pid: totals.pid,
                layers: totals.layers,
                width: totals.width,
                steps: totals.steps,
                tokens: totals.tokens,
                total_ns: totals.time,
                single_ns: (totals.single_steps > 0).then(|| mean(totals.single_time, totals.single_steps)),
            })
            .collect();
        let rounds: Vec<RoundsRow> = streams.rounds().into_iter().map(RoundsRow::new).collect();
        let sequences = streams.sequences().iter().map(|(sequences, totals)| {
            let one_each = totals.one_each > 0;
            let tokens = sequences.saturating_mul(totals.one_each) as f64;
            SequenceRow {
                sequences: *sequences,
                steps: totals.steps,
                tokens: totals.tokens,
                total_ns: totals.time,
                one_each: totals.one_each,
                one_each_ns: one_each.then(|| mean(totals.one_each_time, totals.one_each)),
                one_each_tokens_per_s: (one_each && totals.one_each_time > 0)
                    .then(|| tokens * 1e9 / totals.one_each_time as f64),
            }
        });
        let mut section = Self {
            told_by: (models.len() > 1).then(|| streams.told_by()),
            models,
            rounds,
            sequences: sequences.collect(),
            sentences: Vec::new(),
            absent: None,
        };
        section.sentences = section.say();
        section.absent = section.models.is_empty().then(|| {
            "No step tells what model it is of, by a field `instance` or by its operators' layers.".to_owned()
        });
        section
    }

    fn say(&self) -> Vec<String> {
        let mut said = Vec::new();
        match (self.models.len(), self.told_by, self.rounds.is_empty()) {
            (0, ..) => {}
            (1, ..) => said.push("All steps are of one model: nothing was drafted.".to_owned()),
            (_, told_by, none) => {
                if told_by == Some(ToldBy::Graph) {
                    said.push(
                        "Models are told apart by their layers and width alone (steps have no field `instance`)."
                            .to_owned(),
                    );
                }
                if none {
                    said.push("No model verifies what another drafts: they do not take turns.".to_owned());
                }
            }
        }
        if self.rounds.iter().any(|row| row.accepted.is_none()) {
            let why = "How many drafted tokens were accepted is not known: steps do not say their first token's \
                       `position`.";
            said.push(why.to_owned());
        }
        if !self.models.is_empty() && self.sequences.is_empty() {
            said.push("How many sequences a step advances is not recorded (a field `sequence_count`).".to_owned());
        }
        said
    }

    pub(super) fn text(&self, out: &mut String, look: &Look) {
        let title = "Models and sequences";
        if let Some(why) = &self.absent {
            return super::absent(out, look, title, why);
        }
        let headings = ["model", "layers", "width", "steps", "tokens", "time", "step of one token"];
        let mut table = Table::new(&headings.map(|name| (name, Right)));
        for row in &self.models {
            table.row(vec![
                row.model.to_string(),
                if row.layers > 0 { row.layers.to_string() } else { String::new() },
                row.width.map(|width| width.to_string()).unwrap_or_default(),
                group_digits(row.steps),
                group_digits(row.tokens),
                crate::report::units::time(row.total_ns),
                row.single_ns.map(time_f64).unwrap_or_default(),
            ]);
        }
        look.table(out, title, &table, None);
        let mut table = Table::new(&[
            ("rounds", Right),
            ("model", Left),
            ("drafts", Right),
            ("in", Right),
            ("verified in", Right),
            ("accepted", Right),
            ("", Right),
        ]);
        for row in &self.rounds {
            table.row(vec![
                group_digits(row.rounds),
                format!("{} for {}", row.draft, row.verify),
                format!("{:.1} a round", row.drafted as f64 / row.rounds.max(1) as f64),
                time_f64(row.draft_ns),
                time_f64(row.verify_ns),
                row.accepted.map(group_digits).unwrap_or_default(),
                row.accepted_share.map(share).unwrap_or_default(),
            ]);
        }
        look.table(out, "Drafting and verifying", &table, None);
        let headings = ["sequences", "steps", "tokens", "a token each", "mean", "tokens/s"];
        let mut table = Table::new(&headings.map(|name| (name, Right)));
        for row in &self.sequences {
            table.row(vec![
                row.sequences.to_string(),
                group_digits(row.steps),
                group_digits(row.tokens),
                counted(row.one_each, "step"),
                row.one_each_ns.map(time_f64).unwrap_or_default(),
                row.one_each_tokens_per_s.map(rate).unwrap_or_default(),
            ]);
        }
        look.table(out, "Sequences a step", &table, None);
        super::sentences(out, &self.sentences);
    }
}

impl RoundsRow {
    fn new((draft, verify, rounds): (u32, u32, Rounds)) -> Self {
        let known = rounds.known > 0;
        Self {
            draft,
            verify,
            rounds: rounds.rounds,
            draft_steps: rounds.draft_steps,
            drafted: rounds.drafted,
            draft_ns: mean(rounds.draft_time, rounds.rounds),
            verify_ns: mean(rounds.verify_time, rounds.rounds),
            accepted: known.then_some(rounds.accepted),
            accepted_share: known.then(|| ratio(rounds.accepted, rounds.known_drafted)),
            known_rounds: rounds.known,
        }
    }
}
