//! Sampling against its definitions: what is kept, how often what is drawn, and that a draw depends on nothing else.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tribunal_kernels::sampling::{Candidate, Sampler, SamplingError, greedy};
use tribunal_kernels::softmax_topk::{Logit, Options, Outputs, Shape, SoftmaxTopkError, softmax_topk};
use tribunal_kernels::{Isa, bf16, f16};

/// About normal, with this deviation.
fn normal(count: usize, deviation: f32, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || (0..12).map(|_| rng.random_range(0.0..1.0_f32)).sum::<f32>() - 6.0;
    (0..count).map(|_| deviation * draw()).collect()
}

/// What the filters keep of probabilities in descending order, by the definitions, one after the other.
fn kept_by_definition(sampler: &Sampler<'_>, probs: &[f64]) -> usize {
    let mut kept = &probs[..sampler.top_k.unwrap_or(probs.len()).min(probs.len())];
    if let Some(p) = sampler.top_p.filter(|&p| p < 1.0) {
        let whole = if kept.len() < probs.len() { kept.iter().sum() } else { 1.0 };
        let covers = |&count: &usize| kept[..count].iter().sum::<f64>() >= f64::from(p) * whole;
        kept = &kept[..(1..kept.len()).find(covers).unwrap_or(kept.len())];
    }
    if let Some(p) = sampler.min_p {
        kept = &kept[..kept.iter().filter(|&prob| *prob >= f64::from(p) * kept[0]).count()];
    }
    kept.iter().filter(|&&prob| prob > 0.0).count()
}

/// Tokens by descending logit, the smaller first among equals.
fn order(logits: &[f32]) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    let descending = |a: u32, b: u32| logits[b as usize].partial_cmp(&logits[a as usize]).expect("no NaN");
    tokens.sort_by(|&a, &b| descending(a, b).then(a.cmp(&b)));
    tokens
}

/// The softmax in f64, in the order of the tokens.
fn softmax(logits: &[f32], temperature: f32) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp = |&x: &f32| ((f64::from(x) - f64::from(max)) / f64::from(temperature)).exp();
    let sum: f64 = logits.iter().map(exp).sum();
    logits.iter().map(|x| exp(x) / sum).collect()
}

fn sampled<T: Logit>(sampler: &Sampler<'_>, shape: Shape, logits: &[T], step: u64) -> Vec<u32> {
    let mut tokens = vec![u32::MAX; shape.rows];
    sampler.sample(shape, logits, step, &mut tokens).expect("the inputs are in order");
    tokens
}

/// Rows that are hard in different ways: for the arithmetic, for ties, for the growth of `k`.
fn rows(vocab: usize) -> Vec<(&'static str, Vec<f32>)> {
    let masked =
        |every: usize| move |(i, x): (usize, f32)| if i % every == 0 { x } else { f32::NEG_INFINITY };
    let uneven = normal(vocab, 1.0, 7);
    vec![
        ("like a language model's", normal(vocab, 3.0, 1)),
        ("peaked", normal(vocab, 30.0, 2)),
        ("of four values", normal(vocab, 1.0, 3).iter().map(|x| x.round().clamp(-2.0, 1.0)).collect()),
        ("flat", vec![-17.25; vocab]),
        ("nearly flat", normal(vocab, 1e-3, 4)),
        ("mostly masked", uneven.into_iter().enumerate().map(masked(10)).collect()),
        ("one left", vec![0.0; vocab].into_iter().enumerate().map(masked(vocab)).collect()),
        ("falling", (0..vocab).map(|i| -0.01 * i as f32).collect()),
    ]
}

fn filters(vocab: usize) -> Vec<Sampler<'static>> {
    let mut filters = Vec::new();
    for top_k in [None, Some(1), Some(5), Some(300), Some(vocab + 5)] {
        for top_p in [None, Some(1e-6), Some(0.3), Some(0.9), Some(0.999_99), Some(1.0)] {
            for min_p in [None, Some(0.0), Some(0.05), Some(1.0)] {
                filters.push(Sampler { temperature: 0.8, top_k, top_p, min_p, ..Default::default() });
            }
        }
    }
    filters
}

#[test]
fn kept_set_is_that_of_the_definition() {
    for vocab in [1, 2, 63, 64, 65, 257, 3000] {
        let shape = Shape { rows: 1, vocab };
        for (name, logits) in rows(vocab) {
            let (mut probs, mut indices) = (vec![0.0; vocab], vec![0; vocab]);
            let outputs = Outputs { probs: &mut probs, indices: &mut indices, lse: None };
            let options = Options { temperature: 0.8, ..Default::default() };
            softmax_topk(shape, vocab, &logits, outputs, &options).unwrap();
            let order = order(&logits);
            let wide: Vec<f64> = probs.iter().map(|&prob| prob.into()).collect();
            for sampler in filters(vocab) {
                let context = format!("{sampler:?}, {vocab} logits, {name}");
                let candidates = sampler.candidates(shape, &logits).unwrap().remove(0);
                let kept = kept_by_definition(&sampler, &wide);
                let tokens: Vec<u32> = candidates.iter().map(|candidate| candidate.token).collect();
                assert_eq!(tokens, order[..kept], "{context}");
                let mass: f64 = wide[..kept].iter().sum();
                for (candidate, prob) in candidates.iter().zip(&wide) {
                    assert_eq!(candidate.prob, (prob / mass) as f32, "{context}");
                }
            }
        }
    }
}

/// The same without the kernel's probabilities: the softmax in f64, and filters a little laxer and a little stricter.
///
/// How little: a probability is `exp(x - lse)`, where `x` goes through an addition, a division and a subtraction, and
/// `lse` comes with as many roundings. With `u = 2⁻²⁴` and logits over the temperature up to `m` that is an absolute
/// error of 6 u m in the exponent at most, so a relative one of the probability; `exp`, the sum and the quotient add
/// 8 u together.
#[test]
fn kept_set_is_that_of_the_softmax_in_f64() {
    for vocab in [65, 3000] {
        for (name, logits) in rows(vocab) {
            let finite = logits.iter().filter(|x| x.is_finite());
            let largest = finite.fold(0.0, |largest: f64, &x| largest.max(f64::from(x).abs() / 0.8));
            let error = (6.0 * largest + 8.0) * f64::from(f32::EPSILON) / 2.0;
            let mut exact = softmax(&logits, 0.8);
            exact.sort_by(|a, b| b.total_cmp(a));
            // What is subnormal in f32 may be zero.
            let normal = |&prob: &f64| if prob < f32::MIN_POSITIVE.into() { 0.0 } else { prob };
            let flushed: Vec<f64> = exact.iter().map(normal).collect();
            for sampler in filters(vocab) {
                let nudged = |by: f64| Sampler {
                    top_p: sampler.top_p.map(|p| (f64::from(p) * (1.0 + by)) as f32),
                    min_p: sampler.min_p.map(|p| (f64::from(p) * (1.0 - by)).min(1.0) as f32),
                    ..sampler
                };
                // Once for the probability, once for what it is compared with, once for rounding the option.
                let fewest = kept_by_definition(&nudged(-3.0 * error), &flushed);
                let most = kept_by_definition(&nudged(3.0 * error), &exact);
                for isa in Isa::available() {
                    let sampler = Sampler { isa: Some(isa), ..sampler };
                    let kept = sampler.candidates(Shape { rows: 1, vocab }, &logits).unwrap()[0].len();
                    let context = format!("{sampler:?}, {vocab} logits, {name}");
                    assert!((fewest..=most).contains(&kept), "{kept} of {fewest} to {most}: {context}");
                }
            }
        }
    }
}

/// The value that a chi-square of so many degrees of freedom exceeds once in a million times (Wilson, Hilferty 1931).
fn one_in_a_million(degrees: usize) -> f64 {
    const Z: f64 = 4.753_424;
    let spread = 2.0 / (9.0 * degrees as f64);
    degrees as f64 * (1.0 - spread + Z * spread.sqrt()).powi(3)
}

/// Pearson's statistic, and its quantile. Categories of probability 0 must be empty.
fn chi_square(counts: &[u32], probs: &[f64]) -> (f64, f64) {
    let total: u32 = counts.iter().sum();
    let (mut statistic, mut categories) = (0.0, 0);
    for (&count, prob) in counts.iter().zip(probs) {
        let expected = prob * f64::from(total);
        if *prob == 0.0 {
            assert_eq!(count, 0, "drawn {count} times what has probability 0");
            continue;
        }
        assert!(expected >= 5.0, "too few draws for a chi-square: {expected} expected");
        statistic += (f64::from(count) - expected).powi(2) / expected;
        categories += 1;
    }
    (statistic, one_in_a_million(categories - 1))
}

const BATCH: usize = 500;

/// How often each token is drawn from one row of logits.
fn counts(sampler: &Sampler<'_>, logits: &[f32], steps: u64) -> Vec<u32> {
    let shape = Shape { rows: BATCH, vocab: logits.len() };
    let batch = logits.repeat(BATCH);
    let mut counts = vec![0; logits.len()];
    for step in 0..steps {
        for token in sampled(sampler, shape, &batch, step) {
            counts[token as usize] += 1;
        }
    }
    counts
}

/// The probabilities of `softmax` after the filters, by the definitions.
fn truncated(sampler: &Sampler<'_>, softmax: &[f64], logits: &[f32]) -> Vec<f64> {
    let order = order(logits);
    let sorted: Vec<f64> = order.iter().map(|&token| softmax[token as usize]).collect();
    let kept = kept_by_definition(sampler, &sorted);
    let mass: f64 = sorted[..kept].iter().sum();
    let mut probs = vec![0.0; softmax.len()];
    for &token in &order[..kept] {
        probs[token as usize] = softmax[token as usize] / mass;
    }
    probs
}

#[test]
fn tokens_are_drawn_as_often_as_their_probability_says() {
    let plain = Sampler { seed: 1, ..Default::default() };
    // 300 entries, of which the draw needs more than it asks for first.
    let wide: Vec<f32> = normal(300, 0.7, 12);
    let narrow = normal(30, 1.0, 11);
    for (sampler, logits) in [
        (plain, &wide),
        (Sampler { temperature: 1.7, ..plain }, &wide),
        (Sampler { top_k: Some(100), ..plain }, &wide),
        (Sampler { top_p: Some(0.85), ..plain }, &wide),
        (Sampler { min_p: Some(0.1), ..plain }, &wide),
        (
            Sampler { temperature: 0.6, top_k: Some(12), top_p: Some(0.9), min_p: Some(0.02), ..plain },
            &narrow,
        ),
    ] {
        let probs = truncated(&sampler, &softmax(logits, sampler.temperature), logits);
        let (statistic, quantile) = chi_square(&counts(&sampler, logits, 200), &probs);
        assert!(statistic < quantile, "{statistic} where {quantile} is allowed: {sampler:?}");
    }
}

#[test]
fn chi_square_tells_a_slightly_wrong_temperature() {
    let logits = normal(30, 1.0, 11);
    let sampler = Sampler { temperature: 1.0, ..Default::default() };
    let (statistic, quantile) = chi_square(&counts(&sampler, &logits, 200), &softmax(&logits, 1.05));
    assert!(statistic > quantile, "{statistic} of {quantile}");
}

#[test]
fn draws_of_other_rows_steps_and_seeds_are_independent() {
    const STEPS: u64 = 100;
    let logits = normal(8, 1.0, 13);
    let (shape, batch) = (Shape { rows: BATCH, vocab: 8 }, logits.repeat(BATCH));
    let probs = softmax(&logits, 1.0);
    let pairs: Vec<f64> = probs.iter().flat_map(|a| probs.iter().map(move |b| a * b)).collect();
    let draws = |sampler: Sampler<'_>, step| sampled(&sampler, shape, &batch, step);
    let here = Sampler::default();
    let check = |what: &str, there: Sampler<'_>, later: u64| {
        let mut counts = vec![0; 64];
        // Every other step, so that no draw is in two pairs.
        for step in (0..2 * STEPS).step_by(2) {
            for (a, b) in draws(here, step).into_iter().zip(draws(there, step + later)) {
                counts[8 * a as usize + b as usize] += 1;
            }
        }
        let (statistic, quantile) = chi_square(&counts, &pairs);
        assert!(statistic < quantile, "{what}: {statistic} where {quantile} is allowed");
    };
    check("steps", here, 1);
    check("rows", Sampler { first_row: BATCH as u64, ..here }, 0);
    check("seeds", Sampler { seed: 1, ..here }, 0);
}

#[test]
fn threads_and_batches_change_no_token() {
    let (rows, vocab) = (37, 2500);
    let logits: Vec<f32> = (0..rows).flat_map(|row| normal(vocab, 0.1 * row as f32, row as u64)).collect();
    for sampler in [
        Sampler { seed: 5, ..Default::default() },
        Sampler { top_p: Some(0.95), seed: 6, ..Default::default() },
        Sampler { min_p: Some(0.01), temperature: 0.7, seed: 7, ..Default::default() },
    ] {
        let whole = sampled(&sampler, Shape { rows, vocab }, &logits, 3);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let tokens = pool.install(|| sampled(&sampler, Shape { rows, vocab }, &logits, 3));
            assert_eq!(tokens, whole, "{threads} threads");
        }
        for size in [1, 8, 20] {
            let parts: Vec<u32> = logits
                .chunks(size * vocab)
                .enumerate()
                .flat_map(|(part, logits)| {
                    let sampler = Sampler { first_row: (part * size) as u64, ..sampler };
                    sampled(&sampler, Shape { rows: logits.len() / vocab, vocab }, logits, 3)
                })
                .collect();
            assert_eq!(parts, whole, "batches of {size}");
        }
        assert_ne!(sampled(&sampler, Shape { rows, vocab }, &logits, 4), whole);
    }
}

#[test]
fn sixteen_bit_logits_give_the_tokens_of_their_f32() {
    fn one<T: Logit>(narrow: impl Fn(f32) -> T, wide: impl Fn(T) -> f32) {
        let shape = Shape { rows: 20, vocab: 700 };
        let logits: Vec<T> = normal(shape.rows * shape.vocab, 2.0, 21).into_iter().map(narrow).collect();
        let widened: Vec<f32> = logits.iter().map(|&x| wide(x)).collect();
        let sampler = Sampler { top_p: Some(0.9), seed: 3, ..Default::default() };
        for sampler in [sampler, Sampler { temperature: 0.0, ..sampler }] {
            assert_eq!(sampled(&sampler, shape, &logits, 0), sampled(&sampler, shape, &widened, 0));
        }
    }
    one(f16::from_f32, f16::to_f32);
    one(bf16::from_f32, bf16::to_f32);
}

#[test]
fn greedy_is_the_smallest_of_the_most_probable() {
    for vocab in [1, 2, 65, 3000] {
        for (name, logits) in rows(vocab) {
            let shape = Shape { rows: 3, vocab };
            let expected = [order(&logits)[0]; 3];
            let mut tokens = [u32::MAX; 3];
            greedy(shape, &logits.repeat(3), None, &mut tokens).unwrap();
            assert_eq!(tokens, expected, "{vocab} logits, {name}");
            let cold = Sampler { temperature: 0.0, top_p: Some(0.9), seed: 9, ..Default::default() };
            assert_eq!(sampled(&cold, shape, &logits.repeat(3), 8), expected, "{vocab} logits, {name}");
            assert_eq!(
                cold.candidates(shape, &logits.repeat(3)).unwrap(),
                vec![[Candidate { token: expected[0], prob: 1.0 }]; 3]
            );
        }
    }
    let mut token = [0];
    greedy(Shape { rows: 1, vocab: 4 }, &[1.0_f32, 3.0, 3.0, 2.0], Some(&[0.0, -1.0, -0.5, 0.5]), &mut token)
        .unwrap();
    assert_eq!(token, [2]);
}

#[test]
fn bias_decides_what_is_never_and_what_is_always_drawn() {
    let vocab = 200;
    let shape = Shape { rows: 50, vocab };
    let logits = normal(shape.rows * vocab, 1.0, 31);
    let banned = |token: usize| token.is_multiple_of(3);
    let shared: Vec<f32> =
        (0..vocab).map(|token| if banned(token) { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mut each = shared.repeat(shape.rows);
    for (row, bias) in each.chunks_mut(vocab).enumerate() {
        bias[3 * row] = 1000.0;
    }
    for step in 0..100 {
        let sampler = Sampler { bias: Some(&shared), ..Default::default() };
        assert!(!sampled(&sampler, shape, &logits, step).iter().any(|&token| banned(token as usize)));
        let sampler = Sampler { bias: Some(&each), ..Default::default() };
        let expected: Vec<u32> = (0..shape.rows as u32).map(|row| 3 * row).collect();
        assert_eq!(sampled(&sampler, shape, &logits, step), expected);
    }
    // Flat, so that rows are looked at again one by one: each with its own bias.
    let own: Vec<f32> = (0..shape.rows * vocab)
        .map(|i| if i % vocab < 100 + i / vocab { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    let sampler = Sampler { bias: Some(&own), ..Default::default() };
    let candidates = sampler.candidates(shape, &vec![0.5_f32; shape.rows * vocab]).unwrap();
    for (row, candidates) in candidates.iter().enumerate() {
        let tokens: Vec<u32> = candidates.iter().map(|candidate| candidate.token).collect();
        assert_eq!(tokens, (100 + row as u32..200).collect::<Vec<_>>());
    }
}

#[test]
fn rows_without_softmax_are_named_and_nothing_is_written() {
    let shape = Shape { rows: 4, vocab: 100 };
    let logits = normal(400, 1.0, 41);
    let refused = |logits: &[f32], sampler: Sampler<'_>| {
        let mut tokens = [77; 4];
        let error = sampler.sample(shape, logits, 0, &mut tokens).unwrap_err();
        assert_eq!(tokens, [77; 4]);
        assert_eq!(sampler.candidates(shape, logits), Err(error.clone()));
        error
    };
    for sampler in [Sampler::default(), Sampler { temperature: 0.0, ..Default::default() }] {
        for value in [f32::NAN, f32::INFINITY] {
            let mut broken = logits.clone();
            (broken[250], broken[399]) = (value, value);
            assert_eq!(refused(&broken, sampler), SamplingError::NotFinite { row: 2 }, "{value}");
        }
        let mut masked = logits.clone();
        masked[100..200].fill(f32::NEG_INFINITY);
        assert_eq!(refused(&masked, sampler), SamplingError::AllMasked { row: 1 });
        let bias = [f32::NEG_INFINITY; 100];
        assert_eq!(
            refused(&logits, Sampler { bias: Some(&bias), ..sampler }),
            SamplingError::AllMasked { row: 0 }
        );
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let shape = Shape { rows: 1, vocab: 2 };
    let refused = |sampler: Sampler<'_>| sampler.sample(shape, &[0.0_f32, 1.0], 0, &mut [0]).unwrap_err();
    let default = Sampler::default();
    assert_eq!(refused(Sampler { top_k: Some(0), ..default }), SamplingError::TopK);
    for p in [0.0, -0.1, 1.001] {
        assert_eq!(refused(Sampler { top_p: Some(p), ..default }), SamplingError::TopP(p));
    }
    for p in [-0.1, 1.001] {
        assert_eq!(refused(Sampler { min_p: Some(p), ..default }), SamplingError::MinP(p));
    }
    assert!(
        matches!(refused(Sampler { top_p: Some(f32::NAN), ..default }), SamplingError::TopP(p) if p.is_nan())
    );
    assert!(
        matches!(refused(Sampler { min_p: Some(f32::NAN), ..default }), SamplingError::MinP(p) if p.is_nan())
    );
    for temperature in [-1.0, f32::INFINITY] {
        let error = refused(Sampler { temperature, ..default });
        assert_eq!(error, SamplingError::Softmax(SoftmaxTopkError::Temperature(temperature)));
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let sampler = Sampler::default();
    let sample = |rows, vocab, logits: usize, tokens: usize| {
        sampler.sample(Shape { rows, vocab }, &vec![0.0_f32; logits], 0, &mut vec![0; tokens])
    };
    assert_eq!(sample(2, 3, 6, 1), Err(SamplingError::Tokens { expected: 2, got: 1 }));
    assert!(matches!(sample(2, 3, 5, 2), Err(SamplingError::Softmax(SoftmaxTopkError::Length { .. }))));
    assert_eq!(sample(2, 0, 0, 2), Err(SamplingError::Softmax(SoftmaxTopkError::NoVocabulary)));
    let bias = [0.0; 4];
    let biased = Sampler { bias: Some(&bias), ..sampler };
    assert!(biased.sample(Shape { rows: 2, vocab: 3 }, &[0.0_f32; 6], 0, &mut [0; 2]).is_err());
    assert!(sampler.candidates(Shape { rows: usize::MAX, vocab: 3 }, &[0.0_f32; 6]).is_err());
    assert_eq!(sample(0, 3, 0, 0), Ok(()));
}
