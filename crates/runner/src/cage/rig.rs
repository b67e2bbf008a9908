//! The few system calls that no crate here wraps, each behind a safe function.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::RawFd;

/// The result of a system call that returns -1 and sets `errno`.
pub(super) fn check(result: c_int) -> io::Result<c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes this process unreadable and untraceable for processes of the same user.
pub(super) fn harden() {
    set_dumpable(false);
}

pub(super) fn set_dumpable(dumpable: bool) {
    // SAFETY: this option takes integers only.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, libc::c_ulong::from(dumpable), 0, 0, 0) };
}

/// A process option that takes one integer.
pub(super) fn prctl(option: c_int, value: libc::c_ulong) -> io::Result<()> {
    debug_assert!(matches!(
        option,
        libc::PR_SET_PDEATHSIG
            | libc::PR_SET_CHILD_SUBREAPER
            | libc::PR_SET_NO_NEW_PRIVS
            | libc::PR_SET_TIMERSLACK
            | libc::PR_CAPBSET_DROP
            | libc::PR_CAP_AMBIENT
    ));
    // SAFETY: the options listed above take integers only; the unused ones must be 0 and are.
    check(unsafe { libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0 as libc::c_ulong) })
        .map(drop)
}

/// The child's id in the parent, `None` in the child.
pub(super) fn fork() -> io::Result<Option<libc::pid_t>> {
    // SAFETY: the launcher has one thread, so the child's copy of every lock is free and its heap is whole.
    let pid = check(unsafe { libc::fork() })?;
    Ok((pid != 0).then_some(pid))
}

/// Ends this process at once: no destructors, no handlers, which belong to the process that this one is a copy of.
pub(super) fn exit(code: c_int) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(code) }
}

/// A child that ended, and its status; `None` if none did yet.
pub(super) fn wait_any(pid: libc::pid_t, flags: c_int) -> io::Result<Option<(libc::pid_t, c_int)>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is valid for writing an int.
        match check(unsafe { libc::waitpid(pid, &raw mut status, flags | libc::__WALL) }) {
            Ok(0) => return Ok(None),
            Ok(pid) => return Ok(Some((pid, status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Signals a descendant: one that this process has not waited for, so that its id is still its own or nobody's.
pub(super) fn signal(pid: libc::pid_t, signal: c_int) {
    // SAFETY: takes integers only.
    unsafe { libc::kill(pid, signal) };
}

pub(super) fn unshare(flags: c_int) -> io::Result<()> {
    // SAFETY: takes an integer; the launcher has one thread, so no other thread's view of files or memory changes.
    check(unsafe { libc::unshare(flags) }).map(drop)
}

/// Mounts; every text may be empty where `mount` takes none.
pub(super) fn mount(
    source: &CStr,
    target: &CStr,
    kind: &CStr,
    flags: libc::c_ulong,
    data: &CStr,
) -> io::Result<()> {
    // SAFETY: all four pointers are to texts that end in NUL and outlive the call; `data` is text for every kind used here.
    check(unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast())
    })
    .map(drop)
}

pub(super) fn pivot_root(new: &CStr, old: &CStr) -> io::Result<()> {
    // SAFETY: both pointers are to texts that end in NUL and outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn detach(target: &CStr) -> io::Result<()> {
    // SAFETY: the pointer is to a text that ends in NUL and outlives the call.
    check(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }).map(drop)
}

/// Sets mount attributes on a whole tree and clears none, so that flags locked by an outer namespace stay as they are.
pub(super) fn set_mount_attributes(target: &CStr, attributes: u64) -> io::Result<()> {
    let attr = libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY:
    // - `target` ends in NUL and outlives the call;
    // - `attr` is a `mount_attr`, and the size given is its own.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attr,
            size_of_val(&attr),
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets real, effective and saved user; -1 leaves one as it is.
pub(super) fn set_users(real: u32, effective: u32, saved: u32) -> io::Result<()> {
    // SAFETY: takes integers only. glibc tells other threads, and the launcher has none.
    check(unsafe { libc::setresuid(real, effective, saved) }).map(drop)
}

/// Sets real, effective and saved group; -1 leaves one as it is.
pub(super) fn set_groups(real: u32, effective: u32, saved: u32) -> io::Result<()> {
    // SAFETY: as `set_users`.
    check(unsafe { libc::setresgid(real, effective, saved) }).map(drop)
}

/// Leaves every supplementary group.
pub(super) fn leave_groups() -> io::Result<()> {
    // SAFETY: with a length of 0 the list is not read.
    check(unsafe { libc::setgroups(0, std::ptr::null()) }).map(drop)
}

/// Gives up every capability: effective, permitted and inheritable.
pub(super) fn drop_capabilities() -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3`: two words a set.
    const VERSION: u32 = 0x2008_0522;
    let header: [u32; 2] = [VERSION, 0];
    let none = [[0u32; 3]; 2];
    // SAFETY:
    // - `header` has the layout of `__user_cap_header_struct`: a version and a process id, 0 for this one;
    // - for this version `none` has the layout of the two `__user_cap_data_struct` that are read.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn set_limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit64 { rlim_cur: value, rlim_max: value };
    // SAFETY: `limit` outlives the call, and a null old limit is allowed.
    check(unsafe { libc::prlimit64(0, resource, &raw const limit, std::ptr::null_mut()) }).map(drop)
}

/// The hard limit in force.
pub(super) fn hard_limit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writing, and a null new limit changes nothing.
    check(unsafe { libc::prlimit64(0, resource, std::ptr::null(), &raw mut limit) })?;
    Ok(limit.rlim_max)
}

/// Makes `target` the same open file as `fd`, kept on exec; whatever `target` was is closed.
pub(super) fn copy_to(fd: RawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes integers only; the callers own both numbers, or own that nothing else does.
    check(unsafe { libc::dup2(fd, target) }).map(drop)
}

/// Closes every descriptor from `first` to `last`.
pub(super) fn close_between(first: RawFd, last: RawFd) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: takes integers only; the callers hold no owner of a descriptor in this range that they use again.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result != -1 {
        return Ok(());
    }
    // Linux before 5.9.
    for fd in first..=last.min(4096) {
        // SAFETY: as above; a number that is not open is no error here.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

/// Gives every signal its usual effect and lets all through; the Rust runtime ignores SIGPIPE, and that would be inherited.
pub(super) fn reset_signals() {
    // SAFETY:
    // - `SIG_DFL` is a valid disposition for SIGPIPE;
    // - `sigemptyset` initialises the set before `sigprocmask` reads it, and no old mask is asked for.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

pub(super) fn set_affinity(cores: &[usize]) -> io::Result<()> {
    // SAFETY: an all-zero `cpu_set_t` is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for core in cores.iter().filter(|core| **core < libc::CPU_SETSIZE as usize) {
        // SAFETY: the index is less than `CPU_SETSIZE`.
        unsafe { libc::CPU_SET(*core, &mut set) };
    }
    // SAFETY: `set` is a `cpu_set_t`, and the size given is its own.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }).map(drop)
}

/// Becomes another program; returns only if that fails.
///
/// # Safety
/// - `path` points to a text that ends in NUL.
/// - `args` and `env` end in a null pointer, and every pointer before it points to a text that ends in NUL.
pub(super) unsafe fn execute(
    path: *const libc::c_char,
    args: &[*const libc::c_char],
    env: &[*const libc::c_char],
) -> io::Error {
    debug_assert!(args.last().is_some_and(|last| last.is_null()));
    debug_assert!(env.last().is_some_and(|last| last.is_null()));
    // SAFETY: what `execve` needs is what the caller promises.
    unsafe { libc::execve(path, args.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error()
}

/// A number that nobody can guess.
pub(super) fn random() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: `bytes` is valid for writing as many bytes as are asked for.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == bytes.len() as isize {
        Ok(u64::from_ne_bytes(bytes))
    } else {
        Err(io::Error::last_os_error())
    }
}
