//! Softmax and top-k against the floor that one pass of read, exponentiate and sum sets, in one run over the same rotating
//! buffers.
//!
//! ```text
//! cargo bench -p tribunal-kernels --bench softmax_topk -- [--rounds N] [--threads 1,2] [--rows N] [--vocab N] [--k 1,5,50,256]
//!                                                         [--isa NAME] [--dtype f32|f16|bf16] [--order ORDER] [--resident]
//!                                                         [--json FILE]
//! ```
//!
//! In each round every probe runs once and ours twice, each on the next slot of a ring of buffers, so that a change of the machine's
//! bandwidth hits all of them. `floor` reads and adds, `probe` exponentiates too, each in the best of several ways (see
//! `support/exp_probe.rs`). `first` follows a probe, which may have driven code and buffers
//! out of the caches, `next` follows that, and finds them where a call leaves them. The ratios are by the probe, minimum by
//! minimum; `paired` is the median over rounds of the next call by the best probe of the same round.
//!
//! The logits are normally distributed with a standard deviation of 2; `--order` asks for another kind: `frequent-first`,
//! where they fall by half the logarithm of their place as in a vocabulary that begins with what is frequent, `rising` and `falling` rows,
//! `equal` logits, `ties` of four values. `--rows` makes all shapes have so many rows. With `--resident` it is the same rows again and again, one
//! if no other number is asked for, which stay in the caches: what is left where memory does not count.
//!
//! Under `cargo test` each case runs once, on one small shape.

#[path = "support/arena.rs"]
mod arena;
#[path = "support/exp_probe.rs"]
mod exp_probe;
#[path = "support/figures.rs"]
mod figures;
#[path = "support/options.rs"]
mod options;

use arena::{ARENA_BYTES, Arena};
use exp_probe::{Logits, Way};
use figures::{median, min, timed, write_record};
use options::numbers;
use tribunal_kernels::softmax_topk::{Logit, Outputs, Shape, softmax_topk};
use tribunal_kernels::{Isa, bf16, f16};

const SHAPES: [Shape; 4] = [
    Shape { rows: 64, vocab: 32_000 },
    Shape { rows: 64, vocab: 50_257 },
    Shape { rows: 64, vocab: 128_256 },
    Shape { rows: 16, vocab: 151_936 },
];

struct Options {
    rounds: usize,
    threads: Vec<usize>,
    rows: Option<usize>,
    vocab: Option<usize>,
    ks: Vec<usize>,
    isa: Option<Isa>,
    dtype: String,
    order: String,
    resident: bool,
    json: Option<String>,
    shapes: Vec<Shape>,
}

fn options() -> Options {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut options = Options {
        rounds: 40,
        threads: if cores > 1 { vec![1, 2] } else { vec![1] },
        rows: None,
        vocab: None,
        ks: vec![1, 5, 50, 256],
        isa: None,
        dtype: "f32".to_owned(),
        order: "random".to_owned(),
        resident: false,
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
            "--threads" => options.threads = numbers(&value()),
            "--rows" => options.rows = Some(value().parse().expect("a number of rows")),
            "--vocab" => options.vocab = Some(value().parse().expect("a number of logits")),
            "--k" => options.ks = numbers(&value()),
            "--isa" => options.isa = Some(value().parse().expect("an instruction set")),
            "--dtype" => options.dtype = value(),
            "--order" => options.order = value(),
            "--resident" => options.resident = true,
            "--json" => options.json = Some(value()),
            other => panic!("{other} is not an option"),
        }
    }
    if let Some(rows) = options.rows.or(options.resident.then_some(1)) {
        options.shapes.iter_mut().for_each(|shape| shape.rows = rows);
    }
    if !bench {
        (options.rounds, options.shapes) = (1, vec![Shape { rows: 4, vocab: 3000 }]);
    }
    options
}

/// Seconds, one entry a round; the probes in the order of [`Way::ALL`].
#[derive(Default)]
struct Times {
    /// A call that follows a probe.
    first: Vec<f64>,
    /// A call that follows that.
    next: Vec<f64>,
    probes: [Vec<f64>; Way::ALL.len()],
}

/// Fills the arena with logits of type `T`, written by `narrow`.
fn fill<T>(arena: &mut Arena, order: &str, vocab: usize, narrow: impl Fn(f32) -> T) {
    // A normal distribution is long to draw from; a million draws go round.
    const DRAWS: usize = 1 << 20;
    let mut state = 1_u32;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32
    };
    let mut normal = || (-2.0 * uniform().max(1e-9).ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos();
    let draws: Vec<f32> = (0..DRAWS).map(|_| 2.0 * normal()).collect();
    for (i, logit) in arena.elements_mut::<T>().iter_mut().enumerate() {
        let column = i % vocab;
        *logit = narrow(match order {
            "random" => draws[(i + i / DRAWS * 7919) % DRAWS],
            "frequent-first" => draws[(i + i / DRAWS * 7919) % DRAWS] - 0.5 * ((1 + column) as f32).ln(),
            "rising" => column as f32 * 1e-4,
            "falling" => column as f32 * -1e-4,
            "equal" => 0.5,
            "ties" => (((i * 2_654_435_761) >> 7) & 3) as f32,
            other => panic!("{other} is no order"),
        });
    }
}

fn measure<T: Logit + Logits>(options: &Options, arena: &Arena, shape: Shape, k: usize) -> Times {
    let Shape { rows, vocab } = shape;
    let logits = arena.elements::<T>();
    let len = rows * vocab;
    let slots = if options.resident { 1 } else { logits.len() / len };
    let (mut probs, mut indices, mut lse) = (vec![0.0; rows * k], vec![0; rows * k], vec![0.0; rows]);
    let mut ours = |logits: &[T]| {
        let outputs = Outputs { probs: &mut probs, indices: &mut indices, lse: Some(&mut lse) };
        let options = tribunal_kernels::softmax_topk::Options { isa: options.isa, ..Default::default() };
        softmax_topk(shape, k, logits, outputs, &options).expect("lengths agree");
    };
    let mut slot = 0;
    let mut next_slot = || {
        slot = (slot + 1) % slots;
        &logits[slot * len..(slot + 1) * len]
    };
    let mut times = Times::default();
    // The first round warms up.
    for round in 0..=options.rounds {
        for turn in 0..=Way::ALL.len() {
            // Who goes first changes from round to round.
            let contestant = (turn + round) % (Way::ALL.len() + 1);
            let measured: &mut [(&mut Vec<f64>, f64)] = match Way::ALL.get(contestant) {
                Some(&way) => {
                    let logits = next_slot();
                    let seconds = timed(|| {
                        std::hint::black_box(exp_probe::run(way, logits));
                    });
                    &mut [(&mut times.probes[contestant], seconds)]
                }
                None => {
                    let [first, next] = [next_slot(), next_slot()].map(|logits| timed(|| ours(logits)));
                    &mut [(&mut times.first, first), (&mut times.next, next)]
                }
            };
            if round > 0 {
                measured.iter_mut().for_each(|(times, seconds)| times.push(*seconds));
            }
        }
    }
    times
}

/// The fastest way among those with or without an exponential, and its time.
fn best(times: &Times, exp: bool) -> (Way, f64) {
    let ways = Way::ALL.into_iter().zip(&times.probes).filter(|(way, _)| way.exp == exp);
    ways.map(|(way, times)| (way, min(times))).min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are ways")
}

fn bench<T: Logit + Logits>(options: &Options, narrow: impl Fn(f32) -> T) {
    let mut arena = Arena::new(1);
    let mut records = Vec::new();
    let isa = options.isa.unwrap_or_else(Isa::best);
    let place =
        if options.resident { "one row".to_owned() } else { format!("ring of {} MiB", ARENA_BYTES >> 20) };
    println!("{}, {isa}, {} logits, {place}, times in us", T::NAME, options.order);
    println!(
        "| shape | k | threads | first | next | next median | floor | probe | probe by | GB/s | ratio first | ratio next | paired |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|");
    for &shape in &options.shapes {
        if options.vocab.is_some_and(|vocab| vocab != shape.vocab) {
            continue;
        }
        fill(&mut arena, &options.order, shape.vocab, &narrow);
        for &k in &options.ks {
            for &threads in &options.threads {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                let times = pool.install(|| measure::<T>(options, &arena, shape, k));
                let (_, floor) = best(&times, false);
                let (way, probe) = best(&times, true);
                let paired: Vec<f64> = (0..times.next.len())
                    .map(|i| {
                        let probes = Way::ALL.iter().zip(&times.probes).filter(|(way, _)| way.exp);
                        times.next[i] / min(&probes.map(|(_, times)| times[i]).collect::<Vec<_>>())
                    })
                    .collect();
                let digits = if options.resident { 2 } else { 0 };
                let bytes = (shape.rows * shape.vocab * size_of::<T>()) as f64;
                println!(
                    "| {} x {} | {k} | {threads} | {:.digits$} | {:.digits$} | {:.digits$} | {:.digits$} | {:.digits$} | {} | {:.1} | {:.2} | {:.2} | {:.2} |",
                    shape.rows,
                    shape.vocab,
                    min(&times.first) * 1e6,
                    min(&times.next) * 1e6,
                    median(&times.next) * 1e6,
                    floor * 1e6,
                    probe * 1e6,
                    way.name(),
                    bytes / probe / 1e9,
                    min(&times.first) / probe,
                    min(&times.next) / probe,
                    median(&paired),
                );
                records.push(serde_json::json!({
                    "rows": shape.rows, "vocab": shape.vocab, "k": k, "threads": threads, "isa": isa.name(),
                    "dtype": T::NAME, "order": options.order, "resident": options.resident, "first_s": times.first, "next_s": times.next, "floor_s": floor,
                    "probe_s": probe, "paired": paired,
                }));
            }
        }
    }
    if let Some(path) = &options.json {
        write_record(path, records);
    }
}

fn main() {
    let options = options();
    match options.dtype.as_str() {
        "f32" => bench(&options, |v| v),
        "f16" => bench(&options, f16::from_f32),
        "bf16" => bench(&options, bf16::from_f32),
        other => panic!("{other} is no type of logits"),
    }
}
