//! How far attention is off where keys and values are kept in fewer bits: two honest caches need not be equally good.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tribunal_contract::{DType, StateId, Tensor};
use tribunal_runner::Trouble;

use super::calls;
use super::config::Config;
use super::model::{Model, Tokens};
use super::recipes::Contents;
use super::spread::Spread;
use crate::workload::{Error, Rounds};
use crate::{Plan, Subject};

/// A context, long enough for a drift to show, of heads as large as models have them.
const SHAPE: Config = Config {
    layers: 1,
    batch: 1,
    heads: 8,
    kv_heads: 2,
    head_dim: 128,
    max_len: 1024,
    bits: 32,
    paged: None,
};

/// Tokens that are appended at once; the last ones are attended.
const CHUNKS: [usize; 4] = [700, 301, 19, 4];

/// Every format that is claimed, on plain contents and on keys with outlier channels.
pub(super) fn all(plan: &Plan) -> Vec<Box<dyn Rounds>> {
    let configs = [16, 8, 4].map(|bits| Config { bits, ..SHAPE });
    configs
        .into_iter()
        .filter(|config| config.capabilities().iter().all(|needed| plan.capabilities.contains(needed)))
        .flat_map(|config| {
            [Contents::Normal, Contents::Outliers].map(|contents| Rounding { config, contents })
        })
        .map(|rounding| Box::new(rounding) as Box<dyn Rounds>)
        .collect()
}

struct Rounding {
    config: Config,
    contents: Contents,
}

impl Rounds for Rounding {
    fn what(&self) -> &'static str {
        "attention_error"
    }

    fn name(&self) -> String {
        let keys = if self.contents == Contents::Outliers { "outlier keys" } else { "normal keys" };
        format!("{}, {keys}", self.config.format())
    }

    fn error(&self, rng: &mut ChaCha8Rng, subject: &mut dyn Subject) -> Result<Error, Trouble> {
        let (cache, config) = (StateId(1), &self.config);
        let Config { batch, heads, kv_heads, head_dim, .. } = *config;
        subject.call(&calls::create(config, cache))?;
        let mut model = Model::new(*config, None);
        let mut last = None;
        for t in CHUNKS {
            let drawn =
                self.contents.draw(ChaCha8Rng::from_rng(&mut *rng), config, t, &[t], &model.lengths_of(0));
            let tensor =
                |values: &[f64]| Tensor::from_f64(DType::Float32, [batch, kv_heads, t, head_dim], values);
            let (k, v) = (tensor(&drawn.k), tensor(&drawn.v));
            subject.call(&calls::append(cache, 0, [&k, &v], &calls::lengths(&[t])))?;
            model.append(0, &Tokens { k: &drawn.k, v: &drawn.v, t }, &[t]);
            last = Some((t, drawn.q));
        }
        let (t, q) = last.expect("there are chunks");
        let queries = Tensor::from_f64(DType::Float32, [batch, heads, t, head_dim], &q);
        let answer = subject.call(&calls::attend(cache, 0, &queries, &calls::lengths(&[t])))?;
        subject.release(cache)?;
        let right = model.attend(0, &q, t, &[t]);
        let actual = answer.outputs[0].to_f64();
        let errors = right.values.iter().zip(&actual).map(|(right, actual)| (right - actual).abs());
        let mean = errors.sum::<f64>() / actual.len() as f64;
        Ok(Error { mean, used: Spread::of(&right, &actual).used() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::variants;
    use super::*;
    use crate::Seed;

    fn error(variant: &str, bits: usize, contents: Contents) -> Error {
        let variants = variants::all();
        let all = variants.honest.iter().chain(variants.mutants.iter().map(|mutant| &mutant.variant));
        let mut subject = all.into_iter().find(|each| each.name == variant).expect("a variant").stand();
        let rounding = Rounding { config: Config { bits, ..SHAPE }, contents };
        rounding.error(&mut Seed::PUBLIC.rng("rounding"), subject.as_mut()).expect("no machine is involved")
    }

    #[test]
    fn two_honest_caches_are_told_apart_and_neither_is_accused() {
        for bits in [16, 8, 4] {
            for contents in [Contents::Normal, Contents::Outliers] {
                for variant in variants::all().honest {
                    let Error { mean, used } = error(variant.name, bits, contents);
                    assert!(mean > 0.0 && used <= 0.5, "{}, {bits} bits: {mean} {used}", variant.name);
                }
            }
        }
        for bits in [8, 4] {
            let plain = error("plain", bits, Contents::Outliers).mean;
            for better in ["rotated", "scales_by_channel"] {
                let mean = error(better, bits, Contents::Outliers).mean;
                assert!(mean < 0.6 * plain, "{better}, {bits} bits: {mean}, {plain} without");
            }
        }
    }

    #[test]
    fn what_the_bits_do_not_explain_is_found() {
        for (variant, bits, contents) in [
            ("zeros", 16, Contents::Normal),
            ("unsigned_codes_in_signed_bytes", 8, Contents::Normal),
            ("scale_of_the_first_token", 8, Contents::Normal),
            ("nibbles_swapped", 4, Contents::Normal),
            ("outliers_clipped", 8, Contents::Outliers),
        ] {
            let Error { used, .. } = error(variant, bits, contents);
            assert!(used > 1.0, "{variant}, {bits} bits: {used}");
        }
    }
}
