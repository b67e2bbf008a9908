//! A call made again: with what must not matter in another way, to see whether it does.

use std::collections::BTreeMap;

use tribunal_contract::launch::{Plan, Role};
use tribunal_contract::{Call, DType, Tensor, TensorSpec};
use tribunal_simt::fault::{Fault, Kind};
use tribunal_simt::launch::Schedule;
use tribunal_simt::memory::{self, Memory};

use super::record::Differing;
use super::{Emulated, Ended, Way, lay_out};

/// What nobody has written may hold: nothing set, as flags and counters like it; numbers larger than any other; NaN and -1.
const FILLS: [u8; 3] = [0x00, 0x7B, 0xFF];

/// Orders at random that are tried where a call takes more than it may in reverse: which warp comes first is as good as tossed in each.
const ORDERS_AT_RANDOM: u64 = 4;

/// Calls that are made again with each of them for a place in a kernel, and with what the call itself has left in its scratch.
const FILLED_WHOLLY: usize = 16;

/// Bytes of buffers, by their turn, that hold what nobody gave.
type Meaningless = BTreeMap<usize, Vec<usize>>;

/// A call that was made, and what came of it.
pub(super) struct Made<'a, 'c> {
    pub call: &'a Call<'c>,
    pub plan: Plan,
    pub states: Option<&'a [memory::Buffer]>,
    /// What modules kept before it.
    pub before: Memory,
    /// What they keep after it.
    pub after: Memory,
    /// What its buffers hold.
    pub buffers: Vec<memory::Buffer>,
}

impl Emulated {
    /// Makes a call that took so many instructions again, in as many ways as it should be. Where another order has another answer, this is what
    /// was made in the end: the court holds against the oracle what it would have got in that order.
    pub(super) fn make_again(&mut self, made: &mut Made<'_, '_>, took: u64) {
        let mut meaningless = Meaningless::new();
        if self.record.is_affordable(took) {
            if made.before.has_kept() && self.record.is_to_be_made_anew() {
                self.make_anew(made);
            }
            if let Some(tried) = self.record.tried() {
                meaningless = self.fill(made, tried);
            }
        }
        let mut kernels = made.plan.launches.iter().map(|launch| &self.kernels[&launch.kernel]);
        let tells = kernels.any(|kernel| kernel.tells_between_barriers());
        if self.record.is_to_be_reordered(tells, took) {
            self.reorder(made, tells, tells && self.record.is_to_be_watched(took));
        }
        for (buffer, bytes) in meaningless {
            made.buffers[buffer].unwrite(bytes);
        }
    }

    /// As if it were the first call of all.
    fn make_anew(&mut self, made: &Made<'_, '_>) {
        let differing = match self.again(made, Memory::new(), Way::default(), |_| ()) {
            Ok(()) => self.differing(made).map(|differing| differing.buffer),
            Err(ended) => (!ended.is_late()).then(|| "end".to_owned()),
        };
        if let Some(what) = differing {
            self.record.remembers(made.call.operation, what);
        }
    }

    /// With other contents of what nobody has written; for the values used in it that was tried in so many calls. What of a state holds something
    /// else then means nothing to this call, as whoever copies a page that is not full leaves it: whether a later one uses it is for that to show.
    fn fill(&mut self, made: &Made<'_, '_>, tried: usize) -> Meaningless {
        let (mut matters, mut meaningless) = (false, Meaningless::new());
        let mut try_with = |fill: u8, fill_in: &dyn Fn(&mut Memory)| {
            let came = self.again(made, made.before.clone(), Way { fill, ..Way::default() }, fill_in);
            if came.as_ref().is_err_and(Ended::is_late) {
                return;
            }
            // What modules keep comes into the next call.
            matters |= came.is_err() || !self.memory.keeps_what(&made.after);
            let buffers = made.plan.buffers.iter().zip(&made.buffers).zip(self.memory.buffers());
            for (index, ((buffer, first), second)) in buffers.enumerate() {
                match buffer.role {
                    Role::State(_) if first.is_written_like(second) => {
                        let bytes = first.differing(second).collect::<Vec<_>>();
                        if !bytes.is_empty() {
                            meaningless.entry(index).or_default().extend(bytes);
                        }
                    }
                    Role::Output(_) | Role::State(_) | Role::Status => matters |= !first.holds_what(second),
                    Role::Input(_) | Role::Scratch => (),
                }
            }
        };
        for &fill in fills(tried) {
            try_with(fill, &|memory| memory.refill(fill));
        }
        if tried < FILLED_WHOLLY {
            try_with(Way::default().fill, &|memory| memory.leave(&made.buffers));
        }
        self.record.settle(matters, !meaningless.is_empty());
        meaningless
    }

    /// In another order. Where a warp that gets far ahead takes more than it may, it is some in which all take turns at odd moments that decide whether
    /// the call comes to its end: an honest look at what others are to change may be long in the first.
    fn reorder(&mut self, made: &mut Made<'_, '_>, tells: bool, watched: bool) {
        let mut way =
            Way { schedule: self.record.other_order(), watched, shows_past: watched, ..Way::default() };
        let mut came = self.in_order(made, way);
        let is_endless = |came: &_| matches!(came, Err(Ended { is_endless: true, .. }));
        if is_endless(&came) {
            for seed in 0..ORDERS_AT_RANDOM {
                way.schedule = Schedule::Random(seed);
                came = self.in_order(made, way);
                if came.is_err() {
                    break;
                }
            }
        }
        if came.as_ref().is_err_and(Ended::is_late) {
            return;
        }
        if self.is_other(made, &came) {
            let other = std::mem::take(&mut self.memory);
            let Some(looks) = self.looks_that_matter(made, way, tells) else { return };
            if is_endless(&came) && looks.iter().any(|look| look.kind == Kind::UnseenWrite) {
                // Who looks once more took more than it may, and what is there now is what came of it in time.
                came = Ok(());
            } else {
                self.memory = other;
                if !looks.is_empty() {
                    self.record.note_unordered(&looks);
                }
            }
        }
        match came {
            Ok(()) => {
                let differing = self.differing(made);
                if differing.is_some() {
                    made.buffers = self.memory.take();
                    made.after = std::mem::take(&mut self.memory);
                }
                let is_known = self.record.hangs_on_looks();
                self.record.compared(made.call.operation, differing.filter(|_| !is_known));
            }
            Err(Ended { trouble, .. }) => self.record.stopped(made.call.operation, trouble.to_string()),
        }
    }

    /// Of results that are others in another way: the looks that they hang on, if they are those of the first order again in the same way but that all see
    /// at once what was written, or that lanes of a warp go together. Otherwise it is the order itself. None where that took too long.
    fn looks_that_matter(&mut self, made: &Made<'_, '_>, way: Way, tells: bool) -> Option<Vec<Fault>> {
        let looks = std::mem::take(&mut self.unordered);
        let at_once = Way { watched: false, shows_past: false, ..way };
        if !looks.is_empty() {
            let same = self.in_order(made, at_once);
            if same.as_ref().is_err_and(Ended::is_late) {
                return None;
            }
            if !self.is_other(made, &same) {
                return Some(looks);
            }
        }
        if tells && way.schedule == Schedule::Reverse && !self.record.hangs_on_looks() {
            let same = self.in_order(made, Way { watched: true, in_step: true, ..at_once });
            if same.as_ref().is_err_and(Ended::is_late) {
                return None;
            }
            if !self.is_other(made, &same) {
                return Some(std::mem::take(&mut self.unordered));
            }
        }
        Some(Vec::new())
    }

    /// Makes a call again in a way that may let its threads run in another order.
    fn in_order(&mut self, made: &Made<'_, '_>, way: Way) -> Result<(), Ended> {
        self.unordered.clear();
        self.again(made, made.before.clone(), way, |_| ())
    }

    /// Whether a call that was made again came to something else.
    fn is_other(&self, made: &Made<'_, '_>, came: &Result<(), Ended>) -> bool {
        came.is_err() || self.differing(made).is_some()
    }

    /// Makes a call again in a memory that holds this.
    fn again(
        &mut self,
        made: &Made<'_, '_>,
        memory: Memory,
        way: Way,
        fill_in: impl Fn(&mut Memory),
    ) -> Result<(), Ended> {
        self.memory = memory;
        let pointers = lay_out(&made.plan, made.call, made.states, &mut self.memory);
        fill_in(&mut self.memory);
        self.launch_all(made.call.operation, &made.plan, &pointers, way, None)
    }

    /// A buffer that holds something else than it did at first, of those that anybody sees afterwards.
    fn differing(&self, made: &Made<'_, '_>) -> Option<Differing> {
        let mut buffers = made.plan.buffers.iter().zip(&made.buffers).zip(self.memory.buffers());
        buffers.find_map(|((buffer, first), second)| {
            let seen = matches!(buffer.role, Role::Output(_) | Role::State(_) | Role::Status);
            (seen && !first.holds_what(second)).then(|| {
                let how = match buffer.role {
                    Role::Output(index) => how_they_differ(&made.call.outputs[index], first, second),
                    _ => String::new(),
                };
                Differing { buffer: buffer.name.clone(), how }
            })
        })
    }
}

/// In which elements an output is another, and what the first of them was and is.
fn how_they_differ(spec: &TensorSpec, first: &memory::Buffer, second: &memory::Buffer) -> String {
    if !first.is_written_like(second) {
        return ": another part of it is written".to_owned();
    }
    let size = spec.dtype.size_bytes();
    let mut elements: Vec<usize> = first.differing(second).map(|byte| byte / size).collect();
    elements.dedup();
    let Some(&at) = elements.first() else { return String::new() };
    let value = |buffer: &memory::Buffer| {
        let bytes = buffer.bytes()[at * size..][..size].to_vec();
        let value = Tensor::from_bytes(TensorSpec::new(spec.dtype, [1]), bytes).get(0);
        if matches!(spec.dtype, DType::Int32 | DType::Int64) {
            format!("{value}")
        } else {
            format!("{value:?}")
        }
    };
    let (was, is) = (value(first), value(second));
    let (count, len) = (elements.len(), spec.len());
    format!(": {count} of {len} elements, first element {at}: {was}, then {is}")
}

/// What is tried in a call where nobody has written, after so many calls: all in the first, later one after the other.
fn fills(tried: usize) -> &'static [u8] {
    if tried < FILLED_WHOLLY { &FILLS } else { &FILLS[tried % FILLS.len()..][..1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_told_by_element_and_value() {
        let buffer = |bytes: Vec<u8>| memory::Buffer::with("indices", memory::Role::Output, 8, bytes);
        let longs = |values: [i64; 4]| buffer(values.iter().flat_map(|value| value.to_le_bytes()).collect());
        let told = how_they_differ(
            &TensorSpec::new(DType::Int64, [2, 2]),
            &longs([5, 300, 7, -1]),
            &longs([5, 44, 7, 9]),
        );
        assert_eq!(told, ": 2 of 4 elements, first element 1: 300, then 44");
        let halves = |values: [f32; 2]| {
            let bits = values.iter().flat_map(|&value| half::f16::from_f32(value).to_le_bytes());
            memory::Buffer::with("y", memory::Role::Output, 2, bits.collect())
        };
        let spec = TensorSpec::new(DType::Float16, [2]);
        let told = how_they_differ(&spec, &halves([1.0, f32::NAN]), &halves([1.0, 0.5]));
        assert_eq!(told, ": 1 of 2 elements, first element 1: NaN, then 0.5");
        let unwritten = memory::Buffer::empty("y", memory::Role::Output, 2, 4);
        assert_eq!(
            how_they_differ(&spec, &halves([1.0, 0.5]), &unwritten),
            ": another part of it is written"
        );
    }
}
