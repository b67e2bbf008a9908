//! A folder of bundles, `<id>.json`; verdicts that stand alone are read as well.
//!
//! A file appears whole or not at all: it is written beside its place and moved there.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Damaged, StoreError, at, is_id, not_found};
use crate::bundle::millis;
use crate::{Bundle, Summary};

pub(super) const EXTENSION: &str = ".json";

/// Unfinished files begin so.
pub(super) const UNFINISHED: &str = ".unfinished-";

/// An unfinished file this old has no writer any more.
pub(super) const ABANDONED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        fs::create_dir_all(&path).map_err(at(&path))?;
        let folder = Self { path };
        folder.sweep()?;
        Ok(folder)
    }

    pub(super) fn existing(path: PathBuf) -> Result<Self, StoreError> {
        if path.is_dir() { Ok(Self { path }) } else { Err(StoreError::Absent(path)) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn keep(&self, bundle: &Bundle) -> Result<(), StoreError> {
        let path = self.file(&bundle.verdict.id);
        self.set_aside_if_damaged(&path)?;
        let mut bundle = bundle.clone();
        bundle.kept_at_ms.get_or_insert_with(|| millis(SystemTime::now()));
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .suffix(EXTENSION)
            // As other programs make files: the umask says who may read them.
            .permissions(fs::Permissions::from_mode(0o666))
            .tempfile_in(&self.path)
            .map_err(at(&self.path))?;
        let text = bundle.line() + "\n";
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(at(file.path()))?;
        file.persist(&path).map_err(|error| at(&path)(error.error))?;
        // The name is on the disk when the folder is.
        fs::File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(at(&self.path))
    }

    pub(super) fn bundle(&self, id: &str) -> Result<Bundle, StoreError> {
        Ok(self.bundle_at(id)?.1)
    }

    /// A bundle with its place in the order: the time at which it was kept, and among equals the time of the file.
    pub(super) fn bundle_at(&self, id: &str) -> Result<((u64, i64), Bundle), StoreError> {
        let path = self.file(id);
        let (bundle, written) =
            match Bundle::read_file(&path).and_then(|bundle| Ok((bundle, fs::metadata(&path)?))) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found(id)),
                Err(error) => return Err(at(&path)(error)),
            };
        let bundle = bundle.map_err(|why| Damaged { place: path.display().to_string(), why })?;
        let nanoseconds = written.mtime().saturating_mul(1_000_000_000).saturating_add(written.mtime_nsec());
        Ok(((bundle.kept_at_ms.unwrap_or(0), nanoseconds), bundle))
    }

    /// What tables show of a bundle, if it says what follows from its evidence, with its place in the order.
    pub(super) fn summary_at(&self, id: &str) -> Result<((u64, i64), Summary), StoreError> {
        let (at, bundle) = self.bundle_at(id)?;
        bundle
            .check()
            .map_err(|why| Damaged { place: self.file(id).display().to_string(), why: why.into() })?;
        Ok((at, Summary::of(&bundle.verdict)))
    }

    /// The ids that begin so.
    pub(super) fn ids(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let names = self.names()?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(EXTENSION)).filter(|id| is_id(id));
        Ok(ids.filter(|id| id.starts_with(prefix)).map(str::to_owned).collect())
    }

    pub(super) fn version(&self) -> Result<u64, StoreError> {
        let mut ids = self.ids("")?;
        ids.sort();
        let mut hasher = DefaultHasher::new();
        for id in ids {
            // A file that takes another's place has a number of its own, even within one tick of the clock.
            let Ok(file) = fs::metadata(self.file(&id)) else { continue };
            (id, file.ino(), file.ctime(), file.ctime_nsec(), file.len()).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    pub(super) fn file(&self, id: &str) -> PathBuf {
        self.path.join(format!("{id}{EXTENSION}"))
    }

    pub(super) fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = fs::read_dir(&self.path).map_err(at(&self.path))?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        names.collect::<io::Result<_>>().map_err(at(&self.path))
    }

    /// A damaged file may be all that is left of something: it must not be written over.
    fn set_aside_if_damaged(&self, path: &Path) -> Result<(), StoreError> {
        match Bundle::read_file(path) {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(path)(error)),
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
            let path = self.path.join(name);
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
