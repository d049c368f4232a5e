//! The values that options of several commands accept. Each `parse_*` turns the text of an option
//! into its value; its error says what is accepted.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pagehop_engine::{
    BEAM_WIDTH_MAX, Column, ColumnKind, Filter, IdKind, Metric, SAMPLES_MAX, SEARCH_LIST_MAX, THREADS_MAX, Vectors,
};
use pagehop_store::CACHE_AUTO;

/// Default rows of a batch.
pub(crate) const BATCH_ROWS: usize = 1000;
/// Most rows of a batch.
const BATCH_ROWS_MAX: usize = 10_000_000;

/// A metric as it is named on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum MetricName {
    /// Squared Euclidean distance.
    L2,
    /// Negative inner product.
    Ip,
    /// 1 - cosine similarity.
    Cosine,
}

impl From<MetricName> for Metric {
    fn from(name: MetricName) -> Self {
        match name {
            MetricName::L2 => Self::L2,
            MetricName::Ip => Self::InnerProduct,
            MetricName::Cosine => Self::Cosine,
        }
    }
}

/// What an index keeps of vectors, as it is named on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum VectorsName {
    /// Codes of 12 bits per dimension.
    Codes,
    /// The vectors, too, in half precision.
    Float16,
    /// The vectors, too.
    Float32,
}

impl From<VectorsName> for Vectors {
    fn from(name: VectorsName) -> Self {
        match name {
            VectorsName::Codes => Self::Codes,
            VectorsName::Float16 => Self::Float16,
            VectorsName::Float32 => Self::Float32,
        }
    }
}

/// The kind of row ids, as it is named on the command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum IdKindName {
    /// Numbers from 0 to 2^64 - 1; Python reads those below 2^63.
    Int,
    /// Texts of 1 to 1,024 bytes of UTF-8.
    Text,
}

impl From<IdKindName> for IdKind {
    fn from(kind: IdKindName) -> Self {
        match kind {
            IdKindName::Int => Self::Int,
            IdKindName::Text => Self::Text,
        }
    }
}

/// A size in bytes, such as `512MiB`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    pagehop_store::parse_bytes(text).map_err(|error| error.to_string())
}

/// The size of a cache: a number of bytes, or `auto`.
pub(crate) fn parse_cache(text: &str) -> Result<u64, String> {
    if text == "auto" { Ok(CACHE_AUTO) } else { parse_bytes(text) }
}

/// A number of threads; 0 means one per core.
pub(crate) fn parse_threads(text: &str) -> Result<usize, String> {
    parse_count(text, 0, THREADS_MAX)
}

/// The number of rows that one commit adds or deletes.
pub(crate) fn parse_batch(text: &str) -> Result<usize, String> {
    parse_count(text, 1, BATCH_ROWS_MAX)
}

/// The number of queries that a recall is measured with.
pub(crate) fn parse_samples(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SAMPLES_MAX)
}

/// The number of rows to find.
pub(crate) fn parse_k(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SEARCH_LIST_MAX)
}

/// The length of a candidate list.
pub(crate) fn parse_search_list(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SEARCH_LIST_MAX)
}

/// The most pages that a search reads at the same time.
pub(crate) fn parse_beam_width(text: &str) -> Result<usize, String> {
    parse_count(text, 1, BEAM_WIDTH_MAX)
}

/// How far beyond the k-th distance a search goes on, as a share of it; infinite expands the whole
/// candidate list.
pub(crate) fn parse_slack(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(slack) if slack >= 0.0 => Ok(slack),
        _ => Err("it must be a number from 0 up, or inf".to_owned()),
    }
}

/// The recall that a search must reach; 1 compares the query with every row.
pub(crate) fn parse_recall(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(recall) if recall > 0.0 && recall <= 1.0 => Ok(recall),
        _ => Err("it must be a number above 0 and at most 1; 1 compares each query with every row".to_owned()),
    }
}

/// A column and its kind.
pub(crate) fn parse_column(text: &str) -> Result<Column, String> {
    let (name, kind) = text.rsplit_once(':').ok_or("it must be NAME:KIND, such as price:float")?;
    let kind = ColumnKind::of_name(kind).map_err(|error| error.to_string())?;
    Ok(Column { name: name.to_owned(), kind })
}

/// A filter, such as `topic = 7 and price < 20`.
pub(crate) fn parse_filter(text: &str) -> Result<Filter, String> {
    text.parse().map_err(|error: pagehop_engine::Error| error.to_string())
}

/// A path that ends in `.npy`.
pub(crate) fn parse_npy(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("npy") => Ok(path.to_owned()),
        _ => Err("its name must end in .npy".to_owned()),
    }
}

fn parse_count(text: &str, min: usize, max: usize) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (min..=max).contains(&count) => Ok(count),
        _ => Err(format!("it must be a whole number from {min} to {max}")),
    }
}
