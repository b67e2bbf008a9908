//! Sums over tiles of integers, by instructions that multiply small ones and add up what belongs to a lane of 32 bits.

use super::ahead::Ahead;
use super::step::{Group, Scores, Step};
use super::{avx2, vnni};
use crate::simd::{Avx2, Avx512, Token};

/// Proof that this CPU has such instructions, and that they are among those that were asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Integers {
    /// Four products of bytes are added to a lane at once.
    Vnni(Avx512),
    /// Two products of 16 bits are.
    Avx2(Avx2),
}

/// Less than this as the largest weight of a step is nothing beside what made the exponent what it is.
pub(super) const LARGEST_MIN: f32 = 1e-30;

impl Integers {
    pub(super) fn new(token: Token) -> Option<Integers> {
        match token {
            Token::Avx512(simd) if is_x86_feature_detected!("avx512vnni") => Some(Integers::Vnni(simd)),
            Token::Avx512(_) => Avx2::new().map(Integers::Avx2),
            Token::Avx2(simd) => Some(Integers::Avx2(simd)),
            Token::Portable(_) => None,
        }
    }

    /// Scores of `R` queries with all keys of a strip, seen or not, without their scales. All sums are exact for keys of up to 512 values.
    ///
    /// Products are too large by as many times the sums of codes as is added to keys that are taken for unsigned.
    ///
    /// # Safety
    /// - The group has `R` rows of `step.dim` codes, and so many sums of codes; where there is no VNNI, pairs too.
    /// - `strip` is one of `step.strips` that can be read, with keys of `step.dim` values, of half a byte if `NIBBLES`, and of a byte
    ///   otherwise.
    #[inline(always)]
    pub(super) unsafe fn multiply<const NIBBLES: bool, const R: usize>(
        self,
        step: &Step<'_>,
        strip: usize,
        group: &Group<'_>,
        scores: &mut Scores,
        ahead: &mut Ahead,
    ) {
        // SAFETY: the CPU has the instructions, as `self` proves; the caller vouches for the rest.
        unsafe {
            match self {
                Integers::Vnni(simd) => vnni::multiply::<NIBBLES, R>(simd, step, strip, group, scores, ahead),
                Integers::Avx2(simd) => avx2::multiply::<NIBBLES, R>(simd, step, strip, group, scores, ahead),
            }
        }
    }

    /// Adds the weighed values to `R` outputs, which are multiplied by factors before.
    ///
    /// Weights are rounded to 15 or 16 bits of the largest of a query. All sums are exact.
    ///
    /// # Safety
    /// - `o` holds `R * step.dim` values.
    /// - Those of `step.strips` of which something is seen can be read, as for [`multiply`](Integers::multiply).
    #[inline(always)]
    pub(super) unsafe fn add_values<const NIBBLES: bool, const R: usize>(
        self,
        step: &Step<'_>,
        weights: &Scores,
        factors: &[f32; R],
        o: *mut f32,
        ahead: &mut Ahead,
    ) {
        // SAFETY: the CPU has the instructions, as `self` proves; the caller vouches for the rest.
        unsafe {
            match self {
                Integers::Vnni(simd) => {
                    vnni::add_values::<NIBBLES, R>(simd, step, weights, factors, o, ahead)
                }
                Integers::Avx2(simd) => {
                    avx2::add_values::<NIBBLES, R>(simd, step, weights, factors, o, ahead)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::step::{GROUP, Place, STEP_MAX, STRIPS_MAX, Slots, Strips};
    use super::*;
    use crate::isa::Isa;
    use crate::kv_cache::STRIP;

    /// With the largest integer of a weight.
    fn available(nibbles: bool) -> Vec<(Integers, i32)> {
        let found = [Isa::Avx512, Isa::Avx2].into_iter().filter_map(|isa| Integers::new(Token::new(isa)?));
        let with_largest = found.map(|integers| match integers {
            Integers::Vnni(_) if nibbles => (integers, 255),
            Integers::Vnni(_) => (integers, 65535),
            Integers::Avx2(_) => (integers, 32767),
        });
        with_largest.collect()
    }

    /// What a tile of [`STRIPS_MAX`] strips holds, keys and then values in one panel or several, as the integers that they are.
    struct Planes {
        bytes: Vec<u8>,
        dim: usize,
        nibbles: bool,
    }

    impl Planes {
        fn plane_bytes(&self) -> usize {
            STRIP * self.dim / if self.nibbles { 2 } else { 1 }
        }

        /// The `i`th of the integers that are packed into the four bytes at `at`.
        fn packed(&self, at: usize, i: usize) -> i32 {
            if self.nibbles {
                i32::from(self.bytes[at + i % 4] >> (i / 4 * 4) & 15)
            } else {
                i32::from(self.bytes[at + i] as i8)
            }
        }

        fn key(&self, token: usize, d: usize) -> i32 {
            let packed = if self.nibbles { 8 } else { 4 };
            let at = (d / packed * STRIP + token % STRIP) * 4;
            self.packed(token / STRIP * self.plane_bytes() + at, d % packed)
        }

        fn value(&self, token: usize, d: usize) -> i32 {
            let packed = if self.nibbles { 8 } else { 4 };
            let panel = if self.nibbles { 64 } else { 32 };
            let first = d / panel * panel;
            let width = panel.min(self.dim - first);
            // Of tokens, as many as are packed share four bytes.
            let start = STRIPS_MAX * STRIP / packed * first;
            let at = (start + token / packed * width + d - first) * 4;
            self.packed(STRIPS_MAX * self.plane_bytes() + at, token % packed)
        }
    }

    fn check<const NIBBLES: bool, const R: usize>(
        dim: usize,
        draw: impl Fn(&mut ChaCha8Rng) -> (u8, i8, f32),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(dim as u64);
        let mut planes = Planes { bytes: Vec::new(), dim, nibbles: NIBBLES };
        planes.bytes = (0..2 * STRIPS_MAX * planes.plane_bytes()).map(|_| draw(&mut rng).0).collect();
        let codes: Vec<i8> = (0..R * dim).map(|_| draw(&mut rng).1).collect();
        let quads = codes.as_chunks::<4>().0.iter();
        let pairs: Vec<[i16; 2]> =
            quads.flat_map(|&[a, b, c, d]| [[a.into(), c.into()], [b.into(), d.into()]]).collect();
        let code_sums: Vec<f32> =
            codes.chunks(dim).map(|row| row.iter().map(|&code| f32::from(code)).sum()).collect();
        let plane_bytes = planes.plane_bytes();
        let strips = std::array::from_fn(|number| Place {
            keys: planes.bytes[number * plane_bytes..].as_ptr(),
            values: planes.bytes[STRIPS_MAX * plane_bytes..].as_ptr(),
            of: STRIPS_MAX,
            number,
        });
        let mut seen = [Slots { from: 0, to: STRIP }; STRIPS_MAX];
        // Nothing of this is seen.
        seen[2].to = 0;
        let step = Step {
            strips: Strips { places: &strips, offset: 0 },
            seen,
            whole: false,
            key_scales: &[1.0; STEP_MAX],
            value_scales: &[1.0; STEP_MAX],
            plane_bytes,
            dim,
        };
        let group = Group {
            q: &[],
            scales: &[],
            rounded: &[],
            codes: &codes,
            pairs: &pairs,
            code_sums: &code_sums,
            integers: None,
            products: None,
        };
        for (integers, largest) in available(NIBBLES) {
            let context = format!("{integers:?}, nibbles {NIBBLES}, {R} rows of {dim}");
            let mut ahead = Ahead::nothing();
            let mut scores: Scores = [[f32::NAN; STEP_MAX]; GROUP];
            for strip in 0..STRIPS_MAX {
                // SAFETY: queries are `[R, dim]`, and the strips have been made as long as the step says.
                unsafe {
                    integers.multiply::<NIBBLES, R>(&step, strip, &group, &mut scores, &mut ahead);
                }
            }
            for (r, row) in codes.chunks(dim).enumerate() {
                for (token, &score) in scores[r].iter().enumerate() {
                    let products = row.iter().enumerate().map(|(d, &q)| i32::from(q) * planes.key(token, d));
                    let offset = if NIBBLES { 7.5 * code_sums[r] } else { 0.0 };
                    assert_eq!(score, products.sum::<i32>() as f32 - offset, "{r}, {token}, {context}");
                }
            }

            // The largest weight is the largest integer, so that the others are integers too.
            let mut weights: Scores = [[0.0; STEP_MAX]; GROUP];
            for weights in &mut weights {
                weights.fill_with(|| (draw(&mut rng).2 * largest as f32).round());
                weights[5] = largest as f32;
                weights[2 * STRIP..3 * STRIP].fill(0.0);
            }
            let mut o = vec![3.0; R * dim];
            // SAFETY: outputs are `[R, dim]`, and the strips are as above.
            unsafe {
                integers.add_values::<NIBBLES, R>(&step, &weights, &[0.0; R], o.as_mut_ptr(), &mut ahead)
            };
            for (r, o) in o.chunks(dim).enumerate() {
                let weight_sum: f32 = weights[r].iter().sum();
                let offset = if NIBBLES { 7.5 * weight_sum } else { 0.0 };
                for (d, &o) in o.iter().enumerate() {
                    let products = weights[r].iter().enumerate();
                    let sum: i32 =
                        products.map(|(token, &weight)| weight as i32 * planes.value(token, d)).sum();
                    assert_eq!(o, sum as f32 - offset, "{r}, {d}, {context}");
                }
            }
        }
    }

    #[test]
    fn sums_are_those_of_a_plain_loop() {
        for dim in [16, 48, 128, 512] {
            let random = |rng: &mut ChaCha8Rng| {
                (rng.random::<u8>(), rng.random_range(-127..=127), rng.random_range(0.0..1.0))
            };
            let extreme = |rng: &mut ChaCha8Rng| {
                let byte = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4)];
                (byte, [-127, 127][rng.random_range(0..2)], [0.0, 1.0][rng.random_range(0..2)])
            };
            // The largest sums that there are, of each sign.
            let same = |byte: u8, code: i8| move |_: &mut ChaCha8Rng| (byte, code, 1.0);
            check::<false, 4>(dim, random);
            check::<false, 1>(dim, extreme);
            check::<true, 4>(dim, random);
            check::<true, 1>(dim, extreme);
            for code in [-127, 127] {
                check::<false, 4>(dim, same(0x80, code));
                check::<false, 4>(dim, same(0x7f, code));
                check::<true, 4>(dim, same(0xff, code));
            }
        }
    }
}
