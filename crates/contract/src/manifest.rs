//! A submission's `tribunal.toml`.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::launch::{Kernels, OperationDocument};
use crate::{Challenge, Claimed, challenges};

/// Longest contestant name, in characters: it is printed in tables.
const NAME_CHARS_MAX: usize = 64;

/// What `tribunal.toml` says, checked against the challenge it names.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// The contestant's name on the board.
    pub name: String,
    /// The challenge it answers.
    pub challenge: &'static str,
    /// How it is to be run.
    pub language: Language,
    /// The file to load or to build, relative to the submission's folder.
    pub entry: PathBuf,
    /// Optional parts of the challenge that it claims to implement.
    pub capabilities: Vec<&'static str>,
    /// The command that runs its own tests.
    pub tests: Option<String>,
    /// What it claims about itself.
    pub claims: BTreeMap<&'static str, Claimed>,
    /// Of a CUDA submission, what it launches for each operation.
    pub kernels: Option<Kernels>,
    /// Of a CUDA submission, the compiler that it asks for.
    pub compiler: Option<FrontEnd>,
}

/// What makes PTX of a CUDA source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FrontEnd {
    /// clang, with headers of our own.
    Clang,
    /// NVIDIA's runtime compiler, with its headers.
    Nvrtc,
}

impl FrontEnd {
    /// The name in manifests and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clang => "clang",
            Self::Nvrtc => "nvrtc",
        }
    }
}

/// How a submission is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A Python module.
    Python,
    /// Anything with a C ABI: a C source, or a shared library built from C, C++, Zig …
    C,
    /// A cargo project that makes a cdylib.
    Rust,
    /// CUDA kernels.
    Cuda,
}

impl Language {
    /// The name in manifests and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::C => "c",
            Self::Rust => "rust",
            Self::Cuda => "cuda",
        }
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Why a manifest was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ManifestError {
    /// The file, as it was given.
    pub file: String,
    /// Line of the fault, from 1.
    pub line: usize,
    /// Column of the fault in characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right; names the key.
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    name: Spanned<String>,
    challenge: Spanned<String>,
    language: Spanned<Language>,
    entry: Spanned<String>,
    #[serde(default)]
    capabilities: Vec<Spanned<String>>,
    tests: Option<String>,
    #[serde(default)]
    claims: BTreeMap<Spanned<String>, Spanned<toml::Value>>,
    compiler: Option<Spanned<FrontEnd>>,
    #[serde(default)]
    operation: BTreeMap<Spanned<String>, OperationDocument>,
}

impl Manifest {
    /// The name of the file in a submission's folder.
    pub const FILE_NAME: &'static str = "tribunal.toml";

    /// Reads a manifest. `file` is the name under which faults are reported.
    pub fn parse(text: &str, file: &str) -> Result<Self, ManifestError> {
        let fault = |offset: usize, message: String| {
            let before = text.get(..offset.min(text.len())).unwrap_or(text);
            let line_start = before.rfind('\n').map_or(0, |i| i + 1);
            ManifestError {
                file: file.to_owned(),
                line: before.matches('\n').count() + 1,
                column: before[line_start..].chars().count() + 1,
                message,
            }
        };

        let document: Document = toml::from_str(text)
            .map_err(|error| fault(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;

        check_name(document.name.get_ref())
            .map_err(|why| fault(document.name.span().start, format!("`name` {why}")))?;

        let challenge = challenges::find(document.challenge.get_ref()).ok_or_else(|| {
            let known = challenges::ALL.iter().map(|challenge| challenge.id);
            let message = unknown("challenge", document.challenge.get_ref(), known);
            fault(document.challenge.span().start, message)
        })?;

        let entry = PathBuf::from(document.entry.get_ref());
        check_entry(&entry).map_err(|why| fault(document.entry.span().start, format!("`entry` {why}")))?;

        let capabilities = document
            .capabilities
            .iter()
            .map(|name| {
                let known = challenge.capabilities.iter().map(|capability| capability.name);
                pick(name.get_ref(), known.clone())
                    .ok_or_else(|| fault(name.span().start, unknown("capability", name.get_ref(), known)))
            })
            .collect::<Result<_, _>>()?;

        let claims = document
            .claims
            .iter()
            .map(|(name, value)| {
                read_claim(challenge, name.get_ref(), value.get_ref()).map_err(|(on_value, message)| {
                    fault(if on_value { value.span().start } else { name.span().start }, message)
                })
            })
            .collect::<Result<_, _>>()?;

        let kernels = document.kernels(challenge).map_err(|(offset, message)| fault(offset, message))?;

        Ok(Self {
            name: document.name.into_inner(),
            challenge: challenge.id,
            language: document.language.into_inner(),
            kernels,
            compiler: document.compiler.map(Spanned::into_inner),
            entry,
            capabilities,
            tests: document.tests,
            claims,
        })
    }
}

impl Document {
    fn kernels(&self, challenge: &'static Challenge) -> Result<Option<Kernels>, (usize, String)> {
        if *self.language.get_ref() == Language::Cuda {
            if self.operation.is_empty() {
                let first = challenge.operations[0].name;
                let message = format!(
                    "a CUDA submission says what it launches: expected [operation.{first}] with [[operation.{first}.launch]]"
                );
                return Err((self.language.span().start, message));
            }
            return Kernels::read(challenge, &self.operation).map(Some);
        }
        let first = self.operation.keys().next().map(|name| ("operation", name.span().start));
        let first = first.or(self.compiler.as_ref().map(|compiler| ("compiler", compiler.span().start)));
        match first {
            Some((key, at)) => Err((at, format!("`{key}` is only for `language` \"cuda\""))),
            None => Ok(None),
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(format!("is longer than {NAME_CHARS_MAX} characters"));
    }
    match name.chars().find(|c| c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')) {
        Some(c) => Err(format!("contains the invisible character U+{:04X}", c as u32)),
        None => Ok(()),
    }
}

fn check_entry(entry: &Path) -> Result<(), &'static str> {
    if entry.as_os_str().is_empty() {
        return Err("is empty: name the file to load or to build");
    }
    if entry.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        Ok(())
    } else {
        Err("must be a path inside the submission's folder, without `..`")
    }
}

/// The flag says whether the value is at fault, not the name.
fn read_claim(
    challenge: &Challenge,
    name: &str,
    value: &toml::Value,
) -> Result<(&'static str, Claimed), (bool, String)> {
    let known = challenge.claims.iter().map(|claim| claim.name);
    let claim = challenge.claim(name).ok_or_else(|| (false, unknown("claim", name, known)))?;
    let refused = || {
        let message = format!("claim `{}` must be {}, got {value}", claim.name, claim.takes.expected());
        (true, message)
    };
    claim.takes.read(value).map(|claimed| (claim.name, claimed)).ok_or_else(refused)
}

fn pick(name: &str, mut known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    known.find(|candidate| *candidate == name)
}

fn unknown(what: &str, name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known = known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let expected =
        if known.is_empty() { "none are defined here".to_owned() } else { format!("expected {known}") };
    format!("unknown {what} `{}`, {expected}", name.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
name = "alice"
challenge = "layer_norm_backward"
language = "python"
entry = "submission.py"
capabilities = ["float64"]
tests = "python -m pytest -q"

[claims]
cache_tensors = 1
repeatable = true
bound = "memory"
"#;

    fn refusal(text: &str) -> String {
        Manifest::parse(text, "alice/tribunal.toml").expect_err("a fault").to_string()
    }

    #[test]
    fn a_full_manifest_is_read() {
        let manifest = Manifest::parse(GOOD, "tribunal.toml").unwrap();
        assert_eq!(manifest.name, "alice");
        assert_eq!(manifest.challenge, "layer_norm_backward");
        assert_eq!(manifest.language, Language::Python);
        assert_eq!(manifest.entry, Path::new("submission.py"));
        assert_eq!(manifest.capabilities, ["float64"]);
        assert_eq!(manifest.claims["cache_tensors"], Claimed::Number(1.0));
        assert_eq!(manifest.claims["repeatable"], Claimed::YesNo(true));
        assert_eq!(manifest.claims["bound"], Claimed::Word("memory"));
    }

    #[test]
    fn faults_name_file_key_and_position() {
        let with = |from: &str, to: &str| refusal(&GOOD.replace(from, to));
        assert_eq!(
            with("tests =", "test ="),
            "alice/tribunal.toml:7:1: unknown field `test`, expected one of `name`, `challenge`, `language`, \
             `entry`, `capabilities`, `tests`, `claims`, `compiler`, `operation`"
        );
        assert_eq!(
            with("layer_norm_backward", "layernorm"),
            "alice/tribunal.toml:3:13: unknown challenge `layernorm`, expected `layer_norm_backward`, \
             `fused_softmax_topk`, `kv_cache`"
        );
        assert_eq!(
            with("\"float64\"", "\"float8\""),
            "alice/tribunal.toml:6:17: unknown capability `float8`, expected `float64`, `bfloat16`"
        );
        assert_eq!(
            with("cache_tensors = 1", "cache_tensors = \"few\""),
            "alice/tribunal.toml:10:17: claim `cache_tensors` must be a number that is not negative, got \"few\""
        );
        for number in ["-1", "nan", "inf"] {
            let said = with("cache_tensors = 1", &format!("cache_tensors = {number}"));
            assert!(
                said.contains(":10:17: claim `cache_tensors` must be a number that is not negative"),
                "{said}"
            );
        }
        assert_eq!(
            with("= true", "= 1"),
            "alice/tribunal.toml:11:14: claim `repeatable` must be true or false, got 1"
        );
        assert_eq!(
            with("\"memory\"", "\"disk\""),
            "alice/tribunal.toml:12:9: claim `bound` must be \"memory\" or \"compute\", got \"disk\""
        );
        assert_eq!(
            with("cache_tensors", "speed"),
            "alice/tribunal.toml:10:1: unknown claim `speed`, expected `passes`, `cache_tensors`, `max_error_budgets`, \
             `time_exponent`, `speedup_over_reference`, `bound`, `repeatable`"
        );
        assert!(
            with("\"python\"", "\"cobol\"").starts_with("alice/tribunal.toml:4:12: unknown variant `cobol`")
        );
        assert!(with("name = \"alice\"\n", "").ends_with("missing field `name`"));
        assert!(with("name = \"alice\"", "name = alice").starts_with("alice/tribunal.toml:2:8:"));
    }

    #[test]
    fn an_entry_cannot_leave_the_folder() {
        for entry in ["../kernel.py", "/etc/passwd", "a/../../b.c", ""] {
            let text = GOOD.replace("submission.py", entry);
            assert!(refusal(&text).starts_with("alice/tribunal.toml:5:9: `entry` "), "{entry}");
        }
    }

    #[test]
    fn a_name_cannot_forge_the_page_it_is_shown_on() {
        assert!(refusal(&GOOD.replace("alice", "\\u001b[2Jalice")).ends_with("U+001B"));
        assert!(refusal(&GOOD.replace("alice", "\\u202ealice")).ends_with("U+202E"));
        assert!(refusal(&GOOD.replace("alice", "  ")).ends_with("is empty"));
        assert!(refusal(&GOOD.replace("alice", &"a".repeat(65))).ends_with("longer than 64 characters"));
    }
}
