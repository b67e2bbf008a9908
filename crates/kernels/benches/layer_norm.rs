//! Layer normalisation against the floor that memory sets, in one run over the same rotating buffers.
//!
//! ```text
//! cargo bench -p tribunal-kernels --bench layer_norm -- [--rounds N] [--threads 1,2] [--cols N] [--isa NAME]
//!                                                       [--stores auto|cached|streaming] [--json FILE]
//! ```
//!
//! In each round every contestant runs once, on the next slot of a ring of buffers, so that a change of the machine's
//! bandwidth hits all of them. `floor` is the best way of moving the compulsory bytes (see `support/probe.rs`). `ratio` is
//! minimum by minimum; `paired` is the median over rounds of ours by the best probe of the same round.
//!
//! Under `cargo test` each case runs once, on one small shape.

#[path = "support/arena.rs"]
mod arena;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/probe.rs"]
mod probe;

use arena::{ARENA_BYTES, Arena};
use figures::{median, min, timed, write_record};
use probe::Way;
use tribunal_kernels::layer_norm::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs, Shape,
    backward, forward,
};
use tribunal_kernels::{Isa, Stores};

const SHAPES: [Shape; 4] = [
    Shape { rows: 8192, cols: 768 },
    Shape { rows: 4096, cols: 1024 },
    Shape { rows: 2048, cols: 4096 },
    Shape { rows: 1024, cols: 8192 },
];

#[derive(Clone, Copy, PartialEq)]
enum Pass {
    Forward,
    Backward,
}

struct Options {
    rounds: usize,
    threads: Vec<usize>,
    cols: Option<usize>,
    isa: Option<Isa>,
    stores: Stores,
    json: Option<String>,
    shapes: Vec<Shape>,
}

fn options() -> Options {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        rounds: 60,
        threads: if cores > 1 { vec![1, 2] } else { vec![1] },
        cols: None,
        isa: None,
        stores: Stores::Auto,
        json: None,
        shapes: SHAPES.to_vec(),
    };
    let mut bench = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_else(|| panic!("{arg} needs a value"));
        match arg.as_str() {
            "--bench" => bench = true,
            "--rounds" => options.rounds = value().parse().expect("a number of rounds"),
            "--threads" => {
                options.threads =
                    value().split(',').map(|n| n.parse().expect("a number of threads")).collect()
            }
            "--cols" => options.cols = Some(value().parse().expect("a number of columns")),
            "--isa" => options.isa = Some(value().parse().expect("an instruction set")),
            "--json" => options.json = Some(value()),
            "--stores" => {
                options.stores = match value().as_str() {
                    "auto" => Stores::Auto,
                    "cached" => Stores::Cached,
                    "streaming" => Stores::Streaming,
                    other => panic!("{other} is no way to store"),
                }
            }
            other => panic!("{other} is not an option"),
        }
    }
    if !bench {
        (options.rounds, options.shapes) = (1, vec![Shape { rows: 64, cols: 128 }]);
    }
    options
}

/// Everything that one measurement needs.
struct Bench {
    x: Arena,
    dy: Arena,
    out: Arena,
    gamma: Vec<f32>,
    beta: Vec<f32>,
    options: Options,
}

/// Seconds, one entry a round.
#[derive(Default)]
struct Times {
    ours: Vec<f64>,
    probes: [Vec<f64>; 3],
}

impl Bench {
    fn measure(&mut self, pass: Pass, shape: Shape) -> Times {
        let Shape { rows, cols } = shape;
        let len = rows * cols;
        let slots = ARENA_BYTES / 4 / len;
        let (gamma, beta) = (&self.gamma[..cols], &self.beta[..cols]);
        let (mut mean, mut rstd) = (vec![0.0_f32; rows], vec![0.86_f32; rows]);
        let (mut dgamma, mut dbeta) = (vec![0.0_f32; cols], vec![0.0_f32; cols]);
        let (isa, stores) = (self.options.isa, self.options.stores);
        let mut slot = 0;
        let mut times = Times::default();
        // The first round warms up.
        for round in 0..=self.options.rounds {
            for turn in 0..4 {
                let range = slot * len..(slot + 1) * len;
                slot = (slot + 1) % slots;
                let (x, dy, out) = (
                    &self.x.elements()[range.clone()],
                    &self.dy.elements()[range.clone()],
                    &mut self.out.elements_mut()[range],
                );
                // Who goes first changes from round to round.
                let contestant = (turn + round) % 4;
                let seconds = match (contestant, pass) {
                    (3, Pass::Forward) => timed(|| {
                        let outputs = ForwardOutputs { y: out, mean: &mut mean, rstd: &mut rstd };
                        let options = ForwardOptions { isa, stores, ..Default::default() };
                        forward(shape, ForwardInputs { x, gamma, beta }, outputs, &options)
                            .expect("shapes agree");
                    }),
                    (3, Pass::Backward) => timed(|| {
                        let inputs = BackwardInputs { dy, x, mean: &mean, rstd: &rstd, gamma };
                        let outputs = BackwardOutputs { dx: out, dgamma: &mut dgamma, dbeta: &mut dbeta };
                        backward(shape, inputs, outputs, &BackwardOptions { isa, stores })
                            .expect("shapes agree");
                    }),
                    (way, _) => {
                        timed(|| probe::run(Way::ALL[way], x, (pass == Pass::Backward).then_some(dy), out))
                    }
                };
                match contestant {
                    _ if round == 0 => {}
                    3 => times.ours.push(seconds),
                    way => times.probes[way].push(seconds),
                }
            }
        }
        times
    }
}

fn main() {
    let options = options();
    let cols_max = options.shapes.iter().map(|shape| shape.cols).max().unwrap_or(0);
    let gamma: Vec<f32> = (0..cols_max).map(|c| 1.0 + (c % 7) as f32 * 0.1).collect();
    let beta = (0..cols_max).map(|c| (c % 5) as f32 * 0.1).collect();
    let mut bench = Bench { x: Arena::new(1), dy: Arena::new(2), out: Arena::new(3), gamma, beta, options };
    let mut records = Vec::new();
    let isa = bench.options.isa.unwrap_or_else(Isa::best);
    println!("f32, {isa}, ring of 3 x {} MiB, times in ms", ARENA_BYTES >> 20);
    println!(
        "| pass | shape | threads | ours min | ours median | floor | floor by | GB/s | ratio | paired |"
    );
    println!("|---|---|--:|--:|--:|--:|---|--:|--:|--:|");
    for (pass, name) in [(Pass::Forward, "forward"), (Pass::Backward, "backward")] {
        for shape in bench.options.shapes.clone() {
            if bench.options.cols.is_some_and(|cols| cols != shape.cols) {
                continue;
            }
            for threads in bench.options.threads.clone() {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                let times = pool.install(|| bench.measure(pass, shape));
                let (way, floor) = Way::ALL
                    .into_iter()
                    .zip(&times.probes)
                    .map(|(way, times)| (way, min(times)))
                    .min_by(|a, b| a.1.total_cmp(&b.1))
                    .expect("there are ways");
                let paired: Vec<f64> = (0..times.ours.len())
                    .map(|i| {
                        times.ours[i] / min(&[times.probes[0][i], times.probes[1][i], times.probes[2][i]])
                    })
                    .collect();
                let tensors = if pass == Pass::Forward { 2 } else { 3 };
                let bytes = (tensors * shape.rows * shape.cols * 4) as f64;
                println!(
                    "| {name} | {} x {} | {threads} | {:.3} | {:.3} | {:.3} | {} | {:.1} | {:.2} | {:.2} |",
                    shape.rows,
                    shape.cols,
                    min(&times.ours) * 1e3,
                    median(&times.ours) * 1e3,
                    floor * 1e3,
                    way.name(),
                    bytes / floor / 1e9,
                    min(&times.ours) / floor,
                    median(&paired),
                );
                records.push(serde_json::json!({
                    "pass": name, "rows": shape.rows, "cols": shape.cols, "threads": threads, "isa": isa.name(),
                    "ours_s": times.ours, "probe_plain_s": times.probes[0], "probe_nt_s": times.probes[1],
                    "probe_nt_prefetch_s": times.probes[2],
                }));
            }
        }
    }
    if let Some(path) = &bench.options.json {
        write_record(path, records);
    }
}
