//! A device to launch on: buffers, launches, and what must hold of every one of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};

use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Report, Schedule, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::meter::{BufferMeter, Meter, Traffic};
use tribunal_simt::program::Kernel;
use tribunal_simt::ptx::Module;

const SCHEDULES: [Schedule; 3] = [Schedule::Forward, Schedule::Reverse, Schedule::Random(7)];

/// Some fifty times what the longest launch takes: a loop that does not end is found soon.
const INSTRUCTIONS_MAX: u32 = 100_000_000;

/// A file of PTX, of which kernels are made as they are asked for.
pub struct Source {
    module: Module,
    kernels: Mutex<HashMap<String, Arc<Kernel>>>,
}

impl Source {
    fn new(path: &str) -> Source {
        let path = repository().join(path);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Source { module, kernels: Mutex::default() }
    }

    fn kernel(&self, name: &str) -> Arc<Kernel> {
        let mut kernels = self.kernels.lock().expect("no thread panics while it holds this");
        if let Some(kernel) = kernels.get(name) {
            return Arc::clone(kernel);
        }
        let kernel = self.module.kernel(name).map(Arc::new);
        match kernel {
            Ok(kernel) => Arc::clone(kernels.entry(name.to_owned()).or_insert(kernel)),
            Err(error) => {
                drop(kernels);
                panic!("{name}: {error}")
            }
        }
    }
}

pub static LAYER_NORM: LazyLock<Source> = LazyLock::new(|| Source::new("crates/kernels/cuda/layer_norm.ptx"));
pub static SOFTMAX_TOPK: LazyLock<Source> =
    LazyLock::new(|| Source::new("crates/kernels/cuda/softmax_topk.ptx"));
pub static PAGED_DECODE: LazyLock<Source> =
    LazyLock::new(|| Source::new("crates/kernels/cuda/paged_decode.ptx"));
pub static HAND_COUNTS: LazyLock<Source> =
    LazyLock::new(|| Source::new("crates/simt/tests/cuda/hand_counts.ptx"));

pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A type that buffers hold.
pub trait Element: Copy {
    const BYTES: u8;
    fn put(self, to: &mut Vec<u8>);
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            const BYTES: u8 = size_of::<$type>() as u8;
            fn put(self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the type has"))
            }
        }
    )*};
}
element!(u8, u16, u32, i32, i64, u64, f32, f64);

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub grid: [u32; 3],
    pub block: u32,
    pub shared: usize,
}

impl Shape {
    pub fn new(grid: u32, block: u32, shared: usize) -> Shape {
        Shape { grid: [grid, 1, 1], block, shared }
    }
}

pub struct Device {
    schedule: Schedule,
    memory: Memory,
    pub meters: Vec<Meter>,
}

impl Device {
    pub fn input<T: Element>(&mut self, name: &str, values: &[T]) -> Argument {
        Argument::Pointer(self.memory.with(name, Role::Input, T::BYTES, bytes(values)))
    }

    pub fn output<T: Element>(&mut self, name: &str, count: usize) -> Argument {
        Argument::Pointer(self.memory.empty(name, Role::Output, T::BYTES, count * usize::from(T::BYTES)))
    }

    /// A buffer that kernels find something in, and change.
    pub fn in_out<T: Element>(&mut self, name: &str, values: &[T]) -> Argument {
        Argument::Pointer(self.memory.with(name, Role::InOut, T::BYTES, bytes(values)))
    }

    /// Launches a kernel that must do nothing wrong.
    pub fn launch(&mut self, source: &Source, kernel: &str, shape: Shape, arguments: Vec<Argument>) {
        let launch = Launch {
            grid: shape.grid,
            block: [shape.block, 1, 1],
            shared: u32::try_from(shape.shared).expect("no more than a block may have"),
            arguments,
        };
        let settings = Settings { schedule: self.schedule, limit: INSTRUCTIONS_MAX, ..Settings::default() };
        let report: Report = execute::launch(&source.kernel(kernel), &launch, &mut self.memory, &settings)
            .unwrap_or_else(|refusal| panic!("{kernel}, {shape:?}: {refusal}"));
        let faults: Vec<String> = report.faults.iter().take(5).map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{kernel}, {shape:?}, {:?}:\n{}", self.schedule, faults.join("\n"));
        assert!(report.finished, "{kernel}, {shape:?}, {:?}: did not finish", self.schedule);
        self.meters.push(report.meter);
    }

    /// What a buffer holds, all of which must have been written.
    pub fn read<T: Element>(&self, argument: Argument) -> Vec<T> {
        let Argument::Pointer(pointer) = argument else { panic!("{argument:?} is no buffer") };
        let buffer = self.memory.buffer(pointer);
        assert_eq!(buffer.first_unwritten(), None, "a byte of {} was not written", buffer.name());
        buffer.bytes().chunks_exact(T::BYTES.into()).map(T::get).collect()
    }
}

/// Does the same under all schedules, which must give the same bits, and returns what the first gave with its meters.
pub fn under_all_schedules<T: Element>(
    name: &str,
    run: impl Fn(&mut Device) -> Vec<Vec<T>>,
) -> (Vec<Vec<T>>, Vec<Meter>) {
    let mut first: Option<(Vec<Vec<T>>, Vec<Meter>)> = None;
    for schedule in SCHEDULES {
        let mut device = Device { schedule, memory: Memory::new(), meters: Vec::new() };
        let got = run(&mut device);
        match &first {
            None => first = Some((got, device.meters)),
            Some((expected, _)) => {
                for (output, (expected, got)) in expected.iter().zip(&got).enumerate() {
                    let differs = bytes(expected) != bytes(got);
                    assert!(!differs, "{name}: output {output} has other bits under {schedule:?}");
                }
            }
        }
    }
    first.expect("there are schedules")
}

pub fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * usize::from(T::BYTES));
    values.iter().for_each(|value| value.put(&mut bytes));
    bytes
}

pub fn int(value: usize) -> Argument {
    Argument::I32(i32::try_from(value).expect("sizes of tests are small"))
}

pub fn buffer<'a>(meter: &'a Meter, name: &str) -> &'a BufferMeter {
    let found = meter.buffers.iter().find(|buffer| buffer.name == name);
    found.unwrap_or_else(|| panic!("no buffer {name}"))
}

/// Bytes that launches moved, both directions.
pub fn bytes_moved(meters: &[Meter]) -> f64 {
    meters.iter().map(|meter| meter.bytes_read() + meter.bytes_written()).sum::<u64>() as f64
}

/// That no request touched more sectors than its bytes fill, but for some buffers, and none of shared memory took more waves.
pub fn assert_no_waste(name: &str, meter: &Meter, except: &[&str]) {
    for buffer in meter.buffers.iter().filter(|buffer| !except.contains(&&*buffer.name)) {
        for (direction, Traffic { sectors, ideal_sectors, .. }) in
            [("read", buffer.read), ("written", buffer.written)]
        {
            assert_eq!(sectors, ideal_sectors, "{name}: sectors of {} {direction}", buffer.name);
        }
    }
    assert_eq!(meter.shared.waves, meter.shared.ideal_waves, "{name}: waves of shared memory");
    assert_eq!(meter.local.requests, 0, "{name}: requests of local memory");
}
