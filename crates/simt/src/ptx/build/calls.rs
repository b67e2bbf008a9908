//! Calls: a function is put in where it is called, and what is passed goes through registers where it can.

use std::collections::BTreeSet;

use super::super::syntax::{Formal, Operand, Type};
use super::super::{Error, shown};
use super::names::{Names, Symbol};
use super::{
    Builder, LOCAL_BYTES_MAX, Named, PARAM_BYTES_MAX, SINK, Slot, Step, Value, Work, local, narrowed, widened,
};
use crate::address;
use crate::program::{Bits, Op, Preset, Space};

/// A variable in the parameter space of a call.
pub(super) struct Block {
    pub bytes: u64,
    pub align: u64,
    /// Whether its address was taken, or was added to at run time.
    pub addressed: bool,
    /// Offset and bytes of what is read and written.
    pub parts: BTreeSet<(u32, u8)>,
}

/// Where what is passed to a function lies.
enum Home {
    /// In registers, by offset.
    Registers(Vec<(u32, Value)>),
    /// In local memory, from there on.
    Local(u64),
}

/// The register of the part at an offset.
fn part(parts: &[(u32, Value)], offset: u32) -> Value {
    let found = parts.binary_search_by_key(&offset, |(begins, _)| *begins);
    parts[found.expect("every part that is read or written was noted")].1
}

impl<'m> Builder<'m> {
    /// What is in the parameter space for a call.
    pub fn block(&mut self, line: u32, bytes: Option<u64>, align: u64) -> Result<u32, Error> {
        let bytes = bytes.filter(|bytes| *bytes <= PARAM_BYTES_MAX);
        let limit = PARAM_BYTES_MAX as usize;
        let bytes = bytes.ok_or(Error::TooMany { line, what: "bytes of parameters", limit })?;
        self.blocks.push(Block { bytes, align, addressed: false, parts: BTreeSet::new() });
        Ok(self.blocks.len() as u32 - 1)
    }

    pub fn block_bytes(&self, block: u32) -> u64 {
        self.blocks[block as usize].bytes
    }

    /// Its address is taken.
    pub fn address_block(&mut self, block: u32) {
        self.blocks[block as usize].addressed = true;
    }

    /// A part of it is read or written.
    pub fn touch(&mut self, block: u32, offset: u32, bytes: u8) {
        self.blocks[block as usize].parts.insert((offset, bytes));
    }

    /// `call`: `results` and `arguments` as they are written.
    pub fn call(
        &mut self,
        name: &'m str,
        results: &'m [Operand],
        arguments: &'m [Operand],
    ) -> Result<(), Error> {
        let line = self.site.ptx;
        let module = self.module;
        let Some(function) = module.function(name) else {
            return self.library(name, results, arguments);
        };
        if function.entry {
            return Err(self.operand(name, "a kernel cannot be called"));
        }
        if self.calls.contains(&name) {
            return Err(Error::Recursion { line, name: shown(name) });
        }
        if function.results.len() != results.len() || function.params.len() != arguments.len() {
            return Err(self.operand(name, "takes another number of parameters"));
        }
        self.visit(line, function.params.len() + function.results.len())?;
        let after = self.label();
        self.skip_unguarded(after)?;
        let arguments = self.bind(&function.params, arguments, true)?;
        let bound = self.bind(&function.results, results, false)?;
        let before = (self.site, self.guard.take(), self.instruction, self.returns.replace(after));
        // Names of the caller are not those of the function.
        let scopes = std::mem::replace(&mut self.scopes, vec![Names::default()]);
        self.calls.push(&function.name);
        for (formal, &block) in function.params.iter().zip(&arguments) {
            self.formal(line, formal, block, true)?;
        }
        for (formal, &block) in function.results.iter().zip(&bound) {
            self.formal(line, formal, block, false)?;
        }
        self.statements(function.body.as_deref().unwrap_or_default())?;
        self.guard = None;
        self.calls.pop();
        self.mark(after);
        for (formal, &block) in function.results.iter().zip(&bound) {
            if let Formal::Register(name, ty) = formal
                && let Some(Symbol::Register(value)) = self.find(name)?
            {
                self.put(block, 0, ty.bits().div_ceil(8), value)?;
            }
        }
        self.scopes = scopes;
        (self.site, self.guard, self.instruction, self.returns) = before;
        self.guard = None;
        self.unbind(results, &bound)
    }

    /// The parameter space in which arguments lie: what is not there is put there.
    pub(super) fn bind(
        &mut self,
        formals: &'m [Formal],
        actuals: &'m [Operand],
        puts: bool,
    ) -> Result<Vec<u32>, Error> {
        let mut blocks = Vec::with_capacity(actuals.len());
        for (formal, actual) in formals.iter().zip(actuals) {
            let (bytes, align, ty) = match formal {
                Formal::Memory(variable) => (variable.size, variable.align, variable.part),
                Formal::Register(_, ty) => (Some(ty.bits().div_ceil(8).into()), 1, *ty),
            };
            if let Operand::Name(name) = actual
                && let Named::Block(block) = self.named(name)?
            {
                if bytes.is_none_or(|bytes| bytes > self.block_bytes(block)) {
                    return Err(self.operand(name, "smaller than the parameter of the function"));
                }
                blocks.push(block);
                continue;
            }
            let block = self.block(self.site.ptx, bytes, align)?;
            if puts {
                let value = self.source(actual, ty)?;
                self.put(block, 0, ty.bits().div_ceil(8), value)?;
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Results that are wanted in registers are read from where they lie.
    pub fn unbind(&mut self, results: &'m [Operand], blocks: &[u32]) -> Result<(), Error> {
        for (result, &block) in results.iter().zip(blocks) {
            if let Operand::Name(name) = result
                && let Named::Value(value) = self.named(name)?
            {
                let bytes = self.bits(value).div_ceil(8);
                self.take(block, 0, bytes, false, value)?;
            }
        }
        Ok(())
    }

    /// A formal parameter by its name, which a register `takes` from where it lies.
    pub(super) fn formal(
        &mut self,
        line: u32,
        formal: &'m Formal,
        block: u32,
        takes: bool,
    ) -> Result<(), Error> {
        match formal {
            Formal::Register(name, Type::Pred | Type::B128) => {
                Err(self.operand(name, "such parameters are not emulated"))
            }
            Formal::Memory(variable) => self.define(line, &variable.name, Symbol::Block(block)),
            Formal::Register(name, ty) => {
                let value = self.register(ty.bits())?;
                self.define(line, name, Symbol::Register(value))?;
                if takes {
                    self.take(block, 0, ty.bits().div_ceil(8), false, value)?;
                }
                Ok(())
            }
        }
    }

    /// Reads from the parameter space of a call.
    pub fn take(
        &mut self,
        block: u32,
        offset: u32,
        bytes: u8,
        signed: bool,
        value: Value,
    ) -> Result<(), Error> {
        self.touch(block, offset, bytes);
        let work = Work::Take { block, offset, bytes, signed };
        self.emit(Step { work, d: value.into(), ..Step::new(Op::Nop) })
    }

    /// Writes to the parameter space of a call.
    pub fn put(&mut self, block: u32, offset: u32, bytes: u8, value: Value) -> Result<(), Error> {
        self.touch(block, offset, bytes);
        let work = Work::Put { block, offset, bytes };
        self.emit(Step { work, b: value.into(), ..Step::new(Op::Nop) })
    }

    /// The address of what is in the parameter space of a call.
    pub fn emit_where(&mut self, block: u32, offset: u32, value: Value) -> Result<(), Error> {
        let work = Work::Where { block, offset };
        self.emit(Step { work, d: value.into(), ..Step::new(Op::Nop) })
    }

    /// Decides where what is passed to functions lies: in registers, if it is read as it was written, and in local memory otherwise.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let mut homes = Vec::with_capacity(blocks.len());
        for block in blocks {
            let ends = block.parts.iter().map(|(offset, bytes)| offset + u32::from(*bytes));
            let apart = block.parts.iter().skip(1).zip(ends).all(|((offset, _), end)| end <= *offset);
            homes.push(if apart && !block.addressed {
                let mut parts = Vec::with_capacity(block.parts.len());
                for (offset, bytes) in block.parts {
                    parts.push((offset, self.register(8 * bytes)?));
                }
                Home::Registers(parts)
            } else {
                let offset = self.local_bytes.next_multiple_of(block.align.max(8));
                self.local_bytes = offset + block.bytes;
                if self.local_bytes > LOCAL_BYTES_MAX {
                    let (line, limit) = (1, LOCAL_BYTES_MAX as usize);
                    return Err(Error::TooMany { line, what: "bytes of local memory", limit });
                }
                Home::Local(offset)
            });
        }
        for index in 0..self.steps.len() {
            let step = self.steps[index];
            let settled = match step.work {
                Work::Op(_) | Work::Nothing => continue,
                Work::Take { block, offset, bytes, signed } => match &homes[block as usize] {
                    Home::Registers(parts) => {
                        let Slot::Value(d) = step.d else { continue };
                        let op = widened(bytes, signed, self.bits(d));
                        Step { work: Work::Op(op), a: part(parts, offset).into(), ..step }
                    }
                    Home::Local(begins) => {
                        let Slot::Value(d) = step.d else { continue };
                        let access = local(bytes, signed, self.bits(d));
                        let a = self.constant(64, begins + u64::from(offset))?;
                        Step { work: Work::Op(Op::Load(access)), a: a.into(), ..step }
                    }
                },
                Work::Put { block, offset, bytes } => match &homes[block as usize] {
                    Home::Registers(parts) => {
                        let Slot::Value(b) = step.b else { continue };
                        let op = narrowed(self.bits(b), bytes);
                        let d = part(parts, offset).into();
                        Step { work: Work::Op(op), d, a: step.b, b: Slot::None, ..step }
                    }
                    Home::Local(begins) => {
                        let Slot::Value(b) = step.b else { continue };
                        let access = local(bytes, false, self.bits(b));
                        let a = self.constant(64, begins + u64::from(offset))?;
                        Step { work: Work::Op(Op::Store(access)), a: a.into(), ..step }
                    }
                },
                Work::Where { block, offset } => {
                    let Home::Local(begins) = &homes[block as usize] else { continue };
                    let a = self.constant(64, begins + u64::from(offset))?;
                    Step { work: Work::Op(Op::Mov(Bits::B64)), a: a.into(), ..step }
                }
            };
            self.steps[index] = settled;
        }
        Ok(())
    }

    /// Registers that only ever hold a preset are replaced by it, and the steps that fill them left out.
    pub(super) fn fold(&mut self) {
        let mut written = vec![0u8; self.registers.len()];
        for step in &self.steps {
            for slot in [step.d, step.e] {
                let values: &[Value] = match &slot {
                    Slot::None => &[],
                    Slot::Value(value) => std::slice::from_ref(value),
                    Slot::List(list) => &self.lists[*list as usize],
                };
                for value in values.iter().filter(|value| **value != SINK) {
                    let count = &mut written[value.0 as usize];
                    *count = count.saturating_add(1);
                }
            }
        }
        let mut stands_for: Vec<Option<Value>> = vec![None; self.registers.len()];
        // Text is mostly in the order in which it runs: what a second look does not find is left as it is.
        for _ in 0..2 {
            for index in 0..self.steps.len() {
                let step = self.steps[index];
                let (Slot::Value(d), Slot::Value(a), None, Work::Op(op)) =
                    (step.d, step.a, step.guard, step.work)
                else {
                    continue;
                };
                if written[d.0 as usize] != 1 || stands_for[d.0 as usize].is_some() {
                    continue;
                }
                let a = stands_for[a.0 as usize].unwrap_or(a);
                let Some(preset) = self.registers[a.0 as usize].preset else { continue };
                let value = match (op, preset) {
                    (Op::Mov(_), _) => Some(a),
                    (Op::ConvertAddress { space, to_space: false, wide: true }, Preset::Bits(bits)) => {
                        let segment = match space {
                            Space::Shared => address::SHARED,
                            Space::Local => address::LOCAL,
                            Space::Param => address::PARAM,
                            Space::Generic | Space::Global | Space::Const => continue,
                        };
                        self.constant(64, address::generic(segment, bits)).ok()
                    }
                    _ => continue,
                };
                stands_for.resize(self.registers.len(), None);
                stands_for[d.0 as usize] = value;
                written.resize(self.registers.len(), 0);
            }
        }
        let stands = |slot: Slot| match slot {
            Slot::Value(value) => Slot::Value(stands_for[value.0 as usize].unwrap_or(value)),
            other => other,
        };
        for step in &mut self.steps {
            if let Slot::Value(d) = step.d
                && stands_for[d.0 as usize].is_some()
            {
                *step = Step { work: Work::Nothing, ..Step::new(Op::Nop) };
                continue;
            }
            (step.a, step.b, step.c, step.f) =
                (stands(step.a), stands(step.b), stands(step.c), stands(step.f));
            if let Some((guard, _)) = &mut step.guard {
                *guard = stands_for[guard.0 as usize].unwrap_or(*guard);
            }
        }
        for list in &mut self.lists {
            for value in list.iter_mut().filter(|value| **value != SINK) {
                *value = stands_for[value.0 as usize].unwrap_or(*value);
            }
        }
    }
}
