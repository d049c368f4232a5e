//! `pagehop check`: proof that an index is sound, or where it is not.

use std::path::{Path, PathBuf};

use pagehop_engine::Error as EngineError;
use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::errors::Error;
use crate::interrupt;
use crate::output::{Output, grouped, say};
use crate::progress::ProgressLine;

/// Read every page of an index and prove its structure.
///
/// The exit code is 1 if the index is damaged.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// As one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Report<'a> {
    Sound { index: &'a Path, ok: bool, pages: u32, nodes: u64, edges: u64, reachable: u64 },
    Damaged { index: &'a Path, ok: bool, page: Option<u32>, error: String },
}

/// Checks it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let mut line = ProgressLine::new(false);
    let checked = pagehop_store::open(&args.index, &OpenOptions::default())
        .and_then(|index| index.check(&mut |progress| line.update(progress)));
    drop(line);
    let mut output = Output::new();
    match checked {
        Ok(report) if args.json => output.json(&Report::Sound {
            index: &args.index,
            ok: true,
            pages: report.pages,
            nodes: report.nodes,
            edges: report.edges,
            reachable: report.reachable,
        })?,
        Ok(report) => {
            output.text(format_args!(
                "{}: sound; {} pages, {} nodes, {} edges, {} nodes reachable\n",
                args.index.display(),
                grouped(report.pages.into()),
                grouped(report.nodes),
                grouped(report.edges),
                grouped(report.reachable),
            ))?;
            let lost = report.nodes.saturating_sub(report.reachable);
            if lost > 0 {
                say(format_args!("warning: {} nodes cannot be found by a search", grouped(lost)));
            }
        }
        Err(EngineError::Interrupted) => return Err(Error::Interrupted),
        Err(error) if args.json => {
            let page = match &error {
                EngineError::Corrupt { page, .. } => Some(page.0),
                _ => None,
            };
            let error = error.to_string();
            output.json(&Report::Damaged { index: &args.index, ok: false, page, error })?;
            output.finish()?;
            return Err(Error::Reported);
        }
        Err(error) => return Err(Error::about(&args.index, &error)),
    }
    output.finish()
}
