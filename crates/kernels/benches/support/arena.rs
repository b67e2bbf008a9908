//! Buffers that a benchmark rotates through: three arenas on huge pages, far larger than any cache together.

use std::ptr::NonNull;

/// Each arena: x, dy and the output have one. Three of these are twelve times the 260 MB last-level cache of the machine that
/// the first records come from, so whatever a slot held is gone when its turn comes again.
pub(crate) const ARENA_BYTES: usize = 1 << 30;

const HUGE_PAGE: usize = 2 << 20;

/// A piece of memory on huge pages, if the system gives them, filled with values of a few units.
pub(crate) struct Arena {
    start: NonNull<f32>,
}

// SAFETY: an arena is plain memory that it owns.
unsafe impl Send for Arena {}
// SAFETY: as above; shared access only reads the pointer.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(seed: u32) -> Arena {
        let bytes = ARENA_BYTES + HUGE_PAGE;
        // SAFETY: an anonymous private mapping, at an address of the system's choice, affects no other memory.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(base, libc::MAP_FAILED, "failed to map {bytes} bytes for the ring of buffers");
        let start = base.wrapping_byte_add(base.align_offset(HUGE_PAGE));
        // SAFETY: the range lies in the mapping just made; advice does not change what memory holds.
        unsafe { libc::madvise(start, ARENA_BYTES, libc::MADV_HUGEPAGE) };
        let mut arena = Arena { start: NonNull::new(start.cast()).expect("a mapping has an address") };
        let mut state = seed | 1;
        for value in arena.elements_mut::<f32>() {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            *value = (state >> 8) as f32 * (4.0 / (1 << 24) as f32) - 2.0;
        }
        arena
    }

    /// All of it, as numbers of type `T`: f32, f16 or bf16.
    pub(crate) fn elements_mut<T>(&mut self) -> &mut [T] {
        assert!(size_of::<T>() <= 4);
        // SAFETY: the mapping holds `ARENA_BYTES` from `start` on, zeroed or written by us, and `self` is borrowed mutably;
        // any bits are a number.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), ARENA_BYTES / size_of::<T>()) }
    }

    /// The same, to read.
    pub(crate) fn elements<T>(&self) -> &[T] {
        assert!(size_of::<T>() <= 4);
        // SAFETY: as above, and `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), ARENA_BYTES / size_of::<T>()) }
    }
}
