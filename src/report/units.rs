//! Numbers as people read them.

/// A time: three significant digits, the unit that fits. `412 ns`, `3.10 µs`, `12.5 ms`, `2.04 s`.
#[allow(clippy::cast_precision_loss)]
pub(super) fn time(ns: u64) -> String {
    time_f64(ns as f64)
}

/// The same of a mean.
pub(super) fn time_f64(ns: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    if ns < 1.0 {
        return "0".to_owned();
    }
    // The next unit is taken where rounding would make a fourth digit.
    let (unit, scale) = UNITS.into_iter().find(|(_, scale)| ns / scale < 999.5).unwrap_or(UNITS[3]);
    let n = ns / scale;
    let digits = if unit == "ns" || n >= 99.95 { 0 } else { usize::from(n < 9.995) + 1 };
    format!("{n:.digits$} {unit}")
}

/// A number of bytes: three significant digits, in powers of 1024. `512 B`, `4.00 KiB`, `1.25 GiB`.
#[allow(clippy::cast_precision_loss)]
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut n = bytes as f64 / 1024.0;
    let mut unit = 0;
    while n >= 999.5 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    format!("{} {}", rate(n), UNITS[unit])
}

/// A share: `12.3 %`.
pub(super) fn share(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "<0.1 %".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

/// A rate: three significant digits.
pub(super) fn rate(rate: f64) -> String {
    let digits = if rate >= 99.95 { 0 } else { usize::from(rate < 9.995) + 1 };
    format!("{rate:.digits$}")
}

/// A shape: `64×2`; ones at its end are left out.
pub(super) fn shape(shape: &[i64]) -> String {
    let length = shape.iter().rposition(|n| *n != 1).map_or(1, |last| last + 1);
    let extents: Vec<String> = shape.iter().take(length).map(i64::to_string).collect();
    extents.join("×")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let times = [0, 1, 999, 1000, 1234, 12_345, 999_400, 999_600, 61_000_000, 9_999_000_000, u64::MAX].map(time);
        let expected = [
            "0",
            "1 ns",
            "999 ns",
            "1.00 µs",
            "1.23 µs",
            "12.3 µs",
            "999 µs",
            "1.00 ms",
            "61.0 ms",
            "10.0 s",
            "18446744074 s",
        ];
        assert_eq!(times, expected);
        assert_eq!(time_f64(0.4), "0");
    }

    #[test]
    fn bytes_have_three_digits() {
        let texts = [0, 1023, 4096, 983_040, 1_048_576, 5_000_000_000, u64::MAX].map(bytes);
        assert_eq!(texts, ["0 B", "1023 B", "4.00 KiB", "960 KiB", "1.00 MiB", "4.66 GiB", "16384 PiB"]);
    }

    #[test]
    fn shares_and_shapes() {
        assert_eq!([0.0, 0.0001, 0.123, 1.0].map(share), ["0.0 %", "<0.1 %", "12.3 %", "100.0 %"]);
        assert_eq!(shape(&[64, 2, 1, 1]), "64×2");
        assert_eq!(shape(&[1, 1, 1, 1]), "1");
        assert_eq!(shape(&[1, 5, 1, 1]), "1×5");
        assert_eq!(shape(&[]), "");
    }
}
