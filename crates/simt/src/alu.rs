//! Operations on registers: all that a kernel does but for memory, control and barriers.
//!
//! [`step_inline`] does what kernels are full of where it is called, and hands the rest to a function, [`rare`] or its copy for AVX2. Every
//! operation is written once, for each lane, and inlined into both copies; they give the same bits. What each operation is checked against
//! is in `docs/simt-opcodes.md`.

// Before all that use its macros.
#[macro_use]
mod lanes;

mod atomic;
mod bits;
mod compare;
mod convert;
mod float;
mod functions;
mod half;
mod integer;
mod mma;
mod rounding;
mod warp;

use crate::program::{Float, Inst, Op, Reg};
use crate::registers::Registers;

pub(crate) use atomic::atomic;
pub(crate) use lanes::{Value, ballot, lanes as each_lane, ones, put32};
pub(crate) use mma::spread_matrix;

/// Whether this machine has what the copies for AVX2 are compiled for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("f16c")
}

/// Executes an instruction for the lanes of `mask`, which are not none; the guard has been looked at. `rare` does what is not done here.
///
/// Returns the lanes that asked a lane outside `mask` for its value and got their own, or `None` for an instruction of memory, control or
/// barriers, which is the caller's: nothing has been done then.
#[inline(always)]
pub(crate) fn step_inline(
    inst: &Inst,
    lists: &[Box<[Reg]>],
    regs: &mut Registers,
    mask: u32,
    rare: impl Fn(&Inst, &[Box<[Reg]>], &mut Registers, u32) -> Option<u32>,
) -> Option<u32> {
    let done = match inst.op {
        Op::Int2(op, ty) => integer::two(op, ty, inst, regs, mask),
        Op::Int3(op, ty) => integer::three(op, ty, inst, regs, mask),
        Op::Float2(op, Float::F32, mode) => float::two32(op, mode, inst, regs, mask),
        Op::Fma(Float::F32, mode, false) => float::fma32(mode, inst, regs, mask),
        Op::Convert(to, from, how) => convert::convert(to, from, how, inst, regs, mask),
        Op::Setp(setp) => compare::setp(setp, inst, regs, mask),
        Op::Logic(op, ty) => {
            bits::logic(op, ty, inst, regs, mask);
            true
        }
        Op::Not(ty) => {
            bits::not(ty, inst, regs, mask);
            true
        }
        Op::Mov(ty) => {
            bits::mov(ty, inst, regs, mask);
            true
        }
        Op::Selp(ty) => {
            compare::selp(ty, inst, regs, mask);
            true
        }
        Op::Shuffle(kind) => return Some(warp::shuffle(kind, inst, regs, mask)),
        _ => false,
    };
    if done { Some(0) } else { rare(inst, lists, regs, mask) }
}

#[inline(always)]
fn rare_inline(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    match inst.op {
        Op::Int2(op, ty) => integer::two_rare(op, ty, inst, regs, mask),
        Op::Int3(op, ty) => integer::three_rare(op, ty, inst, regs, mask),
        Op::Mul24 { signed, high } => integer::mul24(signed, high, inst, regs, mask),
        Op::IntNeg(ty) => integer::neg(ty, inst, regs, mask),
        Op::IntAbs(ty) => integer::abs(ty, inst, regs, mask),
        Op::Carried { op, ty, input, output } => {
            integer::carried((op, ty), (input, output), inst, regs, mask);
        }
        Op::Dp4a(a, b) => integer::dp4a((a, b), inst, regs, mask),
        Op::Dp2a(a, b, upper) => integer::dp2a((a, b), upper, inst, regs, mask),
        Op::Float2(op, Float::F32, mode) => float::two32_rare(op, mode, inst, regs, mask),
        Op::Float2(op, Float::F64, mode) => float::two64(op, mode.round, inst, regs, mask),
        Op::Float2(op, ty, mode) => half::two(op, ty, mode, inst, regs, mask),
        Op::Float1(op, Float::F32, mode) => float::one32(op, mode, inst, regs, mask),
        Op::Float1(op, Float::F64, mode) => float::one64(op, mode, inst, regs, mask),
        Op::Float1(op, ty, mode) => half::one(op, ty, mode, inst, regs, mask),
        Op::Fma(Float::F32, mode, relu) => float::fma32_rare(mode, relu, inst, regs, mask),
        Op::Fma(Float::F64, mode, _) => float::fma64(mode.round, inst, regs, mask),
        Op::Fma(ty, mode, relu) => half::fma(ty, mode, relu, inst, regs, mask),
        Op::Convert(to, from, how) => convert::convert_rare(to, from, how, inst, regs, mask),
        Op::ConvertPair(ty, how) => convert::pair(ty, how, inst, regs, mask),
        Op::RoundTf32 => convert::tf32(inst, regs, mask),
        Op::Intrinsic(of, ty) => functions::intrinsic(of, ty, inst, regs, mask),
        Op::Logic(op, ty) => bits::logic(op, ty, inst, regs, mask),
        Op::Not(ty) => bits::not(ty, inst, regs, mask),
        Op::Cnot(ty) => bits::cnot(ty, inst, regs, mask),
        Op::Lop3(table) => bits::lop3(table, inst, regs, mask),
        Op::Funnel { left, wrap } => bits::funnel(left, wrap, inst, regs, mask),
        Op::Popc(ty) => bits::popc(ty, inst, regs, mask),
        Op::Clz(ty) => bits::clz(ty, inst, regs, mask),
        Op::Brev(ty) => bits::brev(ty, inst, regs, mask),
        Op::Bfind(ty, shift) => bits::bfind(ty, shift, inst, regs, mask),
        Op::Bfe(ty) => bits::bfe(ty, inst, regs, mask),
        Op::Bfi(ty) => bits::bfi(ty, inst, regs, mask),
        Op::Bmsk(wrap) => bits::bmsk(wrap, inst, regs, mask),
        Op::Prmt(mode) => bits::prmt(mode, inst, regs, mask),
        Op::Mov(ty) => bits::mov(ty, inst, regs, mask),
        Op::Pack(part, whole) => bits::pack(part, whole, inst, lists, regs, mask),
        Op::Unpack(part, whole) => bits::unpack(part, whole, inst, lists, regs, mask),
        Op::Setp(setp) => compare::setp_rare(setp, inst, regs, mask),
        Op::Set(setp, result) => compare::set(setp, result, inst, regs, mask),
        Op::Selp(ty) => compare::selp(ty, inst, regs, mask),
        Op::Slct(ty, by) => compare::slct(ty, by, inst, regs, mask),
        Op::Testp(test, ty) => compare::testp(test, ty, inst, regs, mask),
        Op::ActiveMask => warp::active_mask(inst, regs, mask),
        Op::Shuffle(kind) => return Some(warp::shuffle(kind, inst, regs, mask)),
        Op::Vote(kind, negated) => warp::vote(kind, negated, inst, regs, mask),
        Op::Match { bits, all } => warp::matches(bits, all, inst, regs, mask),
        Op::Redux(op, ty) => warp::redux(op, ty, inst, regs, mask),
        Op::Mma(of) => return Some(mma::mma(of, inst, lists, regs, mask)),
        Op::Nop => {}
        Op::WarpSync
        | Op::Load(_)
        | Op::Store(_)
        | Op::Atomic(..)
        | Op::ConvertAddress { .. }
        | Op::IsSpace(_)
        | Op::Fence(_)
        | Op::CopyAsync(_)
        | Op::CommitGroup
        | Op::WaitGroup(_)
        | Op::Mbarrier { .. }
        | Op::LoadMatrix { .. }
        | Op::Branch { .. }
        | Op::BranchIndexed { .. }
        | Op::Meet
        | Op::Barrier(..)
        | Op::Exit
        | Op::Trap
        | Op::Printf(_)
        | Op::AssertFail(_) => return None,
    }
    Some(0)
}

/// Executes any instruction that [`step_inline`] leaves to it.
#[inline(never)]
pub(crate) fn rare(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    rare_inline(inst, lists, regs, mask)
}

/// [`rare`] for machines that [have AVX2](has_avx2).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt,f16c")]
#[inline(never)]
pub(crate) fn rare_avx2(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    rare_inline(inst, lists, regs, mask)
}

/// [`step_inline`] in a function of its own.
#[cfg(test)]
#[inline(never)]
pub(crate) fn step(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    step_inline(inst, lists, regs, mask, rare)
}

/// [`step`] for machines that [have AVX2](has_avx2).
#[cfg(test)]
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt,lzcnt,f16c")]
#[inline(never)]
pub(crate) fn step_avx2(inst: &Inst, lists: &[Box<[Reg]>], regs: &mut Registers, mask: u32) -> Option<u32> {
    step_inline(inst, lists, regs, mask, |inst, lists, regs, mask| rare_avx2(inst, lists, regs, mask))
}

#[cfg(test)]
mod tests;
