//! Every kind of fault is found where it is, and what is right is not accused, in whatever order threads run.

mod support;

use std::time::Duration;

use support::{SCHEDULES, kernel, kinds, room, run, u32s, with_u32s};
use tribunal_simt::execute;
use tribunal_simt::fault::{Fault, Kind};
use tribunal_simt::launch::{Argument, Launch, Refusal, Report, Schedule, Scrutiny, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::program::Kernel;
use tribunal_simt::ptx::Module;

/// `%r0` is the thread, `%rd0` and `%rd1` the places of its number in two buffers.
const PLACES: &str = "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n\
    mad.lo.s32 %r3, %r1, %r2, %r0; mul.wide.u32 %rd2, %r3, 4;\n\
    ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];\n\
    add.s64 %rd0, %rd0, %rd2; add.s64 %rd1, %rd1, %rd2;\n";

/// Two buffers of 256 numbers: `x` to read, and `y` to write.
fn try_all(variables: &str, body: &str, blocks: u32, threads: u32, check: impl Fn(&Report, &Memory, &[u32])) {
    let kernel = kernel(2, variables, &format!("{PLACES}{body}\nret;"));
    for schedule in SCHEDULES {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
        let y = room(&mut memory, "y", 256);
        let report = run(&kernel, blocks, threads, &mut memory, &[x, y], schedule);
        let result = u32s(&memory, y);
        check(&report, &memory, &result);
    }
}

fn fault(variables: &str, body: &str, blocks: u32, threads: u32, kind: Kind) -> Fault {
    let seen = std::cell::RefCell::new(None);
    try_all(variables, body, blocks, threads, |report, _, _| {
        let found = report.faults.iter().find(|fault| fault.kind == kind);
        *seen.borrow_mut() =
            Some(found.unwrap_or_else(|| panic!("no {kind:?} in {:?}", report.faults)).clone());
    });
    seen.into_inner().expect("at least one schedule")
}

fn clean(variables: &str, body: &str, blocks: u32, threads: u32, check: impl Fn(&[u32])) {
    try_all(variables, body, blocks, threads, |report, _, result| {
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert!(report.finished);
        check(result);
    });
}

const SHARED: &str = ".shared .align 4 .b8 s[1024];";
/// `%rd3` is the place of the thread's number in shared memory.
const SLOT: &str = "mul.wide.u32 %rd4, %r0, 4; mov.u64 %rd3, s; add.s64 %rd3, %rd3, %rd4;\n";

#[test]
fn a_copy_is_clean() {
    clean("", "ld.global.u32 %r4, [%rd0]; st.global.u32 [%rd1], %r4;", 2, 128, |y| {
        assert!(y.iter().copied().eq(0..256));
    });
}

#[test]
fn what_is_loaded_alone_may_be_in_braces() {
    // As Triton writes every access of one value.
    clean("", "ld.global.b32 {%r4}, [%rd0+0]; st.global.b32 [%rd1+0], {%r4};", 2, 128, |y| {
        assert!(y.iter().copied().eq(0..256));
    });
}

#[test]
fn an_overrun_names_buffer_and_byte() {
    let found =
        fault("", "ld.global.u32 %r4, [%rd0+4]; st.global.u32 [%rd1], %r4;", 2, 128, Kind::OutOfBounds);
    assert_eq!(
        (found.count, found.detail.as_str()),
        (1, "reads 4 bytes at byte 1024 of `x`, which has 1024")
    );
    assert_eq!((found.thread.block, found.thread.thread), ([1, 0, 0], [127, 0, 0]));
    let before =
        fault("", "ld.global.u32 %r4, [%rd0+-4]; st.global.u32 [%rd1], %r4;", 2, 128, Kind::OutOfBounds);
    assert_eq!(before.detail, "reads 4 bytes 4 bytes before `x`");
    // Half of the lanes of a row are before the buffer, by as much as a line of what is remembered.
    let row = "mul.wide.u32 %rd5, %r0, 8; ld.param.u64 %rd6, [p1]; add.s64 %rd6, %rd6, %rd5; mov.f32 %f1, 0f3F800000;\n\
        st.global.v2.f32 [%rd6+-128], {%f1, %f1};";
    let half = fault("", row, 1, 32, Kind::OutOfBounds);
    assert_eq!((half.count, half.detail.as_str()), (16, "writes 8 bytes 128 bytes before `y`"));
    let null = fault("", "mov.u64 %rd5, 0; ld.global.u32 %r4, [%rd5];", 1, 1, Kind::OutOfBounds);
    assert_eq!(null.detail, "reads 4 bytes at address 0: a null pointer");
    let shared = fault(SHARED, "mov.u64 %rd5, s; st.shared.u32 [%rd5+1024], %r0;", 1, 1, Kind::OutOfBounds);
    assert_eq!(shared.detail, "writes 4 bytes at byte 1024 of `s`, which has 1024");
}

#[test]
fn who_goes_from_one_array_into_the_next_is_told() {
    // Names as compilers make them of arrays within `k`.
    let arrays = ".shared .align 4 .b8 _ZZ1kE4keys[64]; .shared .align 16 .b8 _ZZ1kE6places[64]; .extern .shared .align 4 .b8 rest[];";
    let used = "mov.u64 %rd5, _ZZ1kE4keys; mov.u64 %rd6, _ZZ1kE6places; mov.u64 %rd7, rest; st.shared.u32 [%rd5+60], 1; st.shared.u32 [%rd6], 1;";
    clean(arrays, used, 1, 1, |_| {});
    let told = |body: &str| {
        let found = fault(arrays, &format!("{used} {body}"), 1, 1, Kind::OutOfBounds);
        (found.line.line, found.detail)
    };
    let (line, detail) = told("\nst.shared.v2.u32 [%rd5+64], {1, 2};");
    assert_eq!(detail, "writes 8 bytes at byte 64 of `keys`, which has 64");
    assert_eq!(line, told("st.shared.u32 [%rd5+72], 1;").0 + 1, "each is told with its own line");
    assert_eq!(told("st.shared.u32 [%rd6+-4], 1;").1, "writes 4 bytes at byte -4 of `places`, which has 64");
    assert_eq!(told("ld.shared.u32 %r4, [%rd6+64];").1, "reads 4 bytes at byte 64 of `places`, which has 64");
    let half = told("ld.shared.v2.u32 {%r4, %r5}, [%rd5+60];");
    assert_eq!(half.1, "reads 8 bytes at byte 60 of `keys`, which has 64");
    let row = "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd3, %rd6, %rd4; st.shared.u32 [%rd3], %r0;";
    let found = fault(arrays, &format!("{used} {row}"), 1, 32, Kind::OutOfBounds);
    assert_eq!((found.count, &*found.detail), (16, "writes 4 bytes at byte 64 of `places`, which has 64"));
    let atomic = told("atom.shared.add.u32 %r4, [%rd5+64], 1;").1;
    assert_eq!(atomic, "changes 4 bytes at byte 64 of `keys`, which has 64");
    // What the launch sizes comes after them, and of this launch has none.
    let beyond = told("st.shared.u32 [%rd7], 1;").1;
    assert_eq!(beyond, "writes 4 bytes at byte 0 of dynamic shared memory, which has 0");
}

#[test]
fn arrays_lie_apart_and_are_counted_as_if_they_did_not() {
    let arrays = ".shared .align 4 .b8 one[20]; .shared .align 16 .b8 two[4]; .shared .align 2048 .b8 three[128]; .extern .shared .align 4 .b8 rest[];";
    let body = "mov.u64 %rd5, one; mov.u64 %rd6, two; mov.u64 %rd7, three; mov.u64 %rd8, rest; st.shared.u64 [%rd5], %rd6; st.shared.u64 [%rd7], %rd8;";
    let kernel = kernel(2, arrays, body);
    let places: Vec<(&str, u32)> =
        kernel.shared.arrays.iter().map(|array| (&*array.name, array.offset)).collect();
    assert_eq!(places, [("one", 0), ("two", 1056), ("three", 4096)]);
    assert_eq!((kernel.shared.bytes, kernel.shared.dynamic), (2176, Some(5248)));
}

#[test]
fn a_vector_from_an_odd_row_is_misaligned() {
    let found = fault("", "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd0];", 1, 32, Kind::Misaligned);
    assert_eq!(found.count, 24, "only every fourth is at a multiple of 16");
    assert_eq!(found.detail, "reads 16 bytes at byte 4 of `x`, which is no multiple of 16");
}

#[test]
fn what_is_written_askew_is_misaligned() {
    // Across lines of what is remembered, in rows and apart, of whole words and of parts.
    let four = "mul.wide.u32 %rd5, %r0, 16; ld.param.u64 %rd6, [p1]; add.s64 %rd6, %rd6, %rd5;";
    let body = format!("{four} st.global.v4.u32 [%rd6+4], {{%r0, %r0, %r0, %r0}};");
    let found = fault("", &body, 1, 31, Kind::Misaligned);
    assert_eq!(
        (found.count, found.detail.as_str()),
        (31, "writes 16 bytes at byte 4 of `y`, which is no multiple of 16")
    );
    let apart = "and.b32 %r4, %r0, 1; mul.wide.u32 %rd5, %r4, 112; ld.param.u64 %rd6, [p1]; add.s64 %rd6, %rd6, %rd5;\n\
        st.global.v4.u32 [%rd6+4], {%r0, %r0, %r0, %r0};";
    assert_eq!(fault("", apart, 1, 2, Kind::Misaligned).count, 2);
    let row = "mul.wide.u32 %rd5, %r0, 8; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5;";
    let body = format!("{row} st.shared.v2.u32 [%rd6+4], {{%r0, %r0}};");
    assert_eq!(fault(SHARED, &body, 1, 32, Kind::Misaligned).count, 32);
    let body = format!("{SLOT} st.shared.u32 [%rd3+2], %r0;");
    assert_eq!(fault(SHARED, &body, 1, 32, Kind::Misaligned).count, 32);
}

#[test]
fn what_nobody_wrote_is_uninitialised() {
    let global = fault("", "ld.global.u32 %r4, [%rd1];", 1, 32, Kind::Uninitialised);
    assert_eq!(
        (global.count, global.detail.as_str()),
        (32, "reads 4 bytes at byte 0 of `y`, which nobody has written")
    );
    fault(SHARED, &format!("{SLOT} ld.shared.u32 %r4, [%rd3];"), 1, 32, Kind::Uninitialised);
    let half = "st.global.u16 [%rd1], %h1; ld.global.u32 %r4, [%rd1];";
    fault("", &format!("mov.u16 %h1, 1; {half}"), 1, 1, Kind::Uninitialised);
    fault(".local .align 4 .b8 l[16];", "ld.local.u32 %r4, [l+4];", 1, 32, Kind::Uninitialised);
    fault(SHARED, &format!("{SLOT} atom.shared.add.u32 %r4, [%rd3], 1;"), 1, 32, Kind::Uninitialised);
    fault(
        SHARED,
        &format!("{SLOT} red.shared.add.u32 [%rd3], 1; ld.shared.u32 %r4, [%rd3];"),
        1,
        32,
        Kind::Uninitialised,
    );
}

#[test]
fn an_input_is_not_written() {
    let found = fault("", "st.global.u32 [%rd0], %r0;", 1, 32, Kind::WriteToInput);
    assert_eq!(found.detail, "writes byte 0 of `x`, which is only to be read");
    fault("", "red.global.add.u32 [%rd0], 1;", 1, 32, Kind::WriteToInput);
    try_all("", "st.global.u32 [%rd0], 7;", 1, 32, |_, memory, _| {
        assert_eq!(&memory.buffers()[0].bytes()[..4], &[0; 4], "and stays as it was");
    });
}

/// Each thread takes what its neighbour put.
fn exchange(barrier: &str) -> String {
    format!(
        "{SLOT} st.shared.u32 [%rd3], %r0; {barrier}\n\
         xor.b32 %r4, %r0, 32; mul.wide.u32 %rd5, %r4, 4; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5;\n\
         ld.shared.u32 %r5, [%rd6]; st.global.u32 [%rd1], %r5;"
    )
}

#[test]
fn a_barrier_orders_warps() {
    clean(SHARED, &exchange("bar.sync 0;"), 1, 128, |y| {
        assert!((0..128).all(|i| y[i] == (i ^ 32) as u32));
    });
    clean(SHARED, &exchange("bar.sync 1, 128;"), 1, 128, |_| {});
    let found = fault(SHARED, &exchange(""), 1, 128, Kind::SharedRace);
    assert!(found.other.is_some(), "both lines are named");
    // It is no order to wait for one's own warp.
    fault(SHARED, &exchange("bar.warp.sync -1;"), 1, 128, Kind::SharedRace);
}

/// Each lane takes what its neighbour in the warp put.
fn exchange_in_a_warp(between: &str) -> String {
    format!(
        "{SLOT} st.shared.u32 [%rd3], %r0; {between}\n\
         xor.b32 %r4, %r0, 1; mul.wide.u32 %rd5, %r4, 4; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5;\n\
         ld.shared.u32 %r5, [%rd6]; st.global.u32 [%rd1], %r5;"
    )
}

#[test]
fn lanes_of_a_warp_need_an_order_as_well() {
    clean(SHARED, &exchange_in_a_warp("bar.warp.sync -1;"), 1, 64, |_| {});
    fault(SHARED, &exchange_in_a_warp(""), 1, 64, Kind::SharedRace);
    // A shuffle synchronises lanes and orders no memory.
    fault(SHARED, &exchange_in_a_warp("shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;"), 1, 64, Kind::SharedRace);
}

#[test]
fn a_word_that_is_read_may_not_be_overwritten_before_a_barrier() {
    // All read s[0]; thread 0 then writes it.
    let body = |barrier: &str| {
        format!(
            "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%rd3], 1;\nbar.sync 0;\n\
             ld.shared.u32 %r4, [%rd3]; {barrier}\n@%p0 st.shared.u32 [%rd3], 2;\nst.global.u32 [%rd1], %r4;"
        )
    };
    fault(SHARED, &body(""), 1, 128, Kind::SharedRace);
    clean(SHARED, &body("bar.sync 0;"), 1, 128, |y| assert!(y[..128].iter().all(|&value| value == 1)));
}

/// Each lane reads its word of eight into `%r4`, `%r20` is the sum of all, and goes back into one of them.
fn sum_again(between: &str, back: &str) -> String {
    format!(
        "{SLOT} st.shared.u32 [%rd3], %r0; bar.sync 0; and.b32 %r7, %r0, 7; mul.wide.u32 %rd4, %r7, 4; mov.u64 %rd3, s;\n\
         add.s64 %rd3, %rd3, %rd4; mov.u64 %rd5, s; setp.eq.u32 %p0, %r0, 0;\n\
         ld.shared.u32 %r4, [%rd3]; {between}\n\
         shfl.sync.bfly.b32 %r10, %r4, 1, 31, -1; add.u32 %r11, %r4, %r10;\n\
         shfl.sync.bfly.b32 %r12, %r11, 2, 31, -1; add.u32 %r13, %r11, %r12;\n\
         shfl.sync.bfly.b32 %r14, %r13, 4, 31, -1; add.u32 %r20, %r13, %r14;\n\
         {back}\nst.global.u32 [%rd1], %r20;"
    )
}

#[test]
fn what_is_made_of_a_read_by_a_shuffle_comes_after_it() {
    let sums = |y: &[u32]| assert!(y[..32].iter().all(|&sum| sum == 28));
    clean(SHARED, &sum_again("", "@%p0 st.shared.u32 [%rd5+4], %r20;"), 1, 32, sums);
    clean(SHARED, &sum_again("", "@!%p0 bra END; st.shared.u32 [%rd5+4], %r20;\nEND:"), 1, 32, sums);
    // Where to says what was read as well.
    let there = "sub.u32 %r6, %r20, 24; cvt.u64.u32 %rd6, %r6; add.s64 %rd6, %rd5, %rd6; @%p0 st.shared.u32 [%rd6], %r0;";
    clean(SHARED, &sum_again("", there), 1, 32, sums);
    // In blocks of fewer lanes than a warp, too.
    clean(SHARED, &sum_again("", "@%p0 st.shared.u32 [%rd5+4], %r20;"), 1, 8, |_| {});
    // A value that was not made of it may be written before it is read.
    let other = |between: &str| sum_again(between, "@%p0 st.shared.u32 [%rd5+4], %r6;");
    fault(SHARED, &other("mov.u32 %r6, 1;"), 1, 32, Kind::SharedRace);
    let shuffled = "shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;";
    fault(SHARED, &other(shuffled), 1, 32, Kind::SharedRace);
    // Nor is what a lane made of its own an order with what others read.
    fault(SHARED, &other("add.u32 %r6, %r4, 1;"), 1, 32, Kind::SharedRace);
    // A read that comes after the exchange is not what led to it.
    let again = "ld.shared.u32 %r8, [%rd3]; @%p0 st.shared.u32 [%rd5+4], %r20;";
    fault(SHARED, &sum_again("", again), 1, 32, Kind::SharedRace);
    // Nor is another warp's.
    let both = fault(SHARED, &sum_again("", "@%p0 st.shared.u32 [%rd5+4], %r20;"), 1, 64, Kind::SharedRace);
    assert!(!both.detail.contains("`__syncwarp()`"), "{}", both.detail);
    // Lanes that took no part are not waited for.
    let halves = "setp.lt.u32 %p1, %r0, 8; mov.u32 %r6, 0;\n@%p1 shfl.sync.bfly.b32 %r6, %r4, 1, 31, 255;\n";
    fault(SHARED, &other(halves), 1, 32, Kind::SharedRace);
}

#[test]
fn what_is_made_of_a_read_orders_no_rounds_of_a_loop() {
    // What was read in the round before is written after the next read.
    let body = format!(
        "{SLOT} st.shared.u32 [%rd3], %r0; bar.sync 0; mov.u64 %rd5, s; setp.eq.u32 %p0, %r0, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;\n\
         LOOP: ld.shared.u32 %r4, [%rd3]; @%p0 st.shared.u32 [%rd5+4], %r6;\n\
         shfl.sync.bfly.b32 %r6, %r4, 1, 31, -1; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 2; @%p1 bra LOOP;"
    );
    fault(SHARED, &body, 1, 32, Kind::SharedRace);
}

#[test]
fn a_word_that_all_read_is_written_by_one_who_knows_from_all() {
    // A whole warp reads one word, adds up what it got, and a lane writes the sum there.
    let sum = [1, 2, 4, 8, 16]
        .map(|by| format!("shfl.sync.bfly.b32 %r5, %r4, {by}, 31, -1; add.u32 %r4, %r4, %r5;"))
        .join("\n");
    let body = |sum: &str| {
        format!(
            "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%rd3], 1;\nbar.sync 0;\n\
             ld.shared.u32 %r4, [%rd3]; {sum}\n@%p0 st.shared.u32 [%rd3], %r4;\nst.global.u32 [%rd1], %r4;"
        )
    };
    clean(SHARED, &body(&sum), 1, 32, |y| assert!(y[..32].iter().all(|&sum| sum == 32)));
    fault(SHARED, &body("add.u32 %r4, %r4, 1;"), 1, 32, Kind::SharedRace);
    let half = "setp.lt.u32 %p1, %r0, 16; @!%p1 bra END;\nshfl.sync.bfly.b32 %r5, %r4, 1, 31, 65535; add.u32 %r4, %r4, %r5;";
    fault(SHARED, &body(half).replace("st.global.u32 [%rd1], %r4;", "END:"), 1, 32, Kind::SharedRace);
}

#[test]
fn who_reads_again_does_not_race_with_itself() {
    // All lanes read a word, and one of them does so again before it writes it.
    let body = "mov.u64 %rd3, s; st.shared.u32 [%rd3], 1; bar.sync 0; ld.shared.u32 %r4, [%rd3];\n\
        setp.ne.u32 %p0, %r0, 5; @%p0 bra END; ld.shared.u32 %r5, [%rd3]; st.shared.u32 [%rd3], %r0;\nEND:";
    let found = fault(SHARED, body, 1, 32, Kind::SharedRace);
    assert!(!found.detail.contains("which thread (5,0,0)"), "{}", found.detail);
}

#[test]
fn the_same_value_by_all_is_no_race() {
    clean(
        SHARED,
        "mov.u64 %rd3, s; st.shared.u32 [%rd3], 7;\nbar.sync 0;\nld.shared.u32 %r4, [%rd3]; st.global.u32 [%rd1], %r4;",
        1,
        128,
        |y| {
            assert!(y[..128].iter().all(|&value| value == 7));
        },
    );
    fault(SHARED, "mov.u64 %rd3, s; st.shared.u32 [%rd3], %r0;", 1, 128, Kind::SharedRace);
}

#[test]
fn of_lanes_that_write_to_one_place_another_one_lands_in_another_order() {
    let read = "ld.param.u64 %rd1, [p1]; bar.sync 0; ld.shared.v2.u32 {%r5, %r6}, [%rd3]; st.global.v2.u32 [%rd1], {%r5, %r6};";
    let body =
        format!("mov.u64 %rd3, s; add.u32 %r4, %r0, 100; st.shared.v2.u32 [%rd3], {{%r0, %r4}}; {read}");
    let landed = std::cell::RefCell::new(Vec::new());
    try_all(SHARED, &body, 1, 32, |report, _, y| {
        assert!(report.faults.iter().all(|fault| fault.kind == Kind::ContestedWrite), "{:?}", report.faults);
        let found = &report.faults[0];
        assert_eq!((found.count, &found.other), (62, &None), "of each lane but one, and each half");
        assert!(found.detail.contains("at the same time as thread"), "{}", found.detail);
        assert_eq!(y[1], y[0] + 100, "one lane wrote both");
        landed.borrow_mut().push(y[0]);
    });
    assert_eq!(landed.take(), [31, 0, 0, 0]);
    // A lane that writes what another warp wrote does not hide that warp from a lane that does not.
    let beside = "mov.u64 %rd3, s; add.u32 %r4, %r0, 1; and.b32 %r4, %r4, 31; shr.u32 %r4, %r4, 1; min.u32 %r4, %r4, 1; st.shared.u32 [%rd3], %r4;";
    fault(SHARED, beside, 1, 64, Kind::SharedRace);
    // Lanes of which each comes in its own turn race, and so do the warps that both write.
    let alone = "mov.u64 %rd3, s; setp.lt.u32 %p0, %r0, 16; @%p0 bra A; st.shared.u32 [%rd3], %r0; bra E;\nA: st.shared.u32 [%rd3], %r0;\nE:";
    fault(SHARED, alone, 1, 32, Kind::SharedRace);
    fault(
        SHARED,
        "mov.u64 %rd3, s; shr.u32 %r4, %r0, 1; st.shared.u32 [%rd3], %r4;",
        1,
        64,
        Kind::SharedRace,
    );
}

#[test]
fn atomics_do_not_race_with_atomics() {
    let counted = "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.u32 [%rd3], 0;\nbar.sync 0;\n\
        red.shared.add.u32 [%rd3], 1; bar.sync 0; ld.shared.u32 %r4, [%rd3]; st.global.u32 [%rd1], %r4;";
    clean(SHARED, counted, 1, 128, |y| assert!(y[..128].iter().all(|&value| value == 128)));
    fault(SHARED, &counted.replacen("bar.sync 0;", "", 1), 1, 128, Kind::SharedRace);
    fault(SHARED, &counted.replacen("1; bar.sync 0;", "1;", 1), 1, 128, Kind::SharedRace);
}

#[test]
fn blocks_that_write_one_place_race() {
    let found = fault("", "ld.param.u64 %rd5, [p1]; st.global.u32 [%rd5], %r1;", 2, 1, Kind::GlobalRace);
    assert!(found.detail.contains("which block ("), "{}", found.detail);
    clean("", "st.global.u32 [%rd1], %r1;", 2, 128, |_| {});
}

/// The last block to come adds up what all have put.
fn last_block(fence: &str) -> String {
    format!(
        "ld.param.u64 %rd5, [p1]; mov.u64 %rd6, counter; cvta.global.u64 %rd6, %rd6;\n\
         mul.wide.u32 %rd7, %r1, 4; add.s64 %rd8, %rd5, %rd7; st.global.u32 [%rd8], %r1;\n{fence}\n\
         atom.global.add.u32 %r4, [%rd6], 1; setp.ne.u32 %p0, %r4, 7;\n@%p0 bra DONE;\n\
         mov.u32 %r5, 0; mov.u32 %r6, 0;\nLOOP: ld.global.u32 %r7, [%rd5]; add.u32 %r5, %r5, %r7; add.s64 %rd5, %rd5, 4;\n\
         add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 8;\n@%p1 bra LOOP;\nst.global.u32 [%rd5], %r5;\nDONE:"
    )
}

/// A kernel with a counter that all blocks share.
fn counting(body: &str) -> Kernel {
    let text = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 counter = 0;\n\
         .visible .entry k(.param .u64 p0, .param .u64 p1)\n{{\n\
         .reg .pred %p<32>; .reg .b32 %r<32>; .reg .b64 %rd<32>;\n{PLACES}{body}\nret;\n}}\n"
    );
    Module::parse(&text).and_then(|module| module.kernel("k")).expect("a kernel")
}

#[test]
fn a_fence_and_a_counter_order_blocks() {
    let run = |kernel: &Kernel, schedule| {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
        let y = room(&mut memory, "y", 9);
        let report = run(kernel, 8, 1, &mut memory, &[x, y], schedule);
        (kinds(&report), u32s(&memory, y)[8])
    };
    // A fence says nothing of what comes after it.
    let early = format!("membar.gl;\n{}", last_block(""));
    for schedule in SCHEDULES {
        assert_eq!(run(&counting(&last_block("membar.gl;")), schedule), (vec![], 28));
        for body in [&last_block(""), &early] {
            let (faults, _) = run(&counting(body), schedule);
            assert!(faults.iter().any(|(kind, _)| *kind == Kind::GlobalRace), "{faults:?}");
        }
    }
}

/// Runs a kernel of one warp a block that counts in columns of `c`, and whose data is `y`.
fn counted_in_columns(body: &str, blocks: u32) -> Report {
    let text = format!(
        "{PLACES}ld.param.u64 %rd5, [p0]; ld.param.u64 %rd6, [p1];\n\
        mul.wide.u32 %rd7, %r0, 4; add.s64 %rd7, %rd5, %rd7; mov.u32 %r5, 0;\n{body}\nret;"
    );
    let kernel = kernel(2, "", &text);
    let mut memory = Memory::new();
    let columns = with_u32s(&mut memory, "c", Role::InOut, vec![0; 4096]);
    let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 4096]);
    run(&kernel, blocks, 32, &mut memory, &[columns, y], Schedule::Forward)
}

#[test]
fn many_places_at_which_blocks_see_each_other_are_followed() {
    // Each block adds to 2048 columns in an order that says something, 32 at a time, then once more. One block leaves something before or after
    // that, and the last reads it.
    let body = |before: &str, after: &str| {
        format!(
            "setp.ne.u32 %p0, %r1, 0; setp.ne.u32 %p1, %r1, 7;\n{before}\n\
             COLUMN: atom.acq_rel.gpu.global.add.u32 %r4, [%rd7], 1; add.s64 %rd7, %rd7, 128; add.u32 %r5, %r5, 1;\n\
             setp.lt.u32 %p2, %r5, 64;\n@%p2 bra COLUMN;\n{after}\n@%p1 ret;\nld.global.u32 %r6, [%rd6]; st.global.u32 [%rd6+128], %r6;"
        )
    };
    let leave = "@!%p0 st.global.u32 [%rd6], 5;";
    let right = counted_in_columns(&body(leave, ""), 8);
    assert_eq!((&right.faults, right.finished, right.followed), (&vec![], true, true));
    let wrong = counted_in_columns(&body("", leave), 8);
    assert!(
        wrong.followed && wrong.faults.iter().any(|fault| fault.kind == Kind::GlobalRace),
        "{:?}",
        wrong.faults
    );
}

#[test]
fn who_sees_much_is_not_looked_for_in_it_again_and_again() {
    // A hundred blocks, each sixteen times at 32 places; what the first does at last the last reads.
    let body = "LOOP: membar.gl; atom.global.add.u32 %r9, [%rd7], 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 16;\n@%p0 bra LOOP;\n\
        mul.wide.u32 %rd8, %r0, 4; add.s64 %rd8, %rd6, %rd8; setp.ne.u32 %p1, %r1, 0;\n@!%p1 st.global.u32 [%rd8], %r0;\n\
        setp.ne.u32 %p2, %r1, 99;\n@%p2 ret;\nld.global.u32 %r4, [%rd8]; ld.global.u32 %r4, [%rd8]; st.global.u32 [%rd8+128], %r4;";
    let started = std::time::Instant::now();
    let report = counted_in_columns(body, 100);
    assert!(report.followed && report.faults.iter().any(|fault| fault.kind == Kind::GlobalRace));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn warps_may_let_each_other_see_at_many_places() {
    // The first warp leaves a number and a flag at each of many places; the second waits for each flag, and reads.
    let body = |fence: &str| {
        format!(
            "ld.param.u64 %rd5, [p0]; and.b32 %r4, %r0, 31; mul.wide.u32 %rd6, %r4, 4; add.s64 %rd5, %rd5, %rd6; mov.u32 %r5, 0;\n\
             setp.ge.u32 %p0, %r0, 32;\n@%p0 bra TAKE;\n\
             PUT: st.global.u32 [%rd5], 7; {fence} st.volatile.global.u32 [%rd5+128], 1; add.s64 %rd5, %rd5, 256; add.u32 %r5, %r5, 1;\n\
             setp.lt.u32 %p1, %r5, 500;\n@%p1 bra PUT;\nret;\n\
             TAKE: ld.volatile.global.u32 %r6, [%rd5+128]; setp.eq.u32 %p1, %r6, 0;\n@%p1 bra TAKE;\n\
             ld.global.u32 %r6, [%rd5]; add.s64 %rd5, %rd5, 256; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 500;\n@%p1 bra TAKE;\nret;"
        )
    };
    for (fence, races) in [("membar.cta;", false), ("", true)] {
        let kernel = kernel(1, "", &format!("mov.u32 %r0, %tid.x;\n{}", body(fence)));
        for schedule in SCHEDULES {
            let mut memory = Memory::new();
            let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 64 * 500]);
            let report = run(&kernel, 1, 64, &mut memory, &[y], schedule);
            assert_eq!((report.faults.is_empty(), report.finished), (!races, true), "{:?}", report.faults);
            assert_eq!(report.followed, races, "16000 places are more than are remembered");
        }
    }
}

#[test]
fn of_very_many_faults_some_are_told() {
    // Each of 128 reads races with each of 128 writes.
    let writes: String = (0..128).map(|of| format!("st.shared.u32 [%rd3+{}], %r0;\n", 4 * of)).collect();
    let reads = "ld.shared.u32 %r4, [%rd3];\n".repeat(128);
    let body = format!(
        "mov.u64 %rd3, s; setp.ne.u32 %p0, %r0, 0;\n@%p0 bra READ;\n{writes}bra END;\nREAD: setp.lt.u32 %p0, %r0, 32;\n@%p0 bra END;\n\
         sub.u32 %r5, %r0, 32; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd3, %rd3, %rd4; mov.u32 %r6, 0;\n\
         AGAIN: {reads}add.s64 %rd3, %rd3, 128; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 4;\n@%p1 bra AGAIN;\n\
         mov.u64 %rd5, 0; ld.global.u32 %r4, [%rd5]; ld.global.u32 %r4, [%rd5];\nEND:"
    );
    let kernel = kernel(2, SHARED, &format!("{PLACES}{body}\nret;"));
    let mut memory = Memory::new();
    let (x, y) = (with_u32s(&mut memory, "x", Role::Input, 0..1), room(&mut memory, "y", 64));
    let report = run(&kernel, 1, 64, &mut memory, &[x, y], Schedule::Forward);
    let count = |kind| report.faults.iter().filter(|fault| fault.kind == kind).count();
    // The reads are of one line, as far as they are told.
    assert_eq!(count(Kind::OutOfBounds), 1, "the first of a kind is told, whatever came before");
    assert!(count(Kind::SharedRace) <= 4096 && report.more_faults > 0, "{}", report.more_faults);
}

#[test]
fn more_than_can_be_followed_is_no_fault() {
    let body = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.global.u32 [%rd6], 5;\n\
        AGAIN: atom.acq_rel.gpu.global.add.u32 %r4, [%rd7], 1; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, TIMES;\n@%p0 bra AGAIN;\n\
        @!%p1 ld.global.u32 %r6, [%rd6];\n@%p1 st.global.u32 [%rd6+4], 5;\n@!%p1 ld.global.u32 %r6, [%rd6+4];";
    let seen = |times: &str| {
        let report = counted_in_columns(&body.replace("TIMES", times), 2);
        assert!(report.finished);
        (report.faults.len(), report.followed)
    };
    assert_eq!(seen("20"), (1, true), "what comes after the last of them races");
    assert_eq!(seen("40000"), (0, false));
}

#[test]
fn a_warp_lets_others_see_of_its_block_what_it_has_seen_itself() {
    // A thread of the second warp reads what the first warp of the other block wrote.
    let body = |barrier: &str| {
        format!(
            "st.global.u32 [%rd1], %r3;\n{barrier}\nsetp.ne.u32 %p0, %r0, 32;\n@%p0 bra DONE;\n\
             mov.u64 %rd6, counter; cvta.global.u64 %rd6, %rd6;\nmembar.gl; atom.global.add.u32 %r4, [%rd6], 1;\n\
             setp.ne.u32 %p1, %r4, 1;\n@%p1 bra DONE;\nxor.b32 %r5, %r1, 1; mul.wide.u32 %rd7, %r5, 256;\n\
             ld.param.u64 %rd5, [p1]; add.s64 %rd8, %rd5, %rd7; ld.global.u32 %r7, [%rd8];\nDONE:"
        )
    };
    for schedule in SCHEDULES {
        for (barrier, faults) in [("bar.sync 0;", vec![]), ("", vec![Kind::GlobalRace])] {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
            let y = room(&mut memory, "y", 128);
            let report = run(&counting(&body(barrier)), 2, 64, &mut memory, &[x, y], schedule);
            assert_eq!(report.faults.iter().map(|fault| fault.kind).collect::<Vec<_>>(), faults);
        }
    }
}

#[test]
fn who_arrives_without_waiting_still_runs() {
    let body = "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra PRODUCER;\nbar.sync 0;\nld.shared.u32 %r4, [s];\nbar.sync 1, 64;\nbra END;\n\
        PRODUCER: bar.arrive 1, 64;\nsetp.ne.u32 %p1, %r0, 32;\n@%p1 bra WRITTEN;\nst.shared.u32 [s], %r0;\nWRITTEN: bar.sync 0;\nEND:";
    clean(SHARED, body, 1, 64, |_| {});
}

#[test]
fn a_warp_arrives_once_however_its_lanes_came_there() {
    // Lanes leave a loop one by one; then the first warp lets the second go.
    let one_by_one = |within: &str| {
        format!(
            "setp.ge.u32 %p0, %r0, 32;\n@%p0 bra WAITS;\nmov.u64 %rd6, counter; mov.u32 %r5, 0;\n\
             LOOP: setp.gt.u32 %p1, %r5, %r0;\n@%p1 bra LEFT;\n{within} add.u32 %r5, %r5, 1;\nbra LOOP;\n\
             LEFT: st.global.u32 [%rd1], %r0;\nbar.arrive 1, 64;\nbra END;\nWAITS: bar.sync 1, 64;\n\
             ld.global.u32 %r6, [%rd1+-128]; st.global.u32 [%rd1], %r6;\nEND:"
        )
    };
    for within in ["", "red.global.add.u32 [%rd6], 1;", "ld.volatile.global.u32 %r4, [%rd6];"] {
        let kernel = counting(&one_by_one(within));
        for schedule in SCHEDULES {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
            let y = room(&mut memory, "y", 64);
            let report = run(&kernel, 1, 64, &mut memory, &[x, y], schedule);
            assert_eq!((report.faults, report.finished), (vec![], true), "{within}, {schedule:?}");
            assert!(u32s(&memory, y).iter().copied().eq((0..32).chain(0..32)), "{within}, {schedule:?}");
        }
    }
    // In reverse, lanes go apart at volatile stores. Two warps let a third go.
    let stores = "shr.u32 %r4, %r0, 5; setp.eq.u32 %p0, %r4, 2;\n@%p0 bra WAITS;\n\
        st.volatile.shared.u32 [%rd3], %r0;\nbar.arrive 1, 96;\nbra END;\nWAITS: bar.sync 1, 96;\n\
        ld.volatile.shared.u32 %r6, [%rd3+-256]; ld.volatile.shared.u32 %r7, [%rd3+-128];\n\
        add.u32 %r6, %r6, %r7; st.global.u32 [%rd1], %r6;\nEND:";
    clean(SHARED, &format!("{SLOT}{stores}"), 1, 96, |y| {
        assert!(y[64..96].iter().copied().eq((0..32).map(|lane| lane + lane + 32)));
    });
    // Lanes that never come to it.
    let some =
        "setp.lt.u32 %p0, %r0, 16;\n@!%p0 bra END;\nbar.arrive 1, 64;\nEND: st.global.u32 [%rd1], %r0;";
    fault("", some, 1, 32, Kind::DivergentBarrier);
}

#[test]
fn who_looks_is_not_held_against_who_writes_what_is_looked_at() {
    // The first warp looks; the third reads, and then lets the second go, which writes.
    let body = |look: &str, read: &str| {
        format!(
            "setp.eq.u32 %p3, %r0, 0;\n@%p3 st.shared.u32 [s], 0;\nbar.sync 0;\n\
             shr.u32 %r5, %r0, 5; setp.eq.u32 %p1, %r5, 1; setp.eq.u32 %p2, %r5, 2;\n@%p1 bra WRITES;\n@%p2 bra READS;\n\
             {look} st.global.u32 [%rd1], %r6;\nbra END;\nREADS: {read} bar.arrive 4, 64;\nbra END;\n\
             WRITES: bar.sync 4, 64;\nsetp.ne.u32 %p3, %r0, 32;\n@%p3 bra END;\nst.volatile.shared.u32 [s], 5;\nEND:"
        )
    };
    let (look, read) = ("ld.volatile.shared.u32 %r6, [s];", "ld.shared.u32 %r7, [s];");
    clean(SHARED, &body(look, read), 1, 96, |_| {});
    clean(SHARED, &body(look, ""), 1, 96, |_| {});
    fault(SHARED, &body(&look.replace(".volatile", ""), read), 1, 96, Kind::SharedRace);
}

#[test]
fn an_index_beyond_its_table_leads_somewhere() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 %r<4>;\n\
        mov.u32 %r1, %tid.x; add.u32 %r1, %r1, 7;\nbra GO;\nA: exit;\nGO:\nT: .branchtargets A;\nbrx.idx %r1, T;\n}\n";
    let kernel = Module::parse(text).and_then(|module| module.kernel("k")).expect("a kernel");
    let report = run(&kernel, 1, 32, &mut Memory::new(), &[], Schedule::Forward);
    assert!(report.finished);
}

#[test]
fn a_launch_may_not_take_for_ever() {
    let kernel = kernel(0, "", "FOR_EVER: bra FOR_EVER;");
    let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared: 0, arguments: vec![] };
    let settings = Settings { patience: Duration::from_millis(10), ..Settings::default() };
    let report = execute::launch(&kernel, &launch, &mut Memory::new(), &settings).expect("a launch");
    assert!(
        report.late && !report.finished && report.faults.is_empty(),
        "who is slow is no fault: {:?}",
        report.faults
    );
    let settings = Settings { limit: 1000, ..Settings::default() };
    let report = execute::launch(&kernel, &launch, &mut Memory::new(), &settings).expect("a launch");
    assert!(!report.late && report.faults[0].kind == Kind::Endless, "{:?}", report.faults);
}

#[test]
fn what_cannot_be_followed_ends_a_launch() {
    let copies = "cvta.to.global.u64 %rd0, %rd0; mov.u64 %rd3, s; cvta.to.shared.u64 %rd3, %rd3; cvt.u32.u64 %r4, %rd3;\n\
        AGAIN: cp.async.ca.shared.global [%r4], [%rd0], 4;\nbra AGAIN;";
    let found = fault(SHARED, copies, 1, 1, Kind::Endless);
    assert!(found.detail.contains("copies"), "{}", found.detail);
    let arrivals =
        "mbarrier.init.shared.b64 [s], 1;\nAGAIN: cp.async.mbarrier.arrive.noinc.shared.b64 [s];\nbra AGAIN;";
    let found = fault(MBARRIER, arrivals, 1, 1, Kind::Endless);
    assert!(found.detail.contains("arrive more often"), "{}", found.detail);
    let threads = kernel(0, ".local .align 4 .b8 l[524288];", "st.local.u32 [l], 1;\nret;");
    let launch = Launch { grid: [1, 1, 1], block: [1024, 1, 1], shared: 0, arguments: vec![] };
    let fits = execute::launch(&threads, &launch, &mut Memory::new(), &Settings::default());
    assert!(fits.is_ok_and(|report| report.finished), "576 MiB");
}

#[test]
fn a_barrier_in_a_branch_of_some_lanes() {
    let body = "setp.lt.u32 %p0, %r0, 16;\n@!%p0 bra SKIP;\nbar.sync 0;\nSKIP: st.global.u32 [%rd1], %r0;";
    let found = fault("", body, 1, 32, Kind::DivergentBarrier);
    assert!(found.detail.contains("0x0000ffff"), "{}", found.detail);
    // Of whole warps, some of which come to another barrier with the same number: allowed.
    clean(
        "",
        "setp.lt.u32 %p0, %r0, 32;\n@!%p0 bra OTHER;\nbar.sync 0;\nbra END;\nOTHER: bar.sync 0;\nEND:",
        1,
        64,
        |_| {},
    );
}

#[test]
fn a_barrier_after_some_have_returned() {
    let body = "setp.ge.u32 %p0, %r0, 40;\n@%p0 ret;\nbar.sync 0;\nst.global.u32 [%rd1], %r0;";
    let found = fault("", body, 1, 64, Kind::BarrierAfterExit);
    assert!(found.detail.contains("24 threads"), "{}", found.detail);
}

#[test]
fn a_barrier_that_not_all_warps_reach_is_a_deadlock() {
    let body = "setp.lt.u32 %p0, %r0, 32;\n@%p0 bar.sync 1, 64;\n@!%p0 bar.sync 2, 64;";
    let found = fault("", body, 1, 64, Kind::Deadlock);
    assert!(found.detail.starts_with("a block waits for ever: 1 warp at PTX line"), "{}", found.detail);
    let bad = fault("", "bar.sync 3, 40;", 1, 64, Kind::BadBarrier);
    assert_eq!(bad.detail, "a barrier of 40 threads is none in a block of 64");
}

#[test]
fn a_loop_without_end_is_given_up() {
    let found = fault("", "FOR_EVER: bra FOR_EVER;", 1, 32, Kind::Endless);
    assert!(found.detail.contains("5000000 instructions"), "{}", found.detail);
}

#[test]
fn a_shuffle_in_a_branch_of_one_lane() {
    let body = "setp.ne.u32 %p0, %r0, 0;\n@%p0 bra SKIP;\nshfl.sync.down.b32 %r4, %r0, 1, 31, -1;\nst.global.u32 [%rd1], %r4;\nSKIP:";
    let found = fault("", body, 1, 32, Kind::InactiveLane);
    assert_eq!(found.detail, "lane 0 takes the value of a lane that takes no part", "the others have ended");
    let found = fault("", &format!("{body} st.global.u32 [%rd1], %r0;"), 1, 32, Kind::MissingLanes);
    assert!(found.detail.contains("0xfffffffe do not come"), "the others wait: {}", found.detail);
    // Lanes that come later are waited for.
    let later = "mov.u32 %r4, %r0; setp.lt.u32 %p0, %r0, 16;\n@%p0 bra A;\nadd.u32 %r4, %r4, 100;\nA: shfl.sync.bfly.b32 %r5, %r4, 16, 31, -1; st.global.u32 [%rd1], %r5;";
    clean("", later, 1, 32, |y| {
        assert!((0..32).all(|i| y[i] == if i < 16 { i as u32 + 116 } else { i as u32 - 16 }));
    });
}

#[test]
fn a_lane_that_its_mask_does_not_name() {
    let found = fault("", "shfl.sync.bfly.b32 %r4, %r0, 1, 31, 0xFFFF;", 1, 32, Kind::WrongMask);
    assert_eq!(found.count, 16);
}

/// `%r6` is what each lane names: the eight of its tile.
const TILES: &str = "and.b32 %r7, %r0, 24; mov.u32 %r8, 0xff; shl.b32 %r6, %r8, %r7;\n";

#[test]
fn tiles_of_a_warp_are_groups_of_their_own() {
    let tiles = |operation: &str, right: &dyn Fn(u32) -> u32| {
        let body = format!("{TILES}{operation} st.global.u32 [%rd1], %r5;");
        clean("", &body, 1, 32, |y| assert!(y[..32].iter().copied().eq((0..32).map(right)), "{y:?}"));
    };
    tiles("shfl.sync.bfly.b32 %r5, %r0, 4, 31, %r6;", &|lane| lane ^ 4);
    tiles("redux.sync.add.u32 %r5, %r0, %r6;", &|lane| 8 * (lane & 24) + 28);
    tiles("setp.gt.u32 %p0, %r0, 9;\nvote.sync.ballot.b32 %r5, %p0, %r6;", &|lane| {
        [0, 0xfc00, 0xff_0000, 0xff00_0000][lane as usize / 8]
    });
    tiles("shr.u32 %r9, %r0, 1; and.b32 %r9, %r9, 1; match.any.sync.b32 %r5, %r9, %r6;", &|lane| {
        (if lane & 2 == 0 { 0x33 } else { 0xcc }) << (lane & 24)
    });
    tiles("mov.u32 %r5, %r0; bar.warp.sync %r6;", &|lane| lane);
    // What alike lanes sum up among themselves: a mask that an operation gave.
    tiles(
        "and.b32 %r9, %r0, 3; match.any.sync.b32 %r10, %r9, -1; redux.sync.add.u32 %r5, %r0, %r10;",
        &|lane| 8 * (lane & 3) + 4 * 28,
    );
}

#[test]
fn of_tiles_those_go_on_that_are_whole() {
    // The second half of the third tile comes later than the rest of it, and than all others.
    let late = "mov.u32 %r4, %r0; setp.lt.u32 %p0, %r0, 20;\n@%p0 bra A;\nadd.u32 %r4, %r4, 100;\nA:";
    let body = format!("{TILES}{late} shfl.sync.bfly.b32 %r5, %r4, 4, 31, %r6; st.global.u32 [%rd1], %r5;");
    clean("", &body, 1, 32, |y| {
        let right = |lane: u32| (lane ^ 4) + if lane ^ 4 < 20 { 0 } else { 100 };
        assert!(y[..32].iter().copied().eq((0..32).map(right)), "{y:?}");
    });
    let body = format!(
        "{TILES}setp.lt.u32 %p0, %r0, 20;\n@!%p0 bra END;\nshfl.sync.bfly.b32 %r5, %r0, 4, 31, %r6; st.global.u32 [%rd1], %r5;\nEND: st.global.u32 [%rd1], %r0;"
    );
    let found = fault("", &body, 1, 32, Kind::MissingLanes);
    assert!(found.detail.ends_with("0x00f00000 do not come"), "{}", found.detail);
    assert_eq!(found.count, 4);
}

#[test]
fn lanes_that_disagree_about_who_takes_part() {
    let body = "setp.lt.u32 %p0, %r0, 8;\nselp.b32 %r6, 0xff, -1, %p0;\nshfl.sync.bfly.b32 %r5, %r0, 4, 31, %r6; st.global.u32 [%rd1], %r5;";
    let found = fault("", body, 1, 32, Kind::WrongMask);
    assert_eq!(
        (found.count, found.detail.as_str()),
        (24, "lane 8 names lanes 0xffffffff in an operation, of which lane 0 names 0x000000ff")
    );
}

#[test]
fn a_trap_ends_the_launch() {
    let body = "setp.eq.u32 %p0, %r0, 5;\n@%p0 trap;\nst.global.u32 [%rd1], %r0;";
    let found = fault("", body, 1, 32, Kind::Trap);
    assert_eq!(found.thread.thread, [5, 0, 0]);
    try_all("", body, 1, 32, |report, _, _| assert!(!report.finished));
}

#[test]
fn asynchronous_copies_land_when_they_are_waited_for() {
    let body = |wait: &str| {
        format!(
            "{SLOT} cp.async.ca.shared.global [%rd3], [%rd0], 4;\ncp.async.commit_group;\n{wait}\n\
             ld.shared.u32 %r5, [%rd3]; st.global.u32 [%rd1], %r5;"
        )
    };
    clean(SHARED, &body("cp.async.wait_group 0;"), 1, 64, |y| assert!(y[..64].iter().copied().eq(0..64)));
    clean(SHARED, &body("cp.async.wait_all;"), 1, 64, |_| {});
    let early = fault(SHARED, &body("cp.async.wait_group 1;"), 1, 64, Kind::Uninitialised);
    assert!(early.detail.contains("where the copy of PTX line"), "{}", early.detail);
    assert!(early.detail.ends_with("has not been waited for"), "{}", early.detail);
    fault(SHARED, &body(""), 1, 64, Kind::NeverWaited);
}

/// Each thread puts its number into shared memory, arrives, waits for 64 arrivals, and takes what the other warp put. `%r20` is the barrier.
fn meet_at_mbarrier(init: &str, arrive: &str, wait: &str) -> String {
    format!(
        "{SLOT} cvt.u32.u64 %r20, %rd3; sub.u32 %r20, %r20, %r20; add.u32 %r20, %r20, 512;\n\
         setp.ne.u32 %p0, %r0, 0;\n@%p0 bra MADE;\n{init}\nMADE: bar.sync 0;\n\
         st.shared.u32 [%rd3], %r0; {arrive}\n{wait}\n\
         xor.b32 %r4, %r0, 32; mul.wide.u32 %rd5, %r4, 4; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5;\n\
         ld.shared.u32 %r5, [%rd6]; st.global.u32 [%rd1], %r5;"
    )
}

const MBARRIER: &str = ".shared .align 8 .b8 s[1024];";
const MAKE: &str = "mbarrier.init.shared.b64 [%r20], 64;";
const ARRIVE: &str = "mbarrier.arrive.shared.b64 %rd7, [%r20];";
const WAIT: &str = "WAIT: mbarrier.test_wait.shared.b64 %p1, [%r20], %rd7;\n@!%p1 bra WAIT;";

#[test]
fn an_mbarrier_orders_who_arrives_before_who_waits() {
    let exchanged = |y: &[u32]| assert!((0..64).all(|i| y[i] == i as u32 ^ 32), "{y:?}");
    clean(MBARRIER, &meet_at_mbarrier(MAKE, ARRIVE, WAIT), 2, 64, exchanged);
    let parity = "WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;\n@!%p1 bra WAIT;";
    clean(MBARRIER, &meet_at_mbarrier(MAKE, ARRIVE, parity), 1, 64, exchanged);
    // One of two arrivals that a thread owes says that it is not the last.
    let twice =
        "mbarrier.arrive.noComplete.shared.b64 %rd8, [%r20], 1; mbarrier.arrive.shared.b64 %rd7, [%r20];";
    let make = "mbarrier.init.shared.b64 [%r20], 128;";
    clean(MBARRIER, &meet_at_mbarrier(make, twice, WAIT), 1, 64, exchanged);
    // The state says how many are awaited, and how many phases there were.
    let counts = format!(
        "{SLOT} cvt.u32.u64 %r20, %rd3;\n{} mbarrier.arrive_drop.shared.b64 %rd7, [%r20]; mbarrier.pending_count.b64 %r4, %rd7;\n\
         mbarrier.arrive.shared.b64 %rd8, [%r20]; mbarrier.pending_count.b64 %r5, %rd8;\n\
         mbarrier.test_wait.shared.b64 %p1, [%r20], %rd7;\nmbarrier.arrive.shared.b64 %rd9, [%r20]; mbarrier.pending_count.b64 %r6, %rd9;\n\
         mbarrier.test_wait.shared.b64 %p2, [%r20], %rd9;\nselp.u32 %r7, 1, 0, %p1; selp.u32 %r8, 1, 0, %p2;\n\
         shl.b32 %r4, %r4, 12; shl.b32 %r5, %r5, 8; shl.b32 %r6, %r6, 4; or.b32 %r4, %r4, %r5; or.b32 %r4, %r4, %r6; shl.b32 %r7, %r7, 1;\n\
         or.b32 %r4, %r4, %r7; or.b32 %r4, %r4, %r8; st.global.u32 [%rd1], %r4;",
        "mbarrier.init.shared.b64 [%r20], 2;"
    );
    clean(MBARRIER, &counts, 1, 1, |y| {
        assert_eq!(y[0], 0x2113, "2 awaited, 1, then 1 of 1, and both phases complete")
    });
}

#[test]
fn what_an_mbarrier_does_not_order_races() {
    // Nobody waits; some wait for the phase before; it is made while others use it.
    fault(MBARRIER, &meet_at_mbarrier(MAKE, ARRIVE, ""), 1, 64, Kind::SharedRace);
    let before = "WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 1;\n@!%p1 bra WAIT;";
    fault(MBARRIER, &meet_at_mbarrier(MAKE, ARRIVE, before), 1, 64, Kind::SharedRace);
    let unmet = meet_at_mbarrier(MAKE, ARRIVE, WAIT).replace("MADE: bar.sync 0;", "MADE:");
    try_all(MBARRIER, &unmet, 1, 64, |report, _, _| {
        let told = |kind| report.faults.iter().any(|fault| fault.kind == kind);
        assert!(told(Kind::SharedRace) || told(Kind::Uninitialised), "{:?}", report.faults);
    });
    // Half of a warp that arrives lets nothing be seen of another.
    let half = "setp.ge.u32 %p2, %r0, 32;\n@%p2 mbarrier.arrive.shared.b64 %rd7, [%r20];";
    let make = "mbarrier.init.shared.b64 [%r20], 32;";
    let parity = "WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;\n@!%p1 bra WAIT;";
    fault(MBARRIER, &meet_at_mbarrier(make, half, parity), 1, 64, Kind::SharedRace);
}

#[test]
fn what_is_no_mbarrier_is_told() {
    let told = |make: &str, arrive: &str| {
        fault(MBARRIER, &meet_at_mbarrier(make, arrive, ""), 1, 64, Kind::BadBarrier).detail
    };
    assert_eq!(
        told("st.shared.u64 [%r20], 0;", ARRIVE),
        "uses byte 512 of `s` as an mbarrier, which it is not, or no more"
    );
    assert_eq!(
        told(&format!("{MAKE} mbarrier.inval.shared.b64 [%r20];"), ARRIVE),
        "uses byte 512 of `s` as an mbarrier, which it is not, or no more"
    );
    let none = "mbarrier.init.shared.b64 [%r20], 0;";
    assert_eq!(told(none, ""), "makes an mbarrier of 0 arrivals: 1 to 1048575 can be");
    let many = "mbarrier.arrive.noComplete.shared.b64 %rd7, [%r20], 65;";
    assert_eq!(told(MAKE, many), "arrives 65 times at an mbarrier whose phase waits for 64");
    let last = "mbarrier.arrive.noComplete.shared.b64 %rd7, [%r20], 1;";
    assert_eq!(told(MAKE, last), "completes a phase with an arrival that says it does not");
    let state = "mov.u64 %rd7, 5; mbarrier.test_wait.shared.b64 %p1, [%r20], %rd7;";
    assert_eq!(told(MAKE, state), "asks for a state that no arrival gave");
    let found = fault(MBARRIER, &meet_at_mbarrier("", ARRIVE, ""), 1, 64, Kind::Uninitialised);
    assert_eq!(found.detail, "reads 8 bytes at byte 512 of `s`, which nobody has written");
}

#[test]
fn who_waits_for_arrivals_that_do_not_come_waits_for_ever() {
    let make = "mbarrier.init.shared.b64 [%r20], 65;";
    let found = fault(MBARRIER, &meet_at_mbarrier(make, ARRIVE, WAIT), 1, 64, Kind::Deadlock);
    assert!(found.detail.starts_with("a block waits for ever: 2 warps at PTX line"), "{}", found.detail);
    let lacks = "; the mbarrier at byte 512 of `s` is in phase 0 and lacks 1 of 65 arrivals";
    assert!(found.detail.ends_with(lacks), "{}", found.detail);
}

#[test]
fn copies_arrive_at_an_mbarrier_when_they_have_landed() {
    let copy = "cp.async.ca.shared.global [%rd3], [%rd0], 4;";
    let body = |count: u32, arrive: &str, wait: &str| {
        let body = meet_at_mbarrier(&format!("mbarrier.init.shared.b64 [%r20], {count};"), arrive, wait);
        body.replace("st.shared.u32 [%rd3], %r0;", copy)
    };
    let exchanged = |y: &[u32]| assert!((0..64).all(|i| y[i] == i as u32 ^ 32), "{y:?}");
    // The copies' arrival comes on top of the thread's own, or is the one that is counted.
    let both = format!("cp.async.mbarrier.arrive.shared.b64 [%r20]; {ARRIVE}");
    clean(MBARRIER, &body(64, &both, WAIT), 1, 64, exchanged);
    let parity = "WAIT: mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;\n@!%p1 bra WAIT;";
    clean(MBARRIER, &body(64, "cp.async.mbarrier.arrive.noinc.shared.b64 [%r20];", parity), 1, 64, exchanged);
    // The first warp copies and ends; the second uses what came.
    let producer = "setp.ge.u32 %p2, %r0, 32;\n@%p2 bra USE;\nadd.u64 %rd10, %rd3, 128; cp.async.ca.shared.global [%rd3], [%rd0], 4;\n\
        cp.async.mbarrier.arrive.noinc.shared.b64 [%r20];\nret;\nUSE:";
    let body = body(32, producer, parity).replace(copy, "").replace("USE:", "USE:\n");
    let body = body.replace(
        "add.u64 %rd10, %rd3, 128;",
        "add.u64 %rd10, %rd3, 128; cp.async.ca.shared.global [%rd3], [%rd0], 4;",
    );
    clean(MBARRIER, &body, 1, 64, |y| assert!((32..64).all(|i| y[i] == i as u32 - 32), "{y:?}"));
    // Who does not wait finds nothing, and a copy that came after the arrival is waited for by nobody.
    let copied = |arrive: &str, wait: &str| {
        let body = meet_at_mbarrier(MAKE, arrive, wait);
        body.replace("st.shared.u32 [%rd3], %r0;", "")
    };
    let early = copied(&format!("{copy} {both}"), "");
    fault(MBARRIER, &early, 1, 64, Kind::Uninitialised);
    let late = copied(&format!("{both} {copy}"), WAIT);
    fault(MBARRIER, &late, 1, 64, Kind::Uninitialised);
    fault(MBARRIER, &late, 1, 64, Kind::NeverWaited);
}

#[test]
fn what_the_launch_wrote_is_stale_by_way_of_the_cache_that_does_not_see_it() {
    let found = fault("", "st.global.u32 [%rd1], %r0; ld.global.nc.u32 %r4, [%rd1];", 1, 32, Kind::StaleRead);
    assert_eq!((found.count, found.other.map(|line| line.line)), (32, Some(found.line.line)));
    assert!(found.detail.starts_with("reads byte 0 of `y` through a cache"), "{}", found.detail);
    // The block that comes last sums up what all have left: nothing races, and yet it may not read it that way.
    let last = |load: &str| {
        let body = format!(
            "{PLACES}st.global.u32 [%rd1], %r1; membar.gl; ld.param.u64 %rd5, [p1]; atom.global.add.u32 %r4, [%rd5+8], 1;\n\
             setp.ne.u32 %p0, %r4, 1;\n@%p0 ret;\n{load} %r5, [%rd5]; {load} %r6, [%rd5+4]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd5+12], %r5;\nret;"
        );
        let kernel = kernel(2, "", &body);
        SCHEDULES.map(|schedule| {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
            let y = with_u32s(&mut memory, "y", Role::InOut, [0; 4]);
            let report = run(&kernel, 2, 1, &mut memory, &[x, y], schedule);
            assert_eq!(u32s(&memory, y)[3], 1);
            kinds(&report).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
        })
    };
    assert_eq!(last("ld.global.u32"), [(); 4].map(|()| Vec::new()));
    assert_eq!(last("ld.global.nc.u32"), [(); 4].map(|()| vec![Kind::StaleRead; 1]));
    // What was written before the launch is not stale.
    clean("", "ld.global.nc.u32 %r4, [%rd0]; st.global.u32 [%rd1], %r4;", 1, 32, |y| assert_eq!(y[31], 31));
}

/// `%rd3` is the place of a half word in shared memory that the other warp's halves lie between.
const HALF: &str = "and.b32 %r4, %r0, 31; shl.b32 %r4, %r4, 2; shr.u32 %r5, %r0, 5; shl.b32 %r5, %r5, 1; add.u32 %r4, %r4, %r5;\n\
    cvt.u64.u32 %rd4, %r4; mov.u64 %rd3, s; add.s64 %rd3, %rd3, %rd4; mov.u16 %h1, 1; st.shared.u16 [%rd3], %h1; bar.sync 0;\n";

#[test]
fn parts_of_a_word_are_places_of_their_own() {
    let more = "add.u16 %h2, %h2, %h1; st.shared.u16 [%rd3], %h2;";
    let body =
        format!("{HALF} ld.shared.u16 %h2, [%rd3]; {more} cvt.u32.u16 %r6, %h2; st.global.u32 [%rd1], %r6;");
    clean(SHARED, &body, 1, 64, |y| assert!(y[..64].iter().all(|&value| value == 2)));
    // Of bytes, four threads to a word, each reads, and then writes what is its own.
    let bytes = "cvt.u64.u32 %rd4, %r0; mov.u64 %rd3, s; add.s64 %rd3, %rd3, %rd4; st.shared.u8 [%rd3], %h1; bar.sync 0;\n\
        ld.shared.u8 %h2, [%rd3]; add.u16 %h2, %h2, %h2; st.shared.u8 [%rd3], %h2; st.global.u32 [%rd1], %r0;";
    clean(SHARED, &format!("mov.u16 %h1, 1; {bytes}"), 1, 64, |_| {});
    // Who reads the other half of the word, and then writes, races with whom that is of.
    fault(
        SHARED,
        &format!(
            "{HALF} xor.b32 %r4, %r4, 2; cvt.u64.u32 %rd5, %r4; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5; ld.shared.u16 %h2, [%rd6]; {more}"
        ),
        1,
        64,
        Kind::SharedRace,
    );
}

#[test]
fn blocks_wait_for_all_others_however_they_look() {
    let wait = |look: &str| {
        format!(
            "{PLACES}ld.param.u64 %rd5, [p1]; atom.global.add.u32 %r4, [%rd5], 1;\n\
             WAIT: {look}\nsetp.lt.u32 %p0, %r4, 200;\n@%p0 bra WAIT;\nret;"
        )
    };
    for look in [
        "ld.volatile.global.u32 %r4, [%rd5];",
        "atom.global.add.u32 %r4, [%rd5], 0;",
        "membar.gl; atom.global.or.b32 %r4, [%rd5], 0;",
    ] {
        let kernel = kernel(2, "", &wait(look));
        for schedule in SCHEDULES {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
            let y = with_u32s(&mut memory, "y", Role::InOut, [0; 4]);
            let report = run(&kernel, 200, 1, &mut memory, &[x, y], schedule);
            assert!(report.finished && report.faults.is_empty(), "{look} {:?}", report.faults);
            // Each block is counted for what it did, and not for how often it had to look.
            assert!(
                report.meter.buffers[1].read.requests < 2000,
                "{look} {:?}",
                report.meter.buffers[1].read
            );
        }
        // One more than there are.
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
        let y = with_u32s(&mut memory, "y", Role::InOut, [0; 4]);
        let report = run(&kernel, 4, 1, &mut memory, &[x, y], Schedule::Forward);
        assert_eq!(
            kinds(&report).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
            [Kind::Deadlock],
            "{look}"
        );
    }
}

#[test]
fn looks_at_several_places_are_several_looks() {
    // Twelve places that hold the same, each looked at once, and one looked at twelve times.
    let body = |step: u32| {
        format!(
            "{PLACES}ld.param.u64 %rd5, [p1]; mov.u32 %r4, 0;\nNEXT: ld.volatile.global.u32 %r5, [%rd5]; add.s64 %rd5, %rd5, {step};\n\
             add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 12;\n@%p0 bra NEXT;\nret;"
        )
    };
    for (step, requests) in [(4, 12), (0, 1)] {
        let kernel = kernel(2, "", &body(step));
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
        let y = with_u32s(&mut memory, "y", Role::InOut, [7; 12]);
        let report = run(&kernel, 1, 1, &mut memory, &[x, y], Schedule::Forward);
        assert_eq!(report.meter.buffers[1].read.requests, requests, "{step}");
    }
}

#[test]
fn a_copy_may_land_as_soon_as_it_is_asked_for() {
    let body = |done: &str| {
        format!(
            "{SLOT} cp.async.ca.shared.global [%rd3], [%rd0], 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;\n\
             xor.b32 %r4, %r0, 32; mul.wide.u32 %rd5, %r4, 4; mov.u64 %rd6, s; add.s64 %rd6, %rd6, %rd5;\n\
             ld.shared.u32 %r5, [%rd6];\n{done}\ncp.async.ca.shared.global [%rd3], [%rd0], 4; cp.async.commit_group; bar.sync 0;\n\
             cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r6, [%rd6]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd1], %r5;"
        )
    };
    clean(SHARED, &body("bar.sync 0;"), 1, 64, |y| assert_eq!(y[1], 66));
    let askew = body("bar.sync 0;").replace("[%rd3], [%rd0], 4", "[%rd3+2], [%rd0], 4");
    assert_eq!(
        fault(SHARED, &askew, 1, 64, Kind::Misaligned).count,
        64,
        "each thread once, though its copy is asked for and lands"
    );
    let found = fault(SHARED, &body(""), 1, 64, Kind::SharedRace);
    assert!(found.detail.contains("copied to at") || found.detail.contains(" read at "), "{}", found.detail);
}

#[test]
fn a_copy_that_is_waited_for_too_late_is_seen_where_something_was_before() {
    // Two buffers in turns, of which each is asked for one round ahead: in the third round the first holds what was there in the first.
    let rounds = |wait: &str| {
        let round = |round: u32, wait: &str| {
            let (next, this) = (128 * ((round + 1) % 2), 128 * (round % 2));
            format!(
                "cp.async.ca.shared.global [%rd3+{next}], [%rd0+{}], 4; cp.async.commit_group; {wait} bar.sync 0;\n\
                 ld.shared.u32 %r5, [%rd5+{this}]; add.u32 %r6, %r6, %r5; bar.sync 0;\n",
                128 * (round + 1)
            )
        };
        let rest: String =
            (0..4).map(|of| round(of, if of < 2 { "cp.async.wait_group 1;" } else { wait })).collect();
        format!(
            "{SLOT} xor.b32 %r4, %r0, 1; mul.wide.u32 %rd4, %r4, 4; mov.u64 %rd5, s; add.s64 %rd5, %rd5, %rd4; mov.u32 %r6, 0;\n\
             cp.async.ca.shared.global [%rd3], [%rd0], 4; cp.async.commit_group;\n{rest}cp.async.wait_all; st.global.u32 [%rd1], %r6;"
        )
    };
    clean(SHARED, &rounds("cp.async.wait_group 1;"), 1, 32, |y| {
        assert_eq!(y[1], 32 + 64 + 96, "what is beside the first of each row");
    });
    let late = rounds("cp.async.wait_group 2;");
    let found = fault(SHARED, &late, 1, 32, Kind::Uninitialised);
    assert!(found.detail.contains("where the copy of"), "{}", found.detail);
    // Something hangs on it, also where nobody looks for what is not known.
    let kernel = kernel(2, SHARED, &format!("{PLACES}{late}\nret;"));
    let result = |fill| {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
        let y = room(&mut memory, "y", 256);
        let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
        let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared: 0, arguments };
        let settings = Settings { fill, scrutiny: Scrutiny::Results, ..Settings::default() };
        execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        u32s(&memory, y)[1]
    };
    assert_ne!(result(0), result(0x7B));
}

#[test]
fn a_fence_lets_be_seen_what_came_before_it() {
    // The block that comes last sums up what the threads of both have left.
    let last = |before: &str, after: &str| {
        let body = format!(
            "{PLACES}st.global.u32 [%rd1], %r0;\nsetp.ne.u32 %p1, %r0, 0;\n{before}\nbar.sync 0;\n@%p1 ret;\n{after}\nld.param.u64 %rd5, [p1];\n\
             atom.global.add.u32 %r4, [%rd5+512], 1;\nsetp.ne.u32 %p0, %r4, 1;\n@%p0 ret;\n\
             ld.global.u32 %r5, [%rd5+252]; ld.global.u32 %r6, [%rd5+508]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd5+516], %r5;\nret;"
        );
        let kernel = kernel(2, "", &body);
        SCHEDULES.map(|schedule| {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
            let y = with_u32s(&mut memory, "y", Role::InOut, [0; 130]);
            let report = run(&kernel, 2, 64, &mut memory, &[x, y], schedule);
            assert_eq!(u32s(&memory, y)[129], 126);
            !report.faults.is_empty()
        })
    };
    assert_eq!(last("membar.gl;", ""), [false; 4], "each has made its own visible");
    assert_eq!(last("", "membar.gl;"), [false; 4], "the first what all have done");
    assert_eq!(last("", ""), [true; 4]);
    assert_eq!(last("@!%p1 membar.gl;", ""), [true; 4], "what others did came later");
}

#[test]
fn lanes_may_come_apart_to_a_barrier_that_says_so() {
    let body = |barrier: &str| {
        format!(
            "{SLOT} and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0;\n@%p0 bra EVEN;\nst.shared.u32 [%rd3], %r0; {barrier} bra TAKE;\n\
             EVEN: st.shared.u32 [%rd3], 3; {barrier}\nTAKE: xor.b32 %r5, %r0, 33; mul.wide.u32 %rd5, %r5, 4; mov.u64 %rd6, s;\n\
             add.s64 %rd6, %rd6, %rd5; ld.shared.u32 %r6, [%rd6]; st.global.u32 [%rd1], %r6;"
        )
    };
    let right =
        |y: &[u32]| assert!((0..64).all(|i| y[i] == if i % 2 == 1 { 3 } else { i as u32 ^ 33 }), "{y:?}");
    clean(SHARED, &body("barrier.sync 1;"), 1, 64, right);
    fault(SHARED, &body("barrier.sync.aligned 1;"), 1, 64, Kind::DivergentBarrier);
    fault(SHARED, &body("bar.sync 1;"), 1, 64, Kind::DivergentBarrier);
    // Under a predicate, and one after the other; who goes past it waits for the others where they all meet.
    let some =
        "setp.lt.u32 %p0, %r0, 40;\n@%p0 barrier.sync 1;\n@!%p0 barrier.sync 1;\nst.global.u32 [%rd1], %r0;";
    clean("", some, 1, 64, |y| assert_eq!(y[63], 63));
}

#[test]
fn a_block_may_wait_for_another() {
    // Block 0 waits for what block 1 says; it comes first in one of the orders at least.
    let body = "setp.ne.u32 %p0, %r1, 0;\n@%p0 bra SAY;\nld.param.u64 %rd5, [p1];\n\
        WAIT: ld.acquire.gpu.global.u32 %r4, [%rd5+8]; setp.ne.u32 %p1, %r4, 1;\n@%p1 bra WAIT;\n\
        ld.global.u32 %r5, [%rd5+4]; st.global.u32 [%rd5], %r5; bra END;\n\
        SAY: ld.param.u64 %rd5, [p1]; st.global.u32 [%rd5+4], 42; st.release.gpu.global.u32 [%rd5+8], 1;\nEND:";
    let kernel = kernel(2, "", &format!("{PLACES}{body}\nret;"));
    for schedule in SCHEDULES {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
        let y = with_u32s(&mut memory, "y", Role::InOut, [0, 0, 0]);
        let settings = Settings { schedule, limit: 50_000_000, ..Settings::default() };
        let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
        let launch = Launch { grid: [2, 1, 1], block: [1, 1, 1], shared: 0, arguments };
        let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        assert!(report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!(u32s(&memory, y)[0], 42);
    }
}

#[test]
fn blocks_that_wait_in_vain_let_others_go_on() {
    // A thread of each waits for the block before, and all of its threads meet after each look: in reverse, all others look first.
    let body = "ld.param.u64 %rd5, [p1]; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd6, %rd5, %rd6; mov.u32 %r5, 7;\n\
        setp.eq.u32 %p1, %r1, 0; @%p1 bra SEEN; setp.ne.u32 %p1, %r0, 0;\n\
        LOOK: @%p1 bra MEET; ld.volatile.global.u32 %r5, [%rd6+-4];\n\
        MEET: setp.ne.u32 %p0, %r5, 7; bar.red.or.pred %p0, 0, %p0; @%p0 bra LOOK;\n\
        SEEN: membar.gl; st.volatile.global.u32 [%rd6], 7;";
    let kernel = kernel(2, "", &format!("{PLACES}{body}\nret;"));
    for schedule in SCHEDULES {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
        let y = with_u32s(&mut memory, "y", Role::InOut, [0; 256]);
        let report = run(&kernel, 256, 64, &mut memory, &[x, y], schedule);
        assert!(report.finished && report.faults.is_empty(), "{:?}", report.faults);
        assert_eq!(u32s(&memory, y), [7; 256]);
        assert!(report.meter.instructions < 1 << 23, "{schedule:?}: {}", report.meter.instructions);
    }
}

#[test]
fn flags_may_be_looked_at_together() {
    let apart = "ld.volatile.SPACE.u32 %r10, [%rd7]; ld.volatile.SPACE.u32 %r11, [%rd7+4];\n\
        ld.volatile.SPACE.u32 %r12, [%rd7+8]; ld.volatile.SPACE.u32 %r13, [%rd7+12];";
    let together = "ld.volatile.SPACE.v4.u32 {%r10, %r11, %r12, %r13}, [%rd7];";
    // Each of four leaves a number and raises its flag; the fifth waits for all flags, and adds up. `%r5` says which of them it is, `%rd6` is
    // where the numbers are, and `%rd7` where the flags are.
    let body = |space: &str, look: &str, fence: &str| {
        let text = format!(
            "setp.eq.u32 %p0, %r5, 4;\n@%p0 bra LOOK;\nmul.wide.u32 %rd8, %r5, 4; add.s64 %rd9, %rd6, %rd8; add.s64 %rd10, %rd7, %rd8;\n\
             st.SPACE.u32 [%rd9], %r5; {fence} st.volatile.SPACE.u32 [%rd10], 1;\nbra END;\n\
             LOOK: {look}\nand.b32 %r14, %r10, %r11; and.b32 %r15, %r12, %r13; and.b32 %r14, %r14, %r15;\n\
             setp.eq.u32 %p1, %r14, 0;\n@%p1 bra LOOK;\n{fence}\n\
             ld.SPACE.u32 %r16, [%rd6+4]; ld.SPACE.u32 %r17, [%rd6+12]; add.u32 %r16, %r16, %r17; st.global.u32 [%rd1], %r16;\nEND:"
        );
        text.replace("SPACE", space)
    };
    for look in [apart, together] {
        let warps = "shr.u32 %r5, %r0, 5; mov.u64 %rd7, s; add.s64 %rd6, %rd7, 64; and.b32 %r6, %r0, 31;\n\
            setp.lt.u32 %p2, %r0, 32; mov.u32 %r7, 0;\n@%p2 st.shared.u32 [%rd3], %r7;\nbar.sync 0;\n\
            setp.ne.u32 %p3, %r6, 0;\n@%p3 bra END;\n";
        let warps = |fence| format!("{SLOT}{warps}{}", body("shared", look, fence));
        clean(".shared .align 16 .b8 s[1024];", &warps("membar.cta;"), 1, 160, |y| assert_eq!(y[128], 4));
        fault(".shared .align 16 .b8 s[1024];", &warps(""), 1, 160, Kind::SharedRace);
        let blocks = |fence| {
            let begin = "mov.u32 %r5, %r1; ld.param.u64 %rd7, [p1]; add.s64 %rd6, %rd7, 64; add.s64 %rd1, %rd7, 128;\n";
            let kernel = kernel(2, "", &format!("{PLACES}{begin}{}\nret;", body("global", look, fence)));
            SCHEDULES.map(|schedule| {
                let mut memory = Memory::new();
                let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
                let y = with_u32s(&mut memory, "y", Role::InOut, [0; 64]);
                let report = run(&kernel, 5, 1, &mut memory, &[x, y], schedule);
                assert_eq!(u32s(&memory, y)[32], 4);
                report.faults.iter().any(|fault| fault.kind == Kind::GlobalRace)
            })
        };
        assert_eq!(blocks("membar.gl;"), [false; 4], "{look}");
        assert_eq!(blocks(""), [true; 4], "{look}");
    }
}

#[test]
fn a_lock_within_a_warp_is_passed_on() {
    // Each lane takes the lock, adds one, and lets go: lanes that hold it must get on while others wait.
    let body = "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%rd3], 0;\n@%p0 st.shared.u32 [%rd3+4], 0;\nbar.sync 0;\n\
        mov.u32 %r10, 0;\nTRY: atom.shared.cas.b32 %r4, [%rd3], 0, 1; setp.ne.u32 %p1, %r4, 0;\n@%p1 bra NEXT;\n\
        atom.shared.add.u32 %r5, [%rd3+4], 1; membar.cta; atom.shared.exch.b32 %r6, [%rd3], 0; mov.u32 %r10, 1;\n\
        NEXT: setp.eq.u32 %p2, %r10, 0;\n@%p2 bra TRY;\nbar.sync 0;\nld.shared.u32 %r7, [%rd3+4]; st.global.u32 [%rd1], %r7;";
    clean(SHARED, body, 1, 64, |y| assert!(y[..64].iter().all(|&value| value == 64)));
}

/// `%rd3` is a lock, and a count lies behind it; both are zero.
const LOCK: &str = "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%rd3], 0;\n@%p0 st.shared.u32 [%rd3+4], 0;\nbar.sync 0;\n";
/// Takes the lock, adds one, lets go.
const LOCKED: &str = "TRY: atom.shared.cas.b32 %r4, [%rd3], 0, 1; setp.ne.u32 %p1, %r4, 0;\n@%p1 bra TRY;\n\
    membar.cta; ld.shared.u32 %r5, [%rd3+4]; add.u32 %r5, %r5, 1; st.shared.u32 [%rd3+4], %r5; membar.cta;\n\
    atom.shared.exch.b32 %r6, [%rd3], 0;\n";

#[test]
fn a_lock_that_each_thread_waits_for_is_passed_on_and_orders() {
    let read = "bar.sync 0;\nld.shared.u32 %r7, [%rd3+4]; st.global.u32 [%rd1], %r7;";
    clean(SHARED, &format!("{LOCK}{LOCKED}{read}"), 1, 64, |y| {
        assert!(y[..64].iter().all(|&count| count == 64), "{y:?}");
    });
    // Of one thread of each warp.
    let leaders = "and.b32 %r8, %r0, 31; setp.ne.u32 %p2, %r8, 0;\n@%p2 bra DONE;\n";
    clean(SHARED, &format!("{LOCK}{leaders}{LOCKED}DONE: {read}"), 1, 128, |y| {
        assert!(y[..128].iter().all(|&count| count == 4), "{y:?}");
    });
    // Without fences it orders nothing.
    let unfenced = LOCKED.replace("membar.cta;", "");
    fault(SHARED, &format!("{LOCK}{leaders}{unfenced}DONE: {read}"), 1, 128, Kind::SharedRace);
}

/// A plain look at what others change is right where what comes of it is tried: the look may have been at something old.
#[test]
fn a_look_that_is_tried_is_no_race() {
    let begin = "mov.u64 %rd3, s; setp.eq.u32 %p0, %r0, 0;\n@%p0 st.shared.u32 [%rd3], 0;\nbar.sync 0;\n";
    let read = "bar.sync 0;\nld.shared.u32 %r7, [%rd3]; st.global.u32 [%rd1], %r7;";
    let sum = "ld.shared.u32 %r4, [%rd3];\nAGAIN: mov.u32 %r5, %r4; add.u32 %r6, %r5, 1;\n\
        atom.shared.cas.b32 %r4, [%rd3], %r5, %r6; setp.ne.u32 %p1, %r4, %r5;\n@%p1 bra AGAIN;\n";
    clean(SHARED, &format!("{begin}{sum}{read}"), 1, 128, |y| {
        assert!(y[..128].iter().all(|&sum| sum == 128))
    });
    let most = "ld.shared.u32 %r4, [%rd3]; setp.ge.u32 %p1, %r4, %r0;\n@%p1 bra DONE;\n\
        atom.shared.max.u32 %r5, [%rd3], %r0;\nDONE: ";
    clean(SHARED, &format!("{begin}{most}{read}"), 1, 128, |y| {
        assert!(y[..128].iter().all(|&most| most == 127))
    });
    // To add to what one has looked at finds nothing out, and to look at the end is no try.
    let counted = "ld.shared.u32 %r4, [%rd3]; st.global.u32 [%rd1], %r4; atom.shared.add.u32 %r5, [%rd3], 1;";
    fault(SHARED, &format!("{begin}{counted}"), 1, 64, Kind::SharedRace);
    let early = "atom.shared.max.u32 %r5, [%rd3], %r0; ld.shared.u32 %r7, [%rd3]; st.global.u32 [%rd1], %r7;";
    fault(SHARED, &format!("{begin}{early}"), 1, 64, Kind::SharedRace);
}

/// As sums over a warp were made before lanes could go apart: no race, as all is volatile, and no order either.
#[test]
fn lanes_that_count_on_going_together_get_another_result_in_reverse() {
    let sum = |order: &str, between: &str| {
        let step = |by: u32| {
            format!(
                "ld.{order}shared.u32 %r4, [%rd3]; ld.{order}shared.u32 %r5, [%rd3+{}]; add.u32 %r4, %r4, %r5;\n{between} st.{order}shared.u32 [%rd3], %r4;\n{between}",
                4 * by
            )
        };
        let steps: String = [16, 8, 4, 2, 1].map(step).concat();
        let body = format!(
            "{SLOT}st.shared.u32 [%rd3], %r0; st.shared.u32 [%rd3+128], 0; bar.sync 0;\n{steps} bar.sync 0; ld.shared.u32 %r6, [s]; st.global.u32 [%rd1], %r6;"
        );
        let kernel = kernel(2, SHARED, &format!("{PLACES}{body}\nret;"));
        [Schedule::Forward, Schedule::Reverse].map(|schedule| {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..32);
            let y = room(&mut memory, "y", 32);
            run(&kernel, 1, 32, &mut memory, &[x, y], schedule);
            u32s(&memory, y)[0]
        })
    };
    let [forward, reverse] = sum("volatile.", "");
    assert_eq!(forward, 496);
    assert_ne!(reverse, 496);
    assert_eq!(sum("volatile.", "bar.warp.sync -1;"), [496, 496]);
    assert_eq!(sum("", "bar.warp.sync -1;"), [496, 496]);
}

/// What is undefined is what one asks for.
#[test]
fn what_nobody_gave_can_be_filled_with_anything() {
    let run = |body: &str, fill: u8| {
        let kernel = kernel(2, SHARED, &format!("{PLACES}{SLOT}{body}\nret;"));
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..64);
        let y = room(&mut memory, "y", 64);
        memory.refill(fill);
        let launch = Launch {
            grid: [1, 1, 1],
            block: [32, 1, 1],
            shared: 0,
            arguments: vec![Argument::Pointer(x), Argument::Pointer(y)],
        };
        let settings = Settings { fill, ..Settings::default() };
        let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        assert!(report.faults.iter().all(|fault| fault.kind.is_of_a_value()), "{:?}", report.faults);
        (report.faults.len(), u32s(&memory, y))
    };
    for body in [
        "ld.shared.u32 %r4, [%rd3]; st.global.u32 [%rd1], %r4;",
        "ld.global.u32 %r4, [%rd1]; st.global.u32 [%rd1], %r4;",
        "setp.gt.u32 %p0, %r0, 7;\n@%p0 ret;\nshfl.sync.down.b32 %r4, %r0, 8, 31, 0xff; st.global.u32 [%rd1], %r4;",
    ] {
        for fill in [0x00, 0x7B, 0xFF] {
            let (faults, y) = run(body, fill);
            assert_eq!((faults, y[0]), (1, u32::from_ne_bytes([fill; 4])), "{body}");
        }
    }
}

#[test]
fn results_that_nobody_wants_go_nowhere() {
    for (variables, body) in [
        ("", "isspacep.shared _, %rd0;"),
        ("", "cvta.to.shared.u64 _, %rd0;"),
        (
            MBARRIER,
            "mbarrier.init.shared.b64 [s], 32; mbarrier.arrive.shared.b64 %rd5, [s]; mbarrier.test_wait.shared.b64 _, [s], %rd5;",
        ),
        ("", "mov.v2.u32 {_, %r4}, {%r0, %r0};"),
        ("", "shfl.sync.idx.b32 _|%p1, %r0, 33, 31, -1;"),
        ("", "setp.gt.u32 %p0, %r0, 7;\n@%p0 bra END;\nshfl.sync.idx.b32 _|%p1, %r0, 20, 31, 0xff;\nEND:"),
    ] {
        let kernel = kernel(
            2,
            variables,
            &format!("{PLACES}mov.u32 %r9, 7;\n{body}\nst.global.u32 [%rd1], %r9;\nret;"),
        );
        for fill in [0xCD, 0x00] {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..32);
            let y = room(&mut memory, "y", 32);
            let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
            let launch = Launch { grid: [1, 1, 1], block: [32, 1, 1], shared: 0, arguments };
            let settings = Settings { fill, ..Settings::default() };
            assert!(
                execute::launch(&kernel, &launch, &mut memory, &settings).is_ok_and(|report| report.finished)
            );
            assert_eq!(u32s(&memory, y), [7; 32], "{body}");
        }
    }
}

#[test]
fn a_register_that_nobody_wrote_holds_nothing_of_another_block() {
    // Only the first block writes what all store.
    let body = "setp.ne.u32 %p0, %r1, 0;\n@%p0 bra STORE;\nadd.u32 %r5, %r0, 77; cvt.u64.u32 %rd5, %r5;\nSTORE: st.global.u32 [%rd1], %r5;";
    let kernel = kernel(2, "", &format!("{PLACES}{body}\nret;"));
    for fill in [0x00, 0x7B, 0xFF] {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..1);
        let y = room(&mut memory, "y", 64);
        let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
        let launch = Launch { grid: [2, 1, 1], block: [32, 1, 1], shared: 0, arguments };
        execute::launch(&kernel, &launch, &mut memory, &Settings { fill, ..Settings::default() })
            .expect("a launch");
        assert_eq!(u32s(&memory, y)[32..], [u32::from_ne_bytes([fill; 4]); 32]);
    }
}

#[test]
fn what_is_constant_is_not_global() {
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n.const .align 4 .b32 c[4] = {1, 2, 3, 4};\n.visible .entry k(.param .u64 p0)\n{\n\
        .reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>;\nld.param.u64 %rd0, [p0]; mov.u64 %rd1, c; cvta.const.u64 %rd1, %rd1;\n\
        isspacep.global %p0, %rd1; isspacep.const %p1, %rd1; isspacep.global %p2, %rd0; isspacep.const %p3, %rd0;\n\
        selp.u32 %r0, 1, 0, %p0; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 1, 0, %p3;\n\
        st.global.v4.u32 [%rd0], {%r0, %r1, %r2, %r3}; ret;\n}\n";
    let kernel = Module::parse(text).and_then(|module| module.kernel("k")).expect("a kernel");
    let mut memory = Memory::new();
    let y = room(&mut memory, "y", 4);
    let report = run(&kernel, 1, 1, &mut memory, &[y], Schedule::Forward);
    assert_eq!((report.faults, u32s(&memory, y)), (vec![], vec![0, 1, 1, 0]));
}

#[test]
fn what_registers_of_other_lanes_hold_is_of_no_account() {
    // A register of 16 bits of the lower lanes may be one in which all lanes had 32 bits.
    let body = "not.b32 %r5, %r0; st.global.u32 [%rd1], %r5; setp.ge.u32 %p1, %r0, 8;\n@%p1 bra END;\n\
        cvt.u16.u32 %h1, %r0; mul.wide.u16 %r6, %h1, %h1; st.global.u32 [%rd1], %r6;\nEND:";
    clean("", body, 1, 32, |y| assert_eq!(y[..9], [0, 1, 4, 9, 16, 25, 36, 49, !8]));
    // A copy of a part of a row from the last address there is.
    let body = format!(
        "{SLOT}mov.u64 %rd5, -1; mov.u32 %r4, 3; cp.async.ca.shared.global [%rd3], [%rd5], 4, %r4; cp.async.wait_all;"
    );
    fault(SHARED, &body, 1, 32, Kind::OutOfBounds);
}

#[test]
fn a_product_of_some_lanes_is_filled_with_anything_and_nothing_else_is() {
    // Registers that hold something else, as many as there are lists.
    let held: String = (8..28).map(|of| format!("add.u32 %r{of}, %r0, {of};\n")).collect();
    let kept: String = (8..28).map(|of| format!("add.u32 %r4, %r4, %r{of};\n")).collect();
    let body = format!(
        "{held}mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r5, %r6}}, {{%r7}}, {{%f4, %f5, %f6, %f7}};\n\
         mov.u32 %r4, 0;\n{kept}st.global.u32 [%rd1], %r4; st.global.f32 [%rd1+128], %f3;\nret;"
    );
    let kernel = kernel(2, "", &format!("{PLACES}mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;\n{body}"));
    for fill in [0x00, 0x7B, 0xFF] {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..32);
        let y = room(&mut memory, "y", 64);
        let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
        let launch = Launch { grid: [1, 1, 1], block: [16, 1, 1], shared: 0, arguments };
        let settings = Settings { fill, scrutiny: Scrutiny::Results, ..Settings::default() };
        execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        let y = u32s(&memory, y);
        assert!((0..16).all(|lane| y[lane] == 350 + 20 * lane as u32), "{y:?}");
        assert_eq!(y[32..48], [u32::from_ne_bytes([fill; 4]); 16]);
    }
}

#[test]
fn a_product_of_f64_by_some_lanes_is_filled_in_registers_of_its_own() {
    let body = "mov.f64 %fd9, 0d3FF0000000000000; mov.f64 %fd8, %fd9;
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd30, %fd31}, {%fd9}, {%fd8}, {%fd8, %fd9};
        mov.b64 {%r8, %r9}, %fd31; st.global.u32 [%rd1], %r8; st.global.u32 [%rd1+128], %r9; ret;";
    let kernel = kernel(2, "", &format!("{PLACES}{body}"));
    for fill in [0x00, 0x7B, 0xFF] {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..32);
        let y = room(&mut memory, "y", 64);
        let arguments = vec![Argument::Pointer(x), Argument::Pointer(y)];
        let launch = Launch { grid: [1, 1, 1], block: [16, 1, 1], shared: 0, arguments };
        let settings = Settings { fill, scrutiny: Scrutiny::Results, ..Settings::default() };
        execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        let (y, filled) = (u32s(&memory, y), [u32::from_ne_bytes([fill; 4]); 16]);
        assert_eq!((&y[..16], &y[32..48]), (&filled[..], &filled[..]));
    }
}

#[test]
fn a_launch_that_is_none_is_refused() {
    let kernel = kernel(1, "", "ret;");
    let mut memory = Memory::new();
    let try_launch = |grid, block, shared, arguments: Vec<Argument>, memory: &mut Memory| {
        execute::launch(&kernel, &Launch { grid, block, shared, arguments }, memory, &Settings::default())
    };
    let one = vec![Argument::U64(0)];
    let refusal = |result: Result<Report, Refusal>| result.expect_err("no launch").to_string();
    assert_eq!(
        refusal(try_launch([1, 1, 1], [32, 33, 1], 0, one.clone(), &mut memory)),
        "a block of 32 x 33 x 1 is none: it may have 1 to 1024 threads, and 64 along z"
    );
    assert!(
        refusal(try_launch([0, 1, 1], [32, 1, 1], 0, one.clone(), &mut memory))
            .starts_with("a grid of 0 x 1 x 1")
    );
    assert_eq!(
        refusal(try_launch([1, 1, 1], [32, 1, 1], 300_000, one.clone(), &mut memory)),
        "a block asks for 300000 bytes of shared memory, and may have 232448"
    );
    assert_eq!(
        refusal(try_launch([1, 1, 1], [32, 1, 1], 0, vec![], &mut memory)),
        "kernel `k` takes 1 arguments, and got 0"
    );
    assert_eq!(
        refusal(try_launch([1, 1, 1], [32, 1, 1], 0, vec![Argument::I32(1)], &mut memory)),
        "parameter 0 of kernel `k` has 8 bytes, and the argument 4"
    );
    assert!(try_launch([1, 1, 1], [32, 1, 1], 0, one, &mut memory).is_ok());
}

#[test]
fn a_launch_repeats_exactly() {
    let kernel = kernel(2, SHARED, &format!("{PLACES}{}\nret;", exchange("")));
    let run = |seed| {
        let mut memory = Memory::new();
        let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
        let y = room(&mut memory, "y", 256);
        let report = run(&kernel, 2, 128, &mut memory, &[x, y], Schedule::Random(seed));
        (u32s(&memory, y), format!("{:?}", report.faults))
    };
    assert_eq!(run(3), run(3));
}

/// What the last of three blocks takes that the first puts into `y`: it waits for a flag, and the one between does nothing. Each in the given order and,
/// where looks show what was there before, in others.
fn passed_on(put: &str, take: &str) -> Vec<(u32, usize)> {
    by_three([put, "", take])
}

/// What the last of three blocks comes to in `%r5`, and how many writes were not seen.
fn by_three([first, second, third]: [&str; 3]) -> Vec<(u32, usize)> {
    let text = format!(
        "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u64 %rd1, [p0]; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 2;\n\
         @%p0 bra FIRST;\n@%p1 bra THIRD;\n{second}\nret;\nFIRST: {first}\nret;\nTHIRD: {third}\nst.global.u32 [%rd1+64], %r5;\nret;"
    );
    let kernel = kernel(1, "", &text);
    let took = SCHEDULES.map(|schedule| {
        let mut memory = Memory::new();
        let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 32]);
        let launch =
            Launch { grid: [3, 1, 1], block: [1, 1, 1], shared: 0, arguments: vec![Argument::Pointer(y)] };
        let shows_past = schedule != Schedule::Forward;
        let settings = Settings { schedule, limit: 1 << 20, shows_past, ..Settings::default() };
        let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
        assert!(report.finished && report.faults.is_empty(), "{text} {:?}", report.faults);
        (u32s(&memory, y)[16], report.unordered.len())
    });
    took.to_vec()
}

#[test]
fn what_lanes_hand_each_other_is_told_where_nothing_but_their_step_orders_it() {
    // What each lane of two warps finds in the place beside its own, in step in reverse; and what is told of it, by the lines of look and write.
    let handed = |space: &str, between: &str, beside: i32| {
        let text = format!(
            "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [p0]; mov.u64 %rd2, s; shl.b32 %r2, %r0, 2; cvt.u64.u32 %rd3, %r2; add.u64 %rd1, %rd1, %rd3;\n\
             add.u64 %rd2, %rd2, %rd3; mov.u32 %r4, 0; st.shared.u32 [%rd2+128], %r4; bar.sync 0;\n\
             st.volatile.{space}.u32 [{space_at}+128], %r0;\n{between}\nld.volatile.{space}.u32 %r5, [{space_at}+{at}];\n\
             bar.sync 0; st.global.u32 [%rd1+512], %r5;\nret;",
            space_at = if space == "shared" { "%rd2" } else { "%rd1" },
            at = 128 + 4 * beside
        );
        let kernel = kernel(1, ".shared .align 4 .b8 s[512];", &text);
        let [apart, in_step] = [false, true].map(|in_step| {
            let mut memory = Memory::new();
            let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 256]);
            let launch = Launch {
                grid: [1, 1, 1],
                block: [64, 1, 1],
                shared: 0,
                arguments: vec![Argument::Pointer(y)],
            };
            let settings = Settings { schedule: Schedule::Reverse, in_step, ..Settings::default() };
            let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
            assert!(report.finished);
            let told: Vec<_> = report
                .unordered
                .iter()
                .map(|look| {
                    (look.kind, look.count, look.line.line - look.other.as_ref().expect("a write").line)
                })
                .collect();
            (u32s(&memory, y)[128..192].to_vec(), told)
        });
        assert!(apart.1.is_empty(), "lanes that go apart count on nothing");
        (apart.0 == in_step.0, in_step.1)
    };
    for space in ["shared", "global"] {
        // The last lane of the first warp looks at what another warp wrote, and nobody wrote beyond the second.
        let told = vec![(Kind::WarpSynchronous, 62, 2)];
        assert_eq!(handed(space, "", 1), (false, told.clone()), "{space}");
        // Lanes that are two apart stay together, which the other order does not show.
        assert_eq!(handed(space, "", 2).1, [(Kind::WarpSynchronous, 60, 2)], "{space}");
        for ordered in ["bar.warp.sync -1;", "bar.sync 0;"] {
            assert_eq!(handed(space, ordered, 1), (true, vec![]), "{space} {ordered}");
        }
        assert_eq!(handed(space, "", 0), (true, vec![]), "{space}: its own");
        assert_eq!(
            handed(space, "", 32).1,
            vec![],
            "{space}: another warp's is a matter of the order of warps"
        );
    }
}

#[test]
fn without_a_fence_one_write_may_be_seen_before_an_earlier_one() {
    let [now, before] = [vec![(7, 0); 4], vec![(7, 0), (0, 1), (0, 1), (0, 1)]];
    let flag = "st.volatile.global.u32 [%rd1+32], 1;";
    let wait = "WAIT: ld.volatile.global.u32 %r4, [%rd1+32]; setp.eq.u32 %p2, %r4, 0;\n@%p2 bra WAIT;\n";
    let put = |fence: &str| format!("st.volatile.global.u32 [%rd1], 7; {fence} {flag}");
    let read = "ld.volatile.global.u32 %r5, [%rd1];";
    assert_eq!(passed_on(&put(""), &format!("{wait}{read}")), before);
    assert_eq!(passed_on(&put("membar.gl;"), &format!("{wait}{read}")), now);
    assert_eq!(passed_on(&put("fence.acq_rel.gpu;"), &format!("{wait}{read}")), now);
    let released = "st.volatile.global.u32 [%rd1], 7; st.release.gpu.global.u32 [%rd1+32], 1;";
    assert_eq!(passed_on(released, &format!("{}{read}", wait.replace("volatile", "acquire.gpu"))), now);
    // Whoever looks until it is there gets it, and so does an atomic operation.
    let until = "AGAIN: ld.volatile.global.u32 %r5, [%rd1]; setp.eq.u32 %p2, %r5, 0;\n@%p2 bra AGAIN;";
    assert_eq!(passed_on(&put(""), &format!("{wait}{until}")), now);
    assert_eq!(passed_on(&put(""), &format!("{wait}atom.global.add.u32 %r5, [%rd1], 0;")), now);
    // As is added by an atomic operation.
    let added = format!("red.global.add.u32 [%rd1], 7; {flag}");
    assert_eq!(passed_on(&added, &format!("{wait}{read}")), before);
    // A flag and a value in one are seen together, in one access or in each of its parts.
    let both = "mov.u64 %rd5, 4294967303; st.volatile.global.u64 [%rd1], %rd5;";
    let wait_for_both = "AGAIN: ld.volatile.global.u64 %rd6, [%rd1]; setp.eq.u64 %p2, %rd6, 0;\n@%p2 bra AGAIN;\ncvt.u32.u64 %r5, %rd6;";
    assert_eq!(passed_on(both, wait_for_both), now);
    let pair = "mov.u32 %r7, 7; mov.u32 %r8, 1; st.volatile.global.v2.u32 [%rd1], {%r7, %r8};";
    let wait_for_pair =
        "AGAIN: ld.volatile.global.v2.u32 {%r5, %r8}, [%rd1]; setp.eq.u32 %p2, %r8, 0;\n@%p2 bra AGAIN;";
    assert_eq!(passed_on(pair, wait_for_pair), now);
}

#[test]
fn what_a_block_has_seen_stays_seen() {
    // What the first writes one after the other, the last sees in no other order: none is smaller than the one before.
    let put = "mov.u32 %r4, 0;\nNEXT: add.u32 %r4, %r4, 1; st.volatile.global.u32 [%rd1], %r4; setp.lt.u32 %p2, %r4, 3000;\n@%p2 bra NEXT;";
    let take = "mov.u32 %r5, 0; mov.u32 %r6, 0;\nLOOK: ld.volatile.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r6;\n\
        @%p2 add.u32 %r5, %r5, 1; mov.u32 %r6, %r4; setp.lt.u32 %p2, %r4, 3000;\n@%p2 bra LOOK;";
    assert_eq!(passed_on(put, take), [(0, 0); 4]);
}

#[test]
fn what_is_atomic_to_a_block_is_not_atomic_to_others() {
    let add = |scope: &str| {
        format!(
            "ld.param.u64 %rd5, [p1]; mul.wide.u32 %rd6, %r0, 4; add.s64 %rd5, %rd5, %rd6; red.relaxed.{scope}.global.add.u32 [%rd5], 1;"
        )
    };
    let adds = |blocks: u32, threads: u32, body: &str| {
        let kernel = kernel(2, "", &format!("{PLACES}{body}\nret;"));
        SCHEDULES.map(|schedule| {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
            let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 256]);
            let report = run(&kernel, blocks, threads, &mut memory, &[x, y], schedule);
            report.faults.into_iter().map(|fault| (fault.kind, fault.detail)).collect::<Vec<_>>()
        })
    };
    let twice = |scope: &str| format!("{} xor.b32 %r0, %r0, 32; {}", add(scope), add(scope));
    for threads in [64, 40] {
        assert_eq!(adds(1, threads, &twice("cta")), [const { vec![] }; 4], "one block");
        assert_eq!(adds(2, threads, &add("gpu")), [const { vec![] }; 4]);
        for found in
            adds(2, threads, &add("cta")).iter().chain(&adds(2, threads, &[add("gpu"), add("cta")].concat()))
        {
            assert_eq!(found.first().map(|(kind, _)| *kind), Some(Kind::GlobalRace));
            assert!(
                found[0]
                    .1
                    .ends_with("(what is atomic in the scope of a block is not atomic to other blocks)"),
                "{}",
                found[0].1
            );
        }
    }
}

#[test]
fn an_earlier_value_shows_what_came_before_it() {
    // Two blocks leave a number each and count up, one after the other; the last waits until one has, and reads the first one's number.
    let body = |fence: &str| {
        format!(
            "{PLACES}ld.param.u64 %rd5, [p1]; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p3, %r1, 2;\n\
             @%p0 bra FIRST;\n@%p1 bra SECOND;\n\
             WAIT: ld.volatile.global.u32 %r4, [%rd5+64]; setp.eq.u32 %p2, %r4, 0;\n@%p2 bra WAIT;\n\
             ld.global.u32 %r5, [%rd5]; st.global.u32 [%rd5+128], %r5;\nret;\n\
             SECOND: ld.volatile.global.u32 %r4, [%rd5+64]; setp.eq.u32 %p2, %r4, 0;\n@%p2 bra SECOND;\n\
             membar.gl; red.global.add.u32 [%rd5+64], 1;\nret;\n\
             FIRST: st.global.u32 [%rd5], 7; {fence} red.global.add.u32 [%rd5+64], 1;\nret;"
        )
    };
    for (fence, races) in [("membar.gl;", false), ("", true)] {
        let kernel = kernel(2, "", &body(fence));
        for schedule in SCHEDULES {
            let mut memory = Memory::new();
            let x = with_u32s(&mut memory, "x", Role::Input, 0..256);
            let y = with_u32s(&mut memory, "y", Role::InOut, vec![0; 64]);
            let arguments = [x, y].map(Argument::Pointer).to_vec();
            let launch = Launch { grid: [3, 1, 1], block: [1, 1, 1], shared: 0, arguments };
            let settings = Settings { schedule, limit: 1 << 20, shows_past: true, ..Settings::default() };
            let report = execute::launch(&kernel, &launch, &mut memory, &settings).expect("a launch");
            let raced = report.faults.iter().any(|fault| fault.kind == Kind::GlobalRace);
            assert_eq!(
                (raced, report.finished, u32s(&memory, y)[32]),
                (races, true, 7),
                "{:?}",
                report.faults
            );
        }
    }
}

#[test]
fn what_a_gpu_would_show_is_shown() {
    let waits = |label: &str, at: u32| {
        format!(
            "{label}: ld.volatile.global.u32 %r4, [%rd1+{at}]; setp.eq.u32 %p2, %r4, 0;\n@%p2 bra {label};\n"
        )
    };
    let now = vec![(1, 0); 4];
    // What a block has seen whose flag is seen.
    let first = "st.volatile.global.u32 [%rd1], 1;";
    let second = format!("{} membar.gl; st.volatile.global.u32 [%rd1+32], 1;", waits("A", 0));
    let third = format!("{} membar.gl; ld.volatile.global.u32 %r5, [%rd1];", waits("B", 32));
    assert_eq!(by_three([first, &second, &third]), now);
    let unfenced = second.replace("membar.gl;", "");
    assert_eq!(by_three([first, &unfenced, &third])[1..], [(0, 1), (0, 1), (0, 1)]);
    // Of two blocks that each write, fence, and look, one sees the other: else both would come first. The last counts who saw nothing.
    let each = |own: u32, other: u32| {
        format!(
            "st.volatile.global.u32 [%rd1+{own}], 1; membar.gl; ld.volatile.global.u32 %r4, [%rd1+{other}]; setp.eq.u32 %p2, %r4, 0;\n\
             @%p2 red.global.add.u32 [%rd1+8], 1; membar.gl; red.global.add.u32 [%rd1+12], 1;"
        )
    };
    let both = "WAIT: atom.global.add.u32 %r4, [%rd1+12], 0; setp.lt.u32 %p2, %r4, 2;\n@%p2 bra WAIT;\nld.volatile.global.u32 %r5, [%rd1+8];";
    assert_eq!(by_three([&each(0, 4), &each(4, 0), both]), now);
    // Halves of a word are places of their own: who writes one changes nothing about the other.
    let wrote = "mov.b16 %h1, 1; st.volatile.global.u16 [%rd1], %h1; WAIT: ld.volatile.global.u32 %r4, [%rd1+32]; setp.eq.u32 %p2, %r4, 0;\n\
        @%p2 bra WAIT;\nld.volatile.global.u16 %h2, [%rd1]; cvt.u32.u16 %r5, %h2;";
    let other = "mov.b16 %h1, 1; st.volatile.global.u16 [%rd1+2], %h1; st.volatile.global.u32 [%rd1+32], 1;";
    assert_eq!(by_three([other, "", wrote]), now);
}
