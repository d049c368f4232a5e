//! Builds of more rows than memory has room for, compared with builds in memory.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::support::spilling::Spilling;
use crate::support::{Noise, Rows, built, embeddings, is_long, metrics, no_progress, options, recall};
use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, EachChunk, Error, IdKind, Index, Metric, PAGE_BYTES, PageId,
    Pages, SearchOptions, Value, VectorSource, Vectors, build, build_memory_bytes, build_memory_bytes_min,
};
use pagehop_sim::MemPages;

const DIM: usize = 192;

/// Rows that do not fit into the least memory for two threads, as the tests assert.
const COUNT: usize = 6_000;

/// Rows that do not fit into that memory in a build with one thread either.
const COUNT_ALONE: usize = 8_000;

fn rows() -> Rows {
    Rows::new(DIM, embeddings(DIM, COUNT, 1))
}

fn spill(source: &mut dyn VectorSource, options: &BuildOptions) -> Result<(MemPages, Spilling), Error> {
    let mut sink = Spilling::default();
    build(source, options, &mut sink, &mut no_progress())?;
    Ok((std::mem::take(&mut sink.pages), sink))
}

/// The least memory with which the rows can be built, as the error names it.
fn least(source: &mut dyn VectorSource, options: &BuildOptions) -> u64 {
    let little = BuildOptions { memory_bytes: 1 << 16, ..options.clone() };
    let Err(Error::Memory { needed_bytes, .. }) = spill(source, &little) else { panic!("64 KiB are enough") };
    needed_bytes.next_multiple_of(1 << 20)
}

/// Options with which the rows do not fit into memory.
fn small(source: &mut dyn VectorSource, options: &BuildOptions) -> BuildOptions {
    BuildOptions { memory_bytes: least(source, options), ..options.clone() }
}

fn spilled(rows: &Rows, options: &BuildOptions) -> MemPages {
    let (pages, sink) = spill(&mut rows.clone(), &small(&mut rows.clone(), options)).unwrap();
    assert!(sink.usage.written.get() > rows.values.len() as u64, "codes were not written to scratch files");
    assert_eq!(sink.usage.files.get(), 0, "scratch files are left");
    pages
}

#[test]
fn rows_beyond_memory_are_found_as_well_as_rows_within() {
    let queries = embeddings(DIM, 100, 2);
    let search = SearchOptions { search_list: 64, ..SearchOptions::default() };
    for metric in metrics() {
        let rows = rows();
        let within = Index::open(built(&rows, &options(metric)).unwrap()).unwrap();
        let beyond = Index::open(spilled(&rows, &options(metric))).unwrap();
        let report = beyond.check(&mut no_progress()).unwrap();
        assert_eq!([report.nodes, report.reachable, report.anchored], [COUNT as u64; 3]);
        let [a, b] = [&within, &beyond].map(|index| recall(index, &rows, metric, &queries, &search));
        println!("{metric:?}: in memory {a:?}, spilled {b:?}");
        assert!(b.0 > a.0 - 0.01, "{metric:?}: recall {} beyond memory, {} within", b.0, a.0);
        assert!(b.1 < a.1 * 1.1, "{metric:?}: {} pages beyond memory, {} within", b.1, a.1);
    }
}

#[test]
fn the_index_does_not_depend_on_threads_or_chunks() {
    let mut rows = Rows::new(DIM, embeddings(DIM, COUNT_ALONE, 1));
    let memory_bytes = least(&mut rows.clone(), &options(Metric::L2));
    assert!(memory_bytes < build_memory_bytes(COUNT_ALONE, DIM, 1), "the rows fit in memory");
    let bodies = |rows: &Rows, threads| {
        let options = BuildOptions { threads, memory_bytes, ..options(Metric::L2) };
        let (pages, _) = spill(&mut rows.clone(), &options).unwrap();
        (0..pages.page_count()).map(|page| pages.body(PageId(page)).to_vec()).collect::<Vec<_>>()
    };
    let one = bodies(&rows, 1);
    rows.chunk_rows = 777;
    assert!(one == bodies(&rows, 2), "two threads and other chunks gave another index");
}

#[test]
fn a_build_that_is_stopped_in_any_phase_leaves_no_file() {
    let rows = rows();
    let options = small(&mut rows.clone(), &options(Metric::L2));
    let mut phases = BTreeSet::new();
    let mut all = |progress: pagehop_engine::Progress| {
        assert!(progress.done <= progress.total || progress.total == 0, "{progress:?}");
        phases.insert(progress.phase);
        ControlFlow::Continue(())
    };
    build(&mut rows.clone(), &options, &mut Spilling::default(), &mut all).unwrap();
    let expected = [
        "read",
        "train",
        "encode",
        "spread",
        "partition",
        "connect",
        "prune",
        "refine",
        "merge",
        "reach",
        "anchor",
        "write",
    ];
    for phase in expected {
        assert!(phases.contains(phase), "no {phase} among {phases:?}");
    }
    let some = ["train", "spread", "partition", "refine", "write"];
    for stop in phases.into_iter().filter(|phase| is_long() || some.contains(phase)) {
        let mut sink = Spilling::default();
        let result = build(&mut rows.clone(), &options, &mut sink, &mut |progress| match progress.phase == stop {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        assert!(matches!(result, Err(Error::Interrupted)), "{stop}: {result:?}");
        assert_eq!(sink.usage.files.get(), 0, "{stop}: scratch files are left");
    }
}

#[test]
fn a_disk_that_is_full_or_too_small_is_an_error() {
    let rows = rows();
    let options = small(&mut rows.clone(), &options(Metric::L2));
    let (_, used) = spill(&mut rows.clone(), &options).unwrap();
    let written = used.usage.written.get();
    println!("{written} bytes written, {} read", used.usage.read.get());
    for most in [0, written / 4, written / 2, written - 1] {
        let mut sink = Spilling::default();
        sink.usage.most.set(Some(most));
        let result = build(&mut rows.clone(), &options, &mut sink, &mut no_progress());
        assert!(matches!(&result, Err(Error::Full { source: Some(_), .. })), "{most} bytes: {result:?}");
        assert_eq!(sink.usage.files.get(), 0, "{most} bytes: scratch files are left");
    }
    let mut sink = Spilling { free: Some(1 << 20), ..Spilling::default() };
    let needed = space_needed(&mut rows.clone(), &options, &mut sink);
    let mut sink = Spilling { free: Some(needed), ..Spilling::default() };
    build(&mut rows.clone(), &options, &mut sink, &mut no_progress()).unwrap();
    // An index that is built in memory needs disk space too.
    let options = self::options(Metric::L2);
    for (free, is_enough) in [(sink.pages.page_count() / 2, false), (sink.pages.page_count() * 2, true)] {
        let mut sink = Spilling { free: Some(u64::from(free) * PAGE_BYTES as u64), ..Spilling::default() };
        let result = build(&mut rows.clone(), &options, &mut sink, &mut no_progress());
        assert_eq!(result.is_ok(), is_enough, "{free} pages: {result:?}");
        assert_eq!(sink.usage.written.get(), 0);
    }
}

/// A piece is written and read at once, and pieces may be anywhere on a disk, so they must be
/// large.
#[test]
fn rows_are_spread_in_large_pieces() {
    let rows = rows();
    let options = small(&mut rows.clone(), &options(Metric::L2));
    let mut sink = Spilling::default();
    let usage = sink.usage.clone();
    let now = || (usage.written.get(), usage.appends.get());
    let (mut encoded, mut spread) = ((0, 0), (0, 0));
    build(&mut rows.clone(), &options, &mut sink, &mut |progress| {
        match progress.phase {
            "encode" => encoded = now(),
            "partition" if spread == (0, 0) => spread = now(),
            _ => {}
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let (bytes, pieces) = (spread.0 - encoded.0, spread.1 - encoded.1);
    println!("{bytes} bytes in {pieces} pieces");
    assert!(bytes > 2 * rows.values.len() as u64 && bytes / pieces > 40 << 10, "{bytes} bytes in {pieces} pieces");
}

/// The disk space that a build needs, in bytes. The build is refused because it has less.
fn space_needed(source: &mut dyn VectorSource, options: &BuildOptions, sink: &mut Spilling) -> u64 {
    let result = build(source, options, sink, &mut no_progress());
    let Err(Error::Full { what, source: Some(_) }) = result else { panic!("{result:?}") };
    assert!(what.contains(" MiB are free"), "{what}");
    assert_eq!((sink.usage.written.get(), sink.pages.page_count()), (0, 0), "something was written: {what}");
    let (_, needed) = what.split_once(" needs ").unwrap();
    needed.split(' ').next().unwrap().parse::<u64>().unwrap() << 20
}

/// The space that a build asks for is a little more than what files, kept work and pages take at
/// any time.
#[test]
fn the_disk_space_that_a_build_asks_for_is_what_it_takes() {
    let rows = rows();
    let payloads = (0..COUNT).map(|row| Some(vec![7; 300 + row % 100])).collect();
    let columns = ColumnRows::new(vec![Column { name: "topic".into(), kind: ColumnKind::Int }]).unwrap();
    let mut with_payloads = columns.clone();
    (0..COUNT).for_each(|row| with_payloads.push(&[Value::Int(row as i64 % 50)]).unwrap());
    let sources = [
        (ColumnRows::default(), Vectors::Codes, IdKind::Int, false),
        (ColumnRows::default(), Vectors::Codes, IdKind::Int, true),
        (ColumnRows::default(), Vectors::Float32, IdKind::Int, true),
        (ColumnRows::default(), Vectors::Codes, IdKind::HostOwned, false),
        (with_payloads.with_payloads(payloads), Vectors::Codes, IdKind::Int, true),
    ];
    // The first two ask for parts of what the others ask for.
    for (columns, vectors, id_kind, keeps) in sources.into_iter().skip(if is_long() { 0 } else { 2 }) {
        let mut source = WithColumns { rows: rows.clone(), columns, knows_rows: true };
        let options = BuildOptions { vectors, id_kind, ..options(Metric::L2) };
        let options = small(&mut source, &options);
        let kept = keeps.then(Default::default);
        let asked = |free| Spilling { free: Some(free), kept: kept.clone(), ..Spilling::default() };
        let needed = space_needed(&mut source, &options, &mut asked(1 << 20));
        let mut sink = asked(needed);
        build(&mut source, &options, &mut sink, &mut no_progress()).unwrap();
        let peak = sink.usage.peak.get();
        println!("{vectors:?}, {id_kind:?}, work kept: {keeps}: {peak} bytes of {needed}");
        assert!(peak <= needed, "{peak} bytes were taken, {needed} asked for");
        assert!(peak > needed / 4 * 3, "{peak} bytes were taken, {needed} asked for");
    }
}

/// Kept vectors take whole pages: a vector of 1,024 floats takes as many as one of 2,032.
#[test]
fn the_disk_space_asked_for_has_the_whole_pages_of_kept_vectors() {
    for (dim, vectors) in [(768, Vectors::Float32), (1024, Vectors::Float32), (1024, Vectors::Float16)] {
        let rows = Rows::new(dim, embeddings(dim, 400, 1));
        let mut source = WithColumns { rows, columns: ColumnRows::default(), knows_rows: true };
        let options = BuildOptions { vectors, ..options(Metric::L2) };
        let asked = |free| Spilling { free: Some(free), ..Spilling::default() };
        let needed = space_needed(&mut source, &options, &mut asked(1 << 20));
        let mut sink = asked(needed);
        build(&mut source, &options, &mut sink, &mut no_progress()).unwrap();
        let taken = u64::from(sink.pages.page_count()) * PAGE_BYTES as u64;
        assert!(taken <= needed && taken > needed / 2, "{dim}: {taken} bytes were taken, {needed} asked for");
    }
}

/// Pages may be on another disk than scratch files, and the work of a killed build takes its space
/// already.
#[test]
fn space_of_pages_and_of_kept_work_is_counted_once() {
    let rows = rows();
    let options = small(&mut rows.clone(), &options(Metric::L2));
    let plenty = 1 << 40;
    let elsewhere = |free, pages| Spilling { free: Some(free), free_of_pages: Some(pages), ..Spilling::default() };
    let [files, pages] = [elsewhere(1 << 20, plenty), elsewhere(plenty, 1 << 20)]
        .map(|mut sink| space_needed(&mut rows.clone(), &options, &mut sink));
    build(&mut rows.clone(), &options, &mut elsewhere(files, pages), &mut no_progress()).unwrap();
    let mut sink = Spilling { kept: Some(Default::default()), ..Spilling::default() };
    build(&mut rows.clone(), &options, &mut sink, &mut no_progress()).unwrap();
    let kept = sink.kept.unwrap();
    let bytes = kept.borrow().1.iter().map(Vec::len).sum::<usize>() as u64;
    let mut sink = Spilling { free: Some(1 << 20), kept: Some(Default::default()), ..Spilling::default() };
    let needed = space_needed(&mut rows.clone(), &options, &mut sink);
    let mut again = Spilling { free: Some(needed - bytes), kept: Some(kept), ..Spilling::default() };
    build(&mut rows.clone(), &options, &mut again, &mut no_progress()).unwrap();
}

/// If a source knows its number of rows, a build that has no room for them does not read it.
#[test]
fn what_has_no_room_is_refused_before_it_is_read() {
    struct Unread;
    impl VectorSource for Unread {
        fn dim(&self) -> usize {
            DIM
        }

        fn row_count(&self) -> Option<u64> {
            Some(1_000_000)
        }

        fn scan(&mut self, _: EachChunk<'_>) -> Result<(), Error> {
            panic!("the rows are read");
        }
    }
    let least = least(&mut Unread, &options(Metric::L2));
    assert_eq!(least, build_memory_bytes_min(1_000_000, DIM, 0, 2).next_multiple_of(1 << 20));
    let enough = BuildOptions { memory_bytes: least, ..options(Metric::L2) };
    let mut sink = Spilling { free: Some(1 << 20), ..Spilling::default() };
    let needed = space_needed(&mut Unread, &enough, &mut sink);
    assert!(needed > 500 << 20, "{needed} bytes for a million rows");
}

#[test]
fn memory_that_is_named_as_the_least_will_do() {
    let rows = rows();
    let least = least(&mut rows.clone(), &options(Metric::L2));
    let less = BuildOptions { memory_bytes: least - (1 << 20), ..options(Metric::L2) };
    assert!(matches!(spill(&mut rows.clone(), &less), Err(Error::Memory { .. })));
    assert!(least < build_memory_bytes(COUNT, DIM, 2), "{least}");
    let enough = BuildOptions { memory_bytes: build_memory_bytes(COUNT, DIM, 2), ..options(Metric::L2) };
    let (_, sink) = spill(&mut rows.clone(), &enough).unwrap();
    assert_eq!(sink.usage.written.get(), 0, "rows that fit in memory are not put aside");
}

#[test]
fn equal_rows_at_any_distance_are_found_and_hang_together() {
    let mut values = embeddings(DIM, COUNT, 3);
    // A third of the rows is one row, the rows of a pair are half of all rows apart, and some rows
    // are zero.
    for row in 0..COUNT {
        let from = match row {
            _ if row % 3 == 0 => 0,
            _ if row > COUNT / 2 => row - COUNT / 2,
            _ => continue,
        };
        values.copy_within(from * DIM..(from + 1) * DIM, row * DIM);
    }
    for row in [5, COUNT / 2 + 500, COUNT - 1] {
        values[row * DIM..(row + 1) * DIM].fill(0.0);
    }
    let rows = Rows::new(DIM, values);
    // Rows that are zero have no direction, so the cosine refuses them.
    for metric in metrics().filter(|metric| *metric != Metric::Cosine) {
        let index = Index::open(spilled(&rows, &options(metric))).unwrap();
        let report = index.check(&mut no_progress()).unwrap();
        assert_eq!([report.nodes, report.reachable, report.anchored], [COUNT as u64; 3]);
        let within = Index::open(built(&rows, &options(metric)).unwrap()).unwrap();
        assert_eq!(index.info().unwrap().rows, within.info().unwrap().rows);
    }
    let index = Index::open(spilled(&rows, &options(Metric::L2))).unwrap();
    let hits = index.search_with(rows.row(0), 50, &SearchOptions::default()).unwrap().hits;
    assert!(hits.len() == 50 && hits.iter().all(|hit| hit.distance < 1e-4), "{hits:?}");
    for row in [7, 1000, 3001] {
        let hits = index.search_with(rows.row(row), 2, &SearchOptions::default()).unwrap().hits;
        assert!(hits.iter().all(|hit| hit.distance < 1e-4), "{row}: {hits:?}");
    }
}

#[test]
fn rows_that_differ_in_one_component_are_separated() {
    let mut values = vec![1.0; COUNT * DIM];
    let mut noise = Noise(9);
    for row in 0..COUNT {
        values[row * DIM + row % DIM] += 0.02 * noise.unit();
    }
    let index = Index::open(spilled(&Rows::new(DIM, values), &options(Metric::L2))).unwrap();
    assert_eq!(index.check(&mut no_progress()).unwrap().reachable, COUNT as u64);
}

/// Under the inner product rows are separated by direction, and all of these have the same
/// direction.
#[test]
fn rows_that_no_center_separates_are_refused_with_the_memory_that_will_do() {
    let one = embeddings(DIM, 1, 9);
    let values = (0..COUNT).flat_map(|row| one.iter().map(move |x| x * (1.0 + row as f32 / 1000.0))).collect();
    let rows = Rows::new(DIM, values);
    let little = small(&mut rows.clone(), &options(Metric::InnerProduct));
    let Err(Error::Memory { needed_bytes, .. }) = spill(&mut rows.clone(), &little) else { panic!("they fit") };
    assert!(needed_bytes > little.memory_bytes);
    let enough = BuildOptions { memory_bytes: needed_bytes, ..little };
    let (pages, _) = spill(&mut rows.clone(), &enough).unwrap();
    let report = Index::open(pages).unwrap().check(&mut no_progress()).unwrap();
    assert_eq!([report.nodes, report.reachable, report.anchored], [COUNT as u64; 3]);
}

#[test]
fn an_id_that_repeats_is_named_with_its_rows() {
    let mut rows = rows();
    let options = small(&mut rows.clone(), &options(Metric::L2));
    let last = COUNT - 1;
    for (one, other) in [(0, last), (last - 1, last), (0, 1), (rows.chunk_rows - 1, rows.chunk_rows)] {
        let repeated = rows.ids[one];
        let before = std::mem::replace(&mut rows.ids[other], repeated);
        let result = spill(&mut rows.clone(), &options);
        let said = format!("id {repeated} is given to rows {one} and {other}; each row needs an id of its own");
        assert!(
            matches!(&result, Err(Error::Argument { what }) if what.reason == said),
            "{said}: {:?}",
            result.err()
        );
        rows.ids[other] = before;
    }
}

struct WithColumns {
    rows: Rows,
    columns: ColumnRows,
    knows_rows: bool,
}

impl VectorSource for WithColumns {
    fn dim(&self) -> usize {
        self.rows.dim
    }

    fn row_count(&self) -> Option<u64> {
        self.knows_rows.then_some(self.rows.ids.len() as u64)
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        self.rows.scan(each)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

#[test]
fn columns_and_kept_vectors_are_those_of_their_rows() {
    let rows = rows();
    let mut columns = ColumnRows::new(vec![Column { name: "topic".into(), kind: ColumnKind::Int }]).unwrap();
    (0..COUNT).for_each(|row| columns.push(&[Value::Int(row as i64 % 50)]).unwrap());
    for vectors in [Vectors::Float16, Vectors::Float32] {
        let mut source = WithColumns { rows: rows.clone(), columns: columns.clone(), knows_rows: false };
        let options = BuildOptions { vectors, ..options(Metric::L2) };
        let options = small(&mut source, &options);
        let (pages, sink) = spill(&mut source, &options).unwrap();
        assert!(sink.usage.written.get() > 0, "codes were not written to scratch files");
        let index = Index::open(pages).unwrap();
        index.check(&mut no_progress()).unwrap();
        if vectors == Vectors::Float32 {
            assert!(index.vectors(&rows.ids).unwrap() == rows.values, "the vectors are those that were given");
        }
    }
}

#[test]
fn rows_of_a_host_are_built_too() {
    let rows = rows();
    let host = BuildOptions { id_kind: IdKind::HostOwned, ..options(Metric::L2) };
    let index = Index::open(spilled(&rows, &host)).unwrap();
    assert_eq!(index.check(&mut no_progress()).unwrap().reachable, COUNT as u64);
}
