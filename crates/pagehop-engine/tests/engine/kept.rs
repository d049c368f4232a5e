//! Kept vectors: distances and answers are those of the vectors that were given, after any changes,
//! and `vectors` returns them.

use std::collections::BTreeMap;

use crate::support::{Noise, Rows, built, distance, embeddings, no_progress, options};
use pagehop_engine::{
    Batch, BuildOptions, Column, ColumnKind, ColumnRows, CreateOptions, Effort, Error, Filter, IdKind, Index,
    Metric, RowParts, SearchOptions, SearchPlan, SearchResult, Value, Vectors, build, create,
};
use pagehop_sim::{Damage, MemPages, Rng, damage};

const METRICS: [Metric; 3] = [Metric::L2, Metric::InnerProduct, Metric::Cosine];
const KEPT: [Vectors; 2] = [Vectors::Float16, Vectors::Float32];
/// A search to the end.
const TO_THE_END: SearchOptions = SearchOptions { search_list: 2000, slack: f32::INFINITY, beam_width: 8 };

fn keeping(metric: Metric, vectors: Vectors) -> BuildOptions {
    BuildOptions { vectors, ..options(metric) }
}

/// The nearest half-precision number, found by trying its neighbors.
fn half(x: f32) -> f32 {
    let step = f64::from(2f32.powi((x.abs().log2().floor() as i32).max(-14) - 10));
    let mut rounded = (f64::from(x) / step).round();
    if (f64::from(x) / step - rounded).abs() == 0.5 && rounded % 2.0 != 0.0 {
        rounded -= f64::from(x).signum();
    }
    (rounded * step) as f32
}

fn as_kept(vectors: Vectors, row: &[f32]) -> Vec<f32> {
    match vectors {
        Vectors::Float16 => row.iter().map(|x| half(*x)).collect(),
        _ => row.to_vec(),
    }
}

/// Compares hits with brute force over `rows`: the nearest rows, in their order.
#[track_caller]
fn expect_nearest(hits: &[pagehop_engine::Hit], rows: &BTreeMap<u64, Vec<f32>>, metric: Metric, query: &[f32]) {
    let mut all: Vec<(f64, u64)> = rows.iter().map(|(id, row)| (distance(metric, query, row), *id)).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let scale = all.last().unwrap().0.abs() + 1.0;
    for (hit, (expected, _)) in hits.iter().zip(&all) {
        assert!((f64::from(hit.distance) - expected).abs() < 1e-5 * scale, "{hit:?}, expected {expected}");
        let own = distance(metric, query, &rows[&hit.row_id]);
        assert!((f64::from(hit.distance) - own).abs() < 1e-5 * scale, "{hit:?}, its own distance is {own}");
    }
}

#[track_caller]
fn expect_sound(pages: &MemPages, rows: &BTreeMap<u64, Vec<f32>>, metric: Metric, seed: u64) {
    let index = Index::open(pages).unwrap();
    index.check(&mut no_progress()).unwrap();
    let ids: Vec<u64> = rows.keys().copied().collect();
    let given: Vec<f32> = rows.values().flatten().copied().collect();
    assert!(index.vectors(&ids).unwrap() == given, "the vectors are those that were given");
    let dim = index.info().unwrap().dim;
    for query in embeddings(dim, 5, seed).chunks_exact(dim) {
        let k = 7.min(rows.len());
        let hits = index.search_with(query, k, &TO_THE_END).unwrap().hits;
        assert_eq!(hits.len(), k);
        expect_nearest(&hits, rows, metric, query);
        let exact = &index.search_exactly(query, k, 1, &mut no_progress()).unwrap()[0];
        assert_eq!(exact.hits.len(), k);
        expect_nearest(&exact.hits, rows, metric, query);
    }
}

#[test]
fn a_build_keeps_what_was_given() {
    for metric in METRICS {
        for vectors in KEPT {
            for dim in [3, 40, 100] {
                let rows = Rows::new(dim, embeddings(dim, 700, 5));
                let pages = built(&rows, &keeping(metric, vectors)).unwrap();
                let index = Index::open(&pages).unwrap();
                assert_eq!(index.info().unwrap().vectors, vectors);
                let kept = rows.ids.iter().enumerate().map(|(i, id)| (*id, as_kept(vectors, rows.row(i))));
                expect_sound(&pages, &kept.collect(), metric, 9);
            }
        }
    }
}

#[test]
fn long_vectors_take_several_pages() {
    for (vectors, dim) in [(Vectors::Float32, 4096), (Vectors::Float16, 4096), (Vectors::Float32, 2033)] {
        let rows = Rows::new(dim, embeddings(dim, 30, 5));
        let mut pages = built(&rows, &keeping(Metric::L2, vectors)).unwrap();
        let mut kept: BTreeMap<u64, Vec<f32>> =
            rows.ids.iter().enumerate().map(|(i, id)| (*id, as_kept(vectors, rows.row(i)))).collect();
        expect_sound(&pages, &kept, Metric::L2, 9);
        let more = embeddings(dim, 20, 6);
        let ids: Vec<u64> = (0..20).collect();
        commit(&mut pages, |change| change.add(&ids, &more, None, &mut no_progress()).map(drop));
        kept.extend(ids.iter().zip(more.chunks_exact(dim)).map(|(id, row)| (*id, as_kept(vectors, row))));
        expect_sound(&pages, &kept, Metric::L2, 9);
    }
}

#[test]
fn little_memory_scans_the_source_more_often_and_gives_the_same() {
    let rows = Rows::new(64, embeddings(64, 3000, 5));
    let all = built(&rows, &keeping(Metric::L2, Vectors::Float32)).unwrap();
    let mut bytes = 1 << 20;
    let little = loop {
        let options = BuildOptions { memory_bytes: bytes, ..keeping(Metric::L2, Vectors::Float32) };
        match built(&rows, &options) {
            Ok(pages) => break pages,
            Err(Error::Memory { .. }) => bytes += 1 << 16,
            Err(error) => panic!("{error}"),
        }
    };
    use pagehop_engine::{PageId, Pages};
    assert_eq!(all.page_count(), little.page_count());
    assert!((0..all.page_count()).all(|page| all.body(PageId(page)) == little.body(PageId(page))));
}

type Writer<'w> = pagehop_sim::MemWriter<'w>;

fn commit(
    pages: &mut MemPages,
    make: impl FnOnce(&mut pagehop_engine::Change<'_, Writer<'_>>) -> Result<(), Error>,
) {
    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let mut change = known.change(&mut writer).unwrap();
    make(&mut change).unwrap();
    change.finish().unwrap();
    writer.commit();
}

#[test]
fn changes_keep_vectors_in_step() {
    let dim = 48;
    for (metric, vectors) in METRICS.into_iter().flat_map(|metric| KEPT.map(|vectors| (metric, vectors))) {
        let mut pages = MemPages::new();
        create(dim, &CreateOptions { metric, vectors, ..CreateOptions::default() }, &mut pages).unwrap();
        let mut rows: BTreeMap<u64, Vec<f32>> = BTreeMap::new();
        let mut noise = Noise(3);
        for round in 0..14u64 {
            let count = [1, 3, 40, 200, 30][round as usize % 5];
            let ids: Vec<u64> = (0..count).map(|_| noise.next() % 300).collect();
            let more = embeddings(dim, count as usize, 100 + round);
            commit(&mut pages, |change| change.add(&ids, &more, None, &mut no_progress()).map(drop));
            rows.extend(ids.iter().zip(more.chunks_exact(dim)).map(|(id, row)| (*id, as_kept(vectors, row))));
            expect_sound(&pages, &rows, metric, round);
            if round % 3 == 1 {
                let gone: Vec<u64> = rows.keys().copied().filter(|_| noise.next().is_multiple_of(3)).collect();
                let mut taken = Vec::new();
                commit(&mut pages, |change| {
                    taken = change.pop(&gone)?;
                    Ok(())
                });
                assert!(gone.iter().flat_map(|id| &rows[id]).eq(&taken), "the vectors are those that were given");
                rows.retain(|id, _| !gone.contains(id));
                for _ in 0..3 {
                    commit(&mut pages, |change| change.vacuum(1000, &mut no_progress()).map(drop));
                }
            }
            if round % 6 == 5 {
                commit(&mut pages, |change| change.train(&mut no_progress()));
            }
            if !rows.is_empty() {
                expect_sound(&pages, &rows, metric, round);
            }
        }
    }
}

#[test]
fn a_row_whose_code_is_the_same_is_replaced_if_its_vector_differs() {
    let rows = Rows::new(64, embeddings(64, 400, 5));
    let mut pages = built(&rows, &keeping(Metric::L2, Vectors::Float32)).unwrap();
    let mut row = rows.row(3).to_vec();
    let mut report = None;
    commit(&mut pages, |change| {
        report = Some(change.add(&rows.ids[3..4], &row, None, &mut no_progress())?);
        Ok(())
    });
    assert_eq!(report.take().unwrap().unchanged, 1);
    row[0] = f32::from_bits(row[0].to_bits() + 1);
    commit(&mut pages, |change| {
        report = Some(change.add(&rows.ids[3..4], &row, None, &mut no_progress())?);
        Ok(())
    });
    assert_eq!(report.unwrap().replaced, 1);
    assert!(Index::open(&pages).unwrap().vectors(&rows.ids[3..4]).unwrap() == row);
}

#[test]
fn other_values_of_columns_leave_vectors_as_they_are_and_filters_rank_by_them() {
    let (dim, columns) = (40, vec![Column { name: "n".into(), kind: ColumnKind::Int }]);
    let mut pages = MemPages::new();
    create(
        dim,
        &CreateOptions { vectors: Vectors::Float32, columns: columns.to_vec(), ..CreateOptions::default() },
        &mut pages,
    )
    .unwrap();
    let (ids, vectors): (Vec<u64>, _) = ((0..300).collect(), embeddings(dim, 300, 5));
    let values = |of: fn(u64) -> i64, ids: &[u64]| {
        let mut packed = ColumnRows::new(columns.clone()).unwrap();
        ids.iter().for_each(|id| packed.push(&[Value::Int(of(*id))]).unwrap());
        packed
    };
    commit(&mut pages, |change| {
        change.add(&ids, &vectors, Some(&values(|_| 0, &ids)), &mut no_progress()).map(drop)
    });
    commit(&mut pages, |change| change.update_columns(&ids, &values(|id| (id % 3) as i64, &ids)).map(drop));
    commit(&mut pages, |change| change.vacuum(1000, &mut no_progress()).map(drop));
    let all = ids.iter().copied().zip(vectors.chunks_exact(dim).map(<[f32]>::to_vec));
    let rows: BTreeMap<u64, Vec<f32>> = all.collect();
    expect_sound(&pages, &rows, Metric::L2, 4);
    let index = Index::open(&pages).unwrap();
    let filter = Filter::In("n".into(), vec![Value::Int(1)]);
    let passing = rows.into_iter().filter(|row| row.0 % 3 == 1).collect();
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(&filter).unwrap();
    for options in [None, Some(TO_THE_END)] {
        let query = embeddings(dim, 1, 77);
        let how = options.clone().map_or_else(SearchPlan::exact, SearchPlan::from);
        let hits = searcher.answer(&query, 9, &how, Some(&plan)).unwrap().hits;
        assert_eq!(hits.len(), 9);
        expect_nearest(&hits, &passing, Metric::L2, &query);
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let mut rows = Rows::new(4, embeddings(4, 20, 5));
    rows.values[4 * 7 + 2] = 70_000.0;
    let refused = built(&rows, &keeping(Metric::L2, Vectors::Float16)).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("row 7 (id 1000000056): component 2 is 70000, float16 holds up to 65504"),
        "{refused}"
    );
    built(&rows, &keeping(Metric::L2, Vectors::Float32)).unwrap();
    let hosted = BuildOptions { id_kind: IdKind::HostOwned, ..keeping(Metric::L2, Vectors::Float32) };
    let refused = build(&mut rows, &hosted, &mut MemPages::new(), &mut no_progress()).unwrap_err().to_string();
    assert!(refused.contains("the host of this index has its vectors"), "{refused}");
    let refused = "half".parse::<Vectors>().unwrap_err().to_string();
    assert!(refused.contains("'half' is not one of codes, float16, float32"), "{refused}");
}

#[test]
fn damaged_pages_of_vectors_are_found_by_check_and_cause_no_panic() {
    use pagehop_engine::{PageId, Pages};
    let rows = Rows::new(64, embeddings(64, 300, 5));
    let sound = built(&rows, &keeping(Metric::L2, Vectors::Float32)).unwrap();
    let of_kind = |kind| {
        let all = (0..sound.page_count()).map(PageId);
        all.filter(|page| sound.body(*page)[0] == kind).collect::<Vec<_>>()
    };
    let (vectors, nodes) = (of_kind(10), of_kind(2));
    assert!(vectors.len() > 5);
    let damages = [Damage::Byte, Damage::Run, Damage::Tail, Damage::Swapped, Damage::Noise];
    let mut found = 0;
    for seed in 0..300 {
        let (mut rng, mut pages) = (Rng::new(seed), sound.clone());
        let other = sound.body(vectors[rng.below(vectors.len())]).to_vec();
        let how = damages[rng.below(damages.len())];
        match rng.one_in(3) {
            // Damages the places of vectors that a page of nodes names.
            true => damage(
                &mut pages.body_mut(nodes[rng.below(nodes.len())])[8..14],
                how,
                Some(&other[40..46]),
                &mut rng,
            ),
            false => damage(pages.body_mut(vectors[rng.below(vectors.len())]), how, Some(&other), &mut rng),
        }
        let index = Index::open(&pages).unwrap();
        for query in embeddings(64, 3, seed).chunks_exact(64) {
            let result = index.search_with(query, 10, &SearchOptions::default());
            assert!(!matches!(result, Err(ref error) if !matches!(error, Error::Corrupt { .. })), "{result:?}");
        }
        let read = index.vectors(&rows.ids);
        assert!(!matches!(read, Err(ref error) if !matches!(error, Error::Corrupt { .. } | Error::Busy { .. })));
        match index.check(&mut no_progress()) {
            Err(Error::Corrupt { .. }) => found += 1,
            Err(error) => panic!("seed {seed}: {error}"),
            Ok(_) => {}
        }
    }
    assert!(found > 200, "check found {found} of 300");
}

/// Pairs of rows that differ by much less than codes can show.
fn near_duplicates(dim: usize, pairs: usize) -> Rows {
    let (all, noise) = (embeddings(dim, pairs, 5), embeddings(dim, pairs, 6));
    let twins = all.chunks_exact(dim).zip(noise.chunks_exact(dim)).flat_map(|(row, off)| {
        let near: Vec<f32> = row.iter().zip(off).map(|(x, off)| x + 1e-4 * off).collect();
        [row.to_vec(), near].concat()
    });
    Rows::new(dim, twins.collect())
}

/// The share of the true `k` nearest rows that searches find when they expand the whole list.
fn recall(rows: &Rows, vectors: Vectors, metric: Metric, k: usize) -> f64 {
    let dim = rows.dim;
    let pages = built(rows, &keeping(metric, vectors)).unwrap();
    let index = Index::open(&pages).unwrap();
    let (mut found, mut wanted) = (0, 0);
    for query in embeddings(dim, 200, 9).chunks_exact(dim) {
        let mut truth: Vec<(f64, u64)> =
            rows.ids.iter().enumerate().map(|(i, id)| (distance(metric, query, rows.row(i)), *id)).collect();
        truth.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let hits = index.search_with(query, k, &TO_THE_END).unwrap().hits;
        found += truth[..k].iter().filter(|(_, id)| hits.iter().any(|hit| hit.row_id == *id)).count();
        wanted += k;
    }
    found as f64 / wanted as f64
}

#[test]
fn recall_is_that_of_the_vectors_and_not_of_codes() {
    let rows = near_duplicates(64, 750);
    for metric in METRICS {
        // An odd k separates the two rows of a pair.
        let (codes, kept) = (recall(&rows, Vectors::Codes, metric, 5), recall(&rows, Vectors::Float32, metric, 5));
        assert!(codes < 0.98, "{metric:?}: codes find {codes}");
        assert!(kept >= 0.9995, "{metric:?}: vectors find {kept}");
    }
}

#[test]
fn a_search_reads_at_most_a_page_for_each_of_its_rows_and_two_more() {
    let dim = 256;
    let rows = Rows::new(dim, embeddings(dim, 3000, 5));
    let codes = built(&rows, &options(Metric::L2)).unwrap();
    let kept = built(&rows, &keeping(Metric::L2, Vectors::Float32)).unwrap();
    let (codes, kept) = (Index::open(&codes).unwrap(), Index::open(&kept).unwrap());
    let searches = SearchOptions { search_list: 60, ..SearchOptions::default() };
    for k in [1, 10, 30] {
        let mut pages = 0;
        for query in embeddings(dim, 50, 9).chunks_exact(dim) {
            let with = kept.search_with(query, k, &searches).unwrap().stats;
            let without = codes.search_with(query, k, &searches).unwrap().stats;
            assert_eq!(with.hops, without.hops, "vectors change no walk");
            let more = with.pages_read - without.pages_read;
            assert!((1..=k as u64 + 2).contains(&more), "{more} more pages for k {k}");
            pages += more;
        }
        assert!(pages <= 50 * k as u64, "{pages} more pages for 50 queries, k {k}");
    }
}

#[test]
fn batches_answer_as_single_searches_do() {
    let dim = 48;
    let rows = Rows::new(dim, embeddings(dim, 900, 5));
    let pages = built(&rows, &keeping(Metric::Cosine, Vectors::Float16)).unwrap();
    let index = Index::open(&pages).unwrap();
    let queries = embeddings(dim, 40, 9);
    let plan = index.options(6, &Effort::Settings { search_list: Some(40), slack: None }).unwrap();
    let batch =
        Batch { queries: &queries, k: 6, plan: &plan, filter: None, threads: 2, parts: RowParts::default() };
    let mut results = vec![SearchResult::default(); 40];
    let write = |place: &mut SearchResult, result, _| {
        *place = result;
        Ok(())
    };
    index.search_batch(&batch, &mut no_progress(), &mut results, write).unwrap();
    for (query, result) in queries.chunks_exact(dim).zip(&results) {
        assert_eq!(result.hits, index.search_with(query, 6, plan.options.as_ref().unwrap()).unwrap().hits);
    }
}

#[test]
fn codes_alone_take_no_byte_for_vectors() {
    use pagehop_engine::{PageId, Pages};
    let rows = Rows::new(40, embeddings(40, 300, 5));
    let mut pages = built(&rows, &options(Metric::L2)).unwrap();
    commit(&mut pages, |change| change.add(&[1, 2, 3], &rows.values[..120], None, &mut no_progress()).map(drop));
    for page in (0..pages.page_count()).map(PageId) {
        let body = pages.body(page);
        assert!(body[0] != 10, "{page:?} has vectors");
        assert!(body[0] != 2 || body[8..14] == [0; 6], "{page:?} names a place");
        assert!(page.0 > 0 || body[61] == 0 && body[200..208] == [0; 8]);
    }
}
