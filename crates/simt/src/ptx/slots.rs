//! Registers for what is in use at the same time.
//!
//! A value is in use from where it may be written first to where it may be read last, in the order of the code, with all blocks
//! through which it must be kept. That is right for lanes that go apart as well: they run one side after the other, and writes only
//! touch the lanes that are active, so each lane sees what it would see alone. A write under a guard keeps what was there before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Error;
use super::build::{Builder, File, SINK, Slot, Step, Value, Work};
use super::flow::Flow;
use crate::program::{Guard, Inst, Op, Preset, Reg};

/// Bits that are kept for each block in which values are in use: values times blocks.
const LIVENESS_BITS_MAX: usize = 1 << 29;

/// Words of those bits that are looked at: a second or two.
const LIVENESS_WORDS_MAX: usize = 1 << 30;

/// Instructions with their registers.
pub(super) struct Allocated {
    pub code: Vec<Inst>,
    pub lists: Vec<Box<[Reg]>>,
    /// Registers of 32 bits, of 64 bits, and predicates.
    pub counts: [u16; 3],
    pub presets32: Vec<(Reg, Preset)>,
    pub presets64: Vec<(Reg, Preset)>,
    pub presets_pred: Vec<(Reg, bool)>,
}

/// Gives each value a register.
pub(super) fn allocate(builder: &Builder<'_>, flow: &Flow) -> Result<Allocated, Error> {
    let assigned = assign(builder, flow)?;
    let reg = |value: Value| if value == SINK { Reg::NONE } else { assigned.regs[value.0 as usize] };
    let mut lists: Vec<Box<[Reg]>> = Vec::new();
    let mut known: HashMap<Box<[Reg]>, u16> = HashMap::new();
    let mut code = Vec::with_capacity(flow.steps.len());
    for step in &flow.steps {
        let mut operand = |slot: Slot| match slot {
            Slot::None => Ok(Reg::NONE),
            Slot::Value(value) => Ok(reg(value)),
            Slot::List(list) => {
                let list: Box<[Reg]> = builder.lists[list as usize].iter().map(|value| reg(*value)).collect();
                let next = lists.len();
                if let Some(&index) = known.get(&list) {
                    return Ok(Reg(index));
                }
                let limit = usize::from(u16::MAX);
                if next >= limit {
                    return Err(Error::TooMany { line: step.site.ptx, what: "lists of registers", limit });
                }
                known.insert(list.clone(), next as u16);
                lists.push(list);
                Ok(Reg(next as u16))
            }
        };
        let op = match step.work {
            Work::Op(op) => op,
            _ => Op::Nop,
        };
        code.push(Inst {
            op,
            guard: step.guard.map_or(Guard::ALWAYS, |(value, negated)| Guard { reg: reg(value), negated }),
            d: operand(step.d)?,
            e: operand(step.e)?,
            a: operand(step.a)?,
            b: operand(step.b)?,
            c: operand(step.c)?,
            f: operand(step.f)?,
        });
    }
    let mut allocated = Allocated {
        code,
        lists,
        counts: assigned.counts,
        presets32: Vec::new(),
        presets64: Vec::new(),
        presets_pred: Vec::new(),
    };
    for (register, reg) in builder.registers.iter().zip(&assigned.regs) {
        let Some(preset) = register.preset.filter(|_| *reg != Reg::NONE) else { continue };
        match register.file {
            File::W32 => allocated.presets32.push((*reg, preset)),
            File::W64 => allocated.presets64.push((*reg, preset)),
            File::Pred => allocated.presets_pred.push((*reg, preset != Preset::Bits(0))),
        }
    }
    Ok(allocated)
}

/// The register of each value; [`Reg::NONE`] of one that is not there.
pub(super) struct Assigned {
    pub regs: Vec<Reg>,
    pub counts: [u16; 3],
}

pub(super) fn assign(builder: &Builder<'_>, flow: &Flow) -> Result<Assigned, Error> {
    let mut assigned = Assigned { regs: vec![Reg::NONE; builder.registers.len()], counts: [0; 3] };
    let mut new = |file: File| {
        let count = &mut assigned.counts[file as usize];
        let limit = usize::from(u16::MAX);
        if *count == u16::MAX {
            return Err(Error::TooMany { line: 1, what: "registers at the same time", limit });
        }
        *count += 1;
        Ok(Reg(*count - 1))
    };
    let mut spans = spans(builder, flow)?;
    let mut order: Vec<usize> = (0..spans.len()).filter(|value| spans[*value].0 <= spans[*value].1).collect();
    order.sort_by_key(|value| spans[*value].0);
    // Presets are for the whole kernel.
    for &value in &order {
        if builder.registers[value].preset.is_some() {
            assigned.regs[value] = new(builder.registers[value].file)?;
            spans[value] = (1, 0);
        }
    }
    let mut used: [BinaryHeap<Reverse<(u32, u16)>>; 3] = Default::default();
    let mut free: [BinaryHeap<Reverse<u16>>; 3] = Default::default();
    for value in order {
        let (start, end) = spans[value];
        if start > end {
            continue;
        }
        let file = builder.registers[value].file;
        let (used, free) = (&mut used[file as usize], &mut free[file as usize]);
        while let Some(&Reverse((last, reg))) = used.peek()
            && last < start
        {
            used.pop();
            free.push(Reverse(reg));
        }
        let reg = match free.pop() {
            Some(Reverse(reg)) => Reg(reg),
            None => new(file)?,
        };
        used.push(Reverse((end, reg.0)));
        assigned.regs[value] = reg;
    }
    Ok(assigned)
}

/// Calls `each` with every value of the slots.
pub(super) fn values(builder: &Builder<'_>, slots: &[Slot], mut each: impl FnMut(Value)) {
    for slot in slots {
        match slot {
            Slot::None => {}
            Slot::Value(value) => each(*value),
            Slot::List(list) => {
                builder.lists[*list as usize]
                    .iter()
                    .filter(|value| **value != SINK)
                    .for_each(|value| each(*value));
            }
        }
    }
}

/// Calls `each` with every value that a step reads.
pub(super) fn reads(builder: &Builder<'_>, step: &Step, mut each: impl FnMut(Value)) {
    if let Some((guard, _)) = step.guard {
        each(guard);
    }
    values(builder, &step.sources(), each);
}

/// First and last step at which each value is in use; the first is after the last for one that is not there.
fn spans(builder: &Builder<'_>, flow: &Flow) -> Result<Vec<(u32, u32)>, Error> {
    let mut spans = vec![(u32::MAX, 0); builder.registers.len()];
    let is_preset = |value: Value| builder.registers[value.0 as usize].preset.is_some();
    // Values that a block reads before it has written them for all lanes have to be followed from block to block.
    const UNKNOWN: u32 = u32::MAX;
    let mut numbers = vec![UNKNOWN; builder.registers.len()];
    let mut followed = Vec::new();
    let mut written_in = vec![usize::MAX; builder.registers.len()];
    let mut needs: Vec<Vec<u32>> = vec![Vec::new(); flow.blocks.len()];
    for (index, block) in flow.blocks.iter().enumerate() {
        for at in block.start..block.end {
            let step = &flow.steps[at];
            let mut touch = |value: Value| {
                let span = &mut spans[value.0 as usize];
                *span = (span.0.min(at as u32), span.1.max(at as u32));
            };
            reads(builder, step, |value| {
                touch(value);
                if is_preset(value) || written_in[value.0 as usize] == index {
                    return;
                }
                let number = &mut numbers[value.0 as usize];
                if *number == UNKNOWN {
                    *number = followed.len() as u32;
                    followed.push(value);
                }
                needs[index].push(*number);
            });
            values(builder, &step.results(), |value| {
                touch(value);
                if step.guard.is_none() {
                    written_in[value.0 as usize] = index;
                }
            });
        }
    }
    let words = followed.len().div_ceil(64);
    if words.saturating_mul(64).saturating_mul(flow.blocks.len()) > LIVENESS_BITS_MAX {
        return Err(Error::TooMany { line: 1, what: "values in blocks", limit: LIVENESS_BITS_MAX });
    }
    let set = |bits: &mut [u64], number: u32| bits[number as usize / 64] |= 1 << (number % 64);
    let mut live_in = vec![0u64; words * flow.blocks.len()];
    let mut writes = vec![0u64; words * flow.blocks.len()];
    for (index, block) in flow.blocks.iter().enumerate() {
        let range = index * words..(index + 1) * words;
        needs[index].iter().for_each(|number| set(&mut live_in[range.clone()], *number));
        for step in flow.steps[block.start..block.end].iter().filter(|step| step.guard.is_none()) {
            values(builder, &step.results(), |value| {
                let number = numbers[value.0 as usize];
                if number != UNKNOWN {
                    set(&mut writes[range.clone()], number);
                }
            });
        }
    }
    let mut before = vec![Vec::new(); flow.blocks.len()];
    for (index, block) in flow.blocks.iter().enumerate() {
        block.next.iter().for_each(|next| before[*next].push(index));
    }
    // Blocks whose beginning changed are looked at from those before them.
    let mut open: Vec<usize> = (0..flow.blocks.len()).collect();
    let mut is_open = vec![true; flow.blocks.len()];
    let mut work = 0;
    while let Some(index) = open.pop() {
        work += words * flow.blocks[index].next.len().max(1);
        if work > LIVENESS_WORDS_MAX {
            let what = "steps to find which values are in use where";
            return Err(Error::TooMany { line: 1, what, limit: LIVENESS_WORDS_MAX });
        }
        is_open[index] = false;
        let mut changed = false;
        for word in 0..words {
            let out = flow.blocks[index].next.iter().fold(0, |out, next| out | live_in[next * words + word]);
            let at = index * words + word;
            let new = live_in[at] | out & !writes[at];
            changed |= new != live_in[at];
            live_in[at] = new;
        }
        if changed {
            for &previous in &before[index] {
                if !is_open[previous] {
                    is_open[previous] = true;
                    open.push(previous);
                }
            }
        }
    }
    for (index, block) in flow.blocks.iter().enumerate() {
        let mut live = |bits: u64, word: usize, at: usize| {
            let mut bits = bits;
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let span = &mut spans[followed[number].0 as usize];
                *span = (span.0.min(at as u32), span.1.max(at as u32));
            }
        };
        for word in 0..words {
            live(live_in[index * words + word], word, block.start);
            let out = block.next.iter().fold(0, |out, next| out | live_in[next * words + word]);
            live(out, word, block.end - 1);
        }
    }
    Ok(spans)
}
