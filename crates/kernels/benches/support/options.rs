//! What the command lines of benchmarks have in common.

/// Numbers with commas between.
pub(crate) fn numbers(list: &str) -> Vec<usize> {
    list.split(',').map(|n| n.parse().expect("a number")).collect()
}
