//! How outputs are written: through the caches or past them.
//!
//! A plain store first reads the cache line it is about to overwrite. A streaming (non-temporal) store does not, which
//! saves a third of the traffic of a copy; but its data goes to memory even where it would have fitted into a cache,
//! and whoever reads it next waits for it. So the choice goes by size.
//!
//! Measured for layer norm forward, f32, on a Sapphire Rapids (2 cores of a virtual machine that is told of 260 MB of shared
//! L3), time with cached stores by time with streaming ones, one thread and two:
//!
//! | output | tensors come from memory | tensors in L3, output read back at once |
//! |---|--:|--:|
//! | 1 MiB | 0.7 to 1.0 | 0.4 |
//! | 2 MiB | 1.1 to 1.4 | 0.5 to 0.7 |
//! | 8 MiB | 1.2 to 1.4 | 0.7 |
//! | 32 MiB | 1.3 to 1.9 | 0.7 to 0.8 |
//! | 128 MiB | 1.9 to 2.0 | 1.4 to 1.8 |
//!
//! Between a few L2 caches and the whole of L3 it depends on what the caller does next, which a kernel cannot see. Activations
//! of that size are mostly one of many, and read much later, in the backward pass; so [`Stores::Auto`] streams them. Who reads
//! them at once asks for [`Stores::Cached`].

/// How a kernel writes its large outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// Streaming from [`STREAMING_THRESHOLD_BYTES`] upward, cached below.
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
            Stores::Auto => output_bytes >= STREAMING_THRESHOLD_BYTES,
            Stores::Cached => false,
            Stores::Streaming => true,
        }
    }
}

/// The output size from which [`Stores::Auto`] streams: 8 MiB, a quarter of an ordinary L3 and some times the L2 of the cores at
/// work. Not a share of the L3 that the system reports: on servers that cache has other users, whom nobody can see.
pub const STREAMING_THRESHOLD_BYTES: usize = 8 << 20;
