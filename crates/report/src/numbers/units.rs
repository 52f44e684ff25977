//! Numbers as people read them: times and rates with decimal prefixes (ms, GB/s), sizes with binary ones (GiB).

/// A time: three significant digits, the unit that fits. `412 ns`, `3.10 µs`, `12.5 ms`, `2.04 s`.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn time(ns: u64) -> String {
    time_f64(ns as f64)
}

/// The same of a mean.
pub fn time_f64(ns: f64) -> String {
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

/// A difference of times: `+1.20 ms`, `−310 ns`, `0`.
pub(crate) fn signed_time(ns: f64) -> String {
    let size = time_f64(ns.abs());
    match () {
        () if size == "0" => size,
        () if ns < 0.0 => format!("−{size}"),
        () => format!("+{size}"),
    }
}

/// A relative difference: `+12.3 %`, `−4.0 %`.
pub(crate) fn percent(part: f64) -> String {
    let text = format!("{:+.1} %", part * 100.0);
    text.replace('-', "−")
}

/// A number of bytes: three significant digits, in powers of 1024. `512 B`, `4.00 KiB`, `1.25 GiB`.
#[allow(clippy::cast_precision_loss)]
pub fn bytes(bytes: u64) -> String {
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
pub fn share(share: f64) -> String {
    if share > 0.0 && share < 0.0005 { "<0.1 %".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

/// A rate: three significant digits.
pub fn rate(rate: f64) -> String {
    let digits = if rate >= 99.95 { 0 } else { usize::from(rate < 9.995) + 1 };
    format!("{rate:.digits$}")
}

/// A number in a unit: three significant digits, a prefix where the unit takes one. `12.3 GB/s`, `4.50 M`, `1.72`.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    const PREFIXES: [(&str, f64); 10] = [
        ("n", 1e-9),
        ("µ", 1e-6),
        ("m", 1e-3),
        ("", 1.0),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
    ];
    const PLAIN: usize = 3;
    if unit == "%" {
        return share(value);
    }
    // A share of something is not read in thousandths, nor is a number of things.
    let lowest = if unit.is_empty() { PLAIN } else { 0 };
    let fits = |scale: f64| value.abs() / scale < 999.5;
    let found = PREFIXES[lowest..].iter().find(|(_, scale)| fits(*scale));
    let (prefix, scale) = match found {
        Some(_) if value == 0.0 => ("", 1.0),
        Some((prefix, scale)) => (*prefix, *scale),
        None => return format!("{value:.2e} {unit}").trim_end().to_owned(),
    };
    let number = three_digits(value / scale);
    match (prefix, unit) {
        ("", "") => number,
        (prefix, "") => format!("{number} {prefix}"),
        // A prefix goes with a unit's symbol, not with a word or a number.
        (prefix, unit) if ["s", "B", "FLOP"].contains(&unit.split(['/', '*', '·']).next().unwrap_or("")) => {
            format!("{number} {prefix}{unit}")
        }
        (prefix, unit) if unit.starts_with("1/") => format!("{number} {prefix}{}", &unit[1..]),
        ("", unit) => format!("{number} {unit}"),
        (prefix, unit) => format!("{number} {prefix} {unit}"),
    }
}

fn three_digits(value: f64) -> String {
    let size = value.abs();
    let whole = value.fract() == 0.0 && size < 1000.0;
    let digits = if size >= 99.95 || whole { 0 } else { usize::from(size < 9.995) + 1 };
    format!("{value:.digits$}")
}

/// A day in UTC: `2026-11-22`. Times after the year 9999 are none of a trace.
pub(crate) fn day(unix_seconds: u64) -> String {
    utc(unix_seconds, "%Y-%m-%d")
}

/// A time in UTC: `2026-11-22 18:03:07 UTC`.
pub fn date_time(unix_ns: u64) -> String {
    utc(unix_ns / 1_000_000_000, "%Y-%m-%d %H:%M:%S UTC")
}

fn utc(unix_seconds: u64, format: &str) -> String {
    let time = i64::try_from(unix_seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "an unknown time".to_owned(), |time| time.strftime(format).to_string())
}

/// A shape: `64×2`; ones at its end are left out.
pub(crate) fn shape(shape: &[i64]) -> String {
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
    fn differences_have_their_sign() {
        assert_eq!([1200.0, -310.4, 0.2, -0.2].map(signed_time), ["+1.20 µs", "−310 ns", "0", "0"]);
        assert_eq!([0.1234, -0.04, 0.0].map(percent), ["+12.3 %", "−4.0 %", "+0.0 %"]);
    }

    #[test]
    fn bytes_have_three_digits() {
        let texts = [0, 1023, 4096, 983_040, 1_048_576, 5_000_000_000, u64::MAX].map(bytes);
        assert_eq!(texts, ["0 B", "1023 B", "4.00 KiB", "960 KiB", "1.00 MiB", "4.66 GiB", "16384 PiB"]);
    }

    #[test]
    fn quantities_have_prefixes_that_fit_their_units() {
        let of = [
            (12.34e9, "B/s", "12.3 GB/s"),
            (999.6e6, "FLOP/s", "1.00 GFLOP/s"),
            (0.0, "B/s", "0 B/s"),
            (2.5e-6, "s", "2.50 µs"),
            (1.7249, "", "1.72"),
            (0.0316, "", "0.03"),
            (7.0, "", "7"),
            (4_500_000.0, "", "4.50 M"),
            (0.3125, "%", "31.2 %"),
            (1.5e6, "1/s", "1.50 M/s"),
            (1.5e6, "misses/s", "1.50 M misses/s"),
            (f64::MAX, "B", "1.80e308 B"),
        ];
        for (value, unit, expected) in of {
            assert_eq!(quantity(value, unit), expected);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_time(951_782_400 * 1_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date_time(1_798_761_599 * 1_000_000_000), "2026-12-31 23:59:59 UTC");
        assert_eq!((day(1_798_761_599).as_str(), day(u64::MAX).as_str()), ("2026-12-31", "an unknown time"));
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
