//! Comparisons and choices.
//!
//! Of two comparisons that are each other's complement or mirror, one is computed.

use crate::program::{Bits, Comparable, Compare, Float, Inst, Int, Join, SetResult, Setp, Testp};
use crate::registers::Registers;

use super::float::flush;
use super::half;
use super::lanes::{Longs, Value, Words, ballot, get32, get64, lanes, ones, put_predicate, put32, put64};

/// A comparison by what is computed: whether the operands are swapped, how they are compared, and whether the result is negated.
struct Form {
    swapped: bool,
    basic: Basic,
    negated: bool,
}

/// Comparisons of numbers; those with NaN are false.
#[derive(Clone, Copy, PartialEq)]
enum Basic {
    Equal,
    Differ,
    Less,
    AtMost,
    Numbers,
}

fn form(compare: Compare) -> Form {
    let (swapped, basic, negated) = match compare {
        Compare::Eq => (false, Basic::Equal, false),
        Compare::Ne => (false, Basic::Differ, false),
        Compare::Lt => (false, Basic::Less, false),
        Compare::Le => (false, Basic::AtMost, false),
        Compare::Gt => (true, Basic::Less, false),
        Compare::Ge => (true, Basic::AtMost, false),
        Compare::Equ => (false, Basic::Differ, true),
        Compare::Neu => (false, Basic::Equal, true),
        Compare::Ltu => (true, Basic::AtMost, true),
        Compare::Leu => (true, Basic::Less, true),
        Compare::Gtu => (false, Basic::AtMost, true),
        Compare::Geu => (false, Basic::Less, true),
        Compare::Num => (false, Basic::Numbers, false),
        Compare::Nan => (false, Basic::Numbers, true),
    };
    Form { swapped, basic, negated }
}

/// In which lanes it holds. Integers have no NaN, so that what is not less is at least.
#[inline(always)]
fn integers<T: Copy + PartialEq, U: PartialOrd>(
    a: &[T; 32],
    b: &[T; 32],
    basic: Basic,
    number: impl Fn(T) -> U,
) -> u32 {
    match basic {
        Basic::Equal => ballot!(|lane| a[lane] == b[lane]),
        Basic::Differ => !ballot!(|lane| a[lane] == b[lane]),
        Basic::Less => ballot!(|lane| number(a[lane]) < number(b[lane])),
        Basic::AtMost => !ballot!(|lane| number(b[lane]) < number(a[lane])),
        Basic::Numbers => u32::MAX,
    }
}

#[inline(always)]
fn floats<T: Copy, U: PartialOrd>(a: &[T; 32], b: &[T; 32], basic: Basic, number: impl Fn(T) -> U) -> u32 {
    match basic {
        Basic::Equal => ballot!(|lane| number(a[lane]) == number(b[lane])),
        Basic::Differ => ballot!(|lane| {
            let (a, b) = (number(a[lane]), number(b[lane]));
            a.partial_cmp(&b).is_some_and(std::cmp::Ordering::is_ne)
        }),
        Basic::Less => ballot!(|lane| number(a[lane]) < number(b[lane])),
        Basic::AtMost => ballot!(|lane| number(a[lane]) <= number(b[lane])),
        Basic::Numbers => ballot!(|lane| {
            let (a, b) = (number(a[lane]), number(b[lane]));
            a <= b || a >= b
        }),
    }
}

/// [`Op::Setp`](crate::program::Op::Setp) of the types that most comparisons have.
#[inline(always)]
pub fn setp(setp: Setp, inst: &Inst, regs: &mut Registers, mask: u32) -> bool {
    let Form { swapped, basic, negated } = form(setp.compare);
    let (a, b) = if swapped { (inst.b, inst.a) } else { (inst.a, inst.b) };
    let held = match setp.ty {
        Comparable::Int(Int::S32) => integers(get32(regs, a), get32(regs, b), basic, |a| a as i32),
        Comparable::Int(Int::U32 | Int::U16) => integers(get32(regs, a), get32(regs, b), basic, |a| a),
        Comparable::Int(Int::S64) => integers(get64(regs, a), get64(regs, b), basic, |a| a as i64),
        Comparable::Int(Int::U64) => integers(get64(regs, a), get64(regs, b), basic, |a| a),
        Comparable::Float(Float::F32) if !setp.ftz => {
            floats(get32(regs, a), get32(regs, b), basic, f32::from_bits)
        }
        Comparable::Float(Float::F32) => {
            floats(get32(regs, a), get32(regs, b), basic, |a| f32::from_bits(flush(a)))
        }
        _ => return false,
    };
    let held = if negated { !held } else { held };
    let with = regs.holds(inst.c, setp.negated);
    put_predicate(regs, inst.d, mask, join(setp.join, held, with));
    put_predicate(regs, inst.e, mask, join(setp.join, !held, with));
    true
}

#[inline(always)]
fn join(join: Join, held: u32, with: u32) -> u32 {
    match join {
        Join::Alone => held,
        Join::And => held & with,
        Join::Or => held | with,
        Join::Xor => held ^ with,
    }
}

/// In which lanes a comparison holds for the only or first number, and for the second of a pair.
fn held(setp: Setp, inst: &Inst, regs: &Registers) -> (u32, u32) {
    let Form { swapped, basic, negated } = form(setp.compare);
    let (a, b) = if swapped { (inst.b, inst.a) } else { (inst.a, inst.b) };
    let words = || (get32(regs, a), get32(regs, b));
    let longs = || (get64(regs, a), get64(regs, b));
    let of_halves = |number: &dyn Fn(u32) -> f64| {
        let (a, b) = words();
        let upper = |of: &Words| lanes!(|lane| of[lane] >> 16);
        let number = |bits: u32| number(bits & 0xffff);
        (floats(a, b, basic, number), floats(&upper(a), &upper(b), basic, number))
    };
    let int32 = |of: &dyn Fn(u32) -> i64| {
        let (a, b) = words();
        (integers(a, b, basic, of), 0)
    };
    let long = |of: &dyn Fn(&Longs, &Longs) -> u32| {
        let (a, b) = longs();
        (of(a, b), 0)
    };
    let (first, second) = match setp.ty {
        Comparable::Int(Int::U16 | Int::U32) => int32(&i64::from),
        Comparable::Int(Int::S16) => int32(&|a| (a as i16).into()),
        Comparable::Int(Int::S32) => int32(&|a| (a as i32).into()),
        Comparable::Int(Int::U64) => long(&|a, b| integers(a, b, basic, |a| a)),
        Comparable::Int(Int::S64) => long(&|a, b| integers(a, b, basic, |a| a as i64)),
        Comparable::Float(Float::F64) => long(&|a, b| floats(a, b, basic, f64::from_bits)),
        Comparable::Float(Float::F32) => {
            let (a, b) = words();
            (floats(a, b, basic, |a| f32::from_bits(if setp.ftz { flush(a) } else { a })), 0)
        }
        Comparable::Float(Float::F16 | Float::F16x2) => {
            of_halves(&|a| half::value::<false>(if setp.ftz { half::flush(a) } else { a }))
        }
        Comparable::Float(Float::Bf16 | Float::Bf16x2) => of_halves(&half::value::<true>),
    };
    if negated { (!first, !second) } else { (first, second) }
}

fn is_pair(ty: Comparable) -> bool {
    matches!(ty, Comparable::Float(Float::F16x2 | Float::Bf16x2))
}

/// [`Op::Setp`](crate::program::Op::Setp) of all types.
#[inline(always)]
pub fn setp_rare(setp: Setp, inst: &Inst, regs: &mut Registers, mask: u32) {
    let (first, second) = held(setp, inst, regs);
    let second = if is_pair(setp.ty) { second } else { !first };
    let with = regs.holds(inst.c, setp.negated);
    put_predicate(regs, inst.d, mask, join(setp.join, first, with));
    put_predicate(regs, inst.e, mask, join(setp.join, second, with));
}

/// [`Op::Set`](crate::program::Op::Set)
#[inline(always)]
pub fn set(setp: Setp, result: SetResult, inst: &Inst, regs: &mut Registers, mask: u32) {
    let (first, second) = held(setp, inst, regs);
    let with = regs.holds(inst.c, setp.negated);
    let (first, second) = (join(setp.join, first, with), join(setp.join, second, with));
    let pair = is_pair(setp.ty);
    let one = match result {
        SetResult::Ones if pair => 0xffff,
        SetResult::Ones => u32::MAX,
        SetResult::F32 => 1.0f32.to_bits(),
        SetResult::F16 => 0x3c00,
        SetResult::Bf16 => 0x3f80,
    };
    let (first, second) = (ones(first), ones(if pair { second } else { 0 }));
    let values = lanes!(|lane| first[lane] & one | (second[lane] & one) << 16);
    put32(regs, inst.d, mask, values);
}

/// [`Op::Selp`](crate::program::Op::Selp)
#[inline(always)]
pub fn selp(bits: Bits, inst: &Inst, regs: &mut Registers, mask: u32) {
    choose(bits, regs.holds(inst.c, false), inst, regs, mask);
}

#[inline(always)]
fn choose(bits: Bits, chosen: u32, inst: &Inst, regs: &mut Registers, mask: u32) {
    match bits {
        Bits::B16 | Bits::B32 => {
            let (a, b, ones) = (get32(regs, inst.a), get32(regs, inst.b), ones(chosen));
            let values = lanes!(|lane| u32::choose(ones[lane], a[lane], b[lane]));
            put32(regs, inst.d, mask, values);
        }
        Bits::B64 => {
            let (a, b, ones) = (get64(regs, inst.a), get64(regs, inst.b), ones(chosen));
            let values = lanes!(|lane| u64::choose(ones[lane], a[lane], b[lane]));
            put64(regs, inst.d, mask, values);
        }
        Bits::Pred => {
            let (a, b) = (regs.holds(inst.a, false), regs.holds(inst.b, false));
            put_predicate(regs, inst.d, mask, a & chosen | b & !chosen);
        }
    }
}

/// [`Op::Slct`](crate::program::Op::Slct)
#[inline(always)]
pub fn slct(bits: Bits, ty: Comparable, inst: &Inst, regs: &mut Registers, mask: u32) {
    let c = get32(regs, inst.c);
    let chosen = match ty {
        Comparable::Int(_) => ballot!(|lane| c[lane] as i32 >= 0),
        Comparable::Float(_) => ballot!(|lane| f32::from_bits(c[lane]) >= 0.0),
    };
    choose(bits, chosen, inst, regs, mask);
}

/// [`Op::Testp`](crate::program::Op::Testp)
#[inline(always)]
pub fn testp(test: Testp, ty: Float, inst: &Inst, regs: &mut Registers, mask: u32) {
    let held = match ty {
        Float::F64 => {
            let a = get64(regs, inst.a);
            ballot!(|lane| is(test, f64::from_bits(a[lane]).classify()))
        }
        _ => {
            let a = get32(regs, inst.a);
            ballot!(|lane| is(test, f32::from_bits(a[lane]).classify()))
        }
    };
    put_predicate(regs, inst.d, mask, held);
}

/// Zero is normal: so says the PTX ISA.
fn is(test: Testp, class: std::num::FpCategory) -> bool {
    use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal, Zero};
    match test {
        Testp::Finite => !matches!(class, Infinite | Nan),
        Testp::Infinite => class == Infinite,
        Testp::Number => class != Nan,
        Testp::NotANumber => class == Nan,
        Testp::Normal => matches!(class, Normal | Zero),
        Testp::Subnormal => class == Subnormal,
    }
}
