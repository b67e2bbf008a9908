//! The programs inside the cage: they load a submission and call it.
//!
//! Once the submission is loaded, all of its host belongs to it. What a host says is therefore never evidence.

mod crash;
mod native;
mod region;

use std::ffi::OsStr;

/// The first argument of a native host.
pub(crate) const NATIVE: &str = "__tribunal-host";

/// The Python host: the whole program.
pub(crate) const PYTHON: &str = include_str!("host.py");

/// Becomes the native host if this process was started as one; returns at once otherwise.
pub(crate) fn enter_if_host() {
    if std::env::args_os().nth(1).is_some_and(|word| word == OsStr::new(NATIVE)) {
        native::serve();
    }
}
