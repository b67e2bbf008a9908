//! A document for a repository.

use std::fmt::Write;

use super::{Block, Document, Piece, Table, Text};
use crate::markdown::escape::{cell, code, text};

/// The document as Markdown.
pub fn show(document: &Document) -> String {
    let shown = document.blocks.iter().filter(|block| !matches!(block, Block::Picture(..)));
    let blocks: Vec<String> = shown.map(block).collect();
    blocks.join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, heading) => {
            format!("{} {}\n", "#".repeat(usize::from(*level)), inline(heading))
        }
        Block::Paragraph(paragraph) => inline(paragraph) + "\n",
        Block::Table(table) => rows(table),
        Block::List(items) => items.iter().map(|item| format!("- {}\n", inline(item))).collect(),
        Block::Picture(..) => String::new(),
    }
}

fn rows(table: &Table) -> String {
    let line = |cells: &[Text]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(&inline(text))).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut page = line(&table.head);
    page += "|";
    for column in 0..table.head.len() {
        page += if table.is_number(column) { "--:|" } else { "---|" };
    }
    page.push('\n');
    for row in &table.rows {
        page += &line(row);
    }
    page
}

fn inline(pieces: &Text) -> String {
    let mut shown = String::new();
    for piece in &pieces.0 {
        let _ = match piece {
            // Ours, but a `*` in it is a sign and not Markdown's.
            Piece::Plain(plain) => write!(shown, "{}", plain.replace('*', "\\*").replace('|', "&#124;")),
            Piece::Strong(strong) => write!(shown, "**{strong}**"),
            Piece::Name(name) => write!(shown, "{}", code(name)),
            Piece::Foreign(foreign) => write!(shown, "{}", text(foreign)),
            Piece::Command(command) => write!(shown, "{}", code(command)),
        };
    }
    shown
}
