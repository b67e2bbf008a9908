use super::*;
use crate::samples;

fn with_id(id: &str) -> Verdict {
    Verdict { id: id.to_owned(), ..samples::accepted() }
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("made/on/the/way")).unwrap();
    (folder, store)
}

#[test]
fn what_is_put_is_got_by_any_beginning_that_is_unique() {
    let (_folder, store) = store();
    for id in ["abc1", "abd2", "abc", "f00"] {
        store.put(&with_id(id)).unwrap();
    }
    assert_eq!(store.get("f").unwrap(), with_id("f00"));
    assert_eq!(store.get("abd").unwrap().id, "abd2");
    assert_eq!(store.get("abc").unwrap().id, "abc", "a whole id is meant");
    assert!(
        matches!(store.get("ab"), Err(StoreError::Ambiguous { ids, .. }) if ids == ["abc", "abc1", "abd2"])
    );
    for absent in ["x", "", "../made", "abc.json", "*"] {
        assert!(matches!(store.get(absent), Err(StoreError::NotFound { .. })), "{absent:?}");
    }
}

#[test]
fn judging_the_same_again_replaces_the_verdict() {
    let (_folder, store) = store();
    let first = store.put(&with_id("abc")).unwrap();
    let second = store.put(&Verdict { took_s: 99.0, ..with_id("abc") }).unwrap();
    assert_eq!(first, second);
    let verdicts = store.all().unwrap().verdicts;
    assert_eq!((verdicts.len(), verdicts[0].took_s), (1, 99.0));
}

#[test]
fn all_are_told_in_the_order_in_which_they_came() {
    let (_folder, store) = store();
    for id in ["z", "a", "m"] {
        store.put(&with_id(id)).unwrap();
        std::thread::sleep(Duration::from_millis(15));
    }
    let ids: Vec<_> = store.all().unwrap().verdicts.into_iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["z", "a", "m"]);
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    let (_folder, store) = store();
    let good = store.put(&with_id("good")).unwrap();
    let whole = fs::read_to_string(&good).unwrap();
    fs::write(store.path("cut"), &whole[..whole.len() / 2]).unwrap();
    fs::write(store.path("binary"), [0xff, 0xfe, 0]).unwrap();
    fs::write(store.path("newer"), whole.replace("verdict/1", "verdict/2")).unwrap();
    fs::write(store.folder.join("notes.txt"), "mine").unwrap();

    let contents = store.all().unwrap();
    assert_eq!(contents.verdicts, [with_id("good")]);
    let mut damaged: Vec<_> =
        contents.damaged.iter().map(|d| d.file.file_name().unwrap().to_str().unwrap()).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, ["binary.json", "cut.json", "newer.json"]);
    assert!(matches!(store.get("cut"), Err(StoreError::Damaged(_))));

    store.put(&with_id("newer")).unwrap();
    assert_eq!(store.get("newer").unwrap().id, "newer");
    let aside = fs::read_to_string(store.folder.join("newer.json.damaged-1")).unwrap();
    assert!(aside.contains("verdict/2"), "what was there is kept");
}

#[test]
fn an_id_cannot_leave_the_folder() {
    let (_folder, store) = store();
    for id in ["../up", "a/b", "", ".hidden", "nul\0", &"x".repeat(65)] {
        assert!(matches!(store.put(&with_id(id)), Err(StoreError::Id(_))), "{id:?}");
    }
}

#[test]
fn writers_and_readers_at_once_see_whole_files_only() {
    let (_folder, store) = store();
    let ids = ["one", "two", "three"];
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..25 {
                    let verdict = Verdict {
                        took_s: f64::from(writer * 100 + round),
                        ..with_id(ids[round as usize % 3])
                    };
                    store.put(&verdict).unwrap();
                }
            });
        }
        let store = &store;
        scope.spawn(move || {
            for _ in 0..50 {
                let contents = store.all().unwrap();
                assert!(contents.damaged.is_empty(), "{:?}", contents.damaged);
            }
        });
    });
    let contents = store.all().unwrap();
    assert_eq!((contents.verdicts.len(), contents.damaged.len()), (3, 0));
    let left = store.names().unwrap().into_iter().filter(|name| name.starts_with(UNFINISHED)).count();
    assert_eq!(left, 0);
}

/// The child's part of the next test: writes until it is killed.
#[test]
fn writes_until_killed() {
    let Ok(folder) = std::env::var("TRIBUNAL_BOARD_TEST_WRITES_TO") else { return };
    let store = Store::open(folder).unwrap();
    let mut verdict = samples::rejected();
    verdict.omissions = vec!["long ".repeat(100_000)];
    for round in 0.. {
        store.put(&Verdict { id: format!("id{}", round % 5), ..verdict.clone() }).unwrap();
    }
}

#[test]
fn a_writer_that_is_killed_spoils_nothing() {
    let (_folder, store) = store();
    for _ in 0..5 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::writes_until_killed"])
            .env("TRIBUNAL_BOARD_TEST_WRITES_TO", &store.folder)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let started = std::time::Instant::now();
        while store.ids().unwrap().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(30), "the child writes");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(60));
        child.kill().unwrap();
        child.wait().unwrap();
        let contents = store.all().unwrap();
        assert!(!contents.verdicts.is_empty());
        assert!(contents.damaged.is_empty(), "{:?}", contents.damaged);
    }
}

#[test]
fn what_killed_writers_left_is_cleared_away_in_time() {
    let (_folder, store) = store();
    let (old, new) = (store.folder.join(".unfinished-old.json"), store.folder.join(".unfinished-new.json"));
    fs::write(&old, "{").unwrap();
    fs::write(&new, "{").unwrap();
    fs::File::options()
        .write(true)
        .open(&old)
        .unwrap()
        .set_modified(SystemTime::now() - 2 * ABANDONED)
        .unwrap();
    let store = Store::open(&store.folder).unwrap();
    assert!(!old.exists() && new.exists());
    assert!(store.all().unwrap().damaged.is_empty(), "an unfinished file is no damaged verdict");
}
