//! What judge and a GPU's host say to each other, beside the fixed packets of [`crate::wire`]: GO and DONE bracket a run.

use serde::{Deserialize, Serialize};
use tribunal_contract::launch::Plan;

use super::{Copier, Device};

/// Judge to host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub(crate) enum ToGpu {
    /// Two descriptors come with this: inputs, outputs.
    Arena {
        inputs_bytes: usize,
        outputs_bytes: usize,
    },
    /// PTX, or what the driver made of it, stands at the front of the inputs.
    Load {
        bytes: usize,
        compiled: bool,
        kernels: Vec<String>,
    },
    /// What the driver made of the PTX goes to the front of the outputs.
    Image {},
    /// Lays a call out on the device; it is made by the next run.
    Queue(Box<Queue>),
    /// The next run copies so many bytes from one new buffer to another.
    QueueCopy {
        bytes: u64,
        by: Copier,
    },
    /// Empties the device's cache and waits for GO.
    Arm {},
    /// The results of a call that was run, in the order in which they were queued.
    Fetch {
        index: usize,
        /// Where they go among the outputs.
        offsets: Vec<usize>,
    },
    /// Forgets what was queued. States stay.
    Clear {},
    Release {
        state: u32,
    },
    Bye {},
}

/// A call to be laid out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Queue {
    pub(crate) plan: Plan,
    /// For each argument, where it stands among the inputs; tensors alone stand there.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) uses: Option<u32>,
    pub(crate) makes: Option<u32>,
}

/// Host to judge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FromGpu {
    Hello {
        protocol: u32,
        device: Device,
    },
    /// What was asked is done.
    Ok {},
    /// What was compiled has so many bytes.
    Loaded {
        image_bytes: usize,
    },
    /// After DONE: seconds between two events, one before the first launch and one after the last.
    Ran {
        device_s: f64,
    },
    /// The results stand among the outputs. A status that is not zero refuses the call.
    Fetched {
        status: i32,
    },
    Failed {
        what: What,
        message: String,
    },
}

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// The driver, before anything of the submission was in it.
    Driver,
    /// The PTX.
    Load,
    /// An allocation.
    Memory,
    /// A launch, or what it did.
    Launch,
}
