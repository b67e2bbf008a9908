//! Limits that the kernel keeps for each process.

use std::io;
use std::os::unix::fs::MetadataExt;

use super::applied::{Layer, LayerState};
use super::policy::Profile;
use super::rig;
use super::wire::Order;

/// What other programs of the same user may start meanwhile without taking from the caged program's share.
///
/// Too many threads are a lesser harm than a submission that is failed for what the user's browser did. A build has no such
/// room: its tasks can be processes, and many of those are hard to be rid of.
const SHARED_SLACK: u64 = 512;

/// Puts the limits on this process. `shared_tasks` is how many tasks of other programs count against the same limit, if any do.
pub(super) fn apply(order: &Order, shared_tasks: Option<u64>) -> io::Result<LayerState> {
    let limits = &order.limits;
    let slack = if shared_tasks.is_some() && order.profile == Profile::Run { SHARED_SLACK } else { 0 };
    let shared_tasks = shared_tasks.unwrap_or(0).saturating_add(slack);
    let plain = [
        (libc::RLIMIT_CORE, Some(0)),
        (libc::RLIMIT_MEMLOCK, Some(0)),
        (libc::RLIMIT_MSGQUEUE, Some(0)),
        (libc::RLIMIT_NICE, Some(0)),
        (libc::RLIMIT_RTPRIO, Some(0)),
        (libc::RLIMIT_SIGPENDING, Some(64)),
        // The kernel signals at the soft limit; one second more makes that signal the one that is seen.
        (libc::RLIMIT_CPU, Some(limits.cpu_s)),
        (libc::RLIMIT_FSIZE, Some(limits.file_bytes)),
        (libc::RLIMIT_NPROC, Some(limits.tasks.saturating_add(shared_tasks))),
        (libc::RLIMIT_NOFILE, Some(limits.open_files)),
        (libc::RLIMIT_DATA, limits.data_bytes),
        (libc::RLIMIT_AS, limits.address_bytes),
    ];
    for (resource, value) in plain {
        if let Some(value) = value {
            rig::set_limit(resource, value.min(rig::hard_limit(resource)?))?;
        }
    }
    let mib = |bytes: Option<u64>| bytes.map_or("unlimited".into(), |bytes| format!("{} MiB", bytes >> 20));
    Ok(LayerState::on(
        Layer::Limits,
        format!(
            "memory {} (address space {}), {} tasks, {} s of processor time; by process, not resident memory",
            mib(limits.data_bytes),
            mib(limits.address_bytes),
            limits.tasks + slack,
            limits.cpu_s
        ),
    ))
}

/// How many tasks the user of this process has.
pub(super) fn tasks_of_this_user() -> u64 {
    let me = rustix::process::getuid().as_raw();
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let mine = processes.flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|metadata| metadata.uid() == me)
    });
    // Threads are the entries of a folder whose link count does not tell their number.
    mine.map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(1, |tasks| tasks.count() as u64))
        .sum()
}
