//! `pagehop ids`: the ids of all rows.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use pagehop_engine::{IdKind, Index};
use pagehop_store::{IndexFile, OpenOptions};

use crate::arguments::parse_npy;
use crate::errors::Error;
use crate::formats::NewNpy;
use crate::index_file;
use crate::output::Output;

/// Ids that are read at once.
const BATCH_IDS: usize = 65_536;

/// List the ids of an index's rows, one on each line: numbers in ascending order, texts in an
/// internal order.
///
/// Other processes may change the index at the same time. A row that is in the index all the time
/// is listed once. A row that is added or deleted at this time may be listed or not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// List ids from this one on, of an index whose ids are numbers.
    #[arg(long, value_name = "ID")]
    first: Option<u64>,
    /// Most ids to list; all if it is not given.
    #[arg(long, value_name = "ROWS", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    count: Option<u64>,
    /// Write the ids to this .npy file instead, as a column of uint64.
    #[arg(short, long, value_name = "FILE", value_parser = parse_npy)]
    output: Option<PathBuf>,
    /// Print each id as JSON: a text may have line breaks.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// Lists them.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let index = index_file::open(&args.index, &OpenOptions::default())?;
    match index_file::info(&args.index, &index)?.id_kind {
        IdKind::Text => texts(args, &index),
        _ => numbers(args, &index),
    }
}

fn numbers(args: &Args, index: &Index<IndexFile>) -> Result<(), Error> {
    let mut file = args.output.as_deref().map(|path| NewNpy::create(path, "<u8", None)).transpose()?;
    let mut output = Output::new();
    let (mut next, mut left) = (Some(args.first.unwrap_or(0)), args.count.unwrap_or(u64::MAX));
    while let Some(first) = next.filter(|_| left > 0) {
        let most = left.min(BATCH_IDS as u64) as usize;
        let ids = index.ids(first, most).map_err(|error| Error::about(&args.index, &error))?;
        match &mut file {
            Some(file) => file.rows(ids.len(), &ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())?,
            None => ids.iter().try_for_each(|id| output.text(format_args!("{id}\n")))?,
        }
        left -= ids.len() as u64;
        next = if ids.len() < most { None } else { ids.last().and_then(|id| id.checked_add(1)) };
    }
    file.map_or(Ok(()), NewNpy::finish)?;
    output.finish()
}

fn texts(args: &Args, index: &Index<IndexFile>) -> Result<(), Error> {
    if args.first.is_some() || args.output.is_some() {
        let what = "its ids are texts, which have no order and do not fit a .npy file: leave out --first and -o";
        return Err(Error::Use(format!("{}: {what}", args.index.display())));
    }
    let mut output = Output::new();
    let (mut next, mut left) = (Some(0), args.count.unwrap_or(u64::MAX));
    while let Some(first) = next.filter(|_| left > 0) {
        let batch = left.min(BATCH_IDS as u64) as usize;
        let found = index.text_ids(first, batch).map_err(|error| Error::about(&args.index, &error))?;
        // It returns whole leaves of the map, so more ids than were asked for.
        for id in found.0.iter().take(batch) {
            match args.json {
                true => output.json(id)?,
                false => output.text(format_args!("{id}\n"))?,
            }
        }
        left = left.saturating_sub(found.0.len() as u64);
        next = found.1;
    }
    output.finish()
}
