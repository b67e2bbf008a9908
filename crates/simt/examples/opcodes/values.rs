//! What operands are tried: edges, and what is drawn.

use serde::Serialize;

/// What a register is taken for where it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    Pred,
    B16,
    B32,
    B64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
}

impl Type {
    /// Bytes in memory.
    pub fn bytes(self) -> usize {
        match self {
            Type::Pred => 1,
            Type::B16 | Type::F16 | Type::Bf16 => 2,
            Type::B32 | Type::F16x2 | Type::Bf16x2 | Type::F32 => 4,
            Type::B64 | Type::F64 => 8,
        }
    }

    /// Bits of the fraction and of the exponent.
    fn format(self) -> (u32, u32) {
        match self {
            Type::F16 | Type::F16x2 => (10, 5),
            Type::Bf16 | Type::Bf16x2 => (7, 8),
            Type::F64 => (52, 11),
            _ => (23, 8),
        }
    }

    fn half(self) -> Option<Type> {
        match self {
            Type::F16x2 => Some(Type::F16),
            Type::Bf16x2 => Some(Type::Bf16),
            _ => None,
        }
    }
}

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Of so many bits.
    Int(u32),
    /// As above, and not 0.
    Divisor(u32),
    /// 0 alone.
    Zero(u32),
    /// 24 bits, extended.
    Int24 {
        signed: bool,
    },
    Float(Type),
    /// As above, and neither NaN nor subnormal.
    Plain(Type),
    /// Integers of few bits, so that sums of products need no rounding.
    Small(Type),
    /// Of one order of magnitude or two.
    Tame(Type),
    /// Amounts of shifts.
    Amount,
    /// Places and lengths of fields: of 8 bits.
    Byte,
    /// Clamps and segments of shuffles.
    Segment,
    /// 0 or 1 in 32 bits.
    Bit,
    Pred,
    /// One of a few values, so that lanes agree.
    Few(u32),
    /// The lanes of a warp that take part; the others do nothing.
    Mask,
    /// The lower or the upper lanes.
    HalfMask,
}

impl Kind {
    pub fn of(self) -> Type {
        match self {
            Kind::Int(bits) | Kind::Divisor(bits) | Kind::Zero(bits) | Kind::Few(bits) => match bits {
                16 => Type::B16,
                32 => Type::B32,
                _ => Type::B64,
            },
            Kind::Float(of) | Kind::Plain(of) | Kind::Small(of) | Kind::Tame(of) => of,
            Kind::Pred => Type::Pred,
            _ => Type::B32,
        }
    }

    pub fn is_mask(self) -> bool {
        matches!(self, Kind::Mask | Kind::HalfMask)
    }
}

/// A sequence that repeats itself.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn of(&mut self, choices: &[u64]) -> u64 {
        choices[self.below(choices.len() as u64) as usize]
    }
}

const AMOUNTS: [u64; 18] =
    [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 256, 0x8000_0000, 0xffff_ffff];

fn int_edges(bits: u32) -> Vec<u64> {
    let top = 1u64 << (bits - 1);
    let ones = top | (top - 1);
    let edges = [0, 1, 2, 3, 10, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000];
    let edges = edges.into_iter().chain([0xffff_ffff, top - 1, top, top + 1, ones - 2, ones - 1, ones]);
    edges.filter(|&edge| edge <= ones).collect()
}

fn float_edges(of: Type) -> Vec<u64> {
    let (fraction, exponent) = of.format();
    let (ulp, sign) = (1u64 << fraction, 1u64 << (fraction + exponent));
    let infinity = sign - ulp;
    let one = ((1u64 << (exponent - 1)) - 1) << fraction;
    let positive = [
        0,
        1,
        ulp - 1,
        ulp,
        ulp + 1,
        infinity - 1,
        infinity,
        infinity + 1,
        infinity | ulp >> 1,
        sign - 1,
        one,
        one - 1,
        one + 1,
        one - ulp,
        one + ulp,
        one + ulp / 2,
    ];
    positive.into_iter().flat_map(|bits| [bits, bits | sign]).collect()
}

fn edges(kind: Kind) -> Vec<u64> {
    match kind {
        Kind::Int(bits) => int_edges(bits),
        Kind::Divisor(bits) => int_edges(bits).into_iter().filter(|&edge| edge != 0).collect(),
        Kind::Float(of) => match of.half() {
            None => float_edges(of),
            Some(half) => {
                let edges = float_edges(half);
                let other = edges.iter().cycle().skip(5);
                edges.iter().zip(other).map(|(low, high)| low | high << 16).collect()
            }
        },
        Kind::Plain(of) => float_edges(of).into_iter().filter(|&bits| is_plain(of, bits)).collect(),
        Kind::Amount => AMOUNTS.into(),
        Kind::Byte => AMOUNTS.into_iter().filter(|&amount| amount < 256).collect(),
        _ => vec![],
    }
}

fn float(random: &mut Random, of: Type) -> u64 {
    let (fraction, exponent) = of.format();
    let (ulp, sign) = (1u64 << fraction, 1u64 << (fraction + exponent));
    let infinity = sign - ulp;
    let one = ((1u64 << (exponent - 1)) - 1) << fraction;
    let bits = match random.below(5) {
        0 => random.of(&float_edges(of)),
        1 => match (of, random.below(2)) {
            (Type::F32, 0) => wider(random, Type::F16),
            (Type::F64, 0) => wider(random, Type::F32),
            _ => random.next(),
        },
        2 => one.wrapping_add(random.below(ulp << 1)).wrapping_sub(ulp),
        // Few bits, so that there are ties.
        3 => {
            ((one & infinity).wrapping_add(random.below(24) << fraction) - 12 * ulp)
                | random.below(16) << (fraction - 4)
        }
        _ => one.wrapping_add(random.below(12 * ulp)).wrapping_sub(6 * ulp),
    };
    (bits & (sign - 1)) | (random.below(2) * sign)
}

/// About what a narrower format has, as bits of the wider.
fn wider(random: &mut Random, of: Type) -> u64 {
    let bits = random.of(&float_edges(of));
    let (value, lost) = match of {
        Type::F16 => (half::f16::from_bits(bits as u16).to_f32().to_bits().into(), 13),
        _ => (f64::from(f32::from_bits(bits as u32)).to_bits(), 29),
    };
    let half = 1 << (lost - 1);
    let off = random.of(&[0, 1, half - 1, half, half + 1, random.0 % (2 * half)]);
    if random.below(2) == 0 { value.wrapping_add(off) } else { value.wrapping_sub(off) }
}

/// Whether it is neither NaN nor subnormal; of a number alone.
fn is_plain(of: Type, bits: u64) -> bool {
    let (fraction, exponent) = of.format();
    let infinity = ((1u64 << exponent) - 1) << fraction;
    let magnitude = bits & ((1 << (fraction + exponent)) - 1);
    magnitude <= infinity && (magnitude == 0 || magnitude >> fraction != 0)
}

/// An integer from -4 to 4.
fn small(random: &mut Random, of: Type) -> u64 {
    let value = random.below(9) as f32 - 4.0;
    match of {
        Type::F16 => half::f16::from_f32(value).to_bits().into(),
        Type::Bf16 => half::bf16::from_f32(value).to_bits().into(),
        Type::F64 => f64::from(value).to_bits(),
        _ => value.to_bits().into(),
    }
}

fn tame(random: &mut Random, of: Type) -> u64 {
    let (fraction, exponent) = of.format();
    let ulp = 1u64 << fraction;
    let one = ((1u64 << (exponent - 1)) - 1) << fraction;
    (one - 4 * ulp + random.below(5 * ulp)) | random.below(2) << (fraction + exponent)
}

/// Both halves of a pair, or the only number.
fn parts(of: Type, mut draw: impl FnMut(Type) -> u64) -> u64 {
    match of.half() {
        Some(half) => draw(half) | draw(half) << 16,
        None => draw(of),
    }
}

fn drawn(random: &mut Random, kind: Kind) -> u64 {
    match kind {
        Kind::Int(bits) | Kind::Divisor(bits) => {
            let ones = u64::MAX >> (64 - bits);
            let value = match random.below(5) {
                0 => random.of(&int_edges(bits)),
                1 => random.below(100),
                2 => random.below(100).wrapping_neg(),
                3 => random.next() >> random.below(64),
                _ => random.next(),
            };
            match value & ones {
                0 if matches!(kind, Kind::Divisor(_)) => 1,
                value => value,
            }
        }
        Kind::Zero(_) => 0,
        Kind::Int24 { signed } => {
            let value = match random.below(3) {
                0 => random.of(&[0, 1, 2, 0x7f_ffff, 0x80_0000, 0x80_0001, 0xff_fffe, 0xff_ffff]),
                _ => random.below(1 << 24),
            };
            if signed && value >> 23 != 0 { value | 0xff00_0000 } else { value }
        }
        Kind::Float(of) => parts(of, |of| float(random, of)),
        Kind::Plain(of) => loop {
            let bits = float(random, of);
            if is_plain(of, bits) {
                break bits;
            }
        },
        Kind::Small(of) => parts(of, |of| small(random, of)),
        Kind::Tame(of) => parts(of, |of| tame(random, of)),
        Kind::Amount => match random.below(4) {
            0 => random.of(&AMOUNTS),
            1 => random.next() & 0xffff_ffff,
            _ => random.below(72),
        },
        Kind::Byte => match random.below(3) {
            0 => random.below(256),
            _ => random.below(72),
        },
        Kind::Segment => {
            random.of(&[0x1f, 0, 0x1c1f, 0x1800, 0x101f, 0x1e1f, 0x1803, 0x0f07, 0x1f1f])
                | random.below(2) << 13
        }
        Kind::Bit | Kind::Pred => random.below(2),
        Kind::Few(bits) => {
            let spread = if bits == 64 { 0x0001_0000_0000 } else { 1 };
            random.below(3) * spread
        }
        Kind::Mask => match random.below(4) {
            0 => 0xffff_ffff,
            1 => 1 << random.below(32),
            _ => random.next() & 0xffff_ffff | 1 << random.below(32),
        },
        Kind::HalfMask => random.of(&[0xffff, 0xffff_0000]),
    }
}

/// What each thread gets, operand by operand.
pub fn operands(kinds: &[Kind], threads: usize, seed: u64) -> Vec<Vec<u64>> {
    let mut random = Random(seed);
    let edges: Vec<Vec<u64>> = kinds.iter().map(|kind| edges(*kind)).collect();
    let mut operands = vec![Vec::with_capacity(threads); kinds.len()];
    // All of 16 bits, or all edges with all.
    let all = kinds.len() == 1 && threads == 1 << 16;
    let crossed = match &edges[..] {
        [a] => a.len(),
        [a, b, ..] => a.len() * b.len(),
        [] => 0,
    };
    for thread in 0..threads {
        for (i, kind) in kinds.iter().enumerate() {
            let value = match random.below(8) {
                _ if all => (thread | (thread ^ 0x5555) << 16) as u64,
                _ if kind.is_mask() && thread % 32 != 0 => operands[i][thread - 1],
                // Every fourth warp agrees.
                _ if matches!(kind, Kind::Few(_)) && thread % 128 != 0 && thread / 32 % 4 == 0 => {
                    operands[i][thread - 1]
                }
                // Every second, for some of what lanes say must be drawn.
                _ if i < 2 && thread % 2 == 0 && thread / 2 < crossed => {
                    let edges = &edges[i];
                    let place = if i == 0 { thread / 2 } else { thread / 2 / self::edges(kinds[0]).len() };
                    edges[place % edges.len()]
                }
                0 if i > 0 && kinds[i - 1] == *kind => operands[i - 1][thread],
                _ => drawn(&mut random, *kind),
            };
            operands[i].push(value);
        }
        cancel(&mut random, kinds, &mut operands, thread);
    }
    operands
}

/// Sometimes factors whose product hardly differs from the least normal number, and a third operand that takes from the product all that
/// it leads with.
fn cancel(random: &mut Random, kinds: &[Kind], operands: &mut [Vec<u64>], thread: usize) {
    let [Kind::Float(a), Kind::Float(b), rest @ ..] = kinds else { return };
    if a != b || thread.is_multiple_of(2) {
        return;
    }
    if random.below(4) == 0 {
        let mut other = 0;
        operands[0][thread] = parts(*a, |of| {
            let (factor, inverse) = least(random, of);
            other = other << 16 | inverse;
            factor
        });
        // The lower half was drawn first.
        operands[1][thread] = if a.half().is_some() { other >> 16 | (other & 0xffff) << 16 } else { other };
        if let [Kind::Float(_)] = rest {
            operands[2][thread] &= 1 << 63 | 1 << 31 | 1 << 15;
        }
    } else if let [Kind::Float(_)] = rest
        && random.below(3) == 0
    {
        let [x, y] = [0, 1].map(|i| operands[i][thread]);
        operands[2][thread] = match a {
            Type::F32 => (-(f32::from_bits(x as u32) * f32::from_bits(y as u32))).to_bits().into(),
            Type::F64 => (-(f64::from_bits(x) * f64::from_bits(y))).to_bits(),
            _ => operands[2][thread],
        };
    }
}

/// A number little above the least that is normal, and one that is about 1, whose product is about that.
fn least(random: &mut Random, of: Type) -> (u64, u64) {
    let (fraction, exponent) = of.format();
    let ulp = 1u64 << fraction;
    let above = if random.below(2) == 0 { random.below(4) } else { random.below(ulp) };
    let factor = 1.0 + above as f64 / ulp as f64;
    // Below 1 a unit is half as large.
    let below = ((1.0 - 1.0 / factor) * (2 * ulp) as f64).round() as u64;
    let one = ((1u64 << (exponent - 1)) - 1) << fraction;
    let sign = random.below(2) << (fraction + exponent);
    ((ulp + above) | sign, one - below + random.below(3) - 1)
}

/// A value without its signs.
pub fn magnitude(of: Type, bits: u64) -> u64 {
    match of {
        Type::F16 | Type::Bf16 => bits & 0x7fff,
        Type::F16x2 | Type::Bf16x2 => bits & 0x7fff_7fff,
        Type::F32 => bits & 0x7fff_ffff,
        Type::F64 => bits & i64::MAX as u64,
        _ => bits,
    }
}
