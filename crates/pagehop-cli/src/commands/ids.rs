//! `pagehop ids`: the ids of all rows.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use pagehop_store::OpenOptions;

use crate::arguments::parse_npy;
use crate::errors::Error;
use crate::formats::NewNpy;
use crate::index_file;
use crate::output::Output;

/// Ids that are read at once.
const BATCH_IDS: usize = 65_536;

/// List the ids of an index's rows, in ascending order, one on each line.
///
/// Other processes may change the index in the time: rows that stay come once, rows that come or
/// go may be among them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// List ids from this one on.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    first: u64,
    /// Most ids to list; all if it is not given.
    #[arg(long, value_name = "ROWS", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    count: Option<u64>,
    /// Write the ids to this .npy file instead, as a column of uint64.
    #[arg(short, long, value_name = "FILE", value_parser = parse_npy)]
    output: Option<PathBuf>,
}

/// Lists them.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    let index = index_file::open(&args.index, &OpenOptions::default())?;
    let mut file = args.output.as_deref().map(|path| NewNpy::create(path, "<u8", None)).transpose()?;
    let mut output = Output::new();
    let (mut next, mut left) = (Some(args.first), args.count.unwrap_or(u64::MAX));
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
