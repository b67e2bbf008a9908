//! The user that the program runs as.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};

use super::applied::{Layer, LayerState};
use super::rig;
use super::wire::Order;

/// Made-up users start here: beyond those that any system hands out, below those that do not fit 31 bits.
const MADE_UP: u32 = 900_000_000;
/// `nobody`: the user to fall back on where a container maps few users.
const NOBODY: u32 = 65_534;
/// "As it is" for the calls that set users and groups.
const SAME: u32 = u32::MAX;

/// Who the program is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum User {
    /// A user made up for this program: still to be taken on.
    MakeUp(u32),
    /// A user made up for this program: taken on already.
    MadeUp(u32),
    /// The judge's user, who is not root.
    Ordinary,
    /// Root, without its capabilities.
    Root { why: String, remedy: String },
}

/// Whom the program can be.
pub(super) fn choose(order: &Order) -> User {
    if !rustix::process::geteuid().is_root() {
        return User::Ordinary;
    }
    if !order.wants(Layer::Identity) {
        return User::Root {
            why: "left off as asked".into(),
            remedy: "do not ask for it to be left off".into(),
        };
    }
    let mine = MADE_UP + rustix::process::getpid().as_raw_pid().unsigned_abs();
    let mut refusal = None;
    for candidate in [mine, NOBODY] {
        match rig::set_users(SAME, candidate, SAME).and_then(|()| rig::set_users(SAME, 0, SAME)) {
            Ok(()) => return User::MakeUp(candidate),
            Err(error) => refusal = Some(error),
        }
    }
    let error = refusal.map_or_else(String::new, |error| error.to_string());
    User::Root {
        why: format!("no other user can be taken on: {error}"),
        remedy: "--cap-add SETUID, or a container with more than one user mapped".into(),
    }
}

/// Hands the folders that the program may change to `user`.
fn give(folders: &[PathBuf], user: u32) {
    for folder in folders {
        give_tree(folder, user);
    }
}

fn give_tree(path: &Path, user: u32) {
    let Ok(metadata) = path.symlink_metadata() else { return };
    // A file with a second name may be known outside the folder by it.
    if metadata.is_dir() || (metadata.is_file() && metadata.nlink() == 1) {
        // Where this is refused the check of what the user can reach finds it out.
        let _ = lchown(path, Some(user), Some(user));
    }
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            give_tree(&entry.path(), user);
        }
    }
}

/// The first path granted by `order` that `user` could not reach.
fn closed_to(user: u32, order: &Order) -> io::Result<Option<PathBuf>> {
    // The superuser's own groups must not open anything that will be closed later.
    let _ = rig::leave_groups();
    rig::set_groups(SAME, user, SAME)?;
    rig::set_users(SAME, user, SAME)?;
    let reads = order.reads.iter().map(|path| (path, libc::R_OK));
    let executes = order.executes.iter().chain([&order.program]).map(|path| (path, libc::R_OK | libc::X_OK));
    let writes = order.writes.iter().map(|path| (path, libc::R_OK | libc::W_OK));
    let closed = reads
        .chain(executes)
        .chain(writes)
        .find(|(path, mode)| !reachable(path, *mode))
        .map(|(path, _)| path);
    rig::set_users(SAME, 0, SAME)?;
    rig::set_groups(SAME, 0, SAME)?;
    Ok(closed.cloned())
}

/// Whether this process, by its effective user, may use `path`. A path that is missing is another's complaint.
fn reachable(path: &Path, mode: libc::c_int) -> bool {
    let mode = if path.is_dir() { mode | libc::X_OK } else { mode };
    let Ok(text) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: `text` ends in NUL and outlives the call.
    let result = unsafe { libc::faccessat(libc::AT_FDCWD, text.as_ptr(), mode, libc::AT_EACCESS) };
    result == 0 || io::Error::last_os_error().kind() == io::ErrorKind::NotFound
}

impl User {
    /// Takes on a made-up user, unless something granted would be out of its reach; then says so and stays.
    pub(super) fn take_on(&mut self, order: &Order) -> io::Result<()> {
        let Self::MakeUp(user) = *self else { return Ok(()) };
        give(&order.writes, user);
        if let Some(path) = closed_to(user, order)? {
            *self = Self::Root {
                why: format!("{} is closed to other users", path.display()),
                remedy: format!(
                    "chmod o+rX {0} and the folders above it, or keep it elsewhere",
                    path.display()
                ),
            };
            return Ok(());
        }
        drop_bounding();
        let _ = rig::leave_groups();
        rig::set_groups(user, user, user)?;
        rig::set_users(user, user, user)?;
        *self = Self::MadeUp(user);
        Ok(())
    }

    /// Whether files of other users are out of its power, so that changing their modes is no danger.
    pub(super) fn owns_nothing(&self) -> bool {
        matches!(self, Self::MadeUp(_))
    }

    /// Whether the kernel counts this user's tasks together with those of other programs.
    pub(super) fn shares_task_limit(&self, inside_namespaces: bool) -> bool {
        *self == Self::Ordinary && !inside_namespaces
    }

    /// What to put into the verdict.
    pub(super) fn state(&self, inside_namespaces: bool) -> LayerState {
        let layer = Layer::Identity;
        match self {
            Self::MakeUp(user) | Self::MadeUp(user) => {
                LayerState::on(layer, format!("runs as user {user}, without capabilities"))
            }
            Self::Ordinary if inside_namespaces => {
                LayerState::on(layer, "your own user, in a user namespace of its own, without capabilities")
            }
            Self::Ordinary => LayerState::off(
                layer,
                "runs as your own user",
                "the limit on tasks counts your other programs too; that it cannot signal or trace them rests on seccomp and Landlock",
                "user namespaces, or a container with root in it",
            ),
            Self::Root { why, remedy } => LayerState::off(
                layer,
                format!("runs as root without capabilities: {why}"),
                "the limit on tasks does not bind root: threads are bounded by memory and the deadline only",
                remedy.clone(),
            ),
        }
    }
}

/// Gives up every capability for good, also those that a program could bring with it.
pub(super) fn drop_privileges() -> io::Result<()> {
    drop_bounding();
    // Refused by kernels before 4.3, which have no ambient capabilities.
    let _ = rig::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    rig::drop_capabilities()
}

/// Needs a privilege that only root has; without it there is nothing to give up that `NO_NEW_PRIVS` does not take.
fn drop_bounding() {
    for capability in 0..64 {
        if rig::prctl(libc::PR_CAPBSET_DROP, capability).is_err() {
            break;
        }
    }
}
