//! `tribunal board`, `tribunal show`, `tribunal schema`.

use std::io::Write;

use tribunal_board::{html, json, junit, markdown, ranking, sarif, terminal};

use crate::arguments::{
    BoardOptions, Common, Format, SchemaChoice, SchemaOptions, ShowOptions, VerdictFormat,
};
use crate::exit::{Exit, Failure};
use crate::judge::{checkout, style, table_style};
use crate::store::{self, not_got};

pub fn board(options: &BoardOptions, common: &Common) -> Result<Exit, Failure> {
    let (summaries, damaged) = match store::existing(common)? {
        Some(store) => store.summaries().map_err(not_got)?,
        None => Default::default(),
    };
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
    let store = store::to_read(common)?;
    let verdict = store.get(&options.id).map_err(not_got)?;
    let mut out = anstream::stdout();
    match options.format {
        VerdictFormat::Terminal => {
            let verdict = store::with_commands(&verdict, common);
            writeln!(out, "{}", terminal::verdict(&verdict, &style()))?;
        }
        VerdictFormat::Md => write!(out, "{}", markdown::verdict(&verdict))?,
        VerdictFormat::Html => {
            // The page stands without them.
            let sources = store.sources(&verdict.id).unwrap_or_default();
            write!(out, "{}", html::verdict(&verdict, &sources))?;
        }
        VerdictFormat::Json => writeln!(out, "{}", json::line(&verdict))?,
        VerdictFormat::Junit => write!(out, "{}", junit::report(&[verdict]))?,
        VerdictFormat::Sarif => write!(out, "{}", sarif::report(&[verdict], &checkout()))?,
    }
    Ok(Exit::Accepted)
}

pub fn schema(options: &SchemaOptions) -> Result<Exit, Failure> {
    let schema = match options.what {
        SchemaChoice::Verdict => json::schema(),
        SchemaChoice::Plan => tribunal_plan::schema(),
        SchemaChoice::Review => tribunal_review::schema(),
    };
    let text = serde_json::to_string_pretty(&schema).map_err(|error| Failure::Bug(error.to_string()))?;
    writeln!(anstream::stdout(), "{text}")?;
    Ok(Exit::Accepted)
}
