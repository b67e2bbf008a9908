//! Products of matrices that are spread over a warp.
//!
//! In all shapes, a register holds as many values as fit, beside one another along the inner dimension. Lane `l` is in group `l / 4` and
//! has place `l % 4` in it. With `n` values to a register, value `j` of register `r` of the lane is
//!
//! - of `a`, in row `group + 8 (r % 2)` and column `4 n (r / 2) + n place + j`,
//! - of `b`, in row `4 n r + n place + j` and column `group`,
//! - of `c` and `d`, with two values to a pair of registers or to one of halves, in row `group + 8 (r / 2)` and column `2 place + r % 2`.
//!
//! Of f64 there are half as many rows: a lane has a value of `a`, one of `b` and two of `c`.
//!
//! Products of floats are exact. They are added to `c` one after the other, from the first column of `a` to the last, and each sum is
//! rounded to the nearest f32; sums of halves are rounded to halves at the end. Hardware adds several products at once, aligns them to the
//! largest and cuts off what lies below: its last bits differ. Sums of f64 are rounded to f64 in that order. Sums of integers are exact.

use crate::program::{Inst, LANES, Mma, MmaInput, Reg};
use crate::registers::Registers;

use super::float::{bits32, bits64};
use super::half;
use super::lanes::{get32, get64, lanes, put32, put64};

const ROWS: usize = 16;
const COLUMNS: usize = 8;

/// The matrices, of f32 or of i32, with room for an inner dimension of `K`.
struct Matrices<T, const K: usize> {
    a: [[T; K]; ROWS],
    b: [[T; COLUMNS]; K],
    sum: [[T; COLUMNS]; ROWS],
}

/// [`Op::Mma`](crate::program::Op::Mma): the active lanes, if they are not all lanes, as every lane needs the others.
#[inline(always)]
pub fn mma(mma: Mma, inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> u32 {
    match mma.input {
        MmaInput::F16 => floats::<16>(mma, 16, half::f16_to_f32, inst, lists, regs, mask),
        MmaInput::Bf16 => floats::<16>(mma, 16, |bits| f32::from_bits(bits << 16), inst, lists, regs, mask),
        MmaInput::Tf32 => {
            floats::<8>(mma, 32, |bits| f32::from_bits(bits & !0x1fff), inst, lists, regs, mask)
        }
        MmaInput::I8(a, b) => integers::<32>(mma, 8, (a, b), inst, lists, regs, mask),
        MmaInput::I4(a, b) => integers::<64>(mma, 4, (a, b), inst, lists, regs, mask),
        MmaInput::B1 { both } => single_bits(mma, both, inst, lists, regs, mask),
        MmaInput::F64 => doubles(inst, lists, regs, mask),
    }
    if mask == u32::MAX { 0 } else { mask }
}

/// Where a lane's value of `c` and `d` is.
#[inline(always)]
fn place(lane: usize, i: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2)
}

/// Fills `a` and `b`.
#[inline(always)]
fn gather<T: Copy + Default, const K: usize>(
    to: &mut Matrices<T, K>,
    width: usize,
    (a, b): (&[Reg], &[Reg]),
    regs: &Registers,
    value: (impl Fn(u32) -> T, impl Fn(u32) -> T),
) {
    let count = 32 / width;
    let part = |word: u32, j: usize| word << (32 - width - width * j) >> (32 - width);
    // Every loop writes values that lie side by side, so that the compiler makes vectors of it.
    for (r, &reg) in a.iter().enumerate() {
        for (group, words) in get32(regs, reg).as_chunks::<4>().0.iter().enumerate() {
            let row = &mut to.a[group + 8 * (r % 2)][4 * count * (r / 2)..][..4 * count];
            for place in 0..4 {
                for j in 0..count {
                    row[count * place + j] = value.0(part(words[place], j));
                }
            }
        }
    }
    for (r, &reg) in b.iter().enumerate() {
        let words = get32(regs, reg);
        for place in 0..4 {
            let words: [u32; COLUMNS] = std::array::from_fn(|group| words[4 * group + place]);
            for j in 0..count {
                for (to, &word) in to.b[4 * count * r + count * place + j].iter_mut().zip(&words) {
                    *to = value.1(part(word, j));
                }
            }
        }
    }
}

#[inline(always)]
fn floats<const K: usize>(
    mma: Mma,
    width: usize,
    value: impl Fn(u32) -> f32,
    inst: &Inst,
    lists: &[Box<[Reg]>],
    regs: &mut Registers,
    mask: u32,
) {
    let [a, b, c, d] = [inst.a, inst.b, inst.c, inst.d].map(|list| &*lists[list.index()]);
    let mut of = Matrices { a: [[0.0; K]; ROWS], b: [[0.0; COLUMNS]; K], sum: [[0.0; COLUMNS]; ROWS] };
    gather(&mut of, width, (a, b), regs, (&value, &value));
    for (r, rows) in of.sum.as_chunks_mut::<{ ROWS / 2 }>().0.iter_mut().enumerate() {
        let (even, odd) = if mma.half {
            let pairs = get32(regs, c[r]);
            let value = |bits| bits32(half::f16_to_f32(bits));
            (lanes!(|lane| value(pairs[lane] & 0xffff)), lanes!(|lane| value(pairs[lane] >> 16)))
        } else {
            (*get32(regs, c[2 * r]), *get32(regs, c[2 * r + 1]))
        };
        for (group, row) in rows.iter_mut().enumerate() {
            for place in 0..4 {
                row[2 * place] = f32::from_bits(even[4 * group + place]);
                row[2 * place + 1] = f32::from_bits(odd[4 * group + place]);
            }
        }
    }
    // Several rows at a time, in registers: the additions of one wait for each other.
    for (rows, to) in of.a.as_chunks::<8>().0.iter().zip(of.sum.as_chunks_mut::<8>().0) {
        let mut sums = *to;
        for (column, b) in of.b.iter().enumerate().take(mma.k.into()) {
            for (row, sums) in rows.iter().zip(&mut sums) {
                for (sum, &b) in sums.iter_mut().zip(b) {
                    *sum = row[column].mul_add(b, *sum);
                }
            }
        }
        *to = sums;
    }
    for (r, rows) in of.sum.as_chunks::<{ ROWS / 2 }>().0.iter().enumerate() {
        let (mut even, mut odd) = ([0.0; LANES], [0.0; LANES]);
        for (group, row) in rows.iter().enumerate() {
            for place in 0..4 {
                even[4 * group + place] = row[2 * place];
                odd[4 * group + place] = row[2 * place + 1];
            }
        }
        if mma.half {
            let half = |sum| half::nearest::<false>(sum);
            put32(regs, d[r], mask, lanes!(|lane| half(even[lane]) | half(odd[lane]) << 16));
        } else {
            put32(regs, d[2 * r], mask, lanes!(|lane| bits32(even[lane])));
            put32(regs, d[2 * r + 1], mask, lanes!(|lane| bits32(odd[lane])));
        }
    }
}

#[inline(always)]
fn integers<const K: usize>(
    mma: Mma,
    width: usize,
    (a_signed, b_signed): (bool, bool),
    inst: &Inst,
    lists: &[Box<[Reg]>],
    regs: &mut Registers,
    mask: u32,
) {
    let [a, b, c, d] = [inst.a, inst.b, inst.c, inst.d].map(|list| &*lists[list.index()]);
    let mut of = Matrices { a: [[0; K]; ROWS], b: [[0; COLUMNS]; K], sum: [[0; COLUMNS]; ROWS] };
    let value = |signed: bool| {
        move |bits: u32| {
            let shift = 32 - width;
            if signed { (bits << shift) as i32 >> shift } else { bits as i32 }
        }
    };
    gather(&mut of, width, (a, b), regs, (value(a_signed), value(b_signed)));
    for (a, sum) in of.a.iter().zip(&mut of.sum) {
        for (&a, b) in a.iter().zip(&of.b).take(mma.k.into()) {
            for (sum, &b) in sum.iter_mut().zip(b) {
                // At most 64 products of 16 bits.
                *sum += a * b;
            }
        }
    }
    for (i, (&from, &to)) in c.iter().zip(d).enumerate() {
        let c = get32(regs, from);
        let values = lanes!(|lane| {
            let (row, column) = place(lane, i);
            let (sum, c) = (of.sum[row][column], c[lane] as i32);
            (if mma.saturate { c.saturating_add(sum) } else { c.wrapping_add(sum) }) as u32
        });
        put32(regs, to, mask, values);
    }
}

/// Bits are counted by words: that a register holds 32 of a row or a column is all that matters.
fn single_bits(mma: Mma, both: bool, inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) {
    let [a, b, c, d] = [inst.a, inst.b, inst.c, inst.d].map(|list| &*lists[list.index()]);
    let words = usize::from(mma.k) / 32;
    let count = |regs: &Registers, row: usize, column: usize| -> u32 {
        let of_word = |word: usize| {
            let a = get32(regs, a[word / 4 * 2 + row / 8])[row % 8 * 4 + word % 4];
            let b = get32(regs, b[word / 4])[column * 4 + word % 4];
            if both { a & b } else { a ^ b }.count_ones()
        };
        (0..words).map(of_word).sum()
    };
    let sums: [_; 4] = std::array::from_fn(|i| {
        let c = get32(regs, c[i]);
        lanes!(|lane| {
            let (row, column) = place(lane, i);
            c[lane].wrapping_add(count(regs, row, column))
        })
    });
    for (&to, values) in d.iter().zip(sums) {
        put32(regs, to, mask, values);
    }
}

fn doubles(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) {
    let [a, b, c, d] = [inst.a, inst.b, inst.c, inst.d].map(|list| &*lists[list.index()]);
    let (a, b) = (get64(regs, a[0]), get64(regs, b[0]));
    let sums: [_; 2] = std::array::from_fn(|i| {
        let c = get64(regs, c[i]);
        lanes!(|lane| {
            let (row, column) = place(lane, i);
            let (a, b) = (&a[4 * row..4 * row + 4], &b[4 * column..4 * column + 4]);
            let sum = a.iter().zip(b).fold(f64::from_bits(c[lane]), |sum, (&a, &b)| {
                f64::from_bits(a).mul_add(f64::from_bits(b), sum)
            });
            bits64(sum)
        })
    });
    for (&to, values) in d.iter().zip(sums) {
        put64(regs, to, mask, values);
    }
}

/// Spreads a matrix of 8 by 8 values of 16 bits, which [`Op::LoadMatrix`](crate::program::Op::LoadMatrix) has loaded, over the lanes: each
/// gets two that are beside one another in a row, or in a column if it is transposed.
pub fn spread_matrix(rows: &[[u16; 8]; 8], transposed: bool, to: Reg, regs: &mut Registers, mask: u32) {
    let values = lanes!(|lane| {
        let (line, first) = (lane / 4, lane % 4 * 2);
        let at = |place: usize| u32::from(if transposed { rows[place][line] } else { rows[line][place] });
        at(first) | at(first + 1) << 16
    });
    put32(regs, to, mask, values);
}
