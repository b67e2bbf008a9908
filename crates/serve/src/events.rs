//! What changes while one looks.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tribunal_board::live::{Judging, WAITING};
use tribunal_board::{Summary, clean, html};

use crate::pages::text;
use crate::site::Site;
use crate::snapshot::Snapshot;
use crate::tasks::{Task, last_first};

/// Tasks that are shown.
const TASKS_MAX: usize = 20;

/// What is being judged, and what was asked for, as often as it changes, and the last verdict, whenever there is one.
///
/// Texts are cleaned; whoever shows them must still not take them for markup.
pub(crate) async fn events(
    State(site): State<Arc<Site>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let judgings = WatchStream::new(site.judgings())
        .map(|judgings| event("judgings", &judgings.iter().map(shown).collect::<Vec<_>>()));
    let board = WatchStream::new(site.snapshots()).map(|snapshot| event("board", &Board::of(&snapshot)));
    let with_said = site.is_private();
    let tasks: Pin<Box<dyn Stream<Item = _> + Send>> = match &site.tasks {
        Some(tasks) => Box::pin(
            WatchStream::new(tasks.watch())
                .map(move |list| event("tasks", &shown_tasks(last_first(&list, with_said)))),
        ),
        None => Box::pin(tokio_stream::empty()),
    };
    Sse::new(judgings.merge(board).merge(tasks)).keep_alive(KeepAlive::default())
}

fn event(name: &str, data: &impl Serialize) -> Result<Event, Infallible> {
    let json = serde_json::to_string(data).expect("lists of texts and numbers");
    Ok(Event::default().event(name).data(json))
}

/// The board in short.
#[derive(Serialize)]
struct Board {
    version: String,
    last: Option<Last>,
}

#[derive(Serialize)]
struct Last {
    link: String,
    name: String,
    challenge: String,
    outcome: &'static str,
    score: Option<f64>,
}

impl Board {
    fn of(snapshot: &Snapshot) -> Self {
        let last = |summary: &Summary| Last {
            link: html::Links::Paths.verdict(&summary.id).unwrap_or_default(),
            name: clean::cut(&summary.submission.name, 100),
            challenge: clean::cut(&summary.submission.challenge, 100),
            outcome: summary.outcome.name(),
            score: summary.score,
        };
        // As text: a script's numbers end at 2^53.
        Self { version: snapshot.version.to_string(), last: snapshot.newest().map(last) }
    }
}

/// A judging whose texts may be shown, with what is worked on before what waits before what is ruled.
pub(crate) fn shown(judging: &Judging) -> Judging {
    let mut judging = judging.clone();
    judging.phase = clean::cut(&judging.phase, 40);
    for entry in &mut judging.submissions {
        entry.name = clean::cut(&entry.name, 100);
        entry.challenge = clean::cut(&entry.challenge, 100);
        entry.phase = clean::cut(&entry.phase, 40);
    }
    judging.submissions.sort_by_key(|entry| (entry.verdict.is_some(), entry.phase == WAITING));
    judging
}

/// What was asked for, in texts that may be shown.
#[derive(Serialize)]
pub(crate) struct ShownTask {
    pub(crate) path: String,
    pub(crate) state: &'static str,
    /// Ids and links.
    pub(crate) verdicts: Vec<(String, String)>,
    pub(crate) said: String,
}

/// The first of these.
pub(crate) fn shown_tasks(tasks: impl IntoIterator<Item = Task>) -> Vec<ShownTask> {
    let verdict = |id: &String| Some((text(id), html::Links::Paths.verdict(id)?));
    let shown = |task: Task| ShownTask {
        path: text(&task.path.display().to_string()),
        state: task.state.name(),
        verdicts: task.verdicts.iter().filter_map(verdict).collect(),
        said: task.said.as_deref().map_or_else(String::new, text),
    };
    tasks.into_iter().take(TASKS_MAX).map(shown).collect()
}
