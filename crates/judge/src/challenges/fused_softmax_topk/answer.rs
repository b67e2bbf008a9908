//! An answer, read.

use tribunal_contract::Tensor;

use super::problem::Problem;

/// Probabilities and indices, row by row.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) k: usize,
    probs: Vec<f64>,
    indices: Vec<i64>,
}

impl Answer {
    /// From the two results of a call.
    pub(super) fn new(problem: &Problem, results: &[Tensor]) -> Self {
        let [probs, indices] = results else { panic!("the runner has checked the number of results") };
        let indices = indices.bytes().chunks_exact(8);
        Self {
            k: problem.k,
            probs: probs.to_f64(),
            indices: indices.map(|b| i64::from_ne_bytes(b.try_into().expect("eight bytes"))).collect(),
        }
    }

    pub(super) fn probs(&self, row: usize) -> &[f64] {
        &self.probs[row * self.k..(row + 1) * self.k]
    }

    pub(super) fn indices(&self, row: usize) -> &[i64] {
        &self.indices[row * self.k..(row + 1) * self.k]
    }

    /// The logits that a row's indices name; NaN where an index names none.
    pub(super) fn named(&self, problem: &Problem, row: usize) -> Vec<f64> {
        let logits = problem.row(row);
        let name = |&index: &i64| usize::try_from(index).ok().and_then(|i| logits.get(i)).copied();
        self.indices(row).iter().map(|index| name(index).unwrap_or(f64::NAN)).collect()
    }

    /// The first index of a row that names no entry, or one that was named before.
    pub(super) fn invalid(&self, row: usize, vocab: usize) -> Option<Invalid> {
        let mut seen = std::collections::HashMap::new();
        self.indices(row).iter().enumerate().find_map(|(rank, &index)| {
            if !(0..vocab as i64).contains(&index) {
                return Some(Invalid::NoEntry { rank, index });
            }
            seen.insert(index, rank).map(|first| Invalid::Again { rank, first, index })
        })
    }

    /// Whether two answers to a row are the same.
    pub(super) fn agrees(&self, other: &Self, row: usize) -> bool {
        let bits = |answer: &Self| answer.probs(row).iter().map(|prob| prob.to_bits()).collect::<Vec<_>>();
        self.indices(row) == other.indices(row) && bits(self) == bits(other)
    }

    /// Whether a row is zeros throughout, or was never written: then its probabilities are one pattern, and so are its
    /// indices, which name nothing.
    pub(super) fn is_blank(&self, row: usize) -> bool {
        let (probs, indices) = (self.probs(row), self.indices(row));
        let zeros = probs.iter().all(|prob| *prob == 0.0) && indices.iter().all(|index| *index == 0);
        let one_pattern = probs.iter().all(|prob| prob.to_bits() == probs[0].to_bits())
            && indices.iter().all(|index| *index == indices[0] && !(0..i64::from(i32::MAX)).contains(index));
        zeros || one_pattern
    }
}

/// An index that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Invalid {
    /// It is negative or beyond the vocabulary.
    NoEntry {
        /// Where.
        rank: usize,
        /// What it is.
        index: i64,
    },
    /// The same entry twice.
    Again {
        /// Where.
        rank: usize,
        /// Where before.
        first: usize,
        /// What it is.
        index: i64,
    },
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoEntry { rank, index } => write!(f, "rank {rank} has index {index}, which is no entry"),
            Self::Again { rank, first, index } => {
                write!(f, "ranks {first} and {rank} both have index {index}")
            }
        }
    }
}
