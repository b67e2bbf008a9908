//! What changes while one looks.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use serde::Serialize;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tribunal_board::live::{Judging, WAITING};
use tribunal_board::{Summary, clean, html};

use crate::site::Site;
use crate::snapshot::Snapshot;

/// What is being judged, as often as it changes, and the last verdict, whenever there is one.
///
/// Texts are cleaned; whoever shows them must still not take them for markup.
pub(crate) async fn events(
    State(site): State<Arc<Site>>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let judgings = WatchStream::new(site.judgings())
        .map(|judgings| event("judgings", &judgings.iter().map(shown).collect::<Vec<_>>()));
    let board = WatchStream::new(site.snapshots()).map(|snapshot| event("board", &Board::of(&snapshot)));
    Sse::new(judgings.merge(board)).keep_alive(KeepAlive::default())
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
