//! Kernels that clang made of CUDA compute what they should, in whatever order threads run, and are not accused of anything.

mod support;

use support::{SCHEDULES, assert_same_results, room, u32s, with_u32s};
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Report, Settings};
use tribunal_simt::memory::{Memory, Pointer, Role};
use tribunal_simt::program::Kernel;
use tribunal_simt::ptx::Module;

fn fixture(text: &str, name: &str) -> Kernel {
    Module::parse(text).unwrap().kernel(name).unwrap()
}

/// Runs a kernel in every order; `check` sees the memory after each.
fn run_all(
    kernel: &Kernel,
    grid: [u32; 3],
    threads: u32,
    shared: u32,
    arguments: impl Fn(&mut Memory) -> Vec<Argument>,
    check: impl Fn(&Report, &Memory, &[Argument]),
) {
    for schedule in SCHEDULES {
        let mut memory = Memory::new();
        let arguments = arguments(&mut memory);
        let given = memory.clone();
        let launch = Launch { grid, block: [threads, 1, 1], shared, arguments: arguments.clone() };
        let settings = Settings { schedule, ..Settings::default() };
        let report = execute::launch(kernel, &launch, &mut memory, &settings).unwrap();
        assert_eq!(report.faults, [], "{}: {schedule:?}", kernel.name);
        assert!(report.finished);
        check(&report, &memory, &arguments);
        assert_same_results(kernel, &launch, &settings, &given, (&report, &memory));
    }
}

fn pointer(argument: Argument) -> Pointer {
    match argument {
        Argument::Pointer(pointer) => pointer,
        other => panic!("{other:?} is no pointer"),
    }
}

fn floats(memory: &Memory, argument: Argument) -> Vec<f32> {
    u32s(memory, pointer(argument)).into_iter().map(f32::from_bits).collect()
}

fn give(memory: &mut Memory, name: &str, role: Role, values: &[f32]) -> Argument {
    Argument::Pointer(with_u32s(memory, name, role, values.iter().map(|value| value.to_bits())))
}

fn output(memory: &mut Memory, name: &str, count: usize) -> Argument {
    Argument::Pointer(room(memory, name, count))
}

/// Numbers from -2 to 2 that are the same each time.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) as f32 / 1024.0 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

fn assert_near(found: &[f32], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= within * expected.abs().max(1.0), "{index}: {found} for {expected}");
    }
}

#[test]
fn what_the_memory_of_a_gpu_is_measured_by_copies() {
    // The judge's own: crates/runner/src/host/gpu.rs.
    let text = include_str!("../../runner/src/host/copy.ptx");
    let kernel = fixture(text, "copy_vectors");
    for vectors in [1, 64, 255, 256, 300, 1000] {
        let given = numbers(4 * vectors, 3);
        let threads = 64;
        run_all(
            &kernel,
            [vectors.div_ceil(4 * threads) as u32, 1, 1],
            threads as u32,
            0,
            |memory| {
                let from = give(memory, "from", Role::Input, &given);
                vec![from, output(memory, "to", 4 * vectors), Argument::U64(16 * vectors as u64)]
            },
            |_, memory, arguments| assert_eq!(floats(memory, arguments[1]), given, "{vectors} vectors"),
        );
    }
}

#[test]
fn vectors_are_added() {
    let text = include_str!("fixtures/vadd.ptx");
    let (a, b) = (numbers(300, 1), numbers(300, 2));
    let sums: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    for (name, count) in [("vadd", 300), ("vadd4", 75)] {
        let arguments = |memory: &mut Memory| {
            let input = [give(memory, "a", Role::Input, &a), give(memory, "b", Role::Input, &b)];
            [&input[..], &[output(memory, "c", 300), Argument::I32(count)]].concat()
        };
        run_all(&fixture(text, name), [3, 1, 1], 128, 0, arguments, |_, memory, arguments| {
            assert_eq!(floats(memory, arguments[2]), sums);
        });
    }
}

#[test]
fn blocks_reduce() {
    let text = include_str!("fixtures/reduce.ptx");
    let x: Vec<f32> = (0..1000).map(|i| (i % 17) as f32).collect();
    let arguments = |memory: &mut Memory| {
        vec![
            give(memory, "x", Role::Input, &x),
            give(memory, "out", Role::InOut, &[0.0]),
            Argument::I32(1000),
        ]
    };
    run_all(&fixture(text, "block_sum"), [3, 1, 1], 128, 0, arguments, |_, memory, arguments| {
        assert_eq!(floats(memory, arguments[1]), [x.iter().sum::<f32>()]);
    });
    let bytes: Vec<u8> = (0..2000u32).map(|i| (i * i % 251) as u8).collect();
    let arguments = |memory: &mut Memory| {
        let bytes = Argument::Pointer(memory.with("x", Role::Input, 1, bytes.clone()));
        let bins = Argument::Pointer(with_u32s(memory, "bins", Role::InOut, [0; 256]));
        vec![bytes, bins, Argument::I32(2000)]
    };
    run_all(&fixture(text, "histogram"), [2, 1, 1], 96, 1024, arguments, |_, memory, arguments| {
        let mut bins = [0; 256];
        bytes.iter().for_each(|byte| bins[usize::from(*byte)] += 1);
        assert_eq!(u32s(memory, pointer(arguments[1])), bins);
    });
}

#[test]
fn threads_keep_lists_of_their_own() {
    const ROWS: usize = 2;
    const THREADS: usize = 96;
    let (n, k) = (1000, 5);
    let x = numbers(ROWS * n, 3);
    let arguments = |memory: &mut Memory| {
        let lists = output(memory, "lists", ROWS * k * THREADS);
        vec![give(memory, "x", Role::Input, &x), lists, Argument::I32(n as i32), Argument::I32(k as i32)]
    };
    let kernel = fixture(include_str!("fixtures/thread_lists.ptx"), "thread_lists");
    run_all(&kernel, [ROWS as u32, 1, 1], THREADS as u32, 0, arguments, |_, memory, arguments| {
        let lists = floats(memory, arguments[1]);
        for (row, thread) in (0..ROWS).flat_map(|row| (0..THREADS).map(move |thread| (row, thread))) {
            let mut own: Vec<f32> = x[row * n..][..n].iter().copied().skip(thread).step_by(THREADS).collect();
            own.sort_by(|a, b| b.total_cmp(a));
            let list = (0..k).map(|place| lists[(row * k + place) * THREADS + thread]);
            assert!(list.eq(own.into_iter().take(k)), "row {row}, thread {thread}");
        }
    });
}

#[test]
fn layers_are_normed_there_and_back() {
    const ROWS: usize = 3;
    const C: usize = 200;
    let text = include_str!("fixtures/layer_norm.ptx");
    let (x, w, b, dy) = (numbers(ROWS * C, 1), numbers(C, 2), numbers(C, 3), numbers(ROWS * C, 4));
    let wide = |values: &[f32]| values.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let (xs, ws, bs, gs) = (wide(&x), wide(&w), wide(&b), wide(&dy));
    let (mut y, mut dx, mut means, mut rstds) = (vec![], vec![], vec![], vec![]);
    let (mut dw, mut db) = (vec![0.0; C], vec![0.0; C]);
    for row in 0..ROWS {
        let of_row = |values: &[f64]| values[row * C..(row + 1) * C].to_vec();
        let (x, dy) = (of_row(&xs), of_row(&gs));
        let mean = x.iter().sum::<f64>() / C as f64;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / C as f64;
        let rstd = 1.0 / (variance + 1e-5).sqrt();
        let normed: Vec<f64> = x.iter().map(|x| (x - mean) * rstd).collect();
        let g: Vec<f64> = dy.iter().zip(&ws).map(|(dy, w)| dy * w).collect();
        let a = g.iter().sum::<f64>() / C as f64;
        let c = g.iter().zip(&normed).map(|(g, n)| g * n).sum::<f64>() / C as f64;
        for i in 0..C {
            y.push(normed[i] * ws[i] + bs[i]);
            dx.push((g[i] - a - normed[i] * c) * rstd);
            dw[i] += dy[i] * normed[i];
            db[i] += dy[i];
        }
        means.push(mean);
        rstds.push(rstd);
    }
    let forward = |memory: &mut Memory| {
        let input =
            [("x", &x), ("w", &w), ("b", &b)].map(|(name, values)| give(memory, name, Role::Input, values));
        let results = [("y", ROWS * C), ("mean", ROWS), ("rstd", ROWS)]
            .map(|(name, count)| output(memory, name, count));
        [&input[..], &results, &[Argument::I32(C as i32)]].concat()
    };
    run_all(&fixture(text, "layer_norm"), [ROWS as u32, 1, 1], 96, 0, forward, |_, memory, arguments| {
        assert_near(&floats(memory, arguments[3]), &y, 1e-5);
        assert_near(&floats(memory, arguments[4]), &means, 1e-5);
        assert_near(&floats(memory, arguments[5]), &rstds, 1e-5);
    });
    let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
    let (mean, rstd) = (narrow(&means), narrow(&rstds));
    let backward = |memory: &mut Memory| {
        let input = [("dy", &dy), ("x", &x), ("w", &w), ("mean", &mean), ("rstd", &rstd)];
        let mut arguments = input.map(|(name, values)| give(memory, name, Role::Input, values)).to_vec();
        arguments.push(output(memory, "dx", ROWS * C));
        arguments.push(give(memory, "dw", Role::InOut, &[0.0; C]));
        arguments.push(give(memory, "db", Role::InOut, &[0.0; C]));
        arguments.push(Argument::I32(C as i32));
        arguments
    };
    run_all(
        &fixture(text, "layer_norm_backward"),
        [ROWS as u32, 1, 1],
        96,
        0,
        backward,
        |_, memory, arguments| {
            assert_near(&floats(memory, arguments[5]), &dx, 1e-5);
            assert_near(&floats(memory, arguments[6]), &dw, 1e-5);
            assert_near(&floats(memory, arguments[7]), &db, 1e-5);
        },
    );
}

#[test]
fn the_most_likely_are_found() {
    const N: usize = 1000;
    let kernel = fixture(include_str!("fixtures/softmax_topk.ptx"), "softmax_topk");
    let x = numbers(2 * N, 5);
    let arguments = |memory: &mut Memory| {
        let x = give(memory, "x", Role::Input, &x);
        vec![x, output(memory, "p", 16), output(memory, "index", 16), Argument::I32(N as i32)]
    };
    let (mut p, mut index) = (vec![], vec![]);
    for row in x.chunks_exact(N) {
        let mut order: Vec<usize> = (0..N).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]).then(a.cmp(b)));
        let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
        for at in &order[..8] {
            p.push(f64::from(row[*at]).exp() / sum);
            index.push(*at as u32);
        }
    }
    run_all(&kernel, [2, 1, 1], 32, 0, arguments, |_, memory, arguments| {
        assert_eq!(u32s(memory, pointer(arguments[2])), index);
        assert_near(&floats(memory, arguments[1]), &p, 1e-6);
    });
}

/// Bytes of keys and values, and what the kernel takes them for.
fn encoded(kind: &str, values: &[f32]) -> (u8, Vec<u8>, Vec<f64>) {
    let halves = |bits: &dyn Fn(f32) -> (u16, f64)| {
        let (bits, exact): (Vec<u16>, Vec<f64>) = values.iter().map(|value| bits(*value)).unzip();
        (2, bits.into_iter().flat_map(u16::to_le_bytes).collect(), exact)
    };
    match kind {
        "f32" => (
            4,
            values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            values.iter().copied().map(f64::from).collect(),
        ),
        "f16" => halves(&|value| {
            let half = half::f16::from_f32(value);
            (half.to_bits(), half.to_f64())
        }),
        "bf16" => halves(&|value| {
            let half = half::bf16::from_f32(value);
            (half.to_bits(), half.to_f64())
        }),
        _ => {
            let bytes: Vec<i8> = values.iter().map(|value| (value * 50.0) as i8).collect();
            let exact = bytes.iter().map(|byte| f64::from(*byte) / 64.0).collect();
            (1, bytes.into_iter().map(|byte| byte as u8).collect(), exact)
        }
    }
}

#[test]
fn pages_are_attended_to_in_every_type() {
    const D: usize = 128;
    const PAGE: usize = 16;
    const HEADS: usize = 2;
    let text = include_str!("fixtures/paged_decode.ptx");
    let pages = [3u32, 1, 0, 2, 4, 5];
    let lengths = [37u32, 17];
    let q = numbers(2 * HEADS * D, 1);
    for kind in ["f32", "f16", "bf16", "i8"] {
        let size = pages.len() * PAGE * HEADS * D;
        let (element, key_bytes, keys) = encoded(kind, &numbers(size, 2));
        let (_, value_bytes, values) = encoded(kind, &numbers(size, 3));
        let mut expected = Vec::new();
        for (seq, length) in lengths.iter().enumerate() {
            for head in 0..HEADS {
                let at =
                    |t: usize| ((pages[seq * 3 + t / PAGE] as usize * PAGE + t % PAGE) * HEADS + head) * D;
                let q = &q[(seq * HEADS + head) * D..][..D];
                let weight = |t: usize| {
                    let dot: f64 = q.iter().zip(&keys[at(t)..]).map(|(q, k)| f64::from(*q) * k).sum();
                    (dot * f64::from(0.088_388_35f32)).exp()
                };
                let weights: Vec<f64> = (0..*length as usize).map(weight).collect();
                let total: f64 = weights.iter().sum();
                expected.extend((0..D).map(|i| {
                    weights.iter().enumerate().map(|(t, weight)| weight * values[at(t) + i]).sum::<f64>()
                        / total
                }));
            }
        }
        let arguments = |memory: &mut Memory| {
            vec![
                give(memory, "q", Role::Input, &q),
                Argument::Pointer(memory.with("k", Role::Input, element, key_bytes.clone())),
                Argument::Pointer(memory.with("v", Role::Input, element, value_bytes.clone())),
                Argument::Pointer(with_u32s(memory, "pages", Role::Input, pages)),
                Argument::Pointer(with_u32s(memory, "lengths", Role::Input, lengths)),
                output(memory, "out", 2 * HEADS * D),
                Argument::I32(3),
            ]
        };
        let kernel = fixture(text, &format!("paged_decode_{kind}"));
        run_all(&kernel, [HEADS as u32, 2, 1], 128, 0, arguments, |_, memory, arguments| {
            assert_near(&floats(memory, arguments[5]), &expected, 1e-5);
        });
    }
}

#[test]
fn tiles_are_multiplied() {
    const K: usize = 80;
    let kernel = fixture(include_str!("fixtures/tensor.ptx"), "matmul_16x8");
    let (_, a_bytes, a) = encoded("f16", &numbers(16 * K, 1));
    let (_, b_bytes, b) = encoded("f16", &numbers(8 * K, 2));
    let product = |row: usize, column: usize| {
        a[row * K..][..K].iter().zip(&b[column * K..]).map(|(a, b)| a * b).sum::<f64>()
    };
    let expected: Vec<f64> = (0..16 * 8).map(|at| product(at / 8, at % 8)).collect();
    let arguments = |memory: &mut Memory| {
        vec![
            Argument::Pointer(memory.with("a", Role::Input, 2, a_bytes.clone())),
            Argument::Pointer(memory.with("b", Role::Input, 2, b_bytes.clone())),
            output(memory, "c", 16 * 8),
            Argument::I32(K as i32),
        ]
    };
    run_all(&kernel, [1, 1, 1], 32, 0, arguments, |_, memory, arguments| {
        assert_near(&floats(memory, arguments[2]), &expected, 1e-5);
    });
}

fn early(mut x: f32, n: i32) -> f32 {
    if n < 0 {
        return -1.0;
    }
    for _ in 0..n {
        x *= x;
        if x > 1e6 {
            return x;
        }
    }
    x + 1.0
}

#[test]
fn functions_switches_and_arrays_of_a_thread() {
    const N: usize = 70;
    const SMALL: i32 = 3;
    let kernel = fixture(include_str!("fixtures/language.ptx"), "language");
    let (at, scale, shift) = ([4i32, 5, 6], 0.5f32, 2.25f64);
    let x: Vec<i32> = (0..N as i32).map(|i| i % 13 - 2).collect();
    let mut y = numbers(N, 7);
    y[20] = f32::NAN;
    let z: Vec<f64> = (0..N).map(|i| i as f64 - 30.0).collect();
    let arguments = |memory: &mut Memory| {
        let mut boxed: Vec<u8> = at.iter().flat_map(|at| at.to_le_bytes()).collect();
        boxed.extend(scale.to_le_bytes());
        boxed.extend(shift.to_le_bytes());
        let z: Vec<u8> = z.iter().flat_map(|z| z.to_le_bytes()).collect();
        vec![
            Argument::Pointer(memory.with("boxes", Role::Input, 8, boxed)),
            Argument::Pointer(with_u32s(memory, "x", Role::Input, x.iter().map(|x| *x as u32))),
            give(memory, "y", Role::InOut, &y),
            Argument::Pointer(memory.with("z", Role::InOut, 8, z)),
            Argument::I32(N as i32),
            Argument::I32(SMALL),
        ]
    };
    let value = |i: usize| {
        let moved = |j: usize| at[j] + x[i] * j as i32;
        let r = early(y[i], x[i]);
        let r = match x[i] & 7 {
            0 => r + 1.0,
            1 => r * 2.0,
            2 => early(r, 3),
            3 => r - (moved(1) & 7) as f32 * scale,
            4 => r / 3.0,
            5 => -r,
            6 => r + [1.0, 2.5, -3.0, 4.0][(moved(2) & 3) as usize],
            _ => r,
        };
        r + SMALL as f32
    };
    let expected: Vec<u32> = (0..N).map(|i| value(i).to_bits()).collect();
    let shifted: Vec<f64> = z.iter().map(|z| 2.0 * shift + z.abs()).collect();
    run_all(&kernel, [2, 1, 1], 64, 0, arguments, |report, memory, arguments| {
        let found = u32s(memory, pointer(arguments[2]));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate().filter(|(i, _)| *i != 20) {
            assert_eq!(found, expected, "{i}: {} for {}", f32::from_bits(*found), f32::from_bits(*expected));
        }
        assert!(f32::from_bits(found[20]).is_nan());
        let bytes = memory.buffer(pointer(arguments[3])).bytes();
        let found: Vec<f64> =
            bytes.chunks_exact(8).map(|z| f64::from_le_bytes(z.try_into().unwrap())).collect();
        assert_eq!(found, shifted);
        assert!(report.printed.starts_with("thread 20: "), "{}", report.printed);
    });
}

#[test]
fn integers_are_those_of_c() {
    let kernel = fixture(include_str!("fixtures/language.ptx"), "integers");
    let a: Vec<u32> = (0..32u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ 0x55aa).collect();
    let b: Vec<u64> = (0..32u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678).collect();
    let arguments = |memory: &mut Memory| {
        let longs = b.iter().flat_map(|b| b.to_le_bytes()).collect();
        vec![
            Argument::Pointer(with_u32s(memory, "a", Role::Input, a.iter().copied())),
            Argument::Pointer(memory.with("b", Role::Input, 8, longs)),
            output(memory, "c", 8 * 32),
            Argument::Pointer(memory.empty("d", Role::Output, 8, 2 * 8 * 32)),
        ]
    };
    let mut c = Vec::new();
    let mut d = Vec::new();
    for (i, (&x, &y)) in (0u32..).zip(a.iter().zip(&b)) {
        let (n, low) = (i as i32, y as u32);
        let signed = x as i32;
        c.push(x.count_ones() + y.count_ones());
        c.push((x | 1).leading_zeros() + (y | 1).leading_zeros());
        c.push(x.reverse_bits());
        let quotients = (x / 7 + x % 10).wrapping_add(signed.wrapping_div(n + 1) as u32);
        c.push(quotients.wrapping_add(signed.wrapping_rem(n + 3) as u32));
        c.push((x << i) | (x >> (31 - i)));
        c.push(((u64::from(x) * u64::from(low)) >> 32) as u32);
        let short = (x & 0xffff).wrapping_mul(low & 0xffff);
        c.push(short.wrapping_add(i32::from(x as i16) as u32));
        c.push(x.max(low).wrapping_add(if signed < low as i32 { x } else { 1 }));
        d.push((y / u64::from(x | 1) + y % 1000).wrapping_add(y << (x & 63)));
        d.push(((i128::from(y as i64) * i128::from(x)) >> 64) as u64);
    }
    run_all(&kernel, [1, 1, 1], 32, 0, arguments, |_, memory, arguments| {
        assert_eq!(u32s(memory, pointer(arguments[2])), c);
        let bytes = memory.buffer(pointer(arguments[3])).bytes();
        let found: Vec<u64> =
            bytes.chunks_exact(8).map(|d| u64::from_le_bytes(d.try_into().unwrap())).collect();
        assert_eq!(found, d);
    });
}

#[test]
fn lanes_see_one_another() {
    let kernel = fixture(include_str!("fixtures/language.ptx"), "warps");
    let x: Vec<i32> = (0..32).map(|i| i % 5 - 1).collect();
    let arguments = |memory: &mut Memory| {
        vec![
            Argument::Pointer(with_u32s(memory, "x", Role::Input, x.iter().map(|x| *x as u32))),
            Argument::Pointer(with_u32s(memory, "out", Role::InOut, [0; 33])),
        ]
    };
    let mask =
        |holds: &dyn Fn(i32) -> bool| (0..32).filter(|i| holds(x[*i])).fold(0u32, |mask, i| mask | 1 << i);
    let odd = mask(&|v| v & 1 != 0);
    let sum = x.iter().sum::<i32>() as u32;
    run_all(&kernel, [1, 1, 1], 32, 0, arguments, |_, memory, arguments| {
        let found = u32s(memory, pointer(arguments[1]));
        // Lane 0 has -1: it is put by the first who finds 0, which is lane 0 as all of a warp come in order.
        let mut word = 0u32;
        for i in 0..32 {
            let v = x[i];
            let same = mask(&|other| other == v);
            let active = if v & 1 != 0 { odd } else { 0 };
            let up = if i == 0 { v } else { x[i - 1] };
            let old = word;
            if word == 0 {
                word = v as u32;
            }
            let expected = odd ^ same ^ sum ^ active ^ up as u32 ^ x[0] as u32 ^ old;
            assert_eq!(found[1 + i], expected, "lane {i}");
        }
        assert_eq!(found[0], word);
    });
}

#[test]
fn sums_in_global_memory_flush_subnormal_numbers() {
    let body = "ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1]; ld.global.u32 %r0, [%rd0]; ld.global.u32 %r1, [%rd0+4];
        st.global.u32 [%rd1], %r0; red.global.add.f32 [%rd1], %r1;
        st.shared.u32 [cell], %r0; red.shared.add.f32 [cell], %r1; ld.shared.u32 %r2, [cell]; st.global.u32 [%rd1+4], %r2; ret;";
    let kernel = support::kernel(2, ".shared .align 4 .b8 cell[4];", body);
    let mut memory = Memory::new();
    let given = with_u32s(&mut memory, "given", Role::Input, [0x8000_0001, 0x0000_0003]);
    let sums = room(&mut memory, "sums", 2);
    let report = support::run(&kernel, 1, 1, &mut memory, &[given, sums], SCHEDULES[0]);
    assert_eq!(report.faults, []);
    assert_eq!(u32s(&memory, sums), [0, 2]);
}
