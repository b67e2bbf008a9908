//! What the judge looks at when a submission says that it is done.

use std::hash::{BuildHasher, Hasher};

use tribunal_contract::{Argument, Call, Tensor, TensorSpec};

use crate::arena::{POISON, Shared, Slot, gaps};

/// Bytes looked at before all others.
const SAMPLES: usize = 64;

/// Numbers that a submission cannot guess; not for cryptography.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new() -> Self {
        // The standard library keys its hash tables from the system's source of randomness.
        Self(std::collections::hash_map::RandomState::new().build_hasher().finish())
    }

    /// SplitMix64.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Inputs and the memory that a submission sees them in, which is its to write to.
pub(super) struct Handed<'a> {
    arena: &'a Shared,
    /// Each with its index among the arguments.
    tensors: Vec<(usize, &'a [u8], Slot)>,
}

impl<'a> Handed<'a> {
    pub(super) fn new(arena: &'a Shared, slots: &[Slot], call: &Call<'a>) -> Self {
        let tensors = call.inputs.iter().enumerate().filter_map(|(index, argument)| match *argument {
            Argument::Tensor(tensor) => Some((index, tensor.bytes())),
            _ => None,
        });
        let tensors = tensors.zip(slots).map(|((index, bytes), slot)| (index, bytes, *slot)).collect();
        Self { arena, tensors }
    }

    pub(super) fn write(&self) {
        for (_, bytes, slot) in &self.tensors {
            self.arena.write(slot.offset, bytes);
        }
    }

    /// Looks at a few bytes, which nobody could know. Says which inputs they show to be changed.
    pub(super) fn glance(&self, random: &mut Random) -> Vec<usize> {
        let mut shares = self.tensors.iter().filter(|(_, bytes, _)| !bytes.is_empty()).collect::<Vec<_>>();
        let each = SAMPLES / shares.len().max(1);
        shares.retain(|(_, bytes, slot)| {
            (0..each).any(|_| {
                let byte = (random.next() % bytes.len() as u64) as usize;
                self.arena.peek(slot.offset + byte) != bytes[byte]
            })
        });
        shares.iter().map(|(index, ..)| *index).collect()
    }

    /// Which inputs are changed, all bytes looked at.
    pub(super) fn changed(&self) -> Vec<usize> {
        let changed = self.tensors.iter().filter(|(_, bytes, slot)| !self.arena.holds(slot.offset, bytes));
        changed.map(|(index, ..)| *index).collect()
    }
}

/// Outputs in the arena, and where they will be looked at first.
pub(super) struct Watched {
    pub(super) slots: Vec<Slot>,
    /// Bytes used of the arena, zones around the outputs included.
    pub(super) total: usize,
    /// Output and byte within it.
    places: Vec<(usize, usize)>,
}

impl Watched {
    /// Poisons the outputs and what is around them, and draws the places to look at.
    pub(super) fn new(arena: &Shared, slots: Vec<Slot>, total: usize, random: &mut Random) -> Self {
        arena.fill(Slot { offset: 0, len: total }, POISON);
        let bytes: usize = slots.iter().map(|slot| slot.len).sum();
        let place = |mut byte: usize| {
            let index = slots
                .iter()
                .position(|slot| {
                    let inside = byte < slot.len;
                    byte -= if inside { 0 } else { slot.len };
                    inside
                })
                .expect("the byte is one of all bytes");
            (index, byte)
        };
        let places = if bytes <= SAMPLES {
            (0..bytes).map(place).collect()
        } else {
            (0..SAMPLES).map(|_| place((random.next() % bytes as u64) as usize)).collect()
        };
        Self { slots, total, places }
    }

    /// The bytes at the places drawn, at this moment.
    pub(super) fn sample(&self, arena: &Shared) -> Vec<u8> {
        self.places.iter().map(|&(index, byte)| arena.peek(self.slots[index].offset + byte)).collect()
    }

    /// The same places in a copy.
    pub(super) fn sample_of(&self, outputs: &[Tensor]) -> Vec<u8> {
        self.places.iter().map(|&(index, byte)| outputs[index].bytes()[byte]).collect()
    }

    pub(super) fn copy(&self, arena: &Shared, specs: &[TensorSpec]) -> Vec<Tensor> {
        specs
            .iter()
            .zip(&self.slots)
            .map(|(spec, slot)| Tensor::from_bytes(spec.clone(), arena.read(*slot)))
            .collect()
    }

    /// Whether the zones around the outputs are not as they were.
    pub(super) fn wrote_outside(&self, arena: &Shared) -> bool {
        gaps(&self.slots, self.total).any(|gap| arena.read(gap).iter().any(|byte| *byte != POISON))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Access, GUARD_BYTES, lay_out};
    use tribunal_contract::DType;

    fn watched(sizes: &[usize]) -> (Shared, Watched) {
        let (slots, total) = lay_out(sizes.iter().copied(), GUARD_BYTES);
        let arena = Shared::new(total, Access::Write).unwrap();
        let watched = Watched::new(&arena, slots, total, &mut Random::new());
        (arena, watched)
    }

    #[test]
    fn small_outputs_are_looked_at_whole() {
        let (arena, watched) = watched(&[3, 0, 5]);
        assert_eq!(watched.places, [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]);
        assert_eq!(watched.sample(&arena), [POISON; 8]);
    }

    #[test]
    fn large_outputs_are_looked_at_everywhere_in_proportion() {
        let (_, watched) = watched(&[1_000, 1_000_000]);
        assert_eq!(watched.places.len(), SAMPLES);
        assert!(watched.places.iter().filter(|(index, _)| *index == 1).count() > SAMPLES / 2);
    }

    #[test]
    fn a_byte_just_outside_is_seen_and_one_inside_is_not() {
        let (arena, watched) = watched(&[300, 300]);
        let [first, second] = watched.slots[..] else { panic!("two slots") };
        arena.write(first.offset, &[1; 300]);
        arena.write(second.offset, &[1; 300]);
        assert!(!watched.wrote_outside(&arena));
        for offset in [first.offset - 1, first.offset + 300, second.offset - 1, second.offset + 300] {
            arena.write(offset, &[0]);
            assert!(watched.wrote_outside(&arena), "{offset}");
            arena.write(offset, &[POISON]);
        }
    }

    #[test]
    fn a_copy_and_the_arena_give_the_same_samples() {
        let (arena, watched) = watched(&[4_000]);
        let bytes: Vec<u8> = (0..4_000_u32).map(|i| (i * 7) as u8).collect();
        arena.write(watched.slots[0].offset, &bytes);
        let copies = watched.copy(&arena, &[TensorSpec::new(DType::Float32, [1000])]);
        assert_eq!(copies[0].bytes(), bytes);
        assert_eq!(watched.sample(&arena), watched.sample_of(&copies));
    }
}
