//! The report of a run: one line of JSON, or lines for people. Both have the same figures.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::plan::{Plan, PlanCounts};
use crate::tally::{Percentiles, round};
use crate::usage::Usage;

/// The figures of a run. A figure that was not measured is null.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) loadgen_version: &'static str,
    pub(crate) server_version: String,
    pub(crate) statement: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) queries: Option<QuerySet>,
    pub(crate) connections: usize,
    pub(crate) warmup_s: f64,
    /// Requests per second that were due; null in a closed loop.
    pub(crate) rate: Option<f64>,
    pub(crate) interrupted: bool,

    pub(crate) elapsed_s: f64,
    pub(crate) count: u64,
    pub(crate) qps: f64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    /// Requests that were due in an open loop but were never sent.
    pub(crate) unsent_count: u64,
    /// Rows that an answer should have.
    pub(crate) rows: usize,
    pub(crate) rows_short_count: u64,

    #[serde(flatten, with = "latency")]
    pub(crate) latency: Option<Percentiles>,
    #[serde(flatten, with = "service")]
    pub(crate) service: Option<Percentiles>,

    #[serde(flatten)]
    pub(crate) cost: Cost,
    pub(crate) blocks: Option<Blocks>,
    pub(crate) plan: Plan,
    /// Plan counts of the first connection during the measurement.
    pub(crate) plans: Option<PlanCounts>,
}

/// The source of the parameters.
#[derive(Debug, Serialize)]
pub(crate) struct QuerySet {
    pub(crate) file: String,
    pub(crate) count: usize,
    pub(crate) dim: usize,
    pub(crate) param_type: &'static str,
}

/// The cost of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Cost {
    pub(crate) client_cpu_us_per_query: Option<f64>,
    pub(crate) client_switches_per_query: Option<f64>,
    /// CPU time of the server's processes for the connections.
    pub(crate) server_cpu_us_per_query: Option<f64>,
    pub(crate) server_switches_per_query: Option<f64>,
    pub(crate) server_preempted_per_query: Option<f64>,
    /// CPU time of all processes of the server, including writers, workers and other connections.
    pub(crate) server_total_cpu_us_per_query: Option<f64>,
    /// Cores that other processes kept busy: those that are neither this process nor, if it was
    /// measured, the server.
    pub(crate) other_busy_cores: Option<f64>,
    /// The load average of the last minute when the clock started.
    pub(crate) load_average: Option<f64>,
}

/// Blocks of the whole database, per request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Blocks {
    pub(crate) read_per_query: f64,
    pub(crate) hit_per_query: f64,
}

impl Cost {
    /// The cost of `count` requests, from the usage of the client and of the server's connections,
    /// and from the CPU seconds of the whole server and of the machine.
    pub(crate) fn new(
        count: u64,
        elapsed_s: f64,
        client: Option<Usage>,
        server: Option<Usage>,
        server_total_s: Option<f64>,
        busy_s: Option<f64>,
    ) -> Self {
        if count == 0 {
            return Self::default();
        }
        let each = |value: f64| round(value / count as f64);
        let ours_s = client.map_or(0.0, |usage| usage.cpu_s) + server_total_s.unwrap_or(0.0);
        Self {
            client_cpu_us_per_query: client.map(|usage| each(usage.cpu_s * 1e6)),
            client_switches_per_query: client.map(|usage| each((usage.switches + usage.preempted) as f64)),
            server_cpu_us_per_query: server.map(|usage| each(usage.cpu_s * 1e6)),
            server_switches_per_query: server.map(|usage| each((usage.switches + usage.preempted) as f64)),
            server_preempted_per_query: server.map(|usage| each(usage.preempted as f64)),
            server_total_cpu_us_per_query: server_total_s.map(|cpu_s| each(cpu_s * 1e6)),
            other_busy_cores: busy_s.map(|busy_s| round(((busy_s - ours_s) / elapsed_s).max(0.0))),
            load_average: None,
        }
    }
}

impl Report {
    /// One line of JSON.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("its keys are text")
    }

    /// Lines for people.
    pub(crate) fn text(&self) -> String {
        let mut lines = Lines::default();
        let how = match self.rate {
            Some(rate) => format!("{rate} a second were due, latency counts from then"),
            None => "as fast as answers came".to_string(),
        };
        let cut = if self.interrupted { ", interrupted" } else { "" };
        lines.add("requests", format!("{} in {:.2} s, {how}{cut}", self.count, self.elapsed_s));
        lines.add("connections", self.connections);
        lines.add("qps", format!("{:.1}", self.qps));
        for (name, measured) in [("latency_us", self.latency), ("service_us", self.service)] {
            // In a closed loop, both latencies are equal.
            if let Some(us) = measured.filter(|_| name == "latency_us" || self.rate.is_some()) {
                let Percentiles { mean, p50, p95, p99, p999, max } = us;
                let figures = format!("mean {mean:.1}  p50 {p50:.1}  p95 {p95:.1}  p99 {p99:.1}");
                lines.add(name, format!("{figures}  p999 {p999:.1}  max {max:.1}"));
            }
        }
        lines.add("errors", self.errors);
        lines.add_some("first error", self.first_error.as_ref());
        lines.add(&format!("answers below {} rows", self.rows), self.rows_short_count);
        lines.add_some("never sent", (self.unsent_count > 0).then_some(self.unsent_count));
        let Cost { client_cpu_us_per_query, client_switches_per_query, .. } = self.cost;
        lines.add_some("client CPU us per query", client_cpu_us_per_query);
        lines.add_some("client switches per query", client_switches_per_query);
        lines.add_some("server CPU us per query", self.cost.server_cpu_us_per_query);
        lines.add_some("  the whole server", self.cost.server_total_cpu_us_per_query);
        lines.add_some("server switches per query", self.cost.server_switches_per_query);
        if let Some(Blocks { read_per_query, hit_per_query }) = self.blocks {
            lines.add("blocks per query", format!("{hit_per_query} hit, {read_per_query} read"));
        }
        lines.add_some("cores others kept busy", self.cost.other_busy_cores);
        for (name, value) in &self.settings {
            lines.add(name, value);
        }
        if let Some(PlanCounts { generic_count, custom_count }) = self.plans {
            lines.add("plans", format!("{generic_count} generic, {custom_count} custom"));
        }
        let scans = if self.plan.index_scan { self.plan.indexes.join(", ") } else { "none".to_string() };
        lines.add("index scans", scans);
        for line in self.plan.text.lines() {
            let _ = writeln!(lines.0, "  {line}");
        }
        lines.0
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name:<26}  {value}");
    }

    fn add_some(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }
}

/// Percentiles with names like `latency_us_p50`.
mod latency {
    pub(super) fn serialize<S: serde::Serializer>(
        measured: &Option<super::Percentiles>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        super::serialize_prefixed("latency_us", *measured, to)
    }
}

/// Percentiles with names like `service_us_p50`.
mod service {
    pub(super) fn serialize<S: serde::Serializer>(
        measured: &Option<super::Percentiles>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        super::serialize_prefixed("service_us", *measured, to)
    }
}

fn serialize_prefixed<S: serde::Serializer>(
    prefix: &str,
    measured: Option<Percentiles>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let names = ["mean", "p50", "p95", "p99", "p999", "max"];
    let values = match measured {
        Some(Percentiles { mean, p50, p95, p99, p999, max }) => [mean, p50, p95, p99, p999, max].map(Some),
        None => [None; 6],
    };
    to.collect_map(names.iter().zip(values).map(|(name, value)| (format!("{prefix}_{name}"), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let us = Percentiles { mean: 2.0, p50: 1.0, p95: 2.0, p99: 3.0, p999: 4.0, max: 5.0 };
        Report {
            loadgen_version: "0",
            server_version: "18.4".into(),
            statement: "SELECT 1".into(),
            settings: BTreeMap::from([("hnsw.ef_search".into(), "40".into())]),
            queries: None,
            connections: 1,
            warmup_s: 0.0,
            rate: None,
            interrupted: false,
            elapsed_s: 2.0,
            count: 10,
            qps: 5.0,
            errors: 0,
            first_error: None,
            unsent_count: 0,
            rows: 10,
            rows_short_count: 0,
            latency: Some(us),
            service: None,
            cost: Cost::default(),
            blocks: None,
            plan: Plan::default(),
            plans: None,
        }
    }

    #[test]
    fn json_has_flat_names_with_units() {
        let value: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(value["latency_us_p99"], 3.0);
        assert_eq!(value["latency_us_max"], 5.0);
        assert!(value["service_us_p50"].is_null());
        assert_eq!(value["settings"]["hnsw.ef_search"], "40");
        assert!(value.get("client_cpu_us_per_query").is_some_and(serde_json::Value::is_null));
    }

    #[test]
    fn text_says_the_figures_and_leaves_out_what_is_unknown() {
        let text = report().text();
        assert!(text.contains("p999 4.0"), "{text}");
        assert!(!text.contains("server CPU") && !text.contains("service_us"), "{text}");
    }

    #[test]
    fn costs_are_shared_out_among_the_requests() {
        let client = Usage { cpu_s: 1.0, switches: 100, preempted: 100 };
        let server = Usage { cpu_s: 2.0, switches: 50, preempted: 50 };
        let cost = Cost::new(100, 2.0, Some(client), Some(server), Some(2.5), Some(4.5));
        assert_eq!(cost.client_cpu_us_per_query, Some(10_000.0));
        assert_eq!(cost.client_switches_per_query, Some(2.0));
        assert_eq!(cost.server_preempted_per_query, Some(0.5));
        assert_eq!(cost.server_total_cpu_us_per_query, Some(25_000.0));
        assert_eq!(cost.other_busy_cores, Some(0.5));
        assert_eq!(Cost::new(0, 2.0, Some(client), None, None, None), Cost::default());
    }
}
