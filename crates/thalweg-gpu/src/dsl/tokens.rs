//! Lexer of the DSL.

/// Token of a DSL text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Token<'a> {
    Name(&'a str),
    Number(u64),
    Sign(&'a str),
    End,
}

/// Operators of two characters; all others have one.
const PAIRS: [&str; 15] = ["..", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "&=", "|=", "^="];

/// Tokens of a text, each with the number of its line.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token<'_>, usize)>, String> {
    let mut all = vec![];
    for (line, content) in text.lines().enumerate() {
        let mut rest = content.split("//").next().unwrap_or_default().trim_start();
        while !rest.is_empty() {
            let (token, length) = first(rest).map_err(|what| format!("line {}: {what}", line + 1))?;
            all.push((token, line + 1));
            rest = rest[length..].trim_start();
        }
    }
    all.push((Token::End, text.lines().count()));
    Ok(all)
}

/// First token of a non-empty text, and its length.
fn first(text: &str) -> Result<(Token<'_>, usize), String> {
    let while_ = |of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    let begin = text.chars().next().unwrap_or(' ');
    if begin.is_ascii_digit() {
        let length = while_(|c| c.is_ascii_alphanumeric());
        let digits = &text[..length];
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        return Ok((Token::Number(value.map_err(|_| format!("`{digits}` is no number"))?), length));
    }
    if begin.is_alphabetic() || begin == '_' {
        let length = while_(|c| c.is_alphanumeric() || c == '_');
        return Ok((Token::Name(&text[..length]), length));
    }
    let length = if PAIRS.iter().any(|p| text.starts_with(p)) { 2 } else { begin.len_utf8() };
    Ok((Token::Sign(&text[..length]), length))
}
