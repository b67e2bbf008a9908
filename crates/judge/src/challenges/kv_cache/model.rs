//! What a cache holds and what attention over it gives, in float64, with the budget of each result; and the same with a
//! flaw, to recognise it.

use std::ops::Range;
use std::rc::Rc;

use super::blocks::{Blocks, Room};
use super::config::Config;
use super::known::{Deed, Known, Past};
use super::storage::{Stored, store};
use crate::precision::Precision;
use tribunal_contract::DType;

/// A way in which caches go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flaw {
    /// The mask counts queries of a call from 0, whatever was cached before.
    RelativeMask,
    /// 1 is added to the scores of keys that may be seen, and nothing to the others.
    AddedMask,
    /// Every key is seen.
    NoMask,
    /// New tokens take the place of all that were there.
    Replaced,
    /// One write position for all sequences.
    OneLength,
    /// Keys are seen as far as the longest sequence goes; behind the end stand padding and zeros.
    PaddingSeen,
    /// Keys are seen to the end of the last block; behind the end stand zeros.
    TailSeen,
    /// Query head h uses key head h modulo their number.
    HeadsInterleaved,
    /// Every query head uses the first head of keys.
    FirstHeadOnly,
    /// The newest token is there twice.
    NewestTwice,
    /// A query does not see its own position.
    OneBehind,
    /// A query sees the position behind its own.
    OneAhead,
    /// Scores are not divided by the root of the head's size.
    Unscaled,
    /// Exponentials are taken of scores as they are, and overflow.
    NoMaximum,
    /// What tiles of so many keys have added to the output is not brought to the larger maximum of a later one; nor is the sum of weights, but for
    /// `sums`.
    NotRescaled { tile: usize, sums: bool },
    /// Of a longer context so many tokens are seen, the newest or the oldest.
    ContextCut { to: usize, newest: bool },
    /// Every layer uses the tokens of the first.
    OneLayer,
    /// Every sequence uses the tokens of the first.
    OneSequence,
    /// Forked sequences go on sharing what one of them appends.
    ForkShared,
    /// A cleared sequence keeps its tokens.
    ClearForgotten,
    /// Blocks of a cleared sequence are not used again.
    BlocksKept,
    /// Codes of 8 bits wrap around at half their range.
    CodesWrap,
    /// The two numbers of a byte are exchanged.
    NibblesSwapped,
}

impl Flaw {
    pub(super) const ALL: [Self; 39] = [
        Self::RelativeMask,
        Self::AddedMask,
        Self::NoMask,
        Self::Replaced,
        Self::OneLength,
        Self::PaddingSeen,
        Self::TailSeen,
        Self::HeadsInterleaved,
        Self::FirstHeadOnly,
        Self::NewestTwice,
        Self::OneBehind,
        Self::OneAhead,
        Self::Unscaled,
        Self::NoMaximum,
        Self::NotRescaled { tile: 1, sums: true },
        Self::NotRescaled { tile: 1, sums: false },
        Self::NotRescaled { tile: 16, sums: true },
        Self::NotRescaled { tile: 16, sums: false },
        Self::NotRescaled { tile: 32, sums: true },
        Self::NotRescaled { tile: 32, sums: false },
        Self::NotRescaled { tile: 64, sums: true },
        Self::NotRescaled { tile: 64, sums: false },
        Self::ContextCut { to: 16, newest: true },
        Self::ContextCut { to: 128, newest: true },
        Self::ContextCut { to: 512, newest: true },
        Self::ContextCut { to: 1024, newest: true },
        Self::ContextCut { to: 32, newest: false },
        Self::ContextCut { to: 64, newest: false },
        Self::ContextCut { to: 128, newest: false },
        Self::ContextCut { to: 256, newest: false },
        Self::ContextCut { to: 512, newest: false },
        Self::ContextCut { to: 1024, newest: false },
        Self::OneLayer,
        Self::OneSequence,
        Self::ForkShared,
        Self::ClearForgotten,
        Self::BlocksKept,
        Self::CodesWrap,
        Self::NibblesSwapped,
    ];

    /// Its name as a suspect.
    pub(super) fn suspect(self) -> &'static str {
        match self {
            Self::RelativeMask => "mask_from_relative_positions",
            Self::AddedMask => "additive_zero_one_mask",
            Self::NoMask => "no_mask_in_prefill",
            Self::Replaced => "cache_replaced",
            Self::OneLength => "one_length_for_the_batch",
            Self::PaddingSeen => "padding_attended",
            Self::TailSeen => "last_block_tail_attended",
            Self::HeadsInterleaved | Self::FirstHeadOnly => "wrong_kv_head",
            Self::NewestTwice => "newest_token_twice",
            Self::OneBehind | Self::OneAhead => "positions_off_by_one",
            Self::Unscaled => "scores_not_scaled",
            Self::NoMaximum => "softmax_without_maximum",
            Self::NotRescaled { .. } => "rescale_missing",
            Self::ContextCut { .. } => "context_cut",
            Self::OneLayer => "layers_mixed",
            Self::OneSequence => "sequences_mixed",
            Self::ForkShared => "block_shared_after_fork",
            Self::ClearForgotten => "clear_forgotten",
            Self::BlocksKept => "blocks_not_returned",
            Self::CodesWrap => "codes_wrap_around",
            Self::NibblesSwapped => "nibbles_swapped",
        }
    }

    /// What it does, as the end of "it behaves as if …".
    pub(super) fn says(self) -> &'static str {
        match self {
            Self::RelativeMask => "the mask counted the queries of a call from 0, whatever was cached before",
            Self::AddedMask => "1 were added to the scores of visible keys, and future keys were seen too",
            Self::NoMask => "every query saw every key, later ones too",
            Self::Replaced => "new tokens replaced those that were there",
            Self::OneLength => "all sequences of the batch shared one write position",
            Self::PaddingSeen => "keys behind a sequence's end were seen, up to the longest sequence's",
            Self::TailSeen => "zeros behind a sequence's end were seen, up to the end of its last block",
            Self::HeadsInterleaved => "query head h used key head h modulo kv_heads",
            Self::FirstHeadOnly => "all query heads used the first head of keys",
            Self::NewestTwice => "the newest token were cached twice",
            Self::OneBehind => "a query did not see its own position",
            Self::OneAhead => "a query saw one position more than its own",
            Self::Unscaled => "scores were not divided by the root of head_dim",
            Self::NoMaximum => "exponentials of scores overflowed, as they do where no maximum is taken off",
            Self::NotRescaled { .. } => {
                "what was added up before a larger maximum came were not brought to it"
            }
            Self::ContextCut { newest: true, .. } => "only the newest tokens of a long context were seen",
            Self::ContextCut { newest: false, .. } => "only the oldest tokens of a long context were seen",
            Self::OneLayer => "all layers used the tokens of the first",
            Self::OneSequence => "all sequences used the tokens of the first",
            Self::ForkShared => "forked sequences went on sharing what either appends",
            Self::ClearForgotten => "a cleared sequence kept its tokens",
            Self::BlocksKept => "the place of a cleared sequence were never used again",
            Self::CodesWrap => "codes above 127 wrapped around to negative ones",
            Self::NibblesSwapped => "the two numbers of each byte were exchanged",
        }
    }

    /// Whether it can show in a cache like that.
    pub(super) fn applies(self, config: &Config) -> bool {
        match self {
            Self::CodesWrap => config.bits == 8,
            Self::NibblesSwapped => config.bits == 4,
            Self::HeadsInterleaved | Self::FirstHeadOnly => config.kv_heads > 1,
            Self::OneLength | Self::PaddingSeen | Self::OneSequence => config.batch > 1,
            Self::OneLayer => config.layers > 1,
            Self::NotRescaled { tile: few, .. } | Self::ContextCut { to: few, .. } => config.max_len > few,
            _ => true,
        }
    }
}

/// Keys and values of one token, of all heads.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) k: Vec<Stored>,
    pub(super) v: Vec<Stored>,
}

/// One sequence in one layer. Behind `len` there may be leftovers, which a flaw sees.
#[derive(Debug, Clone, Default)]
struct Sequence {
    tokens: Vec<Rc<Token>>,
    len: usize,
}

/// The new tokens of a step for one layer, as `[batch, heads, t, head_dim]`.
pub(super) struct Tokens<'a> {
    pub(super) k: &'a [f64],
    pub(super) v: &'a [f64],
    pub(super) t: usize,
}

/// A result: attention's output at some places, and how far off each element may be.
#[derive(Debug, Clone, Default)]
pub(super) struct Attended {
    /// Where in the output each row of `head_dim` elements stands.
    pub(super) rows: Vec<Place>,
    pub(super) values: Vec<f64>,
    pub(super) budget: Vec<f64>,
    /// The variance that storage in few bits may cause.
    pub(super) variance: Vec<f64>,
    /// Of each row, what storage of the values alone has in the sum of that.
    pub(super) own_variance: Vec<f64>,
}

/// Sequence, query head and query of a row of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) sequence: usize,
    pub(super) head: usize,
    pub(super) query: usize,
    /// The position of the query in its sequence.
    pub(super) position: usize,
}

/// A cache.
pub(super) struct Model {
    config: Config,
    flaw: Option<Flaw>,
    layers: Vec<Vec<Sequence>>,
    zero: Rc<Token>,
    /// Pairs of sequences that share positions, for a flaw.
    shared: Vec<([usize; 2], Range<usize>)>,
    paged: Option<Paged>,
    /// What others have worked out, where anybody remembers, and what was done to this one.
    known: Option<Rc<Known>>,
    past: Past,
}

/// The blocks of a paged cache. Each layer may have tables of its own, or all may share them.
#[derive(Clone)]
struct Paged {
    by_layer: Vec<Blocks>,
    common: Blocks,
}

impl Paged {
    fn all(&mut self) -> impl Iterator<Item = &mut Blocks> {
        self.by_layer.iter_mut().chain([&mut self.common])
    }
}

impl Model {
    pub(super) fn new(config: Config, flaw: Option<Flaw>) -> Self {
        let zeros = || vec![Stored::zeros(config.head_dim); config.kv_heads];
        let layers = vec![vec![Sequence::default(); config.batch]; config.layers];
        Self {
            config,
            flaw,
            layers,
            zero: Rc::new(Token { k: zeros(), v: zeros() }),
            shared: Vec::new(),
            paged: blocks_of(&config, flaw).map(|(size, _)| {
                let blocks = Blocks::new(size, config.batch);
                Paged { by_layer: vec![blocks.clone(); config.layers], common: blocks }
            }),
            known: None,
            past: Past::default(),
        }
    }

    /// The same, sharing what others work out.
    pub(super) fn knowing(self, known: &Option<Rc<Known>>) -> Self {
        Self { known: known.clone(), ..self }
    }

    /// Notes what is done.
    fn note(&mut self, deed: Deed) {
        if let Some(known) = &self.known {
            self.past = known.after(self.past, deed);
        }
    }

    /// How many tokens the layers hold of each sequence.
    pub(super) fn lengths(&self) -> Vec<usize> {
        self.layers.iter().flatten().map(|sequence| sequence.len).collect()
    }

    /// How long the sequences of a layer are.
    pub(super) fn lengths_of(&self, layer: usize) -> Vec<usize> {
        self.layers[layer].iter().map(|sequence| sequence.len).collect()
    }

    /// The tokens of a sequence.
    pub(super) fn tokens(&self, layer: usize, sequence: usize) -> Vec<Rc<Token>> {
        self.layers[layer][sequence].tokens.clone()
    }

    /// Whether there is room for so many new tokens in a layer.
    pub(super) fn room(&self, layer: usize, counts: &[usize]) -> Room {
        let written = self.written(layer, counts);
        let after: Vec<usize> = written
            .iter()
            .zip(self.lengths_of(layer))
            .map(|(places, length)| if places.is_empty() { length } else { places.end })
            .collect();
        if after.iter().any(|&length| length > self.config.max_len) {
            return Room::Lacks;
        }
        let (Some((_, count)), Some(paged)) = (blocks_of(&self.config, self.flaw), &self.paged) else {
            return Room::Suffices;
        };
        let mut paged = paged.clone();
        let copies = self.write(&mut paged, layer, &written);
        let lengths: Vec<Vec<usize>> = (0..self.config.layers)
            .map(|other| if other == layer { after.clone() } else { self.lengths_of(other) })
            .collect();
        // Whoever keeps blocks keeps those of all layers.
        let kept = self.flaw == Some(Flaw::BlocksKept);
        let needed = if kept { &paged.common } else { &paged.by_layer[layer] };
        if needed.least() > count {
            Room::Lacks
        } else if paged.common.most(&in_every_layer(&lengths)) + copies <= count {
            Room::Suffices
        } else {
            Room::Depends
        }
    }

    /// Whether any cache can fork that: there is something, a place for it, and a block for each that is not full.
    pub(super) fn can_fork(&self, source: usize, target: usize) -> bool {
        let of = |sequence: usize| self.layers.iter().map(move |layer| layer[sequence].len);
        if of(target).any(|length| length > 0) || of(source).all(|length| length == 0) {
            return false;
        }
        let (Some((_, count)), Some(paged)) = (self.config.paged, &self.paged) else { return true };
        let mut common = paged.common.clone();
        common.fork(source, target);
        let mut lengths: Vec<Vec<usize>> =
            (0..self.config.layers).map(|layer| self.lengths_of(layer)).collect();
        lengths.iter_mut().for_each(|lengths| lengths[target] = lengths[source]);
        common.most(&in_every_layer(&lengths)) <= count
    }

    /// Where new tokens come to stand.
    fn written(&self, layer: usize, counts: &[usize]) -> Vec<Range<usize>> {
        let lengths = self.lengths_of(layer);
        let most = counts.iter().max().copied().unwrap_or(0);
        lengths
            .into_iter()
            .zip(counts)
            .map(|(length, &count)| match self.flaw {
                Some(Flaw::OneLength) => length..length + most,
                Some(Flaw::Replaced) => 0..count,
                _ => length..length + count,
            })
            .collect()
    }

    /// Hands out blocks for that. How many of others are copied.
    fn write(&self, paged: &mut Paged, layer: usize, written: &[Range<usize>]) -> usize {
        let mut copies = 0;
        for (sequence, places) in written.iter().enumerate() {
            paged.by_layer[layer].write(sequence, places.clone());
            copies += paged.common.write(sequence, places.clone());
        }
        copies
    }

    pub(super) fn append(&mut self, layer: usize, new: &Tokens<'_>, counts: &[usize]) {
        self.note(Deed::Append { layer, k: new.k.as_ptr(), t: new.t, counts: counts.to_vec() });
        let Config { kv_heads, head_dim, .. } = self.config;
        let tokens: Vec<Vec<Rc<Token>>> = (0..self.config.batch)
            .map(|b| {
                (0..new.t)
                    .map(|i| {
                        let heads = |of: &[f64]| -> Vec<Stored> {
                            (0..kv_heads)
                                .map(|h| {
                                    let start = ((b * kv_heads + h) * new.t + i) * head_dim;
                                    store(&of[start..start + head_dim], self.config.bits, self.flaw)
                                })
                                .collect()
                        };
                        Rc::new(Token { k: heads(new.k), v: heads(new.v) })
                    })
                    .collect()
            })
            .collect();
        if let Some(mut paged) = self.paged.take() {
            self.write(&mut paged, layer, &self.written(layer, counts));
            self.paged = Some(paged);
        }
        let write = counts.iter().max().copied().unwrap_or(0);
        let pointer = self.layers[layer].iter().map(|sequence| sequence.len).max().unwrap_or(0);
        for (b, (tokens, &count)) in tokens.into_iter().zip(counts).enumerate() {
            let sequence = &mut self.layers[layer][b];
            match self.flaw {
                Some(Flaw::Replaced) => {
                    if count > 0 {
                        sequence.tokens = tokens[..count].to_vec();
                        sequence.len = count;
                    }
                }
                Some(Flaw::OneLength) => {
                    sequence.tokens.resize(pointer, Rc::clone(&self.zero));
                    sequence.tokens.extend_from_slice(&tokens[..write]);
                    sequence.len = pointer + write;
                }
                Some(Flaw::PaddingSeen) => {
                    let end = sequence.len + tokens.len();
                    sequence.tokens.resize(sequence.tokens.len().max(end), Rc::clone(&self.zero));
                    sequence.tokens.splice(sequence.len..end, tokens);
                    sequence.len += count;
                }
                Some(Flaw::ForkShared) => {
                    sequence.tokens.extend_from_slice(&tokens[..count]);
                    sequence.len += count;
                    self.share(layer, b, count);
                }
                flaw => {
                    sequence.tokens.extend_from_slice(&tokens[..count]);
                    sequence.len += count;
                    if flaw == Some(Flaw::NewestTwice) && count > 0 && sequence.len > count {
                        let newest = Rc::clone(&sequence.tokens[sequence.len - 1]);
                        sequence.tokens.push(newest);
                        sequence.len += 1;
                    }
                }
            }
        }
    }

    /// Gives the newest tokens of a sequence to those that share their places.
    fn share(&mut self, layer: usize, sequence: usize, count: usize) {
        let sequences = &mut self.layers[layer];
        let end = sequences[sequence].len;
        for (pair, places) in self.shared.iter().filter(|(pair, _)| pair.contains(&sequence)) {
            let other = if pair[0] == sequence { pair[1] } else { pair[0] };
            for place in (end - count..end).filter(|place| places.contains(place)) {
                let token = Rc::clone(&sequences[sequence].tokens[place]);
                if let Some(cell) = sequences[other].tokens.get_mut(place) {
                    *cell = token;
                }
            }
        }
    }

    pub(super) fn clear(&mut self, sequence: usize) {
        self.note(Deed::Clear(sequence));
        if self.flaw == Some(Flaw::ClearForgotten) {
            return;
        }
        for sequences in &mut self.layers {
            sequences[sequence] = Sequence::default();
        }
        for blocks in self.paged.iter_mut().flat_map(Paged::all) {
            if self.flaw == Some(Flaw::BlocksKept) {
                blocks.clear_and_keep(sequence);
            } else {
                blocks.clear(sequence);
            }
        }
        self.shared.retain(|(pair, _)| !pair.contains(&sequence));
    }

    pub(super) fn fork(&mut self, source: usize, target: usize) {
        self.note(Deed::Fork(source, target));
        for sequences in &mut self.layers {
            sequences[target] = sequences[source].clone();
        }
        let len = self.layers[0][source].len;
        for blocks in self.paged.iter_mut().flat_map(Paged::all) {
            if self.config.paged.is_some() {
                blocks.fork(source, target);
            } else {
                blocks.write(target, 0..len);
            }
        }
        let end = self.config.paged.map_or(usize::MAX, |(size, _)| len.next_multiple_of(size));
        let others: Vec<usize> = self
            .shared
            .iter()
            .filter(|(pair, _)| pair.contains(&source))
            .flat_map(|(pair, _)| *pair)
            .collect();
        let group = others.into_iter().filter(|&other| other != source && other != target).chain([source]);
        self.shared.extend(group.map(|other| ([other, target], len..end)).collect::<Vec<_>>());
    }

    /// Attention of the newest `counts[b]` tokens of each sequence `b`; `q` is `[batch, heads, t, head_dim]`.
    pub(super) fn attend(&self, layer: usize, q: &[f64], t: usize, counts: &[usize]) -> Rc<Attended> {
        let work = || self.attend_anew(layer, q, t, counts);
        let Some(known) = &self.known else { return Rc::new(work()) };
        let deed = Deed::Attend { layer, q: q.as_ptr(), t, counts: counts.to_vec() };
        known.attended((known.after(self.past, deed), self.flaw), work)
    }

    fn attend_anew(&self, layer: usize, q: &[f64], t: usize, counts: &[usize]) -> Attended {
        let Config { batch, heads, head_dim, .. } = self.config;
        let mut attended = Attended::default();
        for sequence in 0..batch {
            for head in 0..heads {
                for query in 0..counts[sequence] {
                    let start = ((sequence * heads + head) * t + query) * head_dim;
                    self.row(
                        layer,
                        sequence,
                        head,
                        query,
                        counts,
                        &q[start..start + head_dim],
                        &mut attended,
                    );
                }
            }
        }
        attended
    }

    #[expect(clippy::too_many_arguments, reason = "one query is at that many coordinates")]
    fn row(
        &self,
        layer: usize,
        sequence: usize,
        head: usize,
        query: usize,
        counts: &[usize],
        q: &[f64],
        attended: &mut Attended,
    ) {
        let Config { kv_heads, .. } = self.config;
        let layer = if self.flaw == Some(Flaw::OneLayer) { 0 } else { layer };
        let of = if self.flaw == Some(Flaw::OneSequence) { 0 } else { sequence };
        let sequences = &self.layers[layer];
        let held = &sequences[of];
        let kv_head = match self.flaw {
            Some(Flaw::HeadsInterleaved) => head % kv_heads,
            Some(Flaw::FirstHeadOnly) => 0,
            _ => head / self.config.group(),
        };
        let position = (held.len + query).saturating_sub(counts[sequence]);
        let longest = sequences.iter().map(|sequence| sequence.len).max().unwrap_or(0);
        // How many keys are seen, and from which on they are zeros.
        let seen = match self.flaw {
            Some(Flaw::RelativeMask) => (query + 1).min(held.len),
            Some(Flaw::NoMask | Flaw::AddedMask) => held.len,
            Some(Flaw::OneBehind) => position.max(1).min(held.len),
            Some(Flaw::OneAhead) => (position + 2).min(held.len),
            Some(Flaw::PaddingSeen) => position + 1 + longest - held.len,
            Some(Flaw::TailSeen) if position + 1 == held.len => {
                let size = self.config.paged.map_or(8, |(size, _)| size);
                held.len.next_multiple_of(size)
            }
            Some(Flaw::ContextCut { to, newest: false }) => (position + 1).min(held.len).min(to),
            _ => (position + 1).min(held.len),
        };
        let from = match self.flaw {
            Some(Flaw::ContextCut { to, newest: true }) => seen.saturating_sub(to),
            _ => 0,
        };
        let keys: Vec<(&Token, f64)> = (from..seen)
            .map(|j| {
                let bonus = if self.flaw == Some(Flaw::AddedMask) && j <= position { 1.0 } else { 0.0 };
                (held.tokens.get(j).unwrap_or(&self.zero).as_ref(), bonus)
            })
            .collect();
        attended.rows.push(Place { sequence, head, query, position });
        attention(&keys, kv_head, q, self.flaw, attended);
    }
}

/// Size and number of blocks. What keeps blocks has a place for each sequence if it has no blocks.
fn blocks_of(config: &Config, flaw: Option<Flaw>) -> Option<(usize, usize)> {
    config.paged.or_else(|| (flaw == Some(Flaw::BlocksKept)).then_some((config.max_len, config.batch)))
}

/// How many tokens of each sequence stand in every layer.
fn in_every_layer(lengths: &[Vec<usize>]) -> Vec<usize> {
    (0..lengths[0].len())
        .map(|sequence| lengths.iter().map(|layer| layer[sequence]).min().unwrap_or(0))
        .collect()
}

/// One query over some keys.
///
/// A score `s = q·k / sqrt(D)` is off by the error of its sum; with the exponential and the maximum its weight is off, relative to
/// itself, by `e`. The output is the mean of the values under the weights `p`, so it moves by `sum p |v - out| e`, and both sums
/// over the keys have errors of their own. Where keys in few bits leave the weights open, it is still no further off than the furthest value.
fn attention(keys: &[(&Token, f64)], kv_head: usize, q: &[f64], flaw: Option<Flaw>, attended: &mut Attended) {
    let dim = q.len();
    if keys.is_empty() {
        for part in [&mut attended.values, &mut attended.budget, &mut attended.variance] {
            part.extend(std::iter::repeat_n(0.0, dim));
        }
        attended.own_variance.push(0.0);
        return;
    }
    let precision = Precision::of(DType::Float32);
    let scale = if flaw == Some(Flaw::Unscaled) { 1.0 } else { 1.0 / (dim as f64).sqrt() };
    let norm = q.iter().map(|q| q * q).sum::<f64>();
    let scores: Vec<Score> = keys
        .iter()
        .map(|(token, bonus)| {
            let k = &token.k[kv_head];
            let (mut sum, mut size) = (0.0, 0.0);
            for (q, k) in q.iter().zip(&k.values) {
                sum += q * k;
                size += (q * k).abs();
            }
            Score {
                score: sum * scale + bonus,
                error: (precision.sum(dim) + 4.0 * precision.u) * size * scale,
                variance: (norm * k.step_variance + k.relative_variance(q)) * scale * scale,
            }
        })
        .collect();
    let largest = scores.iter().max_by(|a, b| a.score.total_cmp(&b.score)).expect("there are keys");
    // In f32 the exponential of a score is infinite from 88.7 on, and zero for all keys below -104: a row is NaN then. Before
    // that it has few digits.
    let without_maximum = flaw == Some(Flaw::NoMaximum);
    let spoiled = without_maximum && !(-104.0..=f64::from(f32::MAX).ln()).contains(&largest.score);
    let blurred = without_maximum && largest.score < -80.0;
    let weight = |score: &Score, most: f64| (score.score - most).exp();
    let mut weights = Vec::with_capacity(keys.len());
    let (tile, sums) = match flaw {
        Some(Flaw::NotRescaled { tile, sums }) => (tile, sums),
        _ => (keys.len(), false),
    };
    let mut most = f64::NEG_INFINITY;
    for tile in scores.chunks(tile) {
        most = tile.iter().fold(most, |most, score| most.max(score.score));
        weights.extend(tile.iter().map(|score| weight(score, most)));
    }
    let total: f64 =
        if sums { scores.iter().map(|score| weight(score, most)).sum() } else { weights.iter().sum() };
    let sums = precision.sum(keys.len()) + 4.0 * precision.u;
    // Element by element of one key after the other, as they lie in memory.
    let mut out = vec![0.0; dim];
    for ((token, _), weight) in keys.iter().zip(&weights) {
        for (out, value) in out.iter_mut().zip(&token.v[kv_head].values) {
            *out += weight * value;
        }
    }
    out.iter_mut().for_each(|out| *out /= total);
    // A row each of what concerns one element, so that elements are gone through several at a time.
    let zeros = vec![0.0f64; dim];
    let (mut moved, mut sizes) = (zeros.clone(), zeros.clone());
    // What storage in few bits causes, as far as that is in proportion to the errors of scores, and at most: whatever the weights are, the output is
    // among the values.
    let (mut variances, mut furthest, mut owns) = (zeros.clone(), zeros.clone(), zeros);
    let mut own_variance = 0.0;
    for (((token, _), weight), score) in keys.iter().zip(&weights).zip(&scores) {
        let p = weight / total;
        let exponent = score.score.abs() + largest.score.abs() + 1.0;
        let error = score.error + largest.error + 4.0 * precision.u * exponent;
        let v = &token.v[kv_head];
        for (((moved, size), value), out) in moved.iter_mut().zip(&mut sizes).zip(&v.values).zip(&out) {
            *moved += p * (value - out).abs() * error;
            *size += p * value.abs();
        }
        if v.is_exact() && score.variance == 0.0 {
            continue;
        }
        v.variances(&mut owns);
        let all = variances.iter_mut().zip(&mut furthest).zip(&v.values).zip(&out).zip(&owns);
        for ((((variance, furthest), value), out), own) in all {
            let off = (value - out).powi(2);
            *variance += p * p * (off * score.variance + own);
            *furthest = furthest.max(off + own);
        }
        own_variance = owns.iter().fold(own_variance, |sum, own| sum + p * p * own);
    }
    for (i, out) in out.into_iter().enumerate() {
        let budget = moved[i] + sums * (sizes[i] + out.abs()) + precision.rounded(out);
        attended.values.push(if spoiled { f64::NAN } else { out });
        attended.budget.push(if blurred { f64::INFINITY } else { budget });
        attended.variance.push(variances[i].min(furthest[i]));
    }
    attended.own_variance.push(own_variance);
}

struct Score {
    score: f64,
    /// What float32 may be off.
    error: f64,
    /// The variance that storage in few bits causes.
    variance: f64,
}
