//! Submissions of every language, honest and hostile, each in its cage.

mod builds;
mod cuda;
mod faults;
mod held;
mod hostile;
mod memory;
mod round_trips;
mod states;
mod tampering;
mod toy;
mod values;
