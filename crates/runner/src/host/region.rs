//! The memory in which a native submission gets its inputs.
//!
//! The elements of one call lie in one mapping, which the judge shares; tensors, shapes and strides in another. When the call is over both are
//! emptied and made inaccessible, so that a pointer kept without leave ends in a crash that names
//! its cause, not in a wrong answer that depends on luck.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use super::crash;
use crate::arena::PAGE_BYTES;

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
/// No call pays for the first touch of a page.
const POPULATE: MapFlags = MapFlags::POPULATE;

/// Inaccessible regions that are kept so that their addresses are not given out again. Address space, no memory.
const RETIRED_MAX: usize = 16;
const RETIRED_BYTES_MAX: usize = 64 << 20;

/// Writable memory.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<c_void>,
    len: usize,
    watch: Option<usize>,
}

impl Region {
    /// Zeroed private memory of `len` bytes.
    pub(super) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE_BYTES);
        // SAFETY: the address is chosen by the kernel, so no existing mapping is touched.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, READ_WRITE, MapFlags::PRIVATE | POPULATE)
        }?;
        Ok(Self::watched(base, len))
    }

    /// The `len` bytes of a file, a multiple of pages.
    pub(super) fn shared(file: &OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: as above; the file has `len` bytes and is sealed against shrinking.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, READ_WRITE, MapFlags::SHARED | POPULATE, file, 0)
        }?;
        Ok(Self::watched(base, len))
    }

    fn watched(base: *mut c_void, len: usize) -> Self {
        let base = NonNull::new(base).expect("a mapping is not at address 0");
        Self { base, len, watch: crash::watch(base.as_ptr() as usize, len) }
    }

    /// Address of byte `offset`.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len, "an address inside the region");
        // SAFETY: `offset` is at most `len`: inside the mapping or one past its end.
        unsafe { self.base.as_ptr().cast::<u8>().add(offset) }
    }

    /// Gives the pages back and keeps the addresses, which from now on hold nothing.
    fn close(&self) {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: the addresses are ours, and nothing of this program refers to them any more. If it fails, the old mapping stays or nothing does.
        let _ =
            unsafe { rustix::mm::mmap_anonymous(self.base.as_ptr(), self.len, ProtFlags::empty(), flags) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if let Some(watch) = self.watch {
            crash::unwatch(watch);
        }
        // SAFETY: the mapping was made with these bounds and this value is its only owner.
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
