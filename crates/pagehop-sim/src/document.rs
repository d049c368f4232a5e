//! Counts of simulated lives and of killed processes, as `docs/durability.md` prints them. The
//! command that counted them writes them into the document. Do not edit them by hand.

use std::path::Path;
use std::{fs, io};

/// Replaces the paragraph after the marker `<!-- counted: what -->` of a document by `text`, in
/// lines of at most 100 columns.
///
/// # Errors
///
/// Any error of the file; [`io::ErrorKind::NotFound`] if it has no such marker.
pub fn put(document: &Path, what: &str, text: &str) -> io::Result<()> {
    let old = fs::read_to_string(document)?;
    let marker = format!("<!-- counted: {what} -->\n");
    let Some((before, after)) = old.split_once(&marker) else {
        let error = format!("{} has no line {:?}", document.display(), marker.trim_end());
        return Err(io::Error::new(io::ErrorKind::NotFound, error));
    };
    let rest = after.find("\n\n").map_or("\n", |end| &after[end..]);
    fs::write(document, format!("{before}{marker}{}{rest}", wrapped(text)))
}

/// `text` in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > 100 {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

/// `number` in decimal, with commas between groups of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_is_replaced_and_the_rest_stays() {
        let path = std::env::temp_dir().join(format!("pagehop-document-{}", std::process::id()));
        fs::write(&path, "a\n\n<!-- counted: kills -->\nold\nlines\n\nz\n").expect("a file");
        put(&path, "kills", &"word ".repeat(30)).expect("the marker is there");
        let text = fs::read_to_string(&path).expect("the file");
        assert!(
            text.starts_with("a\n\n<!-- counted: kills -->\nword word") && text.ends_with("word\n\nz\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 100) && !text.contains("old"));
        assert!(put(&path, "lives", "").is_err());
        fs::remove_file(&path).expect("it is there");
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".to_owned(), "1,234,567".to_owned()));
    }
}
