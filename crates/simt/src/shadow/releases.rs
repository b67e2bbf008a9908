//! What blocks have let each other see.

use std::collections::HashMap;
use std::sync::Arc;

use super::Mark;

/// What blocks have let others see, by the location of an atomic operation.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    locations: HashMap<u64, Location>,
    count: usize,
}

/// Releases that are remembered in a launch.
const RELEASES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
struct Location {
    /// How many have released here.
    count: u32,
    blocks: HashMap<u32, Vec<Release>>,
}

/// What a warp has let others see.
#[derive(Debug)]
pub(crate) struct Release {
    /// As the how-manieth at its location.
    place: u32,
    tick: u32,
    warp: usize,
    /// Up to which tick the warp had seen what others of its block did.
    seen: Arc<[u32]>,
    /// What the block itself had got to see by then.
    acquired: Arc<[(u64, u32)]>,
}

impl Release {
    pub fn new(tick: u32, warp: usize, acquired: &Arc<[(u64, u32)]>, seen: &Arc<[u32]>) -> Release {
        Release { place: 0, tick, warp, seen: Arc::clone(seen), acquired: Arc::clone(acquired) }
    }

    /// Whether it lets nobody see what another at the same location does not. What was released there before, everybody sees who sees either.
    fn lets_see_what(&self, other: &Release, address: u64) -> bool {
        let elsewhere = |&&(location, _): &&(u64, u32)| location != address;
        (self.tick, self.warp, &self.seen) == (other.tick, other.warp, &other.seen)
            && self.acquired.iter().filter(elsewhere).eq(other.acquired.iter().filter(elsewhere))
    }

    /// Whether what its block did at a mark is among it.
    fn holds(&self, mark: &Mark) -> bool {
        mark.tick < if mark.warp() == self.warp { self.tick } else { self.seen[mark.warp()] }
    }
}

/// What a block has got to see: locations, and how many had released there.
pub(crate) type Acquired = Vec<(u64, u32)>;

impl Releases {
    pub fn release(&mut self, address: u64, block: u32, release: Release) {
        let location = self.locations.entry(address).or_default();
        let of_block = location.blocks.entry(block).or_default();
        // Who asks again and again lets nobody see anything new.
        if of_block.last().is_some_and(|last| last.lets_see_what(&release, address)) {
            return;
        }
        self.count += 1 + release.acquired.len() / 8;
        location.count += 1;
        of_block.push(Release { place: location.count, ..release });
    }

    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Whether no more can be remembered.
    pub fn is_full(&self) -> bool {
        self.count > RELEASES_MAX
    }

    pub fn acquire(&self, address: u64, acquired: &mut Acquired) {
        let Some(location) = self.locations.get(&address) else { return };
        match acquired.iter_mut().find(|(known, _)| *known == address) {
            Some((_, count)) => *count = location.count,
            None => acquired.push((address, location.count)),
        }
    }

    /// Whether who has acquired this sees what was done at a mark.
    pub fn orders(&self, mark: &Mark, acquired: &Acquired) -> bool {
        let direct = |&(address, count): &(u64, u32)| {
            let releases = self.locations[&address].blocks.get(&mark.block);
            releases.is_some_and(|all| all.iter().any(|one| one.place <= count && one.holds(mark)))
        };
        if acquired.iter().any(direct) {
            return true;
        }
        // By way of other blocks.
        let mut left = acquired.clone();
        let mut known: HashMap<u64, u32> = left.iter().copied().collect();
        while let Some((address, count)) = left.pop() {
            let location = &self.locations[&address];
            for release in location.blocks.values().flatten().filter(|one| one.place <= count) {
                for &(address, count) in release.acquired.iter() {
                    if direct(&(address, count)) {
                        return true;
                    }
                    let seen = known.entry(address).or_default();
                    if *seen < count {
                        *seen = count;
                        left.push((address, count));
                    }
                }
            }
        }
        false
    }
}
