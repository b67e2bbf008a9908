//! Implementations in this process whose verdict is known: honest ones in several arithmetics, and mutants with one
//! defect each. They calibrate a court.

use crate::Subject;

/// An implementation.
pub struct Variant {
    /// What it is called in tables.
    pub name: &'static str,
    make: Box<dyn Fn() -> Box<dyn Subject> + Send + Sync>,
}

impl Variant {
    /// An implementation that stands where a submission would.
    pub fn new<S: Subject + 'static>(
        name: &'static str,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> Self {
        Self { name, make: Box::new(move || Box::new(make())) }
    }

    /// Puts it where a submission would stand.
    pub fn stand(&self) -> Box<dyn Subject> {
        (self.make)()
    }
}

/// A wrong implementation.
pub struct Mutant {
    /// The implementation.
    pub variant: Variant,
    /// What it must be called; a mutant without a name must be caught all the same.
    pub suspect: Option<&'static str>,
}

/// All implementations of a challenge.
pub struct Variants {
    /// Right ones, each in an arithmetic of its own.
    pub honest: Vec<Variant>,
    /// Wrong ones, one defect each.
    pub mutants: Vec<Mutant>,
}
