//! Views of the program's own: of files, processes, network, users and the rest.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Component, Path, PathBuf};

use super::applied::{Layer, LayerState};
use super::identity::User;
use super::launcher::Failure;
use super::policy::Profile;
use super::rig;
use super::wire::Order;

/// The devices that every program has.
pub(super) const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const COST: &str = "files and processes of the machine stay visible by name; opening and signalling them rests on Landlock and seccomp";
const SPACES: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

/// Whether namespaces were entered.
pub(super) struct Entered {
    pub(super) state: LayerState,
}

impl Entered {
    pub(super) fn inside(&self) -> bool {
        self.state.on
    }
}

/// Enters new namespaces: by privilege where there is some, else through a user namespace.
///
/// Process namespaces hold for children only: the caller forks next.
pub(super) fn enter(order: &Order, user: &mut User) -> Result<Entered, Failure> {
    let layer = Layer::Namespaces;
    let outside =
        |why: String, remedy: String| Ok(Entered { state: LayerState::off(layer, why, COST, remedy) });
    if !order.wants(layer) {
        return Ok(Entered { state: LayerState::left_off(layer, COST) });
    }
    if let Some(why) = &order.namespaces_refused {
        return outside(why.clone(), remedy(libc::EPERM));
    }
    if unshare(SPACES).is_ok() {
        return Ok(Entered {
            state: LayerState::on(layer, "files, processes, network, ipc, host name, cgroup"),
        });
    }
    // Root that enters a user namespace by itself would keep its power over root's files in there.
    user.take_on(order).map_err(Failure::system("changing the user"))?;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // After a change of user the maps below would belong to root.
    rig::set_dumpable(true);
    if let Err(error) = unshare(libc::CLONE_NEWUSER | SPACES) {
        return outside(
            format!("unshare(CLONE_NEWUSER): {error}"),
            remedy(error.raw_os_error().unwrap_or(libc::EPERM)),
        );
    }
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1")),
        ("gid_map", format!("{gid} {gid} 1")),
    ];
    for (file, text) in maps {
        fs::write(format!("/proc/self/{file}"), text)
            .map_err(|error| Failure::NamespacesRefused(format!("writing {file}: {error}")))?;
    }
    Ok(Entered { state: LayerState::on(layer, "user, files, processes, network, ipc, host name, cgroup") })
}

fn unshare(spaces: libc::c_int) -> io::Result<()> {
    match rig::unshare(spaces | libc::CLONE_NEWCGROUP) {
        // Kernels before 4.6, or built without.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => rig::unshare(spaces),
        result => result,
    }
}

/// How to have namespaces, from what the system says about itself.
fn remedy(errno: i32) -> String {
    let is = |name: &str, value: &str| {
        fs::read_to_string(format!("/proc/sys/{name}")).is_ok_and(|text| text.trim() == value)
    };
    if errno == libc::ENOSPC || is("user/max_user_namespaces", "0") {
        "sysctl user.max_user_namespaces=10000".into()
    } else if is("kernel/apparmor_restrict_unprivileged_userns", "1") {
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for tribunal".into()
    } else if is("kernel/unprivileged_userns_clone", "0") {
        "sysctl kernel.unprivileged_userns_clone=1".into()
    } else {
        "in a container: --cap-add SYS_ADMIN, or a seccomp profile that allows unshare and mount".into()
    }
}

/// Builds the root folder of this process's mount namespace from what is granted and nothing else, and moves into it.
///
/// Needs no folder of its own on the machine: the new root is mounted over one that exists, then lifted from there.
pub(super) fn furnish(order: &Order) -> Result<LayerState, Failure> {
    let refused =
        |doing: &'static str| move |error: io::Error| Failure::NamespacesRefused(format!("{doing}: {error}"));
    let plan = Plan::of(order)?;
    rig::mount(c"none", c"/", c"none", libc::MS_REC | libc::MS_PRIVATE, c"")
        .map_err(refused("mount private"))?;
    let base = [c"/tmp", c"/var", c"/usr", c"/mnt"].into_iter().find(|base| {
        let options = c"mode=0755,size=1m,nr_inodes=4096";
        rig::mount(c"tmpfs", base, c"tmpfs", libc::MS_NOSUID | libc::MS_NODEV, options).is_ok()
    });
    let base = base
        .ok_or_else(|| Failure::NamespacesRefused(format!("mount tmpfs: {}", io::Error::last_os_error())))?;
    let base = Path::new(std::ffi::OsStr::from_bytes(base.to_bytes()));
    let pivot = || -> io::Result<()> {
        fs::create_dir(base.join(OLD.trim_start_matches('/')))?;
        std::env::set_current_dir(base)?;
        rig::pivot_root(c".", c".old")?;
        std::env::set_current_dir("/")
    };
    pivot().map_err(refused("pivot_root"))?;
    mount_scratch(order).map_err(refused("mount /tmp"))?;
    plan.mount_all()?;
    let procfs = mount_procfs(order);
    rig::detach(c"/.old").map_err(refused("umount"))?;
    fs::remove_dir(OLD).map_err(refused("rmdir"))?;
    let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
    rig::mount(c"none", c"/", c"none", read_only, c"").map_err(refused("mount read-only"))?;
    Ok(procfs)
}

/// Where the machine's files are while the new root is furnished.
const OLD: &str = "/.old";

fn mount_scratch(order: &Order) -> io::Result<()> {
    fs::create_dir("/tmp")?;
    let (flags, options) = match order.profile {
        Profile::Run => (libc::MS_NOEXEC, c"mode=1777,size=16m,nr_inodes=1024"),
        Profile::Build => (0, c"mode=1777,size=512m,nr_inodes=65536"),
    };
    rig::mount(c"tmpfs", c"/tmp", c"tmpfs", libc::MS_NOSUID | libc::MS_NODEV | flags, options)
}

fn mount_procfs(order: &Order) -> LayerState {
    let layer = Layer::Procfs;
    let cost = "programs that read /proc find nothing; numpy and the hosts do not need it";
    if !order.wants(layer) {
        return LayerState::left_off(layer, cost);
    }
    let mut result = fs::create_dir_all("/proc");
    let all: [&CStr; 2] = [c"subset=pid,hidepid=2", c"hidepid=2"];
    // What the machine says of itself is only for who has its devices.
    let forms = if order.devices.is_empty() { &all[..] } else { &all[1..] };
    for options in forms {
        result = result.and_then(|()| {
            let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
            rig::mount(c"proc", c"/proc", c"proc", flags, options)
        });
        match &result {
            // Linux before 5.8 does not know `subset`.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => result = Ok(()),
            _ => break,
        }
    }
    match result {
        Ok(()) => LayerState::on(layer, "of its own, showing itself only"),
        Err(error) => LayerState::off(
            layer,
            format!("mount proc: {error}"),
            cost,
            "not needed; a container that does not mask /proc allows it",
        ),
    }
}

/// What is done with a granted path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    ReadOnly,
    Writable,
    Device,
}

/// What the new root consists of; sorted, so that a folder comes before what lies in it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    mounts: BTreeMap<PathBuf, Kind>,
    links: BTreeMap<PathBuf, PathBuf>,
}

impl Plan {
    fn of(order: &Order) -> Result<Self, Failure> {
        let mut plan = Self::default();
        let read_only = order.reads.iter().chain(&order.executes).chain([&order.program]);
        let paths = read_only.map(|path| (path, Kind::ReadOnly));
        for (path, kind) in paths.chain(order.writes.iter().map(|path| (path, Kind::Writable))) {
            plan.add(path, kind).map_err(Failure::system(format!("granting {}", path.display())))?;
        }
        let granted = order.devices.iter().map(PathBuf::as_path);
        for device in DEVICES.iter().map(Path::new).filter(|device| device.exists()).chain(granted) {
            plan.mounts.insert(device.into(), Kind::Device);
        }
        Ok(plan)
    }

    /// Adds a path and every symbolic link on the way to it.
    fn add(&mut self, path: &Path, kind: Kind) -> io::Result<()> {
        let mut left: Vec<OsString> = parts_reversed(path)?;
        let mut at = PathBuf::from("/");
        // The kernel's own bound on links in a path.
        let mut links_left = 40;
        while let Some(part) = left.pop() {
            if part == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&part);
            if next.symlink_metadata()?.is_symlink() {
                links_left -= 1;
                if links_left == 0 {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(target.components().rev().filter_map(part_of));
                self.links.insert(next, target);
            } else {
                at = next;
            }
        }
        let kind = if at.metadata()?.file_type().is_char_device() { Kind::Device } else { kind };
        let merged = self.mounts.entry(at).or_insert(kind);
        if kind == Kind::Writable {
            *merged = kind;
        }
        Ok(())
    }

    fn mount_all(&self) -> Result<(), Failure> {
        for (path, kind) in &self.mounts {
            if self.covered(path, *kind) {
                continue;
            }
            bind(path, *kind).map_err(Failure::system(format!("mounting {}", path.display())))?;
        }
        for (path, target) in &self.links {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| symlink(target, path));
            // Inside a mounted folder the link is there already.
            if let Err(error) = made
                && path.symlink_metadata().is_err()
            {
                return Err(Failure::system(format!("linking {}", path.display()))(error));
            }
        }
        Ok(())
    }

    /// Whether a folder around `path` is mounted in the same way.
    fn covered(&self, path: &Path, kind: Kind) -> bool {
        let nearest = path.ancestors().skip(1).find_map(|folder| self.mounts.get(folder));
        nearest == Some(&kind)
    }
}

fn parts_reversed(path: &Path) -> io::Result<Vec<OsString>> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
    }
    Ok(path.components().rev().filter_map(part_of).collect())
}

fn part_of(component: Component<'_>) -> Option<OsString> {
    match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    }
}

/// Mounts the machine's `path` at the same place in the new root.
fn bind(path: &Path, kind: Kind) -> io::Result<()> {
    let source = Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path));
    // A folder granted inside another that is mounted already is there to be mounted on.
    if path.symlink_metadata().is_err() {
        if source.is_dir() {
            fs::create_dir_all(path)?;
        } else {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::File::create(path)?;
        }
    }
    let (source, target) = (c_path(&source)?, c_path(path)?);
    // Without what is mounted inside it, a folder may be refused: that would uncover what was hidden.
    rig::mount(&source, &target, c"none", libc::MS_BIND | libc::MS_REC, c"")?;
    let attributes = match kind {
        Kind::ReadOnly => libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Kind::Writable => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV,
        Kind::Device => libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC,
    };
    match rig::set_mount_attributes(&target, attributes) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => remount(path, &target, kind),
        result => result,
    }
}

/// What [`rig::set_mount_attributes`] does, for Linux before 5.12 and for the topmost mount only.
fn remount(path: &Path, target: &CStr, kind: Kind) -> io::Result<()> {
    let wanted = match kind {
        Kind::ReadOnly => libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV,
        Kind::Writable => libc::MS_NOSUID | libc::MS_NODEV,
        Kind::Device => libc::MS_NOSUID | libc::MS_NOEXEC,
    };
    // Flags that an outer namespace locked must be named again; these have the same bits here and there.
    let locked = rustix::fs::statvfs(path)?.f_flag.bits()
        & (libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
    rig::mount(c"none", target, c"none", libc::MS_REMOUNT | libc::MS_BIND | wanted | locked, c"")
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_way_are_kept_and_their_ends_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("usr/lib")).unwrap();
        fs::write(root.join("usr/lib/loader"), "").unwrap();
        symlink("usr/lib", root.join("lib")).unwrap();
        symlink("../lib/loader", root.join("usr/start")).unwrap();
        let mut plan = Plan::default();
        plan.add(&root.join("usr/start"), Kind::ReadOnly).unwrap();
        assert_eq!(plan.mounts.keys().collect::<Vec<_>>(), [&root.join("usr/lib/loader")]);
        assert_eq!(plan.links.keys().collect::<Vec<_>>(), [&root.join("lib"), &root.join("usr/start")]);
    }

    #[test]
    fn a_loop_of_links_and_a_missing_file_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        symlink("b", folder.path().join("a")).unwrap();
        symlink("a", folder.path().join("b")).unwrap();
        let mut plan = Plan::default();
        assert_eq!(
            plan.add(&folder.path().join("a"), Kind::ReadOnly).unwrap_err().raw_os_error(),
            Some(libc::ELOOP)
        );
        assert_eq!(
            plan.add(&folder.path().join("c"), Kind::ReadOnly).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
