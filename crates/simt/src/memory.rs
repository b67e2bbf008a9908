//! What kernels read and write: buffers with names, roles and a record of which bytes were ever written.

use std::sync::Arc;

use crate::address::{BUFFERS, VARIABLES, generic};
use crate::program::{Kernel, Space, Variable};

/// What a buffer is to the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// May be read only.
    Input,
    /// Holds nothing until a kernel writes it.
    Output,
    /// Holds something, and may be written.
    InOut,
    /// As an output, but nobody looks at it afterwards.
    Scratch,
}

/// The address of a buffer, as a kernel gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer(pub u64);

/// Bits, one for each byte or sector.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bitmap(Vec<u64>);

impl Bitmap {
    pub fn new(bits: usize) -> Bitmap {
        Bitmap(vec![0; bits.div_ceil(64)])
    }

    /// Sets `count` bits from `first` on; at most 64.
    #[inline]
    pub fn set(&mut self, first: usize, count: usize) {
        let (word, bit) = (first / 64, first % 64);
        let bits = u64::MAX >> (64 - count);
        self.0[word] |= bits << bit;
        if bit + count > 64 {
            self.0[word + 1] |= bits >> (64 - bit);
        }
    }

    /// Clears `count` bits from `first` on; at most 64.
    #[inline]
    pub fn unset(&mut self, first: usize, count: usize) {
        let (word, bit) = (first / 64, first % 64);
        let bits = u64::MAX >> (64 - count);
        self.0[word] &= !(bits << bit);
        if bit + count > 64 {
            self.0[word + 1] &= !(bits >> (64 - bit));
        }
    }

    /// Sets any number of bits from `first` on.
    #[inline]
    pub fn set_range(&mut self, first: usize, count: usize) {
        parts(first, count).for_each(|(first, count)| self.set(first, count));
    }

    /// Clears any number of bits from `first` on.
    #[inline]
    pub fn unset_range(&mut self, first: usize, count: usize) {
        parts(first, count).for_each(|(first, count)| self.unset(first, count));
    }

    /// Whether `count` bits from `first` on are all set; at most 64.
    #[inline]
    pub fn has(&self, first: usize, count: usize) -> bool {
        let (word, bit) = (first / 64, first % 64);
        let bits = u64::MAX >> (64 - count);
        let here = self.0[word] >> bit;
        let beyond = if bit + count > 64 { self.0[word + 1] << (64 - bit) } else { 0 };
        (here | beyond) & bits == bits
    }

    /// Whether any number of bits from `first` on are all set.
    #[inline]
    pub fn has_range(&self, first: usize, count: usize) -> bool {
        parts(first, count).all(|(first, count)| self.has(first, count))
    }

    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Any number of bits in parts of at most 64: where each begins, and how many it has.
#[inline]
fn parts(first: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).step_by(64).map(move |done| (first + done, (count - done).min(64)))
}

/// A buffer.
#[derive(Debug, Clone)]
pub struct Buffer {
    name: String,
    role: Role,
    /// Bytes of an element: what two threads may write beside one another.
    element: u8,
    pub(crate) bytes: Vec<u8>,
    /// Which bytes were written; `None` if all hold something.
    pub(crate) written: Option<Bitmap>,
}

impl Buffer {
    /// One that holds `bytes`; `element` is how many of them belong together: 1, 2, 4 or 8.
    pub fn with(name: &str, role: Role, element: u8, bytes: Vec<u8>) -> Buffer {
        Buffer { name: name.to_owned(), role, element, bytes, written: None }
    }

    /// One of `size` bytes that holds nothing.
    pub fn empty(name: &str, role: Role, element: u8, size: usize) -> Buffer {
        Buffer { written: Some(Bitmap::new(size)), ..Buffer::with(name, role, element, vec![POISON; size]) }
    }

    /// The same, as something else to the kernels that run next, under another name.
    pub fn renamed(self, name: &str, role: Role) -> Buffer {
        Buffer { name: name.to_owned(), role, ..self }
    }

    /// The name that faults and meters give it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is to the kernels.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Bytes of an element.
    pub fn element(&self) -> u8 {
        self.element
    }

    /// What it holds. Bytes that nobody wrote are `0xCD`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts something else where nobody wrote.
    pub fn refill(&mut self, fill: u8) {
        let Some(written) = &self.written else { return };
        for (index, byte) in self.bytes.iter_mut().enumerate() {
            if !written.has(index, 1) {
                *byte = fill;
            }
        }
    }

    /// Puts what another buffer of its size holds where nobody wrote.
    pub fn leave(&mut self, left: &Buffer) {
        let Some(written) = &self.written else { return };
        for (index, (byte, left)) in self.bytes.iter_mut().zip(&left.bytes).enumerate() {
            if !written.has(index, 1) {
                *byte = *left;
            }
        }
    }

    /// Whether the same bytes of both are written.
    pub fn is_written_like(&self, other: &Buffer) -> bool {
        self.written == other.written && self.bytes.len() == other.bytes.len()
    }

    /// The written bytes that another buffer, which is [written like it](Self::is_written_like), holds otherwise.
    pub fn differing<'b>(&'b self, other: &'b Buffer) -> impl Iterator<Item = usize> + 'b {
        let is_written = |index| self.written.as_ref().is_none_or(|written| written.has(index, 1));
        let bytes = self.bytes.iter().zip(&other.bytes).enumerate();
        bytes
            .filter(|(_, (one, other))| one != other)
            .map(|(index, _)| index)
            .filter(move |&index| is_written(index))
    }

    /// Takes bytes for such as nobody has written.
    pub fn unwrite(&mut self, indices: impl IntoIterator<Item = usize>) {
        for index in indices {
            let written = self.written.get_or_insert_with(|| {
                let mut all = Bitmap::new(self.bytes.len());
                all.set_range(0, self.bytes.len());
                all
            });
            written.unset(index, 1);
            self.bytes[index] = POISON;
        }
    }

    /// Whether the same bytes of both are written, and hold the same.
    pub fn holds_what(&self, other: &Buffer) -> bool {
        self.is_written_like(other) && (self.bytes == other.bytes || self.differing(other).next().is_none())
    }

    /// The first byte that nobody wrote.
    pub fn first_unwritten(&self) -> Option<usize> {
        let written = self.written.as_ref()?;
        (0..self.bytes.len()).find(|&byte| !written.has(byte, 1))
    }

    fn of(variable: &Variable) -> Buffer {
        let role = if variable.space == Space::Const { Role::Input } else { Role::InOut };
        let bytes = variable.bytes.clone();
        Buffer { name: variable.name.clone(), role, element: 1, bytes, written: None }
    }
}

/// What uninitialised memory holds if nothing else is asked for: as an f32 a large negative number, as an index far out of any buffer.
pub(crate) const POISON: u8 = 0xCD;

/// The memory of a device.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) variables: Vec<Buffer>,
    /// Whose variables they are.
    module: Option<Arc<Vec<Variable>>>,
}

impl Memory {
    /// Without buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A new buffer that holds `bytes`: see [`Buffer::with`].
    pub fn with(&mut self, name: &str, role: Role, element: u8, bytes: Vec<u8>) -> Pointer {
        self.add(Buffer::with(name, role, element, bytes))
    }

    /// A new buffer that holds nothing: see [`Buffer::empty`].
    pub fn empty(&mut self, name: &str, role: Role, element: u8, size: usize) -> Pointer {
        self.add(Buffer::empty(name, role, element, size))
    }

    /// Puts a buffer behind the others.
    pub fn add(&mut self, buffer: Buffer) -> Pointer {
        let segment = BUFFERS + u32::try_from(self.buffers.len()).expect("far fewer buffers than segments");
        self.buffers.push(buffer);
        Pointer(generic(segment, 0))
    }

    /// Puts something else where nobody wrote to a buffer.
    pub fn refill(&mut self, fill: u8) {
        self.buffers.iter_mut().for_each(|buffer| buffer.refill(fill));
    }

    /// Puts what buffers held after a launch where nobody wrote to those of scratch, which are made in the same order.
    pub fn leave(&mut self, left: &[Buffer]) {
        let scratch = self.buffers.iter_mut().zip(left).filter(|(buffer, _)| buffer.role == Role::Scratch);
        scratch.for_each(|(buffer, left)| buffer.leave(left));
    }

    /// Whether variables of the module hold something else than when it was loaded.
    pub fn has_kept(&self) -> bool {
        let loaded = self.module.iter().flat_map(|module| module.iter());
        self.variables.iter().zip(loaded).any(|(held, loaded)| held.bytes != loaded.bytes)
    }

    /// Whether the variables of the module hold what they do in another memory.
    pub fn keeps_what(&self, other: &Memory) -> bool {
        self.variables.len() == other.variables.len()
            && self.variables.iter().zip(&other.variables).all(|(one, other)| one.holds_what(other))
    }

    /// Takes all buffers out, in the order in which they were made. What modules keep in variables stays.
    pub fn take(&mut self) -> Vec<Buffer> {
        std::mem::take(&mut self.buffers)
    }

    /// The buffer at a pointer.
    pub fn buffer(&self, pointer: Pointer) -> &Buffer {
        &self.buffers[(crate::address::segment(pointer.0) - BUFFERS) as usize]
    }

    /// All buffers, in the order in which they were made.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Puts the variables of a kernel's module in place, unless they are there.
    pub(crate) fn load(&mut self, kernel: &Kernel) {
        if !self.module.as_ref().is_some_and(|module| Arc::ptr_eq(module, &kernel.variables)) {
            self.variables = kernel.variables.iter().map(Buffer::of).collect();
            self.module = Some(Arc::clone(&kernel.variables));
        }
    }

    /// The index of a segment among [`all`](Self::all): buffers first.
    pub(crate) fn place(&self, segment: u32) -> Option<usize> {
        if let Some(index) = segment.checked_sub(BUFFERS) {
            return ((index as usize) < self.buffers.len()).then_some(index as usize);
        }
        let index = segment.checked_sub(VARIABLES)? as usize;
        (index < self.variables.len()).then_some(self.buffers.len() + index)
    }

    pub(crate) fn count(&self) -> usize {
        self.buffers.len() + self.variables.len()
    }

    pub(crate) fn at(&self, place: usize) -> &Buffer {
        match place.checked_sub(self.buffers.len()) {
            None => &self.buffers[place],
            Some(variable) => &self.variables[variable],
        }
    }

    pub(crate) fn at_mut(&mut self, place: usize) -> &mut Buffer {
        match place.checked_sub(self.buffers.len()) {
            None => &mut self.buffers[place],
            Some(variable) => &mut self.variables[variable],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_across_words() {
        let mut bits = Bitmap::new(200);
        bits.set(60, 8);
        assert!(bits.has(60, 8) && !bits.has(59, 2) && !bits.has(67, 2));
        bits.set_range(68, 100);
        assert!(bits.has_range(60, 108) && !bits.has_range(60, 109));
        assert_eq!(bits.count(), 108);
        bits.unset(124, 8);
        assert!(bits.has_range(60, 64) && !bits.has(124, 1) && !bits.has(131, 1) && bits.has_range(132, 36));
        assert_eq!(bits.count(), 100);
        bits.clear();
        assert_eq!(bits.count(), 0);
    }
}
