//! `tribunal replay`.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use tribunal_board::{Bundle, clean, replay};
use tribunal_judge::{Finding, Outcome, Seed};
use tribunal_runner::{Artefact, Submission};

use crate::arguments::{Common, EffortChoice, ReplayOptions};
use crate::exit::{Exit, Failure};
use crate::judge::order;
use crate::progress::Progress;
use crate::store::{self, not_got};

pub fn run(options: &ReplayOptions, common: &Common) -> Result<Exit, Failure> {
    let (prefix, rest) = options.finding.split_once('/').ok_or_else(|| usage(&options.finding))?;
    let (case, check) = rest.rsplit_once(':').ok_or_else(|| usage(&options.finding))?;
    let bundle = store::to_read(common)?.bundle(prefix).map_err(not_got)?;
    let verdict = &bundle.verdict;
    // What was seen of a kernel is named after its line, and seen in a case.
    let of_kernel = verdict.findings.iter().find(|finding| finding.id == rest && finding.is_of_kernel());
    let case = of_kernel.and_then(|finding| finding.seen_in.as_deref()).unwrap_or(case);
    let into = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from("replay").join(&verdict.id).join(folder_name(rest)));
    let submission = judged(&bundle, &into.join("submission"))?;
    let seed = verdict.judge.seed.parse().map_err(|_| Failure::Bug("a verdict without a seed".to_owned()))?;
    let order = order(Seed(seed), EffortChoice::Standard, &options.cage, common)?;
    let progress = Progress::new(common.quiet);
    let line = progress.line(&verdict.submission.name);
    let replayed = tribunal_judge::replay_submission(&order, &submission, case, &line)
        .map_err(|trouble| Failure::Machine(trouble.to_string()))?
        .ok_or_else(|| Failure::Usage(not_a_case(case, verdict)))?;
    drop(line);
    let seen = |finding: &&Finding| match of_kernel {
        Some(told) => finding.id == told.id,
        None => finding.check == check && !finding.is_of_kernel(),
    };
    let finding = match (replayed.findings.iter().find(seen), of_kernel) {
        (Some(finding), _) => finding.clone(),
        (None, Some(told)) => not_seen(told, &replayed.findings),
        (None, None) => {
            let nothing = format!("case {case} has no check `{check}`");
            return Err(Failure::Usage(clean::line(&nothing)));
        }
    };
    let written = replay::write(
        &into,
        &replay::Replay {
            challenge: submission.challenge,
            language: submission.manifest.language,
            entry: &submission.manifest.entry,
            folder: &submission.folder,
            judge: &verdict.judge,
            name: &submission.manifest.name,
            finding: &finding,
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
        "{} {outcome}{}{}",
        clean::line(&finding.id),
        of_kernel.map_or(String::new(), |_| format!(" in {}", clean::line(case))),
        finding.used.map_or(String::new(), |used| format!(", {used:.3} of its budget used"))
    )?;
    if !finding.message.is_empty() {
        writeln!(out, "{}", clean::line(&finding.message))?;
    }
    writeln!(out, "written to {}", clean::line(&into.display().to_string()))?;
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

/// A folder's name for a finding. Of one that is too long for a name the end stays, with line and fault.
fn folder_name(finding: &str) -> String {
    const BYTES_MAX: usize = 250;
    let fits = |&(at, _): &(usize, char)| finding.len() - at <= BYTES_MAX;
    let start = finding.char_indices().find(fits).map_or(0, |(at, _)| at);
    finding[start..].replace(['/', ':'], "-")
}

/// A fault of a kernel that did not come up. That proves nothing: it may have moved to another line, or need what earlier cases left behind.
fn not_seen(told: &Finding, findings: &[Finding]) -> Finding {
    let others: Vec<&str> =
        findings.iter().filter(|finding| finding.is_of_kernel()).map(|finding| finding.id.as_str()).collect();
    let message = if others.is_empty() {
        "it was not seen this time, and nothing else of a kernel".to_owned()
    } else {
        format!("it was not seen this time; this was: {}", others.join(", "))
    };
    Finding { outcome: Outcome::Inconclusive, message, ..told.clone() }
}

/// The submission as it was judged: where it was, or else laid out from what was kept with the verdict.
fn judged(bundle: &Bundle, into: &Path) -> Result<Submission, Failure> {
    let recorded = &bundle.verdict.submission;
    let there = Submission::open(Path::new(&recorded.folder));
    let trouble = match there {
        Ok(submission) if submission.sha256 == recorded.sha256 => return Ok(submission),
        Ok(ref submission) => format!("{} has changed since it was judged", submission.folder.display()),
        Err(ref error) => error.to_string(),
    };
    let trouble = clean::line(&trouble);
    match (lay_out(bundle, into), there) {
        (Ok(submission), _) => {
            anstream::eprintln!(
                "tribunal: {trouble}; this replays the case on the sources kept with the verdict"
            );
            Ok(submission)
        }
        (Err(why), Ok(submission)) => {
            anstream::eprintln!("tribunal: {trouble}, and {why}; this replays the case on what is there now");
            Ok(submission)
        }
        (Err(why), Err(_)) => Err(Failure::Usage(format!(
            "the submission of verdict {} is not there: {trouble}; and {why}",
            bundle.verdict.id
        ))),
    }
}

/// Writes the sources of a bundle, if they are what was judged. They stay, for the reproducer needs them.
fn lay_out(bundle: &Bundle, into: &Path) -> Result<Submission, String> {
    if !bundle.has_what_was_judged() {
        return Err("the sources kept with the verdict are not all that was judged".to_owned());
    }
    let inside = |path: &str| Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if let Some(file) = bundle.sources.iter().find(|file| !inside(&file.path)) {
        return Err(format!("{} lies outside of it", clean::cut(&file.path, 200)));
    }
    let write = || -> std::io::Result<()> {
        for file in &bundle.sources {
            let path = into.join(&file.path);
            fs::create_dir_all(path.parent().expect("it is below the folder"))?;
            fs::write(path, &file.text)?;
        }
        Ok(())
    };
    // An earlier replay may have laid it out.
    if !into.exists() {
        write().map_err(|error| format!("{}: {error}", into.display()))?;
    }
    match Submission::open(into) {
        Ok(submission) if submission.sha256 == bundle.verdict.submission.sha256 => Ok(submission),
        _ => Err(format!("{} is there and is not what was judged", into.display())),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_a_name_that_fits_and_keeps_its_end() {
        assert_eq!(folder_name("basic/normal/1x2:dx"), "basic-normal-1x2-dx");
        for long in ["a/".repeat(300), "ü".repeat(300)] {
            let name = folder_name(&format!("{long}:dx"));
            assert!(name.len() <= 250 && name.ends_with("-dx"), "{name}");
        }
    }

    #[test]
    fn what_is_not_seen_again_is_undecided_and_what_is_seen_instead_is_named() {
        let finding = |id: &str| -> Finding {
            let (case, check) = id.rsplit_once(':').expect("a finding");
            serde_json::from_value(serde_json::json!({
                "id": id, "case": case, "check": check, "family": "basic", "dimension": "correctness",
                "outcome": "fail", "severity": "critical", "message": "seen",
            }))
            .expect("a finding")
        };
        let told = finding("sanitizer/scan/a.cu:12:shared_race");
        let moved = not_seen(&told, &[finding("basic/a:dx"), finding("sanitizer/scan/a.cu:13:shared_race")]);
        assert_eq!((&moved.id, moved.outcome), (&told.id, Outcome::Inconclusive));
        assert!(moved.message.ends_with("this was: sanitizer/scan/a.cu:13:shared_race"), "{}", moved.message);
        let gone = not_seen(&told, &[finding("basic/a:dx")]);
        assert_eq!(gone.outcome, Outcome::Inconclusive);
        assert!(gone.message.contains("nothing else"), "{}", gone.message);
    }
}
