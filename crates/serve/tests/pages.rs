//! Every page and every answer, asked for without a network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use proptest::prelude::*;
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;
use tower::ServiceExt;
use tribunal_board::{Bundle, Store, live, ranking};
use tribunal_judge::{Evidence, Verdict};
use tribunal_serve::{Judges, Options, Site, router};

const TOKEN: &str = "a token";

/// A server over a copy of the verdicts beside this file.
struct Server {
    folder: tempfile::TempDir,
    router: Router,
}

struct Answer {
    status: StatusCode,
    headers: BTreeMap<String, String>,
    body: String,
}

fn fixtures() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn fixture(id: &str) -> Bundle {
    let path = fixtures().into_iter().find(|path| path.to_string_lossy().contains(id)).expect("a fixture");
    Bundle::read_file(&path).unwrap().unwrap()
}

/// The fixture as judged under another name, which gives it another id.
fn renamed(id: &str, name: &str) -> Bundle {
    judged_anew(id, |evidence| evidence.submission.name = name.to_owned())
}

/// What would be ruled if the evidence were another.
fn judged_anew(id: &str, change: impl FnOnce(&mut Evidence)) -> Bundle {
    let bundle = fixture(id);
    let mut evidence = bundle.verdict.evidence();
    change(&mut evidence);
    let rubric = tribunal_board::summary::rubric_of(&bundle.verdict)
        .expect("the fixtures' rubric is today's: `tribunal rescore --write` rules by it");
    Bundle { verdict: Verdict::new(evidence, rubric), ..bundle }
}

impl Server {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Options)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for file in fixtures() {
            fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
        }
        let mut options = Options {
            store: Store::open(folder.path()).unwrap(),
            listen: "127.0.0.1:0".parse().unwrap(),
            hosts: Vec::new(),
            token: Some(TOKEN.to_owned()),
            judges: None,
        };
        change(&mut options);
        let site: Arc<Site> = Site::open(options).unwrap();
        Self { folder, router: router(site) }
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, headers, body: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    async fn post(&self, path: &str, token: Option<&str>, body: String) -> Answer {
        let mut request = request(Method::POST, path);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        self.send(request.body(Body::from(body)).unwrap()).await
    }
}

/// What the server streams.
struct Events {
    stream: Body,
    text: String,
}

impl Events {
    async fn of(server: &Server) -> Self {
        let asked = request(Method::GET, "/judgings/events").body(Body::empty()).unwrap();
        let response = server.router.clone().oneshot(asked).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { stream: response.into_body(), text: String::new() }
    }

    async fn until(&mut self, wanted: &str) {
        let Self { stream, text } = self;
        let arrived = tokio::time::timeout(Duration::from_secs(30), async {
            while !text.contains(wanted) {
                let frame = stream.frame().await.expect("the stream goes on").unwrap();
                *text += std::str::from_utf8(frame.data_ref().expect("data")).unwrap();
            }
        });
        arrived.await.unwrap_or_else(|_| panic!("no {wanted} in {text}"));
    }
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "localhost:7878")
}

/// Names of elements and attributes of a page; panics where tags do not match.
fn parsed(page: &str) -> (Vec<String>, Vec<(String, String)>) {
    let mut reader = Reader::from_str(page);
    let (mut names, mut attributes) = (Vec::new(), Vec::new());
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}: {page}")) {
            Event::Start(element) | Event::Empty(element) => {
                names.push(String::from_utf8_lossy(element.name().as_ref()).into_owned());
                for attribute in element.attributes() {
                    let attribute = attribute.expect("an attribute");
                    attributes.push((
                        String::from_utf8_lossy(attribute.key.as_ref()).into_owned(),
                        String::from_utf8_lossy(&attribute.value).replace("&amp;", "&").replace("&#38;", "&"),
                    ));
                }
            }
            Event::Eof => return (names, attributes),
            _ => {}
        }
    }
}

#[tokio::test]
async fn every_page_that_a_link_leads_to_is_there_and_harmless() {
    let server = Server::new().await;
    let (mut seen, mut queue) = (
        BTreeSet::new(),
        VecDeque::from(["/".to_owned(), "/compare?with=plain-numpy&with=two-pass-c".to_owned()]),
    );
    while let Some(path) = queue.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let answer = server.get(&path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        assert!(answer.headers["content-security-policy"].contains("default-src 'none'"));
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        if !answer.headers["content-type"].starts_with("text/html") {
            continue;
        }
        let (names, attributes) = parsed(&answer.body);
        for forbidden in ["img", "iframe", "object", "style", "a-b", "b"] {
            assert!(!names.iter().any(|name| name == forbidden), "{path}: {forbidden}");
        }
        let scripts: Vec<_> = attributes.iter().filter(|(name, _)| name == "src").collect();
        assert!(scripts.len() == 1 && scripts[0].1 == "/live.js", "{path}: {scripts:?}");
        assert_eq!(names.iter().filter(|name| *name == "script").count(), 1, "{path}");
        assert!(attributes.iter().all(|(name, _)| !name.starts_with("on") && name != "style"), "{path}");
        assert_eq!(names.iter().filter(|name| *name == "h1").count(), 1, "{path}");
        let ids: Vec<_> = attributes.iter().filter(|(name, _)| name == "id").map(|(_, id)| id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{path}: an id twice");
        for (_, to) in attributes.iter().filter(|(name, _)| name == "href" || name == "action") {
            let to = to.split('#').next().unwrap();
            if to.starts_with('/') {
                queue.push_back(to.to_owned());
            } else if let Some(query) = to.strip_prefix('?').filter(|query| !query.is_empty()) {
                queue.push_back(format!("{}?{query}", path.split('?').next().unwrap()));
            } else {
                assert!(to.is_empty() || to == "?", "{path} leads to {to}");
            }
        }
    }
    for expected in [
        "/challenges/kv_cache",
        "/contestants",
        "/verdicts/4cca4112bf02",
        "/verdicts/4cca4112bf02/source/submission.py",
        "/api/verdicts/4cca4112bf02/bundle",
        "/judgings",
    ] {
        assert!(seen.contains(expected), "nothing leads to {expected}");
    }
    assert!(seen.iter().any(|path| path.contains("/source/x%22%3E%3Cimg")), "the file with a hostile name");
    assert!(seen.iter().any(|path| path.starts_with("/contestants/%3C%2Fp%3E")), "the hostile contestant");
}

#[tokio::test]
async fn findings_are_chosen_by_family_outcome_and_dimension() {
    let server = Server::new().await;
    let verdict = fixture("72e00356b08f").verdict;
    let shown = |page: &str| page.matches("<li class=\"finding ").count();
    let count =
        |test: &dyn Fn(&tribunal_judge::Finding) -> bool| verdict.findings.iter().filter(|f| test(f)).count();
    use tribunal_judge::{Dimension, Family, Outcome};
    let stability = count(&|f| f.family == Family::Stability && f.outcome == Outcome::Fail);
    assert!(stability > 0 && stability < count(&|f| f.outcome == Outcome::Fail));
    let page = server.get("/verdicts/72e00356b08f?family=stability&outcome=fail&dimension=").await.body;
    assert_eq!(shown(&page), stability);
    assert!(!page.contains("<li class=\"finding pass"));
    let code = server.get("/verdicts/72e00356b08f?dimension=code").await.body;
    assert_eq!(shown(&code), count(&|f| f.dimension == Dimension::Code));
    // All of them, on pages of a hundred.
    let (first, second) =
        (server.get("/verdicts/72e00356b08f").await, server.get("/verdicts/72e00356b08f?page=2").await);
    assert_eq!(shown(&first.body) + shown(&second.body), verdict.findings.len());
    let refused = server.get("/verdicts/72e00356b08f?outcome=failed").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(
        refused.body.contains("unknown variant") && refused.body.contains("inconclusive"),
        "{}",
        refused.body
    );
    assert_eq!(server.get("/verdicts/72e00356b08f?page=3").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_finding_leads_to_its_line() {
    let server = Server::new().await;
    let spoken_of = fixtures().into_iter().find_map(|path| {
        let Bundle { verdict, sources, .. } = Bundle::read_file(&path).unwrap().unwrap();
        let finding = verdict.findings.iter().find(|finding| {
            finding.outcome != tribunal_judge::Outcome::Pass
                && tribunal_board::html::code_place(finding)
                    .is_some_and(|(path, _)| sources.iter().any(|file| file.path == path))
        })?;
        let (path, line) = tribunal_board::html::code_place(finding)?;
        Some((verdict.id.clone(), path.to_owned(), line, finding.message.clone()))
    });
    let (id, path, line, message) = spoken_of.expect("a finding about a line in the fixtures");
    let link = tribunal_board::html::Links::Paths.source(&id, &path, Some(line)).unwrap();
    let verdict = server.get(&format!("/verdicts/{id}?dimension=code")).await.body;
    assert!(verdict.contains(&format!("href=\"{link}\"")), "{link}");
    let source = server.get(link.split('#').next().unwrap()).await.body;
    let here =
        source.split(&format!("<li id=\"L{line}\" class=\"marked\">")).nth(1).expect("the marked line");
    // Up to where a character would be escaped.
    let beginning = message.split(['"', '\'', '<', '&']).next().unwrap();
    assert!(beginning.len() > 10 && here.split("</li>").next().unwrap().contains(beginning), "{message}");
    assert_eq!(server.get(&format!("/verdicts/{id}/source/nothing.py")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        server.get(&format!("/verdicts/{id}/source/../../etc/passwd")).await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn a_board_is_searched_and_a_contestant_shown() {
    let server = Server::new().await;
    let page = server.get("/challenges/layer_norm_backward?q=LANES&outcome=").await.body;
    assert!(page.contains("float-lanes-c") && !page.contains("plain-numpy"), "{page}");
    let page = server.get("/challenges/layer_norm_backward?outcome=disqualified").await.body;
    assert!(page.contains("forged-done") && !page.contains("plain-numpy"));
    let page = server.get("/contestants/two-pass-c").await.body;
    assert!(
        page.contains("Best: ")
            && page.contains("layer_norm_backward")
            && page.contains("fused_softmax_topk")
    );
    for nobody in [
        "/contestants/nobody",
        "/challenges/nothing",
        "/verdicts/0000",
        "/nowhere",
        "/api/contestants/nobody",
    ] {
        assert_eq!(server.get(nobody).await.status, StatusCode::NOT_FOUND, "{nobody}");
    }
}

#[tokio::test]
async fn json_says_what_the_library_says() {
    let server = Server::new().await;
    let verdict: Value =
        serde_json::from_str(&tribunal_board::json::line(&fixture("b0844e80e2c1").verdict)).unwrap();
    assert_eq!(server.json("/api/verdicts/b0844e80e2c1").await, verdict);
    let bundle = Bundle::read(&server.get("/api/verdicts/b0844e80e2c1/bundle").await.body).unwrap();
    assert_eq!(bundle, fixture("b0844e80e2c1"));
    let (summaries, _) = Store::open(server.folder.path()).unwrap().summaries().unwrap();
    let summaries = ranking::latest(summaries);
    for standings in ranking::rank(&summaries) {
        let served = server.json(&format!("/api/challenges/{}", standings.challenge)).await;
        let places = served["places"].as_array().unwrap();
        assert_eq!(places.len(), standings.places.len() + standings.unranked.len());
        for (place, served) in standings.places.iter().zip(places) {
            assert_eq!(served["id"], place.summary.id.as_str());
            assert_eq!(served["rank"], place.rank);
            assert_eq!(served["score"].as_f64(), place.summary.score);
        }
    }
    let compared = server.json("/api/compare?with=two-pass-c&with=plain-numpy").await;
    assert_eq!(compared["schema"], tribunal_board::compare::FORM);
    assert_eq!(compared["contestants"], serde_json::json!(["two-pass-c", "plain-numpy"]));
    let mistaken = server.get("/compare?with=two-pass-c&with=nobody+here").await.body;
    assert!(
        mistaken.contains("role=\"alert\"") && mistaken.contains("value=\"nobody here\""),
        "the form stays filled in"
    );
    let refused = server.get("/api/compare?with=two-pass-c").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.starts_with("{\"error\":"), "{}", refused.body);
}

#[tokio::test]
async fn only_who_knows_the_token_writes() {
    let server = Server::new().await;
    let bundle = Bundle { kept_at_ms: None, ..renamed("b0844e80e2c1", "newcomer") };
    let line = bundle.line();
    let silent = Server::with(|options| options.token = None).await;
    assert_eq!(silent.post("/api/verdicts", Some(TOKEN), line.clone()).await.status, StatusCode::FORBIDDEN);
    assert_eq!(server.post("/api/verdicts", None, line.clone()).await.status, StatusCode::UNAUTHORIZED);
    let guessed = server.post("/api/verdicts", Some("a guess"), line.clone()).await;
    assert_eq!(
        (guessed.status, guessed.headers["www-authenticate"].as_str()),
        (StatusCode::UNAUTHORIZED, "Bearer")
    );
    assert!(!server.get("/contestants").await.body.contains("newcomer"));

    let forged = line.replacen("\"outcome\":\"accepted\"", "\"outcome\":\"rejected\"", 1);
    assert_ne!(forged, line);
    let refused = server.post("/api/verdicts", Some(TOKEN), forged).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", refused.body);
    assert_eq!(
        server.post("/api/verdicts", Some(TOKEN), "{}".to_owned()).await.status,
        StatusCode::BAD_REQUEST
    );

    let before = server.get("/contestants").await;
    let kept = server.post("/api/verdicts", Some(TOKEN), line.clone()).await;
    assert_eq!(kept.status, StatusCode::CREATED, "{}", kept.body);
    assert_eq!(serde_json::from_str::<Value>(&kept.body).unwrap()["verdict"], bundle.verdict.id.as_str());
    // The numbers that a measurement took are another judging's.
    let mut other = Bundle::read(&line).unwrap();
    other.verdict.took_s += 1.0;
    let passed_over = server.post("/api/verdicts", Some(TOKEN), other.line()).await;
    assert_eq!(passed_over.status, StatusCode::CONFLICT, "{}", passed_over.body);
    // Whoever was told that it is kept finds it.
    let after = server.get("/contestants").await;
    assert!(after.body.contains("newcomer"));
    assert_ne!(before.headers["etag"], after.headers["etag"]);
    let judging = server.post("/api/judgings", Some(TOKEN), "{\"path\": \".\"}".to_owned()).await;
    assert_eq!(judging.status, StatusCode::FORBIDDEN, "{}", judging.body);
}

/// Whatever is asked for is answered, and never as if the server were at fault.
#[test]
fn no_request_brings_the_server_down() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::new());
    let places = [
        "/challenges/kv_cache?q=a&outcome=accepted&language=c&page=2",
        "/contestants?q=%F0%9F&page=1",
        "/contestants/two-pass-c",
        "/verdicts/b0844e80e2c1",
        "/verdicts/b0844e80e2c1/source/submission.c",
        "/compare?with=two-pass-c&with=numpy-paged",
        "/api/compare?with=two-pass-c&with=numpy-paged",
        "/api/contestants/two-pass-c",
        "/api/verdicts/b0844e80e2c1/bundle",
    ];
    let body = Bundle { kept_at_ms: None, ..renamed("b0844e80e2c1", "newcomer") }.line();
    let place = proptest::sample::select(places.to_vec()).prop_flat_map(tribunal_hostile::mutated_text);
    proptest!(tribunal_hostile::cases(256), |(place in place, posted in tribunal_hostile::text(&body), writes in 0..8)| {
        let method = if writes == 0 { Method::POST } else { Method::GET };
        let (place, posted) = if writes == 0 { ("/api/verdicts".to_owned(), posted) } else { (place, String::new()) };
        // Not every text is the address of anything.
        let Ok(address) = place.parse::<axum::http::Uri>() else { return Ok(()) };
        let asked = request(method, "/").header(header::AUTHORIZATION, format!("Bearer {TOKEN}"));
        let Ok(asked) = asked.uri(address).body(Body::from(posted)) else { return Ok(()) };
        let answer = runtime.block_on(async {
            tokio::time::timeout(Duration::from_secs(60), server.send(asked)).await.expect("an answer in time")
        });
        prop_assert!(!answer.status.is_server_error(), "{place}: {} {}", answer.status, answer.body);
        // What is JSON is no page, whatever it quotes, and no browser is let take it for one.
        let json = answer.headers.get("content-type").is_some_and(|kind| kind == "application/json");
        prop_assert!(json || !answer.body.contains("<a>"), "{place}: {}", answer.body);
        prop_assert!(!answer.body.contains('\u{1b}'), "{place}: {}", answer.body);
        prop_assert_eq!(answer.headers.get("x-content-type-options").map(String::as_str), Some("nosniff"));
    });
}

#[tokio::test]
async fn a_page_that_the_reader_has_is_not_sent_again() {
    let server = Server::new().await;
    let tag = server.get("/").await.headers["etag"].clone();
    let again =
        |tag: &str| request(Method::GET, "/").header(header::IF_NONE_MATCH, tag).body(Body::empty()).unwrap();
    let answer = server.send(again(&tag)).await;
    assert_eq!((answer.status, answer.body.as_str()), (StatusCode::NOT_MODIFIED, ""));
    assert_eq!(server.send(again("\"another\"")).await.status, StatusCode::OK);
    let elsewhere = request(Method::GET, "/challenges/nothing").header(header::IF_NONE_MATCH, &tag);
    assert_eq!(server.send(elsewhere.body(Body::empty()).unwrap()).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_a_store_held_last_is_called_that() {
    let server = Server::new().await;
    let tag = server.get("/").await.headers["etag"].clone();
    let (here, gone) = (server.folder.path(), server.folder.path().with_extension("gone"));
    let stale = "cannot be read just now";
    let wait = async |is_stale: bool| {
        for _ in 0..100 {
            let page = server.get("/").await;
            assert!(page.body.contains("numpy-paged"));
            if page.body.contains(stale) == is_stale {
                return page.headers["etag"].clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("stale: never {is_stale}");
    };
    fs::rename(here, &gone).unwrap();
    assert_ne!(wait(true).await, tag);
    let verdict = server.get("/verdicts/b0844e80e2c1").await;
    assert_eq!(verdict.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        !verdict.body.contains(&*gone.parent().unwrap().to_string_lossy()),
        "where it lies is nobody's business"
    );
    fs::rename(&gone, here).unwrap();
    assert_eq!(wait(false).await, tag);
}

#[tokio::test]
async fn a_server_answers_to_its_own_names_only() {
    let local = Server::with(|options| options.hosts = vec!["board.example".to_owned()]).await;
    let status = async |server: &Server, host: &str| {
        let request = Request::builder().uri("/").header(header::HOST, host).body(Body::empty()).unwrap();
        server.send(request).await.status
    };
    for host in ["localhost", "LOCALHOST:1", "127.0.0.1:7878", "[::1]:7878", "board.example"] {
        assert_eq!(status(&local, host).await, StatusCode::OK, "{host}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example", "192.168.0.1", "localhost.evil.example:7878", ""] {
        assert_eq!(status(&local, host).await, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    let open = Server::with(|options| options.listen = "0.0.0.0:0".parse().unwrap()).await;
    assert_eq!(status(&open, "evil.example").await, StatusCode::OK);
}

#[tokio::test]
async fn a_judging_is_seen_as_it_goes() {
    let server = Server::new().await;
    let mut events = Events::of(&server).await;
    let mut until = async |wanted: &str| events.until(wanted).await;
    until("event: board").await;
    until("data: []").await;
    let live = live::Live::announce(server.folder.path()).unwrap();
    let told = live.submission("<b>\u{202e}mallory</b>", "kv_cache");
    use tribunal_judge::Watch;
    told.phase("cases", Some(7));
    until("\"of\":7").await;
    // Cleaned, since a script shows it.
    until(r"<b>\\u{202e}mallory</b>").await;
    let page = server.get("/judgings").await.body;
    assert!(page.contains("mallory") && !page.contains("<b>") && page.contains("max=\"7\""), "{page}");
    assert_eq!(server.json("/api/judgings").await["judgings"][0]["submissions"][0]["challenge"], "kv_cache");
    drop((told, live));
    for _ in 0..100 {
        if server.json("/api/judgings").await["judgings"] == serde_json::json!([]) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it is over, and still there");
}

#[tokio::test]
async fn what_was_asked_for_is_followed_as_it_goes() {
    for hosts in [vec![], vec!["board.example".to_owned()]] {
        let is_private = hosts.is_empty();
        let submissions = tempfile::tempdir().unwrap();
        fs::create_dir(submissions.path().join("<b>eve")).unwrap();
        let server = Server::with(|options| {
            // What judges only says something, and fails.
            let said = ["-c", "echo 'no <i>compiler\u{202e}' >&2; exit 3"].map(Into::into).to_vec();
            let submissions = submissions.path().to_owned();
            options.judges = Some(Judges { program: "sh".into(), options: said, submissions });
            options.hosts = hosts;
        })
        .await;
        assert!(server.get("/judgings").await.body.contains("Nothing yet"));
        let mut events = Events::of(&server).await;
        events.until("event: tasks\ndata: []").await;
        let asked = server.post("/api/judgings", Some(TOKEN), "{\"path\": \"<b>eve\"}".to_owned()).await;
        assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.body);
        events.until("\"path\":\"<b>eve\",\"state\":\"failed\"").await;
        // It may name folders of this machine.
        assert_eq!(events.text.contains(r"no <i>compiler\\u{202e}"), is_private, "{}", events.text);
        let page = server.get("/judgings").await.body;
        assert!(page.contains("eve</code>: failed") && !page.contains("<b>"), "{page}");
        assert_eq!(page.contains("compiler"), is_private);
    }
}

#[tokio::test]
async fn what_cannot_be_answered_is_told_to_programs_as_json() {
    let server = Server::new().await;
    let deleted = |path| server.send(request(Method::DELETE, path).body(Body::empty()).unwrap());
    for (path, allowed) in [("/api/verdicts/b0844e80e2c1", "GET,HEAD"), ("/api/verdicts", "POST")] {
        let refused = deleted(path).await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(refused.headers["allow"], allowed);
        assert_eq!(refused.headers["content-type"], "application/json");
        let problem: Value = serde_json::from_str(&refused.body).unwrap();
        assert!(problem["error"].as_str().unwrap().starts_with("DELETE is not answered here"), "{problem}");
    }
    assert!(deleted("/").await.body.contains("<h1>Method Not Allowed</h1>"));
    for path in ["/api/verdicts/%ff", "/api/contestants/%C3%28", "/api/challenges/a%ffb"] {
        let refused = server.get(path).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{path}");
        assert_eq!(refused.headers["content-type"], "application/json");
        let problem: Value = serde_json::from_str(&refused.body).unwrap();
        assert!(problem["error"].as_str().unwrap().starts_with("the path is no text"), "{problem}");
    }
    assert!(server.get("/contestants/%ff").await.body.contains("<h1>Bad Request</h1>"));
}

#[tokio::test]
async fn a_bundle_comes_and_goes_to_the_last_digit() {
    let server = Server::new().await;
    // Their shortest texts are read as their neighbours by whoever is content with about sixteen digits.
    let exact = judged_anew("b0844e80e2c1", |evidence| {
        evidence.submission.name = "exact".to_owned();
        evidence.took_s = 31.245270191439438;
        evidence.measurements[0].samples = vec![121.48791951161945];
    });
    let kept = server.post("/api/verdicts", Some(TOKEN), exact.line()).await;
    assert_eq!(kept.status, StatusCode::CREATED, "{}", kept.body);
    let bundle = server.get(&format!("/api/verdicts/{}/bundle", exact.verdict.id)).await.body;
    assert!(bundle.contains(":31.245270191439438,") && bundle.contains(":[121.48791951161945]"), "{bundle}");
}

#[tokio::test]
async fn outcomes_have_a_sign_and_a_link_has_words() {
    let server = Server::new().await;
    let page = server.get("/contestants").await.body;
    for (sign, outcome) in
        [("✓", "accepted"), ("✗", "rejected"), ("⊘", "disqualified"), ("?", "infrastructure")]
    {
        let said = format!(
            "<span class=\"outcome {outcome}\"><span aria-hidden=\"true\">{sign}</span> {outcome}</span>"
        );
        assert!(page.contains(&said), "{outcome}: {page}");
    }
    assert!(page.contains(">no score</a>") && !page.contains(">–</a>"), "{page}");
    let home = server.get("/").await.body;
    assert!(
        home.contains(", 1 not judged (infrastructure).") && !home.contains("1 infrastructure"),
        "{home}"
    );
}

#[tokio::test]
async fn a_verdict_that_another_process_puts_appears() {
    let server = Server::new().await;
    assert!(!server.get("/contestants").await.body.contains("latecomer"));
    let store = Store::open(server.folder.path()).unwrap();
    let bundle = Bundle { kept_at_ms: None, ..renamed("4cca4112bf02", "latecomer") };
    store.keep(&bundle).unwrap();
    for _ in 0..100 {
        if server.get("/contestants").await.body.contains("latecomer") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("it never came");
}
