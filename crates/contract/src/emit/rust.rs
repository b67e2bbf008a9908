//! The Rust form of the C contract, and its starter.

use super::{c, wrap};
use crate::abi::{ABI_VERSION, MESSAGE_BYTES};
use crate::{Challenge, Field, Kind, Operation};

/// `Cargo.toml` of a contestant: on its own, even inside somebody's workspace.
pub(super) fn cargo_manifest() -> String {
    "[package]\nname = \"submission\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lib]\ncrate-type = [\"cdylib\"]\n\n\
     [profile.release]\npanic = \"abort\"\n\n[workspace]\n"
        .to_owned()
}

/// The records and the tensor, as in the C header.
pub(super) fn contract(challenge: &Challenge) -> String {
    let mut text =
        format!("//! {}: the contract in Rust, the same as the C header. Generated.\n//!\n", challenge.title);
    text += &wrap(&c::calling(), 110, "//! ");
    text += "#![allow(dead_code)]\n\nuse std::ffi::{c_char, c_void};\n\n";
    text += &format!(
        "pub const ABI: u32 = {ABI_VERSION};\npub const MESSAGE_BYTES: usize = {MESSAGE_BYTES};\n\n"
    );
    text += TENSOR;
    for operation in challenge.operations {
        text += "\n";
        text += &wrap(operation.doc, 110, "/// ");
        text += &format!("#[repr(C)]\npub struct {}Args {{\n", camel(operation.name));
        for field in operation.inputs {
            text += &member(field, "*const DLTensor");
        }
        for field in operation.outputs {
            text += &member(field, "*mut DLTensor");
        }
        if operation.makes_state() {
            text += "    /// Out: 1 if the state refers to the inputs.\n    pub keeps_inputs: i64,\n";
        }
        text += "    /// Out: why the call was refused.\n    pub message: *mut c_char,\n}\n";
    }
    text
}

/// A library whose operations all refuse.
pub(super) fn starter(challenge: &Challenge) -> String {
    let mut text = format!("//! {}.\n//!\n{}", challenge.title, wrap(challenge.summary, 100, "//! "));
    text += "\nmod contract;\n\nuse contract::*;\n";
    for operation in challenge.operations {
        text += &format!(
            "\n#[no_mangle]\npub unsafe extern \"C\" fn tribunal_{0}(args: *mut {1}Args) -> i32 {{\n    \
             let args = &mut *args;\n    refuse(args.message, \"{0} is not implemented\")\n}}\n",
            operation.name,
            camel(operation.name)
        );
    }
    if challenge.operations.iter().any(Operation::makes_state) {
        text += "\n#[no_mangle]\npub unsafe extern \"C\" fn tribunal_release(_state: *mut std::ffi::c_void) {\n    \
                 // For a state made by `Box::into_raw`: `drop(Box::from_raw(state.cast::<YourState>()))`.\n}\n";
    }
    text
}

fn member(field: &Field, tensor: &str) -> String {
    let (ty, doc) = match field.kind {
        Kind::Tensor(shape) => (tensor, format!("{shape}: {}", field.doc)),
        Kind::Real => ("f64", field.doc.to_owned()),
        Kind::Integer => ("i64", field.doc.to_owned()),
        Kind::State => ("*mut c_void", field.doc.to_owned()),
    };
    format!("    /// {doc}.\n    pub {}: {ty},\n", field.name)
}

pub(super) fn camel(name: &str) -> String {
    name.split('_')
        .map(|word| {
            let (head, tail) = word.split_at(1.min(word.len()));
            head.to_uppercase() + tail
        })
        .collect()
}

const TENSOR: &str = r#"/// DLPack's `DLTensor`.
#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    /// 1: main memory.
    pub device_type: i32,
    pub device_id: i32,
    pub ndim: i32,
    /// 0 integer, 2 float, 4 bfloat.
    pub dtype_code: u8,
    pub dtype_bits: u8,
    pub dtype_lanes: u16,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

impl DLTensor {
    /// Extent of each axis.
    ///
    /// # Safety
    /// The tensor is one that the caller of an operation handed in, during that call.
    pub unsafe fn shape(&self) -> &[i64] {
        if self.ndim == 0 {
            return &[];
        }
        // SAFETY: the contract gives `ndim` extents.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// Number of elements.
    ///
    /// # Safety
    /// As for `shape`.
    pub unsafe fn count(&self) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.shape() }.iter().product::<i64>() as usize
    }

    /// Whether the elements are IEEE floats of `T`'s width.
    pub fn is_float<T>(&self) -> bool {
        self.dtype_code == 2 && usize::from(self.dtype_bits) == 8 * std::mem::size_of::<T>()
    }

    /// The elements.
    ///
    /// # Safety
    /// As for `shape`, and `T` is of the tensor's dtype.
    pub unsafe fn elements<T>(&self) -> &[T] {
        // SAFETY: the contract gives contiguous elements; the type is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.count()) }
    }

    /// The elements of an output.
    ///
    /// # Safety
    /// As for `elements`, and the tensor is an output.
    pub unsafe fn elements_mut<T>(&mut self) -> &mut [T] {
        // SAFETY: as for `elements`; outputs overlap nothing.
        unsafe { std::slice::from_raw_parts_mut(self.data.cast(), self.count()) }
    }
}

/// Writes `why` at `message` and returns the status of a refusal.
///
/// # Safety
/// `message` is that of the record at hand.
pub unsafe fn refuse(message: *mut c_char, why: &str) -> i32 {
    let length = why.len().min(MESSAGE_BYTES - 1);
    // SAFETY: `message` has room for MESSAGE_BYTES bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(why.as_ptr(), message.cast(), length);
        *message.add(length) = 0;
    }
    1
}
"#;
