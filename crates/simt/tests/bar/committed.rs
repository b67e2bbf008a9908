//! The PTX beside each CUDA source is what clang makes of it: tests then need no compiler.
//!
//! `TRIBUNAL_UPDATE_PTX=1 cargo test -p tribunal-simt --test bar committed` makes it anew.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::device::repository;

/// The compiler that the committed PTX is of. Its version is the first line of each file.
const CLANG: &str = "clang-19";

/// Sources, and whether they are compiled with the headers of submissions; what the emulator's own tests run has its own.
const SOURCES: [(&str, bool); 12] = [
    ("crates/kernels/cuda/layer_norm", true),
    ("crates/kernels/cuda/softmax_topk", true),
    ("crates/kernels/cuda/paged_decode", true),
    ("crates/simt/tests/cuda/hand_counts", true),
    ("crates/simt/tests/fixtures/language", false),
    ("crates/simt/tests/fixtures/layer_norm", false),
    ("crates/simt/tests/fixtures/paged_decode", false),
    ("crates/simt/tests/fixtures/reduce", false),
    ("crates/simt/tests/fixtures/softmax_topk", false),
    ("crates/simt/tests/fixtures/tensor", false),
    ("crates/simt/tests/fixtures/thread_lists", false),
    ("crates/simt/tests/fixtures/vadd", false),
];

/// As submissions are compiled, but as freely as the compiler likes: these kernels are clean even so.
const FLAGS: [&str; 15] = [
    "-x",
    "cuda",
    "--cuda-device-only",
    "--cuda-gpu-arch=sm_80",
    "--cuda-feature=+ptx80",
    "-nocudainc",
    "-nocudalib",
    "-nostdinc",
    "-nostdinc++",
    "-std=c++17",
    "-O3",
    "-ffp-contract=fast",
    "-gline-tables-only",
    "-fdebug-compilation-dir=.",
    "-S",
];

/// The first line of what `--version` prints, if the compiler is there.
fn version() -> Option<String> {
    let output = Command::new(CLANG).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
}

fn compile(source: &Path, with_headers: bool) -> String {
    let headers = repository().join("crates/runner/src/build/cuda/include");
    let name = source.file_name().expect("sources are files");
    let output = Command::new(CLANG)
        .current_dir(source.parent().expect("sources are in folders"))
        .args(FLAGS)
        .args(if with_headers { &["-include", "tribunal/prelude.h"][..] } else { &[] })
        .args(["-Wall", "-Wextra", "-Werror", "-o", "-"])
        .arg("-I")
        .arg(headers.canonicalize().expect("the headers are there"))
        .arg(name)
        .output()
        .expect("it was there a moment ago");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {messages}", source.display());
    String::from_utf8(output.stdout).expect("PTX is text")
}

/// Without what only debuggers and readers of compilers' output want: comments, marks between instructions, and sections, which come
/// last, but for the names of files among them.
fn bare(ptx: &str) -> String {
    let mut bare = String::new();
    let mut sections = false;
    for line in ptx.lines() {
        let line = line.split("//").next().unwrap_or("").trim_end();
        sections |= line.trim_start().starts_with(".section");
        let wanted =
            if sections { line.trim_start().starts_with(".file") } else { !line.starts_with("$L__tmp") };
        if wanted && !line.is_empty() {
            bare.extend([line, "\n"]);
        }
    }
    bare
}

/// Written past the test runner's capture, so that a skip is seen.
fn tell(what: &str) {
    std::io::stderr().write_all(format!("committed PTX: {what}\n").as_bytes()).expect("a writable stderr");
}

#[test]
fn committed_ptx_is_of_its_source() {
    let Some(version) = version() else {
        tell(&format!("skipped: {} kernels, as there is no {CLANG} to compile them with", SOURCES.len()));
        return;
    };
    let update = std::env::var_os("TRIBUNAL_UPDATE_PTX").is_some();
    for (source, with_headers) in SOURCES {
        let source = repository().join(source);
        let (source, committed) = (source.with_extension("cu"), source.with_extension("ptx"));
        let fresh = format!("// {version}\n{}", bare(&compile(&source, with_headers)));
        if update {
            std::fs::write(&committed, fresh).expect("the folder can be written");
            continue;
        }
        let kept = std::fs::read_to_string(&committed).expect("PTX lies beside its source");
        if kept.lines().next() == fresh.lines().next() {
            assert!(kept == fresh, "{} is not what {version} makes of its source", committed.display());
        } else {
            tell(&format!("skipped: {} is of another compiler than {version}", committed.display()));
        }
    }
}

#[test]
fn bare_text_keeps_instructions_and_lines() {
    let text = "//\n// made\n.version 8.0\n\n\t.loc\t1 2 3 // a.cu:2\n$L__tmp1:\n\tret;\n\t.section .debug_loc { }\n\t.file 1 \"a.cu\"\n\t.section .debug_abbrev\n{\n.b8 1\n}\n";
    assert_eq!(bare(text), ".version 8.0\n\t.loc\t1 2 3\n\tret;\n\t.file 1 \"a.cu\"\n");
}

#[test]
fn what_is_judged_is_the_bar() {
    for (kernels, challenge) in [
        ("softmax_topk.cu", "fused_softmax_topk"),
        ("layer_norm.cu", "layer_norm_backward"),
        ("paged_decode.cu", "kv_cache"),
    ] {
        let read = |path: &str| std::fs::read_to_string(repository().join(path)).expect("it is there");
        let (bar, judged) = (
            read(&format!("crates/kernels/cuda/{kernels}")),
            read(&format!("specimens/{challenge}/cuda-reference/{kernels}")),
        );
        assert!(
            bar == judged,
            "specimens/{challenge}/cuda-reference/{kernels} is a copy, and no longer the same"
        );
    }
}
