//! Memory that judge and host share: sealed files that live nowhere.
//!
//! None can be resized, so a host cannot pull a page away from under the judge. The bytes may change at any moment, so the judge
//! never forms a reference to them: it copies them out by raw pointer and looks at the copy.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use tribunal_contract::abi::ALIGNMENT_BYTES;

use crate::MachineError;

/// What outputs hold before a call. As a float of any width it is finite and far from anything a kernel computes
/// (-6e29 in 32 bits, -1e4 in 16), as an integer far from any index; and it is no NaN, which can be a right answer.
pub(crate) const POISON: u8 = 0xf0;

/// Bytes before and after each output that must stay as they are.
pub(crate) const GUARD_BYTES: usize = 1024;

/// What memory is given out by.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Smallest capacity: small sessions stay small.
const CAPACITY_BYTES_MIN: usize = 64 << 10;
/// Beyond this, capacities grow by multiples of it and no longer double.
const CAPACITY_STEP_BYTES: usize = 64 << 20;

/// Where a tensor stands in an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) offset: usize,
    pub(crate) len: usize,
}

impl Slot {
    fn end(self) -> usize {
        self.offset + self.len
    }
}

/// Places tensors of these sizes one after the other, each aligned, with at least `guard` bytes before and
/// after each. Also returns the bytes needed for all.
pub(crate) fn lay_out(sizes: impl Iterator<Item = usize>, guard: usize) -> (Vec<Slot>, usize) {
    let mut end = 0;
    let slots = sizes
        .map(|len| {
            let slot = Slot { offset: (end + guard).next_multiple_of(ALIGNMENT_BYTES), len };
            end = slot.end();
            slot
        })
        .collect();
    (slots, (end + guard).next_multiple_of(ALIGNMENT_BYTES))
}

/// The zones around `slots` in the first `total` bytes.
pub(crate) fn gaps(slots: &[Slot], total: usize) -> impl Iterator<Item = Slot> {
    let starts = std::iter::once(0).chain(slots.iter().map(|slot| slot.end()));
    let ends = slots.iter().map(|slot| slot.offset).chain(std::iter::once(total));
    starts.zip(ends).map(|(start, end)| Slot { offset: start, len: end - start })
}

/// A capacity with room for `need` bytes, and for more.
pub(crate) fn roomy(need: usize) -> usize {
    if need > CAPACITY_STEP_BYTES {
        need.next_multiple_of(CAPACITY_STEP_BYTES)
    } else {
        need.max(CAPACITY_BYTES_MIN).next_power_of_two()
    }
}

/// What the host may do with a [`Shared`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The judge's view of a piece of shared memory.
#[derive(Debug)]
pub(crate) struct Shared {
    fd: OwnedFd,
    base: NonNull<c_void>,
    capacity: usize,
}

// SAFETY:
// - `base` is a mapping of this process, valid on every thread, and owned by this value alone.
// - all access goes through methods that take raw copies; none hands out a reference.
unsafe impl Send for Shared {}

impl Shared {
    /// Makes `capacity` bytes of shared memory, which is zeros.
    pub(crate) fn new(capacity: usize, access: Access) -> Result<Self, MachineError> {
        let failed = || MachineError::system(format!("making {capacity} bytes of shared memory"));
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("tribunal", flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create("tribunal", flags)) // kernels before 6.3
            .map_err(failed())?;
        rustix::fs::ftruncate(&fd, capacity as u64).map_err(failed())?;
        // SAFETY:
        // - the address is chosen by the kernel, so no existing mapping is touched;
        // - the file has `capacity` bytes and is sealed against shrinking below.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                capacity,
                ProtFlags::READ | ProtFlags::WRITE,
                // Populated here and now, so that no host has to clear pages.
                MapFlags::SHARED | MapFlags::POPULATE,
                &fd,
                0,
            )
        }
        .map_err(failed())?;
        let base = NonNull::new(base).expect("a mapping is not at address 0");
        let shared = Self { fd, base, capacity };
        // Sealed after mapping: FUTURE_WRITE forbids new writable mappings and leaves ours.
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if access == Access::Read {
            seals |= SealFlags::FUTURE_WRITE;
        }
        rustix::fs::fcntl_add_seals(&shared.fd, seals).map_err(failed())?;
        Ok(shared)
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        // SAFETY:
        // - `at` checks that the range lies in the mapping;
        // - `bytes` is private memory of this process, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at(offset, bytes.len()), bytes.len()) }
    }

    pub(crate) fn fill(&self, slot: Slot, byte: u8) {
        // SAFETY: `at` checks that the range lies in the mapping, which is writable.
        unsafe { std::ptr::write_bytes(self.at(slot.offset, slot.len), byte, slot.len) }
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, slot: Slot) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(slot.len);
        // SAFETY:
        // - `at` checks that the range lies in the mapping; the vector has room for `len` bytes and is private;
        // - after the copy all `len` bytes are initialised. Bytes that change meanwhile are copied old or new: any
        //   byte is a valid `u8`.
        unsafe {
            std::ptr::copy_nonoverlapping(self.at(slot.offset, slot.len), bytes.as_mut_ptr(), slot.len);
            bytes.set_len(slot.len);
        }
        bytes
    }

    /// Whether these bytes stand at `offset`.
    pub(crate) fn holds(&self, offset: usize, bytes: &[u8]) -> bool {
        let mut copy = [0; PAGE_BYTES];
        bytes.chunks(copy.len()).zip((offset..).step_by(copy.len())).all(|(chunk, offset)| {
            // SAFETY: `at` checks that the range lies in the mapping; the copy has room for it and is private.
            unsafe {
                std::ptr::copy_nonoverlapping(self.at(offset, chunk.len()), copy.as_mut_ptr(), chunk.len())
            };
            copy[..chunk.len()] == *chunk
        })
    }

    /// One byte as it is at this moment.
    pub(crate) fn peek(&self, offset: usize) -> u8 {
        // SAFETY: `at` checks that the byte lies in the mapping; volatile, since another process may write it.
        unsafe { self.at(offset, 1).read_volatile() }
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.capacity), "a range inside the arena");
        // SAFETY: `offset` is at most `capacity`, so the result stays in the mapping or one past its end.
        unsafe { self.base.as_ptr().cast::<u8>().add(offset) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with these bounds, and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.capacity) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_and_apart() {
        let (slots, total) = lay_out([1usize, 0, 300, 256].into_iter(), GUARD_BYTES);
        assert!(slots.iter().all(|slot| slot.offset % ALIGNMENT_BYTES == 0));
        let gaps: Vec<_> = gaps(&slots, total).collect();
        assert_eq!(gaps.len(), 5);
        assert!(gaps.iter().all(|gap| gap.len >= GUARD_BYTES), "{gaps:?}");
        let covered: usize = gaps.iter().chain(&slots).map(|slot| slot.len).sum();
        assert_eq!(covered, total);
    }

    #[test]
    fn poison_is_never_a_plausible_answer() {
        use tribunal_contract::{DType, Tensor, TensorSpec};
        for dtype in DType::ALL {
            let spec = TensorSpec::new(dtype, [1]);
            let bytes = vec![POISON; spec.size_bytes()];
            let value = Tensor::from_bytes(spec, bytes).get(0);
            assert!(value.is_finite() && value < -1e4, "{dtype}: {value}");
        }
    }

    #[test]
    fn a_host_cannot_shrink_or_write_what_it_may_only_read() {
        let shared = Shared::new(4096, Access::Read).unwrap();
        shared.write(3, b"abc");
        assert_eq!(shared.read(Slot { offset: 3, len: 3 }), b"abc");
        assert!(rustix::fs::ftruncate(shared.fd(), 0).is_err());
        assert!(rustix::fs::ftruncate(shared.fd(), 1 << 20).is_err());
        assert!(rustix::io::pwrite(shared.fd(), b"x", 0).is_err());
        assert!(rustix::fs::fcntl_add_seals(shared.fd(), SealFlags::WRITE).is_err());
    }

    #[test]
    fn a_byte_that_changed_is_noticed_wherever_it_is() {
        let shared = Shared::new(16 << 10, Access::Write).unwrap();
        let bytes: Vec<u8> = (0..9000_u32).map(|i| (i * 7) as u8).collect();
        shared.write(100, &bytes);
        assert!(shared.holds(100, &bytes) && shared.holds(5000, &[]));
        for changed in [0, 4095, 4096, 8999] {
            shared.write(100 + changed, &[bytes[changed] ^ 1]);
            assert!(!shared.holds(100, &bytes), "{changed}");
            shared.write(100 + changed, &bytes[changed..=changed]);
        }
        assert!(shared.holds(100, &bytes));
    }

    #[test]
    fn capacity_doubles_then_steps() {
        assert_eq!(roomy(0), 64 << 10);
        assert_eq!(roomy((64 << 10) + 1), 128 << 10);
        assert_eq!(roomy(65 << 20), 128 << 20);
        assert_eq!(roomy(129 << 20), 192 << 20);
    }

    #[test]
    #[should_panic(expected = "inside the arena")]
    fn reading_past_the_end_is_our_bug() {
        Shared::new(4096, Access::Write).unwrap().peek(4096);
    }
}
