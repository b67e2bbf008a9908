//! A review as a page: opinion, and labelled so. Whatever models and submissions wrote is marked as foreign.

use tribunal_board::document::{Document, Table, Text};

use crate::opinion::{Opinion, Report, Review};

/// Files and discarded items that are listed.
const LISTED_MAX: usize = 12;

/// The page of a review.
pub fn page(review: &Review) -> Document {
    let mut document = Document::default();
    document.heading(1, format!("Opinion: {}", review.challenge));
    let mut about = Text::from("What language models say of ");
    for (index, contestant) in review.contestants.iter().enumerate() {
        let and = if index > 0 { " (first) against " } else { "" };
        about = about.then(and).then(Text::name(&contestant.name));
    }
    let second = if review.contestants.len() > 1 { " (second)" } else { "" };
    document.paragraph(about.then(format!(
        "{second}. It is opinion: no score knows of it, and lines that are cited are there to the byte. Only what follows a check's \
         name was decided, by the evidence of a verdict."
    )));
    for contestant in &review.contestants {
        let name = Text::name(&contestant.name);
        document.paragraph(match &contestant.verdict {
            Some(id) => Text::from("Checks of ")
                .then(name)
                .then(" are decided by verdict ")
                .then(Text::name(id))
                .then("."),
            None => name.then(" was not judged, so no check is decided."),
        });
    }
    document.table(counts(review));
    if !review.preferences.is_empty() {
        document.heading(2, "Preferences");
        document.paragraph(
            "Each pair is asked for in both orders. A preference that turns with the order is none, and so is one that cites nothing.",
        );
        document.table(preferences(review));
    }
    for report in &review.reviewers {
        document.heading(2, Text::from("Reviewer ").then(Text::name(&report.reviewer)));
        one(&mut document, review, report);
    }
    document
}

fn counts(review: &Review) -> Table {
    let head = ["reviewer", "model", "asked", "answered", "opinions", "discarded", "failure"];
    let row = |report: &Report| {
        vec![
            Text::name(&report.reviewer),
            Text::name(&report.model),
            report.asked.to_string().into(),
            report.answered.to_string().into(),
            report.opinions.len().to_string().into(),
            report.discarded.len().to_string().into(),
            report.failure.as_ref().map_or_else(|| "none".into(), Text::foreign),
        ]
    };
    Table {
        head: head.map(Text::from).to_vec(),
        columns: "wwnnnnw".to_owned(),
        rows: review.reviewers.iter().map(row).collect(),
    }
}

fn preferences(review: &Review) -> Table {
    let head = ["dimension", "first", "second", "neither", "not counted"];
    let row = |(dimension, split): (&tribunal_judge::Dimension, &crate::opinion::Split)| {
        let counts = [split.first, split.second, split.neither, split.uncounted];
        let mut row = vec![Text::from(dimension.name())];
        row.extend(counts.map(|count| count.to_string().into()));
        row
    };
    Table {
        head: head.map(Text::from).to_vec(),
        columns: "wnnnn".to_owned(),
        rows: review.preferences.iter().map(row).collect(),
    }
}

fn one(document: &mut Document, review: &Review, report: &Report) {
    if let Some(failure) = &report.failure {
        document.paragraph(Text::from("It failed, and was asked no more: ").then(Text::foreign(failure)));
    }
    document.list(
        report
            .preferences
            .iter()
            .map(|(dimension, preference)| {
                format!("{}: prefers {}", dimension.name(), preference.words()).into()
            })
            .collect(),
    );
    document.list(report.opinions.iter().map(|opinion| told(opinion, review)).collect());
    if report.opinions.is_empty() {
        document.paragraph("Nothing that it said stands on a line that is there.");
    }
    let mut unheard: Vec<Text> = report
        .discarded
        .iter()
        .map(|discarded| {
            Text::from(format!("{}: discarded, ", discarded.dimension.name()))
                .then(Text::foreign(discarded.reason.to_string()))
                .then(if discarded.statement.is_empty() { "" } else { ": " })
                .then(Text::foreign(&discarded.statement))
        })
        .collect();
    unheard.extend(report.no_votes.iter().map(|no_vote| {
        Text::from(format!("{}: no vote, ", no_vote.dimension.name())).then(Text::foreign(&no_vote.why))
    }));
    short(document, unheard, "discarded or unread");
    let left_out = report.left_out.iter().flatten();
    let left_out = left_out.map(|left| {
        Text::from("not shown: ")
            .then(Text::name(&left.path))
            .then(format!(" from line {}, {}", left.from_line, left.why))
    });
    short(document, left_out.collect(), "not shown");
}

/// A list that ends where it gets long.
fn short(document: &mut Document, mut items: Vec<Text>, what: &str) {
    let more = items.len().saturating_sub(LISTED_MAX);
    items.truncate(LISTED_MAX);
    document.list(items);
    if more > 0 {
        document.paragraph(format!("{more} more {what}; --format json has all."));
    }
}

fn told(opinion: &Opinion, review: &Review) -> Text {
    let mut text = Text::from(format!("{}: ", opinion.dimension.name()));
    if let Some(statement) = &opinion.statement {
        text = text.then("“").then(Text::foreign(statement)).then("” ");
    }
    if let (Some(contestant), true) =
        (review.contestants.get(opinion.contestant), review.contestants.len() > 1)
    {
        text = text.then("of ").then(Text::name(&contestant.name)).then(", ");
    }
    let citation = &opinion.citation;
    let lines = match citation.last_line {
        last if last == citation.first_line => last.to_string(),
        last => format!("{}–{last}", citation.first_line),
    };
    text = text
        .then("at ")
        .then(Text::name(&citation.path))
        .then(format!(":{lines} "))
        .then(Text::foreign(&citation.quote));
    let Some(check) = &opinion.check else { return text.then(" (no check)") };
    text = text.then("; ").then(Text::foreign(check)).then(" is ");
    match &opinion.decision {
        None => text.then(Text::strong("untestable")),
        Some(decision) => {
            let word = match decision.holds {
                Some(true) => "confirmed by evidence",
                Some(false) => "refuted by evidence",
                None => "untestable",
            };
            text.then(Text::strong(word)).then(": ").then(Text::foreign(&decision.why))
        }
    }
}
