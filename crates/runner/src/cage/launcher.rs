//! The launcher: takes the judge's order, makes the processes of the cage, and stays behind as supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::identity::User;
use super::wire::{self, Order, Word};
use super::{identity, inmate, namespaces, rig};

/// Received descriptors are kept from here on, out of the way of the numbers that the program is to have.
const PARKED: RawFd = 64;

/// Why the program cannot be started.
#[derive(Debug)]
pub(super) enum Failure {
    System { doing: String, error: io::Error },
    NamespacesRefused(String),
}

impl Failure {
    /// For `map_err`: what was being done when the system refused.
    pub(super) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::System { doing, error }
    }
}

/// What goes to and from the judge, and what the program is to have.
pub(super) struct Lines {
    /// The launch: closed by becoming the program.
    pub(super) start: OwnedFd,
    /// The rest of the program's life: says how it ended, and is closed by the judge when it is to end.
    control: OwnedFd,
    /// The program's own descriptors.
    pub(super) fds: Vec<OwnedFd>,
}

impl Lines {
    pub(super) fn fail(&self, failure: Failure) {
        let word = match failure {
            Failure::System { doing, error } => Word::Failed { doing, error: error.to_string() },
            Failure::NamespacesRefused(why) => Word::NamespacesRefused { why },
        };
        // If the judge is gone there is nobody left to tell.
        let _ = wire::send(self.start.as_fd(), &word, &[]);
    }

    /// Lets go of everything that is the program's alone.
    fn step_back(self) -> OwnedFd {
        if let Ok(null) = open_null() {
            for standard in 0..=2 {
                // What is printed here would pass for the program's output; failing to redirect it is harmless, for nothing is printed.
                let _ = rig::copy_to(null.as_raw_fd(), standard);
            }
        }
        self.control
    }
}

/// Does all of the launcher's work.
pub(super) fn launch() -> ! {
    let Ok((order, lines)) = take_order() else { rig::exit(1) };
    let failure = match prepare(&order) {
        Ok(prepared) => match fork_into(&order, lines, prepared) {
            Ok(()) => rig::exit(0),
            Err((lines, failure)) => (lines, failure),
        },
        Err(failure) => (lines, failure),
    };
    failure.0.fail(failure.1);
    rig::exit(1)
}

fn take_order() -> io::Result<(Order, Lines)> {
    let stdin = io::stdin();
    let packet = wire::receive::<Order>(stdin.as_fd())?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let parked = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, PARKED);
    let start = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), PARKED)?;
    let (control, fds) = packet.fds.split_first().ok_or(io::ErrorKind::InvalidData)?;
    let lines =
        Lines { start, control: parked(control)?, fds: fds.iter().map(parked).collect::<Result<_, _>>()? };
    drop(packet.fds);
    rig::copy_to(open_null()?.as_raw_fd(), 0)?;
    rig::close_between(3, PARKED - 1)?;
    let parked = lines.fds.iter().chain([&lines.start, &lines.control]).map(AsRawFd::as_raw_fd);
    rig::close_between(parked.max().unwrap_or(PARKED) + 1, RawFd::MAX)?;
    Ok((packet.value, lines))
}

fn open_null() -> io::Result<std::fs::File> {
    std::fs::File::options().read(true).write(true).open("/dev/null")
}

/// What the supervisor has done for the program before the fork.
pub(super) struct Prepared {
    pub(super) user: User,
    pub(super) spaces: namespaces::Entered,
}

fn prepare(order: &Order) -> Result<Prepared, Failure> {
    // Already the leader of a group is no harm.
    let _ = rustix::process::setsid();
    rig::reset_signals();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    rig::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).map_err(Failure::system("becoming a reaper"))?;
    let mut user = identity::choose(order);
    let spaces = namespaces::enter(order, &mut user)?;
    Ok(Prepared { user, spaces })
}

/// Forks the process that becomes init or the program, and supervises it to its end.
fn fork_into(order: &Order, lines: Lines, prepared: Prepared) -> Result<(), (Lines, Failure)> {
    let inside = prepared.spaces.inside();
    match rig::fork() {
        Ok(None) if inside => be_init(order, lines, prepared),
        Ok(None) => inmate::become_program(order, &lines, prepared, None),
        Ok(Some(child)) => {
            rig::set_dumpable(false);
            supervise(child, &lines.step_back(), !inside);
            Ok(())
        }
        Err(error) => Err((lines, Failure::system("forking")(error))),
    }
}

/// Waits for `child` to end, or ends it when the judge is gone; then ends whatever is left.
fn supervise(child: libc::pid_t, control: &OwnedFd, report: bool) {
    let pidfd = Pid::from_raw(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let judge_is_gone = match &pidfd {
        Some(pidfd) => wait_for_either(control, pidfd),
        // Linux before 5.3: the judge could not watch the program either, and refuses.
        None => true,
    };
    if judge_is_gone {
        rig::signal(child, libc::SIGKILL);
    }
    let status = rig::wait_any(child, 0);
    // Helps where this is root; elsewhere a build is the one that yields.
    let _ = rustix::process::setpriority_process(None, -10);
    sweep();
    if let (true, Ok(Some((_, status)))) = (report, status) {
        let _ = wire::send(control.as_fd(), &Word::Ended(status), &[]);
    }
}

/// Whether the control socket, rather than the child, came to its end first.
fn wait_for_either(control: &OwnedFd, child: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};

    loop {
        let mut fds = [PollFd::new(child, PollFlags::IN), PollFd::new(control, PollFlags::IN)];
        if poll(&mut fds, None).is_ok() {
            if !fds[0].revents().is_empty() {
                return false;
            }
            if !fds[1].revents().is_empty() {
                return true;
            }
        }
    }
}

/// Kills and reaps every descendant. Orphans become children of this process, so none can hide by losing its parent.
///
/// All are stopped before any is killed: killing some makes room under the limit on tasks for the others to fork into, and a
/// fork bomb then outlives every round.
fn sweep() {
    while let Ok(ended) = rig::wait_any(-1, libc::WNOHANG) {
        if ended.is_some() {
            continue;
        }
        let mut stopped = BTreeSet::new();
        loop {
            let running: Vec<libc::pid_t> =
                descendants().into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if running.is_empty() {
                break;
            }
            for pid in running {
                rig::signal(pid, libc::SIGSTOP);
                stopped.insert(pid);
            }
        }
        for pid in stopped {
            rig::signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

/// The processes that this one started, directly or not, as far as they have not ended.
fn descendants() -> Vec<libc::pid_t> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut children: BTreeMap<libc::pid_t, Vec<libc::pid_t>> = BTreeMap::new();
    for pid in processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut to_visit = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(next) = to_visit.pop() {
        let more = children.remove(&next).unwrap_or_default();
        found.extend(&more);
        to_visit.extend(more);
    }
    found
}

fn parent_of(pid: libc::pid_t) -> Option<libc::pid_t> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain any character.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Process 1 of the cage: furnishes it, starts the program, reaps, and takes everything along when the program ends.
fn be_init(order: &Order, lines: Lines, prepared: Prepared) -> ! {
    let furnished = rig::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(Failure::system("tying the cage to its supervisor"))
        .and_then(|()| namespaces::furnish(order));
    let procfs = match furnished {
        Ok(procfs) => procfs,
        Err(failure) => {
            lines.fail(failure);
            rig::exit(1)
        }
    };
    let child = match rig::fork() {
        Ok(None) => inmate::become_program(order, &lines, prepared, Some(procfs)),
        Ok(Some(child)) => child,
        Err(error) => {
            lines.fail(Failure::system("forking")(error));
            rig::exit(1)
        }
    };
    let control = lines.step_back();
    // Nothing below needs privileges; that it keeps them if this fails harms nobody, for the program cannot reach it.
    let _ = rig::drop_capabilities();
    rig::set_dumpable(false);
    loop {
        match rig::wait_any(-1, 0) {
            Ok(Some((pid, status))) if pid == child => {
                let _ = wire::send(control.as_fd(), &Word::Ended(status), &[]);
                rig::exit(0)
            }
            Ok(_) => {}
            Err(_) => rig::exit(1),
        }
    }
}
