//! A process that keeps verdicts is killed before its first write, before its second, and so on until it comes to its end.
//! After each kill the store must be whole, with everything in it that the process had been told was kept.
//!
//! The process is traced and stopped at the entry of every system call; one that would change a file is not let through but
//! answered with SIGKILL. Where tracing is not allowed, every prefix of what a database's log went through stands in.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rusqlite::Connection;
use tribunal_board::{Contents, Store};
use tribunal_judge::{
    Dimension, Effort, Evidence, Family, Finding, JudgeInfo, Machine, Outcome, Rubric, Severity, SourceFile,
    SubmissionInfo, Verdict, challenges,
};

const STORE: &str = "TRIBUNAL_BOARD_TEST_KILLED";

/// The calls that can change what is on the disk.
const WRITES: [i64; 15] = [
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_fdatasync,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_mkdirat,
    libc::SYS_openat,
    libc::SYS_sendfile,
];

/// Their namesakes that only x86 has.
#[cfg(target_arch = "x86_64")]
const OLDER_WRITES: [i64; 5] =
    [libc::SYS_open, libc::SYS_rename, libc::SYS_unlink, libc::SYS_link, libc::SYS_mkdir];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_WRITES: [i64; 0] = [];

fn main() {
    if let Ok(path) = std::env::var(STORE) {
        return keep_some(Path::new(&path));
    }
    for name in ["folder", "store.sqlite"] {
        match killed_at_every_write(name) {
            Ok(writes) => println!("{name}: whole after a kill at each of {writes} writes"),
            Err(error) => println!("{name}: skipped, for tracing is not allowed here: {error}"),
        }
    }
    println!("store.sqlite: whole at each of {} lengths of its log", cut_at_every_frame());
}

/// What the killed process does: five puts, one of them in the place of another, each told when it is done.
fn keep_some(path: &Path) {
    let store = Store::open(path).expect("a store");
    for (round, name) in NAMES.into_iter().enumerate() {
        let (verdict, sources) = sample(name, round);
        store.put(&verdict, &sources).expect("it is put");
        println!("{round}");
    }
}

const NAMES: [&str; 5] = ["alice", "bob", "carol", "bob", "dave"];

/// A verdict of that name; the round tells it from others of that name.
fn sample(name: &str, round: usize) -> (Verdict, Vec<SourceFile>) {
    let case = |number: usize| format!("basic/{number:x}{:x}", number.wrapping_mul(2_654_435_761));
    let finding = |number: usize| Finding {
        id: format!("{}:dx_within_budget", case(number)),
        case: case(number),
        check: "dx_within_budget".to_owned(),
        family: Family::Basic,
        dimension: Dimension::Correctness,
        outcome: Outcome::Pass,
        severity: Severity::Note,
        message: String::new(),
        suspect: None,
        used: Some(number as f64 / 7.0),
        limit: Some(1.0),
        replay: None,
        smallest: None,
        seen_in: None,
    };
    let challenge = challenges::find("layer_norm_backward").expect("a challenge");
    let evidence = Evidence {
        judge: JudgeInfo {
            version: "0.1.0".to_owned(),
            seed: "1".to_owned(),
            effort: Effort::Quick,
            measured: false,
            rubric: String::new(),
        },
        submission: SubmissionInfo {
            name: name.to_owned(),
            challenge: "layer_norm_backward".to_owned(),
            language: "python".to_owned(),
            sha256: "00".repeat(32),
            folder: "/home/user/alice".to_owned(),
            host: "CPython".to_owned(),
        },
        machine: Machine {
            cpu: "Imaginary CPU".to_owned(),
            cores: 2,
            memory_bytes: 1,
            gpu: None,
            cage: "full".to_owned(),
        },
        findings: (0..400).map(finding).collect(),
        measurements: Vec::new(),
        repeats: None,
        coverage: Vec::new(),
        omissions: Vec::new(),
        took_s: round as f64,
        spent_s: BTreeMap::new(),
        slowest: None,
        caged_s: 0.0,
    };
    let rubric = Rubric::parse(challenge.rubric()).expect("a rubric");
    let source = SourceFile { path: "kernel.py".to_owned(), text: format!("# {name} {round}\n").repeat(300) };
    (Verdict::new(evidence, &rubric), vec![source])
}

/// How many writes there were. An error if processes cannot be traced.
fn killed_at_every_write(name: &str) -> io::Result<usize> {
    // Who traces a process is a thread. Each takes every so many-th write, until there is none of that number.
    let threads = thread::available_parallelism()?.get();
    let ends: io::Result<Vec<usize>> = thread::scope(|scope| {
        let killers: Vec<_> = (1..=threads)
            .map(|first| scope.spawn(move || killed_at(name, (first..).step_by(threads))))
            .collect();
        killers.into_iter().map(|killer| killer.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let writes = ends?.into_iter().min().expect("a thread") - 1;
    assert!(writes > 30, "only {writes} writes were seen");
    Ok(writes)
}

/// The first of these writes that the child came to its end without.
fn killed_at(name: &str, stops: impl Iterator<Item = usize>) -> io::Result<usize> {
    for stop in stops {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(name);
        let (told, finished) = run_until(stop, &path)?;
        whole(&path, told, &format!("{name}, killed at write {stop}"));
        if finished {
            assert_eq!(told, NAMES.len());
            return Ok(stop);
        }
    }
    unreachable!("every process ends")
}

/// Runs the child up to that write. How many puts it was told of, and whether it came to its end.
fn run_until(stop: usize, path: &Path) -> io::Result<(usize, bool)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(STORE, path).stdout(Stdio::piped());
    // SAFETY: between fork and exec nothing but this system call is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn()?;
    let finished = trace(child.id().cast_signed(), stop);
    let mut told = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut told)?;
    Ok((told.lines().count(), finished?))
}

/// Lets the process run on from call to call, and kills it at the write of that number.
fn trace(process: libc::pid_t, stop: usize) -> io::Result<bool> {
    let mut writes = 0;
    // It begins stopped, after exec.
    wait(process)?;
    // A stop at a call is told from a stop at a signal.
    request(libc::PTRACE_SETOPTIONS, process, libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL)?;
    loop {
        request(libc::PTRACE_SYSCALL, process, 0)?;
        let status = wait(process)?;
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0, "the child came to its end");
            return Ok(true);
        }
        assert!(libc::WIFSTOPPED(status), "the child was ended by something else: {status:x}");
        if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 && entered(process)?.is_some_and(is_write) {
            writes += 1;
            if writes == stop {
                // SAFETY: the process is our child, and not yet waited for to its end.
                unsafe { libc::kill(process, libc::SIGKILL) };
                let status = wait(process)?;
                assert!(libc::WIFSIGNALED(status), "{status:x}");
                return Ok(false);
            }
        }
    }
}

/// The number of the call that the process is about to make, and its third argument, which are the flags of `openat`.
fn entered(process: libc::pid_t) -> io::Result<Option<(i64, u64)>> {
    // SAFETY: all zeroes are a value of this plain record.
    let mut info: libc::ptrace_syscall_info = unsafe { std::mem::zeroed() };
    let size = size_of_val(&info);
    // SAFETY: the kernel writes at most `size` bytes to `info`.
    let got = unsafe { libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, process, size, &raw mut info) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    if info.op != libc::PTRACE_SYSCALL_INFO_ENTRY {
        return Ok(None);
    }
    // SAFETY: at an entry, this is the part of the union that was written.
    let entry = unsafe { info.u.entry };
    Ok(Some((entry.nr.cast_signed(), entry.args[2])))
}

fn is_write((call, flags): (i64, u64)) -> bool {
    let opens_only = call == libc::SYS_openat && flags & libc::O_CREAT as u64 == 0;
    !opens_only && (WRITES.contains(&call) || OLDER_WRITES.contains(&call))
}

fn request(what: libc::c_uint, process: libc::pid_t, data: i32) -> io::Result<()> {
    // SAFETY: these requests read no memory of ours.
    match unsafe { libc::ptrace(what, process, 0, libc::c_long::from(data)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait(process: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: `status` is ours, and the process our child.
    match unsafe { libc::waitpid(process, &raw mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(status),
    }
}

/// The store is whole and holds what the first `told` puts left, and nothing that no put put there.
fn whole(path: &Path, told: usize, when: &str) {
    if path.is_file() {
        let connection = Connection::open(path).expect("a database");
        let check: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
        assert_eq!(check, "ok", "{when}");
    }
    let store = Store::open(path).unwrap_or_else(|error| panic!("{when}: {error}"));
    let Contents { bundles, damaged } = store.all().unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(damaged, [], "{when}");
    let there: BTreeMap<&str, usize> = bundles
        .iter()
        .map(|bundle| (bundle.verdict.submission.name.as_str(), bundle.verdict.took_s as usize))
        .collect();
    for bundle in &bundles {
        let round = bundle.verdict.took_s as usize;
        let (verdict, sources) = sample(NAMES[round], round);
        assert_eq!((&bundle.verdict, &bundle.sources), (&verdict, &sources), "{when}");
    }
    // The put that the kill came into may be there or not; if it is, all of it is, as was just seen.
    let after = |puts: usize| NAMES[..puts].iter().copied().zip(0..puts).collect::<BTreeMap<_, _>>();
    assert!(
        there == after(told) || told < NAMES.len() && there == after(told + 1),
        "{when}: after {told} puts {there:?}"
    );
    // And the next put finds nothing in its way.
    let (verdict, sources) = sample("eve", NAMES.len());
    store.put(&verdict, &sources).unwrap_or_else(|error| panic!("{when}: {error}"));
    assert_eq!(store.get(&verdict.id).expect("it was put"), verdict, "{when}");
}

/// How many lengths of the log were tried. A log that ends early is what a kill leaves between two of its frames.
fn cut_at_every_frame() -> usize {
    const HEADER: usize = 32;
    const FRAME: usize = 24 + 4096;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.sqlite");
    let log = folder.path().join("store.sqlite-wal");
    let store = Store::open(&path).expect("a store");
    // A reader that is not done keeps the log from being written back.
    let reader = Connection::open(&path).expect("a database");
    reader.execute_batch("BEGIN; SELECT count(*) FROM verdicts").expect("a reader");
    let mut ends = vec![fs::metadata(&log).map_or(0, |log| log.len() as usize)];
    for (round, name) in NAMES.into_iter().enumerate() {
        let (verdict, sources) = sample(name, round);
        store.put(&verdict, &sources).expect("it is put");
        ends.push(fs::metadata(&log).expect("a log").len() as usize);
    }
    let (file, log) = (fs::read(&path).expect("a file"), fs::read(&log).expect("a log"));
    let lengths: Vec<usize> =
        (HEADER..log.len()).step_by(FRAME).flat_map(|end| [end, end + 24, end + 2000]).collect();
    for &length in lengths.iter().filter(|&&length| length >= ends[0]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.sqlite");
        fs::write(&path, &file).expect("a copy");
        fs::write(folder.path().join("store.sqlite-wal"), &log[..length.min(log.len())]).expect("a copy");
        let told = ends[1..].iter().filter(|&&end| end <= length).count();
        whole(&path, told, &format!("log cut at {length} of {ends:?}"));
    }
    assert!(lengths.len() > 60, "{}", lengths.len());
    lengths.len()
}
