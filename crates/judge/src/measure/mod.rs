//! Numbers with intervals: time, memory, and the ceilings they are held against.

mod ceilings;
mod memory;
mod statistics;
mod time;

pub use ceilings::{Ceilings, Rate, bandwidth};
pub use memory::{Kept, Weighed, kept_bytes, peak_bytes, scratch_bytes};
pub use statistics::{Estimate, growth, median, quantile, ratio_over_restarts};
pub use time::{Extent, Rough, Timed, time, time_roughly};
