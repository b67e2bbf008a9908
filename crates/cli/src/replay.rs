//! `tribunal replay`.

use std::io::Write;
use std::path::{Path, PathBuf};

use tribunal_board::{clean, replay};
use tribunal_judge::{Outcome, Seed};
use tribunal_runner::{Artefact, Submission};

use crate::arguments::{Common, EffortChoice, ReplayOptions};
use crate::exit::{Exit, Failure};
use crate::judge::order;
use crate::progress::Progress;
use crate::store::{self, not_got};

pub fn run(options: &ReplayOptions, common: &Common) -> Result<Exit, Failure> {
    let (prefix, rest) = options.finding.split_once('/').ok_or_else(|| usage(&options.finding))?;
    let (case, check) = rest.rsplit_once(':').ok_or_else(|| usage(&options.finding))?;
    let verdict = store::to_read(common)?.get(prefix).map_err(not_got)?;
    let folder = Path::new(&verdict.submission.folder);
    let submission = Submission::open(folder).map_err(|error| {
        Failure::Usage(format!("the submission of verdict {} is not there: {error}", verdict.id))
    })?;
    if submission.sha256 != verdict.submission.sha256 {
        anstream::eprintln!(
            "tribunal: {} has changed since it was judged; this replays the case on what is there now",
            folder.display()
        );
    }
    let seed = verdict.judge.seed.parse().map_err(|_| Failure::Bug("a verdict without a seed".to_owned()))?;
    let order = order(Seed(seed), EffortChoice::Standard, &options.cage, common)?;
    let progress = Progress::new(common.quiet);
    let line = progress.line(&verdict.submission.name);
    let replayed = tribunal_judge::replay_submission(&order, &submission, case, &line)
        .map_err(|trouble| Failure::Machine(trouble.to_string()))?
        .ok_or_else(|| Failure::Usage(not_a_case(case, &verdict)))?;
    drop(line);
    let finding = replayed
        .findings
        .iter()
        .find(|finding| finding.check == check)
        .ok_or_else(|| Failure::Usage(format!("case {case} has no check `{check}`")))?;
    let into = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("replay").join(&verdict.id).join(rest.replace(['/', ':'], "-")));
    let written = replay::write(
        &into,
        &replay::Replay {
            challenge: submission.challenge,
            language: submission.manifest.language,
            entry: &submission.manifest.entry,
            folder: &submission.folder,
            judge: &verdict.judge,
            name: &submission.manifest.name,
            finding,
            record: &replayed.record,
        },
    )
    .map_err(|error| Failure::Machine(error.to_string()))?;
    let mut out = anstream::stdout();
    let outcome = match finding.outcome {
        Outcome::Pass => "holds",
        Outcome::Fail => "fails",
        Outcome::Inconclusive => "is undecided",
        Outcome::Infrastructure => "could not be tried",
        Outcome::Integrity => "fails by tampering",
    };
    writeln!(
        out,
        "{} {outcome}{}",
        finding.id,
        finding.used.map_or(String::new(), |used| format!(", {used:.3} of its budget used"))
    )?;
    if !finding.message.is_empty() {
        writeln!(out, "{}", clean::line(&finding.message))?;
    }
    writeln!(out, "written to {}", into.display())?;
    if let Some(command) = &written.command {
        // A reproducer in Python needs a numpy; the one that was judged with is known to be there.
        let numpy = match order.workshop.make(&submission, &|_| ()) {
            Ok(Artefact::Module(python)) => format!("PYTHONPATH={} ", python.site.display()),
            _ => String::new(),
        };
        writeln!(out, "without Tribunal: cd {} && {}{command}", into.display(), numpy)?;
    }
    Ok(if finding.outcome == Outcome::Pass { Exit::Accepted } else { Exit::Rejected })
}

fn usage(given: &str) -> Failure {
    Failure::Usage(format!(
        "`{}` is no finding: a verdict prints them as <verdict>/<case>:<check>",
        clean::line(given)
    ))
}

fn not_a_case(case: &str, verdict: &tribunal_judge::Verdict) -> String {
    format!(
        "`{}` is a finding without a case to run again; judge again instead: tribunal judge {}",
        clean::line(case),
        clean::line(&verdict.submission.folder)
    )
}
