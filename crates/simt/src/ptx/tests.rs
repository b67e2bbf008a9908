use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::build::{Lowered, Value};
use super::*;
use crate::address;
use crate::program::*;

/// PTX that clang 19 made of the sources beside it:
/// `clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx80 -nocudainc -nocudalib -O3 -gline-tables-only
/// -fdebug-compilation-dir=. -S vadd.cu -o vadd.ptx`
const FIXTURES: [(&str, &str); 7] = [
    ("language", include_str!("../../tests/fixtures/language.ptx")),
    ("layer_norm", include_str!("../../tests/fixtures/layer_norm.ptx")),
    ("paged_decode", include_str!("../../tests/fixtures/paged_decode.ptx")),
    ("reduce", include_str!("../../tests/fixtures/reduce.ptx")),
    ("softmax_topk", include_str!("../../tests/fixtures/softmax_topk.ptx")),
    ("tensor", include_str!("../../tests/fixtures/tensor.ptx")),
    ("vadd", include_str!("../../tests/fixtures/vadd.ptx")),
];

fn fixture(name: &str) -> Module {
    let (_, text) = FIXTURES.iter().find(|(file, _)| *file == name).unwrap();
    Module::parse(text).unwrap()
}

/// A module with the kernel `k` of that body, which has registers of every kind; the body begins on line 16.
fn text(body: &str) -> String {
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.global .align 4 .u32 counter;
.const .align 4 .b8 table[16];
.visible .entry k(
  .param .u64 .ptr .global .align 16 p0,
  .param .align 4 .b8 p1[12],
  .param .u8 p2
)
{{
  .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b8 %b<9>;
  .reg .b32 %r<99>; .reg .f32 %f<99>; .reg .b64 %rd<99>; .reg .f64 %fd<9>;
  .shared .align 8 .b8 tile[40]; .local .align 4 .b8 depot[12];
{body}
  ret;
}}
"
    )
}

fn lowered(body: &str) -> Kernel {
    Module::parse(&text(body)).unwrap().kernel("k").unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn refused(body: &str) -> String {
    let module = Module::parse(&text(body));
    match module.and_then(|module| module.kernel("k")) {
        Ok(_) => panic!("taken: {body}"),
        Err(error) => error.to_string(),
    }
}

/// The operations of a body.
fn ops(body: &str) -> Vec<Op> {
    let mut ops: Vec<Op> = lowered(body).code.iter().map(|inst| inst.op).collect();
    assert_eq!(ops.pop(), Some(Op::Exit), "{body}");
    ops
}

const RN: Mode = Mode { round: Round::Nearest, ftz: false, sat: false };

fn access(space: Space, bytes: u8) -> Access {
    Access {
        space,
        bytes,
        count: 1,
        signed: false,
        wide: bytes == 8,
        wide_address: true,
        offset: 0,
        order: Order::Weak,
        noncoherent: false,
    }
}

fn mbarrier(kind: Mbarrier, wide_address: bool) -> Op {
    Op::Mbarrier { kind, wide_address }
}

fn setp(compare: Compare, ty: Comparable) -> Setp {
    Setp { compare, ty, join: Join::Alone, negated: false, ftz: false }
}

#[test]
fn each_instruction_is_one_operation() {
    use Comparable as C;
    let global = access(Space::Global, 4);
    let convert = Conversion::default();
    let integral = Conversion { integral: true, sat: true, ..convert };
    let cases: Vec<(&str, Op)> = vec![
        // Numbers.
        ("add.s32 %r1, %r2, %r3", Op::Int2(Int2::Add, Int::S32)),
        ("add.sat.s32 %r1, %r2, -3", Op::Int2(Int2::AddSat, Int::S32)),
        ("sub.u64 %rd1, %rd2, 1", Op::Int2(Int2::Sub, Int::U64)),
        ("add.s16 %rs1, %rs2, %rs3", Op::Int2(Int2::Add, Int::S16)),
        ("mul.lo.u32 %r1, %r2, %r3", Op::Int2(Int2::MulLo, Int::U32)),
        ("mul.hi.s64 %rd1, %rd2, %rd3", Op::Int2(Int2::MulHi, Int::S64)),
        ("mul.wide.s32 %rd1, %r2, 4", Op::Int2(Int2::MulWide, Int::S32)),
        ("mul.wide.u16 %r1, %rs2, %rs3", Op::Int2(Int2::MulWide, Int::U16)),
        ("div.s32 %r1, %r2, %r3", Op::Int2(Int2::Div, Int::S32)),
        ("rem.u64 %rd1, %rd2, %rd3", Op::Int2(Int2::Rem, Int::U64)),
        ("max.u16 %rs1, %rs2, %rs3", Op::Int2(Int2::Max, Int::U16)),
        ("shr.s32 %r1, %r2, %r3", Op::Int2(Int2::Shr, Int::S32)),
        ("shr.b64 %rd1, %rd2, 3", Op::Int2(Int2::Shr, Int::U64)),
        ("shl.b16 %rs1, %rs2, 3", Op::Int2(Int2::Shl, Int::U16)),
        ("mad.lo.s32 %r1, %r2, %r3, %r4", Op::Int3(Int3::MadLo, Int::S32)),
        ("mad.wide.u32 %rd1, %r2, %r3, %rd4", Op::Int3(Int3::MadWide, Int::U32)),
        ("sad.u32 %r1, %r2, %r3, %r4", Op::Int3(Int3::Sad, Int::U32)),
        ("mul24.lo.u32 %r1, %r2, %r3", Op::Mul24 { signed: false, high: false }),
        ("mad24.hi.s32 %r1, %r2, %r3, %r4", Op::Mul24 { signed: true, high: true }),
        ("neg.s32 %r1, %r2", Op::IntNeg(Int::S32)),
        ("abs.s64 %rd1, %rd2", Op::IntAbs(Int::S64)),
        (
            "add.cc.u32 %r1, %r2, %r3",
            Op::Carried { op: Carry::Add, ty: Int::U32, input: false, output: true },
        ),
        (
            "addc.s64 %rd1, %rd2, %rd3",
            Op::Carried { op: Carry::Add, ty: Int::S64, input: true, output: false },
        ),
        (
            "subc.cc.u32 %r1, %r2, %r3",
            Op::Carried { op: Carry::Sub, ty: Int::U32, input: true, output: true },
        ),
        (
            "mad.lo.cc.u32 %r1, %r2, %r3, %r4",
            Op::Carried { op: Carry::MadLo, ty: Int::U32, input: false, output: true },
        ),
        (
            "madc.hi.cc.u32 %r1, %r2, %r3, %r4",
            Op::Carried { op: Carry::MadHi, ty: Int::U32, input: true, output: true },
        ),
        ("dp4a.u32.s32 %r1, %r2, %r3, %r4", Op::Dp4a(false, true)),
        ("dp2a.hi.s32.u32 %r1, %r2, %r3, %r4", Op::Dp2a(true, false, true)),
        ("add.f32 %f1, %f2, %f3", Op::Float2(Float2::Add, Float::F32, RN)),
        ("add.rn.ftz.sat.f32 %f1, %f2, 0f3F800000", {
            Op::Float2(Float2::Add, Float::F32, Mode { ftz: true, sat: true, ..RN })
        }),
        (
            "mul.rz.f64 %fd1, %fd2, 2.5",
            Op::Float2(Float2::Mul, Float::F64, Mode { round: Round::Zero, ..RN }),
        ),
        ("sub.ftz.f16x2 %r1, %r2, %r3", Op::Float2(Float2::Sub, Float::F16x2, Mode { ftz: true, ..RN })),
        ("mul.rn.bf16 %rs1, %rs2, %rs3", Op::Float2(Float2::Mul, Float::Bf16, RN)),
        ("div.rn.f32 %f1, %f2, %f3", Op::Float2(Float2::Div, Float::F32, RN)),
        ("div.full.f32 %f1, %f2, %f3", Op::Float2(Float2::Div, Float::F32, RN)),
        ("div.approx.f32 %f1, %f2, %f3", Op::Float2(Float2::DivApprox, Float::F32, RN)),
        ("min.NaN.bf16x2 %r1, %r2, %r3", Op::Float2(Float2::MinNan, Float::Bf16x2, RN)),
        ("max.f64 %fd1, %fd2, %fd3", Op::Float2(Float2::Max, Float::F64, RN)),
        ("copysign.f32 %f1, %f2, %f3", Op::Float2(Float2::CopySign, Float::F32, RN)),
        ("sqrt.rn.f64 %fd1, %fd2", Op::Float1(Float1::Sqrt, Float::F64, RN)),
        (
            "sqrt.approx.ftz.f32 %f1, %f2",
            Op::Float1(Float1::SqrtApprox, Float::F32, Mode { ftz: true, ..RN }),
        ),
        ("rcp.rp.f32 %f1, %f2", Op::Float1(Float1::Rcp, Float::F32, Mode { round: Round::Up, ..RN })),
        (
            "rcp.approx.ftz.f64 %fd1, %fd2",
            Op::Float1(Float1::RcpApprox, Float::F64, Mode { ftz: true, ..RN }),
        ),
        ("rsqrt.approx.f32 %f1, %f2", Op::Float1(Float1::Rsqrt, Float::F32, RN)),
        ("ex2.approx.ftz.bf16x2 %r1, %r2", Op::Float1(Float1::Ex2, Float::Bf16x2, Mode { ftz: true, ..RN })),
        ("ex2.approx.f16 %rs1, %rs2", Op::Float1(Float1::Ex2, Float::F16, RN)),
        ("tanh.approx.f16x2 %r1, %r2", Op::Float1(Float1::Tanh, Float::F16x2, RN)),
        ("lg2.approx.f32 %f1, %f2", Op::Float1(Float1::Lg2, Float::F32, RN)),
        ("neg.f16x2 %r1, %r2", Op::Float1(Float1::Neg, Float::F16x2, RN)),
        ("abs.ftz.f32 %f1, %f2", Op::Float1(Float1::Abs, Float::F32, Mode { ftz: true, ..RN })),
        ("fma.rn.f32 %f1, %f2, %f3, %f4", Op::Fma(Float::F32, RN, false)),
        ("fma.rm.f64 %fd1, %fd2, %fd3, %fd4", Op::Fma(Float::F64, Mode { round: Round::Down, ..RN }, false)),
        ("fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4", Op::Fma(Float::Bf16x2, RN, true)),
        ("mad.rn.f32 %f1, %f2, %f3, %f4", Op::Fma(Float::F32, RN, false)),
        ("testp.subnormal.f32 %p1, %f2", Op::Testp(Testp::Subnormal, Float::F32)),
        // Conversions.
        ("cvt.u64.u32 %rd1, %r1", Op::Convert(Scalar::U64, Scalar::U32, convert)),
        ("cvt.s32.s8 %r1, %r2", Op::Convert(Scalar::S32, Scalar::S8, convert)),
        (
            "cvt.sat.u16.s32 %rs1, %r1",
            Op::Convert(Scalar::U16, Scalar::S32, Conversion { sat: true, ..convert }),
        ),
        ("cvt.rzi.ftz.s32.f32 %r1, %f1", {
            Op::Convert(Scalar::S32, Scalar::F32, Conversion { round: Round::Zero, ftz: true, ..integral })
        }),
        ("cvt.rn.f32.s64 %f1, %rd1", Op::Convert(Scalar::F32, Scalar::S64, convert)),
        ("cvt.rmi.f32.f32 %f1, %f2", {
            Op::Convert(
                Scalar::F32,
                Scalar::F32,
                Conversion { round: Round::Down, integral: true, ..convert },
            )
        }),
        (
            "cvt.sat.f32.f32 %f1, %f2",
            Op::Convert(Scalar::F32, Scalar::F32, Conversion { sat: true, ..convert }),
        ),
        ("cvt.f64.f32 %fd1, %f1", Op::Convert(Scalar::F64, Scalar::F32, convert)),
        ("cvt.rz.f16.f32 %rs1, %f1", {
            Op::Convert(Scalar::F16, Scalar::F32, Conversion { round: Round::Zero, ..convert })
        }),
        ("cvt.rn.relu.bf16.f32 %rs1, %f1", {
            Op::Convert(Scalar::Bf16, Scalar::F32, Conversion { relu: true, ..convert })
        }),
        ("cvt.f32.bf16 %f1, %rs1", Op::Convert(Scalar::F32, Scalar::Bf16, convert)),
        ("cvt.rn.f16x2.f32 %r1, %f1, %f2", Op::ConvertPair(Float::F16x2, convert)),
        ("cvt.rz.relu.bf16x2.f32 %r1, %f1, %f2", {
            Op::ConvertPair(Float::Bf16x2, Conversion { round: Round::Zero, relu: true, ..convert })
        }),
        ("cvt.rna.tf32.f32 %r1, %f1", Op::RoundTf32),
        // Bits.
        ("and.b32 %r1, %r2, 15", Op::Logic(Logic::And, Bits::B32)),
        ("xor.pred %p1, %p2, %p3", Op::Logic(Logic::Xor, Bits::Pred)),
        ("not.b64 %rd1, %rd2", Op::Not(Bits::B64)),
        ("cnot.b16 %rs1, %rs2", Op::Cnot(Bits::B16)),
        ("lop3.b32 %r1, %r2, %r3, %r4, 0xE8", Op::Lop3(0xe8)),
        ("shf.l.wrap.b32 %r1, %r2, %r3, %r4", Op::Funnel { left: true, wrap: true }),
        ("shf.r.clamp.b32 %r1, %r2, %r3, 7", Op::Funnel { left: false, wrap: false }),
        ("popc.b64 %r1, %rd1", Op::Popc(Bits::B64)),
        ("clz.b32 %r1, %r2", Op::Clz(Bits::B32)),
        ("brev.b64 %rd1, %rd2", Op::Brev(Bits::B64)),
        ("bfind.shiftamt.s32 %r1, %r2", Op::Bfind(Int::S32, true)),
        ("bfe.u64 %rd1, %rd2, 3, %r4", Op::Bfe(Int::U64)),
        ("bfi.b32 %r1, %r2, %r3, 8, 16", Op::Bfi(Bits::B32)),
        ("bmsk.clamp.b32 %r1, %r2, %r3", Op::Bmsk(false)),
        ("prmt.b32 %r1, %r2, %r3, 0x5410", Op::Prmt(PrmtMode::Index)),
        ("prmt.b32.rc16 %r1, %r2, %r3, %r4", Op::Prmt(PrmtMode::Replicate16)),
        // Moves, comparisons and choices.
        ("mov.b32 %f1, %r1", Op::Mov(Bits::B32)),
        ("mov.b32 %r1, {%rs1, %rs2}", Op::Pack(Bits::B16, Bits::B32)),
        ("mov.b64 %rd1, {%rs1, %rs2, %rs3, %rs4}", Op::Pack(Bits::B16, Bits::B64)),
        ("mov.b64 {%r1, _}, %rd1", Op::Unpack(Bits::B32, Bits::B64)),
        ("setp.lt.s32 %p1, %r1, %r2", Op::Setp(setp(Compare::Lt, C::Int(Int::S32)))),
        ("setp.hs.u64 %p1, %rd1, 5", Op::Setp(setp(Compare::Ge, C::Int(Int::U64)))),
        ("setp.ne.b16 %p1, %rs1, 0", Op::Setp(setp(Compare::Ne, C::Int(Int::U16)))),
        ("setp.geu.ftz.f32 %p1|%p2, %f1, 0f00000000", {
            Op::Setp(Setp { ftz: true, ..setp(Compare::Geu, C::Float(Float::F32)) })
        }),
        ("setp.eq.or.f16x2 %p1|_, %r1, %r2, !%p3", {
            Op::Setp(Setp { join: Join::Or, negated: true, ..setp(Compare::Eq, C::Float(Float::F16x2)) })
        }),
        ("set.gt.ftz.u32.f32 %r1, %f1, %f2", {
            Op::Set(Setp { ftz: true, ..setp(Compare::Gt, C::Float(Float::F32)) }, SetResult::Ones)
        }),
        ("set.le.and.f32.s32 %f1, %r1, %r2, %p1", {
            Op::Set(Setp { join: Join::And, ..setp(Compare::Le, C::Int(Int::S32)) }, SetResult::F32)
        }),
        ("set.eq.bf16x2.bf16x2 %r1, %r2, %r3", {
            Op::Set(setp(Compare::Eq, C::Float(Float::Bf16x2)), SetResult::Bf16)
        }),
        ("selp.f64 %fd1, %fd2, 0d3FF0000000000000, %p1", Op::Selp(Bits::B64)),
        ("slct.u64.s32 %rd1, %rd2, %rd3, %r1", Op::Slct(Bits::B64, C::Int(Int::S32))),
        // Warps.
        ("activemask.b32 %r1", Op::ActiveMask),
        ("shfl.sync.bfly.b32 %f1, %f2, 16, 31, -1", Op::Shuffle(Shuffle::Butterfly)),
        ("shfl.sync.up.b32 %r1|%p1, %r2, %r3, %r4, %r5", Op::Shuffle(Shuffle::Up)),
        ("vote.sync.ballot.b32 %r1, !%p1, 0xffffffff", Op::Vote(Vote::Ballot, true)),
        ("vote.sync.uni.pred %p1, %p2, %r1", Op::Vote(Vote::Uniform, false)),
        ("match.any.sync.b64 %r1, %rd1, -1", Op::Match { bits: Bits::B64, all: false }),
        ("match.all.sync.b32 %r1|%p1, %r2, -1", Op::Match { bits: Bits::B32, all: true }),
        ("redux.sync.min.s32 %r1, %r2, -1", Op::Redux(Atomic::Min, Int::S32)),
        ("redux.sync.xor.b32 %r1, %r2, -1", Op::Redux(Atomic::Xor, Int::U32)),
        ("bar.warp.sync 0xffffffff", Op::WarpSync),
        // Memory.
        ("ld.global.f32 %f1, [%rd1+-8]", Op::Load(Access { offset: -8, ..global })),
        ("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%f1,%f2,_,%f4}, [%rd1]", {
            Op::Load(Access { count: 4, noncoherent: true, ..global })
        }),
        ("ld.volatile.shared.u32 %r1, [%r2]", {
            Op::Load(Access { space: Space::Shared, wide_address: false, order: Order::Relaxed, ..global })
        }),
        ("ld.acquire.gpu.global.u64 %rd1, [%rd2]", {
            Op::Load(Access { order: Order::Acquire, ..access(Space::Global, 8) })
        }),
        ("ld.s8 %r1, [%rd1]", Op::Load(Access { signed: true, ..access(Space::Generic, 1) })),
        ("ld.local.u16 %rd1, [depot+2]", Op::Load(Access { wide: true, ..access(Space::Local, 2) })),
        ("ld.const.b32 %r1, [table+4]", Op::Load(access(Space::Const, 4))),
        ("ld.param.u32 %r1, [%rd1]", Op::Load(access(Space::Param, 4))),
        ("st.global.cs.v2.u64 [%rd1], {%rd2, 7}", Op::Store(Access { count: 2, ..access(Space::Global, 8) })),
        ("st.release.sys.global.u32 [counter], 1", Op::Store(Access { order: Order::Release, ..global })),
        ("st.shared::cta.b8 [tile+3], %r1", Op::Store(access(Space::Shared, 1))),
        ("atom.global.add.f32 %f1, [%rd1], %f2", {
            Op::Atomic(
                Atomic::Add,
                AtomicType::Float(Float::F32),
                Access { order: Order::Relaxed, ..global },
                Scope::Device,
            )
        }),
        ("atom.acq_rel.cta.shared.cas.b64 %rd1, [%r1], %rd2, %rd3", {
            let access = Access { wide_address: false, ..access(Space::Shared, 8) };
            Op::Atomic(
                Atomic::CompareAndSwap,
                AtomicType::Bits(Bits::B64),
                Access { order: Order::AcquireRelease, ..access },
                Scope::Block,
            )
        }),
        ("red.relaxed.gpu.global.add.noftz.bf16x2 [%rd1+4], %r1", {
            Op::Atomic(
                Atomic::Add,
                AtomicType::Float(Float::Bf16x2),
                Access { order: Order::Relaxed, offset: 4, ..global },
                Scope::Device,
            )
        }),
        ("atom.inc.u32 _, [%rd1], 9", {
            Op::Atomic(
                Atomic::Increment,
                AtomicType::Int(Int::U32),
                Access { order: Order::Relaxed, ..access(Space::Generic, 4) },
                Scope::Device,
            )
        }),
        ("cvta.shared.u64 %rd1, %rd2", {
            Op::ConvertAddress { space: Space::Shared, to_space: false, wide: true }
        }),
        ("cvta.to.local.u64 %rd1, %rd2", {
            Op::ConvertAddress { space: Space::Local, to_space: true, wide: true }
        }),
        ("cvta.to.global.u64 %rd1, %rd2", Op::Mov(Bits::B64)),
        ("isspacep.shared %p1, %rd1", Op::IsSpace(Space::Shared)),
        ("membar.cta", Op::Fence(Scope::Block)),
        ("fence.acq_rel.gpu", Op::Fence(Scope::Device)),
        ("fence.sc.cta", Op::Fence(Scope::Block)),
        ("cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16", {
            Op::CopyAsync(AsyncCopy { bytes: 16, bypass: true, wide_address: false })
        }),
        ("cp.async.ca.shared::cta.global [%rd2], [%rd1], 4, %r1", {
            Op::CopyAsync(AsyncCopy { bytes: 4, bypass: false, wide_address: true })
        }),
        ("cp.async.commit_group", Op::CommitGroup),
        ("cp.async.wait_group 2", Op::WaitGroup(Some(2))),
        ("cp.async.wait_all", Op::WaitGroup(None)),
        ("mbarrier.init.shared.b64 [%r1], %r2", mbarrier(Mbarrier::Init, false)),
        ("mbarrier.inval.shared::cta.b64 [%rd1]", mbarrier(Mbarrier::Invalidate, true)),
        (
            "mbarrier.arrive.shared.b64 %rd1, [%r1]",
            mbarrier(Mbarrier::Arrive { drop: false, completes: true }, false),
        ),
        (
            "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1], 2",
            mbarrier(Mbarrier::Arrive { drop: false, completes: true }, false),
        ),
        (
            "mbarrier.arrive_drop.noComplete.shared.b64 %rd1, [%rd2], %r1",
            mbarrier(Mbarrier::Arrive { drop: true, completes: false }, true),
        ),
        ("mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1", mbarrier(Mbarrier::Test { parity: false }, false)),
        (
            "mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], %r2",
            mbarrier(Mbarrier::Test { parity: true }, false),
        ),
        (
            "cp.async.mbarrier.arrive.shared.b64 [%r1]",
            mbarrier(Mbarrier::ArriveAfterCopies { counted: false }, false),
        ),
        (
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1]",
            mbarrier(Mbarrier::ArriveAfterCopies { counted: true }, false),
        ),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1,%r2,%r3,%r4}, [%r5]", {
            Op::LoadMatrix { count: 4, transposed: true, wide_address: false }
        }),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4}",
            { Op::Mma(Mma { k: 8, input: MmaInput::Tf32, half: false, saturate: false }) },
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1,%r2},{%r3,%r4,%r5,%r6},{%r7,%r8},{%r1,%r2}",
            { Op::Mma(Mma { k: 16, input: MmaInput::F16, half: true, saturate: false }) },
        ),
        (
            "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {%r1,%r2,%r3,%r4},{%r5,%r6,%r7,%r8},{%r9,%r10},{%r1,%r2,%r3,%r4}",
            { Op::Mma(Mma { k: 32, input: MmaInput::I8(false, true), half: false, saturate: true }) },
        ),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s4.u4.s32 {%r1,%r2,%r3,%r4},{%r5,%r6},{%r9},{0,0,0,0}", {
            Op::Mma(Mma { k: 32, input: MmaInput::I4(true, false), half: false, saturate: false })
        }),
        (
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc {%r1,%r2,%r3,%r4},{%r5,%r6,%r7,%r8},{%r9,%r10},{%r1,%r2,%r3,%r4}",
            {
                let input = MmaInput::B1 { both: true };
                Op::Mma(Mma { k: 256, input, half: false, saturate: false })
            },
        ),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1,%fd2},{%fd3},{%fd4},{%fd1,%fd2}", {
            Op::Mma(Mma { k: 4, input: MmaInput::F64, half: false, saturate: false })
        }),
        // Control.
        ("bar.sync 0", Op::Barrier(Barrier::Sync, true)),
        ("barrier.cta.sync.aligned 1, 64", Op::Barrier(Barrier::Sync, true)),
        ("barrier.sync 1", Op::Barrier(Barrier::Sync, false)),
        ("bar.arrive 1, %r1", Op::Barrier(Barrier::Arrive, true)),
        ("bar.red.popc.u32 %r1, 0, %p1", Op::Barrier(Barrier::Popc, true)),
        ("barrier.red.and.aligned.pred %p1, 0, 64, %p2", Op::Barrier(Barrier::And, true)),
        ("nanosleep.u32 %r1", Op::Nop),
        ("prefetch.global.L2::evict_last [%rd1]", Op::Nop),
        ("prefetchu.L1 [%rd1]", Op::Nop),
        ("discard.global.L2 [%rd1], 128", Op::Nop),
        ("@%p1 exit", Op::Exit),
        ("@!%p1 trap", Op::Trap),
    ];
    for (text, op) in cases {
        assert_eq!(ops(&format!("{text};")), [op], "{text}");
    }
}

#[test]
fn operands_are_where_the_operation_has_them() {
    let kernel = lowered(
        "shfl.sync.up.b32 %r1|%p1, %r2, %r3, %r4, %r5;
         @!%p1 bfi.b32 %r6, %r1, %r3, %r4, %r5;
         st.global.u32 [%rd1], %r6;",
    );
    let [shuffle, insert, store, _] = kernel.code[..] else { panic!("{:?}", kernel.code) };
    assert_eq!((insert.a, insert.b, insert.c, insert.f), (shuffle.d, shuffle.b, shuffle.c, shuffle.f));
    assert_eq!(insert.guard, Guard { reg: shuffle.e, negated: true });
    assert_eq!((store.b, store.d), (insert.d, Reg::NONE));
    let apart: HashSet<Reg> = [shuffle.d, shuffle.a, shuffle.b, shuffle.c, shuffle.f].into();
    assert_eq!(apart.len(), 5);
}

#[test]
fn what_has_no_operation_of_its_own_is_made_of_several() {
    let convert = |to, from| Op::Convert(to, from, Conversion::default());
    let s8 = Op::Load(access(Space::Global, 1));
    for (text, expected) in [
        ("ld.global.s8 %rs1, [%rd1];", vec![s8, convert(Scalar::S16, Scalar::S8)]),
        ("cvt.s8.s32 %r1, %r2;", vec![convert(Scalar::S8, Scalar::S32), convert(Scalar::S32, Scalar::S8)]),
        (
            "cvt.u32.u16 %r1, %rd2;",
            vec![convert(Scalar::U16, Scalar::U64), convert(Scalar::U32, Scalar::U16)],
        ),
        ("mov.v2.f32 {%f1, %f2}, {%f3, %f4};", vec![Op::Mov(Bits::B32); 2]),
        ("bar.red.or.pred %p1, 0, !%p2;", vec![Op::Not(Bits::Pred), Op::Barrier(Barrier::Or, true)]),
        (
            "cp.async.ca.shared.global [%r1+16], [%rd1+32], 16, %p1;",
            vec![
                Op::Int2(Int2::Add, Int::U32),
                Op::Int2(Int2::Add, Int::U64),
                Op::Selp(Bits::B32),
                Op::CopyAsync(AsyncCopy { bytes: 16, bypass: false, wide_address: false }),
            ],
        ),
    ] {
        assert_eq!(ops(text), expected, "{text}");
    }
}

#[test]
fn every_refusal_names_the_line_and_the_thing() {
    let mut wrong = Vec::new();
    for (body, expected) in [
        ("foo.bar %r1;", "line 16: `foo.bar` is not known"),
        (
            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;",
            "line 16: `wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16` needs sm_90, which is not emulated",
        ),
        (
            "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%r1], 32;",
            "line 16: `tcgen05.alloc.cta_group::1.sync.aligned.b32` needs sm_100, which is not emulated",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile [%r1], [%rd1, {%r2, %r3}], [%r4];",
            "line 16: `cp.async.bulk.tensor.2d.shared::cluster.global.tile` needs sm_90, which is not emulated",
        ),
        ("fence.acq_rel.cluster;", "line 16: `fence.acq_rel.cluster` needs sm_90, which is not emulated"),
        (
            "ld.shared::cluster.u32 %r1, [%r2];",
            "line 16: `ld.shared::cluster.u32` needs sm_90, which is not emulated",
        ),
        (
            "cvt.rn.satfinite.e4m3x2.f32 %rs1, %f1, %f2;",
            "line 16: `cvt.rn.satfinite.e4m3x2.f32` needs 8-bit floats, which is not emulated",
        ),
        (
            "mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;",
            "line 16: `mbarrier.try_wait.shared.b64` needs sm_90, which is not emulated",
        ),
        (
            "mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r1], 64;",
            "line 16: `mbarrier.arrive.expect_tx.shared.b64` needs sm_90, which is not emulated",
        ),
        (
            "mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1];",
            "line 16: `mbarrier.arrive.noComplete.shared.b64`: 2 operands",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m8n8k4.rz.f64.f64.f64.f64 {%fd1,%fd2},{%fd3},{%fd4},{%fd1,%fd2};",
            "line 16: `wmma.mma.sync.aligned.row.col.m8n8k4.rz.f64.f64.f64.f64` is not emulated",
        ),
        (
            "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1},{%r1},{%r2},{%f1};",
            "line 16: `mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32` is not emulated",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%fd1},{%fd2},{%fd3},{%fd4};",
            "line 16: `mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64` needs sm_90, which is not emulated",
        ),
        (
            "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {%r1}, {%r2}, {%r3}, {%f1};",
            "line 16: `wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32` is not emulated",
        ),
        (
            "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1];",
            "line 16: `wmma.load.a.sync.aligned.row.m16n16k16.f16`: operand `in braces`: another number of registers is expected",
        ),
        (
            "wmma.load.a.sync.aligned.m16n16k16.f16 {%r1}, [%rd1];",
            "line 16: `wmma.load.a.sync.aligned.m16n16k16.f16` lacks `.row` or `.col`",
        ),
        (
            "tex.2d.v4.f32.f32 {%f1,%f2,%f3,%f4}, [%rd1, {%f1, %f2}];",
            "line 16: `tex.2d.v4.f32.f32` is not emulated",
        ),
        ("mov.u64 %rd1, %clock64;", "line 16: `mov.u64`: operand `%clock64`: time is not emulated"),
        ("mov.u32 %r1, %cluster_ctarank;", "line 16: `%cluster_ctarank` needs sm_90, which is not emulated"),
        ("mov.u32 %r1, %pm0;", "line 16: `%pm0` is not emulated"),
        ("mov.u32 %r1, %nothing;", "line 16: `%nothing` is not defined"),
        ("mov.u32 %r1, %r99;", "line 16: `%r99` is not defined"),
        ("mov.u32 %r1, %r01;", "line 16: `%r01` is not defined"),
        ("add.fast.f32 %f1, %f2, %f3;", "line 16: `add.fast.f32`: modifier `.fast` is not known here"),
        ("add.rn.f16.f16 %rs1, %rs2, %rs3;", "line 16: `add.rn.f16.f16`: modifier `.f16` is not known here"),
        ("add.rz.bf16 %rs1, %rs2, %rs3;", "line 16: `add.rz.bf16`: modifier `.rz` is not known here"),
        ("add.ftz.f64 %fd1, %fd2, %fd3;", "line 16: `add.ftz.f64`: modifier `.ftz` is not known here"),
        ("add.u16x2 %r1, %r2, %r3;", "line 16: `add.u16x2` lacks a type"),
        (
            "min.f32.xorsign.abs %f1, %f2, %f3;",
            "line 16: `min.f32.xorsign.abs`: modifier `.xorsign` is not known here",
        ),
        (
            "cvt.rn.f32.f64.sat.x %f1, %fd1;",
            "line 16: `cvt.rn.f32.f64.sat.x`: modifier `.x` is not known here",
        ),
        ("cvt.rn.f32.f32 %f1, %f2;", "line 16: `cvt.rn.f32.f32`: modifier `.rn` is not known here"),
        ("cvt.s32.f32 %r1, %f1;", "line 16: `cvt.s32.f32` lacks a rounding"),
        ("cvt.rn.s32.f32 %r1, %f1;", "line 16: `cvt.rn.s32.f32` lacks a rounding"),
        ("cvt.rn.u32.u16 %r1, %rs1;", "line 16: `cvt.rn.u32.u16`: modifier `.rn` is not known here"),
        ("fma.f32 %f1, %f2, %f3, %f4;", "line 16: `fma.f32` lacks a rounding"),
        ("div.f32 %f1, %f2, %f3;", "line 16: `div.f32` lacks a rounding"),
        ("lg2.f32 %f1, %f2;", "line 16: `lg2.f32` lacks `.approx`"),
        ("mul.u32 %r1, %r2, %r3;", "line 16: `mul.u32` lacks `.lo`, `.hi` or `.wide`"),
        ("mul.wide.u64 %rd1, %rd2, %rd3;", "line 16: `mul.wide.u64`: modifier `.wide` is not known here"),
        ("setp.ltu.s32 %p1, %r1, %r2;", "line 16: `setp.ltu.s32`: modifier `.ltu` is not known here"),
        ("setp.lo.s32 %p1, %r1, %r2;", "line 16: `setp.lo.s32`: modifier `.lo` is not known here"),
        ("shfl.bfly.b32 %r1, %r2, 1, 31;", "line 16: `shfl.bfly.b32` lacks `.sync`"),
        ("atom.add.f16 %rs1, [%rd1], %rs2;", "line 16: `atom.add.f16` lacks `.noftz`"),
        (
            "atom.global.add.v2.f32 {%f1,%f2}, [%rd1], {%f1,%f2};",
            "line 16: `atom.global.add.v2.f32`: modifier `.v2` is not known here",
        ),
        ("atom.add.b32 %r1, [%rd1], 1;", "line 16: `atom.add.b32`: modifier `.b32` is not known here"),
        ("red.exch.b32 [%rd1], 1;", "line 16: `red.exch.b32` is not known"),
        (
            "cp.async.cg.shared.global [%r1], [%rd1], 4;",
            "line 16: `cp.async.cg.shared.global`: operand `size`: 4, 8 or 16 is expected",
        ),
        (
            "mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1},{%r2},{%f1,%f2,%f3,%f4};",
            "line 16: `mma.sync.aligned.m16n8k4.row.col.f32.f16.f16.f32` is not known",
        ),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1},{%r2},{%f1,%f2,%f3,%f4};",
            "line 16: `mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32`: operand `in braces`: another number of registers is expected",
        ),
        ("add.s32 %r1, %r2;", "line 16: `add.s32`: 2 operands"),
        (
            "add.s32 %r1, %rd2, %r3;",
            "line 16: `add.s32`: operand `%rd2`: a register of another width is expected",
        ),
        ("add.s32 5, %r2, %r3;", "line 16: `add.s32`: operand `in brackets`: a register is expected"),
        ("mov.u32 %tid.x, %r1;", "line 16: `mov.u32`: operand `%tid.x`: cannot be written"),
        ("add.f32 %f1, %f2, 1;", "line 16: `add.f32`: operand `a number`: not of the instruction's type"),
        ("and.pred %p1, %p2, !%p3;", "line 16: `and.pred`: operand `%p3`: cannot be negated here"),
        ("mov.u32 %r1, counter;", "line 16: `mov.u32`: operand `counter`: its address has 64 bits"),
        ("ld.global.u32 %r1, [%r2];", "line 16: `ld.global.u32`: operand `%r2`: an address has 64 bits"),
        (
            "ld.shared.u32 %r1, [depot];",
            "line 16: `ld.shared.u32`: operand `depot`: not in the space of the instruction",
        ),
        (
            "ld.param.u32 %r1, [p1+12];",
            "line 16: `ld.param.u32`: operand `address`: outside of the parameter",
        ),
        ("ld.param.u32 %r1, [p1+1];", "line 16: `ld.param.u32`: operand `address`: misaligned"),
        ("st.const.u32 [table], 1;", "line 16: `st.const.u32`: operand `address`: cannot be written"),
        (
            "ld.global.v4.u64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];",
            "line 16: `ld.global.v4.u64`: modifier `.v4` is not known here",
        ),
        ("bra nowhere;", "line 16: `nowhere` is not defined"),
        ("bra %r1;", "line 16: `bra`: operand `%r1`: not a label"),
        ("@%r1 ret;", "line 16: `ret`: operand `%r1`: not a predicate"),
        ("x: x: ret;", "line 16: `x` is there twice"),
        (".reg .b32 %q; .reg .b32 %q;", "line 16: `%q` is there twice"),
        (".reg .b128 %q;", "line 16: `.b128` is not emulated"),
        ("call foo;", "line 16: calls `foo`, which is not defined"),
        ("call (%r1), __nv_lgammaf, (%f1);", "line 16: calls `__nv_lgammaf`, which is not defined"),
        ("call %rd1, (), proto;", "line 16: calls through a pointer are not emulated"),
        ("call k;", "line 16: `call`: operand `k`: a kernel cannot be called"),
        ("add.s32 %r1 %r2;", "line 16: `,` or `;` is expected, not `%r2`"),
        (".wrong 3;", "line 16: directive `.wrong` is not known"),
    ] {
        if refused(body) != expected {
            wrong.push((body, refused(body)));
        }
    }
    assert_eq!(wrong, []);
}

#[test]
fn texts_that_are_no_modules_are_refused() {
    let mut wrong = Vec::new();
    for (text, expected) in [
        ("hello", "line 1: a directive is expected, not `hello`"),
        (".version", "line 1: a number is expected, not the end"),
        (".address_size 32", "line 1: addresses must be of 64 bits"),
        ("\n.global .u32 x", "line 2: `;` is expected, not the end"),
        (".global .u32 x; .global .u32 x;", "line 1: `x` is there twice"),
        (".entry a() { }\n.entry a() { }", "line 2: `a` is there twice"),
        (".entry a() { ret;", "line 1: a name is expected, not the end"),
        (
            ".global .b8 x[4] = {1, 2, 3, 4, 5};",
            "line 1: initial value of `x`: it is longer than the variable",
        ),
        (".global .f32 x = 1;", "line 1: initial value of `x`: a number is not of the variable's type"),
        (".global .u64 x = y;", "line 1: `y` is not defined"),
        (
            ".func f() { ret; } .global .u64 x = f;",
            "line 1: initial value of `x`: addresses of functions (pointers to them, tables of these, virtual functions) are not emulated: \
             choose by `switch` or a template",
        ),
        (".global .u32 x = x;", "line 1: initial value of `x`: an address must be put into 64 bits"),
        (
            ".global .b8 x[2][2] = {{1}, {2, 3}};",
            "line 1: initial value of `x`: rows of different lengths are not emulated",
        ),
        (".global .b8 x[1000000000000];", "line 1: more than 268435456 bytes of variables"),
        ("/* ", "line 1: a comment does not end"),
        ("\u{7}", "line 1: '\\u{7}' does not belong in PTX"),
    ] {
        let text_of = |error: Error| error.to_string();
        let refused = Module::parse(text).map(|_| ()).map_err(text_of);
        if refused != Err(expected.to_owned()) {
            wrong.push((text, refused));
        }
    }
    assert_eq!(wrong, []);
    let deep = format!(".entry a() {}{}", "{".repeat(1000), "}".repeat(1000));
    assert!(matches!(Module::parse(&deep), Err(Error::TooMany { .. })));
    let many = Module::parse(".entry a() { ret; }").unwrap().kernel("b").unwrap_err();
    assert_eq!(many.to_string(), "no kernel is called `b`");
    assert!(matches!(Module::parse(&" ".repeat(TEXT_BYTES_MAX + 1)), Err(Error::TooMany { .. })));
}

#[test]
fn immediates_parameters_and_special_registers_are_presets() {
    let kernel = lowered(
        "ld.param.u64 %rd1, [p0]; cvta.to.global.u64 %rd2, %rd1;
         ld.param.v2.u32 {%r1, %r2}, [p1+4]; ld.param.s8 %r3, [p2]; ld.param.u8 %rs1, [p2];
         mov.u32 %r4, %tid.x; mov.b32 %r5, 7; mov.f32 %f1, 0f3F800000; mov.pred %p1, 0; mov.pred %p2, -1;
         @%p2 st.global.v4.b32 [%rd2], {%r1, %r2, %r3, %r4};
         @%p1 st.global.v2.b32 [%rd2+16], {%r5, %f1};
         st.global.v4.u32 [%rd1+32], {7, %tid.x, 0x3f800000, %laneid};
         st.global.u16 [%rd1], %rs1;",
    );
    assert_eq!(kernel.code.len(), 5);
    assert_eq!(kernel.presets64, [(Reg(0), Preset::Param { offset: 0, bytes: 8, signed: false })]);
    let presets: Vec<Preset> = kernel.presets32.iter().map(|(_, preset)| *preset).collect();
    assert_eq!(
        presets.iter().copied().collect::<HashSet<_>>(),
        [
            Preset::Param { offset: 12, bytes: 4, signed: false },
            Preset::Param { offset: 16, bytes: 4, signed: false },
            Preset::Param { offset: 20, bytes: 1, signed: true },
            Preset::Param { offset: 20, bytes: 1, signed: false },
            Preset::Special(Special::Tid(0)),
            Preset::Special(Special::LaneId),
            Preset::Bits(7),
            Preset::Bits(0x3f80_0000),
        ]
        .into()
    );
    assert_eq!(presets.len(), 8, "one register for each");
    assert_eq!(kernel.presets_pred.iter().map(|(_, holds)| *holds).collect::<HashSet<_>>().len(), 2);
    let params: Vec<_> = kernel.params.iter().map(|param| (&*param.name, param.offset, param.size)).collect();
    assert_eq!((params, kernel.param_bytes), (vec![("p0", 0, 8), ("p1", 8, 12), ("p2", 20, 1)], 21));
}

#[test]
fn threads_tell_each_other_things_between_barriers_by_what_is_not_plain() {
    let tells = |body: &str| lowered(body).tells_between_barriers();
    for plain in [
        "ld.global.u32 %r1, [%rd1];",
        "st.shared.u32 [%r1], %r2;",
        "bar.sync 0;",
        "shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;",
    ] {
        assert!(!tells(plain), "{plain}");
    }
    for telling in [
        "ld.volatile.global.u32 %r1, [%rd1];",
        "st.release.gpu.global.u32 [%rd1], %r2;",
        "red.global.add.u32 [%rd1], %r2;",
        "atom.shared.add.u32 %r1, [%r2], 1;",
        "activemask.b32 %r1;",
        "bar.arrive 1, 64;",
        "bar.sync 1, 64;",
    ] {
        assert!(tells(telling), "{telling}");
    }
}

#[test]
fn a_register_that_is_written_twice_or_under_a_guard_is_none() {
    assert_eq!(
        ops("mov.u32 %r1, 1; mov.u32 %r1, 2; @%p1 mov.u32 %r2, 3; st.global.v2.u32 [%rd1], {%r1, %r2};")[..3],
        [Op::Mov(Bits::B32); 3]
    );
}

#[test]
fn vectors_have_parts() {
    let kernel = lowered(
        ".reg .v4 .f32 %v; .reg .v2 .b32 %w<3>;
         ld.global.v4.f32 %v, [%rd1]; add.f32 %v.x, %v.y, %v.w; mov.v2.b32 %w1, {%r1, %r2};
         st.global.v4.f32 [%rd1], %v; st.global.b32 [%rd1], %w1.y;",
    );
    let [load, add, _, _, store, single, _] = kernel.code[..] else { panic!("{:?}", kernel.code) };
    assert_eq!(kernel.lists[load.d.0 as usize], kernel.lists[store.b.0 as usize]);
    let parts = &kernel.lists[load.d.0 as usize];
    assert_eq!((add.d, add.a, add.b), (parts[0], parts[1], parts[3]));
    assert_ne!(single.b, Reg::NONE);
    assert_eq!(refused(".reg .v2 .b32 %w; mov.u32 %r1, %w.z;"), "line 16: `%w.z` is not defined");
}

#[test]
fn variables_have_addresses() {
    let kernel = lowered(
        "mov.u64 %rd1, counter; mov.u64 %rd2, table+4; mov.u32 %r1, tile+8; mov.u64 %rd3, depot; mov.u64 %rd4, dynamic;
         cvta.shared.u64 %rd5, %rd4; cvta.local.u64 %rd6, %rd3; mov.u64 %rd7, p1; cvta.param.u64 %rd8, %rd7;
         st.global.v2.u64 [%rd1], {%rd2, %rd3}; st.v2.u64 [%rd5], {%rd6, %rd7}; st.shared.u64 [%r1], %rd8;",
    );
    assert_eq!(kernel.code.len(), 4, "{:?}", kernel.code);
    // 40 bytes of the tile, and then to a multiple of 16.
    assert_eq!((kernel.shared.bytes, kernel.local_bytes), (48, 12));
    let addresses: HashSet<Preset> = kernel.presets64.iter().map(|(_, preset)| *preset).collect();
    let expected = [
        address::generic(address::VARIABLES, 0),
        address::generic(address::VARIABLES + 1, 4),
        address::generic(address::SHARED, 40 + 1024 + 8),
        address::generic(address::LOCAL, 0),
        address::generic(address::PARAM, 8),
        0,
        8,
    ];
    assert_eq!(addresses, expected.map(Preset::Bits).into());
    assert_eq!(kernel.presets32.iter().map(|(_, preset)| *preset).collect::<Vec<_>>(), [Preset::Bits(8)]);
    assert_eq!(lowered("st.shared.u32 [dynamic+4], 1;").shared.bytes, 0);
    assert_eq!(lowered("").shared.bytes, 0, "what is not used is not there");
}

#[test]
fn initial_values() {
    let module = Module::parse(
        ".visible .global .align 8 .u64 pointers[3] = {second, generic(second)+2, 5};
         .const .f32 numbers[] = {0f3F800000, 2.5, 0d4008000000000000};
         .global .b8 second[6] = {1, -1, 0x10};
         .global .s16 grid[2][2] = {{1, 2}, {3, -4}};
         .extern .global .u32 elsewhere;
         .global .b8 letters[4] = \"ab\";
         .global .u32 plain;
         .entry k() { .reg .b64 %r; mov.u64 %r, plain; st.global.u64 [%r], %r; mov.u64 %r, elsewhere; ret; }
         .entry l() { ret; }",
    )
    .unwrap();
    let second = address::generic(address::VARIABLES + 2, 0);
    let pointers = [second, second + 2, 5].map(u64::to_le_bytes).concat();
    let expected: [(&str, Vec<u8>); 6] = [
        ("pointers", pointers),
        ("numbers", [1f32, 2.5, 3.0].map(f32::to_le_bytes).concat()),
        ("second", vec![1, 255, 16, 0, 0, 0]),
        ("grid", [1i16, 2, 3, -4].map(i16::to_le_bytes).concat()),
        ("letters", b"ab\0\0".to_vec()),
        ("plain", vec![0; 4]),
    ];
    let kernel = module.kernel("l").unwrap();
    let found: Vec<(&str, Vec<u8>)> =
        kernel.variables.iter().map(|variable| (&*variable.name, variable.bytes.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(kernel.variables.iter().filter(|variable| variable.initialised).count(), 5);
    assert_eq!(module.kernel("k").unwrap_err().to_string(), "line 8: `elsewhere` is not defined");
    let environment =
        lowered("mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; st.global.v2.u32 [%rd1], {%r1, %r2};");
    assert_eq!(environment.variables.last().unwrap().name, "%envreg");
}

const CALLS: &str = "
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .b8 format[6] = {37, 100, 32, 37, 115, 0};
.global .b8 file[5] = {107, 46, 99, 117, 0};
.func (.param .f32 result) twice(.param .f32 x) {
  .reg .f32 %f<3>;
  ld.param.f32 %f1, [x];
  add.f32 %f2, %f1, %f1;
  st.param.f32 [result], %f2;
  ret;
}
.func (.param .align 4 .b8 result[8]) swapped(.param .align 4 .b8 pair[8]) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
  .local .align 4 .b8 own[4];
  mov.b64 %rd1, pair;
  ld.param.b32 %r1, [%rd1+4];
  st.local.b32 [own], %r1;
  setp.eq.s32 %p1, %r1, 0;
  @%p1 ret;
  ld.param.b32 %r2, [pair];
  st.param.v2.b32 [result], {%r1, %r2};
  ret;
}
.func forever() { call forever; ret; }
.func (.reg .b32 out) old(.reg .b32 in) { add.s32 out, in, 1; ret; }
.entry simple(.param .u64 p) {
  .reg .f32 %f<3>; .reg .b64 %rd<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [p];
  ld.global.f32 %f1, [%rd1];
  setp.gt.f32 %p1, %f1, 0f00000000;
  @%p1 bra $L1;
  { // callseq 0
  .param .b32 param0;
  st.param.f32 [param0], %f1;
  .param .b32 retval0;
  call.uni (retval0), twice, (param0);
  ld.param.f32 %f2, [retval0];
  }
  st.global.f32 [%rd1], %f2;
$L1:
  ret;
}
.entry structure(.param .u64 p) {
  .reg .b32 %r<3>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [p];
  { .param .align 4 .b8 param0[8]; .param .align 4 .b8 retval0[8];
  st.param.v2.b32 [param0], {1, 2};
  call (retval0), swapped, (param0);
  ld.param.v2.b32 {%r1, %r2}, [retval0];
  }
  st.global.v2.b32 [%rd1], {%r1, %r2};
  ret;
}
.entry recursive() { call forever; ret; }
.entry in_registers(.param .u64 p) {
  .reg .b32 %r; .reg .b64 %rd; .reg .pred %p;
  ld.param.u64 %rd, [p];
  setp.eq.s64 %p, %rd, 0;
  @!%p call (%r), old, (41);
  st.global.b32 [%rd], %r;
  ret;
}
.entry talks(.param .u64 p) {
  .reg .b64 %rd<4>; .reg .b32 %r; .local .b8 depot[16];
  mov.u64 %rd1, format; cvta.global.u64 %rd2, %rd1; mov.u64 %rd3, depot; cvta.local.u64 %rd3, %rd3;
  { .param .b64 param0; st.param.b64 [param0], %rd2; .param .b64 param1; st.param.b64 [param1], %rd3; .param .b32 retval0;
  call.uni (retval0), vprintf, (param0, param1); ld.param.b32 %r, [retval0]; }
  { .param .b64 q0; .param .b64 q1; .param .b32 q2; .param .b64 q3; .param .b64 q4;
  st.param.b64 [q0], %rd2; st.param.b64 [q1], file; st.param.b32 [q2], 12; st.param.b64 [q3], file; st.param.b64 [q4], 1;
  call.uni __assertfail, (q0, q1, q2, q3, q4); }
  ret;
}
.entry library(.param .f32 x) {
  .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b32 %r<9>; .reg .b64 %rd<2>;
  ld.global.f32 %f1, [%rd1]; ld.global.f64 %fd1, [%rd1];
  call (%f2), __nv_expf, (%f1);
  call (%fd2), __nv_erf, (%fd1);
  call (%f3), __nv_powf, (%f1, %f2);
  call (%f4), __nv_sqrtf, (%f1);
  call (%f5), __nv_fmaxf, (%f1, %f2);
  call (%f6), __nv_copysignf, (%f1, %f2);
  call (%f7), __nv_floorf, (%f1);
  call (%f8), __nv_fast_expf, (%f1);
  call (%r1), __nv_isnanf, (%f1);
  call (%r2), __nv_float2int_rz, (%f1);
  call (%fd3), __nv_dadd_ru, (%fd1, %fd2);
  ret;
}
";

#[test]
fn what_is_passed_in_registers_stays_there() {
    let kernel = Module::parse(CALLS).unwrap().kernel("simple").unwrap();
    let ops: Vec<Op> = kernel.code.iter().map(|inst| inst.op).collect();
    let mov = Op::Mov(Bits::B32);
    assert_eq!(
        ops,
        [
            Op::Load(access(Space::Global, 4)),
            Op::Setp(setp(Compare::Gt, Comparable::Float(Float::F32))),
            // The other way only ends, and nobody waits for those that go it.
            Op::Branch { target: 10, join: 3 },
            Op::Meet,
            mov,
            mov,
            Op::Float2(Float2::Add, Float::F32, RN),
            mov,
            mov,
            Op::Store(access(Space::Global, 4)),
            Op::Exit,
        ]
    );
    assert_eq!((kernel.local_bytes, kernel.sites[6].ptx), (0, 12));
    let old = Module::parse(CALLS).unwrap().kernel("in_registers").unwrap();
    assert!(old.code.iter().any(|inst| inst.op == Op::Int2(Int2::Add, Int::S32)));
}

#[test]
fn what_has_an_address_is_passed_in_local_memory() {
    let module = Module::parse(CALLS).unwrap();
    let kernel = module.kernel("structure").unwrap();
    // Four bytes of the function's own, and eight for its parameter; the result is in registers.
    assert_eq!(kernel.local_bytes, 16);
    let count = |op: Op| kernel.code.iter().filter(|inst| inst.op == op).count();
    assert_eq!(count(Op::Store(access(Space::Local, 4))), 3);
    assert_eq!(count(Op::Load(access(Space::Local, 4))), 1);
    let at = Access { offset: 4, ..access(Space::Local, 4) };
    assert_eq!(count(Op::Load(at)), 1);
    assert_eq!(count(Op::Exit), 1);
    assert_eq!(
        module.kernel("recursive").unwrap_err().to_string(),
        "line 28: calls `forever`, which calls itself"
    );
}

#[test]
fn formats_and_messages_are_read_from_variables() {
    let kernel = Module::parse(CALLS).unwrap().kernel("talks").unwrap();
    let texts: Vec<&str> = kernel.formats.iter().map(|format| &*format.text).collect();
    assert_eq!(texts, ["%d %s", "k.cu:12: %d %s"]);
    let printf = kernel.code.iter().find(|inst| inst.op == Op::Printf(0)).unwrap();
    assert_eq!(printf.a, Reg::NONE);
    assert_ne!((printf.b, printf.d), (Reg::NONE, Reg::NONE));
    // What follows a failed assertion is not there.
    assert_eq!(kernel.code.last().unwrap().op, Op::AssertFail(1));
}

#[test]
fn functions_of_libdevice_are_operations() {
    let kernel = Module::parse(CALLS).unwrap().kernel("library").unwrap();
    let ops: Vec<Op> =
        kernel.code.iter().map(|inst| inst.op).filter(|op| !matches!(op, Op::Mov(_))).collect();
    let down = Conversion { round: Round::Down, integral: true, ..Conversion::default() };
    let to_int = Conversion { round: Round::Zero, integral: true, sat: true, ..Conversion::default() };
    assert_eq!(
        ops[2..],
        [
            Op::Intrinsic(Intrinsic::Exp, Float::F32),
            Op::Intrinsic(Intrinsic::Erf, Float::F64),
            Op::Intrinsic(Intrinsic::Pow, Float::F32),
            Op::Float1(Float1::Sqrt, Float::F32, RN),
            Op::Float2(Float2::Max, Float::F32, RN),
            Op::Float2(Float2::CopySign, Float::F32, RN),
            Op::Convert(Scalar::F32, Scalar::F32, down),
            Op::Float2(Float2::Mul, Float::F32, RN),
            Op::Float1(Float1::Ex2, Float::F32, RN),
            Op::Testp(Testp::NotANumber, Float::F32),
            Op::Selp(Bits::B32),
            Op::Convert(Scalar::S32, Scalar::F32, to_int),
            Op::Float2(Float2::Add, Float::F64, Mode { round: Round::Up, ..RN }),
            Op::Exit,
        ]
    );
    // `copysign` of the instruction takes the sign of its first operand, that of C of its second.
    let power = kernel.code.iter().find(|inst| inst.op == Op::Intrinsic(Intrinsic::Pow, Float::F32)).unwrap();
    let sign =
        kernel.code.iter().find(|inst| inst.op == Op::Float2(Float2::CopySign, Float::F32, RN)).unwrap();
    assert_eq!((sign.a, sign.b), (power.b, power.a));
}

/// Each branch that may part lanes, as the operation before it, and that at which they meet.
fn joins(body: &str) -> Vec<Option<Int>> {
    let kernel = lowered(body);
    let mut joins = Vec::new();
    for inst in &kernel.code {
        let join = match inst.op {
            Op::Branch { join, target } => {
                assert!((target as usize) < kernel.code.len());
                join
            }
            Op::BranchIndexed { join, .. } => join,
            _ => continue,
        };
        joins.push((join != NEVER).then(|| {
            assert_eq!(kernel.code[join as usize].op, Op::Meet);
            match kernel.code[join as usize + 1].op {
                Op::IntNeg(int) => int,
                Op::Trap => Int::U16,
                op => panic!("{op:?}"),
            }
        }));
    }
    joins
}

#[test]
fn lanes_meet_where_all_ways_come_together() {
    const HERE: &str = "neg.s32 %r1, %r1;";
    // If and else.
    assert_eq!(
        joins(&format!("@%p1 bra A; add.s32 %r1, %r1, 1; bra.uni B; A: add.s32 %r1, %r1, 2; B: {HERE}")),
        [Some(Int::S32), None]
    );
    // A loop: those that leave it first wait behind it.
    assert_eq!(joins(&format!("A: add.s32 %r1, %r1, 1; @%p1 bra A; {HERE}")), [Some(Int::S32)]);
    // A loop that is left in its middle too.
    assert_eq!(
        joins(&format!(
            "A: add.s32 %r1, %r1, 1; @%p1 bra B; add.s32 %r1, %r1, 1; @%p2 bra A; B: {HERE} st.global.u32 [%rd1], %r1;"
        )),
        [Some(Int::S32), Some(Int::S32)]
    );
    // Lanes that end within a branch keep no others apart.
    assert_eq!(
        joins(&format!(
            "@%p1 bra B; add.s32 %r1, %r1, 1; @%p2 bra X; neg.s64 %rd1, %rd1; B: {HERE} st.global.u32 [%rd1], %r1; X:"
        )),
        [Some(Int::S32), Some(Int::S64)]
    );
    // Nor do those that trap, after whatever they do.
    assert_eq!(
        joins(&format!(
            "@%p1 bra B; @%p2 bra X; neg.s64 %rd1, %rd1; B: {HERE} ret;
             X: st.global.u32 [%rd1], %r1; @%p3 bra Y; add.s32 %r1, %r1, 2; Y: trap;"
        )),
        [Some(Int::S32), Some(Int::S64), Some(Int::U16)]
    );
    // Every way of an indexed branch.
    assert_eq!(
        joins(&format!(
            "T: .branchtargets A, B, C; brx.idx %r1, T; A: add.s32 %r2, %r2, 1; bra D; B: add.s32 %r2, %r2, 2; bra D;
             C: add.s32 %r2, %r2, 3; D: {HERE}"
        )),
        [Some(Int::S32), None, None]
    );
    // Without an end, lanes meet in the loop as elsewhere.
    assert_eq!(
        joins(&format!("A: @%p1 bra B; add.s32 %r1, %r1, 1; B: {HERE} bra A;")),
        [Some(Int::S32), None]
    );
    // Where both ways end there is no place.
    assert_eq!(joins("@%p1 bra A; st.global.u32 [%rd1], 1; ret; A: st.global.u32 [%rd1], 2;"), [None]);
    // A branch to what comes next anyway is none.
    assert_eq!(joins("@%p1 bra A; A: bra B; B:"), []);
}

#[test]
fn labels_and_registers_belong_to_their_scope() {
    let wait = "{ .reg .pred %q; W: setp.eq.u32 %q, %r1, 0; @%q bra D; bra W; D: }";
    let kernel =
        lowered(&format!("{wait} {wait} {{ .reg .b64 %r1; mov.u64 %r1, 3; st.global.u64 [%rd1], %r1; }}"));
    let branches = kernel.code.iter().filter(|inst| matches!(inst.op, Op::Branch { .. })).count();
    assert_eq!(branches, 4);
    assert_eq!(refused("{ A: ret; } bra A;"), "line 16: `A` is not defined");
}

#[test]
fn sites_are_lines_of_both_texts() {
    let kernel = fixture("vadd").kernel("vadd").unwrap();
    assert_eq!(
        kernel.files.iter().map(|file| file.rsplit('/').next().unwrap()).collect::<Vec<_>>(),
        ["vadd.cu"]
    );
    let source = include_str!("../../tests/fixtures/vadd.cu");
    let ptx = FIXTURES[6].1;
    for (inst, site) in kernel.code.iter().zip(&kernel.sites) {
        let line = |text: &'static str, line: u32| text.lines().nth(line as usize - 1).unwrap();
        match inst.op {
            Op::Float2(..) | Op::Store(_) => {
                assert!(line(source, site.line).contains("c[i] = a[i] + b[i]"), "{site:?}");
                let name = if matches!(inst.op, Op::Store(_)) { "st.global.f32" } else { "add" };
                assert!(line(ptx, site.ptx).contains(name), "{site:?}");
            }
            _ => {}
        }
    }
    let limits = fixture("language").kernel("warps").unwrap();
    assert_eq!((limits.max_threads, limits.required_threads), (Some(128), None));
    let inlined = ".file 3 \"a.cu\" .entry k() { .reg .b32 %r<3>;
        .loc 3 7 2, function_name $L__info+5, inlined_at 3 40 9
        add.s32 %r1, %r1, 1; .loc 9 1 1
        add.s32 %r1, %r1, 1; ret; }";
    let kernel = Module::parse(inlined).unwrap().kernel("k").unwrap();
    let sites: Vec<_> = kernel.sites.iter().map(|site| (site.ptx, site.file, site.line)).collect();
    assert_eq!(sites[..2], [(3, 0, 7), (4, 0, 7)]);
    // At the beginning of what runs together, a step without a line has that of the one behind, and elsewhere of the one before.
    let merged = ".file 3 \"a.cu\" .entry k() { .reg .b32 %r<3>; .reg .pred %p<2>;
        .loc 3 7 2
        setp.eq.s32 %p1, %r1, 0; @%p1 bra A; add.s32 %r1, %r1, 1; bra B;
        A: .loc 3 0 0
        add.s32 %r1, %r1, 2; .loc 3 9 2
        add.s32 %r1, %r1, 3; .loc 3 0 0
        add.s32 %r1, %r1, 4;
        B: add.s32 %r1, %r1, 5; ret; }";
    let kernel = Module::parse(merged).unwrap().kernel("k").unwrap();
    let lines =
        kernel.code.iter().zip(&kernel.sites).filter(|(inst, _)| inst.op == Op::Int2(Int2::Add, Int::S32));
    assert_eq!(lines.map(|(_, site)| site.line).collect::<Vec<_>>(), [7, 9, 9, 9, 9]);
    // What follows on the line is not a part of it.
    for at in [
        "1 5 0",
        "1 5 0, function_name $L__info+5, inlined_at 1 7 0",
        "1 5 0, function_name $L__info, inlined_at 1 7 0",
    ] {
        assert_eq!(ops(&format!(".loc {at} add.s32 %r1, %r1, 1;")).len(), 1, "{at}");
    }
}

/// Values that a step reads, and those that it writes.
fn touched(lowered: &Lowered<'_>, at: usize) -> (Vec<Value>, Vec<Value>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    slots::reads(&lowered.builder, &lowered.flow.steps[at], |value| reads.push(value));
    slots::values(&lowered.builder, &lowered.flow.steps[at].results(), |value| writes.push(value));
    (reads, writes)
}

/// No two values that are needed at the same time share a register: by what is live at each step, found without blocks.
fn assert_apart(lowered: &Lowered<'_>, regs: &[Reg]) {
    let steps = &lowered.flow.steps;
    let mut next: Vec<Vec<usize>> = (0..steps.len()).map(|at| vec![at + 1]).collect();
    for block in &lowered.flow.blocks {
        next[block.end - 1] = block.next.iter().map(|next| lowered.flow.blocks[*next].start).collect();
    }
    let mut live: Vec<HashSet<Value>> = vec![HashSet::new(); steps.len()];
    loop {
        let mut changed = false;
        for at in (0..steps.len()).rev() {
            let (reads, writes) = touched(lowered, at);
            let mut before: HashSet<Value> = next[at].iter().flat_map(|next| live[*next].clone()).collect();
            if steps[at].guard.is_none() {
                writes.iter().for_each(|value| {
                    before.remove(value);
                });
            }
            before.extend(reads);
            changed |= before != live[at];
            live[at] = before;
        }
        if !changed {
            break;
        }
    }
    let register = |value: Value| (lowered.builder.registers[value.0 as usize].file, regs[value.0 as usize]);
    let presets: HashSet<_> = (0..regs.len() as u32)
        .map(Value)
        .filter(|value| lowered.builder.registers[value.0 as usize].preset.is_some())
        .map(register)
        .collect();
    for at in 0..steps.len() {
        let (reads, writes) = touched(lowered, at);
        let mut together: HashSet<Value> = next[at].iter().flat_map(|next| live[*next].clone()).collect();
        together.extend(reads);
        together.extend(&writes);
        let distinct: HashSet<_> = together.iter().map(|value| register(*value)).collect();
        assert_eq!(distinct.len(), together.len(), "step {at}");
        assert!(writes.iter().all(|value| !presets.contains(&register(*value))), "step {at} writes a preset");
        let named = live[at].iter().all(|value| regs[value.0 as usize] != Reg::NONE);
        assert!(named, "step {at} needs what has no register");
    }
}

/// A thread that goes any way finds in each register what it put there.
fn assert_kept(lowered: &Lowered<'_>, regs: &[Reg], seed: u64) {
    let mut random = seed;
    let mut choose = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % count
    };
    let mut holds: HashMap<(build::File, Reg), Value> = HashMap::new();
    let mut written: HashSet<Value> = HashSet::new();
    let mut block = 0;
    for _ in 0..400 {
        let current = &lowered.flow.blocks[block];
        for at in current.start..current.end {
            let (reads, writes) = touched(lowered, at);
            let register =
                |value: Value| (lowered.builder.registers[value.0 as usize].file, regs[value.0 as usize]);
            for value in reads.iter().filter(|value| written.contains(value)) {
                assert_eq!(holds.get(&register(*value)), Some(value), "step {at}");
            }
            if lowered.flow.steps[at].guard.is_some() && choose(2) == 0 {
                continue;
            }
            for value in writes {
                holds.insert(register(value), value);
                written.insert(value);
            }
        }
        if current.next.is_empty() {
            break;
        }
        block = current.next[choose(current.next.len())];
    }
}

#[test]
fn values_that_are_in_use_at_the_same_time_have_registers_of_their_own() {
    for (file, text) in FIXTURES {
        let module = Module::parse(text).unwrap();
        for name in module.kernels() {
            let function = module.function(name).unwrap();
            let lowered = build::lower(&module, function).unwrap();
            let assigned = slots::assign(&lowered.builder, &lowered.flow).unwrap();
            assert_apart(&lowered, &assigned.regs);
            for seed in 0..50 {
                assert_kept(&lowered, &assigned.regs, seed);
            }
            let values =
                lowered.builder.registers.iter().filter(|register| register.preset.is_none()).count();
            let registers: u16 = assigned.counts.iter().sum();
            assert!(
                values < 100 || usize::from(registers) * 2 < values,
                "{file}: {name}: {registers} of {values}"
            );
        }
    }
}

#[test]
fn registers_are_shared_by_what_is_never_in_use_together() {
    let mut body = String::new();
    for index in 0..90 {
        body += &format!("ld.global.u32 %r{index}, [%rd1+{}]; st.global.u32 [%rd1], %r{index};", 4 * index);
    }
    assert_eq!(lowered(&body).regs32, 1);
    // What the lanes of the other side still need stays, though it was read on this one.
    let kernel = lowered(
        "ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+4]; setp.eq.u32 %p1, %r1, %r2; @%p1 bra A;
         st.global.u32 [%rd1+8], %r1; ld.global.u32 %r3, [%rd1+12]; st.global.u32 [%rd1], %r3; bra B;
         A: st.global.u32 [%rd1+16], %r2; B: st.global.u32 [%rd1+20], %r2;",
    );
    assert_eq!(kernel.regs32, 2);
}

/// Properties of any kernel, however it came about.
fn assert_sound(kernel: &Kernel) {
    assert_eq!(kernel.code.len(), kernel.sites.len());
    let meets = |join: u32| join == NEVER || kernel.code[join as usize].op == Op::Meet;
    let within = |target: u32| (target as usize) < kernel.code.len();
    for inst in &kernel.code {
        match inst.op {
            Op::Branch { target, join } => assert!(within(target) && meets(join), "{inst:?}"),
            Op::BranchIndexed { table, join } => {
                assert!(meets(join) && kernel.tables[table as usize].iter().all(|target| within(*target)));
            }
            _ => {}
        }
        assert!(inst.guard.reg == Reg::NONE || inst.guard.reg.0 < kernel.preds);
    }
    let last = kernel.code.last().unwrap();
    let ends = matches!(
        last.op,
        Op::Exit | Op::Trap | Op::AssertFail(_) | Op::Branch { .. } | Op::BranchIndexed { .. }
    );
    assert!(ends && last.guard.reg == Reg::NONE, "{last:?}");
    assert!(kernel.presets32.iter().all(|(reg, _)| reg.0 < kernel.regs32));
    assert!(kernel.presets64.iter().all(|(reg, _)| reg.0 < kernel.regs64));
    let most = kernel.regs32.max(kernel.regs64).max(kernel.preds);
    assert!(kernel.lists.iter().flatten().all(|reg| *reg == Reg::NONE || reg.0 < most));
}

#[test]
fn fixtures_become_kernels() {
    for (file, text) in FIXTURES {
        let module = Module::parse(text).unwrap();
        assert!(module.kernels().count() > 0);
        for name in module.kernels() {
            let kernel = module.kernel(name).unwrap_or_else(|error| panic!("{file}: {name}: {error}"));
            assert_sound(&kernel);
        }
    }
    let topk = fixture("softmax_topk").kernel("softmax_topk").unwrap();
    assert!(topk.regs32 <= 64, "{}", topk.regs32);
}

/// Reads a text and all its kernels, which must not panic.
fn read(text: &str) {
    if let Ok(module) = Module::parse(text) {
        for name in module.kernels() {
            if let Ok(kernel) = module.kernel(name) {
                assert_sound(&kernel);
            }
        }
    }
}

#[test]
fn what_grows_without_bounds_is_refused() {
    let error = |text: &str, kernel: &str| match Module::parse(text).unwrap().kernel(kernel) {
        Ok(_) => panic!("taken"),
        Err(error) => error,
    };
    // Each calls the next twice.
    let mut doubling = String::from(".func f40() { ret; }");
    for index in (0..40).rev() {
        doubling += &format!(".func f{index}() {{ call f{}; call f{}; ret; }}", index + 1, index + 1);
    }
    assert!(matches!(
        error(&format!("{doubling} .entry k() {{ call f0; ret; }}"), "k"),
        Error::TooMany { .. }
    ));
    // Nothing but calls: no instruction is ever made.
    let idle = doubling.replace(" ret;", "");
    assert!(matches!(error(&format!("{idle} .entry k() {{ call f0; }}"), "k"), Error::TooMany { .. }));
    // A long way down.
    let mut deep = String::from(".func f9999() { ret; }");
    for index in (0..9999).rev() {
        deep += &format!(".func f{index}() {{ call f{}; ret; }}", index + 1);
    }
    assert!(matches!(error(&format!("{deep} .entry k() {{ call f0; ret; }}"), "k"), Error::TooMany { .. }));
    // A declaration costs nothing until it is used.
    let registers = ".entry k() { .reg .b32 %r<4000000000>; add.s32 %r3999999999, %r0, 1; ret; }";
    assert_eq!(Module::parse(registers).unwrap().kernel("k").unwrap().regs32, 3);
    let local = ".entry k() { .local .b8 x[4000000000]; .reg .b64 %r; mov.u64 %r, x; ret; }";
    assert!(matches!(error(local, "k"), Error::TooMany { .. }));
    let params = ".entry k(.param .b8 x[40000]) { ret; }";
    assert!(matches!(error(params, "k"), Error::TooMany { .. }));
    let shared = ".entry k() { .shared .b8 s[49153]; .reg .b64 %r; mov.u64 %r, s; ret; }";
    assert!(matches!(error(shared, "k"), Error::TooMany { .. }));
    // A long list of targets, gone through by each of many branches.
    let labels: Vec<String> = (0..3000).map(|label| format!("L{label}")).collect();
    let branches = "@%p brx.idx %r, T; ".repeat(3000);
    let tables = format!(
        ".entry k() {{ .reg .b32 %r; .reg .pred %p; mov.u32 %r, 0; setp.eq.u32 %p, %r, 0; T: .branchtargets {}; {branches} {} ret; }}",
        labels.join(", "),
        labels.iter().map(|label| format!("{label}: ")).collect::<String>(),
    );
    assert!(matches!(error(&tables, "k"), Error::TooMany { what: "statements", .. }));
    // The same where many values are in use, once for each of the targets that come before what uses them.
    let used: String = (0..1000).map(|of| format!("add.u32 %r0, %r0, %r{of}; ")).collect();
    let labels: Vec<String> = (0..20_000).map(|label| format!("L{label}")).collect();
    let between = format!(
        ".entry k() {{ .reg .b32 %r<1000>; bra B; E: {used} ret; {} B: T: .branchtargets {}; brx.idx %r0, T; }}",
        labels.iter().map(|label| format!("{label}: bra E; ")).collect::<String>(),
        labels.join(", "),
    );
    assert!(matches!(
        error(&between, "k"),
        Error::TooMany { what: "steps to find which values are in use where", .. }
    ));
    // Modifiers, each of which is looked for among the others.
    let modifiers =
        format!(".entry k() {{ .reg .b32 %r; ld.global{}.u32 %r, [%r]; ret; }}", ".ca".repeat(100_000));
    assert_eq!(error(&modifiers, "k").to_string(), "line 1: more than 16 modifiers of an instruction");
    // Many parameters of a function that is called over and over.
    let count = 20_000;
    let formals: Vec<String> = (0..count).map(|index| format!(".reg .b32 a{index}")).collect();
    let arguments = vec!["%r"; count].join(", ");
    let mut many = format!(
        ".func f({}) {{ ret; }} .func g9() {{ .reg .b32 %r; mov.u32 %r, 0; call f, ({arguments}); ret; }}",
        formals.join(", ")
    );
    for index in (0..9).rev() {
        many += &format!(".func g{index}() {{ call g{}; call g{}; ret; }}", index + 1, index + 1);
    }
    many += ".entry k() { call g0; ret; }";
    assert!(matches!(error(&many, "k"), Error::TooMany { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        read(&text);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn words_of_ptx_in_any_order_are_read_or_refused(
        body in prop::collection::vec(prop::sample::select(WORDS), 0..60),
    ) {
        read(&text(&body.join(" ")));
    }

    #[test]
    fn changed_kernels_are_read_or_refused(
        file in 0..FIXTURES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..80, 0..4, prop::sample::select(WORDS)), 1..6),
        end in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = FIXTURES[file].1.as_bytes().to_vec();
        for (at, length, change, word) in changes {
            let at = at.index(bytes.len());
            let range = at..(at + length).min(bytes.len());
            match change {
                0 => drop(bytes.drain(range)),
                1 => {
                    let copy = bytes[range].to_vec();
                    bytes.splice(at..at, copy);
                }
                2 => drop(bytes.splice(at..at, word.bytes())),
                _ => {
                    // In place of the word that stands there.
                    let end = bytes[at..].iter().position(|byte| b" ,;\n".contains(byte)).map_or(at, |length| at + length);
                    bytes.splice(at..end, word.bytes());
                }
            }
        }
        if let Some(end) = end {
            bytes.truncate(end.index(bytes.len() + 1));
        }
        read(std::str::from_utf8(&bytes).unwrap());
    }
}

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ";",
    ":",
    "@",
    "!",
    "|",
    "<",
    ">",
    "=",
    "+",
    "-",
    "_",
    "%r1",
    "%r2",
    "%rd1",
    "%rd2",
    "%f1",
    "%p1",
    "%rs1",
    "%b1",
    "%fd1",
    "%tid.x",
    "%r1|%p1",
    "A",
    "A:",
    "A: B:",
    "p0",
    "p1",
    "tile",
    "depot",
    "dynamic",
    "counter",
    "0",
    "-1",
    "18446744073709551615",
    "0f3F800000",
    "0d3FF0000000000000",
    "1e999",
    "0x",
    "4294967296",
    "@%p1",
    "@!%p1",
    ".reg",
    ".b32",
    ".u64",
    ".pred",
    ".v4",
    ".shared",
    ".local",
    ".param",
    ".align",
    ".loc 1 2 3\n",
    ".branchtargets A;",
    "bra A;",
    "ret;",
    "call",
    "call f;",
    "(%r1)",
    "__nv_expf",
    "vprintf",
    "mov.b64",
    "mov.u32 %r1, %r2;",
    "ld.global.u32 %r1, [%rd1];",
    "ld.param.v2.u32",
    "st.param.b32",
    "st.global.v4.f32",
    "add.s32",
    "add.s32 %r1, %r2, 1;",
    "setp.eq.u32 %p1, %r1, 0;",
    "@%p1 bra A;",
    "shfl.sync.bfly.b32",
    "cvt.rn.f32.s32",
    "atom.add.u32",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "brx.idx %r1, A;",
    "bar.red.popc.u32",
    "cp.async.ca.shared.global",
    "{%r1, %r2}",
    "{%r1, %r2, %f1, _}",
    "[%rd1+4]",
    "[p1+4]",
    "trap;",
    "exit;",
];
