//! Opinions of language models on submissions. They are labelled as that, and no score knows of them.
//!
//! One direction: a [`Party`] becomes [`Material`], which nobody can speak through; the questions of the [`rubric`] and the material
//! become requests, which a [`Courier`] carries; an answer is held to the lines that it cites, or is discarded ([`cite`](Material::cite)); a
//! [`Check`] that it names is decided by what a verdict rests on, which a [`Judge`] gives where there is none yet; and all of that is a
//! [`Review`], which [`page()`] shows.
//!
//! Nothing here runs a submission, and nothing is printed. What comes from a model is text that nobody trusts.

#![forbid(unsafe_code)]

mod answer;
mod ask;
mod config;
mod courier;
mod hypothesis;
mod judge;
mod material;
mod opinion;
mod page;
mod record;
mod review;
pub mod rubric;

pub use config::{ConfigError, Reviewer, reviewers};
pub use courier::{Attempt, Body, Courier, Exchange, Http};
pub use hypothesis::{Check, Decision, Grounds, Vocabulary};
pub use judge::{Judge, Nobody, Wanted};
pub use material::{Citation, LeftOut, Material, Reason};
pub use opinion::{Discarded, NoVote, Opinion, Preference, Report, Review, Shown, Split};
pub use page::page;
pub use record::{RecordError, Recorder, Replay};
pub use review::{Party, ReviewError, review};

/// The form of review that this version writes.
pub const FORM: &str = "tribunal.review/1";

/// The JSON Schema of a review.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Review).to_value();
    schema["properties"]["schema"]["const"] = FORM.into();
    schema
}

/// The beginning of a digest, in hexadecimal.
fn digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
