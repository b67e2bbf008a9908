//! Pages in a real browser: chromium as the system has it, driven by Python's playwright, with axe-core's rules of accessibility.
//!
//! `checks.py` says what must hold of every page. The verdicts in `tests/verdicts` were judged by `tribunal judge --effort quick`; two of
//! them are by contestants whose every text is markup, or wider than any screen. With `TRIBUNAL_SHOTS=DIR` pictures are left there.

mod browser;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use browser::{Browser, Page};
use tribunal_board::compare::{Contestant, compare, document};
use tribunal_board::live::{Live, Told};
use tribunal_board::{Bundle, Store, Summary, html};
use tribunal_judge::Watch;
use tribunal_serve::{Judges, Options, Site, router};

const TOKEN: &str = "a token";

/// The verdicts that pages are made of, the oldest first.
fn bundles() -> Vec<Bundle> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verdicts");
    let contents = Store::open(folder).expect("a folder of bundles").all().expect("bundles");
    assert!(contents.damaged.is_empty(), "{:?}", contents.damaged);
    contents.bundles
}

/// A server over those verdicts in that folder, but for the one that is left out.
fn serve_verdicts(store: &Path, without: &str) -> SocketAddr {
    let kept = Store::open(store).expect("a folder");
    for bundle in bundles().iter().filter(|bundle| bundle.verdict.submission.name != without) {
        kept.keep(bundle).expect("a file");
    }
    // Whatever is asked for is judged by a program that only fails.
    let judges = Judges { program: "false".into(), options: Vec::new(), submissions: store.to_owned() };
    serve(|listen| {
        let token = Some(TOKEN.to_owned());
        let options = Options { store: kept, listen, hosts: Vec::new(), token, judges: Some(judges) };
        router(Site::open(options).expect("a store"))
    })
}

/// Serves on a port of this machine until the test's process ends.
fn serve(router: impl FnOnce(SocketAddr) -> Router) -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    let router = router(address);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            axum::serve(listener, router).await.expect("a server");
        });
    });
    address
}

#[test]
fn faults_are_found() {
    let Some(browser) = Browser::find() else { return };
    let address = serve(|_| Router::new().route("/", get(Html(include_str!("faults.html")))));
    let page = Page { title: Some("Faults".to_owned()), ..Page::new("faults", format!("http://{address}/")) };
    let results = browser.check(&[page]);
    let found = |setup: &str, start: &str| {
        results.iter().any(|result| {
            result.setup.starts_with(setup) && result.faults.iter().any(|fault| fault.starts_with(start))
        })
    };
    for (setup, start) in [
        ("desktop", "sideways: the page is"),
        ("phone", "sideways: the page is"),
        ("phone", "sideways: from "),
        ("phone", "spilt: "),
        ("desktop", "handler: onclick"),
        ("desktop", "foreign: img"),
        ("desktop", "foreign: a script"),
        ("desktop", "headings: h3 after h1"),
        ("desktop", "colour alone: "),
        ("phone", "small: 20 high"),
        ("desktop", "overlap: "),
        ("desktop", "axe: color-contrast"),
        ("phone", "axe: target-size"),
        ("desktop", "focus: not to be seen"),
        ("desktop", "focus: out of sight"),
        ("desktop", "link: /nowhere answers 404"),
        ("desktop", "link: nothing here is called #nowhere"),
        ("desktop", "policy: img-src"),
        ("desktop", "console: a complaint"),
        ("desktop", "script: a defect"),
        ("desktop", "dialog: hello"),
        ("desktop", "title: 'Owned'"),
        ("no scripts", "content: letters"),
    ] {
        assert!(found(setup, start), "{setup}: no {start:?} in {results:#?}");
    }
}

#[test]
fn files_can_be_read_by_everybody() {
    let Some(browser) = Browser::find() else { return };
    let bundles = bundles();
    let verdicts: Vec<_> = bundles.iter().map(|bundle| bundle.verdict.clone()).collect();
    let summaries: Vec<Summary> = verdicts.iter().map(Summary::of).collect();
    let named = |name: &str| {
        bundles.iter().find(|bundle| bundle.verdict.submission.name.contains(name)).expect("a contestant")
    };
    let contestants = ["plain-numpy", "gamma-outside-means", "<script>", "WWWW"].map(|name| {
        let verdict = named(name).verdict.clone();
        Contestant { label: verdict.submission.name.clone(), verdicts: vec![verdict] }
    });

    let folder = tempfile::tempdir().expect("a folder");
    let mut pages = Vec::new();
    let mut write = |name: &str, html: String| {
        let path = folder.path().join(format!("{name}.html"));
        std::fs::write(&path, html).expect("a file");
        pages.push(Page::new(name, format!("file://{}", path.display())));
    };
    write("report", html::report(&verdicts));
    write("board", html::board(&summaries));
    for name in ["<script>", "WWWW", "gamma-outside-means", "forged-done"] {
        let bundle = named(name);
        write(&format!("verdict {}", bundle.verdict.id), html::verdict(&bundle.verdict, &bundle.sources));
    }
    write("compare", tribunal_board::document::html::page(&document(&compare(&contestants, &[]))));
    let hostile = pages.iter_mut().find(|page| page.name.ends_with(&named("<script>").verdict.id));
    let name = &named("<script>").verdict.submission.name;
    hostile.expect("a page").title = Some(format!("{name} · layer_norm_backward · Tribunal"));
    browser::assert_sound(&browser.check(&pages));
}

#[test]
fn the_servers_pages_can_be_read_by_everybody() {
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = serve_verdicts(folder.path(), "");
    let verdict = |name: &str| {
        let mut bundles = bundles().into_iter();
        bundles.find(|bundle| bundle.verdict.submission.name.contains(name)).expect("a contestant").verdict
    };
    let (hostile, wide) = (verdict("<script>"), verdict("WWWW"));
    let contestant = html::Links::Paths.contestant(&hostile.submission.name).expect("a path");
    let mut pages: Vec<Page> = [
        ("board", "/".to_owned()),
        ("challenge", "/challenges/layer_norm_backward".to_owned()),
        ("nobody found", "/challenges/layer_norm_backward?q=nobody".to_owned()),
        ("contestants", "/contestants".to_owned()),
        ("contestant", contestant),
        ("verdict", format!("/verdicts/{}?outcome=fail", wide.id)),
        ("accepted", format!("/verdicts/{}", verdict("plain-numpy").id)),
        ("source", format!("/verdicts/{}/source/helper.py#L1", hostile.id)),
        ("compare", "/compare".to_owned()),
        ("compared", "/compare?with=two-pass-c&with=memoised-answers&with=".to_owned() + &wide.id),
        ("judgings", "/judgings".to_owned()),
    ]
    .into_iter()
    .map(|(name, path)| Page::new(name, format!("http://{address}{path}")))
    .collect();
    pages[4].title = Some(format!("{} · Tribunal", hostile.submission.name));
    browser::assert_sound(&browser.check(&pages));
}

#[test]
fn a_reader_finds_the_way() {
    const LATE: &str = "running-sum-c";
    let Some(browser) = Browser::find() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let address = serve_verdicts(folder.path(), LATE);
    let bundles = bundles();
    let named = |part: &str| {
        let mut names = bundles.iter().map(|bundle| &bundle.verdict.submission.name);
        names.find(|name| name.contains(part)).expect("a contestant")
    };
    let late = bundles.iter().find(|bundle| bundle.verdict.submission.name == LATE).expect("a contestant");
    let markup = named("<script>");

    let mut live: Option<(Live, Told)> = None;
    let act = |what: &str| match what {
        "announce" => {
            let announced = Live::announce(folder.path()).expect("a folder");
            announced.whole().phase("cases", Some(2));
            let told = announced.submission(LATE, "fused_softmax_topk");
            announced.submission(markup, "layer_norm_backward");
            live = Some((announced, told));
        }
        "step" => {
            let (_, told) = live.as_ref().expect("a judging");
            told.phase("cases", Some(7));
            for step in ["a", "b", "c"] {
                told.step(step);
            }
        }
        "ask for one" => {
            std::fs::create_dir_all(folder.path().join("asked-for")).expect("a folder");
            let mut stream = TcpStream::connect(address).expect("a server");
            let body = "{\"path\": \"asked-for\"}";
            write!(
                stream,
                "POST /api/judgings HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
                 Authorization: Bearer {TOKEN}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("a request");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
        }
        "rule" => {
            let store = Store::open(folder.path()).expect("a folder");
            store.put(&late.verdict, &late.sources).expect("a file");
            live.as_ref().expect("a judging").1.ruled(&late.verdict);
        }
        "end" => {
            live = None;
            // The next screen sees it anew.
            std::fs::remove_file(folder.path().join(format!("{}.json", late.verdict.id))).expect("a file");
        }
        other => panic!("{other} is nothing that can be done"),
    };
    let order = serde_json::json!({"url": format!("http://{address}"), "hostile": [markup]});
    browser::assert_sound(&browser.walk(order, act));
}
