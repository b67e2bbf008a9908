//! Known ways to get the denominator wrong.

use super::problem::Problem;
use super::selections::Part;

/// How a running sum of exponentials is brought to a new maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rescale {
    /// It is multiplied by exp(new - old).
    Inverted,
    /// It is left as it is.
    Missing,
}

/// A way to get the denominator wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Denominator {
    /// The right way, on a part of the row.
    Of(Part),
    /// Over the winners only.
    OverTopk,
    /// Over so many rows together.
    OverRows(usize),
    /// Each of so many workers, with one stride class each, keeps a running sum and gets it wrong.
    Running {
        /// What is done when the maximum grows.
        rescale: Rescale,
        /// How many workers there are.
        workers: usize,
    },
    /// The same in blocks of so many entries, each brought to its own maximum rightly.
    Blocks {
        /// What is done when the maximum grows.
        rescale: Rescale,
        /// How many entries a block has.
        entries: usize,
    },
    /// Each of so many workers sums rightly, and the sums are put together wrongly.
    Merged {
        /// What is done when the maximum grows.
        rescale: Rescale,
        /// How many workers there are.
        workers: usize,
    },
    /// The same, and the upper half of the workers is put to the lower until one is left.
    MergedByHalves {
        /// What is done when the maximum grows.
        rescale: Rescale,
        /// How many workers there are: a power of two.
        workers: usize,
    },
}

impl Denominator {
    /// Every way that is known.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let rescales = [Rescale::Inverted, Rescale::Missing].into_iter().flat_map(|rescale| {
            let running = [1, 4, 8, 16, 32, 64, 128, 256].map(|workers| Self::Running { rescale, workers });
            let blocks = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]
                .map(|entries| Self::Blocks { rescale, entries });
            let merged = [4, 8, 16, 32, 64, 128, 256].into_iter().flat_map(move |workers| {
                [Self::Merged { rescale, workers }, Self::MergedByHalves { rescale, workers }]
            });
            running.into_iter().chain(blocks).chain(merged)
        });
        let rows = [2, 4, 8, 16, 32, usize::MAX].map(Self::OverRows);
        [Self::OverTopk].into_iter().chain(Part::all().map(Self::Of)).chain(rows).chain(rescales)
    }

    /// The logarithm of the denominator of a row whose winners are `named`.
    pub(super) fn lse(self, problem: &Problem, row: usize, named: &[f64]) -> f64 {
        let work_out = || self.work_out(problem, row, named);
        if self == Self::OverTopk {
            // It alone hangs on who won.
            return work_out();
        }
        *problem.wrong.borrow_mut().entry((self, row)).or_insert_with(work_out)
    }

    fn work_out(self, problem: &Problem, row: usize, named: &[f64]) -> f64 {
        let logits = problem.row(row);
        match self {
            Self::Of(part) => lse(part.of(problem, row).iter().copied()),
            Self::OverTopk => lse(named.iter().copied()),
            Self::OverRows(count) => {
                let first = row - row % count;
                let rows = first..problem.rows().min(first.saturating_add(count));
                lse(rows.flat_map(|row| problem.row(row)).copied())
            }
            Self::Running { rescale, workers } => {
                let lanes = (0..workers).map(|lane| {
                    let own = logits.iter().skip(lane).step_by(workers);
                    own.fold(Sum::EMPTY, |sum, &logit| sum.plus(Sum { max: logit, sum: 1.0 }, Some(rescale)))
                });
                lanes.fold(Sum::EMPTY, |sum, lane| sum.plus(lane, None)).lse()
            }
            Self::Blocks { rescale, entries } => {
                let blocks = logits.chunks(entries).map(|block| Sum::of(block.iter().copied()));
                blocks.fold(Sum::EMPTY, |sum, block| sum.plus(block, Some(rescale))).lse()
            }
            Self::Merged { rescale, workers } => {
                let lanes =
                    (0..workers).map(|lane| Sum::of(logits.iter().skip(lane).step_by(workers).copied()));
                lanes.fold(Sum::EMPTY, |sum, lane| sum.plus(lane, Some(rescale))).lse()
            }
            Self::MergedByHalves { rescale, workers } => {
                let lane = |lane| Sum::of(logits.iter().skip(lane).step_by(workers).copied());
                let mut sums: Vec<Sum> = (0..workers).map(lane).collect();
                while sums.len() > 1 {
                    let upper = sums.split_off(sums.len() / 2);
                    sums.iter_mut().zip(upper).for_each(|(sum, upper)| *sum = sum.plus(upper, Some(rescale)));
                }
                sums[0].lse()
            }
        }
    }

    pub(super) fn suspect(self) -> &'static str {
        match self {
            Self::Of(part) => part.suspect(),
            Self::OverTopk => "denominator_over_topk",
            Self::OverRows(_) => "rows_mixed",
            Self::Running { rescale, .. }
            | Self::Blocks { rescale, .. }
            | Self::Merged { rescale, .. }
            | Self::MergedByHalves { rescale, .. } => match rescale {
                Rescale::Inverted => "rescale_inverted",
                Rescale::Missing => "rescale_missing",
            },
        }
    }

    pub(super) fn says(self) -> String {
        let how = |rescale| match rescale {
            Rescale::Inverted => "multiplied by exp(new - old) when the maximum grows, not by exp(old - new)",
            Rescale::Missing => "not rescaled when the maximum grows",
        };
        match self {
            Self::Of(part) => part.says(),
            Self::OverTopk => "the denominator were the sum over the winners only".to_owned(),
            Self::OverRows(usize::MAX) => "the denominator were the sum over all rows".to_owned(),
            Self::OverRows(count) => format!("the denominator were the sum over {count} rows"),
            Self::Running { rescale, .. } => format!("the running sum were {}", how(rescale)),
            Self::Blocks { rescale, .. } => format!("the running sum over blocks were {}", how(rescale)),
            Self::Merged { rescale, .. } | Self::MergedByHalves { rescale, .. } => {
                format!("the sums of the workers were {}", how(rescale))
            }
        }
    }
}

/// A sum of exponentials relative to a maximum.
#[derive(Clone, Copy)]
struct Sum {
    max: f64,
    sum: f64,
}

impl Sum {
    const EMPTY: Self = Self { max: f64::NEG_INFINITY, sum: 0.0 };

    fn of(logits: impl Iterator<Item = f64> + Clone) -> Self {
        let max = logits.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum = if max.is_finite() { logits.map(|logit| (logit - max).exp()).sum() } else { 0.0 };
        Self { max, sum }
    }

    /// Both together; where the maximum grows, what was there is brought to it, or not.
    fn plus(self, other: Self, wrong: Option<Rescale>) -> Self {
        if other.sum == 0.0 || other.max == f64::NEG_INFINITY {
            return self;
        }
        if self.sum == 0.0 {
            return other;
        }
        if other.max <= self.max {
            return Self { sum: self.sum + other.sum * (other.max - self.max).exp(), ..self };
        }
        let factor = match wrong {
            None => (self.max - other.max).exp(),
            Some(Rescale::Inverted) => (other.max - self.max).exp(),
            Some(Rescale::Missing) => 1.0,
        };
        Self { max: other.max, sum: self.sum * factor + other.sum }
    }

    fn lse(self) -> f64 {
        self.max + self.sum.ln()
    }
}

/// The logarithm of a sum of exponentials.
fn lse(logits: impl Iterator<Item = f64> + Clone) -> f64 {
    Sum::of(logits).lse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_contract::DType;

    fn near(value: f64, due: f64) {
        assert!((value - due).abs() < 1e-12, "{value} {due}");
    }

    #[test]
    fn running_sums_go_wrong_where_the_maximum_grows_and_nowhere_else() {
        let ln2 = std::f64::consts::LN_2;
        let rising = Problem::new(DType::Float64, &[1, 1, 2], 1, &[0.0, ln2]);
        let falling = Problem::new(DType::Float64, &[1, 1, 2], 1, &[ln2, 0.0]);
        let running = |rescale| Denominator::Running { rescale, workers: 1 };
        // Relative to the maximum: 1/2 + 1 is right, 2 + 1 inverted, 1 + 1 without rescaling.
        near(running(Rescale::Inverted).lse(&rising, 0, &[]), ln2 + 3f64.ln());
        near(running(Rescale::Missing).lse(&rising, 0, &[]), ln2 + 2f64.ln());
        for rescale in [Rescale::Inverted, Rescale::Missing] {
            near(running(rescale).lse(&falling, 0, &[]), 3f64.ln());
        }
    }

    #[test]
    fn halves_are_merged_in_another_order_than_one_by_one() {
        let ln2 = std::f64::consts::LN_2;
        let problem = Problem::new(DType::Float64, &[1, 1, 4], 1, &[0.0, 0.0, ln2, 0.0]);
        let (rescale, workers) = (Rescale::Missing, 4);
        // Relative to ln 2: 1 + 1 and then 1/2 + 1/2 by halves, and 1 + 1 + 1 + 1/2 one by one.
        near(Denominator::MergedByHalves { rescale, workers }.lse(&problem, 0, &[]), ln2 + 3f64.ln());
        near(Denominator::Merged { rescale, workers }.lse(&problem, 0, &[]), ln2 + 3.5f64.ln());
    }

    #[test]
    fn sums_over_rows_take_the_rows_of_the_group() {
        let problem = Problem::new(DType::Float64, &[1, 3, 1], 1, &[0.0, 0.0, 5.0]);
        near(Denominator::OverRows(2).lse(&problem, 1, &[]), 2f64.ln());
        near(Denominator::OverRows(2).lse(&problem, 2, &[]), 5.0);
    }
}
