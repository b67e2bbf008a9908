//! What people read.

mod board;
mod compare;
mod judgings;
mod query;
mod verdict;

use std::sync::Arc;

use askama::Template;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{Method, StatusCode, Uri};
use axum::response::Response;
use tribunal_board::{clean, html};

use crate::answer::{Asked, HTML, JSON, answer};
use crate::problem::Problem;
use crate::site::Site;
use crate::snapshot::Snapshot;
pub(crate) use compare::contestants as compared;
pub(crate) use query::Query;

const SCRIPT: &str = include_str!("../../assets/live.js");
const ICON: &str = include_str!("../../assets/icon.svg");
const STYLE: &str = include_str!("../../assets/serve.css");

/// Longest foreign text shown.
const CHARS_MAX: usize = 600;

#[derive(Template)]
#[template(path = "frame.html")]
struct Frame<'a> {
    title: &'a str,
    section: Section,
    body: &'a str,
    api: Option<&'a str>,
    verdicts: usize,
    damaged: &'a [String],
    is_stale: bool,
}

/// Where in the site a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Board,
    Contestants,
    Compare,
    Judgings,
    Elsewhere,
}

/// A page's own part. Its body is HTML, its title is not yet cleaned.
pub(crate) struct Page {
    title: String,
    section: Section,
    body: String,
}

impl Page {
    fn new(title: impl Into<String>, section: Section, template: &impl Template) -> Self {
        Self { title: title.into(), section, body: template.render().expect("a template over strings") }
    }
}

pub(crate) async fn home(asked: Asked) -> Response {
    show(asked, |_, snapshot, _| Ok(board::home(snapshot))).await
}

pub(crate) async fn challenge(asked: Asked, Path(id): Path<String>) -> Response {
    show(asked, move |_, snapshot, query| board::challenge(snapshot, &id, query)).await
}

pub(crate) async fn contestants(asked: Asked) -> Response {
    show(asked, |_, snapshot, query| board::contestants(snapshot, query)).await
}

pub(crate) async fn contestant(asked: Asked, Path(name): Path<String>) -> Response {
    show(asked, move |_, snapshot, _| board::contestant(snapshot, &name)).await
}

pub(crate) async fn verdict(asked: Asked, Path(id): Path<String>) -> Response {
    show(asked, move |site, snapshot, query| verdict::page(site, snapshot, &id, query)).await
}

pub(crate) async fn source(asked: Asked, Path((id, path)): Path<(String, String)>) -> Response {
    show(asked, move |site, _, _| verdict::source(site, &id, &path)).await
}

pub(crate) async fn compare(asked: Asked) -> Response {
    show(asked, compare::page).await
}

/// Never kept: it is another every moment.
pub(crate) async fn judgings(State(site): State<Arc<Site>>, OriginalUri(uri): OriginalUri) -> Response {
    let page = judgings::page(&site);
    let body = framed(&site.snapshot(), &uri, page);
    answer(StatusCode::OK, HTML, body.into(), None)
}

pub(crate) async fn style() -> Response {
    asset("text/css; charset=utf-8", [html::STYLE, STYLE].concat())
}

pub(crate) async fn script() -> Response {
    asset("text/javascript; charset=utf-8", SCRIPT.to_owned())
}

pub(crate) async fn icon() -> Response {
    asset("image/svg+xml", ICON.to_owned())
}

pub(crate) async fn nowhere(OriginalUri(uri): OriginalUri) -> Response {
    problem(&uri, &Problem::not_found("there is no such page"))
}

/// The header `Allow` is the router's.
pub(crate) async fn not_answered(OriginalUri(uri): OriginalUri, method: Method) -> Response {
    let why = format!("{method} is not answered here; the header `Allow` says what is");
    problem(&uri, &Problem::new(StatusCode::METHOD_NOT_ALLOWED, why))
}

fn asset(kind: &'static str, text: String) -> Response {
    answer(StatusCode::OK, kind, text.into(), None)
}

/// A page as HTML.
async fn show<F>(asked: Asked, make: F) -> Response
where
    F: FnOnce(&Site, &Snapshot, &Query) -> Result<Page, Problem> + Send + 'static,
{
    let uri = asked.uri().clone();
    let framed = move |site: &Site, snapshot: &Snapshot, query: &Query| {
        Ok(framed(snapshot, &uri, make(site, snapshot, query)?))
    };
    asked.send(HTML, framed).await
}

/// The page within what all pages share.
fn framed(snapshot: &Snapshot, uri: &Uri, page: Page) -> String {
    // The same name, where there is JSON of it: everything, whatever part the page shows.
    let api = match (uri.path(), uri.query()) {
        ("/", _) => Some("/api/challenges".to_owned()),
        ("/compare", query) => query.map(|query| format!("/api/compare?{query}")),
        (path, _) if path.contains("/source/") => None,
        (path, _) => Some(format!("/api{path}")),
    };
    Frame {
        title: &clean::cut(&page.title, 200),
        section: page.section,
        body: &page.body,
        api: api.as_deref(),
        verdicts: snapshot.len(),
        damaged: &snapshot.damaged,
        is_stale: snapshot.is_stale(),
    }
    .render()
    .expect("a template over strings")
}

/// Why there is no page, as a page; as JSON for programs.
pub(crate) fn problem(uri: &Uri, problem: &Problem) -> Response {
    if uri.path().starts_with("/api/") {
        let body = serde_json::json!({ "error": problem.text() }).to_string();
        return answer(problem.status, JSON, body.into(), None);
    }
    let title = problem.status.canonical_reason().unwrap_or("Problem");
    let body = format!(
        "<header class=\"top\"><h1>{title}</h1></header><p>{}</p><p><a href=\"/\">The board</a></p>",
        askama::filters::escape(problem.text(), askama::filters::Html)
            .map_or_else(|never| match never {}, |safe| safe.to_string()),
    );
    let page = Frame {
        title,
        section: Section::Elsewhere,
        body: &body,
        api: None,
        verdicts: 0,
        damaged: &[],
        is_stale: false,
    };
    let body = page.render().expect("a template over strings");
    answer(problem.status, HTML, body.into(), None)
}

/// Foreign text, cleaned for a template, which escapes it.
pub(crate) fn text(hostile: &str) -> String {
    let clean = clean::cut(hostile, CHARS_MAX);
    if clean.trim().is_empty() { "—".to_owned() } else { clean }
}

/// A score that is a link: a dash is none to click on.
fn linked_score(score: Option<f64>) -> String {
    score.map_or_else(|| "no score".to_owned(), |score| format!("{score:.1}"))
}

/// A score as tables have it.
fn score(score: Option<f64>) -> String {
    score.map_or_else(|| "–".to_owned(), |score| format!("{score:.1}"))
}
