//! What a caged program prints: kept in part, cut, cleaned before anyone sees it.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStderr, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use super::policy::Limits;

/// How long the streams may stay open once the program and its supervisor are dead.
const STREAMS_DEADLINE: Duration = Duration::from_secs(2);

/// What a program printed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The beginning of its standard output, as much as the limits say, cleaned.
    pub stdout: String,
    /// The beginning of its standard error, cleaned.
    pub stderr: String,
    /// Whether it printed more than it may, and was killed for it.
    pub flooded: bool,
}

/// Makes text from a submission fit to be shown: no terminal escapes, no text that runs backwards, no invisible
/// characters. Newlines and tabs stay.
pub fn clean(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| *c == '\n' || *c == '\t' || !hidden(*c)).collect()
}

/// Control characters, and those of Unicode's format characters (class Cf) and separators that reorder or hide text.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

#[derive(Default)]
struct Kept {
    streams: [Vec<u8>; 2],
    total_bytes: u64,
    flooded: bool,
}

/// Reads both streams on a thread of its own, so that a program that prints is never stopped by a full pipe.
pub(super) struct Reader {
    kept: Arc<Mutex<Kept>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Starts reading. Once more came than the limits allow, the process behind `pidfd` is killed.
    pub(super) fn start(
        stdout: ChildStdout,
        stderr: ChildStderr,
        pidfd: OwnedFd,
        limits: &Limits,
    ) -> std::io::Result<Self> {
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = Arc::clone(&kept);
        let (limit_bytes, kept_bytes) = (limits.output_bytes, limits.kept_bytes);
        let thread = std::thread::Builder::new().name("cage output".into()).stack_size(128 << 10).spawn(
            move || {
                read_all(
                    [Stream::Out(stdout), Stream::Err(stderr)],
                    &shared,
                    limit_bytes,
                    kept_bytes,
                    || {
                        // The process may have ended by itself meanwhile; then there is nothing to kill.
                        let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                    },
                );
            },
        )?;
        Ok(Self { kept, thread: Some(thread) })
    }

    pub(super) fn flooded(&self) -> bool {
        lock(&self.kept).flooded
    }

    pub(super) fn output(&self) -> Output {
        let kept = lock(&self.kept);
        let [stdout, stderr] = kept.streams.each_ref().map(|stream| clean(stream));
        Output { stdout, stderr, flooded: kept.flooded }
    }

    /// Waits for both streams to end: once every process that holds them is gone.
    ///
    /// Something in the kernel may keep such a process from dying for long; the thread is then left to itself, not waited for.
    pub(super) fn join(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + STREAMS_DEADLINE;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let _ = thread.join();
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Stream {
    Out(ChildStdout),
    Err(ChildStderr),
    Closed,
}

fn read_all(
    mut streams: [Stream; 2],
    kept: &Mutex<Kept>,
    limit_bytes: u64,
    kept_bytes: u64,
    kill: impl Fn(),
) {
    let kept_bytes = usize::try_from(kept_bytes).unwrap_or(usize::MAX);
    let mut chunk = vec![0; 64 << 10];
    while streams.iter().any(|stream| !matches!(stream, Stream::Closed)) {
        let ready = wait_for_any(&streams);
        for (index, stream) in streams.iter_mut().enumerate().filter(|(index, _)| ready[*index]) {
            let read = match stream {
                Stream::Out(pipe) => pipe.read(&mut chunk),
                Stream::Err(pipe) => pipe.read(&mut chunk),
                Stream::Closed => continue,
            };
            let Ok(count @ 1..) = read else {
                *stream = Stream::Closed;
                continue;
            };
            let mut kept = lock(kept);
            let room = kept_bytes.saturating_sub(kept.streams[index].len());
            kept.streams[index].extend_from_slice(&chunk[..count.min(room)]);
            kept.total_bytes += count as u64;
            if kept.total_bytes > limit_bytes && !kept.flooded {
                kept.flooded = true;
                kill();
            }
        }
    }
}

fn wait_for_any(streams: &[Stream; 2]) -> [bool; 2] {
    let mut indices = Vec::with_capacity(2);
    let mut fds = Vec::with_capacity(2);
    for (index, stream) in streams.iter().enumerate() {
        let fd = match stream {
            Stream::Out(pipe) => pipe.as_fd(),
            Stream::Err(pipe) => pipe.as_fd(),
            Stream::Closed => continue,
        };
        indices.push(index);
        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    let mut ready = [false; 2];
    // An interrupted poll finds nothing, and is asked again.
    if poll(&mut fds, None).is_ok() {
        for (index, fd) in indices.into_iter().zip(&fds) {
            ready[index] = !fd.revents().is_empty();
        }
    }
    ready
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{clean, hidden};

    #[test]
    fn escapes_and_reordering_are_stripped_and_text_stays() {
        assert_eq!(clean(b"a\x1b[31mred\x07\r\n\tb\x00"), "a[31mred\n\tb");
        assert_eq!(clean("x\u{202e}y\u{2066}z\u{200b}\u{feff}".as_bytes()), "xyz");
        assert_eq!(clean("Größe 数 ∑ é".as_bytes()), "Größe 数 ∑ é");
        assert_eq!(clean(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_that_acts_is_left_of_any_bytes(bytes in tribunal_hostile::bytes("a\x1b[31m\u{202e}\u{e0001}\r\n\tb".as_bytes())) {
            let text = clean(&bytes);
            prop_assert!(text.chars().all(|c| c == '\n' || c == '\t' || !hidden(c)), "{text:?}");
            prop_assert_eq!(clean(text.as_bytes()), text);
        }
    }
}
