//! Fills a store with verdicts that differ in name, times and scores, to see how fast tables are:
//! `cargo run --release -p tribunal-board --example fill_store -- STORE COUNT BUNDLE`, where the bundle comes from
//! `tribunal export VERDICT`.

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use tribunal_board::{Bundle, Store};
use tribunal_judge::{Outcome, Rubric, Severity, Verdict, challenges};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, count, bundle] = arguments.as_slice() else { return Err("STORE COUNT BUNDLE".into()) };
    let count: usize = count.parse()?;
    let bundle = Bundle::read_file(Path::new(bundle))??;
    let challenge = challenges::find(&bundle.verdict.submission.challenge).ok_or("an unknown challenge")?;
    let rubric = Rubric::parse(challenge.rubric())?;
    let next = AtomicUsize::new(0);
    let fill = || {
        let store = Store::open(path).expect("a store");
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            store.put(&varied(&bundle.verdict, number, &rubric), &bundle.sources).expect("it is put");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(fill);
        }
    });
    Ok(())
}

/// Slower by up to four times, and with up to a tenth of its findings failed.
fn varied(verdict: &Verdict, number: usize, rubric: &Rubric) -> Verdict {
    let mut evidence = verdict.evidence();
    evidence.submission.name = format!("contestant-{number:05}");
    let share = (number as f64 * 0.618_033_988_749_895).fract();
    for measurement in &mut evidence.measurements {
        measurement.value *= 1.0 + 3.0 * share;
    }
    for (index, finding) in evidence.findings.iter_mut().enumerate() {
        let chance = ((index * 7919 + number * 104_729) as f64 * 0.618_033_988_749_895).fract();
        if chance < 0.1 * share {
            (finding.outcome, finding.severity) = (Outcome::Fail, Severity::Minor);
            finding.message = "dx[1, 3] is 0.25, should be 0.5".to_owned();
        }
    }
    Verdict::new(evidence, rubric)
}
