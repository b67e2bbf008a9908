//! A warp: its registers, and the fragments that its lanes run in.
//!
//! All lanes begin as one fragment. A branch that sends lanes two ways makes two of it, which run one after the other until both have
//! come to the branch's immediate post-dominator, where they are one again. The order in which fragments run is free, so one may wait, for
//! lanes that a shuffle names or at a barrier, while another comes to where it is.

use crate::alu;
use crate::fault::Kind;
use crate::launch::Schedule;
use crate::memory::POISON;
use crate::program::{Inst, Kernel, LANES, MmaInput, NEVER, Op, Order, Preset, Reg, Scope, Special};
use crate::registers::Registers;

use super::Machine;
use super::barrier::Arrival;
use super::block::Block;
use super::copies::Copies;

/// Why a warp stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    /// It ran for as long as it may.
    Turn,
    /// It looks again and again at what others may change, and sees the same.
    Idle,
    /// It waits at a barrier.
    Barrier,
    /// All its threads have ended.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// Waits for the lanes that an operation of the warp names.
    Sync,
    /// As before, but they will not come.
    Alone,
    /// Waits at a barrier.
    Barrier,
}

/// Lanes at one place.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    pc: u32,
    mask: u32,
    /// Index of the meeting that it goes to, if there is one.
    meeting: Option<u32>,
    state: State,
}

/// Where lanes that went apart meet.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    pc: u32,
    expected: u32,
    arrived: u32,
    /// Where those who meet go on to.
    next: Option<u32>,
}

/// Looks at what others may change after which lanes that wait for those who look go on without them.
const LOOKS: u32 = 8;

/// Looks that show the same as the one before, after which others get their turn.
const IDLE: u32 = 4;

/// What a look takes of a long turn: who looks may wait for another.
const LOOK: u32 = 32;

/// To whom lanes that look at what others may change give way.
#[derive(Debug, Clone, Copy)]
enum Other {
    Lanes,
    Warps,
}

/// Every other lane.
const EVEN: u32 = 0x5555_5555;

/// A warp.
#[derive(Debug, Default)]
pub(super) struct Warp {
    pub index: usize,
    /// Lanes that there are.
    born: u32,
    live: u32,
    pub regs: Registers,
    fragments: Vec<Fragment>,
    meetings: Vec<Meeting>,
    /// When each lane last made what it had done visible to the device; 0 if never.
    pub fenced: [u32; LANES],
    /// The same, to its block at least.
    pub fenced_for_block: [u32; LANES],
    pub copies: Copies,
    /// Looks at what others may change since lanes last met, while some wait to.
    looks: u32,
    /// The last look at what others may change: by which instruction and lanes, and what they saw where; unless something was stored since.
    last_look: Option<(u32, u32, u64)>,
    /// Looks that showed the same as the one before.
    idle: u32,
    /// Whether it waits at a barrier of the block.
    waits: bool,
    /// Whether lanes that were apart have come together, and may be one fragment again.
    met: bool,
    /// Whether its presets are in place.
    filled: bool,
}

impl Warp {
    pub fn new(index: usize, threads: u32, kernel: &Kernel) -> Warp {
        let lanes = (threads - 32 * index as u32).min(32);
        Warp { index, born: u32::MAX >> (32 - lanes), regs: Registers::new(kernel), ..Warp::default() }
    }

    pub fn begin(&mut self, ctaid: [u32; 3], machine: &Machine<'_>) {
        self.live = self.born;
        self.fragments.clear();
        self.fragments.push(Fragment { pc: 0, mask: self.born, meeting: None, state: State::Ready });
        self.meetings.clear();
        self.fenced = [0; LANES];
        self.fenced_for_block = [0; LANES];
        self.copies = Copies::default();
        self.looks = 0;
        self.worked();
        self.waits = false;
        self.met = false;
        self.regs.refill(machine.kernel, machine.fill);
        let moved = |preset: &Preset| matches!(preset, Preset::Special(Special::Ctaid(_) | Special::Smid));
        // Nothing writes to presets, so of another block only its own index and place are new.
        if self.filled {
            self.fill(ctaid, machine, moved);
        } else {
            self.fill(ctaid, machine, |_| true);
            self.filled = true;
        }
    }

    fn fill(&mut self, ctaid: [u32; 3], machine: &Machine<'_>, wanted: impl Fn(&Preset) -> bool) {
        let kernel = machine.kernel;
        let [x, y, _] = machine.launch.block;
        let threads: u32 = machine.launch.block.iter().product();
        let index = self.index as u32;
        let param = |offset: u32, bytes: u8, signed: bool| {
            let mut value = [0; 8];
            let bytes = usize::from(bytes);
            value[..bytes].copy_from_slice(&machine.params[offset as usize..][..bytes]);
            let value = u64::from_le_bytes(value);
            let unused = 64 - 8 * bytes as u32;
            if signed { ((value << unused) as i64 >> unused) as u64 } else { value }
        };
        let special = |special: Special, lane: u32| {
            let thread = 32 * index + lane;
            match special {
                Special::Tid(axis) => [thread % x, thread / x % y, thread / x / y][usize::from(axis)],
                Special::Ntid(axis) => machine.launch.block[usize::from(axis)],
                Special::Ctaid(axis) => ctaid[usize::from(axis)],
                Special::Nctaid(axis) => machine.launch.grid[usize::from(axis)],
                Special::LaneId => lane,
                Special::WarpId => index,
                Special::NwarpId => threads.div_ceil(32),
                Special::LanemaskEq => 1 << lane,
                Special::LanemaskLt => (1 << lane) - 1,
                Special::LanemaskLe => u32::MAX >> (31 - lane),
                Special::LanemaskGt => !(u32::MAX >> (31 - lane)),
                Special::LanemaskGe => u32::MAX << lane,
                Special::Smid => machine.multiprocessor(ctaid),
                Special::Nsmid => machine.multiprocessors,
                Special::Gridid => 0,
                Special::DynamicShared => machine.launch.shared,
                Special::TotalShared => kernel.shared.bytes + machine.launch.shared,
            }
        };
        let value = |preset: Preset, lane: u32| match preset {
            Preset::Bits(bits) => bits,
            Preset::Special(which) => special(which, lane).into(),
            Preset::Param { offset, bytes, signed } => param(offset, bytes, signed),
        };
        for &(reg, preset) in kernel.presets32.iter().filter(|(_, preset)| wanted(preset)) {
            let places = &mut self.regs.w32[reg.index()];
            places.fill(value(preset, 0) as u32);
            if preset.is_of_lane() {
                (1..).zip(&mut places[1..]).for_each(|(lane, place)| *place = value(preset, lane) as u32);
            }
        }
        for &(reg, preset) in kernel.presets64.iter().filter(|(_, preset)| wanted(preset)) {
            let places = &mut self.regs.w64[reg.index()];
            places.fill(value(preset, 0));
            if preset.is_of_lane() {
                (1..).zip(&mut places[1..]).for_each(|(lane, place)| *place = value(preset, lane));
            }
        }
        for &(reg, holds) in &kernel.presets_pred {
            self.regs.p[reg.index()] = if holds { u32::MAX } else { 0 };
        }
    }

    pub fn is_done(&self) -> bool {
        self.live == 0
    }

    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Threads that have come to their end.
    pub fn ended(&self) -> u32 {
        self.born & !self.live
    }

    /// A thread that has not.
    pub fn first_thread(&self) -> u16 {
        (32 * self.index as u32 + self.live.trailing_zeros()) as u16
    }

    /// Where the warp is: the first of its fragments.
    pub fn pc(&self) -> u32 {
        self.fragments.first().map_or(0, |fragment| fragment.pc)
    }

    /// Runs for so many instructions, or until it waits or ends.
    pub fn run(&mut self, turn: u32, block: &mut Block, machine: &mut Machine<'_>) -> Pause {
        #[cfg(target_arch = "x86_64")]
        if alu::has_avx2() {
            // SAFETY: the CPU has what the function is compiled for.
            #[allow(unsafe_code)]
            return unsafe { self.run_avx2(turn, block, machine) };
        }
        self.run_inline(turn, block, machine, alu::rare)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    fn run_avx2(&mut self, turn: u32, block: &mut Block, machine: &mut Machine<'_>) -> Pause {
        self.run_inline(turn, block, machine, |inst, lists, regs, mask| {
            alu::rare_avx2(inst, lists, regs, mask)
        })
    }

    /// `rare` is what arithmetic leaves to a function.
    #[inline(always)]
    fn run_inline(
        &mut self,
        turn: u32,
        block: &mut Block,
        machine: &mut Machine<'_>,
        rare: impl Fn(&Inst, &[Box<[Reg]>], &mut Registers, u32) -> Option<u32> + Copy,
    ) -> Pause {
        let kernel = machine.kernel;
        let mut left = turn;
        let look = if machine.schedule == Schedule::Reverse { LOOK } else { 0 };
        'fragments: loop {
            let Some(current) = self.next(machine) else {
                if self.live == 0 {
                    return Pause::Done;
                }
                if self.resolve(block, machine) {
                    continue 'fragments;
                }
                return Pause::Barrier;
            };
            let Fragment { mut pc, mask, .. } = self.fragments[current];
            loop {
                if left == 0 || machine.tick >= machine.limit {
                    self.fragments[current].pc = pc;
                    // Another gets the next turn: it may hold what this one waits for.
                    self.fragments.rotate_right(1);
                    return Pause::Turn;
                }
                left -= 1;
                machine.tick += 1;
                let inst = &kernel.code[pc as usize];
                let active = mask & self.regs.holds(inst.guard.reg, inst.guard.negated);
                let count = &mut machine.counts.code[pc as usize];
                count.executed += 1;
                count.lanes += u64::from(active.count_ones());
                match inst.op {
                    Op::Branch { target, join } => {
                        if active == mask {
                            pc = target;
                        } else if active == 0 {
                            pc += 1;
                        } else {
                            machine.counts.divergent_branches += 1;
                            self.part(
                                current,
                                join,
                                &[(pc + 1, mask & !active), (target, active)],
                                machine.schedule,
                            );
                            continue 'fragments;
                        }
                    }
                    Op::BranchIndexed { table, join } => {
                        let ways =
                            self.ways(inst, &kernel.tables[table as usize], active, mask & !active, pc + 1);
                        if let [(target, _)] = ways[..] {
                            pc = target;
                        } else {
                            machine.counts.divergent_branches += 1;
                            self.part(current, join, &ways, machine.schedule);
                            continue 'fragments;
                        }
                    }
                    Op::Meet => {
                        let meeting = self.fragments[current].meeting;
                        match meeting {
                            Some(index) if self.meetings[index as usize].pc == pc => {
                                self.meetings[index as usize].arrived |= mask;
                                self.fragments.remove(current);
                                self.check_meetings();
                                continue 'fragments;
                            }
                            _ => pc += 1,
                        }
                    }
                    Op::Exit => {
                        if active == 0 {
                            pc += 1;
                            continue;
                        }
                        if self.copies.is_to_arrive() {
                            machine.let_copies_arrive(active, self, block);
                        }
                        self.copies.abandon(active, self.index, pc, block, machine);
                        self.live &= !active;
                        if active == mask {
                            self.fragments.remove(current);
                        } else {
                            self.fragments[current] =
                                Fragment { pc: pc + 1, mask: mask & !active, ..self.fragments[current] };
                        }
                        for meeting in &mut self.meetings {
                            meeting.expected &= !active;
                        }
                        self.check_meetings();
                        continue 'fragments;
                    }
                    Op::Barrier(kind, aligned) => {
                        if active == 0 {
                            pc += 1;
                            continue;
                        }
                        if active != mask && !aligned {
                            let Fragment { meeting, .. } = self.fragments.remove(current);
                            let state = State::Ready;
                            self.fragments.extend(
                                [(pc + 1, mask & !active), (pc, active)].map(|(pc, mask)| Fragment {
                                    pc,
                                    mask,
                                    meeting,
                                    state,
                                }),
                            );
                            continue 'fragments;
                        }
                        if active != mask {
                            self.note_divergence(pc, active, mask & !active, block, machine);
                        }
                        if kind == crate::program::Barrier::Arrive {
                            // A warp arrives once, however its lanes came here.
                            self.fragments[current].pc = pc;
                            if !self.together(current, mask, inst, block, machine, rare) {
                                continue 'fragments;
                            }
                            let arrival = self.arrival(machine.kernel, pc, self.live, machine.tick, false);
                            let (number, count) = self.barrier_operands(inst, mask);
                            block.arrive(number, count, arrival, machine);
                            // Who waits may go on; this warp is not among them.
                            block.settle(1, machine);
                            pc += 1;
                            if self.rejoin(current, pc) {
                                continue 'fragments;
                            }
                            continue;
                        }
                        self.fragments[current].pc = pc;
                        self.fragments[current].state = State::Barrier;
                        continue 'fragments;
                    }
                    Op::Shuffle(_)
                    | Op::Vote(..)
                    | Op::Match { .. }
                    | Op::Redux(..)
                    | Op::WarpSync
                    | Op::Mma(_)
                    | Op::LoadMatrix { .. } => {
                        if active == 0 {
                            pc += 1;
                            continue;
                        }
                        self.fragments[current].pc = pc;
                        if !self.together(current, active, inst, block, machine, rare) {
                            continue 'fragments;
                        }
                        pc += 1;
                        if self.rejoin(current, pc) {
                            continue 'fragments;
                        }
                    }
                    Op::Load(access) => {
                        if active != 0 {
                            machine.load(inst, &access, pc, active, self, block);
                        }
                        pc += 1;
                        if access.order != Order::Weak {
                            match self.gives_way(current, pc) {
                                Some(Other::Lanes) => continue 'fragments,
                                Some(Other::Warps) => return Pause::Idle,
                                None => left = left.saturating_sub(look),
                            }
                        }
                    }
                    Op::Store(access) => {
                        if access.order != Order::Weak && self.goes_apart(current, pc, active, machine) {
                            continue 'fragments;
                        }
                        if active != 0 {
                            machine.store(inst, &access, pc, active, self, block);
                        }
                        pc += 1;
                    }
                    Op::Atomic(op, ty, access, scope) => {
                        let looked = active != 0
                            && machine.atomic(inst, (op, ty), &access, scope, pc, active, self, block);
                        pc += 1;
                        // Who adds up waits for nobody.
                        match if looked { self.gives_way(current, pc) } else { None } {
                            Some(Other::Lanes) => continue 'fragments,
                            Some(Other::Warps) => return Pause::Idle,
                            None => left = left.saturating_sub(look),
                        }
                    }
                    Op::Fence(scope) => {
                        for lane in lanes(active) {
                            self.fenced_for_block[lane] = machine.tick;
                            if scope == Scope::Device {
                                self.fenced[lane] = machine.tick;
                            }
                        }
                        if scope == Scope::Device && active != 0 {
                            block.fence(self.index, machine.tick);
                            machine.fence_past(block.index);
                        }
                        pc += 1;
                    }
                    Op::CopyAsync(copy) => {
                        if active != 0 {
                            machine.copy_async(inst, copy, pc, active, self, block);
                        }
                        pc += 1;
                    }
                    Op::CommitGroup => {
                        self.copies.commit(active);
                        pc += 1;
                    }
                    Op::WaitGroup(groups) => {
                        if active != 0 {
                            machine.wait_group(groups, active, self, block);
                        }
                        pc += 1;
                    }
                    Op::Mbarrier { kind, wide_address } => {
                        let waits = active != 0
                            && machine.mbarrier(inst, kind, wide_address, pc, active, self, block);
                        pc += 1;
                        if waits {
                            self.fragments[current].pc = pc;
                            if self.keeps_others_waiting() {
                                self.let_go();
                            }
                            // Those whom it waits for are elsewhere.
                            self.fragments.rotate_right(1);
                            return Pause::Idle;
                        }
                    }
                    Op::ConvertAddress { space, to_space, wide } => {
                        self.convert_address(inst, space, to_space, wide, active);
                        pc += 1;
                    }
                    Op::IsSpace(space) => {
                        self.is_space(inst, space, active, machine);
                        pc += 1;
                    }
                    Op::Trap | Op::AssertFail(_) => {
                        if active == 0 {
                            pc += 1;
                            continue;
                        }
                        let thread = (32 * self.index as u32 + active.trailing_zeros()) as u16;
                        let what = match inst.op {
                            Op::AssertFail(format) => {
                                format!(
                                    "an assertion does not hold: {}",
                                    kernel.formats[usize::from(format)].text
                                )
                            }
                            _ => "ends the launch by a trap".to_owned(),
                        };
                        let count = active.count_ones().into();
                        machine.fault(Kind::Trap, pc, None, count, (block, thread), || what);
                        self.fragments[current].pc = pc;
                        return Pause::Turn;
                    }
                    Op::Printf(format) => {
                        machine.printf(inst, &kernel.formats[usize::from(format)].text, active, self, block);
                        pc += 1;
                    }
                    _ => {
                        if active != 0 {
                            let done = alu::step_inline(inst, &kernel.lists, &mut self.regs, active, rare);
                            assert!(done.is_some(), "{:?} is looked after here", inst.op);
                        }
                        pc += 1;
                    }
                }
            }
        }
    }

    /// The fragment that runs next.
    fn next(&mut self, machine: &mut Machine<'_>) -> Option<usize> {
        let ready = |fragment: &Fragment| matches!(fragment.state, State::Ready | State::Alone);
        if let Schedule::Random(_) = machine.schedule
            && self.fragments.len() > 1
        {
            let start = machine.draw() as usize % self.fragments.len();
            let order = (start..self.fragments.len()).chain(0..start);
            return order.into_iter().find(|&index| ready(&self.fragments[index]));
        }
        self.fragments.iter().rposition(ready)
    }

    /// Before a volatile or relaxed store: parts the lanes in two where they are to go apart. Who hands values from lane to lane by volatile memory may
    /// not count on their going together.
    #[cold]
    #[inline(never)]
    fn goes_apart(&mut self, current: usize, pc: u32, active: u32, machine: &mut Machine<'_>) -> bool {
        let Fragment { mask, meeting, .. } = self.fragments[current];
        let halves = [mask & EVEN, mask & !EVEN];
        let apart = machine.schedule == Schedule::Reverse && !machine.in_step && !halves.contains(&0);
        if apart {
            // Either half executes it, and not both of them together before.
            let count = &mut machine.counts.code[pc as usize];
            count.executed -= 1;
            count.lanes -= u64::from(active.count_ones());
            self.fragments.remove(current);
            let state = State::Ready;
            self.fragments.extend(halves.map(|mask| Fragment { pc, mask, meeting, state }));
        }
        apart
    }

    /// Parts the lanes of a fragment. The last of the ways is gone first, unless the schedule is in reverse.
    fn part(&mut self, current: usize, join: u32, ways: &[(u32, u32)], schedule: Schedule) {
        let fragment = self.fragments.remove(current);
        let meeting = match fragment.meeting {
            _ if join == NEVER => fragment.meeting,
            // Lanes that leave a loop one by one go to one meeting.
            Some(index) if self.meetings[index as usize].pc == join => Some(index),
            next => {
                self.meetings.push(Meeting { pc: join, expected: fragment.mask, arrived: 0, next });
                Some(self.meetings.len() as u32 - 1)
            }
        };
        let at = self.fragments.len();
        for &(pc, mask) in ways {
            self.fragments.push(Fragment { pc, mask, meeting, state: State::Ready });
        }
        if schedule == Schedule::Reverse {
            self.fragments[at..].reverse();
        }
    }

    fn ways(&self, inst: &Inst, targets: &[u32], active: u32, rest: u32, next: u32) -> Vec<(u32, u32)> {
        let mut ways: Vec<(u32, u32)> = Vec::new();
        let mut add = |pc: u32, lanes: u32| match ways.iter_mut().find(|(known, _)| *known == pc) {
            Some((_, mask)) => *mask |= lanes,
            None => ways.push((pc, lanes)),
        };
        if rest != 0 {
            add(next, rest);
        }
        let indices = &self.regs.w32[inst.a.index()];
        for lane in lanes(active) {
            // Where an index beyond the table leads is undefined.
            add(targets.get(indices[lane] as usize).or(targets.last()).copied().unwrap_or(next), 1 << lane);
        }
        ways
    }

    /// Lets go on who has met.
    fn check_meetings(&mut self) {
        // Those who come last are at the end, and what they meet for may have come about by their meeting.
        let mut index = self.meetings.len();
        while index > 0 {
            index -= 1;
            let Meeting { pc, expected, arrived, next } = self.meetings[index];
            let arrived = arrived & expected;
            if expected == 0 || arrived != expected {
                continue;
            }
            self.meetings[index].expected = 0;
            self.looks = 0;
            self.fragments.push(Fragment { pc: pc + 1, mask: arrived, meeting: next, state: State::Ready });
        }
        while self.meetings.last().is_some_and(|meeting| meeting.expected == 0) {
            self.meetings.pop();
        }
    }

    /// Notes a look at what others may change; whether it shows the same as the last.
    pub fn look(&mut self, pc: u32, lanes: u32, seen: u64) -> bool {
        let look = Some((pc, lanes, seen));
        let same = self.last_look == look;
        self.last_look = look;
        self.idle = if same { self.idle + 1 } else { 0 };
        same
    }

    /// Notes that it does something else than to look.
    pub fn worked(&mut self) {
        (self.last_look, self.idle) = (None, 0);
    }

    /// After a look: whether those go on who wait for the lanes that look, or, where it shows what it showed, other warps. The lanes themselves go on
    /// at an instruction.
    fn gives_way(&mut self, current: usize, pc: u32) -> Option<Other> {
        if self.keeps_others_waiting() {
            self.fragments[current].pc = pc;
            self.let_go();
            return Some(Other::Lanes);
        }
        if self.idle < IDLE {
            return None;
        }
        self.idle = 0;
        self.fragments[current].pc = pc;
        self.fragments.rotate_right(1);
        Some(Other::Warps)
    }

    /// Counts a look at what others may change; whether there were many by now while some lanes wait for those that look.
    fn keeps_others_waiting(&mut self) -> bool {
        if self.meetings.iter().all(|meeting| meeting.arrived == 0) {
            return false;
        }
        self.looks += 1;
        self.looks > LOOKS
    }

    /// Lets lanes go on that wait for others to meet: one of them may hold the lock that those ask for, and every thread gets on in the end.
    fn let_go(&mut self) {
        self.looks = 0;
        let Some(meeting) = self.meetings.iter_mut().rfind(|meeting| meeting.arrived & meeting.expected != 0)
        else {
            return;
        };
        let mask = meeting.arrived & meeting.expected;
        meeting.expected &= !mask;
        meeting.arrived = 0;
        let (pc, next) = (meeting.pc, meeting.next);
        self.fragments.push(Fragment { pc: pc + 1, mask, meeting: next, state: State::Ready });
    }

    /// The register that holds which lanes take part in an operation of the warp; none where all do.
    #[inline(always)]
    fn naming(inst: &Inst) -> Option<Reg> {
        match inst.op {
            Op::Shuffle(_) => Some(inst.f),
            Op::WarpSync => Some(inst.a),
            Op::Mma(_) | Op::LoadMatrix { .. } | Op::Barrier(..) => None,
            _ => Some(inst.b),
        }
    }

    /// What the first of these lanes names in an operation of the warp, and which of them name the same.
    #[inline(always)]
    fn named(&self, inst: &Inst, lanes: u32) -> (u32, u32) {
        let Some(reg) = Warp::naming(inst) else { return (u32::MAX, lanes) };
        let masks = &self.regs.w32[reg.index()];
        let named = masks[lanes.trailing_zeros() as usize];
        let mut same = 0;
        for (lane, mask) in masks.iter().enumerate() {
            same |= u32::from(*mask == named) << lane;
        }
        (named, same & lanes)
    }

    /// Executes an operation of the warp, if all whom it names are here. Otherwise the fragment waits. Lanes that name different ones, as the
    /// tiles of a warp do, are groups of their own.
    fn together(
        &mut self,
        current: usize,
        active: u32,
        inst: &Inst,
        block: &mut Block,
        machine: &mut Machine<'_>,
        rare: impl Fn(&Inst, &[Box<[Reg]>], &mut Registers, u32) -> Option<u32> + Copy,
    ) -> bool {
        let (named, group) = self.named(inst, active);
        if group == active {
            return self.meet(current, active, inst, block, machine, rare);
        }
        let Fragment { pc, mask, meeting, state } = self.fragments[current];
        let mut groups = vec![(named, group)];
        let mut rest = active & !group;
        while rest != 0 {
            let (named, group) = self.named(inst, rest);
            groups.push((named, group));
            rest &= !group;
        }
        for &(named, group) in &groups {
            let others = named & active & !group;
            if others != 0 {
                let (lane, other) = (group.trailing_zeros(), others.trailing_zeros());
                let who = self.thread(lane);
                let names = Warp::naming(inst).map_or(0, |reg| self.regs.w32[reg.index()][other as usize]);
                machine.fault(Kind::WrongMask, pc, None, group.count_ones().into(), (block, who), || {
                    format!("lane {lane} names lanes {named:#010x} in an operation, of which lane {other} names {names:#010x}")
                });
            }
        }
        if groups.iter().all(|(named, group)| named & self.live & !active & !group == 0) {
            for (_, group) in groups {
                self.meet(current, group, inst, block, machine, rare);
            }
            return true;
        }
        // Some wait for lanes that are elsewhere, and the others need not.
        let ways = groups.iter().map(|(_, group)| *group).chain([mask & !active]);
        let apart = ways.filter(|mask| *mask != 0).map(|mask| Fragment { pc, mask, meeting, state });
        self.fragments.remove(current);
        self.fragments.extend(apart);
        false
    }

    /// Lets lanes that name the same execute an operation of the warp, if all whom they name are here.
    fn meet(
        &mut self,
        current: usize,
        active: u32,
        inst: &Inst,
        block: &mut Block,
        machine: &mut Machine<'_>,
        rare: impl Fn(&Inst, &[Box<[Reg]>], &mut Registers, u32) -> Option<u32>,
    ) -> bool {
        let Fragment { pc, mask, state, .. } = self.fragments[current];
        let first = active.trailing_zeros() as usize;
        let named = Warp::naming(inst).map_or(u32::MAX, |reg| self.regs.w32[reg.index()][first]);
        let unnamed = active & !named;
        if unnamed != 0 {
            let lane = unnamed.trailing_zeros();
            let who = self.thread(lane);
            machine.fault(Kind::WrongMask, pc, None, unnamed.count_ones().into(), (block, who), || {
                format!("lane {lane} takes part in an operation of lanes {named:#010x}")
            });
        }
        let missing = named & self.live & !active;
        let (silent, elsewhere) = (missing & mask, missing & !mask);
        let (mut all, mut absent) = (active, 0);
        if elsewhere != 0 {
            let waiting = self.fragments.iter().filter(|other| other.state == State::Sync && other.pc == pc);
            let also = waiting.fold(0, |lanes, other| lanes | self.alike(inst, other.mask, named));
            absent = elsewhere & !also;
            if absent == 0 {
                all |= also;
            } else if state != State::Alone {
                self.fragments[current].state = State::Sync;
                return false;
            }
        }
        if let Op::Barrier(_, aligned) = inst.op {
            if aligned && absent != 0 {
                self.note_divergence(pc, active, missing, block, machine);
            }
        } else if silent != 0 || absent != 0 {
            let who = self.thread(active.trailing_zeros());
            machine.fault(Kind::MissingLanes, pc, None, active.count_ones().into(), (block, who), || {
                format!("names lanes {named:#010x}, of which {missing:#010x} do not come")
            });
        }
        self.fragments[current].state = State::Ready;
        match inst.op {
            Op::WarpSync => block.clocks.meet(self.index, machine.tick),
            Op::Barrier(..) => {}
            Op::LoadMatrix { count, transposed, wide_address } => {
                machine.load_matrix(inst, (count, transposed, wide_address), pc, all, self, block);
            }
            _ => {
                if let Some(number) = machine.exchanges.number(pc) {
                    block.exchanged[self.index][number] = (machine.tick, all | !self.born);
                }
                let strays = rare(inst, &machine.kernel.lists, &mut self.regs, all).unwrap_or(0);
                if strays != 0 {
                    let lane = strays.trailing_zeros();
                    let who = self.thread(lane);
                    machine.fault(
                        Kind::InactiveLane,
                        pc,
                        None,
                        strays.count_ones().into(),
                        (block, who),
                        || format!("lane {lane} takes the value of a lane that takes no part"),
                    );
                    // What it gets is undefined. Hardware gives it its own.
                    if machine.fill != POISON {
                        let got = u32::from_ne_bytes([machine.fill; 4]);
                        let (results, wide) = match inst.op {
                            Op::Mma(mma) => {
                                (&*machine.kernel.lists[inst.d.index()], mma.input == MmaInput::F64)
                            }
                            _ => (std::slice::from_ref(&inst.d), false),
                        };
                        for reg in results.iter().filter(|reg| **reg != Reg::NONE) {
                            lanes(strays).for_each(|lane| match wide {
                                true => {
                                    self.regs.w64[reg.index()][lane] = u64::from(got) << 32 | u64::from(got)
                                }
                                false => self.regs.w32[reg.index()][lane] = got,
                            });
                        }
                    }
                }
            }
        }
        if all != active {
            self.met = true;
            for other in &mut self.fragments {
                if other.state == State::Sync && other.pc == pc && other.mask & all != 0 {
                    other.pc += 1;
                    other.state = State::Ready;
                }
            }
        }
        true
    }

    /// Those of some lanes that execute an operation of the warp and name these in it.
    fn alike(&self, inst: &Inst, lanes: u32, named: u32) -> u32 {
        let lanes = lanes & self.regs.holds(inst.guard.reg, inst.guard.negated);
        let Some(reg) = Warp::naming(inst) else { return lanes };
        let masks = &self.regs.w32[reg.index()];
        self::lanes(lanes).filter(|lane| masks[*lane] == named).fold(0, |same, lane| same | 1 << lane)
    }

    fn thread(&self, lane: u32) -> u16 {
        (32 * self.index as u32 + lane) as u16
    }

    /// When no fragment can go on: whether one is made to. Otherwise the warp waits at a barrier.
    fn resolve(&mut self, block: &mut Block, machine: &mut Machine<'_>) -> bool {
        if let Some(fragment) = self.fragments.iter_mut().find(|fragment| fragment.state == State::Sync) {
            fragment.state = State::Alone;
            return true;
        }
        let here: Vec<(u32, u32)> =
            self.fragments.iter().map(|fragment| (fragment.pc, fragment.mask)).collect();
        let lanes = here.iter().fold(0, |lanes, (_, mask)| lanes | mask);
        let (pc, mask) = here[0];
        let aligned =
            |&(pc, _): &(u32, u32)| !matches!(machine.kernel.code[pc as usize].op, Op::Barrier(_, false));
        let number =
            |&(pc, mask): &(u32, u32)| self.barrier_operands(&machine.kernel.code[pc as usize], mask);
        let apart = !here.iter().any(aligned) && here.iter().all(|other| number(other) == number(&here[0]));
        if apart && lanes != self.live {
            // Those who wait to meet them need not.
            self.let_go();
            return true;
        }
        if lanes != self.live {
            self.note_divergence(pc, lanes, self.live & !lanes, block, machine);
        } else if !apart && here.iter().any(|&(other, _)| other != pc) {
            self.note_divergence(pc, mask, self.live & !mask, block, machine);
        }
        let inst = &machine.kernel.code[pc as usize];
        let (number, count) = self.barrier_operands(inst, mask);
        let mut arrival = self.arrival(machine.kernel, pc, mask, machine.tick, true);
        arrival.lanes = lanes;
        for &(pc, mask) in &here[1..] {
            arrival.holds |= self.arrival(machine.kernel, pc, mask, machine.tick, true).holds;
        }
        self.waits = true;
        block.arrive(number, count, arrival, machine);
        false
    }

    fn note_divergence(&self, pc: u32, here: u32, elsewhere: u32, block: &Block, machine: &mut Machine<'_>) {
        let who = (32 * self.index as u32 + here.trailing_zeros()) as u16;
        machine.fault(Kind::DivergentBarrier, pc, None, here.count_ones().into(), (block, who), || {
            format!("lanes {here:#010x} of a warp wait at a barrier, and {elsewhere:#010x} do not come to it with them")
        });
    }

    fn arrival(&self, kernel: &Kernel, pc: u32, lanes: u32, tick: u32, waits: bool) -> Arrival {
        let holds = lanes & self.regs.holds(kernel.code[pc as usize].c, false);
        Arrival { warp: self.index, tick, pc, waits, lanes, holds }
    }

    fn barrier_operands(&self, inst: &Inst, mask: u32) -> (u32, Option<u32>) {
        let lane = mask.trailing_zeros() as usize;
        let value = |reg: Reg| (reg != Reg::NONE).then(|| self.regs.w32[reg.index()][lane]);
        (value(inst.a).unwrap_or(0), value(inst.b))
    }

    /// Lets the fragments at a barrier go on, each after what the barrier tells it.
    pub fn pass(&mut self, kernel: &Kernel, mut tell: impl FnMut(&Inst, u32, &mut Registers)) {
        self.waits = false;
        for fragment in self.fragments.iter_mut().filter(|fragment| fragment.state == State::Barrier) {
            tell(&kernel.code[fragment.pc as usize], fragment.mask, &mut self.regs);
            fragment.pc += 1;
            fragment.state = State::Ready;
        }
        self.unite();
    }

    /// After an operation of the warp: makes one of lanes that came to it apart. Those of the fragment that executed it go on at an instruction.
    #[inline(always)]
    fn rejoin(&mut self, current: usize, pc: u32) -> bool {
        if !self.met {
            return false;
        }
        self.met = false;
        self.fragments[current].pc = pc;
        self.unite();
        true
    }

    /// Makes one of fragments that may go on at one place and go to one meeting.
    fn unite(&mut self) {
        if self.fragments.len() < 2 {
            return;
        }
        let mut united: Vec<Fragment> = Vec::with_capacity(self.fragments.len());
        for one in self.fragments.drain(..) {
            let alike = |other: &&mut Fragment| {
                one.state == State::Ready
                    && (other.pc, other.meeting, other.state) == (one.pc, one.meeting, one.state)
            };
            match united.iter_mut().find(alike) {
                Some(other) => other.mask |= one.mask,
                None => united.push(one),
            }
        }
        self.fragments = united;
    }
}

/// The lanes of a mask, from the first.
#[inline(always)]
pub(super) fn lanes(mask: u32) -> Lanes {
    Lanes(mask)
}

/// The lanes of a mask, from the last where that is asked for.
#[inline(always)]
pub(super) fn lanes_in_turn(mask: u32, backward: bool) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = match left {
            0 => return None,
            left if backward => 31 - left.leading_zeros(),
            left => left.trailing_zeros(),
        };
        left &= !(1 << lane);
        Some(lane as usize)
    })
}

/// Lanes that are left.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes(u32);

impl Iterator for Lanes {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let lane = (self.0 != 0).then(|| self.0.trailing_zeros() as usize);
        self.0 &= self.0.wrapping_sub(1);
        lane
    }
}
