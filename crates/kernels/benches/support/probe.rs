//! The floor: what it takes to move the same bytes and do nothing else.
//!
//! A forward pass must read `x` and write `y`, as a copy does; a backward pass must read `dy` and `x` and write `dx`, as a
//! triad does. The probe does just that, on the same buffers, between the runs of the kernels, in every way that has been
//! seen to be the fastest on some machine; the best of them is the floor.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// How the probe moves bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Plain stores.
    Plain,
    /// Streaming stores.
    Streaming,
    /// Streaming stores, and lines prefetched into the second level of cache 8 KiB ahead.
    StreamingPrefetch,
}

impl Way {
    /// All of them.
    pub(crate) const ALL: [Way; 3] = [Way::Plain, Way::Streaming, Way::StreamingPrefetch];

    /// The name in reports.
    #[allow(dead_code, reason = "not everyone who includes this file prints")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Plain => "plain",
            Way::Streaming => "nt",
            Way::StreamingPrefetch => "nt + prefetch",
        }
    }
}

/// Runs the probe on the current rayon pool, each thread on one contiguous share.
///
/// Without `second`, it copies `first` to `out`; with it, `out` is the sum of both.
pub(crate) fn run(way: Way, first: &[f32], second: Option<&[f32]>, out: &mut [f32]) {
    const LINE: usize = 16;
    assert_eq!(first.len(), out.len());
    let share = out.len().div_ceil(rayon::current_num_threads()).next_multiple_of(LINE);
    if share >= out.len() {
        return one(way, first, second, out);
    }
    rayon::scope(|scope| {
        for (i, out) in out.chunks_mut(share).enumerate() {
            let range = i * share..i * share + out.len();
            let (first, second) = (&first[range.clone()], second.map(|second| &second[range]));
            scope.spawn(move |_| one(way, first, second, out));
        }
    });
}

#[cfg(target_arch = "x86_64")]
fn one(way: Way, first: &[f32], second: Option<&[f32]>, out: &mut [f32]) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has AVX-512 F, by the line above.
        unsafe {
            match way {
                Way::Plain => move_avx512::<false, false>(first, second, out),
                Way::Streaming => move_avx512::<true, false>(first, second, out),
                Way::StreamingPrefetch => move_avx512::<true, true>(first, second, out),
            }
        }
    } else {
        assert!(is_x86_feature_detected!("avx"), "the probe needs AVX");
        // SAFETY: the CPU has AVX, by the line above.
        unsafe {
            match way {
                Way::Plain => move_avx::<false, false>(first, second, out),
                Way::Streaming => move_avx::<true, false>(first, second, out),
                Way::StreamingPrefetch => move_avx::<true, true>(first, second, out),
            }
        }
    }
}

/// Elsewhere there is one way, the compiler's.
#[cfg(not(target_arch = "x86_64"))]
fn one(_: Way, first: &[f32], second: Option<&[f32]>, out: &mut [f32]) {
    match second {
        None => out.copy_from_slice(first),
        Some(second) => {
            for ((out, first), second) in out.iter_mut().zip(first).zip(second) {
                *out = first + second;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! mover {
    ($name:ident, $feature:literal, $lanes:literal, $load:ident, $add:ident, $store:ident, $stream:ident) => {
        #[target_feature(enable = $feature)]
        fn $name<const STREAM: bool, const PREFETCH: bool>(
            first: &[f32],
            second: Option<&[f32]>,
            out: &mut [f32],
        ) {
            const AHEAD: usize = 2048;
            const LANES: usize = $lanes;
            assert!(out.len().is_multiple_of(64) && out.as_ptr().addr().is_multiple_of(64));
            assert!(first.len() == out.len() && second.is_none_or(|second| second.len() == out.len()));
            let (first, out_start) = (first.as_ptr(), out.as_mut_ptr());
            for line in (0..out.len()).step_by(64) {
                for i in (line..line + 64).step_by(LANES) {
                    // SAFETY: all slices have the same length, a multiple of 64, so `i + LANES` lies within; the output is
                    // aligned to 64 bytes; a prefetch never faults.
                    unsafe {
                        let mut v = $load(first.add(i));
                        if PREFETCH {
                            _mm_prefetch::<_MM_HINT_T1>(first.wrapping_add(i + AHEAD).cast());
                        }
                        if let Some(second) = second {
                            v = $add(v, $load(second.as_ptr().add(i)));
                            if PREFETCH {
                                _mm_prefetch::<_MM_HINT_T1>(second.as_ptr().wrapping_add(i + AHEAD).cast());
                            }
                        }
                        if STREAM { $stream(out_start.add(i), v) } else { $store(out_start.add(i), v) }
                    }
                }
            }
            if STREAM {
                _mm_sfence();
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mover!(move_avx512, "avx512f", 16, _mm512_loadu_ps, _mm512_add_ps, _mm512_storeu_ps, _mm512_stream_ps);
#[cfg(target_arch = "x86_64")]
mover!(move_avx, "avx", 8, _mm256_loadu_ps, _mm256_add_ps, _mm256_storeu_ps, _mm256_stream_ps);
