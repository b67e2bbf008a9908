//! What scripts rely on in `tribunal plan`.

mod support;

use std::fs;

use serde_json::Value;
use support::Tribunal;

fn json(tribunal: &Tribunal, arguments: &[&str]) -> Value {
    let output = tribunal.run(["plan", "--json"].iter().chain(arguments));
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
    serde_json::from_str(&output.stdout).expect("one JSON document")
}

#[test]
fn a_report_is_one_json_document_that_its_schema_describes() {
    let tribunal = Tribunal::new();
    let printed = tribunal.run(["schema", "plan"]).stdout;
    let schema: Value = serde_json::from_str(&printed).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for model in ["llama-3-8b", "gpt-oss-120b", "deepseek-v3"] {
        let report =
            json(&tribunal, &["--model", model, "--device", "h100", "--context", "128k", "--batch", "4"]);
        assert!(schema.is_valid(&report), "{model}");
        assert_eq!(report["settings"]["context_tokens"], 131_072);
    }
}

#[test]
fn published_numbers_come_out_of_the_command_line() {
    let tribunal = Tribunal::new();
    let llama =
        json(&tribunal, &["--model", "Llama-2-7B", "--device", "a100-80", "--context", "4k", "--kv", "f16"]);
    assert_eq!(llama["cache"]["bytes_per_token"], 512 << 10);
    assert_eq!(llama["memory"]["cache_bytes"], 2u64 << 30);
    assert_eq!(llama["model"]["parameters"], 6_738_415_616u64);
    let deepseek = json(&tribunal, &["--model", "deepseek-v3"]);
    assert_eq!(deepseek["cache"]["bytes_per_token"], 70_272);
    assert_eq!(deepseek["schema"], "tribunal.plan-devices/1");
}

#[test]
fn a_configuration_gives_what_the_model_of_that_name_gives() {
    let tribunal = Tribunal::new();
    let config = r#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": false}"#;
    fs::create_dir(tribunal.folder().join("mine")).expect("a folder");
    fs::write(tribunal.folder().join("mine/config.json"), config).expect("a file");
    let known = json(&tribunal, &["--model", "llama-3-8b", "--device", "h100"]);
    for path in ["mine/config.json", "mine", "./mine"] {
        let read = json(&tribunal, &["--model", path, "--device", "h100"]);
        assert_eq!(read["model"]["name"], "mine");
        assert_eq!(read["memory"], known["memory"]);
        assert_eq!(read["decode"], known["decode"]);
    }
    fs::write(tribunal.folder().join("mine/config.json"), config.replace("vocab_size", "words"))
        .expect("a file");
    let broken = tribunal.run(["plan", "--model", "mine"]);
    assert_eq!(broken.code, 2);
    assert!(broken.stderr.contains("mine/config.json: `vocab_size` is missing"), "{}", broken.stderr);
}

#[test]
fn unknown_names_are_answered_with_near_ones_and_the_way_out() {
    let tribunal = Tribunal::new();
    let model = tribunal.run(["plan", "--model", "lama-3-8b"]);
    assert!(model.code == 2 && model.stderr.contains("llama-3-8b"), "{}", model.stderr);
    assert!(model.stderr.contains("config.json"), "{}", model.stderr);
    let device = tribunal.run(["plan", "--model", "llama-3-8b", "--device", "h10"]);
    assert!(device.code == 2 && device.stderr.contains("h100"), "{}", device.stderr);
    assert!(device.stderr.contains("--memory-gb"), "{}", device.stderr);
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    let tribunal = Tribunal::new();
    let cases: [(&[&str], &str); 8] = [
        (&[], "--model"),
        (&["--model", "llama-3-8b", "--context", "0"], "the context is 0"),
        (&["--model", "llama-3-8b", "--kv", "fp7"], "there are: f32"),
        (&["--model", "llama-3-8b", "--reserve", "1.5"], "the reserve is 1.5"),
        (&["--model", "llama-3-8b", "--memory-gb", "24"], "--bandwidth-gbs"),
        (&["--model", "llama-3-8b", "--memory-gb", "0", "--bandwidth-gbs", "9"], "the memory, in GB, is 0"),
        (&["--model", "llama-3-8b", "--figure", "out.svg"], "--device"),
        (&["--model", "nowhere/config.json"], "nowhere/config.json"),
    ];
    for (arguments, words) in cases {
        let output = tribunal.run(["plan"].iter().chain(arguments));
        assert_eq!(output.code, 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
}

#[test]
fn a_device_may_be_given_in_numbers() {
    let tribunal = Tribunal::new();
    let arguments =
        ["--model", "llama-3-8b", "--memory-gb", "80", "--bandwidth-gbs", "3350", "--tflops", "989"];
    let (given, named) =
        (json(&tribunal, &arguments), json(&tribunal, &["--model", "llama-3-8b", "--device", "h100"]));
    assert_eq!(given["decode"], named["decode"]);
    assert_eq!(given["limits"], named["limits"]);
    let without = json(&tribunal, &arguments[..6]);
    assert_eq!(without["decode"]["bound"], Value::Null);
}

#[test]
fn this_machine_has_memory_and_a_bandwidth() {
    let tribunal = Tribunal::new();
    let report = json(&tribunal, &["--model", "smollm2-135m", "--device", "this", "--context", "1k"]);
    assert!(
        report["device"]["bandwidth_gbs"].as_f64().is_some_and(|rate| rate > 0.1),
        "{}",
        report["device"]
    );
    assert!(report["device"]["source"].as_str().is_some_and(|source| source.contains("/proc/meminfo")));
}

#[test]
fn the_figure_is_written_where_it_is_asked_for() {
    let tribunal = Tribunal::new();
    let output = tribunal.run(["plan", "--model", "qwen3-8b", "--device", "h100", "--figure", "out.svg"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let svg = fs::read_to_string(tribunal.folder().join("out.svg")).expect("a figure");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn the_list_has_models_and_devices() {
    let list = Tribunal::new().run(["plan", "--list"]);
    assert_eq!(list.code, 0);
    for name in ["llama-3-8b", "qwen3-235b-a22b", "rtx-4090", "mi300x"] {
        assert!(list.stdout.contains(name), "{name}");
    }
}
