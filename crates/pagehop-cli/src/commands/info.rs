//! `pagehop info`: the description of an index.

use std::path::{Path, PathBuf};

use pagehop_engine::{Measured, PAGE_BYTES};
use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::errors::Error;
use crate::index_file;
use crate::output::{Output, grouped, human_bytes};
use crate::warnings::{warn_of_changes, warn_of_dead_rows};

/// Describe an index: size, settings, calibration and state.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// Report as one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    format_version: u32,
    metric: &'static str,
    dim: usize,
    vectors: &'static str,
    id_kind: &'static str,
    payload: bool,
    columns: Vec<ColumnReport>,
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
    default_recall: Option<f32>,
    calibrated: Option<MeasuredReport>,
    audit: Option<AuditReport>,
}

#[derive(Serialize)]
struct ColumnReport {
    name: String,
    kind: &'static str,
}

#[derive(Serialize)]
struct MeasuredReport {
    rows: u64,
    samples: u32,
    by_queries: bool,
    changes: u64,
    longer_rows: bool,
    outdated: bool,
}

#[derive(Serialize)]
struct AuditReport {
    k: usize,
    recall: f32,
    half_interval: f32,
    target: Option<f32>,
    samples: u32,
    rows: u64,
    changes: u64,
}

/// Shows the description.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let index = index_file::open(&args.index, &OpenOptions::default())?;
    let info = index_file::info(&args.index, &index)?;
    let report = Report {
        index: &args.index,
        format_version: info.format_version,
        metric: info.metric.name(),
        dim: info.dim,
        vectors: info.vectors.name(),
        id_kind: info.id_kind.name(),
        payload: info.payload,
        columns: info
            .columns
            .into_iter()
            .map(|column| ColumnReport { name: column.name, kind: column.kind.name() })
            .collect(),
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
        default_recall: info.default_recall,
        calibrated: info.calibrated.map(|known| MeasuredReport {
            rows: known.rows,
            samples: known.samples,
            by_queries: known.by_queries,
            changes: known.changes,
            longer_rows: known.longer_rows,
            outdated: known.is_outdated(),
        }),
        audit: info.audit.zip(info.audited).map(|(audit, since)| AuditReport {
            k: audit.k,
            recall: audit.recall,
            half_interval: audit.half_interval,
            target: audit.target,
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
        warn_of_dead_rows(&args.index, report.dead_rows, report.rows);
        warn_of_changes(&args.index, info.calibrated.filter(Measured::is_outdated));
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
            ("vectors", self.vectors.to_owned()),
            ("rows", grouped(self.rows)),
            ("ids", self.id_kind.to_owned()),
            ("columns", self.columns()),
            ("payload", if self.payload { "kept" } else { "none" }.to_owned()),
            ("dead rows", format!("{}; `pagehop vacuum` removes them", grouped(self.dead_rows))),
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
            ("default recall", self.default_recall.map_or("unknown".to_owned(), |recall| recall.to_string())),
            ("calibrated", self.calibrated()),
            ("last audit", self.audited()),
        ] {
            output.text(format_args!("{name:18} {value}\n"))?;
        }
        Ok(())
    }

    fn columns(&self) -> String {
        let named = self.columns.iter().map(|column| format!("{} ({})", column.name, column.kind));
        let names: Vec<String> = named.collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    fn calibrated(&self) -> String {
        let Some(known) = &self.calibrated else { return "never".to_owned() };
        let (samples, rows) = (grouped(known.samples.into()), grouped(known.rows));
        let queries = match known.by_queries {
            true => format!("{samples} of your queries"),
            false => format!("its own vectors, {samples} of them compared with every row,"),
        };
        format!("with {queries} at {rows} rows; {} added or deleted since", grouped(known.changes))
    }

    fn audited(&self) -> String {
        let Some(audit) = &self.audit else { return "none stored".to_owned() };
        let AuditReport { k, recall, half_interval, .. } = audit;
        let target = audit.target.map_or(String::new(), |target| format!(" for {target}"));
        let changes = grouped(audit.changes);
        format!("recall@{k} {recall:.4} +- {half_interval:.4}{target}; {changes} rows added or deleted since")
    }
}
