//! What a cache is made for.

use tribunal_contract::Argument;

/// The arguments of `create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Config {
    pub(super) layers: usize,
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head_dim: usize,
    pub(super) max_len: usize,
    pub(super) bits: usize,
    /// Size of a block and number of blocks.
    pub(super) paged: Option<(usize, usize)>,
}

impl Config {
    /// `2x3x4x2x16x40/b32`: layers, sequences, query heads, key heads, elements of a head, longest sequence; and bits. A paged one
    /// has its blocks behind: `2x3x4x2x16x40p8x15/b32`.
    pub(super) fn name(&self) -> String {
        let Self { layers, batch, heads, kv_heads, head_dim, max_len, bits, paged } = self;
        let blocks = paged.map_or(String::new(), |(size, count)| format!("p{size}x{count}"));
        format!("{layers}x{batch}x{heads}x{kv_heads}x{head_dim}x{max_len}{blocks}/b{bits}")
    }

    /// The configuration of the two parts of that name, if it can be served.
    pub(super) fn parse(extents: &str, bits: &str) -> Option<Self> {
        let numbers =
            |text: &str| text.split('x').map(|number| number.parse().ok()).collect::<Option<Vec<usize>>>();
        let (extents, paged) = match extents.split_once('p') {
            None => (extents, None),
            Some((extents, blocks)) => {
                let [size, count]: [usize; 2] = numbers(blocks)?.try_into().ok()?;
                (extents, Some((size, count)))
            }
        };
        let [layers, batch, heads, kv_heads, head_dim, max_len]: [usize; 6] =
            numbers(extents)?.try_into().ok()?;
        let bits = bits.strip_prefix('b')?.parse().ok()?;
        let config = Self { layers, batch, heads, kv_heads, head_dim, max_len, bits, paged };
        config.is_sound().then_some(config)
    }

    fn is_sound(&self) -> bool {
        let Self { layers, batch, heads, kv_heads, head_dim, max_len, bits, paged } = *self;
        let extents = [layers, batch, heads, kv_heads, head_dim, max_len];
        extents.iter().all(|extent| (1..=1 << 17).contains(extent))
            && heads % kv_heads == 0
            && head_dim % 2 == 0
            && [4, 8, 16, 32].contains(&bits)
            && paged.is_none_or(|(size, count)| size > 0 && count > 0)
            && layers * batch * heads * head_dim * max_len <= 1 << 26
    }

    /// How many query heads use one head of keys.
    pub(super) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The blocks that sequences of these lengths take.
    pub(super) fn blocks(&self, lengths: impl Iterator<Item = usize>) -> usize {
        self.paged.map_or(0, |(size, _)| lengths.map(|length| length.div_ceil(size)).sum())
    }

    /// Whether sequences can have these lengths, all at once.
    pub(super) fn fits(&self, lengths: &[usize]) -> bool {
        lengths.iter().all(|&length| length <= self.max_len)
            && self.paged.is_none_or(|(_, count)| self.blocks(lengths.iter().copied()) <= count)
    }

    /// The arguments of `create`.
    pub(super) fn arguments<'a>(&self) -> Vec<Argument<'a>> {
        let Self { layers, batch, heads, kv_heads, head_dim, max_len, bits, paged } = *self;
        let (block_size, num_blocks) = paged.unwrap_or((0, 0));
        [layers, batch, heads, kv_heads, head_dim, max_len, bits, block_size, num_blocks]
            .map(|number| Argument::Integer(number as i64))
            .to_vec()
    }

    /// What numbers are kept as.
    pub(super) fn format(&self) -> &'static str {
        match self.bits {
            16 => "float16",
            8 => "int8",
            4 => "int4",
            _ => "float32",
        }
    }

    /// The capabilities that a submission must claim to be asked for it.
    pub(super) fn capabilities(&self) -> Vec<&'static str> {
        let bits = (self.bits != 32).then(|| self.format());
        bits.into_iter().chain(self.paged.map(|_| "paged")).collect()
    }
}
