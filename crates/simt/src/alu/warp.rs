//! What lanes learn of each other.

use crate::program::{Atomic, Bits, Inst, Int, Shuffle, Vote};
use crate::registers::Registers;

use super::atomic::atomic;
use super::lanes::{Words, ballot, get32, get64, lanes, put_predicate, put32};
use crate::program::AtomicType;

/// [`Op::Shuffle`](crate::program::Op::Shuffle): the lanes that asked one that is not active, which get their own value.
#[inline(always)]
pub fn shuffle(kind: Shuffle, inst: &Inst, regs: &mut Registers, mask: u32) -> u32 {
    let (a, b, c) = (*get32(regs, inst.a), get32(regs, inst.b), get32(regs, inst.c));
    if kind == Shuffle::Butterfly && mask == u32::MAX && inst.e == crate::program::Reg::NONE {
        let same = ballot!(|lane| b[lane] == b[0] && c[lane] == 0x1f);
        let values = match b[0] {
            _ if same != u32::MAX => None,
            1 => Some(lanes!(|lane| a[lane ^ 1])),
            2 => Some(lanes!(|lane| a[lane ^ 2])),
            4 => Some(lanes!(|lane| a[lane ^ 4])),
            8 => Some(lanes!(|lane| a[lane ^ 8])),
            16 => Some(lanes!(|lane| a[lane ^ 16])),
            _ => None,
        };
        if let Some(values) = values {
            put32(regs, inst.d, mask, values);
            return 0;
        }
    }
    let sources: [i32; 32] = lanes!(|lane| source(kind, lane as i32, b[lane], c[lane]));
    let in_range = ballot!(|lane| sources[lane] >= 0);
    let asked: Words = lanes!(|lane| if sources[lane] >= 0 { sources[lane] as u32 } else { lane as u32 });
    let absent = !ballot!(|lane| mask >> (asked[lane] & 31) & 1 != 0) & mask;
    let values =
        lanes!(|lane| if absent >> lane & 1 != 0 { a[lane] } else { a[(asked[lane] & 31) as usize] });
    put32(regs, inst.d, mask, values);
    put_predicate(regs, inst.e, mask, in_range);
    absent
}

/// Of which lane a lane takes the value, or -1 where that is out of range.
#[inline(always)]
fn source(kind: Shuffle, lane: i32, b: u32, c: u32) -> i32 {
    let (by, clamp, segment) = ((b & 31) as i32, (c & 31) as i32, (c >> 8 & 31) as i32);
    let least = lane & segment;
    let most = least | clamp & !segment;
    let (from, fits) = match kind {
        Shuffle::Up => (lane - by, lane - by >= most),
        Shuffle::Down => (lane + by, lane + by <= most),
        Shuffle::Butterfly => (lane ^ by, lane ^ by <= most),
        Shuffle::Index => {
            let from = least | by & !segment;
            (from, from <= most)
        }
    };
    if fits { from } else { -1 }
}

/// [`Op::Vote`](crate::program::Op::Vote) among the lanes that are active.
#[inline(always)]
pub fn vote(kind: Vote, negated: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    let ayes = regs.holds(inst.a, negated) & mask;
    let verdict = match kind {
        Vote::All => ayes == mask,
        Vote::Any => ayes != 0,
        Vote::Uniform => ayes == mask || ayes == 0,
        Vote::Ballot => return put32(regs, inst.d, mask, [ayes; 32]),
    };
    put_predicate(regs, inst.d, mask, if verdict { u32::MAX } else { 0 });
}

/// [`Op::Match`](crate::program::Op::Match) among the lanes that are active.
#[inline(always)]
pub fn matches(bits: Bits, all: bool, inst: &Inst, regs: &mut Registers, mask: u32) {
    let values: [u64; 32] = match bits {
        Bits::B64 => *get64(regs, inst.a),
        _ => {
            let a = get32(regs, inst.a);
            lanes!(|lane| a[lane].into())
        }
    };
    let alike = |value: u64| ballot!(|lane| values[lane] == value) & mask;
    if all {
        let agreed = alike(values[mask.trailing_zeros() as usize & 31]) == mask;
        put32(regs, inst.d, mask, [if agreed { mask } else { 0 }; 32]);
        put_predicate(regs, inst.e, mask, if agreed { u32::MAX } else { 0 });
    } else {
        put32(regs, inst.d, mask, lanes!(|lane| alike(values[lane])));
    }
}

/// [`Op::Redux`](crate::program::Op::Redux) of the lanes that are active.
#[inline(always)]
pub fn redux(op: Atomic, ty: Int, inst: &Inst, regs: &mut Registers, mask: u32) {
    let a = get32(regs, inst.a);
    let result = (0..32)
        .filter(|lane| mask >> lane & 1 != 0)
        .map(|lane| u64::from(a[lane]))
        .reduce(|sum, value| atomic(op, AtomicType::Int(ty), (sum, value, 0), false))
        .unwrap_or(0);
    put32(regs, inst.d, mask, [result as u32; 32]);
}

/// [`Op::ActiveMask`](crate::program::Op::ActiveMask)
#[inline(always)]
pub fn active_mask(inst: &Inst, regs: &mut Registers, mask: u32) {
    put32(regs, inst.d, mask, [mask; 32]);
}
