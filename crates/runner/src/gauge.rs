//! What a process uses, from the kernel's books: it is asked from outside, and the process has no say.
//!
//! Process ids must be real ones ([`Caged::pid`](crate::cage::Caged::pid)), not what a process says of itself.

use std::time::Duration;

use rustix::process::Pid;

use crate::MachineError;

/// Bytes of memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Resident bytes that belong to no file: heap, stacks, private maps.
    pub anonymous_bytes: u64,
    /// Resident bytes of shared memory, the arenas among them.
    pub shared_bytes: u64,
    /// All resident bytes.
    pub resident_bytes: u64,
    /// The most bytes that were ever resident. Resident bytes are counted in batches by processor, so this may be short by a few
    /// pages for each.
    pub peak_bytes: u64,
}

impl Memory {
    /// The memory of process `pid` now, and at its worst.
    ///
    /// # Errors
    /// [`MachineError::System`] if the process is gone or has ended.
    pub fn of(pid: Pid) -> Result<Self, MachineError> {
        let status = read(pid, "status")?;
        let bytes = |name| Ok(field(&status, name)? * 1024);
        Ok(Self {
            anonymous_bytes: bytes("RssAnon")?,
            shared_bytes: bytes("RssShmem")?,
            resident_bytes: bytes("VmRSS")?,
            peak_bytes: bytes("VmHWM")?,
        })
    }
}

/// Makes the peak of process `pid` what is resident now. Says whether the kernel lets us.
pub fn forget_peak(pid: Pid) -> bool {
    std::fs::write(format!("/proc/{}/clear_refs", pid.as_raw_pid()), "5").is_ok()
}

/// How the scheduler treated a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Time its first thread was on a processor.
    pub ran: Duration,
    /// Time its first thread was ready and had to wait for a processor.
    pub waited: Duration,
    /// How many times its first thread was put on a processor.
    pub slices: u64,
}

/// The processor time of all threads of a process. One reading costs a third of a microsecond.
#[derive(Debug, Clone, Copy)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// The clock of process `pid`.
    ///
    /// # Errors
    /// [`MachineError::System`] if there is no such process.
    pub fn of(pid: Pid) -> Result<Self, MachineError> {
        let mut clock = 0;
        // SAFETY: `clock` is valid for writing a clock id.
        let errno = unsafe { libc::clock_getcpuclockid(pid.as_raw_pid(), &raw mut clock) };
        if errno == 0 { Ok(Self(clock)) } else { Err(failed("finding a process's clock", errno)) }
    }

    /// Reads the clock.
    ///
    /// # Errors
    /// [`MachineError::System`] if the process is gone.
    pub fn read(self) -> Result<Duration, MachineError> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for writing a timespec.
        if unsafe { libc::clock_gettime(self.0, &raw mut time) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(MachineError::system("reading a process's clock")(error));
        }
        Ok(Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0)))
    }
}

fn failed(doing: &str, errno: i32) -> MachineError {
    MachineError::system(doing)(std::io::Error::from_raw_os_error(errno))
}

/// How many threads process `pid` has.
///
/// # Errors
/// [`MachineError::System`] if the process is gone.
pub fn threads(pid: Pid) -> Result<u64, MachineError> {
    field(&read(pid, "status")?, "Threads")
}

/// How the scheduler treated the first thread of process `pid`.
///
/// # Errors
/// [`MachineError::System`] if the process is gone, or the kernel keeps no such books (`CONFIG_SCHED_INFO`).
pub fn schedule(pid: Pid) -> Result<Schedule, MachineError> {
    parse_schedule(&read(pid, "schedstat")?)
}

fn parse_schedule(text: &str) -> Result<Schedule, MachineError> {
    let numbers: Vec<u64> = text.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [ran, waited, slices] = numbers[..] else {
        return Err(MachineError::system("reading schedstat")(format!("not three numbers: {text:?}")));
    };
    Ok(Schedule { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited), slices })
}

fn read(pid: Pid, file: &str) -> Result<String, MachineError> {
    let path = format!("/proc/{}/{file}", pid.as_raw_pid());
    std::fs::read_to_string(&path).map_err(MachineError::system(format!("reading {path}")))
}

/// A number of a status file. A process that has ended has lines fewer.
fn field(status: &str, name: &str) -> Result<u64, MachineError> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| MachineError::system("reading a process's status")(format!("no {name} in it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Pid {
        rustix::process::getpid()
    }

    #[test]
    fn work_moves_the_clock() {
        let clock = CpuClock::of(me()).unwrap();
        let before = clock.read().unwrap();
        let start = std::time::Instant::now();
        while clock.read().unwrap() < before + Duration::from_millis(5) {
            assert!(start.elapsed() < Duration::from_secs(20), "the clock stands still");
        }
        // One more than any process can have.
        let nobody = Pid::from_raw((1 << 22) + 1).unwrap();
        assert!(matches!(CpuClock::of(nobody), Err(MachineError::System { .. })));
    }

    #[test]
    fn threads_and_schedule_are_read() {
        assert!(threads(me()).unwrap() >= 1);
        assert!(schedule(me()).unwrap().slices >= 1);
        assert_eq!(
            parse_schedule("12 34 5\n").unwrap(),
            Schedule { ran: Duration::from_nanos(12), waited: Duration::from_nanos(34), slices: 5 }
        );
        assert!(parse_schedule("0 x 0").is_err());
        assert_eq!(field("Name:\tx\nThreads:\t7\n", "Threads").unwrap(), 7);
        assert!(field("Threads2:\t7\n", "Threads").is_err());
    }
}
