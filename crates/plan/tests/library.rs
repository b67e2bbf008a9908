//! The planner's formulas against what the library's cache reserves; `resident.rs` has what it takes.

use std::alloc::{GlobalAlloc, Layout as Piece, System};
use std::cell::Cell;

use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
use tribunal_plan::{Attention, Device, KvFormat, Model, Plan, Settings, sequence_bytes};

/// Counts what each thread asks for, so that tests beside one another do not meet.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all that is asked of an allocator is done by the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, piece: Piece) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + piece.size());
        // SAFETY: the caller vouches for the same.
        unsafe { System.alloc(piece) }
    }

    unsafe fn alloc_zeroed(&self, piece: Piece) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + piece.size());
        // SAFETY: the caller vouches for the same.
        unsafe { System.alloc_zeroed(piece) }
    }

    unsafe fn dealloc(&self, at: *mut u8, piece: Piece) {
        // SAFETY: the caller vouches for the same.
        unsafe { System.dealloc(at, piece) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const FORMATS: [(KvFormat, Format); 5] = [
    (KvFormat::F32, Format::F32),
    (KvFormat::F16, Format::F16),
    (KvFormat::Bf16, Format::Bf16),
    (KvFormat::Int8, Format::Int8),
    (KvFormat::Int4, Format::Int4),
];

/// Heads of 64 and of 128, each shared by one to eight heads of queries; none attends to a window, which the library's cache does not know.
const MODELS: [&str; 6] =
    ["llama-2-7b", "llama-3-8b", "llama-3-70b", "qwen3-0.6b", "smollm2-135m", "smollm2-1.7b"];

const BATCH: usize = 3;

/// `kv_heads` and `head_dim` of a model that is known.
fn heads(model: &Model) -> (usize, usize) {
    match model.attention {
        Attention::Grouped { kv_heads, head_dim, .. } => (kv_heads as usize, head_dim as usize),
        Attention::Latent { .. } => unreachable!("no model here compresses its cache"),
    }
}

fn cache(model: &Model, format: Format, max_len: usize, layout: Layout) -> KvCache {
    let (kv_heads, head_dim) = heads(model);
    let layers = model.layers.len();
    KvCache::new(Config { layers, sequences: BATCH, kv_heads, head_dim, max_len, format, layout })
        .expect("a cache")
}

/// What the planner says of one sequence. The library has one scale for each head, so a group is a head.
fn planned(model: &Model, format: KvFormat, tokens: usize) -> usize {
    let (_, head_dim) = heads(model);
    sequence_bytes(model, format, head_dim as u64, tokens as u64) as usize
}

/// The library fills blocks up to a multiple of 16 tokens.
fn filled(tokens: usize) -> usize {
    tokens.next_multiple_of(16)
}

/// To the byte.
#[test]
fn plans_are_what_the_cache_reserves() {
    for name in MODELS {
        let model = Model::find(name).expect("known");
        for (planned_format, format) in FORMATS {
            for context in [1, 100, 1024] {
                let contiguous = cache(model, format, context, Layout::Contiguous);
                let expected = planned(model, planned_format, filled(context));
                assert_eq!(contiguous.nbytes(), BATCH * expected, "{name}, {}, {context}", format.name());
                for block_len in [7, 16, 32, 100] {
                    let blocks = BATCH * context.div_ceil(block_len);
                    let paged = cache(model, format, context, Layout::Paged { block_len, blocks });
                    let block = planned(model, planned_format, filled(block_len));
                    assert_eq!(paged.nbytes(), blocks * block, "{name}, {}, {block_len}", format.name());
                }
            }
        }
    }
}

/// "Llama-2 7B takes 0.5 MiB a token in fp16, 2 GiB at 4096 tokens", as is published everywhere.
#[test]
fn llama_2_7b_reserves_half_a_mebibyte_a_token() {
    let model = Model::find("llama-2-7b").expect("known");
    let cache = cache(model, Format::F16, 4096, Layout::Contiguous);
    assert_eq!(cache.nbytes(), BATCH * (2 << 30));
    assert_eq!(cache.nbytes() / BATCH / 4096, 512 << 10);
}

/// Beside the bytes that are counted: what aligning storage to a huge page, or to a cache line, takes, and tables of 8 bytes a block,
/// 24 a sequence and 8 a sequence and layer.
#[test]
fn the_allocator_is_asked_for_what_the_cache_says() {
    let model = Model::find("smollm2-135m").expect("known");
    for (_, format) in FORMATS {
        for (max_len, layout, blocks) in [
            (1, Layout::Contiguous, BATCH),
            (2048, Layout::Contiguous, BATCH),
            (2048, Layout::Paged { block_len: 16, blocks: 300 }, 300),
        ] {
            let before = ALLOCATED.get();
            let cache = cache(model, format, max_len, layout);
            let allocated = ALLOCATED.get() - before;
            let align = if cache.nbytes() >= 2 << 20 { 2 << 20 } else { 64 };
            let tables = 8 * blocks + 24 * BATCH + 8 * BATCH * model.layers.len();
            assert_eq!(allocated, cache.nbytes() + align + tables, "{}, {layout:?}", format.name());
        }
    }
}

/// The planner wastes half a page less half a token a sequence; the cache does so on average over all lengths.
#[test]
fn pages_waste_what_the_plan_says() {
    let model = Model::find("smollm2-135m").expect("known");
    let device = Device::find("h100").expect("known");
    let settings = Settings { kv_format: KvFormat::Bf16, page_tokens: 16, ..Settings::default() };
    let waste = Plan::new(model, device, settings).expect("in range").report().paging.paged_waste_bytes;

    let (kv_heads, head_dim) = heads(model);
    let (block_len, blocks, lengths) = (16, 30, 1..=64_usize);
    let mut cache = cache(model, Format::Bf16, 64, Layout::Paged { block_len, blocks });
    let block_bytes = cache.nbytes() / blocks;
    let mut wasted = 0;
    for length in lengths.clone() {
        let rows = vec![0.0; BATCH * kv_heads * length * head_dim];
        cache.append(0, &rows, &rows, &[0, length, 0]).expect("there is room");
        let held = (blocks - cache.free_blocks()) * block_bytes;
        wasted += held - planned(model, KvFormat::Bf16, length);
        cache.release(1).expect("a sequence");
    }
    assert_eq!(wasted as f64 / lengths.count() as f64, waste);
}
