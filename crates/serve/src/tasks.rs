//! Folders that are judged because somebody asked for it over the network.
//!
//! Each is judged by a process of its own, the same as if it had been judged by hand, one after the other: two at a time would spoil each
//! other's times.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::problem::Problem;

/// Tasks that wait at most.
const WAITING_MAX: usize = 100;

/// Tasks that are remembered when they are done.
const REMEMBERED: usize = 200;

/// Bytes of what a failed judging said that are passed on.
const SAID_BYTES_MAX: usize = 2000;

/// What judges, and whom.
#[derive(Debug, Clone)]
pub struct Judges {
    /// The program: `tribunal`.
    pub program: PathBuf,
    /// Options before its command, beside `--store`.
    pub options: Vec<OsString>,
    /// Only folders below this one are judged.
    pub submissions: PathBuf,
}

/// What to judge.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// A folder, relative to that of the submissions.
    path: PathBuf,
    #[serde(default)]
    effort: Effort,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effort {
    Quick,
    #[default]
    Standard,
    Full,
}

/// Something that was asked for, and what became of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Task {
    pub(crate) task: u64,
    /// Relative to the folder of submissions.
    pub(crate) path: PathBuf,
    pub(crate) state: State,
    /// Ids of verdicts.
    pub(crate) verdicts: Vec<String>,
    /// What went wrong, where something did. Not yet cleaned.
    pub(crate) said: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Waiting,
    Running,
    /// Judged, well or badly.
    Done,
    /// Not judged.
    Failed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// Everything that was asked for.
pub(crate) struct Tasks {
    root: PathBuf,
    list: watch::Sender<VecDeque<Task>>,
    queue: SyncSender<(u64, Order)>,
}

impl Tasks {
    pub(crate) fn new(judges: Judges, store: PathBuf) -> Self {
        let (queue, orders) = sync_channel(WAITING_MAX);
        let list = watch::Sender::new(VecDeque::new());
        let tasks = Self { root: judges.submissions.clone(), list: list.clone(), queue };
        thread::spawn(move || work(&judges, &store, &list, &orders));
        tasks
    }

    /// Puts a folder into the queue.
    pub(crate) fn add(&self, order: Order) -> Result<Task, Problem> {
        below(&self.root, &order.path)?;
        let mut task = Task {
            task: 1,
            path: order.path.clone(),
            state: State::Waiting,
            verdicts: Vec::new(),
            said: None,
        };
        let mut queued = Ok(());
        self.list.send_if_modified(|list| {
            task.task = list.back().map_or(1, |last| last.task + 1);
            queued = self.queue.try_send((task.task, order));
            if queued.is_ok() {
                list.push_back(task.clone());
            }
            if list.len() > REMEMBERED {
                list.pop_front();
            }
            queued.is_ok()
        });
        queued.map(|()| task).map_err(|error| match error {
            TrySendError::Full(_) => Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("{WAITING_MAX} folders wait already: try again later"),
            ),
            TrySendError::Disconnected(_) => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "nobody judges any more: a defect of this program",
            ),
        })
    }

    /// All that are remembered, as [`last_first`] tells them.
    pub(crate) fn list(&self, with_said: bool) -> Vec<Task> {
        last_first(&self.list.borrow(), with_said).collect()
    }

    /// The same, now and from now on, in the order in which they were asked for.
    pub(crate) fn watch(&self) -> watch::Receiver<VecDeque<Task>> {
        self.list.subscribe()
    }
}

/// Tasks, the last first. What was said names this machine's folders: it is for those who may see them.
pub(crate) fn last_first(list: &VecDeque<Task>, with_said: bool) -> impl Iterator<Item = Task> {
    let shown = move |task: &Task| Task { said: task.said.clone().filter(|_| with_said), ..task.clone() };
    list.iter().rev().map(shown)
}

/// The folder, if it lies below the root, links followed. What lies elsewhere is as if it were not there.
fn below(root: &Path, path: &Path) -> Result<PathBuf, Problem> {
    let folder = root.join(path).canonicalize();
    let root = root.canonicalize().map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, format!("{}: {error}", root.display()))
    })?;
    folder.ok().filter(|folder| *folder != root && folder.starts_with(&root) && folder.is_dir()).ok_or_else(
        || Problem::bad(format!("`{}` is no folder below that of the submissions", path.display())),
    )
}

fn work(
    judges: &Judges,
    store: &Path,
    list: &watch::Sender<VecDeque<Task>>,
    orders: &Receiver<(u64, Order)>,
) {
    let change = |id: u64, change: &dyn Fn(&mut Task)| {
        list.send_modify(|list| list.iter_mut().filter(|task| task.task == id).for_each(change));
    };
    for (id, order) in orders {
        change(id, &|task| task.state = State::Running);
        // It may have become another while it waited.
        let ended = below(&judges.submissions, &order.path).map_err(|why| why.text()).and_then(|folder| {
            judged(judges, store, &order, &folder)
                .map_err(|error| format!("{}: {error}", judges.program.display()))
        });
        change(id, &|task| match &ended {
            Ok(output) => {
                task.verdicts = ids(&output.stdout);
                // 0 accepted, 1 rejected, 4 disqualified: all of them verdicts.
                let is_judged = matches!(output.status.code(), Some(0 | 1 | 4)) && !task.verdicts.is_empty();
                task.state = if is_judged { State::Done } else { State::Failed };
                task.said = (!is_judged).then(|| tail(&output.stderr));
            }
            Err(why) => {
                task.state = State::Failed;
                task.said = Some(why.clone());
            }
        });
    }
}

fn judged(judges: &Judges, store: &Path, order: &Order, folder: &Path) -> io::Result<Output> {
    let effort = match order.effort {
        Effort::Quick => "quick",
        Effort::Standard => "standard",
        Effort::Full => "full",
    };
    Command::new(&judges.program)
        .args(&judges.options)
        .arg("--store")
        .arg(store)
        .args(["--quiet", "judge", "--json", "--effort", effort, "--"])
        .arg(folder)
        .env_remove("TRIBUNAL_TOKEN")
        .stdin(Stdio::null())
        .output()
}

/// The ids of the verdicts, one a line.
fn ids(stdout: &[u8]) -> Vec<String> {
    #[derive(Deserialize)]
    struct Verdict {
        id: String,
    }
    let lines = stdout.split(|&byte| byte == b'\n');
    lines.filter_map(|line| Some(serde_json::from_slice::<Verdict>(line).ok()?.id)).collect()
}

fn tail(stderr: &[u8]) -> String {
    let from = stderr.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&stderr[from..]).trim().to_owned()
}
