//! A submission as it lies in its folder.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tribunal_contract::{Challenge, Manifest, ManifestError, challenges};

/// Folders that are made by building and testing; they are no part of a submission, and out of its reach.
const IGNORED: [&str; 3] = ["target", "__pycache__", ".git"];
/// The most bytes of a manifest.
const MANIFEST_BYTES_MAX: u64 = 64 << 10;
/// The most bytes of a submission: it is source, and perhaps a prebuilt library.
const BYTES_MAX: u64 = 64 << 20;
/// The most files and folders of a submission.
const ENTRIES_MAX: usize = 10_000;

/// A submission: its folder, its manifest, and a name for exactly these files.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Its folder, absolute and without links.
    pub folder: PathBuf,
    /// Its `tribunal.toml`.
    pub manifest: Manifest,
    /// The challenge that it answers.
    pub challenge: &'static Challenge,
    /// SHA-256 over the paths and contents of its files, in hexadecimal.
    pub sha256: String,
}

/// Why a folder is no submission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionError {
    /// It has no manifest.
    #[error("{}: there is no tribunal.toml", folder.display())]
    NoManifest {
        /// The folder.
        folder: PathBuf,
    },
    /// Its manifest was refused.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The file that its manifest names is not there.
    #[error("{}: `entry` names {}, which is not there", folder.display(), entry.display())]
    NoEntry {
        /// The folder.
        folder: PathBuf,
        /// What the manifest names.
        entry: PathBuf,
    },
    /// The file that its manifest names lies where nothing is part of a submission.
    #[error("{}: `entry` names {}, in a folder that is left out: move it", folder.display(), entry.display())]
    EntryIgnored {
        /// The folder.
        folder: PathBuf,
        /// What the manifest names.
        entry: PathBuf,
    },
    /// A symbolic link leads out of the folder.
    #[error("{}: the link leads out of the submission's folder", link.display())]
    LinkOutside {
        /// The link.
        link: PathBuf,
    },
    /// A device, a socket or a pipe.
    #[error("{}: neither a file nor a folder", path.display())]
    Special {
        /// What it is.
        path: PathBuf,
    },
    /// It is too large.
    #[error("{}: larger than {BYTES_MAX} bytes or {ENTRIES_MAX} files", folder.display())]
    TooLarge {
        /// The folder.
        folder: PathBuf,
    },
    /// Something cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// What cannot be read.
        path: PathBuf,
        /// What the system said.
        error: String,
    },
}

impl Submission {
    /// Reads the submission in `folder`.
    ///
    /// # Errors
    /// [`SubmissionError`] if it is none.
    pub fn open(folder: &Path) -> Result<Self, SubmissionError> {
        let manifest = manifest(folder)?;
        let folder = folder.canonicalize().map_err(unreadable(folder))?;
        let sha256 = hash(&folder)?;
        if !folder.join(&manifest.entry).is_file() {
            return Err(SubmissionError::NoEntry { folder, entry: manifest.entry });
        }
        if manifest.entry.ancestors().any(is_ignored) {
            return Err(SubmissionError::EntryIgnored { folder, entry: manifest.entry });
        }
        let challenge = challenges::find(manifest.challenge).expect("the manifest was checked against them");
        Ok(Self { folder, manifest, challenge, sha256 })
    }

    /// The files that its digest is over, relative to its folder, without links.
    ///
    /// # Errors
    /// [`SubmissionError`] if it has changed, and is none any more.
    pub fn files(&self) -> Result<Vec<PathBuf>, SubmissionError> {
        let mut files = Vec::new();
        walk(&self.folder, &mut |relative, metadata| {
            if metadata.is_file() {
                files.push(relative.to_owned());
            }
            Ok(())
        })?;
        Ok(files)
    }

    /// Whether its folder holds anything beside it that a program in there could read.
    pub(crate) fn has_leftovers(&self) -> Result<bool, SubmissionError> {
        let mut folders = vec![self.folder.clone()];
        walk(&self.folder, &mut |relative, metadata| {
            if metadata.is_dir() {
                folders.push(self.folder.join(relative));
            }
            Ok(())
        })?;
        Ok(folders
            .iter()
            .any(|folder| IGNORED.iter().any(|name| folder.join(name).symlink_metadata().is_ok())))
    }

    /// The file to load or to build.
    pub fn entry(&self) -> PathBuf {
        self.folder.join(&self.manifest.entry)
    }
}

/// The manifest of a folder.
///
/// # Errors
/// [`SubmissionError`] if it has none that can be read.
pub fn manifest(folder: &Path) -> Result<Manifest, SubmissionError> {
    let shown = folder.join(Manifest::FILE_NAME);
    let mut text = String::new();
    let read =
        fs::File::open(&shown).and_then(|file| file.take(MANIFEST_BYTES_MAX + 1).read_to_string(&mut text));
    read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            SubmissionError::NoManifest { folder: folder.to_owned() }
        }
        _ => unreadable(&shown)(error),
    })?;
    if text.len() as u64 > MANIFEST_BYTES_MAX {
        let error = format!("longer than {MANIFEST_BYTES_MAX} bytes");
        return Err(SubmissionError::Unreadable { path: shown, error });
    }
    Ok(Manifest::parse(&text, &shown.to_string_lossy())?)
}

/// Every folder at or below `paths` that has a manifest, sorted, each once. A manifest stands for its folder. What lies in a submission and cannot be
/// looked into is left to [`Submission::open`] to refuse.
///
/// # Errors
/// [`SubmissionError::Unreadable`] if one of the paths cannot be looked into.
pub fn find(paths: &[PathBuf]) -> Result<Vec<PathBuf>, SubmissionError> {
    let mut found = Vec::new();
    let given: Vec<_> = paths.iter().map(|path| of_manifest(path).unwrap_or_else(|| path.clone())).collect();
    let mut todo = given.clone();
    while let Some(folder) = todo.pop() {
        if folder.join(Manifest::FILE_NAME).is_file() {
            found.push(folder.clone());
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if given.contains(&folder) => return Err(unreadable(&folder)(error)),
            Err(_) => continue,
        };
        for entry in entries {
            let entry = entry.map_err(unreadable(&folder))?;
            // Links are not followed: they could lead in circles.
            let is_folder = entry.file_type().map_err(unreadable(&folder))?.is_dir();
            if is_folder && !is_ignored(&entry.path()) {
                todo.push(entry.path());
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The folder of a manifest.
fn of_manifest(path: &Path) -> Option<PathBuf> {
    let is_manifest = path.file_name().is_some_and(|name| name == Manifest::FILE_NAME) && path.is_file();
    let folder = path.parent().filter(|_| is_manifest)?;
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() })
}

/// Whether a folder is no part of a submission: made by building or testing, out of its reach, and not hashed.
pub fn is_ignored(path: &Path) -> bool {
    path.file_name().is_some_and(|name| IGNORED.iter().any(|ignored| name == *ignored))
}

/// Calls `visit` with the relative path and metadata of everything in `folder` that belongs to the submission, sorted.
pub(crate) fn walk(
    folder: &Path,
    visit: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<(), SubmissionError>,
) -> Result<(), SubmissionError> {
    let mut entries = vec![];
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).map_err(unreadable(&next))? {
            let path = entry.map_err(unreadable(&next))?.path();
            if is_ignored(&path) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).map_err(unreadable(&path))?;
            if metadata.is_dir() {
                todo.push(path.clone());
            }
            entries.push((path, metadata));
            if entries.len() > ENTRIES_MAX {
                return Err(SubmissionError::TooLarge { folder: folder.to_owned() });
            }
        }
    }
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    for (path, metadata) in &entries {
        visit(path.strip_prefix(folder).expect("the walk stays in the folder"), metadata)?;
    }
    Ok(())
}

fn hash(folder: &Path) -> Result<String, SubmissionError> {
    let mut hasher = Sha256::new();
    let mut total = 0;
    walk(folder, &mut |relative, metadata| {
        let path = folder.join(relative);
        let (kind, contents) = if metadata.is_dir() {
            return Ok(());
        } else if metadata.is_symlink() {
            let target = path.canonicalize().map_err(unreadable(&path))?;
            if !target.starts_with(folder) {
                return Err(SubmissionError::LinkOutside { link: path });
            }
            let target = fs::read_link(&path).map_err(unreadable(&path))?;
            (b'l', target.into_os_string().into_encoded_bytes())
        } else if metadata.is_file() {
            total += metadata.len();
            if total > BYTES_MAX {
                return Err(SubmissionError::TooLarge { folder: folder.to_owned() });
            }
            (b'f', fs::read(&path).map_err(unreadable(&path))?)
        } else {
            return Err(SubmissionError::Special { path });
        };
        add(&mut hasher, kind, relative, &contents);
        Ok(())
    })?;
    Ok(hexadecimal(&hasher.finalize()))
}

/// The digest of a submission that consists of these files, in any order.
pub fn digest<'a>(files: impl IntoIterator<Item = (&'a Path, &'a [u8])>) -> String {
    let mut files: Vec<_> = files.into_iter().collect();
    files.sort();
    let mut hasher = Sha256::new();
    for (path, contents) in files {
        add(&mut hasher, b'f', path, contents);
    }
    hexadecimal(&hasher.finalize())
}

fn add(hasher: &mut Sha256, kind: u8, path: &Path, contents: &[u8]) {
    // Lengths first: no two different folders give the same bytes.
    let name = path.as_os_str().as_encoded_bytes();
    hasher.update([kind]);
    hasher.update((name.len() as u64).to_le_bytes());
    hasher.update(name);
    hasher.update((contents.len() as u64).to_le_bytes());
    hasher.update(contents);
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> SubmissionError {
    let path = path.to_owned();
    move |error| SubmissionError::Unreadable { path, error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const MANIFEST: &str = "name = \"a\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"python\"\nentry = \"submission.py\"\n";

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tribunal.toml"), MANIFEST).unwrap();
        fs::write(folder.path().join("submission.py"), "pass\n").unwrap();
        folder
    }

    #[test]
    fn a_manifest_without_end_is_not_read() {
        let folder = folder();
        // It takes no room on the disk, and would take a terabyte of memory.
        let manifest = fs::File::options().write(true).open(folder.path().join("tribunal.toml")).unwrap();
        manifest.set_len(1 << 40).unwrap();
        assert!(matches!(Submission::open(folder.path()), Err(SubmissionError::Unreadable { .. })));
    }

    #[test]
    fn the_hash_names_the_sources_and_nothing_else() {
        let folder = folder();
        let path = folder.path();
        let first = Submission::open(path).unwrap().sha256;
        fs::create_dir(path.join("__pycache__")).unwrap();
        fs::write(path.join("__pycache__/submission.pyc"), "x").unwrap();
        assert_eq!(Submission::open(path).unwrap().sha256, first);
        fs::write(path.join("helper.py"), "").unwrap();
        let second = Submission::open(path).unwrap().sha256;
        assert_ne!(second, first);
        fs::rename(path.join("helper.py"), path.join("helper2.py")).unwrap();
        assert_ne!(Submission::open(path).unwrap().sha256, second);
    }

    #[test]
    fn the_files_alone_give_the_same_hash() {
        let folder = folder();
        let path = folder.path();
        fs::create_dir_all(path.join("a/target")).unwrap();
        // Paths are in order by their parts, which is not that of their letters.
        for name in ["a/b.py", "a-b.py", "a.py", "a/target/left-out.py"] {
            fs::write(path.join(name), name).unwrap();
        }
        let submission = Submission::open(path).unwrap();
        let files = submission.files().unwrap();
        assert_eq!(files.len(), 5, "{files:?}");
        let read: Vec<_> =
            files.iter().rev().map(|name| (name.as_path(), fs::read(path.join(name)).unwrap())).collect();
        let of =
            |files: &[(&Path, Vec<u8>)]| digest(files.iter().map(|(name, text)| (*name, text.as_slice())));
        assert_eq!(of(&read), submission.sha256);
        assert_ne!(of(&read[1..]), submission.sha256);
        symlink("a.py", path.join("link.py")).unwrap();
        let submission = Submission::open(path).unwrap();
        assert_eq!(submission.files().unwrap(), files);
        assert_ne!(of(&read), submission.sha256, "a link is no file");
    }

    #[test]
    fn leftovers_are_seen_at_any_depth() {
        let folder = folder();
        let path = folder.path();
        fs::create_dir_all(path.join("a/b")).unwrap();
        assert_eq!(Submission::open(path).unwrap().has_leftovers(), Ok(false));
        fs::create_dir(path.join("a/b/__pycache__")).unwrap();
        assert_eq!(Submission::open(path).unwrap().has_leftovers(), Ok(true));
    }

    #[test]
    fn a_manifest_stands_for_its_folder() {
        let folder = folder();
        let manifest = folder.path().join("tribunal.toml");
        assert_eq!(find(&[manifest, folder.path().to_owned()]), Ok(vec![folder.path().to_owned()]));
        assert!(find(&[folder.path().join("submission.py")]).is_err());
    }

    #[test]
    fn what_is_no_submission_is_refused_with_its_reason() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(Submission::open(empty.path()), Err(SubmissionError::NoManifest { .. })));

        let without_entry = folder();
        fs::remove_file(without_entry.path().join("submission.py")).unwrap();
        assert!(matches!(Submission::open(without_entry.path()), Err(SubmissionError::NoEntry { .. })));

        let left_out = folder();
        fs::create_dir(left_out.path().join("target")).unwrap();
        fs::write(left_out.path().join("target/submission.py"), "pass\n").unwrap();
        let manifest = MANIFEST.replace("submission.py", "target/submission.py");
        fs::write(left_out.path().join("tribunal.toml"), manifest).unwrap();
        assert!(matches!(Submission::open(left_out.path()), Err(SubmissionError::EntryIgnored { .. })));

        let bad_manifest = folder();
        fs::write(bad_manifest.path().join("tribunal.toml"), "name = 1").unwrap();
        assert!(matches!(Submission::open(bad_manifest.path()), Err(SubmissionError::Manifest(_))));

        let long = folder();
        fs::OpenOptions::new()
            .write(true)
            .open(long.path().join("tribunal.toml"))
            .unwrap()
            .set_len(8 << 30)
            .unwrap();
        assert!(matches!(Submission::open(long.path()), Err(SubmissionError::Unreadable { .. })));

        let large = folder();
        fs::File::create(large.path().join("large")).unwrap().set_len(BYTES_MAX).unwrap();
        assert!(matches!(Submission::open(large.path()), Err(SubmissionError::TooLarge { .. })));

        let special = folder();
        let _listener = std::os::unix::net::UnixListener::bind(special.path().join("socket")).unwrap();
        assert!(matches!(Submission::open(special.path()), Err(SubmissionError::Special { .. })));
    }

    #[test]
    fn links_may_lead_around_inside_and_not_out() {
        let inside = folder();
        symlink("submission.py", inside.path().join("alias.py")).unwrap();
        Submission::open(inside.path()).unwrap();
        let outside = folder();
        symlink("/etc/passwd", outside.path().join("data")).unwrap();
        assert!(matches!(Submission::open(outside.path()), Err(SubmissionError::LinkOutside { .. })));
    }

    #[test]
    fn a_folder_too_deep_to_name_hides_no_other() {
        let root = tempfile::tempdir().unwrap();
        for name in ["deep", "good"] {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("tribunal.toml"), MANIFEST).unwrap();
            fs::write(root.path().join(name).join("submission.py"), "pass\n").unwrap();
        }
        let deep = root.path().join("deep");
        let name = "d".repeat(255);
        let mut at =
            rustix::fs::open(&deep, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
        for _ in 0..20 {
            rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, &name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
                .unwrap();
        }
        assert_eq!(find(&[root.path().to_owned()]), Ok(vec![deep.clone(), root.path().join("good")]));
        assert!(matches!(Submission::open(&deep), Err(SubmissionError::Unreadable { .. })));
    }

    #[test]
    fn submissions_are_found_below_and_listed_once() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b", "a/deep", "target/no"] {
            fs::create_dir_all(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("tribunal.toml"), MANIFEST).unwrap();
        }
        let found = find(&[root.path().to_owned(), root.path().join("b")]).unwrap();
        assert_eq!(found, [root.path().join("a/deep"), root.path().join("b")]);
        assert!(find(&[root.path().join("none")]).is_err());
    }
}
