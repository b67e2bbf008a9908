//! What this machine can do for the judge, found out by doing it.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::MachineError;
use crate::build;
use crate::cage::{Applied, Attempt, Cage, Tier};
use crate::gpu::{self, Gpu};

/// The state of the cage on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The layers that hold; none if no cage could be closed at all.
    pub cage: Option<Applied>,
    /// What a hostile program inside tried.
    pub attempts: Vec<Attempt>,
    /// Why there is no cage.
    pub trouble: Option<String>,
    /// Processors that the judge may run on.
    pub processors: usize,
}

impl Report {
    /// Whether submissions that nobody trusts can be run here.
    pub fn is_safe(&self) -> bool {
        self.trouble.is_none()
            && self.cage.as_ref().is_some_and(|cage| cage.tier < Tier::D)
            && self.attempts.iter().all(|attempt| attempt.refused)
    }
}

/// Puts a program into a cage, lets it attack the judge, and reports.
pub fn report(cage: &Cage) -> Report {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    match cage.probe() {
        Ok((applied, attempts)) => Report { cage: Some(applied), attempts, trouble: None, processors },
        Err(error) => {
            // What there is can be shown even where it is too little.
            let trusting = Cage { trust: true, ..cage.clone() };
            let partial = match error {
                MachineError::NoCage { .. } => trusting.probe().ok(),
                _ => None,
            };
            let (applied, attempts) = partial.unzip();
            let attempts = attempts.unwrap_or_default();
            Report { cage: applied, attempts, trouble: Some(error.to_string()), processors }
        }
    }
}

/// What this machine has for CUDA.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuda {
    /// The clang that compiles CUDA sources, and its version.
    pub clang: Option<(PathBuf, String)>,
    /// NVIDIA's runtime compiler.
    pub nvrtc: Option<PathBuf>,
    /// The driver of a GPU.
    pub driver: Option<PathBuf>,
    /// The GPU that it drives in a cage.
    pub gpu: Option<gpu::Device>,
    /// Why it drives none there.
    pub trouble: Option<String>,
}

impl Cuda {
    /// Looks for them, and tries the driver in a cage.
    pub fn find(cage: &Cage) -> Self {
        let driver = gpu::driver();
        let tried = driver.as_ref().map(|driver| Gpu::start(cage, driver));
        let (gpu, trouble) = match tried {
            Some(Ok(gpu)) => (Some(gpu.device().clone()), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        Self { clang: build::clang().ok(), nvrtc: build::nvrtc().ok(), driver, gpu, trouble }
    }
}

impl fmt::Display for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CUDA")?;
        match &self.clang {
            Some((program, version)) => writeln!(f, "  clang       {version}, {}", program.display())?,
            None => writeln!(f, "  clang       none that makes PTX: apt install clang-19, or the like")?,
        }
        match &self.nvrtc {
            Some(path) => writeln!(f, "  nvrtc       {}", path.display())?,
            None => writeln!(
                f,
                "  nvrtc       none, and needed only where a manifest asks for it: pip install nvidia-cuda-nvrtc, or set {} to \
                 its library",
                build::NVRTC_VARIABLE
            )?,
        }
        match &self.driver {
            Some(path) => writeln!(f, "  driver      {}", path.display())?,
            None => writeln!(f, "  driver      none: kernels run on the processor, and are not timed")?,
        }
        if let Some(gpu) = &self.gpu {
            writeln!(f, "  gpu         {gpu}")?;
        }
        if let Some(trouble) = &self.trouble {
            writeln!(f, "  gpu         OFF {trouble}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cage) = &self.cage {
            write!(f, "{cage}")?;
        }
        if let Some(trouble) = &self.trouble {
            writeln!(f, "  {trouble}")?;
        }
        match self.processors {
            1 => writeln!(
                f,
                "  processors  1: judge and submission share it; nothing with threads can be timed"
            )?,
            2 => writeln!(
                f,
                "  processors  2: judge and submission share one; timings with threads are noisy here"
            )?,
            count => writeln!(f, "  processors  {count}")?,
        }
        if !self.attempts.is_empty() {
            writeln!(f, "  self-test")?;
            for Attempt { what, refused, outcome } in &self.attempts {
                writeln!(f, "    {} {what}: {outcome}", if *refused { "refused" } else { "ALLOWED" })?;
            }
        }
        Ok(())
    }
}
