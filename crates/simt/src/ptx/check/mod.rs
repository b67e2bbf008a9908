//! Instructions as they are written, to operations: every modifier and operand is looked at.

mod arithmetic;
mod bits;
mod control;
mod convert;
mod memory;
mod newer;
mod warp;
mod wmma;

use super::build::{Builder, Named, SINK, Slot, Step, Value};
use super::syntax::{Operand, Place, Type};
use super::{Error, shown};
use crate::program::{Bits, Int, Mode, Op, Round};

/// Most modifiers of an instruction, each of which is looked for among the others.
const MODIFIERS_MAX: usize = 16;

/// The name of an instruction: modifiers are taken from it, and what is left at the end is not known.
pub(super) struct Name<'m> {
    whole: &'m str,
    line: u32,
    base: &'m str,
    rest: Vec<&'m str>,
}

impl<'m> Name<'m> {
    fn new(whole: &'m str, line: u32) -> Name<'m> {
        let mut words = whole.split('.');
        let base = words.next().unwrap_or_default();
        Name { whole, line, base, rest: words.collect() }
    }

    /// Whether the modifier is there.
    fn take(&mut self, modifier: &str) -> bool {
        let found = self.rest.iter().position(|word| *word == modifier);
        if let Some(index) = found {
            self.rest.remove(index);
        }
        found.is_some()
    }

    /// The first of the modifiers that is one of those.
    fn one<T: Copy>(&mut self, choices: &[(&str, T)]) -> Option<T> {
        let find = |word: &&str| choices.iter().find(|(name, _)| name == word).map(|(_, choice)| *choice);
        let index = self.rest.iter().position(|word| find(word).is_some())?;
        find(&self.rest.remove(index))
    }

    fn needs_one<T: Copy>(&mut self, what: &'static str, choices: &[(&str, T)]) -> Result<T, Error> {
        self.one(choices).ok_or_else(|| self.lacks(what))
    }

    fn lacks(&self, what: &'static str) -> Error {
        Error::Lacks { line: self.line, instruction: shown(self.whole), what }
    }

    /// The next type.
    fn any_type(&mut self) -> Result<Type, Error> {
        let found = self.rest.iter().position(|word| Type::named(word).is_some());
        match found {
            Some(index) => Type::named(self.rest.remove(index)).ok_or_else(|| self.lacks("a type")),
            None => Err(self.lacks("a type")),
        }
    }

    /// The next type, which must be one of those.
    fn ty(&mut self, types: &[Type]) -> Result<Type, Error> {
        let found = self.rest.iter().position(|word| Type::named(word).is_some());
        let Some(index) = found else { return Err(self.lacks("a type")) };
        match Type::named(self.rest[index]) {
            Some(ty) if types.contains(&ty) => {
                self.rest.remove(index);
                Ok(ty)
            }
            _ => Err(self.modifier(self.rest[index])),
        }
    }

    fn modifier(&self, modifier: &str) -> Error {
        Error::Modifier { line: self.line, instruction: shown(self.whole), modifier: shown(modifier) }
    }

    /// No modifier is left.
    fn end(&self) -> Result<(), Error> {
        self.rest.first().map_or(Ok(()), |modifier| Err(self.modifier(modifier)))
    }

    /// No modifier is left, and there are so many operands.
    fn operands<const N: usize>(&self, operands: &'m [Operand]) -> Result<[&'m Operand; N], Error> {
        self.end()?;
        self.just(operands)
    }

    fn just<const N: usize>(&self, operands: &'m [Operand]) -> Result<[&'m Operand; N], Error> {
        match <&[Operand; N]>::try_from(operands) {
            Ok(operands) => Ok(operands.each_ref()),
            Err(_) => Err(self.count(operands)),
        }
    }

    fn count(&self, operands: &[Operand]) -> Error {
        Error::Operands { line: self.line, instruction: shown(self.whole), count: operands.len() }
    }

    fn round(&mut self, choices: &[(&str, Round)]) -> Result<Round, Error> {
        self.needs_one("a rounding", choices)
    }

    /// `.ftz` of what is computed in f32 or in halves of f16.
    fn ftz(&mut self, ty: Type) -> bool {
        matches!(ty, Type::F32 | Type::F16 | Type::F16x2) && self.take("ftz")
    }

    fn sat(&mut self, ty: Type) -> bool {
        matches!(ty, Type::F32 | Type::F16 | Type::F16x2) && self.take("sat")
    }
}

/// Roundings of f32 and f64.
const ROUNDS: [(&str, Round); 4] =
    [("rn", Round::Nearest), ("rz", Round::Zero), ("rm", Round::Down), ("rp", Round::Up)];
/// Of halves, there is one.
const NEAREST: [(&str, Round); 1] = [("rn", Round::Nearest)];

const FTZ: Mode = Mode { round: Round::Nearest, ftz: true, sat: false };

impl Type {
    fn int(self) -> Option<Int> {
        Some(match self {
            Type::U16 => Int::U16,
            Type::S16 => Int::S16,
            Type::U32 => Int::U32,
            Type::S32 => Int::S32,
            Type::U64 => Int::U64,
            Type::S64 => Int::S64,
            _ => return None,
        })
    }

    /// The bits of a register of the type.
    fn untyped(self) -> Bits {
        match self.bits() {
            1 => Bits::Pred,
            64 => Bits::B64,
            32 => Bits::B32,
            _ => Bits::B16,
        }
    }
}

impl<'m> Builder<'m> {
    /// Makes steps of an instruction.
    pub(super) fn instruction(&mut self, text: &'m str, operands: &'m [Operand]) -> Result<(), Error> {
        let mut name = Name::new(text, self.here());
        if name.rest.len() > MODIFIERS_MAX {
            return Err(Error::TooMany {
                line: name.line,
                what: "modifiers of an instruction",
                limit: MODIFIERS_MAX,
            });
        }
        if let Some(error) = newer::refusal(text, self.here()) {
            return Err(error);
        }
        let n = &mut name;
        match n.base {
            "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "abs" | "neg" | "fma" | "sad"
            | "addc" | "subc" | "madc" | "mul24" | "mad24" | "dp4a" | "dp2a" | "sqrt" | "rsqrt" | "rcp"
            | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign" | "testp" => self.arithmetic(n, operands),
            "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "popc" | "clz"
            | "brev" | "bfind" | "bfe" | "bfi" | "bmsk" | "prmt" | "mov" | "selp" | "slct" | "set"
            | "setp" => self.of_bits(n, operands),
            "cvt" => self.convert(n, operands),
            "ld" | "ldu" | "st" | "atom" | "red" | "cvta" | "isspacep" | "membar" | "fence" | "cp"
            | "mbarrier" | "prefetch" | "prefetchu" | "discard" | "applypriority" | "createpolicy" => {
                self.memory(n, operands)
            }
            "wmma" => self.wmma(n, operands),
            "activemask" | "shfl" | "vote" | "match" | "redux" | "ldmatrix" | "mma" => {
                self.of_warp(n, operands)
            }
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "bar" | "barrier" | "nanosleep"
            | "pmevent" => self.control(n, operands),
            _ => Err(self.unknown(text)),
        }
    }

    fn unknown(&self, instruction: &str) -> Error {
        Error::Unknown { line: self.here(), instruction: shown(instruction) }
    }

    /// An operand, whatever its width, as a type would have it.
    fn value(&mut self, operand: &'m Operand, ty: Type) -> Result<Value, Error> {
        match operand {
            Operand::Name(name) => self.value_named(name, 0, ty),
            Operand::Offset(name, offset) => self.value_named(name, *offset, ty),
            Operand::Number(number) => match number.as_type(ty) {
                Some(bits) => self.constant(ty.bits(), bits),
                None => Err(self.operand("a number", "not of the instruction's type")),
            },
            Operand::Not(name) => Err(self.operand(name, "cannot be negated here")),
            Operand::Vector(_) | Operand::Address(_) | Operand::Group(_) | Operand::Pair(..) => {
                Err(self.operand("in brackets", "a single value is expected"))
            }
        }
    }

    fn value_named(&mut self, name: &'m str, offset: i64, ty: Type) -> Result<Value, Error> {
        match self.named(name)? {
            Named::Value(value) if offset == 0 => Ok(value),
            Named::Value(_) => Err(self.operand(name, "nothing can be added to a register here")),
            Named::Address { bits, place } => {
                let bits = bits.wrapping_add(offset as u64);
                match ty.bits() {
                    64 => self.constant(64, bits),
                    32 if matches!(place, Place::Shared | Place::Local) => {
                        self.constant(32, bits & u64::from(u32::MAX))
                    }
                    _ => Err(self.operand(name, "its address has 64 bits")),
                }
            }
            Named::Parameter(begins, _) => {
                let bits = u64::from(begins).wrapping_add(offset as u64);
                match ty.bits() {
                    64 => self.constant(64, bits),
                    32 => self.constant(32, bits & u64::from(u32::MAX)),
                    _ => Err(self.operand(name, "its address has 64 bits")),
                }
            }
            Named::Block(block) if ty.bits() == 64 => self.where_is(block, offset, name),
            Named::Block(_) => Err(self.operand(name, "its address has 64 bits")),
            Named::Vector(..) => Err(self.operand(name, "a single value is expected")),
            Named::Label(_) => Err(self.operand(name, "a label has no value")),
        }
    }

    /// An operand of just that type.
    pub(super) fn source(&mut self, operand: &'m Operand, ty: Type) -> Result<Value, Error> {
        let value = self.value(operand, ty)?;
        if self.bits(value) != ty.bits() { Err(self.width(operand)) } else { Ok(value) }
    }

    fn width(&self, operand: &Operand) -> Error {
        let name = match operand {
            Operand::Name(name) => name,
            _ => "operand",
        };
        self.operand(name, "a register of another width is expected")
    }

    /// Where a result goes, whatever its width.
    fn place(&mut self, operand: &'m Operand) -> Result<Slot, Error> {
        match operand {
            Operand::Name(name) if name == "_" => Ok(Slot::None),
            Operand::Name(name) => match self.named(name)? {
                Named::Value(value) if self.registers[value.0 as usize].preset.is_none() => Ok(value.into()),
                _ => Err(self.operand(name, "cannot be written")),
            },
            _ => Err(self.operand("in brackets", "a register is expected")),
        }
    }

    /// Where a result of just that type goes.
    fn result(&mut self, operand: &'m Operand, ty: Type) -> Result<Slot, Error> {
        let slot = self.place(operand)?;
        match slot {
            Slot::Value(value) if self.bits(value) != ty.bits() => Err(self.width(operand)),
            slot => Ok(slot),
        }
    }

    /// A register that a step needs for itself.
    fn scratch(&mut self, bits: u8) -> Result<Value, Error> {
        self.register(bits)
    }

    /// A predicate, and whether it is negated.
    fn predicate(&mut self, operand: &'m Operand) -> Result<(Value, bool), Error> {
        let Operand::Not(name) = operand else { return Ok((self.source(operand, Type::Pred)?, false)) };
        match self.named(name)? {
            Named::Value(value) if self.bits(value) == 1 => Ok((value, true)),
            _ => Err(self.operand(name, "not a predicate")),
        }
    }

    /// A predicate that holds where the operand does.
    fn predicate_as_is(&mut self, operand: &'m Operand) -> Result<Value, Error> {
        let (value, negated) = self.predicate(operand)?;
        if !negated {
            return Ok(value);
        }
        let inverse = self.scratch(1)?;
        self.emit(Step { d: inverse.into(), a: value.into(), ..Step::new(Op::Not(Bits::Pred)) })?;
        Ok(inverse)
    }

    /// The results `d|p`, of which the second may be missing.
    fn pair(&mut self, operand: &'m Operand, first: Type, second: Type) -> Result<(Slot, Slot), Error> {
        let Operand::Pair(d, e) = operand else { return Ok((self.result(operand, first)?, Slot::None)) };
        let mut part = |name: &'m str, ty: Type| -> Result<Slot, Error> {
            if name == "_" {
                return Ok(Slot::None);
            }
            match self.named(name)? {
                Named::Value(value) if self.registers[value.0 as usize].preset.is_some() => {
                    Err(self.operand(name, "cannot be written"))
                }
                Named::Value(value) if self.bits(value) == ty.bits() => Ok(value.into()),
                _ => Err(self.operand(name, "a register of another width is expected")),
            }
        };
        Ok((part(d, first)?, part(e, second)?))
    }

    /// The values of a vector: of one in braces, or of a register of several parts.
    fn vector(&mut self, operand: &'m Operand, ty: Type) -> Result<Vec<Value>, Error> {
        match operand {
            Operand::Vector(parts) => parts.iter().map(|part| self.value(part, ty)).collect(),
            Operand::Name(name) => match self.named(name)? {
                Named::Vector(first, parts) => Ok((first.0..first.0 + u32::from(parts)).map(Value).collect()),
                _ => Err(self.operand(name, "several registers are expected")),
            },
            _ => Err(self.operand("operand", "several registers are expected")),
        }
    }

    /// The places of a vector; what is not wanted is [`SINK`].
    fn places(&mut self, operand: &'m Operand) -> Result<Vec<Value>, Error> {
        let Operand::Vector(parts) = operand else { return self.vector(operand, Type::B32) };
        parts
            .iter()
            .map(|part| {
                Ok(match self.place(part)? {
                    Slot::Value(value) => value,
                    Slot::None | Slot::List(_) => SINK,
                })
            })
            .collect()
    }

    /// All values of a vector have so many bits, and so many they are.
    fn regular(&self, values: &[Value], count: usize, bits: u8) -> Result<(), Error> {
        if values.len() != count {
            return Err(self.operand("in braces", "another number of registers is expected"));
        }
        let fits = |value: &&Value| **value == SINK || self.bits(**value) == bits;
        if values.iter().all(|value| fits(&value)) {
            Ok(())
        } else {
            Err(self.operand("in braces", "registers of another width are expected"))
        }
    }
}
