//! Standings, and which families of cases hold for whom.

use std::collections::BTreeSet;

use askama::Template;
use tribunal_judge::{Dimension, Family, Ruling};

use super::{Links, text, verdict};
use crate::ranking::{Place, Standings};
use crate::summary::Held;
use crate::{phrases, svg, words};

#[derive(Template)]
#[template(path = "standings.html")]
struct Body {
    level: u8,
    challenge: String,
    anchor: String,
    link: Option<String>,
    dimensions: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
    legend: String,
    notes: Vec<String>,
    families: Vec<&'static str>,
    heat: Vec<HeatRow>,
}

struct Row {
    rank: String,
    range: String,
    label: String,
    link: Option<String>,
    language: String,
    sign: &'static str,
    outcome: &'static str,
    score: String,
    interval: String,
    whisker: String,
    dimensions: Vec<String>,
    suspect: String,
}

struct HeatRow {
    label: String,
    link: Option<String>,
    cells: Vec<Cell>,
}

/// A family's cell: nothing tried, or how much held.
struct Cell {
    /// 0 for all that hold, up to 5 for none.
    heat: u8,
    shown: String,
    title: String,
}

/// How many ended how, in words, where any did.
pub fn counts(outcomes: impl IntoIterator<Item = Ruling>) -> Vec<(Ruling, String)> {
    let outcomes: Vec<Ruling> = outcomes.into_iter().collect();
    [Ruling::Accepted, Ruling::Rejected, Ruling::Disqualified, Ruling::Infrastructure]
        .into_iter()
        .map(|ruling| (ruling, outcomes.iter().filter(|outcome| **outcome == ruling).count()))
        .filter(|(_, count)| *count > 0)
        .map(|(ruling, count)| match ruling {
            Ruling::Infrastructure => (ruling, format!("{count} not judged ({})", ruling.name())),
            _ => (ruling, format!("{count} {}", ruling.name())),
        })
        .collect()
}

/// Places of one challenge.
pub(super) fn body(standings: &Standings<'_>, places: &[&Place<'_>], links: Links, level: u8) -> String {
    let (ranked, unranked): (Vec<&Place<'_>>, Vec<&Place<'_>>) =
        places.iter().copied().partition(|place| place.rank > 0);
    let unranked = unranked
        .iter()
        .map(|place| format!("Not ranked: {} ({})", text(&place.label), phrases::why_unranked(place)));
    let notes =
        unranked.chain(standings.cautions.iter().map(|caution| format!("Note: {caution}."))).collect();
    let families: BTreeSet<Family> =
        places.iter().flat_map(|place| place.summary.families.keys().copied()).collect();
    let heat = places
        .iter()
        .map(|place| HeatRow {
            label: text(&place.label),
            link: links.verdict(&place.summary.id),
            cells: families.iter().map(|family| cell(*family, place.summary.families.get(family))).collect(),
        })
        .collect();
    Body {
        level,
        challenge: text(standings.challenge),
        anchor: format!("challenge-{}", standings.challenge),
        link: if links == Links::Paths { links.challenge(standings.challenge) } else { None },
        dimensions: standings.weights.iter().map(|&(d, _)| (phrases::short(d), d.name())).collect(),
        rows: ranked.iter().map(|place| row(place, standings, links)).collect(),
        legend: phrases::legend(standings),
        notes,
        families: families.iter().map(|family| family.name()).collect(),
        heat,
    }
    .render()
    .expect("a template over strings")
}

fn row(place: &Place<'_>, standings: &Standings<'_>, links: Links) -> Row {
    let summary = place.summary;
    let interval = summary.interval();
    let part = |dimension: &Dimension| summary.dimensions.get(dimension).and_then(|part| part.score);
    Row {
        rank: phrases::rank(place),
        range: phrases::range(place),
        label: text(&place.label),
        link: links.verdict(&summary.id),
        language: text(&summary.submission.language),
        sign: verdict::sign(summary.outcome),
        outcome: summary.outcome.name(),
        score: phrases::score(place),
        interval: interval.map_or(String::new(), |[low, high]| format!("{low:.1}–{high:.1}")),
        whisker: summary.score.map_or(String::new(), |score| svg::whisker(score, interval)),
        dimensions: standings.weights.iter().map(|(dimension, _)| words::score(part(dimension))).collect(),
        suspect: summary.suspect.as_deref().map_or(String::new(), text),
    }
}

fn cell(family: Family, held: Option<&Held>) -> Cell {
    let family = family.name();
    match held {
        Some(&Held { held, cases, .. }) if cases > 0 => {
            let share = held as f64 / cases as f64;
            // Rounded towards the middle: neither all nor none unless it is so.
            let percent = (100.0 * share).round().clamp(1.0, 99.0);
            let (heat, shown) = match held {
                _ if held == cases => (0, "✓".to_owned()),
                0 => (5, "✗ 0".to_owned()),
                _ => (1 + ((1.0 - share) * 4.0).floor().clamp(0.0, 3.0) as u8, format!("{percent:.0}")),
            };
            Cell { heat, shown, title: format!("{family}: {held} of {} hold", words::count(cases, "case")) }
        }
        _ => Cell { heat: 9, shown: "–".to_owned(), title: format!("{family}: not tried") },
    }
}
