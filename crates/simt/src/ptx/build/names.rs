//! What a name stands for: registers, variables, parameters, and what threads know of themselves.

use std::collections::HashMap;

use super::super::syntax::{Place, Type, Variable};
use super::super::{Error, shown, variables};
use super::{Builder, LOCAL_BYTES_MAX, SHARED_BYTES_MAX, Value};
use crate::address;
use crate::program::Preset;
use crate::shared;

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Symbol<'m> {
    Register(Value),
    /// The first of the parts of a vector, and how many there are.
    Vector(Value, u8),
    Variable(&'m Variable),
    /// A parameter of the kernel: offset and bytes.
    Parameter(u32, u32),
    /// A variable in the parameter space of a call.
    Block(u32),
    Label(u32),
    Targets(&'m [String]),
}

/// What a name is worth as an operand.
#[derive(Debug, Clone, Copy)]
pub(in crate::ptx) enum Named {
    Value(Value),
    Vector(Value, u8),
    /// The address of a variable, and where it is.
    Address {
        bits: u64,
        place: Place,
    },
    Parameter(u32, u32),
    Block(u32),
    Label(u32),
}

/// Names of a scope.
#[derive(Default)]
pub(super) struct Names<'m> {
    pub symbols: HashMap<&'m str, Symbol<'m>>,
    /// Registers that are declared as a range, by prefix: count, type, parts.
    pub ranges: HashMap<&'m str, (u32, Type, u8)>,
}

impl Names<'_> {
    /// The type and parts of a register of a range.
    pub fn in_range(&self, name: &str) -> Option<(Type, u8)> {
        const DIGITS_MAX: usize = 10;
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(DIGITS_MAX);
        (name.len() - digits..name.len()).find_map(|at| {
            let (prefix, number) = name.split_at(at);
            let &(count, ty, parts) = self.ranges.get(prefix)?;
            let plain = number == "0" || !number.starts_with('0');
            (plain && number.parse::<u32>().is_ok_and(|number| number < count)).then_some((ty, parts))
        })
    }
}

/// The name that a variable has in the source: the last part of what a compiler made of it.
fn source_name(name: &str) -> String {
    let mangled = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z"));
    let whole = mangled.and_then(|symbol| symbol.demangle().ok());
    shown(whole.as_deref().and_then(|whole| whole.rsplit("::").next()).unwrap_or(name))
}

impl<'m> Builder<'m> {
    pub(super) fn define(&mut self, line: u32, name: &'m str, symbol: Symbol<'m>) -> Result<(), Error> {
        let scope = self.scopes.last_mut().expect("there is a scope");
        match scope.symbols.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(Error::Twice { line, name: shown(name) }),
        }
    }

    pub(super) fn find(&mut self, name: &'m str) -> Result<Option<Symbol<'m>>, Error> {
        for index in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            if let Some(symbol) = scope.symbols.get(name) {
                return Ok(Some(*symbol));
            }
            if let Some((ty, parts)) = scope.in_range(name) {
                let symbol = self.declare(ty, parts)?;
                self.scopes[index].symbols.insert(name, symbol);
                return Ok(Some(symbol));
            }
        }
        let variables = &self.module.text.variables;
        Ok(self.module.by_name.get(name).map(|&index| Symbol::Variable(&variables[index])))
    }

    pub(super) fn declare(&mut self, ty: Type, parts: u8) -> Result<Symbol<'m>, Error> {
        if ty == Type::B128 {
            return Err(Error::NotEmulated { line: self.site.ptx, what: ".b128".to_owned() });
        }
        let first = self.register(ty.bits())?;
        if parts == 1 {
            return Ok(Symbol::Register(first));
        }
        for _ in 1..parts {
            self.register(ty.bits())?;
        }
        Ok(Symbol::Vector(first, parts))
    }

    /// What a name of the text stands for.
    pub fn named(&mut self, name: &'m str) -> Result<Named, Error> {
        if let Some(part) = self.part(name)? {
            return Ok(Named::Value(part));
        }
        match self.find(name)? {
            Some(Symbol::Register(value)) => Ok(Named::Value(value)),
            Some(Symbol::Vector(first, parts)) => Ok(Named::Vector(first, parts)),
            Some(Symbol::Parameter(offset, size)) => Ok(Named::Parameter(offset, size)),
            Some(Symbol::Block(block)) => Ok(Named::Block(block)),
            Some(Symbol::Label(label)) => Ok(Named::Label(label)),
            Some(Symbol::Variable(variable)) => self.variable(name, variable),
            Some(Symbol::Targets(_)) => Err(self.operand(name, "a list of targets has no value")),
            None if name == "WARP_SZ" => Ok(Named::Value(self.constant(32, 32)?)),
            None if name.starts_with('%') => Ok(Named::Value(self.special(name)?)),
            None if self.module.functions.contains_key(name) => Err(self.operand(name, variables::FUNCTION)),
            None => Err(Error::Undefined { line: self.site.ptx, name: shown(name) }),
        }
    }

    /// `vector.x` and its kind.
    pub(super) fn part(&mut self, name: &'m str) -> Result<Option<Value>, Error> {
        let Some((vector, part)) = name.rsplit_once('.') else { return Ok(None) };
        let index = match part {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            "w" | "a" => 3,
            _ => return Ok(None),
        };
        match self.find(vector)? {
            Some(Symbol::Vector(first, parts)) if index < parts.into() => Ok(Some(Value(first.0 + index))),
            _ => Ok(None),
        }
    }

    pub(super) fn special(&mut self, name: &str) -> Result<Value, Error> {
        use crate::program::Special;
        let line = self.site.ptx;
        let axis = |axis: &str| match axis {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let special = match name.split_once('.') {
            Some((base, part)) => match (base, axis(part)) {
                ("%tid", Some(axis)) => Special::Tid(axis),
                ("%ntid", Some(axis)) => Special::Ntid(axis),
                ("%ctaid", Some(axis)) => Special::Ctaid(axis),
                ("%nctaid", Some(axis)) => Special::Nctaid(axis),
                ("%clusterid" | "%nclusterid" | "%cluster_ctaid" | "%cluster_nctaid", _) => {
                    return Err(Error::Newer { line, what: shown(name), needs: "sm_90" });
                }
                _ => return Err(Error::Undefined { line, name: shown(name) }),
            },
            None => match name {
                "%laneid" => Special::LaneId,
                "%warpid" => Special::WarpId,
                "%nwarpid" => Special::NwarpId,
                "%lanemask_eq" => Special::LanemaskEq,
                "%lanemask_lt" => Special::LanemaskLt,
                "%lanemask_le" => Special::LanemaskLe,
                "%lanemask_gt" => Special::LanemaskGt,
                "%lanemask_ge" => Special::LanemaskGe,
                "%smid" => Special::Smid,
                "%nsmid" => Special::Nsmid,
                "%gridid" => Special::Gridid,
                "%dynamic_smem_size" => Special::DynamicShared,
                "%total_smem_size" => Special::TotalShared,
                "%is_explicit_cluster" | "%cluster_ctarank" | "%cluster_nctarank" | "%aggr_smem_size" => {
                    return Err(Error::Newer { line, what: shown(name), needs: "sm_90" });
                }
                "%clock" | "%clock64" | "%clock_hi" | "%globaltimer" | "%globaltimer_lo"
                | "%globaltimer_hi" => {
                    return Err(self.operand(name, "time is not emulated"));
                }
                // What a grid that waits for all its blocks is told of: where it may count them.
                "%envreg1" | "%envreg2" => {
                    let index = self.module.variables.len() as u32 - 1;
                    let address = address::generic(address::VARIABLES + index, 0);
                    let half = if name == "%envreg1" { address >> 32 } else { address & u64::from(u32::MAX) };
                    return self.constant(32, half);
                }
                _ if name.starts_with("%envreg") || name.starts_with("%pm") => {
                    return Err(Error::NotEmulated { line, what: shown(name) });
                }
                _ => return Err(Error::Undefined { line, name: shown(name) }),
            },
        };
        self.preset(32, Preset::Special(special))
    }

    /// Where the next array of shared memory may begin.
    pub(super) fn shared_end(&self) -> u64 {
        let gap = if self.arrays.len() <= shared::GAPS_MAX { shared::GAP } else { 0 };
        self.arrays.last().map_or(0, |last| u64::from(last.offset) + u64::from(last.bytes) + gap)
    }

    /// The address of a variable.
    pub(super) fn variable(&mut self, name: &str, variable: &'m Variable) -> Result<Named, Error> {
        let place = |bytes: &mut u64, limit, what| {
            let offset = bytes.next_multiple_of(variable.align);
            let end = offset.saturating_add(variable.size.unwrap_or(0));
            if end > limit {
                return Err(Error::TooMany { line: variable.line, what, limit: limit as usize });
            }
            *bytes = end;
            Ok(offset as u32)
        };
        let key = std::ptr::from_ref(variable);
        match variable.place {
            Place::Global | Place::Const => {
                let index = self.module.by_name.get(name);
                match index.and_then(|index| self.module.segments.get(index)) {
                    Some(&segment) => {
                        Ok(Named::Address { bits: address::generic(segment, 0), place: variable.place })
                    }
                    None => Err(Error::Undefined { line: self.site.ptx, name: shown(name) }),
                }
            }
            Place::Shared if variable.size.is_none() || variable.external => {
                self.dynamic_align = self.dynamic_align.max(Some(variable.align));
                Ok(Named::Address { bits: self.dynamic_begins, place: Place::Shared })
            }
            Place::Shared => {
                if !self.offsets.contains_key(&key) {
                    place(&mut self.shared_bytes, SHARED_BYTES_MAX, "bytes of shared memory")?;
                    let offset = self.shared_end().next_multiple_of(variable.align) as u32;
                    let bytes = variable.size.unwrap_or(0) as u32;
                    self.arrays.push(shared::Array { name: source_name(name), offset, bytes });
                    self.offsets.insert(key, offset);
                }
                Ok(Named::Address { bits: self.offsets[&key].into(), place: variable.place })
            }
            Place::Local => {
                if !self.offsets.contains_key(&key) {
                    let offset = place(&mut self.local_bytes, LOCAL_BYTES_MAX, "bytes of local memory")?;
                    self.offsets.insert(key, offset);
                }
                Ok(Named::Address { bits: self.offsets[&key].into(), place: variable.place })
            }
            Place::Param => Err(Error::NotEmulated { line: variable.line, what: shown(name) }),
        }
    }
}
