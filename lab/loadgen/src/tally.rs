//! The counts of one connection, which can be added to those of others.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::answers::Answers;
use crate::usage::Usage;

/// Longest latency that the histogram holds, in nanoseconds: one hour.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The counts of one phase.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Time from when a request was due, or was sent if no rate is given, to its answer.
    pub(crate) latency: Latencies,
    /// Time from when a request was sent to its answer.
    pub(crate) service: Latencies,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) rows_short: u64,
    /// Every request and its answer, if they are recorded.
    pub(crate) answers: Option<Answers>,
    pub(crate) usage: Option<Usage>,
    pub(crate) end: Instant,
}

impl Tally {
    /// Empty counts.
    pub(crate) fn new() -> Self {
        Self {
            latency: Latencies::new(),
            service: Latencies::new(),
            errors: 0,
            first_error: None,
            rows_short: 0,
            answers: None,
            usage: None,
            end: Instant::now(),
        }
    }

    /// The number of answers.
    pub(crate) fn count(&self) -> u64 {
        self.latency.0.len()
    }

    /// Counts a request that failed.
    pub(crate) fn error(&mut self, text: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(text);
    }

    /// Adds the counts of another connection.
    pub(crate) fn add(&mut self, other: Self) {
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
        self.rows_short += other.rows_short;
        if let Some((ours, theirs)) = self.answers.as_mut().zip(other.answers) {
            ours.add(theirs);
        }
        self.usage = self.usage.zip(other.usage).map(|(ours, theirs)| ours + theirs);
        self.end = self.end.max(other.end);
    }
}

/// A histogram of latencies in nanoseconds, with three significant digits.
#[derive(Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LATENCY_NS_MAX, DIGITS).expect("the bounds are in order"))
    }

    /// Counts a latency. One that is longer than an hour counts as an hour.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(LATENCY_NS_MAX));
    }

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    /// The usual percentiles; `None` without latencies.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        let us = |quantile| self.0.value_at_quantile(quantile) as f64 / 1e3;
        (!self.0.is_empty()).then(|| Percentiles {
            mean: round(self.0.mean() / 1e3),
            p50: us(0.5),
            p95: us(0.95),
            p99: us(0.99),
            p999: us(0.999),
            max: us(1.0),
        })
    }
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// `value` rounded to three decimals.
pub(crate) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.percentiles(), None);
        for us in (1..=1000).rev() {
            latencies.record(Duration::from_micros(us));
        }
        let found = latencies.percentiles().unwrap();
        for (found, sorted) in [(found.p50, 500.0), (found.p95, 950.0), (found.p99, 990.0), (found.p999, 999.0)] {
            assert!((found / sorted - 1.0_f64).abs() < 2e-3, "{found} for {sorted}");
        }
        assert!((found.mean - 500.5).abs() < 1.0 && (found.max - 1000.0).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn an_endless_request_does_not_break_the_histogram() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::ZERO);
        latencies.record(Duration::MAX);
        assert!(latencies.percentiles().unwrap().max >= 3.599e9);
    }

    #[test]
    fn tallies_add_up() {
        let (mut one, mut two) = (Tally::new(), Tally::new());
        one.latency.record(Duration::from_micros(10));
        one.usage = Some(Usage::default());
        two.latency.record(Duration::from_micros(30));
        two.rows_short = 1;
        two.usage = Some(Usage { cpu_s: 1.0, switches: 2, preempted: 3 });
        two.error(|| "first".into());
        two.error(|| "second".into());
        one.add(two);
        assert_eq!((one.count(), one.errors, one.rows_short), (2, 2, 1));
        assert_eq!(one.first_error.as_deref(), Some("first"));
        assert_eq!(one.usage.unwrap().switches, 2);
    }
}
