//! Texts of a trace made safe for where they stand in a script.

use profinfer_diagnostics::steers;

/// JSON as the content of a `<script>`: no tag or comment begins in it. What is replaced occurs in JSON's strings only,
/// where the escape is the same character.
pub(super) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            // U+2028 ends a line of a script; what turns a line round has no place in a file for people.
            c if steers(c) && !matches!(c, '\n' | '\t' | '\r') => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_ends_no_script_and_is_the_same_json() {
        for hostile in ["</script>", "<!--", "<script", "]]>", "a\u{2028}b\u{2029}", "&lt;", "\\u003c"] {
            let written = json(&serde_json::to_string(&[hostile]).unwrap());
            assert!(!written.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{written}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&written).unwrap(), [hostile]);
        }
    }
}
