//! Divisions that may be by nothing, and the order of layers.

/// Numbers before other texts, by their value; nothing last.
pub(crate) fn natural_order(a: Option<&str>, b: Option<&str>) -> std::cmp::Ordering {
    let key = |s: Option<&str>| (s.is_none(), s.map_or(Ok(0), str::parse::<u64>).unwrap_or(u64::MAX));
    key(a).cmp(&key(b)).then_with(|| a.cmp(&b))
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn mean(total: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { total as f64 / count as f64 }
}
