//! The table of requests.

use super::style::{TextStyle, more};
use crate::model::requests::RequestRow;
use crate::numbers::table::{Align, Table};
use crate::numbers::units::{share, time, time_f64};
use crate::report::Report;
use Align::Right;
use profinfer_analysis::group_digits;

/// Requests that are shown in a whole report.
const SHOWN: usize = 8;

/// The table, and what lies outside it.
pub(crate) fn text(out: &mut String, report: &Report, style: &TextStyle) {
    let limit = style.top.unwrap_or(if style.main_only { usize::MAX } else { SHOWN });
    let mut table = Table::new(&[
        ("request", Right),
        ("sequence", Right),
        ("queued", Right),
        ("prefill", Right),
        ("decode", Right),
        ("first token", Right),
        ("per token", Right),
        ("prompt", Right),
        ("cached", Right),
        ("generated", Right),
        ("batch share", Right),
    ]);
    report.requests.iter().take(limit).for_each(|row| table.row(cells(row)));
    let shown = report.requests.len().min(limit);
    style.table(out, "Requests", &table, more(report.requests_total, shown, "`--by request` shows all"));
    if style.main_only && report.requests.is_empty() {
        out.push_str("\nSequences were not recorded (role `batch`): there are no requests.\n");
    }
}

fn cells(row: &RequestRow) -> Vec<String> {
    let optional = |ns: Option<u64>| ns.map_or_else(String::new, time);
    vec![
        row.request.map_or_else(|| format!("#{}", row.number), |request| request.to_string()),
        row.sequence.to_string(),
        optional(row.queued_ns),
        optional(row.prefill_ns),
        optional(row.decode_ns.filter(|_| row.output_tokens.is_none_or(|tokens| tokens > 1))),
        optional(row.time_to_first_token_ns),
        row.time_per_output_token_ns.map_or_else(String::new, time_f64),
        row.input_tokens.map_or_else(String::new, group_digits),
        row.cached_tokens.filter(|cached| *cached > 0).map_or_else(String::new, group_digits),
        row.output_tokens.map_or_else(String::new, group_digits),
        row.batch_share.map_or_else(String::new, share),
    ]
}
