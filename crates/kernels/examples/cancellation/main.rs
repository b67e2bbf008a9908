//! Writes `docs/figures/cancellation.svg`: what one-pass and two-pass variance return as the mean grows.
//!
//! ```text
//! cargo run -p tribunal-kernels --example cancellation
//! ```

mod figure;

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures/cancellation.svg");
    std::fs::write(path, figure::svg())?;
    println!("wrote {path}");
    Ok(())
}
