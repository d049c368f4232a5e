//! `pagehop get`: the vectors or payloads of rows by id.

use std::fmt;
use std::path::PathBuf;

use pagehop_engine::{Index, Info, RowId};
use pagehop_store::{IndexFile, OpenOptions};
use serde::Serialize;

use crate::arguments::parse_npy;
use crate::errors::Error;
use crate::formats::{IdList, NewNpy, check_ids_file, read_ids};
use crate::index_file;
use crate::output::Output;

/// Rows that are read at once.
const BATCH_ROWS: usize = 4096;

/// Print the vectors of rows by id, or their payloads, in the order of the ids.
///
/// An index that keeps vectors gives them as they were added, and another one gives those of its
/// codes of 12 bits per dimension. An id that is not in the index is an error, and then no file is
/// written.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of row ids: a .npy column of integers, or text with one id per line. They may repeat.
    ids: PathBuf,
    /// Print the payloads instead, as text.
    #[arg(long, conflicts_with = "output")]
    payload: bool,
    /// Write the vectors to this .npy file instead, as a matrix of float32.
    #[arg(short, long, value_name = "FILE", value_parser = parse_npy)]
    output: Option<PathBuf>,
    /// Print one line of JSON for each row.
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

#[derive(Serialize)]
struct Row<'a, I> {
    id: &'a I,
    vector: &'a [f32],
}

#[derive(Serialize)]
struct PayloadRow<'a, I> {
    id: &'a I,
    payload: Option<String>,
}

/// Prints the payloads. A row without a payload has an empty text, or `null` in JSON.
fn payloads<I: RowId + fmt::Display + Serialize>(
    args: &Args,
    ids: &[I],
    index: &Index<IndexFile>,
) -> Result<(), Error> {
    let mut output = Output::new();
    for ids in ids.chunks(BATCH_ROWS) {
        let payloads = index.payloads(ids).map_err(|error| Error::about(&args.index, &error))?;
        for (id, payload) in ids.iter().zip(&payloads) {
            let payload = payload.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            match args.json {
                true => output.json(&PayloadRow { id, payload })?,
                false => output.text(format_args!("{id}\t{}\n", payload.unwrap_or_default()))?,
            }
        }
    }
    output.finish()
}

/// Prints them.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    check_ids_file(&args.ids)?;
    let index = index_file::open(&args.index, &OpenOptions::default())?;
    let Info { dim, id_kind, .. } = index_file::info(&args.index, &index)?;
    match (read_ids(&args.ids, id_kind)?, args.payload) {
        (IdList::Int(ids), true) => payloads(args, &ids, &index),
        (IdList::Text(ids), true) => payloads(args, &ids, &index),
        (IdList::Int(ids), false) => vectors(args, &ids, &index, dim),
        (IdList::Text(ids), false) => vectors(args, &ids, &index, dim),
    }
}

fn vectors<I: RowId + fmt::Display + Serialize>(
    args: &Args,
    ids: &[I],
    index: &Index<IndexFile>,
    dim: usize,
) -> Result<(), Error> {
    let mut file = args.output.as_deref().map(|path| NewNpy::create(path, "<f4", Some(dim))).transpose()?;
    let mut output = Output::new();
    for ids in ids.chunks(BATCH_ROWS) {
        let vectors = index.vectors(ids).map_err(|error| Error::about(&args.index, &error))?;
        if let Some(file) = &mut file {
            file.rows(ids.len(), &vectors.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>())?;
            continue;
        }
        for (id, vector) in ids.iter().zip(vectors.chunks_exact(dim)) {
            if args.json {
                output.json(&Row { id, vector })?;
                continue;
            }
            output.text(format_args!("{id}"))?;
            vector.iter().try_for_each(|x| output.text(format_args!("\t{x}")))?;
            output.text(format_args!("\n"))?;
        }
    }
    file.map_or(Ok(()), NewNpy::finish)?;
    output.finish()
}
