//! How outputs are written: through the caches or past them.
//!
//! A plain store first reads the cache line it is about to overwrite. A streaming (non-temporal) store does not, which
//! saves a third of the traffic of a copy; but its data goes to memory even where it would have fitted into a cache,
//! and whoever reads it next waits for it. So the choice goes by size, see [`streaming_threshold_bytes`].

use std::sync::OnceLock;

/// How a kernel writes its large outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// Streaming from [`streaming_threshold_bytes`] upward, cached below.
    #[default]
    Auto,
    /// Plain stores, whatever the size.
    Cached,
    /// Streaming stores, whatever the size, where the instruction set has them (AVX2, AVX-512).
    Streaming,
}

impl Stores {
    /// Whether an output of `output_bytes` is to be streamed.
    pub(crate) fn streams(self, output_bytes: usize) -> bool {
        match self {
            Stores::Auto => output_bytes >= streaming_threshold_bytes(),
            Stores::Cached => false,
            Stores::Streaming => true,
        }
    }
}

/// The output size from which [`Stores::Auto`] streams.
pub fn streaming_threshold_bytes() -> usize {
    static THRESHOLD: OnceLock<usize> = OnceLock::new();
    *THRESHOLD.get_or_init(|| 8 << 20)
}
