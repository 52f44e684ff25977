//! Models and sequences: drafting and verifying where a process runs two models, and how many requests a step advances.

use super::Given;
use crate::numbers::ratios::{mean, ratio};
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{rate, share, time_f64};
use crate::text::TextStyle;
use Align::{Left, Right};
use profinfer_analysis::{InstanceSource, Rounds, counted, group_digits};
use serde::Serialize;

/// The section.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelsSection {
    /// How models are distinguished; `None` if there is one only.
    pub told_by: Option<InstanceSource>,
    /// In the order of their first steps.
    pub models: Vec<ModelRow>,
    /// Drafting and verifying.
    pub rounds: Vec<RoundsRow>,
    /// Steps by the number of sequences that they advance; empty where that is not recorded.
    pub sequences: Vec<SequenceRow>,
    /// What is not available, and why.
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
    /// Their tokens, where they have them.
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
    /// Tokens that were accepted, of the rounds that have it recorded; `None` where none has.
    pub accepted: Option<u64>,
    /// The same by the tokens that were drafted in these.
    pub accepted_share: Option<f64>,
    /// Rounds that have it recorded.
    pub known_rounds: u64,
}

/// Steps that advance the same number of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SequenceRow {
    /// Sequences.
    pub sequences: u64,
    /// Steps.
    pub steps: u64,
    /// Their tokens, where they have them.
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
        section.sentences = section.describe();
        section.absent = section
            .models
            .is_empty()
            .then(|| "No step identifies its model, by a field `instance` or by its operators' layers.".to_owned());
        section
    }

    fn describe(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        match (self.models.len(), self.told_by, self.rounds.is_empty()) {
            (0, ..) => {}
            (1, ..) => sentences.push("All steps are of one model: no speculative decoding.".to_owned()),
            (_, told_by, none) => {
                if told_by == Some(InstanceSource::Graph) {
                    sentences.push(
                        "Models are distinguished by layers and width only (steps have no field `instance`)."
                            .to_owned(),
                    );
                }
                if none {
                    sentences.push("No speculative decoding: the models do not alternate.".to_owned());
                }
            }
        }
        if self.rounds.iter().any(|row| row.accepted.is_none()) {
            let why = "The number of accepted draft tokens is unknown: steps have no field `position`.";
            sentences.push(why.to_owned());
        }
        if !self.models.is_empty() && self.sequences.is_empty() {
            sentences.push("The number of sequences per step was not recorded (field `sequence_count`).".to_owned());
        }
        sentences
    }

    pub(super) fn text(&self, out: &mut String, style: &TextStyle) {
        let title = "Models and sequences";
        if let Some(why) = &self.absent {
            return super::absent(out, style, title, why);
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
                crate::numbers::units::time(row.total_ns),
                row.single_ns.map(time_f64).unwrap_or_default(),
            ]);
        }
        style.table(out, title, &table, None);
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
                format!("{:.1} per round", row.drafted as f64 / row.rounds.max(1) as f64),
                time_f64(row.draft_ns),
                time_f64(row.verify_ns),
                row.accepted.map(group_digits).unwrap_or_default(),
                row.accepted_share.map(share).unwrap_or_default(),
            ]);
        }
        style.table(out, "Drafting and verifying", &table, None);
        let headings = ["sequences", "steps", "tokens", "one token each", "mean", "tokens/s"];
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
        style.table(out, "Sequences per step", &table, None);
        super::sentences(out, &self.sentences);
    }
}

impl RoundsRow {
    fn new((draft, verify, rounds): (u32, u32, Rounds)) -> Self {
        let is_resolved = rounds.resolved > 0;
        Self {
            draft,
            verify,
            rounds: rounds.rounds,
            draft_steps: rounds.draft_steps,
            drafted: rounds.drafted,
            draft_ns: mean(rounds.draft_time, rounds.rounds),
            verify_ns: mean(rounds.verify_time, rounds.rounds),
            accepted: is_resolved.then_some(rounds.accepted),
            accepted_share: is_resolved.then(|| ratio(rounds.accepted, rounds.resolved_drafted)),
            known_rounds: rounds.resolved,
        }
    }
}
