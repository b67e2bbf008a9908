//! Progress on stderr, on a terminal only; and to other programs, where a judging is announced to them.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tribunal_board::live::Told;
use tribunal_judge::Watch;

/// All bars of a run.
pub struct Progress {
    bars: MultiProgress,
}

impl Progress {
    /// Bars, unless they are not wanted or nobody would see them.
    pub fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        Self { bars: MultiProgress::with_draw_target(target) }
    }

    /// A line for one submission.
    pub fn line(&self, name: &str) -> Line {
        let style = ProgressStyle::with_template("{spinner} {prefix:24!} {msg:48!} {bar:20} {pos}/{len}")
            .expect("a valid template");
        let bar = self.bars.add(ProgressBar::new(0).with_style(style).with_prefix(clean(name)));
        bar.enable_steady_tick(Duration::from_millis(120));
        Line { bar, told: None }
    }

    /// Prints while bars are drawn, without tearing them.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bars.suspend(print)
    }
}

/// The progress of one submission; gone when dropped.
pub struct Line {
    bar: ProgressBar,
    told: Option<Told>,
}

impl Line {
    /// Tells other programs as well.
    pub fn telling(mut self, told: Option<Told>) -> Self {
        self.told = told;
        self
    }

    /// Says what is going on outside the trial's own phases.
    pub fn say(&self, what: &str) {
        self.bar.set_message(clean(what));
    }
}

impl Watch for Line {
    fn phase(&self, what: &str, steps: Option<usize>) {
        self.bar.set_position(0);
        self.bar.set_length(steps.unwrap_or(0) as u64);
        self.say(what);
        if let Some(told) = &self.told {
            told.phase(what, steps);
        }
    }

    fn step(&self, what: &str) {
        self.say(what);
        self.bar.inc(1);
        if let Some(told) = &self.told {
            told.step(what);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Names come from submissions.
fn clean(text: &str) -> String {
    tribunal_board::clean::line(text)
}
