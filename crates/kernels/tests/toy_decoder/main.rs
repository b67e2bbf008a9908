//! A decoder of two layers over the cache, against the same in f64 without a cache: in every layout, every format and however
//! its tokens come.

mod decoder;
mod oracle;
#[path = "../support/rounding.rs"]
mod rounding;

use decoder::{Decoder, HEAD_DIM, KV_HEADS, VOCAB, Weights, config};
use oracle::{Kept, Results, exactly, is_integer, largest, rotated, stored_within, with_errors};
use rounding::Rounding;
use tribunal_kernels::Isa;
use tribunal_kernels::kv_cache::{Config, Format, KvCache, Layout};

const SEQUENCES: usize = 3;
const MAX_LEN: usize = 48;
const LENGTHS: [usize; SEQUENCES] = [48, 29, 13];
/// The second sequence begins as the first does, and the third as the second.
const SHARED: [usize; SEQUENCES] = [0, 18, 7];

/// One thing that happens to a batch.
#[derive(Clone, Debug)]
enum Step {
    /// So many more tokens of each sequence, at most those that it has.
    Feed([usize; SEQUENCES]),
    /// One sequence continues another, which has as many tokens as they share.
    Fork(usize, usize),
    /// A sequence is dropped, and begins again.
    Release(usize),
}

fn token_ids() -> [Vec<usize>; SEQUENCES] {
    let mut ids = LENGTHS.map(|_| Vec::new());
    for s in 0..SEQUENCES {
        let own = (SHARED[s]..LENGTHS[s]).map(|i| (i * i * 7 + 13 * i + 29 * s + i * s * s) % VOCAB);
        ids[s] = ids[s.saturating_sub(1)].iter().copied().take(SHARED[s]).chain(own).collect();
    }
    ids
}

fn schedules() -> Vec<(&'static str, Vec<Step>)> {
    let every = |step: usize| vec![Step::Feed([step; SEQUENCES]); MAX_LEN.div_ceil(step)];
    let ragged = (0..60).map(|i| Step::Feed([i % 3, i * i % 5 % 3, usize::from(i % 4 == 1)])).collect();
    let alone = |s: usize, step: usize| {
        let mut feed = [0; SEQUENCES];
        feed[s] = step;
        Step::Feed(feed)
    };
    let one_by_one = vec![alone(2, 13), alone(0, 48), alone(1, 28), alone(1, 1)];
    let mut forked = vec![alone(0, 18), Step::Fork(0, 1), alone(0, 3), alone(1, 2)];
    forked.extend(vec![Step::Feed([3, 2, 1]); 20]);
    let mut twice = vec![alone(0, 7), Step::Fork(0, 2), alone(0, 11), Step::Fork(0, 1)];
    twice.extend(vec![Step::Feed([1; SEQUENCES]); MAX_LEN]);
    let mut anew = vec![Step::Feed([20, 20, 5]), Step::Release(1), Step::Feed([5, 0, 5])];
    anew.extend([Step::Release(0), Step::Feed([10, 29, 3])]);
    anew.extend(vec![Step::Feed([9, 0, 1]); 6]);
    vec![
        ("one prefill", every(MAX_LEN)),
        ("token by token", every(1)),
        ("in steps of 5", every(5)),
        ("in steps of 16", every(16)),
        ("ragged", ragged),
        ("one sequence after another", one_by_one),
        ("forked", forked),
        ("forked twice", twice),
        ("released and begun again", anew),
    ]
}

/// The logits of all tokens of all sequences, `[sequences][tokens][VOCAB]`, and the cache that is left.
fn run(
    weights: &Weights,
    format: Format,
    layout: Layout,
    isa: Isa,
    steps: &[Step],
) -> (Vec<Vec<Vec<f32>>>, KvCache) {
    let cache = KvCache::new(config(SEQUENCES, MAX_LEN, format, layout)).expect("a cache");
    let mut decoder = Decoder { weights, cache, isa };
    let ids = token_ids();
    let mut logits: Vec<Vec<Vec<f32>>> = vec![Vec::new(); SEQUENCES];
    for step in steps {
        match *step {
            Step::Feed(counts) => {
                let new = |s: usize| {
                    let start = logits[s].len();
                    ids[s][start..LENGTHS[s].min(start + counts[s])].to_vec()
                };
                let new: Vec<Vec<usize>> = (0..SEQUENCES).map(new).collect();
                for (logits, new) in logits.iter_mut().zip(decoder.feed(&new)) {
                    logits.extend(new);
                }
            }
            Step::Fork(from, to) => {
                decoder.cache.fork(from, to).expect("it is empty");
                logits[to] = logits[from].clone();
            }
            Step::Release(s) => {
                decoder.cache.release(s).expect("there is such a sequence");
                logits[s].clear();
            }
        }
    }
    assert_eq!([0, 1, 2].map(|s: usize| logits[s].len()), LENGTHS, "the schedule feeds everything");
    (logits, decoder.cache)
}

/// What comes of a sequence, and how far off it may be, see [`budgets`].
struct Budgets {
    exact: Results,
    /// `[tokens]`
    logits: Vec<f64>,
    /// Of keys and values before they are stored, `[LAYERS * tokens]`.
    kept: [Vec<f64>; 2],
}

/// How often signs are drawn.
const DRAWS: u64 = 24;

/// How far logits may be off, `[tokens]`, and keys and values before they are stored, `[LAYERS * tokens]` each.
///
/// Let every rounding that the decoder makes be as large as it can be, by the documented bounds where it is the library's:
/// `h`, which changes a logit by `J h`. Roundings that are independent and lean to no side change it together by more than
/// `t sqrt(sum J^2 h^2)` with a probability of `2 exp(-t^2 / 2)` at most (Hoeffding 1963). That root is also the deviation
/// that errors of these sizes have whose signs are drawn at random, which is how it is found: the largest among the logits
/// of a token over some draws. With `t = 6` and 75 000 logits, one such test in 400 fails by chance if all errors are as
/// large as their bounds, which they are not.
fn budgets(weights: &Weights, tokens: &[usize], kept: Kept<'_>, rounding: Rounding) -> Budgets {
    let exact = exactly(weights, tokens, kept);
    let draws: Vec<Results> =
        (0..DRAWS).map(|seed| with_errors(weights, tokens, kept, rounding, seed)).collect();
    let budget = |rows: fn(&Results) -> &Vec<Vec<f64>>| -> Vec<f64> {
        let exact = rows(&exact);
        let deviation = |row: usize, c: usize| {
            let squares = draws.iter().map(|draw| (rows(draw)[row][c] - exact[row][c]).powi(2));
            (squares.sum::<f64>() / DRAWS as f64).sqrt()
        };
        let row = |row: usize| (0..exact[row].len()).map(|c| 6.0 * deviation(row, c)).fold(0.0, f64::max);
        (0..exact.len()).map(row).collect()
    };
    Budgets {
        logits: budget(|results| &results.logits),
        kept: [budget(|results| &results.kept[0]), budget(|results| &results.kept[1])],
        exact,
    }
}

impl Budgets {
    /// Asserts that logits are within their budgets.
    fn assert_logits(&self, got: &[Vec<f32>], context: &str) {
        assert_eq!(got.len(), self.logits.len(), "{context}");
        for (token, (got, &budget)) in got.iter().zip(&self.logits).enumerate() {
            for (id, (&got, exact)) in got.iter().zip(&self.exact.logits[token]).enumerate() {
                let off = (f64::from(got) - exact).abs();
                assert!(
                    off <= budget,
                    "{context}: logit {id} of token {token} is {got}, not {exact}: {off:e} off where {budget:e} is all"
                );
            }
        }
    }

    /// Asserts that a cache has the keys and values that were computed for a sequence, as its format rounds them; integer
    /// keys, which are rounded rotated, are compared so.
    fn assert_stored(&self, cache: &KvCache, sequence: usize, context: &str) {
        let Config { layers, format, .. } = *cache.config();
        let len = self.logits.len();
        for (layer, token) in (0..layers).flat_map(|layer| (0..len).map(move |token| (layer, token))) {
            let [mut k, mut v] = [[0.0; KV_HEADS * HEAD_DIM]; 2];
            cache.read(layer, sequence, token..token + 1, &mut k, &mut v).expect("the token is there");
            for (plane, stored) in [k, v].into_iter().enumerate() {
                let rotates = plane == 0 && is_integer(format);
                let (computed, budget) =
                    (&self.exact.kept[plane][layer * len + token], self.kept[plane][layer * len + token]);
                for (stored, computed) in stored.chunks(HEAD_DIM).zip(computed.chunks(HEAD_DIM)) {
                    let stored: Vec<f64> = stored.iter().map(|&x| f64::from(x)).collect();
                    let [stored, computed] = [stored.as_slice(), computed]
                        .map(|head| if rotates { rotated(head) } else { head.to_vec() });
                    // What has been rotated is a sum of so many values that are off.
                    let budget = if rotates { budget * (HEAD_DIM as f64).sqrt() } else { budget };
                    let largest = largest(&computed) + budget;
                    for (stored, computed) in stored.iter().zip(&computed) {
                        let rounding = stored_within(format, computed.abs() + budget, largest);
                        assert!(
                            (stored - computed).abs() <= rounding + budget,
                            "{context}, layer {layer}, token {token}, {}: {stored}, not {computed}",
                            ["key", "value"][plane]
                        );
                    }
                }
            }
        }
    }
}

fn paged(block_len: usize) -> Layout {
    Layout::Paged { block_len, blocks: SEQUENCES * MAX_LEN.div_ceil(block_len) }
}

fn layouts() -> Vec<Layout> {
    [Layout::Contiguous].into_iter().chain([1, 5, 16, 48, 64].map(paged)).collect()
}

/// How much the logits of the last token change at most when the first of its context is another.
fn felt(weights: &Weights, tokens: &[usize]) -> f64 {
    let mut others = tokens.to_vec();
    others[0] = (tokens[0] + 1) % VOCAB;
    let last = |tokens: &[usize]| exactly(weights, tokens, Kept::Computed(Format::F32)).logits.pop();
    let (ours, theirs) = (last(tokens).expect("a token"), last(&others).expect("a token"));
    ours.iter().zip(theirs).map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f64::max)
}

/// Fed the keys and values as they are stored, the oracle leaves room for errors of f32, and for queries that are rounded to meet integer
/// keys; fed its own, for what the format does to these too. One token of the context must matter three times as much as
/// there is room; but what 4 bits may do at worst is as large as the logits.
#[test]
fn logits_are_those_of_the_decoder_without_a_cache() {
    let (weights, ids) = (Weights::new(3), token_ids());
    for format in Format::ALL {
        for (s, ids) in ids.iter().enumerate() {
            let felt = felt(&weights, ids);
            for isa in Isa::available() {
                let rounding = Rounding::of(format, isa);
                let at_worst = budgets(&weights, ids, Kept::Computed(format), rounding);
                assert!(format == Format::Int4 || felt > 3.0 * at_worst.logits[ids.len() - 1]);
                for layout in [Layout::Contiguous, paged(5)] {
                    let prefill = [Step::Feed(LENGTHS)];
                    let (got, cache) = run(&weights, format, layout, isa, &prefill);
                    let context = format!("{}, {isa}, {layout:?}, sequence {s}", format.name());
                    let as_stored = budgets(&weights, ids, Kept::Stored(&cache, s), rounding);
                    assert!(felt > 3.0 * as_stored.logits[ids.len() - 1], "{context}");
                    as_stored.assert_stored(&cache, s, &context);
                    as_stored.assert_logits(&got[s], &format!("{context}, as stored"));
                    at_worst.assert_logits(&got[s], &context);
                }
            }
        }
    }
}

/// What attention promises for layouts and chunks holds for the whole decoder, to the bit; among layouts, for those in which
/// blocks have a multiple of 16 tokens.
#[test]
fn logits_depend_neither_on_the_layout_nor_on_how_tokens_come() {
    let weights = Weights::new(3);
    for format in Format::ALL {
        for isa in Isa::available() {
            let prefill = [Step::Feed(LENGTHS)];
            for layout in layouts() {
                let cut_alike = match layout {
                    Layout::Paged { block_len, .. } if !block_len.is_multiple_of(16) => layout,
                    _ => Layout::Contiguous,
                };
                let (expected, _) = run(&weights, format, cut_alike, isa, &prefill);
                for (name, steps) in schedules() {
                    let (got, _) = run(&weights, format, layout, isa, &steps);
                    assert!(got == expected, "{}, {layout:?}, {name}, {isa}", format.name());
                }
            }
        }
    }
}
