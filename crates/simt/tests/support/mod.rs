//! Kernels written by hand, and memory for them.

#![allow(dead_code)]

use tribunal_simt::execute;
use tribunal_simt::fault::Kind;
use tribunal_simt::launch::{Argument, Launch, Report, Schedule, Scrutiny, Settings};
use tribunal_simt::memory::{Memory, Pointer, Role};
use tribunal_simt::program::Kernel;
use tribunal_simt::ptx::Module;

/// A kernel `k` with parameters `p0`, `p1` … of 64 bits, whose registers are `%r`, `%rd`, `%f`, `%fd`, `%h` and `%p`, 0 to 31 of each.
pub fn kernel(params: usize, variables: &str, body: &str) -> Kernel {
    let params: Vec<String> = (0..params).map(|index| format!(".param .u64 p{index}")).collect();
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({})\n{{\n\
         .reg .pred %p<32>; .reg .b32 %r<32>; .reg .b64 %rd<32>; .reg .f32 %f<32>; .reg .f64 %fd<32>; .reg .b16 %h<32>;\n\
         {variables}\n{body}\n}}\n",
        params.join(", ")
    );
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.kernel("k").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Runs a kernel on pointers, and once more for its results alone, which must be the same.
pub fn run(
    kernel: &Kernel,
    blocks: u32,
    threads: u32,
    memory: &mut Memory,
    pointers: &[Pointer],
    schedule: Schedule,
) -> Report {
    let arguments = pointers.iter().map(|&pointer| Argument::Pointer(pointer)).collect();
    let launch = Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0, arguments };
    let settings = Settings { schedule, limit: 5_000_000, ..Settings::default() };
    let given = memory.clone();
    let report = execute::launch(kernel, &launch, memory, &settings).expect("a launch that is one");
    // A launch that is given up because there is too much to follow goes on where nothing is followed.
    if report.faults.iter().all(|fault| fault.kind != Kind::Endless) {
        assert_same_results(kernel, &launch, &settings, &given, (&report, memory));
    }
    report
}

/// Asserts that a launch that is looked at less closely leaves what it otherwise does, and knows nothing of what it is not to look for.
pub fn assert_same_results(
    kernel: &Kernel,
    launch: &Launch,
    settings: &Settings,
    given: &Memory,
    (report, memory): (&Report, &Memory),
) {
    let under = |scrutiny| {
        let mut given = given.clone();
        let less = Settings { scrutiny, ..*settings };
        let again = execute::launch(kernel, launch, &mut given, &less).expect("it was one before");
        let mut buffers = memory.buffers().iter().zip(given.buffers());
        assert!(buffers.all(|(one, other)| one.holds_what(other)), "{}: other results", kernel.name);
        assert_eq!(again.finished, report.finished, "{}", kernel.name);
        assert_eq!(again.meter.instructions, report.meter.instructions, "{}", kernel.name);
        let counted = again.meter.buffers.iter().any(|buffer| {
            buffer.read.sectors + buffer.written.sectors + buffer.atomics + buffer.unique_sectors_read > 0
        });
        let (shared, local) = (again.meter.shared, again.meter.local);
        assert!(!counted && shared.requests + local.sectors == 0, "{}: costs", kernel.name);
        again
    };
    let again = under(Scrutiny::Races);
    assert_eq!((&again.faults, &again.unordered), (&report.faults, &report.unordered), "{}", kernel.name);
    assert_eq!(again.followed, report.followed, "{}", kernel.name);
    let again = under(Scrutiny::Results);
    let unwatched =
        [Kind::SharedRace, Kind::GlobalRace, Kind::ContestedWrite, Kind::Uninitialised, Kind::StaleRead];
    let (mut left, mut due) = (kinds(&again), kinds(report));
    due.retain(|(kind, _)| !unwatched.contains(kind));
    left.sort_by_key(|(_, line)| *line);
    due.sort_by_key(|(_, line)| *line);
    assert_eq!(left, due, "{}", kernel.name);
}

/// All orders that are tried.
pub const SCHEDULES: [Schedule; 4] =
    [Schedule::Forward, Schedule::Reverse, Schedule::Random(1), Schedule::Random(2)];

/// Kinds and lines of faults, in their order.
pub fn kinds(report: &Report) -> Vec<(Kind, u32)> {
    report.faults.iter().map(|fault| (fault.kind, fault.line.line)).collect()
}

/// Numbers in a buffer.
pub fn u32s(memory: &Memory, pointer: Pointer) -> Vec<u32> {
    let bytes = memory.buffer(pointer).bytes();
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four"))).collect()
}

/// A buffer of numbers.
pub fn with_u32s(
    memory: &mut Memory,
    name: &str,
    role: Role,
    values: impl IntoIterator<Item = u32>,
) -> Pointer {
    memory.with(name, role, 4, values.into_iter().flat_map(u32::to_le_bytes).collect())
}

/// A buffer of so many numbers that nobody has written.
pub fn room(memory: &mut Memory, name: &str, count: usize) -> Pointer {
    memory.empty(name, Role::Output, 4, 4 * count)
}
