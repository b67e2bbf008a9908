//! Reading a `config.json` as Hugging Face's transformers write it.

use std::path::Path;

use serde_json::{Map, Value};

use crate::model::{Attention, Extras, Layer, Model, Routed};

/// Why a configuration gives no model.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "{file}: {error}; give a config.json, the folder it is in, or a name from `tribunal plan --list`"
    )]
    Read {
        /// The file.
        file: String,
        /// Why not.
        error: std::io::Error,
    },
    /// Not JSON, or not an object.
    #[error("{file}: not a configuration: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// A key that is needed is not there.
    #[error("{file}: `{key}` is missing: add it, {meaning}")]
    Missing {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// What the key tells.
        meaning: &'static str,
    },
    /// A key has a value that makes no sense.
    #[error("{file}: `{key}` is {value}: it must be {expected}")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        expected: String,
    },
}

/// The types of model whose biases and norms are known. Others are counted like Llama.
const KNOWN_TYPES: [&str; 10] = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "gpt_oss",
    "deepseek_v2",
    "deepseek_v3",
];

/// The largest values accepted; far beyond any model, and small enough that no count of parameters overflows.
mod most {
    pub const LAYERS: u64 = 1 << 10;
    pub const HIDDEN: u64 = 1 << 17;
    pub const INTERMEDIATE: u64 = 1 << 20;
    pub const HEADS: u64 = 1 << 12;
    pub const HEAD_DIM: u64 = 1 << 12;
    pub const RANK: u64 = 1 << 16;
    pub const EXPERTS: u64 = 1 << 12;
    pub const VOCABULARY: u64 = 1 << 24;
    pub const TOKENS: u64 = 1 << 40;
}

impl Model {
    /// Reads a `config.json`, or the one in a folder. The model is named after the folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no JSON object, lacks a key or has a value that makes no sense.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let path = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
        let file = path.display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| ConfigError::Read { file: file.clone(), error })?;
        let folder = path.canonicalize().ok().and_then(|path| {
            let folder = path.parent()?.file_name()?;
            Some(folder.to_string_lossy().into_owned())
        });
        Self::parse(&text, &folder.unwrap_or_else(|| file.clone()), &file)
    }

    /// The model that a configuration's text describes; `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// If the text is no JSON object, lacks a key or has a value that makes no sense.
    pub fn parse(text: &str, name: &str, file: &str) -> Result<Self, ConfigError> {
        let syntax = |why: String| ConfigError::Syntax { file: file.to_owned(), why };
        let value: Value = serde_json::from_str(text).map_err(|error| syntax(error.to_string()))?;
        let map = value.as_object().ok_or_else(|| syntax("a JSON object is expected".to_owned()))?;
        Self::from_keys(map, name, file)
    }

    /// The model that a configuration's keys describe.
    pub(crate) fn from_keys(map: &Map<String, Value>, name: &str, file: &str) -> Result<Self, ConfigError> {
        // Models that also see keep their language part one level down.
        let map = map.get("text_config").and_then(Value::as_object).unwrap_or(map);
        let keys = Keys { map, file };
        let kind = keys.text("model_type")?.unwrap_or("");
        let hidden = keys.required("hidden_size", most::HIDDEN, "the width of the residual stream")?;
        let layers = layers(&keys, kind)?;
        let mut notes = Vec::new();
        if !KNOWN_TYPES.contains(&kind) {
            notes.push(format!(
                "model_type `{kind}` is not known: counted as a decoder like Llama's, with gated MLPs and two norms a layer"
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            source: file.to_owned(),
            hidden,
            vocabulary: keys.required("vocab_size", most::VOCABULARY, "the number of tokens known")?,
            // What transformers assume where the key is missing.
            tied_embeddings: keys.flag("tie_word_embeddings")?.unwrap_or(kind.starts_with("gemma")),
            trained_context: keys.whole("max_position_embeddings", 1, most::TOKENS)?,
            attention: attention(&keys, hidden)?,
            layers,
            extras: extras(&keys, kind)?,
            notes,
        })
    }
}

fn attention(keys: &Keys<'_>, hidden: u64) -> Result<Attention, ConfigError> {
    let heads = keys.required("num_attention_heads", most::HEADS, "the number of query heads")?;
    if let Some(kv_rank) = keys.whole("kv_lora_rank", 1, most::RANK)? {
        let dim = |key| keys.required(key, most::HEAD_DIM, "as latent attention (kv_lora_rank) needs it");
        return Ok(Attention::Latent {
            heads,
            query_rank: keys.whole("q_lora_rank", 1, most::RANK)?,
            kv_rank,
            rope_dim: dim("qk_rope_head_dim")?,
            nope_dim: dim("qk_nope_head_dim")?,
            value_dim: dim("v_head_dim")?,
        });
    }
    let kv_heads = keys.whole("num_key_value_heads", 1, most::HEADS)?.unwrap_or(heads);
    if !heads.is_multiple_of(kv_heads) {
        return Err(keys.wrong("num_key_value_heads", format!("a divisor of num_attention_heads = {heads}")));
    }
    let head_dim = match keys.whole("head_dim", 1, most::HEAD_DIM)? {
        Some(head_dim) => head_dim,
        None if hidden.is_multiple_of(heads) => hidden / heads,
        None => {
            return Err(ConfigError::Missing {
                file: keys.file.to_owned(),
                key: "head_dim",
                meaning: "because hidden_size is no multiple of num_attention_heads",
            });
        }
    };
    Ok(Attention::Grouped { heads, kv_heads, head_dim })
}

fn layers(keys: &Keys<'_>, kind: &str) -> Result<Vec<Layer>, ConfigError> {
    let count = keys.required("num_hidden_layers", most::LAYERS, "the number of layers")?;
    let windows = windows(keys, count)?;
    let experts = experts(keys)?;
    let intermediate = match keys.whole("intermediate_size", 1, most::INTERMEDIATE)? {
        Some(intermediate) => intermediate,
        None if experts.is_some() => 0,
        None => keys.required("intermediate_size", most::INTERMEDIATE, "the width of the MLP")?,
    };
    let shared = shared_intermediate(keys)?;
    let leading = keys.whole("first_k_dense_replace", 0, most::LAYERS)?.unwrap_or(0);
    let every = keys.whole("moe_layer_freq", 1, most::LAYERS)?.unwrap_or(1);
    let step = keys.whole("decoder_sparse_step", 1, most::LAYERS)?.unwrap_or(1);
    let dense_only = keys.whole_list("mlp_only_layers")?;
    let has_experts = |layer: u64| match kind {
        "qwen2_moe" | "qwen3_moe" => (layer + 1).is_multiple_of(step) && !dense_only.contains(&layer),
        _ => layer >= leading && layer.is_multiple_of(every),
    };
    Ok((0..count)
        .zip(windows)
        .map(|(layer, window)| match experts {
            Some(routed) if has_experts(layer) => {
                Layer { window, intermediate: shared, routed: Some(routed) }
            }
            _ => Layer { window, intermediate, routed: None },
        })
        .collect())
}

/// The window of each layer, where it has one.
fn windows(keys: &Keys<'_>, count: u64) -> Result<Vec<Option<u64>>, ConfigError> {
    let window = keys.whole("sliding_window", 1, most::TOKENS)?;
    if let Some(types) = keys.map.get("layer_types").and_then(Value::as_array) {
        if types.len() as u64 != count {
            let expected = format!("a list of num_hidden_layers = {count} entries");
            return Err(keys.wrong("layer_types", expected));
        }
        return types
            .iter()
            .map(|kind| match (kind.as_str(), window) {
                (Some("full_attention"), _) => Ok(None),
                (Some("sliding_attention"), Some(window)) => Ok(Some(window)),
                (Some("sliding_attention"), None) => Err(ConfigError::Missing {
                    file: keys.file.to_owned(),
                    key: "sliding_window",
                    meaning: "because layer_types has sliding_attention",
                }),
                _ => {
                    Err(keys
                        .wrong("layer_types", "full_attention or sliding_attention in each entry".to_owned()))
                }
            })
            .collect();
    }
    let first = match keys.flag("use_sliding_window")? {
        Some(false) => count,
        Some(true) => keys.whole("max_window_layers", 0, most::LAYERS)?.unwrap_or(0),
        None => 0,
    };
    Ok((0..count).map(|layer| window.filter(|_| layer >= first)).collect())
}

fn experts(keys: &Keys<'_>) -> Result<Option<Routed>, ConfigError> {
    let mut experts = None;
    for key in ["num_experts", "num_local_experts", "n_routed_experts"] {
        experts = experts.or(keys.whole(key, 0, most::EXPERTS)?);
    }
    let Some(experts) = experts.filter(|&experts| experts > 0) else { return Ok(None) };
    let per_token =
        keys.required("num_experts_per_tok", most::EXPERTS, "the number of experts that a token goes to")?;
    if per_token > experts {
        return Err(keys.wrong("num_experts_per_tok", format!("at most the number of experts, {experts}")));
    }
    let intermediate = match keys.whole("moe_intermediate_size", 1, most::INTERMEDIATE)? {
        Some(intermediate) => intermediate,
        None => keys.required("intermediate_size", most::INTERMEDIATE, "the width of an expert")?,
    };
    Ok(Some(Routed { experts, per_token, intermediate }))
}

/// The width of all experts together that every token goes to.
fn shared_intermediate(keys: &Keys<'_>) -> Result<u64, ConfigError> {
    if let Some(shared) = keys.whole("shared_expert_intermediate_size", 0, most::INTERMEDIATE)? {
        return Ok(shared);
    }
    match keys.whole("n_shared_experts", 0, most::EXPERTS)?.unwrap_or(0) {
        0 => Ok(0),
        count => {
            let width =
                keys.required("moe_intermediate_size", most::INTERMEDIATE, "the width of an expert")?;
            Ok(count * width)
        }
    }
}

/// What the type of the model says and its configuration does not.
fn extras(keys: &Keys<'_>, kind: &str) -> Result<Extras, ConfigError> {
    let biased = keys.flag("attention_bias")?.unwrap_or(false);
    Ok(Extras {
        qkv_bias: biased || kind.starts_with("qwen2"),
        output_bias: biased,
        mlp_bias: keys.flag("mlp_bias")?.unwrap_or(false),
        qk_norm: kind.starts_with("qwen3"),
        sinks: kind == "gpt_oss",
        expert_bias: kind == "gpt_oss",
        router_bias: matches!(kind, "gpt_oss" | "deepseek_v3"),
    })
}

/// The keys of a configuration, and the file that errors name.
struct Keys<'a> {
    map: &'a Map<String, Value>,
    file: &'a str,
}

impl Keys<'_> {
    /// A key that may be missing or null.
    fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn whole(&self, key: &'static str, least: u64, most: u64) -> Result<Option<u64>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self.wrong(key, format!("a whole number from {least} to {most}"))),
        }
    }

    fn required(&self, key: &'static str, most: u64, meaning: &'static str) -> Result<u64, ConfigError> {
        let missing = || ConfigError::Missing { file: self.file.to_owned(), key, meaning };
        self.whole(key, 1, most)?.ok_or_else(missing)
    }

    fn whole_list(&self, key: &'static str) -> Result<Vec<u64>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let numbers = value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect());
        numbers.ok_or_else(|| self.wrong(key, "a list of whole numbers".to_owned()))
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(key, "true or false".to_owned()))
    }

    fn text(&self, key: &'static str) -> Result<Option<&str>, ConfigError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(key, "a text".to_owned()))
    }

    fn wrong(&self, key: &'static str, expected: String) -> ConfigError {
        let value = self.map.get(key).map_or("missing".to_owned(), |value| shortened(&value.to_string()));
        ConfigError::Value { file: self.file.to_owned(), key, value, expected }
    }
}

fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    if text.chars().count() <= CHARS {
        text.to_owned()
    } else {
        text.chars().take(CHARS).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: &str = r#"{
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000, "rope_scaling": null
    }"#;

    fn parse(text: &str) -> Result<Model, ConfigError> {
        Model::parse(text, "tiny", "tiny/config.json")
    }

    fn message(text: &str) -> String {
        parse(text).expect_err("an error").to_string()
    }

    #[test]
    fn a_head_is_as_wide_as_its_share_unless_said_otherwise() {
        let model = parse(TINY).expect("a model");
        assert_eq!(model.attention, Attention::Grouped { heads: 4, kv_heads: 2, head_dim: 16 });
        let model = parse(&TINY.replace(r#""hidden_size": 64"#, r#""hidden_size": 64, "head_dim": 32"#));
        let attention = model.expect("a model").attention;
        assert_eq!(attention, Attention::Grouped { heads: 4, kv_heads: 2, head_dim: 32 });
    }

    #[test]
    fn errors_name_file_key_and_what_to_do() {
        assert_eq!(
            message(&TINY.replace("hidden_size", "width")),
            "tiny/config.json: `hidden_size` is missing: add it, the width of the residual stream"
        );
        assert_eq!(
            message(&TINY.replace("1000", "\"many\"")),
            "tiny/config.json: `vocab_size` is \"many\": it must be a whole number from 1 to 16777216"
        );
        assert_eq!(
            message(&TINY.replace(r#"heads": 2"#, r#"heads": 3"#)),
            "tiny/config.json: `num_key_value_heads` is 3: it must be a divisor of num_attention_heads = 4"
        );
        assert!(message("[]").contains("a JSON object is expected"));
        assert!(message("{").contains("tiny/config.json: not a configuration: EOF"));
    }

    #[test]
    fn a_missing_file_is_named_with_the_remedy() {
        let error = Model::read(Path::new("/nowhere/config.json")).expect_err("no such file").to_string();
        assert!(error.contains("/nowhere/config.json") && error.contains("--list"), "{error}");
    }

    #[test]
    fn layer_types_say_which_layers_have_a_window() {
        let with = |more: &str| TINY.replace(r#""rope_scaling": null"#, more);
        let types = r#""sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]"#;
        let windows = |text: &str| -> Vec<Option<u64>> {
            parse(text).expect("a model").layers.iter().map(|layer| layer.window).collect()
        };
        assert_eq!(windows(&with(types)), [Some(8), None]);
        assert_eq!(windows(&with(r#""sliding_window": 8"#)), [Some(8), Some(8)]);
        assert_eq!(windows(&with(r#""sliding_window": 8, "use_sliding_window": false"#)), [None, None]);
        let upper = r#""sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1"#;
        assert_eq!(windows(&with(upper)), [None, Some(8)]);
        let linear = types.replace("full", "linear");
        assert!(message(&with(&linear)).contains("full_attention or sliding_attention"));
        assert!(message(&with(r#""layer_types": ["full_attention"]"#)).contains("num_hidden_layers = 2"));
    }

    #[test]
    fn a_language_part_one_level_down_is_found() {
        let nested = format!(r#"{{"model_type": "llava", "text_config": {TINY}}}"#);
        assert_eq!(parse(&nested).expect("a model").hidden, 64);
    }

    #[test]
    fn an_unknown_type_is_counted_like_llama_and_said() {
        let model = parse(&TINY.replace("llama", "hypothetical")).expect("a model");
        assert!(model.notes[0].contains("hypothetical"));
    }
}
