//! What a call of no work costs, and what starting a host costs: `cargo run --release -p tribunal-runner --example latency`.

use std::fs;
use std::time::Instant;

use tribunal_contract::{Argument, Call, DType, StateId, Tensor, challenges, emit};
use tribunal_runner::cage::Cage;
use tribunal_runner::{Session, SessionLimits, Submission, Workshop};

const PYTHON: &str = "import numpy as np\ny = np.zeros((1, 1), np.float32)\ndef forward(x, gamma, beta, eps): return y, None\n";
const C: &str =
    "#include \"tribunal.h\"\nint32_t tribunal_forward(tribunal_forward_args *args) { return 0; }\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tribunal_runner::enter();
    let header = emit::c_header(&challenges::LAYER_NORM_BACKWARD);
    for (language, entry, source) in [("python", "k.py", PYTHON), ("c", "k.c", C)] {
        let folder = tempfile::tempdir()?;
        let manifest = format!(
            "name = \"idle\"\nchallenge = \"layer_norm_backward\"\nlanguage = \"{language}\"\nentry = \"{entry}\"\n"
        );
        for (name, text) in [("tribunal.toml", manifest.as_str()), (entry, source), ("tribunal.h", &header)] {
            fs::write(folder.path().join(name), text)?;
        }
        let submission = Submission::open(folder.path())?;
        let artefact = Workshop::new(Cage::default())?.make(&submission, &|line| eprintln!("{line}"))?;
        for (pinning, judge_core, host_core) in
            [("same core", 0, Some(0)), ("two cores", 1, Some(0)), ("free", 0, None)]
        {
            pin_to(host_core.map(|_| judge_core));
            let limits =
                SessionLimits { cores: host_core.map(|core| vec![core]), ..SessionLimits::default() };
            let start_ms = median(
                (0..10)
                    .map(|_| {
                        let begun = Instant::now();
                        let session =
                            Session::start(&Cage::default(), &submission, &artefact, limits.clone());
                        let elapsed = begun.elapsed().as_secs_f64() * 1e3;
                        session.map(|_| elapsed)
                    })
                    .collect::<Result<_, _>>()?,
            );
            let mut session = Session::start(&Cage::default(), &submission, &artefact, limits)?;
            let (mut wall_us, mut whole_us) = (Vec::new(), Vec::new());
            let one = Tensor::from_f64(DType::Float32, [1, 1], &[1.0]);
            for round in 0..2000 {
                let inputs = vec![
                    Argument::Tensor(&one),
                    Argument::Tensor(&one),
                    Argument::Tensor(&one),
                    Argument::Real(0.0),
                ];
                let state = StateId(round);
                let call = Call {
                    operation: "forward",
                    inputs,
                    outputs: vec![one.spec().clone()],
                    makes: Some(state),
                };
                let begun = Instant::now();
                let answer = session.call(&call)?;
                whole_us.push(begun.elapsed().as_secs_f64() * 1e6);
                wall_us.push(answer.wall_s * 1e6);
                session.release(state)?;
            }
            println!(
                "{language:<7} {pinning}: start {start_ms:.1} ms, GO to DONE {:.1} us (p99 {:.1}), whole call {:.0} us",
                median(wall_us.clone()),
                p99(wall_us),
                median(whole_us)
            );
        }
    }
    Ok(())
}

/// Pins this process to a core, or to none.
fn pin_to(core: Option<usize>) {
    let mut set = rustix::thread::CpuSet::new();
    for each in 0..rustix::thread::CpuSet::MAX_CPU {
        if core.is_none_or(|core| core == each) {
            set.set(each);
        }
    }
    // Where it is refused the figures are those of no pinning.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() * 99 / 100]
}
