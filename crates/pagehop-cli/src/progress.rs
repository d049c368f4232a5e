//! The progress line of a long operation.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pagehop_engine::Progress;

use crate::interrupt;

/// Least time between two drawings within a phase.
const PAUSE: Duration = Duration::from_millis(100);
const BAR_COLUMNS: usize = 24;

/// A progress line on standard error. It is invisible unless standard error is a terminal.
pub(crate) struct ProgressLine {
    visible: bool,
    drawn: Option<Instant>,
    phase: &'static str,
    phase_began: Instant,
}

impl ProgressLine {
    /// A line that was not drawn yet. If `quiet`, it is never drawn.
    pub(crate) fn new(quiet: bool) -> Self {
        let visible = !quiet && io::stderr().is_terminal();
        Self { visible, drawn: None, phase: "", phase_began: Instant::now() }
    }

    /// Draws `progress` unless the last drawing is too recent. Returns `Break` if the user asked to
    /// stop.
    pub(crate) fn update(&mut self, progress: Progress) -> ControlFlow<()> {
        let flow = interrupt::poll();
        if !self.visible {
            return flow;
        }
        let new_phase = self.phase != progress.phase;
        if new_phase {
            self.phase = progress.phase;
            self.phase_began = Instant::now();
        }
        if new_phase || flow.is_break() || self.drawn.is_none_or(|at| at.elapsed() >= PAUSE) {
            let stopping = if flow.is_break() { "  stopping" } else { "" };
            let line = line(progress, self.phase_began.elapsed());
            // A failure to write to the terminal does not stop the work.
            let _ = write!(io::stderr(), "\r{line}{stopping}\x1b[K");
            self.drawn = Some(Instant::now());
        }
        flow
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(progress: Progress, elapsed: Duration) -> String {
    let Progress { phase, done, total } = progress;
    let seconds = elapsed.as_secs();
    if total == 0 {
        return format!("{phase:8} {done}  {seconds} s");
    }
    let share = done.min(total) as f64 / total as f64;
    let filled = (share * BAR_COLUMNS as f64) as usize;
    let bar = "#".repeat(filled) + &"-".repeat(BAR_COLUMNS - filled);
    let percent = (share * 100.0) as u32;
    format!("{phase:8} [{bar}] {percent:3}%  {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_overflows() {
        let at = |done, total| line(Progress { phase: "read", done, total }, Duration::ZERO);
        assert_eq!(at(0, 4), "read     [------------------------]   0%  0 s");
        assert_eq!(at(1, 4), "read     [######------------------]  25%  0 s");
        assert_eq!(at(9, 4), "read     [########################] 100%  0 s");
        assert_eq!(at(u64::MAX, u64::MAX), at(4, 4));
        assert_eq!(at(7, 0), "read     7  0 s");
    }
}
