//! Who is asked: a file of reviewers.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Reviewers in one file.
const REVIEWERS_MAX: usize = 16;

/// A model behind an OpenAI-compatible endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewer {
    /// What it is called in reviews and records.
    pub name: String,
    /// Where the API begins: `/v1/chat/completions` is added.
    pub url: String,
    /// The model's name at the endpoint.
    pub model: String,
    /// The environment variable that holds the key. The key itself is in no file and in no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// Seconds that an answer may take.
    #[serde(default = "timeout_s")]
    pub timeout_s: u64,
    /// How much is left to chance in the model's choice of words.
    #[serde(default)]
    pub temperature: f64,
    /// Where that chance comes from.
    #[serde(default)]
    pub seed: u32,
    /// Tokens of an answer.
    #[serde(default = "max_tokens")]
    pub max_tokens: u32,
    /// Characters of source that it is shown in one request.
    #[serde(default = "context_chars")]
    pub context_chars: usize,
}

fn timeout_s() -> u64 {
    120
}

fn max_tokens() -> u32 {
    2048
}

fn context_chars() -> usize {
    24_000
}

/// What is wrong with a file of reviewers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {what}")]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// What is wrong in it, with the key.
    pub what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    reviewer: Vec<Reviewer>,
}

/// Reads a file of reviewers; `path` is what errors call it.
pub fn reviewers(text: &str, path: &Path) -> Result<Vec<Reviewer>, ConfigError> {
    let error = |what: String| ConfigError { file: path.display().to_string(), what };
    let File { reviewer: reviewers } =
        toml::from_str(text).map_err(|wrong| error(wrong.to_string().trim_end().to_owned()))?;
    if reviewers.is_empty() || reviewers.len() > REVIEWERS_MAX {
        return Err(error(format!(
            "1 to {REVIEWERS_MAX} tables [[reviewer]] are needed, and there are {}",
            reviewers.len()
        )));
    }
    for (index, reviewer) in reviewers.iter().enumerate() {
        let wrong = |key: &str, what: &str| {
            Err(error(format!("`{key}` of reviewer {} (`{}`): {what}", index + 1, reviewer.name)))
        };
        if reviewer.name.trim().is_empty() || reviewer.name.chars().count() > 40 {
            return wrong("name", "1 to 40 characters are needed");
        }
        if reviewers[..index].iter().any(|other| other.name == reviewer.name) {
            return wrong("name", "there is another of that name");
        }
        let url = reviewer.url.as_str();
        if !(url.starts_with("http://") || url.starts_with("https://")) || url.contains(['?', '#', '@']) {
            return wrong("url", "the base of an API is needed, as http://127.0.0.1:8080");
        }
        if !(1..=3600).contains(&reviewer.timeout_s) {
            return wrong("timeout_s", "1 to 3600 seconds");
        }
        if !(0.0..=2.0).contains(&reviewer.temperature) {
            return wrong("temperature", "0 to 2");
        }
        if !(16..=65_536).contains(&reviewer.max_tokens) {
            return wrong("max_tokens", "16 to 65536");
        }
        if !(500..=1 << 20).contains(&reviewer.context_chars) {
            return wrong("context_chars", "500 to 1048576");
        }
    }
    Ok(reviewers)
}

/// The file again, as a record keeps it.
pub(crate) fn written(reviewers: &[Reviewer]) -> String {
    let file = File { reviewer: reviewers.to_vec() };
    toml::to_string(&file).expect("names, numbers and texts")
}

impl Reviewer {
    /// Where requests go.
    pub fn endpoint(&self) -> String {
        let base = self.url.trim_end_matches('/');
        format!("{}/v1/chat/completions", base.strip_suffix("/v1").unwrap_or(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[[reviewer]]\nname = \"a\"\nurl = \"http://127.0.0.1:1\"\nmodel = \"m\"\n";

    fn error(text: &str) -> String {
        reviewers(text, Path::new("who.toml")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_left_out_has_a_default_and_the_file_survives_its_text() {
        let read = reviewers(LEAST, Path::new("who.toml")).unwrap();
        assert_eq!((read[0].temperature, read[0].key_env.as_deref()), (0.0, None));
        assert_eq!(read[0].endpoint(), "http://127.0.0.1:1/v1/chat/completions");
        assert_eq!(reviewers(&written(&read), Path::new("who.toml")).unwrap(), read);
    }

    #[test]
    fn an_api_may_be_named_with_its_version() {
        for url in ["https://h/", "https://h/v1", "https://h/v1/"] {
            let reviewer = &reviewers(&LEAST.replace("http://127.0.0.1:1", url), Path::new("f")).unwrap()[0];
            assert_eq!(reviewer.endpoint(), "https://h/v1/chat/completions");
        }
    }

    #[test]
    fn errors_name_the_file_and_the_key() {
        for (text, key) in [
            (LEAST.to_owned() + "api_key = \"secret\"\n", "api_key"),
            (LEAST.replace("model = \"m\"", ""), "model"),
            (LEAST.replace("http:", "ftp:"), "url"),
            (LEAST.to_owned() + "timeout_s = 0\n", "timeout_s"),
            (LEAST.to_owned() + "temperature = nan\n", "temperature"),
            (LEAST.to_owned() + "max_tokens = 1\n", "max_tokens"),
            (LEAST.to_owned() + "context_chars = 1\n", "context_chars"),
            (LEAST.to_owned() + LEAST, "name"),
            (String::new(), "[[reviewer]]"),
        ] {
            let error = error(&text);
            assert!(error.starts_with("who.toml: ") && error.contains(key), "{key}: {error}");
        }
    }
}
