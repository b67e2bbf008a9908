//! How many instructions of warps a second are emulated, with every check on, and with every access counted as well, as where memory is
//! measured: `cargo bench -p tribunal-simt -- [part of a name]`.

use std::time::Instant;

use half::f16;
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Scrutiny, Settings};
use tribunal_simt::memory::{Memory, Pointer, Role};
use tribunal_simt::ptx::Module;

/// Each launch is repeated for so long at least, and the fastest counts.
const SECONDS: f64 = 1.0;

struct Bench {
    name: &'static str,
    text: &'static str,
    kernel: &'static str,
    grid: [u32; 3],
    block: u32,
    /// Bytes of dynamic shared memory.
    shared: u32,
    arguments: fn(&mut Memory) -> Vec<Argument>,
}

fn value(i: usize) -> f32 {
    ((i.wrapping_mul(2_654_435_761) >> 7) % 4096) as f32 / 1024.0 - 2.0
}

fn floats(memory: &mut Memory, name: &str, role: Role, count: usize) -> Argument {
    let bytes = (0..count).flat_map(|i| value(i).to_le_bytes()).collect();
    Argument::Pointer(memory.with(name, role, 4, bytes))
}

fn halves(memory: &mut Memory, name: &str, count: usize) -> Argument {
    let bytes = (0..count).flat_map(|i| f16::from_f32(value(i)).to_le_bytes()).collect();
    Argument::Pointer(memory.with(name, Role::Input, 2, bytes))
}

fn ints(memory: &mut Memory, name: &str, values: impl Iterator<Item = i32>) -> Argument {
    Argument::Pointer(memory.with(name, Role::Input, 4, values.flat_map(i32::to_le_bytes).collect()))
}

fn room(memory: &mut Memory, name: &str, count: usize) -> Argument {
    let pointer: Pointer = memory.empty(name, Role::Output, 4, 4 * count);
    Argument::Pointer(pointer)
}

fn layer_norm(memory: &mut Memory) -> Vec<Argument> {
    vec![
        floats(memory, "x", Role::Input, 64 * 1024),
        floats(memory, "w", Role::Input, 1024),
        floats(memory, "b", Role::Input, 1024),
        room(memory, "y", 64 * 1024),
        room(memory, "mean", 64),
        room(memory, "rstd", 64),
        Argument::I32(1024),
    ]
}

fn layer_norm_backward(memory: &mut Memory) -> Vec<Argument> {
    vec![
        floats(memory, "dy", Role::Input, 64 * 1024),
        floats(memory, "x", Role::Input, 64 * 1024),
        floats(memory, "w", Role::Input, 1024),
        floats(memory, "mean", Role::Input, 64),
        floats(memory, "rstd", Role::Input, 64),
        room(memory, "dx", 64 * 1024),
        floats(memory, "dw", Role::InOut, 1024),
        floats(memory, "db", Role::InOut, 1024),
        Argument::I32(1024),
    ]
}

fn decode(memory: &mut Memory) -> Vec<Argument> {
    const HEADS: usize = 16;
    const PAGES: usize = 64;
    vec![
        floats(memory, "q", Role::Input, 4 * HEADS * 128),
        floats(memory, "k", Role::Input, 4 * PAGES * 16 * HEADS * 128),
        floats(memory, "v", Role::Input, 4 * PAGES * 16 * HEADS * 128),
        ints(memory, "pages", (0..4 * PAGES as i32).rev()),
        ints(memory, "lengths", [1000, 1000, 1000, 1000].into_iter()),
        room(memory, "out", 4 * HEADS * 128),
        Argument::I32(PAGES as i32),
    ]
}

fn softmax_topk(memory: &mut Memory, logits: Argument) -> Vec<Argument> {
    let probs = room(memory, "probs", 16 * 50);
    let indices = Argument::Pointer(memory.empty("indices", Role::Output, 8, 8 * 16 * 50));
    vec![logits, probs, indices, Argument::I32(16), Argument::I32(32_000), Argument::I32(50)]
}

const fn softmax_topk_shared(block: u32) -> u32 {
    160 * block + 8 * (4 * 50 + 64)
}

fn grouped_decode(memory: &mut Memory) -> Vec<Argument> {
    const BLOCKS: usize = 2 * 2048 / 16;
    let scales = |memory: &mut Memory, name| floats(memory, name, Role::Input, 1);
    vec![
        floats(memory, "q", Role::Input, 2 * 32 * 128),
        halves(memory, "keys", BLOCKS * 8 * 16 * 128),
        halves(memory, "values", BLOCKS * 8 * 16 * 128),
        scales(memory, "key_scales"),
        scales(memory, "value_scales"),
        ints(memory, "table", (0..BLOCKS as i32).rev()),
        ints(memory, "lengths", [2048; 2].into_iter()),
        room(memory, "out", 2 * 32 * 128),
        room(memory, "partial", 1),
        room(memory, "lse", 1),
        room(memory, "counters", 1),
        Argument::I32(32),
        Argument::I32(8),
        Argument::I32(128),
        Argument::I32(16),
        Argument::I32(BLOCKS as i32 / 2),
        Argument::I32(2048),
    ]
}

const BENCHES: [Bench; 11] = [
    Bench {
        name: "vadd 1 Mi",
        text: include_str!("../tests/fixtures/vadd.ptx"),
        kernel: "vadd",
        grid: [4096, 1, 1],
        block: 256,
        shared: 0,
        arguments: |memory| {
            vec![
                floats(memory, "a", Role::Input, 1 << 20),
                floats(memory, "b", Role::Input, 1 << 20),
                room(memory, "c", 1 << 20),
                Argument::I32(1 << 20),
            ]
        },
    },
    Bench {
        name: "block_sum 1 Mi",
        text: include_str!("../tests/fixtures/reduce.ptx"),
        kernel: "block_sum",
        grid: [256, 1, 1],
        block: 256,
        shared: 0,
        arguments: |memory| {
            vec![
                floats(memory, "x", Role::Input, 1 << 20),
                floats(memory, "out", Role::InOut, 256),
                Argument::I32(1 << 20),
            ]
        },
    },
    Bench {
        name: "layer_norm 64x1024",
        text: include_str!("../tests/fixtures/layer_norm.ptx"),
        kernel: "layer_norm",
        grid: [64, 1, 1],
        block: 256,
        shared: 0,
        arguments: layer_norm,
    },
    Bench {
        name: "layer_norm_backward 64x1024",
        text: include_str!("../tests/fixtures/layer_norm.ptx"),
        kernel: "layer_norm_backward",
        grid: [64, 1, 1],
        block: 256,
        shared: 0,
        arguments: layer_norm_backward,
    },
    Bench {
        name: "softmax_topk 4x50257, k 8",
        text: include_str!("../tests/fixtures/softmax_topk.ptx"),
        kernel: "softmax_topk",
        grid: [4, 1, 1],
        block: 32,
        shared: 0,
        arguments: |memory| {
            vec![
                floats(memory, "x", Role::Input, 4 * 50_257),
                room(memory, "p", 32),
                room(memory, "index", 32),
                Argument::I32(50_257),
            ]
        },
    },
    Bench {
        name: "thread_lists 1x32000, k 64",
        text: include_str!("../tests/fixtures/thread_lists.ptx"),
        kernel: "thread_lists",
        grid: [1, 1, 1],
        block: 256,
        shared: 0,
        arguments: |memory| {
            vec![
                floats(memory, "x", Role::Input, 32_000),
                room(memory, "lists", 64 * 256),
                Argument::I32(32_000),
                Argument::I32(64),
            ]
        },
    },
    Bench {
        name: "paged_decode 4x16x1000",
        text: include_str!("../tests/fixtures/paged_decode.ptx"),
        kernel: "paged_decode_f32",
        grid: [16, 4, 1],
        block: 128,
        shared: 0,
        arguments: decode,
    },
    Bench {
        name: "the bar's softmax_topk f32 16x32000, k 50",
        text: include_str!("../../kernels/cuda/softmax_topk.ptx"),
        kernel: "softmax_topk_f32",
        grid: [2, 1, 1],
        block: 256,
        shared: softmax_topk_shared(256),
        arguments: |memory| {
            let logits = floats(memory, "logits", Role::Input, 16 * 32_000);
            softmax_topk(memory, logits)
        },
    },
    Bench {
        name: "the bar's softmax_topk f16 16x32000, k 50",
        text: include_str!("../../kernels/cuda/softmax_topk.ptx"),
        kernel: "softmax_topk_f16",
        grid: [2, 1, 1],
        block: 256,
        shared: softmax_topk_shared(256),
        arguments: |memory| {
            let logits = halves(memory, "logits", 16 * 32_000);
            softmax_topk(memory, logits)
        },
    },
    Bench {
        name: "the bar's layer_norm_backward f32 128x1024",
        text: include_str!("../../kernels/cuda/layer_norm.ptx"),
        kernel: "layer_norm_backward_f32_1024",
        grid: [8, 1, 1],
        block: 128,
        shared: 4 * 1024 * (1 + 4 * 4),
        arguments: |memory| {
            vec![
                floats(memory, "x", Role::Input, 128 * 1024),
                floats(memory, "dy", Role::Input, 128 * 1024),
                floats(memory, "gamma", Role::Input, 1024),
                floats(memory, "mean", Role::Input, 128),
                floats(memory, "rstd", Role::Input, 128),
                room(memory, "dx", 128 * 1024),
                room(memory, "partial_dgamma", 8 * 1024),
                room(memory, "partial_dbeta", 8 * 1024),
                Argument::I64(128),
                Argument::I32(1024),
            ]
        },
    },
    Bench {
        name: "the bar's paged_decode f16 2x2048, 8 of 32 heads of 128",
        text: include_str!("../../kernels/cuda/paged_decode.ptx"),
        kernel: "paged_decode_f16_d128",
        grid: [1, 8, 2],
        block: 128,
        shared: 128 * 32 + 4 * 128 * 192,
        arguments: grouped_decode,
    },
];

fn main() {
    println!("| kernel | warp instructions | ms | M/s | M/s counted | lanes a warp | faults |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_wanted =
        |bench: &&Bench| wanted.is_empty() || wanted.iter().any(|part| bench.name.contains(part.as_str()));
    for bench in BENCHES.iter().filter(is_wanted) {
        let module = Module::parse(bench.text).expect("PTX");
        let kernel = module.kernel(bench.kernel).unwrap_or_else(|error| panic!("{}: {error}", bench.kernel));
        let time = |scrutiny| {
            let settings = Settings { scrutiny, ..Settings::default() };
            let mut best = f64::INFINITY;
            let begun = Instant::now();
            loop {
                let mut memory = Memory::new();
                let arguments = (bench.arguments)(&mut memory);
                let launch =
                    Launch { grid: bench.grid, block: [bench.block, 1, 1], shared: bench.shared, arguments };
                let started = Instant::now();
                let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
                best = best.min(started.elapsed().as_secs_f64());
                if begun.elapsed().as_secs_f64() > SECONDS {
                    break (report, best);
                }
            }
        };
        let ((report, best), (_, counted)) = (time(Scrutiny::Races), time(Scrutiny::Costs));
        let meter = &report.meter;
        println!(
            "| {} | {} | {:.2} | {:.1} | {:.1} | {:.1} | {} |",
            bench.name,
            meter.instructions,
            1e3 * best,
            meter.instructions as f64 / best / 1e6,
            meter.instructions as f64 / counted / 1e6,
            meter.lanes as f64 / meter.instructions as f64,
            report.faults.len()
        );
        for fault in report.faults.iter().take(3) {
            println!("  {fault}");
        }
    }
}
