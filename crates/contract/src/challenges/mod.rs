//! The challenges, one file each.

mod claims;
mod fused_softmax_topk;
mod kv_cache;
mod layer_norm_backward;

pub use fused_softmax_topk::FUSED_SOFTMAX_TOPK;
pub use kv_cache::KV_CACHE;
pub use layer_norm_backward::LAYER_NORM_BACKWARD;

use crate::Challenge;

/// Every challenge.
pub const ALL: &[&Challenge] = &[&LAYER_NORM_BACKWARD, &FUSED_SOFTMAX_TOPK, &KV_CACHE];

/// The challenge of that id.
pub fn find(id: &str) -> Option<&'static Challenge> {
    ALL.iter().copied().find(|challenge| challenge.id == id)
}
