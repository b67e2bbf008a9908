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

/// A folder that holds a specimen's source, under a manifest without claims.
fn honest(tribunal: &Tribunal) -> String {
    let folder = tribunal.folder().join("honest");
    fs::create_dir(&folder).unwrap();
    let source = house().join("specimens/layer_norm_backward/plain-numpy/submission.py");
    fs::copy(source, folder.join("submission.py")).unwrap();
    let manifest = "name = \"honest\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"python\"\nentry = \"submission.py\"\n";
    fs::write(folder.join("tribunal.toml"), manifest).unwrap();
    folder.display().to_string()
}

/// The submission that knows one eps, as the file of the contestant of that letter, and a check of it.
fn of_flawed(letter: char, check: &str) -> Value {
    item(letter, 10, "rstd = 1.0 / np.sqrt(variance + 1e-5)", check)
}

fn of_honest(letter: char, check: &str) -> Value {
    item(letter, 10, "return gamma * xhat + beta", check)
}

fn item(letter: char, line: usize, quote: &str, check: &str) -> Value {
    let value = if check.starts_with("claim:") { json!(true) } else { Value::Null };
    json!({ "statement": "It is wrong here.", "file": format!("{letter}/1.py"), "first_line": line, "last_line": line,
        "quote": quote, "check": check, "value": value })
}

/// Reviews with one reviewer, who answers every question with these items.
fn reviewed(tribunal: &Tribunal, items: &[Value], more: &[&str]) -> Value {
    let file = reviewers(tribunal, &endpoint(200, json!({ "items": items })), "");
    let fixed = ["review", "--reviewers", &file, "--format", "json"];
    let effort = if more.contains(&"--effort") { &[][..] } else { &["--effort", "quick"] };
    let output = tribunal.run(fixed.iter().chain(effort).chain(more));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{}", output.stdout);
    serde_json::from_str(&output.stdout).unwrap()
}

/// What became of a check, wherever it was named.
fn decision<'a>(review: &'a Value, check: &str) -> &'a Value {
    let opinions = review["reviewers"][0]["opinions"].as_array().unwrap();
    let named =
        opinions.iter().find(|opinion| opinion["check"].as_str().is_some_and(|one| one.starts_with(check)));
    &named.unwrap_or_else(|| panic!("{check} is not in {review}"))["decision"]
}

/// The verdicts in the store, by id; none where there is no store.
fn kept(tribunal: &Tribunal) -> Vec<String> {
    let board = tribunal.run(["board", "--format", "json"]).stdout;
    let ids = board
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_str().unwrap().to_owned());
    ids.collect()
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
    assert!(words.contains(&format!("are decided by verdict {id}.")), "{words}");
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

#[test]
fn who_has_no_verdict_is_judged_for_a_check_and_the_verdict_is_kept() {
    let tribunal = Tribunal::new();
    let flawed = recorded().join("submission").display().to_string();
    let said = [of_flawed('A', "defect:eps_ignored"), of_flawed('A', "defect:gamma_omitted")];
    let record = tribunal.folder().join("record").display().to_string();
    let review = reviewed(&tribunal, &said, &[&flawed, "--record", &record]);
    let found = decision(&review, "defect:eps_ignored");
    assert_eq!(found["holds"], true, "{found}");
    assert_eq!(decision(&review, "defect:gamma_omitted")["holds"], false);
    assert_eq!(kept(&tribunal), [review["contestants"][0]["verdict"].as_str().unwrap()]);
    // The verdict that was kept decides from now on, and a replay elsewhere has one made.
    let replay = ["review", &flawed, "--replay", &record, "--format", "json", "--effort", "quick"];
    let again = |tribunal: &Tribunal, more: &[&str]| -> Value {
        serde_json::from_str(&tribunal.run(replay.iter().chain(more)).stdout).unwrap()
    };
    assert!(again(&tribunal, &["--no-judging"]) == review);
    let elsewhere = Tribunal::new();
    assert!(again(&elsewhere, &[]) == review);
    assert_eq!(kept(&elsewhere), kept(&tribunal));
}

#[test]
fn a_suspicion_of_an_honest_submission_is_refuted_and_bits_are_given_twice() {
    let tribunal = Tribunal::new();
    let folder = honest(&tribunal);
    let defect = of_honest('A', "defect:gamma_omitted");
    let review = reviewed(&tribunal, std::slice::from_ref(&defect), &[&folder]);
    let refuted = decision(&review, "defect:gamma_omitted");
    assert_eq!(refuted["holds"], false, "{refuted}");
    assert!(refuted["why"].as_str().unwrap().contains("fails basic/"), "{refuted}");
    // It has a verdict now, of a judging in which nothing was given twice.
    let said = [defect, of_honest('A', "claim:repeatable")];
    let unasked = reviewed(&tribunal, &said, &[&folder, "--no-judging"]);
    assert_eq!(decision(&unasked, "claim:repeatable")["holds"], Value::Null);
    let asked = reviewed(&tribunal, &said, &[&folder]);
    let upheld = decision(&asked, "claim:repeatable");
    assert_eq!(upheld["holds"], true, "{upheld}");
    assert!(upheld["why"].as_str().unwrap().contains("twice in each of two processes"), "{upheld}");
    assert_eq!(kept(&tribunal).len(), 1);
    // A check that no manifest named is no finding, and moves no score.
    let id = asked["contestants"][0]["verdict"].as_str().unwrap();
    let verdict = tribunal.run(["show", id, "--format", "json"]).stdout;
    let verdict: Value = serde_json::from_str(&verdict).unwrap();
    assert!(verdict["repeats"]["differs"].is_null() && verdict["repeats"]["tried"].is_string(), "{verdict}");
    assert_eq!(verdict["dimensions"]["analysis"]["score"], Value::Null);
}

#[test]
fn nobody_is_judged_where_that_was_asked_for_or_no_check_is_named() {
    let tribunal = Tribunal::new();
    fs::create_dir(tribunal.folder().join("store")).unwrap();
    let flawed = recorded().join("submission").display().to_string();
    let named = [of_flawed('A', "defect:eps_ignored")];
    let review = reviewed(&tribunal, &named, &[&flawed, "--no-judging"]);
    let open = decision(&review, "defect:eps_ignored");
    let why = "it was not judged: that was asked for with --no-judging";
    assert_eq!((&open["holds"], open["why"].as_str()), (&Value::Null, Some(why)));
    // An opinion without a check, and a check on a line that is not there.
    let idle = [of_flawed('A', "none"), item('A', 10, "rstd = eps", "defect:eps_ignored")];
    let review = reviewed(&tribunal, &idle, &[&flawed]);
    assert_eq!(review["contestants"][0]["verdict"], Value::Null);
    assert!(!review["reviewers"][0]["opinions"].as_array().unwrap().is_empty());
    assert_eq!(kept(&tribunal), [""; 0]);
    // Who is asked for the first and no more is judged indeed.
    reviewed(&tribunal, &named, &[&flawed]);
    assert_eq!(kept(&tribunal).len(), 1);
}

#[test]
fn of_two_contestants_each_is_judged_for_its_own_checks() {
    let tribunal = Tribunal::new();
    let flawed = recorded().join("submission").display().to_string();
    let two = [flawed, honest(&tribunal)];
    let two = [two[0].as_str(), two[1].as_str()];
    // Whoever is A in an order, the line is there under one of the letters.
    let first = ['A', 'B'].map(|letter| of_flawed(letter, "defect:eps_ignored"));
    let second = ['A', 'B'].map(|letter| of_honest(letter, "defect:gamma_omitted"));
    let review = reviewed(&tribunal, &first, &two);
    assert!(review["contestants"][0]["verdict"].is_string() && review["contestants"][1]["verdict"].is_null());
    assert_eq!(kept(&tribunal).len(), 1);
    let review = reviewed(&tribunal, &[first, second].concat(), &two);
    assert_eq!(decision(&review, "defect:eps_ignored")["holds"], true);
    assert_eq!(decision(&review, "defect:gamma_omitted")["holds"], false);
    let named = review["contestants"].as_array().unwrap().iter().map(|one| one["verdict"].as_str().unwrap());
    let named: std::collections::BTreeSet<String> = named.map(str::to_owned).collect();
    assert_eq!(named, kept(&tribunal).into_iter().collect());
    assert_eq!(named.len(), 2);
}

#[test]
fn where_nothing_can_be_judged_the_review_stands_and_says_why() {
    let tribunal = Tribunal::new();
    let flawed = recorded().join("submission").display().to_string();
    let named = [of_flawed('A', "defect:eps_ignored")];
    let review = reviewed(&tribunal, &named, &[&flawed, "--python", "/nonexistent/python"]);
    let open = decision(&review, "defect:eps_ignored");
    assert_eq!(open["holds"], Value::Null);
    let why = open["why"].as_str().unwrap();
    assert!(why.starts_with("it was not judged: no verdicts on this machine"), "{why}");
    // What has an id has its verdict, and no folder that could be judged.
    reviewed(&tribunal, &named, &[&flawed]);
    let id = kept(&tribunal).remove(0);
    let review = reviewed(&tribunal, &[of_flawed('A', "claim:repeatable")], &[&id, "--effort", "full"]);
    let why = decision(&review, "claim:repeatable")["why"].as_str().unwrap();
    assert!(why.ends_with("; it was not judged again: only a folder is"), "{why}");
}
