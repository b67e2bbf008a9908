//! Texts written against the reader.

use proptest::prelude::*;

use super::*;

#[test]
fn nesting_is_no_recursion() {
    let deep = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    // A small stack, so that recursion anywhere would show.
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        for (path, text) in [
            ("a.py", format!("x = {}\n", deep("(", ")", 100_000))),
            ("a.c", format!("int forward(void) {{ return {}; }}", deep("(", ")", 100_000))),
            ("a.c", format!("void forward(void) {}", deep("{return;", "}", 20_000))),
            ("a.rs", format!("fn forward() {}", deep("{return;", "}", 20_000))),
            ("a.cu", "namespace a {".repeat(20_000)),
            ("a.cu", "a<".repeat(20_000)),
            ("a.c", format!("int {}forward(void) {{}}", "*".repeat(100_000))),
            ("a.py", "f\"{".repeat(20_000)),
        ] {
            let facts = look(path, &text);
            assert!(measured(&facts, "code_lines").is_some(), "{path}");
        }
    });
    thread.unwrap().join().unwrap();
}

#[test]
fn a_huge_file_is_counted_and_said_not_to_be_read() {
    let big = file("big.py", &"x = 1\n".repeat(1_000_000));
    let small = file("a.py", "def forward():\n    return 1\ndef other():\n    return 2\n");
    let facts = inspect(&[big, small], Language::Python, &["forward"]);
    assert_eq!(measured(&facts, "code_lines"), Some(1_000_004.0));
    assert_eq!(measured(&facts, "code_longest_function"), Some(2.0));
    assert_eq!(failed(&facts), [""; 0]);
    assert_eq!(outcome(&facts, "no_dead_code"), [Outcome::Inconclusive]);
    assert_eq!(outcome(&facts, "source_read"), [Outcome::Inconclusive]);
}

#[test]
fn many_lines_or_one_long_one_are_read() {
    let facts = look("a.py", &format!("def forward():\n{}", "    x = y\n".repeat(20_000)));
    assert_eq!(measured(&facts, "code_lines"), Some(20_001.0));
    assert_eq!(failed(&facts), [""; 0]);
    let facts = look("a.py", &format!("forward = [{}]\n", "12, ".repeat(20_000)));
    assert_eq!(measured(&facts, "code_lines"), Some(1.0));
    assert_eq!(failed(&facts), [""; 0]);
}

#[test]
fn noise_ends_soon() {
    let noise: String =
        (0..500_000_u64).map(|i| char::from(33 + ((i * i * 7919 + i * 31) % 90) as u8)).collect();
    let facts = look("a.cu", &noise);
    assert_eq!(outcome(&facts, "source_read"), [Outcome::Inconclusive]);
}

#[test]
fn empty_and_foreign_files_say_nothing() {
    assert!(look("a.py", "").measurements().is_empty());
    assert!(look("a.py", "\n\n# nothing\n").findings().is_empty());
    assert!(inspect(&[], Language::C, &[]).findings().is_empty());
    assert!(look("README.md", "def forward(): pass").measurements().is_empty());
}

#[test]
fn broken_source_is_counted_and_said_to_be_broken() {
    let facts = look("a.py", "def forward(x):\n    return (x\n\ndef other(:\n    \u{fffd}\u{0} = 1\n");
    assert_eq!(outcome(&facts, "source_parsed"), [Outcome::Inconclusive]);
    assert_eq!(measured(&facts, "code_lines"), Some(4.0));
}

#[test]
fn long_names_are_cut() {
    let facts = look("a.py", &format!("forward = 1\ndef {}():\n    pass\n", "a".repeat(100_000)));
    assert!(failed(&facts)[0].len() < 200);
}

proptest! {
    #[test]
    fn any_text_has_sane_facts(text in "[a-c(){}\\[\\]:;\"'#/*\\\\ \n<>=.,é]{0,300}", path in "a\\.(py|c|cu|rs)") {
        let facts = look(&path, &text);
        for measurement in facts.measurements() {
            let least = f64::from(u8::from(measurement.unit == "1"));
            prop_assert!(measurement.value >= least, "{}", measurement.name);
        }
        let filled = text.lines().filter(|line| !line.trim().is_empty()).count();
        prop_assert!(measured(&facts, "code_lines").unwrap_or(0.0) <= filled as f64);
    }
}

/// Looking up parents one by one would take as many steps as the square of the depth.
#[test]
fn a_hundred_thousand_levels_are_counted() {
    let text = format!("int forward(int x) {{ {} return 1; }}\n", "if (x) ".repeat(100_000));
    let started = std::time::Instant::now();
    let facts = look("a.c", &text);
    assert!(started.elapsed().as_secs() < 60);
    // Where the parser gives up, there is no depth.
    assert!(measured(&facts, "code_nesting").is_none_or(|depth| depth > 1_000.0));
}
