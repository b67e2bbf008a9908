//! Folders that are made once and kept: Python environments, built libraries.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::MachineError;

/// Where root keeps what programs without privileges must reach: root's own cache lies in a folder closed to them.
const ROOT_CACHE: &str = "/var/cache/tribunal";

/// The folder in which Tribunal keeps what can be made again: `$XDG_CACHE_HOME/tribunal`, `~/.cache/tribunal`, or
/// for root, where those are closed to other users, `/var/cache/tribunal`.
///
/// # Errors
/// [`MachineError::Missing`] if neither variable is set.
pub fn cache_folder() -> Result<PathBuf, MachineError> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    if rustix::process::geteuid().is_root() {
        return Ok(match home {
            Some(home) if open_to_all(&home) => home.join("tribunal"),
            _ => PathBuf::from(ROOT_CACHE),
        });
    }
    home.map(|home| home.join("tribunal")).ok_or_else(|| MachineError::Missing {
        what: "a folder for the cache".into(),
        remedy: "set XDG_CACHE_HOME or HOME".into(),
    })
}

/// Whether every user may pass through the folders on the way to `path`, so far as they exist.
pub(crate) fn open_to_all(path: &Path) -> bool {
    path.ancestors().filter_map(|folder| fs::metadata(folder).ok()).all(|meta| meta.mode() & 0o001 != 0)
}

/// Makes `folder` by `make` unless it is there already, whole or not at all, once even if several processes want it.
/// `make` works in a folder beside it, which is renamed in the end.
pub(crate) fn once<E: From<MachineError>>(
    folder: &Path,
    make: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    if folder.exists() {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name().and_then(|name| name.to_str()))
    else {
        unreachable!("a folder in the cache has a parent and a name");
    };
    let doing = |error| MachineError::system(format!("making {}", folder.display()))(error);
    create_open(parent)?;
    let lock_path = parent.join(format!(".lock-{name}"));
    let lock = lock(&lock_path).map_err(doing)?;
    let made = if folder.exists() {
        Ok(())
    } else {
        let making = parent.join(format!(".making-{name}"));
        remove(&making)?; // of a process that was killed
        create_open(&making)?;
        make(&making).and_then(|()| Ok(fs::rename(&making, folder).map_err(doing)?)).inspect_err(|_| {
            // Only tidiness: the next one to come removes it too.
            let _ = remove(&making);
        })
    };
    let _ = fs::remove_file(&lock_path);
    drop(lock);
    made
}

/// Holds a lock that is removed before it is let go: who waited for one that is gone takes the next.
fn lock(path: &Path) -> std::io::Result<File> {
    loop {
        let lock = File::create(path)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let held = lock.metadata()?;
        let is_held = |there: fs::Metadata| (there.dev(), there.ino()) == (held.dev(), held.ino());
        if fs::metadata(path).is_ok_and(is_held) {
            return Ok(lock);
        }
    }
}

/// Makes a folder that all may read, whatever the umask.
pub(crate) fn create_open(folder: &Path) -> Result<(), MachineError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    let doing = |error| MachineError::system(format!("making {}", folder.display()))(error);
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(doing)?;
    for made in missing {
        fs::set_permissions(made, Permissions::from_mode(0o755)).map_err(doing)?;
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), MachineError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(MachineError::system(format!("removing {}", folder.display()))(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_once_by_many() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("deep/folder");
        let made = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    once::<MachineError>(&folder, |making| {
                        made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        std::thread::sleep(std::time::Duration::from_millis(20));
                        fs::write(making.join("file"), "whole").map_err(MachineError::system("writing"))
                    })
                    .unwrap();
                    assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "whole");
                });
            }
        });
        assert_eq!(made.into_inner(), 1);
        assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_nothing_half_made() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        fs::create_dir(parent.path().join(".making-folder")).unwrap();
        fs::write(parent.path().join(".making-folder/stale"), "").unwrap();
        let result = once::<MachineError>(&folder, |making| {
            assert!(!making.join("stale").exists());
            fs::write(making.join("file"), "half").unwrap();
            Err(MachineError::Missing { what: "all".into(), remedy: "none".into() })
        });
        assert!(result.is_err());
        assert_eq!(
            fs::read_dir(parent.path()).unwrap().count(),
            0,
            "neither the folder, nor what was made of it, nor the lock"
        );
        once::<MachineError>(&folder, |_| Ok(())).unwrap();
        assert!(folder.exists());
    }
}
