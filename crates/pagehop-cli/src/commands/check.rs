//! `pagehop check`: proves that an index is sound, or says where it is not.

use std::path::{Path, PathBuf};

use pagehop_engine::{CheckReport, Error as EngineError, PageId};
use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::errors::Error;
use crate::interrupt;
use crate::output::{Output, grouped, say};
use crate::progress::ProgressLine;
use crate::warnings::warn_of_dead_rows;

/// Edges per stale edge, below which stale edges are reported.
const EDGES_PER_STALE: u64 = 10;

/// Read every page of an index and prove its structure.
///
/// The exit code is 1 if the index is damaged, and 2 if that is not known: it cannot be opened or
/// read, another process changes it, or too little memory is free.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// Report as one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Report<'a> {
    Sound {
        index: &'a Path,
        ok: bool,
        pages: u32,
        nodes: u64,
        dead_nodes: u64,
        free_slots: u64,
        edges: u64,
        stale_edges: u64,
        reachable: u64,
        anchored: u64,
    },
    Damaged {
        index: &'a Path,
        ok: bool,
        page: u32,
        error: String,
    },
}

/// Checks the index.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen().map_err(Error::into_use)?;
    let mut line = ProgressLine::new(false);
    let checked = pagehop_store::open(&args.index, &OpenOptions::default())
        .and_then(|index| pagehop_store::check(&index, &mut |progress| line.update(progress)));
    drop(line);
    match checked {
        Err(EngineError::Corrupt { page, what }) => Err(damaged(args, page, what)),
        // A failure would say that the index is damaged.
        Err(error) => Err(Error::about(&args.index, &error).into_use()),
        Ok(report) => show(args, &report).map_err(Error::into_use),
    }
}

/// Reports a sound index.
fn show(args: &Args, report: &CheckReport) -> Result<(), Error> {
    let mut output = Output::new();
    if args.json {
        output.json(&sound(&args.index, report))?;
    } else {
        print(&mut output, &args.index, report)?;
        warn(&args.index, report);
    }
    output.finish()
}

/// Reports a damaged index, on standard output if that was asked for. Returns the command's error.
fn damaged(args: &Args, page: PageId, what: String) -> Error {
    let error = EngineError::corrupt(page, what);
    if !args.json {
        return Error::about(&args.index, &error);
    }
    let mut output = Output::new();
    let report = Report::Damaged { index: &args.index, ok: false, page: page.0, error: error.to_string() };
    output.json(&report).and_then(|()| output.finish()).err().unwrap_or(Error::Reported)
}

fn sound<'a>(index: &'a Path, report: &CheckReport) -> Report<'a> {
    Report::Sound {
        index,
        ok: true,
        pages: report.pages,
        nodes: report.nodes,
        dead_nodes: report.dead_nodes,
        free_slots: report.free_slots,
        edges: report.edges,
        stale_edges: report.stale_edges,
        reachable: report.reachable,
        anchored: report.anchored,
    }
}

fn print(output: &mut Output, index: &Path, report: &CheckReport) -> Result<(), Error> {
    output.text(format_args!(
        "{}: sound; {} pages, {} nodes, {} dead nodes, {} free slots, {} edges, {} of them stale, {} nodes reachable\n",
        index.display(),
        grouped(report.pages.into()),
        grouped(report.nodes),
        grouped(report.dead_nodes),
        grouped(report.free_slots),
        grouped(report.edges),
        grouped(report.stale_edges),
        grouped(report.reachable),
    ))
}

fn warn(index: &Path, report: &CheckReport) {
    let lost = report.nodes.saturating_sub(report.reachable);
    if lost > 0 {
        say(format_args!("warning: {} nodes cannot be found by a search", grouped(lost)));
    }
    warn_of_dead_rows(index, report.dead_nodes, report.nodes);
    if report.stale_edges.saturating_mul(EDGES_PER_STALE) > report.edges {
        say(format_args!(
            "warning: {} of {} edges are stale, left over from earlier vacuums, and slow searches down; changes \
             near them remove them, and so does a new build",
            grouped(report.stale_edges),
            grouped(report.edges),
        ));
    }
}
