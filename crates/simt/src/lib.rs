//! CUDA without a GPU: kernels run as PTX on a CPU, every access is checked and every byte counted.
//!
//! What a GPU hides is what matters to a judge of kernels: reads of what nobody wrote, threads that race, a barrier that some never
//! reach, a shuffle that asks a lane that is not there, and how many bytes and sectors a launch asks of the memory. Time is not to be had
//! here, and nothing is said of it.
//!
//! A text becomes a [`Module`](ptx::Module), a module's entry a [`Kernel`](program::Kernel), and a kernel runs on a [`Memory`](memory::Memory).

#![deny(unsafe_code)]

pub mod address;
mod alu;
pub mod execute;
pub mod fault;
pub mod launch;
pub mod memory;
pub mod meter;
pub mod origins;
pub mod program;
pub mod ptx;
mod registers;
mod shadow;
pub mod shared;
