//! Imports: what they bind, and which of them are there for somebody else.

use tree_sitter::Node;

use super::facts::Import;
use super::grammar::Dialect;
use super::names::words;
use super::scan::{Context, Scanner, lines};

/// Takes note of an import; its names are no mentions, unless they are given new ones.
pub(super) fn enter(scanner: &mut Scanner<'_>, node: Node<'_>, tried: bool, context: &Context) {
    match scanner.grammar.dialect {
        Dialect::Python => python(scanner, node, tried, context),
        Dialect::Rust => {
            let text = scanner.slice(node);
            if text.starts_with("pub") || text.contains(" as ") {
                for word in words(text) {
                    scanner.mention_word(context, word);
                }
            }
        }
        Dialect::C | Dialect::Cpp => {}
    }
}

fn python(scanner: &mut Scanner<'_>, node: Node<'_>, tried: bool, context: &Context) {
    let from = node.kind() == "import_from_statement";
    let mut cursor = node.walk();
    if node.named_children(&mut cursor).any(|child| child.kind() == "wildcard_import") {
        scanner.scan.wildcard = true;
        return;
    }
    let mut binds = Vec::new();
    let mut count = 0;
    let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
    for name in names {
        count += 1;
        let (source, alias) = if name.kind() == "aliased_import" {
            (name.child_by_field_name("name"), name.child_by_field_name("alias"))
        } else {
            (Some(name), None)
        };
        let source = source.map_or("", |source| scanner.slice(source));
        let alias = alias.map(|alias| scanner.slice(alias));
        if from {
            let id = scanner.shared.names.id(source);
            scanner.scan.taken.push(id);
        }
        if alias.is_some_and(|alias| alias != source) {
            for word in words(source) {
                let name = scanner.shared.names.id(word);
                // Not in the file's own list: that one says which imports are used.
                scanner.shared.mentions.push((context.owner, name));
            }
        }
        // `import x as x` is how a module passes a name on.
        let passed_on = alias == Some(source);
        let bound = alias.unwrap_or_else(|| if from { source } else { first_part(source) });
        let entry = scanner.entry_points.contains(&bound);
        if !passed_on && !entry && !bound.is_empty() {
            binds.push(scanner.shared.names.id(bound));
        }
    }
    let (first, last) = lines(node);
    let after = scanner.text.get(node.end_byte()..).and_then(|rest| rest.split('\n').next()).unwrap_or("");
    let wanted = after.split_once('#').is_some_and(|(_, comment)| comment.contains("noqa"));
    let package = scanner.path.rsplit('/').next() == Some("__init__.py");
    let future = node.kind() == "future_import_statement";
    if !(tried || wanted || package || future || context.test) {
        scanner.scan.imports.push(Import { lines: (first, last), binds, count });
    }
}

fn first_part(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}
