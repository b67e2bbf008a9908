//! `tribunal plan`: which context and batch fit on which device, and what bounds speed.

use std::fs;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tribunal_plan::{Comparison, Device, KvFormat, Model, Plan, Settings, WeightFormat, figure, terminal};

use crate::arguments::Common;
use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// How long memory is read, to see how fast it is.
const PROBE: Duration = Duration::from_millis(400);

#[derive(Debug, Args)]
pub struct PlanOptions {
    /// A model's name, or a config.json as Hugging Face has it, or the folder it is in
    #[arg(long, value_name = "NAME|PATH", required_unless_present = "list")]
    pub model: Option<String>,
    /// A device's name, or `this` for this machine [default: a comparison of all]
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,
    /// Tokens of each sequence; 128k and 1M are powers of two
    #[arg(long, value_name = "N", default_value = "8k", value_parser = count)]
    pub context: u64,
    /// Sequences at once
    #[arg(long, value_name = "N", default_value = "1", value_parser = count)]
    pub batch: u64,
    /// What weights are kept in: f32, bf16, int8, int4, mxfp4
    #[arg(long, value_name = "FORMAT", default_value = "bf16")]
    pub weights: WeightFormat,
    /// What keys and values are kept in: f32, f16, bf16, int8, int4
    #[arg(long, value_name = "FORMAT", default_value = "bf16")]
    pub kv: KvFormat,
    /// One JSON document on stdout
    #[arg(long)]
    pub json: bool,
    /// Write a figure of the caches by context, as SVG
    #[arg(long, value_name = "FILE")]
    pub figure: Option<PathBuf>,
    /// List the models and devices known by name
    #[arg(long)]
    pub list: bool,
    #[command(flatten)]
    pub numbers: NumberOptions,
    #[command(flatten)]
    pub assumptions: AssumptionOptions,
}

/// A device in numbers; they win over those of a device that is named.
#[derive(Debug, Args)]
#[command(next_help_heading = "A device in numbers, or other numbers for the one named")]
pub struct NumberOptions {
    /// Memory, in 1e9 bytes
    #[arg(long, value_name = "GB")]
    pub memory_gb: Option<f64>,
    /// Bandwidth of its memory, in 1e9 bytes a second
    #[arg(long, value_name = "GB/S")]
    pub bandwidth_gbs: Option<f64>,
    /// Arithmetic, dense, in bf16, in 1e12 operations a second
    #[arg(long, value_name = "TFLOP/S")]
    pub tflops: Option<f64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Assumptions")]
pub struct AssumptionOptions {
    /// Elements that share a scale in an int8 or int4 cache; a head's width or more is one scale per head
    #[arg(long, value_name = "N", default_value = "32", value_parser = count)]
    pub kv_group: u64,
    /// Tokens of a page of the cache
    #[arg(long, value_name = "N", default_value = "16", value_parser = count)]
    pub page: u64,
    /// Tokens that a sequence has on average, for what paging saves [default: half the context]
    #[arg(long, value_name = "N", value_parser = count)]
    pub mean_context: Option<u64>,
    /// Tokens of prompts that one step computes at most
    #[arg(long, value_name = "N", default_value = "2k", value_parser = count)]
    pub chunk: u64,
    /// Share of the device's memory that is left alone
    #[arg(long, value_name = "SHARE", default_value = "0.1")]
    pub reserve: f64,
}

pub fn run(options: &PlanOptions, common: &Common) -> Result<Exit, Failure> {
    let mut out = anstream::stdout();
    let Some(model) = options.model.as_deref().filter(|_| !options.list) else {
        write!(out, "{}", terminal::list(true))?;
        return Ok(Exit::Accepted);
    };
    let (model, settings) = (find_model(model)?, settings(options));
    let Some(device) = find_device(options, common)? else {
        if options.figure.is_some() {
            let remedy =
                "--figure draws one device: name it with --device, or give --memory-gb and --bandwidth-gbs";
            return Err(Failure::Usage(remedy.to_owned()));
        }
        let comparison = Comparison::of(&model, Device::known(), settings).map_err(usage)?;
        if options.json {
            writeln!(out, "{}", json(&comparison)?)?;
        } else {
            write!(out, "{}", terminal::comparison(&comparison, true))?;
        }
        return Ok(Exit::Accepted);
    };
    let plan = Plan::new(&model, &device, settings).map_err(usage)?;
    if let Some(path) = &options.figure {
        fs::write(path, figure::svg(&plan))
            .map_err(|error| Failure::Usage(format!("--figure {}: {error}", path.display())))?;
    }
    let report = plan.report();
    if options.json {
        writeln!(out, "{}", json(&report)?)?;
    } else {
        write!(out, "{}", terminal::report(&report, true))?;
    }
    Ok(Exit::Accepted)
}

fn settings(options: &PlanOptions) -> Settings {
    Settings {
        context_tokens: options.context,
        batch_sequences: options.batch,
        weight_format: options.weights,
        kv_format: options.kv,
        kv_group_elements: options.assumptions.kv_group,
        page_tokens: options.assumptions.page,
        mean_context_tokens: options.assumptions.mean_context,
        prefill_chunk_tokens: options.assumptions.chunk,
        reserve_fraction: options.assumptions.reserve,
    }
}

/// The model of that name, or the configuration at that path. Names win.
fn find_model(text: &str) -> Result<Model, Failure> {
    let path = Path::new(text);
    match Model::find(text) {
        Ok(model) => Ok(model.clone()),
        Err(_) if path.exists() || text.contains('/') || text.ends_with(".json") => {
            Model::read(path).map_err(usage)
        }
        Err(unknown) => Err(usage(unknown)),
    }
}

/// The device that is asked for; `None` asks for all.
fn find_device(options: &PlanOptions, common: &Common) -> Result<Option<Device>, Failure> {
    let numbers = &options.numbers;
    let named = match options.device.as_deref() {
        Some("this") => this_machine(numbers, common)?,
        Some(name) => Device::find(name).map_err(usage)?.clone(),
        None => match (numbers.memory_gb, numbers.bandwidth_gbs) {
            (Some(memory_gb), Some(bandwidth_gbs)) => {
                let (name, title) = ("given".to_owned(), "the device as given".to_owned());
                let source = "the command line".to_owned();
                return Ok(Some(Device {
                    name,
                    title,
                    memory_gb,
                    bandwidth_gbs,
                    tflops: numbers.tflops,
                    source,
                }));
            }
            (None, None) if numbers.tflops.is_none() => return Ok(None),
            _ => {
                let remedy = "a device in numbers needs --memory-gb and --bandwidth-gbs, and --tflops for what compute bounds; \
                              or name one with --device";
                return Err(Failure::Usage(remedy.to_owned()));
            }
        },
    };
    Ok(Some(changed(named, numbers)))
}

/// A device with the numbers that were given in place of its own.
fn changed(device: Device, numbers: &NumberOptions) -> Device {
    let mut given = Vec::new();
    for (name, number) in
        [("memory", numbers.memory_gb), ("bandwidth", numbers.bandwidth_gbs), ("arithmetic", numbers.tflops)]
    {
        given.extend(number.map(|_| name));
    }
    let source = match given.as_slice() {
        [] => device.source,
        given => format!("{}; {} as given", device.source, given.join(", ")),
    };
    Device {
        memory_gb: numbers.memory_gb.unwrap_or(device.memory_gb),
        bandwidth_gbs: numbers.bandwidth_gbs.unwrap_or(device.bandwidth_gbs),
        tflops: numbers.tflops.or(device.tflops),
        source,
        ..device
    }
}

/// This machine: its memory as the kernel tells it, its bandwidth measured unless it is given, its arithmetic only if it is.
fn this_machine(numbers: &NumberOptions, common: &Common) -> Result<Device, Failure> {
    let memory_bytes = memory_bytes()?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (bandwidth_gbs, source) = match numbers.bandwidth_gbs {
        Some(given) => (given, "MemTotal of /proc/meminfo".to_owned()),
        None => {
            let line = Progress::new(common.quiet).line("plan");
            line.say("reading memory, to see how fast it is");
            let measured = read_rate(threads, memory_bytes) / 1e9;
            (measured, format!("MemTotal of /proc/meminfo; bandwidth read here by {threads} threads"))
        }
    };
    Ok(Device {
        name: "this".to_owned(),
        title: "this machine".to_owned(),
        memory_gb: memory_bytes as f64 / 1e9,
        bandwidth_gbs,
        tflops: None,
        source,
    })
}

fn memory_bytes() -> Result<u64, Failure> {
    const FILE: &str = "/proc/meminfo";
    let text = fs::read_to_string(FILE).map_err(|error| Failure::Machine(format!("{FILE}: {error}")))?;
    text.lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
        })
        .map(|kib| kib << 10)
        .ok_or_else(|| {
            Failure::Machine(format!("{FILE}: no `MemTotal` in kB; give --memory-gb instead of `this`"))
        })
}

/// Bytes a second that so many threads read together, each from a buffer of its own; together these are larger than caches.
fn read_rate(threads: usize, memory_bytes: u64) -> f64 {
    let all = (threads << 26).max(512 << 20).min(memory_bytes as usize / 4);
    let words = (all / threads / 8).max(1024);
    let start_line = Barrier::new(threads);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(|| reader(words, &start_line))).collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader cannot panic")).sum()
    })
}

fn reader(words: usize, start_line: &Barrier) -> f64 {
    let buffer = vec![1u64; words];
    start_line.wait();
    let start = Instant::now();
    let mut passes = 0;
    while passes < 2 || start.elapsed() < PROBE {
        black_box(sum(black_box(&buffer)));
        passes += 1;
    }
    (passes * words * size_of::<u64>()) as f64 / start.elapsed().as_secs_f64()
}

/// Several accumulators wide, so that latency is hidden.
fn sum(words: &[u64]) -> u64 {
    let mut lanes = [0u64; 32];
    for chunk in words.chunks_exact(32) {
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    }
    lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
}

/// A count; `k` and `M` are 2^10 and 2^20.
fn count(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 10),
        None => text.strip_suffix(['m', 'M']).map_or((text, 0), |digits| (digits, 20)),
    };
    let number: u64 =
        digits.parse().map_err(|_| "a whole number is expected, as 8192, 128k or 1M".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Bug(error.to_string()))
}

fn usage(error: impl std::error::Error) -> Failure {
    Failure::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_end_in_k_and_m() {
        assert_eq!(["8192", "8k", "1M"].map(count), [Ok(8192), Ok(8192), Ok(1 << 20)]);
        assert!(count("many").is_err() && count("18446744073709551615M").is_err() && count("-1").is_err());
    }

    #[test]
    fn a_read_rate_is_positive_and_finite() {
        let rate = read_rate(2, 64 << 20);
        assert!(rate.is_finite() && rate > 0.0);
    }

    #[test]
    fn given_numbers_win_and_are_said() {
        let numbers = NumberOptions { memory_gb: Some(24.0), bandwidth_gbs: None, tflops: None };
        let device = changed(Device::find("h100").expect("known").clone(), &numbers);
        assert_eq!((device.memory_gb, device.bandwidth_gbs), (24.0, 3350.0));
        assert!(device.source.ends_with("; memory as given"), "{}", device.source);
    }
}
