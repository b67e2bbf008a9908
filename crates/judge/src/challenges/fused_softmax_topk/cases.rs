//! What is tried, in families.

use tribunal_contract::DType;
use tribunal_contract::launch::GRID_MAX;
use tribunal_runner::MachineError;

use super::checks;
use super::problem::Problem;
use super::recipes::Logits;
use crate::{Case, Court, Dimension, Effort, Family, Observation, Plan, Severity, shape};

/// What is done with a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Procedure {
    /// Asked once, against the oracle.
    Plain,
    /// That, and each row on its own, and in another order.
    RowsApart,
    /// That, and the vocabulary in another order.
    Permuted,
    /// That, and a constant added to every row.
    Shifted,
    /// That, and the probabilities of all entries add up to 1.
    AddsUp,
    /// Three problems of different shapes, and the first again.
    Interleaved,
    /// k is three more than V.
    TooMany,
    /// Asked once, and the directions of the residual.
    Directions,
    /// More rows than a grid may have blocks along y or z, of submissions that launch kernels: what would be launched.
    ManyRows,
}

/// A kind of case: its family and name in ids, and how it is made.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) family: Family,
    pub(super) name: &'static str,
    pub(super) procedure: Procedure,
    pub(super) logits: Logits,
    /// Whether it runs on [few multiprocessors](Court::run_on_few_multiprocessors), where that can be chosen.
    pub(super) few_multiprocessors: bool,
}

const fn plain(family: Family, name: &'static str, logits: Logits) -> Kind {
    tried(family, name, logits, Procedure::Plain)
}

const fn tried(family: Family, name: &'static str, logits: Logits, procedure: Procedure) -> Kind {
    Kind { family, name, procedure, logits, few_multiprocessors: false }
}

const fn on_few(kind: Kind) -> Kind {
    Kind { few_multiprocessors: true, ..kind }
}

/// Every kind of case.
#[rustfmt::skip]
static KINDS: &[Kind] = {
    use Family::*;
    use Logits::{Block, Equal, Extreme, Falling, FewFinite, Grid, Head, Low, Masked, MaskedLow, MaskedNan, MaskedRow, NanRow, NearTies, Normal,
        Offsets, Peak, Plateau, Rising, Scales, Stride, Tail, Ties, TwoLanes, Uniform};
    use Procedure::*;
    &[
        plain(Basic, "normal", Normal(2.0)),
        plain(Basic, "uniform", Uniform),
        plain(Basic, "ties", Ties),
        plain(Shapes, "normal", Normal(2.0)),
        tried(Shapes, "rows", Normal(2.0), ManyRows),
        plain(Edge, "equal", Equal),
        plain(Edge, "near_ties", NearTies),
        plain(Edge, "masked", Masked),
        plain(Edge, "masked_low", MaskedLow),
        plain(Edge, "few_finite", FewFinite),
        plain(Edge, "masked_row", MaskedRow),
        plain(Edge, "nan_row", NanRow),
        plain(Edge, "masked_nan", MaskedNan),
        tried(Edge, "k_beyond_v", Normal(2.0), TooMany),
        plain(Stability, "extreme", Extreme),
        plain(Stability, "offsets", Offsets),
        plain(Stability, "deviation_100", Normal(100.0)),
        plain(Stability, "rising", Rising(40.0)),
        plain(Stability, "rising_slowly", Rising(2.0)),
        plain(Stability, "rising_far", Rising(400.0)),
        plain(Stability, "falling", Falling(40.0)),
        plain(Stability, "plateau", Plateau),
        plain(Stability, "low", Low),
        plain(Stability, "one_peak", Peak),
        tried(Property, "rows_apart", Scales, RowsApart),
        tried(Property, "permuted", Normal(2.0), Permuted),
        tried(Property, "shifted", Grid, Shifted),
        tried(Property, "adds_up", Normal(1.0), AddsUp),
        plain(Batch, "normal", Normal(2.0)),
        plain(Batch, "scales", Scales),
        plain(Batch, "offsets", Offsets),
        on_few(plain(Batch, "many_rows", Offsets)),
        on_few(plain(Batch, "many_nan_rows", MaskedNan)),
        tried(Stateful, "interleaved", Normal(2.0), Interleaved),
        plain(Scale, "normal", Normal(2.0)),
        plain(Scale, "uniform", Uniform),
        plain(Adversarial, "two_lanes", TwoLanes),
        plain(Adversarial, "stride_32", Stride(32)),
        plain(Adversarial, "stride_128", Stride(128)),
        plain(Adversarial, "stride_256", Stride(256)),
        plain(Adversarial, "stride_1024", Stride(1024)),
        plain(Adversarial, "block", Block),
        plain(Adversarial, "head", Head),
        plain(Adversarial, "tail", Tail),
        tried(Adversarial, "directions", Scales, Directions),
    ]
};

/// Shapes and k in which a kind is tried, from which effort on, and in which dtypes.
struct Listing(Effort, &'static [DType], &'static str, &'static str);

const F32: &[DType] = &[DType::Float32];
/// What goes wrong in one dtype may be right in another, which other code is for.
const EACH: &[DType] = &[DType::Float32, DType::Float16, DType::BFloat16];
const F16: &[DType] = &[DType::Float16];
/// Those that a kernel may read two of at a time.
const HALVES: &[DType] = &[DType::Float16, DType::BFloat16];

#[rustfmt::skip]
static LISTINGS: &[Listing] = {
    use Effort::{Full, Quick, Standard};
    &[
        Listing(Quick, F32, "basic/normal", "2x3x64/5 1x1x1000/10"),
        Listing(Standard, F32, "basic/normal", "2x5x1024/50 3x1x1000/1 1x4x512/32"),
        Listing(Quick, F32, "basic/uniform", "2x2x300/8"),
        Listing(Quick, F32, "basic/ties", "2x3x200/10"),
        Listing(Standard, F32, "basic/ties", "1x3x1024/256"),
        Listing(Quick, HALVES, "basic/normal", "2x3x64/5"),
        Listing(Standard, HALVES, "basic/normal", "1x3x1000/33"),
        Listing(Standard, HALVES, "basic/ties", "2x3x200/10"),
        Listing(Quick, F32, "shapes/normal", "1x1x1/1 2x2x5/5 3x1x33/10 1x3x31/31"),
        Listing(Standard, F32, "shapes/normal",
            "2x2x5/2 1x9x5/3 3x3x33/32 1x3x33/33 2x2x1000/256 \
             2x3x1023/50 1x5x1025/1 1x3x2049/100 1x1x12301/1100 1x1x4200/4100 1x2x8193/20"),
        // What kernels have code of their own for, each with each of the others: a test says which pairs. The token of the largest logit alone is what
        // greedy decoding asks for.
        Listing(Standard, EACH, "shapes/normal", "1x18x24/1 1x1x30/1 1x2x6002/5 1x17x300/257 1x17x8200/20 1x2x32004/1 1x1x40001/5 1x1x70001/1 1x1x65538/257"),
        Listing(Standard, HALVES, "shapes/normal", "1x2x700/1 1x1x1004/300"),
        Listing(Standard, F32, "shapes/rows", "33x1986x3/1"),
        Listing(Full, F32, "shapes/normal", "1x1x2/2 1x65x17/16 2x2x257/257 17x5x63/7 1x2x4097/1000 1x2x8191/8191"),
        Listing(Standard, HALVES, "shapes/normal", "1x2x1/1 1x3x5/2 3x3x33/10 1x1x31/31 1x2x1000/256 1x2x1025/1 1x1x1200/1100 1x2x8193/20 1x1x25001/300"),
        Listing(Quick, F32, "edge/equal", "1x5x40/7"),
        Listing(Standard, EACH, "edge/equal", "1x3x1000/50"),
        Listing(Standard, F32, "edge/near_ties", "2x3x500/20"),
        Listing(Quick, F32, "edge/masked", "2x3x100/10"),
        Listing(Standard, EACH, "edge/masked", "1x3x1000/50 1x1x70001/50"),
        Listing(Standard, EACH, "edge/masked_low", "2x2x300/10"),
        Listing(Quick, F32, "edge/few_finite", "1x5x60/8"),
        Listing(Standard, F32, "edge/few_finite", "2x2x1000/32 1x3x33/33"),
        Listing(Quick, F32, "edge/masked_row", "1x5x60/8"),
        Listing(Quick, F32, "edge/nan_row", "1x5x60/8"),
        Listing(Standard, F32, "edge/masked_row", "3x3x1000/50"),
        Listing(Standard, F32, "edge/nan_row", "3x3x1000/50 2x2x600/200"),
        Listing(Standard, EACH, "edge/masked_nan", "1x4x100/40 1x2x2000/40"),
        // Too few are finite, and what is left is spread over the row.
        Listing(Standard, EACH, "edge/masked", "1x1x1200/1100"),
        Listing(Standard, F32, "edge/k_beyond_v", "1x2x5/8"),
        Listing(Standard, HALVES, "edge/masked", "2x3x100/10"),
        Listing(Standard, HALVES, "edge/few_finite", "1x5x60/8"),
        Listing(Standard, HALVES, "edge/masked_row", "1x5x60/8"),
        Listing(Standard, HALVES, "edge/nan_row", "1x5x60/8"),
        // Few rows, and long ones: where a row is shared out among blocks. Of what is masked there is more than 16 bits count, by fewer than k.
        Listing(Standard, EACH, "edge/few_finite", "1x2x5002/64 1x1x65546/20"),
        Listing(Standard, EACH, "edge/masked_row", "1x3x5004/64 1x2x70004/20"),
        Listing(Standard, EACH, "edge/nan_row", "1x4x5000/80 1x4x40004/80"),
        Listing(Standard, HALVES, "edge/nan_row", "2x2x600/257"),
        Listing(Standard, HALVES, "edge/k_beyond_v", "1x2x5/8 1x2x40/50"),
        Listing(Quick, F32, "stability/extreme", "2x3x200/10"),
        Listing(Standard, F32, "stability/extreme", "1x3x1000/50"),
        Listing(Quick, F32, "stability/offsets", "1x6x200/10"),
        Listing(Standard, F32, "stability/deviation_100", "2x3x500/20"),
        Listing(Quick, F32, "stability/rising", "1x3x500/10"),
        Listing(Standard, F32, "stability/rising", "1x3x4096/50"),
        Listing(Standard, F32, "stability/rising_slowly", "2x2x1000/10 1x2x32000/50"),
        Listing(Standard, F32, "stability/rising_far", "1x3x1000/10"),
        Listing(Quick, F32, "stability/falling", "1x3x500/10"),
        Listing(Standard, F32, "stability/falling", "1x3x4096/50"),
        Listing(Standard, F32, "stability/plateau", "1x2x32000/50 1x1x50257/256"),
        Listing(Quick, F32, "stability/low", "1x1x300/10"),
        Listing(Standard, F32, "stability/one_peak", "1x1x100001/10"),
        Listing(Standard, HALVES, "stability/extreme", "2x3x200/10"),
        Listing(Standard, HALVES, "stability/offsets", "1x6x200/10"),
        Listing(Standard, F16, "stability/deviation_100", "2x3x500/20"),
        Listing(Standard, HALVES, "stability/rising", "1x3x500/10 1x1x70001/50"),
        Listing(Standard, HALVES, "stability/rising_far", "1x3x1000/10"),
        Listing(Standard, HALVES, "stability/falling", "1x3x500/10"),
        Listing(Standard, HALVES, "stability/plateau", "1x2x32000/50 1x1x50257/256 1x1x70008/50"),
        Listing(Quick, F32, "property/rows_apart", "1x5x300/10"),
        Listing(Standard, HALVES, "property/rows_apart", "1x5x300/10"),
        Listing(Standard, HALVES, "property/permuted", "2x2x1000/20"),
        Listing(Standard, F32, "property/permuted", "2x2x1000/20"),
        Listing(Standard, F32, "property/shifted", "2x2x500/20"),
        Listing(Standard, F32, "property/adds_up", "2x2x500/500"),
        Listing(Quick, F32, "batch/normal", "1x9x100/10"),
        Listing(Standard, F32, "batch/normal", "3x11x257/16 1x130x50/4 2x350x9/3 1x1100x12/2"),
        Listing(Standard, HALVES, "batch/normal", "1x130x50/4 1x1100x12/2"),
        Listing(Standard, EACH, "batch/scales", "2x9x300/10"),
        Listing(Standard, HALVES, "batch/offsets", "2x4x100/5"),
        Listing(Standard, EACH, "batch/offsets", "1x4x5000/50 1x4x40002/50"),
        // Of rows that one block comes to, each is some pieces of what it reads at a time.
        Listing(Standard, EACH, "batch/many_rows", "1x20x2001/100"),
        Listing(Standard, F32, "batch/many_rows", "1x23x6161/20"),
        Listing(Standard, HALVES, "batch/many_rows", "1x35x4104/20 1x17x12305/20"),
        Listing(Standard, EACH, "batch/many_nan_rows", "1x40x1001/20"),
        Listing(Quick, F32, "batch/offsets", "2x4x100/5"),
        Listing(Full, F32, "batch/normal", "1x3000x64/5"),
        Listing(Quick, F32, "stateful/interleaved", "2x3x400/12"),
        Listing(Standard, HALVES, "stateful/interleaved", "2x3x400/12"),
        Listing(Standard, EACH, "stateful/interleaved", "1x2x2000/40"),
        Listing(Quick, F32, "scale/normal", "1x3x32000/10"),
        Listing(Standard, F32, "scale/normal", "1x3x50257/50 1x1x128256/50 1x1x1000000/33"),
        Listing(Standard, F32, "scale/uniform", "1x3x50257/10"),
        Listing(Full, F32, "scale/normal", "2x8x50257/256 3x3x128256/50 1x3x1048577/256 1x1x50257/50257"),
        // Where a row is shared out: into few parts, and into more than half as many as a warp has lanes.
        Listing(Standard, HALVES, "scale/normal", "1x3x50257/50 1x1x300001/256 1x1x300001/5"),
        Listing(Standard, F32, "adversarial/two_lanes", "2x2x1024/10"),
        Listing(Quick, F32, "adversarial/stride_32", "1x3x4096/50"),
        Listing(Standard, F32, "adversarial/stride_128", "1x2x20000/100"),
        Listing(Quick, F32, "adversarial/stride_256", "1x2x16384/50"),
        Listing(Standard, F32, "adversarial/stride_256", "1x1x70001/256"),
        Listing(Standard, F32, "adversarial/stride_1024", "1x1x128256/100"),
        Listing(Standard, F32, "adversarial/block", "1x3x5003/50 1x1x32000/256"),
        Listing(Quick, F32, "adversarial/head", "1x3x1003/10"),
        Listing(Quick, F32, "adversarial/tail", "1x3x1003/10"),
        Listing(Standard, F32, "adversarial/head", "1x2x50257/50"),
        Listing(Standard, F32, "adversarial/tail", "1x2x50257/50 1x1x128257/2"),
        Listing(Standard, HALVES, "adversarial/two_lanes", "2x2x1024/10"),
        Listing(Standard, HALVES, "adversarial/stride_32", "1x3x4096/50"),
        Listing(Standard, HALVES, "adversarial/stride_256", "1x2x16384/50"),
        Listing(Standard, HALVES, "adversarial/block", "1x3x5003/50 1x1x32000/256"),
        Listing(Standard, HALVES, "adversarial/head", "1x3x1003/10 1x2x5003/50 1x1x70001/10"),
        Listing(Standard, F16, "adversarial/head", "1x2x50257/50"),
        Listing(Standard, HALVES, "adversarial/tail", "1x3x1003/10 1x1x70001/10"),
        Listing(Standard, EACH, "adversarial/directions", "2x256x257/16"),
    ]
};

/// One case: a kind, a shape, k and a dtype.
#[derive(Debug, Clone)]
pub(super) struct TopkCase {
    pub(super) kind: &'static Kind,
    pub(super) shape: Vec<usize>,
    pub(super) k: usize,
    pub(super) dtype: DType,
}

/// The cases of a plan, family by family.
pub(super) fn list(plan: &Plan) -> Vec<TopkCase> {
    let claimed = |dtype: DType| dtype == DType::Float32 || plan.capabilities.contains(&dtype.name());
    let mut cases: Vec<TopkCase> = LISTINGS
        .iter()
        .filter(|Listing(effort, ..)| plan.effort.includes(*effort))
        .flat_map(|Listing(_, dtypes, kind, sizes)| {
            let dtypes = dtypes.iter().filter(|dtype| claimed(**dtype));
            dtypes.flat_map(move |dtype| {
                sizes.split_whitespace().map(move |size| {
                    let (shape, k) = size.split_once('/').expect("a listing gives shape and k");
                    parse(&format!("{kind}/{shape}/k{k}/{dtype}")).expect("listed cases are well formed")
                })
            })
        })
        .filter(|case| plan.launches || case.kind.procedure != Procedure::ManyRows)
        .collect();
    cases.sort_by_key(|case| case.kind.family);
    cases
}

/// The case of an id.
pub(super) fn parse(id: &str) -> Option<TopkCase> {
    let [family, name, shape, k, dtype]: [&str; 5] = id.split('/').collect::<Vec<_>>().try_into().ok()?;
    let kind = KINDS.iter().find(|kind| kind.family.name() == family && kind.name == name)?;
    let dtype = [DType::Float32, DType::Float16, DType::BFloat16].into_iter().find(|d| d.name() == dtype)?;
    let shape = shape::parse(shape).filter(|shape| shape.len() == 3)?;
    let case = TopkCase { kind, shape, k: k.strip_prefix('k')?.parse().ok()?, dtype };
    case.keeps_its_point().then_some(case)
}

impl TopkCase {
    /// The inputs of the case; `which` tells apart the problems of one that has several.
    pub(super) fn problem(&self, court: &Court<'_>, which: usize) -> Problem {
        self.problem_of_shape(court, which, &self.shape)
    }

    /// The same with another shape.
    pub(super) fn problem_of_shape(&self, court: &Court<'_>, which: usize, shape: &[usize]) -> Problem {
        let purpose = if which == 0 { self.id() } else { format!("{}#{which}", self.id()) };
        let draw = || self.kind.logits.draw(court.seed.rng(&purpose), shape, self.k, self.dtype);
        court.recall(&(purpose.clone(), shape.to_vec()), draw)
    }

    /// How much a failure of this case weighs.
    pub(super) fn severity(&self) -> Severity {
        match self.kind.family {
            Family::Basic | Family::Batch | Family::Stateful => Severity::Critical,
            _ => Severity::Major,
        }
    }

    /// Whether shape and k can still show what the kind is about.
    fn keeps_its_point(&self) -> bool {
        let vocab = self.shape[2];
        let rows = self.shape[0] * self.shape[1];
        let within = (1..=vocab).contains(&self.k);
        let (least_rows, least_vocab) = match self.kind.logits {
            // z cannot exceed the root of the number of rows.
            _ if self.kind.procedure == Procedure::Directions => (64, 16),
            _ if self.kind.procedure == Procedure::ManyRows => (GRID_MAX[1] as usize + 1, 1),
            Logits::NanRow => (4, 3),
            Logits::MaskedNan => (2, 1),
            Logits::MaskedRow | Logits::Offsets | Logits::Scales => (2, 3),
            Logits::FewFinite => (1, 4),
            Logits::TwoLanes => (1, 33),
            // Fewer terms than that are within the budget.
            Logits::Peak => (1, 1 << 16),
            // Two winners at least in the class.
            Logits::Stride(stride) => (1, stride + 1),
            Logits::Rising(_) | Logits::Falling(_) | Logits::Plateau => (1, 16),
            _ if self.kind.family == Family::Batch => (2, 1),
            _ => (1, 1),
        };
        let k = match self.kind.procedure {
            Procedure::TooMany => self.k > vocab && self.k <= 2 * vocab + 3,
            Procedure::AddsUp => self.k == vocab,
            // The smaller of the shapes in between is half as large.
            Procedure::Interleaved => within && self.k <= vocab.div_ceil(2),
            _ => within,
        };
        k && rows >= least_rows && vocab >= least_vocab
    }
}

impl Case for TopkCase {
    fn id(&self) -> String {
        let Self { kind, shape, k, dtype } = self;
        format!("{}/{}/{}/k{k}/{dtype}", kind.family.name(), kind.name, shape::name(shape))
    }

    fn family(&self) -> Family {
        self.kind.family
    }

    fn weight(&self) -> usize {
        self.shape.iter().product()
    }

    fn branches(&self) -> Vec<String> {
        let vocab = match self.shape[2] {
            ..=1024 => "V up to 1024",
            1025..=32_768 => "V up to 32768",
            _ => "V beyond 32768",
        };
        let k = if self.k <= 32 { "k up to 32" } else { "k beyond 32" };
        [vocab, k].map(|extent| format!("{}, {extent}", self.dtype)).to_vec()
    }

    fn dimension(&self) -> Dimension {
        match self.kind.family {
            Family::Stability => Dimension::Stability,
            Family::Basic if self.dtype != DType::Float32 => Dimension::Completeness,
            _ => Dimension::Correctness,
        }
    }

    fn examine(&self, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError> {
        if self.kind.few_multiprocessors {
            court.run_on_few_multiprocessors();
        }
        checks::examine(self, court)
    }

    fn smaller(&self) -> Vec<Box<dyn Case>> {
        let fewer = [self.k / 2, self.k - 1].into_iter().map(|k| Self { k, ..self.clone() });
        let less = shape::smaller(&self.shape).into_iter().map(|shape| {
            let k = match self.kind.procedure {
                Procedure::TooMany => shape[2] + 3,
                Procedure::AddsUp => shape[2],
                _ => self.k.min(shape[2]),
            };
            Self { shape, k, ..self.clone() }
        });
        less.chain(fewer).filter(Self::keeps_its_point).map(|case| Box::new(case) as Box<dyn Case>).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::pairs::{self, Choice, part};
    use std::collections::BTreeSet;

    fn listed(effort: Effort, capabilities: &[&'static str]) -> Vec<TopkCase> {
        list(&Plan { seed: Seed::PUBLIC, effort, capabilities: capabilities.to_vec(), launches: false })
    }

    #[test]
    fn a_case_is_its_id() {
        for case in listed(Effort::Full, &["float16", "bfloat16"]) {
            let again = parse(&case.id()).unwrap();
            assert_eq!((again.id(), again.shape, again.k), (case.id(), case.shape, case.k));
        }
        for id in [
            "basic/normal/2x3x8/k2/float64",
            "basic/unheard/2x3x8/k2/float32",
            "basic/normal/3x8/k2/float32",
            "basic/normal/2x3x8/k9/float32",
            "basic/normal/2x3x8/2/float32",
            "edge/k_beyond_v/1x2x5/k5/float32",
        ] {
            assert!(parse(id).is_none(), "{id}");
        }
    }

    #[test]
    fn more_effort_keeps_every_case_of_less() {
        let ids = |effort| -> BTreeSet<String> { listed(effort, &[]).iter().map(Case::id).collect() };
        let (quick, standard, full) = (ids(Effort::Quick), ids(Effort::Standard), ids(Effort::Full));
        assert!(quick.is_subset(&standard) && standard.is_subset(&full));
        assert!((60..=110).contains(&standard.len()), "{} cases", standard.len());
        assert!((15..=30).contains(&quick.len()), "{} cases", quick.len());
    }

    #[test]
    fn every_vocabulary_and_k_that_breaks_kernels_is_tried() {
        let cases = listed(Effort::Standard, &[]);
        for vocab in [1, 5, 31, 33, 1000, 1024, 32_000, 50_257, 128_256, 1_000_000] {
            assert!(cases.iter().any(|case| case.shape[2] == vocab), "V = {vocab}");
        }
        for k in [1, 2, 10, 31, 32, 33, 50, 256, 4100] {
            assert!(cases.iter().any(|case| case.k == k), "k = {k}");
        }
        assert!(cases.iter().any(|case| case.k == case.shape[2] && case.k > 256), "k = V");
    }

    /// Who selects by counts of 16 bits finds fewer than k.
    #[test]
    fn more_logits_are_equal_than_sixteen_bits_count() {
        for dtype in [DType::Float32, DType::Float16, DType::BFloat16] {
            let found = |masked: usize| masked % (1 << 16) + 3;
            let is_it = |case: &TopkCase| {
                let few_finite = case.kind.logits == Logits::FewFinite;
                few_finite && case.shape[2] > 1 << 16 && found(case.shape[2] - 3) < case.k
            };
            let cases = listed(Effort::Standard, &["float16", "bfloat16"]);
            assert!(cases.iter().any(|case| case.dtype == dtype && is_it(case)), "{dtype:?}");
        }
    }

    /// What kernels choose code of their own by.
    const CHOICES: [Choice; 4] = [
        ("V", &["up to 32", "up to 1024", "up to 8192", "up to 65,536", "more"]),
        ("V divides by", &["8", "4", "2", "1"]),
        ("k", &["1", "up to 8", "up to 32", "up to 256", "more"]),
        ("rows", &["1", "up to 16", "more"]),
    ];

    /// In every dtype, but for what cannot be and what would cost seconds.
    #[test]
    fn every_two_choices_that_kernels_make_meet_in_a_case() {
        let cases = listed(Effort::Standard, &["float16", "bfloat16"]);
        for dtype in EACH {
            let of_dtype = cases.iter().filter(|case| case.dtype == *dtype);
            let chosen = of_dtype.map(|case| {
                let vocab = case.shape[2];
                [
                    part(vocab, &[32, 1024, 8192, 65_536]),
                    3 - vocab.trailing_zeros().min(3) as usize,
                    part(case.k, &[1, 8, 32, 256]),
                    part(case.shape[0] * case.shape[1], &[1, 16]),
                ]
            });
            let missing = pairs::missing(&CHOICES, &chosen.collect::<Vec<_>>());
            let due = ["V up to 32, k up to 256", "V up to 32, k more", "V more, rows more"];
            assert_eq!(missing, due, "{dtype}");
        }
    }

    #[test]
    fn shrinking_ends_and_keeps_the_point() {
        for (id, end) in [
            ("adversarial/stride_32/1x3x4096/k50/float32", "adversarial/stride_32/1x1x33/k1/float32"),
            ("edge/k_beyond_v/1x2x5/k8/float32", "edge/k_beyond_v/1x1x1/k2/float32"),
            ("property/adds_up/2x2x500/k500/float32", "property/adds_up/1x1x1/k1/float32"),
        ] {
            let mut case: Box<dyn Case> = Box::new(parse(id).unwrap());
            while let Some(smaller) = case.smaller().into_iter().next() {
                assert!(parse(&smaller.id()).is_some(), "{}", smaller.id());
                case = smaller;
            }
            assert_eq!(case.id(), end);
        }
    }
}
