//! Logs that do not belong to the index beside them.

use super::*;

#[test]
fn a_log_of_another_index_is_not_applied() {
    let (storage, model) = new_index(10);
    let pages = open(&storage, &options());
    change(&pages, &model, &mut Random(12)).1.unwrap();
    drop(pages);
    let log = storage.content(Name::Log).unwrap();
    let other = MemStorage::default();
    let mut sink = StorageSink::create(Arc::new(other.clone()), *b"others").unwrap();
    (1..10).chain([0]).for_each(|page| sink.write(PageId(page), &body_of(page)).unwrap());
    sink.finish().unwrap();
    let index = other.content(Name::Index).unwrap();
    let both = MemStorage::with([(Name::Index, index), (Name::Log, log)]);
    expect_model(&open(&both, &OpenOptions::default()), &model);
    assert!(both.content(Name::Log).is_some(), "a reader removes nothing");
    let pages = open(&both, &options());
    let (model, result) = change(&pages, &model, &mut Random(13));
    result.unwrap();
    drop(pages);
    expect_model(&open(&both, &OpenOptions::default()), &model);
}

#[test]
fn an_index_older_than_its_log_is_refused_and_a_newer_one_needs_none() {
    let (storage, model) = new_index(10);
    let mut random = Random(14);
    let pages = open(&storage, &options());
    let old = storage.content(Name::Index).unwrap();
    let (model, _) = change(&pages, &model, &mut random);
    let old_log = storage.content(Name::Log).unwrap();
    pages.checkpoint().unwrap();
    let (model, _) = change(&pages, &model, &mut random);
    let mixed = MemStorage::with([(Name::Index, old), (Name::Log, storage.content(Name::Log).unwrap())]);
    let error = IndexFile::open_on(Arc::new(mixed), &options()).err().expect("an error");
    assert!(error.to_string().contains("older than its log"), "{error}");
    pages.close().unwrap();
    let mixed = MemStorage::with([(Name::Index, storage.content(Name::Index).unwrap()), (Name::Log, old_log)]);
    let pages = open(&mixed, &options());
    expect_model(&pages, &model);
    let (model, result) = change(&pages, &model, &mut random);
    result.unwrap();
    drop(pages);
    expect_model(&open(&mixed, &OpenOptions::default()), &model);
}
