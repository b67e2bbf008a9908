//! One walk over a file's tree: its tokens, lines, definitions and the names they mention.

use tree_sitter::{Node, TreeCursor};

use super::facts::{Scan, Shared, Token, TokenKind};
use super::grammar::{Dialect, Grammar, Role};
use super::names::{NameId, words};
use super::unreachable;
use super::{definition, imports};

/// What holds for the children of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Context {
    pub(super) owner: Option<usize>,
    /// The node itself.
    parent: Role,
    /// Functions here are called by what is not in sight: trait implementations, derived classes.
    pub(super) keep_functions: bool,
    pub(super) decorated: bool,
    pub(super) test: bool,
    /// How many loops and branches of its function it stands in.
    depth: usize,
    /// It stands right behind an `else`, where an `if` is no deeper than the one before.
    after_else: bool,
    /// Within a literal: names count, tokens do not.
    quiet: bool,
    error: bool,
    tried: bool,
    /// Rust attributes before the next child, as a byte range.
    attributes: (usize, usize),
}

pub(super) struct Scanner<'a> {
    pub(super) grammar: &'a Grammar,
    pub(super) text: &'a str,
    pub(super) path: &'a str,
    pub(super) file: usize,
    pub(super) entry_points: &'a [&'a str],
    pub(super) shared: &'a mut Shared,
    pub(super) scan: Scan,
    filled: Vec<bool>,
    unreachable: unreachable::Search,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(
        grammar: &'a Grammar,
        text: &'a str,
        path: &'a str,
        file: usize,
        entry_points: &'a [&'a str],
        shared: &'a mut Shared,
    ) -> Self {
        let filled: Vec<bool> = text.split('\n').map(|line| !line.trim().is_empty()).collect();
        let scan = Scan { code: vec![false; filled.len()], ..Scan::default() };
        let unreachable = unreachable::Search::default();
        Self { grammar, text, path, file, entry_points, shared, scan, filled, unreachable }
    }

    /// Walks with a stack of its own: the depth is the submission's choice.
    pub(super) fn run(mut self, root: Node<'a>, test: bool) -> Scan {
        let mut cursor = root.walk();
        let mut stack = vec![Context { test, ..Context::default() }];
        loop {
            let context = stack.last_mut().expect("one context a level");
            if let Some(inner) = self.enter(&cursor, context)
                && cursor.goto_first_child()
            {
                stack.push(inner);
                continue;
            }
            while !cursor.goto_next_sibling() {
                stack.pop();
                if stack.is_empty() || !cursor.goto_parent() {
                    return self.scan;
                }
            }
        }
    }

    /// Takes note of a node; None if its children are of no interest.
    fn enter(&mut self, cursor: &TreeCursor<'a>, context: &mut Context) -> Option<Context> {
        let node = cursor.node();
        if node.is_missing() {
            self.scan.error.get_or_insert(node.start_position().row);
            return None;
        }
        let role = self.grammar.role(node);
        let mut inner = *context;
        inner.after_else = node.kind() == "else_clause";
        let chained = context.after_else && node.kind().starts_with("if_");
        if self.grammar.nests(node) && !chained {
            inner.depth += 1;
            if inner.depth > self.scan.deepest.0 && !context.test {
                self.scan.deepest = (inner.depth, node.start_position().row);
            }
        }
        inner.attributes = (0, 0);
        inner.decorated = false;
        inner.parent = role;
        match role {
            Role::Comment => return None,
            Role::Attribute => {
                let start = if context.attributes.1 == 0 { node.start_byte() } else { context.attributes.0 };
                context.attributes = (start, node.end_byte());
            }
            Role::Statement if is_docstring(node) => return None,
            Role::Literal => {
                self.token(node, TokenKind::Literal, context);
                if !context.quiet {
                    self.mention_string(node, context);
                }
                inner.quiet = true;
            }
            Role::Name => {
                let name = self.shared.names.id(self.slice(node));
                self.token(node, TokenKind::Name(name), context);
                let field = cursor.field_name();
                if !is_own_name(field, context.parent) {
                    self.mention(context, name);
                } else if context.parent == Role::MacroDefinition {
                    self.shared.macros.insert(name);
                }
                self.look_for_dynamic(node, field == Some("attribute"));
                return None;
            }
            Role::Function | Role::Class => {
                let attributes = self.text.get(context.attributes.0..context.attributes.1).unwrap_or("");
                let (attributes, decorated) = (attributes.to_owned(), context.decorated);
                definition::enter(self, node, role, &attributes, decorated, &mut inner);
                inner.depth = 0;
            }
            Role::Block => {
                if !inner.test {
                    let ranges = self.unreachable.block(self.grammar.dialect, node, self.text);
                    self.scan.unreachable.extend(ranges);
                }
            }
            Role::Import => {
                self.cover(node, context);
                self.break_tokens();
                imports::enter(self, node, context.tried, context);
                return None;
            }
            Role::MacroBody => {
                self.token(node, TokenKind::Literal, context);
                let body = self.slice(node);
                if body.contains("##") {
                    self.scan.dynamic.get_or_insert(node.start_position().row);
                }
                for word in words(body) {
                    self.mention_word(context, word);
                }
            }
            Role::Impl => inner.keep_functions = node.child_by_field_name("trait").is_some(),
            Role::Trait => inner.keep_functions = true,
            Role::Module => {
                let attributes = self.text.get(context.attributes.0..context.attributes.1).unwrap_or("");
                inner.test |= attributes.contains("cfg(test)");
            }
            Role::Decorated => inner.decorated = true,
            Role::Try => inner.tried = true,
            Role::Error => {
                self.scan.error.get_or_insert(node.start_position().row);
                if !context.error {
                    for word in words(self.slice(node)) {
                        self.mention_word(context, word);
                    }
                }
                inner.error = true;
            }
            Role::MacroDefinition
            | Role::FunctionDeclarator
            | Role::Signature
            | Role::Statement
            | Role::Other => {}
        }
        if role != Role::Attribute {
            context.attributes = (0, 0);
        }
        if node.child_count() == 0 && role != Role::Literal && role != Role::MacroBody {
            let kind = self.shared.names.id(node.kind());
            self.token(node, TokenKind::Sign(kind), context);
        }
        Some(inner)
    }

    fn token(&mut self, node: Node<'_>, kind: TokenKind, context: &Context) {
        if context.quiet || node.start_byte() == node.end_byte() || self.slice(node).trim().is_empty() {
            return;
        }
        if context.test {
            self.break_tokens();
            return;
        }
        self.cover(node, context);
        let line = u32::try_from(node.start_position().row).unwrap_or(u32::MAX);
        self.scan.tokens.push(Token { kind, line });
    }

    pub(super) fn break_tokens(&mut self) {
        if !matches!(self.scan.tokens.last(), Some(Token { kind: TokenKind::Break, .. }) | None) {
            let line = self.scan.tokens.last().map_or(0, |token| token.line);
            self.scan.tokens.push(Token { kind: TokenKind::Break, line });
        }
    }

    fn cover(&mut self, node: Node<'_>, context: &Context) {
        if context.test {
            return;
        }
        let (first, last) = lines(node);
        for line in first..=last.min(self.filled.len() - 1) {
            self.scan.code[line] |= self.filled[line];
        }
    }

    pub(super) fn slice(&self, node: Node<'_>) -> &'a str {
        self.text.get(node.byte_range()).unwrap_or("")
    }

    pub(super) fn mention(&mut self, context: &Context, name: NameId) {
        self.scan.mentioned.push(name);
        let owner = if context.test { None } else { context.owner };
        self.shared.mentions.push((owner, name));
    }

    pub(super) fn mention_word(&mut self, context: &Context, word: &str) {
        let name = self.shared.names.id(word);
        self.mention(context, name);
    }

    /// A string that could be a name, an annotation or a dotted path mentions its words.
    fn mention_string(&mut self, node: Node<'_>, context: &Context) {
        let text = self.slice(node);
        if text.len() > 200 {
            return;
        }
        let inner = text.find(['"', '\'']).map_or("", |start| &text[start..]);
        let inner = inner.trim_matches(['"', '\'', '#']).replace(", ", ",").replace(" | ", "|");
        if inner.chars().all(|c| c.is_alphanumeric() || "_.,:|[]".contains(c)) {
            for word in words(&inner) {
                self.mention_word(context, word);
            }
        }
    }

    fn look_for_dynamic(&mut self, node: Node<'_>, attribute: bool) {
        let dynamic = match (self.grammar.dialect, self.slice(node)) {
            // `model.eval()` is no `eval`.
            (Dialect::Python, "globals" | "locals" | "vars" | "exec" | "eval" | "__import__") => !attribute,
            (Dialect::Python, "importlib" | "__dict__" | "__subclasses__" | "__init_subclass__") => true,
            (Dialect::Python, "inspect" | "metaclass") => true,
            (Dialect::Python, "modules") => {
                self.text.get(..node.start_byte()).is_some_and(|before| before.ends_with("sys."))
            }
            (Dialect::Python, "getattr" | "attrgetter" | "methodcaller") => !self.names_its_attribute(node),
            (Dialect::Rust, "concat_idents" | "paste") => true,
            _ => false,
        };
        if dynamic {
            self.scan.dynamic.get_or_insert(node.start_position().row);
        }
    }

    /// `getattr(x, "name")` is a mention of the name like any other.
    fn names_its_attribute(&self, node: Node<'_>) -> bool {
        let rest = self.text.get(node.end_byte()..).unwrap_or("");
        let Some(rest) = rest.strip_prefix('(') else { return false };
        let call: String = rest.chars().take(120).take_while(|&c| c != ')' && c != '\n').collect();
        let mut parts = call.split(',');
        let receiver = parts.next().unwrap_or("").trim();
        let attribute = parts.next().unwrap_or("").trim();
        !receiver.contains('(')
            && attribute.len() > 2
            && (attribute.starts_with('"') && attribute.ends_with('"')
                || attribute.starts_with('\'') && attribute.ends_with('\''))
    }
}

/// First and last line of a node, from 0.
pub(super) fn lines(node: Node<'_>) -> (usize, usize) {
    let (start, end) = (node.start_position(), node.end_position());
    let last = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
    (start.row, last)
}

/// A name where it is given is no mention of it: a definition, a prototype, a macro's own name.
fn is_own_name(field: Option<&str>, parent: Role) -> bool {
    match field {
        Some("name") => {
            matches!(
                parent,
                Role::Function | Role::Class | Role::MacroDefinition | Role::Trait | Role::Signature
            )
        }
        Some("declarator") => parent == Role::FunctionDeclarator,
        _ => false,
    }
}

/// A string that stands alone is documentation.
pub(super) fn is_docstring(node: Node<'_>) -> bool {
    node.named_child_count() == 1
        && node.named_child(0).is_some_and(|child| matches!(child.kind(), "string" | "concatenated_string"))
}
