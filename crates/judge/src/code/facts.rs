//! What a walk over the files takes down.

use std::collections::HashSet;

use super::names::{NameId, Names};

/// A token, as duplication sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    /// From 0.
    pub(super) line: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name(NameId),
    Literal,
    /// Keyword or sign, by the name of its kind.
    Sign(NameId),
    /// What no repeat reaches across: imports, tests, the end of a file.
    Break,
}

/// A function or class.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: NameId,
    pub(super) file: usize,
    pub(super) class: bool,
    pub(super) parent: Option<usize>,
    /// First and last line, from 0.
    pub(super) lines: (usize, usize),
    /// Alive without being mentioned, if its parent is.
    pub(super) kept: bool,
    /// Classes it derives from that might register it.
    pub(super) bases: Vec<NameId>,
}

/// A statement that imports names.
#[derive(Debug, Clone)]
pub(super) struct Import {
    pub(super) lines: (usize, usize),
    /// The names it binds, less those that are there for others.
    pub(super) binds: Vec<NameId>,
    /// How many it binds in all.
    pub(super) count: usize,
}

/// Facts about one file.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) tokens: Vec<Token>,
    /// Which lines are code.
    pub(super) code: Vec<bool>,
    pub(super) imports: Vec<Import>,
    /// Line ranges that follow a jump in their block.
    pub(super) unreachable: Vec<(usize, usize)>,
    /// Every function's line range, with its name.
    pub(super) functions: Vec<(usize, usize, NameId)>,
    /// The most loops and branches that stand in each other in one function, and the line of the innermost.
    pub(super) deepest: (usize, usize),
    /// Line of a lookup of names at run time.
    pub(super) dynamic: Option<usize>,
    /// Line of the first parse error.
    pub(super) error: Option<usize>,
    /// Names mentioned outside imports.
    pub(super) mentioned: Vec<NameId>,
    /// Names that other modules' names are taken from here or there by `from … import`.
    pub(super) taken: Vec<NameId>,
    /// It imports everything of another module.
    pub(super) wildcard: bool,
}

/// Facts that cross files.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) names: Names,
    pub(super) definitions: Vec<Definition>,
    /// Who mentions what; None is code that always runs.
    pub(super) mentions: Vec<(Option<usize>, NameId)>,
    /// Names that the preprocessor may replace.
    pub(super) macros: HashSet<NameId>,
}
