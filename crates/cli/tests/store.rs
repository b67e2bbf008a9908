//! Verdicts kept, taken elsewhere, and ruled on again.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Output, Tribunal, house};
use tribunal_board::Store;

/// Judges an honest and a defective submission into the store of that name, and tells the ids.
fn judge_two(tribunal: &Tribunal, store: &str) -> [String; 2] {
    let specimen =
        |name: &str| house().join("specimens/layer_norm_backward").join(name).display().to_string();
    let options = ["judge", "--effort", "quick", "--no-controls", "--no-measurements", "--json"];
    let output = tribunal.run(
        options
            .map(str::to_owned)
            .into_iter()
            .chain([specimen("plain-numpy"), specimen("gamma-omitted")])
            .chain(["--store".to_owned(), store.to_owned()]),
    );
    let ids: Vec<String> =
        output.stdout.lines().map(|line| json(line)["id"].as_str().expect("an id").to_owned()).collect();
    ids.try_into().unwrap_or_else(|ids| panic!("{ids:?}: {}", output.stderr))
}

fn run(tribunal: &Tribunal, arguments: &str) -> Output {
    tribunal.run(arguments.split_whitespace())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn bundles_go_from_store_to_store_whole() {
    let tribunal = Tribunal::new();
    let ids = judge_two(&tribunal, "a.sqlite");
    let bundle = json(&run(&tribunal, &format!("export {} --store a.sqlite", ids[0])).stdout);
    assert_eq!(bundle["schema"], "tribunal.bundle/1");
    assert_eq!(bundle["verdict"]["id"], ids[0].as_str());
    assert!(bundle["sources"][0]["text"].as_str().unwrap().contains("import numpy"), "{}", bundle["sources"]);

    assert_eq!(run(&tribunal, "export --store a.sqlite").code, 2, "several need a folder");
    let exported = run(&tribunal, "export --store a.sqlite --out folder");
    assert_eq!(
        (exported.code, exported.stdout.as_str()),
        (0, "2 exported to folder\n"),
        "{}",
        exported.stderr
    );
    assert_eq!(files(&tribunal.folder().join("folder")).len(), 2);
    assert_eq!(run(&tribunal, &format!("export {} --store a.sqlite --out one.json", ids[1])).code, 0);

    let imported = run(&tribunal, "import folder --store b.db");
    assert_eq!((imported.code, imported.stdout.as_str()), (0, "2 imported, 0 unchanged, 0 refused\n"));
    let again = run(&tribunal, "import folder one.json --store b.db");
    assert_eq!((again.code, again.stdout.as_str()), (0, "0 imported, 3 unchanged, 0 refused\n"));
    // The folder is a store as it is.
    let boards =
        ["a.sqlite", "b.db", "folder"].map(|store| run(&tribunal, &format!("board --store {store}")));
    assert!(boards[0].stdout.contains("plain-numpy"), "{}", boards[0].stdout);
    assert!(boards.iter().all(|board| board.stdout == boards[0].stdout));
    let bundles =
        ["b.db", "folder"].map(|store| run(&tribunal, &format!("export {} --store {store}", ids[0])));
    assert!(bundles.iter().all(|output| json(&output.stdout) == bundle));
}

#[test]
fn what_does_not_follow_from_its_evidence_is_refused() {
    let tribunal = Tribunal::new();
    judge_two(&tribunal, "folder");
    let [first, second]: [PathBuf; 2] = files(&tribunal.folder().join("folder")).try_into().unwrap();
    let mut forged = json(&fs::read_to_string(&first).unwrap());
    forged["verdict"]["score"] = 99.5.into();
    fs::write(&first, forged.to_string()).unwrap();
    fs::write(tribunal.folder().join("folder/notes.json"), "{}").unwrap();
    // A verdict without a bundle around it is taken as well.
    let alone = json(&fs::read_to_string(&second).unwrap())["verdict"].to_string();
    fs::write(&second, alone).unwrap();

    let output = run(&tribunal, "import folder --store other.sqlite");
    assert_eq!((output.code, output.stdout.as_str()), (1, "1 imported, 0 unchanged, 2 refused\n"));
    let refused: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let name = first.file_name().unwrap().to_str().unwrap();
    let named = refused.iter().find(|line| line.contains(name)).expect("the file is named");
    assert!(named.contains("`score` is 99.5, and "), "{named}");
    assert_eq!(run(&tribunal, "import nowhere --store other.sqlite").code, 2);
}

#[test]
fn evidence_is_ruled_on_again_under_a_changed_rubric() {
    let tribunal = Tribunal::new();
    let ids = judge_two(&tribunal, "s.sqlite");
    let rubric = fs::read_to_string(house().join("challenges/layer_norm_backward/challenge.toml")).unwrap();
    let changed =
        rubric.replace("correctness = 0.35", "correctness = 0.25").replace("code = 0.05", "code = 0.15");
    assert_ne!(rubric, changed);
    fs::write(tribunal.folder().join("changed.toml"), &changed).unwrap();
    let unknown = run(&tribunal, "rescore --rubric changed.toml --store s.sqlite");
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("--challenge ID"), "{}", unknown.stderr);
    fs::create_dir(tribunal.folder().join("layer_norm_backward")).unwrap();
    fs::write(tribunal.folder().join("layer_norm_backward/challenge.toml"), &changed).unwrap();

    let rescore = "rescore --rubric layer_norm_backward/challenge.toml --store s.sqlite";
    let table = run(&tribunal, rescore);
    assert_eq!(table.code, 0, "{}", table.stderr);
    let line = table.stdout.lines().find(|line| line.starts_with("gamma-omitted")).expect("a row");
    assert!(line.contains("weight of correctness 0.35 -> 0.25"), "{line}");
    assert_eq!(run(&tribunal, "board --format json --store s.sqlite").stdout.lines().count(), 2);

    let lines = run(&tribunal, &format!("{rescore} --json --write")).stdout;
    let changes: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!(changes.len(), 2);
    for id in &ids {
        let of = |change: &&Value| change["before"]["id"] == id.as_str();
        let change = changes.iter().find(of).expect("one for each");
        let after = change["after"]["id"].as_str().unwrap();
        let kept = json(&run(&tribunal, &format!("export {after} --store s.sqlite")).stdout);
        assert_eq!(kept["verdict"]["score"], change["after"]["score"]);
        assert_eq!(kept["sources"].as_array().unwrap().len(), 3, "source, manifest and all go along");
        assert_eq!(run(&tribunal, &format!("show {id} --store s.sqlite")).code, 0, "the old one stays");
    }
    let defective = changes.iter().find(|change| change["contestant"] == "gamma-omitted").expect("a row");
    assert!(defective["difference"].as_f64().unwrap() > 0.0, "code weighs more: {defective}");
    let board = run(&tribunal, "board --format json --store s.sqlite").stdout;
    assert_eq!(board.lines().count(), 2, "the last on a contestant counts");
    assert!(board.contains(defective["after"]["id"].as_str().unwrap()), "{board}");
    let nothing = run(&tribunal, rescore).stdout;
    assert!(nothing.lines().count() == 4, "the old evidence gives what is there: {nothing}");
}

#[test]
fn without_a_place_named_verdicts_go_to_the_users_data() {
    let tribunal = Tribunal::new();
    let data = tribunal.folder().join("data");
    fs::create_dir_all(data.join("tribunal/verdicts")).unwrap();
    let board = || {
        let output = Command::new(env!("CARGO_BIN_EXE_tribunal"))
            .arg("board")
            .env("XDG_DATA_HOME", &data)
            .output()
            .expect("the program starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = board();
    assert!(told.contains("tribunal import") && told.contains("tribunal/verdicts"), "{told}");
    assert!(!data.join("tribunal/verdicts.sqlite").exists(), "who reads makes nothing");
    Store::open(data.join("tribunal/verdicts.sqlite")).unwrap();
    assert_eq!(board(), "", "it is told until there is one");
}

#[test]
fn a_file_that_is_no_store_is_refused_with_what_to_do() {
    let tribunal = Tribunal::new();
    fs::write(tribunal.folder().join("notes.db"), "some notes of mine\n".repeat(100)).unwrap();
    let output = run(&tribunal, "board --store notes.db");
    assert_eq!(output.code, 3);
    assert!(output.stderr.contains("give --store another place"), "{}", output.stderr);
}

#[test]
fn who_only_reads_makes_no_store() {
    let tribunal = Tribunal::new();
    fs::create_dir(tribunal.folder().join("layer_norm_backward")).unwrap();
    fs::copy(
        house().join("challenges/layer_norm_backward/challenge.toml"),
        tribunal.folder().join("layer_norm_backward/challenge.toml"),
    )
    .unwrap();
    for command in [
        "board",
        "show abc",
        "export abc",
        "export --out all/",
        "compare alice bob",
        "replay abc/basic/1:x",
        "rescore --rubric layer_norm_backward/challenge.toml",
    ] {
        for store in ["typo.sqlite", "typo"] {
            let output = run(&tribunal, &format!("{command} --store {store}"));
            assert_eq!(output.code, 2, "{command}: {}", output.stderr);
            let told = format!("there is no store at {store}; `tribunal judge PATH --store {store}`");
            assert!(output.stderr.contains(&told), "{command}: {}", output.stderr);
        }
    }
    assert_eq!(files(tribunal.folder()).len(), 1, "{:?}", files(tribunal.folder()));
    // Where no place was named, nothing is amiss.
    let output = Command::new(env!("CARGO_BIN_EXE_tribunal"))
        .arg("board")
        .env("XDG_DATA_HOME", tribunal.folder().join("data"))
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("nothing judged yet"));
    assert!(!tribunal.folder().join("data").exists());
}

#[test]
fn an_export_takes_no_other_files_place() {
    let tribunal = Tribunal::new();
    let ids = judge_two(&tribunal, "s.sqlite");
    let export = |id: &str| run(&tribunal, &format!("export {id} --store s.sqlite --out file.json"));
    let file = tribunal.folder().join("file.json");
    fs::write(&file, "my notes").unwrap();
    let refused = export(&ids[0]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("file.json is there, and no bundle of verdict"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&file).unwrap(), "my notes");
    fs::remove_file(&file).unwrap();
    assert_eq!((export(&ids[0]).code, export(&ids[0]).code), (0, 0), "its own place it takes again");
    let before = fs::read(&file).unwrap();
    assert_eq!(export(&ids[1]).code, 2, "that is another verdict's");
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn what_differs_from_what_is_kept_is_not_called_unchanged() {
    let tribunal = Tribunal::new();
    let ids = judge_two(&tribunal, "s.sqlite");
    assert_eq!(run(&tribunal, &format!("export {} --store s.sqlite --out b.json", ids[0])).code, 0);
    let file = tribunal.folder().join("b.json");
    let bundle = json(&fs::read_to_string(&file).unwrap());
    let import = |change: &dyn Fn(&mut Value)| {
        let mut changed = bundle.clone();
        change(&mut changed);
        fs::write(&file, changed.to_string()).unwrap();
        run(&tribunal, "import b.json --store s.sqlite")
    };
    let kept = |id: &str| json(&run(&tribunal, &format!("export {id} --store s.sqlite")).stdout);

    let same = import(&|_| {});
    assert_eq!(same.stdout, "0 imported, 1 unchanged, 0 refused\n");
    let other = import(&|bundle| bundle["verdict"]["machine"]["cpu"] = "Another CPU".into());
    assert_eq!(
        (other.code, other.stdout.as_str()),
        (0, "0 imported, 0 unchanged, 1 passed over, 0 refused\n")
    );
    assert!(other.stderr.contains("b.json: the store has another judging of the same"), "{}", other.stderr);
    let sources = import(&|bundle| bundle["sources"][0]["text"] = "pass".into());
    assert!(sources.stdout.contains("1 passed over"), "{}", sources.stdout);
    assert_eq!(kept(&ids[0]), bundle, "the store has what it had");

    let early = import(&|bundle| bundle["verdict"]["took_s"] = (-1.0).into());
    assert!(early.stderr.contains("`took_s` is -1.0, and no time is less than 0"), "{}", early.stderr);

    let later = import(&|bundle| {
        bundle["kept_at_ms"] = (bundle["kept_at_ms"].as_u64().unwrap() + 1).into();
        bundle["verdict"]["machine"]["cpu"] = "Another CPU".into();
        bundle["sources"][0]["text"] = "pass".into();
    });
    let lines: Vec<&str> = later.stdout.lines().collect();
    assert_eq!(lines[0], "1 imported, 0 unchanged, 0 refused");
    assert!(
        lines[1].starts_with("whether the sources are what was judged cannot be told for 1"),
        "{lines:?}"
    );
    assert_eq!(kept(&ids[0])["verdict"]["machine"]["cpu"], "Another CPU");
}

#[test]
fn a_finding_is_replayed_from_the_sources_that_were_kept() {
    let tribunal = Tribunal::new();
    let specimen = house().join("specimens/layer_norm_backward/gamma-omitted");
    let folder = tribunal.folder().join("contestant");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(&specimen).unwrap().flatten() {
        if entry.path().is_file() {
            fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    let judged = run(
        &tribunal,
        // A manifest stands for its folder.
        "judge contestant/tribunal.toml --effort quick --no-controls --no-measurements --store my.sqlite",
    );
    assert_eq!(judged.code, 1, "{}", judged.stderr);
    let command = judged.stdout.split("tribunal replay ").nth(1).expect("a command").lines().next().unwrap();
    assert!(command.ends_with(" --store my.sqlite"), "{command}");
    let replay = |out: &str| run(&tribunal, &format!("replay {command} --out {out}"));
    let here = replay("here");
    assert!(here.code == 1 && here.stderr.is_empty(), "{}", here.stderr);
    assert!(!tribunal.folder().join("here/submission").exists(), "the folder itself is there");

    fs::write(folder.join("notes.txt"), "changed").unwrap();
    let changed = replay("changed");
    assert_eq!((changed.code, &changed.stdout.lines().next()), (1, &here.stdout.lines().next()));
    assert!(
        changed.stderr.contains("has changed since it was judged; this replays the case on the sources kept"),
        "{}",
        changed.stderr
    );
    fs::remove_dir_all(&folder).unwrap();
    for _ in 0..2 {
        let gone = replay("gone");
        assert_eq!(
            (gone.code, &gone.stdout.lines().next()),
            (1, &here.stdout.lines().next()),
            "{}",
            gone.stderr
        );
        assert!(
            gone.stderr.contains("there is no tribunal.toml; this replays the case on the sources"),
            "{}",
            gone.stderr
        );
    }
    fs::write(tribunal.folder().join("gone/submission/notes.txt"), "changed").unwrap();
    let refused = replay("gone");
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("gone/submission is there and is not what was judged"),
        "{}",
        refused.stderr
    );

    // Sources that are not those judged are never replayed.
    let id = command.split('/').next().unwrap();
    let mut bundle = json(&run(&tribunal, &format!("export {id} --store my.sqlite")).stdout);
    bundle["sources"][0]["text"] = "raise SystemExit".into();
    fs::write(tribunal.folder().join("b.json"), bundle.to_string()).unwrap();
    assert_eq!(run(&tribunal, "import b.json --store other.sqlite").code, 0);
    let forged = run(
        &tribunal,
        &format!("replay {} --out forged --store other.sqlite", command.split(' ').next().unwrap()),
    );
    assert_eq!(forged.code, 2);
    assert!(
        forged.stderr.contains("the sources kept with the verdict are not all that was judged"),
        "{}",
        forged.stderr
    );
    assert!(!tribunal.folder().join("forged").exists());
}
