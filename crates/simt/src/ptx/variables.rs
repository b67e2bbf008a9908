//! Variables of a module: where they are, and what they hold at first.

use std::collections::{HashMap, HashSet};

use super::syntax::{self, Initial, Number, Place, Text};
use super::{Error, shown};
use crate::address;
use crate::program::{Space, Variable};

/// Why nothing can be called by way of a pointer.
pub(super) const FUNCTION: &str = "addresses of functions (pointers to them, tables of these, virtual functions) are not emulated: choose by `switch` or a template";

/// Bytes of all variables.
const BYTES_MAX: u64 = 256 << 20;

/// The variables of a module.
pub(super) struct Variables {
    /// Of functions, which have no addresses.
    functions: HashSet<String>,
    pub by_name: HashMap<String, usize>,
    pub placed: Vec<Variable>,
    pub segments: HashMap<usize, u32>,
}

impl Variables {
    /// Those of a text.
    pub fn of(text: &Text) -> Result<Variables, Error> {
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for (index, variable) in text.variables.iter().enumerate() {
            match by_name.get(&variable.name) {
                Some(&before) if text.variables[before].external => {
                    by_name.insert(variable.name.clone(), index);
                }
                Some(_) if variable.external => {}
                Some(_) => return Err(Error::Twice { line: variable.line, name: shown(&variable.name) }),
                None => {
                    by_name.insert(variable.name.clone(), index);
                }
            }
        }
        let has_segment = |(index, variable): &(usize, &syntax::Variable)| {
            matches!(variable.place, Place::Global | Place::Const)
                && by_name.get(&variable.name) == Some(index)
                && !variable.external
        };
        let segments: HashMap<usize, u32> = text
            .variables
            .iter()
            .enumerate()
            .filter(has_segment)
            .zip(address::VARIABLES..)
            .map(|((index, _), segment)| (index, segment))
            .collect();
        if segments.len() > (address::BUFFERS - address::VARIABLES) as usize {
            let limit = (address::BUFFERS - address::VARIABLES) as usize;
            return Err(Error::TooMany { line: 1, what: "variables", limit });
        }
        let functions = text.functions.iter().map(|function| function.name.clone()).collect();
        let mut found =
            Variables { functions, by_name, placed: Vec::with_capacity(segments.len()), segments };
        let mut total = 0u64;
        for (index, variable) in text.variables.iter().enumerate() {
            if found.segments.contains_key(&index) {
                total = total.saturating_add(variable.size.unwrap_or(0));
                if total > BYTES_MAX {
                    let (line, what) = (variable.line, "bytes of variables");
                    return Err(Error::TooMany { line, what, limit: BYTES_MAX as usize });
                }
                let placed = found.placed(variable)?;
                found.placed.push(placed);
            }
        }
        Ok(found)
    }

    fn placed(&self, variable: &syntax::Variable) -> Result<Variable, Error> {
        let size = variable.size.ok_or_else(|| fail(variable, "an array without a length has none"))?;
        let mut bytes = vec![0; size as usize];
        if let Some(initial) = &variable.initial {
            // A row of an array that is shorter than the others would move those that follow.
            let nested = matches!(initial, Initial::List(list) if list.iter().any(|part| matches!(part, Initial::List(_))));
            if nested && list_bytes(initial, usize::from(variable.part.bits() / 8)) != bytes.len() {
                return Err(fail(variable, "rows of different lengths are not emulated"));
            }
            let end = self.fill(variable, initial, &mut bytes, 0)?;
            assert!(end <= bytes.len());
        }
        Ok(Variable {
            name: variable.name.clone(),
            space: if variable.place == Place::Const { Space::Const } else { Space::Global },
            bytes,
            initialised: variable.initial.is_some(),
        })
    }

    /// Writes a part from byte `at` on, and returns where it ends.
    fn fill(
        &self,
        variable: &syntax::Variable,
        initial: &Initial,
        bytes: &mut [u8],
        at: usize,
    ) -> Result<usize, Error> {
        let width = usize::from(variable.part.bits() / 8);
        let long = || fail(variable, "it is longer than the variable");
        let mut put = |value: &[u8]| {
            let end = at + value.len();
            bytes.get_mut(at..end).ok_or_else(long)?.copy_from_slice(value);
            Ok(end)
        };
        match initial {
            Initial::Number(number) => {
                let value = number
                    .as_type(variable.part)
                    .ok_or_else(|| fail(variable, "a number is not of the variable's type"))?;
                let mut value = value.to_le_bytes().to_vec();
                value.resize(width, 0);
                put(&value)
            }
            Initial::Bytes(text) => put(text),
            Initial::Address(name, offset) => {
                if width != 8 {
                    return Err(fail(variable, "an address must be put into 64 bits"));
                }
                let segment = self.by_name.get(name).and_then(|index| self.segments.get(index));
                let Some(&segment) = segment else {
                    if self.functions.contains(name) {
                        return Err(fail(variable, FUNCTION));
                    }
                    return Err(Error::Undefined { line: variable.line, name: shown(name) });
                };
                put(&address::generic(segment, *offset as u64).to_le_bytes())
            }
            Initial::List(list) => {
                let mut end = at;
                for part in list {
                    end = self.fill(variable, part, bytes, end)?;
                }
                Ok(end)
            }
        }
    }
}

/// Where a grid counts its blocks, which `%envreg1` and `%envreg2` point to.
pub(super) fn environment() -> Variable {
    Variable { name: "%envreg".to_owned(), space: Space::Global, bytes: vec![0; 64], initialised: true }
}

/// Bytes of all numbers in an initialiser.
fn list_bytes(initial: &Initial, width: usize) -> usize {
    match initial {
        Initial::List(list) => list.iter().map(|part| list_bytes(part, width)).sum(),
        Initial::Bytes(bytes) => bytes.len(),
        Initial::Number(_) | Initial::Address(..) => width,
    }
}

fn fail(variable: &syntax::Variable, why: &'static str) -> Error {
    Error::Initial { line: variable.line, name: shown(&variable.name), why }
}

impl Number {
    /// The bits of the number as a type; `None` for a fraction where an integer should be, and the reverse.
    pub fn as_type(self, ty: syntax::Type) -> Option<u64> {
        use syntax::Type;
        let bits = match (self, ty) {
            (_, Type::B128) => return None,
            (Number::Int(_), Type::F32 | Type::F64 | Type::Tf32) => return None,
            (Number::Int(value), Type::Pred) => return Some(u64::from(value != 0)),
            (Number::Int(bits), _) => bits,
            (Number::Single(bits), Type::F64) => f64::from(f32::from_bits(bits)).to_bits(),
            (Number::Single(bits), _) if ty.bits() == 32 => bits.into(),
            (Number::Double(bits), Type::F32) => (f64::from_bits(bits) as f32).to_bits().into(),
            (Number::Double(bits), _) if ty.bits() == 64 => bits,
            (Number::Single(_) | Number::Double(_), _) => return None,
        };
        Some(bits & u64::MAX >> (64 - ty.bits()))
    }
}
