//! Attacks on the judge from inside the cage, by a program that means it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Cage;
use super::applied::Applied;
use super::caged::Ended;
use super::policy::{Policy, Profile};
use super::rig::check;
use crate::MachineError;

/// The first argument of a self-test, which is the launcher program run as a submission would be.
pub const SELF_TEST: &str = "__tribunal-self-test";
const DEADLINE: Duration = Duration::from_secs(10);

/// Something that a submission might try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// What was tried.
    pub what: String,
    /// Whether it failed, as it should.
    pub refused: bool,
    /// What the system said: `EPERM`.
    pub outcome: String,
}

/// Runs the self-test in a cage of its own.
pub(super) fn probe(cage: &Cage) -> Result<(Applied, Vec<Attempt>), MachineError> {
    let mut policy = Policy::new(Profile::Run, &cage.launcher);
    let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    policy.args = vec![SELF_TEST.into(), std::process::id().to_string().into(), home.into()];
    let mut caged = cage.spawn(policy)?;
    let ended = caged.wait(Some(Instant::now() + DEADLINE))?;
    let output = caged.output();
    if ended != Ended::Exited(0) {
        return Err(MachineError::System {
            doing: "testing the cage from inside".into(),
            error: format!("{ended}: {}", output.stderr),
        });
    }
    let attempts = serde_json::from_str(&output.stdout)
        .map_err(MachineError::system("understanding the test of the cage from inside"))?;
    Ok((caged.applied().clone(), attempts))
}

/// Tries everything, prints what came of it, and ends. Arguments: the judge's process id and home folder.
pub(super) fn attempt_all(mut args: impl Iterator<Item = OsString>) -> ! {
    let judge = args.next().and_then(|arg| arg.to_str()?.parse().ok()).unwrap_or(libc::pid_t::MAX);
    let home = args.next().unwrap_or_else(|| "/root".into());
    let attempts = [
        attempt("fork", fork()),
        attempt("execute /bin/sh", execute_shell()),
        attempt("socket", socket()),
        attempt("read the home folder", std::fs::read_dir(&home).map(drop)),
        attempt("read /etc/passwd", std::fs::read("/etc/passwd").map(drop)),
        attempt("write to /var/tmp", std::fs::File::create("/var/tmp/tribunal-self-test").map(drop)),
        attempt("signal the judge", signal(judge)),
        attempt("read the judge's memory", std::fs::File::open(format!("/proc/{judge}/mem")).map(drop)),
        attempt("trace the judge", trace(judge)),
    ];
    let text = serde_json::to_string(&attempts).unwrap_or_default();
    print!("{text}");
    std::process::exit(0)
}

fn attempt(what: &str, result: io::Result<()>) -> Attempt {
    let (refused, outcome) = match result {
        Ok(()) => (false, "done".to_owned()),
        Err(error) => (true, error.raw_os_error().map_or_else(|| error.to_string(), errno_name)),
    };
    Attempt { what: what.into(), refused, outcome }
}

/// A process that does nothing and is waited for.
fn fork() -> io::Result<()> {
    // SAFETY: this program has one thread; the child calls nothing but `_exit`.
    let pid = check(unsafe { libc::fork() })?;
    if pid == 0 {
        // SAFETY: takes an integer and does not return.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: a null status is allowed.
    check(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }).map(drop)
}

/// Success would end this program, and with it the report: that counts as a failed test.
fn execute_shell() -> io::Result<()> {
    let (path, option) = (c"/bin/sh", c"-c");
    let command = c"exit 3";
    let args = [path.as_ptr(), option.as_ptr(), command.as_ptr(), std::ptr::null()];
    // SAFETY: the list ends in null, and its texts end in NUL and outlive the call.
    check(unsafe { libc::execv(path.as_ptr(), args.as_ptr()) }).map(drop)
}

fn socket() -> io::Result<()> {
    // SAFETY: takes integers only.
    let fd = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) })?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 53u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: `address` is a `sockaddr_in` and the size given is its own.
    let result =
        unsafe { libc::connect(fd, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) };
    check(result).map(drop)
}

fn signal(judge: libc::pid_t) -> io::Result<()> {
    // SAFETY: signal 0 only asks whether a signal could be sent.
    check(unsafe { libc::kill(judge, 0) }).map(drop)
}

fn trace(judge: libc::pid_t) -> io::Result<()> {
    // SAFETY: seizing takes a process id and two integers.
    let result = unsafe { libc::ptrace(libc::PTRACE_SEIZE, judge, 0 as libc::c_ulong, 0 as libc::c_ulong) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The name by which programmers know an error.
fn errno_name(errno: i32) -> String {
    let known = [
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EACCES, "EACCES"),
        (libc::ENOSYS, "ENOSYS"),
        (libc::EROFS, "EROFS"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENETUNREACH, "ENETUNREACH"),
    ];
    let name = known.iter().find(|(number, _)| *number == errno).map(|(_, name)| (*name).to_owned());
    name.unwrap_or_else(|| format!("errno {errno}"))
}
