//! Times softmax with top-k beside the two probes, over a ring of logits that no cache holds.

use std::fmt;
use std::time::Instant;

use serde_json::{Value, json};
use tribunal_kernels::Isa;
use tribunal_kernels::softmax_topk::{Options, Outputs, Shape, softmax_topk};

use crate::arena::{ARENA_BYTES, Arena};
use crate::probe::{self, Way};

/// What is read in one turn, whatever the vocabulary: 16 MiB.
const BATCH: usize = 4 << 20;
const VOCAB_EXPONENTS: std::ops::RangeInclusive<u32> = 10..=20;
const KS_BY_VOCAB: [usize; 3] = [1, 50, 256];
/// The vocabulary of Llama 3.
const VOCAB_BY_K: usize = 128_256;
const KS: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// All that is measured.
pub(crate) struct Measured {
    pub(crate) isa: String,
    pub(crate) threads: usize,
    pub(crate) by_vocab: Vec<Group>,
    pub(crate) by_k: Group,
}

/// Contestants that took turns on one shape. Seconds, one entry a round.
pub(crate) struct Group {
    pub(crate) rows: usize,
    pub(crate) vocab: usize,
    read: Vec<f64>,
    exp: Vec<f64>,
    ours: Vec<(usize, Vec<f64>)>,
}

impl Group {
    /// Reading, summing exponentials, over reading alone.
    pub(crate) fn probe(&self) -> f64 {
        min(&self.exp) / min(&self.read)
    }

    /// Each `k`, and its time over that of reading.
    pub(crate) fn ours(&self) -> impl Iterator<Item = (usize, f64)> {
        self.ours.iter().map(|(k, seconds)| (*k, min(seconds) / min(&self.read)))
    }
}

fn min(seconds: &[f64]) -> f64 {
    seconds.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn measure(rounds: usize, threads: usize, isa: Isa) -> Measured {
    let arena = Arena::new(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
    let group = |vocab, ks: &[usize]| pool.install(|| race(&arena, vocab, ks, rounds, isa));
    Measured {
        isa: isa.to_string(),
        threads,
        by_vocab: VOCAB_EXPONENTS.map(|exponent| group(1 << exponent, &KS_BY_VOCAB)).collect(),
        by_k: group(VOCAB_BY_K, &KS),
    }
}

fn race(arena: &Arena, vocab: usize, ks: &[usize], rounds: usize, isa: Isa) -> Group {
    let shape = Shape { rows: BATCH / vocab, vocab };
    let len = shape.rows * vocab;
    let most = shape.rows * ks.iter().max().expect("there is a k");
    let (mut probs, mut indices) = (vec![0.0; most], vec![0; most]);
    let options = Options { isa: Some(isa), ..Default::default() };
    let contestants = ks.len() + 2;
    let mut seconds = vec![Vec::new(); contestants];
    let mut slots = (0..ARENA_BYTES / 4 / len).cycle();
    // The first round warms up.
    for round in 0..=rounds {
        for turn in 0..contestants {
            let slot = slots.next().expect("the ring has slots");
            let logits = &arena.elements::<f32>()[slot * len..(slot + 1) * len];
            // Who goes first changes from round to round.
            let contestant = (turn + round) % contestants;
            let start = Instant::now();
            match contestant {
                0 => _ = std::hint::black_box(probe::run(Way::READ, logits)),
                1 => _ = std::hint::black_box(probe::run(Way::EXP, logits)),
                _ => {
                    let k = ks[contestant - 2];
                    let (probs, indices) = (&mut probs[..shape.rows * k], &mut indices[..shape.rows * k]);
                    softmax_topk(shape, k, logits, Outputs { probs, indices, lse: None }, &options)
                        .expect("shapes agree");
                }
            }
            if round > 0 {
                seconds[contestant].push(start.elapsed().as_secs_f64());
            }
        }
    }
    let mut seconds = seconds.into_iter();
    let mut next = || seconds.next().expect("one a contestant");
    let (read, exp) = (next(), next());
    Group { rows: shape.rows, vocab, read, exp, ours: ks.iter().map(|&k| (k, next())).collect() }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "f32, {}, {} threads, minima; `/ read` is over reading alone", self.isa, self.threads)?;
        writeln!(
            f,
            "| shape | k | read ms | GB/s | exp / read | ours ms | ours / read |\n|---|--:|--:|--:|--:|--:|--:|"
        )?;
        for group in self.by_vocab.iter().chain([&self.by_k]) {
            let read = min(&group.read);
            let bandwidth = (4 * group.rows * group.vocab) as f64 / read / 1e9;
            for (k, ratio) in group.ours() {
                writeln!(
                    f,
                    "| {} x {} | {k} | {:.3} | {bandwidth:.1} | {:.2} | {:.3} | {ratio:.2} |",
                    group.rows,
                    group.vocab,
                    read * 1e3,
                    group.probe(),
                    ratio * read * 1e3,
                )?;
            }
        }
        Ok(())
    }
}

impl Group {
    fn to_json(&self) -> Value {
        let ours: Vec<Value> = self.ours.iter().map(|(k, seconds)| json!({"k": k, "s": seconds})).collect();
        json!({"rows": self.rows, "vocab": self.vocab, "read_s": self.read, "exp_s": self.exp, "ours": ours})
    }

    fn from_json(group: &Value) -> Option<Group> {
        let seconds =
            |value: &Value| value.as_array()?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>();
        let ours = |value: &Value| Some((count(&value["k"])?, seconds(&value["s"])?));
        Some(Group {
            rows: count(&group["rows"])?,
            vocab: count(&group["vocab"])?,
            read: seconds(&group["read_s"])?,
            exp: seconds(&group["exp_s"])?,
            ours: group["ours"].as_array()?.iter().map(ours).collect::<Option<_>>()?,
        })
    }
}

impl Measured {
    pub(crate) fn to_json(&self) -> Value {
        let by_vocab: Vec<Value> = self.by_vocab.iter().map(Group::to_json).collect();
        json!({"isa": self.isa, "threads": self.threads, "by_vocab": by_vocab, "by_k": self.by_k.to_json()})
    }

    pub(crate) fn from_json(record: &Value) -> Option<Measured> {
        Some(Measured {
            isa: record["isa"].as_str()?.to_owned(),
            threads: count(&record["threads"])?,
            by_vocab: record["by_vocab"].as_array()?.iter().map(Group::from_json).collect::<Option<_>>()?,
            by_k: Group::from_json(&record["by_k"])?,
        })
    }
}

fn count(value: &Value) -> Option<usize> {
    usize::try_from(value.as_u64()?).ok()
}
