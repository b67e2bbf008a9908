use crate::program::{Float, Float2, Guard, Inst, Mode, Op, Reg};
use crate::registers::Registers;

#[test]
fn active_lanes_alone_are_written() {
    let mut regs = Registers { w32: vec![[0; 32]; 3], w64: vec![], p: vec![], carry: 0 };
    regs.w32[1] = [1.5f32.to_bits(); 32];
    regs.w32[2] = [2.5f32.to_bits(); 32];
    let none = Reg::NONE;
    let op = Op::Float2(Float2::Add, Float::F32, Mode::default());
    let inst = Inst { op, guard: Guard::ALWAYS, d: Reg(0), e: none, a: Reg(1), b: Reg(2), c: none, f: none };
    assert_eq!(super::step(&inst, &[], &mut regs, 5), Some(0));
    for (lane, bits) in regs.w32[0].iter().enumerate() {
        assert_eq!(f32::from_bits(*bits), if 5 >> lane & 1 != 0 { 4.0 } else { 0.0 });
    }
}
