//! What a wrong answer points to.
//!
//! An answer has two halves that go wrong apart. The *selection* is the logits that its indices name. The *denominator* is what the
//! probabilities say it was: if `p = exp(x) / D` for each entry with the logit `x` that its index names, then every rank gives
//! the same `D`. Each half is compared with what known defects make of the same input.

use std::collections::HashSet;

use super::answer::{Answer, Invalid};
use super::denominators::Denominator;
use super::oracle::{Row, TINY, Winners};
use super::problem::Problem;
use super::selections::{Best, Selection};
use crate::compare::{Expected, compare};
use crate::lead::{Lead, shorten};
use tribunal_contract::{DType, Tensor};

/// Exponents beyond which exp in float32 is infinite or zero for sure, and those up to which it is an ordinary number. Sums
/// grow a little further, and subnormal numbers come before zero.
const LOST: std::ops::RangeInclusive<f64> = -104.0..=89.0;
const KEPT: std::ops::RangeInclusive<f64> = -80.0..=88.0;

/// Denominators of rows beyond this length are not compared with every known defect: that would take seconds.
const LONGEST: usize = 1 << 18;

/// Everything needed to look into one wrong answer.
#[derive(Clone, Copy)]
pub(super) struct Wrong<'a> {
    pub(super) problem: &'a Problem,
    pub(super) right: &'a [Row],
    pub(super) answer: &'a Answer,
}

/// One row of an answer beside what it should be.
pub(super) struct Seen<'a> {
    pub(super) row: usize,
    pub(super) right: &'a Winners,
    /// The logits that the indices name; NaN where one names none.
    pub(super) named: Vec<f64>,
    pub(super) probs: &'a [f64],
}

impl<'a> Wrong<'a> {
    /// The rows that have a softmax.
    pub(super) fn rows(&self) -> Vec<Seen<'a>> {
        let Self { problem, right, answer } = *self;
        let see = |(row, right): (usize, &'a Row)| match right {
            Row::Winners(right) => {
                Some(Seen { row, right, named: answer.named(problem, row), probs: answer.probs(row) })
            }
            _ => None,
        };
        right.iter().enumerate().filter_map(see).collect()
    }

    /// What would explain wrong indices.
    pub(super) fn leads_of_selection(&self) -> Vec<Lead> {
        let rows = self.rows();
        if self.skips(&rows) {
            return Vec::new();
        }
        let fits: [Fit; 5] = [misnumbered, apart, unsorted, masked, capped];
        if let Some(lead) = fits.iter().find_map(|fit| fit(self, &rows)) {
            return vec![lead];
        }
        let vocab = self.problem.vocab();
        let repeats =
            |seen: &Seen<'_>| matches!(self.answer.invalid(seen.row, vocab), Some(Invalid::Again { .. }));
        let repeats = rows.iter().any(repeats);
        let best: Vec<Best> =
            rows.iter().map(|seen| Best::of(self.problem, seen.row, seen.least())).collect();
        let (mut leads, mut is_sure) = (Vec::new(), false);
        for selection in Selection::all() {
            let admits = |seen: &Seen<'_>| selection.admits(self.answer.indices(seen.row), vocab, seen.row);
            if repeats && !selection.may_repeat() || !rows.iter().all(admits) {
                continue;
            }
            if let Some(lost) = self.lost_by(&rows, &best, selection) {
                add(&mut leads, selection.suspect(), format!("it selects as if {}", selection.says()));
                is_sure |= lost >= selection.least_lost();
            }
        }
        if is_sure { leads } else { Vec::new() }
    }

    /// Whether some row is not answered at all: zeros agree with much.
    fn skips(&self, rows: &[Seen<'_>]) -> bool {
        rows.iter().any(|seen| self.answer.is_blank(seen.row))
    }

    /// How many winners were lost if they were selected in this way, which would not be right.
    fn lost_by(&self, rows: &[Seen<'_>], best: &[Best], selection: Selection) -> Option<usize> {
        let (mut telling, mut lost) = (false, 0);
        for (seen, best) in rows.iter().zip(best) {
            let due = selection.winners(best, self.problem.k)?;
            // What is left to chance says nothing, nor do masks.
            if due.iter().filter(|logit| logit.is_finite()).count() < selection.least_known().min(due.len()) {
                return None;
            }
            let ordered = due.iter().zip(&seen.named).all(|(due, named)| due.is_nan() || due == named);
            if !ordered && sorted(&due) != sorted(&seen.named) {
                return None;
            }
            telling |= due.iter().zip(&seen.right.logits).any(|(due, right)| !due.is_nan() && due != right);
            lost += due.iter().filter(|logit| Some(*logit) < seen.right.logits.last()).count();
        }
        telling.then_some(lost)
    }

    /// What would explain wrong probabilities.
    pub(super) fn leads_of_probs(&self) -> Vec<Lead> {
        let rows = self.rows();
        if self.skips(&rows) {
            return Vec::new();
        }
        let fits: [Fit; 2] = [unsorted, transformed];
        if let Some(lead) = fits.iter().find_map(|fit| fit(self, &rows)) {
            return vec![lead];
        }
        let fits: [Fit; 3] = [maximum_of_nothing, maximum_shared, overflowed];
        let mut leads: Vec<Lead> = fits.iter().filter_map(|fit| fit(self, &rows)).collect();
        if let Some(lses) = rows.iter().map(Seen::lse).collect::<Option<Vec<f64>>>() {
            if rows.iter().zip(&lses).all(|(seen, lse)| seen.is_lse(*lse, seen.right.lse)) {
                // Each probability belongs to the entry named; it is the wrong entry.
                return self.leads_of_selection();
            }
            leads.extend(multiplied(&rows, &lses));
            let mut is_sure = !leads.is_empty();
            for denominator in Denominator::all().filter(|_| self.problem.vocab() <= LONGEST) {
                if let Some(off) = self.off_by(&rows, &lses, denominator) {
                    add(&mut leads, denominator.suspect(), format!("it is as if {}", denominator.says()));
                    is_sure |= off > 4.0;
                }
            }
            if !is_sure {
                leads.clear();
                leads.extend(running_sum(self, &rows, &lses));
            }
            // Of one winner any probability is that of some denominator.
            if leads.is_empty() && self.problem.k == 1 && differ(&rows, &lses) {
                leads.extend(half_precision(&rows));
            }
        } else if leads.is_empty() {
            leads.extend(half_precision(&rows));
        }
        leads
    }

    /// How far off the denominator were, in tolerances, if it came about in this way.
    fn off_by(&self, rows: &[Seen<'_>], lses: &[f64], denominator: Denominator) -> Option<f64> {
        let mut off = 0.0f64;
        for (seen, &lse) in rows.iter().zip(lses) {
            let due = denominator.lse(self.problem, seen.row, &seen.named);
            // A sum that was inflated by orders of magnitude has rounding errors of its own, or is infinite.
            let blown_up = due - seen.right.lse > 1.0 && (lse - due).abs() < 1e-3
                || due - seen.right.max > *KEPT.end() && lse == f64::INFINITY;
            if !blown_up && !seen.is_lse(lse, due) {
                return None;
            }
            off = off.max((due - seen.right.lse).abs() / seen.tolerance());
        }
        (off > 1.0).then_some(off)
    }

    /// Whether several winners are lost, or counted twice, and every probability still belongs to the entry named.
    pub(super) fn loses_entries(&self) -> bool {
        let rows = self.rows();
        let lost = |seen: &Seen<'_>| {
            let wins = |rank: &usize| Some(&seen.named[*rank]) >= seen.right.logits.last();
            let indices = self.answer.indices(seen.row);
            let kept: HashSet<i64> = (0..indices.len()).filter(wins).map(|rank| indices[rank]).collect();
            indices.len() - kept.len()
        };
        let several = rows.iter().map(lost).sum::<usize>() > 2;
        several && rows.iter().all(|seen| seen.lse().is_some_and(f64::is_finite))
    }
}

impl Seen<'_> {
    /// What the probabilities say the logarithm of the denominator was, if they agree; infinite if all are zero and should
    /// not be.
    fn lse(&self) -> Option<f64> {
        if self.probs.iter().all(|&prob| prob == 0.0) {
            let due = self.named.iter().any(|&logit| self.right.prob(logit) > 1e6 * TINY);
            return due.then_some(f64::INFINITY);
        }
        let mut common: Option<f64> = None;
        for (&logit, &prob) in self.named.iter().zip(self.probs) {
            if !(prob >= 0.0) || logit.is_nan() {
                return None;
            }
            if logit == f64::NEG_INFINITY && prob > 0.0 {
                return None;
            }
            if prob < 1e6 * TINY {
                continue;
            }
            let lse = logit - prob.ln();
            match common {
                None => common = Some(lse),
                Some(first) if (lse - first).abs() > self.tolerance() => return None,
                Some(_) => {}
            }
        }
        common
    }

    /// The least logit that is named.
    fn least(&self) -> f64 {
        self.named.iter().copied().fold(f64::INFINITY, f64::min)
    }

    fn is_lse(&self, lse: f64, due: f64) -> bool {
        (lse - due).abs() <= self.tolerance()
    }

    /// How far two logarithms of a denominator may be apart and be the same.
    fn tolerance(&self) -> f64 {
        let furthest = self.right.logits.iter().rev().find(|logit| logit.is_finite());
        2.0 * self.right.relative(*furthest.unwrap_or(&self.right.max))
    }

    /// Whether every index names an entry of its rank.
    pub(super) fn selects_rightly(&self) -> bool {
        (0..self.named.len()).all(|rank| self.right.misplacement(rank, self.named[rank]) <= 1.0)
    }

    /// Indices that would be right: those given, wherever they are, and elsewhere the first entry of the value due.
    pub(super) fn right_indices(&self, row: &[f64], given: &[i64]) -> Vec<f64> {
        let mut used = HashSet::new();
        let keep: Vec<bool> = (0..self.named.len())
            .map(|rank| {
                self.right.misplacement(rank, self.named[rank]) <= 1.0 && used.insert(given[rank] as usize)
            })
            .collect();
        (0..self.named.len())
            .map(|rank| {
                if keep[rank] {
                    return given[rank] as f64;
                }
                let due = |&entry: &usize| row[entry] == self.right.logits[rank] && !used.contains(&entry);
                let entry = (0..row.len()).find(due);
                used.extend(entry);
                entry.map_or(f64::NAN, |entry| entry as f64)
            })
            .collect()
    }

    /// Whether the right entries are named, in any order.
    fn has_the_winners(&self) -> bool {
        sorted(&self.named) == self.right.logits
    }

    /// Whether some probability is nowhere near what it should be.
    fn is_lost(&self) -> bool {
        let mut ranks = self.probs.iter().zip(&self.right.logits);
        ranks.any(|(&prob, &logit)| !self.is_near(prob, logit))
    }

    fn is_near(&self, prob: f64, logit: f64) -> bool {
        let due = self.right.prob(logit);
        (0.5 * due - TINY..=2.0 * due + TINY).contains(&prob)
    }

    fn has_right_probs(&self) -> bool {
        let probs = Tensor::from_f64(DType::Float64, [self.probs.len()], self.probs);
        compare(&probs, &self.right.expected()).holds()
    }
}

/// A way to look at a wrong answer.
type Fit = fn(&Wrong<'_>, &[Seen<'_>]) -> Option<Lead>;

fn lead(suspect: &'static str, says: &str) -> Option<Lead> {
    Some(Lead { suspect, says: says.to_owned() })
}

fn add(leads: &mut Vec<Lead>, suspect: &'static str, says: String) {
    if !leads.iter().any(|lead| lead.suspect == suspect) {
        leads.push(Lead { suspect, says });
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(|a, b| b.total_cmp(a));
    values
}

/// Indices that count from somewhere else.
fn misnumbered(wrong: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let vocab = wrong.problem.vocab();
    let counted_from = |origin: &dyn Fn(usize) -> i64| {
        rows.iter().all(|seen| {
            let logits = wrong.problem.row(seen.row);
            wrong.answer.indices(seen.row).iter().enumerate().all(|(rank, index)| {
                usize::try_from(index.wrapping_sub(origin(seen.row)))
                    .ok()
                    .and_then(|index| logits.get(index))
                    .is_some_and(|&named| seen.right.misplacement(rank, named) <= 1.0)
            })
        })
    };
    if wrong.problem.rows() > 1 && counted_from(&|row| (row * vocab) as i64) {
        return lead(
            "flat_indices",
            "indices count from the first element of the whole tensor, not of the row",
        );
    }
    if counted_from(&|_| 1) {
        return lead("one_based_indices", "indices count from 1");
    }
    None
}

/// The right winners and the right probabilities, and the wrong pairs.
fn apart(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let fits = rows.iter().all(|seen| seen.has_the_winners() && seen.has_right_probs());
    let shuffled = rows.iter().any(|seen| !seen.selects_rightly());
    if !fits || !shuffled {
        return None;
    }
    lead("indices_apart", "the winners and their probabilities are right, and do not stand side by side")
}

/// The right pairs in the wrong order.
fn unsorted(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let fits = rows
        .iter()
        .all(|seen| seen.has_the_winners() && seen.lse().is_some_and(|lse| seen.is_lse(lse, seen.right.lse)));
    let disordered = rows.iter().any(|seen| !seen.selects_rightly());
    if !fits || !disordered {
        return None;
    }
    lead("not_sorted", "every pair of index and probability is right, and they are not in descending order")
}

/// Entries without probability where there are others, or the same one twice.
fn masked(wrong: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let mut found = false;
    for seen in rows {
        let (indices, k) = (wrong.answer.indices(seen.row), seen.named.len());
        let is_wrong = |&rank: &usize| {
            let in_place = seen.right.misplacement(rank, seen.named[rank]) <= 1.0;
            !in_place || indices[..rank].contains(&indices[rank])
        };
        let wrong_ranks: Vec<usize> = (0..k).filter(is_wrong).collect();
        let Some(&first) = wrong_ranks.first() else { continue };
        let finite = seen.right.logits.iter().filter(|logit| logit.is_finite()).count();
        // One of several places behind the finite entries may be right by chance; a single one says nothing.
        let behind = first >= finite && k - finite > 1 && wrong_ranks.len() + 1 >= k - finite;
        let masks_only = seen.named.iter().all(|&logit| logit == f64::NEG_INFINITY);
        let instead =
            masks_only && seen.probs[0] > 0.0 && seen.probs.iter().all(|&prob| prob == seen.probs[0]);
        if !behind && !instead {
            return None;
        }
        found = true;
    }
    let masks = wrong.problem.wide.contains(&f64::NEG_INFINITY);
    if !found || !masks {
        return None;
    }
    lead("masked_entry_named", "only what has no probability is named wrongly: entries of -inf")
}

/// The first few winners right, and no others.
fn capped(wrong: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let right = |seen: &Seen<'_>| {
        let wrong = |rank: &usize| !(seen.right.misplacement(*rank, seen.named[*rank]) <= 1.0);
        (0..seen.named.len()).find(wrong)
    };
    let first = right(rows.first()?)?;
    // A place that nothing but a size explains; and a single winner beyond it may be lost in many ways.
    let known = [8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 512, 1024, 2048, 4096].contains(&first);
    let several = wrong.problem.k - first > 1;
    let is_tie = |seen: &Seen<'_>| seen.right.misplacement(0, seen.right.logits[first]) <= 1.0;
    if !known || !several || rows.iter().any(is_tie) || rows.iter().any(|seen| right(seen) != Some(first)) {
        return None;
    }
    let nothing_else = rows
        .iter()
        .all(|seen| seen.named[first..].iter().all(|named| !seen.right.logits[first..].contains(named)));
    if !nothing_else {
        return None;
    }
    let says = format!("the first {first} winners of every row are right and none is after these");
    Some(Lead { suspect: "buffer_too_short", says })
}

/// Not the probabilities, but what they are made of.
fn transformed(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let is = |due: &dyn Fn(&Seen<'_>, f64) -> f64| {
        rows.iter().all(|seen| {
            let values: Vec<f64> = seen.right.logits.iter().map(|&logit| due(seen, logit)).collect();
            let budget = values.iter().map(|value| 1e-5 * (1.0 + value.abs())).collect();
            let actual = Tensor::from_f64(DType::Float64, [seen.probs.len()], seen.probs);
            compare(&actual, &Expected { values, budget }).holds()
        })
    };
    if is(&|seen, logit| logit - seen.right.lse) {
        return lead("log_probabilities", "these are the logarithms of the probabilities");
    }
    if is(&|_, logit| logit) {
        return lead("logits_returned", "these are the logits, not their probabilities");
    }
    None
}

impl Seen<'_> {
    /// Whether the probabilities are what float32 makes of them if this, and not the largest logit, is subtracted.
    fn is_relative_to(&self, origin: f64) -> bool {
        let total = self.right.lse - origin;
        self.right.logits.iter().zip(self.probs).all(|(&logit, &prob)| {
            let (exponent, due) = (logit - origin, self.right.prob(logit));
            let near = self.is_near(prob, logit);
            if KEPT.contains(&exponent) && KEPT.contains(&total) {
                let rounding = (exponent.abs() + total.abs()) * DType::Float32.unit_roundoff();
                (prob - due).abs() <= self.right.budget(logit) + rounding * due
            } else if total < *LOST.start() || exponent > *LOST.end() {
                // 0 / 0, or infinity over infinity.
                prob.is_nan()
            } else if total > *KEPT.end() {
                prob.is_nan() || prob == 0.0 || near
            } else {
                // Subnormal numbers: what is largest does not vanish before the sum does.
                prob.is_nan() || near || prob == 0.0 && logit < self.right.max
            }
        })
    }
}

/// Whether just those rows are lost which are lost in float32 if this is subtracted for the maximum. Where no row is right,
/// much else may be wrong.
fn lost_where(rows: &[Seen<'_>], origin: impl Fn(&Seen<'_>) -> f64) -> bool {
    rows.iter().all(|seen| seen.is_relative_to(origin(seen)))
        && rows.iter().any(Seen::has_right_probs)
        && rows.iter().any(Seen::is_lost)
}

/// Rows whose logits are all far below zero are lost, and no others.
fn maximum_of_nothing(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    if !lost_where(rows, |seen| seen.right.max.max(0.0)) {
        return None;
    }
    lead(
        "max_starts_at_zero",
        "the rows that lie far below 0, and no others, are lost: the maximum is never below 0",
    )
}

/// Rows with large logits are lost, and no others.
fn overflowed(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    if !lost_where(rows, |_| 0.0) {
        return None;
    }
    lead(
        "exp_without_max",
        "the rows whose logits are too large or too small for exp in float32, and no others, are lost: \
         the maximum is not subtracted",
    )
}

/// Rows far below the largest logit of the batch are lost, and no others.
fn maximum_shared(_: &Wrong<'_>, rows: &[Seen<'_>]) -> Option<Lead> {
    let all = rows.iter().map(|seen| seen.right.max).fold(f64::NEG_INFINITY, f64::max);
    if rows.len() < 2 || !lost_where(rows, |_| all) {
        return None;
    }
    lead(
        "max_shared_by_rows",
        "the rows that lie far below the largest logit of all rows, and no others, are lost: one \
         maximum serves them all",
    )
}

/// A denominator that is a whole number of times too large, the same in every row.
fn multiplied(rows: &[Seen<'_>], lses: &[f64]) -> Option<Lead> {
    let times = (lses.first()? - rows.first()?.right.lse).exp().round();
    let fits = rows.iter().zip(lses).all(|(seen, &lse)| seen.is_lse(lse, seen.right.lse + times.ln()));
    // In a single row, any large factor is a whole number but for rounding; workers are as many as a power of two.
    let by_chance = rows.len() == 1 && !(times as u64).is_power_of_two();
    if !fits || by_chance || !(2.0..=4096.0).contains(&times) {
        return None;
    }
    Some(Lead {
        suspect: "denominator_multiplied",
        says: format!(
            "the denominator is {times:.0} times too large in every row: sums that were complete are added again"
        ),
    })
}

/// A denominator that is off as much as one running float32 sum is.
fn running_sum(wrong: &Wrong<'_>, rows: &[Seen<'_>], lses: &[f64]) -> Option<Lead> {
    let mut telling = false;
    let fits = rows.iter().zip(lses).all(|(seen, &lse)| {
        let terms = wrong.problem.row(seen.row).iter().map(|logit| (logit - seen.right.max).exp() as f32);
        let drift = (f64::from(terms.sum::<f32>())).ln() + seen.right.max - seen.right.lse;
        let off = lse - seen.right.lse;
        telling |= drift.abs() > 2.0 * seen.tolerance();
        // How exp was rounded changes a little of it.
        (off - drift).abs() <= 0.25 * drift.abs() + seen.tolerance()
    });
    let largest = rows.iter().zip(lses).map(|(seen, lse)| (lse - seen.right.lse).abs()).fold(0.0, f64::max);
    let long = wrong.problem.vocab() > 1024;
    (fits && telling && long).then(|| Lead {
        suspect: "narrow_accumulation",
        says: format!(
            "the denominator is off by {}, as one running float32 sum over the row is",
            shorten(largest)
        ),
    })
}

/// Whether denominators are off by factors of their own, some too large and others too small.
fn differ(rows: &[Seen<'_>], lses: &[f64]) -> bool {
    let is_above = |(seen, lse): (&Seen<'_>, &f64)| *lse > seen.right.lse;
    let above = rows.iter().zip(lses).filter(|row| is_above(*row)).count();
    above > 0 && above < rows.len()
}

/// Errors of the size that half precision makes.
fn half_precision(rows: &[Seen<'_>]) -> Option<Lead> {
    let mut worst = 0.0f64;
    // It spares no row.
    if rows.iter().any(Seen::has_right_probs) {
        return None;
    }
    for seen in rows {
        for (&prob, &logit) in seen.probs.iter().zip(&seen.right.logits) {
            let due = seen.right.prob(logit);
            if due > 1e-7 {
                let error = (prob / due - 1.0).abs();
                worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
            }
        }
    }
    let narrow = DType::BFloat16.unit_roundoff();
    if rows.iter().any(|seen| !seen.selects_rightly()) || !(1e-4..16.0 * narrow).contains(&worst) {
        return None;
    }
    let says = format!(
        "the winners are right, and their probabilities off by up to {}, each by another factor: as much as half precision \
         does",
        shorten(worst)
    );
    Some(Lead { suspect: "half_precision_inside", says })
}
