//! Where the contents of hidden tests come from.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use sha2::{Digest, Sha256};

/// The seed of a judging. The same seed gives the same inputs, on any machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The published seed, for verdicts that anybody can repeat.
    pub const PUBLIC: Self = Self(20_260_421);

    /// A seed nobody could have guessed.
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// A generator of its own for each `purpose`, so that adding one case moves no other's inputs.
    pub fn rng(self, purpose: &str) -> ChaCha8Rng {
        let mut hash = Sha256::new();
        hash.update(self.0.to_le_bytes());
        hash.update(purpose.as_bytes());
        ChaCha8Rng::from_seed(hash.finalize().into())
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
