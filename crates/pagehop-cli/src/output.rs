//! Standard output, reports on standard error, and how numbers are written in both.

use std::io::{self, Write};

use serde::Serialize;

use crate::errors::Error;

/// Standard output, buffered until [`Output::finish`].
pub(crate) struct Output {
    stdout: io::BufWriter<io::StdoutLock<'static>>,
}

impl Output {
    /// Locks standard output for the rest of the command.
    pub(crate) fn new() -> Self {
        Self { stdout: io::BufWriter::with_capacity(1 << 16, io::stdout().lock()) }
    }

    /// Writes `text` without a line break.
    pub(crate) fn text(&mut self, text: std::fmt::Arguments<'_>) -> Result<(), Error> {
        self.stdout.write_fmt(text).map_err(|error| Error::output(&error))
    }

    /// Writes `value` as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let written = serde_json::to_writer(&mut self.stdout, value).map_err(io::Error::from);
        let written = written.and_then(|()| self.stdout.write_all(b"\n"));
        written.map_err(|error| Error::output(&error))
    }

    /// Writes what is buffered. If the disk of standard output is full, this reports it at the
    /// latest.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        self.stdout.flush().map_err(|error| Error::output(&error))
    }
}

/// How a command reports what it did, besides a line on standard error.
#[derive(clap::Args)]
pub(crate) struct Reporting {
    /// Report as one line of JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress and no report on standard error.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl Reporting {
    /// Writes `report` to standard output as one line of JSON, if `--json` was given.
    pub(crate) fn json_line(&self, report: &impl Serialize) -> Result<(), Error> {
        if !self.json {
            return Ok(());
        }
        let mut output = Output::new();
        output.json(report)?;
        output.finish()
    }
}

/// Writes `text` and a line break to standard error.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// `count` in decimal, with commas between groups of three digits.
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

/// `bytes` in the largest unit in which the number is 1 or more.
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
