//! f16 and bf16, alone and in pairs.
//!
//! Both are computed in f64, where products are exact and sums are rounded to odd, and rounded once. A NaN that is computed is 0x7fff.

use crate::program::{Float, Float1, Float2, Inst, Mode, Round};
use crate::registers::Registers;

use super::functions;
use super::lanes::{map1, map2, map3};
use super::rounding::{BF16, F16, is_tiny, odd, odd_sum, to_narrow};

/// The canonical NaN of both formats.
const NAN: u32 = 0x7fff;

/// The value of a half, which lies in the lower 16 bits with zeros above: of bf16 or of f16.
#[inline(always)]
pub fn value<const BF: bool>(bits: u32) -> f64 {
    if BF { f32::from_bits(bits << 16).into() } else { f16_to_f32(bits).into() }
}

/// The value of an f16.
#[inline(always)]
pub fn f16_to_f32(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = (bits & 0x7fff) << 13;
    // The exponents differ by 112. No subnormal f32 comes up on the way: processors take a detour for those.
    let normal = magnitude + (112 << 23);
    let subnormal = f32::from_bits(magnitude | 113 << 23) - f32::from_bits(113 << 23);
    let magnitude = match bits & 0x7c00 {
        0 => subnormal.to_bits(),
        0x7c00 => magnitude | 0x7f80_0000,
        _ => normal,
    };
    f32::from_bits(magnitude | sign)
}

/// The nearest half of an f32, or the next in the direction.
#[inline(always)]
pub fn rounded<const BF: bool>(value: f64, round: Round) -> u32 {
    to_narrow(value, if BF { BF16 } else { F16 }, round)
}

/// The nearest half of an f32: in 32 bits, where twice as many lanes go at once.
#[inline(always)]
pub fn nearest<const BF: bool>(value: f32) -> u32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let rounded = if BF {
        // The upper half of the f32, with one more for a rest above a half, or of a half where the last bit is odd.
        magnitude.wrapping_add(0x7fff + (magnitude >> 16 & 1)) >> 16
    } else {
        // Adding a half moves a subnormal result to the last bits, rounded.
        let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let large = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + (magnitude >> 13 & 1)) >> 13;
        let number = if magnitude < 113 << 23 { small } else { large };
        if magnitude >= 0x4780_0000 { 0x7c00 } else { number }
    };
    if value.is_nan() { NAN } else { rounded | bits >> 16 & 0x8000 }
}

/// A zero in place of a subnormal f16.
#[inline(always)]
pub fn flush(bits: u32) -> u32 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits }
}

#[inline(always)]
fn is_nan<const BF: bool>(bits: u32) -> bool {
    bits & 0x7fff > if BF { 0x7f80 } else { 0x7c00 }
}

/// Flushes what goes in. Of bf16, `ex2` alone has `.ftz`.
#[inline(always)]
fn input<const BF: bool>(bits: u32, mode: Mode) -> u32 {
    match (mode.ftz, BF) {
        (false, _) => bits,
        (true, false) => flush(bits),
        (true, true) => super::float::flush(bits << 16) >> 16,
    }
}

#[inline(always)]
fn output<const BF: bool>(exact: f64, mode: Mode) -> u32 {
    let tiny = mode.ftz && is_tiny(exact, if BF { BF16 } else { F16 }, mode.round);
    let bits = if tiny { (exact.to_bits() >> 48) as u32 & 0x8000 } else { rounded::<BF>(exact, mode.round) };
    if !mode.sat {
        return bits;
    }
    let one = if BF { 0x3f80 } else { 0x3c00 };
    if bits > 0x7fff || is_nan::<BF>(bits) { 0 } else { bits.min(one) }
}

/// The nearest f64 to `a / b` moved so that rounding it is rounding the quotient.
#[inline(always)]
fn quotient(a: f64, b: f64) -> f64 {
    let near = a / b;
    let rest = (-near).mul_add(b, a);
    odd(near, if b < 0.0 { -rest } else { rest })
}

/// One operation of two halves.
#[inline(always)]
pub fn two_of<const BF: bool>(op: Float2, mode: Mode, a: u32, b: u32) -> u32 {
    let (a, b) = (input::<BF>(a, mode), input::<BF>(b, mode));
    let (x, y) = (value::<BF>(a), value::<BF>(b));
    match op {
        // f32 has more than twice the bits of a half and two more: rounding to it first changes nothing, if the result is not subnormal in it.
        Float2::Add if mode == USUAL => nearest::<BF>(x as f32 + y as f32),
        Float2::Sub if mode == USUAL => nearest::<BF>(x as f32 - y as f32),
        Float2::Mul if mode == USUAL && !BF => nearest::<BF>(x as f32 * y as f32),
        Float2::Add => output::<BF>(odd_sum(x, y), mode),
        Float2::Sub => output::<BF>(odd_sum(x, -y), mode),
        Float2::Mul => output::<BF>(x * y, mode),
        Float2::Div | Float2::DivApprox => output::<BF>(quotient(x, y), mode),
        Float2::Min => extreme::<BF>(a, b, false, false),
        Float2::Max => extreme::<BF>(a, b, true, false),
        Float2::MinNan => extreme::<BF>(a, b, false, true),
        Float2::MaxNan => extreme::<BF>(a, b, true, true),
        Float2::CopySign => b & 0x7fff | a & 0x8000,
    }
}

#[inline(always)]
fn extreme<const BF: bool>(a: u32, b: u32, max: bool, nan: bool) -> u32 {
    let (a_nan, b_nan) = (is_nan::<BF>(a), is_nan::<BF>(b));
    let ordered = |bits: u32| if bits & 0x8000 != 0 { -1 - (bits & 0x7fff) as i32 } else { bits as i32 };
    let either = if (ordered(a) > ordered(b)) == max { a } else { b };
    let number = if a_nan { b } else { a };
    let value = if a_nan | b_nan { number } else { either };
    if a_nan & b_nan | nan & (a_nan | b_nan) { NAN } else { value }
}

#[inline(always)]
fn fma_of<const BF: bool>(mode: Mode, relu: bool, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (input::<BF>(a, mode), input::<BF>(b, mode), input::<BF>(c, mode));
    let product = value::<BF>(a) * value::<BF>(b);
    let bits = output::<BF>(odd_sum(product, value::<BF>(c)), mode);
    if relu && bits > 0x7fff { 0 } else { bits }
}

#[inline(always)]
fn one_of<const BF: bool>(op: Float1, mode: Mode, a: u32) -> u32 {
    let a = input::<BF>(a, mode);
    let x = value::<BF>(a);
    let exact = match op {
        Float1::Neg => return a ^ 0x8000,
        Float1::Abs => return a & 0x7fff,
        Float1::Sqrt | Float1::SqrtApprox => x.sqrt(),
        Float1::Rsqrt => 1.0 / x.sqrt(),
        Float1::Rcp | Float1::RcpApprox => quotient(1.0, x),
        Float1::Ex2 => functions::exp2(x),
        Float1::Lg2 => functions::log2(x),
        Float1::Sin => libm::sin(x),
        Float1::Cos => libm::cos(x),
        Float1::Tanh => libm::tanh(x),
    };
    output::<BF>(exact, mode)
}

/// What is done with halves, done with both of a pair.
#[inline(always)]
pub fn both(pair: bool, [a, b, c]: [u32; 3], of: impl Fn(u32, u32, u32) -> u32) -> u32 {
    let lower = of(a & 0xffff, b & 0xffff, c & 0xffff);
    if pair { lower | of(a >> 16, b >> 16, c >> 16) << 16 } else { lower }
}

/// Whether it is a pair, and whether it is of bf16.
#[inline(always)]
pub fn kind(ty: Float) -> (bool, bool) {
    (matches!(ty, Float::F16x2 | Float::Bf16x2), matches!(ty, Float::Bf16 | Float::Bf16x2))
}

/// The usual mode has a loop of its own, so that it becomes one of vectors.
const USUAL: Mode = Mode { round: Round::Nearest, ftz: false, sat: false };

/// [`Op::Float2`](crate::program::Op::Float2) of halves.
#[inline(always)]
pub fn two(op: Float2, ty: Float, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) {
    macro_rules! usual {
        ($($op:ident)*) => {
            match (op, kind(ty)) {
                $(
                    (Float2::$op, (pair, false)) if mode == USUAL => each!(map2(regs, inst, mask), |a, b| {
                        each!(both(pair, [a, b, 0]), |a, b, _| two_of::<false>(Float2::$op, USUAL, a, b))
                    }),
                    (Float2::$op, (pair, true)) if mode == USUAL => each!(map2(regs, inst, mask), |a, b| {
                        each!(both(pair, [a, b, 0]), |a, b, _| two_of::<true>(Float2::$op, USUAL, a, b))
                    }),
                )*
                (_, (pair, bf)) => each!(map2(regs, inst, mask), |a, b| each!(both(pair, [a, b, 0]), |a, b, _| {
                    if bf { two_of::<true>(op, mode, a, b) } else { two_of::<false>(op, mode, a, b) }
                })),
            }
        };
    }
    usual!(Add Sub Mul Min Max);
}

/// [`Op::Float1`](crate::program::Op::Float1) of halves.
#[inline(always)]
pub fn one(op: Float1, ty: Float, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) {
    let (pair, bf) = kind(ty);
    each!(map1(regs, inst, mask), |a| {
        both(
            pair,
            [a, 0, 0],
            |a, _, _| {
                if bf { one_of::<true>(op, mode, a) } else { one_of::<false>(op, mode, a) }
            },
        )
    });
}

/// [`Op::Fma`](crate::program::Op::Fma) of halves.
#[inline(always)]
pub fn fma(ty: Float, mode: Mode, relu: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    match (mode, relu, kind(ty)) {
        (USUAL, false, (pair, false)) => each!(map3(regs, inst, mask), |a, b, c| {
            each!(both(pair, [a, b, c]), |a, b, c| fma_of::<false>(USUAL, false, a, b, c))
        }),
        (USUAL, false, (pair, true)) => each!(map3(regs, inst, mask), |a, b, c| {
            each!(both(pair, [a, b, c]), |a, b, c| fma_of::<true>(USUAL, false, a, b, c))
        }),
        (_, _, (pair, bf)) => each!(map3(regs, inst, mask), |a, b, c| {
            each!(both(pair, [a, b, c]), |a, b, c| {
                if bf { fma_of::<true>(mode, relu, a, b, c) } else { fma_of::<false>(mode, relu, a, b, c) }
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_f16_has_its_value() {
        for bits in 0..=u16::MAX {
            let (value, expected) = (super::f16_to_f32(bits.into()), ::half::f16::from_bits(bits).to_f32());
            assert!(
                value.to_bits() == expected.to_bits() || value.is_nan() && expected.is_nan(),
                "{bits:#06x}: {value}, not {expected}"
            );
        }
    }
}
