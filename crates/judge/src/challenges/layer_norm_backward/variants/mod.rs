//! Implementations whose verdict is known: honest ones in several arithmetics, and mutants with one defect each.
//!
//! They calibrate the court: no honest variant may come near its budget, every mutant must be found and rightly named.
//! They share nothing with the oracle.

mod layer_norm;

use std::collections::HashMap;

use tribunal_contract::{Answer, Argument, Call, DType, Fault, StateId, Tensor};
use tribunal_runner::Trouble;

use crate::Subject;
use crate::arithmetic::Sum;
use crate::variant::{Mutant, Variant, Variants};
use layer_norm::{Cache, Inputs, backward, forward};

/// How backward goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backward {
    /// From a kept xhat.
    KeptXhat,
    /// xhat is made again from x, mean and rstd.
    Recomputed,
    /// Through the derivatives of variance and mean.
    Chain,
    /// Projected first, then centred.
    Centred,
}

/// One thing that is wrong with a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and the table of mutants says what each must be called")]
pub enum Defect {
    Zeros,
    LastElementDropped,
    GammaOutsideMeans,
    GammaOmitted,
    MeanTermMissing,
    ProjectionTermMissing,
    ProjectionTermDoubled,
    ProjectionTermSlightlyOff,
    ProjectionWithoutEps,
    OnePassVariance,
    OnePassClamped,
    UnbiasedVariance,
    EpsOutside,
    EpsDropped,
    EpsIgnored,
    EpsTenPercent,
    EpsAsFloor,
    MergeWithoutDelta,
    CacheShared,
    CacheUsedUp,
    ReductionOverFirstAxis,
    ReductionOfWrongShape,
    ReductionOverwritten,
    ReductionAveraged,
    RowsBeyond4096,
    /// Sums of 64 rows each, put together in this type: in bfloat16 of bfloat16, in float32 of float64.
    PartialsIn(DType),
    DgammaUsesX,
    RstdOfFirstRow,
    RowsMixed,
    MeansMixed,
    TailOutOfSums,
    TailUnwritten,
    /// In bfloat16 alone, and only where rows are a multiple of four long.
    TailOfFours,
    ColumnsBeyond1024,
    RunningSums,
    HalfXhat,
    HalfCache,
    HalfResults,
    Float32Inside,
    InputModified,
    RefusesOneColumn,
    RefusesTwoAxes,
    NanAtConstantRows,
    InvalidAccepted,
    WritesLate,
    WritesOutside,
}

/// An implementation in this process.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    /// What it is called in tables.
    pub name: &'static str,
    /// How it adds up.
    pub sum: Sum,
    /// Whether statistics are Welford's, in shares of so many columns that are merged.
    pub welford: Option<usize>,
    /// Whether everything happens in float64.
    pub wide: bool,
    /// How backward goes about it.
    pub backward: Backward,
    /// What is wrong with it.
    pub defect: Option<Defect>,
}

const PLAIN: LayerNorm = LayerNorm {
    name: "two passes, running sums of 1024",
    sum: Sum::Blocks,
    welford: None,
    wide: false,
    backward: Backward::KeptXhat,
    defect: None,
};

impl LayerNorm {
    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }
}

/// All of them.
pub fn all() -> Variants {
    let stand = |norm: LayerNorm| Variant::new(norm.name, move || InProcess::new(norm.clone()));
    let mutants = mutants().into_iter().map(|(norm, suspect)| Mutant { variant: stand(norm), suspect });
    Variants { honest: honest().into_iter().map(stand).collect(), mutants: mutants.collect() }
}

fn honest() -> Vec<LayerNorm> {
    let lanes = |name, count, backward| LayerNorm { name, sum: Sum::Lanes(count), backward, ..PLAIN };
    vec![
        PLAIN,
        LayerNorm { name: "pairwise", sum: Sum::Tree, ..PLAIN },
        lanes("8 lanes, fused multiply-add", 8, Backward::KeptXhat),
        lanes("16 lanes, xhat made again", 16, Backward::Recomputed),
        LayerNorm { name: "compensated", sum: Sum::Compensated, backward: Backward::Recomputed, ..PLAIN },
        LayerNorm { name: "Welford", sum: Sum::Tree, welford: Some(usize::MAX), ..PLAIN },
        LayerNorm { name: "Welford in shares of 256", sum: Sum::Tree, welford: Some(256), ..PLAIN },
        LayerNorm { name: "chain through variance and mean", backward: Backward::Chain, ..PLAIN },
        LayerNorm { name: "projected, then centred", sum: Sum::Tree, backward: Backward::Centred, ..PLAIN },
        LayerNorm { name: "float64 inside", wide: true, backward: Backward::Recomputed, ..PLAIN },
    ]
}

/// Wrong implementations, and what each must be called.
fn mutants() -> Vec<(LayerNorm, Option<&'static str>)> {
    use Defect::*;
    [
        ("zeros", Zeros, None),
        ("last element of each row dropped", LastElementDropped, Some("tail_skipped")),
        ("gamma outside both means", GammaOutsideMeans, Some("gamma_outside_means")),
        ("gamma left out of dx", GammaOmitted, Some("gamma_omitted")),
        ("mean(g) missing", MeanTermMissing, Some("mean_term_missing")),
        ("projection missing", ProjectionTermMissing, Some("projection_term_missing")),
        ("projection doubled", ProjectionTermDoubled, Some("projection_term_scaled")),
        ("projection 1 % too strong", ProjectionTermSlightlyOff, Some("projection_term_scaled")),
        ("projection on the unit vector", ProjectionWithoutEps, Some("projection_without_eps")),
        ("one-pass variance", OnePassVariance, Some("one_pass_variance")),
        ("one-pass variance, clamped", OnePassClamped, Some("one_pass_variance")),
        ("variance over D - 1", UnbiasedVariance, Some("unbiased_variance")),
        ("eps outside the root", EpsOutside, Some("eps_outside_root")),
        ("no eps", EpsDropped, Some("eps_dropped")),
        ("eps always 1e-5", EpsIgnored, Some("eps_ignored")),
        ("eps 10 % too large", EpsTenPercent, Some("eps_ignored")),
        ("eps as the least variance", EpsAsFloor, Some("eps_dropped")),
        ("Welford merged without delta²", MergeWithoutDelta, None),
        ("one cache for all forwards", CacheShared, Some("cache_shared")),
        ("cache overwritten by backward", CacheUsedUp, Some("cache_used_up")),
        ("sums over B rows only", ReductionOverFirstAxis, Some("reduction_over_one_axis")),
        ("dgamma of shape (T, D)", ReductionOfWrongShape, Some("reduction_over_one_axis")),
        ("last row's dgamma only", ReductionOverwritten, Some("reduction_overwritten")),
        ("dgamma averaged", ReductionAveraged, Some("reduction_averaged")),
        ("sums over the first 4096 rows only", RowsBeyond4096, None),
        ("sums of 64 rows put together in bfloat16", PartialsIn(DType::BFloat16), None),
        ("sums of 64 rows put together in float32", PartialsIn(DType::Float32), None),
        ("dgamma from x", DgammaUsesX, Some("dgamma_uses_x")),
        ("first row's rstd for all", RstdOfFirstRow, Some("rstd_shared_by_rows")),
        ("statistics of the whole tensor", RowsMixed, Some("rows_mixed")),
        ("mean(g) of the whole tensor", MeansMixed, Some("rows_mixed")),
        ("sums in eights, rest left out", TailOutOfSums, Some("tail_skipped")),
        ("results in eights, rest left zero", TailUnwritten, Some("tail_skipped")),
        ("fours of bfloat16 in eights, rest left zero", TailOfFours, Some("tail_skipped")),
        ("columns beyond 1024 left zero", ColumnsBeyond1024, Some("tail_skipped")),
        ("one running float32 sum", RunningSums, Some("narrow_accumulation")),
        ("xhat in float16", HalfXhat, Some("half_precision_inside")),
        ("cache in float16", HalfCache, Some("half_precision_inside")),
        ("results through float16", HalfResults, Some("half_precision_inside")),
        ("float32 for float64", Float32Inside, Some("float32_inside")),
        ("writes into dy", InputModified, Some("input_modified")),
        ("refuses D = 1", RefusesOneColumn, Some("refuses_valid_input")),
        ("refuses (rows, D)", RefusesTwoAxes, Some("refuses_valid_input")),
        ("NaN at constant rows", NanAtConstantRows, Some("nan_at_constant_rows")),
        ("takes any lengths", InvalidAccepted, Some("invalid_input_accepted")),
        ("writes after it is done", WritesLate, Some("work_after_done")),
        ("writes outside its outputs", WritesOutside, Some("writes_outside")),
    ]
    .into_iter()
    .map(|(name, defect, suspect)| {
        let sum = if defect == RunningSums { Sum::Running } else { Sum::Blocks };
        let welford = (defect == MergeWithoutDelta).then_some(256);
        (LayerNorm { name, sum, welford, defect: Some(defect), ..PLAIN }, suspect)
    })
    .collect()
}

/// A variant on trial.
pub struct InProcess {
    variant: LayerNorm,
    caches: HashMap<StateId, Cache>,
    latest: Option<StateId>,
}

impl InProcess {
    /// Puts a variant where a submission would stand.
    pub fn new(variant: LayerNorm) -> Self {
        Self { variant, caches: HashMap::new(), latest: None }
    }

    fn forward(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
        let &[Argument::Tensor(x), Argument::Tensor(gamma), Argument::Tensor(beta), Argument::Real(eps)] =
            call.inputs.as_slice()
        else {
            panic!("the court called forward with other arguments than the contract's");
        };
        let cols = *x.shape().last().expect("a shape has an axis");
        let invalid = gamma.len() != cols || beta.len() != cols;
        if invalid && !self.variant.has(Defect::InvalidAccepted) {
            return Err(refusal("gamma and beta must be as long as a row"));
        }
        if self.variant.has(Defect::RefusesOneColumn) && cols == 1 {
            return Err(refusal("a row must have more than one element"));
        }
        if self.variant.has(Defect::RefusesTwoAxes) && x.shape().len() == 2 {
            return Err(refusal("x must be (B, T, D)"));
        }
        let cut = |tensor: &Tensor| Tensor::from_f64(x.dtype(), [cols], &tensor.to_f64()[..cols]);
        let (gamma, beta) = (cut(gamma), cut(beta));
        let inputs = Inputs { x, gamma: &gamma, beta: &beta, eps };
        let (y, cache) = if self.is_wide(x.dtype()) {
            forward::<f64>(&self.variant, &inputs)
        } else {
            forward::<f32>(&self.variant, &inputs)
        };
        let state = call.makes.expect("forward makes a state");
        self.caches.insert(state, cache);
        self.latest = Some(state);
        Ok(vec![self.result(call, 0, y)])
    }

    fn backward(&mut self, call: &Call<'_>) -> Result<Vec<Tensor>, Fault> {
        let &[Argument::Tensor(dy), Argument::State(state)] = call.inputs.as_slice() else {
            panic!("the court called backward with other arguments than the contract's");
        };
        let shared = self.latest.filter(|_| self.variant.has(Defect::CacheShared));
        let cache = self.caches.get_mut(&shared.unwrap_or(state)).ok_or_else(|| refusal("no such cache"))?;
        let mut values = dy.to_f64();
        let full: usize = cache.shape.iter().product();
        if dy.shape() != cache.shape && !self.variant.has(Defect::InvalidAccepted) {
            return Err(refusal("dy must have x's shape"));
        }
        values.truncate(full);
        cache.uses += 1;
        if self.variant.has(Defect::CacheUsedUp) && cache.uses > 1 {
            values.iter_mut().for_each(|dy| *dy *= 0.5);
        }
        let (cache, dtype) = (cache.clone(), cache.dtype);
        if self.variant.has(Defect::ReductionOfWrongShape) && cache.shape.len() == 3 {
            let message = format!("dgamma should be {}, got another shape", call.outputs[1]);
            return Err(Fault::WrongResult { message });
        }
        let gradients = if self.is_wide(dtype) {
            backward::<f64>(&self.variant, &cache, &values)
        } else {
            backward::<f32>(&self.variant, &cache, &values)
        };
        Ok(gradients
            .into_iter()
            .enumerate()
            .map(|(index, values)| self.result(call, index, values))
            .collect())
    }

    fn is_wide(&self, dtype: DType) -> bool {
        self.variant.wide || dtype == DType::Float64 && !self.variant.has(Defect::Float32Inside)
    }

    /// A result as the caller gets it.
    fn result(&self, call: &Call<'_>, index: usize, mut values: Vec<f64>) -> Tensor {
        let spec = &call.outputs[index];
        let cols = *spec.shape.last().expect("a shape has an axis");
        let first_lost = match self.variant.defect {
            Some(Defect::Zeros) => 0,
            Some(Defect::LastElementDropped) => cols - 1,
            Some(Defect::TailUnwritten) => cols - cols % 8,
            Some(Defect::TailOfFours) if spec.dtype == DType::BFloat16 && cols.is_multiple_of(4) => {
                cols - cols % 8
            }
            Some(Defect::ColumnsBeyond1024) => cols.min(1024),
            _ => cols,
        };
        values.chunks_mut(cols).for_each(|row| row[first_lost..].fill(0.0));
        if self.variant.has(Defect::HalfResults) {
            values = Tensor::from_f64(DType::Float16, [values.len()], &values).to_f64();
        }
        values.resize(spec.len(), 0.0);
        Tensor::from_f64(spec.dtype, spec.shape.clone(), &values)
    }
}

fn refusal(message: &str) -> Fault {
    Fault::Refused { message: message.to_owned() }
}

impl Subject for InProcess {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let is_backward = call.operation == "backward";
        let outputs = if is_backward { self.backward(call)? } else { self.forward(call)? };
        let dirty = is_backward && self.variant.has(Defect::InputModified);
        Ok(Answer {
            outputs,
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: if dirty { vec![0] } else { Vec::new() },
            wrote_outside: self.variant.has(Defect::WritesOutside),
            disturbed: Vec::new(),
            changed_late: self.variant.has(Defect::WritesLate),
        })
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.caches.remove(&state);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.caches.clear();
        self.latest = None;
        Ok(())
    }
}
