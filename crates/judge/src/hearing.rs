//! A submission before the court: built, started, tried, measured, ruled on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tribunal_contract::launch::Kernels;
use tribunal_contract::{Answer, Call, Fault, Language, Manifest, StateId};
use tribunal_runner::cage::{Applied, Cage};
use tribunal_runner::gpu::Image;
use tribunal_runner::{
    Artefact, MachineError, Ptx, Session, SessionLimits, Submission, SubmissionError, Trouble, Workshop,
};

use crate::claims::{self, Grounds};
use crate::code::{self, inspect};
use crate::conduct;
use crate::emulated::Emulated;
use crate::evidence::{Coverage, Evidence, JudgeInfo, Machine, Repeats, SubmissionInfo};
use crate::examine::{Examined, Watch, finding_about};
use crate::hands::hands;
use crate::machine;
use crate::measure::Weighed;
use crate::on_gpu::{Memory, OnGpu};
use crate::own_tests::try_tests;
use crate::rubric::Limits;
use crate::trial::{
    DEVICES, Measured, hear_cases, hear_cases_on_device, hear_device, hear_gpu, hear_repeats, hear_time,
    hear_weight, is_critically_wrong,
};
use crate::{
    Challenge, Dimension, Effort, Finding, Outcome, Phase, Plan, Rubric, Seed, Severity, SourceFile, Subject,
    Verdict,
};

/// The court's standing order: how every submission of a run is judged.
#[derive(Debug, Clone)]
pub struct Order {
    /// How submissions are built.
    pub workshop: Workshop,
    /// How they are caged.
    pub cage: Cage,
    /// Where inputs come from.
    pub seed: Seed,
    /// How much is tried.
    pub effort: Effort,
    /// Whether the same input is given again where no claim of the manifest asks for that.
    pub repeats: bool,
    /// The driver of the GPU on which kernels in CUDA are timed.
    pub gpu: Option<PathBuf>,
}

/// Where a submission stands before the court.
enum Stand {
    /// In a process of its own, caged.
    Process(Box<Dock>),
    /// On the emulated device.
    Device(Box<Emulated>),
}

impl Stand {
    fn take(
        cage: &Cage,
        submission: &Submission,
        artefact: &Artefact,
        limits: Limits,
        purpose: Purpose,
    ) -> Result<Self, Trouble> {
        Ok(match artefact {
            Artefact::Ptx(ptx) => Self::Device(Box::new(on_device(submission, ptx, limits)?)),
            Artefact::Module(_) | Artefact::Library(_) => {
                Self::Process(Box::new(Dock::start(cage, submission, artefact, limits, purpose)?))
            }
        })
    }

    fn subject(&mut self) -> &mut dyn Weighed {
        match self {
            Self::Process(dock) => dock.as_mut(),
            Self::Device(device) => device.as_mut(),
        }
    }
}

/// A submission under judgement.
pub struct Hearing<'a> {
    order: &'a Order,
    challenge: &'static dyn Challenge,
    rubric: Rubric,
    submission: Submission,
    artefact: Option<Artefact>,
    /// Whether it was started.
    started: bool,
    applied: Option<Applied>,
    examined: Examined,
    measured: Measured,
    /// Whether measuring was part of it.
    measuring: bool,
    spent_s: BTreeMap<Phase, f64>,
    caged_s: f64,
    /// The GPU on which it was timed.
    gpu: Option<String>,
    /// What came of the same input, given again.
    repeats: Option<Repeats>,
    /// How much of its kernels the cases came to.
    coverage: Vec<Coverage>,
}

impl<'a> Hearing<'a> {
    /// Opens a hearing. Nothing runs yet.
    pub fn open(order: &'a Order, submission: Submission) -> Self {
        let challenge = crate::challenges::find(submission.challenge.id).expect("every contract has a court");
        let rubric = Rubric::parse(challenge.rubric()).expect("the rubrics are checked by a test");
        Self {
            order,
            challenge,
            rubric,
            artefact: None,
            started: false,
            applied: None,
            examined: Examined::default(),
            measured: Measured::default(),
            submission,
            measuring: false,
            spent_s: BTreeMap::new(),
            caged_s: 0.0,
            gpu: None,
            repeats: None,
            coverage: Vec::new(),
        }
    }

    /// Builds the submission, starts it, and puts it to every case. Several hearings may do this at once.
    pub fn try_cases(&mut self, watch: &dyn Watch) {
        let mut started = Instant::now();
        self.inspect_code();
        watch.phase("building", None);
        let summoned = self.summon(Purpose::Cases, watch);
        started = self.spend(Phase::Building, started);
        match summoned {
            Ok(stand) => {
                let plan = self.plan();
                let examined = match stand {
                    Stand::Process(mut dock) => {
                        let examined = hear_cases(self.challenge, &plan, dock.as_mut(), watch);
                        self.caged_s += dock.waited_s;
                        examined
                    }
                    Stand::Device(device) => {
                        let (examined, device) = hear_cases_on_device(self.challenge, &plan, *device, watch);
                        // What was seen of a kernel is its fault; what is wrong with answers may come of it.
                        self.examined.findings.append(&mut device.findings(&self.challenge.cases(&plan)));
                        self.repeats = device.repeats();
                        self.coverage = device.coverage();
                        // They were busy side by side.
                        self.caged_s += device.worked_s() / hands(DEVICES) as f64;
                        examined
                    }
                };
                self.examined.findings.extend(examined.findings);
                self.examined.omissions.extend(examined.omissions);
                self.examined.slowest = examined.slowest;
                started = self.spend(Phase::Cases, started);
            }
            Err(trouble) => self.examined.findings.push(cannot_start(&trouble)),
        }
        if self.started {
            self.lint(watch);
            started = self.spend(Phase::Linting, started);
            self.try_tests(watch);
            self.spend(Phase::Tests, started);
        }
    }

    /// Puts down what has passed to a part of the judging, and begins anew.
    fn spend(&mut self, phase: Phase, since: Instant) -> Instant {
        let now = Instant::now();
        *self.spent_s.entry(phase).or_default() += (now - since).as_secs_f64();
        now
    }

    /// Asks the language's own linter. What it says costs nothing, and neither does a linter that is not here or fails.
    fn lint(&mut self, watch: &dyn Watch) {
        let files = code::files::of(&self.submission.folder, self.submission.manifest.language);
        if files.is_empty() {
            return;
        }
        let started = Instant::now();
        match self.order.workshop.lint(&self.submission, &|what| watch.step(what)) {
            Ok(Some(lint)) => self.examined.findings.extend(code::lint::findings(&lint, &files)),
            Ok(None) => {}
            Err(trouble) => self.examined.omissions.push(format!("its source was not linted: {trouble}")),
        }
        self.caged_s += started.elapsed().as_secs_f64();
    }

    fn try_tests(&mut self, watch: &dyn Watch) {
        let started = Instant::now();
        let mut tested =
            try_tests(self.challenge, &self.plan(), &self.order.workshop, &self.submission, watch);
        self.examined.findings.append(&mut tested.findings);
        self.examined.omissions.append(&mut tested.omissions);
        self.caged_s += started.elapsed().as_secs_f64();
    }

    /// The contestant's name.
    pub fn name(&self) -> &str {
        &self.submission.manifest.name
    }

    /// The id of the challenge.
    pub fn challenge(&self) -> &'static str {
        self.submission.challenge.id
    }

    /// The submission's files, as they are read: all that are text, the contestant's own source first.
    pub fn sources(&self) -> Vec<SourceFile> {
        code::files::all(&self.submission)
    }

    /// Whether its time can be measured here.
    fn is_timed(&self) -> bool {
        !self.is_cuda() || self.order.gpu.is_some()
    }

    /// Whether it consists of kernels in CUDA; its reference does then.
    pub fn is_cuda(&self) -> bool {
        self.submission.manifest.language == Language::Cuda
    }

    /// Why time and memory are of no interest, where they are not.
    pub fn not_worth_measuring(&self) -> Option<&'static str> {
        if !self.started {
            return Some("it was not tried");
        }
        let (watched, answers): (Vec<_>, Vec<_>) =
            self.examined.findings.iter().partition(|finding| finding.is_of_kernel());
        if is_critically_wrong(answers) {
            return Some("the answers are wrong");
        }
        is_critically_wrong(watched).then_some("a kernel does what is undefined")
    }

    /// Notes something that is not assessed, and why.
    pub fn omit(&mut self, why: String) {
        self.measured.omissions.push(why);
    }

    /// Measures without trying any case first, for benchmarks.
    pub fn bench(
        mut self,
        reference: Option<&Reference<'_>>,
        watch: &dyn Watch,
    ) -> Result<Measured, Trouble> {
        drop(self.summon(Purpose::Measuring, watch)?);
        if self.weigh(watch) {
            self.time(self.order.effort, reference, watch);
        }
        Ok(self.measured)
    }

    /// Measures all but time. Several hearings may do this at once. Whether there is anything left to time.
    pub fn weigh(&mut self, watch: &dyn Watch) -> bool {
        if !self.started {
            return false;
        }
        self.measuring = true;
        let started = Instant::now();
        let weighed = match self.summon(Purpose::Measuring, watch) {
            Ok(Stand::Process(dock)) => self.weigh_process(*dock, watch),
            Ok(Stand::Device(device)) => {
                self.weigh_device(*device, watch);
                if self.order.gpu.is_none() {
                    self.omit("performance: time is measured on a GPU, and there is none here".to_owned());
                }
                Ok(())
            }
            Err(trouble) => Err(trouble),
        };
        self.spend(Phase::Weighing, started);
        match weighed {
            Ok(()) => self.is_timed(),
            Err(trouble) => {
                self.examined.findings.push(cannot_start(&trouble));
                false
            }
        }
    }

    /// Measures time with so much effort, beside the reference where there is one: of one hearing at a time, with nothing beside it, unless
    /// nothing hangs on it.
    pub fn time(&mut self, effort: Effort, reference: Option<&Reference<'_>>, watch: &dyn Watch) {
        let started = Instant::now();
        let plan = Plan { effort, ..self.plan() };
        match (self.is_cuda(), self.order.gpu.clone()) {
            (true, Some(driver)) => self.time_on_gpu(&plan, &driver, reference, watch),
            (true, None) => {}
            (false, _) => self.time_process(&plan, reference, watch),
        }
        self.spend(Phase::Timing, started);
    }

    fn weigh_process(&mut self, mut dock: Dock, watch: &dyn Watch) -> Result<(), Trouble> {
        let (plan, mut scales) = (self.plan(), self.summon_on_scales()?);
        let measured = hear_weight(self.challenge, &plan, &mut dock, &mut scales, watch);
        self.measured.append(measured);
        if self.order.repeats || self.submission.manifest.claims.contains_key("repeatable") {
            match hear_repeats(self.challenge, &plan, &mut dock, watch) {
                Ok(repeats) => self.repeats = Some(repeats),
                Err(trouble) => self.omit(format!("nothing was given twice: {trouble}")),
            }
        }
        self.caged_s += dock.waited_s + scales.waited_s;
        Ok(())
    }

    fn time_process(&mut self, plan: &Plan, reference: Option<&Reference<'_>>, watch: &dyn Watch) {
        let mut dock = match self.summon(Purpose::Measuring, watch) {
            Ok(Stand::Process(dock)) => dock,
            Ok(Stand::Device(_)) => unreachable!("what is emulated is not timed"),
            Err(trouble) => {
                self.examined.findings.push(cannot_start(&trouble));
                return;
            }
        };
        let mut reference = match reference.map(Reference::summon).transpose() {
            Ok(dock) => dock,
            Err(trouble) => {
                self.omit(format!("time was not compared: the reference: {trouble}"));
                None
            }
        };
        let beside = reference.as_mut().map(|dock| dock as &mut dyn Subject);
        let measured = hear_time(self.challenge, plan, dock.as_mut(), beside, watch);
        self.measured.append(measured);
        self.caged_s += dock.waited_s + reference.map_or(0.0, |dock| dock.waited_s);
    }

    /// An emulated device has memory that can be weighed and traffic that can be counted, and no time.
    fn weigh_device(&mut self, device: Emulated, watch: &dyn Watch) {
        let started = Instant::now();
        let (measured, device) = hear_device(self.challenge, &self.plan(), device, watch);
        // Next to all of this is emulation; the inputs and what they are held to take little.
        self.caged_s += started.elapsed().as_secs_f64();
        self.measured.append(measured);
        // What went wrong at these sizes and at no smaller ones.
        let known: BTreeSet<&str> =
            self.examined.findings.iter().map(|finding| finding.id.as_str()).collect();
        let new =
            |finding: &Finding| finding.outcome == Outcome::Fail && !known.contains(finding.id.as_str());
        let found: Vec<Finding> = device.findings(&[]).into_iter().filter(new).collect();
        self.examined.findings.extend(found);
    }

    /// A GPU that does not work is this machine's trouble; kernels that do not work on it are the submission's.
    fn time_on_gpu(
        &mut self,
        plan: &Plan,
        driver: &Path,
        reference: Option<&Reference<'_>>,
        watch: &dyn Watch,
    ) {
        watch.step("starting the GPU");
        let started = Instant::now();
        let mut memory = match Memory::start(&self.order.cage, driver) {
            Ok(memory) => memory,
            Err(error) => {
                self.omit(format!("performance: the GPU cannot be used: {error}"));
                return;
            }
        };
        self.gpu = Some(memory.device().to_string());
        let mut reference = match reference.map(|reference| reference.summon_on_gpu(driver)).transpose() {
            Ok(reference) => reference,
            Err(trouble) => {
                self.omit(format!("time was not compared: the reference: {trouble}"));
                None
            }
        };
        let Some(Artefact::Ptx(ptx)) = &self.artefact else { unreachable!("it stood on a device") };
        match start_on_gpu(&self.order.cage, driver, &self.submission, ptx, None) {
            Ok(mut subject) => {
                let measured =
                    hear_gpu(self.challenge, plan, &mut subject, reference.as_mut(), &mut memory, watch);
                self.measured.append(measured);
            }
            Err(Trouble::Machine(error)) => {
                self.omit(format!("performance: the GPU cannot be used: {error}"))
            }
            // What the emulator takes and a driver does not is no PTX, or more than a block can have.
            Err(Trouble::Fault(fault)) => self.measured.findings.push(finding_about(
                "performance/gpu",
                "starts",
                Dimension::Performance,
                Outcome::Fail,
                Severity::Major,
                fault.to_string(),
                None,
            )),
        }
        self.caged_s += started.elapsed().as_secs_f64();
    }

    /// Rules on what was seen.
    pub fn rule(self) -> Verdict {
        let unmeasured = self.not_worth_measuring().or((!self.measuring).then_some("nobody asked"));
        let Manifest { name, language, claims, .. } = &self.submission.manifest;
        let mut findings = self.examined.findings;
        findings.extend(self.measured.findings);
        let grounds = Grounds {
            language: *language,
            findings: &findings,
            measurements: &self.measured.measurements,
            processors: self.measured.processors,
            repeats: self.repeats.as_ref(),
            unmeasured,
        };
        let decided = claims::decide(claims, &grounds);
        findings.extend(decided);
        let mut omissions = self.examined.omissions;
        omissions.extend(self.measured.omissions);
        let evidence = Evidence {
            judge: JudgeInfo { measured: self.measuring, ..judge_info(self.order) },
            submission: SubmissionInfo {
                name: name.clone(),
                challenge: self.submission.challenge.id.to_owned(),
                language: self.submission.manifest.language.name().to_owned(),
                sha256: self.submission.sha256.clone(),
                folder: self.submission.folder.display().to_string(),
                host: self.artefact.as_ref().map_or_else(String::new, describe),
            },
            machine: Machine { gpu: self.gpu, ..machine::here(self.applied.as_ref()) },
            findings,
            measurements: self.measured.measurements,
            repeats: self.repeats,
            coverage: self.coverage,
            omissions,
            took_s: self.spent_s.values().sum(),
            spent_s: self.spent_s,
            slowest: self.examined.slowest,
            caged_s: self.caged_s,
        };
        Verdict::new(evidence, &self.rubric)
    }

    /// The submission's subject, caged and started.
    fn summon(&mut self, purpose: Purpose, watch: &dyn Watch) -> Result<Stand, Trouble> {
        let started = Instant::now();
        let artefact = match self.artefact.take() {
            Some(artefact) => artefact,
            None => self.order.workshop.make(&self.submission, &|what| watch.step(what))?,
        };
        let artefact = self.artefact.insert(artefact);
        let submission = self.order.workshop.set_apart(&self.submission)?;
        let stand = Stand::take(&self.order.cage, &submission, artefact, self.rubric.limits, purpose)?;
        if let Stand::Process(dock) = &stand {
            self.applied = Some(dock.session.applied().clone());
        }
        self.caged_s += started.elapsed().as_secs_f64();
        self.started = true;
        Ok(stand)
    }

    /// A second process of what was summoned already, for weighing.
    fn summon_on_scales(&mut self) -> Result<Dock, Trouble> {
        let artefact = self.artefact.as_ref().expect("summoned before");
        let submission = self.order.workshop.set_apart(&self.submission)?;
        Dock::start(&self.order.cage, &submission, artefact, self.rubric.limits, Purpose::Scales)
    }

    fn plan(&self) -> Plan {
        Plan {
            seed: self.order.seed,
            effort: self.order.effort,
            capabilities: self.submission.manifest.capabilities.clone(),
            launches: self.is_cuda(),
        }
    }

    fn inspect_code(&mut self) {
        let files = code::files::of(&self.submission.folder, self.submission.manifest.language);
        let operations = self.submission.challenge.operations;
        let entry_points: Vec<&str> = match &self.submission.manifest.kernels {
            Some(kernels) => kernels.names(),
            None => operations.iter().map(|operation| operation.name).collect(),
        };
        let facts = inspect(&files, self.submission.manifest.language, &entry_points);
        self.examined.findings.extend(facts.findings());
        self.measured.measurements.extend(facts.measurements());
    }
}

/// The reference submission, built once for a run.
pub struct Reference<'a> {
    order: &'a Order,
    submission: Submission,
    artefact: Artefact,
    limits: Limits,
    /// What the driver of a GPU compiled the last time.
    image: RefCell<Option<Image>>,
}

impl<'a> Reference<'a> {
    /// Builds the reference that lies in a folder.
    pub fn build(order: &'a Order, folder: &Path, progress: &dyn Fn(&str)) -> Result<Self, String> {
        let submission = Submission::open(folder).map_err(|error| error.to_string())?;
        let artefact = order.workshop.make(&submission, progress).map_err(|trouble| trouble.to_string())?;
        let challenge = crate::challenges::find(submission.challenge.id).expect("every contract has a court");
        let limits = Rubric::parse(challenge.rubric()).expect("the rubrics are checked by a test").limits;
        Ok(Self { order, submission, artefact, limits, image: RefCell::new(None) })
    }

    /// The id of the challenge it answers.
    pub fn challenge(&self) -> &'static str {
        self.submission.challenge.id
    }

    fn summon(&self) -> Result<Dock, Trouble> {
        Dock::start(&self.order.cage, &self.submission, &self.artefact, self.limits, Purpose::Measuring)
    }

    fn summon_on_gpu(&self, driver: &Path) -> Result<OnGpu, Trouble> {
        let Artefact::Ptx(ptx) = &self.artefact else {
            let why = Fault::Load { message: "it is not in CUDA".to_owned() };
            return Err(why.into());
        };
        let started =
            start_on_gpu(&self.order.cage, driver, &self.submission, ptx, self.image.borrow().as_ref())?;
        self.image.replace(started.image().cloned());
        Ok(started)
    }
}

/// A verdict on a folder that has a manifest and yet is no submission.
pub fn refuse(order: &Order, folder: &Path, manifest: &Manifest, error: &SubmissionError) -> Verdict {
    let challenge = crate::challenges::find(manifest.challenge).expect("every contract has a court");
    let rubric = Rubric::parse(challenge.rubric()).expect("the rubrics are checked by a test");
    let evidence = Evidence {
        judge: judge_info(order),
        submission: SubmissionInfo {
            name: manifest.name.clone(),
            challenge: manifest.challenge.to_owned(),
            language: manifest.language.name().to_owned(),
            sha256: String::new(),
            folder: folder.display().to_string(),
            host: String::new(),
        },
        machine: machine::here(None),
        findings: vec![finding_about(
            "start",
            "is_whole",
            Dimension::Correctness,
            Outcome::Fail,
            Severity::Critical,
            error.to_string(),
            None,
        )],
        measurements: Vec::new(),
        repeats: None,
        coverage: Vec::new(),
        omissions: Vec::new(),
        took_s: 0.0,
        spent_s: BTreeMap::new(),
        slowest: None,
        caged_s: 0.0,
    };
    Verdict::new(evidence, &rubric)
}

/// What a submission is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To be tried: results that it returns are held, as its callers may hold them.
    Cases,
    /// To be measured as it is.
    Measuring,
    /// To have its memory weighed to the page.
    Scales,
}

/// A caged submission as the court's subject. Counts the time spent waiting for it.
struct Dock {
    session: Session,
    waited_s: f64,
}

impl Dock {
    /// Starts a submission in its cage.
    fn start(
        cage: &Cage,
        submission: &Submission,
        artefact: &Artefact,
        limits: Limits,
        purpose: Purpose,
    ) -> Result<Self, Trouble> {
        let limits = SessionLimits {
            call_s: limits.call_s,
            load_s: limits.load_s,
            memory_bytes: limits.memory_bytes,
            output_bytes: limits.output_bytes,
            holds_results: purpose == Purpose::Cases,
            exact_memory: purpose == Purpose::Scales,
            ..SessionLimits::default()
        };
        let session = Session::start(cage, submission, artefact, limits)?;
        Ok(Self { session, waited_s: 0.0 })
    }

    fn waiting<T>(&mut self, work: impl FnOnce(&mut Session) -> T) -> T {
        let started = Instant::now();
        let result = work(&mut self.session);
        self.waited_s += started.elapsed().as_secs_f64();
        result
    }
}

impl Subject for Dock {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let started = Instant::now();
        let answer = self.session.call(call);
        // Preparing a call and reading its answer is the court's own work; the rest is the submission's.
        self.waited_s += match &answer {
            Ok(answer) => answer.wall_s,
            Err(_) => started.elapsed().as_secs_f64(),
        };
        answer
    }

    fn let_go(&mut self) {
        self.session.let_go_of_results();
    }

    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.waiting(|session| session.release(state))
    }

    fn restart(&mut self) -> Result<(), Trouble> {
        self.waiting(Session::restart)
    }
}

impl Weighed for Dock {
    fn own_bytes(&mut self) -> Result<u64, Trouble> {
        let memory = self.session.memory()?;
        Ok(memory.anonymous_bytes + memory.shared_bytes)
    }

    fn peak_bytes(&mut self) -> Result<u64, Trouble> {
        Ok(self.session.memory()?.peak_bytes)
    }

    fn resident_bytes(&mut self) -> Result<u64, Trouble> {
        Ok(self.session.memory()?.resident_bytes)
    }

    fn call_weighed(&mut self, call: &Call<'_>) -> Result<(Answer, u64), Trouble> {
        self.waiting(|session| session.call_weighed(call))
    }

    fn idle_cpu_s(&mut self, window: Duration) -> Result<f64, Trouble> {
        self.session.idle_cpu_s(window)
    }
}

/// Puts a submission's kernels on an emulated device.
fn on_device(submission: &Submission, ptx: &Ptx, limits: Limits) -> Result<Emulated, Trouble> {
    let (launches, text) = kernels(submission, ptx)?;
    Ok(Emulated::load(submission.challenge, launches, &text, limits.memory_bytes)?)
}

/// Puts a submission's kernels on a GPU.
fn start_on_gpu(
    cage: &Cage,
    driver: &Path,
    submission: &Submission,
    ptx: &Ptx,
    image: Option<&Image>,
) -> Result<OnGpu, Trouble> {
    let (launches, text) = kernels(submission, ptx)?;
    OnGpu::start(cage, driver, submission.challenge, launches, &text, image)
}

/// What a submission launches, and its PTX.
fn kernels(submission: &Submission, ptx: &Ptx) -> Result<(Kernels, String), Fault> {
    let unreadable =
        |error: std::io::Error| Fault::Load { message: format!("the PTX cannot be read: {error}") };
    let text = std::fs::read(&ptx.path).map_err(unreadable)?;
    let launches = submission.manifest.kernels.clone().expect("a CUDA manifest says what it launches");
    Ok((launches, String::from_utf8_lossy(&text).into_owned()))
}

fn cannot_start(trouble: &Trouble) -> Finding {
    let check = match trouble {
        Trouble::Fault(Fault::Build { .. }) => "builds",
        _ => "starts",
    };
    let (outcome, message, suspect) = match trouble {
        Trouble::Fault(fault) => {
            let seen = conduct::of_fault("start", fault, Severity::Critical);
            (seen.outcome, fault.to_string(), seen.suspect)
        }
        Trouble::Machine(error) => (Outcome::Infrastructure, error.to_string(), None),
    };
    finding_about("start", check, Dimension::Correctness, outcome, Severity::Critical, message, suspect)
}

/// What an artefact is run by, in words.
pub fn describe(artefact: &Artefact) -> String {
    match artefact {
        Artefact::Module(python) => {
            format!("Python {}, numpy {}, {}", python.version, python.numpy, python.blas)
        }
        Artefact::Library(library) => match &library.compiler {
            Some(compiler) => format!("{compiler} {}", library.flags.join(" ")),
            None => "prebuilt library".to_owned(),
        },
        Artefact::Ptx(ptx) => match &ptx.compiler {
            Some(compiler) => format!("{compiler} {}", ptx.flags.join(" ")),
            None => "PTX as it came".to_owned(),
        },
    }
}

fn judge_info(order: &Order) -> JudgeInfo {
    JudgeInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: order.seed.to_string(),
        effort: order.effort,
        measured: false,
        rubric: String::new(),
    }
}

/// Runs one case again, against a submission as it is now.
pub fn replay_submission(
    order: &Order,
    submission: &Submission,
    case: &str,
    watch: &dyn Watch,
) -> Result<Option<crate::Replay>, Trouble> {
    let challenge = crate::challenges::find(submission.challenge.id).expect("every contract has a court");
    let limits = Rubric::parse(challenge.rubric()).expect("the rubrics are checked by a test").limits;
    let artefact = order.workshop.make(submission, &|what| watch.step(what))?;
    let submission = order.workshop.set_apart(submission)?;
    let mut stand = Stand::take(&order.cage, &submission, &artefact, limits, Purpose::Cases)?;
    let Some(case) = challenge.case(case) else { return Ok(None) };
    let replay = crate::examine::replay(case.as_ref(), stand.subject(), order.seed);
    let mut replay = replay.map_err(|error: MachineError| Trouble::Machine(error))?;
    if let Stand::Device(device) = stand {
        replay.findings.append(&mut device.findings(&[case]));
    }
    Ok(Some(replay))
}
