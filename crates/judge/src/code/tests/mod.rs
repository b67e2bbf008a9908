//! Hand-counted sources, honest programs, defects and hostile texts.

mod defects;
mod honest;
mod hostile;
mod mute;

use tribunal_contract::Language;

use super::{CodeFacts, SourceFile, inspect};
use crate::{Dimension, Family, Outcome, Severity};

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

fn look(path: &str, text: &str) -> CodeFacts {
    let language = match path.rsplit('.').next() {
        Some("py") => Language::Python,
        Some("rs") => Language::Rust,
        Some("cu") => Language::Cuda,
        _ => Language::C,
    };
    inspect(&[file(path, text)], language, &["forward", "backward"])
}

fn measured(facts: &CodeFacts, name: &str) -> Option<f64> {
    facts.measurements().iter().find(|measurement| measurement.name == name).map(|m| m.value)
}

/// The messages of what failed.
fn failed(facts: &CodeFacts) -> Vec<String> {
    let failures = facts.findings().into_iter().filter(|finding| finding.outcome == Outcome::Fail);
    failures.map(|finding| finding.message).collect()
}

fn outcome(facts: &CodeFacts, check: &str) -> Vec<Outcome> {
    facts.findings().iter().filter(|finding| finding.check == check).map(|finding| finding.outcome).collect()
}

/// Nothing is held against it, and everything was decided.
#[track_caller]
fn assert_clean(facts: &CodeFacts) {
    assert_eq!(failed(facts), [""; 0]);
    assert_eq!(outcome(facts, "no_duplication"), [Outcome::Pass]);
    assert_eq!(outcome(facts, "no_dead_code"), [Outcome::Pass], "{:?}", facts.undecided);
    assert_eq!(measured(facts, "code_duplication"), Some(1.0));
    assert_eq!(measured(facts, "code_dead"), Some(1.0));
}

#[test]
fn code_lines_are_neither_blank_nor_comment() {
    let python = "\"\"\"A module.\n\nIn two parts.\"\"\"\n\n# a comment\ndef forward(x):\n    \"\"\"Doubles.\"\"\"\n    \
                  text = \"\"\"one\n\n    two\"\"\"  # kept\n    return 2 * x, text\n";
    assert_eq!(measured(&look("a.py", python), "code_lines"), Some(4.0));
    assert_eq!(measured(&look("a.py", python), "code_longest_function"), Some(4.0));
    let c =
        "// one\n#include <math.h>\n\n/* two\n   three */ int forward(int x) { // four\n    return x;\n}\n";
    assert_eq!(measured(&look("a.c", c), "code_lines"), Some(4.0));
    assert_eq!(measured(&look("a.c", c), "code_longest_function"), Some(3.0));
    let rust =
        "//! Crate.\n/// Doubles.\n#[inline]\npub fn forward(x: i32) -> i32 {\n    /* no */\n    2 * x\n}\n";
    assert_eq!(measured(&look("a.rs", rust), "code_lines"), Some(4.0));
    assert_eq!(measured(&look("a.rs", rust), "code_longest_function"), Some(3.0));
}

#[test]
fn nesting_is_counted_within_a_function_and_an_else_if_is_as_deep_as_its_if() {
    let python = "for a in b:\n    def forward(x):\n        with x:\n            for i in x:\n                if i:\n                    \
                  pass\n                elif a:\n                    while i:\n                        pass\n        return x\n";
    let c = "int forward(int x) {\n  if (x) { } else if (x > 1) { } else if (x > 2) { for (;;) { } } else { do { switch (x) { } } while (x); }\n}\n";
    let rust = "pub fn forward(x: i32) -> i32 {\n    let f = |y| match y { 0 => 1, _ => 2 };\n    if x > 0 { 1 } else if x < 0 { loop { for _ in 0..2 {} } } else { f(x) }\n}\n";
    let flat = "def forward(x):\n    return x if x else [y for y in x if y]\n";
    for (path, text, depth) in
        [("a.py", python, 5.0), ("a.c", c, 4.0), ("a.rs", rust, 4.0), ("a.py", flat, 1.0)]
    {
        assert_eq!(measured(&look(path, text), "code_nesting"), Some(depth), "{text}");
    }
    let facts = look("a.c", c);
    let found = facts.findings().into_iter().find(|finding| finding.check == "deepest_nesting").unwrap();
    assert_eq!(
        (found.outcome, found.message.as_str()),
        (Outcome::Pass, "the deepest nesting is of 3 loops and branches (a.c:2)")
    );
}

#[test]
fn the_longest_file_is_by_its_code_and_tests_do_not_count() {
    let files = [
        file("a.py", "from b import helper\n# one\n# two\n# three\ndef forward(x):\n    return helper(x)\n"),
        file("b.py", "def helper(x):\n    y = x\n    z = y\n    return z\n"),
        file("test_a.py", &"assert True\n".repeat(50)),
    ];
    let facts = inspect(&files, Language::Python, &["forward"]);
    assert_eq!(measured(&facts, "code_longest_file"), Some(4.0));
    let found = facts.findings().into_iter().find(|finding| finding.check == "longest_file").unwrap();
    assert_eq!(found.message, "the longest file, b.py, has 4 lines of code");
}

#[test]
fn findings_are_minor_and_their_ids_differ() {
    let facts = look("a.py", "import os\nimport sys\ndef one():\n    return 1\n    return 2\n");
    let findings = facts.findings();
    let ids: std::collections::HashSet<_> = findings.iter().map(|finding| finding.id.clone()).collect();
    assert_eq!(ids.len(), findings.len());
    for finding in &findings {
        assert!(finding.severity <= Severity::Minor);
        assert_eq!((finding.dimension, finding.family), (Dimension::Code, Family::Basic));
        assert_eq!(finding.id, format!("{}:{}", finding.case, finding.check));
    }
    assert!(ids.contains("code/a.py/1:no_dead_code"), "{ids:?}");
}

#[test]
fn tests_count_only_for_what_they_name() {
    let kernel = file("kernel.py", "def forward(x):\n    return x\n\ndef other(x):\n    return -x\n");
    let test =
        file("tests/test_kernel.py", "from kernel import other\n\ndef test_it():\n    assert other(1)\n");
    let alone = inspect(std::slice::from_ref(&kernel), Language::Python, &["forward"]);
    assert_eq!(failed(&alone), ["function `other` (kernel.py:4) is never used"]);
    assert_eq!(measured(&alone, "code_dead"), Some(2.0));
    let both = inspect(&[kernel, test], Language::Python, &["forward"]);
    assert_eq!(measured(&both, "code_lines"), Some(4.0));
    assert_clean(&both);
}

#[test]
fn a_test_that_the_kernel_imports_is_code() {
    let kernel = file("kernel.py", "from tests.hidden import forward\n");
    let hidden = file("tests/hidden.py", "def forward(x):\n    return x\n\ndef other(x):\n    return -x\n");
    let facts = inspect(&[kernel, hidden], Language::Python, &["forward"]);
    assert_eq!(measured(&facts, "code_lines"), Some(5.0));
    assert_eq!(failed(&facts), ["function `other` (tests/hidden.py:4) is never used"]);
}

#[test]
fn where_names_are_made_at_run_time_no_function_is_called_dead() {
    for lookup in ["globals()[name]", "getattr(module, name)", "eval(name)", "getattr(module, 'a' + name)"] {
        let text = format!("def forward(name, module):\n    return {lookup}\n\ndef other():\n    return 1\n");
        let facts = look("a.py", &text);
        assert_eq!(failed(&facts), [""; 0], "{lookup}");
        assert_eq!(outcome(&facts, "no_dead_code"), [Outcome::Inconclusive], "{lookup}");
        assert_eq!(measured(&facts, "code_dead"), None, "{lookup}");
    }
    let told = "def forward(module):\n    return getattr(module, 'exp')\n\ndef other():\n    return 1\n";
    assert_eq!(failed(&look("a.py", told)), ["function `other` (a.py:4) is never used"]);
    let pasted = "#define CALL(T) sum_##T()\nstatic int sum_int(void) { return 1; }\nint forward(void) { return CALL(int); }\n";
    assert_eq!(outcome(&look("a.c", pasted), "no_dead_code"), [Outcome::Inconclusive]);
}

#[test]
fn without_an_entry_point_in_sight_no_function_is_called_dead() {
    let facts = look("a.py", "def other():\n    return 1\n");
    assert_eq!(failed(&facts), [""; 0]);
    assert_eq!(outcome(&facts, "no_dead_code"), [Outcome::Inconclusive]);
}
