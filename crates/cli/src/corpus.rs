//! `tribunal doctor --controls`: the judge on trial, on submissions whose verdicts are known.
//!
//! Each has an `expected.toml` beside it. What comes of them is counted three ways: exploits contained, honest ones accused, defects found and
//! named.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tribunal_contract::{Language, Manifest};
use tribunal_judge::{Dimension, Finding, Outcome, Ruling, Seed, Severity, Verdict};
use tribunal_runner::submission::{self, find as find_submissions};

use crate::arguments::{Common, DoctorOptions, EffortChoice};
use crate::clerk::Clerk;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;
use crate::{house, judge, store};

/// What is judged where nothing is named.
const CORPORA: [&str; 2] = ["specimens", "exploits"];

/// The verdict that a submission must get.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    kind: Kind,
    #[expect(dead_code, reason = "for readers")]
    why: String,
    outcome: Ruling,
    /// The name of the defect; of an attack, what it is.
    suspect: Option<String>,
    /// What an honest one is charged with all the same, because the rubric asks for more than right answers.
    #[serde(default)]
    costs: Vec<String>,
    /// Where a failure must be.
    dimension: Option<Dimension>,
    /// File and line of a kernel that a failure must name.
    line: Option<String>,
    #[expect(dead_code, reason = "for readers")]
    stopped_by: Option<String>,
    /// What becomes of claims. Those of time are left out where a machine may decide them otherwise.
    #[serde(default)]
    claims: BTreeMap<String, Decided>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Honest,
    HonestOdd,
    Defective,
    Hostile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Decided {
    Upheld,
    Refuted,
    Untestable,
}

impl Expected {
    fn of(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("expected.toml");
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
        toml::from_str(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
    }
}

/// What came of a defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Diagnosis {
    Missed,
    Unnamed,
    NamedWrongly,
    Named,
}

/// A submission that was judged, and what it should have got.
#[derive(Debug, Serialize)]
struct Tried {
    name: String,
    challenge: String,
    verdict: String,
    kind: Kind,
    outcome: Ruling,
    /// It is in CUDA, and this machine has no compiler for that.
    skipped: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnosis: Option<Diagnosis>,
    /// What is wrong with the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
}

impl Tried {
    fn new(verdict: &Verdict, expected: &Expected) -> Self {
        let submission = &verdict.submission;
        let skipped =
            submission.language == Language::Cuda.name() && verdict.outcome == Ruling::Infrastructure;
        let diagnosis = (expected.kind == Kind::Defective && !skipped).then(|| diagnosis(verdict, expected));
        Self {
            name: submission.name.clone(),
            challenge: submission.challenge.clone(),
            verdict: verdict.id.clone(),
            kind: expected.kind,
            outcome: verdict.outcome,
            skipped,
            diagnosis,
            wrong: if skipped { None } else { complaint(verdict, expected) },
        }
    }
}

/// Failures that cost something.
fn failures(verdict: &Verdict) -> impl Iterator<Item = &Finding> {
    verdict.findings.iter().filter(|finding| finding.costs())
}

/// The suspect named most often in the dimension.
fn main_suspect(verdict: &Verdict, dimension: Dimension) -> Option<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for suspect in failures(verdict).filter(|f| f.dimension == dimension).filter_map(|f| f.suspect.as_deref())
    {
        *counts.entry(suspect).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(suspect, _)| suspect)
}

fn diagnosis(verdict: &Verdict, expected: &Expected) -> Diagnosis {
    let Some(dimension) = expected.dimension else { return Diagnosis::Missed };
    let there = || failures(verdict).filter(move |finding| finding.dimension == dimension);
    if verdict.outcome != expected.outcome || there().next().is_none() {
        return Diagnosis::Missed;
    }
    let due = expected.suspect.as_deref();
    match main_suspect(verdict, dimension) {
        named if named == due => Diagnosis::Named,
        // What only costs can cost in more than one way.
        _ if expected.outcome == Ruling::Accepted && there().any(|f| f.suspect.as_deref() == due) => {
            Diagnosis::Named
        }
        Some(_) => Diagnosis::NamedWrongly,
        None => Diagnosis::Unnamed,
    }
}

/// What is wrong with a verdict.
fn complaint(verdict: &Verdict, expected: &Expected) -> Option<String> {
    if verdict.outcome != expected.outcome {
        let (got, due) = (word(verdict.outcome), word(expected.outcome));
        return Some(format!("{got}, should be {due}: {}", first_message(verdict)));
    }
    if let Some(complaint) =
        expected.claims.iter().find_map(|(name, due)| complaint_of_claim(verdict, name, *due))
    {
        return Some(complaint);
    }
    let dimension = expected.dimension;
    match expected.kind {
        Kind::Honest | Kind::HonestOdd => {
            let charged = |suspect: &str| expected.costs.iter().any(|cost| cost == suspect);
            let unpaid = |cost: &&String| !failures(verdict).any(|f| f.suspect.as_ref() == Some(cost));
            if let Some(cost) = expected.costs.iter().find(unpaid) {
                return Some(format!("is not charged with {cost}"));
            }
            let accusation = failures(verdict)
                .find(|f| f.dimension != Dimension::Code && !f.suspect.as_deref().is_some_and(charged))?;
            Some(format!("accused in {}: {}", word(accusation.dimension), accusation.message))
        }
        // It is named by what it did to itself in the end, which need not be what it tried.
        Kind::Hostile => {
            let dimension = dimension?;
            let none = !failures(verdict).any(|finding| finding.dimension == dimension);
            none.then(|| format!("nothing failed in {}", word(dimension)))
        }
        Kind::Defective => {
            let Some(dimension) = dimension else {
                return Some("expected.toml has no `dimension`: where must a failure be?".to_owned());
            };
            let due = expected.suspect.as_deref().unwrap_or("nothing");
            match diagnosis(verdict, expected) {
                Diagnosis::Named => complaint_of_line(verdict, expected.line.as_deref()?),
                Diagnosis::Missed => Some(format!("nothing failed in {}", word(dimension))),
                Diagnosis::Unnamed | Diagnosis::NamedWrongly => Some(format!(
                    "named {} in {}, should be {due}: {}",
                    main_suspect(verdict, dimension).unwrap_or("nothing"),
                    word(dimension),
                    first_message(verdict)
                )),
            }
        }
    }
}

/// What is wrong with the lines that failures name.
fn complaint_of_line(verdict: &Verdict, due: &str) -> Option<String> {
    let seen: Vec<&str> = failures(verdict).filter(|f| f.is_of_kernel()).map(|f| f.case.as_str()).collect();
    let none = !seen.iter().any(|case| case.rsplit('/').next() == Some(due));
    none.then(|| format!("no failure names {due}, but {}", seen.join(", ")))
}

/// What is wrong with how a claim was decided.
fn complaint_of_claim(verdict: &Verdict, name: &str, due: Decided) -> Option<String> {
    let id = format!("claims/{name}:holds");
    let Some(finding) = verdict.findings.iter().find(|finding| finding.id == id) else {
        return Some(format!("{id} is not among the findings"));
    };
    let decided = match finding.outcome {
        Outcome::Pass => Decided::Upheld,
        Outcome::Fail => Decided::Refuted,
        _ => Decided::Untestable,
    };
    (decided != due).then(|| format!("{} (should be {due:?})", finding.message))
}

fn first_message(verdict: &Verdict) -> &str {
    let telling = |finding: &&Finding| finding.outcome != Outcome::Pass && finding.severity != Severity::Note;
    verdict.findings.iter().find(telling).map_or("", |finding| &finding.message)
}

/// As it is written in JSON.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// What came of all submissions to one challenge.
#[derive(Debug, Default, Serialize)]
struct Row {
    exploits: usize,
    contained: usize,
    honest: usize,
    accused: usize,
    defects: usize,
    found: usize,
    named: usize,
    named_wrongly: usize,
    skipped: usize,
}

const HEADS: [&str; 9] =
    ["exploits", "contained", "honest", "accused", "defects", "found", "named", "named wrongly", "skipped"];

impl Row {
    fn add(&mut self, tried: &Tried) {
        if tried.skipped {
            self.skipped += 1;
            return;
        }
        let right = usize::from(tried.wrong.is_none());
        match tried.kind {
            Kind::Hostile => (self.exploits, self.contained) = (self.exploits + 1, self.contained + right),
            Kind::Honest | Kind::HonestOdd => {
                (self.honest, self.accused) = (self.honest + 1, self.accused + 1 - right);
            }
            Kind::Defective => {
                self.defects += 1;
                self.found += usize::from(tried.diagnosis != Some(Diagnosis::Missed));
                self.named += usize::from(tried.diagnosis == Some(Diagnosis::Named));
                self.named_wrongly += usize::from(tried.diagnosis == Some(Diagnosis::NamedWrongly));
            }
        }
    }

    fn numbers(&self) -> [usize; 9] {
        let Self { exploits, contained, honest, accused, defects, found, named, named_wrongly, skipped } =
            *self;
        [exploits, contained, honest, accused, defects, found, named, named_wrongly, skipped]
    }
}

/// Whether a verdict, or what becomes of a claim, hangs on how long something takes.
fn hangs_on_time(folder: &Path, due: &Expected) -> bool {
    let is_of_time =
        |claim: &&str| claim.ends_with("_exponent") || ["speedup_over_reference", "bound"].contains(claim);
    let claims = |manifest: Manifest| manifest.claims.keys().any(is_of_time);
    due.dimension == Some(Dimension::Performance) || submission::manifest(folder).is_ok_and(claims)
}

/// Judges what has a known verdict, and says where it got another.
pub fn run(options: &DoctorOptions, paths: &[PathBuf], common: &Common) -> Result<Exit, Failure> {
    let paths = if paths.is_empty() { corpora()? } else { paths.to_vec() };
    let folders = find_submissions(&paths).map_err(|error| Failure::Usage(error.to_string()))?;
    // As verdicts name them.
    let folders = folders.iter().map(fs::canonicalize).collect::<Result<Vec<_>, _>>()?;
    let expected: BTreeMap<&Path, Expected> = folders
        .iter()
        .map(|folder| Ok((folder.as_path(), Expected::of(folder)?)))
        .collect::<Result<_, Failure>>()?;
    let order = judge::order(Seed::PUBLIC, EffortChoice::Standard, &options.cage, common)?;
    let progress = Progress::new(common.quiet);
    let store = store::to_write(common);
    let clerk = Clerk::new(store.as_ref(), &progress);
    let brief = expected.iter().filter(|(folder, due)| options.brief && !hangs_on_time(folder, due));
    let manner = judge::Manner {
        jobs: options.jobs,
        timed_briefly: brief.map(|(folder, _)| folder.to_path_buf()).collect(),
        ..Default::default()
    };
    let verdicts = judge::judge_all(&order, &folders, &manner, &clerk);
    drop(clerk);
    let tried: Vec<Tried> = verdicts
        .iter()
        .filter_map(|verdict| Some(Tried::new(verdict, expected.get(Path::new(&verdict.submission.folder))?)))
        .collect();
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for tried in &tried {
        rows.entry(&tried.challenge).or_default().add(tried);
    }
    let unjudged = folders.len() - tried.len();
    if options.json {
        let told = serde_json::json!({ "challenges": rows, "submissions": tried, "unjudged": unjudged });
        writeln!(anstream::stdout(), "{told}")?;
    } else {
        print(&rows, &tried, unjudged)?;
    }
    let right = unjudged == 0 && tried.iter().all(|tried| tried.wrong.is_none());
    Ok(if right { Exit::Accepted } else { Exit::Rejected })
}

/// The project's own, where its sources are at hand.
fn corpora() -> Result<Vec<PathBuf>, Failure> {
    let house = house::find().ok_or_else(|| {
        let what = "the project's specimens and exploits are not here: name folders, or set TRIBUNAL_HOUSE to its checkout";
        Failure::Usage(what.to_owned())
    })?;
    Ok(CORPORA.map(|corpus| house.join(corpus)).to_vec())
}

fn print(rows: &BTreeMap<&str, Row>, tried: &[Tried], unjudged: usize) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    let widest = rows.keys().map(|name| name.len()).max().unwrap_or(0);
    let mut all = Row::default();
    tried.iter().for_each(|tried| all.add(tried));
    writeln!(out, "{:widest$}  {}", "", HEADS.join("  "))?;
    for (name, row) in rows.iter().map(|(name, row)| (*name, row)).chain([("all", &all)]) {
        let numbers: Vec<String> = HEADS
            .iter()
            .zip(row.numbers())
            .map(|(head, number)| format!("{number:>width$}", width = head.len()))
            .collect();
        writeln!(out, "{name:widest$}  {}", numbers.join("  "))?;
    }
    if all.skipped > 0 {
        writeln!(out, "\n{} are in CUDA and were skipped: there is no compiler for it here", all.skipped)?;
    }
    if unjudged > 0 {
        writeln!(out, "\n{unjudged} got no verdict")?;
    }
    let wrong: Vec<_> = tried.iter().filter_map(|tried| Some((tried, tried.wrong.as_deref()?))).collect();
    if !wrong.is_empty() {
        writeln!(out, "\n{} wrong verdicts:", wrong.len())?;
    }
    for (tried, why) in wrong {
        writeln!(
            out,
            "  {} {}: {}",
            tried.verdict,
            tribunal_board::clean::line(&tried.name),
            tribunal_board::clean::line(why)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(kind: Kind, diagnosis: Option<Diagnosis>, wrong: bool, skipped: bool) -> Tried {
        Tried {
            name: "x".into(),
            challenge: "c".into(),
            verdict: "v".into(),
            kind,
            outcome: Ruling::Rejected,
            skipped,
            diagnosis,
            wrong: wrong.then(|| "why".into()),
        }
    }

    #[test]
    fn every_submission_is_counted_where_it_belongs_and_the_skipped_nowhere_else() {
        let mut row = Row::default();
        for one in [
            tried(Kind::Hostile, None, false, false),
            tried(Kind::Hostile, None, true, false),
            tried(Kind::Honest, None, false, false),
            tried(Kind::HonestOdd, None, true, false),
            tried(Kind::Defective, Some(Diagnosis::Named), false, false),
            tried(Kind::Defective, Some(Diagnosis::NamedWrongly), true, false),
            tried(Kind::Defective, Some(Diagnosis::Unnamed), true, false),
            tried(Kind::Defective, Some(Diagnosis::Missed), true, false),
            tried(Kind::Defective, None, false, true),
        ] {
            row.add(&one);
        }
        assert_eq!(row.numbers(), [2, 1, 2, 1, 4, 3, 1, 1, 1]);
    }
}
