//! What a reviewer is shown of a submission, and how a citation is held to it.
//!
//! Files go by a label (`A/1.py`): neither contestants nor files speak through their names. Lines keep their numbers, and blank ones are
//! left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tribunal_contract::Language;
use tribunal_judge::{SourceFile, mute};

/// Lines that one citation may name.
const LINES_MAX: usize = 50;

/// Why nothing is shown of a file whose source was not read.
const UNREAD: &str = "too large, or it takes too many steps to parse";

/// What is shown of one contestant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Material {
    files: Vec<File>,
    /// What is not shown.
    pub left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq)]
struct File {
    label: String,
    path: String,
    /// Number, from 1, and text of each line that is not blank.
    lines: Vec<(usize, String)>,
}

/// What is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The file.
    pub path: String,
    /// From which line on; the whole file from 1.
    pub from_line: usize,
    /// Why.
    pub why: String,
}

/// Where in a submission.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Citation {
    /// The file's path in the submission.
    pub path: String,
    /// The first line of the quote, from 1.
    pub first_line: usize,
    /// The last.
    pub last_line: usize,
    /// The lines' text or part of it, as it was shown.
    pub quote: String,
}

/// Why an item is discarded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It has not the form that was asked for.
    #[error("not of the form that was asked for: {0}")]
    Form(String),
    /// No file of that label was shown.
    #[error("no such file was shown")]
    NoSuchFile,
    /// The lines are not there, or are too many.
    #[error("no such lines were shown, or more than {LINES_MAX}")]
    NoSuchLines,
    /// The quote holds no letter and no digit.
    #[error("the quote holds no word")]
    EmptyQuote,
    /// The quote is in the file and elsewhere.
    #[error("the quote stands in line {0}")]
    QuoteElsewhere(usize),
    /// The quote is not in the file.
    #[error("the quote stands nowhere in the file")]
    NoSuchQuote,
    /// The check is none of the challenge's.
    #[error("no such check: {0}")]
    NoSuchCheck(String),
    /// More was said than is taken.
    #[error("more items than are taken")]
    TooMany,
}

impl Material {
    /// Source code, muted.
    pub fn code(party: char, files: &[SourceFile], language: Language, chars: usize) -> Self {
        let mut material = Self::default();
        let mut left = chars;
        for muted in mute(files, language) {
            match muted.text {
                Some(text) => material.show(party, &muted.path, &text, &mut left),
                None => {
                    material.left_out.push(LeftOut { path: muted.path, from_line: 1, why: UNREAD.to_owned() })
                }
            }
        }
        material
    }

    /// README and documentation, as they are.
    pub fn prose(party: char, files: &[SourceFile], chars: usize) -> Self {
        let mut material = Self::default();
        let mut left = chars;
        for file in files.iter().filter(|file| is_prose(&file.path)) {
            material.show(party, &file.path, &file.text, &mut left);
        }
        material
    }

    fn show(&mut self, party: char, path: &str, text: &str, left: &mut usize) {
        let kind = path.rsplit_once('.').map_or("txt", |(_, kind)| kind);
        let kind =
            if kind.len() <= 3 && kind.bytes().all(|byte| byte.is_ascii_lowercase()) { kind } else { "txt" };
        let label = format!("{party}/{}.{kind}", self.files.len() + 1);
        let mut lines = Vec::new();
        for (number, line) in (1..).zip(text.split('\n')).filter(|(_, line)| !line.trim().is_empty()) {
            let line = line.trim_end_matches('\r');
            // The number and what parts it from the line.
            let Some(rest) = left.checked_sub(line.chars().count() + 7) else {
                let why = "there was no room for more".to_owned();
                self.left_out.push(LeftOut { path: path.to_owned(), from_line: number, why });
                *left = 0;
                break;
            };
            *left = rest;
            lines.push((number, line.to_owned()));
        }
        if !lines.is_empty() {
            self.files.push(File { label, path: path.to_owned(), lines });
        }
    }

    /// Whether there is nothing to ask about.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The files that are shown, wholly or in part.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.as_str())
    }

    /// The material as a request holds it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            text += &format!("file {}\n", file.label);
            for (number, line) in &file.lines {
                text += &format!("{number:>4} | {line}\n");
            }
        }
        text
    }

    /// Holds a citation to what was shown: the quote must stand, byte for byte, in these lines, blank ones left out. The citation's lines become
    /// those of the quote.
    pub fn cite(&self, label: &str, first: usize, last: usize, quote: &str) -> Result<Citation, Reason> {
        let file = self.files.iter().find(|file| file.label == label).ok_or(Reason::NoSuchFile)?;
        let named: Vec<&(usize, String)> =
            file.lines.iter().filter(|(number, _)| (first..=last).contains(number)).collect();
        let shown_to = file.lines.last().map_or(0, |(number, _)| *number);
        if first == 0 || named.is_empty() || last > shown_to || last - first >= LINES_MAX {
            return Err(Reason::NoSuchLines);
        }
        if !quote.bytes().any(|byte| byte.is_ascii_alphanumeric()) {
            return Err(Reason::EmptyQuote);
        }
        let at = |(first_line, last_line): (usize, usize)| Citation {
            path: file.path.clone(),
            first_line,
            last_line,
            quote: quote.to_owned(),
        };
        match find(&named, quote) {
            Some(lines) => Ok(at(lines)),
            None => match find(&file.lines.iter().collect::<Vec<_>>(), quote) {
                Some((line, _)) => Err(Reason::QuoteElsewhere(line)),
                None => Err(Reason::NoSuchQuote),
            },
        }
    }
}

/// The first and the last line of a quote in some lines.
fn find(lines: &[&(usize, String)], quote: &str) -> Option<(usize, usize)> {
    let text: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let start = text.join("\n").find(quote)?;
    let line_of = |at: usize| {
        let mut end = 0;
        let line = lines.iter().find(|(_, line)| {
            end += line.len() + 1;
            at < end
        });
        line.map(|(number, _)| *number)
    };
    // A quote that ends with the end of a line ends in that line.
    Some((line_of(start)?, line_of(start + quote.trim_end_matches('\n').len().max(1) - 1)?))
}

fn is_prose(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // What a challenge asks is not what a submission claims.
    let ours = matches!(name, "PROMPT.md" | "CONTRACT.md");
    let known = |extension: &str| name.to_ascii_lowercase().ends_with(extension);
    !ours && (["md", ".txt", ".rst"].iter().any(|extension| known(extension)) || name == "README")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn shown() -> Material {
        let text = "# gone\nimport numpy as np\n\n\ndef forward(x):\n    y = 2 * x\n    return y\n";
        Material::code('A', &[file("best.py", text)], Language::Python, 1000)
    }

    #[test]
    fn lines_are_numbered_and_names_of_files_are_not_told() {
        let text = "file A/1.py\n   2 | import numpy as np\n   5 | def forward(x):\n   6 |     y = 2 * x\n   7 |     return y\n";
        assert_eq!(shown().text(), text);
    }

    #[test]
    fn a_quote_must_stand_in_its_lines_to_the_byte() {
        let material = shown();
        let cited = |first, last, quote| {
            material
                .cite("A/1.py", first, last, quote)
                .map(|citation| (citation.first_line, citation.last_line))
        };
        assert_eq!(cited(6, 6, "y = 2 * x"), Ok((6, 6)));
        assert_eq!(cited(2, 7, "y = 2 * x"), Ok((6, 6)), "the lines become the quote's");
        assert_eq!(cited(2, 5, "np\ndef forward"), Ok((2, 5)), "blank lines are left out");
        assert_eq!(cited(5, 6, "def forward(x):\n"), Ok((5, 5)));
        assert_eq!(cited(6, 6, "y = 2 *  x"), Err(Reason::NoSuchQuote));
        assert_eq!(cited(6, 6, "y = 3 * x"), Err(Reason::NoSuchQuote));
        assert_eq!(cited(5, 5, "y = 2 * x"), Err(Reason::QuoteElsewhere(6)));
        assert_eq!(cited(1, 1, "# gone"), Err(Reason::NoSuchLines), "a comment was not shown");
        assert_eq!(cited(5, 6, "# gone"), Err(Reason::NoSuchQuote));
        assert_eq!(cited(0, 6, "y"), Err(Reason::NoSuchLines));
        assert_eq!(cited(6, 5, "y"), Err(Reason::NoSuchLines));
        assert_eq!(cited(6, 8, "y"), Err(Reason::NoSuchLines));
        assert_eq!(cited(6, usize::MAX, "y"), Err(Reason::NoSuchLines));
        assert_eq!(cited(6, 6, ""), Err(Reason::EmptyQuote));
        assert_eq!(cited(6, 6, " = "), Err(Reason::EmptyQuote));
        assert_eq!(material.cite("B/1.py", 6, 6, "y"), Err(Reason::NoSuchFile));
        assert_eq!(material.cite("best.py", 6, 6, "y"), Err(Reason::NoSuchFile));
    }

    #[test]
    fn what_has_no_room_is_named() {
        let files =
            [file("a.py", "one = 1\ntwo = 2\n"), file("b.py", "x = 1\n"), file("README.md", "Best.\n")];
        let material = Material::code('A', &files, Language::Python, 20);
        assert_eq!(material.text(), "file A/1.py\n   1 | one = 1\n");
        let left_out: Vec<_> =
            material.left_out.iter().map(|left| (left.path.as_str(), left.from_line)).collect();
        assert_eq!(left_out, [("a.py", 2), ("b.py", 1)]);
        assert_eq!(Material::prose('A', &files, 1000).text(), "file A/1.md\n   1 | Best.\n");
    }
}
