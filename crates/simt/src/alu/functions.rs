//! Powers and logarithms to the base of 2 in f64, in operations that are the same on every machine and that the compiler makes vectors of;
//! and what libdevice has.
//!
//! The error is below 2^-45 of the value, so that rounding to f32 gives the nearest number but for about one value in a million. Hardware is
//! allowed more: see `docs/simt-opcodes.md`.

use crate::program::{Float, Inst, Intrinsic, Reg};
use crate::registers::Registers;

use super::float::{bits32, bits64};
use super::lanes::{long1, long2, map1, map2};

/// Adding and taking away rounds to an integer.
const INTEGER: f64 = 1.5 * (1u64 << 52) as f64;

/// `2^x`
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    // Beyond, f32 has infinities and zeros. NaN stays.
    let clamped = if x < -200.0 { -200.0 } else { x };
    let clamped = if clamped > 200.0 { 200.0 } else { clamped };
    let shifted = clamped + INTEGER;
    let t = (clamped - (shifted - INTEGER)) * std::f64::consts::LN_2;
    // exp(t) for |t| <= ln 2 / 2: the next term is below 2^-47.
    let mut sum: f64 = 1.0 / 39_916_800.0;
    let terms = [
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    for term in terms {
        sum = sum.mul_add(t, term);
    }
    // The integer lies in the lowest bits of the shifted number.
    let scale = f64::from_bits((shifted.to_bits().wrapping_add(1023)) << 52);
    let value = sum * scale;
    let value = if x < -199.0 { 0.0 } else { value };
    if x > 199.0 { f64::INFINITY } else { value }
}

/// `log2 x` of an f32.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    // The significand between sqrt(1/2) and sqrt(2). No f32 is subnormal in f64.
    const ROOT: u64 = 0x3fe6_a09e_667f_3bcd;
    let bits = x.to_bits();
    let above = bits.wrapping_sub(ROOT);
    let exponent = (above as i64 >> 52) as i32;
    let m = f64::from_bits((above & ((1 << 52) - 1)) + ROOT);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    // ln m = 2 (s + s^3/3 + s^5/5 + ...), with z < 0.0295.
    let mut sum = 1.0 / 21.0;
    for odd in [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * z + 1.0 / odd;
    }
    let value = f64::from(exponent) + s * sum * (2.0 * std::f64::consts::LOG2_E);
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x < 0.0 || x.is_nan() { f64::NAN } else { value }
}

/// [`Op::Intrinsic`](crate::program::Op::Intrinsic)
#[inline(always)]
pub fn intrinsic(of: Intrinsic, ty: Float, inst: &Inst, regs: &mut Registers, mask: u32) {
    let one = inst.b == Reg::NONE;
    match ty {
        Float::F64 if one => each!(long1(regs, inst, mask), |a| bits64(value(of, f64::from_bits(a), 0.0))),
        Float::F64 => {
            each!(long2(regs, inst, mask), |a, b| bits64(value(of, f64::from_bits(a), f64::from_bits(b))))
        }
        // What kernels are full of, as vectors.
        _ if of == Intrinsic::Exp => {
            each!(map1(regs, inst, mask), |a| {
                bits32(exp2(f64::from(f32::from_bits(a)) * std::f64::consts::LOG2_E) as f32)
            })
        }
        _ if of == Intrinsic::Exp2 => {
            each!(map1(regs, inst, mask), |a| bits32(exp2(f32::from_bits(a).into()) as f32))
        }
        _ if one => {
            each!(map1(regs, inst, mask), |a| bits32(value(of, f32::from_bits(a).into(), 0.0) as f32))
        }
        _ => each!(map2(regs, inst, mask), |a, b| bits32(value(
            of,
            f32::from_bits(a).into(),
            f32::from_bits(b).into()
        ) as f32)),
    }
}

fn value(of: Intrinsic, a: f64, b: f64) -> f64 {
    match of {
        Intrinsic::Sqrt => a.sqrt(),
        Intrinsic::Rsqrt => 1.0 / a.sqrt(),
        Intrinsic::Cbrt => libm::cbrt(a),
        Intrinsic::Exp => libm::exp(a),
        Intrinsic::Exp2 => libm::exp2(a),
        Intrinsic::Exp10 => libm::exp10(a),
        Intrinsic::Expm1 => libm::expm1(a),
        Intrinsic::Log => libm::log(a),
        Intrinsic::Log2 => libm::log2(a),
        Intrinsic::Log10 => libm::log10(a),
        Intrinsic::Log1p => libm::log1p(a),
        Intrinsic::Sin => libm::sin(a),
        Intrinsic::Cos => libm::cos(a),
        Intrinsic::Tan => libm::tan(a),
        Intrinsic::Asin => libm::asin(a),
        Intrinsic::Acos => libm::acos(a),
        Intrinsic::Atan => libm::atan(a),
        Intrinsic::Sinh => libm::sinh(a),
        Intrinsic::Cosh => libm::cosh(a),
        Intrinsic::Tanh => libm::tanh(a),
        Intrinsic::Asinh => libm::asinh(a),
        // The library gives numbers for some below 1.
        Intrinsic::Acosh if a < 1.0 => f64::NAN,
        Intrinsic::Acosh => libm::acosh(a),
        Intrinsic::Atanh => libm::atanh(a),
        Intrinsic::Erf => libm::erf(a),
        Intrinsic::Erfc => libm::erfc(a),
        Intrinsic::Round => a.round(),
        Intrinsic::Pow => libm::pow(a, b),
        Intrinsic::Atan2 => libm::atan2(a, b),
        Intrinsic::Hypot => libm::hypot(a, b),
        Intrinsic::Fmod => a % b,
    }
}
