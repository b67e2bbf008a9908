//! Selection, in one of several honest ways or with one of many defects.

use std::cmp::Ordering;

use super::{Defect, Selection, Topk};

/// A candidate: what it is chosen by, and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: f32,
    pub(super) place: usize,
}

impl Topk {
    /// The best k of some entries, best first; fewer where there are fewer.
    pub(super) fn select(&self, entries: &[Entry], k: usize) -> Vec<Entry> {
        let of_lane = |workers: usize| {
            move |lane: usize| entries.iter().copied().skip(lane).step_by(workers).collect::<Vec<_>>()
        };
        match self.defect {
            Some(Defect::LanesApart(workers)) => {
                let lanes: Vec<Vec<Entry>> =
                    (0..workers.min(k)).map(of_lane(workers)).map(|own| self.best(own, k)).collect();
                let nothing = Entry { key: f32::NEG_INFINITY, place: usize::MAX };
                (0..k).map(|rank| lanes[rank % workers].get(rank).copied().unwrap_or(nothing)).collect()
            }
            Some(Defect::LanesKeep { workers, keeps }) => {
                let kept = (0..workers).map(of_lane(workers)).flat_map(|own| self.best(own, keeps.min(k)));
                self.best(kept.collect(), k)
            }
            Some(Defect::ChunksKeep { workers, keeps }) => {
                let shares = entries.chunks(entries.len().div_ceil(workers));
                self.best(shares.flat_map(|own| self.best(own.to_vec(), keeps.min(k))).collect(), k)
            }
            Some(Defect::AtMost(most)) => self.best(entries.to_vec(), k.min(most)),
            _ => match self.selection {
                Selection::Lanes(workers) => {
                    let kept = (0..workers).map(of_lane(workers)).flat_map(|own| self.best(own, k));
                    self.best(kept.collect(), k)
                }
                _ => self.best(entries.to_vec(), k),
            },
        }
    }

    fn best(&self, mut entries: Vec<Entry>, k: usize) -> Vec<Entry> {
        match self.selection {
            Selection::Sort => {
                entries.sort_unstable_by(|a, b| self.order(a, b));
                entries.truncate(k);
                entries
            }
            Selection::Threshold => {
                if k < entries.len() {
                    entries.select_nth_unstable_by(k, |a, b| self.order(a, b));
                    entries.truncate(k);
                }
                entries.sort_unstable_by(|a, b| self.order(a, b));
                entries
            }
            Selection::Heap | Selection::Lanes(_) => {
                let mut heap = Heap { entries: Vec::with_capacity(k), size: k, topk: self };
                entries.into_iter().for_each(|entry| heap.offer(entry));
                if !self.has(Defect::HeapOrder) {
                    heap.entries.sort_by(|a, b| self.order(a, b));
                }
                heap.entries
            }
        }
    }

    /// Best first.
    fn order(&self, a: &Entry, b: &Entry) -> Ordering {
        let by_place = a.place.cmp(&b.place);
        let by_place = if self.ties_from_right { by_place.reverse() } else { by_place };
        b.key.total_cmp(&a.key).then(by_place)
    }
}

/// The best so far, with the worst of them at the top.
struct Heap<'a> {
    entries: Vec<Entry>,
    size: usize,
    topk: &'a Topk,
}

impl Heap<'_> {
    fn offer(&mut self, entry: Entry) {
        if self.entries.len() < self.size {
            self.entries.push(entry);
            self.sift_up();
        } else if self.worse(self.entries[0], entry) {
            if self.topk.has(Defect::ReplacesAnother) {
                self.entries[self.size / 2] = entry;
            } else {
                self.entries[0] = entry;
                self.sift_down();
            }
        }
    }

    fn worse(&self, a: Entry, b: Entry) -> bool {
        self.topk.order(&a, &b) == Ordering::Greater
    }

    fn sift_up(&mut self) {
        let mut at = self.entries.len() - 1;
        while at > 0 && self.worse(self.entries[at], self.entries[(at - 1) / 2]) {
            self.entries.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let children = 2 * at + 1..self.entries.len().min(2 * at + 3);
            let worst =
                children.reduce(|a, b| if self.worse(self.entries[b], self.entries[a]) { b } else { a });
            let Some(child) = worst.filter(|&child| self.worse(self.entries[child], self.entries[at])) else {
                return;
            };
            if self.topk.has(Defect::SiftDownCopies) {
                self.entries[at] = self.entries[child];
            } else {
                self.entries.swap(at, child);
            }
            at = child;
        }
    }
}
