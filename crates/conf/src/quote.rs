//! The causes of syntax errors that a parser reports at another place, or in words of its own: an open quote, a tab as
//! indentation, a line that is indented like none before it.

/// A text in quotes.
struct Quote {
    line: usize,
    column: usize,
    mark: char,
    /// The line of its end; `None` while it is open.
    end: Option<usize>,
}

/// What a parser stumbled over, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// What is wrong.
    pub found: String,
    /// What would have been right, where that is known.
    pub expected: Option<String>,
}

/// A tab as indentation, or an open quote before the place (line and column from 1; column 0 is the end of the line
/// before) where a parser of YAML or JSON stumbled; else that place and what the parser said. That another quote closes
/// it, which was to open a text, is no more than a guess, so it is told beside what the parser said.
pub fn blame(text: &str, at: (usize, usize), said: &str) -> Blame {
    let (line, column) = at;
    if let Some((line, column)) = indenting_tab(text, line).filter(|_| said.contains("tab")) {
        let found = "a tab as indentation".to_owned();
        return Blame { line, column, found, expected: Some("spaces".to_owned()) };
    }
    if let Some(blame) = misindented(text, at, said) {
        return blame;
    }
    match last_before(text, at) {
        Some(Quote { line: opened, column, mark, end: None }) if opened < line => Blame {
            line: opened,
            column,
            found: format!("a text that opens with {mark} and has no end before line {line}"),
            expected: Some(format!("{mark} at its end")),
        },
        Some(Quote { line: opened, mark, end: Some(end), .. }) if opened < end && end == line => {
            let found = format!("{said}; the text before it opens with {mark} in line {opened}");
            Blame { line, column, found, expected: Some(format!("{mark} at its end there")) }
        }
        _ => Blame { line, column, found: said.to_owned(), expected: None },
    }
}

/// A line whose beginning no key and no item of a list before it has.
fn misindented(text: &str, (line, column): (usize, usize), said: &str) -> Option<Blame> {
    let inside = said.contains("did not find expected key") || said.contains("did not find expected '-'");
    let mut begin = text.lines().nth(line.checked_sub(1)?)?.chars().take(column.saturating_sub(1));
    if !inside || !begin.all(|char| char == ' ') {
        return None;
    }
    let expected = "the column of the key or - beside which it belongs".to_owned();
    let found = "indentation that fits no line above".to_owned();
    Some(Blame { line, column, found, expected: Some(expected) })
}

/// The first from this line on.
fn indenting_tab(text: &str, from: usize) -> Option<(usize, usize)> {
    text.lines().zip(1..).skip(from - 1).find_map(|(line, number)| {
        let indentation = &line[..line.len() - line.trim_start().len()];
        indentation.find('\t').map(|tab| (number, tab + 1))
    })
}

/// The last text in quotes that opens before a place.
fn last_before(text: &str, (line, column): (usize, usize)) -> Option<Quote> {
    let (mut last, mut open, mut block) = (None::<Quote>, false, None);
    for (content, number) in text.lines().zip(1..=line) {
        let indentation = content.len() - content.trim_start().len();
        if !open && block.is_some_and(|outer| indentation > outer || content.trim().is_empty()) {
            continue;
        }
        let until = if number == line { column.saturating_sub(1) } else { usize::MAX };
        let mut chars = content.chars().zip(1..).take(until).peekable();
        let (mut before, mut blank) = (Vec::new(), true);
        while let Some((char, column)) = chars.next() {
            if let Some(quote) = last.as_mut().filter(|_| open) {
                let twice = chars.peek().is_some_and(|(next, _)| *next == char);
                match (quote.mark, char) {
                    ('"', '\\') => drop(chars.next()),
                    ('\'', '\'') if twice => drop(chars.next()),
                    (mark, char) if mark == char => (open, quote.end) = (false, Some(number)),
                    _ => {}
                }
            } else if char == '#' && blank {
                break;
            } else if matches!(char, '"' | '\'') && begins(&before, blank) {
                open = true;
                last = Some(Quote { line: number, column, mark: char, end: None });
            }
            blank = char.is_whitespace();
            if !blank {
                before.push(char);
            }
        }
        block = (!open && is_block(&before)).then(|| outer(content));
    }
    last
}

/// Whether a text may begin after these characters of its line, and a blank.
fn begins(before: &[char], blank: bool) -> bool {
    match before {
        [] | [.., '[' | '{' | ','] | [.., '"', ':'] => true,
        [.., last] => blank && matches!(last, ':' | '-' | '?'),
    }
}

/// The column at which a line's value has to begin to belong to its key or its dash.
fn outer(line: &str) -> usize {
    let mut rest = line.trim_start();
    while let Some(item) =
        rest.strip_prefix("- ").map(str::trim_start).filter(|item| !item.starts_with(['|', '>']))
    {
        rest = item;
    }
    line.len() - rest.len()
}

/// Whether the lines below, as far as they are indented, are a text as they stand.
fn is_block(line: &[char]) -> bool {
    let end = line.iter().rposition(|char| !matches!(char, '+' | '-' | '0'..='9'));
    let Some(end) = end.filter(|end| matches!(line[*end], '|' | '>')) else { return false };
    matches!(line[..end], [] | [.., ':' | '-'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_quote_is_an_error_at_its_start() {
        let open = |mark: char, line: usize| {
            format!("a text that opens with {mark} and has no end before line {line}")
        };
        let closed =
            |mark: char, line: usize| format!("said; the text before it opens with {mark} in line {line}");
        for (text, at, expected) in [
            ("a: 1\nb: \"x\nc: 3\n", (3, 1), (2, 4, open('"', 3))),
            ("a: 1\nb: 'it''s\nc: \"3\"\n", (3, 1), (2, 4, open('\'', 3))),
            ("- \"x\\\"\n- y\n", (2, 1), (1, 3, open('"', 2))),
            ("{\"a\":\"x\n}\n", (2, 0), (1, 6, open('"', 2))),
            ("# it's\na: b # it's\nc: it's\nd: \"x\ne: 1\n", (5, 1), (4, 4, open('"', 5))),
            ("a: |\n  \"x\n\n  'y\nb: 'z\nc: 1\n", (6, 1), (5, 4, open('\'', 6))),
            ("- |\n 'x\n- \"y\n- 1\n", (4, 1), (3, 3, open('"', 4))),
            ("- a: |-2\n    \"x\n  b: 'z\n  c: 1\n", (4, 3), (3, 6, open('\'', 4))),
            // The next quote closes it.
            ("a: {b: \"x, c: 1}\nd: \"1\"\n", (2, 5), (2, 5, closed('"', 1))),
            // Another fault.
            ("a:\n \tb: 1\n", (1, 2), (2, 2, "a tab as indentation".to_owned())),
            ("a: \"x\"y\n", (1, 7), (1, 7, "said".to_owned())),
            ("a: \"x\"\nb: [1\n", (2, 4), (2, 4, "said".to_owned())),
            ("a: \"x\n  y\"\nb: [1\n", (3, 4), (3, 4, "said".to_owned())),
            ("a: b\"c\nd: e'f\n\tg\n", (3, 1), (3, 1, "said".to_owned())),
            ("", (1, 1), (1, 1, "said".to_owned())),
        ] {
            let Blame { line, column, found, .. } =
                blame(text, at, if text.contains(" \t") { "no tabs" } else { "said" });
            assert_eq!((line, column, found), expected, "{text:?}");
        }
    }
}
