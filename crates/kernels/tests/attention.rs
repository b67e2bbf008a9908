//! Attention over the cache against the f64 definition: every instruction set of this machine, every format, one corpus.

mod support;

use std::io::Write;

use support::attention::{
    Answer, Asked, Model, append_both, ask, assert_answer, check, filled, normal, run, window,
};
use support::rounding::Rounding;
use tribunal_kernels::attention::{AttentionError, Options, Outputs, Queries, attend};
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};
use tribunal_kernels::{Isa, bf16};

/// Tokens that are summed on their own, and the largest step, as the kernel has them: lengths around these are worth a test.
const CHUNK: usize = 1024;
const STEP: usize = 64;

fn config(sequences: usize, kv_heads: usize, head_dim: usize, max_len: usize, format: Format) -> Config {
    Config { layers: 1, sequences, kv_heads, head_dim, max_len, format, layout: Layout::Contiguous }
}

fn paged(config: Config, block_len: usize) -> Config {
    let blocks = config.sequences * config.max_len.div_ceil(block_len);
    Config { layout: Layout::Paged { block_len, blocks }, ..config }
}

#[test]
fn instruction_sets_of_this_machine_are_named() {
    let (run, skipped): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    // Written past the test runner's capture, so that a skip is seen.
    let names = |isas: &[Isa]| isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let line = format!(
        "attention: {} instruction sets tested ({}), {} skipped because this CPU lacks them ({})\n",
        run.len(),
        names(&run),
        skipped.len(),
        names(&skipped)
    );
    std::io::stderr().write_all(line.as_bytes()).expect("a writable stderr");
    assert!(run.contains(&Isa::Portable));
}

#[test]
fn decoding_over_contexts_of_every_length() {
    for format in Format::ALL {
        for len in
            [1, 2, 15, 16, 17, 31, 33, STEP - 1, STEP, STEP + 1, 200, CHUNK - 1, CHUNK, CHUNK + 1, 2500]
        {
            let (cache, model) = filled(config(2, 2, 64, 3000, format), &[len, len / 2 + 1], len as u64);
            let asked = ask(cache.config(), 8, 1, &[1, 1], 7);
            check(&cache, &model, 0, &asked, &Options::default(), &format!("{len} tokens"));
        }
    }
}

#[test]
fn heads_of_every_size_in_groups_of_every_size() {
    for format in Format::ALL {
        for head_dim in [1, 3, 16, 31, 33, 48, 80, 96, 112, 128, 256] {
            let (cache, model) = filled(config(1, 2, head_dim, 100, format), &[77], head_dim as u64);
            for group in [1, 2, 3, 4, 5, 6, 8, 9] {
                let asked = ask(cache.config(), 2 * group, 3, &[3], 5);
                let context = format!("{group} x {head_dim}");
                check(&cache, &model, 0, &asked, &Options::default(), &context);
            }
        }
    }
}

#[test]
fn blocks_of_every_size_give_what_one_block_gives() {
    for format in Format::ALL {
        let whole = config(2, 2, 32, 1300, format);
        let lengths = [1300, 130];
        let asked = ask(&whole, 4, 20, &[20, 7], 3);
        let (cache, model) = filled(whole, &lengths, 11);
        for isa in Isa::available() {
            let options = Options { isa: Some(isa), ..Options::default() };
            let expected = run(&cache, 0, &asked, &options, 0).expect("sizes agree");
            assert_answer(&model, 0, &asked, &options, &expected, isa.name());
            for block_len in [1, 5, 15, 16, 17, 48, 64, 100, 129, 130, 131, 256] {
                let (cache, model) = filled(paged(whole, block_len), &lengths, 11);
                let got = run(&cache, 0, &asked, &options, 1).expect("sizes agree");
                let context = format!("blocks of {block_len}, {isa}, {}", format.name());
                assert_answer(&model, 0, &asked, &options, &got, &context);
                // Others are cut into tiles elsewhere.
                if block_len.is_multiple_of(16) {
                    assert!(got.bits() == expected.bits(), "{context}");
                }
            }
        }
    }
}

/// Appends `len` tokens of two sequences in steps, and attends for each step's tokens. Returns the answers for all of them.
fn in_steps(config: Config, heads: usize, len: usize, step: usize, options: &Options) -> Answer {
    let Config { kv_heads, head_dim, sequences, .. } = config;
    let (k, v) = (
        normal(sequences * kv_heads * len * head_dim, 1.0, 1),
        normal(sequences * kv_heads * len * head_dim, 1.0, 2),
    );
    let q = normal(sequences * heads * len * head_dim, 1.0, 3);
    let mut cache = KvCache::new(config).expect("a cache");
    let mut answer = Answer { out: vec![0.0; q.len()], lse: vec![0.0; q.len() / head_dim] };
    for start in (0..len).step_by(step) {
        let t = step.min(len - start);
        let part = |all: &[f32], heads: usize| -> Vec<f32> {
            let rows = (0..sequences * heads).map(|i| (i * len + start) * head_dim);
            rows.flat_map(|at| all[at..at + t * head_dim].iter().copied()).collect()
        };
        cache
            .append(0, &part(&k, kv_heads), &part(&v, kv_heads), &vec![t; sequences])
            .expect("there is room");
        let asked = Asked { heads, q: part(&q, heads), lengths: vec![t; sequences] };
        let got = run(&cache, 0, &asked, options, 0).expect("sizes agree");
        for i in 0..sequences * heads {
            let at = i * len + start;
            answer.lse[at..at + t].copy_from_slice(&got.lse[i * t..(i + 1) * t]);
            answer.out[at * head_dim..(at + t) * head_dim]
                .copy_from_slice(&got.out[i * t * head_dim..(i + 1) * t * head_dim]);
        }
    }
    answer
}

#[test]
fn one_prefill_is_its_chunks_is_token_by_token() {
    for format in Format::ALL {
        for (heads, kv_heads, window) in [(5, 1, 0), (2, 2, 0), (4, 2, 50)] {
            let whole = config(1, kv_heads, 16, 1100, format);
            {
                let window = std::num::NonZeroUsize::new(window);
                for isa in Isa::available() {
                    let options = Options { isa: Some(isa), window, ..Options::default() };
                    let len = 1050;
                    let same = |config, steps: &[(Config, usize)]| {
                        let expected = in_steps(config, heads, len, len, &options);
                        for &(config, step) in steps {
                            let got = in_steps(config, heads, len, step, &options);
                            let context = format!("{heads} / {kv_heads} heads in steps of {step}, {isa}");
                            assert!(got.bits() == expected.bits(), "{context}, {}", format.name());
                        }
                    };
                    same(whole, &[(whole, 100), (paged(whole, 16), 37)]);
                    same(paged(whole, 7), &[(paged(whole, 7), 1)]);
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let (cache, model) = filled(config(2, 2, 32, 6000, Format::Bf16), &[6000, 40], 5);
    for (heads, t) in [(2, 1), (8, 1), (4, 40)] {
        let asked = ask(cache.config(), heads, t, &[t, t.min(30)], 5);
        for isa in Isa::available() {
            let options = Options { isa: Some(isa), ..Options::default() };
            let on = |threads: usize| {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                pool.install(|| run(&cache, 0, &asked, &options, 0).expect("sizes agree"))
            };
            let one = on(1);
            if t == 1 {
                assert_answer(&model, 0, &asked, &options, &one, isa.name());
            }
            for threads in [2, 3, 8, 100] {
                assert!(
                    on(threads).bits() == one.bits(),
                    "{heads} heads, {t} tokens, {threads} threads, {isa}"
                );
            }
        }
    }
}

#[test]
fn windows_end_where_they_should() {
    for format in Format::ALL {
        let (cache, model) = filled(paged(config(2, 1, 16, 1200, format), 16), &[1200, 90], 5);
        let asked = ask(cache.config(), 4, 18, &[18, 18], 5);
        for tokens in [1, 2, 15, 16, 17, 63, 64, 65, 89, 90, 91, 1023, 1024, 1025, usize::MAX] {
            check(&cache, &model, 0, &asked, &window(tokens), &format!("a window of {tokens}"));
        }
    }
}

#[test]
fn what_a_block_held_before_does_not_show() {
    for format in Format::ALL {
        for len in [1, 5, 16, 40, 70] {
            let config = paged(config(2, 2, 32, 80, format), 16);
            let fresh = filled(config, &[len, 3], 9).0;
            let mut used = KvCache::new(config).expect("a cache");
            let nan = vec![f32::NAN; 2 * 2 * 80 * 32];
            let infinite = vec![f32::INFINITY; nan.len()];
            used.append(0, &nan, &infinite, &[80, 80]).expect("there is room");
            used.release(0).expect("there is one");
            used.release(1).expect("there is one");
            let mut model = Model::new(config);
            append_both(&mut used, &mut model, 0, len.max(3), &[len, 3], 9).expect("there is room");
            let asked = ask(&config, 4, 2, &[len.min(2), 2], 4);
            for isa in Isa::available() {
                let options = Options { isa: Some(isa), ..Options::default() };
                let on = |cache: &KvCache| run(cache, 0, &asked, &options, 0).expect("sizes agree").bits();
                assert!(on(&used) == on(&fresh), "{len} tokens, {isa}, {}", format.name());
            }
        }
    }
}

#[test]
fn queries_without_keys_and_without_tokens_give_nothing() {
    let (cache, model) = filled(config(4, 2, 16, 40, Format::F32), &[0, 3, 40, 10], 5);
    for lengths in [[0, 0, 0, 0], [5, 5, 5, 5], [1, 4, 0, 5], [0, 1, 2, 3]] {
        let asked = ask(cache.config(), 4, 5, &lengths, 5);
        check(&cache, &model, 0, &asked, &Options::default(), &format!("{lengths:?}"));
    }
    let nothing = Asked { heads: 4, q: Vec::new(), lengths: vec![0; 4] };
    let answer = run(&cache, 0, &nothing, &Options::default(), 0).expect("sizes agree");
    assert_eq!(answer, Answer { out: Vec::new(), lse: Vec::new() });
}

#[test]
fn layers_are_apart() {
    let mut config = config(1, 1, 16, 40, Format::F16);
    config.layers = 3;
    let (mut cache, mut model) = filled(config, &[10], 5);
    append_both(&mut cache, &mut model, 1, 5, &[5], 50).expect("there is room");
    let asked = ask(&config, 2, 2, &[2], 9);
    for layer in 0..3 {
        check(&cache, &model, layer, &asked, &Options::default(), &format!("layer {layer}"));
    }
}

/// Scores far beyond what an exponential can hold, rising, falling and equal.
#[test]
fn large_and_ordered_scores_lose_no_more_than_they_must() {
    let one = config(1, 1, 16, 1500, Format::F32);
    let len = 1500;
    let v = normal(len * 16, 1.0, 4);
    for step in [0.0, 1e-5, -1e-5, 1e-3, -1e-3, 0.1, -0.1, 30.0, -30.0, 1e4] {
        // One column of the keys makes the score.
        let k: Vec<f32> =
            (0..len * 16).map(|i| if i % 16 == 3 { (i / 16) as f32 * step } else { 0.0 }).collect();
        let (mut cache, mut model) = (KvCache::new(one).expect("a cache"), Model::new(one));
        cache.append(0, &k, &v, &[len]).expect("there is room");
        assert!(model.append(0, &k, &v, &[len]));
        let asked = Asked {
            heads: 1,
            q: (0..16).map(|i| if i == 3 { 4.0 } else { 0.5 }).collect(),
            lengths: vec![1],
        };
        check(&cache, &model, 0, &asked, &Options::default(), &format!("scores rising by {step}"));
    }
}

#[test]
fn scales_other_than_the_usual() {
    let (cache, model) = filled(config(1, 2, 16, 100, Format::F32), &[100], 5);
    let asked = ask(cache.config(), 4, 3, &[3], 5);
    for scale in [0.0, 1.0, -0.7, 1e-20, 50.0] {
        let options = Options { scale: Some(scale), ..Options::default() };
        check(&cache, &model, 0, &asked, &options, &format!("a scale of {scale}"));
    }
}

/// Only who sees a number that is not finite is spoilt by it.
#[test]
fn nan_and_infinity_stay_where_they_are_seen() {
    let two = config(2, 1, 16, 60, Format::F32);
    let (t, at) = (20, 11);
    for (heads, bad) in [(4, f32::NAN), (4, f32::INFINITY), (1, f32::NAN), (3, f32::NEG_INFINITY)] {
        for in_keys in [true, false] {
            let mut k = normal(2 * t * 16, 1.0, 1);
            let mut v = normal(2 * t * 16, 1.0, 2);
            let (good_k, good_v) = (k.clone(), v.clone());
            let spoilt = if in_keys { &mut k } else { &mut v };
            spoilt[at * 16 + 5] = bad;
            let asked = ask(&two, heads, t, &[t, t], 5);
            for isa in Isa::available() {
                let options = Options { isa: Some(isa), ..Options::default() };
                let answer = |k: &[f32], v: &[f32]| {
                    let mut cache = KvCache::new(two).expect("a cache");
                    cache.append(0, k, v, &[t, t]).expect("there is room");
                    run(&cache, 0, &asked, &options, 0).expect("sizes agree")
                };
                let (good, got) = (answer(&good_k, &good_v), answer(&k, &v));
                for (row, (good, got)) in good.out.chunks(16).zip(got.out.chunks(16)).enumerate() {
                    let sees = row < heads * t && row % t >= at;
                    let same = |c: usize| good[c].to_bits() == got[c].to_bits();
                    if !sees {
                        assert!((0..16).all(same), "row {row}, {bad}, {isa}");
                    } else if !in_keys {
                        assert!((0..16).all(|c| c == 5 || same(c)), "row {row}, {bad}, {isa}");
                        assert!(!got[5].is_finite(), "row {row}, {bad}, {isa}");
                    } else if bad.is_nan() {
                        assert!(got.iter().all(|o| o.is_nan()), "row {row}, {bad}, {isa}: {got:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_of_integers_that_is_not_finite_spoils_what_sees_it() {
    for format in [Format::Int8, Format::Int4] {
        for in_keys in [true, false] {
            let one = config(1, 1, 16, 200, format);
            let (t, at) = (150, 70);
            let (mut k, mut v) = (normal(t * 16, 1.0, 1), normal(t * 16, 1.0, 2));
            let asked = ask(&one, 4, t, &[t], 5);
            let answer = |k: &[f32], v: &[f32], isa| {
                let mut cache = KvCache::new(one).expect("a cache");
                cache.append(0, k, v, &[t]).expect("there is room");
                run(&cache, 0, &asked, &Options { isa: Some(isa), ..Options::default() }, 0)
                    .expect("sizes agree")
            };
            let (good_k, good_v) = (k.clone(), v.clone());
            (if in_keys { &mut k } else { &mut v })[at * 16 + 5] = f32::NAN;
            for isa in Isa::available() {
                let (good, got) = (answer(&good_k, &good_v, isa), answer(&k, &v, isa));
                for (row, (good, got)) in good.out.chunks(16).zip(got.out.chunks(16)).enumerate() {
                    let context = format!("row {row}, {}, {isa}: {got:?}", format.name());
                    if row % t >= at {
                        assert!(got.iter().all(|o| o.is_nan()), "{context}");
                    } else {
                        assert!(good == got, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn scores_of_negative_infinity_weigh_nothing() {
    for format in [Format::F32, Format::F16, Format::Bf16] {
        let one = config(1, 1, 16, 1100, format);
        // Sums are made of 1024 tokens each: of whole ones that weigh nothing, not even infinite values show.
        for (tokens, masked, value) in
            [(17, 15..16, 1.0), (40, 0..33, 1.0), (40, 0..40, f32::INFINITY), (1100, 0..1024, f32::INFINITY)]
        {
            let mut k = vec![0.0; tokens * 16];
            k[masked.start * 16..masked.end * 16].fill(f32::NEG_INFINITY);
            let mut v: Vec<f32> = (0..tokens * 16).map(|i| (i / 16 % 64) as f32).collect();
            v[masked.start * 16..masked.end * 16].fill(value);
            let mut cache = KvCache::new(one).expect("a cache");
            cache.append(0, &k, &v, &[tokens]).expect("there is room");
            let asked = Asked { heads: 4, q: vec![1.0; 4 * 16], lengths: vec![1] };
            for isa in Isa::available() {
                let window = std::num::NonZeroUsize::new(if tokens == 17 { 2 } else { tokens });
                let got =
                    run(&cache, 0, &asked, &Options { isa: Some(isa), window, ..Options::default() }, 0);
                let got = got.expect("sizes agree");
                let seen = tokens - window.map_or(tokens, usize::from)..tokens;
                let open: Vec<usize> = seen.filter(|token| !masked.contains(token)).collect();
                let sum: usize = open.iter().map(|token| token % 64).sum();
                let mean = if open.is_empty() { 0.0 } else { sum as f32 / open.len() as f32 };
                let context = format!("{tokens} tokens, {}, {isa}: {got:?}", format.name());
                assert!(got.out.iter().all(|o| (o - mean).abs() <= 1e-5 * mean), "{context}");
                assert!(
                    got.lse.iter().all(|lse| (lse - (open.len() as f32).ln()).abs() <= 1e-5
                        || lse.is_infinite() && open.is_empty()),
                    "{context}"
                );
            }
        }
    }
}

#[test]
fn tiny_queries_weigh_all_alike() {
    for format in Format::ALL {
        let (cache, model) = filled(config(1, 1, 16, 100, format), &[100], 5);
        for size in [1e-30, 1e-36, 1e-38, 1e-44] {
            let q = (0..4 * 16).map(|i| if i % 16 < 2 { size } else { 0.0 }).collect();
            let asked = Asked { heads: 4, q, lengths: vec![1] };
            check(&cache, &model, 0, &asked, &Options::default(), &format!("queries of {size}"));
        }
    }
}

/// Those of a model that computes in bf16 lose nothing where queries are rounded to it.
#[test]
fn queries_in_bf16_are_taken_as_they_are() {
    let (cache, _) = filled(config(1, 2, 80, 300, Format::Bf16), &[300], 5);
    let asked = ask(cache.config(), 8, 3, &[3], 5);
    let q = asked.q.iter().map(|&q| bf16::from_f32(q).to_f32()).collect();
    let asked_rounded = Asked { q, ..asked.clone() };
    for isa in Isa::available() {
        let options = Options { isa: Some(isa), ..Options::default() };
        let on = |asked: &Asked| run(&cache, 0, asked, &options, 0).expect("sizes agree").bits();
        let same = on(&asked) == on(&asked_rounded);
        assert_eq!(same, Rounding::of(Format::Bf16, isa).to_bf16, "{isa}");
    }
}

/// The mean absolute difference that rounding keys, values and queries makes, over normally distributed queries of one head
/// of 128; `spoil` changes the keys.
fn mean_difference(format: Format, len: usize, spoil: impl Fn(usize, &mut f32)) -> f64 {
    let one = config(1, 1, 128, len, format);
    let mut k = normal(len * 128, 1.0, 21);
    k.iter_mut().enumerate().for_each(|(i, k)| spoil(i % 128, k));
    let v = normal(len * 128, 1.0, 22);
    let asked = ask(&one, 32, 1, &[1], 23);
    let answer = |format| {
        let mut cache = KvCache::new(Config { format, ..one }).expect("a cache");
        cache.append(0, &k, &v, &[len]).expect("there is room");
        run(&cache, 0, &asked, &Options::default(), 0).expect("sizes agree").out
    };
    let (exact, got) = (answer(Format::F32), answer(format));
    exact.iter().zip(&got).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / exact.len() as f64
}

/// What these formats are for: 0.004 and 0.07, and for int4 also where four channels of the keys are ten times as large as
/// the others.
#[test]
fn integers_change_little() {
    for len in [64, 1000] {
        for (format, allowed) in [(Format::Int8, 0.004), (Format::Int4, 0.07)] {
            let got = mean_difference(format, len, |_, _| {});
            assert!(got <= allowed, "{}, {len} tokens: {got}", format.name());
        }
        let outliers =
            |channel, k: &mut f32| *k *= if [3, 40, 77, 120].contains(&channel) { 10.0 } else { 1.0 };
        let got = mean_difference(Format::Int4, len, outliers);
        assert!(got <= 0.07, "int4, {len} tokens with outliers: {got}");
    }
}

#[test]
fn errors_name_what_is_wrong_and_touch_nothing() {
    let (cache, _) = filled(config(2, 2, 16, 10, Format::F32), &[3, 4], 5);
    let good = ask(cache.config(), 4, 2, &[2, 1], 5);
    let refuse = |layer, heads, q: &[f32], lengths: &[usize], out: usize, lse: usize, options: Options| {
        let (mut out, mut lse) = (vec![-7.0; out], vec![-7.0; lse]);
        let outputs = Outputs { out: &mut out, lse: Some(&mut lse) };
        let error =
            attend(&cache, layer, Queries { heads, q, lengths }, outputs, &options).expect_err("an error");
        assert!(out.iter().chain(&lse).all(|&x| x == -7.0), "{error} after something was written");
        error
    };
    let (q, lengths) = (good.q.as_slice(), good.lengths.as_slice());
    let (rows, len) = (q.len() / 16, q.len());
    let default = Options::default();
    assert_eq!(refuse(1, 4, q, lengths, len, rows, default), AttentionError::Layer { layer: 1, layers: 1 });
    for heads in [0, 3, 5] {
        assert_eq!(
            refuse(0, heads, q, lengths, len, rows, default),
            AttentionError::Heads { heads, kv_heads: 2 }
        );
    }
    assert_eq!(
        refuse(0, 4, &q[1..], lengths, len, rows, default),
        AttentionError::Length { buffer: "q", expected: 128, got: len - 1 }
    );
    assert_eq!(
        refuse(0, 4, q, &[1], len, rows, default),
        AttentionError::Length { buffer: "lengths", expected: 2, got: 1 }
    );
    assert_eq!(
        refuse(0, 4, q, lengths, len + 1, rows, default),
        AttentionError::Length { buffer: "out", expected: len, got: len + 1 }
    );
    assert_eq!(
        refuse(0, 4, q, lengths, len, rows - 1, default),
        AttentionError::Length { buffer: "lse", expected: rows, got: rows - 1 }
    );
    assert_eq!(
        refuse(0, 4, q, &[2, 3], len, rows, default),
        AttentionError::Valid { sequence: 1, length: 3, given: 2 }
    );
    let infinite = Options { scale: Some(f32::INFINITY), ..default };
    assert_eq!(refuse(0, 4, q, lengths, len, rows, infinite), AttentionError::Scale(f32::INFINITY));
    if let Some(isa) = Isa::ALL.into_iter().find(|isa| !isa.is_available()) {
        let missing = Options { isa: Some(isa), ..default };
        assert_eq!(refuse(0, 4, q, lengths, len, rows, missing), AttentionError::Unavailable(isa));
    }
}
