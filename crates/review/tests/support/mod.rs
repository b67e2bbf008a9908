//! An endpoint that follows a script, and parties for it to speak of.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tribunal_contract::Language;
use tribunal_judge::{
    Challenge, Effort, Evidence, JudgeInfo, Machine, Rubric, Seed, SourceFile, Subject, SubmissionInfo,
    Unwatched, Verdict, calibration, challenges, examine,
};
use tribunal_review::{Http, Nobody, Party, Review, Reviewer, review, reviewers};

/// What the endpoint does with a request.
pub enum Reply {
    /// A status and a body.
    Status(u16, String),
    /// The same with another header.
    Header(u16, &'static str, String),
    /// An answer of the API with this content.
    Says(String),
    /// Nothing for so long.
    Silence(Duration),
    /// So many bytes without an end.
    Flood(usize),
}

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Heard {
    pub head: String,
    pub body: String,
}

impl Heard {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// All that the model is shown.
    pub fn shown(&self) -> String {
        self.json()["messages"][1]["content"].as_str().unwrap().to_owned()
    }

    pub fn dimension(&self) -> String {
        self.shown().rsplit_once("Dimension: ").unwrap().1.lines().next().unwrap().to_owned()
    }

    /// The label of the file that holds the text.
    pub fn label_of(&self, text: &str) -> String {
        let shown = self.shown();
        let (before, _) = shown.split_once(text).unwrap_or_else(|| panic!("{text} is not in {shown}"));
        before.rsplit_once("\nfile ").unwrap().1.lines().next().unwrap().to_owned()
    }
}

type Script = dyn Fn(&Heard, usize) -> Reply + Send + Sync;

pub struct Endpoint {
    pub address: SocketAddr,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Endpoint {
    /// The script is told a request and how many came before it.
    pub fn new(script: impl Fn(&Heard, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (all, script): (_, Arc<Script>) = (heard.clone(), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (all, script) = (all.clone(), script.clone());
                // Who has heard enough hangs up, which is no failure of the test.
                std::thread::spawn(move || drop(serve(stream.unwrap(), &all, script.as_ref())));
            }
        });
        Self { address, heard }
    }

    pub fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }
}

fn serve(stream: TcpStream, all: &Mutex<Vec<Heard>>, script: &Script) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Ok(());
        }
    }
    let lower = head.to_ascii_lowercase();
    let length =
        lower.split_once("content-length:").and_then(|(_, rest)| rest.lines().next()?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    let heard = Heard { head, body: String::from_utf8(body).unwrap() };
    let before = {
        let mut all = all.lock().unwrap();
        all.push(heard.clone());
        all.len() - 1
    };
    let mut stream = stream;
    let (status, header, body) = match script(&heard, before) {
        Reply::Status(status, body) => (status, "x: y", body),
        Reply::Header(status, header, body) => (status, header, body),
        Reply::Says(content) => (200, "x: y", said(&content)),
        Reply::Silence(time) => {
            std::thread::sleep(time);
            return Ok(());
        }
        Reply::Flood(bytes) => {
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            for _ in 0..bytes / 1024 {
                stream.write_all(&[b' '; 1024])?;
            }
            return Ok(());
        }
    };
    write!(
        stream,
        "HTTP/1.1 {status} Told\r\n{header}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A response of the API.
pub fn said(content: &str) -> String {
    json!({ "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }] }).to_string()
}

/// An answer with these items.
pub fn items(items: &[Value]) -> Reply {
    Reply::Says(json!({ "items": items }).to_string())
}

/// An item.
pub fn item(file: &str, first: usize, last: usize, quote: &str, check: &str, value: Value) -> Value {
    json!({
        "statement": "It is wrong here.", "file": file, "first_line": first, "last_line": last, "quote": quote,
        "check": check, "value": value,
    })
}

pub fn reviewer(name: &str, address: SocketAddr, more: &str) -> Reviewer {
    let text =
        format!("[[reviewer]]\nname = \"{name}\"\nurl = \"http://{address}/v1\"\nmodel = \"tiny\"\n{more}");
    reviewers(&text, Path::new("reviewers.toml")).unwrap().remove(0)
}

/// Asks without pauses.
pub const HTTP: Http = Http { pause: Duration::ZERO };

/// Judges nobody.
pub fn nobody() -> Nobody {
    Nobody("nobody judges here".to_owned())
}

pub fn ask(parties: &[Party], reviewers: &[Reviewer]) -> Review {
    review(parties, reviewers, &HTTP, &mut nobody()).unwrap()
}

pub const SOURCE: &str = "\"\"\"Flawless.\"\"\"\nimport numpy as np\n\n\ndef forward(x, gamma, beta, eps):\n    # Reviewers agree.\n    \
                          mean = x.mean(-1, keepdims=True)\n    return x - mean\n";

pub fn party(name: &str, source: &str) -> Party {
    let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
    Party {
        name: name.to_owned(),
        challenge: "layer_norm_backward".to_owned(),
        language: Language::Python,
        sha256: "0".repeat(64),
        files: vec![file(&format!("{name}.py"), source)],
        verdict: None,
    }
}

/// What the court says of somebody in this process.
pub fn judged(challenge: &dyn Challenge, subject: &mut dyn Subject) -> Verdict {
    let (effort, seed) = (Effort::Quick, Seed::PUBLIC);
    let cases = calibration::cases(challenge, effort, seed);
    let examined = examine(&cases, subject, seed, &Unwatched);
    let (id, rubric) = (challenge.contract().id.to_owned(), Rubric::parse(challenge.rubric()).unwrap());
    let text = String::new;
    let evidence = Evidence {
        judge: JudgeInfo { version: text(), seed: seed.to_string(), effort, measured: false, rubric: text() },
        submission: SubmissionInfo {
            name: text(),
            challenge: id,
            language: "python".to_owned(),
            sha256: text(),
            folder: text(),
            host: text(),
        },
        machine: Machine { cpu: text(), cores: 1, memory_bytes: 1, gpu: None, cage: text() },
        findings: examined.findings,
        measurements: Vec::new(),
        repeats: None,
        coverage: Vec::new(),
        omissions: examined.omissions,
        took_s: 0.0,
        spent_s: BTreeMap::new(),
        slowest: None,
        caged_s: 0.0,
    };
    Verdict::new(evidence, &rubric)
}

pub fn layer_norm() -> &'static dyn Challenge {
    challenges::find("layer_norm_backward").unwrap()
}
