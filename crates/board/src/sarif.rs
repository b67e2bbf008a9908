//! Verdicts as SARIF 2.1.0, for what shows findings beside code: a result for each kind of failure.
//!
//! What was found in the source has its file and line. A wrong answer has no line that anybody knows, so it is put to
//! the submission's manifest, and says which case shows it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use tribunal_contract::Manifest;
use tribunal_judge::{Outcome, Severity, Verdict};

use crate::failures::{self, Kind};
use crate::html::code_place;
use crate::{clean, words};

/// Longest text shown.
const CHARS_MAX: usize = 600;

#[derive(Serialize)]
struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Serialize)]
struct Run {
    tool: Tool,
    results: Vec<Finding>,
}

#[derive(Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    version: &'static str,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    short_description: Text,
}

#[derive(Serialize)]
struct Text {
    text: String,
}

/// What SARIF calls a result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    rule_id: String,
    rule_index: usize,
    level: &'static str,
    message: Text,
    locations: [Location; 1],
    partial_fingerprints: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Physical,
    logical_locations: [Logical; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Artifact,
    region: Region,
}

#[derive(Serialize)]
struct Artifact {
    uri: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Logical {
    fully_qualified_name: String,
}

/// All of them as one run. Places below `root`, the checkout, are written relative to it.
pub fn report(verdicts: &[Verdict], root: &Path) -> String {
    let mut rules: Vec<Rule> = Vec::new();
    let mut results = Vec::new();
    for verdict in verdicts {
        for kind in failures::kinds(verdict) {
            let id = text(kind.finding.suspect.as_deref().unwrap_or(&kind.finding.check));
            let rule_index = rules.iter().position(|rule| rule.id == id).unwrap_or_else(|| {
                rules.push(Rule { short_description: Text { text: words::spoken(&id) }, id: id.clone() });
                rules.len() - 1
            });
            results.push(result(verdict, &kind, id, rule_index, root));
        }
    }
    let driver = Driver { name: "tribunal", version: env!("CARGO_PKG_VERSION"), rules };
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        version: "2.1.0",
        runs: [Run { tool: Tool { driver }, results }],
    };
    serde_json::to_string_pretty(&log).expect("string keys only") + "\n"
}

fn result(verdict: &Verdict, kind: &Kind<'_>, rule_id: String, rule_index: usize, root: &Path) -> Finding {
    let submission = &verdict.submission;
    let level = match (kind.outcome, kind.severity) {
        (Outcome::Integrity, _) | (_, Severity::Critical | Severity::Major) => "error",
        (_, Severity::Minor) => "warning",
        (_, Severity::Note) => "note",
    };
    let replay = kind.finding.replay.as_deref().map_or(String::new(), |replay| format!("; {replay}"));
    let message = format!(
        "{}: {}: {} ({}; smallest: {}{replay})",
        submission.name,
        kind.title,
        kind.message,
        kind.extent(),
        kind.smallest
    );
    let (file, start_line) = code_place(kind.finding).unwrap_or((Manifest::FILE_NAME, 1));
    let uri = uri(&Path::new(&submission.folder).join(file), root);
    let fingerprint =
        text(&format!("{}/{}/{rule_id}/{}", submission.challenge, submission.name, kind.finding.check));
    Finding {
        rule_id,
        rule_index,
        level,
        message: Text { text: text(&message) },
        locations: [Location {
            physical_location: Physical {
                artifact_location: Artifact { uri },
                region: Region { start_line: start_line.max(1) },
            },
            logical_locations: [Logical { fully_qualified_name: text(kind.smallest) }],
        }],
        partial_fingerprints: BTreeMap::from([("tribunalKind/v1", fingerprint)]),
    }
}

fn text(hostile: &str) -> String {
    clean::cut(hostile, CHARS_MAX)
}

/// Relative to `root` where it lies below it, else from the root of the file system.
fn uri(path: &Path, root: &Path) -> String {
    let (scheme, path) = match path.strip_prefix(root) {
        Ok(below) => ("", below),
        Err(_) if path.is_absolute() => ("file://", path),
        Err(_) => ("", path),
    };
    let mut uri = scheme.to_owned();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(byte.into())
            }
            byte => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tribunal_judge::Family;

    use super::*;
    use crate::samples;

    /// What the schema of SARIF 2.1.0 requires of the parts that are written here.
    fn schema() -> Value {
        let text = json!({"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}});
        json!({
            "type": "object", "required": ["version", "runs"],
            "properties": {
                "version": {"const": "2.1.0"},
                "runs": {"type": "array", "items": {"type": "object", "required": ["tool"], "properties": {
                    "tool": {"type": "object", "required": ["driver"], "properties": {"driver": {
                        "type": "object", "required": ["name"], "properties": {"rules": {
                            "type": "array", "uniqueItems": true,
                            "items": {"type": "object", "required": ["id"], "properties": {"shortDescription": text}}
                        }}
                    }}},
                    "results": {"type": "array", "items": {"type": "object", "required": ["message"], "properties": {
                        "ruleIndex": {"type": "integer", "minimum": 0},
                        "level": {"enum": ["none", "note", "warning", "error"]},
                        "message": text,
                        "locations": {"type": "array", "items": {"properties": {"physicalLocation": {
                            "required": ["artifactLocation"],
                            "properties": {
                                "artifactLocation": {"properties": {"uri": {"type": "string", "pattern": "^[A-Za-z0-9:/._~%-]+$"}}},
                                "region": {"properties": {"startLine": {"type": "integer", "minimum": 1}}}
                            }
                        }}}},
                        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}}
                    }}}
                }}}
            }
        })
    }

    fn log(verdicts: &[Verdict], root: &str) -> Value {
        serde_json::from_str(&report(verdicts, Path::new(root))).expect("JSON")
    }

    #[test]
    fn logs_are_what_the_standard_says() {
        let validator = jsonschema::validator_for(&schema()).expect("a schema");
        for verdict in samples::all() {
            let log = log(&[verdict], "/home");
            let faults: Vec<_> = validator.iter_errors(&log).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{faults:?}");
        }
        let mut bad = log(&[samples::rejected()], "/home");
        bad["runs"][0]["results"][0]["level"] = json!("fatal");
        assert!(!validator.is_valid(&bad));
    }

    #[test]
    fn every_kind_is_a_result_of_its_rule() {
        let verdict = samples::rejected();
        let log = log(&[verdict.clone(), samples::disqualified()], "/home/user");
        let run = &log["runs"][0];
        let results = run["results"].as_array().unwrap();
        assert_eq!(results.len(), failures::kinds(&verdict).len() + 1);
        for result in results {
            let index = result["ruleIndex"].as_u64().unwrap() as usize;
            assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
        }
        assert_eq!(results[0]["ruleId"], "rows_mixed");
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "bob/tribunal.toml");
        let levels: Vec<_> = results.iter().map(|result| result["level"].as_str().unwrap()).collect();
        assert_eq!(levels, ["error", "error", "warning", "error"]);
    }

    #[test]
    fn what_is_in_the_source_has_its_line() {
        let mut verdict = samples::accepted();
        let mut finding = samples::finding("code/src/my kernel.py/12:no_dead_code", Family::Basic);
        (finding.outcome, finding.severity) = (Outcome::Fail, Severity::Minor);
        verdict.findings.push(finding);
        let log = log(&[verdict], "/elsewhere");
        let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "file:///home/user/alice/src/my%20kernel.py");
        assert_eq!(place["region"]["startLine"], 12);
    }
}
