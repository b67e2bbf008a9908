//! Plans for a person at a terminal.

use anstyle::Style;
use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use crate::device::Device;
use crate::model::Model;
use crate::parameters::Parameters;
use crate::report::{CacheSummary, Comparison, DeviceChoice, FormatChoice, Limits, ModelSummary, Report};
use crate::settings::Settings;
use crate::speed::Speed;
use crate::units::{binary, gb, rough, seconds, tokens, whole};

/// A rule under the header and no other.
const RULED: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// What stands where a number would be that is not known or has no meaning.
const NONE: &str = "–";

/// How many columns a terminal is expected to have; only a path or an address goes beyond.
const WIDTH: usize = 100;

/// A model on a device, in full. `color` allows ANSI styles; nothing is said by them alone.
pub fn report(report: &Report, color: bool) -> String {
    let page = Page { color };
    let sections = [
        page.head(report),
        page.cache(&report.cache, &report.settings),
        page.memory(report),
        page.growth(report),
        page.paging(report),
        page.speed(report),
        page.formats(&report.formats, &report.settings),
        page.notes(&report.model.notes, &report.settings),
    ];
    sections.join("\n")
}

/// A model on several devices.
pub fn comparison(comparison: &Comparison, color: bool) -> String {
    let page = Page { color };
    let Comparison { model, settings, cache, devices, .. } = comparison;
    let title = format!("{} · {}", model.name, question(settings));
    let rows = devices.iter().map(device_row).collect();
    let table = table(
        &[
            "device",
            "GB",
            "used",
            "fits",
            "longest\ncontext",
            "largest\nbatch",
            "decode\ntokens/s",
            "at that\nbatch",
            "bound\nby",
            "prefill\ntakes",
            "bound\nby",
        ],
        &[0],
        rows,
    );
    let explained = wrapped(
        &format!(
            "used: weights, caches, activations and reserve, in GB; longest context: at batch {}; largest batch: at {} tokens; \
             tokens/s: at most, by bandwidth and arithmetic alone. `--device NAME` tells one in full.",
            whole(settings.batch_sequences),
            whole(settings.context_tokens),
        ),
        "",
    );
    let sections = [
        format!("{}\n{}", page.strong(&title), model_lines(model)),
        page.cache(cache, settings),
        page.section("Devices", &(table + &explained)),
        page.notes(&model.notes, settings),
    ];
    sections.join("\n")
}

/// The models and devices known by name.
pub fn list(color: bool) -> String {
    let page = Page { color };
    let models = Model::known().iter().map(|model| {
        let parameters = Parameters::of(model);
        let settings = Settings::default();
        let bytes = crate::sequence_bytes(model, settings.kv_format, settings.kv_group_elements, 1);
        vec![
            model.name.clone(),
            billions(parameters.total()),
            billions(parameters.active(model)),
            model.layers.len().to_string(),
            binary(bytes),
            model.trained_context.map_or(NONE.to_owned(), tokens),
        ]
    });
    let models = table(
        &["model", "parameters", "active", "layers", "bf16 cache\na token", "context"],
        &[0],
        models.collect(),
    );
    let devices = Device::known().iter().map(|device| {
        vec![
            device.name.clone(),
            device.title.clone(),
            rough(device.memory_gb),
            whole(device.bandwidth_gbs as u64),
            device.tflops.map_or(NONE.to_owned(), rough),
            device.ridge().map_or(NONE.to_owned(), rough),
        ]
    });
    let devices = table(
        &["device", "", "GB", "GB/s", "bf16\nTFLOP/s", "FLOP/byte\nat the ridge"],
        &[0, 1],
        devices.collect(),
    );
    let models = format!(
        "{models}`--model path/to/config.json` takes any other. A plan says where its numbers are from.\n"
    );
    let devices = format!(
        "{devices}`this` is this machine; --memory-gb, --bandwidth-gbs and --tflops describe any other.\n"
    );
    [page.section("Models", &models), page.section("Devices", &devices)].join("\n")
}

struct Page {
    color: bool,
}

impl Page {
    fn strong(&self, text: &str) -> String {
        let style = Style::new().bold();
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn section(&self, title: &str, body: &str) -> String {
        format!("{}\n{body}", self.strong(title))
    }

    fn head(&self, report: &Report) -> String {
        let Report { model, device, settings, .. } = report;
        let title = format!("{} on {} · {}", model.name, device.name, question(settings));
        let arithmetic = device
            .tflops
            .map_or("arithmetic not known".to_owned(), |tflops| format!("{} TFLOP/s in bf16", rough(tflops)));
        format!(
            "{}\n{}{}: {} GB, {} GB/s, {arithmetic}\n  {}\n",
            self.strong(&title),
            model_lines(model),
            device.title,
            rough(device.memory_gb),
            rough(device.bandwidth_gbs),
            device.source,
        )
    }

    fn cache(&self, cache: &CacheSummary, settings: &Settings) -> String {
        let layers: Vec<String> = cache
            .windows
            .iter()
            .map(|summary| match summary.window_tokens {
                Some(window) => format!("{} layers hold the last {} tokens", summary.layers, whole(window)),
                None => format!("{} layers hold all tokens", summary.layers),
            })
            .collect();
        let beyond = if cache.bytes_per_token_beyond_windows == cache.bytes_per_token {
            String::new()
        } else {
            format!(", {} once the windows are full", binary(cache.bytes_per_token_beyond_windows))
        };
        let title = format!(
            "Cache: {} ({} bytes) a token in {}{beyond}",
            binary(cache.bytes_per_token),
            whole(cache.bytes_per_token),
            settings.kv_format.name()
        );
        let rows = cache.formats.iter().map(|format| {
            vec![
                format.kv_format.name().to_owned(),
                format.vector_bytes_formula.clone(),
                whole(format.layer_bytes_per_token),
                whole(format.bytes_per_token),
                gb(format.bytes_per_sequence as f64),
            ]
        });
        let sequence = format!("GB at\n{} tokens", whole(settings.context_tokens));
        let header =
            ["format", "bytes of\nn elements", "bytes a token,\na layer", "all\nlayers", sequence.as_str()];
        let body = wrapped(&layers.join(", "), "") + &table(&header, &[0, 1], rows.collect());
        self.section(&title, &body)
    }

    fn memory(&self, report: &Report) -> String {
        let (memory, settings) = (&report.memory, &report.settings);
        let verdict = if memory.fits {
            "fits".to_owned()
        } else {
            format!("DOES NOT FIT: {} GB too much", gb((memory.total_bytes - memory.device_bytes) as f64))
        };
        let parts = [
            ("weights", memory.weights_bytes, settings.weight_format.name().to_owned()),
            ("caches", memory.cache_bytes, settings.kv_format.name().to_owned()),
            ("activations", memory.activations_bytes, "one step, bf16; logits f32".to_owned()),
            (
                "reserve",
                memory.reserve_bytes,
                format!("{} % of the device", rough(100.0 * settings.reserve_fraction)),
            ),
            ("all", memory.total_bytes, format!("of {} GB", gb(memory.device_bytes as f64))),
        ];
        let rows = parts.map(|(name, bytes, note)| vec![name.to_owned(), gb(bytes as f64), note]);
        let limits = format!(
            "longest context at batch {}: {}\nlargest batch at {} tokens: {}\n",
            whole(settings.batch_sequences),
            longest_context(&report.limits, report.model.trained_context_tokens),
            whole(settings.context_tokens),
            largest_batch(&report.limits),
        );
        let body = table(&["", "GB", ""], &[0, 2], rows.to_vec()) + &limits;
        self.section(&format!("Memory: {verdict}"), &body)
    }

    fn growth(&self, report: &Report) -> String {
        let batches = report.growth.first().map_or(Vec::new(), |growth| growth.batches.clone());
        let names: Vec<String> =
            batches.iter().map(|cell| format!("batch {}", cell.batch_sequences)).collect();
        let header: Vec<&str> = ["context"].into_iter().chain(names.iter().map(String::as_str)).collect();
        let rows = report.growth.iter().map(|growth| {
            let cells = growth.batches.iter().map(|cell| {
                format!("{}{}", gb(cell.cache_bytes as f64), if cell.fits { "  " } else { " ×" })
            });
            [tokens(growth.context_tokens)].into_iter().chain(cells).collect()
        });
        let title = format!("Growth: GB of caches in {} (× does not fit)", report.settings.kv_format.name());
        self.section(&title, &table(&header, &[], rows.collect()))
    }

    fn paging(&self, report: &Report) -> String {
        let paging = &report.paging;
        let share = |fraction: f64| format!("{:.1} %", 100.0 * fraction);
        let rows = vec![
            vec![
                format!("{} tokens reserved", whole(paging.reserved_tokens)),
                rough(paging.contiguous_waste_bytes as f64 / 1e6),
                share(paging.contiguous_waste_fraction),
                whole(paging.contiguous_sequences),
            ],
            vec![
                format!("pages of {} tokens", paging.page_tokens),
                rough(paging.paged_waste_bytes / 1e6),
                share(paging.paged_waste_fraction),
                whole(paging.paged_sequences),
            ],
        ];
        let title = format!("Paging: sequences of {} tokens on average", whole(paging.mean_tokens));
        let header = ["", "MB wasted a sequence", "share", "sequences that fit"];
        self.section(&title, &table(&header, &[0], rows))
    }

    fn speed(&self, report: &Report) -> String {
        let (settings, model) = (&report.settings, &report.model);
        let columns = [("decode, one step", &report.decode), ("prefill, all prompts", &report.prefill)];
        let row = |name: &str, value: &dyn Fn(&Speed) -> String| {
            [name.to_owned()].into_iter().chain(columns.map(|(_, speed)| value(speed))).collect::<Vec<_>>()
        };
        let optional = |number: Option<f64>| number.map_or(NONE.to_owned(), rough);
        let rows = vec![
            row("tokens", &|speed| whole(speed.tokens as u64)),
            row("GB of weights", &|speed| gb(speed.weights_bytes)),
            row("GB of caches", &|speed| gb(speed.cache_bytes)),
            row("MB a token", &|speed| rough(speed.bytes_per_token / 1e6)),
            row("GFLOP a token", &|speed| rough(speed.flops_per_token / 1e9)),
            row("FLOP a byte", &|speed| rough(speed.intensity_flops_per_byte)),
            row("ridge, FLOP a byte", &|speed| optional(speed.ridge_flops_per_byte)),
            row("tokens/s by bandwidth", &|speed| rough(speed.tokens_per_s_by_bandwidth)),
            row("tokens/s by compute", &|speed| optional(speed.tokens_per_s_by_compute)),
            row("tokens/s at most", &|speed| rough(speed.tokens_per_s_ceiling)),
            row("takes at least", &|speed| seconds(speed.seconds)),
            row("bound by", &|speed| speed.bound.map_or("not known", |bound| bound.name()).to_owned()),
        ];
        let header: Vec<&str> = [""].into_iter().chain(columns.map(|(name, _)| name)).collect();
        let mut body = table(&header, &[0], rows);
        if model.experts > 0 {
            let picked = |tokens| crate::expected_experts(model.experts, model.experts_per_token, tokens);
            let read = format!(
                "experts read in a layer: {} of {} in a decode step, expected as if every token picked at random",
                rough(picked(report.decode.tokens)),
                model.experts
            );
            body += &wrapped(&read, "");
        }
        let title = format!(
            "Speed at most: {} tokens, batch {}",
            whole(settings.context_tokens),
            whole(settings.batch_sequences)
        );
        self.section(&title, &body)
    }

    fn formats(&self, formats: &[FormatChoice], settings: &Settings) -> String {
        let rows = formats.iter().map(|choice| {
            vec![
                choice.weight_format.name().to_owned(),
                choice.kv_format.name().to_owned(),
                gb(choice.weights_bytes as f64),
                whole(choice.cache_bytes_per_token),
                context_cell(&choice.limits),
                batch_cell(&choice.limits),
                choice.decode_tokens_per_s_ceiling.map_or(NONE.to_owned(), rough),
                choice.limits.largest_batch_decode_tokens_per_s.map_or(NONE.to_owned(), rough),
            ]
        });
        let header = [
            "weights",
            "cache",
            "weights\nGB",
            "bytes\na token",
            "longest\ncontext",
            "largest\nbatch",
            "decode\ntokens/s",
            "at that\nbatch",
        ];
        let title = format!(
            "Formats: longest context at batch {}, largest batch at {} tokens",
            whole(settings.batch_sequences),
            whole(settings.context_tokens)
        );
        self.section(&title, &table(&header, &[0, 1], rows.collect()))
    }

    fn notes(&self, notes: &[String], settings: &Settings) -> String {
        let counted = [
            "GB is 1e9 bytes. Speeds are ceilings: memory and arithmetic at their peaks, perfectly overlapped, nothing else \
             counted."
                .to_owned(),
            format!(
                "Activations: {} tokens of prompts in a step at most, one layer's buffers at a time, no matrix of scores.",
                whole(settings.prefill_chunk_tokens)
            ),
            "int8 and int4 weights: matrices in the layers, an f16 scale per 128; the rest stays in bf16. mxfp4: experts where \
             there are any."
                .to_owned(),
            format!(
                "int8 and int4 caches: an f16 scale per {} elements of a head. Arithmetic is in bf16 with any format.",
                settings.kv_group_elements
            ),
        ];
        let body: String =
            notes.iter().chain(&counted).map(|note| wrapped(&format!("- {note}"), "  ")).collect();
        self.section("Counted", &body)
    }
}

fn question(settings: &Settings) -> String {
    format!(
        "{} weights, {} cache, {} tokens, batch {}",
        settings.weight_format.name(),
        settings.kv_format.name(),
        whole(settings.context_tokens),
        whole(settings.batch_sequences)
    )
}

/// What it is, and where its numbers are from.
fn model_lines(model: &ModelSummary) -> String {
    let active = if model.experts > 0 {
        format!(
            ", {} active ({} of {} experts a token)",
            billions(model.active_parameters),
            model.experts_per_token,
            model.experts
        )
    } else {
        String::new()
    };
    let trained = model
        .trained_context_tokens
        .map_or(String::new(), |context| format!(", made for {} tokens", whole(context)));
    let parameters = billions(model.parameters);
    format!("{parameters} parameters{active}, {} layers{trained}\n  {}\n", model.layers, model.source)
}

fn billions(parameters: u64) -> String {
    format!("{:.2} B", parameters as f64 / 1e9)
}

fn longest_context(limits: &Limits, trained: Option<u64>) -> String {
    let longest = limits.longest_context_tokens;
    match trained {
        _ if longest == 0 => "none, the weights leave no room".to_owned(),
        _ if !limits.memory_limits_context => "not limited by memory: every layer has a window".to_owned(),
        Some(trained) if trained < longest => {
            format!("{} tokens ({} are what the model was made for)", whole(longest), whole(trained))
        }
        _ => format!("{} tokens", whole(longest)),
    }
}

fn largest_batch(limits: &Limits) -> String {
    match limits.largest_batch_decode_tokens_per_s {
        None => "none, not one sequence fits".to_owned(),
        Some(speed) => {
            let more = if limits.batch_is_unlimited() { " or more" } else { "" };
            let batch = whole(limits.largest_batch_sequences);
            format!("{batch}{more}, which decodes at most {} tokens/s", rough(speed))
        }
    }
}

fn context_cell(limits: &Limits) -> String {
    match limits.longest_context_tokens {
        0 => NONE.to_owned(),
        _ if !limits.memory_limits_context => "any".to_owned(),
        longest => whole(longest),
    }
}

fn batch_cell(limits: &Limits) -> String {
    if limits.largest_batch_sequences == 0 { NONE.to_owned() } else { whole(limits.largest_batch_sequences) }
}

fn device_row(choice: &DeviceChoice) -> Vec<String> {
    let fitting = |text: String| if choice.memory.fits { text } else { NONE.to_owned() };
    let bound = |bound: Option<crate::Bound>| bound.map_or(NONE, |bound| bound.name()).to_owned();
    vec![
        choice.device.name.clone(),
        rough(choice.device.memory_gb),
        gb(choice.memory.total_bytes as f64),
        if choice.memory.fits { "yes" } else { "no" }.to_owned(),
        context_cell(&choice.limits),
        batch_cell(&choice.limits),
        fitting(rough(choice.decode.tokens_per_s_ceiling)),
        choice.limits.largest_batch_decode_tokens_per_s.map_or(NONE.to_owned(), rough),
        fitting(bound(choice.decode.bound)),
        fitting(seconds(choice.prefill_seconds)),
        fitting(bound(choice.prefill_bound)),
    ]
}

/// A text in lines of at most [`WIDTH`] columns, those after the first behind an indent; longer words are left whole.
fn wrapped(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let len = word.chars().count();
        if column == 0 {
            column = len;
        } else if column + 1 + len <= WIDTH {
            lines.push(' ');
            column += 1 + len;
        } else {
            lines += "\n";
            lines += indent;
            column = indent.len() + len;
        }
        lines += word;
    }
    lines + "\n"
}

/// A table with a rule under its header, whose lines end together; columns are aligned to the right but for those named.
fn table(header: &[&str], left: &[usize], rows: Vec<Vec<String>>) -> String {
    let align = |index: usize, text: &str| {
        let side = if left.contains(&index) { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    let cells = |texts: &[&str]| -> Vec<Cell> {
        texts.iter().enumerate().map(|(index, text)| align(index, text)).collect()
    };
    let mut table = Table::new();
    let lines = header.iter().map(|text| text.lines().count()).max().unwrap_or(0);
    let lowered = |text: &&str| "\n".repeat(lines.saturating_sub(text.lines().count().max(1))) + text;
    let header: Vec<String> = header.iter().map(lowered).collect();
    table.load_style(RULED).set_header(cells(&header.iter().map(String::as_str).collect::<Vec<_>>()));
    for row in &rows {
        table.add_row(cells(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, u16::from(index + 1 < header.len())));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KvFormat, Plan, WeightFormat};

    fn of(model: &str, device: &str, settings: Settings) -> String {
        let (model, device) = (Model::find(model).expect("known"), Device::find(device).expect("known"));
        report(&Plan::new(model, device, settings).expect("in range").report(), false)
    }

    #[test]
    fn a_model_that_fits() {
        insta::assert_snapshot!(of("llama-3-8b", "h100", Settings::default()));
    }

    #[test]
    fn a_mixture_with_windows() {
        let settings = Settings {
            weight_format: WeightFormat::Mxfp4,
            kv_format: KvFormat::Int8,
            context_tokens: 131_072,
            batch_sequences: 8,
            ..Settings::default()
        };
        insta::assert_snapshot!(of("gpt-oss-120b", "h100", settings));
    }

    #[test]
    fn a_model_that_does_not_fit() {
        let text = of("llama-3.1-405b", "rtx-4090", Settings::default());
        assert!(text.contains("DOES NOT FIT") && text.contains("none, the weights leave no room"), "{text}");
    }

    #[test]
    fn a_model_on_all_devices() {
        let model = Model::find("qwen3-32b").expect("known");
        let of = Comparison::of(model, Device::known(), Settings::default()).expect("in range");
        insta::assert_snapshot!(comparison(&of, false));
    }

    /// With contexts and batches of the usual sizes, on the known devices.
    #[test]
    fn nothing_is_wider_than_100_columns() {
        let narrow = |text: &str| {
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
        };
        narrow(&list(false));
        for model in Model::known() {
            for (context_tokens, batch_sequences) in [(1, 1), (8192, 1), (1 << 20, 256)] {
                let settings = Settings { context_tokens, batch_sequences, ..Settings::default() };
                let known = Device::known();
                narrow(&comparison(&Comparison::of(model, known, settings).expect("in range"), false));
                for device in known {
                    narrow(&report(&Plan::new(model, device, settings).expect("in range").report(), false));
                }
            }
        }
    }

    #[test]
    fn colour_changes_nothing_but_the_style() {
        let model = Model::find("qwen3-8b").expect("known");
        let device = Device::find("h200").expect("known");
        let of = Plan::new(model, device, Settings::default()).expect("in range").report();
        let coloured = report(&of, true).replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
        assert_eq!(coloured, report(&of, false));
    }

    #[test]
    fn the_list_names_everything() {
        let text = list(false);
        for name in Model::known().iter().map(|m| &m.name).chain(Device::known().iter().map(|d| &d.name)) {
            assert!(text.contains(name.as_str()), "{name}");
        }
    }
}
