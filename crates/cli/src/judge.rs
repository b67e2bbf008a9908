//! `tribunal judge`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tribunal_board::{Store, Style, Summary, bundle, clean, html, json, junit, markdown, sarif, terminal};
use tribunal_contract::Manifest;
use tribunal_judge::{Hearing, Order, Reference, SourceFile, Verdict, controls, refuse};
use tribunal_runner::cage::Cage;
use tribunal_runner::submission::find as find_submissions;
use tribunal_runner::{Submission, Workshop};

use crate::arguments::{CageOptions, Common, EffortChoice, JudgeOptions};
use crate::exit::{Exit, Failure};
use crate::house;
use crate::progress::Progress;

/// The report's file.
const REPORT: &str = "report.html";

pub fn run(options: &JudgeOptions, common: &Common) -> Result<Exit, Failure> {
    let order = order(options.seed.0, options.effort, &options.cage, common)?;
    let folders = find_submissions(&options.paths).map_err(|error| Failure::Usage(error.to_string()))?;
    if folders.is_empty() {
        let paths: Vec<String> = options.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::Usage(format!("no tribunal.toml in or below {}", paths.join(", "))));
    }
    let progress = Progress::new(common.quiet);
    if !options.no_controls {
        try_controls(&order, &progress)?;
    }
    let (verdicts, sources) = judge_all(&order, &folders, options, &progress)?;
    keep(&verdicts, &sources, options, common);
    print(&verdicts, options)?;
    report(&verdicts, options, common);
    // What could not even be opened counts as rejected.
    let unopened = (verdicts.len() < folders.len()).then_some(Exit::Rejected);
    Ok(verdicts.iter().map(|verdict| verdict.outcome.into()).chain(unopened).max().unwrap_or(Exit::Rejected))
}

/// Tries the judge itself: who gets a control wrong here judges nobody.
pub fn try_controls(order: &Order, progress: &Progress) -> Result<(), Failure> {
    controls::run(order, &progress.line("controls")).map_err(|failure| {
        Failure::Machine(format!(
            "no verdicts on this machine: {failure}\n`tribunal doctor` says more; `tribunal judge --no-controls` judges all the same"
        ))
    })
}

/// The standing order of a run.
pub fn order(
    seed: tribunal_judge::Seed,
    effort: EffortChoice,
    options: &CageOptions,
    common: &Common,
) -> Result<Order, Failure> {
    let cage = cage(options)?;
    let workshop = workshop(&cage, common)?;
    Ok(Order { workshop, cage, seed, effort: effort.into() })
}

/// Where submissions are built.
pub fn workshop(cage: &Cage, common: &Common) -> Result<Workshop, Failure> {
    let workshop = Workshop::new(cage.clone()).map_err(|error| Failure::Machine(error.to_string()))?;
    Ok(match &common.python {
        Some(interpreter) => workshop.with_python(interpreter.clone()),
        None => workshop,
    })
}

/// The cage as asked for.
pub fn cage(options: &CageOptions) -> Result<Cage, Failure> {
    let without = options
        .without
        .iter()
        .map(|name| {
            serde_json::from_value(serde_json::Value::String(name.clone()))
                .map_err(|error| Failure::Usage(format!("--without {name}: {error}")))
        })
        .collect::<Result<_, _>>()?;
    Ok(Cage { without, trust: options.trust_submissions, ..Cage::default() })
}

/// Cases of several submissions may be tried at once; time is measured for one at a time, with nothing beside it.
pub fn judge_all(
    order: &Order,
    folders: &[PathBuf],
    options: &JudgeOptions,
    progress: &Progress,
) -> Result<(Vec<Verdict>, Vec<Vec<SourceFile>>), Failure> {
    let mut verdicts: Vec<Option<Verdict>> = Vec::new();
    let mut sources: Vec<Vec<SourceFile>> = Vec::new();
    let mut hearings: Vec<Option<Hearing<'_>>> = Vec::new();
    for folder in folders {
        match open(order, folder) {
            Opened::Hearing(hearing) => {
                sources.push(sources_of(&hearing, progress));
                hearings.push(Some(hearing));
                verdicts.push(None);
            }
            Opened::Refused(verdict) => {
                sources.push(Vec::new());
                hearings.push(None);
                verdicts.push(Some(verdict));
            }
            Opened::NoManifest(why) => {
                sources.push(Vec::new());
                hearings.push(None);
                verdicts.push(None);
                progress.suspend(|| {
                    anstream::eprintln!("tribunal: not judged: {}", tribunal_board::clean::line(&why))
                });
            }
        }
    }
    let total = hearings.iter().flatten().count();
    let overall = progress.line("all");
    tribunal_judge::Watch::phase(&overall, "cases", Some(total));
    let queue: Vec<Mutex<&mut Hearing<'_>>> = hearings.iter_mut().flatten().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..options.jobs.unwrap_or(processors).clamp(1, total.max(1)) {
            scope.spawn(|| {
                while let Some(hearing) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut hearing = hearing.lock().expect("each hearing is taken once");
                    let line = progress.line(hearing.name());
                    hearing.try_cases(&line);
                    tribunal_judge::Watch::step(&overall, "cases");
                }
            });
        }
    });
    drop(queue);
    tribunal_judge::Watch::phase(&overall, "measurements", Some(total));
    let mut references = BTreeMap::new();
    for (hearing, verdict) in hearings.into_iter().zip(&mut verdicts) {
        let Some(mut hearing) = hearing else { continue };
        if options.no_measurements {
            hearing.omit("time and memory were not measured, as asked".to_owned());
        } else if !hearing.deserves_measurements() {
            hearing.omit("time and memory were not measured: the answers are wrong".to_owned());
        } else {
            let line = progress.line(hearing.name());
            let reference = references
                .entry(hearing.challenge())
                .or_insert_with(|| reference(order, hearing.challenge(), &|what| line.say(what)));
            match reference {
                Ok(None) => {
                    hearing.omit("time was not compared: the reference's sources are not here".to_owned())
                }
                Ok(Some(_)) => {}
                Err(why) => hearing.omit(format!("time was not compared: the reference: {why}")),
            }
            hearing.measure(reference.as_ref().ok().and_then(Option::as_ref), &line);
        }
        tribunal_judge::Watch::step(&overall, "measurements");
        *verdict = Some(hearing.rule());
    }
    Ok(verdicts.into_iter().zip(sources).filter_map(|(verdict, sources)| Some((verdict?, sources))).unzip())
}

/// What is kept of a submission's source. It is read before anything is judged, as what was hashed was.
fn sources_of(hearing: &Hearing<'_>, progress: &Progress) -> Vec<SourceFile> {
    let (kept, too_large) = bundle::fitting(hearing.sources());
    if !too_large.is_empty() {
        let files = clean::cut(&too_large.join(", "), 200);
        let name = clean::line(hearing.name());
        progress.suspend(|| {
            anstream::eprintln!(
                "tribunal: not kept with the verdict on {name}, for at most {} MiB of source are: {files}",
                bundle::SOURCE_BYTES_MAX >> 20
            );
        });
    }
    kept
}

/// The reference of a challenge, where its sources are at hand.
pub fn reference<'a>(
    order: &'a Order,
    challenge: &str,
    progress: &dyn Fn(&str),
) -> Result<Option<Reference<'a>>, String> {
    house::reference(challenge).map(|folder| Reference::build(order, &folder, progress)).transpose()
}

enum Opened<'a> {
    Hearing(Hearing<'a>),
    Refused(Verdict),
    NoManifest(String),
}

fn open<'a>(order: &'a Order, folder: &Path) -> Opened<'a> {
    match Submission::open(folder) {
        Ok(submission) => Opened::Hearing(Hearing::open(order, submission)),
        Err(error) => {
            let path = folder.join(Manifest::FILE_NAME);
            let manifest = fs::read_to_string(&path)
                .ok()
                .and_then(|text| Manifest::parse(&text, &path.display().to_string()).ok());
            match manifest {
                Some(manifest) => Opened::Refused(refuse(order, folder, &manifest, &error)),
                None => Opened::NoManifest(error.to_string()),
            }
        }
    }
}

/// The store of verdicts.
pub fn store(common: &Common) -> Result<Store, Failure> {
    let path = common.store.clone().or_else(Store::default_path).ok_or_else(|| {
        Failure::Machine("no place to keep verdicts: set HOME, or give --store PATH".to_owned())
    })?;
    let is_new = common.store.is_none() && !path.exists();
    let store = Store::open(&path).map_err(|error| Failure::Machine(error.to_string()))?;
    // Before there was a database, verdicts were kept in a folder beside it.
    let older = path.with_extension("");
    if is_new && older.is_dir() {
        let older = older.display();
        anstream::eprintln!(
            "tribunal: verdicts are kept in {} from now on; `tribunal import {older}` brings over those of {older}",
            path.display()
        );
    }
    Ok(store)
}

/// Keeps what was ruled. A store that cannot be written to spoils no judging, but is told: replays need it.
pub fn keep(verdicts: &[Verdict], sources: &[Vec<SourceFile>], options: &JudgeOptions, common: &Common) {
    let kept = store(common).and_then(|store| {
        verdicts.iter().zip(sources).try_for_each(|(verdict, sources)| {
            store.put(verdict, sources).map_err(|error| Failure::Machine(error.to_string()))
        })
    });
    if let Err(failure) = kept {
        anstream::eprintln!(
            "tribunal: the verdicts were not kept, so findings cannot be replayed: {failure}"
        );
    }
    if let Some(folder) = &options.out {
        let written = fs::create_dir_all(folder).and_then(|()| {
            verdicts.iter().try_for_each(|verdict| {
                let path = |extension| folder.join(format!("{}.{extension}", verdict.id));
                fs::write(path("json"), json::line(verdict) + "\n")?;
                fs::write(path("md"), markdown::verdict(verdict))
            })?;
            fs::write(folder.join("board.md"), markdown::board(&summaries(verdicts)))?;
            fs::write(folder.join("junit.xml"), junit::report(verdicts))?;
            fs::write(folder.join("results.sarif"), sarif::report(verdicts, &checkout()))
        });
        if let Err(error) = written {
            anstream::eprintln!("tribunal: cannot write to {}: {error}", folder.display());
        }
    }
}

/// Writes one page of all that was judged and says where it is: in the folder asked for, else beside the store, where the next
/// takes its place.
fn report(verdicts: &[Verdict], options: &JudgeOptions, common: &Common) {
    let told = verdicts.len() > 1 && !options.json;
    let path = match (&options.out, common.store.clone().or_else(Store::default_path)) {
        (Some(folder), _) => folder.join(REPORT),
        (None, Some(store)) if told && store.is_dir() => store.join(REPORT),
        (None, Some(store)) if told => store.with_file_name(REPORT),
        _ => return,
    };
    match fs::write(&path, html::report(verdicts)) {
        Ok(()) if told && !common.quiet => anstream::eprintln!("report: {}", path.display()),
        Ok(()) => {}
        Err(error) => anstream::eprintln!("tribunal: cannot write {}: {error}", path.display()),
    }
}

/// What places in reports are relative to.
pub fn checkout() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

fn print(verdicts: &[Verdict], options: &JudgeOptions) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    if options.json {
        for verdict in verdicts {
            writeln!(out, "{}", json::line(verdict))?;
        }
        return Ok(());
    }
    let style = style();
    for verdict in verdicts {
        writeln!(out, "{}", terminal::verdict(verdict, &style))?;
    }
    if verdicts.len() > 1 {
        writeln!(out, "{}", terminal::board(&summaries(verdicts), &table_style()))?;
    }
    Ok(())
}

fn summaries(verdicts: &[Verdict]) -> Vec<Summary> {
    verdicts.iter().map(Summary::of).collect()
}

/// How to lay out text here. Colour is written always: `anstream` strips it where it is not wanted.
pub fn style() -> Style {
    Style { color: true, width: width().clamp(60, 100) }
}

/// How to lay out a table here: wide, so that names stay whole.
pub fn table_style() -> Style {
    Style { color: true, width: width().clamp(60, 140) }
}

/// The terminal's width; where there is none, what most pagers and pages can hold.
fn width() -> usize {
    terminal_size::terminal_size().map_or(130, |(width, _)| usize::from(width.0))
}
