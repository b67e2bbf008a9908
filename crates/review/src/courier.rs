//! How a request reaches a model and its answer comes back, and what is told where none does.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::Reviewer;
use crate::digest;
use crate::record::RecordError;

/// Bytes of a response.
const RESPONSE_BYTES_MAX: u64 = 4 << 20;

/// How often a request is made at most.
const TRIES_MAX: usize = 3;

/// Seconds that an endpoint may have us wait before the next try.
const WAIT_S_MAX: u64 = 30;

/// Who carries requests.
pub trait Courier: Sync {
    /// Carries one there and brings back what came of it. An error is a record's, which spoils the review; whatever the endpoint does is
    /// in the exchange.
    fn carry(&self, reviewer: &Reviewer, request: &str) -> Result<Exchange, RecordError>;
}

/// A request and all that came of it, to the byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// Always `tribunal.exchange/1`.
    pub schema: String,
    /// Whom it went to.
    pub reviewer: String,
    /// Where.
    pub url: String,
    /// What was sent.
    pub request: String,
    /// What came of each try.
    pub attempts: Vec<Attempt>,
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attempt {
    /// An answer.
    Answered {
        /// Status of HTTP.
        status: u16,
        /// Seconds to wait, as the endpoint asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u64>,
        /// The answer.
        body: Body,
    },
    /// None, and why.
    Failed(String),
}

/// Bytes: as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Body {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl Body {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }
}

impl Exchange {
    pub(crate) fn new(reviewer: &Reviewer, request: &str, attempts: Vec<Attempt>) -> Self {
        Self {
            schema: "tribunal.exchange/1".to_owned(),
            reviewer: reviewer.name.clone(),
            url: reviewer.endpoint(),
            request: request.to_owned(),
            attempts,
        }
    }

    /// What it is kept under: a digest of whom was asked what.
    pub fn id(&self) -> String {
        id(&self.reviewer, &self.url, &self.request)
    }

    /// The body of the last try, or what went wrong.
    pub(crate) fn outcome(&self) -> Result<String, Refusal> {
        let tries = match self.attempts.len() {
            1 => String::new(),
            several => format!(" in each of {several} tries"),
        };
        match self.attempts.last() {
            Some(Attempt::Answered { status: 200, body, .. }) => Ok(body.text()),
            Some(Attempt::Answered { status, body, .. }) => {
                let said: String = body.text().chars().take(200).collect();
                Err(Refusal { status: Some(*status), why: format!("HTTP {status}{tries}: {said}") })
            }
            Some(Attempt::Failed(why)) => Err(Refusal { status: None, why: why.clone() }),
            None => Err(Refusal { status: None, why: "nothing was tried".to_owned() }),
        }
    }
}

pub(crate) fn id(reviewer: &str, url: &str, request: &str) -> String {
    digest(&format!("{reviewer}\n{url}\n{request}"))
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Option<u16>,
    pub(crate) why: String,
}

/// Asks over HTTP. What an endpoint may take, send and do again is bounded; it is not followed elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Http {
    /// How long to wait before the second try; twice as long before the third. Endpoints may ask for longer.
    pub pause: Duration,
}

impl Default for Http {
    fn default() -> Self {
        Self { pause: Duration::from_secs(2) }
    }
}

impl Courier for Http {
    fn carry(&self, reviewer: &Reviewer, request: &str) -> Result<Exchange, RecordError> {
        let key = match reviewer.key_env.as_ref().map(|name| (name, std::env::var(name))) {
            None => None,
            Some((_, Ok(key))) if !key.is_empty() => Some(key),
            Some((name, _)) => {
                let why = format!("the environment variable {name} holds no key");
                return Ok(Exchange::new(reviewer, request, vec![Attempt::Failed(why)]));
            }
        };
        let agent = agent(reviewer);
        let mut attempts = Vec::new();
        let mut pause = self.pause;
        loop {
            let attempt = attempt(&agent, reviewer, key.as_deref(), request);
            let again = match &attempt {
                Attempt::Answered { status, retry_after_s, .. } if *status == 429 || *status >= 500 => {
                    Some(Duration::from_secs(retry_after_s.unwrap_or(0).min(WAIT_S_MAX)))
                }
                _ => None,
            };
            attempts.push(attempt);
            match again {
                Some(asked) if attempts.len() < TRIES_MAX => std::thread::sleep(pause.max(asked)),
                _ => return Ok(Exchange::new(reviewer, request, attempts)),
            }
            pause *= 2;
        }
    }
}

fn agent(reviewer: &Reviewer) -> ureq::Agent {
    let mut config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(reviewer.timeout_s)))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("tribunal/", env!("CARGO_PKG_VERSION")));
    if ["http://127.0.0.1", "http://localhost", "http://[::1]"]
        .iter()
        .any(|here| reviewer.url.starts_with(here))
    {
        // What is on this machine no proxy reaches.
        config = config.proxy(None);
    }
    config.build().new_agent()
}

fn attempt(agent: &ureq::Agent, reviewer: &Reviewer, key: Option<&str>, request: &str) -> Attempt {
    let mut post = agent.post(reviewer.endpoint()).header("content-type", "application/json");
    if let Some(key) = key {
        post = post.header("authorization", format!("Bearer {key}"));
    }
    let failed = |error: &ureq::Error| match error {
        ureq::Error::Timeout(_) => Attempt::Failed(format!("no answer in {} s", reviewer.timeout_s)),
        ureq::Error::BodyExceedsLimit(most) => {
            Attempt::Failed(format!("an answer of more than {} MiB", most >> 20))
        }
        other => Attempt::Failed(other.to_string()),
    };
    let mut response = match post.send(request) {
        Ok(response) => response,
        Err(error) => return failed(&error),
    };
    let retry_after =
        response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec() {
        Ok(bytes) => Attempt::Answered {
            status: response.status().as_u16(),
            retry_after_s: retry_after,
            body: without(Body::new(bytes), key),
        },
        Err(error) => failed(&error),
    }
}

/// An endpoint that repeats the key does not bring it into a record.
fn without(body: Body, key: Option<&str>) -> Body {
    match (body, key) {
        (Body::Text(text), Some(key)) => Body::Text(text.replace(key, "[key]")),
        (Body::Bytes(bytes), Some(key)) => {
            let text = String::from_utf8_lossy(&bytes);
            if text.contains(key) { Body::Text(text.replace(key, "[key]")) } else { Body::Bytes(bytes) }
        }
        (body, None) => body,
    }
}
