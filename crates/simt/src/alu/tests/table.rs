//! What each operation gives, in the plainest words, for every form of it.

use super::exact::{BF16, F16, F32, F64, Format, Fraction};
use crate::program::*;

/// What an operand or result is: the file it lies in, and which values are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Absent,
    Int(Int),
    Float(Float),
    /// Amounts of shifts, places and lengths of fields, in 32 bits.
    Amount,
    /// Clamps and segments of shuffles.
    Segment,
    Pred,
}

impl Kind {
    pub fn is_wide(self) -> bool {
        matches!(self, Kind::Int(Int::U64 | Int::S64) | Kind::Float(Float::F64))
    }
}

/// What an instruction is given: for each operand, a value for each lane.
pub struct Case {
    pub operands: [[u64; 32]; 4],
    pub carry: u32,
    pub mask: u32,
}

impl Case {
    pub fn active(&self) -> impl Iterator<Item = usize> + Clone {
        let mask = self.mask;
        (0..32).filter(move |lane| mask >> lane & 1 != 0)
    }
}

/// What a lane must get.
pub enum Expected {
    Bits(u64),
    /// A number of the format, within so many units in the last place.
    Near(Format, f64, f64),
}

pub struct Outcome {
    pub d: Expected,
    pub e: u64,
    pub carry: Option<bool>,
    /// Whether it asked a lane that is not there.
    pub absent: bool,
}

impl Outcome {
    fn bits(d: u64) -> Outcome {
        Outcome { d: Expected::Bits(d), e: 0, carry: None, absent: false }
    }
}

/// What results are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Against {
    Integers,
    BitByBit,
    Fractions,
    Rules,
    Host,
}

impl Against {
    pub fn text(self) -> &'static str {
        match self {
            Against::Integers => "integers of 128 bits",
            Against::BitByBit => "the bits, one by one",
            Against::Fractions => "exact binary fractions, rounded by search",
            Against::Rules => "the rules of the PTX ISA, lane by lane",
            Against::Host => "f64 of the host's library",
        }
    }
}

/// An operation on operands of some types.
pub struct Form {
    pub operation: &'static str,
    pub types: String,
    pub modifiers: Vec<String>,
    pub against: Against,
    pub op: Op,
    pub operands: [Kind; 4],
    pub results: [Kind; 2],
    pub model: Model,
}

/// What a lane of a case comes to.
type Model = Box<dyn Fn(&Case, usize) -> Outcome>;
/// An operation, its name, and what it does of two.
type Named<T, A, B, R> = (T, &'static str, fn(A, B) -> R);

const INTS: [Int; 6] = [Int::U16, Int::S16, Int::U32, Int::S32, Int::U64, Int::S64];
const ROUNDS: [Round; 4] = [Round::Nearest, Round::Zero, Round::Down, Round::Up];

fn int_name(ty: Int) -> &'static str {
    match ty {
        Int::U16 => "u16",
        Int::S16 => "s16",
        Int::U32 => "u32",
        Int::S32 => "s32",
        Int::U64 => "u64",
        Int::S64 => "s64",
    }
}

fn width(ty: Int) -> u32 {
    match ty {
        Int::U16 | Int::S16 => 16,
        Int::U32 | Int::S32 => 32,
        Int::U64 | Int::S64 => 64,
    }
}

fn is_signed(ty: Int) -> bool {
    matches!(ty, Int::S16 | Int::S32 | Int::S64)
}

/// The number that bits of a width are.
fn number(bits: u64, width: u32, signed: bool) -> i128 {
    let value = i128::from(bits) & ((1 << width) - 1);
    if signed && value >> (width - 1) & 1 != 0 { value - (1 << width) } else { value }
}

fn wrapped(value: i128, width: u32) -> u64 {
    (value & ((1 << width) - 1)) as u64
}

fn limits(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

pub fn float_name(ty: Float) -> &'static str {
    match ty {
        Float::F16 => "f16",
        Float::Bf16 => "bf16",
        Float::F16x2 => "f16x2",
        Float::Bf16x2 => "bf16x2",
        Float::F32 => "f32",
        Float::F64 => "f64",
    }
}

fn format(ty: Float) -> Format {
    match ty {
        Float::F16 | Float::F16x2 => F16,
        Float::Bf16 | Float::Bf16x2 => BF16,
        Float::F32 => F32,
        Float::F64 => F64,
    }
}

fn is_pair(ty: Float) -> bool {
    matches!(ty, Float::F16x2 | Float::Bf16x2)
}

fn round_name(round: Round) -> &'static str {
    match round {
        Round::Nearest => ".rn",
        Round::Zero => ".rz",
        Round::Down => ".rm",
        Round::Up => ".rp",
    }
}

/// Forms whose lanes have nothing to do with each other.
#[derive(Default)]
pub struct Table(pub Vec<Form>);

impl Table {
    fn lane_by_lane(
        &mut self,
        (operation, types): (&'static str, impl Into<String>),
        modifiers: &[&str],
        against: Against,
        op: Op,
        (operands, result): (&[Kind], Kind),
        model: impl Fn([u64; 4]) -> u64 + 'static,
    ) {
        self.whole(
            (operation, types),
            modifiers,
            against,
            op,
            operands,
            [result, Kind::Absent],
            move |case, lane| Outcome::bits(model(case.operands.map(|of| of[lane]))),
        );
    }

    #[allow(clippy::too_many_arguments)]
    fn whole(
        &mut self,
        (operation, types): (&'static str, impl Into<String>),
        modifiers: &[&str],
        against: Against,
        op: Op,
        given: &[Kind],
        results: [Kind; 2],
        model: impl Fn(&Case, usize) -> Outcome + 'static,
    ) {
        let mut operands = [Kind::Absent; 4];
        operands[..given.len()].copy_from_slice(given);
        self.0.push(Form {
            operation,
            types: types.into(),
            modifiers: modifiers
                .iter()
                .filter(|text| !text.is_empty())
                .map(|text| text.to_string())
                .collect(),
            against,
            op,
            operands,
            results,
            model: Box::new(model),
        });
    }
}

/// Every form.
pub fn table() -> Vec<Form> {
    let mut table = Table::default();
    integers(&mut table);
    bits(&mut table);
    floats(&mut table);
    functions(&mut table);
    conversions(&mut table);
    comparisons(&mut table);
    warps(&mut table);
    table.0
}

fn integers(table: &mut Table) {
    use Against::Integers;
    for ty in INTS {
        let (bits, signed, kind) = (width(ty), is_signed(ty), Kind::Int(ty));
        let value = move |of: u64| number(of, bits, signed);
        let name = int_name(ty);
        let twos: [Named<Int2, i128, i128, i128>; 7] = [
            (Int2::Add, "add", |a, b| a + b),
            (Int2::Sub, "sub", |a, b| a - b),
            (Int2::MulLo, "mul.lo", |a, b| a.wrapping_mul(b)),
            (Int2::Div, "div", |a, b| if b == 0 { -1 } else { a / b }),
            (Int2::Rem, "rem", |a, b| if b == 0 { -1 } else { a % b }),
            (Int2::Min, "min", |a, b| if a < b { a } else { b }),
            (Int2::Max, "max", |a, b| if a < b { b } else { a }),
        ];
        for (op, text, of) in twos {
            table.lane_by_lane(
                (text, name),
                &[],
                Integers,
                Op::Int2(op, ty),
                (&[kind, kind], kind),
                move |[a, b, ..]| wrapped(of(value(a), value(b)), bits),
            );
        }
        for (op, text) in [(Int2::AddSat, "add"), (Int2::SubSat, "sub")] {
            let (least, most) = limits(bits, signed);
            table.lane_by_lane(
                (text, name),
                &[".sat"],
                Integers,
                Op::Int2(op, ty),
                (&[kind, kind], kind),
                move |[a, b, ..]| {
                    let exact = if op == Int2::AddSat { value(a) + value(b) } else { value(a) - value(b) };
                    wrapped(exact.clamp(least, most), bits)
                },
            );
        }
        let high = move |a: u64, b: u64| match bits {
            // The product of two u64 may not fit: one factor by halves.
            64 => (value(a) * (value(b) >> 32) + ((value(a) * (value(b) & 0xffff_ffff)) >> 32)) >> 32,
            _ => (value(a) * value(b)) >> bits,
        };
        table.lane_by_lane(
            ("mul.hi", name),
            &[],
            Integers,
            Op::Int2(Int2::MulHi, ty),
            (&[kind, kind], kind),
            move |[a, b, ..]| wrapped(high(a, b), bits),
        );
        table.lane_by_lane(
            ("mad.lo", name),
            &[],
            Integers,
            Op::Int3(Int3::MadLo, ty),
            (&[kind, kind, kind], kind),
            move |[a, b, c, _]| wrapped(value(a).wrapping_mul(value(b)).wrapping_add(value(c)), bits),
        );
        table.lane_by_lane(
            ("mad.hi", name),
            &[],
            Integers,
            Op::Int3(Int3::MadHi, ty),
            (&[kind, kind, kind], kind),
            move |[a, b, c, _]| wrapped(high(a, b) + value(c), bits),
        );
        table.lane_by_lane(
            ("sad", name),
            &[],
            Integers,
            Op::Int3(Int3::Sad, ty),
            (&[kind, kind, kind], kind),
            move |[a, b, c, _]| wrapped(value(c) + (value(a) - value(b)).abs(), bits),
        );
        table.lane_by_lane(
            ("shl", name),
            &[],
            Integers,
            Op::Int2(Int2::Shl, ty),
            (&[kind, Kind::Amount], kind),
            move |[a, b, ..]| {
                if b >= bits.into() { 0 } else { wrapped(i128::from(a) << b, bits) }
            },
        );
        table.lane_by_lane(
            ("shr", name),
            &[],
            Integers,
            Op::Int2(Int2::Shr, ty),
            (&[kind, Kind::Amount], kind),
            move |[a, b, ..]| wrapped(value(a) >> b.min(100), bits),
        );
        if bits < 64 {
            let wide = Kind::Int(match (bits, signed) {
                (16, false) => Int::U32,
                (16, true) => Int::S32,
                (_, false) => Int::U64,
                (_, true) => Int::S64,
            });
            table.lane_by_lane(
                ("mul.wide", name),
                &[],
                Integers,
                Op::Int2(Int2::MulWide, ty),
                (&[kind, kind], wide),
                move |[a, b, ..]| wrapped(value(a) * value(b), 2 * bits),
            );
            table.lane_by_lane(
                ("mad.wide", name),
                &[],
                Integers,
                Op::Int3(Int3::MadWide, ty),
                (&[kind, kind, wide], wide),
                move |[a, b, c, _]| wrapped(value(a) * value(b) + i128::from(c), 2 * bits),
            );
        }
        if signed {
            table.lane_by_lane(
                ("neg", name),
                &[],
                Integers,
                Op::IntNeg(ty),
                (&[kind], kind),
                move |[a, ..]| wrapped(-value(a), bits),
            );
            table.lane_by_lane(
                ("abs", name),
                &[],
                Integers,
                Op::IntAbs(ty),
                (&[kind], kind),
                move |[a, ..]| wrapped(value(a).abs(), bits),
            );
        }
        if bits >= 32 {
            carries(table, ty, high);
        }
    }
    let word = Kind::Int(Int::U32);
    for signed in [false, true] {
        let name = if signed { "s32" } else { "u32" };
        for high in [false, true] {
            let product =
                move |a, b| (number(a, 24, signed) * number(b, 24, signed)) >> if high { 16 } else { 0 };
            let op = Op::Mul24 { signed, high };
            let (mul, mad) = if high { ("mul24.hi", "mad24.hi") } else { ("mul24.lo", "mad24.lo") };
            table.lane_by_lane((mul, name), &[], Integers, op, (&[word, word], word), move |[a, b, ..]| {
                wrapped(product(a, b), 32)
            });
            table.lane_by_lane(
                (mad, name),
                &[],
                Integers,
                op,
                (&[word, word, word], word),
                move |[a, b, c, _]| wrapped(product(a, b) + i128::from(c), 32),
            );
        }
    }
    for (a_signed, b_signed) in [(false, false), (false, true), (true, false), (true, true)] {
        let sign = |signed| if signed { "s32" } else { "u32" };
        let name = format!("{}.{}", sign(a_signed), sign(b_signed));
        let part = |of: u64, bits: u32, i: u32, signed| number(of >> (bits * i), bits, signed);
        table.lane_by_lane(
            ("dp4a", name.clone()),
            &[],
            Integers,
            Op::Dp4a(a_signed, b_signed),
            (&[word, word, word], word),
            move |[a, b, c, _]| {
                let products = (0..4).map(|i| part(a, 8, i, a_signed) * part(b, 8, i, b_signed));
                wrapped(i128::from(c) + products.sum::<i128>(), 32)
            },
        );
        for upper in [false, true] {
            let text = if upper { "dp2a.hi" } else { "dp2a.lo" };
            let first = if upper { 2 } else { 0 };
            table.lane_by_lane(
                (text, name.clone()),
                &[],
                Integers,
                Op::Dp2a(a_signed, b_signed, upper),
                (&[word, word, word], word),
                move |[a, b, c, _]| {
                    let products = (0..2).map(|i| part(a, 16, i, a_signed) * part(b, 8, first + i, b_signed));
                    wrapped(i128::from(c) + products.sum::<i128>(), 32)
                },
            );
        }
    }
}

fn carries(table: &mut Table, ty: Int, high: impl Fn(u64, u64) -> i128 + Copy + 'static) {
    let (bits, kind) = (width(ty), Kind::Int(ty));
    for (op, text) in
        [(Carry::Add, "add"), (Carry::Sub, "sub"), (Carry::MadLo, "mad.lo"), (Carry::MadHi, "mad.hi")]
    {
        for (input, output) in [(false, true), (true, false), (true, true)] {
            let product = matches!(op, Carry::MadLo | Carry::MadHi);
            let operands = if product { vec![kind; 3] } else { vec![kind; 2] };
            let modifiers = [if input { "c" } else { "" }, if output { ".cc" } else { "" }];
            let op_of = Op::Carried { op, ty, input, output };
            table.whole(
                (text, int_name(ty)),
                &modifiers,
                Against::Integers,
                op_of,
                &operands,
                [kind, Kind::Absent],
                move |case, lane| {
                    let [a, b, c, _] = case.operands.map(|of| of[lane]);
                    let carry = if input { i128::from(case.carry >> lane & 1) } else { 0 };
                    let (a_number, b_number) = (i128::from(a), i128::from(b));
                    let sum = match op {
                        Carry::Add => a_number + b_number + carry,
                        Carry::Sub => a_number - b_number - carry,
                        Carry::MadLo => {
                            i128::from(wrapped(a_number.wrapping_mul(b_number), bits)) + i128::from(c) + carry
                        }
                        Carry::MadHi => i128::from(wrapped(high(a, b), bits)) + i128::from(c) + carry,
                    };
                    let left = sum < 0 || sum >> bits != 0;
                    Outcome { carry: output.then_some(left), ..Outcome::bits(wrapped(sum, bits)) }
                },
            );
        }
    }
}

/// The bits of a value, the lowest first.
fn spread(of: u64, count: u32) -> Vec<bool> {
    (0..count).map(|i| of >> i & 1 != 0).collect()
}

fn collect(bits: impl IntoIterator<Item = bool>) -> u64 {
    bits.into_iter().enumerate().map(|(i, bit)| u64::from(bit) << i).sum()
}

fn bit_kind(bits: Bits) -> (u32, Kind, &'static str) {
    match bits {
        Bits::B16 => (16, Kind::Int(Int::U16), "b16"),
        Bits::B32 => (32, Kind::Int(Int::U32), "b32"),
        Bits::B64 => (64, Kind::Int(Int::U64), "b64"),
        Bits::Pred => (1, Kind::Pred, "pred"),
    }
}

fn bits(table: &mut Table) {
    use Against::BitByBit;
    let word = Kind::Int(Int::U32);
    for ty in [Bits::B16, Bits::B32, Bits::B64, Bits::Pred] {
        let (count, kind, name) = bit_kind(ty);
        let logics: [Named<Logic, bool, bool, bool>; 3] = [
            (Logic::And, "and", |a, b| a && b),
            (Logic::Or, "or", |a, b| a || b),
            (Logic::Xor, "xor", |a, b| a != b),
        ];
        for (op, text, of) in logics {
            table.lane_by_lane(
                (text, name),
                &[],
                BitByBit,
                Op::Logic(op, ty),
                (&[kind, kind], kind),
                move |[a, b, ..]| {
                    collect(spread(a, count).into_iter().zip(spread(b, count)).map(|(a, b)| of(a, b)))
                },
            );
        }
        table.lane_by_lane(("not", name), &[], BitByBit, Op::Not(ty), (&[kind], kind), move |[a, ..]| {
            collect(spread(a, count).into_iter().map(|bit| !bit))
        });
        table.lane_by_lane(("mov", name), &[], BitByBit, Op::Mov(ty), (&[kind], kind), |[a, ..]| a);
        table.lane_by_lane(
            ("selp", name),
            &[],
            BitByBit,
            Op::Selp(ty),
            (&[kind, kind, Kind::Pred], kind),
            |[a, b, c, _]| {
                if c != 0 { a } else { b }
            },
        );
        if ty == Bits::Pred {
            continue;
        }
        table.lane_by_lane(("cnot", name), &[], BitByBit, Op::Cnot(ty), (&[kind], kind), |[a, ..]| {
            u64::from(a == 0)
        });
        table.lane_by_lane(
            ("slct", format!("{name}.s32")),
            &[],
            BitByBit,
            Op::Slct(ty, Comparable::Int(Int::S32)),
            (&[kind, kind, word], kind),
            |[a, b, c, _]| {
                if c < 1 << 31 { a } else { b }
            },
        );
        let by_float = Op::Slct(ty, Comparable::Float(Float::F32));
        table.lane_by_lane(
            ("slct", format!("{name}.f32")),
            &[],
            BitByBit,
            by_float,
            (&[kind, kind, Kind::Float(Float::F32)], kind),
            |[a, b, c, _]| {
                if c <= F32.infinity() || c == F32.sign() { a } else { b }
            },
        );
        if ty == Bits::B16 {
            continue;
        }
        table.lane_by_lane(("popc", name), &[], BitByBit, Op::Popc(ty), (&[kind], word), move |[a, ..]| {
            spread(a, count).into_iter().filter(|&bit| bit).count() as u64
        });
        table.lane_by_lane(("clz", name), &[], BitByBit, Op::Clz(ty), (&[kind], word), move |[a, ..]| {
            spread(a, count).into_iter().rev().take_while(|&bit| !bit).count() as u64
        });
        table.lane_by_lane(("brev", name), &[], BitByBit, Op::Brev(ty), (&[kind], kind), move |[a, ..]| {
            collect(spread(a, count).into_iter().rev())
        });
        let amount = Kind::Amount;
        table.lane_by_lane(
            ("bfi", name),
            &[],
            BitByBit,
            Op::Bfi(ty),
            (&[kind, kind, amount, amount], kind),
            move |[a, b, c, f]| {
                let (place, length) = ((c & 0xff) as usize, (f & 0xff) as usize);
                let (from, mut to) = (spread(a, count), spread(b, count));
                for i in 0..length {
                    if place + i < count as usize {
                        to[place + i] = from[i];
                    }
                }
                collect(to)
            },
        );
    }
    for ty in [Int::U32, Int::S32, Int::U64, Int::S64] {
        let (count, kind, name) = (width(ty), Kind::Int(ty), int_name(ty));
        let top = count as usize - 1;
        for shift in [false, true] {
            let text = if shift { ".shiftamt" } else { "" };
            table.lane_by_lane(
                ("bfind", name),
                &[text],
                BitByBit,
                Op::Bfind(ty, shift),
                (&[kind], word),
                move |[a, ..]| {
                    let bits = spread(a, count);
                    let wanted = !(is_signed(ty) && bits[top]);
                    match bits.iter().rposition(|&bit| bit == wanted) {
                        None => u64::from(u32::MAX),
                        Some(place) if shift => (top - place) as u64,
                        Some(place) => place as u64,
                    }
                },
            );
        }
        table.lane_by_lane(
            ("bfe", name),
            &[],
            BitByBit,
            Op::Bfe(ty),
            (&[kind, Kind::Amount, Kind::Amount], kind),
            move |[a, b, c, _]| {
                let (place, length) = ((b & 0xff) as usize, (c & 0xff) as usize);
                let bits = spread(a, count);
                let sign = is_signed(ty) && length > 0 && bits[(place + length - 1).min(top)];
                collect(
                    (0..=top).map(|i| if i < length && place + i <= top { bits[place + i] } else { sign }),
                )
            },
        );
    }
    for step in 0..52 {
        let lut = (step * 5) as u8;
        table.lane_by_lane(
            ("lop3", "b32"),
            &[],
            BitByBit,
            Op::Lop3(lut),
            (&[word, word, word], word),
            move |[a, b, c, _]| {
                let rows = spread(a, 32).into_iter().zip(spread(b, 32)).zip(spread(c, 32));
                collect(
                    rows.map(|((a, b), c)| lut >> (u8::from(a) * 4 + u8::from(b) * 2 + u8::from(c)) & 1 != 0),
                )
            },
        );
    }
    for (left, wrap) in [(false, false), (false, true), (true, false), (true, true)] {
        let modifiers = [if left { ".l" } else { ".r" }, if wrap { ".wrap" } else { ".clamp" }];
        table.lane_by_lane(
            ("shf", "b32"),
            &modifiers,
            BitByBit,
            Op::Funnel { left, wrap },
            (&[word, word, Kind::Amount], word),
            move |[a, b, c, _]| {
                let amount = if wrap { c % 32 } else { c.min(32) } as usize;
                let all: Vec<bool> = spread(a, 32).into_iter().chain(spread(b, 32)).collect();
                let first = if left { 32 - amount } else { amount };
                collect(all[first..first + 32].iter().copied())
            },
        );
    }
    for wrap in [false, true] {
        let text = if wrap { ".wrap" } else { ".clamp" };
        table.lane_by_lane(
            ("bmsk", "b32"),
            &[text],
            BitByBit,
            Op::Bmsk(wrap),
            (&[Kind::Amount, Kind::Amount], word),
            move |[a, b, ..]| {
                let (from, count) = if wrap { (a % 32, b % 32) } else { (a.min(32), b.min(32)) };
                collect((0..32).map(|i| i >= from && i < from + count))
            },
        );
    }
    let modes: [Named<PrmtMode, u64, usize, u64>; 7] = [
        (PrmtMode::Index, "", |c, i| c >> (4 * i) & 15),
        (PrmtMode::Forward4, ".f4e", |c, i| (c & 3) + i as u64),
        (PrmtMode::Backward4, ".b4e", |c, i| ((c & 3) + 8 - i as u64) % 8),
        (PrmtMode::Replicate8, ".rc8", |c, _| c & 3),
        (PrmtMode::EdgeLeft, ".ecl", |c, i| (c & 3).max(i as u64)),
        (PrmtMode::EdgeRight, ".ecr", |c, i| (c & 3).min(i as u64)),
        (PrmtMode::Replicate16, ".rc16", |c, i| (c & 1) * 2 + i as u64 % 2),
    ];
    for (mode, text, choice) in modes {
        table.lane_by_lane(
            ("prmt", "b32"),
            &[text],
            BitByBit,
            Op::Prmt(mode),
            (&[word, word, word], word),
            move |[a, b, c, _]| {
                let bytes: Vec<u8> =
                    (a as u32).to_le_bytes().into_iter().chain((b as u32).to_le_bytes()).collect();
                let of = |i| {
                    let choice = choice(c, i);
                    let byte = bytes[choice as usize % 8];
                    match choice {
                        8.. if byte > 127 => 255,
                        8.. => 0,
                        _ => byte,
                    }
                };
                u32::from_le_bytes([of(0), of(1), of(2), of(3)]).into()
            },
        );
    }
}

/// Both halves of a pair, or the only number.
fn each<const N: usize>(ty: Float, operands: [u64; N], of: impl Fn([u64; N]) -> u64) -> u64 {
    if !is_pair(ty) {
        return of(operands);
    }
    of(operands.map(|bits| bits & 0xffff)) | of(operands.map(|bits| bits >> 16)) << 16
}

/// In a mode, with operands that are flushed first. Whether the result is flushed shows in a format with more exponents.
fn in_mode<const N: usize>(
    of: Format,
    mode: Mode,
    operands: [u64; N],
    exact: impl Fn(Format, [u64; N]) -> u64,
) -> u64 {
    let operands = operands.map(|bits| if mode.ftz { of.flushed(bits) } else { bits });
    let mut result = exact(of, operands);
    if mode.ftz
        && of.is_finite(result)
        && of.widened(of.least_normal())
            > of.larger().magnitude(exact(of.larger(), operands.map(|bits| of.widened(bits))))
    {
        result &= of.sign();
    }
    if mode.sat { of.saturated(result) } else { result }
}

/// The modes of a type: f32 has all, f16 no directions, bf16 none but the usual, f64 directions alone.
fn modes(ty: Float) -> Vec<(Mode, [&'static str; 3])> {
    let (rounds, ftz, sat): (&[Round], &[bool], &[bool]) = match ty {
        Float::F32 => (&ROUNDS, &[false, true], &[false, true]),
        Float::F64 => (&ROUNDS, &[false], &[false]),
        Float::F16 | Float::F16x2 => (&[Round::Nearest], &[false, true], &[false, true]),
        Float::Bf16 | Float::Bf16x2 => (&[Round::Nearest], &[false], &[false]),
    };
    let mut modes = vec![];
    for &round in rounds {
        for &ftz in ftz {
            for &sat in sat {
                let names = [round_name(round), if ftz { ".ftz" } else { "" }, if sat { ".sat" } else { "" }];
                modes.push((Mode { round, ftz, sat }, names));
            }
        }
    }
    modes
}

const FLOATS: [Float; 6] = [Float::F16, Float::Bf16, Float::F16x2, Float::Bf16x2, Float::F32, Float::F64];

fn floats(table: &mut Table) {
    use Against::{Fractions, Rules};
    for ty in FLOATS {
        let (of, kind, name) = (format(ty), Kind::Float(ty), float_name(ty));
        let narrow = of.fraction < 23;
        for (mode, names) in modes(ty) {
            for (op, text) in
                [(Float2::Add, "add"), (Float2::Sub, "sub"), (Float2::Mul, "mul"), (Float2::Div, "div")]
            {
                if op == Float2::Div && (narrow || mode.sat) {
                    continue;
                }
                table.lane_by_lane(
                    (text, name),
                    &names,
                    Fractions,
                    Op::Float2(op, ty, mode),
                    (&[kind, kind], kind),
                    move |[a, b, ..]| {
                        each(ty, [a, b], |pair| {
                            in_mode(of, mode, pair, |of, [a, b]| match op {
                                Float2::Add => of.add(a, b, mode.round),
                                Float2::Sub if of.is_nan(b) => of.nan(),
                                Float2::Sub => of.add(a, b ^ of.sign(), mode.round),
                                Float2::Mul => of.multiply(a, b, mode.round),
                                _ => of.divide(a, b, mode.round),
                            })
                        })
                    },
                );
            }
            for relu in [false, true] {
                if relu && (!narrow || mode.sat) {
                    continue;
                }
                let names = [names[0], names[1], names[2], if relu { ".relu" } else { "" }];
                table.lane_by_lane(
                    ("fma", name),
                    &names,
                    Fractions,
                    Op::Fma(ty, mode, relu),
                    (&[kind, kind, kind], kind),
                    move |[a, b, c, _]| {
                        each(ty, [a, b, c], |three| {
                            let result =
                                in_mode(of, mode, three, |of, [a, b, c]| of.fma(a, b, c, mode.round));
                            if relu && !of.is_nan(result) && result & of.sign() != 0 { 0 } else { result }
                        })
                    },
                );
            }
            if !narrow && !mode.sat {
                table.lane_by_lane(
                    ("sqrt", name),
                    &names,
                    Fractions,
                    Op::Float1(Float1::Sqrt, ty, mode),
                    (&[kind], kind),
                    move |[a, ..]| in_mode(of, mode, [a], |of, [a]| of.root(a, mode.round)),
                );
                table.lane_by_lane(
                    ("rcp", name),
                    &names,
                    Fractions,
                    Op::Float1(Float1::Rcp, ty, mode),
                    (&[kind], kind),
                    move |[a, ..]| in_mode(of, mode, [a], |of, [a]| of.divide(of.one(), a, mode.round)),
                );
            }
        }
        let flushes: &[bool] = if ty == Float::F64 || of == BF16 { &[false] } else { &[false, true] };
        for &ftz in flushes {
            let mode = Mode { ftz, ..Mode::default() };
            let ftz = if ftz { ".ftz" } else { "" };
            for (op, text, max, nan) in [
                (Float2::Min, "min", false, false),
                (Float2::Max, "max", true, false),
                (Float2::MinNan, "min", false, true),
                (Float2::MaxNan, "max", true, true),
            ] {
                let names = [ftz, if nan { ".NaN" } else { "" }];
                table.lane_by_lane(
                    (text, name),
                    &names,
                    Rules,
                    Op::Float2(op, ty, mode),
                    (&[kind, kind], kind),
                    move |[a, b, ..]| {
                        each(ty, [a, b], |pair| {
                            in_mode(of, mode, pair, |of, [a, b]| of.extreme(a, b, max, nan))
                        })
                    },
                );
            }
            for (op, text) in [(Float1::Neg, "neg"), (Float1::Abs, "abs")] {
                table.lane_by_lane(
                    (text, name),
                    &[ftz],
                    Rules,
                    Op::Float1(op, ty, mode),
                    (&[kind], kind),
                    move |[a, ..]| {
                        each(ty, [a], |one| {
                            in_mode(of, mode, one, |of, [a]| {
                                if op == Float1::Neg { a ^ of.sign() } else { a & !of.sign() }
                            })
                        })
                    },
                );
            }
        }
        if !is_pair(ty) {
            table.lane_by_lane(
                ("copysign", name),
                &[],
                Rules,
                Op::Float2(Float2::CopySign, ty, Mode::default()),
                (&[kind, kind], kind),
                move |[a, b, ..]| a & of.sign() | b & !of.sign(),
            );
        }
    }
}

/// Units in the last place by which results may be off: they are computed in f64 and rounded.
const UNITS: f64 = 0.5001;

/// A host's function.
type Host = fn(f64, f64) -> f64;

fn functions(table: &mut Table) {
    use Against::Host as H;
    let ones: [(Float1, &str, Host); 8] = [
        (Float1::SqrtApprox, "sqrt.approx", |a, _| a.sqrt()),
        (Float1::Rsqrt, "rsqrt.approx", |a, _| 1.0 / a.sqrt()),
        (Float1::RcpApprox, "rcp.approx", |a, _| 1.0 / a),
        (Float1::Ex2, "ex2.approx", |a, _| a.exp2()),
        (Float1::Lg2, "lg2.approx", |a, _| a.log2()),
        (Float1::Sin, "sin.approx", |a, _| a.sin()),
        (Float1::Cos, "cos.approx", |a, _| a.cos()),
        (Float1::Tanh, "tanh.approx", |a, _| a.tanh()),
    ];
    for ty in FLOATS {
        let (of, kind, name) = (format(ty), Kind::Float(ty), float_name(ty));
        for (op, text, host) in ones {
            let has = match ty {
                Float::F32 => true,
                Float::F64 => matches!(op, Float1::Rsqrt | Float1::RcpApprox),
                _ => matches!(op, Float1::Ex2 | Float1::Tanh),
            };
            if !has || is_pair(ty) {
                continue;
            }
            let flushed = match op {
                Float1::Tanh => ty == Float::F32,
                _ => ty != Float::F16,
            };
            for &ftz in if flushed { &[false, true][..] } else { &[false] } {
                let mode = Mode { ftz, ..Mode::default() };
                let op = Op::Float1(op, ty, mode);
                near(table, (text, name), if ftz { ".ftz" } else { "" }, (op, UNITS), &[kind], of, ftz, host);
            }
        }
    }
    let float = Kind::Float(Float::F32);
    for ftz in [false, true] {
        let mode = Mode { ftz, ..Mode::default() };
        let name = if ftz { ".ftz" } else { "" };
        // Beyond 2^126 it is zero, or NaN of an infinity.
        let approximate: Host = |a, b| {
            let large = b.is_finite() && b.abs() > 2f64.powi(126);
            if large { a * 0f64.copysign(b) } else { a / b }
        };
        let full: Host = |a, b| a / b;
        for (op, text, host) in
            [(Float2::DivApprox, "div.approx", approximate), (Float2::Div, "div.full", full)]
        {
            let op = Op::Float2(op, Float::F32, mode);
            near(table, (text, "f32"), name, (op, UNITS), &[float, float], F32, ftz, host);
        }
    }
    for (of, text, count, host, units) in intrinsics() {
        for (ty, kind) in [(Float::F32, F32), (Float::F64, F64)] {
            let operands = vec![Kind::Float(ty); count];
            let units = if ty == Float::F64 { units } else { UNITS };
            near(
                table,
                (text, float_name(ty)),
                "",
                (Op::Intrinsic(of, ty), units),
                &operands,
                kind,
                false,
                host,
            );
        }
    }
    for ty in [Float::F16x2, Float::Bf16x2] {
        let (of, kind) = (format(ty), Kind::Float(ty));
        for (op, text, ftz) in [
            (Float1::Ex2, "ex2.approx", false),
            (Float1::Ex2, "ex2.approx", ty == Float::Bf16x2),
            (Float1::Tanh, "tanh.approx", false),
        ] {
            table.lane_by_lane(
                (text, float_name(ty)),
                &[ftz_name(ftz)],
                H,
                Op::Float1(op, ty, Mode { ftz, ..Mode::default() }),
                (&[kind], kind),
                move |[a, ..]| {
                    each(ty, [a], |[a]| {
                        let exact = if op == Float1::Ex2 { of.value(a).exp2() } else { of.value(a).tanh() };
                        let nearest = to_format(of, exact);
                        if ftz { of.flushed(nearest) } else { nearest }
                    })
                },
            );
        }
    }
}

/// The nearest number of a format.
fn to_format(of: Format, value: f64) -> u64 {
    if value.is_nan() {
        return of.nan();
    }
    let sign = if value.is_sign_negative() { of.sign() } else { 0 };
    match value {
        value if value.is_infinite() => sign | of.infinity(),
        0.0 => sign,
        value => of.nearest(&Fraction::of(F64, value.to_bits()), Round::Nearest),
    }
}

#[allow(clippy::too_many_arguments)]
fn near(
    table: &mut Table,
    (operation, types): (&'static str, &'static str),
    modifier: &str,
    (op, units): (Op, f64),
    operands: &[Kind],
    of: Format,
    ftz: bool,
    host: Host,
) {
    let result = operands[0];
    table.whole(
        (operation, types),
        &[modifier],
        Against::Host,
        op,
        operands,
        [result, Kind::Absent],
        move |case, lane| {
            let [a, b, ..] =
                case.operands.map(|all| of.value(if ftz { of.flushed(all[lane]) } else { all[lane] }));
            let exact = host(a, b);
            let nearest = to_format(of, exact);
            let d = if of.is_finite(nearest) && !(ftz && of.is_subnormal(nearest)) {
                Expected::Near(of, exact, units)
            } else {
                Expected::Bits(if ftz { of.flushed(nearest) } else { nearest })
            };
            Outcome { d, ..Outcome::bits(0) }
        },
    );
}

/// Functions, how many operands they have, and by how many units in the last place of f64 two libraries may differ.
fn intrinsics() -> Vec<(Intrinsic, &'static str, usize, Host, f64)> {
    vec![
        (Intrinsic::Sqrt, "__nv_sqrt", 1, |a, _| a.sqrt(), 8.0),
        (Intrinsic::Rsqrt, "__nv_rsqrt", 1, |a, _| 1.0 / a.sqrt(), 8.0),
        (Intrinsic::Cbrt, "__nv_cbrt", 1, |a, _| a.cbrt(), 8.0),
        (Intrinsic::Exp, "__nv_exp", 1, |a, _| a.exp(), 8.0),
        (Intrinsic::Exp2, "__nv_exp2", 1, |a, _| a.exp2(), 8.0),
        (Intrinsic::Exp10, "__nv_exp10", 1, |a, _| 10f64.powf(a), 8.0),
        (Intrinsic::Expm1, "__nv_expm1", 1, |a, _| a.exp_m1(), 8.0),
        (Intrinsic::Log, "__nv_log", 1, |a, _| a.ln(), 8.0),
        (Intrinsic::Log2, "__nv_log2", 1, |a, _| a.log2(), 8.0),
        (Intrinsic::Log10, "__nv_log10", 1, |a, _| a.log10(), 8.0),
        (Intrinsic::Log1p, "__nv_log1p", 1, |a, _| a.ln_1p(), 8.0),
        (Intrinsic::Sin, "__nv_sin", 1, |a, _| a.sin(), 8.0),
        (Intrinsic::Cos, "__nv_cos", 1, |a, _| a.cos(), 8.0),
        (Intrinsic::Tan, "__nv_tan", 1, |a, _| a.tan(), 8.0),
        (Intrinsic::Asin, "__nv_asin", 1, |a, _| a.asin(), 8.0),
        (Intrinsic::Acos, "__nv_acos", 1, |a, _| a.acos(), 8.0),
        (Intrinsic::Atan, "__nv_atan", 1, |a, _| a.atan(), 8.0),
        (Intrinsic::Sinh, "__nv_sinh", 1, |a, _| a.sinh(), 8.0),
        (Intrinsic::Cosh, "__nv_cosh", 1, |a, _| a.cosh(), 8.0),
        (Intrinsic::Tanh, "__nv_tanh", 1, |a, _| a.tanh(), 8.0),
        (Intrinsic::Asinh, "__nv_asinh", 1, |a, _| asinh(a), 20.0),
        (Intrinsic::Acosh, "__nv_acosh", 1, |a, _| acosh(a), 20.0),
        (Intrinsic::Atanh, "__nv_atanh", 1, |a, _| 0.5 * (a.ln_1p() - (-a).ln_1p()), 20.0),
        (Intrinsic::Erf, "__nv_erf", 1, |a, _| erf(a), 8.0),
        (Intrinsic::Erfc, "__nv_erfc", 1, |a, _| erfc(a), 2000.0),
        (Intrinsic::Round, "__nv_round", 1, |a, _| a.round(), 8.0),
        (Intrinsic::Pow, "__nv_pow", 2, |a, b| a.powf(b), 8.0),
        (Intrinsic::Atan2, "__nv_atan2", 2, |a, b| a.atan2(b), 8.0),
        (Intrinsic::Hypot, "__nv_hypot", 2, |a, b| a.hypot(b), 8.0),
        (Intrinsic::Fmod, "__nv_fmod", 2, |a, b| a % b, 8.0),
    ]
}

fn asinh(a: f64) -> f64 {
    // As below.
    if a.abs() > 1e9 { (a.abs().ln() + std::f64::consts::LN_2).copysign(a) } else { a.asinh() }
}

fn acosh(a: f64) -> f64 {
    if a < 1.0 {
        return f64::NAN;
    }
    // By what it is above 1, where nearly all bits go, and without the square of a large number.
    let above = a - 1.0;
    if a > 1e9 {
        a.ln() + std::f64::consts::LN_2
    } else {
        (above + (2.0 * above + above * above).sqrt()).ln_1p()
    }
}

/// By a series of positive terms.
fn erf(a: f64) -> f64 {
    let x = a.abs();
    if x > 6.0 || a.is_nan() {
        return a.signum();
    }
    // Beyond 1 the series has so many terms that their errors count; those of the fraction are small beside 1.
    if x > 1.0 {
        return a.signum() * (1.0 - erfc(x));
    }
    let (mut sum, mut term) = (0.0, a);
    for n in 1..400 {
        sum += term;
        term *= 2.0 * a * a / f64::from(2 * n + 1);
    }
    std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
}

/// By a continued fraction where that converges.
fn erfc(a: f64) -> f64 {
    if !(a > 1.0) {
        return 1.0 - erf(a);
    }
    let fraction = (1..2000).rev().fold(a, |below, n| a + 0.5 * f64::from(n) / below);
    (-a * a).exp() / (fraction * std::f64::consts::PI.sqrt())
}

/// What a type of a conversion is.
fn scalar(ty: Scalar) -> (&'static str, Kind, Result<Format, (u32, bool)>) {
    match ty {
        Scalar::U8 => ("u8", Kind::Int(Int::U32), Err((8, false))),
        Scalar::S8 => ("s8", Kind::Int(Int::U32), Err((8, true))),
        Scalar::U16 => ("u16", Kind::Int(Int::U32), Err((16, false))),
        Scalar::S16 => ("s16", Kind::Int(Int::U32), Err((16, true))),
        Scalar::U32 => ("u32", Kind::Int(Int::U32), Err((32, false))),
        Scalar::S32 => ("s32", Kind::Int(Int::S32), Err((32, true))),
        Scalar::U64 => ("u64", Kind::Int(Int::U64), Err((64, false))),
        Scalar::S64 => ("s64", Kind::Int(Int::S64), Err((64, true))),
        Scalar::F16 => ("f16", Kind::Float(Float::F16), Ok(F16)),
        Scalar::Bf16 => ("bf16", Kind::Float(Float::Bf16), Ok(BF16)),
        Scalar::F32 => ("f32", Kind::Float(Float::F32), Ok(F32)),
        Scalar::F64 => ("f64", Kind::Float(Float::F64), Ok(F64)),
    }
}

const SCALARS: [Scalar; 12] = [
    Scalar::U8,
    Scalar::S8,
    Scalar::U16,
    Scalar::S16,
    Scalar::U32,
    Scalar::S32,
    Scalar::U64,
    Scalar::S64,
    Scalar::F16,
    Scalar::Bf16,
    Scalar::F32,
    Scalar::F64,
];

fn integral_name(round: Round) -> &'static str {
    match round {
        Round::Nearest => ".rni",
        Round::Zero => ".rzi",
        Round::Down => ".rmi",
        Round::Up => ".rpi",
    }
}

/// A finite number, rounded to an integer.
fn to_integer(of: Format, bits: u64, round: Round) -> i128 {
    let value = of.value(bits);
    if value.abs() >= 2f64.powi(100) {
        return if value > 0.0 { 1 << 100 } else { -(1 << 100) };
    }
    // In halves, what is left tells the direction.
    let floor = value.floor();
    let rest = value - floor;
    let floor = floor as i128;
    let up = match round {
        Round::Nearest => rest > 0.5 || rest == 0.5 && floor % 2 != 0,
        Round::Zero => value < 0.0 && rest > 0.0,
        Round::Down => false,
        Round::Up => rest > 0.0,
    };
    floor + i128::from(up)
}

fn conversions(table: &mut Table) {
    for to in SCALARS {
        for from in SCALARS {
            let ((to_name, to_kind, to_of), (from_name, from_kind, from_of)) = (scalar(to), scalar(from));
            let types = format!("{to_name}.{from_name}");
            let from_float = from_of.is_ok();
            for round in ROUNDS {
                for (integral, ftz, sat, relu) in
                    (0..16).map(|i| (i & 1 != 0, i & 2 != 0, i & 4 != 0, i & 8 != 0))
                {
                    let rounds = match (to_of, from_of) {
                        (Err(_), Err(_)) => false,
                        (Err(_), Ok(_)) => true,
                        (Ok(_), Err(_)) => true,
                        (Ok(to), Ok(from)) => {
                            integral || to.fraction < from.fraction || to.exponent < from.exponent
                        }
                    };
                    let flushes = from == Scalar::F32 || to == Scalar::F32 && from_float;
                    let narrow = matches!(to, Scalar::F16 | Scalar::Bf16);
                    if !rounds && round != Round::Nearest
                        || integral && !from_float
                        || from_float && to_of.is_err() && (!integral || sat)
                        || ftz && !flushes
                        || relu && (!narrow || sat || from != Scalar::F32)
                        || integral && to_of.is_ok() && to != from
                    {
                        continue;
                    }
                    let how = Conversion { round, integral, ftz, sat, relu };
                    let rounding = match (rounds, integral) {
                        (false, _) => "",
                        (true, true) => integral_name(round),
                        (true, false) => round_name(round),
                    };
                    let names = [
                        rounding,
                        ftz_name(ftz),
                        if sat { ".sat" } else { "" },
                        if relu { ".relu" } else { "" },
                    ];
                    let against =
                        if from_float || to_of.is_ok() { Against::Fractions } else { Against::Integers };
                    let op = Op::Convert(to, from, how);
                    table.lane_by_lane(
                        ("cvt", types.clone()),
                        &names,
                        against,
                        op,
                        (&[from_kind], to_kind),
                        move |[a, ..]| converted(to_of, from_of, how, a),
                    );
                }
            }
        }
    }
    let float = Kind::Float(Float::F32);
    for ty in [Float::F16x2, Float::Bf16x2] {
        for round in [Round::Nearest, Round::Zero] {
            for relu in [false, true] {
                let how = Conversion { round, relu, ..Conversion::default() };
                let names = [round_name(round), if relu { ".relu" } else { "" }];
                let types = format!("{}.f32", float_name(ty));
                table.lane_by_lane(
                    ("cvt", types),
                    &names,
                    Against::Fractions,
                    Op::ConvertPair(ty, how),
                    (&[float, float], Kind::Float(ty)),
                    move |[a, b, ..]| {
                        converted(Ok(format(ty)), Ok(F32), how, a) << 16
                            | converted(Ok(format(ty)), Ok(F32), how, b)
                    },
                );
            }
        }
    }
    // Ten bits of fraction: the nearest of the two that ten bits leave, upwards in the middle.
    table.lane_by_lane(
        ("cvt", "tf32.f32"),
        &[".rna"],
        Against::Rules,
        Op::RoundTf32,
        (&[float], float),
        |[a, ..]| {
            let (below, rest) = (a >> 13 << 13, a & 0x1fff);
            match a {
                a if F32.is_nan(a) => F32.nan(),
                a if F32.is_infinite(a) || rest < 0x1000 => below,
                _ => below + 0x2000,
            }
        },
    );
}

fn ftz_name(ftz: bool) -> &'static str {
    if ftz { ".ftz" } else { "" }
}

type Ty = Result<Format, (u32, bool)>;

fn converted(to: Ty, from: Ty, how: Conversion, a: u64) -> u64 {
    match (to, from) {
        (Err((width, signed)), Err((from_width, from_signed))) => {
            let value = number(a, from_width, from_signed);
            let (least, most) = limits(width, signed);
            wrapped(if how.sat { value.clamp(least, most) } else { value }, width)
        }
        (Err((width, signed)), Ok(of)) => {
            let a = if how.ftz && of == F32 { of.flushed(a) } else { a };
            let (least, most) = limits(width, signed);
            match a {
                a if of.is_nan(a) && (of == F64 || width == 64) => 1 << (width - 1),
                a if of.is_nan(a) => 0,
                a if of.is_infinite(a) => wrapped(if a & of.sign() != 0 { least } else { most }, width),
                a => wrapped(to_integer(of, a, how.round).clamp(least, most), width),
            }
        }
        (Ok(of), Err((width, signed))) => {
            let value = Fraction::integer(number(a, width, signed));
            let bits = if value.is_zero() { 0 } else { of.nearest(&value, how.round) };
            if how.sat { of.saturated(bits) } else { bits }
        }
        (Ok(of), Ok(from)) => {
            let a = if how.ftz && from == F32 { from.flushed(a) } else { a };
            let sign = if a & from.sign() != 0 { of.sign() } else { 0 };
            let bits = match a {
                a if from.is_nan(a) => of.nan(),
                a if from.is_infinite(a) => sign | of.infinity(),
                a if from.is_zero(a) => sign,
                a if how.integral && from.value(a).abs() < 2f64.powi(60) => {
                    match to_integer(from, a, how.round) {
                        0 => sign,
                        integer => of.nearest(&Fraction::integer(integer), how.round),
                    }
                }
                a => of.nearest(&Fraction::of(from, a), how.round),
            };
            let flushes = how.ftz && of == F32 && from.is_finite(a) && !from.is_zero(a) && !how.integral;
            let wide = |a| of.larger().magnitude(of.larger().nearest(&Fraction::of(from, a), how.round));
            let bits = if flushes && wide(a) < of.widened(of.least_normal()) { sign } else { bits };
            match bits {
                bits if how.sat => of.saturated(bits),
                bits if how.relu && !of.is_nan(bits) && sign != 0 => 0,
                bits => bits,
            }
        }
    }
}

const COMPARES: [(Compare, &str); 14] = [
    (Compare::Eq, ".eq"),
    (Compare::Ne, ".ne"),
    (Compare::Lt, ".lt"),
    (Compare::Le, ".le"),
    (Compare::Gt, ".gt"),
    (Compare::Ge, ".ge"),
    (Compare::Equ, ".equ"),
    (Compare::Neu, ".neu"),
    (Compare::Ltu, ".ltu"),
    (Compare::Leu, ".leu"),
    (Compare::Gtu, ".gtu"),
    (Compare::Geu, ".geu"),
    (Compare::Num, ".num"),
    (Compare::Nan, ".nan"),
];

/// By how two values are ordered; `None` if one is NaN.
fn holds(compare: Compare, order: Option<std::cmp::Ordering>) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    match compare {
        Compare::Eq => order == Some(Equal),
        Compare::Ne => order == Some(Less) || order == Some(Greater),
        Compare::Lt => order == Some(Less),
        Compare::Le => order == Some(Less) || order == Some(Equal),
        Compare::Gt => order == Some(Greater),
        Compare::Ge => order == Some(Greater) || order == Some(Equal),
        Compare::Num => order.is_some(),
        Compare::Nan => order.is_none(),
        Compare::Equ => order.is_none() || holds(Compare::Eq, order),
        Compare::Neu => order.is_none() || holds(Compare::Ne, order),
        Compare::Ltu => order.is_none() || holds(Compare::Lt, order),
        Compare::Leu => order.is_none() || holds(Compare::Le, order),
        Compare::Gtu => order.is_none() || holds(Compare::Gt, order),
        Compare::Geu => order.is_none() || holds(Compare::Ge, order),
    }
}

fn joined(join: Join, held: bool, with: bool) -> bool {
    match join {
        Join::Alone => held,
        Join::And => held && with,
        Join::Or => held || with,
        Join::Xor => held != with,
    }
}

fn comparisons(table: &mut Table) {
    let types = INTS.map(Comparable::Int).into_iter().chain(FLOATS.map(Comparable::Float));
    for ty in types {
        let (kind, name) = match ty {
            Comparable::Int(ty) => (Kind::Int(ty), int_name(ty)),
            Comparable::Float(ty) => (Kind::Float(ty), float_name(ty)),
        };
        let pair = matches!(ty, Comparable::Float(ty) if is_pair(ty));
        let flushes = matches!(ty, Comparable::Float(Float::F16 | Float::F16x2 | Float::F32));
        for (compare, text) in COMPARES {
            if matches!(ty, Comparable::Int(_))
                && !matches!(
                    compare,
                    Compare::Eq | Compare::Ne | Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge
                )
            {
                continue;
            }
            for (join, negated, joins) in [
                (Join::Alone, false, ""),
                (Join::And, false, ".and"),
                (Join::Or, false, ".or"),
                (Join::Xor, false, ".xor"),
                (Join::And, true, ".and"),
            ] {
                for ftz in [false, true] {
                    if ftz && !flushes {
                        continue;
                    }
                    let setp = Setp { compare, ty, join, negated, ftz };
                    let names = [text, joins, ftz_name(ftz)];
                    let order = move |a: u64, b: u64| match ty {
                        Comparable::Int(ty) => {
                            let value = |of| number(of, width(ty), is_signed(ty));
                            Some(value(a).cmp(&value(b)))
                        }
                        Comparable::Float(ty) => {
                            let of = format(ty);
                            let value = |bits| of.value(if ftz { of.flushed(bits) } else { bits });
                            value(a).partial_cmp(&value(b))
                        }
                    };
                    let both = move |case: &Case, lane: usize| {
                        let [a, b, c, _] = case.operands.map(|of| of[lane]);
                        let with = (c != 0) != negated;
                        let of = |a, b, not: bool| joined(join, holds(compare, order(a, b)) != not, with);
                        if pair {
                            (of(a & 0xffff, b & 0xffff, false), of(a >> 16, b >> 16, false))
                        } else {
                            (of(a, b, false), of(a, b, true))
                        }
                    };
                    let operands = match join {
                        Join::Alone => vec![kind, kind],
                        _ => vec![kind, kind, Kind::Pred],
                    };
                    table.whole(
                        ("setp", name),
                        &names,
                        Against::Rules,
                        Op::Setp(setp),
                        &operands,
                        [Kind::Pred, Kind::Pred],
                        move |case, lane| {
                            let (d, e) = both(case, lane);
                            Outcome { e: e.into(), ..Outcome::bits(d.into()) }
                        },
                    );
                    if join == Join::Xor || negated {
                        continue;
                    }
                    for (result, to, one) in [
                        (SetResult::Ones, "b32", if pair { 0xffff } else { 0xffff_ffff }),
                        (SetResult::F32, "f32", 0x3f80_0000),
                        (SetResult::F16, if pair { "f16x2" } else { "f16" }, 0x3c00),
                        (SetResult::Bf16, if pair { "bf16x2" } else { "bf16" }, 0x3f80),
                    ] {
                        if pair && result == SetResult::F32 {
                            continue;
                        }
                        let types = format!("{to}.{name}");
                        let result_kind = Kind::Int(Int::U32);
                        table.whole(
                            ("set", types),
                            &names,
                            Against::Rules,
                            Op::Set(setp, result),
                            &operands,
                            [result_kind, Kind::Absent],
                            move |case, lane| {
                                let (d, e) = both(case, lane);
                                let upper = if pair && e { one << 16 } else { 0 };
                                Outcome::bits(if d { one } else { 0 } | upper)
                            },
                        );
                    }
                }
            }
        }
    }
    for ty in [Float::F32, Float::F64] {
        let of = format(ty);
        for (test, text) in [
            (Testp::Finite, ".finite"),
            (Testp::Infinite, ".infinite"),
            (Testp::Number, ".number"),
            (Testp::NotANumber, ".notanumber"),
            (Testp::Normal, ".normal"),
            (Testp::Subnormal, ".subnormal"),
        ] {
            table.lane_by_lane(
                ("testp", float_name(ty)),
                &[text],
                Against::Rules,
                Op::Testp(test, ty),
                (&[Kind::Float(ty)], Kind::Pred),
                move |[a, ..]| {
                    u64::from(match test {
                        Testp::Finite => of.is_finite(a),
                        Testp::Infinite => of.is_infinite(a),
                        Testp::Number => !of.is_nan(a),
                        Testp::NotANumber => of.is_nan(a),
                        Testp::Normal => of.is_finite(a) && !of.is_subnormal(a),
                        Testp::Subnormal => of.is_subnormal(a),
                    })
                },
            );
        }
    }
}

fn warps(table: &mut Table) {
    use Against::Rules;
    let word = Kind::Int(Int::U32);
    for (kind, text) in [
        (Shuffle::Up, ".up"),
        (Shuffle::Down, ".down"),
        (Shuffle::Butterfly, ".bfly"),
        (Shuffle::Index, ".idx"),
    ] {
        for wanted in [Kind::Absent, Kind::Pred] {
            let operands = [word, Kind::Amount, Kind::Segment, word];
            table.whole(
                ("shfl.sync", "b32"),
                &[text],
                Rules,
                Op::Shuffle(kind),
                &operands,
                [word, wanted],
                move |case, lane| {
                    let [_, b, c, _] = case.operands.map(|of| of[lane]);
                    let (bval, cval, segmask) = (b as i64 & 31, c as i64 & 31, c as i64 >> 8 & 31);
                    let own = lane as i64;
                    let max_lane = (own & segmask) | (cval & !segmask);
                    let min_lane = own & segmask;
                    let (j, pval) = match kind {
                        Shuffle::Up => (own - bval, own - bval >= max_lane),
                        Shuffle::Down => (own + bval, own + bval <= max_lane),
                        Shuffle::Butterfly => (own ^ bval, own ^ bval <= max_lane),
                        Shuffle::Index => {
                            let j = min_lane | (bval & !segmask);
                            (j, j <= max_lane)
                        }
                    };
                    let j = if pval { j } else { own };
                    let absent = case.mask >> j & 1 == 0;
                    let from = if absent { lane } else { j as usize };
                    Outcome { e: pval.into(), absent, ..Outcome::bits(case.operands[0][from]) }
                },
            );
        }
    }
    for (kind, text) in
        [(Vote::All, ".all"), (Vote::Any, ".any"), (Vote::Uniform, ".uni"), (Vote::Ballot, ".ballot")]
    {
        for negated in [false, true] {
            let (result, types) = if kind == Vote::Ballot { (word, "b32") } else { (Kind::Pred, "pred") };
            table.whole(
                ("vote.sync", types),
                &[text],
                Rules,
                Op::Vote(kind, negated),
                &[Kind::Pred, word],
                [result, Kind::Absent],
                move |case, _| {
                    let ayes = case.active().filter(|&lane| (case.operands[0][lane] != 0) != negated);
                    let count = ayes.clone().count();
                    let all = case.active().count();
                    Outcome::bits(match kind {
                        Vote::All => u64::from(count == all),
                        Vote::Any => u64::from(count > 0),
                        Vote::Uniform => u64::from(count == all || count == 0),
                        Vote::Ballot => ayes.map(|lane| 1 << lane).sum(),
                    })
                },
            );
        }
    }
    for (bits, kind, types) in [(Bits::B32, word, "b32"), (Bits::B64, Kind::Int(Int::U64), "b64")] {
        for all in [false, true] {
            let text = if all { ".all" } else { ".any" };
            let results = [word, if all { Kind::Pred } else { Kind::Absent }];
            table.whole(
                ("match.sync", types),
                &[text],
                Rules,
                Op::Match { bits, all },
                &[kind, word],
                results,
                move |case, lane| {
                    let own = case.operands[0][lane];
                    let alike = case.active().filter(|&other| case.operands[0][other] == own);
                    let (count, mask): (usize, u64) =
                        (alike.clone().count(), alike.map(|other| 1 << other).sum());
                    let agreed = count == case.active().count();
                    let d = if all && !agreed { 0 } else { mask };
                    Outcome { e: agreed.into(), ..Outcome::bits(d) }
                },
            );
        }
    }
    let reductions: [(Atomic, &str, &[Int]); 6] = [
        (Atomic::Add, ".add", &[Int::U32, Int::S32]),
        (Atomic::Min, ".min", &[Int::U32, Int::S32]),
        (Atomic::Max, ".max", &[Int::U32, Int::S32]),
        (Atomic::And, ".and", &[Int::U32]),
        (Atomic::Or, ".or", &[Int::U32]),
        (Atomic::Xor, ".xor", &[Int::U32]),
    ];
    for (op, text, types) in reductions {
        for &ty in types {
            let kind = Kind::Int(ty);
            table.whole(
                ("redux.sync", int_name(ty)),
                &[text],
                Rules,
                Op::Redux(op, ty),
                &[kind, word],
                [kind, Kind::Absent],
                move |case, _| {
                    let bits: Vec<u64> = case.active().map(|lane| case.operands[0][lane]).collect();
                    let numbers = bits.iter().map(|&bits| number(bits, 32, is_signed(ty)));
                    Outcome::bits(match op {
                        Atomic::Add => wrapped(numbers.sum(), 32),
                        Atomic::Min => wrapped(numbers.min().unwrap(), 32),
                        Atomic::Max => wrapped(numbers.max().unwrap(), 32),
                        Atomic::And => bits.iter().fold(u64::MAX, |all, bits| all & bits),
                        Atomic::Or => bits.iter().fold(0, |all, bits| all | bits),
                        _ => bits.iter().fold(0, |all, bits| all ^ bits),
                    })
                },
            );
        }
    }
    table.whole(("activemask", "b32"), &[], Rules, Op::ActiveMask, &[], [word, Kind::Absent], |case, _| {
        Outcome::bits(case.mask.into())
    });
    table.whole(
        ("nanosleep and hints", ""),
        &[],
        Rules,
        Op::Nop,
        &[],
        [Kind::Absent, Kind::Absent],
        |_, _| Outcome::bits(0),
    );
}
