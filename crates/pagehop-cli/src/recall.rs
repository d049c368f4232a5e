//! `pagehop recall`: what searches find of the true nearest rows.

use std::path::{Path, PathBuf};

use pagehop_engine::{Index, Info, Measured, SearchOptions, VectorSource};
use pagehop_store::{FilePages, OpenOptions};
use serde::Serialize;

use crate::build::{parse_bytes, parse_count, parse_threads};
use crate::errors::Error;
use crate::formats::Vectors;
use crate::output::{Output, grouped, say};
use crate::progress::ProgressLine;
use crate::{info, interrupt, search, writing};

/// Most samples.
const SAMPLES_MAX: usize = 1_000_000;

/// Measure the recall of searches, against a look at every row.
///
/// Vectors of the index are queries, or those of a file. It keeps nobody waiting: searches and changes go on meanwhile. A recall that
/// was asked for and is missed by more than chance explains is a warning on standard error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// Rows that are searched for.
    #[arg(short, value_name = "K", default_value_t = 10, value_parser = search::parse_k)]
    k: usize,
    /// Vectors of the index that are queries.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = parse_samples)]
    samples: usize,
    /// File of queries to measure with instead.
    #[arg(long, value_name = "FILE", conflicts_with = "samples")]
    queries: Option<PathBuf>,
    /// Search with what was calibrated to find this share of the nearest rows.
    #[arg(long, value_name = "SHARE", value_parser = parse_target, conflicts_with_all = ["search_list", "slack"])]
    recall: Option<f32>,
    /// Search with a list of so many candidates. [default: as for --recall 0.98; 100, and
    /// --slack 0.2, if the index was never calibrated]
    #[arg(long, value_name = "N", value_parser = search::parse_search_list)]
    search_list: Option<usize>,
    /// Search with so much slack; see `pagehop search --help`.
    #[arg(long, value_name = "SLACK", value_parser = search::parse_slack)]
    slack: Option<f32>,
    /// Store what was found, for `pagehop info` to show: nobody else may be writing the index.
    #[arg(long)]
    store: bool,
    /// Memory for pages of the index, for example 16MiB.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    cache: u64,
    /// Threads; 0 means one for each core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// As one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    k: usize,
    recall: f32,
    interval: f32,
    target: Option<f64>,
    samples: usize,
    hops: f32,
    far: Option<f32>,
    search_list: usize,
    slack: f32,
}

/// Measures it.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let options = OpenOptions { cache_bytes: args.cache, ..OpenOptions::default() };
    let index = if args.store { writing::open(&args.index, &options)? } else { info::open(&args.index, &options)? };
    let about = |error: &_| Error::about(&args.index, error);
    let dim = index.info().map_err(|error| about(&error))?.dim;
    let queries = read_queries(args.queries.as_deref(), &args.index, dim)?;
    let given = SearchOptions::given(args.search_list, args.slack);
    let options = options_for(&index, &args.index, args.k, args.recall, given)?;
    let mut line = ProgressLine::new(args.json);
    let found =
        index.recall(args.k, args.samples, &queries, &options, args.threads, &mut |progress| line.update(progress));
    drop(line);
    let found = found.map_err(|error| about(&error))?;
    if args.store {
        pagehop_store::set_audit(&index, args.k, args.recall, &found).map_err(|error| about(&error))?;
        writing::close(&args.index, index)?;
    }
    let report = Report {
        index: &args.index,
        k: args.k,
        recall: found.recall,
        interval: found.interval,
        target: args.recall.map(short),
        samples: found.samples,
        hops: found.hops,
        far: found.far,
        search_list: options.search_list,
        slack: options.slack,
    };
    let mut output = Output::new();
    if args.json {
        output.json(&report)?;
    } else {
        report.print(&mut output)?;
    }
    output.finish()?;
    if let Some(target) = args.recall.filter(|target| found.misses(*target)) {
        let path = args.index.display();
        let with =
            args.queries.as_ref().map_or(String::new(), |queries| format!(" --queries {}", queries.display()));
        say(format_args!(
            "warning: searches with --recall {target} find {:.4} +- {:.4}; `pagehop calibrate {path}{with}` measures anew what \
             it takes",
            found.recall, found.interval,
        ));
    }
    Ok(())
}

impl Report<'_> {
    fn print(&self, output: &mut Output) -> Result<(), Error> {
        let Self { k, recall, interval, hops, search_list, slack, .. } = self;
        let samples = grouped(self.samples as u64);
        output.text(format_args!(
            "recall@{k} {recall:.4} +- {interval:.4} of {samples} queries; search list {search_list}, slack {slack:.4}, \
             {hops:.1} hops\n"
        ))?;
        match self.far {
            Some(far) => {
                let percent = 100.0 * far;
                output.text(format_args!(
                    "{percent:.1}% of them are farther from the rows than 99% of the rows are\n"
                ))
            }
            None => Ok(()),
        }
    }
}

/// How to search `index`, at `path`, for `k` rows: as calibrated for `recall`, if there is one, or as was `given`, if anything was; else with the
/// recall that a calibrated index finds by itself. Says on standard error if much has changed since a recall that is asked for was
/// calibrated.
pub(crate) fn options_for(
    index: &Index<FilePages>,
    path: &Path,
    k: usize,
    recall: Option<f32>,
    given: Option<SearchOptions>,
) -> Result<SearchOptions, Error> {
    let Some(recall) = recall else {
        let known = || index.tuned_or_default(k).map_err(|error| Error::about(path, &error));
        return given.map_or_else(known, Ok);
    };
    let known = index.tuned(k, recall).map_err(|error| Error::about(path, &error))?;
    let Some(known) = known else {
        let path = path.display();
        return Err(Error::Use(format!(
            "{path} was never calibrated, so --recall has no meaning for it; `pagehop calibrate {path}` measures what each recall \
             takes"
        )));
    };
    warn_of_changes(path, &index.info().map_err(|error| Error::about(path, &error))?);
    Ok(known)
}

/// Suggests to calibrate the index at `path` anew if much has changed since it was.
pub(crate) fn warn_of_changes(path: &Path, info: &Info) {
    if let Some(known) = info.calibration.filter(Measured::is_outdated) {
        let path = path.display();
        say(format_args!(
            "warning: {} rows were added or deleted since the index was calibrated at {} rows, so searches may find less than \
             their --recall; `pagehop calibrate {path}` measures anew what it takes",
            grouped(known.changes),
            grouped(known.rows),
        ));
    }
}

/// All vectors of a file of queries for the index at `path`, if there is one.
pub(crate) fn read_queries(file: Option<&Path>, path: &Path, dim: usize) -> Result<Vec<f32>, Error> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let mut vectors = Vectors::open(file, None)?;
    search::check_dim((path, dim), (file, vectors.dim()))?;
    let mut queries = Vec::new();
    while let Some(chunk) = vectors.next_chunk()? {
        queries.extend_from_slice(chunk.components);
    }
    if queries.is_empty() {
        return Err(Error::Use(format!("{} has no vectors", file.display())));
    }
    Ok(queries)
}

/// A recall as people write it: 0.9, and not the double nearest to the float nearest to it.
pub(crate) fn short(recall: f32) -> f64 {
    (f64::from(recall) * 1e6).round() / 1e6
}

/// A recall that a search may be asked for; 1 looks at every row.
pub(crate) fn parse_recall(text: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(recall) if recall > 0.0 && recall <= 1.0 => Ok(recall),
        _ => Err("it must be a number above 0 and at most 1; 1 looks at every row".to_owned()),
    }
}

/// A recall that can be missed.
fn parse_target(text: &str) -> Result<f32, String> {
    match parse_recall(text) {
        Ok(recall) if recall < 1.0 => Ok(recall),
        _ => Err("it must be a number above 0 and below 1".to_owned()),
    }
}

fn parse_samples(text: &str) -> Result<usize, String> {
    parse_count(text, 1, SAMPLES_MAX)
}
