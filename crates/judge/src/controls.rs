//! The court tries itself first: specimens with known verdicts, on this machine, before anybody is judged.

use std::fs;
use std::path::Path;

use tribunal_runner::Submission;

use crate::examine::Watch;
use crate::hands::share;
use crate::hearing::{Hearing, Order};
use crate::{Effort, Ruling, Verdict};

/// A specimen that the program carries with it.
struct Control {
    files: &'static [(&'static str, &'static str)],
    /// What it must be ruled.
    ruling: Ruling,
    /// The suspect that must be named, where there is one.
    suspect: Option<&'static str>,
}

macro_rules! specimen {
    ($folder:literal, $($file:literal),+) => {
        &[$(($file, include_str!(concat!("../../../", $folder, "/", $file)))),+]
    };
}

/// Honest in an odd way, defective in a subtle way, hostile.
const CONTROLS: [Control; 3] = [
    Control {
        files: specimen!("specimens/layer_norm_backward/strided-results", "tribunal.toml", "submission.py"),
        ruling: Ruling::Accepted,
        suspect: None,
    },
    Control {
        files: specimen!("specimens/layer_norm_backward/rows-mixed", "tribunal.toml", "submission.py"),
        ruling: Ruling::Rejected,
        suspect: Some("rows_mixed"),
    },
    Control {
        files: specimen!("exploits/forged-done", "tribunal.toml", "submission.py"),
        ruling: Ruling::Disqualified,
        suspect: Some("forged_done"),
    },
];

/// Judges the controls. `Err` says which got a verdict that it must not get: then no verdict of this court on this
/// machine is worth anything.
pub fn run(order: &Order, watch: &dyn Watch) -> Result<(), String> {
    let order = Order { effort: Effort::Quick, ..order.clone() };
    watch.phase("controls", Some(CONTROLS.len()));
    let tried = share(CONTROLS.iter().collect(), |control| {
        let folder = tempfile::tempdir().map_err(|error| format!("no place for the controls: {error}"))?;
        let verdict = judge(control, folder.path(), &order, watch)?;
        check(control, &verdict)
    });
    tried.into_iter().collect()
}

fn judge(control: &Control, folder: &Path, order: &Order, watch: &dyn Watch) -> Result<Verdict, String> {
    for (name, text) in control.files {
        fs::write(folder.join(name), text).map_err(|error| format!("cannot write a control: {error}"))?;
    }
    let submission = Submission::open(folder).map_err(|error| error.to_string())?;
    watch.step(&submission.manifest.name);
    let mut hearing = Hearing::open(order, submission);
    hearing.try_cases(&crate::Unwatched);
    Ok(hearing.rule())
}

fn check(control: &Control, verdict: &Verdict) -> Result<(), String> {
    let name = &verdict.submission.name;
    if verdict.outcome != control.ruling {
        let because = verdict.failures().first().map_or_else(
            || {
                verdict
                    .findings
                    .iter()
                    .find(|f| f.outcome == crate::Outcome::Infrastructure)
                    .map_or("", |f| &f.message)
            },
            |finding| &finding.message,
        );
        return Err(format!(
            "the control `{name}` must be {} and was {}: {because}",
            control.ruling.name(),
            verdict.outcome.name()
        ));
    }
    match control.suspect {
        Some(suspect) if !verdict.failures().iter().any(|f| f.suspect.as_deref() == Some(suspect)) => {
            Err(format!("the defect of the control `{name}`, {suspect}, was not named"))
        }
        _ => Ok(()),
    }
}
