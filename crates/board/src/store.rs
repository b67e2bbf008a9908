//! Verdicts, kept with their evidence and the source they speak of.
//!
//! A store is an SQLite database, or a folder with a file for each verdict that can be put under version control and merged. Both
//! hold whole verdicts or none: any number of processes may write and read at once, and one that is killed leaves
//! everything that was put before it as it was. What is damaged is named and left alone.

mod database;
mod folder;

use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use tribunal_judge::{Rubric, SourceFile, Verdict};

use self::database::Database;
use self::folder::Folder;
use crate::json::ReadError;
use crate::{Bundle, Summary, clean};

/// Where verdicts are kept.
#[derive(Debug)]
pub struct Store {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Database(Database),
    Folder(Folder),
}

/// Everything that is kept.
#[derive(Debug, Default)]
pub struct Contents {
    /// What could be read, in the order in which it was put.
    pub bundles: Vec<Bundle>,
    /// What could not.
    pub damaged: Vec<Damaged>,
}

/// Something that should be a verdict and is none. It is left where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct Damaged {
    /// The file, or the database and the verdict's id.
    pub place: String,
    /// What is wrong with it.
    pub why: ReadError,
}

/// Why something could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No verdict's id begins so.
    #[error("no verdict's id begins with `{prefix}`")]
    NotFound {
        /// What was asked for.
        prefix: String,
    },
    /// Several verdicts' ids begin so.
    #[error("`{prefix}` may be any of {}", ids.join(", "))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// The ids that begin so.
        ids: Vec<String>,
    },
    /// There is nothing at the path, or an empty file.
    #[error("there is no store at {}", .0.display())]
    Absent(PathBuf),
    /// What is kept there is no verdict.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The verdict's id cannot name a file.
    #[error("`{0}` is no id of a verdict")]
    Id(String),
    /// A file that is no database, or another program's.
    #[error("{} is no store of verdicts: move it away, or give --store another place", .0.display())]
    Foreign(PathBuf),
    /// A database from a newer version.
    #[error(
        "{} is a store of the form {form}, and this version knows {}: use a newer tribunal, or --store another place",
        path.display(),
        database::FORM
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its form.
        form: u32,
    },
    /// The database is spoilt, or cannot be reached.
    #[error(
        "{}: {error}{}",
        path.display(),
        if database::is_spoilt(error) {
            "; `tribunal export --out DIR` saves what can be read, and --store takes DIR as it is; where it cannot be read at all, move it away, and the next judging makes a new one"
        } else {
            ""
        }
    )]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        error: rusqlite::Error,
    },
    /// The file system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// What became of a bundle from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is kept now: there was none of its id, or an older judging, or the same without its sources.
    Kept,
    /// The same was there.
    Unchanged,
    /// Another judging was there that is no older.
    PassedOver,
}

impl Store {
    /// Where a person's verdicts are kept unless they say otherwise. `None` for somebody without a home.
    pub fn default_path() -> Option<PathBuf> {
        let directories = directories::ProjectDirs::from("", "", "tribunal")?;
        Some(directories.data_dir().join("verdicts.sqlite"))
    }

    /// The store at that path, which is made if need be: a database where the path is a file or ends in `.sqlite` or `.db`, else a
    /// folder.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let kind = if is_database(&path) {
            Kind::Database(Database::open(path)?)
        } else {
            Kind::Folder(Folder::open(path)?)
        };
        Ok(Self { kind })
    }

    /// The store at that path if there is one. Nothing is made.
    pub fn existing(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let kind = if is_database(&path) {
            Kind::Database(Database::existing(path)?)
        } else {
            Kind::Folder(Folder::existing(path)?)
        };
        Ok(Self { kind })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        match &self.kind {
            Kind::Database(database) => database.path(),
            Kind::Folder(folder) => folder.path(),
        }
    }

    /// Keeps a verdict, and the source it speaks of. Judging the same again gives the same id: the later verdict takes the earlier's
    /// place, and counts as the last that was put.
    pub fn put(&self, verdict: &Verdict, sources: &[SourceFile]) -> Result<(), StoreError> {
        self.keep(&Bundle::new(verdict.clone(), sources.to_vec()))
    }

    /// As [`Store::put`], of a verdict that was ruled by a rubric that this program need not carry: a database keeps the draws of its score,
    /// which nobody could make later. A folder holds verdicts alone.
    pub fn put_ruled(
        &self,
        verdict: &Verdict,
        sources: &[SourceFile],
        rubric: &Rubric,
    ) -> Result<(), StoreError> {
        self.keep_as(&Bundle::new(verdict.clone(), sources.to_vec()), || Summary::ruled(verdict, rubric))
    }

    /// Keeps a bundle, at the place in the order that its time gives it, or as the last if it has none.
    pub fn keep(&self, bundle: &Bundle) -> Result<(), StoreError> {
        self.keep_as(bundle, || Summary::of(&bundle.verdict))
    }

    fn keep_as(&self, bundle: &Bundle, summary: impl FnOnce() -> Summary) -> Result<(), StoreError> {
        if !is_id(&bundle.verdict.id) {
            return Err(StoreError::Id(clean::line(&bundle.verdict.id)));
        }
        match &self.kind {
            Kind::Database(database) => database.keep(bundle, &summary()),
            Kind::Folder(folder) => folder.keep(bundle),
        }
    }

    /// Keeps a bundle from elsewhere, unless what is there is the same or no older.
    pub fn take(&self, bundle: &Bundle) -> Result<Taken, StoreError> {
        let there = match self.bundle(&bundle.verdict.id) {
            Ok(there) if there.verdict.id == bundle.verdict.id => Some(there),
            // A damaged one is set aside for the one that comes.
            Ok(_)
            | Err(StoreError::NotFound { .. } | StoreError::Ambiguous { .. } | StoreError::Damaged(_)) => {
                None
            }
            Err(error) => return Err(error),
        };
        if let Some(there) = there {
            let value = |bundle: &Bundle| serde_json::to_value(&bundle.verdict).expect("string keys only");
            let is_same = value(&there) == value(bundle);
            if is_same && (bundle.sources.is_empty() || bundle.sources == there.sources) {
                return Ok(Taken::Unchanged);
            }
            let adds_sources = is_same && there.sources.is_empty();
            if !adds_sources && there.kept_at_ms >= bundle.kept_at_ms {
                return Ok(Taken::PassedOver);
            }
        }
        self.keep(bundle)?;
        Ok(Taken::Kept)
    }

    /// The one verdict whose id begins so.
    pub fn get(&self, prefix: &str) -> Result<Verdict, StoreError> {
        let id = self.find(prefix)?;
        match &self.kind {
            Kind::Database(database) => database.verdict(&id),
            Kind::Folder(folder) => Ok(folder.bundle(&id)?.verdict),
        }
    }

    /// The one verdict whose id begins so, with its sources.
    pub fn bundle(&self, prefix: &str) -> Result<Bundle, StoreError> {
        let id = self.find(prefix)?;
        match &self.kind {
            Kind::Database(database) => database.bundle(&id),
            Kind::Folder(folder) => folder.bundle(&id),
        }
    }

    /// The source files that were kept with the one verdict whose id begins so.
    pub fn sources(&self, prefix: &str) -> Result<Vec<SourceFile>, StoreError> {
        let id = self.find(prefix)?;
        match &self.kind {
            Kind::Database(database) => database.sources(&id),
            Kind::Folder(folder) => Ok(folder.bundle(&id)?.sources),
        }
    }

    /// What tables show of every verdict, in the order in which they were put. Anybody can edit a folder's files: what does not follow from
    /// its evidence is damaged.
    pub fn summaries(&self) -> Result<(Vec<Summary>, Vec<Damaged>), StoreError> {
        match &self.kind {
            Kind::Database(database) => database.summaries(),
            Kind::Folder(folder) => {
                let read: Vec<_> = folder.ids("")?.par_iter().map(|id| folder.summary_at(id)).collect();
                in_order(read, |summary| &summary.id)
            }
        }
    }

    /// A number that is another after every put, by whatever process.
    pub fn version(&self) -> Result<u64, StoreError> {
        match &self.kind {
            Kind::Database(database) => database.version(),
            Kind::Folder(folder) => folder.version(),
        }
    }

    /// The ids of all verdicts, in no order.
    pub fn ids(&self) -> Result<Vec<String>, StoreError> {
        match &self.kind {
            Kind::Database(database) => database.ids(""),
            Kind::Folder(folder) => folder.ids(""),
        }
    }

    /// Every bundle, and everything that is damaged.
    pub fn all(&self) -> Result<Contents, StoreError> {
        let read = self.ids()?.into_iter().map(|id| match &self.kind {
            Kind::Database(database) => database.bundle_at(&id),
            Kind::Folder(folder) => folder.bundle_at(&id),
        });
        let (bundles, damaged) = in_order(read, |bundle| &bundle.verdict.id)?;
        Ok(Contents { bundles, damaged })
    }

    /// The one id that begins so.
    fn find(&self, prefix: &str) -> Result<String, StoreError> {
        let mut ids = match &self.kind {
            _ if !is_id(prefix) => Vec::new(),
            Kind::Database(database) => database.ids(prefix)?,
            Kind::Folder(folder) => folder.ids(prefix)?,
        };
        // A whole id is meant even where it begins another.
        if ids.iter().any(|id| id == prefix) {
            return Ok(prefix.to_owned());
        }
        match ids.len() {
            0 => Err(not_found(prefix)),
            1 => Ok(ids.remove(0)),
            _ => {
                ids.sort();
                Err(StoreError::Ambiguous { prefix: prefix.to_owned(), ids })
            }
        }
    }
}

/// Whether a store at that path is a database; else it is a folder.
pub(crate) fn is_database(path: &Path) -> bool {
    let named = path.extension().is_some_and(|extension| extension == "sqlite" || extension == "db");
    !path.is_dir() && (named || path.exists())
}

/// What was read, each with its place in the order, and what is damaged.
fn in_order<T>(
    read: impl IntoIterator<Item = Result<((u64, i64), T), StoreError>>,
    id: impl Fn(&T) -> &str,
) -> Result<(Vec<T>, Vec<Damaged>), StoreError> {
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for read in read {
        match read {
            Ok(this) => found.push(this),
            Err(StoreError::Damaged(this)) => damaged.push(this),
            // Another process may have replaced it.
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_by(|(at, a), (other, b)| at.cmp(other).then_with(|| id(a).cmp(id(b))));
    Ok((found.into_iter().map(|(_, this)| this).collect(), damaged))
}

fn not_found(prefix: &str) -> StoreError {
    StoreError::NotFound { prefix: clean::line(prefix) }
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { path: path.clone(), error }
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests;
