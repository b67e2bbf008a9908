//! What is being judged now.

use askama::Template;
use tribunal_board::live::{Entry, Judging};

use super::{Page, Section, score, text};
use crate::events::shown;
use crate::site::Site;
use crate::tasks::Task;

/// Tasks that are shown.
const TASKS_MAX: usize = 20;

#[derive(Template)]
#[template(path = "judgings.html")]
struct Judgings {
    judgings: Vec<View>,
    tasks: Option<Vec<TaskView>>,
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

struct TaskView {
    path: String,
    state: &'static str,
    verdicts: Vec<(String, String)>,
    said: String,
}

pub(super) fn page(site: &Site) -> Page {
    let judgings = site.judgings().borrow().iter().map(view).collect();
    let tasks = site
        .tasks
        .as_ref()
        .map(|tasks| tasks.list(site.is_private()).iter().take(TASKS_MAX).map(task).collect());
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
        score: score(entry.score),
        link: entry.verdict.as_deref().and_then(|id| tribunal_board::html::Links::Paths.verdict(id)),
    }
}

fn task(task: &Task) -> TaskView {
    let verdict = |id: &String| Some((text(id), tribunal_board::html::Links::Paths.verdict(id)?));
    TaskView {
        path: text(&task.path.display().to_string()),
        state: task.state.name(),
        verdicts: task.verdicts.iter().filter_map(verdict).collect(),
        said: task.said.as_deref().map_or_else(String::new, text),
    }
}
