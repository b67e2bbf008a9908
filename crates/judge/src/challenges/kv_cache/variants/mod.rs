//! Implementations whose verdict is known: honest ones in several arithmetics and formats, and mutants with one defect each.
//!
//! They calibrate the court, and share nothing with its model but the contract.

mod attention;
mod cache;
mod subject;

use crate::arithmetic::{Exp, Sum};
use crate::variant::{Mutant, Variant, Variants};
use subject::InProcess;

/// What numbers of few bits mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// Codes on both sides of zero, a scale for each token and head.
    Symmetric,
    /// Codes from the least to the largest, a scale and an offset for each token and head.
    Asymmetric,
    /// The same for so many elements of a head.
    Groups(usize),
    /// As `Symmetric`, after keys were rotated by a Hadamard matrix with signs, which spreads what is large.
    Rotated,
    /// Values as `Symmetric`; keys with a scale for each channel of so many tokens, unrounded until there are as many.
    Channels(usize),
}

/// When blocks that forks have in common are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// When one of them writes there, but for the last.
    Lazy,
    /// The same, and a free block is asked for even for the last.
    Careful,
    /// Those that are not full, at once.
    FullOnly,
}

/// How scores become weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Softmax {
    /// The maximum first.
    TwoPasses,
    /// Running maximum, sum and output, so many keys at a time.
    Online(usize),
}

/// How an honest implementation does it.
#[derive(Debug, Clone, Copy)]
struct Style {
    wide: bool,
    exp: Exp,
    sum: Sum,
    softmax: Softmax,
    scheme: Scheme,
    sharing: Sharing,
}

/// What a subtle mutant has a little too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shift {
    /// What scores are multiplied by.
    Scale,
    /// How often a query's own position counts.
    Own,
    /// How often the first position counts.
    First,
    /// What is added to the sum of weights.
    Extra,
    /// What the output is multiplied by.
    Factor,
}

/// One thing that is wrong with a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    Zeros,
    RelativeMask,
    AddedMask,
    NoMask,
    Replaced,
    OnePointer,
    PaddingSeen,
    TailSeen,
    HeadsInterleaved,
    FirstHead,
    NewestTwice,
    OneBehind,
    OneAhead,
    Unscaled,
    ScaledTwice,
    OneLayer,
    FirstSequence,
    ForkShares,
    ClearForgotten,
    CodesWrap,
    NibblesSwapped,
    PastTheEnd,
    HalfRefused,
    Recent(usize),
    WithoutMaximum,
    FirstScale,
    Clipped,
    Understated,
    WritesKeys,
    LengthsOfFirstLayer,
    RefusesRagged,
    HalfPrecision,
    BlocksNotReturned,
    MisconfiguredAccepted,
    NewestCacheForAll,
    BlocksOnFirstLayer,
    CheckedOnFirstLayer,
    CopiesUncounted,
    CopiesLeak,
    ForkLengthOfFirstLayer,
    /// The maximum begins there.
    MaximumFrom(i32),
    /// Keys that may not be seen have that score.
    MaskedAt(i32),
    /// Queries stand at the positions of the newest append, whatever their number.
    PositionsOfNewestAppend,
    ScaleOfAllHeads,
    ScaleOfAllTokens,
    /// A copied block of 4 bits has the codes of the other, and the scales that were there before.
    CopiesWithoutScales,
    /// Four tokens of less than 32 bits are read one behind the other, wherever the block ends.
    FoursRead,
    /// What a head has behind its last whole eight comes back as zeros, in so many bits.
    HeadCut(usize),
    /// So many keys are seen at most, from the first on.
    Oldest(usize),
    /// The same where more than one token is attended together.
    OldestInPrompts(usize),
    /// Sequences of more tokens than so many are attended once, and are zeros from then on.
    MergedOnce(usize),
    /// Single queries take codes of so many bits, which are kept as unsigned numbers, for what they stand for: half their range is not taken off.
    ZeroPointForgotten(usize),
    /// Of single queries in caches of so many bits, parts are put together with a maximum that begins at 0; no weight at all gives zeros.
    PartsFromZero(usize),
    /// Of prompts in caches of so many bits, what queries but the first have summed up of values is not brought to a larger maximum.
    FactorForgotten(usize),
    /// By so many billionths, in caches of so many bits.
    Shifted(Shift, u32, usize),
}

impl Defect {
    /// By how much that is off in a cache of so many bits.
    fn shift(self, of: Shift, bits: usize) -> f64 {
        match self {
            Self::Shifted(shift, billionths, width) if shift == of && width == bits => {
                1e-9 * f64::from(billionths)
            }
            _ => 0.0,
        }
    }
}

const PLAIN: Style = Style {
    wide: false,
    exp: Exp::Library,
    sum: Sum::Running,
    softmax: Softmax::TwoPasses,
    scheme: Scheme::Symmetric,
    sharing: Sharing::Lazy,
};

/// Every implementation.
pub(super) fn all() -> Variants {
    Variants {
        honest: vec![
            honest("plain", PLAIN),
            honest("lanes", Style { sum: Sum::Lanes(16), sharing: Sharing::Careful, ..PLAIN }),
            honest("tree", Style { sum: Sum::Tree, scheme: Scheme::Asymmetric, ..PLAIN }),
            honest("float64", Style { wide: true, sharing: Sharing::FullOnly, ..PLAIN }),
            honest("online", Style { softmax: Softmax::Online(1), scheme: Scheme::Asymmetric, ..PLAIN }),
            honest(
                "online_blocks",
                Style { softmax: Softmax::Online(16), scheme: Scheme::Groups(16), ..PLAIN },
            ),
            honest("groups", Style { sum: Sum::Blocks, scheme: Scheme::Groups(8), ..PLAIN }),
            honest("rotated", Style { scheme: Scheme::Rotated, ..PLAIN }),
            honest("scales_by_channel", Style { scheme: Scheme::Channels(8), ..PLAIN }),
            honest("exp_low_and_truncated", Style { exp: Exp::Low, ..PLAIN }),
            honest("exp_as_a_power_of_two", Style { exp: Exp::PowerOfTwo, sum: Sum::Lanes(8), ..PLAIN }),
        ],
        mutants: vec![
            mutant("zeros", Defect::Zeros, None),
            mutant("mask_counts_from_zero", Defect::RelativeMask, Some("mask_from_relative_positions")),
            mutant("mask_added", Defect::AddedMask, Some("additive_zero_one_mask")),
            mutant("future_seen", Defect::NoMask, Some("no_mask_in_prefill")),
            mutant("newest_step_only", Defect::Replaced, Some("cache_replaced")),
            mutant("one_write_pointer", Defect::OnePointer, Some("one_length_for_the_batch")),
            mutant("padding_seen", Defect::PaddingSeen, Some("padding_attended")),
            mutant("block_tail_seen", Defect::TailSeen, Some("last_block_tail_attended")),
            mutant("heads_interleaved", Defect::HeadsInterleaved, Some("wrong_kv_head")),
            mutant("first_head_for_all", Defect::FirstHead, Some("wrong_kv_head")),
            mutant("newest_fed_twice", Defect::NewestTwice, Some("newest_token_twice")),
            mutant("own_position_hidden", Defect::OneBehind, Some("positions_off_by_one")),
            mutant("next_position_seen", Defect::OneAhead, Some("positions_off_by_one")),
            mutant("not_scaled", Defect::Unscaled, Some("scores_not_scaled")),
            mutant("scaled_twice", Defect::ScaledTwice, None),
            mutant("first_layer_for_all", Defect::OneLayer, Some("layers_mixed")),
            mutant("first_sequence_for_all", Defect::FirstSequence, Some("sequences_mixed")),
            mutant("no_copy_on_write", Defect::ForkShares, Some("block_shared_after_fork")),
            mutant("clear_forgotten", Defect::ClearForgotten, Some("clear_forgotten")),
            mutant("unsigned_codes_in_signed_bytes", Defect::CodesWrap, Some("codes_wrap_around")),
            mutant("nibbles_swapped", Defect::NibblesSwapped, Some("nibbles_swapped")),
            mutant("no_bounds", Defect::PastTheEnd, Some("written_past_the_end")),
            mutant("refused_half_way", Defect::HalfRefused, Some("refusal_changes_cache")),
            mutant("last_16_only", Defect::Recent(16), Some("context_cut")),
            mutant("without_maximum", Defect::WithoutMaximum, Some("softmax_without_maximum")),
            mutant("scale_of_the_first_token", Defect::FirstScale, None),
            mutant("outliers_clipped", Defect::Clipped, None),
            mutant("bytes_understated", Defect::Understated, Some("nbytes_understated")),
            mutant("keys_scaled_in_place", Defect::WritesKeys, Some("input_modified")),
            mutant("lengths_of_the_first_layer", Defect::LengthsOfFirstLayer, None),
            mutant("refuses_ragged", Defect::RefusesRagged, Some("refuses_valid_input")),
            mutant("half_precision", Defect::HalfPrecision, None),
            mutant("blocks_not_returned", Defect::BlocksNotReturned, Some("blocks_not_returned")),
            mutant("misconfigured_accepted", Defect::MisconfiguredAccepted, Some("invalid_input_accepted")),
            mutant("newest_cache_for_all", Defect::NewestCacheForAll, Some("cache_shared")),
            mutant("blocks_on_the_first_layer_only", Defect::BlocksOnFirstLayer, None),
            mutant(
                "ends_checked_on_the_first_layer_only",
                Defect::CheckedOnFirstLayer,
                Some("written_past_the_end"),
            ),
            mutant("copies_on_write_uncounted", Defect::CopiesUncounted, Some("written_past_the_end")),
            mutant("copied_blocks_kept", Defect::CopiesLeak, Some("refuses_valid_input")),
            mutant("forks_as_long_as_the_first_layer", Defect::ForkLengthOfFirstLayer, None),
            mutant("maximum_from_-10000", Defect::MaximumFrom(-10_000), None),
            mutant("maximum_from_-100000", Defect::MaximumFrom(-100_000), None),
            mutant("masked_at_-10000", Defect::MaskedAt(-10_000), None),
            mutant("positions_of_the_newest_append", Defect::PositionsOfNewestAppend, None),
            mutant("scale_of_all_heads", Defect::ScaleOfAllHeads, None),
            mutant("scale_of_all_tokens", Defect::ScaleOfAllTokens, None),
            mutant("copies_without_scales_in_4_bits", Defect::CopiesWithoutScales, None),
            mutant("four_tokens_read_across_blocks", Defect::FoursRead, None),
            mutant("heads_cut_to_eights_in_8_bits", Defect::HeadCut(8), None),
            mutant("heads_cut_to_eights_in_4_bits", Defect::HeadCut(4), None),
            mutant("first_8_parts_merged", Defect::Oldest(8 * 256), None),
            mutant("first_512_only_in_prompts", Defect::OldestInPrompts(512), Some("context_cut")),
            mutant("parts_merged_once", Defect::MergedOnce(512), None),
            mutant("zero_point_forgotten_in_8_bits", Defect::ZeroPointForgotten(8), None),
            mutant("zero_point_forgotten_in_4_bits", Defect::ZeroPointForgotten(4), None),
            mutant("parts_from_maximum_0", Defect::PartsFromZero(32), None),
            mutant("parts_from_maximum_0_in_16_bits", Defect::PartsFromZero(16), None),
            mutant("parts_from_maximum_0_in_8_bits", Defect::PartsFromZero(8), None),
            mutant("parts_from_maximum_0_in_4_bits", Defect::PartsFromZero(4), None),
            mutant("factor_forgotten_in_prompts", Defect::FactorForgotten(32), Some("rescale_missing")),
            mutant(
                "factor_forgotten_in_prompts_in_16_bits",
                Defect::FactorForgotten(16),
                Some("rescale_missing"),
            ),
            mutant(
                "factor_forgotten_in_prompts_in_8_bits",
                Defect::FactorForgotten(8),
                Some("rescale_missing"),
            ),
            mutant(
                "factor_forgotten_in_prompts_in_4_bits",
                Defect::FactorForgotten(4),
                Some("rescale_missing"),
            ),
            mutant("scores_times_1.0000015", Defect::Shifted(Shift::Scale, 1500, 32), Some("scale_off")),
            mutant(
                "scores_times_1.0012_in_16_bits",
                Defect::Shifted(Shift::Scale, 1_200_000, 16),
                Some("scale_off"),
            ),
            mutant(
                "scores_times_1.02_in_8_bits",
                Defect::Shifted(Shift::Scale, 20_000_000, 8),
                Some("scale_off"),
            ),
            mutant(
                "scores_times_1.3_in_4_bits",
                Defect::Shifted(Shift::Scale, 300_000_000, 4),
                Some("scale_off"),
            ),
            mutant("newest_counts_1.0000027_times", Defect::Shifted(Shift::Own, 2700, 32), None),
            mutant("first_counts_1.0000027_times", Defect::Shifted(Shift::First, 2700, 32), None),
            mutant(
                "5e-7_added_to_the_sum",
                Defect::Shifted(Shift::Extra, 500, 32),
                Some("extra_term_in_denominator"),
            ),
            mutant("out_times_1.0000005", Defect::Shifted(Shift::Factor, 500, 32), None),
        ],
    }
}

fn honest(name: &'static str, style: Style) -> Variant {
    Variant::new(name, move || InProcess::new(style, None))
}

fn mutant(name: &'static str, defect: Defect, suspect: Option<&'static str>) -> Mutant {
    Mutant { variant: Variant::new(name, move || InProcess::new(PLAIN, Some(defect))), suspect }
}
