//! The cache against a model that copies everything: what is stored, what is shared, what is refused.

mod support;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use support::attention::{FLOATS, Model, append_both, ask, check, filled, normal, rounded, window};
use tribunal_kernels::attention::Options;
use tribunal_kernels::kv_cache::{Config, Format, KvCache, KvCacheError, Layout};

const SMALL: Config = Config {
    layers: 2,
    sequences: 3,
    kv_heads: 2,
    head_dim: 5,
    max_len: 20,
    format: Format::F32,
    layout: Layout::Contiguous,
};

fn paged(block_len: usize, blocks: usize) -> Config {
    Config { layout: Layout::Paged { block_len, blocks }, ..SMALL }
}

/// Asserts that the cache holds what the model holds.
fn assert_same(cache: &KvCache, model: &Model) {
    let Config { layers, sequences, kv_heads, head_dim, .. } = *cache.config();
    assert_eq!(cache.free_blocks(), model.free_blocks());
    for layer in 0..layers {
        let lengths = model.lengths(layer);
        assert_eq!(cache.lengths(layer), Ok(lengths.as_slice()));
        assert_eq!(lengths.len(), sequences);
        for (s, &len) in lengths.iter().enumerate() {
            let (mut k, mut v) = (vec![0.0; kv_heads * len * head_dim], vec![0.0; kv_heads * len * head_dim]);
            cache.read(layer, s, 0..len, &mut k, &mut v).expect("the tokens are there");
            for (i, token) in model.tokens[layer][s].iter().enumerate() {
                for (plane, got) in token.iter().zip([&k, &v]) {
                    for (h, row) in plane.chunks(head_dim).enumerate() {
                        let at = (h * len + i) * head_dim;
                        assert_eq!(
                            &got[at..at + head_dim],
                            row,
                            "layer {layer}, sequence {s}, token {i}, head {h}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn tokens_come_back_as_they_were_rounded() {
    for format in Format::ALL {
        for head_dim in [1, 15, 16, 17, 64] {
            for layout in [Layout::Contiguous, Layout::Paged { block_len: 3, blocks: 20 }] {
                let config = Config { format, head_dim, layout, ..SMALL };
                let (mut cache, mut model) = filled(config, &[4, 0, 11], 3);
                assert_same(&cache, &model);
                append_both(&mut cache, &mut model, 1, 5, &[5, 2, 0], 7).expect("there is room");
                assert_same(&cache, &model);
            }
        }
    }
}

#[test]
fn extreme_values_are_rounded_as_the_half_crate_does() {
    let values =
        [0.0, -0.0, 1e-45, 6e-8, 65504.0, 65519.0, 65520.0, 3.4e38, f32::INFINITY, f32::NEG_INFINITY];
    for format in FLOATS {
        let config = Config { format, head_dim: values.len(), layers: 1, sequences: 1, kv_heads: 1, ..SMALL };
        let mut cache = KvCache::new(config).expect("a cache");
        cache.append(0, &values, &values, &[1]).expect("there is room");
        let (mut k, mut v) = ([1.0; 10], [1.0; 10]);
        cache.read(0, 0, 0..1, &mut k, &mut v).expect("the token is there");
        let bits = |values: [f32; 10]| values.map(f32::to_bits);
        assert_eq!(bits(k), bits(values.map(|x| rounded(format, x))), "{}", format.name());
        assert_eq!(bits(k), bits(v));
    }
}

/// Tokens share bytes, and a NaN may have any of the bits that are rounded from.
#[test]
fn a_row_of_nan_leaves_the_tokens_beside_it_alone() {
    for format in Format::ALL {
        let config = Config { format, head_dim: 16, layers: 1, sequences: 1, kv_heads: 1, ..SMALL };
        let tokens = |nan: Option<usize>| {
            let mut cache = KvCache::new(config).expect("a cache");
            let (k, v) = (normal(20 * 16, 1.0, 1), normal(20 * 16, 1.0, 2));
            for (i, (k, v)) in k.chunks(16).zip(v.chunks(16)).enumerate() {
                let nans = [f32::from_bits(0x7fc0_ffff); 16];
                let (k, v) = if nan == Some(i) { (&nans[..], &nans[..]) } else { (k, v) };
                cache.append(0, k, v, &[1]).expect("there is room");
            }
            let (mut k, mut v) = (vec![0.0; 20 * 16], vec![0.0; 20 * 16]);
            cache.read(0, 0, 0..20, &mut k, &mut v).expect("the tokens are there");
            [k, v].map(|rows| rows.chunks(16).map(<[f32]>::to_vec).collect::<Vec<_>>())
        };
        let good = tokens(None);
        for nan in 0..20 {
            for (good, got) in good.iter().zip(tokens(Some(nan))) {
                for (i, (good, got)) in good.iter().zip(got).enumerate() {
                    let context = format!("token {i} beside {nan}, {}: {got:?}", format.name());
                    if i == nan {
                        assert!(got.iter().all(|x| x.is_nan()), "{context}");
                    } else {
                        assert!(*good == got, "{context}");
                    }
                }
            }
        }
    }
}

#[test]
fn bytes_are_those_of_the_rows() {
    for format in Format::ALL {
        let paged = Layout::Paged { block_len: 16, blocks: 100 };
        for (layout, block_len, blocks) in [(Layout::Contiguous, 4096, 16), (paged, 16, 100)] {
            let config = Config {
                layers: 3,
                sequences: 16,
                kv_heads: 8,
                head_dim: 128,
                max_len: 4096,
                format,
                layout,
            };
            let cache = KvCache::new(config).expect("a cache");
            assert_eq!(
                cache.nbytes(),
                3 * 2 * 8 * blocks * block_len * format.row_bytes(128),
                "{}",
                format.name()
            );
            let ideal = 3 * 2 * 8 * blocks * block_len * 128 * format.bits() / 8;
            assert!(cache.nbytes() as f64 <= 1.07 * ideal as f64, "{}", format.name());
        }
    }
}

#[test]
fn blocks_are_taken_when_the_last_is_full() {
    for len in [3, 4, 5, 7, 8, 9] {
        let (cache, model) = filled(paged(4, 12), &[len, 0, 1], 3);
        assert_eq!(cache.free_blocks(), 12 - usize::div_ceil(len, 4) - 1);
        assert_same(&cache, &model);
    }
}

#[test]
fn sequences_fill_to_max_len_and_no_further() {
    for config in [SMALL, paged(7, 9)] {
        let (mut cache, mut model) = filled(config, &[20, 19, 1], 3);
        let error = append_both(&mut cache, &mut model, 0, 2, &[0, 2, 1], 7);
        assert_eq!(error, Err(KvCacheError::Full { sequence: 1, len: 19, length: 2, max_len: 20 }));
        assert_same(&cache, &model);
        append_both(&mut cache, &mut model, 0, 2, &[0, 1, 2], 7).expect("there is room");
        assert_same(&cache, &model);
    }
}

#[test]
fn a_batch_that_is_short_of_blocks_changes_no_sequence() {
    let (mut cache, mut model) = filled(paged(4, 5), &[4, 4, 4], 3);
    let error = append_both(&mut cache, &mut model, 0, 1, &[1, 1, 1], 7);
    assert_eq!(error, Err(KvCacheError::OutOfBlocks { needed: 3, free: 2 }));
    assert_same(&cache, &model);
    append_both(&mut cache, &mut model, 0, 1, &[1, 0, 1], 7).expect("there is room");
    assert_same(&cache, &model);
    cache.release(1).expect("there is such a sequence");
    model.release(1);
    append_both(&mut cache, &mut model, 1, 4, &[0, 4, 0], 7).expect("a block was released");
    assert_same(&cache, &model);
}

#[test]
fn forks_are_independent_and_copied_when_written() {
    for config in [SMALL, paged(4, 12)] {
        let (mut cache, mut model) = filled(config, &[6, 0, 0], 3);
        let free = cache.free_blocks();
        cache.fork(0, 1).expect("it is empty");
        cache.fork(1, 2).expect("it is empty");
        assert!(model.fork(0, 1) && model.fork(1, 2));
        assert_eq!(cache.free_blocks(), free, "a fork takes no block");
        assert_same(&cache, &model);
        append_both(&mut cache, &mut model, 0, 3, &[3, 1, 2], 7).expect("there is room");
        assert_same(&cache, &model);
        cache.release(0).expect("there is such a sequence");
        model.release(0);
        append_both(&mut cache, &mut model, 1, 3, &[3, 1, 2], 9).expect("there is room");
        assert_same(&cache, &model);
        assert_eq!(cache.fork(1, 2), Err(KvCacheError::InUse(2)));
        assert_eq!(cache.fork(1, 1), Err(KvCacheError::InUse(1)));
        assert_same(&cache, &model);
    }
}

/// Of two holders that both write, one copies; there need not be a block for the other.
#[test]
fn the_last_holder_of_a_block_writes_in_place() {
    let (mut cache, mut model) = filled(paged(4, 2), &[2, 0, 0], 3);
    cache.fork(0, 1).expect("it is empty");
    assert!(model.fork(0, 1));
    append_both(&mut cache, &mut model, 0, 1, &[1, 1, 0], 7).expect("one copy has room");
    assert_same(&cache, &model);
    assert_eq!(cache.free_blocks(), 0);
}

#[test]
fn errors_name_what_is_wrong_and_change_nothing() {
    let (mut cache, model) = filled(paged(4, 12), &[6, 0, 1], 3);
    let token = 3 * 2 * 5;
    let rows = vec![9.0; 2 * token];
    let length = |buffer, expected, got| Err(KvCacheError::Length { buffer, expected, got });
    assert_eq!(cache.append(2, &rows, &rows, &[1; 3]), Err(KvCacheError::Layer { layer: 2, layers: 2 }));
    assert_eq!(cache.append(0, &rows[1..], &rows, &[1; 3]), length("k", token, 2 * token - 1));
    assert_eq!(cache.append(0, &rows, &rows[1..], &[1; 3]), length("v", 2 * token, 2 * token - 1));
    assert_eq!(cache.append(0, &rows, &rows, &[1; 2]), length("lengths", 3, 2));
    assert_eq!(
        cache.append(0, &rows, &rows, &[1, 3, 0]),
        Err(KvCacheError::Valid { sequence: 1, length: 3, given: 2 })
    );
    assert_eq!(
        cache.append(0, &rows, &rows, &[1, usize::MAX, 0]),
        Err(KvCacheError::Valid { sequence: 1, length: usize::MAX, given: 2 })
    );
    let no_sequence = Err(KvCacheError::Sequence { sequence: 3, sequences: 3 });
    assert_eq!(cache.release(3), no_sequence);
    assert_eq!(cache.fork(3, 1), no_sequence);
    assert_eq!(cache.fork(0, 3), no_sequence);
    let (mut k, mut v) = (vec![-7.0; 20], vec![-7.0; 20]);
    assert_eq!(cache.read(0, 3, 0..2, &mut k, &mut v), no_sequence);
    assert_eq!(
        cache.read(0, 2, 0..2, &mut k, &mut v),
        Err(KvCacheError::Missing { sequence: 2, end: 2, len: 1 })
    );
    assert_eq!(cache.read(0, 0, 0..3, &mut k, &mut v), length("k", 30, 20));
    assert!(k.iter().chain(&v).all(|&x| x == -7.0));
    assert_eq!(cache.lengths(2), Err(KvCacheError::Layer { layer: 2, layers: 2 }));
    assert_same(&cache, &model);
}

#[test]
fn sizes_that_make_no_cache() {
    for (name, config) in [
        ("layers", Config { layers: 0, ..SMALL }),
        ("sequences", Config { sequences: 0, ..SMALL }),
        ("kv_heads", Config { kv_heads: 0, ..SMALL }),
        ("head_dim", Config { head_dim: 0, ..SMALL }),
        ("max_len", Config { max_len: 0, ..SMALL }),
        ("block_len", paged(0, 3)),
        ("blocks", paged(3, 0)),
    ] {
        assert_eq!(KvCache::new(config).expect_err("an error"), KvCacheError::Zero(name));
    }
    for config in [
        Config { max_len: usize::MAX, ..SMALL },
        Config { head_dim: usize::MAX, ..SMALL },
        Config { layers: usize::MAX / 1000, ..SMALL },
        paged(1 << 40, 1 << 20),
        paged(1, u32::MAX as usize + 1),
    ] {
        assert_eq!(KvCache::new(config).expect_err("an error"), KvCacheError::TooLarge(config));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append { layer: usize, t: usize, lengths: Vec<usize> },
    Release(usize),
    Fork(usize, usize),
    Attend { layer: usize, t: usize, lengths: Vec<usize>, window: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let tokens = || {
        (0..2_usize, 1..6_usize)
            .prop_flat_map(|(layer, t)| (Just(layer), Just(t), prop::collection::vec(0..=t, SMALL.sequences)))
    };
    prop_oneof![
        5 => tokens().prop_map(|(layer, t, lengths)| Step::Append { layer, t, lengths }),
        1 => (0..SMALL.sequences).prop_map(Step::Release),
        2 => (0..SMALL.sequences, 0..SMALL.sequences).prop_map(|(from, to)| Step::Fork(from, to)),
        2 => (tokens(), 1..30_usize)
            .prop_map(|((layer, t, lengths), window)| Step::Attend { layer, t, lengths, window }),
    ]
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Contiguous),
        (1..9_usize, 1..30_usize).prop_map(|(block_len, blocks)| Layout::Paged { block_len, blocks }),
    ]
}

/// Does some steps to a cache and to the model.
fn take(steps: &[Step], config: Config) -> Result<(), TestCaseError> {
    let (mut cache, mut model) = (KvCache::new(config).expect("a cache"), Model::new(config));
    for (i, step) in steps.iter().enumerate() {
        let seed = 2 * i as u64;
        match step {
            Step::Append { layer, t, lengths } => {
                // Whether it is done is compared with the model; why it may be refused is known.
                match append_both(&mut cache, &mut model, *layer, *t, lengths, seed) {
                    Ok(()) | Err(KvCacheError::Full { .. }) => {}
                    Err(KvCacheError::OutOfBlocks { .. }) => {
                        prop_assert!(config.layout != Layout::Contiguous)
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
            }
            Step::Release(sequence) => {
                cache.release(*sequence).expect("there is such a sequence");
                model.release(*sequence);
            }
            Step::Fork(from, to) => {
                prop_assert_eq!(cache.fork(*from, *to).is_ok(), model.fork(*from, *to));
            }
            Step::Attend { layer, t, lengths, window: tokens } => {
                let asked = ask(&config, 4, *t, lengths, seed);
                check(&cache, &model, *layer, &asked, &window(*tokens), "after some steps");
                check(&cache, &model, *layer, &asked, &Options::default(), "after some steps");
            }
        }
        assert_same(&cache, &model);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// A thread of a pool has the others write with it, where one outside writes so few tokens alone.
    #[test]
    fn any_sequence_of_steps_leaves_what_the_model_has(
        steps in prop::collection::vec(step(), 1..40),
        layout in layout(),
        format in prop::sample::select(Format::ALL.to_vec()),
        threads in prop::option::of(1..5_usize),
    ) {
        let config = Config { layout, format, ..SMALL };
        match threads {
            None => take(&steps, config)?,
            Some(threads) => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
                pool.install(|| take(&steps, config))?;
            }
        }
    }
}

#[test]
fn large_storage_is_zeroed_and_found_again() {
    let config = Config { layers: 1, sequences: 2, kv_heads: 1, head_dim: 64, max_len: 20_000, ..SMALL };
    let mut cache = KvCache::new(config).expect("a cache");
    let rows = normal(2 * 64, 1.0, 3);
    for _ in 0..3 {
        cache.append(0, &rows, &rows, &[1, 1]).expect("there is room");
    }
    let (mut k, mut v) = (vec![0.0; 64], vec![0.0; 64]);
    cache.read(0, 1, 2..3, &mut k, &mut v).expect("the token is there");
    assert_eq!((&k, &v), (&rows[64..].to_vec(), &rows[64..].to_vec()));
}
