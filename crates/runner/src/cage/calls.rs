//! Lists of system calls, by what they are for.

use libc::*;

/// Calls that are refused as if the kernel did not know them: C libraries then use an older one, whose arguments can be checked.
pub(super) const UNKNOWN: &[i64] = &[SYS_clone3, SYS_openat2, SYS_io_uring_setup];

/// Calls that any program may make, with any arguments.
pub(super) const ANY: &[i64] = &[
    // Memory.
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_msync,
    SYS_mincore,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_membarrier,
    // Threads and signals of its own.
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_sched_yield,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getcpu,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigpending,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    SYS_wait4,
    SYS_waitid,
    // Who and where it is.
    SYS_getpid,
    SYS_gettid,
    SYS_getppid,
    SYS_getpgid,
    SYS_getsid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrusage,
    SYS_times,
    SYS_capget,
    // Time and chance.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getitimer,
    SYS_setitimer,
    SYS_getrandom,
    // Descriptors that it has. Sockets among them can be used, none can be made.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_lseek,
    SYS_close,
    SYS_close_range,
    SYS_dup,
    SYS_dup3,
    SYS_fcntl,
    SYS_flock,
    SYS_fstat,
    SYS_fstatfs,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fadvise64,
    SYS_readahead,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_splice,
    SYS_pipe2,
    SYS_eventfd2,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_shutdown,
    SYS_getsockopt,
    SYS_getsockname,
    SYS_getpeername,
    // Names of files: what they reach is bounded by access rules and mounts.
    SYS_openat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_chdir,
    SYS_fchdir,
    SYS_umask,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_symlinkat,
    SYS_linkat,
    #[cfg(target_arch = "aarch64")]
    SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    SYS_open,
    #[cfg(target_arch = "x86_64")]
    SYS_creat,
    #[cfg(target_arch = "x86_64")]
    SYS_stat,
    #[cfg(target_arch = "x86_64")]
    SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    SYS_access,
    #[cfg(target_arch = "x86_64")]
    SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    SYS_getdents,
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    SYS_rename,
    #[cfg(target_arch = "x86_64")]
    SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    SYS_link,
    // Older forms of calls above, which C libraries still make on this architecture.
    #[cfg(target_arch = "x86_64")]
    SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    SYS_poll,
    #[cfg(target_arch = "x86_64")]
    SYS_select,
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_create,
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    SYS_eventfd,
    #[cfg(target_arch = "x86_64")]
    SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    SYS_getpgrp,
    #[cfg(target_arch = "x86_64")]
    SYS_time,
    #[cfg(target_arch = "x86_64")]
    SYS_alarm,
    #[cfg(target_arch = "x86_64")]
    SYS_pause,
];

/// What compilers need beside [`ANY`].
pub(super) const BUILD: &[i64] = &[
    SYS_execve,
    SYS_setpgid,
    SYS_setsid,
    SYS_fchmod,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    #[cfg(target_arch = "x86_64")]
    SYS_fork,
    #[cfg(target_arch = "x86_64")]
    SYS_vfork,
];

/// Changes of mode and time by name, which access rules do not cover.
pub(super) const CHANGE: &[i64] = &[
    SYS_fchmodat,
    SYS_utimensat,
    SYS_truncate,
    #[cfg(target_arch = "x86_64")]
    SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    SYS_utime,
    #[cfg(target_arch = "x86_64")]
    SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    SYS_futimesat,
];

/// What drivers of devices need beside [`ANY`].
pub(super) const DEVICE: &[i64] = &[
    SYS_ioctl,
    SYS_memfd_create,
    SYS_mlock,
    SYS_munlock,
    SYS_sched_setaffinity,
    SYS_sched_getaffinity,
    SYS_set_mempolicy,
    SYS_setsockopt,
    SYS_connect,
    SYS_bind,
    SYS_listen,
];
