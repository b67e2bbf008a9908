//! The bytes of all blocks, and where in them what is.

use std::fmt;
use std::ops::Range;

use super::format::{Format, Row, RowMut};
use crate::simd::LANES_MAX;

/// What a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plane {
    Keys,
    Values,
}

/// How many tokens a tile has: as many as the widest vector has lanes.
pub(crate) const TILE: usize = LANES_MAX;

/// Where things are: `[layer][block][kv_head][tile]`. A tile has the keys of its tokens, then their values, both as
/// [`Format`] says, and then the scales of both, if there are any. The last tile of a block may have room to spare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_len: usize,
    pub(crate) scale_bytes: usize,
    /// Keys or values of a tile.
    pub(crate) plane_bytes: usize,
    pub(crate) tile_bytes: usize,
    /// Keys and values of one head in one block.
    head_bytes: usize,
    /// Those of all heads in one block, of one layer.
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
        let scale_bytes = format.scale_bytes();
        let plane_bytes = format.checked_row_bytes(head_dim)?.checked_mul(TILE)?;
        let tile_bytes = plane_bytes.checked_mul(2)?.checked_add(2 * TILE * scale_bytes)?;
        debug_assert!(plane_bytes.is_multiple_of(LINE) && tile_bytes.is_multiple_of(LINE));
        let head_bytes = block_len.div_ceil(TILE).checked_mul(tile_bytes)?;
        let block_bytes = head_bytes.checked_mul(kv_heads)?;
        let layer_bytes = block_bytes.checked_mul(blocks)?;
        let nbytes = layer_bytes.checked_mul(layers)?;
        // What a slice may have, less what aligning it takes.
        (nbytes <= isize::MAX as usize - HUGE_PAGE).then_some(Geometry {
            block_len,
            scale_bytes,
            plane_bytes,
            tile_bytes,
            head_bytes,
            block_bytes,
            layer_bytes,
            nbytes,
        })
    }

    pub(super) fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// The tiles of one head in one block.
    fn head(&self, layer: usize, block: u32, head: usize) -> Range<usize> {
        let start = layer * self.layer_bytes + block as usize * self.block_bytes + head * self.head_bytes;
        start..start + self.head_bytes
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

    /// The tiles of one head in one block.
    pub(super) fn head(&self, layer: usize, block: u32, head: usize) -> &[u8] {
        &self.memory[self.start..][self.geometry.head(layer, block, head)]
    }

    pub(super) fn row(&self, layer: usize, block: u32, head: usize, plane: Plane, slot: usize) -> Row<'_> {
        let Geometry { scale_bytes, plane_bytes, tile_bytes, .. } = self.geometry;
        let (tile, slot) = (slot / TILE, slot % TILE);
        let tile = &self.head(layer, block, head)[tile * tile_bytes..(tile + 1) * tile_bytes];
        let (planes, scales) = tile.split_at(2 * plane_bytes);
        let scale = (plane as usize * TILE + slot) * scale_bytes;
        Row {
            codes: &planes[plane as usize * plane_bytes..][..plane_bytes],
            slot,
            scale: &scales[scale..scale + scale_bytes],
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
        let Geometry { scale_bytes, plane_bytes, tile_bytes, .. } = self.geometry;
        let (tile, slot) = (slot / TILE, slot % TILE);
        let head = &mut self.memory[self.start..][self.geometry.head(layer, block, head)];
        let (planes, scales) = head[tile * tile_bytes..(tile + 1) * tile_bytes].split_at_mut(2 * plane_bytes);
        let scale = (plane as usize * TILE + slot) * scale_bytes;
        RowMut {
            codes: &mut planes[plane as usize * plane_bytes..][..plane_bytes],
            slot,
            scale: &mut scales[scale..scale + scale_bytes],
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
