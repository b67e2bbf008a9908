//! Decoding over a cache of keys and values, against the floor that reading them once sets, in one run.
//!
//! ```text
//! cargo bench -p tribunal-kernels --bench decode -- [--rounds N] [--threads 1,2] [--batch 1,4,16] [--context 1024,8192,32768]
//!                                                   [--format f32,f16,bf16,int8,int4] [--block N] [--cache-mib N] [--isa NAME]
//!                                                   [--seconds S] [--json FILE]
//! ```
//!
//! 32 query heads over 8 heads of keys and values of 128, one new token a sequence. The cache has as many layers as it takes
//! to be far larger than any cache of the CPU, and each call takes the next. In each round every probe runs once and
//! ours twice, so that a change of the machine's bandwidth hits all of them. `floor` reads and adds as many bytes, of a ring of its own, in
//! the best of several ways (see `support/exp_probe.rs`). `first` follows a probe, which may have
//! driven code out of the caches, `next` follows that, and finds it where a call leaves it. The ratios are by the floor, minimum by
//! minimum; `paired` is the median over rounds of the next call by the best probe of the same round.
//!
//! A cell has `--rounds` rounds at least (20), and as many more as it takes to fill `--seconds` (0.5): minima of short calls need many.
//!
//! With `--block` the cache is paged, in blocks of so many tokens. With `--cache-mib 0` it has one layer, which may fit into
//! the caches of the CPU: what is measured then is the arithmetic.
//!
//! Under `cargo test` each case runs once, on one small shape.

#[path = "support/arena.rs"]
mod arena;
#[path = "support/decoder.rs"]
mod decoder;
#[path = "support/exp_probe.rs"]
mod exp_probe;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/options.rs"]
mod options;

use std::time::{Duration, Instant};

use arena::{ARENA_BYTES, Arena};
use decoder::{HEAD_DIM, HEADS, KV_HEADS, draws, filled_cache, format};
use exp_probe::Way;
use figures::{median, min, timed, write_record};
use options::numbers;
use tribunal_kernels::Isa;
use tribunal_kernels::attention::{Options as AttentionOptions, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};

/// The cache has so many bytes at least: several times the largest last-level cache.
const CACHE_BYTES: usize = 2 << 30;

struct Options {
    rounds: usize,
    /// That a cell is measured for, at least.
    least: Duration,
    threads: Vec<usize>,
    batches: Vec<usize>,
    contexts: Vec<usize>,
    formats: Vec<Format>,
    block: Option<usize>,
    isa: Option<Isa>,
    json: Option<String>,
    cache_bytes: usize,
}

fn options() -> Options {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        rounds: 20,
        least: Duration::from_millis(500),
        threads: if cores > 1 { vec![1, 2] } else { vec![1] },
        batches: vec![1, 4, 16],
        contexts: vec![1 << 10, 8 << 10, 32 << 10],
        formats: Format::ALL.to_vec(),
        block: None,
        isa: None,
        json: None,
        cache_bytes: CACHE_BYTES,
    };
    let mut bench = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--bench" => bench = true,
            "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
            "--seconds" => {
                options.least = Duration::from_secs_f64(value().parse().expect("a number of seconds"));
            }
            "--threads" => options.threads = numbers(&value()),
            "--batch" => options.batches = numbers(&value()),
            "--context" => options.contexts = numbers(&value()),
            "--format" => options.formats = value().split(',').map(format).collect(),
            "--cache-mib" => {
                options.cache_bytes = value().parse::<usize>().expect("a number of MiB") << 20;
            }
            "--block" => options.block = Some(value().parse().expect("a number of tokens")),
            "--isa" => options.isa = Some(value().parse().expect("an instruction set")),
            "--json" => options.json = Some(value()),
            other => panic!("{other} is not an option"),
        }
    }
    if !bench {
        (options.rounds, options.batches, options.contexts) = (1, vec![2], vec![100]);
        (options.least, options.cache_bytes) = (Duration::ZERO, 0);
    }
    options
}

/// A cache in which every sequence has `context` tokens in every layer.
fn filled(options: &Options, format: Format, batch: usize, context: usize) -> KvCache {
    let layer_bytes = batch * KV_HEADS * context * 2 * format.row_bytes(HEAD_DIM);
    let layout = match options.block {
        None => Layout::Contiguous,
        Some(block_len) => Layout::Paged { block_len, blocks: batch * context.div_ceil(block_len) },
    };
    let config = Config {
        layers: options.cache_bytes.div_ceil(layer_bytes).max(1),
        sequences: batch,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        max_len: context,
        format,
        layout,
    };
    filled_cache(config)
}

/// Seconds, one entry a round; the probes in the order of [`ways`].
struct Times {
    /// A call that follows a probe.
    first: Vec<f64>,
    /// A call that follows that.
    next: Vec<f64>,
    probes: Vec<Vec<f64>>,
}

/// Those that only read.
fn ways() -> impl Iterator<Item = Way> {
    Way::ALL.into_iter().filter(|way| !way.exp)
}

fn measure(options: &Options, arena: &Arena, cache: &KvCache, bytes: usize) -> Times {
    let Config { layers, sequences, .. } = *cache.config();
    let ways: Vec<Way> = ways().collect();
    let ring = arena.elements::<f32>();
    // What does not fit into the ring is read as often as it takes.
    let part = (bytes / 4).min(ARENA_BYTES / 4);
    let slots = ring.len() / part;
    let q = draws(sequences * HEADS * HEAD_DIM, 3);
    let mut out = vec![0.0; q.len()];
    let lengths = vec![1; sequences];
    let mut layer = 0;
    let mut ours = || {
        layer = (layer + 1) % layers;
        let queries = Queries { heads: HEADS, q: &q, lengths: &lengths };
        let outputs = Outputs { out: &mut out, lse: None };
        let attention = AttentionOptions { isa: options.isa, ..Default::default() };
        timed(|| attend(cache, layer, queries, outputs, &attention).expect("sizes agree"))
    };
    let mut slot = 0;
    let mut times = Times { first: Vec::new(), next: Vec::new(), probes: vec![Vec::new(); ways.len()] };
    let start = Instant::now();
    let mut round = 0;
    // The first round warms up.
    while round <= options.rounds || start.elapsed() < options.least {
        for turn in 0..=ways.len() {
            // Who goes first changes from round to round.
            let contestant = (turn + round) % (ways.len() + 1);
            let measured: &mut [(&mut Vec<f64>, f64)] = match ways.get(contestant) {
                Some(&way) => {
                    let values = &ring[slot * part..(slot + 1) * part];
                    slot = (slot + 1) % slots;
                    let seconds = timed(|| {
                        std::hint::black_box(exp_probe::run(way, values));
                    });
                    let seconds = seconds * bytes as f64 / (4 * part) as f64;
                    &mut [(&mut times.probes[contestant], seconds)]
                }
                None => {
                    let (first, next) = (ours(), ours());
                    &mut [(&mut times.first, first), (&mut times.next, next)]
                }
            };
            if round > 0 {
                measured.iter_mut().for_each(|(times, seconds)| times.push(*seconds));
            }
        }
        round += 1;
    }
    times
}

fn main() {
    let options = options();
    let arena = Arena::new(1);
    let isa = options.isa.unwrap_or_else(Isa::best);
    let mut records = Vec::new();
    let layout = options.block.map_or_else(|| "contiguous".to_owned(), |block| format!("blocks of {block}"));
    println!("{HEADS} heads over {KV_HEADS} of {HEAD_DIM}, {layout}, {isa}, times in us");
    println!(
        "| format | batch | context | threads | first | next | next median | floor | GB/s | ratio first | ratio next | paired |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for &batch in &options.batches {
        for &context in &options.contexts {
            for &format in &options.formats {
                let cache = filled(&options, format, batch, context);
                let bytes = batch * KV_HEADS * context * 2 * format.row_bytes(HEAD_DIM);
                for &threads in &options.threads {
                    let pool =
                        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                    let Times { first, next, probes } =
                        pool.install(|| measure(&options, &arena, &cache, bytes));
                    let best: Vec<f64> = (0..next.len())
                        .map(|i| min(&probes.iter().map(|probe| probe[i]).collect::<Vec<_>>()))
                        .collect();
                    let floor = min(&best);
                    let paired: Vec<f64> = next.iter().zip(&best).map(|(ours, floor)| ours / floor).collect();
                    println!(
                        "| {} | {batch} | {context} | {threads} | {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.2} | {:.2} | {:.2} |",
                        format.name(),
                        min(&first) * 1e6,
                        min(&next) * 1e6,
                        median(&next) * 1e6,
                        floor * 1e6,
                        bytes as f64 / floor / 1e9,
                        min(&first) / floor,
                        min(&next) / floor,
                        median(&paired),
                    );
                    records.push(serde_json::json!({
                        "format": format.name(), "batch": batch, "context": context, "threads": threads,
                        "block": options.block, "isa": isa.name(), "bytes": bytes,
                        "first_s": first, "next_s": next, "floor_s": floor, "paired": paired,
                    }));
                }
            }
        }
    }
    if let Some(path) = &options.json {
        write_record(path, records);
    }
}
