//! Reads every page and checks the structure: the rules of the format, and what searches depend on.
//!
//! Within each page: its kind, the headers of nodes, and own codes with the norm that the header
//! says. Across pages: every edge leads to another node, and no node has two edges to the same
//! node. If the generations of an edge and its target agree, the edge has the code that follows
//! from the target's own code. The map names every live node once, the dead list every dead node
//! once, and the list of free slots every page that has one. Each kept vector has a place of its
//! own and is the one that its node's code was made from, and each record belongs to one node. A
//! text id leads to its row, and no two rows have the same. A landmark whose node is still the same
//! carries what an edge to it would. Then a walk from the entry points counts what a search can
//! reach.
//!
//! All of this holds after every step of a change, so a crash between two steps leaves a valid
//! index. Only a record is written before its node: that holds after every commit.
//!
//! | file | subject |
//! |---|---|
//! | `again.rs` | what a check leaves for the next one |
//! | `nodes.rs` | nodes and edges, the row id map, free slots |
//! | `lists.rs` | dead nodes, row ids that wait for a node, landmarks |
//! | `postings.rs` | the trees of columns |
//! | `kept.rs` | kept vectors |
//! | `records.rs`, `texts.rs`, `tags.rs` | records of rows; the text id of a record; its tags |

mod again;
mod kept;
mod lists;
mod nodes;
mod postings;
mod records;
mod tags;
mod texts;

use crate::ids::NodeId;
use crate::index::open::Index;
use crate::index::state::State;
use crate::page::meta::Meta;
use crate::page::{PageId, Pages, Reader, read_ahead};
use crate::{CheckReport, Error, OnProgress, Progress};
pub use again::CheckedPages;
use kept::KeptCheck;
use nodes::{Check, SLOT_BYTES};

/// How often a check starts again because a commit came in between.
const TRIES: usize = 3;

impl<P: Pages> Index<P> {
    /// Reads every page and checks the structure.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] at the first contradiction; [`Error::Interrupted`] if `progress` breaks;
    /// [`Error::Memory`] if the system does not give [`Index::check_memory_bytes`]. Rows that no
    /// search can reach are not an error: compare `reachable` with `nodes`.
    pub fn check(&self, progress: OnProgress<'_>) -> Result<CheckReport, Error> {
        check(self.pages(), None, progress)
    }

    /// Bytes of memory that [`Index::check`] takes.
    pub fn check_memory_bytes(&self) -> u64 {
        let layout = self.newest().known().meta.layout;
        let slots = u64::from(self.pages().page_count()) * layout.nodes_per_page as u64;
        slots * (SLOT_BYTES + size_of::<NodeId>() * layout.degree + size_of::<bool>()) as u64
    }
}

/// As [`Index::check`], for tests that check an index after every step. Pages of nodes are not
/// checked in detail if they are as in the `last` check of this index, and so are the nodes that
/// their edges lead to. Takes the memory of a copy of all pages of nodes.
///
/// # Errors
///
/// As [`Index::check`]. After an error the next check looks at everything.
pub fn check_again<P: Pages>(
    pages: &P,
    last: &mut CheckedPages,
    progress: OnProgress<'_>,
) -> Result<CheckReport, Error> {
    let mut known = std::mem::take(last);
    let report = check(pages, Some(&mut known), progress)?;
    *last = known;
    Ok(report)
}

/// Checks the index. Takes about `48 + 4 * degree` bytes of memory per node.
fn check<P: Pages>(
    pages: &P,
    mut last: Option<&mut CheckedPages>,
    progress: OnProgress<'_>,
) -> Result<CheckReport, Error> {
    // While a writer commits, pages of different commits contradict each other. So an error only
    // counts if no commit came in between.
    for _ in 0..TRIES {
        let mut reader = pages.reader();
        let state = State::read(&mut reader, None)?;
        let checked = check_once(pages, &state, &mut reader, last.as_deref_mut(), progress);
        // The next try begins with another reader.
        reader.pause();
        let is_same = |now: &Meta| now.change.commit == state.meta.change.commit;
        if matches!(checked, Err(Error::Interrupted)) || Meta::read(&mut pages.reader()).as_ref().is_ok_and(is_same)
        {
            return checked;
        }
        if let Some(last) = last.as_deref_mut() {
            *last = CheckedPages::default();
        }
    }
    Err(Error::busy("the index changed several times while it was checked; check it when no process writes it"))
}

fn check_once<P: Pages>(
    pages: &P,
    state: &State,
    reader: &mut P::Reader<'_>,
    mut last: Option<&mut CheckedPages>,
    progress: OnProgress<'_>,
) -> Result<CheckReport, Error> {
    let (meta, count) = (&state.meta, pages.page_count());
    let mut check = Check::new(state, count)?;
    last.iter_mut().for_each(|last| last.begin(state, count));
    let mut kept = KeptCheck::default();
    let all = meta.graph_pages(count);
    let (first, total) = (all.start, all.len() as u64 * 2);
    for pass in 0..2 {
        for page in all.clone() {
            let done = u64::from(page - first) + pass * total / 2;
            if page % 256 == 0 && progress(Progress { phase: "check", done, total }).is_break() {
                return Err(Error::Interrupted);
            }
            read_ahead(reader, page, &all);
            let page = PageId(page);
            let body = reader.finish(page)?;
            meta.change.numbers.check(page, &body)?;
            match (meta.has_nodes(&body), pass, &mut last) {
                (true, 0, last) => {
                    match last {
                        Some(last) => last.nodes(&mut check, page, &body)?,
                        None => check.nodes(page, &body)?,
                    }
                    kept.check(state, reader, page, &body)?;
                }
                (true, _, Some(last)) => last.edges(&mut check, page, &body)?,
                (true, _, None) => check.edges(page, &body)?,
                (false, 0, Some(last)) => last.no_nodes(&check, page),
                _ => {}
            }
            drop(body);
            reader.release();
        }
    }
    kept.finish()?;
    records::check(state, reader)?;
    check.rows()?;
    check.free_list()?;
    check.map(reader)?;
    lists::dead(&mut check, reader)?;
    // Before the first rows there are no trees.
    let has_trees = |column: &usize| state.columns.roots[*column].0 > 0 || check.report.nodes > 0;
    let columns: Vec<usize> = (0..state.columns.roots.len()).filter(has_trees).collect();
    for column in columns {
        postings::check(&mut check, reader, state, column)?;
    }
    lists::pending_rows(&check, reader)?;
    lists::landmarks(&check, reader)?;
    let entries: Vec<NodeId> = state.entries.iter().map(|entry| entry.node).collect();
    let mut go_on = || progress(Progress { phase: "check", done: total, total });
    check.report.anchored = check.reach(entries.clone(), 0, &mut go_on)?;
    // A walk over all edges reaches at least the nodes that one over anchors reaches.
    check.report.reachable = match check.report.anchored == check.report.nodes {
        true => check.report.nodes,
        false => check.reach(entries, u64::MAX, &mut go_on)?,
    };
    Ok(check.report)
}
