//! Counts as text.

/// `1 step`, `1,234 steps`.
pub fn counted(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", group_digits(n), if n == 1 { "" } else { "s" })
}

/// `1,234,567`.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
