//! Damage on the pages of columns and payloads: the page of names, the leaves of postings, the
//! pages above them, records, and parts of long payloads. Searches with filters, reads of payloads,
//! checks and changes end with an error, or with an answer whose rows all pass. Records have tags
//! and, for every second seed, ids that are texts.
//!
//! `PAGEHOP_SIM_SEED=123` replays one seed. `PAGEHOP_SIM_SEEDS=100000` runs that number of seeds.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pagehop_engine::page::Pages;
use pagehop_engine::{
    BuildOptions, Column, ColumnKind, ColumnRows, Comparison, EachChunk, Error, Filter, IdKind, Index, PageId,
    RowId, SearchOptions, SearchPlan, Value, VectorSource, build,
};
use pagehop_sim::{Damage, MemPages, Rng, damage};

const DIM: usize = 64;
const ROWS: u64 = 700;
/// The kinds of pages that are damaged; a kind is the first byte of a page.
const KINDS: [u8; 5] = [7, 8, 9, 11, 12];
const DAMAGES: [Damage; 6] = [Damage::Bit, Damage::Byte, Damage::Run, Damage::Tail, Damage::Swapped, Damage::Noise];
/// Bytes at the front of a body, on which most depends: its kind, its count and its first entries.
const FRONT_BYTES: usize = 80;
/// Number of seeds without `PAGEHOP_SIM_SEEDS`.
const SEEDS: u64 = 400;
/// Two seeds in this number make changes, because changes take longer than all searches.
const CHANGES_TWO_IN: u64 = 16;

struct Rows {
    ids: Vec<u64>,
    texts: Vec<String>,
    /// Whether the ids of an index of these rows are texts.
    are_texts: bool,
    components: Vec<f32>,
    columns: ColumnRows,
}

/// The values of a row follow from its id.
fn values(id: u64) -> [Value; 3] {
    let n = if id.is_multiple_of(11) { Value::Null } else { Value::Int((id % 7) as i64) };
    let mut tags = vec![format!("tag {}", id % 5), format!("other {}", id % 3), "all".to_owned()];
    tags.truncate((id % 4) as usize);
    [n, Value::Text(format!("text {}", id % 5)), Value::Tags(tags)]
}

fn text(id: u64) -> String {
    format!("id {id}")
}

/// The payload of a row. Some rows have none, and some have one of several pages.
fn payload(id: u64) -> Option<Vec<u8>> {
    let length = if id % 40 == 7 { 20_000 + id } else { id };
    (!id.is_multiple_of(9)).then(|| vec![id as u8; length as usize])
}

fn packed(ids: &[u64]) -> ColumnRows {
    let column = |name: &str, kind| Column { name: name.into(), kind };
    let columns = vec![column("n", ColumnKind::Int), column("t", ColumnKind::Text), column("g", ColumnKind::Tags)];
    let mut packed = ColumnRows::new(columns).unwrap();
    ids.iter().for_each(|id| packed.push(&values(*id)).unwrap());
    packed.with_payloads(ids.iter().map(|id| payload(*id)).collect())
}

fn rows(ids: std::ops::Range<u64>, are_texts: bool) -> Rows {
    let mut rng = Rng::new(ids.start);
    let ids: Vec<u64> = ids.collect();
    let components = (0..ids.len() * DIM).map(|_| rng.below(1 << 20) as f32 / (1 << 20) as f32 - 0.5).collect();
    let columns = packed(&ids);
    let texts = ids.iter().map(|id| text(*id)).collect();
    Rows { ids, texts, are_texts, components, columns }
}

impl VectorSource for Rows {
    fn dim(&self) -> usize {
        DIM
    }

    fn scan(&mut self, each: EachChunk<'_>) -> Result<(), Error> {
        each(&self.ids, &self.components)
    }

    fn text_ids(&self) -> Option<&[String]> {
        self.are_texts.then_some(&*self.texts)
    }

    fn columns(&self) -> Option<&ColumnRows> {
        Some(&self.columns)
    }
}

fn compare(name: &str, comparison: Comparison, value: Value) -> Filter {
    Filter::Compare(name.into(), comparison, value)
}

/// A filter, and whether it passes the row with an id.
type Expected = (Filter, fn(u64) -> bool);

fn filters() -> Vec<Expected> {
    let n = |comparison, number| compare("n", comparison, Value::Int(number));
    let text = || compare("t", Comparison::Equal, Value::Text("text 3".into()));
    let tag = |tag: &str| Filter::ContainsAny("g".into(), vec![tag.into()]);
    vec![
        (n(Comparison::Equal, 2), |id| !id.is_multiple_of(11) && id % 7 == 2),
        (n(Comparison::Less, 5), |id| !id.is_multiple_of(11) && id % 7 < 5),
        (Filter::IsNull("n".into()), |id| id.is_multiple_of(11)),
        (text(), |id| id % 5 == 3),
        (Filter::And(vec![n(Comparison::GreaterOrEqual, 6), text()]), |id| {
            !id.is_multiple_of(11) && id % 7 == 6 && id % 5 == 3
        }),
        (Filter::Or(vec![n(Comparison::Equal, 1), Filter::Ids(vec![5, 700])]), |id| {
            !id.is_multiple_of(11) && id % 7 == 1 || id == 5
        }),
        (tag("tag 3"), |id| id % 4 > 0 && id % 5 == 3),
        (tag("all"), |id| id % 4 == 3),
        (Filter::And(vec![tag("tag 1"), tag("other 2")]), |id| id % 4 > 1 && id % 5 == 1 && id % 3 == 2),
        (Filter::Not(Box::new(tag("other 0"))), |id| id % 4 < 2 || id % 3 != 0),
    ]
}

/// Damages one or two pages of columns. Returns the pages and what was done; `None` if nothing
/// changed.
fn damaged(sound: &MemPages, seed: u64) -> Option<(MemPages, String)> {
    let mut rng = Rng::new(seed);
    let mut pages = sound.clone();
    let mut done = String::new();
    for _ in 0..1 + rng.below(2) {
        // Each kind is chosen equally often, although there are one, a few or many pages of it.
        let kind = KINDS[rng.below(KINDS.len())];
        let all = (0..pages.page_count()).map(PageId);
        let of_kind: Vec<PageId> = all.filter(|page| sound.body(*page)[0] == kind).collect();
        let page = of_kind[rng.below(of_kind.len())];
        let other = sound.body(PageId(rng.below(pages.page_count() as usize) as u32)).to_vec();
        let how = DAMAGES[rng.below(DAMAGES.len())];
        let body = pages.body_mut(page);
        match rng.one_in(2) {
            true => damage(&mut body[..FRONT_BYTES], how, Some(&other[..FRONT_BYTES]), &mut rng),
            false => damage(body, how, Some(&other), &mut rng),
        }
        done += &format!("page {} of kind {kind}: {how:?}; ", page.0);
    }
    let is_damaged = (0..pages.page_count()).any(|page| pages.body(PageId(page)) != sound.body(PageId(page)));
    is_damaged.then_some((pages, done))
}

/// Returns `Ok(false)` if damage may cause this error.
fn acceptable(error: &Error) -> Result<bool, String> {
    match error {
        Error::Corrupt { .. } | Error::Format { .. } => Ok(false),
        // Because of the damage, a column has another name or kind, or a record another text.
        Error::Argument { what } if ["column", "kind", "\"id "].iter().any(|word| what.reason.contains(word)) => {
            Ok(false)
        }
        error => Err(format!("unexpected error: {error:?}")),
    }
}

/// Searches and checks, and makes changes if `also_changes`. Returns whether no error occurred.
fn try_all(pages: MemPages, also_changes: bool) -> Result<bool, String> {
    let mut whole = true;
    match Index::open(&pages) {
        Err(error) => return acceptable(&error),
        Ok(index) => {
            let are_texts = index.info().is_ok_and(|info| info.id_kind == IdKind::Text);
            let checked = index.check(&mut |_| ControlFlow::Continue(()));
            for (filter, passes) in filters() {
                let filter = if are_texts { with_texts(filter) } else { filter };
                for options in [None, Some(SearchOptions::default())] {
                    match search(&index, &filter, options.as_ref()) {
                        Err(error) => whole &= acceptable(&error)?,
                        // The nodes are sound, and columns that were exchanged do not look damaged.
                        Ok(ids) => {
                            let mut distinct = ids.clone();
                            distinct.sort_unstable();
                            distinct.dedup();
                            let wrong = ids.iter().filter(|id| !passes(**id)).count();
                            let is_same = index.info().is_ok_and(|info| info.columns == *packed(&[]).columns());
                            // A posting proves a tag. A check finds a posting that was exchanged.
                            let is_proven = !matches!(filter, Filter::ContainsAny(..)) || checked.is_ok();
                            let is_same = is_same && is_proven;
                            // With a wide filter, a search looks at every page, and one that was
                            // overwritten with a page of nodes looks sound. A check finds it.
                            let is_wide = (0..ROWS).filter(|id| passes(*id)).count() > ROWS as usize / 8;
                            let is_found = is_wide && checked.is_err();
                            if !is_found && (distinct.len() != ids.len() || wrong > 0 && is_same) {
                                return Err(format!("{filter:?}: {ids:?}, {wrong} of them do not pass"));
                            }
                        }
                    }
                }
            }
            for id in (0..ROWS).step_by(7) {
                let read = if are_texts { index.payloads(&[text(id)]) } else { index.payloads(&[id]) };
                if let Err(error) = read {
                    whole &= acceptable(&error)?;
                }
            }
            if are_texts {
                whole &= index.text_ids(0, usize::MAX).map_or_else(|error| acceptable(&error), |_| Ok(true))?;
            }
            if let Err(error) = checked {
                whole &= acceptable(&error)?;
            }
        }
    }
    Ok(whole & (!also_changes || change(pages)?))
}

fn search(index: &Index<&MemPages>, filter: &Filter, options: Option<&SearchOptions>) -> Result<Vec<u64>, Error> {
    let mut searcher = index.searcher();
    let plan = searcher.plan_filter(filter)?;
    let how = options.cloned().map_or_else(SearchPlan::exact, SearchPlan::from);
    let result = searcher.answer(&[0.1; DIM], 100, &how, Some(&plan))?;
    if index.info()?.id_kind != IdKind::Text {
        return Ok(result.hits.iter().map(|hit| hit.row_id).collect());
    }
    let texts = index.text_ids_of(&result)?.expect("no other commit changes the rows");
    let number = |text: &String| text.strip_prefix("id ").and_then(|number| number.parse().ok());
    // A text that no row has passes no filter.
    Ok(texts.iter().zip(&result.hits).map(|(text, hit)| number(text).unwrap_or(hit.row_id)).collect())
}

/// The filter with texts as ids.
fn with_texts(filter: Filter) -> Filter {
    match filter {
        Filter::Ids(ids) => Filter::TextIds(ids.into_iter().map(text).collect()),
        Filter::Or(parts) => Filter::Or(parts.into_iter().map(with_texts).collect()),
        other => other,
    }
}

/// Adds rows, changes values of other rows, deletes and vacuums.
fn change(pages: MemPages) -> Result<bool, String> {
    let new = rows(ROWS..ROWS + 150, false);
    match Index::open(&pages).and_then(|index| index.info()) {
        Ok(info) if info.id_kind == IdKind::Text => change_by(pages, &new, &new.texts, text),
        Ok(_) => change_by(pages, &new, &new.ids, |id| id),
        Err(error) => acceptable(&error),
    }
}

fn change_by<I: RowId>(
    mut pages: MemPages,
    new: &Rows,
    new_ids: &[I],
    of: impl Fn(u64) -> I,
) -> Result<bool, String> {
    let known = match Index::open(pages.clone()) {
        Ok(known) => known,
        Err(error) => return acceptable(&error),
    };
    let updated: Vec<I> = (0..60).map(&of).collect();
    let others: Vec<u64> = (1..61).collect();
    let gone: Vec<I> = (100..200).map(&of).collect();
    for part in 0..5 {
        let mut writer = pages.writer();
        let done = known.change(&mut writer).and_then(|mut change| {
            let progress = &mut |_| ControlFlow::Continue(());
            match part {
                0 => change.add(new_ids, &new.components, Some(&new.columns), progress).map(drop)?,
                1 => change.update_columns(&updated, &packed(&others)).map(drop)?,
                2 => change.delete(&gone).map(drop)?,
                3 => change.vacuum(1000, progress).map(drop)?,
                _ => change.train(progress)?,
            }
            change.finish()
        });
        match done {
            Ok(()) => writer.commit(),
            Err(error) => return acceptable(&error),
        }
    }
    Ok(true)
}

#[test]
fn damaged_pages_of_columns_cause_no_panic_and_no_wrong_row() {
    let sound = [IdKind::Int, IdKind::Text].map(|id_kind| {
        let mut sound = MemPages::new();
        let options = BuildOptions { threads: 1, id_kind, ..BuildOptions::default() };
        let mut rows = rows(0..ROWS, id_kind == IdKind::Text);
        build(&mut rows, &options, &mut sound, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(try_all(sound.clone(), true), Ok(true));
        sound
    });
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a seed is a number"));
    let first: Option<u64> = number("PAGEHOP_SIM_SEED");
    let count = number("PAGEHOP_SIM_SEEDS").unwrap_or(if first.is_some() { 1 } else { SEEDS });
    let mut survived = [0; 2];
    for seed in (first.unwrap_or(0)..).take(count as usize) {
        let Some((pages, done)) = damaged(&sound[(seed % 2) as usize], seed) else { continue };
        match catch_unwind(AssertUnwindSafe(|| try_all(pages, seed % CHANGES_TWO_IN < 2))) {
            Ok(Ok(whole)) => survived[usize::from(whole)] += 1,
            Ok(Err(what)) => panic!("PAGEHOP_SIM_SEED={seed}: {what}; {done}"),
            Err(_) => panic!("PAGEHOP_SIM_SEED={seed}: the engine panicked; {done}"),
        }
    }
    println!("{} seeds with an error, {} without", survived[0], survived[1]);
    assert!(count < 100 || survived.iter().all(|&seeds| seeds > count / 20), "{survived:?}");
}
