//! Generates 100 tokens after a prompt of 1024, with a cache and without, counts what either computes, measures how long it takes,
//! and draws `docs/figures/cached_decoding.svg`.
//!
//! `cargo run --release -p tribunal-kernels --example cached_decoding_figure -- [--threads N] [--machine NAME]`
//!
//! Without a cache every token is computed again from the prompt on, in all layers, and then the logits of the last; attention
//! is the same, over keys and values that are dropped afterwards. That takes minutes for 100 tokens, so it is done for every
//! eleventh; what it takes in between is a straight line. Both give the same logits, to the bit, which is asserted, as is
//! that the counter agrees with its formula. Matrices are multiplied plainly, in vectors of four: the ratio is the point.

mod decoder;
mod figure;
mod measure;

use measure::{Generated, PROMPT, TOKENS};

/// How often the tokens are generated with the cache; of each, the median is taken.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut threads, mut machine) = (2, None);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} takes a value"))?;
        match option.as_str() {
            "--threads" => threads = value.parse()?,
            "--machine" => machine = Some(value),
            other => return Err(format!("{other} is not an option").into()),
        }
    }
    let machine = machine.unwrap_or_else(measure::cpu);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let (cached, uncached) = pool.install(|| measure::measure(ROUNDS));
    println!("{PROMPT} + {TOKENS} tokens on {machine}, {threads} threads");
    report("with a cache, prompt and all", &cached);
    report("without", &uncached);
    let ratio = |of: fn(&Generated) -> f64| of(&uncached) / of(&cached);
    println!(
        "ratios: {:.0} in FLOPs, {:.0} in time; of the last token {:.0} and {:.0}",
        ratio(|g| g.cumulated_flops()[TOKENS - 1]),
        ratio(|g| g.cumulated_seconds()[TOKENS - 1]),
        ratio(|g| g.flops[TOKENS - 1]),
        ratio(|g| g.seconds[TOKENS - 1]),
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/cached_decoding.svg");
    std::fs::write(path, figure::svg(&cached, &uncached, threads, &machine))?;
    println!("wrote {path}");
    Ok(())
}

fn report(name: &str, generated: &Generated) {
    let (flops, seconds) = (generated.cumulated_flops(), generated.cumulated_seconds());
    println!("{name}:");
    for token in [0, 1, TOKENS / 2, TOKENS - 1] {
        println!(
            "  token {}: {:.3e} FLOPs, {:.2} ms; so far {:.3e} FLOPs, {:.3} s",
            token + 1,
            generated.flops[token],
            generated.seconds[token] * 1e3,
            flops[token],
            seconds[token],
        );
    }
}
