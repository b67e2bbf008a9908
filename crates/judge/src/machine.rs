//! The machine that judges, as far as it matters to a verdict.

use std::fs;

use tribunal_runner::cage::Applied;

use crate::evidence::Machine;

/// This machine, and the cage that held on it.
pub(crate) fn here(applied: Option<&Applied>) -> Machine {
    let line = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().find_map(|line| {
            line.strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim).map(str::to_owned)
        })
    };
    let memory_kib =
        line("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    Machine {
        cpu: line("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory_kib.unwrap_or(0) * 1024,
        gpu: None,
        cage: applied.map_or_else(String::new, |applied| {
            let layers: Vec<String> =
                applied.layers.iter().filter(|state| state.on).map(|state| state.layer.to_string()).collect();
            format!("tier {}: {}", applied.tier, layers.join(", "))
        }),
    }
}
