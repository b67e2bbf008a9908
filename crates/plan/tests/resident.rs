//! The planner's formula against what the system gives to the library's cache. Alone in its process, whose memory it measures.

#![cfg(target_os = "linux")]

use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
use tribunal_plan::{Attention, KvFormat, Model, sequence_bytes};

const BATCH: usize = 3;
const CONTEXT: usize = 1024;

/// What the process has in memory, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident size");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// The system gives out memory as it is written, in huge pages where it has them: up to one more at either end, and as much
/// again for all else.
#[test]
fn a_full_cache_takes_what_the_plan_says_and_an_empty_one_nothing() {
    let model = Model::find("smollm2-135m").expect("known");
    let Attention::Grouped { kv_heads, head_dim, .. } = model.attention else {
        unreachable!("it is grouped")
    };
    let (kv_heads, head_dim, layers) = (kv_heads as usize, head_dim as usize, model.layers.len());
    let rows = vec![1.0; BATCH * kv_heads * CONTEXT * head_dim];
    let margin = 8 << 20;

    let before = resident();
    let config = Config {
        layers,
        sequences: BATCH,
        kv_heads,
        head_dim,
        max_len: CONTEXT,
        format: Format::F32,
        layout: Layout::Contiguous,
    };
    let mut cache = KvCache::new(config).expect("a cache");
    assert!(resident() - before <= margin, "reserved, not taken");
    for layer in 0..layers {
        cache.append(layer, &rows, &rows, &[CONTEXT; BATCH]).expect("there is room");
    }
    let grown = resident() - before;
    let planned = BATCH * sequence_bytes(model, KvFormat::F32, 1, CONTEXT as u64) as usize;
    assert_eq!(cache.nbytes(), planned);
    assert!(planned > 16 * margin);
    assert!(grown.abs_diff(planned) <= margin, "{grown} bytes more are resident, of {planned}");
}
