//! Which grammar reads a file, and what its nodes mean here.

use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};
use tribunal_contract::Language;

/// Steps of a hundred parser operations that a submission may take. A megabyte of ordinary code takes six thousand;
/// noise takes many times that.
pub(super) const STEPS_MAX: usize = 8_000;

/// What a step costs while the parser recovers from an error, which takes it longer.
const ERROR_STEPS: usize = 5;

/// A language as it is written, which is finer than how it is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Python,
    C,
    /// CUDA too: a launch is a parse error of a few bytes, the rest is C++.
    Cpp,
    Rust,
}

impl Dialect {
    /// None for what is not source of a known language. `cpp` says that plain headers are C++ here.
    pub(super) fn of(path: &str, cpp: bool) -> Option<Self> {
        let (_, extension) = path.rsplit_once('.')?;
        match extension {
            "py" | "pyi" => Some(Self::Python),
            "rs" => Some(Self::Rust),
            "c" => Some(Self::C),
            "h" => Some(if cpp { Self::Cpp } else { Self::C }),
            "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "cu" | "cuh" => Some(Self::Cpp),
            _ => None,
        }
    }

    /// Whether headers belong to C++ in this submission.
    pub(super) fn headers_are_cpp<'a>(language: Language, mut paths: impl Iterator<Item = &'a str>) -> bool {
        language == Language::Cuda || paths.any(|path| Self::of(path, false) == Some(Self::Cpp))
    }

    fn grammar(self) -> tree_sitter::Language {
        match self {
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::C => tree_sitter_c::LANGUAGE.into(),
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
        }
    }
}

/// What a kind of node is to the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Role {
    #[default]
    Other,
    Comment,
    Literal,
    Name,
    Function,
    Class,
    Block,
    Import,
    MacroBody,
    MacroDefinition,
    FunctionDeclarator,
    /// Rust: `impl`, whose functions are called by the trait's users where it has a trait.
    Impl,
    Trait,
    /// Rust: a function without its body.
    Signature,
    Module,
    Attribute,
    Decorated,
    Try,
    Statement,
    Error,
}

/// A grammar with its nodes' roles, by kind id.
pub(super) struct Grammar {
    pub(super) dialect: Dialect,
    language: tree_sitter::Language,
    roles: Vec<Role>,
    /// Kinds of statements that others stand within, one level deeper.
    nests: Vec<bool>,
}

impl Grammar {
    pub(super) fn new(dialect: Dialect) -> Self {
        let language = dialect.grammar();
        let named = |id: usize| {
            let id = u16::try_from(id).unwrap_or(u16::MAX);
            language.node_kind_for_id(id).filter(|_| language.node_kind_is_named(id))
        };
        let kinds = || (0..language.node_kind_count()).map(named);
        let roles = kinds().map(|kind| kind.map_or(Role::Other, |kind| role(dialect, kind))).collect();
        let nests = kinds().map(|kind| kind.is_some_and(|kind| nests(dialect, kind))).collect();
        Self { dialect, roles, nests, language }
    }

    pub(super) fn role(&self, node: tree_sitter::Node<'_>) -> Role {
        if node.is_error() {
            return Role::Error;
        }
        self.roles.get(usize::from(node.kind_id())).copied().unwrap_or(Role::Other)
    }

    /// Whether what stands within is one level deeper than the node.
    pub(super) fn nests(&self, node: tree_sitter::Node<'_>) -> bool {
        self.nests.get(usize::from(node.kind_id())).copied().unwrap_or(false)
    }

    /// None if the text takes more steps than are left. Steps are counted, not timed, so that the answer is the same
    /// on every machine.
    pub(super) fn parse(&self, text: &str, steps_left: &mut usize) -> Option<Tree> {
        let mut parser = Parser::new();
        parser.set_language(&self.language).ok()?;
        let mut progress = |state: &tree_sitter::ParseState| {
            if *steps_left == 0 {
                return ControlFlow::Break(());
            }
            *steps_left = steps_left.saturating_sub(if state.has_error() { ERROR_STEPS } else { 1 });
            ControlFlow::Continue(())
        };
        let bytes = text.as_bytes();
        parser.parse_with_options(
            &mut |offset, _| bytes.get(offset..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut progress)),
        )
    }
}

fn nests(dialect: Dialect, kind: &str) -> bool {
    let kinds: &[&str] = match dialect {
        Dialect::Python => &[
            "if_statement",
            "for_statement",
            "while_statement",
            "with_statement",
            "try_statement",
            "match_statement",
        ],
        Dialect::C | Dialect::Cpp => &[
            "if_statement",
            "for_statement",
            "for_range_loop",
            "while_statement",
            "do_statement",
            "switch_statement",
            "try_statement",
        ],
        Dialect::Rust => {
            &["if_expression", "for_expression", "while_expression", "loop_expression", "match_expression"]
        }
    };
    kinds.contains(&kind)
}

fn role(dialect: Dialect, kind: &str) -> Role {
    match (dialect, kind) {
        (_, "comment" | "line_comment" | "block_comment") => Role::Comment,
        (Dialect::Python, "string" | "integer" | "float")
        | (
            Dialect::C | Dialect::Cpp,
            "string_literal" | "char_literal" | "number_literal" | "system_lib_string" | "raw_string_literal",
        )
        | (
            Dialect::Rust,
            "string_literal" | "raw_string_literal" | "char_literal" | "integer_literal" | "float_literal",
        ) => Role::Literal,
        (
            _,
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "namespace_identifier"
            | "shorthand_field_identifier"
            | "metavariable",
        ) => Role::Name,
        (Dialect::Rust, "function_item")
        | (Dialect::Python | Dialect::C | Dialect::Cpp, "function_definition") => Role::Function,
        (Dialect::Python, "class_definition") | (Dialect::Cpp, "class_specifier" | "struct_specifier") => {
            Role::Class
        }
        (Dialect::Python, "block" | "module")
        | (Dialect::Rust, "block")
        | (Dialect::C | Dialect::Cpp, "compound_statement" | "case_statement") => Role::Block,
        (Dialect::Python, "import_statement" | "import_from_statement" | "future_import_statement")
        | (Dialect::C | Dialect::Cpp, "preproc_include")
        | (Dialect::Rust, "use_declaration") => Role::Import,
        (Dialect::C | Dialect::Cpp, "preproc_arg") => Role::MacroBody,
        (Dialect::C | Dialect::Cpp, "preproc_def" | "preproc_function_def") => Role::MacroDefinition,
        (Dialect::C | Dialect::Cpp, "function_declarator") => Role::FunctionDeclarator,
        (Dialect::Rust, "impl_item") => Role::Impl,
        (Dialect::Rust, "trait_item") => Role::Trait,
        (Dialect::Rust, "function_signature_item") => Role::Signature,
        (Dialect::Rust, "mod_item") => Role::Module,
        (Dialect::Rust, "attribute_item") => Role::Attribute,
        (Dialect::Python, "decorated_definition") => Role::Decorated,
        (Dialect::Python, "try_statement") => Role::Try,
        (Dialect::Python, "expression_statement") => Role::Statement,
        _ => Role::Other,
    }
}
