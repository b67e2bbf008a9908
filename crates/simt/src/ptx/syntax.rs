//! What a module says, before anything is checked but its form.

/// A type as it is written, in registers and variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Type {
    U8,
    S8,
    B8,
    U16,
    S16,
    B16,
    F16,
    Bf16,
    U32,
    S32,
    B32,
    F32,
    F16x2,
    Bf16x2,
    Tf32,
    U64,
    S64,
    B64,
    F64,
    B128,
    Pred,
}

impl Type {
    /// Whether it is of floating-point numbers, or none if it is of bits.
    pub fn is_float(self) -> Option<bool> {
        use Type::{B8, B16, B32, B64, B128, Pred, S8, S16, S32, S64, U8, U16, U32, U64};
        match self {
            B8 | B16 | B32 | B64 | B128 | Pred => None,
            U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64 => Some(false),
            _ => Some(true),
        }
    }

    /// The type of that name, without a point.
    pub fn named(name: &str) -> Option<Type> {
        Some(match name {
            "u8" => Type::U8,
            "s8" => Type::S8,
            "b8" => Type::B8,
            "u16" => Type::U16,
            "s16" => Type::S16,
            "b16" => Type::B16,
            "f16" => Type::F16,
            "bf16" => Type::Bf16,
            "u32" => Type::U32,
            "s32" => Type::S32,
            "b32" => Type::B32,
            "f32" => Type::F32,
            "f16x2" => Type::F16x2,
            "bf16x2" => Type::Bf16x2,
            "tf32" => Type::Tf32,
            "u64" => Type::U64,
            "s64" => Type::S64,
            "b64" => Type::B64,
            "f64" => Type::F64,
            "b128" => Type::B128,
            "pred" => Type::Pred,
            _ => return None,
        })
    }

    /// Bits of a value; 1 of a predicate.
    pub fn bits(self) -> u8 {
        match self {
            Type::Pred => 1,
            Type::U8 | Type::S8 | Type::B8 => 8,
            Type::U16 | Type::S16 | Type::B16 | Type::F16 | Type::Bf16 => 16,
            Type::U32 | Type::S32 | Type::B32 | Type::F32 | Type::F16x2 | Type::Bf16x2 | Type::Tf32 => 32,
            Type::U64 | Type::S64 | Type::B64 | Type::F64 => 64,
            Type::B128 => 128,
        }
    }

    /// Whether it is a signed integer.
    pub fn signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }
}

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// An integer, as 64 bits.
    Int(u64),
    /// `0f` and eight digits.
    Single(u32),
    /// `0d` and sixteen digits, or a decimal fraction.
    Double(u64),
}

/// An operand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    /// A register, variable or label.
    Name(String),
    /// `name + offset`.
    Offset(String, i64),
    /// `!name`.
    Not(String),
    Number(Number),
    /// `{..}`
    Vector(Vec<Operand>),
    /// `[..]`
    Address(Vec<Operand>),
    /// `(..)`
    Group(Vec<Operand>),
    /// `p|q`
    Pair(String, String),
}

/// The space of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

/// A part of an initialiser.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Initial {
    Number(Number),
    /// The address of a variable, and what is added to it.
    Address(String, i64),
    Bytes(Vec<u8>),
    List(Vec<Initial>),
}

/// A variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variable {
    pub line: u32,
    pub name: String,
    pub place: Place,
    /// Bytes of an element: of all parts, for a vector.
    pub element: u64,
    pub align: u64,
    /// Bytes of all; `None` for an array without a length.
    pub size: Option<u64>,
    /// Bytes of a part, by which an initialiser goes.
    pub part: Type,
    pub initial: Option<Initial>,
    pub external: bool,
}

/// A thing within a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Statement {
    pub line: u32,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// Registers: name, how many of `name0..` there are, and parts of a vector.
    Registers {
        ty: Type,
        parts: u8,
        names: Vec<(String, Option<u32>)>,
    },
    Variable(Variable),
    Label(String),
    Scope(Vec<Statement>),
    /// Lines from here on are of a file of the source.
    Location {
        file: u32,
        line: u32,
    },
    /// Targets of an indexed branch.
    Targets(Vec<String>),
    Instruction {
        guard: Option<(String, bool)>,
        name: String,
        operands: Vec<Operand>,
    },
}

/// A kernel or a function.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Function {
    pub line: u32,
    pub name: String,
    pub entry: bool,
    pub results: Vec<Formal>,
    pub params: Vec<Formal>,
    /// `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    pub required_threads: Option<[u32; 3]>,
    pub max_threads: Option<u32>,
    /// A directive that is not emulated, and its line.
    pub refused: Option<(u32, String)>,
}

/// A formal parameter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Formal {
    /// In the parameter space.
    Memory(Variable),
    /// In a register.
    Register(String, Type),
}

/// All of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Text {
    pub files: Vec<(u32, String)>,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}
