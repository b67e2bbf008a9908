//! How keys, values and queries are drawn.

use rand_chacha::ChaCha8Rng;

use super::config::Config;
use crate::draw::Draw;

/// What they look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Normal with variance 1.
    Normal,
    /// Queries so large that one key takes almost all the weight, and exponentials overflow without a maximum.
    Sharp,
    /// One channel in 32 of the keys is 10 to 20 times as large as the others, the same ones for every token, as in trained models:
    /// Liu et al. 2024, "KIVI", <https://arxiv.org/abs/2402.02750>.
    Outliers,
    /// Keys are nearly the same, far from zero.
    Alike,
}

/// The new tokens of a step for one layer, and queries for them.
pub(super) struct Drawn {
    /// `[batch, kv_heads, t, head_dim]`
    pub(super) k: Vec<f64>,
    pub(super) v: Vec<f64>,
    /// `[batch, heads, t, head_dim]`
    pub(super) q: Vec<f64>,
}

/// Of so many channels, one is an outlier.
const OUTLIER_EVERY: usize = 32;

/// What stands in the padding is this many times as large as what it pads.
const PADDING: f64 = 30.0;

impl Contents {
    /// Draws `t` tokens, the first `counts[b]` of sequence `b` valid. Every number is one of float32.
    pub(super) fn draw(self, rng: ChaCha8Rng, config: &Config, t: usize, counts: &[usize]) -> Drawn {
        let mut draw = Draw(rng);
        let Config { batch, heads, kv_heads, head_dim, .. } = *config;
        let mut tensor = |heads: usize, element: fn(Self, &mut Draw, usize) -> f64| -> Vec<f64> {
            let mut values = Vec::with_capacity(batch * heads * t * head_dim);
            for &count in counts {
                for _ in 0..heads {
                    for i in 0..t {
                        let by = if i < count { 1.0 } else { PADDING };
                        values.extend(
                            (0..head_dim).map(|c| f64::from((by * element(self, &mut draw, c)) as f32)),
                        );
                    }
                }
            }
            values
        };
        Drawn {
            k: tensor(kv_heads, Self::key),
            v: tensor(kv_heads, |_, draw, _| draw.normal()),
            q: tensor(heads, |contents, draw, _| contents.query(draw)),
        }
    }

    fn key(self, draw: &mut Draw, channel: usize) -> f64 {
        match self {
            Self::Outliers if channel % OUTLIER_EVERY == 5 => {
                [10.0, 20.0, 15.0][channel / OUTLIER_EVERY % 3] * draw.normal()
            }
            Self::Alike => 8.0 + 0.05 * draw.normal(),
            _ => draw.normal(),
        }
    }

    fn query(self, draw: &mut Draw) -> f64 {
        match self {
            Self::Sharp => 120.0 * draw.normal(),
            _ => draw.normal(),
        }
    }
}
