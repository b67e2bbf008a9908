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
