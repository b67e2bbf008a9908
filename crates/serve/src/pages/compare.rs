//! Any contestants held against each other.

use askama::Template;
use tribunal_board::compare::{self, Contestant};
use tribunal_board::html::Links;
use tribunal_board::{StoreError, clean, document};
use tribunal_judge::Verdict;

use super::{Page, Query, Section, score, text};
use crate::problem::Problem;
use crate::site::Site;
use crate::snapshot::Snapshot;

/// Contestants on a page.
const WITH_MAX: usize = 8;

/// Names that are offered while one types.
const NAMES_MAX: usize = 500;

/// Fields of an empty form.
const FIELDS: usize = 2;

#[derive(Template)]
#[template(path = "compare.html")]
struct Compare {
    fields: Vec<String>,
    names: Vec<String>,
    /// Why there is no comparison, though one was asked for.
    mistake: String,
    body: String,
    evidence: Vec<Evidence>,
}

/// The verdicts that stand behind a contestant's columns.
struct Evidence {
    name: String,
    verdicts: Vec<Link>,
}

struct Link {
    challenge: String,
    score: String,
    outcome: &'static str,
    to: String,
}

pub(super) fn page(site: &Site, snapshot: &Snapshot, query: &Query) -> Result<Page, Problem> {
    let mut fields: Vec<String> = query.all("with").map(str::to_owned).collect();
    let mut page = Compare {
        fields: Vec::new(),
        names: Vec::new(),
        mistake: String::new(),
        body: String::new(),
        evidence: Vec::new(),
    };
    let mut title = "Compare".to_owned();
    if fields.len() > 1 {
        match contestants(site, snapshot, query) {
            Ok(contestants) => {
                let comparison = compare::compare(&contestants, &[]);
                title = comparison.contestants.join(" against ");
                page.body = document::html::body(&compare::document(&comparison));
                page.evidence = contestants.iter().map(evidence).collect();
            }
            // The form stays filled in, to be mended.
            Err(why) if why.status.is_client_error() => page.mistake = why.text(),
            Err(why) => return Err(why),
        }
    }
    // One more to fill in, and never fewer than it takes.
    fields.resize((fields.len() + 1).clamp(FIELDS, WITH_MAX), String::new());
    page.fields = fields;
    page.names = snapshot
        .names()
        .filter(|name| clean::line(name) == *name)
        .take(NAMES_MAX)
        .map(str::to_owned)
        .collect();
    Ok(Page::new(title, Section::Compare, &page))
}

fn evidence(contestant: &Contestant) -> Evidence {
    let link = |verdict: &Verdict| Link {
        challenge: text(&verdict.submission.challenge),
        score: score(verdict.score),
        outcome: verdict.outcome.name(),
        to: Links::Paths.verdict(&verdict.id).unwrap_or_default(),
    };
    Evidence { name: text(&contestant.label), verdicts: contestant.verdicts.iter().map(link).collect() }
}

/// Who is asked for: a contestant's name, or the beginning of a verdict's id.
pub(crate) fn contestants(
    site: &Site,
    snapshot: &Snapshot,
    query: &Query,
) -> Result<Vec<Contestant>, Problem> {
    let asked: Vec<&str> = query.all("with").collect();
    if !(2..=WITH_MAX).contains(&asked.len()) {
        return Err(Problem::bad(format!("`with` names 2 to {WITH_MAX} contestants, one each")));
    }
    let mut contestants =
        asked.iter().map(|name| contestant(site, snapshot, name)).collect::<Result<Vec<_>, _>>()?;
    let labels: Vec<String> = contestants.iter().map(|one| one.label.clone()).collect();
    for (contestant, asked) in contestants.iter_mut().zip(asked) {
        if labels.iter().filter(|label| **label == contestant.label).count() > 1 && contestant.label != asked
        {
            contestant.label = format!("{} ({asked})", contestant.label);
        }
    }
    Ok(contestants)
}

fn contestant(site: &Site, snapshot: &Snapshot, name: &str) -> Result<Contestant, Problem> {
    let named = snapshot.contestant(name);
    if !named.is_empty() {
        let verdicts: Vec<Verdict> =
            named.into_iter().map(|summary| site.store.get(&summary.id)).collect::<Result<_, _>>()?;
        return Ok(Contestant { label: name.to_owned(), verdicts });
    }
    match site.store.get(name) {
        Ok(verdict) => Ok(Contestant { label: verdict.submission.name.clone(), verdicts: vec![verdict] }),
        Err(StoreError::NotFound { .. }) => {
            Err(Problem::not_found(format!("`{name}` is no contestant with a verdict, and no verdict's id")))
        }
        Err(error) => Err(error.into()),
    }
}
