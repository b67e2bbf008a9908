//! A layer of attention as models have it, and a cache for it.

use tribunal_kernels::kv_cache::{Config, Format, KvCache};

pub(crate) const HEADS: usize = 32;
pub(crate) const KV_HEADS: usize = 8;
pub(crate) const HEAD_DIM: usize = 128;

/// The format of that name.
pub(crate) fn format(name: &str) -> Format {
    Format::ALL
        .into_iter()
        .find(|format| format.name() == name)
        .unwrap_or_else(|| panic!("{name} is no format"))
}

/// Numbers of the size that keys and queries have.
pub(crate) fn draws(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32
    };
    // Sums of uniform numbers, which are nearly normal, with a variance of one.
    (0..len).map(|_| ((0..4).map(|_| uniform()).sum::<f32>() - 2.0) * 3.0_f32.sqrt()).collect()
}

/// A cache in which every sequence has `max_len` tokens in every layer.
pub(crate) fn filled_cache(config: Config) -> KvCache {
    let Config { layers, sequences, max_len, .. } = config;
    let mut cache = KvCache::new(config).expect("sizes that make a cache");
    let step = 64.min(max_len);
    let k = draws(sequences * KV_HEADS * step * HEAD_DIM, 1);
    let v = draws(sequences * KV_HEADS * step * HEAD_DIM, 2);
    for layer in 0..layers {
        for start in (0..max_len).step_by(step) {
            let lengths = vec![step.min(max_len - start); sequences];
            cache.append(layer, &k, &v, &lengths).expect("there is room");
        }
    }
    cache
}
