//! One call, from the judge's side.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use tribunal_contract::{Answer, Argument, Call, Field, Kind, Operation, StateId, TensorSpec};

use super::ended::Heard;
use super::verify::Watched;
use super::{Arenas, Session};
use crate::arena::{Access, GUARD_BYTES, Shared, lay_out};
use crate::gauge::{self, Memory};
use crate::wire::{Expected, FromHost, Input, Place, Placed, Prepare, ToHost, fixed};
use crate::{MachineError, Trouble};

/// A call that the host is ready for.
pub(super) struct Pending {
    outputs: Vec<TensorSpec>,
    makes: Option<StateId>,
    watched: Watched,
    tensor_inputs: Vec<bool>,
    /// Seconds that the host worked on it beyond what taking up its inputs may take.
    early_s: f64,
}

/// Seconds of work in which any host has taken up inputs of so many bytes: a millisecond, and a copy to new pages at 0.4 GB/s, twice what the
/// slowest of 700 took where twelve programs shared two processors.
///
/// A host belongs to its submission, and could answer while a call is prepared. What it works beyond this counts as part of the call, so no more
/// than this can be hidden.
fn readiness_s(bytes: usize) -> f64 {
    1e-3 + bytes as f64 / 4e8
}

impl Session {
    /// The untimed half of a call: hands the inputs over. The host waits for [`Session::go`] then.
    ///
    /// # Errors
    /// As [`Session::call`].
    ///
    /// # Panics
    /// If the call is not one of the contract, names a state that is not there, or another call is prepared already.
    pub fn prepare(&mut self, call: &Call<'_>) -> Result<(), Trouble> {
        self.alive()?;
        assert!(self.host.pending.is_none(), "a prepared call is made before the next is prepared");
        let operation = self.challenge.operation(call.operation).expect("the operation is in the contract");
        check(operation, call);

        let sizes = call.inputs.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor.bytes().len()),
            _ => None,
        });
        let (input_slots, inputs_total) = lay_out(sizes, 0);
        let (output_slots, outputs_total) =
            lay_out(call.outputs.iter().map(TensorSpec::size_bytes), GUARD_BYTES);
        self.make_room(inputs_total, outputs_total)?;
        let arenas = self.host.arenas.as_ref().expect("room was made");

        let mut offsets = input_slots.iter().map(|slot| slot.offset);
        let inputs = call
            .inputs
            .iter()
            .map(|argument| match *argument {
                Argument::Tensor(tensor) => {
                    let offset = offsets.next().expect("a slot for each tensor");
                    arenas.inputs.write(offset, tensor.bytes());
                    Input::Tensor(Placed::new(tensor.spec(), offset))
                }
                Argument::Real(value) => Input::Real(value.to_bits()),
                Argument::Integer(value) => Input::Integer(value),
                Argument::State(state) => {
                    assert!(self.host.states.contains(&state), "a state is made before it is used");
                    Input::State(state.0)
                }
            })
            .collect();
        let mut outputs = call.outputs.iter().zip(&output_slots);
        let results = operation
            .outputs
            .iter()
            .map(|field| Expected {
                name: field.name.into(),
                place: match field.kind {
                    Kind::State => Place::State(call.makes.expect("checked above").0),
                    _ => {
                        let (spec, slot) = outputs.next().expect("checked above");
                        Place::Tensor(Placed::new(spec, slot.offset))
                    }
                },
            })
            .collect();
        let watched = Watched::new(&arenas.outputs, output_slots, outputs_total, &mut self.random);
        let (cpu_start, start) = (self.host.clock.read()?, Instant::now());
        self.say(&ToHost::Prepare(Prepare { operation: call.operation.into(), inputs, results }))?;
        match self.hear(self.limits.load_s)? {
            FromHost::Ready {} => {}
            FromHost::Failed { problem } => return Err(self.failed(problem)),
            other => return Err(self.tampered("readiness", &other)),
        }
        let wall_s = start.elapsed().as_secs_f64();
        let cpu_s = self.host.clock.read().map_or(0.0, |now| (now - cpu_start).as_secs_f64());
        let early_s = (wall_s.min(cpu_s) - readiness_s(inputs_total)).max(0.0);
        self.host.pending = Some(Pending {
            early_s,
            outputs: call.outputs.clone(),
            makes: call.makes,
            watched,
            tensor_inputs: call
                .inputs
                .iter()
                .map(|argument| matches!(argument, Argument::Tensor(_)))
                .collect(),
        });
        Ok(())
    }

    /// The timed half: releases the prepared call and waits until it is done.
    ///
    /// # Errors
    /// As [`Session::call`].
    ///
    /// # Panics
    /// If no call is prepared.
    pub fn go(&mut self) -> Result<Answer, Trouble> {
        self.finish(None).map(|(answer, _)| answer)
    }

    /// Makes one call, and tells the bytes that were resident at its peak beyond what was when its inputs and outputs were
    /// in place.
    ///
    /// # Errors
    /// As [`Session::call`].
    ///
    /// # Panics
    /// As [`Session::call`].
    pub fn call_weighed(&mut self, call: &Call<'_>) -> Result<(Answer, u64), Trouble> {
        self.prepare(call)?;
        let pid = self.pid();
        let before = self.memory()?;
        // Where the kernel does not let us forget it, an earlier peak hides as much of this one.
        let floor = if gauge::forget_peak(pid) { before.resident_bytes } else { before.peak_bytes };
        self.finish(Some(floor))
    }

    /// The timed half of a call. Says how far memory rose above `floor`, where one is given, before anything else is asked
    /// of the process.
    fn finish(&mut self, floor: Option<u64>) -> Result<(Answer, u64), Trouble> {
        self.alive()?;
        let pending = self.host.pending.take().expect("a call is prepared first");
        // The number must not be known before: a DONE sent early would be accepted.
        let (id, nonce) = (self.random.next() as u32, self.random.next());
        let (go, limit_s) = (fixed::go(id, nonce), self.limits.call_s);
        let cpu_start = self.cpu()?;
        let start = Instant::now();
        let sent = self.host.link.send(&go);
        self.host.said(&self.limits, "releasing the call", sent)?;
        let heard = self.host.listen(limit_s, Some(&go))?;
        let wall_s = start.elapsed().as_secs_f64() + pending.early_s;

        let failed = match heard {
            Heard::Done(failed) => failed,
            Heard::Closed => return Err(self.host.autopsy(&self.limits, false)),
            Heard::TimedOut => return Err(self.host.too_slow(limit_s)),
            Heard::Other(packet) => {
                return Err(match self.host.understand(&self.limits, &packet) {
                    Err(trouble) => trouble,
                    Ok(_) => self.host.tampered("the end of the call", &packet),
                });
            }
        };
        let arenas = self.host.arenas.as_ref().expect("a prepared call has its arenas");
        let seen = pending.watched.sample(&arenas.outputs);
        let risen = |floor| Memory::of(self.pid()).map(|memory| memory.peak_bytes.saturating_sub(floor));
        let peak = floor.map(risen).transpose();
        let cpu_s =
            self.host.clock.read().map_or(0.0, |now| (now - cpu_start).as_secs_f64()) + pending.early_s;
        let outputs = pending.watched.copy(&arenas.outputs, &pending.outputs);
        let wrote_outside = pending.watched.wrote_outside(&arenas.outputs);
        let copied = pending.watched.sample_of(&outputs);

        let settle = fixed::settle(id, nonce);
        let sent = self.host.link.send(&settle);
        self.host.said(&self.limits, "settling the call", sent)?;
        let inputs_changed = match self.hear(self.limits.load_s)? {
            FromHost::Settled { changed, problem: None } if !failed => changed,
            FromHost::Settled { problem: Some(problem), .. } if failed => return Err(self.failed(problem)),
            other => return Err(self.tampered("an account of the call", &other)),
        };
        if let Some(index) =
            inputs_changed.iter().find(|index| pending.tensor_inputs.get(**index) != Some(&true))
        {
            return Err(self.host.tampered("inputs that changed", index.to_string().as_bytes()));
        }
        self.host.states.extend(pending.makes);
        let arenas = self.host.arenas.as_ref().expect("as above");
        let changed_late = seen != copied || pending.watched.sample(&arenas.outputs) != copied;
        let answer = Answer { outputs, wall_s, cpu_s, inputs_changed, wrote_outside, changed_late };
        let peak = peak.map_err(|error| self.host.unread(&self.limits, error))?;
        Ok((answer, peak.unwrap_or(0)))
    }

    /// Makes arenas for so many bytes unless there are. The host drops the old ones.
    fn make_room(&mut self, inputs_bytes: usize, outputs_bytes: usize) -> Result<(), Trouble> {
        let (had_inputs, had_outputs) = self
            .host
            .arenas
            .as_ref()
            .map_or((0, 0), |arenas| (arenas.inputs.capacity(), arenas.outputs.capacity()));
        if had_inputs > 0 && had_inputs >= inputs_bytes && had_outputs >= outputs_bytes {
            return Ok(());
        }
        self.host.arenas = None;
        let inputs = Shared::new(inputs_bytes.max(had_inputs), Access::Read)?;
        let outputs = Shared::new(outputs_bytes.max(had_outputs), Access::Write)?;
        let together = (inputs.capacity() + outputs.capacity()) as u64;
        if together > self.limits.arena_bytes {
            let error =
                format!("{together} bytes are more than the {} that a session may", self.limits.arena_bytes);
            return Err(MachineError::System { doing: "sharing a call's tensors".into(), error }.into());
        }
        let message = ToHost::Arena { inputs_bytes: inputs.capacity(), outputs_bytes: outputs.capacity() };
        let fds: [BorrowedFd<'_>; 2] = [inputs.fd(), outputs.fd()];
        let sent = self.host.link.send_json_with(&message, &fds);
        self.host.said(&self.limits, "sharing memory with the host", sent)?;
        match self.hear(self.limits.load_s)? {
            FromHost::Mapped {} => {
                self.host.arenas = Some(Arenas { inputs, outputs });
                Ok(())
            }
            FromHost::Failed { problem } => Err(self.failed(problem)),
            other => Err(self.tampered("word of the shared memory", &other)),
        }
    }
}

/// Panics if the call does not fit the contract: that is the judge's bug.
fn check(operation: &Operation, call: &Call<'_>) {
    let name = operation.name;
    assert_eq!(call.inputs.len(), operation.inputs.len(), "arguments of {name}");
    for (Field { name: field, kind, .. }, argument) in operation.inputs.iter().zip(&call.inputs) {
        let fits = matches!(
            (kind, argument),
            (Kind::Tensor(_), Argument::Tensor(_))
                | (Kind::Real, Argument::Real(_))
                | (Kind::Integer, Argument::Integer(_))
                | (Kind::State, Argument::State(_))
        );
        assert!(fits, "{field} of {name} is {kind:?}, got {argument:?}");
    }
    let tensors = operation.outputs.iter().filter(|field| field.kind != Kind::State).count();
    assert_eq!(call.outputs.len(), tensors, "results of {name}");
    assert_eq!(call.makes.is_some(), operation.makes_state(), "state of {name}");
}
