//! Facts about a submission's source: size, duplication, dead code.
//!
//! The published rule:
//!
//! - *Code lines* are neither blank nor comment; a Python string that stands alone is a comment. Tests are left out of
//!   everything below, except that what they name is in use: files named as tests that no other file mentions, and
//!   what is under Rust's `#[cfg(test)]`.
//! - *`code_duplication`* is code lines over code lines that are not repeats. A repeat is a run of tokens that
//!   stood before, in this file or another, literals aside: 50 tokens under the same names, or 100 under names
//!   renamed consistently, over five whole lines (or twice the tokens on fewer). Imports, tables and runs of like
//!   statements are no repeats.
//! - *`code_dead`* is code lines over code lines that can be reached. Dead are: functions and Python classes whose
//!   name nothing mentions that is itself reached from the entry points or from code outside any function; statements
//!   after `return`, `raise`, `throw`, `break`, `continue` in the same block; Python imports that are not used.
//! - *`code_longest_function`* is the code lines of the longest function, *`code_longest_file`* of the longest file.
//! - *`code_nesting`* is how many blocks stand in each other at the deepest place of a function: its own, and those of loops, branches and the like;
//!   `else if` is as deep as its `if`.
//!
//! In doubt it is alive: whatever is decorated, overrides, implements a trait, is a C++ member, is exported or has an
//! attribute that might call it; whatever has a name that occurs anywhere in live code, be it as another thing's, as
//! an attribute or as a string. Where names are made at run time (`globals()`, `exec`, `getattr` with a computed name,
//! `##` in a macro), where a file was not read (of a submission's source a megabyte is, if it parses in
//! a fixed number of steps), or where no entry point is in sight, no function is called dead and
//! the finding is inconclusive. What does not parse is counted as code, and its words as mentions.
//!
//! Source costs points by these ratios only; a finding here is never more than minor.
//!
//! The language's own linter is asked as well, where this machine has it: ruff, the C compiler's warnings, clippy's and the
//! compiler's, clang's. Each line of the contestant's own that it warns of is a note, *`no_warnings`*, and weighs nothing, for which
//! linter is here differs between machines, and scores must not; *`linted`* names it with version and flags. `docs/code.md` says
//! what each is asked and what can silence it.

mod definition;
mod facts;
pub(crate) mod files;
mod grammar;
mod imports;
pub(crate) mod lint;
mod mute;
mod names;
mod qualifiers;
mod reach;
mod repeats;
mod report;
mod scan;
mod unreachable;

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tribunal_contract::Language;
use tribunal_runner::submission;

use self::facts::{Scan, Shared};
use self::grammar::{Dialect, Grammar, STEPS_MAX};
use self::qualifiers::Qualifiers;
use self::report::{Dead, Extreme, Repetition};
use self::scan::Scanner;

pub use self::mute::{Muted, mute};

/// Bytes of source that are looked at in one submission.
const BYTES_MAX: usize = 1 << 20;

/// A file of a submission, as text; bytes that are no UTF-8 are the caller's to replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Path in the submission's folder, with `/`.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// The `sha256` of a submission that consists of these files.
pub fn digest(files: &[SourceFile]) -> String {
    submission::digest(files.iter().map(|file| (Path::new(&file.path), file.text.as_bytes())))
}

/// What was found out about a submission's source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodeFacts {
    /// Code lines of all files.
    code_lines: usize,
    /// Code lines of the files that were looked into.
    read_lines: usize,
    repeated_lines: usize,
    dead_lines: usize,
    longest: Option<Extreme>,
    longest_file: Option<Extreme>,
    deepest: Option<Extreme>,
    repeats: Vec<Repetition>,
    dead: Vec<Dead>,
    /// Why no function can be called dead.
    undecided: Option<String>,
    /// Check and message.
    notes: Vec<(&'static str, String)>,
}

/// Looks into the contestant's own files; files in no known language are passed over. `entry_points` are the names
/// of the contract's operations, with or without C's `tribunal_`.
pub fn inspect(files: &[SourceFile], language: Language, entry_points: &[&str]) -> CodeFacts {
    let cpp = Dialect::headers_are_cpp(language, files.iter().map(|file| file.path.as_str()));
    let qualifiers = Qualifiers::of(files, language);
    let plain: Vec<Option<SourceFile>> = files
        .iter()
        .map(|file| match qualifiers.blank(&file.text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(SourceFile { path: file.path.clone(), text }),
        })
        .collect();
    let read = files.iter().zip(&plain).map(|(file, plain)| plain.as_ref().unwrap_or(file));
    let sources: Vec<(&SourceFile, Dialect)> =
        read.filter_map(|file| Some((file, Dialect::of(&file.path, cpp)?))).collect();
    let mut facts = CodeFacts::default();
    let mut shared = Shared::default();
    let mut scans = Vec::new();
    let mut paths = Vec::new();
    let mut grammars: Vec<Grammar> = Vec::new();
    let mut bytes_left = BYTES_MAX;
    let mut steps_left = STEPS_MAX;
    for &(file, dialect) in &sources {
        if !grammars.iter().any(|grammar| grammar.dialect == dialect) {
            grammars.push(Grammar::new(dialect));
        }
        let Some(grammar) = grammars.iter().find(|grammar| grammar.dialect == dialect) else { continue };
        let fits = file.text.len() <= bytes_left;
        let Some(tree) = fits.then(|| grammar.parse(&file.text, &mut steps_left)).flatten() else {
            facts.skip(file, fits);
            continue;
        };
        bytes_left -= file.text.len();
        let test = is_test(file, &sources);
        let scanner = Scanner::new(grammar, &file.text, &file.path, scans.len(), entry_points, &mut shared);
        scans.push(scanner.run(tree.root_node(), test));
        paths.push(file.path.as_str());
    }
    facts.undecided = undecided(&facts, &scans, &paths, &shared, entry_points);
    facts.gather(&scans, &paths, &shared);
    facts
}

/// Named as a test, and no part of what is run: no other file mentions it.
fn is_test(file: &SourceFile, sources: &[(&SourceFile, Dialect)]) -> bool {
    if !is_test_path(&file.path) {
        return false;
    }
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.split('.').next().unwrap_or(name);
    let module =
        if matches!(stem, "__init__" | "mod") { folder.rsplit('/').next().unwrap_or(folder) } else { stem };
    !sources.iter().any(|(other, _)| !is_test_path(&other.path) && other.text.contains(module))
}

fn is_test_path(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.split('.').next().unwrap_or(name);
    folder.split('/').any(|part| matches!(part, "test" | "tests"))
        || stem.starts_with("test_")
        || stem.ends_with("_test")
        || matches!(stem, "tests" | "conftest")
}

fn undecided(
    facts: &CodeFacts,
    scans: &[Scan],
    paths: &[&str],
    shared: &Shared,
    entry_points: &[&str],
) -> Option<String> {
    if !facts.notes.is_empty() {
        return Some("not every file was read, so what is unused cannot be told".to_owned());
    }
    if let Some((scan, path)) = scans.iter().zip(paths).find(|(scan, _)| scan.dynamic.is_some()) {
        let line = scan.dynamic.unwrap_or(0) + 1;
        let path = report::clip(path);
        return Some(format!(
            "names are made at run time or by macros ({path}:{line}), so what is unused cannot be told"
        ));
    }
    let in_sight = entry_points
        .iter()
        .any(|entry| shared.names.contains(entry) || shared.names.contains(&format!("tribunal_{entry}")));
    (!in_sight).then(|| "no entry point is in sight, so what is unused cannot be told".to_owned())
}

impl CodeFacts {
    /// Counts a file that is not looked into by its filled lines.
    fn skip(&mut self, file: &SourceFile, fits: bool) {
        self.code_lines += file.text.split('\n').filter(|line| !line.trim().is_empty()).count();
        let path = report::clip(&file.path);
        let why = if fits {
            "the source takes too many steps to parse".to_owned()
        } else {
            format!("at most {BYTES_MAX} bytes of source are looked at")
        };
        self.notes.push(("source_read", format!("{path} was not looked into: {why}")));
    }

    fn gather(&mut self, scans: &[Scan], paths: &[&str], shared: &Shared) {
        let count = |lines: &[bool]| lines.iter().filter(|&&line| line).count();
        self.read_lines = scans.iter().map(|scan| count(&scan.code)).sum();
        self.code_lines += self.read_lines;

        let (repeats, repeated) = repeats::find(scans);
        self.repeated_lines = repeated.iter().map(|lines| count(lines)).sum();
        self.repeats = repeats.iter().map(|repeat| Repetition::new(repeat, paths)).collect();

        let mut dead: Vec<Vec<bool>> = scans.iter().map(|scan| vec![false; scan.code.len()]).collect();
        for (file, first, last, what) in self.find_dead(scans, shared) {
            let code = &scans[file].code[first..=last];
            if what.counts {
                dead[file][first..=last].copy_from_slice(code);
            }
            self.dead.push(Dead::new(paths[file], first, last, count(code), &what));
        }
        self.dead_lines = dead.iter().map(|lines| count(lines)).sum();

        let longest = scans.iter().zip(paths).flat_map(|(scan, path)| {
            let mut before = vec![0];
            before.extend(scan.code.iter().scan(0, |sum, &code| {
                *sum += usize::from(code);
                Some(*sum)
            }));
            let lengths = scan
                .functions
                .iter()
                .map(move |&(first, last, name)| (before[last + 1] - before[first], path, first, name));
            lengths.collect::<Vec<_>>()
        });
        // The first of equals, so that the answer does not hang on the order of a search.
        let longest = longest.reduce(|best, next| if next.0 > best.0 { next } else { best });
        self.longest = longest
            .map(|(lines, path, first, name)| Extreme::function(lines, path, first, shared.names.text(name)));

        let first_of_most =
            |best: (usize, usize), next: (usize, usize)| if next.0 > best.0 { next } else { best };
        let filled = || scans.iter().enumerate().filter(|(_, scan)| count(&scan.code) > 0);
        let files = filled().map(|(file, scan)| (count(&scan.code), file));
        self.longest_file =
            files.reduce(first_of_most).map(|(lines, file)| Extreme::file(lines, paths[file]));
        let depths = filled().map(|(file, scan)| (scan.deepest.0, file));
        self.deepest = depths
            .reduce(first_of_most)
            .map(|(depth, file)| Extreme::nesting(depth, paths[file], scans[file].deepest.1));

        for (scan, path) in scans.iter().zip(paths) {
            if let Some(line) = scan.error {
                let path = report::clip(path);
                let message = format!(
                    "{path} does not parse everywhere, first at line {}; what does parse was counted",
                    line + 1
                );
                self.notes.push(("source_parsed", message));
            }
        }
    }

    fn find_dead(&self, scans: &[Scan], shared: &Shared) -> Vec<(usize, usize, usize, report::What)> {
        let mut dead = Vec::new();
        if self.undecided.is_none() {
            for i in reach::unused(shared) {
                let definition = &shared.definitions[i];
                let name = shared.names.text(definition.name);
                let what = report::What::unused(definition.class, name);
                dead.push((definition.file, definition.lines.0, definition.lines.1, what));
            }
        }
        for (file, scan) in scans.iter().enumerate() {
            for &(first, last) in &scan.unreachable {
                dead.push((file, first, last, report::What::unreachable()));
            }
            for (i, names) in reach::unused_imports(scans, file) {
                let import = &scan.imports[i];
                let names = names.iter().map(|&name| shared.names.text(name)).collect::<Vec<_>>();
                let what = report::What::import(&names, names.len() == import.count);
                dead.push((file, import.lines.0, import.lines.1, what));
            }
        }
        dead
    }
}

#[cfg(test)]
mod tests;
