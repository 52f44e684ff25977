//! Values of the command line: times, sizes, rates, percentages.

use std::time::Duration;

/// `500ms`, `10s`, `5m`, `1h`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is not a unit of time; use ms, s, m or h")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` is not a time, for example 10s"))?;
    let duration = Duration::try_from_secs_f64(number * seconds).map_err(|_| "the time is too long".to_owned())?;
    if duration.is_zero() { Err("the time must be longer than 0".into()) } else { Ok(duration) }
}

/// `--budget`: a percentage of the target's time in steps.
#[cfg(feature = "record")]
pub(crate) fn budget(text: &str) -> Result<f64, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err("--budget needs a percentage, for example 5%".into());
    };
    fraction(number, 0.01, 100.0)
}

/// `--noise`, `--fail-above`: a percentage of a time.
pub(crate) fn percentage(text: &str) -> Result<f64, String> {
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(format!("`{text}` is not a percentage, for example 3%"));
    };
    fraction(number, 0.0, 1000.0)
}

/// A number of percent within a range, as a fraction.
fn fraction(number: &str, least: f64, most: f64) -> Result<f64, String> {
    let percent: f64 = number.trim().parse().map_err(|_| format!("`{number}` is not a number"))?;
    if (least..=most).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err(format!("the range is {least}% to {most}%"))
    }
}

/// Steps per second.
#[cfg(feature = "record")]
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.001..=1e6).contains(&rate) { Ok(rate) } else { Err("the range is 0.001 to 1000000 steps per second".into()) }
}

/// The size of a ring buffer: `512K`, `16M`, `1G`; a bare number is bytes.
#[cfg(feature = "record")]
pub(crate) fn ring_size(text: &str) -> Result<u32, String> {
    match u32::try_from(bytes(text)?) {
        Ok(size) if (64 << 10..=1 << 30).contains(&size) => Ok(size),
        _ => Err("the range is 64K to 1G".into()),
    }
}

/// What files may take: `50G`, `2T`; a bare number is bytes.
#[cfg(feature = "record")]
pub(crate) fn disk_size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        size if (64 << 10..=1 << 50).contains(&size) => Ok(size),
        _ => Err("the range is 64K to 1024T".into()),
    }
}

#[cfg(feature = "record")]
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(format!("`{unit}` is not a unit of size; use K, M, G or T")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is not a size, for example 16M"))?;
    Ok(number.saturating_mul(factor))
}

/// Samples per second of CPU time; 0: none.
#[cfg(feature = "record")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleRate(pub(crate) u32);

#[cfg(feature = "record")]
impl std::fmt::Display for SampleRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == 0 { f.write_str("off") } else { write!(f, "{}", self.0) }
    }
}

/// `--sample`: a rate in Hz, or `off`.
#[cfg(feature = "record")]
pub(crate) fn sample_rate(text: &str) -> Result<SampleRate, String> {
    if text == "off" {
        return Ok(SampleRate(0));
    }
    let rate = text.strip_suffix("Hz").unwrap_or(text).trim();
    let rate: u32 = rate.parse().map_err(|_| format!("`{text}` is not a rate in Hz, for example 999, or `off`"))?;
    if (1..=20_000).contains(&rate) { Ok(SampleRate(rate)) } else { Err("the range is 1 to 20000 Hz, or `off`".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "record")]
    #[test]
    fn rates_of_samples() {
        let rate = |text| sample_rate(text).map(|rate| rate.0);
        assert_eq!((rate("999"), rate("250Hz"), rate("off")), (Ok(999), Ok(250), Ok(0)));
        assert!(["0", "-1", "1e3", "", "20001"].into_iter().all(|text| rate(text).is_err()));
    }

    #[test]
    fn parts_are_percent() {
        assert_eq!((percentage("3%"), percentage("0.5 %"), percentage("0%")), (Ok(0.03), Ok(0.005), Ok(0.0)));
        for wrong in ["3", "-1%", "nan%", "1001%", "%", ""] {
            assert!(percentage(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    #[cfg(feature = "record")]
    fn times_and_sizes_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "0s", "10 parsecs", "1e99h", "-1s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            (ring_size("512K"), ring_size("16MiB"), ring_size("1g")),
            (Ok(512 << 10), Ok(16 << 20), Ok(1 << 30))
        );
        for wrong in ["", "16", "2G", "99999999999999999999", "16X"] {
            assert!(ring_size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((disk_size("50G"), disk_size("2TiB")), (Ok(50 << 30), Ok(2 << 40)));
        for wrong in ["", "16", "2000T", "9999999999T"] {
            assert!(disk_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    #[cfg(feature = "record")]
    fn limits_have_bounds() {
        assert_eq!((budget("1%"), budget("0.5 %"), rate("5"), rate("0.5")), (Ok(0.01), Ok(0.005), Ok(5.0), Ok(0.5)));
        for wrong in ["1", "0%", "-1%", "nan%", "101%", "%", ""] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "-5", "inf", "NaN", "fast", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
