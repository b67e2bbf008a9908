//! Where things lie in shared memory.
//!
//! Arrays that a kernel itself sizes lie apart here, so that who goes past the end of one does not come to the next; on a GPU they lie side by
//! side. Banks and lines of a cache are what they would be there.

use std::fmt;

use crate::program::LANES;

/// Bytes between two arrays: a multiple of what the 32 banks hold and of any usual alignment.
pub(crate) const GAP: u64 = 1024;

/// Arrays behind which there is a gap.
pub(crate) const GAPS_MAX: usize = 256;

/// An array that the kernel sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Its name in the source.
    pub name: String,
    /// Where it begins.
    pub offset: u32,
    /// How long it is.
    pub bytes: u32,
}

impl Array {
    fn end(&self) -> u32 {
        self.offset + self.bytes
    }
}

/// Shared memory of a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// In the order in which they lie.
    pub arrays: Vec<Array>,
    /// Where what is sized by the launch begins, if there is such.
    pub dynamic: Option<u32>,
    /// Bytes that the arrays take on a GPU, with what aligns them and what comes behind.
    pub bytes: u32,
    /// What lies between them.
    gaps: Vec<Gap>,
}

/// Bytes that belong to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    begin: u64,
    end: u64,
}

impl Gap {
    /// Whether bytes from one to before another lie in it, or some of them.
    #[inline(always)]
    fn touches(&self, begin: u64, end: u64) -> bool {
        begin < self.end && end > self.begin
    }
}

/// A place in shared memory, in words.
#[derive(Debug)]
pub(crate) enum Spot<'l> {
    /// A byte of an array, or behind its end.
    Of(&'l Array, u64),
    /// So many bytes before an array.
    Before(&'l Array, u64),
    /// A byte of what the launch sizes, which begins behind arrays or with all else.
    Dynamic { at: u64, begin: u64 },
}

impl Layout {
    /// One of arrays in the order in which they lie, that take so many bytes on a GPU.
    pub(crate) fn new(arrays: Vec<Array>, dynamic: Option<u32>, bytes: u32) -> Layout {
        let begins = arrays.iter().map(|array| array.offset).chain(dynamic).skip(1);
        let between = arrays
            .iter()
            .zip(begins)
            .map(|(array, begin)| Gap { begin: array.end().into(), end: begin.into() });
        let gaps = between.filter(|gap| gap.begin < gap.end).collect();
        Layout { arrays, dynamic, bytes, gaps }
    }

    /// Bytes from the first to the last, with so many that are sized by the launch.
    pub(crate) fn room(&self, dynamic: u32) -> u32 {
        match self.dynamic {
            Some(begin) => begin + dynamic,
            None => self.arrays.last().map_or(0, Array::end),
        }
    }

    /// Whether some of the bytes from one to before another belong to nothing.
    #[inline(always)]
    pub(crate) fn has_gap_in(&self, begin: u64, end: u64) -> bool {
        self.gaps.iter().any(|gap| gap.touches(begin, end))
    }

    /// The lanes of which so many bytes belong to nothing, or some of them.
    pub(crate) fn in_gaps(&self, offsets: &[u64; LANES], size: u64) -> u32 {
        let mut lanes = 0;
        for gap in &self.gaps {
            for (lane, &offset) in offsets.iter().enumerate() {
                lanes |= u32::from(gap.touches(offset, offset.wrapping_add(size))) << lane;
            }
        }
        lanes
    }

    pub(crate) fn spot(&self, at: u64) -> Spot<'_> {
        if let Some(begin) = self.dynamic.map(u64::from).filter(|begin| *begin <= at) {
            return Spot::Dynamic { at: at - begin, begin };
        }
        let behind = self.arrays.partition_point(|array| u64::from(array.offset) <= at);
        let Some(before) = behind.checked_sub(1).map(|index| &self.arrays[index]) else {
            return Spot::Dynamic { at, begin: 0 };
        };
        match self.arrays.get(behind) {
            Some(next) if u64::from(next.offset) - at < at.saturating_sub(before.end().into()) => {
                Spot::Before(next, u64::from(next.offset) - at)
            }
            _ => Spot::Of(before, at - u64::from(before.offset)),
        }
    }
}

impl Spot<'_> {
    /// The same, and how long that is, where it is gone past or may be, in a block with so much room.
    pub(crate) fn with_length(&self, room: u64) -> String {
        match self {
            Spot::Of(Array { bytes, .. }, _) | Spot::Before(Array { bytes, .. }, _) => {
                format!("{self}, which has {bytes}")
            }
            Spot::Dynamic { begin, .. } => format!("{self}, which has {}", room - begin),
        }
    }
}

impl fmt::Display for Spot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Of(Array { name, .. }, at) => write!(f, "byte {at} of `{name}`"),
            Spot::Before(Array { name, .. }, by) => write!(f, "byte -{by} of `{name}`"),
            Spot::Dynamic { at, begin: 0 } => write!(f, "byte {at} of shared memory"),
            Spot::Dynamic { at, .. } => write!(f, "byte {at} of dynamic shared memory"),
        }
    }
}
