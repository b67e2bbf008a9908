//! The judge on trial: every specimen and every exploit must get the verdict that is written beside it.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use support::{Tribunal, house};
use tribunal_contract::challenges;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    kind: Kind,
    why: String,
    outcome: String,
    suspect: Option<String>,
    /// What an honest one is charged with all the same, because the rubric asks for more than right answers.
    #[serde(default)]
    costs: Vec<String>,
    dimension: Option<String>,
    stopped_by: Option<String>,
    /// What becomes of claims: `upheld`, `refuted` or `untestable`. Those of time are left out where a machine may decide them otherwise.
    #[serde(default)]
    claims: BTreeMap<String, String>,
}

impl Expected {
    fn of(folder: &Path) -> Self {
        let text = std::fs::read_to_string(folder.join("expected.toml")).expect("expected.toml beside it");
        toml::from_str(&text).unwrap_or_else(|error| panic!("{folder:?}: {error}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Honest,
    HonestOdd,
    Defective,
    Hostile,
}

/// Both corpora are timed, and what is timed must be alone.
static ALONE: Mutex<()> = Mutex::new(());

struct Judged {
    name: String,
    expected: Expected,
    verdict: Value,
}

impl Judged {
    /// Failures that cost something, as (dimension, suspect).
    fn failures(&self) -> Vec<(&str, Option<&str>)> {
        let findings = self.verdict["findings"].as_array().expect("a list of findings");
        findings
            .iter()
            .filter(|finding| finding["outcome"] == "fail" || finding["outcome"] == "integrity")
            .map(|finding| (finding["dimension"].as_str().expect("a dimension"), finding["suspect"].as_str()))
            .collect()
    }

    /// The suspect named most often in the dimension.
    fn main_suspect(&self, dimension: &str) -> Option<&str> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, suspect) in self.failures().into_iter().filter(|(d, _)| *d == dimension) {
            if let Some(suspect) = suspect {
                *counts.entry(suspect).or_default() += 1;
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(suspect, _)| suspect)
    }

    /// Whether it is a kernel in CUDA and this machine has no compiler for it.
    fn is_skipped(&self) -> bool {
        self.verdict["submission"]["language"] == "cuda" && self.verdict["outcome"] == "infrastructure"
    }

    /// What is wrong with the verdict.
    fn complaint(&self) -> Option<String> {
        let outcome = self.verdict["outcome"].as_str().unwrap_or("");
        if outcome != self.expected.outcome {
            return Some(format!("{outcome}, should be {}: {}", self.expected.outcome, self.first_message()));
        }
        if let Some(complaint) =
            self.expected.claims.iter().find_map(|(name, due)| self.complaint_of_claim(name, due))
        {
            return Some(complaint);
        }
        if matches!(self.expected.kind, Kind::Honest | Kind::HonestOdd) {
            let charged =
                |suspect: &Option<&str>| suspect.is_some_and(|s| self.expected.costs.iter().any(|c| c == s));
            let failures = self.failures();
            if let Some(cost) =
                self.expected.costs.iter().find(|c| !failures.iter().any(|(_, s)| *s == Some(c)))
            {
                return Some(format!("is not charged with {cost}"));
            }
            let accused: Vec<_> =
                failures.into_iter().filter(|(d, suspect)| *d != "code" && !charged(suspect)).collect();
            return (!accused.is_empty()).then(|| format!("accused: {accused:?}: {}", self.first_message()));
        }
        let dimension = self.expected.dimension.as_deref()?;
        let suspect = self.expected.suspect.as_deref().unwrap_or("");
        let found = self.main_suspect(dimension);
        // A hostile one is named by what it did to itself in the end, which need not be what it tried.
        let named = match self.expected.kind {
            Kind::Hostile => self.failures().iter().any(|(d, _)| *d == dimension),
            // What only costs can cost in more than one way.
            _ if self.expected.outcome == "accepted" => {
                self.failures().iter().any(|(d, s)| *d == dimension && *s == Some(suspect))
            }
            _ => found == Some(suspect),
        };
        (!named)
            .then(|| format!("named {found:?} in {dimension}, should be {suspect}: {}", self.first_message()))
    }

    /// What is wrong with how a claim was decided.
    fn complaint_of_claim(&self, name: &str, due: &str) -> Option<String> {
        let id = format!("claims/{name}:holds");
        let findings = self.verdict["findings"].as_array().expect("a list of findings");
        let Some(finding) = findings.iter().find(|finding| finding["id"] == id.as_str()) else {
            return Some(format!("{id} is not among the findings"));
        };
        let decided = match finding["outcome"].as_str() {
            Some("pass") => "upheld",
            Some("fail") => "refuted",
            _ => "untestable",
        };
        (decided != due).then(|| format!("{} (should be {due})", finding["message"]))
    }

    fn first_message(&self) -> String {
        let findings = self.verdict["findings"].as_array().expect("a list of findings");
        findings
            .iter()
            .find(|finding| finding["outcome"] != "pass" && finding["severity"] != "note")
            .map_or_else(String::new, |finding| finding["message"].to_string())
    }
}

fn judge(folder: &Path) -> Vec<Judged> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tribunal = Tribunal::new();
    let output = tribunal.run(
        ["judge", "--json", "--jobs", "2", "--no-controls"]
            .map(PathBuf::from)
            .iter()
            .chain([&folder.to_owned()]),
    );
    let lines: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("a verdict a line")).collect();
    let mut judged: BTreeMap<String, Judged> = BTreeMap::new();
    for verdict in lines {
        let folder = PathBuf::from(verdict["submission"]["folder"].as_str().expect("a folder"));
        let expected = Expected::of(&folder);
        let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(verdict["submission"]["name"], name.as_str(), "the manifest's name is the folder's");
        assert!(!expected.why.is_empty());
        assert_eq!(expected.kind == Kind::Hostile, expected.stopped_by.is_some(), "{name}");
        judged.insert(name.clone(), Judged { name, expected, verdict });
    }
    let folders =
        std::fs::read_dir(folder).expect("the corpus").flatten().filter(|e| e.path().is_dir()).count();
    assert_eq!(judged.len(), folders, "every folder got a verdict; said: {}", output.stderr);
    judged.into_values().collect()
}

fn require(judged: &[Judged], least: &[(Kind, usize)]) {
    let skipped: Vec<&str> =
        judged.iter().filter(|one| one.is_skipped()).map(|one| one.name.as_str()).collect();
    if !skipped.is_empty() {
        println!(
            "{} specimens skipped, for there is no compiler for CUDA: {}",
            skipped.len(),
            skipped.join(", ")
        );
    }
    let complaints: Vec<String> = judged
        .iter()
        .filter(|judged| !judged.is_skipped())
        .filter_map(|judged| Some(format!("{}: {}", judged.name, judged.complaint()?)))
        .collect();
    assert!(complaints.is_empty(), "{} wrong verdicts:\n{}", complaints.len(), complaints.join("\n"));
    for &(kind, least) in least {
        let count = judged.iter().filter(|judged| judged.expected.kind == kind).count();
        assert!(count >= least, "{count} of kind {kind:?}, at least {least} are wanted");
    }
}

#[test]
fn every_layer_norm_gets_its_verdict() {
    every_specimen_gets_its_verdict("layer_norm_backward", [5, 8, 22]);
}

#[test]
fn every_softmax_topk_gets_its_verdict() {
    every_specimen_gets_its_verdict("fused_softmax_topk", [5, 8, 22]);
}

#[test]
fn every_kv_cache_gets_its_verdict() {
    every_specimen_gets_its_verdict("kv_cache", [5, 9, 25]);
}

/// There are at least so many honest, honest but odd, and defective ones.
fn every_specimen_gets_its_verdict(challenge: &str, [honest, odd, defective]: [usize; 3]) {
    let judged = judge(&house().join("specimens").join(challenge));
    require(&judged, &[(Kind::Honest, honest), (Kind::HonestOdd, odd), (Kind::Defective, defective)]);
    let schema: Value =
        serde_json::from_str(&Tribunal::new().run(["schema", "verdict"]).stdout).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    for judged in &judged {
        assert!(
            validator.is_valid(&judged.verdict),
            "{}: the verdict does not keep to the schema",
            judged.name
        );
    }
}

#[test]
fn every_exploit_is_contained() {
    let judged = judge(&house().join("exploits"));
    require(&judged, &[(Kind::Hostile, 62)]);
    for Judged { name, expected, verdict } in &judged {
        if expected.outcome == "disqualified" {
            assert_eq!(verdict["score"], 0.0, "{name}");
        }
        let noticed = verdict["dimensions"]["tests"]["score"].as_f64().unwrap_or(0.0);
        assert_eq!(noticed, 0.0, "{name}: its tests test nothing");
    }
}

/// The page says what meets each known way to cheat: what it names is there, and no exploit is missing.
#[test]
fn the_page_of_exploits_names_what_there_is() {
    let page = std::fs::read_to_string(house().join("exploits/README.md")).expect("the page");
    let (_, section) = page.split_once("\n## Known ways to cheat").expect("the section");
    let ways = section.lines().filter(|line| line.starts_with('|') && line.ends_with(" |"));
    let numbers: Vec<usize> = ways.filter_map(|line| line.split('|').nth(1)?.trim().parse().ok()).collect();
    assert_eq!(numbers, (1..=92).collect::<Vec<_>>());

    let named: BTreeSet<&str> = section.split('`').skip(1).step_by(2).collect();
    let homes: Vec<PathBuf> = std::fs::read_dir(house().join("specimens"))
        .expect("specimens")
        .flatten()
        .map(|entry| entry.path())
        .chain([house().join("exploits")])
        .collect();
    let is_there = |name: &str| match name.contains('/') {
        true => house().join(name).is_file(),
        false => homes.iter().any(|home| home.join(name).is_dir()),
    };
    let astray: Vec<_> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(astray.is_empty(), "exploits/README.md names what is not there: {astray:?}");

    let exploits = std::fs::read_dir(house().join("exploits")).expect("exploits").flatten();
    let exploits = exploits.filter(|entry| entry.path().is_dir());
    let unnamed: Vec<_> = exploits
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !named.contains(name.as_str()))
        .collect();
    assert!(unnamed.is_empty(), "exploits/README.md does not name {unnamed:?}");
}

/// The other tests hold every verdict to what this page says. `TRIBUNAL_UPDATE_DOCS=1` writes it anew.
#[test]
fn the_page_of_diagnoses_is_what_verdicts_are_held_to() {
    let mut page = "# What the judge finds, and what it calls it\n\n\
        Submissions with known defects, and honest ones done in ways that could be mistaken for one. `cargo test -p tribunal --test \
        corpus` judges them all and fails if a defect is missed or gets another name, or if an honest one is accused in any dimension \
        of running it; this page is written by `TRIBUNAL_UPDATE_DOCS=1 cargo test -p tribunal --test corpus the_page`. *Costs* are \
        what the rubric takes from right answers: passes too many, bytes too many.\n"
        .to_owned();
    for challenge in challenges::ALL.iter().map(|challenge| challenge.id) {
        let folder = house().join("specimens").join(challenge);
        let mut specimens: Vec<(String, Expected)> = std::fs::read_dir(&folder)
            .expect("specimens")
            .flatten()
            .filter(|entry| entry.path().is_dir())
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), Expected::of(&entry.path())))
            .collect();
        specimens.sort_by(|a, b| a.0.cmp(&b.0));
        let count = |kind| specimens.iter().filter(|(_, expected)| expected.kind == kind).count();
        let (honest, odd) = (count(Kind::Honest), count(Kind::HonestOdd));
        page += &format!(
            "\n## {challenge}\n\n{} defective: all found, all named. {honest} honest and {odd} honest but odd: none accused.\n\n",
            count(Kind::Defective)
        );
        page += "| specimen | called | in | what is wrong |\n|---|---|---|---|\n";
        for (name, expected) in specimens.iter().filter(|(_, expected)| expected.kind == Kind::Defective) {
            let suspect = expected.suspect.as_deref().expect("a name for every defect");
            let dimension = expected.dimension.as_deref().expect("a dimension for every defect");
            page += &format!("| {name} | `{suspect}` | {dimension} | {} |\n", expected.why);
        }
        page += "\n| honest but odd | costs | what is odd |\n|---|---|---|\n";
        for (name, expected) in specimens.iter().filter(|(_, expected)| expected.kind == Kind::HonestOdd) {
            page += &format!("| {name} | {} | {} |\n", expected.costs.join(", "), expected.why);
        }
    }
    let path = house().join("docs/diagnosis.md");
    if std::env::var_os("TRIBUNAL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("a page to write");
    }
    assert!(
        std::fs::read_to_string(&path).is_ok_and(|kept| kept == page),
        "docs/diagnosis.md is not what the specimens say: TRIBUNAL_UPDATE_DOCS=1 writes it"
    );
}
