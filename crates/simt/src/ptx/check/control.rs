//! Branches, calls and barriers.

use super::super::Error;
use super::super::build::{Builder, Named, Slot, Step};
use super::super::syntax::{Operand, Type};
use super::Name;
use crate::program::{Barrier, NEVER, Op};

impl<'m> Builder<'m> {
    pub(super) fn control(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        match name.base {
            "bra" => {
                name.take("uni");
                let [target] = name.operands(operands)?;
                let Operand::Name(label) = target else { return Err(self.operand("target", "not a label")) };
                let Named::Label(target) = self.named(label)? else {
                    return Err(self.operand(label, "not a label"));
                };
                self.emit(Step::new(Op::Branch { target, join: NEVER }))
            }
            "brx" => self.indexed(name, operands),
            "call" => {
                name.take("uni");
                name.end()?;
                self.call_written(name, operands)
            }
            "ret" => {
                name.take("uni");
                let [] = name.operands(operands)?;
                match self.returns {
                    None => self.emit(Step::new(Op::Exit)),
                    Some(target) => self.emit(Step::new(Op::Branch { target, join: NEVER })),
                }
            }
            "exit" => {
                let [] = name.operands(operands)?;
                self.emit(Step::new(Op::Exit))
            }
            "trap" | "brkpt" => {
                let [] = name.operands(operands)?;
                self.emit(Step::new(Op::Trap))
            }
            "nanosleep" => {
                name.ty(&[Type::U32])?;
                let [time] = name.operands(operands)?;
                self.source(time, Type::U32)?;
                self.emit(Step::new(Op::Nop))
            }
            "pmevent" => {
                name.take("mask");
                let [_] = name.operands(operands)?;
                self.emit(Step::new(Op::Nop))
            }
            _ => self.barrier(name, operands),
        }
    }

    fn indexed(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        if !name.take("idx") {
            return Err(name.lacks("`.idx`"));
        }
        name.take("uni");
        let [index, targets] = name.operands(operands)?;
        let a = self.source(index, Type::U32)?;
        let Operand::Name(list) = targets else {
            return Err(self.operand("targets", "not a list of targets"));
        };
        let targets = self.targets(list)?;
        let after = self.label();
        self.skip_unguarded(after)?;
        self.tables.push(targets);
        let table = self.tables.len() as u32 - 1;
        self.emit(Step { a: a.into(), ..Step::new(Op::BranchIndexed { table, join: NEVER }) })?;
        self.mark(after);
        Ok(())
    }

    fn call_written(&mut self, name: &Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let (results, rest) = match operands {
            [Operand::Group(results), rest @ ..] => (&results[..], rest),
            rest => (&[][..], rest),
        };
        let (function, arguments) = match rest {
            [Operand::Name(function)] => (function, &[][..]),
            [Operand::Name(function), Operand::Group(arguments)] => (function, &arguments[..]),
            [Operand::Name(_), Operand::Group(_), Operand::Name(_)] => {
                return Err(Error::Indirect { line: self.here() });
            }
            [Operand::Name(_), Operand::Name(_)] => return Err(Error::Indirect { line: self.here() }),
            _ => return Err(name.count(operands)),
        };
        if function.starts_with('%') {
            return Err(Error::Indirect { line: self.here() });
        }
        self.call(function, results, arguments)
    }

    /// `bar` and `barrier`.
    fn barrier(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        if name.base == "bar" && name.take("warp") {
            if !name.take("sync") {
                return Err(name.lacks("`.sync`"));
            }
            let [mask] = name.operands(operands)?;
            let a = self.source(mask, Type::B32)?;
            return self.emit(Step { a: a.into(), ..Step::new(Op::WarpSync) });
        }
        name.take("cta");
        let aligned = name.base == "bar" || name.take("aligned");
        let kinds = [("sync", Barrier::Sync), ("arrive", Barrier::Arrive), ("red", Barrier::Popc)];
        let mut kind = name.needs_one("`.sync`, `.arrive` or `.red`", &kinds)?;
        let (mut d, mut c) = (Slot::None, Slot::None);
        let mut rest = operands;
        if kind == Barrier::Popc {
            let kinds = [("popc", Barrier::Popc), ("and", Barrier::And), ("or", Barrier::Or)];
            kind = name.needs_one("`.popc`, `.and` or `.or`", &kinds)?;
            let ty = name.ty(&[if kind == Barrier::Popc { Type::U32 } else { Type::Pred }])?;
            let [first, inner @ .., last] = operands else { return Err(name.count(operands)) };
            d = self.result(first, ty)?;
            c = self.predicate_as_is(last)?.into();
            rest = inner;
        }
        name.end()?;
        let (a, b) = match rest {
            [a] if kind != Barrier::Arrive => (self.source(a, Type::U32)?, Slot::None),
            [a, b] => (self.source(a, Type::U32)?, self.source(b, Type::U32)?.into()),
            _ => return Err(name.count(operands)),
        };
        self.emit(Step { d, a: a.into(), b, c, ..Step::new(Op::Barrier(kind, aligned)) })
    }
}
