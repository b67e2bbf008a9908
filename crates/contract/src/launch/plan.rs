//! The launches of one call.

use serde::{Deserialize, Serialize};

use super::names::Values;
use super::{Declared, Element, Expression, Kernels, Operand, Procedure, Rule, STATUS};
use crate::{Argument, Call, Challenge, DType, Fault, Kind, Operation};

/// Most threads of a block.
const THREADS_MAX: i64 = 1024;
/// Most threads of a block along x, y and z.
const BLOCK_MAX: [i64; 3] = [1024, 1024, 64];
/// Most blocks of a grid along x, y and z.
pub const GRID_MAX: [i64; 3] = [i32::MAX as i64, 65535, 65535];
/// Most dynamic shared memory of a block: 227 KiB, what compute capability 9.0 has.
const SHARED_BYTES_MAX: i64 = 227 << 10;
/// Most bytes of a kernel's arguments.
const ARGUMENT_BYTES_MAX: usize = 4096;
/// Most bytes that a manifest may ask for in one call: the memory of a large GPU.
const DECLARED_BYTES_MAX: u64 = 64 << 30;

/// What one call comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The memory that launches may point to, each under a name of its own.
    pub buffers: Vec<Buffer>,
    /// What is launched, in order.
    pub launches: Vec<Launch>,
    /// What the new state consists of, where the operation makes one.
    pub makes: Option<State>,
}

/// Memory that kernels can be given a pointer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Its name in the manifest.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Bytes of an element.
    pub element_bytes: u8,
    /// Number of elements; may be 0.
    pub elements: u64,
    /// Whether it is zero before the first launch. Otherwise what it holds is nobody's to know.
    pub zeroed: bool,
}

impl Buffer {
    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.elements * u64::from(self.element_bytes)
    }
}

/// What a buffer is to its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The argument at that index of the call; only to be read.
    Input(usize),
    /// The tensor result at that index of the call.
    Output(usize),
    /// The buffer at that index of the state.
    State(usize),
    /// Memory for this call alone.
    Scratch,
    /// An `int32` that refuses the call where it is not zero afterwards.
    Status,
}

/// What a state consists of. Buffers live as long as it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its memory.
    pub buffers: Vec<Buffer>,
    /// For each buffer, the argument of the call that it is, where it is one that is kept; such buffers are only to be read.
    pub kept: Vec<Option<usize>>,
    /// What the call that made it knew.
    values: Values,
}

impl State {
    /// Bytes that it keeps alive, kept inputs included.
    pub fn size_bytes(&self) -> u64 {
        self.buffers.iter().map(Buffer::size_bytes).sum()
    }
}

/// One launch of one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// The arguments, in order.
    pub arguments: Vec<Value>,
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A pointer to the first element of the buffer at that index of [`Plan::buffers`].
    Pointer(usize),
    /// A scalar: its bytes, lowest first, 4 or 8 of them.
    Scalar(Vec<u8>),
}

impl Value {
    /// Bytes that it takes among the arguments; it is aligned to as many.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Pointer(_) => 8,
            Self::Scalar(bytes) => bytes.len(),
        }
    }
}

/// Why a call has no launches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The manifest says that such calls are refused.
    #[error("the manifest refuses: {condition}")]
    Refused {
        /// The condition that holds.
        condition: String,
    },
    /// The manifest says nothing of the operation.
    #[error("the manifest has no [operation.{operation}]")]
    Missing {
        /// The operation.
        operation: &'static str,
    },
    /// What the manifest says cannot be launched for these sizes.
    #[error("tribunal.toml, [operation.{operation}] {message}")]
    Invalid {
        /// The operation.
        operation: &'static str,
        /// What, and why.
        message: String,
    },
}

impl From<PlanError> for Fault {
    fn from(error: PlanError) -> Self {
        let message = error.to_string();
        match error {
            PlanError::Refused { .. } => Self::Refused { message },
            PlanError::Missing { .. } => Self::Load { message },
            PlanError::Invalid { .. } => Self::Launch { message },
        }
    }
}

impl Kernels {
    /// The launches of a call on a device with so many multiprocessors. `state` is what the state that it uses consists of.
    ///
    /// # Errors
    /// Where the manifest refuses the call, or asks for what no device can do.
    ///
    /// # Panics
    /// If the call is none of the challenge's, or its state is missing or of a device with more multiprocessors or fewer.
    pub fn plan(
        &self,
        challenge: &'static Challenge,
        call: &Call<'_>,
        state: Option<&State>,
        multiprocessors: i32,
    ) -> Result<Plan, PlanError> {
        let operation = challenge.operation(call.operation).expect("an operation of the challenge");
        assert_eq!(operation.uses_state(), state.is_some(), "the state of {}", operation.name);
        let procedure =
            self.procedures.get(operation.name).ok_or(PlanError::Missing { operation: operation.name })?;
        let values = Values::of(operation, call, state.map(|state| &state.values), multiprocessors);
        let planner = Planner { operation, procedure, values, buffers: Vec::new() };
        match planner.plan(call, state) {
            Ok(plan) => Ok(plan),
            Err(Stop::Refused(condition)) => Err(PlanError::Refused { condition }),
            Err(Stop::Invalid(message)) => Err(PlanError::Invalid { operation: operation.name, message }),
        }
    }
}

enum Stop {
    Refused(String),
    Invalid(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Self {
        Self::Invalid(message)
    }
}

struct Planner<'a> {
    operation: &'static Operation,
    procedure: &'a Procedure,
    values: Values,
    buffers: Vec<Buffer>,
}

impl Planner<'_> {
    fn plan(mut self, call: &Call<'_>, state: Option<&State>) -> Result<Plan, Stop> {
        let procedure = self.procedure;
        for (name, value) in &procedure.constants {
            let value = self.evaluate("let", value)?;
            self.values.numbers.insert(name.clone(), value);
        }
        for condition in &procedure.refuses {
            if self.evaluate("refuse", condition)? != 0 {
                return Err(Stop::Refused(condition.text().to_owned()));
            }
        }
        self.add_tensors(call);
        for (index, buffer) in state.iter().flat_map(|state| &state.buffers).enumerate() {
            // A state is made once: what was zero then need not be now.
            self.buffers.push(Buffer { role: Role::State(index), zeroed: false, ..buffer.clone() });
        }
        let makes = self.operation.makes_state().then(|| self.make_state()).transpose()?;
        for declared in &procedure.scratch {
            let buffer = self.allocate(declared, Role::Scratch)?;
            self.buffers.push(buffer);
        }
        let status = Buffer {
            name: STATUS.into(),
            role: Role::Status,
            element_bytes: size_of::<i32>() as u8,
            elements: 1,
            zeroed: true,
        };
        self.buffers.push(status);
        self.check_bytes()?;
        let mut launches = Vec::new();
        for (index, rule) in procedure.launches.iter().enumerate() {
            let place = |message| format!("launch {} (`{}`): {message}", index + 1, rule.kernel);
            if rule.when.as_ref().map_or(Ok(1), |when| self.evaluate("when", when)).map_err(place)? != 0 {
                launches.push(self.launch(rule).map_err(place)?);
            }
        }
        Ok(Plan { buffers: self.buffers, launches, makes })
    }

    fn add_tensors(&mut self, call: &Call<'_>) {
        let buffer = |name: &str, role, dtype: DType, elements: usize| Buffer {
            name: name.to_owned(),
            role,
            element_bytes: dtype.size_bytes() as u8,
            elements: elements as u64,
            zeroed: false,
        };
        for (index, (field, argument)) in self.operation.inputs.iter().zip(&call.inputs).enumerate() {
            if let Argument::Tensor(tensor) = argument {
                self.buffers.push(buffer(field.name, Role::Input(index), tensor.dtype(), tensor.len()));
            }
        }
        let tensors = self.operation.outputs.iter().filter(|field| matches!(field.kind, Kind::Tensor(_)));
        for (index, (field, spec)) in tensors.zip(&call.outputs).enumerate() {
            self.buffers.push(buffer(field.name, Role::Output(index), spec.dtype, spec.len()));
        }
    }

    /// The state's buffers; those that are no input become reachable for the launches.
    fn make_state(&mut self) -> Result<State, String> {
        let mut state = State { buffers: Vec::new(), kept: Vec::new(), values: self.values.clone() };
        for declared in &self.procedure.state {
            let buffer = self.allocate(declared, Role::State(state.buffers.len()))?;
            self.buffers.push(buffer.clone());
            state.buffers.push(buffer);
            state.kept.push(None);
        }
        for name in &self.procedure.keeps {
            let input = self.buffers.iter().find(|buffer| buffer.name == *name).expect("keeps was checked");
            let Role::Input(index) = input.role else { unreachable!("keeps was checked") };
            state.kept.push(Some(index));
            state.buffers.push(Buffer { role: Role::State(state.buffers.len()), ..input.clone() });
        }
        Ok(state)
    }

    fn allocate(&self, declared: &Declared, role: Role) -> Result<Buffer, String> {
        let name = &declared.name;
        let elements = self.evaluate(&format!("elements of `{name}`"), &declared.elements)?;
        let elements = u64::try_from(elements)
            .map_err(|_| format!("`{name}` has {elements} elements: {}", declared.elements))?;
        let element_bytes = match &declared.element {
            Element::Of { bytes } => *bytes,
            Element::Like(tensor) => {
                self.values.dtype(tensor).expect("tensors were checked").size_bytes() as u8
            }
        };
        if elements > DECLARED_BYTES_MAX {
            return Err(format!("`{name}` has {elements} elements: {}", declared.elements));
        }
        Ok(Buffer { name: name.clone(), role, element_bytes, elements, zeroed: declared.zeroed })
    }

    fn check_bytes(&self) -> Result<(), String> {
        let declared =
            self.buffers.iter().filter(|buffer| matches!(buffer.role, Role::Scratch | Role::State(_)));
        let bytes: u64 = declared.map(Buffer::size_bytes).fold(0, u64::saturating_add);
        if bytes > DECLARED_BYTES_MAX {
            return Err(format!("its buffers take {bytes} bytes, more than {DECLARED_BYTES_MAX}"));
        }
        Ok(())
    }

    fn launch(&self, rule: &Rule) -> Result<Launch, String> {
        let grid = self.sizes("grid", &rule.grid, GRID_MAX)?;
        let block = self.sizes("block", &rule.block, BLOCK_MAX)?;
        let threads: i64 = block.iter().map(|&size| i64::from(size)).product();
        if threads > THREADS_MAX {
            return Err(format!("`block` has {threads} threads, more than {THREADS_MAX}"));
        }
        let shared = rule.shared.as_ref().map_or(Ok(0), |shared| self.evaluate("shared", shared))?;
        if !(0..=SHARED_BYTES_MAX).contains(&shared) {
            let text = rule.shared.as_ref().map_or("", Expression::text);
            return Err(format!("`shared` is {shared} bytes, expected 0 to {SHARED_BYTES_MAX}: {text}"));
        }
        let arguments =
            rule.arguments.iter().map(|operand| self.argument(operand)).collect::<Result<Vec<_>, _>>()?;
        let bytes = arguments
            .iter()
            .map(Value::size_bytes)
            .fold(0, |end: usize, size| end.next_multiple_of(size) + size);
        if bytes > ARGUMENT_BYTES_MAX {
            return Err(format!("the arguments take {bytes} bytes, more than {ARGUMENT_BYTES_MAX}"));
        }
        Ok(Launch { kernel: rule.kernel.clone(), grid, block, shared_bytes: shared as u32, arguments })
    }

    fn sizes(&self, key: &str, sizes: &[Expression], most: [i64; 3]) -> Result<[u32; 3], String> {
        let mut extents = [1; 3];
        for (((extent, size), most), axis) in extents.iter_mut().zip(sizes).zip(most).zip(["x", "y", "z"]) {
            let value = self.evaluate(key, size)?;
            if !(1..=most).contains(&value) {
                return Err(format!("`{key}` is {value} along {axis}, expected 1 to {most}: {size}"));
            }
            *extent = value as u32;
        }
        Ok(extents)
    }

    fn argument(&self, operand: &Operand) -> Result<Value, String> {
        match operand {
            Operand::Buffer(name) => {
                let index = self.buffers.iter().position(|buffer| buffer.name == *name);
                Ok(Value::Pointer(index.expect("arguments were checked")))
            }
            Operand::Real { name, dtype } => {
                let value = self.values.reals[name];
                Ok(Value::Scalar(match dtype {
                    DType::Float64 => value.to_le_bytes().to_vec(),
                    _ => (value as f32).to_le_bytes().to_vec(),
                }))
            }
            Operand::Number { value, dtype } => {
                let number = self.evaluate("arguments", value)?;
                Ok(Value::Scalar(match dtype {
                    DType::Float32 => (number as f32).to_le_bytes().to_vec(),
                    DType::Float64 => (number as f64).to_le_bytes().to_vec(),
                    DType::Int64 => number.to_le_bytes().to_vec(),
                    _ => i32::try_from(number)
                        .map_err(|_| {
                            let text = value.text();
                            format!("`arguments`: {number} does not fit int32, pass it as `int64: {text}`")
                        })?
                        .to_le_bytes()
                        .to_vec(),
                }))
            }
        }
    }

    fn evaluate(&self, key: &str, expression: &Expression) -> Result<i64, String> {
        self.values.evaluate(expression).map_err(|error| format!("`{key}`: {error}"))
    }
}
