//! The court is held to its own numbers: no honest variant near its budget, no mutant missed or misnamed.

use tribunal_judge::calibration::{
    Caught, HONEST_LIMIT, HonestTable, MUTANT_LIMIT, page, powerless, try_honest, try_mutants,
};
use tribunal_judge::{Challenge, Effort, Seed, challenges};

/// Seeds of honest variants unless `TRIBUNAL_SEEDS` asks for others.
const SEEDS: u64 = 2;

fn honest(challenge: &dyn Challenge) -> HonestTable {
    let asked = std::env::var("TRIBUNAL_SEEDS");
    let count = asked.map_or(SEEDS, |text| text.parse().expect("TRIBUNAL_SEEDS: a number"));
    let seeds: Vec<Seed> = (0..count).map(|index| Seed(Seed::PUBLIC.0 + index)).collect();
    try_honest(challenge, Effort::Standard, &seeds)
}

fn check_mutants(caught: &[Caught]) {
    for caught in caught {
        let Caught { mutant, suspect, .. } = caught;
        let worst = caught.failed.values().copied().fold(0.0, f64::max);
        assert!(worst >= MUTANT_LIMIT, "{mutant} is off by {worst} budgets at most");
        assert!(suspect.is_none() || !caught.named_by.is_empty(), "{mutant} is never called {suspect:?}");
        assert!(caught.misnamed.is_empty(), "{mutant} is called {:?}", caught.misnamed);
    }
}

/// Honest variants keep clear of their budgets, and mutants are named: a test for each challenge, as they take long.
macro_rules! every_challenge {
    ($($id:ident)*) => {
        $(
            #[test]
            fn $id() {
                check(challenges::find(stringify!($id)).expect("a challenge"));
            }
        )*

        #[test]
        fn no_challenge_is_left_out() {
            let known: Vec<&str> = challenges::all().iter().map(|challenge| challenge.contract().id).collect();
            assert_eq!(known, [$(stringify!($id)),*]);
        }
    };
}

every_challenge!(layer_norm_backward fused_softmax_topk kv_cache);

fn check(challenge: &dyn Challenge) {
    let honest = honest(challenge);
    assert!(honest.accusations.is_empty(), "{:?}", honest.accusations);
    for (case, used) in &honest.used {
        assert!(*used <= HONEST_LIMIT, "{case}: an honest variant used {used} of its budget");
    }
    let caught = try_mutants(challenge, Effort::Standard, Seed::PUBLIC);
    check_mutants(&caught);
    let powerless = powerless(challenge, Effort::Standard, Seed::PUBLIC, &caught);
    assert_eq!(powerless, [""; 0], "cases that no mutant fails");

    let id = challenge.contract().id;
    let path = format!("{}/../../docs/calibration/{id}.md", env!("CARGO_MANIFEST_DIR"));
    let published = std::fs::read_to_string(path).expect("the page of the challenge");
    assert_eq!(
        claims(&page(challenge, &honest, &caught, 20)),
        claims(&published),
        "run the example to write the page again"
    );
}

/// What the page says that does not hang on the last digits: who is caught, under what name, by how many cases, and where nobody would be.
fn claims(page: &str) -> Vec<Vec<&str>> {
    page.lines()
        .filter(|line| line.starts_with("| ") && matches!(line.matches('|').count(), 3 | 7))
        .map(|line| line.split(" | ").take(5).collect())
        .collect()
}
