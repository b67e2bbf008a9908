//! How rows of keys and values are stored.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::rotation::{rotate, rotate_back};
use super::storage::{Plane, TILE};
use crate::simd::LANES_MAX;

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
    /// A byte a value: `scale * c` for `c` in -127..=127. Off by half a scale at most, which is 1/254 of the largest of the row.
    Int8,
    /// Half a byte a value: `scale * (c - 7.5)` for `c` in 0..=15, so there is no zero. Off by half a scale at most, which
    /// is 1/15 of the largest of the row.
    Int4,
}

/// What is stored for one token in one plane.
pub(super) struct Row<'a> {
    /// The plane of its tile.
    pub(super) codes: &'a [u8],
    /// Which token of the tile it is.
    pub(super) slot: usize,
    pub(super) scale: &'a [u8],
}

/// The same, to be written.
pub(super) struct RowMut<'a> {
    pub(super) codes: &'a mut [u8],
    pub(super) slot: usize,
    pub(super) scale: &'a mut [u8],
}

/// Rows are padded to a multiple of so many values, which vectors of every width divide.
const MULTIPLE: usize = LANES_MAX;

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

    /// How many bits a value takes, without scales.
    pub fn bits(self) -> usize {
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

    /// How many values of a row of keys, or of a column of values, share four bytes, as products of integers take them.
    fn packed(self) -> usize {
        match self {
            Format::F32 | Format::F16 | Format::Bf16 => 1,
            Format::Int8 => 4,
            Format::Int4 => 8,
        }
    }

    /// Where in a plane of a tile the values of the token in `slot` are, in values: a plane of keys is `[dim][TILE]`, so that
    /// a vector has the same value of many tokens, and one of values is `[TILE][dim]`; with [`packed`](Format::packed)
    /// values of a token, or tokens of a value, next to each other.
    fn positions(self, plane: Plane, dim: usize, slot: usize) -> impl Iterator<Item = usize> {
        let packed = self.packed();
        (0..dim).map(move |d| match plane {
            Plane::Keys => (d / packed * TILE + slot) * packed + d % packed,
            Plane::Values => (slot / packed * dim + d) * packed + slot % packed,
        })
    }

    /// Stores a row.
    pub(super) fn write_row(self, plane: Plane, values: &[f32], row: RowMut<'_>) {
        let mut padded = vec![0.0; self.padded(values.len())];
        padded[..values.len()].copy_from_slice(values);
        let RowMut { codes, slot, scale } = row;
        if plane == Plane::Keys && self.rotates_keys() {
            rotate(&mut padded);
        }
        let positions = self.positions(plane, padded.len(), slot);
        match self {
            Format::F32 => write(codes, positions, padded.iter().map(|x| x.to_ne_bytes())),
            Format::F16 => {
                let mut halves = vec![f16::ZERO; padded.len()];
                halves.convert_from_f32_slice(&padded);
                write(codes, positions, halves.iter().map(|x| x.to_ne_bytes()));
            }
            Format::Bf16 => {
                write(codes, positions, padded.iter().map(|&x| bf16::from_f32(x).to_ne_bytes()));
            }
            Format::Int8 => {
                let reciprocal = write_scale(scale, &padded, 127.0);
                let code = |x: f32| (x * reciprocal).round_ties_even().clamp(-127.0, 127.0) as i8 as u8;
                write(codes, positions, padded.iter().map(|&x| [code(x)]));
            }
            Format::Int4 => {
                let reciprocal = write_scale(scale, &padded, 7.5);
                let code = |x: f32| (x * reciprocal + 7.5).round_ties_even().clamp(0.0, 15.0) as u8;
                for (at, &x) in positions.zip(&padded) {
                    let (byte, shift) = nibble(at);
                    codes[byte] = codes[byte] & !(15 << shift) | code(x) << shift;
                }
            }
        }
    }

    /// Reads as many values as asked for.
    pub(super) fn read_row(self, plane: Plane, row: Row<'_>, values: &mut [f32]) {
        let Row { codes, slot, scale } = row;
        let mut padded = vec![0.0; self.padded(values.len())];
        let positions = self.positions(plane, padded.len(), slot);
        match self {
            Format::F32 => read(codes, positions, &mut padded, f32::from_ne_bytes),
            Format::F16 => read(codes, positions, &mut padded, |bytes| f16::from_ne_bytes(bytes).to_f32()),
            Format::Bf16 => read(codes, positions, &mut padded, |bytes| bf16::from_ne_bytes(bytes).to_f32()),
            Format::Int8 => {
                let scale = read_scale(scale);
                read(codes, positions, &mut padded, |[code]| f32::from(code as i8) * scale);
            }
            Format::Int4 => {
                let scale = read_scale(scale);
                for (at, value) in positions.zip(&mut padded) {
                    let (byte, shift) = nibble(at);
                    *value = (f32::from(codes[byte] >> shift & 15) - 7.5) * scale;
                }
            }
        }
        if plane == Plane::Keys && self.rotates_keys() {
            rotate_back(&mut padded);
        }
        values.copy_from_slice(&padded[..values.len()]);
    }
}

/// In which byte a value of half a byte is, and by how many bits it is shifted: of eight, the first four are in the low halves
/// of four bytes.
fn nibble(at: usize) -> (usize, usize) {
    (at / 8 * 4 + at % 4, at % 8 / 4 * 4)
}

/// Stores the scale that makes `codes` of the largest value. Returns what values are multiplied by to become codes.
fn write_scale(scale: &mut [u8], values: &[f32], codes: f32) -> f32 {
    // A NaN or an infinity makes the whole row one.
    let largest =
        values.iter().fold(0.0, |largest: f32, x| if x.abs() <= largest { largest } else { x.abs() });
    let rounded = f16::from_f32(largest / codes);
    scale.copy_from_slice(&rounded.to_ne_bytes());
    if rounded == f16::ZERO { 0.0 } else { 1.0 / rounded.to_f32() }
}

fn read_scale(scale: &[u8]) -> f32 {
    scale.first_chunk().map_or(f32::NAN, |&bytes| f16::from_ne_bytes(bytes).to_f32())
}

fn write<const N: usize>(
    codes: &mut [u8],
    positions: impl Iterator<Item = usize>,
    values: impl Iterator<Item = [u8; N]>,
) {
    let (codes, _) = codes.as_chunks_mut::<N>();
    for (at, value) in positions.zip(values) {
        codes[at] = value;
    }
}

fn read<const N: usize>(
    codes: &[u8],
    positions: impl Iterator<Item = usize>,
    values: &mut [f32],
    widen: impl Fn([u8; N]) -> f32,
) {
    let (codes, _) = codes.as_chunks::<N>();
    for (at, value) in positions.zip(values) {
        *value = widen(codes[at]);
    }
}
