//! What our headers give by cub's names beyond what groups.rs looks at, by value: compiled as submissions are, emulated, and held against Rust.

mod emulated;

use emulated::{Check, bytes, check, ints, launch, numbers, on_ints, text};
use tribunal_simt::execute;
use tribunal_simt::fault::Kind;
use tribunal_simt::launch::{Argument, Launch, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::ptx::Module;

const SOURCE: &str = include_str!("../../runner/tests/cuda/cub.cu");

const CHECKS: [(&str, Check); 11] = [
    ("scans go on from what came before", scans),
    ("warps reduce by segments, and scan both ways", warps),
    ("tiles are loaded and stored by blocks, warps and parts of warps", tiles),
    ("blocks exchange their items", exchanges),
    ("warps exchange their items", warp_exchanges),
    ("blocks and warps merge what they sorted", merges),
    ("neighbours are compared, and moved on", neighbours),
    ("items are counted", counts),
    ("a thread reduces, loads and stores alone", alone),
    ("bits of numbers are ordered as the numbers are", bits),
    ("who uses storage again waits, or races", hasty),
];

fn main() {
    tribunal_runner::enter();
    check(SOURCE, "tiles", &CHECKS);
}

fn sum(of: &[i32]) -> i32 {
    of.iter().sum()
}

/// The text of the letters of each part, one behind the other.
fn joined(parts: &[&[i32]]) -> i32 {
    text(parts.concat())
}

fn scans(module: &Module) {
    let input = numbers(240);
    let firsts: Vec<i32> = input.iter().copied().step_by(3).collect();
    let out = on_ints(module, "scans", 80, &input, &[25 * 80]).remove(0);
    for (i, mine) in out.chunks(25).enumerate() {
        let items = 3 * i..3 * i + 3;
        let mut wanted =
            vec![joined(&[&[1], &firsts, &firsts[..=i]]), joined(&[&[2], &firsts, &firsts[..i]])];
        wanted.extend(items.clone().map(|k| joined(&[&[3], &input, &input[..=k]])));
        wanted.extend(items.clone().map(|k| joined(&[&[4], &input, &input[..k]])));
        wanted.extend(items.clone().map(|k| 5 + sum(&input) + sum(&input[..=k])));
        wanted.extend(items.clone().map(|k| 6 + sum(&input) + sum(&input[..k])));
        wanted.extend(items.clone().map(|k| joined(&[&[7], &input[..=k]])));
        wanted.push(joined(&[&input]));
        wanted.extend(items.map(|k| joined(&[&input[..k]])));
        wanted.push(joined(&[&input]));
        wanted.extend([joined(&[&firsts[..i]]), joined(&[&firsts]), sum(&firsts[..i])]);
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn warps(module: &Module) {
    let input = numbers(64);
    let out = on_ints(module, "warps", 64, &input, &[13 * 64]).remove(0);
    let flagged = |i: usize| input[i] > 7;
    // A segment of a part that is so wide, of who begins it.
    let headed = |i: usize, width: usize| {
        let end = i / width * width + width;
        let begins = i.is_multiple_of(width) || flagged(i);
        begins.then(|| &input[i..(i + 1..end).find(|&other| flagged(other)).unwrap_or(end)])
    };
    let tailed = |i: usize, width: usize| {
        let end = i / width * width + width;
        let begins = i.is_multiple_of(width) || flagged(i - 1);
        begins.then(|| &input[i..(i..end).find(|&other| flagged(other)).map_or(end, |last| last + 1)])
    };
    for (i, mine) in out.chunks(13).enumerate() {
        let eighth = &input[i / 8 * 8..][..8];
        let (before, with) = (&eighth[..i % 8], &eighth[..=i % 8]);
        let pairs = || (i..i + 32).map(|other| input[other] + 3 * other as i32).sum();
        let wanted = [
            headed(i, 32).map_or(0, sum),
            tailed(i, 32).map_or(0, sum),
            headed(i, 8).map_or(0, |segment| joined(&[segment])),
            tailed(i, 8).map_or(0, |segment| joined(&[segment])),
            joined(&[with]),
            joined(&[before]),
            joined(&[&[7], with]),
            joined(&[&[7], before]),
            joined(&[&[7], with]),
            joined(&[eighth]),
            joined(&[before]),
            joined(&[eighth]).wrapping_add(eighth[3]),
            if i % 32 == 0 { pairs() } else { 0 },
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn tiles(module: &Module) {
    const VALID: usize = 329;
    const ALL: usize = 384;
    let input = numbers(ALL);
    let out = on_ints(module, "tiles", 96, &input, &[8 * 3 * ALL, 8 * 2 * ALL]);
    for (way, (own, back)) in out[0].chunks(3 * ALL).zip(out[1].chunks(2 * ALL)).enumerate() {
        for at in 0..ALL {
            let (thread, item) = (at / 4, at % 4);
            // As wide as the threads that lie side by side, where items are striped.
            let width = [1, 96, 32, 1, 16, 1, 1, 1][way];
            let from = thread / width * width * 4 + thread % width + item * width;
            let or = |other| if from < VALID { input[from] } else { other };
            let got = [own[at], own[ALL + at], own[2 * ALL + at], back[at], back[ALL + at]];
            let stored = if at < VALID { input[at] } else { 0 };
            assert_eq!(got, [input[from], or(-7), or(-1), input[at], stored], "way {way}, number {at}");
        }
    }
}

/// What becomes of the items of groups of so many threads, so many each, in the three ways of an exchange; and where `ranks` scatters them,
/// to blocked and to striped.
fn exchanged(input: &[i32], width: usize, items: usize, ranks: &[i32]) -> [Vec<i32>; 4] {
    let all = width * items;
    let (mut to_blocked, mut to_striped) = (Vec::new(), Vec::new());
    let (mut blocked, mut striped) = (Vec::new(), Vec::new());
    for group in input.chunks(all) {
        let mut room = vec![0; all];
        for (&rank, &item) in ranks.iter().zip(group) {
            room[rank as usize] = item;
        }
        for place in 0..all {
            let from = place / items + place % items * width;
            to_blocked.push(group[place % width * items + place / width]);
            to_striped.push(group[from]);
            blocked.push(room[place]);
            striped.push(room[from]);
        }
    }
    [to_blocked, to_striped, blocked, striped]
}

fn on_ranks(
    module: &Module,
    kernel: &str,
    threads: u32,
    input: &[i32],
    ranks: &[i32],
    size: usize,
) -> Vec<i32> {
    let given = [bytes(input, i32::to_ne_bytes), bytes(ranks, i32::to_ne_bytes)];
    ints(&launch(module, kernel, (1, threads), &given, &[4 * size])[0])
}

fn exchanges(module: &Module) {
    let input = numbers(240);
    let ranks: Vec<i32> = (0..240).map(|i| i * 77 % 240).collect();
    let out = on_ranks(module, "exchanges", 80, &input, &ranks, 9 * 240);
    let ways = exchanged(&input, 80, 3, &ranks).concat();
    assert_eq!(out[..4 * 240], ways);
    assert_eq!(out[4 * 240..8 * 240], ways);
    let mut room = vec![0; 120];
    for (rank, item) in ranks.iter().zip(&input).filter(|(rank, _)| *rank % 2 == 0) {
        room[*rank as usize / 2] = *item;
    }
    assert_eq!(out[8 * 240..], [&room[..], &room].concat());
}

fn warp_exchanges(module: &Module) {
    let input = numbers(320);
    let ranks: Vec<i32> = (0..40).map(|i| i * 17 % 40).collect();
    let out = on_ranks(module, "warp_exchanges", 64, &input, &ranks, 7 * 320 + 2 * 512);
    let none: Vec<i32> = (0..160).collect();
    let [to_blocked, to_striped, ..] = exchanged(&input, 32, 5, &none);
    let mut wanted = [&to_blocked[..], &to_striped, &to_blocked, &to_striped].concat();
    let [to_blocked, to_striped, _, scattered] = exchanged(&input, 8, 5, &ranks);
    wanted.extend([to_blocked, to_striped, scattered].concat());
    let eight: Vec<i32> = (0..512).collect();
    wanted.extend(exchanged(&eight, 8, 8, &eight[..64])[1].iter().chain(&eight));
    assert_eq!(out, wanted);
}

fn merges(module: &Module) {
    let input = numbers(320);
    let out = on_ints(module, "merges", 64, &input, &[2 * 320 + 2 * 100 + 128 + 2 * 192 + 64]).remove(0);
    // Keys of some items in order of what is left of a division, the largest first, and then where they were.
    let sorted = |first: usize, count: usize| {
        let mut places: Vec<usize> = (first..first + count).collect();
        places.sort_by_key(|&place| -((input[place] + 20) % 7));
        let keys: Vec<i32> = places.iter().map(|&place| input[place]).collect();
        (keys, places.into_iter().map(|place| place as i32).collect::<Vec<_>>())
    };
    let mut wanted = Vec::new();
    let (keys, places) = sorted(0, 320);
    wanted.extend(keys);
    wanted.extend(places.into_iter().map(|place| place & 255));
    let (keys, places) = sorted(0, 100);
    wanted.extend([keys, places].concat());
    let mut plain = input[..128].to_vec();
    plain.sort_unstable();
    wanted.extend(plain);
    let parts = [0, 48, 96, 144].map(|first| sorted(first, 48));
    wanted.extend(parts.iter().flat_map(|(keys, _)| keys));
    wanted.extend(parts.iter().flat_map(|(_, places)| places));
    for warp in input[..64].chunks(32) {
        let mut valid = warp[..19].to_vec();
        valid.sort_unstable();
        valid.resize(32, 0);
        wanted.extend(valid);
    }
    assert_eq!(out, wanted);
}

fn neighbours(module: &Module) {
    const ALL: usize = 240;
    let input: Vec<i32> = numbers(ALL).into_iter().map(|value| value / 12).collect();
    let out = on_ints(module, "neighbours", 80, &input, &[16 * ALL]).remove(0);
    let any = |_: usize| true;
    let even = |place: usize| place.is_multiple_of(2);
    let head = |j: usize, given: Option<i32>, looks: &dyn Fn(usize) -> bool| {
        let before = if j == 0 { given } else { Some(input[j - 1]) };
        i32::from(before.is_none_or(|before| before != input[j] && looks(j)))
    };
    let tail = |j: usize, given: Option<i32>, looks: &dyn Fn(usize) -> bool| {
        let behind = if j == ALL - 1 { given } else { Some(input[j + 1]) };
        i32::from(behind.is_none_or(|behind| behind != input[j] && looks(j + 1)))
    };
    for j in 0..ALL {
        let got: Vec<i32> = out.iter().copied().skip(j).step_by(ALL).collect();
        let (thread, item) = (j / 3, j % 3);
        let before = |other| if j == 0 { other } else { input[j - 1] };
        let behind = if j == ALL - 1 { -1 } else { input[j + 1] };
        let wanted = [
            head(j, None, &any),
            tail(j, None, &even),
            head(j, Some(0), &even),
            before(0),
            tail(j, Some(0), &any),
            10 * head(j, None, &any) + tail(j, None, &any),
            10 * head(j, Some(0), &any) + tail(j, Some(0), &any),
            10 * head(j, None, &even) + tail(j, Some(0), &even),
            10 * head(j, Some(0), &any) + tail(j, None, &any),
            before(-1) + if item == 1 { 1000 * input[ALL - 1] } else { 0 },
            behind + if item == 0 { 1000 * input[0] } else { 0 },
            match item {
                0 => thread.checked_sub(33).map_or(-1, |from| input[3 * from]),
                1 => input.get(3 * thread + 3).copied().unwrap_or(-1),
                _ => input[3 * ((thread + 50) % 80)],
            },
            31 * input[j] + before(3),
            31 * input[j] + if j == ALL - 1 { 4 } else { behind },
            if j == 0 || j >= 134 { input[j] } else { 31 * input[j] + before(0) },
            if j >= 133 { input[j] } else { 31 * input[j] + behind },
        ];
        assert_eq!(got, wanted, "item {j}");
    }
}

fn counts(module: &Module) {
    let input = numbers(240);
    let out = on_ints(module, "counts", 80, &input, &[3 * 41]).remove(0);
    for bin in 0..41 {
        let count = input.iter().filter(|&&value| value + 20 == bin as i32).count() as i32;
        assert_eq!([out[bin], out[41 + bin], out[82 + bin]], [count, count, 2 * count], "{bin}");
    }
}

fn alone(module: &Module) {
    let input = numbers(128);
    let sizes = [4 * 10 * 32, 16 * 32, 6 * 32, 16 * 32];
    let out = launch(module, "alone", (1, 32), &[bytes(&input, i32::to_ne_bytes)], &sizes);
    for (i, mine) in ints(&out[0]).chunks(10).enumerate() {
        let all = &input[4 * i..][..4];
        let i_32 = i as i32;
        let wanted = [
            sum(all),
            joined(&[&[7], all]),
            input[i],
            2 * input[i],
            all[0] + i_32 / 2,
            all[2] + i_32,
            16,
            input[i] + 100 * input[i + 3] + 50_000,
            2 * (5 + i_32 + 2),
            (i_32 + 4) / 5,
        ];
        assert_eq!(mine, wanted, "thread {i}");
    }
}

fn bits(module: &Module) {
    let input = numbers(64);
    let out = on_ints(module, "bits", 64, &input, &[24 * 64]).remove(0);
    let all: Vec<&[i32]> = out.chunks(24).collect();
    // Where each kind of number lies, from the lowest key; -0 is before 0.
    let numbers_at = |i: usize| if i == 4 || i == 5 { 0.0 } else { f64::from(input[i]) };
    for i in 0..64 {
        let mine = all[i];
        assert_eq!([mine[1], mine[3], mine[5], mine[7]], [1; 4], "thread {i}");
        for (other, theirs) in all.iter().enumerate() {
            for (kind, [a, b]) in [
                (0, [numbers_at(i), numbers_at(other)]),
                (2, [numbers_at(i), numbers_at(other)]),
                (4, [input[i], input[other]].map(f64::from)),
                (6, [input[i], input[other]].map(|number| f64::from(number as u8))),
            ] {
                let [own, its] = [mine, theirs].map(|of| of[kind] as u32);
                assert!(a == b || (a < b) == (own < its), "kind {kind}: {a} and {b} are {own} and {its}");
            }
        }
        let of_warp = &input[i / 32 * 32..][..32];
        let positive =
            of_warp.iter().enumerate().fold(0, |all, (lane, &one)| all | i32::from(one > 0) << lane);
        let lane = (i % 32) as i32;
        let wanted = [
            i32::MAX,
            -1,
            i32::MAX,
            i32::MIN,
            65504,
            i32::from(0xff7f_u16 as i16),
            i32::from(i16::MAX),
            0,
            input[i] >> 3 & 127,
            !(31 << 4) | (input[i] & 31) << 4,
            lane + 100 * (32 - lane),
            lane + 1 + 100 * (31 - lane),
            positive,
            i32::from(of_warp.contains(&20)) + 2 * i32::from(!of_warp.contains(&20)),
            i32::from(input.contains(&20)) + 2,
            input[i ^ 1] + input[63 - i],
        ];
        assert_eq!(mine[8..], wanted, "thread {i}");
    }
    assert_eq!(all[4][0].wrapping_sub(all[5][0]), 1, "-0 is just before 0");
}

fn hasty(module: &Module) {
    for name in ["hasty_exchange", "hasty_warp", "hasty_flags"] {
        let mut memory = Memory::new();
        let arguments = vec![Argument::Pointer(memory.with("out", Role::InOut, 4, vec![0; 4 * 64]))];
        let asked = Launch { grid: [1, 1, 1], block: [64, 1, 1], shared: 0, arguments };
        let kernel = module.kernel(name).expect("a kernel");
        let report = execute::launch(&kernel, &asked, &mut memory, &Settings::default()).expect("a launch");
        assert!(report.faults.iter().any(|fault| fault.kind == Kind::SharedRace), "{name}");
    }
}
