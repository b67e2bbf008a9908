//! `tribunal review`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use tribunal_board::{Bundle, Store, document};
use tribunal_judge::{Effort, Order, Outcome, Ruling, Seed, Verdict, sources};
use tribunal_review::{
    Http, Judge, Nobody, Party, Recorder, Replay, Review, ReviewError, Reviewer, Wanted, page, review,
    reviewers,
};
use tribunal_runner::Submission;

use crate::arguments::{Common, Format, ReviewOptions};
use crate::clerk::Clerk;
use crate::exit::{Exit, Failure};
use crate::judge::{Manner, judge_all, order, table_style, try_controls};
use crate::progress::Progress;
use crate::store::{self, not_got};

/// Bytes of a file of reviewers.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub fn run(options: &ReviewOptions, common: &Common) -> Result<Exit, Failure> {
    let written = options.out.as_deref().map(|path| form(path).map(|form| (path, form))).transpose()?;
    let given = options.reviewers.as_deref().map(asked).transpose()?;
    let parties: Vec<Party> =
        options.submissions.iter().map(|name| party(name, options, common)).collect::<Result<_, _>>()?;
    let mut court = Court { options, common, parties: &parties, broke: false };
    let review = held(options, &parties, given, &mut court)?;
    if let Some((path, form)) = written {
        fs::write(path, shown(&review, form)?)
            .map_err(|error| Failure::Machine(format!("{}: {error}", path.display())))?;
    }
    write!(anstream::stdout(), "{}", shown(&review, options.format)?)?;
    // Who nobody answered has no review, and the reason is no submission's.
    let heard = review.reviewers.iter().any(|report| report.answered > 0);
    let broken = court.broke.then_some(Exit::Bug);
    Ok(broken.unwrap_or(if heard { Exit::Accepted } else { Exit::Infrastructure }))
}

fn held(
    options: &ReviewOptions,
    parties: &[Party],
    given: Option<Vec<Reviewer>>,
    court: &mut Court<'_>,
) -> Result<Review, Failure> {
    let failed = |error: ReviewError| match error {
        ReviewError::Record(error) => Failure::Machine(error.to_string()),
        other => Failure::Usage(tribunal_board::clean::line(&other.to_string())),
    };
    let disk = |error: tribunal_review::RecordError| Failure::Machine(error.to_string());
    if let Some(folder) = &options.replay {
        let (courier, recorded) = Replay::open(folder).map_err(disk)?;
        return review(parties, given.as_deref().unwrap_or(&recorded), &courier, court).map_err(failed);
    }
    let given = given.ok_or_else(|| Failure::Usage("--reviewers FILE is needed".to_owned()))?;
    match &options.record {
        Some(folder) => {
            let courier = Recorder::new(folder, &given, Http::default()).map_err(disk)?;
            review(parties, &given, &courier, court).map_err(failed)
        }
        None => review(parties, &given, &Http::default(), court).map_err(failed),
    }
}

/// Judges folders of which a reviewer named a check, as `tribunal judge` does.
struct Court<'a> {
    options: &'a ReviewOptions,
    common: &'a Common,
    parties: &'a [Party],
    /// Whether the judge itself broke.
    broke: bool,
}

impl Judge for Court<'_> {
    fn effort(&self) -> Effort {
        self.options.effort.into()
    }

    fn judge(&mut self, wanted: &Wanted) -> Vec<Result<Verdict, String>> {
        if self.options.no_judging {
            return Nobody("that was asked for with --no-judging".to_owned()).judge(wanted);
        }
        let folder =
            |of: &usize| Some(PathBuf::from(&self.options.submissions[*of])).filter(|path| path.is_dir());
        let folders: Vec<PathBuf> = wanted.contestants.iter().filter_map(folder).collect();
        let verdicts = self.verdicts(&folders, wanted.repeats).map_err(|failure| failure.to_string());
        let of = |of: &usize| match (folder(of), &verdicts) {
            (None, _) => Err("only a folder is".to_owned()),
            (_, Err(why)) => Err(why.clone()),
            (_, Ok(verdicts)) => found(&self.parties[*of], verdicts, self.broke),
        };
        wanted.contestants.iter().map(of).collect()
    }
}

impl Court<'_> {
    fn verdicts(&mut self, folders: &[PathBuf], repeats: bool) -> Result<Vec<Verdict>, Failure> {
        if folders.is_empty() {
            return Ok(Vec::new());
        }
        let order = order(Seed::PUBLIC, self.options.effort, &self.options.cage, self.common)?;
        let order = Order { repeats, ..order };
        let progress = Progress::new(self.common.quiet);
        let store = store::to_write(self.common);
        let clerk = Clerk::new(store.as_ref(), &progress);
        try_controls(&order, &clerk)?;
        let verdicts = judge_all(&order, folders, &Manner::default(), &clerk);
        self.broke = clerk.told_bug();
        Ok(verdicts)
    }
}

/// The verdict on what reviewers were shown, if it says anything of it.
fn found(party: &Party, verdicts: &[Verdict], broke: bool) -> Result<Verdict, String> {
    let same = |verdict: &&Verdict| verdict.submission.sha256 == party.sha256;
    let Some(verdict) = verdicts.iter().find(same) else {
        let why = if broke { "the judge itself broke" } else { "its files are others by now" };
        return Err(why.to_owned());
    };
    if verdict.outcome != Ruling::Infrastructure {
        return Ok(verdict.clone());
    }
    let trouble = verdict.findings.iter().find(|finding| finding.outcome == Outcome::Infrastructure);
    Err(trouble.map_or_else(|| "the machine could not".to_owned(), |finding| finding.message.clone()))
}

fn asked(path: &Path) -> Result<Vec<Reviewer>, Failure> {
    let wrong = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
    let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(wrong("no plain file, or too large".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    reviewers(&text, path).map_err(|error| Failure::Usage(error.to_string()))
}

/// A folder, with the last verdict on what is in it; a bundle; or what was kept with a verdict.
fn party(name: &str, options: &ReviewOptions, common: &Common) -> Result<Party, Failure> {
    let path = Path::new(name);
    if path.is_dir() {
        let submission = Submission::open(path).map_err(|error| Failure::Usage(error.to_string()))?;
        // Who may judge makes a store if need be.
        let store = if options.no_judging { store::existing(common)? } else { store::if_there(common)? };
        let verdict = match store {
            Some(store) => judged(&store, &submission)?,
            None => None,
        };
        return Ok(of_folder(&submission, verdict));
    }
    let bundle = if path.is_file() {
        let wrong = |what: String| Failure::Usage(format!("{name}: {what}"));
        let read = Bundle::read_file(path).map_err(|error| wrong(error.to_string()))?;
        let bundle = read.map_err(|error| wrong(error.to_string()))?;
        // An altered one would decide what nobody measured.
        bundle.check().map_err(|error| wrong(error.to_string()))?;
        bundle
    } else {
        store::to_read(common)?.bundle(name).map_err(not_got)?
    };
    of_bundle(bundle)
}

fn of_folder(submission: &Submission, verdict: Option<Verdict>) -> Party {
    Party {
        name: submission.manifest.name.clone(),
        challenge: submission.challenge.id.to_owned(),
        language: submission.manifest.language,
        sha256: submission.sha256.clone(),
        files: sources(submission),
        verdict,
    }
}

/// The last verdict on these very files, if it says anything of them.
fn judged(store: &Store, submission: &Submission) -> Result<Option<Verdict>, Failure> {
    let (stored, _) = store.summaries().map_err(not_got)?;
    let same = stored.iter().rev().find(|summary| {
        summary.submission.sha256 == submission.sha256
            && summary.submission.challenge == submission.challenge.id
            && summary.outcome != Ruling::Infrastructure
    });
    same.map(|summary| store.get(&summary.id).map_err(not_got)).transpose()
}

fn of_bundle(bundle: Bundle) -> Result<Party, Failure> {
    let Bundle { verdict, sources, .. } = bundle;
    let language = serde_json::Value::String(verdict.submission.language.clone());
    Ok(Party {
        name: verdict.submission.name.clone(),
        challenge: verdict.submission.challenge.clone(),
        language: serde_json::from_value(language).map_err(|error| Failure::Usage(error.to_string()))?,
        sha256: verdict.submission.sha256.clone(),
        files: sources,
        verdict: Some(verdict),
    })
}

/// The form that a file's name asks for.
fn form(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => Ok(Format::Json),
        Some("md") => Ok(Format::Md),
        Some("html") => Ok(Format::Html),
        _ => Err(Failure::Usage(format!("--out {}: .json, .md or .html is needed", path.display()))),
    }
}

fn shown(review: &Review, form: Format) -> Result<String, Failure> {
    Ok(match form {
        Format::Terminal => document::terminal::show(&page(review), &table_style()),
        Format::Md => document::markdown::show(&page(review)),
        Format::Html => document::html::page(&page(review)),
        Format::Json => {
            serde_json::to_string(review).map_err(|error| Failure::Bug(error.to_string()))? + "\n"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_runner::Workshop;
    use tribunal_runner::cage::Cage;

    /// Judged by a machine that lacks the interpreter.
    #[test]
    fn a_verdict_decides_if_it_is_on_what_was_shown_and_the_machine_could_judge() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::new(true);
        let store = Store::open(folder.path().join("store.sqlite")).unwrap();
        let python = Some(PathBuf::from("/nonexistent/python"));
        let workshop = Workshop { cage: Cage::default(), cache: folder.path().to_owned(), python };
        let order = Order {
            workshop,
            cage: Cage::default(),
            seed: Seed::PUBLIC,
            effort: Effort::Quick,
            repeats: false,
            gpu: None,
        };
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specimens/layer_norm_backward/plain-numpy");
        let submission = Submission::open(&path).unwrap();
        let clerk = Clerk::new(Ok(&store), &progress);
        let mut verdict = judge_all(&order, &[path], &Manner::default(), &clerk).remove(0);
        assert_eq!(judged(&store, &submission).unwrap(), None, "it is kept, and says nothing");
        let party = of_folder(&submission, None);
        let why = |verdict: &Verdict, broke| found(&party, std::slice::from_ref(verdict), broke).unwrap_err();
        assert!(why(&verdict, false).contains("/nonexistent/python"), "{}", why(&verdict, false));
        verdict.outcome = Ruling::Rejected;
        assert_eq!(found(&party, std::slice::from_ref(&verdict), false).unwrap().id, verdict.id);
        verdict.submission.sha256.clear();
        assert_eq!(why(&verdict, false), "its files are others by now");
        assert_eq!(why(&verdict, true), "the judge itself broke");
    }
}
