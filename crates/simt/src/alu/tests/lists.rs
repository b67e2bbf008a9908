//! Operations on lists of registers.

use super::exact::{BF16, F16, F32, F64, Format, Fraction};
use super::{REGISTERS, Random, garbage, same, step};
use crate::program::{Bits, Float, Guard, Inst, Mma, MmaInput, Op, Reg, Round};
use crate::registers::Registers;

const NONE: Reg = Reg::NONE;

fn list(registers: &[u16]) -> Box<[Reg]> {
    registers.iter().map(|&at| if at == u16::MAX { NONE } else { Reg(at) }).collect()
}

#[test]
fn packed() {
    let mut random = Random(3);
    for (part, whole, count) in
        [(Bits::B32, Bits::B64, 2), (Bits::B16, Bits::B32, 2), (Bits::B16, Bits::B64, 4)]
    {
        let width = if part == Bits::B16 { 16 } else { 32 };
        for _ in 0..20 {
            let mask = random.mask();
            let mut regs = garbage(&mut random, REGISTERS);
            if part == Bits::B16 {
                regs.w32.iter_mut().flatten().for_each(|word| *word &= 0xffff);
            }
            let lists = [list(&[4, 2, 3, 1][..count])];
            let before = regs.clone();
            let pack = Inst {
                op: Op::Pack(part, whole),
                guard: Guard::ALWAYS,
                d: Reg(0),
                e: NONE,
                a: Reg(0),
                b: NONE,
                c: NONE,
                f: NONE,
            };
            assert_eq!(step(&pack, &lists, &mut regs, mask), Some(0));
            let mut expected = before.clone();
            for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
                let parts = lists[0].iter().rev();
                let value =
                    parts.fold(0, |value, part| value << width | u64::from(before.w32[part.index()][lane]));
                if whole == Bits::B64 {
                    expected.w64[0][lane] = value
                } else {
                    expected.w32[0][lane] = value as u32
                }
            }
            assert!(same(&regs, &expected), "{part:?} to {whole:?}");

            // Back, without the first.
            let mut kept = [5, 6, 2, 1];
            kept[0] = u16::MAX;
            let lists = [list(&kept[..count])];
            let unpack = Inst { op: Op::Unpack(part, whole), a: Reg(0), ..pack };
            assert_eq!(step(&unpack, &lists, &mut regs, mask), Some(0));
            for lane in (0..32).filter(|lane| mask >> lane & 1 != 0) {
                for i in 1..count {
                    expected.w32[usize::from(kept[i])][lane] = before.w32[[4, 2, 3, 1][i]][lane];
                }
            }
            assert!(same(&regs, &expected), "{whole:?} to {part:?}");
        }
    }
}

/// Where a value of `a` is: from the tables of the PTX ISA, shape by shape. Lane, index of the value within the lane.
fn place_a(bits: u32, k: u16, lane: usize, i: usize) -> (usize, usize) {
    let (group, thread) = (lane >> 2, lane % 4);
    let upper = match (bits, k) {
        (32, 4) => i == 1,
        (32, 8) => i == 1 || i == 3,
        (16, 8) => i >= 2,
        (16, 16) => !(i < 2 || (4..6).contains(&i)),
        (8, 16) => i >= 4,
        (8, 32) => !(i < 4 || (8..12).contains(&i)),
        (4, 32) => i >= 8,
        (4, 64) => !(i < 8 || (16..24).contains(&i)),
        (1, 128) => i >= 32,
        (1, 256) => !(i < 32 || (64..96).contains(&i)),
        _ => unreachable!("no such shape"),
    };
    let column = match (bits, k) {
        (32, 4) => thread,
        (32, 8) => thread + if i < 2 { 0 } else { 4 },
        (16, 8) => thread * 2 + (i & 1),
        (16, 16) => thread * 2 + (i & 1) + if i < 4 { 0 } else { 8 },
        (8, 16) => thread * 4 + (i & 3),
        (8, 32) => thread * 4 + (i & 3) + if i < 8 { 0 } else { 16 },
        (4, 32) => thread * 8 + (i & 7),
        (4, 64) => thread * 8 + (i & 7) + if i < 16 { 0 } else { 32 },
        (1, 128) => thread * 32 + (i & 0x1f),
        _ => thread * 32 + (i & 0x1f) + if i < 64 { 0 } else { 128 },
    };
    (group + if upper { 8 } else { 0 }, column)
}

fn place_b(bits: u32, k: u16, lane: usize, i: usize) -> (usize, usize) {
    let thread = lane % 4;
    let row = match (bits, k) {
        (32, 4) => thread,
        (32, 8) => thread + 4 * i,
        (16, 8) => thread * 2 + i,
        (16, 16) => thread * 2 + (i & 1) + if i < 2 { 0 } else { 8 },
        (8, 16) => thread * 4 + i,
        (8, 32) => thread * 4 + (i & 3) + if i < 4 { 0 } else { 16 },
        (4, 32) => thread * 8 + i,
        (4, 64) => thread * 8 + (i & 7) + if i < 8 { 0 } else { 32 },
        (1, 128) => thread * 32 + i,
        _ => thread * 32 + (i & 0x1f) + if i < 32 { 0 } else { 128 },
    };
    (row, lane >> 2)
}

fn width(input: MmaInput) -> u32 {
    match input {
        MmaInput::F16 | MmaInput::Bf16 => 16,
        MmaInput::Tf32 => 32,
        MmaInput::I8(..) => 8,
        MmaInput::I4(..) => 4,
        MmaInput::B1 { .. } => 1,
        MmaInput::F64 => unreachable!("has a test of its own"),
    }
}

fn bits_of(regs: &Registers, list: &[Reg], width: u32, lane: usize, i: usize) -> u64 {
    let each = (32 / width) as usize;
    let word = u64::from(regs.w32[list[i / each].index()][lane]);
    word >> (width as usize * (i % each)) & ((1 << width) - 1)
}

#[test]
fn products() {
    let signs = [(false, false), (false, true), (true, false), (true, true)];
    let mut shapes = vec![];
    for half in [false, true] {
        shapes.extend([8, 16].map(|k| Mma { k, input: MmaInput::F16, half, saturate: false }));
    }
    shapes.extend([8, 16].map(|k| Mma { k, input: MmaInput::Bf16, half: false, saturate: false }));
    shapes.extend([4, 8].map(|k| Mma { k, input: MmaInput::Tf32, half: false, saturate: false }));
    for (a, b) in signs {
        for saturate in [false, true] {
            shapes.extend([16, 32].map(|k| Mma { k, input: MmaInput::I8(a, b), half: false, saturate }));
            shapes.extend([32, 64].map(|k| Mma { k, input: MmaInput::I4(a, b), half: false, saturate }));
        }
    }
    for both in [false, true] {
        let input = MmaInput::B1 { both };
        shapes.extend([128, 256].map(|k| Mma { k, input, half: false, saturate: false }));
    }
    for (seed, mma) in shapes.into_iter().enumerate() {
        let mut random = Random(seed as u64);
        for _ in 0..4 {
            try_product(mma, &mut random);
        }
    }
}

fn try_product(mma: Mma, random: &mut Random) {
    let width = width(mma.input);
    let a_count = mma.k * 16 / 32 / (32 / width as u16);
    let of = match mma.input {
        MmaInput::F16 => Some(F16),
        MmaInput::Bf16 => Some(BF16),
        MmaInput::Tf32 => Some(F32),
        _ => None,
    };
    let sums = if mma.half { 2 } else { 4 };
    let range = |from: u16, count: u16| (from..from + count).map(Reg).collect::<Box<[Reg]>>();
    let lists = [range(0, sums), range(4, a_count), range(8, a_count / 2), range(12, sums)];
    let mut regs = garbage(random, 16);
    for word in regs.w32.iter_mut().flatten() {
        *word = match mma.input {
            MmaInput::F16 => random.value(super::Kind::Float(Float::F16x2)),
            MmaInput::Bf16 => random.value(super::Kind::Float(Float::Bf16x2)),
            MmaInput::Tf32 => random.value(super::Kind::Float(Float::F32)),
            _ => random.next(),
        } as u32;
    }
    // Sums that are infinite or no numbers hide the others.
    let tame = |bits: u32| match mma.input {
        MmaInput::F16 => bits & 0xbfff_bfff,
        MmaInput::Bf16 => bits & 0xbfff_bfff,
        MmaInput::Tf32 => bits & 0xbfff_ffff,
        _ => bits,
    };
    if random.below(4) != 0 {
        regs.w32.iter_mut().flatten().for_each(|word| *word = tame(*word));
    }
    let before = regs.clone();
    let op = Op::Mma(mma);
    let inst =
        Inst { op, guard: Guard::ALWAYS, d: Reg(0), e: NONE, a: Reg(1), b: Reg(2), c: Reg(3), f: NONE };
    assert_eq!(step(&inst, &lists, &mut regs, u32::MAX), Some(0));
    let k = usize::from(mma.k);
    let (mut a, mut b) = (vec![vec![0; k]; 16], vec![vec![0; 8]; k]);
    for lane in 0..32 {
        for i in 0..usize::from(a_count) * (32 / width as usize) {
            let (row, column) = place_a(width, mma.k, lane, i);
            a[row][column] = bits_of(&before, &lists[1], width, lane, i);
        }
        for i in 0..usize::from(a_count / 2) * (32 / width as usize) {
            let (row, column) = place_b(width, mma.k, lane, i);
            b[row][column] = bits_of(&before, &lists[2], width, lane, i);
        }
    }
    let sum_width = if mma.half { 16 } else { 32 };
    for lane in 0..32 {
        for i in 0..4 {
            let (row, column) = ((lane >> 2) + if i < 2 { 0 } else { 8 }, lane % 4 * 2 + (i & 1));
            let start = bits_of(&before, &lists[3], sum_width, lane, i);
            let got = bits_of(&regs, &lists[0], sum_width, lane, i);
            let pairs = (0..k).map(|j| (a[row][j], b[j][column]));
            let wanted = match of {
                Some(of) => float_sum(mma, of, start, pairs),
                None => integer_sum(mma, start, pairs),
            };
            assert_eq!(got, wanted, "{mma:?}, row {row}, column {column}");
        }
    }
}

fn float_sum(mma: Mma, of: Format, start: u64, pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    // Every number is one of f32.
    let widened = |of: Format, bits: u64| match of {
        of if of == F32 => bits & !0x1fff,
        of => u64::from((of.value(bits) as f32).to_bits()),
    };
    let start = if mma.half { widened(F16, start) } else { start };
    let sum = pairs.fold(start, |sum, (a, b)| F32.fma(widened(of, a), widened(of, b), sum, Round::Nearest));
    match sum {
        sum if !mma.half => sum,
        sum if F32.is_nan(sum) => F16.nan(),
        sum if F32.is_infinite(sum) || F32.is_zero(sum) => {
            (sum & F32.sign()) >> 16 | if F32.is_zero(sum) { 0 } else { F16.infinity() }
        }
        sum => F16.nearest(&Fraction::of(F32, sum), Round::Nearest),
    }
}

fn integer_sum(mma: Mma, start: u64, pairs: impl Iterator<Item = (u64, u64)>) -> u64 {
    if let MmaInput::B1 { both } = mma.input {
        let bit = |(a, b): (u64, u64)| u64::from(if both { a == 1 && b == 1 } else { a != b });
        return u64::from((start as u32).wrapping_add(pairs.map(bit).sum::<u64>() as u32));
    }
    let (bits, a_signed, b_signed) = match mma.input {
        MmaInput::I8(a, b) => (8, a, b),
        MmaInput::I4(a, b) => (4, a, b),
        _ => unreachable!("floats have sums of their own"),
    };
    let value = |of: u64, signed: bool| {
        let of = of as i64;
        if signed && of >= 1 << (bits - 1) { of - (1 << bits) } else { of }
    };
    let sum =
        i64::from(start as i32) + pairs.map(|(a, b)| value(a, a_signed) * value(b, b_signed)).sum::<i64>();
    let sum = if mma.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
    u64::from(sum as u32)
}

#[test]
fn products_of_f64() {
    let mut random = Random(7);
    let op = Op::Mma(Mma { k: 4, input: MmaInput::F64, half: false, saturate: false });
    let inst =
        Inst { op, guard: Guard::ALWAYS, d: Reg(0), e: NONE, a: Reg(1), b: Reg(2), c: Reg(3), f: NONE };
    for round in 0..8 {
        let lists = [list(&[0, 1]), list(&[2]), list(&[3]), list(&[4, 5])];
        let mut regs = garbage(&mut random, 6);
        for value in regs.w64.iter_mut().flatten() {
            *value = random.value(super::Kind::Float(Float::F64));
            if round % 2 == 0 {
                // Sums that are infinite or no numbers hide the others.
                *value &= 0xbfff_ffff_ffff_ffff;
            }
        }
        let before = regs.clone();
        assert_eq!(step(&inst, &lists, &mut regs, u32::MAX), Some(0));
        for lane in 0..32 {
            let (row, thread) = (lane >> 2, lane % 4);
            for i in 0..2 {
                let column = thread * 2 + i;
                let wanted = (0..4).fold(before.w64[4 + i][lane], |sum, k| {
                    let (a, b) = (before.w64[2][row * 4 + k], before.w64[3][column * 4 + k]);
                    F64.fma(a, b, sum, Round::Nearest)
                });
                let got = regs.w64[i][lane];
                let same = got == wanted || F64.is_nan(got) && F64.is_nan(wanted);
                assert!(same, "row {row}, column {column}: {got:#x}, not {wanted:#x}");
            }
        }
    }
}

#[test]
fn a_product_needs_every_lane() {
    let mut regs = garbage(&mut Random(5), 16);
    let before = regs.clone();
    let lists = [list(&[0, 1, 2, 3]), list(&[4, 5]), list(&[6]), list(&[7, 8, 9, 10])];
    let op = Op::Mma(Mma { k: 8, input: MmaInput::F16, half: false, saturate: false });
    let inst =
        Inst { op, guard: Guard::ALWAYS, d: Reg(0), e: NONE, a: Reg(1), b: Reg(2), c: Reg(3), f: NONE };
    assert_eq!(step(&inst, &lists, &mut regs, 0xffff), Some(0xffff));
    for (after, before) in regs.w32.iter().zip(&before.w32) {
        assert_eq!(after[16..], before[16..]);
    }
}

#[test]
fn matrices_are_spread_by_rows_or_columns() {
    let rows: [[u16; 8]; 8] =
        std::array::from_fn(|row| std::array::from_fn(|column| (row * 16 + column) as u16));
    for transposed in [false, true] {
        let mut regs = garbage(&mut Random(9), 2);
        let before = regs.w32[1];
        super::super::spread_matrix(&rows, transposed, Reg(1), &mut regs, 0x7fff_ffff);
        for lane in 0..31u32 {
            let (row, column) = (lane / 4, lane % 4 * 2);
            let wanted = match transposed {
                false => (row * 16 + column) | (row * 16 + column + 1) << 16,
                true => (column * 16 + row) | ((column + 1) * 16 + row) << 16,
            };
            assert_eq!(regs.w32[1][lane as usize], wanted);
        }
        assert_eq!(regs.w32[1][31], before[31]);
    }
}
