//! Accesses to memory.

use super::super::Error;
use super::super::build::{Builder, Named, SINK, Slot, Step, Value, scalar, widened};
use super::super::syntax::{Number, Operand, Place, Type};
use super::Name;
use crate::program::{
    Access, AsyncCopy, Atomic, AtomicType, Bits, COUNT_BITS, Conversion, Float, Int, Int2, Mbarrier, Op,
    Order, PENDING_AT, Preset, Scalar, Scope, Space,
};

const HINTS: [&str; 18] = [
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
];

const VALUES: [Type; 14] = [
    Type::U8,
    Type::S8,
    Type::B8,
    Type::U16,
    Type::S16,
    Type::B16,
    Type::U32,
    Type::S32,
    Type::B32,
    Type::F32,
    Type::U64,
    Type::S64,
    Type::B64,
    Type::F64,
];

pub(super) const SPACES: [(&str, Space); 8] = [
    ("global", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("local", Space::Local),
    ("const", Space::Const),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
];

const SCOPES: [(&str, Scope); 3] = [("cta", Scope::Block), ("gpu", Scope::Device), ("sys", Scope::Device)];

/// Where an access is, as it is written.
pub(super) enum Address {
    /// Register, whether it is wide, and what is added.
    At(Value, bool, i32),
    /// At an offset into the parameters of the kernel, which end at the second.
    Parameter(i64, u32),
    /// At an offset into what is passed to a function.
    Block(u32, i64),
}

/// Whether an instruction for a space may name a variable of that place. Addresses in global and constant memory are generic ones.
fn is_in(place: Place, space: Space) -> bool {
    match place {
        Place::Global => matches!(space, Space::Global | Space::Generic),
        Place::Const => matches!(space, Space::Const | Space::Generic),
        Place::Shared => space == Space::Shared,
        Place::Local => space == Space::Local,
        Place::Param => space == Space::Param,
    }
}

/// What is loaded or stored alone may be in braces, as Triton writes it.
fn unbraced(operand: &Operand) -> &Operand {
    match operand {
        Operand::Vector(parts) if parts.len() == 1 => &parts[0],
        operand => operand,
    }
}

impl<'m> Builder<'m> {
    pub(super) fn memory(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        match name.base {
            "ld" | "ldu" => self.load(name, operands),
            "st" => self.store(name, operands),
            "atom" | "red" => self.atomic(name, operands),
            "cvta" => self.convert_address(name, operands),
            "isspacep" => {
                let space = name.needs_one("a space", &SPACES)?;
                let [d, a] = name.operands(operands)?;
                let (d, a) = (self.result(d, Type::Pred)?, self.source(a, Type::U64)?);
                let space = self.own_space(space);
                self.emit(Step { d, a: a.into(), ..Step::new(Op::IsSpace(space)) })
            }
            "membar" => {
                let scopes = [("cta", Scope::Block), ("gl", Scope::Device), ("sys", Scope::Device)];
                let scope = name.needs_one("`.cta`, `.gl` or `.sys`", &scopes)?;
                let [] = name.operands(operands)?;
                self.emit(Step::new(Op::Fence(scope)))
            }
            "fence" => {
                name.one(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
                let scope = name.needs_one("`.cta`, `.gpu` or `.sys`", &SCOPES)?;
                let [] = name.operands(operands)?;
                self.emit(Step::new(Op::Fence(scope)))
            }
            "cp" => self.copy(name, operands),
            "mbarrier" => self.mbarrier(name, operands),
            "createpolicy" => {
                // What it makes is a hint, wherever it is used.
                name.rest.clear();
                let Some(d) = operands.first() else { return Err(name.count(operands)) };
                let (d, a) = (self.result(d, Type::B64)?, self.constant(64, 0)?);
                self.emit(Step { d, a: a.into(), ..Step::new(Op::Mov(Bits::B64)) })
            }
            _ => {
                name.one(&[("global", ()), ("local", ()), ("const", ()), ("param", ())]);
                while name.one(&HINTS.map(|hint| (hint, ()))).is_some() {}
                name.one(&[("L1", ()), ("L2", ()), ("tensormap", ())]);
                name.end()?;
                self.emit(Step::new(Op::Nop))
            }
        }
    }

    /// Takes hints; whether an operand says more of them.
    fn hints(name: &mut Name<'m>) -> bool {
        while name.one(&HINTS.map(|hint| (hint, ()))).is_some() {}
        name.take("L2::cache_hint")
    }

    /// The operands without the policy of a cache, if there is one.
    fn without_policy(&mut self, operands: &'m [Operand], policy: bool) -> Result<&'m [Operand], Error> {
        match operands.split_last() {
            Some((last, rest)) if policy => self.source(last, Type::B64).map(|_| rest),
            _ => Ok(operands),
        }
    }

    /// The space of parameters is local memory, in a function.
    pub(super) fn own_space(&self, space: Space) -> Space {
        if space == Space::Param && self.returns.is_some() { Space::Local } else { space }
    }

    pub(super) fn address(&mut self, operand: &'m Operand, space: Space) -> Result<Address, Error> {
        let Operand::Address(parts) = operand else {
            return Err(self.operand("address", "an address in brackets is expected"));
        };
        let (name, offset) = match &parts[..] {
            [Operand::Name(name)] => (name, 0),
            [Operand::Offset(name, offset)] => (name, *offset),
            [Operand::Number(Number::Int(bits))] => {
                return Ok(Address::At(self.constant(64, *bits)?, true, 0));
            }
            _ => return Err(self.operand("address", "a register or a variable is expected")),
        };
        let offsets_only = matches!(space, Space::Shared | Space::Local | Space::Param);
        match self.named(name)? {
            Named::Value(value) => {
                let wide = match self.bits(value) {
                    64 => true,
                    32 if offsets_only => false,
                    _ => return Err(self.operand(name, "an address has 64 bits")),
                };
                match i32::try_from(offset) {
                    Ok(offset) => Ok(Address::At(value, wide, offset)),
                    Err(_) => Err(self.operand(name, "the offset is too large")),
                }
            }
            Named::Address { bits, place } if is_in(place, space) => {
                Ok(Address::At(self.constant(64, bits.wrapping_add(offset as u64))?, true, 0))
            }
            Named::Parameter(begins, size) if space == Space::Param => {
                Ok(Address::Parameter(i64::from(begins).wrapping_add(offset), begins + size))
            }
            Named::Block(block) if space == Space::Param => Ok(Address::Block(block, offset)),
            _ => Err(self.operand(name, "not in the space of the instruction")),
        }
    }

    /// An address in a register of its own, to which nothing is added; a generic one is made one of shared memory.
    pub(super) fn plain_address(
        &mut self,
        operand: &'m Operand,
        space: Space,
    ) -> Result<(Value, bool), Error> {
        let Address::At(mut value, wide, offset) = self.address(operand, space)? else {
            return Err(self.operand("address", "not in the space of the instruction"));
        };
        if offset != 0 {
            let (int, bits) = if wide { (Int::U64, 64) } else { (Int::U32, 32) };
            let (sum, added) = (self.scratch(bits)?, offset as i64 as u64 & u64::MAX >> (64 - bits));
            let b = self.constant(bits, added)?;
            let op = Op::Int2(Int2::Add, int);
            self.emit(Step { d: sum.into(), a: value.into(), b: b.into(), ..Step::new(op) })?;
            value = sum;
        }
        if space == Space::Generic {
            let shared = self.scratch(64)?;
            let op = Op::ConvertAddress { space: Space::Shared, to_space: true, wide: true };
            self.emit(Step { d: shared.into(), a: value.into(), ..Step::new(op) })?;
            value = shared;
        }
        Ok((value, wide))
    }

    fn vector_count(name: &mut Name<'m>, ty: Type) -> Result<u8, Error> {
        let count = name.one(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
        if u16::from(count) * u16::from(ty.bits()) > 128 { Err(name.modifier("v4")) } else { Ok(count) }
    }

    fn load(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let orders = [
            ("weak", Order::Weak),
            ("volatile", Order::Relaxed),
            ("relaxed", Order::Relaxed),
            ("acquire", Order::Acquire),
        ];
        let order = name.one(&orders).unwrap_or_default();
        if matches!(order, Order::Relaxed | Order::Acquire) {
            name.one(&SCOPES);
        }
        let space = name.one(&SPACES).unwrap_or(Space::Generic);
        let noncoherent =
            name.base == "ldu" || matches!(space, Space::Global) && order == Order::Weak && name.take("nc");
        let policy = Self::hints(name);
        name.take("unified");
        let ty = name.ty(&VALUES)?;
        let count = Self::vector_count(name, ty)?;
        name.end()?;
        let [d, address] = name.just(self.without_policy(operands, policy)?)?;
        let places = if count > 1 {
            self.places(d)?
        } else {
            vec![match self.place(unbraced(d))? {
                Slot::Value(value) => value,
                Slot::None | Slot::List(_) => SINK,
            }]
        };
        let bits = places.iter().find(|place| **place != SINK).map_or(ty.bits(), |place| self.bits(*place));
        self.regular(&places, count.into(), bits)?;
        if bits < ty.bits() || bits == 1 {
            return Err(self.width(d));
        }
        let bytes = ty.bits() / 8;
        match self.address(address, space)? {
            Address::At(a, wide_address, offset) => {
                // A load extends to the whole register; in one of 16 bits, those above must be zeros.
                let in_steps = ty.signed() && ty.bits() < bits && bits == 16;
                let access = Access {
                    space: self.own_space(space),
                    bytes,
                    count,
                    signed: ty.signed() && ty.bits() < bits && !in_steps,
                    wide: bits == 64,
                    wide_address,
                    offset,
                    order,
                    noncoherent,
                };
                let mut loaded = places.clone();
                if in_steps {
                    for value in loaded.iter_mut().filter(|value| **value != SINK) {
                        *value = self.scratch(8)?;
                    }
                }
                let d = match loaded[..] {
                    [SINK] => Slot::None,
                    [value] => value.into(),
                    _ => self.list(loaded.clone()),
                };
                self.emit(Step { d, a: a.into(), ..Step::new(Op::Load(access)) })?;
                if in_steps {
                    for (place, part) in places.into_iter().zip(loaded).filter(|(place, _)| *place != SINK) {
                        let op = widened(1, true, 16);
                        self.emit(Step { d: place.into(), a: part.into(), ..Step::new(op) })?;
                    }
                }
                Ok(())
            }
            Address::Parameter(offset, end) => {
                for (index, place) in (0..).zip(places) {
                    let offset = self.inside(offset, index, bytes, end)?;
                    if place != SINK {
                        self.parameter(place, offset, bytes, ty.signed())?;
                    }
                }
                Ok(())
            }
            Address::Block(block, offset) => {
                let end = self.block_bytes(block) as u32;
                for (index, place) in (0..).zip(places) {
                    let offset = self.inside(offset, index, bytes, end)?;
                    if place != SINK {
                        self.take(block, offset, bytes, ty.signed(), place)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// The offset of a part of an access, which must end before `end`.
    fn inside(&self, offset: i64, index: u8, bytes: u8, end: u32) -> Result<u32, Error> {
        let offset = offset.saturating_add(i64::from(index) * i64::from(bytes));
        let fits = offset >= 0 && offset.saturating_add(bytes.into()) <= end.into();
        if !fits {
            return Err(self.operand("address", "outside of the parameter"));
        }
        if offset % i64::from(bytes) != 0 {
            return Err(self.operand("address", "misaligned"));
        }
        Ok(offset as u32)
    }

    /// A parameter of the kernel at an offset.
    fn parameter(&mut self, place: Value, offset: u32, bytes: u8, signed: bool) -> Result<(), Error> {
        let bits = self.bits(place);
        if signed && bits == 16 && bytes == 1 {
            let a = self.preset(8, Preset::Param { offset, bytes, signed: false })?;
            return self.emit(Step { d: place.into(), a: a.into(), ..Step::new(widened(1, true, 16)) });
        }
        let a = self.preset(bits, Preset::Param { offset, bytes, signed: signed && 8 * bytes < bits })?;
        let op = widened(bits / 8, false, bits);
        self.emit(Step { d: place.into(), a: a.into(), ..Step::new(op) })
    }

    fn store(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let orders = [
            ("weak", Order::Weak),
            ("volatile", Order::Relaxed),
            ("relaxed", Order::Relaxed),
            ("release", Order::Release),
        ];
        let order = name.one(&orders).unwrap_or_default();
        if matches!(order, Order::Relaxed | Order::Release) {
            name.one(&SCOPES);
        }
        let space = name.one(&SPACES).unwrap_or(Space::Generic);
        let policy = Self::hints(name);
        let ty = name.ty(&VALUES)?;
        let count = Self::vector_count(name, ty)?;
        name.end()?;
        let [address, b] = name.just(self.without_policy(operands, policy)?)?;
        let mut values = if count > 1 { self.vector(b, ty)? } else { vec![self.value(unbraced(b), ty)?] };
        if values.len() != usize::from(count) {
            return Err(self.operand("in braces", "another number of registers is expected"));
        }
        let wide = values.iter().any(|value| self.bits(*value) == 64);
        for value in &mut values {
            let bits = self.bits(*value);
            if bits < ty.bits() || bits == 1 {
                return Err(self.width(b));
            }
            if wide && bits != 64 {
                let widen = self.scratch(64)?;
                let op = widened(bits / 8, false, 64);
                self.emit(Step { d: widen.into(), a: (*value).into(), ..Step::new(op) })?;
                *value = widen;
            }
        }
        let bytes = ty.bits() / 8;
        match self.address(address, space)? {
            Address::At(a, wide_address, offset) => {
                if matches!(space, Space::Const) || (space == Space::Param && self.returns.is_none()) {
                    return Err(self.operand("address", "cannot be written"));
                }
                let space = self.own_space(space);
                let access = Access {
                    space,
                    bytes,
                    count,
                    signed: false,
                    wide,
                    wide_address,
                    offset,
                    order,
                    noncoherent: false,
                };
                let b = match values[..] {
                    [value] => value.into(),
                    _ => self.list(values),
                };
                self.emit(Step { a: a.into(), b, ..Step::new(Op::Store(access)) })
            }
            Address::Parameter(..) => Err(self.operand("address", "cannot be written")),
            Address::Block(block, offset) => {
                let end = self.block_bytes(block) as u32;
                for (index, value) in (0..).zip(values) {
                    let offset = self.inside(offset, index, bytes, end)?;
                    self.put(block, offset, bytes, value)?;
                }
                Ok(())
            }
        }
    }

    fn atomic(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let orders = [
            ("relaxed", Order::Relaxed),
            ("acquire", Order::Acquire),
            ("release", Order::Release),
            ("acq_rel", Order::AcquireRelease),
        ];
        let order = name.one(&orders).unwrap_or(Order::Relaxed);
        let scope = name.one(&SCOPES).unwrap_or_default();
        let spaces = &SPACES[..3];
        let space = name.one(spaces).unwrap_or(Space::Generic);
        let kinds = [
            ("add", Atomic::Add),
            ("min", Atomic::Min),
            ("max", Atomic::Max),
            ("and", Atomic::And),
            ("or", Atomic::Or),
            ("xor", Atomic::Xor),
            ("exch", Atomic::Exchange),
            ("cas", Atomic::CompareAndSwap),
            ("inc", Atomic::Increment),
            ("dec", Atomic::Decrement),
        ];
        let kind = name.needs_one("an operation", &kinds)?;
        let policy = name.take("L2::cache_hint");
        let types: &[Type] = match kind {
            Atomic::Add => &[
                Type::U32,
                Type::S32,
                Type::U64,
                Type::S64,
                Type::F32,
                Type::F64,
                Type::F16,
                Type::F16x2,
                Type::Bf16,
                Type::Bf16x2,
            ],
            Atomic::Min | Atomic::Max => &[Type::U32, Type::S32, Type::U64, Type::S64],
            Atomic::And | Atomic::Or | Atomic::Xor | Atomic::Exchange => &[Type::B32, Type::B64],
            Atomic::CompareAndSwap => &[Type::B16, Type::B32, Type::B64],
            Atomic::Increment | Atomic::Decrement => &[Type::U32],
        };
        let ty = name.ty(types)?;
        if ty.float().is_some_and(|float| !matches!(float, Float::F32 | Float::F64)) && !name.take("noftz") {
            return Err(name.lacks("`.noftz`"));
        }
        name.end()?;
        let returns = name.base == "atom";
        if !returns && matches!(kind, Atomic::Exchange | Atomic::CompareAndSwap) {
            return Err(self.unknown(name.whole));
        }
        let mut operands = self.without_policy(operands, policy)?;
        let mut d = Slot::None;
        if returns {
            let Some((first, rest)) = operands.split_first() else { return Err(name.count(operands)) };
            d = self.result(first, ty)?;
            operands = rest;
        }
        let (address, b, c) = match (operands, kind) {
            ([address, b, c], Atomic::CompareAndSwap) => (address, b, self.source(c, ty)?.into()),
            ([address, b], kind) if kind != Atomic::CompareAndSwap => (address, b, Slot::None),
            _ => return Err(name.count(operands)),
        };
        let b = self.source(b, ty)?;
        let Address::At(a, wide_address, offset) = self.address(address, space)? else {
            return Err(self.operand("address", "not in the space of the instruction"));
        };
        let of = match (ty.int(), ty.float()) {
            (Some(int), _) => AtomicType::Int(int),
            (_, Some(float)) => AtomicType::Float(float),
            _ => AtomicType::Bits(ty.untyped()),
        };
        let wide = ty.bits() == 64;
        let bytes = ty.bits() / 8;
        let access = Access {
            space,
            bytes,
            count: 1,
            signed: false,
            wide,
            wide_address,
            offset,
            order,
            noncoherent: false,
        };
        self.emit(Step { d, a: a.into(), b: b.into(), c, ..Step::new(Op::Atomic(kind, of, access, scope)) })
    }

    fn convert_address(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let to_space = name.take("to");
        let space = name.needs_one("a space", &SPACES)?;
        name.ty(&[Type::U64])?;
        let [d, a] = name.operands(operands)?;
        let (d, a) = (self.result(d, Type::U64)?, self.source(a, Type::U64)?);
        let op = match self.own_space(space) {
            // Such addresses are generic as they are.
            Space::Global | Space::Const | Space::Generic => Op::Mov(Bits::B64),
            space => Op::ConvertAddress { space, to_space, wide: true },
        };
        self.emit(Step { d, a: a.into(), ..Step::new(op) })
    }

    /// `cp.async`
    fn copy(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        if !name.take("async") {
            return Err(self.unknown(name.whole));
        }
        if name.take("commit_group") {
            let [] = name.operands(operands)?;
            return self.emit(Step::new(Op::CommitGroup));
        }
        if name.take("wait_all") {
            let [] = name.operands(operands)?;
            return self.emit(Step::new(Op::WaitGroup(None)));
        }
        if name.take("wait_group") {
            let [count] = name.operands(operands)?;
            return match count {
                Operand::Number(Number::Int(count)) if *count <= u16::MAX.into() => {
                    self.emit(Step::new(Op::WaitGroup(Some(*count as u16))))
                }
                _ => Err(self.operand("count", "a small number is expected")),
            };
        }
        if name.take("mbarrier") {
            return self.arrive_after_copies(name, operands);
        }
        let bypass = name.needs_one("`.ca` or `.cg`", &[("ca", false), ("cg", true)])?;
        name.needs_one("`.shared`", &[("shared", ()), ("shared::cta", ())])?;
        name.needs_one("`.global`", &[("global", ())])?;
        let policy = Self::hints(name);
        name.end()?;
        let operands = self.without_policy(operands, policy)?;
        let [to, from, size, rest @ ..] = operands else { return Err(name.count(operands)) };
        let bytes = match size {
            Operand::Number(Number::Int(bytes @ (4 | 8 | 16))) if !bypass || *bytes == 16 => *bytes as u8,
            _ => return Err(self.operand("size", "4, 8 or 16 is expected")),
        };
        let (a, wide_address) = self.plain_address(to, Space::Shared)?;
        let (b, _) = self.plain_address(from, Space::Global)?;
        let c = match rest {
            [] => Slot::None,
            [size] => self.copied(size, bytes)?.into(),
            _ => return Err(name.count(operands)),
        };
        self.emit(Step {
            a: a.into(),
            b: b.into(),
            c,
            ..Step::new(Op::CopyAsync(AsyncCopy { bytes, bypass, wide_address }))
        })
    }

    /// An mbarrier of 64 bits.
    fn mbarrier_address(
        &mut self,
        name: &mut Name<'m>,
        operand: &'m Operand,
        kind: Mbarrier,
    ) -> Result<Step, Error> {
        let space = name.one(&SPACES[1..3]).unwrap_or(Space::Generic);
        name.ty(&[Type::B64])?;
        name.end()?;
        let (a, wide_address) = self.plain_address(operand, space)?;
        Ok(Step { a: a.into(), ..Step::new(Op::Mbarrier { kind, wide_address }) })
    }

    /// `mbarrier`
    fn mbarrier(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let kinds = [
            ("init", Mbarrier::Init),
            ("inval", Mbarrier::Invalidate),
            ("arrive", Mbarrier::Arrive { drop: false, completes: true }),
            ("arrive_drop", Mbarrier::Arrive { drop: true, completes: true }),
            ("test_wait", Mbarrier::Test { parity: false }),
        ];
        if name.take("pending_count") {
            name.ty(&[Type::B64])?;
            let [d, state] = name.operands(operands)?;
            let (d, state) = (self.result(d, Type::B32)?, self.source(state, Type::B64)?);
            return self.pending_count(d, state);
        }
        let kind = name.needs_one("an operation", &kinds)?;
        match kind {
            Mbarrier::Arrive { drop, .. } => {
                name.take("release");
                name.take("cta");
                let completes = !name.take("noComplete");
                let (d, address, count) = match operands {
                    [d, address] if completes => (d, address, None),
                    [d, address, count] => (d, address, Some(count)),
                    _ => return Err(name.count(operands)),
                };
                let d = self.result(d, Type::B64)?;
                let b = match count {
                    Some(count) => self.source(count, Type::U32)?.into(),
                    None => Slot::None,
                };
                let step = self.mbarrier_address(name, address, Mbarrier::Arrive { drop, completes })?;
                self.emit(Step { d, b, ..step })
            }
            Mbarrier::Test { .. } => {
                let parity = name.take("parity");
                name.take("acquire");
                name.take("cta");
                let [d, address, phase] = name.just(operands)?;
                let d = self.result(d, Type::Pred)?;
                let b = self.source(phase, if parity { Type::U32 } else { Type::B64 })?.into();
                let step = self.mbarrier_address(name, address, Mbarrier::Test { parity })?;
                self.emit(Step { d, b, ..step })
            }
            Mbarrier::Init => {
                let [address, count] = name.just(operands)?;
                let b = self.source(count, Type::U32)?.into();
                let step = self.mbarrier_address(name, address, kind)?;
                self.emit(Step { b, ..step })
            }
            Mbarrier::Invalidate | Mbarrier::ArriveAfterCopies { .. } => {
                let [address] = name.just(operands)?;
                let step = self.mbarrier_address(name, address, kind)?;
                self.emit(step)
            }
        }
    }

    /// The arrivals that a state still waited for.
    fn pending_count(&mut self, d: Slot, state: Value) -> Result<(), Error> {
        let (begin, bits) = (self.constant(32, PENDING_AT.into())?, self.constant(32, COUNT_BITS.into())?);
        let pending = self.scratch(64)?;
        let op = Op::Bfe(Int::U64);
        self.emit(Step {
            d: pending.into(),
            a: state.into(),
            b: begin.into(),
            c: bits.into(),
            ..Step::new(op)
        })?;
        let op = Op::Convert(Scalar::U32, Scalar::U64, Conversion::default());
        self.emit(Step { d, a: pending.into(), ..Step::new(op) })
    }

    /// `cp.async.mbarrier.arrive`
    fn arrive_after_copies(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        name.needs_one("`.arrive`", &[("arrive", ())])?;
        let counted = name.take("noinc");
        let [address] = name.just(operands)?;
        let step = self.mbarrier_address(name, address, Mbarrier::ArriveAfterCopies { counted })?;
        self.emit(step)
    }

    /// How many bytes are copied: a number, or none where a predicate holds.
    fn copied(&mut self, operand: &'m Operand, bytes: u8) -> Result<Value, Error> {
        let ignores = match operand {
            Operand::Not(_) => true,
            Operand::Name(name) => matches!(self.named(name)?, Named::Value(value) if self.bits(value) == 1),
            _ => false,
        };
        if !ignores {
            let size = self.value(operand, Type::U32)?;
            if self.bits(size) == 64 {
                let narrow = self.scratch(32)?;
                let op = Op::Convert(scalar(4, false), Scalar::U64, Conversion::default());
                self.emit(Step { d: narrow.into(), a: size.into(), ..Step::new(op) })?;
                return Ok(narrow);
            }
            return if self.bits(size) == 32 { Ok(size) } else { Err(self.width(operand)) };
        }
        let (predicate, negated) = self.predicate(operand)?;
        let (all, none) = (self.constant(32, bytes.into())?, self.constant(32, 0)?);
        let (a, b) = if negated { (all, none) } else { (none, all) };
        let d = self.scratch(32)?;
        let step = Step {
            d: d.into(),
            a: a.into(),
            b: b.into(),
            c: predicate.into(),
            ..Step::new(Op::Selp(Bits::B32))
        };
        self.emit(step)?;
        Ok(d)
    }
}
