//! Which of a row's most probable entries are kept, and which of those a random number falls on.

use super::SamplingError;

/// How many entries a row is asked for at first.
const FIRST: usize = 64;

/// The filters of a sampler, for rows of a certain length.
pub(super) struct Truncation {
    vocab: usize,
    /// What top-k leaves.
    limit: usize,
    /// `None` keeps all.
    top_p: Option<f64>,
    /// 0 keeps all.
    min_p: f64,
}

impl Truncation {
    pub(super) fn new(
        vocab: usize,
        top_k: Option<usize>,
        top_p: Option<f32>,
        min_p: Option<f32>,
    ) -> Result<Truncation, SamplingError> {
        if top_k == Some(0) {
            return Err(SamplingError::TopK);
        }
        if let Some(p) = top_p.filter(|&p| !(p > 0.0 && p <= 1.0)) {
            return Err(SamplingError::TopP(p));
        }
        if let Some(p) = min_p.filter(|p| !(0.0..=1.0).contains(p)) {
            return Err(SamplingError::MinP(p));
        }
        Ok(Truncation {
            vocab,
            limit: top_k.map_or(vocab, |k| k.min(vocab)),
            top_p: top_p.filter(|&p| p < 1.0).map(f64::from),
            min_p: min_p.map_or(0.0, f64::from),
        })
    }

    /// Keeps the first entry.
    pub(super) fn greedy(vocab: usize) -> Truncation {
        Truncation { vocab, limit: vocab.min(1), top_p: None, min_p: 0.0 }
    }

    /// The most entries that may be kept.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// How many entries to look at first. All that top-k leaves are needed, as what follows is relative to their sum.
    pub(super) fn first(&self) -> usize {
        if self.has_top_k() { self.limit } else { self.limit.min(FIRST) }
    }

    fn has_top_k(&self) -> bool {
        self.limit < self.vocab
    }

    fn keeps_all(&self) -> bool {
        !self.has_top_k() && self.top_p.is_none() && self.min_p == 0.0
    }

    /// How many of a row's first entries are kept, given the probabilities of some; `None` if it takes more to tell.
    pub(super) fn kept(&self, probs: &[f32]) -> Option<usize> {
        let possible = probs.partition_point(|&prob| prob > 0.0);
        let is_all = possible < probs.len() || probs.len() == self.limit;
        let probs = &probs[..possible];
        let whole = if self.has_top_k() { sum(probs) } else { 1.0 };
        let nucleus = self.top_p.and_then(|p| {
            let mut covered = 0.0;
            let crossing = probs.iter().position(|&prob| {
                covered += f64::from(prob);
                covered >= p * whole
            });
            crossing.map(|crossing| crossing + 1)
        });
        // In f64 the product of two f32 is exact.
        let threshold = self.min_p * f64::from(probs[0]);
        let likely = probs.iter().position(|&prob| f64::from(prob) < threshold);
        nucleus.into_iter().chain(likely).min().or(is_all.then_some(possible))
    }

    /// The position of the entry that `uniform`, from 0 to below 1, falls on, given the probabilities of a row's first
    /// entries; `None` if it takes more to tell.
    pub(super) fn draw(&self, probs: &[f32], uniform: f64) -> Option<usize> {
        let (kept, mass) = match self.kept(probs) {
            Some(kept) => (&probs[..kept], sum(&probs[..kept])),
            // All are kept, and all sum to 1: the number may fall on one of the first.
            None if self.keeps_all() => (probs, 1.0),
            None => return None,
        };
        // `uniform * mass` rounds to less than `mass`, as `uniform` is at most 1 - 2⁻⁵³: so if `mass` is that of
        // `kept`, there is a position.
        let mut covered = 0.0;
        kept.iter().position(|&prob| {
            covered += f64::from(prob);
            covered > uniform * mass
        })
    }
}

/// The sum of probabilities, in order.
pub(super) fn sum(probs: &[f32]) -> f64 {
    probs.iter().map(|&prob| f64::from(prob)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST_UNIFORM: f64 = 1.0 - f64::EPSILON / 2.0;

    #[test]
    fn largest_uniform_falls_on_last_entry_that_is_kept() {
        let probs: Vec<f32> = (0..1000).map(|i| 1.0 / (i + 3) as f32).collect();
        for kept in 1..probs.len() {
            let truncation = Truncation::new(probs.len(), Some(kept), None, None).unwrap();
            assert_eq!(truncation.draw(&probs[..kept], LARGEST_UNIFORM), Some(kept - 1));
        }
    }

    #[test]
    fn entries_of_probability_zero_are_not_kept() {
        let truncation = Truncation::new(4, None, None, Some(0.0)).unwrap();
        assert_eq!(truncation.kept(&[0.75, 0.25, 0.0, 0.0]), Some(2));
        assert_eq!(truncation.draw(&[0.75, 0.25, 0.0, 0.0], LARGEST_UNIFORM), Some(1));
    }

    #[test]
    fn too_few_entries_settle_nothing() {
        let nucleus = Truncation::new(100, None, Some(0.8), None).unwrap();
        assert_eq!(nucleus.kept(&[0.5, 0.25]), None);
        assert_eq!(nucleus.kept(&[0.5, 0.25, 0.125]), Some(3));
        let likely = Truncation::new(100, None, None, Some(0.25)).unwrap();
        assert_eq!(likely.kept(&[0.5, 0.125]), None);
        assert_eq!(likely.kept(&[0.5, 0.125, 0.0625]), Some(2));
        let all = Truncation::new(100, None, None, None).unwrap();
        assert_eq!(all.kept(&[0.5, 0.25]), None);
        assert_eq!(all.draw(&[0.5, 0.25], 0.75), None);
        assert_eq!(all.draw(&[0.5, 0.25], 0.74), Some(1));
    }

    #[test]
    fn nucleus_includes_entry_that_crosses_and_ends_on_one_that_reaches() {
        for (p, kept) in [(0.25, 1), (0.5, 1), (0.50001, 2), (0.75, 2), (0.8, 3)] {
            let truncation = Truncation::new(4, None, Some(p), None).unwrap();
            assert_eq!(truncation.kept(&[0.5, 0.25, 0.125, 0.125]), Some(kept), "{p}");
        }
    }

    #[test]
    fn nucleus_after_top_k_is_of_what_top_k_left() {
        let truncation = Truncation::new(4, Some(2), Some(0.6), None).unwrap();
        // 0.4 of 0.8 is half.
        assert_eq!(truncation.kept(&[0.4, 0.4]), Some(2));
        let truncation = Truncation::new(4, Some(2), Some(0.5), None).unwrap();
        assert_eq!(truncation.kept(&[0.4, 0.4]), Some(1));
    }
}
