//! What judge and host say to each other, one packet a message.
//!
//! Control is JSON. On the timed path four fixed packets are used: GO and DONE bracket the call, SETTLE asks for what
//! is said afterwards, CRASH is a host's last word. Whatever is not exactly the next message due is tampering.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};
use tribunal_contract::{DType, TensorSpec};

/// Version of the protocol.
pub(crate) const PROTOCOL: u32 = 2;
/// The most bytes of a packet.
pub(crate) const PACKET_BYTES: usize = 64 << 10;

/// Judge to host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToHost {
    Load {
        /// The module or library to load.
        entry: String,
        /// The submission's folder, where its other modules are.
        folder: String,
        /// What to look for in it.
        operations: Vec<String>,
        /// Whether to hold results that the submission returns in memory of its own, as a caller would, and tell which of them later calls change.
        holds_results: bool,
    },
    /// A descriptor comes with this: outputs.
    Arena {
        outputs_bytes: usize,
    },
    /// A descriptor comes with this: inputs, which are written when the call is released.
    Prepare(Prepare),
    Release {
        id: u32,
    },
    Bye,
}

/// A call that is about to be made.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) operation: String,
    pub(crate) inputs_bytes: usize,
    pub(crate) inputs: Vec<Input>,
    pub(crate) results: Vec<Expected>,
    /// Whether results that are held are let go of first.
    pub(crate) lets_go: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    Tensor(Placed),
    /// The bits of a double: JSON has no NaN.
    Real(u64),
    Integer(i64),
    State(u32),
}

/// One of the results that are due, in the contract's order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) name: String,
    pub(crate) place: Place,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    Tensor(Placed),
    State(u32),
}

/// A tensor and where in its arena it stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) offset: usize,
}

impl Placed {
    pub(crate) fn new(spec: &TensorSpec, offset: usize) -> Self {
        Self { dtype: spec.dtype, shape: spec.shape.clone(), offset }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.size_bytes()
    }
}

/// Host to judge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FromHost {
    Hello {
        protocol: u32,
        runtime: String,
    },
    Loaded {
        operations: Vec<String>,
    },
    Mapped {},
    Ready {},
    Settled {
        problem: Option<Problem>,
        #[serde(default)]
        disturbed: Vec<Disturbed>,
    },
    Released {},
    Failed {
        problem: Problem,
    },
}

/// A result of an earlier call that is different now.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disturbed {
    pub(crate) operation: String,
    pub(crate) result: String,
}

/// Why something did not work, in the host's words.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProblemKind {
    Load,
    Refused,
    WrongResult,
    Memory,
}

/// The fixed packets. `host.py` has them too.
pub(crate) mod fixed {
    const GO: [u8; 4] = *b"TGO1";
    const DONE: [u8; 4] = *b"TDN1";
    const SETTLE: [u8; 4] = *b"TST1";
    const CRASH: [u8; 4] = *b"TCR1";

    pub(crate) type Go = [u8; 16];
    pub(crate) type Done = [u8; 24];

    pub(crate) fn go(id: u32, nonce: u64) -> Go {
        with_head(GO, id, nonce)
    }

    pub(crate) fn settle(id: u32, nonce: u64) -> Go {
        with_head(SETTLE, id, nonce)
    }

    pub(crate) fn is_settle(packet: &[u8]) -> bool {
        packet.len() == size_of::<Go>() && packet[..4] == SETTLE
    }

    /// The answer to a GO; `None` if it is none.
    pub(crate) fn done(go: &[u8], failed: bool) -> Option<Done> {
        (go.len() == size_of::<Go>() && go[..4] == GO).then(|| {
            let mut packet = [0; size_of::<Done>()];
            packet[..16].copy_from_slice(go);
            packet[..4].copy_from_slice(&DONE);
            packet[16] = failed.into();
            packet
        })
    }

    pub(crate) fn crash(at_input: bool) -> Go {
        with_head(CRASH, at_input.into(), 0)
    }

    /// Whether the crash was at an input's address; `None` if the packet is no CRASH.
    pub(crate) fn read_crash(packet: &[u8]) -> Option<bool> {
        (packet.len() == size_of::<Go>() && packet[..4] == CRASH).then(|| packet[4] != 0)
    }

    fn with_head(magic: [u8; 4], id: u32, nonce: u64) -> Go {
        let mut packet = [0; size_of::<Go>()];
        packet[..4].copy_from_slice(&magic);
        packet[4..8].copy_from_slice(&id.to_ne_bytes());
        packet[8..].copy_from_slice(&nonce.to_ne_bytes());
        packet
    }
}

/// One end of the connection.
pub(crate) struct Link {
    socket: OwnedFd,
    buffer: Box<[u8]>,
}

/// What came of waiting for a packet.
pub(crate) enum Received<'a> {
    Packet(&'a [u8]),
    /// A packet longer than any may be.
    Oversized,
    /// The other end is gone.
    Closed,
    TimedOut,
}

impl Link {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; PACKET_BYTES].into() }
    }

    /// An end that waits so long, and no longer, for the other to make room for a packet: [`io::ErrorKind::WouldBlock`] is what comes of it then.
    pub(crate) fn patient(socket: OwnedFd, patience: Duration) -> io::Result<Self> {
        rustix::net::sockopt::set_socket_timeout(
            &socket,
            rustix::net::sockopt::Timeout::Send,
            Some(patience.max(Duration::from_millis(1))),
        )?;
        Ok(Self::new(socket))
    }

    /// Sends bytes as one packet. An end that is gone is no error here: receiving tells.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.send_with(packet, &[])
    }

    pub(crate) fn send_json(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_json_with(message, &[])
    }

    pub(crate) fn send_json_with(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packet = serde_json::to_vec(message)?;
        if packet.len() > PACKET_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is longer than a packet"));
        }
        self.send_with(&packet, fds)
    }

    fn send_with(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let sent = rustix::io::retry_on_intr(|| {
            if fds.is_empty() {
                return rustix::net::send(&self.socket, packet, SendFlags::NOSIGNAL);
            }
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
            rustix::net::sendmsg(&self.socket, &[IoSlice::new(packet)], &mut ancillary, SendFlags::NOSIGNAL)
        });
        match sent {
            Ok(_) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a packet until `deadline`. Descriptors that come with it are dropped by the kernel.
    pub(crate) fn receive(&mut self, deadline: Instant) -> io::Result<Received<'_>> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() && !self.readable(Duration::ZERO)? {
                return Ok(Received::TimedOut);
            }
            if self.readable(left)? {
                break;
            }
        }
        self.receive_now()
    }

    /// As [`Link::receive`], without sleeping: who sleeps is woken some tens of microseconds late, which a clock would count.
    pub(crate) fn receive_awake(&mut self, deadline: Instant) -> io::Result<Received<'_>> {
        if !self.stay_awake(deadline)? {
            return Ok(Received::TimedOut);
        }
        self.receive_now()
    }

    /// Waits for a packet, or the other end's end, without sleeping; whether there is one before `deadline`.
    pub(crate) fn stay_awake(&self, deadline: Instant) -> io::Result<bool> {
        while !self.readable(Duration::ZERO)? {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            // Where there are fewer processors than ends, the other end has to run.
            std::thread::yield_now();
        }
        Ok(true)
    }

    /// Receives the next packet however long that takes.
    pub(crate) fn receive_now(&mut self) -> io::Result<Received<'_>> {
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recv(self.socket.as_fd(), &mut self.buffer[..], RecvFlags::TRUNC)
        });
        match received {
            Ok((0, _)) | Err(rustix::io::Errno::CONNRESET) => Ok(Received::Closed),
            Ok((_, sent)) if sent > self.buffer.len() => Ok(Received::Oversized),
            Ok((count, _)) => Ok(Received::Packet(&self.buffer[..count])),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives the next packet and the descriptors that come with it. For hosts: the judge takes none.
    pub(crate) fn receive_with_fds(&mut self) -> io::Result<(&[u8], Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let count = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut self.buffer)];
            rustix::net::recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?
        .bytes;
        let fds = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            })
            .flatten()
            .collect();
        Ok((&self.buffer[..count], fds))
    }

    fn readable(&self, wait: Duration) -> io::Result<bool> {
        let wait = Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&wait)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gpu::wire::FromGpu;

    #[test]
    fn a_done_answers_its_go_and_no_other() {
        let go = fixed::go(7, 0x0123_4567_89ab_cdef);
        let done = fixed::done(&go, false).unwrap();
        assert_eq!(done[4..16], go[4..16]);
        assert_ne!(Some(done), fixed::done(&fixed::go(7, 1), false));
        assert_ne!(Some(done), fixed::done(&go, true));
        assert_eq!(fixed::done(&fixed::settle(7, 1), false), None);
        assert_eq!(fixed::done(&go[..15], false), None);
        assert_eq!(fixed::read_crash(&fixed::crash(true)), Some(true));
        assert_eq!(fixed::read_crash(&go), None);
    }

    proptest! {
        #[test]
        fn a_packet_is_a_message_that_can_be_sent_again_or_none(
            at in 0..PACKETS.len(),
            changed in prop::sample::select(PACKETS.to_vec()).prop_flat_map(tribunal_hostile::bytes),
        ) {
            serde_json::from_str::<serde_json::Value>(PACKETS[at]).unwrap();
            if let Ok(message) = serde_json::from_slice::<FromHost>(&changed) {
                let sent = serde_json::to_vec(&message).unwrap();
                let again: FromHost = serde_json::from_slice(&sent).unwrap();
                prop_assert_eq!(format!("{again:?}"), format!("{message:?}"));
            }
            if let Ok(message) = serde_json::from_slice::<FromGpu>(&changed) {
                if let FromGpu::Ran { device_s } = message {
                    prop_assert!(device_s.is_finite(), "JSON has no other numbers");
                }
                let sent = serde_json::to_vec(&message).unwrap();
                let again: FromGpu = serde_json::from_slice(&sent).unwrap();
                prop_assert_eq!(format!("{again:?}"), format!("{message:?}"));
            }
            fixed::read_crash(&changed);
        }
    }

    const PACKETS: &[&str] = &[
        r#"{"t":"hello","protocol":2,"runtime":"C ABI 1"}"#,
        r#"{"t":"loaded","operations":["forward","backward"]}"#,
        r#"{"t":"settled","problem":{"kind":"refused","message":"no"}}"#,
        r#"{"t":"failed","problem":{"kind":"memory","message":"x"}}"#,
        r#"{"t":"hello","protocol":1,"device":{"name":"H100","capability":[9,0],"cuda":[13,0],"multiprocessors":132,"memory_bytes":85899345920,"l2_bytes":52428800}}"#,
        r#"{"t":"loaded","image_bytes":4096}"#,
        r#"{"t":"ran","device_s":0.00125}"#,
        r#"{"t":"fetched","status":0}"#,
        r#"{"t":"failed","what":"launch","message":"an illegal address"}"#,
    ];

    #[test]
    fn an_answer_with_an_extra_field_is_not_understood() {
        assert!(serde_json::from_str::<FromHost>(r#"{"t":"ready"}"#).is_ok());
        assert!(serde_json::from_str::<FromHost>(r#"{"t":"ready","and":1}"#).is_err());
        assert!(serde_json::from_str::<FromHost>(r#"{"t":"loaded"}"#).is_err());
    }
}
