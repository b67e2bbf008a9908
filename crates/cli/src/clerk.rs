//! Who keeps verdicts as they are ruled, and tells others meanwhile what is being judged.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use tribunal_board::live::{Live, Told};
use tribunal_board::{Store, Style, clean, terminal};
use tribunal_judge::{SourceFile, Verdict};

use crate::exit::Failure;
use crate::progress::{Line, Progress};

pub struct Clerk<'a> {
    progress: &'a Progress,
    store: Option<&'a Store>,
    live: Option<Live>,
    /// Whether it was said that verdicts are not kept.
    told_loss: AtomicBool,
    /// Whether it was said that the judge itself broke.
    told_bug: AtomicBool,
    /// How a line for each verdict is laid out, where they are printed as they are ruled.
    lines: Option<Style>,
}

impl<'a> Clerk<'a> {
    /// Announces a judging beside the store. One that cannot be announced goes on unseen.
    pub fn new(store: Result<&'a Store, &Failure>, progress: &'a Progress) -> Self {
        let live = store.ok().and_then(|store| Live::announce(store.path()).ok());
        let (told_loss, told_bug) = (AtomicBool::new(false), AtomicBool::new(false));
        let clerk = Self { progress, store: store.ok(), live, told_loss, told_bug, lines: None };
        if let Err(failure) = store {
            clerk.tell_loss(failure);
        }
        clerk
    }

    /// Prints a line for each verdict as it is ruled: of many, the first are there long before the last.
    pub fn printing_lines(mut self, style: Style) -> Self {
        self.lines = Some(style);
        self
    }

    /// The progress of the whole.
    pub fn whole(&self, name: &str) -> Line {
        self.progress.line(name).telling(self.live.as_ref().map(Live::whole))
    }

    /// Lists a submission among those that are judged.
    pub fn list(&self, name: &str, challenge: &str) -> Option<Told> {
        self.live.as_ref().map(|live| live.submission(name, challenge))
    }

    /// The progress of a submission that was listed.
    pub fn line(&self, name: &str, told: &Option<Told>) -> Line {
        self.progress.line(name).telling(told.clone())
    }

    /// Keeps a verdict. A store that cannot be written to spoils no judging, but is told: replays need it.
    pub fn keep(&self, verdict: &Verdict, sources: &[SourceFile]) {
        if let Some(Err(error)) = self.store.map(|store| store.put(verdict, sources)) {
            self.tell_loss(&error);
        }
        if let Some(style) = &self.lines {
            // Who does not read them any more gets his verdicts from the store.
            let _ =
                self.progress.suspend(|| writeln!(anstream::stdout(), "{}", terminal::line(verdict, style)));
        }
    }

    /// Says something of a submission.
    pub fn say(&self, what: &str) {
        self.progress.suspend(|| anstream::eprintln!("tribunal: {}", clean::line(what)));
    }

    /// Says that the judge itself broke.
    pub fn say_bug(&self, what: &str) {
        self.told_bug.store(true, Ordering::Relaxed);
        self.say(what);
    }

    /// Whether the judge itself broke, here or there.
    pub fn told_bug(&self) -> bool {
        self.told_bug.load(Ordering::Relaxed)
    }

    fn tell_loss(&self, why: &dyn std::fmt::Display) {
        if !self.told_loss.swap(true, Ordering::Relaxed) {
            self.progress.suspend(|| {
                anstream::eprintln!(
                    "tribunal: the verdicts are not kept, so findings cannot be replayed: {why}"
                );
            });
        }
    }
}
