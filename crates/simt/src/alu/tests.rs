//! Every form of every operation, on edges and at random, for random lanes, against [models](table) that share nothing with it.

mod exact;
mod lists;
mod page;
mod table;

use std::collections::BTreeSet;

use self::exact::{BF16, F16, F32, F64, Format};
use self::table::{Against, Case, Expected, Form, Kind, table};
use crate::program::{Atomic, Float, Guard, Inst, Int, Op, Reg};
use crate::registers::Registers;

/// Rounds of 32 lanes unless `TRIBUNAL_ROUNDS` asks for others.
const ROUNDS: usize = 6;

/// A sequence that repeats itself.
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    fn integer(&mut self, bits: u32) -> u64 {
        let top = 1u64 << (bits - 1);
        let ones = top | (top - 1);
        let value = match self.below(5) {
            0 | 1 => self.of(&[
                0,
                1,
                2,
                3,
                top - 1,
                top,
                top + 1,
                ones,
                ones - 1,
                0xff,
                0x80,
                0x7fff,
                0x8000,
                0xffff,
            ]),
            2 => self.below(100),
            3 => self.below(100).wrapping_neg(),
            _ => self.next(),
        };
        value & ones
    }

    fn float(&mut self, of: Format) -> u64 {
        let (infinity, one, sign) = (of.infinity(), of.one(), of.sign());
        let ulp = 1u64 << of.fraction;
        let bits = match self.below(6) {
            0 | 1 => self.of(&[
                0,
                1,
                2,
                ulp - 1,
                ulp,
                ulp + 1,
                infinity - 1,
                infinity,
                infinity + 1,
                infinity | ulp >> 1,
                one,
                one - 1,
                one + 1,
                one - ulp,
                one + ulp,
                one + ulp / 2,
            ]),
            // About the least normal f32.
            2 if of == F64 && self.below(2) == 0 => {
                (0x381 << 52) - self.of(&[0, 1, 1 << 28, (1 << 28) + 1, 1 << 27, (1 << 27) + 1, 1 << 29])
                    + self.below(2)
            }
            2 => self.next() & (sign - 1),
            3 => one.wrapping_add(self.below(ulp << 1)).wrapping_sub(ulp),
            // Few bits, so that there are ties.
            4 => {
                ((one & infinity).wrapping_add(self.below(24) << of.fraction) - 12 * ulp)
                    | (self.below(16) << (of.fraction - 4))
            }
            _ => one.wrapping_add(self.next() % (12 * ulp)).wrapping_sub(6 * ulp),
        };
        bits & (sign - 1) | if self.below(2) == 0 { sign } else { 0 }
    }

    fn value(&mut self, kind: Kind) -> u64 {
        match kind {
            Kind::Absent => 0,
            Kind::Int(Int::U16 | Int::S16) => self.integer(16),
            Kind::Int(Int::U32 | Int::S32) => self.integer(32),
            Kind::Int(Int::U64 | Int::S64) => self.integer(64),
            Kind::Float(Float::F16) => self.float(F16),
            Kind::Float(Float::Bf16) => self.float(BF16),
            Kind::Float(Float::F16x2) => self.float(F16) | self.float(F16) << 16,
            Kind::Float(Float::Bf16x2) => self.float(BF16) | self.float(BF16) << 16,
            Kind::Float(Float::F32) => self.float(F32),
            Kind::Float(Float::F64) => self.float(F64),
            Kind::Amount => match self.below(4) {
                0 => {
                    self.of(&[0, 1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 255, 256, 0x8000_0000, 0xffff_ffff])
                }
                1 => self.integer(32),
                _ => self.below(72),
            },
            Kind::Segment => {
                self.of(&[0x1f, 0, 0x1c1f, 0x1800, 0x101f, 0x1e1f, 0x1803, 0x0f07, 0x1f1f])
                    | self.below(2) << 13
            }
            Kind::Pred => self.below(2),
        }
    }

    fn mask(&mut self) -> u32 {
        match self.below(4) {
            0 => u32::MAX,
            1 => 1 << self.below(32),
            _ => self.next() as u32 | 1 << self.below(32),
        }
    }

    fn case(&mut self, kinds: &[Kind; 4]) -> Case {
        let mut operands = [[0; 32]; 4];
        for lane in 0..32 {
            for (i, kind) in kinds.iter().enumerate() {
                let value = match self.below(6) {
                    // Lanes and operands that agree.
                    0 if lane > 0 => operands[i][lane - 1],
                    1 if i > 0 && kinds[i - 1] == *kind => operands[i - 1][lane],
                    _ => self.value(*kind),
                };
                operands[i][lane] = value;
            }
            // A sum in which all leading bits go.
            if *kinds
                == [Kind::Float(Float::F32), Kind::Float(Float::F32), Kind::Float(Float::F32), Kind::Absent]
                && self.below(4) == 0
            {
                let [a, b] = [0, 1].map(|i| f32::from_bits(operands[i][lane] as u32));
                operands[2][lane] = u64::from((-(a * b)).to_bits());
            }
        }
        // Of shuffles and votes: the same for all, mostly.
        if self.below(2) == 0 {
            for (of, kind) in operands.iter_mut().zip(kinds) {
                if matches!(kind, Kind::Amount | Kind::Segment) {
                    *of = [of[0]; 32];
                }
            }
        }
        Case { operands, carry: self.next() as u32, mask: self.mask() }
    }
}

/// Registers full of what nobody asks for.
fn garbage(random: &mut Random, registers: usize) -> Registers {
    Registers {
        w32: (0..registers).map(|_| std::array::from_fn(|_| random.next() as u32)).collect(),
        w64: (0..registers).map(|_| std::array::from_fn(|_| random.next())).collect(),
        p: (0..registers).map(|_| random.next() as u32).collect(),
        carry: random.next() as u32,
    }
}

/// Executes in the copy that runs everywhere, and in that for AVX2; they must agree.
fn step(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    let mut others = regs.clone();
    let done = super::step(inst, lists, regs, mask);
    #[cfg(target_arch = "x86_64")]
    if super::has_avx2() {
        #[allow(unsafe_code)]
        // SAFETY: the machine has what the copy is compiled for.
        let done_there = unsafe { super::step_avx2(inst, lists, &mut others, mask) };
        assert_eq!(done, done_there, "{inst:?}");
        assert!(same(regs, &others), "{inst:?}: the copies differ");
    }
    done
}

fn same(a: &Registers, b: &Registers) -> bool {
    a.w32 == b.w32 && a.w64 == b.w64 && a.p == b.p && a.carry == b.carry
}

const REGISTERS: usize = 7;

fn put(regs: &mut Registers, kind: Kind, at: usize, values: &[u64; 32]) {
    match kind {
        Kind::Absent => {}
        Kind::Pred => regs.p[at] = (0..32).map(|lane| (values[lane] as u32) << lane).sum(),
        kind if kind.is_wide() => regs.w64[at] = *values,
        _ => regs.w32[at] = values.map(|value| value as u32),
    }
}

fn get(regs: &Registers, kind: Kind, at: usize, lane: usize) -> u64 {
    match kind {
        Kind::Pred => (regs.p[at] >> lane & 1).into(),
        kind if kind.is_wide() => regs.w64[at][lane],
        _ => regs.w32[at][lane].into(),
    }
}

fn set(regs: &mut Registers, kind: Kind, at: usize, lane: usize, value: u64) {
    match kind {
        Kind::Pred => regs.p[at] = regs.p[at] & !(1 << lane) | (value as u32) << lane,
        kind if kind.is_wide() => regs.w64[at][lane] = value,
        _ => regs.w32[at][lane] = value as u32,
    }
}

/// Whether a result is what is expected; if it is near enough, it is that.
fn settle(expected: &Expected, got: u64) -> u64 {
    match *expected {
        Expected::Bits(bits) => bits,
        Expected::Near(of, exact, units) => {
            let least = 2 - (1 << (of.exponent - 1));
            let exponent = (exact.abs().log2().floor() as i32).max(least) - of.fraction as i32;
            // In two steps: the unit of a small f64 is no number that a power gives at once.
            let off = (of.value(got) - exact).abs()
                * 2f64.powi(-exponent / 2)
                * 2f64.powi(-exponent - -exponent / 2);
            // What is expected otherwise is something else.
            if of.is_finite(got) && off <= units { got } else { !got }
        }
    }
}

fn try_form(form: &Form, random: &mut Random, rounds: usize) {
    for round in 0..rounds {
        let case = random.case(&form.operands);
        let mut regs = garbage(random, REGISTERS);
        regs.carry = case.carry;
        let mut at = [1, 2, 3, 4];
        for (i, kind) in form.operands.iter().enumerate() {
            put(&mut regs, *kind, at[i], &case.operands[i]);
            if *kind == Kind::Absent {
                at[i] = usize::from(u16::MAX);
            }
        }
        // The result may lie where an operand did.
        let aliased = round % 2 == 1 && form.operands[0] != Kind::Absent;
        let d = if form.results[0] == Kind::Absent { usize::from(u16::MAX) } else { usize::from(aliased) };
        let e = if form.results[1] == Kind::Absent { usize::from(u16::MAX) } else { 5 };
        let [d_reg, e_reg, a, b, c, f] = [d, e, at[0], at[1], at[2], at[3]].map(|at| Reg(at as u16));
        let inst = Inst { op: form.op, guard: Guard::ALWAYS, d: d_reg, e: e_reg, a, b, c, f };
        let mut expected = regs.clone();
        let asked = step(&inst, &[], &mut regs, case.mask);
        let mut absent = 0;
        for lane in case.active() {
            let outcome = (form.model)(&case, lane);
            absent |= u32::from(outcome.absent) << lane;
            if form.results[0] != Kind::Absent {
                let got = get(&regs, form.results[0], d, lane);
                let wanted = settle(&outcome.d, got);
                let given = case.operands.map(|of| of[lane]);
                let near = if let Expected::Near(_, exact, _) = outcome.d { exact } else { f64::NAN };
                assert!(wanted == got, "{:?} of {given:x?}: {got:#x}, not {wanted:#x} ({near:e})", form.op);
                set(&mut expected, form.results[0], d, lane, got);
            }
            if form.results[1] != Kind::Absent {
                set(&mut expected, form.results[1], e, lane, outcome.e);
            }
            if let Some(carry) = outcome.carry {
                expected.carry = expected.carry & !(1 << lane) | u32::from(carry) << lane;
            }
        }
        assert_eq!(asked, Some(absent), "{:?}", form.op);
        assert!(
            same(&regs, &expected),
            "{:?} with lanes {:x}: something else was written",
            form.op,
            case.mask
        );
    }
}

fn try_all(of: impl Fn(Against) -> bool) {
    let asked = std::env::var("TRIBUNAL_ROUNDS");
    let rounds = asked.map_or(ROUNDS, |text| text.parse().expect("TRIBUNAL_ROUNDS: a number"));
    for (seed, form) in table().iter().enumerate().filter(|(_, form)| of(form.against)) {
        try_form(form, &mut Random(seed as u64), rounds);
    }
}

#[test]
fn integers_and_bits_are_as_the_models_say() {
    try_all(|against| matches!(against, Against::Integers | Against::BitByBit));
}

#[test]
fn floats_are_rounded_once() {
    try_all(|against| against == Against::Fractions);
}

#[test]
fn functions_are_near_those_of_the_host() {
    try_all(|against| against == Against::Host);
}

#[test]
fn rules_of_the_isa_are_kept() {
    try_all(|against| against == Against::Rules);
}

/// Every operation is in the table, or has tests of its own, or is another's: a new one does not compile without a line here.
fn place(op: &Op) -> Result<&'static str, &'static str> {
    match op {
        Op::Int2(..) => Ok("Int2"),
        Op::Int3(..) => Ok("Int3"),
        Op::Mul24 { .. } => Ok("Mul24"),
        Op::IntNeg(_) => Ok("IntNeg"),
        Op::IntAbs(_) => Ok("IntAbs"),
        Op::Carried { .. } => Ok("Carried"),
        Op::Dp4a(..) => Ok("Dp4a"),
        Op::Dp2a(..) => Ok("Dp2a"),
        Op::Float2(..) => Ok("Float2"),
        Op::Float1(..) => Ok("Float1"),
        Op::Fma(..) => Ok("Fma"),
        Op::Convert(..) => Ok("Convert"),
        Op::ConvertPair(..) => Ok("ConvertPair"),
        Op::RoundTf32 => Ok("RoundTf32"),
        Op::Intrinsic(..) => Ok("Intrinsic"),
        Op::Logic(..) => Ok("Logic"),
        Op::Not(_) => Ok("Not"),
        Op::Cnot(_) => Ok("Cnot"),
        Op::Lop3(_) => Ok("Lop3"),
        Op::Funnel { .. } => Ok("Funnel"),
        Op::Popc(_) => Ok("Popc"),
        Op::Clz(_) => Ok("Clz"),
        Op::Brev(_) => Ok("Brev"),
        Op::Bfind(..) => Ok("Bfind"),
        Op::Bfe(_) => Ok("Bfe"),
        Op::Bfi(_) => Ok("Bfi"),
        Op::Bmsk(_) => Ok("Bmsk"),
        Op::Prmt(_) => Ok("Prmt"),
        Op::Mov(_) => Ok("Mov"),
        Op::Setp(_) => Ok("Setp"),
        Op::Set(..) => Ok("Set"),
        Op::Selp(_) => Ok("Selp"),
        Op::Slct(..) => Ok("Slct"),
        Op::Testp(..) => Ok("Testp"),
        Op::ActiveMask => Ok("ActiveMask"),
        Op::Shuffle(_) => Ok("Shuffle"),
        Op::Vote(..) => Ok("Vote"),
        Op::Match { .. } => Ok("Match"),
        Op::Redux(..) => Ok("Redux"),
        Op::Nop => Ok("Nop"),
        Op::Pack(..) => Err("lists::packed"),
        Op::Unpack(..) => Err("lists::packed"),
        Op::Mma(_) => Err("lists::products"),
        Op::WarpSync
        | Op::Load(_)
        | Op::Store(_)
        | Op::Atomic(..)
        | Op::ConvertAddress { .. }
        | Op::IsSpace(_)
        | Op::Fence(_)
        | Op::CopyAsync(_)
        | Op::CommitGroup
        | Op::WaitGroup(_)
        | Op::Mbarrier { .. }
        | Op::LoadMatrix { .. }
        | Op::Branch { .. }
        | Op::BranchIndexed { .. }
        | Op::Meet
        | Op::Barrier(..)
        | Op::Exit
        | Op::Trap
        | Op::Printf(_)
        | Op::AssertFail(_) => Err("the interpreter"),
    }
}

#[test]
fn every_operation_is_in_the_table() {
    let table = table();
    let mut kinds: BTreeSet<&str> = table.iter().filter_map(|form| place(&form.op).ok()).collect();
    // What `place` names, by its own text: what it says and what is in the table must be one.
    for line in include_str!("tests.rs").lines().filter(|line| line.trim_start().starts_with("Op::")) {
        if let Some((_, name)) = line.split_once("=> Ok(\"") {
            let name = name.split('"').next().unwrap_or_default();
            assert!(kinds.remove(name), "{name} has no line in the table");
        }
    }
    assert!(kinds.is_empty(), "{kinds:?}");
    let text = table.iter().map(|form| format!("{:?}", form.op)).collect::<Vec<_>>().join("\n");
    for name in variants(include_str!("../program.rs")) {
        assert!(text.contains(&name), "{name} is in no form");
    }
}

/// Names of the variants of what the operations of the table are made of.
fn variants(program: &str) -> Vec<String> {
    let enums = [
        "Int2",
        "Int3",
        "Carry",
        "Logic",
        "Float2",
        "Float1",
        "Intrinsic",
        "Compare",
        "Join",
        "Shuffle",
        "Vote",
        "PrmtMode",
        "Testp",
        "SetResult",
        "Scalar",
        "Float",
        "Int",
        "Bits",
        "Round",
    ];
    let mut names = vec![];
    for of in enums {
        let (_, body) = program.split_once(&format!("pub enum {of} {{\n")).expect(of);
        let (body, _) = body.split_once("\n}").expect(of);
        let lines =
            body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#'));
        names.extend(lines.map(|line| line.trim_end_matches(',').to_owned()));
    }
    names
}

#[test]
fn what_is_the_interpreters_is_left_alone() {
    let mut regs = garbage(&mut Random(1), REGISTERS);
    let before = regs.clone();
    let none = Reg::NONE;
    for op in
        [Op::Exit, Op::WarpSync, Op::Meet, Op::Trap, Op::CommitGroup, Op::WaitGroup(None), Op::Printf(0)]
    {
        let inst = Inst { op, guard: Guard::ALWAYS, d: none, e: none, a: none, b: none, c: none, f: none };
        assert_eq!(step(&inst, &[], &mut regs, u32::MAX), None);
    }
    assert!(same(&regs, &before));
}

/// All halves, there and back, and the middles between them.
#[test]
fn every_half_converts_as_the_fractions_do() {
    for (of, narrow) in
        [(F16, super::half::rounded::<false> as fn(f64, _) -> u32), (BF16, super::half::rounded::<true>)]
    {
        for bits in 0..0x1_0000u64 {
            let value = of.value(bits);
            let got = if of == F16 {
                super::half::value::<false>(bits as u32)
            } else {
                super::half::value::<true>(bits as u32)
            };
            assert!(got.to_bits() == value.to_bits() || got.is_nan() && value.is_nan(), "{bits:x}");
            if of.is_finite(bits) {
                assert_eq!(u64::from(narrow(value, crate::program::Round::Nearest)), bits);
            }
            if of.is_finite(bits) && of.is_finite(bits + 1) && bits & 0x7fff != 0x7fff {
                let middle = (value + of.value(bits + 1)) / 2.0;
                let even = bits + (bits & 1);
                assert_eq!(u64::from(narrow(middle, crate::program::Round::Nearest)), even, "{middle:e}");
                assert_eq!(
                    u64::from(narrow(middle.next_up().min(f64::MAX), crate::program::Round::Zero)),
                    bits,
                    "{middle:e}"
                );
            }
        }
    }
}

/// The short way from an f32 to a half is the long one, for numbers of any size and on both sides of each edge.
#[test]
fn every_float_becomes_the_half_that_its_double_does() {
    let edges = [
        0u32,
        102 << 23,
        112 << 23,
        113 << 23,
        142 << 23,
        0x477f_f000,
        0x4780_0000,
        0x7f80_0000,
        0x7fff_ffff,
    ];
    let around = edges
        .iter()
        .flat_map(|edge| (0..8200u32).map(move |step| edge.wrapping_sub(4100).wrapping_add(step)));
    for bits in (0..=u32::MAX).step_by(4099).chain(around) {
        let value = f32::from_bits(bits);
        let long = |narrow: fn(f64, crate::program::Round) -> u32| {
            narrow(f64::from(value), crate::program::Round::Nearest)
        };
        assert_eq!(super::half::nearest::<false>(value), long(super::half::rounded::<false>), "{bits:x}");
        assert_eq!(super::half::nearest::<true>(value), long(super::half::rounded::<true>), "{bits:x}");
    }
}

#[test]
fn atomics_are_as_integers_and_floats_are() {
    use crate::program::AtomicType;
    let mut random = Random(7);
    let number = |bits: u64, ty: Int| match ty {
        Int::U32 => i128::from(bits as u32),
        Int::S32 => i128::from(bits as i32),
        Int::U64 => i128::from(bits),
        Int::S64 => i128::from(bits as i64),
        Int::U16 => i128::from(bits as u16),
        Int::S16 => i128::from(bits as i16),
    };
    for _ in 0..20_000 {
        for ty in [Int::U16, Int::S16, Int::U32, Int::S32, Int::U64, Int::S64] {
            let bits = match ty {
                Int::U16 | Int::S16 => 16,
                Int::U32 | Int::S32 => 32,
                Int::U64 | Int::S64 => 64,
            };
            let ones = u64::MAX >> (64 - bits);
            let [old, b, c] = [(); 3].map(|()| random.integer(bits));
            let b = if random.below(3) == 0 { old } else { b };
            let (x, y) = (number(old, ty), number(b, ty));
            let of = |op| super::atomic(op, AtomicType::Int(ty), (old, b, c), b % 2 == 0);
            assert_eq!(of(Atomic::Add), (x + y) as u64 & ones);
            assert_eq!(of(Atomic::Min), x.min(y) as u64 & ones);
            assert_eq!(of(Atomic::Max), x.max(y) as u64 & ones);
            assert_eq!(of(Atomic::And), old & b);
            assert_eq!(of(Atomic::Or), old | b);
            assert_eq!(of(Atomic::Xor), old ^ b);
            assert_eq!(of(Atomic::Exchange), b);
            assert_eq!(of(Atomic::CompareAndSwap), if old == b { c } else { old });
            assert_eq!(of(Atomic::Increment), if old >= b { 0 } else { old + 1 });
            assert_eq!(of(Atomic::Decrement), if old == 0 || old > b { b } else { old - 1 });
        }
    }
    for (ty, of) in [(Float::F16, F16), (Float::Bf16, BF16), (Float::F32, F32), (Float::F64, F64)] {
        for _ in 0..2_000 {
            let [old, b] = [(); 2].map(|()| random.float(of));
            let got = |op| super::atomic(op, AtomicType::Float(ty), (old, b, 0), false);
            let sum = |old, b| of.add(old, b, crate::program::Round::Nearest);
            assert_eq!(got(Atomic::Add), sum(old, b), "{old:x} + {b:x}");
            let flushed = |bits| if ty == Float::F32 { of.flushed(bits) } else { bits };
            let global = super::atomic(Atomic::Add, AtomicType::Float(ty), (old, b, 0), true);
            assert_eq!(global, flushed(sum(flushed(old), flushed(b))), "{old:x} + {b:x}, flushed");
            assert_eq!(got(Atomic::Min), of.extreme(old, b, false, false), "{old:x} {b:x}");
            assert_eq!(got(Atomic::Max), of.extreme(old, b, true, false), "{old:x} {b:x}");
        }
    }
    let two = AtomicType::Float(Float::F16x2);
    assert_eq!(super::atomic(Atomic::Add, two, (0x3c00_4000, 0x3c00_3c00, 0), false), 0x4000_4200);
}
