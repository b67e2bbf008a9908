//! The board, served by the program itself and asked over a real connection.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Tribunal, house};

const TOKEN: &str = "only the two of us";

/// A server that is ended with the test.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start(tribunal: &Tribunal, submissions: &Path) -> Self {
        Self::with(tribunal, |command| {
            command
                .args(["--store", "s.sqlite", "--submissions"])
                .arg(submissions)
                .env("TRIBUNAL_TOKEN", TOKEN)
        })
    }

    fn with(tribunal: &Tribunal, options: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tribunal"));
        command.args(["serve", "--port", "0"]).env_remove("TRIBUNAL_TOKEN").current_dir(tribunal.folder());
        let mut process = options(&mut command)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").and_then(|rest| rest.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("no address: {line}")).to_owned();
        Self { process, address }
    }

    /// The status and the body.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_folder_is_judged_on_request_and_stands_on_the_board() {
    let tribunal = Tribunal::new();
    let submissions = tribunal.folder().join("submissions");
    copy(&house().join("specimens/layer_norm_backward/gamma-omitted"), &submissions.join("gamma-omitted"));
    fs::create_dir(submissions.join("empty")).unwrap();
    let server = Server::start(&tribunal, &submissions);
    assert!(server.ask("GET", "/", "").1.contains("No verdicts yet"));

    let order = |path: &str| {
        server.ask("POST", "/api/judgings", &format!("{{\"path\": \"{path}\", \"effort\": \"quick\"}}"))
    };
    // What lies elsewhere is not told from what is not there.
    for path in ["..", "/etc", "/no/such/place", ".", "gamma-omitted/submission.py", "nowhere"] {
        let (status, said) = order(path);
        assert!(status == 400 && said.contains(path) && said.contains("no folder below"), "{path}: {said}");
    }
    assert_eq!(order("empty").0, 202);
    let (status, said) = order("gamma-omitted");
    assert_eq!(status, 202, "{said}");
    assert!(said.contains("\"state\":\"waiting\""), "{said}");

    let started = Instant::now();
    let tasks = loop {
        let judgings = server.json("/api/judgings");
        let tasks = judgings["tasks"].as_array().unwrap().clone();
        if tasks.iter().all(|task| ["done", "failed"].contains(&task["state"].as_str().unwrap())) {
            break tasks;
        }
        assert!(started.elapsed() < Duration::from_secs(300), "{judgings}");
        thread::sleep(Duration::from_millis(50));
    };
    // The last that was asked for comes first.
    assert_eq!(tasks[0]["state"], "done", "{tasks:?}");
    assert_eq!(tasks[1]["state"], "failed", "{tasks:?}");
    assert!(tasks[1]["said"].as_str().unwrap().contains("no tribunal.toml"), "{tasks:?}");
    let id = tasks[0]["verdicts"][0].as_str().unwrap().to_owned();
    while !server.ask("GET", "/challenges/layer_norm_backward", "").1.contains("gamma-omitted") {
        assert!(started.elapsed() < Duration::from_secs(300));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.json(&format!("/api/verdicts/{id}"))["submission"]["name"], "gamma-omitted");
    let page = server.ask("GET", &format!("/verdicts/{id}"), "").1;
    assert!(page.contains("gamma omitted"), "the suspect");
}

#[test]
fn what_cannot_be_served_is_said() {
    let tribunal = Tribunal::new();
    let taken = Server::start(&tribunal, tribunal.folder());
    let port = taken.address.rsplit(':').next().unwrap();
    let output = tribunal.run(["serve", "--port", port, "--store", "s.sqlite"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(
        output.stderr.contains("cannot listen on") && output.stderr.contains("--port 0"),
        "{}",
        output.stderr
    );
    for host in [
        "http://board.example",
        "board.example:8080",
        "board.example/",
        "",
        "a b",
        "[::1]:80",
        "bücher.example",
    ] {
        let output = tribunal.run(["serve", "--port", "0", "--host", host]);
        assert_eq!(output.code, 2, "{host}: {}", output.stderr);
        assert!(output.stderr.contains("a name or an address alone"), "{host}: {}", output.stderr);
    }
    let output = tribunal.run(["serve", "--port", "0", "--submissions", "."]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("TRIBUNAL_TOKEN"), "{}", output.stderr);
}

#[test]
fn who_only_reads_is_served_no_store_that_is_not_there_but_the_users_own() {
    let tribunal = Tribunal::new();
    for store in ["typo.sqlite", "typo"] {
        let refused = tribunal.run(["serve", "--port", "0", "--store", store]);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        let told = format!("there is no store at {store}; `tribunal judge PATH --store {store}`");
        assert!(refused.stderr.contains(&told), "{}", refused.stderr);
        assert!(!tribunal.folder().join(store).exists());
    }
    // Who may write may have it made.
    let server = Server::with(&tribunal, |command| {
        command.args(["--store", "new.sqlite"]).env("TRIBUNAL_TOKEN", TOKEN)
    });
    assert!(server.ask("GET", "/", "").1.contains("No verdicts yet"));
    // And who comes first sees an empty board, where verdicts will appear.
    let data = tribunal.folder().join("data");
    let server = Server::with(&tribunal, |command| command.env("XDG_DATA_HOME", &data));
    assert!(server.ask("GET", "/", "").1.contains("No verdicts yet"));
    let imported = Command::new(env!("CARGO_BIN_EXE_tribunal"))
        .arg("import")
        .arg(house().join("crates/serve/tests/verdicts/b0844e80e2c1.json"))
        .env("XDG_DATA_HOME", &data)
        .output()
        .expect("the program starts");
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let started = Instant::now();
    while !server.ask("GET", "/contestants", "").1.contains("b0844e80e2c1") {
        assert!(started.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(50));
    }
}
