//! Texts from binaries, probesets and traces, made fit to be shown.

/// Whether a character is a command rather than a part of a text: control characters, and those by which what follows runs
/// the other way, or is not seen.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The text without what would act on a terminal, or show another text than there is.
pub fn printable(text: &str) -> String {
    text.replace(steers, "\u{fffd}")
}

/// The same for a text of several lines, in which line ends and tabs may stand.
pub fn printable_lines(text: &str) -> String {
    text.replace(|c| steers(c) && c != '\n' && c != '\t', "\u{fffd}")
}

/// The same for a text with colours, which come from this program: all other text is made printable before it
/// is put into one.
pub fn printable_styled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(&printable_lines(before));
        let length = after.find(|c: char| !c.is_ascii_digit() && c != ';').filter(|end| after[*end..].starts_with('m'));
        match length {
            Some(end) => {
                out.push_str("\u{1b}[");
                out.push_str(&after[..=end]);
                rest = &after[end + 1..];
            }
            None => {
                out.push_str("\u{fffd}[");
                rest = after;
            }
        }
    }
    out.push_str(&printable_lines(rest));
    out
}

/// JSON in which such characters are escaped: it means the same. They can stand in nothing but its strings.
pub fn printable_json(json: &str) -> String {
    let escaped = |c: char| steers(c) && !matches!(c, '\n' | '\t' | '\r');
    if !json.contains(escaped) {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() + 64);
    for c in json.chars() {
        // All of them have 16 bits.
        if escaped(c) { out.push_str(&format!("\\u{:04x}", u32::from(c))) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}]0;t\u{7}\u{1b}[2J\u{202e}b\u{9b}31m\u{200b}\n\tc";

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(printable_lines(HOSTILE), "a\u{fffd}]0;t\u{fffd}\u{fffd}[2J\u{fffd}b\u{fffd}31m\u{fffd}\n\tc");
        assert!(!printable(HOSTILE).contains(steers));
        let styled = printable_styled(&format!("\u{1b}[32;1mok\u{1b}[0m {HOSTILE}\u{1b}["));
        assert_eq!(styled, format!("\u{1b}[32;1mok\u{1b}[0m {}\u{fffd}[", printable_lines(HOSTILE)));
    }

    #[test]
    fn json_means_the_same() {
        let json = serde_json::to_string_pretty(&[HOSTILE]).unwrap();
        let written = printable_json(&json);
        assert!(!written.contains(|c| steers(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<[String; 1]>(&written).unwrap(), [HOSTILE]);
    }
}
