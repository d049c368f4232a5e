//! `pagehop search`: the nearest rows of every query of a file.

mod ids_file;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagehop_engine::{Batch, Filter, IdKind, ReadParts, RowParts, SearchResult, VectorSource, available_threads};
use pagehop_store::OpenOptions;

use crate::arguments::{parse_beam_width, parse_cache, parse_filter, parse_k, parse_npy, parse_threads};
use crate::effort::EffortOptions;
use crate::errors::Error;
use crate::formats::{Chunk, Truth, Vectors};
use crate::index_file::refuse_same_file;
use crate::output::{Output, say};
use crate::queries::check_dim;
use crate::{index_file, interrupt};

use ids_file::IdsFile;
use report::{Summary, Totals};

/// Find the nearest rows of every query of a file.
///
/// Prints a line for each row found: query, row id and distance, separated by tabs. Queries are
/// numbered from 0. A summary goes to standard error; with --json it is the last line of output.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The index.
    index: PathBuf,
    /// File of queries: .npy, .fvecs, .bvecs, .fbin, .u8bin or .i8bin.
    queries: PathBuf,
    /// Rows to find for each query.
    #[arg(short, value_name = "K", default_value_t = 10, value_parser = parse_k)]
    k: usize,
    #[command(flatten)]
    effort: EffortOptions,
    /// Which rows may be found, such as "topic = 7 and price < 20".
    #[arg(long = "where", value_name = "FILTER", value_parser = parse_filter)]
    filter: Option<Filter>,
    /// Most pages read at the same time. [default: 8]
    #[arg(long, value_name = "N", value_parser = parse_beam_width)]
    beam_width: Option<usize>,
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
    /// File of true neighbors to measure recall with: .ibin, .ivecs or .npy, one row of ids per
    /// query, nearest first.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Print the payload of each row, too, as text.
    #[arg(long, conflicts_with = "output")]
    payload: bool,
    /// Report as lines of JSON.
    #[arg(long)]
    json: bool,
    /// Write the ids to a .npy matrix instead of printing results; short rows are filled up with
    /// -1.
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
    let options = OpenOptions { cache_bytes: args.cache, direct: args.direct, ..OpenOptions::default() };
    let index = index_file::open(&args.index, &options)?;
    let about = index_file::info(&args.index, &index)?;
    if about.id_kind == IdKind::Text && (args.truth.is_some() || args.output.is_some()) {
        let what = "its ids are texts, and --truth and -o have numbers";
        return Err(Error::Use(format!("{}: {what}", args.index.display())));
    }
    let mut queries = Vectors::open(&args.queries)?;
    check_dim((&args.index, about.dim), (&args.queries, queries.dim()))?;
    let k = args.k;
    // An index of fewer than k rows has no more true neighbors than rows.
    let neighbors = usize::try_from(about.rows).map_or(k, |rows| k.min(rows)).max(1);
    let truth = args.truth.as_deref().map(|truth| Truth::open(truth, queries.rows(), neighbors)).transpose()?;
    let mut ids_file = args.output.as_deref().map(|path| IdsFile::create(path, k)).transpose()?;

    let plan = args.effort.plan(&index, &args.index, k)?.with_beam_width(args.beam_width);
    let filter = args.filter.as_ref().map(|filter| index.plan_filter(filter)).transpose();
    let filter = filter.map_err(|error| Error::about(&args.index, &error))?;
    let threads = available_threads(args.threads);
    let parts = RowParts { text_ids: about.id_kind == IdKind::Text, payloads: args.payload };
    let mut output = Output::new();
    let mut totals = Totals::default();
    let mut searching = Duration::ZERO;
    while let Some(Chunk { ids: numbers, components }) = queries.next_chunk()? {
        let began = Instant::now();
        let mut answers = vec![(SearchResult::default(), ReadParts::default()); numbers.len()];
        let batch = Batch { queries: components, k, plan: &plan, filter: filter.as_ref(), threads, parts };
        let searched =
            index.search_batch(&batch, &mut |_| interrupt::poll(), &mut answers, |place, result, read| {
                *place = (result, read);
                Ok(())
            });
        searched.map_err(|(at, error)| Error::about_query(&args.index, (&args.queries, numbers[at]), error))?;
        searching += began.elapsed();
        for (&number, (result, read)) in numbers.iter().zip(&answers) {
            totals.add(number, result, truth.as_ref());
            match &mut ids_file {
                Some(file) => file.write(result)?,
                None if args.json => output.json(&report::query_line(number, result, read))?,
                None => report::print(&mut output, number, result, read)?,
            }
        }
    }
    if let Some(file) = ids_file {
        file.finish()?;
    }
    let summary = Summary::new(&totals, k, plan.options.as_ref(), threads, searching.as_secs_f64());
    if args.json {
        output.json(&report::SummaryLine { summary: &summary })?;
    }
    output.finish()?;
    if !args.json {
        say(format_args!("{summary}"));
    }
    Ok(())
}
