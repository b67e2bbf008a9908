//! Work that is shared out among the machine's processors.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many are at work on so many pieces.
pub(crate) fn hands(pieces: usize) -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(pieces)
}

/// Does every piece, as many at once as there are processors: whoever is done takes the next one. Results are in the order of the pieces.
pub(crate) fn share<P: Send, R: Send>(pieces: Vec<P>, work: impl Fn(P) -> R + Sync) -> Vec<R> {
    let count = hands(pieces.len());
    let left = Mutex::new(pieces.into_iter().enumerate());
    let take = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let hand = || {
        let mut done = Vec::new();
        while let Some((place, piece)) = take() {
            done.push((place, work(piece)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let hands: Vec<_> = (0..count).map(|_| scope.spawn(hand)).collect();
        hands.into_iter().flat_map(|hand| hand.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_and_results_keep_their_order() {
        for count in [0, 1, 3, 100] {
            let pieces: Vec<usize> = (0..count).collect();
            assert_eq!(
                share(pieces, |piece| 2 * piece),
                (0..count).map(|piece| 2 * piece).collect::<Vec<_>>()
            );
        }
    }
}
