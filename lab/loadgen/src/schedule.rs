//! Which request comes next, and when: after the previous answer (closed loop), or at a fixed rate
//! (open loop).
//!
//! In an open loop, requests are due at the rate, whether the server keeps up or not. Latency
//! counts from the due time, so a server that stalls does not hide latency (coordinated omission).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::interrupt;

/// Longest sleep between two checks for a request to end.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// When a phase ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Length {
    /// After this time.
    Time(Duration),
    /// After this number of requests.
    Count(u64),
}

/// The requests of one phase. Connections take them one at a time.
#[derive(Debug)]
pub(crate) struct Schedule {
    start: Instant,
    length: Length,
    interval_s: Option<f64>,
    next: AtomicU64,
}

/// A request to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    /// Its position among the requests of the phase.
    pub(crate) number: u64,
    /// The due time; `None` in a closed loop.
    pub(crate) due: Option<Instant>,
}

impl Schedule {
    /// A phase that starts at `start`, with `rate` requests per second; without a `rate`, each
    /// connection sends its next request after an answer.
    pub(crate) fn new(start: Instant, length: Length, rate: Option<f64>) -> Self {
        Self { start, length, interval_s: rate.map(f64::recip), next: AtomicU64::new(0) }
    }

    /// When the phase began.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Waits until the next request is due and returns it; `None` when the phase is over.
    pub(crate) fn next(&self) -> Option<Ticket> {
        if interrupt::requested() || self.is_late(Instant::now()) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.count_max() {
            return None;
        }
        let Some(interval_s) = self.interval_s else { return Some(Ticket { number, due: None }) };
        let due = self.start + Duration::from_secs_f64(number as f64 * interval_s);
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            if interrupt::requested() {
                return None;
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
        Some(Ticket { number, due: Some(due) })
    }

    /// The number of requests that were due but never sent, if `sent` were sent and the phase ended
    /// at `end`.
    pub(crate) fn unsent(&self, sent: u64, end: Instant) -> u64 {
        let Some(interval_s) = self.interval_s else { return 0 };
        let due = (end.duration_since(self.start).as_secs_f64() / interval_s) as u64 + 1;
        due.min(self.count_max()).saturating_sub(sent)
    }

    fn is_late(&self, now: Instant) -> bool {
        matches!(self.length, Length::Time(time) if now.duration_since(self.start) >= time)
    }

    /// Largest number of requests.
    fn count_max(&self) -> u64 {
        match (self.length, self.interval_s) {
            (Length::Count(count), _) => count,
            (Length::Time(time), Some(interval_s)) => (time.as_secs_f64() / interval_s).ceil() as u64,
            (Length::Time(_), None) => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(schedule: &Schedule) -> Vec<u64> {
        std::iter::from_fn(|| schedule.next()).map(|ticket| ticket.number).collect()
    }

    #[test]
    fn a_count_is_given_out_once() {
        let schedule = Schedule::new(Instant::now(), Length::Count(3), None);
        assert_eq!(numbers(&schedule), [0, 1, 2]);
        assert!(numbers(&schedule).is_empty());
        assert_eq!(schedule.unsent(2, Instant::now()), 0);
    }

    #[test]
    fn a_phase_that_is_over_gives_nothing_out() {
        let long_ago = Instant::now() - Duration::from_secs(2);
        let second = Length::Time(Duration::from_secs(1));
        assert!(Schedule::new(long_ago, second, None).next().is_none());
        assert!(Schedule::new(long_ago, second, Some(10.0)).next().is_none());
    }

    #[test]
    fn an_open_loop_says_when_a_request_was_due() {
        let long_ago = Instant::now() - Duration::from_secs(2);
        let schedule = Schedule::new(long_ago, Length::Count(3), Some(4.0));
        let due: Vec<_> = std::iter::from_fn(|| schedule.next()).filter_map(|ticket| ticket.due).collect();
        let after: Vec<_> = due.iter().map(|due| due.duration_since(long_ago).as_millis()).collect();
        assert_eq!(after, [0, 250, 500]);
    }

    #[test]
    fn an_open_loop_waits_until_a_request_is_due() {
        let soon = Instant::now();
        let schedule = Schedule::new(soon, Length::Count(2), Some(50.0));
        assert_eq!(numbers(&schedule), [0, 1]);
        assert!(soon.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn requests_that_were_never_sent_are_counted() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let schedule = Schedule::new(start, Length::Time(second), Some(100.0));
        assert_eq!(schedule.unsent(70, start + second), 30);
        assert_eq!(schedule.unsent(100, start + second), 0);
        assert_eq!(schedule.unsent(40, start + second / 2), 11, "interrupted after half the time");
    }
}
