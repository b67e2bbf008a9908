//! Who comes in, and what every answer says about itself.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use crate::pages;
use crate::problem::Problem;
use crate::site::Site;

/// Everything comes from this server, scripts that make markup of text are refused, and no other page may frame it.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// Refuses readers who came by another name or ask for what cannot be one, and marks every answer.
pub(crate) async fn guard(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let mut response = match admit(&site, request.headers(), request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => pages::problem(request.uri(), &problem),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn admit(site: &Site, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    if !is_ours(site, headers, uri) {
        return Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not go by that name; `tribunal serve --host NAME` adds one",
        ));
    }
    percent_decode_str(uri.path())
        .decode_utf8()
        .map_err(|error| Problem::bad(format!("the path is no text: {error}")))?;
    Ok(())
}

/// A page elsewhere can have its own name lead to this machine and read through its visitors' browsers. So where only this machine is
/// served, only its own names are answered.
fn is_ours(site: &Site, headers: &HeaderMap, uri: &Uri) -> bool {
    if !site.is_local && site.hosts.is_empty() {
        return true;
    }
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let Some(authority) = named.or_else(|| uri.authority().map(|authority| authority.as_str())) else {
        return false;
    };
    let Ok(authority) = authority.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_here = name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback() || !site.is_local);
    is_here || site.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// Whether the request may write.
pub(crate) fn may_write(site: &Site, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = &site.token else {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "this server only reads: start `tribunal serve` with TRIBUNAL_TOKEN set to have it write for those who know the token",
        ));
    };
    let shown = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .and_then(|(scheme, token)| scheme.eq_ignore_ascii_case("Bearer").then_some(token));
    // Digests, so that the time taken tells nothing of how much of a guess was right.
    if shown.is_some_and(|shown| Sha256::digest(shown) == Sha256::digest(token)) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNAUTHORIZED, "writing takes the header `Authorization: Bearer TOKEN`"))
}
