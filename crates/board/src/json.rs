//! Verdicts for programs: one line of JSON, and its schema.

use serde::Deserialize;
use tribunal_judge::{Contradiction, Measurement, Verdict};

/// The form of verdict that this version writes and reads.
pub const FORM: &str = "tribunal.verdict/1";

/// Why a text is no verdict that this version reads.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Not the JSON it should be.
    #[error("not a verdict: {0}")]
    Syntax(String),
    /// A verdict of another form, perhaps from a newer version.
    #[error("a verdict of the form `{0}`, which this version does not read")]
    Form(String),
    /// A verdict that says something else than what follows from its evidence.
    #[error("a verdict that was altered: {0}")]
    Altered(#[from] Contradiction),
}

/// The verdict on one line, without a line break at its end.
///
/// JSON knows no NaN and no infinity. An infinite `used` is written as `null`; a measurement whose value is not finite
/// is left out and named in `omissions`.
pub fn line(verdict: &Verdict) -> String {
    serde_json::to_string(&finite(verdict)).expect("a verdict has string keys only")
}

/// Reads what [`line()`] wrote.
pub fn read(text: &str) -> Result<Verdict, ReadError> {
    #[derive(Deserialize)]
    struct Form {
        schema: String,
    }
    // The form first: whatever else a newer one has, that is the reason to give.
    let Form { schema } = serde_json::from_str(text).map_err(|error| ReadError::Syntax(error.to_string()))?;
    if schema != FORM {
        return Err(ReadError::Form(schema));
    }
    serde_json::from_str(text).map_err(|error| ReadError::Syntax(error.to_string()))
}

/// The JSON Schema of a verdict.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Verdict).to_value();
    schema["properties"]["schema"]["const"] = FORM.into();
    schema
}

/// What JSON can carry of a verdict.
pub(crate) fn finite(verdict: &Verdict) -> Verdict {
    let mut verdict = verdict.clone();
    let lost = verdict.measurements.iter().filter(|m| !m.value.is_finite());
    let lost: Vec<_> =
        lost.map(|m| format!("{} of {}: {} is no measurement", m.name, m.workload, m.value)).collect();
    verdict.omissions.extend(lost);
    verdict.measurements.retain(|measurement| measurement.value.is_finite());
    for measurement in &mut verdict.measurements {
        let Measurement { interval, of_reference_interval, samples, .. } = measurement;
        for interval in [interval, of_reference_interval] {
            *interval = interval.filter(|ends| ends.iter().all(|end| end.is_finite()));
        }
        samples.retain(|sample| sample.is_finite());
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use serde_json::{Value, json};

    #[test]
    fn verdicts_are_what_their_schema_says() {
        let validator = jsonschema::validator_for(&schema()).expect("a schema");
        for verdict in samples::all() {
            let value: Value = serde_json::from_str(&line(&verdict)).unwrap();
            let faults: Vec<_> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(faults.is_empty(), "{}: {faults:?}", verdict.submission.name);
        }
    }

    #[test]
    fn the_schema_refuses_what_is_no_verdict() {
        let validator = jsonschema::validator_for(&schema()).expect("a schema");
        let good: Value = serde_json::from_str(&line(&samples::rejected())).unwrap();
        let spoil = |path: &str, value: Value| {
            let mut verdict = good.clone();
            *verdict.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
            assert!(!validator.is_valid(&verdict), "{path}");
        };
        assert!(validator.is_valid(&good));
        spoil("/schema", json!("tribunal.verdict/2"));
        spoil("/outcome", json!("passed"));
        spoil("/score", json!("good"));
        spoil("/findings/0/outcome", json!("skipped"));
        spoil("/findings/0/severity", json!(3));
        spoil("/dimensions/correctness", json!(100.0));
        spoil("/measurements/0/interval", json!([1.0]));
        spoil("/machine", json!(null));
    }

    #[test]
    fn every_field_of_the_interface_is_there() {
        fn kind(value: &Value) -> &'static str {
            match value {
                Value::Null => "null",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            }
        }
        let verdict: Value = serde_json::from_str(&line(&samples::rejected())).unwrap();
        let mixed = verdict["findings"].as_array().unwrap().iter().position(|f| f["suspect"] == "rows_mixed");
        let finding = format!("/findings/{}", mixed.unwrap());
        for (path, expected) in [
            ("/schema", "string"),
            ("/id", "string"),
            ("/judge/version", "string"),
            ("/judge/seed", "string"),
            ("/judge/effort", "string"),
            ("/submission/name", "string"),
            ("/submission/challenge", "string"),
            ("/submission/language", "string"),
            ("/submission/sha256", "string"),
            ("/outcome", "string"),
            ("/score", "number"),
            ("/dimensions/correctness/score", "number"),
            ("/dimensions/correctness/weight", "number"),
            ("/dimensions/correctness/assessed", "bool"),
            ("/dimensions/tests/score", "null"),
            ("{finding}/id", "string"),
            ("{finding}/case", "string"),
            ("{finding}/family", "string"),
            ("{finding}/dimension", "string"),
            ("{finding}/outcome", "string"),
            ("{finding}/severity", "string"),
            ("{finding}/message", "string"),
            ("{finding}/suspect", "string"),
            ("{finding}/used", "number"),
            ("{finding}/limit", "number"),
            ("{finding}/replay", "string"),
            ("/measurements/0/name", "string"),
            ("/measurements/0/workload", "string"),
            ("/measurements/0/value", "number"),
            ("/measurements/0/unit", "string"),
            ("/measurements/0/interval/1", "number"),
            ("/measurements/0/floor", "number"),
            ("/measurements/0/of_floor", "number"),
            ("/measurements/0/of_reference", "number"),
            ("/machine/cpu", "string"),
            ("/machine/cores", "number"),
            ("/machine/memory_bytes", "number"),
            ("/machine/gpu", "null"),
        ] {
            let path = path.replace("{finding}", &finding);
            let value = verdict.pointer(&path).unwrap_or_else(|| panic!("no {path}"));
            assert_eq!(kind(value), expected, "{path}");
        }
        let outcomes = samples::all().map(|verdict| verdict.outcome.name());
        for outcome in ["accepted", "rejected", "disqualified", "infrastructure"] {
            assert!(outcomes.contains(&outcome));
        }
    }

    #[test]
    fn a_verdict_survives_its_line() {
        for verdict in samples::all() {
            let line = line(&verdict);
            assert!(!line.contains('\n'));
            assert_eq!(read(&line), Ok(verdict));
        }
    }

    #[test]
    fn what_is_not_finite_is_null_or_named() {
        let mut verdict = samples::rejected();
        verdict.findings[0].used = Some(f64::INFINITY);
        verdict.measurements[0].value = f64::NAN;
        verdict.measurements[1].interval = Some([1.0, f64::INFINITY]);
        verdict.measurements[1].of_floor = Some(f64::NAN);
        let line = line(&verdict);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["findings"][0]["used"], Value::Null);
        assert!(jsonschema::is_valid(&schema(), &value));
        let read = read(&line).expect("it can be read");
        assert_eq!(read.measurements.len(), verdict.measurements.len() - 1);
        assert_eq!(read.omissions.last().unwrap(), "time of 512x768: NaN is no measurement");
    }

    #[test]
    fn a_form_of_the_future_is_called_that() {
        let future = line(&samples::accepted()).replace("tribunal.verdict/1", "tribunal.verdict/2");
        assert_eq!(read(&future), Err(ReadError::Form("tribunal.verdict/2".to_owned())));
        assert!(matches!(read("{}"), Err(ReadError::Syntax(_))));
        assert!(matches!(read("{\"schema\": \"tribunal.verdict/1\"}"), Err(ReadError::Syntax(_))));
    }
}
