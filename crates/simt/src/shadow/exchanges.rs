//! What comes after a read because it was made of what the read got.
//!
//! An operation of a warp that hands values from lane to lane (a shuffle, a vote, a matrix product) orders no memory. But a lane that writes what it
//! made of such a value, or where it says, cannot do so before the value is there, nor the value be there before it was read.

use std::cell::RefCell;
use std::collections::HashMap;

use super::Mark;
use crate::program::{Kernel, Op};

/// Instructions whose origins are looked for; of a kernel with more of them, all other writes are taken to come from nothing.
const SOUGHT_MAX: usize = 1 << 9;

/// The operations of a kernel that hand values from lane to lane.
#[derive(Debug)]
pub(crate) struct Exchanges<'k> {
    kernel: &'k Kernel,
    instructions: Vec<u32>,
    /// By instruction: whether what it uses may come from each of all.
    origins: RefCell<HashMap<u32, Vec<bool>>>,
    /// By instruction: the exchanges that what it uses may come from.
    through: RefCell<HashMap<u32, Vec<usize>>>,
}

/// When an exchange was last made by a warp, and by which lanes.
pub(crate) type Exchanged = (u32, u32);

impl<'k> Exchanges<'k> {
    pub fn new(kernel: &'k Kernel) -> Exchanges<'k> {
        let hands = |op: &Op| {
            matches!(op, Op::Shuffle(_) | Op::Vote(..) | Op::Match { .. } | Op::Redux(..) | Op::Mma(_))
        };
        let instructions = (0..).zip(&kernel.code).filter(|(_, inst)| hands(&inst.op));
        Exchanges {
            kernel,
            instructions: instructions.map(|(pc, _)| pc).collect(),
            origins: RefCell::default(),
            through: RefCell::default(),
        }
    }

    pub fn count(&self) -> usize {
        self.instructions.len()
    }

    /// The number of an instruction among them.
    pub fn number(&self, pc: u32) -> Option<usize> {
        self.instructions.binary_search(&pc).ok()
    }

    /// Whether what a lane writes comes from what another of its warp read, by an exchange of both since then. `last` are those of the warp.
    /// Where a `crowd` read, all must have taken part.
    pub fn lead(&self, (read, crowd): (&Mark, bool), write: &Mark, last: &[Exchanged]) -> bool {
        let lane = |mark: &Mark| 1u32 << (mark.thread % 32);
        let both = if crowd { u32::MAX } else { lane(read) | lane(write) };
        self.through(write.pc).iter().any(|&number| {
            let (tick, lanes) = last[number];
            tick > read.tick && lanes & both == both && self.comes(read.pc, self.instructions[number])
        })
    }

    fn through(&self, pc: u32) -> Vec<usize> {
        let mut known = self.through.borrow_mut();
        if let Some(known) = known.get(&pc) {
            return known.clone();
        }
        if known.len() >= SOUGHT_MAX {
            return Vec::new();
        }
        let origins = self.kernel.origins.of(pc);
        let through = (0..).zip(&self.instructions).filter(|(_, pc)| origins[**pc as usize]);
        let through: Vec<usize> = through.map(|(number, _)| number).collect();
        known.insert(pc, through.clone());
        through
    }

    /// Whether what an instruction uses may come from another.
    fn comes(&self, from: u32, to: u32) -> bool {
        let mut known = self.origins.borrow_mut();
        if known.len() >= SOUGHT_MAX && !known.contains_key(&to) {
            return false;
        }
        let origins = known.entry(to).or_insert_with(|| self.kernel.origins.of(to));
        origins[from as usize]
    }
}
