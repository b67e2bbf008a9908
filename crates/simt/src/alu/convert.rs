//! Values of other types.
//!
//! From a float to an integer: rounded, then clamped. NaN becomes 0, and where one of the types has 64 bits, the sign bit alone: so says
//! the PTX ISA.

use crate::program::{Conversion, Float, Inst, Round, Scalar};
use crate::registers::Registers;

use super::float::{bits32, bits64, flush};
use super::half::{self, f16_to_f32};
use super::lanes::{get32, get64, lanes, map1, map2, narrow1, put32, put64, widen1};
use super::rounding::{Exact, F32, is_tiny, odd, to_f32};

/// [`Op::Convert`](crate::program::Op::Convert) of the kinds that kernels are full of.
#[inline(always)]
pub fn convert(
    to: Scalar,
    from: Scalar,
    how: Conversion,
    inst: &Inst,
    regs: &mut Registers,
    mask: u32,
) -> bool {
    use Scalar::{Bf16, F16, F32, S32, S64, U32, U64};
    let plain = !how.sat && !how.relu && !how.ftz;
    let small = |ty: Scalar| range(ty).is_some() && ty.bytes() < 8;
    let is_signed = |ty: Scalar| range(ty).is_some_and(|(least, _)| least < 0);
    let nearest = plain && how.round == Round::Nearest && !how.integral;
    match (to, from) {
        (U64 | S64, U32) if plain => widen1(regs, inst, mask, u64::from),
        (U64 | S64, S32) if plain => each!(widen1(regs, inst, mask), |a| (a as i32) as u64),
        (U32 | S32, U64 | S64) if plain => each!(narrow1(regs, inst, mask), |a| a as u32),
        (to, from) if plain && small(to) && small(from) => {
            let (above, beyond) = (32 - 8 * from.bytes(), 32 - 8 * to.bytes());
            if is_signed(from) {
                each!(map1(regs, inst, mask), |a| ((a << above) as i32 >> above) as u32 & u32::MAX >> beyond);
            } else {
                each!(map1(regs, inst, mask), |a| a << above >> above & u32::MAX >> beyond);
            }
        }
        (F32, from) if nearest && small(from) => {
            let above = 32 - 8 * from.bytes();
            if is_signed(from) {
                each!(map1(regs, inst, mask), |a| (((a << above) as i32 >> above) as f32).to_bits());
            } else {
                each!(map1(regs, inst, mask), |a| ((a << above >> above) as f32).to_bits());
            }
        }
        (to, F32) if plain && small(to) && to != U32 && how.round == Round::Zero => {
            each!(map1(regs, inst, mask), |a| clamped(f32::from_bits(a), to));
        }
        (to, F32) if plain && small(to) && to != U32 && how.round == Round::Nearest => {
            each!(map1(regs, inst, mask), |a| clamped(f32::from_bits(a).round_ties_even(), to));
        }
        (F32, F32) if plain && how.integral && how.round == Round::Nearest => {
            each!(map1(regs, inst, mask), |a| bits32(f32::from_bits(a).round_ties_even()));
        }
        (F32, F16) if plain && !how.integral => {
            each!(map1(regs, inst, mask), |a| bits32(f16_to_f32(a & 0xffff)))
        }
        (F32, Bf16) if plain && !how.integral => {
            each!(map1(regs, inst, mask), |a| bits32(f32::from_bits(a << 16)))
        }
        (F16, F32) if nearest => {
            each!(map1(regs, inst, mask), |a| half::nearest::<false>(f32::from_bits(a)));
        }
        (Bf16, F32) if nearest => {
            each!(map1(regs, inst, mask), |a| half::nearest::<true>(f32::from_bits(a)));
        }
        _ => return false,
    }
    true
}

/// A float cut to an integer type that i32 holds.
#[inline(always)]
fn clamped(value: f32, to: Scalar) -> u32 {
    let (least, most) = range(to).map_or((0, 0), |(least, most)| (least as i32, most as i32));
    (value as i32).clamp(least, most) as u32 & u32::MAX >> (32 - 8 * to.bytes())
}

/// [`Op::Convert`](crate::program::Op::Convert) of all kinds.
#[inline(always)]
pub fn convert_rare(to: Scalar, from: Scalar, how: Conversion, inst: &Inst, regs: &mut Registers, mask: u32) {
    let values = if from.bytes() == 8 {
        let a = get64(regs, inst.a);
        lanes!(|lane| one(to, from, how, a[lane]))
    } else {
        let a = get32(regs, inst.a);
        lanes!(|lane| one(to, from, how, a[lane].into()))
    };
    match to.bytes() {
        8 => put64(regs, inst.d, mask, values),
        _ => put32(regs, inst.d, mask, lanes!(|lane| values[lane] as u32)),
    }
}

/// A value as what it is: every float is an f64, and every integer an i128.
enum Value {
    Integer(i128),
    Float(f64),
}

fn one(to: Scalar, from: Scalar, how: Conversion, bits: u64) -> u64 {
    let value = match from {
        Scalar::U8 => Value::Integer((bits as u8).into()),
        Scalar::S8 => Value::Integer((bits as i8).into()),
        Scalar::U16 => Value::Integer((bits as u16).into()),
        Scalar::S16 => Value::Integer((bits as i16).into()),
        Scalar::U32 => Value::Integer((bits as u32).into()),
        Scalar::S32 => Value::Integer((bits as i32).into()),
        Scalar::U64 => Value::Integer(bits.into()),
        Scalar::S64 => Value::Integer((bits as i64).into()),
        Scalar::F16 => Value::Float(half::value::<false>(bits as u32 & 0xffff)),
        Scalar::Bf16 => Value::Float(half::value::<true>(bits as u32 & 0xffff)),
        Scalar::F32 if how.ftz => Value::Float(f32::from_bits(flush(bits as u32)).into()),
        Scalar::F32 => Value::Float(f32::from_bits(bits as u32).into()),
        Scalar::F64 => Value::Float(f64::from_bits(bits)),
    };
    match (range(to), value) {
        (Some((least, most)), Value::Integer(value)) => {
            let value = if how.sat { value.clamp(least, most) } else { value };
            cut(value as u64, to)
        }
        (Some(_), Value::Float(value)) if value.is_nan() => {
            let wide = from == Scalar::F64 || to.bytes() == 8;
            if wide { 1 << (8 * to.bytes() - 1) } else { 0 }
        }
        (Some((least, most)), Value::Float(value)) => {
            // Conversions to i128 are clamped themselves.
            cut((integral(value, how.round) as i128).clamp(least, most) as u64, to)
        }
        (None, Value::Integer(value)) => to_float(to, how, of_integer(value, to, how.round)),
        (None, Value::Float(value)) => {
            to_float(to, how, if how.integral { integral(value, how.round) } else { value })
        }
    }
}

/// What an integer type holds.
fn range(ty: Scalar) -> Option<(i128, i128)> {
    match ty {
        Scalar::U8 => Some((0, u8::MAX.into())),
        Scalar::S8 => Some((i8::MIN.into(), i8::MAX.into())),
        Scalar::U16 => Some((0, u16::MAX.into())),
        Scalar::S16 => Some((i16::MIN.into(), i16::MAX.into())),
        Scalar::U32 => Some((0, u32::MAX.into())),
        Scalar::S32 => Some((i32::MIN.into(), i32::MAX.into())),
        Scalar::U64 => Some((0, u64::MAX.into())),
        Scalar::S64 => Some((i64::MIN.into(), i64::MAX.into())),
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 => None,
    }
}

/// The bits that a type has, and zeros.
fn cut(bits: u64, ty: Scalar) -> u64 {
    match ty.bytes() {
        8 => bits,
        bytes => bits & ((1 << (8 * bytes)) - 1),
    }
}

fn integral(value: f64, round: Round) -> f64 {
    match round {
        Round::Nearest => value.round_ties_even(),
        Round::Zero => value.trunc(),
        Round::Down => value.floor(),
        Round::Up => value.ceil(),
    }
}

/// An integer, rounded to f64 if that is wanted, and otherwise to odd.
fn of_integer(value: i128, to: Scalar, round: Round) -> f64 {
    if to == Scalar::F64 {
        return Exact::of_integer(value < 0, value.unsigned_abs() as u64).to_f64(round);
    }
    let near = value as f64;
    odd(near, (value - near as i128) as f64)
}

fn to_float(to: Scalar, how: Conversion, value: f64) -> u64 {
    let value = match () {
        () if how.sat && !(value > 0.0) => 0.0,
        () if how.sat => value.min(1.0),
        () if how.relu && value <= 0.0 => 0.0,
        () => value,
    };
    match to {
        Scalar::F16 => half::rounded::<false>(value, how.round).into(),
        Scalar::Bf16 => half::rounded::<true>(value, how.round).into(),
        Scalar::F32 => {
            let tiny = how.ftz && is_tiny(value, F32, how.round);
            let value = if tiny { 0f32.copysign(value as f32) } else { to_f32(value, how.round) };
            bits32(value).into()
        }
        _ => bits64(value),
    }
}

/// [`Op::ConvertPair`](crate::program::Op::ConvertPair)
#[inline(always)]
pub fn pair(ty: Float, how: Conversion, inst: &Inst, regs: &mut Registers, mask: u32) {
    let to = if half::kind(ty).1 { Scalar::Bf16 } else { Scalar::F16 };
    if how == Conversion::default() {
        return match to {
            Scalar::Bf16 => each!(map2(regs, inst, mask), |a, b| {
                half::nearest::<true>(f32::from_bits(a)) << 16 | half::nearest::<true>(f32::from_bits(b))
            }),
            _ => each!(map2(regs, inst, mask), |a, b| {
                half::nearest::<false>(f32::from_bits(a)) << 16 | half::nearest::<false>(f32::from_bits(b))
            }),
        };
    }
    let half = |bits: u32| one(to, Scalar::F32, how, bits.into()) as u32;
    each!(map2(regs, inst, mask), |a, b| half(a) << 16 | half(b));
}

/// [`Op::RoundTf32`](crate::program::Op::RoundTf32): the bits below the last that stays are zeros.
#[inline(always)]
pub fn tf32(inst: &Inst, regs: &mut Registers, mask: u32) {
    each!(map1(regs, inst, mask), |a| {
        let infinite = a & 0x7f80_0000 == 0x7f80_0000;
        let bits = if infinite { a } else { a.wrapping_add(0x1000) & !0x1fff };
        bits32(f32::from_bits(bits))
    });
}
