//! What is done to a cache, step by step.

use rand_chacha::ChaCha8Rng;

use super::config::Config;
use crate::draw::Draw;

/// One step. What it comes to is found out when it is taken, so any steps may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// So many new tokens for each sequence: appended to every layer and attended, or refused.
    Feed(Vec<usize>),
    /// The same of one layer alone.
    FeedLayer(usize, Vec<usize>),
    /// The same of every layer, but nobody attends them.
    Append(Vec<usize>),
    /// A sequence is emptied.
    Clear(usize),
    /// A sequence gets the tokens of another, if it is empty.
    Fork { source: usize, target: usize },
    /// Another cache is asked for, which cannot be served.
    Misconfigure(Config),
    /// From here on it is the other of two caches, made when it is first needed.
    Turn,
}

/// Tokens of a long context that are appended at once: a prime, so that hardly any block or tile ends where they end.
const CHUNK: usize = 499;

/// Tokens that are attended together behind it, as a draft is in speculative decoding. Of 3, appended in two parts, a mask from where the last append
/// began is no mask at all.
const DRAFT: usize = 4;

/// The same of a prompt of which the context is the first part.
const PROMPT_CHUNK: usize = 34;

/// Tokens that are decoded behind these: the last reaches the end.
const DECODED: usize = 2;

/// How the steps of a case come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plot {
    /// A prompt for each sequence, all equally long, then some single tokens.
    Prefill,
    /// One token at a time from the beginning.
    Tokens,
    /// A few tokens together and single ones behind a long context, every other sequence a third as long as the longest. Attention of the
    /// context itself would cost the square of its length, so nobody asks for it.
    Decode,
    /// The same where all of the context is appended in one call.
    DecodeAtOnce,
    /// The same with many tokens together: a long prompt in chunks, of which the last is attended.
    ChunkedPrefill,
    /// Prompts in chunks of any size.
    Chunks,
    /// Prompts of different lengths in one call, nothing for some, then single tokens for those that are not done.
    Ragged,
    /// Up to one below a multiple of 8, onto it, and one beyond.
    Boundaries,
    /// Up to the longest, and one more, which must be refused.
    ToTheEnd,
    /// Blocks run out, and suffice again after a clear.
    OutOfBlocks,
    /// A sequence ends and its place is taken by another.
    Reuse,
    /// Sequences that begin alike and go on apart.
    Forks,
    /// The same where blocks are short: too few are left for copies, and what was copied has to be used again.
    ForksShort,
    /// Layers that are not equally long, one of them ahead, when sequences are attended and cleared.
    LayersApart,
    /// The same, forked.
    ForksApart,
    /// Two caches by turns.
    Interleaved,
    /// Anything, so many times.
    Walk(usize),
    /// Forks and layers of their own as well.
    ForkWalk(usize),
    /// Prompts, single tokens and a chunk, all sequences alike, and the directions of the residual.
    Directions,
    /// Configurations that cannot be served are asked for while a cache is in use.
    Misconfigured,
}

impl Plot {
    /// The steps.
    pub(super) fn steps(self, config: &Config, rng: ChaCha8Rng) -> Vec<Step> {
        let mut author = Author::new(config, Draw(rng));
        let (batch, longest) = (config.batch, config.max_len);
        let last = config.layers - 1;
        let only = |sequence: usize, count: usize| {
            let mut counts = vec![0; batch];
            counts[sequence] = count;
            counts
        };
        match self {
            Self::Prefill => {
                author.feed(vec![longest * 2 / 3; batch]);
                author.singles(3);
            }
            Self::Tokens => author.singles(longest.min(12)),
            Self::Decode | Self::DecodeAtOnce | Self::ChunkedPrefill => {
                let chunk = if self == Self::DecodeAtOnce { longest } else { CHUNK };
                let together = if self == Self::ChunkedPrefill { PROMPT_CHUNK } else { DRAFT };
                let most = longest.saturating_sub(together + DECODED);
                let contexts: Vec<usize> =
                    (0..batch).map(|b| if b % 2 == 0 { most } else { longest / 3 }).collect();
                for start in (0..most).step_by(chunk) {
                    author.append(contexts.iter().map(|end| end.saturating_sub(start).min(chunk)).collect());
                }
                author.feed(vec![together; batch]);
                author.singles(DECODED);
            }
            Self::Chunks => {
                for chunk in [3, 1, 5, 2, 7, 4] {
                    author.feed(vec![chunk; batch]);
                }
                author.singles(2);
            }
            Self::Ragged => {
                let lengths: Vec<usize> = (0..batch).map(|b| [5, 12, 3, 0, 8][b % 5].min(longest)).collect();
                author.feed(lengths);
                for round in 0..4 {
                    author.feed((0..batch).map(|b| usize::from((b + round) % 3 != 0)).collect());
                }
                let lengths: Vec<usize> = (0..batch).map(|b| [2, 0, 4][b % 3]).collect();
                author.feed(lengths);
                author.singles(1);
            }
            Self::Boundaries => {
                for count in [7, 1, 1, 6, 1, 1, 8, 8] {
                    author.feed(
                        (0..batch).map(|b| if b % 2 == 0 { count } else { usize::from(count > 6) }).collect(),
                    );
                }
                author.singles(1);
            }
            Self::ToTheEnd => {
                author.feed((0..batch).map(|b| longest - b.min(longest - 1)).collect());
                // The first is full: one more for it is too many, though the others have room.
                author.feed(vec![1; batch]);
                author.feed((0..batch).map(|b| usize::from(b > 0)).collect());
                author.feed(vec![longest + 1; batch]);
            }
            Self::OutOfBlocks => {
                let (size, count) = config.paged.unwrap_or((8, 8));
                let each = (count / batch).max(1) * size;
                author.feed((0..batch).map(|_| each.min(longest)).collect());
                // Some blocks are left over at most, and not enough.
                author.feed(vec![size + 1; batch]);
                author.clear(0);
                author.feed((0..batch).map(|b| if b == 0 { size } else { 0 }).collect());
                author.feed((0..batch).map(|b| if b == 1 % batch { 1 } else { 0 }).collect());
                author.singles(1);
            }
            Self::Reuse => {
                author.feed((0..batch).map(|b| 4 + b).collect());
                author.clear(1 % batch);
                author.singles(1);
                author.feed((0..batch).map(|b| if b == 1 % batch { 3 } else { 0 }).collect());
                author.clear(0);
                author.feed((0..batch).map(|b| if b == 0 { 6 } else { 1 }).collect());
                author.singles(2);
            }
            Self::Forks => {
                author.feed((0..batch).map(|b| if b == 0 { 11 } else { 0 }).collect());
                for target in 1..batch {
                    author.fork(0, target);
                }
                author.singles(2);
                author.feed((0..batch).map(|b| b + 1).collect());
                author.clear(0);
                author.feed((0..batch).map(|b| if b == 0 { 5 } else { 1 }).collect());
                author.singles(1);
            }
            Self::ForksShort => {
                for count in [8, 3] {
                    author.feed(only(0, count));
                }
                author.fork(0, 1);
                author.fork(0, 2);
                author.feed(only(3, 9));
                // Now a block is left, and three sequences need two.
                let of_first = |count: usize| (0..batch).map(|b| usize::from(b < count)).collect::<Vec<_>>();
                author.feed(of_first(3));
                author.clear(2);
                author.clear(3);
                let both = of_first(2);
                for _ in 0..3 {
                    author.feed(both.clone());
                    author.clear(0);
                    author.clear(1);
                    author.feed(only(0, 11));
                    author.fork(0, 1);
                }
                author.feed(both);
            }
            Self::LayersApart => {
                for layer in (0..=last).rev() {
                    author.feed_layer(layer, (0..batch).map(|b| 5 + b + layer).collect());
                }
                author.singles(1);
                author.clear(0);
                author.feed_layer(last, only(0, 9));
                author.feed_layer(0, (0..batch).map(|b| 1 + b % 2).collect());
                author.singles(2);
            }
            Self::ForksApart => {
                // One layer has filled a block, and another has not. Then it is the other way round.
                let ahead = config.paged.map_or(11, |(size, _)| size.max(8) + 3);
                author.feed_layer(last, only(0, ahead));
                author.feed_layer(0, only(0, 3));
                author.fork(0, 1);
                author.singles(1);
                author.feed_layer(0, (0..batch).map(|b| 4 - b % 2).collect());
                author.clear(0);
                author.singles(2);
                author.clear(1);
                author.feed_layer(0, only(0, ahead));
                author.feed_layer(last, only(0, 3));
                author.fork(0, 1);
                author.singles(1);
                author.feed_layer(last, (0..batch).map(|b| 4 - b % 2).collect());
                author.singles(1);
            }
            Self::Interleaved => {
                for count in [5, 3] {
                    author.feed((0..batch).map(|b| count + b).collect());
                    author.turn();
                }
                for _ in 0..2 {
                    author.singles(1);
                    author.turn();
                }
                author.clear(0);
                author.turn();
                author.feed(only(0, 6));
                author.turn();
                author.singles(1);
                author.turn();
                author.singles(1);
            }
            Self::Directions => {
                for count in [8, 1, 1, 5] {
                    author.feed(vec![count; batch]);
                }
            }
            Self::Misconfigured => {
                author.feed(vec![4; batch]);
                author.steps.push(Step::Misconfigure(Config { heads: config.heads + 1, ..*config }));
                author.steps.push(Step::Misconfigure(Config { bits: 5, ..*config }));
                author.singles(2);
            }
            Self::Walk(count) => {
                for _ in 0..count {
                    author.anything();
                }
            }
            Self::ForkWalk(count) => {
                for _ in 0..count {
                    match author.draw.below(6) {
                        0 | 1 => {
                            let target = author.draw.below(batch);
                            author.fork((target + 1) % batch, target);
                        }
                        2 => {
                            let (layer, sequence) = (author.draw.below(last + 1), author.draw.below(batch));
                            let count = 1 + author.draw.below(5);
                            author.feed_layer(layer, only(sequence, count));
                        }
                        _ => author.anything(),
                    }
                }
            }
        }
        author.steps
    }

    /// Whether sequences are forked.
    pub(super) fn forks(self) -> bool {
        matches!(self, Self::Forks | Self::ForksShort | Self::ForksApart | Self::ForkWalk(_))
    }
}

/// Writes steps, and knows about how long sequences are.
struct Author<'c> {
    config: &'c Config,
    draw: Draw,
    /// Of each sequence, at least as long as in any layer: what one is given alone counts for all.
    lengths: Vec<usize>,
    /// The same of the other cache.
    others: Vec<usize>,
    steps: Vec<Step>,
}

impl<'c> Author<'c> {
    fn new(config: &'c Config, draw: Draw) -> Self {
        let none = vec![0; config.batch];
        Self { config, draw, lengths: none.clone(), others: none, steps: Vec::new() }
    }

    fn feed(&mut self, counts: Vec<usize>) {
        self.grow(&counts);
        self.steps.push(Step::Feed(counts));
    }

    fn feed_layer(&mut self, layer: usize, counts: Vec<usize>) {
        self.grow(&counts);
        self.steps.push(Step::FeedLayer(layer, counts));
    }

    fn append(&mut self, counts: Vec<usize>) {
        self.grow(&counts);
        self.steps.push(Step::Append(counts));
    }

    fn grow(&mut self, counts: &[usize]) {
        let after: Vec<usize> =
            self.lengths.iter().zip(counts).map(|(length, count)| length + count).collect();
        if self.config.fits(&after) {
            self.lengths = after;
        }
    }

    /// One token for each that has room, so many times.
    fn singles(&mut self, times: usize) {
        for _ in 0..times {
            let room = |&length: &usize| usize::from(length < self.config.max_len);
            let counts = self.lengths.iter().map(room).collect();
            self.feed(counts);
        }
    }

    fn clear(&mut self, sequence: usize) {
        self.lengths[sequence] = 0;
        self.steps.push(Step::Clear(sequence));
    }

    fn fork(&mut self, source: usize, target: usize) {
        self.lengths[target] = self.lengths[source];
        self.steps.push(Step::Fork { source, target });
    }

    fn turn(&mut self) {
        std::mem::swap(&mut self.lengths, &mut self.others);
        self.steps.push(Step::Turn);
    }

    fn anything(&mut self) {
        let batch = self.config.batch;
        match self.draw.below(10) {
            0 => {
                let sequence = self.draw.below(batch);
                self.clear(sequence);
            }
            // More than fits, somewhere.
            1 if self.config.paged.is_some() || self.draw.uniform() < 0.5 => {
                let sequence = self.draw.below(batch);
                let mut counts = vec![1; batch];
                counts[sequence] = self.config.max_len + 1 - self.lengths[sequence];
                self.feed(counts);
            }
            2..=4 => self.singles(1),
            _ => {
                let counts = (0..batch)
                    .map(|b| {
                        let room = self.config.max_len - self.lengths[b];
                        self.draw.below(room.min(9) + 1)
                    })
                    .collect();
                self.feed(counts);
            }
        }
    }
}
