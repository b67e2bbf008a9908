//! Addresses: a segment in the upper bits and an offset in the lower, so that no overrun of one buffer reaches another.
//!
//! Within `.shared`, `.local` and `.param`, an address is the offset alone, as a kernel may keep it in 32 bits. A generic address and one in
//! `.global` or `.const` name their segment.

/// Bits of an offset.
pub const OFFSET_BITS: u32 = 40;

/// The segment of shared memory.
pub const SHARED: u32 = 1;
/// The segment of a thread's local memory.
pub const LOCAL: u32 = 2;
/// The segment of the parameters.
pub const PARAM: u32 = 3;
/// The segment of the first variable of the module, in global or constant memory.
pub const VARIABLES: u32 = 0x100;
/// The segment of the first buffer that is given to a launch.
pub const BUFFERS: u32 = 0x1_0000;

/// Where in its segment a buffer begins: what comes before it is in the same segment.
const BEGIN: u64 = 1 << (OFFSET_BITS - 1);

/// The generic address of an offset in a segment.
pub const fn generic(segment: u32, offset: u64) -> u64 {
    ((segment as u64) << OFFSET_BITS).wrapping_add(BEGIN).wrapping_add(offset)
}

/// The segment that an address names.
pub const fn segment(address: u64) -> u32 {
    (address >> OFFSET_BITS) as u32
}

/// The offset from where the segment's buffer begins; huge, as a negative number is, before it.
pub const fn offset(address: u64) -> u64 {
    (address & ((1 << OFFSET_BITS) - 1)).wrapping_sub(BEGIN)
}
