//! Attention of many new tokens over a cache of keys and values, against the additions and multiplications that a core can do.
//!
//! ```text
//! cargo bench -p tribunal-kernels --bench prefill -- [--rounds N] [--threads 1,2] [--new 64,512] [--context 1024,8192]
//!                                                    [--format f32,f16,bf16,int8,int4] [--json FILE]
//! ```
//!
//! 32 query heads over 8 heads of keys and values of 128, one sequence, whose newest tokens these are. Where many queries are
//! asked about at once, a tile is read from memory once and from the first level for all others, so what counts is
//! arithmetic, and what else a step does. `GFLOP/s` counts `4 heads head_dim` for each pair of a query and a key that it sees. `peak`
//! is what multiplications with addition do in registers, of f32, on as many threads and in the same round; integers, of
//! which an instruction multiplies more, may be above it. `of peak` is minimum by minimum, `paired` the median over rounds.
//!
//! Under `cargo test` each case runs once, on one small shape.

#[path = "support/decoder.rs"]
mod decoder;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/fma_probe.rs"]
mod fma_probe;
#[path = "support/options.rs"]
mod options;

use decoder::{HEAD_DIM, HEADS, KV_HEADS, draws, filled_cache, format};
use figures::{median, min, timed, write_record};
use options::numbers;
use tribunal_kernels::Isa;
use tribunal_kernels::attention::{Options as AttentionOptions, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};

struct Options {
    rounds: usize,
    threads: Vec<usize>,
    new: Vec<usize>,
    contexts: Vec<usize>,
    formats: Vec<Format>,
    json: Option<String>,
}

fn options() -> Options {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        rounds: 15,
        threads: if cores > 1 { vec![1, 2] } else { vec![1] },
        new: vec![64, 512],
        contexts: vec![1 << 10, 8 << 10],
        formats: Format::ALL.to_vec(),
        json: None,
    };
    let mut bench = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--bench" => bench = true,
            "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
            "--threads" => options.threads = numbers(&value()),
            "--new" => options.new = numbers(&value()),
            "--context" => options.contexts = numbers(&value()),
            "--format" => options.formats = value().split(',').map(format).collect(),
            "--json" => options.json = Some(value()),
            other => panic!("{other} is not an option"),
        }
    }
    if !bench {
        (options.rounds, options.new, options.contexts) = (1, vec![5], vec![100]);
    }
    options
}

/// A cache with one sequence of `context` tokens.
fn filled(format: Format, context: usize) -> KvCache {
    filled_cache(Config {
        layers: 1,
        sequences: 1,
        kv_heads: KV_HEADS,
        head_dim: HEAD_DIM,
        max_len: context,
        format,
        layout: Layout::Contiguous,
    })
}

fn main() {
    let options = options();
    let isa = Isa::best();
    let mut records = Vec::new();
    println!("{HEADS} heads over {KV_HEADS} of {HEAD_DIM}, contiguous, {isa}, times in ms");
    println!("| format | new | context | threads | min | median | GFLOP/s | peak | of peak | paired |");
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for &context in &options.contexts {
        for &new in &options.new {
            assert!(new <= context, "{new} new tokens are not among {context}");
            let pairs: usize = (context - new + 1..=context).sum();
            let flops = (4 * HEADS * HEAD_DIM * pairs) as f64;
            let q = draws(HEADS * new * HEAD_DIM, 3);
            let mut out = vec![0.0; q.len()];
            for &format in &options.formats {
                let cache = filled(format, context);
                for &threads in &options.threads {
                    let pool =
                        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                    let (mut seconds, mut peaks) = (Vec::new(), Vec::new());
                    // The first round warms up.
                    for round in 0..=options.rounds {
                        let peak = pool.install(fma_probe::flops_per_second);
                        let queries = Queries { heads: HEADS, q: &q, lengths: &[new] };
                        let outputs = Outputs { out: &mut out, lse: None };
                        let took = pool.install(|| {
                            timed(|| {
                                attend(&cache, 0, queries, outputs, &AttentionOptions::default())
                                    .expect("sizes agree")
                            })
                        });
                        if round > 0 {
                            seconds.push(took);
                            peaks.push(peak);
                        }
                    }
                    let peak = peaks.iter().copied().fold(0.0, f64::max);
                    let rate = flops / min(&seconds);
                    let paired: Vec<f64> =
                        seconds.iter().zip(&peaks).map(|(seconds, peak)| flops / seconds / peak).collect();
                    println!(
                        "| {} | {new} | {context} | {threads} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} | {:.2} |",
                        format.name(),
                        min(&seconds) * 1e3,
                        median(&seconds) * 1e3,
                        rate / 1e9,
                        peak / 1e9,
                        rate / peak,
                        median(&paired),
                    );
                    records.push(serde_json::json!({
                        "format": format.name(), "new": new, "context": context, "threads": threads,
                        "isa": isa.name(), "flops": flops, "seconds": seconds, "peak_flops_per_s": peaks,
                    }));
                }
            }
        }
    }
    if let Some(path) = &options.json {
        write_record(path, records);
    }
}
