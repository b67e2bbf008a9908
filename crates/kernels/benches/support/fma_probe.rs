//! How many multiplications with addition cores do, when nothing but registers is read.

use std::time::Instant;

use tribunal_kernels::Isa;

/// Sums that do not wait for each other, as many vectors as the latency of an addition on two ports asks for.
const SUMS: usize = 10;
const STEPS: usize = 200_000;

/// Of f32, on all threads of the current pool: an addition and a multiplication each count. Each thread has its own time, without
/// that of waking it up.
pub(crate) fn flops_per_second() -> f64 {
    let rates = rayon::broadcast(|_| {
        let start = Instant::now();
        let lanes = multiply();
        (2 * lanes * SUMS * STEPS) as f64 / start.elapsed().as_secs_f64()
    });
    rates.into_iter().sum()
}

/// Does it with the widest vectors, and says how many lanes they have.
fn multiply() -> usize {
    match Isa::best() {
        // SAFETY: the CPU has the instruction set, as `best` has found.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512() },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2() },
        _ => {
            lanes::<4>();
            4
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn avx512() -> usize {
    lanes::<16>();
    16
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2() -> usize {
    lanes::<8>();
    8
}

#[inline(always)]
fn lanes<const LANES: usize>() {
    let mut sums = [[0.0_f32; LANES]; SUMS];
    let factor = std::hint::black_box([0.999_f32; LANES]);
    for _ in 0..STEPS {
        for sum in &mut sums {
            for (sum, factor) in sum.iter_mut().zip(factor) {
                *sum = sum.mul_add(factor, factor);
            }
        }
    }
    std::hint::black_box(sums);
}
