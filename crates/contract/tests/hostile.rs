//! Manifests from who wants the judge to fail, and the launches that they plan.

use proptest::prelude::*;
use tribunal_contract::{Argument, Call, Claimed, DType, Manifest, Tensor, TensorSpec, challenges};
use tribunal_hostile::text;

const PYTHON: &str = "name = \"a\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"python\"\nentry = \"submission.py\"\n\
                      capabilities = [\"float64\"]\ntests = \"pytest -q\"\n[claims]\ncache_tensors = 1\n";
const CUDA: &str = include_str!("../../../specimens/fused_softmax_topk/cuda-three-pass/tribunal.toml");

/// What a manifest that was taken must hold, and what its launches must come to for any call.
fn hold(manifest: &str) -> Result<(), TestCaseError> {
    let manifest = match Manifest::parse(manifest, "folder/tribunal.toml") {
        Ok(manifest) => manifest,
        Err(error) => {
            let message = error.to_string();
            prop_assert!(message.starts_with("folder/tribunal.toml"), "the file is named: {message}");
            return Ok(());
        }
    };
    prop_assert!(!manifest.name.is_empty() && manifest.name.chars().count() <= 64);
    prop_assert!(!manifest.name.chars().any(char::is_control), "{:?}", manifest.name);
    prop_assert!(manifest.entry.is_relative());
    prop_assert!(!manifest.entry.components().any(|part| part == std::path::Component::ParentDir));
    let is_sound = |claim: &Claimed| !matches!(claim, Claimed::Number(number) if !number.is_finite());
    prop_assert!(manifest.claims.values().all(is_sound), "{:?}", manifest.claims);
    let Some(kernels) = manifest.kernels else { return Ok(()) };
    prop_assert_eq!(manifest.challenge, "fused_softmax_topk");
    let challenge = challenges::find(manifest.challenge).expect("a contract");
    for (rows, columns, k) in [(1, 1, 1), (2, 33, 7), (3, 70_000, 64)] {
        let logits = TensorSpec::new(DType::Float32, [1, rows, columns]);
        let logits = Tensor::from_bytes(logits.clone(), vec![0; logits.size_bytes()]);
        let shape = [1, rows, k];
        let call = Call {
            operation: "softmax_topk",
            inputs: vec![Argument::Tensor(&logits), Argument::Integer(k as i64)],
            outputs: vec![TensorSpec::new(DType::Float32, shape), TensorSpec::new(DType::Int64, shape)],
            makes: None,
        };
        let Ok(plan) = kernels.plan(challenge, &call, None, 132) else { continue };
        for launch in &plan.launches {
            prop_assert!(launch.grid.iter().chain(&launch.block).all(|extent| *extent > 0), "{launch:?}");
            let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
            prop_assert!(threads <= 1024, "{launch:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(tribunal_hostile::cases(512))]

    #[test]
    fn a_manifest_is_taken_or_refused(manifest in text(PYTHON)) {
        hold(&manifest)?;
    }

    #[test]
    fn launches_are_planned_or_refused(manifest in text(CUDA)) {
        hold(&manifest)?;
    }
}

#[test]
fn the_documents_that_are_changed_are_taken() {
    for manifest in [PYTHON, CUDA] {
        Manifest::parse(manifest, "tribunal.toml").unwrap();
    }
}
