//! Kernels of our tests: compiled as submissions are, and emulated.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tribunal_runner::cage::Cage;
use tribunal_runner::{Artefact, MachineError, Submission, Trouble, Workshop};
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Schedule, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::ptx::Module;

/// What is looked at in the kernels of a source.
pub type Check = fn(&Module);

/// Looks at the kernels of a source, of which one is named, unless there is no clang.
pub fn check(source: &str, kernel: &str, checks: &[(&str, Check)]) {
    let Some(text) = compiled(source, kernel) else { return };
    let module = Module::parse(&text).expect("PTX");
    for (name, check) in checks {
        check(&module);
        println!("{name} ... ok");
    }
}

/// The kernels as PTX, or nothing where there is no clang.
fn compiled(source: &str, kernel: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let manifest = format!(
        "name = \"toy\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"cuda\"\nentry = \"kernels.cu\"\n\
         [[operation.forward.launch]]\nkernel = \"{kernel}\"\ngrid = [1]\nblock = [1]\narguments = []\n"
    );
    fs::write(folder.path().join("tribunal.toml"), manifest).unwrap();
    fs::write(folder.path().join("kernels.cu"), source).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let workshop = Workshop { cage: Cage::default(), cache: cache.path().into(), python: None };
    match workshop.make(&Submission::open(folder.path()).unwrap(), &|_| {}) {
        Ok(Artefact::Ptx(ptx)) => Some(fs::read_to_string(ptx.path).unwrap()),
        Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
            println!("skipped: {missing}");
            None
        }
        other => panic!("expected PTX, got {other:?}"),
    }
}

/// Orders in which blocks, warps and lanes run. In all but the first, looks at what others wrote show what was there before where they may.
const ORDERS: [Schedule; 3] = [Schedule::Forward, Schedule::Reverse, Schedule::Random(1)];

/// A launch that is accused of nothing, and leaves the same in any order: inputs, then outputs that hold as many bytes; zeros if they are read before.
pub fn launch(
    module: &Module,
    kernel: &str,
    shape: (u32, u32),
    inputs: &[Vec<u8>],
    outputs: &[usize],
) -> Vec<Vec<u8>> {
    let [first, others @ ..] = ORDERS.map(|order| launch_in(order, module, kernel, shape, inputs, outputs));
    for other in others {
        assert!(first == other, "{kernel} hangs on order");
    }
    first
}

/// The same in one order.
fn launch_in(
    schedule: Schedule,
    module: &Module,
    kernel: &str,
    shape: (u32, u32),
    inputs: &[Vec<u8>],
    outputs: &[usize],
) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let mut arguments = Vec::new();
    for (index, bytes) in inputs.iter().enumerate() {
        arguments.push(Argument::Pointer(memory.with(&format!("in{index}"), Role::Input, 1, bytes.clone())));
    }
    let mut made = Vec::new();
    for (index, &size) in outputs.iter().enumerate() {
        let pointer = memory.with(&format!("out{index}"), Role::InOut, 1, vec![0; size]);
        made.push(pointer);
        arguments.push(Argument::Pointer(pointer));
    }
    let launch = Launch { grid: [shape.0, 1, 1], block: [shape.1, 1, 1], shared: 0, arguments };
    let kernel = module.kernel(kernel).expect("a kernel");
    let shows_past = schedule != Schedule::Forward;
    let settings = Settings { schedule, shows_past, ..Settings::default() };
    let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
    assert!(report.finished && report.faults.is_empty(), "{:?}", report.faults);
    made.into_iter().map(|pointer| memory.buffer(pointer).bytes().to_vec()).collect()
}

pub fn bytes<T: Copy, const N: usize>(values: &[T], to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| to(value)).collect()
}

pub fn values<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.chunks_exact(N).map(|chunk| from(chunk.try_into().unwrap())).collect()
}

pub fn ints(bytes: &[u8]) -> Vec<i32> {
    values(bytes, i32::from_ne_bytes)
}

/// Numbers without a pattern, from -20 to 20.
pub fn numbers(count: usize) -> Vec<i32> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as i32 % 41 - 20
    };
    (0..count).map(|_| next()).collect()
}

/// Texts that are put together, as `Text` of the source has them.
pub fn text(letters: impl IntoIterator<Item = i32>) -> i32 {
    letters.into_iter().fold(0, |hash: i32, letter| hash.wrapping_mul(31).wrapping_add(letter))
}

pub fn on_ints(
    module: &Module,
    kernel: &str,
    threads: u32,
    input: &[i32],
    outputs: &[usize],
) -> Vec<Vec<i32>> {
    let sizes: Vec<usize> = outputs.iter().map(|count| 4 * count).collect();
    let out = launch(module, kernel, (1, threads), &[bytes(input, i32::to_ne_bytes)], &sizes);
    out.iter().map(|bytes| ints(bytes)).collect()
}
