//! Text from manifests for a terminal.

/// The text with escaped control characters (`\n`, `\u{1b}`): some names are free text, and a table has lines.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for (text, expected) in [
            ("train/größe", "train/größe"),
            ("a\u{1b}[31mb\nc", "a\\u{1b}[31mb\\nc"),
            ("\t\u{9b}", "\\t\\u{9b}"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }
}
