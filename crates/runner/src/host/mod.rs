//! The programs inside the cage: they load a submission and call it.
//!
//! Once the submission is loaded, all of its host belongs to it. What a host says is therefore never evidence.

mod crash;
mod gpu;
mod native;
mod region;

use std::ffi::OsStr;

/// The first argument of a native host.
pub(crate) const NATIVE: &str = "__tribunal-host";

/// The first argument of the host of a GPU's driver.
pub(crate) const GPU: &str = "__tribunal-gpu";

/// The Python host: the whole program.
pub(crate) const PYTHON: &str = include_str!("host.py");

/// Becomes a host if this process was started as one; returns at once otherwise.
pub(crate) fn enter_if_host() {
    match std::env::args_os().nth(1) {
        Some(word) if word == OsStr::new(NATIVE) => native::serve(),
        Some(word) if word == OsStr::new(GPU) => gpu::serve(),
        _ => {}
    }
}
