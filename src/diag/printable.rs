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
