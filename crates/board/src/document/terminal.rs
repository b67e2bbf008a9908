//! A document for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle};

use super::{Block, Document, Piece, Table, Text};
use crate::Style;
use crate::clean;
use crate::terminal::paint::{Paint, wrap};

const RULED: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

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
    let mut laid = comfy_table::Table::new();
    laid.load_style(RULED).set_content_arrangement(ContentArrangement::Dynamic);
    laid.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    laid.set_header(table.head.iter().map(inline));
    for row in &table.rows {
        laid.add_row(row.iter().map(inline));
    }
    for (index, column) in laid.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if table.is_number(index) {
            column.set_cell_alignment(CellAlignment::Right);
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    laid.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
