//! Functions that a kernel may call without defining them: `vprintf`, `__assertfail`, and those of libdevice.
//!
//! What libdevice computes with some instructions is one operation here, and need not agree with it to the last bit.

use super::build::{Builder, Named, Slot, Step, Value, Work};
use super::syntax::{Operand, Type};
use super::{Error, shown};
use crate::address;
use crate::program::{
    Bits, Conversion, Float, Float1, Float2, Format, Int, Int2, Intrinsic, Mode, Op, Preset, PrmtMode, Round,
    Scalar, Testp,
};

/// Most characters of a format that are kept.
const FORMAT_BYTES_MAX: usize = 4096;

/// How a function of libdevice is computed.
enum Body {
    /// By one operation.
    One(Op),
    /// By one operation of the operands in reverse.
    Reversed(Op),
    /// By one operation of the operand times an f32.
    Times(f32, Op),
    /// An f32 times what the operation gives.
    OfProduct(Op, f32),
    /// `2^(b log2 a)`
    Power,
    /// 1 where a test holds, and 0 elsewhere.
    Test(Testp, Float),
}

/// A function of libdevice.
struct Function {
    body: Body,
    arguments: usize,
    /// Types of all arguments and of the result.
    takes: Type,
    gives: Type,
}

impl<'m> Builder<'m> {
    /// A call of a function that the module does not define.
    pub(super) fn library(
        &mut self,
        name: &'m str,
        results: &'m [Operand],
        arguments: &'m [Operand],
    ) -> Result<(), Error> {
        if name == "vprintf" {
            return self.printf(name, results, arguments);
        }
        if name == "__assertfail" {
            return self.assert_fail(name, arguments);
        }
        let Some(function) = name.strip_prefix("__nv_").and_then(function) else {
            return Err(Error::Call { line: self.line(), name: shown(name) });
        };
        if arguments.len() != function.arguments || results.len() > 1 {
            return Err(self.operand(name, "takes another number of parameters"));
        }
        let mut slots = [Slot::None; 3];
        for (slot, argument) in slots.iter_mut().zip(arguments) {
            *slot = self.argument(argument, function.takes)?.into();
        }
        let d = self.register(function.gives.bits())?;
        self.compute(&function, slots, d)?;
        self.give(results, function.gives, d)
    }

    /// An argument, which lies in the parameter space or is written in its place.
    fn argument(&mut self, operand: &'m Operand, ty: Type) -> Result<Value, Error> {
        if let Operand::Name(name) = operand
            && let Named::Block(block) = self.named(name)?
        {
            let bytes = ty.bits() / 8;
            if self.block_bytes(block) < bytes.into() {
                return Err(self.operand(name, "smaller than the parameter of the function"));
            }
            let value = self.register(ty.bits())?;
            self.take(block, 0, bytes, false, value)?;
            return Ok(value);
        }
        self.source(operand, ty)
    }

    fn give(&mut self, results: &'m [Operand], ty: Type, value: Value) -> Result<(), Error> {
        let [result] = results else { return Ok(()) };
        let Operand::Name(name) = result else { return Err(self.operand("result", "a name is expected")) };
        match self.named(name)? {
            Named::Block(block) if self.block_bytes(block) >= u64::from(ty.bits() / 8) => {
                self.put(block, 0, ty.bits() / 8, value)
            }
            Named::Value(d) if self.bits(d) == ty.bits() && self.registers[d.0 as usize].preset.is_none() => {
                let op = Op::Mov(if ty.bits() == 64 { Bits::B64 } else { Bits::B32 });
                self.emit(Step { d: d.into(), a: value.into(), ..Step::new(op) })
            }
            _ => Err(self.operand(name, "not as wide as the result of the function")),
        }
    }

    fn compute(&mut self, function: &Function, [a, b, c]: [Slot; 3], d: Value) -> Result<(), Error> {
        let mul = Op::Float2(Float2::Mul, Float::F32, Mode::default());
        let d = d.into();
        match function.body {
            Body::One(op) => self.emit(Step { d, a, b, c, ..Step::new(op) }),
            Body::Reversed(op) => self.emit(Step { d, a: b, b: a, ..Step::new(op) }),
            Body::Times(factor, op) => {
                let product = self.register(32)?.into();
                let b = self.constant(32, factor.to_bits().into())?.into();
                self.emit(Step { d: product, a, b, ..Step::new(mul) })?;
                self.emit(Step { d, a: product, ..Step::new(op) })
            }
            Body::OfProduct(op, factor) => {
                let value = self.register(32)?.into();
                let b = self.constant(32, factor.to_bits().into())?.into();
                self.emit(Step { d: value, a, ..Step::new(op) })?;
                self.emit(Step { d, a: value, b, ..Step::new(mul) })
            }
            Body::Power => {
                let (log, product) = (self.register(32)?.into(), self.register(32)?.into());
                let lg2 = Op::Float1(Float1::Lg2, Float::F32, Mode::default());
                let ex2 = Op::Float1(Float1::Ex2, Float::F32, Mode::default());
                self.emit(Step { d: log, a, ..Step::new(lg2) })?;
                self.emit(Step { d: product, a: b, b: log, ..Step::new(mul) })?;
                self.emit(Step { d, a: product, ..Step::new(ex2) })
            }
            Body::Test(test, float) => {
                let holds = self.register(1)?;
                self.emit(Step { d: holds.into(), a, ..Step::new(Op::Testp(test, float)) })?;
                let (one, zero) = (self.constant(32, 1)?.into(), self.constant(32, 0)?.into());
                self.emit(Step { d, a: one, b: zero, c: holds.into(), ..Step::new(Op::Selp(Bits::B32)) })
            }
        }
    }

    /// `vprintf(format, arguments)`: the format is an operand until it is [known](Builder::know_formats).
    fn printf(
        &mut self,
        name: &'m str,
        results: &'m [Operand],
        arguments: &'m [Operand],
    ) -> Result<(), Error> {
        let [format, arguments] = arguments else {
            return Err(self.operand(name, "takes another number of parameters"));
        };
        let a = self.argument(format, Type::B64)?.into();
        let b = self.argument(arguments, Type::B64)?.into();
        let d = self.register(32)?;
        let op = Op::Printf(self.format()?);
        self.emit(Step { d: d.into(), a, b, ..Step::new(op) })?;
        self.give(results, Type::B32, d)
    }

    /// `__assertfail(message, file, line, function, character size)`
    fn assert_fail(&mut self, name: &'m str, arguments: &'m [Operand]) -> Result<(), Error> {
        let [message, file, line, _, _] = arguments else {
            return Err(self.operand(name, "takes another number of parameters"));
        };
        let a = self.argument(message, Type::B64)?.into();
        let b = self.argument(file, Type::B64)?.into();
        let c = self.argument(line, Type::B32)?.into();
        let op = Op::AssertFail(self.format()?);
        self.emit(Step { a, b, c, ..Step::new(op) })
    }

    fn format(&mut self) -> Result<u16, Error> {
        let limit = usize::from(u16::MAX);
        if self.formats.len() >= limit {
            return Err(Error::TooMany { line: self.line(), what: "calls of `printf`", limit });
        }
        self.formats.push(Format { text: String::new() });
        Ok(self.formats.len() as u16 - 1)
    }

    /// Texts of formats and messages, where their addresses turned out to be constant.
    pub(super) fn know_formats(&mut self) {
        for index in 0..self.steps.len() {
            let step = self.steps[index];
            match step.work {
                Work::Op(Op::Printf(format)) => {
                    self.formats[usize::from(format)].text = self.text(step.a).unwrap_or_default();
                    self.steps[index].a = Slot::None;
                }
                Work::Op(Op::AssertFail(format)) => {
                    let mut text = self.text(step.a).unwrap_or_default();
                    if let (Some(file), Some(line)) = (self.text(step.b), self.known(step.c)) {
                        text = format!("{file}:{line}: {text}");
                    }
                    self.formats[usize::from(format)].text = text;
                    self.steps[index] = Step { a: Slot::None, b: Slot::None, c: Slot::None, ..step };
                }
                _ => {}
            }
        }
    }

    fn known(&self, slot: Slot) -> Option<u64> {
        let Slot::Value(value) = slot else { return None };
        match self.registers[value.0 as usize].preset {
            Some(Preset::Bits(bits)) => Some(bits),
            _ => None,
        }
    }

    /// The text at an address in a variable.
    fn text(&self, slot: Slot) -> Option<String> {
        let at = self.known(slot)?;
        let index = address::segment(at).checked_sub(address::VARIABLES)?;
        let bytes = &self.variables().get(index as usize)?.bytes;
        let text = bytes.get(usize::try_from(address::offset(at)).ok()?..)?;
        let text = &text[..text.len().min(FORMAT_BYTES_MAX)];
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

/// The function of that name, which is without its prefix.
fn function(name: &str) -> Option<Function> {
    let single = || name.strip_suffix('f').and_then(|name| of_floats(name, Float::F32));
    of_floats(name, Float::F64)
        .or_else(single)
        .or_else(|| fast(name))
        .or_else(|| rounded(name))
        .or_else(|| tests(name))
        .or_else(|| integers(name))
        .or_else(|| conversions(name))
}

fn simple(op: Op, arguments: usize, takes: Type, gives: Type) -> Option<Function> {
    Some(Function { body: Body::One(op), arguments, takes, gives })
}

/// Functions of f32 and f64 that have one name.
fn of_floats(name: &str, float: Float) -> Option<Function> {
    let (ty, scalar) = if float == Float::F64 { (Type::F64, Scalar::F64) } else { (Type::F32, Scalar::F32) };
    let mode = Mode::default();
    let intrinsic = |intrinsic, arguments| simple(Op::Intrinsic(intrinsic, float), arguments, ty, ty);
    let to_integral = |round| {
        let conversion = Conversion { round, integral: true, ..Conversion::default() };
        simple(Op::Convert(scalar, scalar, conversion), 1, ty, ty)
    };
    match name {
        "sqrt" => simple(Op::Float1(Float1::Sqrt, float, mode), 1, ty, ty),
        "rsqrt" if float == Float::F32 => simple(Op::Float1(Float1::Rsqrt, float, mode), 1, ty, ty),
        "rsqrt" => intrinsic(Intrinsic::Rsqrt, 1),
        "fabs" => simple(Op::Float1(Float1::Abs, float, mode), 1, ty, ty),
        "fmin" => simple(Op::Float2(Float2::Min, float, mode), 2, ty, ty),
        "fmax" => simple(Op::Float2(Float2::Max, float, mode), 2, ty, ty),
        "fma" => simple(Op::Fma(float, mode, false), 3, ty, ty),
        "copysign" => {
            let body = Body::Reversed(Op::Float2(Float2::CopySign, float, mode));
            Some(Function { body, arguments: 2, takes: ty, gives: ty })
        }
        "floor" => to_integral(Round::Down),
        "ceil" => to_integral(Round::Up),
        "trunc" => to_integral(Round::Zero),
        "rint" | "nearbyint" => to_integral(Round::Nearest),
        "round" => intrinsic(Intrinsic::Round, 1),
        "cbrt" => intrinsic(Intrinsic::Cbrt, 1),
        "exp" => intrinsic(Intrinsic::Exp, 1),
        "exp2" => intrinsic(Intrinsic::Exp2, 1),
        "exp10" => intrinsic(Intrinsic::Exp10, 1),
        "expm1" => intrinsic(Intrinsic::Expm1, 1),
        "log" => intrinsic(Intrinsic::Log, 1),
        "log2" => intrinsic(Intrinsic::Log2, 1),
        "log10" => intrinsic(Intrinsic::Log10, 1),
        "log1p" => intrinsic(Intrinsic::Log1p, 1),
        "sin" => intrinsic(Intrinsic::Sin, 1),
        "cos" => intrinsic(Intrinsic::Cos, 1),
        "tan" => intrinsic(Intrinsic::Tan, 1),
        "asin" => intrinsic(Intrinsic::Asin, 1),
        "acos" => intrinsic(Intrinsic::Acos, 1),
        "atan" => intrinsic(Intrinsic::Atan, 1),
        "sinh" => intrinsic(Intrinsic::Sinh, 1),
        "cosh" => intrinsic(Intrinsic::Cosh, 1),
        "tanh" => intrinsic(Intrinsic::Tanh, 1),
        "asinh" => intrinsic(Intrinsic::Asinh, 1),
        "acosh" => intrinsic(Intrinsic::Acosh, 1),
        "atanh" => intrinsic(Intrinsic::Atanh, 1),
        "erf" => intrinsic(Intrinsic::Erf, 1),
        "erfc" => intrinsic(Intrinsic::Erfc, 1),
        "pow" => intrinsic(Intrinsic::Pow, 2),
        "atan2" => intrinsic(Intrinsic::Atan2, 2),
        "hypot" => intrinsic(Intrinsic::Hypot, 2),
        "fmod" => intrinsic(Intrinsic::Fmod, 2),
        _ => None,
    }
}

/// What has an approximate instruction.
fn fast(name: &str) -> Option<Function> {
    use std::f32::consts::{LN_2, LOG2_10, LOG2_E, LOG10_2};
    let one = |function| Op::Float1(function, Float::F32, Mode::default());
    let ty = Type::F32;
    let (body, arguments) = match name {
        "fast_expf" => (Body::Times(LOG2_E, one(Float1::Ex2)), 1),
        "fast_exp10f" => (Body::Times(LOG2_10, one(Float1::Ex2)), 1),
        "fast_logf" => (Body::OfProduct(one(Float1::Lg2), LN_2), 1),
        "fast_log10f" => (Body::OfProduct(one(Float1::Lg2), LOG10_2), 1),
        "fast_log2f" => (Body::One(one(Float1::Lg2)), 1),
        "fast_sinf" => (Body::One(one(Float1::Sin)), 1),
        "fast_cosf" => (Body::One(one(Float1::Cos)), 1),
        "fast_powf" => (Body::Power, 2),
        "fast_fdividef" => (Body::One(Op::Float2(Float2::DivApprox, Float::F32, Mode::default())), 2),
        "frsqrt_rn" => (Body::One(one(Float1::Rsqrt)), 1),
        "saturatef" => {
            let conversion = Conversion { sat: true, ..Conversion::default() };
            (Body::One(Op::Convert(Scalar::F32, Scalar::F32, conversion)), 1)
        }
        _ => return None,
    };
    Some(Function { body, arguments, takes: ty, gives: ty })
}

fn rounding(name: &str) -> Option<Round> {
    Some(match name {
        "rn" => Round::Nearest,
        "rz" => Round::Zero,
        "rd" => Round::Down,
        "ru" => Round::Up,
        _ => return None,
    })
}

/// Arithmetic with the rounding in its name.
fn rounded(name: &str) -> Option<Function> {
    let (name, suffix) = name.rsplit_once('_')?;
    let mode = Mode { round: rounding(suffix)?, ..Mode::default() };
    let (float, ty, base) = match name {
        "fma" => return simple(Op::Fma(Float::F64, mode, false), 3, Type::F64, Type::F64),
        "fmaf" => return simple(Op::Fma(Float::F32, mode, false), 3, Type::F32, Type::F32),
        _ => match name.split_at_checked(1)? {
            ("f", base) => (Float::F32, Type::F32, base),
            ("d", base) => (Float::F64, Type::F64, base),
            _ => return None,
        },
    };
    let two = |op| simple(Op::Float2(op, float, mode), 2, ty, ty);
    let one = |op| simple(Op::Float1(op, float, mode), 1, ty, ty);
    match base {
        "add" => two(Float2::Add),
        "sub" => two(Float2::Sub),
        "mul" => two(Float2::Mul),
        "div" => two(Float2::Div),
        "sqrt" => one(Float1::Sqrt),
        "rcp" => one(Float1::Rcp),
        _ => None,
    }
}

fn tests(name: &str) -> Option<Function> {
    let (test, ty, float) = match name {
        "isnanf" => (Testp::NotANumber, Type::F32, Float::F32),
        "isnand" => (Testp::NotANumber, Type::F64, Float::F64),
        "isinff" => (Testp::Infinite, Type::F32, Float::F32),
        "isinfd" => (Testp::Infinite, Type::F64, Float::F64),
        "finitef" => (Testp::Finite, Type::F32, Float::F32),
        "isfinited" => (Testp::Finite, Type::F64, Float::F64),
        _ => return None,
    };
    Some(Function { body: Body::Test(test, float), arguments: 1, takes: ty, gives: Type::B32 })
}

fn integers(name: &str) -> Option<Function> {
    let two = |op, int, ty| simple(Op::Int2(op, int), 2, ty, ty);
    match name {
        "abs" => simple(Op::IntAbs(Int::S32), 1, Type::B32, Type::B32),
        "llabs" => simple(Op::IntAbs(Int::S64), 1, Type::B64, Type::B64),
        "min" => two(Int2::Min, Int::S32, Type::B32),
        "max" => two(Int2::Max, Int::S32, Type::B32),
        "umin" => two(Int2::Min, Int::U32, Type::B32),
        "umax" => two(Int2::Max, Int::U32, Type::B32),
        "llmin" => two(Int2::Min, Int::S64, Type::B64),
        "llmax" => two(Int2::Max, Int::S64, Type::B64),
        "ullmin" => two(Int2::Min, Int::U64, Type::B64),
        "ullmax" => two(Int2::Max, Int::U64, Type::B64),
        "mulhi" => two(Int2::MulHi, Int::S32, Type::B32),
        "umulhi" => two(Int2::MulHi, Int::U32, Type::B32),
        "mul64hi" => two(Int2::MulHi, Int::S64, Type::B64),
        "umul64hi" => two(Int2::MulHi, Int::U64, Type::B64),
        "mul24" => simple(Op::Mul24 { signed: true, high: false }, 2, Type::B32, Type::B32),
        "umul24" => simple(Op::Mul24 { signed: false, high: false }, 2, Type::B32, Type::B32),
        "clz" => simple(Op::Clz(Bits::B32), 1, Type::B32, Type::B32),
        "clzll" => simple(Op::Clz(Bits::B64), 1, Type::B64, Type::B32),
        "popc" => simple(Op::Popc(Bits::B32), 1, Type::B32, Type::B32),
        "popcll" => simple(Op::Popc(Bits::B64), 1, Type::B64, Type::B32),
        "brev" => simple(Op::Brev(Bits::B32), 1, Type::B32, Type::B32),
        "brevll" => simple(Op::Brev(Bits::B64), 1, Type::B64, Type::B64),
        "byte_perm" => simple(Op::Prmt(PrmtMode::Index), 3, Type::B32, Type::B32),
        _ => None,
    }
}

/// `float2int_rz` and its kind, and bits taken as another type.
fn conversions(name: &str) -> Option<Function> {
    let of = |name: &str| {
        Some(match name {
            "float" => (Type::F32, Scalar::F32, false),
            "double" => (Type::F64, Scalar::F64, false),
            "int" => (Type::B32, Scalar::S32, true),
            "uint" => (Type::B32, Scalar::U32, true),
            "ll" | "longlong" => (Type::B64, Scalar::S64, true),
            "ull" => (Type::B64, Scalar::U64, true),
            _ => return None,
        })
    };
    if let Some((from, to)) = name.split_once("_as_") {
        let ((from, ..), (to, ..)) = (of(from)?, of(to)?);
        let bits = if from.bits() == 64 { Bits::B64 } else { Bits::B32 };
        return simple(Op::Mov(bits), 1, from, to).filter(|_| from.bits() == to.bits());
    }
    let (types, round) =
        name.rsplit_once('_').map_or((name, None), |(types, round)| (types, rounding(round)));
    let (from, to) = types.split_once('2')?;
    let ((takes, from, from_int), (gives, to, to_int)) = (of(from)?, of(to)?);
    let conversion = match (from_int, to_int, round) {
        (false, true, Some(round)) => {
            Conversion { round, integral: true, sat: true, ..Conversion::default() }
        }
        (true, false, Some(round)) => Conversion { round, ..Conversion::default() },
        // Of every i32 there is an f64, and of every f32.
        (true, false, None) if to == Scalar::F64 && takes == Type::B32 => Conversion::default(),
        (false, false, Some(round)) if from == Scalar::F64 && to == Scalar::F32 => {
            Conversion { round, ..Conversion::default() }
        }
        _ => return None,
    };
    simple(Op::Convert(to, from, conversion), 1, takes, gives)
}
