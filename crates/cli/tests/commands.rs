//! What scripts rely on: commands, exit codes, what is printed where.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::{Tribunal, cuda_submission, house};
use tribunal_contract::{Challenge, Language, challenges, emit};
use tribunal_runner::submission::find as find_submissions;

fn specimen(name: &str) -> String {
    house().join("specimens/layer_norm_backward").join(name).display().to_string()
}

fn exploit(name: &str) -> String {
    house().join("exploits").join(name).display().to_string()
}

fn verdicts(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("a verdict a line")).collect()
}

/// Quick, and without what is tried elsewhere.
const QUICK: [&str; 5] = ["judge", "--effort", "quick", "--no-controls", "--no-measurements"];

fn judge(tribunal: &Tribunal, more: &[&str]) -> support::Output {
    tribunal.run(QUICK.iter().chain(more))
}

#[test]
fn exit_codes_tell_the_verdict() {
    let tribunal = Tribunal::new();
    let code = |paths: &[String]| {
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        judge(&tribunal, &paths).code
    };
    assert_eq!(code(&[specimen("plain-numpy")]), 0);
    assert_eq!(code(&[specimen("gamma-outside-means")]), 1);
    assert_eq!(code(&[exploit("forged-done")]), 4);
    assert_eq!(code(&[specimen("plain-numpy"), specimen("gamma-outside-means"), exploit("forged-done")]), 4);
    assert_eq!(code(&[house().join("docs").display().to_string()]), 2);
    assert_eq!(tribunal.run(["judge"]).code, 2);
    let output =
        tribunal.run(QUICK.iter().chain(&["--python", "/nowhere/python3", &specimen("plain-numpy")]));
    assert_eq!(output.code, 3, "{}{}", output.stdout, output.stderr);
}

#[test]
fn controls_pass_on_this_machine() {
    let tribunal = Tribunal::new();
    let output =
        tribunal.run(["judge", "--effort", "quick", "--no-measurements", "--json", &specimen("two-pass-c")]);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn stdout_is_data_and_nothing_else() {
    let tribunal = Tribunal::new();
    let output = judge(&tribunal, &["--json", &specimen("plain-numpy"), &specimen("gamma-omitted")]);
    assert_eq!(verdicts(&output.stdout).len(), 2);
    assert_eq!(output.stderr, "", "no progress where nobody watches");
}

#[test]
fn the_same_seed_gives_the_same_findings_and_another_seed_the_same_names() {
    let tribunal = Tribunal::new();
    let (good, bad) = (specimen("two-pass-c"), specimen("gamma-omitted"));
    let judge = |seed: &str| verdicts(&judge(&tribunal, &["--json", "--seed", seed, &good, &bad]).stdout);
    let (first, again, random) = (judge("7"), judge("7"), judge("random"));
    for ((first, again), random) in first.iter().zip(&again).zip(&random) {
        assert_eq!(first["findings"], again["findings"]);
        assert_eq!(first["score"], again["score"]);
        assert_eq!(first["id"], again["id"]);
        assert_eq!(first["outcome"], random["outcome"]);
        assert_eq!(failures(first), failures(random));
    }
}

/// Check and suspect of every failure.
fn failures(verdict: &Value) -> BTreeSet<(String, String)> {
    let findings = verdict["findings"].as_array().expect("a list");
    findings
        .iter()
        .filter(|finding| finding["outcome"] == "fail")
        .map(|finding| (finding["id"].to_string(), finding["suspect"].to_string()))
        .collect()
}

#[test]
fn every_replay_command_works_as_printed() {
    let tribunal = Tribunal::new();
    for name in ["gamma-outside-means", "dgamma-last-row-only-c", "one-pass-variance-rust"] {
        let verdict = verdicts(&judge(&tribunal, &["--json", &specimen(name)]).stdout).remove(0);
        let findings = verdict["findings"].as_array().expect("a list");
        let failed: Vec<&Value> =
            findings.iter().filter(|f| f["outcome"] == "fail" && f["dimension"] != "code").collect();
        assert!(!failed.is_empty());
        // One of each kind; the rest differ only in the case.
        let mut kinds = BTreeSet::new();
        for finding in
            failed.into_iter().filter(|f| kinds.insert((f["check"].to_string(), f["suspect"].to_string())))
        {
            let command = finding["replay"].as_str().expect("a command");
            let arguments: Vec<&str> = command.split(' ').skip(1).collect();
            let output = tribunal.run(&arguments);
            assert_eq!(output.code, 1, "{name}: {command}\n{}{}", output.stdout, output.stderr);
            assert!(output.stdout.contains(" fails"), "{name}: {command}\n{}", output.stdout);
            let folder =
                output.stdout.lines().find_map(|line| line.strip_prefix("written to ")).expect("a folder");
            let files: Vec<PathBuf> = fs::read_dir(tribunal.folder().join(folder))
                .expect("the folder")
                .flatten()
                .map(|entry| entry.path())
                .collect();
            let count = |extension: &str| {
                files.iter().filter(|path| path.extension().is_some_and(|e| e == extension)).count()
            };
            assert!(count("npy") >= 2 && count("md") == 1, "{files:?}");
        }
    }
}

#[test]
fn what_was_seen_of_a_kernel_can_be_replayed() {
    let tribunal = Tribunal::new();
    let folder = cuda_submission(tribunal.folder(), "layer_norm_backward", "layer_norm.ptx");
    let ptx = folder.join("layer_norm.ptx");
    let text = fs::read_to_string(&ptx).expect("it was just copied");
    fs::write(&ptx, text.replace("bar.sync", "// bar.sync")).expect("room");
    let folder = folder.to_str().expect("a path of ours").to_owned();
    let verdict = verdicts(&judge(&tribunal, &["--json", &folder]).stdout).remove(0);
    let findings = verdict["findings"].as_array().expect("a list");
    let races = findings.iter().filter(|finding| finding["suspect"] == "shared_race");
    let commands: Vec<&str> = races.map(|race| race["replay"].as_str().expect("a command")).collect();
    assert!(!commands.is_empty());
    let id = |command: &str| command.split('/').next_back().expect("a finding").to_owned();
    for command in commands.iter().take(2) {
        assert!(command.contains("/sanitizer/layer_norm"), "{command}");
        let output = tribunal.run(command.split(' ').skip(1));
        assert_eq!(output.code, 1, "{command}\n{}{}", output.stdout, output.stderr);
        let mut lines = output.stdout.lines();
        let came = lines.next().expect("what came of it");
        assert!(came.contains(&format!("{} fails in ", id(command))), "{came}");
        assert!(lines.next().expect("what was seen").contains("layer_norm.cu:"), "{}", output.stdout);
    }
}

#[test]
fn a_pass_can_be_replayed_too() {
    let tribunal = Tribunal::new();
    let verdict = verdicts(&judge(&tribunal, &["--json", &specimen("two-pass-c")]).stdout).remove(0);
    let finding = &verdict["findings"].as_array().expect("a list")[5];
    let command = finding["replay"].as_str().expect("a command");
    let output = tribunal.run(command.split(' ').skip(1));
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let gone = tribunal.run(["replay", "ffffffffffff/basic/x:dx"]);
    assert_eq!(gone.code, 2, "{}", gone.stderr);
    assert_eq!(tribunal.run(["replay", "nonsense"]).code, 2);
}

#[test]
fn a_new_contestant_can_be_judged_as_it_is_laid_out() {
    for language in ["python", "c", "rust"] {
        let tribunal = Tribunal::new();
        let output =
            tribunal.run(["new", "alice", "--challenge", "layer_norm_backward", "--language", language]);
        assert_eq!((output.code, output.stdout.as_str()), (0, "alice\n"), "{}", output.stderr);
        for file in ["PROMPT.md", "CONTRACT.md", "tribunal.toml"] {
            assert!(tribunal.folder().join("alice").join(file).is_file(), "{file}");
        }
        let output = judge(&tribunal, &["--json", "alice"]);
        assert_eq!(output.code, 1, "a starter refuses everything: {}", output.stderr);
        let verdict = verdicts(&output.stdout).remove(0);
        assert!(
            failures(&verdict).iter().any(|(_, suspect)| suspect.contains("refuses_valid_input")),
            "{language}"
        );
        let again = tribunal.run(["new", "alice", "--challenge", "layer_norm_backward"]);
        assert_eq!(again.code, 2, "nothing is overwritten");
    }
}

#[test]
fn a_contestant_in_cuda_finds_what_headers_and_dtypes_there_are() {
    let tribunal = Tribunal::new();
    let output = tribunal.run(["new", "alice", "--challenge", "kv_cache", "--language", "cuda"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("PROMPT.md, CONTRACT.md and CUDA.md"), "{}", output.stderr);
    let page = std::fs::read_to_string(tribunal.folder().join("alice/CUDA.md")).unwrap();
    assert!(page.contains("| `cuda_fp16.h`") && page.contains("`int8` to `int64`"));
}

/// What answers as ruff does where there is none: to its version, and with one finding if it is told to look at no settings.
const PRETENDED_RUFF: &str = r#"
#include <stdio.h>
#include <string.h>
int main(int count, char **arguments) {
    if (count == 2 && !strcmp(arguments[1], "--version")) return puts("ruff 0.0.0 (pretended)") < 0;
    int deaf = 0;
    for (int i = 1; i < count; i++) deaf += !strcmp(arguments[i], "--isolated") || !strcmp(arguments[i], "--ignore-noqa");
    if (deaf != 2) return 1;
    printf("{\"code\":\"F401\",\"filename\":\"%s/submission.py\",\"location\":{\"row\":LINE},\"message\":\"`wave` imported but unused\"}\n",
           arguments[count - 1]);
    return 0;
}
"#;

/// A folder with a program that goes by the name of ruff.
fn pretended_ruff(tribunal: &Tribunal, source: &str) -> PathBuf {
    let tools = tribunal.folder().join("tools");
    fs::create_dir(&tools).expect("a folder");
    fs::write(tools.join("ruff.c"), source).expect("a source");
    let compiled = Command::new("cc").arg("-o").arg(tools.join("ruff")).arg(tools.join("ruff.c")).status();
    assert!(compiled.expect("cc").success());
    tools
}

/// Where programs are looked for.
fn programs() -> Vec<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect()
}

/// One that prints without end is ended; what it had said is not taken, and the submission has its verdict.
#[test]
fn a_linter_that_floods_costs_nothing() {
    let tribunal = Tribunal::new();
    let endless = PRETENDED_RUFF.replace("LINE", "1").replacen("printf(", "for (;;) printf(", 1);
    let tools = pretended_ruff(&tribunal, &endless);
    let path = std::env::join_paths([tools].into_iter().chain(programs())).expect("paths");
    let output =
        tribunal.run_with(&[("PATH", &path)], QUICK.iter().chain(&["--json", &specimen("plain-numpy")]));
    let verdict = verdicts(&output.stdout).remove(0);
    assert_eq!(verdict["outcome"], "accepted", "{}", output.stderr);
    let spent: Vec<f64> =
        verdict["spent_s"].as_object().unwrap().values().filter_map(Value::as_f64).collect();
    assert!(
        spent.len() > 1 && (spent.iter().sum::<f64>() - verdict["took_s"].as_f64().unwrap()).abs() < 1e-6
    );
    let slowest = verdict["slowest"]["seconds"].as_f64().unwrap();
    assert!(slowest > 0.0 && slowest <= verdict["spent_s"]["cases"].as_f64().unwrap(), "{verdict}");
    let told = verdict["omissions"].as_array().expect("a list").iter().filter_map(Value::as_str);
    let not_linted: Vec<&str> = told.filter(|why| why.starts_with("its source was not linted: ")).collect();
    assert!(
        matches!(not_linted[..], [why] if why.ends_with("running ruff: killed: it printed too much")),
        "{not_linted:?}"
    );
    let findings = verdict["findings"].as_array().expect("findings");
    assert!(findings.iter().all(|finding| finding["check"] != "linted" && finding["check"] != "no_warnings"));
}

/// What the language's own linter warns of is told with its line and costs nothing, and no file of the submission switches it off.
#[test]
fn linters_are_asked_and_cannot_be_configured_away() {
    let silent_cargo =
        "[build]\nrustflags = [\"-Awarnings\"]\n[target.'cfg(all())']\nrustflags = [\"-Awarnings\"]\n";
    for (language, file, text, code, settings) in [
        (
            "python",
            "submission.py",
            "\n# ruff: noqa\nimport wave  # noqa\n",
            "F401",
            vec![
                ("ruff.toml", "[lint]\nselect = []\n"),
                ("pyproject.toml", "[tool.ruff]\nexclude = [\"*\"]\n"),
                (".gitignore", "*\n"),
            ],
        ),
        (
            "c",
            "submission.c",
            "\nint spare(int a, int b);\nint spare(int a, int b) { if (a = b) return 1; return 0; }\n",
            "-Wparentheses",
            vec![],
        ),
        (
            "rust",
            "src/lib.rs",
            "\n#[allow(warnings)]\npub fn spare() { let idle = 3; }\n",
            "unused_variables",
            vec![("clippy.toml", "no settings at all ["), (".cargo/config.toml", silent_cargo)],
        ),
    ] {
        let tribunal = Tribunal::new();
        tribunal.run(["new", "alice", "--challenge", "layer_norm_backward", "--language", language]);
        let alice = tribunal.folder().join("alice");
        let source = alice.join(file);
        let text = fs::read_to_string(&source).expect("the starter") + text;
        fs::write(&source, &text).expect("the source");
        for (path, text) in settings {
            let path = alice.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("settings");
        }
        if language == "rust" {
            let manifest = fs::read_to_string(alice.join("Cargo.toml")).expect("a manifest");
            let silent = "\n[lints.rust]\nunused = \"allow\"\n[lints.clippy]\nall = \"allow\"\n";
            fs::write(alice.join("Cargo.toml"), manifest + silent).expect("a manifest");
        }
        let line = text.lines().count();
        let tools = pretended_ruff(&tribunal, &PRETENDED_RUFF.replace("LINE", &line.to_string()));
        // A ruff that is here comes first.
        let path = std::env::join_paths(programs().into_iter().chain([tools])).expect("paths");
        let output = tribunal.run_with(&[("PATH", &path)], QUICK.iter().chain(&["--json", "alice"]));
        let verdict = verdicts(&output.stdout).remove(0);
        let findings = verdict["findings"].as_array().expect("findings");
        let id = format!("code/{file}/{line}:no_warnings");
        let warning = findings.iter().find(|finding| finding["id"] == id.as_str());
        let warning = warning.unwrap_or_else(|| panic!("{language}: no {id}; {}", verdict["omissions"]));
        assert!(
            warning["message"].as_str().is_some_and(|message| message.ends_with(&format!("({code})"))),
            "{warning}"
        );
        assert_eq!((&warning["outcome"], &warning["severity"]), (&Value::from("fail"), &Value::from("note")));
        assert_eq!(verdict["dimensions"]["code"]["assessed"], true, "{language}");
        let linted = findings.iter().find(|finding| finding["id"] == "code:linted").expect("who read it");
        assert!(linted["message"].as_str().is_some_and(|message| message.contains("warning")), "{linted}");
    }
}

#[test]
fn a_broken_manifest_is_told_with_its_place() {
    let tribunal = Tribunal::new();
    fs::create_dir(tribunal.folder().join("bob")).expect("a folder");
    fs::write(tribunal.folder().join("bob/tribunal.toml"), "name = \"bob\"\nchalenge = \"x\"\n")
        .expect("a file");
    let output = judge(&tribunal, &["bob"]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("tribunal.toml:2:1: unknown field `chalenge`"), "{}", output.stderr);
}

#[test]
fn boards_and_stored_verdicts_come_in_every_format() {
    let tribunal = Tribunal::new();
    assert_eq!(tribunal.run(["board"]).code, 2, "there is no store at the path named");
    let output = judge(&tribunal, &["--json", &specimen("two-pass-c"), &specimen("dgamma-last-row-only-c")]);
    let id = verdicts(&output.stdout)[0]["id"].as_str().expect("an id").to_owned();
    for format in ["terminal", "md", "html", "json"] {
        let board = tribunal.run(["board", "--format", format]);
        assert!(board.code == 0 && board.stdout.contains("two-pass-c"), "{format}: {}", board.stdout);
        let shown = tribunal.run(["show", &id[..8], "--format", format]);
        assert!(shown.code == 0 && shown.stdout.contains(&id), "{format}: {}", shown.stdout);
    }
    let junit = tribunal.run(["show", &id[..8], "--format", "junit"]).stdout;
    assert!(junit.starts_with("<?xml") && junit.contains("name=\"layer_norm_backward/"), "{junit}");
    let sarif = tribunal.run(["show", &id[..8], "--format", "sarif"]).stdout;
    let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(tribunal.run(["show", "ffff"]).code, 2);
}

#[test]
fn contestants_are_compared_from_folders_names_and_ids() {
    let tribunal = Tribunal::new();
    let output = judge(&tribunal, &["--json", &specimen("two-pass-c"), &specimen("dgamma-last-row-only-c")]);
    let wrong = "dgamma-last-row-only-c";
    let judged = verdicts(&output.stdout);
    let verdict = judged.iter().find(|verdict| verdict["submission"]["name"] == wrong).expect("a verdict");
    let id = verdict["id"].as_str().expect("an id").to_owned();
    // A name, and the id of what another name stands for.
    let compared = tribunal.run(["compare", "two-pass-c", &id, "--format", "json"]);
    assert_eq!(compared.code, 0, "{}", compared.stderr);
    let comparison: Value = serde_json::from_str(&compared.stdout).expect("a comparison");
    assert_eq!(comparison["schema"], "tribunal.comparison/2");
    assert_eq!(comparison["contestants"][1], wrong);
    assert_eq!(comparison["challenges"][0]["overall"]["winner"], 0);
    // A folder that was not judged yet is judged, and kept.
    let third = specimen("eps-outside-root");
    let compared =
        tribunal.run(["compare", "two-pass-c", &third, "--effort", "quick", "--format", "md", "--quiet"]);
    assert_eq!(compared.code, 0, "{}", compared.stderr);
    assert!(compared.stdout.contains("`two-pass-c` wins: the only one accepted."), "{}", compared.stdout);
    assert!(tribunal.run(["board"]).stdout.contains("eps-outside-root"));
    for format in ["terminal", "html"] {
        let shown = tribunal.run(["compare", "two-pass-c", "eps-outside-root", "--format", format]);
        assert!(shown.stdout.contains("wins: the only one accepted"), "{format}: {}", shown.stdout);
    }
    let unknown = tribunal.run(["compare", "two-pass-c", "nobody"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("`nobody` is no folder, no contestant"), "{}", unknown.stderr);
    // Nothing can be said of two who never met.
    let elsewhere = house().join("specimens/fused_softmax_topk/numpy-argpartition").display().to_string();
    judge(&tribunal, &[&elsewhere]);
    let strangers = tribunal.run(["compare", "two-pass-c", "numpy-argpartition"]);
    assert_eq!((strangers.code, strangers.stdout.as_str()), (2, ""));
    for part in [
        "two-pass-c has a verdict on layer_norm_backward",
        "numpy-argpartition has a verdict on fused_softmax_topk",
    ] {
        assert!(strangers.stderr.contains(part), "{}", strangers.stderr);
    }
}

#[test]
fn the_retrial_comes_out_as_published() {
    let tribunal = Tribunal::new();
    let page = fs::read_to_string(house().join("docs/retrial.md")).expect("the page");
    let retrial = house().join("retrial").display().to_string();
    let judged = verdicts(&judge(&tribunal, &["--json", &retrial]).stdout);
    assert_eq!(judged.len(), 12);
    for verdict in judged {
        let (name, challenge) = (&verdict["submission"]["name"], &verdict["submission"]["challenge"]);
        let section = page.split("### ").find(|part| part.starts_with(challenge.as_str().expect("an id")));
        let row = section
            .expect("a section")
            .lines()
            .find(|line| line.starts_with(&format!("| `{}` |", name.as_str().expect("a name"))));
        let outcome = format!("**{}**", verdict["outcome"].as_str().expect("an outcome"));
        assert!(row.expect("a row").contains(&outcome), "{name} {challenge}: {outcome}");
    }
}

#[test]
fn several_verdicts_make_a_report_and_its_path_is_told() {
    let tribunal = Tribunal::new();
    let two = [specimen("two-pass-c"), specimen("dgamma-last-row-only-c")];
    let output = judge(&tribunal, &[&two[0], &two[1]]);
    let path = output.stderr.lines().find_map(|line| line.strip_prefix("report: ")).expect("a path");
    let report = std::fs::read_to_string(path).expect("a report");
    assert!(report.contains("two-pass-c") && report.contains("dgamma-last-row-only-c"));
    assert!(judge(&tribunal, &["--quiet", &two[0], &two[1]]).stderr.is_empty());
    assert!(!judge(&tribunal, &[&two[0]]).stderr.contains("report: "), "one verdict needs no report");

    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let output = judge(&tribunal, &["--json", "--out", out.to_str().expect("a path"), &two[0], &two[1]]);
    assert!(!output.stderr.contains("report: "), "{}", output.stderr);
    for file in ["report.html", "junit.xml", "results.sarif", "board.md"] {
        let text = std::fs::read_to_string(out.join(file)).expect(file);
        assert!(text.contains("dgamma-last-row-only-c"), "{file}");
    }
}

#[test]
fn of_many_verdicts_a_line_each_is_printed() {
    let tribunal = Tribunal::new();
    let names: Vec<String> = (0..9).map(|number| format!("entry-{number}")).collect();
    for name in &names {
        let folder = tribunal.folder().join(name);
        fs::create_dir(&folder).expect("a folder");
        // What has no entry is rejected without being run.
        let manifest = format!(
            "name = \"{name}\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"python\"\nentry = \"gone.py\"\n"
        );
        fs::write(folder.join("tribunal.toml"), manifest).expect("a file");
    }
    let paths: Vec<&str> = names.iter().map(String::as_str).collect();
    let output = judge(&tribunal, &paths);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(!output.stdout.contains("Requirements: "), "{}", output.stdout);
    for (name, line) in names.iter().zip(output.stdout.lines()) {
        assert!(
            line.contains("  rejected  ") && line.contains(&format!("{name} · layer_norm_backward: ")),
            "{line}"
        );
        let id = line.split(' ').next().expect("an id");
        let shown = tribunal.run(["show", id]);
        assert!(
            shown.stdout.starts_with(name) && shown.stdout.contains("Judged"),
            "{}{}",
            shown.stdout,
            shown.stderr
        );
    }
    assert!(output.stdout.contains("\n\nlayer_norm_backward\n"), "the board: {}", output.stdout);
    assert!(
        output.stderr.contains("tribunal show ID --store ")
            && output.stderr.contains("tribunal serve --store "),
        "{}",
        output.stderr
    );
    assert_eq!(judge(&tribunal, &[&["--quiet"], &paths[..]].concat()).stderr, "");
    // Eight are printed in full, and so are more that are kept nowhere.
    let eight = judge(&tribunal, &paths[..8]);
    assert_eq!(eight.stdout.matches("REJECTED").count(), 8, "{}", eight.stdout);
    assert!(!eight.stderr.contains("tribunal show"), "{}", eight.stderr);
    fs::write(tribunal.folder().join("notes.db"), "some notes of mine\n".repeat(100)).expect("a file");
    let lost = judge(&tribunal, &[&["--store", "notes.db"], &paths[..]].concat());
    assert_eq!(lost.stdout.matches("REJECTED").count(), 9, "{}", lost.stderr);
}

#[test]
fn a_challenge_is_printed_with_prompt_contract_and_rubric() {
    let tribunal = Tribunal::new();
    assert!(tribunal.run(["challenges"]).stdout.contains("layer_norm_backward"));
    let page = tribunal.run(["challenges", "layer_norm_backward"]).stdout;
    for part in
        ["## Rubric", "tribunal_backward_args", "`forward(x, gamma, beta, eps) -> (y, cache)`", "cache_bytes"]
    {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(tribunal.run(["challenges", "chess"]).code, 2);
}

#[test]
fn contracts_in_the_corpus_are_the_generated_ones() {
    for challenge in challenges::ALL {
        check_contracts(challenge);
    }
}

fn check_contracts(challenge: &'static Challenge) {
    let header = emit::c_header(challenge);
    let rust = emit::rust_contract(challenge);
    let specimens = format!("specimens/{}", challenge.id);
    let mut seen = 0;
    for corpus in [specimens.as_str(), "exploits", "retrial"] {
        for folder in find_submissions(&[house().join(corpus)]).expect("the corpus") {
            let manifest = fs::read_to_string(folder.join("tribunal.toml")).unwrap_or_default();
            if !manifest.contains(&format!("challenge = \"{}\"", challenge.id)) {
                continue;
            }
            for (file, generated) in [("tribunal.h", &header), ("src/contract.rs", &rust)] {
                if let Ok(text) = fs::read_to_string(folder.join(file)) {
                    assert_eq!(&text, generated, "{}/{file}", folder.display());
                    seen += 1;
                }
            }
        }
    }
    assert!(seen >= 2, "{seen} contracts found");
    let starters = house().join("challenges").join(challenge.id).join("starter");
    for (language, folder) in
        [(Language::Python, "python"), (Language::C, "c"), (Language::Rust, "rust"), (Language::Cuda, "cuda")]
    {
        for (path, text) in emit::starter(challenge, language, "your-name") {
            let path = starters.join(folder).join(path);
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(committed, text, "{}: lay it out again with `tribunal new`", path.display());
        }
    }
}
