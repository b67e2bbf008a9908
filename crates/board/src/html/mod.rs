//! Verdicts as HTML: pages that need nothing but themselves.
//!
//! [`verdict()`], [`board()`] and [`report()`] are whole files. A server takes the bodies, says where their links lead
//! ([`Links`]) and puts a page of its own around each, with [`STYLE`]. No scripts, nothing from elsewhere, and a policy in the page that
//! forbids both. Foreign text is cleaned ([`clean`]) and then escaped by the templates.

mod board;
#[cfg(test)]
mod tests;
mod verdict;

use askama::Template;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tribunal_judge::{SourceFile, Verdict};

pub use board::counts;
pub use verdict::{body as verdict_body, code_place, sign};

use crate::ranking::{self, Place, Standings};
use crate::{Summary, clean, words};

/// Longest text shown.
const CHARS_MAX: usize = 600;

/// How all pages look.
pub const STYLE: &str = include_str!("../../templates/style.css");

/// What stands in a path as it is; all else is written as `%xx`.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Where links lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Nowhere: the page stands alone.
    None,
    /// To sections of the same page.
    Anchors,
    /// To a server's pages: `/verdicts/<id>`, `/challenges/<id>`, `/contestants/<name>`.
    Paths,
}

impl Links {
    /// To a verdict.
    pub fn verdict(self, id: &str) -> Option<String> {
        self.to("verdict", id)
    }

    /// To a challenge's standings.
    pub fn challenge(self, id: &str) -> Option<String> {
        self.to("challenge", id)
    }

    /// To all that is known of a contestant.
    pub fn contestant(self, name: &str) -> Option<String> {
        (self == Self::Paths).then(|| format!("/contestants/{}", encoded(name)))
    }

    /// To a line of a verdict's source, counted from 1.
    pub fn source(self, id: &str, path: &str, line: Option<usize>) -> Option<String> {
        let path: Vec<String> = path.split('/').map(encoded).collect();
        let line = line.map_or(String::new(), |line| format!("#L{line}"));
        (self == Self::Paths).then(|| format!("/verdicts/{}/source/{}{line}", encoded(id), path.join("/")))
    }

    fn to(self, what: &str, id: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Anchors => Some(format!("#{what}-{id}")),
            Self::Paths => Some(format!("/{what}s/{}", encoded(id))),
        }
    }
}

/// Foreign text as one segment of a path. `.` and `..` would be taken for folders.
fn encoded(segment: &str) -> String {
    if segment.bytes().all(|byte| byte == b'.') {
        return segment.replace('.', "%2E");
    }
    utf8_percent_encode(segment, PATH).to_string()
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    body: &'a str,
}

#[derive(Template)]
#[template(path = "report.html")]
struct Report {
    title: String,
    counts: Vec<(&'static str, &'static str, String)>,
    standings: Vec<String>,
    verdicts: Vec<Folded>,
}

/// A verdict that is opened by its reader.
struct Folded {
    id: String,
    headline: verdict::Headline,
    body: String,
}

/// A whole page around a body, which must be HTML.
pub fn page(title: &str, body: &str) -> String {
    Page { title: &text(title), body }.render().expect("a template over strings")
}

/// One verdict as a file. Of `sources`, which may be empty, the lines that findings name are shown.
pub fn verdict(verdict: &Verdict, sources: &[SourceFile]) -> String {
    let title = format!("{} · {}", verdict.submission.name, verdict.submission.challenge);
    let summary = Summary::of(verdict);
    let body = verdict_headline(&summary, 1) + &verdict_body(verdict, &summary, sources, Links::None, 2);
    page(&title, &format!("<main>{body}</main>"))
}

/// A verdict's headline: name, outcome, score; `level` is that of the heading.
pub fn verdict_headline(summary: &Summary, level: u8) -> String {
    verdict::opening(&verdict::Headline::of(summary), level)
}

/// The standings as a file.
pub fn board(summaries: &[Summary]) -> String {
    let body = board_body(summaries, Links::None, 2);
    page("Standings", &format!("<main><header class=\"top\"><h1>Standings</h1></header>{body}</main>"))
}

/// The standings of every challenge; `level` is that of their headings.
pub fn board_body(summaries: &[Summary], links: Links, level: u8) -> String {
    let standings = ranking::rank(summaries);
    if standings.is_empty() {
        return "<p>No verdicts yet.</p>".to_owned();
    }
    standings.iter().map(|standings| whole(standings, links, level)).collect()
}

/// Some places of one challenge's standings, in the order given; `level` is that of the heading. It has none at
/// level 1: the page has.
pub fn standings(standings: &Standings<'_>, places: &[&Place<'_>], links: Links, level: u8) -> String {
    board::body(standings, places, links, level)
}

fn whole(of: &Standings<'_>, links: Links, level: u8) -> String {
    standings(of, &of.places.iter().chain(&of.unranked).collect::<Vec<_>>(), links, level)
}

/// Several verdicts as one file: the standings, which families of cases hold for whom, and every verdict to unfold.
pub fn report(verdicts: &[Verdict]) -> String {
    let summaries: Vec<Summary> = verdicts.iter().map(Summary::of).collect();
    let standings = ranking::rank(&summaries);
    let title = match standings.as_slice() {
        [one] => format!("{} on {}", words::count(verdicts.len(), "verdict"), one.challenge),
        several => {
            format!(
                "{} on {}",
                words::count(verdicts.len(), "verdict"),
                words::count(several.len(), "challenge")
            )
        }
    };
    let order = standings.iter().flat_map(|standings| standings.places.iter().chain(&standings.unranked));
    let mut folded: Vec<Folded> = Vec::new();
    for place in order {
        let Some(verdict) = verdicts.iter().find(|verdict| verdict.id == place.summary.id) else { continue };
        // Two verdicts of one id are one verdict, judged again.
        if folded.iter().all(|other| other.id != verdict.id) {
            folded.push(Folded {
                id: verdict.id.clone(),
                headline: verdict::Headline::of(place.summary),
                body: verdict_body(verdict, place.summary, &[], Links::Anchors, 4),
            });
        }
    }
    let report = Report {
        title: text(&title),
        counts: counts(summaries.iter().map(|summary| summary.outcome))
            .into_iter()
            .map(|(ruling, said)| (sign(ruling), ruling.name(), said))
            .collect(),
        standings: standings.iter().map(|standings| whole(standings, Links::Anchors, 2)).collect(),
        verdicts: folded,
    };
    page(&title, &report.render().expect("a template over strings"))
}

/// Foreign text, cleaned for a template, which escapes it.
fn text(hostile: &str) -> String {
    let clean = clean::cut(hostile, CHARS_MAX);
    if clean.trim().is_empty() { "—".to_owned() } else { clean }
}
