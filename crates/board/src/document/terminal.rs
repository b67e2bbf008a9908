//! A document for a terminal.

use super::{Block, Document, Piece, Table, Text};
use crate::Style;
use crate::clean;
use crate::terminal::grid::Grid;
use crate::terminal::paint::{Paint, wrap};

/// Longest foreign text shown.
const CHARS_MAX: usize = 300;

/// The document in lines.
pub fn show(document: &Document, style: &Style) -> String {
    let (paint, width) = (Paint::new(style.color), style.width.clamp(60, 200));
    let shown = document.blocks.iter().filter(|block| !matches!(block, Block::Picture(..)));
    let blocks: Vec<String> = shown.map(|block| self::block(block, paint, width)).collect();
    blocks.join("\n")
}

fn block(block: &Block, paint: Paint, width: usize) -> String {
    match block {
        Block::Heading(_, heading) => format!("{}\n", paint.strong(&inline(heading))),
        Block::Paragraph(paragraph) => wrap(&inline(paragraph), width, "", ""),
        Block::Table(table) => rows(table, width),
        Block::List(items) => items.iter().map(|item| wrap(&inline(item), width, "  - ", "    ")).collect(),
        Block::Picture(..) => String::new(),
    }
}

fn rows(table: &Table, width: usize) -> String {
    let line = |cells: &[Text]| cells.iter().map(inline).collect();
    let grid = Grid {
        head: line(&table.head),
        rows: table.rows.iter().map(|row| line(row)).collect(),
        columns: table.columns.clone(),
        heads_follow: true,
        gap: 3,
    };
    grid.lay(width)
}

fn inline(text: &Text) -> String {
    text.0
        .iter()
        .map(|piece| match piece {
            Piece::Plain(ours) | Piece::Strong(ours) => ours.clone(),
            Piece::Name(foreign) | Piece::Foreign(foreign) => clean::cut(foreign, CHARS_MAX),
            Piece::Command(command) => format!("`{}`", clean::cut(command, CHARS_MAX)),
        })
        .collect()
}
