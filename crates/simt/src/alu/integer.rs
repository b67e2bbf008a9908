//! Integers. Values of 16 bits lie zero-extended in registers of 32.
//!
//! What the PTX ISA leaves open is taken from hardware: a quotient by zero is all ones, and so is the remainder. The most negative
//! number by -1 is itself, with the remainder 0.

use crate::program::{Carry, Inst, Int, Int2, Int3, Reg};
use crate::registers::Registers;

use super::lanes::{
    ballot, get32, get64, lanes, long_by, long1, long2, long3, map1, map2, map3, put32, put64, widen2, widen3,
};

/// A value of 16 bits with its sign.
#[inline(always)]
fn signed16(a: u32) -> i32 {
    i32::from(a as i16)
}

/// [`Op::Int2`](crate::program::Op::Int2) of the types that addresses and indices have.
#[inline(always)]
pub fn two(op: Int2, ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) -> bool {
    use Int::{S32, S64, U32, U64};
    match (op, ty) {
        (Int2::Add, U32 | S32) => map2(regs, inst, mask, u32::wrapping_add),
        (Int2::Add, U64 | S64) => long2(regs, inst, mask, u64::wrapping_add),
        (Int2::Sub, U32 | S32) => map2(regs, inst, mask, u32::wrapping_sub),
        (Int2::Sub, U64 | S64) => long2(regs, inst, mask, u64::wrapping_sub),
        (Int2::MulLo, U32 | S32) => map2(regs, inst, mask, u32::wrapping_mul),
        (Int2::MulLo, U64 | S64) => long2(regs, inst, mask, u64::wrapping_mul),
        (Int2::MulWide, U32) => each!(widen2(regs, inst, mask), |a, b| u64::from(a) * u64::from(b)),
        (Int2::MulWide, S32) => {
            each!(widen2(regs, inst, mask), |a, b| (i64::from(a as i32) * i64::from(b as i32)) as u64)
        }
        (Int2::Min, U32) => map2(regs, inst, mask, u32::min),
        (Int2::Min, S32) => each!(map2(regs, inst, mask), |a, b| (a as i32).min(b as i32) as u32),
        (Int2::Max, U32) => map2(regs, inst, mask, u32::max),
        (Int2::Max, S32) => each!(map2(regs, inst, mask), |a, b| (a as i32).max(b as i32) as u32),
        (Int2::Shl, U32 | S32) => map2(regs, inst, mask, shl),
        (Int2::Shr, U32) => map2(regs, inst, mask, shr),
        (Int2::Shr, S32) => each!(map2(regs, inst, mask), |a, b| (a as i32 >> b.min(31)) as u32),
        (Int2::Shl, U64 | S64) => {
            each!(long_by(regs, inst, mask), |a, b| if b < 64 { a << (b & 63) } else { 0 })
        }
        (Int2::Shr, U64) => each!(long_by(regs, inst, mask), |a, b| if b < 64 { a >> (b & 63) } else { 0 }),
        (Int2::Shr, S64) => each!(long_by(regs, inst, mask), |a, b| (a as i64 >> b.min(63)) as u64),
        _ => return false,
    }
    true
}

#[inline(always)]
fn shl(a: u32, b: u32) -> u32 {
    if b < 32 { a << (b & 31) } else { 0 }
}

#[inline(always)]
fn shr(a: u32, b: u32) -> u32 {
    if b < 32 { a >> (b & 31) } else { 0 }
}

/// [`Op::Int2`](crate::program::Op::Int2) of all types that [`two`] has not.
#[inline(always)]
pub fn two_rare(op: Int2, ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    match ty {
        Int::U16 => each!(map2(regs, inst, mask), |a, b| match op {
            // Of lanes that take no part, the registers may hold more than 16 bits.
            Int2::MulWide => a.wrapping_mul(b),
            // The amount is of 32 bits, and the product has 32 as well.
            Int2::Shl => shl(a, b) & 0xffff,
            Int2::Shr => shr(a, b),
            _ => short(op, i64::from(a), i64::from(b), false),
        }),
        Int::S16 => each!(map2(regs, inst, mask), |a, b| match op {
            Int2::MulWide => (signed16(a) * signed16(b)) as u32,
            Int2::Shl => shl(a, b) & 0xffff,
            Int2::Shr => (signed16(a) >> b.min(15)) as u32 & 0xffff,
            _ => short(op, i64::from(signed16(a)), i64::from(signed16(b)), true),
        }),
        Int::U32 => each!(map2(regs, inst, mask), |a, b| match op {
            Int2::MulHi => ((u64::from(a) * u64::from(b)) >> 32) as u32,
            Int2::Div => a.checked_div(b).unwrap_or(u32::MAX),
            Int2::Rem => a.checked_rem(b).unwrap_or(u32::MAX),
            Int2::AddSat => a.saturating_add(b),
            Int2::SubSat => a.saturating_sub(b),
            _ => 0,
        }),
        Int::S32 => each!(map2(regs, inst, mask), |a, b| {
            let (a, b) = (a as i32, b as i32);
            let value = match op {
                Int2::MulHi => ((i64::from(a) * i64::from(b)) >> 32) as i32,
                Int2::Div | Int2::Rem if b == 0 => -1,
                Int2::Div => a.wrapping_div(b),
                Int2::Rem => a.wrapping_rem(b),
                Int2::AddSat => a.saturating_add(b),
                Int2::SubSat => a.saturating_sub(b),
                _ => 0,
            };
            value as u32
        }),
        Int::U64 => each!(long2(regs, inst, mask), |a, b| match op {
            Int2::MulHi => ((u128::from(a) * u128::from(b)) >> 64) as u64,
            Int2::Div => a.checked_div(b).unwrap_or(u64::MAX),
            Int2::Rem => a.checked_rem(b).unwrap_or(u64::MAX),
            Int2::Min => a.min(b),
            Int2::Max => a.max(b),
            Int2::AddSat => a.saturating_add(b),
            Int2::SubSat => a.saturating_sub(b),
            _ => 0,
        }),
        Int::S64 => each!(long2(regs, inst, mask), |a, b| {
            let (a, b) = (a as i64, b as i64);
            let value = match op {
                Int2::MulHi => ((i128::from(a) * i128::from(b)) >> 64) as i64,
                Int2::Div | Int2::Rem if b == 0 => -1,
                Int2::Div => a.wrapping_div(b),
                Int2::Rem => a.wrapping_rem(b),
                Int2::Min => a.min(b),
                Int2::Max => a.max(b),
                Int2::AddSat => a.saturating_add(b),
                Int2::SubSat => a.saturating_sub(b),
                _ => 0,
            };
            value as u64
        }),
    }
}

/// An operation of 16 bits, whose operands are sign- or zero-extended already.
#[inline(always)]
fn short(op: Int2, a: i64, b: i64, signed: bool) -> u32 {
    let (least, most) = if signed { (-0x8000, 0x7fff) } else { (0, 0xffff) };
    let value = match op {
        Int2::Add => a + b,
        Int2::AddSat => (a + b).clamp(least, most),
        Int2::Sub => a - b,
        Int2::SubSat => (a - b).clamp(least, most),
        Int2::MulLo => a * b,
        Int2::MulHi => (a * b) >> 16,
        Int2::Div | Int2::Rem if b == 0 => -1,
        Int2::Div => a / b,
        Int2::Rem => a % b,
        Int2::Min => a.min(b),
        Int2::Max => a.max(b),
        Int2::MulWide | Int2::Shr | Int2::Shl => 0,
    };
    value as u32 & 0xffff
}

/// [`Op::Int3`](crate::program::Op::Int3) of the types that addresses and indices have.
#[inline(always)]
pub fn three(op: Int3, ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) -> bool {
    match (op, ty) {
        (Int3::MadLo, Int::U32 | Int::S32) => {
            each!(map3(regs, inst, mask), |a, b, c| a.wrapping_mul(b).wrapping_add(c))
        }
        (Int3::MadLo, Int::U64 | Int::S64) => {
            each!(long3(regs, inst, mask), |a, b, c| a.wrapping_mul(b).wrapping_add(c))
        }
        (Int3::MadWide, Int::U32) => {
            each!(widen3(regs, inst, mask), |a, b, c| (u64::from(a) * u64::from(b)).wrapping_add(c));
        }
        (Int3::MadWide, Int::S32) => {
            each!(widen3(regs, inst, mask), |a, b, c| ((i64::from(a as i32) * i64::from(b as i32)) as u64)
                .wrapping_add(c))
        }
        _ => return false,
    }
    true
}

/// [`Op::Int3`](crate::program::Op::Int3) of all types that [`three`] has not.
#[inline(always)]
pub fn three_rare(op: Int3, ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    match ty {
        Int::U16 => each!(map3(regs, inst, mask), |a, b, c| match op {
            Int3::MadLo => (a * b).wrapping_add(c) & 0xffff,
            Int3::MadHi => ((a * b) >> 16).wrapping_add(c) & 0xffff,
            Int3::MadWide => (a * b).wrapping_add(c),
            Int3::Sad => a.abs_diff(b).wrapping_add(c) & 0xffff,
        }),
        Int::S16 => each!(map3(regs, inst, mask), |a, b, c| {
            let product = signed16(a) * signed16(b);
            match op {
                Int3::MadLo => (product as u32).wrapping_add(c) & 0xffff,
                Int3::MadHi => ((product >> 16) as u32).wrapping_add(c) & 0xffff,
                Int3::MadWide => (product as u32).wrapping_add(c),
                Int3::Sad => signed16(a).abs_diff(signed16(b)).wrapping_add(c) & 0xffff,
            }
        }),
        Int::U32 => each!(map3(regs, inst, mask), |a, b, c| match op {
            Int3::MadHi => (((u64::from(a) * u64::from(b)) >> 32) as u32).wrapping_add(c),
            _ => a.abs_diff(b).wrapping_add(c),
        }),
        Int::S32 => each!(map3(regs, inst, mask), |a, b, c| match op {
            Int3::MadHi => (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32).wrapping_add(c),
            _ => (a as i32).abs_diff(b as i32).wrapping_add(c),
        }),
        Int::U64 => each!(long3(regs, inst, mask), |a, b, c| match op {
            Int3::MadHi => (((u128::from(a) * u128::from(b)) >> 64) as u64).wrapping_add(c),
            _ => a.abs_diff(b).wrapping_add(c),
        }),
        Int::S64 => each!(long3(regs, inst, mask), |a, b, c| match op {
            Int3::MadHi => (((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64).wrapping_add(c),
            _ => (a as i64).abs_diff(b as i64).wrapping_add(c),
        }),
    }
}

/// [`Op::Mul24`](crate::program::Op::Mul24)
#[inline(always)]
pub fn mul24(signed: bool, high: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    let cut = |a: u32| if signed { i64::from((a << 8) as i32 >> 8) } else { i64::from(a & 0xff_ffff) };
    let product = |a, b| ((cut(a) * cut(b)) >> if high { 16 } else { 0 }) as u32;
    match inst.c {
        Reg::NONE => map2(regs, inst, mask, product),
        _ => each!(map3(regs, inst, mask), |a, b, c| product(a, b).wrapping_add(c)),
    }
}

/// [`Op::IntNeg`](crate::program::Op::IntNeg)
#[inline(always)]
pub fn neg(ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    match ty {
        Int::U16 | Int::S16 => each!(map1(regs, inst, mask), |a| a.wrapping_neg() & 0xffff),
        Int::U32 | Int::S32 => map1(regs, inst, mask, u32::wrapping_neg),
        Int::U64 | Int::S64 => long1(regs, inst, mask, u64::wrapping_neg),
    }
}

/// [`Op::IntAbs`](crate::program::Op::IntAbs)
#[inline(always)]
pub fn abs(ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    match ty {
        Int::U16 | Int::S16 => each!(map1(regs, inst, mask), |a| signed16(a).unsigned_abs() & 0xffff),
        Int::U32 | Int::S32 => each!(map1(regs, inst, mask), |a| (a as i32).unsigned_abs()),
        Int::U64 | Int::S64 => each!(long1(regs, inst, mask), |a| (a as i64).unsigned_abs()),
    }
}

/// [`Op::Carried`](crate::program::Op::Carried): the sum or difference of what is computed with 64 or 128 bits has the carry above it.
#[inline(always)]
pub fn carried(
    (op, ty): (Carry, Int),
    (input, output): (bool, bool),
    inst: &Inst,
    regs: &mut Registers,
    mask: u32,
) {
    let carry = if input { regs.carry } else { 0 };
    let bit = |lane: usize| carry >> lane & 1;
    let multiplies = matches!(op, Carry::MadLo | Carry::MadHi);
    let left = if matches!(ty, Int::U64 | Int::S64) {
        let (a, b) = (get64(regs, inst.a), get64(regs, inst.b));
        // Only products have a third operand.
        let c = if multiplies { get64(regs, inst.c) } else { a };
        let sums = lanes!(|lane| {
            let (x, y) = match op {
                Carry::Add | Carry::Sub => (a[lane], b[lane]),
                Carry::MadLo => (a[lane].wrapping_mul(b[lane]), c[lane]),
                Carry::MadHi if ty == Int::S64 => {
                    (((i128::from(a[lane] as i64) * i128::from(b[lane] as i64)) >> 64) as u64, c[lane])
                }
                Carry::MadHi => (((u128::from(a[lane]) * u128::from(b[lane])) >> 64) as u64, c[lane]),
            };
            let (first, over) = if op == Carry::Sub { x.overflowing_sub(y) } else { x.overflowing_add(y) };
            let last = bit(lane).into();
            let (sum, more) =
                if op == Carry::Sub { first.overflowing_sub(last) } else { first.overflowing_add(last) };
            (sum, over || more)
        });
        put64(regs, inst.d, mask, lanes!(|lane| sums[lane].0));
        ballot!(|lane| sums[lane].1)
    } else {
        let (a, b) = (get32(regs, inst.a), get32(regs, inst.b));
        let c = if multiplies { get32(regs, inst.c) } else { a };
        let sums = lanes!(|lane| {
            let (x, y) = (u64::from(a[lane]), u64::from(b[lane]));
            let carry = u64::from(bit(lane));
            match op {
                Carry::Add => x + y + carry,
                // A borrow makes the upper half all ones.
                Carry::Sub => x.wrapping_sub(y).wrapping_sub(carry),
                Carry::MadLo => ((x * y) & 0xffff_ffff) + u64::from(c[lane]) + carry,
                Carry::MadHi if ty == Int::S32 => {
                    let product = i64::from(a[lane] as i32) * i64::from(b[lane] as i32);
                    u64::from((product >> 32) as u32) + u64::from(c[lane]) + carry
                }
                Carry::MadHi => ((x * y) >> 32) + u64::from(c[lane]) + carry,
            }
        });
        put32(regs, inst.d, mask, lanes!(|lane| sums[lane] as u32));
        ballot!(|lane| sums[lane] >> 32 & 1 != 0)
    };
    if output {
        regs.carry = regs.carry & !mask | left & mask;
    }
}

/// [`Op::Dp4a`](crate::program::Op::Dp4a)
#[inline(always)]
pub fn dp4a((a_signed, b_signed): (bool, bool), inst: &Inst, regs: &mut Registers, mask: u32) {
    each!(map3(regs, inst, mask), |a, b, c| {
        (0..4).fold(c, |sum, i| sum.wrapping_add((part(a, 8, i, a_signed) * part(b, 8, i, b_signed)) as u32))
    });
}

/// [`Op::Dp2a`](crate::program::Op::Dp2a)
#[inline(always)]
pub fn dp2a((a_signed, b_signed): (bool, bool), upper: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    let first = if upper { 2 } else { 0 };
    each!(map3(regs, inst, mask), |a, b, c| {
        let mut sum = c;
        for i in 0..2 {
            sum = sum.wrapping_add((part(a, 16, i, a_signed) * part(b, 8, first + i, b_signed)) as u32);
        }
        sum
    });
}

/// The i-th part of so many bits.
#[inline(always)]
fn part(a: u32, bits: u32, i: u32, signed: bool) -> i32 {
    let top = a << (32 - bits - bits * i);
    if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
}
