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

/// Whether anybody but this thread runs or waits for a processor of this machine, as the kernel sees it at this moment. Where it does not
/// tell, nobody does.
pub(crate) fn others_run() -> bool {
    std::fs::read_to_string("/proc/loadavg")
        .is_ok_and(|text| runnable(&text).is_some_and(|running| running > 1))
}

/// The fourth word is `running/all`; who reads it is among the running.
fn runnable(loadavg: &str) -> Option<usize> {
    loadavg.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_are_counted() {
        assert_eq!(runnable("15.35 8.58 4.86 3/82 15462\n"), Some(3));
        assert_eq!(runnable("nonsense"), None);
    }

    #[test]
    fn who_computes_beside_is_seen() {
        let done = std::sync::atomic::AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let seen = (0..1000).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                others_run()
            });
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        assert!(seen || !std::path::Path::new("/proc/loadavg").exists());
    }
}
