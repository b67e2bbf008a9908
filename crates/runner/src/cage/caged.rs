//! A program in its cage, seen from the judge.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair, sockopt};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::applied::{Applied, LayerState, Tier};
use super::output::{Output, Reader};
use super::policy::{Policy, Profile};
use super::wire::{self, Go, Order, Word};
use super::{Cage, LAUNCH};
use crate::MachineError;

/// How long the launcher may take; it has milliseconds of work.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(20);
/// How long the supervisor may take to sweep and end once the program is dead. Long, for what it leaves is left for good.
const SWEEP_DEADLINE: Duration = Duration::from_secs(60);

/// How a caged program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Killed: it printed more than it may.
    Flooded,
    /// Killed: it was not done by the deadline.
    TimedOut,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Signalled(signal) => write!(f, "died of signal {signal}"),
            Self::Flooded => write!(f, "killed: it printed too much"),
            Self::TimedOut => write!(f, "killed: it was not done by the deadline"),
        }
    }
}

/// A program in its cage. Dropping it kills and reaps the program and everything that it started.
pub struct Caged {
    supervisor: Child,
    control: OwnedFd,
    pid: Pid,
    pidfd: OwnedFd,
    reader: Reader,
    applied: Applied,
    status: Option<i32>,
    ended: Option<Ended>,
}

impl fmt::Debug for Caged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caged")
            .field("pid", &self.pid)
            .field("tier", &self.applied.tier)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Starts the launcher and waits until it has become the program.
pub(super) fn start(cage: &Cage, policy: Policy) -> Result<Caged, MachineError> {
    let Policy {
        profile,
        program,
        args,
        env,
        reads,
        executes,
        writes,
        devices,
        working_folder,
        fds,
        limits,
        cores,
    } = policy;
    if profile == Profile::Run && !writes.is_empty() {
        return Err(system("caging a program", "only a build may write"));
    }
    let mut order = Order {
        profile,
        program,
        args,
        env,
        reads,
        executes,
        writes,
        devices,
        working_folder,
        limits,
        cores,
        without: cage.without.clone(),
        namespaces_refused: None,
    };
    loop {
        match attempt(cage, &order, &fds)? {
            Launch::Running(caged) => return Ok(*caged),
            // Some systems grant a namespace and then nothing inside it. A process cannot leave it again: a new one starts without.
            Launch::NamespacesRefused(why) if order.namespaces_refused.is_none() => {
                order.namespaces_refused = Some(why);
            }
            Launch::NamespacesRefused(why) => return Err(system("caging a program", why)),
        }
    }
}

enum Launch {
    Running(Box<Caged>),
    NamespacesRefused(String),
}

fn attempt(cage: &Cage, order: &Order, fds: &[OwnedFd]) -> Result<Launch, MachineError> {
    let (start, start_there) = pair()?;
    let (control, control_there) = pair()?;
    sockopt::set_socket_passcred(&start, true).map_err(MachineError::system("asking for credentials"))?;
    let mut supervisor = Command::new(&cage.launcher)
        .arg(LAUNCH)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(start_there))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MachineError::system(format!("starting the launcher {}", cage.launcher.display())))?;
    let launch =
        hand_over(&start, control_there, order, fds).and_then(|()| negotiate(&start, cage, &mut supervisor));
    let (pid, pidfd, applied) = match launch {
        Ok(Negotiated::Running(pid, pidfd, applied)) => (pid, pidfd, applied),
        Ok(Negotiated::NamespacesRefused(why)) => {
            abandon(&mut supervisor, control);
            return Ok(Launch::NamespacesRefused(why));
        }
        Err(error) => {
            abandon(&mut supervisor, control);
            return Err(error);
        }
    };
    let reader = match (supervisor.stdout.take(), supervisor.stderr.take(), pidfd.try_clone()) {
        (Some(stdout), Some(stderr), Ok(pidfd)) => Reader::start(stdout, stderr, pidfd, &order.limits),
        (_, _, pidfd) => Err(pidfd.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
    };
    match reader {
        Ok(reader) => Ok(Launch::Running(Box::new(Caged {
            supervisor,
            control,
            pid,
            pidfd,
            reader,
            applied,
            status: None,
            ended: None,
        }))),
        Err(error) => {
            abandon(&mut supervisor, control);
            Err(system("reading the output", error))
        }
    }
}

fn pair() -> Result<(OwnedFd, OwnedFd), MachineError> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(MachineError::system("making a socket pair"))
}

fn hand_over(
    start: &OwnedFd,
    control_there: OwnedFd,
    order: &Order,
    fds: &[OwnedFd],
) -> Result<(), MachineError> {
    let all: Vec<BorrowedFd<'_>> = std::iter::once(&control_there).chain(fds).map(AsFd::as_fd).collect();
    wire::send(start.as_fd(), order, &all).map_err(MachineError::system("instructing the launcher"))
}

enum Negotiated {
    Running(Pid, OwnedFd, Applied),
    NamespacesRefused(String),
}

fn negotiate(start: &OwnedFd, cage: &Cage, supervisor: &mut Child) -> Result<Negotiated, MachineError> {
    let deadline = Instant::now() + LAUNCH_DEADLINE;
    let Some(packet) = next_word(start, deadline)? else {
        let status = supervisor.try_wait().ok().flatten();
        let text = status.map_or_else(|| "it went silent".to_owned(), |status| status.to_string());
        return Err(system("launching a cage", format!("the launcher ended early: {text}")));
    };
    let applied = match packet.value {
        Word::Ready(applied) => applied,
        Word::Failed { doing, error } => return Err(MachineError::System { doing, error }),
        Word::NamespacesRefused { why } => return Ok(Negotiated::NamespacesRefused(why)),
        Word::Ended(_) => return Err(system("launching a cage", "out of turn")),
    };
    refuse_unsafe(&applied, cage.trust)?;
    let pid = packet.sender.ok_or_else(|| system("launching a cage", "the kernel named no sender"))?;
    // The sender waits for the answer, so the id is still its own.
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(MachineError::system("watching the program"))?;
    wire::send(start.as_fd(), &Go, &[]).map_err(MachineError::system("starting the program"))?;
    // The other end is closed by becoming the program.
    match next_word(start, deadline)? {
        None => Ok(Negotiated::Running(pid, pidfd, applied)),
        Some(wire::Packet { value: Word::Failed { doing, error }, .. }) => {
            Err(MachineError::System { doing, error })
        }
        Some(_) => Err(system("starting the program", "the launcher spoke out of turn")),
    }
}

fn next_word(start: &OwnedFd, deadline: Instant) -> Result<Option<wire::Packet<Word>>, MachineError> {
    loop {
        if wire::readable(start, ms_until(Some(deadline)))
            .map_err(MachineError::system("launching a cage"))?
        {
            return wire::receive(start.as_fd()).map_err(MachineError::system("listening to the launcher"));
        }
        if Instant::now() >= deadline {
            return Err(system("launching a cage", format!("not done within {LAUNCH_DEADLINE:?}")));
        }
    }
}

fn refuse_unsafe(applied: &Applied, trust: bool) -> Result<(), MachineError> {
    if applied.tier < Tier::D || (applied.tier == Tier::D && trust) {
        return Ok(());
    }
    let off: Vec<&LayerState> = applied.layers.iter().filter(|state| !state.on).collect();
    let join = |texts: Vec<String>| texts.join("; ");
    let why = join(off.iter().map(|state| format!("{} is off ({})", state.layer, state.detail)).collect());
    let remedy = join(
        off.iter().filter_map(|state| Some(format!("{}: {}", state.layer, state.remedy.as_ref()?))).collect(),
    );
    Err(MachineError::NoCage { why, remedy })
}

/// Ends a launcher whose program never started.
fn abandon(supervisor: &mut Child, control: OwnedFd) {
    // It ends its children when the control socket closes.
    drop(control);
    if !ends_within(supervisor, SWEEP_DEADLINE) {
        // Its children ask to be killed when it dies.
        let _ = supervisor.kill();
    }
    let _ = supervisor.wait();
}

/// Waits for a child without polling it: by its descriptor where the kernel gives one.
fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let pidfd =
        Pid::from_raw(child.id().cast_signed()).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        if !matches!(child.try_wait(), Ok(None)) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        match &pidfd {
            Some(pidfd) => drop(wire::readable(pidfd, ms_until(Some(deadline)))),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn ms_until(deadline: Option<Instant>) -> i32 {
    let Some(deadline) = deadline else { return -1 };
    let left = deadline.saturating_duration_since(Instant::now());
    i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

fn system(doing: &str, error: impl fmt::Display) -> MachineError {
    MachineError::system(doing)(error)
}

impl Caged {
    /// The program's process id, as this process sees it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// A descriptor of the program's process: readable once it ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The layers that hold.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// What the program printed so far. All of it once it has ended.
    pub fn output(&self) -> Output {
        self.reader.output()
    }

    /// Waits for the program to end, and kills it at the deadline. Nothing of it is left when this returns.
    ///
    /// # Errors
    /// [`MachineError::System`] if the supervisor cannot be listened to; the program is dead then too.
    pub fn wait(&mut self, deadline: Option<Instant>) -> Result<Ended, MachineError> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        loop {
            match wire::readable(&self.control, ms_until(deadline)) {
                Ok(true) => return Ok(self.conclude(None)),
                Ok(false) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    self.send_kill();
                    return Ok(self.conclude(Some(Ended::TimedOut)));
                }
                Ok(false) => {}
                Err(error) => {
                    self.kill();
                    return Err(system("waiting for the program", error));
                }
            }
        }
    }

    /// Kills the program and everything that it started, and reaps it.
    pub fn kill(&mut self) {
        if self.ended.is_none() {
            self.send_kill();
            self.conclude(None);
        }
    }

    fn send_kill(&self) {
        // It may have ended by itself meanwhile.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Takes the supervisor's word, waits for it to end, and settles how the program ended.
    fn conclude(&mut self, because: Option<Ended>) -> Ended {
        let sweep_deadline = Instant::now() + SWEEP_DEADLINE;
        if matches!(wire::readable(&self.control, ms_until(Some(sweep_deadline))), Ok(true))
            && let Ok(Some(wire::Packet { value: Word::Ended(status), .. })) =
                wire::receive(self.control.as_fd())
        {
            self.status = Some(status);
        }
        if !ends_within(&mut self.supervisor, SWEEP_DEADLINE) {
            let _ = self.supervisor.kill();
        }
        let _ = self.supervisor.wait();
        self.reader.join();
        // Without the supervisor's word the program died with it: killed from outside, as by the kernel for want of memory.
        let status = ExitStatus::from_raw(self.status.unwrap_or(libc::SIGKILL));
        let seen = match (status.code(), status.signal()) {
            (Some(code), _) => Ended::Exited(code),
            (None, signal) => Ended::Signalled(signal.unwrap_or(libc::SIGKILL)),
        };
        let ended = if self.reader.flooded() { Ended::Flooded } else { because.unwrap_or(seen) };
        self.ended = Some(ended);
        ended
    }
}

impl Drop for Caged {
    fn drop(&mut self) {
        self.kill();
    }
}
