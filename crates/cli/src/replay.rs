//! stub
use crate::arguments::{Common, ReplayOptions};
use crate::exit::{Exit, Failure};
pub fn run(_: &ReplayOptions, _: &Common) -> Result<Exit, Failure> {
    Ok(Exit::Accepted)
}
