//! Runs a submission with a C ABI: the other end of the judge's socket.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use rustix::mm::{MapFlags, ProtFlags};
use tribunal_contract::abi::{ABI_VERSION, DLDevice, DLTensor, MESSAGE_BYTES};

use super::crash;
use super::region::{Region, Retired};
use crate::wire::{
    Expected, FromHost, Input, Link, PROTOCOL, Place, Placed, Prepare, Problem, ProblemKind, Received,
    ToHost, fixed,
};

/// The descriptor of the judge's socket.
pub(super) const JUDGE: RawFd = 3;
/// Room for a tensor's head, its shape and its strides.
const HEAD_BYTES: usize = 512;
const AXES_MAX: usize = (HEAD_BYTES - size_of::<DLTensor>()) / 16;

type Operation = unsafe extern "C" fn(*mut u64) -> i32;
type Release = unsafe extern "C" fn(*mut c_void);

/// Serves the judge until it hangs up.
pub(super) fn serve() -> ! {
    // SAFETY: this process was started as a host, whose descriptor 3 is the judge's socket and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(JUDGE) };
    crash::install();
    let mut host = Host {
        link: Link::new(socket),
        library: None,
        outputs: None,
        states: HashMap::new(),
        retired: Retired::default(),
    };
    // Whatever goes wrong with the connection, there is nobody left to tell.
    let _ = host.serve();
    // SAFETY: takes an integer and does not return. No destructors: the submission's could hang.
    unsafe { libc::_exit(0) }
}

struct Host {
    link: Link,
    library: Option<Library>,
    outputs: Option<View>,
    states: HashMap<u32, State>,
    retired: Retired,
}

/// A state of the submission, and the inputs that it still refers to.
struct State {
    pointer: *mut c_void,
    kept: Option<[Region; 2]>,
}

impl Host {
    fn serve(&mut self) -> std::io::Result<()> {
        let runtime = format!("C ABI {ABI_VERSION}");
        self.link.send_json(&FromHost::Hello { protocol: PROTOCOL, runtime })?;
        loop {
            let (packet, fds) = self.link.receive_with_fds()?;
            if packet.is_empty() {
                return Ok(());
            }
            let reply = match serde_json::from_slice(packet)? {
                ToHost::Load { entry, operations, .. } => self.load(&entry, &operations),
                ToHost::Arena { outputs_bytes } => self.map(only(fds)?, outputs_bytes)?,
                ToHost::Prepare(prepare) => self.answer(&prepare, only(fds)?)?,
                ToHost::Release { id } => self.release(id),
                ToHost::Bye => return Ok(()),
            };
            self.link.send_json(&reply)?;
        }
    }

    fn load(&mut self, entry: &str, operations: &[String]) -> FromHost {
        // SAFETY: loading runs the library's constructors, which is what this process is for; the cage is closed.
        let library = match unsafe { Library::open(Some(entry), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => library,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                return failed(ProblemKind::Load, cause.unwrap_or_else(|| error.to_string()));
            }
        };
        // SAFETY: the contract gives the symbol this type.
        if let Ok(abi) = unsafe { library.get::<unsafe extern "C" fn() -> u32>(b"tribunal_abi\0") } {
            // SAFETY: as above; the function takes nothing.
            let version = unsafe { abi() };
            if version != ABI_VERSION {
                let message =
                    format!("made for version {version} of the calling convention, this is {ABI_VERSION}");
                return failed(ProblemKind::Load, message);
            }
        }
        let operations = operations.iter().filter(|name| symbol(&library, name).is_some()).cloned().collect();
        self.library = Some(library);
        FromHost::Loaded { operations }
    }

    fn map(&mut self, outputs: OwnedFd, bytes: usize) -> std::io::Result<FromHost> {
        self.outputs = None;
        self.outputs = Some(View::new(outputs, bytes, ProtFlags::READ | ProtFlags::WRITE)?);
        Ok(FromHost::Mapped {})
    }

    fn release(&mut self, id: u32) -> FromHost {
        if let Some(State { pointer, kept }) = self.states.remove(&id) {
            // SAFETY: the contract gives the symbol this type.
            let release = self
                .library
                .as_ref()
                .and_then(|library| unsafe { library.get::<Release>(b"tribunal_release\0").ok() });
            if let Some(release) = release {
                // SAFETY: the state came from this library and is released this once. What the library does with it is its own affair.
                unsafe { release(pointer) };
            }
            kept.into_iter().flatten().for_each(|region| self.retired.take(region));
        }
        FromHost::Released {}
    }

    /// One whole call: prepare, wait for GO, call, say DONE, wait for SETTLE. Returns what is said last.
    fn answer(&mut self, prepare: &Prepare, inputs: OwnedFd) -> std::io::Result<FromHost> {
        let mut call = match self.prepare(prepare, inputs) {
            Ok(call) => call,
            Err(problem) => return Ok(FromHost::Failed { problem }),
        };
        self.link.send_json(&FromHost::Ready {})?;
        let mut go = fixed::Go::default();
        match self.link.receive_now()? {
            Received::Packet(packet) if packet.len() == go.len() => go.copy_from_slice(packet),
            _ => return Err(std::io::ErrorKind::InvalidData.into()),
        }
        // SAFETY:
        // - the contract gives the symbol this type, and the record the members that the operation names;
        // - every pointer in it is valid for the whole call.
        let status = unsafe { (call.operation)(call.record.as_mut_ptr()) };
        let done = fixed::done(&go, status != 0).ok_or(std::io::ErrorKind::InvalidData)?;
        self.link.send(&done)?;
        if !matches!(self.link.receive_now()?, Received::Packet(packet) if fixed::is_settle(packet)) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(self.settle(prepare, call, status))
    }

    fn prepare(&self, prepare: &Prepare, inputs: OwnedFd) -> Result<PreparedCall, Problem> {
        let missing = || Problem {
            kind: ProblemKind::Load,
            message: format!("the symbol `tribunal_{}` is missing", prepare.operation),
        };
        let library = self.library.as_ref().ok_or_else(missing)?;
        let operation = *symbol(library, &prepare.operation).ok_or_else(missing)?;
        let no_memory = |error: std::io::Error| Problem {
            kind: ProblemKind::Memory,
            message: format!("no memory for the inputs: {error}"),
        };
        let elements = Region::shared(&inputs, prepare.inputs_bytes).map_err(no_memory)?;
        let tensors = prepare.inputs.len() + prepare.results.len();
        let heads = Region::new(tensors * HEAD_BYTES).map_err(no_memory)?;
        let mut record = Vec::with_capacity(tensors + 2);
        for input in &prepare.inputs {
            record.push(match input {
                Input::Tensor(tensor) => {
                    let data = elements.at(tensor.offset);
                    write_head(heads.at(record.len() * HEAD_BYTES), data, tensor) as u64
                }
                Input::Real(bits) => *bits,
                Input::Integer(value) => value.cast_unsigned(),
                Input::State(id) => self.states.get(id).map_or(0, |state| state.pointer as u64),
            });
        }
        for Expected { place, .. } in &prepare.results {
            record.push(match place {
                Place::Tensor(tensor) => {
                    let data = view(self.outputs.as_ref(), tensor);
                    write_head(heads.at(record.len() * HEAD_BYTES), data, tensor) as u64
                }
                Place::State(_) => 0,
            });
        }
        if makes(prepare).is_some() {
            record.push(0); // keeps_inputs
        }
        let mut message = Box::new([0_u8; MESSAGE_BYTES]);
        record.push(message.as_mut_ptr() as u64);
        Ok(PreparedCall { operation, record, regions: [elements, heads], message })
    }

    /// After the call: takes up the new state, and ends the life of the inputs.
    fn settle(&mut self, prepare: &Prepare, call: PreparedCall, status: i32) -> FromHost {
        let PreparedCall { record, regions, message, .. } = call;
        let mut regions = Some(regions);
        if status == 0
            && let Some((position, id)) = makes(prepare)
        {
            let pointer = record[prepare.inputs.len() + position] as *mut c_void;
            let keeps = record[prepare.inputs.len() + prepare.results.len()] == 1;
            self.states.insert(id, State { pointer, kept: regions.take_if(|_| keeps) });
        }
        regions.into_iter().flatten().for_each(|region| self.retired.take(region));
        let problem = (status != 0).then(|| Problem {
            kind: ProblemKind::Refused,
            message: match CStr::from_bytes_until_nul(&message[..]) {
                Ok(text) if !text.is_empty() => text.to_string_lossy().into_owned(),
                _ => format!("status {status}, without a message"),
            },
        });
        FromHost::Settled { problem, disturbed: Vec::new() }
    }
}

struct PreparedCall {
    operation: Operation,
    record: Vec<u64>,
    /// The elements of the inputs; tensors, shapes and strides of inputs and outputs.
    regions: [Region; 2],
    message: Box<[u8; MESSAGE_BYTES]>,
}

fn symbol(library: &Library, operation: &str) -> Option<Symbol<Operation>> {
    // SAFETY: the contract gives every operation this type.
    unsafe { library.get(format!("tribunal_{operation}\0").as_bytes()) }.ok()
}

fn failed(kind: ProblemKind, message: String) -> FromHost {
    FromHost::Failed { problem: Problem { kind, message } }
}

/// Position among the results of the state that the call makes, and its name.
fn makes(prepare: &Prepare) -> Option<(usize, u32)> {
    prepare.results.iter().enumerate().find_map(|(position, result)| match result.place {
        Place::State(id) => Some((position, id)),
        Place::Tensor(_) => None,
    })
}

fn only(fds: Vec<OwnedFd>) -> std::io::Result<OwnedFd> {
    <[OwnedFd; 1]>::try_from(fds).map(|[fd]| fd).map_err(|_| std::io::ErrorKind::InvalidData.into())
}

/// Writes the tensor, its shape and its strides at `head`, which has [`HEAD_BYTES`] bytes.
fn write_head(head: *mut u8, data: *mut u8, tensor: &Placed) -> *mut DLTensor {
    let axes = tensor.shape.len();
    assert!(axes <= AXES_MAX, "a tensor has at most {AXES_MAX} axes");
    let head = head.cast::<DLTensor>();
    // SAFETY: `head` is followed by room for the tensor and `2 * AXES_MAX` words, and aligned to 256 bytes.
    let shape = unsafe { head.add(1).cast::<i64>() };
    // SAFETY: as above.
    let strides = unsafe { shape.add(axes) };
    let mut stride = 1;
    for (axis, &extent) in tensor.shape.iter().enumerate().rev() {
        // SAFETY: `axis < axes <= AXES_MAX`.
        unsafe {
            shape.add(axis).write(extent as i64);
            strides.add(axis).write(stride);
        }
        stride *= extent.max(1) as i64;
    }
    let value = DLTensor {
        data: data.cast(),
        device: DLDevice { device_type: 1, device_id: 0 },
        ndim: axes as i32,
        dtype: tensor.dtype.into(),
        shape,
        strides,
        byte_offset: 0,
    };
    // SAFETY: as above.
    unsafe { head.write(value) };
    head
}

fn view(view: Option<&View>, tensor: &Placed) -> *mut u8 {
    view.expect("the judge shares the outputs before the first call").at(tensor.offset, tensor.size_bytes())
}

/// A mapped arena.
pub(super) struct View {
    base: NonNull<c_void>,
    len: usize,
}

impl View {
    pub(super) fn new(fd: OwnedFd, len: usize, protection: ProtFlags) -> std::io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the address is chosen by the kernel; the file has `len` bytes and is sealed against shrinking.
        let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, &fd, 0) }?;
        Ok(Self { base: NonNull::new(base).expect("a mapping is not at address 0"), len })
    }

    pub(super) fn at(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a range inside the arena");
        // SAFETY: `offset` is at most `len`, so the result stays in the mapping or one past its end.
        unsafe { self.base.as_ptr().cast::<u8>().add(offset) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with these bounds; no call is under way.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr(), self.len) };
    }
}
