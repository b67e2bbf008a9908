//! Blocks of tokens, and which of them belong to whom. A cache that is not paged has one block for each sequence.

use half::f16;

use super::{Defect, Scheme, Sharing, Style};

/// A cache.
pub(super) struct Cache {
    pub(super) layers: usize,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) dim: usize,
    pub(super) max_len: usize,
    pub(super) bits: usize,
    /// Tokens of a block.
    pub(super) size: usize,
    paged: bool,
    /// For each layer, keys and values of all blocks: `[block, token, kv_head, dim]`.
    pub(super) keys: Vec<Vec<f32>>,
    pub(super) values: Vec<Vec<f32>>,
    /// The blocks of each sequence.
    pub(super) tables: Vec<Vec<usize>>,
    free: Vec<usize>,
    users: Vec<usize>,
    /// `[layer][sequence]`
    pub(super) lengths: Vec<Vec<usize>>,
    /// Where each sequence ended before its newest append, for a defect.
    pub(super) newest: Vec<Vec<usize>>,
    scheme: Scheme,
    sharing: Sharing,
    defect: Option<Defect>,
    first_scale: Option<f32>,
    /// Whether a long sequence was attended, for a defect.
    pub(super) merged: bool,
    /// A scale over more than a head of a token, for a defect.
    given_scale: Option<f32>,
}

impl Cache {
    pub(super) fn new(numbers: &[i64], style: Style, defect: Option<Defect>) -> Option<Self> {
        let numbers: Vec<usize> = numbers.iter().map(|&number| number as usize).collect();
        let [layers, batch, heads, kv_heads, dim, max_len, bits, block_size, num_blocks] = numbers[..] else {
            return None;
        };
        let sound = kv_heads > 0 && heads.is_multiple_of(kv_heads) && [32, 16, 8, 4].contains(&bits);
        if !sound && defect != Some(Defect::MisconfiguredAccepted) {
            return None;
        }
        let paged = block_size > 0;
        let (size, count) = if paged { (block_size, num_blocks) } else { (max_len, batch) };
        let pool = || vec![vec![0.0; count * size * kv_heads * dim]; layers];
        Some(Self {
            layers,
            batch,
            heads,
            kv_heads,
            dim,
            max_len,
            bits,
            size,
            paged,
            keys: pool(),
            values: pool(),
            tables: vec![Vec::new(); batch],
            free: (0..count).rev().collect(),
            users: vec![0; count],
            lengths: vec![vec![0; batch]; layers],
            newest: vec![vec![0; batch]; layers],
            scheme: style.scheme,
            sharing: style.sharing,
            defect,
            first_scale: None,
            merged: false,
            given_scale: None,
        })
    }

    /// Where a position of a sequence stands in a layer's pool, if it has a block.
    pub(super) fn slot(&self, sequence: usize, position: usize) -> Option<usize> {
        let block = *self.tables[sequence].get(position / self.size)?;
        Some((block * self.size + position % self.size) * self.kv_heads * self.dim)
    }

    /// Where it is read: the same, but for a defect. Beyond the pool there is nothing.
    pub(super) fn read_slot(&self, sequence: usize, position: usize) -> Option<usize> {
        if self.defect != Some(Defect::FoursRead) || self.bits == 32 {
            return self.slot(sequence, position);
        }
        let width = self.kv_heads * self.dim;
        let slot = self.slot(sequence, position / 4 * 4)? + position % 4 * width;
        (slot < self.keys[0].len()).then_some(slot)
    }

    pub(super) fn append(
        &mut self,
        layer: usize,
        k: &[f32],
        v: &[f32],
        t: usize,
        counts: &[usize],
    ) -> Result<(), String> {
        let mut counts = counts.to_vec();
        if self.defect == Some(Defect::OnePointer) {
            let longest = counts.iter().max().copied().unwrap_or(0);
            counts.fill(longest);
        }
        if self.defect == Some(Defect::PastTheEnd) {
            for (sequence, count) in counts.iter_mut().enumerate() {
                *count = (*count).min(self.max_len - self.lengths[layer][sequence]);
            }
        }
        let too_long = (0..self.batch)
            .find(|&b| self.start(layer, b, counts[b]) + counts[b] > self.max_len)
            .filter(|_| self.defect != Some(Defect::CheckedOnFirstLayer) || layer == 0);
        if let Some(sequence) = too_long {
            if self.defect == Some(Defect::HalfRefused) {
                let mut part = counts.clone();
                part[sequence..].fill(0);
                self.append(layer, k, v, t, &part)?;
            }
            return Err(format!("sequence {sequence} would be longer than {}", self.max_len));
        }
        let blocks = self.needed(layer, &counts);
        if blocks > self.free.len() {
            return Err(format!("{blocks} blocks are needed, {} are free", self.free.len()));
        }
        for (sequence, &count) in counts.iter().enumerate() {
            self.lengths[layer][sequence] = self.start(layer, sequence, count);
        }
        for (sequence, &count) in counts.iter().enumerate() {
            let all = if self.defect == Some(Defect::PaddingSeen) { t } else { count };
            for i in 0..all {
                let position = self.lengths[layer][sequence] + i;
                if i < count || !self.paged {
                    self.make_place(layer, sequence, position);
                }
                let Some(slot) = self.slot(sequence, position).filter(|_| position < self.max_len) else {
                    continue;
                };
                for head in 0..self.kv_heads {
                    let from = ((sequence * self.kv_heads + head) * t + i) * self.dim;
                    let to = slot + head * self.dim;
                    let range = from..from + self.dim;
                    let [key_scale, value_scale] =
                        [k, v].map(|numbers| self.scale_of_more(numbers, t, count, (sequence, head, i)));
                    self.given_scale = key_scale;
                    let key = self.stored_key(&k[range.clone()]);
                    self.given_scale = value_scale;
                    let value = self.stored(&v[range]);
                    self.keys[layer][to..to + self.dim].copy_from_slice(&key);
                    self.values[layer][to..to + self.dim].copy_from_slice(&value);
                }
            }
            if let Scheme::Channels(group) = self.scheme
                && self.bits < 16
            {
                let start = self.lengths[layer][sequence];
                (start / group..(start + count) / group).for_each(|index| {
                    self.round_channels(layer, sequence, index * group..(index + 1) * group)
                });
            }
            self.newest[layer][sequence] = self.lengths[layer][sequence];
            self.lengths[layer][sequence] += count;
            if self.defect == Some(Defect::NewestTwice) && count > 0 {
                self.repeat_newest(layer, sequence, count);
            }
        }
        Ok(())
    }

    fn repeat_newest(&mut self, layer: usize, sequence: usize, count: usize) {
        let length = self.lengths[layer][sequence];
        if length == count || length >= self.max_len {
            return;
        }
        self.make_place(layer, sequence, length);
        let (Some(from), Some(to)) = (self.slot(sequence, length - 1), self.slot(sequence, length)) else {
            return;
        };
        let width = self.kv_heads * self.dim;
        self.keys[layer].copy_within(from..from + width, to);
        self.values[layer].copy_within(from..from + width, to);
        self.lengths[layer][sequence] += 1;
    }

    /// Where so many new tokens begin.
    fn start(&self, layer: usize, sequence: usize, count: usize) -> usize {
        let replaced = self.defect == Some(Defect::Replaced) && count > 0;
        if replaced { 0 } else { self.lengths[layer][sequence] }
    }

    /// The blocks that must be free for so many tokens.
    fn needed(&self, layer: usize, counts: &[usize]) -> usize {
        let mut users = self.users.clone();
        let mut blocks = 0;
        for (sequence, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from, table) = (self.start(layer, sequence, count), &self.tables[sequence]);
            let end = (from + count).div_ceil(self.size);
            blocks += end.saturating_sub(table.len());
            if self.defect == Some(Defect::CopiesUncounted) || !self.paged {
                continue;
            }
            for &block in table.get(from / self.size..end.min(table.len())).unwrap_or_default() {
                if users[block] > 1 {
                    blocks += 1;
                    // The last that writes there has it for itself.
                    users[block] -= usize::from(self.sharing != Sharing::Careful);
                }
            }
        }
        blocks
    }

    /// A block for the position, its own.
    fn make_place(&mut self, layer: usize, sequence: usize, position: usize) {
        let index = position / self.size;
        if index == self.tables[sequence].len()
            && (layer == 0 || self.defect != Some(Defect::BlocksOnFirstLayer))
            && let Some(block) = self.free.pop()
        {
            self.users[block] = 1;
            self.tables[sequence].push(block);
        }
        if self.defect != Some(Defect::ForkShares) {
            self.own(sequence, index);
        }
    }

    /// Copies a block that others use too.
    fn own(&mut self, sequence: usize, index: usize) {
        let Some(&block) = self.tables[sequence].get(index) else { return };
        if self.users[block] > 1 {
            let Some(own) = self.free.pop() else { return };
            self.users[block] -= usize::from(self.defect != Some(Defect::CopiesLeak));
            self.users[own] = 1;
            self.copy_block(block, own);
            self.tables[sequence][index] = own;
        }
    }

    fn copy_block(&mut self, from: usize, to: usize) {
        let width = self.size * self.kv_heads * self.dim;
        let without_scales = self.defect == Some(Defect::CopiesWithoutScales) && self.bits == 4;
        for pool in self.keys.iter_mut().chain(&mut self.values) {
            let before = pool[to * width..(to + 1) * width].to_vec();
            pool.copy_within(from * width..(from + 1) * width, to * width);
            if without_scales {
                let heads = pool[to * width..(to + 1) * width].chunks_mut(self.dim);
                heads.zip(before.chunks(self.dim)).for_each(|(copied, before)| rescale(copied, before));
            }
        }
    }

    pub(super) fn clear(&mut self, sequence: usize) {
        if self.defect == Some(Defect::ClearForgotten) {
            return;
        }
        for block in std::mem::take(&mut self.tables[sequence]) {
            self.users[block] -= 1;
            if self.users[block] == 0 && self.defect != Some(Defect::BlocksNotReturned) {
                self.free.push(block);
            }
        }
        self.lengths.iter_mut().for_each(|lengths| lengths[sequence] = 0);
    }

    pub(super) fn fork(&mut self, source: usize, target: usize) {
        let table = self.tables[source].clone();
        if self.paged || self.defect == Some(Defect::ForkShares) {
            table.iter().for_each(|&block| self.users[block] += 1);
            self.tables[target] = table;
        } else {
            // One block each: nothing to share.
            for (index, &block) in table.iter().enumerate() {
                self.make_place(0, target, index * self.size);
                self.copy_block(block, self.tables[target][index]);
            }
        }
        let first = self.lengths[0][source];
        for lengths in &mut self.lengths {
            lengths[target] =
                if self.defect == Some(Defect::ForkLengthOfFirstLayer) { first } else { lengths[source] };
        }
        if self.sharing == Sharing::FullOnly {
            let full = self.lengths.iter().map(|lengths| lengths[target]).min().unwrap_or(0) / self.size;
            (full..self.tables[target].len()).for_each(|index| self.own(target, index));
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let numbers = 2 * self.layers * self.keys[0].len();
        let scales = if self.bits < 16 { numbers / self.dim * 4 } else { 0 };
        let all = numbers * self.bits / 8 + scales;
        if self.defect == Some(Defect::Understated) { all / 8 } else { all }
    }

    /// The scale over all heads of a token, or over all tokens of a call, where a defect has such a one.
    fn scale_of_more(
        &self,
        numbers: &[f32],
        t: usize,
        count: usize,
        (sequence, head, token): (usize, usize, usize),
    ) -> Option<f32> {
        let (heads, tokens) = match self.defect {
            _ if self.bits > 8 => return None,
            Some(Defect::ScaleOfAllHeads) => (0..self.kv_heads, token..token + 1),
            Some(Defect::ScaleOfAllTokens) => (head..head + 1, 0..count),
            _ => return None,
        };
        let largest = heads
            .flat_map(|head| tokens.clone().map(move |token| (sequence * self.kv_heads + head) * t + token))
            .flat_map(|row| &numbers[row * self.dim..(row + 1) * self.dim])
            .fold(0.0f32, |most, x| most.max(x.abs()));
        Some(largest / ((1 << (self.bits.min(8) - 1)) as f32 - 1.0))
    }

    /// Rounds keys of those positions, with a scale for each channel.
    fn round_channels(&mut self, layer: usize, sequence: usize, positions: std::ops::Range<usize>) {
        for channel in 0..self.kv_heads * self.dim {
            let places: Vec<usize> = positions
                .clone()
                .map(|position| self.slot(sequence, position).expect("it was appended") + channel)
                .collect();
            let numbers: Vec<f32> = places.iter().map(|&place| self.keys[layer][place]).collect();
            for (place, number) in places.into_iter().zip(self.coded(&numbers, self.bits)) {
                self.keys[layer][place] = number;
            }
        }
    }

    /// The same of a key.
    fn stored_key(&mut self, numbers: &[f32]) -> Vec<f32> {
        match self.scheme {
            Scheme::Channels(_) if self.bits < 16 => numbers.to_vec(),
            Scheme::Rotated if self.bits < 16 && self.dim.is_power_of_two() => {
                let mut turned: Vec<f32> = numbers.iter().zip(signs()).map(|(x, sign)| x * sign).collect();
                hadamard(&mut turned);
                let mut back = self.stored(&turned);
                hadamard(&mut back);
                back.iter().zip(signs()).map(|(x, sign)| x * sign).collect()
            }
            _ => self.stored(numbers),
        }
    }

    /// The numbers of a head of a token as they come back from storage.
    fn stored(&mut self, numbers: &[f32]) -> Vec<f32> {
        match self.bits {
            32 if self.defect == Some(Defect::HalfPrecision) => {
                numbers.iter().map(|&number| f16::from_f32(number).to_f32()).collect()
            }
            32 => numbers.to_vec(),
            16 => numbers.iter().map(|&number| f16::from_f32(number).to_f32()).collect(),
            bits => {
                let group = if let Scheme::Groups(size) = self.scheme { size } else { numbers.len() };
                let mut back: Vec<f32> =
                    numbers.chunks(group).flat_map(|group| self.coded(group, bits)).collect();
                if self.defect == Some(Defect::NibblesSwapped) && bits == 4 {
                    back.chunks_mut(2).for_each(<[f32]>::reverse);
                }
                if self.defect == Some(Defect::HeadCut(bits)) {
                    back[numbers.len() / 8 * 8..].fill(0.0);
                }
                back
            }
        }
    }

    fn coded(&mut self, numbers: &[f32], bits: usize) -> Vec<f32> {
        let rounded = |scale: f32| f16::from_f32(scale).to_f32();
        let wraps = self.defect == Some(Defect::CodesWrap) && bits == 8;
        if !matches!(self.scheme, Scheme::Asymmetric | Scheme::Groups(_)) && !wraps {
            let most = (1 << (bits - 1)) as f32 - 1.0;
            let largest = numbers.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            let mean = numbers.iter().map(|x| x.abs()).sum::<f32>() / numbers.len() as f32;
            let clipped = self.defect == Some(Defect::Clipped);
            let mut scale = rounded(if clipped { largest.min(4.0 * mean) } else { largest } / most);
            if let Some(given) = self.given_scale {
                scale = given;
            }
            if self.defect == Some(Defect::FirstScale) {
                scale = *self.first_scale.get_or_insert(scale);
            }
            let code = |x: f32| if scale > 0.0 { (x / scale).round().clamp(-most, most) } else { 0.0 };
            return numbers.iter().map(|&x| code(x) * scale).collect();
        }
        let most = (1 << bits) as f32 - 1.0;
        let least = numbers.iter().copied().fold(f32::INFINITY, f32::min);
        let largest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let scale = (largest - least) / most;
        let code = |x: f32| if scale > 0.0 { ((x - least) / scale).round().clamp(0.0, most) } else { 0.0 };
        let read = |code: f32| if wraps { f32::from(code as u8 as i8) } else { code };
        numbers.iter().map(|&x| read(code(x)) * scale + least).collect()
    }
}

/// Gives the 4-bit codes of one head of a token the scale of another, which tells by what is largest. Where there was nothing, it is 1.
fn rescale(numbers: &mut [f32], other: &[f32]) {
    let scale = |numbers: &[f32]| match numbers.iter().fold(0.0f32, |most, x| most.max(x.abs())) {
        0.0 => 1.0,
        largest => largest / 7.0,
    };
    let factor = scale(other) / scale(numbers);
    numbers.iter_mut().for_each(|x| *x *= factor);
}

/// Signs as of coins, the same ones every time.
fn signs() -> impl Iterator<Item = f32> {
    (1u32..).map(|index| if index.wrapping_mul(0x9e37_79b9).count_ones() % 2 == 0 { 1.0 } else { -1.0 })
}

/// Multiplies by the orthogonal symmetric Hadamard matrix; the length is a power of two.
fn hadamard(x: &mut [f32]) {
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            left.iter_mut().zip(right).for_each(|(a, b)| (*a, *b) = (*a + *b, *a - *b));
        }
        half *= 2;
    }
    let root = (x.len() as f32).sqrt();
    x.iter_mut().for_each(|x| *x /= root);
}
