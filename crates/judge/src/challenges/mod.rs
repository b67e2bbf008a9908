//! The challenges, one folder each.

pub mod layer_norm_backward;

use crate::Challenge;

/// Every challenge.
pub fn all() -> &'static [&'static dyn Challenge] {
    &[&layer_norm_backward::LayerNormBackward]
}

/// The challenge of that id.
pub fn find(id: &str) -> Option<&'static dyn Challenge> {
    all().iter().copied().find(|challenge| challenge.contract().id == id)
}
