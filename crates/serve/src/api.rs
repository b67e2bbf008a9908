//! The same as JSON, under the same names.
//!
//! Texts are as they were judged: whoever shows them cleans them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use serde_json::{Value, json};
use tribunal_board::ranking::Place;
use tribunal_board::{Bundle, Summary, Taken, json as verdict_json};

use crate::answer::{Asked, JSON, answer};
use crate::door::may_write;
use crate::pages::{self, problem};
use crate::problem::Problem;
use crate::site::Site;

/// Bytes of a request that is taken in.
const BODY_BYTES_MAX: usize = 64 << 20;

pub(crate) async fn challenges(asked: Asked) -> Response {
    asked.send(JSON, |_, snapshot, _| {
        let challenges: Vec<Value> = snapshot
            .standings()
            .iter()
            .map(|one| {
                let best = one.places.first().map(|place| &place.summary.id);
                json!({ "challenge": one.challenge, "ranked": one.places.len(), "unranked": one.unranked.len(), "best": best })
            })
            .collect();
        Ok(json!({ "challenges": challenges, "damaged": snapshot.damaged }).to_string())
    })
    .await
}

pub(crate) async fn challenge(asked: Asked, Path(id): Path<String>) -> Response {
    asked
        .send(JSON, move |_, snapshot, _| {
            let standings =
                snapshot.challenge(&id).ok_or_else(|| Problem::not_found("nobody was judged on it"))?;
            let weights: serde_json::Map<String, Value> = standings
                .weights
                .iter()
                .map(|(dimension, weight)| (dimension.name().to_owned(), json!(weight)))
                .collect();
            Ok(json!({
                "challenge": standings.challenge,
                "weights": weights,
                "cautions": standings.cautions,
                "places": standings.places.iter().chain(&standings.unranked).map(place).collect::<Vec<_>>(),
            })
            .to_string())
        })
        .await
}

pub(crate) async fn contestants(asked: Asked) -> Response {
    asked
        .send(JSON, |_, snapshot, _| {
            Ok(json!({ "contestants": snapshot.names().collect::<Vec<_>>() }).to_string())
        })
        .await
}

pub(crate) async fn contestant(asked: Asked, Path(name): Path<String>) -> Response {
    asked
        .send(JSON, move |_, snapshot, _| {
            let summaries = snapshot.contestant(&name);
            if summaries.is_empty() {
                return Err(Problem::not_found("no contestant of that name was judged"));
            }
            let challenges: Vec<Value> = summaries
                .iter()
                .filter_map(|summary| snapshot.place(&summary.id))
                .map(|(standings, here)| {
                    let mut value = place(here);
                    value["challenge"] = json!(standings.challenge);
                    value["of"] = json!(standings.places.len());
                    value
                })
                .collect();
            let earlier: Vec<Value> = snapshot.earlier(&name).into_iter().map(summary).collect();
            Ok(json!({ "contestant": name, "challenges": challenges, "earlier": earlier }).to_string())
        })
        .await
}

/// The verdict as `tribunal show --format json` has it.
pub(crate) async fn verdict(asked: Asked, Path(id): Path<String>) -> Response {
    asked.send(JSON, move |site, _, _| Ok(verdict_json::line(&site.store.get(&id)?))).await
}

/// Everything there is, for `tribunal import`.
pub(crate) async fn bundle(asked: Asked, Path(id): Path<String>) -> Response {
    asked.send(JSON, move |site, _, _| Ok(site.store.bundle(&id)?.line())).await
}

/// As `tribunal compare --format json` has it.
pub(crate) async fn compare(asked: Asked) -> Response {
    asked
        .send(JSON, |site, snapshot, query| {
            let comparison = tribunal_board::compare::compare(&pages::compared(site, snapshot, query)?, &[]);
            serde_json::to_string(&comparison)
                .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
        })
        .await
}

pub(crate) async fn judgings(State(site): State<Arc<Site>>, headers: HeaderMap) -> Response {
    let judgings = site.judgings().borrow().clone();
    let with_said = site.is_private() || may_write(&site, &headers).is_ok();
    let tasks = site.tasks.as_ref().map(|tasks| tasks.list(with_said));
    let body = json!({ "judgings": *judgings, "tasks": tasks }).to_string();
    answer(StatusCode::OK, JSON, body.into(), None)
}

/// Takes a bundle in, if what it says follows from its evidence.
pub(crate) async fn keep(
    State(site): State<Arc<Site>>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Response {
    let kept = async {
        may_write(&site, request.headers())?;
        let text = body(request).await?;
        let store = site.store.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let text = std::str::from_utf8(&text).map_err(|error| Problem::bad(error.to_string()))?;
            let bundle = Bundle::read(text).map_err(|error| Problem::bad(error.to_string()))?;
            bundle.check().map_err(|why| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why.to_string()))?;
            let taken = match store.take(&bundle)? {
                Taken::Kept => "kept",
                Taken::Unchanged => "unchanged",
                Taken::PassedOver => {
                    let why = "the store has another judging of the same, and this is no later one";
                    return Err(Problem::new(StatusCode::CONFLICT, why));
                }
            };
            let is_told = bundle.has_what_was_judged();
            Ok::<_, Problem>(
                json!({ "verdict": bundle.verdict.id, "taken": taken, "sources_are_what_was_judged": is_told }),
            )
        });
        let kept = kept
            .await
            .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))??;
        site.refresh().await;
        Ok(kept.to_string())
    };
    ended(&uri, StatusCode::CREATED, kept.await)
}

/// Has a folder judged.
pub(crate) async fn judge(
    State(site): State<Arc<Site>>,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Response {
    let ordered = async {
        may_write(&site, request.headers())?;
        let Some(tasks) = &site.tasks else {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "this server judges nobody: start `tribunal serve` with --submissions DIR to have folders below it judged",
            ));
        };
        let order = serde_json::from_slice(&body(request).await?).map_err(|error| {
            Problem::bad(format!(
                "{error}; expected is {{\"path\": \"FOLDER\", \"effort\": \"quick|standard|full\"}}"
            ))
        })?;
        Ok(json!(tasks.add(order)?).to_string())
    };
    ended(&uri, StatusCode::ACCEPTED, ordered.await)
}

async fn body(request: Request) -> Result<Bytes, Problem> {
    axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await.map_err(|error| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("{error}: at most {} MiB are taken in", BODY_BYTES_MAX >> 20),
        )
    })
}

fn ended(uri: &Uri, status: StatusCode, ended: Result<String, Problem>) -> Response {
    match ended {
        Ok(body) => answer(status, JSON, body.into(), None),
        Err(why) => {
            let mut response = problem(uri, &why);
            if why.status == StatusCode::UNAUTHORIZED {
                response
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}

fn place(place: &Place<'_>) -> Value {
    let mut value = summary(place.summary);
    value["rank"] = json!((place.rank > 0).then_some(place.rank));
    value["tied"] = json!(place.tied);
    value["range"] = json!(place.range);
    value
}

/// A summary without its draws, which are two hundred numbers, but with what they come to.
fn summary(summary: &Summary) -> Value {
    let mut value = json!(Summary { resampled: Vec::new(), ..summary.clone() });
    if let Some(fields) = value.as_object_mut() {
        fields.remove("resampled");
        fields.insert("interval".to_owned(), json!(summary.interval()));
    }
    value
}
