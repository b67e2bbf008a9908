//! The host of a GPU's driver: ours to the last line. What comes of a submission is PTX, which the driver compiles, and kernels, which run on the
//! device alone.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use rustix::mm::ProtFlags;
use tribunal_contract::launch::{Role, Value};

use super::native::{JUDGE, View};
use crate::arena::POISON;
use crate::gpu::wire::{FromGpu, Queue, ToGpu, What};
use crate::gpu::{Copier, Device};
use crate::wire::{Link, PROTOCOL, Received, fixed};

/// Dynamic shared memory that a kernel may have without asking.
const SHARED_BYTES: u32 = 48 << 10;
/// Written before a run to empty the cache, in sizes of the cache.
const EVICTING: u64 = 4;
/// How long this process stays awake for the judge's word to begin, which comes at once unless the judge is stopped.
const AWAKE: Duration = Duration::from_secs(1);
/// The kernel that copies, its threads, and what a block of them copies.
const COPY: &[u8] = include_bytes!("copy.ptx");
const COPY_KERNEL: &str = "copy_vectors";
const COPY_THREADS: u32 = 512;
const COPY_BLOCK_BYTES: u64 = 64 * COPY_THREADS as u64;
/// Room for what the driver says of PTX.
const LOG_BYTES: usize = 4096;

/// Serves the judge until it hangs up.
pub(super) fn serve() -> ! {
    // SAFETY: this process was started as a host, whose descriptor 3 is the judge's socket and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(JUDGE) };
    let link = Link::new(socket);
    // Whatever goes wrong with the connection, there is nobody left to tell.
    let _ = match Host::start() {
        Ok((host, device)) => link
            .send_json(&FromGpu::Hello { protocol: PROTOCOL, device })
            .and_then(|()| Server { link, host }.serve()),
        Err(problem) => link.send_json(&problem.told()),
    };
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(0) }
}

/// What went wrong, for the judge.
struct Problem {
    what: What,
    message: String,
}

impl Problem {
    fn new(what: What, message: impl Into<String>) -> Self {
        Self { what, message: message.into() }
    }

    fn told(self) -> FromGpu {
        FromGpu::Failed { what: self.what, message: self.message }
    }
}

/// For `map_err`: which of the driver's functions refused.
fn failed(what: What, doing: &str) -> impl FnOnce(DriverError) -> Problem {
    let doing = doing.to_owned();
    move |error| {
        let name = error
            .error_name()
            .map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned());
        let text =
            error.error_string().map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
        let what = if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY { What::Memory } else { what };
        Problem::new(what, format!("{doing}: {name}, {text}"))
    }
}

/// Memory on the device.
struct Buffer {
    at: sys::CUdeviceptr,
    bytes: u64,
}

impl Buffer {
    fn new(bytes: u64) -> Result<Rc<Self>, Problem> {
        // SAFETY: the memory is filled before anything reads it, as bytes.
        let at = unsafe { result::malloc_sync(bytes.max(1) as usize) }
            .map_err(failed(What::Memory, "allocating"))?;
        Ok(Rc::new(Self { at, bytes }))
    }

    fn fill(&self, byte: u8) -> Result<(), Problem> {
        // SAFETY: the buffer has as many bytes, and any byte may stand there.
        unsafe { result::memset_d8_sync(self.at, byte, self.bytes.max(1) as usize) }
            .map_err(failed(What::Launch, "filling a buffer"))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new`, once; every run is waited for. An error leaves it to the end of the process.
        let _ = unsafe { result::free_sync(self.at) };
    }
}

/// What the next run does.
enum Work {
    Call(Call),
    Copy { from: Rc<Buffer>, to: Rc<Buffer> },
}

/// A call that was laid out.
struct Call {
    launches: Vec<Launch>,
    /// By their indices among the results.
    outputs: BTreeMap<usize, Rc<Buffer>>,
    status: Option<Rc<Buffer>>,
    /// Keeps alive what launches point to.
    _buffers: Vec<Rc<Buffer>>,
}

struct Launch {
    function: sys::CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    /// The arguments' bytes; each has eight to itself.
    arguments: Vec<[u8; 8]>,
}

struct Host {
    stream: sys::CUstream,
    events: [sys::CUevent; 2],
    evictor: Rc<Buffer>,
    kernels: HashMap<String, sys::CUfunction>,
    inputs: Option<View>,
    outputs: Option<View>,
    states: HashMap<u32, Vec<Rc<Buffer>>>,
    queue: Vec<Work>,
    /// The kernels, compiled.
    image: Vec<u8>,
    /// The kernel that copies, once it was asked for.
    copy: Option<sys::CUfunction>,
}

struct Server {
    link: Link,
    host: Host,
}

impl Server {
    fn serve(&mut self) -> std::io::Result<()> {
        loop {
            let (packet, fds) = self.link.receive_with_fds()?;
            if packet.is_empty() {
                return Ok(());
            }
            let message = serde_json::from_slice(packet)?;
            let reply = match message {
                ToGpu::Bye {} => return Ok(()),
                ToGpu::Arena { inputs_bytes, outputs_bytes } => {
                    self.host.map(fds, inputs_bytes, outputs_bytes)?;
                    FromGpu::Ok {}
                }
                ToGpu::Arm {} => self.run()?,
                message => self.host.answer(message).unwrap_or_else(Problem::told),
            };
            self.link.send_json(&reply)?;
        }
    }

    /// Arms, waits for GO, runs, says DONE, and waits to be asked.
    fn run(&mut self) -> std::io::Result<FromGpu> {
        if let Err(problem) = self.host.evict() {
            return Ok(problem.told());
        }
        self.link.send_json(&FromGpu::Ok {})?;
        let mut go = fixed::Go::default();
        // The judge's clock runs from its word: who sleeps hears it late.
        self.link.stay_awake(Instant::now() + AWAKE)?;
        match self.link.receive_now()? {
            Received::Packet(packet) if packet.len() == go.len() => go.copy_from_slice(packet),
            _ => return Err(std::io::ErrorKind::InvalidData.into()),
        }
        let ran = self.host.run();
        let device_s = match ran {
            Ok(device_s) => device_s,
            Err(problem) => return Ok(problem.told()),
        };
        self.link.send(&fixed::done(&go, false).ok_or(std::io::ErrorKind::InvalidData)?)?;
        if !matches!(self.link.receive_now()?, Received::Packet(packet) if fixed::is_settle(packet)) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(device_s().map_or_else(Problem::told, |device_s| FromGpu::Ran { device_s }))
    }
}

impl Host {
    /// The first device, and a context on it.
    fn start() -> Result<(Self, Device), Problem> {
        let driver = |doing| failed(What::Driver, doing);
        // SAFETY: loading a driver runs its constructors, which is what this process is for; the cage is closed.
        if !unsafe { sys::is_culib_present() } {
            return Err(Problem::new(What::Driver, "the driver's library cannot be loaded"));
        }
        result::init().map_err(driver("cuInit"))?;
        let ordinal = result::device::get(0).map_err(driver("cuDeviceGet"))?;
        let device = describe(ordinal).map_err(driver("asking for the device's attributes"))?;
        // SAFETY: `ordinal` is a device that the driver named.
        let context = unsafe { result::primary_ctx::retain(ordinal) }.map_err(driver("making a context"))?;
        // SAFETY: the context was made just now and lives as long as this process.
        unsafe { result::ctx::set_current(context) }.map_err(driver("making a context current"))?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(driver("making a stream"))?;
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let events =
            [event().map_err(driver("making an event"))?, event().map_err(driver("making an event"))?];
        let evictor = Buffer::new(EVICTING * device.l2_bytes.max(1 << 20))?;
        let host = Self {
            stream,
            events,
            evictor,
            kernels: HashMap::new(),
            inputs: None,
            outputs: None,
            states: HashMap::new(),
            queue: Vec::new(),
            image: Vec::new(),
            copy: None,
        };
        Ok((host, device))
    }

    fn map(&mut self, fds: Vec<OwnedFd>, inputs: usize, outputs: usize) -> std::io::Result<()> {
        (self.inputs, self.outputs) = (None, None);
        let [read_fd, write_fd] =
            <[OwnedFd; 2]>::try_from(fds).map_err(|_| std::io::ErrorKind::InvalidData)?;
        self.inputs = Some(View::new(read_fd, inputs, ProtFlags::READ)?);
        self.outputs = Some(View::new(write_fd, outputs, ProtFlags::READ | ProtFlags::WRITE)?);
        Ok(())
    }

    fn answer(&mut self, message: ToGpu) -> Result<FromGpu, Problem> {
        match message {
            ToGpu::Load { bytes, compiled, kernels } => {
                self.load(bytes, compiled, &kernels)?;
                return Ok(FromGpu::Loaded { image_bytes: self.image.len() });
            }
            ToGpu::Image {} => {
                let to =
                    self.outputs.as_ref().expect("the judge maps the arenas first").at(0, self.image.len());
                // SAFETY: `at` checks that there is room; the judge waits for our answer, and the two do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(self.image.as_ptr(), to, self.image.len()) };
            }
            ToGpu::Queue(queue) => self.lay_out(&queue)?,
            ToGpu::QueueCopy { bytes, by } => {
                let copy = self.lay_out_copy(bytes, by)?;
                self.queue.push(copy);
            }
            ToGpu::Fetch { index, offsets } => {
                return self.fetch(index, &offsets).map(|status| FromGpu::Fetched { status });
            }
            ToGpu::Clear {} => self.queue.clear(),
            ToGpu::Release { state } => drop(self.states.remove(&state)),
            ToGpu::Arena { .. } | ToGpu::Arm {} | ToGpu::Bye {} => unreachable!("answered before"),
        }
        Ok(FromGpu::Ok {})
    }

    fn load(&mut self, bytes: usize, compiled: bool, kernels: &[String]) -> Result<(), Problem> {
        let given = self.inputs.as_ref().expect("the judge maps the arenas first").at(0, bytes);
        // SAFETY: `at` checks that so many bytes are there, and the judge waits for our answer.
        let given = unsafe { std::slice::from_raw_parts(given.cast_const(), bytes) };
        self.image = if compiled { given.to_vec() } else { compile(given)? };
        let module = Module::load(&self.image)?;
        for name in kernels {
            self.kernels.insert(name.clone(), module.function(name)?);
        }
        Ok(())
    }

    fn lay_out(&mut self, queue: &Queue) -> Result<(), Problem> {
        let Queue { plan, inputs, uses, makes } = queue;
        let used = uses.map(|id| self.states.get(&id).cloned().unwrap_or_default()).unwrap_or_default();
        let mut outputs = BTreeMap::new();
        let mut status = None;
        let mut buffers: Vec<Rc<Buffer>> = Vec::with_capacity(plan.buffers.len());
        let mut arguments: HashMap<usize, Rc<Buffer>> = HashMap::new();
        let mut own: BTreeMap<usize, Rc<Buffer>> = BTreeMap::new();
        for planned in &plan.buffers {
            let bytes = planned.size_bytes();
            let fresh = |poison: bool| -> Result<Rc<Buffer>, Problem> {
                let buffer = Buffer::new(bytes)?;
                buffer.fill(if poison && !planned.zeroed { POISON } else { 0 })?;
                Ok(buffer)
            };
            let buffer = match planned.role {
                Role::Input(argument) => {
                    let offset = inputs.get(argument).copied().flatten();
                    let offset = offset.ok_or_else(|| Problem::new(What::Driver, "an input is not there"))?;
                    let buffer = Buffer::new(bytes)?;
                    self.upload(offset, &buffer)?;
                    arguments.insert(argument, Rc::clone(&buffer));
                    buffer
                }
                Role::Output(index) => {
                    let buffer = fresh(true)?;
                    outputs.insert(index, Rc::clone(&buffer));
                    buffer
                }
                Role::State(index) if uses.is_some() => Rc::clone(
                    used.get(index).ok_or_else(|| Problem::new(What::Driver, "a state is not there"))?,
                ),
                Role::State(index) => {
                    let buffer = fresh(true)?;
                    own.insert(index, Rc::clone(&buffer));
                    buffer
                }
                Role::Scratch => fresh(true)?,
                Role::Status => {
                    let buffer = fresh(false)?;
                    status = Some(Rc::clone(&buffer));
                    buffer
                }
            };
            buffers.push(buffer);
        }
        let launches =
            plan.launches.iter().map(|launch| self.launch(launch, &buffers)).collect::<Result<_, _>>()?;
        if let (Some(id), Some(state)) = (makes, &plan.makes) {
            let kept = state.kept.iter().enumerate().map(|(index, kept)| match kept {
                Some(argument) => arguments.get(argument),
                None => own.get(&index),
            });
            let kept: Option<Vec<Rc<Buffer>>> = kept.map(Option::<&Rc<Buffer>>::cloned).collect();
            self.states.insert(*id, kept.ok_or_else(|| Problem::new(What::Driver, "a state has no memory"))?);
        }
        self.queue.push(Work::Call(Call { launches, outputs, status, _buffers: buffers }));
        Ok(())
    }

    fn lay_out_copy(&mut self, bytes: u64, by: Copier) -> Result<Work, Problem> {
        let [from, to] = [Buffer::new(bytes)?, Buffer::new(bytes)?];
        from.fill(POISON)?;
        if by == Copier::Driver {
            return Ok(Work::Copy { from, to });
        }
        let function = match self.copy {
            Some(function) => function,
            None => *self.copy.insert(Module::load(&compile(COPY)?)?.function(COPY_KERNEL)?),
        };
        let launch = Launch {
            function,
            grid: [bytes.div_ceil(COPY_BLOCK_BYTES).max(1) as u32, 1, 1],
            block: [COPY_THREADS, 1, 1],
            shared_bytes: 0,
            arguments: [from.at, to.at, bytes].map(u64::to_le_bytes).into(),
        };
        Ok(Work::Call(Call {
            launches: vec![launch],
            outputs: BTreeMap::new(),
            status: None,
            _buffers: vec![from, to],
        }))
    }

    fn upload(&self, offset: usize, buffer: &Buffer) -> Result<(), Problem> {
        let bytes = buffer.bytes as usize;
        if bytes == 0 {
            return Ok(());
        }
        let given = self.inputs.as_ref().expect("the judge maps the arenas first").at(offset, bytes);
        // SAFETY: `at` checks that so many bytes are there, and the judge waits for our answer.
        let given = unsafe { std::slice::from_raw_parts(given.cast_const(), bytes) };
        // SAFETY: the buffer has as many bytes.
        unsafe { result::memcpy_htod_sync(buffer.at, given) }
            .map_err(failed(What::Launch, "copying an input"))
    }

    fn launch(
        &self,
        launch: &tribunal_contract::launch::Launch,
        buffers: &[Rc<Buffer>],
    ) -> Result<Launch, Problem> {
        let name = &launch.kernel;
        let function = *self
            .kernels
            .get(name)
            .ok_or_else(|| Problem::new(What::Load, format!("there is no kernel `{name}`")))?;
        if launch.shared_bytes > SHARED_BYTES {
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function is one of a module that stays loaded.
            unsafe {
                result::function::set_function_attribute(function, attribute, launch.shared_bytes as i32)
            }
            // What others of its kind have is not this device's to give.
            .map_err(failed(
                What::Driver,
                &format!("giving `{name}` {} bytes of shared memory", launch.shared_bytes),
            ))?;
        }
        let arguments = launch.arguments.iter().map(|value| {
            let mut eight = [0; 8];
            match value {
                Value::Pointer(index) => eight = buffers[*index].at.to_le_bytes(),
                Value::Scalar(bytes) => eight[..bytes.len()].copy_from_slice(bytes),
            }
            eight
        });
        let arguments = arguments.collect();
        Ok(Launch {
            function,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            arguments,
        })
    }

    /// Writes more than the cache holds, and waits until all is quiet.
    fn evict(&self) -> Result<(), Problem> {
        self.evictor.fill(POISON)?;
        result::ctx::synchronize().map_err(failed(What::Launch, "waiting for the device"))
    }

    /// Runs what is queued and waits for its end. The events are read when there is time.
    fn run(&mut self) -> Result<impl FnOnce() -> Result<f64, Problem> + use<>, Problem> {
        let [start, end] = self.events;
        let stream = self.stream;
        let record = |event| {
            // SAFETY: event and stream were made by `start` and live as long as this process.
            unsafe { result::event::record(event, stream) }
                .map_err(failed(What::Launch, "recording an event"))
        };
        record(start)?;
        for work in &mut self.queue {
            match work {
                Work::Call(call) => call.launches.iter_mut().try_for_each(|launch| launch.start(stream))?,
                Work::Copy { from, to } => {
                    // SAFETY: both buffers have as many bytes, and live until the queue is cleared.
                    unsafe { result::memcpy_dtod_async(to.at, from.at, from.bytes as usize, stream) }
                        .map_err(failed(What::Launch, "copying"))?;
                }
            }
        }
        record(end)?;
        // SAFETY: the stream lives as long as this process.
        unsafe { result::stream::synchronize(stream) }.map_err(failed(What::Launch, "running"))?;
        Ok(move || {
            // SAFETY: both events were recorded and waited for.
            let ms = unsafe { result::event::elapsed(start, end) };
            ms.map(|ms| f64::from(ms) / 1e3).map_err(failed(What::Launch, "reading the events"))
        })
    }

    fn fetch(&self, index: usize, offsets: &[usize]) -> Result<i32, Problem> {
        let Some(Work::Call(call)) = self.queue.get(index) else {
            return Err(Problem::new(What::Driver, "no such call was run"));
        };
        let view = self.outputs.as_ref().expect("the judge maps the arenas first");
        for (index, buffer) in &call.outputs {
            let bytes = buffer.bytes as usize;
            let given = offsets.get(*index).map(|&offset| view.at(offset, bytes));
            let Some(given) = given.filter(|_| bytes > 0) else { continue };
            // SAFETY: `at` checks that so many bytes are there; the judge waits for our answer, and nobody else writes them.
            let given = unsafe { std::slice::from_raw_parts_mut(given, bytes) };
            // SAFETY: the buffer has as many bytes.
            unsafe { result::memcpy_dtoh_sync(given, buffer.at) }
                .map_err(failed(What::Launch, "copying an output"))?;
        }
        let mut status = [0u8; 4];
        if let Some(buffer) = &call.status {
            // SAFETY: the status has four bytes.
            unsafe { result::memcpy_dtoh_sync(&mut status, buffer.at) }
                .map_err(failed(What::Launch, "copying the status"))?;
        }
        Ok(i32::from_le_bytes(status))
    }
}

impl Launch {
    fn start(&mut self, stream: sys::CUstream) -> Result<(), Problem> {
        let mut pointers: Vec<*mut c_void> =
            self.arguments.iter_mut().map(|eight| eight.as_mut_ptr().cast()).collect();
        let triple = |[x, y, z]: [u32; 3]| (x, y, z);
        // SAFETY:
        // - the function is one of a module that stays loaded, and takes as many arguments of these sizes: the judge held the
        //   manifest against its PTX;
        // - buffers live until the queue is cleared. What the kernel does with them is why it has a process to itself.
        unsafe {
            result::launch_kernel(
                self.function,
                triple(self.grid),
                triple(self.block),
                self.shared_bytes,
                stream,
                &mut pointers,
            )
        }
        .map_err(failed(What::Launch, "launching"))
    }
}

/// Kernels that are loaded, and stay so.
struct Module(sys::CUmodule);

impl Module {
    /// Loads what the driver made of PTX.
    fn load(image: &[u8]) -> Result<Self, Problem> {
        // SAFETY: the image is what the driver made, of PTX that ends nowhere but where it says.
        unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map(Self)
            .map_err(failed(What::Load, "loading what was compiled"))
    }

    fn function(&self, name: &str) -> Result<sys::CUfunction, Problem> {
        let text = CString::new(name).expect("a manifest has no byte 0 in names");
        // SAFETY: the module was loaded and is never unloaded.
        unsafe { result::module::get_function(self.0, text) }
            .map_err(failed(What::Load, &format!("looking for kernel `{name}`")))
    }
}

/// Has the driver compile PTX, once for all processes; its own words say what it does not like.
fn compile(ptx: &[u8]) -> Result<Vec<u8>, Problem> {
    let ptx = CString::new(ptx).map_err(|_| Problem::new(What::Load, "its PTX has a byte 0"))?;
    let mut log = vec![0u8; LOG_BYTES];
    let mut options =
        [sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER, sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(LOG_BYTES - 1)];
    let (mut link, mut image, mut bytes) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    let linked = || -> Result<(), DriverError> {
        // SAFETY:
        // - both lists have two elements, and outlive the link;
        // - the log has more bytes than it is said to have, the last of which stays 0.
        unsafe {
            sys::cuLinkCreate_v2(
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
                &raw mut link,
            )
        }
        .result()?;
        let text = ptx.as_bytes_with_nul();
        let none = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the link was made just now; the text is not written, whatever its type says, and has so many bytes.
        unsafe {
            sys::cuLinkAddData_v2(
                link,
                sys::CUjitInputType::CU_JIT_INPUT_PTX,
                text.as_ptr().cast_mut().cast(),
                text.len(),
                c"kernels.ptx".as_ptr(),
                0,
                none.0,
                none.1,
            )
        }
        .result()?;
        // SAFETY: as above; both pointers are to variables of ours.
        unsafe { sys::cuLinkComplete(link, &raw mut image, &raw mut bytes) }.result()
    }();
    let made = match linked {
        // SAFETY: the driver says that so many bytes are there, until the link is destroyed.
        Ok(()) => Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>().cast_const(), bytes) }.to_vec()),
        Err(error) => {
            let said = CStr::from_bytes_until_nul(&log)
                .map_or_else(|_| String::new(), |log| log.to_string_lossy().into_owned());
            // A compiler of this machine made PTX that this machine's driver is too old for.
            let old = error.0 == sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
            let what = if old { What::Driver } else { What::Load };
            let Problem { what, message } = failed(what, "the driver, compiling its PTX")(error);
            Err(Problem::new(what, format!("{message} {}", said.trim())))
        }
    };
    if !link.is_null() {
        // SAFETY: the link was made above and is destroyed this once; nothing refers to it. An error leaves it to the end of the process.
        let _ = unsafe { sys::cuLinkDestroy(link) };
    }
    made
}

fn describe(ordinal: sys::CUdevice) -> Result<Device, DriverError> {
    use sys::CUdevice_attribute as Of;
    // SAFETY: `ordinal` is a device that the driver named.
    let attribute = |of| unsafe { result::device::get_attribute(ordinal, of) };
    let mut cuda = 0;
    // SAFETY: the pointer is to an int that outlives the call.
    unsafe { sys::cuDriverGetVersion(&raw mut cuda) }.result()?;
    Ok(Device {
        name: result::device::get_name(ordinal)?,
        capability: [
            attribute(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Of::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ],
        cuda: [cuda / 1000, cuda % 1000 / 10],
        multiprocessors: attribute(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        // SAFETY: as above.
        memory_bytes: unsafe { result::device::total_mem(ordinal) }? as u64,
        l2_bytes: attribute(Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.max(0) as u64,
    })
}
