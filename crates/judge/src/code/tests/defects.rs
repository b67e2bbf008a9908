//! Each defect is found, and where.

use super::*;

/// Ten lines, about seventy tokens.
const LOOP: &str = "    total = 0.0\n    for i in range(len(x)):\n        if x[i] > limit and not mask[i]:\n            \
                    total += math.exp(x[i] - limit) * scale\n        elif x[i] < -limit:\n            total -= x[i] ** 2\n\
                    \x20       else:\n            total = max(total, 0.5 * x[i] / scale)\n    out.append(total)\n    return out\n";

#[test]
fn a_copied_function_is_found() {
    let text = format!(
        "import math\n\ndef forward(x, limit, mask, scale, out):\n{LOOP}\n\ndef backward(x, mask, out, scale, limit):\n    print(x)\n{LOOP}"
    );
    let facts = look("a.py", &text);
    assert_eq!(failed(&facts), ["lines 18–27 of a.py repeat lines 4–13"]);
    // 24 code lines, 10 of them repeats.
    assert_eq!(measured(&facts, "code_lines"), Some(24.0));
    assert_eq!(measured(&facts, "code_duplication"), Some(24.0 / 14.0));
}

#[test]
fn a_copy_in_another_file_is_found_though_its_names_and_numbers_changed() {
    let head =
        "    assert len(mask) > scale * limit or scale / limit < 2\n    print(scale - limit, mask, out[0])\n";
    let one = format!("import math\ndef forward(x, limit, mask, scale, out):\n{head}{LOOP}");
    let other = one.replace("forward", "backward").replace("total", "acc").replace("x[", "row[");
    let other = other
        .replace("limit", "bound")
        .replace("0.5", "0.25")
        .replace("len(x)", "len(row)")
        .replace("(x,", "(row,");
    let facts =
        inspect(&[file("a.py", &one), file("b.py", &other)], Language::Python, &["forward", "backward"]);
    assert_eq!(failed(&facts), ["lines 2–14 of b.py repeat lines 2–14 of a.py"]);
}

#[test]
fn unused_functions_are_found_through_their_callers() {
    let python = "def forward(x):\n    return used(x)\n\ndef used(x):\n    return x\n\ndef first(x):\n    return second(x)\n\n\
                  def second(x):\n    return first(x)\n\nclass Old:\n    def step(self):\n        return 1\n";
    let facts = look("a.py", python);
    assert_eq!(
        failed(&facts),
        [
            "class `Old` (a.py:13) is never used",
            "function `first` (a.py:7) is never used",
            "function `second` (a.py:10) is never used"
        ]
    );
    assert_eq!(measured(&facts, "code_dead"), Some(11.0 / 4.0));

    let c = "static float old(float x);\nstatic float old(float x) {\n    return x;\n}\nint tribunal_forward(void *a) {\n    return a != 0;\n}\nint extra(void) { return 1; }\n";
    assert_eq!(
        failed(&look("a.c", c)),
        ["function `old` (a.c:2) is never used", "function `extra` (a.c:8) is never used"]
    );

    let rust = "use std::ptr;\nstruct S;\nimpl S {\n    fn old(&self) -> i32 { 1 }\n}\n#[unsafe(no_mangle)]\npub extern \"C\" fn tribunal_forward() -> i32 { let _ = (S, ptr::null::<u8>()); 0 }\n#[inline(always)]\nfn lost() {}\n";
    assert_eq!(
        failed(&look("a.rs", rust)),
        ["function `old` (a.rs:4) is never used", "function `lost` (a.rs:9) is never used"]
    );
}

#[test]
fn statements_after_a_jump_are_found() {
    for (path, text, message) in [
        ("a.py", "def forward(x):\n    return x\n    print(x)\n    x += 1\n", "lines 3–4 of a.py"),
        (
            "a.py",
            "def forward(x):\n    for i in x:\n        continue\n        print(i)\n    raise ValueError\n",
            "line 4 of a.py",
        ),
        (
            "a.c",
            "int forward(int x) {\n    while (x) {\n        break;\n        x--;\n    }\n    return x;\n}\n",
            "line 4 of a.c",
        ),
        (
            "a.c",
            "int forward(int x) {\n    switch (x) {\n    case 1:\n        return 1;\n        x = 2;\n    default:\n        return 2;\n    }\n}\n",
            "line 5 of a.c",
        ),
        (
            "a.rs",
            "pub fn forward(x: i32) -> i32 {\n    return x;\n    let y = x;\n    y\n}\n",
            "lines 3–4 of a.rs",
        ),
        ("a.cu", "int forward(int x) {\n    throw 1;\n    return x;\n}\n", "line 3 of a.cu"),
    ] {
        assert_eq!(
            failed(&look(path, text)),
            [format!("{message} follow a jump and are never reached")],
            "{text}"
        );
    }
}

#[test]
fn unused_imports_are_found_and_their_lines_count_when_all_is_unused() {
    let facts = look(
        "a.py",
        "import os\nimport math, sys\nfrom typing import List as L\n\ndef forward(x):\n    return math.exp(x)\n",
    );
    assert_eq!(
        failed(&facts),
        [
            "import of `os` (a.py:1) is never used",
            "import of `sys` (a.py:2) is never used",
            "import of `L` (a.py:3) is never used"
        ]
    );
    assert_eq!(measured(&facts, "code_dead"), Some(5.0 / 3.0));
}

#[test]
fn ten_are_told_and_the_rest_counted() {
    let mut text = "def forward():\n    return 1\n".to_owned();
    for i in 0..25 {
        text += &format!("def f{i}():\n    return {i}\n");
    }
    let failed = failed(&look("a.py", &text));
    assert_eq!(failed.len(), 10);
    assert_eq!(failed[9], "function `f9` (a.py:21) is never used; and 15 more places");
}
