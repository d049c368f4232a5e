//! The options of a build and of a search, with their defaults and limits.

use crate::{Column, Error, IdKind, Measured, Metric, Vectors};

/// Most dimensions of a vector.
pub const DIM_MAX: usize = 4096;
/// Largest `k` and `search_list`.
pub const SEARCH_LIST_MAX: usize = 100_000;
/// Largest `beam_width`.
pub const BEAM_WIDTH_MAX: usize = 64;
/// Most threads that a face accepts for one call: far more than a machine has cores.
pub const THREADS_MAX: usize = 4096;
/// Most rows that a face takes as queries of an audit.
pub const SAMPLES_MAX: usize = 1_000_000;

/// The options of a bulk build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// The distance function of the index; it never changes.
    pub metric: Metric,
    /// The meaning of row ids; it never changes.
    pub id_kind: IdKind,
    /// Whether the index keeps the vectors themselves; it never changes. Not under
    /// [`IdKind::HostOwned`], where the host has them.
    pub vectors: Vectors,
    /// Largest memory of the build, in bytes. Codes that do not fit are put aside, if the host has
    /// [`Scratch`](crate::Scratch) files; the index then depends on this number. If even that needs
    /// more, the build fails at the start and says how much it needs.
    pub memory_bytes: u64,
    /// Threads; 0 means one per core. The index does not depend on it.
    pub threads: usize,
    /// Seed of all random choices. The same vectors, options and seed give the same page bodies.
    pub seed: u64,
    /// Whether the host calibrates the index at the end of the build, by
    /// [`Index::calibrate`](crate::Index::calibrate).
    pub calibrate: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            metric: Metric::L2,
            id_kind: IdKind::Int,
            vectors: Vectors::Codes,
            memory_bytes: 2 << 30,
            threads: 0,
            seed: 1,
            calibrate: true,
        }
    }
}

/// The properties of an index that begins without rows ([`create`](crate::create)). They never
/// change.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// The distance function of the index.
    pub metric: Metric,
    /// The meaning of row ids.
    pub id_kind: IdKind,
    /// The form in which vectors are kept: codes only under [`IdKind::HostOwned`], where the host
    /// has them.
    pub vectors: Vectors,
    /// Columns to filter by, at most [`COLUMNS_MAX`](crate::COLUMNS_MAX).
    pub columns: Vec<Column>,
    /// Whether rows may have payloads: bytes that come back with them. Not under
    /// [`IdKind::HostOwned`].
    pub payload: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            metric: Metric::L2,
            id_kind: IdKind::Int,
            vectors: Vectors::Codes,
            columns: Vec::new(),
            payload: false,
            seed: 1,
        }
    }
}

/// How hard to search.
#[derive(Clone, Debug)]
pub struct SearchOptions {
    /// Length of the candidate list: longer for more recall, shorter for more speed. At least `k`
    /// are kept.
    pub search_list: usize,
    /// The search stops when the nearest remaining estimate is beyond `1 + slack` times the k-th
    /// distance found. Infinite: expand the whole list.
    pub slack: f32,
    /// Most pages read at the same time.
    pub beam_width: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { search_list: 100, slack: 0.2, beam_width: 8 }
    }
}

/// How hard to search, as a caller gives it. [`Index::options`](crate::Index::options) makes search
/// options of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Effort {
    /// A recall of [`RECALL_DEFAULT`](crate::RECALL_DEFAULT), or the highest recall below it that
    /// the calibration reached. [`SearchOptions::default`] if it reached none, or the index was
    /// never calibrated.
    #[default]
    Default,
    /// A mean recall, above 0 and at most 1. For 1 the answer is exact and every row is compared.
    Recall(f32),
    /// Settings. A missing one has its default, except that a `search_list` without a `slack` is
    /// expanded to its end: raising it alone then raises recall as far as the index can go.
    Settings {
        /// See [`SearchOptions::search_list`].
        search_list: Option<usize>,
        /// See [`SearchOptions::slack`].
        slack: Option<f32>,
    },
}

impl Effort {
    /// The effort for optional arguments.
    ///
    /// # Errors
    ///
    /// [`Error::Argument`] if a recall is given together with the settings that it stands for.
    pub fn of(recall: Option<f32>, search_list: Option<usize>, slack: Option<f32>) -> Result<Self, Error> {
        match (recall, search_list, slack) {
            (None, None, None) => Ok(Self::Default),
            (Some(recall), None, None) => Ok(Self::Recall(recall)),
            (None, ..) => Ok(Self::Settings { search_list, slack }),
            _ => Err(Error::argument("recall cannot be given with search_list or slack; leave out one of the two")),
        }
    }
}

/// How to search for `k` rows: the result of [`Index::options`](crate::Index::options) for an
/// [`Effort`].
#[derive(Clone, Debug)]
pub struct SearchPlan {
    /// `None` to compare every row.
    pub options: Option<SearchOptions>,
    /// Whether the options reach the recall that was given. If not, a face warns its user.
    pub reach: Reach,
    /// The calibration that the options come from, if it is outdated: see
    /// [`Measured::is_outdated`].
    pub outdated: Option<Measured>,
    /// A number of the calibration that the options come from, other for another calibration; 0 if
    /// they come from none. A face warns once for each.
    pub calibration: u64,
}

/// Whether the options of a [`SearchPlan`] reach the recall that was given.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reach {
    /// As far as is known, yes; or no recall was given.
    #[default]
    Within,
    /// No search of the calibration reached it. The options are those of its longest search.
    Beyond {
        /// The highest recall that the calibration measured.
        best: f32,
    },
    /// That is not known, since the index was never calibrated. The options do not depend on the
    /// recall.
    Uncalibrated,
}

impl Reach {
    /// The recall to expect of searches for a `recall`, as far as the calibration tells.
    pub fn of(self, recall: f32) -> f32 {
        match self {
            Self::Beyond { best } => best,
            Self::Within | Self::Uncalibrated => recall,
        }
    }
}

impl SearchPlan {
    /// Every row is compared.
    pub fn exact() -> Self {
        Self { options: None, ..SearchOptions::default().into() }
    }

    /// The options for a host that cannot compare every row, as a [`Cursor`](crate::Cursor): those
    /// of the plan, or the longest search that there is.
    pub fn walk_options(self) -> SearchOptions {
        self.options.unwrap_or_else(|| SearchOptions::to_the_end(SEARCH_LIST_MAX))
    }

    /// The same plan with another beam width, if one is given.
    #[must_use]
    pub fn with_beam_width(mut self, beam_width: Option<usize>) -> Self {
        self.options = self.options.map(|options| options.with_beam_width(beam_width));
        self
    }
}

impl From<SearchOptions> for SearchPlan {
    fn from(options: SearchOptions) -> Self {
        Self { options: Some(options), reach: Reach::Within, outdated: None, calibration: 0 }
    }
}

impl SearchOptions {
    /// The same options with another beam width, if one is given.
    #[must_use]
    pub fn with_beam_width(mut self, beam_width: Option<usize>) -> Self {
        self.beam_width = beam_width.unwrap_or(self.beam_width);
        self
    }

    /// See [`Effort::Settings`].
    pub(crate) fn of_settings(search_list: Option<usize>, slack: Option<f32>) -> Self {
        let default = Self::default();
        let to_the_end = search_list.map(|_| f32::INFINITY);
        Self {
            search_list: search_list.unwrap_or(default.search_list),
            slack: slack.or(to_the_end).unwrap_or(default.slack),
            ..default
        }
    }

    /// A search for a recall, in an index that was never calibrated: four times the default list,
    /// with twice its slack.
    pub(crate) fn uncalibrated() -> Self {
        Self { search_list: 400, slack: 0.4, ..Self::default() }
    }

    /// A search to its end, of an index of up to `rows` rows.
    pub(crate) fn to_the_end(rows: usize) -> Self {
        Self { search_list: rows, slack: f32::INFINITY, ..Self::default() }
    }

    pub(crate) fn validate(&self, k: usize) -> Result<(), Error> {
        let range = |name: &str, value: usize, max: usize| {
            if (1..=max).contains(&value) {
                return Ok(());
            }
            Err(Error::argument(format!("{name} is {value}, it must be between 1 and {max}")))
        };
        range("k", k, SEARCH_LIST_MAX)?;
        range("search_list", self.search_list, SEARCH_LIST_MAX)?;
        range("beam_width", self.beam_width, BEAM_WIDTH_MAX)?;
        if self.slack >= 0.0 {
            return Ok(());
        }
        Err(Error::argument(format!("slack is {}, it must be 0 or more", self.slack)))
    }
}
