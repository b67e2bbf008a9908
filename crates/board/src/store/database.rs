//! One SQLite database.
//!
//! It is kept in WAL mode, so that readers and a writer do not wait for each other, with `synchronous = FULL`: what was put outlives a
//! power cut. That costs one sync of the disk a verdict, which took seconds or minutes to reach.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rayon::prelude::*;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, TransactionBehavior, params};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tribunal_judge::{SourceFile, Verdict};

use super::{Damaged, StoreError, at, not_found};
use crate::bundle::{self, Bundle, millis};
use crate::json::{self, ReadError};
use crate::{Summary, clean, summary};

/// The form of database that this version writes and reads.
pub(super) const FORM: u32 = 1;

/// Marks the file as a store of verdicts: `trib` in ASCII.
const APPLICATION: i32 = 0x7472_6962;

/// How long other processes may take with their puts: on a busy disk several of them wait for each other, and none is served in turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// No verdict unpacks to more than this; a damaged one might.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

/// What is written as `%xx` where a path is part of an address.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');

/// Verdicts that are unpacked together: as many lie in memory at once.
const VERDICTS_AT_ONCE: usize = 128;

/// Summaries lie apart from the evidence, so that a table reads little.
const TABLES: &str = "
    CREATE TABLE verdicts(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        challenge TEXT NOT NULL,
        contestant TEXT NOT NULL,
        kept_at_ms INTEGER NOT NULL,
        sources TEXT NOT NULL,
        summary_form INTEGER NOT NULL,
        summary TEXT NOT NULL,
        draws BLOB NOT NULL
    ) STRICT;
    CREATE INDEX verdicts_by_sources ON verdicts(sources);
    CREATE INDEX verdicts_by_time ON verdicts(kept_at_ms);
    CREATE TABLE evidence(id TEXT PRIMARY KEY, verdict BLOB NOT NULL) STRICT;
    CREATE TABLE sources(sha256 TEXT PRIMARY KEY, files BLOB NOT NULL) STRICT;
    CREATE TABLE set_aside(
        seq INTEGER PRIMARY KEY,
        id TEXT NOT NULL,
        kept_at_ms INTEGER NOT NULL,
        verdict BLOB
    ) STRICT;
";

#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    connection: Mutex<Connection>,
    /// The files as they were when they were taken for nobody's to write.
    frozen: Mutex<Option<Stamp>>,
}

/// Tells a database file from another state of it: number, time and size, and the size of the log beside it.
type Stamp = Option<(u64, i64, i64, u64, u64)>;

/// Whether SQLite found the file itself damaged.
pub(super) fn is_spoilt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

impl Database {
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        let mut connection = open_to_write(&path, OpenFlags::SQLITE_OPEN_CREATE).map_err(sql(&path))?;
        let is_new = !is_ours(&connection, &path)?;
        set_up(&mut connection, is_new).map_err(sql(&path))?;
        Ok(Self { path, connection: Mutex::new(connection), frozen: Mutex::new(None) })
    }

    /// The database that is there, to be written to if it can be.
    pub(super) fn existing(path: PathBuf) -> Result<Self, StoreError> {
        if !path.exists() {
            return Err(StoreError::Absent(path));
        }
        let mut connection = open_to_write(&path, OpenFlags::empty()).map_err(sql(&path))?;
        if !may_write(&connection) && !has_log(&path) {
            return Self::frozen(path);
        }
        if !is_ours(&connection, &path)? {
            return Err(StoreError::Absent(path));
        }
        set_up(&mut connection, false).map_err(sql(&path))?;
        Ok(Self { path, connection: Mutex::new(connection), frozen: Mutex::new(None) })
    }

    /// The database as it lies there, to be read alone. SQLite needs files beside one that may be written to, even to read it: where it
    /// cannot make them it fails, and what it makes may be in the way of who may write.
    pub(super) fn frozen(path: PathBuf) -> Result<Self, StoreError> {
        let stamp = stamp(&path);
        let connection = open_as_it_is(&path).map_err(sql(&path))?;
        if !is_ours(&connection, &path)? {
            return Err(StoreError::Absent(path));
        }
        Ok(Self { path, connection: Mutex::new(connection), frozen: Mutex::new(Some(stamp)) })
    }

    /// Opens it anew where it was taken for nobody's to write, and somebody wrote.
    fn thaw(&self) -> Result<(), StoreError> {
        let mut frozen = self.frozen.lock().unwrap_or_else(PoisonError::into_inner);
        if frozen.is_some_and(|then| then != stamp(&self.path)) {
            let anew = Self::existing(self.path.clone())?;
            *self.lock() = anew.connection.into_inner().unwrap_or_else(PoisonError::into_inner);
            *frozen = anew.frozen.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic between two statements rolls the transaction back; the connection is good still.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn keep(&self, bundle: &Bundle, summary: &Summary) -> Result<(), StoreError> {
        let Bundle { verdict, .. } = bundle;
        let packed = pack(json::line(verdict).as_bytes());
        let files = serde_json::to_string(&bundle.sources).expect("a list of texts");
        let files_packed = pack(files.as_bytes());
        let files_sha256: String = Sha256::digest(&files).iter().map(|byte| format!("{byte:02x}")).collect();
        let (summary, draws) = split(summary);

        let put = |connection: &mut Connection| -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            set_aside_if_damaged(&transaction, &verdict.id)?;
            let replaced: Option<String> = transaction
                .query_row("DELETE FROM verdicts WHERE id = ? RETURNING sources", [&verdict.id], |row| {
                    row.get(0)
                })
                .optional()?;
            let last: Option<i64> =
                transaction.query_row("SELECT max(kept_at_ms) FROM verdicts", [], |row| row.get(0))?;
            // Later than all others, even if the clock was set back.
            let now = (millis(SystemTime::now()) as i64).max(last.map_or(0, |last| last.saturating_add(1)));
            let kept_at = bundle.kept_at_ms.and_then(|at| i64::try_from(at).ok()).unwrap_or(now);
            transaction.execute(
                "INSERT INTO verdicts(id, challenge, contestant, kept_at_ms, sources, summary_form, summary, draws)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    verdict.id,
                    verdict.submission.challenge,
                    verdict.submission.name,
                    kept_at,
                    files_sha256,
                    summary::FORM,
                    summary,
                    draws
                ],
            )?;
            transaction
                .execute("INSERT OR REPLACE INTO evidence VALUES (?, ?)", params![verdict.id, packed])?;
            transaction.execute(
                "INSERT OR REPLACE INTO sources VALUES (?, ?)",
                params![files_sha256, files_packed],
            )?;
            if let Some(replaced) = replaced {
                transaction.execute(
                    "DELETE FROM sources WHERE sha256 = ?1
                     AND NOT EXISTS (SELECT 1 FROM verdicts WHERE sources = ?1)",
                    [&replaced],
                )?;
            }
            transaction.commit()
        };
        put(&mut self.lock()).map_err(sql(&self.path))
    }

    pub(super) fn verdict(&self, id: &str) -> Result<Verdict, StoreError> {
        let packed: Option<Vec<u8>> = self
            .lock()
            .query_row("SELECT verdict FROM evidence WHERE id = ?", [id], |row| row.get(0))
            .optional()
            .map_err(sql(&self.path))?;
        let packed = packed.ok_or_else(|| not_found(id))?;
        Ok(unpack_verdict(&packed).map_err(|why| self.damaged(id, why))?)
    }

    pub(super) fn sources(&self, id: &str) -> Result<Vec<SourceFile>, StoreError> {
        let packed: Option<Vec<u8>> = self
            .lock()
            .query_row(
                "SELECT files FROM sources JOIN verdicts ON sources.sha256 = verdicts.sources WHERE id = ?",
                [id],
                |row| row.get(0),
            )
            .optional()
            .map_err(sql(&self.path))?;
        let packed = packed.ok_or_else(|| not_found(id))?;
        Ok(unpack(&packed).map_err(|why| self.damaged(id, why))?)
    }

    pub(super) fn bundle(&self, id: &str) -> Result<Bundle, StoreError> {
        Ok(self.bundle_at(id)?.1)
    }

    /// A bundle with its place in the order: the time at which it was kept, and among equals the number of its row.
    pub(super) fn bundle_at(&self, id: &str) -> Result<((u64, i64), Bundle), StoreError> {
        let row = self
            .lock()
            .query_row(
                "SELECT kept_at_ms, seq, verdict, files FROM verdicts
                 LEFT JOIN evidence USING (id) LEFT JOIN sources ON sources.sha256 = verdicts.sources WHERE id = ?",
                [id],
                |row| {
                    let packed: (Option<Vec<u8>>, Option<Vec<u8>>) = (row.get(2)?, row.get(3)?);
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, packed))
                },
            )
            .optional()
            .map_err(sql(&self.path))?;
        let (kept_at, seq, (verdict, files)) = row.ok_or_else(|| not_found(id))?;
        let kept_at = u64::try_from(kept_at).unwrap_or(0);
        let read = || -> Result<Bundle, ReadError> {
            let gone = |what: &str| ReadError::Syntax(format!("its {what} are gone"));
            Ok(Bundle {
                schema: bundle::FORM.to_owned(),
                kept_at_ms: Some(kept_at),
                verdict: unpack_verdict(&verdict.ok_or_else(|| gone("findings"))?)?,
                sources: unpack(&files.ok_or_else(|| gone("sources"))?)?,
            })
        };
        Ok(((kept_at, seq), read().map_err(|why| self.damaged(id, why))?))
    }

    pub(super) fn summaries(&self) -> Result<(Vec<Summary>, Vec<Damaged>), StoreError> {
        let mut rows = rows(&self.lock()).map_err(sql(&self.path))?;
        rows.sort_unstable_by_key(|row| (row.kept_at, row.seq));
        let mut summaries: Vec<Option<Summary>> = rows.par_iter().map(Row::read).collect();
        let unread: Vec<usize> = (0..rows.len()).filter(|&at| summaries[at].is_none()).collect();
        let mut damaged = Vec::new();
        for some in unread.chunks(VERDICTS_AT_ONCE) {
            let packed = self.packed(some.iter().map(|&at| rows[at].id.as_str())).map_err(sql(&self.path))?;
            let computed: Vec<Result<Summary, ReadError>> = (some.par_iter().zip(packed))
                .map(|(&at, packed)| {
                    let packed =
                        packed.ok_or_else(|| ReadError::Syntax("its findings are gone".to_owned()))?;
                    Ok(rows[at].compute(&unpack_verdict(&packed)?))
                })
                .collect();
            for (&at, computed) in some.iter().zip(computed) {
                match computed {
                    Ok(summary) => summaries[at] = Some(summary),
                    Err(why) => damaged.push(self.damaged(&rows[at].id, why)),
                }
            }
        }
        let computed: Vec<_> =
            unread.iter().filter_map(|&at| Some((rows[at].seq, summaries[at].as_ref()?))).collect();
        if !computed.is_empty() {
            // Where they cannot be written, they are computed again the next time.
            let _ = write_summaries(&mut self.lock(), &computed);
        }
        Ok((summaries.into_iter().flatten().collect(), damaged))
    }

    /// The packed verdicts of these ids, where they are there.
    fn packed<'a>(&self, ids: impl Iterator<Item = &'a str>) -> rusqlite::Result<Vec<Option<Vec<u8>>>> {
        let connection = self.lock();
        let mut statement = connection.prepare("SELECT verdict FROM evidence WHERE id = ?")?;
        ids.map(|id| statement.query_row([id], |row| row.get(0)).optional()).collect()
    }

    pub(super) fn version(&self) -> Result<u64, StoreError> {
        self.thaw()?;
        let last: Option<i64> = self
            .lock()
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'verdicts'", [], |row| row.get(0))
            .optional()
            .map_err(sql(&self.path))?;
        Ok(last.map_or(0, i64::cast_unsigned))
    }

    /// The ids that begin so.
    pub(super) fn ids(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let read = |connection: &Connection| -> rusqlite::Result<Vec<String>> {
            // No id has a letter beyond `~`.
            let mut statement =
                connection.prepare("SELECT id FROM verdicts WHERE id >= ?1 AND id < ?1 || '~'")?;
            let rows = statement
                .query_map([prefix], |row| Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into()))?;
            rows.collect()
        };
        read(&self.lock()).map_err(sql(&self.path))
    }

    fn damaged(&self, id: &str, why: ReadError) -> Damaged {
        Damaged { place: format!("{}, verdict {}", self.path.display(), clean::line(id)), why }
    }
}

/// A verdict's row as it lies there.
struct Row {
    kept_at: i64,
    seq: i64,
    id: String,
    form: u32,
    summary: Vec<u8>,
    draws: Vec<u8>,
}

impl Row {
    /// The summary, where it is of our form and whole.
    fn read(&self) -> Option<Summary> {
        (self.form == summary::FORM).then(|| join(&self.summary, &self.draws)).flatten()
    }

    /// The summary from the evidence, for want of one of our form.
    fn compute(&self, verdict: &Verdict) -> Summary {
        let made_alike = (summary::DRAWS_SINCE..=summary::FORM).contains(&self.form);
        match draws(&self.draws).filter(|draws| made_alike && !draws.is_empty()) {
            Some(resampled) => Summary { resampled, ..Summary::without_draws(verdict) },
            None => Summary::of(verdict),
        }
    }
}

/// All rows, unread: to read them takes longer than to get them, and can be done by several threads.
fn rows(connection: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut statement =
        connection.prepare("SELECT kept_at_ms, seq, id, summary_form, summary, draws FROM verdicts")?;
    let rows = statement.query_map([], |row| {
        Ok(Row {
            kept_at: row.get(0)?,
            seq: row.get(1)?,
            id: String::from_utf8_lossy(row.get_ref(2)?.as_bytes()?).into_owned(),
            form: row.get(3)?,
            summary: row.get_ref(4)?.as_bytes()?.to_vec(),
            draws: row.get_ref(5)?.as_bytes()?.to_vec(),
        })
    })?;
    rows.collect()
}

/// Summaries of our form in place of others, so that they are computed once. A newer program's is left to it, and so is that of a verdict
/// that was put since.
fn write_summaries(connection: &mut Connection, computed: &[(i64, &Summary)]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction.prepare(
            "UPDATE verdicts SET summary_form = ?1, summary = ?2, draws = ?3 WHERE seq = ?4 AND summary_form <= ?1",
        )?;
        for (seq, summary) in computed {
            let (text, draws) = split(summary);
            statement.execute(params![summary::FORM, text, draws, seq])?;
        }
    }
    transaction.commit()
}

enum State {
    New,
    Ours(u32),
    Foreign,
}

fn state(connection: &Connection) -> rusqlite::Result<State> {
    // All is read at one moment: another process may be making the tables.
    let _moment = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let number = |query: &str| connection.query_row(query, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let form = number("PRAGMA user_version")?;
    Ok(if application == i64::from(APPLICATION) {
        State::Ours(u32::try_from(form).unwrap_or(u32::MAX))
    } else if application == 0 && form == 0 && number("SELECT count(*) FROM sqlite_master")? == 0 {
        State::New
    } else {
        State::Foreign
    })
}

fn open_to_write(path: &Path, making: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | making;
    guarded(Connection::open_with_flags(path, flags)?)
}

/// To be read as if nobody could write.
fn open_as_it_is(path: &Path) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let authority = if path.is_absolute() { "//" } else { "" };
    let path = percent_encode(path.as_os_str().as_bytes(), PATH);
    guarded(Connection::open_with_flags(format!("file:{authority}{path}?immutable=1"), flags)?)
}

fn guarded(connection: Connection) -> rusqlite::Result<Connection> {
    connection.busy_timeout(PATIENCE)?;
    // A file may come from elsewhere: its views and triggers are to run nothing of ours.
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Whether the file can be written to, and its folder, where what is written goes first.
fn may_write(connection: &Connection) -> bool {
    let is_refused = |error: rusqlite::Error| {
        matches!(error.sqlite_error_code(), Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen))
    };
    !connection.is_readonly("main").unwrap_or(false) && !state(connection).is_err_and(is_refused)
}

/// Whether somebody writes, or was killed at it: then the file alone is not all there is.
fn has_log(path: &Path) -> bool {
    log_bytes(path) > 0
}

fn log_bytes(path: &Path) -> u64 {
    let mut log = OsString::from(path);
    log.push("-wal");
    fs::metadata(log).map_or(0, |log| log.len())
}

fn stamp(path: &Path) -> Stamp {
    let file = fs::metadata(path).ok()?;
    Some((file.ino(), file.mtime(), file.mtime_nsec(), file.len(), log_bytes(path)))
}

/// Whether it is a store of ours; one that is new is nobody's yet.
fn is_ours(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    match state(connection).map_err(sql(path))? {
        State::New => Ok(false),
        State::Ours(FORM) => Ok(true),
        State::Ours(form) => Err(StoreError::Newer { path: path.to_owned(), form }),
        State::Foreign => Err(StoreError::Foreign(path.to_owned())),
    }
}

/// What a connection needs that may write.
fn set_up(connection: &mut Connection, is_new: bool) -> rusqlite::Result<()> {
    write_ahead(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    if is_new { create(connection) } else { Ok(()) }
}

/// SQLite does not always wait for others when the mode changes, which it does once in a database's life.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let started = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < PATIENCE =>
            {
                sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been quicker.
    if matches!(state(&transaction)?, State::New) {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", FORM)?;
    }
    transaction.commit()
}

/// A damaged verdict may be all that is left of something: it must not be written over.
fn set_aside_if_damaged(connection: &Connection, id: &str) -> rusqlite::Result<()> {
    let there: Option<Vec<u8>> = connection
        .query_row("SELECT verdict FROM evidence WHERE id = ?", [id], |row| row.get(0))
        .optional()?;
    if there.is_some_and(|packed| unpack_verdict(&packed).is_err()) {
        connection.execute(
            "INSERT INTO set_aside(id, kept_at_ms, verdict)
             SELECT id, kept_at_ms, evidence.verdict FROM verdicts JOIN evidence USING (id) WHERE id = ?",
            [id],
        )?;
    }
    Ok(())
}

fn sql(path: &Path) -> impl Fn(rusqlite::Error) -> StoreError {
    let path = path.to_owned();
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::Foreign(path.clone()),
        _ => StoreError::Database { path: path.clone(), error },
    }
}

/// A summary as JSON without its draws, and these as bytes: ten thousand times two hundred numbers take long to read as text.
fn split(summary: &Summary) -> (String, Vec<u8>) {
    let draws = summary.resampled.iter().flat_map(|draw| draw.to_le_bytes()).collect();
    let bare = Summary { resampled: Vec::new(), ..summary.clone() };
    (serde_json::to_string(&bare).expect("a summary has string keys only"), draws)
}

/// What [`split`] parted, if it is whole.
fn join(text: &[u8], bytes: &[u8]) -> Option<Summary> {
    let summary: Summary = serde_json::from_slice(text).ok()?;
    Some(Summary { resampled: draws(bytes)?, ..summary })
}

fn draws(bytes: &[u8]) -> Option<Vec<f32>> {
    let (draws, rest) = bytes.as_chunks();
    rest.is_empty().then(|| draws.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
}

pub(super) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes any bytes")
}

fn unpack_text(packed: &[u8]) -> Result<String, ReadError> {
    let mut text = String::new();
    let mut decoder = ZlibDecoder::new(packed).take(UNPACKED_BYTES_MAX);
    decoder.read_to_string(&mut text).map_err(|error| ReadError::Syntax(error.to_string()))?;
    Ok(text)
}

fn unpack_verdict(packed: &[u8]) -> Result<Verdict, ReadError> {
    json::read(&unpack_text(packed)?)
}

fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, ReadError> {
    serde_json::from_str(&unpack_text(packed)?).map_err(|error| ReadError::Syntax(error.to_string()))
}
