//! A document as the body of an HTML page.

use std::fmt::Write;

use super::{Block, Document, Piece, Table, Text};
use crate::clean;

/// Longest foreign text shown.
const CHARS_MAX: usize = 600;

/// The document as a page of its own, which loads nothing and runs nothing.
pub fn page(document: &Document) -> String {
    let title = document.blocks.iter().find_map(|block| match block {
        Block::Heading(1, heading) => Some(plain(heading)),
        _ => None,
    });
    crate::html::page(
        &title.unwrap_or_default(),
        &format!("<main class=\"document\">\n{}</main>", body(document)),
    )
}

/// The text alone. Not yet cleaned.
fn plain(text: &Text) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Plain(text) | Piece::Strong(text) => text.clone(),
        Piece::Name(text) | Piece::Foreign(text) | Piece::Command(text) => text.clone(),
    };
    text.0.iter().map(piece).collect()
}

/// The document as HTML: what stands between `<main>` and `</main>`.
pub fn body(document: &Document) -> String {
    document.blocks.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match block {
        Block::Heading(level, heading) => format!("<h{level}>{}</h{level}>\n", inline(heading)),
        Block::Paragraph(paragraph) => format!("<p>{}</p>\n", inline(paragraph)),
        Block::Table(table) => rows(table),
        Block::List(items) => {
            let items: String = items.iter().map(|item| format!("<li>{}</li>\n", inline(item))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Picture(svg, caption) => {
            format!("<figure class=\"card\">{svg}<figcaption>{}</figcaption></figure>\n", inline(caption))
        }
    }
}

fn rows(table: &Table) -> String {
    // A box of its own, so that a wide table scrolls and not the page; by keyboard too.
    let mut page =
        "<div class=\"scroll\" role=\"group\" aria-label=\"table\" tabindex=\"0\"><table>\n<thead><tr>"
            .to_owned();
    for head in &table.head {
        let _ = write!(page, "<th scope=\"col\">{}</th>", inline(head));
    }
    page += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        page += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let cell = inline(cell);
            let _ = match column {
                0 => write!(page, "<th scope=\"row\">{cell}</th>"),
                _ if table.is_number(column) => write!(page, "<td class=\"number\">{cell}</td>"),
                _ => write!(page, "<td>{cell}</td>"),
            };
        }
        page += "</tr>\n";
    }
    page + "</tbody>\n</table></div>\n"
}

fn inline(text: &Text) -> String {
    let mut shown = String::new();
    for piece in &text.0 {
        let _ = match piece {
            Piece::Plain(plain) => write!(shown, "{}", escape(plain)),
            Piece::Strong(strong) => write!(shown, "<strong>{}</strong>", escape(strong)),
            Piece::Name(name) => write!(shown, "<bdi>{}</bdi>", escape(&clean::cut(name, CHARS_MAX))),
            Piece::Foreign(foreign) => {
                write!(shown, "<bdi>{}</bdi>", escape(&clean::cut(foreign, CHARS_MAX)))
            }
            Piece::Command(command) => {
                write!(shown, "<code>{}</code>", escape(&clean::cut(command, CHARS_MAX)))
            }
        };
    }
    shown
}

fn escape(text: &str) -> String {
    askama::filters::escape(text, askama::filters::Html)
        .map_or_else(|never| match never {}, |safe| safe.to_string())
}
