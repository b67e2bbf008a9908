//! `tribunal calibrate` and `tribunal doctor`: what this machine can do.

use std::fs;
use std::io::Write;

use tribunal_contract::{Language, challenges, emit};
use tribunal_judge::describe;
use tribunal_judge::measure::Ceilings;
use tribunal_runner::{Submission, Workshop, doctor, linter};

use crate::arguments::{Common, DoctorOptions};
use crate::corpus;
use crate::exit::{Exit, Failure};
use crate::judge::{cage, workshop};
use crate::progress::Progress;

pub fn calibrate(common: &Common) -> Result<Exit, Failure> {
    let progress = Progress::new(common.quiet);
    let line = progress.line("calibrate");
    let ceilings = Ceilings::measure(&|bytes| line.say(&format!("{} MiB", bytes >> 20)));
    drop(line);
    let mut out = anstream::stdout();
    writeln!(out, "one core, GB/s counted as a program asks for them")?;
    writeln!(out, "{:>12} {:>8} {:>8} {:>8}", "working set", "read", "copy", "triad")?;
    for rate in &ceilings.rates {
        writeln!(
            out,
            "{:>8} MiB {:>8.1} {:>8.1} {:>8.1}",
            rate.working_set_bytes >> 20,
            rate.read / 1e9,
            rate.copy / 1e9,
            rate.triad / 1e9
        )?;
    }
    Ok(Exit::Accepted)
}

pub fn doctor(options: &DoctorOptions, common: &Common) -> Result<Exit, Failure> {
    if let Some(paths) = &options.controls {
        return corpus::run(options, paths, common);
    }
    let progress = Progress::new(common.quiet);
    let line = progress.line("doctor");
    let cage = cage(&options.cage)?;
    line.say("the cage");
    let report = doctor::report(&cage);
    let workshop = workshop(&cage, common)?;
    let languages = [Language::Python, Language::C, Language::Rust, Language::Cuda];
    let hosts: Vec<HostState> =
        languages.into_iter().map(|language| try_host(&workshop, language, &|what| line.say(what))).collect();
    let linters = languages.map(|language| {
        let found = linter(language);
        let ok = found.is_ok();
        HostState { language, ok, detail: found.unwrap_or_else(|error| error.to_string()) }
    });
    let cuda = doctor::Cuda::find(&cage);
    drop(line);
    let mut out = anstream::stdout();
    if options.json {
        let value = serde_json::json!({ "cage": report, "hosts": hosts, "linters": linters, "cuda": cuda });
        writeln!(out, "{value}")?;
    } else {
        write!(out, "{report}")?;
        for (heading, states) in
            [("languages", hosts.as_slice()), ("linters, for notes that cost nothing", &linters)]
        {
            writeln!(out, "{heading}")?;
            for HostState { language, ok, detail } in states {
                writeln!(out, "  {language:<11} {} {detail}", if *ok { "ok " } else { "OFF" })?;
            }
        }
        write!(out, "{cuda}")?;
    }
    Ok(if report.is_safe() && hosts.iter().any(|host| host.ok) {
        Exit::Accepted
    } else {
        Exit::Infrastructure
    })
}

/// Whether submissions in a language can be built here, or linted.
#[derive(Debug, serde::Serialize)]
struct HostState {
    language: Language,
    ok: bool,
    /// With what, or why not and what to do about it.
    detail: String,
}

/// Builds a starter, as a submission would be built: what is not tried is not known.
fn try_host(workshop: &Workshop, language: Language, progress: &dyn Fn(&str)) -> HostState {
    let attempt = || -> Result<String, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let challenge = challenges::ALL[0];
        for (path, text) in emit::starter(challenge, language, "doctor") {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("inside a folder")).map_err(|error| error.to_string())?;
            fs::write(path, text).map_err(|error| error.to_string())?;
        }
        let submission = Submission::open(folder.path()).map_err(|error| error.to_string())?;
        let artefact = workshop.make(&submission, progress).map_err(|trouble| trouble.to_string())?;
        Ok(describe(&artefact))
    };
    let (ok, detail) = match attempt() {
        Ok(detail) => (true, detail),
        Err(detail) => (false, detail),
    };
    HostState { language, ok, detail }
}
