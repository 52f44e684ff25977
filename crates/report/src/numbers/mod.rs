//! Numbers for people: units, ratios, and tables of them as text.

pub(crate) mod ratios;
pub(crate) mod table;
pub(crate) mod units;
