//! What both sides agree on.
//!
//! A [`Challenge`] describes its [`Operation`]s once. From that description come the C header, the
//! stubs and starters for every language ([`emit`]) and the page a contestant reads, so they cannot drift apart.
//! [`Manifest`] is a submission's `tribunal.toml`, [`launch`] the part of it that says how CUDA kernels are started. [`Tensor`] is an array as the judge keeps it,
//! [`abi`] the same array as a C caller sees it.
//!
//! Nothing here reads a file, starts a process or prints.

#![forbid(unsafe_code)]

pub mod abi;
mod call;
mod challenge;
pub mod challenges;
mod claim;
mod dtype;
pub mod emit;
pub mod launch;
mod manifest;
mod tensor;

pub use call::{Answer, Argument, Call, Fault, StateId};
pub use challenge::{Capability, Challenge, Field, Kind, Operation};
pub use claim::{Claim, Claimed, Takes};
pub use dtype::DType;
pub use manifest::{FrontEnd, Language, Manifest, ManifestError};
pub use tensor::{Tensor, TensorSpec};
