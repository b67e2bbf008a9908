//! Answers and rubrics from who wants the court to fail: no bytes in an output bring it down, and none that mean nothing are taken for right.

use std::path::Path;
use std::sync::OnceLock;

use proptest::prelude::*;
use proptest::sample::{Index, select};
use tribunal_contract::{Answer, Call, StateId, Tensor};
use tribunal_hostile::text;
use tribunal_judge::{Case, Court, Effort, Outcome, Plan, Rubric, Seed, Subject, Verdict, challenges};
use tribunal_runner::Trouble;

/// Answers every call with the same few bytes, over and over.
struct Liar {
    bytes: Vec<u8>,
    inputs_changed: Vec<usize>,
}

impl Subject for Liar {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let filled = call.outputs.iter().map(|spec| {
            let bytes = self.bytes.iter().copied().cycle().take(spec.size_bytes()).collect();
            Tensor::from_bytes(spec.clone(), bytes)
        });
        Ok(Answer {
            outputs: filled.collect(),
            wall_s: 1e-6,
            cpu_s: 0.0,
            inputs_changed: self.inputs_changed.clone(),
            wrote_outside: false,
            disturbed: Vec::new(),
            changed_late: false,
        })
    }

    fn release(&mut self, _: StateId) -> Result<(), Trouble> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

/// The ends of every type that an output may have, and noise.
fn filling() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        f64::NAN.to_ne_bytes(),
        f64::INFINITY.to_ne_bytes(),
        f64::NEG_INFINITY.to_ne_bytes(),
        f64::MAX.to_ne_bytes(),
        i64::MIN.to_ne_bytes(),
        i64::MAX.to_ne_bytes(),
        (-1_i64).to_ne_bytes(),
        (1_i64 << 32).to_ne_bytes(),
        0x7fc0_0000_7fc0_0000_u64.to_ne_bytes(),
        0xff80_0000_7f80_0000_u64.to_ne_bytes(),
        0x7fff_7e00_fc00_0001_u64.to_ne_bytes(),
        0x0000_0001_8000_0000_u64.to_ne_bytes(),
    ];
    prop_oneof![
        2 => proptest::collection::vec(select(words), 1..4).prop_map(|words| words.concat()),
        1 => proptest::collection::vec(any::<u8>(), 1..100),
    ]
}

/// Some verdicts, honest and not.
fn verdicts() -> &'static [Verdict] {
    static VERDICTS: OnceLock<Vec<Verdict>> = OnceLock::new();
    VERDICTS.get_or_init(|| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../serve/tests/verdicts");
        let files = std::fs::read_dir(folder).expect("verdicts to try with").flatten().take(3);
        let read = |path: &Path| -> Verdict {
            let text = std::fs::read_to_string(path).expect("text");
            let bundle: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            serde_json::from_value(bundle["verdict"].clone()).expect("a verdict")
        };
        files.map(|file| read(&file.path())).collect()
    })
}

fn cases() -> Vec<Box<dyn Case>> {
    let plan = |challenge: &dyn tribunal_judge::Challenge| Plan {
        seed: Seed::PUBLIC,
        effort: Effort::Quick,
        capabilities: challenge.contract().capabilities.iter().map(|one| one.name).collect(),
        launches: false,
    };
    challenges::all().iter().flat_map(|challenge| challenge.cases(&plan(*challenge))).collect()
}

proptest! {
    #![proptest_config(tribunal_hostile::cases(192))]

    #[test]
    fn no_answer_brings_the_court_down(
        case in any::<Index>(),
        bytes in filling(),
        changed in any::<bool>(),
    ) {
        let cases = cases();
        let case = &cases[case.index(cases.len())];
        let mut liar = Liar { bytes, inputs_changed: if changed { vec![0] } else { vec![] } };
        let mut court = Court::new(&mut liar, Seed::PUBLIC);
        let observations = case.examine(&mut court).expect("the machine did nothing wrong");
        prop_assert!(!observations.is_empty(), "{}: nothing was looked at", case.id());
        for observation in &observations {
            prop_assert!(observation.outcome != Outcome::Infrastructure, "{}: {observation:?}", case.id());
            prop_assert!(!observation.used.is_some_and(f64::is_nan), "{}: {observation:?}", case.id());
        }
    }

    #[test]
    fn a_rubric_is_taken_or_refused(rubric in (0..challenges::all().len()).prop_flat_map(|at| text(challenges::all()[at].rubric()))) {
        let Ok(rubric) = Rubric::parse(&rubric) else { return Ok(()) };
        for verdict in verdicts() {
            let ruled = Verdict::new(verdict.evidence(), &rubric);
            prop_assert!(ruled.score.is_none_or(|score| (0.0..=100.0).contains(&score)), "{:?}", ruled.score);
            let scores = ruled.dimensions.values().filter_map(|dimension| dimension.score);
            prop_assert!(scores.into_iter().all(|score| (0.0..=100.0).contains(&score)), "{:?}", ruled.dimensions);
            prop_assert_eq!(ruled.check(Some(&rubric)), Ok(()));
        }
    }
}

/// Every case of every challenge sees that the same bytes everywhere are no answer: no one filling passes them all.
#[test]
fn no_filling_passes() {
    let fillings: [Vec<u8>; 4] =
        [vec![0], f64::NAN.to_ne_bytes().to_vec(), vec![0xf0], 1_i64.to_ne_bytes().to_vec()];
    for challenge in challenges::all() {
        let plan = Plan { seed: Seed::PUBLIC, effort: Effort::Quick, capabilities: vec![], launches: false };
        let cases = challenge.cases(&plan);
        for bytes in &fillings {
            let fails = cases.iter().any(|case| {
                let mut liar = Liar { bytes: bytes.clone(), inputs_changed: vec![] };
                let mut court = Court::new(&mut liar, Seed::PUBLIC);
                let seen = case.examine(&mut court).expect("the machine did nothing wrong");
                seen.iter().any(|observation| observation.outcome == Outcome::Fail)
            });
            assert!(fails, "{}: {bytes:?} everywhere is taken for an answer", challenge.contract().id);
        }
    }
}
