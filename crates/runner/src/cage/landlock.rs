//! Access rules: which files, ports and processes the program reaches.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::applied::{Layer, LayerState};
use super::launcher::Failure;
use super::policy::Profile;
use super::wire::Order;

/// The newest version whose every right is handled; older kernels handle what they know.
const NEWEST: ABI = ABI::V6;
const COST: &str = "files that the program's user may read can be read, unless namespaces hide them";

/// Puts the rules on this process.
pub(super) fn apply(order: &Order, own_tmp: bool, own_procfs: bool) -> Result<LayerState, Failure> {
    let layer = Layer::Landlock;
    if !order.wants(layer) {
        return Ok(LayerState::left_off(layer, COST));
    }
    let version = match version() {
        Ok(version) => version,
        Err(error) => {
            let why = format!("landlock_create_ruleset: {error}");
            return Ok(LayerState::off(layer, why, COST, remedy(&error)));
        }
    };
    let failed = |error: &dyn std::fmt::Display| {
        Failure::system("setting access rules")(io::Error::other(error.to_string()))
    };
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .map_err(|error| failed(&error))?;
    for (path, access) in grants(order, own_tmp, own_procfs) {
        rules =
            grant(rules, path, access).map_err(Failure::system(format!("granting {}", path.display())))?;
    }
    let status = rules.restrict_self().map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Ok(LayerState::off(
            layer,
            "not enforced",
            COST,
            "a kernel of 5.13 or later with landlock in its lsm=",
        ));
    }
    Ok(LayerState::on(layer, describe(version)))
}

fn grants(order: &Order, own_tmp: bool, own_procfs: bool) -> Vec<(&Path, BitFlags<AccessFs>)> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = read | AccessFs::Execute;
    let change = AccessFs::from_all(NEWEST) & !AccessFs::IoctlDev;
    let scratch = if order.profile == Profile::Build { change } else { change & !AccessFs::Execute };
    let mut grants: Vec<(&Path, BitFlags<AccessFs>)> = Vec::new();
    grants.extend(order.reads.iter().map(|path| (path.as_path(), read)));
    grants.extend(order.executes.iter().chain([&order.program]).map(|path| (path.as_path(), execute)));
    grants.extend(order.writes.iter().map(|path| (path.as_path(), change)));
    for device in super::namespaces::DEVICES.iter().map(Path::new).filter(|device| device.exists()) {
        grants.push((device, AccessFs::ReadFile | AccessFs::WriteFile));
    }
    let control = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    grants.extend(order.devices.iter().map(|device| (device.as_path(), control)));
    if own_tmp {
        grants.push((Path::new("/tmp"), scratch));
    }
    if own_procfs {
        // A build's processes may look at each other; a submission has only itself to look at. Drivers look at the machine.
        let all = order.profile == Profile::Build || !order.devices.is_empty();
        let path = if all { "/proc" } else { "/proc/self" };
        grants.push((Path::new(path), read));
        if !order.devices.is_empty() {
            // Drivers name their threads, and give up where they may not.
            grants.push((Path::new("/proc/self"), read | AccessFs::WriteFile | AccessFs::Truncate));
        }
    }
    grants
}

fn grant(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> io::Result<RulesetCreated> {
    let metadata = path.metadata()?;
    let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    let access = if metadata.file_type().is_char_device() { access & !AccessFs::Execute } else { access };
    let folder = PathFd::new(path).map_err(io::Error::other)?;
    rules.add_rule(PathBeneath::new(folder, access)).map_err(io::Error::other)
}

/// The version of the kernel's rules.
fn version() -> io::Result<i64> {
    const LANDLOCK_CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag the attributes must be null and of size 0, and are.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    if version > 0 { Ok(version) } else { Err(io::Error::last_os_error()) }
}

fn describe(version: i64) -> String {
    let mut text = format!("version {version}: files");
    for (since, what) in [(4, ", TCP"), (5, ", device control"), (6, ", signals and abstract sockets")] {
        if version >= since {
            text += what;
        }
    }
    if version < 6 {
        text += "; signals and abstract sockets rest on seccomp alone";
    }
    text
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "boot with landlock in lsm=: it is built in and turned off",
        Some(libc::EPERM) => "a container seccomp profile that allows landlock_create_ruleset",
        _ => "a kernel of 5.13 or later with CONFIG_SECURITY_LANDLOCK",
    }
}
