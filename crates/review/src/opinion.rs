//! What a review says. All of it is opinion, but for what became of a check.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tribunal_judge::Dimension;

use crate::hypothesis::Decision;
use crate::material::{Citation, LeftOut, Reason};

/// Opinions on one submission, or on two against each other. No score knows of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Review {
    /// Always `tribunal.review/1`.
    pub schema: String,
    /// What this is, for whoever has nothing else before them.
    pub label: String,
    /// The challenge's id.
    pub challenge: String,
    /// Who is spoken of.
    pub contestants: Vec<Shown>,
    /// Who was asked, and what came of it.
    pub reviewers: Vec<Report>,
    /// Of two contestants: how many reviewers prefer the first, how many the second, and how many neither or no one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preferences: BTreeMap<Dimension, Split>,
}

/// Who is spoken of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shown {
    /// The contestant's name, which no reviewer is told.
    pub name: String,
    /// Digest of its files.
    pub sha256: String,
    /// The verdict whose evidence decides; null where it was not judged.
    pub verdict: Option<String>,
}

/// How a panel is split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Those who prefer the first in both orders, with citations.
    pub first: usize,
    /// Those who prefer the second so.
    pub second: usize,
    /// Those who prefer neither.
    pub neither: usize,
    /// Those whose answers do not count.
    pub uncounted: usize,
}

/// What came of asking one reviewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The reviewer.
    pub reviewer: String,
    /// The model it asked for.
    pub model: String,
    /// How many questions were put.
    pub asked: usize,
    /// How many answers had the form that was asked for.
    pub answered: usize,
    /// Why no more was asked, where the reviewer failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What it holds, with lines.
    pub opinions: Vec<Opinion>,
    /// What was discarded.
    pub discarded: Vec<Discarded>,
    /// Answers that are no vote.
    pub no_votes: Vec<NoVote>,
    /// Of two contestants: which it prefers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub preferences: BTreeMap<Dimension, Preference>,
    /// What it was not shown, for each contestant.
    pub left_out: Vec<Vec<LeftOut>>,
}

/// A statement that stands on lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Opinion {
    /// What it is about.
    pub dimension: Dimension,
    /// Which contestant, from 0.
    pub contestant: usize,
    /// The model's words; null of prose, of which a claim alone is taken.
    pub statement: Option<String>,
    /// Where.
    pub citation: Citation,
    /// The check it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What became of the check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The exchanges in which it was said.
    pub exchanges: Vec<String>,
}

/// What was said and does not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Discarded {
    /// What it was about.
    pub dimension: Dimension,
    /// Why.
    pub reason: Reason,
    /// The model's words.
    pub statement: String,
    /// The exchange.
    pub exchange: String,
}

/// An answer that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoVote {
    /// What was asked.
    pub dimension: Dimension,
    /// Why it could not be read.
    pub why: String,
    /// The exchange.
    pub exchange: String,
}

/// Which of two a reviewer prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// The first, in both orders.
    First,
    /// The second, in both orders.
    Second,
    /// Neither, in both orders.
    Neither,
    /// Another one when they stood in the other order: no preference.
    OrdersDisagree,
    /// One that cites no line that is there: no preference.
    Uncited,
    /// An answer is missing.
    NoAnswer,
}

impl Preference {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::First => "the first",
            Self::Second => "the second",
            Self::Neither => "neither",
            Self::OrdersDisagree => "none: it disagrees with itself when the order is swapped",
            Self::Uncited => "none: nothing is cited for it",
            Self::NoAnswer => "none: an answer is missing",
        }
    }
}
