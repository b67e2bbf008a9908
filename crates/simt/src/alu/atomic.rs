//! What an atomic operation leaves in memory.

use crate::program::{Atomic, AtomicType, Bits, Float, Float2, Int, Mode};

use super::float::{bits32, bits64, extreme32, extreme64, flush};
use super::half;

/// The new value of a word that holds `old`, by operands `b` and `c`; all in as many of the lower bits as the type has.
///
/// Sums of f32 keep subnormal numbers but in global memory: there, `flushes`.
pub fn atomic(op: Atomic, ty: AtomicType, (old, b, c): (u64, u64, u64), flushes: bool) -> u64 {
    match (op, ty) {
        (Atomic::Add, AtomicType::Float(Float::F32)) if flushes => {
            let [old, b] = [old, b].map(|bits| f32::from_bits(flush(bits as u32)));
            flush(bits32(old + b)).into()
        }
        (Atomic::And, _) => old & b,
        (Atomic::Or, _) => old | b,
        (Atomic::Xor, _) => old ^ b,
        (Atomic::Exchange, _) => b,
        (Atomic::CompareAndSwap, _) if old == b => c,
        (Atomic::CompareAndSwap, _) => old,
        (Atomic::Increment, _) if old >= b => 0,
        (Atomic::Increment, _) => old + 1,
        (Atomic::Decrement, _) if old == 0 || old > b => b,
        (Atomic::Decrement, _) => old - 1,
        (op, AtomicType::Float(ty)) => float(op, ty, old, b),
        (op, AtomicType::Int(ty)) => integer(op, ty, old, b),
        (op, AtomicType::Bits(Bits::B64)) => integer(op, Int::U64, old, b),
        (op, AtomicType::Bits(Bits::B16)) => integer(op, Int::U16, old, b),
        (op, AtomicType::Bits(_)) => integer(op, Int::U32, old, b),
    }
}

/// A sum, or the least or greatest.
fn integer(op: Atomic, ty: Int, old: u64, b: u64) -> u64 {
    let (shift, signed) = match ty {
        Int::U16 => (48, false),
        Int::S16 => (48, true),
        Int::U32 => (32, false),
        Int::S32 => (32, true),
        Int::U64 => (0, false),
        Int::S64 => (0, true),
    };
    // At the top of 64 bits, every width is ordered as 64 bits are.
    let (x, y) = (old << shift, b << shift);
    let larger = if signed { x as i64 > y as i64 } else { x > y };
    match op {
        Atomic::Min if larger => b,
        Atomic::Max if !larger => b,
        Atomic::Min | Atomic::Max => old,
        _ => x.wrapping_add(y) >> shift,
    }
}

fn float(op: Atomic, ty: Float, old: u64, b: u64) -> u64 {
    let two = match op {
        Atomic::Min => Float2::Min,
        Atomic::Max => Float2::Max,
        _ => Float2::Add,
    };
    let max = two == Float2::Max;
    match ty {
        Float::F32 if two == Float2::Add => {
            bits32(f32::from_bits(old as u32) + f32::from_bits(b as u32)).into()
        }
        Float::F32 => extreme32(old as u32, b as u32, max, false, false).into(),
        Float::F64 if two == Float2::Add => bits64(f64::from_bits(old) + f64::from_bits(b)),
        Float::F64 => extreme64(f64::from_bits(old), f64::from_bits(b), max, false),
        Float::F16 | Float::Bf16 | Float::F16x2 | Float::Bf16x2 => {
            let (pair, bf) = half::kind(ty);
            let mode = Mode::default();
            let sum = half::both(
                pair,
                [old as u32, b as u32, 0],
                #[inline(always)]
                |a, b, _| {
                    if bf {
                        half::two_of::<true>(two, mode, a, b)
                    } else {
                        half::two_of::<false>(two, mode, a, b)
                    }
                },
            );
            sum.into()
        }
    }
}
