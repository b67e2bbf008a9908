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

/// How many tokens a strip has: as many as the widest vector has lanes.
pub(crate) const STRIP: usize = LANES_MAX;

/// Where things are: `[layer][block][kv_head][tile]`. A tile has a few strips, see [`Format::tile_strips`]; the last tile of a block
/// has fewer where no more are left, and the last strip may have room to spare. A tile has the keys of its strips, then their values, both
/// as [`Format`] says, and then the scales of keys and of values, if there are any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) block_len: usize,
    /// How many strips a block has.
    pub(crate) block_strips: usize,
    tile_strips: usize,
    scale_bytes: usize,
    /// Keys or values of a strip.
    pub(crate) plane_bytes: usize,
    /// All of a strip.
    pub(crate) strip_bytes: usize,
    /// Keys and values of one head in one block.
    head_bytes: usize,
    /// Those of all heads in one block, of one layer.
    block_bytes: usize,
    /// All blocks of one layer.
    layer_bytes: usize,
    nbytes: usize,
}

/// Where the rows of a strip are, in bytes from the first tile on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// Its keys.
    pub(crate) keys: usize,
    /// The values of its tile.
    pub(crate) values: usize,
    /// The scales of its keys and of its values.
    pub(crate) scales: [usize; 2],
    /// How many strips its tile has.
    pub(crate) of: usize,
    /// Which of these it is.
    pub(crate) number: usize,
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
        let plane_bytes = format.checked_row_bytes(head_dim)?.checked_mul(STRIP)?;
        let strip_bytes = plane_bytes.checked_mul(2)?.checked_add(2 * STRIP * scale_bytes)?;
        debug_assert!(plane_bytes.is_multiple_of(LINE) && strip_bytes.is_multiple_of(LINE));
        let block_strips = block_len.div_ceil(STRIP);
        let head_bytes = block_strips.checked_mul(strip_bytes)?;
        let block_bytes = head_bytes.checked_mul(kv_heads)?;
        let layer_bytes = block_bytes.checked_mul(blocks)?;
        let nbytes = layer_bytes.checked_mul(layers)?;
        // What a slice may have, less what aligning it takes.
        (nbytes <= isize::MAX as usize - HUGE_PAGE).then_some(Geometry {
            block_len,
            block_strips,
            tile_strips: format.tile_strips(),
            scale_bytes,
            plane_bytes,
            strip_bytes,
            head_bytes,
            block_bytes,
            layer_bytes,
            nbytes,
        })
    }

    pub(super) fn nbytes(&self) -> usize {
        self.nbytes
    }

    /// Where a strip is, among the tiles of a head in a block.
    #[inline(always)]
    pub(crate) fn strip(&self, strip: usize) -> Strip {
        let first = strip / self.tile_strips * self.tile_strips;
        let (of, number) = (self.tile_strips.min(self.block_strips - first), strip - first);
        let keys = first * self.strip_bytes;
        let values = keys + of * self.plane_bytes;
        let scales = values + of * self.plane_bytes;
        let scale = |plane: usize| scales + (plane * of + number) * STRIP * self.scale_bytes;
        Strip { keys: keys + number * self.plane_bytes, values, scales: [scale(0), scale(1)], of, number }
    }

    /// Of a row of one head in one block, where the codes of its plane and its scale are, in bytes; which of the plane's tokens it is, and
    /// of how many.
    fn row(&self, plane: Plane, slot: usize) -> (Range<usize>, Range<usize>, usize, usize) {
        let strip = self.strip(slot / STRIP);
        let slot = slot % STRIP;
        let (codes, scale, place, tokens) = match plane {
            Plane::Keys => (strip.keys..strip.keys + self.plane_bytes, strip.scales[0], slot, STRIP),
            Plane::Values => (
                strip.values..strip.values + strip.of * self.plane_bytes,
                strip.scales[1],
                strip.number * STRIP + slot,
                strip.of * STRIP,
            ),
        };
        let scale = scale + slot * self.scale_bytes;
        (codes, scale..scale + self.scale_bytes, place, tokens)
    }

    /// The tiles of each head in one block.
    pub(super) fn heads_mut<'a>(&self, block: &'a mut [u8]) -> impl Iterator<Item = &'a mut [u8]> + use<'a> {
        block.chunks_exact_mut(self.head_bytes)
    }

    /// A row of one head in one block, of whose tiles it is.
    pub(super) fn row_mut<'a>(&self, tiles: &'a mut [u8], plane: Plane, slot: usize) -> RowMut<'a> {
        let (codes, scale, slot, tokens) = self.row(plane, slot);
        // Scales are behind codes.
        let (codes_half, scales) = tiles.split_at_mut(scale.start);
        RowMut { codes: &mut codes_half[codes], scale: &mut scales[..scale.len()], slot, tokens }
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
        let (codes, scale, slot, tokens) = self.geometry.row(plane, slot);
        let head = self.head(layer, block, head);
        Row { codes: &head[codes], scale: &head[scale], slot, tokens }
    }

    /// Blocks of a layer, each named once and in ascending order, and where in them what is.
    pub(super) fn blocks_mut(
        &mut self,
        layer: usize,
        blocks: impl Iterator<Item = u32>,
    ) -> (&Geometry, impl Iterator<Item = &mut [u8]>) {
        let Geometry { layer_bytes, block_bytes, .. } = self.geometry;
        let mut rest = &mut self.memory[self.start + layer * layer_bytes..][..layer_bytes];
        let mut skipped = 0;
        let blocks = blocks.map(move |block| {
            let start = block as usize * block_bytes - skipped;
            skipped += start + block_bytes;
            let until = rest.split_off_mut(..start + block_bytes).expect("it lies in the layer");
            &mut until[start..]
        });
        (&self.geometry, blocks)
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
