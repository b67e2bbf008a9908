//! Finding things by names that people type from memory.

/// A name nobody has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no {kind} `{wanted}`{}; `tribunal plan --list` lists all, {remedy}", suggestion(.near))]
pub struct UnknownName {
    /// What was looked for: a model, a device.
    pub kind: &'static str,
    /// The name that was given.
    pub wanted: String,
    /// Names that look like it, nearest first.
    pub near: Vec<String>,
    /// What to do about something that is not in the list.
    pub remedy: &'static str,
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(" (near: {})", near.join(", ")) }
}

/// The position of the name. Case and punctuation do not matter: `Llama3 8B` is `llama-3-8b`.
pub(crate) fn position(wanted: &str, names: &[&str]) -> Option<usize> {
    let wanted = letters(wanted);
    names.iter().position(|name| letters(name) == wanted)
}

/// Up to five names that look like the wanted one: those that contain it or are contained, then those a few edits away.
pub(crate) fn near(wanted: &str, names: &[&str]) -> Vec<String> {
    let wanted = letters(wanted);
    let mut found: Vec<(usize, &str)> = names
        .iter()
        .filter_map(|&name| {
            let letters = letters(name);
            let contains = wanted.len() >= 2 && (letters.contains(&wanted) || wanted.contains(&letters));
            let edits = edits(&wanted, &letters);
            let close = edits <= 2.max(letters.len() / 3);
            (contains || close).then_some((if contains { 0 } else { edits }, name))
        })
        .collect();
    found.sort_by_key(|&(distance, _)| distance);
    found.into_iter().take(5).map(|(_, name)| name.to_owned()).collect()
}

fn letters(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Levenshtein's distance: insertions, deletions and replacements that make one the other.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 5] = ["llama-2-7b", "llama-3-8b", "llama-3.1-8b", "qwen3-8b", "gpt-oss-20b"];

    #[test]
    fn punctuation_and_case_do_not_matter() {
        assert_eq!(position("Llama3 8B", &NAMES), Some(1));
        assert_eq!(position("GPT_OSS_20b", &NAMES), Some(4));
        assert_eq!(position("llama", &NAMES), None);
    }

    #[test]
    fn near_names_are_those_that_contain_it_or_are_a_few_edits_away() {
        assert_eq!(near("lama-3-8b", &NAMES)[0], "llama-3-8b");
        assert_eq!(near("gpt-oss", &NAMES), ["gpt-oss-20b"]);
        assert_eq!(near("completely-different", &NAMES), Vec::<String>::new());
    }

    #[test]
    fn edits_are_counted_as_levenshtein_did() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
    }
}
