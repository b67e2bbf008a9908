//! CPU kernels for the building blocks of language models, fast enough to be the bar others are measured against.
//!
//! Each system has a module of its own; the first is [`layer_norm`]. What they share:
//!
//! - **Safe functions over slices.** Shapes are checked once, at the boundary; on an error no buffer is touched.
//! - **The instruction set is found at run time.** One algorithm, written over a small vector trait, is
//!   instantiated for AVX-512, AVX2 with FMA, NEON and portable code. [`Isa`] names them, and every entry point
//!   takes one by name, so that a test can force each in turn.
//! - **Results do not depend on the number of threads.** Work is cut into blocks whose size follows from the shape
//!   alone, and partial sums are added in block order. They do depend on the [`Isa`], and
//!   attention's on what else the CPU has (VNNI, data paths of 512 bits): lanes add in another order.
//! - **Threads come from the current rayon pool.** `ThreadPool::install` chooses how many. Calls of a fraction of a millisecond
//!   want a pool that their thread belongs to (`ThreadPoolBuilder::use_current_thread`), or wait for another to wake up. From other
//!   threads such a pool has one thread less, which may leave none.
//! - **Kernels are compiled here, once for each type.** What is generic over it checks arguments, and hands them to a function
//!   of a sealed trait that is not; otherwise every crate that calls a kernel would compile all of it again.
//! - **Results go to the caller's buffers.** Fresh pages for every output cost more than the arithmetic.
//! - **Each system is a feature**, on unless one asks for fewer: `attention` (with the KV cache and rotary embeddings),
//!   `layer_norm`, and `softmax_topk` (with sampling).
//!
//! # Example
//!
//! ```
//! use tribunal_kernels::layer_norm::{self, ForwardInputs, ForwardOptions, ForwardOutputs, Shape};
//!
//! let shape = Shape { rows: 2, cols: 4 };
//! let x = [1.0_f32, 2.0, 3.0, 4.0, 10.0, 10.0, 10.0, 10.0];
//! let (gamma, beta) = ([1.0; 4], [0.5; 4]);
//! let (mut y, mut mean, mut rstd) = ([0.0; 8], [0.0; 2], [0.0; 2]);
//! layer_norm::forward(
//!     shape,
//!     ForwardInputs { x: &x, gamma: &gamma, beta: &beta },
//!     ForwardOutputs { y: &mut y, mean: &mut mean, rstd: &mut rstd },
//!     &ForwardOptions { eps: 1e-5, ..Default::default() },
//! )?;
//! assert_eq!(mean, [2.5, 10.0]);
//! assert_eq!(y[4..], [0.5; 4]); // a constant row gives beta
//! # Ok::<(), tribunal_kernels::layer_norm::LayerNormError>(())
//! ```
//!
//! # Pitfalls
//!
//! - `mean` and `rstd` have the type of the arithmetic, not of the data: f32 for bf16.
//! - Outputs larger than [`stores::STREAMING_THRESHOLD_BYTES`] bypass the caches. Where the next step reads them at
//!   once and they would have fitted, ask for [`Stores::Cached`].

#![cfg_attr(
    not(all(feature = "attention", feature = "layer_norm", feature = "softmax_topk")),
    allow(unused, reason = "vector operations that only a system that is left out needs")
)]

#[cfg(feature = "attention")]
pub mod attention;
mod element;
#[cfg(feature = "layer_norm")]
pub mod gradient_check;
mod isa;
#[cfg(feature = "attention")]
pub mod kv_cache;
#[cfg(feature = "layer_norm")]
pub mod layer_norm;
#[cfg(feature = "attention")]
pub mod rope;
#[cfg(feature = "softmax_topk")]
pub mod sampling;
mod simd;
#[cfg(feature = "softmax_topk")]
pub mod softmax_topk;
pub mod stores;

pub use element::{Accumulator, Element};
pub use half::{bf16, f16};
pub use isa::{Isa, UnknownIsa};
pub use stores::Stores;
