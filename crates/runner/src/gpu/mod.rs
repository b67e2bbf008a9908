//! A GPU, for the time that kernels take on it.
//!
//! The driver is loaded by a host of ours, in a cage: it compiles PTX that nobody trusts, and kernels reach all memory of their process on the
//! device. So a submission has a host of its own, and so has whatever it is compared with.
//!
//! Calls are laid out first, each in buffers of its own with contents of its own, and then run one right after the other: the cache is emptied before the
//! first, and what the next one reads is not in it. Two clocks see a run: events on the device, and the judge's clock, which the kernels cannot
//! reach. [`Ran`] has both.

pub(crate) mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use tribunal_contract::launch::Plan;
use tribunal_contract::{Argument, Call, Fault, StateId, Tensor};

use crate::arena::{Access, Shared, Slot, lay_out, roomy};
use crate::cage::{Applied, Cage, Caged, Ended, Limits, Policy, Profile, clean};
use crate::wire::{Link, PROTOCOL, Received, fixed};
use crate::{MachineError, Trouble, host};
use wire::{FromGpu, Queue, ToGpu, What};

/// Names the driver's library, where it is in none of the usual places. Empty: no GPU is used.
pub const DRIVER_VARIABLE: &str = "TRIBUNAL_CUDA_DRIVER";

/// Folders in which a GPU's driver is found.
const DRIVER_FOLDERS: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
];

/// Seconds for the driver to start, or to compile PTX; tenths to some seconds are usual.
const START_S: f64 = 60.0;
/// Most bytes that the driver may make of PTX: of 16 MiB at most.
const IMAGE_BYTES_MAX: usize = 256 << 20;
/// Seconds for a run, or for tensors to be moved.
const RUN_S: f64 = 20.0;

/// The driver's library on this machine.
pub fn driver() -> Option<PathBuf> {
    match std::env::var_os(DRIVER_VARIABLE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None => {
            let mut usual = DRIVER_FOLDERS.iter().map(|folder| Path::new(folder).join("libcuda.so.1"));
            usual.find(|path| path.is_file())
        }
    }
}

/// A GPU, as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Compute capability, `[9, 0]`.
    pub capability: [i32; 2],
    /// The newest version of CUDA that the driver knows, `[13, 0]`.
    pub cuda: [i32; 2],
    /// Streaming multiprocessors.
    pub multiprocessors: i32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes of the cache before it.
    pub l2_bytes: u64,
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, capability: [major, minor], cuda: [cuda, update], multiprocessors, .. } = self;
        write!(
            f,
            "{name}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, {} GiB, driver for CUDA {cuda}.{update}",
            self.memory_bytes >> 30
        )
    }
}

/// Who copies. The driver is not always the faster: on an H200 it moves 2.7 TB/s, and a kernel 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copier {
    /// `cuMemcpyDtoDAsync`.
    Driver,
    /// A kernel of ours.
    Kernel,
}

impl Copier {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Driver, Self::Kernel];
}

/// What a run took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ran {
    /// Seconds between events before the first launch and after the last.
    pub device_s: f64,
    /// Seconds by the judge's clock, from the word to begin to the word that all is done.
    pub wall_s: f64,
}

/// A host with a GPU.
pub struct Gpu {
    cage: Cage,
    driver: PathBuf,
    /// What is loaded again after a restart.
    loaded: Option<Image>,
    host: Host,
}

/// Kernels as the driver compiled them. Only a submission's own processes are given what came of it.
#[derive(Debug, Clone)]
pub struct Image {
    bytes: Vec<u8>,
    kernels: Vec<String>,
}

/// How a packet is waited for.
type Wait = for<'l> fn(&'l mut Link, Instant) -> std::io::Result<Received<'l>>;

/// What is new with every process.
struct Host {
    caged: Caged,
    link: Link,
    device: Device,
    arenas: Option<[Shared; 2]>,
    /// The fault that ended it.
    dead: Option<Fault>,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu")
            .field("device", &self.host.device)
            .field("dead", &self.host.dead)
            .finish_non_exhaustive()
    }
}

impl Gpu {
    /// Starts a host and the driver in it.
    ///
    /// # Errors
    /// [`MachineError`] if there is no driver, or none that works in a cage.
    pub fn start(cage: &Cage, driver: &Path) -> Result<Self, MachineError> {
        let host = Host::start(cage, driver)?;
        Ok(Self { cage: cage.clone(), driver: driver.to_owned(), loaded: None, host })
    }

    /// Has the driver compile PTX, and looks its kernels up.
    ///
    /// # Errors
    /// [`Fault::Load`] with the driver's words if it refuses.
    pub fn load(&mut self, ptx: &str, kernels: &[&str]) -> Result<(), Trouble> {
        let kernels: Vec<String> = kernels.iter().map(|&name| name.to_owned()).collect();
        let image_bytes = self.host.load(ptx.as_bytes(), false, &kernels)?;
        self.host.make_room(0, image_bytes)?;
        self.host.ask(&ToGpu::Image {})?;
        let [_, arena] = self.host.arenas.as_ref().expect("room was made");
        self.loaded = Some(Image { bytes: arena.read(Slot { offset: 0, len: image_bytes }), kernels });
        Ok(())
    }

    /// Loads what another process of the same submission compiled.
    ///
    /// # Errors
    /// As [`Gpu::load`].
    pub fn load_image(&mut self, image: Image) -> Result<(), Trouble> {
        self.host.load(&image.bytes, true, &image.kernels)?;
        self.loaded = Some(image);
        Ok(())
    }

    /// What was loaded, compiled.
    pub fn image(&self) -> Option<&Image> {
        self.loaded.as_ref()
    }

    /// Ends the process and starts another, with the same kernels. All states are gone.
    ///
    /// # Errors
    /// As [`Gpu::start`] and [`Gpu::load`].
    pub fn restart(&mut self) -> Result<(), Trouble> {
        self.host.caged.kill();
        self.host.dead.get_or_insert(Fault::Exited { code: 0 });
        self.host = Host::start(&self.cage, &self.driver)?;
        match &self.loaded {
            Some(Image { bytes, kernels }) => self.host.load(bytes, true, kernels).map(drop),
            None => Ok(()),
        }
    }

    /// Lays a call out: inputs are copied to the device, outputs and scratch filled with what is no answer.
    ///
    /// # Errors
    /// [`Fault::Memory`] if the device has no room.
    pub fn queue(&mut self, plan: Plan, call: &Call<'_>) -> Result<(), Trouble> {
        let tensors: Vec<Option<&Tensor>> = call
            .inputs
            .iter()
            .map(|argument| match argument {
                Argument::Tensor(tensor) => Some(*tensor),
                _ => None,
            })
            .collect();
        let (slots, total) = lay_out(tensors.iter().map(|tensor| tensor.map_or(0, |t| t.bytes().len())), 0);
        self.host.make_room(total, 0)?;
        let [arena, _] = self.host.arenas.as_ref().expect("room was made");
        let inputs = tensors.iter().zip(&slots).map(|(tensor, slot)| {
            tensor.map(|tensor| {
                arena.write(slot.offset, tensor.bytes());
                slot.offset
            })
        });
        let inputs = inputs.collect();
        let uses = call.inputs.iter().find_map(|argument| match argument {
            Argument::State(id) => Some(id.0),
            _ => None,
        });
        let queue = Queue { plan, inputs, uses, makes: call.makes.map(|id| id.0) };
        self.host.ask(&ToGpu::Queue(Box::new(queue)))
    }

    /// Lays out a copy of so many bytes, a multiple of 16, to see what the device's memory can do.
    ///
    /// # Errors
    /// As [`Gpu::queue`].
    pub fn queue_copy(&mut self, bytes: u64, by: Copier) -> Result<(), Trouble> {
        self.host.ask(&ToGpu::QueueCopy { bytes, by })
    }

    /// Runs all that is queued, one right after the other. What was emptied of the cache before is not timed.
    ///
    /// # Errors
    /// [`Fault::Device`] if a launch fails or does what it must not; the process is dead then.
    pub fn run(&mut self) -> Result<Ran, Trouble> {
        self.host.ask(&ToGpu::Arm {})?;
        let nonce = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0);
        let go = fixed::go(0, nonce);
        let started = Instant::now();
        self.host.link.send(&go).map_err(MachineError::system("releasing the GPU's host"))?;
        let packet = self.host.receive(RUN_S, Link::receive_awake)?;
        let wall_s = started.elapsed().as_secs_f64();
        if fixed::done(&go, false).is_none_or(|done| packet != done) {
            return Err(match self.host.understand(&packet) {
                Ok(other) => self.host.out_of_turn(&other),
                Err(trouble) => trouble,
            });
        }
        self.host
            .link
            .send(&fixed::settle(0, nonce))
            .map_err(MachineError::system("talking to the GPU's host"))?;
        match self.host.hear(RUN_S)? {
            FromGpu::Ran { device_s } => Ok(Ran { device_s, wall_s }),
            other => Err(self.host.out_of_turn(&other)),
        }
    }

    /// What a call that was run left in its outputs.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the kernels refused the call.
    pub fn fetch(&mut self, index: usize, call: &Call<'_>) -> Result<Vec<Tensor>, Trouble> {
        let (slots, total) = lay_out(call.outputs.iter().map(tribunal_contract::TensorSpec::size_bytes), 0);
        self.host.make_room(0, total)?;
        let offsets = slots.iter().map(|slot| slot.offset).collect();
        self.host.say(&ToGpu::Fetch { index, offsets })?;
        match self.host.hear(RUN_S)? {
            FromGpu::Fetched { status: 0 } => {}
            FromGpu::Fetched { status } => {
                return Err(Fault::Refused { message: format!("status {status}") }.into());
            }
            other => return Err(self.host.out_of_turn(&other)),
        }
        let [_, arena] = self.host.arenas.as_ref().expect("room was made");
        let tensor = |(spec, slot): (&tribunal_contract::TensorSpec, &Slot)| {
            Tensor::from_bytes(spec.clone(), arena.read(*slot))
        };
        Ok(call.outputs.iter().zip(&slots).map(tensor).collect())
    }

    /// Forgets what was queued. States stay.
    ///
    /// # Errors
    /// As [`Gpu::run`].
    pub fn clear(&mut self) -> Result<(), Trouble> {
        self.host.ask(&ToGpu::Clear {})
    }

    /// Forgets a state.
    ///
    /// # Errors
    /// As [`Gpu::run`].
    pub fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.host.ask(&ToGpu::Release { state: state.0 })
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.host.device
    }

    /// The layers of the cage that hold.
    pub fn applied(&self) -> &Applied {
        self.host.caged.applied()
    }
}

impl Host {
    fn start(cage: &Cage, driver: &Path) -> Result<Self, MachineError> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(MachineError::system("making a socket pair"))?;
        let mut policy = policy(cage, driver)?;
        policy.fds.push(theirs);
        let caged = cage.spawn(policy)?;
        let device = Device {
            name: String::new(),
            capability: [0; 2],
            cuda: [0; 2],
            multiprocessors: 0,
            memory_bytes: 0,
            l2_bytes: 0,
        };
        let link = Link::patient(ours, Duration::from_secs_f64(RUN_S))
            .map_err(MachineError::system("preparing a connection"))?;
        let mut host = Self { caged, link, device, arenas: None, dead: None };
        match host.hear(START_S) {
            Ok(FromGpu::Hello { protocol: PROTOCOL, device }) => {
                host.device = Device { name: clean(device.name.as_bytes()), ..device };
                Ok(host)
            }
            Ok(other) => Err(host.not_started(&format!("{other:?}"))),
            Err(Trouble::Fault(fault)) => Err(host.not_started(&fault.to_string())),
            Err(Trouble::Machine(error)) => Err(error),
        }
    }

    fn not_started(&mut self, why: &str) -> MachineError {
        self.caged.kill();
        let said = self.caged.output().stderr;
        let error = format!("{why} {}", said.trim());
        MachineError::System { doing: "starting the GPU's driver".into(), error: error.trim().to_owned() }
    }

    fn load(&mut self, code: &[u8], compiled: bool, kernels: &[String]) -> Result<usize, Trouble> {
        self.make_room(code.len(), 0)?;
        let [inputs, _] = self.arenas.as_ref().expect("room was made");
        inputs.write(0, code);
        self.say(&ToGpu::Load { bytes: code.len(), compiled, kernels: kernels.to_vec() })?;
        match self.hear(START_S)? {
            FromGpu::Loaded { image_bytes } if image_bytes <= IMAGE_BYTES_MAX => Ok(image_bytes),
            other => Err(self.out_of_turn(&other)),
        }
    }

    fn ask(&mut self, message: &ToGpu) -> Result<(), Trouble> {
        self.say(message)?;
        match self.hear(RUN_S)? {
            FromGpu::Ok {} => Ok(()),
            other => Err(self.out_of_turn(&other)),
        }
    }

    fn say(&mut self, message: &ToGpu) -> Result<(), Trouble> {
        if let Some(fault) = &self.dead {
            return Err(fault.clone().into());
        }
        self.link.send_json(message).map_err(MachineError::system("talking to the GPU's host"))?;
        Ok(())
    }

    fn hear(&mut self, limit_s: f64) -> Result<FromGpu, Trouble> {
        let packet = self.receive(limit_s, Link::receive)?;
        self.understand(&packet)
    }

    fn receive(&mut self, limit_s: f64, wait: Wait) -> Result<Vec<u8>, Trouble> {
        let deadline = Instant::now() + Duration::from_secs_f64(limit_s);
        let received =
            wait(&mut self.link, deadline).map_err(MachineError::system("listening to the GPU's host"))?;
        let fault = match received {
            Received::Packet(packet) => return Ok(packet.to_vec()),
            Received::Oversized => Fault::Protocol { message: "a packet longer than any".into() },
            Received::TimedOut => Fault::Deadline { limit_s },
            Received::Closed => match self.caged.wait(Some(Instant::now() + Duration::from_secs(2)))? {
                Ended::Exited(code) => Fault::Exited { code },
                ended => Fault::Device { message: format!("its host {ended}") },
            },
        };
        Err(self.die(fault))
    }

    fn understand(&mut self, packet: &[u8]) -> Result<FromGpu, Trouble> {
        match serde_json::from_slice(packet) {
            Ok(FromGpu::Failed { what, message }) => {
                let message = clean(message.as_bytes());
                Err(match what {
                    What::Driver => {
                        MachineError::System { doing: "using the GPU".into(), error: message }.into()
                    }
                    What::Load => Fault::Load { message }.into(),
                    What::Memory => Fault::Memory { limit_bytes: self.device.memory_bytes }.into(),
                    // The driver does nothing more for a process one of whose kernels failed.
                    What::Launch => self.die(Fault::Device { message }),
                })
            }
            Ok(message) => Ok(message),
            Err(_) => {
                Err(self.die(Fault::Protocol { message: "words that the GPU's host does not have".into() }))
            }
        }
    }

    fn out_of_turn(&mut self, got: &FromGpu) -> Trouble {
        self.die(Fault::Protocol { message: format!("out of turn: {got:?}") })
    }

    fn die(&mut self, fault: Fault) -> Trouble {
        self.caged.kill();
        self.arenas = None;
        self.dead = Some(fault.clone());
        fault.into()
    }

    /// Makes arenas for so many bytes unless there are.
    fn make_room(&mut self, inputs_bytes: usize, outputs_bytes: usize) -> Result<(), Trouble> {
        let had = self.arenas.as_ref().map(|[inputs, outputs]| [inputs.capacity(), outputs.capacity()]);
        let [had_inputs, had_outputs] = had.unwrap_or_default();
        if had.is_some() && had_inputs >= inputs_bytes && had_outputs >= outputs_bytes {
            return Ok(());
        }
        self.arenas = None;
        let inputs = Shared::new(roomy(inputs_bytes.max(had_inputs)), Access::Read)?;
        let outputs = Shared::new(roomy(outputs_bytes.max(had_outputs)), Access::Write)?;
        let message = ToGpu::Arena { inputs_bytes: inputs.capacity(), outputs_bytes: outputs.capacity() };
        if let Some(fault) = &self.dead {
            return Err(fault.clone().into());
        }
        self.link
            .send_json_with(&message, &[inputs.fd(), outputs.fd()])
            .map_err(MachineError::system("sharing memory with the GPU's host"))?;
        match self.hear(RUN_S)? {
            FromGpu::Ok {} => {
                self.arenas = Some([inputs, outputs]);
                Ok(())
            }
            other => Err(self.out_of_turn(&other)),
        }
    }
}

/// What the host of a driver may touch: the driver's devices and folders beside what any program may.
fn policy(cage: &Cage, driver: &Path) -> Result<Policy, MachineError> {
    let failed = |what: &str| MachineError::system(format!("granting {what}"));
    let library = driver.canonicalize().map_err(failed(&driver.display().to_string()))?;
    let mut policy = Policy::new(Profile::Run, &cage.launcher);
    policy.args = vec![host::GPU.into(), driver.into()];
    let folders = [driver.parent(), library.parent()].into_iter().flatten().map(Path::to_path_buf);
    let search = folders.clone().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
    policy.env = [
        ("LD_LIBRARY_PATH", search.as_str()),
        // Compiled kernels are not kept where another process would find them.
        ("CUDA_CACHE_DISABLE", "1"),
        ("LC_ALL", "C.UTF-8"),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    policy.reads.extend(folders);
    policy.reads.extend(
        ["/sys/devices", "/sys/bus", "/sys/module", "/sys/class"]
            .map(PathBuf::from)
            .into_iter()
            .filter(|path| path.exists()),
    );
    policy.devices = devices();
    policy.limits = Limits {
        cpu_s: 3600,
        // A driver reserves address space for all memory of the device and the machine.
        data_bytes: None,
        address_bytes: None,
        file_bytes: 1 << 32,
        tasks: 128,
        open_files: 1024,
        ..Limits::default()
    };
    Ok(policy)
}

/// The device files of GPUs.
fn devices() -> Vec<PathBuf> {
    let names = |folder: &str| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let is_device = |path: &PathBuf| {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
    };
    let is_of_a_gpu = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.starts_with(b"nvidia") || name == b"dxg"
    };
    let mut devices = names("/dev");
    devices.retain(is_of_a_gpu);
    devices.extend(names("/dev/nvidia-caps"));
    devices.retain(is_device);
    devices.sort();
    devices
}
