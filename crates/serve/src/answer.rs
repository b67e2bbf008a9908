//! Answers: made once for a snapshot, and sent to whoever does not have them yet.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::pages::{self, Query};
use crate::problem::Problem;
use crate::site::Site;
use crate::snapshot::Snapshot;

pub(crate) const HTML: &str = "text/html; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

/// A request for something that is made of a snapshot.
pub(crate) struct Asked {
    site: Arc<Site>,
    uri: Uri,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<Site>> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Infallible> {
        let OriginalUri(uri) = OriginalUri::from_request_parts(parts, site).await?;
        Ok(Self { site: site.clone(), uri, headers: parts.headers.clone() })
    }
}

impl Asked {
    /// Where it was asked for.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// What stands there, unless the reader has it already.
    pub(crate) async fn send<F>(self, kind: &'static str, make: F) -> Response
    where
        F: FnOnce(&Site, &Snapshot, &Query) -> Result<String, Problem> + Send + 'static,
    {
        let Self { site, uri, headers } = self;
        let key = uri.path_and_query().map_or_else(String::new, ToString::to_string);
        let tag = site.tag(&site.snapshot(), &key);
        if has(&headers, &tag) {
            return answer(StatusCode::NOT_MODIFIED, kind, Bytes::new(), Some(&tag));
        }
        let asked = uri.clone();
        let made =
            site.clone().made(key.clone(), move |site, snapshot| make(site, snapshot, &Query::of(&asked)?));
        match made.await {
            Ok((body, snapshot)) => answer(StatusCode::OK, kind, body, Some(&site.tag(&snapshot, &key))),
            Err(why) => pages::problem(&uri, &why),
        }
    }
}

/// Whether the reader has what that tag marks.
fn has(headers: &HeaderMap, tag: &str) -> bool {
    headers
        .get(header::IF_NONE_MATCH)
        .and_then(|tags| tags.to_str().ok())
        .is_some_and(|tags| tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag))
}

/// An answer that is asked for again each time, and sent again only if it changed.
pub(crate) fn answer(status: StatusCode, kind: &'static str, body: Bytes, tag: Option<&str>) -> Response {
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    let mut response = (status, headers, body).into_response();
    if let Some(tag) = tag.and_then(|tag| tag.parse().ok()) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
