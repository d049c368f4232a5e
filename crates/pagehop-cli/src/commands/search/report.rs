//! The output of a search: each row found, and a summary of all queries.

use std::fmt;

use pagehop_engine::{Payloads, ReadParts, SearchOptions, SearchResult};
use serde::Serialize;

use crate::errors::Error;
use crate::formats::Truth;
use crate::output::{Output, grouped};

/// Prints a line for each row found.
pub(super) fn print(output: &mut Output, query: u64, result: &SearchResult, read: &ReadParts) -> Result<(), Error> {
    for (at, hit) in result.hits.iter().enumerate() {
        match &read.text_ids {
            Some(ids) => output.text(format_args!("{query}\t{}\t{}", ids[at], hit.distance))?,
            None => output.text(format_args!("{query}\t{}\t{}", hit.row_id, hit.distance))?,
        }
        if let Some(payloads) = &read.payloads {
            output.text(format_args!("\t{}", text(payloads[at].as_deref()).unwrap_or_default()))?;
        }
        output.text(format_args!("\n"))?;
    }
    Ok(())
}

/// The ids of the rows found.
#[derive(Serialize)]
#[serde(untagged)]
enum FoundIds<'a> {
    Int(Vec<u64>),
    Text(&'a [String]),
}

/// One query as JSON.
#[derive(Serialize)]
pub(super) struct QueryLine<'a> {
    query: u64,
    ids: FoundIds<'a>,
    distances: Vec<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Vec<Option<String>>>,
}

/// A payload as text.
fn text(payload: Option<&[u8]>) -> Option<String> {
    payload.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// The rows found for `query`, as a line of JSON.
pub(super) fn query_line<'a>(query: u64, result: &SearchResult, read: &'a ReadParts) -> QueryLine<'a> {
    let texts = |payloads: &Payloads| payloads.iter().map(|payload| text(payload.as_deref())).collect();
    QueryLine {
        query,
        ids: match &read.text_ids {
            Some(ids) => FoundIds::Text(ids),
            None => FoundIds::Int(result.hits.iter().map(|hit| hit.row_id).collect()),
        },
        distances: result.hits.iter().map(|hit| hit.distance).collect(),
        payload: read.payloads.as_ref().map(texts),
    }
}

/// Sums over all queries.
#[derive(Default)]
pub(super) struct Totals {
    queries: u64,
    hits: u64,
    hops: u64,
    pages_read: u64,
    pages_missed: u64,
    estimates: u64,
    distances: u64,
    /// The number of true neighbors that were found, and the number of true neighbors.
    truth: Option<(usize, usize)>,
}

impl Totals {
    /// Adds the result of `query`.
    pub(super) fn add(&mut self, query: u64, result: &SearchResult, truth: Option<&Truth>) {
        let stats = &result.stats;
        self.queries += 1;
        self.hits += result.hits.len() as u64;
        self.hops += stats.hops;
        self.pages_read += stats.pages_read;
        self.pages_missed += stats.pages_missed;
        self.estimates += stats.estimates;
        self.distances += stats.distances;
        if let Some(truth) = truth {
            let found: Vec<u64> = result.hits.iter().map(|hit| hit.row_id).collect();
            let (there, of) = truth.count(query as usize, &found);
            let (sum_there, sum_of) = self.truth.get_or_insert_default();
            *sum_there += there;
            *sum_of += of;
        }
    }
}

/// The summary of all queries; costs are means per query.
#[derive(Serialize)]
pub(super) struct Summary {
    queries: u64,
    k: usize,
    /// `None` if every row was visited.
    search_list: Option<usize>,
    slack: Option<f32>,
    beam_width: Option<usize>,
    threads: usize,
    hits: u64,
    seconds: f64,
    qps: f64,
    hops: f64,
    pages_read: f64,
    pages_missed: f64,
    estimates: f64,
    distances: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recall: Option<f64>,
}

/// The last line of JSON.
#[derive(Serialize)]
pub(super) struct SummaryLine<'s> {
    pub(super) summary: &'s Summary,
}

impl Summary {
    /// The summary of `totals`, found in `seconds` of searching.
    pub(super) fn new(
        totals: &Totals,
        k: usize,
        options: Option<&SearchOptions>,
        threads: usize,
        seconds: f64,
    ) -> Self {
        let mean = |sum: u64| sum as f64 / totals.queries.max(1) as f64;
        Self {
            queries: totals.queries,
            k,
            search_list: options.map(|options| options.search_list),
            slack: options.map(|options| options.slack),
            beam_width: options.map(|options| options.beam_width),
            threads,
            hits: totals.hits,
            seconds,
            qps: totals.queries as f64 / seconds.max(1e-9),
            hops: mean(totals.hops),
            pages_read: mean(totals.pages_read),
            pages_missed: mean(totals.pages_missed),
            estimates: mean(totals.estimates),
            distances: mean(totals.distances),
            recall: totals.truth.map(|(there, of)| there as f64 / of.max(1) as f64),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queries = grouped(self.queries);
        write!(f, "{queries} queries in {:.3} s, {:.0} per second", self.seconds, self.qps)?;
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        write!(f, " on {} {threads}; ", self.threads)?;
        write!(
            f,
            "per query {:.1} hops, {:.1} pages, {:.1} of them from storage",
            self.hops, self.pages_read, self.pages_missed
        )?;
        if let Some(recall) = self.recall {
            write!(f, "; recall@{} {recall:.4}", self.k)?;
        }
        Ok(())
    }
}
