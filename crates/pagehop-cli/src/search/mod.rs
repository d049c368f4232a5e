//! `pagehop search`: the nearest rows of every query of a file.

mod batch;
mod ids_file;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pagehop_engine::index::{BEAM_WIDTH_MAX, SEARCH_LIST_MAX};
use pagehop_engine::{SearchOptions, VectorSource};
use pagehop_store::OpenOptions;

use crate::build::{parse_bytes, parse_count, parse_threads, refuse_same_file};
use crate::errors::Error;
use crate::formats::{Chunk, Truth, Vectors};
use crate::output::{Output, say};
use crate::recall::{options_for, parse_recall};
use crate::{info, interrupt};

use ids_file::IdsFile;
use report::{Summary, Totals};

/// Find the nearest rows of every query of a file.
///
/// Prints one line for each row found: query, row id and distance, separated by tabs. Queries are
/// numbered from 0. A summary goes to standard error; with --json it is the last line.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of queries: .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin.
    queries: PathBuf,
    /// Rows to find for each query.
    #[arg(short, value_name = "K", default_value_t = 10, value_parser = parse_k)]
    k: usize,
    /// Share of the true nearest rows to find, on average: search list and slack are what the index was calibrated to.
    /// 1 looks at every row, and finds them all.
    #[arg(long, value_name = "SHARE", value_parser = parse_recall, conflicts_with_all = ["search_list", "slack"])]
    recall: Option<f32>,
    /// Candidates kept while searching; more find more and take longer. Without --slack all of them are
    /// expanded. [default: as for --recall 0.98; 100, and --slack 0.2, if the index was never calibrated]
    #[arg(long, value_name = "N", value_parser = parse_search_list)]
    search_list: Option<usize>,
    /// Stop once the best estimate left is beyond 1 + SLACK times the distance of the last row to
    /// find; `inf` looks at the whole search list.
    #[arg(long, value_name = "SLACK", value_parser = parse_slack)]
    slack: Option<f32>,
    /// Pages asked for at once. [default: 4]
    #[arg(long, value_name = "N", value_parser = parse_beam_width)]
    beam_width: Option<usize>,
    /// Memory for pages of the index, for example 16MiB.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    cache: u64,
    /// Threads; 0 means one for each core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// File of true neighbors to measure recall against: .ibin, .ivecs or .npy, one row of ids for
    /// each query, nearest first.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Report as lines of JSON.
    #[arg(long)]
    json: bool,
    /// Put the ids in a .npy matrix instead of printing what was found; -1 where nothing was.
    #[arg(short, long, value_name = "FILE.npy", value_parser = parse_npy)]
    output: Option<PathBuf>,
}

/// Searches.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    if let Some(output) = &args.output {
        for input in [&args.index, &args.queries].into_iter().chain(&args.truth) {
            refuse_same_file(output, input)?;
        }
    }
    let options = OpenOptions { cache_bytes: args.cache, ..OpenOptions::default() };
    let index = info::open(&args.index, &options)?;
    let about = index.info().map_err(|error| Error::about(&args.index, &error))?;
    let mut queries = Vectors::open(&args.queries, None)?;
    check_dim((&args.index, about.dim), (&args.queries, queries.dim()))?;
    // An index that holds fewer rows than k has no more to give.
    let k = usize::try_from(about.rows).map_or(args.k, |rows| args.k.min(rows)).max(1);
    let truth = args.truth.as_deref().map(|truth| Truth::open(truth, queries.rows(), k)).transpose()?;
    let mut ids_file = args.output.as_deref().map(|path| IdsFile::create(path, queries.rows(), k)).transpose()?;

    let given = SearchOptions::given(args.search_list, args.slack);
    let options = match args.recall {
        Some(recall) if recall >= 1.0 => None,
        recall => Some(options_for(&index, &args.index, k, recall, given)?),
    };
    let beam_width = |options: SearchOptions| args.beam_width.unwrap_or(options.beam_width);
    let options = options.map(|options| SearchOptions { beam_width: beam_width(options.clone()), ..options });
    let threads = thread_count(args.threads);
    let mut output = Output::new();
    let mut totals = Totals::default();
    let mut searching = Duration::ZERO;
    while let Some(Chunk { ids: numbers, components }) = queries.next_chunk()? {
        let began = Instant::now();
        let results = match &options {
            Some(options) => batch::search(&index, components, about.dim, k, options, threads),
            None => index.search_exactly(components, k, threads, &mut |_| interrupt::poll()).map_err(|e| (0, e)),
        };
        let results = results.map_err(|(at, error)| about_query(args, numbers[at], &error))?;
        searching += began.elapsed();
        for (&number, result) in numbers.iter().zip(&results) {
            totals.add(number, result, truth.as_ref());
            match &mut ids_file {
                Some(file) => file.write(result)?,
                None if args.json => output.json(&report::query_line(number, result))?,
                None => report::print(&mut output, number, result)?,
            }
        }
    }
    if let Some(file) = ids_file {
        file.finish()?;
    }
    let summary = Summary::new(&totals, k, options.as_ref(), threads, searching.as_secs_f64());
    if args.json {
        output.json(&report::SummaryLine { summary: &summary })?;
    }
    output.finish()?;
    if !args.json {
        say(format_args!("{summary}"));
    }
    Ok(())
}

/// Refuses a file of queries of another dimension than the index: each with its own.
pub(crate) fn check_dim(index: (&Path, usize), queries: (&Path, usize)) -> Result<(), Error> {
    if index.1 == queries.1 {
        return Ok(());
    }
    Err(Error::Use(format!(
        "{} has {} dimensions, {} has {}",
        queries.0.display(),
        queries.1,
        index.0.display(),
        index.1,
    )))
}

fn about_query(args: &Args, number: u64, error: &pagehop_engine::Error) -> Error {
    use pagehop_engine::Error as EngineError;
    match error {
        EngineError::Argument { what } => {
            Error::Use(format!("query {number} of {}: {what}", args.queries.display()))
        }
        _ => Error::about(&args.index, error),
    }
}

fn thread_count(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        _ => asked,
    }
}

/// A number that the option of that name takes.
pub(crate) fn parse_k(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SEARCH_LIST_MAX)
}

/// A number that the option of that name takes.
pub(crate) fn parse_search_list(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SEARCH_LIST_MAX)
}

fn parse_beam_width(text: &str) -> Result<usize, String> {
    parse_count(text, 1, BEAM_WIDTH_MAX)
}

/// A number that the option of that name takes.
pub(crate) fn parse_slack(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(slack) if slack >= 0.0 => Ok(slack),
        _ => Err("it must be a number from 0 up, or inf".to_owned()),
    }
}

fn parse_npy(text: &str) -> Result<PathBuf, String> {
    let path = Path::new(text);
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("npy") => Ok(path.to_owned()),
        _ => Err("its name must end in .npy".to_owned()),
    }
}
