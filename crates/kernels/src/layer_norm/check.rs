//! Checks [`backward`] against finite differences of [`forward`], in f64, at the caller's inputs.

use super::{
    BackwardInputs, BackwardOptions, BackwardOutputs, ForwardInputs, ForwardOptions, ForwardOutputs,
    LayerNormError, Shape, backward, forward,
};
use crate::gradient_check::{self, CheckOptions, GradientError, Report};

/// Where the gradients are checked.
#[derive(Clone, Copy, Debug)]
pub struct CheckInputs<'a> {
    /// `[rows, cols]`
    pub x: &'a [f64],
    /// `[cols]`
    pub gamma: &'a [f64],
    /// `[cols]`
    pub beta: &'a [f64],
    /// `[rows, cols]`: the gradient of the loss with respect to `y`.
    pub dy: &'a [f64],
}

/// How far each gradient is from finite differences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reports {
    /// Of `x`.
    pub dx: Report,
    /// Of `gamma`.
    pub dgamma: Report,
    /// Of `beta`.
    pub dbeta: Report,
}

/// Why the gradients were not accepted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CheckError {
    /// A pass was refused.
    #[error(transparent)]
    LayerNorm(#[from] LayerNormError),
    /// A gradient is wrong.
    #[error("check {of}: failed to {source}")]
    Gradient {
        /// `dx`, `dgamma` or `dbeta`.
        of: &'static str,
        /// How.
        source: GradientError,
    },
}

/// Runs both passes as `layer_norm` says (same `eps`, same instruction set), and compares all three gradients with finite
/// differences as `options` says. Nothing of the caller's is written to.
///
/// # Errors
/// [`CheckError`] if a pass is refused or a gradient is off by more than the tolerance.
pub fn check(
    shape: Shape,
    inputs: CheckInputs<'_>,
    layer_norm: &ForwardOptions,
    options: &CheckOptions,
) -> Result<Reports, CheckError> {
    let CheckInputs { x, gamma, beta, dy } = inputs;
    let ForwardOptions { isa, stores, .. } = *layer_norm;
    let run = |x: &[f64], gamma: &[f64], beta: &[f64], y: &mut [f64], mean: &mut [f64], rstd: &mut [f64]| {
        forward(shape, ForwardInputs { x, gamma, beta }, ForwardOutputs { y, mean, rstd }, layer_norm)
    };
    let (mut y, mut mean, mut rstd) = (vec![0.0; x.len()], vec![0.0; shape.rows], vec![0.0; shape.rows]);
    run(x, gamma, beta, &mut y, &mut mean, &mut rstd)?;
    let (mut dx, mut dgamma, mut dbeta) =
        (vec![0.0; x.len()], vec![0.0; gamma.len()], vec![0.0; gamma.len()]);
    let outputs = BackwardOutputs { dx: &mut dx, dgamma: &mut dgamma, dbeta: &mut dbeta };
    let saved = BackwardInputs { dy, x, mean: &mean, rstd: &rstd, gamma };
    backward(shape, saved, outputs, &BackwardOptions { isa, stores })?;

    let statistics = std::cell::RefCell::new((mean, rstd));
    let value = |x: &[f64], gamma: &[f64], beta: &[f64], y: &mut [f64]| {
        let (mean, rstd) = &mut *statistics.borrow_mut();
        run(x, gamma, beta, y, mean, rstd).expect("the same lengths and options have just been accepted");
    };
    let named = |of| move |source| CheckError::Gradient { of, source };
    Ok(Reports {
        dx: gradient_check::check(|x, y| value(x, gamma, beta, y), x, dy, &dx, options)
            .map_err(named("dx"))?,
        dgamma: gradient_check::check(|gamma, y| value(x, gamma, beta, y), gamma, dy, &dgamma, options)
            .map_err(named("dgamma"))?,
        dbeta: gradient_check::check(|beta, y| value(x, gamma, beta, y), beta, dy, &dbeta, options)
            .map_err(named("dbeta"))?,
    })
}
