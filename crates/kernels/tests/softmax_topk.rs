//! Softmax and top-k against the f64 definition: every instruction set of this machine, every type of logits, one corpus.

mod support;

use std::io::Write;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use support::softmax::{Answer, assert_answer, bits, budget, check, oracle, run, run_f32};
use tribunal_kernels::softmax_topk::{Logit, Options, Outputs, Shape, SoftmaxTopkError, softmax_topk};
use tribunal_kernels::{Isa, bf16, f16};

const VOCABS: [usize; 13] = [1, 2, 5, 15, 16, 17, 31, 33, 1000, 1024, 4097, 32_000, 50_257];

/// Those of the interesting numbers that a row has room for.
fn ks(vocab: usize) -> impl Iterator<Item = usize> {
    [1, 2, 10, 31, 32, 33, 50, 256].into_iter().filter(move |&k| k < vocab).chain([vocab])
}

/// Sums of uniform numbers, which are nearly normal.
fn normal(len: usize, scale: f32, seed: u64) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..len).map(|_| (0..4).map(|_| rng.random_range(-1.0..1.0_f32)).sum::<f32>() * scale).collect()
}

/// One row on an instruction set, unguarded and aligned as it comes.
fn on(isa: Isa) -> Options<'static> {
    Options { isa: Some(isa), ..Options::default() }
}

#[test]
fn instruction_sets_of_this_machine_are_named() {
    let (run, skipped): (Vec<Isa>, Vec<Isa>) = Isa::ALL.into_iter().partition(|isa| isa.is_available());
    // Written past the test runner's capture, so that a skip is seen.
    let names = |isas: &[Isa]| isas.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let line = format!(
        "softmax_topk: {} instruction sets tested ({}), {} skipped because this CPU lacks them ({})\n",
        run.len(),
        names(&run),
        skipped.len(),
        names(&skipped)
    );
    std::io::stderr().write_all(line.as_bytes()).expect("a writable stderr");
    assert!(run.contains(&Isa::Portable));
}

#[test]
fn random_rows_of_every_length() {
    for vocab in VOCABS {
        for k in ks(vocab) {
            check(&normal(vocab, 3.0, (vocab * 1000 + k) as u64), k, "random");
        }
    }
}

#[test]
fn rows_in_order() {
    for vocab in VOCABS {
        let step = 20.0 / vocab as f32;
        for k in ks(vocab) {
            check(&(0..vocab).map(|i| i as f32 * step).collect::<Vec<_>>(), k, "rising");
            check(&(0..vocab).map(|i| i as f32 * -step).collect::<Vec<_>>(), k, "falling");
            let peak = vocab as f32 / 2.0;
            check(&(0..vocab).map(|i| (i as f32 - peak).abs() * -step).collect::<Vec<_>>(), k, "peaked");
        }
    }
}

/// The reference of the sum is moved hundreds of times, by less than rounding where it is in f32.
#[test]
fn slowly_rising_rows_lose_no_accuracy() {
    for step in [1e-5, 1e-4, 1e-3, 1e-2, 1.0] {
        check(&(0..50_257).map(|i| i as f32 * step).collect::<Vec<_>>(), 50, "slowly rising");
    }
}

#[test]
fn equal_logits_and_ties_go_to_the_smaller_index() {
    for vocab in VOCABS {
        for k in ks(vocab) {
            for value in [0.0, -3.5, 1e4] {
                check(&vec![value; vocab], k, "all equal");
            }
            let mut rng = ChaCha8Rng::seed_from_u64(vocab as u64);
            let few: Vec<f32> = (0..vocab).map(|_| [-1.0, 0.0, -0.0, 2.0][rng.random_range(0..4)]).collect();
            check(&few, k, "four values, two of them zeros");
            check(&(0..vocab).map(|i| (i * 8 / vocab) as f32).collect::<Vec<_>>(), k, "rising steps");
            check(&(0..vocab).map(|i| -((i * 8 / vocab) as f32)).collect::<Vec<_>>(), k, "falling steps");
        }
    }
}

/// Winners in one lane of every vector, one vector of every block, one end of the row.
#[test]
fn winners_of_one_class() {
    for vocab in [4097, 32_000, 50_257] {
        for stride in [4, 8, 16, 32, 128, 256] {
            let mut row = normal(vocab, 1.0, stride as u64);
            for (i, x) in row.iter_mut().enumerate().skip(stride - 1).step_by(stride) {
                *x += 10.0 + (i % 7) as f32 * 0.01;
            }
            for k in [1, 10, 50, 256] {
                check(&row, k, &format!("winners every {stride}"));
            }
        }
        for start in [0, vocab / 2 - 150, vocab - 300] {
            let mut row = normal(vocab, 1.0, start as u64);
            row[start..start + 300].iter_mut().for_each(|x| *x += 10.0);
            check(&row, 256, &format!("winners from {start}"));
        }
    }
}

#[test]
fn masked_logits_have_probability_zero() {
    for vocab in [5, 33, 1000, 4097, 32_000] {
        for finite in [1, 3, 40] {
            if finite > vocab {
                continue;
            }
            let mut row = vec![f32::NEG_INFINITY; vocab];
            let values = normal(finite, 2.0, vocab as u64);
            for (i, value) in values.into_iter().enumerate() {
                row[(i * 7919 + 3) % vocab] = value;
            }
            for k in ks(vocab) {
                check(&row, k, &format!("{finite} not masked"));
            }
        }
    }
}

/// Where masks are first met the way of summing changes, and the sum so far must not.
#[test]
fn a_mask_anywhere_is_as_good_as_a_very_low_logit() {
    let row = normal(12_345, 2.0, 8);
    let with = |places: &[usize], value: f32| {
        let mut row = row.clone();
        places.iter().for_each(|&place| row[place] = value);
        row
    };
    for places in [&[0][..], &[4095], &[4096], &[9000], &[12_344], &[3, 5000, 12_300]] {
        let low = run_f32(&with(places, -2000.0), 50, &Options::default(), 0);
        for value in [f32::NEG_INFINITY, f32::MIN, -1e30, -1e25, -1e20, -1e9, -6e5, -1e5] {
            let row = with(places, value);
            check(&row, 50, &format!("{value} at {places:?}"));
            let got = run_f32(&row, 50, &Options::default(), 0);
            assert_eq!((&got.probs, &got.lse), (&low.probs, &low.lse), "{value} at {places:?}");
        }
    }
}

#[test]
fn rows_without_a_softmax_spoil_no_others() {
    let vocab = 5000;
    let good = normal(vocab, 2.0, 3);
    let with = |at: usize, value: f32| {
        let mut row = good.clone();
        row[at] = value;
        row
    };
    let masked = vec![f32::NEG_INFINITY; vocab];
    let mut nan_only = masked.clone();
    nan_only[4999] = f32::NAN;
    let rows = [
        good.clone(),
        masked,
        with(0, f32::NAN),
        with(4999, f32::NAN),
        with(2500, f32::from_bits(0xffc0_0001)),
        // The last of a tile, which its maxima keep.
        with(2047, f32::from_bits(0xffc0_0001)),
        with(4095, f32::from_bits(0xffc0_0001)),
        nan_only,
        with(77, f32::INFINITY),
        good.clone(),
    ];
    for isa in Isa::available() {
        for k in [1, 10, 300] {
            let shape = Shape { rows: rows.len(), vocab };
            let got = run(shape, k, &rows.concat(), &on(isa), 1, 3e38).unwrap();
            for (r, row) in rows.iter().enumerate() {
                let range = r * k..(r + 1) * k;
                let answer = Answer {
                    probs: got.probs[range.clone()].to_vec(),
                    indices: got.indices[range].to_vec(),
                    lse: vec![got.lse[r]],
                };
                assert_answer(&answer, row, k, 1.0, &format!("row {r}, k {k}, {isa}"));
            }
        }
    }
}

#[test]
fn extreme_logits() {
    let huge = |scale: f32| normal(5000, scale / 4.0, 5);
    for scale in [1e-30, 1e4, 1e6, 1e9, 1e30, f32::MAX] {
        for k in [1, 10, 256] {
            check(&huge(scale), k, &format!("up to {scale:e}"));
        }
    }
    check(&[f32::MAX, f32::MIN, f32::MAX, 0.0], 4, "the largest numbers");
    check(&[f32::MIN; 40], 3, "the smallest number");
    check(&[f32::MIN, f32::NEG_INFINITY, f32::NEG_INFINITY], 3, "the smallest number, masks");
    let mut offset = normal(4097, 2.0, 6);
    offset.iter_mut().for_each(|x| *x += 1e4);
    check(&offset, 50, "far from zero");
    offset.iter_mut().for_each(|x| *x -= 2e4);
    check(&offset, 50, "far below zero");
}

#[test]
fn f16_and_bf16_are_computed_in_f32() {
    fn one<T: Logit + PartialEq>(narrow: fn(f32) -> T) {
        for vocab in [1, 15, 33, 1000, 4097, 50_257] {
            let row: Vec<T> = normal(vocab, 3.0, vocab as u64).into_iter().map(narrow).collect();
            let wide: Vec<f32> = row.iter().map(|x| x.to_f32()).collect();
            for k in ks(vocab) {
                for isa in Isa::available() {
                    let shape = Shape { rows: 1, vocab };
                    let got = run(shape, k, &row, &on(isa), 1, narrow(6e4)).unwrap();
                    assert_answer(&got, &wide, k, 1.0, &format!("{}, vocab {vocab}, k {k}, {isa}", T::NAME));
                    // What is converted exactly gives the same answer to the last bit.
                    assert_eq!(bits(&got), bits(&run_f32(&wide, k, &on(isa), 0)), "{}, {isa}", T::NAME);
                }
            }
        }
    }
    one(f16::from_f32);
    one(bf16::from_f32);
}

#[test]
fn bias_and_temperature_are_as_if_applied_before() {
    for (rows, vocab) in [(1, 1), (3, 37), (2, 4097), (2, 50_257)] {
        let shape = Shape { rows, vocab };
        let logits = normal(rows * vocab, 3.0, 7);
        let mut bias = normal(rows * vocab, 1.0, 8);
        bias.iter_mut().skip(2).step_by(5).for_each(|bias| *bias = f32::NEG_INFINITY);
        let falling: Vec<f32> = (0..vocab).map(|c| -2.0 * ((1 + c) as f32).ln()).collect();
        for (bias, temperature) in [
            (None, 0.7),
            (Some(&bias[..vocab]), 1.0),
            (Some(&falling[..]), 1.0),
            (Some(&bias[..]), 1.0),
            (Some(&bias[..]), 0.25),
            (Some(&bias[..]), 8.0),
            (None, 1e-30),
            (None, f32::MIN_POSITIVE / 1e6),
            (None, f32::MAX),
        ] {
            for isa in Isa::available() {
                for k in ks(vocab).filter(|&k| k <= 256) {
                    let options = Options { temperature, bias, isa: Some(isa) };
                    let got = run(shape, k, &logits, &options, 1, 3e38).unwrap();
                    for r in 0..rows {
                        let row: Vec<f32> = (0..vocab)
                            .map(|c| {
                                let i = r * vocab + c;
                                bias.map_or(logits[i], |bias| logits[i] + bias[i % bias.len()])
                            })
                            .collect();
                        let range = r * k..(r + 1) * k;
                        let answer = Answer {
                            probs: got.probs[range.clone()].to_vec(),
                            indices: got.indices[range].to_vec(),
                            lse: vec![got.lse[r]],
                        };
                        let context = format!(
                            "row {r} of {shape:?}, k {k}, temperature {temperature}, {:?} biases, {isa}",
                            bias.map(<[f32]>::len)
                        );
                        assert_answer(&answer, &row, k, temperature, &context);
                    }
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_alignment() {
    for (rows, vocab) in [(1, 1 << 20), (1, 40_000), (3, 70_001), (37, 5000), (9, 33_000)] {
        let logits = normal(rows * vocab, 3.0, (rows + vocab) as u64);
        for isa in Isa::available() {
            for k in [1, 50, 700] {
                let with = |threads, misalign| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
                    let shape = Shape { rows, vocab };
                    pool.install(|| run(shape, k, &logits, &on(isa), misalign, 3e38).unwrap())
                };
                let expected = with(1, 0);
                for (threads, misalign) in [(1, 1), (2, 0), (2, 3), (5, 1)] {
                    let got = with(threads, misalign);
                    assert_eq!(
                        bits(&got),
                        bits(&expected),
                        "{rows} x {vocab}, k {k}, {threads} threads, {isa}"
                    );
                }
                for r in [0, rows - 1] {
                    let answer = Answer {
                        probs: expected.probs[r * k..(r + 1) * k].to_vec(),
                        indices: expected.indices[r * k..(r + 1) * k].to_vec(),
                        lse: vec![expected.lse[r]],
                    };
                    let row = &logits[r * vocab..(r + 1) * vocab];
                    assert_answer(&answer, row, k, 1.0, &format!("{rows} x {vocab}, k {k}, {isa}"));
                }
            }
        }
    }
}

/// What is found in a row is expected of the next; the answer must be what it is alone, whatever came before.
#[test]
fn rows_do_not_depend_on_those_before_them() {
    // More than two chunks.
    const VOCAB: usize = 70_001;
    let random = normal(VOCAB, 2.0, 20);
    let at = |i: usize| (1 + i) as f32;
    let kinds: [Box<dyn Fn(usize) -> f32>; 8] = [
        Box::new(|i| random[i]),
        Box::new(|i| random[i] - 0.5 * at(i).ln()),
        Box::new(|i| -1e-3 * at(i)),
        Box::new(|i| if i < 40_000 { random[i] } else { random[i] - 10.0 }),
        Box::new(|i| if i < 4000 && i.is_multiple_of(300) { random[i] } else { f32::NEG_INFINITY }),
        Box::new(|i| 1e-3 * at(i)),
        Box::new(|_| f32::NAN),
        Box::new(|_| 0.25),
    ];
    // Each kind after each other.
    let order = (0..8).flat_map(|a| (0..8).flat_map(move |b| [a, b]));
    let order: Vec<usize> = order.collect();
    let row = |kind: usize| (0..VOCAB).map(&kinds[kind]).collect::<Vec<f32>>();
    let logits: Vec<f32> = order.iter().flat_map(|&kind| row(kind)).collect();
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    for isa in Isa::available() {
        for k in [1, 50, 300] {
            let run = |logits: &[f32]| {
                let shape = Shape { rows: logits.len() / VOCAB, vocab: VOCAB };
                one.install(|| run(shape, k, logits, &on(isa), 0, 3e38).unwrap())
            };
            let together = run(&logits);
            let alone: Vec<_> = (0..kinds.len()).map(|kind| run(&row(kind))).collect();
            for (r, &kind) in order.iter().enumerate() {
                let range = r * k..(r + 1) * k;
                let got = Answer {
                    probs: together.probs[range.clone()].to_vec(),
                    indices: together.indices[range].to_vec(),
                    lse: vec![together.lse[r]],
                };
                assert_eq!(bits(&got), bits(&alone[kind]), "{isa}, k {k}, row {r} of kind {kind}");
            }
            for kind in [0, 1, 2, 3, 5] {
                assert_answer(&alone[kind], &row(kind), k, 1.0, &format!("{isa}, k {k}, kind {kind}"));
            }
        }
    }
}

#[test]
fn a_million_logits_all_of_them_asked_for() {
    let row = normal(1 << 18, 3.0, 10);
    check(&row, row.len(), "all of a long row");
    check(&row, 100_000, "much of a long row");
}

#[test]
fn no_rows_are_no_work() {
    let outputs = Outputs { probs: &mut [], indices: &mut [], lse: Some(&mut []) };
    softmax_topk::<f32>(Shape { rows: 0, vocab: 10 }, 3, &[], outputs, &Options::default()).unwrap();
}

#[test]
fn refusals_leave_buffers_untouched() {
    type Error = SoftmaxTopkError;
    let shape = Shape { rows: 2, vocab: 3 };
    let logits = [1.0_f32; 6];
    let run = |shape, k, logits: &[f32], lengths: [usize; 3], options: &Options<'_>| {
        let (mut probs, mut indices, mut lse) =
            (vec![9.0_f32; lengths[0]], vec![9; lengths[1]], vec![9.0; lengths[2]]);
        let outputs = Outputs { probs: &mut probs, indices: &mut indices, lse: Some(&mut lse) };
        let result = softmax_topk(shape, k, logits, outputs, options);
        let untouched = probs.iter().chain(&lse).all(|&x| x == 9.0) && indices.iter().all(|&i| i == 9);
        assert!(untouched, "written to despite {result:?}");
        result.unwrap_err()
    };
    let options = Options::default();
    let length = |buffer, expected, got| Error::Length { buffer, expected, got };
    assert_eq!(run(shape, 2, &logits[1..], [4, 4, 2], &options), length("logits", 6, 5));
    assert_eq!(run(shape, 2, &logits, [5, 4, 2], &options), length("probs", 4, 5));
    assert_eq!(run(shape, 2, &logits, [4, 3, 2], &options), length("indices", 4, 3));
    assert_eq!(run(shape, 2, &logits, [4, 4, 1], &options), length("lse", 2, 1));
    assert_eq!(run(shape, 0, &logits, [0, 0, 2], &options), Error::K { k: 0, vocab: 3 });
    assert_eq!(run(shape, 4, &logits, [8, 8, 2], &options), Error::K { k: 4, vocab: 3 });
    let none = Shape { rows: 2, vocab: 0 };
    assert_eq!(run(none, 1, &[], [2, 2, 2], &options), Error::NoVocabulary);
    for large in [Shape { rows: usize::MAX, vocab: 3 }, Shape { rows: 1, vocab: 1 << 32 }] {
        assert_eq!(run(large, 1, &logits, [2, 2, 2], &options), Error::TooLarge(large));
    }
    for temperature in [0.0, -1.0, f32::INFINITY] {
        let options = Options { temperature, ..options };
        assert_eq!(run(shape, 2, &logits, [4, 4, 2], &options), Error::Temperature(temperature));
    }
    let options_nan = Options { temperature: f32::NAN, ..options };
    assert!(matches!(run(shape, 2, &logits, [4, 4, 2], &options_nan), Error::Temperature(t) if t.is_nan()));
    let options_bias = Options { bias: Some(&[0.0; 5][..]), ..options };
    assert_eq!(run(shape, 2, &logits, [4, 4, 2], &options_bias), Error::Bias { got: 5, vocab: 3, logits: 6 });
    if let Some(isa) = Isa::ALL.into_iter().find(|isa| !isa.is_available()) {
        assert_eq!(run(shape, 2, &logits, [4, 4, 2], &on(isa)), Error::Unavailable(isa));
    }
}

/// What the documentation says of ordinary rows: an error far below the budget, which is for the worst.
#[test]
fn ordinary_rows_are_accurate_to_some_units_in_the_last_place() {
    for vocab in [1000, 32_000, 128_256] {
        let mut worst = 0.0_f64;
        for seed in 0..5 {
            let row = normal(vocab, 3.0, seed);
            for isa in Isa::available() {
                let (got, expected) = (run_f32(&row, 256, &on(isa), 0), oracle(&row, 256, 1.0));
                for (&got, &expected) in got.probs.iter().zip(&expected.probs) {
                    worst = worst.max((f64::from(got) - expected).abs() / expected);
                }
            }
        }
        let units = worst / f64::from(f32::EPSILON);
        println!(
            "vocab {vocab}: {units:.1} units in the last place, of {:.0} allowed",
            budget(vocab) / f64::from(f32::EPSILON)
        );
        assert!(units <= 4.0, "vocab {vocab}: {units}");
    }
}

/// The oracle itself, by a row worked by hand: odds of 1, 2 and 1.
#[test]
fn oracle_agrees_with_a_row_worked_by_hand() {
    let row = [0.0, std::f32::consts::LN_2, 0.0];
    let answer = oracle(&row, 2, 1.0);
    assert_eq!(answer.indices, [1, 0]);
    let near = |a: f64, b: f64| (a - b).abs() < 1e-7;
    assert!(near(answer.probs[0], 0.5) && near(answer.probs[1], 0.25) && near(answer.lse[0], 4.0_f64.ln()));
}
