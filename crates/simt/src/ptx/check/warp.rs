//! What the lanes of a warp do together.

use super::super::build::{Builder, Step, Value};
use super::super::syntax::{Operand, Type};
use super::super::{Error, shown};
use super::Name;
use crate::program::{Atomic, Mma, MmaInput, Op, Shuffle, Space, Vote};

impl<'m> Builder<'m> {
    pub(super) fn of_warp(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        if name.base == "activemask" {
            name.ty(&[Type::B32])?;
            let [d] = name.operands(operands)?;
            let d = self.result(d, Type::B32)?;
            return self.emit(Step { d, ..Step::new(Op::ActiveMask) });
        }
        if !name.take("sync") {
            return Err(name.lacks("`.sync`"));
        }
        match name.base {
            "shfl" => self.shuffle(name, operands),
            "vote" => self.vote(name, operands),
            "match" => self.matching(name, operands),
            "redux" => self.redux(name, operands),
            "ldmatrix" => self.load_matrix(name, operands),
            _ => self.mma(name, operands),
        }
    }

    fn shuffle(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let kinds = [
            ("up", Shuffle::Up),
            ("down", Shuffle::Down),
            ("bfly", Shuffle::Butterfly),
            ("idx", Shuffle::Index),
        ];
        let kind = name.needs_one("`.up`, `.down`, `.bfly` or `.idx`", &kinds)?;
        let ty = name.ty(&[Type::B32])?;
        let [d, a, b, c, mask] = name.operands(operands)?;
        let (d, e) = self.pair(d, ty, Type::Pred)?;
        let (a, b) = (self.source(a, ty)?, self.source(b, ty)?);
        let (c, f) = (self.source(c, ty)?, self.source(mask, ty)?);
        let op = Op::Shuffle(kind);
        self.emit(Step { d, e, a: a.into(), b: b.into(), c: c.into(), f: f.into(), ..Step::new(op) })
    }

    fn vote(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let kinds =
            [("all", Vote::All), ("any", Vote::Any), ("uni", Vote::Uniform), ("ballot", Vote::Ballot)];
        let kind = name.needs_one("`.all`, `.any`, `.uni` or `.ballot`", &kinds)?;
        let ty = name.ty(&[if kind == Vote::Ballot { Type::B32 } else { Type::Pred }])?;
        let [d, a, mask] = name.operands(operands)?;
        let d = self.result(d, ty)?;
        let (a, negated) = self.predicate(a)?;
        let b = self.source(mask, Type::B32)?;
        self.emit(Step { d, a: a.into(), b: b.into(), ..Step::new(Op::Vote(kind, negated)) })
    }

    fn matching(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let all = name.needs_one("`.any` or `.all`", &[("any", false), ("all", true)])?;
        let ty = name.ty(&[Type::B32, Type::B64])?;
        let [d, a, mask] = name.operands(operands)?;
        if !all && matches!(d, Operand::Pair(..)) {
            return Err(self.operand("p", "only `.all` has a second result"));
        }
        let (d, e) = self.pair(d, Type::B32, Type::Pred)?;
        let (a, b) = (self.source(a, ty)?, self.source(mask, Type::B32)?);
        let op = Op::Match { bits: ty.untyped(), all };
        self.emit(Step { d, e, a: a.into(), b: b.into(), ..Step::new(op) })
    }

    fn redux(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let kinds = [
            ("add", Atomic::Add),
            ("min", Atomic::Min),
            ("max", Atomic::Max),
            ("and", Atomic::And),
            ("or", Atomic::Or),
            ("xor", Atomic::Xor),
        ];
        let kind = name.needs_one("an operation", &kinds)?;
        let bits = matches!(kind, Atomic::And | Atomic::Or | Atomic::Xor);
        let ty = name.ty(if bits { &[Type::B32] } else { &[Type::U32, Type::S32] })?;
        let [d, a, mask] = name.operands(operands)?;
        let (d, a, b) = (self.result(d, ty)?, self.source(a, ty)?, self.source(mask, Type::B32)?);
        let int = ty.int().unwrap_or(crate::program::Int::U32);
        self.emit(Step { d, a: a.into(), b: b.into(), ..Step::new(Op::Redux(kind, int)) })
    }

    fn load_matrix(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        self.must(name, "aligned", "`.aligned`")?;
        self.must(name, "m8n8", "`.m8n8`")?;
        let count = name.needs_one("`.x1`, `.x2` or `.x4`", &[("x1", 1), ("x2", 2), ("x4", 4)])?;
        let transposed = name.take("trans");
        let shared = name.one(&[("shared", ()), ("shared::cta", ())]).is_some();
        name.ty(&[Type::B16])?;
        let [d, address] = name.operands(operands)?;
        let places = match d {
            // A single register need not be in braces.
            Operand::Name(_) if count == 1 => match self.result(d, Type::B32)? {
                super::Slot::Value(value) => vec![value],
                _ => vec![super::SINK],
            },
            _ => self.places(d)?,
        };
        self.regular(&places, count.into(), 32)?;
        let space = if shared { Space::Shared } else { Space::Generic };
        let (a, wide_address) = self.plain_address(address, space)?;
        let d = self.list(places);
        let op = Op::LoadMatrix { count, transposed, wide_address };
        self.emit(Step { d, a: a.into(), ..Step::new(op) })
    }

    fn must(&self, name: &mut Name<'m>, modifier: &str, what: &'static str) -> Result<(), Error> {
        if name.take(modifier) { Ok(()) } else { Err(name.lacks(what)) }
    }

    fn mma(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        self.must(name, "aligned", "`.aligned`")?;
        let shapes = [
            ("m16n8k4", (16, 4)),
            ("m16n8k8", (16, 8)),
            ("m16n8k16", (16, 16)),
            ("m16n8k32", (16, 32)),
            ("m16n8k64", (16, 64)),
            ("m16n8k128", (16, 128)),
            ("m16n8k256", (16, 256)),
            ("m8n8k4", (8, 4)),
            // Those of GPUs before.
            ("m8n8k16", (8, 16)),
            ("m8n8k32", (8, 32)),
            ("m8n8k128", (8, 128)),
        ];
        let (rows, k): (u16, u16) = name.needs_one("a shape of 16 or 8 rows and 8 columns", &shapes)?;
        self.must(name, "row", "`.row.col`")?;
        self.must(name, "col", "`.row.col`")?;
        let saturate = name.take("satfinite");
        // Result, a, b and c, and of bits how they are multiplied; half bytes are no type of anything else.
        let types: Vec<&str> = std::mem::take(&mut name.rest);
        let (input, bits, widths, sum): (_, u16, &[u16], _) = match types[..] {
            ["f16", "f16", "f16", "f16"] => (MmaInput::F16, 16, &[8, 16], Type::F16x2),
            ["f32", "f16", "f16", "f32"] => (MmaInput::F16, 16, &[8, 16], Type::F32),
            ["f32", "bf16", "bf16", "f32"] => (MmaInput::Bf16, 16, &[8, 16], Type::F32),
            ["f32", "tf32", "tf32", "f32"] => (MmaInput::Tf32, 32, &[4, 8], Type::F32),
            ["f64", "f64", "f64", "f64"] => (MmaInput::F64, 64, &[4], Type::F64),
            ["s32", a @ ("s8" | "u8"), b @ ("s8" | "u8"), "s32"] => {
                (MmaInput::I8(a == "s8", b == "s8"), 8, &[16, 32], Type::B32)
            }
            ["s32", a @ ("s4" | "u4"), b @ ("s4" | "u4"), "s32"] => {
                (MmaInput::I4(a == "s4", b == "s4"), 4, &[32, 64], Type::B32)
            }
            ["s32", "b1", "b1", "s32", logic @ ("and" | "xor"), "popc"] => {
                (MmaInput::B1 { both: logic == "and" }, 1, &[128, 256], Type::B32)
            }
            _ => return Err(self.unknown(name.whole)),
        };
        match (rows, input) {
            (8, MmaInput::F64) => {}
            (8, _) => return Err(self.not_emulated(name)),
            (_, MmaInput::F64) => {
                return Err(Error::Newer { line: self.here(), what: shown(name.whole), needs: "sm_90" });
            }
            _ => {}
        }
        if !widths.contains(&k) {
            return Err(self.unknown(name.whole));
        }
        if saturate && !matches!(input, MmaInput::I8(..) | MmaInput::I4(..)) {
            return Err(name.modifier("satfinite"));
        }
        let [d, a, b, c] = name.operands(operands)?;
        let (each, operand) = if input == MmaInput::F64 { (64, Type::F64) } else { (32, Type::B32) };
        let registers = |rows: u16| usize::from(rows * k * bits / (32 * u16::from(each)));
        let sums = if matches!(sum, Type::F32 | Type::B32) { 4 } else { 2 };
        let d = self.places(d)?;
        self.regular(&d, sums, each)?;
        let a = self.registers(a, operand, registers(rows))?;
        let b = self.registers(b, operand, registers(8))?;
        let c = self.registers(c, if sum == Type::F16x2 { Type::B32 } else { sum }, sums)?;
        let (d, a, b, c) = (self.list(d), self.list(a), self.list(b), self.list(c));
        let op = Op::Mma(Mma { k, input, half: sum == Type::F16x2, saturate });
        self.emit(Step { d, a, b, c, ..Step::new(op) })
    }

    /// So many registers of a type; a single one need not be in braces.
    fn registers(&mut self, operand: &'m Operand, ty: Type, count: usize) -> Result<Vec<Value>, Error> {
        let registers = match operand {
            Operand::Name(_) if count == 1 => match self.vector(operand, ty) {
                Ok(parts) => parts,
                Err(_) => vec![self.source(operand, ty)?],
            },
            _ => self.vector(operand, ty)?,
        };
        self.regular(&registers, count, if ty == Type::F64 { 64 } else { 32 })?;
        Ok(registers)
    }
}
