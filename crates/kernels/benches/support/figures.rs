//! Times, and what is said of them.

use std::time::Instant;

/// How long `work` takes, in seconds.
pub(crate) fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

/// The smallest.
pub(crate) fn min(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The upper median.
pub(crate) fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Writes what was measured as JSON. A relative path starts at the workspace's root, wherever cargo runs the benchmark.
pub(crate) fn write_record(path: &str, records: Vec<serde_json::Value>) {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    let text = serde_json::Value::from(records).to_string();
    std::fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
