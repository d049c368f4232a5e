//! `pagehop info`: what an index says of itself.

use std::path::{Path, PathBuf};

use pagehop_engine::{Index, PAGE_BYTES};
use pagehop_store::{FilePages, OpenOptions};
use serde::Serialize;

use crate::errors::Error;
use crate::output::{Output, grouped, human_bytes, metric_name};

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
}

/// Shows it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let info = open(&args.index, &OpenOptions::default())?.info();
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
    };
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        let bytes_per_row = report.bytes / report.rows.max(1);
        for (name, value) in [
            ("index", args.index.display().to_string()),
            ("format version", report.format_version.to_string()),
            ("metric", report.metric.to_owned()),
            ("dimensions", report.dim.to_string()),
            ("rows", grouped(report.rows)),
            ("size", format!("{}, {bytes_per_row} bytes per row", human_bytes(report.bytes))),
            ("pages", grouped(report.pages.into())),
            ("nodes per page", report.nodes_per_page.to_string()),
            ("neighbors per node", format!("{} at most", report.max_degree)),
            ("edge code", format!("{} bits of {} dimensions", report.edge_bits, report.edge_dims)),
            ("own code", format!("{} bits per dimension", report.own_bits)),
            ("seed", report.seed.to_string()),
        ] {
            output.text(format_args!("{name:18} {value}\n"))?;
        }
    }
    output.finish()
}

/// Opens the index at `path`.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Index<FilePages>, Error> {
    pagehop_store::open(path, options).map_err(|error| Error::about(path, &error))
}
