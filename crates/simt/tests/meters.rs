//! What meters count where lanes of a warp ask for the same.

mod support;

use support::{kernel, room, run, u32s, with_u32s};
use tribunal_simt::launch::Schedule;
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::meter::Traffic;

/// A number that all 32 lanes read, four of which eight lanes each read one, and 32 that are stored; then 32 additions to the first of these.
#[test]
fn what_lanes_read_at_once_is_counted_once() {
    let body = "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];\n\
        shr.u32 %r1, %r0, 3; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd0, %rd2;\n\
        ld.global.u32 %r2, [%rd0]; ld.global.u32 %r3, [%rd2]; add.u32 %r4, %r2, %r3;\n\
        mul.wide.u32 %rd3, %r0, 4; add.s64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r4;\n\
        bar.sync 0; atom.global.add.u32 %r5, [%rd1], 1;\nret;";
    let mut memory = Memory::new();
    let x = with_u32s(&mut memory, "x", Role::Input, 0..8);
    let y = room(&mut memory, "y", 32);
    let report = run(&kernel(2, "", body), 1, 32, &mut memory, &[x, y], Schedule::Forward);
    assert_eq!(report.faults, []);
    let sums = |i: u32| i / 8 + if i == 0 { 32 } else { 0 };
    assert_eq!(u32s(&memory, y), Vec::from_iter((0..32).map(sums)));
    let [x, y] = &report.meter.buffers[..] else { panic!("two buffers") };
    let of = |requests, bytes, sectors| Traffic { requests, bytes, sectors, ideal_sectors: sectors };
    assert_eq!(x.read, of(2, 4 + 4 * 4, 1 + 1));
    // Every lane's addition counts.
    assert_eq!(y.read, Traffic { requests: 1, bytes: 128, sectors: 1, ideal_sectors: 1 });
    assert_eq!(y.written, of(2, 128 + 128, 4 + 1));
}

/// Each lane goes around a loop as often as its number in reverse says; then all read 64 rows together.
fn rows_after_a_loop(within: &str, after: &str) -> Traffic {
    let body = format!(
        "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];\n\
         mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd0, %rd2;\n\
         brev.b32 %r2, %r0; shr.u32 %r2, %r2, 27; mad.lo.u32 %r2, %r2, 12, 12; mov.u32 %r3, 0;\n\
         AROUND: setp.ge.u32 %p0, %r3, %r2;\n@%p0 bra LEFT;\n{within} add.u32 %r3, %r3, 1;\nbra AROUND;\nLEFT: {after}\n\
         mov.u32 %r4, 0;\nROW: ld.global.u32 %r6, [%rd3]; add.s64 %rd3, %rd3, 128; add.u32 %r4, %r4, 1;\n\
         setp.lt.u32 %p1, %r4, 64;\n@%p1 bra ROW;\nret;"
    );
    let mut memory = Memory::new();
    let x = with_u32s(&mut memory, "x", Role::Input, 0..64 * 32);
    let y = with_u32s(&mut memory, "y", Role::InOut, 0..1);
    let report = run(&kernel(2, "", &body), 1, 32, &mut memory, &[x, y], Schedule::Forward);
    assert_eq!(report.faults, []);
    report.meter.buffers[0].read
}

#[test]
fn lanes_that_were_apart_read_together_again() {
    let rows = Traffic { requests: 64, bytes: 64 * 128, sectors: 256, ideal_sectors: 256 };
    assert_eq!(rows_after_a_loop("", ""), rows);
    assert_eq!(rows_after_a_loop("red.global.add.u32 [%rd1], 1;", ""), rows, "who adds up looks at nothing");
    let look = "ld.volatile.global.u32 %r5, [%rd1];";
    assert_eq!(rows_after_a_loop(look, "bar.sync 0;"), rows, "at a barrier");
    assert_eq!(rows_after_a_loop(look, "bar.warp.sync -1;"), rows, "at a barrier of the warp");
}

#[test]
fn lanes_that_part_before_a_store_execute_it_once_each() {
    let body = "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p0]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;\n\
        st.volatile.global.u32 [%rd0], %r0; st.volatile.global.u32 [%rd0+128], %r0; bar.warp.sync -1;\n\
        st.volatile.global.u32 [%rd0+256], %r0;\nret;";
    let [forward, reverse] = [Schedule::Forward, Schedule::Reverse].map(|schedule| {
        let mut memory = Memory::new();
        let y = room(&mut memory, "y", 96);
        let report = run(&kernel(1, "", body), 1, 32, &mut memory, &[y], schedule);
        assert_eq!(report.faults, []);
        report.meter
    });
    assert_eq!((forward.lanes, reverse.lanes), (32 * forward.instructions, forward.lanes));
    // Halves execute two stores and come to the barrier one after the other, then the third store and the end.
    assert_eq!(reverse.instructions, forward.instructions + 5);
}
