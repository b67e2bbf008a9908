//! `tribunal new`.

use std::fs;
use std::io::Write;
use std::path::Path;

use tribunal_contract::{Challenge, Language, challenges, emit};

use crate::arguments::{Common, NewOptions};
use crate::challenges::{find, prompt};
use crate::exit::{Exit, Failure};

/// What a submission in CUDA looks like.
const CUDA: &str = include_str!("../../../docs/cuda.md");

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
        let documents = match options.language.into() {
            Language::Cuda => "PROMPT.md, CONTRACT.md and CUDA.md",
            _ => "PROMPT.md and CONTRACT.md",
        };
        anstream::eprintln!(
            "Read {documents} there, write your code, then: tribunal judge {}",
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
    let mut documents =
        vec![("PROMPT.md", prompt(challenge.id).to_owned()), ("CONTRACT.md", emit::page(challenge))];
    if language == Language::Cuda {
        documents.push(("CUDA.md", without_links(CUDA)));
    }
    for (path, text) in files.into_iter().chain(documents) {
        let path = into.join(path);
        let parent = path.parent().expect("a path inside a folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| Failure::Machine(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Markdown whose links to files, which lie elsewhere, are their words alone. Those to a heading stay.
fn without_links(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(middle) = rest.find("](") {
        let (before, link) = rest.split_at(middle);
        let target = &link[2..];
        match (before.rfind('['), target.find(')')) {
            (Some(start), Some(end)) if !target.starts_with('#') => {
                text += &before[..start];
                text += &before[start + 1..];
                rest = &target[end + 1..];
            }
            _ => {
                text += before;
                text += "](";
                rest = target;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_what_lies_elsewhere_are_words() {
        let text = "See [`single.h`](../a/single.h), [above](#above) and a[1] (b). [x](y.md)";
        assert_eq!(without_links(text), "See `single.h`, [above](#above) and a[1] (b). x");
        assert!(!without_links(CUDA).contains("](."));
    }
}
