//! What all pages are made of, and what keeps it fresh.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::StatusCode;
use tokio::sync::watch;
use tokio::time::timeout;
use tribunal_board::Store;
use tribunal_board::live::{self, Judging};

use crate::problem::Problem;
use crate::snapshot::Snapshot;
use crate::tasks::Tasks;
use crate::{Options, ServeError};

/// How soon a change of the store, or a judging's progress, is seen.
const LOOK: Duration = Duration::from_millis(250);

/// How long a writer waits for pages to show what it wrote.
const REFRESH: Duration = Duration::from_secs(10);

/// A store, served.
pub struct Site {
    pub(crate) store: Arc<Store>,
    pub(crate) token: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) is_local: bool,
    /// What is being judged on request.
    pub(crate) tasks: Option<Tasks>,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    judgings: watch::Receiver<Arc<Vec<Judging>>>,
    watcher: Thread,
    /// Tells this run's pages from another's.
    started: u128,
    /// How often somebody asked for a look at once.
    asked: Arc<AtomicU64>,
    looked: watch::Receiver<u64>,
}

impl Site {
    /// Reads the store and goes on watching it.
    pub fn open(options: Options) -> Result<Arc<Self>, ServeError> {
        let Options { store, listen, hosts, token, judges } = options;
        let (path, store) = (store.path().to_owned(), Arc::new(store));
        let first = Arc::new(Snapshot::of(&store, None)?);
        let (snapshot_out, snapshot) = watch::channel(first);
        let (judgings_out, judgings) = watch::channel(Arc::new(live::judgings(&path)));
        let (looked_out, looked) = watch::channel(0);
        let asked = Arc::new(AtomicU64::new(0));
        let watcher = Watcher {
            path: path.clone(),
            store: store.clone(),
            asked: asked.clone(),
            snapshot: snapshot_out,
            judgings: judgings_out,
            looked: looked_out,
        };
        let watcher = thread::Builder::new().name("watcher".to_owned()).spawn(move || watcher.watch())?;
        Ok(Arc::new(Self {
            store,
            token: token.filter(|token| !token.is_empty()),
            hosts,
            is_local: listen.ip().is_loopback(),
            tasks: judges.map(|judges| Tasks::new(judges, path)),
            snapshot,
            judgings,
            watcher: watcher.thread().clone(),
            started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos()),
            asked,
            looked,
        }))
    }

    /// Whether only people of this machine read.
    pub(crate) fn is_private(&self) -> bool {
        self.is_local && self.hosts.is_empty()
    }

    /// The store as it was a moment ago.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }

    /// Every snapshot from now on.
    pub(crate) fn snapshots(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// What is being judged, now and from now on.
    pub(crate) fn judgings(&self) -> watch::Receiver<Arc<Vec<Judging>>> {
        self.judgings.clone()
    }

    /// What the page of that path and query is marked with, as it is made of that snapshot.
    pub(crate) fn tag(&self, snapshot: &Snapshot, key: &str) -> String {
        let mut hasher = DefaultHasher::new();
        (self.started, snapshot.version, snapshot.is_stale(), key).hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }

    /// Waits until the snapshot holds what is in the store now.
    pub(crate) async fn refresh(&self) {
        let mine = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.watcher.unpark();
        // Nobody may watch any more, or the store may be slow: what was written is there all the same.
        let _ = timeout(REFRESH, self.looked.clone().wait_for(|looked| *looked >= mine)).await;
    }

    /// A page or an answer, made unless it is at hand.
    pub(crate) async fn made<F>(
        self: Arc<Self>,
        key: String,
        make: F,
    ) -> Result<(Bytes, Arc<Snapshot>), Problem>
    where
        F: FnOnce(&Self, &Snapshot) -> Result<String, Problem> + Send + 'static,
    {
        let snapshot = self.snapshot();
        if let Some(page) = snapshot.page(&key) {
            return Ok((page, snapshot));
        }
        let made = tokio::task::spawn_blocking(move || {
            let page = Bytes::from(make(&self, &snapshot)?);
            snapshot.keep(key, page.clone());
            Ok((page, snapshot))
        });
        made.await.unwrap_or_else(|_| {
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the page could not be made: a defect of this program",
            ))
        })
    }
}

/// Looks after the store and what is being judged, until nobody wants to know.
struct Watcher {
    path: PathBuf,
    store: Arc<Store>,
    asked: Arc<AtomicU64>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    judgings: watch::Sender<Arc<Vec<Judging>>>,
    looked: watch::Sender<u64>,
}

impl Watcher {
    fn watch(self) {
        while !self.snapshot.is_closed() {
            let asked = self.asked.load(Ordering::SeqCst);
            let before = self.snapshot.borrow().clone();
            let changed = match self.store.version() {
                Ok(version) if version == before.version => Ok(None),
                Ok(_) => Snapshot::of(&self.store, Some(&before)).map(Some),
                Err(error) => Err(error),
            };
            // A store that cannot be read now may be read the next time; until then pages show what was read last, and say so.
            before.set_stale(changed.is_err());
            if let Ok(Some(snapshot)) = changed {
                self.snapshot.send_replace(Arc::new(snapshot));
            }
            let now = live::judgings(&self.path);
            self.judgings.send_if_modified(|judgings| {
                let differ = **judgings != now;
                if differ {
                    *judgings = Arc::new(now);
                }
                differ
            });
            self.looked.send_replace(asked);
            thread::park_timeout(LOOK);
        }
    }
}
