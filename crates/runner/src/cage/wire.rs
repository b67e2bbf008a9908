//! What judge and launcher say to each other: one JSON text a packet.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::Pid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::applied::{Applied, Layer};
use super::policy::{Limits, Profile};

/// The most descriptors that go with a packet; the kernel's own bound is 253.
pub(super) const FDS_MAX: usize = 32;
const PACKET_BYTES: usize = 160 << 10;

/// What the launcher is to do. The descriptors travel beside it: the control socket, then the program's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) profile: Profile,
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) reads: Vec<PathBuf>,
    pub(super) executes: Vec<PathBuf>,
    pub(super) writes: Vec<PathBuf>,
    pub(super) devices: Vec<PathBuf>,
    pub(super) working_folder: Option<PathBuf>,
    pub(super) limits: Limits,
    pub(super) cores: Option<Vec<usize>>,
    pub(super) without: Vec<Layer>,
    /// Why an earlier attempt had to give up namespaces.
    pub(super) namespaces_refused: Option<String>,
}

impl Order {
    pub(super) fn wants(&self, layer: Layer) -> bool {
        !self.without.contains(&layer)
    }
}

/// What the launcher says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    /// The cage is closed and the program may start. The sender is the process that becomes the program.
    Ready(Applied),
    /// The program cannot be started.
    Failed { doing: String, error: String },
    /// Namespaces were granted, but not what is needed inside them.
    NamespacesRefused { why: String },
    /// The program ended, with this status as `wait` gives it.
    Ended(i32),
}

/// The judge's answer to [`Word::Ready`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Go;

/// A packet as it came in.
pub(super) struct Packet<T> {
    pub(super) value: T,
    pub(super) fds: Vec<OwnedFd>,
    /// Who sent it, in the receiver's own process namespace, if the socket asks for that.
    pub(super) sender: Option<Pid>,
}

pub(super) fn send(socket: BorrowedFd<'_>, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    if text.len() > PACKET_BYTES || fds.len() > FDS_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(&text)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives the next packet; `None` when every other end is closed.
pub(super) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<Packet<T>>> {
    let mut text = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut text)];
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let (mut fds, mut sender) = (Vec::new(), None);
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(rights) => fds.extend(rights),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.pid),
            _ => {}
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let value = serde_json::from_slice(&text[..received.bytes])?;
    Ok(Some(Packet { value, fds, sender }))
}

/// Whether `socket` has a packet, or its other ends are closed, before `wait_ms` are over; for ever if negative.
pub(super) fn readable(socket: impl AsFd, wait_ms: i32) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let timeout = (wait_ms >= 0).then(|| Timespec {
        tv_sec: i64::from(wait_ms / 1000),
        tv_nsec: i64::from(wait_ms % 1000) * 1_000_000,
    });
    let mut fds = [PollFd::new(&socket, PollFlags::IN)];
    match poll(&mut fds, timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
