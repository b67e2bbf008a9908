//! Generates tokens in both ways, with a clock and the decoder's counter.

use std::time::Instant;

use crate::decoder::{Decoder, Flops, VOCAB};

pub(crate) const PROMPT: usize = 1024;
pub(crate) const TOKENS: usize = 100;

/// Without a cache, from one token that is measured to the next.
const STRIDE: usize = 11;

/// What each token took.
pub(crate) struct Generated {
    pub(crate) flops: Vec<f64>,
    pub(crate) seconds: Vec<f64>,
    /// The tokens that were measured.
    pub(crate) measured: Vec<usize>,
}

impl Generated {
    pub(crate) fn cumulated_flops(&self) -> Vec<f64> {
        cumulated(&self.flops)
    }

    pub(crate) fn cumulated_seconds(&self) -> Vec<f64> {
        cumulated(&self.seconds)
    }
}

fn cumulated(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    values
        .iter()
        .map(|value| {
            sum += value;
            sum
        })
        .collect()
}

/// With the cache and without.
pub(crate) fn measure(rounds: usize) -> (Generated, Generated) {
    let mut decoder = Decoder::new(PROMPT + TOKENS);
    let mut tokens: Vec<usize> = (0..PROMPT).map(|i| i * i * 31 % VOCAB).collect();
    let mut logits = Vec::new();
    let mut seconds = vec![Vec::new(); TOKENS];
    // The first round warms up.
    for round in 0..=rounds {
        decoder.cache.release(0).expect("a sequence");
        tokens.truncate(PROMPT);
        logits.clear();
        for (token, seconds) in seconds.iter_mut().enumerate() {
            let start = Instant::now();
            let past = if token == 0 { 0 } else { tokens.len() - 1 };
            logits.push(step(&mut decoder, past, &tokens[past..]));
            if round > 0 {
                seconds.push(start.elapsed().as_secs_f64());
            }
            tokens.push(most_likely(&logits[token]));
        }
    }
    let flops = |past: usize, new: usize| Flops::of(past, new).total() as f64;
    let cached = Generated {
        flops: (0..TOKENS)
            .map(|token| if token == 0 { flops(0, PROMPT) } else { flops(PROMPT + token - 1, 1) })
            .collect(),
        seconds: seconds.into_iter().map(median).collect(),
        measured: (0..TOKENS).collect(),
    };

    let measured: Vec<usize> = (0..TOKENS).step_by(STRIDE).collect();
    let mut seconds = Vec::new();
    for &token in &measured {
        decoder.cache.release(0).expect("a sequence");
        let start = Instant::now();
        let again = step(&mut decoder, 0, &tokens[..PROMPT + token]);
        seconds.push(start.elapsed().as_secs_f64());
        assert_eq!(again, logits[token], "logits of token {token}");
    }
    let between = |token: usize| {
        let (i, rest) = (token / STRIDE, token % STRIDE);
        let slope = if rest == 0 { 0.0 } else { (seconds[i + 1] - seconds[i]) / STRIDE as f64 };
        seconds[i] + rest as f64 * slope
    };
    let uncached = Generated {
        flops: (0..TOKENS).map(|token| flops(0, PROMPT + token)).collect(),
        seconds: (0..TOKENS).map(between).collect(),
        measured,
    };
    (cached, uncached)
}

/// Feeds tokens, and asserts that what was done is what the formula says.
fn step(decoder: &mut Decoder, past: usize, new: &[usize]) -> Vec<f32> {
    decoder.done = Flops::default();
    let logits = decoder.feed(new);
    assert_eq!(decoder.done, Flops::of(past, new.len()));
    logits
}

fn most_likely(logits: &[f32]) -> usize {
    let ids = logits.iter().enumerate();
    ids.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(id, _)| id)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What the system calls this CPU, if it says.
pub(crate) fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("an unknown CPU".to_owned(), |(_, name)| name.trim().to_owned())
}
