//! Listens to a host, and finds out how it ended when it does not answer.

use std::io;
use std::time::{Duration, Instant};

use tribunal_contract::Fault;

use super::{Arenas, Host, SessionLimits};
use crate::cage::{Ended, clean};
use crate::gauge::Memory;
use crate::wire::{FromHost, Received, fixed};
use crate::{MachineError, Trouble};

/// How long a process may take to end once its connection is closed.
const GRACE: Duration = Duration::from_secs(2);
/// Characters of a submission's text that are shown.
const SHOWN_CHARS: usize = 400;

/// What the memory allocators of the languages print before they end the process.
const OUT_OF_MEMORY: [&str; 4] =
    ["memory allocation of ", "std::bad_alloc", "OpenBLAS error: Memory allocation", "MemoryError"];

/// What came in place of a packet, or a packet in full.
pub(super) enum Heard {
    /// The DONE that was due; the flag says that the call failed.
    Done(bool),
    Other(Vec<u8>),
    Closed,
    TimedOut,
}

impl Host {
    /// The next message, which must be JSON.
    pub(super) fn hear(&mut self, limits: &SessionLimits, limit_s: f64) -> Result<FromHost, Trouble> {
        match self.listen(limit_s, None)? {
            Heard::Other(packet) => self.understand(limits, &packet),
            Heard::Closed => Err(self.autopsy(limits, false)),
            Heard::TimedOut => Err(self.too_slow(limit_s)),
            Heard::Done(_) => unreachable!("no DONE was due"),
        }
    }

    /// Waits for the next packet; `due` is the GO whose DONE it may be.
    pub(super) fn listen(&mut self, limit_s: f64, due: Option<&fixed::Go>) -> Result<Heard, MachineError> {
        let deadline = Instant::now() + Duration::from_secs_f64(limit_s);
        let failed = MachineError::system("listening to the host");
        Ok(match self.link.receive(deadline).map_err(failed)? {
            Received::Closed => Heard::Closed,
            Received::Oversized => Heard::Other(b"a packet longer than any".to_vec()),
            Received::TimedOut => Heard::TimedOut,
            Received::Packet(packet) => {
                let is =
                    |failed| due.and_then(|go| fixed::done(go, failed)).is_some_and(|done| packet == done);
                if is(false) {
                    Heard::Done(false)
                } else if is(true) {
                    Heard::Done(true)
                } else {
                    Heard::Other(packet.to_vec())
                }
            }
        })
    }

    pub(super) fn understand(&mut self, limits: &SessionLimits, packet: &[u8]) -> Result<FromHost, Trouble> {
        if let Some(at_input) = fixed::read_crash(packet) {
            return Err(self.autopsy(limits, at_input));
        }
        serde_json::from_slice(packet).map_err(|_| self.tampered("a message", packet))
    }

    /// What came of sending. Who leaves so many messages unread that there is no room for another is too slow.
    pub(super) fn said(
        &mut self,
        limits: &SessionLimits,
        doing: &str,
        sent: io::Result<()>,
    ) -> Result<(), Trouble> {
        match sent {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(self.too_slow(limits.load_s)),
            Err(error) => Err(MachineError::system(doing)(error).into()),
        }
    }

    /// The kernel's books have nothing on the host. Where they have something on the judge, that is because the host has ended, or its first thread
    /// has: the submission's doing, and no trouble of the machine.
    pub(super) fn unread(&mut self, limits: &SessionLimits, error: MachineError) -> Trouble {
        match Memory::of(rustix::process::getpid()) {
            Ok(_) => self.autopsy(limits, false),
            Err(_) => error.into(),
        }
    }

    /// The host did not answer in time.
    pub(super) fn too_slow(&mut self, limit_s: f64) -> Trouble {
        self.caged.kill();
        self.die(Fault::Deadline { limit_s })
    }

    /// The host sent what it must not.
    pub(super) fn tampered(&mut self, expected: &str, got: &[u8]) -> Trouble {
        self.caged.kill();
        let shown = presentable(&got[..got.len().min(100)]);
        self.die(Fault::Protocol { message: format!("expected {expected}, got {shown:?}") })
    }

    /// The connection ended: why?
    pub(super) fn autopsy(&mut self, limits: &SessionLimits, at_input: bool) -> Trouble {
        let ended = match self.caged.wait(Some(Instant::now() + GRACE)) {
            Ok(ended) => ended,
            Err(error) => return error.into(),
        };
        let memory = Fault::Memory { limit_bytes: limits.memory_bytes };
        let fault = match ended {
            Ended::Flooded => Fault::Flood { limit_bytes: limits.output_bytes },
            Ended::TimedOut => Fault::Protocol { message: "it hung up and went on running".into() },
            Ended::Exited(code) if code != 0 && self.said_out_of_memory() => memory,
            Ended::Exited(code) => Fault::Exited { code },
            // Nobody here sent it: the kernel did, for want of memory.
            Ended::Signalled(libc::SIGKILL) => memory,
            Ended::Signalled(libc::SIGXCPU) => Fault::Deadline { limit_s: super::start::CPU_S as f64 },
            Ended::Signalled(libc::SIGABRT) if self.said_out_of_memory() => memory,
            Ended::Signalled(signal) => {
                let gave_up = signal == libc::SIGABRT;
                let said = if gave_up { last_words(&self.caged.output().stderr) } else { String::new() };
                Fault::Crashed { signal: signal_name(signal), at_input, said }
            }
        };
        self.die(fault)
    }

    fn said_out_of_memory(&self) -> bool {
        let said = self.caged.output().stderr;
        OUT_OF_MEMORY.iter().any(|words| said.contains(words))
    }

    fn die(&mut self, fault: Fault) -> Trouble {
        self.pending = None;
        self.arenas = Arenas::default();
        self.dead = Some(fault.clone());
        fault.into()
    }
}

/// Why a process gave up: its first panic, without the thread's number, or else its last line.
fn last_words(stderr: &str) -> String {
    let words = match stderr.find("panicked at ") {
        Some(panic) => stderr[panic..].split("\nnote:").next(),
        None => stderr.lines().rfind(|line| !line.trim().is_empty()),
    };
    presentable(words.unwrap_or("").as_bytes())
}

/// A submission's text as it may be shown: one clean line, cut.
pub(super) fn presentable(text: &[u8]) -> String {
    let text = clean(text);
    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = words.char_indices().nth(SHOWN_CHARS) {
        words.truncate(cut);
        words.push('…');
    }
    words
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGXFSZ => "SIGXFSZ",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_the_first_panic_or_the_last_line() {
        let panic = "warming up\n\nthread '<unnamed>' (7) panicked at src/lib.rs:5:9:\nindex out of bounds\nnote: run with `RUST_BACKTRACE=1`\n\n\
                     thread '<unnamed>' (7) panicked at core/src/panicking.rs:225:5:\npanic in a function that cannot unwind\n";
        assert_eq!(last_words(panic), "panicked at src/lib.rs:5:9: index out of bounds");
        assert_eq!(last_words("one\n free(): invalid pointer\n \n"), "free(): invalid pointer");
        assert_eq!(last_words(""), "");
    }

    #[test]
    fn a_message_is_one_clean_line_of_bounded_length() {
        assert_eq!(presentable(b"ValueError: a\n\n\tb\x1b[31m"), "ValueError: a b[31m");
        let long = presentable("é".repeat(1000).as_bytes());
        assert_eq!(long.chars().count(), SHOWN_CHARS + 1);
        assert!(long.ends_with('…'));
    }
}
