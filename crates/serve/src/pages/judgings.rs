//! What is being judged now.

use askama::Template;
use tribunal_board::live::{Entry, Judging};

use super::{Page, Section, linked_score, text};
use crate::events::{ShownTask, shown, shown_tasks};
use crate::site::Site;

#[derive(Template)]
#[template(path = "judgings.html")]
struct Judgings {
    judgings: Vec<View>,
    tasks: Option<Vec<ShownTask>>,
}

struct View {
    phase: String,
    done: usize,
    of: Option<usize>,
    submissions: Vec<Row>,
}

struct Row {
    name: String,
    challenge: String,
    phase: String,
    done: usize,
    of: Option<usize>,
    outcome: Option<&'static str>,
    score: String,
    link: Option<String>,
}

pub(super) fn page(site: &Site) -> Page {
    let judgings = site.judgings().borrow().iter().map(view).collect();
    let tasks = site.tasks.as_ref().map(|tasks| shown_tasks(tasks.list(site.is_private())));
    Page::new("Judgings", Section::Judgings, &Judgings { judgings, tasks })
}

fn view(judging: &Judging) -> View {
    let judging = shown(judging);
    View {
        phase: judging.phase,
        done: judging.done,
        of: judging.of,
        submissions: judging.submissions.iter().map(row).collect(),
    }
}

fn row(entry: &Entry) -> Row {
    Row {
        name: text(&entry.name),
        challenge: text(&entry.challenge),
        phase: text(&entry.phase),
        done: entry.done,
        of: entry.of,
        outcome: entry.outcome.map(|outcome| outcome.name()),
        score: linked_score(entry.score),
        link: entry.verdict.as_deref().and_then(|id| tribunal_board::html::Links::Paths.verdict(id)),
    }
}
