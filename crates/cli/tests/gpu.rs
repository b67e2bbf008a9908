//! Kernels in CUDA where there is a GPU: on one that is pretended, for tests run anywhere.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Tribunal, cuda_submission, house};

/// A driver with one kernel, made with these macros.
fn driver(folder: &Path, macros: &[&str]) -> PathBuf {
    let library = folder.join("libcuda.so");
    let source = house().join("crates/cli/tests/support/pretended_cuda.c");
    let made = Command::new("cc")
        .args(["-O3", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args(macros)
        .arg(source)
        .arg("-lm")
        .status();
    assert!(made.expect("a C compiler").success());
    library
}

fn judge(driver: &Path, submission: &Path) -> Value {
    let tribunal = Tribunal::new();
    let arguments = ["judge", "--effort", "quick", "--no-controls", "--json"].map(Into::into);
    let output = tribunal.run_with(
        &[("TRIBUNAL_CUDA_DRIVER", driver.as_os_str())],
        arguments.into_iter().chain([submission.as_os_str().to_owned()]),
    );
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", output.stdout, output.stderr))
}

fn softmax_on(macros: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = driver(folder.path(), macros);
    judge(&driver, &cuda_submission(folder.path(), "fused_softmax_topk", "softmax_topk.ptx"))
}

fn finding<'v>(verdict: &'v Value, id: &str) -> &'v Value {
    let findings = verdict["findings"].as_array().expect("findings");
    findings.iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("no {id} in {findings:#?}"))
}

fn time(verdict: &Value) -> &Value {
    let measurements = verdict["measurements"].as_array().expect("measurements");
    measurements.iter().find(|measurement| measurement["name"] == "time").expect("it was timed")
}

#[test]
fn kernels_are_timed_on_a_gpu() {
    let verdict = softmax_on(&[]);
    assert_eq!(verdict["outcome"], "accepted", "{verdict:#}");
    assert!(verdict["machine"]["gpu"].as_str().expect("a GPU").contains("Pretended"));
    let time = time(&verdict);
    assert_eq!(time["workload"], "64x128256k50 float32");
    assert!(time["floor"].as_f64().expect("a copy was measured") > 0.0);
    assert!(verdict["dimensions"]["performance"]["assessed"].as_bool().expect("a bool"));
    assert_eq!(finding(&verdict, "performance/clocks:agree")["outcome"], "pass");
    let checked = finding(&verdict, "performance/64x128256k50/float32:timed_results_right");
    assert_eq!(checked["outcome"], "pass");
}

#[test]
fn a_clock_that_lies_is_not_believed() {
    let (honest, lying) = (softmax_on(&[]), softmax_on(&["-DLIE"]));
    let clocks = finding(&lying, "performance/clocks:agree");
    assert_eq!(clocks["outcome"], "inconclusive", "{clocks:#}");
    // Its events say a tenth. Machines are noisy, but not by five.
    let seconds = |verdict: &Value| time(verdict)["value"].as_f64().expect("seconds");
    assert!(seconds(&lying) > seconds(&honest) / 2.0, "{} and {}", seconds(&lying), seconds(&honest));
}

#[test]
fn answers_that_are_right_only_where_nobody_times_them_are_seen() {
    let verdict = softmax_on(&["-DWRONG"]);
    let checked = finding(&verdict, "performance/64x128256k50/float32:timed_results_right");
    assert_eq!(checked["outcome"], "fail", "{checked:#}");
}

#[test]
fn kernels_that_fail_on_the_gpu_are_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = driver(folder.path(), &[]);
    let verdict = judge(&driver, &cuda_submission(folder.path(), "layer_norm_backward", "layer_norm.ptx"));
    let failed = finding(&verdict, "performance/4096x2048/float32:measured");
    assert_eq!(failed["outcome"], "fail", "{failed:#}");
    assert!(
        failed["message"].as_str().expect("a message").contains("CUDA_ERROR_LAUNCH_FAILED"),
        "{failed:#}"
    );
}

#[test]
fn a_gpu_that_is_too_small_is_told() {
    let verdict = softmax_on(&["-DGIBIBYTES=0"]);
    assert_eq!(verdict["outcome"], "accepted");
    let omissions = verdict["omissions"].to_string();
    assert!(omissions.contains("the GPU's memory is too small"), "{omissions}");
}

#[test]
fn a_driver_that_does_not_work_costs_nobody_a_point() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = folder.path().join("libcuda.so");
    fs::write(&driver, "no library").expect("room");
    let verdict = judge(&driver, &cuda_submission(folder.path(), "fused_softmax_topk", "softmax_topk.ptx"));
    assert_eq!(verdict["outcome"], "accepted");
    assert!(!verdict["dimensions"]["performance"]["assessed"].as_bool().expect("a bool"));
    let omissions = verdict["omissions"].to_string();
    assert!(omissions.contains("the GPU cannot be used"), "{omissions}");
}
