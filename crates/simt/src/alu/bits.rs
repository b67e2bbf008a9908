//! Bits without a value, and moves.

use crate::program::{Bits, Inst, Int, Logic, PrmtMode, Reg};
use crate::registers::Registers;

use super::lanes::{
    get32, get64, lanes, long_by2, long1, long2, long2_by2, map1, map2, map3, map4, narrow1, put_predicate,
    put32, put64,
};

/// [`Op::Logic`](crate::program::Op::Logic)
#[inline(always)]
pub fn logic(op: Logic, bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match (op, bits) {
        (Logic::And, Bits::B16 | Bits::B32) => each!(map2(regs, inst, mask), |a, b| a & b),
        (Logic::Or, Bits::B16 | Bits::B32) => each!(map2(regs, inst, mask), |a, b| a | b),
        (Logic::Xor, Bits::B16 | Bits::B32) => each!(map2(regs, inst, mask), |a, b| a ^ b),
        (Logic::And, Bits::B64) => each!(long2(regs, inst, mask), |a, b| a & b),
        (Logic::Or, Bits::B64) => each!(long2(regs, inst, mask), |a, b| a | b),
        (Logic::Xor, Bits::B64) => each!(long2(regs, inst, mask), |a, b| a ^ b),
        (_, Bits::Pred) => {
            let (a, b) = (regs.holds(inst.a, false), regs.holds(inst.b, false));
            let values = match op {
                Logic::And => a & b,
                Logic::Or => a | b,
                Logic::Xor => a ^ b,
            };
            put_predicate(regs, inst.d, mask, values);
        }
    }
}

/// [`Op::Not`](crate::program::Op::Not)
#[inline(always)]
pub fn not(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B16 => each!(map1(regs, inst, mask), |a| !a & 0xffff),
        Bits::B32 => each!(map1(regs, inst, mask), |a| !a),
        Bits::B64 => each!(long1(regs, inst, mask), |a| !a),
        Bits::Pred => put_predicate(regs, inst.d, mask, regs.holds(inst.a, true)),
    }
}

/// [`Op::Cnot`](crate::program::Op::Cnot)
#[inline(always)]
pub fn cnot(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B16 | Bits::B32 => each!(map1(regs, inst, mask), |a| u32::from(a == 0)),
        Bits::B64 => each!(long1(regs, inst, mask), |a| u64::from(a == 0)),
        Bits::Pred => put_predicate(regs, inst.d, mask, regs.holds(inst.a, true)),
    }
}

/// [`Op::Lop3`](crate::program::Op::Lop3): the sum of the products that the table names.
#[inline(always)]
pub fn lop3(table: u8, inst: &Inst, regs: &mut Registers, mask: u32) {
    let chosen: [u32; 8] = std::array::from_fn(|i| if table >> i & 1 != 0 { u32::MAX } else { 0 });
    each!(map3(regs, inst, mask), |a, b, c| {
        let of_c = |i: usize| chosen[i] & !c | chosen[i + 1] & c;
        let of_b = |i: usize| of_c(i) & !b | of_c(i + 2) & b;
        of_b(0) & !a | of_b(4) & a
    });
}

/// [`Op::Funnel`](crate::program::Op::Funnel)
#[inline(always)]
pub fn funnel(left: bool, wrap: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    each!(map3(regs, inst, mask), |a, b, c| {
        let both = u64::from(b) << 32 | u64::from(a);
        let amount = if wrap { c & 31 } else { c.min(32) };
        if left { (both << amount >> 32) as u32 } else { (both >> amount) as u32 }
    });
}

/// [`Op::Popc`](crate::program::Op::Popc)
#[inline(always)]
pub fn popc(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B64 => narrow1(regs, inst, mask, u64::count_ones),
        _ => map1(regs, inst, mask, u32::count_ones),
    }
}

/// [`Op::Clz`](crate::program::Op::Clz)
#[inline(always)]
pub fn clz(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B64 => narrow1(regs, inst, mask, u64::leading_zeros),
        _ => map1(regs, inst, mask, u32::leading_zeros),
    }
}

/// [`Op::Brev`](crate::program::Op::Brev)
#[inline(always)]
pub fn brev(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B64 => long1(regs, inst, mask, u64::reverse_bits),
        _ => map1(regs, inst, mask, u32::reverse_bits),
    }
}

/// [`Op::Bfind`](crate::program::Op::Bfind)
#[inline(always)]
pub fn bfind(ty: Int, shift: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    let found = |zeros: u32, bits: u32| match zeros {
        zeros if zeros == bits => u32::MAX,
        zeros if shift => zeros,
        zeros => bits - 1 - zeros,
    };
    match ty {
        Int::S64 => {
            each!(narrow1(regs, inst, mask), |a| found((a ^ (a as i64 >> 63) as u64).leading_zeros(), 64))
        }
        Int::U64 => each!(narrow1(regs, inst, mask), |a| found(a.leading_zeros(), 64)),
        Int::S32 | Int::S16 => {
            each!(map1(regs, inst, mask), |a| found((a ^ (a as i32 >> 31) as u32).leading_zeros(), 32))
        }
        Int::U32 | Int::U16 => each!(map1(regs, inst, mask), |a| found(a.leading_zeros(), 32)),
    }
}

/// [`Op::Bfe`](crate::program::Op::Bfe)
#[inline(always)]
pub fn bfe(ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    match ty {
        Int::U64 => each!(long_by2(regs, inst, mask), |a, b, c| field(a, b, c, 64, false)),
        Int::S64 => each!(long_by2(regs, inst, mask), |a, b, c| field(a, b, c, 64, true)),
        Int::U32 | Int::U16 => {
            each!(map3(regs, inst, mask), |a, b, c| field(a.into(), b, c, 32, false) as u32)
        }
        Int::S32 | Int::S16 => {
            each!(map3(regs, inst, mask), |a, b, c| field((a as i32) as u64, b, c, 32, true) as u32);
        }
    }
}

/// So many bits from a place on, with zeros or the sign above: that of the field, or of the whole where the field goes beyond it.
/// `a` is extended to 64 bits by its type.
#[inline(always)]
fn field(a: u64, place: u32, length: u32, bits: u32, signed: bool) -> u64 {
    let (place, length) = (place & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    if signed {
        let shifted = a as i64 >> place.min(63);
        if place + length >= bits {
            shifted as u64
        } else {
            (shifted << (64 - length) >> (64 - length)) as u64
        }
    } else {
        let shifted = if place < 64 { a >> place } else { 0 };
        if length < 64 { shifted & ((1 << length) - 1) } else { shifted }
    }
}

/// [`Op::Bfi`](crate::program::Op::Bfi)
#[inline(always)]
pub fn bfi(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B64 => long2_by2(regs, inst, mask, insert),
        _ => each!(map4(regs, inst, mask), |a, b, place, length| insert(a.into(), b.into(), place, length)
            as u32),
    }
}

#[inline(always)]
fn insert(a: u64, b: u64, place: u32, length: u32) -> u64 {
    let (place, length) = (place & 0xff, length & 0xff);
    if place >= 64 {
        return b;
    }
    let ones = if length < 64 { (1 << length) - 1 } else { u64::MAX };
    b & !(ones << place) | (a & ones) << place
}

/// [`Op::Bmsk`](crate::program::Op::Bmsk)
#[inline(always)]
pub fn bmsk(wrap: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    each!(map2(regs, inst, mask), |a, b| {
        let (from, width) = if wrap { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
        let to = from + width;
        ((1u64 << to.min(32)) - (1u64 << from)) as u32
    });
}

/// [`Op::Prmt`](crate::program::Op::Prmt): all modes but the first are tables of choices.
#[inline(always)]
pub fn prmt(mode: PrmtMode, inst: &Inst, regs: &mut Registers, mask: u32) {
    let table: [u32; 4] = match mode {
        PrmtMode::Index => [0; 4],
        PrmtMode::Forward4 => [0x3210, 0x4321, 0x5432, 0x6543],
        PrmtMode::Backward4 => [0x5670, 0x6701, 0x7012, 0x0123],
        PrmtMode::Replicate8 => [0x0000, 0x1111, 0x2222, 0x3333],
        PrmtMode::EdgeLeft => [0x3210, 0x3211, 0x3222, 0x3333],
        PrmtMode::EdgeRight => [0x0000, 0x1110, 0x2210, 0x3210],
        PrmtMode::Replicate16 => [0x1010, 0x3232, 0x1010, 0x3232],
    };
    let by_index = mode == PrmtMode::Index;
    each!(map3(regs, inst, mask), |a, b, c| {
        let choices = if by_index { c } else { table[(c & 3) as usize] };
        let both = u64::from(b) << 32 | u64::from(a);
        let mut bytes = 0;
        for i in 0..4 {
            let choice = choices >> (4 * i);
            let byte = (both >> (8 * (choice & 7))) as u8;
            let byte = if choice & 8 != 0 { (byte as i8 >> 7) as u8 } else { byte };
            bytes |= u32::from(byte) << (8 * i);
        }
        bytes
    });
}

/// [`Op::Mov`](crate::program::Op::Mov)
#[inline(always)]
pub fn mov(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B16 | Bits::B32 => each!(map1(regs, inst, mask), |a| a),
        Bits::B64 => each!(long1(regs, inst, mask), |a| a),
        Bits::Pred => put_predicate(regs, inst.d, mask, regs.holds(inst.a, false)),
    }
}

/// [`Op::Pack`](crate::program::Op::Pack)
#[inline(always)]
pub fn pack(part: Bits, whole: Bits, inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) {
    let width = if part == Bits::B16 { 16 } else { 32 };
    let mut values = [0u64; 32];
    for (i, &reg) in lists[inst.a.index()].iter().enumerate() {
        let from = get32(regs, reg);
        for (value, &from) in values.iter_mut().zip(from) {
            *value |= u64::from(from) << (width * i);
        }
    }
    match whole {
        Bits::B64 => put64(regs, inst.d, mask, values),
        _ => put32(regs, inst.d, mask, lanes!(|lane| values[lane] as u32)),
    }
}

/// [`Op::Unpack`](crate::program::Op::Unpack)
#[inline(always)]
pub fn unpack(part: Bits, whole: Bits, inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) {
    let (width, ones) = if part == Bits::B16 { (16, 0xffff) } else { (32, u32::MAX) };
    let values = match whole {
        Bits::B64 => *get64(regs, inst.a),
        _ => {
            let a = get32(regs, inst.a);
            lanes!(|lane| a[lane].into())
        }
    };
    for (i, &reg) in lists[inst.d.index()].iter().enumerate() {
        put32(regs, reg, mask, lanes!(|lane| (values[lane] >> (width * i)) as u32 & ones));
    }
}
