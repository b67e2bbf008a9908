//! One call, from the judge's side.

use std::time::{Duration, Instant};

use tribunal_contract::{Answer, Argument, Call, Field, Kind, Operation, TensorSpec};

use super::ended::Heard;
use super::verify::{Handed, Watched};
use super::{Session, SessionLimits};
use crate::arena::{Access, GUARD_BYTES, PAGE_BYTES, Shared, Slot, lay_out, roomy};
use crate::gauge::{self, Memory};
use crate::wire::{Disturbed, Expected, FromHost, Input, Place, Placed, Prepare, ToHost, fixed};
use crate::{MachineError, Trouble};

/// A call that the host is ready for.
pub(super) struct Pending {
    inputs: Shared,
    input_slots: Vec<Slot>,
    watched: Watched,
    /// Seconds that the host worked on it beyond what preparing any call may take.
    early_s: f64,
}

/// Seconds of work in which any host has prepared a call with so many bytes of inputs: a millisecond, and half a nanosecond a byte to map them. The slowest
/// of 1000 took 0.5 ms and 0.2 ns a byte where seven programs shared two processors.
///
/// A host belongs to its submission, and could do what earlier calls left undone. What it works beyond this counts as part of the call.
fn readiness_s(bytes: usize) -> f64 {
    1e-3 + bytes as f64 / 2e9
}

/// Seconds of work in which any host that has said that it is ready has gone to sleep: twice what the slowest of 1000 took. What it works beyond
/// this while the inputs are written counts as part of the call.
const ASLEEP_S: f64 = 50e-6;

impl Session {
    /// The untimed half of a call: hands over what is known before the inputs are. The host waits for [`Session::go`] then.
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

        // On pages of its own, so that a state can hold on to one without the others.
        let sizes = call.inputs.iter().filter_map(|argument| match argument {
            Argument::Tensor(tensor) => Some(tensor.bytes().len().next_multiple_of(PAGE_BYTES)),
            _ => None,
        });
        let (input_slots, inputs_total) = lay_out(sizes, 0);
        let (output_slots, outputs_total) =
            lay_out(call.outputs.iter().map(TensorSpec::size_bytes), GUARD_BYTES);
        self.make_room(outputs_total, inputs_total)?;
        let inputs_arena = self.arena_for(call, inputs_total)?;

        let mut offsets = input_slots.iter().map(|slot| slot.offset);
        let inputs = call
            .inputs
            .iter()
            .map(|argument| match *argument {
                Argument::Tensor(tensor) => {
                    let offset = offsets.next().expect("a slot for each tensor");
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
        let outputs = self.host.arenas.outputs.as_ref().expect("room was made");
        let watched = Watched::new(outputs, output_slots, outputs_total, &mut self.random);
        let prepare = ToHost::Prepare(Prepare {
            operation: call.operation.into(),
            inputs_bytes: inputs_arena.capacity(),
            inputs,
            results,
            lets_go: std::mem::take(&mut self.lets_go),
        });
        let (cpu_start, start) = (self.cpu()?, Instant::now());
        let sent = self.host.link.send_json_with(&prepare, &[inputs_arena.fd()]);
        self.host.said(&self.limits, "preparing a call", sent)?;
        match self.hear(self.limits.load_s)? {
            FromHost::Ready {} => {}
            FromHost::Failed { problem } => return Err(self.failed(problem)),
            other => return Err(self.tampered("readiness", &other)),
        }
        let worked_s = self.worked_s(cpu_start, start);
        let early_s = (worked_s - readiness_s(inputs_total)).max(0.0);
        self.host.pending = Some(Pending { inputs: inputs_arena, input_slots, watched, early_s });
        Ok(())
    }

    /// The timed half: writes the inputs of the call that was prepared, releases it, and waits until it is done.
    ///
    /// # Errors
    /// As [`Session::call`].
    ///
    /// # Panics
    /// If no call is prepared.
    pub fn go(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        self.finish(call, None).map(|(answer, _)| answer)
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
        self.finish(call, Some(floor))
    }

    /// The timed half of a call. Says how far memory rose above `floor`, where one is given, before anything else is asked
    /// of the process.
    fn finish(&mut self, call: &Call<'_>, floor: Option<u64>) -> Result<(Answer, u64), Trouble> {
        self.alive()?;
        let Pending { inputs, input_slots, watched, mut early_s } =
            self.host.pending.take().expect("a call is prepared first");
        let handed = Handed::new(&inputs, &input_slots, call);
        let (cpu_start, start) = (self.cpu()?, Instant::now());
        handed.write();
        early_s += (self.worked_s(cpu_start, start) - ASLEEP_S).max(0.0);

        // The number must not be known before: a DONE sent early would be accepted.
        let (id, nonce) = (self.random.next() as u32, self.random.next());
        let (go, limit_s) = (fixed::go(id, nonce), self.limits.call_s);
        let cpu_start = self.cpu()?;
        let start = Instant::now();
        let sent = self.host.link.send(&go);
        self.host.said(&self.limits, "releasing the call", sent)?;
        let heard = self.host.listen(limit_s, Some(&go))?;
        let wall_s = start.elapsed().as_secs_f64() + early_s;

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
        let arena = self.host.arenas.outputs.as_ref().expect("a prepared call has its arenas");
        let seen = watched.sample(arena);
        let mut inputs_changed = handed.glance(&mut self.random);
        let risen = |floor| Memory::of(self.pid()).map(|memory| memory.peak_bytes.saturating_sub(floor));
        let peak = floor.map(risen).transpose();
        let cpu_s = self.host.clock.read().map_or(0.0, |now| (now - cpu_start).as_secs_f64()) + early_s;
        let outputs = watched.copy(arena, &call.outputs);
        let wrote_outside = watched.wrote_outside(arena);
        let copied = watched.sample_of(&outputs);
        inputs_changed.extend(handed.changed());
        inputs_changed.sort_unstable();
        inputs_changed.dedup();

        let settle = fixed::settle(id, nonce);
        let sent = self.host.link.send(&settle);
        self.host.said(&self.limits, "settling the call", sent)?;
        let disturbed = match self.hear(self.limits.load_s)? {
            FromHost::Settled { problem: None, disturbed } if !failed && self.are_results(&disturbed) => {
                disturbed
                    .iter()
                    .map(|Disturbed { operation, result }| format!("{result} of {operation}"))
                    .collect()
            }
            FromHost::Settled { problem: Some(problem), .. } if failed => return Err(self.failed(problem)),
            other => return Err(self.tampered("an account of the call", &other)),
        };
        self.host.states.extend(call.makes);
        match may_keep(call) {
            true => self.host.arenas.hold(inputs),
            false => self.host.arenas.inputs = Some(inputs),
        }
        let arena = self.host.arenas.outputs.as_ref().expect("as above");
        let changed_late = seen != copied || watched.sample(arena) != copied;
        let answer =
            Answer { outputs, wall_s, cpu_s, inputs_changed, wrote_outside, disturbed, changed_late };
        let peak = peak.map_err(|error| self.host.unread(&self.limits, error))?;
        Ok((answer, peak.unwrap_or(0)))
    }

    /// Whether these are results that the contract has: what a host says is shown to people.
    fn are_results(&self, disturbed: &[Disturbed]) -> bool {
        disturbed.iter().all(|Disturbed { operation, result }| {
            let operation = self.challenge.operation(operation);
            operation.is_some_and(|operation| operation.outputs.iter().any(|field| field.name == result))
        })
    }

    /// Seconds that the host has worked since: of many threads, no longer than it has been.
    fn worked_s(&self, cpu_start: Duration, start: Instant) -> f64 {
        let wall_s = start.elapsed().as_secs_f64();
        let cpu_s = self.host.clock.read().map_or(0.0, |now| (now - cpu_start).as_secs_f64());
        wall_s.min(cpu_s)
    }

    /// Makes an arena for so many bytes of outputs unless there is one. The host drops the old one.
    fn make_room(&mut self, outputs_bytes: usize, inputs_bytes: usize) -> Result<(), Trouble> {
        let had = self.host.arenas.outputs.as_ref().map_or(0, Shared::capacity);
        if had > 0 && had >= outputs_bytes {
            return self.within_limit(had + inputs_bytes);
        }
        let capacity = roomy(outputs_bytes.max(had));
        self.within_limit(capacity + inputs_bytes)?;
        self.host.arenas.outputs = None;
        let outputs = Shared::new(capacity, Access::Write)?;
        let message = ToHost::Arena { outputs_bytes: outputs.capacity() };
        let sent = self.host.link.send_json_with(&message, &[outputs.fd()]);
        self.host.said(&self.limits, "sharing memory with the host", sent)?;
        match self.hear(self.limits.load_s)? {
            FromHost::Mapped {} => {
                self.host.arenas.outputs = Some(outputs);
                Ok(())
            }
            FromHost::Failed { problem } => Err(self.failed(problem)),
            other => Err(self.tampered("word of the shared memory", &other)),
        }
    }

    /// Memory for so many bytes of inputs. What a state may hold on to is not used again while there are any.
    fn arena_for(&mut self, call: &Call<'_>, bytes: usize) -> Result<Shared, MachineError> {
        if may_keep(call) {
            let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
            return match self.host.arenas.take_released(bytes) {
                Some(arena) => Ok(arena),
                None => Shared::new(bytes, Access::Write),
            };
        }
        match self.host.arenas.inputs.take().filter(|arena| arena.capacity() >= bytes) {
            Some(arena) => Ok(arena),
            None => Shared::new(roomy(bytes), Access::Write),
        }
    }

    fn within_limit(&self, bytes: usize) -> Result<(), Trouble> {
        let SessionLimits { arena_bytes, .. } = self.limits;
        if bytes as u64 <= arena_bytes {
            return Ok(());
        }
        let error = format!("{bytes} bytes are more than the {arena_bytes} that a session may");
        Err(MachineError::System { doing: "sharing a call's tensors".into(), error }.into())
    }
}

/// Whether a state may hold on to the inputs: the one that the call makes, or one that it is given.
fn may_keep(call: &Call<'_>) -> bool {
    call.makes.is_some() || call.inputs.iter().any(|argument| matches!(argument, Argument::State(_)))
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
