//! Implementations whose verdict is known: honest ones in several arithmetics, and mutants with one defect each.
//!
//! They calibrate the court: no honest variant may come near its budget, every mutant must be found and rightly named.
//! They share nothing with the oracle.

mod batch;
mod subject;
mod sums;
mod winners;

use crate::arithmetic::{Exp, Sum};
use crate::variant::{Mutant, Variant, Variants};
use subject::InProcess;

/// How the denominator comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denominator {
    /// The maximum first, then the sum.
    TwoPasses(Sum),
    /// One running sum that follows the maximum.
    Online,
    /// The same in stretches of so many entries, and their sums put together.
    OnlineStretches(usize),
    /// The same from the right end.
    OnlineFromRight(usize),
    /// The same in blocks of so many entries, each with its own maximum.
    OnlineBlocks(usize),
    /// So many workers with running sums over one stride class each, and their sums put together.
    OnlineLanes(usize),
    /// Sums over so many stride classes, put together.
    Merged(usize),
    /// The same, put together by halves.
    MergedByHalves(usize),
}

/// How the winners are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection {
    /// A heap of k with the least at the top.
    Heap,
    /// Everything is sorted.
    Sort,
    /// The k-th largest first, then whatever is larger, then ties.
    Threshold,
    /// So many workers keep k of one stride class each, and the best of these are taken.
    Lanes(usize),
}

/// What becomes of a row that has no softmax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    Refused,
    Nan,
    Zeros,
    /// 1 / V where every logit is -inf, and NaN where one is NaN.
    Even,
}

/// Which part of a row is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    WithoutTail(usize),
    WithoutHead(usize),
    /// From the first address that is a multiple of so many elements.
    WithoutPrologue(usize),
    First(usize),
}

/// What a subtle mutant has a little too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shift {
    /// What the logits are multiplied by.
    Scale,
    /// What is added to the sum.
    Extra,
    /// The weight in the sum of what is not among the winners.
    Rest,
    /// What the probabilities are multiplied by.
    Factor,
}

/// One thing that is wrong with a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    Zeros,
    AnswersBefore,
    RowsMerged(usize),
    SumOverRows(usize),
    SumOfFirstRow,
    HeapKept,
    NeighboursWinners,
    RowsBeyondGroups(usize),
    RowsBeyond(usize),
    FirstRowOnly,
    MaximumOfAllRows,
    Looks(Part),
    SumsOver(Part),
    SelectsFrom(Part),
    Multiplied(u16),
    SumOverWinners,
    WithoutMaximum,
    MaximumFrom(i32),
    /// A worker's maximum does not grow by what is no candidate for a winner.
    MaximumOfCandidates,
    /// Terms that far below the maximum are left out of the sum.
    TermsBelow(u8),
    Inverted,
    Missing,
    MergeInverted,
    MergeMissing,
    HalfExp,
    HalfSum,
    BfloatLogits,
    HalfProbs,
    LanesApart(usize),
    LanesKeep {
        workers: usize,
        keeps: usize,
    },
    ChunksKeep {
        workers: usize,
        keeps: usize,
    },
    AtMost(usize),
    SiftDownCopies,
    ReplacesAnother,
    Ascending,
    HeapOrder,
    IndicesSorted,
    FlatIndices,
    OneBased,
    LogProbabilities,
    LogitsReturned,
    MasksNeverTaken {
        index: i64,
    },
    /// The same in logits of 16 bits alone.
    MasksNeverTakenInHalf {
        index: i64,
    },
    /// In logits of 16 bits.
    IndicesIn16Bits,
    NanIgnored,
    /// Of a row with a NaN only so many ranks are written.
    RanksBesideNan(usize),
    /// Of a row that is nothing else.
    RanksOfNan(usize),
    MaskedRowAnswered,
    PadsWithFirst,
    PadsWithLowest,
    RefusesManyWinners,
    /// In logits of 16 bits.
    RefusesManyOfHalf,
    RefusesOneEntry,
    FloatIndices,
    WideProbs,
    InputModified,
    WritesLate,
    WritesOutside,
    /// By so many billionths.
    Shifted(Shift, i32),
}

/// An implementation in this process.
#[derive(Debug, Clone)]
struct Topk {
    /// What it is called in tables.
    name: &'static str,
    denominator: Denominator,
    selection: Selection,
    /// Whether everything happens in float64.
    wide: bool,
    exp: Exp,
    /// Whether probabilities are exp(x - lse), not exp(x - max) / sum.
    by_lse: bool,
    /// Whether all probabilities come first, and winners are chosen among them.
    softmax_first: bool,
    /// Whether the last of equals is taken first.
    ties_from_right: bool,
    /// Whether numbers below the smallest normal one become zero.
    flushes: bool,
    odd: Odd,
    /// Whether a k beyond V is answered with padding.
    pads: bool,
    defect: Option<Defect>,
}

const PLAIN: Topk = Topk {
    name: "two passes, running sums of 1024, heap",
    denominator: Denominator::TwoPasses(Sum::Blocks),
    selection: Selection::Heap,
    wide: false,
    exp: Exp::Library,
    by_lse: false,
    softmax_first: false,
    ties_from_right: false,
    flushes: false,
    odd: Odd::Refused,
    pads: false,
    defect: None,
};

impl Topk {
    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// By how much that is off.
    fn shift(&self, of: Shift) -> f64 {
        match self.defect {
            Some(Defect::Shifted(shift, billionths)) if shift == of => 1e-9 * f64::from(billionths),
            _ => 0.0,
        }
    }
}

/// All of them.
pub(super) fn all() -> Variants {
    let stand = |topk: Topk| Variant::new(topk.name, move || InProcess::new(topk.clone()));
    let mutants = mutants().into_iter().map(|(topk, suspect)| Mutant { variant: stand(topk), suspect });
    Variants { honest: honest().into_iter().map(stand).collect(), mutants: mutants.collect() }
}

fn honest() -> Vec<Topk> {
    use Denominator::*;
    use Selection::{Lanes, Sort, Threshold};
    let two_passes = |name, sum| Topk { name, denominator: TwoPasses(sum), ..PLAIN };
    let online = |name, denominator| Topk { name, denominator, ..PLAIN };
    vec![
        PLAIN,
        Topk { odd: Odd::Nan, ..two_passes("two passes, compensated", Sum::Compensated) },
        Topk { selection: Sort, pads: true, ..two_passes("pairwise, full sort", Sum::Tree) },
        Topk { selection: Threshold, odd: Odd::Zeros, ..two_passes("8 lanes, threshold", Sum::Lanes(8)) },
        Topk { ties_from_right: true, ..two_passes("16 lanes, ties from the right", Sum::Lanes(16)) },
        Topk { odd: Odd::Even, ..online("online in stretches", OnlineStretches(1024)) },
        Topk {
            selection: Sort,
            ties_from_right: true,
            ..online("online from the right", OnlineFromRight(1024))
        },
        Topk { flushes: true, pads: true, ..online("online in blocks, flushes to zero", OnlineBlocks(256)) },
        Topk { selection: Lanes(32), odd: Odd::Nan, ..online("32 workers, merged", OnlineLanes(32)) },
        Topk { by_lse: true, odd: Odd::Zeros, ..online("exp(x - lse)", OnlineBlocks(64)) },
        Topk { softmax_first: true, selection: Sort, ..two_passes("softmax first", Sum::Tree) },
        Topk { wide: true, odd: Odd::Even, ..online("float64 inside", Online) },
        Topk { exp: Exp::Low, ..two_passes("exp 2 ulp low, truncated", Sum::Tree) },
        Topk { exp: Exp::PowerOfTwo, ..two_passes("exp as a power of two", Sum::Lanes(32)) },
    ]
}

/// Wrong implementations, and what each must be called.
#[rustfmt::skip]
fn mutants() -> Vec<(Topk, Option<&'static str>)> {
    use Defect::*;
    use Denominator::{Merged, MergedByHalves, Online, OnlineBlocks, OnlineLanes, TwoPasses};
    use Part::*;
    use Shift::{Extra, Factor, Rest, Scale};
    let plain = [
        ("zeros", Zeros, None),
        ("the previous answer where the shape is new", AnswersBefore, None),
        ("eight rows in one heap, first written", RowsMerged(8), Some("rows_mixed")),
        ("denominator over all rows", SumOverRows(usize::MAX), Some("rows_mixed")),
        ("denominator over eight rows", SumOverRows(8), Some("rows_mixed")),
        ("denominator of the first row", SumOfFirstRow, Some("rows_mixed")),
        ("heap not emptied between rows", HeapKept, Some("rows_mixed")),
        ("winners of the row before", NeighboursWinners, Some("rows_mixed")),
        ("rows in eights, rest unwritten", RowsBeyondGroups(8), Some("rows_skipped")),
        ("rows beyond 1024 unwritten", RowsBeyond(1024), None),
        ("first row only", FirstRowOnly, Some("rows_skipped")),
        ("maximum of all rows", MaximumOfAllRows, Some("max_shared_by_rows")),
        ("last V mod 4 left out", Looks(WithoutTail(4)), Some("tail_skipped")),
        ("last V mod 8 left out", Looks(WithoutTail(8)), Some("tail_skipped")),
        ("last V mod 4 left out of the sum", SumsOver(WithoutTail(4)), Some("tail_skipped")),
        ("last V mod 32 left out of the heap", SelectsFrom(WithoutTail(32)), Some("tail_skipped")),
        ("entries beyond 32768 left out", Looks(First(1 << 15)), Some("tail_skipped")),
        ("entries beyond 65536 left out", Looks(First(1 << 16)), Some("tail_skipped")),
        ("entries beyond 1024 left out of the sum", SumsOver(First(1024)), Some("tail_skipped")),
        ("first V mod 4 left out", Looks(WithoutHead(4)), Some("head_skipped")),
        ("first entries up to an address left out", Looks(WithoutPrologue(4)), Some("head_skipped")),
        ("first V mod 8 left out of the heap", SelectsFrom(WithoutHead(8)), Some("head_skipped")),
        ("denominator 32 times", Multiplied(32), Some("denominator_multiplied")),
        ("denominator 8 times", Multiplied(8), Some("denominator_multiplied")),
        ("denominator over the winners", SumOverWinners, Some("denominator_over_topk")),
        ("no maximum subtracted", WithoutMaximum, Some("exp_without_max")),
        ("maximum starts at 0", MaximumFrom(0), Some("max_starts_at_zero")),
        ("maximum starts at -100,000", MaximumFrom(-100_000), None),
        ("terms below exp(-20) left out", TermsBelow(20), None),
        ("exp in float16", HalfExp, Some("half_precision_inside")),
        ("sum in float16", HalfSum, Some("half_precision_inside")),
        ("logits through bfloat16", BfloatLogits, Some("half_precision_inside")),
        ("probabilities through float16", HalfProbs, Some("half_precision_inside")),
        ("rank i from worker i of 32", LanesApart(32), Some("lanes_not_merged")),
        ("rank i from worker i of 256", LanesApart(256), Some("lanes_not_merged")),
        ("256 workers keep 16 each", LanesKeep { workers: 256, keeps: 16 }, Some("buffer_too_short")),
        ("32 workers keep 4 each", LanesKeep { workers: 32, keeps: 4 }, Some("buffer_too_short")),
        ("16 shares keep 8 each", ChunksKeep { workers: 16, keeps: 8 }, Some("buffer_too_short")),
        ("at most 32 winners", AtMost(32), Some("buffer_too_short")),
        ("at most 4096 winners", AtMost(4096), Some("buffer_too_short")),
        ("sift down copies the child first", SiftDownCopies, Some("heap_loses_entries")),
        ("replaces another than the least", ReplacesAnother, Some("heap_loses_entries")),
        ("ascending", Ascending, Some("not_sorted")),
        ("in the order of the heap", HeapOrder, Some("not_sorted")),
        ("indices sorted alone", IndicesSorted, Some("indices_apart")),
        ("indices of the whole tensor", FlatIndices, Some("flat_indices")),
        ("indices from 1", OneBased, Some("one_based_indices")),
        ("logarithms of probabilities", LogProbabilities, Some("log_probabilities")),
        ("logits for probabilities", LogitsReturned, Some("logits_returned")),
        ("entry 0 where too few are finite", MasksNeverTaken { index: 0 }, Some("masked_entry_named")),
        ("entry -1 where too few are finite", MasksNeverTaken { index: -1 }, Some("masked_entry_named")),
        (
            "entry 2147483647 where too few are finite, in 16 bits",
            MasksNeverTakenInHalf { index: 0x7fff_ffff },
            Some("masked_entry_named"),
        ),
        ("indices in 16 bits where logits are", IndicesIn16Bits, None),
        ("64 ranks at most beside a NaN", RanksBesideNan(64), Some("made_up_softmax")),
        ("24 ranks at most of nothing but NaN", RanksOfNan(24), Some("made_up_softmax")),
        ("NaN taken for a mask", NanIgnored, Some("made_up_softmax")),
        ("1 at entry 0 where all are masked", MaskedRowAnswered, Some("made_up_softmax")),
        ("k beyond V gets entry 0", PadsWithFirst, Some("invalid_input_accepted")),
        ("k beyond V gets the lowest float", PadsWithLowest, Some("invalid_input_accepted")),
        ("refuses k > 32", RefusesManyWinners, Some("refuses_valid_input")),
        ("refuses k > 64 in 16 bits", RefusesManyOfHalf, Some("refuses_valid_input")),
        ("refuses V = 1", RefusesOneEntry, Some("refuses_valid_input")),
        ("indices in float32", FloatIndices, Some("float_indices")),
        ("probs in float64", WideProbs, Some("wrong_dtype")),
        ("writes into logits", InputModified, Some("input_modified")),
        ("writes after it is done", WritesLate, Some("work_after_done")),
        ("writes outside its outputs", WritesOutside, Some("writes_outside")),
        ("logits times 1.0000005", Shifted(Scale, 500), Some("scale_off")),
        ("2.5e-6 added to the sum", Shifted(Extra, 2500), Some("extra_term_in_denominator")),
        ("losers weigh 1.0000015", Shifted(Rest, 1500), None),
        ("probabilities times 1.000001", Shifted(Factor, 1000), None),
    ];
    let rescaling = [
        ("inverted factor, online in float64", Online, Inverted),
        ("inverted factor, online in blocks", OnlineBlocks(64), Inverted),
        ("inverted factor, 32 workers", OnlineLanes(32), Inverted),
        ("inverted factor in the merge", Merged(32), MergeInverted),
        ("inverted factor in a merge by halves", MergedByHalves(32), MergeInverted),
        ("no factor, online in float64", Online, Missing),
        ("no factor, online in blocks", OnlineBlocks(64), Missing),
        ("no factor, 32 workers", OnlineLanes(32), Missing),
        ("no factor in the merge", Merged(32), MergeMissing),
        ("no factor in a merge by halves", MergedByHalves(32), MergeMissing),
    ];
    let plain = plain.map(|(name, defect, suspect)| {
        let odd = if matches!(defect, RanksBesideNan(_) | RanksOfNan(_)) { Odd::Nan } else { PLAIN.odd };
        (Topk { name, odd, defect: Some(defect), ..PLAIN }, suspect)
    });
    let rescaling = rescaling.map(|(name, denominator, defect)| {
        let inverted = matches!(defect, Inverted | MergeInverted);
        let suspect = if inverted { "rescale_inverted" } else { "rescale_missing" };
        let wide = denominator == Online;
        (Topk { name, denominator, wide, defect: Some(defect), ..PLAIN }, Some(suspect))
    });
    let narrow = [
        ("two passes, one running sum", TwoPasses(Sum::Running)),
        ("online, one running sum", Online),
    ];
    let narrow =
        narrow.map(|(name, denominator)| (Topk { name, denominator, ..PLAIN }, Some("narrow_accumulation")));
    let unlooked = Topk {
        name: "maximum of candidates alone, 64 workers",
        denominator: OnlineLanes(64),
        defect: Some(MaximumOfCandidates),
        ..PLAIN
    };
    plain.into_iter().chain(rescaling).chain(narrow).chain([(unlooked, None)]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cases::parse;
    use super::*;
    use crate::{Case, Court, Outcome, Seed};

    #[test]
    fn what_is_wrong_where_k_is_larger_than_v_is_told() {
        let case = parse("edge/k_beyond_v/1x2x5/k8/float32").expect("a case");
        let padded = Topk { pads: true, ..PLAIN };
        for (defect, due) in [
            (None, None),
            (Some(Defect::PadsWithFirst), Some("(rank 5 of row 0 has probability 0 and index 0)")),
            (Some(Defect::Zeros), Some("(the first 5 probabilities of row 0 are wrong)")),
        ] {
            let mut subject = InProcess::new(Topk { defect, ..padded.clone() });
            let seen = case.examine(&mut Court::new(&mut subject, Seed::PUBLIC)).expect("no machine");
            let failed: Vec<_> = seen.iter().filter(|seen| seen.outcome == Outcome::Fail).collect();
            let told = failed.iter().any(|seen| due.is_some_and(|due| seen.message.contains(due)));
            assert_eq!((failed.len(), told), (usize::from(due.is_some()), due.is_some()), "{failed:?}");
        }
    }
}
