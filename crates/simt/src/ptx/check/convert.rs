//! `cvt`.

use super::super::Error;
use super::super::build::{Builder, Step, scalar, widened};
use super::super::syntax::{Operand, Type};
use super::{Name, ROUNDS};
use crate::program::{Conversion, Float, Op, Round, Scalar};

const INTEGRAL: [(&str, Round); 4] =
    [("rni", Round::Nearest), ("rzi", Round::Zero), ("rmi", Round::Down), ("rpi", Round::Up)];
const TO_HALF: [(&str, Round); 2] = [("rn", Round::Nearest), ("rz", Round::Zero)];

impl Type {
    fn scalar(self) -> Option<Scalar> {
        Some(match self {
            Type::U8 => Scalar::U8,
            Type::S8 => Scalar::S8,
            Type::U16 => Scalar::U16,
            Type::S16 => Scalar::S16,
            Type::U32 => Scalar::U32,
            Type::S32 => Scalar::S32,
            Type::U64 => Scalar::U64,
            Type::S64 => Scalar::S64,
            Type::F16 => Scalar::F16,
            Type::Bf16 => Scalar::Bf16,
            Type::F32 => Scalar::F32,
            Type::F64 => Scalar::F64,
            _ => return None,
        })
    }
}

impl<'m> Builder<'m> {
    pub(super) fn convert(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let to = name.any_type()?;
        let from = name.any_type()?;
        match (to, from) {
            (Type::F16x2 | Type::Bf16x2, Type::F32) => return self.convert_pair(name, operands, to),
            (Type::Tf32, Type::F32) => {
                if !name.take("rna") {
                    return Err(name.lacks("`.rna`"));
                }
                let [d, a] = name.operands(operands)?;
                let (d, a) = (self.result(d, Type::B32)?, self.source(a, Type::F32)?);
                return self.emit(Step { d, a: a.into(), ..Step::new(Op::RoundTf32) });
            }
            _ => {}
        }
        let scalar_of = |ty: Type| {
            let last = name.whole.rsplit('.').find(|word| Type::named(word) == Some(ty));
            ty.scalar().ok_or_else(|| name.modifier(last.unwrap_or_default()))
        };
        let (result, operand) = (scalar_of(to)?, scalar_of(from)?);
        let conversion = self.conversion(name, to, from)?;
        let [d, a] = name.operands(operands)?;
        let a = self.narrow(a, from)?;
        let op = Op::Convert(result, operand, conversion);
        let d = self.place(d)?;
        let super::Slot::Value(value) = d else { return Ok(()) };
        let bits = self.bits(value);
        if bits < to.bits() || bits == 1 || (to.float().is_some() && bits != to.bits()) {
            return Err(self.width(&operands[0]));
        }
        if bits == to.bits() {
            return self.emit(Step { d, a: a.into(), ..Step::new(op) });
        }
        // A wider register holds the value as its type has it.
        let exact = self.scratch(to.bits())?;
        self.emit(Step { d: exact.into(), a: a.into(), ..Step::new(op) })?;
        let wider = widened(to.bits() / 8, to.signed(), bits);
        self.emit(Step { d, a: exact.into(), ..Step::new(wider) })
    }

    /// The lower bits of an operand whose register may be wider than its type.
    fn narrow(&mut self, operand: &'m Operand, ty: Type) -> Result<super::Value, Error> {
        let value = self.value(operand, ty)?;
        let bits = self.bits(value);
        if bits == ty.bits() {
            return Ok(value);
        }
        if bits < ty.bits() || bits == 1 || ty.float().is_some() {
            return Err(self.width(operand));
        }
        if bits < 64 {
            // The operation reads as many bits as its type has.
            return Ok(value);
        }
        let narrow = self.scratch(ty.bits())?;
        let op = Op::Convert(scalar(ty.bits() / 8, false), Scalar::U64, Conversion::default());
        self.emit(Step { d: narrow.into(), a: value.into(), ..Step::new(op) })?;
        Ok(narrow)
    }

    /// The modifiers of a conversion, which must be those that the types ask for.
    fn conversion(&mut self, name: &mut Name<'m>, to: Type, from: Type) -> Result<Conversion, Error> {
        let mut conversion = Conversion::default();
        let to_f32 = to == Type::F32 || from == Type::F32;
        match (to.float(), from.float()) {
            (None, None) => conversion.sat = name.take("sat"),
            (None, Some(_)) => {
                conversion.round = name.round(&INTEGRAL)?;
                conversion.integral = true;
                conversion.ftz = to_f32 && name.take("ftz");
                conversion.sat = true;
                name.take("sat");
            }
            (Some(_), None) => {
                conversion.round = name.round(&ROUNDS)?;
                conversion.ftz = to_f32 && name.take("ftz");
                conversion.sat = name.take("sat");
            }
            (Some(_), Some(_)) => {
                if to == from {
                    if let Some(round) = name.one(&INTEGRAL) {
                        (conversion.round, conversion.integral) = (round, true);
                    }
                } else if to.bits() < from.bits() {
                    let bf16 = to == Type::Bf16;
                    conversion.round = name.round(if bf16 { &TO_HALF } else { &ROUNDS })?;
                    conversion.relu = to.bits() == 16 && name.take("relu");
                } else if to.bits() == from.bits() {
                    return Err(name.modifier(name.whole.rsplit('.').next().unwrap_or_default()));
                }
                conversion.ftz = to_f32 && name.take("ftz");
                conversion.sat = !conversion.relu && to != Type::Bf16 && name.take("sat");
            }
        }
        Ok(conversion)
    }

    fn convert_pair(&mut self, name: &mut Name<'m>, operands: &'m [Operand], to: Type) -> Result<(), Error> {
        let round = name.round(&TO_HALF)?;
        let relu = name.take("relu");
        let [d, a, b] = name.operands(operands)?;
        let (d, a, b) = (self.result(d, to)?, self.source(a, Type::F32)?, self.source(b, Type::F32)?);
        let float = if to == Type::F16x2 { Float::F16x2 } else { Float::Bf16x2 };
        let conversion = Conversion { round, relu, ..Conversion::default() };
        self.emit(Step { d, a: a.into(), b: b.into(), ..Step::new(Op::ConvertPair(float, conversion)) })
    }
}
