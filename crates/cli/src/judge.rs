//! `tribunal judge`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tribunal_board::live::{self, Told};
use tribunal_board::{Store, Style, Summary, bundle, clean, html, json, junit, markdown, sarif, terminal};
use tribunal_judge::{Effort, Hearing, Order, Reference, SourceFile, Verdict, Watch, controls, refuse};
use tribunal_runner::cage::Cage;
use tribunal_runner::submission::{self, find as find_submissions};
use tribunal_runner::{Submission, SubmissionError, Workshop, gpu};

use crate::arguments::{CageOptions, Common, EffortChoice, JudgeOptions};
use crate::clerk::Clerk;
use crate::exit::{Exit, Failure};
use crate::house;
use crate::progress::Progress;
use crate::store;

/// Verdicts that are printed in full; of more, a line each.
const IN_FULL_MAX: usize = 8;

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
    let store = store::to_write(common);
    // What is not kept can be seen in full here alone.
    let in_full = folders.len() <= IN_FULL_MAX || store.is_err();
    let mut clerk = Clerk::new(store.as_ref(), &progress);
    if !in_full && !options.json {
        clerk = clerk.printing_lines(style());
    }
    if !options.no_controls {
        try_controls(&order, &clerk)?;
    }
    let manner = Manner { jobs: options.jobs, no_measurements: options.no_measurements, ..Manner::default() };
    let verdicts = judge_all(&order, &folders, &manner, &clerk);
    let broken = clerk.told_bug().then_some(Exit::Bug);
    drop(clerk);
    write_out(&verdicts, options);
    print(&verdicts, in_full, options, common)?;
    if !in_full && !options.json && !common.quiet {
        let store = store::option(common);
        anstream::eprintln!(
            "a verdict in full: tribunal show ID{store}; all in a browser: tribunal serve{store}"
        );
    }
    report(&verdicts, options, common);
    // What could not even be opened counts as rejected.
    let unopened = (verdicts.len() < folders.len()).then_some(Exit::Rejected);
    let exits = verdicts.iter().map(|verdict| verdict.outcome.into());
    Ok(exits.chain(unopened).chain(broken).max().unwrap_or(Exit::Rejected))
}

/// Tries the judge itself: who gets a control wrong here judges nobody.
pub fn try_controls(order: &Order, clerk: &Clerk<'_>) -> Result<(), Failure> {
    controls::run(order, &clerk.whole("controls")).map_err(|failure| {
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
    Ok(Order { workshop, cage, seed, effort: effort.into(), repeats: false, gpu: gpu::driver() })
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

/// How several submissions are judged together.
#[derive(Default)]
pub struct Manner {
    /// Submissions tried at once; where nothing is said, as many as there are processors.
    pub jobs: Option<usize>,
    /// Whether time and memory are left out.
    pub no_measurements: bool,
    /// Submissions, as they are named to the judge, on whose time nothing hangs: it is measured with the least effort, beside other judgings.
    pub timed_briefly: BTreeSet<PathBuf>,
}

/// Several submissions may be tried and weighed at once; time is measured for one at a time, with nothing beside it, but where nothing hangs on it. Each verdict is
/// kept as soon as it is ruled. A submission on which the judge itself breaks gets none: that is told, and the others get theirs.
pub fn judge_all(order: &Order, folders: &[PathBuf], manner: &Manner, clerk: &Clerk<'_>) -> Vec<Verdict> {
    judge_opened(
        order,
        folders.iter().map(|folder| (folder.as_path(), Submission::open(folder))),
        manner,
        clerk,
    )
}

type Opened<'a> = (&'a Path, Result<Submission, SubmissionError>);

fn judge_opened<'f>(
    order: &Order,
    opened: impl Iterator<Item = Opened<'f>>,
    manner: &Manner,
    clerk: &Clerk<'_>,
) -> Vec<Verdict> {
    let open = |(folder, opened): Opened<'f>| {
        let name = folder.display().to_string();
        let brief = manner.timed_briefly.contains(folder);
        spared(&name, clerk, || Matter::open(order, folder, opened, brief, clerk)).flatten()
    };
    let mut docket: Vec<Matter<'_>> = opened.filter_map(open).collect();
    let names: Vec<_> = docket.iter().map(|matter| (matter.name.clone(), matter.challenge)).collect();
    for matter in &mut docket {
        matter.alone =
            names.iter().filter(|(name, on)| *name == matter.name && *on == matter.challenge).count() == 1;
        if matter.alone && matter.hearing.is_none() {
            matter.spared(clerk, |matter| matter.settle(clerk));
        }
    }
    let overall = clerk.whole("all");
    let heard = docket.iter_mut().filter(|matter| matter.hearing.is_some());
    let queue: Vec<_> = heard.map(Mutex::new).collect();
    let total = queue.len();
    overall.phase("cases", Some(total));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..manner.jobs.unwrap_or(processors).clamp(1, total.max(1)) {
            scope.spawn(|| {
                while let Some(matter) = queue.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut matter = matter.lock().expect("each is taken once");
                    matter.spared(clerk, |matter| matter.try_cases(manner, clerk));
                    overall.step("cases");
                }
            });
        }
    });
    drop(queue);
    let left = docket.iter().filter(|matter| matter.timed && !matter.settled).count();
    overall.phase("timing", Some(left));
    let mut references = BTreeMap::new();
    for matter in docket.iter_mut().filter(|matter| !matter.settled) {
        if matter.timed {
            matter.spared(clerk, |matter| matter.time(order, &mut references, clerk));
            overall.step("timing");
        }
        if !matter.settled {
            matter.spared(clerk, |matter| matter.settle(clerk));
        }
    }
    docket.into_iter().filter_map(|matter| matter.verdict).collect()
}

/// Does a part of one judging. Where the judge itself breaks, what broke is said, and nobody else's judging ends with it.
fn spared<T>(name: &str, clerk: &Clerk<'_>, work: impl FnOnce() -> T) -> Option<T> {
    // What breaks is looked at no more.
    let done = catch_unwind(AssertUnwindSafe(work));
    done.map_err(|cause| {
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
        clerk.say_bug(&format!("no verdict on {name}: the judge itself broke, which is our bug: {text}"));
    })
    .ok()
}

/// The references that were asked for, by challenge and whether they are in CUDA, or why they are not to be had.
type References<'a> = BTreeMap<(&'static str, bool), Result<Option<Reference<'a>>, String>>;

/// A submission on its way to its verdict.
struct Matter<'a> {
    name: String,
    challenge: &'static str,
    /// None once it is ruled on.
    hearing: Option<Hearing<'a>>,
    verdict: Option<Verdict>,
    /// What is kept of its source.
    sources: Vec<SourceFile>,
    told: Option<Told>,
    /// Whether no other here has its name. Of several the last counts, so they are ruled on in their order.
    alone: bool,
    /// Whether nothing hangs on its time, which then is measured with little effort, beside other judgings.
    brief: bool,
    /// Whether its time is to be measured with nothing beside it.
    timed: bool,
    /// Whether its verdict was handed to the clerk.
    settled: bool,
}

impl<'a> Matter<'a> {
    /// None for what has no manifest that could be read: nobody can be named.
    fn open(
        order: &'a Order,
        folder: &Path,
        opened: Result<Submission, SubmissionError>,
        brief: bool,
        clerk: &Clerk<'_>,
    ) -> Option<Self> {
        let (name, challenge, hearing, verdict) = match opened {
            Ok(submission) => {
                let hearing = Hearing::open(order, submission);
                (hearing.name().to_owned(), hearing.challenge(), Some(hearing), None)
            }
            Err(error) => {
                let Ok(manifest) = submission::manifest(folder) else {
                    clerk.say(&format!("not judged: {error}"));
                    return None;
                };
                let verdict = refuse(order, folder, &manifest, &error);
                (manifest.name, manifest.challenge, None, Some(verdict))
            }
        };
        // It is read before anything is judged, as what was hashed was.
        let sources = hearing.as_ref().map_or_else(Vec::new, |hearing| sources_of(hearing, clerk));
        let told = clerk.list(&name, challenge);
        let (alone, timed, settled) = (false, false, false);
        Some(Self { name, challenge, hearing, verdict, sources, told, brief, alone, timed, settled })
    }

    /// Goes on with the judging; where the judge itself breaks, it is over and there is no verdict.
    fn spared(&mut self, clerk: &Clerk<'_>, work: impl FnOnce(&mut Self)) {
        let name = self.name.clone();
        if spared(&name, clerk, || work(self)).is_none() {
            (self.hearing, self.verdict, self.settled) = (None, None, true);
            if let Some(told) = &self.told {
                told.phase(live::BROKEN, None);
            }
        }
    }

    /// All but the timing that must be done alone.
    fn try_cases(&mut self, manner: &Manner, clerk: &Clerk<'_>) {
        let hearing = self.hearing.as_mut().expect("it is not ruled on yet");
        let line = clerk.line(&self.name, &self.told);
        hearing.try_cases(&line);
        if manner.no_measurements {
            hearing.omit("time and memory were not measured, as asked".to_owned());
        } else if let Some(why) = hearing.not_worth_measuring() {
            hearing.omit(format!("time and memory were not measured: {why}"));
        } else {
            self.timed = hearing.weigh(&line);
        }
        // A GPU has no room for several.
        if self.brief && self.timed && !hearing.is_cuda() {
            let why = "time was measured with little effort, beside other judgings and without the reference, for no outcome hangs on it";
            hearing.omit(why.to_owned());
            hearing.time(Effort::Quick, None, &line);
            self.timed = false;
        }
        drop(line);
        if self.alone && !self.timed {
            self.settle(clerk);
        } else if let Some(told) = &self.told {
            told.phase(live::WAITING, None);
        }
    }

    fn time(&mut self, order: &'a Order, references: &mut References<'a>, clerk: &Clerk<'_>) {
        let hearing = self.hearing.as_mut().expect("it is not ruled on yet");
        let line = clerk.line(&self.name, &self.told);
        let cuda = hearing.is_cuda();
        let reference = references
            .entry((self.challenge, cuda))
            .or_insert_with(|| reference(order, self.challenge, cuda, &|what| line.say(what)));
        match reference {
            Ok(None) => {
                let what =
                    if cuda { "there is no reference in CUDA" } else { "the reference's sources are not" };
                hearing.omit(format!("time was not compared: {what} here"));
            }
            Ok(Some(_)) => {}
            Err(why) => hearing.omit(format!("time was not compared: the reference: {why}")),
        }
        hearing.time(order.effort, reference.as_ref().ok().and_then(Option::as_ref), &line);
    }

    /// Rules, and hands the verdict to the clerk.
    fn settle(&mut self, clerk: &Clerk<'_>) {
        if let Some(hearing) = self.hearing.take() {
            self.verdict = Some(hearing.rule());
        }
        let verdict = self.verdict.as_ref().expect("it was refused or heard");
        clerk.keep(verdict, &self.sources);
        if let Some(told) = &self.told {
            told.ruled(verdict);
        }
        self.settled = true;
    }
}

/// What is kept of a submission's source.
fn sources_of(hearing: &Hearing<'_>, clerk: &Clerk<'_>) -> Vec<SourceFile> {
    let (kept, too_large) = bundle::fitting(hearing.sources());
    if !too_large.is_empty() {
        clerk.say(&format!(
            "not kept with the verdict on {}, for at most {} MiB of source are: {}",
            clean::line(hearing.name()),
            bundle::SOURCE_BYTES_MAX >> 20,
            clean::cut(&too_large.join(", "), 200)
        ));
    }
    kept
}

/// The reference of a challenge, where its sources are at hand.
pub fn reference<'a>(
    order: &'a Order,
    challenge: &str,
    cuda: bool,
    progress: &dyn Fn(&str),
) -> Result<Option<Reference<'a>>, String> {
    house::reference(challenge, cuda).map(|folder| Reference::build(order, &folder, progress)).transpose()
}

/// Writes the verdicts where the user asked for them.
fn write_out(verdicts: &[Verdict], options: &JudgeOptions) {
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

fn print(
    verdicts: &[Verdict],
    in_full: bool,
    options: &JudgeOptions,
    common: &Common,
) -> Result<(), Failure> {
    let mut out = anstream::stdout();
    if options.json {
        for verdict in verdicts {
            writeln!(out, "{}", json::line(verdict))?;
        }
        return Ok(());
    }
    let style = style();
    for verdict in verdicts.iter().filter(|_| in_full) {
        let verdict = store::with_commands(verdict, common);
        writeln!(out, "{}", terminal::verdict(&verdict, &style))?;
    }
    if !in_full {
        writeln!(out)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use tribunal_judge::{Ruling, Seed};

    /// An order under which nothing can be started, for want of an interpreter.
    fn order(cache: &Path) -> Order {
        let cage = Cage::default();
        let python = Some(PathBuf::from("/nonexistent/python"));
        let workshop = Workshop { cage: cage.clone(), cache: cache.to_owned(), python };
        Order {
            workshop,
            cage,
            seed: Seed::PUBLIC,
            effort: EffortChoice::Quick.into(),
            repeats: false,
            gpu: None,
        }
    }

    fn specimen(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specimens/layer_norm_backward").join(name)
    }

    #[test]
    fn where_the_judge_breaks_on_one_the_others_get_their_verdicts() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store.sqlite")).unwrap();
        let progress = Progress::new(true);
        let clerk = Clerk::new(Ok(&store), &progress);
        let order = order(folder.path());
        let paths = ["gamma-omitted", "plain-numpy"].map(specimen);
        let mut opened: Vec<Opened<'_>> =
            paths.iter().map(|path| (path.as_path(), Submission::open(path))).collect();
        // A contract for which there is no court.
        let first = opened[0].1.as_mut().unwrap();
        let nowhere = tribunal_contract::Challenge { id: "nowhere", ..*first.challenge };
        first.challenge = Box::leak(Box::new(nowhere));
        let manner = Manner { no_measurements: true, ..Manner::default() };
        let verdicts = judge_opened(&order, opened.into_iter(), &manner, &clerk);
        assert_eq!(verdicts.len(), 1);
        assert_eq!(
            (verdicts[0].submission.name.as_str(), verdicts[0].outcome),
            ("plain-numpy", Ruling::Infrastructure)
        );
        assert!(clerk.told_bug());
        assert_eq!(store.summaries().unwrap().0.len(), 1);
    }

    #[test]
    fn a_judging_that_breaks_half_way_is_over_and_has_no_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let progress = Progress::new(true);
        let failure = Failure::Machine("there is no store".to_owned());
        let clerk = Clerk::new(Err(&failure), &progress);
        let order = order(folder.path());
        let path = specimen("plain-numpy");
        let mut matter = Matter::open(&order, &path, Submission::open(&path), false, &clerk).unwrap();
        matter.spared(&clerk, |_| ());
        assert!(matter.hearing.is_some() && !matter.settled && !clerk.told_bug());
        matter.spared(&clerk, |_| panic!("a bug"));
        assert!(matter.hearing.is_none() && matter.verdict.is_none() && matter.settled && clerk.told_bug());
    }
}
