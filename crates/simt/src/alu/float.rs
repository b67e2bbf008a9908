//! f32 and f64.
//!
//! Sums, products, quotients and roots are rounded once in all four directions. A NaN that is computed is the one the PTX ISA calls
//! canonical, 0x7fffffff; for f64, where it leaves that open, 0x7ff8000000000000. Results are flushed to zero where they
//! [are tiny](is_tiny).//! `neg` and `abs` change the sign of a NaN alone.

use crate::program::{Float1, Float2, Inst, Mode, Round};
use crate::registers::Registers;

use super::functions;
use super::lanes::{long1, long2, long3, map1, map2, map3};
use super::rounding::{Exact, F32, is_tiny, odd, odd_sum, signed_sum, to_f32};

/// Bits of an f32, with one NaN alone.
#[inline(always)]
pub fn bits32(value: f32) -> u32 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits() }
}

/// Bits of an f64, with one NaN alone.
#[inline(always)]
pub fn bits64(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8_0000_0000_0000 } else { value.to_bits() }
}

/// Zeros of their sign in place of subnormal numbers, of f32 as bits.
#[inline(always)]
pub fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// The same of f64.
#[inline(always)]
fn flush64(bits: u64) -> u64 {
    if bits & 0x7ff << 52 == 0 { bits & 1 << 63 } else { bits }
}

#[inline(always)]
fn flush_if(ftz: bool, bits: u32) -> u32 {
    if ftz { flush(bits) } else { bits }
}

/// Within 0 and 1, and +0 for NaN.
#[inline(always)]
fn saturate(value: f32) -> f32 {
    if value > 0.0 { value.min(1.0) } else { 0.0 }
}

const NEAREST: Mode = Mode { round: Round::Nearest, ftz: false, sat: false };
const NEAREST_FTZ: Mode = Mode { ftz: true, ..NEAREST };

/// Sums, products and extremes of f32, rounded to nearest.
#[inline(always)]
pub fn two32(op: Float2, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) -> bool {
    match (op, mode) {
        (Float2::Add, NEAREST) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Add, a, b, false)),
        (Float2::Sub, NEAREST) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Sub, a, b, false)),
        (Float2::Mul, NEAREST) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Mul, a, b, false)),
        (Float2::Add, NEAREST_FTZ) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Add, a, b, true)),
        (Float2::Sub, NEAREST_FTZ) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Sub, a, b, true)),
        (Float2::Mul, NEAREST_FTZ) => each!(map2(regs, inst, mask), |a, b| near2(Float2::Mul, a, b, true)),
        (Float2::Min, NEAREST) => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, false, false, false)),
        (Float2::Max, NEAREST) => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, true, false, false)),
        _ => return false,
    }
    true
}

#[inline(always)]
fn near2(op: Float2, a: u32, b: u32, ftz: bool) -> u32 {
    let (a, b) = (single(a, ftz), single(b, ftz));
    let value = match op {
        Float2::Add => a + b,
        Float2::Sub => a - b,
        Float2::Mul => a * b,
        _ => a / b,
    };
    // Of other operations no tiny result becomes a normal number.
    if ftz && op == Float2::Mul && is_tiny(f64::from(a) * f64::from(b), F32, Round::Nearest) {
        return bits32(value) & 0x8000_0000;
    }
    flush_if(ftz, bits32(value))
}

/// The quotient, but zero for a divisor beyond 2^126: hardware multiplies by its inverse, and makes zero of that.
#[inline(always)]
fn approximate_quotient(a: u32, b: u32, ftz: bool) -> u32 {
    const LARGE: u32 = (126 + 127) << 23;
    if (LARGE + 1..0x7f80_0000).contains(&(b & 0x7fff_ffff)) {
        near2(Float2::Mul, a, b & 0x8000_0000, ftz)
    } else {
        near2(Float2::Div, a, b, ftz)
    }
}

#[inline(always)]
fn single(bits: u32, ftz: bool) -> f32 {
    f32::from_bits(flush_if(ftz, bits))
}

#[inline(always)]
fn near3(a: u32, b: u32, c: u32, ftz: bool) -> u32 {
    let (a, b, c) = (single(a, ftz), single(b, ftz), single(c, ftz));
    let bits = bits32(a.mul_add(b, c));
    if ftz && is_tiny(odd_sum(f64::from(a) * f64::from(b), c.into()), F32, Round::Nearest) {
        return bits & 0x8000_0000;
    }
    bits
}

/// `a * b + c` of f32, rounded to nearest.
#[inline(always)]
pub fn fma32(mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) -> bool {
    match mode {
        NEAREST => each!(map3(regs, inst, mask), |a, b, c| near3(a, b, c, false)),
        NEAREST_FTZ => each!(map3(regs, inst, mask), |a, b, c| near3(a, b, c, true)),
        _ => return false,
    }
    true
}

/// The order of f32 with -0 below +0, as integers.
#[inline(always)]
fn ordered32(bits: u32) -> i32 {
    bits as i32 ^ ((bits as i32 >> 31) as u32 >> 1) as i32
}

/// The least or greatest: the number, if one is NaN, or NaN.
#[inline(always)]
pub fn extreme32(a: u32, b: u32, max: bool, nan: bool, ftz: bool) -> u32 {
    let (a, b) = (flush_if(ftz, a), flush_if(ftz, b));
    let (a_nan, b_nan) = (f32::from_bits(a).is_nan(), f32::from_bits(b).is_nan());
    let first = (ordered32(a) > ordered32(b)) == max;
    let either = if first { a } else { b };
    let number = if a_nan { b } else { a };
    let unordered = a_nan | b_nan;
    let value = if unordered { number } else { either };
    let none = if nan { unordered } else { a_nan & b_nan };
    if none { 0x7fff_ffff } else { value }
}

/// The least or greatest of f64.
#[inline(always)]
pub fn extreme64(a: f64, b: f64, max: bool, nan: bool) -> u64 {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if (a.total_cmp(&b).is_gt()) == max => a.to_bits(),
        (false, false) => b.to_bits(),
        (true, false) if !nan => b.to_bits(),
        (false, true) if !nan => a.to_bits(),
        _ => bits64(f64::NAN),
    }
}

/// [`Op::Float2`](crate::program::Op::Float2) of f32 in every mode.
#[inline(always)]
pub fn two32_rare(op: Float2, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) {
    match op {
        Float2::Add => {
            each!(in_mode2(mode, inst, regs, mask), |a, b, round| signed_sum(odd_sum(a, b), a, b, round))
        }
        Float2::Sub => {
            each!(in_mode2(mode, inst, regs, mask), |a, b, round| signed_sum(odd_sum(a, -b), a, -b, round))
        }
        Float2::Mul => each!(in_mode2(mode, inst, regs, mask), |a, b, _| a * b),
        Float2::Div if mode == NEAREST => {
            each!(map2(regs, inst, mask), |a, b| near2(Float2::Div, a, b, false));
        }
        Float2::Div if mode == NEAREST_FTZ => {
            each!(map2(regs, inst, mask), |a, b| near2(Float2::Div, a, b, true));
        }
        Float2::Div => each!(in_mode2(mode, inst, regs, mask), |a, b, _| odd_quotient(a, b)),
        Float2::DivApprox => each!(map2(regs, inst, mask), |a, b| approximate_quotient(a, b, mode.ftz)),
        Float2::Min => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, false, false, mode.ftz)),
        Float2::Max => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, true, false, mode.ftz)),
        Float2::MinNan => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, false, true, mode.ftz)),
        Float2::MaxNan => each!(map2(regs, inst, mask), |a, b| extreme32(a, b, true, true, mode.ftz)),
        Float2::CopySign => each!(map2(regs, inst, mask), |a, b| b & 0x7fff_ffff | a & 0x8000_0000),
    }
}

/// `a / b`, rounded to odd, of values that are f32.
#[inline(always)]
fn odd_quotient(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    // The remainder is exact, as no exponent comes near those of f64. Its sign with that of `b` is the sign of the error.
    let rest = (-quotient).mul_add(b, a);
    odd(quotient, if b < 0.0 { -rest } else { rest })
}

/// The square root, rounded to odd, of a value that is f32.
#[inline(always)]
fn odd_root(a: f64) -> f64 {
    let root = a.sqrt();
    odd(root, (-root).mul_add(root, a))
}

/// Of f64 that a lane's operands are, the value rounded to odd; then to f32 as the mode says.
#[inline(always)]
fn finish(value: f64, mode: Mode) -> u32 {
    let tiny = mode.ftz && is_tiny(value, F32, mode.round);
    let value = if tiny { 0f32.copysign(value as f32) } else { to_f32(value, mode.round) };
    bits32(if mode.sat { saturate(value) } else { value })
}

#[inline(always)]
fn wide(bits: u32, ftz: bool) -> f64 {
    f32::from_bits(flush_if(ftz, bits)).into()
}

/// Each rounding has a loop of its own, so that each becomes a loop of vectors.
macro_rules! by_rounding {
    ($mode:ident => $loop:expr) => {
        match $mode.round {
            Round::Nearest => $loop(Mode { round: Round::Nearest, ..$mode }),
            Round::Zero => $loop(Mode { round: Round::Zero, ..$mode }),
            Round::Down => $loop(Mode { round: Round::Down, ..$mode }),
            Round::Up => $loop(Mode { round: Round::Up, ..$mode }),
        }
    };
}

#[inline(always)]
fn in_mode2(mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32, of: impl Fn(f64, f64, Round) -> f64) {
    by_rounding!(mode => |mode: Mode| each!(map2(regs, inst, mask), |a, b| {
        finish(of(wide(a, mode.ftz), wide(b, mode.ftz), mode.round), mode)
    }));
}

#[inline(always)]
fn in_mode1(mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32, of: impl Fn(f64) -> f64) {
    by_rounding!(mode => |mode: Mode| each!(map1(regs, inst, mask), |a| finish(of(wide(a, mode.ftz)), mode)));
}

/// `a * b + c` of f32 in every mode; with `relu`, no negative results.
#[inline(always)]
pub fn fma32_rare(mode: Mode, relu: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    by_rounding!(mode => |mode: Mode| each!(map3(regs, inst, mask), |a, b, c| {
        let c = wide(c, mode.ftz);
        let product = wide(a, mode.ftz) * wide(b, mode.ftz);
        let bits = finish(signed_sum(odd_sum(product, c), product, c, mode.round), mode);
        if relu && !(f32::from_bits(bits) > 0.0) { 0 } else { bits }
    }));
}

/// [`Op::Float1`](crate::program::Op::Float1) of f32.
#[inline(always)]
pub fn one32(op: Float1, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) {
    match op {
        Float1::Neg => each!(map1(regs, inst, mask), |a| flush_if(mode.ftz, a) ^ 0x8000_0000),
        Float1::Abs => each!(map1(regs, inst, mask), |a| flush_if(mode.ftz, a) & 0x7fff_ffff),
        Float1::Sqrt | Float1::SqrtApprox if mode.round == Round::Nearest && !mode.sat => {
            each!(map1(regs, inst, mask), |a| flush_if(mode.ftz, bits32(single(a, mode.ftz).sqrt())));
        }
        Float1::Rcp | Float1::RcpApprox if mode.round == Round::Nearest && !mode.sat => {
            each!(map1(regs, inst, mask), |a| flush_if(mode.ftz, bits32(1.0 / single(a, mode.ftz))));
        }
        Float1::Sqrt => in_mode1(mode, inst, regs, mask, odd_root),
        Float1::Rcp => each!(in_mode1(mode, inst, regs, mask), |a| odd_quotient(1.0, a)),
        Float1::SqrtApprox => each!(near1(mode, inst, regs, mask), |a| a.sqrt()),
        Float1::RcpApprox => each!(near1(mode, inst, regs, mask), |a| 1.0 / a),
        Float1::Rsqrt => each!(near1(mode, inst, regs, mask), |a| 1.0 / a.sqrt()),
        Float1::Ex2 => each!(near1(mode, inst, regs, mask), |a| functions::exp2(a)),
        Float1::Lg2 => each!(near1(mode, inst, regs, mask), |a| functions::log2(a)),
        Float1::Sin => near1(mode, inst, regs, mask, libm::sin),
        Float1::Cos => near1(mode, inst, regs, mask, libm::cos),
        Float1::Tanh => near1(mode, inst, regs, mask, libm::tanh),
    }
}

/// A function that is computed in f64 and rounded to the nearest f32.
#[inline(always)]
fn near1(mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32, of: impl Fn(f64) -> f64) {
    let mode = Mode { round: Round::Nearest, ..mode };
    each!(map1(regs, inst, mask), |a| finish(of(wide(a, mode.ftz)), mode));
}

/// [`Op::Float2`](crate::program::Op::Float2) of f64.
#[inline(always)]
pub fn two64(op: Float2, round: Round, inst: &Inst, regs: &mut Registers, mask: u32) {
    let near = round == Round::Nearest;
    let value = f64::from_bits;
    match op {
        Float2::Add if near => each!(long2(regs, inst, mask), |a, b| bits64(value(a) + value(b))),
        Float2::Sub if near => each!(long2(regs, inst, mask), |a, b| bits64(value(a) - value(b))),
        Float2::Mul if near => each!(long2(regs, inst, mask), |a, b| bits64(value(a) * value(b))),
        Float2::Div | Float2::DivApprox if near => {
            each!(long2(regs, inst, mask), |a, b| bits64(value(a) / value(b)))
        }
        Float2::Min => each!(long2(regs, inst, mask), |a, b| extreme64(value(a), value(b), false, false)),
        Float2::Max => each!(long2(regs, inst, mask), |a, b| extreme64(value(a), value(b), true, false)),
        Float2::MinNan => each!(long2(regs, inst, mask), |a, b| extreme64(value(a), value(b), false, true)),
        Float2::MaxNan => each!(long2(regs, inst, mask), |a, b| extreme64(value(a), value(b), true, true)),
        Float2::CopySign => each!(long2(regs, inst, mask), |a, b| b & i64::MAX as u64 | a & 1 << 63),
        Float2::Add | Float2::Sub | Float2::Mul | Float2::Div | Float2::DivApprox => {
            each!(long2(regs, inst, mask), |a, b| bits64(directed2(op, round, value(a), value(b))));
        }
    }
}

/// A sum, product or quotient in any direction. Where no finite numbers come of finite ones, directions make no difference.
fn directed2(op: Float2, round: Round, a: f64, b: f64) -> f64 {
    let near = match op {
        Float2::Add => a + b,
        Float2::Sub => a - b,
        Float2::Mul => a * b,
        _ => a / b,
    };
    let divides = matches!(op, Float2::Div | Float2::DivApprox);
    if !a.is_finite() || !b.is_finite() || divides && b == 0.0 {
        return near;
    }
    let (x, y) = (Exact::of(a), Exact::of(b));
    let exact = match op {
        Float2::Add => x.plus(y, round),
        Float2::Sub => x.plus(Exact::of(-b), round),
        Float2::Mul => x.times(y),
        _ => x.over(y),
    };
    exact.to_f64(round)
}

/// `a * b + c` of f64.
#[inline(always)]
pub fn fma64(round: Round, inst: &Inst, regs: &mut Registers, mask: u32) {
    let value = f64::from_bits;
    if round == Round::Nearest {
        return each!(long3(regs, inst, mask), |a, b, c| bits64(value(a).mul_add(value(b), value(c))));
    }
    each!(long3(regs, inst, mask), |a, b, c| {
        let (a, b, c) = (value(a), value(b), value(c));
        if !a.is_finite() || !b.is_finite() || !c.is_finite() {
            return bits64(a.mul_add(b, c));
        }
        Exact::of(a).times(Exact::of(b)).plus(Exact::of(c), round).to_f64(round).to_bits()
    });
}

/// [`Op::Float1`](crate::program::Op::Float1) of f64.
#[inline(always)]
pub fn one64(op: Float1, mode: Mode, inst: &Inst, regs: &mut Registers, mask: u32) {
    let Mode { round, ftz, .. } = mode;
    let near = round == Round::Nearest;
    let value = f64::from_bits;
    match op {
        Float1::Neg => each!(long1(regs, inst, mask), |a| a ^ 1 << 63),
        Float1::Abs => each!(long1(regs, inst, mask), |a| a & i64::MAX as u64),
        Float1::Sqrt if near => each!(long1(regs, inst, mask), |a| bits64(value(a).sqrt())),
        Float1::Sqrt => each!(long1(regs, inst, mask), |a| {
            let a = value(a);
            bits64(if a > 0.0 && a.is_finite() { Exact::of(a).root().to_f64(round) } else { a.sqrt() })
        }),
        Float1::Rcp if !near => {
            each!(long1(regs, inst, mask), |a| bits64(directed2(Float2::Div, round, 1.0, value(a))))
        }
        Float1::RcpApprox if ftz => {
            each!(long1(regs, inst, mask), |a| flush64(bits64(1.0 / value(flush64(a)))))
        }
        Float1::Rsqrt if ftz => {
            each!(long1(regs, inst, mask), |a| flush64(bits64(1.0 / value(flush64(a)).sqrt())))
        }
        Float1::Rcp | Float1::RcpApprox => each!(long1(regs, inst, mask), |a| bits64(1.0 / value(a))),
        Float1::SqrtApprox => each!(long1(regs, inst, mask), |a| bits64(value(a).sqrt())),
        Float1::Rsqrt => each!(long1(regs, inst, mask), |a| bits64(1.0 / value(a).sqrt())),
        Float1::Ex2 => each!(long1(regs, inst, mask), |a| bits64(libm::exp2(value(a)))),
        Float1::Lg2 => each!(long1(regs, inst, mask), |a| bits64(libm::log2(value(a)))),
        Float1::Sin => each!(long1(regs, inst, mask), |a| bits64(libm::sin(value(a)))),
        Float1::Cos => each!(long1(regs, inst, mask), |a| bits64(libm::cos(value(a)))),
        Float1::Tanh => each!(long1(regs, inst, mask), |a| bits64(libm::tanh(value(a)))),
    }
}
