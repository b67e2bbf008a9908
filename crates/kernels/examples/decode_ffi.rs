//! A C ABI for `benches/peers/decode.py`, which times attention over a cache beside other libraries' in one process. Not an
//! interface for anything else.
//!
//! Functions that return a number return 0, or 1 if they were refused.

#[path = "support/ffi.rs"]
mod ffi;
#[path = "support/read_probe.rs"]
mod read_probe;

use std::slice::{from_raw_parts, from_raw_parts_mut};

use ffi::run;
use tribunal_kernels::attention::{Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};

/// A cache without tokens, or null if it was refused. `format` is an index of [`Format::ALL`]; blocks of `block_len`
/// tokens, or one for each sequence if that is 0.
#[unsafe(no_mangle)]
pub extern "C" fn tribunal_cache_new(
    format: usize,
    layers: usize,
    sequences: usize,
    kv_heads: usize,
    head_dim: usize,
    max_len: usize,
    block_len: usize,
) -> *mut KvCache {
    let Some(&format) = Format::ALL.get(format) else { return std::ptr::null_mut() };
    let layout = match block_len {
        0 => Layout::Contiguous,
        _ => Layout::Paged { block_len, blocks: sequences * max_len.div_ceil(block_len) },
    };
    let config = Config { layers, sequences, kv_heads, head_dim, max_len, format, layout };
    KvCache::new(config).map_or(std::ptr::null_mut(), |cache| Box::into_raw(Box::new(cache)))
}

/// # Safety
/// - `cache` is from [`tribunal_cache_new`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_cache_free(cache: *mut KvCache) {
    // SAFETY: it came out of a box, and the caller vouches that it goes back only once.
    drop(unsafe { Box::from_raw(cache) });
}

/// How many bytes the key or the value of one token and head takes; 0 if there is no such format.
#[unsafe(no_mangle)]
pub extern "C" fn tribunal_row_bytes(format: usize, head_dim: usize) -> usize {
    Format::ALL.get(format).map_or(0, |format| format.row_bytes(head_dim))
}

/// Appends the first `valid` of `given` tokens to each sequence.
///
/// # Safety
/// - `cache` is from [`tribunal_cache_new`], and nobody else uses it meanwhile.
/// - `k` and `v` point to `[sequences, kv_heads, given, head_dim]` floats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_append(
    cache: *mut KvCache,
    layer: usize,
    given: usize,
    valid: usize,
    k: *const f32,
    v: *const f32,
) -> i32 {
    // SAFETY: what it points to and that nobody else uses it is what the caller vouches for.
    let cache = unsafe { &mut *cache };
    let Config { sequences, kv_heads, head_dim, .. } = *cache.config();
    let len = sequences * kv_heads * given * head_dim;
    // SAFETY: lengths and lifetime (of this call) are what the caller vouches for.
    let (k, v) = unsafe { (from_raw_parts(k, len), from_raw_parts(v, len)) };
    i32::from(cache.append(layer, k, v, &vec![valid; sequences]).is_err())
}

/// Attention of one token of each sequence, the newest.
///
/// # Safety
/// - `cache` is from [`tribunal_cache_new`], and nobody changes it meanwhile.
/// - `q` and `out` point to `[sequences, heads, head_dim]` floats; `out` overlaps nothing, and nobody else uses it
///   meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tribunal_attend(
    cache: *const KvCache,
    layer: usize,
    heads: usize,
    q: *const f32,
    out: *mut f32,
) -> i32 {
    // SAFETY: what it points to is what the caller vouches for.
    let cache = unsafe { &*cache };
    let Config { sequences, head_dim, .. } = *cache.config();
    let len = sequences * heads * head_dim;
    // SAFETY: lengths, exclusiveness and lifetime (of this call) are what the caller vouches for.
    let (q, out) = unsafe { (from_raw_parts(q, len), from_raw_parts_mut(out, len)) };
    let queries = Queries { heads, q, lengths: &vec![1; sequences] };
    let outputs = Outputs { out, lse: None };
    run(|| attend(cache, layer, queries, outputs, &Options::default()).is_ok())
}
