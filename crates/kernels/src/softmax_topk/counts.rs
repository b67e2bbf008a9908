//! What a scan costs beside its one pass over the row, counted.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::scan::{Counts, Row, Scan, Scratch};
use crate::isa::Isa;
use crate::simd::{LogitOp, LogitSimd, Token, dispatch};

const ROWS: usize = 1000;
const VOCABS: [usize; 2] = [32_000, 128_256];
const KS: [usize; 4] = [1, 5, 50, 256];

/// Scans rows that begin at these places of the draws, one after another, and counts; returns the logits of a group beside.
struct Count<'a> {
    draws: &'a [f32],
    starts: &'a [usize],
    vocab: usize,
    k: usize,
    counts: &'a mut (Counts, usize),
}

impl LogitOp<f32> for Count<'_> {
    #[inline(always)]
    fn eval<S: LogitSimd<f32>>(self, simd: S) {
        let Count { draws, starts, vocab, k, counts } = self;
        let mut scratch = Scratch::new(k);
        for &start in starts {
            let row = Row { logits: &draws[start..start + vocab], bias: None, offset: 0 };
            Scan::<f32, S, false>::new(simd, row, std::f32::consts::LOG2_E, k, &mut scratch).run();
        }
        *counts = (scratch.counts, Scan::<f32, S, false>::GROUP_LEN);
    }
}

fn count(token: Token, draws: &[f32], starts: &[usize], vocab: usize, k: usize) -> (Counts, usize) {
    let mut counts = Default::default();
    let count = Count { draws, starts, vocab, k, counts: &mut counts };
    dispatch!(token, count);
    counts
}

fn normal_draws(len: usize) -> Vec<f32> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut uniform = || 1.0_f32 - rng.random::<f32>();
    (0..len).map(|_| (-2.0 * uniform().ln()).sqrt() * (std::f32::consts::TAU * uniform()).cos()).collect()
}

/// The table in the documentation of this module's parent, which must be what is counted here.
#[test]
fn candidates_and_groups_are_as_documented() {
    let draws = normal_draws(1 << 22);
    let documented = include_str!("mod.rs");
    let mut others = Vec::new();
    for isa in Isa::ALL {
        let Some(token) = Token::new(isa) else { continue };
        for k in KS {
            let each = VOCABS.map(|vocab| {
                let mut rng = ChaCha8Rng::seed_from_u64(k as u64);
                let starts: Vec<_> = (0..ROWS).map(|_| rng.random_range(0..draws.len() - vocab)).collect();
                let (counts, group_len) = count(token, &draws, &starts, vocab, k);
                let mean = |count: usize| count as f64 / ROWS as f64;
                let least = (k as f64) * (1.0 + (vocab as f64 / k as f64).ln());
                let (candidates, groups) = (mean(counts.candidates), mean(counts.groups));
                assert!(k as f64 <= candidates && candidates < least, "{isa}, {k} of {vocab}: {candidates}");
                let again = 100.0 * mean(counts.searched_again) / vocab as f64;
                assert!(again < 1.0, "{isa}, {k} of {vocab}: {again} % searched again");
                (candidates, groups, 100.0 * groups * group_len as f64 / vocab as f64, again)
            });
            let [a, b] = each;
            let digits = usize::from(k < 50);
            let row = format!(
                "//! | {k} | {:.digits$}, {:.digits$} | {:.0}, {:.0} | {:.1} %, {:.1} % | {:.2} %, {:.2} % |",
                a.0, b.0, a.1, b.1, a.2, b.2, a.3, b.3
            );
            println!("{isa}: {row}");
            if isa == Isa::Avx512 && !documented.contains(&row) {
                others.push(row);
            }
        }
    }
    assert!(others.is_empty(), "the documentation has other rows than\n{}", others.join("\n"));
}

/// In a vocabulary that begins with what is frequent more of the largest are in the first tile than the guess expects. That is seen before
/// the row is at its end, and the rows after it know.
#[test]
fn vocabularies_with_the_frequent_first_are_searched_again_in_part_and_once() {
    const VOCAB: usize = 50_257;
    const FREQUENT_FIRST: usize = 60;
    let mut draws = normal_draws(VOCAB * FREQUENT_FIRST);
    for (i, logit) in draws.iter_mut().enumerate() {
        *logit = 2.0 * *logit - 0.5 * ((1 + i % VOCAB) as f32).ln();
    }
    let starts: Vec<_> = (0..FREQUENT_FIRST).map(|row| row * VOCAB).collect();
    for isa in Isa::ALL {
        let Some(token) = Token::new(isa) else { continue };
        for k in [50, 256] {
            let again = |starts: &[usize]| {
                count(token, &draws, starts, VOCAB, k).0.searched_again as f64
                    / (VOCAB * FREQUENT_FIRST) as f64
            };
            let alone: f64 = starts.iter().map(|&start| again(&[start])).sum();
            let in_turn = again(&starts);
            println!(
                "{isa}, {k} of {VOCAB}: {:.1} % are searched again of rows alone, {:.1} % of rows in turn",
                100.0 * alone,
                100.0 * in_turn
            );
            assert!(alone > 0.05, "{isa}, {k}: the guess holds for rows alone, which shows nothing: {alone}");
            assert!(alone < 0.6, "{isa}, {k}: {alone} of the logits of rows alone are searched again");
            assert!(in_turn < 0.05, "{isa}, {k}: {in_turn} of the logits of rows in turn are searched again");
        }
    }
}

/// A row that falls lowers its threshold, and does not wait for its end; where fewer than `k` logits are finite there is nothing to lower.
#[test]
fn little_is_searched_again_of_falling_rows_and_nothing_of_masked_ones() {
    const VOCAB: usize = 128_256;
    const K: usize = 50;
    let falling: Vec<f32> = (0..VOCAB).map(|i| -1e-4 * i as f32).collect();
    let masked: Vec<f32> =
        (0..VOCAB).map(|i| if i % 9000 == 70 { i as f32 } else { f32::NEG_INFINITY }).collect();
    for isa in Isa::ALL {
        let Some(token) = Token::new(isa) else { continue };
        let again = |row: &[f32]| count(token, row, &[0], VOCAB, K).0.searched_again;
        let (falling, masked) = (again(&falling), again(&masked));
        println!(
            "{isa}: {falling} logits of {VOCAB} are searched again of a falling row, {masked} of a masked one"
        );
        assert!(
            0 < falling && 5 * falling < VOCAB,
            "{isa}: {falling} logits of a falling row are searched again"
        );
        assert_eq!(masked, 0, "{isa}");
    }
}
