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
        kind(Scale, "chunked_prefill", ChunkedPrefill, Normal),
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
        Listing(Standard, "basic/prefill", "4x3x8x2x32x20/b32 2x2x4x2x16x24/b16 \
            2x2x4x2x32x24p8x9/b8 2x2x4x2x32x24p8x9/b4"),
        Listing(Quick, "basic/tokens", "2x2x4x2x16x16/b32"),
        Listing(Standard, "basic/tokens", "2x2x4x2x16x16p4x12/b32 2x2x4x2x32x16/b8"),
        Listing(Quick, "basic/chunks", "2x2x4x2x16x32/b32"),
        Listing(Standard, "basic/chunks", "2x2x4x2x16x32p8x9/b32 2x2x4x2x16x32/b16 2x2x4x2x32x32/b8 2x2x4x2x32x32/b4"),
        Listing(Standard, "shapes/prefill", "1x1x1x1x2x3/b32"),
        // What kernels have code of their own for, in every format, each with each of the others: a test says which pairs.
        Listing(Standard, "shapes/prefill", "1x1x16x1x64x60p16x5/b32 1x1x1x1x192x24p16x3/b32 1x1x6x2x72x60p32x3/b32 1x2x8x1x24x60/b32 1x1x4x4x128x60/b32 1x2x4x4x64x60p1x150/b32 1x2x8x1x10x60p32x5/b32 \
            1x1x8x1x112x60p3x25/b16 1x2x2x2x10x96/b16 1x1x10x1x96x60p32x3/b16 1x1x2x2x64x60p3x25/b16 1x1x12x1x32x60p16x5/b16 \
            1x1x16x1x40x60p16x5/b8 \
            1x1x10x1x10x96p16x7/b4 1x1x4x4x16x60p32x3/b4"),
        Listing(Standard, "shapes/few_channels", "1x1x16x2x72x60p7x11/b8 1x1x16x1x80x24/b8 1x2x4x1x112x60p32x5/b8 1x1x8x1x128x60p16x5/b8 1x1x2x1x128x24p5x6/b8 1x2x3x1x256x24p16x5/b8 1x2x4x4x44x60p16x10/b8 \
            1x2x1x1x80x60p1x150/b4 1x1x12x1x192x24/b4 1x1x2x1x96x60p16x5/b4 1x1x8x1x128x24p7x5/b4 1x2x1x1x64x60p32x5/b4 1x1x9x1x64x24p16x3/b4"),
        Listing(Standard, "shapes/tokens", "1x1x1x1x80x12p16x2/b16 \
            1x1x12x1x128x12p32x2/b8 \
            1x1x12x1x128x12p32x2/b4"),
        // Heads that are no whole number of words of codes. They are small, so that what is left over is much of them.
        Listing(Standard, "shapes/prefill", "1x2x3x1x6x24p16x5/b16 1x2x8x1x6x24p32x3/b8 1x2x16x1x10x24p4x16/b8 1x2x6x2x10x24/b4 \
            1x2x12x1x6x24p8x8/b4 1x2x16x1x12x24p7x10/b4"),
        Listing(Standard, "shapes/tokens", "1x2x16x2x6x12p64x2/b4"),
        // Blocks of odd sizes. Sequences take them by turns, so that those of one do not follow each other.
        Listing(Standard, "shapes/tokens", "1x3x16x1x8x12p1x36/b4"),
        Listing(Standard, "shapes/chunks", "1x3x4x2x16x32p7x15/b16 1x3x4x4x16x32p1x96/b16 1x3x4x2x16x32p5x21/b8 1x3x4x2x8x32p5x21/b4"),
        // All that was there before the fork is in the block that is copied.
        Listing(Standard, "shapes/forks", "1x4x4x4x2x40p16x12/b4"),
        // Heads of the usual sizes in few bits, where queries that ask of every channel leave nothing to be seen. Prompts are of several tiles of
        // keys, as what goes on from one to the next is other code for many queries than for one.
        Listing(Standard, "shapes/few_channels", "1x2x4x1x128x96/b4 1x2x8x1x72x96p8x32/b4 1x2x4x1x128x96/b8 1x2x10x1x64x96p32x8/b8"),
        Listing(Quick, "edge/boundaries", "2x2x4x2x16x40p8x10/b32"),
        Listing(Standard, "edge/boundaries", "1x3x4x2x16x40/b32 1x2x2x1x16x40p8x10/b16 1x2x2x1x16x40p8x10/b8 1x2x2x1x16x40p8x10/b4"),
        Listing(Quick, "edge/to_the_end", "2x3x4x2x16x12/b32"),
        Listing(Standard, "edge/to_the_end", "1x2x4x2x100x16p16x3/b32 1x2x16x1x128x16p2x21/b16 1x2x2x2x64x16p32x3/b8 1x2x16x2x64x16p5x10/b4"),
        Listing(Quick, "edge/out_of_blocks", "1x3x4x2x16x64p8x8/b32"),
        Listing(Standard, "edge/out_of_blocks", "2x2x4x2x16x64p4x7/b32 1x2x4x2x64x64p4x7/b16 1x2x4x2x64x64p4x7/b8 1x2x4x2x64x64p4x7/b4"),
        Listing(Quick, "edge/misconfigured", "2x2x4x2x16x24/b32"),
        Listing(Quick, "stability/sharp", "1x2x4x2x16x24/b32"),
        Listing(Standard, "stability/sharp", "2x2x4x2x64x40p8x12/b32 1x2x4x2x64x24/b16 1x1x4x1x128x96p3x42/b16"),
        Listing(Standard, "stability/outliers", "1x2x8x2x64x32/b32 1x2x4x2x64x32/b8 1x2x8x2x64x32/b4 1x2x8x2x64x32/b16 \
            1x1x4x2x128x32p8x4/b8"),
        Listing(Standard, "stability/alike", "1x2x4x2x16x32/b32 1x2x4x2x16x32/b16"),
        Listing(Standard, "stability/low", "1x2x4x2x16x24/b32 1x2x4x2x16x24/b16 1x2x4x2x16x24p8x6/b8 1x2x4x4x16x24/b4"),
        // What is put together of parts of a long context begins with a maximum of its own. The context comes to whole parts of any power of two up to 512, and to a token more.
        Listing(Standard, "stability/low_decode", "1x1x2x1x64x513/b32 1x1x2x2x128x513p64x9/b16 1x1x2x1x16x513p64x9/b8 1x1x2x1x128x513p16x33/b4"),
        Listing(Standard, "stability/rising", "1x1x2x2x128x96p8x12/b4"),
        Listing(Standard, "stability/uneven", "1x2x6x3x32x32/b32 1x2x6x3x32x32/b16 1x2x6x3x32x32/b8 1x2x6x3x32x32/b4"),
        Listing(Quick, "batch/ragged", "2x3x4x2x16x24/b32"),
        Listing(Standard, "batch/ragged", "1x7x16x1x72x24/b32 2x3x16x2x36x24p64x4/b16 2x3x4x2x32x24/b8 2x3x4x2x32x24/b4"),
        Listing(Standard, "batch/decode", "1x4x2x2x64x520/b32 1x4x4x2x64x520p16x140/b16 1x4x2x2x128x520/b8 1x4x8x1x128x520p16x140/b4"),
        Listing(Quick, "stateful/reuse", "2x3x4x2x16x24/b32"),
        Listing(Standard, "stateful/reuse", "2x3x12x1x8x24p8x12/b32 1x3x16x2x44x24p8x12/b16 1x3x4x2x16x24p4x12/b8 1x3x4x2x16x24p4x12/b4 1x3x2x2x64x24p3x32/b8"),
        Listing(Quick, "stateful/interleaved", "1x2x4x2x16x24/b32"),
        Listing(Standard, "stateful/interleaved", "2x2x2x2x16x24p7x10/b32 1x2x3x1x80x24/b16 1x2x4x2x10x24/b8 1x2x4x2x16x24p4x12/b4"),
        Listing(Standard, "stateful/layers_apart", "2x3x8x1x44x40p2x80/b32 3x2x10x1x128x40p4x26/b32 2x2x12x1x128x24/b16 2x2x8x1x32x24p16x5/b8 \
            2x2x4x2x16x24p8x6/b4"),
        Listing(Quick, "stateful/forks", "2x4x4x2x16x40p8x20/b32"),
        Listing(Standard, "stateful/forks", "1x3x1x1x128x40p32x8/b32 1x4x4x2x32x40p8x20/b8 1x3x4x2x16x40p8x15/b16 1x4x4x2x8x40p16x12/b4 \
            1x4x4x2x8x40/b4"),
        Listing(Standard, "stateful/forks_apart", "2x3x12x1x64x40p32x8/b32 3x2x8x1x112x40p7x16/b32 2x3x16x1x64x40p8x20/b16 2x3x4x4x40x40p16x12/b8 \
            2x3x4x2x16x40p8x15/b4"),
        Listing(Standard, "stateful/forks_short", "1x4x4x2x16x40p8x5/b32"),
        Listing(Standard, "stateful/fork_walk", "2x4x4x2x16x40p4x20/b32"),
        Listing(Quick, "stateful/walk", "2x3x4x2x16x24p4x14/b32"),
        Listing(Standard, "stateful/walk", "2x3x4x2x16x24/b32 1x5x4x1x16x20p4x25/b32 2x3x4x2x32x24p4x14/b16 2x3x4x2x32x24p4x14/b8 2x3x4x2x32x24p4x14/b4"),
        Listing(Full, "stateful/walk", "3x4x4x4x16x50p16x12/b32 2x4x8x2x64x30/b16"),
        Listing(Standard, "stateful/few_channels", "2x3x4x2x64x24p64x4/b16 2x3x8x2x64x24p4x14/b8 2x3x4x2x64x24/b4"),
        Listing(Standard, "stateful/forks_few_channels", "1x4x4x2x64x40p8x20/b16 1x4x4x2x64x40p8x20/b8 1x4x8x1x64x40p8x26/b8 1x4x4x2x64x40p16x12/b4 1x4x4x2x64x40/b4 \
            1x4x8x2x128x40p5x42/b32"),
        Listing(Standard, "stateful/long_walk", "2x4x4x2x16x40p8x14/b32"),
        Listing(Standard, "scale/prefill", "1x1x4x1x64x360/b32 1x1x2x1x128x450p16x30/b32"),
        // More sequences than two warps have lanes.
        Listing(Standard, "scale/ragged", "1x70x8x2x16x40p16x150/b32"),
        Listing(Standard, "adversarial/directions", "1x32x8x4x16x16/b32 1x32x8x4x16x16/b16 1x32x8x4x16x16/b8 1x32x8x4x16x16/b4"),
        // What is for single tokens behind a long context is often used for several as well, of which each must see less than the next.
        Listing(Standard, "scale/chunked_prefill", "1x1x4x2x16x580/b32 1x1x9x1x10x580p3x194/b32 1x1x1x1x80x580p8x73/b32 \
            1x1x6x2x32x580/b16 1x1x9x1x20x580p7x83/b16 1x1x2x2x80x580p8x73/b16 \
            1x1x4x2x16x580/b8 1x1x9x1x20x580p5x116/b8 1x1x1x1x80x580p8x73/b8 \
            1x1x4x2x16x580/b4 1x1x9x1x20x580p3x194/b4 1x1x1x1x64x580p8x73/b4"),
        // More tokens than 16 bits count, and than a grid may have blocks along y or z.
        Listing(Standard, "scale/at_once", "1x1x2x1x8x65544/b32"),
        // Parts of a power of two of tokens are 3 to 16, and of most numbers between some context has so many. Of 1281 tokens the last but one fills its part:
        // who counts `tokens / part + 1` of them takes one more that nobody wrote.
        Listing(Standard, "scale/decode", "1x2x2x1x32x2100p256x12/b32 1x1x8x1x64x1281/b32 1x2x8x1x32x2100/b16 \
            1x1x2x1x32x1281p32x41/b16 1x1x8x1x16x1281/b8 1x1x4x2x64x2100p16x132/b8 1x1x8x1x16x4200/b4 1x1x4x2x80x1281p64x21/b4 \
            1x1x8x1x128x900p16x57/b32 1x1x8x1x64x900/b16 1x1x8x1x128x1600p16x100/b16 1x1x8x1x128x900/b8 1x1x2x1x128x1600p16x100/b4"),
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
    fn is_diagnosed(&self) -> bool {
        checks::is_held_against_flaws(&self.config)
    }

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
    use crate::pairs::{self, Choice, part};
    use std::cmp::Ordering;
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
            (10..=20).contains(&quick.len()) && (50..=190).contains(&standard.len()),
            "{} {}",
            quick.len(),
            standard.len()
        );
    }

    /// Who copies and shares by the length of one layer takes another's.
    #[test]
    fn sequences_fork_where_the_first_layer_has_filled_a_block_and_where_the_last_has() {
        let apart =
            listed(Effort::Standard, &ALL).into_iter().filter(|case| case.kind.plot == Plot::ForksApart);
        let mut formats = BTreeSet::new();
        for case in apart {
            let (size, _) = case.config.paged.expect("blocks");
            let mut held = vec![vec![0; case.config.batch]; case.config.layers];
            let mut filled = BTreeSet::new();
            for (_, step) in case.steps(Seed::PUBLIC) {
                match &step {
                    Step::Feed(counts) => held.iter_mut().for_each(|layer| add(layer, counts)),
                    Step::FeedLayer(layer, counts) => add(&mut held[*layer], counts),
                    Step::Clear(sequence) => held.iter_mut().for_each(|layer| layer[*sequence] = 0),
                    &Step::Fork { source, target } => {
                        let full = |layer: &Vec<usize>| layer[source] / size;
                        let (first, last) = (full(&held[0]), full(&held[held.len() - 1]));
                        filled.insert(first.cmp(&last));
                        assert!(held.iter().all(|layer| layer[target] == 0), "{}", case.id());
                        held.iter_mut().for_each(|layer| layer[target] = layer[source]);
                    }
                    other => panic!("{other:?}"),
                }
                let most = held.iter().flatten().max().expect("a layer");
                assert!(*most <= case.config.max_len, "{}: {step:?}", case.id());
            }
            assert_eq!(filled, BTreeSet::from([Ordering::Less, Ordering::Greater]), "{}", case.id());
            formats.insert(case.config.bits);
        }
        assert_eq!(formats, BTreeSet::from([4, 8, 16, 32]));
    }

    fn add(held: &mut [usize], counts: &[usize]) {
        held.iter_mut().zip(counts).for_each(|(held, count)| *held += count);
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
                some("many tokens together behind more than 512", Plot::ChunkedPrefill, 550);
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
            for (part, beyond) in [(512, 512), (256, 1024)] {
                // The last but one of those that are decoded fills a part, and the last begins one.
                some(&format!("the last of a part of {part} tokens, beyond {beyond}"), &|case| {
                    let Config { max_len, .. } = case.config;
                    case.kind.plot == Plot::Decode && max_len > beyond && max_len % part == 1
                });
            }
        }
        assert!(cases.iter().any(|case| case.config.max_len > 1 << 16), "more tokens than 16 bits count");
        assert!(cases.iter().any(|case| case.config.layers > 3), "more than 3 layers");
        assert!(cases.iter().any(|case| (6..64).contains(&case.config.batch)), "more than 5 sequences");
        let paged = |case: &&CacheCase| case.config.paged.is_some();
        assert!(
            cases.iter().filter(paged).any(|case| case.config.batch > 64),
            "more sequences than two warps have lanes"
        );
    }

    /// What kernels choose code of their own by, and into which parts of it cases fall.
    const CHOICES: [Choice; 5] = [
        ("head_dim", &["no multiple of 8", "a multiple of 8 below 64", "64", "128", "another multiple of 8"]),
        ("queries to a head of keys", &["1", "2 to 7", "8", "more"]),
        ("tokens of a block", &["contiguous", "1, or no power of 2", "2 to 8", "16", "32 or more"]),
        ("tokens together", &["1", "2 to 32", "more"]),
        ("context", &["up to 32", "up to 512", "more"]),
    ];

    /// The parts of each choice that a case falls into, once for single tokens and once for the most that it attends together.
    fn chosen(case: &CacheCase) -> [[usize; CHOICES.len()]; 2] {
        let config = case.config;
        let (mut lengths, mut others) = (vec![0; config.batch], vec![0; config.batch]);
        let (mut together, mut context) = (1, 0);
        for (_, step) in case.steps(Seed::PUBLIC) {
            match &step {
                Step::Feed(counts) | Step::FeedLayer(_, counts) | Step::Append(counts) => {
                    let after: Vec<usize> = lengths.iter().zip(counts).map(|(a, b)| a + b).collect();
                    if config.fits(&after) {
                        lengths = after;
                        if !matches!(step, Step::Append(_)) {
                            together = together.max(*counts.iter().max().unwrap());
                        }
                        context = context.max(*lengths.iter().max().unwrap());
                    }
                }
                Step::Clear(sequence) => lengths[*sequence] = 0,
                Step::Fork { source, target } => lengths[*target] = lengths[*source],
                Step::Turn => std::mem::swap(&mut lengths, &mut others),
                Step::Misconfigure(_) => {}
            }
        }
        let head_dim = match config.head_dim {
            64 => 2,
            128 => 3,
            other if !other.is_multiple_of(8) => 0,
            other if other < 64 => 1,
            _ => 4,
        };
        let block = match config.paged {
            None => 0,
            Some((size, _)) if size == 1 || !size.is_power_of_two() => 1,
            Some((size, _)) => 2 + part(size, &[8, 16]),
        };
        let group = part(config.group(), &[1, 7, 8]);
        [1, together]
            .map(|together| [head_dim, group, block, part(together, &[1, 32]), part(context, &[32, 512])])
    }

    /// In every format, but for what cannot be.
    #[test]
    fn every_two_choices_that_kernels_make_meet_in_a_case() {
        let cases = listed(Effort::Standard, &ALL);
        for bits in [32, 16, 8, 4] {
            let of_bits = cases.iter().filter(|case| case.config.bits == bits);
            let missing = pairs::missing(&CHOICES, &of_bits.flat_map(chosen).collect::<Vec<_>>());
            assert_eq!(missing, ["tokens together more, context up to 32"], "{bits} bits");
        }
    }

    /// The cost of a case is in its queries, and of a long context only the newest tokens ask.
    #[test]
    fn a_long_context_is_appended_whole_and_decoded_to_its_end() {
        let case = parse("scale/decode/1x3x4x2x16x2100p16x320/b8/all").unwrap();
        let mut lengths = vec![0; 3];
        for (_, step) in case.steps(Seed::PUBLIC) {
            let counts = match &step {
                Step::Append(counts) => counts,
                Step::Feed(counts) if [[4; 3], [1; 3]].iter().any(|due| counts == due) => counts,
                _ => panic!("{step:?}"),
            };
            lengths.iter_mut().zip(counts).for_each(|(length, count)| *length += count);
        }
        assert_eq!(lengths, [2100, 706, 2100]);
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
