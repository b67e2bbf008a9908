//! Everything that tables show, as it was at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use axum::body::Bytes;
use self_cell::self_cell;
use tribunal_board::ranking::{self, Place, Standings};
use tribunal_board::{Store, StoreError, Summary};

use crate::problem::told;

/// Pages that are kept, in bytes.
const PAGES_BYTES_MAX: usize = 64 << 20;

/// Longest path and query whose page is kept.
const KEY_BYTES_MAX: usize = 1024;

/// What keeping takes beyond name and page, about.
const ENTRY_BYTES: usize = 200;

type Tables<'a> = Vec<Standings<'a>>;

self_cell!(
    /// The last verdict on each contestant and challenge, and where it stands among the others.
    struct Ranked {
        owner: Vec<Summary>,
        #[covariant]
        dependent: Tables,
    }
);

/// What the store held.
pub(crate) struct Snapshot {
    /// The store's version.
    pub(crate) version: u64,
    ranked: Ranked,
    /// Verdicts that later ones replaced, the last first.
    earlier: Vec<Summary>,
    /// Where each contestant's verdicts are among the ranked.
    contestants: BTreeMap<String, Vec<usize>>,
    /// Where each verdict stands: which table, which row, counted on into the unranked.
    rows: HashMap<String, (usize, usize)>,
    /// Which of the ranked came since the snapshot before, or else the last.
    newest: Option<usize>,
    /// What could not be read.
    pub(crate) damaged: Vec<String>,
    /// Pages made of it.
    pages: Mutex<Pages>,
    /// Whether the store could not be read since.
    is_stale: AtomicBool,
}

#[derive(Default)]
struct Pages {
    made: HashMap<String, Bytes>,
    bytes: usize,
}

impl Snapshot {
    /// Reads and ranks everything.
    pub(crate) fn of(store: &Store, before: Option<&Self>) -> Result<Self, StoreError> {
        // Before the rest: what comes in between is read twice rather than never.
        let version = store.version()?;
        let (summaries, damaged) = store.summaries()?;
        let (last, mut earlier) = ranking::by_age(summaries);
        earlier.reverse();
        let mut contestants: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, summary) in last.iter().enumerate() {
            contestants.entry(summary.submission.name.clone()).or_default().push(index);
        }
        // What is put late may have been judged early: it is new all the same.
        let is_new = |summary: &Summary| before.is_some_and(|before| !before.rows.contains_key(&summary.id));
        let newest = last.iter().rposition(is_new).or(last.len().checked_sub(1));
        let ranked = Ranked::new(last, |summaries| ranking::rank(summaries));
        let mut rows = HashMap::new();
        for (table, standings) in ranked.borrow_dependent().iter().enumerate() {
            for (row, place) in standings.places.iter().chain(&standings.unranked).enumerate() {
                rows.insert(place.summary.id.clone(), (table, row));
            }
        }
        let damaged = damaged.iter().map(told).collect();
        Ok(Self {
            version,
            ranked,
            earlier,
            contestants,
            rows,
            newest,
            damaged,
            pages: Mutex::default(),
            is_stale: AtomicBool::new(false),
        })
    }

    /// Whether the store cannot be read any more, and this is what it held last.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::SeqCst)
    }

    /// Says whether the store can be read. Pages that say otherwise are made anew.
    pub(crate) fn set_stale(&self, is_stale: bool) {
        if self.is_stale.swap(is_stale, Ordering::SeqCst) != is_stale {
            *self.lock() = Pages::default();
        }
    }

    /// Challenge by challenge.
    pub(crate) fn standings(&self) -> &[Standings<'_>] {
        self.ranked.borrow_dependent()
    }

    /// One challenge.
    pub(crate) fn challenge(&self, id: &str) -> Option<&Standings<'_>> {
        self.standings().iter().find(|standings| standings.challenge == id)
    }

    /// The names of all contestants, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.contestants.keys().map(String::as_str)
    }

    /// The last verdicts on a contestant.
    pub(crate) fn contestant(&self, name: &str) -> Vec<&Summary> {
        let indices = self.contestants.get(name).map_or(&[][..], Vec::as_slice);
        indices.iter().map(|&index| &self.ranked.borrow_owner()[index]).collect()
    }

    /// Verdicts on a contestant that later ones replaced, the last first.
    pub(crate) fn earlier(&self, name: &str) -> Vec<&Summary> {
        self.earlier.iter().filter(|summary| summary.submission.name == name).collect()
    }

    /// Where a verdict stands, unless a later one replaced it.
    pub(crate) fn place(&self, id: &str) -> Option<(&Standings<'_>, &Place<'_>)> {
        let &(table, row) = self.rows.get(id)?;
        let standings = &self.standings()[table];
        Some((standings, standings.places.iter().chain(&standings.unranked).nth(row)?))
    }

    /// What tables show of a verdict.
    pub(crate) fn summary(&self, id: &str) -> Option<&Summary> {
        let replaced = || self.earlier.iter().find(|summary| summary.id == id);
        self.place(id).map(|(_, place)| place.summary).or_else(replaced)
    }

    /// The verdict that came last.
    pub(crate) fn newest(&self) -> Option<&Summary> {
        self.ranked.borrow_owner().get(self.newest?)
    }

    /// How many verdicts are not replaced.
    pub(crate) fn len(&self) -> usize {
        self.ranked.borrow_owner().len()
    }

    /// A page that was made before.
    pub(crate) fn page(&self, key: &str) -> Option<Bytes> {
        self.lock().made.get(key).cloned()
    }

    /// Keeps a page for the next who asks. When there are too many, all are made anew as they are asked for.
    pub(crate) fn keep(&self, key: String, page: Bytes) {
        // Names are chosen by who asks: long ones are no page's, and short ones count too.
        let bytes = key.len() + page.len() + ENTRY_BYTES;
        if key.len() > KEY_BYTES_MAX {
            return;
        }
        let mut pages = self.lock();
        if pages.bytes + bytes > PAGES_BYTES_MAX {
            *pages = Pages::default();
        }
        pages.bytes += bytes;
        pages.made.insert(key, page);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
