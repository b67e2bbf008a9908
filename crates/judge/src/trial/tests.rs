use rand_chacha::ChaCha8Rng;
use tribunal_contract::{Answer, Call, StateId, Tensor};

use super::*;
use crate::emulated::{BufferTraffic, Traffic};
use crate::measure::Kept;
use crate::workload::{KeepsState, Proof, StateBytes};

/// Eight tokens of a hundred bytes.
struct EightTokens;

impl KeepsState for EightTokens {
    fn name(&self) -> String {
        "8 tokens".to_owned()
    }
    fn make(&self, _: &mut ChaCha8Rng, _: &mut dyn Subject, _: StateId) -> Result<Proof<'_>, Trouble> {
        Ok(Box::new(|_| Ok(None)))
    }
    fn floor_bytes(&self) -> u64 {
        800
    }
    fn pieces(&self) -> Option<(&'static str, usize)> {
        Some(("token", 8))
    }
}

/// What is said of 100 bytes given, and a state of which 1000 had to be read and 200 written; or of which nothing is known but that so
/// much was used.
fn traffic_of(read: f64, used: f64, state: Option<StateBytes>) -> (f64, Vec<(String, Outcome)>) {
    let kept = BufferTraffic {
        size: 5000.0,
        read,
        written: 200.0,
        moved: read + 200.0,
        state: true,
        ..Default::default()
    };
    let x = BufferTraffic { size: 100.0, read: 100.0, moved: 100.0, input: true, ..Default::default() };
    let buffers = [("keys".to_owned(), kept), ("x".to_owned(), x)].into();
    let mut measured = Measured::default();
    measured.traffic("8x8 float32", &Traffic { buffers, given: 100.0, used }, state);
    let findings = measured.findings.iter();
    let findings = findings.map(|finding| (finding.check.clone(), finding.outcome)).collect();
    (measured.measurements[0].floor.unwrap(), findings)
}

#[test]
fn what_is_kept_is_read_once() {
    let state = Some(StateBytes { read: 1000.0, written: 200.0, scaled: false });
    let scaled = Some(StateBytes { read: 1000.0, written: 200.0, scaled: true });
    let said = |reads| {
        let kept = ("reads_state_once".to_owned(), reads);
        let others = ["reads_inputs_once", "intermediates_stay_on_chip", "accesses_are_coalesced"];
        [vec![kept], others.map(|check| (check.to_owned(), Outcome::Pass)).to_vec()].concat()
    };
    // What was used does not count where it is known what has to be.
    assert_eq!(traffic_of(1000.0, 5000.0, state), (1300.0, said(Outcome::Pass)));
    assert_eq!(traffic_of(4000.0, 5000.0, state), (1300.0, said(Outcome::Fail)));
    assert_eq!(traffic_of(4000.0, 1500.0, None), (1600.0, said(Outcome::Pass)[1..].to_vec()));
    // Scales come with what they scale, up to some.
    assert_eq!(traffic_of(2000.0, 2400.0, state), (1300.0, said(Outcome::Fail)));
    assert_eq!(traffic_of(2000.0, 2400.0, scaled), (1300.0, said(Outcome::Pass)));
    assert_eq!(traffic_of(4000.0, 9600.0, scaled), (1300.0, said(Outcome::Fail)));
}

/// Of inputs of the same size, that is named which is read most often; of memory that is neither given nor kept, how much is moved.
#[test]
fn what_is_read_again_and_what_goes_through_memory_are_named() {
    let input = |read| BufferTraffic { size: 100.0, read, moved: read, input: true, ..Default::default() };
    let own = |size, read: f64, written| BufferTraffic {
        size,
        read,
        written,
        moved: read + written,
        ..Default::default()
    };
    let said = |k: f64, lists: f64| -> Vec<String> {
        let buffers = [
            ("gamma".to_owned(), BufferTraffic { size: 4.0, ..input(400.0) }),
            ("k".to_owned(), input(k)),
            ("lists".to_owned(), own(1000.0, lists, lists)),
            ("out".to_owned(), own(46.0, 0.0, 46.0)),
            ("v".to_owned(), input(100.0)),
        ];
        let mut measured = Measured::default();
        measured.traffic("8x8", &Traffic { buffers: buffers.into(), given: 250.0, used: 0.0 }, None);
        let failed = measured.findings.into_iter().filter(|finding| finding.outcome == Outcome::Fail);
        failed.map(|finding| finding.message).collect()
    };
    assert_eq!(said(100.0, 187.0), Vec::<String>::new());
    assert_eq!(said(300.0, 0.0), ["reads each element of `k` 3.0 times in 8x8; once would do"]);
    assert_eq!(
        said(100.0, 500.0),
        [
            "moves 0.0 MB beside inputs and outputs in 8x8, 4.0 times what must be moved at all, most of it of `lists`: what is not done yet can stay in registers or shared memory"
        ]
    );
}

/// An honest layer norm, a bit of whose results changes from a process and a call on.
struct Drifting {
    honest: Box<dyn Subject>,
    from: (usize, usize),
    processes: usize,
    calls: usize,
}

impl Subject for Drifting {
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, Trouble> {
        let mut answer = self.honest.call(call)?;
        self.calls += 1;
        if (self.processes, self.calls) >= self.from {
            let result = &mut answer.outputs[0];
            let mut bytes = result.bytes().to_vec();
            bytes[0] ^= 1;
            *result = Tensor::from_bytes(result.spec().clone(), bytes);
        }
        Ok(answer)
    }
    fn release(&mut self, state: StateId) -> Result<(), Trouble> {
        self.honest.release(state)
    }
    fn restart(&mut self) -> Result<(), Trouble> {
        (self.processes, self.calls) = (self.processes + 1, 0);
        self.honest.restart()
    }
}

fn differs(from: (usize, usize)) -> Option<String> {
    let challenge = crate::challenges::find("layer_norm_backward").unwrap();
    let plan =
        Plan { seed: crate::Seed::PUBLIC, effort: Effort::Standard, capabilities: vec![], launches: false };
    let honest = challenge.variants().honest[0].stand();
    let mut subject = Drifting { honest, from, processes: 0, calls: 0 };
    let repeats = hear_repeats(challenge, &plan, &mut subject, &crate::Unwatched).unwrap();
    assert_eq!(subject.processes, 2);
    assert_eq!(repeats.tried, "64x512 float32 and 1024x768 float32, twice in each of two processes");
    repeats.differs
}

#[test]
fn a_bit_that_changes_is_seen_wherever_it_does() {
    assert_eq!(differs((3, 0)), None);
    // Two calls tell how large a size may be; four are the first time; the last of the second time is a backward.
    assert_eq!(differs((1, 10)).as_deref(), Some("backward gives other bits in the same process"));
    assert_eq!(differs((2, 0)).as_deref(), Some("forward gives other bits in another process"));
    assert_eq!(differs((2, 8)).as_deref(), Some("backward gives other bits in another process"));
}

fn charges(bytes: f64, claimed: f64) -> Vec<String> {
    let mut measured = Measured::default();
    measured.kept(&EightTokens, Kept { bytes, claimed: Some(claimed), wrong: None });
    let numbers: Vec<(&str, f64)> =
        measured.measurements.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!(numbers[0], ("bytes_per_token", bytes / 8.0));
    assert_eq!(
        (numbers[1].0, numbers[1].1.to_bits()),
        ("claimed_bytes_per_token", (claimed / 8.0).to_bits())
    );
    measured.findings.into_iter().filter_map(|finding| finding.suspect).collect()
}

#[test]
fn what_a_state_says_of_itself_is_held_against_what_is_weighed() {
    assert_eq!(charges(900.0, 900.0), [""; 0]);
    assert_eq!(charges(900.0, 800.0), [""; 0], "an allocator takes its share");
    assert_eq!(charges(900.0, 5000.0), [""; 0], "room for what has not come may be counted");
    assert_eq!(charges(1100.0, 800.0), [""; 0], "and so does what a language puts before objects");
    assert_eq!(charges(1100.0, 700.0), ["nbytes_understated"]);
    assert_eq!(charges(1100.0, f64::NAN), ["nbytes_understated"]);
    assert_eq!(charges(1600.0, 1600.0), ["cache_bloat"]);
    assert_eq!(charges(1600.0, 800.0), ["cache_bloat", "nbytes_understated"]);
}
