//! What an access costs.

use crate::launch::Scrutiny;
use crate::meter::{Count, SECTOR};
use crate::program::{LANES, Space};

use super::Machine;
use super::place::{Distinct, Group, Request, Target, Way, distinct, is_without_gaps};
use super::warp::lanes;

/// Waves that shared memory takes for a request: each phase moves at most 128 bytes, a word of each bank.
fn waves(offsets: &[u64; LANES], mask: u32, size: usize) -> u64 {
    // Words, or aligned values of several words, each of which takes as many banks for itself.
    let size = size.max(4);
    let lanes_at_once = 128 / size;
    let mut waves = 0;
    for phase in 0..LANES / lanes_at_once {
        let part = mask & (((1u64 << lanes_at_once) - 1) << (phase * lanes_at_once)) as u32;
        if part == 0 {
            continue;
        }
        let (mut banks, mut words, mut most) = ([0u8; 32], Distinct::new(), 0);
        for lane in lanes(part) {
            let word = offsets[lane] >> size.trailing_zeros();
            if words.add(word) {
                let bank = &mut banks[word as usize % lanes_at_once];
                *bank += 1;
                most = most.max(*bank);
            }
        }
        waves += u64::from(most);
    }
    waves
}

/// Most lanes at one address.
fn depth(offsets: &[u64; LANES], mask: u32) -> u64 {
    let most =
        lanes(mask).map(|lane| lanes(mask).filter(|&other| offsets[other] == offsets[lane]).count()).max();
    most.unwrap_or(0) as u64
}

/// Of copies of 16 bytes, how many sectors are asked for beyond each once: one whose halves go to two sectors of shared memory is asked for twice.
fn torn(from: &[u64; LANES], to: &[u64; LANES], mask: u32) -> u64 {
    let sectors = |lane: usize| (from[lane] / SECTOR, to[lane] / SECTOR);
    let pairs = |lane: usize| sectors(lane) == sectors(lane + 1) && from[lane] != from[lane + 1];
    let rises = |lane: usize| lane == 0 || sectors(lane - 1).0 < sectors(lane).0;
    // As it mostly is: one sector after the other, both halves by two lanes side by side.
    if mask == u32::MAX && (0..LANES).step_by(2).all(|lane| pairs(lane) && rises(lane)) {
        return 0;
    }
    let mut asked: Vec<(u64, u64)> = lanes(mask).map(sectors).collect();
    asked.sort_unstable();
    asked.dedup();
    let requests = asked.len();
    asked.dedup_by_key(|&mut (sector, _)| sector);
    (requests - asked.len()) as u64
}

impl Machine<'_> {
    /// Counts what copies of 16 bytes past the first-level cache cost beside what loads of the same would.
    pub(super) fn count_torn(&mut self, from: &[u64; LANES], to: &[u64; LANES], mask: u32, pc: u32) {
        if self.scrutiny < Scrutiny::Costs || mask == 0 {
            return;
        }
        let more = torn(from, to, mask);
        if more == 0 {
            return;
        }
        self.counts.code[pc as usize].global.sectors += more;
        if let Target::Global(place) = self.group(Space::Global, from, mask, 16).target {
            self.counts.buffers[place].read.sectors += more;
        }
    }

    /// Counts what a request costs.
    #[inline(always)]
    pub(super) fn count(&mut self, group: &Group, mask: u32, request: &Request) {
        if self.scrutiny < Scrutiny::Costs {
            return;
        }
        let bytes = u64::from(mask.count_ones()) * request.size as u64;
        match group.target {
            Target::Global(place) => {
                let write = request.way != Way::Read;
                let (asked, sectors) = if group.one || group.row && is_without_gaps(mask) {
                    let (first, _) = group.ends(mask);
                    let bytes = if group.one { request.size as u64 } else { bytes };
                    let (first, last) = (first / SECTOR, (first + bytes - 1) / SECTOR);
                    self.counts.touch(place, write, first, last - first + 1);
                    (bytes, last - first + 1)
                } else {
                    // An aligned access of at most 16 bytes lies in one sector, and is the same as another or apart from it.
                    let mut touch = |sector| self.counts.touch(place, write, sector, 1);
                    let (places, sectors) = if group.row {
                        // From lane to lane its sectors only rise.
                        let (mut sectors, mut last) = (0, None);
                        for sector in lanes(mask).map(|lane| group.offsets[lane] / SECTOR) {
                            if last != Some(sector) {
                                touch(sector);
                                (sectors, last) = (sectors + 1, Some(sector));
                            }
                        }
                        (mask.count_ones() as usize, sectors)
                    } else {
                        let (mut places, mut sectors) = (Distinct::new(), Distinct::new());
                        for offset in lanes(mask).map(|lane| group.offsets[lane]) {
                            let sector = offset / SECTOR;
                            if places.add(offset) && sectors.add(sector) {
                                touch(sector);
                            }
                        }
                        (places.count(), sectors.count())
                    };
                    ((places * request.size) as u64, sectors as u64)
                };
                // Of atomics every lane's counts, whatever the others do.
                let bytes = if request.way == Way::Atomic { bytes } else { asked };
                self.counts.code[request.pc as usize].global.add(bytes, sectors);
                let meter = &mut self.counts.buffers[place];
                match request.way {
                    Way::Read => meter.read.add(bytes, sectors),
                    Way::Write => meter.written.add(bytes, sectors),
                    Way::Atomic => {
                        meter.read.add(bytes, sectors);
                        meter.written.add(bytes, sectors);
                        meter.atomics += u64::from(mask.count_ones());
                        meter.atomic_depth += match (group.row, group.one) {
                            (_, true) => mask.count_ones().into(),
                            (true, _) => 1,
                            _ => depth(&group.offsets, mask),
                        };
                        self.counts.touch_also_read(place, &group.offsets, mask);
                    }
                }
            }
            Target::Shared => {
                let waves = if group.row && mask == u32::MAX {
                    request.size.div_ceil(4) as u64
                } else if (group.one || group.row) && request.size <= 4 {
                    1
                } else {
                    waves(&group.offsets, mask, request.size)
                };
                let Count { shared, .. } = &mut self.counts.code[request.pc as usize];
                shared.requests += 1;
                shared.bytes += bytes;
                shared.waves += waves;
                shared.ideal_waves += waves.min(bytes.div_ceil(128));
            }
            Target::Local => {
                // A GPU lays the same word of all lanes side by side.
                let sector = |lane: usize| (group.offsets[lane] / 4 * 128 + 4 * lane as u64) / SECTOR;
                let sectors = distinct(mask, sector) * request.size.div_ceil(4);
                self.counts.local.add(bytes, sectors as u64);
            }
            Target::Param | Target::Nowhere => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::tests::offsets;
    use super::*;

    #[test]
    fn waves_of_shared_memory() {
        assert_eq!(waves(&offsets(|lane| 4 * lane), u32::MAX, 4), 1);
        assert_eq!(waves(&offsets(|_| 400), u32::MAX, 4), 1, "one word for all");
        assert_eq!(waves(&offsets(|lane| 128 * lane), u32::MAX, 4), 32, "a column of 32 words a row");
        assert_eq!(waves(&offsets(|lane| 132 * lane), u32::MAX, 4), 1, "the same with padding");
        assert_eq!(waves(&offsets(|lane| 8 * lane), u32::MAX, 4), 2, "every second word");
        assert_eq!(waves(&offsets(|lane| 8 * lane), u32::MAX, 8), 2);
        assert_eq!(waves(&offsets(|lane| 16 * lane), u32::MAX, 16), 4);
        assert_eq!(waves(&offsets(|lane| 2 * lane), u32::MAX, 2), 1);
        assert_eq!(waves(&offsets(|lane| 16 * lane), 0xFF, 16), 1, "one quarter of a warp");
    }

    #[test]
    fn a_sector_that_goes_to_two_is_asked_for_twice() {
        // As an H200 counted, one that is on the line taken for 16: by how far off memory and shared memory are, and by which lanes are exchanged.
        for (from, to, exchanged, sectors) in [
            (0, 0, 0, 16),
            (0, 16, 0, 32),
            (0, 32, 0, 16),
            (0, 48, 0, 32),
            (0, 64, 0, 16),
            (112, 0, 0, 32),
            (96, 0, 0, 16),
            (16, 16, 0, 17),
            (48, 48, 0, 17),
            (0, 0, 1, 16),
            (0, 0, 2, 16),
            (0, 0, 7, 16),
            (0, 16, 7, 32),
        ] {
            let (from, to) = (offsets(|lane| from + 16 * lane), offsets(|lane| to + 16 * (lane ^ exchanged)));
            let touched = distinct(u32::MAX, |lane| from[lane] / SECTOR) as u64;
            assert_eq!(touched + torn(&from, &to, u32::MAX), sectors, "{:?} to {:?}", from[0], to[0]);
        }
        let row = offsets(|lane| 16 * lane);
        assert_eq!(torn(&row, &offsets(|lane| 16 + 16 * lane), 0b1), 0);
        // Not measured: one sector, or one line, to several places.
        assert_eq!(torn(&offsets(|lane| 16 * (lane % 2)), &row, u32::MAX), 15);
        assert_eq!(torn(&offsets(|lane| 16 * (lane % 8)), &row, u32::MAX), 12);
    }

    #[test]
    fn depth_is_of_the_busiest_address() {
        assert_eq!(depth(&offsets(|lane| lane % 4), u32::MAX), 8);
        assert_eq!(depth(&offsets(|lane| lane), u32::MAX), 1);
    }
}
