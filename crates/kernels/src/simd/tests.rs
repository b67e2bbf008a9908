//! Tails and conversions of every instruction set, against plain code.

use half::bf16;

use super::{EXPONENT_MAX, LANES_MAX, LogitOp, LogitSimd, Op, Ranking, Simd};
use crate::element::Element;
use crate::isa::Isa;
use crate::simd::Token;

/// Copies elements by whole and partial vectors.
struct Copy<'a, T> {
    from: &'a [T],
    to: &'a mut [T],
}

impl<T: Element> Op<T> for Copy<'_, T> {
    #[inline(always)]
    fn eval<S: Simd<T>>(self, simd: S) {
        let lanes = S::LANES;
        let fill = simd.splat(T::Acc::default());
        for (from, to) in self.from.chunks(lanes).zip(self.to.chunks_mut(lanes)) {
            // SAFETY: both chunks have the same length: `lanes`, or fewer in the last one.
            unsafe {
                if from.len() == lanes {
                    simd.store(to.as_mut_ptr(), simd.load(from.as_ptr()));
                } else {
                    simd.store_partial(
                        to.as_mut_ptr(),
                        to.len(),
                        simd.load_partial(from.as_ptr(), from.len(), fill),
                    );
                }
            }
        }
    }
}

fn for_each_token(mut test: impl FnMut(Isa, Token)) {
    for isa in Isa::available() {
        test(isa, Token::new(isa).expect("it is available"));
    }
}

fn copies_exactly<T: Element>(values: &[T], same: impl Fn(T, T) -> bool) {
    for_each_token(|isa, token| {
        for len in 0..values.len().min(40) {
            for start in [0, 1, 2, 5] {
                let from = &values[start..start + len];
                let mut to = vec![T::from_f64(77.0); len + 3];
                T::dispatch(token, Copy { from, to: &mut to[1..=len] });
                for (i, (&a, &b)) in from.iter().zip(&to[1..]).enumerate() {
                    assert!(same(a, b), "{isa}, {} of {len} from {start}: {a:?} became {b:?}", i);
                }
                assert_eq!(
                    (to[0], &to[len + 1..]),
                    (T::from_f64(77.0), &[T::from_f64(77.0); 2][..]),
                    "{isa}, {len}"
                );
            }
        }
    });
}

#[test]
fn vectors_and_tails_copy_exactly() {
    let values: Vec<f64> = (0..64).map(|i| f64::from(i) * 1.25 - 9.0).collect();
    copies_exactly(&values, |a, b| a == b);
    copies_exactly(&values.iter().map(|&v| v as f32).collect::<Vec<_>>(), |a, b| a == b);
    copies_exactly(&values.iter().map(|&v| bf16::from_f64(v)).collect::<Vec<_>>(), |a, b| a == b);
}

/// Adds an f32 to each element of a bf16 tensor, so that sums need rounding.
struct AddTo<'a> {
    values: &'a mut [bf16],
    addend: f32,
}

impl Op<bf16> for AddTo<'_> {
    #[inline(always)]
    fn eval<S: Simd<bf16>>(self, simd: S) {
        for chunk in self.values.chunks_exact_mut(S::LANES) {
            // SAFETY: the chunk has `LANES` elements.
            unsafe {
                simd.store(chunk.as_mut_ptr(), simd.add(simd.load(chunk.as_ptr()), simd.splat(self.addend)))
            }
        }
    }
}

#[test]
fn bf16_rounds_as_the_half_crate_does_on_every_input() {
    let all: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    // Ties both ways, either side of a tie, overflow, and nothing.
    for addend in [0.0, 1.0 + 1.0 / 256.0, 1.0 + 1.0 / 256.0 + 1e-6, 3.0 / 512.0, -1.7, 1e38, f32::NAN] {
        for_each_token(|isa, token| {
            let mut got = all.clone();
            <bf16 as crate::element::sealed::Sealed>::dispatch(token, AddTo { values: &mut got, addend });
            for (value, got) in all.iter().zip(got) {
                let sum = value.to_f32() + addend;
                let expected = bf16::from_f32(sum);
                // Which NaN a sum of NaNs is, IEEE 754 leaves open.
                let same = got.to_bits() == expected.to_bits() || (sum.is_nan() && got.is_nan());
                assert!(same, "{isa}: {value} + {addend} gave {got}, not {expected}");
            }
        });
    }
}

/// Overwrites each `x` by `2^(x * rate - exponent)`, for whole vectors.
struct Powers<'a> {
    values: &'a mut [f32],
    rate: f32,
    exponent: f32,
    /// Whether by way of powers that have a factor.
    scaled: bool,
}

impl LogitOp<f32> for Powers<'_> {
    #[inline(always)]
    fn eval<S: LogitSimd<f32>>(self, simd: S) {
        let scaling = simd.scaling(self.rate, self.exponent);
        for chunk in self.values.chunks_exact_mut(S::LANES) {
            // SAFETY: the chunk has `LANES` elements.
            unsafe {
                let x = simd.load(chunk.as_ptr());
                let zero = simd.splat(0.0);
                if !self.scaled {
                    simd.store_acc(chunk.as_mut_ptr(), simd.add_exp2(zero, x, scaling));
                    continue;
                }
                simd.store_acc(chunk.as_mut_ptr(), simd.add_exp2_scaled::<true>(zero, x, scaling));
                chunk.iter_mut().for_each(|power| *power = (f64::from(*power) / S::SCALE) as f32);
            }
        }
    }
}

fn powers(token: Token, values: &[f32], rate: f32, exponent: f32, scaled: bool) -> Vec<f32> {
    let mut powers = values.to_vec();
    let op = Powers { values: &mut powers, rate, exponent, scaled };
    <f32 as crate::softmax_topk::sealed::Sealed>::dispatch(token, op);
    powers
}

#[test]
fn powers_of_two_are_within_their_bound() {
    let unit = f64::from(f32::EPSILON) / 2.0;
    let steps = 1 << 20;
    for (rate, exponent) in
        [(1.0, 0.0), (std::f32::consts::LOG2_E, 17.0), (37.5, -1234.0), (0.01, EXPONENT_MAX)]
    {
        // Powers from 2^-125 to 2, evenly.
        let xs: Vec<f32> = (0..steps)
            .map(|i| {
                ((126.0 * f64::from(i) / f64::from(steps) - 125.0 + f64::from(exponent)) / f64::from(rate))
                    as f32
            })
            .collect();
        for_each_token(|isa, token| {
            for (scaled, units) in [(false, 3.0), (true, 6.0)] {
                for (&x, got) in xs.iter().zip(powers(token, &xs, rate, exponent, scaled)) {
                    let t = f64::from(x) * f64::from(rate) - f64::from(exponent);
                    let off = (f64::from(got) / t.exp2() - 1.0).abs();
                    let bound = (units + 0.7 * (1.0 - t)) * unit;
                    assert!(
                        t > 1.0 || off <= bound,
                        "{isa}: 2^({x} * {rate} - {exponent}) is off by {off:e}"
                    );
                }
            }
        });
    }
}

#[test]
fn powers_of_two_of_masked_numbers_are_as_good_as_nothing_and_those_of_nan_are_nan() {
    let values = [f32::NEG_INFINITY, f32::MIN, -1e9, -130.0, f32::NAN, -f32::NAN, f32::NEG_INFINITY, -200.0];
    let values = [values, values].concat();
    for_each_token(|isa, token| {
        for exponent in [0.0, 3.0, EXPONENT_MAX] {
            let rate = std::f32::consts::LOG2_E;
            let each = [false, true].map(|scaled| powers(token, &values, rate, exponent, scaled));
            for (x, got) in values.iter().zip(&each[0]).chain(values.iter().zip(&each[1])) {
                let right = if x.is_nan() { got.is_nan() } else { (0.0..=2.4e-38).contains(got) };
                assert!(right, "{isa}: 2^({x} * log2(e) - {exponent}) came out as {got:e}");
            }
        }
    });
}

/// Ranks numbers.
struct RankFalling<'a>(&'a [u32], &'a mut Ranking);

impl LogitOp<f32> for RankFalling<'_> {
    #[inline(always)]
    fn eval<S: LogitSimd<f32>>(self, simd: S) {
        assert!(S::room(self.0.len()) >= self.0.len());
        simd.rank_falling(self.0, self.1);
    }
}

#[test]
fn numbers_are_ranked_whatever_their_number_and_however_alike() {
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 32) as u32
    };
    let mut rankings = Vec::new();
    for_each_token(|isa, token| rankings.push((isa, token, Ranking::default())));
    let lens = (0..70).chain([127, 128, 129, 255, 256, 257, 1000, 4096, 4097, 20_000]);
    for (len, kind) in lens.flat_map(|len| (0..6).map(move |kind| (len, kind))) {
        let numbers: Vec<u32> = (0..len)
            .map(|i| match (kind, random()) {
                (0, number) => number,
                // Ties; numbers that only their last bits tell apart, with one far from them or without; in order.
                (1, number) => number % 7,
                (2, number) => number % 1000 + if i == len / 2 { u32::MAX / 2 } else { 0 },
                (3, number) => u32::MAX - number % 3,
                (4, _) => i,
                (_, _) => u32::MAX - i,
            })
            .collect();
        let mut expected: Vec<u32> = (0..len).collect();
        expected.sort_by_key(|&place| std::cmp::Reverse(numbers[place as usize]));
        for (isa, token, ranking) in &mut rankings {
            <f32 as crate::softmax_topk::sealed::Sealed>::dispatch(*token, RankFalling(&numbers, ranking));
            assert!(ranking.places == expected, "{isa}: {len} numbers of kind {kind}");
        }
    }
}

/// Lists the bits of masks; the list is cut to what was said to be written.
struct ListBits<'a> {
    starts: &'a [u32],
    masks: &'a [u64],
    list: &'a mut Vec<u32>,
}

impl LogitOp<f32> for ListBits<'_> {
    #[inline(always)]
    fn eval<S: LogitSimd<f32>>(self, simd: S) {
        let bits: u32 = self.masks.iter().map(|mask| mask.count_ones()).sum();
        self.list.resize(bits as usize + LANES_MAX, 0);
        // SAFETY: the list has room for the bits and a vector.
        let len = unsafe { simd.list_bits(self.starts, self.masks, self.list.as_mut_ptr()) };
        self.list.truncate(len);
    }
}

#[test]
fn bits_are_listed_whatever_their_number() {
    let masks: Vec<u64> = (0..=64)
        .flat_map(|bits| {
            let low = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
            [low, low.reverse_bits(), low.rotate_left(29), 0x8421_0842_1084_2109 & low]
        })
        .collect();
    let starts: Vec<u32> = (0..masks.len() as u32).map(|i| i * 64 + 5).collect();
    let expected: Vec<u32> = (starts.iter().zip(&masks))
        .flat_map(|(start, mask)| (0..64).filter(move |bit| mask >> bit & 1 == 1).map(move |bit| start + bit))
        .collect();
    for_each_token(|isa, token| {
        for end in [0, 1, 5, masks.len()] {
            let mut list = Vec::new();
            let bits = ListBits { starts: &starts[..end], masks: &masks[..end], list: &mut list };
            <f32 as crate::softmax_topk::sealed::Sealed>::dispatch(token, bits);
            assert!(expected.starts_with(&list), "{isa}, {end} masks");
            let count: u32 = masks[..end].iter().map(|mask| mask.count_ones()).sum();
            assert_eq!(list.len(), count as usize, "{isa}, {end} masks");
        }
    });
}
