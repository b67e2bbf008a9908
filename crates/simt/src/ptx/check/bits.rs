//! Bits, moves, comparisons and choices.

use super::super::Error;
use super::super::build::{Builder, SINK, Slot, Step, Value};
use super::super::syntax::{Number, Operand, Type};
use super::Name;
use crate::program::{
    Bits, Comparable, Compare, Conversion, Int, Int2, Join, Logic, Op, PrmtMode, Scalar, SetResult, Setp,
};

const UNTYPED: [Type; 3] = [Type::B16, Type::B32, Type::B64];
const ANY: [Type; 11] = [
    Type::B16,
    Type::B32,
    Type::B64,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
];

const COMPARES: [(&str, Compare); 14] = [
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
    ("equ", Compare::Equ),
    ("neu", Compare::Neu),
    ("ltu", Compare::Ltu),
    ("leu", Compare::Leu),
    ("gtu", Compare::Gtu),
    ("geu", Compare::Geu),
    ("num", Compare::Num),
    ("nan", Compare::Nan),
];
const UNSIGNED: [(&str, Compare); 4] =
    [("lo", Compare::Lt), ("ls", Compare::Le), ("hi", Compare::Gt), ("hs", Compare::Ge)];
const JOINS: [(&str, Join); 3] = [("and", Join::And), ("or", Join::Or), ("xor", Join::Xor)];

impl<'m> Builder<'m> {
    pub(super) fn of_bits(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        match name.base {
            "mov" => self.mov(name, operands),
            "setp" => self.setp(name, operands),
            "set" => self.set(name, operands),
            "and" | "or" | "xor" => {
                let op = match name.base {
                    "and" => Logic::And,
                    "or" => Logic::Or,
                    _ => Logic::Xor,
                };
                let ty = name.ty(&[Type::B16, Type::B32, Type::B64, Type::Pred])?;
                self.typed(name, operands, ty, &[ty, ty], Op::Logic(op, ty.untyped()))
            }
            "not" => {
                let ty = name.ty(&[Type::B16, Type::B32, Type::B64, Type::Pred])?;
                self.typed(name, operands, ty, &[ty], Op::Not(ty.untyped()))
            }
            "cnot" => {
                let ty = name.ty(&UNTYPED)?;
                self.typed(name, operands, ty, &[ty], Op::Cnot(ty.untyped()))
            }
            "shl" | "shr" => {
                let left = name.base == "shl";
                let ty = name.ty(if left { &UNTYPED } else { &ANY[..9] })?;
                let op = if left { Int2::Shl } else { Int2::Shr };
                self.typed(name, operands, ty, &[ty, Type::U32], Op::Int2(op, unsigned(ty)))
            }
            "shf" => {
                let left = name.needs_one("`.l` or `.r`", &[("l", true), ("r", false)])?;
                let wrap = name.needs_one("`.wrap` or `.clamp`", &[("wrap", true), ("clamp", false)])?;
                let ty = name.ty(&[Type::B32])?;
                self.typed(name, operands, ty, &[ty, ty, ty], Op::Funnel { left, wrap })
            }
            "popc" | "clz" => {
                let ty = name.ty(&UNTYPED[1..])?;
                let op = if name.base == "popc" { Op::Popc(ty.untyped()) } else { Op::Clz(ty.untyped()) };
                self.typed(name, operands, Type::U32, &[ty], op)
            }
            "brev" => {
                let ty = name.ty(&UNTYPED[1..])?;
                self.typed(name, operands, ty, &[ty], Op::Brev(ty.untyped()))
            }
            "bfind" => {
                let shift = name.take("shiftamt");
                let ty = name.ty(&[Type::U32, Type::S32, Type::U64, Type::S64])?;
                self.typed(name, operands, Type::U32, &[ty], Op::Bfind(unsigned(ty), shift))
            }
            "bfe" => {
                let ty = name.ty(&[Type::U32, Type::S32, Type::U64, Type::S64])?;
                self.typed(name, operands, ty, &[ty, Type::U32, Type::U32], Op::Bfe(unsigned(ty)))
            }
            "bfi" => {
                let ty = name.ty(&UNTYPED[1..])?;
                self.typed(name, operands, ty, &[ty, ty, Type::U32, Type::U32], Op::Bfi(ty.untyped()))
            }
            "bmsk" => {
                let wrap = name.needs_one("`.wrap` or `.clamp`", &[("wrap", true), ("clamp", false)])?;
                let ty = name.ty(&[Type::B32])?;
                self.typed(name, operands, ty, &[ty, ty], Op::Bmsk(wrap))
            }
            "prmt" => {
                let ty = name.ty(&[Type::B32])?;
                let modes = [
                    ("f4e", PrmtMode::Forward4),
                    ("b4e", PrmtMode::Backward4),
                    ("rc8", PrmtMode::Replicate8),
                    ("ecl", PrmtMode::EdgeLeft),
                    ("ecr", PrmtMode::EdgeRight),
                    ("rc16", PrmtMode::Replicate16),
                ];
                let mode = name.one(&modes).unwrap_or(PrmtMode::Index);
                self.typed(name, operands, ty, &[ty, ty, ty], Op::Prmt(mode))
            }
            "lop3" => {
                let ty = name.ty(&[Type::B32])?;
                let [d, a, b, c, table] = name.operands(operands)?;
                let Operand::Number(Number::Int(table @ 0..=255)) = table else {
                    return Err(self.operand("table", "a number below 256 is expected"));
                };
                self.step(d, ty, &[(a, ty), (b, ty), (c, ty)], Op::Lop3(*table as u8))
            }
            "selp" => {
                let ty = name.ty(&ANY)?;
                self.typed(name, operands, ty, &[ty, ty, Type::Pred], Op::Selp(ty.untyped()))
            }
            _ => {
                let ty = name.ty(&ANY)?;
                let by = name.ty(&[Type::S32, Type::F32])?;
                let op = Op::Slct(ty.untyped(), comparable(by));
                self.typed(name, operands, ty, &[ty, ty, by], op)
            }
        }
    }

    /// A step with a result and operands of those types.
    fn typed(
        &mut self,
        name: &Name<'m>,
        operands: &'m [Operand],
        result: Type,
        types: &[Type],
        op: Op,
    ) -> Result<(), Error> {
        name.end()?;
        let Some((d, sources)) = operands.split_first().filter(|(_, sources)| sources.len() == types.len())
        else {
            return Err(name.count(operands));
        };
        let sources: Vec<_> = sources.iter().zip(types.iter().copied()).collect();
        self.step(d, result, &sources, op)
    }

    fn step(
        &mut self,
        d: &'m Operand,
        ty: Type,
        sources: &[(&'m Operand, Type)],
        op: Op,
    ) -> Result<(), Error> {
        let mut slots = [Slot::None; 4];
        for (slot, (operand, ty)) in slots.iter_mut().zip(sources) {
            *slot = self.source(operand, *ty)?.into();
        }
        let [a, b, c, f] = slots;
        let d = self.result(d, ty)?;
        self.emit(Step { d, a, b, c, f, ..Step::new(op) })
    }

    fn mov(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let types = [&ANY[..], &[Type::Pred, Type::F16, Type::Bf16, Type::F16x2, Type::Bf16x2]].concat();
        // `mov.v2.f32` of registers of several parts.
        let parts = name.one(&[("v2", 2), ("v4", 4)]);
        let ty = name.ty(&types)?;
        let [d, a] = name.operands(operands)?;
        if let Some(parts) = parts {
            let (to, from) = (self.places(d)?, self.vector(a, ty)?);
            self.regular(&to, parts, ty.bits())?;
            self.regular(&from, parts, ty.bits())?;
            for (d, a) in to.into_iter().zip(from).filter(|(d, _)| *d != SINK) {
                self.emit(Step { d: d.into(), a: a.into(), ..Step::new(Op::Mov(ty.untyped())) })?;
            }
            return Ok(());
        }
        match (d, a) {
            (Operand::Vector(parts), _) => {
                let to = self.places(d)?;
                let part = self.part_of(ty, parts.len())?;
                self.regular(&to, parts.len(), part.bits())?;
                let (d, a) = (self.list(to), self.source(a, ty)?);
                self.emit(Step { d, a: a.into(), ..Step::new(Op::Unpack(part.untyped(), ty.untyped())) })
            }
            (_, Operand::Vector(parts)) => {
                let part = self.part_of(ty, parts.len())?;
                let from = self.vector(a, part)?;
                self.regular(&from, parts.len(), part.bits())?;
                let (a, d) = (self.list(from), self.result(d, ty)?);
                self.emit(Step { d, a, ..Step::new(Op::Pack(part.untyped(), ty.untyped())) })
            }
            // The grid's number is asked for in 64 bits, all else about a thread in 32.
            (_, Operand::Name(special)) if ty.bits() == 64 && special == "%gridid" => {
                let (d, a) = (self.result(d, ty)?, self.constant(64, 0)?);
                self.emit(Step { d, a: a.into(), ..Step::new(Op::Mov(Bits::B64)) })
            }
            _ => self.step(d, ty, &[(a, ty)], Op::Mov(ty.untyped())),
        }
    }

    fn part_of(&self, ty: Type, parts: usize) -> Result<Type, Error> {
        match (ty.bits(), parts) {
            (32, 2) | (64, 4) => Ok(Type::B16),
            (64, 2) => Ok(Type::B32),
            _ => Err(self.operand("in braces", "such parts are not emulated")),
        }
    }

    /// Comparison, join and type of `setp` and `set`.
    fn comparison(&mut self, name: &mut Name<'m>) -> Result<(Setp, Type), Error> {
        let compare = name.one(&COMPARES);
        let unsigned_compare = if compare.is_none() { name.one(&UNSIGNED) } else { None };
        let Some(compare) = compare.or(unsigned_compare) else { return Err(name.lacks("a comparison")) };
        let join = name.one(&JOINS).unwrap_or(Join::Alone);
        let types = [&ANY[..], &[Type::F16, Type::Bf16, Type::F16x2, Type::Bf16x2]].concat();
        let ty = name.ty(&types)?;
        let float = ty.float().is_some();
        let allowed = match (ty, compare) {
            _ if unsigned_compare.is_some() => matches!(ty, Type::U16 | Type::U32 | Type::U64),
            (_, Compare::Eq | Compare::Ne) => true,
            (Type::B16 | Type::B32 | Type::B64, _) => false,
            (_, Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge) => true,
            _ => float,
        };
        if !allowed {
            return Err(name.modifier(name.whole.split('.').nth(1).unwrap_or_default()));
        }
        let ftz = name.ftz(ty);
        Ok((Setp { compare, ty: comparable(ty), join, negated: false, ftz }, ty))
    }

    /// The predicate with which a comparison is joined, if there is one.
    fn joined(&mut self, setp: &mut Setp, operand: Option<&'m Operand>) -> Result<Slot, Error> {
        let Some(operand) = operand else { return Ok(Slot::None) };
        let (value, negated) = self.predicate(operand)?;
        setp.negated = negated;
        Ok(value.into())
    }

    /// Operands of a comparison: result, `a`, `b`, and `c` if it is joined.
    fn compared(
        &self,
        name: &Name<'m>,
        operands: &'m [Operand],
        join: Join,
    ) -> Result<([&'m Operand; 3], Option<&'m Operand>), Error> {
        if join == Join::Alone {
            return Ok((name.operands(operands)?, None));
        }
        let [d, a, b, c] = name.operands(operands)?;
        Ok(([d, a, b], Some(c)))
    }

    fn setp(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let (mut setp, ty) = self.comparison(name)?;
        let ([d, a, b], c) = self.compared(name, operands, setp.join)?;
        let (d, e) = self.pair(d, Type::Pred, Type::Pred)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let c = self.joined(&mut setp, c)?;
        self.emit(Step { d, e, a: a.into(), b: b.into(), c, ..Step::new(Op::Setp(setp)) })
    }

    fn set(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        // The type of the result comes first.
        let result = name.ty(&[
            Type::U16,
            Type::S16,
            Type::U32,
            Type::S32,
            Type::F32,
            Type::F16,
            Type::Bf16,
            Type::F16x2,
            Type::Bf16x2,
        ])?;
        let (mut setp, ty) = self.comparison(name)?;
        let pairs = matches!(ty, Type::F16x2 | Type::Bf16x2);
        let kind = match result {
            Type::F32 if !pairs => SetResult::F32,
            Type::F16 if !pairs => SetResult::F16,
            Type::Bf16 if !pairs => SetResult::Bf16,
            Type::F16x2 if ty == Type::F16x2 => SetResult::F16,
            Type::Bf16x2 if ty == Type::Bf16x2 => SetResult::Bf16,
            Type::U32 | Type::S32 => SetResult::Ones,
            Type::U16 | Type::S16 if !pairs => SetResult::Ones,
            _ => return Err(name.modifier(name.whole.rsplit('.').next().unwrap_or_default())),
        };
        let ([d, a, b], c) = self.compared(name, operands, setp.join)?;
        let d = self.result(d, result)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let c = self.joined(&mut setp, c)?;
        let op = Op::Set(setp, kind);
        let step = Step { d, a: a.into(), b: b.into(), c, ..Step::new(op) };
        if result.bits() == 32 || kind != SetResult::Ones {
            return self.emit(step);
        }
        let ones = self.scratch(32)?;
        self.emit(Step { d: ones.into(), ..step })?;
        let narrow = Op::Convert(Scalar::U16, Scalar::U32, Conversion::default());
        self.emit(Step { d, a: ones.into(), ..Step::new(narrow) })
    }

    /// The address of what lies in the parameter space of a call.
    pub(super) fn where_is(&mut self, block: u32, offset: i64, name: &str) -> Result<Value, Error> {
        let Some(offset) =
            u32::try_from(offset).ok().filter(|offset| u64::from(*offset) <= self.block_bytes(block))
        else {
            return Err(self.operand(name, "outside of what is passed"));
        };
        self.address_block(block);
        let value = self.scratch(64)?;
        self.emit_where(block, offset, value)?;
        Ok(value)
    }
}

/// The integer of a type's width; unsigned unless the type is signed.
fn unsigned(ty: Type) -> Int {
    ty.int().unwrap_or(match ty.bits() {
        64 => Int::U64,
        32 => Int::U32,
        _ => Int::U16,
    })
}

fn comparable(ty: Type) -> Comparable {
    ty.float().map_or(Comparable::Int(unsigned(ty)), Comparable::Float)
}
