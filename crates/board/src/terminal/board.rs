//! The ranking as a table.

use rayon::prelude::*;
use tribunal_judge::Dimension;

use super::Style;
use super::grid::Grid;
use super::paint::{Paint, wrap};
use crate::phrases::{legend, range, rank, score, short, why_unranked};
use crate::ranking::{self, Place, Standings};
use crate::{Summary, clean, words};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Rank,
    Range,
    Name,
    Language,
    Outcome,
    Score,
    Part(Dimension),
    Suspect,
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Rank => "#",
            Self::Range => "range",
            Self::Name => "name",
            Self::Language => "language",
            Self::Outcome => "outcome",
            Self::Score => "score",
            Self::Part(dimension) => short(dimension),
            Self::Suspect => "main suspect",
        }
    }

    fn kind(self) -> char {
        match self {
            Self::Name | Self::Suspect => 'w',
            Self::Language | Self::Outcome => 't',
            Self::Rank | Self::Range | Self::Score | Self::Part(_) => 'n',
        }
    }

    fn cell(self, place: &Place<'_>) -> String {
        let summary = place.summary;
        match self {
            Self::Rank => rank(place),
            Self::Range => range(place),
            Self::Name => clean::cut(&place.label, 80),
            Self::Language => clean::cut(&summary.submission.language, 12),
            Self::Outcome => summary.outcome.name().to_owned(),
            Self::Score => score(place),
            Self::Part(dimension) => {
                words::score(summary.dimensions.get(&dimension).and_then(|part| part.score))
            }
            Self::Suspect => clean::cut(summary.suspect.as_deref().unwrap_or(""), 60),
        }
    }
}

/// Several verdicts, ranked within each challenge.
pub fn board(summaries: &[Summary], style: &Style) -> String {
    if summaries.is_empty() {
        return "no verdicts yet: tribunal judge PATH makes some\n".to_owned();
    }
    let (paint, width) = (Paint::new(style.color), style.width.clamp(60, 200));
    let standings = ranking::rank(summaries);
    let sections: Vec<_> = standings.iter().map(|standings| section(standings, paint, width)).collect();
    sections.join("\n")
}

fn section(standings: &Standings<'_>, paint: Paint, width: usize) -> String {
    let mut text = format!("{}\n", paint.strong(&clean::line(standings.challenge)));
    if !standings.places.is_empty() {
        let (table, left_out) = table(standings, width);
        text += &table;
        let mut legend = legend(standings);
        if !left_out.is_empty() {
            let left_out: Vec<&str> = left_out.into_iter().map(Column::title).collect();
            legend += &format!(" Left out for want of room: {}.", left_out.join(", "));
        }
        text += &paint.dim_lines(&wrap(&legend, width, "", ""));
    }
    for place in &standings.unranked {
        let line = format!("not ranked: {} ({})", clean::line(&place.label), why_unranked(place));
        text += &wrap(&line, width, "", "  ");
    }
    for caution in &standings.cautions {
        text += &wrap(&format!("note: {caution}"), width, "", "  ");
    }
    text
}

/// The table, and the columns for which there was no room.
fn table(standings: &Standings<'_>, width: usize) -> (String, Vec<Column>) {
    let assessed = assessed(standings);
    let mut columns =
        vec![Column::Rank, Column::Range, Column::Name, Column::Language, Column::Outcome, Column::Score];
    columns.extend(assessed.iter().map(|&(dimension, _)| Column::Part(dimension)));
    columns.push(Column::Suspect);
    // The least important first: what is in the name already or weighs little in the score, which stays.
    let mut dispensable = vec![Column::Language];
    let mut by_weight = assessed;
    by_weight.reverse();
    by_weight.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    dispensable.extend(by_weight.into_iter().map(|(dimension, _)| Column::Part(dimension)));
    dispensable.push(Column::Range);
    let mut left_out = Vec::new();
    let mut grid = grid(standings, &columns);
    for column in dispensable {
        if grid.fits(width) {
            break;
        }
        left_out.push(column);
        columns.retain(|kept| *kept != column);
        grid = self::grid(standings, &columns);
    }
    (grid.lay(width), left_out)
}

fn grid(standings: &Standings<'_>, columns: &[Column]) -> Grid {
    let row = |place: &Place<'_>| columns.iter().map(|column| column.cell(place)).collect();
    Grid {
        head: columns.iter().map(|column| column.title().to_owned()).collect(),
        rows: standings.places.par_iter().map(row).collect(),
        columns: columns.iter().map(|column| column.kind()).collect(),
        heads_follow: false,
        gap: 2,
    }
}

/// The dimensions that somebody has a score in; a column of dashes tells nothing and takes the names' room.
fn assessed(standings: &Standings<'_>) -> Vec<(Dimension, f64)> {
    let scored = |dimension| {
        standings
            .places
            .iter()
            .any(|place| place.summary.dimensions.get(&dimension).is_some_and(|part| part.score.is_some()))
    };
    standings.weights.iter().copied().filter(|&(dimension, _)| scored(dimension)).collect()
}
