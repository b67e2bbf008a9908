//! Functions and classes: their names, and what keeps them alive without being named.

use tree_sitter::Node;

use super::facts::Definition;
use super::grammar::{Dialect, Role};
use super::names::{NameId, words};
use super::scan::{Context, Scanner, lines};

/// Declarators between a C function and its name: `int (*(*f)(void))(int)` has six.
const DECLARATORS_MAX: usize = 32;

/// Words in the head of a C or C++ function that say somebody else calls it, or that nobody may.
pub(super) const KEPT_IN_C: [&str; 16] = [
    "virtual",
    "override",
    "operator",
    "friend",
    "constexpr",
    "constructor",
    "destructor",
    "used",
    "unused",
    "maybe_unused",
    "weak",
    "alias",
    "ifunc",
    "section",
    "interrupt",
    "dllexport",
];

/// Rust attributes under which a function is as alive as without them.
const INERT_IN_RUST: [&str; 13] = [
    "inline",
    "always",
    "never",
    "must_use",
    "cold",
    "doc",
    "track_caller",
    "allow",
    "expect",
    "cfg",
    "target_feature",
    "clippy",
    "rustfmt",
];

/// Base classes that do nothing with the classes derived from them.
const INERT_BASES: [&str; 10] = [
    "object",
    "Exception",
    "ABC",
    "Protocol",
    "Generic",
    "NamedTuple",
    "TypedDict",
    "Enum",
    "IntEnum",
    "Module",
];

/// Takes note of a definition; what follows inside belongs to it.
pub(super) fn enter(
    scanner: &mut Scanner<'_>,
    node: Node<'_>,
    role: Role,
    attributes: &str,
    decorated: bool,
    inner: &mut Context,
) {
    let dialect = scanner.grammar.dialect;
    let class = role == Role::Class;
    if class && dialect == Dialect::Cpp {
        // Members are called through templates, concepts and range loops that name none of them.
        inner.keep_functions = true;
        return;
    }
    let Some(name) = name(dialect, node) else {
        return;
    };
    let text = scanner.slice(name);
    let id = scanner.shared.names.id(text);
    let lines = lines(node);
    inner.test |= dialect == Dialect::Rust && attributes.contains("cfg(test)");
    if !class && !inner.test {
        scanner.scan.functions.push((lines.0, lines.1, id));
    }
    let called_from_outside = inner.keep_functions
        || inner.test
        || decorated
        || text == "main"
        || scanner.entry_points.iter().any(|&entry| is_entry(dialect, text, entry));
    let kept = called_from_outside
        || match dialect {
            Dialect::Python => is_dunder(text) || text.starts_with("test_") || text.starts_with("Test"),
            Dialect::C | Dialect::Cpp => {
                name.kind() != "identifier"
                    || text.starts_with("tribunal_")
                    || !text.contains(char::is_lowercase)
                    || words(head(scanner, node)).any(|word| KEPT_IN_C.contains(&word))
            }
            Dialect::Rust => {
                text.starts_with("tribunal_")
                    || head(scanner, node).contains("extern")
                    || !attributes_are_inert(attributes)
            }
        };
    let (bases, kept_for_bases) = if class { bases(scanner, node) } else { (Vec::new(), false) };
    let definition = Definition {
        name: id,
        file: scanner.file,
        class,
        parent: inner.owner,
        lines,
        kept: kept || kept_for_bases,
        bases,
    };
    inner.owner = Some(scanner.shared.definitions.len());
    // An entry point that is a class is used from outside, and so are methods that a base class may call.
    inner.keep_functions = class && (called_from_outside || kept_for_bases || has_bases(scanner, node));
    scanner.shared.definitions.push(definition);
}

fn is_entry(dialect: Dialect, name: &str, entry: &str) -> bool {
    name == entry || dialect != Dialect::Python && name.strip_prefix("tribunal_") == Some(entry)
}

pub(super) fn is_dunder(name: &str) -> bool {
    name.starts_with("__") && name.ends_with("__")
}

fn name(dialect: Dialect, node: Node<'_>) -> Option<Node<'_>> {
    if matches!(dialect, Dialect::Python | Dialect::Rust) {
        return node.child_by_field_name("name").filter(|name| !name.is_missing());
    }
    let mut declarator = node.child_by_field_name("declarator")?;
    for _ in 0..DECLARATORS_MAX {
        match declarator.kind() {
            "identifier" | "field_identifier" => return Some(declarator),
            "function_declarator" | "pointer_declarator" => {
                declarator = declarator.child_by_field_name("declarator")?;
            }
            "parenthesized_declarator" | "reference_declarator" | "attributed_declarator" => {
                declarator = declarator.named_child(0)?;
            }
            _ => return None,
        }
    }
    None
}

/// What stands before the body, at most a kilobyte of it.
fn head<'a>(scanner: &Scanner<'a>, node: Node<'_>) -> &'a str {
    let end = node.child_by_field_name("body").map_or(node.end_byte(), |body| body.start_byte());
    let mut end = end.min(node.start_byte() + 1024);
    while !scanner.text.is_char_boundary(end) {
        end -= 1;
    }
    scanner.text.get(node.start_byte()..end).unwrap_or("")
}

/// A derive or test macro, an exported symbol: whatever is not known to be inert keeps the function.
fn attributes_are_inert(attributes: &str) -> bool {
    attributes.split("#[").skip(1).all(|attribute| {
        words(attribute).next().is_some_and(|first| INERT_IN_RUST.contains(&first))
            && !attribute.contains("no_mangle")
    })
}

fn has_bases(scanner: &Scanner<'_>, class: Node<'_>) -> bool {
    class
        .child_by_field_name("superclasses")
        .is_some_and(|bases| words(scanner.slice(bases)).any(|base| base != "object"))
}

/// Base classes to be looked up, and whether there is one that is not a plain name.
fn bases(scanner: &mut Scanner<'_>, class: Node<'_>) -> (Vec<NameId>, bool) {
    let Some(list) = class.child_by_field_name("superclasses") else {
        return (Vec::new(), false);
    };
    let mut bases = Vec::new();
    let mut cursor = list.walk();
    for base in list.named_children(&mut cursor) {
        let text = scanner.slice(base);
        let last = text.rsplit('.').next().unwrap_or(text);
        match base.kind() {
            "comment" => {}
            "identifier" | "attribute" if INERT_BASES.contains(&last) || last.ends_with("Error") => {}
            "identifier" => bases.push(scanner.shared.names.id(text)),
            _ => return (Vec::new(), true),
        }
    }
    (bases, false)
}
