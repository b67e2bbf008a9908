//! What our CUDA headers give beyond the language, by value: compiled as submissions are, emulated, and held against Rust.

mod emulated;

use emulated::{Check, bytes, check, ints, launch, numbers, on_ints, text, values};
use half::{bf16, f16};
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::ptx::Module;

const GROUPS: &str = include_str!("../../runner/tests/cuda/groups.cu");
const STD: &str = include_str!("../../runner/tests/cuda/std.cu");

const CHECKS: [(&str, Check); 19] = [
    ("tiles know their place and what their lanes say", tiles),
    ("values of any type go from lane to lane", structs),
    ("lanes that came to one place are a group", lanes),
    ("what nvcc compiles as it stands is no licence", undefined),
    ("copies come when they are waited for", copies),
    ("who arrives at a barrier lets who waits see", barriers),
    ("some threads copy for others", producers),
    ("atomics add up", atomics),
    ("blocks pass sums on", across),
    ("numbers are rounded to halves", rounded),
    ("pairs of halves are calculated with", pairs),
    ("all 8-bit floats are what they mean", eights_are_read),
    ("floats become the nearest 8-bit floats", eights_are_written),
    ("products of matrices have every shape and layout", products),
    ("blocks reduce as cub does", cub_reduce),
    ("warps reduce and scan as cub's do", cub_warps),
    ("blocks scan as cub's do", cub_scans),
    ("tiles are loaded and stored as cub's are", cub_tiles),
    ("blocks sort as cub's do", cub_sorts),
];

/// Of the standard library, and of what cuda has beside it.
const CHECKS_STD: [(&str, Check); 6] = [
    ("views are of what lies where they say", views),
    ("threads sum and scan", sums),
    ("values may not be there", maybe),
    ("complex numbers of 32 bits are calculated with", complexes_f32),
    ("complex numbers of 64 bits are calculated with", complexes_f64),
    ("integers are divided, rounded and measured", integers),
];

fn main() {
    tribunal_runner::enter();
    check(GROUPS, "tiles", &CHECKS);
    check(STD, "views", &CHECKS_STD);
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    values(bytes, f32::from_ne_bytes)
}

/// Bit `i` for each `i` of which something holds.
fn bits(of: &[i32], holds: impl Fn(i32) -> bool) -> i32 {
    of.iter().enumerate().map(|(i, &value)| i32::from(holds(value)) << i).sum()
}

fn tiles(module: &Module) {
    let input = numbers(64);
    let out =
        ints(&launch(module, "tiles", (1, 64), &[bytes(&input, i32::to_ne_bytes)], &[4 * (11 * 64 + 1)])[0]);
    for (i, mine) in out[..11 * 64].chunks(11).enumerate() {
        let tile = &input[i / 8 * 8..][..8];
        let value = input[i];
        let same = tile.iter().all(|other| other >> 8 == value >> 8);
        let wanted = [
            i as i32 / 32 * 100 + 2,
            i as i32 % 32 / 8 * 100 + 4,
            tile[3],
            tile.get(i % 8 + 2).copied().unwrap_or(value),
            bits(tile, |other| other & 1 == 1),
            bits(tile, |other| other & 3 == value & 3),
            i32::from(tile.contains(&7)) * 10 + i32::from(!tile.contains(&7)),
            i as i32 % 16 * 100 + 16,
            if same { 255 + 1000 } else { 0 },
            tile[0] + 1,
            i as i32 * 1000 + 64,
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
    assert_eq!(out[11 * 64], 64);
}

/// Each warp takes 32 places, and each thread writes a pair as one word.
fn undefined(module: &Module) {
    let input = numbers(64);
    let out = ints(
        &launch(module, "undefined", (1, 64), &[bytes(&input, i32::to_ne_bytes)], &[4 * (4 * 64 + 1)])[0],
    );
    for (i, mine) in out[..256].chunks(4).enumerate() {
        let sign = if input[i] < 0 { -1 } else { 1 };
        assert_eq!(mine, [i as i32 % 32, (input[i] as f32) as i32, i as i32 + 5, sign], "thread {i}");
    }
    assert_eq!(out[256], 64, "who leads takes places for all");
}

fn structs(module: &Module) {
    let input: Vec<f32> = numbers(32).into_iter().map(|value| value as f32).collect();
    let out =
        floats(&launch(module, "structs", (1, 32), &[bytes(&input, f32::to_ne_bytes)], &[4 * 6 * 32])[0]);
    for (i, mine) in out.chunks(6).enumerate() {
        let tile = &input[i / 16 * 16..][..16];
        let most = tile.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert_eq!(mine[..2], [most, tile.iter().sum()], "thread {i}");
        assert_eq!(input[mine[2] as usize], most, "thread {i}");
        let before = if i % 16 == 0 { input[i] } else { input[i - 1] };
        assert_eq!(mine[3..], [2.0 * input[i ^ 5] + 3.0, tile[1] / 2.0, before], "thread {i}");
    }
}

/// What the threads of a group are told, of which `values` are those of all, by rank.
fn place(rank: usize, of: usize) -> i32 {
    (rank * 100 + of) as i32
}

fn lanes(module: &Module) {
    let input = numbers(64);
    let out = ints(&launch(module, "lanes", (1, 64), &[bytes(&input, i32::to_ne_bytes)], &[4 * 18 * 64])[0]);
    for i in 0..64 {
        let mine = &out[16 * i..][..16];
        let value = input[i];
        if value <= 0 {
            assert_eq!(mine, [0; 16]);
            continue;
        }
        let warp = i / 32 * 32;
        let group: Vec<i32> = input[warp..warp + 32].iter().copied().filter(|&other| other > 0).collect();
        let rank = input[warp..i].iter().filter(|&&other| other > 0).count();
        // Of those that have something in common with this one: how many, and this one's rank among them.
        let part = |holds: &dyn Fn(i32) -> bool| {
            let of = group.iter().filter(|&&other| holds(other)).count();
            place(group[..rank].iter().filter(|&&other| holds(other)).count(), of)
        };
        let alike = |other: i32| other % 3 == value % 3;
        let mut labels = Vec::new();
        for other in &group {
            if !labels.contains(&(other % 3)) {
                labels.push(other % 3);
            }
        }
        let large = |other: i32| other > if i < 32 { 9 } else { 0 };
        let both = group.iter().any(|&other| large(other)) && group.iter().any(|&other| !large(other));
        let wanted = [
            place(rank, group.len()),
            group[1],
            group[if rank < 2 { rank } else { rank - 2 }],
            *group.get(rank + 3).unwrap_or(&value),
            bits(&group, |other| other & 1 == 1),
            bits(&group, |other| other & 3 == value & 3),
            group.iter().sum(),
            group[..=rank].iter().sum(),
            group[..rank].iter().copied().max().unwrap_or(0),
            if group.iter().all(|&other| other == value) { bits(&group, |_| true) * 10 + 1 } else { 0 },
            place(0, 1),
            part(&alike),
            place(labels.iter().position(|&label| label == value % 3).unwrap(), labels.len()),
            group.iter().copied().filter(|&other| alike(other)).max().unwrap(),
            part(&|other| large(other) == large(value)),
            place((both && large(value)).into(), 1 + usize::from(both)),
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
    for i in 0..64 {
        let before: i32 = input[i / 8 * 8..i].iter().sum();
        assert_eq!((out[16 * 64 + i], out[17 * 64 + i]), (before + input[i], before), "thread {i}");
    }
}

fn copies(module: &Module) {
    let input: Vec<f32> = (0..512).map(|i| i as f32).collect();
    for kernel in ["copies", "stages"] {
        let out = floats(&launch(module, kernel, (1, 32), &[bytes(&input, f32::to_ne_bytes)], &[4 * 512])[0]);
        for (k, value) in out.iter().enumerate().filter(|(k, _)| kernel == "stages" || *k != 255) {
            assert_eq!(*value, (k / 128 * 128 + 127 - k % 128) as f32, "{kernel}, number {k}");
        }
    }
}

fn barriers(module: &Module) {
    let input: Vec<f32> = (0..512).map(|i| i as f32).collect();
    let out = floats(&launch(module, "barriers", (1, 64), &[bytes(&input, f32::to_ne_bytes)], &[4 * 416])[0]);
    for (k, value) in out.iter().enumerate() {
        let wanted = match k {
            0..256 => k / 128 * 128 + 127 - k % 128,
            256..320 => 256 + 63 - k % 64,
            320..352 => 320 + 31 - k % 32,
            // And whether the phase waited for arrivals when this came.
            _ => 352 + 63 - (k - 352) + 1,
        };
        assert_eq!(*value, wanted as f32, "number {k}");
    }
}

fn producers(module: &Module) {
    let input: Vec<f32> = (0..512).map(|i| i as f32).collect();
    let out =
        floats(&launch(module, "producers", (1, 64), &[bytes(&input, f32::to_ne_bytes)], &[4 * 1024])[0]);
    for (k, value) in out.iter().enumerate() {
        assert_eq!(*value, (k % 512 / 64 * 64 + 63 - k % 64) as f32, "number {k}");
    }
}

fn atomics(module: &Module) {
    let out = launch(module, "atomics", (2, 64), &[], &[20, 8, 4]);
    assert_eq!(ints(&out[0]), [2 * (1 + 64 * 63 / 2), 58, 255, -63, 256]);
    assert_eq!(values(&out[1], u64::from_ne_bytes), [0_u64.wrapping_sub(128)]);
    assert_eq!(floats(&out[2]), [64.0]);
}

/// Floats at the ends and between the numbers of shorter types.
fn special() -> Vec<f32> {
    let mut found = vec![0.0, 1.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45, f32::MAX, 1e-7, 1e-30];
    found.extend([0.1, 0.3, 0.5, 0.75, 1.5, 2.5, 3.5, 7.99, 100.4, 255.5, 256.0, 300.0]);
    // Ties, and what is next to them: of half, bfloat16, e4m3 and e5m2, and where they end.
    for tie in [1.000_488_3, 1.001_464_8, 1.003_906_3, 1.011_718_8, 1.0625, 1.1875, 1.125, 1.375] {
        found.extend([f32::from_bits(f32::to_bits(tie) - 1), tie, f32::from_bits(f32::to_bits(tie) + 1)]);
    }
    for end in
        [65504.0_f32, 65519.0, 65520.0, 65536.0, 448.0, 464.0, 464.01, 480.0, 57344.0, 61439.0, 61440.0]
    {
        found.push(end);
    }
    for small in
        [2.0_f32.powi(-24), 2.0_f32.powi(-25), 2.0_f32.powi(-9), 2.0_f32.powi(-10), 2.0_f32.powi(-16)]
    {
        found.extend([small, small * 1.25, small * 1.5, small * 2.5, small * 3.0]);
    }
    let negative: Vec<f32> = found.iter().map(|value| -value).collect();
    found.extend(negative);
    found.resize(256, -2.75);
    found
}

/// Numbers of 16 bits of which some value of `wide` is the nearest, that towards zero, that not below, and that not above; NaN aside.
fn directions(x: f32, nearest: u16, wide: impl Fn(u16) -> f32, largest: u16) -> [u16; 4] {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    // Towards zero: the nearest, or the one before it.
    let mut cut = nearest & 0x7fff;
    if wide(cut) > x.abs() {
        cut -= 1;
    }
    let cut = if x.is_infinite() { nearest & 0x7fff } else { cut.min(largest) };
    let beyond = if wide(cut) == x.abs() { cut } else { cut + 1 };
    let (up, down) = if sign == 0 { (beyond, cut) } else { (cut, beyond) };
    [nearest, sign | cut, sign | up, sign | down]
}

fn across(module: &Module) {
    const BLOCKS: usize = 12;
    let input = numbers(64 * BLOCKS);
    let sizes = [4 * (3 * BLOCKS + 1), 8 * BLOCKS, 4 * BLOCKS, 4 * BLOCKS, 4 * BLOCKS, 4 * BLOCKS, 4];
    let out = launch(module, "across", (BLOCKS as u32, 64), &[bytes(&input, i32::to_ne_bytes)], &sizes);
    let upto = |block: usize| input[..64 * block].iter().sum::<i32>();
    let before = (0..BLOCKS).flat_map(|block| [upto(block); 3]);
    let all = (1..=BLOCKS).map(upto).sum();
    assert_eq!(ints(&out[0]), before.chain([all]).collect::<Vec<_>>());
}

fn rounded(module: &Module) {
    let input = special();
    let out = launch(module, "rounded", (1, 256), &[bytes(&input, f32::to_ne_bytes)], &[2 * 16 * 256]);
    for (mine, &x) in values(&out[0], u16::from_ne_bytes).chunks(16).zip(&input) {
        let h = f16::from_f32(x);
        if x.is_nan() {
            assert!(mine[..4].iter().all(|&bits| f16::from_bits(bits).is_nan()), "{mine:x?}");
            assert!(mine[4..8].iter().all(|&bits| bf16::from_bits(bits).is_nan()), "{mine:x?}");
        } else {
            let halves = directions(x, h.to_bits(), |bits| f16::from_bits(bits).to_f32(), 0x7bff);
            assert_eq!(mine[..4], halves, "{x}");
            let nearest = bf16::from_f32(x).to_bits();
            assert_eq!(
                mine[4..8],
                directions(x, nearest, |bits| bf16::from_bits(bits).to_f32(), 0x7f7f),
                "{x}"
            );
        }
        let whole = h.to_f32();
        // `as` saturates, and makes 0 of NaN, as the hardware does.
        assert_eq!(mine[8], u16::from(whole as u8), "{x}");
        assert_eq!(mine[9], whole.round_ties_even() as i16 as u16, "{x}");
        assert_eq!(mine[10], whole.ceil() as u16, "{x}");
        assert_eq!(mine[11], whole.floor() as i32 as u16, "{x}");
        if !x.is_nan() {
            assert_eq!(mine[12], f16::from_f64(x as u64 as f64).to_bits(), "{x}");
        }
        assert_eq!(mine[13], u16::from(h != f16::ZERO), "{x}");
        let sum = f16::from_f32((whole + 0.5).clamp(0.0, 1.0));
        assert_eq!(mine[14], if whole.is_nan() { 0 } else { sum.to_bits() }, "{x}");
        let product = bf16::from_f32(bf16::from_f32(x).to_f32() * 0.5).to_f32();
        let product = bf16::from_f32(product.clamp(0.0, 1.0) + 0.0);
        assert_eq!(mine[15], if x.is_nan() { 0 } else { product.to_bits() }, "{x}");
    }
}

/// Of numbers: a NaN differs from nothing.
fn differ(x: f32, y: f32) -> bool {
    x != y && !x.is_nan() && !y.is_nan()
}

/// What `pairs_of` in the source makes of one half of two pairs; those that are about both are left out.
fn one_of_pairs(a: u16, b: u16, wide: fn(u16) -> f32, narrow: fn(f32) -> u16) -> [(usize, u16); 11] {
    let (x, y) = (wide(a), wide(b));
    let one = narrow(1.0);
    let truth = |holds: bool| if holds { one } else { 0 };
    let sum = (x + y).clamp(0.0, 1.0);
    let most = if x.is_nan() || y.is_nan() { f32::NAN } else { x.max(y) };
    let rectified = x.mul_add(y, 1.0);
    [
        (0, narrow(if sum.is_nan() { 0.0 } else { wide(narrow(sum)) + 0.0 })),
        (1, narrow(x - y)),
        (2, narrow(if rectified > 0.0 || rectified.is_nan() { rectified } else { 0.0 })),
        (3, narrow(most)),
        (4, narrow(x.min(y))),
        (5, truth(differ(x, y))),
        (6, if x >= y { 0 } else { 0xffff }),
        (8, a ^ 0x8000),
        (9, narrow(x + 1.0)),
        (11, truth(y.is_nan())),
        (12, 0),
    ]
}

fn pairs(module: &Module) {
    // One, half, two, -3, the largest, infinity, NaN, the smallest, zero: of halves and of bfloat16.
    let of = |narrow: fn(f32) -> u16, smallest: u16, largest: u16| {
        let mut found: Vec<u16> =
            [1.0, 0.5, 2.0, -3.0, f32::INFINITY, f32::NAN, 0.0, -0.25].map(narrow).to_vec();
        found.extend([smallest, largest, largest | 0x8000]);
        found
    };
    type Widen = fn(u16) -> f32;
    type Narrow = fn(f32) -> u16;
    let half: (Widen, Narrow) = (|bits| f16::from_bits(bits).to_f32(), |x| f16::from_f32(x).to_bits());
    let brain: (Widen, Narrow) = (|bits| bf16::from_bits(bits).to_f32(), |x| bf16::from_f32(x).to_bits());
    for (kind, (wide, narrow), some) in
        [(0, half, of(half.1, 1, 0x7bff)), (1, brain, of(brain.1, 0x80, 0x7f7f))]
    {
        let all: Vec<[u16; 4]> = some
            .iter()
            .flat_map(|&a| some.iter().map(move |&b| [a, b, b, a]))
            .map(|[a, b, c, d]| [a, c, b, d])
            .collect();
        let words: Vec<u32> = all
            .iter()
            .flat_map(|&[a, c, b, d]| [u32::from(a) | u32::from(c) << 16, u32::from(b) | u32::from(d) << 16])
            .collect();
        let count = all.len() as u32;
        let out =
            launch(module, "pairs", (1, count), &[bytes(&words, u32::to_ne_bytes)], &[4 * 28 * all.len()]);
        for (thread, mine) in values(&out[0], u32::from_ne_bytes).chunks(28).enumerate() {
            let [a, c, b, d] = all[thread];
            assert_eq!(mine[26..], [words[2 * thread]; 2]);
            let mine = &mine[13 * kind..][..13];
            let nan = |bits: u16| wide(bits).is_nan();
            for (high, one, other) in [(0, a, b), (16, c, d)] {
                for (index, wanted) in one_of_pairs(one, other, wide, narrow) {
                    let got = (mine[index] >> high) as u16;
                    let skip = index == 12 || (index == 8 && nan(one));
                    assert!(
                        skip || got == wanted || (index != 6 && nan(got) && nan(wanted)),
                        "{kind}, number {index} of {one:x} and {other:x}: {got:x}, not {wanted:x}"
                    );
                }
            }
            let [x, y, z, w] = [a, b, c, d].map(wide);
            let flags = u32::from(!(x < y) && !(z < w))
                + 2 * u32::from(x == y && z == w)
                + 4 * u32::from(x != y && z != w)
                + 8 * u32::from(x <= y)
                + 16 * u32::from(differ(z, w));
            assert_eq!(mine[7], flags, "{kind}, {a:x} {c:x} and {b:x} {d:x}");
        }
    }
}

/// The value of an 8-bit float with so many digits after the point.
fn eight(code: u8, digits: u32) -> f64 {
    let bias = if digits == 3 { 7 } else { 15 };
    let (exponent, digit) =
        (i32::from(code >> digits & ((0x80_u8 >> digits) - 1)), f64::from(code & ((1 << digits) - 1)));
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    let unit = 0.5_f64.powi(digits as i32);
    let size = match (digits, exponent, code & 3) {
        (3, 15, _) if code & 7 == 7 => f64::NAN,
        (2, 31, 0) => f64::INFINITY,
        (2, 31, _) => f64::NAN,
        (_, 0, _) => digit * unit * 2.0_f64.powi(1 - bias),
        _ => (1.0 + digit * unit) * 2.0_f64.powi(exponent - bias),
    };
    sign * size
}

fn eights(module: &Module, input: &[f32]) -> (Vec<f32>, Vec<u8>) {
    let mut out = launch(module, "eights", (1, 256), &[bytes(input, f32::to_ne_bytes)], &[8 * 256, 4 * 256]);
    let narrow = out.pop().unwrap();
    (floats(&out[0]), narrow)
}

fn eights_are_read(module: &Module) {
    let (wide, _) = eights(module, &special());
    for (code, got) in wide.chunks(2).enumerate() {
        for (got, digits) in got.iter().zip([3, 2]) {
            let wanted = eight(code as u8, digits) as f32;
            let same = got.to_bits() == wanted.to_bits() || (got.is_nan() && wanted.is_nan());
            assert!(same, "{code:x} with {digits} digits: {got}, not {wanted}");
        }
    }
}

fn eights_are_written(module: &Module) {
    let input = special();
    let (_, narrow) = eights(module, &input);
    for (got, &x) in narrow.chunks(4).zip(&input) {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        for (index, digits, largest, beyond) in
            [(0, 3, 0x7e, 0x7e_u8), (1, 3, 0x7e, 0x7f), (2, 2, 0x7b, 0x7b), (3, 2, 0x7b, 0x7c)]
        {
            // The nearest of all that are finite, even ones first, and what would come after the largest.
            let size = f64::from(x.abs()).min(1e6);
            let end = 2.0 * eight(largest, digits) - eight(largest - 1, digits);
            let distance = |code: u8| (size - if code > largest { end } else { eight(code, digits) }).abs();
            let nearest = (0..=largest + 1)
                .min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
            let nearest = nearest.filter(|_| x.is_finite()).unwrap_or(largest + 1);
            let code = if nearest > largest { beyond } else { nearest };
            let wanted = if x.is_nan() { 0x7f } else { sign | code };
            assert_eq!(got[index], wanted, "{x} with {digits} digits, way {index}");
        }
    }
}

/// How numbers are written for a type, and read.
type Write = fn(i32) -> Vec<u8>;
type Read = fn(&[u8]) -> Vec<i32>;

fn products(module: &Module) {
    let half: Write = |x| f16::from_f32(x as f32).to_ne_bytes().to_vec();
    let brain: Write = |x| bf16::from_f32(x as f32).to_ne_bytes().to_vec();
    let float: Write = |x| (x as f32).to_ne_bytes().to_vec();
    let double: Write = |x| f64::from(x).to_ne_bytes().to_vec();
    let byte: Write = |x| vec![x as i8 as u8];
    let unsigned: Write = |x| vec![x.unsigned_abs() as u8 * 8];
    let int: Write = |x| x.to_ne_bytes().to_vec();
    let from_float: Read = |bytes| floats(bytes).into_iter().map(|x| x as i32).collect();
    let from_half: Read =
        |bytes| values(bytes, f16::from_ne_bytes).into_iter().map(|x| x.to_f32() as i32).collect();
    let from_double: Read = |bytes| values(bytes, f64::from_ne_bytes).into_iter().map(|x| x as i32).collect();
    let table: [(&str, [usize; 3], Write, Write, Read); 12] = [
        ("product_f16", [16, 16, 16], half, float, from_float),
        ("product_f16_tall", [32, 8, 16], half, float, from_float),
        ("product_f16_wide", [8, 32, 16], half, float, from_float),
        ("product_f16_f16", [16, 16, 16], half, half, from_half),
        ("product_f16_f16_wide", [8, 32, 16], half, half, from_half),
        ("product_bf16", [16, 16, 16], brain, float, from_float),
        ("product_bf16_tall", [32, 8, 16], brain, float, from_float),
        ("product_tf32", [16, 16, 8], float, float, from_float),
        ("product_s8", [16, 16, 16], byte, int, ints),
        ("product_u8_tall", [32, 8, 16], unsigned, int, ints),
        ("product_s8_wide", [8, 32, 16], byte, int, ints),
        ("product_f64", [8, 8, 4], double, double, from_double),
    ];
    for (name, [rows, columns, inner], write, write_sums, read) in table {
        let digits = if name.contains("f16_f16") { 7 } else { 20 };
        let all: Vec<i32> = numbers(rows * inner + inner * columns + rows * columns)
            .into_iter()
            .map(|x| x % digits)
            .collect();
        let (a, rest) = all.split_at(rows * inner);
        let (b, c) = rest.split_at(inner * columns);
        let written = |of: &[i32], write: Write| of.iter().flat_map(|&x| write(x)).collect::<Vec<u8>>();
        let size = 8 * written(c, write_sums).len();
        let inputs = [written(a, write), written(b, write), written(c, write_sums)];
        let out = read(&launch(module, name, (1, 32), &inputs, &[size])[0]);
        let value = |x: i32| if name.contains("u8") { x.abs() * 8 } else { x };
        for (layout, got) in out.chunks(rows * columns).enumerate() {
            let [sums_turned, a_turned, b_turned] = [4, 2, 1].map(|bit| layout & bit != 0);
            let at = |turned: bool, row: usize, column: usize, (rows, columns): (usize, usize)| {
                if turned { column * rows + row } else { row * columns + column }
            };
            for row in 0..rows {
                for column in 0..columns {
                    let place = at(sums_turned, row, column, (rows, columns));
                    let product: i32 = (0..inner)
                        .map(|k| {
                            value(a[at(a_turned, row, k, (rows, inner))])
                                * value(b[at(b_turned, k, column, (inner, columns))])
                        })
                        .sum();
                    assert_eq!(got[place], product + 2 * c[place], "{name}, layout {layout}, {row} {column}");
                }
            }
        }
    }
}

fn cub_reduce(module: &Module) {
    let input = numbers(4 * 80);
    let out = on_ints(module, "cub_reduce", 80, &input, &[10]).remove(0);
    let firsts: Vec<i32> = input.iter().copied().step_by(4).collect();
    let (least, most) = (*firsts.iter().min().unwrap(), *firsts.iter().max().unwrap());
    let place = |value| firsts.iter().position(|&one| one == value).unwrap() as i32;
    let wanted = [
        firsts.iter().sum(),
        firsts[..45].iter().sum(),
        least,
        *input.iter().max().unwrap(),
        input.iter().sum(),
        place(most),
        place(least),
        text(firsts.iter().copied()),
        firsts.iter().fold(0, |all, value| all ^ value),
        least,
    ];
    assert_eq!(out, wanted);
}

fn cub_warps(module: &Module) {
    let input = numbers(64);
    let out = on_ints(module, "cub_warps", 64, &input, &[8 * 64]).remove(0);
    for (i, mine) in out.chunks(8).enumerate() {
        let warp = &input[i / 32 * 32..][..32];
        let (lane, eighth) = (i % 32, &input[i / 8 * 8..]);
        let part = if i % 16 == 0 { input[i..i + 16].iter().sum() } else { 0 };
        let few = if lane == 0 { *warp[..7].iter().max().unwrap() } else { 0 };
        let wanted = [
            part,
            few,
            warp[..=lane].iter().sum(),
            warp[..lane].iter().sum(),
            warp.iter().sum(),
            warp[5],
            text([1].into_iter().chain(eighth[..i % 8].iter().copied())),
            text(eighth[..=i % 8].iter().copied()),
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn cub_scans(module: &Module) {
    let input = numbers(80);
    let out = on_ints(module, "cub_scans", 80, &input, &[9 * 80]).remove(0);
    let all: i32 = input.iter().sum();
    let letters: Vec<i32> = input.iter().flat_map(|&value| [value, value + 1]).collect();
    for (i, mine) in out.chunks(9).enumerate() {
        let before: i32 = input[..i].iter().sum();
        let behind = |count: usize| text([7].into_iter().chain(letters[..count].iter().copied()));
        let wanted = [
            before + input[i],
            before,
            all,
            1000 + all + before,
            text(letters[..=2 * i].iter().copied()),
            text(letters[..=2 * i + 1].iter().copied()),
            behind(2 * i),
            behind(2 * i + 1),
            text(letters.iter().copied()),
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn cub_tiles(module: &Module) {
    const VALID: usize = 201;
    let input = numbers(256);
    let out = on_ints(module, "cub_tiles", 64, &input, &[5 * 256, 5 * 512]);
    for (way, (own, back)) in out[0].chunks(256).zip(out[1].chunks(512)).enumerate() {
        let striped = way == 1;
        for (at, &own) in own.iter().enumerate() {
            let from = if striped { at / 4 + at % 4 * 64 } else { at };
            let wanted = if from < VALID { input[from] } else { -1 };
            assert_eq!(own, wanted, "way {way}, thread {}", at / 4);
        }
        let whole = back[256..].iter().zip(&input).all(|(back, value)| *back == -value);
        assert!(
            back[..VALID] == input[..VALID] && back[VALID..256].iter().all(|&value| value == 0),
            "way {way}"
        );
        assert!(whole, "way {way}");
    }
}

fn cub_sorts(module: &Module) {
    let mut keys: Vec<f32> = numbers(192).into_iter().map(|value| value as f32 / 4.0).collect();
    (keys[3], keys[70], keys[100], keys[150]) = (f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0);
    let input = numbers(192).into_iter().rev().map(|value| value * 77_777).collect::<Vec<_>>();
    let given = [bytes(&keys, f32::to_ne_bytes), bytes(&input, i32::to_ne_bytes)];
    let mut memory = Memory::new();
    let [keys_in, input_in] =
        given.map(|bytes| Argument::Pointer(memory.with("given", Role::Input, 4, bytes)));
    let made = [192, 192, 384].map(|count| memory.with("made", Role::InOut, 4, vec![0; 4 * count]));
    let [sorted, places, ordered] = made.map(Argument::Pointer);
    let arguments = vec![keys_in, sorted, places, input_in, ordered];
    let asked = Launch { grid: [1, 1, 1], block: [64, 1, 1], shared: 0, arguments };
    let kernel = module.kernel("cub_sorts").expect("a kernel");
    let report = execute::launch(&kernel, &asked, &mut memory, &Settings::default()).expect("a launch");
    assert!(report.finished && report.faults.is_empty(), "{:?}", report.faults);
    let [sorted, places, ordered] = made.map(|pointer| memory.buffer(pointer).bytes().to_vec());
    // Both sorts are stable, and both zeros are the same.
    let mut wanted: Vec<i32> = (0..192).collect();
    wanted.sort_by(|&a, &b| keys[b as usize].partial_cmp(&keys[a as usize]).unwrap());
    assert_eq!(ints(&places), wanted);
    let bits = |value: f32| value.to_bits();
    let by_place: Vec<u32> = wanted.iter().map(|&place| bits(keys[place as usize])).collect();
    assert_eq!(floats(&sorted).into_iter().map(bits).collect::<Vec<_>>(), by_place);
    let mut wanted = input;
    wanted.sort_unstable();
    let ordered = ints(&ordered);
    assert_eq!(ordered[..192], wanted);
    wanted.sort_by_key(|value| value >> 1 & 7);
    assert_eq!(ordered[192..], wanted);
}

fn views(module: &Module) {
    let input = numbers(8 * 32);
    let out = ints(&launch(module, "views", (1, 32), &[bytes(&input, i32::to_ne_bytes)], &[4 * 16 * 32])[0]);
    for (i, mine) in out.chunks(16).enumerate() {
        let row = &input[8 * i..][..8];
        let sum = |of: &[i32]| of.iter().sum::<i32>();
        let wanted = [
            sum(row),
            0,
            sum(&row[..3]),
            sum(&row[6..]),
            sum(&row[..4]) * 100 + row[7],
            sum(&row[5..]),
            sum(&row[2..5]),
            row[4],
            row[7] * 100 + row[0],
            32 + 100,
            row[7] * 100 + row[0],
            row[2] * 100 + row[7],
            3 * 100 + 8 * 10 + 8,
            11,
            row.iter().rev().fold(0, |sum, value| sum * 2 + value),
            32 + i32::from(row[0].to_ne_bytes()[0]) * 1000,
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn sums(module: &Module) {
    let input = numbers(8 * 32);
    let out = ints(&launch(module, "sums", (1, 32), &[bytes(&input, i32::to_ne_bytes)], &[4 * 72 * 32])[0]);
    let gcd = |a: i32, b: i32| (1..=20).rev().find(|d| a % d == 0 && b % d == 0).unwrap_or(0);
    for (i, mine) in out.chunks(72).enumerate() {
        let row = &input[8 * i..][..8];
        let sum: i32 = row.iter().sum();
        let product: i32 = row.iter().zip(&input).map(|(a, b)| a * b).sum();
        let (a, b) = (row[0], row[1]);
        let one_by_one = [
            sum + 5,
            *row.iter().max().unwrap(),
            sum,
            product + 1,
            row.iter().map(|x| x * x).sum(),
            product,
            if a == 0 && b == 0 { 0 } else { gcd(a, b) },
            a + (b - a) / 2,
        ];
        assert_eq!(mine[..8], one_by_one, "thread {i}");
        let scans: [fn(usize, &[i32]) -> i32; 8] = [
            |at, row| row[0] + at as i32,
            |at, row| row[..=at].iter().sum(),
            |at, row| row[..at].iter().sum::<i32>() + 7,
            |at, row| row[..=at].iter().sum(),
            |at, row| if at == 0 { row[0] } else { row[at] - row[at - 1] },
            |at, row| *row[..=at].iter().max().unwrap(),
            |at, row| row[..at].iter().sum(),
            |at, row| row[..=at].iter().sum::<i32>() * 2,
        ];
        for (kind, scan) in scans.into_iter().enumerate() {
            let wanted: Vec<i32> = (0..8).map(|at| scan(at, row)).collect();
            assert_eq!(mine[8 * (kind + 1)..][..8], wanted, "thread {i}, scan {kind}");
        }
    }
}

fn maybe(module: &Module) {
    let input = numbers(32);
    let out = ints(&launch(module, "maybe", (1, 32), &[bytes(&input, i32::to_ne_bytes)], &[4 * 10 * 32])[0]);
    let even = |x: i32| (x % 2 == 0).then_some(x / 2);
    for (i, mine) in out.chunks(10).enumerate() {
        let value = input[i];
        let half = even(value);
        let wanted = [
            i32::from(half.is_some()),
            half.unwrap_or(1000),
            half.unwrap_or(-1000),
            half.map_or(2000, |x| x + 1),
            half.and_then(even).unwrap_or(3000),
            i32::from(half < Some(0))
                + i32::from(half.is_none()) * 10
                + i32::from(half != Some(value / 2)) * 100,
            half.unwrap_or(7),
            30,
            2 * 1000 + value + 4,
            0,
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

type Complex = (f64, f64);

/// What is computed of two numbers, and how large the terms are that make it.
fn complex_wanted(a: Complex, b: Complex) -> [(Complex, f64); 16] {
    let times = |a: Complex, b: Complex| (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0);
    let norm = |a: Complex| a.0 * a.0 + a.1 * a.1;
    let over = |a: Complex, b: Complex| {
        let product = times(a, (b.0, -b.1));
        (product.0 / norm(b), product.1 / norm(b))
    };
    let size = |a: Complex| norm(a).sqrt();
    let angle = a.1.atan2(a.0);
    let (large, sinh) = (a.1.cosh(), a.1.sinh());
    let root = size(a).sqrt();
    let sum = (a.0 + b.0, a.1 + b.1);
    let product = times(sum, a);
    [
        (sum, size(a) + size(b)),
        ((a.0 - b.0, a.1 - b.1), size(a) + size(b)),
        (times(a, b), size(a) * size(b)),
        (over(a, b), size(a) / size(b)),
        ((2.0 * a.0 + 3.0 * b.0 - 1.0, 2.0 * a.1 + 3.0 * b.1), 2.0 * size(a) + 3.0 * size(b) + 1.0),
        ((size(a), angle), size(a) + 4.0),
        ((norm(a), f64::from(u8::from(a == b))), norm(a)),
        ((-a.0, a.1), size(a)),
        (a, 4.0 * size(a)),
        ((a.0.exp() * a.1.cos(), a.0.exp() * a.1.sin()), a.0.exp() * (1.0 + a.0.abs() + a.1.abs())),
        ((size(a).ln(), angle), size(a).ln().abs() + 4.0),
        ((root * (angle / 2.0).cos(), root * (angle / 2.0).sin()), root),
        (times(a, a), norm(a) * (4.0 + size(a).ln().abs() + 2.0 * angle.abs())),
        ((1.0, 0.0), large * large + sinh * sinh),
        (over((product.0 - 1.0, product.1), b), (size(sum) * size(a) + 1.0) / size(b)),
        (a, size(a)),
    ]
}

/// Pairs of complex numbers, of which none is near zero, and some are equal.
fn complex_pairs() -> Vec<f64> {
    let parts = numbers(4 * 32);
    let mut pairs: Vec<f64> = parts.iter().map(|&part| f64::from(part) / 4.0 + 0.125).collect();
    pairs.copy_within(0..2, 2);
    pairs
}

/// Within a dozen roundings of the terms.
fn complexes(pairs: &[f64], out: &[f64], rounding: f64) {
    for (i, (pair, mine)) in pairs.chunks(4).zip(out.chunks(32)).enumerate() {
        let wanted = complex_wanted((pair[0], pair[1]), (pair[2], pair[3]));
        for (kind, (made, (wanted, terms))) in mine.chunks(2).zip(wanted).enumerate() {
            let error = (made[0] - wanted.0).abs().max((made[1] - wanted.1).abs());
            assert!(error <= 12.0 * rounding * terms, "pair {i}, {kind}: {made:?}, not {wanted:?}");
        }
    }
}

fn complexes_f32(module: &Module) {
    let pairs = complex_pairs();
    let input = bytes(&pairs, |part| (part as f32).to_ne_bytes());
    let out = floats(&launch(module, "complexes_f32", (1, 32), &[input], &[4 * 32 * 32])[0]);
    let out: Vec<f64> = out.into_iter().map(f64::from).collect();
    complexes(&pairs, &out, f64::from(f32::EPSILON));
}

fn complexes_f64(module: &Module) {
    let pairs = complex_pairs();
    let out = launch(module, "complexes_f64", (1, 32), &[bytes(&pairs, f64::to_ne_bytes)], &[8 * 32 * 32]);
    complexes(&pairs, &values(&out[0], f64::from_ne_bytes), f64::EPSILON);
}

fn integers(module: &Module) {
    let mut input: Vec<i32> = numbers(64).into_iter().map(|value| value * value * 40 + 1).collect();
    (input[0], input[2], input[4], input[6]) = (1, 1 << 30, (1 << 30) - 1, 999_999);
    let out = launch(module, "integers", (1, 32), &[bytes(&input, i32::to_ne_bytes)], &[4 * 10 * 32]);
    for (i, mine) in values(&out[0], u32::from_ne_bytes).chunks(10).enumerate() {
        let (a, b) = (input[2 * i] as u32, input[2 * i + 1] as u32);
        let pieces = a.div_ceil(b);
        let wanted = [
            pieces,
            pieces * b,
            a / b * b,
            u32::from(a.is_power_of_two()),
            a.next_power_of_two(),
            1 << a.ilog2(),
            a.ilog2() * 100 + a.next_power_of_two().ilog2(),
            a.ilog10(),
            a.isqrt(),
            a,
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}
