//! `tribunal`: flags, progress, exit codes. Everything else lives in the libraries.

mod arguments;
mod bench;
mod challenges;
mod clerk;
mod compare;
mod corpus;
mod exit;
mod house;
mod judge;
mod machine;
mod new;
mod plan;
mod progress;
mod replay;
mod rescore;
mod review;
mod serve;
mod show;
mod store;
mod transfer;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser;
use tribunal_board::clean;

use arguments::{Arguments, Command};
use exit::{Exit, Failure};

fn main() -> ExitCode {
    // A judge starts its cages and hosts as copies of itself.
    tribunal_runner::enter();
    tribunal_judge::enter();
    std::panic::set_hook(Box::new(tell_bug));
    let arguments = Arguments::parse();
    arguments.common.color.write_global();
    match run(&arguments) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !matches!(failure, Failure::BrokenPipe) {
                anstream::eprintln!("tribunal: {failure}");
            }
            ExitCode::from(failure.code())
        }
    }
}

/// As the standard hook, but for what a bug quotes of a submission, which is cleaned as it is anywhere else.
fn tell_bug(bug: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let backtrace = match backtrace.status() {
        BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    anstream::eprintln!("tribunal: {}{backtrace}", clean::line(&bug.to_string()));
}

fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let common = &arguments.common;
    match &arguments.command {
        Command::Judge(options) => judge::run(options, common),
        Command::Board(options) => show::board(options, common),
        Command::Compare(options) => compare::run(options, common),
        Command::Review(options) => review::run(options, common),
        Command::Serve(options) => serve::run(options, common),
        Command::Show(options) => show::verdict(options, common),
        Command::Replay(options) => replay::run(options, common),
        Command::New(options) => new::run(options, common),
        Command::Challenges(options) => challenges::run(options),
        Command::Bench(options) => bench::run(options, common),
        Command::Plan(options) => plan::run(options, common),
        Command::Calibrate => machine::calibrate(common),
        Command::Doctor(options) => machine::doctor(options, common),
        Command::Schema(options) => show::schema(options),
        Command::Export(options) => transfer::export(options, common),
        Command::Import(options) => transfer::import(options, common),
        Command::Rescore(options) => rescore::run(options, common),
    }
}
