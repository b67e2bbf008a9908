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
        let mut process = Command::new(env!("CARGO_BIN_EXE_tribunal"))
            .args(["serve", "--port", "0", "--store", "s.sqlite", "--submissions"])
            .arg(submissions)
            .current_dir(tribunal.folder())
            .env("TRIBUNAL_TOKEN", TOKEN)
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
    let output = tribunal.run(["serve", "--port", port]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(
        output.stderr.contains("cannot listen on") && output.stderr.contains("--port 0"),
        "{}",
        output.stderr
    );
    let output = tribunal.run(["serve", "--port", "0", "--submissions", "."]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("TRIBUNAL_TOKEN"), "{}", output.stderr);
}
