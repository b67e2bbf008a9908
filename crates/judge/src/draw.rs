//! Random contents of cases.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Draws numbers one after the other.
pub struct Draw(pub ChaCha8Rng);

impl Draw {
    /// Uniform in 0 … 1, 1 excluded.
    pub fn uniform(&mut self) -> f64 {
        self.0.random()
    }

    /// Normal with mean 0 and variance 1, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Uniform in 0 … count, count excluded.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }
}
