//! Results rounded once, whatever the format and the direction.
//!
//! What f32 and halves compute is computed in f64 and *rounded to odd*: where bits are lost, the last that stays is a one. Such a value
//! lies on the same side of every number of a narrower format, and of every middle between two, as the exact one does, so that rounding it
//! is rounding the exact one.

use crate::program::Round;

/// A format narrower than f64: bits of the fraction, and the exponents of its normal numbers.
#[derive(Clone, Copy)]
pub struct Format {
    /// Bits of the fraction.
    pub fraction: i32,
    /// Of the least normal number.
    pub least: i32,
    /// Of the greatest.
    pub most: i32,
}

/// Half precision.
pub const F16: Format = Format { fraction: 10, least: -14, most: 15 };
/// Single precision.
pub const F32: Format = Format { fraction: 23, least: -126, most: 127 };
/// The upper half of f32.
pub const BF16: Format = Format { fraction: 7, least: -126, most: 127 };

/// Whether `.ftz` makes a zero of it: whether it is less than the least normal number of a format when it is rounded as if exponents had no
/// lower end. `value` is exact, or rounded to odd.
#[inline(always)]
pub fn is_tiny(value: f64, format: Format, round: Round) -> bool {
    let least = power(format.least);
    // Between the least normal number and what would be below it lies half a unit.
    let half = power(format.least - format.fraction - 2);
    match round {
        Round::Nearest => value.abs() < least - half,
        Round::Zero => value.abs() < least,
        Round::Down => value >= 2.0 * half - least && value < least,
        Round::Up => value > -least && value <= least - 2.0 * half,
    }
}

/// A power of two that is a normal number.
const fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `a + b`, rounded to odd. Neither the sum nor its error may overflow.
#[inline(always)]
pub fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let rest = sum - a;
    odd(sum, (a - (sum - rest)) + (b - rest))
}

/// `near + rest`, rounded to odd, where `near` is the nearest number to that. Only the sign of `rest` matters.
#[inline(always)]
pub fn odd(near: f64, rest: f64) -> f64 {
    let bits = near.to_bits();
    // Truncated, and then a one. Numbers of one sign are ordered as their bits are.
    let beyond = (bits ^ rest.to_bits()) >> 63;
    // Of infinities, `rest` is NaN.
    if rest.abs() > 0.0 { f64::from_bits((bits - beyond) | 1) } else { near }
}

/// The sum that is exactly zero has the sign of its terms; if they differ, that of the rounding.
#[inline(always)]
pub fn signed_sum(sum: f64, a: f64, b: f64, round: Round) -> f64 {
    if sum == 0.0 && round == Round::Down && (a.is_sign_negative() || b.is_sign_negative()) {
        -0.0
    } else {
        sum
    }
}

/// To f32.
#[inline(always)]
pub fn to_f32(value: f64, round: Round) -> f32 {
    let near = value as f32;
    let back = f64::from(near);
    let off = match round {
        Round::Nearest => false,
        Round::Zero => back.abs() > value.abs(),
        Round::Down => back > value,
        Round::Up => back < value,
    };
    match round {
        _ if !off => near,
        Round::Nearest => near,
        Round::Zero => f32::from_bits(near.to_bits() - 1),
        Round::Down => near.next_down(),
        Round::Up => near.next_up(),
    }
}

/// To a narrow format with an infinity; bits, with 0x7fff for NaN.
#[inline(always)]
pub fn to_narrow(value: f64, format: Format, round: Round) -> u32 {
    let bits = value.to_bits();
    let negative = bits >> 63 != 0;
    // Subnormals of f64 are below all that matters: their exponent may be any small one.
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let significand = bits & ((1 << 52) - 1) | 1 << 52;
    let zero = bits << 1 == 0;
    let lost = (52 - format.fraction + (format.least - exponent).max(0)).min(62) as u32;
    let kept = significand >> lost;
    let rest = significand & ((1 << lost) - 1);
    let half = 1 << (lost - 1);
    let up = match round {
        Round::Nearest => rest > half || rest == half && kept & 1 != 0,
        Round::Zero => false,
        Round::Down => rest != 0 && negative,
        Round::Up => rest != 0 && !negative,
    };
    // The leading one of a normal number adds one to the exponent below; a carry does so as well.
    let biased = (exponent - format.least).max(0) as u64;
    let rounded = (biased << format.fraction) + kept + u64::from(up);
    let infinity = ((format.most - format.least + 2) as u64) << format.fraction;
    let stays = match round {
        Round::Nearest => false,
        Round::Zero => true,
        Round::Down => !negative,
        Round::Up => negative,
    };
    let beyond = if stays && exponent < 1024 { infinity - 1 } else { infinity };
    let magnitude = if rounded >= infinity { beyond } else { rounded };
    let magnitude = if zero { 0 } else { magnitude };
    if value.is_nan() { 0x7fff } else { magnitude as u32 | (bits >> 48) as u32 & 0x8000 }
}

/// A number `significand * 2^exponent`, in which the last bit stands for all that is lost below it.
#[derive(Clone, Copy)]
pub struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

/// Where the leading bit of a significand is put before something is lost.
const TOP: u32 = 125;

impl Exact {
    /// A finite f64.
    pub fn of(value: f64) -> Exact {
        let bits = value.to_bits();
        let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let leading = if biased == 0 { 0 } else { 1 << 52 };
        Exact {
            negative: bits >> 63 != 0,
            significand: u128::from(fraction | leading),
            exponent: biased.max(1) - 1075,
        }
    }

    /// An integer.
    pub fn of_integer(negative: bool, magnitude: u64) -> Exact {
        Exact { negative, significand: magnitude.into(), exponent: 0 }
    }

    fn normalised(self) -> Exact {
        match self.significand {
            0 => Exact { exponent: i32::MIN / 4, ..self },
            significand => {
                let shift = significand.leading_zeros() as i32 - (127 - TOP as i32);
                Exact { significand: significand << shift, exponent: self.exponent - shift, ..self }
            }
        }
    }

    /// The product. Significands must not have more than 64 bits.
    pub fn times(self, other: Exact) -> Exact {
        Exact {
            negative: self.negative != other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent,
        }
    }

    /// The sum. Significands must not have more than 106 bits, so that nothing is lost where leading bits vanish.
    pub fn plus(self, other: Exact, round: Round) -> Exact {
        let (a, b) = (self.normalised(), other.normalised());
        let (large, small) =
            if (a.exponent, a.significand) >= (b.exponent, b.significand) { (a, b) } else { (b, a) };
        let apart = (large.exponent - small.exponent).min(127) as u32;
        let lost = small.significand & ((1 << apart) - 1) != 0;
        let small_significand = small.significand >> apart | u128::from(lost);
        let significand = if large.negative == small.negative {
            large.significand + small_significand
        } else {
            large.significand - small_significand
        };
        let negative = match significand {
            0 if self.negative != other.negative => round == Round::Down,
            _ => large.negative,
        };
        Exact { negative, significand, exponent: large.exponent }
    }

    /// The quotient; `other` is not zero, and neither has more than 53 bits.
    pub fn over(self, other: Exact) -> Exact {
        let a = self.normalised();
        let quotient = a.significand / other.significand;
        let lost = !a.significand.is_multiple_of(other.significand);
        Exact {
            negative: self.negative != other.negative,
            // Two bits more, so that the last stands for what is lost alone.
            significand: quotient << 2 | u128::from(lost),
            exponent: a.exponent - other.exponent - 2,
        }
    }

    /// The square root of a number that is not negative.
    pub fn root(self) -> Exact {
        let a = self.normalised();
        let even = a.exponent & !1;
        let square = a.significand << (a.exponent - even);
        let root = square.isqrt();
        let lost = root * root != square;
        Exact { negative: self.negative, significand: root << 2 | u128::from(lost), exponent: even / 2 - 2 }
    }

    /// The nearest f64, or the next in the direction.
    pub fn to_f64(self, round: Round) -> f64 {
        let sign = u64::from(self.negative) << 63;
        if self.significand == 0 {
            return f64::from_bits(sign);
        }
        let top = 127 - self.significand.leading_zeros() as i32;
        // The last bit that is kept is that of 2^-1074 at least.
        let lost = (top - 52).max(-1074 - self.exponent);
        let (kept, rest, half) = match lost {
            ..=0 => ((self.significand << -lost) as u64, 0, 1),
            1..=126 => {
                let kept = (self.significand >> lost) as u64;
                (kept, self.significand & ((1 << lost) - 1), 1 << (lost - 1))
            }
            _ => (0, 1, 2),
        };
        let up = match round {
            Round::Nearest => rest > half || rest == half && kept & 1 != 0,
            Round::Zero => false,
            Round::Down => rest != 0 && self.negative,
            Round::Up => rest != 0 && !self.negative,
        };
        let biased = (self.exponent + lost + 1074) as u64;
        let infinity = f64::INFINITY.to_bits();
        let rounded = if biased > 2046 { infinity } else { (biased << 52) + kept + u64::from(up) };
        let stays = match round {
            Round::Nearest => false,
            Round::Zero => true,
            Round::Down => !self.negative,
            Round::Up => self.negative,
        };
        let magnitude = if rounded < infinity {
            rounded
        } else if stays {
            infinity - 1
        } else {
            infinity
        };
        f64::from_bits(magnitude | sign)
    }
}
