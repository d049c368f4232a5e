//! Counts the true neighbors in an answer, by id.

use crate::errors::Error;
use crate::matrix::Matrix;

/// The first `k` true neighbors of every query.
#[derive(Debug)]
pub(crate) struct Truth {
    ids: Matrix<i64>,
    k: usize,
}

impl Truth {
    /// Takes the first `k` ids of each row. There must be a row for each query.
    pub(crate) fn new(ids: Matrix<i64>, k: usize, queries: usize) -> Result<Self, Error> {
        if ids.rows() != queries {
            return Err(Error::Use(format!("it has neighbors of {} queries, there are {queries}", ids.rows())));
        }
        if ids.width < k {
            return Err(Error::Use(format!("it has {} neighbors of each query; lower --rows from {k}", ids.width)));
        }
        Ok(Self { ids, k })
    }

    /// The number of true neighbors of `query` among the first `k` ids of `answer`. An id that is
    /// repeated counts once.
    pub(crate) fn found(&self, query: usize, answer: &[Option<i64>]) -> usize {
        let answer = &answer[..answer.len().min(self.k)];
        self.ids.row(query)[..self.k].iter().filter(|id| answer.contains(&Some(**id))).count()
    }

    /// The number of true neighbors per query.
    pub(crate) fn k(&self) -> usize {
        self.k
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(k: usize) -> Result<Truth, Error> {
        Truth::new(Matrix { width: 3, values: vec![1, 2, 3, 4, 5, 6] }, k, 2)
    }

    #[test]
    fn neighbors_are_counted_wherever_they_stand() {
        let truth = truth(3).unwrap();
        assert_eq!(truth.found(0, &[Some(3), Some(2), Some(1)]), 3);
        assert_eq!(truth.found(1, &[Some(1), Some(6), None]), 1);
        assert_eq!(truth.found(1, &[]), 0);
    }

    #[test]
    fn a_repeated_row_or_one_beyond_k_is_no_help() {
        let truth = truth(2).unwrap();
        assert_eq!(truth.found(0, &[Some(1), Some(1)]), 1);
        assert_eq!(truth.found(0, &[Some(9), Some(9), Some(1), Some(2)]), 0);
        assert_eq!(truth.found(0, &[Some(3), Some(2)]), 1, "the third neighbor is beyond k");
    }

    #[test]
    fn a_file_of_other_queries_is_refused() {
        assert!(truth(4).unwrap_err_text().contains("--rows"));
        let other = Truth::new(Matrix { width: 1, values: vec![1] }, 1, 2);
        assert!(other.unwrap_err_text().contains("1 queries"));
    }

    trait ErrorText {
        fn unwrap_err_text(self) -> String;
    }

    impl ErrorText for Result<Truth, Error> {
        fn unwrap_err_text(self) -> String {
            let Err(Error::Use(text)) = self else { panic!("it is accepted") };
            text
        }
    }
}
