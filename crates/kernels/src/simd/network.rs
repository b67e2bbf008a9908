//! A sorting network over vectors of keys.

/// Vectors of keys, each a fixed number of lanes.
pub(crate) trait Network: Copy {
    /// A vector of keys.
    type Keys: Copy;

    /// How many keys a vector holds, a power of two.
    const KEYS: usize;

    /// A key that comes behind all others.
    const LAST: u64;

    /// # Safety
    /// - `KEYS` keys can be read at `p`.
    unsafe fn read(self, p: *const u64) -> Self::Keys;
    /// # Safety
    /// - `KEYS` keys can be written at `p`.
    unsafe fn write(self, p: *mut u64, v: Self::Keys);
    /// What comes first of each pair, and what comes behind.
    fn order(self, a: Self::Keys, b: Self::Keys) -> (Self::Keys, Self::Keys);
    /// The last lane first.
    fn reverse(self, v: Self::Keys) -> Self::Keys;
    /// The lanes in order.
    fn sort_vector(self, v: Self::Keys) -> Self::Keys;
    /// The same, if they rise and then fall, or the other way round.
    fn sort_bitonic_vector(self, v: Self::Keys) -> Self::Keys;
}

/// For how many keys a network is worth while, as its work grows as n log² n.
pub(crate) const NETWORK_MAX: usize = 1 << 14;

/// A bitonic network (Batcher 1968), in the form in which all pairs have the same direction.
#[inline(always)]
pub(crate) fn sort<S: Network>(simd: S, keys: &mut Vec<u64>) {
    let len = keys.len();
    let padded = len.next_power_of_two().max(S::KEYS);
    keys.resize(padded, S::LAST);
    let p = keys.as_mut_ptr();
    for start in (0..padded).step_by(S::KEYS) {
        // SAFETY: `padded` is a multiple of a vector.
        unsafe { simd.write(p.add(start), simd.sort_vector(simd.read(p.add(start)))) };
    }
    let mut size = 2 * S::KEYS;
    while size <= padded {
        for start in (0..padded).step_by(size) {
            // SAFETY: `padded` is a multiple of `size`, a power of two and two vectors at least.
            unsafe { merge(simd, p.add(start), size) };
        }
        size *= 2;
    }
    keys.truncate(len);
}

/// Merges the two sorted halves of `size` keys.
///
/// # Safety
/// - `size` keys can be read and written at `p`; it is a power of two, and two vectors at least.
#[inline(always)]
unsafe fn merge<S: Network>(simd: S, p: *mut u64, size: usize) {
    for i in (0..size / 2).step_by(S::KEYS) {
        // SAFETY: all offsets, here and below, are less than `size` by a vector at least.
        unsafe {
            let (a, b) = (p.add(i), p.add(size - S::KEYS - i));
            let (larger, smaller) = simd.order(simd.read(a), simd.reverse(simd.read(b)));
            simd.write(a, larger);
            simd.write(b, simd.reverse(smaller));
        }
    }
    let mut distance = size / 4;
    while distance >= S::KEYS {
        for start in (0..size).step_by(2 * distance) {
            for i in (start..start + distance).step_by(S::KEYS) {
                // SAFETY: as above.
                unsafe {
                    let (a, b) = (p.add(i), p.add(i + distance));
                    let (larger, smaller) = simd.order(simd.read(a), simd.read(b));
                    simd.write(a, larger);
                    simd.write(b, smaller);
                }
            }
        }
        distance /= 2;
    }
    for i in (0..size).step_by(S::KEYS) {
        // SAFETY: as above.
        unsafe { simd.write(p.add(i), simd.sort_bitonic_vector(simd.read(p.add(i)))) };
    }
}
