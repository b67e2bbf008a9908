//! The ranking as a table.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};
use tribunal_judge::Dimension;

use super::Style;
use super::paint::{Paint, wrap};
use crate::phrases::{legend, range, rank, score, short, why_unranked};
use crate::ranking::{self, Place, Standings};
use crate::{Summary, clean, words};

/// A rule under the header and no other: rows are short, and there may be many.
const RULED: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// The columns before the dimensions.
const FIXED: [&str; 6] = ["#", "range", "name", "language", "outcome", "score"];

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
        text += &format!("{}\n", table(standings, width));
        text += &paint.dim_lines(&wrap(&legend(standings), width, "", ""));
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

fn table(standings: &Standings<'_>, width: usize) -> String {
    let mut table = Table::new();
    table.load_style(RULED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    let weights = assessed(standings);
    let mut header: Vec<String> = FIXED.map(str::to_owned).to_vec();
    header.extend(weights.iter().map(|&(dimension, _)| short(dimension).to_owned()));
    header.push("main suspect".to_owned());
    table.set_header(header);
    for place in &standings.places {
        table.add_row(row(place, &weights));
    }
    // Name and suspect share what is left over; all else is short and must not be broken.
    let last = weights.len() + FIXED.len();
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if index != 2 && index != last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
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

fn row(place: &Place<'_>, weights: &[(Dimension, f64)]) -> Vec<Cell> {
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let summary = place.summary;
    let mut cells = vec![
        number(rank(place)),
        number(range(place)),
        Cell::new(clean::cut(&place.label, 80)),
        Cell::new(clean::cut(&summary.submission.language, 12)),
        Cell::new(summary.outcome.name()),
        number(score(place)),
    ];
    let of = |dimension| summary.dimensions.get(&dimension).and_then(|part| part.score);
    cells.extend(weights.iter().map(|&(dimension, _)| number(words::score(of(dimension)))));
    cells.push(Cell::new(clean::cut(summary.suspect.as_deref().unwrap_or(""), 60)));
    cells
}
