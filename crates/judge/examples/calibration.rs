//! Writes `docs/calibration/<challenge>.md`: how well the courts judge. Arguments are the challenges; without any, all.

use std::path::Path;

use tribunal_judge::calibration::{page, powerless, try_honest, try_mutants};
use tribunal_judge::{Challenge, Effort, Seed, challenges};

const SEEDS: u64 = 20;

fn main() -> std::io::Result<()> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    challenges::all()
        .iter()
        .filter(|challenge| asked.is_empty() || asked.iter().any(|id| id == challenge.contract().id))
        .try_for_each(|challenge| write(*challenge))
}

fn write(challenge: &dyn Challenge) -> std::io::Result<()> {
    let seeds: Vec<Seed> = (0..SEEDS).map(|index| Seed(Seed::PUBLIC.0 + index)).collect();
    let honest = try_honest(challenge, Effort::Standard, &seeds);
    let caught = try_mutants(challenge, Effort::Standard, Seed::PUBLIC);
    for accusation in &honest.accusations {
        eprintln!("accused: {accusation:?}");
    }
    for (case, used) in honest.used.iter().filter(|(_, used)| **used > 0.4) {
        eprintln!("honest: {case} {used:.2}");
    }
    for caught in &caught {
        eprintln!(
            "{}: {} cases, {:?} named, misnamed {:?}, unnamed {:?}\n    {}",
            caught.mutant,
            caught.failed.len(),
            caught.failures,
            caught.misnamed,
            caught.unnamed.iter().take(8).collect::<Vec<_>>(),
            caught.message
        );
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/calibration");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(
        folder.join(format!("{}.md", challenge.contract().id)),
        page(challenge, &honest, &caught, seeds.len()),
    )?;
    for caught in
        (1..6).flat_map(|more| try_mutants(challenge, Effort::Standard, Seed(Seed::PUBLIC.0 + more)))
    {
        if !caught.misnamed.is_empty() {
            eprintln!("{} is also called {:?}", caught.mutant, caught.misnamed);
        }
    }
    eprintln!("powerless: {:?}", powerless(challenge, Effort::Standard, Seed::PUBLIC, &caught));
    Ok(())
}
