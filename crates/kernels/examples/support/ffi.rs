//! What the C ABIs for `benches/peers/` share: a pool of threads, and the name of the instruction set.

use std::sync::RwLock;

use tribunal_kernels::Isa;

static POOL: RwLock<Option<rayon::ThreadPool>> = RwLock::new(None);

/// Sets the number of threads for all that this thread calls; 0 if they could be had, which is so once. It is one of them, as in OpenMP, so
/// that a call waits for nobody to wake up. With one thread, calls from any other would wait for ever.
#[unsafe(no_mangle)]
pub extern "C" fn tribunal_set_threads(threads: usize) -> i32 {
    let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(threads).use_current_thread().build() else {
        return 1;
    };
    *POOL.write().expect("nobody panics with the lock") = Some(pool);
    0
}

/// The name of the instruction set in use, as a C string.
#[unsafe(no_mangle)]
pub extern "C" fn tribunal_isa() -> *const std::ffi::c_char {
    match Isa::best() {
        Isa::Avx512 => c"avx512",
        Isa::Avx2 => c"avx2",
        Isa::Neon => c"neon",
        Isa::Portable => c"portable",
    }
    .as_ptr()
}

/// Does the work on the threads that were set; 0 if it was accepted, else 1.
pub(crate) fn run(work: impl FnOnce() -> bool + Send) -> i32 {
    let pool = POOL.read().expect("nobody panics with the lock");
    let accepted = match pool.as_ref() {
        Some(pool) => pool.install(work),
        None => work(),
    };
    i32::from(!accepted)
}
