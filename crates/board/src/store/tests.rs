use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::Connection;

use super::folder::{ABANDONED, UNFINISHED};
use super::*;
use crate::json;
use crate::samples::{self, named};

fn with_id(id: &str) -> Verdict {
    Verdict { id: id.to_owned(), ..samples::accepted() }
}

fn source(text: &str) -> Vec<SourceFile> {
    vec![SourceFile { path: "kernel.py".to_owned(), text: text.to_owned() }]
}

/// An empty store of either kind, at a path in that folder.
fn both() -> [(tempfile::TempDir, PathBuf, Store); 2] {
    ["made/on/the/way", "made/on/the/way.sqlite"].map(|name| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let store = Store::open(&path).unwrap();
        assert_eq!(path.is_dir(), matches!(store.kind, Kind::Folder(_)));
        (folder, path, store)
    })
}

fn folder_store() -> (tempfile::TempDir, Store) {
    let [(folder, _, store), _] = both();
    (folder, store)
}

fn in_folder(store: &Store) -> &Folder {
    match &store.kind {
        Kind::Folder(folder) => folder,
        Kind::Database(_) => panic!("a folder"),
    }
}

fn names_in_order(store: &Store) -> Vec<String> {
    let (summaries, damaged) = store.summaries().unwrap();
    assert_eq!(damaged, []);
    let names: Vec<_> = summaries.into_iter().map(|summary| summary.submission.name).collect();
    let all = store.all().unwrap().bundles;
    assert_eq!(names, all.into_iter().map(|bundle| bundle.verdict.submission.name).collect::<Vec<_>>());
    names
}

#[test]
fn what_has_no_end_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.put(&samples::accepted(), &[]).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("endless.json")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(folder.path().join("pipe.json")).status();
    assert!(pipe.expect("coreutils").success());
    let Contents { bundles, damaged } = store.all().unwrap();
    assert_eq!((bundles.len(), damaged.len()), (1, 2), "{damaged:?}");
}

#[test]
fn the_path_tells_the_kind() {
    let folder = tempfile::tempdir().unwrap();
    let is_folder = |name: &str| {
        let store = Store::open(folder.path().join(name)).unwrap();
        matches!(store.kind, Kind::Folder(_))
    };
    assert!(is_folder("plain") && is_folder("with.dots"));
    assert!(!is_folder("a.sqlite") && !is_folder("b.db"));
    // What is there decides before what it is called.
    fs::create_dir(folder.path().join("folder.db")).unwrap();
    fs::rename(folder.path().join("a.sqlite"), folder.path().join("renamed")).unwrap();
    assert!(is_folder("folder.db") && !is_folder("renamed"));
}

#[test]
fn what_is_to_be_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.sqlite");
    fs::write(&empty, "").unwrap();
    for name in ["a.sqlite", "deep/b.db", "c", "empty.sqlite"] {
        let path = folder.path().join(name);
        assert!(matches!(Store::existing(&path), Err(StoreError::Absent(at)) if at == path), "{name}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(fs::metadata(&empty).unwrap().len(), 0);
    for (_folder, path, store) in both() {
        store.put(&with_id("abc"), &[]).unwrap();
        assert_eq!(Store::existing(&path).unwrap().path(), path);
        assert_eq!(Store::existing(&path).unwrap().get("abc").unwrap().id, "abc");
    }
}

/// The child's part of the next test: reads what it may not write to.
#[test]
fn reads_alone() {
    let Ok(path) = std::env::var(READ_ONLY) else { return };
    let store = Store::existing(&path).unwrap();
    assert_eq!(names_in_order(&store), ["alice"]);
    let id = samples::accepted().id;
    assert_eq!(store.get(&id[..6]).unwrap(), samples::accepted());
    assert_eq!(store.bundle(&id).unwrap().sources, source("s"));
    assert!(matches!(store.put(&samples::rejected(), &[]), Err(StoreError::Database { .. })));
    println!("{READ}");
}

#[test]
fn what_may_not_be_written_to_can_be_read_and_nothing_is_left_beside_it() {
    for (file, folder) in [(0o444, 0o555), (0o444, 0o777), (0o666, 0o555)] {
        for log in [false, true] {
            let [_, (_made, path, store)] = both();
            store.put(&samples::accepted(), &source("s")).unwrap();
            // A writer that is there keeps its log.
            let writer = log.then_some(store);
            let parent = path.parent().unwrap();
            let mode =
                |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            for above in parent.ancestors().take_while(|above| above.starts_with(_made.path())) {
                mode(above, 0o755);
            }
            mode(&path, file);
            mode(parent, folder);
            let beside = || fs::read_dir(parent).unwrap().count();
            let before = beside();
            let mut child = command("reads_alone", &[(READ_ONLY, path.to_str().unwrap())]);
            if fs::metadata(&path).unwrap().uid() == 0 {
                // The superuser may write whatever the modes say.
                child.uid(65534).gid(65534);
            }
            let output = child.arg("--nocapture").stdout(Stdio::piped()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains(READ), "{file:o} {folder:o} {log}: {said}");
            assert_eq!(beside(), before, "{file:o} {folder:o} {log}");
            mode(parent, 0o755);
            drop(writer);
        }
    }
}

#[test]
fn what_others_write_to_a_database_that_is_read_alone_is_seen() {
    // A path that an address must not be made of as it is.
    let made = tempfile::tempdir().unwrap();
    let path = made.path().join("a b?c#d%20.sqlite");
    let store = Store::open(&path).unwrap();
    store.put(&named("first"), &[]).unwrap();
    drop(store);
    let frozen = Store { kind: Kind::Database(Database::frozen(path.clone()).unwrap()) };
    let before = frozen.version().unwrap();
    assert_eq!((names_in_order(&frozen), frozen.version().unwrap()), (vec!["first".to_owned()], before));
    for (name, stays) in [("second", true), ("third", false)] {
        let writer = Store::open(&path).unwrap();
        writer.put(&named(name), &[]).unwrap();
        let writer = stays.then_some(writer);
        assert_ne!(frozen.version().unwrap(), before);
        assert_eq!(names_in_order(&frozen).last().unwrap(), name);
        drop(writer);
    }
}

#[test]
fn what_is_put_is_got_by_any_beginning_that_is_unique() {
    for (_folder, path, store) in both() {
        for id in ["abc1", "abd2", "abc", "f00", "z-_"] {
            store.put(&with_id(id), &source(id)).unwrap();
        }
        // Another process sees the same.
        let store = Store::open(path).unwrap();
        assert_eq!(store.get("f").unwrap(), with_id("f00"));
        assert_eq!(store.get("abd").unwrap().id, "abd2");
        assert_eq!(store.get("abc").unwrap().id, "abc", "a whole id is meant");
        assert_eq!(store.sources("z").unwrap(), source("z-_"));
        let bundle = store.bundle("f").unwrap();
        assert_eq!((bundle.verdict, bundle.sources), (with_id("f00"), source("f00")));
        assert!(
            matches!(store.get("ab"), Err(StoreError::Ambiguous { ids, .. }) if ids == ["abc", "abc1", "abd2"])
        );
        for absent in ["x", "", "../made", "abc.json", "*", "%", "a' OR '1"] {
            assert!(matches!(store.get(absent), Err(StoreError::NotFound { .. })), "{absent:?}");
        }
    }
}

#[test]
fn judging_the_same_again_replaces_the_verdict_and_moves_it_to_the_end() {
    for (_folder, _, store) in both() {
        for name in ["abc", "other"] {
            store.put(&named(name), &source("first")).unwrap();
            std::thread::sleep(Duration::from_millis(15));
        }
        store.put(&Verdict { caged_s: 99.0, ..named("abc") }, &source("second")).unwrap();
        assert_eq!(names_in_order(&store), ["other", "abc"]);
        let id = |name| named(name).id;
        assert_eq!(store.get(&id("abc")).unwrap().caged_s, 99.0);
        assert_eq!(store.sources(&id("abc")).unwrap(), source("second"));
        assert_eq!(store.sources(&id("other")).unwrap(), source("first"), "shared once, and needed still");
    }
}

#[test]
fn all_are_told_in_the_order_in_which_they_came() {
    for (_folder, _, store) in both() {
        for name in ["z", "a", "m"] {
            store.put(&named(name), &[]).unwrap();
            std::thread::sleep(Duration::from_millis(15));
        }
        assert_eq!(names_in_order(&store), ["z", "a", "m"]);
        // What comes from elsewhere takes the place that its time gives it.
        store.keep(&Bundle { kept_at_ms: Some(5), ..Bundle::new(named("old"), vec![]) }).unwrap();
        assert_eq!(names_in_order(&store), ["old", "z", "a", "m"]);
    }
}

#[test]
fn a_clock_that_is_set_back_changes_no_order_in_a_database() {
    let [_, (_folder, _, store)] = both();
    let future = Bundle { kept_at_ms: Some(1 << 50), ..Bundle::new(named("future"), vec![]) };
    store.keep(&future).unwrap();
    store.put(&named("now"), &[]).unwrap();
    assert_eq!(names_in_order(&store), ["future", "now"]);
}

#[test]
fn every_put_changes_the_version_and_nothing_else_does() {
    for (_folder, path, store) in both() {
        let mut seen = vec![store.version().unwrap()];
        for id in ["a", "b", "b", "a", "a"] {
            Store::open(&path).unwrap().put(&with_id(id), &[]).unwrap();
            let version = store.version().unwrap();
            assert!(!seen.contains(&version), "{seen:?}, then {version}");
            seen.push(version);
            store.summaries().unwrap();
            assert_eq!(store.version().unwrap(), version);
            assert_eq!(Store::open(&path).unwrap().version().unwrap(), version);
        }
    }
}

#[test]
fn a_folder_and_a_database_hold_the_same() {
    let [(_a, _, folder), (_b, _, database)] = both();
    for verdict in [samples::rejected(), samples::hostile(), samples::infrastructure()] {
        folder.put(&verdict, &source(&verdict.submission.name)).unwrap();
        std::thread::sleep(Duration::from_millis(15));
    }
    for bundle in folder.all().unwrap().bundles {
        database.keep(&bundle).unwrap();
    }
    assert_eq!(folder.all().unwrap().bundles, database.all().unwrap().bundles);
    assert_eq!(folder.summaries().unwrap().0, database.summaries().unwrap().0);
    assert_eq!(folder.all().unwrap().bundles.len(), 3);
}

#[test]
fn an_id_cannot_leave_the_folder() {
    for (_folder, _, store) in both() {
        for id in ["../up", "a/b", "", ".hidden", "nul\0", &"x".repeat(65)] {
            assert!(matches!(store.put(&with_id(id), &[]), Err(StoreError::Id(_))), "{id:?}");
        }
    }
}

#[test]
fn damaged_files_are_named_and_left_alone() {
    let (_folder, store) = folder_store();
    let folder = in_folder(&store);
    store.put(&with_id("good"), &[]).unwrap();
    let whole = fs::read_to_string(folder.file("good")).unwrap();
    fs::write(folder.file("cut"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.file("binary"), [0xff, 0xfe, 0]).unwrap();
    fs::write(folder.file("newer"), whole.replace("verdict/1", "verdict/2")).unwrap();
    fs::write(folder.file("good").with_file_name("notes.txt"), "mine").unwrap();

    let contents = store.all().unwrap();
    assert_eq!(contents.bundles.len(), 1);
    assert_eq!(contents.bundles[0].verdict, with_id("good"));
    let mut damaged: Vec<_> = contents.damaged.iter().map(|d| d.place.rsplit('/').next().unwrap()).collect();
    damaged.sort_unstable();
    assert_eq!(damaged, ["binary.json", "cut.json", "newer.json"]);
    assert!(matches!(store.get("cut"), Err(StoreError::Damaged(_))));

    store.put(&with_id("newer"), &[]).unwrap();
    assert_eq!(store.get("newer").unwrap().id, "newer");
    let aside = fs::read_to_string(folder.file("newer").with_extension("json.damaged-1")).unwrap();
    assert!(aside.contains("verdict/2"), "what was there is kept");
}

#[test]
fn what_was_altered_by_hand_is_named_and_not_ranked() {
    let (_folder, store) = folder_store();
    for verdict in [samples::rejected(), named("honest")] {
        store.put(&verdict, &[]).unwrap();
    }
    let file = in_folder(&store).file(&samples::rejected().id);
    let altered = fs::read_to_string(&file).unwrap().replacen("\"score\":", "\"score\":9", 1);
    fs::write(&file, &altered).unwrap();
    let (summaries, damaged) = store.summaries().unwrap();
    let names: Vec<_> = summaries.iter().map(|summary| summary.submission.name.as_str()).collect();
    assert_eq!(names, ["honest"]);
    assert_eq!(damaged.len(), 1, "{damaged:?}");
    let said = damaged[0].to_string();
    assert!(said.starts_with(&format!("{}: a verdict that was altered: `", file.display())), "{said}");
    assert!(said.ends_with(" follows from its evidence"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), altered);
}

#[test]
fn damaged_rows_are_named_and_left_alone() {
    let [_, (_folder, path, store)] = both();
    for id in ["good", "flipped", "gone", "newer"] {
        store.put(&with_id(id), &[]).unwrap();
    }
    let other = Connection::open(&path).unwrap();
    let mut packed: Vec<u8> =
        other.query_row("SELECT verdict FROM evidence WHERE id = 'flipped'", [], |row| row.get(0)).unwrap();
    let middle = packed.len() / 2;
    packed[middle] ^= 0x10;
    other.execute("UPDATE evidence SET verdict = ? WHERE id = 'flipped'", [&packed]).unwrap();
    other.execute("DELETE FROM evidence WHERE id = 'gone'", []).unwrap();
    let newer = database::pack(json::line(&with_id("newer")).replace("verdict/1", "verdict/2").as_bytes());
    other.execute("UPDATE evidence SET verdict = ? WHERE id = 'newer'", [&newer]).unwrap();
    // Its summary is whole, so a table still shows it.
    assert_eq!(store.summaries().unwrap().0.len(), 4);
    other.execute("UPDATE verdicts SET summary = '{' WHERE id <> 'good'", []).unwrap();

    let (summaries, damaged) = store.summaries().unwrap();
    assert_eq!(summaries.len(), 1);
    let names: Vec<_> = damaged.iter().map(|d| d.place.rsplit(' ').next().unwrap()).collect();
    assert_eq!(names, ["flipped", "gone", "newer"]);
    assert!(matches!(store.get("flipped"), Err(StoreError::Damaged(_))));
    assert!(matches!(
        store.bundle("newer"),
        Err(StoreError::Damaged(Damaged { why: ReadError::Form(_), .. }))
    ));
    assert_eq!(store.all().unwrap().damaged.len(), 3);

    for id in ["flipped", "gone", "newer"] {
        store.put(&with_id(id), &[]).unwrap();
    }
    let (summaries, damaged) = store.summaries().unwrap();
    let ids: Vec<_> = summaries.iter().map(|summary| summary.id.as_str()).collect();
    assert_eq!((ids, damaged), (vec!["good", "flipped", "gone", "newer"], vec![]));
    let aside: Vec<Vec<u8>> = other
        .prepare("SELECT verdict FROM set_aside ORDER BY seq")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(aside, [packed, newer], "what was there is kept");
}

#[test]
fn summaries_of_another_form_are_computed_anew() {
    let [_, (_folder, path, store)] = both();
    store.put(&samples::rejected(), &[]).unwrap();
    let expected = store.summaries().unwrap().0;
    let other = Connection::open(&path).unwrap();
    let form =
        || other.query_row("SELECT summary_form FROM verdicts", [], |row| row.get::<_, u32>(0)).unwrap();
    for (spoil, written_back) in [
        ("UPDATE verdicts SET summary = '{\"id\": 3}'", true),
        ("UPDATE verdicts SET summary_form = 0, summary = replace(summary, 'bob', 'eve')", true),
        ("UPDATE verdicts SET summary_form = 99, summary = replace(summary, 'bob', 'eve')", false),
    ] {
        other.execute(spoil, []).unwrap();
        assert_eq!(store.summaries().unwrap().0, expected, "{spoil}");
        assert_eq!(form() == crate::summary::FORM, written_back, "{spoil}");
    }
}

#[test]
fn many_summaries_of_another_form_are_computed_at_once_and_what_is_damaged_is_named() {
    let [_, (_folder, path, store)] = both();
    // More than are unpacked together.
    let ids: Vec<String> = (0..300).map(|number| format!("v{number:03}")).collect();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA synchronous = OFF").unwrap();
    store.put(&with_id("v000"), &[]).unwrap();
    for id in &ids[1..] {
        // As an older version left them: nothing but the evidence is to be trusted.
        other
            .execute(
                "INSERT INTO verdicts(id, challenge, contestant, kept_at_ms, sources, summary_form, summary, draws)
                 SELECT ?1, challenge, contestant, kept_at_ms, sources, 1, '{}', x'' FROM verdicts WHERE id = 'v000'",
                [id],
            )
            .unwrap();
        let verdict = super::database::pack(json::line(&with_id(id)).as_bytes());
        other.execute("INSERT INTO evidence VALUES (?1, ?2)", rusqlite::params![id, verdict]).unwrap();
    }
    other.execute("UPDATE evidence SET verdict = x'00' WHERE id = 'v007'", []).unwrap();
    other.execute("DELETE FROM evidence WHERE id = 'v299'", []).unwrap();
    for _ in 0..2 {
        let (summaries, damaged) = store.summaries().unwrap();
        let whole: Vec<&String> = ids.iter().filter(|id| *id != "v007" && *id != "v299").collect();
        assert_eq!(summaries.iter().map(|summary| &summary.id).collect::<Vec<_>>(), whole);
        assert!(
            summaries
                .iter()
                .all(|summary| *summary == Summary { id: summary.id.clone(), ..summaries[0].clone() })
        );
        let named: Vec<bool> = damaged.iter().map(|this| this.place.ends_with("v007")).collect();
        assert_eq!(named, [true, false], "{damaged:?}");
    }
    let left: i64 = other
        .query_row("SELECT count(*) FROM verdicts WHERE summary_form = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 2, "all others were written back");
}

#[test]
fn draws_by_a_rubric_that_is_not_at_hand_are_kept() {
    let [_, (_folder, path, store)] = both();
    let carried = tribunal_judge::challenges::find("layer_norm_backward").unwrap().rubric();
    let changed = carried
        .replace("correctness = 0.35", "correctness = 0.3")
        .replace("stability = 0.15", "stability = 0.2");
    let rubric = Rubric::parse(&changed).unwrap();
    let verdict = Verdict::new(samples::rejected().evidence(), &rubric);
    let draws = || store.summaries().unwrap().0.remove(0).resampled;
    store.put(&verdict, &[]).unwrap();
    assert!(draws().is_empty(), "nobody knows how it came to its score");
    store.put_ruled(&verdict, &[], &rubric).unwrap();
    let made = draws();
    assert_eq!(made.len(), tribunal_judge::resample::DRAWS);
    // A later form of summaries is computed without the rubric.
    let form = |form: u32| {
        Connection::open(&path).unwrap().execute("UPDATE verdicts SET summary_form = ?1", [form]).unwrap();
    };
    form(crate::summary::DRAWS_SINCE);
    assert_eq!(draws(), made);
    assert_eq!(draws(), made, "and so they are written back");
    form(crate::summary::DRAWS_SINCE - 1);
    assert!(draws().is_empty(), "draws of another kind are nobody's");
}

#[test]
fn what_is_no_store_is_refused_and_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let path = folder.path().join(name);
        let before = fs::read(&path).unwrap();
        let error = Store::open(&path).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), before, "{name}");
        error
    };
    fs::write(folder.path().join("notes.db"), "not a database, but long enough to be looked into".repeat(40))
        .unwrap();
    let error = refused("notes.db");
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    assert!(error.to_string().contains("give --store another place"), "{error}");

    let other = Connection::open(folder.path().join("other.db")).unwrap();
    other.execute_batch("CREATE TABLE mail(text)").unwrap();
    drop(other);
    assert!(matches!(refused("other.db"), StoreError::Foreign(_)));

    Store::open(folder.path().join("newer.db")).unwrap();
    Connection::open(folder.path().join("newer.db")).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let error = refused("newer.db");
    assert!(matches!(error, StoreError::Newer { form: 7, .. }), "{error}");
}

#[test]
fn a_spoilt_database_says_what_to_do() {
    let [_, (_folder, path, store)] = both();
    let mut large = samples::rejected();
    large.omissions = (0..20_000).map(|number| format!("{number:x}")).collect();
    store.put(&large, &[]).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 12, "{pages}");
    for byte in &mut bytes[4096..] {
        *byte ^= 0x55;
    }
    fs::write(&path, bytes).unwrap();
    let store = Store::open(&path).unwrap();
    let error = store.get("0").map(|_| ()).and(store.summaries().map(|_| ())).unwrap_err();
    assert!(error.to_string().contains("tribunal export --out DIR"), "{error}");
}

#[test]
fn sources_that_nobody_needs_are_dropped() {
    let [_, (_folder, path, store)] = both();
    let other = Connection::open(&path);
    let count = || -> u32 {
        other.as_ref().unwrap().query_row("SELECT count(*) FROM sources", [], |row| row.get(0)).unwrap()
    };
    store.put(&with_id("a"), &source("one")).unwrap();
    store.put(&with_id("b"), &source("one")).unwrap();
    assert_eq!(count(), 1);
    store.put(&with_id("a"), &source("two")).unwrap();
    assert_eq!(count(), 2);
    store.put(&with_id("b"), &source("two")).unwrap();
    assert_eq!(count(), 1);
}

#[test]
fn verdicts_that_stand_alone_are_read() {
    let (_folder, store) = folder_store();
    let file = in_folder(&store).file("old");
    fs::write(&file, json::line(&with_id("old")) + "\n").unwrap();
    let bundle = store.bundle("old").unwrap();
    assert_eq!((&bundle.verdict, bundle.sources.len()), (&with_id("old"), 0));
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(bundle.kept_at_ms, Some(crate::bundle::millis(modified)));
}

#[test]
fn writers_and_readers_at_once_see_whole_verdicts_only() {
    for (_folder, _, store) in both() {
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
                        store.put(&verdict, &source(&round.to_string())).unwrap();
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
        assert_eq!((contents.bundles.len(), contents.damaged.len()), (3, 0));
        if let Kind::Folder(folder) = &store.kind {
            assert!(folder.names().unwrap().iter().all(|name| !name.starts_with(UNFINISHED)));
        }
    }
}

/// Runs one of the tests here as a process of its own.
fn command(test: &str, environment: &[(&str, &str)]) -> Command {
    // By this name another user finds it too, wherever it was built.
    let mut command = Command::new("/proc/self/exe");
    command.args(["--exact", &format!("store::tests::{test}")]).envs(environment.iter().copied());
    command
}

fn child(test: &str, environment: &[(&str, &str)]) -> Child {
    command(test, environment).stdout(Stdio::null()).spawn().unwrap()
}

/// Names the store in [`reads_alone`], which says when it is through.
const READ_ONLY: &str = "TRIBUNAL_BOARD_TEST_READ_ONLY";
const READ: &str = "all of it was read";

const STORE: &str = "TRIBUNAL_BOARD_TEST_STORE";
const WRITER: &str = "TRIBUNAL_BOARD_TEST_WRITER";
const PUTS: usize = 20;

/// The child's part of the next test: opens the store, puts its own verdicts, and reads meanwhile.
#[test]
fn puts_and_reads() {
    let (Ok(path), Ok(writer)) = (std::env::var(STORE), std::env::var(WRITER)) else { return };
    let store = Store::open(path).unwrap();
    for round in 0..PUTS {
        let own = named(&format!("w{writer}-{round}"));
        store.put(&own, &source(&format!("{writer} {round}"))).unwrap();
        store.put(&named("shared"), &source(&writer)).unwrap();
        assert_eq!(store.get(&own.id).unwrap(), own);
        let (summaries, damaged) = store.summaries().unwrap();
        assert!(summaries.len() > round && damaged.is_empty(), "{damaged:?}");
    }
}

#[test]
fn processes_that_put_and_read_at_once_lose_nothing() {
    for name in ["folder", "store.sqlite"] {
        // They find no store, and all make it.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let writers = ["0", "1", "2", "3"];
        let children = writers.map(|writer| {
            let mut command = command("puts_and_reads", &[(STORE, path.to_str().unwrap()), (WRITER, writer)]);
            command.stdout(Stdio::piped()).spawn().unwrap()
        });
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
        }
        let store = Store::open(&path).unwrap();
        let contents = store.all().unwrap();
        assert_eq!((contents.bundles.len(), contents.damaged.len()), (writers.len() * PUTS + 1, 0));
        for writer in writers {
            for round in 0..PUTS {
                let sources = store.sources(&named(&format!("w{writer}-{round}")).id).unwrap();
                assert_eq!(sources, source(&format!("{writer} {round}")));
            }
        }
    }
}

/// The child's part of the next test: writes until it is killed.
#[test]
fn writes_until_killed() {
    let (Ok(path), Err(_)) = (std::env::var(STORE), std::env::var(WRITER)) else { return };
    let store = Store::open(path).unwrap();
    let mut verdict = samples::rejected();
    verdict.omissions = (0..20_000).map(|number| format!("{number:x}")).collect();
    for round in 0.. {
        store.put(&Verdict { id: format!("id{}", round % 5), ..verdict.clone() }, &[]).unwrap();
    }
}

#[test]
fn a_writer_that_is_killed_at_any_time_spoils_nothing() {
    for (_folder, path, store) in both() {
        for _ in 0..5 {
            let mut child = child("writes_until_killed", &[(STORE, path.to_str().unwrap())]);
            let started = Instant::now();
            while store.ids().unwrap().is_empty() {
                assert!(started.elapsed() < Duration::from_secs(30), "the child writes");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(60));
            child.kill().unwrap();
            child.wait().unwrap();
            let contents = store.all().unwrap();
            assert!(!contents.bundles.is_empty());
            assert!(contents.damaged.is_empty(), "{:?}", contents.damaged);
        }
    }
}

#[test]
fn what_killed_writers_left_is_cleared_away_in_time() {
    let [(_folder, path, _store), _] = both();
    let (old, new) = (path.join(".unfinished-old.json"), path.join(".unfinished-new.json"));
    fs::write(&old, "{").unwrap();
    fs::write(&new, "{").unwrap();
    fs::File::options()
        .write(true)
        .open(&old)
        .unwrap()
        .set_modified(SystemTime::now() - 2 * ABANDONED)
        .unwrap();
    let store = Store::open(&path).unwrap();
    assert!(!old.exists() && new.exists());
    assert!(store.all().unwrap().damaged.is_empty(), "an unfinished file is no damaged verdict");
}
