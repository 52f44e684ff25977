//! What is wrong with a trace's records.

/// What was lost or ambiguous while steps were assembled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Records that the trace gave, but for those of other engines.
    pub records: u64,
    /// Those of other engines that were recorded together with this one.
    pub of_others: u64,
    /// Spans of operators among them.
    pub operator_spans: u64,
    /// Records that a thread numbered and that are not in the trace.
    pub missing_records: u64,
    /// Times at which a thread's numbering jumps.
    pub gaps: u64,
    /// Operators with an ambiguous graph: several of the process were open.
    pub ambiguous: u64,
    /// Shares of operators, left out: several operators were being computed.
    pub ambiguous_shares: u64,
    /// Spans of operators that came after their step was finished.
    pub late: u64,
    /// Steps around more steps than can be parts of one: loops, left out.
    pub loops: u64,
    /// Records that do not match the schema.
    pub malformed: u64,
    /// Text fields with bytes that are not text: their values are missing.
    pub not_texts: u64,
    /// Events that were given before their step ended: it had more than can be pending, and counts as incomplete.
    pub crowded: u64,
    /// Steps that were recorded whole and had ended before the first of their operators.
    pub extended: u64,
    /// Steps that no probe marks: the operators' order recurs.
    pub recurring: u64,
    /// Distinct operators beyond those that are told apart: one of each type stands for them.
    pub merged: u64,
}
