//! Colours of messages and tables. Who prints them looks first whether a terminal is there that wants them.
use anstyle::{AnsiColor, Style};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
const HEAD: Style = Style::new().bold();
const WAITS: Style = AnsiColor::Yellow.on_default();

/// A message with its first word in the colour of what it is.
pub(crate) fn message(line: &str) -> String {
    let kinds = [("error:", ERROR), ("warning:", WARNING), ("note:", NOTE)];
    let found = kinds.iter().find_map(|(word, style)| Some((word, style, line.strip_prefix(word)?)));
    found.map_or_else(|| line.to_owned(), |(word, style, rest)| format!("{style}{word}{style:#}{rest}"))
}

/// Tables with their heads in bold, and what waits in a colour.
pub(crate) fn tables(text: &str) -> String {
    text.split_inclusive('\n').map(line).collect()
}

fn line(line: &str) -> String {
    let (text, end) = line.strip_suffix('\n').map_or((line, ""), |text| (text, "\n"));
    let style = if is_head(text) {
        HEAD
    } else if text.contains(" waits") || text.contains(" pods wait, ") {
        WAITS
    } else {
        return line.to_owned();
    };
    format!("{style}{text}{style:#}{end}")
}

/// The heads of columns are in capitals, apart from names in brackets.
fn is_head(line: &str) -> bool {
    let heads = line.split('(').next().unwrap_or(line);
    heads.contains("  ") && heads.contains(char::is_alphabetic) && !heads.contains(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_heads_are_painted_and_nothing_else() {
        assert_eq!(message("error: no"), "\u{1b}[1m\u{1b}[31merror:\u{1b}[0m no");
        assert_eq!(message("an error: no"), "an error: no");
        assert_eq!(tables("QUEUE  WEIGHT\nq      1\n"), "\u{1b}[1mQUEUE  WEIGHT\u{1b}[0m\nq      1\n");
        assert_eq!(tables("PodGroup g waits:\n"), "\u{1b}[33mPodGroup g waits:\u{1b}[0m\n");
        assert!(is_head("RESOURCE  CAPACITY  MEAN, PEAK (default.yaml)"));
        assert!(!is_head("12  13"));
    }
}
