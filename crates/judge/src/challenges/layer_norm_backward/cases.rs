//! What is tried, in families.

use tribunal_contract::DType;
use tribunal_contract::launch::GRID_MAX;
use tribunal_runner::MachineError;

use super::checks;
use super::problem::Problem;
use super::recipes::{Dy, Gamma, Recipe, X};
use crate::shape;
use crate::{Case, Court, Dimension, Effort, Family, Observation, Plan, Severity};

/// What is done with a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Procedure {
    /// Forward and backward against the oracle.
    Plain,
    /// That, and each row on its own, and in another order.
    RowsApart,
    /// That, and the input moved by a constant.
    Shifted,
    /// That, and the sums of dx and of dx · xhat.
    Laws,
    /// That, and twice the gradient.
    Linear,
    /// Forward twice, then backward of the first and of the second.
    Interleaved,
    /// Three problems of different shapes.
    InterleavedShapes,
    /// One cache, the same gradient twice, then another.
    UsedTwice,
    /// Gamma is one longer than the rows.
    LongGamma,
    /// dy has a row more than x.
    LongDy,
    /// Forward and backward, and the directions of the residual.
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
    pub(super) recipe: Recipe,
    /// Whether it runs on [few multiprocessors](Court::run_on_few_multiprocessors), where that can be chosen.
    pub(super) few_multiprocessors: bool,
}

const NORMAL: X = X::Normal { offset: 0.0, scale: 1.0 };
const PLAIN: Recipe = Recipe { x: NORMAL, gamma: Gamma::Random, dy: Dy::Normal(1.0), eps: 1e-5 };

const fn of(x: X) -> Recipe {
    Recipe { x, ..PLAIN }
}

const fn normal(offset: f64, scale: f64, eps: f64) -> Recipe {
    Recipe { x: X::Normal { offset, scale }, eps, ..PLAIN }
}

const fn plain(family: Family, name: &'static str, recipe: Recipe) -> Kind {
    tried(family, name, recipe, Procedure::Plain)
}

const fn tried(family: Family, name: &'static str, recipe: Recipe, procedure: Procedure) -> Kind {
    Kind { family, name, procedure, recipe, few_multiprocessors: false }
}

const fn on_few(kind: Kind) -> Kind {
    Kind { few_multiprocessors: true, ..kind }
}

/// Every kind of case. `offset_…` stop where even a two-pass mean leaves an honest answer too little to be judged by.
#[rustfmt::skip]
static KINDS: &[Kind] = {
    use Family::*;
    use Procedure::*;
    &[
        plain(Basic, "normal", PLAIN),
        plain(Basic, "uniform", Recipe { x: X::Uniform, eps: 1e-3, ..PLAIN }),
        plain(Basic, "gamma_ones", Recipe { gamma: Gamma::Ones, ..PLAIN }),
        plain(Basic, "integers", of(X::Integers)),
        plain(Basic, "positive_dy", Recipe { dy: Dy::Positive, ..PLAIN }),
        plain(Shapes, "normal", PLAIN),
        tried(Shapes, "rows", PLAIN, ManyRows),
        plain(Edge, "zero_rows", of(X::ZeroRows)),
        plain(Edge, "constant_rows", Recipe { x: X::ConstantRows, eps: 0.1, ..PLAIN }),
        plain(Edge, "constant_rows_small_eps", Recipe { x: X::ConstantRows, eps: 1e-8, ..PLAIN }),
        plain(Edge, "gamma_zeros", Recipe { gamma: Gamma::Zeros, ..PLAIN }),
        plain(Edge, "dy_zeros", Recipe { dy: Dy::Zeros, ..PLAIN }),
        plain(Edge, "dy_ones", Recipe { dy: Dy::Ones, ..PLAIN }),
        plain(Edge, "nan_row", of(X::NanRow)),
        tried(Edge, "gamma_too_long", PLAIN, LongGamma),
        tried(Edge, "dy_too_long", PLAIN, LongDy),
        plain(Stability, "offset_10", normal(10.0, 1.0, 1e-5)),
        plain(Stability, "offset_100", normal(100.0, 1.0, 1e-5)),
        plain(Stability, "offset_1e3", normal(1e3, 1.0, 1e-5)),
        plain(Stability, "offset_1e4", normal(-1e4, 1.0, 1e-5)),
        plain(Stability, "offset_1e5", normal(1e5, 4.0, 1e-5)),
        plain(Stability, "offset_1e6", normal(1e6, 100.0, 1e-5)),
        plain(Stability, "offset_1e8", normal(1e8, 1.0, 1e-5)),
        plain(Stability, "offset_1e10", normal(-1e10, 1.0, 1e-5)),
        plain(Stability, "x_scale_1e-3", normal(0.0, 1e-3, 1e-5)),
        plain(Stability, "x_scale_1e3", normal(0.0, 1e3, 1e-5)),
        plain(Stability, "x_scale_1e6", normal(0.0, 1e6, 1e-5)),
        plain(Stability, "dy_scale_1e-3", Recipe { dy: Dy::Normal(1e-3), ..PLAIN }),
        plain(Stability, "dy_scale_1e6", Recipe { dy: Dy::Normal(1e6), ..PLAIN }),
        plain(Stability, "eps_1", normal(0.0, 1.0, 1.0)),
        plain(Stability, "eps_0.1", normal(1.0, 1.0, 0.1)),
        plain(Stability, "eps_1e-8", normal(0.0, 1e-4, 1e-8)),
        plain(Stability, "deviations", Recipe { x: X::Deviations, eps: 1e-3, ..PLAIN }),
        plain(Stability, "outlier", of(X::Outlier)),
        tried(Property, "rows_apart", of(X::Scales), RowsApart),
        tried(Property, "shifted", of(X::Grid), Shifted),
        tried(Property, "laws", Recipe { eps: 0.1, ..PLAIN }, Laws),
        tried(Property, "linear", PLAIN, Linear),
        plain(Batch, "normal", PLAIN),
        plain(Batch, "scales", of(X::Scales)),
        plain(Batch, "offsets", of(X::Offsets)),
        plain(Batch, "positive_dy", Recipe { dy: Dy::Positive, ..PLAIN }),
        on_few(plain(Batch, "many_rows", PLAIN)),
        tried(Stateful, "interleaved", PLAIN, Interleaved),
        tried(Stateful, "interleaved_shapes", PLAIN, InterleavedShapes),
        tried(Stateful, "used_twice", PLAIN, UsedTwice),
        plain(Scale, "normal", PLAIN),
        plain(Scale, "offset_1", normal(1.0, 1.0, 1e-5)),
        plain(Adversarial, "drift", Recipe { x: X::Drift, eps: 1e-8, ..PLAIN }),
        plain(Adversarial, "heavy_tail", of(X::HeavyTail)),
        plain(Adversarial, "half_overflow", Recipe { dy: Dy::Normal(300.0), ..normal(0.0, 1e5, 1e-5) }),
        plain(Adversarial, "cancelling", Recipe { dy: Dy::Cancelling, ..PLAIN }),
        tried(Adversarial, "directions", PLAIN, Directions),
    ]
};

/// Shapes in which a kind is tried, from which effort on, and in which dtypes.
struct Listing(Effort, &'static [DType], &'static str, &'static str);

const F32: &[DType] = &[DType::Float32];
const F64: &[DType] = &[DType::Float64];
const B16: &[DType] = &[DType::BFloat16];
/// Those that a submission may do without.
const OPTIONAL: &[DType] = &[DType::Float64, DType::BFloat16];
/// What goes wrong in one dtype may be right in another, which other code is for.
const EACH: &[DType] = &[DType::Float32, DType::Float64, DType::BFloat16];

#[rustfmt::skip]
static LISTINGS: &[Listing] = {
    use Effort::{Full, Quick, Standard};
    &[
        Listing(Quick, F32, "basic/normal", "4x16 2x3x8"),
        Listing(Standard, F32, "basic/normal", "3x4x257"),
        Listing(Standard, F32, "basic/uniform", "3x4x32"),
        Listing(Quick, F32, "basic/gamma_ones", "2x4x32"),
        Listing(Standard, F32, "basic/integers", "6x16"),
        Listing(Standard, F32, "basic/positive_dy", "2x6x48"),
        Listing(Quick, F64, "basic/normal", "2x3x24"),
        Listing(Standard, F64, "basic/normal", "5x257"),
        Listing(Standard, F64, "basic/integers", "6x16"),
        Listing(Quick, B16, "basic/normal", "2x3x24"),
        Listing(Standard, B16, "basic/normal", "8x256"),
        Listing(Quick, F32, "shapes/normal", "1x1 1x7 3x5 7x33 2x1x17 2x1025"),
        Listing(Standard, F32, "shapes/normal",
            "2x2 3x255 2x1023 1x1024"),
        Listing(Standard, F32, "shapes/rows", "33x1986x3"),
        Listing(Full, F32, "shapes/normal", "64x4 65x65 127x2 1x3x511 33x129 1x1x1 1x12288 3x8191"),
        Listing(Standard, F64, "shapes/normal", "1x1 3x10 2x3x65"),
        Listing(Standard, F64, "shapes/normal", "2x1025 2x1026"),
        Listing(Standard, B16, "shapes/normal", "2x1 2x1001"),
        Listing(Standard, B16, "shapes/normal", "3x7 2x1025 4x12 3x10 2x14 2x1028 17x1030"),
        // What kernels have code of their own for, each with each of the others: a test says which pairs.
        Listing(Standard, EACH, "shapes/normal", "1x24 1x36 1x1030 1x5003 3x5004 3x5002 17x67 130x70 130x71"),
        Listing(Quick, F32, "edge/zero_rows", "5x24"),
        Listing(Quick, F32, "edge/constant_rows", "2x5x32"),
        Listing(Standard, F32, "edge/constant_rows_small_eps", "6x16"),
        Listing(Standard, F32, "edge/gamma_zeros", "4x20"),
        Listing(Standard, F32, "edge/dy_zeros", "4x20"),
        Listing(Standard, F32, "edge/dy_ones", "3x4x20"),
        Listing(Quick, F32, "edge/nan_row", "5x24"),
        // Rows of each width that a kernel may have code of its own for.
        Listing(Standard, F32, "edge/nan_row", "3x768 3x1024 3x4096 3x8192 3x16384"),
        Listing(Standard, F32, "edge/zero_rows", "3x8192"),
        Listing(Standard, EACH, "edge/constant_rows_small_eps", "5x1100"),
        Listing(Standard, F32, "edge/constant_rows_small_eps", "5x200"),
        Listing(Standard, F64, "edge/constant_rows_small_eps", "5x200"),
        Listing(Standard, F64, "edge/nan_row", "5x24 3x1024"),
        Listing(Standard, B16, "edge/nan_row", "5x24 3x1024 3x4096"),
        Listing(Standard, OPTIONAL, "edge/zero_rows", "5x24"),
        Listing(Standard, OPTIONAL, "edge/gamma_zeros", "4x20"),
        Listing(Quick, F32, "edge/gamma_too_long", "4x8"),
        Listing(Standard, OPTIONAL, "edge/gamma_too_long", "4x8"),
        Listing(Standard, F32, "edge/dy_too_long", "4x8"),
        Listing(Full, F64, "edge/constant_rows", "6x40"),
        Listing(Standard, F32, "stability/offset_10", "8x64"),
        Listing(Standard, F32, "stability/offset_100", "4x2x64"),
        Listing(Quick, F32, "stability/offset_1e3", "8x64"),
        Listing(Standard, F32, "stability/offset_1e5", "8x32"),
        Listing(Standard, F32, "stability/offset_1e6", "8x32"),
        Listing(Standard, F32, "stability/offset_1e4", "3x768 3x1024 2x4096 2x8192 2x16384"),
        Listing(Standard, F64, "stability/offset_1e8", "2x1024 2x4096 2x8192"),
        Listing(Standard, B16, "stability/offset_100", "2x1024 2x2048"),
        Listing(Quick, F64, "stability/offset_1e8", "4x64"),
        Listing(Standard, F64, "stability/offset_1e10", "4x64"),
        Listing(Standard, B16, "stability/offset_100", "8x64"),
        Listing(Quick, F32, "stability/x_scale_1e-3", "4x2x40"),
        Listing(Standard, F32, "stability/x_scale_1e3", "6x40"),
        Listing(Standard, F32, "stability/x_scale_1e6", "6x40"),
        Listing(Standard, F32, "stability/dy_scale_1e-3", "6x40"),
        Listing(Standard, F32, "stability/dy_scale_1e6", "6x40"),
        Listing(Standard, F32, "stability/eps_1", "2x4x32"),
        Listing(Quick, F32, "stability/eps_0.1", "6x32"),
        Listing(Standard, F32, "stability/eps_1e-8", "6x32"),
        Listing(Quick, F32, "stability/deviations", "2x5x32"),
        Listing(Standard, EACH, "stability/deviations", "2x3x1001 2x3x1100"),
        Listing(Standard, B16, "stability/eps_1", "2x4x32 2x1000 2x1100"),
        Listing(Standard, F64, "stability/eps_1e-8", "6x32 2x1000 2x1100"),
        Listing(Standard, F64, "stability/deviations", "10x32"),
        Listing(Standard, EACH, "stability/outlier", "4x128"),
        Listing(Standard, F32, "stability/outlier", "2x1024 2x4096"),
        Listing(Standard, B16, "stability/outlier", "2x1024"),
        Listing(Quick, F32, "property/rows_apart", "5x24"),
        Listing(Standard, OPTIONAL, "property/rows_apart", "5x24"),
        Listing(Standard, F32, "property/shifted", "6x48"),
        Listing(Standard, F32, "property/laws", "2x5x40"),
        Listing(Standard, F32, "property/linear", "4x40"),
        Listing(Quick, F32, "batch/normal", "2x16"),
        Listing(Standard, F32, "batch/normal", "2100x5 9001x4"),
        Listing(Standard, EACH, "batch/scales", "2x8x40"),
        Listing(Standard, F32, "batch/scales", "3x1024 3x4096 3x8192"),
        Listing(Standard, EACH, "batch/offsets", "3x4x40"),
        Listing(Standard, EACH, "batch/positive_dy", "7x5x12"),
        Listing(Standard, F32, "batch/positive_dy", "513x3"),
        Listing(Standard, EACH, "batch/many_rows", "200x24 40x1032 17x4104"),
        Listing(Standard, F32, "batch/many_rows", "100x776 40x1030 33x2056"),
        Listing(Standard, F64, "batch/many_rows", "17x2058"),
        Listing(Full, F32, "batch/normal", "5000x4"),
        Listing(Standard, F64, "batch/normal", "700x12"),
        Listing(Standard, B16, "batch/normal", "1000x12"),
        Listing(Quick, F32, "stateful/interleaved", "2x3x16"),
        Listing(Standard, EACH, "stateful/interleaved_shapes", "4x24"),
        Listing(Quick, F32, "stateful/used_twice", "4x24"),
        Listing(Standard, OPTIONAL, "stateful/used_twice", "4x24"),
        Listing(Standard, OPTIONAL, "stateful/interleaved", "3x16"),
        // Of float32 no wide ones: what threads race for in a row of several warps may come right first and wrong later, as a cache that is shared.
        Listing(Standard, F64, "stateful/interleaved", "2x1000 2x1100"),
        Listing(Standard, F64, "stateful/used_twice", "2x1000 2x1100"),
        Listing(Standard, B16, "stateful/interleaved", "2x1000 2x1100"),
        Listing(Standard, B16, "stateful/used_twice", "2x1000 2x1100"),
        Listing(Quick, F32, "scale/normal", "32x768"),
        Listing(Standard, F64, "scale/normal", "8x768 3x4096"),
        Listing(Standard, B16, "scale/normal", "8x768 3x4096 2x8192"),
        Listing(Standard, F32, "scale/offset_1", "1024x32 2x65536"),
        Listing(Full, F32, "scale/normal", "4x64x1024 64x4096 512x768"),
        Listing(Full, F32, "scale/offset_1", "1x262144"),
        Listing(Quick, F32, "adversarial/drift", "1x65536"),
        Listing(Quick, F32, "adversarial/heavy_tail", "4x67"),
        Listing(Standard, F32, "adversarial/heavy_tail", "3x1031"),
        Listing(Standard, F32, "adversarial/half_overflow", "4x64"),
        Listing(Standard, F32, "adversarial/cancelling", "6x64"),
        Listing(Standard, F32, "adversarial/directions", "256x64"),
        Listing(Standard, F64, "adversarial/directions", "128x64"),
    ]
};

/// One case: a kind, a shape and a dtype.
#[derive(Debug, Clone)]
pub(super) struct LayerNormCase {
    pub(super) kind: &'static Kind,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
}

/// The cases of a plan, family by family.
pub(super) fn list(plan: &Plan) -> Vec<LayerNormCase> {
    let claimed = |dtype: DType| dtype == DType::Float32 || plan.capabilities.contains(&dtype.name());
    let mut cases: Vec<LayerNormCase> = LISTINGS
        .iter()
        .filter(|Listing(effort, ..)| plan.effort.includes(*effort))
        .flat_map(|Listing(_, dtypes, kind, shapes)| {
            let dtypes = dtypes.iter().filter(|dtype| claimed(**dtype));
            dtypes.flat_map(move |dtype| {
                shapes.split(' ').map(move |shape| {
                    parse(&format!("{kind}/{shape}/{dtype}")).expect("listed cases are well formed")
                })
            })
        })
        .filter(|case| plan.launches || case.kind.procedure != Procedure::ManyRows)
        .collect();
    cases.sort_by_key(|case| case.kind.family);
    cases
}

/// The case of an id.
pub(super) fn parse(id: &str) -> Option<LayerNormCase> {
    let [family, name, shape, dtype]: [&str; 4] = id.split('/').collect::<Vec<_>>().try_into().ok()?;
    let kind = KINDS.iter().find(|kind| kind.family.name() == family && kind.name == name)?;
    let dtype = [DType::Float32, DType::Float64, DType::BFloat16].into_iter().find(|d| d.name() == dtype)?;
    let shape = shape::parse(shape).filter(|shape| matches!(shape.len(), 2 | 3))?;
    let case = LayerNormCase { kind, shape, dtype };
    case.keeps_its_point().then_some(case)
}

impl LayerNormCase {
    /// The inputs of the case; `which` tells apart the problems of one that has several.
    pub(super) fn problem(&self, court: &Court<'_>, which: usize) -> Problem {
        self.problem_of_shape(court, which, &self.shape)
    }

    /// The same with another shape.
    pub(super) fn problem_of_shape(&self, court: &Court<'_>, which: usize, shape: &[usize]) -> Problem {
        let purpose = if which == 0 { self.id() } else { format!("{}#{which}", self.id()) };
        let draw = || self.kind.recipe.draw(court.seed.rng(&purpose), shape, self.dtype);
        court.recall(&(purpose.clone(), shape.to_vec()), draw)
    }

    /// How much a failure of this case weighs.
    pub(super) fn severity(&self) -> Severity {
        match self.kind.family {
            Family::Basic | Family::Batch | Family::Stateful => Severity::Critical,
            _ => Severity::Major,
        }
    }

    /// Whether the shape can still show what the kind is about.
    fn keeps_its_point(&self) -> bool {
        let cols = self.shape[self.shape.len() - 1];
        let rows: usize = self.shape[..self.shape.len() - 1].iter().product();
        let (least_rows, least_cols) = match (self.kind.recipe.x, self.kind.procedure) {
            // A mean over fewer columns or fewer rows proves nothing here.
            (X::Drift, _) => (1, 65_536),
            (_, Procedure::Directions) => (64, 8),
            (_, Procedure::ManyRows) => (GRID_MAX[1] as usize + 1, 1),
            (X::ZeroRows | X::NanRow | X::Scales | X::Offsets, _) => (2, 2),
            (X::ConstantRows | X::Deviations, _) => (5, 2),
            (X::HeavyTail, _) => (1, 3),
            _ if self.kind.family == Family::Batch => (2, 1),
            _ => (1, 1),
        };
        rows >= least_rows && cols >= least_cols
    }
}

impl Case for LayerNormCase {
    fn id(&self) -> String {
        format!("{}/{}/{}/{}", self.kind.family.name(), self.kind.name, shape::name(&self.shape), self.dtype)
    }

    fn family(&self) -> Family {
        self.kind.family
    }

    fn weight(&self) -> usize {
        self.shape.iter().product()
    }

    fn branches(&self) -> Vec<String> {
        let width = match self.shape[self.shape.len() - 1] {
            ..=64 => "up to 64 columns",
            65..=1024 => "65 to 1024 columns",
            _ => "more than 1024 columns",
        };
        vec![format!("{}, {width}", self.dtype)]
    }

    fn dimension(&self) -> Dimension {
        match self.kind.family {
            Family::Stability => Dimension::Stability,
            Family::Adversarial if self.kind.name == "drift" => Dimension::Stability,
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
        shape::smaller(&self.shape)
            .into_iter()
            .map(|shape| Self { shape, ..self.clone() })
            .filter(Self::keeps_its_point)
            .map(|case| Box::new(case) as Box<dyn Case>)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use crate::pairs::{self, Choice, part};
    use std::collections::BTreeSet;

    fn listed(effort: Effort, capabilities: &[&'static str]) -> Vec<LayerNormCase> {
        list(&Plan { seed: Seed::PUBLIC, effort, capabilities: capabilities.to_vec(), launches: false })
    }

    #[test]
    fn a_case_is_its_id() {
        for case in listed(Effort::Full, &["float64", "bfloat16"]) {
            let again = parse(&case.id()).unwrap();
            assert_eq!((again.id(), again.shape), (case.id(), case.shape));
        }
        for id in [
            "basic/normal/2x3/int32",
            "basic/unheard/2x3/float32",
            "basic/normal/6/float32",
            "basic/normal/0x3/float32",
        ] {
            assert!(parse(id).is_none(), "{id}");
        }
    }

    #[test]
    fn more_effort_keeps_every_case_of_less() {
        let ids = |effort| -> BTreeSet<String> { listed(effort, &[]).iter().map(Case::id).collect() };
        let (quick, standard, full) = (ids(Effort::Quick), ids(Effort::Standard), ids(Effort::Full));
        assert!(quick.is_subset(&standard) && standard.is_subset(&full));
        assert!((60..=100).contains(&standard.len()), "{} cases", standard.len());
        assert!((15..=30).contains(&quick.len()), "{} cases", quick.len());
    }

    /// What kernels choose code of their own by.
    const CHOICES: [Choice; 3] = [
        ("columns", &["up to 32", "up to 1024", "up to 4096", "more"]),
        ("columns divide by", &["8", "4", "2", "1"]),
        ("rows", &["1", "up to 16", "up to 128", "more"]),
    ];

    /// In every dtype, but for what would cost much: a few wide rows are more than a device of few multiprocessors has blocks for.
    #[test]
    fn every_two_choices_that_kernels_make_meet_in_a_case() {
        let cases = listed(Effort::Standard, &["float64", "bfloat16"]);
        for dtype in EACH {
            let of_dtype = cases.iter().filter(|case| case.dtype == *dtype);
            let chosen = of_dtype.map(|case| {
                let (columns, outer) = case.shape.split_last().unwrap();
                [
                    part(*columns, &[32, 1024, 4096]),
                    3 - columns.trailing_zeros().min(3) as usize,
                    part(outer.iter().product(), &[1, 16, 128]),
                ]
            });
            let missing = pairs::missing(&CHOICES, &chosen.collect::<Vec<_>>());
            assert_eq!(missing, ["columns up to 4096, rows more", "columns more, rows more"], "{dtype}");
        }
    }

    #[test]
    fn capabilities_that_nobody_claims_are_not_tried() {
        assert!(listed(Effort::Full, &[]).iter().all(|case| case.dtype == DType::Float32));
        assert!(listed(Effort::Quick, &["bfloat16"]).iter().any(|case| case.dtype == DType::BFloat16));
    }

    #[test]
    fn shrinking_ends_and_keeps_the_point() {
        let mut case: Box<dyn Case> = Box::new(parse("edge/constant_rows/4x9x40/float32").unwrap());
        while let Some(smaller) = case.smaller().into_iter().next() {
            assert!(parse(&smaller.id()).is_some(), "{}", smaller.id());
            case = smaller;
        }
        assert_eq!(case.id(), "edge/constant_rows/1x5x2/float32");
    }
}
