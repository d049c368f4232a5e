//! Searches by postings while other sessions split and merge the leaves, in turns that a seed
//! decides.
//!
//! `PAGEHOP_SIM_SEED=123` replays one seed. `PAGEHOP_SIM_SEEDS=100000` runs that number of seeds.

use std::collections::BTreeSet;

use crate::support;
use crate::support::hosted::{EVERYTHING, check};
use crate::support::sessions::{clean_up, few_seeds, insert};
use crate::support::{ColumnSource, Rows, embeddings, no_progress, options};
use pagehop_engine::{BuildOptions, Column, ColumnKind, ColumnRows, Filter, IdKind, Index, Metric, Value, build};
use pagehop_sim::{MemPages, SharedHost, SharedSession};

const DIM: usize = 8;
const BUILT: usize = 420;
/// Rows that each of two writers inserts.
const EACH: usize = 40;

/// Rows, and an index of the first of them with a column of their ids, of which most are dead.
/// Returns the dead ones, too.
fn mostly_dead() -> (Rows, MemPages, BTreeSet<u64>) {
    let mut rows = Rows::new(DIM, embeddings(DIM, BUILT + 2 * EACH, 3));
    rows.ids = (1..=(BUILT + 2 * EACH) as u64).collect();
    let mut columns = ColumnRows::new(vec![Column { name: "n".into(), kind: ColumnKind::Int }]).unwrap();
    (1..=BUILT as i64).for_each(|id| columns.push(&[Value::Int(id)]).unwrap());
    let vectors = rows.values[..BUILT * DIM].to_vec();
    let mut source = ColumnSource { dim: DIM, ids: rows.ids[..BUILT].to_vec(), vectors, columns };
    let mut pages = MemPages::new();
    let options = BuildOptions { id_kind: IdKind::HostOwned, ..options(Metric::L2) };
    build(&mut source, &options, &mut pages, &mut no_progress()).unwrap();
    let dead: BTreeSet<u64> = (1..=380).filter(|id| id % 12 > 0).collect();
    support::hosted::remove(&mut pages, &dead);
    (rows, pages, dead)
}

/// A vacuum empties leaves, and writers use their pages again for leaves that they split. A search
/// finds every row that is there all the time.
#[test]
fn searches_find_every_row_while_leaves_are_merged() {
    let (rows, pages, dead) = mostly_dead();
    let stays: BTreeSet<u64> = rows.ids[..BUILT].iter().copied().filter(|id| !dead.contains(id)).collect();
    let all = Filter::Not(Box::new(Filter::IsNull("n".into())));
    for seed in few_seeds(8) {
        let host = SharedHost::new(&pages, seed);
        let writes = |writer: usize| {
            let rows = &rows;
            move |session: &SharedSession<'_>| {
                for at in (0..EACH).map(|i| BUILT + writer * EACH + i) {
                    let row_id = rows.ids[at];
                    let values = [Value::Int((row_id as i64 * 37) % 500)];
                    assert!(session.statement(|| insert(session, row_id, rows.row(at), &values, false)));
                }
            }
        };
        host.run(vec![
            Box::new(writes(0)),
            Box::new(writes(1)),
            Box::new(|session| {
                for _ in 0..25 {
                    let known = Index::open(session).unwrap();
                    let mut cursor = known.cursor(&[0.1; DIM], &EVERYTHING).unwrap();
                    cursor.only(known.plan_filter(&all).unwrap());
                    let mut found = BTreeSet::new();
                    while let Some(hit) = cursor.next_hit().unwrap() {
                        found.insert(hit.row_id);
                    }
                    assert!(found.is_superset(&stays), "seed {seed} missed {:?}", &stays - &found);
                }
            }),
            Box::new(|session| {
                let known = Index::open(session).unwrap();
                session.statement(|| clean_up(session, &known)).unwrap();
            }),
        ]);
        let found = check(&host.pages());
        assert_eq!((found.nodes, found.dead_nodes), ((rows.ids.len() - dead.len()) as u64, 0), "seed {seed}");
    }
}
