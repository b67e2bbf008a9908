//! Known ways to lose winners.

use std::ops::Range;

use super::problem::Problem;

/// A part of a row that an implementation looks at, because of a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// The last V mod n entries are left out.
    WithoutTail(usize),
    /// The first V mod n entries are left out.
    WithoutHead(usize),
    /// Entries are left out until the address is a multiple of n elements.
    WithoutPrologue(usize),
    /// Only the first n entries are looked at.
    First(usize),
}

impl Part {
    /// Every part that is known to be taken for the whole.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let widths = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        let firsts = (8..=17).map(|bits| Self::First(1 << bits));
        let cut = widths
            .into_iter()
            .flat_map(|n| [Self::WithoutTail(n), Self::WithoutHead(n), Self::WithoutPrologue(n)]);
        cut.chain(firsts)
    }

    /// The entries that are looked at.
    pub(super) fn of(self, problem: &Problem, row: usize) -> &[f64] {
        &problem.row(row)[self.range(problem.vocab(), row)]
    }

    /// Where the entries that are looked at stand in a row.
    fn range(self, vocab: usize, row: usize) -> Range<usize> {
        match self {
            Self::WithoutTail(n) => 0..vocab - vocab % n,
            Self::WithoutHead(n) => vocab % n..vocab,
            Self::WithoutPrologue(n) => ((n - row * vocab % n) % n).min(vocab)..vocab,
            Self::First(n) => 0..n.min(vocab),
        }
    }

    pub(super) fn suspect(self) -> &'static str {
        match self {
            Self::WithoutTail(_) | Self::First(_) => "tail_skipped",
            Self::WithoutHead(_) | Self::WithoutPrologue(_) => "head_skipped",
        }
    }

    pub(super) fn says(self) -> String {
        match self {
            Self::WithoutTail(n) => format!("the last V mod {n} entries of a row were not there"),
            Self::WithoutHead(n) => format!("the first V mod {n} entries of a row were not there"),
            Self::WithoutPrologue(n) => {
                format!("the entries in front of the first address that is a multiple of {n} were not there")
            }
            Self::First(n) => format!("a row ended after {n} entries"),
        }
    }
}

/// A way to lose winners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// The right way, on a part of the row.
    Of(Part),
    /// Worker `i` of so many, each with the entries of one stride class, gives its own i-th best.
    Diagonal(usize),
    /// Each worker keeps a few of its stride class, and the best of these are taken.
    PerLane {
        /// How many workers there are.
        workers: usize,
        /// How many entries each keeps.
        keeps: usize,
    },
    /// The same, and each worker has a contiguous share.
    PerChunk {
        /// How many workers there are.
        workers: usize,
        /// How many entries each keeps.
        keeps: usize,
    },
}

/// The largest logits of a row, in descending order, and where they stand. What is selected wrongly is as a rule not much smaller than what is
/// selected rightly: few entries have to be looked at to tell one way from another.
pub(super) struct Best {
    entries: Vec<(f64, usize)>,
    row: usize,
    vocab: usize,
}

impl Best {
    /// Those of a row that are not below `least`.
    pub(super) fn of(problem: &Problem, row: usize, least: f64) -> Self {
        let logits = problem.row(row).iter().copied().zip(0..);
        let mut entries: Vec<(f64, usize)> = logits.filter(|(logit, _)| *logit >= least).collect();
        entries.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
        Self { entries, row, vocab: problem.vocab() }
    }

    /// The largest of those that are taken, if there are k.
    fn first(&self, k: usize, mut is_taken: impl FnMut(usize) -> bool) -> Option<Vec<f64>> {
        let taken = self.entries.iter().filter(|(_, entry)| is_taken(*entry)).map(|(logit, _)| *logit);
        let first: Vec<f64> = taken.take(k).collect();
        (first.len() == k).then_some(first)
    }
}

impl Selection {
    /// Every way that is known.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let diagonals = [8, 16, 32, 64, 128, 256].map(Self::Diagonal);
        let workers = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        let buffers = workers.into_iter().flat_map(|workers| {
            [1, 2, 4, 8, 16, 32]
                .into_iter()
                .flat_map(move |keeps| [Self::PerLane { workers, keeps }, Self::PerChunk { workers, keeps }])
        });
        Part::all().map(Self::Of).chain(diagonals).chain(buffers)
    }

    /// Whether a row's indices can have come about in this way: enough to save the work of looking closer.
    pub(super) fn admits(self, indices: &[i64], vocab: usize, row: usize) -> bool {
        let at_most = |keeps: usize, workers: usize, worker: &dyn Fn(usize) -> usize| {
            let mut counts = vec![0; workers];
            let entries = indices.iter().filter_map(|&index| usize::try_from(index).ok());
            entries.map(worker).filter(|&worker| worker < workers).all(|worker| {
                counts[worker] += 1;
                counts[worker] <= keeps
            })
        };
        match self {
            Self::Of(part) => {
                let range = part.range(vocab, row);
                indices.iter().all(|&index| usize::try_from(index).is_ok_and(|index| range.contains(&index)))
            }
            Self::Diagonal(_) => true,
            Self::PerLane { workers, keeps } => at_most(keeps, workers, &|index| index % workers),
            Self::PerChunk { workers, keeps } => {
                at_most(keeps, workers, &|index| index / vocab.div_ceil(workers))
            }
        }
    }

    /// The k logits that are taken for the winners of a row: rank by rank where that is telling, NaN for what is left to chance. None where
    /// one of them is not among the `best` of the row.
    pub(super) fn winners(self, best: &Best, k: usize) -> Option<Vec<f64>> {
        let vocab = best.vocab;
        let first_of_each = |keeps: usize, workers: usize, worker: &dyn Fn(usize) -> usize| {
            let mut counts = vec![0; workers];
            best.first(k, |entry| {
                let count = &mut counts[worker(entry)];
                *count += 1;
                *count <= keeps
            })
        };
        match self {
            Self::Of(part) => {
                let range = part.range(vocab, best.row);
                best.first(k, |entry| range.contains(&entry))
            }
            Self::Diagonal(workers) => {
                let mut counts = vec![0; workers];
                let mut winners = vec![f64::NAN; k];
                for &(logit, entry) in &best.entries {
                    let lane = entry % workers;
                    counts[lane] += 1;
                    if lane < k && counts[lane] == lane + 1 {
                        winners[lane] = logit;
                    }
                }
                let has = |lane: usize| vocab.saturating_sub(lane).div_ceil(workers) > lane;
                let is_known = (0..k.min(workers)).all(|lane| !winners[lane].is_nan() || !has(lane));
                is_known.then_some(winners)
            }
            Self::PerLane { workers, keeps } => first_of_each(keeps, workers, &|entry| entry % workers),
            Self::PerChunk { workers, keeps } => {
                first_of_each(keeps, workers, &|entry| entry / vocab.div_ceil(workers))
            }
        }
    }

    /// Whether an entry may be named twice: only what is left to chance can be anything.
    pub(super) fn may_repeat(self) -> bool {
        matches!(self, Self::Diagonal(_))
    }

    /// How many ranks must be known for an answer to be told by them.
    pub(super) fn least_known(self) -> usize {
        if matches!(self, Self::Diagonal(_)) { 4 } else { usize::MAX }
    }

    /// How many winners must be lost to be sure: there are so many parts that one of them explains any one winner, and
    /// even more kinds of buffers.
    pub(super) fn least_lost(self) -> usize {
        match self {
            Self::Of(_) => 2,
            Self::Diagonal(_) => 1,
            Self::PerLane { .. } | Self::PerChunk { .. } => 3,
        }
    }

    pub(super) fn suspect(self) -> &'static str {
        match self {
            Self::Of(part) => part.suspect(),
            Self::Diagonal(_) => "lanes_not_merged",
            Self::PerLane { .. } | Self::PerChunk { .. } => "buffer_too_short",
        }
    }

    pub(super) fn says(self) -> String {
        match self {
            Self::Of(part) => part.says(),
            Self::Diagonal(workers) => {
                format!("rank i were the i-th best of worker i of {workers}, whose lists are never merged")
            }
            Self::PerLane { workers, keeps } => {
                format!("each of {workers} workers kept {keeps} of its stride class, however many win there")
            }
            Self::PerChunk { workers, keeps } => {
                format!("each of {workers} workers kept {keeps} of its share, however many win there")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::oracle::largest;
    use super::*;
    use tribunal_contract::DType;

    fn problem(vocab: usize, k: usize) -> Problem {
        let logits: Vec<f64> = (0..2 * vocab).map(|index| ((index * 37) % 101) as f64).collect();
        Problem::new(DType::Float32, &[1, 2, vocab], k, &logits)
    }

    #[test]
    fn parts_are_what_they_say() {
        let problem = problem(11, 3);
        assert_eq!(Part::WithoutTail(4).of(&problem, 1), &problem.row(1)[..8]);
        assert_eq!(Part::WithoutHead(4).of(&problem, 1), &problem.row(1)[3..]);
        // Row 1 begins at element 11: one more is the next multiple of 4.
        assert_eq!(Part::WithoutPrologue(4).of(&problem, 1), &problem.row(1)[1..]);
        assert_eq!(Part::WithoutPrologue(4).of(&problem, 0), problem.row(0));
        assert_eq!(Part::First(256).of(&problem, 0), problem.row(0));
    }

    fn winners(selection: Selection, problem: &Problem, row: usize) -> Option<Vec<f64>> {
        selection.winners(&Best::of(problem, row, f64::NEG_INFINITY), problem.k)
    }

    #[test]
    fn a_diagonal_takes_one_of_each_worker() {
        let logits = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0];
        let problem = Problem::new(DType::Float32, &[1, 1, 8], 2, &logits);
        assert_eq!(winners(Selection::Diagonal(2), &problem, 0).unwrap(), [9.0, 3.0]);
        let starved = winners(Selection::PerLane { workers: 4, keeps: 1 }, &problem, 0);
        assert_eq!(starved.unwrap(), [9.0, 8.0]);
        assert_eq!(winners(Selection::PerChunk { workers: 2, keeps: 1 }, &problem, 0).unwrap(), [9.0, 7.0]);
    }

    #[test]
    fn buffers_that_are_long_enough_lose_nothing() {
        let problem = problem(64, 5);
        let right = largest(problem.row(0).iter().copied(), 5);
        for workers in [2, 8] {
            for selection in
                [Selection::PerLane { workers, keeps: 8 }, Selection::PerChunk { workers, keeps: 8 }]
            {
                assert_eq!(winners(selection, &problem, 0).unwrap(), right);
            }
        }
    }

    proptest! {
        /// Each way takes what it says, worker by worker, and of the best alone the same or nothing.
        #[test]
        fn ways_take_what_they_say(
            row in prop::collection::vec(prop_oneof![-9i8..9, any::<i8>()], 1..200), k in 1..40usize, among in 0..200usize, way in 0..200usize,
        ) {
            let k = k.min(row.len());
            let logits: Vec<f64> = row.iter().map(|&logit| f64::from(logit)).collect();
            let problem = Problem::new(DType::Float32, &[1, 1, row.len()], k, &logits);
            let ways: Vec<Selection> = Selection::all().collect();
            let selection = ways[way % ways.len()];
            let kept = |workers: usize, keeps: usize, worker: &dyn Fn(usize) -> usize| -> Vec<f64> {
                let own = |which: usize| (0..row.len()).filter(move |&entry| worker(entry) == which);
                (0..workers).flat_map(|which| largest(own(which).map(|entry| logits[entry]), keeps)).collect()
            };
            let due = match selection {
                Selection::Of(part) => largest(part.of(&problem, 0).iter().copied(), k),
                Selection::Diagonal(workers) => (0..k)
                    .map(|rank| {
                        let own = logits.iter().skip(rank).step_by(workers).copied();
                        if rank < workers { largest(own, rank + 1).get(rank).copied().unwrap_or(f64::NAN) } else { f64::NAN }
                    })
                    .collect(),
                Selection::PerLane { workers, keeps } => largest(kept(workers, keeps, &|entry| entry % workers).into_iter(), k),
                Selection::PerChunk { workers, keeps } => {
                    largest(kept(workers, keeps, &|entry| entry / row.len().div_ceil(workers)).into_iter(), k)
                }
            };
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let due = (due.len() == k).then(|| bits(&due));
            prop_assert_eq!(winners(selection, &problem, 0).map(|winners| bits(&winners)), due.clone());
            let least = logits[among % logits.len()];
            let of_few = selection.winners(&Best::of(&problem, 0, least), k).map(|winners| bits(&winners));
            let above = due.filter(|due| due.iter().all(|&bits| !(f64::from_bits(bits) < least)));
            prop_assert_eq!(of_few, above);
        }
    }
}
