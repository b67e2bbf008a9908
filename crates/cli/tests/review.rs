//! What scripts rely on in `tribunal review`.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};
use support::{Tribunal, house};

fn recorded() -> PathBuf {
    house().join("crates/review/tests/recorded")
}

/// The submission that a real model was shown, judged without measurements: it knows one eps.
fn judged() -> (Tribunal, String) {
    let tribunal = Tribunal::new();
    let folder = recorded().join("submission").display().to_string();
    let judge = ["judge", &folder, "--effort", "quick", "--no-measurements", "--no-controls", "--json"];
    let output = tribunal.run(judge);
    assert_eq!(output.code, 1, "{}", output.stderr);
    (tribunal, folder)
}

/// An endpoint that says the same to everybody; its base.
fn endpoint(status: u16, content: Value) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let body = json!({ "choices": [{ "message": { "content": content.to_string() } }] }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let head = head.to_ascii_lowercase();
            let length =
                head.split_once("content-length: ").unwrap().1.lines().next().unwrap().parse().unwrap();
            reader.read_exact(&mut vec![0; length]).unwrap();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} So\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    base
}

fn reviewers(tribunal: &Tribunal, base: &str, more: &str) -> String {
    let path = tribunal.folder().join("reviewers.toml");
    fs::write(&path, format!("[[reviewer]]\nname = \"one\"\nurl = \"{base}\"\nmodel = \"m\"\n{more}"))
        .unwrap();
    path.display().to_string()
}

#[test]
fn a_hypothesis_is_decided_by_the_verdict_which_stays_as_it_was() {
    let (tribunal, folder) = judged();
    let line = "    rstd = 1.0 / np.sqrt(variance + 1e-5)";
    let base = endpoint(
        200,
        json!({ "items": [{ "statement": "eps is not used", "file": "A/1.py", "first_line": 10, "last_line": 10,
            "quote": line, "check": "defect:eps_ignored", "value": null }] }),
    );
    let file = reviewers(&tribunal, &base, "");
    let board = tribunal.run(["board", "--format", "json"]).stdout;
    let by_folder = tribunal.run(["review", &folder, "--reviewers", &file]);
    assert_eq!((by_folder.code, by_folder.stderr.as_str()), (0, ""));
    let words = by_folder.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let decided = "defect:eps_ignored is confirmed by evidence: ";
    assert!(words.contains("Opinion: layer_norm_backward") && words.contains(decided), "{words}");
    let id = serde_json::from_str::<Value>(&board).unwrap()["id"].as_str().unwrap().to_owned();
    let by_id = tribunal.run(["review", &id, "--reviewers", &file]);
    assert_eq!(by_id.stdout, by_folder.stdout);
    let bundle = tribunal.folder().join("bundle.json").display().to_string();
    tribunal.run(["export", &id, "--out", &bundle]);
    assert_eq!(tribunal.run(["review", &bundle, "--reviewers", &file]).stdout, by_folder.stdout);
    assert_eq!(tribunal.run(["board", "--format", "json"]).stdout, board);
}

#[test]
fn a_recorded_review_is_replayed_in_every_form() {
    let (tribunal, folder) = judged();
    let record = recorded().join("smollm2-135m").display().to_string();
    let page = tribunal.folder().join("review.html");
    let replay =
        ["review", &folder, "--replay", &record, "--format", "json", "--out", &page.display().to_string()];
    let output = tribunal.run(replay);
    let review: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|_| panic!("{}", output.stderr));
    let schema: Value = serde_json::from_str(&tribunal.run(["schema", "review"]).stdout).unwrap();
    assert!(jsonschema::is_valid(&schema, &review));
    assert_eq!(review["reviewers"][0]["asked"], 8);
    assert!(review["contestants"][0]["verdict"].is_string());
    assert!(fs::read_to_string(page).unwrap().contains("<h1>Opinion: layer_norm_backward</h1>"));
    let other = house().join("specimens/layer_norm_backward/eps-hard-coded").display().to_string();
    let missing = tribunal.run(["review", &other, "--replay", &record]);
    assert_eq!(missing.code, 3);
    assert!(missing.stderr.contains("the record has no exchange"), "{}", missing.stderr);
}

#[test]
fn exit_codes_tell_whose_trouble_it_is() {
    let (tribunal, folder) = judged();
    let ill = endpoint(401, json!({}));
    let file = reviewers(&tribunal, &ill, "");
    let output = tribunal.run(["review", &folder, "--reviewers", &file]);
    assert_eq!(output.code, 3);
    assert!(output.stdout.contains("HTTP 401"), "{}", output.stdout);
    let file = reviewers(&tribunal, &ill, "api_key = \"secret\"\n");
    let output = tribunal.run(["review", &folder, "--reviewers", &file]);
    assert_eq!(output.code, 2);
    assert!(
        output.stderr.contains("reviewers.toml") && output.stderr.contains("api_key"),
        "{}",
        output.stderr
    );
    for wrong in
        [vec!["review", &folder], vec!["review", &folder, "--reviewers", &file, "--out", "review.pdf"]]
    {
        assert_eq!(tribunal.run(wrong).code, 2);
    }
}
