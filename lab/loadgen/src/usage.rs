//! CPU time and context switches, from /proc.
//!
//! `schedstat` counts nanoseconds on a CPU. If the kernel has no `schedstat`, `stat` counts ticks
//! of 10 ms.

use std::fs;
use std::ops::{Add, Sub};

/// The unit of `stat`, USER_HZ, is 100 per second on all architectures on which databases run on
/// Linux.
const TICK_S: f64 = 0.01;

/// The usage of a thread or a process so far, or between two times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_s: f64,
    pub(crate) switches: i64,
    pub(crate) preempted: i64,
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            cpu_s: self.cpu_s - before.cpu_s,
            switches: self.switches - before.switches,
            preempted: self.preempted - before.preempted,
        }
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_s: self.cpu_s + other.cpu_s,
            switches: self.switches + other.switches,
            preempted: self.preempted + other.preempted,
        }
    }
}

/// The usage of the calling thread; `None` if /proc is not mounted.
pub(crate) fn of_thread() -> Option<Usage> {
    of("/proc/thread-self")
}

/// The part of a server that works for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// A process with one thread, whose parent is the server's first process.
    Process(u32),
    /// A thread of the server's only process.
    Thread { process: u32, thread: u32 },
}

impl Worker {
    /// The usage so far; `None` if the worker has ended.
    pub(crate) fn usage(self) -> Option<Usage> {
        match self {
            Self::Process(pid) => of_process(pid),
            Self::Thread { process, thread } => of(&format!("/proc/{process}/task/{thread}")),
        }
    }

    /// CPU seconds of the whole server.
    pub(crate) fn server_cpu_s(self) -> Option<f64> {
        match self {
            Self::Process(pid) => parent(pid).and_then(server_cpu_s),
            // The `stat` of the process includes all its threads, also those that have ended. Its
            // `schedstat` does not.
            Self::Thread { process, .. } => own_s(&stat(process)?),
        }
    }
}

/// The usage of the process `pid`, which has one thread, as all processes of PostgreSQL have.
fn of_process(pid: u32) -> Option<Usage> {
    of(&format!("/proc/{pid}"))
}

/// CPU seconds of a whole server: of its first process, of the children of that process, and of the
/// children that have ended.
fn server_cpu_s(postmaster: u32) -> Option<f64> {
    let mut cpu_s = of_process(postmaster)?.cpu_s + ended_children_s(&stat(postmaster)?)?;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if parent(pid) == Some(postmaster) {
            cpu_s += of_process(pid).map_or(0.0, |usage| usage.cpu_s);
        }
    }
    Some(cpu_s)
}

/// The parent of process `pid`.
fn parent(pid: u32) -> Option<u32> {
    // The parent is field 4 of proc(5). Field 2 is the name in parentheses.
    stat(pid)?.split_whitespace().nth(1)?.parse().ok()
}

/// The name of process `pid`.
pub(crate) fn name(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_string())
}

/// The process that thread `thread` belongs to.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// The command line of process `pid`, in words.
pub(crate) fn command_line(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " "))
}

/// CPU seconds that the whole machine was busy, including time that a hypervisor stole.
pub(crate) fn machine_busy_s() -> Option<f64> {
    busy_s(fs::read_to_string("/proc/stat").ok()?.lines().next()?)
}

/// The load average of the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn of(folder: &str) -> Option<Usage> {
    let status = fs::read_to_string(format!("{folder}/status")).ok()?;
    let cpu_s = match fs::read_to_string(format!("{folder}/schedstat")) {
        Ok(text) => text.split(' ').next()?.parse::<f64>().ok()? * 1e-9,
        Err(_) => own_s(after_name(&fs::read_to_string(format!("{folder}/stat")).ok()?)?)?,
    };
    let counter = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Usage {
        cpu_s,
        switches: counter("voluntary_ctxt_switches:")?,
        preempted: counter("nonvoluntary_ctxt_switches:")?,
    })
}

/// The fields of the `stat` of process `pid` that follow its name.
fn stat(pid: u32) -> Option<String> {
    after_name(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(str::to_string)
}

/// The fields after the name. The name is in parentheses and may itself have parentheses.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, after)| after)
}

/// Fields 14 and 15 of proc(5): utime and stime.
fn own_s(after_name: &str) -> Option<f64> {
    ticks_s(after_name, 11)
}

/// Fields 16 and 17 of proc(5): cutime and cstime.
fn ended_children_s(after_name: &str) -> Option<f64> {
    ticks_s(after_name, 13)
}

fn ticks_s(after_name: &str, field: usize) -> Option<f64> {
    let mut fields = after_name.split_whitespace().skip(field);
    let mut tick = || fields.next()?.parse::<f64>().ok();
    Some((tick()? + tick()?) * TICK_S)
}

/// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn busy_s(line: &str) -> Option<f64> {
    let fields: Vec<f64> =
        line.strip_prefix("cpu ")?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _, _, irq, softirq, steal, ..] = fields[..] else { return None };
    Some((user + nice + system + irq + softirq + steal) * TICK_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_a_name_with_parentheses() {
        let stat = "7 (a) b) S 5 7 7 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 9";
        let after = after_name(stat).unwrap();
        assert_eq!(own_s(after), Some(2.0));
        assert_eq!(ended_children_s(after), Some(0.5));
        assert_eq!(after.split_whitespace().nth(1), Some("5"));
    }

    #[test]
    fn idle_time_is_not_busy() {
        assert_eq!(busy_s("cpu  100 0 50 9999 9999 10 20 20 0 0"), Some(2.0));
        assert_eq!(busy_s("cpu0 1 2"), None);
    }

    #[test]
    fn work_shows_in_the_usage_of_its_thread() {
        let before = of_thread().unwrap();
        let mut x = 1_u64;
        while (of_thread().unwrap() - before).cpu_s < 0.02 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(of_process(std::process::id()).is_some());
        assert_eq!(of_process(u32::MAX), None);
        assert!(name(std::process::id()).unwrap().starts_with("pagehop"));
        assert!(parent(std::process::id()).unwrap() > 0);
        let thread = fs::read_link("/proc/thread-self").unwrap();
        let thread = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let process = process_of(thread).unwrap();
        assert_eq!(process, std::process::id());
        assert!(command_line(process).unwrap().contains("pagehop"));
        let worker = Worker::Thread { process, thread };
        assert!(worker.usage().unwrap().cpu_s >= 0.02 && worker.server_cpu_s().unwrap() >= 0.01);
        assert!(Worker::Process(process).server_cpu_s().is_some());
        let sum = before + Usage { cpu_s: 1.0, switches: 2, preempted: 3 };
        assert_eq!((sum - before).switches, 2);
    }
}
