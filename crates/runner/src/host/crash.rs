//! A host's last word: whether it died at the address of an input.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::wire::fixed;

/// Regions watched at a time; those beyond go unnamed.
const WATCHED_MAX: usize = 512;

static STARTS: [AtomicUsize; WATCHED_MAX] = [const { AtomicUsize::new(0) }; WATCHED_MAX];
static LENGTHS: [AtomicUsize; WATCHED_MAX] = [const { AtomicUsize::new(0) }; WATCHED_MAX];

/// Addresses from now on known as an input's. Returns what [`unwatch`] takes.
pub(super) fn watch(start: usize, len: usize) -> Option<usize> {
    let free = STARTS.iter().position(|slot| slot.load(Ordering::Relaxed) == 0)?;
    LENGTHS[free].store(len, Ordering::Relaxed);
    STARTS[free].store(start, Ordering::Release);
    Some(free)
}

pub(super) fn unwatch(slot: usize) {
    STARTS[slot].store(0, Ordering::Release);
}

/// Installs the handler, on a stack of its own: the program's may be what ran out.
pub(super) fn install() {
    let stack_bytes = 64 << 10;
    let stack = Box::leak(vec![0_u8; stack_bytes].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack_bytes };
    // SAFETY:
    // - the stack is leaked, so it outlives every signal;
    // - `action` is a valid zeroed struct with a handler of the three-argument kind that SA_SIGINFO asks for;
    // - the handler calls only async-signal-safe functions: write, signal, raise and atomic loads.
    // A failure leaves the default action: the crash is then told without its address.
    unsafe {
        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_crash as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
        libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_crash(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t` of a fault to a SA_SIGINFO handler.
    let address = unsafe { (*info).si_addr() } as usize;
    let at_input = STARTS.iter().zip(&LENGTHS).any(|(start, len)| {
        let start = start.load(Ordering::Acquire);
        start != 0 && (start..start + len.load(Ordering::Relaxed)).contains(&address)
    });
    let packet = fixed::crash(at_input);
    // SAFETY:
    // - `packet` is valid for reading `len` bytes; the descriptor is the judge's socket or closed;
    // - all three functions are async-signal-safe. The signal is blocked in its own handler, so the raised one is
    //   delivered on return, with the default action.
    unsafe {
        libc::write(super::native::JUDGE, packet.as_ptr().cast(), packet.len());
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
