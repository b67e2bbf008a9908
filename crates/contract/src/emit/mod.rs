//! What a contestant is given, made from a challenge's description.

mod c;
mod claims;
mod cuda;
mod page;
mod python;
mod rust;
pub mod stand_in;

pub use claims::page as claims_page;
pub use page::page;

use crate::{Challenge, Language};

/// A file to lay out: path relative to the contestant's folder, and contents.
pub type File = (&'static str, String);

/// Everything a contestant starts from in a language: a manifest, the contract where it is a file, and a starter
/// whose operations all refuse. `name` is the contestant's.
pub fn starter(challenge: &Challenge, language: Language, name: &str) -> Vec<File> {
    let (entry, mut files) = match language {
        Language::Python => ("submission.py", vec![("submission.py", python::starter(challenge))]),
        Language::C => (
            "submission.c",
            vec![("tribunal.h", c::header(challenge)), ("submission.c", c::starter(challenge))],
        ),
        Language::Rust => (
            "Cargo.toml",
            vec![
                ("Cargo.toml", rust::cargo_manifest()),
                ("src/contract.rs", rust::contract(challenge)),
                ("src/lib.rs", rust::starter(challenge)),
            ],
        ),
        Language::Cuda => ("kernels.cu", vec![("kernels.cu", cuda::starter(challenge))]),
    };
    let mut text = manifest(challenge, language, entry, name);
    if language == Language::Cuda {
        text += &cuda::launches(challenge);
    }
    files.insert(0, ("tribunal.toml", text));
    files
}

/// The C header of a challenge.
pub fn c_header(challenge: &Challenge) -> String {
    c::header(challenge)
}

/// The Rust form of the header.
pub fn rust_contract(challenge: &Challenge) -> String {
    rust::contract(challenge)
}

fn manifest(challenge: &Challenge, language: Language, entry: &str, name: &str) -> String {
    let mut text = format!(
        "name = {}\nchallenge = \"{}\"\nlanguage = \"{language}\"\nentry = \"{entry}\"\n",
        toml::Value::from(name),
        challenge.id
    );
    let names = |names: Vec<&str>| names.join(", ");
    let capabilities = names(challenge.capabilities.iter().map(|c| c.name).collect());
    if !capabilities.is_empty() {
        text += &format!("capabilities = []   # any of: {capabilities}\n");
    }
    text += "# tests = \"…\"       # the command that runs your own tests, if you have any\n";
    if !challenge.claims.is_empty() {
        text += "\n# What you claim about your work, for a judge that checks it against measurements.\n# [claims]\n";
        for claim in challenge.claims {
            text += &format!("# {} = {}   # {}\n", claim.name, claim.takes.example(), claim.doc);
        }
    }
    text
}

/// Breaks a text into lines of at most `width` characters, each after `prefix`.
fn wrap(text: &str, width: usize, prefix: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && prefix.len() + line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{prefix}{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manifest, challenges};

    #[test]
    fn every_starter_has_a_manifest_that_parses() {
        for challenge in challenges::ALL {
            for language in [Language::Python, Language::C, Language::Rust, Language::Cuda] {
                let files = starter(challenge, language, "a \"name\"");
                let (path, text) = &files[0];
                let manifest = Manifest::parse(text, path).unwrap();
                assert_eq!(manifest.name, "a \"name\"");
                assert!(files.iter().any(|(path, _)| manifest.entry.as_os_str() == *path));
            }
        }
    }

    #[test]
    fn every_claim_of_a_starter_parses() {
        for challenge in challenges::ALL {
            let text = manifest(challenge, Language::C, "a.c", "a");
            let (before, claims) = text.split_once("# [claims]\n").expect("every challenge has claims");
            let claims: Vec<&str> = claims.lines().map(|line| line.trim_start_matches("# ")).collect();
            let text = format!("{before}[claims]\n{}", claims.join("\n"));
            let manifest = Manifest::parse(&text, "tribunal.toml").unwrap();
            assert_eq!(manifest.claims.len(), challenge.claims.len());
        }
    }

    #[test]
    fn wrapping_keeps_every_word() {
        assert_eq!(wrap("one two three", 10, "# "), "# one two\n# three\n");
        assert_eq!(wrap("", 10, "# "), "# \n");
    }
}
