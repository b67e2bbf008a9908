//! The bar in CUDA, `crates/kernels/cuda`, against definitions in f64: in every order of threads, without a fault, with the same bits, and
//! with the traffic that the kernels' headers promise. And counts of the meters against counts by hand.

mod committed;
mod device;
mod hand_counts;
mod layer_norm;
mod oracle;
mod paged_decode;
mod softmax_topk;
