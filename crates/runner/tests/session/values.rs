//! What functions of our CUDA headers make of numbers, on the emulator, against this machine's own arithmetic.

use std::fmt::Debug;
use std::fs;

use tribunal_runner::Artefact;
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::ptx::Module;

use crate::builds::make;
use crate::toy::{toy_that_says, workshop};

const THREADS: usize = 256;
const COUNT: usize = 16 * THREADS;

// SAFETY: functions of C's library, without anything but numbers.
unsafe extern "C" {
    safe fn acosh(x: f64) -> f64;
    safe fn asinh(x: f64) -> f64;
    safe fn atanh(x: f64) -> f64;
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
    safe fn exp10(x: f64) -> f64;
    safe fn ldexp(x: f64, n: i32) -> f64;
    safe fn lgamma(x: f64) -> f64;
    safe fn nextafter(x: f64, y: f64) -> f64;
    safe fn nextafterf(x: f32, y: f32) -> f32;
    safe fn remainder(x: f64, y: f64) -> f64;
    safe fn tgamma(x: f64) -> f64;
}

type Reference = fn(f64, f64) -> f64;

/// A function, what it is, where it is tried beyond all of the range, and its largest errors in units in the last place, of double (with
/// that of the reference, which is 1 where nothing else is said) and of float.
const FUNCTIONS: [(&str, Reference, [f64; 2], f64, f64); 37] = [
    ("exp", |x, _| x.exp(), [-750.0, 715.0], 2.1, 1.1),
    ("exp2", |x, _| x.exp2(), [-1080.0, 1030.0], 2.1, 0.6),
    ("exp10", |x, _| exp10(x), [-330.0, 310.0], 2.7, 1.7),
    ("expm1", |x, _| x.exp_m1(), [-2.0, 5.0], 3.0, 1.7),
    ("log", |x, _| x.ln(), [0.0, 3.0], 2.2, 1.1),
    ("log2", |x, _| x.log2(), [0.0, 3.0], 2.7, 2.3),
    ("log10", |x, _| x.log10(), [0.0, 3.0], 2.7, 2.3),
    ("log1p", |x, _| x.ln_1p(), [-1.0, 3.0], 2.7, 1.7),
    ("sin", |x, _| x.sin(), [-20.0, 20.0], 1.8, 0.6),
    ("cos", |x, _| x.cos(), [-20.0, 20.0], 1.8, 0.6),
    ("tan", |x, _| x.tan(), [-20.0, 20.0], 3.2, 2.3),
    ("sinpi", |x, _| sinpi(x), [-9.0, 9.0], 2.8, 0.6),
    ("cospi", |x, _| cospi(x), [-9.0, 9.0], 2.8, 0.6),
    ("asin", |x, _| x.asin(), [-1.0, 1.0], 2.7, 0.6),
    ("acos", |x, _| x.acos(), [-1.0, 1.0], 1.8, 0.6),
    ("atan", |x, _| x.atan(), [-5.0, 5.0], 2.7, 0.6),
    ("sinh", |x, _| x.sinh(), [-3.0, 3.0], 4.5, 0.6),
    ("cosh", |x, _| x.cosh(), [-3.0, 3.0], 4.0, 0.6),
    ("tanh", |x, _| x.tanh(), [-3.0, 3.0], 4.5, 1.7),
    ("asinh", |x, _| asinh(x), [-3.0, 3.0], 4.0, 0.6),
    ("acosh", |x, _| acosh(x), [1.0, 3.0], 4.0, 0.6),
    ("atanh", |x, _| atanh(x), [-1.0, 1.0], 4.0, 0.6),
    ("cbrt", |x, _| x.cbrt(), [-9.0, 9.0], 1.6, 0.6),
    ("rcbrt", |x, _| 1.0 / x.cbrt(), [-9.0, 9.0], 3.7, 0.6),
    ("erf", |x, _| erf(x), [-6.0, 6.0], 2.5, 2.3),
    ("erfc", |x, _| erfc(x), [-3.0, 27.0], 8.7, 0.6),
    // The reference's argument is rounded, which is more the farther it is from zero.
    ("normcdf", |x, _| 0.5 * erfc(-x * 0.5f64.sqrt()), [-4.0, 4.0], f64::INFINITY, 0.6),
    ("erfinv", |x, _| if x.abs() > 1.0 { f64::NAN } else { x }, [-1.0, 1.0], 5.5, 1.1),
    ("lgamma", |x, _| lgamma(x), [0.0, 20.0], 6.5, 0.6),
    ("tgamma", |x, _| tgamma(x), [-9.5, 40.0], 12.0, 0.6),
    ("pow", f64::powf, [0.0, 20.0], 2.2, 0.6),
    ("atan2", f64::atan2, [-9.0, 9.0], 3.2, 0.6),
    ("hypot", f64::hypot, [-9.0, 9.0], 2.2, 0.6),
    ("fmod", |x, y| x % y, [-1e6, 1e6], 0.0, 0.0),
    ("remainder", |x, y| remainder(x, y), [-1e6, 1e6], 0.0, 0.0),
    ("lround", |x, _| (x.round() as i64) as f64, [-1e10, 1e10], 0.0, 0.5),
    ("lrint", |x, _| (x.round_ties_even() as i64) as f64, [-1e10, 1e10], 0.0, 0.5),
];

fn sinpi(x: f64) -> f64 {
    if x.is_infinite() || x == x.trunc() {
        return x * 0.0;
    }
    let quarters = (2.0 * x).round();
    let (sine, cosine) = ((x - 0.5 * quarters) * std::f64::consts::PI).sin_cos();
    [sine, cosine, -sine, -cosine][quarters.rem_euclid(4.0) as usize]
}

fn cospi(x: f64) -> f64 {
    if x.is_infinite() {
        return f64::NAN;
    }
    if x.abs() >= 2.0f64.powi(53) {
        return 1.0;
    }
    let quarters = (2.0 * x).round();
    let (sine, cosine) = ((x - 0.5 * quarters) * std::f64::consts::PI).sin_cos();
    // Both zeros are positive.
    [cosine, -sine, -cosine, sine][quarters.rem_euclid(4.0) as usize] + 0.0
}

/// Words of 64 bits, the same in every run (SplitMix64).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn within(&mut self, [least, most]: [f64; 2]) -> f64 {
        least + (most - least) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A type of numbers that kernels take.
trait Number: Copy + Debug {
    const SIZE: usize;
    fn bytes(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($type:ty)*) => {
        $(
            impl Number for $type {
                const SIZE: usize = size_of::<$type>();
                fn bytes(self) -> Vec<u8> {
                    self.to_le_bytes().to_vec()
                }
                fn of(bytes: &[u8]) -> Self {
                    Self::from_le_bytes(bytes.try_into().expect("as many bytes as it has"))
                }
            }
        )*
    };
}
numbers!(f32 f64 u32);

/// What a kernel makes of pairs.
fn run<T: Number>(module: &Module, kernel: &str, pairs: &[(T, T)]) -> Vec<T> {
    run_and_print(module, kernel, pairs).0
}

/// That, and what it prints.
fn run_and_print<T: Number>(module: &Module, kernel: &str, pairs: &[(T, T)]) -> (Vec<T>, String) {
    let kernel = module.kernel(kernel).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let mut memory = Memory::new();
    let bytes = |of: fn(&(T, T)) -> T| pairs.iter().flat_map(|pair| of(pair).bytes()).collect::<Vec<u8>>();
    let xs = memory.with("x", Role::Input, T::SIZE as u8, bytes(|pair| pair.0));
    let ys = memory.with("y", Role::Input, T::SIZE as u8, bytes(|pair| pair.1));
    let out = memory.empty("out", Role::Output, T::SIZE as u8, pairs.len() * T::SIZE);
    let arguments = [xs, ys, out].map(Argument::Pointer).to_vec();
    let grid = [(pairs.len() / THREADS) as u32, 1, 1];
    let launch = Launch { grid, block: [THREADS as u32, 1, 1], shared: 0, arguments };
    let report =
        execute::launch(&kernel, &launch, &mut memory, &Settings::default()).expect("a launch that is one");
    assert!(report.finished && report.faults.is_empty(), "{:?}", report.faults);
    let results = memory.buffer(out).bytes().chunks_exact(T::SIZE).map(T::of).collect();
    (results, report.printed)
}

/// The edges of the types, numbers within a range, and numbers of any size.
fn pairs(range: [f64; 2], bits: u32) -> Vec<(f64, f64)> {
    let edges = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.0,
        -1.0,
        1.5,
        2.0,
        -2.0,
        2.5,
        3.0,
        -3.0,
        10.0,
        1e5,
        2_147_483_648.0,
        1e19,
        -1e30,
        1e-30,
        1e-40,
        -1e-45,
        5e-324,
        -1e-310,
        2.0f64.powi(-1022),
        f64::MAX,
        f64::from(f32::MAX),
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    let mut draws = Draws(7);
    let mut pairs: Vec<(f64, f64)> = edges.iter().flat_map(|&x| edges.iter().map(move |&y| (x, y))).collect();
    while pairs.len() < COUNT {
        let any = |word: u64| match bits {
            32 => f64::from(f32::from_bits(word as u32)),
            _ => f64::from_bits(word),
        };
        let within = (draws.within(range), draws.within(range));
        pairs.extend([within, within, (any(draws.next()), any(draws.next()))]);
    }
    pairs.truncate(COUNT);
    pairs
}

/// How far a result is from what it should be, in units in the last place of `digits` bits.
fn error(got: f64, wanted: f64, digits: i32, least: i32, most: f64) -> f64 {
    if wanted.is_nan() {
        return if got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == wanted && got.is_sign_negative() == wanted.is_sign_negative() {
        return 0.0;
    }
    // What is beyond the largest is infinite.
    let end = |x: f64| if x.abs() > most { most.copysign(x) } else { x };
    if got.is_nan() || wanted == 0.0 || got.is_infinite() && wanted.abs() < most * (1.0 - 1e-6) {
        return f64::INFINITY;
    }
    let exponent = ((end(wanted).to_bits() >> 52 & 2047) as i32 - 1023).max(least);
    ldexp((end(got) - end(wanted)).abs(), digits - 1 - exponent)
}

fn module() -> Option<Module> {
    let says = "[[operation.forward.launch]]\nkernel = \"d_exp\"\ngrid = [1]\nblock = [1]\narguments = []\n";
    let toy = toy_that_says("cuda", "values.cu", says, &[("values.cu", include_str!("../cuda/values.cu"))]);
    match make(&workshop(), &toy)?.unwrap() {
        Artefact::Ptx(ptx) => Some(Module::parse(&fs::read_to_string(ptx.path).unwrap()).unwrap()),
        other => panic!("expected PTX, got {other:?}"),
    }
}

#[test]
fn functions_are_as_exact_as_they_say() {
    let Some(module) = module() else { return };
    let mut wrong = Vec::new();
    for (name, reference, range, double, single) in FUNCTIONS {
        let inputs = pairs(range, 64);
        for (&(x, y), got) in inputs.iter().zip(run(&module, &format!("d_{name}"), &inputs)) {
            let wanted = reference(x, y);
            let off = error(got, wanted, 53, -1022, f64::MAX);
            if off > double && !known(name, x) {
                wrong.push(format!("{name}({x:e}, {y:e}) = {got:e}, and not {wanted:e}: {off}"));
            }
        }
        let inputs: Vec<(f32, f32)> = pairs(range, 32).iter().map(|&(x, y)| (x as f32, y as f32)).collect();
        for (&(x, y), got) in inputs.iter().zip(run(&module, &format!("f_{name}"), &inputs)) {
            let wanted = reference(x.into(), y.into());
            let wanted = if single == 0.0 { f64::from(wanted as f32) } else { wanted };
            let off = error(got.into(), wanted, 24, -126, f32::MAX.into());
            if off > single && !known(name, x.into()) {
                wrong.push(format!("{name}f({x:e}, {y:e}) = {got:e}, and not {wanted:e}: {off}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// Where the error is not in units of the result, or the reference's own is not known.
fn known(name: &str, x: f64) -> bool {
    match name {
        "lgamma" => x < 0.0,
        "tgamma" => x < -9.5 && x != x.trunc(),
        // What is beyond a long is of the processor.
        "lround" | "lrint" => !(x.abs() < 9e18),
        _ => false,
    }
}

#[test]
fn what_is_exact_is() {
    let Some(module) = module() else { return };
    let inputs = pairs([-9.0, 9.0], 64);
    for (&(x, y), got) in inputs.iter().zip(run(&module, "d_nextafter", &inputs)) {
        let wanted = nextafter(x, y);
        assert!(
            got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
            "nextafter({x}, {y}) = {got}"
        );
    }
    let inputs: Vec<(f64, f64)> = pairs([-2100.0, 2100.0], 64)
        .iter()
        .map(|&(x, y)| (x, if y.is_nan() { 0.0 } else { y.clamp(-3000.0, 3000.0) }))
        .collect();
    for (&(x, y), got) in inputs.iter().zip(run(&module, "d_ldexp", &inputs)) {
        let wanted = ldexp(x, y as i32);
        assert!(
            got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
            "ldexp({x}, {y}) = {got}"
        );
    }
    let single = |range| {
        let finite = |y: f64| if y.is_nan() { 0.0 } else { y };
        pairs(range, 32).iter().map(|&(x, y)| (x as f32, finite(y) as f32)).collect::<Vec<_>>()
    };
    let inputs = single([-9.0, 9.0]);
    for (&(x, y), got) in inputs.iter().zip(run(&module, "f_nextafter", &inputs)) {
        let wanted = nextafterf(x, y);
        assert!(
            got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
            "nextafterf({x}, {y}) = {got}"
        );
    }
    let inputs = single([-160.0, 160.0]);
    for (&(x, y), got) in inputs.iter().zip(run(&module, "f_ldexp", &inputs)) {
        let wanted = ldexp(x.into(), y as i32) as f32;
        assert!(
            got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
            "ldexpf({x}, {y}) = {got}"
        );
    }
}

/// What a function of each byte, or of each half, makes of two words.
fn lanes<const N: usize>(x: u32, y: u32, signed: bool, of: fn(i32, i32) -> i32) -> u32 {
    let bits = 32 / N as u32;
    let lane = |word: u32, at: u32| {
        let top = word << (32 - bits - at);
        if signed { top as i32 >> (32 - bits) } else { (top >> (32 - bits)) as i32 }
    };
    (0..N as u32).fold(0, |word, index| {
        let at = bits * index;
        word | (of(lane(x, at), lane(y, at)) as u32 & (u32::MAX >> (32 - bits))) << at
    })
}

type Words = fn(u32, u32) -> u32;

const WORDS: [(&str, Words); 18] = [
    ("vadd4", |x, y| lanes::<4>(x, y, false, |x, y| x + y)),
    ("vsub2", |x, y| lanes::<2>(x, y, false, |x, y| x - y)),
    ("vaddss4", |x, y| lanes::<4>(x, y, true, |x, y| (x + y).clamp(-128, 127))),
    ("vsubus4", |x, y| lanes::<4>(x, y, false, |x, y| (x - y).max(0))),
    ("vavgs4", |x, y| lanes::<4>(x, y, true, |x, y| (x + y + i32::from(x + y >= 0)) >> 1)),
    ("vavgu2", |x, y| lanes::<2>(x, y, false, |x, y| (x + y + 1) / 2)),
    ("vabsdiffs2", |x, y| lanes::<2>(x, y, true, |x, y| (x - y).abs())),
    ("vmaxs4", |x, y| lanes::<4>(x, y, true, i32::max)),
    ("vminu2", |x, y| lanes::<2>(x, y, false, i32::min)),
    ("vcmpgts4", |x, y| lanes::<4>(x, y, true, |x, y| -i32::from(x > y))),
    ("vsetleu2", |x, y| lanes::<2>(x, y, false, |x, y| i32::from(x <= y))),
    ("vabsss4", |x, y| lanes::<4>(x, y, true, |x, _| x.abs().min(127))),
    ("vsads4", |x, y| {
        let apart = |(x, y): (u8, u8)| u32::from((x as i8).abs_diff(y as i8));
        x.to_le_bytes().into_iter().zip(y.to_le_bytes()).map(apart).sum()
    }),
    ("uhadd", |x, y| u64::midpoint(x.into(), y.into()) as u32),
    ("urhadd", |x, y| (u64::from(x) + u64::from(y)).div_ceil(2) as u32),
    ("byte_perm", |x, y| {
        let bytes = [x.to_le_bytes(), y.to_le_bytes()].concat();
        u32::from_le_bytes(std::array::from_fn(|at| bytes[(x >> 3 >> (4 * at) & 7) as usize]))
    }),
    ("fns", |x, y| {
        let (base, offset) = (y & 31, (y >> 5 & 15) as i32 - 7);
        let set = |at: &u32| x >> at & 1 == 1;
        let found = match offset {
            0 => Some(base).filter(set),
            1.. => (base..32).filter(set).nth(offset as usize - 1),
            _ => (0..=base).rev().filter(set).nth(-offset as usize - 1),
        };
        found.unwrap_or(u32::MAX)
    }),
    ("least", |x, y| x.min(y)),
];

#[test]
fn words_are_as_integers_have_them() {
    let Some(module) = module() else { return };
    let edges =
        [0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x7f80_ff01];
    let mut draws = Draws(11);
    let mut inputs: Vec<(u32, u32)> =
        edges.iter().flat_map(|&x| edges.iter().map(move |&y| (x, y))).collect();
    inputs.resize_with(COUNT, || (draws.next() as u32, draws.next() as u32));
    for (name, reference) in WORDS {
        for (&(x, y), got) in inputs.iter().zip(run(&module, &format!("w_{name}"), &inputs)) {
            let wanted = reference(x, y);
            assert!(got == wanted, "{name}({x:#x}, {y:#x}) = {got:#x}, and not {wanted:#x}");
        }
    }
}

#[test]
fn what_is_printed_is_as_c_prints_it() {
    let Some(module) = module() else { return };
    let (_, printed) = run_and_print(&module, "p_text", &[(1_u32, 2); THREADS]);
    assert_eq!(printed, "seven    7|7   | 7.12|010 sev\n");
}
