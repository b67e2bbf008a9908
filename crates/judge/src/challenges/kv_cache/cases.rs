//! What is tried, in families.

use tribunal_runner::MachineError;

use super::checks;
use super::config::Config;
use super::recipes::Contents;
use super::script::{Plot, Step};
use crate::{Case, Court, Dimension, Effort, Family, Observation, Plan, Seed, Severity};

/// A kind of case: its family and name in ids, and how it is made.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) family: Family,
    pub(super) name: &'static str,
    pub(super) plot: Plot,
    pub(super) contents: Contents,
    /// Whether it runs on [few multiprocessors](Court::run_on_few_multiprocessors), where that can be chosen.
    pub(super) few_multiprocessors: bool,
}

const fn kind(family: Family, name: &'static str, plot: Plot, contents: Contents) -> Kind {
    Kind { family, name, plot, contents, few_multiprocessors: false }
}

const fn on_few(kind: Kind) -> Kind {
    Kind { few_multiprocessors: true, ..kind }
}

/// Every kind of case.
#[rustfmt::skip]
static KINDS: &[Kind] = {
    use Contents::{Alike, FewChannels, Low, Normal, Outliers, Rising, Sharp, Uneven};
    use Family::*;
    use Plot::*;
    &[
        kind(Basic, "prefill", Prefill, Normal),
        kind(Basic, "tokens", Tokens, Normal),
        kind(Basic, "chunks", Chunks, Normal),
        kind(Shapes, "prefill", Prefill, Normal),
        kind(Shapes, "ragged", Ragged, Normal),
        kind(Shapes, "tokens", Tokens, Normal),
        kind(Shapes, "chunks", Chunks, Normal),
        kind(Shapes, "forks", Forks, Normal),
        kind(Shapes, "few_channels", Prefill, FewChannels),
        kind(Edge, "boundaries", Boundaries, Normal),
        kind(Edge, "to_the_end", ToTheEnd, Normal),
        kind(Edge, "out_of_blocks", OutOfBlocks, Normal),
        kind(Edge, "misconfigured", Misconfigured, Normal),
        kind(Stability, "sharp", Prefill, Sharp),
        kind(Stability, "outliers", Chunks, Outliers),
        kind(Stability, "alike", Chunks, Alike),
        kind(Stability, "low", Prefill, Low),
        kind(Stability, "low_decode", Decode, Low),
        kind(Stability, "rising", Prefill, Rising),
        kind(Stability, "uneven", Chunks, Uneven),
        kind(Batch, "ragged", Ragged, Normal),
        on_few(kind(Batch, "decode", Decode, FewChannels)),
        kind(Stateful, "reuse", Reuse, Normal),
        kind(Stateful, "interleaved", Interleaved, Normal),
        kind(Stateful, "layers_apart", LayersApart, Normal),
        kind(Stateful, "forks", Forks, Normal),
        kind(Stateful, "forks_apart", ForksApart, Normal),
        kind(Stateful, "forks_short", ForksShort, Normal),
        kind(Stateful, "walk", Walk(14), Normal),
        kind(Stateful, "few_channels", Walk(14), FewChannels),
        kind(Stateful, "forks_few_channels", Forks, FewChannels),
        kind(Stateful, "long_walk", Walk(40), Normal),
        kind(Stateful, "fork_walk", ForkWalk(30), Normal),
        kind(Scale, "prefill", Prefill, Normal),
        kind(Scale, "ragged", Ragged, Normal),
        kind(Scale, "decode", Decode, Normal),
        kind(Scale, "at_once", DecodeAtOnce, Normal),
        kind(Adversarial, "directions", Directions, Normal),
    ]
};

/// Configurations in which a kind is tried, from which effort on.
struct Listing(Effort, &'static str, &'static str);

#[rustfmt::skip]
static LISTINGS: &[Listing] = {
    use Effort::{Full, Quick, Standard};
    &[
        Listing(Quick, "basic/prefill", "2x2x4x2x16x24/b32 2x2x4x2x16x24p8x9/b32"),
        Listing(Standard, "basic/prefill", "2x3x8x2x32x20/b32 2x2x4x2x16x24/b16 \
            2x2x4x2x32x24p8x9/b8 2x2x4x2x32x24p8x9/b4"),
        Listing(Quick, "basic/tokens", "2x2x4x2x16x16/b32"),
        Listing(Standard, "basic/tokens", "2x2x4x2x16x16p4x12/b32 2x2x4x2x32x16/b8"),
        Listing(Quick, "basic/chunks", "2x2x4x2x16x32/b32"),
        Listing(Standard, "basic/chunks", "2x2x4x2x16x32p8x9/b32 2x2x4x2x16x32/b16 2x2x4x2x32x32/b8 2x2x4x2x32x32/b4"),
        Listing(Standard, "shapes/prefill", "1x1x1x1x2x3/b32 1x2x6x1x10x17/b32 2x1x8x8x128x9/b32 1x2x4x2x16x24p1x60/b32 \
            1x3x4x2x16x24p7x14/b32 1x2x4x2x16x24p32x2/b32 1x2x12x3x100x12/b32 1x1x9x1x160x6/b32 1x1x4x2x100x96/b16"),
        // Heads of the usual sizes, and how many share one of keys, in every format: kernels have code of their own for each.
        Listing(Standard, "shapes/tokens", "1x2x5x1x64x12/b16 1x2x8x2x128x12p4x6/b16 1x2x3x1x24x12/b16 1x1x16x1x40x12/b16 1x2x2x2x16x12/b16 \
            1x2x5x1x64x12/b8 1x2x5x1x128x12p4x6/b8 1x2x3x1x24x12/b8 1x1x16x1x192x12/b8 1x2x2x2x16x12/b8 \
            1x2x5x1x64x12/b4 1x2x5x1x128x12p4x6/b4 1x2x3x1x24x12/b4 1x1x16x1x256x12/b4 1x2x2x2x16x12/b4 \
            1x2x5x1x64x12p4x6/b32 1x2x7x1x128x12/b32 1x1x4x1x256x8/b16"),
        Listing(Standard, "shapes/ragged", "4x7x3x1x6x20/b32 1x5x12x4x80x20p16x10/b32"),
        // Heads that are no whole number of words of codes. They are small, so that what is left over is much of them.
        Listing(Standard, "shapes/prefill", "1x2x4x2x6x24p8x6/b16 1x2x4x2x6x24/b8 1x2x4x2x10x24p8x6/b8 1x2x4x2x10x24/b4 \
            1x2x4x2x6x24p8x6/b4 1x2x4x2x12x24p8x6/b4"),
        Listing(Standard, "shapes/tokens", "1x2x4x2x6x12/b4"),
        // Blocks of odd sizes. Sequences take them by turns, so that those of one do not follow each other.
        Listing(Standard, "shapes/tokens", "1x3x4x2x8x12p1x36/b4"),
        Listing(Standard, "shapes/chunks", "1x3x4x2x16x32p7x15/b16 1x3x4x2x16x32p1x96/b16 1x3x4x2x16x32p5x21/b8 1x3x4x2x8x32p5x21/b4"),
        // All that was there before the fork is in the block that is copied.
        Listing(Standard, "shapes/forks", "1x4x4x4x2x40p16x12/b4"),
        // Heads of the usual sizes in few bits, where queries that ask of every channel leave nothing to be seen. Prompts are of several tiles of
        // keys, as what goes on from one to the next is other code for many queries than for one.
        Listing(Standard, "shapes/few_channels", "1x2x4x1x128x96/b4 1x2x8x1x64x96p8x18/b4 1x2x4x1x128x96/b8 1x2x2x1x128x96p8x18/b8"),
        Listing(Quick, "edge/boundaries", "2x2x4x2x16x40p8x10/b32"),
        Listing(Standard, "edge/boundaries", "1x3x4x2x16x40/b32 1x2x2x1x16x40p8x10/b16 1x2x2x1x16x40p8x10/b8 1x2x2x1x16x40p8x10/b4"),
        Listing(Quick, "edge/to_the_end", "2x3x4x2x16x12/b32"),
        Listing(Standard, "edge/to_the_end", "1x2x2x2x8x16p8x4/b32 1x2x2x2x64x16p8x4/b16 1x2x2x2x64x16/b8 1x2x2x2x64x16p8x4/b4"),
        Listing(Quick, "edge/out_of_blocks", "1x3x4x2x16x64p8x8/b32"),
        Listing(Standard, "edge/out_of_blocks", "2x2x4x2x16x64p4x7/b32 1x2x4x2x64x64p4x7/b16 1x2x4x2x64x64p4x7/b8 1x2x4x2x64x64p4x7/b4"),
        Listing(Quick, "edge/misconfigured", "2x2x4x2x16x24/b32"),
        Listing(Quick, "stability/sharp", "1x2x4x2x16x24/b32"),
        Listing(Standard, "stability/sharp", "2x2x4x2x64x40p8x12/b32 1x2x4x2x64x24/b16 1x1x4x2x128x96p8x12/b16"),
        Listing(Standard, "stability/outliers", "1x2x8x2x64x32/b32 1x2x4x2x64x32/b8 1x2x8x2x64x32/b4 1x2x8x2x64x32/b16 \
            1x1x4x2x128x32p8x4/b8"),
        Listing(Standard, "stability/alike", "1x2x4x2x16x32/b32 1x2x4x2x16x32/b16"),
        Listing(Standard, "stability/low", "1x2x4x2x16x24/b32 1x2x4x2x16x24/b16 1x2x4x2x16x24p8x6/b8 1x2x4x2x16x24/b4"),
        // What is put together of parts of a long context begins with a maximum of its own.
        Listing(Standard, "stability/low_decode", "1x1x2x1x64x520/b32 1x1x2x2x128x520p64x9/b16 1x1x2x1x16x520/b8 1x1x2x1x128x520p16x33/b4"),
        Listing(Standard, "stability/rising", "1x1x2x2x128x96p8x12/b4"),
        Listing(Standard, "stability/uneven", "1x2x6x3x32x32/b32 1x2x6x3x32x32/b16 1x2x6x3x32x32/b8 1x2x6x3x32x32/b4"),
        Listing(Quick, "batch/ragged", "2x3x4x2x16x24/b32"),
        Listing(Standard, "batch/ragged", "1x4x8x1x16x24/b32 2x3x4x2x32x24/b16 2x3x4x2x32x24/b8 2x3x4x2x32x24/b4"),
        Listing(Standard, "batch/decode", "1x4x2x2x64x520/b32 1x4x4x2x64x520p16x140/b16 1x4x2x2x128x520/b8 1x4x8x1x128x520p16x140/b4"),
        Listing(Quick, "stateful/reuse", "2x3x4x2x16x24/b32"),
        Listing(Standard, "stateful/reuse", "2x3x4x2x16x24p4x12/b32 1x3x4x2x64x24/b16 1x3x4x2x16x24p4x12/b8 1x3x4x2x16x24p4x12/b4 1x3x4x2x64x24/b8"),
        Listing(Quick, "stateful/interleaved", "1x2x4x2x16x24/b32"),
        Listing(Standard, "stateful/interleaved", "2x2x4x2x16x24p4x12/b32 1x2x4x2x64x24/b16 1x2x4x2x64x24/b8 1x2x4x2x16x24p4x12/b4"),
        Listing(Standard, "stateful/layers_apart", "2x3x4x2x16x40/b32 3x2x4x2x16x40p8x10/b32 2x2x4x2x64x24/b16 2x2x4x2x64x24/b8 \
            2x2x4x2x16x24p8x6/b4"),
        Listing(Quick, "stateful/forks", "2x4x4x2x16x40p8x20/b32"),
        Listing(Standard, "stateful/forks", "1x3x4x2x16x40/b32 1x4x4x2x32x40p8x20/b8 1x3x4x2x16x40p8x15/b16 1x4x4x2x8x40p16x12/b4 \
            1x4x4x2x8x40/b4"),
        Listing(Standard, "stateful/forks_apart", "2x3x4x2x16x40p8x15/b32 3x2x4x2x16x40/b32 2x3x4x2x16x40p8x15/b16 2x3x4x2x16x40p8x15/b8 \
            2x3x4x2x16x40p8x15/b4"),
        Listing(Standard, "stateful/forks_short", "1x4x4x2x16x40p8x5/b32"),
        Listing(Standard, "stateful/fork_walk", "2x4x4x2x16x40p4x20/b32"),
        Listing(Quick, "stateful/walk", "2x3x4x2x16x24p4x14/b32"),
        Listing(Standard, "stateful/walk", "2x3x4x2x16x24/b32 1x5x4x1x16x20p4x25/b32 2x3x4x2x32x24p4x14/b16 2x3x4x2x32x24p4x14/b8 2x3x4x2x32x24p4x14/b4"),
        Listing(Full, "stateful/walk", "3x4x4x4x16x50p16x12/b32 2x4x8x2x64x30/b16"),
        Listing(Standard, "stateful/few_channels", "2x3x4x2x64x24/b16 2x3x8x2x64x24p4x14/b8 2x3x4x2x64x24/b4"),
        Listing(Standard, "stateful/forks_few_channels", "1x4x4x2x64x40p8x20/b16 1x4x4x2x64x40p8x20/b8 1x4x8x1x64x40/b8 1x4x4x2x64x40p16x12/b4 1x4x4x2x64x40/b4 \
            1x4x8x2x128x40p8x20/b32"),
        Listing(Standard, "stateful/long_walk", "2x4x4x2x16x40p8x14/b32"),
        Listing(Standard, "scale/prefill", "1x1x4x1x64x360/b32 1x1x2x1x128x450p16x30/b32"),
        // More sequences than two warps have lanes.
        Listing(Standard, "scale/ragged", "1x70x8x2x16x40p16x150/b32"),
        Listing(Standard, "adversarial/directions", "1x32x8x4x16x16/b32 1x32x8x4x16x16/b16 1x32x8x4x16x16/b8 1x32x8x4x16x16/b4"),
        // More tokens than 16 bits count, and than a grid may have blocks along y or z.
        Listing(Standard, "scale/at_once", "1x1x2x1x8x65544/b32"),
        // Parts of a power of two of tokens are 3 to 16, and of most numbers between some context has so many.
        Listing(Standard, "scale/decode", "1x2x2x1x32x2100p256x12/b32 1x1x8x1x64x1380/b32 1x2x8x1x32x2100/b16 \
            1x1x2x1x32x1380p32x44/b16 1x1x8x1x16x1380/b8 1x1x4x2x16x2100p128x17/b8 1x1x8x1x16x4200/b4 1x1x4x2x16x1380p64x22/b4 \
            1x1x8x1x128x900/b32 1x1x8x1x64x900/b16 1x1x8x1x128x1600p16x100/b16 1x1x8x1x128x900/b8 1x1x2x1x128x1600p16x100/b4"),
        // Attention of a whole prompt costs the square of its length. Of two sequences of 2000 tokens and twice the heads, emulated, the plainest of
        // honest kernels come to no end that anybody would wait for.
        Listing(Full, "scale/prefill", "1x1x4x2x128x1500/b32"),
        Listing(Full, "scale/decode", "1x1x4x2x64x16004/b32"),
    ]
};

/// One case: a kind, a configuration, and which of the steps are taken.
#[derive(Debug, Clone)]
pub(super) struct CacheCase {
    pub(super) kind: &'static Kind,
    pub(super) config: Config,
    /// Those that are left; all if `None`.
    kept: Option<Vec<usize>>,
}

/// The cases of a plan, family by family.
pub(super) fn list(plan: &Plan) -> Vec<CacheCase> {
    let mut cases: Vec<CacheCase> = LISTINGS
        .iter()
        .filter(|Listing(effort, ..)| plan.effort.includes(*effort))
        .flat_map(|Listing(_, kind, configs)| {
            configs.split_whitespace().map(move |config| {
                parse(&format!("{kind}/{config}/all"))
                    .unwrap_or_else(|| panic!("{kind}/{config} is malformed"))
            })
        })
        .filter(|case| case.capabilities().iter().all(|needed| plan.capabilities.contains(needed)))
        .collect();
    cases.sort_by_key(|case| case.kind.family);
    cases
}

/// The case of an id.
pub(super) fn parse(id: &str) -> Option<CacheCase> {
    let [family, name, extents, bits, kept]: [&str; 5] = id.split('/').collect::<Vec<_>>().try_into().ok()?;
    let kind = KINDS.iter().find(|kind| kind.family.name() == family && kind.name == name)?;
    let config = Config::parse(extents, bits)?;
    let kept = match kept {
        "all" => None,
        list => Some(list.split('.').map(|index| index.parse().ok()).collect::<Option<Vec<usize>>>()?),
    };
    let case = CacheCase { kind, config, kept };
    case.keeps_its_point().then_some(case)
}

impl CacheCase {
    /// Everything but which steps are left: what contents are drawn for.
    pub(super) fn stem(&self) -> String {
        format!("{}/{}/{}", self.kind.family.name(), self.kind.name, self.config.name())
    }

    /// The steps that are taken, and which they are.
    pub(super) fn steps(&self, seed: Seed) -> Vec<(usize, Step)> {
        let steps = self.kind.plot.steps(&self.config, seed.rng(&self.stem())).into_iter().enumerate();
        steps.filter(|(index, _)| self.kept.as_ref().is_none_or(|kept| kept.contains(index))).collect()
    }

    /// How much a failure of this case weighs.
    pub(super) fn severity(&self) -> Severity {
        match self.kind.family {
            Family::Basic | Family::Batch | Family::Stateful => Severity::Critical,
            _ => Severity::Major,
        }
    }

    fn capabilities(&self) -> Vec<&'static str> {
        let forks = self.kind.plot.forks().then_some("prefix_sharing");
        self.config.capabilities().into_iter().chain(forks).collect()
    }

    /// How many steps there are to choose from. No seed changes their number.
    fn available(&self) -> usize {
        self.kind.plot.steps(&self.config, Seed::PUBLIC.rng("")).len()
    }

    fn keeps_its_point(&self) -> bool {
        let least = match self.kind.plot {
            Plot::ForksShort => 4,
            plot if plot.forks() || self.kind.family == Family::Batch => 2,
            _ => 1,
        };
        // One head of keys suits any number of heads; z cannot exceed the root of the number of heads of keys.
        let enough = match self.kind.plot {
            Plot::Misconfigured => self.config.kv_heads > 1,
            Plot::LayersApart | Plot::ForksApart => self.config.layers > 1,
            Plot::Directions => self.config.batch * self.config.kv_heads >= 64,
            _ => true,
        };
        let are_there = |kept: &Vec<usize>| {
            kept.is_sorted_by(|a, b| a < b) && kept.last().is_some_and(|last| *last < self.available())
        };
        enough && self.config.batch >= least && self.kept.as_ref().is_none_or(are_there)
    }

    fn with_steps(&self, kept: Vec<usize>) -> Self {
        Self { kept: Some(kept), ..self.clone() }
    }
}

impl Case for CacheCase {
    fn id(&self) -> String {
        let kept = self.kept.as_ref().map_or("all".to_owned(), |kept| {
            kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
        });
        format!("{}/{kept}", self.stem())
    }

    fn family(&self) -> Family {
        self.kind.family
    }

    fn branches(&self) -> Vec<String> {
        let Config { bits, paged, head_dim, .. } = self.config;
        let layout = if paged.is_some() { "in blocks" } else { "contiguous" };
        let heads = if head_dim < 64 { "head_dim below 64" } else { "head_dim from 64" };
        [layout, heads].map(|what| format!("{bits} bits, {what}")).to_vec()
    }

    fn dimension(&self) -> Dimension {
        match self.kind.family {
            Family::Stability => Dimension::Stability,
            Family::Basic if self.config.bits != 32 => Dimension::Completeness,
            _ => Dimension::Correctness,
        }
    }

    fn examine(&self, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
        if self.kind.few_multiprocessors {
            court.run_on_few_multiprocessors();
        }
        checks::examine(self, court)
    }

    /// Fewer steps first: a half of them, then all but one. Then a smaller cache, for the same kind of steps.
    fn smaller(&self) -> Vec<Box<dyn Case>> {
        let kept: Vec<usize> = self.kept.clone().unwrap_or_else(|| (0..self.available()).collect());
        let half = kept.len() / 2;
        let halves = [kept[..half].to_vec(), kept[half..].to_vec()].map(|kept| self.with_steps(kept));
        let without = (0..kept.len()).rev().map(|index| {
            let mut left = kept.clone();
            left.remove(index);
            self.with_steps(left)
        });
        let Config { batch, heads, kv_heads, head_dim, .. } = self.config;
        let group = heads / kv_heads;
        let least = [
            Config { layers: 1, ..self.config },
            Config { batch: batch.div_ceil(2), ..self.config },
            Config { heads: kv_heads, ..self.config },
            Config { heads: group * kv_heads.div_ceil(2), kv_heads: kv_heads.div_ceil(2), ..self.config },
            Config { head_dim: (head_dim / 4 * 2).max(2), ..self.config },
        ];
        let smaller = least.into_iter().map(|config| Self { config, ..self.clone() });
        halves
            .into_iter()
            .chain(without)
            .filter(|case| case.kept.as_ref().is_some_and(|left| left.len() < kept.len() && !left.is_empty()))
            .chain(smaller.filter(|case| case.config != self.config))
            .filter(Self::keeps_its_point)
            .map(|case| Box::new(case) as Box<dyn Case>)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const ALL: [&str; 5] = ["paged", "float16", "int8", "int4", "prefix_sharing"];

    fn listed(effort: Effort, capabilities: &[&'static str]) -> Vec<CacheCase> {
        list(&Plan { seed: Seed::PUBLIC, effort, capabilities: capabilities.to_vec(), launches: false })
    }

    #[test]
    fn a_case_is_its_id() {
        for case in listed(Effort::Full, &ALL) {
            let again = parse(&case.id()).unwrap();
            assert_eq!((again.id(), again.config), (case.id(), case.config));
        }
        for id in [
            "basic/prefill/2x2x4x2x16x24/b32",
            "basic/prefill/2x2x4x3x16x24/b32/all",
            "basic/prefill/2x2x4x2x16x24/b7/all",
            "basic/prefill/2x2x4x2x16x24p0x3/b32/all",
            "basic/prefill/2x2x4x2x16x24/b32/1.0",
            "basic/prefill/2x2x4x2x16x24/b32/99",
            "basic/unheard/2x2x4x2x16x24/b32/all",
        ] {
            assert!(parse(id).is_none(), "{id}");
        }
    }

    #[test]
    fn what_is_not_claimed_is_not_asked_for() {
        for case in listed(Effort::Full, &[]) {
            assert!(case.config.bits == 32 && case.config.paged.is_none() && !case.kind.plot.forks());
        }
    }

    #[test]
    fn more_effort_keeps_every_case_of_less() {
        let ids = |effort| -> BTreeSet<String> { listed(effort, &ALL).iter().map(Case::id).collect() };
        let (quick, standard, full) = (ids(Effort::Quick), ids(Effort::Standard), ids(Effort::Full));
        assert!(quick.is_subset(&standard) && standard.is_subset(&full));
        assert!(
            (10..=20).contains(&quick.len()) && (50..=175).contains(&standard.len()),
            "{} {}",
            quick.len(),
            standard.len()
        );
    }

    #[test]
    fn every_format_is_tried_where_it_is_likely_to_go_wrong() {
        let cases = listed(Effort::Standard, &ALL);
        for bits in [32, 16, 8, 4] {
            let some = |what: &str, holds: &dyn Fn(&CacheCase) -> bool| {
                let found = cases.iter().any(|case| case.config.bits == bits && holds(case));
                assert!(found, "{bits} bits: {what}");
            };
            let block = |case: &CacheCase| case.config.paged.map_or(0, |(size, _)| size);
            some("blocks of an odd size", &|case| block(case) % 2 == 1);
            some("forks of blocks", &|case| case.kind.plot.forks() && block(case) > 1);
            some("heads of no whole number of eights", &|case| {
                case.config.head_dim > 8 && !case.config.head_dim.is_multiple_of(8)
            });
            some("heads of less than eight", &|case| case.config.head_dim < 8);
            for paged in [false, true] {
                let some = |what: &str, plot: Plot, tokens: usize| {
                    some(what, &|case| {
                        let long = case.kind.plot == plot && case.config.max_len > tokens;
                        long && case.config.paged.is_some() == paged
                    });
                };
                some("a long context", Plot::Decode, 1000);
                some("a prompt of more than 60 tokens", Plot::Prefill, 90);
            }
            some("more than 2048 tokens", &|case| {
                case.kind.plot == Plot::Decode && case.config.max_len > 2048 + 4
            });
            // What models have: Llama 3 of 8, 70 and 405 billion parameters 4, 8 and 16 queries to a head of keys, all of 128; gpt-oss 8 of 64.
            for (head_dim, group) in [64, 128].into_iter().flat_map(|dim| [1, 4, 8].map(|group| (dim, group)))
            {
                some(&format!("{group} queries to a head of keys of {head_dim}"), &|case| {
                    (case.config.head_dim, case.config.group()) == (head_dim, group)
                });
            }
            some("more than 8 queries to a head of keys", &|case| case.config.group() > 8);
            some("blocks of 32 tokens and more", &|case| block(case) >= 32);
        }
        assert!(cases.iter().any(|case| case.config.max_len > 1 << 16), "more tokens than 16 bits count");
        let paged = |case: &&CacheCase| case.config.paged.is_some();
        assert!(
            cases.iter().filter(paged).any(|case| case.config.batch > 64),
            "more sequences than two warps have lanes"
        );
    }

    /// The cost of a case is in its queries, and of a long context only the newest tokens ask.
    #[test]
    fn a_long_context_is_appended_whole_and_decoded_to_its_end() {
        let case = parse("scale/decode/1x3x4x2x16x2100p16x320/b8/all").unwrap();
        let mut lengths = vec![0; 3];
        for (_, step) in case.steps(Seed::PUBLIC) {
            let counts = match &step {
                Step::Append(counts) => counts,
                Step::Feed(counts) if *counts == [1, 1, 1] => counts,
                _ => panic!("{step:?}"),
            };
            lengths.iter_mut().zip(counts).for_each(|(length, count)| *length += count);
        }
        assert_eq!(lengths, [2100, 704, 2100]);
    }

    #[test]
    fn shrinking_ends_in_one_step() {
        let mut case: Box<dyn Case> = Box::new(parse("stateful/walk/2x3x4x2x16x24p4x14/b32/all").unwrap());
        while let Some(smaller) = case.smaller().into_iter().next() {
            assert!(parse(&smaller.id()).is_some(), "{}", smaller.id());
            case = smaller;
        }
        assert_eq!(case.id(), "stateful/walk/1x1x1x1x2x24p4x14/b32/0");
    }

    #[test]
    fn whatever_is_smaller_can_be_made() {
        for case in listed(Effort::Full, &ALL) {
            for smaller in case.smaller() {
                let again = parse(&smaller.id()).unwrap();
                assert!(!again.steps(Seed::PUBLIC).is_empty(), "{}", smaller.id());
            }
        }
    }
}
