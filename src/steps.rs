//! Steps as the command line names them.

/// `10..40`, `10..`, `..40`, `7`: the first and last step.
pub(super) fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
    let (first, last) = match text.split_once("..") {
        None => (number(text)?, number(text)?),
        Some((first, last)) => {
            let last = last.strip_prefix('=').unwrap_or(last);
            let first = if first.is_empty() { 1 } else { number(first)? };
            (first, if last.is_empty() { u64::MAX } else { number(last)? })
        }
    };
    match (first, last) {
        (0, _) => Err("the first step is number 1".into()),
        _ if last < first => Err("the last step is before the first".into()),
        _ => Ok((first, last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_a_range_with_both_ends() {
        assert_eq!(range("10..40"), Ok((10, 40)));
        assert_eq!(range("10..=40"), Ok((10, 40)));
        assert_eq!(range("10.."), Ok((10, u64::MAX)));
        assert_eq!(range("..40"), Ok((1, 40)));
        assert_eq!(range("7"), Ok((7, 7)));
        for wrong in ["0..3", "4..3", "a..b", "", "-1"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
