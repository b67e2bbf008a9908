//! Small submissions, and how to run them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tribunal_contract::{Answer, Argument, Call, DType, Fault, StateId, Tensor, TensorSpec};
use tribunal_runner::cage::Cage;
use tribunal_runner::{MachineError, Session, SessionLimits, Submission, Trouble, Workshop};

/// A submission in a folder that goes away with it.
pub(crate) struct Toy {
    pub(crate) folder: TempDir,
}

pub(crate) fn toy(language: &str, entry: &str, files: &[(&str, &str)]) -> Toy {
    toy_that_says(language, entry, "", files)
}

/// A toy whose manifest ends with `more`.
pub(crate) fn toy_that_says(language: &str, entry: &str, more: &str, files: &[(&str, &str)]) -> Toy {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let manifest = format!(
        "name = \"toy\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"{language}\"\nentry = \"{entry}\"\n{more}"
    );
    for (path, text) in files.iter().copied().chain([("tribunal.toml", manifest.as_str())]) {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Toy { folder }
}

/// A Python submission whose `forward` is `body`, and which returns the right answer for zeros unless that returns.
pub(crate) fn python(body: &str) -> Toy {
    let body = body.replace('\n', "\n    ");
    let text = format!(
        "import os, sys, time, threading\nimport numpy as np\n\ndef forward(x, gamma, beta, eps):\n    {body}\n    \
         return np.zeros_like(x), None\n\ndef backward(dy, cache):\n    return np.zeros_like(dy), cache[0], cache[1]\n"
    );
    python_module(&text)
}

pub(crate) fn python_module(text: &str) -> Toy {
    toy("python", "submission.py", &[("submission.py", text)])
}

/// A C submission whose `forward` is `body`.
pub(crate) fn c(body: &str) -> Toy {
    c_source(&format!(
        "#include \"tribunal.h\"\n#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
         #include <unistd.h>\n#include <signal.h>\n\
         int32_t tribunal_forward(tribunal_forward_args *args) {{\n{body}\nreturn 0;\n}}\n\
         int32_t tribunal_backward(tribunal_backward_args *args) {{ return 1; }}\n"
    ))
}

pub(crate) fn c_source(source: &str) -> Toy {
    let header = tribunal_contract::emit::c_header(&tribunal_contract::challenges::LAYER_NORM_BACKWARD);
    toy("c", "submission.c", &[("submission.c", source), ("tribunal.h", &header)])
}

pub(crate) fn cage() -> Cage {
    Cage { launcher: env!("CARGO_BIN_EXE_tribunal-launcher").into(), ..Cage::default() }
}

pub(crate) fn workshop() -> Workshop {
    Workshop { cage: cage(), cache: Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"), python: None }
}

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Says that a test cannot run here, past the harness, which keeps what a passing test prints to itself.
pub(crate) fn skip(why: &dyn std::fmt::Display) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let _ = writeln!(std::io::stderr(), "skipped ({count} so far): {why}");
}

/// Starts a session, or gives `None`, counted and printed, where a tool is missing on this machine.
pub(crate) fn try_start(toy: &Toy, limits: SessionLimits) -> Option<Result<Session, Trouble>> {
    let submission = Submission::open(toy.folder.path()).unwrap();
    let started = workshop()
        .make(&submission, &|line| drop(writeln!(std::io::stderr(), "{line}")))
        .and_then(|artefact| Session::start(&cage(), &submission, &artefact, limits));
    match started {
        Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
            skip(&missing);
            None
        }
        Err(Trouble::Machine(error)) => panic!("{error}"),
        other => Some(other),
    }
}

pub(crate) fn limits() -> SessionLimits {
    SessionLimits { call_s: 5.0, ..SessionLimits::default() }
}

pub(crate) fn start(toy: &Toy) -> Option<Session> {
    try_start(toy, limits()).map(|started| started.unwrap_or_else(|trouble| panic!("{trouble}")))
}

/// Starts a submission and calls `forward` once.
pub(crate) fn outcome_of(toy: &Toy, limits: SessionLimits) -> Option<Result<(), Trouble>> {
    let example = Example::new(2, 3);
    let started = try_start(toy, limits)?;
    Some(started.and_then(|mut session| forward(&mut session, &example, StateId(0)).map(drop)))
}

/// The fault that comes of it.
pub(crate) fn fault_of(toy: &Toy, limits: SessionLimits) -> Option<Fault> {
    match outcome_of(toy, limits)? {
        Err(Trouble::Fault(fault)) => Some(fault),
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// Inputs of a forward pass.
pub(crate) struct Example {
    pub(crate) x: Tensor,
    pub(crate) gamma: Tensor,
    pub(crate) beta: Tensor,
}

impl Example {
    /// Numbers of no meaning, different for each size.
    pub(crate) fn new(rows: usize, cols: usize) -> Self {
        let wave = |n: usize, seed: f64| -> Vec<f64> {
            (0..n).map(|i| (i as f64 * 0.7 + seed).sin() * 2.0 + seed * 0.1).collect()
        };
        Self {
            x: Tensor::from_f64(DType::Float32, [rows, cols], &wave(rows * cols, rows as f64)),
            gamma: Tensor::from_f64(DType::Float32, [cols], &wave(cols, 2.0)),
            beta: Tensor::from_f64(DType::Float32, [cols], &wave(cols, 3.0)),
        }
    }

    pub(crate) fn call(&self, makes: StateId) -> Call<'_> {
        Call {
            operation: "forward",
            inputs: vec![
                Argument::Tensor(&self.x),
                Argument::Tensor(&self.gamma),
                Argument::Tensor(&self.beta),
                Argument::Real(1e-5),
            ],
            outputs: vec![self.x.spec().clone()],
            makes: Some(makes),
        }
    }
}

pub(crate) fn forward(session: &mut Session, example: &Example, makes: StateId) -> Result<Answer, Trouble> {
    session.call(&example.call(makes))
}

pub(crate) fn backward(session: &mut Session, dy: &Tensor, cache: StateId) -> Result<Answer, Trouble> {
    let per_column = TensorSpec::new(dy.dtype(), [*dy.shape().last().unwrap()]);
    session.call(&Call {
        operation: "backward",
        inputs: vec![Argument::Tensor(dy), Argument::State(cache)],
        outputs: vec![dy.spec().clone(), per_column.clone(), per_column],
        makes: None,
    })
}

/// The definition, in doubles: y, and for `dy` the gradients dx, dgamma, dbeta.
pub(crate) fn definition(example: &Example, dy: &[f64]) -> [Vec<f64>; 4] {
    let cols = example.gamma.len();
    let (x, gamma, beta) = (example.x.to_f64(), example.gamma.to_f64(), example.beta.to_f64());
    let (mut y, mut dx) = (vec![], vec![]);
    let (mut dgamma, mut dbeta) = (vec![0.0; cols], vec![0.0; cols]);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / cols as f64;
    for (row, dy) in x.chunks(cols).zip(dy.chunks(cols)) {
        let centre = mean(row);
        let variance = mean(&row.iter().map(|v| (v - centre).powi(2)).collect::<Vec<_>>());
        let rstd = 1.0 / (variance + 1e-5).sqrt();
        let xhat: Vec<f64> = row.iter().map(|v| (v - centre) * rstd).collect();
        let g: Vec<f64> = dy.iter().zip(&gamma).map(|(d, gamma)| d * gamma).collect();
        let (mean_g, mean_gx) =
            (mean(&g), mean(&g.iter().zip(&xhat).map(|(g, x)| g * x).collect::<Vec<_>>()));
        for i in 0..cols {
            y.push(gamma[i] * xhat[i] + beta[i]);
            dx.push(rstd * (g[i] - mean_g - xhat[i] * mean_gx));
            dgamma[i] += dy[i] * xhat[i];
            dbeta[i] += dy[i];
        }
    }
    [y, dx, dgamma, dbeta]
}

pub(crate) fn assert_close(got: &Tensor, expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (index, (got, expected)) in got.to_f64().into_iter().zip(expected).enumerate() {
        assert!(
            (got - expected).abs() <= 1e-4 * (1.0 + expected.abs()),
            "{what}[{index}]: {got}, expected {expected}"
        );
    }
}

/// Forward and backward against the definition, and the marks that an honest answer bears.
pub(crate) fn check_honest(session: &mut Session, rows: usize, cols: usize, state: StateId) {
    let example = Example::new(rows, cols);
    let answer = forward(session, &example, state).unwrap();
    let dy = Tensor::from_f64(
        DType::Float32,
        [rows, cols],
        &(0..rows * cols).map(|i| (i as f64 * 1.3).cos()).collect::<Vec<_>>(),
    );
    let gradients = backward(session, &dy, state).unwrap();
    let [y, dx, dgamma, dbeta] = definition(&example, &dy.to_f64());
    assert_close(&answer.outputs[0], &y, "y");
    for ((got, expected), what) in
        gradients.outputs.iter().zip([dx, dgamma, dbeta]).zip(["dx", "dgamma", "dbeta"])
    {
        assert_close(got, &expected, what);
    }
    let answers = [answer, gradients];
    for answer in &answers {
        assert!(!answer.changed_late && !answer.wrote_outside, "{answer:?}");
        assert!(answer.inputs_changed.is_empty() && answer.disturbed.is_empty(), "{answer:?}");
        assert!(answer.wall_s > 0.0, "{answer:?}");
    }
    // On a busy machine the kernel's books may have nothing yet of a call of some microseconds, but not of both.
    assert!(answers.iter().any(|answer| answer.cpu_s > 0.0), "{answers:?}");
}

pub(crate) const HONEST_PYTHON: &str = r#"
import numpy as np

def forward(x, gamma, beta, eps):
    x64 = x.astype(np.float64)
    rstd = 1 / np.sqrt(x64.var(-1, keepdims=True) + eps)
    xhat = (x64 - x64.mean(-1, keepdims=True)) * rstd
    return (gamma * xhat + beta).astype(x.dtype), (xhat, rstd, gamma)

def backward(dy, cache):
    xhat, rstd, gamma = cache
    g = dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True))
    axes = tuple(range(dy.ndim - 1))
    return dx.astype(dy.dtype), (dy * xhat).sum(axes).astype(dy.dtype), dy.sum(axes)
"#;

/// Refers to its inputs, as the contract allows to those who say so.
pub(crate) const HONEST_C: &str = r#"
#include "tribunal.h"
#include <math.h>
#include <stdlib.h>

typedef struct { const float *x, *gamma; double eps; } cache_t;

uint32_t tribunal_abi(void) { return TRIBUNAL_ABI; }

static void moments(const float *x, int64_t n, double eps, double *mean, double *rstd) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    *mean = sum / n;
    for (int64_t i = 0; i < n; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / sqrt(squares / n + eps);
}

int32_t tribunal_forward(tribunal_forward_args *args) {
    const float *x = args->x->data, *gamma = args->gamma->data, *beta = args->beta->data;
    float *y = args->y->data;
    int64_t rows = args->x->shape[0], n = args->x->shape[1];
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double mean, rstd;
        moments(x, n, args->eps, &mean, &rstd);
        for (int64_t i = 0; i < n; i++) y[i] = gamma[i] * ((x[i] - mean) * rstd) + beta[i];
    }
    cache_t *cache = malloc(sizeof *cache);
    cache->x = args->x->data;
    cache->gamma = gamma;
    cache->eps = args->eps;
    args->cache = cache;
    args->keeps_inputs = 1;
    return 0;
}

int32_t tribunal_backward(tribunal_backward_args *args) {
    const cache_t *cache = args->cache;
    const float *x = cache->x, *dy = args->dy->data;
    float *dx = args->dx->data, *dgamma = args->dgamma->data, *dbeta = args->dbeta->data;
    int64_t rows = args->dy->shape[0], n = args->dy->shape[1];
    for (int64_t i = 0; i < n; i++) dgamma[i] = dbeta[i] = 0;
    for (int64_t r = 0; r < rows; r++, x += n, dy += n, dx += n) {
        double mean, rstd, mean_g = 0, mean_gx = 0;
        moments(x, n, cache->eps, &mean, &rstd);
        for (int64_t i = 0; i < n; i++) {
            double g = dy[i] * cache->gamma[i], xhat = (x[i] - mean) * rstd;
            mean_g += g / n;
            mean_gx += g * xhat / n;
            dgamma[i] += dy[i] * xhat;
            dbeta[i] += dy[i];
        }
        for (int64_t i = 0; i < n; i++)
            dx[i] = rstd * (dy[i] * cache->gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
    }
    return 0;
}

void tribunal_release(void *state) { free(state); }
"#;
