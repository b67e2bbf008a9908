//! Asks every reviewer every question, holds the answers to their lines, and has the checks decided.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tribunal_contract::Language;
use tribunal_judge::{Challenge, Dimension, SourceFile, Verdict, challenges};

use crate::answer::{self, Answer, Item, short};
use crate::ask::{ITEMS_MAX, Question};
use crate::config::Reviewer;
use crate::courier::{Courier, Exchange, Refusal};
use crate::hypothesis::{Check, Decision, Grounds, Vocabulary};
use crate::judge::{Judge, Wanted};
use crate::material::{Material, Reason};
use crate::opinion::{Discarded, NoVote, Opinion, Preference, Report, Review, Shown, Split};
use crate::record::RecordError;
use crate::rubric::{CODE, PROSE, Topic};

/// What a review is, for whoever has nothing else before them.
const LABEL: &str = "Opinions of language models. No part of any verdict's evidence or score.";

/// A submission, with the verdict on it where there is one.
#[derive(Debug, Clone)]
pub struct Party {
    /// The contestant's name.
    pub name: String,
    /// The challenge's id.
    pub challenge: String,
    /// Its language.
    pub language: Language,
    /// Digest of its files.
    pub sha256: String,
    /// Its files.
    pub files: Vec<SourceFile>,
    /// What decides hypotheses.
    pub verdict: Option<Verdict>,
}

/// Why there is no review.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// One submission is reviewed, or two are compared.
    #[error("one submission is reviewed, or two are compared: there are {0}")]
    Parties(usize),
    /// Two that were not asked for the same.
    #[error("{0} and {1} are different challenges")]
    Challenges(String, String),
    /// No challenge of that id.
    #[error("there is no challenge `{0}`")]
    NoChallenge(String),
    /// Nothing to show.
    #[error("there is no source of {0} to show")]
    NoSource(String),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// Reviews one submission, or compares two in both orders. Reviewers are asked side by side; one that fails has no part in what becomes of the
/// others. Only then is anybody judged, if a check was named that no verdict decides.
pub fn review(
    parties: &[Party],
    reviewers: &[Reviewer],
    courier: &dyn Courier,
    judge: &mut dyn Judge,
) -> Result<Review, ReviewError> {
    let (1..=2, Some(first)) = (parties.len(), parties.first()) else {
        return Err(ReviewError::Parties(parties.len()));
    };
    if let Some(other) = parties.iter().find(|party| party.challenge != first.challenge) {
        return Err(ReviewError::Challenges(first.challenge.clone(), other.challenge.clone()));
    }
    let id = &first.challenge;
    let challenge = challenges::find(id).ok_or_else(|| ReviewError::NoChallenge(id.clone()))?;
    let vocabulary = Vocabulary::of(challenge);
    let session = Session { parties, challenge, vocabulary: &vocabulary, courier, named: Mutex::default() };
    let reports: Vec<Result<Report, ReviewError>> = std::thread::scope(|scope| {
        let asked: Vec<_> = reviewers.iter().map(|reviewer| scope.spawn(|| session.ask(reviewer))).collect();
        asked.into_iter().map(|thread| thread.join().expect("a reviewer breaks nothing")).collect()
    });
    let mut reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    let named = session.named.into_inner().expect("noting breaks nothing");
    let (verdicts, decided) = decide(challenge, parties, &named, judge);
    for opinion in reports.iter_mut().flat_map(|report| &mut report.opinions) {
        let check = opinion.check.clone();
        opinion.decision = check.and_then(|check| decided.get(&(opinion.contestant, check)).cloned());
    }
    Ok(Review {
        schema: crate::FORM.to_owned(),
        label: LABEL.to_owned(),
        challenge: id.clone(),
        contestants: parties.iter().zip(&verdicts).map(shown).collect(),
        preferences: splits(&reports),
        reviewers: reports,
    })
}

/// Checks that were named, or what became of them: by contestant and by how they are written. Many name the same.
type Checks<T> = BTreeMap<(usize, String), T>;

/// Has those judged of whom a check is left open, and decides all. The verdicts that decided, by contestant, and what became of the checks.
fn decide(
    challenge: &'static dyn Challenge,
    parties: &[Party],
    named: &Checks<Check>,
    judge: &mut dyn Judge,
) -> (Vec<Option<Verdict>>, Checks<Decision>) {
    let mut verdicts: Vec<Option<Verdict>> = parties.iter().map(|party| party.verdict.clone()).collect();
    let effort = judge.effort();
    let open: Vec<(usize, &Check)> = named
        .iter()
        .map(|((of, _), check)| (*of, check))
        .filter(|&(of, check)| {
            Grounds::new(challenge, parties[of].language, verdicts[of].as_ref()).wants(check, effort)
        })
        .collect();
    let mut unjudged = BTreeMap::new();
    if !open.is_empty() {
        let contestants: BTreeSet<usize> = open.iter().map(|(of, _)| *of).collect();
        let wanted = Wanted {
            contestants: contestants.into_iter().collect(),
            repeats: open.iter().any(|(_, check)| check.is_of_repeats()),
        };
        for (&of, judged) in wanted.contestants.iter().zip(judge.judge(&wanted)) {
            match judged {
                Ok(verdict) => verdicts[of] = Some(verdict),
                Err(why) => {
                    unjudged.insert(of, why);
                }
            }
        }
    }
    let became = |((of, name), check): (&(usize, String), &Check)| {
        let grounds = Grounds::new(challenge, parties[*of].language, verdicts[*of].as_ref());
        let mut decision = grounds.decide(check);
        if let Some(why) = unjudged.get(of).filter(|_| grounds.wants(check, effort)) {
            let again = if verdicts[*of].is_some() { "; it was not judged again" } else { "" };
            decision.why += &format!("{again}: {why}");
        }
        ((*of, name.clone()), decision)
    };
    let decided = named.iter().map(became).collect();
    (verdicts, decided)
}

fn shown((party, verdict): (&Party, &Option<Verdict>)) -> Shown {
    Shown {
        name: party.name.clone(),
        sha256: party.sha256.clone(),
        verdict: verdict.as_ref().map(|verdict| verdict.id.clone()),
    }
}

fn splits(reports: &[Report]) -> BTreeMap<Dimension, Split> {
    let mut splits: BTreeMap<Dimension, Split> = BTreeMap::new();
    for (&dimension, preference) in reports.iter().flat_map(|report| &report.preferences) {
        let split = splits.entry(dimension).or_default();
        *match preference {
            Preference::First => &mut split.first,
            Preference::Second => &mut split.second,
            Preference::Neither => &mut split.neither,
            _ => &mut split.uncounted,
        } += 1;
    }
    splits
}

struct Session<'a> {
    parties: &'a [Party],
    challenge: &'static dyn Challenge,
    vocabulary: &'a Vocabulary,
    courier: &'a dyn Courier,
    /// The checks that were named with lines that are there.
    named: Mutex<Checks<Check>>,
}

/// A question in one order of the contestants.
struct Asked<'a> {
    question: Question<'a>,
    /// Which contestant is A, and which B.
    order: &'a [usize],
}

/// What an answer comes to.
#[derive(Clone, Copy)]
struct Vote {
    /// Which contestant it prefers.
    preference: Option<usize>,
    /// Whether a citation of it holds.
    cites: bool,
}

impl Session<'_> {
    fn ask(&self, reviewer: &Reviewer) -> Result<Report, ReviewError> {
        let mut report = Report {
            reviewer: reviewer.name.clone(),
            model: reviewer.model.clone(),
            asked: 0,
            answered: 0,
            failure: None,
            opinions: Vec::new(),
            discarded: Vec::new(),
            no_votes: Vec::new(),
            preferences: BTreeMap::new(),
            left_out: Vec::new(),
        };
        let orders: &[&[usize]] = if self.parties.len() == 2 { &[&[0, 1], &[1, 0]] } else { &[&[0]] };
        let chars = reviewer.context_chars / self.parties.len();
        let materials: Vec<Vec<Material>> =
            orders.iter().map(|order| self.code(order, chars)).collect::<Result<_, _>>()?;
        report.left_out = materials[0].iter().map(|material| material.left_out.clone()).collect();
        for topic in &CODE {
            let mut votes = Vec::new();
            for (order, materials) in orders.iter().zip(&materials) {
                let question = self.question(topic, materials, false);
                votes.push(self.put(&Asked { question, order }, reviewer, &mut report)?);
                if report.failure.is_some() {
                    return Ok(report);
                }
            }
            if let [one, other] = votes[..] {
                report.preferences.insert(topic.dimension, together(one, other));
            }
        }
        if let [party] = self.parties {
            let prose = [Material::prose('A', &party.files, reviewer.context_chars)];
            report.left_out[0].extend(prose[0].left_out.clone());
            if !prose[0].is_empty() && !self.challenge.contract().claims.is_empty() {
                let question = self.question(&PROSE, &prose, true);
                self.put(&Asked { question, order: orders[0] }, reviewer, &mut report)?;
            }
        }
        Ok(report)
    }

    fn code(&self, order: &[usize], chars: usize) -> Result<Vec<Material>, ReviewError> {
        let of = |(label, &index): (char, &usize)| {
            let party = &self.parties[index];
            let material = Material::code(label, &party.files, party.language, chars);
            if material.is_empty() { Err(ReviewError::NoSource(party.name.clone())) } else { Ok(material) }
        };
        ('A'..).zip(order).map(of).collect()
    }

    fn question<'q>(&'q self, topic: &'static Topic, materials: &'q [Material], prose: bool) -> Question<'q> {
        Question {
            challenge: self.challenge.contract(),
            topic,
            vocabulary: self.vocabulary,
            materials,
            prose,
        }
    }

    /// Puts a question and takes the answer down; none where there is no answer.
    fn put(
        &self,
        asked: &Asked<'_>,
        reviewer: &Reviewer,
        report: &mut Report,
    ) -> Result<Option<Vote>, ReviewError> {
        report.asked += 1;
        let mut exchange = self.courier.carry(reviewer, &asked.question.request(reviewer, true))?;
        if matches!(exchange.outcome(), Err(Refusal { status: Some(400 | 422), .. })) {
            // Not every server holds a model to a schema.
            exchange = self.courier.carry(reviewer, &asked.question.request(reviewer, false))?;
        }
        let body = match exchange.outcome() {
            Ok(body) => body,
            Err(refusal) => {
                report.failure = Some(refusal.why);
                return Ok(None);
            }
        };
        let dimension = asked.question.topic.dimension;
        match answer::read(&body) {
            Ok(answer) => {
                report.answered += 1;
                Ok(Some(self.take(answer, asked, &exchange, report)))
            }
            Err(why) => {
                report.no_votes.push(NoVote { dimension, why, exchange: exchange.id() });
                Ok(None)
            }
        }
    }

    fn take(&self, answer: Answer, asked: &Asked<'_>, exchange: &Exchange, report: &mut Report) -> Vote {
        let dimension = asked.question.topic.dimension;
        let mut cites = false;
        for (index, item) in answer.items.into_iter().enumerate() {
            let (statement, opinion) = match item {
                Err(malformed) => (malformed.statement, Err(Reason::Form(malformed.why))),
                Ok(item) if index >= ITEMS_MAX => (item.statement, Err(Reason::TooMany)),
                Ok(item) => (item.statement.clone(), self.hold(item, asked, exchange)),
            };
            // What a model makes of prose may be what the prose told it to say.
            let statement = if asked.question.prose { String::new() } else { statement };
            match opinion {
                Ok(opinion) => {
                    cites = true;
                    add(&mut report.opinions, opinion);
                }
                Err(reason) => {
                    report.discarded.push(Discarded {
                        dimension,
                        reason,
                        statement,
                        exchange: exchange.id(),
                    });
                }
            }
        }
        let preference =
            answer.preference.and_then(|label| ('A'..).zip(asked.order).find(|(at, _)| *at == label));
        Vote { preference: preference.map(|(_, &contestant)| contestant), cites }
    }

    /// An item as an opinion, if what it cites is there and what it names exists.
    fn hold(&self, item: Item, asked: &Asked<'_>, exchange: &Exchange) -> Result<Opinion, Reason> {
        let Question { topic, materials, prose, .. } = asked.question;
        let label = item.file.chars().next();
        let at = ('A'..).zip(materials).zip(asked.order).find(|((letter, _), _)| Some(*letter) == label);
        let ((_, material), &contestant) = at.ok_or(Reason::NoSuchFile)?;
        let citation = material.cite(&item.file, item.first_line, item.last_line, &item.quote)?;
        let check = self.vocabulary.read(item.check.as_deref(), &item.value);
        let check = check.map_err(|what| Reason::NoSuchCheck(short(&what)))?;
        if prose && !matches!(check, Some(Check::Claim(..))) {
            return Err(Reason::NoSuchCheck("of prose, claims alone are taken".to_owned()));
        }
        if let Some(check) = &check {
            let mut named = self.named.lock().expect("noting breaks nothing");
            named.insert((contestant, check.to_string()), check.clone());
        }
        Ok(Opinion {
            dimension: topic.dimension,
            contestant,
            statement: (!prose).then_some(item.statement),
            citation,
            check: check.map(|check| check.to_string()),
            decision: None,
            exchanges: vec![exchange.id()],
        })
    }
}

/// Adds an opinion; one that was there in the other order is the same.
fn add(opinions: &mut Vec<Opinion>, opinion: Opinion) {
    let same = |other: &&mut Opinion| {
        (other.dimension, other.contestant, &other.citation, &other.check)
            == (opinion.dimension, opinion.contestant, &opinion.citation, &opinion.check)
    };
    match opinions.iter_mut().find(same) {
        Some(other) => {
            if !other.exchanges.contains(&opinion.exchanges[0]) {
                other.exchanges.extend(opinion.exchanges);
            }
        }
        None => opinions.push(opinion),
    }
}

/// What two orders come to: one that only holds in one order is none, and so is one that stands on nothing.
fn together(one: Option<Vote>, other: Option<Vote>) -> Preference {
    let (Some(one), Some(other)) = (one, other) else { return Preference::NoAnswer };
    match (one.preference, other.preference) {
        (None, None) => Preference::Neither,
        (first, second) if first != second => Preference::OrdersDisagree,
        _ if !(one.cites && other.cites) => Preference::Uncited,
        (Some(0), _) => Preference::First,
        _ => Preference::Second,
    }
}
