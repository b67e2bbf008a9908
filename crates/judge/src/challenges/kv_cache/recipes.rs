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
    /// Heads differ in magnitude, and the values of the first token are small, as in trained models: Guo et al. 2024,
    /// "Active-Dormant Attention Heads", <https://arxiv.org/abs/2410.13835>. Queries make up for it, so that scores are of one size.
    Uneven,
    /// Queries ask of four channels, other ones for each head and token, so that scores are of the usual size and yet sums of four terms. What may
    /// be lost to few bits grows with the terms: of 64 and more in 4 bits it is so much that nothing is too wrong. Keys and values are uniform, as few
    /// bits lose less of what has no long tail. Keys of one token are up to four times as large as of another, and where keys are
    /// larger so are values, as numbers with a sign: what is added to all scores alike changes nothing, and what a zero point adds is as large as the scale
    /// of its token. Their mean is 1, so that what is wrong with weights as a whole is seen as well.
    FewChannels,
    /// The later a token, the higher its score, by about 1 for 8 tokens: each tile of keys brings a larger maximum, to which all before it has to be
    /// brought. Keys of a token differ little in magnitude, and queries have their signs, so that few bits leave scores what they are.
    Rising,
    /// All scores are alike and about -130,000, so far down that a maximum must begin at -inf, and so must what is masked. Values are far from zero,
    /// which is what comes of no weight at all: few bits leave open which keys get it.
    Low,
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

/// That queries ask of in `FewChannels`.
const CHANNELS: usize = 4;

/// What is uniform between it and its negative has variance 1.
const ROOT_3: f64 = 1.732_050_807_568_877_2;

/// What stands in the padding is this many times as large as what it pads.
const PADDING: f64 = 30.0;

/// Scores of `Low`, and the magnitude of its keys.
const LOW: f64 = -130_000.0;
const LOW_KEY: f64 = 100.0;

/// About which the values of `Low` are.
const LOW_VALUE: f64 = 64.0;

/// In so many tokens scores of `Rising` grow by as much as the first has, which is about 2.
const RISE: f64 = 16.0;

/// About which the values of `Rising` are.
const RISING_VALUE: f64 = 4.0;

/// Where a number stands.
struct At<'c> {
    config: &'c Config,
    /// Of the keys.
    head: usize,
    position: usize,
    channel: usize,
}

impl Contents {
    /// Draws `t` tokens, the first `counts[b]` of sequence `b` valid and behind `held[b]` others. Every number is one of float32.
    pub(super) fn draw(
        self,
        rng: ChaCha8Rng,
        config: &Config,
        t: usize,
        counts: &[usize],
        held: &[usize],
    ) -> Drawn {
        let mut draw = Draw(rng);
        let Config { batch, heads, kv_heads, head_dim, .. } = *config;
        let mut tensor = |heads: usize, element: fn(Self, &mut Draw, &At<'_>) -> f64| -> Vec<f64> {
            let mut values = Vec::with_capacity(batch * heads * t * head_dim);
            for (&count, held) in counts.iter().zip(held) {
                for head in 0..heads {
                    let head = head * kv_heads / heads;
                    for i in 0..t {
                        let by = if i < count { 1.0 } else { PADDING };
                        values.extend((0..head_dim).map(|channel| {
                            let at = At { config, head, position: held + i, channel };
                            f64::from((by * element(self, &mut draw, &at)) as f32)
                        }));
                    }
                }
            }
            values
        };
        Drawn {
            k: tensor(kv_heads, Self::key),
            v: tensor(kv_heads, Self::value),
            q: tensor(heads, Self::query),
        }
    }

    fn key(self, draw: &mut Draw, at: &At<'_>) -> f64 {
        match self {
            Self::Outliers if at.channel % OUTLIER_EVERY == 5 => {
                [10.0, 20.0, 15.0][at.channel / OUTLIER_EVERY % 3] * draw.normal()
            }
            Self::Alike => 8.0 + 0.05 * draw.normal(),
            Self::Uneven => at.magnitude() * draw.normal(),
            Self::FewChannels => [1.0, 0.25, 0.5][at.turn()] * ROOT_3 * (2.0 * draw.uniform() - 1.0),
            // So that scores differ by about 1.
            Self::Low => LOW_KEY * (1.0 + at.root() / LOW * draw.normal()),
            Self::Rising => at.sign() * (1.0 + at.position as f64 / RISE) * (1.0 - 0.25 * draw.uniform()),
            _ => draw.normal(),
        }
    }

    fn value(self, draw: &mut Draw, at: &At<'_>) -> f64 {
        match self {
            Self::Uneven if at.position == 0 => at.magnitude() / 32.0 * draw.normal(),
            Self::Uneven => at.magnitude() * draw.normal(),
            Self::FewChannels => [1.5, 0.5, 1.0][at.turn()] + ROOT_3 * (2.0 * draw.uniform() - 1.0),
            Self::Low => LOW_VALUE + draw.normal(),
            Self::Rising => RISING_VALUE + draw.normal(),
            _ => draw.normal(),
        }
    }

    fn query(self, draw: &mut Draw, at: &At<'_>) -> f64 {
        match self {
            Self::Sharp => 120.0 * draw.normal(),
            Self::Uneven => draw.normal() / at.magnitude(),
            Self::FewChannels if !at.is_asked_of() => 0.0,
            // What they add up to is the size of what a zero point adds.
            Self::FewChannels => at.root() / (CHANNELS as f64).sqrt() * draw.normal().abs(),
            Self::Low => LOW / LOW_KEY / at.root() * (1.0 + 0.02 * draw.normal()),
            Self::Rising => at.sign() * 2.0 / at.root() * (1.25 - 0.25 * draw.uniform()),
            _ => draw.normal(),
        }
    }
}

impl At<'_> {
    /// Of a head's numbers in `Uneven`.
    fn magnitude(&self) -> f64 {
        [1.0, 16.0, 0.125][self.head % 3]
    }

    /// Of a channel in `Rising`, another for each head.
    fn sign(&self) -> f64 {
        if (self.channel * self.channel + self.channel / 3 + self.head) % 5 < 2 { -1.0 } else { 1.0 }
    }

    /// Which of three kinds a token is in `FewChannels`, another for each head.
    fn turn(&self) -> usize {
        (self.position + self.head) % 3
    }

    /// Whether it is one of the channels in `FewChannels`.
    fn is_asked_of(&self) -> bool {
        let turn = self.channel + 5 * self.position + 3 * self.head;
        turn.is_multiple_of(self.config.head_dim.div_ceil(CHANNELS))
    }

    fn root(&self) -> f64 {
        (self.config.head_dim as f64).sqrt()
    }
}
