//! The part of a manifest that says what is launched, as it is written and as it is checked.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::names::{Names, listed};
use super::{Declared, Element, Expression, Kernels, LAUNCHES_MAX, Operand, Procedure, Rule, STATUS};
use crate::{Challenge, DType, Kind, Operation};

/// Longest name of a kernel, in bytes.
const KERNEL_BYTES_MAX: usize = 256;
/// Most buffers or constants that a table may declare.
const DECLARED_MAX: usize = 64;
/// Most arguments of a kernel.
const ARGUMENTS_MAX: usize = 256;

/// What memory of its own a submission may be of, beside the [dtypes](DType) of tensors, and the bytes of an element: only its size counts.
const ELEMENT_TYPES: [(&str, u8); 7] =
    [("bool", 1), ("int8", 1), ("uint8", 1), ("int16", 2), ("uint16", 2), ("uint32", 4), ("uint64", 8)];

/// `[operation.NAME]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OperationDocument {
    #[serde(default, rename = "let")]
    constants: Table<Spanned<Value>>,
    #[serde(default)]
    refuse: Vec<Spanned<Value>>,
    #[serde(default)]
    scratch: Table<BufferDocument>,
    #[serde(default)]
    state: Table<BufferDocument>,
    #[serde(default)]
    keeps: Vec<Spanned<String>>,
    #[serde(default)]
    launch: Vec<LaunchDocument>,
}

type Table<T> = BTreeMap<Spanned<String>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferDocument {
    dtype: Spanned<String>,
    elements: Spanned<Value>,
    #[serde(default)]
    zeroed: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaunchDocument {
    kernel: Spanned<String>,
    when: Option<Spanned<Value>>,
    grid: Spanned<Vec<Spanned<Value>>>,
    block: Spanned<Vec<Spanned<Value>>>,
    shared: Option<Spanned<Value>>,
    arguments: Spanned<Vec<Spanned<String>>>,
}

/// Byte of the manifest, and what is wrong there.
type Fault = (usize, String);

impl Kernels {
    /// Checks what a manifest says against its challenge.
    pub(crate) fn read(
        challenge: &'static Challenge,
        documents: &BTreeMap<Spanned<String>, OperationDocument>,
    ) -> Result<Self, Fault> {
        if let Some((name, at)) =
            documents.keys().map(of_spanned).find(|(name, _)| challenge.operation(name).is_none())
        {
            let known: Vec<_> =
                challenge.operations.iter().map(|operation| operation.name.to_owned()).collect();
            let name = name.escape_debug();
            return Err((at, format!("unknown operation `{name}`, expected {}", listed(&known))));
        }
        let mut procedures = BTreeMap::new();
        let mut made = None;
        // In the challenge's order: what makes a state comes before what uses it.
        for operation in challenge.operations {
            let Some((_, document)) = documents.iter().find(|(name, _)| name.get_ref() == operation.name)
            else {
                continue;
            };
            let reader = Reader::new(operation, made.filter(|_| operation.uses_state()))?;
            procedures.insert(operation.name, reader.read(document)?);
            if operation.makes_state() {
                made = Some((operation, document));
            }
        }
        Ok(Self { procedures })
    }
}

/// One operation's names, as far as they are declared.
struct Reader {
    operation: &'static Operation,
    names: Names,
    /// What arguments may point to, with what each is.
    buffers: BTreeMap<String, &'static str>,
}

impl Reader {
    /// `made` is the operation that makes the state this one uses, and what the manifest says of that.
    fn new(
        operation: &'static Operation,
        made: Option<(&'static Operation, &OperationDocument)>,
    ) -> Result<Self, Fault> {
        let mut names = Names::of(operation).on_a_device();
        let mut buffers: BTreeMap<_, _> =
            names.tensors.iter().map(|name| (name.clone(), "a tensor")).collect();
        buffers.insert(STATUS.to_owned(), "the status of the call");
        if let Some((maker, document)) = made {
            for (name, at) in document.state.keys().chain(&document.keeps).map(of_spanned) {
                if let Some(what) = buffers.insert(name.clone(), "a buffer of the state") {
                    return Err((
                        at,
                        format!("`{name}` is already {what} of `{}`: call it something else", operation.name),
                    ));
                }
            }
            names.extend(&Names::of(maker));
            names.numbers.extend(document.constants.keys().map(|name| name.get_ref().clone()));
        }
        Ok(Self { operation, names, buffers })
    }

    fn read(mut self, document: &OperationDocument) -> Result<Procedure, Fault> {
        let mut constants: Vec<_> = document.constants.iter().collect();
        constants.sort_by_key(|(name, _)| name.span().start);
        let constants = constants
            .into_iter()
            .map(|(name, value)| {
                let value = self.expression("let", value)?;
                self.declare(name, None)?;
                Ok((name.get_ref().clone(), value))
            })
            .collect::<Result<Vec<_>, Fault>>()?;
        let refuses = document
            .refuse
            .iter()
            .map(|condition| self.expression("refuse", condition))
            .collect::<Result<_, _>>()?;
        self.check_state(document)?;
        let scratch = self.declared(&document.scratch, "a scratch buffer")?;
        let state = self.declared(&document.state, "a buffer of the state")?;
        if document.launch.len() > LAUNCHES_MAX {
            let at = document.launch[LAUNCHES_MAX].kernel.span().start;
            return Err((at, format!("more than {LAUNCHES_MAX} launches of one operation")));
        }
        let launches = document.launch.iter().map(|launch| self.launch(launch)).collect::<Result<_, _>>()?;
        let keeps = document.keeps.iter().map(|name| name.get_ref().clone()).collect();
        Ok(Procedure { constants, refuses, scratch, state, keeps, launches })
    }

    /// Enters a name that the manifest declares: a buffer, or a number.
    fn declare(&mut self, name: &Spanned<String>, buffer: Option<&'static str>) -> Result<(), Fault> {
        let (text, at) = of_spanned(name);
        if !is_identifier(text) {
            let text = text.escape_debug();
            return Err((
                at,
                format!("`{text}` is no name: expected letters, digits and `_`, no digit first"),
            ));
        }
        let taken = if let Some(what) = self.buffers.get(text) {
            Some(*what)
        } else if self.names.reals.contains(text) {
            Some("a scalar")
        } else if self.names.numbers.contains(text) || DType::ALL.iter().any(|dtype| dtype.name() == text) {
            Some("a number")
        } else {
            None
        };
        if let Some(what) = taken {
            return Err((at, format!("`{text}` is already {what} of `{}`", self.operation.name)));
        }
        match buffer {
            Some(what) => drop(self.buffers.insert(text.clone(), what)),
            None => drop(self.names.numbers.insert(text.clone())),
        }
        if self.buffers.len() + self.names.numbers.len() > 4 * DECLARED_MAX {
            return Err((at, format!("more than {DECLARED_MAX} buffers or numbers are declared")));
        }
        Ok(())
    }

    fn check_state(&self, document: &OperationDocument) -> Result<(), Fault> {
        let names = document.state.keys().chain(&document.keeps);
        if let Some((name, at)) = names.map(of_spanned).next().filter(|_| !self.operation.makes_state()) {
            let name = name.escape_debug();
            return Err((at, format!("`{name}`: `{}` makes no state", self.operation.name)));
        }
        for (index, name) in document.keeps.iter().enumerate() {
            let (text, at) = of_spanned(name);
            let is_input = |field: &&crate::Field| matches!(field.kind, Kind::Tensor(_));
            let inputs: Vec<String> =
                self.operation.inputs.iter().filter(is_input).map(|field| field.name.to_owned()).collect();
            if !inputs.contains(text) {
                let text = text.escape_debug();
                return Err((at, format!("`keeps`: unknown input `{text}`, expected {}", listed(&inputs))));
            }
            if document.keeps[..index].iter().any(|earlier| earlier.get_ref() == text) {
                return Err((at, format!("`keeps` names `{text}` twice")));
            }
        }
        Ok(())
    }

    fn declared(
        &mut self,
        table: &Table<BufferDocument>,
        what: &'static str,
    ) -> Result<Vec<Declared>, Fault> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        if entries.len() > DECLARED_MAX {
            return Err((of_spanned(entries[DECLARED_MAX].0).1, format!("more than {DECLARED_MAX} buffers")));
        }
        entries
            .into_iter()
            .map(|(name, buffer)| {
                self.declare(name, Some(what))?;
                let (text, at) = of_spanned(&buffer.dtype);
                let element = match element_types().find(|(name, _)| name == text) {
                    Some((_, bytes)) => Element::Of { bytes },
                    None if self.names.tensors.contains(text) => Element::Like(text.clone()),
                    None => {
                        let known: Vec<String> = element_types().map(|(name, _)| name.to_owned()).collect();
                        let like = match &self.names.tensors {
                            none if none.is_empty() => String::new(),
                            tensors => format!(", or that of a tensor: {}", listed(tensors)),
                        };
                        let (text, known) = (text.escape_debug(), listed(&known));
                        return Err((at, format!("unknown `dtype` `{text}`, expected {known}{like}")));
                    }
                };
                let elements = self.expression("elements", &buffer.elements)?;
                Ok(Declared { name: name.get_ref().clone(), element, elements, zeroed: buffer.zeroed })
            })
            .collect()
    }

    fn launch(&self, launch: &LaunchDocument) -> Result<Rule, Fault> {
        let (kernel, at) = of_spanned(&launch.kernel);
        if !is_identifier(kernel) || kernel.len() > KERNEL_BYTES_MAX {
            let kernel = kernel.escape_debug();
            return Err((
                at,
                format!("`kernel` is `{kernel}`: expected the name of an extern \"C\" function"),
            ));
        }
        let optional = |key, value: &Option<Spanned<Value>>| {
            value.as_ref().map(|value| self.expression(key, value)).transpose()
        };
        let (arguments, at) = of_spanned(&launch.arguments);
        if arguments.len() > ARGUMENTS_MAX {
            return Err((at, format!("`arguments` has more than {ARGUMENTS_MAX}")));
        }
        Ok(Rule {
            kernel: kernel.clone(),
            when: optional("when", &launch.when)?,
            grid: self.sizes("grid", &launch.grid)?,
            block: self.sizes("block", &launch.block)?,
            shared: optional("shared", &launch.shared)?,
            arguments: arguments.iter().map(|argument| self.operand(argument)).collect::<Result<_, _>>()?,
        })
    }

    fn sizes(&self, key: &str, sizes: &Spanned<Vec<Spanned<Value>>>) -> Result<Vec<Expression>, Fault> {
        let (sizes, at) = of_spanned(sizes);
        if !(1..=3).contains(&sizes.len()) {
            return Err((
                at,
                format!("`{key}` has {} sizes: expected x, or x and y, or x, y and z", sizes.len()),
            ));
        }
        sizes.iter().map(|size| self.expression(key, size)).collect()
    }

    fn expression(&self, key: &str, value: &Spanned<Value>) -> Result<Expression, Fault> {
        let at = value.span().start;
        let text = match value.get_ref() {
            Value::Integer(number) => number.to_string(),
            Value::String(text) => text.clone(),
            other => {
                let message = format!("`{key}` must be an integer or an expression in quotes, got {other}");
                return Err((at, message));
            }
        };
        Expression::parse(&text)
            .and_then(|expression| self.names.check(&expression).map(|()| expression))
            .map_err(|error| (at, format!("`{key}`: {error}")))
    }

    /// A buffer, or a scalar with the type that the kernel takes it as: `rows`, `int64: rows * V`, `float64: eps`.
    fn operand(&self, argument: &Spanned<String>) -> Result<Operand, Fault> {
        let (text, at) = of_spanned(argument);
        let fault = |message: String| (at, format!("`arguments`: {message}"));
        if self.buffers.contains_key(text.trim()) {
            return Ok(Operand::Buffer(text.trim().to_owned()));
        }
        let (dtype, rest) = match text.split_once(':').filter(|(prefix, _)| !prefix.contains('?')) {
            None => (None, text.as_str()),
            Some((prefix, rest)) => match scalar_type(prefix.trim()) {
                Some(dtype) => (Some(dtype), rest),
                None => {
                    let prefix = prefix.trim().escape_debug();
                    return Err(fault(format!(
                        "a scalar cannot be passed as `{prefix}`, expected `int32`, `int64`, `float32`, `float64`"
                    )));
                }
            },
        };
        let name = rest.trim();
        if self.buffers.contains_key(name) {
            return Err(fault(format!("`{name}` is a buffer, and is passed as a pointer, without a type")));
        }
        if self.names.reals.contains(name) {
            return match dtype.unwrap_or(DType::Float32) {
                dtype @ (DType::Float32 | DType::Float64) => {
                    Ok(Operand::Real { name: name.to_owned(), dtype })
                }
                _ => Err(fault(format!("`{name}` is no integer, expected `float32` or `float64`"))),
            };
        }
        let value = Expression::parse(rest).map_err(|error| fault(error.to_string()))?;
        match value.as_name().filter(|name| !self.names.numbers.contains(*name)) {
            Some(name) => {
                let buffers = listed(self.buffers.keys());
                let scalars = listed(self.names.numbers.iter().chain(&self.names.reals));
                Err(fault(format!(
                    "unknown name `{name}`, expected a buffer ({buffers}) or a scalar ({scalars})"
                )))
            }
            None => {
                self.names.check(&value).map_err(|error| fault(error.to_string()))?;
                Ok(Operand::Number { value, dtype: dtype.unwrap_or(DType::Int32) })
            }
        }
    }
}

fn of_spanned<T>(value: &Spanned<T>) -> (&T, usize) {
    (value.get_ref(), value.span().start)
}

fn scalar_type(name: &str) -> Option<DType> {
    [DType::Int32, DType::Int64, DType::Float32, DType::Float64]
        .into_iter()
        .find(|dtype| dtype.name() == name)
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Names of all types that a buffer may be declared of, and the bytes of an element.
fn element_types() -> impl Iterator<Item = (&'static str, u8)> {
    let of_tensors = DType::ALL.into_iter().map(|dtype| (dtype.name(), dtype.size_bytes() as u8));
    of_tensors.chain(ELEMENT_TYPES)
}
