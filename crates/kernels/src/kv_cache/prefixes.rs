//! Which tokens full blocks hold, so that the same are found again, and which of these blocks nobody holds.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};

/// The blocks that are remembered.
///
/// A block is known by its own tokens and by the name of what is before it, which no other prefix ever gets; so a block that
/// is found from the start on holds what it should, and one whose predecessor has been forgotten is found no more.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    random: RandomState,
    /// Nearly always one for each hash.
    by_hash: HashMap<u64, Vec<u32>>,
    entries: HashMap<u32, Entry>,
    /// Those that nobody holds, by when that began.
    idle: BTreeMap<u64, u32>,
    /// How many names and times have been given out.
    count: u64,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    /// The name of what is before the block.
    before: Name,
    ids: Box<[u32]>,
    /// The name of the prefix that ends with the block.
    name: Name,
    idle_since: Option<u64>,
}

/// Stands for all tokens up to the end of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name(u64);

impl Name {
    /// What is before the first block.
    pub(super) const NOTHING: Name = Name(0);
}

impl Prefixes {
    /// The block that holds `ids` after what is called `before`, and the name of both together.
    pub(super) fn find(&self, before: Name, ids: &[u32]) -> Option<(u32, Name)> {
        self.find_hashed(self.random.hash_one((before, ids)), before, ids)
    }

    /// Hashes only say where to look.
    fn find_hashed(&self, hash: u64, before: Name, ids: &[u32]) -> Option<(u32, Name)> {
        let entry = |block: &u32| self.entries.get_key_value(block);
        let mut entries = self.by_hash.get(&hash)?.iter().filter_map(entry);
        let (&block, entry) = entries.find(|(_, entry)| entry.before == before && *entry.ids == *ids)?;
        Some((block, entry.name))
    }

    /// Remembers a block that somebody holds. Returns the name of the prefix that ends with it.
    pub(super) fn insert(&mut self, block: u32, before: Name, ids: &[u32]) -> Name {
        self.insert_hashed(self.random.hash_one((before, ids)), block, before, ids)
    }

    fn insert_hashed(&mut self, hash: u64, block: u32, before: Name, ids: &[u32]) -> Name {
        self.forget(block);
        self.count += 1;
        let name = Name(self.count);
        self.by_hash.entry(hash).or_default().push(block);
        self.entries.insert(block, Entry { hash, before, ids: ids.into(), name, idle_since: None });
        name
    }

    /// Forgets a block, if it is remembered.
    fn forget(&mut self, block: u32) {
        let Some(Entry { hash, idle_since, .. }) = self.entries.remove(&block) else { return };
        if let Some(blocks) = self.by_hash.get_mut(&hash) {
            blocks.retain(|&other| other != block);
            if blocks.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
        if let Some(since) = idle_since {
            self.idle.remove(&since);
        }
    }

    /// Notes that nobody holds a block any more. Returns whether it is remembered, and so is not to be overwritten yet.
    pub(super) fn rest(&mut self, block: u32) -> bool {
        let Some(entry) = self.entries.get_mut(&block) else { return false };
        self.count += 1;
        entry.idle_since = Some(self.count);
        self.idle.insert(self.count, block);
        true
    }

    /// Notes that somebody holds a block.
    pub(super) fn wake(&mut self, block: u32) {
        if let Some(since) = self.entries.get_mut(&block).and_then(|entry| entry.idle_since.take()) {
            self.idle.remove(&since);
        }
    }

    /// How many blocks are remembered that nobody holds.
    pub(super) fn idle(&self) -> usize {
        self.idle.len()
    }

    /// Forgets the block that nobody has held for longest, and returns it.
    pub(super) fn evict(&mut self) -> Option<u32> {
        let (_, &block) = self.idle.first_key_value()?;
        self.forget(block);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a hash must not decide: other tokens, and the same tokens after others.
    #[test]
    fn blocks_of_equal_hashes_are_told_apart() {
        let mut prefixes = Prefixes::default();
        let first = prefixes.insert_hashed(7, 0, Name::NOTHING, &[1, 2]);
        let second = prefixes.insert_hashed(7, 1, Name::NOTHING, &[2, 1]);
        let third = prefixes.insert_hashed(7, 2, first, &[1, 2]);
        assert_eq!(prefixes.find_hashed(7, Name::NOTHING, &[1, 2]), Some((0, first)));
        assert_eq!(prefixes.find_hashed(7, Name::NOTHING, &[2, 1]), Some((1, second)));
        assert_eq!(prefixes.find_hashed(7, first, &[1, 2]), Some((2, third)));
        assert_eq!(prefixes.find_hashed(7, second, &[1, 2]), None);
        assert_eq!(prefixes.find_hashed(7, Name::NOTHING, &[1, 2, 3]), None);
        prefixes.forget(0);
        assert_eq!(prefixes.find_hashed(7, Name::NOTHING, &[1, 2]), None);
        assert_eq!(prefixes.find_hashed(7, Name::NOTHING, &[2, 1]), Some((1, second)));
    }

    /// The place of a forgotten block is another's; what followed it must not be found behind that.
    #[test]
    fn what_followed_a_forgotten_block_is_not_found_behind_another() {
        let mut prefixes = Prefixes::default();
        let first = prefixes.insert(0, Name::NOTHING, &[1]);
        prefixes.insert(1, first, &[2]);
        assert!(prefixes.rest(0));
        assert_eq!(prefixes.evict(), Some(0));
        let other = prefixes.insert(0, Name::NOTHING, &[9]);
        assert_eq!(prefixes.find(other, &[2]), None);
        let again = prefixes.insert(2, Name::NOTHING, &[1]);
        assert_eq!(prefixes.find(again, &[2]), None);
    }

    #[test]
    fn who_rested_first_is_evicted_first_unless_woken() {
        let mut prefixes = Prefixes::default();
        for block in 0..4 {
            prefixes.insert(block, Name::NOTHING, &[block]);
        }
        assert!([2, 0, 3].into_iter().all(|block| prefixes.rest(block)));
        assert!(!prefixes.rest(9));
        prefixes.wake(0);
        assert_eq!(prefixes.idle(), 2);
        assert!(prefixes.rest(0));
        let evicted: Vec<u32> = std::iter::from_fn(|| prefixes.evict()).collect();
        assert_eq!(evicted, [2, 3, 0]);
        assert!(prefixes.find(Name::NOTHING, &[1]).is_some());
    }
}
