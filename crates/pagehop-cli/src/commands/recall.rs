//! `pagehop recall`: measures which share of the true nearest rows the searches find.

use std::path::{Path, PathBuf};

use pagehop_store::OpenOptions;
use serde::Serialize;

use crate::arguments::{parse_cache, parse_k, parse_samples, parse_threads};
use crate::effort::EffortOptions;
use crate::errors::Error;
use crate::output::{Output, grouped, say};
use crate::progress::ProgressLine;
use crate::queries::read_queries;
use crate::{index_file, interrupt};

/// Measure the recall of searches against exact answers.
///
/// Queries are vectors of the index or of a file. Searches and changes continue. If the measured
/// recall is below --recall by more than chance explains, a warning goes to standard error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// Rows to find for each query.
    #[arg(short, value_name = "K", default_value_t = 10, value_parser = parse_k)]
    k: usize,
    /// Number of vectors of the index to use as queries.
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = parse_samples)]
    samples: usize,
    /// File of queries to use instead.
    #[arg(long, value_name = "FILE", conflicts_with = "samples")]
    queries: Option<PathBuf>,
    #[command(flatten)]
    effort: EffortOptions,
    /// Store the result, for `pagehop info` to show. No other process may be writing the index.
    #[arg(long)]
    store: bool,
    /// Memory for pages of the index, for example 16MiB; auto is a quarter of what is free.
    #[arg(long, value_name = "BYTES", default_value = "auto", value_parser = parse_cache)]
    cache: u64,
    /// Whether to bypass the page cache of the system. If not given, it is bypassed, except if the
    /// index is larger than --cache and fits in the memory that is free beside it, or if io_uring
    /// is refused.
    #[arg(long, value_name = "BOOL")]
    direct: Option<bool>,
    /// Threads, up to 4,096; 0 means one per core.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_threads)]
    threads: usize,
    /// Report as one line of JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    index: &'a Path,
    k: usize,
    recall: f32,
    half_interval: f32,
    target: Option<f32>,
    samples: usize,
    hops: f32,
    far: Option<f32>,
    search_list: usize,
    slack: f32,
}

/// Measures the recall.
pub(crate) fn run(args: &Args) -> Result<(), Error> {
    interrupt::listen()?;
    let options = OpenOptions { cache_bytes: args.cache, direct: args.direct, ..OpenOptions::default() };
    let index = if args.store {
        index_file::open_to_write(&args.index, &options)?
    } else {
        index_file::open(&args.index, &options)?
    };
    let about = |error: &_| Error::about(&args.index, error);
    let dim = index_file::info(&args.index, &index)?.dim;
    let queries = read_queries(args.queries.as_deref(), &args.index, dim)?;
    let Some(options) = args.effort.plan(&index, &args.index, args.k)?.options else {
        let what = "searches with --recall 1 find every row: there is nothing to measure; give a recall below 1";
        return Err(Error::Use(what.to_owned()));
    };
    let mut line = ProgressLine::new(args.json);
    let (queries, mut update) = (queries.as_deref(), |progress| line.update(progress));
    let found = index.recall(args.k, args.samples, queries, &options, args.threads, &mut update);
    drop(line);
    let found = found.map_err(|error| about(&error))?;
    if args.store {
        pagehop_store::set_audit(&index, args.k, args.effort.recall, &found).map_err(|error| about(&error))?;
        index_file::close(&args.index, index)?;
    }
    let report = Report {
        index: &args.index,
        k: args.k,
        recall: found.recall,
        half_interval: found.half_interval,
        target: args.effort.recall,
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
    if let Some(target) = args.effort.recall.filter(|target| found.misses(*target)) {
        let path = args.index.display();
        let with =
            args.queries.as_ref().map_or(String::new(), |queries| format!(" --queries {}", queries.display()));
        say(format_args!(
            "warning: searches with --recall {target} find {:.4} +- {:.4}; `pagehop calibrate {path}{with}` measures again \
             what it takes",
            found.recall, found.half_interval,
        ));
    }
    Ok(())
}

impl Report<'_> {
    fn print(&self, output: &mut Output) -> Result<(), Error> {
        let Self { k, recall, half_interval, hops, search_list, slack, .. } = self;
        let samples = grouped(self.samples as u64);
        output.text(format_args!(
            "recall@{k} {recall:.4} +- {half_interval:.4} of {samples} queries; search list {search_list}, slack {slack:.4}, \
             {hops:.1} hops\n"
        ))?;
        match self.far {
            Some(far) => {
                let percent = 100.0 * far;
                output.text(format_args!(
                    "{percent:.1}% of the queries are farther from their tenth nearest row than 99% of the calibration \
                     queries were\n"
                ))
            }
            None => Ok(()),
        }
    }
}
