//! What a challenge is to the court: cases in families.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tribunal_contract::DType;
use tribunal_runner::MachineError;

use crate::variant::Variants;
use crate::workload::{Workload, Workloads};
use crate::{Court, Dimension, Observation, Seed};

/// A challenge, as the court tries it.
pub trait Challenge: Sync {
    /// What contestants are told.
    fn contract(&self) -> &'static tribunal_contract::Challenge;

    /// `challenge.toml`.
    fn rubric(&self) -> &'static str;

    /// What is tried, in order: the ordinary first.
    fn cases(&self, plan: &Plan) -> Vec<Box<dyn Case>>;

    /// The case of that id, though it be a shrunk one that is in no list.
    fn case(&self, id: &str) -> Option<Box<dyn Case>>;

    /// Implementations whose verdict is known, for the calibration of its court.
    fn variants(&self) -> Variants;

    /// What is timed and weighed; nothing where a challenge is about answers only.
    fn workloads(&self, _plan: &Plan) -> Workloads {
        Workloads::default()
    }

    /// The dtype of a result, where its first tensor is of dtype `given`.
    fn result_dtype(&self, _result: &str, given: DType) -> DType {
        given
    }

    /// What is timed on a GPU; nothing where no submission in CUDA is expected.
    fn workloads_on_gpu(&self, _plan: &Plan) -> Vec<Box<dyn Workload>> {
        Vec::new()
    }
}

/// One input, or one sequence of calls, and what must hold of the answers.
///
/// A case is wholly described by its id: inputs are drawn from the seed and the id.
pub trait Case: Send + Sync {
    /// `family/what/shape`: `batch/gamma_random/4x3x8/float32`. The first part is the family.
    fn id(&self) -> String;

    /// Its family.
    fn family(&self) -> Family;

    /// What it counts for.
    fn dimension(&self) -> Dimension;

    /// How much work it makes beside other cases of the challenge, roughly: by that they are dealt.
    fn weight(&self) -> usize {
        1
    }

    /// What of it an implementation may have code of its own for, which may be wrong where other code is right: `rows beyond 4096 of float32`.
    fn branches(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether what fails is held against known defects. Where that would take too long, what fails in a smaller case is.
    fn is_diagnosed(&self) -> bool {
        true
    }

    /// Puts the subject to it. An `Err` is the machine's fault; everything the subject does is an observation.
    fn examine(&self, court: &mut Court<'_>) -> Result<Vec<Observation>, MachineError>;

    /// Smaller cases of the same kind, the most promising first; none when there is nothing to take away.
    fn smaller(&self) -> Vec<Box<dyn Case>>;
}

/// What kind of trouble a case looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Ordinary inputs.
    Basic,
    /// Odd, prime and extreme extents.
    Shapes,
    /// Degenerate contents: zeros, constants, one column.
    Edge,
    /// Where careless arithmetic fails.
    Stability,
    /// Laws that hold for every right answer.
    Property,
    /// Rows of a batch kept apart.
    Batch,
    /// Calls that must not disturb each other.
    Stateful,
    /// Sizes of real use.
    Scale,
    /// Inputs made to break a particular shortcut.
    Adversarial,
}

impl Family {
    /// The name in ids, JSON and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Shapes => "shapes",
            Self::Edge => "edge",
            Self::Stability => "stability",
            Self::Property => "property",
            Self::Batch => "batch",
            Self::Stateful => "stateful",
            Self::Scale => "scale",
            Self::Adversarial => "adversarial",
        }
    }
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Every family once; times are rough.
    Quick,
    /// The default.
    Standard,
    /// Bigger shapes, more cases, narrower intervals.
    Full,
}

impl Effort {
    /// Whether what is tried from `least` on is tried at this effort.
    pub fn includes(self, least: Self) -> bool {
        match self {
            Self::Quick => least == Self::Quick,
            Self::Standard => least != Self::Full,
            Self::Full => true,
        }
    }
}

/// What a challenge needs to know to list its cases.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where inputs come from.
    pub seed: Seed,
    /// How much is tried.
    pub effort: Effort,
    /// What the submission claims to implement beyond the base.
    pub capabilities: Vec<&'static str>,
    /// Whether it is kernels, whose [launches are known](crate::Subject::plan) without running them.
    pub launches: bool,
}
