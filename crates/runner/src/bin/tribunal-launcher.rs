//! A launcher for programs that cannot be one themselves, such as a test harness.

fn main() {
    tribunal_runner::enter();
    eprintln!("tribunal-launcher is started by tribunal and does nothing by itself");
    std::process::exit(2);
}
