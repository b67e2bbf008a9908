//! A judging as other programs see it.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::{Tribunal, house};
use tribunal_board::Store;
use tribunal_board::live::{self, Entry, Judging};
use tribunal_judge::Ruling;

/// A judging that is ended with the test.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn judge(tribunal: &Tribunal, options: &[&str]) -> Background {
    let specimens = house().join("specimens/layer_norm_backward");
    let child = Command::new(env!("CARGO_BIN_EXE_tribunal"))
        .args(["judge", "--effort", "quick", "--no-controls", "--jobs", "1", "--store", "s.sqlite"])
        .args(options)
        .args(["gamma-omitted", "plain-numpy"].map(|name| specimens.join(name)))
        .current_dir(tribunal.folder())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    Background(child)
}

fn entry<'a>(judging: &'a Judging, name: &str) -> Option<&'a Entry> {
    judging.submissions.iter().find(|entry| entry.name == name)
}

/// Looks at the judging until it ends or `enough` of it was seen. All phases that the whole and the submissions were in.
fn watch(
    judging: &mut Background,
    store: &Path,
    mut enough: impl FnMut(&Judging) -> bool,
) -> BTreeSet<(String, String)> {
    let mut phases = BTreeSet::new();
    let started = Instant::now();
    loop {
        let ended = judging.0.try_wait().unwrap().is_some();
        for seen in live::judgings(store) {
            phases.insert(("all".to_owned(), seen.phase.clone()));
            phases.extend(seen.submissions.iter().map(|entry| (entry.name.clone(), entry.phase.clone())));
            if enough(&seen) {
                return phases;
            }
        }
        if ended {
            return phases;
        }
        assert!(started.elapsed() < Duration::from_secs(300), "{phases:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_judging_is_seen_until_it_ends_and_each_verdict_is_kept_when_it_is_ruled() {
    let tribunal = Tribunal::new();
    let store = tribunal.folder().join("s.sqlite");
    let mut judging = judge(&tribunal, &["--no-measurements"]);
    let mut kept_early = None;
    let phases = watch(&mut judging, &store, |seen| {
        let [defective, honest] = ["gamma-omitted", "plain-numpy"].map(|name| entry(seen, name));
        if let (Some(defective), Some(honest)) = (defective, honest)
            && let (Some(id), None, None) = (&defective.verdict, &honest.verdict, &kept_early)
        {
            assert_eq!(defective.outcome, Some(Ruling::Rejected));
            let verdict = Store::open(&store).unwrap().get(id).expect("it is kept");
            assert_eq!((verdict.submission.name.as_str(), verdict.score), ("gamma-omitted", defective.score));
            kept_early = Some(verdict.id);
        }
        false
    });
    assert_eq!(judging.0.wait().unwrap().code(), Some(1), "one of the two is rejected");
    for (name, phase) in [("all", "cases"), ("gamma-omitted", "cases"), ("plain-numpy", "cases")] {
        assert!(phases.contains(&(name.to_owned(), phase.to_owned())), "{name}, {phase}: {phases:?}");
    }
    assert_eq!(live::judgings(&store), []);
    assert!(!tribunal.folder().join("s.sqlite-live").exists(), "nothing is left");
    let (summaries, _) = Store::open(&store).unwrap().summaries().unwrap();
    let outcomes: Vec<_> = summaries.iter().map(|one| (one.submission.name.as_str(), one.outcome)).collect();
    assert_eq!(outcomes, [("gamma-omitted", Ruling::Rejected), ("plain-numpy", Ruling::Accepted)]);
    assert_eq!(kept_early.as_ref(), Some(&summaries[0].id));
}

#[test]
fn a_judging_that_is_killed_keeps_what_it_ruled_and_is_seen_no_more() {
    let tribunal = Tribunal::new();
    let store = tribunal.folder().join("s.sqlite");
    let mut judging = judge(&tribunal, &[]);
    let timed = |seen: &Judging| entry(seen, "plain-numpy").is_some_and(|entry| entry.phase == "timing");
    let phases = watch(&mut judging, &store, timed);
    let was_in = |name: &str, phase: &str| phases.contains(&(name.to_owned(), phase.to_owned()));
    assert!(was_in("all", "timing") && was_in("plain-numpy", "weighing"), "{phases:?}");
    for phase in ["weighing", "timing"] {
        assert!(!was_in("gamma-omitted", phase), "wrong answers are not measured");
    }
    assert_eq!(judging.0.try_wait().unwrap(), None, "it is not done");
    drop(judging);
    // What it was about to start has its lock as well, until that is another program or has ended too.
    let killed = Instant::now();
    while !live::judgings(&store).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(10), "{:?}", live::judgings(&store));
        thread::sleep(Duration::from_millis(2));
    }
    let contents = Store::open(&store).unwrap().all().unwrap();
    let names: Vec<_> = contents.bundles.iter().map(|one| one.verdict.submission.name.as_str()).collect();
    assert_eq!((names, contents.damaged), (vec!["gamma-omitted"], vec![]));
}
