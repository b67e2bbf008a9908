//! Failures as a person wants them told: one entry for each kind, not one for each check of each case.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use tribunal_contract::challenges;
use tribunal_judge::{Dimension, Finding, Outcome, Severity, Verdict};

use crate::{clean, words};

/// Failures that one defect explains, or that at least look alike.
#[derive(Debug)]
pub(crate) struct Kind<'a> {
    /// Whether it is a failure or a cheat.
    pub(crate) outcome: Outcome,
    /// The gravest in it.
    pub(crate) severity: Severity,
    /// The suspect in words, or what was checked.
    pub(crate) title: String,
    /// The inputs and results that the checks name: `dx`, `dgamma`.
    pub(crate) fields: Vec<&'static str>,
    /// The plainest of the gravest messages; where each is to be named, all.
    pub(crate) message: Cow<'a, str>,
    /// How many cases of which family, in the order of the families.
    pub(crate) families: Vec<(&'static str, usize)>,
    /// Of what kernels did, the lines.
    places: BTreeSet<(&'a str, usize)>,
    /// The largest error in units of its budget.
    pub(crate) used: Option<f64>,
    /// The smallest case that fails.
    pub(crate) smallest: &'a str,
    /// The finding of that case.
    pub(crate) finding: &'a Finding,
}

impl Kind<'_> {
    /// Whether it is more than a note.
    pub(crate) fn costs(&self) -> bool {
        self.outcome == Outcome::Integrity || self.severity > Severity::Note
    }

    /// Number of cases that fail in this way.
    pub(crate) fn cases(&self) -> usize {
        self.families.iter().map(|(_, cases)| cases).sum()
    }

    /// `critical`, or what a cheat is called.
    pub(crate) fn gravity(&self) -> &'static str {
        if self.outcome == Outcome::Integrity { "cheat" } else { self.severity.name() }
    }

    /// The cases in words: `12 cases: batch 8, shapes 4`, or the places in a kernel.
    pub(crate) fn extent(&self) -> String {
        if self.finding.is_of_kernel() {
            let count = words::count(self.cases(), "place");
            let told = self.cases() > 1 && !self.places.is_empty();
            return if told { format!("{count} in {}", lines(&self.places)) } else { count };
        }
        if let Some((_, what)) = listed(self.finding.suspect.as_deref()) {
            return words::count(self.cases(), what);
        }
        match self.families.as_slice() {
            [(family, cases)] => words::count(*cases, &format!("{family} case")),
            families => {
                let each: Vec<_> =
                    families.iter().map(|(family, cases)| format!("{family} {cases}")).collect();
                format!("{}: {}", words::count(self.cases(), "case"), each.join(", "))
            }
        }
    }
}

/// Lines of sources, each source named once: `kernels.cu:35, 111, 122 and 4 more`.
fn lines(places: &BTreeSet<(&str, usize)>) -> String {
    let mut told = String::new();
    let mut before = "";
    for &(source, line) in places.iter().take(LINES) {
        if !told.is_empty() {
            told += ", ";
        }
        told += &if source == before {
            line.to_string()
        } else {
            format!("{}:{line}", clean::cut(source, SOURCE_CHARS))
        };
        before = source;
    }
    match places.len() - places.len().min(LINES) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// Lines that are told of a kind: the first in the source need not be the one that is to blame.
const LINES: usize = 8;

/// Letters of a source's name that are told.
const SOURCE_CHARS: usize = 40;

/// What a submission's own tests are charged with, and of what: each is named.
const LISTED: [(&str, &str); 2] = [("defect_unnoticed", "defect"), ("test_cannot_fail", "test")];

fn listed(suspect: Option<&str>) -> Option<(&'static str, &'static str)> {
    LISTED.into_iter().find(|(name, _)| suspect == Some(name))
}

/// The kinds of failure, the gravest first.
pub(crate) fn kinds(verdict: &Verdict) -> Vec<Kind<'_>> {
    type Key<'a> = (bool, Option<&'a str>, &'a str);
    let fields = field_names(&verdict.submission.challenge);
    let mut members: Vec<(Key<'_>, Vec<&Finding>)> = Vec::new();
    for finding in verdict.failures() {
        // Every claim has numbers of its own.
        let class = match finding.dimension {
            Dimension::Analysis => finding.case.as_str(),
            _ => class(finding, &fields).1,
        };
        let key = (finding.outcome == Outcome::Integrity, finding.suspect.as_deref(), class);
        match members.iter_mut().find(|(other, _)| *other == key) {
            Some((_, findings)) => findings.push(finding),
            None => members.push((key, vec![finding])),
        }
    }
    members
        .into_iter()
        .map(|((_, suspect, class), findings)| kind(suspect, class, &findings, &fields))
        .collect()
}

/// Those that cost something. Notes decide nothing: which there are may hang on the machine.
pub(crate) fn costly(verdict: &Verdict) -> Vec<Kind<'_>> {
    let mut kinds = kinds(verdict);
    kinds.retain(Kind::costs);
    kinds
}

fn kind<'a>(
    suspect: Option<&str>,
    class: &str,
    findings: &[&'a Finding],
    names: &[&'static str],
) -> Kind<'a> {
    let severity = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Note);
    let message = findings
        .iter()
        .filter(|finding| finding.severity == severity && !finding.message.is_empty())
        .map(|finding| finding.message.as_str())
        .min_by_key(|message| message.chars().count());
    // What a kernel did matters in one place and not in another.
    let (smallest, finding) = findings
        .iter()
        .filter(|finding| !finding.is_of_kernel() || finding.severity == severity)
        .map(|finding| (finding.smallest.as_deref().unwrap_or(&finding.case), *finding))
        .min_by_key(|(case, _)| (extent(case), case.len()))
        .expect("a kind has findings");
    // Each place has a message of its own.
    let message = if finding.is_of_kernel() { Some(finding.message.as_str()) } else { message };
    let message = match listed(suspect) {
        Some(_) => Cow::Owned(list(findings)),
        None => Cow::Borrowed(message.unwrap_or("")),
    };
    let places = findings.iter().filter(|finding| finding.is_of_kernel()).filter_map(|finding| {
        let (source, line) = finding.case.rsplit_once('/')?.1.rsplit_once(':')?;
        Some((source, line.parse().ok()?))
    });
    let mut fields: Vec<&'static str> = Vec::new();
    let mut cases: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for finding in findings {
        if let (Some(field), _) = self::class(finding, names)
            && !fields.contains(&field)
        {
            fields.push(field);
        }
        cases.entry(finding.family).or_default().insert(&finding.case);
    }
    Kind {
        outcome: findings[0].outcome,
        severity,
        title: suspect.map_or_else(|| format!("fails: {}", words::spoken(class)), words::spoken),
        fields,
        message,
        places: places.collect(),
        families: cases.into_iter().map(|(family, cases)| (family.name(), cases.len())).collect(),
        used: findings.iter().filter_map(|finding| finding.used).max_by(f64::total_cmp),
        smallest,
        finding,
    }
}

/// Of several messages the words with which all begin, and then what each says.
fn list(findings: &[&Finding]) -> String {
    let each: Vec<(&str, &str)> = findings
        .iter()
        .map(|finding| finding.message.split_once(": ").unwrap_or(("", &finding.message)))
        .collect();
    let names: Vec<&str> = each.iter().map(|(_, name)| *name).collect();
    format!("{}: {}", each[0].0, names.join("; "))
}

/// Names of the contract's fields, the longest first: `dx` must not hide `dx_scale`.
fn field_names(challenge: &str) -> Vec<&'static str> {
    let operations = challenges::find(challenge).map_or(&[][..], |challenge| challenge.operations);
    let mut names: Vec<_> = operations
        .iter()
        .flat_map(|operation| operation.inputs.iter().chain(operation.outputs))
        .map(|field| field.name)
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    names.dedup();
    names
}

/// A check without the field that it begins with, `dx_within_budget` is `dx` and `within_budget`. What a kernel did is a check without a
/// field, though `out_of_bounds` begins with the name of one; of a race the other line is left out.
fn class<'a>(finding: &'a Finding, fields: &[&'static str]) -> (Option<&'static str>, &'a str) {
    let check = finding.check.as_str();
    if finding.is_of_kernel() {
        return (None, check.split_once("_with_line_").map_or(check, |(kind, _)| kind));
    }
    fields
        .iter()
        .find_map(|field| Some((Some(*field), check.strip_prefix(field)?.strip_prefix('_')?)))
        .unwrap_or((None, check))
}

/// Elements in the largest shape that a case's id names; ids without a shape come last.
fn extent(case: &str) -> u64 {
    let product = |part: &str| {
        part.split('x')
            .map(|extent| extent.parse::<u64>().ok())
            .try_fold(1, |product: u64, extent| Some(product.saturating_mul(extent?)))
    };
    case.split('/').filter_map(product).max().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_note_is_told_and_decides_nothing() {
        let mut verdict = samples::accepted();
        let before = costly(&verdict).len();
        let mut finding = samples::finding("code/kernel.c/2:no_warnings", tribunal_judge::Family::Basic);
        (finding.outcome, finding.severity) = (Outcome::Fail, Severity::Note);
        verdict.findings.push(finding);
        assert_eq!(kinds(&verdict).len(), before + 1);
        assert_eq!(costly(&verdict).len(), before);
    }

    #[test]
    fn alike_failures_are_one_kind() {
        let verdict = samples::rejected();
        let kinds = kinds(&verdict);
        let told: Vec<_> =
            kinds.iter().map(|kind| (kind.title.as_str(), kind.cases(), kind.fields.clone())).collect();
        assert_eq!(
            told,
            [
                ("rows mixed", 5, vec!["dx", "dgamma"]),
                ("fails: within budget", 2, vec!["dx"]),
                ("fails: inputs unchanged", 1, vec![])
            ]
        );
        assert_eq!(kinds[0].smallest, "batch/gamma_random/2x3/float32");
        assert_eq!(kinds[0].message, "row 0 is right alone and wrong in a batch");
        assert_eq!(kinds[0].extent(), "5 cases: shapes 1, batch 4");
    }

    #[test]
    fn races_are_one_kind_on_any_lines() {
        let mut verdict = samples::rejected();
        let race = |line: u32, other: u32| {
            let mut race = verdict.failures()[0].clone();
            race.case = format!("sanitizer/softmax/kernel.cu:{line}");
            race.check = format!("shared_race_with_line_{other}");
            race.smallest = None;
            race.suspect = Some("shared_race".to_owned());
            race
        };
        verdict.findings = vec![race(25, 30), race(25, 31), race(30, 25)];
        let kinds = kinds(&verdict);
        assert_eq!(kinds.iter().map(|kind| kind.title.as_str()).collect::<Vec<_>>(), ["shared race"]);
        assert_eq!(kinds[0].extent(), "2 places in kernel.cu:25, 30");
        assert_eq!(kinds[0].smallest, "sanitizer/softmax/kernel.cu:25");
        let alone = vec![verdict.findings[0].clone()];
        verdict.findings = alone;
        assert_eq!(self::kinds(&verdict)[0].extent(), "1 place");
    }

    #[test]
    fn of_a_kernels_places_one_that_matters_most_is_told() {
        let mut verdict = samples::rejected();
        let read = |kernel: &str, severity: Severity| {
            let mut read = verdict.failures()[0].clone();
            (read.case, read.check) = (format!("sanitizer/{kernel}/kernel.cu:7"), "uninitialised".to_owned());
            (read.suspect, read.smallest, read.severity) = (Some("uninitialised".to_owned()), None, severity);
            read.message = format!("{kernel} is {severity:?}");
            read
        };
        verdict.findings = vec![read("copy", Severity::Note), read("attention", Severity::Critical)];
        let kinds = kinds(&verdict);
        let [kind] = &kinds[..] else { panic!("{kinds:?}") };
        assert_eq!((kind.severity, &*kind.message), (Severity::Critical, "attention is Critical"));
        assert_eq!(kind.smallest, "sanitizer/attention/kernel.cu:7");
        assert_eq!(kind.cases(), 2);
    }

    #[test]
    fn lines_are_told_by_source() {
        let lines = |places: &[(&'static str, usize)]| self::lines(&places.iter().copied().collect());
        assert_eq!(lines(&[("b.cuh", 7), ("a.cu", 40), ("a.cu", 9)]), "a.cu:9, 40, b.cuh:7");
        let foreign = "a\u{1b}[2J.cu";
        assert_eq!(lines(&[(foreign, 7)]), format!("{}:7", clean::line(foreign)));
        let many: Vec<_> = (1..=11).map(|line| ("a.cu", line)).collect();
        assert_eq!(lines(&many), "a.cu:1, 2, 3, 4, 5, 6, 7, 8 and 3 more");
    }

    /// `out` is a result of the KV cache's.
    #[test]
    fn what_a_kernel_did_is_of_no_field() {
        let mut verdict = samples::rejected();
        verdict.submission.challenge = "kv_cache".to_owned();
        let mut finding = verdict.failures()[0].clone();
        finding.case = "sanitizer/attend/kernel.cu:25".to_owned();
        finding.check = "out_of_bounds".to_owned();
        finding.suspect = Some("out_of_bounds".to_owned());
        verdict.findings = vec![finding];
        assert_eq!(kinds(&verdict)[0].fields, [""; 0]);
    }

    #[test]
    fn every_defect_that_tests_miss_is_named() {
        let mut verdict = samples::rejected();
        let missed = |defect: &str| {
            let mut missed = verdict.failures()[0].clone();
            (missed.case, missed.check) = (format!("tests/{defect}"), "noticed".to_owned());
            (missed.dimension, missed.smallest) = (Dimension::Tests, None);
            missed.message = format!("its tests do not notice: {defect}");
            missed.suspect = Some("defect_unnoticed".to_owned());
            missed
        };
        verdict.findings = vec![missed("rows_mixed"), missed("zeros")];
        let kinds = kinds(&verdict);
        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds[0].message, "its tests do not notice: rows_mixed; zeros");
        assert_eq!(kinds[0].extent(), "2 defects");
    }

    #[test]
    fn every_refuted_claim_is_told() {
        let mut verdict = samples::rejected();
        let refuted = |claim: &str| {
            let mut refuted = verdict.failures()[0].clone();
            (refuted.case, refuted.check) = (format!("claims/{claim}"), "holds".to_owned());
            (refuted.dimension, refuted.smallest) = (Dimension::Analysis, None);
            refuted.suspect = Some("claim_refuted".to_owned());
            refuted
        };
        verdict.findings = vec![refuted("passes"), refuted("bound")];
        let kinds = kinds(&verdict);
        let told: Vec<_> = kinds.iter().map(|kind| (kind.title.as_str(), kind.smallest)).collect();
        assert_eq!(told, [("claim refuted", "claims/passes"), ("claim refuted", "claims/bound")]);
    }

    #[test]
    fn a_shrunk_case_is_shown_and_not_counted() {
        let mut verdict = samples::rejected();
        let told = |verdict: &Verdict| {
            let kinds = kinds(verdict);
            let told = |kind: &Kind<'_>| (kind.extent(), kind.smallest.to_owned());
            kinds.iter().map(told).collect::<Vec<_>>()
        };
        let before = told(&verdict);
        // Of the family of the kind's cases, and of another.
        for (finding, shrunk) in [(0, "batch/gamma_random/1x1/float32"), (1, "shapes/one/1x1/float32")] {
            let failed = verdict.findings.iter_mut().filter(|finding| finding.suspect.is_some());
            failed.skip(finding).take(1).for_each(|finding| finding.smallest = Some(shrunk.to_owned()));
        }
        let after = told(&verdict);
        assert_ne!(after[0].1, before[0].1);
        assert_eq!(
            after.iter().map(|kind| &kind.0).collect::<Vec<_>>(),
            before.iter().map(|kind| &kind.0).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_smallest_case_is_the_one_with_the_fewest_elements() {
        assert!(extent("batch/gamma/2x8/float32") < extent("batch/gamma/128x7/float32"));
        assert_eq!(extent("stateful/interleaved"), u64::MAX);
        assert_eq!(extent("shapes/huge/99999999999x99999999999/float32"), u64::MAX);
    }
}
