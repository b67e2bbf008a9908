//! `crates/kernels/cuda/softmax_topk.cu`.

use half::{bf16, f16};
use tribunal_simt::launch::Argument;
use tribunal_simt::meter::Meter;

use crate::device::*;
use crate::oracle::{Numbers, rank};

/// What a part of a row may give beyond k.
const PART_SLACK: usize = 96;

/// Rows of logits as the kernels read them, and what these are worth.
#[derive(Clone)]
struct Logits {
    format: &'static str,
    vocab: usize,
    bytes: Vec<u8>,
    wide: Vec<f64>,
}

impl Logits {
    fn new(format: &'static str, vocab: usize, values: &[f64]) -> Logits {
        let mut logits = Logits { format, vocab, bytes: Vec::new(), wide: Vec::new() };
        for &value in values {
            let (bytes, wide) = match format {
                "f32" => ((value as f32).to_le_bytes().to_vec(), (value as f32).into()),
                "f16" => (f16::from_f64(value).to_le_bytes().to_vec(), f16::from_f64(value).to_f64()),
                "bf16" => (bf16::from_f64(value).to_le_bytes().to_vec(), bf16::from_f64(value).to_f64()),
                other => panic!("no format {other}"),
            };
            logits.bytes.extend(bytes);
            logits.wide.push(wide);
        }
        logits
    }

    fn rows(&self) -> usize {
        self.wide.len() / self.vocab
    }

    fn input(&self, device: &mut Device) -> Argument {
        if self.format == "f32" {
            let values: Vec<u32> = self.bytes.chunks_exact(4).map(u32::get).collect();
            return device.input("logits", &values);
        }
        let values: Vec<u16> = self.bytes.chunks_exact(2).map(u16::get).collect();
        device.input("logits", &values)
    }

    /// Bytes of dynamic shared memory, as the header says.
    fn shared(&self, k: usize, block: u32) -> usize {
        160 * block as usize + 8 * (4 * k.min(256) + 64)
    }

    /// Probabilities and indices by the kernel that does it all in one launch, a block for each row.
    fn whole(&self, kernel: &str, k: usize, block: u32) -> (Answer, Vec<Meter>) {
        self.by_blocks(kernel, k, block, self.rows())
    }

    /// By fewer blocks than there are rows, which go through them.
    fn by_blocks(&self, kernel: &str, k: usize, block: u32, blocks: usize) -> (Answer, Vec<Meter>) {
        let plain = kernel.contains("plain");
        let name = format!("{kernel} of {} x {}, k {k}, {blocks} x {block} threads", self.rows(), self.vocab);
        let shape = Shape::new(blocks as u32, block, if plain { 0 } else { self.shared(k, block) });
        let rows = if plain { vec![] } else { vec![int(self.rows())] };
        let (outputs, meters) = under_all_schedules::<u64>(&name, |device| {
            let logits = self.input(device);
            let probs = device.output::<f32>("probs", self.rows() * k);
            let indices = device.output::<i64>("indices", self.rows() * k);
            let sizes = [rows.clone(), vec![int(self.vocab), int(k)]].concat();
            device.launch(&SOFTMAX_TOPK, kernel, shape, [vec![logits, probs, indices], sizes].concat());
            answer_bits(device, probs, indices)
        });
        (Answer::new(name, k, &outputs), meters)
    }

    /// By parts of rows, which the last block of a row puts together. Twice, since counters must be left as they were found.
    fn split(&self, k: usize, block: u32, splits: usize) -> (Answer, Vec<Meter>) {
        let name = format!("{splits} splits of {} x {}, k {k}, {block} threads", self.rows(), self.vocab);
        let (outputs, meters) = under_all_schedules::<u64>(&name, |device| {
            let logits = self.input(device);
            let parts = self.rows() * splits;
            let totals = device.output::<u32>("totals", parts * 4);
            let keys = device.output::<u64>("keys", parts * (k + PART_SLACK));
            let probs = device.output::<f32>("probs", self.rows() * k);
            let indices = device.output::<i64>("indices", self.rows() * k);
            let counters = device.in_out("counters", &vec![0u64; self.rows()]);
            let grid = [splits as u32, self.rows() as u32, 1];
            let shape = Shape { grid, block, shared: self.shared(k, block) };
            let sizes = [int(self.vocab), int(k), int(splits)];
            let arguments = [vec![logits, totals, keys, counters, probs, indices], sizes.to_vec()].concat();
            let kernel = format!("softmax_topk_split_{}", self.format);
            device.launch(&SOFTMAX_TOPK, &kernel, shape, arguments.clone());
            device.launch(&SOFTMAX_TOPK, &kernel, shape, arguments);
            answer_bits(device, probs, indices)
        });
        (Answer::new(name, k, &outputs), meters)
    }

    /// The same indices as the definition gives, ties by the smaller, and probabilities that are off by no more than: the sum's chain of 8
    /// additions in a tile, tiles, lanes and warps; four units each for two exponentials and the quotient; and the rounding of `x - maximum`.
    fn check(&self, answer: &Answer, block: u32) {
        let Answer { name, k, probs, indices } = answer;
        let unit = f64::from(f32::EPSILON) / 2.0;
        let chain = 8.0 + (self.vocab / (8 * block as usize)) as f64 + 10.0;
        for (r, row) in self.wide.chunks_exact(self.vocab).enumerate() {
            let ranked = rank(row);
            for i in 0..*k {
                let (prob, index) = (f64::from(probs[r * k + i]), indices[r * k + i]);
                let place = format!("{name}, {}: row {r}, entry {i}", self.format);
                let Some(&expected) = ranked.order.get(i) else {
                    assert_eq!((prob, index), (0.0, -1), "{place}");
                    continue;
                };
                if !ranked.sum.is_finite() {
                    assert!(prob.is_nan(), "{place}: {prob}, where there is no softmax");
                    assert!((0..self.vocab as i64).contains(&index), "{place}: {index}");
                    continue;
                }
                assert_eq!(index, expected as i64, "{place}");
                let x = row[expected];
                let wanted = (x - ranked.maximum).exp() / ranked.sum;
                let off = unit * (chain + 12.0 + (ranked.maximum - x).min(104.0));
                // Below the normal numbers the steps of f32 do not get smaller.
                let bound = off * wanted + f64::from(f32::MIN_POSITIVE) * 2.0 * unit;
                assert!((prob - wanted).abs() <= bound, "{place}: {prob}, not {wanted}");
            }
        }
    }
}

struct Answer {
    name: String,
    k: usize,
    probs: Vec<f32>,
    indices: Vec<i64>,
}

impl Answer {
    fn new(name: String, k: usize, outputs: &[Vec<u64>]) -> Answer {
        let probs = outputs[0].iter().map(|&bits| f32::from_bits(bits as u32)).collect();
        Answer { name, k, probs, indices: outputs[1].iter().map(|&bits| bits as i64).collect() }
    }
}

/// Both outputs as bits of one type.
fn answer_bits(device: &Device, probs: Argument, indices: Argument) -> Vec<Vec<u64>> {
    let probs = device.read::<f32>(probs).into_iter().map(|prob| prob.to_bits().into()).collect();
    let indices = device.read::<i64>(indices).into_iter().map(|index| index as u64).collect();
    vec![probs, indices]
}

fn kernel_of(format: &str) -> String {
    format!("softmax_topk_{format}")
}

const FORMATS: [&str; 3] = ["f32", "f16", "bf16"];

fn random(format: &'static str, rows: usize, vocab: usize) -> Logits {
    Logits::new(format, vocab, &Numbers::new((rows * 31 + vocab) as u64).normals(rows * vocab, 0.0, 3.0))
}

#[test]
fn all_shapes() {
    for (index, vocab) in [1, 5, 31, 33, 255, 1000, 1024, 4097, 10_007].into_iter().enumerate() {
        let format = FORMATS[index % 3];
        let logits = random(format, 3, vocab);
        for (k, block) in [(1, 64), (10, 128), (50, 256), (256, 512)] {
            let (answer, _) = logits.whole(&kernel_of(format), k, block);
            logits.check(&answer, block);
        }
    }
}

#[test]
fn every_format_at_every_place() {
    // Rows of 1003 begin at each of the elements of a sector in turn.
    for format in FORMATS {
        let logits = random(format, 17, 1003);
        let (answer, _) = logits.whole(&kernel_of(format), 7, 64);
        logits.check(&answer, 64);
    }
}

#[test]
fn blocks_go_through_rows() {
    for (format, k, block, blocks) in
        [("f32", 10, 128, 2), ("f16", 50, 64, 3), ("bf16", 256, 512, 1), ("f32", 300, 128, 2)]
    {
        let logits = random(format, 5, 3001);
        let (answer, _) = logits.by_blocks(&kernel_of(format), k, block, blocks);
        logits.check(&answer, block);
    }
}

#[test]
fn any_k() {
    for (format, vocab, k) in [("f32", 700, 257), ("f32", 1000, 1000), ("f16", 600, 700), ("bf16", 3000, 513)]
    {
        let logits = random(format, 2, vocab);
        let (answer, _) = logits.whole(&kernel_of(format), k, 128);
        logits.check(&answer, 128);
    }
}

#[test]
fn splits() {
    for (format, vocab, k, block, splits) in [
        ("f32", 5000, 50, 64, 7),
        ("f16", 9001, 256, 128, 3),
        ("bf16", 4096, 1, 256, 2),
        ("f32", 10, 4, 64, 8),
        // Many tiles and few winners: the last tile of a part has none, and more than k are still held.
        ("f32", 20_000, 2, 64, 3),
    ] {
        let logits = random(format, 3, vocab);
        let (answer, _) = logits.split(k, block, splits);
        logits.check(&answer, block);
    }
}

#[test]
fn plain_version() {
    for (vocab, k) in [(1, 1), (33, 40), (1000, 10)] {
        let logits = random("f32", 3, vocab);
        let (answer, _) = logits.whole("softmax_topk_plain_f32", k, 64);
        logits.check(&answer, 64);
    }
}

/// Rows that lose winners, or thresholds, or digits, where something is not exact.
fn adversarial(vocab: usize) -> Vec<(&'static str, Vec<f64>)> {
    let all = |value: fn(usize, f64) -> f64| {
        let mut numbers = Numbers::new(5);
        (0..vocab).map(|i| value(i, numbers.normal())).collect::<Vec<f64>>()
    };
    let mut nan = all(|_, x| x);
    nan[vocab / 2] = f64::NAN;
    vec![
        ("all winners in one stride class", all(|i, x| if i % 256 == 0 { 50.0 + x } else { x })),
        ("all winners of one thread", all(|i, x| if i % 1024 < 4 { 50.0 + x } else { x })),
        ("winners side by side at the end", all(|i, x| if i >= 3800 { 50.0 + x } else { x })),
        ("rising", all(|i, _| i as f64 / 64.0)),
        ("falling", all(|i, _| -(i as f64) / 64.0)),
        ("equal", all(|_, _| 2.5)),
        ("few values", all(|_, x| x.round())),
        ("zeros of both signs", all(|i, _| if i % 2 == 0 { -0.0 } else { 0.0 })),
        ("masked", all(|i, x| if i % 97 == 13 { x } else { f64::NEG_INFINITY })),
        ("nothing but -inf", all(|_, _| f64::NEG_INFINITY)),
        ("a NaN", nan),
        ("nothing but NaN", all(|_, _| f64::NAN)),
        ("large", all(|_, x| 10_000.0 + 100.0 * x)),
        ("large and negative", all(|_, x| -10_000.0 + 100.0 * x)),
        ("near the largest f16", all(|_, x| 65_000.0 + 100.0 * x)),
        ("near the least f16", all(|_, x| -65_000.0 + 100.0 * x)),
        (
            "where one way of taking exponentials ends, which is infinite in f16",
            all(|_, x| 65_536.0 + 8.0 * x),
        ),
        ("infinite", all(|_, _| f64::INFINITY)),
        ("infinite now and then", all(|i, x| if i % 13 == 5 { f64::INFINITY } else { x })),
        ("the largest floats", all(|i, x| if i % 3 == 1 { f32::MAX.into() } else { x })),
        ("masked by the least float", all(|i, x| if i % 97 == 13 { x } else { f32::MIN.into() })),
        ("nothing but the least float", all(|_, _| f32::MIN.into())),
        (
            "zeros of both signs below a few",
            all(|i, x| {
                if i % 500 == 7 {
                    x.abs()
                } else if i % 3 == 0 {
                    0.0
                } else {
                    -0.0
                }
            }),
        ),
    ]
}

#[test]
fn adversarial_rows() {
    let vocab = 4099;
    let rows: Vec<f64> = adversarial(vocab).into_iter().flat_map(|(_, row)| row).collect();
    for (format, block) in [("f32", 256), ("f32", 64), ("bf16", 128), ("f16", 512)] {
        let logits = Logits::new(format, vocab, &rows);
        for k in [1, 50, 256] {
            let (answer, _) = logits.whole(&kernel_of(format), k, block);
            logits.check(&answer, block);
        }
        let (answer, _) = logits.split(50, block, 3);
        logits.check(&answer, block);
    }
    let logits = Logits::new("f32", vocab, &rows);
    let (answer, _) = logits.whole("softmax_topk_f32", 300, 256);
    logits.check(&answer, 256);
}

/// Many large logits raise the threshold far above what most threads have seen; then comes one that is between.
#[test]
fn rows_that_fall_back() {
    let vocab = 40_000;
    for (format, block, k, large) in [("f32", 256, 50, 300), ("f16", 128, 50, 300), ("bf16", 512, 10, 200)] {
        let mut row = Numbers::new(11).normals(vocab, 0.0, 1.0);
        let middle = vocab / 2;
        row[middle..middle + large].fill(200.0);
        row[vocab - 7] = 150.0;
        let logits = Logits::new(format, vocab, &row);
        let (answer, _) = logits.whole(&kernel_of(format), k, block);
        logits.check(&answer, block);
        let (answer, _) = logits.split(k, block, 2);
        logits.check(&answer, block);
    }
}

#[test]
fn probabilities_of_a_whole_row_sum_to_one() {
    let logits = random("f32", 2, 600);
    let (answer, _) = logits.whole("softmax_topk_f32", 600, 128);
    for row in answer.probs.chunks_exact(600) {
        let sum: f64 = row.iter().map(|&p| f64::from(p)).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
        assert!(row.is_sorted_by(|a, b| a >= b));
    }
}

/// Every logit once, and nothing but what is asked for written: 1.0, not 1.02.
#[test]
fn logits_are_read_once() {
    let source = std::fs::read_to_string(repository().join("crates/kernels/cuda/softmax_topk.cu"));
    let source = source.expect("the source lies beside its PTX");
    // Lines where lanes go to wherever a key belongs.
    let scattered: Vec<u32> =
        (1..).zip(source.lines()).filter(|(_, line)| line.contains("// scattered")).map(|(n, _)| n).collect();
    for (format, vocab, k, block, element) in
        [("f32", 50_257, 50, 256, 4), ("f16", 32_000, 256, 512, 2), ("bf16", 32_001, 8, 512, 2)]
    {
        let logits = random(format, 2, vocab);
        let (answer, meters) = logits.whole(&kernel_of(format), k, block);
        logits.check(&answer, block);
        let meter = &meters[0];
        assert_eq!(meter.bytes_read(), (2 * vocab * element) as u64, "{}", answer.name);
        assert_eq!(meter.bytes_written(), (2 * k * 12) as u64, "{}", answer.name);
        let read = buffer(meter, "logits").read;
        println!(
            "{}: {} instructions, {} requests of shared memory",
            answer.name, meter.instructions, meter.shared.requests
        );
        assert_eq!(read.sectors, read.ideal_sectors, "{}", answer.name);
        // There, banks are as crowded as keys have it. Of 32 words in random banks the busiest has 3.5 on average, and keys of 8 bytes go in two
        // halves: on average no line may take more than 8. All in all they were 0.3 to 1.9 for a hundred instructions when this was
        // written. Elsewhere no request takes more than its bytes need.
        let mut crowded = 0;
        for line in &meter.lines {
            let shared = &line.shared;
            if scattered.contains(&line.line.line) {
                assert!(shared.waves <= 8 * shared.requests, "{}: {line:?}", answer.name);
                crowded += shared.waves - shared.ideal_waves;
            } else {
                assert_eq!(shared.waves, shared.ideal_waves, "{}: {line:?}", answer.name);
            }
        }
        assert!(100 * crowded <= 3 * meter.instructions, "{}: {crowded} waves", answer.name);
        assert_eq!(meter.local.requests, 0, "{}", answer.name);
    }
}

/// Parts leave k keys or some more, of 8 bytes each, and 16 bytes: twice that is moved on top, and of counters 8 bytes, both ways, two
/// times a part, and once to leave them at zero.
#[test]
fn splits_add_little() {
    for (format, vocab, k, block, splits) in [("f32", 131_072, 16, 256, 4), ("f16", 262_144, 50, 512, 2)] {
        let element = if format == "f32" { 4 } else { 2 };
        let logits = random(format, 1, vocab);
        let (answer, meters) = logits.split(k, block, splits);
        logits.check(&answer, block);
        let needed = (element * vocab + 12 * k) as f64;
        let moved = bytes_moved(&meters[..1]);
        println!("{}: {:.4} of what must be moved", answer.name, moved / needed);
        let besides = (splits * (2 * 16 + 4 * 8) + 8) as f64;
        let given = (moved - needed - besides) / 16.0;
        assert!(
            given >= k as f64 && given <= (splits * (k + PART_SLACK)) as f64,
            "{}: {given} keys",
            answer.name
        );
        assert!(moved <= 1.02 * needed, "{}: {moved} of {needed}", answer.name);
    }
}
