//! What the meters say of six kernels, and what is counted by hand: the same numbers.

use tribunal_simt::meter::{Meter, SharedMeter, Traffic};

use crate::device::*;

fn traffic(requests: u64, bytes: u64, sectors: u64) -> Traffic {
    Traffic { requests, bytes, sectors, ideal_sectors: bytes / 32 }
}

fn run(
    source: &Source,
    kernel: &str,
    shape: Shape,
    inputs: &[(&str, usize)],
    out: usize,
    sizes: &[usize],
) -> Meter {
    let name = kernel.to_owned();
    let (_, meters) = under_all_schedules::<f32>(&name, |device| {
        let mut arguments: Vec<_> =
            inputs.iter().map(|&(name, count)| device.input(name, &vec![1.0f32; count])).collect();
        let y = device.output::<f32>("y", out);
        arguments.push(y);
        arguments.extend(sizes.iter().map(|&size| int(size)));
        device.launch(source, kernel, shape, arguments);
        vec![device.read(y)]
    });
    meters.into_iter().next().expect("one launch")
}

/// 4096 elements are 128 requests of 128 bytes, which are four sectors each, for each of two inputs and the output.
#[test]
fn vector_addition() {
    let n = 4096;
    let meter = run(&HAND_COUNTS, "vadd", Shape::new(16, 256, 0), &[("x", n), ("z", n)], n, &[n]);
    for (buffer, of) in [("x", "read"), ("z", "read"), ("y", "written")] {
        let buffer = buffer_of(&meter, buffer, of);
        assert_eq!(buffer, traffic(128, 16_384, 512));
    }
    assert_eq!((meter.bytes_read(), meter.bytes_written()), (32_768, 16_384));
    assert_eq!(meter.unique_bytes(), 49_152);
    assert_eq!(meter.shared, SharedMeter::default());
}

fn buffer_of(meter: &Meter, name: &str, direction: &str) -> Traffic {
    let buffer = buffer(meter, name);
    if direction == "read" { buffer.read } else { buffer.written }
}

/// Every second element: a request of 128 bytes reaches over 256, which are eight sectors and not four. Every eighth: a sector for each
/// lane, 32 and not four. Each sector is of use to one request, so what is unique is as much.
#[test]
fn strided_copy() {
    let n = 1024;
    for (stride, sectors) in [(1, 4), (2, 8), (8, 32)] {
        let meter =
            run(&HAND_COUNTS, "strided_copy", Shape::new(8, 128, 0), &[("x", n * stride)], n, &[n, stride]);
        let read = buffer_of(&meter, "x", "read");
        assert_eq!(read, traffic(32, 4096, 32 * sectors), "stride {stride}");
        assert_eq!(buffer(&meter, "x").unique_sectors_read, 32 * sectors, "stride {stride}");
        assert_eq!(buffer_of(&meter, "y", "written"), traffic(32, 4096, 128), "stride {stride}");
    }
}

/// 256 x 256 elements are 2048 rows of tiles: 2048 stores of a row of a tile to shared memory, a wave each, and 2048 loads of a column. Without
/// padding the 32 elements of a column are in one bank: 32 waves each, 2048 + 2048 * 32 in all. With it they are in 32: 2 * 2048.
#[test]
fn transpose_through_shared_memory() {
    let n = 256;
    for (kernel, waves) in [("transpose_unpadded", 67_584), ("transpose_padded", 4096)] {
        let shape = Shape { grid: [8, 8, 1], block: 256, shared: 0 };
        let meter = run(&HAND_COUNTS, kernel, shape, &[("x", n * n)], n * n, &[n]);
        let expected = SharedMeter { requests: 4096, bytes: 4096 * 128, waves, ideal_waves: 4096 };
        assert_eq!(meter.shared, expected, "{kernel}");
        assert_eq!(buffer_of(&meter, "x", "read"), traffic(2048, 262_144, 8192), "{kernel}");
        assert_eq!(buffer_of(&meter, "y", "written"), traffic(2048, 262_144, 8192), "{kernel}");
        // A barrier for each of 64 blocks.
        assert_eq!(meter.barriers, 64, "{kernel}");
    }
}

/// A block of 256 threads is 8 warps: 8 requests of x; 8 stores of one number to shared memory, and one load of 8 numbers; one store to y.
/// One number is 4 bytes of a sector of 32.
#[test]
fn block_reduction() {
    let blocks = 16;
    let shape = Shape::new(blocks, 256, 0);
    let meter = run(&HAND_COUNTS, "block_sum", shape, &[("x", 256 * blocks as usize)], blocks as usize, &[]);
    let blocks = u64::from(blocks);
    assert_eq!(buffer_of(&meter, "x", "read"), traffic(8 * blocks, 1024 * blocks, 32 * blocks));
    let written = Traffic { requests: blocks, bytes: 4 * blocks, sectors: blocks, ideal_sectors: blocks };
    assert_eq!(buffer_of(&meter, "y", "written"), written);
    assert_eq!(buffer(&meter, "y").unique_sectors_written, 2, "16 numbers of 4 bytes");
    let shared =
        SharedMeter { requests: 9 * blocks, bytes: 64 * blocks, waves: 9 * blocks, ideal_waves: 9 * blocks };
    assert_eq!(meter.shared, shared);
    assert_eq!(meter.barriers, blocks);
    // Two trees of five shuffles, of which the second is of one warp in eight.
    assert_eq!(meter.classes.warp, (8 * 5 + 5) * blocks);
}

/// 64 rows of 1024 by 4 blocks of 256 threads. A row is 256 vectors of 16 bytes: 8 requests of 512 bytes, 16 sectors each; the threads' second
/// vectors are beyond the row. gamma and beta are read once a block. In shared memory a row takes one sum and then two over 8
/// warps: 8 + 16 stores of one number, 8 + 16 loads of 8 numbers by each warp; two barriers.
#[test]
fn layer_norm_forward() {
    let (rows, cols, blocks) = (64, 1024, 4);
    let (_, meters) = under_all_schedules::<f32>("layer norm", |device| {
        let x: Vec<f32> = (0..rows * cols).map(|i| (i % 17) as f32).collect();
        let x = device.input("x", &x);
        let [gamma, beta] = ["gamma", "beta"].map(|name| device.input(name, &vec![1.0f32; cols]));
        let y = device.output::<f32>("y", rows * cols);
        let [mean, rstd] = ["mean", "rstd"].map(|name| device.output::<f32>(name, rows));
        let eps = tribunal_simt::launch::Argument::F32(1e-5);
        let size = [tribunal_simt::launch::Argument::I64(rows as i64), int(cols), eps];
        let arguments = [&[x, gamma, beta, y, mean, rstd], &size[..]].concat();
        device.launch(&LAYER_NORM, "layer_norm_forward_f32", Shape::new(blocks, 256, 0), arguments);
        vec![device.read(y)]
    });
    let meter = &meters[0];
    let (rows, blocks) = (rows as u64, u64::from(blocks));
    assert_eq!(buffer_of(meter, "x", "read"), traffic(8 * rows, 4096 * rows, 128 * rows));
    assert_eq!(buffer_of(meter, "y", "written"), traffic(8 * rows, 4096 * rows, 128 * rows));
    for name in ["gamma", "beta"] {
        assert_eq!(buffer_of(meter, name, "read"), traffic(8 * blocks, 4096 * blocks, 128 * blocks));
    }
    for name in ["mean", "rstd"] {
        let written = Traffic { requests: rows, bytes: 4 * rows, sectors: rows, ideal_sectors: rows };
        assert_eq!(buffer_of(meter, name, "written"), written);
    }
    let requests = (8 + 16 + 8 + 16) * rows;
    let bytes = ((8 + 16) * 4 + (8 + 16) * 32) * rows;
    assert_eq!(meter.shared, SharedMeter { requests, bytes, waves: requests, ideal_waves: requests });
    assert_eq!(meter.barriers, 2 * rows);
}

/// 3 rows of 4096 + 4 logits, k = 5, 128 threads. The rows begin 0, 16 and 32 bytes into a line of 128, and have 1025 vectors of 16 bytes: in the
/// first 8 * 128 and 1, in the second 127, 7 * 128 and 2, as its first thread has none, in the third 126, 7 * 128 and 3. 512 bytes are 16
/// sectors, of which the odd one at the end of the first row and the start of the second are half a sector each.
///
/// Beside that 5 probabilities and 5 indices a row: 20 bytes, and 40, from 0, 20 and 40, and from 0, 40 and 80 bytes on. So the second row's
/// probabilities reach into a second sector, and so do all rows' indices.
#[test]
fn softmax_and_top_k() {
    let (rows, vocab, k) = (3, 4100, 5);
    let (_, meters) = under_all_schedules::<f32>("softmax", |device| {
        let logits: Vec<f32> = (0..rows * vocab).map(|i| (i * 7919 % 1009) as f32 / 64.0).collect();
        let logits = device.input("logits", &logits);
        let probs = device.output::<f32>("probs", rows * k);
        let indices = device.output::<i64>("indices", rows * k);
        let shape = Shape::new(rows as u32, 128, 160 * 128 + 8 * (4 * k + 64));
        device.launch(
            &SOFTMAX_TOPK,
            "softmax_topk_f32",
            shape,
            vec![logits, probs, indices, int(rows), int(vocab), int(k)],
        );
        vec![device.read(probs)]
    });
    let meter = &meters[0];
    let read = buffer_of(meter, "logits", "read");
    // 8 whole requests of a warp's 32 lanes for each 128 threads, 4 warps: 32 and one of a lane; or 4 warps and one of two lanes.
    assert_eq!(read.requests, 33 + 33 + 33);
    assert_eq!(read.bytes, 3 * 4 * 4100);
    assert_eq!(read.sectors, 513 + 513 + 513);
    assert_eq!(buffer(meter, "logits").unique_sectors_read, 3 * 4100 * 4 / 32 + 1);
    let probs = Traffic { requests: 3, bytes: 3 * 20, sectors: 1 + 2 + 1, ideal_sectors: 3 };
    assert_eq!(buffer_of(meter, "probs", "written"), probs);
    let indices = Traffic { requests: 3, bytes: 3 * 40, sectors: 2 + 2 + 2, ideal_sectors: 6 };
    assert_eq!(buffer_of(meter, "indices", "written"), indices);
}
