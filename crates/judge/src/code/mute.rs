//! Source for a reader who must not be talked to: what runs is left, what only speaks is gone.
//!
//! - Comments and docstrings are blank, and so is what a grammar does not read.
//! - Strings that hold words, or much, are `"…"`. Names that are long or not ASCII are `name_1`, the same one everywhere.
//! - A line on which three names follow each other with nothing between them is prose in no known language's grammar, and is blank.
//!   It stands under `#if 0`, in a macro's arguments, or in a file that never runs.
//!
//! Lines keep their numbers. What a short name says is left: without names there is nothing to read.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Range;

use tree_sitter::Node;
use tribunal_contract::Language;

use super::files::is_contracts;
use super::grammar::{Dialect, Grammar, Role, STEPS_MAX};
use super::qualifiers::{self, Qualifiers};
use super::scan::is_docstring;
use super::{BYTES_MAX, SourceFile};

/// Bytes of a name or a string that are shown: room for a long name, and for few words beyond.
const WORD_BYTES_MAX: usize = 48;

/// So many names in a row are prose.
const PROSE_NAMES: usize = 3;

/// Macros within what a macro stands for.
const MACROS_MAX: usize = 4;

/// A source file, muted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Muted {
    /// Path in the submission's folder.
    pub path: String,
    /// What is left; none of it where the file is too large or takes too many steps to parse.
    pub text: Option<String>,
}

/// Mutes the source files among these; the contract's own are passed over, and what is in no known language.
pub fn mute(files: &[SourceFile], language: Language) -> Vec<Muted> {
    let cpp = Dialect::headers_are_cpp(language, files.iter().map(|file| file.path.as_str()));
    let qualifiers = Qualifiers::of(files, language);
    let mut long_names = HashMap::new();
    let (mut steps_left, mut bytes_left) = (STEPS_MAX, BYTES_MAX);
    let mut muted = Vec::new();
    for file in files {
        let own = !is_contracts(file);
        let Some(dialect) = Dialect::of(&file.path, cpp).filter(|_| own) else { continue };
        let fits = file.text.len() <= bytes_left;
        let read = qualifiers.blank(&file.text);
        let mut mute = Mute {
            grammar: &Grammar::new(dialect),
            long_names: &mut long_names,
            steps_left: &mut steps_left,
            depth: 0,
        };
        let text = fits.then(|| mute.text(&read, &file.text)).flatten();
        bytes_left -= if text.is_some() { file.text.len() } else { 0 };
        muted.push(Muted { path: file.path.clone(), text });
    }
    muted
}

struct Mute<'a> {
    grammar: &'a Grammar,
    long_names: &'a mut HashMap<String, usize>,
    steps_left: &'a mut usize,
    depth: usize,
}

/// What is put in the place of some bytes.
struct Piece {
    range: Range<usize>,
    shown: String,
    row: usize,
    name: bool,
}

impl Mute<'_> {
    /// `read` is what the grammar reads and `whole` what was written, byte for byte in the same places.
    fn text(&mut self, read: &str, whole: &str) -> Option<String> {
        let tree = self.grammar.parse(read, self.steps_left)?;
        let mut pieces = Vec::new();
        let mut cursor = tree.walk();
        loop {
            if self.enter(cursor.node(), read, &mut pieces) && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Some(laid(&pieces, read, whole));
                }
            }
        }
    }

    /// Takes a node, or says that its children are to be taken.
    fn enter(&mut self, node: Node<'_>, read: &str, pieces: &mut Vec<Piece>) -> bool {
        let role = self.grammar.role(node);
        let text = read.get(node.byte_range()).unwrap_or("");
        let shown = match role {
            Role::Comment => String::new(),
            Role::Statement if is_docstring(node) => String::new(),
            Role::Literal => literal(text),
            Role::MacroBody => self.macro_body(text),
            _ if node.child_count() > 0 => return true,
            Role::Name => self.name(text),
            _ if is_word(text) => text.to_owned(),
            _ => String::new(),
        };
        let (range, row) = (node.byte_range(), node.start_position().row);
        if !range.is_empty() {
            pieces.push(Piece { range, shown, row, name: role == Role::Name });
        }
        false
    }

    fn name(&mut self, text: &str) -> String {
        if is_word(text) {
            return text.to_owned();
        }
        let next = self.long_names.len() + 1;
        format!("name_{}", self.long_names.entry(text.to_owned()).or_insert(next))
    }

    /// What a macro stands for is no tree here, and a comment may be in the middle of it.
    fn macro_body(&mut self, text: &str) -> String {
        if self.depth == MACROS_MAX {
            return String::new();
        }
        self.depth += 1;
        let muted = self.text(text, text);
        self.depth -= 1;
        muted.unwrap_or_default()
    }
}

/// Lays the pieces out on the lines of the text; what lies between them is blank.
fn laid(pieces: &[Piece], read: &str, whole: &str) -> String {
    let mut text = String::with_capacity(read.len());
    let mut at = 0;
    for piece in pieces {
        blank(&mut text, at..piece.range.start, read, whole);
        let lines = |text: &str| text.matches('\n').count();
        text += &piece.shown;
        let replaced = read.get(piece.range.clone()).unwrap_or("");
        text += &"\n".repeat(lines(replaced).saturating_sub(lines(&piece.shown)));
        at = piece.range.end;
    }
    blank(&mut text, at..read.len(), read, whole);
    let prose = prose(pieces, read);
    let lines = text.split('\n').enumerate();
    let lines: Vec<&str> =
        lines.map(|(row, line)| if prose.contains(&row) { "" } else { line.trim_end() }).collect();
    lines.join("\n")
}

/// What stands between pieces: space, lines, and the words of CUDA that were taken out for the grammar.
fn blank(text: &mut String, range: Range<usize>, read: &str, whole: &str) {
    let between = read.get(range.clone()).unwrap_or("");
    let written = whole.get(range).unwrap_or("");
    if between != written && between.trim().is_empty() {
        let words: Vec<&str> =
            written.split_whitespace().filter(|word| qualifiers::is_qualifier(word)).collect();
        let _ = write!(text, " {} ", words.join(" "));
    }
    text.extend(between.chars().map(|c| if matches!(c, '\n' | '\t') { c } else { ' ' }));
}

/// The lines on which too many names follow each other.
fn prose(pieces: &[Piece], read: &str) -> BTreeSet<usize> {
    let is_next = |pair: &[Piece]| {
        let between = read.get(pair[0].range.end..pair[1].range.start).unwrap_or("");
        !between.is_empty() && between.trim().is_empty()
    };
    let mut rows = BTreeSet::new();
    for run in pieces.windows(PROSE_NAMES) {
        if run.iter().all(|piece| piece.name) && run.windows(2).all(is_next) {
            rows.extend(run.iter().map(|piece| piece.row));
        }
    }
    rows
}

/// Whether a token is shown as it stands.
fn is_word(text: &str) -> bool {
    text.len() <= WORD_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A number, or a string that holds no words, as it stands.
fn literal(text: &str) -> String {
    let holds_words = || {
        let words = text.split(|c: char| c.is_ascii_whitespace());
        words.filter(|word| word.bytes().any(|byte| byte.is_ascii_alphabetic())).count() > 1
    };
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match text.find(['"', '\'']) {
        Some(start) if !plain || text.len() > WORD_BYTES_MAX || holds_words() => {
            let quote = if text[start..].starts_with('"') { '"' } else { '\'' };
            format!("{quote}…{quote}")
        }
        None if !is_word(text) => "…".to_owned(),
        _ => text.to_owned(),
    }
}
