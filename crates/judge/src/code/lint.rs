//! What the language's own linter says, as findings.
//!
//! A linter reads what nobody trusts, and beside clippy a submission's build script runs: so its words are held to the
//! submission. What names no line of the contestant's own files is passed over, and what is left is a note.

use std::path::Path;

use serde::Deserialize;
use tribunal_runner::cage::clean;
use tribunal_runner::{Form, Lint};

use super::SourceFile;
use super::report::{clip, clip_to, failures, whole};
use crate::{Finding, Outcome, Severity};

/// Characters of a warning that are shown.
const MESSAGE_MAX: usize = 200;
/// Characters of the linter's name, version and flags that are shown.
const LINTER_MAX: usize = 500;

/// One thing that a linter said.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Warning {
    path: String,
    /// Counted from 1.
    line: usize,
    /// What the linter calls it: `F821`, `-Wparentheses`, `clippy::eq_op`.
    code: Option<String>,
    message: String,
}

/// Which linter read the source, and each line of `files` that it warns of.
pub(crate) fn findings(lint: &Lint, files: &[SourceFile]) -> Vec<Finding> {
    let said = lint.text.lines().filter_map(|line| read(lint.form, line));
    let mut warnings: Vec<(&str, usize, String)> = said
        .filter_map(|warning| {
            let file = place(&warning, lint, files)?;
            Some((file.path.as_str(), warning.line, words(&file.path, &warning)))
        })
        .collect();
    // The first on a line stands for it, the same on every run.
    warnings.sort();
    warnings.dedup();
    let count = match warnings.len() {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        count => format!("{count} warnings"),
    };
    let linter = clip_to(&line(&lint.linter), LINTER_MAX);
    let mut findings = vec![whole("linted", Outcome::Pass, &format!("{linter}: {count}"))];
    let places = warnings.iter().map(|(path, line, words)| (*path, *line, 1, words.as_str())).collect();
    findings.extend(failures("no_warnings", Severity::Note, places));
    findings
}

fn read(form: Form, line: &str) -> Option<Warning> {
    match form {
        Form::Ruff => of_ruff(line),
        Form::Gcc => of_gcc(line),
        Form::Cargo => of_cargo(line),
    }
}

fn of_ruff(line: &str) -> Option<Warning> {
    #[derive(Deserialize)]
    struct Said {
        code: Option<String>,
        filename: String,
        location: Location,
        message: String,
    }
    #[derive(Deserialize)]
    struct Location {
        row: usize,
    }
    let Said { code, filename, location, message } = serde_json::from_str(line).ok()?;
    Some(Warning { path: filename, line: location.row, code, message })
}

/// `kernel.c:4:23: warning: comparison of … [-Wsign-compare]`, as gcc and clang write it.
fn of_gcc(line: &str) -> Option<Warning> {
    let (place, message) = line.split_once(": warning: ")?;
    let mut parts = place.rsplitn(3, ':');
    let (_column, row, path) = (parts.next()?.parse::<usize>().ok()?, parts.next()?, parts.next()?);
    let named = message.strip_suffix(']').and_then(|message| message.rsplit_once(" ["));
    let (message, code) = match named {
        Some((message, code)) if code.starts_with("-W") => (message, Some(code.to_owned())),
        _ => (message, None),
    };
    Some(Warning { path: path.to_owned(), line: row.parse().ok()?, code, message: message.to_owned() })
}

fn of_cargo(line: &str) -> Option<Warning> {
    #[derive(Deserialize)]
    struct Said {
        message: Diagnostic,
    }
    #[derive(Deserialize)]
    struct Diagnostic {
        message: String,
        code: Option<Code>,
        level: String,
        spans: Vec<Span>,
    }
    #[derive(Deserialize)]
    struct Code {
        code: String,
    }
    #[derive(Deserialize)]
    struct Span {
        file_name: String,
        line_start: usize,
        is_primary: bool,
    }
    let Diagnostic { message, code, level, spans } = serde_json::from_str::<Said>(line).ok()?.message;
    let span = spans.into_iter().find(|span| span.is_primary).filter(|_| level == "warning")?;
    Some(Warning { path: span.file_name, line: span.line_start, code: code.map(|code| code.code), message })
}

/// The contestant's own file that a warning names, if it has that line.
fn place<'a>(warning: &Warning, lint: &Lint, files: &'a [SourceFile]) -> Option<&'a SourceFile> {
    // An absolute path takes the root's place; one that leads upwards is no file's name.
    let path = lint.root.join(&warning.path);
    let path = path.strip_prefix(&lint.folder).ok()?;
    let file = files.iter().find(|file| Path::new(&file.path) == path)?;
    (1..=file.text.lines().count()).contains(&warning.line).then_some(file)
}

fn words(path: &str, warning: &Warning) -> String {
    let message = clip_to(&line(&warning.message), MESSAGE_MAX);
    let code = warning.code.as_ref().map_or_else(String::new, |code| format!(" ({})", clip(&line(code))));
    format!("{}:{}: {message}{code}", clip(path), warning.line)
}

/// JSON brings back what the cage took out of the bytes.
fn line(text: &str) -> String {
    clean(text.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;
    use crate::Dimension;

    /// Of ruff 0.17.6, in full.
    const RUFF: &str = r#"{"cell":null,"code":"F401","end_location":{"column":10,"row":2},"filename":"/submission/a.py","fix":{"applicability":"safe","edits":[{"content":"","end_location":{"column":1,"row":3},"location":{"column":1,"row":2}}],"message":"Remove unused import: `os`"},"location":{"column":8,"row":2},"message":"`os` imported but unused","name":"unused-import","noqa_row":2,"severity":"error","url":"https://docs.astral.sh/ruff/rules/unused-import"}
{"cell":null,"code":"F821","end_location":{"column":26,"row":5},"filename":"/submission/part/b.py","fix":null,"location":{"column":12,"row":5},"message":"Undefined name `undefined_name`","name":"undefined-name","noqa_row":5,"severity":"error","url":"https://docs.astral.sh/ruff/rules/undefined-name"}
"#;

    /// Of gcc 12.2.0, in full; and of clang, how it differs.
    const GCC: &str = "\
/submission/k.c: In function ‘tribunal_forward’:
/submission/k.c:4:23: warning: comparison of integer expressions of different signedness: ‘int’ and ‘uint64_t’ {aka ‘long unsigned int’} [-Wsign-compare]
    4 |     for (int i = 0; i < args[0]; i++) { if (i = b) return 1; }
      |                       ^
/submission/k.c:4:45: warning: suggest parentheses around assignment used as truth value [-Wparentheses]
    4 |     for (int i = 0; i < args[0]; i++) { if (i = b) return 1; }
      |                                             ^
./k.c:3:9: warning: unused variable ‘unused’ [-Wunused-variable]
    3 |     int unused = 3;
      |         ^~~~~~
/submission/k.c:4:45: note: place parentheses around the assignment to silence this warning
/usr/include/x.h:1:1: warning: of a system header [-Wall]
3 warnings generated.
";

    /// Of clippy 0.1.95, without what is not read.
    const CARGO: &str = r#"{"reason":"compiler-message","package_id":"path+file:///x#alice@0.1.0","manifest_path":"/x/Cargo.toml","target":{"kind":["cdylib"],"src_path":"/x/src/lib.rs"},"message":{"rendered":"warning: equal expressions as operands to `==`\n","$message_type":"diagnostic","children":[],"level":"warning","message":"equal expressions as operands to `==`","spans":[{"byte_end":150,"byte_start":144,"column_end":14,"column_start":8,"expansion":null,"file_name":"src/lib.rs","is_primary":true,"label":null,"line_end":5,"line_start":5,"suggested_replacement":null,"suggestion_applicability":null,"text":[]}],"code":{"code":"clippy::eq_op","explanation":null}}}
{"reason":"compiler-message","package_id":"path+file:///x#alice@0.1.0","message":{"rendered":"warning: 6 warnings emitted\n","children":[],"code":null,"level":"warning","message":"6 warnings emitted","spans":[]}}
{"reason":"compiler-artifact","package_id":"path+file:///x#alice@0.1.0","filenames":["/x/target/release/deps/libalice.rmeta"],"executable":null,"fresh":false}
{"reason":"build-finished","success":true}
"#;

    fn lint(form: Form, text: &str) -> Lint {
        let folder = PathBuf::from("/submission");
        Lint {
            linter: "linter 1.0 --flag".to_owned(),
            form,
            text: text.to_owned(),
            root: folder.clone(),
            folder,
        }
    }

    fn files(paths: &[&str]) -> Vec<SourceFile> {
        let file = |path: &&str| SourceFile { path: (*path).to_owned(), text: "line\n".repeat(9) };
        paths.iter().map(file).collect()
    }

    /// The cases and messages of what a linter warned of; all of it notes.
    fn told(lint: &Lint, paths: &[&str]) -> Vec<(String, String)> {
        let findings = findings(lint, &files(paths));
        assert_eq!((findings[0].id.as_str(), findings[0].outcome), ("code:linted", Outcome::Pass));
        for finding in &findings {
            assert_eq!((finding.dimension, finding.severity), (Dimension::Code, Severity::Note));
            assert!(finding.message.chars().count() < 700 && !finding.message.contains(char::is_control));
        }
        findings[1..]
            .iter()
            .inspect(|finding| {
                assert_eq!((finding.check.as_str(), finding.outcome), ("no_warnings", Outcome::Fail))
            })
            .map(|finding| (finding.case.clone(), finding.message.clone()))
            .collect()
    }

    #[track_caller]
    fn check(lint: &Lint, paths: &[&str], due: &[(&str, &str)]) {
        let due: Vec<_> = due.iter().map(|&(case, message)| (case.to_owned(), message.to_owned())).collect();
        assert_eq!(told(lint, paths), due);
    }

    #[test]
    fn each_linters_words_are_read() {
        check(
            &lint(Form::Ruff, RUFF),
            &["a.py", "part/b.py"],
            &[
                ("code/a.py/2", "a.py:2: `os` imported but unused (F401)"),
                ("code/part/b.py/5", "part/b.py:5: Undefined name `undefined_name` (F821)"),
            ],
        );
        check(
            &lint(Form::Gcc, GCC),
            &["k.c"],
            &[
                ("code/k.c/3", "k.c:3: unused variable ‘unused’ (-Wunused-variable)"),
                (
                    "code/k.c/4",
                    "k.c:4: comparison of integer expressions of different signedness: ‘int’ and ‘uint64_t’ {aka ‘long unsigned int’} \
                     (-Wsign-compare)",
                ),
            ],
        );
        check(
            &lint(Form::Cargo, CARGO),
            &["src/lib.rs"],
            &[("code/src/lib.rs/5", "src/lib.rs:5: equal expressions as operands to `==` (clippy::eq_op)")],
        );
        let deeper = Lint { root: "/submission/sub".into(), ..lint(Form::Cargo, CARGO) };
        assert_eq!(told(&deeper, &["sub/src/lib.rs"])[0].0, "code/sub/src/lib.rs/5");
        let member =
            Lint { root: "/".into(), ..lint(Form::Cargo, &CARGO.replace("src/lib", "submission/src/lib")) };
        assert_eq!(told(&member, &["src/lib.rs"])[0].0, "code/src/lib.rs/5");
    }

    #[test]
    fn who_read_it_is_recorded_with_what_came_of_it() {
        let message = |form, text, path| findings(&lint(form, text), &files(&[path]))[0].message.clone();
        assert_eq!(message(Form::Gcc, "", "k.c"), "linter 1.0 --flag: no warnings");
        assert_eq!(message(Form::Cargo, CARGO, "src/lib.rs"), "linter 1.0 --flag: 1 warning");
        assert_eq!(message(Form::Gcc, GCC, "k.c"), "linter 1.0 --flag: 3 warnings");
    }

    #[test]
    fn what_names_no_line_of_the_contestants_is_passed_over() {
        for place in [
            "../k.c:1:1",
            "part/../k.c:1:1",
            "/submission/../k.c:1:1",
            "/submissions/k.c:1:1",
            "/etc/passwd:1:1",
            "k.c:0:1",
            "k.c:10:1",
            "k.c:99999999999999999999999:1",
            "k.c:-1:1",
            "k.c:1",
            "k.c",
            "",
            "tribunal.h:1:1",
        ] {
            check(&lint(Form::Gcc, &format!("{place}: warning: words [-Wall]\n")), &["k.c"], &[]);
        }
    }

    #[test]
    fn many_warnings_are_counted_and_some_shown() {
        let path = "k.c";
        let text: String = (1..=5000).map(|row| format!("{path}:{row}:1: warning: w [-Wx]\n")).collect();
        let files = [SourceFile { path: path.to_owned(), text: "\n".repeat(5000) }];
        let findings = findings(&lint(Form::Gcc, &text), &files);
        assert_eq!(findings[0].message, "linter 1.0 --flag: 5000 warnings");
        assert_eq!(findings.len(), 11);
        assert_eq!(findings[10].message, "k.c:10: w (-Wx); and 4990 more places");
    }

    #[test]
    fn words_are_one_short_line_without_control_characters() {
        let words = "\\u001b[2J\\u202e\\n\\u0000".to_owned() + &"x".repeat(100_000);
        let text =
            format!(r#"{{"code":"{words}","filename":"a.py","location":{{"row":1}},"message":"{words}"}}"#);
        let told = told(&lint(Form::Ruff, &text), &["a.py"]);
        assert!(told[0].1.starts_with("a.py:1: [2J xxx"), "{}", told[0].1);
        let deep = "[".repeat(1 << 20);
        check(&lint(Form::Ruff, &deep), &["a.py"], &[]);
        check(&lint(Form::Cargo, &format!("{{\"message\":{deep}")), &["a.py"], &[]);
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_a_note_on_a_line_that_is_there(
            (form, bytes) in prop_oneof![
                tribunal_hostile::bytes(RUFF.as_bytes()).prop_map(|bytes| (Form::Ruff, bytes)),
                tribunal_hostile::bytes(GCC.as_bytes()).prop_map(|bytes| (Form::Gcc, bytes)),
                tribunal_hostile::bytes(CARGO.as_bytes()).prop_map(|bytes| (Form::Cargo, bytes)),
            ]
        ) {
            let paths = ["a.py", "part/b.py", "k.c", "src/lib.rs"];
            for (case, _) in told(&lint(form, &clean(&bytes)), &paths) {
                let (path, line) = case.strip_prefix("code/").and_then(|place| place.rsplit_once('/')).unwrap();
                prop_assert!(paths.contains(&path) && (1..=9).contains(&line.parse::<usize>().unwrap()));
            }
        }
    }
}
