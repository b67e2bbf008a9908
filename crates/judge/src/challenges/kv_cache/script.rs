//! What is done to a cache, step by step.

use rand_chacha::ChaCha8Rng;

use super::config::Config;
use crate::draw::Draw;

/// One step. What it comes to is found out when it is taken, so any steps may be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// So many new tokens for each sequence: appended to every layer and attended, or refused.
    Feed(Vec<usize>),
    /// A sequence is emptied.
    Clear(usize),
    /// A sequence gets the tokens of another, if it is empty.
    Fork { source: usize, target: usize },
    /// Another cache is asked for, which cannot be served.
    Misconfigure(Config),
}

/// How the steps of a case come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plot {
    /// A prompt for each sequence, all equally long, then some single tokens.
    Prefill,
    /// One token at a time from the beginning.
    Tokens,
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
    /// Anything, so many times.
    Walk(usize),
    /// Prompts, single tokens and a chunk, all sequences alike, and the directions of the residual.
    Directions,
    /// Configurations that cannot be served are asked for while a cache is in use.
    Misconfigured,
}

impl Plot {
    /// The steps.
    pub(super) fn steps(self, config: &Config, rng: ChaCha8Rng) -> Vec<Step> {
        let mut author =
            Author { config, draw: Draw(rng), lengths: vec![0; config.batch], steps: Vec::new() };
        let (batch, longest) = (config.batch, config.max_len);
        match self {
            Self::Prefill => {
                author.feed(vec![longest * 2 / 3; batch]);
                author.singles(3);
            }
            Self::Tokens => author.singles(longest.min(12)),
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
                    author.anything(config.capabilities().contains(&"paged"));
                }
            }
        }
        author.steps
    }

    /// Whether sequences are forked.
    pub(super) fn forks(self) -> bool {
        self == Self::Forks
    }
}

/// Writes steps, and knows how long sequences are.
struct Author<'c> {
    config: &'c Config,
    draw: Draw,
    lengths: Vec<usize>,
    steps: Vec<Step>,
}

impl Author<'_> {
    fn feed(&mut self, counts: Vec<usize>) {
        let after: Vec<usize> =
            self.lengths.iter().zip(&counts).map(|(length, count)| length + count).collect();
        if self.config.fits(&after) {
            self.lengths = after;
        }
        self.steps.push(Step::Feed(counts));
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

    fn anything(&mut self, paged: bool) {
        let batch = self.config.batch;
        match self.draw.below(10) {
            0 => {
                let sequence = self.draw.below(batch);
                self.clear(sequence);
            }
            // More than fits, somewhere.
            1 if paged || self.draw.uniform() < 0.5 => {
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
