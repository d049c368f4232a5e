//! The settings of a session: how a search is done, and when a scan ends.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use pagehop_engine::{BEAM_WIDTH_MAX, Cursor, Effort, Error, Reach, SEARCH_LIST_MAX, SearchOptions, SearchPlan};
use pgrx::prelude::*;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, pg_sys};

use crate::errors;
use crate::pages::RelationPages;
use crate::pages::waits::READ_AHEAD;
use crate::parameters;

/// Warnings that a session remembers, so that each comes once.
const WARNED_MAX: usize = 256;

static RECALL: GucSetting<f64> = GucSetting::<f64>::new(0.0);
static SEARCH_LIST: GucSetting<i32> = GucSetting::<i32>::new(0);
static SLACK: GucSetting<f64> = GucSetting::<f64>::new(-1.0);
static BEAM_WIDTH: GucSetting<i32> = GucSetting::<i32>::new(0);
static MAX_SCAN_PAGES: GucSetting<i32> = GucSetting::<i32>::new(0);
static SCAN_MEM_MULTIPLIER: GucSetting<f64> = GucSetting::<f64>::new(0.0);
static SKIP_UNREAD_DISTANCES: GucSetting<bool> = GucSetting::<bool>::new(true);
static ORDER: GucSetting<OrderName> = GucSetting::<OrderName>::new(OrderName::strict_order);

/// Values of `pagehop.scan_order`; pgvector's words.
#[allow(non_camel_case_types, reason = "they are what users write")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, pgrx::PostgresGucEnum)]
enum OrderName {
    /// A row that is found after a farther one is left out.
    strict_order,
    /// A row that is found after a farther one is returned out of order.
    relaxed_order,
}

/// Refuses to be loaded if the session has loaded another library file of the extension, with the
/// same settings and hooks.
pub(crate) fn refuse_second_library() {
    // SAFETY: the name ends with a zero byte. A setting that is not there has no flags.
    let flags = unsafe { pg_sys::GetConfigOptionFlags(c"pagehop.recall".as_ptr(), true) } as u32;
    // PostgreSQL keeps a value that was set before any library was loaded as a placeholder.
    if flags != 0 && flags & pg_sys::GUC_CUSTOM_PLACEHOLDER == 0 {
        errors::report(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "this session has loaded another file of the extension pagehop".to_string(),
            Some(
                "Functions and settings such as session_preload_libraries should name one file, $libdir/pagehop. \
                 The next session can load it."
                    .to_string(),
            ),
        );
    }
}

/// Defines the settings. Called once.
pub(crate) fn register() {
    GucRegistry::define_float_guc_with_hooks(
        c"pagehop.recall",
        c"Share of the true nearest rows that a scan should find, on average.",
        c"0: the recall of the index; if it has none, 0.98, or the highest calibrated recall below it. 1: exact, without the index.",
        &RECALL,
        0.0,
        1.0,
        GucContext::Userset,
        GucFlags::EXPLAIN,
        None,
        Some(assign_recall),
        None,
    );
    GucRegistry::define_int_guc(
        c"pagehop.search_list",
        c"Candidates kept while searching: raise it for recall, lower it for speed.",
        c"0 takes the list from the recall. A list that is set is searched to its end unless pagehop.slack is set too.",
        &SEARCH_LIST,
        0,
        SEARCH_LIST_MAX as i32,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_float_guc(
        c"pagehop.slack",
        c"A search ends when the best estimate left is beyond 1 + slack times the squared distance of the k-th row.",
        c"-1 takes the slack from the recall.",
        &SLACK,
        -1.0,
        f64::INFINITY,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_int_guc(
        c"pagehop.beam_width",
        c"Most pages read at the same time.",
        c"0 means 8.",
        &BEAM_WIDTH,
        0,
        BEAM_WIDTH_MAX as i32,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_enum_guc(
        c"pagehop.scan_order",
        c"Whether a scan returns a row that it finds after farther rows.",
        c"strict_order leaves it out, relaxed_order returns it out of order.",
        &ORDER,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_enum_guc(
        c"pagehop.read_ahead",
        c"Whether reads of pages are begun before the pages are needed.",
        c"auto times some reads, and reads ahead where they wait for storage.",
        &READ_AHEAD,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    register_plans();
    register_limits();
    // SAFETY: the string is static. Misspelled settings are refused from now on.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"pagehop".as_ptr()) };
}

/// Discards cached plans when `pagehop.recall` changes to 1 or from 1. Only at a recall of 1 the
/// planner does not use the index, and a cached plan would keep the choice for the old recall.
#[pg_guard]
unsafe extern "C-unwind" fn assign_recall(recall: f64, _extra: *mut c_void) {
    if (recall >= 1.0) != is_exact() {
        // SAFETY: it marks plans of this backend, whatever state its transaction is in.
        unsafe { pg_sys::ResetPlanCache() };
    }
}

/// Discards cached plans when the setting changes, since they were made with the old value.
#[pg_guard]
unsafe extern "C-unwind" fn assign_skip(skip: bool, _extra: *mut c_void) {
    if skip != skips_unread_distances() {
        // SAFETY: it marks plans of this backend, whatever state its transaction is in.
        unsafe { pg_sys::ResetPlanCache() };
    }
}

fn register_plans() {
    // SAFETY: the assign hook is of the type that PostgreSQL calls.
    unsafe {
        GucRegistry::define_bool_guc_with_hooks(
            c"pagehop.skip_unread_distances",
            c"Whether distances that only order rows, and that nothing reads, are removed from plans.",
            c"off computes the distance of each row that an index scan returns.",
            &SKIP_UNREAD_DISTANCES,
            GucContext::Userset,
            GucFlags::EXPLAIN,
            None,
            Some(assign_skip),
            None,
        );
    }
}

fn register_limits() {
    GucRegistry::define_int_guc(
        c"pagehop.max_scan_pages",
        c"A scan that has made this number of reads of index pages returns no more rows.",
        c"0 means no limit.",
        &MAX_SCAN_PAGES,
        0,
        i32::MAX,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
    GucRegistry::define_float_guc(
        c"pagehop.scan_mem_multiplier",
        c"A scan that needs more memory than this multiple of work_mem returns no more rows.",
        c"0 means no limit.",
        &SCAN_MEM_MULTIPLIER,
        0.0,
        1000.0,
        GucContext::Userset,
        GucFlags::EXPLAIN,
    );
}

/// Whether the session has chosen a list or a slack, which then does not depend on k.
pub(crate) fn is_effort_set() -> bool {
    search_list().is_some() || slack().is_some()
}

/// Whether the session limits what a scan may cost.
pub(crate) fn is_scan_limited() -> bool {
    MAX_SCAN_PAGES.get() > 0 || SCAN_MEM_MULTIPLIER.get() > 0.0
}

/// The options of a search for `k` rows of an index by the session's current settings. `plan`
/// derives them from a list or a slack if one is set, or else from a recall. Warns if the recall
/// may not be reached.
///
/// At a recall of 1, plans do not use the index. Only a cursor that was opened before the setting
/// changed gets here with 1. It may still miss a row if the index has more nodes than the list has
/// places.
///
/// # Safety
///
/// `relation` is open, and the index.
pub(crate) unsafe fn search(
    plan: impl FnOnce(usize, &Effort) -> Result<SearchPlan, Error>,
    relation: pg_sys::Relation,
    k: usize,
) -> Result<SearchOptions, Error> {
    // SAFETY: the caller says that the relation is open, and the index.
    let asked = unsafe { asked(relation) };
    let effort = Effort::of(asked.map(|asked| asked.recall), search_list(), slack())?;
    let plan = plan(k.max(1), &effort)?;
    if let Some(asked) = asked {
        // SAFETY: the caller says that the relation is open.
        unsafe { warn_of_reach(relation, k, &asked, &plan) };
    }
    let beam_width = usize::try_from(BEAM_WIDTH.get()).ok().filter(|width| *width > 0);
    Ok(plan.walk_options().with_beam_width(beam_width))
}

/// Whether the session was not warned of this index, `recall` and calibration lately. `k` does not
/// count: each statement may have another LIMIT.
///
/// # Safety
///
/// `relation` is open.
unsafe fn is_first_warning(relation: pg_sys::Relation, recall: f32, calibration: u64) -> bool {
    // Only the last few warnings are remembered, because a table may have many partitions.
    static WARNED: Mutex<VecDeque<(pg_sys::Oid, u32, u64)>> = Mutex::new(VecDeque::new());
    // SAFETY: the caller says that the relation is open.
    let oid = unsafe { (*relation).rd_id };
    let this = (oid, recall.to_bits(), calibration);
    let mut warned = WARNED.lock().unwrap_or_else(PoisonError::into_inner);
    if warned.contains(&this) {
        return false;
    }
    warned.truncate(WARNED_MAX - 1);
    warned.push_front(this);
    true
}

/// Says that searches may find less than is `asked`: once for each index, recall and calibration.
///
/// # Safety
///
/// `relation` is open.
unsafe fn warn_of_reach(relation: pg_sys::Relation, k: usize, asked: &Asked, plan: &SearchPlan) {
    // SAFETY: the caller says that the relation is open.
    if plan.reach == Reach::Within || unsafe { !is_first_warning(relation, asked.recall, plan.calibration) } {
        return;
    }
    // SAFETY: the caller says that the relation is open.
    let (name, regclass) = unsafe { (errors::name(relation), errors::regclass(relation)) };
    if let Reach::Beyond { best } = plan.reach {
        let message = format!(
            "{asked} is above the highest recall that the calibration of index \"{name}\" reached for {k} rows, \
             which is {best:.4}"
        );
        let hint = "Searches use the settings of its longest search. Set a lower recall to make them faster.";
        errors::warn(message, hint.to_string());
    } else {
        let message = format!("index \"{name}\" was never calibrated, so the settings for {asked} are not known");
        let hint = format!("The next VACUUM calibrates it. SELECT pagehop_calibrate({regclass}); does so now.");
        errors::warn(message, hint);
    }
}

/// A recall that is asked for, and by which setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) recall: f32,
    setting: &'static str,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.setting, self.recall)
    }
}

/// The target recall of searches of an index: `None` if the session has set a list or a slack, or
/// else the recall of the session, or the recall of the index.
///
/// # Safety
///
/// `index` is open.
unsafe fn asked(index: pg_sys::Relation) -> Option<Asked> {
    // A recall that is less than 1 does not become 1 by rounding.
    let of_session = if is_exact() { 1.0 } else { (RECALL.get() as f32).min(1.0_f32.next_down()) };
    if is_effort_set() {
        return None;
    }
    if of_session > 0.0 {
        return Some(Asked { recall: of_session, setting: "pagehop.recall" });
    }
    // SAFETY: the caller keeps the index open.
    unsafe { parameters::recall(index) }.map(|recall| Asked { recall, setting: "recall" })
}

/// The target recall of searches of an index; `None` also for an exact answer.
///
/// # Safety
///
/// `index` is open.
pub(crate) unsafe fn target(index: pg_sys::Relation) -> Option<Asked> {
    // SAFETY: the caller keeps the index open.
    unsafe { asked(index) }.filter(|asked| asked.recall < 1.0)
}

/// Whether the answer must be exact, which requires a scan of every row.
pub(crate) fn is_exact() -> bool {
    RECALL.get() >= 1.0
}

/// Whether distances that nothing reads are removed from plans.
pub(crate) fn skips_unread_distances() -> bool {
    SKIP_UNREAD_DISTANCES.get()
}

/// Why a scan returned no more rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// The executor asked for no more.
    #[default]
    Executor,
    /// Every row that the index reaches was returned.
    Exhausted,
    /// `pagehop.max_scan_pages`.
    Pages,
    /// `pagehop.scan_mem_multiplier`.
    Memory,
}

impl End {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Executor => "executor",
            Self::Exhausted => "exhausted",
            Self::Pages => "max_scan_pages",
            Self::Memory => "scan_mem_multiplier",
        }
    }
}

/// When a scan ends although there are more rows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limits {
    /// Reads of index pages.
    pages: Option<u64>,
    memory_bytes: Option<usize>,
}

/// A scan keeps what it has seen in up to this multiple of `work_mem`. Beyond that it reads the
/// index in the order of pages: see [`Cursor::limit_memory`].
const MEMORY_TIMES: f64 = 8.0;

/// Bytes that a scan may take before it reads the index in the order of pages. There is no such
/// bound if the session ends scans at a limit.
fn scan_bytes() -> usize {
    if SCAN_MEM_MULTIPLIER.get() > 0.0 { usize::MAX } else { (work_mem_bytes() * MEMORY_TIMES) as usize }
}

fn work_mem_bytes() -> f64 {
    // SAFETY: a setting of this backend, in kilobytes.
    unsafe { pg_sys::work_mem as f64 * 1024.0 }
}

/// The limits that the session has now.
pub(crate) fn limits() -> Limits {
    let pages = u64::try_from(MAX_SCAN_PAGES.get()).ok().filter(|pages| *pages > 0);
    let multiplier = SCAN_MEM_MULTIPLIER.get();
    Limits { pages, memory_bytes: (multiplier > 0.0).then_some((multiplier * work_mem_bytes()) as usize) }
}

impl Limits {
    /// Makes the cursor respect the limits while it looks for a row.
    pub(crate) fn set(&self, cursor: &mut Cursor<'_, RelationPages>) {
        cursor.limit_memory(scan_bytes());
        cursor.end_at_memory(self.memory_bytes.unwrap_or(usize::MAX));
        cursor.limit_reads(self.pages.unwrap_or(u64::MAX));
    }

    /// The limit that a scan has reached; checked between rows.
    #[inline]
    pub(crate) fn reached(&self, cursor: &Cursor<'_, RelationPages>) -> Option<End> {
        let exceeds = self.memory_bytes.is_some_and(|most| cursor.memory_bytes() > most);
        let pages = self.pages.is_some_and(|most| cursor.page_reads() >= most);
        pages.then_some(End::Pages).or(exceeds.then_some(End::Memory))
    }
}

/// Whether rows must be returned in order, even if some rows are then left out.
pub(crate) fn is_order_strict() -> bool {
    ORDER.get() == OrderName::strict_order
}

/// `slack` if the session has set it.
fn slack() -> Option<f32> {
    Some(SLACK.get()).filter(|slack| *slack >= 0.0).map(|slack| slack as f32)
}

/// `search_list` if the session has set it.
pub(crate) fn search_list() -> Option<usize> {
    usize::try_from(SEARCH_LIST.get()).ok().filter(|list| *list > 0)
}
