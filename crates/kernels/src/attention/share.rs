//! Who does what, when threads may begin late.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Does `work` for each of `count` pieces, on the threads of the current pool, each of which has a `worker` of its own.
///
/// Each thread has a share of its own, which lies in line, and goes through it from the first piece on. Who has none left takes the last of
/// another's, one at a time, so a thread that begins late costs half of the time that it is late, and not all of it.
///
/// `together` says how many pieces, from one on, are best done at once. So many of its own share a thread takes, but half of what is
/// left at most: there has to be something for others.
///
/// With pieces comes the one which that thread probably does next.
pub(super) fn share<W>(
    count: usize,
    together: impl Fn(usize) -> usize + Sync,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, Range<usize>, Option<usize>) + Sync,
) {
    let threads = rayon::current_num_threads().min(count);
    let shares: Vec<Mutex<Range<usize>>> = (0..threads)
        .map(|thread| Mutex::new(thread * count / threads..(thread + 1) * count / threads))
        .collect();
    let take_first = |share| {
        let mut left = lock(share);
        let first = left.clone().next()?;
        let count = together(first).min(left.len().div_ceil(2));
        left.start += count;
        Some((first..first + count, left.clone().next()))
    };
    let take_last = |share| {
        let mut left = lock(share);
        let last = left.next_back()?;
        Some((last..last + 1, left.clone().next_back()))
    };
    let go_through = |own: usize| {
        let mut worker = worker();
        while let Some((pieces, next)) = take_first(&shares[own]) {
            work(&mut worker, pieces, next);
        }
        for other in shares[own + 1..].iter().chain(&shares[..own]) {
            while let Some((pieces, next)) = take_last(other) {
                work(&mut worker, pieces, next);
            }
        }
    };
    match threads {
        0 => (),
        1 => go_through(0),
        _ => rayon::scope(|scope| {
            let go_through = &go_through;
            for thread in 1..threads {
                scope.spawn(move |_| go_through(thread));
            }
            go_through(0);
        }),
    }
}

fn lock(share: &Mutex<Range<usize>>) -> MutexGuard<'_, Range<usize>> {
    // A range is never half changed.
    share.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_piece_is_done_once() {
        for threads in 1..=4 {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started");
            for (count, together) in [(0, 1), (1, 1), (2, 2), (3, 1), (5, 4), (64, 1), (64, 4)] {
                let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                let work = |pieces: Range<usize>| {
                    for piece in pieces {
                        std::thread::sleep(std::time::Duration::from_micros(piece as u64 % 3 * 50));
                        done[piece].fetch_add(1, Ordering::Relaxed);
                    }
                };
                pool.install(|| {
                    share(count, |piece| together - piece % together, || (), |(), pieces, _| work(pieces));
                });
                let done: Vec<usize> = done.into_iter().map(AtomicUsize::into_inner).collect();
                assert_eq!(done, vec![1; count], "{threads} threads, {together} together");
            }
        }
    }

    #[test]
    fn what_a_busy_thread_has_not_begun_is_taken_from_its_end() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads can be started");
        let (is_busy, others_done) = (AtomicBool::new(false), AtomicUsize::new(0));
        let order = Mutex::new(Vec::new());
        let work = |pieces: Range<usize>, next| {
            if pieces == (0..4) {
                is_busy.store(true, Ordering::Release);
                // Until the other thread has done all the rest, which it would never if that were not taken from this one.
                while others_done.load(Ordering::Acquire) < 12 {
                    std::thread::yield_now();
                }
            } else {
                while !is_busy.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                others_done.fetch_add(pieces.len(), Ordering::Release);
                order.lock().unwrap().push((pieces, next));
            }
        };
        pool.install(|| share(16, |piece| 4 - piece % 4, || (), |(), pieces, next| work(pieces, next)));
        let own = [(8..12, Some(12)), (12..14, Some(14)), (14..15, Some(15)), (15..16, None)];
        let taken = [(7..8, Some(6)), (6..7, Some(5)), (5..6, Some(4)), (4..5, None)];
        assert_eq!(order.into_inner().unwrap(), [own, taken].concat());
    }
}
