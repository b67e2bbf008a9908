//! `tribunal new`.

use std::fs;
use std::io::Write;
use std::path::Path;

use tribunal_contract::{Challenge, challenges, emit};

use crate::arguments::{Common, NewOptions};
use crate::challenges::{find, prompt};
use crate::exit::{Exit, Failure};

pub fn run(options: &NewOptions, common: &Common) -> Result<Exit, Failure> {
    let chosen = match options.challenge.as_str() {
        "all" => challenges::ALL.to_vec(),
        id => vec![find(id)?],
    };
    let folder = Path::new(&options.name);
    let name = folder
        .file_name()
        .and_then(|name| name.to_str())
        .ok_or_else(|| Failure::Usage(format!("`{}` is no name for a folder", options.name)))?;
    let mut out = anstream::stdout();
    for challenge in &chosen {
        let into = if chosen.len() > 1 { folder.join(challenge.id) } else { folder.to_owned() };
        lay_out(challenge, options, name, &into)?;
        writeln!(out, "{}", into.display())?;
    }
    if !common.quiet {
        anstream::eprintln!(
            "Read PROMPT.md and CONTRACT.md there, write your code, then: tribunal judge {}",
            folder.display()
        );
    }
    Ok(Exit::Accepted)
}

fn lay_out(challenge: &Challenge, options: &NewOptions, name: &str, into: &Path) -> Result<(), Failure> {
    if into.exists() && fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Failure::Usage(format!(
            "{} exists and is not empty; nothing was written",
            into.display()
        )));
    }
    let language = options.language.into();
    let files = emit::starter(challenge, language, name);
    let documents = [("PROMPT.md", prompt(challenge.id).to_owned()), ("CONTRACT.md", emit::page(challenge))];
    for (path, text) in files.into_iter().chain(documents) {
        let path = into.join(path);
        let parent = path.parent().expect("a path inside a folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}
