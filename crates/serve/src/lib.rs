//! The board as web pages.
#![forbid(unsafe_code)]
