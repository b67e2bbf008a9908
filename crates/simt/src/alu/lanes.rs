//! How results come into registers, for the lanes that are active.
//!
//! Every loop goes over all lanes, so that the compiler makes vectors of it; what inactive lanes compute is thrown away. What is done for a
//! lane must be inlined always: otherwise loops are unrolled into calls of functions that know nothing of the vectors of a copy.

use crate::program::{Inst, LANES, Reg};
use crate::registers::Registers;

/// A value of 32 bits for each lane.
pub type Words = [u32; LANES];
/// A value of 64 bits for each lane.
pub type Longs = [u64; LANES];

/// A value for each lane. `std::array::from_fn` would be a function of its own, and not compiled for AVX2 with its caller.
#[inline(always)]
pub fn lanes<T: Copy + Default>(of: impl Fn(usize) -> T) -> [T; LANES] {
    let mut values = [T::default(); LANES];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = of(lane);
    }
    values
}

/// A bit for each lane.
#[inline(always)]
pub fn ballot(of: impl Fn(usize) -> bool) -> u32 {
    let mut bits = 0;
    for lane in 0..LANES {
        bits |= u32::from(of(lane)) << lane;
    }
    bits
}

/// By each eight lanes of a mask, all ones in those that it holds.
///
/// From the mask itself a compiler would make a branch for each lane, as it finds no vector in tests of 32 different bits.
static CHOICES: [[u32; 8]; 256] = {
    let mut choices = [[0; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut lane = 0;
        while lane < 8 {
            choices[mask][lane] = if mask >> lane & 1 == 1 { u32::MAX } else { 0 };
            lane += 1;
        }
        mask += 1;
    }
    choices
};

/// All ones in the lanes of a mask, and zeros in the others.
#[inline(always)]
pub fn ones(mask: u32) -> Words {
    let mut ones = [0; LANES];
    for (eight, mask) in ones.chunks_exact_mut(8).zip(mask.to_le_bytes()) {
        eight.copy_from_slice(&CHOICES[usize::from(mask)]);
    }
    ones
}

/// What a lane has of a register.
pub trait Value: Copy {
    /// One of two values, by whether the lane [is chosen](ones).
    fn choose(one: u32, yes: Self, no: Self) -> Self;
}

impl Value for u32 {
    #[inline(always)]
    fn choose(one: u32, yes: u32, no: u32) -> u32 {
        yes & one | no & !one
    }
}

impl Value for u64 {
    #[inline(always)]
    fn choose(one: u32, yes: u64, no: u64) -> u64 {
        let one = i64::from(one as i32) as u64;
        yes & one | no & !one
    }
}

#[inline(always)]
fn put<T: Value>(file: &mut [[T; LANES]], to: Reg, mask: u32, values: [T; LANES]) {
    // `Reg::NONE` is beyond the file: nobody wants the result.
    let Some(out) = file.get_mut(to.index()) else { return };
    if mask == u32::MAX {
        *out = values;
        return;
    }
    let ones = ones(mask);
    for lane in 0..LANES {
        out[lane] = T::choose(ones[lane], values[lane], out[lane]);
    }
}

/// Writes a register of 32 bits.
#[inline(always)]
pub fn put32(regs: &mut Registers, to: Reg, mask: u32, values: Words) {
    put(&mut regs.w32, to, mask, values);
}

/// Writes a register of 64 bits.
#[inline(always)]
pub fn put64(regs: &mut Registers, to: Reg, mask: u32, values: Longs) {
    put(&mut regs.w64, to, mask, values);
}

/// Writes a predicate.
#[inline(always)]
pub fn put_predicate(regs: &mut Registers, to: Reg, mask: u32, values: u32) {
    if let Some(out) = regs.p.get_mut(to.index()) {
        *out = *out & !mask | values & mask;
    }
}

/// Reads a register of 32 bits.
#[inline(always)]
pub fn get32(regs: &Registers, from: Reg) -> &Words {
    &regs.w32[from.index()]
}

/// Reads a register of 64 bits.
#[inline(always)]
pub fn get64(regs: &Registers, from: Reg) -> &Longs {
    &regs.w64[from.index()]
}

/// A map by a closure that is inlined always.
macro_rules! each {
    ($map:ident($($given:expr),+), |$($operand:pat_param),+| $body:expr $(,)?) => {
        $map($($given),+, #[inline(always)] |$($operand),+| $body)
    };
}

/// [`lanes`] by a closure that is inlined always.
macro_rules! lanes {
    (|$lane:pat_param| $body:expr $(,)?) => {
        lanes(
            #[inline(always)]
            |$lane| $body,
        )
    };
}

/// [`ballot`] by a closure that is inlined always.
macro_rules! ballot {
    (|$lane:pat_param| $body:expr $(,)?) => {
        ballot(
            #[inline(always)]
            |$lane| $body,
        )
    };
}

macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident($($operand:ident: $get:ident -> $in:ty),*) -> $put:ident $out:ty;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(regs: &mut Registers, inst: &Inst, mask: u32, of: impl Fn($($in),*) -> $out) {
            $(let $operand = $get(regs, inst.$operand);)*
            let values = lanes(#[inline(always)] |lane| of($($operand[lane]),*));
            $put(regs, inst.d, mask, values);
        }
    )*};
}

maps! {
    /// 32 bits of 32 bits.
    map1(a: get32 -> u32) -> put32 u32;
    /// 32 bits of two operands of 32 bits.
    map2(a: get32 -> u32, b: get32 -> u32) -> put32 u32;
    /// 32 bits of three operands of 32 bits.
    map3(a: get32 -> u32, b: get32 -> u32, c: get32 -> u32) -> put32 u32;
    /// 32 bits of four operands of 32 bits.
    map4(a: get32 -> u32, b: get32 -> u32, c: get32 -> u32, f: get32 -> u32) -> put32 u32;
    /// 64 bits of 64 bits.
    long1(a: get64 -> u64) -> put64 u64;
    /// 64 bits of two operands of 64 bits.
    long2(a: get64 -> u64, b: get64 -> u64) -> put64 u64;
    /// 64 bits of three operands of 64 bits.
    long3(a: get64 -> u64, b: get64 -> u64, c: get64 -> u64) -> put64 u64;
    /// 64 bits of 64 bits and an amount.
    long_by(a: get64 -> u64, b: get32 -> u32) -> put64 u64;
    /// 64 bits of 64 bits and two amounts.
    long_by2(a: get64 -> u64, b: get32 -> u32, c: get32 -> u32) -> put64 u64;
    /// 64 bits of twice 64 bits and two amounts.
    long2_by2(a: get64 -> u64, b: get64 -> u64, c: get32 -> u32, f: get32 -> u32) -> put64 u64;
    /// 64 bits of 32 bits.
    widen1(a: get32 -> u32) -> put64 u64;
    /// 64 bits of two operands of 32 bits.
    widen2(a: get32 -> u32, b: get32 -> u32) -> put64 u64;
    /// 64 bits of two operands of 32 bits and one of 64.
    widen3(a: get32 -> u32, b: get32 -> u32, c: get64 -> u64) -> put64 u64;
    /// 32 bits of 64 bits.
    narrow1(a: get64 -> u64) -> put32 u32;
}
