//! A model, as far as its memory and speed depend on it.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::names::{self, UnknownName};

/// A decoder: an embedding, layers of attention and MLP, a head.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Where its numbers are from.
    pub source: String,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Number of tokens known.
    pub vocabulary: u64,
    /// Whether the head is the embedding table again.
    pub tied_embeddings: bool,
    /// The context it was made for, in tokens, where it is known.
    pub trained_context: Option<u64>,
    /// The attention of every layer.
    pub attention: Attention,
    /// The layers, first to last.
    pub layers: Vec<Layer>,
    /// What else has parameters.
    pub extras: Extras,
    /// What had to be assumed.
    pub notes: Vec<String>,
}

/// What attention keeps per token, and computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attention {
    /// Multi-head, grouped-query or multi-query attention, by the number of key-value heads.
    Grouped {
        /// Query heads.
        heads: u64,
        /// Heads of keys and values; each serves `heads / kv_heads` query heads.
        kv_heads: u64,
        /// Width of a head.
        head_dim: u64,
    },
    /// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): all heads share one compressed vector per token, and one key with its
    /// position.
    Latent {
        /// Heads.
        heads: u64,
        /// Width that queries are compressed to, where they are.
        query_rank: Option<u64>,
        /// Width of the compressed keys and values.
        kv_rank: u64,
        /// Width of the part of a key that has a position.
        rope_dim: u64,
        /// Width of the part of a key that has none.
        nope_dim: u64,
        /// Width of a head's value.
        value_dim: u64,
    },
}

/// One layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// The last tokens it attends to, the query's own among them; all where it is `None`.
    pub window: Option<u64>,
    /// Width of the gated MLP that every token goes through, shared experts together; 0 if there is none.
    pub intermediate: u64,
    /// Experts that a router picks from.
    pub routed: Option<Routed>,
}

/// Experts behind a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed {
    /// How many there are.
    pub experts: u64,
    /// How many a token goes to.
    pub per_token: u64,
    /// Width of one.
    pub intermediate: u64,
}

/// Parameters beside the matrices; few, but a count is right or wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// Biases of queries, keys and values.
    pub qkv_bias: bool,
    /// Bias of attention's output.
    pub output_bias: bool,
    /// Biases of the MLP's three matrices.
    pub mlp_bias: bool,
    /// Norms of queries and keys, one weight per element of a head.
    pub qk_norm: bool,
    /// One learned logit per head that takes attention away from the tokens.
    pub sinks: bool,
    /// Biases of the experts' three matrices.
    pub expert_bias: bool,
    /// One bias per expert in the router.
    pub router_bias: bool,
}

impl Model {
    /// The models known by name.
    pub fn known() -> &'static [Self] {
        static KNOWN: LazyLock<Vec<Model>> = LazyLock::new(|| {
            let tables: Value = toml::from_str(include_str!("models.toml")).expect("models.toml is TOML");
            let tables = tables["model"].as_array().expect("models.toml has models");
            tables.iter().map(|table| built_in(table.as_object().expect("a table"))).collect()
        });
        &KNOWN
    }

    /// The model of that name; case and punctuation do not matter.
    ///
    /// # Errors
    ///
    /// If there is none, with the names nearest to it.
    pub fn find(name: &str) -> Result<&'static Self, UnknownName> {
        let known = Self::known();
        let names: Vec<&str> = known.iter().map(|model| model.name.as_str()).collect();
        names::position(name, &names).map(|index| &known[index]).ok_or_else(|| UnknownName {
            kind: "model",
            wanted: name.to_owned(),
            near: names::near(name, &names),
            remedy: "and `--model path/to/config.json` takes any other",
        })
    }

    /// Tokens held by the caches of all layers for a sequence of `context` tokens: `Σ min(context, window)`.
    pub fn tokens_held(&self, context: u64) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.held(context)))
    }

    /// The experts behind a router, where there are any; they are the same in every layer that has them.
    pub fn routed(&self) -> Option<Routed> {
        self.layers.iter().find_map(|layer| layer.routed)
    }
}

impl Layer {
    /// Tokens that its cache holds for a sequence of `context` tokens.
    pub fn held(&self, context: u64) -> u64 {
        self.window.map_or(context, |window| window.min(context))
    }
}

fn built_in(table: &Map<String, Value>) -> Model {
    let text = |key: &str| table[key].as_str().expect("a text").to_owned();
    let name = text("name");
    let model =
        Model::from_keys(table, &name, "models.toml").unwrap_or_else(|error| panic!("{name}: {error}"));
    Model { source: text("source"), ..model }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_model_is_found_by_its_name_and_has_a_source() {
        for model in Model::known() {
            assert_eq!(Model::find(&model.name).expect("known"), model);
            assert!(model.source.starts_with("https://") && model.trained_context.is_some());
            assert!(model.notes.is_empty(), "{}: {:?}", model.name, model.notes);
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_its_neighbours_and_the_way_out() {
        let error = Model::find("lama-3-8b").expect_err("unknown").to_string();
        assert!(error.contains("llama-3-8b") && error.contains("config.json"), "{error}");
    }

    #[test]
    fn half_the_layers_of_gpt_oss_hold_128_tokens() {
        let model = Model::find("gpt-oss-20b").expect("known");
        assert_eq!(model.tokens_held(100), 24 * 100);
        assert_eq!(model.tokens_held(10_000), 12 * 10_000 + 12 * 128);
    }
}
