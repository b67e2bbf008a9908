//! Where the lanes of an access go to.

use crate::address::{self, LOCAL, PARAM, SHARED};
use crate::alu::{self, Value};
use crate::program::{Inst, LANES, Reg, Scope, Space};

use super::Machine;
use super::warp::{Warp, lanes};

/// Where lanes of one access go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A buffer or a variable, by its place.
    Global(usize),
    Shared,
    Local,
    Param,
    /// Nothing is there.
    Nowhere,
}

/// Lanes that go to one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) target: Target,
    pub(super) mask: u32,
    pub(super) offsets: [u64; LANES],
    /// Whether the lanes lie where they would if all 32 lay beside one another in their order.
    pub(super) row: bool,
    /// Whether all go to one address.
    pub(super) one: bool,
}

impl Group {
    /// The offsets of the first and the last of some lanes.
    pub(super) fn ends(&self, mask: u32) -> (u64, u64) {
        (self.offsets[mask.trailing_zeros() as usize], self.offsets[31 - mask.leading_zeros() as usize])
    }

    /// Where the first of all 32 lanes of a row would go to, by those of them that go to the place; none if that is before it begins.
    pub(super) fn begin(&self, mask: u32, size: usize) -> Option<usize> {
        (self.ends(mask).0 as usize).checked_sub(mask.trailing_zeros() as usize * size)
    }

    /// What tells where a lane goes to from all other places that threads share.
    pub(super) fn location(&self, lane: usize) -> Option<u64> {
        match self.target {
            Target::Shared => Some(self.offsets[lane]),
            Target::Global(place) => Some((place as u64 + 1) << address::OFFSET_BITS | self.offsets[lane]),
            Target::Local | Target::Param | Target::Nowhere => None,
        }
    }

    /// The buffer or variable of a location in global memory, and the offset in it.
    pub(super) fn of_location(location: u64) -> (Target, u64) {
        let place = (location >> address::OFFSET_BITS) as usize - 1;
        (Target::Global(place), location & ((1 << address::OFFSET_BITS) - 1))
    }

    /// Bytes from one lane's storage to the next one's, where that is the same for all. `size` is of what each accesses.
    pub(super) fn step(&self, size: usize) -> Option<usize> {
        match self.target {
            Target::Local => None,
            _ if self.one => Some(0),
            _ => self.row.then_some(size),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
    Atomic,
}

impl Way {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Way::Read => "reads",
            Way::Write => "writes",
            Way::Atomic => "changes",
        }
    }
}

/// What is accessed, by whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) way: Way,
    /// Bytes of a lane.
    pub(super) size: usize,
    pub(super) pc: u32,
    /// To whom it is atomic, if it cannot race with its like.
    pub(super) atomic: Option<Scope>,
    pub(super) warp: usize,
}

impl Request {
    pub(super) fn thread(&self, lane: usize) -> u16 {
        (32 * self.warp + lane) as u16
    }
}

/// Addresses of all lanes, whether active or not.
#[inline(always)]
pub(super) fn addresses(warp: &Warp, reg: Reg, wide: bool, offset: i32) -> [u64; LANES] {
    if wide {
        let values = &warp.regs.w64[reg.index()];
        alu::each_lane(|lane| values[lane].wrapping_add(offset as i64 as u64))
    } else {
        let values = &warp.regs.w32[reg.index()];
        alu::each_lane(|lane| u64::from(values[lane].wrapping_add(offset as u32)))
    }
}

/// Whether the lanes lie where they would if all 32 lay beside one another in their order.
#[inline(always)]
fn is_row(offsets: &[u64; LANES], mask: u32, size: usize) -> bool {
    let first = mask.trailing_zeros() as usize;
    let begin = offsets[first].wrapping_sub((first * size) as u64);
    let mut off = 0;
    if mask == u32::MAX {
        for (lane, &offset) in offsets.iter().enumerate() {
            off |= offset ^ begin.wrapping_add((lane * size) as u64);
        }
    } else {
        let ones = alu::ones(mask);
        for (lane, &offset) in offsets.iter().enumerate() {
            let place = begin.wrapping_add((lane * size) as u64);
            off |= u64::choose(ones[lane], offset ^ place, 0);
        }
    }
    off == 0
}

/// Whether no lane between the first and the last is left out.
pub(super) fn is_without_gaps(mask: u32) -> bool {
    let span = mask >> mask.trailing_zeros();
    span & span.wrapping_add(1) == 0
}

/// Whether all lanes go to one address.
#[inline(always)]
fn is_one(offsets: &[u64; LANES], mask: u32) -> bool {
    let first = offsets[mask.trailing_zeros() as usize];
    let ones = alu::ones(mask);
    let mut off = 0;
    for (lane, &offset) in offsets.iter().enumerate() {
        off |= u64::choose(ones[lane], offset ^ first, 0);
    }
    off == 0
}

/// The words of `cell` bytes that an access touches, and which bytes of each.
#[inline(always)]
pub(super) fn words(offset: usize, size: usize, cell: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut at = offset;
    std::iter::from_fn(move || {
        let (word, begin) = (at / cell, at % cell);
        let count = (cell - begin).min((offset + size).saturating_sub(at));
        at += count;
        (count > 0).then_some((word, (((1u32 << count) - 1) << begin) as u8))
    })
}

/// Whether the lanes are a [row](is_row), and whether they all go to [one](is_one) address. The first two of them tell what they may be.
#[inline(always)]
pub(super) fn pattern(offsets: &[u64; LANES], mask: u32, size: usize) -> (bool, bool) {
    let (first, others) = (mask.trailing_zeros(), mask & (mask - 1));
    if others == 0 {
        return (true, true);
    }
    let second = others.trailing_zeros();
    match offsets[second as usize].wrapping_sub(offsets[first as usize]) {
        0 => (false, is_one(offsets, mask)),
        step if step == u64::from(second - first) * size as u64 => (is_row(offsets, mask, size), false),
        _ => (false, false),
    }
}

/// Different values, no more than lanes could have.
#[derive(Debug)]
pub(super) struct Distinct {
    /// A table with room for twice as many, so that a place is found at once.
    places: [u64; 2 * LANES],
    count: usize,
}

impl Distinct {
    /// No offset that a lane is admitted to.
    const NOBODY: u64 = u64::MAX;

    #[inline(always)]
    pub(super) fn new() -> Distinct {
        Distinct { places: [Distinct::NOBODY; 2 * LANES], count: 0 }
    }

    /// Whether a value is another than those before.
    #[inline(always)]
    pub(super) fn add(&mut self, value: u64) -> bool {
        let mut place = (value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize;
        loop {
            match &mut self.places[place] {
                free if *free == Distinct::NOBODY => {
                    *free = value;
                    self.count += 1;
                    return true;
                }
                known if *known == value => return false,
                _ => place = (place + 1) % (2 * LANES),
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }
}

/// How many different values the lanes have.
pub(super) fn distinct(mask: u32, value: impl Fn(usize) -> u64) -> usize {
    let mut values = Distinct::new();
    for lane in lanes(mask) {
        values.add(value(lane));
    }
    values.count()
}

impl Machine<'_> {
    /// The first lane of a mask, and those that go to the same place. Each accesses `size` bytes.
    #[inline(always)]
    pub(super) fn group(&self, space: Space, addresses: &[u64; LANES], mask: u32, size: usize) -> Group {
        let (row, one) = pattern(addresses, mask, size);
        let target = match space {
            Space::Shared => Target::Shared,
            Space::Local => Target::Local,
            Space::Param => Target::Param,
            Space::Global | Space::Const | Space::Generic => {
                let first = addresses[mask.trailing_zeros() as usize];
                let last = addresses[31 - mask.leading_zeros() as usize];
                let segment = address::segment(first);
                // No buffer is so long that a row could leave a segment and come back.
                let same = if one || row && address::segment(last) == segment {
                    u32::MAX
                } else {
                    let mut same = 0;
                    for (lane, &address) in addresses.iter().enumerate() {
                        same |= u32::from(address::segment(address) == segment) << lane;
                    }
                    same
                };
                let target = match segment {
                    SHARED if space == Space::Generic => Target::Shared,
                    LOCAL if space == Space::Generic => Target::Local,
                    PARAM if space == Space::Generic => Target::Param,
                    segment => self.memory.place(segment).map_or(Target::Nowhere, Target::Global),
                };
                let offsets = match target {
                    Target::Nowhere => *addresses,
                    _ => alu::each_lane(|lane| address::offset(addresses[lane])),
                };
                let row = row && same == u32::MAX;
                return Group { target, mask: mask & same, offsets, row, one };
            }
        };
        Group { target, mask, offsets: *addresses, row, one }
    }

    pub(super) fn place_name(&self, target: Target) -> String {
        match target {
            Target::Global(place) => format!("`{}`", self.memory.at(place).name()),
            Target::Shared => "shared memory".to_owned(),
            Target::Local => "local memory".to_owned(),
            Target::Param => "the parameters".to_owned(),
            Target::Nowhere => "no buffer".to_owned(),
        }
    }

    /// A byte of a place, in words.
    #[cold]
    #[inline(never)]
    pub(super) fn spot(&self, target: Target, offset: u64) -> String {
        match target {
            Target::Shared => self.kernel.shared.spot(offset).to_string(),
            _ => format!("byte {offset} of {}", self.place_name(target)),
        }
    }

    /// The offset of each lane in the storage of its target.
    #[inline(always)]
    pub(super) fn starts(&self, group: &Group, warp: usize) -> [usize; LANES] {
        let stride = if group.target == Target::Local { self.kernel.local_bytes as usize } else { 0 };
        alu::each_lane(|lane| (group.offsets[lane] as usize).wrapping_add((32 * warp + lane) * stride))
    }
}

impl Warp {
    /// `cvta`
    pub(super) fn convert_address(
        &mut self,
        inst: &Inst,
        space: Space,
        to_space: bool,
        wide: bool,
        active: u32,
    ) {
        let base = match space {
            Space::Shared => address::generic(SHARED, 0),
            Space::Local => address::generic(LOCAL, 0),
            Space::Param => address::generic(PARAM, 0),
            Space::Global | Space::Const | Space::Generic => 0,
        };
        if inst.d == Reg::NONE {
            return;
        }
        for lane in lanes(active) {
            if wide {
                let from = self.regs.w64[inst.a.index()][lane];
                self.regs.w64[inst.d.index()][lane] =
                    if to_space { from.wrapping_sub(base) } else { from.wrapping_add(base) };
            } else {
                // 32 bits have no room for a segment: only the offset remains.
                self.regs.w32[inst.d.index()][lane] = self.regs.w32[inst.a.index()][lane];
            }
        }
    }

    /// `isspacep`
    pub(super) fn is_space(&mut self, inst: &Inst, space: Space, active: u32, machine: &Machine<'_>) {
        if inst.d == Reg::NONE {
            return;
        }
        let pred = &mut self.regs.p[inst.d.index()];
        for lane in lanes(active) {
            let segment = address::segment(self.regs.w64[inst.a.index()][lane]);
            let is_constant =
                || machine.memory.place(segment).is_some_and(|place| machine.is_constant(place));
            let holds = match space {
                Space::Shared => segment == SHARED,
                Space::Local => segment == LOCAL,
                Space::Param => segment == PARAM,
                Space::Const => is_constant(),
                Space::Global | Space::Generic => segment > PARAM && !is_constant(),
            };
            *pred = *pred & !(1 << lane) | u32::from(holds) << lane;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn offsets(f: impl Fn(u64) -> u64) -> [u64; LANES] {
        std::array::from_fn(|lane| f(lane as u64))
    }

    #[test]
    fn rows_with_and_without_all_lanes() {
        let row = offsets(|lane| 64 + 4 * lane);
        assert!(is_row(&row, u32::MAX, 4));
        assert!(is_row(&row, 0x0000_00F5, 4));
        assert!(
            is_row(&offsets(|lane| if lane == 5 { 7 } else { 4 * lane }), 0xFFFF_FFDF, 4),
            "it takes no part"
        );
        assert!(!is_row(&row, u32::MAX, 8));
        assert!(!is_row(&offsets(|lane| 4 * (31 - lane)), u32::MAX, 4), "backwards");
        assert!(is_without_gaps(0x0000_00F0) && is_without_gaps(u32::MAX) && is_without_gaps(1));
        assert!(!is_without_gaps(0x0000_00F5));
    }

    #[test]
    fn two_lanes_tell_what_the_others_may_be() {
        let column = offsets(|lane| 4 * (lane % 5) + 64 * (lane / 7));
        let patterns = [offsets(|lane| 64 + 4 * lane), offsets(|_| 64), offsets(|lane| 8 * lane), column];
        for offsets in patterns {
            let some = (1..5000u32).map(|seed| seed.wrapping_mul(0x9E37_79B9));
            for mask in some.chain((0..32).map(|lane| 1 << lane)).chain([u32::MAX]) {
                for size in [4, 8] {
                    let due = (is_row(&offsets, mask, size), is_one(&offsets, mask));
                    assert_eq!(pattern(&offsets, mask, size), due, "{mask:#x} {offsets:?}");
                }
            }
        }
    }

    #[test]
    fn distinct_values_in_any_order() {
        assert_eq!(distinct(u32::MAX, |lane| lane as u64 / 8), 4);
        assert_eq!(distinct(u32::MAX, |lane| (31 - lane as u64) / 8), 4);
        assert_eq!(distinct(u32::MAX, |lane| 128 * (lane as u64 % 3)), 3);
        assert_eq!(distinct(0b1001, |lane| lane as u64), 2);
        // Values that come to one place of the table stay apart.
        let mut values = Distinct::new();
        let at_zero = |value: &u64| value.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 == 0;
        let alike: Vec<u64> = (1..).filter(at_zero).take(LANES).collect();
        assert!(
            alike.iter().all(|value| values.add(*value)) && !alike.iter().any(|value| values.add(*value))
        );
        assert_eq!(values.count(), LANES);
    }
}
