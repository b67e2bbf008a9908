//! Exact arithmetic on binary fractions of any size, and rounding by looking for the two neighbours: plain, slow, and nothing of it shared
//! with what it checks.

use std::cmp::Ordering;

use crate::program::Round;

/// `digits * 2^exponent`, with digits of 32 bits, the lowest first.
#[derive(Clone, Debug)]
pub struct Fraction {
    negative: bool,
    digits: Vec<u32>,
    exponent: i32,
}

impl Fraction {
    pub fn integer(value: i128) -> Fraction {
        let magnitude = value.unsigned_abs();
        let digits = (0..4).map(|i| (magnitude >> (32 * i)) as u32).collect();
        Fraction { negative: value < 0, digits, exponent: 0 }.trimmed()
    }

    /// A finite number of a format, and what would follow the largest.
    pub fn of(format: Format, bits: u64) -> Fraction {
        let field = bits >> format.fraction & ((1 << format.exponent) - 1);
        let fraction = bits & ((1 << format.fraction) - 1);
        let bias = (1 << (format.exponent - 1)) - 1;
        let magnitude = if field == 0 { fraction } else { fraction | 1 << format.fraction };
        Fraction {
            negative: bits >> (format.fraction + format.exponent) & 1 != 0,
            exponent: field.max(1) as i32 - bias - format.fraction as i32,
            ..Fraction::integer(magnitude.into())
        }
    }

    fn trimmed(mut self) -> Fraction {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
        self
    }

    pub fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub fn is_negative(&self) -> bool {
        self.negative
    }

    pub fn magnitude(&self) -> Fraction {
        Fraction { negative: false, ..self.clone() }
    }

    pub fn negated(&self) -> Fraction {
        Fraction { negative: !self.negative, ..self.clone() }
    }

    pub fn halved(&self) -> Fraction {
        Fraction { exponent: self.exponent - 1, ..self.clone() }
    }

    pub fn times(&self, other: &Fraction) -> Fraction {
        let mut digits = vec![0u32; self.digits.len() + other.digits.len()];
        for (i, &x) in self.digits.iter().enumerate() {
            let mut carry = 0u64;
            for (j, &y) in other.digits.iter().enumerate() {
                let sum = u64::from(x) * u64::from(y) + u64::from(digits[i + j]) + carry;
                digits[i + j] = sum as u32;
                carry = sum >> 32;
            }
            digits[i + other.digits.len()] = carry as u32;
        }
        let negative = self.negative != other.negative;
        Fraction { negative, digits, exponent: self.exponent + other.exponent }.trimmed()
    }

    /// The digits for a lower exponent.
    fn at(&self, exponent: i32) -> Vec<u32> {
        let shift = (self.exponent - exponent) as usize;
        let mut digits = vec![0; shift / 32];
        let mut carry = 0u64;
        for &digit in &self.digits {
            let shifted = (u64::from(digit) << (shift % 32)) | carry;
            digits.push(shifted as u32);
            carry = shifted >> 32;
        }
        digits.push(carry as u32);
        digits
    }

    pub fn plus(&self, other: &Fraction) -> Fraction {
        if self.is_zero() || other.is_zero() {
            return if self.is_zero() { other.clone() } else { self.clone() };
        }
        let exponent = self.exponent.min(other.exponent);
        let (mut x, mut y) = (self.at(exponent), other.at(exponent));
        let length = x.len().max(y.len()) + 1;
        x.resize(length, 0);
        y.resize(length, 0);
        let mut negative = self.negative;
        if self.negative != other.negative && x.iter().rev().lt(y.iter().rev()) {
            std::mem::swap(&mut x, &mut y);
            negative = other.negative;
        }
        let mut carry = 0i64;
        for (x, &y) in x.iter_mut().zip(&y) {
            let y = if self.negative == other.negative { i64::from(y) } else { -i64::from(y) };
            let sum = i64::from(*x) + y + carry;
            *x = sum as u32;
            carry = sum >> 32;
        }
        Fraction { negative, digits: x, exponent }.trimmed()
    }

    pub fn compare(&self, other: &Fraction) -> Ordering {
        let difference = self.plus(&other.negated());
        match (difference.is_zero(), difference.negative) {
            (true, _) => Ordering::Equal,
            (false, true) => Ordering::Less,
            (false, false) => Ordering::Greater,
        }
    }
}

/// A format of IEEE 754: bits of the fraction and of the exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    pub fraction: u32,
    pub exponent: u32,
}

pub const F16: Format = Format { fraction: 10, exponent: 5 };
pub const BF16: Format = Format { fraction: 7, exponent: 8 };
pub const F32: Format = Format { fraction: 23, exponent: 8 };
pub const F64: Format = Format { fraction: 52, exponent: 11 };

impl Format {
    pub fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    pub fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    pub fn is_infinite(self, bits: u64) -> bool {
        bits & (self.sign() - 1) == self.infinity()
    }

    pub fn is_finite(self, bits: u64) -> bool {
        bits & (self.sign() - 1) < self.infinity()
    }

    pub fn is_zero(self, bits: u64) -> bool {
        bits & (self.sign() - 1) == 0
    }

    pub fn is_subnormal(self, bits: u64) -> bool {
        !self.is_zero(bits) && bits & self.infinity() == 0
    }

    /// The NaN that results have.
    pub fn nan(self) -> u64 {
        match self.fraction {
            52 => 0x7ff8_0000_0000_0000,
            23 => 0x7fff_ffff,
            _ => 0x7fff,
        }
    }

    pub fn one(self) -> u64 {
        ((1 << (self.exponent - 1)) - 1) << self.fraction
    }

    /// A zero in place of a subnormal number.
    pub fn flushed(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) { bits & self.sign() } else { bits }
    }

    pub fn least_normal(self) -> u64 {
        1 << self.fraction
    }

    pub fn magnitude(self, bits: u64) -> u64 {
        bits & (self.sign() - 1)
    }

    /// A format of as many bits with so large exponents that no result of this one is subnormal in it.
    pub fn larger(self) -> Format {
        Format { exponent: self.exponent + 2, ..self }
    }

    /// A number that is not subnormal, or none, in [the larger](Self::larger) format.
    pub fn widened(self, bits: u64) -> u64 {
        let (magnitude, larger) = (self.magnitude(bits), self.larger());
        let sign = if bits & self.sign() != 0 { larger.sign() } else { 0 };
        sign | match magnitude {
            0 => 0,
            magnitude if magnitude >= self.infinity() => larger.infinity() | (magnitude - self.infinity()),
            magnitude => magnitude + larger.one() - self.one(),
        }
    }

    /// The value as an f64, which holds them all.
    pub fn value(self, bits: u64) -> f64 {
        let sign = if bits & self.sign() != 0 { -1.0 } else { 1.0 };
        let field = bits >> self.fraction & ((1 << self.exponent) - 1);
        let fraction = (bits & ((1 << self.fraction) - 1)) as f64;
        let bias = (1 << (self.exponent - 1)) - 1;
        if self.is_nan(bits) {
            f64::NAN
        } else if self.is_infinite(bits) {
            sign * f64::INFINITY
        } else if self.fraction == 52 {
            f64::from_bits(bits)
        } else if field == 0 {
            sign * fraction * 2f64.powi(1 - bias - self.fraction as i32)
        } else {
            sign * (fraction + 2f64.powi(self.fraction as i32))
                * 2f64.powi(field as i32 - bias - self.fraction as i32)
        }
    }

    /// The number of this format for one whose magnitude is compared with candidates by `compare`.
    pub fn rounded(self, negative: bool, round: Round, compare: &dyn Fn(&Fraction) -> Ordering) -> u64 {
        // The largest that is not above it.
        let (mut below, mut above) = (0, self.infinity());
        while above - below > 1 {
            let middle = (below + above) / 2;
            if compare(&Fraction::of(self, middle)).is_lt() { above = middle } else { below = middle }
        }
        let (low, high) = (Fraction::of(self, below), Fraction::of(self, above));
        let up = match round {
            _ if compare(&low).is_eq() => false,
            Round::Nearest => match compare(&low.plus(&high).halved()) {
                Ordering::Less => false,
                Ordering::Equal => below % 2 == 1,
                Ordering::Greater => true,
            },
            Round::Zero => false,
            Round::Down => negative,
            Round::Up => !negative,
        };
        let sign = if negative { self.sign() } else { 0 };
        sign | if up { above } else { below }
    }

    /// A fraction that is not zero.
    pub fn nearest(self, exact: &Fraction, round: Round) -> u64 {
        let magnitude = exact.magnitude();
        self.rounded(exact.is_negative(), round, &|candidate| magnitude.compare(candidate))
    }

    /// The bits of a special result, which is not finite or is zero.
    fn special(self, value: f64) -> u64 {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        match value {
            value if value.is_nan() => self.nan(),
            value if value.is_infinite() => sign | self.infinity(),
            _ => sign,
        }
    }

    /// A sum that is exactly zero.
    fn zero_sum(self, a_negative: bool, b_negative: bool, round: Round) -> u64 {
        let negative = if a_negative == b_negative { a_negative } else { round == Round::Down };
        if negative { self.sign() } else { 0 }
    }

    pub fn add(self, a: u64, b: u64, round: Round) -> u64 {
        if !self.is_finite(a) || !self.is_finite(b) {
            return self.special(self.value(a) + self.value(b));
        }
        let (x, y) = (Fraction::of(self, a), Fraction::of(self, b));
        let sum = x.plus(&y);
        if sum.is_zero() { self.zero_sum(x.negative, y.negative, round) } else { self.nearest(&sum, round) }
    }

    pub fn multiply(self, a: u64, b: u64, round: Round) -> u64 {
        if !self.is_finite(a) || !self.is_finite(b) || self.is_zero(a) || self.is_zero(b) {
            return self.special(self.value(a) * self.value(b));
        }
        self.nearest(&Fraction::of(self, a).times(&Fraction::of(self, b)), round)
    }

    pub fn fma(self, a: u64, b: u64, c: u64, round: Round) -> u64 {
        if ![a, b, c].iter().all(|&bits| self.is_finite(bits)) {
            // An infinity or NaN among them makes the rounding of the product immaterial, if it does not overflow.
            let sign = |bits: u64| if bits & self.sign() != 0 { -1.0 } else { 1.0 };
            let product = if self.is_finite(a) && self.is_finite(b) {
                sign(a) * sign(b)
            } else {
                self.value(a) * self.value(b)
            };
            return self.special(product + self.value(c));
        }
        let (x, y, z) = (Fraction::of(self, a), Fraction::of(self, b), Fraction::of(self, c));
        let product = x.times(&y);
        let sum = product.plus(&z);
        if sum.is_zero() {
            self.zero_sum(x.negative != y.negative, z.negative, round)
        } else {
            self.nearest(&sum, round)
        }
    }

    pub fn divide(self, a: u64, b: u64, round: Round) -> u64 {
        if !self.is_finite(a) || !self.is_finite(b) || self.is_zero(a) || self.is_zero(b) {
            return self.special(self.value(a) / self.value(b));
        }
        let (x, y) = (Fraction::of(self, a), Fraction::of(self, b));
        let (dividend, divisor) = (x.magnitude(), y.magnitude());
        self.rounded(x.negative != y.negative, round, &|candidate| {
            dividend.compare(&candidate.times(&divisor))
        })
    }

    pub fn root(self, a: u64, round: Round) -> u64 {
        if !self.is_finite(a) || self.is_zero(a) || a & self.sign() != 0 {
            return self.special(self.value(a).sqrt());
        }
        let square = Fraction::of(self, a);
        self.rounded(false, round, &|candidate| square.compare(&candidate.times(candidate)))
    }

    /// Of 0 to 1, with +0 for NaN.
    pub fn saturated(self, bits: u64) -> u64 {
        match bits {
            bits if self.is_nan(bits) || bits & self.sign() != 0 => 0,
            bits => bits.min(self.one()),
        }
    }

    /// The least or greatest.
    pub fn extreme(self, a: u64, b: u64, max: bool, nan: bool) -> u64 {
        if nan && (self.is_nan(a) || self.is_nan(b)) || self.is_nan(a) && self.is_nan(b) {
            return self.nan();
        }
        if self.is_nan(a) || self.is_nan(b) {
            return if self.is_nan(a) { b } else { a };
        }
        let (x, y) = (self.value(a), self.value(b));
        let a_is_less = if x == y { a & self.sign() != 0 } else { x < y };
        if a_is_less != max { a } else { b }
    }
}
