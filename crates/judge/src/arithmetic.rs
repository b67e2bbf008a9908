//! Ways to add up, in a type of one's choice.

use std::ops::{Add, Div, Mul, Sub};

/// A working precision.
pub trait Real:
    Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The same number in float64.
    fn wide(self) -> f64;
    /// The square root.
    fn sqrt(self) -> Self;
    /// e to this power.
    fn exp(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            fn of(value: f64) -> Self {
                value as $type
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn ln(self) -> Self {
                self.ln()
            }
            fn mul_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
        }
    };
}
real!(f32);
real!(f64);

/// How exponentials and quotients are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exp {
    /// As the language does it.
    Library,
    /// Exponentials are 2 ulp of float32 low, but for exp(0), and quotients are truncated to float32.
    Low,
    /// As a power of two, with log2(e) rounded to float32.
    PowerOfTwo,
}

impl Exp {
    /// e to this power.
    pub fn of<T: Real>(self, power: T) -> T {
        match self {
            Self::Library => power.exp(),
            Self::Low if power.wide() == 0.0 => T::of(1.0),
            Self::Low => T::of(power.exp().wide() * (1.0 - 2f64.powi(-22))),
            Self::PowerOfTwo => T::of((power * T::of(f64::from(std::f32::consts::LOG2_E))).wide().exp2()),
        }
    }

    /// One through the other.
    pub fn quotient<T: Real>(self, dividend: T, divisor: T) -> T {
        let quotient = dividend / divisor;
        let exact = dividend.wide() / divisor.wide();
        if self == Self::Low && quotient.wide().abs() > exact.abs() {
            return T::of(f64::from((quotient.wide().abs() as f32).next_down()).copysign(exact));
        }
        quotient
    }
}

/// In which order terms are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// One running sum, however long.
    Running,
    /// Running sums of 1024 terms, then their sum.
    Blocks,
    /// A tree down to 8 terms.
    Tree,
    /// So many running sums side by side, with fused multiply-adds.
    Lanes(usize),
    /// Kahan's compensated sum.
    Compensated,
}

impl Sum {
    /// The sum of a product's terms.
    pub fn products<T: Real>(self, count: usize, terms: impl Fn(usize) -> (T, T)) -> T {
        let term = |index: usize| {
            let (a, b) = terms(index);
            a * b
        };
        match self {
            Self::Lanes(lanes) => lanes_of(lanes, count, |sum, index| {
                let (a, b) = terms(index);
                a.mul_add(b, sum)
            }),
            _ => self.terms(count, term),
        }
    }

    /// The sum of terms.
    pub fn terms<T: Real>(self, count: usize, term: impl Fn(usize) -> T) -> T {
        let zero = T::of(0.0);
        match self {
            Self::Running => (0..count).fold(zero, |sum, index| sum + term(index)),
            Self::Blocks => (0..count).step_by(1024).fold(zero, |sum, start| {
                sum + (start..count.min(start + 1024)).fold(zero, |sum, index| sum + term(index))
            }),
            Self::Tree => tree(0, count, &term),
            Self::Lanes(lanes) => lanes_of(lanes, count, |sum, index| sum + term(index)),
            Self::Compensated => {
                let (mut sum, mut lost) = (zero, zero);
                for index in 0..count {
                    let addend = term(index) - lost;
                    let next = sum + addend;
                    lost = (next - sum) - addend;
                    sum = next;
                }
                sum
            }
        }
    }
}

fn tree<T: Real>(start: usize, end: usize, term: &impl Fn(usize) -> T) -> T {
    if end - start <= 8 {
        return (start..end).fold(T::of(0.0), |sum, index| sum + term(index));
    }
    let middle = start + (end - start) / 2;
    tree(start, middle, term) + tree(middle, end, term)
}

fn lanes_of<T: Real>(lanes: usize, count: usize, step: impl Fn(T, usize) -> T) -> T {
    let mut sums = vec![T::of(0.0); lanes];
    for index in 0..count {
        sums[index % lanes] = step(sums[index % lanes], index);
    }
    tree(0, lanes, &|lane| sums[lane])
}
