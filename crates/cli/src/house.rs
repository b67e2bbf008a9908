//! Where the project's own specimens lie: the reference is built from there.

use std::path::{Path, PathBuf};

/// The folder of the reference submission of a challenge, or of that in CUDA, where the sources are at hand: at `TRIBUNAL_HOUSE`, above the
/// working folder, above the program, or where the program was built.
pub fn reference(challenge: &str, cuda: bool) -> Option<PathBuf> {
    let name = if cuda { "cuda-reference" } else { "reference" };
    let specimen = Path::new("specimens").join(challenge).join(name);
    candidates().map(|house| house.join(&specimen)).find(|folder| folder.join("tribunal.toml").is_file())
}

/// The project's folder, where its sources are at hand.
pub fn find() -> Option<PathBuf> {
    candidates().find(|house| house.join("specimens").is_dir() && house.join("exploits").is_dir())
}

fn candidates() -> impl Iterator<Item = PathBuf> {
    let working = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    let above = [working, program]
        .into_iter()
        .flatten()
        .flat_map(|path| path.ancestors().map(Path::to_owned).collect::<Vec<_>>());
    std::env::var_os("TRIBUNAL_HOUSE")
        .map(PathBuf::from)
        .into_iter()
        .chain(above)
        .chain([PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))])
}
