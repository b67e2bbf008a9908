//! Writes `docs/figures/softmax_topk.svg`: what softmax with top-k takes, over what it takes to read the logits, as the
//! vocabulary and `k` grow. Measures first, prints what it measured, and can keep it.
//!
//! ```text
//! cargo run --release -p tribunal-kernels --example softmax_topk_figure -- [--rounds N] [--threads N] [--isa NAME]
//!                                                                          [--json FILE] [--draw FILE]
//! ```
//!
//! `--json` writes the samples to a file; `--draw` draws from such a file, and measures nothing.

#[path = "../../benches/support/arena.rs"]
mod arena;
mod figure;
mod measure;
#[path = "../../benches/support/exp_probe.rs"]
mod probe;

use measure::Measured;
use tribunal_kernels::Isa;

struct Options {
    rounds: usize,
    threads: usize,
    isa: Isa,
    json: Option<String>,
    draw: Option<String>,
}

fn options() -> Options {
    let mut options = Options { rounds: 40, threads: 1, isa: Isa::best(), json: None, draw: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--rounds" => options.rounds = value.parse().expect("a number of rounds"),
            "--threads" => options.threads = value.parse().expect("a number of threads"),
            "--isa" => options.isa = value.parse().expect("an instruction set"),
            "--json" => options.json = Some(value),
            "--draw" => options.draw = Some(value),
            other => panic!("{other} is not an option"),
        }
    }
    options
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options();
    let measured = match &options.draw {
        Some(file) => Measured::from_json(&serde_json::from_str(&std::fs::read_to_string(file)?)?)
            .ok_or_else(|| format!("{file} is no record of this example"))?,
        None => measure::measure(options.rounds, options.threads, options.isa),
    };
    print!("{measured}");
    if let Some(file) = &options.json {
        std::fs::write(file, measured.to_json().to_string() + "\n")?;
        println!("wrote {file}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/softmax_topk.svg");
    std::fs::write(path, figure::svg(&measured))?;
    println!("wrote {path}");
    Ok(())
}
