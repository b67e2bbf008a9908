//! `tribunal board`, `tribunal show`, `tribunal schema`.

use std::io::Write;

use tribunal_board::{StoreError, html, json, junit, markdown, ranking, sarif, terminal};
use tribunal_judge::{SourceFile, Verdict};

use crate::arguments::{
    BoardOptions, Common, Format, SchemaChoice, SchemaOptions, ShowOptions, VerdictFormat,
};
use crate::exit::{Exit, Failure};
use crate::judge::{checkout, store, style, table_style};

pub fn board(options: &BoardOptions, common: &Common) -> Result<Exit, Failure> {
    let (summaries, damaged) =
        store(common)?.summaries().map_err(|error| Failure::Machine(error.to_string()))?;
    for damaged in &damaged {
        anstream::eprintln!("tribunal: skipped {damaged}");
    }
    let summaries = ranking::latest(summaries);
    let mut out = anstream::stdout();
    match options.format {
        Format::Terminal if summaries.is_empty() => writeln!(out, "nothing judged yet: tribunal judge PATH")?,
        Format::Terminal => writeln!(out, "{}", terminal::board(&summaries, &table_style()))?,
        Format::Md => write!(out, "{}", markdown::board(&summaries))?,
        Format::Html => write!(out, "{}", html::board(&summaries))?,
        Format::Json => {
            for summary in &summaries {
                let line = serde_json::to_string(summary).map_err(|error| Failure::Bug(error.to_string()))?;
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(Exit::Accepted)
}

pub fn verdict(options: &ShowOptions, common: &Common) -> Result<Exit, Failure> {
    let verdict = stored(&options.id, common)?;
    let mut out = anstream::stdout();
    match options.format {
        VerdictFormat::Terminal => writeln!(out, "{}", terminal::verdict(&verdict, &style()))?,
        VerdictFormat::Md => write!(out, "{}", markdown::verdict(&verdict))?,
        VerdictFormat::Html => write!(out, "{}", html::verdict(&verdict, &sources(&verdict.id, common)))?,
        VerdictFormat::Json => writeln!(out, "{}", json::line(&verdict))?,
        VerdictFormat::Junit => write!(out, "{}", junit::report(&[verdict]))?,
        VerdictFormat::Sarif => write!(out, "{}", sarif::report(&[verdict], &checkout()))?,
    }
    Ok(Exit::Accepted)
}

/// The source files that were kept with a verdict; none where that cannot be told, since the page stands without.
fn sources(id: &str, common: &Common) -> Vec<SourceFile> {
    store(common).ok().and_then(|store| store.sources(id).ok()).unwrap_or_default()
}

/// The stored verdict whose id begins so.
pub fn stored(prefix: &str, common: &Common) -> Result<Verdict, Failure> {
    store(common)?.get(prefix).map_err(not_got)
}

/// What was asked for is the user's to mend where it is not there, and the machine's where it cannot be read.
pub fn not_got(error: StoreError) -> Failure {
    match error {
        StoreError::NotFound { .. } | StoreError::Ambiguous { .. } => Failure::Usage(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    }
}

pub fn schema(options: &SchemaOptions) -> Result<Exit, Failure> {
    let schema = match options.what {
        SchemaChoice::Verdict => json::schema(),
        SchemaChoice::Plan => tribunal_plan::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(|error| Failure::Bug(error.to_string()))?;
    writeln!(anstream::stdout(), "{text}")?;
    Ok(Exit::Accepted)
}
