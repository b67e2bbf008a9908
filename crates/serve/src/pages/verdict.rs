//! A verdict with its findings, and the source that it speaks of.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use tribunal_board::html::{self, Links};
use tribunal_board::{Bundle, Summary, clean};
use tribunal_judge::{Dimension, Family, Finding, Outcome, SourceFile, Verdict};

use super::board::Pager;
use super::{Page, Query, Section, text};
use crate::problem::Problem;
use crate::site::Site;
use crate::snapshot::Snapshot;

/// Findings on a page.
const ROWS: usize = 100;

/// Lines of source on a page, and characters of a line.
const LINES_MAX: usize = 20_000;
const COLUMNS_MAX: usize = 400;

#[derive(Template)]
#[template(path = "verdict_page.html")]
struct Whole {
    id: String,
    headline: String,
    contestant: String,
    contestant_link: String,
    challenge: String,
    challenge_link: String,
    place: String,
    replaced: Option<String>,
    body: String,
    sources: Vec<(String, String)>,
    filters: Vec<Filter>,
    is_filtered: bool,
    findings: Vec<Row>,
    pager: Pager,
}

/// A choice: its name, what is said of everything, and the values with how many findings have each.
struct Filter {
    name: &'static str,
    values: Vec<(&'static str, usize, bool)>,
}

struct Row {
    sign: &'static str,
    outcome: &'static str,
    severity: &'static str,
    case: String,
    check: String,
    dimension: &'static str,
    message: String,
    suspect: String,
    used: String,
    replay: String,
    source: Option<String>,
}

#[derive(Template)]
#[template(path = "source.html")]
struct Source {
    path: String,
    name: String,
    link: String,
    others: Vec<(String, String, bool)>,
    lines: Vec<Line>,
    left: usize,
}

struct Line {
    number: usize,
    text: String,
    said: Vec<(&'static str, String)>,
}

pub(super) fn page(site: &Site, snapshot: &Snapshot, id: &str, query: &Query) -> Result<Page, Problem> {
    let Bundle { verdict, sources, .. } = site.store.bundle(id)?;
    let anew;
    let summary = match snapshot.summary(&verdict.id) {
        Some(summary) => summary,
        None => {
            anew = Summary::of(&verdict);
            &anew
        }
    };
    let name = &verdict.submission.name;
    let place = snapshot.place(&verdict.id).filter(|(_, place)| place.rank > 0).map(|(standings, place)| {
        let range = match place.range {
            Some([best, worst]) if best < worst => format!(", {best} to {worst} within the noise"),
            _ => String::new(),
        };
        let tied = if place.tied { " (shared)" } else { "" };
        format!("Place {}{tied} of {}{range}.", place.rank, standings.places.len())
    });
    let later = snapshot
        .contestant(name)
        .into_iter()
        .find(|last| last.submission.challenge == verdict.submission.challenge && last.id != verdict.id);
    let (filters, chosen, is_filtered) = choose(&verdict, query)?;
    let slice = query.slice(chosen.len(), ROWS)?;
    let whole = Whole {
        id: text(&verdict.id),
        headline: html::verdict_headline(summary, 1),
        contestant: text(name),
        contestant_link: Links::Paths.contestant(name).unwrap_or_default(),
        challenge: text(&verdict.submission.challenge),
        challenge_link: Links::Paths.challenge(&verdict.submission.challenge).unwrap_or_default(),
        place: place.unwrap_or_default(),
        replaced: later.and_then(|later| Links::Paths.verdict(&later.id)),
        body: html::verdict_body(&verdict, summary, &sources, Links::Paths, 2),
        sources: files(&verdict.id, &sources),
        filters,
        is_filtered,
        findings: chosen[slice.from..slice.to]
            .iter()
            .map(|finding| row(&verdict.id, finding, &sources))
            .collect(),
        pager: Pager::new(query, slice, "findings"),
    };
    Ok(Page::new(format!("{name} on {}", verdict.submission.challenge), Section::Board, &whole))
}

/// The findings that were asked for, the gravest first.
fn choose<'a>(verdict: &'a Verdict, query: &Query) -> Result<(Vec<Filter>, Vec<&'a Finding>, bool), Problem> {
    let family: Option<Family> = query.choice("family")?;
    let outcome: Option<Outcome> = query.choice("outcome")?;
    let dimension: Option<Dimension> = query.choice("dimension")?;
    let is_of = |finding: &Finding, but: &str| {
        (but == "family" || family.is_none_or(|family| finding.family == family))
            && (but == "outcome" || outcome.is_none_or(|outcome| finding.outcome == outcome))
            && (but == "dimension" || dimension.is_none_or(|dimension| finding.dimension == dimension))
    };
    // How many a choice would leave, the other choices being as they are.
    let filter = |name: &'static str, of: &dyn Fn(&Finding) -> &'static str, chosen: Option<&str>| {
        let there: BTreeSet<&'static str> = verdict.findings.iter().map(of).collect();
        let mut left: BTreeMap<&'static str, usize> = there.into_iter().map(|value| (value, 0)).collect();
        for finding in verdict.findings.iter().filter(|finding| is_of(finding, name)) {
            *left.entry(of(finding)).or_default() += 1;
        }
        Filter {
            name,
            values: left.into_iter().map(|(value, count)| (value, count, chosen == Some(value))).collect(),
        }
    };
    let filters = vec![
        filter("family", &|finding| finding.family.name(), family.map(Family::name)),
        filter("outcome", &|finding| finding.outcome.name(), outcome.map(Outcome::name)),
        filter("dimension", &|finding| finding.dimension.name(), dimension.map(Dimension::name)),
    ];
    let mut chosen: Vec<&Finding> = verdict.findings.iter().filter(|finding| is_of(finding, "")).collect();
    chosen.sort_by_key(|finding| (outcome_order(finding.outcome), std::cmp::Reverse(finding.severity)));
    Ok((filters, chosen, family.is_some() || outcome.is_some() || dimension.is_some()))
}

fn outcome_order(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Integrity => 0,
        Outcome::Fail => 1,
        Outcome::Infrastructure => 2,
        Outcome::Inconclusive => 3,
        Outcome::Pass => 4,
    }
}

fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "✓",
        Outcome::Fail => "✗",
        Outcome::Inconclusive | Outcome::Infrastructure => "?",
        Outcome::Integrity => "⊘",
    }
}

fn row(id: &str, finding: &Finding, sources: &[SourceFile]) -> Row {
    let check = finding.id.rsplit_once(':').map_or("", |(_, check)| check);
    let source = html::code_place(finding)
        .filter(|(path, _)| sources.iter().any(|file| file.path == *path))
        .and_then(|(path, line)| Links::Paths.source(id, path, Some(line)));
    let used = match (finding.used, finding.limit) {
        (Some(used), Some(limit)) if used.is_finite() => format!("{} of {limit}", number(used)),
        (Some(used), None) if used.is_finite() => number(used),
        (_, Some(limit)) => format!("no number, of {limit}"),
        _ => String::new(),
    };
    Row {
        sign: sign(finding.outcome),
        outcome: finding.outcome.name(),
        severity: if finding.outcome == Outcome::Fail { finding.severity.name() } else { "" },
        case: text(&finding.case),
        check: if check.is_empty() { String::new() } else { text(&check.replace('_', " ")) },
        dimension: finding.dimension.name(),
        message: if finding.message.is_empty() { String::new() } else { text(&finding.message) },
        suspect: finding
            .suspect
            .as_deref()
            .map_or_else(String::new, |suspect| text(&suspect.replace('_', " "))),
        used,
        replay: match finding.outcome {
            Outcome::Pass => String::new(),
            _ => finding.replay.as_deref().map_or_else(String::new, text),
        },
        source,
    }
}

/// Three digits, and powers of ten where more zeros would follow than can be read.
fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e4).contains(&value.abs()) {
        format!("{value:.3}")
    } else {
        format!("{value:.2e}")
    }
}

/// Names and links of source files.
fn files(id: &str, sources: &[SourceFile]) -> Vec<(String, String)> {
    let file = |file: &SourceFile| Some((text(&file.path), Links::Paths.source(id, &file.path, None)?));
    sources.iter().filter_map(file).collect()
}

pub(super) fn source(site: &Site, id: &str, path: &str) -> Result<Page, Problem> {
    let Bundle { verdict, sources, .. } = site.store.bundle(id)?;
    let file = sources.iter().find(|file| file.path == path).ok_or_else(|| {
        Problem::not_found(format!("no file `{path}` was kept with verdict {}", verdict.id))
    })?;
    let mut said: BTreeMap<usize, Vec<(&'static str, String)>> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|finding| finding.outcome != Outcome::Pass) {
        if let Some((_, line)) = html::code_place(finding).filter(|(of, _)| *of == path) {
            said.entry(line).or_default().push((finding.severity.name(), text(&finding.message)));
        }
    }
    let lines: Vec<Line> = file
        .text
        .lines()
        .take(LINES_MAX)
        .enumerate()
        .map(|(index, line)| Line {
            number: index + 1,
            text: clean::cut(&line.replace('\t', "    "), COLUMNS_MAX),
            said: said.remove(&(index + 1)).unwrap_or_default(),
        })
        .collect();
    let page = Source {
        path: text(path),
        name: text(&verdict.submission.name),
        link: Links::Paths.verdict(&verdict.id).unwrap_or_default(),
        others: files(&verdict.id, &sources)
            .into_iter()
            .map(|(other, to)| {
                let here = other == text(path);
                (other, to, here)
            })
            .collect(),
        left: file.text.lines().count() - lines.len(),
        lines,
    };
    Ok(Page::new(format!("{path} of {}", verdict.submission.name), Section::Board, &page))
}
