//! `crates/kernels/cuda/paged_decode.cu`.

use half::{bf16, f16};
use tribunal_simt::meter::Meter;

use crate::device::*;
use crate::oracle::{Numbers, attend};

/// A cache of keys or of values: as it is stored, and what that is worth.
struct Plane {
    bytes: Vec<u8>,
    /// One for each token and head of a block, whether used or not.
    scales: Vec<f32>,
    /// `[blocks, kv_heads, block_len, head_dim]`
    wide: Vec<f64>,
}

impl Plane {
    fn new(format: &str, rows: usize, head_dim: usize, numbers: &mut Numbers) -> Plane {
        let mut plane = Plane { bytes: Vec::new(), scales: Vec::new(), wide: Vec::new() };
        for _ in 0..rows {
            let row = numbers.normals(head_dim, 0.2, 1.0);
            let largest = row.iter().fold(0f64, |most, x| most.max(x.abs()));
            let scale = (largest / if format == "int4" { 7.0 } else { 127.0 }) as f32;
            let codes: Vec<i32> = row.iter().map(|x| (x / f64::from(scale)).round() as i32).collect();
            plane.scales.push(scale);
            match format {
                "f32" => row.iter().for_each(|&x| plane.bytes.extend((x as f32).to_le_bytes())),
                "f16" => row.iter().for_each(|&x| plane.bytes.extend(f16::from_f64(x).to_le_bytes())),
                "bf16" => row.iter().for_each(|&x| plane.bytes.extend(bf16::from_f64(x).to_le_bytes())),
                "int8" => plane.bytes.extend(codes.iter().map(|&code| code as i8 as u8)),
                "int4" => {
                    let pairs = codes.chunks_exact(2);
                    plane.bytes.extend(pairs.map(|pair| (pair[0] + 8) as u8 | ((pair[1] + 8) as u8) << 4));
                }
                other => panic!("no format {other}"),
            }
            plane.wide.extend(row.iter().zip(&codes).map(|(&x, &code)| match format {
                "f32" => f64::from(x as f32),
                "f16" => f16::from_f64(x).to_f64(),
                "bf16" => bf16::from_f64(x).to_f64(),
                _ => f64::from(code) * f64::from(scale),
            }));
        }
        plane
    }
}

#[derive(Debug, Clone, Copy)]
struct Config {
    format: &'static str,
    /// The end of the kernel's name.
    kernel: &'static str,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    block_len: usize,
    lengths: &'static [usize],
}

struct Cache {
    config: Config,
    keys: Plane,
    values: Plane,
    /// `[batch, table_len]`
    table: Vec<i32>,
    table_len: usize,
    q: Vec<f32>,
}

impl Cache {
    fn new(config: Config) -> Cache {
        let Config { format, heads, kv_heads, head_dim, block_len, lengths, .. } = config;
        let mut numbers = Numbers::new(11);
        let used: Vec<usize> = lengths.iter().map(|length| length.div_ceil(block_len)).collect();
        let table_len = used.iter().copied().max().unwrap_or(0) + 1;
        // One block more than is needed, and in no order. What no token stands for is no block of anybody.
        let mut blocks: Vec<usize> = (0..used.iter().sum::<usize>() + 1).collect();
        for i in (1..blocks.len()).rev() {
            blocks.swap(i, numbers.below(i + 1));
        }
        let rows = blocks.len() * kv_heads * block_len;
        let mut free = blocks.into_iter();
        let mut table = vec![-1; lengths.len() * table_len];
        for (sequence, &used) in used.iter().enumerate() {
            for entry in 0..used {
                table[sequence * table_len + entry] = free.next().expect("enough blocks") as i32;
            }
        }
        let mut plane = || Plane::new(format, rows, head_dim, &mut numbers);
        let (keys, values) = (plane(), plane());
        let q = numbers.normals(lengths.len() * heads * head_dim, 0.0, 1.0);
        Cache { config, keys, values, table, table_len, q: q.into_iter().map(|x| x as f32).collect() }
    }

    fn name(&self) -> String {
        format!("{:?}", self.config)
    }

    fn fast(&self, block: u32, split_len: usize, splits: usize) -> (Vec<f32>, Vec<Meter>) {
        let Config { format, kernel: ending, heads, kv_heads, head_dim, block_len, lengths } = self.config;
        let kernel = format!("paged_decode_{format}_{ending}");
        let batch = lengths.len();
        let run = |device: &mut Device| {
            let q = device.input("q", &self.q);
            let mut arguments = vec![q];
            arguments.extend(
                [("keys", &self.keys), ("values", &self.values)].map(|(n, p)| device.input(n, &p.bytes)),
            );
            let scales = [("key_scales", &self.keys), ("value_scales", &self.values)];
            arguments.extend(scales.map(|(name, plane)| device.input(name, &plane.scales)));
            arguments.push(device.input("table", &self.table));
            let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
            arguments.push(device.input("lengths", &lengths));
            let out = device.output::<f32>("out", batch * heads * head_dim);
            let partial = device.output::<f32>("partial", batch * heads * splits * head_dim);
            let lse = device.output::<f32>("lse", batch * heads * splits);
            let counters = device.in_out("counters", &vec![0u32; batch * kv_heads]);
            arguments.extend([out, partial, lse, counters]);
            arguments.extend([heads, kv_heads, head_dim, block_len, self.table_len, split_len].map(int));
            let shape = Shape {
                grid: [splits as u32, kv_heads as u32, batch as u32],
                block,
                shared: shared_bytes(self.config, block as usize / 32),
            };
            // Twice, since counters must be left as they were found.
            device.launch(&PAGED_DECODE, &kernel, shape, arguments.clone());
            device.launch(&PAGED_DECODE, &kernel, shape, arguments);
            vec![device.read(out)]
        };
        let (mut outputs, meters) = under_all_schedules(&self.name(), run);
        (outputs.remove(0), meters)
    }

    fn plain(&self, block: u32) -> Vec<f32> {
        let Config { heads, kv_heads, head_dim, block_len, lengths, .. } = self.config;
        let batch = lengths.len();
        let run = |device: &mut Device| {
            let mut arguments = vec![device.input("q", &self.q)];
            for (name, plane) in [("keys", &self.keys), ("values", &self.values)] {
                let halves: Vec<u16> = plane.bytes.chunks_exact(2).map(u16::get).collect();
                arguments.push(device.input(name, &halves));
            }
            arguments.push(device.input("table", &self.table));
            let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
            arguments.push(device.input("lengths", &lengths));
            let out = device.output::<f32>("out", batch * heads * head_dim);
            arguments.push(out);
            arguments.extend([heads, kv_heads, head_dim, block_len, self.table_len].map(int));
            let shape = Shape { grid: [heads as u32, batch as u32, 1], block, shared: 0 };
            device.launch(&PAGED_DECODE, "paged_decode_plain_f16", shape, arguments);
            vec![device.read(out)]
        };
        under_all_schedules(&self.name(), run).0.remove(0)
    }

    /// Off by a few dozen roundings of the sums, and by those of a score, which its weight is off by: `100 u` of `sum p |v|`, for scores of a
    /// few units and contexts of a few thousand tokens.
    fn check(&self, how: &str, got: &[f32]) {
        let Config { heads, kv_heads, head_dim, block_len, lengths, .. } = self.config;
        for (sequence, &length) in lengths.iter().enumerate() {
            for head in 0..heads {
                let kv_head = head / (heads / kv_heads);
                let rows = |plane: &Plane| -> Vec<Vec<f64>> {
                    let row = |token: usize| {
                        let block = self.table[sequence * self.table_len + token / block_len] as usize;
                        let row = (block * kv_heads + kv_head) * block_len + token % block_len;
                        plane.wide[row * head_dim..(row + 1) * head_dim].to_vec()
                    };
                    (0..length).map(row).collect()
                };
                let start = (sequence * heads + head) * head_dim;
                let q: Vec<f64> = self.q[start..start + head_dim].iter().map(|&q| q.into()).collect();
                let (expected, size) = attend(&q, &rows(&self.keys), &rows(&self.values));
                for d in 0..head_dim {
                    let (got, expected) = (f64::from(got[start + d]), expected[d]);
                    let bound = 100.0 * f64::from(f32::EPSILON) / 2.0 * size[d];
                    let place = format!("{how}, {}: sequence {sequence}, head {head}, {d}", self.name());
                    assert!((got - expected).abs() <= bound, "{place}: {got}, not {expected} (+- {bound:e})");
                }
            }
        }
    }
}

/// As the source asks for it.
fn shared_bytes(config: Config, warps: usize) -> usize {
    let Config { format, kernel, head_dim, .. } = config;
    let outputs = |heads: usize| warps * heads * (head_dim * 2 + 40) * 4;
    match (kernel, format) {
        ("g8", _) => outputs(8),
        ("g16", _) => outputs(16),
        ("d64" | "d128", "f16" | "f32") => head_dim * 32 + warps * head_dim * 192,
        ("d64" | "d128", "bf16") => head_dim * 48 + warps * head_dim * 192,
        ("d128", "int8") => 4096 + warps * 25344,
        ("d128", "int4") => 4096 + warps * 13056,
        other => panic!("no kernel {other:?}"),
    }
}

const ORDINARY: Config = Config {
    format: "f16",
    kernel: "g8",
    heads: 8,
    kv_heads: 2,
    head_dim: 128,
    block_len: 16,
    lengths: &[100, 1, 33, 0],
};

#[test]
fn every_format() {
    for format in ["f32", "f16", "bf16", "int8", "int4"] {
        let cache = Cache::new(Config { format, ..ORDINARY });
        for (block, split_len, splits) in [(64, 100, 1), (128, 32, 4)] {
            let (out, _) = cache.fast(block, split_len, splits);
            cache.check("fast", &out);
        }
    }
    for format in ["f32", "f16", "bf16", "int8", "int4"] {
        let cache = Cache::new(Config { format, kernel: "d128", ..ORDINARY });
        for (block, split_len, splits) in [(32, 100, 1), (64, 100, 1), (128, 32, 4)] {
            let (out, _) = cache.fast(block, split_len, splits);
            cache.check("tiles", &out);
        }
    }
}

#[test]
fn every_group_and_head() {
    let groups = [(1, 1, "g8"), (8, 1, "g8"), (6, 2, "g8"), (7, 1, "g8"), (16, 1, "g16"), (24, 2, "g16")];
    for (heads, kv_heads, kernel) in groups {
        let cache =
            Cache::new(Config { heads, kv_heads, kernel, head_dim: 64, lengths: &[50, 17], ..ORDINARY });
        let (out, _) = cache.fast(64, 64, 1);
        cache.check("fast", &out);
    }
    for (heads, kv_heads) in [(1, 1), (4, 2), (6, 2), (8, 2), (5, 1), (8, 1), (21, 3)] {
        for format in ["f32", "f16", "bf16", "int8", "int4"] {
            let config = Config { format, heads, kv_heads, kernel: "d128", lengths: &[50, 17], ..ORDINARY };
            let cache = Cache::new(config);
            let (out, _) = cache.fast(64, 64, 1);
            cache.check("tiles", &out);
        }
        for format in ["f32", "f16", "bf16"] {
            let lengths = &[50, 17];
            let config = Config { format, heads, kv_heads, head_dim: 64, kernel: "d64", lengths, ..ORDINARY };
            let cache = Cache::new(config);
            let (out, _) = cache.fast(128, 16, 4);
            cache.check("tiles", &out);
        }
    }
    // No power of two, less than a vector of each lane, and as many as there are lanes for.
    for head_dim in [8, 16, 24, 80, 96, 112, 256] {
        for format in ["bf16", "int4"] {
            let cache = Cache::new(Config { format, head_dim, lengths: &[40, 9], ..ORDINARY });
            let (out, _) = cache.fast(32, 16, 3);
            cache.check("fast", &out);
        }
    }
}

#[test]
fn every_length_and_block() {
    for block_len in [1, 7, 16, 64] {
        let lengths = &[31, 32, 33, 63, 64, 65, 130];
        let cache =
            Cache::new(Config { block_len, head_dim: 64, heads: 4, kv_heads: 1, lengths, ..ORDINARY });
        for (block, split_len, splits) in [(32, 130, 1), (256, 130, 1), (64, 48, 3)] {
            let (out, _) = cache.fast(block, split_len, splits);
            cache.check("fast", &out);
        }
        for format in ["f32", "f16", "bf16", "int8", "int4"] {
            let config =
                Config { format, kernel: "d128", block_len, heads: 4, kv_heads: 1, lengths, ..ORDINARY };
            let cache = Cache::new(config);
            for (block, split_len, splits) in [(32, 130, 1), (256, 130, 1), (64, 48, 3)] {
                let (out, _) = cache.fast(block, split_len, splits);
                cache.check("tiles", &out);
            }
        }
    }
}

/// Scales from 2^-20 to 2^20, and queries far from 1: what is small stays, and what is large fits.
#[test]
fn numbers_of_all_sizes() {
    for format in ["f32", "f16", "bf16", "int8", "int4"] {
        let mut cache = Cache::new(Config { format, kernel: "d128", lengths: &[200, 40], ..ORDINARY });
        if bits(format) < 16 {
            let rows = cache.values.scales.iter_mut().zip(cache.values.wide.chunks_exact_mut(128));
            for (row, (scale, wide)) in rows.enumerate() {
                let by = 2f32.powi((row * 7 % 41) as i32 - 20);
                *scale *= by;
                wide.iter_mut().for_each(|x| *x *= f64::from(by));
            }
        }
        for (head, q) in cache.q.chunks_exact_mut(128).enumerate() {
            // The last has no use for its keys.
            let by = [1e-30, 1e-6, 0.1, 1.0, 2.0, 4.0, 1e-3, 0.0][head % 8];
            q.iter_mut().for_each(|q| *q *= by);
        }
        for (block, split_len, splits) in [(64, 200, 1), (128, 64, 4)] {
            let (out, _) = cache.fast(block, split_len, splits);
            cache.check("tiles", &out);
        }
    }
}

/// Not a number is no sum of nothing, whose output is 0.
#[test]
fn a_query_that_is_no_number_has_no_answer() {
    for (format, kernel) in
        [("f32", "g8"), ("f32", "d128"), ("f16", "d128"), ("int8", "d128"), ("int4", "d128")]
    {
        let mut cache = Cache::new(Config { format, kernel, lengths: &[130, 0, 40], ..ORDINARY });
        cache.q[3] = f32::NAN;
        for (block, split_len, splits) in [(64, 200, 1), (128, 64, 3)] {
            let (out, _) = cache.fast(block, split_len, splits);
            let (of_it, others) = out.split_at(cache.config.head_dim);
            assert!(of_it.iter().all(|x| x.is_nan()), "{}: {of_it:?}", cache.name());
            assert!(others.iter().all(|x| x.is_finite()), "{}", cache.name());
        }
    }
}

/// It is an element of the outputs of its head, whatever its weight. What no token stands for is no part of anything.
#[test]
fn a_value_that_is_no_number_is_one_element() {
    const HEADS: usize = 8;
    for (kernel, head_dim, kv_heads) in [("g8", 128, 2), ("d128", 128, 2), ("d128", 128, 1), ("d64", 64, 2)] {
        let lengths: &[usize] = &[130, 0, 45];
        let config = Config { format: "f32", kernel, head_dim, kv_heads, heads: HEADS, lengths, ..ORDINARY };
        let mut cache = Cache::new(config);
        let block_len = config.block_len;
        let row = |sequence: usize, token: usize, kv_head: usize| {
            let block = cache.table[sequence * cache.table_len + token / block_len] as usize;
            (block * kv_heads + kv_head) * block_len + token % block_len
        };
        let mut used = vec![false; cache.keys.scales.len()];
        for (sequence, &length) in lengths.iter().enumerate() {
            for token in 0..length {
                (0..kv_heads).for_each(|kv_head| used[row(sequence, token, kv_head)] = true);
            }
        }
        let (sequence, kv_head, element) = (2, kv_heads - 1, 50);
        let of_it = row(sequence, 33, kv_head) * head_dim + element;
        let nan = f32::NAN.to_le_bytes();
        for unused in (0..used.len()).filter(|&row| !used[row]) {
            for plane in [&mut cache.keys, &mut cache.values] {
                let bytes = &mut plane.bytes[unused * head_dim * 4..(unused + 1) * head_dim * 4];
                bytes.chunks_exact_mut(4).for_each(|element| element.copy_from_slice(&nan));
            }
        }
        cache.values.bytes[of_it * 4..of_it * 4 + 4].copy_from_slice(&nan);
        for (block, split_len, splits) in [(32, 200, 1), (128, 64, 3)] {
            let (out, _) = cache.fast(block, split_len, splits);
            for (i, x) in out.iter().enumerate() {
                let (head, d) = (i / head_dim, i % head_dim);
                let its =
                    (head / HEADS, head % HEADS / (HEADS / kv_heads), d) == (sequence, kv_head, element);
                assert_eq!(x.is_nan(), its, "{}: head {head}, {d}: {x}", cache.name());
            }
        }
    }
}

#[test]
fn plain_version() {
    let cache = Cache::new(Config { lengths: &[19, 0, 3], head_dim: 40, heads: 4, ..ORDINARY });
    for block in [32, 64] {
        cache.check("plain", &cache.plain(block));
    }
}

fn bits(format: &str) -> usize {
    match format {
        "f32" => 32,
        "f16" | "bf16" => 16,
        "int8" => 8,
        "int4" => 4,
        other => panic!("no format {other}"),
    }
}

/// What must be moved: keys, values and scales of the tokens there are, the table, lengths, queries and outputs.
fn compulsory(config: &Config) -> f64 {
    let Config { format, heads, kv_heads, head_dim, block_len, lengths, .. } = *config;
    let scales = if bits(format) < 16 { 8 } else { 0 };
    let tokens: usize = lengths.iter().sum();
    let blocks: usize = lengths.iter().map(|length| length.div_ceil(block_len)).sum();
    let per_token = kv_heads * (2 * head_dim * bits(format) / 8 + scales);
    (tokens * per_token + 4 * blocks + lengths.len() * (4 + 8 * heads * head_dim)) as f64
}

#[test]
fn a_cached_byte_is_read_once_for_a_group() {
    // A format, a kernel, the query heads of a head of keys, lengths, and parts.
    let cases: [(_, _, _, &'static [usize], _, _); 13] = [
        ("f32", "d128", 8, &[300, 212], 512, 1),
        ("f32", "d128", 8, &[1024], 512, 2),
        ("f32", "d128", 4, &[512], 512, 1),
        ("f32", "d64", 4, &[1024], 1024, 1),
        ("f16", "g8", 8, &[512, 300], 512, 1),
        ("f16", "g8", 8, &[2048], 1024, 2),
        ("int8", "g8", 8, &[1024], 1024, 1),
        ("int4", "g8", 8, &[2048], 2048, 1),
        ("f16", "d128", 8, &[512, 300], 512, 1),
        ("f16", "d128", 8, &[2048], 1024, 2),
        ("bf16", "d128", 8, &[1024], 1024, 1),
        ("int8", "d128", 8, &[1024], 1024, 1),
        ("int4", "d128", 8, &[2048], 2048, 1),
    ];
    for (format, kernel, heads, lengths, split_len, splits) in cases {
        let head_dim = if kernel == "d64" { 64 } else { 128 };
        let config = Config { format, kernel, lengths, heads, head_dim, kv_heads: 1, ..ORDINARY };
        let cache = Cache::new(config);
        let (out, meters) = cache.fast(128, split_len, splits);
        cache.check("fast", &out);
        let over = bytes_moved(&meters[..1]) / compulsory(&config);
        println!("{config:?}: {over:.4} of what must be moved, {} instructions", meters[0].instructions);
        assert!((1.0..=1.10).contains(&over), "{config:?}: {over} of what must be moved");
        // A further sequence's entries of the table begin anywhere in a sector, so of the pairs that a warp reads every fourth may reach over
        // the end of one.
        let except: &[&str] = if lengths.len() > 1 { &["table"] } else { &[] };
        meters.iter().for_each(|meter| assert_no_waste(format, meter, except));
        let table = buffer(&meters[0], "table").read;
        assert!(4 * table.sectors <= 5 * table.ideal_sectors, "{config:?}: {table:?}");
        let tokens: usize = lengths.iter().sum();
        for plane in ["keys", "values"] {
            let read = buffer(&meters[0], plane).read.bytes;
            assert_eq!(read, (tokens * head_dim * bits(format) / 8) as u64, "{config:?}: {plane}");
        }
    }
}
