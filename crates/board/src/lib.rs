//! Keeps verdicts and shows them.
//!
//! A verdict is shown to a person at a terminal ([`terminal`]), in a repository ([`markdown`]) and in a browser
//! ([`html`]), to programs ([`json`]) and to what builds and tests ([`junit`], [`sarif`]); several are ranked
//! ([`ranking`]), kept ([`Store`]), and a single finding becomes a folder that anybody can run ([`replay`]).
//!
//! Nothing here decides: every number comes from the verdict. Nothing prints: everything is returned. And whatever a
//! submission may have written (names, messages, paths) is defused before it is shown, in [`clean`],
//! [`markdown::escape`] and the templates of [`html`], and nowhere else.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod clean;
pub mod compare;
pub mod document;
mod failures;
pub mod html;
pub mod json;
pub mod junit;
pub mod live;
pub mod markdown;
mod phrases;
pub mod ranking;
pub mod replay;
pub mod sarif;
mod store;
pub mod summary;
mod svg;
pub mod terminal;
mod words;

pub use bundle::Bundle;
pub use store::{Contents, Damaged, Store, StoreError, Taken};
pub use summary::Summary;
pub use terminal::Style;

#[cfg(test)]
mod samples;
