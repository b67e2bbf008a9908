//! Verdicts as JUnit XML, for what builds and tests: a suite for each submission, a test for each check of each case.
//!
//! A failure is a `failure`, a cheat a `failure` of type `integrity`; what the machine was at fault for is an `error`,
//! and what the evidence does not decide is `skipped`.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use tribunal_judge::{Finding, Outcome, Severity, Verdict};

use crate::clean;

/// Longest text shown.
const CHARS_MAX: usize = 600;

/// All of them as one report.
pub fn report(verdicts: &[Verdict]) -> String {
    let mut report = Report::new("tribunal");
    report.set_time(verdicts.iter().map(|verdict| seconds(verdict.took_s)).sum());
    report.add_test_suites(verdicts.iter().map(suite));
    report.to_string().expect("writing to a string")
}

fn suite(verdict: &Verdict) -> TestSuite {
    let submission = &verdict.submission;
    let mut suite = TestSuite::new(text(&format!("{}/{}", submission.challenge, submission.name)));
    suite.set_time(seconds(verdict.took_s));
    suite.add_property(("verdict", text(&verdict.id).as_str()));
    suite.add_property(("outcome", verdict.outcome.name()));
    if let Some(score) = verdict.score {
        suite.add_property(("score", format!("{score:.1}").as_str()));
    }
    suite.add_test_cases(verdict.findings.iter().map(test));
    suite
}

fn test(finding: &Finding) -> TestCase {
    let mut status = match finding.outcome {
        // A note lowers nothing and rejects nobody.
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Fail if finding.severity == Severity::Note => TestCaseStatus::success(),
        Outcome::Fail | Outcome::Integrity => TestCaseStatus::non_success(NonSuccessKind::Failure),
        Outcome::Infrastructure => TestCaseStatus::non_success(NonSuccessKind::Error),
        Outcome::Inconclusive => TestCaseStatus::skipped(),
    };
    status.set_message(text(&finding.message));
    match finding.outcome {
        Outcome::Integrity => status.set_type("integrity"),
        Outcome::Infrastructure => status.set_type("infrastructure"),
        _ => status.set_type(text(finding.suspect.as_deref().unwrap_or(&finding.check))),
    };
    if let Some(replay) = &finding.replay {
        status.set_description(text(replay));
    }
    let mut test = TestCase::new(text(&finding.check), status);
    test.set_classname(text(&finding.case));
    test
}

fn text(hostile: &str) -> String {
    clean::cut(hostile, CHARS_MAX)
}

/// What is no duration counts as none.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use quick_xml::events::{BytesStart, Event};

    use super::*;
    use crate::samples;

    fn elements(xml: &str) -> Vec<BytesStart<'static>> {
        let mut reader = quick_xml::Reader::from_str(xml);
        let mut elements = Vec::new();
        loop {
            match reader.read_event().expect("well-formed XML") {
                Event::Start(element) | Event::Empty(element) => elements.push(element.into_owned()),
                Event::Eof => return elements,
                _ => {}
            }
        }
    }

    fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
        let mut attributes = element.attributes().map(|attribute| attribute.expect("an attribute"));
        let attribute = attributes.find(|attribute| attribute.key.as_ref() == name.as_bytes())?;
        Some(attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0).expect("a value").into_owned())
    }

    fn named<'a>(elements: &'a [BytesStart<'static>], name: &str) -> Vec<&'a BytesStart<'static>> {
        elements.iter().filter(|element| element.name().as_ref() == name.as_bytes()).collect()
    }

    #[test]
    fn every_finding_is_a_test_with_its_outcome() {
        let verdicts = [samples::rejected(), samples::disqualified(), samples::infrastructure()];
        let elements = elements(&report(&verdicts));
        let findings = || verdicts.iter().flat_map(|verdict| &verdict.findings);
        let outcomes = |outcome| findings().filter(|finding| finding.outcome == outcome).count();
        assert_eq!(named(&elements, "testsuite").len(), 3);
        assert_eq!(named(&elements, "testcase").len(), findings().count());
        let failures = named(&elements, "failure");
        assert_eq!(failures.len(), outcomes(Outcome::Fail) + outcomes(Outcome::Integrity));
        assert_eq!(named(&elements, "error").len(), 1);
        let cheats = failures.iter().filter(|f| attribute(f, "type").as_deref() == Some("integrity"));
        assert_eq!(cheats.count(), 1);
        let suite = named(&elements, "testsuite")[0];
        assert_eq!(attribute(suite, "name").as_deref(), Some("layer_norm_backward/bob"));
        assert_eq!(attribute(suite, "time").as_deref(), Some("6.540"));
    }

    #[test]
    fn what_is_not_decided_is_skipped_and_a_note_fails_nothing() {
        let mut verdict = samples::accepted();
        verdict.findings[0].outcome = Outcome::Inconclusive;
        verdict.findings[1].outcome = Outcome::Fail;
        let elements = elements(&report(&[verdict]));
        assert_eq!(named(&elements, "skipped").len(), 1);
        assert!(named(&elements, "failure").is_empty());
    }

    #[test]
    fn hostile_text_stays_text() {
        let xml = report(&[samples::hostile()]);
        assert!(!xml.contains("<script>") && !xml.contains("<b>") && !xml.contains('\u{202e}'));
        let elements = elements(&xml);
        let name = attribute(named(&elements, "testsuite")[0], "name").unwrap();
        assert_eq!(name, "layer_norm_backward/<b>bob</b>|`x`\\u{202e}[a](http://evil)");
    }
}
