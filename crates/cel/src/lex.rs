//! Text to tokens.
use crate::Error;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Name(String),
    Text(String),
    Int(i64),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Longer ones first.
const SIGNS: [&str; 25] = [
    "&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "?", ":", "+", "-", "*", "/", "%", "(", ")", "[", "]",
    ".", ",", "{", "}", "=",
];

/// The tokens with the columns where they begin, from 1.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, usize)>, Error> {
    let mut tokens = Vec::new();
    let (mut at, mut column) = (0, 1);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = if first.is_whitespace() {
            at += first.len_utf8();
            column += 1;
            continue;
        } else if first.is_ascii_digit() {
            number(rest, column)?
        } else if let Some(quote) = raw_quote(rest) {
            raw(rest, quote, column)?
        } else if first.is_ascii_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(rest[..length].to_owned()), length)
        } else if first == '"' || first == '\'' {
            quoted(rest, first, column)?
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let unknown = || Error(format!("column {column}: found {first:?}, expected an expression"));
            sign.map(|sign| (Token::Sign(sign), sign.len())).ok_or_else(unknown)?
        };
        tokens.push((token, column));
        at += length;
        column += rest[..length].chars().count();
    }
    tokens.push((Token::End, column));
    Ok(tokens)
}

fn number(rest: &str, column: usize) -> Result<(Token, usize), Error> {
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
    let text = &rest[..length];
    let problem = || match unsupported(text) {
        Some(what) => format!("{what} such as {text} are not supported, expected a decimal integer"),
        None => format!("found {text:?}, expected a decimal integer"),
    };
    let number = text.parse().map_err(|_| Error(format!("column {column}: {}", problem())))?;
    Ok((Token::Int(number), length))
}

/// Numbers that CEL has besides.
fn unsupported(text: &str) -> Option<&'static str> {
    if text.starts_with("0x") || text.starts_with("0X") {
        return Some("hexadecimal numbers");
    }
    if text.strip_suffix(['u', 'U']).is_some_and(|digits| digits.parse::<u64>().is_ok()) {
        return Some("unsigned numbers");
    }
    let is_fraction = text.contains(['.', 'e', 'E']) && text.parse::<f64>().is_ok();
    is_fraction.then_some("numbers with a fraction")
}

/// The quote with which text without escapes begins, such as `r'\d+'`.
fn raw_quote(rest: &str) -> Option<char> {
    let begun = rest.strip_prefix(['r', 'R'])?;
    begun.chars().next().filter(|first| ['"', '\''].contains(first))
}

fn raw(rest: &str, quote: char, column: usize) -> Result<(Token, usize), Error> {
    let text = rest[2..].split_once(quote).map(|(text, _)| text);
    let text = text.ok_or_else(|| Error(format!("column {column}: text without an end")))?;
    Ok((Token::Text(text.to_owned()), text.len() + 3))
}

fn quoted(rest: &str, quote: char, column: usize) -> Result<(Token, usize), Error> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Ok((Token::Text(text), at + 1)),
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, 't')) => text.push('\t'),
                Some((_, c @ ('\\' | '"' | '\'' | '/' | '`'))) => text.push(c),
                other => {
                    let other = other.map(|(_, c)| c).unwrap_or_default();
                    return Err(Error(format!("column {column}: escape \\{other} is not supported")));
                }
            },
            c => text.push(c),
        }
    }
    Err(Error(format!("column {column}: text without an end")))
}
