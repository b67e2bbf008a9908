//! The browser, and the Python that drives it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

/// What browsers that can be driven are called.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// A browser is as much work for a machine as all other tests: one at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A page to be looked at.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) url: String,
    /// What its title must be and remain.
    pub(crate) title: Option<String>,
}

impl Page {
    pub(crate) fn new(name: &str, url: String) -> Self {
        Self { name: name.to_owned(), url, title: None }
    }
}

/// What is wrong with a page on one kind of screen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) page: String,
    pub(crate) setup: String,
    pub(crate) faults: Vec<String>,
}

pub(crate) struct Browser {
    chromium: PathBuf,
    python: PathBuf,
}

impl Browser {
    /// The browser, or `None`, said and counted, on a machine that has none.
    pub(crate) fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Result<Browser, String>> = OnceLock::new();
        match FOUND.get_or_init(Self::look_for) {
            Ok(browser) => Some(browser),
            Err(why) => {
                let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
                // Past the harness, which keeps what a passing test prints to itself.
                let _ = writeln!(std::io::stderr(), "skipped ({count} so far): pages in a browser: {why}");
                None
            }
        }
    }

    fn look_for() -> Result<Self, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let chromium = std::env::split_paths(&path)
            .flat_map(|folder| NAMES.map(|name| folder.join(name)))
            .find(|program| program.is_file())
            .ok_or("no chromium here: apt-get install chromium, or the like")?;
        Ok(Self { chromium, python: provide_python()? })
    }

    /// Looks at pages. Nothing is wrong with any of them if all lists of faults are empty.
    pub(crate) fn check(&self, pages: &[Page]) -> Vec<Seen> {
        let pages: Vec<Value> = pages
            .iter()
            .map(|page| json!({"name": page.name, "url": page.url, "title": page.title}))
            .collect();
        self.run("check.py", json!({"pages": pages}), |what| panic!("nothing can be done: {what}"))
    }

    /// Goes through a server's pages. `act` does to its store what a walk asks for.
    pub(crate) fn walk(&self, order: Value, act: impl FnMut(&str)) -> Vec<Seen> {
        self.run("walk.py", order, act)
    }

    /// One of the programs beside this file: an order as JSON, and a result a line.
    fn run(&self, program: &str, mut order: Value, mut act: impl FnMut(&str)) -> Vec<Seen> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        order["chromium"] = json!(self.chromium);
        order["shots"] = json!(std::env::var_os("TRIBUNAL_SHOTS").map(PathBuf::from));
        let mut child = Command::new(&self.python)
            .arg("-B")
            .arg(here().join(program))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a Python that ran before");
        let mut said = child.stdin.take().expect("a pipe");
        writeln!(said, "{order}").expect("a reader");
        let mut seen = Vec::new();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
            let line: Value = serde_json::from_str(&line.expect("text")).expect("a line of JSON");
            if let Some(what) = line["do"].as_str() {
                act(what);
                writeln!(said).expect("a reader");
                continue;
            }
            seen.push(Seen {
                page: text(&line["page"]),
                setup: text(&line["setup"]),
                faults: line["faults"].as_array().expect("a list").iter().map(text).collect(),
            });
        }
        let status = child.wait().expect("a child");
        assert!(status.success(), "{program} ended with {status}");
        seen
    }
}

/// Says everything that is wrong, not only the first.
pub(crate) fn assert_sound(seen: &[Seen]) {
    assert!(!seen.is_empty());
    let faults: Vec<String> = seen
        .iter()
        .flat_map(|seen| {
            seen.faults.iter().map(move |fault| format!("{}, {}: {fault}", seen.page, seen.setup))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// A Python with what `requirements.txt` lists, made in the target folder if it is not there yet.
fn provide_python() -> Result<PathBuf, String> {
    let requirements = here().join("requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).expect("a file beside this one");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browser-python");
    let (python, stamp) = (folder.join("bin/python3"), folder.join("installed.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    let ran = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it failed").to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    ran(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .map_err(|why| format!("no virtual environment can be made: {why}"))?;
    ran(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"])
        .args(["--only-binary", ":all:", "-r"])
        .arg(&requirements))
    .map_err(|why| format!("pip cannot install playwright: {why}"))?;
    std::fs::write(&stamp, wanted).map_err(|error| error.to_string())?;
    Ok(python)
}
