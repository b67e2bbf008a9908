//! What is being judged now, told to every program that reads the same store.
//!
//! A process that judges lists its submissions in a file of its own beside the store: in `X.sqlite-live/` for a database `X.sqlite`,
//! in `.live/` inside a folder, where no reader of verdicts looks. `ID.json` says how far everything is. It is replaced as a whole, so
//! that nobody reads half of it. `ID.lock` is locked for as long as the process lives, however it ends; so a file whose lock can be
//! had was left by a dead one, and whoever reads clears it away.
//!
//! A change of phase is written at once, a step within a fifth of a second. While something is timed nothing is
//! written: steps of a submission's timing are not told, because writing would disturb the clocks.
//!
//! Names are those that submissions gave themselves, as they are. Who shows them cleans them.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, process, thread};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tribunal_judge::{Ruling, Verdict, Watch};

use crate::bundle::millis;
use crate::store::is_database;

/// The form that this version writes and reads.
pub const FORM: &str = "tribunal.judging/1";

/// What a submission waits in, before its turn and before it is timed.
pub const WAITING: &str = "waiting";

/// What a submission ends in on which the judge itself broke: it gets no verdict.
pub const BROKEN: &str = "broken off: the judge's own bug";

/// In this phase the clocks run, and steps are not told.
const TIMING: &str = "timing";

/// Steps are written at most this often.
const INTERVAL: Duration = Duration::from_millis(200);

/// No list of submissions is longer than this; another program's file might be.
const BYTES_MAX: u64 = 16 << 20;

const LOCK: &str = ".lock";

/// What one process is judging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    /// Always `tribunal.judging/1`.
    pub schema: String,
    /// Names the process; no two ever have the same.
    pub id: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// What it does as a whole: `controls`, `cases`, `timing`.
    pub phase: String,
    /// Controls or submissions that are through the phase, or being tried in it.
    pub done: usize,
    /// Of so many; null where that is not known.
    pub of: Option<usize>,
    /// What is judged, in the order in which it was given.
    pub submissions: Vec<Entry>,
}

/// How far a submission is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The contestant's name, as the submission has it.
    pub name: String,
    /// The id of the challenge.
    pub challenge: String,
    /// `waiting`, `building`, `cases`, `its own tests`, `weighing` or `timing`.
    pub phase: String,
    /// Steps of the phase that were begun.
    pub done: usize,
    /// Of so many; null where that is not known.
    pub of: Option<usize>,
    /// How it ended; null until then.
    pub outcome: Option<Ruling>,
    /// Its score; null until it ended, and where it has none.
    pub score: Option<f64>,
    /// The id of its verdict; null until it ended.
    pub verdict: Option<String>,
}

/// Tells others what this process is judging, until it is dropped.
#[derive(Debug)]
pub struct Live {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
    /// Locked, and removed when dropped.
    _lock: NamedTempFile,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    judging: Judging,
    /// When it was last written.
    written: Instant,
    /// Whether it has changed since.
    pending: bool,
    closed: bool,
}

/// When a change is written.
enum Pace {
    Now,
    Soon,
}

impl Live {
    /// Announces this process beside the store at that path.
    pub fn announce(store: &Path) -> io::Result<Self> {
        let folder = folder(store);
        let started_ms = millis(SystemTime::now());
        let lock = lock_new(&folder)?;
        let id = lock.path().file_stem().expect("it was given one").to_string_lossy().into_owned();
        let judging = Judging {
            schema: FORM.to_owned(),
            id,
            started_ms,
            phase: WAITING.to_owned(),
            done: 0,
            of: None,
            submissions: Vec::new(),
        };
        let state = State { judging, written: Instant::now(), pending: false, closed: false };
        let shared = Arc::new(Shared { folder, state: Mutex::new(state), changed: Condvar::new() });
        shared.write(&mut shared.lock())?;
        let writer = Arc::clone(&shared);
        let writer = thread::Builder::new().name("live".to_owned()).spawn(move || writer.write_when_due())?;
        Ok(Self { shared, writer: Some(writer), _lock: lock })
    }

    /// What the process does as a whole.
    pub fn whole(&self) -> Told {
        Told { shared: Arc::clone(&self.shared), entry: None }
    }

    /// Lists a submission, which waits for its turn.
    pub fn submission(&self, name: &str, challenge: &str) -> Told {
        let entry = Entry {
            name: name.to_owned(),
            challenge: challenge.to_owned(),
            phase: WAITING.to_owned(),
            done: 0,
            of: None,
            outcome: None,
            score: None,
            verdict: None,
        };
        let mut index = 0;
        self.shared.update(Pace::Soon, |judging| {
            index = judging.submissions.len();
            judging.submissions.push(entry);
        });
        Told { shared: Arc::clone(&self.shared), entry: Some(index) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write.
            let _ = writer.join();
        }
        let Shared { folder, .. } = &*self.shared;
        let id = self.shared.lock().judging.id.clone();
        // Whoever reads next clears away what cannot be removed now. The folder stays if others are announced in it.
        remove(folder, &id);
        let _ = fs::remove_dir(folder);
    }
}

/// Tells how far something is: a submission, or the whole.
#[derive(Debug, Clone)]
pub struct Told {
    shared: Arc<Shared>,
    /// None for the whole.
    entry: Option<usize>,
}

impl Told {
    /// The submission has its verdict.
    pub fn ruled(&self, verdict: &Verdict) {
        let Some(entry) = self.entry else { return };
        self.shared.update(Pace::Now, |judging| {
            let entry = &mut judging.submissions[entry];
            entry.outcome = Some(verdict.outcome);
            entry.score = verdict.score;
            entry.verdict = Some(verdict.id.clone());
        });
    }
}

impl Watch for Told {
    fn phase(&self, what: &str, steps: Option<usize>) {
        self.shared.update(Pace::Now, |judging| {
            let (phase, done, of) = judging.at(self.entry);
            what.clone_into(phase);
            (*done, *of) = (0, steps);
        });
    }

    fn step(&self, _: &str) {
        let timing = self.shared.lock().judging.at(self.entry).0 == TIMING;
        // Between the timing of two submissions no clock runs, but soon one will.
        let pace = match (timing, self.entry) {
            (true, Some(_)) => return,
            (true, None) => Pace::Now,
            (false, _) => Pace::Soon,
        };
        self.shared.update(pace, |judging| {
            let (_, done, of) = judging.at(self.entry);
            // Looking for smaller cases takes steps beyond those that were planned.
            *done = of.map_or(*done + 1, |of| of.min(*done + 1));
        });
    }
}

impl Judging {
    fn at(&mut self, entry: Option<usize>) -> (&mut String, &mut usize, &mut Option<usize>) {
        match entry {
            None => (&mut self.phase, &mut self.done, &mut self.of),
            Some(entry) => {
                let Entry { phase, done, of, .. } = &mut self.submissions[entry];
                (phase, done, of)
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What was being changed when a thread panicked is still a list to be shown.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, pace: Pace, change: impl FnOnce(&mut Judging)) {
        let mut state = self.lock();
        change(&mut state.judging);
        match pace {
            // Where it cannot be written nobody sees it, and the judging goes on.
            Pace::Now => drop(self.write(&mut state)),
            Pace::Soon if !state.pending => {
                state.pending = true;
                self.changed.notify_one();
            }
            Pace::Soon => {}
        }
    }

    /// Replaces the file as a whole. It is written under one name, for the state is locked.
    fn write(&self, state: &mut State) -> io::Result<()> {
        if state.closed {
            return Ok(());
        }
        (state.pending, state.written) = (false, Instant::now());
        let [file, unfinished] = files(&self.folder, &state.judging.id);
        fs::write(&unfinished, serde_json::to_string(&state.judging).expect("string keys only"))?;
        fs::rename(unfinished, file)
    }

    fn write_when_due(&self) {
        let mut state = self.lock();
        while !state.closed {
            let due = INTERVAL.saturating_sub(state.written.elapsed());
            state = if !state.pending {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else if !due.is_zero() {
                self.changed.wait_timeout(state, due).unwrap_or_else(PoisonError::into_inner).0
            } else {
                drop(self.write(&mut state));
                state
            };
        }
    }
}

/// What is being judged into the store at that path, by whatever process, the eldest first. What dead processes left is removed.
pub fn judgings(store: &Path) -> Vec<Judging> {
    let folder = folder(store);
    if !is_ours(&folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter_map(|name| Some(name.strip_suffix(LOCK)?.to_owned()));
    let mut judgings: Vec<_> = ids.filter_map(|id| look(&folder, &id)).collect();
    judgings.sort_by(|a, b| (a.started_ms, &a.id).cmp(&(b.started_ms, &b.id)));
    judgings
}

/// Whether it is a folder and no link: what came with a store may lead elsewhere, where nothing is ours to write or remove.
fn is_ours(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|there| there.is_dir())
}

fn look(folder: &Path, id: &str) -> Option<Judging> {
    let lock = open_plain(&folder.join(format!("{id}{LOCK}")))?;
    match lock.try_lock_shared() {
        Ok(()) => {
            // Removed under the lock: a process that is just being announced sees that its file is gone.
            remove(folder, id);
            None
        }
        Err(fs::TryLockError::WouldBlock) => {
            let [file, _] = files(folder, id);
            let mut text = String::new();
            open_plain(&file)?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
            let judging: Judging = serde_json::from_str(&text).ok()?;
            (judging.schema == FORM && judging.id == id).then_some(judging)
        }
        // Whether its owner lives cannot be told.
        Err(fs::TryLockError::Error(_)) => None,
    }
}

/// A file, if it is one: to open a pipe would be to wait for its writer.
fn open_plain(path: &Path) -> Option<fs::File> {
    fs::symlink_metadata(path).ok()?.is_file().then(|| fs::File::open(path).ok())?
}

/// A new file, locked. Others may be removing the folder, or take the file for a dead one's before it is locked.
fn lock_new(folder: &Path) -> io::Result<NamedTempFile> {
    for _ in 0..10 {
        match fs::create_dir_all(folder) {
            // It was there, and was gone before it could be seen that it is a folder.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !is_in_the_way(folder) => continue,
            made => made?,
        }
        // It may be gone again.
        if !is_ours(folder) && fs::symlink_metadata(folder).is_ok() {
            return Err(io::Error::other(format!("{} is a link, and leads elsewhere", folder.display())));
        }
        let made = tempfile::Builder::new()
            .prefix(&format!("{}-", process::id()))
            .suffix(LOCK)
            // As other programs make files: the umask says who may read them.
            .permissions(fs::Permissions::from_mode(0o666))
            .rand_bytes(12)
            .tempfile_in(folder);
        let made = match made {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            made => made?,
        };
        made.as_file().lock()?;
        if made.as_file().metadata()?.nlink() > 0 {
            return Ok(made);
        }
    }
    Err(io::Error::other(format!("{} is removed again and again", folder.display())))
}

fn is_in_the_way(folder: &Path) -> bool {
    fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir())
}

/// Where those who judge into the store at that path are announced.
fn folder(store: &Path) -> PathBuf {
    if is_database(store) {
        let mut path = OsString::from(store);
        path.push("-live");
        path.into()
    } else {
        store.join(".live")
    }
}

/// The file that is read, and the one that is written before it takes that one's place.
fn files(folder: &Path, id: &str) -> [PathBuf; 2] {
    [folder.join(format!("{id}.json")), folder.join(format!(".{id}.json"))]
}

/// Removes all that a process left; the lock last, by which it is found.
fn remove(folder: &Path, id: &str) {
    let [file, unfinished] = files(folder, id);
    for path in [file, unfinished, folder.join(format!("{id}{LOCK}"))] {
        // It may not be there, and another reader may be quicker.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests;
