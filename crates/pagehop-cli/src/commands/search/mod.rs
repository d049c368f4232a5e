//! `pagehop search`: the nearest rows of every query of a file.

mod ids_file;
mod report;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pagehop_engine::{
    Batch, Error as EngineError, Filter, IdKind, Index, SearchResult, VectorSource, available_threads,
};
use pagehop_store::{IndexFile, OpenOptions};

use crate::arguments::{parse_beam_width, parse_cache, parse_filter, parse_k, parse_npy, parse_threads};
use crate::effort::EffortOptions;
use crate::errors::Error;
use crate::formats::{Chunk, Truth, Vectors};
use crate::index_file::refuse_same_file;
use crate::output::{Output, say};
use crate::queries::check_dim;
use crate::{index_file, interrupt};

use ids_file::IdsFile;
use report::{OfRows, Summary, Totals};

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
    let mut output = Output::new();
    let mut totals = Totals::default();
    let mut searching = Duration::ZERO;
    while let Some(Chunk { ids: numbers, components }) = queries.next_chunk()? {
        let began = Instant::now();
        let mut answers: Vec<Answer<'_>> = components.chunks_exact(about.dim).map(Answer::to).collect();
        let batch = Batch { queries: components, k, plan: &plan, filter: filter.as_ref(), threads };
        let write = |answer: &mut Answer<'_>, result| {
            let (mut first, query) = (Some(result), answer.query);
            let search = || match first.take() {
                Some(result) => Ok(result),
                None => index.searcher().answer(query, k, &plan, filter.as_ref()),
            };
            (answer.result, answer.of_rows) = with_rows(&index, search, about.id_kind, args.payload)?;
            Ok(())
        };
        let searched = index.search_batch(&batch, &mut |_| interrupt::poll(), &mut answers, write);
        searched.map_err(|(at, error)| about_query(args, numbers[at], &error))?;
        searching += began.elapsed();
        for (&number, Answer { result, of_rows, .. }) in numbers.iter().zip(&answers) {
            totals.add(number, result, truth.as_ref());
            match &mut ids_file {
                Some(file) => file.write(result)?,
                None if args.json => output.json(&report::query_line(number, result, of_rows))?,
                None => report::print(&mut output, number, result, of_rows)?,
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

/// A query, and what was found.
struct Answer<'q> {
    query: &'q [f32],
    result: SearchResult,
    of_rows: OfRows,
}

impl<'q> Answer<'q> {
    /// None yet.
    fn to(query: &'q [f32]) -> Self {
        Self { query, result: SearchResult::default(), of_rows: OfRows::default() }
    }
}

/// The result of `search`, the text ids of the rows that it found, if ids are texts, and their
/// payloads, if `wants_payloads`. Repeats the search while other processes replace these rows in
/// between.
///
/// # Errors
///
/// Those of `search` and of reading the index; [`Busy`](EngineError::Busy) if other processes
/// replace the rows too often.
fn with_rows(
    index: &Index<IndexFile>,
    search: impl FnMut() -> Result<SearchResult, EngineError>,
    id_kind: IdKind,
    wants_payloads: bool,
) -> Result<(SearchResult, OfRows), EngineError> {
    index.search_and(search, |result| {
        let mut of_rows = OfRows::default();
        if id_kind == IdKind::Text {
            let Some(ids) = index.text_ids_of(result)? else { return Ok(None) };
            of_rows.ids = Some(ids);
        }
        if wants_payloads {
            let Some(payloads) = index.payloads_of(result)? else { return Ok(None) };
            of_rows.payloads = Some(payloads);
        }
        Ok(Some(of_rows))
    })
}

fn about_query(args: &Args, number: u64, error: &pagehop_engine::Error) -> Error {
    match error {
        EngineError::Argument { what } => {
            Error::Use(format!("query {number} of {}: {what}", args.queries.display()))
        }
        _ => Error::about(&args.index, error),
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagehop_engine::{ColumnRows, CreateOptions, Effort};

    use super::*;

    #[test]
    fn rows_that_are_replaced_before_their_payloads_are_read_are_searched_for_again() {
        let folder = std::env::temp_dir().join(format!("pagehop-search-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("items");
        let options = CreateOptions { payload: true, id_kind: IdKind::Text, ..CreateOptions::default() };
        pagehop_store::create(&path, 1, &options, true).unwrap();
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        let index = pagehop_store::open(&path, &options).unwrap();
        let add = |number: u32| {
            let payload = ColumnRows::default().with_payloads(vec![Some(number.to_le_bytes().to_vec())]);
            let rows = (["row".to_string()], [number as f32]);
            let go_on = &mut |_| ControlFlow::Continue(());
            pagehop_store::add_with_columns(&index, &rows.0, &rows.1, Some(&payload), Default::default(), go_on)
                .unwrap();
        };
        add(0);
        let mut searches = 0;
        let search = || {
            let plan = index.options(1, &Effort::Default)?;
            let result = index.searcher().answer(&[0.0], 1, &plan, None);
            searches += 1;
            if searches < 4 {
                add(searches);
            }
            result
        };
        let (result, of_rows) = with_rows(&index, search, IdKind::Text, true).unwrap();
        assert_eq!((searches, result.hits[0].distance), (4, 9.0), "the last row is found");
        assert_eq!(of_rows.ids, Some(vec!["row".to_string()]));
        assert_eq!(of_rows.payloads, Some(vec![Some(vec![3, 0, 0, 0])]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
