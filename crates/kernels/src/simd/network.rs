//! Ranks by a sorting network of vectors of AVX-512.

use std::arch::x86_64::*;

use super::avx512::Avx512;
use super::{Features, Rank, Ranking};

/// How many keys a vector has.
const LANES: usize = 16;

/// Up to so many vectors stay in registers.
const VECTORS: usize = 16;

/// Up to so many numbers are ranked by a network, whose work grows as n log² n.
const NETWORK_MAX: usize = 1 << 12;

impl Rank for Avx512 {
    fn room(len: usize) -> usize {
        if len <= NETWORK_MAX { len.next_power_of_two().max(8 * LANES) } else { len }
    }

    fn rank_falling(self, numbers: &[u32], ranking: &mut Ranking) {
        if numbers.is_empty() || numbers.len() > NETWORK_MAX {
            return ranking.rank_plainly(numbers);
        }
        let settled = self.call(
            #[inline(always)]
            || self.rank_by_network(numbers, &mut ranking.places),
        );
        if !settled {
            ranking.settle(numbers);
        }
    }
}

/// Makes a key of a number: its leading bits, as many as make a difference and there is room for, before its inverted place.
#[derive(Clone, Copy)]
struct Shortening {
    low: u32,
    shift: u32,
    place_bits: u32,
}

impl Shortening {
    #[inline(always)]
    fn new(numbers: &[u32]) -> Shortening {
        let (mut low, mut high) = (u32::MAX, 0);
        for &number in numbers {
            (low, high) = (low.min(number), high.max(number));
        }
        let place_bits = usize::BITS - (numbers.len() - 1).leading_zeros();
        // A bit less, as one is added to what is left of each number.
        let room = u32::BITS - place_bits - 1;
        let shift = (u32::BITS - (high - low).leading_zeros()).saturating_sub(room);
        Shortening { low, shift, place_bits }
    }

    /// The largest place that there is room for.
    #[inline(always)]
    fn last_place(self) -> i32 {
        (1 << self.place_bits) - 1
    }
}

impl Avx512 {
    /// Whether the order is right by all bits of the numbers.
    #[inline(always)]
    fn rank_by_network(self, numbers: &[u32], places: &mut Vec<u32>) -> bool {
        let shortening = Shortening::new(numbers);
        match numbers.len().div_ceil(LANES) {
            1 => self.rank_in_registers::<1>(numbers, shortening, places),
            2 => self.rank_in_registers::<2>(numbers, shortening, places),
            3..=4 => self.rank_in_registers::<4>(numbers, shortening, places),
            5..=8 => self.rank_in_registers::<8>(numbers, shortening, places),
            9..=VECTORS => self.rank_in_registers::<VECTORS>(numbers, shortening, places),
            many => {
                // SAFETY: vectors of integers may be zero.
                let mut buffers = vec![unsafe { std::mem::zeroed() }; 2 * many.next_power_of_two()];
                let (vectors, other) = buffers.split_at_mut(many.next_power_of_two());
                self.rank_vectors(numbers, shortening, vectors, other, places);
            }
        }
        // The leading bits are in order; where no others were left out, so is all.
        shortening.shift == 0 || places.is_sorted_by_key(|&place| !numbers[place as usize])
    }

    /// For up to `N` vectors, a power of two.
    #[inline(always)]
    fn rank_in_registers<const N: usize>(
        self,
        numbers: &[u32],
        shortening: Shortening,
        places: &mut Vec<u32>,
    ) {
        // SAFETY: vectors of integers may be zero.
        let (mut vectors, mut other) = unsafe { std::mem::zeroed::<([__m512i; N], [__m512i; N])>() };
        self.rank_vectors(numbers, shortening, &mut vectors, &mut other, places);
    }

    /// For as many vectors as there are buffers for, a power of two.
    #[inline(always)]
    fn rank_vectors(
        self,
        numbers: &[u32],
        shortening: Shortening,
        vectors: &mut [__m512i],
        other: &mut [__m512i],
        places: &mut Vec<u32>,
    ) {
        for (i, v) in vectors.iter_mut().enumerate() {
            *v = self.keys(numbers, i, shortening);
        }
        self.sort(vectors);
        self.transpose(vectors, other);
        places.resize(vectors.len() * LANES, 0);
        let last = shortening.last_place();
        for (places, &v) in places.as_chunks_mut::<LANES>().0.iter_mut().zip(&*vectors) {
            // SAFETY: needs AVX-512 F, which `self` proves that the CPU has; the array has a vector's size.
            unsafe {
                let inverted = _mm512_and_si512(v, _mm512_set1_epi32(last));
                _mm512_storeu_si512(
                    places.as_mut_ptr().cast(),
                    _mm512_sub_epi32(_mm512_set1_epi32(last), inverted),
                );
            }
        }
        places.truncate(numbers.len());
    }

    /// The keys of the `i`-th vector of numbers; zero behind their end.
    #[inline(always)]
    fn keys(self, numbers: &[u32], i: usize, shortening: Shortening) -> __m512i {
        let rest = numbers.len().saturating_sub(i * LANES).min(LANES);
        let mask = ((1_u32 << rest) - 1) as u16;
        let Shortening { low, shift, place_bits } = shortening;
        // SAFETY: needs AVX-512 F, which `self` proves that the CPU has; what is behind the end of the numbers is not read.
        unsafe {
            let v = _mm512_maskz_loadu_epi32(mask, numbers.as_ptr().wrapping_add(i * LANES).cast());
            let above = _mm512_sub_epi32(v, _mm512_set1_epi32(low as i32));
            let kept = _mm512_srl_epi32(above, _mm_cvtsi32_si128(shift as i32));
            // So that none is zero.
            let kept = _mm512_add_epi32(kept, _mm512_set1_epi32(1));
            let places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let inverted =
                _mm512_sub_epi32(_mm512_set1_epi32(shortening.last_place() - (i * LANES) as i32), places);
            let moved = _mm512_sll_epi32(kept, _mm_cvtsi32_si128(place_bits as i32));
            _mm512_maskz_or_epi32(mask, moved, inverted)
        }
    }

    /// A bitonic network (Batcher 1968), in the form in which all pairs have the larger key first: afterwards the keys fall along
    /// the vectors in the first lane, then in the second, and so on. So most exchanges are between vectors, not between
    /// lanes.
    #[inline(always)]
    fn sort(self, v: &mut [__m512i]) {
        self.merge_vectors(v, 2);
        self.merge_vectors(v, 4);
        self.merge_vectors(v, 8);
        let mut size = VECTORS;
        while size <= v.len() {
            self.merge_vectors(v, size);
            size *= 2;
        }
        self.merge_lanes::<1>(v);
        self.merge_lanes::<2>(v);
        self.merge_lanes::<4>(v);
        self.merge_lanes::<8>(v);
    }

    /// Merges the two halves of each run of `size` vectors, if there are so many.
    #[inline(always)]
    fn merge_vectors(self, v: &mut [__m512i], size: usize) {
        if size > v.len() {
            return;
        }
        for first in 0..v.len() {
            let second = first ^ (size - 1);
            if first < second {
                self.exchange(v, first, second);
            }
        }
        self.exchange_down(v, size / 4);
    }

    /// Merges the runs of each two neighbours of `WIDTH` lanes.
    #[inline(always)]
    fn merge_lanes<const WIDTH: i32>(self, v: &mut [__m512i]) {
        let n = v.len();
        let mirror = 2 * WIDTH - 1;
        for i in 0..n.div_ceil(2) {
            let (a, b) = (v[i], v[n - 1 - i]);
            v[i] = self.first_lanes_larger(WIDTH, a, self.permute(b, mirror));
            v[n - 1 - i] = self.first_lanes_larger(WIDTH, b, self.permute(a, mirror));
        }
        let mut distance = WIDTH / 2;
        while distance > 0 {
            for v in &mut *v {
                *v = self.first_lanes_larger(distance, *v, self.permute(*v, distance));
            }
            distance /= 2;
        }
        self.exchange_down(v, n / 2);
    }

    /// Moves what is in lane `i` of vector `j` to where lane `j` of vector `i` would be if a vector had as many lanes as there are
    /// vectors. Each time the vectors of the first half are interleaved with those of the second, lane by lane.
    #[inline(always)]
    fn transpose(self, v: &mut [__m512i], other: &mut [__m512i]) {
        let half = v.len() / 2;
        for _ in 0..v.len().trailing_zeros() {
            for i in 0..half {
                // SAFETY: needs AVX-512 F, which `self` proves that the CPU has.
                unsafe {
                    let front = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
                    let back = _mm512_add_epi32(front, _mm512_set1_epi32(LANES as i32 / 2));
                    other[2 * i] = _mm512_permutex2var_epi32(v[i], front, v[i + half]);
                    other[2 * i + 1] = _mm512_permutex2var_epi32(v[i], back, v[i + half]);
                }
            }
            v.copy_from_slice(other);
        }
    }

    /// Exchanges at this distance, half of it, and so on.
    #[inline(always)]
    fn exchange_down(self, v: &mut [__m512i], mut distance: usize) {
        while distance >= VECTORS {
            self.exchange_at(v, distance);
            distance /= 2;
        }
        // One by one, so that distances are constants and vectors stay in registers.
        if distance >= 8 {
            self.exchange_at(v, 8);
        }
        if distance >= 4 {
            self.exchange_at(v, 4);
        }
        if distance >= 2 {
            self.exchange_at(v, 2);
        }
        if distance >= 1 {
            self.exchange_at(v, 1);
        }
    }

    #[inline(always)]
    fn exchange_at(self, v: &mut [__m512i], distance: usize) {
        for first in 0..v.len() {
            if first & distance == 0 {
                self.exchange(v, first, first + distance);
            }
        }
    }

    /// Puts the larger of each lane of two vectors into the first of them.
    #[inline(always)]
    fn exchange(self, v: &mut [__m512i], first: usize, second: usize) {
        let (a, b) = (v[first], v[second]);
        // SAFETY: needs AVX-512 F, which `self` proves that the CPU has.
        (v[first], v[second]) = unsafe { (_mm512_max_epu32(a, b), _mm512_min_epu32(a, b)) };
    }

    /// The larger of each lane of both in lanes that do not have the bit, the smaller in the others.
    #[inline(always)]
    fn first_lanes_larger(self, bit: i32, a: __m512i, b: __m512i) -> __m512i {
        let mut first = 0;
        for lane in 0..LANES as i32 {
            first |= u16::from(lane & bit == 0) << lane;
        }
        // SAFETY: as above.
        unsafe { _mm512_mask_max_epu32(_mm512_min_epu32(a, b), first, a, b) }
    }

    /// Lane `i` is lane `i ^ flip` of `v`.
    #[inline(always)]
    fn permute(self, v: __m512i, flip: i32) -> __m512i {
        let mut lanes = [0; LANES];
        for (lane, index) in lanes.iter_mut().enumerate() {
            *index = lane as i32 ^ flip;
        }
        // SAFETY: as above; the array has a vector's size.
        unsafe { _mm512_permutexvar_epi32(_mm512_loadu_si512(lanes.as_ptr().cast()), v) }
    }
}
