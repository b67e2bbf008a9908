//! The reproducers are run for real, against submissions that are right and that are wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tribunal_contract::{StateId, Tensor, TensorSpec, challenges};
use tribunal_judge::{ArgumentRecord, CallRecord, Effort, Exhibit, Family};

use super::*;
use crate::samples;

const PYTHON: &str = "import numpy as np

def forward(x, gamma, beta, eps):
    rstd = 1 / np.sqrt(x.var(-1, keepdims=True) + eps, dtype=x.dtype)
    xhat = ((x - x.mean(-1, keepdims=True)) * rstd).astype(x.dtype)
    return (gamma * xhat + beta).astype(x.dtype), (xhat, rstd.astype(x.dtype), gamma)

def backward(dy, cache):
    xhat, rstd, gamma = cache
    g = dy * gamma
    dx = rstd * (g - g.mean(-1, keepdims=True) - xhat * (g * xhat).mean(-1, keepdims=True))
    return dx, (dy * xhat).sum(0), dy.sum(0)
";

const C: &str = r#"
#include "tribunal.h"
#include <math.h>
#include <stdlib.h>

typedef struct { int64_t rows, d; float *xhat, *rstd, *gamma; } cache_t;

int32_t tribunal_forward(tribunal_forward_args *a) {
    int64_t rows = a->x->shape[0], d = a->x->shape[1];
    const float *x = a->x->data, *gamma = a->gamma->data, *beta = a->beta->data;
    float *y = a->y->data;
    cache_t *c = malloc(sizeof *c);
    *c = (cache_t){rows, d, malloc(4 * rows * d), malloc(4 * rows), malloc(4 * d)};
    for (int64_t j = 0; j < d; j++) c->gamma[j] = gamma[j];
    for (int64_t i = 0; i < rows; i++) {
        double mean = 0, var = 0;
        for (int64_t j = 0; j < d; j++) mean += x[i * d + j] / d;
        for (int64_t j = 0; j < d; j++) var += (x[i * d + j] - mean) * (x[i * d + j] - mean) / d;
        c->rstd[i] = 1 / sqrt(var + a->eps);
        for (int64_t j = 0; j < d; j++) {
            c->xhat[i * d + j] = (x[i * d + j] - mean) * c->rstd[i];
            y[i * d + j] = gamma[j] * c->xhat[i * d + j] + beta[j];
        }
    }
    a->cache = c;
    return 0;
}

int32_t tribunal_backward(tribunal_backward_args *a) {
    cache_t *c = a->cache;
    const float *dy = a->dy->data;
    float *dx = a->dx->data, *dgamma = a->dgamma->data, *dbeta = a->dbeta->data;
    for (int64_t j = 0; j < c->d; j++) dgamma[j] = dbeta[j] = 0;
    for (int64_t i = 0; i < c->rows; i++) {
        const float *xhat = c->xhat + i * c->d, *row = dy + i * c->d;
        double mg = 0, mgx = 0;
        for (int64_t j = 0; j < c->d; j++) {
            mg += row[j] * c->gamma[j] / c->d;
            mgx += row[j] * c->gamma[j] * xhat[j] / c->d;
            dgamma[j] += row[j] * xhat[j];
            dbeta[j] += row[j];
        }
        for (int64_t j = 0; j < c->d; j++)
            dx[i * c->d + j] = c->rstd[i] * (row[j] * c->gamma[j] - mg - xhat[j] * mgx);
    }
    return 0;
}

void tribunal_release(void *state) { free(state); }
"#;

/// A forward and a backward call, with what they should give.
fn record(rows: usize, d: usize) -> Record {
    let (n, eps) = (rows * d, 1e-5);
    let wave = |n: usize, step: f64| -> Vec<f64> {
        (0..n).map(|i| f64::from((f64::sin(i as f64 * step) * 2.0) as f32)).collect()
    };
    let (x, gamma, beta, dy) = (wave(n, 0.7), wave(d, 1.3), wave(d, 0.9), wave(n, 0.31));
    let [mut y, mut dx] = [vec![0.0; n], vec![0.0; n]];
    let [mut dgamma, mut dbeta] = [vec![0.0; d], vec![0.0; d]];
    for r in 0..rows {
        let of = |a: &[f64]| a[r * d..][..d].to_vec();
        let mean = |a: &[f64]| a.iter().sum::<f64>() / d as f64;
        let (row, up) = (of(&x), of(&dy));
        let m = mean(&row);
        let rstd = 1.0 / (mean(&row.iter().map(|v| (v - m).powi(2)).collect::<Vec<_>>()) + eps).sqrt();
        let xhat: Vec<_> = row.iter().map(|v| (v - m) * rstd).collect();
        let g: Vec<_> = (0..d).map(|j| up[j] * gamma[j]).collect();
        let gx = mean(&(0..d).map(|j| g[j] * xhat[j]).collect::<Vec<_>>());
        for j in 0..d {
            y[r * d + j] = gamma[j] * xhat[j] + beta[j];
            dx[r * d + j] = rstd * (g[j] - mean(&g) - xhat[j] * gx);
            dgamma[j] += up[j] * xhat[j];
            dbeta[j] += up[j];
        }
    }
    let f32s = |shape: &[usize], values: &[f64]| Tensor::from_f64(DType::Float32, shape, values);
    let input = |shape: &[usize], values: &[f64]| ArgumentRecord::Tensor(f32s(shape, values));
    let mut exhibits = Vec::new();
    for (call, name, shape, values) in [
        (0, "y", vec![rows, d], &y),
        (1, "dx", vec![rows, d], &dx),
        (1, "dgamma", vec![d], &dgamma),
        (1, "dbeta", vec![d], &dbeta),
    ] {
        let mut show = |role, values: &[f64]| {
            let tensor = Tensor::from_f64(DType::Float64, shape.clone(), values);
            exhibits.push(Exhibit { call, role, name: name.to_owned(), tensor });
        };
        show("expected", values);
        show("budget", &vec![1e-3; values.len()]);
    }
    let spec = |shape: &[usize]| TensorSpec::new(DType::Float32, shape);
    let (rows_d, only_d) = ([rows, d], [d]);
    Record {
        calls: vec![
            CallRecord {
                operation: "forward",
                inputs: vec![
                    input(&rows_d, &x),
                    input(&only_d, &gamma),
                    input(&only_d, &beta),
                    ArgumentRecord::Real(eps),
                ],
                outputs: vec![spec(&rows_d)],
                makes: Some(StateId(1)),
                answer: Ok(vec![f32s(&rows_d, &y)]),
            },
            CallRecord {
                operation: "backward",
                inputs: vec![input(&rows_d, &dy), ArgumentRecord::State(StateId(1))],
                outputs: vec![spec(&rows_d), spec(&only_d), spec(&only_d)],
                makes: None,
                answer: Ok(vec![f32s(&rows_d, &dx), f32s(&only_d, &dgamma), f32s(&only_d, &dbeta)]),
            },
        ],
        exhibits,
    }
}

struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// A submission of one file.
    fn new(entry: &str, source: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("it's a \"folder\" ").tempdir().unwrap();
        std::fs::write(folder.path().join(entry), source).unwrap();
        Self { folder }
    }

    fn written(&self, language: Language, entry: &str, record: &Record) -> (PathBuf, Written) {
        let mut finding = samples::finding("batch/gamma_random/2x8/float32:dx_within_budget", Family::Batch);
        finding.message = "*/ rows are mixed \\ \n#include </etc/passwd>\u{202e} \\".to_owned();
        let judge = JudgeInfo {
            version: "0.1.0".to_owned(),
            seed: "7".to_owned(),
            effort: Effort::Quick,
            measured: true,
            rubric: String::new(),
        };
        let into = self.folder.path().join("replay");
        let replay = Replay {
            challenge: challenges::find("layer_norm_backward").unwrap(),
            language,
            entry: Path::new(entry),
            folder: self.folder.path(),
            name: "bob \\",
            judge: &judge,
            finding: &finding,
            record,
        };
        let written = write(&into, &replay).unwrap();
        (into, written)
    }

    fn run(&self, language: Language, entry: &str, record: &Record, python: Option<&Path>) -> (i32, String) {
        let (into, written) = self.written(language, entry, record);
        let mut command = written.command.unwrap();
        if let Some(python) = python {
            command = command.replace("python3", python.to_str().unwrap());
        }
        let Output { status, stdout, stderr } =
            Command::new("sh").arg("-c").arg(command).current_dir(into).output().unwrap();
        let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        (status.code().unwrap_or(-1), said)
    }
}

/// Says so even where the output of passing tests is kept back.
fn skipped(why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// A Python with numpy: the one at hand, or one in an environment made for these tests.
fn python_with_numpy() -> Option<PathBuf> {
    let works = |python: &Path| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|output| output.status.success())
    };
    let given = std::env::var_os("TRIBUNAL_PYTHON").map(PathBuf::from).unwrap_or_else(|| "python3".into());
    if works(&given) {
        return Some(given);
    }
    static MADE: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let made = MADE.get_or_init(|| {
        let venv = std::env::temp_dir().join("tribunal-board-test-venv");
        let python = venv.join("bin/python3");
        if !works(&python) {
            let made = Command::new(&given).args(["-m", "venv"]).arg(&venv).output().ok()?;
            let pip = ["-m", "pip", "install", "--quiet", "numpy"];
            made.status.success().then(|| Command::new(&python).args(pip).output())?.ok()?;
        }
        works(&python).then_some(python)
    });
    if made.is_none() {
        skipped("no Python with numpy here, and none could be made (TRIBUNAL_PYTHON names one)");
    }
    made.clone()
}

#[test]
fn the_python_reproducer_tells_right_from_wrong() {
    let Some(python) = python_with_numpy() else { return };
    let run = |source: &str, record: &Record| {
        Scene::new("submission.py", source).run(Language::Python, "submission.py", record, Some(&python))
    };
    let record = record(3, 8);
    let (code, said) = run(PYTHON, &record);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("call 2, dx: max error 0.0") && said.ends_with("not reproduced\n"), "{said}");

    let (code, said) = run(&PYTHON.replace("g.mean(-1, keepdims=True)", "g.mean()"), &record);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("call 2, dx: over its budget") && said.ends_with("REPRODUCED\n"), "{said}");

    let (code, said) = run(&PYTHON.replace("    g = dy * gamma", "    dy *= 1.5; g = dy * gamma"), &record);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("call 2, backward: wrote to its input dy"), "{said}");

    let (code, said) = run(&PYTHON.replace("    g = dy * gamma", "    raise ValueError('no')"), &record);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("ValueError: no") && said.contains("call 2, backward: refused"), "{said}");

    let (code, said) = run(&PYTHON.replace("dy.sum(0)", "dy.sum(0).astype('f8')"), &record);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("call 2, dbeta: expected float32(8,), got float64(8,)"), "{said}");
}

#[test]
fn numpy_reads_what_is_written() {
    let Some(python) = python_with_numpy() else { return };
    let folder = tempfile::tempdir().unwrap();
    for dtype in DType::ALL {
        for shape in [vec![], vec![3], vec![2, 0], vec![2, 1, 3]] {
            let values: Vec<f64> = (0..shape.iter().product()).map(|i: usize| i as f64 - 2.0).collect();
            let path = folder.path().join("array.npy");
            std::fs::write(&path, npy::npy(&Tensor::from_f64(dtype, shape.clone(), &values))).unwrap();
            let program = "import sys, numpy as np; a = np.load(sys.argv[1]); \
                           print(a.dtype, list(a.shape), a.astype(float).ravel().tolist(), a.flags.c_contiguous)";
            let output = Command::new(&python).args(["-c", program]).arg(&path).output().unwrap();
            let read_as = if dtype == DType::BFloat16 { DType::Float32 } else { dtype };
            let expected = format!("{read_as} {shape:?} {values:?} True\n");
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{dtype}");
        }
    }
}

#[test]
fn without_an_oracle_the_same_answer_counts_as_seen_again() {
    let Some(python) = python_with_numpy() else { return };
    let mut record = record(2, 4);
    record.exhibits.clear();
    let constant = "import numpy as np
def forward(x, gamma, beta, eps): return np.ones_like(x), None
def backward(dy, cache): return np.ones_like(dy), np.ones(4, 'f4'), np.ones(4, 'f4')
";
    let run = |record: &Record| {
        Scene::new("submission.py", constant).run(Language::Python, "submission.py", record, Some(&python)).0
    };
    assert_eq!(run(&record), 0, "other answers than those that were judged");
    for call in &mut record.calls {
        let ones =
            |spec: &TensorSpec| Tensor::from_f64(spec.dtype, spec.shape.clone(), &vec![1.0; spec.len()]);
        call.answer = Ok(call.outputs.iter().map(ones).collect());
    }
    assert_eq!(run(&record), 1, "the same");
}

#[test]
fn the_c_reproducer_tells_right_from_wrong() {
    if Command::new("cc").arg("--version").output().is_err() {
        skipped("no cc here");
        return;
    }
    // Once with the arrays in the source, once read from files.
    for record in [record(3, 8), record(40, 64)] {
        let run = |source: &str| Scene::new("kernel.c", source).run(Language::C, "kernel.c", &record, None);
        let (code, said) = run(C);
        assert_eq!(code, 0, "{said}");
        assert!(
            said.contains("call 2, backward, dx: max error ") && said.ends_with("not reproduced\n"),
            "{said}"
        );

        let (code, said) = run(&C.replace("- mg -", "-"));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("over its budget"), "{said}");

        let (code, said) = run(&C.replace("a->cache = c;", "a->cache = c; ((float *)a->beta->data)[0] = 7;"));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("call 1, forward: wrote to its input beta"), "{said}");

        let kept = C
            .replace("for (int64_t j = 0; j < d; j++) c->gamma[j] = gamma[j];", "c->gamma = (float *)gamma;");
        assert_eq!(run(&kept).0, 1, "inputs are gone after a call that does not say it keeps them");
        let (code, said) = run(&kept.replace("a->cache = c;", "a->cache = c; a->keeps_inputs = 1;"));
        assert_eq!(code, 0, "{said}");

        let (code, said) = run(&C.replace(
            "cache_t *c = a->cache;",
            "a->message[0] = 'X'; a->message[1] = 0; return 1; cache_t *c = a->cache;",
        ));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("call 2, backward: refused: X"), "{said}");
    }
}

#[test]
fn a_cargo_project_is_reproduced_through_its_c_abi() {
    let toml = "[package]\nname = \"odd-name\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[lib]\ncrate-type = [\"cdylib\"]\n[workspace]\n";
    let contract = emit::rust_contract(challenges::find("layer_norm_backward").unwrap());
    let library = "mod contract;\nuse contract::*;\n\
        #[no_mangle] pub unsafe extern \"C\" fn tribunal_forward(a: *mut ForwardArgs) -> i32 { \
        (*(*a).y).elements_mut::<f32>().fill(1.0); 0 }\n\
        #[no_mangle] pub unsafe extern \"C\" fn tribunal_backward(a: *mut BackwardArgs) -> i32 { \
        refuse((*a).message, \"not today\") }\n";
    let scene = Scene::new("Cargo.toml", toml);
    std::fs::create_dir(scene.folder.path().join("src")).unwrap();
    std::fs::write(scene.folder.path().join("src/contract.rs"), contract).unwrap();
    std::fs::write(scene.folder.path().join("src/lib.rs"), library).unwrap();
    let (code, said) = scene.run(Language::Rust, "Cargo.toml", &record(2, 4), None);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("call 1, forward, y: max error") && said.contains("refused: not today"), "{said}");
}

#[test]
fn the_folder_explains_itself() {
    let scene = Scene::new("submission.py", PYTHON);
    let mut record = record(2, 4);
    let bf16 = Tensor::from_f64(DType::BFloat16, [2, 4], &[0.5; 8]);
    record.calls[1].inputs[0] = ArgumentRecord::Tensor(bf16);
    let (into, written) = scene.written(Language::Python, "submission.py", &record);
    let names: Vec<_> =
        written.files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names[..3], ["1_forward_actual_y.npy", "1_forward_budget_y.npy", "1_forward_expected_y.npy"]);
    assert_eq!(names.len(), 4 + 4 * 3 + 2, "{names:?}");
    let readme = std::fs::read_to_string(into.join("README.md")).unwrap();
    assert!(readme.contains("numpy has no bfloat16"));
    assert!(readme.contains("| `2_backward_input_dy.npy` | `bfloat16(2, 4)` |"), "{readme}");
    assert!(readme.contains("\n1. `forward(x, gamma, beta, eps = "), "{readme}");
    assert!(readme.contains(" makes state 1`\n2. `backward(dy, cache = state 1)`"), "{readme}");
    assert!(!readme.contains('\u{202e}') && !readme.contains("\n#include"), "{readme}");
}

#[test]
fn a_record_that_is_not_of_the_contract_is_refused() {
    let scene = Scene::new("submission.py", PYTHON);
    let mut record = record(2, 4);
    record.calls[1].inputs.pop();
    let finding = samples::finding("a/b:c", Family::Basic);
    let judge = JudgeInfo {
        version: String::new(),
        seed: String::new(),
        effort: Effort::Quick,
        measured: true,
        rubric: String::new(),
    };
    let replay = Replay {
        challenge: challenges::find("layer_norm_backward").unwrap(),
        language: Language::Python,
        entry: Path::new("submission.py"),
        folder: scene.folder.path(),
        name: "bob",
        judge: &judge,
        finding: &finding,
        record: &record,
    };
    let error = write(&scene.folder.path().join("replay"), &replay).unwrap_err();
    assert_eq!(error.to_string(), "call 2, `backward`, is not as the contract has it");
}
