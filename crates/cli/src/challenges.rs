//! `tribunal challenges`.

use std::io::Write;

use tribunal_contract::{Challenge, challenges, emit};
use tribunal_judge::Rubric;

use crate::arguments::ChallengesOptions;
use crate::exit::{Exit, Failure};

pub fn run(options: &ChallengesOptions) -> Result<Exit, Failure> {
    let mut out = anstream::stdout();
    match &options.id {
        None => {
            for challenge in challenges::ALL {
                writeln!(out, "{}\n    {}", challenge.id, challenge.summary)?;
            }
        }
        Some(id) => {
            let challenge = find(id)?;
            writeln!(out, "{}", page(challenge)?)?;
        }
    }
    Ok(Exit::Accepted)
}

/// The challenge of that id, or a failure that lists those there are.
pub fn find(id: &str) -> Result<&'static Challenge, Failure> {
    challenges::find(id).ok_or_else(|| {
        let known: Vec<&str> = challenges::ALL.iter().map(|challenge| challenge.id).collect();
        Failure::Usage(format!("no challenge `{id}`; there are: {}", known.join(", ")))
    })
}

/// Prompt, contract and rubric of a challenge, in Markdown.
fn page(challenge: &Challenge) -> Result<String, Failure> {
    let rubric = rubric(challenge.id)?;
    let mut text = format!("{}\n---\n\n{}", prompt(challenge.id), emit::page(challenge));
    text += "\n## Rubric\n\nRequirements:\n\n";
    for requirement in &rubric.requirements {
        text += &format!("- {}\n", requirement.text);
    }
    text += "\nWeights:\n\n";
    for (dimension, weight) in &rubric.weights {
        text += &format!("- {dimension} {weight}\n");
    }
    text += "\nMeasurements, as a ratio to the best possible; the score falls with the logarithm from 100 to 0:\n\n";
    for (name, scale) in &rubric.scales {
        text += &format!("- {name} ({}): 100 at {}, 0 at {}\n", scale.dimension, scale.full, scale.zero);
    }
    let limits = rubric.limits;
    text += &format!(
        "\nLimits: {} s a call, {} s to load, {} s to build, {} MiB beyond the tensors of a call, {} KiB printed.\n",
        limits.call_s,
        limits.load_s,
        limits.build_s,
        limits.memory_bytes >> 20,
        limits.output_bytes >> 10
    );
    Ok(text)
}

/// The rubric of a challenge.
pub fn rubric(id: &str) -> Result<Rubric, Failure> {
    let challenge = tribunal_judge::challenges::find(id)
        .ok_or_else(|| Failure::Bug(format!("challenge {id} has a contract and no court")))?;
    Rubric::parse(challenge.rubric()).map_err(|error| Failure::Bug(format!("challenges/{id}/{error}")))
}

/// The prompt of a challenge.
pub fn prompt(id: &str) -> &'static str {
    match id {
        "fused_softmax_topk" => include_str!("../../../challenges/fused_softmax_topk/PROMPT.md"),
        "kv_cache" => include_str!("../../../challenges/kv_cache/PROMPT.md"),
        "layer_norm_backward" => include_str!("../../../challenges/layer_norm_backward/PROMPT.md"),
        _ => "",
    }
}
