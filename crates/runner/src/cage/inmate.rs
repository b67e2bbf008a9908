//! The last steps of the process that becomes the program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use super::applied::{Applied, Layer, LayerState};
use super::launcher::{Failure, Lines, Prepared};
use super::policy::Profile;
use super::wire::{self, Go, Order, Word};
use super::{identity, landlock, limits, rig, seccomp};

/// Closes the cage around this process and becomes the program.
///
/// The order matters: users change before access rules so that those are the last word, limits come late because these steps
/// allocate, and system calls are restricted last because every other step makes some.
pub(super) fn become_program(
    order: &Order,
    lines: &Lines,
    prepared: Prepared,
    procfs: Option<LayerState>,
) -> ! {
    let Err(failure) = close_and_execute(order, lines, prepared, procfs);
    lines.fail(failure);
    rig::exit(127)
}

fn close_and_execute(
    order: &Order,
    lines: &Lines,
    prepared: Prepared,
    procfs: Option<LayerState>,
) -> Result<std::convert::Infallible, Failure> {
    let Prepared { mut user, spaces } = prepared;
    let inside = spaces.inside();
    if let Some(cores) = &order.cores {
        rig::set_affinity(cores).map_err(Failure::system(format!("pinning to processors {cores:?}")))?;
    }
    user.take_on(order).map_err(Failure::system("changing the user"))?;
    identity::drop_privileges().map_err(Failure::system("giving up privileges"))?;
    // Changing the user clears it.
    rig::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(Failure::system("tying the program to its parent"))?;
    rig::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(Failure::system("giving up new privileges"))?;
    // The default of 50 us would be the resolution of every sleep that the program makes.
    let _ = rig::prctl(libc::PR_SET_TIMERSLACK, 1);

    let has_procfs = procfs.as_ref().is_some_and(|state| state.on);
    let mut layers = vec![spaces.state];
    layers.extend(procfs);
    layers.push(user.state(inside));
    layers.push(landlock::apply(order, inside, has_procfs)?);
    let folder = order.working_folder.as_deref().unwrap_or("/".as_ref());
    std::env::set_current_dir(folder)
        .map_err(Failure::system(format!("starting in {}", folder.display())))?;

    let changes_are_harmless = inside || user.owns_nothing();
    let arguments = Arguments::of(order)?;
    let path =
        seccomp::HiddenText::of(order.program.as_os_str()).map_err(Failure::system("naming the program"))?;
    let filters = seccomp::compile(order, path.address(), changes_are_harmless)?;
    if order.profile == Profile::Build && !inside {
        // Whatever a build leaves running must not keep the supervisor from the processor.
        let _ = rustix::process::setpriority_process(None, 10);
    }
    let shared_tasks = user.shares_task_limit(inside).then(limits::tasks_of_this_user);
    if order.wants(Layer::Limits) {
        layers.push(limits::apply(order, shared_tasks).map_err(Failure::system("setting limits"))?);
    } else {
        layers.push(LayerState::left_off(Layer::Limits, "memory, tasks and processor time are not bounded"));
    }
    let start = arrange_descriptors(lines).map_err(Failure::system("arranging descriptors"))?;
    layers.push(filters.apply()?);

    let start = start.as_fd();
    let refused = |error| Failure::System { doing: "speaking to the judge".into(), error };
    wire::send(start, &Word::Ready(Applied::of(layers)), &[]).map_err(refused)?;
    if wire::receive::<Go>(start).map_err(refused)?.is_none() {
        rig::exit(1);
    }
    // SAFETY:
    // - `path` ends in NUL and lives to the end of this function;
    // - the lists of `arguments` end in a null pointer, and the texts they point to live as long as `arguments`.
    let error = unsafe { rig::execute(path.as_ptr(), &arguments.args, &arguments.env) };
    Err(Failure::System { doing: format!("starting {}", order.program.display()), error })
}

/// Moves the program's descriptors to 3, 4, 5, … and closes everything else but the line to the judge, which closes itself.
fn arrange_descriptors(lines: &Lines) -> io::Result<std::os::fd::BorrowedFd<'_>> {
    for (target, fd) in (3..).zip(&lines.fds) {
        rig::copy_to(fd.as_raw_fd(), target)?;
    }
    let first_free = 3 + lines.fds.len() as RawFd;
    let start = lines.start.as_raw_fd();
    rig::close_between(first_free, start - 1)?;
    rig::close_between(start + 1, RawFd::MAX)?;
    Ok(lines.start.as_fd())
}

/// Arguments and environment as `execve` takes them.
struct Arguments {
    args: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    /// What the pointers point to.
    _texts: [Vec<CString>; 2],
}

impl Arguments {
    fn of(order: &Order) -> Result<Self, Failure> {
        let text = |bytes: &[u8]| {
            CString::new(bytes).map_err(|error| Failure::system("passing an argument")(error.into()))
        };
        let name = [order.program.as_os_str()];
        let args = name.into_iter().chain(order.args.iter().map(AsRef::<OsStr>::as_ref));
        let args = args.map(|arg| text(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let env =
            order.env.iter().map(|(key, value)| text(&[key.as_bytes(), b"=", value.as_bytes()].concat()));
        let env = env.collect::<Result<Vec<_>, _>>()?;
        let pointers =
            |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Ok(Self { args: pointers(&args), env: pointers(&env), _texts: [args, env] })
    }
}
