//! Many judgings in a row, and a machine that fails in the middle of one: no verdict changes, nothing is left behind, nothing is lost.
//!
//! `TRIBUNAL_JUDGINGS` says how many, `TRIBUNAL_SEED` in which order, and `TRIBUNAL_PROGRAM` names another build of the program; what was counted is
//! printed.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use support::house;
use tempfile::TempDir;
use tribunal_board::Store;

/// Judgings unless `TRIBUNAL_JUDGINGS` asks for others.
const JUDGINGS: usize = 40;
/// Processes that judge at a time.
const COURTS: usize = 4;
/// Submissions that one process judges.
const HAND: usize = 5;
/// One in so many rounds brings those that take their deadlines to be judged.
const SLOW_ROUNDS: usize = 12;
/// Users that a cage makes up begin here.
const CAGED_USERS: u32 = 900_000_000;
/// What is being cleared away may still be there so long.
const GRACE: Duration = Duration::from_secs(20);

/// Honest, defective and hostile ones, in every language.
const ROSTER: [&str; 28] = [
    "specimens/layer_norm_backward/plain-numpy",
    "specimens/layer_norm_backward/gamma-omitted",
    "specimens/layer_norm_backward/two-pass-c",
    "specimens/layer_norm_backward/dgamma-last-row-only-c",
    "specimens/layer_norm_backward/one-pass-variance-rust",
    "specimens/layer_norm_backward/cuda-two-stages",
    "specimens/layer_norm_backward/prints-and-warns",
    "specimens/fused_softmax_topk/numpy-argpartition",
    "specimens/fused_softmax_topk/one-based-indices",
    "specimens/fused_softmax_topk/two-pass-c",
    "specimens/fused_softmax_topk/packed-keys-rust",
    "specimens/fused_softmax_topk/cuda-thread-per-row",
    "specimens/fused_softmax_topk/cuda-sixteen-bit-indices",
    "specimens/kv_cache/contiguous-c",
    "specimens/kv_cache/numpy-paged",
    "specimens/kv_cache/mask-from-zero",
    "exploits/fork-bomb",
    "exploits/memory-bomb",
    "exploits/thread-bomb",
    "exploits/leaves-files-behind",
    "exploits/kills-judge",
    "exploits/exits-early",
    "exploits/floods-the-judge",
    "exploits/forged-done",
    "exploits/endless-output",
    "exploits/huge-exception",
    "exploits/work-after-done-c",
    "exploits/constructor-system-calls-c",
];

/// Its defect shows at vocabularies that a quick judging does not try.
const BEYOND_QUICK: &str = "cuda-sixteen-bit-indices";

/// These take their deadlines.
const SLOW: [&str; 2] = ["exploits/endless-loop-in-call", "exploits/endless-loop-at-import"];

/// Whoever counts processes and files must be alone.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // Whatever loses its parent becomes a child of this process, and is seen.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("orphans can be taken in");
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(variable: &str, usual: usize) -> usize {
    std::env::var(variable)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable}: a number")))
}

/// Says something past the harness, which keeps what a passing test prints to itself.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn program() -> Command {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_tribunal"));
    Command::new(std::env::var_os("TRIBUNAL_PROGRAM").map_or(built, PathBuf::from))
}

/// A temporary folder that caged users may enter.
fn open_folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its owner may");
    folder
}

/// A folder with a store, and one for what is temporary.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = open_folder();
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        fs::create_dir(folder.path().join("kept")).expect("a folder");
        Self { folder }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("kept/store.sqlite")
    }

    /// `tribunal judge`, without what takes longest.
    fn judge(&self, folders: impl IntoIterator<Item = PathBuf>) -> Command {
        let mut command = program();
        command
            .arg("--store")
            .arg(self.store())
            .args(["judge", "--effort", "quick", "--no-measurements", "--no-controls", "--jobs", "1"])
            .args(folders)
            .current_dir(self.folder.path())
            .env("TMPDIR", self.folder.path().join("tmp"))
            .env("NO_COLOR", "1");
        command
    }

    /// The store's contestants, with their outcomes.
    fn board(&self) -> BTreeMap<String, String> {
        let (summaries, damaged) =
            Store::open(self.store()).and_then(|store| store.summaries()).expect("a store");
        assert!(damaged.is_empty(), "{damaged:?}");
        summaries.iter().map(|one| (one.submission.name.clone(), one.outcome.name().to_owned())).collect()
    }
}

fn lines(stdout: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// What a verdict comes to: its outcome, and what is named first among what weighs most.
#[derive(Debug, Clone, PartialEq)]
struct Gist {
    outcome: String,
    suspects: BTreeMap<String, usize>,
}

impl Gist {
    fn of(verdict: &Value) -> Self {
        let findings = verdict["findings"].as_array().expect("findings");
        let weighty = findings.iter().filter(|one| {
            (one["outcome"] == "fail" || one["outcome"] == "integrity") && one["dimension"] != "code"
        });
        let mut suspects = BTreeMap::new();
        for suspect in weighty.filter_map(|one| one["suspect"].as_str()) {
            *suspects.entry(suspect.to_owned()).or_default() += 1;
        }
        Self { outcome: verdict["outcome"].as_str().expect("an outcome").to_owned(), suspects }
    }

    /// The suspect that is named most often: how often others are hangs on how busy the machine is.
    fn main(&self) -> Option<&String> {
        self.suspects.iter().max_by_key(|(_, count)| **count).map(|(suspect, _)| suspect)
    }
}

fn named(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// Hands of submissions, shuffled, so many submissions in all.
fn hands(judgings: usize, random: &mut Random) -> Vec<Vec<PathBuf>> {
    let mut dealt = Vec::new();
    for round in 0.. {
        let mut roster = ROSTER.to_vec();
        if round % SLOW_ROUNDS == SLOW_ROUNDS - 1 {
            roster.extend(SLOW);
        }
        random.shuffle(&mut roster);
        dealt.extend(
            roster.chunks(HAND).map(|hand| hand.iter().map(|one| house().join(one)).collect::<Vec<_>>()),
        );
        if dealt.iter().map(Vec::len).sum::<usize>() >= judgings {
            break;
        }
    }
    let mut left = judgings;
    for hand in &mut dealt {
        hand.truncate(left);
        left -= hand.len();
    }
    dealt.retain(|hand| !hand.is_empty());
    dealt
}

/// What could be left behind on this machine.
#[derive(Debug, Clone, PartialEq)]
struct Traces {
    /// Processes below this one, the dead among them.
    processes: BTreeSet<String>,
    /// Files of caged users, and what is half made in the cache.
    files: BTreeSet<PathBuf>,
    mounts: BTreeSet<String>,
    cgroups: usize,
    /// System V queues, semaphores and shared memory.
    ipc: BTreeSet<String>,
    descriptors: usize,
}

impl Traces {
    fn now(since: SystemTime) -> Self {
        let ipc = ["shm", "sem", "msg"].iter().flat_map(|kind| {
            let text = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            // Key and id stand first; the rest changes with use.
            text.lines()
                .skip(1)
                .map(|line| {
                    format!("{kind} {}", line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
                })
                .collect::<Vec<_>>()
        });
        Self {
            processes: descendants().into_values().collect(),
            files: strays(since),
            mounts: fs::read_to_string("/proc/self/mounts")
                .unwrap_or_default()
                .lines()
                .map(str::to_owned)
                .collect(),
            cgroups: count_folders(Path::new("/sys/fs/cgroup")),
            ipc: ipc.collect(),
            descriptors: entries(Path::new("/proc/self/fd")).len(),
        }
    }

    /// Waits until nothing is here that was not before, and fails if that takes longer than clearing away may.
    fn must_be_as(before: &Self, since: SystemTime) {
        let until = Instant::now() + GRACE;
        loop {
            let now = Self::now(since);
            if now == *before {
                return;
            }
            assert!(Instant::now() < until, "left behind:\nbefore {before:#?}\nafter {now:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn count_folders(folder: &Path) -> usize {
    let below = entries(folder).into_iter().filter(|path| path.is_dir() && !path.is_symlink());
    below.map(|path| 1 + count_folders(&path)).sum()
}

/// Processes below this one: ids, and names with states.
fn descendants() -> BTreeMap<u32, String> {
    let mut parents = BTreeMap::new();
    for path in entries(Path::new("/proc")) {
        let Some(id) = named(&path).parse::<u32>().ok() else { continue };
        let Ok(stat) = fs::read_to_string(path.join("stat")) else { continue };
        // The name is in brackets and may hold anything.
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        let mut words = rest.split_whitespace();
        let (Some(state), Some(parent)) = (words.next(), words.next().and_then(|id| id.parse::<u32>().ok()))
        else {
            continue;
        };
        parents.insert(id, (parent, format!("{head}) {state}")));
    }
    let mut below: BTreeMap<u32, String> = BTreeMap::new();
    let mut grew = true;
    while grew {
        grew = false;
        for (id, (parent, name)) in &parents {
            let is_below = *parent == std::process::id() || below.contains_key(parent);
            grew |= is_below && below.insert(*id, name.clone()).is_none();
        }
    }
    below
}

/// New files of made-up users where anybody may write, and what is half made in the cache.
fn strays(since: SystemTime) -> BTreeSet<PathBuf> {
    let is_new = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.modified().is_ok_and(|modified| modified >= since))
    };
    let is_caged = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() >= CAGED_USERS);
    let public =
        ["/tmp", "/var/tmp", "/dev/shm", "/run"].iter().flat_map(|folder| entries(Path::new(folder)));
    let cache = tribunal_runner::cache_folder().expect("a cache");
    let in_cache = ["build", "python"].iter().flat_map(|folder| entries(&cache.join(folder)));
    public
        .filter(is_caged)
        .chain(in_cache.filter(|path| named(path).starts_with('.')))
        .filter(is_new)
        .collect()
}

#[test]
fn verdicts_stay_the_same_and_nothing_is_left_behind() {
    let _alone = alone();
    let judgings = number("TRIBUNAL_JUDGINGS", JUDGINGS);
    let seed = number("TRIBUNAL_SEED", 1) as u64;
    let (place, since, started) = (Place::new(), SystemTime::now(), Instant::now());
    let before = Traces::now(since);
    let mut first: BTreeMap<String, Gist> = BTreeMap::new();
    let mut judged = 0;
    let dealt = hands(judgings, &mut Random(seed));
    let rounds = dealt.chunks(COURTS).len();
    for (round, hands) in dealt.chunks(COURTS).enumerate() {
        let courts: Vec<Child> = hands
            .iter()
            .map(|hand| {
                let mut court = place.judge(hand.clone());
                court.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
            })
            .collect();
        for (court, hand) in courts.into_iter().zip(hands) {
            let output = court.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stderr);
            let verdicts = lines(&output.stdout);
            assert_eq!(verdicts.len(), hand.len(), "a verdict on each of {hand:?}; said: {said}");
            assert!(!said.contains("not kept"), "{said}");
            judged += verdicts.len();
            for verdict in verdicts {
                let name = verdict["submission"]["name"].as_str().expect("a name").to_owned();
                let gist = Gist::of(&verdict);
                let usual = first
                    .entry(format!("{name} {}", verdict["submission"]["challenge"]))
                    .or_insert_with(|| gist.clone());
                assert_eq!(
                    (&gist.outcome, gist.main()),
                    (&usual.outcome, usual.main()),
                    "{name}: the verdict changed after {judged} judgings; said: {said}"
                );
            }
        }
        Traces::must_be_as(&before, since);
        if judgings > JUDGINGS && round % 10 == 9 {
            say(&format!(
                "round {} of {rounds}: {judged} judged, {:.0} s",
                round + 1,
                started.elapsed().as_secs_f64()
            ));
        }
    }
    assert_eq!(judged, judgings);
    as_expected(&first);
    let kept = place.board();
    assert_eq!(kept.len(), first.keys().map(|key| key.split(' ').next()).collect::<BTreeSet<_>>().len());
    let beside: Vec<String> =
        entries(&place.folder.path().join("kept")).iter().map(|path| named(path)).collect();
    assert_eq!(beside, ["store.sqlite"], "what helps a store goes when its users go");
    assert_eq!(entries(&place.folder.path().join("tmp")), Vec::<PathBuf>::new(), "nothing temporary stays");
    say(&format!(
        "{judged} judgings of {} submissions by {COURTS} processes at a time, seed {seed}: {:.0} s; no verdict changed; left behind: nothing; the store \
         has {} KiB",
        first.len(),
        started.elapsed().as_secs_f64(),
        fs::metadata(place.store()).expect("a store").len() >> 10,
    ));
}

/// Holds verdicts to what is written beside the submissions.
fn as_expected(gists: &BTreeMap<String, Gist>) {
    for folder in ROSTER.iter().chain(&SLOW).map(|one| house().join(one)) {
        let text = fs::read_to_string(folder.join("expected.toml")).expect("expected.toml beside it");
        let expected: toml::Table = text.parse().expect("TOML");
        let name = named(&folder);
        let Some((_, gist)) = gists.iter().find(|(key, _)| key.split(' ').next() == Some(&name)) else {
            continue;
        };
        if name == BEYOND_QUICK {
            continue;
        }
        // There may be no compiler for CUDA on this machine.
        if gist.outcome == "infrastructure" && name.starts_with("cuda-") {
            continue;
        }
        assert_eq!(Some(gist.outcome.as_str()), expected["outcome"].as_str(), "{name}: {gist:?}");
        if expected["kind"].as_str() == Some("defective")
            && expected["dimension"].as_str() == Some("correctness")
        {
            let suspect = expected["suspect"].as_str().expect("a name for every defect");
            assert!(gist.suspects.contains_key(suspect), "{name}: {gist:?}");
        }
    }
}

/// A copy of a submission under another name.
fn copy(of: &str, name: &str, into: &Path) -> PathBuf {
    let folder = into.join(name);
    fs::create_dir(&folder).expect("a folder");
    for path in entries(&house().join(of)).into_iter().filter(|path| path.is_file()) {
        let text = fs::read_to_string(&path).expect("text");
        let old = format!("name = \"{}\"", named(Path::new(of)));
        fs::write(folder.join(named(&path)), text.replacen(&old, &format!("name = \"{name}\""), 1))
            .expect("a copy");
    }
    folder
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holds {
    resident_kib: usize,
    descriptors: usize,
    threads: usize,
}

impl Holds {
    fn of(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("the field")
        };
        Self {
            resident_kib: field("VmRSS:"),
            threads: field("Threads:"),
            descriptors: entries(Path::new(&format!("/proc/{id}/fd"))).len(),
        }
    }
}

/// What the program keeps of a verdict until its report, evidence and source, is a fraction of this.
const KEPT_KIB: usize = 512;

#[test]
fn one_process_holds_no_more_after_many_judgings() {
    let _alone = alone();
    let judgings = number("TRIBUNAL_JUDGINGS", JUDGINGS).clamp(20, 100);
    let (place, since) = (Place::new(), SystemTime::now());
    let before = Traces::now(since);
    let models = [
        "specimens/layer_norm_backward/plain-numpy",
        "specimens/layer_norm_backward/gamma-omitted",
        "exploits/exits-early",
        "exploits/fork-bomb",
        "exploits/huge-exception",
    ];
    let models: Vec<&str> = models.iter().cycle().take(judgings).copied().collect();
    let folder = open_folder();
    for (index, model) in models.iter().enumerate() {
        copy(model, &format!("copy-{index}"), folder.path());
    }
    let mut court = place
        .judge([folder.path().to_owned()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let said = BufReader::new(court.stdout.take().expect("piped")).lines();
    // A line for each verdict; the board follows them all.
    let held: Vec<Holds> = said.map_while(Result::ok).take(judgings).map(|_| Holds::of(court.id())).collect();
    court.kill().ok();
    court.wait().expect("it ends");
    assert_eq!(held.len(), judgings);
    let (early, last) = (held[judgings / 4], held[judgings - 1]);
    let growth = last.resident_kib.saturating_sub(early.resident_kib);
    say(&format!(
        "{judgings} judgings in one process: {} KiB, {} descriptors and {} threads after {}, {} KiB, {} and {} after the last",
        early.resident_kib,
        early.descriptors,
        early.threads,
        judgings / 4 + 1,
        last.resident_kib,
        last.descriptors,
        last.threads
    ));
    assert!(growth <= KEPT_KIB * (judgings - judgings / 4), "{growth} KiB more: {held:?}");
    assert!(last.descriptors <= early.descriptors + 4 && last.threads <= early.threads + 2, "{held:?}");
    Traces::must_be_as(&before, since);
}

#[test]
fn a_judge_that_is_killed_leaves_no_process_and_a_whole_store() {
    let _alone = alone();
    let (place, since) = (Place::new(), SystemTime::now());
    let before = Traces::now(since);
    let honest = house().join("specimens/layer_norm_backward/plain-numpy");
    assert!(place.judge([honest.clone()]).output().expect("it runs").status.success());
    for wait_ms in [0, 40, 200, 700] {
        let hand = [house().join("exploits/endless-loop-in-call")];
        let mut court =
            place.judge(hand).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let until = Instant::now() + Duration::from_secs(60);
        // Its launcher, and whoever is below that.
        while descendants().len() < 3 {
            assert!(Instant::now() < until, "no cage was made");
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        court.kill().expect("it runs");
        court.wait().expect("it ends");
        reap_until(&before, since);
        assert_eq!(place.board(), BTreeMap::from([("plain-numpy".to_owned(), "accepted".to_owned())]));
    }
    let again =
        place.judge([house().join("specimens/layer_norm_backward/gamma-omitted")]).output().expect("it runs");
    assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stderr));
    assert_eq!(place.board().len(), 2);
}

/// What lost its parent is this process's child, and is gone once it is reaped.
fn reap_until(before: &Traces, since: SystemTime) {
    let until = Instant::now() + GRACE;
    while descendants().len() > before.processes.len() {
        assert!(Instant::now() < until, "outlive their judge: {:?}", descendants());
        let _ = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
        std::thread::sleep(Duration::from_millis(20));
    }
    Traces::must_be_as(before, since);
}

/// Runs a script with a file system of so many KiB at `$FULL`, seen by nobody else. None where that is not granted.
fn with_little_room(place: &Place, kib: usize, script: &str) -> Option<std::process::Output> {
    let full = place.folder.path().join("full");
    fs::create_dir_all(&full).expect("a folder");
    let mount = format!("mount -t tmpfs -o size={kib}k,mode=755 tribunal \"$FULL\" || exit 99\n{script}");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &mount])
        .env("FULL", &full)
        .env("TRIBUNAL", program().get_program())
        .env("HOUSE", house())
        .env("NO_COLOR", "1")
        .output()
        .ok()
        .filter(|output| {
            output.status.code() != Some(99) && !String::from_utf8_lossy(&output.stderr).contains("unshare:")
        });
    if output.is_none() {
        say("skipped: no file system can be mounted here");
    }
    output
}

#[test]
fn a_full_disk_loses_no_verdict_that_was_kept_and_is_told() {
    let _alone = alone();
    let place = Place::new();
    let specimens = "$HOUSE/specimens/layer_norm_backward";
    let judge = "judge --effort quick --no-measurements --no-controls --json";
    let script = format!(
        "for one in plain-numpy gamma-omitted eps-outside-root welford row-by-row; do\n\
         $TRIBUNAL --store $FULL/s.sqlite {judge} {specimens}/$one; echo \"code $?\" >&2\n\
         done\n\
         echo BOARD; $TRIBUNAL --store $FULL/s.sqlite board --format json"
    );
    let Some(output) = with_little_room(&place, 150, &script) else { return };
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (verdicts, board) = stdout.split_once("BOARD\n").expect("both");
    assert_eq!(lines(verdicts.as_bytes()).len(), 5, "a verdict on each, kept or not: {stderr}");
    let kept = lines(board.as_bytes()).len();
    let lost = stderr.matches("the verdicts are not kept").count();
    assert!(lost > 0 && kept + lost == 5, "{kept} kept, {lost} told as not kept: {stderr}");
    let codes: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("code ")).collect();
    assert_eq!(codes, ["0", "1", "1", "0", "0"], "the verdict decides: {stderr}");
}

#[test]
fn a_full_disk_is_no_fault_of_what_cannot_be_built_on_it() {
    let _alone = alone();
    let place = Place::new();
    let script = "XDG_CACHE_HOME=$FULL $TRIBUNAL --store $FULL/../kept/store.sqlite judge --effort quick --no-measurements --no-controls --json \
                  $HOUSE/specimens/layer_norm_backward/two-pass-c; echo \"code $?\" >&2";
    let Some(output) = with_little_room(&place, 40, script) else { return };
    let stderr = String::from_utf8_lossy(&output.stderr);
    let verdict = lines(&output.stdout).pop().unwrap_or_else(|| panic!("a verdict: {stderr}"));
    assert_eq!(verdict["outcome"], "infrastructure", "{verdict:#}");
    assert!(stderr.contains("code 3"), "{stderr}");
    assert!(verdict.to_string().contains("room to build"), "{verdict:#}");
}

#[test]
fn an_interpreter_that_goes_away_is_no_fault_of_who_comes_next() {
    let _alone = alone();
    let place = Place::new();
    // Caged users may enter the cache; and a place that stays gets its numpy once.
    let folder = tribunal_runner::cache_folder().expect("a cache").join("interpreter-that-goes-away");
    fs::create_dir_all(&folder).expect("a folder");
    // One that caged users may read; the folders of its library are found from anywhere.
    let real = PathBuf::from("/usr/bin/python3");
    if !real.is_file() {
        return say("skipped: there is no /usr/bin/python3");
    }
    let copy_of_it = folder.join("python3");
    let _ = fs::remove_file(&copy_of_it);
    fs::copy(&real, &copy_of_it).expect("a copy of the interpreter");
    let submissions = open_folder();
    for index in 0..6 {
        copy("specimens/layer_norm_backward/plain-numpy", &format!("copy-{index}"), submissions.path());
    }
    let mut command = place.judge([submissions.path().to_owned()]);
    command.arg("--json").arg("--python").arg(&copy_of_it).stdout(Stdio::piped()).stderr(Stdio::piped());
    let court = command.spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(120);
    let kept = || {
        Store::existing(place.store()).and_then(|store| store.summaries()).map_or(0, |(kept, _)| kept.len())
    };
    while kept() == 0 {
        assert!(Instant::now() < until, "no verdict");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_file(&copy_of_it).expect("it was there");
    let output = court.wait_with_output().expect("it ends");
    let verdicts = lines(&output.stdout);
    let outcomes: Vec<&str> = verdicts.iter().filter_map(|verdict| verdict["outcome"].as_str()).collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(outcomes.len(), 6, "{stderr}");
    assert!(
        outcomes.iter().all(|outcome| ["accepted", "infrastructure"].contains(outcome)),
        "{outcomes:?}: {stderr}"
    );
    assert_eq!((outcomes[0], outcomes[5]), ("accepted", "infrastructure"), "{stderr}");
    assert_eq!(output.status.code(), Some(3), "{stderr}");
}
