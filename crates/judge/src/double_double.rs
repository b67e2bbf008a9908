//! Numbers of about 32 digits: the unevaluated sum of two doubles.
//!
//! An oracle for float64 kernels needs more than float64 where its terms cancel: the deviations of a row with mean
//! 1e14 and variance 1 have no correct digit left after a sum in doubles. Five operations do, so this is a type of
//! its own rather than a dependency (Dekker 1971; Shewchuk 1997, two-sum and two-product; the division and the root
//! are one or two Newton steps on the double's).

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// A number with twice a double's digits. The error of each operation is a few units of 2^-104.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct DoubleDouble {
    high: f64,
    low: f64,
}

impl DoubleDouble {
    /// Zero.
    pub(crate) const ZERO: Self = Self { high: 0.0, low: 0.0 };

    /// The exact sum of two doubles.
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let b_seen = high - a;
        Self { high, low: (a - (high - b_seen)) + (b - b_seen) }
    }

    /// The exact product of two doubles, short of underflow.
    pub(crate) fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self { high, low: a.mul_add(b, -high) }
    }

    /// The nearest double.
    pub(crate) fn value(self) -> f64 {
        self.high
    }

    /// The square root; NaN for negative numbers.
    pub(crate) fn sqrt(self) -> Self {
        if self.high <= 0.0 {
            return Self::from(self.high.sqrt());
        }
        let root = self.high.sqrt();
        let rest = self - Self::product(root, root);
        normalised(root, rest.high / (2.0 * root))
    }
}

/// The sum of two doubles of which the first is the larger.
fn normalised(large: f64, small: f64) -> DoubleDouble {
    let high = large + small;
    DoubleDouble { high, low: small - (high - large) }
}

impl From<f64> for DoubleDouble {
    fn from(value: f64) -> Self {
        Self { high: value, low: 0.0 }
    }
}

impl Neg for DoubleDouble {
    type Output = Self;

    fn neg(self) -> Self {
        Self { high: -self.high, low: -self.low }
    }
}

impl Add for DoubleDouble {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = Self::sum(self.high, other.high);
        let low = Self::sum(self.low, other.low);
        let sum = normalised(high.high, high.low + low.high);
        normalised(sum.high, sum.low + low.low)
    }
}

impl AddAssign for DoubleDouble {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for DoubleDouble {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for DoubleDouble {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let product = Self::product(self.high, other.high);
        normalised(product.high, product.low + (self.high * other.low + self.low * other.high))
    }
}

impl Div for DoubleDouble {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let rest = self - other * Self::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Self::from(second);
        normalised(first, second) + Self::from(rest.high / other.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: DoubleDouble, b: DoubleDouble) -> bool {
        (a - b).value().abs() <= 1e-30 * b.value().abs().max(1e-300)
    }

    #[test]
    fn what_a_double_loses_is_kept() {
        let tiny = DoubleDouble::sum(1e14, 1e-14) - DoubleDouble::from(1e14);
        assert_eq!(tiny.value(), 1e-14);
        assert_eq!(DoubleDouble::product(1.0 + f64::EPSILON, 1.0 + f64::EPSILON).low, f64::EPSILON.powi(2));
    }

    #[test]
    fn quotient_and_root_undo_product_and_square() {
        for value in [3.0, 0.1, 1e-20, 7e19] {
            let (a, b) = (DoubleDouble::from(value), DoubleDouble::from(0.7));
            assert!(close(a * b / b, a), "{value}");
            assert!(close(a.sqrt() * a.sqrt(), a), "{value}");
        }
    }

    #[test]
    fn nothing_stays_nothing_and_nan_stays_nan() {
        assert_eq!(DoubleDouble::ZERO.sqrt().value(), 0.0);
        assert!((DoubleDouble::from(f64::NAN) + DoubleDouble::from(1.0)).value().is_nan());
        assert!((DoubleDouble::from(1.0) / DoubleDouble::ZERO).value().is_nan());
    }
}
