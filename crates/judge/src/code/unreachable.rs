//! Statements after a jump in the same block.

use tree_sitter::Node;

use super::grammar::Dialect;
use super::scan::lines;

/// Nodes looked at for labels and yields in one file; beyond that, what follows a jump is taken to be reached.
const NODES_MAX: usize = 200_000;

/// A search over one file, blocks in the order of the walk.
#[derive(Debug)]
pub(super) struct Search {
    /// End of the last range found: blocks within it are part of it.
    until: usize,
    nodes_left: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { until: 0, nodes_left: NODES_MAX }
    }
}

impl Search {
    /// The lines of a block that follow a jump, if there are any.
    pub(super) fn block(&mut self, dialect: Dialect, block: Node<'_>, text: &str) -> Option<(usize, usize)> {
        if block.start_byte() < self.until || block.has_error() {
            return None;
        }
        let mut cursor = block.walk();
        let mut jumped = false;
        let mut conditional = false;
        let mut rest: Option<(Node<'_>, Node<'_>)> = None;
        for child in block.named_children(&mut cursor) {
            if child.is_extra() {
                continue;
            }
            if !jumped {
                jumped = !conditional && is_jump(dialect, child);
                // `#[cfg(…)] return x;` is not there on every machine.
                conditional = child.kind() == "attribute_item";
                continue;
            }
            if self.can_be_reached(dialect, child) {
                return None;
            }
            let slice = text.get(child.byte_range()).unwrap_or("");
            if !is_item(child) && !is_habit(slice) {
                rest = Some((rest.map_or(child, |(first, _)| first), child));
            }
        }
        let (first, last) = rest?;
        self.until = last.end_byte();
        Some((lines(first).0, lines(last).1))
    }

    /// A label, a case or a preprocessor's condition lets control in; a `yield` makes a generator though it is never run.
    fn can_be_reached(&mut self, dialect: Dialect, node: Node<'_>) -> bool {
        if dialect == Dialect::Rust {
            return false;
        }
        let mut cursor = node.walk();
        loop {
            if self.nodes_left == 0 {
                return true;
            }
            self.nodes_left -= 1;
            let kind = cursor.node().kind();
            let found = match dialect {
                Dialect::Python => kind == "yield",
                _ => matches!(kind, "labeled_statement" | "case_statement") || kind.starts_with("preproc_"),
            };
            if found {
                return true;
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return false;
                }
            }
        }
    }
}

fn is_jump(dialect: Dialect, node: Node<'_>) -> bool {
    let kind = match dialect {
        Dialect::Rust if node.kind() == "expression_statement" => {
            node.named_child(0).map_or("", |expression| expression.kind())
        }
        _ => node.kind(),
    };
    matches!(
        kind,
        "return_statement"
            | "raise_statement"
            | "break_statement"
            | "continue_statement"
            | "throw_statement"
            | "return_expression"
            | "break_expression"
            | "continue_expression"
    )
}

/// Rust's items hold in the whole block, wherever they stand.
fn is_item(node: Node<'_>) -> bool {
    let kind = node.kind();
    kind.ends_with("_item") || matches!(kind, "use_declaration" | "macro_definition" | "empty_statement")
}

/// What is written after a jump on purpose, to say that it is not reached.
fn is_habit(statement: &str) -> bool {
    let statement = statement.trim_end_matches([';', ' ']);
    matches!(statement, "break" | "pass" | "")
        || [
            "unreachable",
            "__builtin_unreachable",
            "abort(",
            "assert",
            "panic!",
            "std::unreachable",
            "raise ",
        ]
        .iter()
        .any(|start| statement.starts_with(start))
}
