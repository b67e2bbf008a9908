//! A comparison as a page, in the order in which people ask: who, by how much, because of what.

use tribunal_judge::Ruling;

use super::{Comparison, Deciding, Edge, Ground, Measured, OnChallenge, Ratio};
use crate::document::{Document, Table, Text};
use crate::svg::{self, Rivalry};
use crate::words;

/// Deciding findings that are shown for a challenge.
const DECIDING_MAX: usize = 12;

/// Strengths on one ground, and weaknesses, that are shown of each.
const MERITS_MAX: usize = 8;

/// The grounds of strengths as they are told.
const GROUNDS: [(Ground, &str); 4] = [
    (Ground::Score, "scores"),
    (Ground::Cases, "cases"),
    (Ground::Requirement, "asked for, and done by nobody else"),
    (Ground::Measurement, "measured"),
];

/// The comparison as a page.
pub fn document(comparison: &Comparison) -> Document {
    let mut page = Document::default();
    page.heading(1, title(comparison));
    if comparison.challenges.is_empty() {
        page.paragraph("There is no verdict on any of them.");
        return page;
    }
    if comparison.records.iter().all(|record| record.met.is_empty()) {
        page.paragraph("No two of them were judged on the same challenge by the same rubric: nothing here tells who is ahead.");
    }
    if comparison.challenges.len() > 1 || comparison.contestants.len() > 2 {
        overview(&mut page, comparison);
    }
    for on in &comparison.challenges {
        challenge(&mut page, comparison, on);
    }
    page.heading(2, "How the numbers come about");
    page.list(rules());
    page
}

fn title(comparison: &Comparison) -> Text {
    let mut title = Text::default();
    for (index, label) in comparison.contestants.iter().enumerate() {
        if index > 0 {
            title = title.then(if comparison.contestants.len() == 2 { " against " } else { ", " });
        }
        title = title.then(Text::name(label));
    }
    title
}

fn overview(page: &mut Document, comparison: &Comparison) {
    page.heading(2, "Scoreboard");
    let mut head = vec![Text::from("challenge")];
    head.extend(comparison.contestants.iter().map(Text::name));
    head.extend(["winner".into(), "margin".into()]);
    let mut table =
        Table { head, columns: format!("w{}wn", "n".repeat(comparison.contestants.len())), rows: Vec::new() };
    for on in &comparison.challenges {
        let mut row = vec![Text::from(on.challenge.as_str())];
        row.extend(on.entries.iter().map(|entry| {
            let Some(entry) = entry else { return "–".into() };
            let capped = if entry.capped_from.is_some() { "*" } else { "" };
            let sign = match entry.outcome {
                Ruling::Accepted => "",
                Ruling::Rejected => " rejected",
                Ruling::Disqualified => " disqualified",
                Ruling::Infrastructure => " not judged",
            };
            Text::from(format!("{}{capped}{sign}", words::score(entry.score)))
        }));
        row.extend([winner(comparison, &on.overall), margin(&on.overall)]);
        table.rows.push(row);
    }
    let mean_of =
        |who: usize| comparison.ranking.iter().find(|standing| standing.contestant == who)?.mean_score;
    let mut means = vec![Text::strong("mean")];
    means.extend((0..comparison.contestants.len()).map(|who| Text::strong(words::score(mean_of(who)))));
    means.extend([Text::default(), Text::default()]);
    table.rows.push(means);
    page.table(table);
    if comparison
        .challenges
        .iter()
        .any(|on| on.entries.iter().flatten().any(|entry| entry.capped_from.is_some()))
    {
        page.paragraph("* capped at 50: something critical failed.");
    }
    ranking(page, comparison);
    records(page, comparison);
    hybrids(page, comparison);
}

fn ranking(page: &mut Document, comparison: &Comparison) {
    page.heading(2, format!("Ranking by {}", comparison.ranked_by));
    let head = ["#", "range", "tier", "contestant", "mean", "challenges", "strength", "best", "worst"];
    let mut table =
        Table { head: head.map(Text::from).to_vec(), columns: "nnnwnnnww".to_owned(), rows: Vec::new() };
    let shared = |rank: usize| comparison.ranking.iter().filter(|standing| standing.rank == rank).count() > 1;
    for standing in &comparison.ranking {
        let place = |place: &Option<(String, f64)>| {
            place
                .as_ref()
                .map_or_else(Text::default, |(challenge, score)| format!("{challenge} {score:.1}").into())
        };
        let [best, worst] = standing.range;
        table.rows.push(vec![
            format!("{}{}", if shared(standing.rank) { "=" } else { "" }, standing.rank).into(),
            if best == worst { best.to_string().into() } else { format!("{best}–{worst}").into() },
            standing.tier.to_string().into(),
            Text::name(&comparison.contestants[standing.contestant]),
            words::score(standing.mean_score).into(),
            standing.challenges.to_string().into(),
            format!("{:+.2}", standing.strength).into(),
            place(&standing.best),
            place(&standing.worst),
        ]);
    }
    page.table(table);
}

fn records(page: &mut Document, comparison: &Comparison) {
    page.heading(2, "Head to head");
    let head = ["pair", "won", "lost", "tied", "challenge by challenge"];
    let mut table =
        Table { head: head.map(Text::from).to_vec(), columns: "wnnnw".to_owned(), rows: Vec::new() };
    for record in &comparison.records {
        let (first, second) = (&comparison.contestants[record.first], &comparison.contestants[record.second]);
        let mut met = Text::default();
        for (index, one) in record.met.iter().enumerate() {
            met = met.then(format!("{}{}: ", if index > 0 { ", " } else { "" }, one.challenge));
            met = match one.winner {
                Some(who) => met.then(Text::name(&comparison.contestants[who])),
                None => met.then("tie"),
            };
        }
        table.rows.push(vec![
            Text::name(first).then(" – ").then(Text::name(second)),
            record.wins.to_string().into(),
            record.losses.to_string().into(),
            record.ties.to_string().into(),
            met,
        ]);
    }
    page.table(table);
}

fn hybrids(page: &mut Document, comparison: &Comparison) {
    page.heading(2, "The ideal hybrid");
    let head = ["challenge", "the best of each dimension", "together"];
    let mut table =
        Table { head: head.map(Text::from).to_vec(), columns: "wwn".to_owned(), rows: Vec::new() };
    for on in &comparison.challenges {
        table.rows.push(vec![
            on.challenge.as_str().into(),
            hybrid(comparison, on),
            words::score(on.hybrid.score).into(),
        ]);
    }
    page.table(table);
}

fn hybrid(comparison: &Comparison, on: &OnChallenge) -> Text {
    let everybody = on.entries.iter().flatten().count();
    let mut text = Text::default();
    for (index, (dimension, _, who, score)) in on.hybrid.parts.iter().enumerate() {
        text = text.then(format!("{}{} ", if index > 0 { "; " } else { "" }, dimension.name()));
        text = if who.len() == everybody && everybody > 1 {
            text.then("all")
        } else {
            text.then(names(comparison, who))
        };
        let row = on.dimensions.iter().find(|row| row.name == dimension.name());
        let least = row.and_then(|row| who.iter().filter_map(|&who| row.values[who]).min_by(f64::total_cmp));
        let within = if least.is_some_and(|least| least < score - 0.05) { " up to" } else { "" };
        text = text.then(format!("{within} {score:.1}"));
    }
    text
}

fn challenge(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    page.heading(2, on.challenge.as_str());
    page.paragraph(result(comparison, on));
    page.list(
        on.entries
            .iter()
            .zip(&comparison.contestants)
            .filter_map(|(entry, label)| {
                let entry = entry.as_ref()?;
                let interval =
                    entry.interval.map_or(String::new(), |[low, high]| format!(" [{low:.1}, {high:.1}]"));
                let capped = entry
                    .capped_from
                    .map_or(String::new(), |mean| format!(" (weighted mean {mean:.1}, capped at 50)"));
                let text = format!(
                    ": {}, {}{interval}{capped}, in ",
                    entry.outcome.name(),
                    words::score(entry.score)
                );
                Some(
                    Text::name(label)
                        .then(text)
                        .then(Text::name(&entry.language))
                        .then(" ")
                        .command(format!("tribunal show {}", entry.verdict)),
                )
            })
            .collect(),
    );
    picture(page, comparison, on);
    scores(page, comparison, on);
    deciding(page, comparison, on);
    criteria(page, comparison, on);
    measurements(page, comparison, on);
    merits(page, comparison, on);
    if comparison.challenges.len() == 1 && comparison.contestants.len() == 2 {
        page.heading(3, "The ideal hybrid");
        page.paragraph(hybrid(comparison, on).then(format!(": {} together", words::score(on.hybrid.score))));
    }
    page.list(on.cautions.iter().map(|caution| Text::from(format!("note: {caution}"))).collect());
}

fn result(comparison: &Comparison, on: &OnChallenge) -> Text {
    match &on.overall {
        Edge::Won { winner, by_outcome: true, .. } => {
            let outcome = on.entries[*winner].as_ref().map_or("", |entry| entry.outcome.name());
            Text::name(&comparison.contestants[*winner]).then(format!(" wins: the only one {outcome}."))
        }
        Edge::Won { winner, margin: Some(margin), interval, .. } => {
            let interval = interval.map_or(String::new(), |[low, high]| format!(" [{low:.1}, {high:.1}]"));
            Text::name(&comparison.contestants[*winner])
                .then(format!(" wins by {margin:.1} points{interval}."))
        }
        Edge::Won { winner, .. } => Text::name(&comparison.contestants[*winner]).then(" wins."),
        Edge::Tie { among } => {
            Text::from("A tie within the noise: ").then(names(comparison, among)).then(".")
        }
        Edge::Undecided => {
            "Undecided: their scores are by different rubrics; `tribunal rescore` rules by one.".into()
        }
        Edge::Uncontested => "Nobody to compare with: fewer than two were judged.".into(),
    }
}

fn picture(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    let assessed = on.dimensions.iter().filter(|row| row.values.iter().any(Option::is_some));
    let rivalries: Vec<Rivalry> =
        assessed.map(|row| Rivalry { name: row.name, scores: row.values.clone() }).collect();
    let mut caption = Text::from("Scores by dimension: ");
    for (who, label) in comparison.contestants.iter().enumerate() {
        let comma = if who > 0 { ", " } else { "" };
        caption = caption.then(format!("{comma}{} is ", svg::sign(who))).then(Text::name(label));
    }
    page.picture(
        svg::rivals(&format!("scores by dimension on {}", on.challenge), &rivalries),
        caption.then("."),
    );
}

fn scores(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    let mut head = vec![Text::from("dimension"), "weight".into()];
    head.extend(comparison.contestants.iter().map(Text::name));
    head.extend(["winner".into(), "margin".into()]);
    let mut table = Table {
        head,
        columns: format!("wn{}wn", "n".repeat(comparison.contestants.len())),
        rows: Vec::new(),
    };
    for row in &on.dimensions {
        let mut cells = vec![Text::from(row.name), format!("×{}", row.weight.unwrap_or(0.0)).into()];
        cells.extend(row.values.iter().map(|&value| Text::from(words::score(value))));
        cells.extend([winner(comparison, &row.edge), margin(&row.edge)]);
        table.rows.push(cells);
    }
    let mut total = vec![Text::strong("score"), Text::default()];
    total.extend(on.entries.iter().map(|entry| {
        let capped = entry.as_ref().is_some_and(|entry| entry.capped_from.is_some());
        let score = words::score(entry.as_ref().and_then(|entry| entry.score));
        Text::strong(if capped { format!("{score} (capped)") } else { score })
    }));
    total.extend([winner(comparison, &on.overall), margin(&on.overall)]);
    table.rows.push(total);
    page.table(table);
}

fn deciding(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    if on.deciding.is_empty() {
        return;
    }
    page.heading(3, "What decides");
    let item = |one: &Deciding| {
        let mut item = Text::strong(one.gravity).then(" ").then(Text::foreign(&one.title)).then(" – ");
        for (index, (&who, extent)) in one.who.iter().zip(&one.extents).enumerate() {
            item = item
                .then(if index > 0 { "; " } else { "" })
                .then(Text::name(&comparison.contestants[who]))
                .then(" (")
                .then(Text::foreign(extent))
                .then(")");
        }
        if !one.message.is_empty() {
            item = item.then(": ").then(Text::foreign(&one.message));
        }
        match &one.replay {
            Some(replay) => item.then(" ").command(replay),
            None => item,
        }
    };
    let mut items: Vec<Text> = on.deciding.iter().take(DECIDING_MAX).map(item).collect();
    if on.deciding.len() > DECIDING_MAX {
        items.push(format!("and {} more", on.deciding.len() - DECIDING_MAX).into());
    }
    page.list(items);
}

fn criteria(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    page.heading(3, "Criteria");
    let mut head = vec![Text::from("criterion")];
    head.extend(comparison.contestants.iter().map(Text::name));
    head.push("edge".into());
    let mut table =
        Table { head, columns: format!("w{}w", "n".repeat(comparison.contestants.len())), rows: Vec::new() };
    for requirement in &on.requirements {
        let mut cells = vec![Text::foreign(&requirement.text)];
        cells.extend(requirement.met.iter().map(|met| {
            Text::from(match met {
                Some(true) => "✓ met",
                Some(false) => "✗ missed",
                None => "–",
            })
        }));
        let does =
            |wanted| (0..requirement.met.len()).filter(move |&who| requirement.met[who] == Some(wanted));
        let missed = does(false).count();
        cells.push(match does(true).collect::<Vec<_>>().as_slice() {
            [] => Text::default(),
            who if missed == 0 => {
                if who.len() > 1 {
                    "tie".into()
                } else {
                    Text::default()
                }
            }
            who => names(comparison, who),
        });
        table.rows.push(cells);
    }
    for row in &on.families {
        let mut cells = vec![Text::from(format!("{} cases that hold", row.name))];
        cells.extend(
            row.values.iter().map(|value| {
                Text::from(value.map_or_else(|| "–".to_owned(), |share| format!("{share:.0} %")))
            }),
        );
        cells.push(winner(comparison, &row.edge));
        table.rows.push(cells);
    }
    page.table(table);
}

fn measurements(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    if on.measurements.is_empty() {
        return;
    }
    page.heading(3, "Measured (less is better)");
    let mut head = vec![Text::from("what"), "workload".into()];
    head.extend(comparison.contestants.iter().map(Text::name));
    head.extend(["floor".into(), "edge".into()]);
    let mut table = Table {
        head,
        columns: format!("ww{}nw", "n".repeat(comparison.contestants.len())),
        rows: Vec::new(),
    };
    for row in &on.measurements {
        let mut cells = vec![Text::from(words::spoken(&row.name)), Text::foreign(&row.workload)];
        cells.extend(
            row.values.iter().zip(&row.over_best).map(|(value, over)| value_cell(row, *value, *over)),
        );
        cells.push(row.floor.map_or_else(Text::default, |floor| words::quantity(floor, &row.unit).into()));
        cells.push(winner(comparison, &row.edge));
        table.rows.push(cells);
    }
    page.table(table);
}

fn value_cell(row: &Measured, value: Option<f64>, over: Option<Ratio>) -> Text {
    let Some(value) = value else { return "–".into() };
    let over = over.map_or(String::new(), |Ratio { ratio, interval }| {
        let interval = interval.map_or(String::new(), |[low, high]| {
            format!(" [{}, {}]", words::significant(low), words::significant(high))
        });
        format!(" (×{}{interval})", words::significant(ratio))
    });
    (words::quantity(value, &row.unit) + &over).into()
}

/// What each did best, ground by ground, and below it what each does not do well.
fn merits(page: &mut Document, comparison: &Comparison, on: &OnChallenge) {
    page.heading(3, "What each did best");
    let judged: Vec<usize> = (0..on.entries.len()).filter(|&who| on.entries[who].is_some()).collect();
    let (best, rest): (Vec<usize>, Vec<usize>) =
        judged.iter().partition(|&&who| !on.strengths[who].is_empty());
    for who in best {
        page.paragraph(Text::name(&comparison.contestants[who]).then(", ahead of all others:"));
        let told = GROUNDS.into_iter().filter_map(|(ground, title)| {
            let of_ground = on.strengths[who].iter().filter(|strength| strength.ground == ground);
            let items = of_ground.map(|strength| {
                let lead =
                    if strength.lead.is_empty() { String::new() } else { format!(" ({})", strength.lead) };
                Text::foreign(&strength.what).then(lead)
            });
            let items: Vec<Text> = items.collect();
            (!items.is_empty()).then(|| enumerated(Text::strong(title).then(": "), items))
        });
        page.list(told.collect());
    }
    if !rest.is_empty() {
        page.paragraph(names(comparison, &rest).then(": nothing that others do not do as well."));
    }
    page.heading(3, "Weaknesses");
    let of = |&who: &usize| {
        let items: Vec<Text> = on.weaknesses[who].iter().map(Text::foreign).collect();
        let name = Text::name(&comparison.contestants[who]).then(": ");
        if items.is_empty() { name.then("nothing that failed") } else { enumerated(name, items) }
    };
    page.list(judged.iter().map(of).collect());
}

/// The first of them, one after the other, and how many more there are.
fn enumerated(text: Text, items: Vec<Text>) -> Text {
    let more = items.len().saturating_sub(MERITS_MAX);
    let mut text = text;
    for (index, item) in items.into_iter().take(MERITS_MAX).enumerate() {
        text = text.then(if index > 0 { "; " } else { "" }).then(item);
    }
    if more > 0 { text.then(format!("; and {more} more")) } else { text }
}

fn names(comparison: &Comparison, who: &[usize]) -> Text {
    let mut names = Text::default();
    for (index, &one) in who.iter().enumerate() {
        names = names.then(if index > 0 { ", " } else { "" }).then(Text::name(&comparison.contestants[one]));
    }
    names
}

fn winner(comparison: &Comparison, edge: &Edge) -> Text {
    match edge {
        Edge::Won { winner, .. } => Text::name(&comparison.contestants[*winner]),
        Edge::Tie { among } if among.len() < comparison.contestants.len() => {
            Text::from("tie: ").then(names(comparison, among))
        }
        Edge::Tie { .. } => "tie".into(),
        Edge::Undecided => "undecided".into(),
        Edge::Uncontested => Text::default(),
    }
}

fn margin(edge: &Edge) -> Text {
    match edge {
        Edge::Won { by_outcome: true, .. } => "by outcome".into(),
        Edge::Won { margin: Some(margin), .. } => format!("+{margin:.1}").into(),
        _ => Text::default(),
    }
}

fn rules() -> Vec<Text> {
    [
        "A score is the mean of the dimensions assessed, each times its weight, over the weights of those assessed; after a critical failure at most 50; disqualified is 0.",
        "A better outcome wins over any score. Scores within 0.5 points, or where the interval of the lead holds 0, are a tie. In speed, one is ahead only with a workload on which it is faster by more than the noise; without one, the lead must be a lead without speed too.",
        "[from, to] holds 95 % of such draws; they are the same for everybody. A range of ranks comes from them too, and a tier ends where nobody above can fall to anybody below.",
        "Times are compared where both were taken in turns with the reference, or with each other; a ratio whose interval holds 1 is a tie, and one that is too wide says nothing. Bytes and counts within 1 % are equal.",
        "Strength is Bradley and Terry's with ties after Davidson, as a logarithm, over the challenges on which each pair met; it ranks those who did not all meet on every challenge.",
        "The ideal hybrid takes each dimension from whoever is best in it.",
    ]
    .map(Text::from)
    .to_vec()
}
