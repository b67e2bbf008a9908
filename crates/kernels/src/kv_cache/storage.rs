//! The bytes of all blocks, and where in them what is.

use std::fmt;

use super::format::{Format, Row, RowMut};

/// What a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plane {
    Keys,
    Values,
}

/// Where things are: `[layer][block][kv_head][plane]`, and in a plane first all rows and then all scales.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_len: usize,
    pub(crate) row_bytes: usize,
    pub(crate) scale_bytes: usize,
    /// Keys or values of one head in one block.
    pub(crate) plane_bytes: usize,
    /// Keys and values of all heads in one block, of one layer.
    block_bytes: usize,
    /// All blocks of one layer.
    layer_bytes: usize,
    nbytes: usize,
}

/// A cache line; planes begin at one.
const LINE: usize = 64;

const HUGE_PAGE: usize = 2 << 20;

impl Geometry {
    /// `None` if there are too many bytes to count.
    pub(super) fn new(
        format: Format,
        layers: usize,
        blocks: usize,
        kv_heads: usize,
        block_len: usize,
        head_dim: usize,
    ) -> Option<Geometry> {
        let row_bytes = format.checked_row_bytes(head_dim)?;
        let scale_bytes = format.scale_bytes();
        let plane_bytes =
            block_len.checked_mul(row_bytes.checked_add(scale_bytes)?)?.checked_next_multiple_of(LINE)?;
        let block_bytes = plane_bytes.checked_mul(2)?.checked_mul(kv_heads)?;
        let layer_bytes = block_bytes.checked_mul(blocks)?;
        let nbytes = layer_bytes.checked_mul(layers)?;
        // What a slice may have, less what aligning it takes.
        (nbytes <= isize::MAX as usize - HUGE_PAGE).then_some(Geometry {
            block_len,
            row_bytes,
            scale_bytes,
            plane_bytes,
            block_bytes,
            layer_bytes,
            nbytes,
        })
    }

    pub(super) fn nbytes(&self) -> usize {
        self.nbytes
    }

    fn plane(&self, layer: usize, block: u32, head: usize, plane: Plane) -> usize {
        layer * self.layer_bytes
            + block as usize * self.block_bytes
            + (2 * head + plane as usize) * self.plane_bytes
    }
}

/// Zeroed memory, at the start of a huge page if it is large.
pub(super) struct Storage {
    geometry: Geometry,
    memory: Vec<u8>,
    /// Where in `memory` the storage begins.
    start: usize,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl Storage {
    pub(super) fn new(geometry: Geometry) -> Storage {
        let align = if geometry.nbytes >= HUGE_PAGE { HUGE_PAGE } else { LINE };
        // Zeroed by the system where it is large, so that pages are not touched before the advice below.
        let memory = vec![0_u8; geometry.nbytes + align];
        let start = memory.as_ptr().align_offset(align);
        #[cfg(target_os = "linux")]
        if align == HUGE_PAGE {
            let len = geometry.nbytes / HUGE_PAGE * HUGE_PAGE;
            // SAFETY: the range lies in memory that has just been allocated; the advice does not change what it holds. If it is
            // refused, pages stay small.
            unsafe { libc::madvise(memory.as_ptr().add(start).cast_mut().cast(), len, libc::MADV_HUGEPAGE) };
        }
        Storage { geometry, memory, start }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Both planes of a head.
    pub(super) fn head(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        let at = self.start + self.geometry.plane(layer, block, head, Plane::Keys);
        &self.memory[at..at + 2 * self.geometry.plane_bytes]
    }

    pub(super) fn row(&self, layer: usize, block: u32, head: usize, plane: Plane, slot: usize) -> Row<'_> {
        let Geometry { block_len, row_bytes, scale_bytes, plane_bytes, .. } = self.geometry;
        let at = self.start + self.geometry.plane(layer, block, head, plane);
        let (rows, scales) = self.memory[at..at + plane_bytes].split_at(block_len * row_bytes);
        Row {
            codes: &rows[slot * row_bytes..(slot + 1) * row_bytes],
            scale: &scales[slot * scale_bytes..(slot + 1) * scale_bytes],
        }
    }

    pub(super) fn row_mut(
        &mut self,
        layer: usize,
        block: u32,
        head: usize,
        plane: Plane,
        slot: usize,
    ) -> RowMut<'_> {
        let Geometry { block_len, row_bytes, scale_bytes, plane_bytes, .. } = self.geometry;
        let at = self.start + self.geometry.plane(layer, block, head, plane);
        let (rows, scales) = self.memory[at..at + plane_bytes].split_at_mut(block_len * row_bytes);
        RowMut {
            codes: &mut rows[slot * row_bytes..(slot + 1) * row_bytes],
            scale: &mut scales[slot * scale_bytes..(slot + 1) * scale_bytes],
        }
    }

    /// Copies a block in all layers.
    pub(super) fn copy_block(&mut self, from: u32, to: u32) {
        let Geometry { block_bytes, layer_bytes, nbytes, .. } = self.geometry;
        let storage = &mut self.memory[self.start..self.start + nbytes];
        for layer in storage.chunks_exact_mut(layer_bytes) {
            let from = from as usize * block_bytes;
            layer.copy_within(from..from + block_bytes, to as usize * block_bytes);
        }
    }
}
