//! What attention rounds, by the instructions that it finds.

use tribunal_kernels::Isa;
use tribunal_kernels::kv_cache::Format;

/// What an instruction set does to the queries and the weights of a format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    /// Whether queries and weights are rounded to bf16.
    pub(crate) to_bf16: bool,
    /// The largest integer of weights that are rounded to integers.
    pub(crate) weight_max: Option<f64>,
}

impl Rounding {
    pub(crate) fn of(format: Format, isa: Isa) -> Rounding {
        #[cfg(target_arch = "x86_64")]
        let (bf16_products, vnni) =
            (is_x86_feature_detected!("avx512bf16"), is_x86_feature_detected!("avx512vnni"));
        #[cfg(not(target_arch = "x86_64"))]
        let (bf16_products, vnni) = (false, false);
        let avx512 = isa == Isa::Avx512;
        let weight_max = match format {
            Format::F32 | Format::F16 | Format::Bf16 => None,
            Format::Int4 if avx512 && vnni => Some(255.0),
            Format::Int8 if avx512 && vnni => Some(65_535.0),
            Format::Int8 | Format::Int4 => Some(32_767.0),
        };
        Rounding { to_bf16: format == Format::Bf16 && avx512 && bf16_products, weight_max }
    }
}
