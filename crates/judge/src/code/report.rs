//! Facts as measurements and findings.

use super::CodeFacts;
use super::repeats::Repeat;
use crate::{Dimension, Family, Finding, Measurement, Outcome, Severity};

/// Findings of one check, the largest first.
const FINDINGS_MAX: usize = 10;

/// Characters of a name or path that are shown.
const CHARS_MAX: usize = 80;

/// The longest or deepest there is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Extreme {
    size: usize,
    message: String,
}

impl Extreme {
    /// `first` counts from 0, here as everywhere below; messages count from 1.
    pub(super) fn function(lines: usize, path: &str, first: usize, name: &str) -> Self {
        let (name, path, first) = (clip(name), clip(path), first + 1);
        let message = format!("the longest function, `{name}` ({path}:{first}), has {}", counted(lines));
        Self { size: lines, message }
    }

    pub(super) fn file(lines: usize, path: &str) -> Self {
        let message = format!("the longest file, {}, has {} of code", clip(path), counted(lines));
        Self { size: lines, message }
    }

    pub(super) fn nesting(depth: usize, path: &str, line: usize) -> Self {
        let message = match depth {
            0 => "no loop or branch stands in a function".to_owned(),
            _ => {
                format!("the deepest nesting is of {depth} loops and branches ({}:{})", clip(path), line + 1)
            }
        };
        // The function's own block is the first: scales know no zero.
        Self { size: depth + 1, message }
    }
}

/// Code that repeats other code.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Repetition {
    path: String,
    first: usize,
    size: usize,
    message: String,
}

impl Repetition {
    pub(super) fn new(repeat: &Repeat, paths: &[&str]) -> Self {
        let (path, of_path) = (clip(paths[repeat.file]), clip(paths[repeat.of_file]));
        let (lines, of_lines) = (range(repeat.lines), range(repeat.of_lines));
        let of_path = if repeat.file == repeat.of_file { String::new() } else { format!(" of {of_path}") };
        Self {
            first: repeat.lines.0 + 1,
            size: repeat.lines.1 - repeat.lines.0 + 1,
            message: format!("{lines} of {path} repeat {of_lines}{of_path}"),
            path,
        }
    }
}

/// What kind of dead code.
#[derive(Debug, Clone)]
pub(super) struct What {
    text: String,
    /// Whether its lines could go: not if a live import stands on them.
    pub(super) counts: bool,
    unreachable: bool,
}

impl What {
    pub(super) fn unused(class: bool, name: &str) -> Self {
        let kind = if class { "class" } else { "function" };
        Self { text: format!("{kind} `{}`", clip(name)), counts: true, unreachable: false }
    }

    pub(super) fn unreachable() -> Self {
        Self { text: String::new(), counts: true, unreachable: true }
    }

    pub(super) fn import(names: &[&str], all: bool) -> Self {
        let shown = names.iter().take(5).map(|name| format!("`{}`", clip(name))).collect::<Vec<_>>();
        let more = if names.len() > 5 { " and others" } else { "" };
        Self { text: format!("import of {}{more}", shown.join(", ")), counts: all, unreachable: false }
    }
}

/// Code that does nothing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dead {
    path: String,
    first: usize,
    size: usize,
    message: String,
}

impl Dead {
    pub(super) fn new(path: &str, first: usize, last: usize, size: usize, what: &What) -> Self {
        let path = clip(path);
        let message = if what.unreachable {
            format!("{} of {path} follow a jump and are never reached", range((first, last)))
        } else {
            format!("{} ({path}:{}) is never used", what.text, first + 1)
        };
        Self { path, first: first + 1, size, message }
    }
}

impl CodeFacts {
    /// Sizes and ratios; what could not be told is missing.
    pub fn measurements(&self) -> Vec<Measurement> {
        if self.code_lines == 0 {
            return Vec::new();
        }
        let mut measurements = vec![measurement("code_lines", self.code_lines as f64, "lines")];
        if self.read_lines > 0 {
            let of_all =
                |lines: usize| self.read_lines as f64 / self.read_lines.saturating_sub(lines).max(1) as f64;
            measurements.push(ratio("code_duplication", of_all(self.repeated_lines)));
            if self.undecided.is_none() || self.dead_lines > 0 {
                measurements.push(ratio("code_dead", of_all(self.dead_lines)));
            }
        }
        for (name, extreme, unit) in [
            ("code_longest_function", &self.longest, "lines"),
            ("code_longest_file", &self.longest_file, "lines"),
            ("code_nesting", &self.deepest, "levels"),
        ] {
            let size = extreme.as_ref().map(|extreme| extreme.size as f64);
            measurements.extend(size.map(|size| measurement(name, size, unit)));
        }
        measurements
    }

    /// What stands out, and what was looked for in vain.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.read_lines > 0 {
            let repeats = self.repeats.iter().map(|r| (&*r.path, r.first, r.size, &*r.message));
            findings.extend(failures("no_duplication", Severity::Minor, repeats.collect()));
            let dead = self.dead.iter().map(|d| (&*d.path, d.first, d.size, &*d.message));
            findings.extend(failures("no_dead_code", Severity::Minor, dead.collect()));
            if self.repeats.is_empty() {
                findings.push(whole("no_duplication", Outcome::Pass, ""));
            }
            match &self.undecided {
                Some(why) => findings.push(whole("no_dead_code", Outcome::Inconclusive, why)),
                None if self.dead.is_empty() => findings.push(whole("no_dead_code", Outcome::Pass, "")),
                None => {}
            }
        }
        for (check, extreme) in [
            ("longest_function", &self.longest),
            ("longest_file", &self.longest_file),
            ("deepest_nesting", &self.deepest),
        ] {
            findings.extend(extreme.as_ref().map(|extreme| whole(check, Outcome::Pass, &extreme.message)));
        }
        let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
        for (check, message) in &self.notes {
            match notes.iter_mut().find(|(known, _)| known == check) {
                Some((_, messages)) => messages.push(message),
                None => notes.push((check, vec![message])),
            }
        }
        for (check, messages) in notes {
            let more = messages.len().saturating_sub(FINDINGS_MAX);
            let mut message = messages[..messages.len() - more].join("; ");
            if more > 0 {
                message += &format!("; and {more} more files");
            }
            findings.push(whole(check, Outcome::Inconclusive, &message));
        }
        findings
    }
}

/// Place, size and message of what failed, as findings; those on one line are one.
pub(super) fn failures(
    check: &str,
    severity: Severity,
    mut failed: Vec<(&str, usize, usize, &str)>,
) -> Vec<Finding> {
    failed.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)).then(a.1.cmp(&b.1)));
    let mut seen = std::collections::HashSet::new();
    failed.retain(|&(path, first, ..)| seen.insert((path, first)));
    let more = failed.len().saturating_sub(FINDINGS_MAX);
    let mut findings: Vec<Finding> = failed
        .iter()
        .take(FINDINGS_MAX)
        .map(|(path, first, _, message)| Finding {
            severity,
            ..finding(format!("code/{path}/{first}"), check, Outcome::Fail, message)
        })
        .collect();
    if let Some(last) = findings.last_mut().filter(|_| more > 0) {
        last.message += &format!("; and {more} more places");
    }
    findings
}

/// A finding on the whole of the source.
pub(super) fn whole(check: &str, outcome: Outcome, message: &str) -> Finding {
    finding("code".to_owned(), check, outcome, message)
}

fn finding(case: String, check: &str, outcome: Outcome, message: &str) -> Finding {
    Finding {
        id: format!("{case}:{check}"),
        case,
        check: check.to_owned(),
        family: Family::Basic,
        dimension: Dimension::Code,
        outcome,
        severity: Severity::Note,
        message: message.to_owned(),
        suspect: None,
        used: None,
        limit: None,
        replay: None,
        smallest: None,
        seen_in: None,
    }
}

fn ratio(name: &str, value: f64) -> Measurement {
    Measurement { floor: Some(1.0), of_floor: Some(1.0 / value), ..measurement(name, value, "1") }
}

fn measurement(name: &str, value: f64, unit: &str) -> Measurement {
    Measurement {
        name: name.to_owned(),
        workload: "source".to_owned(),
        value,
        unit: unit.to_owned(),
        interval: None,
        floor: None,
        of_floor: None,
        of_reference: None,
        of_reference_interval: None,
        samples: Vec::new(),
    }
}

/// The beginning of a text that may be as long as its author likes.
pub(super) fn clip(text: &str) -> String {
    clip_to(text, CHARS_MAX)
}

/// The same, where a name or a path is not all of it.
pub(super) fn clip_to(text: &str, chars_max: usize) -> String {
    let mut clipped: String = text.chars().take(chars_max).collect();
    if clipped.len() < text.len() {
        clipped.push('…');
    }
    clipped
}

fn range((first, last): (usize, usize)) -> String {
    if first == last { format!("line {}", first + 1) } else { format!("lines {}–{}", first + 1, last + 1) }
}

fn counted(lines: usize) -> String {
    if lines == 1 { "1 line".to_owned() } else { format!("{lines} lines") }
}
