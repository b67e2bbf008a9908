//! What the two passes share in taking sums along a row.

/// How many columns are summed in vectors of the arithmetic's own type before the sum moves on to f64.
///
/// At 2048 a lane of 16 adds 32 values when four accumulators share the work, so the rounding of a row of a million
/// elements is that of a few dozen additions; and a horizontal sum every 2048 columns costs nothing measurable.
pub(super) const COLUMN_TILE: usize = 2048;

/// The loop over column tiles, as ranges of column indices.
#[inline(always)]
pub(super) fn column_tiles(cols: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..cols.div_ceil(COLUMN_TILE)).map(move |tile| (tile * COLUMN_TILE, cols.min((tile + 1) * COLUMN_TILE)))
}
