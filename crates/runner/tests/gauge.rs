//! What the gauge says of memory. The only test of its process: others would take and give back memory meanwhile.

use std::hint::black_box;

use tribunal_runner::gauge::{Memory, forget_peak};

#[test]
fn touched_memory_is_seen_and_the_peak_stays_until_it_is_forgotten() {
    const BYTES: u64 = 64 << 20;
    let me = rustix::process::getpid();
    let before = Memory::of(me).unwrap();
    let block = black_box(vec![1u8; BYTES as usize]);
    let during = Memory::of(me).unwrap();
    drop(block);
    let after = Memory::of(me).unwrap();
    assert!(during.anonymous_bytes >= before.anonymous_bytes + BYTES * 9 / 10, "{before:?} {during:?}");
    assert!(after.peak_bytes >= during.resident_bytes * 9 / 10, "{during:?} {after:?}");

    assert!(forget_peak(me), "the kernel lets a process forget its own");
    let forgotten = Memory::of(me).unwrap();
    assert!(forgotten.peak_bytes + BYTES / 2 < after.peak_bytes, "{after:?} {forgotten:?}");
}
