//! A filter over the signatures of rows, by which a walk knows of a neighbor before it reads it.

use super::test::Test;
use crate::columns::signatures::{Field, Signatures};

/// Most parts of a condition that are tested.
const PARTS_MAX: usize = 16;

/// A condition on the signature of a row. It is true for every row that passes a filter, and for
/// some that do not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SignatureTest {
    /// The bucket of a column is one of these, one bit each.
    Bucket(Field, u64),
    /// All of these bits are set.
    Bits(u16),
    /// All parts are true.
    And(Vec<Self>),
    /// One part is true.
    Or(Vec<Self>),
}

impl SignatureTest {
    /// The condition of a filter; `None` if signatures tell nothing.
    pub(crate) fn new(test: &Test, signatures: &Signatures) -> Option<Self> {
        let bucket = |(field, allowed)| Self::Bucket(field, allowed);
        match test {
            Test::Within { column, ranges } => signatures.buckets(*column, ranges).map(bucket),
            Test::Missing { column } => signatures.missing(*column).map(bucket),
            Test::Present { column } => {
                signatures.missing(*column).map(|(field, missing)| bucket((field, !missing)))
            }
            Test::Tags(test) if test.is_in && test.hashes.len() <= PARTS_MAX => {
                let bits = test.hashes.iter().map(|hash| signatures.tag(test.column, *hash).map(Self::Bits));
                Some(Self::Or(bits.collect::<Option<_>>()?))
            }
            Test::Tags(_) | Test::Ids { .. } => None,
            Test::And(parts) => {
                let parts: Vec<Self> = parts.iter().filter_map(|part| Self::new(part, signatures)).collect();
                (!parts.is_empty()).then_some(Self::And(parts))
            }
            Test::Or(parts) if parts.len() <= PARTS_MAX => {
                Some(Self::Or(parts.iter().map(|part| Self::new(part, signatures)).collect::<Option<_>>()?))
            }
            Test::Or(_) => None,
        }
    }

    /// Whether a row with this signature may pass.
    #[inline]
    pub(crate) fn may_pass(&self, signature: u16) -> bool {
        match self {
            Self::Bucket(field, allowed) => allowed >> field.of(signature) & 1 == 1,
            Self::Bits(bits) => signature & bits == *bits,
            Self::And(parts) => parts.iter().all(|part| part.may_pass(signature)),
            Self::Or(parts) => parts.iter().any(|part| part.may_pass(signature)),
        }
    }
}
