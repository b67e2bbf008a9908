use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Store, samples};

/// A store of either kind, at a path in that folder.
fn both() -> [(tempfile::TempDir, PathBuf); 2] {
    ["store", "store.sqlite"].map(|name| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        Store::open(&path).unwrap();
        (folder, path)
    })
}

fn only(store: &Path) -> Judging {
    let [judging] = judgings(store).try_into().expect("one judging");
    judging
}

/// Tries until it holds, for as long as a slow machine may take.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_judging_is_seen_from_its_announcement_to_its_end() {
    for (parent, store) in both() {
        assert_eq!(judgings(&store), []);
        let live = Live::announce(&store).unwrap();
        live.whole().phase("cases", Some(2));
        let alice = live.submission("alice\x1b[2J", "kv_cache");
        let bob = live.submission("bob", "layer_norm_backward");
        alice.phase("cases", Some(40));
        let seen = only(&store);
        assert_eq!((seen.schema.as_str(), seen.phase.as_str(), seen.of), (FORM, "cases", Some(2)));
        assert!(seen.started_ms.abs_diff(millis(SystemTime::now())) < 60_000);
        let [first, second] = &seen.submissions[..] else { panic!("{seen:?}") };
        assert_eq!((first.name.as_str(), first.challenge.as_str()), ("alice\x1b[2J", "kv_cache"));
        assert_eq!((first.phase.as_str(), first.done, first.of), ("cases", 0, Some(40)));
        assert_eq!((second.phase.as_str(), second.of), (WAITING, None));

        let verdict = samples::rejected();
        bob.ruled(&verdict);
        let ruled = &only(&store).submissions[1];
        assert_eq!((ruled.outcome, ruled.score), (Some(verdict.outcome), verdict.score));
        assert_eq!(ruled.verdict.as_ref(), Some(&verdict.id));

        // It is no verdict, and takes none's place.
        let kept = Store::open(&store).unwrap();
        let (before, contents) = (kept.version().unwrap(), kept.all().unwrap());
        assert_eq!((contents.bundles.len(), contents.damaged), (0, vec![]));
        drop(live);
        assert_eq!(judgings(&store), []);
        alice.phase("too late", None);
        assert!(!folder(&store).exists(), "{:?}", names(&folder(&store)));
        assert_eq!(kept.version().unwrap(), before);
        drop(parent);
    }
}

#[test]
fn steps_are_told_soon_and_not_each_on_its_own() {
    let [(_folder, store), _] = both();
    let live = Live::announce(&store).unwrap();
    let alice = live.submission("alice", "kv_cache");
    alice.phase("cases", Some(500));
    let mut writes = 0;
    let mut seen = only(&store).submissions[0].done;
    let started = Instant::now();
    for _ in 0..300 {
        alice.step("basic/1");
        thread::sleep(Duration::from_millis(2));
        let now = only(&store).submissions[0].done;
        writes += usize::from(now != seen);
        seen = now;
    }
    assert!(writes as f64 <= started.elapsed().as_secs_f64() / INTERVAL.as_secs_f64() + 1.0, "{writes}");
    eventually("the last step is told", || only(&store).submissions[0].done == 300);
    for _ in 0..300 {
        alice.step("shrinking");
    }
    eventually("no more than there are", || only(&store).submissions[0].done == 500);
}

#[test]
fn nothing_is_written_while_clocks_run() {
    let [(_folder, store), _] = both();
    let live = Live::announce(&store).unwrap();
    let (whole, alice) = (live.whole(), live.submission("alice", "kv_cache"));
    alice.step("basic/1");
    whole.phase(TIMING, Some(1));
    alice.phase(TIMING, None);
    let file = || fs::metadata(&files(&folder(&store), &only(&store).id)[0]).unwrap().ino();
    let before = file();
    for _ in 0..10 {
        alice.step("time of 64x64");
        thread::sleep(INTERVAL / 8);
    }
    assert_eq!(file(), before, "each write makes a file of its own");
    assert_eq!(only(&store).submissions[0].done, 0);
    whole.step(TIMING);
    assert_eq!(only(&store).done, 1, "between two measurements there is time to write");
}

#[test]
fn no_reader_sees_half_of_a_change() {
    for (_folder, store) in both() {
        let live = Live::announce(&store).unwrap();
        let told: Vec<Told> =
            (0..50).map(|number| live.submission(&"n".repeat(number * 7), "kv_cache")).collect();
        live.whole().phase("cases", None);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for chunk in told.chunks(13) {
                let done = &done;
                scope.spawn(move || {
                    for round in (0..).take_while(|_| !done.load(Ordering::Relaxed)) {
                        for told in chunk {
                            // The name tells the number: a mixture of two states is one of neither.
                            told.phase(&"p".repeat(round % 1000), Some(round % 1000));
                            told.step("");
                        }
                    }
                });
            }
            for _ in 0..500 {
                let seen = only(&store);
                assert_eq!(seen.submissions.len(), 50);
                for entry in seen.submissions.iter().filter(|entry| entry.phase != WAITING) {
                    assert_eq!(Some(entry.phase.len()), entry.of);
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn several_are_told_apart_and_the_eldest_comes_first() {
    for (_folder, store) in both() {
        let eldest = Live::announce(&store).unwrap();
        thread::sleep(Duration::from_millis(5));
        let others: Vec<_> = thread::scope(|scope| {
            let announced: Vec<_> = (0..8).map(|_| scope.spawn(|| Live::announce(&store).unwrap())).collect();
            announced.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let seen = judgings(&store);
        assert_eq!(seen.len(), 9);
        assert_eq!(seen[0].id, eldest.shared.lock().judging.id);
        drop(others);
        assert_eq!(only(&store).id, seen[0].id);
    }
}

#[test]
fn announcing_and_leaving_get_in_nobodys_way() {
    let [_, (_folder, store)] = both();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let live = Live::announce(&store).unwrap();
                    let id = live.shared.lock().judging.id.clone();
                    assert!(judgings(&store).iter().any(|judging| judging.id == id));
                }
            });
        }
    });
    assert_eq!(judgings(&store), []);
    assert_eq!(names(&folder(&store)), [""; 0]);
}

const STORE: &str = "TRIBUNAL_BOARD_TEST_LIVE";

/// The child's part of the next test: judges until it is killed.
#[test]
fn judges_until_killed() {
    let Ok(store) = std::env::var(STORE) else { return };
    let live = Live::announce(Path::new(&store)).unwrap();
    let told = live.submission("alice", "kv_cache");
    loop {
        told.phase("cases", Some(3));
        thread::sleep(Duration::from_millis(1));
    }
}

/// A child, and whatever becomes of the test its end.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_dead_are_cleared_away() {
    for (_folder, store) in both() {
        let mine = Live::announce(&store).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "live::tests::judges_until_killed"])
            .env(STORE, &store)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let child = Killed(child);
        eventually("the child is seen", || {
            judgings(&store)
                .iter()
                .any(|judging| judging.phase == "waiting" && judging.submissions.len() == 1)
        });
        assert_eq!(judgings(&store).len(), 2);
        assert!(names(&folder(&store)).iter().any(|name| name.starts_with(&child.0.id().to_string())));
        drop(child);
        assert_eq!(only(&store).id, mine.shared.lock().judging.id);
        let left = names(&folder(&store));
        assert_eq!(left.len(), 2, "{left:?}");
        drop(mine);
        assert!(!folder(&store).exists());
    }
}

#[test]
fn what_is_none_of_ours_is_left_alone() {
    let [(_folder, store), _] = both();
    let live = Live::announce(&store).unwrap();
    let folder = folder(&store);
    fs::write(folder.join("notes.json"), "{}").unwrap();
    fs::create_dir(folder.join("folder.lock")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.join("link.lock")).unwrap();
    // Somebody else holds this one, and says what no judging says.
    let other = fs::File::create(folder.join("other.lock")).unwrap();
    other.lock().unwrap();
    for text in ["", "{", r#"{"schema": "tribunal.judging/2"}"#] {
        fs::write(folder.join("other.json"), text).unwrap();
        assert_eq!(judgings(&store).len(), 1, "{text}");
    }
    let mut judging = only(&store);
    for (id, schema) in [("another", FORM), ("other", "tribunal.judging/2")] {
        (judging.id, judging.schema) = (id.to_owned(), schema.to_owned());
        fs::write(folder.join("other.json"), serde_json::to_string(&judging).unwrap()).unwrap();
        assert_eq!(judgings(&store).len(), 1);
    }
    drop(live);
    let mut left = names(&folder);
    left.sort();
    assert_eq!(left, ["folder.lock", "link.lock", "notes.json", "other.json", "other.lock"]);
}

#[test]
fn where_nothing_can_be_written_nothing_is_announced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(Live::announce(&file.join("store.sqlite")).is_err());
    assert_eq!(judgings(&file.join("store.sqlite")), []);
}

#[test]
fn a_link_in_the_place_of_the_folder_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let (store, elsewhere) = (place.path().join("store"), place.path().join("elsewhere"));
    fs::create_dir_all(&store).unwrap();
    fs::create_dir_all(&elsewhere).unwrap();
    for file in ["Cargo.lock", "Cargo.json"] {
        fs::write(elsewhere.join(file), "not ours").unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, store.join(".live")).unwrap();
    assert_eq!(judgings(&store), []);
    assert!(Live::announce(&store).is_err());
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 2);
}
