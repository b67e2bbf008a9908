//! The registers of a warp.

use crate::program::{Kernel, LANES, Reg};

/// The registers of a warp: a value for each lane in each.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registers {
    /// Of 32 bits; values of 8 and 16 bits are zero-extended.
    pub w32: Vec<[u32; LANES]>,
    /// Of 64 bits.
    pub w64: Vec<[u64; LANES]>,
    /// Predicates: a bit for each lane.
    pub p: Vec<u32>,
    /// The carry of each lane.
    pub carry: u32,
}

impl Registers {
    /// All zeros.
    pub fn new(kernel: &Kernel) -> Registers {
        Registers {
            w32: vec![[0; LANES]; kernel.regs32.into()],
            w64: vec![[0; LANES]; kernel.regs64.into()],
            p: vec![0; kernel.preds.into()],
            carry: 0,
        }
    }

    /// Forgets what a block before left, and puts something else there; presets come first, and stay.
    pub fn refill(&mut self, kernel: &Kernel, fill: u8) {
        let word = u32::from_ne_bytes([fill; 4]);
        self.w32[kernel.presets32.len()..].fill([word; LANES]);
        self.w64[kernel.presets64.len()..].fill([u64::from_ne_bytes([fill; 8]); LANES]);
        self.p[kernel.presets_pred.len()..].fill(word);
        self.carry = word;
    }

    /// The lanes for which a predicate holds: all, if there is none.
    #[inline(always)]
    pub fn holds(&self, reg: Reg, negated: bool) -> u32 {
        match reg {
            Reg::NONE => u32::MAX,
            reg if negated => !self.p[reg.index()],
            reg => self.p[reg.index()],
        }
    }
}
