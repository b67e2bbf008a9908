//! Who judges what a hypothesis is about, where no verdict decides it.

use tribunal_judge::{Effort, Verdict};

/// Judges contestants for their hypotheses.
pub trait Judge {
    /// How much it tries.
    fn effort(&self) -> Effort;

    /// A verdict for each contestant that is wanted, in their order, or why there is none. Asked once, after the reviewers, and only if a
    /// hypothesis needs it.
    fn judge(&mut self, wanted: &Wanted) -> Vec<Result<Verdict, String>>;
}

/// What hypotheses are to be decided by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which contestants, from 0.
    pub contestants: Vec<usize>,
    /// Whether the same input has to be given again.
    pub repeats: bool,
}

/// Judges nobody, and says why.
#[derive(Debug, Clone)]
pub struct Nobody(pub String);

impl Judge for Nobody {
    fn effort(&self) -> Effort {
        Effort::Standard
    }

    fn judge(&mut self, wanted: &Wanted) -> Vec<Result<Verdict, String>> {
        wanted.contestants.iter().map(|_| Err(self.0.clone())).collect()
    }
}
