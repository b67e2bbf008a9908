//! What hostile bytes look like: strategies for the property tests of whatever reads bytes that nobody trusts.
//!
//! Noise alone gets no further than a parser's first line. So a valid document is changed here and there, and most of what comes of it is
//! believed for a while.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// What numbers are replaced by: the ends of every type, and what is no number everywhere.
const NUMBERS: [&str; 18] = [
    "0",
    "-0",
    "-1",
    "255",
    "65536",
    "2147483648",
    "-2147483649",
    "4294967296",
    "9007199254740993",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1e308",
    "1e999",
    "5e-324",
    "NaN",
    "-inf",
    "0.1",
];

/// What is put in between.
const WORDS: [&str; 20] = [
    "\0",
    "\"",
    "'",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "\\",
    "\n",
    "\u{1b}[2J",
    "\u{202e}",
    "null",
    "true",
    "//",
    "é",
    "\u{10ffff}",
];

/// What can be nested.
const OPENERS: [&str; 6] = ["[", "{\"a\":", "(", "-", "[[a.", "<a>"];

#[derive(Debug, Clone)]
enum Change {
    Flip { at: Index, mask: u8 },
    Cut { from: Index, bytes: usize },
    Truncate { at: Index },
    Repeat { from: Index, bytes: usize, times: usize },
    Move { from: Index, bytes: usize, to: Index },
    Number { which: Index, by: &'static str },
    Insert { at: Index, word: &'static str },
    Nest { at: Index, opener: &'static str, depth: usize },
}

impl Change {
    fn apply(&self, text: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let len = text.len();
        let part = |from: &Index, bytes: usize| {
            let from = from.index(len);
            from..from.saturating_add(bytes).min(len)
        };
        match self {
            Self::Flip { at, mask } => text[at.index(len)] ^= mask,
            Self::Cut { from, bytes } => drop(text.drain(part(from, *bytes))),
            Self::Truncate { at } => text.truncate(at.index(len)),
            Self::Repeat { from, bytes, times } => {
                let part = part(from, *bytes);
                let copies = text[part.clone()].repeat(*times);
                text.splice(part.end..part.end, copies);
            }
            Self::Move { from, bytes, to } => {
                let moved: Vec<u8> = text.drain(part(from, *bytes)).collect();
                let to = to.index(text.len() + 1);
                text.splice(to..to, moved);
            }
            Self::Number { which, by } => {
                let numbers = numbers(text);
                if !numbers.is_empty() {
                    text.splice(which.get(&numbers).clone(), by.bytes());
                }
            }
            Self::Insert { at, word } => {
                let at = at.index(len);
                text.splice(at..at, word.bytes());
            }
            Self::Nest { at, opener, depth } => {
                let at = at.index(len);
                text.splice(at..at, opener.repeat(*depth).into_bytes());
            }
        }
    }
}

/// Where numbers stand in a text.
fn numbers(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let of_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].iter().position(u8::is_ascii_digit).map(|skipped| at + skipped) {
        at = start + text[start..].iter().take_while(|byte| of_number(byte)).count();
        found.push(start..at);
    }
    found
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 1..=u8::MAX).prop_map(|(at, mask)| Change::Flip { at, mask }),
        (at(), 1..40_usize).prop_map(|(from, bytes)| Change::Cut { from, bytes }),
        at().prop_map(|at| Change::Truncate { at }),
        (at(), 1..60_usize, 1..40_usize).prop_map(|(from, bytes, times)| Change::Repeat {
            from,
            bytes,
            times
        }),
        (at(), 1..60_usize, at()).prop_map(|(from, bytes, to)| Change::Move { from, bytes, to }),
        (at(), select(&NUMBERS[..])).prop_map(|(which, by)| Change::Number { which, by }),
        (at(), select(&NUMBERS[..])).prop_map(|(which, by)| Change::Number { which, by }),
        (at(), select(&WORDS[..])).prop_map(|(at, word)| Change::Insert { at, word }),
        (at(), select(&OPENERS[..]), prop_oneof![1..20_usize, Just(10_000)])
            .prop_map(|(at, opener, depth)| Change::Nest { at, opener, depth }),
    ]
}

/// A document with a few changes: bytes flipped, cut, repeated and moved, numbers replaced, words put in between, brackets without end.
pub fn mutated(document: impl Into<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let document = document.into();
    vec(change(), 1..6).prop_map(move |changes| {
        let mut text = document.clone();
        for change in &changes {
            change.apply(&mut text);
        }
        text
    })
}

/// As [`mutated`], made text.
pub fn mutated_text(document: &str) -> impl Strategy<Value = String> {
    mutated(document).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Noise, or a document with a few changes: one time in four the one, else the other.
pub fn bytes(document: impl Into<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![1 => vec(any::<u8>(), 0..300), 3 => mutated(document)]
}

/// As [`bytes()`], made text.
pub fn text(document: &str) -> impl Strategy<Value = String> {
    bytes(document).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// So many cases, unless the environment's `PROPTEST_CASES` asks for another number; failures are printed and not written down.
pub fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        ProptestConfig { cases: usual, ..config }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    #[test]
    fn changes_are_many_and_leave_part_of_the_document() {
        let document = r#"{"shape":[1,22,3.5],"name":"x"}"#;
        let mut runner = TestRunner::deterministic();
        let strategy = mutated(document);
        let made: Vec<Vec<u8>> =
            (0..200).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        let distinct: std::collections::BTreeSet<_> = made.iter().collect();
        assert!(distinct.len() > 180, "{}", distinct.len());
        let has =
            |part: &[u8]| made.iter().filter(|text| text.windows(part.len()).any(|w| w == part)).count();
        assert!(has(b"\"shape\"") > 60, "{}", has(b"\"shape\""));
        assert!(has(b"1e999") > 5 && has(b"[[[[[[") > 5);
    }

    #[test]
    fn numbers_are_found_where_they_stand() {
        assert_eq!(numbers(b"a1,22.5-x30"), [1..2, 3..7, 9..11]);
        assert_eq!(numbers(b"none"), []);
    }
}
