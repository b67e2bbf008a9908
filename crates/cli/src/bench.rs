//! `tribunal bench`.

use std::io::Write;

use tribunal_contract::{Language, challenges};
use tribunal_judge::{Hearing, Measurement, Order, Reference, Seed};
use tribunal_runner::Submission;
use tribunal_runner::submission::find as find_submissions;

use crate::arguments::{BenchOptions, Common};
use crate::challenges::find;
use crate::exit::{Exit, Failure};
use crate::house;
use crate::judge::{order, reference};
use crate::progress::Progress;

pub fn run(options: &BenchOptions, common: &Common) -> Result<Exit, Failure> {
    let chosen = match options.ids.as_slice() {
        [] => challenges::ALL.to_vec(),
        ids => ids.iter().map(|id| find(id)).collect::<Result<_, _>>()?,
    };
    // Nobody can prepare for contents that are drawn now.
    let order = order(Seed::random(), options.effort, &options.cage, common)?;
    let progress = Progress::new(common.quiet);
    let others = find_submissions(&options.against).map_err(|error| Failure::Usage(error.to_string()))?;
    let mut out = anstream::stdout();
    // Kernels in CUDA have a reference of their own, and a time where there is a GPU.
    let devices = if order.gpu.is_some() { &[false, true][..] } else { &[false] };
    for (challenge, cuda) in
        chosen.iter().flat_map(|challenge| devices.iter().map(move |&cuda| (challenge, cuda)))
    {
        let line = progress.line(challenge.id);
        let reference =
            reference(&order, challenge.id, cuda, &|what| line.say(what)).map_err(Failure::Machine)?;
        let Some(reference) = reference else {
            if cuda {
                continue;
            }
            return Err(Failure::Machine(format!(
                "the reference of {} is not here: run inside the project's folder, or set TRIBUNAL_HOUSE to it",
                challenge.id
            )));
        };
        drop(line);
        writeln!(out, "{}{}", challenge.id, if cuda { ", CUDA" } else { "" })?;
        writeln!(
            out,
            "{:<20} {:<22} {:<14} {:>10} {:>10} {:>8}  over the reference",
            "", "workload", "what", "value", "floor", "x floor"
        )?;
        let folder = house::reference(challenge.id, cuda).expect("it was built from there");
        let mut folders = vec![folder];
        folders.extend(others.iter().cloned());
        for (index, folder) in folders.iter().enumerate() {
            let submission = Submission::open(folder).map_err(|error| Failure::Usage(error.to_string()))?;
            let on_gpu = submission.manifest.language == Language::Cuda && order.gpu.is_some();
            if submission.challenge.id != challenge.id || on_gpu != cuda {
                continue;
            }
            let beside = (index > 0).then_some(&reference);
            let name = submission.manifest.name.clone();
            let rows = measure(&order, submission, beside, &progress)?;
            for row in &rows {
                writeln!(out, "{:<20} {}", tribunal_board::clean::line(&name), table_row(row))?;
            }
        }
    }
    Ok(Exit::Accepted)
}

fn measure(
    order: &Order,
    submission: Submission,
    beside: Option<&Reference<'_>>,
    progress: &Progress,
) -> Result<Vec<Measurement>, Failure> {
    let line = progress.line(&submission.manifest.name);
    let hearing = Hearing::open(order, submission);
    let measured = hearing.bench(beside, &line).map_err(|trouble| Failure::Machine(trouble.to_string()))?;
    Ok(measured.measurements)
}

fn table_row(measurement: &Measurement) -> String {
    let scaled = |value: f64| match measurement.unit.as_str() {
        "s" => format!("{:.3} ms", value * 1e3),
        "B" => format!("{:.2} MB", value / 1e6),
        _ => format!("{value:.2}"),
    };
    let over = match (measurement.of_reference, measurement.of_reference_interval) {
        (Some(ratio), Some([low, high])) => format!("{ratio:.2} [{low:.2}, {high:.2}]"),
        (Some(ratio), None) => format!("{ratio:.2}"),
        _ => String::new(),
    };
    format!(
        "{:<22} {:<14} {:>10} {:>10} {:>8}  {over}",
        measurement.workload,
        measurement.name,
        scaled(measurement.value),
        measurement.floor.map_or(String::new(), scaled),
        measurement.floor.map_or(String::new(), |floor| format!("{:.2}", measurement.value / floor)),
    )
}
