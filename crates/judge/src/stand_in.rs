//! Answers for a stand-in: a right or a defective implementation, the same as calibrate the court, in a caged process of its own.
//!
//! The form of what goes over the socket is told in [`tribunal_contract::emit::stand_in`]. Whatever comes over it was written by somebody's
//! tests: what cannot be answered is refused, and this process has nothing to lose.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tribunal_contract::emit::stand_in::RELEASE;
use tribunal_contract::{Answer, Argument, Call, DType, Fault, Kind, Operation, StateId, Tensor, TensorSpec};
use tribunal_runner::cage::{Cage, Caged, Policy, Profile};
use tribunal_runner::{MachineError, Trouble, suite};

use crate::{Challenge, Subject};

/// The first argument of a process that answers.
const WORD: &str = "__tribunal-stand-in";

/// Bytes of a frame at most.
const FRAME_MAX: usize = 256 << 20;

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// An honest variant, by its place.
    Honest(usize),
    /// A mutant, by its place.
    Mutant(usize),
    /// Nobody: every call is refused.
    Refuses,
    /// Nobody: every call is answered with zeros, whatever it asks for.
    Zeros,
}

impl Who {
    fn word(self) -> String {
        match self {
            Self::Honest(index) => format!("honest/{index}"),
            Self::Mutant(index) => format!("mutant/{index}"),
            Self::Refuses => "refuses".to_owned(),
            Self::Zeros => "zeros".to_owned(),
        }
    }

    fn parse(word: &str) -> Option<Self> {
        let index = |text: &str| text.parse().ok();
        match word.split_once('/') {
            Some(("honest", place)) => index(place).map(Self::Honest),
            Some(("mutant", place)) => index(place).map(Self::Mutant),
            _ if word == "refuses" => Some(Self::Refuses),
            _ => (word == "zeros").then_some(Self::Zeros),
        }
    }
}

/// Turns this process into one that answers, if it was started as such; returns at once otherwise.
pub fn enter() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(WORD)) {
        return;
    }
    let words: Vec<String> = args.filter_map(|word| word.into_string().ok()).collect();
    let [id, who] = words.as_slice() else { std::process::exit(2) };
    let (Some(challenge), Some(who)) = (crate::challenges::find(id), Who::parse(who)) else {
        std::process::exit(2)
    };
    // A variant that gives up on an input refuses it; nobody reads its last words.
    std::panic::set_hook(Box::new(|_| {}));
    let mut socket = suite::inherited_socket();
    // It ends when the tests do.
    let _ = Clerk::new(challenge, who).serve(&mut socket);
    std::process::exit(0)
}

/// Starts a process that answers over `socket`.
pub(crate) fn start(
    cage: &Cage,
    challenge: &dyn Challenge,
    who: Who,
    socket: std::os::fd::OwnedFd,
) -> Result<Caged, MachineError> {
    let mut policy = Policy::new(Profile::Run, &cage.launcher);
    policy.args = vec![WORD.into(), challenge.contract().id.into(), who.word().into()];
    policy.fds.push(socket);
    cage.spawn(policy)
}

/// What one implementation answers, call by call.
struct Clerk {
    challenge: &'static dyn Challenge,
    subject: Option<Box<dyn Subject>>,
    next: u32,
    /// What the symbols of shapes stood for when a state was made, and the dtype of its first tensor.
    states: HashMap<StateId, Known>,
}

/// What symbols stand for.
#[derive(Debug, Clone, Default)]
struct Known {
    extents: HashMap<&'static str, usize>,
    dtype: Option<DType>,
}

impl Clerk {
    fn new(challenge: &'static dyn Challenge, who: Who) -> Self {
        let variants = challenge.variants();
        let subject = match who {
            Who::Honest(index) => variants.honest.get(index).map(|variant| variant.stand()),
            Who::Mutant(index) => variants.mutants.get(index).map(|mutant| mutant.variant.stand()),
            Who::Refuses => None,
            Who::Zeros => Some(Box::new(Zeros) as Box<dyn Subject>),
        };
        Self { challenge, subject, next: 0, states: HashMap::new() }
    }

    fn serve(&mut self, socket: &mut (impl Read + Write)) -> io::Result<()> {
        loop {
            let mut length = [0; 4];
            socket.read_exact(&mut length)?;
            let length = u32::from_ne_bytes(length) as usize;
            if length > FRAME_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut frame = vec![0; length];
            socket.read_exact(&mut frame)?;
            let reply = self.answer(&frame).unwrap_or_else(|why| [&[1], why.as_bytes()].concat());
            socket.write_all(&u32::try_from(reply.len()).unwrap_or(0).to_ne_bytes())?;
            socket.write_all(&reply)?;
        }
    }

    /// The answer to a frame, or why there is none.
    fn answer(&mut self, frame: &[u8]) -> Result<Vec<u8>, String> {
        let mut frame = Frame(frame);
        let index = frame.number()?;
        if index == RELEASE {
            let state = StateId(frame.number()?);
            self.states.remove(&state);
            if let Some(subject) = &mut self.subject {
                subject.release(state).map_err(|trouble| trouble.to_string())?;
            }
            return Ok(vec![0, 0]);
        }
        let operations = self.challenge.contract().operations;
        let operation = operations.get(index as usize).ok_or("no such operation")?;
        let given = operation.inputs.iter().map(|field| frame.given(field.kind));
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let known = self.known(operation, &given)?;
        let specs = match frame.byte()? {
            0 => self.results(operation, &known)?,
            _ => {
                let tensors = operation.outputs.iter().filter(|field| matches!(field.kind, Kind::Tensor(_)));
                tensors.map(|_| frame.spec()).collect::<Result<Vec<_>, _>>()?
            }
        };
        if specs.iter().any(|spec| spec.size_bytes() > FRAME_MAX) {
            return Err("results are too large".to_owned());
        }
        let makes = operation.makes_state().then_some(StateId(self.next));
        let call = Call {
            operation: operation.name,
            inputs: given.iter().map(Given::argument).collect(),
            outputs: specs,
            makes,
        };
        let subject = self.subject.as_mut().ok_or("nothing is answered here")?;
        let answer = catch_unwind(AssertUnwindSafe(|| subject.call(&call)))
            .map_err(|_| "such a call has no answer".to_owned())?
            .map_err(|trouble| match trouble {
                Trouble::Fault(Fault::Refused { message }) => message,
                other => other.to_string(),
            })?;
        if let Some(state) = makes {
            self.states.insert(state, known);
            self.next += 1;
        }
        let spoilt = answer.inputs_changed.first().map_or(0, |index| index + 1);
        let mut reply = vec![0, u8::try_from(spoilt).unwrap_or(0)];
        let mut tensors = answer.outputs.iter();
        for field in operation.outputs {
            match (field.kind, makes) {
                (Kind::State, Some(state)) => reply.extend(state.0.to_ne_bytes()),
                _ => put(&mut reply, tensors.next().ok_or("a result is missing")?),
            }
        }
        Ok(reply)
    }

    /// What the symbols in an operation's shapes stand for, by what was given; those of its state come last.
    fn known(&self, operation: &'static Operation, given: &[Given]) -> Result<Known, String> {
        let mut known = Known::default();
        for (field, given) in operation.inputs.iter().zip(given) {
            match given {
                Given::Tensor(tensor) => {
                    known.dtype.get_or_insert(tensor.dtype());
                    let (_, forms) =
                        operation.tensors().find(|(name, _)| *name == field.name).expect("a tensor of it");
                    let form = forms.iter().find(|form| form.len() == tensor.shape().len());
                    let form =
                        form.ok_or_else(|| format!("{} has {} axes", field.name, tensor.shape().len()))?;
                    for (&symbol, &extent) in form.iter().zip(tensor.shape()) {
                        known.extents.entry(symbol).or_insert(extent);
                    }
                }
                Given::Integer(value) => {
                    if let Ok(value) = usize::try_from(*value) {
                        known.extents.entry(field.name).or_insert(value);
                    }
                }
                Given::State(state) => {
                    let before = self.states.get(state).ok_or("no such state")?;
                    for (&symbol, &extent) in &before.extents {
                        known.extents.entry(symbol).or_insert(extent);
                    }
                    known.dtype = known.dtype.or(before.dtype);
                }
                Given::Real(_) => {}
            }
        }
        Ok(known)
    }

    /// Types and shapes of the results, where the caller leaves them to us.
    fn results(&self, operation: &'static Operation, known: &Known) -> Result<Vec<TensorSpec>, String> {
        let outputs = operation.outputs.iter().filter(|field| matches!(field.kind, Kind::Tensor(_)));
        let mut specs = Vec::new();
        for field in outputs {
            let forms = operation.tensors().filter(|(name, _)| *name == field.name).last();
            let (_, forms) = forms.expect("a tensor of it");
            let extents = |form: &Vec<&str>| {
                form.iter().map(|symbol| known.extents.get(symbol).copied()).collect::<Option<Vec<usize>>>()
            };
            let shape = forms.iter().find_map(extents).ok_or("the shape of the result is open")?;
            shape
                .iter()
                .try_fold(8_usize, |bytes, &extent| bytes.checked_mul(extent))
                .ok_or("the result is too large")?;
            let given = known.dtype.unwrap_or(DType::Float32);
            specs.push(TensorSpec::new(self.challenge.result_dtype(field.name, given), shape));
        }
        Ok(specs)
    }
}

/// Answers everything, and nothing rightly.
struct Zeros;

impl Subject for Zeros {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let zeros = |spec: &TensorSpec| Tensor::from_bytes(spec.clone(), vec![0; spec.size_bytes()]);
        Ok(Answer {
            outputs: call.outputs.iter().map(zeros).collect(),
            wall_s: 0.0,
            cpu_s: 0.0,
            inputs_changed: Vec::new(),
            wrote_outside: false,
            disturbed: Vec::new(),
            changed_late: false,
        })
    }

    fn release(&mut self, _: StateId) -> Result<(), Trouble> {
        Ok(())
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

/// An argument that came over the socket.
#[derive(Debug)]
enum Given {
    Tensor(Tensor),
    Real(f64),
    Integer(i64),
    State(StateId),
}

impl Given {
    fn argument(&self) -> Argument<'_> {
        match self {
            Self::Tensor(tensor) => Argument::Tensor(tensor),
            Self::Real(value) => Argument::Real(*value),
            Self::Integer(value) => Argument::Integer(*value),
            Self::State(state) => Argument::State(*state),
        }
    }
}

/// What is left to read of a frame.
struct Frame<'a>(&'a [u8]);

impl Frame<'_> {
    fn bytes(&mut self, count: usize) -> Result<&[u8], String> {
        let (head, rest) = self.0.split_at_checked(count).ok_or("the frame is too short")?;
        self.0 = rest;
        Ok(head)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.bytes(N)?.try_into().expect("as many as were asked for"))
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.fixed().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u32, String> {
        self.fixed().map(u32::from_ne_bytes)
    }

    fn spec(&mut self) -> Result<TensorSpec, String> {
        let dtype = *DType::ALL.get(usize::from(self.byte()?)).ok_or("no such dtype")?;
        let axes = self.byte()?;
        let extent = |frame: &mut Self| {
            usize::try_from(i64::from_ne_bytes(frame.fixed()?))
                .map_err(|_| "an extent is negative".to_owned())
        };
        let shape = (0..axes).map(|_| extent(self)).collect::<Result<Vec<_>, _>>()?;
        let size = shape.iter().try_fold(dtype.size_bytes(), |bytes, &extent| bytes.checked_mul(extent));
        size.map(|_| TensorSpec::new(dtype, shape)).ok_or_else(|| "the tensor is too large".to_owned())
    }

    fn given(&mut self, kind: Kind) -> Result<Given, String> {
        Ok(match kind {
            Kind::Tensor(_) => {
                let spec = self.spec()?;
                let bytes = self.bytes(spec.size_bytes())?.to_vec();
                Given::Tensor(Tensor::from_bytes(spec, bytes))
            }
            Kind::Real => Given::Real(f64::from_ne_bytes(self.fixed()?)),
            Kind::Integer => Given::Integer(i64::from_ne_bytes(self.fixed()?)),
            Kind::State => Given::State(StateId(self.number()?)),
        })
    }
}

fn put(reply: &mut Vec<u8>, tensor: &Tensor) {
    let dtype = DType::ALL.iter().position(|dtype| *dtype == tensor.dtype()).expect("all are there");
    reply.extend([dtype as u8, tensor.shape().len() as u8]);
    tensor.shape().iter().for_each(|&extent| reply.extend((extent as i64).to_ne_bytes()));
    reply.extend(tensor.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clerk(id: &str, who: Who) -> Clerk {
        Clerk::new(crate::challenges::find(id).unwrap(), who)
    }

    type Part<'a> = dyn Fn(&mut Vec<u8>) + 'a;

    fn frame(operation: u32, parts: &[&Part<'_>]) -> Vec<u8> {
        let mut bytes = operation.to_ne_bytes().to_vec();
        parts.iter().for_each(|part| part(&mut bytes));
        bytes
    }

    fn tensor(shape: &[usize], values: &[f64]) -> impl Fn(&mut Vec<u8>) {
        let tensor = Tensor::from_f64(DType::Float32, shape, values);
        move |bytes| put(bytes, &tensor)
    }

    #[test]
    fn a_call_is_answered_by_who_stands_in() {
        let call = frame(
            0,
            &[
                &tensor(&[1, 1, 4], &[0.0, 3.0, 1.0, 2.0]),
                &|bytes| bytes.extend(2_i64.to_ne_bytes()),
                &|bytes| bytes.push(0),
            ],
        );
        let indices = |who| {
            let reply = clerk("fused_softmax_topk", who).answer(&call)?;
            let at = reply.len() - 16;
            Ok::<_, String>(reply[at..].chunks(8).map(|chunk| chunk[0]).collect::<Vec<_>>())
        };
        assert_eq!(indices(Who::Honest(0)).unwrap(), [1, 3]);
        assert!(indices(Who::Refuses).is_err());
        assert_eq!(indices(Who::Zeros).unwrap(), [0, 0]);
        let mutants = crate::challenges::find("fused_softmax_topk").unwrap().variants().mutants;
        let from_one = mutants.iter().position(|mutant| mutant.variant.name == "indices from 1").unwrap();
        assert_eq!(indices(Who::Mutant(from_one)).unwrap(), [2, 4]);
    }

    #[test]
    fn shapes_that_only_a_state_knows_are_found() {
        let mut clerk = clerk("kv_cache", Who::Honest(0));
        let numbers = [2_i64, 3, 4, 2, 8, 16, 32, 0, 0];
        let create =
            frame(0, &[&|bytes| numbers.iter().for_each(|n| bytes.extend(n.to_ne_bytes())), &|b| b.push(0)]);
        let made = clerk.answer(&create).unwrap();
        let lengths = clerk.challenge.contract().operations.iter().position(|o| o.name == "lengths").unwrap();
        let ask = frame(lengths as u32, &[&|bytes| bytes.extend(&made[2..6]), &|bytes| bytes.push(0)]);
        let reply = clerk.answer(&ask).unwrap();
        assert_eq!((reply[2], reply[3], reply[4], reply[12]), (5, 2, 2, 3), "int64, of (layers, batch)");
        clerk.answer(&frame(RELEASE, &[&|bytes| bytes.extend(&made[2..6])])).unwrap();
        assert!(clerk.answer(&ask).is_err(), "it is gone");
    }

    #[test]
    fn every_word_is_understood() {
        for who in [Who::Honest(3), Who::Mutant(12), Who::Refuses, Who::Zeros] {
            assert_eq!(Who::parse(&who.word()), Some(who));
        }
        assert_eq!(Who::parse("mutant/-1"), None);
        assert_eq!(Who::parse("nobody"), None);
    }

    proptest! {
        #[test]
        fn whatever_tests_send_is_refused_or_answered(
            operation in 0_u32..9,
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..120),
        ) {
            for challenge in tribunal_contract::challenges::ALL {
                let mut clerk = clerk(challenge.id, Who::Honest(0));
                let _ = clerk.answer(&[operation.to_ne_bytes().as_slice(), &bytes].concat());
            }
        }
    }
}
