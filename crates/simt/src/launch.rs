//! What a launch is asked for, and what comes of it.

use std::time::Duration;

use serde::Serialize;

use crate::fault::Fault;
use crate::memory::{POISON, Pointer};
use crate::meter::Meter;
use crate::program::{Kernel, LANES};

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Argument {
    Pointer(Pointer),
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F32(f32),
    F64(f64),
}

impl Argument {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Argument::Pointer(Pointer(value)) => value.to_le_bytes().into(),
            Argument::I32(value) => value.to_le_bytes().into(),
            Argument::U32(value) => value.to_le_bytes().into(),
            Argument::I64(value) => value.to_le_bytes().into(),
            Argument::U64(value) => value.to_le_bytes().into(),
            Argument::F32(value) => value.to_le_bytes().into(),
            Argument::F64(value) => value.to_le_bytes().into(),
        }
    }
}

/// A launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// `gridDim`
    pub grid: [u32; 3],
    /// `blockDim`
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// In the order of the parameters.
    pub arguments: Vec<Argument>,
}

/// Multiprocessors of the device that is emulated, unless [`Settings::multiprocessors`] says otherwise: those of an H100 or H200.
pub const MULTIPROCESSORS: u32 = 132;

/// Threads, blocks and bytes of shared memory that a multiprocessor has room for at a time, with CUDA 8.0 to 9.0.
const ROOM: [u64; 3] = [2048, 32, 228 * 1024];
/// What the device itself takes of shared memory for a block.
const SHARED_OF_BLOCK: u64 = 1024;
impl Launch {
    /// Blocks that an H100 has room for at a time; the registers that they take are not known here.
    pub fn blocks_at_once(&self, kernel: &Kernel) -> u64 {
        let threads = self.block.iter().fold(1u64, |all, &axis| all.saturating_mul(axis.into()));
        let shared = u64::from(kernel.shared.bytes) + u64::from(self.shared);
        let taken =
            [threads.div_ceil(LANES as u64).saturating_mul(LANES as u64), 1, shared + SHARED_OF_BLOCK];
        let of_each = ROOM.iter().zip(taken).map(|(room, taken)| room / taken.max(1));
        u64::from(MULTIPROCESSORS) * of_each.min().unwrap_or(1)
    }
}

/// In which order blocks, warps and diverged lanes run. Each repeats exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// From the first to the last.
    #[default]
    Forward,
    /// From the last to the first.
    Reverse,
    /// In an order drawn from a seed, with warps taking turns at odd moments.
    Random(u64),
}

/// How closely a launch is looked at. What it leaves in memory is the same, but for what [`Settings::shows_past`] shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Scrutiny {
    /// Faults are found that show by themselves, such as accesses out of bounds: enough where a launch is made again.
    Results,
    /// So are races, and reads of what nobody has written or a cache does not see.
    Races,
    /// And accesses are counted, of which a [meter](crate::meter::Meter) knows nothing otherwise.
    #[default]
    Costs,
}

/// Limits and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Of how many multiprocessors kernels are told, by `%nsmid` and `%smid`; at least one. There is room for as many blocks as [`MULTIPROCESSORS`] have.
    pub multiprocessors: u32,
    /// The order.
    pub schedule: Schedule,
    /// Instructions of warps that a launch may take.
    pub limit: u32,
    /// How long it may take: not every instruction takes the same.
    pub patience: Duration,
    /// What each byte holds that nobody has written, and what a lane gets from one that takes no part. Results that change with it hang on
    /// what is undefined.
    pub fill: u8,
    /// How closely it is looked at.
    pub scrutiny: Scrutiny,
    /// Whether the first look of a block at what another wrote, by volatile or relaxed operations and with nothing to order the two, shows what was
    /// there before, as it may: a GPU may let others see what a thread wrote in another order. Needs that races are looked for.
    pub shows_past: bool,
    /// Whether lanes of a warp go on together after a volatile or relaxed write, as they did on GPUs before Volta, where the [schedule](Schedule::Reverse) would
    /// have them go apart. If races are looked for as well, what they then hand each other with nothing to order it is [told](Report::unordered).
    pub in_step: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let patience = Duration::from_secs(3600);
        Settings {
            multiprocessors: MULTIPROCESSORS,
            schedule: Schedule::Forward,
            limit: 1 << 31,
            patience,
            fill: POISON,
            scrutiny: Scrutiny::default(),
            shows_past: false,
            in_step: false,
        }
    }
}

/// Why a kernel was not launched at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The wrong number of arguments.
    #[error("kernel `{kernel}` takes {expected} arguments, and got {got}")]
    Arguments {
        /// The kernel.
        kernel: String,
        /// Parameters it has.
        expected: usize,
        /// Arguments given.
        got: usize,
    },
    /// An argument of another size than the parameter.
    #[error("parameter {index} of kernel `{kernel}` has {expected} bytes, and the argument {got}")]
    ArgumentSize {
        /// The kernel.
        kernel: String,
        /// Which, from 0.
        index: usize,
        /// Bytes of the parameter.
        expected: usize,
        /// Bytes of the argument.
        got: usize,
    },
    /// A grid or block of a size that no device takes.
    #[error("a {what} of {} x {} x {} is none: {why}", size[0], size[1], size[2])]
    Size {
        /// `grid` or `block`.
        what: &'static str,
        /// The size.
        size: [u32; 3],
        /// What is allowed.
        why: &'static str,
    },
    /// More shared memory than a block may have.
    #[error("a block asks for {asked} bytes of shared memory, and may have {most}")]
    Shared {
        /// Static and dynamic bytes.
        asked: u64,
        /// The limit.
        most: u64,
    },
    /// Registers and local memory of a block beyond what is emulated.
    #[error("a block's registers and local memory take {asked} bytes, and {most} are emulated")]
    Threadwise {
        /// What they take.
        asked: u64,
        /// The limit.
        most: u64,
    },
    /// The kernel says how many threads it is for.
    #[error("kernel `{kernel}` is compiled for {what}, and a block of {threads} was asked for")]
    Threads {
        /// The kernel.
        kernel: String,
        /// What it says.
        what: String,
        /// Threads of the block.
        threads: u32,
    },
}

/// What came of a launch.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The kernel.
    pub kernel: String,
    /// What it did wrong. Results after a fault are what this machine made of it.
    pub faults: Vec<Fault>,
    /// How many threads did more of it, beyond the kinds and places that are told.
    pub more_faults: u64,
    /// What it did.
    pub meter: Meter,
    /// Of each of the [kernel's instructions](crate::program::Kernel::code), whether some lane took part in it.
    #[serde(skip)]
    pub reached: Vec<bool>,
    /// What it printed, up to a limit.
    pub printed: String,
    /// Looks at what others wrote, by volatile or relaxed operations and with nothing to order the two: by other blocks, where a look
    /// [showed](Settings::shows_past) what was there before and was not repeated, and by other lanes of a warp that [went on together](Settings::in_step).
    /// They are no fault where no result hangs on them.
    pub unordered: Vec<Fault>,
    /// Whether all threads came to their end.
    pub finished: bool,
    /// Whether it was given up because [nobody waits so long](Settings::patience): it may be endless, or this machine slow.
    pub late: bool,
    /// Whether what the launch did was followed to its end: otherwise threads let each other see more, or used parts of more places, than can be
    /// remembered, and races in global memory may have gone unseen.
    pub followed: bool,
}
