//! `wmma`: products of matrices by a warp, whose parts lie in registers as an implementation likes. Here they lie so that `mma` of 16 rows and
//! 8 columns multiplies them, and each lane loads and stores its own.
//!
//! Of `a` and `b` a lane has, of each eighth row or column from `lane / 4` on, K / 4 neighbours along the inner dimension, from
//! `lane % 4 * K / 4` on. Of sums it has what `mma` gives it, of 16 rows and 8 columns after one another. A product of 8 rows and
//! 32 columns is that of the matrices turned over. Of f16, registers beyond that hold the same again. A product of f64 is one of `mma`.

use super::super::Error;
use super::super::build::{Builder, SINK, Slot, Step, Value};
use super::super::shown;
use super::super::syntax::{Operand, Type};
use super::Name;
use super::memory::{Address, SPACES};
use crate::program::{
    Access, Bits, Conversion, Int, Int2, Logic, Mma, MmaInput, Op, Order, Preset, Scalar, Space, Special,
};

/// Rows, columns and inner dimension of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    m: u8,
    n: u8,
    k: u8,
}

const SHAPES: [(&str, Shape); 5] = [
    ("m16n16k16", Shape { m: 16, n: 16, k: 16 }),
    ("m32n8k16", Shape { m: 32, n: 8, k: 16 }),
    ("m8n32k16", Shape { m: 8, n: 32, k: 16 }),
    ("m16n16k8", Shape { m: 16, n: 16, k: 8 }),
    ("m8n8k4", Shape { m: 8, n: 8, k: 4 }),
];

impl Shape {
    /// Whether it is computed as the product of the matrices turned over.
    fn is_turned(self) -> bool {
        self.m < self.n
    }

    /// Eighths of the rows and of the columns of the product that is computed.
    fn eighths(self) -> (usize, usize) {
        let (rows, columns) = if self.is_turned() { (self.n, self.m) } else { (self.m, self.n) };
        (usize::from(rows / 8), usize::from(columns / 8))
    }
}

/// Which matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matrix {
    A,
    B,
    /// What is added, and the result.
    Sums,
}

/// What of a matrix a lane has, and how that lies in memory.
struct Part {
    /// Neighbours that are the lane's own, of so many bytes each.
    each: usize,
    size: usize,
    /// Bytes of a register.
    register: usize,
    /// Whether they are beside one another.
    beside: bool,
    /// So many times, in each eighth of those from `lane / 4` on; and those, in each eighth of the neighbours.
    eighths: usize,
    blocks: usize,
    /// Registers that there are for it.
    registers: usize,
}

impl Part {
    fn of(matrix: Matrix, shape: Shape, ty: Type, row_major: bool) -> Part {
        let (rows, columns) = shape.eighths();
        let size = usize::from(ty.bits() / 8);
        let register = size.max(4);
        if matrix == Matrix::Sums {
            let registers = 2 * rows * columns * size / register;
            let beside = row_major != shape.is_turned();
            return Part { each: 2, size, register, beside, eighths: rows, blocks: columns, registers };
        }
        let of_rows = (matrix == Matrix::A) != shape.is_turned();
        let eighths = if of_rows { rows } else { columns };
        let each = usize::from(shape.k / 4);
        let registers = if ty == Type::F16 { 8 } else { eighths * each * size / register };
        let beside = (matrix == Matrix::A) == row_major;
        Part { each, size, register, beside, eighths, blocks: 1, registers }
    }

    /// Bits of a register.
    fn bits(&self) -> u8 {
        8 * self.register as u8
    }

    /// Registers of one place.
    fn words(&self) -> usize {
        self.each * self.size / self.register
    }

    /// Which of them those of a place are.
    fn first(&self, eighth: usize, block: usize) -> usize {
        ((eighth / 2 * self.blocks + block) * 2 + eighth % 2) * self.words()
    }

    fn distinct(&self) -> usize {
        self.eighths * self.blocks * self.words()
    }
}

/// Where a lane's part begins.
struct Begin {
    access: Access,
    address: Value,
    /// Bytes from one row, or column, to the next.
    stride: Value,
}

impl<'m> Builder<'m> {
    pub(super) fn wmma(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        let is_given = name.take("sync") && name.take("aligned");
        if !is_given {
            return Err(name.lacks("`.sync.aligned`"));
        }
        if name.take("mma") {
            return self.wmma_product(name, operands);
        }
        let loads = name.needs_one("`.load`, `.store` or `.mma`", &[("load", true), ("store", false)])?;
        let matrices = [("a", Matrix::A), ("b", Matrix::B), ("c", Matrix::Sums)];
        let matrices = if loads { &matrices[..] } else { &[("d", Matrix::Sums)] };
        let matrix = name.needs_one("a matrix", matrices)?;
        let row_major = name.needs_one("`.row` or `.col`", &[("row", true), ("col", false)])?;
        let shape = self.wmma_shape(name)?;
        let space = name.one(&SPACES).unwrap_or(Space::Generic);
        let ty = match (name.rest.pop(), matrix, shape.k) {
            (Some("f16"), _, 16) => Type::F16,
            (Some("bf16"), Matrix::A | Matrix::B, 16) => Type::Bf16,
            (Some("s8" | "u8"), Matrix::A | Matrix::B, 16) => Type::B8,
            (Some("tf32"), Matrix::A | Matrix::B, 8) => Type::Tf32,
            (Some("f32"), Matrix::Sums, 8 | 16) | (Some("s32"), Matrix::Sums, 16) => Type::B32,
            (Some("f64"), _, 4) => Type::F64,
            _ => return Err(self.not_emulated(name)),
        };
        name.end()?;
        let part = Part::of(matrix, shape, ty, row_major);
        let (values, address, stride) = match (operands, loads) {
            ([values, address], true) | ([address, values], false) => (values, address, None),
            ([values, address, stride], true) | ([address, values, stride], false) => {
                (values, address, Some(stride))
            }
            _ => return Err(name.count(operands)),
        };
        let leading = match (matrix, row_major) {
            (Matrix::A, true) | (Matrix::B, false) => shape.k,
            (Matrix::A, false) | (Matrix::Sums, false) => shape.m,
            (Matrix::B, true) | (Matrix::Sums, true) => shape.n,
        };
        let stride = match stride {
            Some(stride) => self.source(stride, Type::U32)?,
            None => self.constant(32, leading.into())?,
        };
        let register = if part.register == 8 { Type::F64 } else { Type::B32 };
        let values = if loads { self.places(values)? } else { self.vector(values, register)? };
        self.regular(&values, part.registers, part.bits())?;
        let begin = self.begin_of(&part, address, space, stride)?;
        if loads { self.load_part(&part, &begin, &values) } else { self.store_part(&part, &begin, &values) }
    }

    fn wmma_shape(&self, name: &mut Name<'m>) -> Result<Shape, Error> {
        name.one(&SHAPES).ok_or_else(|| self.not_emulated(name))
    }

    pub(super) fn not_emulated(&self, name: &Name<'m>) -> Error {
        Error::NotEmulated { line: self.here(), what: shown(name.whole) }
    }

    /// A value of two.
    fn computed(&mut self, op: Op, a: Value, b: Value) -> Result<Value, Error> {
        let d = self.scratch(self.bits(a))?;
        self.emit(Step { d: d.into(), a: a.into(), b: b.into(), ..Step::new(op) })?;
        Ok(d)
    }

    /// The address of the first value that a lane has.
    fn begin_of(
        &mut self,
        part: &Part,
        address: &'m Operand,
        space: Space,
        stride: Value,
    ) -> Result<Begin, Error> {
        let Address::At(base, wide, offset) = self.address(address, space)? else {
            return Err(self.operand("address", "not in the space of the instruction"));
        };
        let (int, bits) = if wide { (Int::U64, 64) } else { (Int::U32, 32) };
        let lane = self.preset(32, Preset::Special(Special::LaneId))?;
        let (two, three) = (self.constant(32, 2)?, self.constant(32, 3)?);
        let mut group = self.computed(Op::Int2(Int2::Shr, Int::U32), lane, two)?;
        let mut place = self.computed(Op::Logic(Logic::And, Bits::B32), lane, three)?;
        let mut stride = stride;
        if wide {
            for value in [&mut group, &mut place, &mut stride] {
                let widened = self.scratch(64)?;
                let op = Op::Convert(Scalar::U64, Scalar::U32, Conversion::default());
                self.emit(Step { d: widened.into(), a: (*value).into(), ..Step::new(op) })?;
                *value = widened;
            }
        }
        let times = Op::Int2(Int2::MulLo, int);
        let plus = Op::Int2(Int2::Add, int);
        let (each, size) = (self.constant(bits, part.each as u64)?, self.constant(bits, part.size as u64)?);
        let inner = self.computed(times, place, each)?;
        let (far, near) = if part.beside { (group, inner) } else { (inner, group) };
        let far = self.computed(times, far, stride)?;
        let at = self.computed(plus, far, near)?;
        let at = self.computed(times, at, size)?;
        let address = self.computed(plus, base, at)?;
        let stride = self.computed(times, stride, size)?;
        let access = Access {
            space: self.own_space(space),
            bytes: if part.beside { part.register } else { part.size } as u8,
            count: if part.beside { part.words() as u8 } else { 1 },
            signed: false,
            wide: part.register == 8,
            wide_address: wide,
            offset,
            order: Order::Weak,
            noncoherent: false,
        };
        Ok(Begin { access, address, stride })
    }

    /// So many rows, or columns, further on.
    fn further(&mut self, begin: &Begin, address: Value, count: usize) -> Result<Value, Error> {
        if count == 0 {
            return Ok(address);
        }
        let bits = self.bits(address);
        let int = if bits == 64 { Int::U64 } else { Int::U32 };
        let count = self.constant(bits, count as u64)?;
        let bytes = self.computed(Op::Int2(Int2::MulLo, int), begin.stride, count)?;
        self.computed(Op::Int2(Int2::Add, int), address, bytes)
    }

    /// Where the lane's values are: for each place, its registers, the address of each access and what is added to it.
    fn places_of(&mut self, part: &Part, begin: &Begin) -> Result<Vec<(usize, Vec<Value>, i32)>, Error> {
        let eighth_bytes = (8 * part.size) as i32;
        let mut places = Vec::new();
        if part.beside {
            for eighth in 0..part.eighths {
                let address = self.further(begin, begin.address, 8 * eighth)?;
                for block in 0..part.blocks {
                    let offset = begin.access.offset.wrapping_add(eighth_bytes * block as i32);
                    places.push((part.first(eighth, block), vec![address], offset));
                }
            }
        } else {
            for block in 0..part.blocks {
                let addresses: Vec<Value> = (0..part.each)
                    .map(|index| self.further(begin, begin.address, 8 * block + index))
                    .collect::<Result<_, Error>>()?;
                for eighth in 0..part.eighths {
                    let offset = begin.access.offset.wrapping_add(eighth_bytes * eighth as i32);
                    places.push((part.first(eighth, block), addresses.clone(), offset));
                }
            }
        }
        Ok(places)
    }

    fn load_part(&mut self, part: &Part, begin: &Begin, to: &[Value]) -> Result<(), Error> {
        for (first, addresses, offset) in self.places_of(part, begin)? {
            let access = Access { offset, ..begin.access };
            let to = &to[first..first + part.words()];
            if part.beside {
                let d = self.one_or_list(to);
                self.emit(Step { d, a: addresses[0].into(), ..Step::new(Op::Load(access)) })?;
                continue;
            }
            let in_one = part.register / part.size;
            for (&to, addresses) in to.iter().zip(addresses.chunks(in_one)) {
                let mut word = None;
                for (index, &address) in addresses.iter().enumerate() {
                    let value = self.scratch(part.bits())?;
                    self.emit(Step { d: value.into(), a: address.into(), ..Step::new(Op::Load(access)) })?;
                    word = Some(match word {
                        None => value,
                        Some(below) => self.put_in(below, value, 8 * part.size, index)?,
                    });
                }
                if let Some(word) = word.filter(|_| to != SINK) {
                    self.move_register(word, to)?;
                }
            }
        }
        for index in part.distinct()..to.len() {
            let (from, to) = (to[index % part.distinct()], to[index]);
            if from != SINK && to != SINK {
                self.move_register(from, to)?;
            }
        }
        Ok(())
    }

    fn move_register(&mut self, from: Value, to: Value) -> Result<(), Error> {
        let bits = if self.bits(from) == 64 { Bits::B64 } else { Bits::B32 };
        self.emit(Step { d: to.into(), a: from.into(), ..Step::new(Op::Mov(bits)) })
    }

    /// What an access of so many registers has.
    fn one_or_list(&mut self, registers: &[Value]) -> Slot {
        match *registers {
            [SINK] => Slot::None,
            [one] => one.into(),
            _ => self.list(registers.to_vec()),
        }
    }

    /// A word with a value of so many bits put in at that place.
    fn put_in(&mut self, word: Value, value: Value, bits: usize, index: usize) -> Result<Value, Error> {
        let d = self.scratch(32)?;
        let (at, count) = (self.constant(32, (bits * index) as u64)?, self.constant(32, bits as u64)?);
        let op = Op::Bfi(Bits::B32);
        self.emit(Step {
            d: d.into(),
            a: value.into(),
            b: word.into(),
            c: at.into(),
            f: count.into(),
            ..Step::new(op)
        })?;
        Ok(d)
    }

    fn store_part(&mut self, part: &Part, begin: &Begin, from: &[Value]) -> Result<(), Error> {
        if begin.access.space == Space::Const {
            return Err(self.operand("address", "cannot be written"));
        }
        for (first, addresses, offset) in self.places_of(part, begin)? {
            let access = Access { offset, ..begin.access };
            let from = &from[first..first + part.words()];
            if part.beside {
                let b = self.one_or_list(from);
                self.emit(Step { a: addresses[0].into(), b, ..Step::new(Op::Store(access)) })?;
                continue;
            }
            let in_one = part.register / part.size;
            for (&word, addresses) in from.iter().zip(addresses.chunks(in_one)) {
                for (index, &address) in addresses.iter().enumerate() {
                    let by = self.constant(32, (8 * part.size * index) as u64)?;
                    let value = match index {
                        0 => word,
                        _ => self.computed(Op::Int2(Int2::Shr, Int::U32), word, by)?,
                    };
                    let step = Step { a: address.into(), b: value.into(), ..Step::new(Op::Store(access)) };
                    self.emit(step)?;
                }
            }
        }
        Ok(())
    }

    fn wmma_product(&mut self, name: &mut Name<'m>, operands: &'m [Operand]) -> Result<(), Error> {
        for _ in 0..2 {
            // Where values lie does not hang on how the matrices were laid out.
            name.needs_one("the layouts of `a` and `b`", &[("row", ()), ("col", ())])?;
        }
        let shape = self.wmma_shape(name)?;
        let saturate = name.take("satfinite");
        // To the nearest; no other way of rounding is emulated.
        let rounds = name.take("rn");
        let types: Vec<&str> = std::mem::take(&mut name.rest);
        let (ty, input, sums) = match (&types[..], shape.k) {
            (["f16", "f16"], 16) => (Type::F16, MmaInput::F16, Type::F16),
            (["f32", "f32"], 16) => (Type::F16, MmaInput::F16, Type::B32),
            (["f32", "bf16", "bf16", "f32"], 16) => (Type::Bf16, MmaInput::Bf16, Type::B32),
            (["f32", "tf32", "tf32", "f32"], 8) => (Type::Tf32, MmaInput::Tf32, Type::B32),
            (["s32", a @ ("s8" | "u8"), b, "s32"], 16) if a == b => {
                (Type::B8, MmaInput::I8(*a == "s8", *a == "s8"), Type::B32)
            }
            (["f64", "f64", "f64", "f64"], 4) => (Type::F64, MmaInput::F64, Type::F64),
            _ => return Err(self.not_emulated(name)),
        };
        if saturate && !matches!(input, MmaInput::I8(..)) {
            return Err(name.modifier("satfinite"));
        }
        if rounds && input != MmaInput::F64 {
            return Err(name.modifier("rn"));
        }
        let [d, a, b, c] = name.operands(operands)?;
        let part = |matrix| Part::of(matrix, shape, if matrix == Matrix::Sums { sums } else { ty }, true);
        let (of_a, of_b, of_sums) = (part(Matrix::A), part(Matrix::B), part(Matrix::Sums));
        let d = self.places(d)?;
        let register = if of_a.register == 8 { Type::F64 } else { Type::B32 };
        let [a, b, c] = [self.vector(a, register)?, self.vector(b, register)?, self.vector(c, register)?];
        for (values, part) in [(&d, &of_sums), (&a, &of_a), (&b, &of_b), (&c, &of_sums)] {
            self.regular(values, part.registers, part.bits())?;
        }
        // Several products are made, and what one writes others may still read.
        let mut results = Vec::new();
        for _ in &d {
            results.push(self.scratch(of_sums.bits())?);
        }
        let (rows, columns) = if shape.is_turned() { (&b, &a) } else { (&a, &b) };
        let words = of_a.words();
        let (row_eighths, column_eighths) = shape.eighths();
        // Eighths of the rows that one product of `mma` has.
        let at_once = row_eighths.min(2);
        for row in (0..row_eighths).step_by(at_once) {
            let rows: Vec<Value> =
                (0..at_once * words).map(|r| rows[(row + r % at_once) * words + r / at_once]).collect();
            for column in 0..column_eighths {
                let columns = columns[column * words..(column + 1) * words].to_vec();
                let first = of_sums.first(row, column);
                let range = first..first + at_once * of_sums.words();
                let (c, d) = (c[range.clone()].to_vec(), results[range].to_vec());
                let (a, b) = (self.list(rows.clone()), self.list(columns));
                let (c, d) = (self.list(c), self.list(d));
                let op = Op::Mma(Mma { k: shape.k.into(), input, half: sums == Type::F16, saturate });
                self.emit(Step { d, a, b, c, ..Step::new(op) })?;
            }
        }
        for (to, from) in d.into_iter().zip(results).filter(|(to, _)| *to != SINK) {
            self.move_register(from, to)?;
        }
        Ok(())
    }
}
