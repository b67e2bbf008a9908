//! How well the court judges: honest implementations stay far inside their budgets, mutants are found and named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use rayon::prelude::*;

use crate::variant::{Mutant, Variant, Variants};
use crate::{Case, Challenge, Court, Effort, Memory, Observation, Outcome, Plan, Seed};

/// What a right implementation may use of its budget at most.
pub const HONEST_LIMIT: f64 = 0.5;

/// What a wrong one must be off at least, somewhere.
pub const MUTANT_LIMIT: f64 = 2.0;

/// An accusation of an honest variant.
#[derive(Debug, Clone)]
pub struct Accusation {
    /// Who was accused.
    pub variant: &'static str,
    /// In which case.
    pub case: String,
    /// Of what.
    pub message: String,
}

/// What the honest variants showed.
#[derive(Debug, Default)]
pub struct HonestTable {
    /// The largest share of its budget that any of them used, by case.
    pub used: BTreeMap<String, f64>,
    /// Findings against them; there should be none.
    pub accusations: Vec<Accusation>,
}

/// What became of one mutant.
#[derive(Debug, Clone)]
pub struct Caught {
    /// Its name.
    pub mutant: &'static str,
    /// What it should be called.
    pub suspect: Option<&'static str>,
    /// By how many budgets it was off, by case, where it failed one; infinite for failures that have no size.
    pub failed: BTreeMap<String, f64>,
    /// The cases that named it rightly, in order.
    pub named_by: Vec<String>,
    /// Failing checks that called it something else: case and name.
    pub misnamed: Vec<(String, &'static str)>,
    /// Failing checks and those of them that were named.
    pub failures: (usize, usize),
    /// Failing checks that have no name: what was said.
    pub unnamed: Vec<String>,
    /// What the first case that named it said, or the first that failed it.
    pub message: String,
}

/// Every case that is tried at that effort, with every capability.
pub fn cases(challenge: &dyn Challenge, effort: Effort, seed: Seed) -> Vec<Box<dyn Case>> {
    let capabilities = challenge.contract().capabilities.iter().map(|capability| capability.name).collect();
    challenge.cases(&Plan { seed, effort, capabilities, launches: false })
}

/// Tries the honest variants under each seed.
pub fn try_honest(challenge: &dyn Challenge, effort: Effort, seeds: &[Seed]) -> HonestTable {
    let Variants { honest, .. } = challenge.variants();
    let variants: Vec<&Variant> = honest.iter().collect();
    let mut table = HonestTable::default();
    for &seed in seeds {
        for (case, seen) in observe_all(challenge, effort, seed, &variants) {
            let most = table.used.entry(case.clone()).or_default();
            for (variant, observations) in variants.iter().zip(seen) {
                for observation in observations {
                    *most = most.max(observation.used.unwrap_or(0.0));
                    if observation.outcome != Outcome::Pass {
                        table.accusations.push(Accusation {
                            variant: variant.name,
                            case: case.clone(),
                            message: format!("{} (seed {seed}): {}", observation.check, observation.message),
                        });
                    }
                }
            }
        }
    }
    table
}

/// Tries every mutant.
pub fn try_mutants(challenge: &dyn Challenge, effort: Effort, seed: Seed) -> Vec<Caught> {
    let Variants { mutants, .. } = challenge.variants();
    let variants: Vec<&Variant> = mutants.iter().map(|mutant| &mutant.variant).collect();
    let mut all: Vec<Caught> = mutants.iter().map(Caught::nowhere).collect();
    for (case, seen) in observe_all(challenge, effort, seed, &variants) {
        for (caught, observations) in all.iter_mut().zip(seen) {
            observations.into_iter().for_each(|observation| caught.note(&case, observation));
        }
    }
    all
}

impl Caught {
    fn nowhere(mutant: &Mutant) -> Self {
        Self {
            mutant: mutant.variant.name,
            suspect: mutant.suspect,
            failed: BTreeMap::new(),
            named_by: Vec::new(),
            misnamed: Vec::new(),
            failures: (0, 0),
            unnamed: Vec::new(),
            message: String::new(),
        }
    }

    fn note(&mut self, case: &str, observation: Observation) {
        if observation.outcome == Outcome::Pass {
            return;
        }
        let off = self.failed.entry(case.to_owned()).or_default();
        *off = off.max(observation.used.unwrap_or(f64::INFINITY));
        self.failures.0 += 1;
        self.failures.1 += usize::from(observation.suspect.is_some());
        if self.message.is_empty() {
            self.message.clone_from(&observation.message);
        }
        match observation.suspect {
            Some(name) if Some(name) == self.suspect => {
                if self.named_by.is_empty() {
                    self.message.clone_from(&observation.message);
                }
                if self.named_by.last().is_none_or(|last| last != case) {
                    self.named_by.push(case.to_owned());
                }
            }
            Some(name) => self.misnamed.push((case.to_owned(), name)),
            None => self.unnamed.push(format!("{case}: {}", observation.message)),
        }
    }
}

/// Whether whoever has a defect would have failed one of these cases, as every mutant that has it does: for each mutant the first that it
/// fails. None where one fails none of them, or where no mutant has it.
pub fn exposing(
    challenge: &dyn Challenge,
    suspect: &str,
    passed: &BTreeSet<&str>,
    effort: Effort,
    seed: Seed,
) -> Option<Vec<(&'static str, String)>> {
    let mut cases = cases(challenge, effort, seed);
    cases.retain(|case| passed.contains(case.id().as_str()));
    let Variants { mutants, .. } = challenge.variants();
    let having = mutants.iter().filter(|mutant| mutant.suspect == Some(suspect));
    let exposed: Vec<_> = having
        .map(|mutant| {
            let fails = |case: &dyn Case| {
                let observed = observe(case, &mutant.variant, seed, &Memory::default());
                observed.iter().any(|observation| observation.outcome == Outcome::Fail)
            };
            let failed = cases.iter().find(|case| fails(case.as_ref()));
            failed.map(|case| (mutant.variant.name, case.id()))
        })
        .collect::<Option<_>>()?;
    (!exposed.is_empty()).then_some(exposed)
}

/// What was observed of a case, for each variant.
type Seen = Vec<Vec<Observation>>;

/// What came of each case, by its id.
fn observe_all(
    challenge: &dyn Challenge,
    effort: Effort,
    seed: Seed,
    variants: &[&Variant],
) -> Vec<(String, Seen)> {
    let of_case = |case: Box<dyn Case>| {
        let memory = Memory::default();
        let seen = variants.iter().map(|variant| observe(case.as_ref(), variant, seed, &memory)).collect();
        (case.id(), seen)
    };
    cases(challenge, effort, seed).into_par_iter().map(of_case).collect()
}

fn observe(case: &dyn Case, variant: &Variant, seed: Seed, memory: &Memory) -> Vec<Observation> {
    let mut subject = variant.stand();
    let mut court = Court::remembering(subject.as_mut(), seed, memory);
    case.examine(&mut court).expect("nothing of the machine is involved")
}

/// Cases that no mutant fails by enough: they are no evidence of anything.
pub fn powerless(challenge: &dyn Challenge, effort: Effort, seed: Seed, caught: &[Caught]) -> Vec<String> {
    let telling: BTreeSet<&String> = caught
        .iter()
        .flat_map(|caught| {
            caught.failed.iter().filter(|(_, off)| **off >= MUTANT_LIMIT).map(|(case, _)| case)
        })
        .collect();
    cases(challenge, effort, seed).iter().map(|case| case.id()).filter(|id| !telling.contains(id)).collect()
}

/// Mutants, and the [branches](Case::branches) in which their defect would not be seen if it were in that one alone: no case of it fails them by
/// enough.
pub fn unseen(
    challenge: &dyn Challenge,
    effort: Effort,
    seed: Seed,
    caught: &[Caught],
) -> BTreeMap<&'static str, Vec<String>> {
    let mut branches: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in cases(challenge, effort, seed) {
        for branch in case.branches() {
            branches.entry(branch).or_default().insert(case.id());
        }
    }
    let sees = |cases: &BTreeSet<String>, caught: &Caught| {
        caught.failed.iter().any(|(case, off)| *off >= MUTANT_LIMIT && cases.contains(case))
    };
    let unseen_of = |caught: &Caught| -> Vec<String> {
        let unseen = branches.iter().filter(|(_, cases)| !sees(cases, caught));
        unseen.map(|(branch, _)| branch.clone()).collect()
    };
    let unseen = caught.iter().map(|caught| (caught.mutant, unseen_of(caught)));
    unseen.filter(|(_, branches)| !branches.is_empty()).collect()
}

/// The published table.
pub fn page(
    challenge: &dyn Challenge,
    honest_table: &HonestTable,
    caught: &[Caught],
    seeds: usize,
) -> String {
    let mut text = format!("# Calibration: {}\n\n", challenge.contract().title.to_lowercase());
    text.push_str(
        "Written by `cargo run --release -p tribunal-judge --example calibration`; a \
         test holds it to account.\n\nErrors are in units of the error budget of their element. An honest implementation \
         must stay below 0.5, a wrong one must exceed 2 somewhere, and 1 is the limit.\n\n",
    );
    let _ = writeln!(
        text,
        "{} honest variants under {seeds} seeds, {} mutants under one. {} accusations of honest variants.\n",
        challenge.variants().honest.len(),
        caught.len(),
        honest_table.accusations.len()
    );
    text += "## Families\n\n| family | cases | most that an honest one used | mutants that fail here | \
             least of their errors |\n|---|---|---|---|---|\n";
    let mut families: Vec<&str> = Vec::new();
    for case in cases(challenge, Effort::Standard, Seed::PUBLIC) {
        if !families.contains(&case.family().name()) {
            families.push(case.family().name());
        }
    }
    for family in families {
        let of_family = |case: &str| case.split('/').next() == Some(family);
        let own: Vec<f64> =
            honest_table.used.iter().filter(|(case, _)| of_family(case)).map(|(_, used)| *used).collect();
        let worst_of = |caught: &Caught| {
            caught.failed.iter().filter(|(case, _)| of_family(case)).map(|(_, off)| *off).reduce(f64::max)
        };
        let errors: Vec<f64> = caught.iter().filter_map(worst_of).collect();
        let _ = writeln!(
            text,
            "| {family} | {} | {:.2} | {} | {} |",
            own.len(),
            own.iter().copied().fold(0.0, f64::max),
            errors.len(),
            size(errors.iter().copied().fold(f64::INFINITY, f64::min))
        );
    }
    text += "\n## Mutants\n\n| mutant | called | by how many cases | first | failing cases | largest error |\n\
             |---|---|---|---|---|---|\n";
    for caught in caught {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            caught.mutant,
            caught.suspect.map_or("(no name)".to_owned(), |name| format!("`{name}`")),
            caught.named_by.len(),
            caught.named_by.first().or(caught.failed.keys().next()).map_or("none", String::as_str),
            caught.failed.len(),
            size(caught.failed.values().copied().fold(0.0, f64::max))
        );
    }
    text += "\n## What is not seen\n\n\
             An implementation may have code of its own for a dtype, and for some sizes of it: what is wrong in one branch may be right in another. \
             A mutant whose defect were in one of these branches alone would be off by 2 budgets in no case. Of most the defect is none there, or too \
             small to be told from rounding.\n\n| mutant | in |\n|---|---|\n";
    for (mutant, branches) in unseen(challenge, Effort::Standard, Seed::PUBLIC, caught) {
        let _ = writeln!(text, "| {mutant} | {} |", branches.join("; "));
    }
    text
}

fn size(error: f64) -> String {
    match error {
        _ if error.is_infinite() => "∞".to_owned(),
        _ if error < 100.0 => format!("{error:.1}"),
        _ => format!("{error:.0e}"),
    }
}
