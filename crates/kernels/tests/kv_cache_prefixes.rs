//! Prefixes that are found again, against a list of all that was ever remembered.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tribunal_kernels::kv_cache::{Config, Format, KvCache, KvCacheError, Layout};

const LAYERS: usize = 2;
const SEQUENCES: usize = 3;
const MAX_LEN: usize = 14;
const HEAD_DIM: usize = 2;

fn cache(layout: Layout) -> KvCache {
    KvCache::new(Config {
        layers: LAYERS,
        sequences: SEQUENCES,
        kv_heads: 1,
        head_dim: HEAD_DIM,
        max_len: MAX_LEN,
        format: Format::F32,
        layout,
    })
    .expect("a cache")
}

/// A key that depends on its token and all before it, as a decoder's do. Few enough bits for an f32.
fn key(layer: usize, ids: &[u32]) -> [f32; HEAD_DIM] {
    let hash = ids.iter().fold(layer as u64 + 1, |hash, &id| (hash * 31 + u64::from(id) + 7) % 1_000_003);
    [hash as f32, -(hash as f32)]
}

/// Appends the tokens of a sequence that it does not have yet to all layers.
fn complete(cache: &mut KvCache, sequence: usize, ids: &[u32]) -> Result<(), KvCacheError> {
    for layer in 0..LAYERS {
        let len = cache.lengths(layer).expect("a layer")[sequence];
        let new = ids.len() - len;
        let mut k = vec![f32::NAN; SEQUENCES * new * HEAD_DIM];
        let rows = (len..ids.len()).flat_map(|i| key(layer, &ids[..=i]));
        for (k, value) in k[sequence * new * HEAD_DIM..].iter_mut().zip(rows) {
            *k = value;
        }
        let mut lengths = [0; SEQUENCES];
        lengths[sequence] = new;
        cache.append(layer, &k, &k, &lengths)?;
    }
    Ok(())
}

fn assert_holds(cache: &KvCache, sequence: usize, ids: &[u32]) {
    for layer in 0..LAYERS {
        assert_eq!(cache.lengths(layer).expect("a layer")[sequence], ids.len());
        let [mut k, mut v] = [vec![0.0; ids.len() * HEAD_DIM], vec![0.0; ids.len() * HEAD_DIM]];
        cache.read(layer, sequence, 0..ids.len(), &mut k, &mut v).expect("the tokens are there");
        let expected: Vec<f32> = (0..ids.len()).flat_map(|i| key(layer, &ids[..=i])).collect();
        assert_eq!((&k, &v), (&expected, &expected), "layer {layer} of sequence {sequence}: {ids:?}");
    }
}

fn paged(block_len: usize, blocks: usize) -> Layout {
    Layout::Paged { block_len, blocks }
}

#[test]
fn full_blocks_are_found_and_shared_while_held_and_after() {
    let mut cache = cache(paged(4, 12));
    let ids: Vec<u32> = (0..14).collect();
    complete(&mut cache, 0, &ids[..11]).expect("there is room");
    cache.remember(0, &ids[..11]).expect("they are there");
    assert_eq!(cache.recall(1, &ids), Ok(8));
    assert_holds(&cache, 1, &ids[..8]);
    assert_eq!(cache.free_blocks(), 12 - 3, "two blocks have two holders");
    complete(&mut cache, 1, &ids).expect("there is room");
    assert_holds(&cache, 0, &ids[..11]);
    cache.release(0).expect("a sequence");
    cache.release(1).expect("a sequence");
    assert_eq!(cache.free_blocks(), 12);
    assert_eq!(cache.recall(2, &ids[..7]), Ok(4), "only blocks that are asked for whole");
    assert_holds(&cache, 2, &ids[..4]);
    cache.release(2).expect("a sequence");
    assert_eq!(cache.recall(2, &[0, 1, 2, 9, 4, 5, 6, 7]), Ok(0));
    assert_eq!(cache.recall(2, &ids[4..]), Ok(0), "the same tokens at another place are others");
    assert_eq!(cache.recall(2, &[]), Ok(0));
}

/// Of five blocks, one sequence leaves two that are remembered, and then another.
#[test]
fn space_is_taken_from_what_was_left_first_and_from_its_end() {
    let mut cache = cache(paged(4, 5));
    let (first, second): (Vec<u32>, Vec<u32>) = ((0..8).collect(), (100..108).collect());
    for ids in [&first, &second] {
        complete(&mut cache, 0, ids).expect("there is room");
        cache.remember(0, ids).expect("they are there");
        cache.release(0).expect("a sequence");
    }
    complete(&mut cache, 1, &[7; 8]).expect("there is room");
    assert_eq!(cache.recall(0, &first), Ok(4), "one block was free, and the end of the first was given away");
    assert_eq!(cache.recall(2, &second), Ok(8));
    assert_eq!(cache.free_blocks(), 0);
    let full = complete(&mut cache, 0, &first);
    assert_eq!(
        full,
        Err(KvCacheError::OutOfBlocks { needed: 1, free: 0 }),
        "blocks that are held are not given away"
    );
    assert_holds(&cache, 2, &second);
    cache.release(0).expect("a sequence");
    complete(&mut cache, 1, &[7; 12]).expect("the start of the first was given away");
    assert_eq!(cache.recall(0, &first), Ok(0));
}

#[test]
fn errors_name_what_is_wrong_and_change_nothing() {
    let mut cache = cache(paged(4, 12));
    let ids: Vec<u32> = (0..8).collect();
    complete(&mut cache, 0, &ids).expect("there is room");
    let no_sequence = KvCacheError::Sequence { sequence: SEQUENCES, sequences: SEQUENCES };
    assert_eq!(cache.remember(SEQUENCES, &ids), Err(no_sequence.clone()));
    assert_eq!(cache.recall(SEQUENCES, &ids), Err(no_sequence));
    assert_eq!(cache.recall(0, &ids), Err(KvCacheError::InUse(0)));
    let full = KvCacheError::Full { sequence: 1, len: 0, length: 15, max_len: MAX_LEN };
    assert_eq!(cache.recall(1, &[0; 15]), Err(full));
    // A token that only one layer has is not there.
    let row = [1.0; SEQUENCES * HEAD_DIM];
    cache.append(0, &row, &row, &[1, 0, 0]).expect("there is room");
    let missing = KvCacheError::Missing { sequence: 0, end: 9, len: 8 };
    assert_eq!(cache.remember(0, &[0; 9]), Err(missing));
    assert_eq!(cache.recall(1, &[0; 9]), Ok(0));
}

#[derive(Clone, Debug)]
enum Step {
    /// A sequence is dropped and begins again: with what is found, and then with the rest.
    Prompt(usize, Vec<u32>),
    /// A sequence goes on, and is remembered or not.
    Go(usize, Vec<u32>, bool),
    Fork(usize, usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let ids = |len| prop::collection::vec(0..2_u32, 0..len);
    let sequence = || 0..SEQUENCES;
    prop_oneof![
        4 => (sequence(), ids(MAX_LEN + 1)).prop_map(|(sequence, ids)| Step::Prompt(sequence, ids)),
        3 => (sequence(), ids(5), any::<bool>()).prop_map(|(sequence, ids, keep)| Step::Go(sequence, ids, keep)),
        1 => (sequence(), sequence()).prop_map(|(from, to)| Step::Fork(from, to)),
        1 => sequence().prop_map(Step::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// What is found is never anything but what was remembered, and all of it where space was never short.
    #[test]
    fn prefixes_that_are_found_are_those_that_were_remembered(
        steps in prop::collection::vec(step(), 1..40),
        block_len in 1..6_usize,
        ample in any::<bool>(),
        contiguous in prop::bool::weighted(0.1),
        few in 1..20_usize,
    ) {
        let layout = if contiguous {
            Layout::Contiguous
        } else {
            paged(block_len, if ample { 1000 } else { few })
        };
        let block_len = if contiguous { MAX_LEN } else { block_len };
        let mut cache = cache(layout);
        let mut has: [Vec<u32>; SEQUENCES] = Default::default();
        let mut remembered = BTreeSet::<Vec<u32>>::new();
        for step in steps {
            match step {
                Step::Prompt(sequence, ids) => {
                    cache.release(sequence).expect("a sequence");
                    let found = cache.recall(sequence, &ids).expect("it is empty");
                    let whole = (1..=ids.len() / block_len).map(|blocks| blocks * block_len);
                    let known = whole.take_while(|&end| remembered.contains(&ids[..end])).last().unwrap_or(0);
                    prop_assert!(found <= known && found.is_multiple_of(block_len));
                    prop_assert!(found == known || !ample);
                    has[sequence] = ids[..found].to_vec();
                    assert_holds(&cache, sequence, &has[sequence]);
                    if complete(&mut cache, sequence, &ids).is_ok() {
                        has[sequence] = ids;
                    } else {
                        prop_assert!(!ample && !contiguous);
                        // One layer may have been appended to.
                        cache.release(sequence).expect("a sequence");
                        has[sequence].clear();
                    }
                }
                Step::Go(sequence, more, keep) => {
                    let ids: Vec<u32> = [has[sequence].as_slice(), &more].concat();
                    if ids.len() <= MAX_LEN && complete(&mut cache, sequence, &ids).is_ok() {
                        has[sequence] = ids;
                    } else {
                        cache.release(sequence).expect("a sequence");
                        has[sequence].clear();
                    }
                    if keep {
                        cache.remember(sequence, &has[sequence]).expect("the tokens are there");
                        let ends = (1..=has[sequence].len() / block_len).map(|blocks| blocks * block_len);
                        remembered.extend(ends.map(|end| has[sequence][..end].to_vec()));
                    }
                }
                Step::Fork(from, to) => {
                    if cache.fork(from, to).is_ok() {
                        has[to] = has[from].clone();
                    }
                }
                Step::Release(sequence) => {
                    cache.release(sequence).expect("a sequence");
                    has[sequence].clear();
                }
            }
            for (sequence, ids) in has.iter().enumerate() {
                assert_holds(&cache, sequence, ids);
            }
        }
        for sequence in 0..SEQUENCES {
            cache.release(sequence).expect("a sequence");
        }
        let all = match layout {
            Layout::Contiguous => SEQUENCES,
            Layout::Paged { blocks, .. } => blocks,
        };
        prop_assert_eq!(cache.free_blocks(), all, "every block is free in the end");
    }
}
