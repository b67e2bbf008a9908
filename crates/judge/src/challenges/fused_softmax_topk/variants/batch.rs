//! A softmax with top-k over a batch in plain Rust.

use std::ops::Range;

use tribunal_contract::{DType, Fault, Tensor};

use super::sums::Running;
use super::winners::Entry;
use super::{Defect, Odd, Part, Shift, Topk};
use crate::arithmetic::Real;

/// What an output holds that was never written, in the cage: bytes of 0xf0.
const UNWRITTEN: (f32, i64) = (f32::from_bits(0xf0f0_f0f0), 0xf0f0_f0f0_f0f0_f0f0_u64.cast_signed());

/// Probability and index, rank by rank.
pub(super) type Ranks = Vec<(f32, i64)>;

/// What a call is about.
pub(super) struct Batch<'a> {
    topk: &'a Topk,
    logits: Vec<f32>,
    /// Whether they came in 16 bits.
    is_half: bool,
    vocab: usize,
    k: usize,
}

impl<'a> Batch<'a> {
    pub(super) fn new(topk: &'a Topk, logits: &Tensor, k: usize) -> Self {
        let vocab = *logits.shape().last().expect("a shape has an axis");
        let mut wide = logits.to_f64();
        if topk.has(Defect::BfloatLogits) {
            wide = Tensor::from_f64(DType::BFloat16, [wide.len()], &wide).to_f64();
        }
        let narrow = |logit: f64| match logit as f32 {
            logit if logit.is_nan() && topk.has(Defect::NanIgnored) => f32::NEG_INFINITY,
            logit => logit,
        };
        let is_half = logits.dtype() != DType::Float32;
        Self { topk, logits: wide.into_iter().map(narrow).collect(), is_half, vocab, k }
    }

    /// The ranks of all rows, one after the other.
    pub(super) fn ranks<T: Real>(&self) -> Result<Ranks, Fault> {
        self.refuse()?;
        let topk = self.topk;
        let mut all = Ranks::with_capacity(self.rows() * self.k);
        for row in 0..self.rows() {
            let logits = self.row(row);
            let nan = logits.iter().any(|logit| logit.is_nan());
            if nan || logits.iter().all(|logit| *logit == f32::NEG_INFINITY) {
                let nan_only = logits.iter().all(|logit| logit.is_nan());
                let written = match topk.defect {
                    Some(Defect::RanksBesideNan(most)) if nan => most,
                    Some(Defect::RanksOfNan(most)) if nan_only => most,
                    _ => self.k,
                };
                let mut ranks = self.without_softmax(nan)?;
                ranks.iter_mut().skip(written).for_each(|rank| *rank = UNWRITTEN);
                all.extend(ranks);
            } else if self.writes(row) {
                all.extend(self.spoilt(row, self.ranks_of::<T>(row)));
            } else {
                all.extend(vec![UNWRITTEN; self.k]);
            }
        }
        Ok(all)
    }

    fn refuse(&self) -> Result<(), Fault> {
        let Self { topk, vocab, k, .. } = *self;
        let pads = topk.pads || matches!(topk.defect, Some(Defect::PadsWithFirst | Defect::PadsWithLowest));
        if k > vocab && !pads {
            return Err(refusal("k must not exceed the vocabulary"));
        }
        if k > 32 && topk.has(Defect::RefusesManyWinners) {
            return Err(refusal("k must not exceed 32"));
        }
        if k > 64 && self.is_half && topk.has(Defect::RefusesManyOfHalf) {
            return Err(refusal("k must not exceed 64 in 16 bits"));
        }
        if vocab == 1 && topk.has(Defect::RefusesOneEntry) {
            return Err(refusal("a vocabulary must have more than one entry"));
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.logits.len() / self.vocab
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.logits[row * self.vocab..(row + 1) * self.vocab]
    }

    fn writes(&self, row: usize) -> bool {
        match self.topk.defect {
            Some(Defect::RowsMerged(group)) => row.is_multiple_of(group),
            Some(Defect::RowsBeyondGroups(group)) => {
                self.rows() < group || row < self.rows() - self.rows() % group
            }
            Some(Defect::RowsBeyond(most)) => row < most,
            Some(Defect::FirstRowOnly) => row == 0,
            _ => true,
        }
    }

    /// The answer for a row that has a NaN, or else nothing but -inf.
    fn without_softmax(&self, nan: bool) -> Result<Ranks, Fault> {
        let every = |prob: f32| (0..self.k as i64).map(|rank| (prob, rank)).collect();
        let mut ranks: Ranks = match self.topk.odd {
            Odd::Refused if !self.topk.has(Defect::MaskedRowAnswered) => {
                return Err(refusal("a row has no softmax"));
            }
            Odd::Even if !nan => every(1.0 / self.vocab as f32),
            Odd::Nan | Odd::Even => every(f32::NAN),
            Odd::Zeros | Odd::Refused => every(0.0),
        };
        if self.topk.has(Defect::MaskedRowAnswered) {
            ranks[0].0 = if nan { return Err(refusal("a row has a NaN")) } else { 1.0 };
        }
        Ok(ranks)
    }

    /// The winners of a row and their probabilities.
    fn ranks_of<T: Real>(&self, row: usize) -> Ranks {
        let topk = self.topk;
        let max = match topk.defect {
            Some(Defect::MaximumOfAllRows) => self.logits.iter().copied().reduce(f32::max),
            Some(Defect::WithoutMaximum) => Some(0.0),
            Some(Defect::MaximumFrom(start)) => {
                Some(self.row(row).iter().copied().fold(start as f32, f32::max))
            }
            _ => None,
        };
        let mut sum = topk.sum::<T>(&self.logits[self.summed(row)], max);
        let winners = topk.select(&self.entries(self.searched(row), sum), self.k);
        match topk.defect {
            Some(Defect::SumOverWinners) => {
                let winners: Vec<f32> = winners.iter().map(|entry| self.logits[entry.place]).collect();
                sum = topk.sum(&winners, None);
            }
            Some(Defect::Multiplied(times)) => sum.sum = sum.sum * T::of(f64::from(times)),
            Some(Defect::Shifted(..)) => {
                let own: f64 =
                    winners.iter().map(|entry| topk.exp(self.logits[entry.place], sum.max).wide()).sum();
                let rest = sum.sum.wide() - own;
                sum.sum = sum.sum + T::of(topk.shift(Shift::Extra) + topk.shift(Shift::Rest) * rest);
            }
            _ => {}
        }
        let rank = |entry: &Entry| match self.logits.get(entry.place) {
            Some(&logit) => {
                let index = entry.place % self.vocab;
                let kept =
                    if self.is_half && topk.has(Defect::IndicesIn16Bits) { 0xffff } else { usize::MAX };
                (topk.prob(logit, sum), (index & kept) as i64)
            }
            None => (0.0, -1),
        };
        winners.iter().map(rank).collect()
    }

    /// Candidates, with what they are chosen by.
    fn entries<T: Real>(&self, searched: Range<usize>, sum: Running<T>) -> Vec<Entry> {
        let masks = match self.topk.defect {
            Some(Defect::MasksNeverTaken { .. }) => false,
            Some(Defect::MasksNeverTakenInHalf { .. }) => !self.is_half,
            _ => true,
        };
        let taken = |place: &usize| masks || self.logits[*place] != f32::NEG_INFINITY;
        let entry = |place: usize| {
            let logit = self.logits[place];
            let key = if self.topk.softmax_first { self.topk.prob(logit, sum) } else { logit };
            Entry { key, place }
        };
        searched.filter(taken).map(entry).collect()
    }

    /// Where the entries stand that a row's sum is over.
    fn summed(&self, row: usize) -> Range<usize> {
        let block =
            |group: usize| row - row % group..self.rows().min((row - row % group).saturating_add(group));
        let rows = match self.topk.defect {
            Some(Defect::SumOverRows(group) | Defect::RowsMerged(group)) => block(group),
            Some(Defect::SumOfFirstRow) => 0..1,
            _ => row..row + 1,
        };
        match self.topk.defect {
            Some(Defect::Looks(part) | Defect::SumsOver(part)) => self.part(row, part),
            _ => rows.start * self.vocab..rows.end * self.vocab,
        }
    }

    /// Where the entries stand among which a row's winners are looked for.
    fn searched(&self, row: usize) -> Range<usize> {
        let rows = match self.topk.defect {
            Some(Defect::RowsMerged(group)) => row..self.rows().min(row + group),
            Some(Defect::HeapKept) => 0..row + 1,
            Some(Defect::NeighboursWinners) => row.saturating_sub(1)..row.max(1),
            _ => row..row + 1,
        };
        match self.topk.defect {
            Some(Defect::Looks(part) | Defect::SelectsFrom(part)) => self.part(row, part),
            _ => rows.start * self.vocab..rows.end * self.vocab,
        }
    }

    fn part(&self, row: usize, part: Part) -> Range<usize> {
        let (start, end) = (row * self.vocab, (row + 1) * self.vocab);
        match part {
            Part::WithoutTail(width) => start..end - self.vocab % width,
            Part::WithoutHead(width) => start + self.vocab % width..end,
            Part::WithoutPrologue(width) => start.next_multiple_of(width).min(end)..end,
            Part::First(count) => start..end.min(start + count),
        }
    }

    /// What a defect makes of ranks that were right, or too few.
    fn spoilt(&self, row: usize, mut ranks: Ranks) -> Ranks {
        ranks.resize(
            self.k,
            match self.topk.defect {
                Some(Defect::PadsWithFirst) => (0.0, 0),
                Some(Defect::PadsWithLowest) => (f32::MIN, -1),
                Some(Defect::MasksNeverTaken { index } | Defect::MasksNeverTakenInHalf { index }) => {
                    (0.0, index)
                }
                _ => (0.0, -1),
            },
        );
        match self.topk.defect {
            Some(Defect::Zeros) => ranks.fill((0.0, 0)),
            Some(Defect::Ascending) => ranks.reverse(),
            Some(Defect::IndicesSorted) => {
                let mut indices: Vec<i64> = ranks.iter().map(|rank| rank.1).collect();
                indices.sort_unstable();
                ranks.iter_mut().zip(indices).for_each(|(rank, index)| rank.1 = index);
            }
            Some(Defect::FlatIndices) => {
                ranks.iter_mut().for_each(|rank| rank.1 += (row * self.vocab) as i64)
            }
            Some(Defect::OneBased) => ranks.iter_mut().for_each(|rank| rank.1 += 1),
            _ => {}
        }
        ranks
    }
}

fn refusal(message: &str) -> Fault {
    Fault::Refused { message: message.to_owned() }
}
