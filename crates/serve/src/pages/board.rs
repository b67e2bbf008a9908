//! Standings and contestants.

use askama::Template;
use tribunal_board::html::{self, Links};
use tribunal_board::ranking::{Place, Standings};
use tribunal_board::{Summary, clean};
use tribunal_judge::Ruling;

use super::query::Slice;
use super::{Page, Query, Section, linked_score, score, text};
use crate::problem::Problem;
use crate::snapshot::Snapshot;

/// Places of a challenge on the first page.
const BEST: usize = 10;

/// Rows of a table.
const ROWS: usize = 100;

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    counts: String,
    challenges: Vec<Best>,
}

/// The best of a challenge.
struct Best {
    standings: String,
    link: String,
    challenge: String,
    all: usize,
}

#[derive(Template)]
#[template(path = "challenge.html")]
struct Challenge {
    challenge: String,
    standings: String,
    q: String,
    outcomes: Vec<(&'static str, bool)>,
    languages: Vec<(String, bool)>,
    pager: Pager,
}

#[derive(Template)]
#[template(path = "contestants.html")]
struct Contestants {
    q: String,
    challenges: Vec<(String, String)>,
    rows: Vec<Row>,
    pager: Pager,
}

struct Row {
    name: String,
    link: String,
    cells: Vec<Option<Cell>>,
}

struct Cell {
    link: String,
    score: String,
    sign: &'static str,
    outcome: &'static str,
    place: String,
}

#[derive(Template)]
#[template(path = "contestant.html")]
struct Contestant {
    name: String,
    raw: String,
    best: String,
    worst: String,
    standings: Vec<String>,
    earlier: Vec<Earlier>,
}

struct Earlier {
    link: String,
    id: String,
    challenge: String,
    sign: &'static str,
    outcome: &'static str,
    score: String,
    version: String,
}

/// Ways to the pages beside this.
pub(super) struct Pager {
    pub(super) shown: String,
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
}

impl Pager {
    pub(super) fn new(query: &Query, slice: Slice, what: &str) -> Self {
        let shown = match slice.of {
            0 => format!("no {what}"),
            of => format!("{}–{} of {of} {what}", slice.from + 1, slice.to),
        };
        Self {
            shown,
            before: slice.before.map(|page| query.at(page)),
            after: slice.after.map(|page| query.at(page)),
        }
    }
}

fn everybody<'a>(standings: &'a Standings<'a>) -> impl Iterator<Item = &'a Place<'a>> {
    standings.places.iter().chain(&standings.unranked)
}

pub(super) fn home(snapshot: &Snapshot) -> Page {
    let best = |standings: &Standings<'_>| {
        let places: Vec<&Place<'_>> = everybody(standings).take(BEST).collect();
        Best {
            standings: html::standings(standings, &places, Links::Paths, 2),
            link: Links::Paths.challenge(standings.challenge).unwrap_or_default(),
            challenge: text(standings.challenge),
            all: everybody(standings).count(),
        }
    };
    let outcomes = snapshot.standings().iter().flat_map(everybody).map(|place| place.summary.outcome);
    let counts: Vec<String> = html::counts(outcomes).into_iter().map(|(_, said)| said).collect();
    let home =
        Home { counts: counts.join(", "), challenges: snapshot.standings().iter().map(best).collect() };
    Page::new("Board", Section::Board, &home)
}

pub(super) fn challenge(snapshot: &Snapshot, id: &str, query: &Query) -> Result<Page, Problem> {
    let standings = snapshot.challenge(id).ok_or_else(|| {
        Problem::not_found(format!("nobody was judged on `{id}`; `tribunal challenges` lists challenges"))
    })?;
    let q = query.get("q").to_lowercase();
    let outcome: Option<Ruling> = query.choice("outcome")?;
    let language = query.get("language");
    let chosen: Vec<&Place<'_>> = everybody(standings)
        .filter(|place| q.is_empty() || place.label.to_lowercase().contains(&q))
        .filter(|place| outcome.is_none_or(|outcome| place.summary.outcome == outcome))
        .filter(|place| language.is_empty() || place.summary.submission.language == language)
        .collect();
    let slice = query.slice(chosen.len(), ROWS)?;
    let mut languages: Vec<&str> =
        everybody(standings).map(|place| place.summary.submission.language.as_str()).collect();
    languages.sort_unstable();
    languages.dedup();
    let page = Challenge {
        challenge: text(id),
        standings: html::standings(standings, &chosen[slice.from..slice.to], Links::Paths, 1),
        q: clean::line(query.get("q")),
        outcomes: [Ruling::Accepted, Ruling::Rejected, Ruling::Disqualified, Ruling::Infrastructure]
            .map(|ruling| (ruling.name(), outcome == Some(ruling)))
            .to_vec(),
        languages: languages.into_iter().map(|one| (text(one), one == language)).collect(),
        pager: Pager::new(query, slice, "contestants"),
    };
    Ok(Page::new(id, Section::Board, &page))
}

pub(super) fn contestants(snapshot: &Snapshot, query: &Query) -> Result<Page, Problem> {
    let q = query.get("q").to_lowercase();
    let names: Vec<&str> =
        snapshot.names().filter(|name| q.is_empty() || name.to_lowercase().contains(&q)).collect();
    let slice = query.slice(names.len(), ROWS)?;
    let row = |name: &&str| {
        let summaries = snapshot.contestant(name);
        let cells = snapshot
            .standings()
            .iter()
            .map(|standings| {
                let summary = summaries.iter().find(|one| one.submission.challenge == standings.challenge)?;
                Some(cell(snapshot, summary))
            })
            .collect();
        Row { name: text(name), link: Links::Paths.contestant(name).unwrap_or_default(), cells }
    };
    let page = Contestants {
        q: clean::line(query.get("q")),
        challenges: snapshot
            .standings()
            .iter()
            .map(|standings| {
                (text(standings.challenge), Links::Paths.challenge(standings.challenge).unwrap_or_default())
            })
            .collect(),
        rows: names[slice.from..slice.to].iter().map(row).collect(),
        pager: Pager::new(query, slice, "contestants"),
    };
    Ok(Page::new("Contestants", Section::Contestants, &page))
}

fn cell(snapshot: &Snapshot, summary: &Summary) -> Cell {
    let place = snapshot.place(&summary.id).filter(|(_, place)| place.rank > 0);
    Cell {
        link: Links::Paths.verdict(&summary.id).unwrap_or_default(),
        score: linked_score(summary.score),
        sign: html::sign(summary.outcome),
        outcome: summary.outcome.name(),
        place: place.map_or_else(String::new, |(standings, place)| {
            format!("{}{} of {}", if place.tied { "=" } else { "" }, place.rank, standings.places.len())
        }),
    }
}

pub(super) fn contestant(snapshot: &Snapshot, name: &str) -> Result<Page, Problem> {
    let summaries = snapshot.contestant(name);
    if summaries.is_empty() {
        return Err(Problem::not_found(format!("no contestant of the name `{name}` was judged")));
    }
    let places: Vec<(&Standings<'_>, &Place<'_>)> =
        summaries.iter().filter_map(|summary| snapshot.place(&summary.id)).collect();
    // By the share of others that are ahead: scores of different challenges cannot be held against each other.
    let ahead = |(standings, place): &&(&Standings<'_>, &Place<'_>)| {
        (place.rank as f64 - 1.0) / standings.places.len() as f64
    };
    let ranked = || places.iter().filter(|(_, place)| place.rank > 0);
    let say = |found: Option<&(&Standings<'_>, &Place<'_>)>| {
        found.map_or_else(String::new, |(standings, place)| {
            let of = standings.places.len();
            format!(
                "{}, place {} of {of} with {}",
                text(standings.challenge),
                place.rank,
                score(place.summary.score)
            )
        })
    };
    let (best, worst) = match ranked().count() {
        0 | 1 => (String::new(), String::new()),
        _ => (
            say(ranked().min_by(|a, b| ahead(a).total_cmp(&ahead(b)))),
            say(ranked().max_by(|a, b| ahead(a).total_cmp(&ahead(b)))),
        ),
    };
    let page = Contestant {
        name: text(name),
        raw: name.to_owned(),
        best,
        worst,
        standings: places
            .iter()
            .map(|(standings, place)| html::standings(standings, &[place], Links::Paths, 2))
            .collect(),
        earlier: snapshot.earlier(name).into_iter().map(earlier).collect(),
    };
    Ok(Page::new(name, Section::Contestants, &page))
}

fn earlier(summary: &Summary) -> Earlier {
    Earlier {
        link: Links::Paths.verdict(&summary.id).unwrap_or_default(),
        id: text(&summary.id),
        challenge: text(&summary.submission.challenge),
        sign: html::sign(summary.outcome),
        outcome: summary.outcome.name(),
        score: score(summary.score),
        version: text(&summary.judge.version),
    }
}
