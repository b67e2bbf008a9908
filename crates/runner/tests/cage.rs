//! Hostile programs, caged in every way that this machine can be made to offer.
//!
//! The attacks run as the user of the tests; where that is root, again as an ordinary user, and for either again where
//! namespaces are refused, as containers do. Those runs are this program started again, with [`SITUATION`] set.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tribunal_runner::MachineError;
use tribunal_runner::cage::{Cage, Caged, Ended, Layer, Limits, Policy, Profile, Tier};

/// Names the situation in a process that this program started; holds the folder with the launcher and the attacks too.
const SITUATION: &str = "TRIBUNAL_CAGE_TEST_SITUATION";
const DYING_JUDGE: &str = "TRIBUNAL_CAGE_TEST_DYING_JUDGE";
const STAGE: &str = "TRIBUNAL_CAGE_TEST_STAGE";

/// A folder that every user can reach, with the launcher, the attacks and a folder to keep from them.
struct Stage {
    _own: Option<TempDir>,
    folder: PathBuf,
}

fn stage() -> &'static Stage {
    static STAGE_MADE: OnceLock<Stage> = OnceLock::new();
    STAGE_MADE.get_or_init(|| {
        if let Some(folder) = std::env::var_os(STAGE) {
            return Stage { _own: None, folder: folder.into() };
        }
        let own = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let folder = own.path().to_path_buf();
        fs::copy(env!("CARGO_BIN_EXE_tribunal-launcher"), folder.join("launcher")).unwrap();
        fs::copy(std::env::current_exe().unwrap(), folder.join("tests")).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cage_attacks/hostile.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-w", "-pthread", "-o"]).arg(folder.join("hostile")).arg(source);
        assert!(compile.status().expect("cc, which linking Rust needs too").success());
        fs::write(folder.join("granted"), "granted").unwrap();
        fs::create_dir(folder.join("home")).unwrap();
        fs::set_permissions(folder.join("home"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(folder.join("home/secret"), "secret").unwrap();
        Stage { _own: Some(own), folder }
    })
}

impl Stage {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn cage(&self, without: &[Layer]) -> Cage {
        Cage { launcher: self.path("launcher"), without: without.to_vec(), trust: false }
    }

    /// The last argument of an attack is good for nothing but to know its processes by.
    fn policy(&self, profile: Profile, attack: &str) -> Policy {
        let mut policy = Policy::new(profile, self.path("hostile"));
        policy.args = vec![attack.into(), std::process::id().to_string().into(), self.path("home").into()];
        policy.reads.push(self.path("granted"));
        policy.limits = Limits {
            data_bytes: Some(64 << 20),
            address_bytes: Some(192 << 20),
            tasks: 32,
            output_bytes: 1 << 20,
            ..Limits::default()
        };
        policy
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(cage: &Cage, policy: Policy, limit: Duration) -> (Caged, Ended) {
    let mut caged = cage.spawn(policy).unwrap();
    let ended = caged.wait(Some(Instant::now() + limit)).unwrap();
    (caged, ended)
}

/// Processes whose command line has `marker` in it.
fn processes_with(marker: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&line).replace('\0', " ");
        text.contains(marker).then(|| format!("{}: {text}", entry.file_name().display()))
    });
    lines.filter(|line| line.contains("hostile")).collect()
}

/// The attacks, and how each must end.
fn attacks() -> Vec<(&'static str, Vec<Ended>)> {
    let stopped = vec![Ended::Exited(0)];
    let mut attacks: Vec<(&str, Vec<Ended>)> = [
        "fork",
        "threads",
        "private memory",
        "shared memory",
        "files",
        "sockets",
        "judge",
        "exec",
        "daemon",
        "kernel",
        "raise",
    ]
    .into_iter()
    .map(|attack| (attack, stopped.clone()))
    .collect();
    attacks.push(("loop", vec![Ended::TimedOut]));
    attacks.push(("stop", vec![Ended::TimedOut]));
    attacks.push(("flood", vec![Ended::Flooded]));
    attacks.push(("crash", vec![Ended::Signalled(libc::SIGSEGV)]));
    if cfg!(target_arch = "x86_64") {
        // Where the kernel has no 32-bit calls, the instruction itself is the fault.
        attacks.push(("int80", vec![Ended::Signalled(libc::SIGSYS), Ended::Signalled(libc::SIGSEGV)]));
    }
    attacks
}

/// Runs every attack with `without` left off, and returns the tier that held.
fn attack_all(situation: &str, without: &[Layer]) -> Tier {
    let stage = stage();
    let cage = stage.cage(without);
    let marker = format!("attacks without {without:?} by {}", std::process::id());
    let mut failures = Vec::new();
    let mut tier = Tier::E;
    for (attack, expected) in attacks() {
        let limit = Duration::from_millis(if expected == [Ended::TimedOut] { 100 } else { 10_000 });
        let mut policy = stage.policy(Profile::Run, attack);
        policy.args.push(marker.clone().into());
        let (caged, ended) = run(&cage, policy, limit);
        tier = caged.applied().tier;
        if !expected.contains(&ended) {
            let output = caged.output();
            failures.push(format!(
                "{situation}, without {without:?}: {attack}: {ended}\n{}{}{}",
                output.stdout,
                output.stderr,
                caged.applied()
            ));
        }
        let threads =
            caged.output().stdout.lines().find_map(|line| line.strip_prefix("threads ")?.parse::<u32>().ok());
        // A user that runs other programs too has some to spare for those; memory is the bound then.
        let bound = if caged.applied().has(Layer::Identity) { 32 } else { 900 };
        if threads.is_some_and(|threads| threads > bound) {
            failures.push(format!("{situation}, without {without:?}: {threads:?} threads"));
        }
        for place in ["/tmp", "/dev/shm", "/var/tmp"] {
            let escaped = Path::new(place).join("tribunal-escape");
            if fs::remove_file(&escaped).is_ok() {
                failures
                    .push(format!("{situation}, without {without:?}: {attack}: made {}", escaped.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(fs::read_to_string(stage.path("home/secret")).unwrap(), "secret");
    assert_eq!(processes_with(&marker), [""; 0]);
    tier
}

/// What every situation must hold; `namespaces` says whether it offers them.
fn everything_is_contained(situation: &str, namespaces: bool) {
    assert_eq!(attack_all(situation, &[]), if namespaces { Tier::A } else { Tier::B });
    if namespaces {
        assert_eq!(attack_all(situation, &[Layer::Namespaces]), Tier::B);
        assert_eq!(attack_all(situation, &[Layer::Landlock]), Tier::C);
    }
    honest_programs_work(&[]);
    builds_are_contained(&[]);
    if namespaces {
        honest_programs_work(&[Layer::Namespaces]);
        honest_programs_work(&[Layer::Landlock]);
        builds_are_contained(&[Layer::Namespaces]);
        builds_are_contained(&[Layer::Landlock]);
    }
    too_few_layers_are_refused();
}

fn pipe_with(text: &str) -> OwnedFd {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(text.as_bytes()).unwrap();
    reader.into()
}

fn honest_programs_work(without: &[Layer]) {
    let stage = stage();
    let mut policy = stage.policy(Profile::Run, "honest");
    policy.args = vec!["honest".into(), stage.path("granted").into()];
    policy.env = vec![("ONLY".into(), "this".into())];
    policy.fds = vec![pipe_with("three"), pipe_with("four!")];
    policy.limits.data_bytes = Some(256 << 20);
    policy.limits.address_bytes = Some(512 << 20);
    let (caged, ended) = run(&stage.cage(without), policy, Duration::from_secs(10));
    let output = caged.output();
    assert_eq!(ended, Ended::Exited(0), "{output:?} {}", caged.applied());
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("to stdout\n", "to stderr[31m\n"));
}

fn builds_are_contained(without: &[Layer]) {
    let stage = stage();
    let cage = stage.cage(without);
    let output = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let policy = |attack: &str| {
        let mut policy = stage.policy(Profile::Build, attack);
        policy.args = vec![attack.into(), output.path().into()];
        policy.executes.push("/bin/sh".into());
        policy.writes.push(output.path().into());
        policy
    };
    let (caged, ended) = run(&cage, policy("build"), Duration::from_secs(10));
    assert_eq!(ended, Ended::Exited(0), "{:?} {}", caged.output(), caged.applied());
    assert_eq!(fs::read_to_string(output.path().join("made")).unwrap(), "made");

    let queues = || fs::read_to_string("/proc/sysvipc/msg").unwrap_or_default();
    let before = queues();
    let (caged, ended) = run(&cage, policy("litter"), Duration::from_secs(10));
    assert_eq!(ended, Ended::Exited(0), "{}", caged.applied());
    assert_eq!(processes_with(&output.path().to_string_lossy()), [""; 0], "{}", caged.applied());
    assert_eq!(queues(), before);

    let mut bomb = policy("bomb");
    bomb.limits.tasks = 200;
    let (caged, ended) = run(&cage, bomb, Duration::from_millis(200));
    assert_eq!(ended, Ended::TimedOut, "{}", caged.applied());
    assert_eq!(processes_with(&output.path().to_string_lossy()), [""; 0], "{}", caged.applied());
}

fn too_few_layers_are_refused() {
    let stage = stage();
    let refused = |cage: &Cage| {
        let error = cage.spawn(stage.policy(Profile::Run, "nothing")).unwrap_err();
        assert!(matches!(error, MachineError::NoCage { .. }), "{error}");
    };
    let mut cage = stage.cage(&[Layer::Landlock, Layer::Namespaces]);
    refused(&cage);
    cage.trust = true;
    let (caged, ended) = run(&cage, stage.policy(Profile::Run, "nothing"), Duration::from_secs(10));
    assert_eq!((caged.applied().tier, ended), (Tier::D, Ended::Exited(0)));
    cage.without = vec![Layer::Seccomp];
    refused(&cage);
}

/// Runs one of the tests below again in another situation.
fn again(situation: &str, before: &[&str]) {
    let stage = stage();
    let mut command = Command::new(before.first().copied().unwrap_or("env"));
    command.args(before.get(1..).unwrap_or_default());
    command.arg(stage.path("tests")).args([
        "--exact",
        "attacks_are_contained_in_a_given_situation",
        "--nocapture",
    ]);
    let output = command
        .env(SITUATION, situation)
        .env(STAGE, &stage.folder)
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{situation}: {}", String::from_utf8_lossy(&text));
}

#[test]
fn attacks_are_contained() {
    if std::env::var_os(SITUATION).is_some() {
        return;
    }
    let namespaces = stage().cage(&[]).spawn(stage().policy(Profile::Run, "nothing")).unwrap();
    let namespaces = namespaces.applied().has(Layer::Namespaces);
    everything_is_contained("as is", namespaces);
}

/// Does nothing but in processes that [`again`] starts.
#[test]
fn attacks_are_contained_in_a_given_situation() {
    if let Ok(situation) = std::env::var(SITUATION) {
        everything_is_contained(&situation, !situation.contains("refused"));
    }
}

#[test]
fn attacks_are_contained_in_other_situations() {
    if std::env::var_os(SITUATION).is_some() {
        return;
    }
    let hostile = stage().path("hostile");
    let deny = [hostile.to_str().unwrap(), "deny"];
    let ordinary = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let powerless = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"];
    again("namespaces refused", &deny);
    if is_root() && Command::new("setpriv").arg("--version").output().is_ok() {
        again("root without the power to mount", &powerless);
        again("ordinary user", &ordinary);
        again("ordinary user, namespaces refused", &[&ordinary[..], &deny[..]].concat());
    } else {
        println!("skipped 3 of 4 situations: not root, or no setpriv");
    }
}

#[test]
fn dropping_a_caged_program_leaves_nothing() {
    let stage = stage();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = mounts();
    for without in [&[][..], &[Layer::Namespaces]] {
        let caged = stage.cage(without).spawn(stage.policy(Profile::Run, "stop")).unwrap();
        let pid = caged.pid();
        assert!(Path::new(&format!("/proc/{}", pid.as_raw_pid())).exists());
        assert!(tribunal_runner::gauge::threads(pid).unwrap() == 1);
        drop(caged);
        assert!(!Path::new(&format!("/proc/{}", pid.as_raw_pid())).exists());
    }
    assert_eq!(mounts(), before);
}

/// Dies as a judge would that crashes: in a process that [`the_death_of_the_judge_ends_the_program`] starts.
#[test]
fn a_judge_that_dies() {
    let Ok(marker) = std::env::var(DYING_JUDGE) else { return };
    let stage = stage();
    for without in [&[][..], &[Layer::Namespaces]] {
        let mut policy = stage.policy(Profile::Run, "stop");
        policy.args.push(marker.clone().into());
        std::mem::forget(stage.cage(without).spawn(policy).unwrap());
    }
    assert_eq!(processes_with(&marker).len(), 2);
    std::process::abort();
}

#[test]
fn the_death_of_the_judge_ends_the_program() {
    let marker = format!("orphans of {}", std::process::id());
    let output = Command::new(stage().path("tests"))
        .args(["--exact", "a_judge_that_dies", "--nocapture"])
        .env(DYING_JUDGE, &marker)
        .env(STAGE, &stage().folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGABRT), "{text}");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !processes_with(&marker).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", processes_with(&marker));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn files_that_only_root_reaches_are_granted_and_the_cage_says_at_what_cost() {
    if !is_root() {
        println!("skipped: the superuser's test");
        return;
    }
    let closed = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o700)).tempdir().unwrap();
    let inner = closed.path().join("inner");
    fs::create_dir(&inner).unwrap();
    fs::write(inner.join("granted"), "granted").unwrap();
    let honest = |without: &[Layer], reads: &Path| {
        let mut policy = stage().policy(Profile::Run, "honest");
        policy.args = vec!["honest".into(), inner.join("granted").into()];
        policy.env = vec![("ONLY".into(), "this".into())];
        policy.fds = vec![pipe_with("three"), pipe_with("four!")];
        policy.reads.push(reads.into());
        policy.limits = Limits::default();
        let (caged, ended) = run(&stage().cage(without), policy, Duration::from_secs(10));
        assert_eq!(ended, Ended::Exited(0), "{:?} {}", caged.output(), caged.applied());
        caged.applied().has(Layer::Identity)
    };
    if stage()
        .cage(&[])
        .spawn(stage().policy(Profile::Run, "nothing"))
        .unwrap()
        .applied()
        .has(Layer::Namespaces)
    {
        assert!(honest(&[], &inner), "a closed folder above does not matter");
    }
    assert!(!honest(&[], closed.path()), "a closed folder itself keeps the user");
    assert!(!honest(&[Layer::Namespaces], &inner), "so does one above, where nothing can be mounted");
}

#[test]
fn machine_trouble_is_not_the_programs_end() {
    let stage = stage();
    let mut policy = stage.policy(Profile::Run, "nothing");
    policy.program = stage.path("no such program");
    assert!(matches!(stage.cage(&[]).spawn(policy), Err(MachineError::System { .. })));
    let mut policy = stage.policy(Profile::Run, "nothing");
    policy.program = stage.path("granted");
    let error = stage.cage(&[]).spawn(policy).unwrap_err();
    assert!(matches!(error, MachineError::System { .. }), "{error}");
    let mut cage = stage.cage(&[]);
    cage.launcher = "/bin/false".into();
    let error = cage.spawn(stage.policy(Profile::Run, "nothing")).unwrap_err();
    assert!(matches!(error, MachineError::System { .. }), "{error}");
}

#[test]
fn the_doctor_finds_every_attempt_refused() {
    let report = tribunal_runner::doctor::report(&stage().cage(&[]));
    println!("{report}");
    assert!(report.is_safe(), "{report}");
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<tribunal_runner::doctor::Report>(&text).unwrap(), report);
    let open = Cage { trust: true, ..stage().cage(&[Layer::Landlock, Layer::Namespaces]) };
    assert!(!tribunal_runner::doctor::report(&open).is_safe());
}

#[test]
fn start_up_cost_is_small() {
    let stage = stage();
    let fastest_and_median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        [times[0], times[times.len() / 2]]
    };
    let bare = fastest_and_median(
        (0..40)
            .map(|_| {
                let start = Instant::now();
                assert!(
                    Command::new(stage.path("hostile")).arg("nothing").output().unwrap().status.success()
                );
                start.elapsed()
            })
            .collect(),
    );
    for without in [&[][..], &[Layer::Namespaces], &[Layer::Landlock]] {
        let cage = stage.cage(without);
        let caged = fastest_and_median(
            (0..40)
                .map(|_| {
                    let start = Instant::now();
                    run(&cage, stage.policy(Profile::Run, "nothing"), Duration::from_secs(10));
                    start.elapsed()
                })
                .collect(),
        );
        println!("start to end: bare {bare:?}, caged without {without:?} {caged:?}");
        // Far more than it takes, for a busy machine.
        assert!(caged[0] < bare[0] + Duration::from_millis(100), "{caged:?}");
    }
}
