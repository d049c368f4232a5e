//! Rust sources as text: blanks out comments, strings and tests, and finds words and functions.

use std::ops::Range;

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word))
}

/// Every function that has a body: its name and its range.
pub(crate) fn functions(code: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let name: String = code[at + 3..].chars().take_while(|&c| is_word(c)).collect();
        if name.is_empty() || code[..at].ends_with(is_word) {
            continue;
        }
        let (mut round, mut end) = (0_i32, None);
        for (offset, c) in code[at..].char_indices() {
            match c {
                '(' | '[' => round += 1,
                ')' | ']' => round -= 1,
                ';' if round == 0 => break,
                '{' if round == 0 => {
                    end = Some(end_of_braces(code, at + offset));
                    break;
                }
                _ => {}
            }
        }
        if let Some(end) = end {
            found.push((name, at..end));
        }
    }
    found
}

/// The position after the brace that closes the one at `open`.
pub(crate) fn end_of_braces(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

/// `code`, where each item after `#[cfg(test)]` is replaced by spaces.
pub(crate) fn blank_tests(mut code: String) -> String {
    let mark = "#[cfg(test)]";
    while let Some(start) = code.find(mark) {
        let after = start + mark.len();
        let end = match code[after..].find(['{', ';']) {
            Some(at) if code[after + at..].starts_with('{') => end_of_braces(&code, after + at),
            Some(at) => after + at + 1,
            None => code.len(),
        };
        code.replace_range(start..end, &blank(&code[start..end]));
    }
    code
}

/// Spaces for each byte of `text`. Line breaks are kept.
pub(crate) fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// `text`, where comments and the content of strings and characters are replaced by spaces.
pub(crate) fn blank_comments_and_strings(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = code.chars().next_back();
        let (kept, blanked) = token(rest, c, before);
        code.push_str(&rest[..kept]);
        code.push_str(&blank(&rest[kept..kept + blanked]));
        rest = &rest[kept + blanked..];
    }
    code
}

/// The number of bytes at the start of `rest` to keep, and the number of bytes after them to blank.
pub(crate) fn token(rest: &str, c: char, before: Option<char>) -> (usize, usize) {
    let until = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    if rest.starts_with("//") {
        return (0, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (0, until("*/"));
    }
    let raw = rest.strip_prefix('r').filter(|_| !before.is_some_and(|c| is_word(c) && c != 'b'));
    if let Some(raw) = raw.filter(|raw| raw.trim_start_matches('#').starts_with('"')) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let open = 2 + hashes;
        let close = format!("\"{}", "#".repeat(hashes));
        let inside = &rest[open..];
        return (open, inside.find(&close).map_or(inside.len(), |at| at + close.len()));
    }
    if c == '"' {
        return (1, end_of_quotes(&rest[1..], '"'));
    }
    if c == '\'' {
        let mut inside = rest[1..].chars();
        let first = inside.next();
        let is_char = first == Some('\\') || inside.next() == Some('\'');
        if is_char {
            return (1, end_of_quotes(&rest[1..], '\''));
        }
    }
    (c.len_utf8(), 0)
}

/// The number of bytes up to and with the `quote` that ends a literal.
pub(crate) fn end_of_quotes(inside: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in inside.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    inside.len()
}

#[test]
fn the_reader_of_sources_is_not_fooled() {
    let text = r##"
// std::fs
use std::net; /* std::fs */
const A: &str = "std::fs \" {"; const B: char = '"'; const C: char = '\''; fn d<'a>() {}
const E: &str = r#"" std::time "#;
#[cfg(test)]
mod tests { fn f() { std::env::args().next().unwrap(); } }
fn long(x: [u8; 3]) -> u8 {
    x[0]
}
"##;
    let code = blank_comments_and_strings(text);
    assert_eq!(code.len(), text.len());
    assert!(has_word(&code, "net") && has_word(&code, "env"));
    assert!(!has_word(&code, "fs") && !has_word(&code, "time"));
    let code = blank_tests(code);
    assert!(!has_word(&code, "env") && !code.contains("unwrap"));
    let functions: Vec<_> =
        functions(&code).into_iter().map(|(name, at)| (name, code[at].lines().count())).collect();
    assert_eq!(functions, [("d".to_owned(), 1), ("long".to_owned(), 3)]);
}
