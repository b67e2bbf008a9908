//! How rows of keys and values are stored.

use std::ops::Range;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::rotation::{rotate, rotate_back};
use super::storage::{Plane, STRIP};
use crate::simd::{Exchange, LANES_MAX, Portable, nibble_shift};

/// How values are stored.
///
/// The integer formats have a scale for each token and head, an f16, for keys and for values. Keys are rotated before
/// they are rounded, see [the module](super#integers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 4 bytes a value, exact.
    F32,
    /// 2 bytes a value, rounded to the nearest; from 65520 on it becomes infinite.
    F16,
    /// 2 bytes a value, rounded to the nearest.
    Bf16,
    /// A byte a value: `scale * c` for `c` in -127..=127. Off by half a scale at most, which is 1/254 of the largest of the row, if
    /// that is from 0.008 to 8e6. The scale is an f16: rows that are smaller lose bits, below 4e-6 all of them; a larger one becomes
    /// NaN.
    Int8,
    /// Half a byte a value: `scale * (c - 7.5)` for `c` in 0..=15, so there is no zero. Off by half a scale at most, which
    /// is 1/15 of the largest of the row, if that is from 0.0005 to 4.9e5; below 2e-7 nothing is left.
    Int4,
}

/// What is stored for one token in one plane.
pub(super) struct Row<'a> {
    /// The keys of its strip, or the values of its tile.
    pub(super) codes: &'a [u8],
    /// Which token of these it is.
    pub(super) slot: usize,
    /// How many these are.
    pub(super) tokens: usize,
    pub(super) scale: &'a [u8],
}

/// The same, to be written.
pub(super) struct RowMut<'a> {
    pub(super) codes: &'a mut [u8],
    pub(super) slot: usize,
    pub(super) tokens: usize,
    pub(super) scale: &'a mut [u8],
}

/// Rows are padded to a multiple of so many values, which vectors of every width divide.
pub(super) const MULTIPLE: usize = LANES_MAX;

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] = [Format::F32, Format::F16, Format::Bf16, Format::Int8, Format::Int4];

    /// The name, as reports show it.
    pub fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
            Format::Int8 => "int8",
            Format::Int4 => "int4",
        }
    }

    /// How many strips of tokens a tile has. Its keys are read one after the other, and then its values. Both together are 16 KiB for heads of 128 (half of
    /// that in 4 bits): with 32, bf16 took a Zen 4 a quarter longer, with 8, f16 a tenth.
    pub(crate) const fn tile_strips(self) -> usize {
        match self {
            Format::F32 => 1,
            Format::F16 => 2,
            Format::Bf16 => 2,
            Format::Int8 | Format::Int4 => 4,
        }
    }

    /// How many values of a row are next to each other, see [`panel_width`]: as many as attention has registers to sum up at once, for
    /// four queries.
    pub(crate) const fn panel(self) -> usize {
        match self {
            Format::Int8 => 32,
            _ => 64,
        }
    }

    /// How many bits a value takes, without scales.
    pub const fn bits(self) -> usize {
        match self {
            Format::F32 => 32,
            Format::F16 | Format::Bf16 => 16,
            Format::Int8 => 8,
            Format::Int4 => 4,
        }
    }

    /// How many values a row has, with its padding: zeros, which neither scores nor scales feel.
    pub(crate) fn padded(self, head_dim: usize) -> usize {
        head_dim.next_multiple_of(MULTIPLE)
    }

    /// How many bytes the key or the value of one head takes, with its padding and its scale.
    pub fn row_bytes(self, head_dim: usize) -> usize {
        self.padded(head_dim) * self.bits() / 8 + self.scale_bytes()
    }

    /// Without the scale; `None` if it cannot be counted.
    pub(super) fn checked_row_bytes(self, head_dim: usize) -> Option<usize> {
        Some(head_dim.checked_next_multiple_of(MULTIPLE)?.checked_mul(self.bits())? / 8)
    }

    pub(super) fn scale_bytes(self) -> usize {
        if self.is_integer() { size_of::<f16>() } else { 0 }
    }

    fn is_integer(self) -> bool {
        matches!(self, Format::Int8 | Format::Int4)
    }

    /// Whether what is stored of a key is the key [rotated](rotate), so that queries must be rotated too.
    pub(crate) fn rotates_keys(self) -> bool {
        self.is_integer()
    }

    /// Stores a row: the same on any instruction set.
    #[inline(always)]
    pub(super) fn write_row<S: Exchange>(
        self,
        simd: S,
        plane: Plane,
        values: &[f32],
        row: RowMut<'_>,
        scratch: &mut Scratch,
    ) {
        let Scratch { padded, halves, numbers } = scratch;
        padded.clear();
        padded.extend_from_slice(values);
        padded.resize(self.padded(values.len()), 0.0);
        let RowMut { codes, slot, tokens, scale } = row;
        if plane == Plane::Keys && self.rotates_keys() {
            rotate(simd, padded);
        }
        let place = Place { plane, slot, tokens, dim: padded.len(), panel: self.panel() };
        numbers.clear();
        match self {
            Format::F32 => write::<4, _>(place, codes, padded, f32::to_ne_bytes),
            Format::F16 => {
                halves.resize(padded.len(), f16::ZERO);
                halves.convert_from_f32_slice(padded);
                write::<2, _>(place, codes, halves, f16::to_ne_bytes);
            }
            Format::Bf16 => {
                numbers.extend(padded.iter().map(
                    #[inline(always)]
                    |&x| u32::from(bf16::from_f32(x).to_bits()),
                ));
                write_packed::<2>(place, codes, numbers);
            }
            Format::Int8 => {
                let reciprocal = write_scale(scale, padded, 127.0);
                numbers.extend(padded.iter().map(
                    #[inline(always)]
                    |x| nearest((x * reciprocal).clamp(-127.0, 127.0)),
                ));
                write_packed::<4>(place, codes, numbers);
            }
            Format::Int4 => {
                let reciprocal = write_scale(scale, padded, 7.5);
                numbers.extend(padded.iter().map(
                    #[inline(always)]
                    |x| nearest((x * reciprocal + 7.5).clamp(0.0, 15.0)),
                ));
                write_packed::<8>(place, codes, numbers);
            }
        }
    }

    /// Reads as many values as asked for.
    pub(super) fn read_row(self, plane: Plane, row: Row<'_>, values: &mut [f32]) {
        let Row { codes, slot, tokens, scale } = row;
        let mut padded = vec![0.0; self.padded(values.len())];
        let place = Place { plane, slot, tokens, dim: padded.len(), panel: self.panel() };
        match self {
            Format::F32 => read(place, codes, &mut padded, f32::from_ne_bytes),
            Format::F16 => read(place, codes, &mut padded, |bytes| f16::from_ne_bytes(bytes).to_f32()),
            Format::Bf16 => {
                read_packed::<2>(place, codes, &mut padded, |bits| bf16::from_bits(bits as u16).to_f32());
            }
            Format::Int8 => {
                let scale = read_scale(scale);
                read_packed::<4>(place, codes, &mut padded, |code| f32::from(code as i8) * scale);
            }
            Format::Int4 => {
                let scale = read_scale(scale);
                read_packed::<8>(place, codes, &mut padded, |code| (code as f32 - 7.5) * scale);
            }
        }
        if plane == Plane::Keys && self.rotates_keys() {
            rotate_back(Portable, &mut padded);
        }
        values.copy_from_slice(&padded[..values.len()]);
    }
}

/// What a row is on its way into the cache, kept so that the next one finds memory.
#[derive(Default)]
pub(super) struct Scratch {
    padded: Vec<f32>,
    halves: Vec<f16>,
    numbers: Vec<u32>,
}

/// Where the values of one token are, in values: the keys of a strip are `[dim][STRIP]`, so that a vector has the same value of many
/// tokens, and the values of a tile are in [panels](panel_width), each `[tokens][width]`; with some values of a token, or
/// tokens of a value, next to each other, as many as are packed.
#[derive(Clone, Copy)]
struct Place {
    plane: Plane,
    slot: usize,
    tokens: usize,
    dim: usize,
    panel: usize,
}

impl Place {
    /// Calls `visit` with each value's number in the row and where it is.
    fn each<const PACKED: usize>(self, mut visit: impl FnMut(usize, usize)) {
        match self.plane {
            Plane::Keys => {
                for d in 0..self.dim {
                    visit(d, d / PACKED * STRIP * PACKED + self.slot * PACKED + d % PACKED);
                }
            }
            Plane::Values => {
                for (first, row) in self.panels(PACKED) {
                    for (d, at) in (first..).zip(row.skip(self.slot % PACKED).step_by(PACKED)) {
                        visit(d, at);
                    }
                }
            }
        }
    }

    /// Of each panel, the number of its first value, and where this token's values are, and those of the tokens that are packed with it.
    fn panels(self, packed: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
        let Place { slot, tokens, dim, panel, .. } = self;
        (0..dim).step_by(panel).map(move |first| {
            let width = panel_width(panel, dim, first);
            let start = tokens * first + slot / packed * packed * width;
            (first, start..start + width * packed)
        })
    }
}

/// How wide the panel is that starts at value `first` of rows: `panel` values, or as many as are left.
#[inline(always)]
pub(crate) fn panel_width(panel: usize, dim: usize, first: usize) -> usize {
    panel.min(dim - first)
}

/// Stores the scale that makes `codes` of the largest value. Returns what values are multiplied by to become codes.
#[inline(always)]
fn write_scale(scale: &mut [u8], values: &[f32], codes: f32) -> f32 {
    // In lanes, as no order makes a difference. A NaN or an infinity makes the whole row NaN.
    let (mut largest, mut nothing) = ([0.0_f32; MULTIPLE], [0.0_f32; MULTIPLE]);
    for values in values.as_chunks::<MULTIPLE>().0 {
        for ((largest, nothing), x) in largest.iter_mut().zip(&mut nothing).zip(values) {
            *largest = largest.max(x.abs());
            *nothing += x * 0.0;
        }
    }
    let largest = largest.into_iter().fold(0.0, f32::max) + nothing.iter().sum::<f32>();
    let rounded = f16::from_f32(largest / codes);
    scale.copy_from_slice(&rounded.to_ne_bytes());
    if rounded == f16::ZERO { 0.0 } else { 1.0 / rounded.to_f32() }
}

fn read_scale(scale: &[u8]) -> f32 {
    scale.first_chunk().map_or(f32::NAN, |&bytes| f16::from_ne_bytes(bytes).to_f32())
}

/// The nearest integer, the even one of two, of a number from -127 to 255; only in its lowest bits. Anything for NaN.
#[inline(always)]
fn nearest(x: f32) -> u32 {
    // Leaves no bits behind the point, and is in any instruction set.
    (x + (3 << 22) as f32).to_bits()
}

/// By how many bits the value at `i` is shifted, of those packed in 32.
#[inline(always)]
const fn shift(packed: usize, i: usize) -> usize {
    if packed == 8 { nibble_shift(i) } else { 32 / packed * i }
}

/// The bits that one of so many packed values has.
const fn mask(packed: usize) -> u32 {
    u32::MAX >> (32 - 32 / packed)
}

/// Writes values of `N` bytes.
#[inline(always)]
fn write<const N: usize, V: Copy>(
    place: Place,
    codes: &mut [u8],
    values: &[V],
    bytes: impl Fn(V) -> [u8; N],
) {
    let codes = codes.as_chunks_mut::<N>().0;
    match place.plane {
        Plane::Keys => {
            for (of_all, &value) in codes.chunks_exact_mut(STRIP).zip(values) {
                of_all[place.slot] = bytes(value);
            }
        }
        Plane::Values => {
            for (first, row) in place.panels(1) {
                for (code, &value) in codes[row].iter_mut().zip(&values[first..]) {
                    *code = bytes(value);
                }
            }
        }
    }
}

/// Writes values of which some share four bytes: of a key as many that follow each other, and of the values the same one of as many tokens.
/// Only the lowest bits of a number count.
#[inline(always)]
fn write_packed<const PACKED: usize>(place: Place, codes: &mut [u8], numbers: &[u32]) {
    let words = codes.as_chunks_mut::<4>().0;
    match place.plane {
        Plane::Keys => {
            for (of_all, numbers) in words.chunks_exact_mut(STRIP).zip(numbers.as_chunks::<PACKED>().0) {
                let mut word = 0;
                for (i, number) in numbers.iter().enumerate() {
                    word |= (number & mask(PACKED)) << shift(PACKED, i);
                }
                of_all[place.slot] = word.to_le_bytes();
            }
        }
        Plane::Values => {
            let shift = shift(PACKED, place.slot % PACKED);
            for (first, row) in place.panels(PACKED) {
                let words = &mut words[row.start / PACKED..row.end / PACKED];
                for (word, number) in words.iter_mut().zip(&numbers[first..]) {
                    let others = u32::from_le_bytes(*word) & !(mask(PACKED) << shift);
                    *word = (others | (number & mask(PACKED)) << shift).to_le_bytes();
                }
            }
        }
    }
}

fn read<const N: usize>(place: Place, codes: &[u8], values: &mut [f32], widen: impl Fn([u8; N]) -> f32) {
    let codes = codes.as_chunks::<N>().0;
    place.each::<1>(|d, at| values[d] = widen(codes[at]));
}

fn read_packed<const PACKED: usize>(
    place: Place,
    codes: &[u8],
    values: &mut [f32],
    widen: impl Fn(u32) -> f32,
) {
    let words = codes.as_chunks().0;
    place.each::<PACKED>(|d, at| {
        let word = u32::from_le_bytes(words[at / PACKED]);
        values[d] = widen(word >> shift(PACKED, at % PACKED) & mask(PACKED));
    });
}
