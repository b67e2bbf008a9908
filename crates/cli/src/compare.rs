//! `tribunal compare`.

use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};

use tribunal_board::compare::{Contestant, Paired, compare, document, never_met};
use tribunal_board::{Store, StoreError, Summary, document, ranking};
use tribunal_judge::{Hearing, Order, Reference, Ruling, Seed, Verdict};
use tribunal_runner::Submission;
use tribunal_runner::submission::find as find_submissions;

use crate::arguments::{Common, CompareFormat, CompareOptions};
use crate::clerk::Clerk;
use crate::exit::{Exit, Failure};
use crate::judge::{Manner, judge_all, order, table_style, try_controls};
use crate::progress::Progress;
use crate::store;

pub fn run(options: &CompareOptions, common: &Common) -> Result<Exit, Failure> {
    let progress = Progress::new(common.quiet);
    let order = order(Seed::PUBLIC, options.effort, &options.cage, common)?;
    // Folders may have to be judged.
    let any_folder = options.contestants.iter().any(|name| Path::new(name).exists());
    let store = if any_folder { store::to_write(common)? } else { store::to_read(common)? };
    let (stored, damaged) = store.summaries().map_err(machine)?;
    for damaged in &damaged {
        anstream::eprintln!("tribunal: skipped {damaged}");
    }
    let stored = ranking::latest(stored);
    let tried = Cell::new(false);
    let search = Search { order: &order, store: &store, stored: &stored, progress: &progress, tried };
    let mut contestants: Vec<Contestant> =
        options.contestants.iter().map(|name| search.find(name)).collect::<Result<_, _>>()?;
    tell_apart(&mut contestants, &options.contestants);
    if let Some(why) = never_met(&contestants) {
        return Err(Failure::Usage(tribunal_board::clean::line(&why)));
    }
    let paired = if options.interleaved { interleaved(&order, &contestants, &progress)? } else { Vec::new() };
    let comparison = compare(&contestants, &paired);
    let mut out = anstream::stdout();
    match options.format {
        CompareFormat::Terminal => {
            write!(out, "{}", document::terminal::show(&document(&comparison), &table_style()))?;
        }
        CompareFormat::Md => write!(out, "{}", document::markdown::show(&document(&comparison)))?,
        CompareFormat::Html => write!(out, "{}", document::html::page(&document(&comparison)))?,
        CompareFormat::Json => {
            let line = serde_json::to_string(&comparison).map_err(|error| Failure::Bug(error.to_string()))?;
            writeln!(out, "{line}")?;
        }
    }
    Ok(Exit::Accepted)
}

fn machine(error: StoreError) -> Failure {
    Failure::Machine(error.to_string())
}

/// Where contestants are looked for, and what judges those that were not judged yet.
struct Search<'a> {
    order: &'a Order,
    store: &'a Store,
    /// The last verdict on each contestant and challenge.
    stored: &'a [Summary],
    progress: &'a Progress,
    /// Whether the judge itself was tried.
    tried: Cell<bool>,
}

impl Search<'_> {
    /// A folder of submissions, a name in the store, or the beginning of a verdict's id.
    fn find(&self, name: &str) -> Result<Contestant, Failure> {
        let path = Path::new(name);
        if path.exists() {
            let folders =
                find_submissions(&[path.to_owned()]).map_err(|error| Failure::Usage(error.to_string()))?;
            if folders.is_empty() {
                return Err(Failure::Usage(format!("no tribunal.toml in or below {name}")));
            }
            return self.judged(&folders);
        }
        let named = self.stored.iter().filter(|summary| summary.submission.name == name);
        let verdicts: Vec<Verdict> =
            named.map(|summary| self.store.get(&summary.id)).collect::<Result<_, _>>().map_err(machine)?;
        if !verdicts.is_empty() {
            return Ok(Contestant { label: name.to_owned(), verdicts });
        }
        match self.store.get(name) {
            Ok(verdict) => Ok(Contestant { label: verdict.submission.name.clone(), verdicts: vec![verdict] }),
            Err(StoreError::NotFound { .. }) => Err(Failure::Usage(format!(
                "`{}` is no folder, no contestant with a verdict, and no verdict's id; `tribunal board` lists contestants",
                tribunal_board::clean::line(name)
            ))),
            Err(error @ StoreError::Ambiguous { .. }) => Err(Failure::Usage(error.to_string())),
            Err(error) => Err(machine(error)),
        }
    }

    /// Verdicts on the submissions of some folders: stored ones where nothing has changed since, fresh ones otherwise.
    fn judged(&self, folders: &[PathBuf]) -> Result<Contestant, Failure> {
        let (mut verdicts, mut fresh) = (Vec::new(), Vec::new());
        for folder in folders {
            let submission = Submission::open(folder).map_err(|error| Failure::Usage(error.to_string()))?;
            let as_now = |summary: &&Summary| {
                let judge = &summary.judge;
                summary.submission.sha256 == submission.sha256
                    && summary.submission.challenge == submission.challenge.id
                    && judge.version == env!("CARGO_PKG_VERSION")
                    && judge.effort == self.order.effort
                    && judge.seed == self.order.seed.to_string()
                    && summary.outcome != Ruling::Infrastructure
            };
            match self.stored.iter().find(as_now) {
                Some(summary) => verdicts.push(self.store.get(&summary.id).map_err(machine)?),
                None => fresh.push(folder.clone()),
            }
        }
        if !fresh.is_empty() {
            let clerk = Clerk::new(Ok(self.store), self.progress);
            if !self.tried.replace(true) {
                try_controls(self.order, &clerk)?;
            }
            verdicts.extend(judge_all(self.order, &fresh, &Manner::default(), &clerk));
            if clerk.told_bug() {
                return Err(Failure::Bug("there is no verdict to compare".to_owned()));
            }
        }
        let mut challenges: Vec<&str> =
            verdicts.iter().map(|one| one.submission.challenge.as_str()).collect();
        challenges.sort_unstable();
        if let Some(twice) = challenges.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Failure::Usage(format!(
                "{} holds several submissions to {}: name one folder for each contestant",
                folders[0].parent().unwrap_or(&folders[0]).display(),
                twice[0]
            )));
        }
        let label = verdicts.first().map_or_else(String::new, |verdict| verdict.submission.name.clone());
        Ok(Contestant { label, verdicts })
    }
}

/// Two of one name are told apart by what they were asked for.
fn tell_apart(contestants: &mut [Contestant], asked: &[String]) {
    let labels: Vec<String> = contestants.iter().map(|one| one.label.clone()).collect();
    for (index, contestant) in contestants.iter_mut().enumerate() {
        if labels.iter().filter(|label| **label == contestant.label).count() > 1
            && contestant.label != asked[index]
        {
            contestant.label = format!("{} ({})", contestant.label, asked[index]);
        }
    }
}

/// Every pair's times, taken in turns: the second sits in the reference's chair.
fn interleaved(
    order: &Order,
    contestants: &[Contestant],
    progress: &Progress,
) -> Result<Vec<Paired>, Failure> {
    let mut paired = Vec::new();
    for first in 0..contestants.len() {
        for second in first + 1..contestants.len() {
            for one in &contestants[first].verdicts {
                let challenge = &one.submission.challenge;
                let other = contestants[second]
                    .verdicts
                    .iter()
                    .find(|other| other.submission.challenge == *challenge);
                let Some(other) = other else { continue };
                if [one, other].iter().any(|verdict| verdict.outcome == Ruling::Disqualified) {
                    continue;
                }
                let line = progress.line(&contestants[first].label);
                let beside =
                    Reference::build(order, Path::new(&other.submission.folder), &|what| line.say(what))
                        .map_err(Failure::Machine)?;
                let submission = Submission::open(Path::new(&one.submission.folder))
                    .map_err(|error| Failure::Machine(error.to_string()))?;
                let measured = Hearing::open(order, submission)
                    .bench(Some(&beside), &line)
                    .map_err(|trouble| Failure::Machine(trouble.to_string()))?;
                paired.extend(measured.measurements.into_iter().filter_map(|measurement| {
                    Some(Paired {
                        challenge: challenge.clone(),
                        first,
                        second,
                        name: measurement.name,
                        workload: measurement.workload,
                        ratio: measurement.of_reference?,
                        interval: measurement.of_reference_interval?,
                    })
                }));
            }
        }
    }
    Ok(paired)
}
