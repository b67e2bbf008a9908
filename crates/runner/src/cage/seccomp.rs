//! Which system calls the program may make.
//!
//! Lists are of what is allowed; everything else is refused with `EPERM`, and calls that C libraries try first and know how to do
//! without are refused with `ENOSYS`. Other architectures' calls (32-bit entry, x32) match nothing in the list or kill.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::applied::{Layer, LayerState};
use super::calls;
use super::launcher::Failure;
use super::policy::Profile;
use super::wire::Order;

const COST: &str = "the program may ask the kernel for anything";

/// Rules for calls: an empty list allows a call with any arguments.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Filters that are ready to be put on.
pub(super) struct Filters {
    programs: Option<[BpfProgram; 2]>,
}

/// Compiles the filters for `order`, whose program's name is at `program_address`.
///
/// `changes_are_harmless` says that nothing outside the cage can have its mode, owner or times changed: access rules do not cover that.
pub(super) fn compile(
    order: &Order,
    program_address: u64,
    changes_are_harmless: bool,
) -> Result<Filters, Failure> {
    if !order.wants(Layer::Seccomp) {
        return Ok(Filters { programs: None });
    }
    let build = || -> Result<[BpfProgram; 2], seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let mut rules = Rules::new();
        allow(&mut rules, calls::ANY);
        // Of two filters that refuse, the later one names the error: it must leave these to the earlier.
        allow(&mut rules, calls::UNKNOWN);
        allow_on_self(&mut rules)?;
        match order.profile {
            Profile::Run => allow_running(&mut rules, program_address)?,
            Profile::Build => {
                allow(&mut rules, calls::BUILD);
                allow_building(&mut rules, changes_are_harmless)?;
            }
        }
        if !order.devices.is_empty() {
            // What a driver asks of its devices cannot be listed; which files are devices can.
            allow(&mut rules, calls::DEVICE);
            // NVIDIA's looks for a server that shares the device, and gives up if it may not look.
            let family = u64::from(libc::AF_UNIX.cast_unsigned());
            allow_if(&mut rules, libc::SYS_socket, vec![argument(0, SeccompCmpOp::Eq, family)?])?;
        }
        let errno = |errno: i32| SeccompAction::Errno(errno.cast_unsigned());
        let unknown: Rules = calls::UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
        let unknown = SeccompFilter::new(unknown, SeccompAction::Allow, errno(libc::ENOSYS), arch)?;
        let allowed = SeccompFilter::new(rules, errno(libc::EPERM), SeccompAction::Allow, arch)?;
        Ok([unknown.try_into()?, allowed.try_into()?])
    };
    let programs = build().map_err(|error| {
        Failure::system("compiling a system-call filter")(io::Error::other(error.to_string()))
    })?;
    Ok(Filters { programs: Some(programs) })
}

impl Filters {
    /// Puts the filters on this process: for good, and on everything that it starts or becomes.
    pub(super) fn apply(&self) -> Result<LayerState, Failure> {
        let layer = Layer::Seccomp;
        let Some(programs) = &self.programs else { return Ok(LayerState::left_off(layer, COST)) };
        for program in programs {
            if let Err(error) = seccompiler::apply_filter(program) {
                return Ok(LayerState::off(
                    layer,
                    error.to_string(),
                    COST,
                    "a kernel with CONFIG_SECCOMP_FILTER, and a container that allows seccomp",
                ));
            }
        }
        let instructions: usize = programs.iter().map(Vec::len).sum();
        Ok(LayerState::on(layer, format!("filters of {instructions} instructions")))
    }
}

fn allow(rules: &mut Rules, calls: &[i64]) {
    for call in calls {
        rules.insert(*call, Vec::new());
    }
}

/// Allows `call` with arguments that meet all conditions of any rule added for it.
fn allow_if(
    rules: &mut Rules,
    call: i64,
    conditions: Vec<SeccompCondition>,
) -> Result<(), seccompiler::BackendError> {
    rules.entry(call).or_default().push(SeccompRule::new(conditions)?);
    Ok(())
}

fn argument(index: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, op, value)
}

fn wide_argument(index: u8, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)
}

/// Calls that are allowed on the caller alone, or for a few purposes.
fn allow_on_self(rules: &mut Rules) -> Result<(), seccompiler::BackendError> {
    use SeccompCmpOp::Eq;

    // Process ids stay the same when this process becomes the program. Processes of a build signal each other: see there.
    let me = u64::from(std::process::id());
    for pid in [0, me] {
        // Limits may be asked for, not set.
        allow_if(rules, libc::SYS_prlimit64, vec![argument(0, Eq, pid)?, wide_argument(2, 0)?])?;
        allow_if(rules, libc::SYS_sched_getaffinity, vec![argument(0, Eq, pid)?])?;
    }
    for call in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        allow_if(rules, call, vec![argument(0, Eq, me)?])?;
    }
    let requests =
        [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD, libc::FIOCLEX, libc::FIONCLEX, libc::FIONBIO];
    for request in requests {
        allow_if(rules, libc::SYS_ioctl, vec![argument(1, Eq, request)?])?;
    }
    /// `PR_SET_VMA`, by which C libraries name their memory.
    const PR_SET_VMA: i32 = 0x5356_4d41;
    for option in [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_GET_DUMPABLE, PR_SET_VMA] {
        allow_if(rules, libc::SYS_prctl, vec![argument(0, Eq, u64::from(option.cast_unsigned()))?])?;
    }
    #[cfg(target_arch = "x86_64")]
    for code in [0x1001, 0x1002, 0x1003, 0x1004, 0x3001] {
        // Thread-local storage, and a question about shadow stacks.
        allow_if(rules, libc::SYS_arch_prctl, vec![argument(0, Eq, code)?])?;
    }
    Ok(())
}

/// Threads, and this one time another program.
fn allow_running(rules: &mut Rules, program_address: u64) -> Result<(), seccompiler::BackendError> {
    const THREAD: i32 =
        libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
    const FORBIDDEN: i32 = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_PTRACE
        | libc::CLONE_VFORK;
    let mask = u64::from((THREAD | FORBIDDEN).cast_unsigned());
    let flags = argument(0, SeccompCmpOp::MaskedEq(mask), u64::from(THREAD.cast_unsigned()))?;
    allow_if(rules, libc::SYS_clone, vec![flags])?;
    allow_if(rules, libc::SYS_execve, vec![wide_argument(0, program_address)?])
}

/// Processes, but no namespaces; and changes of mode and time.
fn allow_building(rules: &mut Rules, changes_are_harmless: bool) -> Result<(), seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};

    const SPACES: i32 = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_PTRACE;
    allow_if(rules, libc::SYS_clone, vec![argument(0, MaskedEq(u64::from(SPACES.cast_unsigned())), 0)?])?;
    let family = u64::from(libc::AF_UNIX.cast_unsigned());
    allow_if(rules, libc::SYS_socketpair, vec![argument(0, Eq, family)?])?;
    if changes_are_harmless {
        // What can be signalled is then in the cage or of the same user, and nothing else is.
        for call in [libc::SYS_kill, libc::SYS_tgkill] {
            rules.insert(call, Vec::new());
        }
        allow(rules, calls::CHANGE);
    } else {
        // Setting the times of an open file is harmless: it could be opened.
        allow_if(rules, libc::SYS_utimensat, vec![wide_argument(1, 0)?])?;
    }
    Ok(())
}

/// A text at an address that cannot be guessed.
///
/// The filter of [`Profile::Run`] allows becoming a program only if its name lies where the launcher put it. That address means
/// nothing in the new program, unless it finds it out and puts another name there; access rules still bound what that could start.
pub(super) struct HiddenText {
    at: *mut libc::c_char,
}

impl HiddenText {
    pub(super) fn of(text: &OsStr) -> io::Result<Self> {
        let bytes = text.as_bytes();
        if bytes.contains(&0) || bytes.len() >= 4096 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        const MAP_BYTES: usize = 1 << 20;
        let offset = super::rig::random()? as usize % (MAP_BYTES - 4096);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
        let map = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MAP_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY:
        // - `offset` and the text's length, less than 4096, stay within the mapping, which is writable and never unmapped;
        // - the mapping is new, so it does not overlap `bytes`, and it is zero after the text.
        unsafe {
            let at = map.cast::<u8>().add(offset);
            ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            Ok(Self { at: at.cast() })
        }
    }

    pub(super) fn as_ptr(&self) -> *const libc::c_char {
        self.at
    }

    pub(super) fn address(&self) -> u64 {
        self.at as u64
    }
}
