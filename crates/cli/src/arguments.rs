//! What can be asked.

use std::net::IpAddr;
use std::path::PathBuf;

use anstream::ColorChoice;
use clap::{Args, Parser, Subcommand, ValueEnum};
use tribunal_contract::Language;
use tribunal_judge::{Effort, Seed};

use crate::plan::PlanOptions;

/// Puts implementations of LLM kernels on trial: runs them in a cage, attacks them with hidden tests, measures them from outside, and gives a
/// verdict that anybody can replay.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Exit codes: 0 accepted · 1 not accepted · 2 usage · 3 machine · 4 disqualified · 70 our bug"
)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Where verdicts are kept: a database, FILE.sqlite or FILE.db, or a folder of bundles [default: a database in the
    /// user's data directory]
    #[arg(long, global = true, value_name = "PATH")]
    pub store: Option<PathBuf>,
    /// Say nothing but results
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// When to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
    /// The Python that runs Python submissions [default: one with numpy, provisioned on first use]
    #[arg(long, global = true, value_name = "FILE", env = "TRIBUNAL_PYTHON")]
    pub python: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// Sets it for everything printed from here on. `NO_COLOR` wins over `auto`.
    pub fn write_global(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Judge every submission at or below the paths
    Judge(JudgeOptions),
    /// The ranking over everything stored
    Board(BoardOptions),
    /// Hold contestants against each other, over the challenges they share
    Compare(CompareOptions),
    /// Ask language models what they hold of one submission, or of two: opinion, which no score knows of
    ///
    /// A folder is judged where they name a check that no verdict decides, and the verdict is kept.
    Review(ReviewOptions),
    /// The board as web pages, on this machine unless told otherwise
    Serve(ServeOptions),
    /// A stored verdict in full
    Show(ShowOptions),
    /// Run one finding's case again and write everything it saw
    Replay(ReplayOptions),
    /// Lay out a contestant's folder: prompt, contract, starter, manifest
    New(NewOptions),
    /// The list of challenges, or one's prompt, contract and rubric
    Challenges(ChallengesOptions),
    /// Time the reference, and others, on the workloads
    Bench(BenchOptions),
    /// Which context and batch of a model fit on which device, with which cache format, and what bounds speed
    Plan(PlanOptions),
    /// Measure what this machine can do at best
    Calibrate,
    /// What this machine can do for a judging, what is missing, and how to get it
    Doctor(DoctorOptions),
    /// The JSON Schema of what is printed with --json
    Schema(SchemaOptions),
    /// Write stored verdicts as bundles that need nothing else: evidence, seed, machine, samples, source
    Export(ExportOptions),
    /// Take bundles into the store, if what they say follows from their evidence
    Import(ImportOptions),
    /// Rule again on stored evidence, under a changed rubric
    Rescore(RescoreOptions),
}

#[derive(Debug, Args)]
pub struct JudgeOptions {
    /// Folders with a tribunal.toml in them or below them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Where the contents of hidden tests come from: a number, or `random`
    #[arg(long, value_name = "N|random", default_value_t = SeedChoice(Seed::PUBLIC), hide_default_value = true)]
    pub seed: SeedChoice,
    /// How much is tried
    #[arg(long, value_enum, default_value_t = EffortChoice::Standard)]
    pub effort: EffortChoice,
    /// Submissions tried at once; timing is always one at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// One verdict a line on stdout, as JSON
    #[arg(long)]
    pub json: bool,
    /// Write each verdict as JSON and Markdown into this folder as well, and all of them as report.html, junit.xml and results.sarif
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Judge without measuring time and memory
    #[arg(long)]
    pub no_measurements: bool,
    /// Do not try the judge itself on its control specimens first
    #[arg(long)]
    pub no_controls: bool,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cage")]
pub struct CageOptions {
    /// Run submissions even where neither Landlock nor namespaces hold: they can then read your files
    #[arg(long)]
    pub trust_submissions: bool,
    /// Leave a layer of the cage off, to see whether the others hold
    #[arg(long, value_name = "LAYER", hide = true)]
    pub without: Vec<String>,
}

/// A seed, or the wish for one that nobody can foresee.
#[derive(Debug, Clone, Copy)]
pub struct SeedChoice(pub Seed);

impl std::str::FromStr for SeedChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "random" => Ok(Self(Seed::random())),
            _ => text
                .parse()
                .map(|number| Self(Seed(number)))
                .map_err(|_| "a seed is a number from 0 to 2^64 - 1, or `random`".to_owned()),
        }
    }
}

impl std::fmt::Display for SeedChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EffortChoice {
    /// Every family once; times are rough
    Quick,
    /// The default
    Standard,
    /// Bigger shapes, more cases, narrower intervals
    Full,
}

impl From<EffortChoice> for Effort {
    fn from(choice: EffortChoice) -> Self {
        match choice {
            EffortChoice::Quick => Self::Quick,
            EffortChoice::Standard => Self::Standard,
            EffortChoice::Full => Self::Full,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Terminal,
    Md,
    /// One file for a browser
    Html,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerdictFormat {
    Terminal,
    Md,
    /// One file for a browser
    Html,
    Json,
    /// JUnit XML, a test for each check of each case
    Junit,
    /// SARIF 2.1.0, a result for each kind of failure
    Sarif,
}

#[derive(Debug, Args)]
pub struct BoardOptions {
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    Terminal,
    Md,
    Html,
    Json,
}

#[derive(Debug, Args)]
pub struct CompareOptions {
    /// A contestant's name, the beginning of a verdict's id, or a folder of submissions: judged now, unless that was done
    #[arg(required = true, num_args = 2.., value_name = "CONTESTANT")]
    pub contestants: Vec<String>,
    #[arg(long, value_enum, default_value_t = CompareFormat::Terminal)]
    pub format: CompareFormat,
    /// Time them against each other now, in turns, instead of through the reference
    #[arg(long)]
    pub interleaved: bool,
    /// How much is tried in what is judged or timed now
    #[arg(long, value_enum, default_value_t = EffortChoice::Standard)]
    pub effort: EffortChoice,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Args)]
pub struct ReviewOptions {
    /// A folder with a tribunal.toml in it, a bundle, or the beginning of a verdict's id: one to be reviewed, or two to be compared
    #[arg(required = true, num_args = 1..=2, value_name = "PATH|VERDICT")]
    pub submissions: Vec<String>,
    /// Who is asked, a TOML file with a table for each `reviewer`
    #[arg(long, value_name = "FILE", required_unless_present = "replay")]
    pub reviewers: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Write the review into this file as well: .json, .md or .html
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Keep every request and response in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Take the answers from such a folder, and connect to nobody
    #[arg(long, value_name = "DIR")]
    pub replay: Option<PathBuf>,
    /// Judge nobody: checks that reviewers name are decided by verdicts that are there, or not at all
    #[arg(long)]
    pub no_judging: bool,
    /// How much is tried where a folder is judged for a check
    #[arg(long, value_enum, default_value_t = EffortChoice::Standard)]
    pub effort: EffortChoice,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Args)]
pub struct ServeOptions {
    /// Where to listen; 0 is any port that is free
    #[arg(long, value_name = "P", default_value_t = 7878)]
    pub port: u16,
    /// The address to listen on: 0.0.0.0 and :: serve whoever reaches this machine
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub listen: IpAddr,
    /// A name by which readers reach this server, beside localhost, where a proxy stands before it
    #[arg(long, value_name = "NAME", value_parser = host)]
    pub host: Vec<String>,
    /// Have folders below this one judged for those who know the token (POST /api/judgings)
    #[arg(long, value_name = "DIR")]
    pub submissions: Option<PathBuf>,
    /// Who shows this may write; without it nobody may
    #[arg(long, value_name = "TOKEN", env = "TRIBUNAL_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
}

/// A name or an address, as a reader's browser sends it.
fn host(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let is_name = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if is_name(bare) || bare.parse::<IpAddr>().is_ok() {
        Ok(bare.to_owned())
    } else {
        Err("what is wanted is a name or an address alone, such as board.example.org or 192.0.2.7: no http://, no port, no path, and other \
             letters than ASCII as xn--"
            .to_owned())
    }
}

#[derive(Debug, Args)]
pub struct ShowOptions {
    /// Beginning of a verdict's id
    #[arg(value_name = "VERDICT")]
    pub id: String,
    #[arg(long, value_enum, default_value_t = VerdictFormat::Terminal)]
    pub format: VerdictFormat,
}

#[derive(Debug, Args)]
pub struct ReplayOptions {
    /// A finding, as its verdict prints it: `<verdict>/<case>:<check>`
    #[arg(value_name = "FINDING")]
    pub finding: String,
    /// Where to write [default: a folder named after the verdict, below ./replay]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Args)]
pub struct NewOptions {
    /// The contestant's name, and the folder's
    pub name: String,
    /// A challenge's id, or `all`
    #[arg(long, value_name = "ID|all")]
    pub challenge: String,
    #[arg(long, value_enum, default_value_t = LanguageChoice::Python)]
    pub language: LanguageChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LanguageChoice {
    Python,
    C,
    Rust,
    Cuda,
}

impl From<LanguageChoice> for Language {
    fn from(choice: LanguageChoice) -> Self {
        match choice {
            LanguageChoice::Python => Self::Python,
            LanguageChoice::C => Self::C,
            LanguageChoice::Rust => Self::Rust,
            LanguageChoice::Cuda => Self::Cuda,
        }
    }
}

#[derive(Debug, Args)]
pub struct ChallengesOptions {
    /// One challenge, in full
    pub id: Option<String>,
}

#[derive(Debug, Args)]
pub struct BenchOptions {
    /// Challenges [default: all]
    pub ids: Vec<String>,
    /// Submissions to time beside the reference
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub against: Vec<PathBuf>,
    #[arg(long, value_enum, default_value_t = EffortChoice::Standard)]
    pub effort: EffortChoice,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Try the judge itself: judge submissions with an `expected.toml` beside them, and count exploits contained, honest ones accused, defects
    /// found and named [default: the project's specimens and exploits]
    #[arg(long, num_args = 0.., value_name = "PATH")]
    pub controls: Option<Vec<PathBuf>>,
    /// Submissions tried at once under --controls [default: as many as there are processors]
    #[arg(long, value_name = "N", requires = "controls")]
    pub jobs: Option<usize>,
    /// Measure time under --controls with little effort and beside other judgings, but where a verdict is to hang on it. Verdicts say so, and take the place of those that were kept
    #[arg(long, requires = "controls")]
    pub brief: bool,
    #[command(flatten)]
    pub cage: CageOptions,
}

#[derive(Debug, Args)]
pub struct SchemaOptions {
    /// What
    #[arg(value_enum)]
    pub what: SchemaChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaChoice {
    Verdict,
    Plan,
    Review,
}

#[derive(Debug, Args)]
pub struct ExportOptions {
    /// Beginnings of verdicts' ids [default: all]
    #[arg(value_name = "VERDICT")]
    pub ids: Vec<String>,
    /// Where to write: for one verdict a file or a folder [default: stdout], for several a folder, which is a store
    #[arg(long, value_name = "FILE|DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ImportOptions {
    /// Bundles, verdicts as JSON, or folders of them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub struct RescoreOptions {
    /// Beginnings of verdicts' ids [default: all on the challenge]
    #[arg(value_name = "VERDICT")]
    pub ids: Vec<String>,
    /// The changed rubric, a challenge.toml
    #[arg(long, value_name = "FILE")]
    pub rubric: PathBuf,
    /// Whose rubric it is [default: the name of the folder it lies in]
    #[arg(long, value_name = "ID")]
    pub challenge: Option<String>,
    /// Keep the new verdicts: they are the last on their contestants, so the board shows them
    #[arg(long)]
    pub write: bool,
    /// One contestant a line, as JSON
    #[arg(long)]
    pub json: bool,
}
