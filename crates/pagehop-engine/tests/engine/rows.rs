//! Rows by their ids: which ids exist, and their vectors, also while a transaction takes rows out.

use std::collections::BTreeMap;

use crate::support::{Noise, change, embeddings, no_progress};
use pagehop_engine::{CreateOptions, Error, IdKind, Index, Metric, create};
use pagehop_sim::MemPages;

const DIM: usize = 40;

/// An index of `rows`, which are added in an order that splits the map in many places.
fn filled(metric: Metric, rows: &BTreeMap<u64, Vec<f32>>) -> MemPages {
    let mut pages = MemPages::new();
    create(DIM, &CreateOptions { metric, ..CreateOptions::default() }, &mut pages).unwrap();
    let mut ids: Vec<u64> = rows.keys().copied().collect();
    ids.sort_by_key(|id| id.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for ids in ids.chunks(500) {
        let vectors: Vec<f32> = ids.iter().flat_map(|id| rows[id].iter().copied()).collect();
        change(&mut pages, |change| change.add(ids, &vectors, None, &mut no_progress()).unwrap());
    }
    pages
}

fn rows(count: usize) -> BTreeMap<u64, Vec<f32>> {
    let mut noise = Noise(3);
    let values = embeddings(DIM, count, 5);
    let ids = [0, u64::MAX, u64::MAX - 1, 1].into_iter().chain(std::iter::repeat_with(move || noise.next() >> 9));
    ids.zip(values.chunks(DIM).map(<[f32]>::to_vec)).collect()
}

#[test]
fn every_id_comes_once_and_in_order_whatever_the_count() {
    let rows = rows(2500);
    let pages = filled(Metric::L2, &rows);
    let index = Index::open(&pages).unwrap();
    for count in [1, 7, 610, 100_000] {
        let (mut all, mut first) = (Vec::<u64>::new(), 0);
        while all.len() < rows.len() {
            let ids = index.ids(first, count).unwrap();
            assert!(!ids.is_empty() && ids.len() <= count);
            all.extend(&ids);
            let Some(next) = ids[ids.len() - 1].checked_add(1) else { break };
            first = next;
        }
        assert!(all.iter().eq(rows.keys()), "{count}");
    }
    assert!(index.ids(5, 0).unwrap().is_empty());
    for id in rows.keys() {
        assert!(index.contains(*id).unwrap());
        assert_eq!(index.contains(id ^ 0x5000).unwrap(), rows.contains_key(&(id ^ 0x5000)));
    }
}

#[test]
fn vectors_are_those_that_were_added_but_for_the_rounding_that_is_documented() {
    for metric in [Metric::L2, Metric::Cosine, Metric::InnerProduct] {
        let rows = rows(1500);
        let pages = filled(metric, &rows);
        let index = Index::open(&pages).unwrap();
        let mut ids: Vec<u64> = rows.keys().copied().rev().collect();
        ids.extend([0, 0, 1]);
        let vectors = index.vectors(&ids).unwrap();
        for (id, found) in ids.iter().zip(vectors.chunks(DIM)) {
            let length = rows[id].iter().map(|x| x * x).sum::<f32>().sqrt();
            let scale = if metric == Metric::Cosine { 1.0 / length } else { 1.0 };
            let off = found.iter().zip(&rows[id]).map(|(a, b)| (a - b * scale).powi(2)).sum::<f32>().sqrt();
            assert!(off < length * scale / 500.0, "{metric:?} id {id}: off by {off} of {length}");
        }
    }
}

#[test]
fn unknown_ids_are_named_and_what_is_taken_is_gone() {
    let rows = rows(300);
    let mut pages = filled(Metric::L2, &rows);
    let ids: Vec<u64> = rows.keys().copied().take(20).collect();
    let before = Index::open(&pages).unwrap().vectors(&ids).unwrap();
    let unknown: Vec<u64> = (2..15).chain([ids[3]]).collect();
    let error = Index::open(&pages).unwrap().vectors(&unknown).unwrap_err();
    assert!(
        matches!(&error, Error::Argument { what } if what.reason == "2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more are not in the index"),
        "{error}"
    );

    let known = Index::open(pages.clone()).unwrap();
    let mut writer = pages.writer();
    let error = known.change(&mut writer).unwrap().pop(&[ids[0], 7]).unwrap_err();
    assert!(error.to_string().contains("7 is not in the index"), "{error}");
    drop(writer);

    let mut twice = ids.clone();
    twice.push(ids[0]);
    let taken = change(&mut pages, |change| change.pop(&twice).unwrap());
    assert_eq!(taken[..20 * DIM], before);
    assert_eq!(taken[20 * DIM..], before[..DIM]);
    let index = Index::open(&pages).unwrap();
    assert!(index.ids(0, 1000).unwrap().iter().eq(rows.keys().skip(20)));
    assert!(index.vectors(&ids[..1]).is_err() && !index.contains(ids[0]).unwrap());
    index.check(&mut no_progress()).unwrap();
}

#[test]
fn an_empty_index_has_no_ids_and_a_host_keeps_its_own() {
    let mut pages = MemPages::new();
    create(DIM, &CreateOptions::default(), &mut pages).unwrap();
    let index = Index::open(&pages).unwrap();
    assert!(index.ids(0, 10).unwrap().is_empty() && !index.contains(0).unwrap());
    assert!(index.vectors::<u64>(&[]).unwrap().is_empty());
    let mut pages = MemPages::new();
    create(DIM, &CreateOptions { id_kind: IdKind::HostOwned, ..CreateOptions::default() }, &mut pages).unwrap();
    let index = Index::open(&pages).unwrap();
    assert!(matches!(index.ids(0, 10), Err(Error::Argument { .. })));
    assert!(matches!(index.vectors(&[1]), Err(Error::Argument { .. })));
}
