//! Verdicts kept as a folder of JSON files, `<id>.json`.
//!
//! A file appears whole or not at all: it is written beside its place and moved there. So any number of processes may
//! write at once, and one that is killed leaves nothing worse than a file with a name of its own.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tribunal_judge::Verdict;

use crate::json::{self, ReadError};
use crate::{Summary, clean};

const EXTENSION: &str = ".json";

/// Unfinished files begin so.
const UNFINISHED: &str = ".unfinished-";

/// An unfinished file this old has no writer any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of verdicts.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// Everything that is kept.
#[derive(Debug, Default)]
pub struct Contents {
    /// What could be read, in the order in which it was put.
    pub verdicts: Vec<Verdict>,
    /// What could not.
    pub damaged: Vec<Damaged>,
}

/// A file that should be a verdict and is none. It is left where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct Damaged {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: ReadError,
}

/// Why something could not be kept or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No verdict's id begins so.
    #[error("no verdict `{prefix}`")]
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
    /// The file is no verdict.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The verdict's id cannot name a file.
    #[error("`{0}` is no id of a verdict")]
    Id(String),
    /// The file system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl Store {
    /// Where a person's verdicts are kept unless they say otherwise. `None` for somebody without a home.
    pub fn default_folder() -> Option<PathBuf> {
        let directories = directories::ProjectDirs::from("", "", "tribunal")?;
        Some(directories.data_dir().join("verdicts"))
    }

    /// The store in that folder, which is made if need be.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let store = Self { folder };
        store.sweep()?;
        Ok(store)
    }

    /// Keeps a verdict. Judging the same again gives the same id, and the later verdict takes the earlier's place.
    pub fn put(&self, verdict: &Verdict) -> Result<PathBuf, StoreError> {
        if !is_id(&verdict.id) {
            return Err(StoreError::Id(clean::line(&verdict.id)));
        }
        let path = self.path(&verdict.id);
        self.set_aside_if_damaged(&path)?;
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .suffix(EXTENSION)
            .tempfile_in(&self.folder)
            .map_err(at(&self.folder))?;
        let text = json::line(verdict) + "\n";
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(at(file.path()))?;
        file.persist(&path).map_err(|error| at(&path)(error.error))?;
        Ok(path)
    }

    /// The one verdict whose id begins so.
    pub fn get(&self, prefix: &str) -> Result<Verdict, StoreError> {
        let not_found = || StoreError::NotFound { prefix: clean::line(prefix) };
        if !is_id(prefix) {
            return Err(not_found());
        }
        let mut ids = self.ids()?;
        ids.retain(|id| id.starts_with(prefix));
        // A whole id is meant even where it begins another.
        let id = ids.iter().find(|id| *id == prefix).or(ids.first()).ok_or_else(not_found)?;
        if ids.len() > 1 && id != prefix {
            ids.sort();
            return Err(StoreError::Ambiguous { prefix: prefix.to_owned(), ids });
        }
        Ok(read(&self.path(id))??)
    }

    /// What tables show of every verdict, in the order in which they were put.
    pub fn summaries(&self) -> Result<(Vec<Summary>, Vec<Damaged>), StoreError> {
        let Contents { verdicts, damaged } = self.all()?;
        Ok((verdicts.iter().map(Summary::of).collect(), damaged))
    }

    /// Every verdict, and every file that is damaged.
    pub fn all(&self) -> Result<Contents, StoreError> {
        let mut files = Vec::new();
        for id in self.ids()? {
            let path = self.path(&id);
            match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                Ok(modified) => files.push((modified, path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        files.sort();
        let mut contents = Contents::default();
        for (_, path) in files {
            match read(&path)? {
                Ok(verdict) => contents.verdicts.push(verdict),
                Err(damaged) => contents.damaged.push(damaged),
            }
        }
        Ok(contents)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}{EXTENSION}"))
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = fs::read_dir(&self.folder).map_err(at(&self.folder))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(at(&self.folder))
    }

    fn ids(&self) -> Result<Vec<String>, StoreError> {
        let names = self.names()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(EXTENSION)).filter(|id| is_id(id));
        Ok(ids.map(str::to_owned).collect())
    }

    /// A damaged file may be all that is left of something: it must not be written over.
    fn set_aside_if_damaged(&self, path: &Path) -> Result<(), StoreError> {
        if !path.exists() || read(path)?.is_ok() {
            return Ok(());
        }
        let aside = |number: u32| path.with_extension(format!("json.damaged-{number}"));
        let free = (1..).map(aside).find(|aside| !aside.exists()).expect("a number is free");
        match fs::rename(path, &free) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(path)(error)),
            _ => Ok(()),
        }
    }

    /// Clears away what killed writers left.
    fn sweep(&self) -> Result<(), StoreError> {
        for name in self.names()?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            let path = self.folder.join(name);
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
            if age.is_some_and(|age| age > ABANDONED) {
                // Another process may have been quicker; a file that cannot be removed does no harm.
                let _ = fs::remove_file(path);
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Result<Verdict, Damaged>, StoreError> {
    let bytes = fs::read(path).map_err(at(path))?;
    let text = String::from_utf8(bytes).map_err(|error| ReadError::Syntax(error.to_string()));
    Ok(text.and_then(|text| json::read(&text)).map_err(|why| Damaged { file: path.to_owned(), why }))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |error| StoreError::Io { path, error }
}

fn is_id(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

#[cfg(test)]
mod tests;
