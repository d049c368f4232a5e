//! What goes to standard output and how numbers are written for people.

use std::io::{self, Write};

use pagehop_engine::Metric;
use serde::Serialize;

use crate::errors::Error;

/// Standard output as a whole: written in large pieces, and at the latest when it is flushed.
pub(crate) struct Output {
    stdout: io::BufWriter<io::StdoutLock<'static>>,
}

impl Output {
    /// Standard output, for the rest of the command.
    pub(crate) fn new() -> Self {
        Self { stdout: io::BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    /// Writes `text` as it is.
    pub(crate) fn text(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Error> {
        self.stdout.write_fmt(text).map_err(|error| Error::output(&error))
    }

    /// Writes `value` as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let written = serde_json::to_writer(&mut self.stdout, value).map_err(io::Error::from);
        let written = written.and_then(|()| self.stdout.write_all(b"\n"));
        written.map_err(|error| Error::output(&error))
    }

    /// Makes sure that everything was written; a full disk behind standard output shows here.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.stdout.flush().map_err(|error| Error::output(&error))
    }
}

/// The report of a command, as one line of JSON on standard output if it was asked for.
pub(crate) fn json_line(asked: bool, report: &impl Serialize) -> Result<(), Error> {
    if !asked {
        return Ok(());
    }
    let mut output = Output::new();
    output.json(report)?;
    output.finish()
}

/// Says `text` on standard error.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The name of `metric` on the command line and in JSON.
pub(crate) fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::L2 => "l2",
        Metric::InnerProduct => "ip",
        Metric::Cosine => "cosine",
    }
}

/// `count` with its digits in groups of three.
pub(crate) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `bytes` in the unit that suits them.
pub(crate) fn human_bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(60_000), "60,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(human_bytes(1023), "1023 bytes");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(5 << 40), "5.0 TiB");
    }
}
