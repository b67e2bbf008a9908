//! What blocks have let each other see.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use super::Mark;

/// What blocks have let others see, by the location of an atomic operation.
#[derive(Debug, Default)]
pub(crate) struct Releases {
    /// Indices of locations, by address.
    places: HashMap<u64, u32>,
    locations: Vec<Location>,
    /// What each block has got to see, in its order: so much as it had seen at a moment is a beginning of its log.
    logs: HashMap<u32, Log>,
    /// How much is remembered.
    count: usize,
    /// How much was gone through.
    steps: Cell<u64>,
    /// Whether there was more than can be remembered or gone through.
    given_up: Cell<bool>,
}

/// Releases, and times that blocks got to see some, that are remembered in a launch.
const REMEMBERED_MAX: usize = 1 << 20;
/// How many of them may be gone through in a launch, for all blocks together: some seconds.
const STEPS_MAX: u64 = 1 << 26;

#[derive(Debug, Default)]
struct Location {
    releases: Vec<Release>,
    /// Of each block the index of its last release, and how much of its log did not make another of it.
    last: HashMap<u32, (usize, usize)>,
}

/// What a warp has let others see.
#[derive(Debug)]
pub(crate) struct Release {
    block: u32,
    tick: u32,
    /// When it was let be seen.
    at: u32,
    warp: usize,
    /// Up to which tick the warp had seen what others of its block did.
    seen: Arc<[u32]>,
    /// What the block itself had got to see by then: the length of its log.
    log: usize,
}

impl Release {
    /// That of what a warp had done before `tick`, by what it does `at` another.
    pub fn new(tick: u32, at: u32, warp: usize, block: u32, seen: &Arc<[u32]>) -> Release {
        Release { block, tick, at, warp, seen: Arc::clone(seen), log: 0 }
    }
}

/// What a block has got to see, in its order.
#[derive(Debug, Default)]
struct Log {
    seen: Vec<Seen>,
    /// So much of it belongs to a release.
    told: usize,
}

/// That a block has got to see what the first `count` releases at a location let be seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    location: u32,
    count: u32,
}

/// What a block has got to see.
#[derive(Debug, Default)]
pub(crate) struct Acquired {
    /// By location, of how many releases.
    counts: HashMap<u32, u32>,
    walk: RefCell<Walk>,
}

impl Acquired {
    pub fn clear(&mut self) {
        self.counts.clear();
        *self.walk.get_mut() = Walk::default();
    }
}

/// What has come of going through all that a block has got to see, and what blocks had got to see that let it. What is there only grows, so
/// nothing is gone through twice.
#[derive(Debug, Default)]
struct Walk {
    /// Of each block's log, how much was gone through, and how much is to be.
    logs: HashMap<u32, (usize, usize)>,
    /// Of each location, how many releases were gone through.
    locations: HashMap<u32, usize>,
    /// Blocks of whose logs more is to be gone through.
    left: Vec<u32>,
    /// Up to which tick what each warp of a block did is seen.
    ticks: HashMap<u32, Vec<u32>>,
}

impl Walk {
    /// Whether what was done at a mark is known to be seen.
    fn sees(&self, mark: &Mark) -> bool {
        self.ticks.get(&mark.block).is_some_and(|ticks| mark.tick < ticks[mark.warp()])
    }

    /// Of a block's log, so much is to be gone through.
    fn is_to_read(&mut self, block: u32, length: usize) {
        let (done, due) = self.logs.entry(block).or_default();
        if length > *due {
            if *due == *done {
                self.left.push(block);
            }
            *due = length;
        }
    }

    /// Goes through what is due of a block's log; gives how much that was.
    fn read(&mut self, releases: &Releases, block: u32) -> u64 {
        let Some((done, due)) = self.logs.get_mut(&block) else { return 0 };
        let range = std::mem::replace(done, *due)..*due;
        let mut steps = range.len() as u64;
        for seen in &releases.logs[&block].seen[range] {
            let done = self.locations.entry(seen.location).or_default();
            let range = *done..(seen.count as usize).max(*done);
            *done = range.end;
            for release in &releases.locations[seen.location as usize].releases[range] {
                let ticks = self.ticks.entry(release.block).or_insert_with(|| {
                    steps += release.seen.len() as u64;
                    vec![0; release.seen.len()]
                });
                // Of its own warp, it is the tick that says what others see.
                for (warp, (tick, &seen)) in ticks.iter_mut().zip(&*release.seen).enumerate() {
                    *tick = (*tick).max(if warp == release.warp { release.tick } else { seen });
                }
                self.is_to_read(release.block, release.log);
                steps += 1;
            }
        }
        steps
    }
}

impl Releases {
    pub fn release(&mut self, address: u64, release: Release) {
        if self.given_up() {
            return;
        }
        let index = *self.places.entry(address).or_insert_with(|| {
            self.locations.push(Location::default());
            self.locations.len() as u32 - 1
        });
        let location = &mut self.locations[index as usize];
        let log = self.logs.entry(release.block).or_default();
        let length = log.seen.len();
        // Who asks again and again lets nobody see anything new. What was released here before, everybody sees who sees either.
        if let Some((last, compared)) = location.last.get_mut(&release.block) {
            let last = &location.releases[*last];
            if (last.tick, last.warp, &last.seen) == (release.tick, release.warp, &release.seen)
                && log.seen[*compared..].iter().all(|seen| seen.location == index)
            {
                *compared = length;
                return;
            }
        }
        log.told = length;
        location.last.insert(release.block, (location.releases.len(), length));
        location.releases.push(Release { log: length, ..release });
        self.remember();
    }

    fn remember(&mut self) {
        self.count += 1;
        if self.count > REMEMBERED_MAX {
            *self = Releases { given_up: Cell::new(true), ..Releases::default() };
        }
    }

    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Whether there is more than can be followed. Then everything that blocks do counts as ordered.
    pub fn given_up(&self) -> bool {
        self.given_up.get()
    }

    /// A block sees what was let be seen at an address before a tick.
    pub fn acquire(&mut self, address: u64, before: u32, block: u32, acquired: &mut Acquired) {
        let Some(&location) = self.places.get(&address) else { return };
        let releases = &self.locations[location as usize].releases;
        let known = acquired.counts.get(&location).copied().unwrap_or(0);
        let count = (releases.partition_point(|release| release.at < before) as u32).max(known);
        if acquired.counts.insert(location, count) == Some(count) {
            return;
        }
        let read = acquired.walk.get_mut().logs.get(&block).map_or(0, |(_, due)| *due);
        let Log { seen, told } = self.logs.entry(block).or_default();
        let is_free = seen.len() > read.max(*told);
        match seen.last_mut() {
            // Who waits for a lock sees others take it: what it saw last is what counts.
            Some(last) if is_free && last.location == location => last.count = count,
            _ => {
                seen.push(Seen { location, count });
                self.remember();
            }
        }
    }

    /// Whether a block that has acquired this sees what was done at a mark.
    pub fn orders(&self, mark: &Mark, block: u32, acquired: &Acquired) -> bool {
        if self.given_up() {
            return true;
        }
        let walk = &mut *acquired.walk.borrow_mut();
        if walk.sees(mark) {
            return true;
        }
        // What it has seen itself, and then by way of other blocks.
        walk.is_to_read(block, self.logs.get(&block).map_or(0, |log| log.seen.len()));
        while let Some(next) = walk.left.pop() {
            self.steps.set(self.steps.get() + walk.read(self, next));
            if walk.sees(mark) {
                return true;
            }
        }
        if self.steps.get() > STEPS_MAX {
            self.given_up.set(true);
        }
        false
    }
}
