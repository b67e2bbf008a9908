//! Numbers.

use super::super::Error;
use super::super::build::{Builder, Step};
use super::super::syntax::{Operand, Type};
use super::{FTZ, NEAREST, Name, ROUNDS};
use crate::program::{Carry, Float, Float1, Float2, Int, Int2, Int3, Mode, Op, Round, Testp};

const INTS: [Type; 6] = [Type::U16, Type::S16, Type::U32, Type::S32, Type::U64, Type::S64];
const CARRIED: [Type; 4] = [Type::U32, Type::S32, Type::U64, Type::S64];

/// What a type computes in.
enum Kind {
    Int(Int),
    Float(Float),
}

impl Type {
    pub(super) fn float(self) -> Option<Float> {
        Some(match self {
            Type::F16 => Float::F16,
            Type::Bf16 => Float::Bf16,
            Type::F16x2 => Float::F16x2,
            Type::Bf16x2 => Float::Bf16x2,
            Type::F32 => Float::F32,
            Type::F64 => Float::F64,
            _ => return None,
        })
    }

    fn is_half(self) -> bool {
        matches!(self, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
    }
}

impl<'m> Name<'m> {
    /// The type of all operands.
    fn kind(&mut self) -> Result<(Type, Kind), Error> {
        let ty = self.any_type()?;
        match (ty.int(), ty.float()) {
            (Some(int), _) => Ok((ty, Kind::Int(int))),
            (_, Some(float)) => Ok((ty, Kind::Float(float))),
            _ => Err(self.modifier(self.whole.rsplit('.').next().unwrap_or_default())),
        }
    }

    fn int(&mut self, types: &[Type]) -> Result<(Type, Int), Error> {
        let ty = self.ty(types)?;
        ty.int().map(|int| (ty, int)).ok_or_else(|| self.lacks("a type"))
    }

    fn of_float(&mut self, types: &[Type]) -> Result<(Type, Float), Error> {
        let ty = self.ty(types)?;
        ty.float().map(|float| (ty, float)).ok_or_else(|| self.lacks("a type"))
    }

    /// Rounding, which may be missing, `.ftz` and `.sat`.
    fn mode(&mut self, ty: Type) -> Mode {
        let round = self.one(if ty.is_half() { &NEAREST } else { &ROUNDS }).unwrap_or_default();
        Mode { round, ftz: self.ftz(ty), sat: self.sat(ty) }
    }

    /// The same with a rounding that must be there.
    fn rounded(&mut self, ty: Type) -> Result<Mode, Error> {
        let round = self.round(if ty.is_half() { &NEAREST } else { &ROUNDS })?;
        Ok(Mode { round, ftz: self.ftz(ty), sat: self.sat(ty) })
    }
}

impl<'m> Builder<'m> {
    pub(super) fn arithmetic(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let base = name.base;
        match base {
            "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" => self.two(name, operands),
            "addc" | "subc" | "madc" => self.carried(name, operands, true),
            "mad" if name.take("cc") => {
                name.rest.push("cc");
                self.carried(name, operands, false)
            }
            "mad" | "fma" => self.multiply_add(name, operands),
            "abs" | "neg" => self.sign(name, operands),
            "sad" => {
                let (ty, int) = name.int(&INTS)?;
                self.same3(name, operands, ty, Op::Int3(Int3::Sad, int))
            }
            "mul24" | "mad24" => self.of_24_bits(name, operands),
            "dp4a" => {
                let signs = [name.int(&[Type::U32, Type::S32])?.0, name.int(&[Type::U32, Type::S32])?.0];
                let [a, b] = signs.map(Type::signed);
                self.same3(name, operands, Type::B32, Op::Dp4a(a, b))
            }
            "dp2a" => {
                let high = name.needs_one("`.lo` or `.hi`", &[("lo", false), ("hi", true)])?;
                let signs = [name.int(&[Type::U32, Type::S32])?.0, name.int(&[Type::U32, Type::S32])?.0];
                let [a, b] = signs.map(Type::signed);
                self.same3(name, operands, Type::B32, Op::Dp2a(a, b, high))
            }
            "copysign" => {
                let (ty, float) = name.of_float(&[Type::F32, Type::F64])?;
                self.same2(name, operands, ty, Op::Float2(Float2::CopySign, float, Mode::default()))
            }
            "testp" => self.testp(name, operands),
            _ => self.function(name, operands),
        }
    }

    fn same1(&mut self, name: &Name<'m>, operands: &'m [Operand], ty: Type, op: Op) -> Result<(), Error> {
        let [d, a] = name.operands(operands)?;
        let (d, a) = (self.result(d, ty)?, self.source(a, ty)?);
        self.emit(Step { d, a: a.into(), ..Step::new(op) })
    }

    fn same2(&mut self, name: &Name<'m>, operands: &'m [Operand], ty: Type, op: Op) -> Result<(), Error> {
        let [d, a, b] = name.operands(operands)?;
        let (d, a, b) = (self.result(d, ty)?, self.source(a, ty)?, self.source(b, ty)?);
        self.emit(Step { d, a: a.into(), b: b.into(), ..Step::new(op) })
    }

    fn same3(&mut self, name: &Name<'m>, operands: &'m [Operand], ty: Type, op: Op) -> Result<(), Error> {
        self.three(name, operands, ty, ty, op)
    }

    /// `a` and `b` of one type, `c` and the result of another.
    fn three(
        &mut self,
        name: &Name<'m>,
        operands: &'m [Operand],
        ty: Type,
        wide: Type,
        op: Op,
    ) -> Result<(), Error> {
        let [d, a, b, c] = name.operands(operands)?;
        let (d, a) = (self.result(d, wide)?, self.source(a, ty)?);
        let (b, c) = (self.source(b, ty)?, self.source(c, wide)?);
        self.emit(Step { d, a: a.into(), b: b.into(), c: c.into(), ..Step::new(op) })
    }

    fn two(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let (ty, kind) = name.kind()?;
        let int = match kind {
            Kind::Float(float) => return self.two_floats(name, operands, ty, float),
            Kind::Int(int) => int,
        };
        let base = name.base;
        let op = match base {
            "add" | "sub" if name.take("cc") => {
                let op = if name.base == "add" { Carry::Add } else { Carry::Sub };
                let op = Op::Carried { op, ty: int, input: false, output: true };
                if !CARRIED.contains(&ty) {
                    return Err(name.modifier("cc"));
                }
                return self.same2(name, operands, ty, op);
            }
            "add" if ty == Type::S32 && name.take("sat") => Int2::AddSat,
            "sub" if ty == Type::S32 && name.take("sat") => Int2::SubSat,
            "add" => Int2::Add,
            "sub" => Int2::Sub,
            "div" => Int2::Div,
            "rem" => Int2::Rem,
            "min" => Int2::Min,
            "max" => Int2::Max,
            _ => {
                let choices = [("lo", Int2::MulLo), ("hi", Int2::MulHi), ("wide", Int2::MulWide)];
                let op = name.needs_one("`.lo`, `.hi` or `.wide`", &choices)?;
                if op == Int2::MulWide {
                    let wide = widened(ty).ok_or_else(|| name.modifier("wide"))?;
                    let [d, a, b] = name.operands(operands)?;
                    let (d, a, b) = (self.result(d, wide)?, self.source(a, ty)?, self.source(b, ty)?);
                    return self.emit(Step { d, a: a.into(), b: b.into(), ..Step::new(Op::Int2(op, int)) });
                }
                op
            }
        };
        self.same2(name, operands, ty, Op::Int2(op, int))
    }

    fn two_floats(
        &mut self,
        name: &mut Name<'m>,
        operands: &'m [Operand],
        ty: Type,
        float: Float,
    ) -> Result<(), Error> {
        let base = name.base;
        let (op, mode) = match base {
            "add" => (Float2::Add, name.mode(ty)),
            "sub" => (Float2::Sub, name.mode(ty)),
            "mul" => (Float2::Mul, name.mode(ty)),
            "min" | "max" => {
                let nan = ty != Type::F64 && name.take("NaN");
                let op = match (name.base, nan) {
                    ("min", false) => Float2::Min,
                    ("min", true) => Float2::MinNan,
                    (_, false) => Float2::Max,
                    (_, true) => Float2::MaxNan,
                };
                (op, Mode { ftz: name.ftz(ty), ..Mode::default() })
            }
            "div" if ty == Type::F32 && name.take("approx") => {
                (Float2::DivApprox, Mode { ftz: name.ftz(ty), ..Mode::default() })
            }
            "div" if ty == Type::F32 && name.take("full") => {
                (Float2::Div, Mode { ftz: name.ftz(ty), ..Mode::default() })
            }
            "div" if matches!(ty, Type::F32 | Type::F64) => {
                (Float2::Div, Mode { sat: false, ..name.rounded(ty)? })
            }
            _ => return Err(name.modifier(name.whole.rsplit('.').next().unwrap_or_default())),
        };
        self.same2(name, operands, ty, Op::Float2(op, float, mode))
    }

    fn carried(&mut self, name: &mut Name<'m>, operands: &'m [Operand], input: bool) -> Result<(), Error> {
        let output = name.take("cc");
        let op = match name.base {
            "addc" => Carry::Add,
            "subc" => Carry::Sub,
            _ => name.needs_one("`.lo` or `.hi`", &[("lo", Carry::MadLo), ("hi", Carry::MadHi)])?,
        };
        let (ty, int) = name.int(&CARRIED)?;
        let op = Op::Carried { op, ty: int, input, output };
        match name.base {
            "addc" | "subc" => self.same2(name, operands, ty, op),
            _ => self.same3(name, operands, ty, op),
        }
    }

    fn multiply_add(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let (ty, kind) = name.kind()?;
        match kind {
            Kind::Float(float) => {
                if name.base == "mad" && !matches!(ty, Type::F32 | Type::F64) {
                    return Err(name.modifier(name.whole.rsplit('.').next().unwrap_or_default()));
                }
                let mode = name.rounded(ty)?;
                let relu = ty.is_half() && !mode.sat && name.take("relu");
                self.same3(name, operands, ty, Op::Fma(float, mode, relu))
            }
            Kind::Int(_) if name.base == "fma" => Err(self.unknown(name.whole)),
            Kind::Int(int) => {
                let choices = [("lo", Int3::MadLo), ("hi", Int3::MadHi), ("wide", Int3::MadWide)];
                let op = name.needs_one("`.lo`, `.hi` or `.wide`", &choices)?;
                let wide = if op == Int3::MadWide { widened(ty) } else { Some(ty) };
                let wide = wide.ok_or_else(|| name.modifier("wide"))?;
                self.three(name, operands, ty, wide, Op::Int3(op, int))
            }
        }
    }

    fn sign(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let (ty, kind) = name.kind()?;
        let negates = name.base == "neg";
        let op = match kind {
            Kind::Int(int) if ty.signed() => {
                if negates {
                    Op::IntNeg(int)
                } else {
                    Op::IntAbs(int)
                }
            }
            Kind::Int(_) => return Err(name.modifier(name.whole.rsplit('.').next().unwrap_or_default())),
            Kind::Float(float) => {
                let mode = Mode { ftz: name.ftz(ty), ..Mode::default() };
                Op::Float1(if negates { Float1::Neg } else { Float1::Abs }, float, mode)
            }
        };
        self.same1(name, operands, ty, op)
    }

    fn of_24_bits(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let high = name.needs_one("`.lo` or `.hi`", &[("lo", false), ("hi", true)])?;
        let (ty, _) = name.int(&[Type::U32, Type::S32])?;
        let op = Op::Mul24 { signed: ty.signed(), high };
        if name.base == "mul24" {
            self.same2(name, operands, ty, op)
        } else {
            self.same3(name, operands, ty, op)
        }
    }

    /// Functions of one operand.
    fn function(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        const APPROXIMATE: &[Type] = &[Type::F32];
        let approximate = name.take("approx");
        let op = match (name.base, approximate) {
            ("sqrt", true) => Float1::SqrtApprox,
            ("sqrt", false) => Float1::Sqrt,
            ("rcp", true) => Float1::RcpApprox,
            ("rcp", false) => Float1::Rcp,
            (_, false) => return Err(name.lacks("`.approx`")),
            ("rsqrt", _) => Float1::Rsqrt,
            ("ex2", _) => Float1::Ex2,
            ("lg2", _) => Float1::Lg2,
            ("sin", _) => Float1::Sin,
            ("cos", _) => Float1::Cos,
            ("tanh", _) => Float1::Tanh,
            _ => return Err(self.unknown(name.whole)),
        };
        let types: &[Type] = match op {
            Float1::Sqrt | Float1::Rcp | Float1::RcpApprox | Float1::Rsqrt => &[Type::F32, Type::F64],
            Float1::Ex2 | Float1::Tanh => &[Type::F32, Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2],
            _ => APPROXIMATE,
        };
        let (ty, float) = name.of_float(types)?;
        let round = if approximate { Round::Nearest } else { name.round(&ROUNDS)? };
        let ftz = match (op, ty) {
            (Float1::RcpApprox | Float1::Rsqrt, Type::F64) => name.take("ftz"),
            (Float1::Ex2, Type::Bf16 | Type::Bf16x2) => name.take("ftz"),
            (Float1::Tanh, _) => false,
            _ => name.ftz(ty),
        };
        let mode = Mode { round, ..if ftz { FTZ } else { Mode::default() } };
        self.same1(name, operands, ty, Op::Float1(op, float, mode))
    }

    fn testp(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let choices = [
            ("finite", Testp::Finite),
            ("infinite", Testp::Infinite),
            ("number", Testp::Number),
            ("notanumber", Testp::NotANumber),
            ("normal", Testp::Normal),
            ("subnormal", Testp::Subnormal),
        ];
        let test = name.needs_one("what is tested", &choices)?;
        let (ty, float) = name.of_float(&[Type::F32, Type::F64])?;
        let [d, a] = name.operands(operands)?;
        let (d, a) = (self.result(d, Type::Pred)?, self.source(a, ty)?);
        self.emit(Step { d, a: a.into(), ..Step::new(Op::Testp(test, float)) })
    }
}

/// The type of a product of all bits.
fn widened(ty: Type) -> Option<Type> {
    Some(match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        Type::S32 => Type::S64,
        _ => return None,
    })
}
