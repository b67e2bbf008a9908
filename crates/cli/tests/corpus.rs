//! The judge on trial: every specimen and every exploit must get the verdict that is written beside it, whatever becomes of the store.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use support::{Tribunal, house};
use tribunal_contract::challenges;

/// What the pages say of a submission.
#[derive(Debug, Deserialize)]
struct Expected {
    kind: Kind,
    why: String,
    suspect: Option<String>,
    #[serde(default)]
    costs: Vec<String>,
    dimension: Option<String>,
    stopped_by: Option<String>,
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

/// Some of each corpus are timed with care, and must be alone then.
static ALONE: Mutex<()> = Mutex::new(());

/// Every submission in a corpus gets its verdict. Returns these verdicts.
fn every_verdict_is_right(corpus: &Path, jobs: &str) -> Vec<Value> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let tribunal = Tribunal::new();
    let output = tribunal.run(
        ["doctor", "--json", "--brief", "--jobs", jobs, "--controls"]
            .map(PathBuf::from)
            .iter()
            .chain([&corpus.to_owned()]),
    );
    let told: Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", output.stdout, output.stderr));
    let submissions = told["submissions"].as_array().expect("a list of submissions");
    let of = |key: &str| -> Vec<String> {
        let with = submissions.iter().filter(|one| one[key] != Value::Null && one[key] != Value::Bool(false));
        with.map(|one| format!("{}: {}", one["name"], one[key])).collect()
    };
    let skipped = of("skipped");
    if !skipped.is_empty() {
        println!("{} specimens skipped, for there is no compiler for CUDA: {skipped:?}", skipped.len());
    }
    let wrong = of("wrong");
    assert!(wrong.is_empty(), "{} wrong verdicts:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let folders =
        std::fs::read_dir(corpus).expect("the corpus").flatten().filter(|e| e.path().is_dir()).count();
    assert_eq!(submissions.len(), folders, "every folder got a verdict; said: {}", output.stderr);
    let verdicts = submissions.iter().map(|one| {
        let id = one["verdict"].as_str().expect("an id");
        let shown = tribunal.run(["show", id, "--format", "json"]);
        let verdict: Value = serde_json::from_str(&shown.stdout).expect("a verdict that is kept");
        let folder = Path::new(verdict["submission"]["folder"].as_str().expect("a folder"));
        assert_eq!(
            folder.file_name(),
            one["name"].as_str().map(OsStr::new),
            "the manifest's name is the folder's"
        );
        verdict
    });
    verdicts.collect()
}

/// A minute of waiting, beside those that compute for many.
#[test]
fn a_store_that_others_hold_for_long_spoils_no_judging() {
    let tribunal = Tribunal::new();
    let judge = |name: &str| {
        let submission = house().join("specimens/layer_norm_backward").join(name).display().to_string();
        let quickly = ["--effort", "quick", "--no-measurements", "--no-controls", "--json"];
        tribunal.run(["judge", "--store", "s.sqlite"].iter().chain(&quickly).chain([&submission.as_str()]))
    };
    let kept = || {
        let board = tribunal.run(["board", "--store", "s.sqlite", "--format", "json"]);
        board.stdout.lines().count()
    };
    assert_eq!(judge("plain-numpy").code, 0);
    let hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('begin exclusive'); print('held', flush=True); \
                sys.stdin.read()";
    let mut holder = Command::new("python3")
        .args(["-c", hold])
        .arg(tribunal.folder().join("s.sqlite"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a Python");
    let mut held = String::new();
    BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut held).expect("it says");
    let started = Instant::now();
    let spoilt = judge("gamma-omitted");
    assert_eq!(spoilt.stdout.lines().count(), 1, "its verdict is printed: {}", spoilt.stderr);
    assert_eq!(spoilt.code, 1, "{}", spoilt.stderr);
    assert!(spoilt.stderr.contains("the verdicts are not kept"), "{}", spoilt.stderr);
    assert!(started.elapsed() < Duration::from_secs(90), "{:?}", started.elapsed());
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    assert_eq!(kept(), 1, "the store is as it was");
    assert_eq!(judge("gamma-omitted").code, 1);
    assert_eq!(kept(), 2);
}

#[test]
fn every_layer_norm_gets_its_verdict() {
    every_specimen_gets_its_verdict("layer_norm_backward");
}

#[test]
fn every_softmax_topk_gets_its_verdict() {
    every_specimen_gets_its_verdict("fused_softmax_topk");
}

#[test]
fn every_kv_cache_gets_its_verdict() {
    every_specimen_gets_its_verdict("kv_cache");
}

fn every_specimen_gets_its_verdict(challenge: &str) {
    let verdicts = every_verdict_is_right(&house().join("specimens").join(challenge), "2");
    let schema: Value =
        serde_json::from_str(&Tribunal::new().run(["schema", "verdict"]).stdout).expect("a schema");
    let validator = jsonschema::validator_for(&schema).expect("a valid schema");
    for verdict in &verdicts {
        let name = &verdict["submission"]["name"];
        assert!(validator.is_valid(verdict), "{name}: the verdict does not keep to the schema");
    }
}

#[test]
fn every_exploit_is_contained() {
    // Many of them do nothing until their time is over.
    for verdict in every_verdict_is_right(&house().join("exploits"), "6") {
        let name = &verdict["submission"]["name"];
        if verdict["outcome"] == "disqualified" {
            assert_eq!(verdict["score"], 0.0, "{name}");
        }
        let noticed = verdict["dimensions"]["tests"]["score"].as_f64().unwrap_or(0.0);
        assert_eq!(noticed, 0.0, "{name}: its tests test nothing");
    }
}

/// How many of each kind there are, and that each says what it must.
#[test]
fn the_corpora_are_as_large_as_the_readme_says() {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    let corpora = challenges::ALL.iter().map(|challenge| house().join("specimens").join(challenge.id));
    for corpus in corpora.chain([house().join("exploits")]) {
        for folder in std::fs::read_dir(corpus).expect("a corpus").flatten().map(|entry| entry.path()) {
            if folder.is_dir() {
                let Expected { kind, why, stopped_by, .. } = Expected::of(&folder);
                assert!(!why.is_empty(), "{folder:?}");
                assert_eq!(kind == Kind::Hostile, stopped_by.is_some(), "{folder:?}");
                *counts.entry(kind).or_default() += 1;
            }
        }
    }
    let [honest, odd, defective, hostile] =
        [Kind::Honest, Kind::HonestOdd, Kind::Defective, Kind::Hostile].map(|kind| counts[&kind]);
    let due = format!(
        "{hostile} exploits, all contained; {honest} honest submissions and {odd} honest but odd, none accused; {defective} defects, all found and named"
    );
    the_readme_says(&due);
}

/// So do the pages of the calibration, which another test holds to the judge.
#[test]
fn the_calibration_is_as_large_as_the_readme_says() {
    let counts = ["layer_norm_backward", "fused_softmax_topk", "kv_cache"].map(|challenge| {
        let page = house().join("docs/calibration").join(challenge).with_extension("md");
        let page = std::fs::read_to_string(page).expect("the page");
        let line = page.lines().find(|line| line.contains(" honest variants under ")).expect("the counts");
        let count_of = |what| line.split_once(what)?.0.rsplit(' ').next().map(str::to_owned);
        [" honest", " mutants"].map(|what| count_of(what).expect("a count"))
    });
    let [honest, mutants] = [0, 1].map(|kind| {
        let [layer_norm, softmax, kv_cache] = [0, 1, 2].map(|of| &counts[of][kind]);
        format!("{layer_norm}, {softmax} and {kv_cache}")
    });
    the_readme_says(&format!(
        "{honest} honest variants stay under half their budget in every case, {mutants} broken ones"
    ));
}

/// However its lines are broken.
fn the_readme_says(due: &str) {
    let readme = std::fs::read_to_string(house().join("README.md")).expect("the README");
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(due), "README.md does not say: {due}");
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
