//! `pagehop info`: what an index says of itself.

use std::path::{Path, PathBuf};

use pagehop_engine::{Index, PAGE_BYTES};
use pagehop_store::{FilePages, OpenOptions};
use serde::Serialize;

use crate::errors::Error;
use crate::output::{Output, grouped, human_bytes, metric_name, say};
use crate::recall::{short, warn_of_changes};

/// One dead row for so many living ones is worth a word: searches read its page and its edges.
const LIVING_PER_DEAD: u64 = 10;

/// Show what an index says of itself.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// As one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    format_version: u32,
    metric: &'static str,
    dim: usize,
    rows: u64,
    pages: u32,
    bytes: u64,
    max_degree: usize,
    nodes_per_page: usize,
    edge_bits: usize,
    edge_dims: usize,
    own_bits: usize,
    seed: u64,
    commit: u64,
    dead_rows: u64,
    free_slots: u64,
    trained_rows: u64,
    added_rows: u64,
    deleted_rows: u64,
    mark: [u64; 2],
    calibration: Option<MeasuredReport>,
    audit: Option<AuditReport>,
}

#[derive(Serialize)]
struct MeasuredReport {
    rows: u64,
    samples: u32,
    by_queries: bool,
    changes: u64,
    outdated: bool,
}

#[derive(Serialize)]
struct AuditReport {
    k: usize,
    recall: f32,
    interval: f32,
    target: Option<f64>,
    samples: u32,
    rows: u64,
    changes: u64,
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let index = open(&args.index, &OpenOptions::default())?;
    let info = index.info().map_err(|error| Error::about(&args.index, &error))?;
    let report = Report {
        index: &args.index,
        format_version: info.format_version,
        metric: metric_name(info.metric),
        dim: info.dim,
        rows: info.rows,
        pages: info.pages,
        bytes: u64::from(info.pages) * PAGE_BYTES as u64,
        max_degree: info.max_degree,
        nodes_per_page: info.nodes_per_page,
        edge_bits: info.edge_bits,
        edge_dims: info.edge_dims,
        own_bits: info.own_bits,
        seed: info.seed,
        commit: info.commit,
        dead_rows: info.dead_rows,
        free_slots: info.free_slots,
        trained_rows: info.trained_rows,
        added_rows: info.added_rows,
        deleted_rows: info.deleted_rows,
        mark: info.mark,
        calibration: info.calibration.map(|known| MeasuredReport {
            rows: known.rows,
            samples: known.samples,
            by_queries: known.by_queries,
            changes: known.changes,
            outdated: known.is_outdated(),
        }),
        audit: info.audit.zip(info.audited).map(|(audit, since)| AuditReport {
            k: audit.k,
            recall: audit.recall,
            interval: audit.interval,
            target: audit.target.map(short),
            samples: audit.samples,
            rows: audit.rows,
            changes: since.changes,
        }),
    };
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        report.print(&mut output)?;
        warn_of_the_dead(&args.index, report.dead_rows, report.rows);
        warn_of_changes(&args.index, &info);
    }
    output.finish()
}

impl Report<'_> {
    fn print(&self, output: &mut Output) -> Result<(), Error> {
        let bytes_per_row = self.bytes / self.rows.max(1);
        let trained = match self.trained_rows {
            0 => "not yet".to_owned(),
            rows => format!("{} rows", grouped(rows)),
        };
        let (added, deleted) = (grouped(self.added_rows), grouped(self.deleted_rows));
        for (name, value) in [
            ("index", self.index.display().to_string()),
            ("format version", self.format_version.to_string()),
            ("metric", self.metric.to_owned()),
            ("dimensions", self.dim.to_string()),
            ("rows", grouped(self.rows)),
            ("dead rows", format!("{}, for vacuum to take away", grouped(self.dead_rows))),
            ("free slots", grouped(self.free_slots)),
            ("size", format!("{}, {bytes_per_row} bytes per row", human_bytes(self.bytes))),
            ("pages", grouped(self.pages.into())),
            ("nodes per page", self.nodes_per_page.to_string()),
            ("neighbors per node", format!("{} at most", self.max_degree)),
            ("edge code", format!("{} bits of {} dimensions", self.edge_bits, self.edge_dims)),
            ("own code", format!("{} bits per dimension", self.own_bits)),
            ("seed", self.seed.to_string()),
            ("last commit", self.commit.to_string()),
            ("model trained on", trained),
            ("since then", format!("{added} rows added, {deleted} deleted")),
            ("calibrated", self.calibrated()),
            ("last audit", self.audited()),
        ] {
            output.text(format_args!("{name:18} {value}\n"))?;
        }
        Ok(())
    }

    fn calibrated(&self) -> String {
        let Some(known) = &self.calibration else { return "never".to_owned() };
        let (samples, rows) = (grouped(known.samples.into()), grouped(known.rows));
        let whose = if known.by_queries { "queries" } else { "of its vectors" };
        format!("by {samples} {whose} at {rows} rows, {} added or deleted since", grouped(known.changes))
    }

    fn audited(&self) -> String {
        let Some(audit) = &self.audit else { return "none was stored".to_owned() };
        let AuditReport { k, recall, interval, .. } = audit;
        let target = audit.target.map_or(String::new(), |target| format!(" for {target}"));
        let changes = grouped(audit.changes);
        format!("recall@{k} {recall:.4} +- {interval:.4}{target}, {changes} rows added or deleted since")
    }
}

/// Suggests a vacuum of the index at `path` if many of its rows are dead.
pub(crate) fn warn_of_the_dead(path: &Path, dead: u64, living: u64) {
    if dead.saturating_mul(LIVING_PER_DEAD) > living {
        let path = path.display();
        say(format_args!(
            "warning: {} dead rows for {} living ones slow searches down; `pagehop vacuum {path}` takes them away",
            grouped(dead),
            grouped(living),
        ));
    }
}

/// Opens the index at `path`.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Index<FilePages>, Error> {
    pagehop_store::open(path, options).map_err(|error| Error::about(path, &error))
}
