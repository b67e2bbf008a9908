//! A host that lies in every message, to a script. Whatever it says and whenever, the judge is done in time, takes nothing for an answer but the
//! bytes that stood in the outputs at DONE, and calls everything else a fault of the submission.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::{Index, select};
use tribunal_contract::{Answer, Fault, StateId};
use tribunal_hostile::{bytes, cases, mutated};
use tribunal_runner::{Artefact, MachineError, Session, SessionLimits, Submission, Trouble};

use crate::toy::{Example, Toy, c_source, cage, forward, skip, workshop};

/// What [`POISON`] bytes are read as.
const POISON: u8 = 0xf0;
/// What the script writes over its outputs.
const FILLED: u8 = 0x3f;

const LOADED: &str = r#"{"t":"loaded","operations":["forward","backward"]}"#;
const MAPPED: &str = r#"{"t":"mapped"}"#;
const READY: &str = r#"{"t":"ready"}"#;
const SETTLED: &str = r#"{"t":"settled","problem":null}"#;
const RELEASED: &str = r#"{"t":"released"}"#;
const FAILED: &str = r#"{"t":"failed","problem":{"kind":"refused","message":"no"}}"#;

/// A step of a host's script.
#[derive(Debug, Clone)]
enum Step {
    /// Waits for the judge's next packet.
    Hear,
    Say(Vec<u8>),
    /// Says the same until the judge hangs up.
    SayForEver(Vec<u8>),
    /// Says DONE for what was heard last, with these bits changed and so many bytes long.
    Done {
        mask: [u8; 24],
        bytes: u8,
    },
    /// Writes a byte all over the outputs.
    Fill,
    HangUp,
    Exit(u8),
    Kill(u8),
}

impl Step {
    fn say(text: &str) -> Self {
        Self::Say(text.into())
    }

    const DONE: Self = Self::Done { mask: [0; 24], bytes: 24 };

    fn write(&self, script: &mut Vec<u8>) {
        let (operation, data) = match self {
            Self::Hear => (b'h', vec![]),
            Self::Say(packet) => (b's', packet.clone()),
            Self::SayForEver(packet) => (b'l', packet.clone()),
            Self::Done { mask, bytes } => (b'd', [&[*bytes], &mask[..]].concat()),
            Self::Fill => (b'f', vec![FILLED]),
            Self::HangUp => (b'c', vec![]),
            Self::Exit(code) => (b'x', vec![*code]),
            Self::Kill(signal) => (b'k', vec![*signal]),
        };
        script.push(operation);
        script.extend((data.len() as u32).to_ne_bytes());
        script.extend(data);
    }
}

/// The script of an honest host: two calls, and a release in between. After the load and the release it hears nothing: what it says next answers what
/// it hears next.
fn honest() -> Vec<Step> {
    use Step::{Fill, Hear};
    let call = || [Hear, Step::say(READY), Hear, Fill, Step::DONE, Hear, Step::say(SETTLED)];
    let mut script = vec![Step::say(LOADED), Hear, Step::say(MAPPED)];
    script.extend(call());
    script.extend([Hear, Step::say(RELEASED)]);
    script.extend(call());
    script
}

/// The submission that follows scripts, built once.
struct Follower {
    toy: Toy,
    submission: Submission,
    artefact: Artefact,
}

impl Follower {
    /// None where there is no compiler, or no cage.
    fn build() -> Option<Self> {
        let toy = c_source(include_str!("script.c"));
        let submission = Submission::open(toy.folder.path()).unwrap();
        match workshop().make(&submission, &|_| {}) {
            Ok(artefact) => Some(Self { toy, submission, artefact }),
            Err(Trouble::Machine(missing @ (MachineError::Missing { .. } | MachineError::NoCage { .. }))) => {
                skip(&missing);
                None
            }
            Err(trouble) => panic!("{trouble}"),
        }
    }

    fn start(&self, script: &[Step], limits: SessionLimits) -> Result<Session, Trouble> {
        let mut written = Vec::new();
        script.iter().for_each(|step| step.write(&mut written));
        fs::write(self.toy.folder.path().join("script"), written).unwrap();
        Session::start(&cage(), &self.submission, &self.artefact, limits)
    }

    /// The answers to two calls with a release in between, and what put an end to it.
    fn run(&self, script: &[Step]) -> (Vec<Answer>, Result<(), Trouble>) {
        let mut answers = Vec::new();
        let end = self.start(script, hasty()).and_then(|mut session| {
            let example = Example::new(2, 3);
            let end = (|| {
                answers.push(forward(&mut session, &example, StateId(0))?);
                session.release(StateId(0))?;
                answers.push(forward(&mut session, &example, StateId(1))?);
                Ok(())
            })();
            if let (Err(Trouble::Fault(fault)), Some(dead)) = (&end, session.dead()) {
                assert_eq!(fault, dead);
                let again = forward(&mut session, &example, StateId(2)).map(drop);
                assert_eq!(again, end, "who is dead stays dead");
            }
            end
        });
        (answers, end)
    }
}

/// Deadlines that are not worth waiting for.
fn hasty() -> SessionLimits {
    SessionLimits { call_s: 0.25, load_s: 0.25, ..SessionLimits::default() }
}

/// Fails if `work` takes longer than any deadline of the session, however busy the machine.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(100)).expect("the judge does not hang, and does not panic")
}

/// What the judge may make of a host, whatever that does.
fn hold(answers: &[Answer], end: &Result<(), Trouble>) {
    for answer in answers {
        let bytes = answer.outputs[0].bytes();
        assert!(
            bytes.iter().all(|byte| *byte == POISON)
                || bytes.iter().all(|byte| *byte == FILLED)
                || answer.changed_late,
            "bytes that nobody wrote: {bytes:?}"
        );
        // Who does not listen to everything may take the inputs for the outputs.
        assert!(answer.inputs_changed.iter().all(|index| *index < 3), "{answer:?}");
        assert!(answer.wall_s > 0.0 && answer.wall_s < 50.0 && answer.cpu_s >= 0.0, "{answer:?}");
    }
    if let Err(Trouble::Machine(error)) = end {
        panic!("the machine is blamed for what the submission did: {error}");
    }
    assert!(end.is_err() || answers.len() == 2);
}

/// What a host does in place of one of its steps.
#[derive(Debug, Clone)]
enum Lie {
    InPlace(Vec<Step>),
    /// Another step's words.
    Swap(Index),
    /// The step is left out.
    Skip,
    /// The step is done again and again.
    Repeat(usize),
    /// The judge is not waited for any more.
    Early,
}

fn lie() -> impl Strategy<Value = Lie> {
    let words = select(vec![LOADED, MAPPED, READY, SETTLED, RELEASED, FAILED]);
    let said = words.clone().prop_flat_map(bytes);
    let changed = words.clone().prop_flat_map(mutated);
    let settled = r#"{"t":"settled","problem":{"kind":"wrong_result","message":"12"}}"#;
    let done = (any::<[u8; 24]>(), any::<u32>(), prop_oneof![Just(24_u8), 0..=200_u8]).prop_map(
        |(noise, kept, bytes)| {
            let mut mask = noise;
            (0..24).filter(|bit| kept >> bit & 1 == 1).for_each(|bit| mask[bit] = 0);
            Step::Done { mask, bytes }
        },
    );
    let step = prop_oneof![
        4 => changed.prop_map(Step::Say),
        2 => mutated(settled).prop_map(Step::Say),
        2 => words.prop_map(Step::say),
        1 => (60_000..80_000_usize).prop_map(|bytes| Step::Say(vec![b'['; bytes])),
        3 => done,
        1 => said.prop_map(Step::SayForEver),
        1 => Just(Step::Fill),
        1 => Just(Step::Hear),
        1 => Just(Step::HangUp),
        1 => any::<u8>().prop_map(Step::Exit),
        1 => select(vec![6_u8, 7, 8, 9, 11, 13, 15, 19]).prop_map(Step::Kill),
    ];
    prop_oneof![
        5 => proptest::collection::vec(step, 1..4).prop_map(Lie::InPlace),
        1 => any::<Index>().prop_map(Lie::Swap),
        1 => Just(Lie::Skip),
        1 => (2..20_usize).prop_map(Lie::Repeat),
        1 => Just(Lie::Early),
    ]
}

fn lying(lies: &[(Index, Lie)]) -> Vec<Step> {
    let mut script = honest();
    for (at, lie) in lies {
        let at = at.index(script.len());
        match lie {
            Lie::InPlace(steps) => drop(script.splice(at..=at, steps.clone())),
            Lie::Swap(with) => {
                let with = with.index(script.len());
                script.swap(at, with);
            }
            Lie::Skip => drop(script.remove(at)),
            Lie::Repeat(times) => drop(script.splice(at..at, vec![script[at].clone(); *times])),
            Lie::Early => {
                let mut index = 0;
                script.retain(|step| {
                    index += 1;
                    index <= at || !matches!(step, Step::Hear)
                });
            }
        }
        if script.is_empty() {
            break;
        }
    }
    script
}

#[test]
fn whatever_a_host_says_the_judge_is_done_in_time_and_believes_nothing_else() {
    let Some(follower) = Follower::build() else { return };
    let follower = std::sync::Arc::new(follower);
    let run = |script: Vec<Step>| {
        let follower = follower.clone();
        in_time(move || follower.run(&script))
    };
    let (answers, end) = run(honest());
    // The deadlines are short; a machine that is busy keeps honest hosts from meeting them.
    if !matches!(end, Err(Trouble::Fault(Fault::Deadline { .. }))) {
        assert_eq!(end, Ok(()), "the script of an honest host");
        assert!(answers.iter().all(|answer| answer.outputs[0].bytes() == [FILLED; 24]));
    }
    proptest!(cases(96), |(lies in proptest::collection::vec((any::<Index>(), lie()), 1..3))| {
        let (answers, end) = run(lying(&lies));
        hold(&answers, &end);
    });
}

/// The script of an honest host up to its answer to the first PREPARE.
fn until_ready() -> Vec<Step> {
    vec![Step::say(LOADED), Step::Hear, Step::say(MAPPED), Step::Hear, Step::say(READY)]
}

#[test]
fn a_host_that_dies_between_two_halves_of_a_call_is_no_trouble_of_the_machine() {
    let Some(follower) = Follower::build() else { return };
    let limits = SessionLimits { call_s: 5.0, load_s: 20.0, ..SessionLimits::default() };
    let example = Example::new(2, 3);
    let ends = [
        (Step::Exit(0), Fault::Exited { code: 0 }),
        (Step::Kill(11), Fault::Crashed { signal: "SIGSEGV".into(), at_input: false, said: String::new() }),
        (Step::HangUp, Fault::Protocol { message: "it hung up and went on running".into() }),
    ];
    for (end, fault) in ends {
        let mut session = follower.start(&[until_ready(), vec![end]].concat(), limits.clone()).unwrap();
        session.prepare(&example.call(StateId(0))).unwrap();
        // It is gone and reaped by now.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(session.go(&example.call(StateId(0))).map(drop), Err(Trouble::Fault(fault.clone())));

        // Dead while it is weighed.
        let script = [until_ready(), vec![Step::Hear, Step::Fill, Step::DONE, Step::Exit(3)]].concat();
        let mut session = follower.start(&script, limits.clone()).unwrap();
        let weighed = session.call_weighed(&example.call(StateId(0))).map(drop);
        assert_eq!(weighed, Err(Trouble::Fault(Fault::Exited { code: 3 })));
    }
    let mut session = follower.start(&[Step::say(LOADED), Step::Exit(4)], limits).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(session.memory().map(drop), Err(Trouble::Fault(Fault::Exited { code: 4 })));
    let idle = session.idle_cpu_s(Duration::from_millis(1));
    assert_eq!(idle, Err(Trouble::Fault(Fault::Exited { code: 4 })));
}

#[test]
fn a_host_that_answers_and_never_listens_does_not_stop_the_judge() {
    let Some(follower) = Follower::build() else { return };
    let fault = in_time(move || {
        let script = [Step::say(LOADED), Step::Hear, Step::say(MAPPED), Step::SayForEver(FAILED.into())];
        let limits = SessionLimits { load_s: 1.0, ..SessionLimits::default() };
        let mut session = follower.start(&script, limits).unwrap();
        let example = Example::new(2, 3);
        let started = Instant::now();
        // Every refusal leaves a message unread, until there is no room for another.
        loop {
            match forward(&mut session, &example, StateId(0)).unwrap_err() {
                Trouble::Fault(Fault::Refused { .. }) => assert!(started.elapsed() < Duration::from_secs(60)),
                trouble => return trouble,
            }
        }
    });
    assert_eq!(fault, Trouble::Fault(Fault::Deadline { limit_s: 1.0 }));
}
