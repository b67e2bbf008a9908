//! Counting parameters.

use crate::model::{Attention, Layer, Model};

/// Parameters of a model, by what they are for.
///
/// With width `h`, `H` query and `K` key-value heads of width `d`, MLP width `i`, vocabulary `V`:
/// embedding `V·h`, head `V·h` unless tied, attention `2·h·H·d + 2·h·K·d`, gated MLP or expert `3·h·i`, router `h·E`,
/// two norms of `h` a layer and one at the end. Latent attention: see [`Attention::Latent`] and DeepSeek-V2, section 2.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parameters {
    /// The table that tokens are looked up in.
    pub embedding: u64,
    /// The matrix that gives logits; 0 where it is the embedding again.
    pub head: u64,
    /// Matrices of attention.
    pub attention: u64,
    /// Matrices of MLPs and of experts that every token goes through.
    pub mlp: u64,
    /// Matrices of experts that a router picks from.
    pub experts: u64,
    /// Biases of those experts.
    pub expert_biases: u64,
    /// Matrices of routers.
    pub routers: u64,
    /// Norms, other biases, sinks.
    pub small: u64,
}

impl Parameters {
    /// Counts them.
    pub fn of(model: &Model) -> Self {
        let table = model.vocabulary * model.hidden;
        let start = Self {
            embedding: table,
            head: if model.tied_embeddings { 0 } else { table },
            small: model.hidden,
            ..Self::default()
        };
        model.layers.iter().fold(start, |sum, layer| sum.plus(Self::of_layer(model, layer)))
    }

    /// All.
    pub fn total(self) -> u64 {
        let Self { embedding, head, attention, mlp, experts, expert_biases, routers, small } = self;
        embedding + head + attention + mlp + experts + expert_biases + routers + small
    }

    /// Those that take part in computing one token: all but idle experts, and the table that it is looked up in.
    pub fn active(self, model: &Model) -> u64 {
        let idle = model.routed().map_or(0, |routed| {
            let of_one = (self.experts + self.expert_biases) / routed.experts;
            of_one * (routed.experts - routed.per_token)
        });
        let looked_up = if model.tied_embeddings { 0 } else { self.embedding };
        self.total() - idle - looked_up
    }

    fn of_layer(model: &Model, layer: &Layer) -> Self {
        let (h, extras) = (model.hidden, model.extras);
        let attention = of_attention(model);
        let gated = |width: u64| 3 * h * width;
        let biases = |width: u64| 2 * width + h;
        let mut sum = Self {
            attention: attention.matrices,
            mlp: gated(layer.intermediate),
            small: 2 * h + attention.small,
            ..Self::default()
        };
        if extras.mlp_bias && layer.intermediate > 0 {
            sum.small += biases(layer.intermediate);
        }
        if let Some(routed) = layer.routed {
            sum.experts = routed.experts * gated(routed.intermediate);
            sum.routers = h * routed.experts;
            if extras.expert_bias {
                sum.expert_biases = routed.experts * biases(routed.intermediate);
            }
            if extras.router_bias {
                sum.small += routed.experts;
            }
        }
        sum
    }

    fn plus(self, other: Self) -> Self {
        Self {
            embedding: self.embedding + other.embedding,
            head: self.head + other.head,
            attention: self.attention + other.attention,
            mlp: self.mlp + other.mlp,
            experts: self.experts + other.experts,
            expert_biases: self.expert_biases + other.expert_biases,
            routers: self.routers + other.routers,
            small: self.small + other.small,
        }
    }
}

struct OfAttention {
    matrices: u64,
    small: u64,
}

fn of_attention(model: &Model) -> OfAttention {
    let (h, extras) = (model.hidden, model.extras);
    match model.attention {
        Attention::Grouped { heads, kv_heads, head_dim } => {
            let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
            let small = [
                (extras.qkv_bias, queries + 2 * keys),
                (extras.output_bias, h),
                (extras.qk_norm, 2 * head_dim),
                (extras.sinks, heads),
            ];
            OfAttention {
                matrices: 2 * h * queries + 2 * h * keys,
                small: small.iter().filter(|(there, _)| *there).map(|(_, count)| count).sum(),
            }
        }
        Attention::Latent { heads, query_rank, kv_rank, rope_dim, nope_dim, value_dim } => {
            let queries = heads * (nope_dim + rope_dim);
            let of_queries = query_rank.map_or(h * queries, |rank| h * rank + rank * queries);
            let of_keys = h * (kv_rank + rope_dim) + kv_rank * heads * (nope_dim + value_dim);
            OfAttention {
                matrices: of_queries + of_keys + heads * value_dim * h,
                small: query_rank.unwrap_or(0) + kv_rank,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(name: &str) -> u64 {
        Parameters::of(Model::find(name).expect("known")).total()
    }

    #[test]
    fn totals_are_those_of_the_published_weights() {
        let published = [
            ("llama-2-7b", 6_738_415_616),
            ("llama-2-13b", 13_015_864_320),
            ("llama-2-70b", 68_976_648_192),
            ("llama-3-8b", 8_030_261_248),
            ("llama-3-70b", 70_553_706_496),
            ("llama-3.1-405b", 405_853_388_800),
            ("mistral-7b-v0.1", 7_241_732_096),
            ("mistral-7b-v0.3", 7_248_023_552),
            ("qwen3-0.6b", 596_049_920),
            ("qwen3-1.7b", 1_720_574_976),
            ("qwen3-4b", 4_022_468_096),
            ("qwen3-8b", 8_190_735_360),
            ("qwen3-14b", 14_768_307_200),
            ("qwen3-32b", 32_762_123_264),
            ("qwen3-30b-a3b", 30_532_122_624),
            ("qwen3-235b-a22b", 235_093_634_560),
            ("gpt-oss-20b", 20_914_757_184),
            ("gpt-oss-120b", 116_829_156_672),
            ("deepseek-v3", 671_026_419_200),
            ("smollm2-135m", 134_515_008),
            ("smollm2-360m", 361_821_120),
            ("smollm2-1.7b", 1_711_376_384),
        ];
        for (name, parameters) in published {
            assert_eq!(total(name), parameters, "{name}");
        }
    }

    #[test]
    fn active_parameters_are_those_of_the_model_cards() {
        // gpt-oss model card (arXiv:2508.10925), table 1: 5.13 B and 3.61 B; DeepSeek-V3 (arXiv:2412.19437): 37 B;
        // Qwen3's names: 3 B and 22 B, with the embedding.
        for (name, billions, tolerance) in [
            ("gpt-oss-120b", 5.13, 0.005),
            ("gpt-oss-20b", 3.61, 0.005),
            ("deepseek-v3", 37.0, 0.5),
            ("qwen3-30b-a3b", 3.0, 0.5),
            ("qwen3-235b-a22b", 22.0, 0.7),
        ] {
            let model = Model::find(name).expect("known");
            let active = Parameters::of(model).active(model) as f64 / 1e9;
            assert!((active - billions).abs() <= tolerance, "{name}: {active}");
        }
    }

    #[test]
    fn a_model_without_experts_is_active_but_for_its_embedding() {
        let model = Model::find("llama-2-7b").expect("known");
        let parameters = Parameters::of(model);
        assert_eq!(parameters.active(model), 6_738_415_616 - 32_000 * 4096);
        let tied = Model::find("smollm2-135m").expect("known");
        assert_eq!(Parameters::of(tied).active(tied), 134_515_008);
    }
}
