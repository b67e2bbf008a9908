//! Configurations from who wants the plan to fail.

use proptest::prelude::*;
use tribunal_hostile::text;
use tribunal_plan::{BATCH_MAX, CONTEXT_MAX, Device, Model, Plan, Settings, figure, terminal};

const LLAMA: &str = r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
"num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
"tie_word_embeddings": false}"#;
const MIXTURE: &str = r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
"num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
"num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536,
"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280, "num_nextn_predict_layers": 1}"#;
const WINDOWED: &str = r#"{"text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 10240, "vocab_size": 262208,
"sliding_window": 1024, "sliding_window_pattern": 6}}"#;

fn configuration() -> impl Strategy<Value = String> {
    prop_oneof![text(LLAMA), text(MIXTURE), text(WINDOWED)]
}

fn settings() -> impl Strategy<Value = Settings> {
    let extremes = |most: u64| prop_oneof![Just(0), Just(1), Just(most), Just(u64::MAX), 1..=most];
    (extremes(CONTEXT_MAX), extremes(BATCH_MAX), extremes(1 << 20), extremes(1 << 20)).prop_map(
        |(context_tokens, batch_sequences, page_tokens, prefill_chunk_tokens)| Settings {
            context_tokens,
            batch_sequences,
            page_tokens,
            prefill_chunk_tokens,
            ..Settings::default()
        },
    )
}

proptest! {
    #![proptest_config(tribunal_hostile::cases(384))]

    #[test]
    fn a_configuration_is_planned_with_or_refused(text in configuration(), settings in settings()) {
        let model = match Model::parse(&text, "name", "folder/config.json") {
            Ok(model) => model,
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("folder/config.json"), "the file is named: {message}");
                return Ok(());
            }
        };
        for device in [Device::find("h100").unwrap(), Device::known().last().unwrap()] {
            let Ok(plan) = Plan::new(&model, device, settings) else { continue };
            let report = plan.report();
            let json = serde_json::to_value(&report).expect("a report is JSON");
            // What is no number is null in JSON, and reports have none of it where a number belongs.
            prop_assert!(report.decode.seconds > 0.0 && report.decode.seconds.is_finite(), "{json}");
            prop_assert!(report.prefill.seconds > 0.0 && report.prefill.seconds.is_finite(), "{json}");
            let shown = terminal::report(&report, false);
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
            let svg = figure::svg(&plan);
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn the_documents_that_are_changed_are_taken() {
    for text in [LLAMA, MIXTURE, WINDOWED] {
        Model::parse(text, "name", "config.json").unwrap();
    }
}
