//! Kernels in the form in which they run: typed operations over registers of a warp.
//!
//! [`ptx`](crate::ptx) makes this of text, and refuses what it does not know; [`execute`](crate::execute) runs it.
//!
//! A register holds a value for each of the 32 lanes. There are three files: of 32 bits (which hold 8 and 16 bits too, zero-extended),
//! of 64 bits, and of predicates, a bit for each lane. Which file an operand is in follows from the operation. Immediates, parameters
//! and special registers are [presets](Preset): registers that are filled before a warp starts and that nothing writes.

use std::sync::Arc;

use crate::origins::Origins;
use crate::shared;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A register in one of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(pub u16);

impl Reg {
    /// No register: an operand that is absent, a result that is not wanted.
    pub const NONE: Reg = Reg(u16::MAX);

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

/// The predicate under which an instruction is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register, or [`Reg::NONE`].
    pub reg: Reg,
    /// Whether lanes are meant in which it is false.
    pub negated: bool,
}

impl Guard {
    /// Every active lane.
    pub const ALWAYS: Guard = Guard { reg: Reg::NONE, negated: false };
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inst {
    /// What is done.
    pub op: Op,
    /// By which lanes.
    pub guard: Guard,
    /// The result. For results of several registers, the index of their [list](Kernel::lists).
    pub d: Reg,
    /// The second result.
    pub e: Reg,
    /// The first operand; the address of an access to memory.
    pub a: Reg,
    /// The second operand; what is stored. For several registers, the index of their list.
    pub b: Reg,
    /// The third operand.
    pub c: Reg,
    /// The fourth operand.
    pub f: Reg,
}

/// Where an instruction comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Site {
    /// The line in the PTX, from 1.
    pub ptx: u32,
    /// Index of the [source file](Kernel::files), from 0.
    pub file: u32,
    /// The line in the source, from 1; 0 if it is not known.
    pub line: u32,
}

/// What fills a register before a warp starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// The same bits in every lane.
    Bits(u64),
    /// A special register.
    Special(Special),
    /// As many bytes of the parameters as the file has, zero-extended from `bytes`, sign-extended if `signed`.
    Param {
        /// Offset into the parameters in bytes.
        offset: u32,
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// Whether narrower values are sign-extended.
        signed: bool,
    },
}

impl Preset {
    /// Whether lanes of a warp have different ones.
    pub(crate) fn is_of_lane(self) -> bool {
        use Special::*;
        matches!(
            self,
            Preset::Special(Tid(_) | LaneId | LanemaskEq | LanemaskLt | LanemaskLe | LanemaskGt | LanemaskGe)
        )
    }
}

/// What a thread may ask about itself. All are of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Special {
    /// `%tid`, with the axis from 0.
    Tid(u8),
    /// `%ntid`.
    Ntid(u8),
    /// `%ctaid`.
    Ctaid(u8),
    /// `%nctaid`.
    Nctaid(u8),
    LaneId,
    WarpId,
    NwarpId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    /// `%smid`: 0 where blocks run from the first to the last, and any in other orders.
    Smid,
    /// `%nsmid`: as many as the [settings](crate::launch::Settings::multiprocessors) say.
    Nsmid,
    /// `%gridid`: always 0.
    Gridid,
    /// `%dynamic_smem_size`.
    DynamicShared,
    /// `%total_smem_size`.
    TotalShared,
}

/// Parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Name in the PTX.
    pub name: String,
    /// Offset into the parameters in bytes.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Whether it is a floating-point number, or none where the PTX speaks of bits.
    pub is_float: Option<bool>,
}

/// A variable of the module in global or constant memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Name in the PTX.
    pub name: String,
    /// [`Space::Global`] or [`Space::Const`].
    pub space: Space,
    /// What it holds at first; zeros where nothing is said.
    pub bytes: Vec<u8>,
    /// Whether the source gave it a value: otherwise reading before a write is reading zeros, which is right as well.
    pub initialised: bool,
}

/// A kernel.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// Name of the entry.
    pub name: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Instructions.
    pub code: Vec<Inst>,
    /// Where each instruction comes from.
    pub sites: Vec<Site>,
    /// Files of the source.
    pub files: Arc<Vec<String>>,
    /// Registers of 32 bits.
    pub regs32: u16,
    /// Registers of 64 bits.
    pub regs64: u16,
    /// Predicates.
    pub preds: u16,
    /// What is put into registers of 32 bits.
    pub presets32: Vec<(Reg, Preset)>,
    /// What is put into registers of 64 bits.
    pub presets64: Vec<(Reg, Preset)>,
    /// Predicates that hold for every lane, or for none.
    pub presets_pred: Vec<(Reg, bool)>,
    /// Targets of indexed branches.
    pub tables: Vec<Box<[u32]>>,
    /// Operands of several registers.
    pub lists: Vec<Box<[Reg]>>,
    /// What lies in shared memory, and where.
    pub shared: shared::Layout,
    /// Bytes of local memory of a thread.
    pub local_bytes: u32,
    /// Variables of the module. The address of the i-th is that of segment [`VARIABLES`](crate::address::VARIABLES)` + i`.
    pub variables: Arc<Vec<Variable>>,
    /// Threads of a block as `.reqntid` requires.
    pub required_threads: Option<[u32; 3]>,
    /// Most threads of a block by `.maxntid`.
    pub max_threads: Option<u32>,
    /// Formats of `printf`, by [`Op::Printf`].
    pub formats: Vec<Format>,
    /// Which instructions what each uses may come from.
    pub origins: Origins,
}

impl Kernel {
    /// Whether threads may tell each other anything but what barriers order: by atomic operations, by volatile or ordered accesses, by barriers at which
    /// only some wait, or by which lanes or blocks go together. Without that and without races, every order of threads has the same results.
    pub fn tells_between_barriers(&self) -> bool {
        let is_place = |(_, preset): &(Reg, Preset)| *preset == Preset::Special(Special::Smid);
        if self.presets32.iter().any(is_place) {
            return true;
        }
        self.code.iter().any(|inst| match inst.op {
            Op::Load(access) | Op::Store(access) => access.order != Order::Weak,
            Op::Atomic(..) | Op::Mbarrier { .. } | Op::ActiveMask => true,
            Op::Barrier(kind, _) => kind == Barrier::Arrive || inst.b != Reg::NONE,
            _ => false,
        })
    }
}

/// A call of `vprintf` or of `__assertfail`, whose arguments lie in local memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    /// Text with conversions, where it is known.
    pub text: String,
}

/// Where an address points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Space {
    /// By the segment that the address names.
    Generic,
    Global,
    Shared,
    Local,
    Const,
    /// Parameters of the kernel, read at an offset that is not known before.
    Param,
}

/// Type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Int {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

/// Width of bits that are not numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Bits {
    B16,
    B32,
    B64,
    Pred,
}

/// The rounding of a floating-point operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Round {
    /// To nearest, ties to even.
    #[default]
    Nearest,
    /// Towards zero.
    Zero,
    /// Towards minus infinity.
    Down,
    /// Towards plus infinity.
    Up,
}

/// How a floating-point operation goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mode {
    /// Rounding.
    pub round: Round,
    /// Subnormal inputs and results become zeros of their sign.
    pub ftz: bool,
    /// The result is clamped to 0..1, and NaN becomes 0.
    pub sat: bool,
}

/// Integer operations with `a` and `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Int2 {
    Add,
    /// `add.sat`, of s32 only.
    AddSat,
    Sub,
    /// `sub.sat`, of s32 only.
    SubSat,
    MulLo,
    MulHi,
    /// The result has twice the width.
    MulWide,
    Div,
    Rem,
    Min,
    Max,
    /// Shift of `a` by `b` of 32 bits; all bits go at the width and beyond. Signed types keep the sign.
    Shr,
    Shl,
}

/// Integer operations with `a`, `b` and `c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Int3 {
    MadLo,
    MadHi,
    /// `c` and the result have twice the width.
    MadWide,
    /// `c + |a - b|`.
    Sad,
}

/// Operations with and without carry. The carry is a bit for each lane, apart from the predicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Carry {
    Add,
    Sub,
    /// `mad.lo`
    MadLo,
    /// `mad.hi`
    MadHi,
}

/// Operations on bits with `a` and `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Logic {
    And,
    Or,
    Xor,
}

/// Operations of f32, f64 and halves with `a` and `b`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Float2 {
    Add,
    Sub,
    Mul,
    Div,
    /// `div.approx`
    DivApprox,
    /// The number, if one is NaN.
    Min,
    Max,
    /// NaN, if one is NaN.
    MinNan,
    MaxNan,
    /// `copysign d, a, b`: `b` with the sign of `a`.
    CopySign,
}

/// Operations of f32, f64 and halves with `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Float1 {
    Neg,
    Abs,
    Sqrt,
    SqrtApprox,
    Rsqrt,
    Rcp,
    RcpApprox,
    /// `2^a`
    Ex2,
    /// `log2 a`
    Lg2,
    Sin,
    Cos,
    Tanh,
}

/// Types of floating-point numbers. Pairs hold the first in the lower half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Float {
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
}

/// Types between which can be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Scalar {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Scalar {
    /// Bytes of a value.
    pub fn bytes(self) -> u8 {
        match self {
            Scalar::U8 | Scalar::S8 => 1,
            Scalar::U16 | Scalar::S16 | Scalar::F16 | Scalar::Bf16 => 2,
            Scalar::U32 | Scalar::S32 | Scalar::F32 => 4,
            Scalar::U64 | Scalar::S64 | Scalar::F64 => 8,
        }
    }
}

/// How a conversion goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Conversion {
    /// Rounding to a narrower float, or to an integer.
    pub round: Round,
    /// Whether a float is rounded to an integral value: `.rni` and its kind. Set whenever the result is an integer.
    pub integral: bool,
    /// Subnormal f32 inputs and results become zeros.
    pub ftz: bool,
    /// Clamped to the range of the result, or to 0..1 for floats.
    pub sat: bool,
    /// Negative results and NaN become 0.
    pub relu: bool,
}

/// Functions of libdevice that have no instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Intrinsic {
    Sqrt,
    Rsqrt,
    Cbrt,
    Exp,
    Exp2,
    Exp10,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    /// To the nearest integer, ties away from zero.
    Round,
    /// `a` to the power of `b`.
    Pow,
    Atan2,
    Hypot,
    /// The remainder of `a / b`, with the sign of `a`.
    Fmod,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// As before, or one is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Neither is NaN.
    Num,
    /// One is NaN.
    Nan,
}

/// With what a comparison is joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Join {
    /// With nothing.
    Alone,
    And,
    Or,
    Xor,
}

/// Types that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Comparable {
    Int(Int),
    Float(Float),
}

/// From which lane a shuffle takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// What a warp votes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// Atomic operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    /// `b` is what is compared with, `c` what is put.
    CompareAndSwap,
    /// `old >= b ? 0 : old + 1`
    Increment,
    /// `old == 0 || old > b ? b : old - 1`
    Decrement,
}

impl Atomic {
    /// Whether it is right whatever its thread read there before: swaps if that still holds, or leaves what is better.
    pub(crate) fn finds_out(self) -> bool {
        matches!(self, Atomic::CompareAndSwap | Atomic::Min | Atomic::Max)
    }
}

/// Types of atomic operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AtomicType {
    Int(Int),
    /// Bits of 16, 32 or 64.
    Bits(Bits),
    Float(Float),
}

impl AtomicType {
    /// Bytes of a value.
    pub fn bytes(self) -> u8 {
        match self {
            AtomicType::Int(Int::U16 | Int::S16) | AtomicType::Bits(Bits::B16) => 2,
            AtomicType::Float(Float::F16 | Float::Bf16) => 2,
            AtomicType::Int(Int::U64 | Int::S64)
            | AtomicType::Bits(Bits::B64)
            | AtomicType::Float(Float::F64) => 8,
            _ => 4,
        }
    }
}

/// How an access is ordered with those of other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Order {
    /// As any other.
    #[default]
    Weak,
    /// `volatile` and `relaxed`: no race, but orders nothing.
    Relaxed,
    Acquire,
    Release,
    AcquireRelease,
}

/// Among which threads something is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)]
pub enum Scope {
    Block,
    #[default]
    Device,
}

/// An access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Access {
    /// Where.
    pub space: Space,
    /// Bytes of one value: 1, 2, 4 or 8.
    pub bytes: u8,
    /// Values beside one another: 1, 2 or 4.
    pub count: u8,
    /// Whether a load of fewer bytes than the register has extends the sign.
    pub signed: bool,
    /// Whether the value is in registers of 64 bits.
    pub wide: bool,
    /// Whether the address is in a register of 64 bits.
    pub wide_address: bool,
    /// Added to the address.
    pub offset: i32,
    /// Ordering.
    pub order: Order,
    /// Whether it goes through a cache that sees no writes of the launch: `ld.global.nc`.
    pub noncoherent: bool,
}

/// How a barrier is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Barrier {
    /// Waits.
    Sync,
    /// Counts, and goes on.
    Arrive,
    /// Waits, and counts the threads whose predicate `c` holds.
    Popc,
    /// Waits, and says whether all did.
    And,
    /// Waits, and says whether one did.
    Or,
}

/// What is done with an mbarrier: a barrier in a word of 64 bits of shared memory, of which each phase is complete once so many arrivals have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mbarrier {
    /// Makes the word a barrier of `b` arrivals.
    Init,
    /// Makes it none.
    Invalidate,
    /// Counts `b` arrivals, or one if there is no `b`; the result is the state before.
    Arrive {
        /// Whether the phases to come wait for as many less.
        drop: bool,
        /// Whether it may be the last of its phase.
        completes: bool,
    },
    /// Arrives when all that the thread has copied asynchronously until now is there.
    ArriveAfterCopies {
        /// Whether it is one of the arrivals that the phase waits for; otherwise it waits for one more.
        counted: bool,
    },
    /// Whether the phase of state `b` is complete; or, of `parity`, the last whose number has parity `b`, of 32 bits.
    Test {
        /// Which.
        parity: bool,
    },
}

/// Bits of the counts of an mbarrier, and where in its word the arrivals are that it still waits for.
pub(crate) const COUNT_BITS: u8 = 20;
pub(crate) const PENDING_AT: u8 = COUNT_BITS;

/// Matrix products of a warp, `d = a b + c`, with `a` of 16 rows, or 8 of f64, and `b` of 8 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mma {
    /// The inner dimension: a power of 2 from 4 to 256.
    pub k: u16,
    /// What `a` and `b` hold.
    pub input: MmaInput,
    /// Whether `c` and `d` are f16, and not f32, f64 or s32.
    pub half: bool,
    /// Whether s32 sums are clamped.
    pub saturate: bool,
}

/// What matrices hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MmaInput {
    F16,
    Bf16,
    Tf32,
    /// Bytes; whether `a` and `b` are signed.
    I8(bool, bool),
    /// Half bytes; whether `a` and `b` are signed.
    I4(bool, bool),
    /// Single bits, of which those are counted that both have set, or else those that differ.
    B1 {
        both: bool,
    },
    F64,
}

/// An asynchronous copy from global to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AsyncCopy {
    /// 4, 8 or 16.
    pub bytes: u8,
    /// Whether the first-level cache is passed by.
    pub bypass: bool,
    /// Whether the shared address is of 64 bits.
    pub wide_address: bool,
}

/// What is done. Operands are `a`, `b`, `c`, `f` of [`Inst`] in this order, results `d` and `e`, unless it is said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    // Numbers
    /// Integers.
    Int2(Int2, Int),
    /// Integers.
    Int3(Int3, Int),
    /// The lower 24 bits of `a` and `b`, signed or not, plus `c` if there is one; the lower 32 bits of the product, or those from 16 on.
    Mul24 {
        /// Whether they are signed.
        signed: bool,
        /// Whether bits from 16 on are meant.
        high: bool,
    },
    /// `-a` of signed integers.
    IntNeg(Int),
    /// `|a|` of signed integers.
    IntAbs(Int),
    /// Sum with carries, of u32 or u64.
    Carried {
        /// What is computed.
        op: Carry,
        /// Signedness matters for `mad.hi` only.
        ty: Int,
        /// Whether the carry is added.
        input: bool,
        /// Whether it is left.
        output: bool,
    },
    /// Four products of bytes plus `c`; whether `a` and `b` are signed.
    Dp4a(bool, bool),
    /// Two products of 16 bits of `a` and the lower or upper two bytes of `b`, plus `c`; whether `a` and `b` are signed.
    Dp2a(bool, bool, bool),
    /// Floats.
    Float2(Float2, Float, Mode),
    /// Floats.
    Float1(Float1, Float, Mode),
    /// `a * b + c`, rounded once; negative results and NaN become 0 with `relu`.
    Fma(Float, Mode, bool),
    /// A value of another type: of the first, from the second. From a float to an integer it is always clamped.
    Convert(Scalar, Scalar, Conversion),
    /// Two f32 to a pair of halves: `a` to the upper, `b` to the lower.
    ConvertPair(Float, Conversion),
    /// An f32 rounded to 10 bits of fraction, ties away from zero: `cvt.rna.tf32.f32`.
    RoundTf32,
    /// A function that has no instruction, of f32 or f64, by the host's arithmetic in f64.
    Intrinsic(Intrinsic, Float),

    // Bits
    /// `and`, `or`, `xor`.
    Logic(Logic, Bits),
    /// `not`.
    Not(Bits),
    /// `cnot`: 1 for 0, and 0 otherwise.
    Cnot(Bits),
    /// Any function of three bits, by its truth table.
    Lop3(u8),
    /// The upper 32 bits of `b:a` shifted left by `c`, or the lower shifted right; amounts beyond 32 wrap or are clamped.
    Funnel {
        /// Left or right.
        left: bool,
        /// Whether amounts wrap.
        wrap: bool,
    },
    /// Bits that are set; the result is of 32 bits.
    Popc(Bits),
    /// Leading zeros; the result is of 32 bits.
    Clz(Bits),
    /// Bits in reverse.
    Brev(Bits),
    /// The highest bit that is set, or not the sign; -1 without one. With `shift`, by how much it is to be shifted to the top.
    Bfind(Int, bool),
    /// `c` bits of `a` from bit `b` on.
    Bfe(Int),
    /// The lower `f` bits of `a` put into `b` from bit `c` on.
    Bfi(Bits),
    /// A mask of `b` bits from bit `a` on; amounts wrap or are clamped.
    Bmsk(bool),
    /// Bytes of `b:a` chosen by half bytes of `c`.
    Prmt(PrmtMode),

    // Moves, comparisons and choices
    /// `d = a`.
    Mov(Bits),
    /// A list of registers to one: two of 32 bits to 64, two or four of 16 bits. `a` is the index of the list; the bits are those of a
    /// part and of the whole.
    Pack(Bits, Bits),
    /// The reverse; `d` is the index of the list, in which [`Reg::NONE`] may stand. The bits are those of a part and of the whole.
    Unpack(Bits, Bits),
    /// A predicate by a comparison.
    Setp(Setp),
    /// `set`: all ones or 1.0, or 0, by a comparison; of a pair of halves, a pair.
    Set(Setp, SetResult),
    /// `c ? a : b`, by a predicate.
    Selp(Bits),
    /// `c >= 0 ? a : b`, by an s32 or f32.
    Slct(Bits, Comparable),
    /// `testp`.
    Testp(Testp, Float),

    // Warps. All but the first are of the lanes of a mask, which wait for each other.
    /// Which lanes are here.
    ActiveMask,
    /// Takes `a` of another lane by `b`, within segments by `c`; the mask is `f`. Predicate `e`, if wanted, says whether the lane was in
    /// range.
    Shuffle(Shuffle),
    /// Votes on predicate `a`, negated or not; the mask is `b`. A ballot's result is of 32 bits, others are predicates.
    Vote(Vote, bool),
    /// Which lanes have the same `a`; the mask is `b`. With `all`, all or none, and predicate `e`, if wanted, says which.
    Match {
        /// Of 32 or 64 bits.
        bits: Bits,
        /// Whether all must be equal.
        all: bool,
    },
    /// A reduction of `a` of all lanes; the mask is `b`.
    Redux(Atomic, Int),
    /// Waits for the lanes of mask `a`; their accesses to memory are ordered.
    WarpSync,

    // Memory
    /// Loads to `d`, or to list `d`, from the address `a`.
    Load(Access),
    /// Stores `b`, or list `b`, to the address `a`.
    Store(Access),
    /// An atomic operation of `b` (and `c`) at address `a`. `access.order` is relaxed at least; the old value is the result, if there is one.
    Atomic(Atomic, AtomicType, Access, Scope),
    /// The address `a` within a space to a generic one, or the reverse.
    ConvertAddress {
        /// Which space.
        space: Space,
        /// From generic to the space.
        to_space: bool,
        /// Whether addresses are of 64 bits.
        wide: bool,
    },
    /// Whether generic address `a` is in the space; the result is a predicate.
    IsSpace(Space),
    /// Orders accesses of this thread before with those after.
    Fence(Scope),
    /// Copies bytes from global address `b` to shared address `a` later: `c`, if present, says how many come from there, and the others
    /// are zeros.
    CopyAsync(AsyncCopy),
    /// Makes a group of the copies since the last.
    CommitGroup,
    /// Waits until at most so many of the last groups are under way; all, with those without a group, for `None`.
    WaitGroup(Option<u16>),
    /// An mbarrier at shared address `a`.
    Mbarrier {
        /// What is done with it.
        kind: Mbarrier,
        /// Whether the address is of 64 bits.
        wide_address: bool,
    },
    /// `ldmatrix`: 1, 2 or 4 matrices of 8 by 8 values of 16 bits from rows whose shared addresses are `a`; `d` is a list.
    LoadMatrix {
        /// How many.
        count: u8,
        /// Whether each is transposed.
        transposed: bool,
        /// Whether the address is of 64 bits.
        wide_address: bool,
    },
    /// `mma.sync`; all operands are lists.
    Mma(Mma),

    // Control
    /// Goes on at `target`.
    Branch {
        /// Index of an instruction.
        target: u32,
        /// Where lanes that go apart meet again; [`NEVER`] if they do not. Lanes that exit on the way do not come.
        join: u32,
    },
    /// Goes on at the `a`-th target of the table; nowhere else.
    BranchIndexed {
        /// Which of the kernel's [tables](Kernel::tables).
        table: u32,
        /// Where lanes that go apart meet again.
        join: u32,
    },
    /// Lanes that went apart meet here. No instruction of the PTX, and not counted.
    Meet,
    /// A barrier of the block: `a` is its number, `b` the count of threads, if there is one. Whether the threads of a warp must come to it
    /// together.
    Barrier(Barrier, bool),
    /// Ends the thread.
    Exit,
    /// Ends the launch: `__trap()`.
    Trap,
    /// Nothing: `nanosleep`, hints, prefetches.
    Nop,
    /// Prints by format `formats[i]` with arguments at local or generic address `b`; `d`, if any, is the number of arguments.
    Printf(u16),
    /// Ends the launch with the message `formats[i]`.
    AssertFail(u16),
}

/// `setp` and `set`. Of `setp`, `d` is the result and `e` its complement; one of them may be [`Reg::NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Setp {
    /// How `a` and `b` are compared.
    pub compare: Compare,
    /// What they are. Of pairs of halves, `d` is the result of the first and `e` that of the second.
    pub ty: Comparable,
    /// How the result is joined with predicate `c`.
    pub join: Join,
    /// Whether `c` is negated.
    pub negated: bool,
    /// Subnormal inputs are zeros.
    pub ftz: bool,
}

/// What `set` gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum SetResult {
    Ones,
    F32,
    F16,
    Bf16,
}

/// How `prmt` chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PrmtMode {
    Index,
    Forward4,
    Backward4,
    Replicate8,
    EdgeLeft,
    EdgeRight,
    Replicate16,
}

/// What `testp` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Testp {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Lanes never meet again.
pub const NEVER: u32 = u32::MAX;
