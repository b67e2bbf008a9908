//! The private memory in which a native submission gets its inputs.
//!
//! Everything of one call lies in one mapping: tensors, shapes, strides and elements. When the call is over it is
//! emptied and made inaccessible, so that a pointer kept without leave ends in a crash that names
//! its cause, not in a wrong answer that depends on luck.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use super::crash;

/// Inaccessible regions that are kept so that their addresses are not given out again. Address space, no memory.
const RETIRED_MAX: usize = 16;
const RETIRED_BYTES_MAX: usize = 64 << 20;

/// Private writable memory.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<c_void>,
    len: usize,
    watch: Option<usize>,
}

impl Region {
    /// Zeroed memory of `len` bytes, already populated: no call pays for the first touch of a page.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(4096);
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: the address is chosen by the kernel, so no existing mapping is touched.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
        }?;
        let base = NonNull::new(base).expect("a mapping is not at address 0");
        let watch = crash::watch(base.as_ptr() as usize, len);
        Ok(Self { base, len, watch })
    }

    /// Address of byte `offset`.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "an address inside the region");
        // SAFETY: `offset` is at most `len`: inside the mapping or one past its end.
        unsafe { self.base.as_ptr().cast::<u8>().add(offset) }
    }

    /// Gives the pages back and keeps the addresses, which from now on hold nothing.
    fn close(&self) {
        // SAFETY: the mapping is ours, and nothing of this program refers to it any more. After the first call it reads
        // as zeros, so that even where the second fails nothing of the inputs is left.
        unsafe {
            let _ = rustix::mm::madvise(self.base.as_ptr(), self.len, rustix::mm::Advice::LinuxDontNeed);
            let _ = rustix::mm::mprotect(self.base.as_ptr(), self.len, MprotectFlags::empty());
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            crash::unwatch(watch);
        }
        // SAFETY: the mapping was made by `new` with these bounds and this value is its only owner.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.len) };
    }
}

/// Regions whose time is over.
#[derive(Debug, Default)]
pub(super) struct Retired {
    regions: VecDeque<Region>,
    bytes: usize,
}

impl Retired {
    pub(super) fn take(&mut self, region: Region) {
        region.close();
        self.bytes += region.len;
        self.regions.push_back(region);
        while self.bytes > RETIRED_BYTES_MAX || self.regions.len() > RETIRED_MAX {
            let Some(oldest) = self.regions.pop_front() else { break };
            self.bytes -= oldest.len;
        }
    }
}
